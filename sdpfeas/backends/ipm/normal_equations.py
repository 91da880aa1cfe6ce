"""The Newton system of an interior-point iteration after the cones are eliminated.

    [M   B] [y]   [r1]
    [B'  0] [v] = [r2]

M is the Schur complement ``A H^-1 A*``, symmetric positive semidefinite, and v the free variables, which no
cone holds (Vanderbei 1995). :class:`DenseNormalEquations` factorises a dense M,
:class:`SparseNormalEquations` a sparse one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray, symmetric_lu

#: First regularisation of a dense M, relative to its diagonal, where rows are linearly dependent.
DENSE_REGULARISATION = 1e-15

#: Attempts at a Cholesky factorisation, each with a hundred times the regularisation of the one before.
CHOLESKY_ATTEMPTS = 6

#: M is close to singular where a pivot is below this share of the diagonal entry.
SMALL_PIVOT_SHARE = 1e-8

#: Regularisation of a sparse M, relative to its diagonal: pivots stay positive, refinement removes the error.
SPARSE_REGULARISATION = 1e-13

#: Regularisation of the empty corner, relative to its Schur complement: no pivoting is needed then.
CORNER_REGULARISATION = 1e-8

#: Most steps of iterative refinement; it ends when a step leaves more than this share of the residual.
REFINEMENT_STEPS, REFINEMENT_SHARE = 5, 0.3


class DenseNormalEquations:
    """A Newton system with dense M and dense ``columns`` B, by Cholesky factors of M and ``B' M^-1 B``.

    Where M is close to singular, since some rows are dependent but for B, M becomes ``M + w B B'`` and r1
    becomes ``r1 + w B r2``, which has the same solution.
    """

    def __init__(self, schur: FloatArray, columns: FloatArray) -> None:
        self._schur, self._columns, self._weight = schur, columns, 0.0
        self._factor = _cholesky(schur)
        if not columns.shape[1]:
            return
        pivots, diagonal = np.square(np.diagonal(self._factor)), np.diagonal(schur)
        if np.any(pivots <= SMALL_PIVOT_SHARE * np.where(diagonal > 0.0, diagonal, np.inf)):
            self._weight = float(np.max(diagonal)) / float(np.max(np.sum(columns**2, axis=1)))
            self._schur = schur + self._weight * (columns @ columns.T)
            self._factor = _cholesky(self._schur)
        self._solved_columns = _cholesky_solve(self._factor, columns)
        self._corner = _cholesky(columns.T @ self._solved_columns)

    def solve(self, r1: FloatArray, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve for one right-hand side, with one step of iterative refinement."""
        r1 = r1 + self._weight * (self._columns @ r2)
        y = _cholesky_solve(self._factor, r1)
        y = y + _cholesky_solve(self._factor, r1 - self._schur @ y)
        if not self._columns.shape[1]:
            return y, np.zeros(0)
        v = _cholesky_solve(self._corner, self._columns.T @ y - r2)
        return y - self._solved_columns @ v, v


def _cholesky_solve(factor: FloatArray, rhs: FloatArray) -> FloatArray:
    if not rhs.size:  # LAPACK takes no empty arrays
        return np.zeros(rhs.shape)
    solution: FloatArray = scipy.linalg.lapack.dpotrs(factor, rhs, lower=1)[0]
    return solution.reshape(rhs.shape)


def _cholesky(matrix: FloatArray) -> FloatArray:
    """Lower Cholesky factor of a positive semidefinite matrix, regularised as little as needed."""
    extra = 0.0
    for _ in range(CHOLESKY_ATTEMPTS):
        trial = matrix
        if extra > 0.0:
            diagonal = np.diagonal(matrix)
            base = np.where(diagonal > 0.0, diagonal, float(np.max(diagonal, initial=0.0)) or 1.0)
            trial = matrix + np.diag(extra * base)
        # The strict upper triangle is never read and need not be cleared.
        factor: FloatArray
        factor, info = scipy.linalg.lapack.dpotrf(trial.T, lower=1, clean=0)
        if info == 0:
            return factor
        extra = DENSE_REGULARISATION if extra == 0.0 else 100.0 * extra
    raise np.linalg.LinAlgError("the Schur complement is not positive definite")


class SparseNormalEquations:
    """A factorised Newton system with sparse M and sparse ``columns`` B."""

    def __init__(self, schur: Any, columns: Any) -> None:
        self._m = schur.shape[0]
        diagonal = schur.diagonal()
        largest = float(np.max(diagonal, initial=0.0)) or 1.0
        extra = SPARSE_REGULARISATION * np.where(diagonal > 0.0, diagonal, largest)
        whole, regularised = schur, schur + sp.diags_array(extra)
        if columns.shape[1]:
            weights = 1.0 / np.where(diagonal > 0.0, diagonal, largest)
            corner = sp.diags_array(-CORNER_REGULARISATION * (columns.power(2).T @ weights + 1.0 / largest))
            whole = sp.block_array([[schur, columns], [columns.T, None]], format="csc")
            regularised = sp.block_array([[regularised, columns], [columns.T, corner]], format="csc")
        self._whole = whole
        self._factor = symmetric_lu(regularised, "the Newton system")

    @property
    def fill(self) -> float:
        """Entries of the factors, as a share of those of dense factors."""
        return float(self._factor.nnz) / float(self._whole.shape[0]) ** 2

    def solve(self, r1: FloatArray, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve for one right-hand side, with iterative refinement."""
        rhs = np.concatenate([r1, r2])
        solution = self._factor.solve(rhs)
        residual = rhs - self._whole @ solution
        norm = float(np.linalg.norm(residual))
        for _ in range(REFINEMENT_STEPS):
            refined = solution + self._factor.solve(residual)
            residual = rhs - self._whole @ refined
            last, norm = norm, float(np.linalg.norm(residual))
            if not norm < last:
                break
            solution = refined
            if norm > REFINEMENT_SHARE * last:
                break
        return solution[: self._m], solution[self._m :]
