"""Projection onto the graph of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, cg

from sdpfeas.backends.admm.space import Space
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray

__all__ = ["Graph"]

#: Systems up to this size are diagonalised once for every penalty, ...
EIGEN_LIMIT = 600

#: ... up to this one factorised anew when the penalty changes, and beyond that solved iteratively.
CHOLESKY_LIMIT = 3000


class Graph:
    """Projection onto the graph ``{(x, A x)}``, its second part weighted by the penalty.

    The member nearest to ``(v, u)`` has ``x = v + A't`` with ``t = (I/penalty + AA')^-1 (u - A v)``. Where
    ``AA'`` is diagonal but for few columns, these are factorised; else it is diagonalised or factorised
    itself, and where it is too large, conjugate gradients do.
    """

    def __init__(self, space: Space, penalty: float) -> None:
        self.space = space
        self._parts = space.diagonal_plus_columns()
        self._matrix: FloatArray | None = None
        self._eigen: tuple[FloatArray, FloatArray] | None = None
        self._factor: Any = None
        self._last = np.zeros(space.problem.m)
        if self._parts is None and space.problem.m <= CHOLESKY_LIMIT:
            m = float(space.problem.m)
            need("the Gram matrix of the rows", *space.gram_work, memory=32.0 * m * m)
            self._matrix = space.gram()
            if space.problem.m <= EIGEN_LIMIT:
                need("an eigendecomposition", cubes=m**3)
                lam, vec = scipy.linalg.eigh(self._matrix, check_finite=False)
                self._eigen = np.maximum(lam, 0.0), vec
        self.set_penalty(penalty)

    def set_penalty(self, penalty: float) -> None:
        """Weigh the second part anew."""
        self.penalty = penalty
        if self._parts is not None:
            diagonal, columns, signs = self._parts
            self._inverse = 1.0 / (diagonal + 1.0 / penalty)
            inner = np.diag(signs) + columns.T @ (self._inverse[:, None] * columns)
            self._factor = scipy.linalg.lu_factor(inner, check_finite=False)
        elif self._matrix is not None and self._eigen is None:
            need("a factor of the Gram matrix", products=0.5 * float(self._matrix.shape[0]) ** 3)
            shifted = self._matrix + np.eye(self._matrix.shape[0]) / penalty
            self._factor = scipy.linalg.cho_factor(shifted, lower=True, check_finite=False)

    def multipliers(self, residual: FloatArray) -> FloatArray:
        """Solve ``(I/penalty + AA') t = residual``."""
        if self._parts is not None:
            columns = self._parts[1]
            t = self._inverse * residual
            inner = scipy.linalg.lu_solve(self._factor, columns.T @ t, check_finite=False)
            return t - self._inverse * (columns @ inner)
        if self._eigen is not None:
            lam, vec = self._eigen
            return vec @ ((vec.T @ residual) / (lam + 1.0 / self.penalty))
        if self._matrix is not None:
            return np.asarray(scipy.linalg.cho_solve(self._factor, residual, check_finite=False))
        return self._iterate(residual)

    def _iterate(self, rhs: FloatArray) -> FloatArray:
        def matvec(t: FloatArray) -> FloatArray:
            return t / self.penalty + self.space.apply(self.space.adjoint(t))

        operator = LinearOperator((rhs.size, rhs.size), matvec=matvec, dtype=np.float64)
        self._last, _ = cg(operator, rhs, x0=self._last, rtol=1e-8, maxiter=100)
        return self._last

    def project(self, v: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The member nearest to ``(v, u)``."""
        t = self.multipliers(u - self.space.apply(v))
        # A x = A v + AA't = u - t/penalty, without applying the rows again.
        return v + self.space.adjoint(t), u - t / self.penalty
