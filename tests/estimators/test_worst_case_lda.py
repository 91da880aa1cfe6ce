"""The scikit-learn estimator: its contract, its values, its behaviour on odd and on bad data."""

import math
import pickle
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known import BUNDLED, FILES, contains

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataDimensionalityWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sdpfeas.datasets import prepared
from sdpfeas.errors import ProblemError
from sdpfeas.estimators import WorstCaseLDA
from sdpfeas.estimators.projection_refinement import RatioObjective, refine_projection
from sdpfeas.families.class_scatter import ClassScatter


def blobs(seed=0, classes=3, features=4, samples=8):
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.standard_normal((classes, features))
    X = np.concatenate([c + rng.standard_normal((samples, features)) for c in centres])
    return X, np.repeat(np.arange(classes), samples)


def slow_ratio(X, y, W):
    """The ratio by its definition; W has orthonormal columns."""
    groups = [X[y == k] @ W for k in np.unique(y)]
    means = [g.mean(axis=0) for g in groups]
    least = min(np.sum((a - b) ** 2) for i, a in enumerate(means) for b in means[:i])
    most = max(np.sum((g - m) ** 2) / len(g) for g, m in zip(groups, means, strict=True))
    return least / most


@parametrize_with_checks([WorstCaseLDA()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# ---------------------------------------------------------------- values


def check_fit(wlda, X, y):
    lower, upper = wlda.delta_bounds_
    assert wlda.proven_
    assert wlda.converged_
    assert lower <= wlda.delta_ <= upper
    assert wlda.ratio_ <= upper * (1 + 1e-12)
    assert wlda.relaxation_gap_ == pytest.approx(1.0 - wlda.ratio_ / upper, abs=1e-12)
    W = wlda.components_.T
    np.testing.assert_allclose(W.T @ W, np.eye(W.shape[1]), atol=1e-12)
    assert wlda.ratio_ == pytest.approx(slow_ratio(X, y, W), rel=1e-6)
    np.testing.assert_allclose(wlda.transform(X), (X - X.mean(axis=0)) @ W)


@pytest.mark.parametrize(("name", "standardize", "delta"), BUNDLED)
def test_known_values(name, standardize, delta):
    X, y = prepared(name, standardize=standardize)
    wlda = WorstCaseLDA(tol=1e-6).fit(X, y)
    check_fit(wlda, X, y)
    lower, upper = wlda.delta_bounds_
    assert contains(lower, upper, delta)
    assert upper - lower <= 1e-6 * upper


@pytest.mark.slow
@pytest.mark.usefixtures("data_dir")
@pytest.mark.parametrize(("name", "standardize", "delta"), FILES)
def test_known_values_of_files(name, standardize, delta):
    X, y = prepared(name, standardize=standardize)
    lower, upper = WorstCaseLDA(tol=1e-6).fit(X, y).delta_bounds_
    assert contains(lower, upper, delta)
    assert upper - lower <= 1e-6 * upper


@pytest.mark.parametrize("solver", ["dual-lbfgs", "spectral-ipm"])
@pytest.mark.parametrize("formulation", ["compact", "paper"])
def test_named_solvers_bisect_to_the_same_value(solver, formulation):
    X, y = prepared("wine", standardize=True)
    wlda = WorstCaseLDA(solver=solver, formulation=formulation).fit(X, y)
    check_fit(wlda, X, y)
    assert wlda.delta_bounds_[0] <= 16.4709647 <= wlda.delta_bounds_[1]
    assert wlda.history_


def test_fewer_components():
    X, y = prepared("wine", standardize=True)
    with pytest.warns(ConvergenceWarning, match="none attains more than 16.59: relaxation gap 10%"):
        wlda = WorstCaseLDA(n_components=1, tol=1e-5).fit(X, y)
    check_fit(wlda, X, y)
    assert wlda.transform(X).shape == (178, 1)
    assert wlda.get_feature_names_out().tolist() == ["worstcaselda0"]


def test_all_components_leave_no_choice():
    X, y = blobs()
    wlda = WorstCaseLDA(n_components=4).fit(X, y)
    assert wlda.ratio_ == pytest.approx(slow_ratio(X, y, np.eye(4)))
    assert wlda.delta_ == pytest.approx(wlda.ratio_, rel=1e-3)


def test_scatter_as_a_sum():
    X, y = blobs(classes=2, samples=10)
    mean, total = (WorstCaseLDA(scatter=s, tol=1e-6).fit(X, y) for s in ("mean", "sum"))
    assert total.delta_ == pytest.approx(mean.delta_ / 10, rel=1e-5)


def test_what_limits_the_ratio_is_named():
    X = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1], [10, 0], [10, 5]])
    wlda = WorstCaseLDA(n_components=2).fit(X, ["a", "a", "b", "b", "c", "c"])
    assert wlda.worst_pair_ == ("b", "c")
    assert wlda.worst_class_ == "c"


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(2, 7), st.sampled_from([1e-4, 1.0, 1e5]))
def test_bounds_hold_for_generated_data(seed, classes, features, scale):
    X, y = blobs(seed, classes, features, samples=features + 3)
    wlda = WorstCaseLDA().fit(scale * X, y)
    check_fit(wlda, scale * X, y)


def test_rotation_and_labels_do_not_matter():
    X, y = blobs(seed=5)
    q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))
    first = WorstCaseLDA(tol=1e-6).fit(X, y)
    second = WorstCaseLDA(tol=1e-6).fit(X @ q + 7.0, np.array(["c", "a", "b"])[y])
    assert second.delta_ == pytest.approx(first.delta_, rel=2e-6)
    assert second.ratio_ == pytest.approx(first.ratio_, rel=1e-3)


def test_memory_is_a_small_multiple_of_the_data():
    X, y = blobs(classes=5, features=60, samples=1000)
    WorstCaseLDA().fit(X[::50], y[::50])  # imports
    tracemalloc.start()
    try:
        WorstCaseLDA().fit(X, y)
        assert tracemalloc.get_traced_memory()[1] <= 5 * X.nbytes
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- refinement


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_refinement_is_never_worse(name):
    X, y = prepared(name, standardize=True)
    wlda = WorstCaseLDA(refine=True).fit(X, y)
    assert wlda.rounded_ratio_ <= wlda.ratio_
    check_fit(wlda, X, y)


@pytest.mark.parametrize(
    ("name", "r", "least"), [("wine", 1, 14.85), ("digits", 2, 3.05), ("digits", 6, 4.909)]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
def test_few_components_are_refined_by_default(name, r, least):
    X, y = prepared(name)
    first, second = (WorstCaseLDA(n_components=r).fit(X, y) for _ in range(2))
    assert first.rounded_ratio_ < 0.995 * least < least <= first.ratio_ <= first.delta_bounds_[1]
    np.testing.assert_array_equal(first.components_, second.components_)
    unrefined = WorstCaseLDA(n_components=r, refine=False).fit(X, y)
    assert unrefined.ratio_ == first.rounded_ratio_


def test_default_refinement_leaves_closed_gaps_alone(monkeypatch):
    X, y = prepared("wine", standardize=True)
    monkeypatch.setattr("sdpfeas.estimators.worst_case_lda.refine_projection", None)
    wlda = WorstCaseLDA(n_components=2).fit(X, y)
    assert 0.0 < wlda.relaxation_gap_ < wlda.tol
    with pytest.raises(ValueError, match="refine must be True, False or 'auto'"):
        WorstCaseLDA(refine="always").fit(X, y)


def test_refinement_closes_the_gap_where_rounding_leaves_one():
    # A grid with three overlapping classes, as in the Balance data: the optimal Z has rank four.
    grid = np.stack(np.meshgrid(*[np.arange(1.0, 6.0)] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    y = np.sign(grid[:, 0] * grid[:, 1] - grid[:, 2] * grid[:, 3])
    wlda = WorstCaseLDA(refine=True).fit(grid, y)
    assert wlda.delta_bounds_[0] <= 0.5571432 * (1 + 1e-6)
    assert wlda.delta_bounds_[1] >= 0.5571432 * (1 - 1e-6)
    assert wlda.relaxation_gap_ < 2e-3
    check_fit(wlda, grid, y)


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 8))
def test_refinement_from_anywhere(seed, classes, features):
    X, y = blobs(seed, classes, features)
    objective = RatioObjective(ClassScatter.from_samples(X, y))
    r = min(2, features - 1)
    A, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((features, r)))
    better = refine_projection(objective, A)
    assert objective.value(better) >= objective.value(A)
    np.testing.assert_allclose(better.T @ better, np.eye(r), atol=1e-10)


# ---------------------------------------------------------------- degenerate data


CLEAN = "delta* is infinite: the class scatters share a null space"


def test_infinite_ratio():
    X, y = blobs(features=12, samples=3)
    with pytest.warns(DataDimensionalityWarning) as caught:
        wlda = WorstCaseLDA(refine=True).fit(X, y)
    assert [str(w.message).split(" of")[0] for w in caught] == ["the data have rank 8", CLEAN]
    assert wlda.delta_ == wlda.ratio_ == math.inf
    assert wlda.delta_bounds_ == (math.inf, math.inf)
    assert wlda.relaxation_gap_ == 0.0
    W = wlda.components_.T
    np.testing.assert_allclose(W.T @ W, np.eye(2), atol=1e-12)
    groups = [wlda.transform(X[y == k]) for k in range(3)]
    assert all(np.ptp(g, axis=0).max() < 1e-9 for g in groups)


def test_shrinkage_makes_the_ratio_finite():
    X, y = blobs(features=12, samples=3)
    deltas = []
    for shrinkage in (0.1, 0.5, "auto"):
        with pytest.warns(DataDimensionalityWarning, match="rank 8 of 12"):
            wlda = WorstCaseLDA(shrinkage=shrinkage).fit(X, y)
        assert wlda.proven_
        assert 0.0 < wlda.ratio_ <= wlda.delta_bounds_[1] < math.inf
        deltas.append(wlda.delta_)
    assert deltas[0] > deltas[1]


def test_equal_means_give_zero():
    X = np.array([[0.0, 0], [2, 0], [0, 1], [2, -1], [5, 5], [6, 7]])
    with pytest.warns(UserWarning, match="delta\\* is zero: classes with the same mean: a, b"):
        wlda = WorstCaseLDA(n_components=1).fit(X, ["a", "a", "b", "b", "c", "c"])
    assert wlda.delta_bounds_ == (0.0, 0.0)
    assert wlda.ratio_ == 0.0
    assert wlda.components_.shape == (1, 2)


def test_constant_and_duplicated_features():
    X, y = prepared("iris")
    wide = np.hstack([X, np.full((150, 1), 3.0), X[:, :1]])
    with pytest.warns(DataDimensionalityWarning, match="rank 4 of 6 features"):
        wlda = WorstCaseLDA(tol=1e-5).fit(wide, y)
    check_fit(wlda, wide, y)
    np.testing.assert_allclose(wlda.components_[:, 4], 0.0, atol=1e-12)


def test_vacuous_ratios_are_warned_about():
    # The third coordinate never varies within a class, and separates only some of the classes.
    X, y = blobs(features=2, classes=3, samples=6)
    X = np.hstack([X, (y == 2)[:, None].astype(float)])
    with pytest.warns(DataDimensionalityWarning, match="0 >= delta·0.*consider shrinkage"):
        wlda = WorstCaseLDA(n_components=1).fit(X, y)
    assert 0.0 < wlda.ratio_ <= wlda.delta_bounds_[1] < math.inf


def test_samples_alone_in_their_class():
    X, y = blobs()
    y = np.where(np.arange(y.size) == 0, 9, y)
    wlda = WorstCaseLDA(n_components=2).fit(X, y)
    check_fit(wlda, X, y)


def test_running_out_of_time_is_told():
    X, y = prepared("breast_cancer", standardize=True)
    with pytest.warns(ConvergenceWarning, match="delta\\* was only found to lie in"):
        wlda = WorstCaseLDA(tol=1e-6, time_limit=1e-6).fit(X, y)
    assert not wlda.converged_
    assert wlda.delta_bounds_[0] <= 13.1165479 <= wlda.delta_bounds_[1]
    assert wlda.components_.shape == (1, 30)


def test_features_of_wildly_different_size_are_told():
    X, y = blobs(classes=4, features=5)
    wild = X * 10.0 ** np.linspace(0, 16, 5)
    with pytest.warns(ConvergenceWarning, match="16 orders of magnitude.*scale the features"):
        wlda = WorstCaseLDA(n_components=2, time_limit=0.5).fit(wild, y)
    assert not wlda.converged_
    assert 0.0 < wlda.ratio_ <= wlda.delta_bounds_[1] == math.inf
    # With one component the scale of features does not matter.
    first, second = (WorstCaseLDA(n_components=1).fit(data, y) for data in (X, wild))
    assert second.delta_ == pytest.approx(first.delta_, rel=2e-3)


def test_good_data_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WorstCaseLDA().fit(*prepared("iris"))


# ---------------------------------------------------------------- scikit-learn


def test_pipeline_and_grid_search():
    X, y = prepared("wine")
    search = GridSearchCV(
        make_pipeline(StandardScaler(), WorstCaseLDA(), KNeighborsClassifier(5)),
        {"worstcaselda__n_components": [1, 2]},
        cv=3,
        error_score="raise",
    )
    search.fit(X, np.array(["Barolo", "Grignolino", "Barbera"])[y])
    assert search.best_params_ == {"worstcaselda__n_components": 2}
    assert search.best_score_ > 0.95


def test_pandas():
    pd = pytest.importorskip("pandas")
    X, y = prepared("iris")
    frame = pd.DataFrame(X, columns=list("abcd"))
    labels = pd.Series(np.array(["x", "y", "z"])[y], dtype="category")
    wlda = WorstCaseLDA().set_output(transform="pandas").fit(frame, labels)
    assert wlda.classes_.tolist() == ["x", "y", "z"]
    assert wlda.feature_names_in_.tolist() == list("abcd")
    out = wlda.transform(frame)
    assert list(out.columns) == ["worstcaselda0", "worstcaselda1"]
    with pytest.raises(ValueError, match="feature names"):
        wlda.transform(frame[list("dcba")])


def test_clone_and_pickle():
    X, y = blobs()
    wlda = clone(WorstCaseLDA(n_components=1, shrinkage="auto")).fit(X, y)
    again = pickle.loads(pickle.dumps(wlda))
    np.testing.assert_array_equal(again.transform(X), wlda.transform(X))


def test_the_library_does_not_import_scikit_learn():
    code = (
        "import sys, sdpfeas, sdpfeas.families, sdpfeas.drivers.bisection; sys.exit('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---------------------------------------------------------------- bad input


X, Y = blobs()


@pytest.mark.parametrize(
    ("data", "labels", "match"),
    [
        (np.where(X > 4, np.nan, X), Y, "contains NaN"),
        (np.where(X > 4, np.inf, X), Y, "contains infinity"),
        (X, np.zeros(24, dtype=int), "1 class"),
        (X[:0], Y[:0], "0 sample"),
        (X[:, :0], Y, "0 feature"),
        (X, Y[:-1], "inconsistent numbers of samples"),
        (X[:, 0], Y, "Expected 2D array"),
        (X, X[:, 0], "Unknown label type"),
        (X, None, "requires y to be passed"),
        (np.array([["a", "b"], ["c", "d"]], dtype=object), [0, 1], "could not convert"),
        (np.ones((6, 2)), [0, 0, 0, 1, 1, 1], "every feature is constant"),
        (X + 1j, Y, "Complex data not supported"),
    ],
)
def test_bad_data(data, labels, match):
    with pytest.raises(ValueError, match=match):
        WorstCaseLDA().fit(data, labels)


def test_sparse_data():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        WorstCaseLDA().fit(sparse.csr_array(X), Y)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_components": 0}, "positive integer"),
        ({"n_components": -1}, "positive integer"),
        ({"n_components": 1.5}, "positive integer"),
        ({"n_components": True}, "positive integer"),
        ({"n_components": 5}, "no more dimensions"),
        ({"tol": -1.0}, "tol must be"),
        ({"tol": "small"}, "tol must be"),
        ({"formulation": "dual"}, "formulation must be"),
        ({"scatter": "median"}, "scatter must be"),
        ({"shrinkage": 2.0}, "shrinkage must be"),
        ({"shrinkage": "much"}, "shrinkage must be"),
    ],
)
def test_bad_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        WorstCaseLDA(**parameters).fit(X, Y)


def test_components_above_the_rank():
    wide = np.hstack([X, X])
    with pytest.raises(ValueError, match="exceeds 4"):
        WorstCaseLDA(n_components=5).fit(wide, Y)


def test_not_fitted():
    with pytest.raises(NotFittedError):
        WorstCaseLDA().transform(X)


def test_numbers_in_an_object_array_and_lists_work():
    expected = WorstCaseLDA().fit(X, Y)
    for data in (X.astype(object), X.tolist()):
        np.testing.assert_allclose(WorstCaseLDA().fit(data, Y.tolist()).delta_, expected.delta_, rtol=2e-3)


def test_weights_count_samples() -> None:
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(40, 3)), np.repeat([0, 1, 2, 3], 10)
    X += 2.0 * rng.normal(size=(4, 3))[y]
    counts = rng.integers(0, 4, size=40)
    weighted = WorstCaseLDA(n_components=2, tol=1e-6).fit(X, y, sample_weight=counts)
    repeated = WorstCaseLDA(n_components=2, tol=1e-6).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    plain = WorstCaseLDA(n_components=2, tol=1e-6).fit(X, y)
    assert weighted.delta_ == pytest.approx(repeated.delta_, rel=1e-5)
    assert weighted.delta_ != pytest.approx(plain.delta_, rel=1e-3)
    assert weighted.proven_
    np.testing.assert_allclose(weighted.means_, repeated.means_)
    assert weighted.score(X, y) == repeated.score(X, y)


def test_weights_that_are_refused() -> None:
    X, y = np.random.default_rng(8).normal(size=(12, 2)), np.repeat([0, 1, 2], 4)
    with pytest.raises(ValueError, match="negative"):
        WorstCaseLDA().fit(X, y, sample_weight=np.linspace(-1.0, 1.0, 12))
    with pytest.raises(ValueError, match="no sample of class 1 has a positive weight"):
        WorstCaseLDA().fit(X, y, sample_weight=(y != 1).astype(float))
    with pytest.raises(ProblemError, match="does not support weights"):
        WorstCaseLDA(shrinkage="auto").fit(X, y, sample_weight=np.ones(12))
