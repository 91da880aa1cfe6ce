"""Split blocks, LMIs and whole problems into components that no data connect.

PSD block: where no row has an entry between two index sets, a feasible matrix stays feasible with zeros
there; ``X in PSD(n)`` → ``X = diag(X_1, ..., X_k)``. An LMI with block-diagonal data is semidefinite if and
only if its diagonal blocks are. Isolated indices become entries of one Nonneg block. Multipliers:
block-diagonal.

Problem: the feasible set is the product over parts that share no variable, and a linear objective is a sum
over them (:func:`split_parts`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sdpfeas.numerics.limits import check_deadline
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.rows import Dense, NoRows, Rows, Sparse
from sdpfeas.problem.rows.base import stored_rows
from sdpfeas.problem.sets import PSD, BlockSet, Nonneg

#: Matrices of a smaller side are not split: the search costs more time than smaller blocks save.
MIN_SPLIT_SIDE = 30


@dataclass(frozen=True)
class Cut:
    """The decomposition of a block: its new sets and the indices of the old block in each of them.

    A block that is left whole is its own only part, without indices.
    """

    old: BlockSet
    sets: tuple[BlockSet, ...]
    places: tuple[np.ndarray, ...] = ()

    def parts(self, x: FloatArray) -> list[FloatArray]:
        """Return the diagonal block of a matrix for every part."""
        if not self.places:
            return [x]
        return [
            x[np.ix_(place, place)] if block.matrix else x[place, place]
            for block, place in zip(self.sets, self.places, strict=True)
        ]

    def whole(self, parts: Sequence[FloatArray]) -> FloatArray:
        """Return the block-diagonal matrix with these parts."""
        if not self.places:
            return parts[0]
        out = np.zeros(self.old.shape)
        for place, part in zip(self.places, parts, strict=True):
            out[np.ix_(place, place) if part.ndim == 2 else (place, place)] = part
        return out

    def rows(self, rows: Rows) -> list[Rows]:
        """Return the rows restricted to every part."""
        if not self.places:
            return [rows]
        if rows.empty:
            return [NoRows(rows.m, block.n, block.matrix) for block in self.sets]
        csr = _stored(rows)
        owner, local = np.empty(self.old.n, dtype=np.int64), np.empty(self.old.n, dtype=np.int64)
        for k, place in enumerate(self.places):
            owner[place], local[place] = k, np.arange(place.size)
        row, (i, j) = stored_rows(csr), np.divmod(csr.indices, self.old.n)
        out = list[Rows]()
        for k, block in enumerate(self.sets):
            own = np.flatnonzero(owner[i] == k)
            column = local[i[own]] * block.n + local[j[own]] if block.matrix else local[i[own]]
            made = sp.csr_array(
                (csr.data[own], (row[own], column)), shape=(csr.shape[0], math.prod(block.shape))
            )
            out.append(Sparse.unchecked(made, block.n, block.matrix))
        return out


@dataclass(frozen=True)
class SplitComponents(Reduction):
    """A problem with block-diagonal PSD blocks and LMIs split into their diagonal blocks."""

    _blocks: tuple[Cut, ...]
    _lmis: tuple[Cut, ...]

    def point(self, point: Point) -> Point:
        """Assemble block-diagonal matrices from the parts."""
        return _joined(self._blocks, self.problem.point(point))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Assemble the block-diagonal multipliers of the LMIs."""
        rows, own = self.problem.split(self.problem.multipliers(y))
        return np.concatenate([rows, *(part.reshape(-1) for part in _joined(self._lmis, own))])

    def start_point(self, point: Point) -> Point:
        """Return the diagonal blocks of the point."""
        return _taken_apart(self._blocks, self.original.point(point))

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Return the diagonal blocks of the multipliers of the LMIs."""
        rows, own = self.original.split(self.original.multipliers(y))
        return np.concatenate([rows, *(part.reshape(-1) for part in _taken_apart(self._lmis, own))])


def split_components(problem: FeasibilityProblem) -> SplitComponents | None:
    """Split every PSD block and LMI that is block-diagonal; None if none is. Cached on the problem.

    Blocks used by LMIs, and blocks whose rows are not stored as sparse entries, are left whole.
    """
    return problem.cached(_components)


def _components(problem: FeasibilityProblem) -> SplitComponents | None:
    touched = [any(not lmi.coefficients[b].empty for lmi in problem.lmis) for b in range(len(problem.sets))]
    blocks = tuple(
        _whole(block) if used else _cut(block, [rows])
        for (_, block, rows), used in zip(problem.blocks(), touched, strict=True)
    )
    lmis = tuple(_cut(lmi.set, lmi.coefficients, lmi.constant) for lmi in problem.lmis)
    if not any(cut.places for cut in (*blocks, *lmis)):
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
    return SplitComponents(problem, smaller, blocks, lmis)


def _whole(block: BlockSet) -> Cut:
    return Cut(block, (block,))


def _cut(block: BlockSet, rows: Sequence[Rows], constant: FloatArray | None = None) -> Cut:
    """Split a block into the connected components of the sparsity pattern of rows and constant."""
    if type(block) is not PSD or block.n < MIN_SPLIT_SIDE or not all(isinstance(own, Sparse) for own in rows):
        return _whole(block)
    stored = [_stored(own) for own in rows]
    # Two components of sizes n-1 and 1 have at most (n-1)^2 + 1 entries; a row with more connects all.
    if any(np.max(np.diff(csr.indptr), initial=0) > (block.n - 1) ** 2 + 1 for csr in stored):
        return _whole(block)
    check_deadline("the parts of a block")
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


# --- parts of a problem that share no variable

#: Problems with more row entries are not split.
MAX_SPLIT_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Part:
    """One part of a problem, with the indices of its variables, rows and LMIs in the whole problem."""

    problem: FeasibilityProblem
    _blocks: tuple[tuple[int, np.ndarray | None], ...]
    _multipliers: np.ndarray

    def terms(self, whole: Point) -> Point:
        """Restrict a point or an objective of the whole problem to this part."""
        return tuple(whole[b] if own is None else whole[b][own] for b, own in self._blocks)

    def place(self, point: Point, whole: Sequence[FloatArray]) -> None:
        """Write a point of this part into arrays of the whole problem."""
        for (b, own), x in zip(self._blocks, point, strict=True):
            whole[b][... if own is None else own] = x

    def place_multipliers(self, y: FloatArray, whole: FloatArray) -> None:
        """Write multipliers of this part into those of the whole problem."""
        whole[self._multipliers] = y


def split_parts(problem: FeasibilityProblem, objective: Point) -> list[Part]:
    """Split a problem into the groups of connected variables that the objective uses, and the rest.

    All components without an objective form one last part. Returns an empty list if the problem is not split.
    """
    rows = [*problem.rows, *(part for lmi in problem.lmis for part in lmi.coefficients)]
    if sum(part.entries for part in rows) > MAX_SPLIT_ENTRIES:
        return []
    units, count = _units(problem)
    hits = [_used(problem, units, count)]
    for lmi in problem.lmis:
        touched = [
            own[np.flatnonzero(part.norms())] for part, own in zip(lmi.coefficients, units, strict=True)
        ]
        columns = np.unique(np.concatenate(touched))
        hits.append(sp.csr_array((np.ones(columns.size), columns, [0, columns.size]), shape=(1, count)))
    uses = sp.csr_array(sp.vstack(hits, format="csr"))
    lines = uses.shape[0]
    graph = sp.block_array([[None, uses], [uses.T, None]], format="csr")
    _, label = connected_components(graph, directed=False)
    wanted = np.zeros(label.max() + 1, dtype=bool)
    for part, own in zip(objective, units, strict=True):
        wanted[label[lines + own[np.flatnonzero(part.reshape(-1))]]] = True
    constrained = np.zeros(wanted.size, dtype=bool)
    constrained[label[:lines]] = True
    used = np.diff(uses.indptr) > 0
    if not used.all() or not constrained[wanted].all() or not wanted.any():
        return []  # constant rows, or an objective on unconstrained variables
    keys = np.flatnonzero(wanted)
    last = np.flatnonzero(~wanted)
    groups = [np.array([key]) for key in keys] + ([last] if last.size else [])
    if len(groups) < 2:
        return []
    return [_part(problem, units, label[:lines], label[lines:], group) for group in groups]


def _units(problem: FeasibilityProblem) -> tuple[list[np.ndarray], int]:
    """Assign every entry to a node of the graph: one per entry of a separable block, else one per block."""
    out, count = [], 0
    for block in problem.sets:
        alone = _is_separable(block)
        out.append(count + (np.arange(block.entries) if alone else np.zeros(block.entries, dtype=np.int64)))
        count += block.entries if alone else 1
    return out, count


def _is_separable(block: BlockSet) -> bool:
    return block.entrywise and block.trace is None and (block.free or block.cone)


def _used(problem: FeasibilityProblem, units: list[np.ndarray], count: int) -> Any:
    """Return the incidence matrix of rows and nodes."""
    lines, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for part, own in zip(problem.rows, units, strict=True):
        if isinstance(part, (Dense, Sparse)):
            stored = part.to_csr().tocoo()
            lines.append(stored.row)
            columns.append(own[stored.col])
        else:
            # Other kinds of rows count as dense.
            hit, nodes = np.flatnonzero(part.norms()), np.unique(own)
            lines.append(np.repeat(hit, nodes.size))
            columns.append(np.tile(nodes, hit.size))
    row, column = np.concatenate(lines), np.concatenate(columns)
    return sp.csr_array((np.ones(row.size), (row, column)), shape=(problem.m, count))


def _part(
    problem: FeasibilityProblem,
    units: list[np.ndarray],
    line_label: np.ndarray,
    unit_label: np.ndarray,
    group: np.ndarray,
) -> Part:
    index = np.flatnonzero(np.isin(line_label[: problem.m], group))
    chosen = [j for j in range(len(problem.lmis)) if line_label[problem.m + j] in group]
    blocks = list[tuple[int, np.ndarray | None]]()
    sets, rows = list[BlockSet](), list[Any]()
    coefficients: list[list[Any]] = [[] for _ in chosen]
    for b, (block, own) in enumerate(zip(problem.sets, units, strict=True)):
        inside = np.flatnonzero(np.isin(unit_label[own], group))
        if not inside.size:
            continue
        whole = inside.size == block.entries
        blocks.append((b, None if whole else inside))
        sets.append(block if whole else type(block)(inside.size))
        rows.append(_rows_of_part(problem.rows[b], problem, b, index, None if whole else inside))
        for parts, j in zip(coefficients, chosen, strict=True):
            own_part = problem.lmis[j].coefficients[b]
            parts.append(own_part if whole else own_part.select(inside))
    lmis = [
        LMI(problem.lmis[j].set, problem.lmis[j].constant, parts, problem.lmis[j].name)
        for parts, j in zip(coefficients, chosen, strict=True)
    ]
    names = None if problem.row_names is None else [problem.row_names[i] for i in index]
    titles = None if problem.block_names is None else [problem.block_names[b] for b, _ in blocks]
    made = FeasibilityProblem(sets, rows, problem.lower[index], problem.upper[index], names, titles, lmis)
    starts = np.cumsum([problem.m, *(lmi.set.entries for lmi in problem.lmis)])
    places = [index, *(np.arange(starts[j], starts[j + 1]) for j in chosen)]
    return Part(made, tuple(blocks), np.concatenate(places))


def _rows_of_part(
    rows: Rows, problem: FeasibilityProblem, b: int, index: np.ndarray, inside: np.ndarray | None
) -> Any:
    if rows.empty or index.size == 0:
        return None
    if inside is None:
        return rows.select(index)
    stored = rows.explicit()[index][:, inside]
    return Sparse(sp.csr_array(stored), inside.size, False)
