"""The methods the paper compares with: each does what it says, through the same fit and transform."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from scipy.optimize import check_grad
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from benchmarks.paper.competitors import (
    LMNN,
    OrthogonalLDA,
    ZhangSDP,
    ZhangSOCP,
    _LmnnLoss,
    _target_neighbours,
)
from sdpfeas.datasets import prepared
from sdpfeas.errors import BackendError
from sdpfeas.estimators.projection_refinement import RatioObjective
from sdpfeas.families.class_scatter import ClassScatter

ALL = [ZhangSDP, ZhangSOCP, OrthogonalLDA, LMNN]

#: Data and delta* (design notes, section 6).
KNOWN = [("iris", 9.6254203), ("wine", 16.4709647), ("breast_cancer", 13.1165479)]


def data(name):
    return prepared(name, standardize=name != "iris")


def blobs(seed=0, classes=3, features=4, samples=8):
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.standard_normal((classes, features))
    X = np.concatenate([c + rng.standard_normal((samples, features)) for c in centres])
    return X, np.repeat(np.arange(classes), samples)


def ratio(model, X, y):
    objective = RatioObjective(ClassScatter.from_samples(X, y))
    return objective.value(objective.basis.T @ model.components_.T)


@pytest.mark.slow
@parametrize_with_checks([ZhangSDP(tol=1e-3), ZhangSOCP(), OrthogonalLDA(), LMNN()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", ALL)
def test_same_fit_and_transform(method):
    X, y = blobs()
    labels = np.array(["c", "a", "b"])[y]
    model = method(n_components=2)
    out = model.fit_transform(X, labels)
    assert out.shape == (24, 2)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.get_feature_names_out().tolist() == [f"{method.__name__.lower()}{k}" for k in range(2)]
    np.testing.assert_array_equal(method(n_components=2).fit(X, labels).transform(X), out)
    score = cross_val_score(make_pipeline(method(), KNeighborsClassifier(3)), X, y, cv=2)
    assert score.mean() > 0.5


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("count", [0, 5, 1.5, True])
def test_bad_number_of_components(method, count):
    with pytest.raises(ValueError, match="n_components"):
        method(n_components=count).fit(*blobs())


@pytest.mark.parametrize("method", ALL)
def test_one_class(method):
    with pytest.raises(ValueError, match="1 class"):
        method().fit(blobs()[0], np.zeros(24))


@pytest.mark.parametrize("method", [ZhangSDP, ZhangSOCP, OrthogonalLDA])
def test_orthonormal(method):
    W = method().fit(*blobs(classes=4, features=6)).components_
    np.testing.assert_allclose(W @ W.T, np.eye(3), atol=1e-10)


# ---------------------------------------------------------------- Zhang and Yeung


@pytest.mark.parametrize(("name", "delta"), KNOWN)
def test_sequence_of_sdps_reaches_the_optimum(name, delta):
    X, y = data(name)
    model = ZhangSDP().fit(X, y)
    assert model.delta_ == pytest.approx(delta, rel=1e-4)
    assert np.all(np.diff(model.deltas_) >= 0.0)
    assert model.ratio_ == pytest.approx(ratio(model, X, y), rel=1e-8)
    assert model.ratio_ <= delta * (1 + 1e-6)


def test_sequence_of_sdps_survives_badly_scaled_features():
    # Raw Wine: 10^3 between columns. Steps used to stall far below delta*, without a word.
    assert ZhangSDP(tol=1e-4).fit(*prepared("wine")).delta_ == pytest.approx(16.1560431, rel=1e-4)


@pytest.mark.slow
def test_sequence_of_sdps_with_one_component_does_not_see_the_scale_of_features():
    assert ZhangSDP().fit(*prepared("breast_cancer")).delta_ == pytest.approx(13.1165479, rel=1e-4)


def test_sequence_of_sdps_says_when_it_ends_too_early():
    with pytest.warns(ConvergenceWarning, match=r"no convergence in 1 steps.*the upper bound is"):
        ZhangSDP(max_iter=1).fit(*data("iris"))


@pytest.mark.slow
def test_sequence_of_sdps_says_when_the_solver_gets_no_further():
    with pytest.warns(ConvergenceWarning, match="the solver made no progress"):
        assert ZhangSDP(solver="clarabel").fit(*prepared("wine")).delta_ < 16.1


def test_sequence_of_sdps_with_clarabel():
    model = ZhangSDP(solver="clarabel").fit(*data("iris"))
    assert model.delta_ == pytest.approx(9.6254203, rel=1e-5)


def test_sequence_of_sdps_without_scatter():
    model = ZhangSDP().fit(*blobs(features=12, samples=3))
    assert model.delta_ > 1e6


def test_sequence_of_sdps_needs_an_objective():
    with pytest.raises(BackendError, match="takes no objective"):
        ZhangSDP(solver="dual-lbfgs").fit(*blobs())


def test_sequence_of_sdps_with_equal_means():
    X = np.array([[0.0, 0], [2, 0], [0, 1], [2, -1], [5, 5], [6, 7]])
    assert ZhangSDP(n_components=1).fit(X, [0, 0, 1, 1, 2, 2]).delta_ == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("name", "delta"), KNOWN)
def test_greedy_method_improves_and_stays_below_the_optimum(name, delta):
    X, y = data(name)
    model = ZhangSOCP().fit(X, y)
    assert model.ratios_[0] < model.ratio_ <= delta * (1 + 1e-6)
    assert np.all(np.diff(model.ratios_) >= 0.0)
    assert model.ratio_ == pytest.approx(ratio(model, X, y), rel=1e-8)


def test_greedy_method_is_exact_for_one_pair_and_one_column():
    # With two classes and one column the linearised steps are those of Dinkelbach's method.
    X, y = data("breast_cancer")
    assert ZhangSOCP(tol=1e-6).fit(X, y).ratio_ == pytest.approx(13.1165479, rel=1e-3)


def test_greedy_method_without_scatter():
    assert ZhangSOCP().fit(*blobs(features=12, samples=3)).ratio_ > 1e6


# ---------------------------------------------------------------- OLDA


def test_olda_spans_the_classical_directions():
    X, y = data("wine")
    W = OrthogonalLDA().fit(X, y).components_
    classical = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :2]
    outside = classical - W.T @ (W @ classical)
    assert np.linalg.norm(outside) < 1e-8 * np.linalg.norm(classical)


def test_olda_with_singular_scatter():
    X, y = blobs(features=30, samples=4)
    model = OrthogonalLDA().fit(X, y)
    W = model.components_
    np.testing.assert_allclose(W @ W.T, np.eye(2), atol=1e-10)
    # More features than samples: classes collapse to points.
    for k in range(3):
        assert np.ptp(model.transform(X[y == k]), axis=0).max() < 1e-9
    means = model.transform(model.means_)
    assert min(np.linalg.norm(means[i] - means[j]) for i in range(3) for j in range(i)) > 0.1


def test_olda_with_constant_features():
    with pytest.raises(ValueError, match="constant"):
        OrthogonalLDA().fit(np.ones((4, 2)), [0, 0, 1, 1])


# ---------------------------------------------------------------- LMNN


def test_lmnn_gradient():
    X, y = blobs(samples=5)
    loss = _LmnnLoss(X, y, _target_neighbours(X, y, 3), 0.4)
    x = 0.2 * np.random.default_rng(1).standard_normal(8)
    pairs = loss.impostors(x.reshape(2, 4))
    assert pairs.size > 0
    error = check_grad(lambda v: loss.flat(v, pairs)[0], lambda v: loss.flat(v, pairs)[1], x)
    assert error < 1e-5 * np.linalg.norm(loss.flat(x, pairs)[1])


def test_lmnn_objective_by_its_definition():
    X, y = blobs(samples=4, features=2)
    L = 0.5 * np.eye(2)
    expected = 0.0
    distance = np.sum(((X[:, None] - X[None]) @ L) ** 2, axis=2)
    for i in range(len(X)):
        own = [j for j in np.argsort(np.sum((X - X[i]) ** 2, axis=1)) if y[j] == y[i] and j != i][:2]
        for j in own:
            expected += 0.7 * distance[i, j]
            expected += 0.3 * sum(
                max(1 + distance[i, j] - distance[i, k], 0) for k in np.flatnonzero(y != y[i])
            )
    loss = _LmnnLoss(X, y, _target_neighbours(X, y, 2), 0.3)
    assert loss(L, loss.impostors(L))[0] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_lmnn_lowers_its_objective_and_helps_neighbours(name):
    X, y = data(name)
    model = LMNN().fit(X, y)
    assert np.all(np.diff(model.objectives_) < 0.0)
    assert model.objectives_[-1] < 0.7 * model.objectives_[0]
    plain = cross_val_score(KNeighborsClassifier(3), X, y, cv=3).mean()
    learnt = cross_val_score(make_pipeline(LMNN(), KNeighborsClassifier(3)), X, y, cv=3).mean()
    assert learnt >= plain - 0.02


def test_lmnn_is_seeded():
    X, y = blobs(samples=10)
    first, second = (LMNN(max_impostors=20, max_iter=50, steps=5, tol=0.1).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.components_, second.components_)


def test_lmnn_with_samples_alone_in_their_class():
    X, y = blobs()
    LMNN().fit(X, np.where(np.arange(24) == 0, 9, y))
    with pytest.raises(ValueError, match="at least two samples"):
        LMNN().fit(X[:10], np.arange(10))


@pytest.mark.parametrize(
    ("parameters", "match"), [({"push": 0.0}, "push must"), ({"n_neighbors": 0}, "n_neighbors must")]
)
def test_lmnn_bad_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        LMNN(**parameters).fit(*blobs())
