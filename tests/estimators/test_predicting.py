"""The estimator predicts, scores and plots as users of LDA expect; tables are read as they come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

import sdpfeas as sf
from sdpfeas.errors import FileFormatError
from sdpfeas.estimators import WorstCaseLDA
from sdpfeas.io.tables import read_samples


def test_the_nearest_mean_decides() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["one", "two", "three"])[y]
    fitted = WorstCaseLDA(n_components=2).fit(X, names)
    Z = fitted.transform(X)
    means = np.array([Z[names == name].mean(axis=0) for name in fitted.classes_])
    nearest = np.argmin(((Z[:, None] - means) ** 2).sum(axis=2), axis=1)
    assert np.array_equal(fitted.predict(X), fitted.classes_[nearest])
    assert fitted.score(X, names) == np.mean(fitted.predict(X) == names) > 0.95
    wrong = fitted.predict(X) != names
    assert fitted.score(X, names, sample_weight=np.where(wrong, 0.0, 1.0)) == 1.0


def test_a_lone_sample_is_spoken_of() -> None:
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(10, 2)), rng.normal(size=(10, 2)) + 5.0, [[20.0, 0.0]]])
    y = np.array([0] * 10 + [1] * 10 + [7])
    with pytest.warns(UserWarning, match="one sample have no scatter: 7"):
        WorstCaseLDA(n_components=1).fit(X, y)


@pytest.mark.parametrize(
    ("load", "components", "panels"), [(load_iris, 1, 1), (load_iris, 2, 1), (load_wine, 4, 6)]
)
def test_plots(load, components: int, panels: int) -> None:
    pytest.importorskip("matplotlib")
    X, y = load(return_X_y=True)
    fitted = WorstCaseLDA(n_components=components).fit(X, y)
    figure = fitted.plot(X, y)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == panels
    assert f"{fitted.delta_bounds_[1]:.5g}" in figure.get_suptitle()
    words = " ".join(text.get_text() for text in figure.axes[0].get_legend().get_texts())
    assert words.count("closest pair") == 2
    assert f"{fitted.worst_class_}" in words
    assert "widest" in words
    if components > 1:
        assert all(axes.get_aspect() == 1.0 for axes in shown)


@pytest.mark.parametrize(
    ("separator", "first"), [(",", ""), (";", "Id"), ("\t", "rownames"), ("|", "Unnamed: 0")]
)
def test_separators_and_index_columns(tmp_path: Path, separator: str, first: str) -> None:
    lines = [[first, "a", "b", "kind"]] + [
        [str(k), f"{k}.5", "1", "red" if k % 2 else "blue"] for k in range(6)
    ]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(separator.join(line) for line in lines) + "\n")
    samples = read_samples(path)
    assert samples.features == ("a", "b")
    assert samples.X[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert sorted(set(samples.y)) == ["blue", "red"]


def test_an_index_that_counts_nothing_stays(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("index,a,kind\n3,1,x\n1,2,y\n2,3,x\n")
    assert read_samples(path).features == ("index", "a")


def test_continuous_labels_are_refused_unless_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "data.csv"
    rows = rng.normal(size=(40, 3))
    path.write_text("a,b,target\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    with pytest.raises(FileFormatError, match="column target holds 40 different numbers"):
        read_samples(path)
    assert read_samples(path, "target").y.size == 40
    # A whole number may be measured as well; one that comes again and again is somebody's number.
    path.write_text("a,target\n" + "\n".join(f"{k},{k % 30}" for k in range(60)) + "\n")
    with pytest.raises(FileFormatError, match="column target holds 30 different numbers"):
        read_samples(path)
    path.write_text("a,target\n" + "\n".join(f"{k},{k % 30}" for k in range(120)) + "\n")
    assert read_samples(path).y.size == 120
    assert issubclass(FileFormatError, sf.SdpfeasError)
