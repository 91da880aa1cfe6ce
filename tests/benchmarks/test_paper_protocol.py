"""Splits, preprocessing and data files of the paper's protocol."""

import numpy as np
import pytest
from scipy.io import savemat

from benchmarks.paper import protocol
from benchmarks.paper.protocol import PREPROCESSINGS, Task
from benchmarks.paper.summary import published
from benchmarks.paper.targets import TARGETS, find_targets
from sdpfeas.datasets import DataError, load_dataset
from sdpfeas.errors import OptionError

#: Public files with fewer samples than the paper had: UMist has 380 photographs, not 575.
OTHER_VERSIONS = {"umist": (120, 260)}


@pytest.fixture(autouse=True)
def forget_data():
    """Data sets are read once for each process; here every test has its own."""
    protocol.data.cache_clear()
    yield
    protocol.data.cache_clear()


def test_bundled_data_split_as_published():
    assert Task("iris").sizes() == (105, 45)


@pytest.mark.parametrize("table", ["table1", "table3"])
def test_split_sizes_as_published(table, data_dir):
    seen = 0
    for column in TARGETS[table].columns:
        try:
            sizes = column.task.sizes()
        except DataError:
            continue
        if column.key in OTHER_VERSIONS:
            assert sizes == OTHER_VERSIONS[column.key]
            continue
        assert sizes == (published()[table]["train"][column.key], published()[table]["test"][column.key])
        seen += 1
    assert seen >= 4


def test_heart_tells_plain_draws_from_draws_by_class(data_dir):
    # The published 206 are what one draw from all samples gives; by class it would be 207.
    assert Task("heart").sizes() == (206, 88)
    assert Task("heart", by_class=True).sizes() == (207, 87)


def test_a_split_is_a_partition_and_depends_on_its_number_only():
    task = Task("iris")
    a, b, c = task.sample(3), task.sample(3), task.sample(4)
    np.testing.assert_array_equal(a.X, b.X)
    assert not np.array_equal(a.X, c.X)
    rows = np.vstack([a.X, a.X_test])
    whole = load_dataset("iris").X
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(whole, axis=0))


def test_the_same_samples_whatever_is_done_with_them():
    plain = Task("iris").sample(5)
    other = Task("iris", pca=2, components=1).sample(5)
    np.testing.assert_array_equal(plain.y, other.y)
    np.testing.assert_array_equal(plain.y_test, other.y_test)


def test_draws_by_class_have_the_same_number_of_each():
    sample = Task("iris", 0.5, by_class=True).sample(0)
    assert np.bincount(sample.y).tolist() == [25, 25, 25]


@pytest.mark.parametrize(("value", "rounded"), [(12.5, 13), (10.4, 10), (157.5, 158), (0.7 * 1655, 1159)])
def test_halves_are_rounded_up(value, rounded):
    assert protocol._half_up(value) == rounded


def test_everything_is_trained_on_and_tested_with_share_one():
    sample = Task("iris", 1.0, classes=2, components=1).sample(0)
    np.testing.assert_array_equal(sample.X, sample.X_test)
    assert sample.X.shape == (100, 4)
    assert sample.components == 1


@pytest.mark.parametrize("how", PREPROCESSINGS[1:])
def test_preprocessing_learns_from_training_samples_alone(how):
    rng = np.random.default_rng(1)
    A, B = rng.normal(3.0, [1, 5, 9], (60, 3)), rng.normal(0.0, 1.0, (20, 3))
    y = np.arange(60) % 3
    first = protocol._preprocessed(how, A, y, B)
    second = protocol._preprocessed(how, A, y, 100.0 * B)
    np.testing.assert_array_equal(first[0], second[0])
    assert not np.allclose(first[0], A)


def test_whitening_whitens():
    rng = np.random.default_rng(1)
    A = rng.normal(3.0, [1, 5, 9], (60, 3)) @ rng.normal(size=(3, 3))
    y = np.arange(60) % 3
    white, _ = protocol._preprocessed("whitened", A, y, A)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(3), atol=1e-12)
    within, _ = protocol._preprocessed("within-whitened", A, y, A)
    means = np.array([within[y == k].mean(axis=0) for k in y])
    np.testing.assert_allclose((within - means).T @ (within - means) / 60, np.eye(3), atol=1e-12)


def test_unknown_preprocessing_is_refused():
    with pytest.raises(OptionError, match="no preprocessing is called 'magic'"):
        Task("iris", preprocessing="magic").sample(0)


def test_principal_components_are_as_many_as_there_are():
    assert Task("iris", pca=800).sample(0).X.shape == (105, 4)
    assert Task("iris", pca=2).sample(0).X.shape == (105, 2)


def test_labels_of_different_tasks_differ():
    tasks = {column.task for target in TARGETS.values() for column in target.columns}
    assert len({task.label for task in tasks}) == len(tasks)


def test_targets_are_those_of_the_paper():
    names = {"table1", "table2", "table3", "table4", "table5", "table6", "fig1", "fig2", "fig3", "visual"}
    assert names | {"waveform", "letters", "umist"} == set(TARGETS)
    assert [target.name for target in find_targets("all")] == list(TARGETS)
    assert {column.runs for column in TARGETS["table1"].columns} == {30}
    assert [c.runs for c in TARGETS["table3"].columns] == [5, 10, 5, 10, 10, 5, 5, 10, 10]
    assert [c.task.pca for c in TARGETS["table3"].columns] == [100, 50, 60, 100, 100, 80, 100, 80, 80]
    with pytest.raises(OptionError, match="no table or figure is called 'table7'"):
        find_targets("table7")


def test_quick_is_a_part_of_the_whole():
    for target in TARGETS.values():
        quick = target.quick()
        assert {column.task for column in quick.columns} <= {column.task for column in target.columns}
        assert all(column.runs <= 3 for column in quick.columns)


# ---------------------------------------------------------------- data files


def put(folder, name, **arrays):
    (folder / "wlda").mkdir(exist_ok=True)
    savemat(folder / "wlda" / name, arrays)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("coil20", "COIL20.mat"),
        ("coil30", "COIL30_64x64.mat"),
        ("aloi", "ALOI_58x77.mat"),
        ("pie", "Pose29_64x64.mat"),
    ],
)
def test_images_in_rows_are_read(name, file, tmp_path, monkeypatch):
    monkeypatch.setenv("SDPFEAS_DATA", str(tmp_path))
    with pytest.raises(DataError, match=file):
        load_dataset(name)
    put(tmp_path, file, fea=np.arange(24).reshape(6, 4), gnd=np.repeat([1, 2, 3], 2)[:, None])
    found = load_dataset(name)
    assert found.X.shape == (6, 4)
    assert found.y.tolist() == [1, 1, 2, 2, 3, 3]


def test_umist_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("SDPFEAS_DATA", str(tmp_path))
    stacks = np.empty((1, 2), dtype=object)
    stacks[0, 0] = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)
    stacks[0, 1] = np.zeros((4, 3, 5), dtype=np.uint8)
    put(tmp_path, "umist_cropped.mat", facedat=stacks)
    found = load_dataset("umist")
    assert found.X.shape == (7, 12)
    assert found.y.tolist() == [0, 0, 1, 1, 1, 1, 1]
    np.testing.assert_array_equal(found.X[1], np.arange(1, 24, 2))


def test_a_file_with_other_content_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SDPFEAS_DATA", str(tmp_path))
    put(tmp_path, "umist_cropped.mat", other=np.zeros(3))
    with pytest.raises(DataError, match="not the expected file"):
        load_dataset("umist")
