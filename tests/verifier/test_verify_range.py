"""Proofs over the whole range of exponents: small problems whose truth is worked out in rational arithmetic.

Numbers that underflow or overflow when they are multiplied are where a bound that is only relative fails.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from linear_truth import contradiction, values
from strategies import SEEDS, exact, examples, wide_numbers

import sdpfeas as sf
from sdpfeas.problem.rows import Combined, Dense, LowRank, PairwiseDifference, Rows, Sparse, Stacked

MODES = ({"rigorous": True, "repair": False}, {"rigorous": True})

#: Sets of one number, whatever they are called.
SMALL = (sf.Free(1), sf.Nonneg(1), sf.PSD(1), sf.SpectralBox(1, -1.0, 2.0), sf.SpectralBox(1, 0.0, 2.0**-800))


def rounded(value: Fraction) -> float:
    """Nearest number; the largest there is where that would be infinity."""
    most = Fraction(float(np.finfo(float).max))
    return float(max(min(value, most), -most))


def multipliers(weights: list[Fraction]) -> np.ndarray:
    size = max(abs(w) for w in weights)
    return np.array([rounded(w / size) for w in weights])


# ---------------------------------------------------------------- problems


def split(rng: np.random.Generator, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients, powers of two, and a base whose product is the array where nothing underflows."""
    exponent = rng.integers(-600, 600, array.shape[0])
    shape = (-1,) + (1,) * (array.ndim - 1)
    base = np.ldexp(array, -exponent.reshape(shape))
    return np.ldexp(1.0, exponent), np.where(np.isfinite(base), base, 1.0)


def stored(rng: np.random.Generator, table: np.ndarray, block: Any) -> Rows:
    """Rows of a random kind about as large as a table of entries, shape (m, n)."""
    array = table.reshape(-1, *block.shape) if block.n == 1 or not block.matrix else table
    kind = rng.integers(6 if block.matrix else 4)
    if kind == 0:
        return Dense(array)
    if kind == 1:
        return Sparse(sp.csr_array(array.reshape(array.shape[0], -1)), block.n, block.matrix)
    if kind == 2:
        coefficients, base = split(rng, array)
        return Combined(sp.diags_array(coefficients), stored(rng, base.reshape(table.shape), block))
    if kind == 3:
        parts = [table[:1], table[1:]] if array.shape[0] > 1 else [table]
        return Stacked([stored(rng, part, block) for part in parts])
    roots, signs = np.sqrt(np.abs(array.reshape(-1, 1))), np.sign(array.reshape(-1))
    if kind == 4:
        scale = np.ldexp(1.0, rng.integers(-300, 300, array.shape[0]))
        return LowRank(list(roots * scale[:, None]), list(signs / scale / scale))
    pair = np.concatenate([roots, np.zeros((1, 1))])
    rows = PairwiseDifference(pair)
    # Pairs with the last mean, which is zero.
    return rows.select(np.flatnonzero(rows.pairs[1] == array.shape[0])).scaled(signs)


def linear_problem(rng: np.random.Generator) -> tuple[sf.FeasibilityProblem, np.ndarray]:
    """Up to three unknowns and four rows that hold, or miss, by a hair; and the point they were made at."""
    n, m = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    style = rng.integers(4)
    middle = int(rng.integers(-1000, 900))
    low, high = ((-1074, 1000), (-60, 60), (middle - 40, middle + 40), (-560, 480))[style]
    table = wide_numbers(rng, m, n, low=max(low, -1074), high=min(high, 1000))
    if m > 1 and rng.random() < 0.6:  # rows that depend on each other, but for rounding
        table[-1] = table[0] * float(rng.uniform(0.5, 2.0))
    x = wide_numbers(rng, n, low=-1074 if style == 0 else -60, high=1000 if style == 0 else 60)
    x = np.where(rng.random(n) < 0.7, np.abs(x), x)
    if rng.random() < 0.5:
        sets = [SMALL[rng.integers(len(SMALL))] for _ in range(n)]
        tables = [table[:, [j]] for j in range(n)]
    else:
        sets, tables = [(sf.Nonneg if rng.random() < 0.5 else sf.Free)(n)], [table]
    rows = [stored(rng, part, block) for block, part in zip(sets, tables, strict=True)]
    free = sf.FeasibilityProblem(sets, rows, np.full(m, -np.inf), np.full(m, np.inf))
    bounds = np.array([rounded(v) for v in values(free, x)])
    slip = rng.choice([0.0, 0.0, 2.0**-52, 1e-12, 1e-9, 1.0], m) * rng.choice([-1.0, 1.0], m)
    bounds = np.clip(bounds * (1.0 + slip) + rng.choice([0.0, 0.0, 5e-324], m), -1e308, 1e308)
    kind = rng.integers(3, size=m)
    lower, upper = np.where(kind == 1, -np.inf, bounds), np.where(kind == 2, np.inf, bounds)
    return sf.FeasibilityProblem(sets, rows, lower, upper), x


def as_point(problem: sf.FeasibilityProblem, x: np.ndarray) -> tuple[np.ndarray, ...]:
    edges = np.cumsum([block.n for block in problem.sets])[:-1]
    parts = np.split(x, edges)
    return tuple(part.reshape(block.shape) for block, part in zip(problem.sets, parts, strict=True))


def judge(problem: sf.FeasibilityProblem, claim: sf.Claim, lie: sf.Verdict) -> None:
    for mode in MODES:
        check = sf.verify(problem, claim, **mode)
        assert check.verdict is not lie, (mode, problem.rows, check.explain())


def linear_problem_is_not_judged_wrong(seed: int) -> None:
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        try:
            problem, x = linear_problem(rng)
        except sf.ProblemError:
            return  # a row that is too large for floating point
    weights = contradiction(problem)
    lie = sf.Verdict.INFEASIBLE if weights is None else sf.Verdict.FEASIBLE
    certificates = [wide_numbers(rng, problem.m), rng.normal(size=problem.m)]
    if weights is not None:
        certificates.append(multipliers(weights))
    for y in certificates:
        judge(problem, sf.Claim(certificate=y), lie)
    for point in (x, x * (1.0 + 1e-9 * rng.normal(size=x.size)), np.abs(x), wide_numbers(rng, x.size)):
        judge(problem, sf.Claim(point=as_point(problem, point)), lie)


@examples(2)
@given(SEEDS)
def test_linear_problems_are_never_judged_wrong(seed: int) -> None:
    linear_problem_is_not_judged_wrong(seed)


@pytest.mark.slow
@examples(12)
@given(SEEDS)
def test_more_linear_problems_are_never_judged_wrong(seed: int) -> None:
    linear_problem_is_not_judged_wrong(seed)


# ---------------------------------------------------------------- matrices


@st.composite
def semidefinite_problems(draw: st.DrawFn) -> tuple[sf.FeasibilityProblem, sf.Claim, sf.Verdict]:
    """A problem on PSD(2) or PSD(3) that is what it is by construction, exactly; with its evidence."""
    rng = np.random.default_rng(draw(SEEDS))
    n, m = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    top = int(rng.integers(-500, 480))
    kind = draw(st.sampled_from(["dense", "combined", "low-rank"]))

    def matrices(count: int) -> np.ndarray:
        array = wide_numbers(rng, count, n, n, low=top - 30 if rng.random() < 0.5 else -540, high=top)
        return np.tril(array) + np.swapaxes(np.tril(array, -1), 1, 2)

    def rows_of(array: np.ndarray) -> Rows:
        coefficients, base = split(rng, array)
        return Combined(sp.diags_array(coefficients), Dense(base)) if kind == "combined" else Dense(array)

    root = np.ldexp(rng.integers(-3, 4, size=(n, n)).astype(float), int(rng.integers(-500, 400)))
    member = root @ root.T  # exactly: squares of small integers
    if draw(st.booleans()):
        rows: Rows = rows_of(matrices(m))
        if kind == "low-rank":
            rows = LowRank(list(wide_numbers(rng, m, n, low=-540, high=480)))
        truth = [sum((rows.exact_row(i) * exact(member)).ravel(), Fraction(0)) for i in range(rows.m)]
        bounds = np.array([rounded(v) for v in truth])
        with np.errstate(over="ignore"):
            below, above = np.nextafter(bounds, -np.inf), np.nextafter(bounds, np.inf)
        lower = np.where(rng.random(m) < 0.5, -np.inf, below)
        upper = np.where(rng.random(m) < 0.5, np.inf, above)
        problem = sf.FeasibilityProblem([sf.PSD(n)], [rows], lower, upper)
        return problem, sf.Claim(point=(member,), certificate=wide_numbers(rng, m)), sf.Verdict.INFEASIBLE
    # The two rows add up to -member, and their bounds to something positive.
    base = Stacked([rows_of(matrices(1)), Dense(member[None])])
    rows = Combined(sp.csr_array([[1.0, 0.0], [-1.0, -1.0]]), base)
    bound = abs(float(wide_numbers(rng, 1, low=-1000, high=900)[0]))
    problem = sf.FeasibilityProblem(
        [sf.PSD(n)], [rows], [bound, np.nextafter(-bound, np.inf)], [np.inf, np.inf]
    )
    point = np.ldexp(member, int(rng.integers(-200, 200)))
    return problem, sf.Claim(point=(point,), certificate=np.ones(2)), sf.Verdict.FEASIBLE


@examples(6)
@given(semidefinite_problems())
def test_semidefinite_problems_are_never_judged_wrong(case: Any) -> None:
    problem, claim, lie = case
    judge(problem, sf.Claim(point=claim.point), lie)
    judge(problem, sf.Claim(certificate=claim.certificate), lie)
    judge(problem, sf.Claim(certificate=np.ones(problem.m)), lie)


# ---------------------------------------------------------------- found once


def test_a_drift_that_underflows_is_paid_for() -> None:
    """``x = -1e-200`` makes ``1e-130·x >= 0`` wrong, by less than the smallest number."""
    problem = sf.FeasibilityProblem(
        [sf.Free(2)], [np.array([[1.0, 0.0], [1e-130, 0.0]])], [-1e-200, 0.0], [-1e-200, np.inf]
    )
    judge(problem, sf.Claim(point=(np.array([0.0, 1.0]),)), sf.Verdict.FEASIBLE)


@pytest.mark.parametrize("block", [sf.PSD(1), sf.SpectralBox(1, 0.0, 2.0)], ids=["psd", "box"])
@pytest.mark.parametrize("off", [1e-9, -1e-9])
def test_dependent_rows_whose_squares_underflow(block: sf.BlockSet, off: float) -> None:
    """Two rows on one number, with bounds that contradict each other by a billionth."""
    ratio, small = 1.5948717948717948, 2.0**-537 * np.sqrt(0.6)
    rows = Combined(sp.diags_array(np.full(2, 2.0**530)), Dense([[[small]], [[ratio * small]]]))
    first, second = (float(rows.exact_row(i)[0, 0]) for i in range(2))
    bounds = [first, second * (1.0 + off)]
    problem = sf.FeasibilityProblem([block], [rows], bounds, bounds)
    judge(problem, sf.Claim(point=(np.ones((1, 1)),)), sf.Verdict.FEASIBLE)
    y = np.sign(off) * np.array([-ratio, 1.0])
    assert sf.verify(problem, sf.Claim(certificate=y), rigorous=True).verdict is sf.Verdict.INFEASIBLE


def test_nearly_the_largest_norm() -> None:
    """A LowRank row whose factor squares to the denormals, and whose sign makes up for it."""
    rows = LowRank([[1e-160]], [[1e200]])
    problem = sf.FeasibilityProblem([sf.PSD(1)], [rows], [0.0], [0.0])
    exact_norm = Fraction(1e-160) ** 2 * Fraction(1e200)
    assert Fraction(float(problem.upper_norms[0, 0])) >= exact_norm


def test_tiny_rows_that_are_combined() -> None:
    """The norm of (1, 1) in units of the smallest number is 1.41 of them, not 1."""
    base = Dense(np.array([[5e-324, 5e-324]]))
    rows = Combined(sp.csr_array([[2.0**1000]]), base)
    problem = sf.FeasibilityProblem([sf.Free(2)], [rows], [0.0], [0.0])
    assert Fraction(float(problem.upper_norms[0, 0])) ** 2 >= 2 * Fraction(2.0**1000 * 5e-324) ** 2


@pytest.mark.parametrize("block", [sf.SpectralBox(2), sf.Nonneg(2)])
def test_sums_of_rows_that_overflow_in_one_entry_prove_nothing(block: Any) -> None:
    large = np.array([1.7e308, 1.0])
    rows = np.stack([np.diag(large) if block.matrix else large] * 2)
    problem = sf.FeasibilityProblem([block], [rows], [1.0, 1.0], [np.inf, np.inf])
    check = sf.verify(problem, sf.Claim(certificate=np.ones(2)), repair=False)
    assert (check.verdict, check.reason) == ("undecided", "certificate: A*y overflows")
