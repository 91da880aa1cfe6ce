"""Replace second-order and Hermitian cones by PSD blocks, for backends without these cones.

Both cones are linear images of PSD cones, ``x = T' vec(X)``. ``(t, z) in SecondOrder(n)`` →
``(t, z) = (tr X, 2 X_12, ..., 2 X_1n)``, ``X in PSD(n)``. ``H in HermitianPSD(n)`` → sums of entries of
``X in PSD(2n)``. Rows ``a`` on the cone become rows ``T a`` on the matrix. Multipliers: unchanged.
No rows are added.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp

from sdpfeas.problem.reductions.base import Reduction, changed
from sdpfeas.problem.rows import Sparse
from sdpfeas.problem.sets import PSD, BlockSet

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem, Point


@dataclass(frozen=True)
class ConesToPsd(Reduction):
    """A problem with PSD blocks in place of some other cones; see the module for the maps."""

    #: The map T of every replaced block, by block index.
    _maps: dict[int, Any]

    def point(self, point: Point) -> Point:
        """Return ``x = T' vec(X)`` for every replaced block."""
        return tuple(self._maps[b].T @ x.reshape(-1) if b in self._maps else x for b, x in enumerate(point))

    def start_point(self, point: Point) -> Point:
        """Return a PSD preimage ``X`` with ``T' vec(X) = x`` for every replaced block."""
        pairs = zip(self.original.sets, point, strict=True)
        return tuple(block.psd_preimage(x) if b in self._maps else x for b, (block, x) in enumerate(pairs))

    def terms(self, objective: Point) -> Point:
        """Return the objective ``T c`` on the PSD blocks."""
        made = zip(self.problem.sets, objective, strict=True)
        return tuple(
            (self._maps[b] @ c).reshape(block.shape) if b in self._maps else c
            for b, (block, c) in enumerate(made)
        )


def cones_to_psd(problem: FeasibilityProblem, taken: Collection[type[BlockSet]]) -> ConesToPsd:
    """Replace cones that are linear images of PSD cones, except for sets in ``taken``."""
    sets, rows = list(problem.sets), list(problem.rows)
    maps: dict[int, Any] = {}
    for b, block, old in problem.blocks():
        side = None if type(block) in taken else block.psd_side
        if side is None:
            continue
        maps[b] = block.psd_map()
        sets[b] = PSD(side)
        if not old.empty:
            rows[b] = Sparse(sp.csr_array(old.explicit() @ maps[b].T), side)
    if not maps:
        return ConesToPsd(problem, problem, {})
    return ConesToPsd(problem, changed(problem, sets=sets, rows=rows, lmis=()), maps)
