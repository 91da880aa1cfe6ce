"""The Newton system where its Schur complement is sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from sdpfeas.numerics.linalg import FloatArray

__all__ = ["SparseSystem"]

#: What is added to the diagonal, relative to it: pivots stay positive, and refinement makes up for it.
REGULARISATION = 1e-13

#: What is taken from the empty corner, relative to what elimination puts there: then no pivoting is needed.
CORNER = 1e-8

#: Steps of refinement, at the most; and the share to which one has to shrink what is left.
REFINEMENTS, SHRINKS = 5, 0.3


class SparseSystem:
    """``[M B; B' 0]`` with a sparse M, factorised.

    Parameters
    ----------
    schur : sparse array
        The positive semidefinite matrix M.
    columns : sparse array
        The matrix B.
    """

    def __init__(self, schur: Any, columns: Any) -> None:
        self._m = schur.shape[0]
        diagonal = schur.diagonal()
        largest = float(np.max(diagonal, initial=0.0)) or 1.0
        extra = REGULARISATION * np.where(diagonal > 0.0, diagonal, largest)
        whole, moved = schur, schur + sp.diags_array(extra)
        if columns.shape[1]:
            weights = 1.0 / np.where(diagonal > 0.0, diagonal, largest)
            corner = sp.diags_array(-CORNER * (columns.power(2).T @ weights + 1.0 / largest))
            whole = sp.block_array([[schur, columns], [columns.T, None]], format="csc")
            moved = sp.block_array([[moved, columns], [columns.T, corner]], format="csc")
        self._whole = whole
        try:
            self._factor = scipy.sparse.linalg.splu(
                sp.csc_array(moved),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError as error:
            raise np.linalg.LinAlgError(f"the Newton system: {error}") from None

    def solve(self, r1: FloatArray, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve for one right-hand side, with refinement."""
        rhs = np.concatenate([r1, r2])
        found = self._factor.solve(rhs)
        left = rhs - self._whole @ found
        size = float(np.linalg.norm(left))
        for _ in range(REFINEMENTS):
            better = found + self._factor.solve(left)
            left = rhs - self._whole @ better
            last, size = size, float(np.linalg.norm(left))
            if not size < last:
                break
            found = better
            if size > SHRINKS * last:
                break
        return found[: self._m], found[self._m :]
