"""Claims made to fool the verifier, each a hole that was open once or might be.

Numeric mode has tolerances, and these are about what they must not excuse; the rigorous ones are about
rounding, cancellation and underflow.
"""

from __future__ import annotations

import math
from fractions import Fraction

import known_answers
import numpy as np
import pytest
import scipy.sparse as sp
from strategies import exact

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.numerics.rounding import gamma
from sdpfeas.problem.rows import Combined, Dense
from sdpfeas.verifier.multipliers import Correction, Multipliers
from sdpfeas.verifier.numeric import _local_sizes, check_point
from sdpfeas.verifier.rigorous import EnclosedRows, prove_point

MODES = (
    {},
    {"repair": False},
    {"rigorous": True},
    {"rigorous": True, "repair": False},
    {"exact": True},
)


def moves(problem: sf.FeasibilityProblem, y: list[float], b: int) -> np.ndarray:
    """The entries of a block that a correction of multipliers may change."""
    weight = Multipliers(problem, np.array(y)).weight
    return Correction({}, 1.0, weight).block_slip(problem, b)[1]


def never(problem: sf.FeasibilityProblem, claim: sf.Claim, verdict: sf.Verdict) -> None:
    for mode in MODES:
        check = sf.verify(problem, claim, **mode)
        assert check.verdict is not verdict, (mode, check.explain())


# ---------------------------------------------------------------- discriminant analysis


def perturbed(rng: np.random.Generator, z: np.ndarray) -> list[np.ndarray]:
    """The best Z there is, and versions of it that leave the box by hardly anything."""
    d = z.shape[0]
    out = [z]
    for size in (1e-16, 1e-13, 1e-10):
        out.append(z + size * planted.symmetric(rng, d))
        for j in (0, 1):
            e = np.zeros((d, d))
            e[j, j] = 1.0
            out.append(z - size * e + size * np.eye(d) / d)
    box = sf.SpectralBox(d, trace=1)
    return out + [box.project(x) for x in out]


@pytest.mark.parametrize("share", [1.1, 1.001])
@pytest.mark.parametrize("units", [1.0, 1e3, 1e4, 1e5, 1e6, 1e8])
def test_badly_scaled_columns(units: float, share: float) -> None:
    """Beyond the best threshold nothing may pass, however large some columns are.

    Entries of Z where columns are large count for up to 1e16 in a row, so what is rounding in Z is not
    rounding in the row.
    """
    if share < 1.1 and units > 1e5:
        pytest.skip("the best threshold itself is not known that well")
    rng = np.random.default_rng(31)
    for d in (2, 5):
        columns = np.where(np.arange(d) % 2 == 1, units, 1.0)
        data, best, direction = known_answers.two_classes(rng, d, columns)
        z = np.outer(direction, direction)
        delta = share * best
        problem = data.at(delta)
        for x in perturbed(rng, 0.5 * (z + z.T)):
            low, high = float(np.min(data.between(x))), delta * float(np.max(data.within(x)))
            for t in (low, 0.5 * (low + high)):
                check = sf.verify(problem, sf.Claim(point=(x, np.array([max(t, 0.0)]))))
                assert check.verdict is not sf.Verdict.FEASIBLE, check.explain()


def test_columns_in_sane_units_are_decided() -> None:
    """The guards above do not cost the verdicts one wants."""
    rng = np.random.default_rng(32)
    for units in (1.0, 1e2, 1e3):
        data, best, direction = known_answers.two_classes(rng, 4, np.array([1.0, units, 1.0, units]))
        z = np.outer(direction, direction) / np.sum(direction**2)
        z = 0.5 * (z + z.T)
        for share in (0.9, 0.999):
            check = sf.verify(data.at(share * best), sf.Claim(point=data.point(z, share * best)))
            assert check.verdict is sf.Verdict.FEASIBLE, check.explain()
        y = np.array([1.0, 0.5, 0.5])
        for share in (1.001, 1.1):
            check = sf.verify(data.at(share * best), sf.Claim(certificate=y), rigorous=True)
            assert check.verdict is sf.Verdict.INFEASIBLE, check.explain()


def test_iris_just_beyond_its_best_threshold() -> None:
    """On iris at 1.0001 times the best threshold solvers say optimal; the verifier must not."""
    datasets = pytest.importorskip("sklearn.datasets")
    import cvxpy as cp

    x, labels = datasets.load_iris(return_X_y=True)
    groups = [x[labels == k] for k in range(3)]
    means = np.array([g.mean(axis=0) for g in groups])
    scatters = np.array([(g - g.mean(axis=0)).T @ (g - g.mean(axis=0)) / len(g) for g in groups])
    data = known_answers.Discriminant(means, scatters, 2)
    # Charnes-Cooper: one solve gives the best point up to the accuracy of the solver.
    z, t, tau = cp.Variable((4, 4), symmetric=True), cp.Variable(), cp.Variable()
    differences = [means[i] - means[j] for i in range(3) for j in range(i + 1, 3)]
    rows = [cp.sum(cp.multiply(np.outer(m, m), z)) >= t for m in differences]
    rows += [cp.sum(cp.multiply(s, z)) <= 1.0 for s in scatters]
    rows += [z >> 0, tau * np.eye(4) - z >> 0, cp.trace(z) == 2.0 * tau]
    best = 9.6254203
    for solver in ("CLARABEL", "SCS"):
        cp.Problem(cp.Maximize(t), rows).solve(solver=solver)
        value = np.array(z.value) / float(tau.value)
        for share, possible in ((1.0001, False), (1.00001, False), (0.999, True)):
            problem = data.at(share * best)
            for candidate in (value, sf.SpectralBox(4, trace=2).project(value)):
                for scalar in (float(t.value) / float(tau.value), float(np.min(data.between(candidate)))):
                    for mode in ({}, {"rigorous": True}):
                        check = sf.verify(problem, sf.Claim(point=(candidate, np.array([scalar]))), **mode)
                        assert check.verdict is not sf.Verdict.INFEASIBLE
                        if not possible:
                            assert check.verdict is sf.Verdict.UNDECIDED, (solver, share, check.explain())
                        elif solver == "CLARABEL":
                            assert check.verdict is sf.Verdict.FEASIBLE, (solver, share, check.explain())


# ---------------------------------------------------------------- what tolerances must not excuse


@pytest.mark.parametrize("c", [1e-2, 1e-4, 1e-6, 1e-7])
def test_small_entries_of_a_box(c: float) -> None:
    """``Z11 = 0`` and ``Z12 = c`` contradict each other; Z11 = c² looks like zero."""
    rows = np.zeros((2, 2, 2))
    rows[0, 0, 0] = 1.0
    rows[1, 0, 1] = rows[1, 1, 0] = 0.5
    for box in (sf.SpectralBox(2), sf.SpectralBox(2, upper=1e3), sf.SpectralBox(2, trace=1.0)):
        problem = sf.FeasibilityProblem([box], [rows], [0.0, c], [0.0, c])
        for corner in (c * c, 1.01 * c * c, 0.0):
            claim = sf.Claim(point=(np.array([[corner, c], [c, 1.0 - corner]]),))
            never(problem, claim, sf.Verdict.FEASIBLE)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("slope", [1e-6, 1e-8, 1e-10])
def test_large_terms_do_not_excuse_a_linear_program(slope: float, split: bool) -> None:
    """``x1 = x2`` and ``x1 - (1 + slope) x2 = 1`` have no solution x >= 0, whatever the size of x."""
    table = np.array([[1.0, -1.0], [1.0, -1.0 - slope]])
    sets = [sf.Nonneg(1), sf.Nonneg(1)] if split else [sf.Nonneg(2)]
    rows = [table[:, :1], table[:, 1:]] if split else [table]
    problem = sf.FeasibilityProblem(sets, rows, [0.0, 1.0], [0.0, 1.0])
    for size in 10.0 ** np.arange(0.0, 15.0, 2.0):
        x = [np.array([size]), np.array([size])] if split else [np.full(2, size)]
        never(problem, sf.Claim(point=tuple(x)), sf.Verdict.FEASIBLE)


@pytest.mark.parametrize("slope", [1e-6, 1e-8, 1e-10, 1e-12])
def test_a_far_solution_is_a_solution(slope: float) -> None:
    """``x1 - x2 = 1`` and ``-x1 + (1 + slope) x2 = 1`` hold at x2 = 2 / slope; the rows nearly cancel."""
    table = np.array([[1.0, -1.0], [-1.0, 1.0 + slope]])
    for sets in ([sf.Nonneg(2)], [sf.Free(2)]):
        problem = sf.FeasibilityProblem(sets, [table], np.ones(2), np.ones(2))
        for y in ([1.0, 1.0], [1.0 + slope, 1.0], [1.0, 1.0 - slope]):
            never(problem, sf.Claim(certificate=np.array(y)), sf.Verdict.INFEASIBLE)


@pytest.mark.parametrize("large", [1e3, 2e13, 1e15, 1e100])
@pytest.mark.parametrize("kind", [sf.Nonneg, sf.Free])
def test_a_large_column_does_not_excuse_a_small_one(kind: type, large: float) -> None:
    """``-large·x1 + x2 >= 1`` holds at (0, 1); the multiplier 1 leaves a 1 on x2."""
    row = np.array([[-large, 1.0], [large, 0.0]])
    problem = sf.FeasibilityProblem([kind(2)], [row], [1.0, 0.0], [np.inf, np.inf])
    never(problem, sf.Claim(certificate=np.array([1.0, 1.0])), sf.Verdict.INFEASIBLE)
    problem = sf.FeasibilityProblem([kind(2)], [row[:1]], [1.0], [np.inf])
    never(problem, sf.Claim(certificate=np.ones(1)), sf.Verdict.INFEASIBLE)
    ones = [sf.PSD(1) if kind is sf.Nonneg else sf.Free(1), kind(1)]
    parts = [row[:, :1].reshape(-1, *ones[0].shape), row[:, 1:]]
    problem = sf.FeasibilityProblem(ones, parts, [1.0, 0.0], [np.inf, np.inf])
    never(problem, sf.Claim(certificate=np.array([1.0, 1.0])), sf.Verdict.INFEASIBLE)


@pytest.mark.parametrize("split", [False, True])
def test_a_free_column_beside_a_semidefinite_block(split: bool) -> None:
    """Columns that follow from others may be dropped only if ``A*y`` is small next to their own terms."""
    free = np.array([[1e15, 1.0], [1e15, 0.0]])
    sets = [sf.Free(1), sf.Free(1)] if split else [sf.Free(2)]
    parts = [free[:, :1], free[:, 1:]] if split else [free]
    rows = [*parts, np.array([-np.eye(2), np.zeros((2, 2))])]
    # x1 = 0 and x2 = 1 + tr X.
    problem = sf.FeasibilityProblem([*sets, sf.PSD(2)], rows, [1.0, 0.0], [1.0, 0.0])
    never(problem, sf.Claim(certificate=np.array([1.0, -1.0])), sf.Verdict.INFEASIBLE)


@pytest.mark.parametrize("seed", range(6))
def test_units_of_the_columns_change_no_numeric_verdict(seed: int) -> None:
    """Powers of two are exact: whatever is said about multipliers is said in any units."""
    rng = np.random.default_rng([35, seed])
    seen = set()
    for _ in range(60):
        m, n = int(rng.integers(2, 6)), int(rng.integers(1, 5))
        table = rng.normal(size=(m, n))
        y = np.abs(rng.normal(size=m))
        # Zero up to rounding, or to something that is not rounding, or negative.
        table[-1] -= (y @ table - rng.choice([-1.0, 0.0, 1e-15, 1e-12, 1.0], n)) / y[-1]
        units = 2.0 ** rng.integers(-200, 200, n)
        for kind in (sf.Nonneg, sf.Free):
            verdicts = []
            for columns in (table, table * units):
                problem = sf.FeasibilityProblem([kind(n)], [columns], np.ones(m), np.full(m, np.inf))
                verdicts.append(sf.verify(problem, sf.Claim(certificate=y), repair=False).verdict)
            assert verdicts[0] is verdicts[1], (table, y, units)
            seen.add(verdicts[0])
    assert seen == {sf.Verdict.UNDECIDED, sf.Verdict.INFEASIBLE}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("signed", [False, True])
def test_separable_classes_with_one_large_feature(signed: bool, seed: int) -> None:
    """SCS hands in multipliers that all but vanish next to the large feature, and only there."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(20, 3))
    labels = np.sign(data @ rng.normal(size=3) + 0.1)
    data[:, 0] *= 1e15
    table = labels[:, None] * np.hstack([data, np.ones((20, 1))])
    block = sf.Nonneg(8) if signed else sf.Free(4)
    table = np.hstack([table, -table]) if signed else table
    problem = sf.FeasibilityProblem([block], [table], np.ones(20), np.full(20, np.inf))
    assert sf.solve(problem, "scs", time_limit=5).verdict is not sf.Verdict.INFEASIBLE


@pytest.mark.parametrize("far", [1e3, 1e9, 1e15, 1e100])
@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize(
    "block", [sf.Free(1), sf.Nonneg(1), sf.PSD(1), sf.PSD(2), sf.SpectralBox(2, upper=1e6)], ids=str
)
def test_a_bound_is_not_excused_by_the_other(block: sf.BlockSet, side: float, far: float) -> None:
    """``-far <= x <= 0`` is not met by 50, however large ``far``; nor ``0 <= x <= far`` by -50."""
    row = np.zeros((1, *block.shape))
    row[(0, *[0] * len(block.shape))] = -side
    bounds = ([0.0], [far]) if side > 0 else ([-far], [0.0])
    problem = sf.FeasibilityProblem([block], [row], *bounds)
    for value in (50.0, 1e-3 * min(far, 1e6), 1e-6):
        x = value * (np.eye(block.n) if block.matrix else np.ones(block.n))
        for tolerance in ({}, {"rigorous": True}):
            check = sf.verify(problem, sf.Claim(point=(x,)), repair=False, **tolerance)
            assert check.verdict is sf.Verdict.UNDECIDED, check.explain()


def test_a_range_is_met_as_well_as_two_rows() -> None:
    """A row with two bounds is judged like the same row twice, with one bound each."""
    rng = np.random.default_rng(36)
    for _ in range(200):
        block = [sf.Free(2), sf.Nonneg(2), sf.SpectralBox(2, trace=1.0), sf.PSD(2)][rng.integers(4)]
        x = planted.interior(rng, block)
        row = planted.symmetric(rng, 2) if block.matrix else rng.normal(size=2)
        value = float(np.sum(row * x))
        low = value - rng.choice([0.0, 1.0, 1e-9]) + rng.choice([0.0, 1e-6, 1e-8, 1e-15])
        high = low + 10.0 ** rng.uniform(-9, 12)
        once = sf.FeasibilityProblem([block], [row[None]], [low], [high])
        twice = sf.FeasibilityProblem([block], [np.array([row, row])], [low, -np.inf], [np.inf, high])
        first, second = (sf.verify(p, sf.Claim(point=(x,)), repair=False) for p in (once, twice))
        assert first.verdict is second.verdict, (low, value, high, first.explain(), second.explain())


def test_cancellation_in_a_certificate() -> None:
    """Two rows of size 1e12 whose difference is at the level of rounding prove nothing."""
    rng = np.random.default_rng(33)
    for _ in range(50):
        big = 1e12 * planted.symmetric(rng, 6)
        noise = 1e-5 * planted.symmetric(rng, 6)
        rows = np.array([big, big + noise])
        box = sf.SpectralBox(6, trace=2)
        # The point z meets both rows, so nothing may rule it out.
        z = planted.interior(rng, box)
        value = np.array([float(np.sum(r * z)) for r in rows])
        width = 1e-3 * np.ones(2)
        problem = sf.FeasibilityProblem([box], [rows], value - width, value + width)
        for y in ([1.0, -1.0], [-1.0, 1.0], [1.0, -1.0 + 1e-16]):
            never(problem, sf.Claim(certificate=np.array(y)), sf.Verdict.INFEASIBLE)


def test_means_far_from_the_origin() -> None:
    """Squared distances of means must not be computed through their lengths."""
    rng = np.random.default_rng(34)
    means = rng.normal(size=(3, 2)) + np.array([[0.0, 0.0], [1e8, 0.0], [1e8, 0.0]])
    pairs = sf.PairwiseDifference(means)
    z = np.eye(2) * 0.5
    near = float(np.sum((means[1] - means[2]) ** 2)) * 0.5
    for factor, verdict in ((0.999, sf.Verdict.FEASIBLE), (1.001, sf.Verdict.UNDECIDED)):
        problem = sf.FeasibilityProblem(
            [sf.SpectralBox(2, lower=0.5, upper=0.5)], [pairs], [0.0, 0.0, factor * near], [np.inf] * 3
        )
        for mode in ({}, {"rigorous": True}):
            check = sf.verify(problem, sf.Claim(point=(z,)), **mode)
            assert check.verdict is verdict, (mode, check.explain())


# ---------------------------------------------------------------- rounding, cancellation, underflow


@pytest.mark.parametrize("slope", [1e-3, 1e-6, 1e-10, 1e-12])
def test_cancellation_in_combined_rows_on_a_free_block(slope: float) -> None:
    """The second row is zero, though computing it gives -1: no certificate may lean on it."""
    base = Dense(np.array([[slope], [1.0], [1.0], [1.0], [1.0]]))
    mix = sp.csr_array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1e16, 1.0, -1e16, -1.0]])
    problem = sf.FeasibilityProblem([sf.Free(1)], [sf.Combined(mix, base)], [1.0, 0.0], [1.0, 0.0])
    assert problem.rows[0].exact_row(1)[0] == 0
    for y in ([1.0, 0.0], [1.0, slope], [1.0, -slope]):
        never(problem, sf.Claim(certificate=np.array(y)), sf.Verdict.INFEASIBLE)


@pytest.mark.parametrize("slope", [1e-2, 1e-3, 1e-9])
def test_a_sign_may_not_be_turned(slope: float) -> None:
    """``slope·f >= 1`` and ``f >= 0`` hold for large f; only a multiplier of the wrong sign would deny it."""
    problem = sf.FeasibilityProblem([sf.Free(1)], [np.array([[slope], [1.0]])], [1.0, 0.0], [np.inf, np.inf])
    for y in ([1.0, 0.0], [1.0, 1e-20], [1.0, 1e-12], [1.0, -slope]):
        never(problem, sf.Claim(certificate=np.array(y)), sf.Verdict.INFEASIBLE)


@pytest.mark.parametrize("slope", [1e-3, 1e-6, 1e-10, 1e-12])
@pytest.mark.parametrize("block", [sf.Nonneg(2), sf.PSD(2)], ids=["nonneg", "psd"])
def test_an_entry_at_zero_that_the_correction_of_a_free_block_moves(block: sf.BlockSet, slope: float) -> None:
    """Feasible: f + u = 1, f + (1 - slope)·u = 0, u = x, at u = 1 / slope.

    With multipliers (1, -1, 0) no row touches x that counts, and A*y is exactly zero there. Yet what is left
    of it on u can only be made up for by the third row, which makes it positive on x.
    """
    free = np.array([[1.0, 1.0], [1.0, 1.0 - slope], [0.0, 1.0]])
    touching = np.zeros((3, *block.shape))
    touching[(2, *[0] * len(block.shape))] = -1.0
    problem = sf.FeasibilityProblem([sf.Free(2), block], [free, touching], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    claim = sf.Claim(certificate=np.array([1.0, -1.0, 0.0]))
    for mode in MODES[2:]:
        check = sf.verify(problem, claim, **mode)
        assert check.verdict is not sf.Verdict.INFEASIBLE, (mode, check.explain())


def test_an_entry_that_is_touched_by_less_than_the_smallest_number() -> None:
    """A product that underflows to zero touches all the same; one with a stored zero does not."""
    base = Dense(np.array([[2.0**-600, 0.0]]))
    rows = Combined(sp.csr_array(np.array([[2.0**-600], [1.0]])), base)
    free = np.array([[1.0], [1.0]])
    problem = sf.FeasibilityProblem([sf.Free(1), sf.Nonneg(2)], [free, rows], [0.0, 0.0], [0.0, 0.0])
    assert moves(problem, [1.0, -1.0], 1)[0]
    plain = sf.FeasibilityProblem([sf.Free(1), sf.Nonneg(2)], [free, np.eye(2)], [0.0, 0.0], [0.0, np.inf])
    assert moves(plain, [1.0, -1.0], 1).tolist() == [True, True]
    assert moves(plain, [1.0, 0.0], 1).tolist() == [True, False]


def test_cancellation_in_combined_rows_on_a_matrix() -> None:
    rows = np.array([np.eye(2), np.eye(2), np.eye(2), np.eye(2)])
    mix = sp.csr_array([[1e16, 1.0, -1e16, -1.0]])
    combined = sf.Combined(mix, Dense(rows))
    for sets in ([sf.PSD(2)], [sf.SpectralBox(2)]):
        # The row is zero: it is neither -2 nor 2, whatever order it is added up in.
        problem = sf.FeasibilityProblem(sets, [combined], [-0.5], [0.5])
        for y in (1.0, -1.0):
            never(problem, sf.Claim(certificate=np.array([y])), sf.Verdict.INFEASIBLE)
        for low, high in ((-5.0, -1.0), (1.0, 5.0)):
            problem = sf.FeasibilityProblem(sets, [combined], [low], [high])
            never(problem, sf.Claim(point=(np.eye(2),)), sf.Verdict.FEASIBLE)


@pytest.mark.parametrize("power", [-600, -530, -500, -300, 300, 500])
def test_rows_of_wild_scale(power: int) -> None:
    """Norms that underflow when squared still have to be paid for."""
    unit = 2.0**power
    row = np.zeros((1, 2, 2))
    row[0, 0, 0] = unit
    # X11 <= -1e-9 has no solution; the point is not provably off, only slightly outside.
    problem = sf.FeasibilityProblem([sf.PSD(2)], [row], [-np.inf], [-1e-9 * unit])
    never(problem, sf.Claim(point=(np.array([[-1.1e-9, 0.0], [0.0, 1.0]]),)), sf.Verdict.FEASIBLE)
    # The same with an equality row that takes a correction.
    rows = np.zeros((2, 2, 2))
    rows[0, 0, 0], rows[1, 1, 1] = unit, 1.0
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [-np.inf, 1.0], [-1e-9 * unit, 1.0])
    never(problem, sf.Claim(point=(np.array([[1e-9, 0.0], [0.0, 1.0]]),)), sf.Verdict.FEASIBLE)


def test_products_that_underflow() -> None:
    """-1e-200 · 1e-200 is below zero though it is computed as zero."""
    mix = sf.Combined(sp.csr_array([[-1e-200], [0.0]]), Dense(np.array([[1e-200]])))
    problem = sf.FeasibilityProblem(
        [sf.Nonneg(1), sf.Nonneg(1)], [mix, np.array([[0.0], [1.0]])], [0.0, 1.0], [np.inf, np.inf]
    )
    claim = sf.Claim(point=(np.ones(1), 2.0 * np.ones(1)))
    assert not known_answers.exactly_feasible(problem, claim.point)
    for mode in ({"rigorous": True, "repair": False}, {"exact": True, "repair": False}):
        assert sf.verify(problem, claim, **mode).verdict is sf.Verdict.UNDECIDED


@pytest.mark.parametrize("power", [-1070, -1000, -520, -500, 500, 520, 1000])
def test_certificates_of_wild_scale(power: int) -> None:
    """beta(y) = y lower is tiny here, and of either sign."""
    unit = 2.0**power
    for sign in (1.0, -1.0):
        row = -np.eye(2)[None]
        problem = sf.FeasibilityProblem([sf.PSD(2)], [row], [sign * 2.0**-500], [np.inf])
        claim = sf.Claim(certificate=np.array([unit]))
        check = sf.verify(problem, claim, rigorous=True)
        # -tr X >= 2^-500 is impossible, -tr X >= -2^-500 is not.
        assert check.verdict is (sf.Verdict.INFEASIBLE if sign > 0.0 else sf.Verdict.UNDECIDED)


def test_a_definite_matrix_that_is_not() -> None:
    """Hilbert matrices less a little: positive in floating point, indefinite in truth, or the reverse."""
    for n in (8, 10, 12, 13):
        hilbert = 1.0 / (1.0 + np.arange(n)[:, None] + np.arange(n)[None, :])
        lam, vec = np.linalg.eigh(hilbert)
        for factor in (0.5, 0.99, 1.01, 2.0, 100.0):
            x = hilbert - factor * max(lam[0], 1e-17) * np.outer(vec[:, 0], vec[:, 0])
            x = 0.5 * (x + x.T)
            problem = sf.FeasibilityProblem([sf.PSD(n)], [None], [], [])
            check = sf.verify(problem, sf.Claim(point=(x,)), exact=True, repair=False)
            assert (check.verdict is sf.Verdict.FEASIBLE) == known_answers.exactly_psd(
                known_answers.rationals(x)
            )
            if known_answers.exactly_psd(known_answers.rationals(x)):
                continue
            # As a certificate the same matrix must fail without a second thought.
            flat = -x
            problem = sf.FeasibilityProblem([sf.PSD(n)], [flat[None]], [1.0], [1.0])
            check = sf.verify(problem, sf.Claim(certificate=np.ones(1)), rigorous=True, repair=False)
            assert check.verdict is sf.Verdict.UNDECIDED, (n, factor)


def test_an_ill_conditioned_system_of_rows() -> None:
    """Rows that are independent by 1e-9: the correction is large and has to be paid for."""
    for gap in (1e-4, 1e-7, 1e-9, 1e-12):
        rows = np.zeros((2, 2, 2))
        rows[0] = np.eye(2)
        rows[1] = np.eye(2) + gap * np.diag([1.0, -1.0])
        # tr X = 2 and gap·(X11 - X22) = off: X11 - X22 = off / gap, at most 2.
        for off, truth in ((1.5 * gap, True), (3.0 * gap, False)):
            right = np.array([2.0, 2.0 + off])
            problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], right, right)
            point = sf.Claim(point=(np.eye(2),))
            if not truth:
                never(problem, point, sf.Verdict.FEASIBLE)
            x = np.diag([1.0 + 0.5 * off / gap, 1.0 - 0.5 * off / gap])
            if not truth:
                never(problem, sf.Claim(point=(x,)), sf.Verdict.FEASIBLE)
            elif gap >= 1e-6:
                assert sf.verify(problem, sf.Claim(point=(x,)), rigorous=True).verdict is sf.Verdict.FEASIBLE


def test_both_sides_at_once() -> None:
    """When a point and a certificate both look right in numeric mode, neither is."""
    row = np.eye(2)[None]
    problem = sf.FeasibilityProblem([sf.SpectralBox(2)], [row], [2.0 + 3e-8], [np.inf])
    point, y = (np.eye(2),), np.ones(1)
    assert sf.verify(problem, sf.Claim(point=point)).verdict is sf.Verdict.FEASIBLE
    assert sf.verify(problem, sf.Claim(certificate=y)).verdict is sf.Verdict.INFEASIBLE
    check = sf.verify(problem, sf.Claim(point=point, certificate=y))
    assert check.verdict is sf.Verdict.UNDECIDED
    assert "both" in check.reason
    # Rigour tells which is true.
    assert (
        sf.verify(problem, sf.Claim(point=point, certificate=y), rigorous=True).verdict
        is sf.Verdict.INFEASIBLE
    )


def test_the_smallest_numbers_there_are() -> None:
    """tiny <= x <= 2 tiny, forty times over: 0.51 tiny rounds up and 1.4 tiny down, so the sums are false."""
    tiny = 5e-324
    up, down = 40, 30
    lower = np.concatenate([np.full(up, tiny), np.full(down, -np.inf)])
    upper = np.concatenate([np.full(up, np.inf), np.full(down, 2.0 * tiny)])
    problem = sf.FeasibilityProblem([sf.Nonneg(1)], [np.ones((up + down, 1))], lower, upper)
    assert known_answers.exactly_feasible(problem, (np.array([tiny]),))
    y = np.concatenate([np.full(up, 0.51), np.full(down, -0.7)])
    assert np.sum(problem.beta_terms(y)) > 0.0 > np.sum(y)
    never(problem, sf.Claim(certificate=y), sf.Verdict.INFEASIBLE)


@pytest.mark.parametrize("n", [2, 60])
def test_corrections_are_paid_for_by_other_rows(n: int) -> None:
    """The trace is to be n + 2e-9 and at most n + 1e-9: meeting the one breaks the other."""
    rows = np.array([np.eye(n), np.eye(n)])
    for sets in ([sf.PSD(n)], [sf.SpectralBox(n, upper=2.0)]):
        problem = sf.FeasibilityProblem(sets, [rows], [n + 2e-9, -np.inf], [n + 2e-9, n + 1e-9])
        for mode in ({"rigorous": True}, {"rigorous": True, "repair": False}):
            check = sf.verify(problem, sf.Claim(point=(np.eye(n),)), **mode)
            assert check.verdict is not sf.Verdict.FEASIBLE, check.explain()


@pytest.mark.parametrize("size", 10.0 ** np.arange(10, 300, 8))
def test_a_huge_point_excuses_nothing(size: float) -> None:
    """No point has ``x1 - x2 >= 1`` on average and ``0.3 (x1 - x2) + t <= 0.2``, but rounding hides it."""
    rows = [[[1.0, -1.0, 0.5], [1.0, -1.0, -0.5], [0.3, -0.3, 0.0]], [[0.0], [0.0], [1.0]]]
    upper = [np.inf, np.inf, 0.2]
    problem = sf.FeasibilityProblem([sf.Free(3), sf.Nonneg(1)], rows, [1.0, 1.0, -np.inf], upper)
    claim = sf.Claim(point=(np.array([size, size, 0.0]), np.zeros(1)))
    assert sf.verify(problem, claim).verdict != sf.Verdict.FEASIBLE


@pytest.mark.parametrize("block", [sf.Nonneg(2), sf.Free(2)], ids=lambda block: block.kind)
@pytest.mark.parametrize("size", 10.0 ** np.arange(6, 300, 7))
def test_huge_multipliers_that_decide_nothing_excuse_nothing(block: sf.Nonneg, size: float) -> None:
    """The point (1, 1) meets all rows; the first two cancel up to the last one, which rounding would hide."""
    rows = [np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, 0.0]])]
    problem = sf.FeasibilityProblem([block], rows, [0.0, 0.0, 1.0], [0.0, 0.0, 1.0])
    for scale in (1.0, 1e-3):
        claim = sf.Claim(certificate=np.array([size - scale, size, scale]))
        for repair in (True, False):
            assert sf.verify(problem, claim, repair=repair).verdict != sf.Verdict.INFEASIBLE


@pytest.mark.parametrize("n", [8, 20])
def test_rounding_in_a_row_counts_beside_what_it_is_off(n: int) -> None:
    """The bound is as far from the value as rounding may be, which no point of the thin box is."""
    narrow = 2.0**-48
    box, row = sf.SpectralBox(n, 1.0 - narrow, 1.0 + narrow), np.diag(np.resize([1.0, -1.0], n))
    point = (np.eye(n),)
    (radius,) = EnclosedRows(sf.FeasibilityProblem([box], [[row]], [0.0], [0.0]), point).radius
    assert radius > n * narrow  # the value of the row is at most n * narrow on the box
    problem = sf.FeasibilityProblem([box], [[row]], [-radius], [-radius])
    assert not prove_point(problem, point).proven
    check = sf.verify(problem, sf.Claim(point=point), rigorous=True)
    assert check.verdict is not sf.Verdict.FEASIBLE, check.explain()


def test_what_cancels_inside_a_box_counts_with_its_lower_bound() -> None:
    """Terms of 2 and -2, one of them of the lower bound: next to these the row is off by rounding only."""
    tolerances = sf.Tolerances()
    box, row = sf.SpectralBox(2, 1.0, 4.0), np.diag([3.0, -1.0])
    problem = sf.FeasibilityProblem([box], [[row]], [0.0], [0.0])
    for share, holds in ((2.0, True), (100.0, False)):
        point = (np.diag([1.0, 3.0 - share * tolerances.residual]),)
        assert check_point(problem, point, tolerances).proven == holds
    small = sf.FeasibilityProblem([sf.SpectralBox(2)], [[np.diag([1.0, -1.0])]], [0.0], [0.0])
    assert not check_point(small, (np.diag([1e-6, 1e-6 - 1e-9]),), tolerances).proven


def least_correction(columns: np.ndarray, weight: np.ndarray, y: np.ndarray) -> float:
    """Length, in units of weights, of the shortest correction of multipliers that annuls columns."""
    exactly = exact(columns).T.dot(exact(y)).astype(float)
    return float(np.linalg.norm(np.linalg.pinv(columns.T * weight) @ exactly))


@pytest.mark.parametrize("kind", ["dense", "sparse", "combined"])
def test_corrections_of_multipliers_are_as_long_as_is_said(kind: str) -> None:
    """Signed multipliers move by their own size, others by the largest, in the units of their rows."""
    rng = np.random.default_rng(8)
    lower, upper = np.zeros(6), np.array([0.0, 0.0, 0.0, 0.0, np.inf, np.inf])
    for scale in (1.0, 2.0**40, 2.0**-40):
        table = rng.normal(size=(6, 3)) * np.array([1.0, 1.0, 8.0, 1.0, 1.0, 1.0])[:, None] * scale
        y = np.array([1.0, -2.0, 0.25, 1.0, 1e-3, 0.0])
        first = {"dense": Dense, "sparse": sp.csr_array}.get(
            kind, lambda a: Combined(sp.eye_array(6), Dense(a))
        )
        problem = sf.FeasibilityProblem(
            [sf.Free(2), sf.Free(1), sf.Nonneg(2)],
            [first(table[:, :2]), table[:, 2:], np.ones((6, 2))], lower, upper,
        )  # fmt: skip
        free = Multipliers(problem, y)
        exactly = exact(table).T.dot(exact(y))
        assert all(Fraction(r) >= abs(v) for r, v in zip(free.residual, exactly, strict=True))
        np.testing.assert_allclose(free.residual, np.abs(exactly.astype(float)), rtol=1e-12)
        np.testing.assert_array_equal(free.weight[4:], [1e-3, 0.0])
        unit = free.weight[:4] / free.weight[0]
        assert np.all((unit >= 0.25) & (unit <= 16.0))
        assert np.min(free.weight[:4]) > 0.0
        assert not free.met
        truth = least_correction(table, free.weight, y)
        for system, index in free.systems([]):
            assert truth * (1.0 - 1e-9) <= system.correction_upper(free.residual[index]) <= 20.0 * truth
        for corrected in free.corrected():
            assert np.max(np.abs(table.T @ corrected)) <= 1e-12 * scale
            assert np.linalg.norm((corrected - y)[:5] / free.weight[:5]) == pytest.approx(truth, rel=1e-6)
            assert corrected[5] == 0.0
            after = Multipliers(problem, corrected)
            assert after.met
            found = after.correction(sf.Tolerances())
            assert found.length <= 1e-13
            assert found.constant_slip(problem) == 0.0
            slip, _ = found.block_slip(problem, 2)
            least = found.length * math.sqrt(2.0) * np.linalg.norm(after.weight)
            assert slip >= least * (1.0 - 1e-12)


def test_free_entries_that_are_missed_count_beside_ones_that_are_met() -> None:
    """In one block as in two; and no correction is known where columns depend on each other."""
    y, missed, met = np.array([1.0, -1.0]), np.array([[1.0], [0.5]]), np.ones((2, 1))
    for sets, rows in (
        ([sf.Free(1), sf.Free(1)], [missed, met]),
        ([sf.Free(1), sf.Free(1)], [met, missed]),
        ([sf.Free(2)], [np.hstack([missed, met])]),
    ):
        free = Multipliers(sf.FeasibilityProblem(sets, rows, [1.0, 1.0], [1.0, 1.0]), y)
        assert sorted(free.residual) == pytest.approx([0.0, 0.5], rel=1e-12, abs=1e-14)
        assert not free.met
    twice = sf.FeasibilityProblem([sf.Free(2)], [np.hstack([missed, missed])], [1.0, 1.0], [1.0, 1.0])
    assert "not provably independent" in Multipliers(twice, y).correction(sf.Tolerances()).reason


def test_long_sums_in_free_columns_count_for_rounding() -> None:
    """A column that is a sum of many terms is off by as many roundings, beside one that is stored."""
    rng = np.random.default_rng(9)
    long = Combined(sp.csr_array(rng.uniform(0.5, 1.0, (3, 400))), Dense(rng.uniform(0.5, 1.0, (400, 1))))
    for rows in ([long, np.eye(3)[:, :1]], [np.eye(3)[:, :1], long]):
        problem = sf.FeasibilityProblem([sf.Free(1), sf.Free(1)], rows, np.ones(3), np.ones(3))
        system, _ = next(Multipliers(problem, np.ones(3)).systems([]))
        assert system.solver.error >= 0.25 * gamma(400)


@pytest.mark.parametrize("trace", [0.0, 1e-6, 3.0])
def test_terms_of_a_row_are_measured_from_the_lower_bound_of_a_box(trace: float) -> None:
    """``||W^(1/2) A W^(1/2)||`` with W what a point lies above the bound, and the bound times the trace."""
    row = np.array([[1.0, 2.0], [2.0, trace - 1.0]])
    for lower in (0.0, -1.0, 0.25):
        box = sf.SpectralBox(2, lower, 4.0)
        above = np.array([[2.0, 1.0], [1.0, 1.0]])
        lam, vec = np.linalg.eigh(above)
        root = (vec * np.sqrt(lam)) @ vec.T
        wanted = np.linalg.norm(root @ row @ root) + abs(lower) * trace
        found = _local_sizes(Dense(np.array([row, 2.0 * row])), box, above + lower * np.eye(2))
        np.testing.assert_allclose(found, [wanted, 2.0 * wanted], rtol=1e-12)
    # Below the bound the square of that norm may come out negative: then it is none.
    swap = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    assert _local_sizes(Dense(swap), sf.SpectralBox(2), np.diag([1.0, -1.0])).tolist() == [0.0]


def test_what_a_point_is_outside_its_set_counts_against_its_rows() -> None:
    """``x1 - K x2`` at least one where x2 is below zero by a hair: the nearest member misses the row."""
    tolerances = sf.Tolerances()
    hair = 0.01 * tolerances.membership
    large = 1000.0 * tolerances.residual / hair
    above = sf.FeasibilityProblem([sf.Nonneg(2)], [np.array([[1.0, -large]])], [1.0], [np.inf])
    below = sf.FeasibilityProblem([sf.Nonneg(2)], [np.array([[1.0, large]])], [-np.inf], [1.0])
    for problem, side in ((above, -1.0), (below, 1.0)):
        assert check_point(problem, (np.array([1.0, 0.0]),), tolerances).proven
        off = np.array([1.0 + side * large * hair, -hair])
        assert not check_point(problem, (off,), tolerances).proven
