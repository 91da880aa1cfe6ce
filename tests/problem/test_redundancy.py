"""Rows that follow from others are found, dropped and mapped back; contradictions are proved."""

from __future__ import annotations

from fractions import Fraction

import known_answers
import numpy as np
import pytest
import scipy.sparse as sp
from auditing import audited
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, exact

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding
from sdpfeas.families import planted
from sdpfeas.problem.reductions.redundant_rows import independent_rows
from sdpfeas.problem.rows import Combined, Dense, LowRank, PairwiseDifference, Rows, Sparse
from sdpfeas.verifier import decide


def rank(table: list[list[Fraction]]) -> int:
    """Rank of a matrix of fractions."""
    rows, found = [list(row) for row in table], 0
    for column in range(len(rows[0]) if rows else 0):
        hit = next((r for r in range(found, len(rows)) if rows[r][column]), None)
        if hit is None:
            continue
        rows[found], rows[hit] = rows[hit], rows[found]
        for r in range(found + 1, len(rows)):
            factor = rows[r][column] / rows[found][column]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[found], strict=True)]
        found += 1
    return found


def table_of(problem: sf.FeasibilityProblem) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """Equality rows written out, and identities where a trace is known; the same with their bounds."""
    left = []
    for i in np.flatnonzero(problem.equality):
        parts = [rows.exact_row(int(i)).reshape(-1) for rows in problem.rows]
        left.append(list(np.concatenate(parts)))
    right = [Fraction(v) for v in problem.lower[problem.equality]]
    for b, block in enumerate(problem.sets):
        if block.trace is not None:
            parts = [np.full(s.entries, Fraction(0)) for s in problem.sets]
            parts[b] = exact(np.eye(block.n)).reshape(-1)
            left.append(list(np.concatenate(parts)))
            right.append(Fraction(block.trace))
    return left, [[*row, value] for row, value in zip(left, right, strict=True)]


def rows_of(rng: np.random.Generator, block: sf.problem.sets.BlockSet, m: int) -> Rows:
    """Integer rows of some storage."""
    if not block.matrix:
        return Dense(rng.integers(-3, 4, size=(m, block.n)).astype(float))
    kind = rng.integers(4)
    if kind == 0:
        return LowRank([rng.integers(-2, 3, size=(2, block.n)).astype(float) for _ in range(m)])
    if kind == 1:
        return PairwiseDifference(rng.integers(-2, 3, size=(4, block.n)).astype(float)).select(
            rng.integers(6, size=m)
        )
    array = rng.integers(-3, 4, size=(m, block.n, block.n)).astype(float)
    array = array + array.transpose(0, 2, 1)
    return Dense(array) if kind == 2 else Sparse(sp.csr_array(array.reshape(m, -1)), block.n, True)


SETS = (
    [sf.PSD(3)],
    [sf.Nonneg(4)],
    [sf.Free(3), sf.PSD(2)],
    [sf.SpectralBox(3, trace=1.5)],
    [sf.SpectralBox(2, -1.0, 2.0, trace=0.25), sf.Nonneg(2), sf.SpectralBox(2)],
)


def dependent(rng: np.random.Generator, sets: list[sf.problem.sets.BlockSet]) -> sf.FeasibilityProblem:
    """Integer rows, combinations of them, empty ones, and traces as rows; all bounds agree."""
    few = int(rng.integers(1, 5))
    more = np.concatenate([np.eye(few), rng.integers(-2, 3, size=(int(rng.integers(1, 4)), few)) / 2.0])
    mixed = sp.csr_array(more[rng.permutation(more.shape[0])])
    rows: list[Rows] = [Combined(mixed, rows_of(rng, block, few)) for block in sets]
    point = []
    for block in sets:
        if block.trace is not None:
            point.append(np.diag(np.full(block.n, block.trace / block.n)))
        else:
            point.append(np.eye(block.n) / 2.0 if block.matrix else np.full(block.n, 0.5))
    bounds = np.zeros(mixed.shape[0])
    for part, x in zip(rows, point, strict=True):
        bounds += [float(np.sum(part.exact_row(i) * exact(x))) for i in range(part.m)]
    return sf.FeasibilityProblem(sets, rows, bounds, bounds)


@given(SEEDS, st.sampled_from(SETS))
def test_what_follows_is_dropped_and_nothing_else(seed: int, sets: list[sf.problem.sets.BlockSet]) -> None:
    """As many rows are left as are independent, by rational elimination."""
    problem = dependent(np.random.default_rng(seed), sets)
    found = independent_rows(problem)
    left, both = table_of(problem)
    traces = sum(block.trace is not None for block in sets)
    assert found.contradiction is None or rank(both) > rank(left)
    if rank(both) == rank(left):
        assert found.problem.m == rank(left) - traces
        assert rank(table_of(found.problem)[1]) == rank(both)


@given(SEEDS, st.sampled_from(SETS))
def test_contradictions_are_certificates(seed: int, sets: list[sf.problem.sets.BlockSet]) -> None:
    """A bound that disagrees is found, its certificate holds exactly, and the auditor agrees."""
    rng = np.random.default_rng(seed)
    agreeing = dependent(rng, sets)
    bounds = np.array(agreeing.lower)
    bounds[rng.integers(bounds.size)] += 2.0 ** -int(rng.integers(0, 30))
    problem = sf.FeasibilityProblem(sets, agreeing.rows, bounds, bounds)
    left, both = table_of(problem)
    found = independent_rows(problem)
    assert (found.contradiction is not None) == (rank(both) > rank(left))
    if found.contradiction is not None:
        y = found.contradiction.multipliers
        assert known_answers.exactly_certified(problem, y) is not False
        point = tuple(block.interior_point() for block in sets)
        check = decide(problem, sf.Claim(point=point))
        assert check.verdict is not sf.Verdict.FEASIBLE
        if check.verdict is sf.Verdict.INFEASIBLE:
            assert audited(check).finding is Finding.CONFIRMED


@pytest.mark.parametrize("power", [-900, -300, 0, 300, 900])
def test_the_last_bit_counts_at_every_scale(power: int) -> None:
    """Twice a row is dropped; twice a row but for one bit is another row."""
    row = np.ldexp(np.array([[0.1, 0.7], [0.7, -0.3]]), power)
    for slip in (False, True):
        again = 2.0 * row
        if slip:
            again[0, 0] = np.nextafter(again[0, 0], np.inf)
        bounds = np.ldexp(np.array([0.25, 0.5]), power)
        problem = sf.FeasibilityProblem([sf.PSD(2)], [np.array([row, again])], bounds, bounds)
        assert independent_rows(problem).problem.m == (2 if slip else 1)


def doubled(problem: sf.FeasibilityProblem, mix: np.ndarray, off: float = 0.0) -> sf.FeasibilityProblem:
    """The problem, and combinations of its rows besides."""
    whole = sp.csr_array(np.vstack([np.eye(problem.m), mix]))
    rows = [r if r.empty else Combined(whole, r) for r in problem.rows]
    bounds = np.concatenate([problem.lower, mix @ problem.lower + off])
    return sf.FeasibilityProblem(problem.sets, rows, bounds, bounds)


@pytest.mark.parametrize("backend", ["auto", "spectral-ipm", "clarabel", "scs", "dual-lbfgs", "admm"])
def test_redundant_rows_are_no_obstacle_to_a_proof(backend: str) -> None:
    """Duplicates, multiples, sums and an empty row: rigorously feasible, or provably contradictory."""
    rng = np.random.default_rng(3)
    made = planted.feasible(rng, [sf.PSD(10)], bounds="equality", rows=12).problem
    bounds = np.round(made.lower * 1024.0) / 1024.0
    plain = sf.FeasibilityProblem(made.sets, made.rows, bounds, bounds)
    mix = np.zeros((4, 12))
    mix[0, 0], mix[1, 1], mix[2, 2:4] = 1.0, -2.0, (0.5, 3.0)
    found = sf.solve(doubled(plain, mix), backend, time_limit=60)
    assert (found.verdict, found.proof) == ("feasible", "rigorous"), found.reason
    assert "4 rows follow from others" in found.reason
    found = sf.solve(doubled(plain, mix[:3], 1.0), backend, time_limit=60)
    assert found.verdict == "infeasible", found.reason
    assert found.proof != "numeric"


def test_starts_and_multipliers_go_forth_and_back() -> None:
    """What a dropped row weighed is given to those it follows from."""
    problem = dependent(np.random.default_rng(5), [sf.PSD(3)])
    found = independent_rows(problem)
    assert found.problem.m < problem.m
    y = np.arange(1.0, problem.m + 1.0)
    forth = found.start_multipliers(y)
    np.testing.assert_allclose(found.problem.adjoint(forth)[0], problem.adjoint(y)[0], atol=1e-12)
    np.testing.assert_allclose(
        problem.adjoint(found.multipliers(forth))[0], problem.adjoint(y)[0], atol=1e-12
    )
    point = (np.eye(3),)
    assert found.start_point(point) is point
    assert found.point(point) is point
