"""Time ``auto``, proof included, beside Clarabel without a proof on linear and second-order problems.

The problems are sparse, with five entries per column, and planted: a point with margin, or a Farkas
certificate with margin. All times are processor times with one thread. ``pytest benchmarks/bench_linear.py -s
--benchmark-only`` runs 2,000 variables, ``--full`` also 5,000 variables and 3,000 rows.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf

pytestmark = pytest.mark.timeout(0)

#: Variables; there are three rows per five variables.
SHORT, FULL = (2000,), (2000, 5000)

#: Entries per column, and side of the second-order cones.
ENTRIES_PER_COLUMN, SIDE = 5, 10

#: Largest ratio of the processor times of ``auto`` and of Clarabel alone; and for solutions of equations,
#: whose existence proof factorises the Gram matrix of the rows.
MOST, MOST_WITH_EQUATIONS = 1.5, 2.5


def planted(n: int, cone: str, rows: str, *, feasible: bool) -> sf.FeasibilityProblem:
    """Make a problem with ``0.6 n`` sparse rows: equations, or inequalities with one bound each."""
    rng, m = np.random.default_rng(n), 3 * n // 5
    side = n if cone == "linear" else SIDE
    diagonal = sp.csr_array((np.ones(m), (np.arange(m), rng.permutation(n)[:m])), shape=(m, n))
    random = sp.random_array(
        (m, n), density=ENTRIES_PER_COLUMN / m, rng=rng, data_sampler=rng.standard_normal
    )
    matrix = sp.csr_array(random + diagonal)
    y = rng.normal(size=m)
    if feasible:
        rhs = matrix @ _interior(n, cone, rng)
        slack = 0.0 if rows == "equations" else rng.random(m)
    else:
        # One more entry per column, or per cone, moves A*y to the negative of an interior point.
        target = -_interior(n, cone, rng)
        off = target - matrix.T @ y
        index = np.arange(n)
        if cone != "linear":
            wanted = matrix.T @ y
            tails = np.linalg.norm(wanted.reshape(-1, SIDE)[:, 1:], axis=1)
            index = np.arange(0, n, SIDE)
            off = -tails - 0.5 - wanted[index]
        at = rng.choice(np.flatnonzero(np.abs(y) > 0.1), index.size)
        matrix = sp.csr_array(matrix + sp.csr_array((off / y[at], (at, index)), shape=(m, n)))
        rhs = rng.normal(size=m)
        rhs += (1.0 - rhs @ y) / (y @ y) * y
        slack = 0.0
    lower = upper = rhs
    if rows != "equations":
        below = y > 0.0
        lower, upper = np.where(below, rhs - slack, -np.inf), np.where(below, np.inf, rhs + slack)
    if cone == "linear":
        return sf.FeasibilityProblem([sf.Nonneg(n)], [matrix], lower, upper)
    parts = [sp.csr_array(matrix[:, k : k + side]) for k in range(0, n, side)]
    return sf.FeasibilityProblem([sf.SecondOrder(side) for _ in parts], parts, lower, upper)


def _interior(n: int, cone: str, rng: np.random.Generator) -> np.ndarray:
    """Draw a vector inside the cones, with margin."""
    if cone == "linear":
        return rng.uniform(0.5, 1.5, n)
    x = rng.normal(size=(n // SIDE, SIDE))
    x[:, 0] = np.linalg.norm(x[:, 1:], axis=1) + rng.uniform(0.5, 1.5, n // SIDE)
    return x.ravel()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    sizes = FULL if metafunc.config.getoption("--full") else SHORT
    metafunc.parametrize("n", sizes)


@pytest.mark.parametrize("feasible", [True, False], ids=["feasible", "infeasible"])
@pytest.mark.parametrize("rows", ["equations", "inequalities"])
@pytest.mark.parametrize("cone", ["linear", "second-order"])
def test_auto_beside_clarabel(benchmark: Any, n: int, cone: str, rows: str, feasible: bool) -> None:
    problem = planted(n, cone, rows, feasible=feasible)
    for warm in ("auto", "clarabel"):
        sf.solve(planted(50, cone, rows, feasible=feasible), warm)
    begin = time.process_time()
    sf.find_solver("clarabel").make(objective="none").solve(problem, sf.Inquiry(problem))
    alone = time.process_time() - begin
    begin = time.process_time()
    found = benchmark.pedantic(lambda: sf.solve(problem, "auto"), rounds=1)
    ours = time.process_time() - begin
    print(f"\n{n} {cone} {rows}: auto {ours:.2f} s, Clarabel {alone:.2f} s, ratio {ours / alone:.2f}")
    assert found.verdict == ("feasible" if feasible else "infeasible")
    assert found.proof == "rigorous"
    assert ours <= (MOST_WITH_EQUATIONS if feasible and rows == "equations" else MOST) * alone
