"""The ends of the range: many classes, many dimensions, fair PCA beside multiplicative weights.

The unit is one ``scipy.linalg.eigh`` of the same dimension in the same process, with one thread; all times
are processor times of the search alone. ``pytest benchmarks/bench_scale.py -s --benchmark-only`` runs the
short ones, ``--full`` all of them.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from wlda_problems import load, synthetic

import sdpfeas as sf

pytestmark = pytest.mark.timeout(0)

#: Classes, dimension, tolerance, eigendecompositions at most, gigabytes at most; the last ones for hours.
SIZES = (
    (100, 100, 1e-6, 1500.0, 1.0),
    (200, 100, 1e-6, 5000.0, 1.0),
    (1000, 100, 1e-3, 600_000.0, 4.0),
    (10, 400, 1e-3, 60.0, 1.0),
    (10, 1000, 1e-3, 35.0, 2.0),
    (10, 1000, 1e-6, 80.0, 2.0),
    (10, 2000, 1e-3, 35.0, 3.0),
    (10, 2000, 1e-6, 80.0, 3.0),
    (10, 5000, 1e-3, 35.0, 6.0),
)
SHORT_UP_TO = 1000

#: How much one program may be slower than when it is asked for by name.
AUTO = 1.2


def unit(n: int) -> float:
    """Processor seconds of one eigendecomposition, the least of a few."""
    matrix = np.random.default_rng(0).standard_normal((n, n))
    matrix = matrix + matrix.T
    return min(spent(lambda: scipy.linalg.eigh(matrix))[0] for _ in range(1 if n > 1000 else 5))


def spent(run: Any) -> tuple[float, Any]:
    """Processor seconds of a call, and what it returned."""
    begin = time.process_time()
    found = run()
    return time.process_time() - begin, found


@pytest.mark.parametrize(("classes", "dimension", "tol", "most", "gigabytes"), SIZES)
def test_sizes(
    classes: int, dimension: int, tol: float, most: float, gigabytes: float, request: Any, benchmark: Any
) -> None:
    if dimension > SHORT_UP_TO and not request.config.getoption("--full"):
        pytest.skip("takes --full")
    X, y = load(synthetic(classes, dimension))
    family = sf.families.WLDA.from_data(X, y)
    sf.bisect(sf.families.WLDA.from_data(*load(synthetic(4, 20))))  # imports are nobody's time
    one = unit(dimension)
    seconds, found = benchmark.pedantic(lambda: spent(lambda: sf.bisect(family, tol=tol)), rounds=1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    benchmark.extra_info.update(eigendecompositions=seconds / one, gigabytes=memory)
    print(
        f"c = {classes}, d = {dimension}, {tol:g}: {seconds / one:.0f} eigendecompositions, {memory:.2f} GB"
    )
    assert found.proven
    assert found.converged
    assert seconds <= most * one
    assert memory <= gigabytes


def test_auto_is_one_program(benchmark: Any) -> None:
    X, y = load(synthetic(20, 100))
    times: dict[str, list[float]] = {"auto": [], "one shot": []}
    for _ in range(5):
        for name, search in (("auto", sf.bisect), ("one shot", sf.one_shot)):
            family = sf.families.WLDA.from_data(X, y)
            times[name].append(spent(lambda search=search, family=family: search(family, tol=1e-6))[0])
    benchmark.pedantic(lambda: None, rounds=1)
    assert min(times["auto"]) <= AUTO * min(times["one shot"])


def test_fair_pca_beside_multiplicative_weights(benchmark: Any) -> None:
    family = sf.families.FantopeMaxMin.make(n=500, groups=16, r=5)
    sf.bisect(sf.families.FantopeMaxMin.make(n=300, groups=2, r=2))
    ours, found = benchmark.pedantic(lambda: spent(lambda: sf.bisect(family, tol=1e-3)), rounds=1)
    matrices = np.array([family.at(0.0).adjoint(np.eye(16)[k])[0] for k in range(16)])
    plain, gap = spent(lambda: multiplicative_weights(matrices, 5, 1e-3, 20.0 * ours))
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
