"""Time large WLDA problems (many classes, high dimension), and fair PCA against multiplicative weights.

The unit is one ``scipy.linalg.eigh`` of the same dimension in the same process, with one thread; all times
are processor times. ``pytest benchmarks/bench_scale.py -s --benchmark-only`` runs the short ones, ``--full``
all of them.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from contest import compete
from laboratory import Laboratory
from results import Lines
from targets import SIZES
from wlda_problems import Size, size_of

import sdpfeas as sf

pytestmark = pytest.mark.timeout(0)

#: Sizes of the short set: up to so many classes, and dimensions.
SHORT_UP_TO = 200, 1000


def spent(run: Any) -> tuple[float, Any]:
    """Processor seconds of a call, and what it returned."""
    begin = time.process_time()
    found = run()
    return time.process_time() - begin, found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "limits" not in metafunc.fixturenames:
        return
    full = metafunc.config.getoption("--full")
    sizes = [size for size in SIZES if full or _is_short(size_of(size[0]))]
    cells = [(problem, "ours" if tol == 1e-6 else "ours-1e-3", more) for problem, tol, *more in sizes]
    ids = [f"{problem}-{contestant}" for problem, contestant, _ in cells]
    metafunc.parametrize(("problem", "contestant", "limits"), cells, ids=ids)


def _is_short(size: Size) -> bool:
    return size.classes <= SHORT_UP_TO[0] and size.dimension <= SHORT_UP_TO[1]


def test_sizes(
    benchmark: Any, laboratory: Laboratory, problem: str, contestant: str, limits: list[float]
) -> None:
    cell = compete(benchmark, laboratory, problem, contestant)
    most, gigabytes = limits
    print(f"{problem}, {contestant}: {cell.eigh_equivalents} eigendecompositions, {cell.peak_memory} bytes")
    assert cell.proven, cell.detail or cell.note
    assert cell.converged, cell.note
    assert (cell.eigh_equivalents or math.inf) <= most
    assert cell.peak_memory <= gigabytes * 1e9


def test_fair_pca_beside_multiplicative_weights(benchmark: Any, kept: Lines) -> None:
    family = sf.families.FantopeMaxMin.make(n=500, groups=16, r=5)
    sf.bisect(sf.families.FantopeMaxMin.make(n=300, groups=2, r=2))
    ours, found = benchmark.pedantic(lambda: spent(lambda: sf.bisect(family, tol=1e-3)), rounds=1)
    matrices = np.array([family.at(0.0).adjoint(np.eye(16)[k])[0] for k in range(16)])
    plain, gap = spent(lambda: multiplicative_weights(matrices, 5, 1e-3, 20.0 * ours))
    kept.add("fair-pca/500-16-5", ours=ours, our_gap=found.gap, plain=plain, gap=gap)
    print(f"ours {ours:.2f} s to {found.gap:.1e}; multiplicative weights {plain:.2f} s to {gap:.1e}")
    assert found.converged
    assert ours < plain


def multiplicative_weights(matrices: np.ndarray, r: int, tol: float, limit: float) -> float:
    """The plain loop: the relative gap it reaches within a limit."""
    begin = time.process_time()
    m, n = matrices.shape[:2]
    weights, total = np.full(m, 1.0 / m), np.zeros(m)
    upper, rounds, gap = np.inf, 0, np.inf
    width = max(float(np.linalg.norm(a, 2)) for a in matrices) * r
    while time.process_time() - begin < limit and gap > tol:
        lam, vec = scipy.linalg.eigh(np.tensordot(weights, matrices, 1), subset_by_index=(n - r, n - 1))
        upper = min(upper, float(lam.sum()))
        values = np.einsum("ia,kij,ja->k", vec, matrices, vec, optimize=True)
        total, rounds = total + values, rounds + 1
        weights = weights * np.exp(-values / width * 4.0)
        weights = weights / weights.sum()
        gap = (upper - float(np.min(total / rounds))) / upper
    return gap
