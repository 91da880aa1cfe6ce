"""Pairs of inequalities that meet become equations, exactly, and evidence finds its way back."""

from fractions import Fraction

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families.planted import feasible, infeasible
from sdpfeas.problem.reductions.inequality_pairs import meeting_pairs

INF = np.inf
SETS = [sf.PSD(3), sf.Nonneg(2), sf.Free(2)]


def in_pairs(problem: sf.FeasibilityProblem, rng: np.random.Generator) -> sf.FeasibilityProblem:
    """The same problem with two rows, of random sign and size, in place of every equality row."""
    m, equal = problem.m, np.flatnonzero(problem.equality)
    index = np.concatenate([np.arange(m), equal])
    factors = np.ldexp(rng.choice([-1.0, 1.0], index.size), rng.integers(-3, 4, index.size))
    low, high = problem.lower[index], problem.upper[index]
    low[m:], high[equal] = -INF, INF
    low, high = low * factors, high * factors
    rows = [r.select(index).scaled(factors) for r in problem.rows]
    return sf.FeasibilityProblem(problem.sets, rows, np.minimum(low, high), np.maximum(low, high))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("truth", [True, False])
def test_pairs_become_the_equations_they_were_made_of(truth: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    item = (feasible if truth else infeasible)(rng, SETS, bounds="mixed")
    problem = in_pairs(item.problem, rng)
    pairs = meeting_pairs(problem)
    assert pairs.problem.m == item.problem.m
    assert pairs.problem.equality.sum() == item.problem.equality.sum() > 0
    found = sf.solve(pairs.problem)
    wanted = sf.Verdict.FEASIBLE if truth else sf.Verdict.INFEASIBLE
    assert found.verdict is wanted
    assert sf.verify(problem, found.claim.back(pairs)).verdict is wanted
    assert sf.solve(problem, rigorous=True).verdict is wanted
    if found.certificate is not None:
        again = pairs.start_multipliers(pairs.multipliers(found.certificate))
        np.testing.assert_allclose(again, found.certificate, rtol=1e-12)


def lmi(block: sf.problem.sets.BlockSet, constant: list, values: list, times: float = 1.0) -> sf.LMI:
    return sf.LMI(block, times * np.array(constant, float), [times * np.array(values, float)])


@pytest.mark.parametrize("block", [sf.PSD(2), sf.SecondOrder(3), sf.Nonneg(2)], ids=str)
@pytest.mark.parametrize("times", [-1.0, -2.0, -0.375])
def test_opposite_lmis_become_equations(block: sf.problem.sets.BlockSet, times: float) -> None:
    rng = np.random.default_rng(3)
    values = [block.symmetrize(rng.integers(-3, 4, block.shape).astype(float)) for _ in range(2)]
    for far, wanted in ((0.0, sf.Verdict.FEASIBLE), (1.0, sf.Verdict.INFEASIBLE)):
        constant = -(2.0 * values[0] - values[1])
        constant.reshape(-1)[0] += far
        if far and isinstance(block, sf.Nonneg):
            continue  # as many unknowns as equations
        both = [lmi(block, constant, values, each) for each in (1.0, times)]
        problem = sf.FeasibilityProblem([sf.Free(2)], [None], [], [], lmis=both)
        equal = meeting_pairs(problem).problem
        assert not equal.lmis
        assert equal.equality.all()
        found = sf.solve(problem, rigorous=True)
        assert found.verdict is wanted
        if wanted is sf.Verdict.FEASIBLE:
            value = sf.optimum(problem, [np.array([1.0, 1.0])], time_limit=10.0)
            assert value.lower <= 1.0 <= value.upper
            assert value.converged


def test_only_bounds_that_meet_to_the_last_bit_are_joined() -> None:
    third = np.nextafter(1.0, 2.0)
    for high, rows in ((third, 2), (1.0, 1)):
        problem = sf.FeasibilityProblem([sf.Free(1)], [np.ones((2, 1))], [1.0, -INF], [INF, high])
        assert meeting_pairs(problem).problem.m == rows
    crossed = sf.FeasibilityProblem([sf.PSD(1)], [np.array([[[3.0]], [[7.0]]])], [third, -INF], [INF, 7 / 3])
    y = meeting_pairs(crossed).certificate
    assert (y is not None) == (Fraction(third) / 3 > Fraction(7 / 3) / 7)
    apart = sf.FeasibilityProblem([sf.PSD(1)], [np.array([[[3.0]], [[-6.0]]])], [6.0, -10.0], [INF, INF])
    assert sf.solve(apart).verdict is sf.Verdict.INFEASIBLE
    assert meeting_pairs(apart).certificate is not None


def test_a_row_meets_a_one_by_one_lmi() -> None:
    problem = sf.FeasibilityProblem(
        [sf.Free(2)],
        [np.array([[1.0, 1.0]])],
        [-INF],
        [1.0],
        lmis=[
            lmi(sf.PSD(1), [[-2.0]], [[[2.0]], [[2.0]]]),
            lmi(sf.PSD(2), np.eye(2), [np.eye(2), np.eye(2)]),
        ],
    )
    joined = meeting_pairs(problem).problem
    assert joined.equality.tolist() == [True]
    assert len(joined.lmis) == 1
    assert sf.solve(problem, rigorous=True).verdict is sf.Verdict.FEASIBLE


@pytest.mark.parametrize("powers", [(-1000, 1000), (1000, -1000), (-600, 474), (474, -600)])
@pytest.mark.parametrize("high", [0.0, -1.0])
def test_parallel_rows_of_any_ratio_raise_nothing(powers: tuple[int, int], high: float) -> None:
    """Rows whose ratio is no normal double are left as they are; bounds that cross are still found."""
    rows = np.ldexp(np.array([[1.0, 2.0], [1.0, 2.0]]), np.array(powers)[:, None])
    problem = sf.FeasibilityProblem([sf.Free(2)], [rows], [0.0, -INF], [INF, high])
    pairs = meeting_pairs(problem)
    assert (pairs.certificate is None) == (high == 0.0)
    assert high or pairs.problem is problem
    wanted = sf.Verdict.INFEASIBLE if high else sf.Verdict.FEASIBLE
    assert sf.solve(problem, rigorous=True).verdict is wanted
