"""The WLDA family: every pitfall of real data, and bounds that hold whatever they are computed from."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import examples

import sdpfeas as sf
from sdpfeas.bracket import Bracket
from sdpfeas.datasets import prepared
from sdpfeas.errors import ProblemError
from sdpfeas.families import WLDA
from sdpfeas.families.separation import Separation
from sdpfeas.operators import Dense, LowRank, PairwiseDifference
from sdpfeas.result import Claim, Proof, Verdict

sklearn_datasets = pytest.importorskip("sklearn.datasets")

#: delta* on the full data, two independent methods agreeing to 1e-8 (design notes, section 6).
KNOWN = [
    ("iris", False, 9.6254203),
    ("wine", False, 16.1560431),
    ("wine", True, 16.4709647),
    ("breast_cancer", True, 13.1165479),
]
KNOWN_FILES = [
    ("sonar", 6.5862564),
    ("ionosphere", 4.0674007),
    ("heart", 0.3772826),
    ("balance", 0.5571432),
    ("waveform", 2.4497790),
]


def proven_bracket(family, tol=1e-3, rounds=15):
    """A proven bracket without any backend: the family's own first guesses, refined."""
    bracket = Bracket(family, tol, 1e-9, *family.bracket)
    for point in family.initial_points():
        bracket.offer_point(point)
    for y in family.initial_multipliers():
        bracket.offer_multipliers(y)
        bracket.recover(y)
    for _ in range(rounds):
        bracket.fresh = True
        bracket.refine()
    assert bracket.lower <= bracket.upper
    return bracket


def blobs(seed=0, classes=3, features=4, samples=8, spread=1.0):
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.standard_normal((classes, features))
    X = np.concatenate([c + spread * rng.standard_normal((samples, features)) for c in centres])
    return X, np.repeat(np.arange(classes), samples)


def slow_ratio(X, y, W):
    """The ratio by its definition."""
    means = [X[y == k].mean(axis=0) for k in np.unique(y)]
    least = min(np.sum((W.T @ (a - b)) ** 2) for i, a in enumerate(means) for b in means[:i])
    most = max(np.sum(((X[y == k] - X[y == k].mean(axis=0)) @ W) ** 2) / np.sum(y == k) for k in np.unique(y))
    return least / most


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(("name", "standardize", "delta"), KNOWN)
def test_known_values_lie_in_the_bracket(name, standardize, delta):
    bracket = proven_bracket(WLDA.from_data(*prepared(name, standardize=standardize)))
    assert bracket.lower <= delta * (1 + 1e-8)
    assert bracket.upper >= delta * (1 - 1e-8)
    assert bracket.upper - bracket.lower <= 1e-2 * bracket.upper


@pytest.mark.parametrize(("name", "delta"), KNOWN_FILES)
@pytest.mark.usefixtures("data_dir")
def test_known_values_lie_in_the_bracket_of_files(name, delta):
    bracket = proven_bracket(WLDA.from_data(*prepared(name)))
    assert bracket.lower <= delta * (1 + 2e-7)
    assert bracket.upper >= delta * (1 - 2e-7)
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
    bracket = proven_bracket(WLDA.from_data(X, y, 3), rounds=0)
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
    assert isinstance(family.known.substitute, Separation)
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
    assert family.upper_bound(family.initial_multipliers()[1]) < 1e-3


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


# ---------------------------------------------------------------- whatever the data


@st.composite
def hard_data(draw):
    """Generated data sets with everything that goes wrong in real ones."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    classes, features = draw(st.integers(2, 8)), draw(st.integers(2, 12))
    sizes = rng.integers(1, 7, classes) if draw(st.booleans()) else rng.integers(2, 7, classes)
    spread = draw(st.sampled_from([1e-3, 1.0, 10.0]))
    centres = rng.standard_normal((classes, features))
    if draw(st.booleans()):
        centres = np.round(centres)  # equal means, and means that agree in some features
    y = np.repeat(np.arange(classes), sizes)
    X = centres[y] + spread * rng.standard_normal((y.size, features))
    kind = draw(st.sampled_from(["plain", "collinear", "constant", "duplicated", "clean column"]))
    if kind == "collinear":
        X[:, -1] = X[:, 0] - 2.0 * X[:, (features - 1) // 2]
    elif kind == "constant":
        X[:, rng.integers(features)] = 0.1
    elif kind == "duplicated":
        X = np.concatenate([X, X[:1]])
        y = np.append(y, y[0])
        X[y == 1] = X[y == 1][0]
    elif kind == "clean column":
        X[:, 0] = centres[y, 0]
    X = X * draw(st.sampled_from([1e-150, 1e-8, 1.0, 1e8, 1e150]))
    if draw(st.booleans()):
        X = X * 10.0 ** rng.uniform(-4, 4, features)
    X = X + draw(st.sampled_from([0.0, 1.0, 1e6])) * np.max(np.abs(X))
    return X, y, seed


def some_family(X, y, seed, formulation):
    rng = np.random.default_rng(seed)
    if np.all(np.ptp(X, axis=0) <= 8.0 * np.finfo(float).eps * np.max(np.abs(X), axis=0)):
        with pytest.raises(ProblemError, match="constant"):
            WLDA.from_data(X, y)
        return None
    rank = WLDA.from_data(X, y).rank
    return WLDA.from_data(X, y, int(rng.integers(1, rank + 1)), formulation=formulation)


@examples(0.8)
@given(hard_data(), st.sampled_from(["compact", "paper"]))
def test_bounds_never_cross(data, formulation):
    X, y, seed = data
    family = some_family(X, y, seed, formulation)
    if family is None:
        return
    rng = np.random.default_rng(seed)
    k = family.sets[0].n
    points = family.initial_points()
    for _ in range(2):
        A = rng.standard_normal((k, k))
        points.append(family.point(A + A.T))
        q, _ = np.linalg.qr(A)
        points.append(family.point(q[:, : family.r] @ q[:, : family.r].T))
    multipliers = family.initial_multipliers()
    for _ in range(2):
        multipliers.append(rng.random(family.m) ** rng.choice([1, 8]))
        multipliers.append(np.where(rng.random(family.m) < 0.3, rng.standard_normal(family.m), 0.0))
    points += [point for z in multipliers for point in family.recovered_points(np.maximum(z, 0.0))]
    better_points, better_multipliers = family.refine(points, multipliers, 1e-3)
    lower = [family.lower_bound(point) for point in points + better_points]
    upper = [family.upper_bound(z) for z in multipliers + better_multipliers]
    assert min(lower) >= 0.0
    assert max(lower) < min(upper)
    known = family.known
    if known is not None and known.delta == math.inf:
        assert min(upper) == math.inf
    if known is not None and known.delta == 0.0:
        assert max(lower) == 0.0


def moved(kind, X, y, rng):
    if kind == "rotation":
        q, _ = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))
        return X @ q, y
    if kind == "translation":
        return X + rng.standard_normal(X.shape[1]), y
    if kind == "scaling":
        return X * float(rng.choice([1e-20, 3e-3, 7e5, 1e40])), y
    order = rng.permutation(y.size)
    return X[order], np.array(["zebra", "ant", "mole", "bee", "cat", "dog", "eel", "fly"])[y][order]


@examples(0.5)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["rotation", "translation", "scaling", "relabelling"]),
)
@example(0, "rotation")
def test_threshold_is_invariant(seed, kind):
    rng = np.random.default_rng(seed)
    classes, features = int(rng.integers(2, 6)), int(rng.integers(2, 7))
    X, y = blobs(seed=seed, classes=classes, features=features, samples=features + 3)
    r = int(rng.integers(1, features + 1))
    first = proven_bracket(WLDA.from_data(X, y, r), rounds=1)
    second = proven_bracket(WLDA.from_data(*moved(kind, X, y, rng), r), rounds=1)
    slack = 1e-9 * first.upper  # the data are rounded on the way
    assert first.lower <= second.upper + slack
    assert second.lower <= first.upper + slack
