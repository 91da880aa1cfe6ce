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

#: Steps of refinement.
REFINEMENTS = 2


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
            corner = sp.diags_array(np.full(columns.shape[1], -REGULARISATION / largest))
            whole = sp.block_array([[schur, columns], [columns.T, None]], format="csc")
            moved = sp.block_array([[moved, columns], [columns.T, corner]], format="csc")
        self._whole = whole
        try:
            self._factor = scipy.sparse.linalg.splu(
                sp.csc_array(moved),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0 if not columns.shape[1] else 0.1,
                options={"SymmetricMode": True},
            )
        except RuntimeError as error:
            raise np.linalg.LinAlgError(f"the Newton system: {error}") from None

    def solve(self, r1: FloatArray, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve for one right-hand side, with refinement."""
        rhs = np.concatenate([r1, r2])
        found = self._factor.solve(rhs)
        for _ in range(REFINEMENTS):
            found = found + self._factor.solve(rhs - self._whole @ found)
        return found[: self._m], found[self._m :]
