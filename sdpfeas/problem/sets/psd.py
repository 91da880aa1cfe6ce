"""The cone of positive semidefinite matrices.

Projection: ``V max(Lambda, 0) V'`` for ``X = V Lambda V'``. Support function: 0 if ``G`` is negative
semidefinite, else infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import (
    definite,
    inflate,
    product_up,
    semidefinite,
    smallest_eigenvalue_lower,
    sqrt_upper,
    symmetric_norm_upper,
)
from sdpfeas.problem.sets.base import MatrixSet

__all__ = ["PSD"]


@dataclass(frozen=True)
class PSD(MatrixSet):
    """The cone of symmetric positive semidefinite n×n matrices.

    Parameters
    ----------
    n : int
        Side of the matrices.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> cone = sf.PSD(2)
    >>> print(cone.project(np.diag([1.0, -2.0])))
    [[1. 0.]
     [0. 0.]]
    >>> cone.support(-np.eye(2)), cone.support(np.eye(2))
    (0.0, inf)
    """

    kind = "PSD"
    lower = 0.0

    def distance_upper(self, x: FloatArray) -> float:
        """Return zero for a semidefinite matrix, else the norm of ``t·I`` with ``x + t·I`` semidefinite."""
        if semidefinite(x):
            return 0.0
        return float(product_up(max(-smallest_eigenvalue_lower(x), 0.0), sqrt_upper(self.n)))

    def support_upper(
        self, g: FloatArray, error: FloatArray, slip: float, moves: np.ndarray | None
    ) -> tuple[float, float]:
        """Return zero if all these matrices are negative semidefinite; see :meth:`BlockSet.support_upper`."""
        # Rows that are exactly zero in all these matrices are dropped: the rest can be strictly definite.
        alive = (g != 0.0) | (error != 0.0)
        alive = alive if moves is None else alive | moves
        keep = np.any(alive | alive.T, axis=1)
        g, error = g[np.ix_(keep, keep)], error[np.ix_(keep, keep)]
        shift = 0.0
        if moves is not None or error.any():
            shift = float(inflate(symmetric_norm_upper(error) + slip, 4))
        return (0.0 if definite(-g, shift=shift) else math.inf), 0.0
