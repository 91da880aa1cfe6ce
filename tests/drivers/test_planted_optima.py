"""Optima planted in exact numbers, with and without an interior: no bracket leaves them out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, exact, examples

import sdpfeas as sf
from sdpfeas.problem.sets import BlockSet


def complementary(rng: np.random.Generator) -> tuple[BlockSet, np.ndarray, np.ndarray]:
    """A set, a member of it and one of its dual, of integers, whose inner product is exactly zero."""
    kind, n = rng.integers(4), int(rng.integers(1, 5))
    picked = rng.random(n) < 0.5
    one, other = rng.integers(0, 4, n) * picked + 0.0, rng.integers(0, 4, n) * ~picked + 0.0
    if kind == 0:
        return sf.Nonneg(n), one, other
    if kind == 1:
        return sf.Free(n), rng.integers(-3, 4, n) + 0.0, np.zeros(n)
    if kind == 2:
        pairs = [([5, 3, 4], [5, -3, -4]), ([0, 0, 0], [6, 3, 4]), ([6, 3, 4], [0, 0, 0])]
        x, s = pairs[rng.integers(3)]
        return sf.SecondOrder(3), rng.integers(0, 3) * np.array(x, float), np.array(s, float)
    # X = P D P' and S = Q E Q' with Q the inverse of P', which is whole: P is a product of elementary ones.
    p, q = np.eye(n), np.eye(n)
    for i, j in rng.integers(0, n, (3, 2)):
        step = float(rng.integers(-2, 3)) * (i != j)
        p[i] += step * p[j]
        q[j] -= step * q[i]
    return sf.PSD(n), p @ np.diag(one) @ p.T, q @ np.diag(other) @ q.T


def planted(rng: np.random.Generator) -> tuple[sf.FeasibilityProblem, sf.Objective, Fraction]:
    """A program and its optimal value: attained by X, and by multipliers y with ``-S = C + A*y``."""
    sets, point, slack = (list(part) for part in zip(*(complementary(rng) for _ in range(3)), strict=True))
    m, unit = int(rng.integers(1, 4)), 2.0 ** int(rng.choice([0, 0, 20, -20, 300, -300]))
    rows = []
    for block in sets:
        a = rng.integers(-3, 4, (m, *block.shape)) + 0.0
        rows.append(unit * (a + a.swapaxes(1, 2) if block.matrix else a))
    y = rng.integers(-3, 4, m) + 0.0
    values = sum(
        np.array([np.sum(exact(a[i]) * exact(x)) for i in range(m)]) for a, x in zip(rows, point, strict=True)
    )
    bounds = values.astype(float)
    lower, upper = bounds.copy(), bounds.copy()
    loose = rng.random(m) < 0.4
    upper[loose & (y >= 0.0)] = np.inf
    lower[loose & (y <= 0.0)] = -np.inf
    # In one unit, so that no number is rounded: else y need not be dual feasible.
    terms = [-unit * s - np.tensordot(y, a, 1) for s, a in zip(slack, rows, strict=True)]
    best = sum((np.sum(exact(c) * exact(x)) for c, x in zip(terms, point, strict=True)), Fraction(0))
    stored = [sp.csr_array(a.reshape(m, -1)) if rng.random() < 0.5 else a for a in rows]
    problem = sf.FeasibilityProblem(sets, stored, lower, upper)
    offset = float(rng.choice([0.0, 0.1, -7.3]))
    if rng.random() < 0.5:
        return problem, sf.Objective(terms, "max", offset), best + Fraction(offset)
    return problem, sf.Objective([-c for c in terms], "min", offset), Fraction(offset) - best


def bracketed(seed: int, solver: str) -> None:
    problem, objective, best = planted(np.random.default_rng(seed))
    found = sf.optimum(problem, objective, 1e-6, solver, time_limit=1.0)
    assert found.infeasible is None
    assert found.lower <= best <= found.upper


@examples(0.1)
@given(SEEDS)
def test_planted_optima_are_in_their_brackets(seed: int) -> None:
    bracketed(seed, "clarabel")


@pytest.mark.slow
@examples(2.0)
@given(st.integers(2**32, 2**33), st.sampled_from(["auto", "spectral-ipm", "clarabel"]))
def test_planted_optima_are_in_their_brackets_often(seed: int, solver: str) -> None:
    bracketed(seed, solver)
