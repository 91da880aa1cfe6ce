"""Solve ``[M B; B' -C] [y; b] = [r1; r2]`` with M and C positive semidefinite."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpfeas.numerics.linalg import FloatArray

#: Regularisation of M, relative to its diagonal, where rows depend on each other.
REGULARISATION = 1e-15

#: Rows whose diagonal entry of M is below this share of the largest are carried by the border alone.
NEGLIGIBLE = 1e-13


class DenseNewtonSystem:
    """A factorised Newton system.

    Cholesky factors of M and of the small system of the border where M is definite by itself; one LU
    factorisation of the whole where some rows touch nothing but the border.

    ``columns``: the matrix B, one column per unknown of the border.
    """

    def __init__(self, schur: FloatArray, columns: FloatArray, corner: FloatArray) -> None:
        self._schur, self._columns = schur, columns
        diagonal = np.diagonal(schur)
        self._whole: FloatArray | None = None
        if columns.shape[1] and np.any(diagonal <= NEGLIGIBLE * float(np.max(diagonal, initial=0.0))):
            self._whole = np.block([[schur, columns], [columns.T, -np.diag(corner)]])
            self._lu = _lu(self._whole)
            return
        self._factor = _cholesky(schur)
        if columns.shape[1]:
            self._half = _solved(self._factor, columns)
            inner = columns.T @ self._half
            inner[np.diag_indices(inner.shape[0])] += corner
            self._corner = _cholesky(inner)

    def solve(self, r1: FloatArray, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve for one right-hand side, with a step of refinement."""
        if self._whole is not None:
            rhs = np.concatenate([r1, r2])
            x = scipy.linalg.lu_solve(self._lu, rhs, check_finite=False)
            x = x + scipy.linalg.lu_solve(self._lu, rhs - self._whole @ x, check_finite=False)
            return x[: r1.size], x[r1.size :]
        y = _solved(self._factor, r1)
        y = y + _solved(self._factor, r1 - self._schur @ y)
        if not self._columns.shape[1]:
            return y, np.zeros(0)
        border = _solved(self._corner, self._columns.T @ y - r2)
        return y - self._half @ border, border


def _lu(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """LU factors; a matrix singular to rounding is moved off by a little, which refinement makes up for."""
    size = float(np.max(np.abs(matrix), initial=0.0))
    trial = matrix + np.diag(np.full(matrix.shape[0], REGULARISATION * size))
    factors, pivots, info = scipy.linalg.lapack.dgetrf(trial)
    if info != 0 or not np.isfinite(factors).all():
        raise np.linalg.LinAlgError("the Newton system is singular")
    return factors, pivots


def _solved(factor: FloatArray, rhs: FloatArray) -> FloatArray:
    if not rhs.size:  # LAPACK takes no empty arrays
        return np.zeros(rhs.shape)
    solution: FloatArray = scipy.linalg.lapack.dpotrs(factor, rhs, lower=1)[0]
    return solution.reshape(rhs.shape)


def _cholesky(matrix: FloatArray) -> FloatArray:
    """Factor a matrix that should be positive definite, regularised as little as needed."""
    extra = 0.0
    for _ in range(6):
        trial = matrix
        if extra > 0.0:
            diagonal = np.diagonal(matrix)
            base = np.where(diagonal > 0.0, diagonal, float(np.max(diagonal, initial=0.0)) or 1.0)
            trial = matrix + np.diag(extra * base)
        # The triangle that is not used need not be cleaned.
        factor: FloatArray
        factor, info = scipy.linalg.lapack.dpotrf(trial.T, lower=1, clean=0)
        if info == 0:
            return factor
        extra = REGULARISATION if extra == 0.0 else 100.0 * extra
    raise np.linalg.LinAlgError("the Schur complement is not positive definite")
