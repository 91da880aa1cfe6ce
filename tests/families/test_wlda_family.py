"""The WLDA family: every pitfall of real data, and bounds that hold whatever they are computed from."""

import math

import numpy as np
import pytest
from known import BUNDLED, FILES, contains
from wlda_data import blobs, proven_bracket

import sdpfeas as sf
from sdpfeas.claims import Claim, Verdict
from sdpfeas.datasets import prepared
from sdpfeas.errors import ProblemError
from sdpfeas.families import WLDA, FantopeMaxMin
from sdpfeas.problem.rows import Dense, LowRank, PairwiseDifference
from sdpfeas.verifier.outcome import Proof

sklearn_datasets = pytest.importorskip("sklearn.datasets")


def slow_ratio(X, y, W):
    """The ratio by its definition."""
    means = [X[y == k].mean(axis=0) for k in np.unique(y)]
    least = min(np.sum((W.T @ (a - b)) ** 2) for i, a in enumerate(means) for b in means[:i])
    most = max(np.sum(((X[y == k] - X[y == k].mean(axis=0)) @ W) ** 2) / np.sum(y == k) for k in np.unique(y))
    return least / most


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(("name", "standardize", "delta"), BUNDLED)
def test_known_values_lie_in_the_bracket(name, standardize, delta):
    bracket = proven_bracket(WLDA.from_data(*prepared(name, standardize=standardize)))
    assert contains(bracket.lower, bracket.upper, delta)
    assert bracket.upper - bracket.lower <= 1e-2 * bracket.upper


@pytest.mark.parametrize(("name", "standardize", "delta"), FILES)
@pytest.mark.usefixtures("data_dir")
def test_known_values_lie_in_the_bracket_of_files(name, standardize, delta):
    bracket = proven_bracket(WLDA.from_data(*prepared(name, standardize=standardize)))
    assert contains(bracket.lower, bracket.upper, delta)
    assert bracket.upper - bracket.lower <= 1e-2 * bracket.upper


@pytest.mark.parametrize("formulation", ["compact", "paper"])
def test_bounds_are_verdicts_of_the_verifier(formulation):
    family = WLDA.from_data(*prepared("wine", standardize=True), formulation=formulation)
    bracket = proven_bracket(family)
    feasible = sf.verify(family.at(bracket.lower), Claim(point=bracket.point), rigorous=True)
    assert (feasible.verdict, feasible.proof) == (Verdict.FEASIBLE, Proof.RIGOROUS)
    infeasible = sf.verify(family.at(bracket.upper), Claim(certificate=bracket.certificate), rigorous=True)
    assert (infeasible.verdict, infeasible.proof) == (Verdict.INFEASIBLE, Proof.RIGOROUS)


def test_both_formulations_have_the_same_threshold_and_different_rows():
    X, y = prepared("wine", standardize=True)
    compact, paper = (WLDA.from_data(X, y, formulation=f) for f in ("compact", "paper"))
    assert compact.at(2.0).m == 3 + 3
    assert paper.at(2.0).m == 3 * 3
    first, second = proven_bracket(compact), proven_bracket(paper)
    assert first.lower <= second.upper
    assert second.lower <= first.upper


def test_paper_rows_are_differences_of_scatters():
    X, y = blobs()
    compact, paper = (WLDA.from_data(X, y, formulation=f) for f in ("compact", "paper"))
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((4, 4))
    Z = Z + Z.T
    at_zero = compact.at(0.0).apply((Z, np.zeros(1)))
    means, scatters = at_zero[:3], -at_zero[3:]
    expected = (means[:, None] - 1.7 * scatters[None, :]).ravel()
    np.testing.assert_allclose(paper.at(1.7).apply((Z,)), expected, rtol=1e-12, atol=1e-12)


def test_ratio_and_components_agree_with_the_definition():
    X, y = blobs(seed=3, classes=4, features=6)
    family = WLDA.from_data(X, y, 3)
    for point in family.initial_points():
        W = family.components(point)
        np.testing.assert_allclose(W.T @ W, np.eye(3), atol=1e-12)
        rounded = family.restrict(W @ W.T)
        assert family.ratio(rounded) == pytest.approx(slow_ratio(X, y, W), rel=1e-10)
        assert family.lower_bound(rounded) <= slow_ratio(X, y, W) * (1 + 1e-12)
        np.testing.assert_allclose(np.trace(family.expand(point)), 3.0)


def test_worst_pair_and_class_are_named():
    X = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1], [10, 0], [10, 5]])
    y = np.array(["a", "a", "b", "b", "c", "c"])
    family = WLDA.from_data(X, y, 2)
    worst = family.worst(family.initial_points()[0])
    assert worst.pair == ("b", "c")
    assert worst.group == "c"


def test_structure_is_kept():
    X, y = blobs(classes=3, features=12, samples=4)
    family = WLDA.from_data(X, y, 3)
    problem = family.at(1.5)
    pairs, scatters = problem.rows[0].parts
    assert isinstance(pairs, PairwiseDifference)
    assert isinstance(scatters, LowRank)
    tall = WLDA.from_data(*blobs(features=3, samples=20), 2).at(1.5)
    assert isinstance(tall.rows[0].parts[1], Dense)
    # The matrices do not depend on delta, so problems share them.
    assert family.at(2.5).rows[0] is problem.rows[0]


def test_scatter_sum_is_the_authors_code():
    X, y = blobs(samples=7)
    mean, total = (WLDA.from_data(X, y, 2, scatter=s) for s in ("mean", "sum"))
    point = mean.initial_points()[0]
    assert mean.ratio(point) == pytest.approx(7.0 * total.ratio(total.restrict(mean.expand(point))))


def test_from_scatter_agrees_with_from_data():
    X, y = blobs(seed=5, classes=3, features=4)
    means = [X[y == k].mean(axis=0) for k in range(3)]
    covariances = [np.cov(X[y == k].T, bias=True) for k in range(3)]
    first = proven_bracket(WLDA.from_data(X, y, 2))
    second = proven_bracket(WLDA.from_scatter(means, covariances, 2, labels=["a", "b", "c"]))
    assert first.lower <= second.upper
    assert second.lower <= first.upper


# ---------------------------------------------------------------- pitfalls


def test_constant_features_are_left_out_exactly():
    X, y = blobs()
    wide = np.insert(X, 1, 0.1, axis=1)  # 0.1 has no exact mean
    plain, family = WLDA.from_data(X, y, 2), WLDA.from_data(wide, y, 2)
    assert family.rank == 4
    assert family.basis.shape == (5, 4)
    assert family.at(2.0) == plain.at(2.0)
    assert any("rank 4 of 5" in note for note in family.notes)
    assert family.expand(family.initial_points()[0])[1].tolist() == [0.0] * 5


def test_collinear_features_are_reduced_to_the_range():
    X, y = blobs(features=3)
    wide = np.column_stack([X, X @ [1.0, -2.0, 0.5], X[:, 0]])
    family = WLDA.from_data(wide, y, 2)
    assert family.rank == 3
    with pytest.raises(ProblemError, match="rank of the total scatter"):
        WLDA.from_data(wide, y, 4)


def test_full_rank_means_one_point():
    X, y = blobs(features=3)
    bracket = proven_bracket(WLDA.from_data(X, y, 3), tol=1e-9, rounds=0)
    assert bracket.upper - bracket.lower <= 1e-9 * bracket.upper


def test_more_features_than_samples_work_in_the_span_of_the_samples():
    X, y = blobs(classes=3, features=40, samples=4)
    family = WLDA.from_data(X, y, 2)
    assert family.rank == 11
    assert family.null_dim == 2
    assert family.infinite
    regular = WLDA.from_data(X, y, 3)
    assert not regular.infinite
    bracket = proven_bracket(regular)
    assert 0.0 < bracket.lower < bracket.upper < math.inf


@pytest.mark.parametrize("formulation", ["compact", "paper"])
@pytest.mark.parametrize("r", [1, 2])
def test_common_null_space_makes_the_ratio_infinite(formulation, r):
    X, y = blobs(classes=3, features=40, samples=4)
    family = WLDA.from_data(X, y, r, formulation=formulation)
    assert family.known.delta == math.inf
    assert isinstance(family.known.substitute, FantopeMaxMin)
    inner = proven_bracket(family.known.substitute)
    point = family.from_substitute(inner.point)
    assert family.ratio(point) == math.inf
    Z = family.expand(point)
    assert np.trace(Z) == pytest.approx(r)
    W = family.components(point)
    assert slow_ratio(X, y, W) > 1e12
    for multipliers in family.initial_multipliers():
        assert family.upper_bound(multipliers) == math.inf


def test_infinite_point_separates_the_means_as_well_as_any():
    X, y = blobs(seed=2, classes=4, features=30, samples=3)
    separation = WLDA.from_data(X, y, 2).known.substitute
    bracket = proven_bracket(separation)
    assert bracket.closed
    rng = np.random.default_rng(0)
    for _ in range(50):
        q, _ = np.linalg.qr(rng.standard_normal((3, 2)))
        assert np.min(separation.at(0.0).apply((q @ q.T,))) <= bracket.upper


def test_null_space_without_separation_is_vacuous_not_infinite():
    # The third feature has no scatter, but classes 1 and 2 agree on it.
    X, y = blobs(seed=1, classes=3, features=2, samples=6)
    X = np.column_stack([X, np.array([0.0, 5.0, 5.0])[y]])
    for formulation in ("compact", "paper"):
        family = WLDA.from_data(X, y, 1, formulation=formulation)
        assert family.vacuous
        assert not family.infinite
        assert any("0 >= delta·0" in note for note in family.notes)
        bracket = proven_bracket(family)
        assert 0.0 < bracket.lower <= bracket.upper < math.inf
        # The supremum is that of classes 1 and 2 alone on the first two features, all scatters counted.
        Z = family.expand(bracket.point)
        assert np.trace(Z) == pytest.approx(1.0)
        assert np.linalg.eigvalsh(Z)[0] > -1e-12
        assert matrix_ratio(X, y, Z) == pytest.approx(bracket.lower, rel=1e-6)
        # Beyond the supremum no point attains the ratio, however it leans on the third feature.
        rng = np.random.default_rng(0)
        for _ in range(50):
            A = rng.standard_normal((3, 3)) * [1, 1, rng.choice([1.0, 100.0])]
            assert matrix_ratio(X, y, A.T @ A) <= bracket.upper


def matrix_ratio(X, y, Z):
    means = [X[y == k].mean(axis=0) for k in np.unique(y)]
    least = min((a - b) @ Z @ (a - b) for i, a in enumerate(means) for b in means[:i])
    most = max(np.trace(np.cov(X[y == k].T, bias=True) @ Z) for k in np.unique(y))
    return least / most


def test_equal_means_give_zero_and_a_sensible_point():
    X, y = blobs(seed=4, classes=3, features=3, samples=5)
    X[y == 2] += X[y == 1].mean(axis=0) - X[y == 2].mean(axis=0)
    family = WLDA.from_data(X, y, 2)
    assert family.known.delta == 0.0
    assert "1, 2" in family.known.reason
    inner = family.known.substitute
    assert inner._pairs.m == 1
    point = family.from_substitute(proven_bracket(inner).point)
    assert family.lower_bound(point) == 0.0
    assert family.components(point).shape == (3, 2)
    assert family.upper_bound(family.initial_multipliers()[-1]) < 1e-3


def test_all_means_equal():
    X, y = blobs(classes=2, samples=5)
    X[y == 1] += X[y == 0].mean(axis=0) - X[y == 1].mean(axis=0)
    family = WLDA.from_data(X, y, 1)
    assert family.known.delta == 0.0
    assert family.known.substitute is None
    assert np.trace(family.known.point[0]) == pytest.approx(1.0)


def test_one_sample_classes_have_no_scatter():
    X, y = blobs(classes=3, features=2, samples=5)
    X, y = np.vstack([X, [[7.0, 7.0]]]), np.append(y, 9)
    bracket = proven_bracket(WLDA.from_data(X, y, 1))
    assert 0.0 < bracket.lower <= bracket.upper < math.inf
    alone = WLDA.from_data([[0.0, 1.0], [2.0, 5.0], [3.0, 1.0]], [0, 1, 2], 1)
    assert alone.infinite


def test_bad_scaling_of_two_classes_costs_nothing():
    X, y = prepared("breast_cancer")
    raw, scaled = WLDA.from_data(X, y), WLDA.from_data(X / X.std(axis=0), y)
    first, second = proven_bracket(raw), proven_bracket(scaled)
    # With r = 1 the ratio does not see the scale of features.
    for bracket in (first, second):
        assert bracket.lower <= 13.1165479 * (1 + 1e-7)
        assert bracket.upper >= 13.1165479 * (1 - 1e-7)
        assert bracket.upper - bracket.lower < 1e-3 * bracket.upper


@pytest.mark.usefixtures("data_dir")
@pytest.mark.parametrize("backend", ["scs", "clarabel"])
def test_statuses_that_lie_on_heart_are_not_believed(backend):
    # On raw Heart SCS calls 1.1·delta* optimal and Clarabel fails.
    family = WLDA.from_data(*prepared("heart"))
    assert sf.solve(family.at(1.1 * 0.3772826), backend, time_limit=5).verdict is not Verdict.FEASIBLE
    assert sf.solve(family.at(0.9 * 0.3772826), backend, time_limit=5).verdict is not Verdict.INFEASIBLE


def test_principal_components_are_not_randomised():
    # More than 500 samples or pixels, and few components: where scikit-learn's "auto" goes random.
    decomposition = pytest.importorskip("sklearn.decomposition")
    X, _ = prepared("digits", train=0.3)
    reduced, _ = prepared("digits", train=0.3, pca=10)
    again, _ = prepared("digits", train=0.3, pca=10)
    np.testing.assert_array_equal(reduced, again)
    full = decomposition.PCA(10, svd_solver="full").fit_transform(X)
    np.testing.assert_allclose(np.abs(reduced), np.abs(full), atol=1e-9 * np.max(np.abs(full)))


@pytest.mark.usefixtures("data_dir")
def test_missing_values_of_heart_are_kept_as_they_are():
    X, y = prepared("heart")
    assert X.shape == (294, 13)
    assert np.unique(y).size == 5
    assert np.sum(X == -9) == 781


@pytest.mark.usefixtures("data_dir")
def test_constant_column_of_ionosphere_is_left_out():
    X, y = prepared("ionosphere")
    assert np.ptp(X[:, 1]) == 0.0
    family = WLDA.from_data(X, y)
    assert family.rank == 33
    assert WLDA.from_data(np.delete(X, 1, axis=1), y).at(4.0) == family.at(4.0)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0, "auto"])
def test_shrinkage(shrinkage):
    X, y = blobs(classes=3, features=12, samples=4)
    family = WLDA.from_data(X, y, 2, shrinkage=shrinkage)
    assert family.infinite == (shrinkage == 0.0)
    if shrinkage == 1.0:
        # Every scatter is a multiple of the identity: the ratio only depends on the means.
        Z = family.initial_points()[0]
        sizes = [np.trace(np.cov(X[y == k].T, bias=True)) / family.rank for k in range(3)]
        means = [X[y == k].mean(axis=0) for k in range(3)]
        least = min(np.sum((a - b) ** 2) for i, a in enumerate(means) for b in means[:i]) * 2 / family.rank
        assert family.ratio(Z) == pytest.approx(least / (2 * max(sizes)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0] * 24}, "two classes"),
        ({"y": [0, 1]}, "one label"),
        ({"X": [[np.nan] * 4] * 24}, "NaN"),
        ({"X": np.ones((24, 4))}, "every feature is constant"),
        ({"X": [["a"] * 4] * 24}, "real array"),
        ({"X": np.zeros((0, 4)), "y": []}, "non-empty"),
        ({"n_components": 0}, "positive integer"),
        ({"n_components": 1.5}, "positive integer"),
        ({"n_components": 9}, "exceeds 4"),
        ({"formulation": "other"}, "formulation"),
        ({"scatter": "other"}, "scatter"),
        ({"shrinkage": 2.0}, "shrinkage"),
        ({"shrinkage": "some"}, "shrinkage"),
    ],
)
def test_bad_input_is_refused(change, message):
    X, y = blobs()
    with pytest.raises(ProblemError, match=message):
        WLDA.from_data(**{"X": X, "y": y, "n_components": 2, **change})


def test_bad_scatter_is_refused():
    means, covariances = np.eye(3), np.array([np.eye(3)] * 3)
    with pytest.raises(ProblemError, match="shape"):
        WLDA.from_scatter(means, covariances[:2])
    with pytest.raises(ProblemError, match="not positive semidefinite"):
        WLDA.from_scatter(means, -covariances)
    with pytest.raises(ProblemError, match="not symmetric"):
        WLDA.from_scatter(means, covariances + np.triu(np.ones((3, 3)), 1))
    with pytest.raises(ProblemError, match="two classes"):
        WLDA.from_scatter(means[:1], covariances[:1])


def test_points_and_multipliers_of_the_wrong_shape_are_refused():
    family = WLDA.from_data(*blobs(), 2)
    with pytest.raises(sf.ClaimError):
        family.lower_bound((np.eye(3), np.ones(1)))
    with pytest.raises(sf.ClaimError):
        family.upper_bound(np.ones(2))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_points_that_are_no_numbers_prove_nothing(bad):
    family = WLDA.from_data(*blobs(), 2)
    assert family.lower_bound((np.full((4, 4), bad), np.ones(1))) == 0.0
    assert family.upper_bound(np.full(6, bad)) == math.inf
    assert family.upper_bound(np.zeros(6)) == math.inf
