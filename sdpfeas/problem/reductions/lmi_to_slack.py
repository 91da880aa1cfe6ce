"""Replace every LMI by a slack block and equality rows, for backends without LMIs.

``F(X) in C`` → ``S in C``, ``B(X) - S = -F(0)`` on and above the diagonal: n(n+1)/2 equality rows for a
matrix. Multipliers: ``Y_ii = y_ii``, ``Y_ij = y_ij / 2``. Coefficients are written out entry by entry;
low-rank ones are rounded thereby, so evidence is verified on the problem with the LMIs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray, triangle_map
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.rows import NoRows, Rows, Sparse, Stacked
from sdpfeas.problem.sets import BlockSet

if TYPE_CHECKING:
    from sdpfeas.problem.lmi import LMI
    from sdpfeas.problem.problem import FeasibilityProblem, Point

#: Fixed cost of a block, in numbers written.
BLOCK_NUMBERS = 500.0


@dataclass(frozen=True)
class LmiToSlack(Reduction):
    """A problem with a slack block for every LMI, after the original blocks."""

    def point(self, point: Point) -> Point:
        """Drop the slack blocks."""
        return tuple(point[: len(self.original.sets)])

    def start_point(self, point: Point) -> Point:
        """Append the values of the LMIs as slacks."""
        point = self.original.point(point)
        return (*point, *(lmi.value(point) for lmi in self.original.lmis))

    def terms(self, objective: Point) -> Point:
        """Append zeros for the slack blocks."""
        return (*objective, *(np.zeros(lmi.set.shape) for lmi in self.original.lmis))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Return ``Y_ii = y_ii``, ``Y_ij = Y_ji = y_ij / 2`` for every LMI."""
        return self.to_lmis(self.problem.multipliers(y))

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Return ``y_ii = Y_ii``, ``y_ij = Y_ij + Y_ji`` (i < j) for every LMI."""
        return self.to_rows(self.original.multipliers(y))

    def to_lmis(self, y: np.ndarray) -> np.ndarray:
        """Map floating-point or rational multipliers back, unchecked."""
        sets = [lmi.set for lmi in self.original.lmis]
        ends = self.original.m + np.cumsum([0, *(lmi_entries(block)[0].size for block in sets)])
        first, *parts = np.split(y, ends[:-1]) if sets else [y]
        pairs = zip(sets, parts, strict=True)
        return np.concatenate([first, *(lmi_array(block, part).reshape(-1) for block, part in pairs)])

    def to_rows(self, y: np.ndarray) -> np.ndarray:
        """Map floating-point or rational multipliers forth, unchecked."""
        rows, own = self.original.split(y)
        pairs = zip(self.original.lmis, own, strict=True)
        return np.concatenate([rows, *(lmi_multipliers(lmi.set, part) for lmi, part in pairs)])


def with_slacks(problem: FeasibilityProblem) -> LmiToSlack:
    """Replace every LMI by a slack block and equality rows; without LMIs, return the problem itself."""
    lmis = problem.lmis
    if not lmis:
        return LmiToSlack(problem, problem)
    stored = sum(rows.entries for lmi in lmis for rows in lmi.coefficients)
    counts = [lmi_entries(lmi.set)[0].size for lmi in lmis]
    # The CSR matrix of every slack has one row pointer per row of the problem.
    cells = stored + sum(lmi.set.entries for lmi in lmis) + len(lmis) * (BLOCK_NUMBERS + 0.1 * sum(counts))
    guard("slack blocks for the LMIs", 100.0 * WRITE_FLOPS * cells, memory=100.0 * cells)
    rows: list[Rows] = []
    for b, block, old in problem.blocks():
        parts = [lmi_rows(lmi, b, block) for lmi in lmis]
        rows.append(stacked_rows(old, block, parts))
    total = problem.m + sum(counts)
    for lmi, start in zip(lmis, np.cumsum([problem.m, *counts[:-1]]), strict=True):
        rows.append(_own(lmi.set, int(start), total))
    right = np.concatenate([-lmi.constant[lmi_entries(lmi.set)] for lmi in lmis])
    made = type(problem)(
        [*problem.sets, *(lmi.set for lmi in lmis)],
        rows,
        np.concatenate([problem.lower, right]),
        np.concatenate([problem.upper, right]),
    )
    return LmiToSlack(problem, made)


def lmi_entries(block: BlockSet) -> tuple[np.ndarray, ...]:
    """Return the indices of independent entries: all of a vector, the upper triangle of a matrix."""
    return np.triu_indices(block.n) if block.matrix else (np.arange(block.n),)


def lmi_array(block: BlockSet, y: np.ndarray) -> np.ndarray:
    """Return the symmetric array ``Y`` of an LMI from the multipliers of its independent entries."""
    place = lmi_entries(block)
    whole = np.zeros(block.shape, dtype=y.dtype)
    whole[place] = y / np.where(place[0] == place[-1], 1, 2)
    whole[place[::-1]] = whole[place]
    return whole


def lmi_multipliers(block: BlockSet, whole: np.ndarray) -> np.ndarray:
    """Return the multipliers of the independent entries: ``Y_ii``, and ``Y_ij + Y_ji`` off the diagonal."""
    place = lmi_entries(block)
    both = whole[place] + whole[place[::-1]]
    return np.asarray(both / np.where(place[0] == place[-1], 2, 1))


def lmi_rows(lmi: LMI, b: int, block: BlockSet) -> Any:
    """Return the rows on block ``b`` that evaluate the independent entries of ``B(X)``."""
    rows = lmi.coefficients[b]
    place = np.ravel_multi_index(lmi_entries(lmi.set), lmi.set.shape)
    return sp.csr_array(rows.to_csr().T)[place]


def _own(block: BlockSet, start: int, total: int) -> Rows:
    """Return the rows ``-S_ij`` of a slack block, from row ``start`` on."""
    entries = triangle_map(block.n, 0.5).T if block.matrix else sp.eye_array(block.n, format="csr")
    ends = entries.indptr[np.clip(np.arange(total + 1) - start, 0, entries.shape[0])]
    csr = sp.csr_array((-entries.data, np.array(entries.indices), ends), shape=(total, block.entries))
    return Sparse.unchecked(csr, block.n, block.matrix)


def stacked_rows(old: Rows, block: BlockSet, parts: list[Any]) -> Rows:
    """Append the rows of the LMIs to the rows of a block."""
    new = sp.csr_array(sp.vstack(parts, format="csr"))
    if old.empty and new.nnz == 0:
        return NoRows(old.m + new.shape[0], block.n, block.matrix)
    if isinstance(old, Sparse) or old.m == 0:
        return Sparse(sp.vstack([old.to_csr(), new]), block.n, block.matrix)
    return Stacked([old, Sparse(new, block.n, block.matrix)])
