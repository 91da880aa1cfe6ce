"""Random matrices, and rows that hold at a point: what tests of existence proofs are made of."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.families import planted


def symmetric(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    a = rng.normal(size=(m, n, n))
    return a + a.transpose(0, 2, 1)


def hermitian(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    a = rng.normal(size=(m, n, n)) + 1j * rng.normal(size=(m, n, n))
    return a + a.conj().transpose(0, 2, 1)


def equations(sets, rows, point) -> sf.FeasibilityProblem:
    """Rows that hold at a point up to rounding."""
    bounds = planted.values(sf.FeasibilityProblem(sets, rows, *_open(rows)).rows, point, _count(rows))
    return sf.FeasibilityProblem(sets, rows, bounds, bounds)


def _count(rows) -> int:
    return next(len(part) if not sp.issparse(part) else part.shape[0] for part in rows if part is not None)


def _open(rows):
    return np.full(_count(rows), -np.inf), np.full(_count(rows), np.inf)
