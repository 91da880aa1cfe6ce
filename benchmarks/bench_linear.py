"""Time ``auto``, proof included, beside Clarabel without a proof on linear and second-order problems.

The problems are sparse, with five entries per column, and planted: a point with margin, or a Farkas
certificate with margin. All times are processor times with one thread. Run one test per process to compare
peak memory. ``pytest benchmarks/bench_linear.py -s
--benchmark-only`` runs 2,000 variables, ``--full`` also 5,000 variables and 3,000 rows.
"""

from __future__ import annotations

import resource
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

#: Largest ratio of the processor times of ``auto``, proof included, and of Clarabel alone; and for
#: solutions of equations alone, whose proof takes two dense Cholesky factors.
MOST, MOST_WITH_EQUATIONS = 1.5, 1.7

#: Bounds of the rows, and one column in ten is free.
ROWS = ("equations", "inequalities", "both")


def planted(n: int, cone: str, rows: str, *, feasible: bool, free: bool = False) -> sf.FeasibilityProblem:
    """Make a problem with ``0.6 n`` sparse rows: equations, inequalities with one bound each, or both.

    With ``free``, one column in ten belongs to a Free block.
    """
    rng, m = np.random.default_rng(n), 3 * n // 5
    diagonal = sp.csr_array((np.ones(m), (np.arange(m), rng.permutation(n)[:m])), shape=(m, n))
    random = sp.random_array(
        (m, n), density=ENTRIES_PER_COLUMN / m, rng=rng, data_sampler=rng.standard_normal
    )
    matrix = sp.csr_array(random + diagonal)
    conic = n - n // 10 if free else n
    equal = {"equations": np.ones(m, bool), "inequalities": np.zeros(m, bool), "both": rng.random(m) < 0.5}
    y = rng.normal(size=m)
    x = np.concatenate([_interior(conic, cone, rng), rng.normal(size=n - conic)])
    if feasible:
        rhs = matrix @ x
        slack = np.where(equal[rows], 0.0, rng.random(m))
    else:
        # One more entry per column, or per cone, moves A*y to the negative of an interior point, or to zero.
        image = matrix.T @ y
        off = np.concatenate([-x[:conic], np.zeros(n - conic)]) - image
        index = np.arange(n)
        if cone != "linear":
            tails = np.linalg.norm(image[:conic].reshape(-1, SIDE)[:, 1:], axis=1)
            heads, index = np.arange(0, conic, SIDE), np.arange(0, n)
            index = np.concatenate([heads, np.arange(conic, n)])
            off = np.concatenate([-tails - 0.5 - image[heads], -image[conic:]])
        at = rng.choice(np.flatnonzero(np.abs(y) > 0.1), index.size)
        matrix = sp.csr_array(matrix + sp.csr_array((off / y[at], (at, index)), shape=(m, n)))
        rhs = rng.normal(size=m)
        rhs += (1.0 - rhs @ y) / (y @ y) * y
        slack = np.zeros(m)
    lower = np.where(equal[rows] | (y > 0.0), rhs - np.where(equal[rows], 0.0, slack), -np.inf)
    upper = np.where(equal[rows] | ~(y > 0.0), rhs + np.where(equal[rows], 0.0, slack), np.inf)
    side = conic if cone == "linear" else SIDE
    make = sf.Nonneg if cone == "linear" else sf.SecondOrder
    parts = [sp.csr_array(matrix[:, k : k + side]) for k in range(0, conic, side)]
    sets: list[sf.BlockSet] = [make(side) for _ in parts]
    if free:
        sets.append(sf.Free(n - conic))
        parts.append(sp.csr_array(matrix[:, conic:]))
    return sf.FeasibilityProblem(sets, parts, lower, upper)


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
@pytest.mark.parametrize("free", [False, True], ids=["cones", "free"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("cone", ["linear", "second-order"])
def test_auto_beside_clarabel(
    benchmark: Any, n: int, cone: str, rows: str, free: bool, feasible: bool
) -> None:
    problem = planted(n, cone, rows, feasible=feasible, free=free)
    for warm in ("auto", "clarabel"):
        sf.solve(planted(100, cone, rows, feasible=feasible, free=free), warm)
    begin = time.process_time()
    sf.find_solver("clarabel").make(objective="none").solve(problem, sf.Inquiry(problem))
    alone, used = time.process_time() - begin, peak_memory()
    begin = time.process_time()
    found = benchmark.pedantic(lambda: sf.solve(problem, "auto"), rounds=1)
    ours = time.process_time() - begin
    kind = f"{n} {cone}, {rows}{', free' if free else ''}, {found.verdict}"
    print(
        f"\n{kind}: auto {ours:.2f} s, Clarabel {alone:.2f} s, ratio {ours / alone:.2f}; "
        f"peak memory of the process {used:.0f} MB after Clarabel, {peak_memory():.0f} MB after auto"
    )
    assert found.verdict == ("feasible" if feasible else "infeasible")
    assert found.proof == "rigorous"
    assert ours <= (MOST_WITH_EQUATIONS if feasible and rows == "equations" else MOST) * alone


def peak_memory() -> float:
    """Return the peak memory of this process in megabytes (Linux counts in kilobytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
