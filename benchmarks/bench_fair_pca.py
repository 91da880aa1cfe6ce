"""Time fair PCA against multiplicative weights, in processor time with one thread."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import sdpfeas as sf

pytestmark = pytest.mark.timeout(0)


def spent(run: Any) -> tuple[float, Any]:
    """Processor seconds of a call, and what it returned."""
    begin = time.process_time()
    found = run()
    return time.process_time() - begin, found


def test_fair_pca_beside_multiplicative_weights(benchmark: Any) -> None:
    family = sf.families.FantopeMaxMin.make(n=500, groups=16, r=5)
    sf.bisect(sf.families.FantopeMaxMin.make(n=300, groups=2, r=2))
    ours, found = benchmark.pedantic(lambda: spent(lambda: sf.bisect(family, tol=1e-3)), rounds=1)
    matrices = np.array([family.at(0.0).adjoint(np.eye(16)[k])[0] for k in range(16)])
    plain, gap = spent(lambda: multiplicative_weights(matrices, 5, 1e-3, 20.0 * ours))
    line = {"table": "fair-pca", "ours": ours, "our_gap": found.gap, "plain": plain, "gap": gap}
    benchmark.extra_info["line"] = line
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
