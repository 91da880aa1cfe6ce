"""Minimal conflicts: two constraints among thousands, found in less time than the solve took."""

from __future__ import annotations

import time
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf

ROWS = 3000


def linear() -> sf.FeasibilityProblem:
    """Random inequalities at a point, and two opposite ones that no point satisfies."""
    rng = np.random.default_rng(5)
    n = 200
    draw = lambda size: rng.normal(size=size)  # noqa: E731
    rows = sp.random_array((ROWS, n), density=0.05, rng=rng, format="lil", data_sampler=draw)
    x = rng.normal(size=n)
    c = rng.normal(size=n)
    rows[1700], rows[2201] = c, -c
    upper = rows @ x + rng.uniform(0.5, 2.0, ROWS)
    upper[1700], upper[2201] = c @ x - 1.0, -(c @ x)
    return sf.FeasibilityProblem([sf.Free(n)], [rows.tocsr()], np.full(ROWS, -np.inf), upper)


def semidefinite() -> sf.FeasibilityProblem:
    rng = np.random.default_rng(0)
    n = 30
    half = rng.normal(size=(n, n))
    x = half @ half.T / n + np.eye(n)
    parts = rng.integers(-3, 4, (ROWS, n, n)).astype(float) * (rng.uniform(size=(ROWS, n, n)) < 0.005)
    parts = parts + parts.transpose(0, 2, 1)
    v = rng.normal(size=n)
    parts[1700], parts[2201] = np.eye(n), -np.outer(v, v)
    upper = np.einsum("kij,ij->k", parts, x) + rng.uniform(0.5, 2.0, ROWS)
    upper[1700], upper[2201] = np.trace(x), -1.2 * np.trace(x) * (v @ v)
    rows = sp.csr_array(parts.reshape(ROWS, -1))
    return sf.FeasibilityProblem([sf.PSD(n)], [rows], np.full(ROWS, -np.inf), upper)


def second_order() -> cp.Problem:
    rng = np.random.default_rng(0)
    n = 30
    x, at = cp.Variable(n, name="x"), rng.normal(size=n)
    constraints = []
    for k in range(300):
        part = np.round(rng.normal(size=(3, n)), 2)
        bound = float(np.linalg.norm(part @ at) * 1.3 + 1)
        constraints.append((cp.norm(part @ x) <= bound).set_label(f"cone {k}"))
    c = rng.normal(size=n)
    constraints[100] = (cp.norm(x - at) <= 1).set_label("1700")
    constraints[200] = (c @ x >= float(c @ at + 1.5 * np.linalg.norm(c))).set_label("2201")
    return cp.Problem(cp.Minimize(0), constraints)


@pytest.mark.parametrize("make", [linear, semidefinite, second_order])
def test_two_among_thousands(make: Any) -> None:
    asked = make()
    start = time.process_time()
    result = sf.solve(asked)
    solved = time.process_time() - start
    assert result.verdict == "infeasible"
    start = time.process_time()
    assert {entry.name for entry in result.conflict(prune=True)} == {"1700", "2201"}
    assert time.process_time() - start <= 3.0 * solved


def test_a_chain_of_constraints_is_minimal() -> None:
    """Without any one of them the others hold; the halves that QuickXplain drops are all needed."""
    n = 40
    rows = np.vstack([-np.eye(n)[0], np.eye(n)[:-1] - np.eye(n)[1:], np.eye(n)[-1]])
    upper = np.array([0.0, *(-np.ones(n - 1)), n - 2.0])
    extra = np.vstack([rows, np.random.default_rng(0).integers(-2, 3, (30, n))])
    upper = np.append(upper, np.full(30, 1e4))
    problem = sf.FeasibilityProblem([sf.Free(n)], [extra], np.full(upper.size, -np.inf), upper)
    result = sf.solve(problem)
    assert {entry.row for entry in result.conflict(prune=True)} == set(range(n + 1))
    assert len(result.conflicts(limit=2, time_limit=5.0)) == 1
    short = result.conflict(prune=True, time_limit=1e-3)
    assert {entry.row for entry in short} >= set(range(n + 1))


def test_a_weakly_infeasible_problem_has_a_conflict() -> None:
    builder = sf.ProblemBuilder()
    builder.block("X", sf.PSD(2))
    builder.row("corner", {"X": [[1, 0], [0, 0]]}, upper=0)
    builder.row("side", {"X": [[0, 0.5], [0.5, 0]]}, lower=1)
    builder.row("other", {"X": [[0, 0], [0, 1]]}, upper=9)
    result = sf.solve(builder.build())
    assert result.verdict == "infeasible"
    found = result.conflict(prune=True)
    assert {"corner", "side"} <= {entry.name for entry in found}
