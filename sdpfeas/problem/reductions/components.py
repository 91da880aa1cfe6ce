"""Cut semidefinite blocks and LMIs into the parts that their numbers do not connect.

Where no row has an entry between two parts of a block, a matrix stays feasible without its entries there:
what is left of it is still semidefinite. An LMI whose matrices have no such entry is semidefinite exactly if
its parts are. Indices connected to nothing but themselves become entries of one Nonneg block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.rows import Rows, Sparse
from sdpfeas.problem.rows.arrays import stored_rows
from sdpfeas.problem.sets import PSD, BlockSet, Nonneg

__all__ = ["Components", "in_components"]

#: Matrices of a smaller side are left whole: looking at many of them takes longer than is gained.
LEAST_SIDE = 30


@dataclass(frozen=True)
class Cut:
    """How a block is cut: its new sets, and which indices of the old one each of them has."""

    old: BlockSet
    sets: tuple[BlockSet, ...]
    places: tuple[np.ndarray, ...]

    def parts(self, x: FloatArray) -> Iterator[FloatArray]:
        """What a matrix is on every part."""
        for block, place in zip(self.sets, self.places, strict=True):
            if block is self.old:
                yield x
            else:
                yield x[np.ix_(place, place)] if block.matrix else x[place, place]

    def whole(self, parts: Sequence[FloatArray]) -> FloatArray:
        """The matrix with these parts, and zeros between them."""
        if len(self.sets) == 1 and self.sets[0] is self.old:
            return parts[0]
        out = np.zeros(self.old.shape)
        for place, part in zip(self.places, parts, strict=True):
            out[np.ix_(place, place) if part.ndim == 2 else (place, place)] = part
        return out

    def rows(self, rows: Rows | None) -> list[Rows | None]:
        """Rows on every part."""
        if rows is None or (len(self.sets) == 1 and self.sets[0] is self.old):
            return [rows] * len(self.sets)
        csr = _stored(rows)
        owner, local = np.empty(self.old.n, dtype=np.int64), np.empty(self.old.n, dtype=np.int64)
        for k, place in enumerate(self.places):
            owner[place], local[place] = k, np.arange(place.size)
        row, (i, j) = stored_rows(csr), np.divmod(csr.indices, self.old.n)
        out = list[Rows | None]()
        for k, block in enumerate(self.sets):
            own = np.flatnonzero(owner[i] == k)
            column = local[i[own]] * block.n + local[j[own]] if block.matrix else local[i[own]]
            made = sp.csr_array(
                (csr.data[own], (row[own], column)), shape=(csr.shape[0], math.prod(block.shape))
            )
            out.append(Sparse.sound(made, block.n, block.matrix))
        return out


@dataclass(frozen=True)
class Components(Reduction):
    """A problem on the parts of its blocks and LMIs."""

    original: FeasibilityProblem
    problem: FeasibilityProblem
    _blocks: tuple[Cut, ...]
    _lmis: tuple[Cut, ...]

    def point(self, point: Point) -> Point:
        """Put the parts together."""
        return _joined(self._blocks, self.problem.point(point))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Put those of the parts of every LMI together."""
        rows, own = self.problem.split(self.problem.multipliers(y))
        return np.concatenate([rows, *(part.reshape(-1) for part in _joined(self._lmis, own))])

    def start_point(self, point: Point) -> Point:
        """Take the blocks apart."""
        return _taken_apart(self._blocks, self.original.point(point))

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Take those of the LMIs apart."""
        rows, own = self.original.split(self.original.multipliers(y))
        return np.concatenate([rows, *(part.reshape(-1) for part in _taken_apart(self._lmis, own))])


def in_components(problem: FeasibilityProblem) -> Components | None:
    """Cut every semidefinite block and LMI that falls into parts; None if there is none. Made once.

    Parameters
    ----------
    problem : FeasibilityProblem
        Any problem. Blocks that LMIs use stay whole, and so does what is not stored as sparse entries.
    """
    key = "_in_components"
    if key not in problem.__dict__:
        problem.__dict__[key] = _components(problem)
    found: Components | None = problem.__dict__[key]
    return found


def _components(problem: FeasibilityProblem) -> Components | None:
    touched = [any(lmi.coefficients[b] is not None for lmi in problem.lmis) for b in range(len(problem.sets))]
    blocks = tuple(
        _whole(block) if used else _cut(block, [rows])
        for block, rows, used in zip(problem.sets, problem.rows, touched, strict=True)
    )
    lmis = tuple(_cut(lmi.set, lmi.coefficients, lmi.constant) for lmi in problem.lmis)
    if all(len(cut.sets) == 1 and cut.sets[0] is cut.old for cut in (*blocks, *lmis)):
        return None
    made = list[LMI]()
    for lmi, cut in zip(problem.lmis, lmis, strict=True):
        parts = [cut.rows(rows) for rows in lmi.coefficients]
        for k, (block, constant) in enumerate(zip(cut.sets, cut.parts(lmi.constant), strict=True)):
            own = [part[k] for part, other in zip(parts, blocks, strict=True) for _ in other.sets]
            made.append(LMI(block, constant, own))
    smaller = FeasibilityProblem(
        [block for cut in blocks for block in cut.sets],
        [part for cut, rows in zip(blocks, problem.rows, strict=True) for part in cut.rows(rows)],
        problem.lower,
        problem.upper,
        lmis=made,
    )
    return Components(problem, smaller, blocks, lmis)


def _whole(block: BlockSet) -> Cut:
    return Cut(block, (block,), (np.arange(block.n),))


def _cut(block: BlockSet, rows: Sequence[Rows | None], constant: FloatArray | None = None) -> Cut:
    """Cut a block where neither rows nor a constant connect it."""
    given = [own for own in rows if own is not None]
    if type(block) is not PSD or block.n < LEAST_SIDE or not all(isinstance(own, Sparse) for own in given):
        return _whole(block)
    stored = [_stored(own) for own in given]
    # One matrix with more entries than two parts have connects all.
    if any(np.max(np.diff(csr.indptr), initial=0) > (block.n - 1) ** 2 + 1 for csr in stored):
        return _whole(block)
    need("the parts of a block", numbers=10.0 * (sum(csr.nnz for csr in stored) + block.entries))
    cells = [np.unique(csr.indices) for csr in stored]
    cells += [] if constant is None else [np.flatnonzero(constant)]
    i, j = np.divmod(np.concatenate([np.zeros(0, dtype=np.int64), *cells]), block.n)
    graph = sp.csr_array((np.ones(i.size), (i, j)), shape=(block.n, block.n))
    count, label = connected_components(graph, directed=False)
    if count == 1:
        return _whole(block)
    order = np.argsort(label, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(label))[:-1])
    places = [group for group in groups if group.size > 1]
    sets: list[BlockSet] = [PSD(group.size) for group in places]
    if alone := [group for group in groups if group.size == 1]:
        places.append(np.concatenate(alone))
        sets.append(Nonneg(len(alone)))
    return Cut(block, tuple(sets), tuple(places))


def _stored(rows: Rows) -> Any:
    assert isinstance(rows, Sparse)
    return rows.array


def _joined(cuts: tuple[Cut, ...], parts: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
    out, start = [], 0
    for cut in cuts:
        out.append(cut.whole(parts[start : start + len(cut.sets)]))
        start += len(cut.sets)
    return tuple(out)


def _taken_apart(cuts: tuple[Cut, ...], values: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
    return tuple(part for cut, x in zip(cuts, values, strict=True) for part in cut.parts(x))
