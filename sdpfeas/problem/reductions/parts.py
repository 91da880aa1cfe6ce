"""Split a problem into parts that share no variable: rows and LMIs connect the entries that they use.

The points of the problem are the products of the points of its parts. A linear objective is a sum over the
parts, and so is its maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Dense, Rows, Sparse, as_sparse
from sdpfeas.problem.sets import BlockSet

__all__ = ["Part", "split_parts"]

#: Problems with more entries of rows than this stay whole.
MOST_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Part:
    """One part of a problem, with the places of its variables, rows and LMIs in the whole.

    Attributes
    ----------
    problem : FeasibilityProblem
        The part.
    """

    problem: FeasibilityProblem
    _blocks: tuple[tuple[int, np.ndarray | None], ...]
    _multipliers: np.ndarray

    def terms(self, whole: Point) -> Point:
        """What a point or an objective of the whole problem is on this part."""
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

    Variables without an objective make one last part together. One part, or none, means that the problem
    stays whole.
    """
    rows = [*problem.rows, *(part for lmi in problem.lmis for part in lmi.coefficients)]
    if sum(part.entries for part in rows if part is not None) > MOST_ENTRIES:
        return []
    units, count = _units(problem)
    hits = [_used(problem, problem.rows, problem.m, units)]
    for lmi in problem.lmis:
        touched = [
            np.zeros(0, dtype=np.int64) if part is None else own[np.flatnonzero(part.norms())]
            for part, own in zip(lmi.coefficients, units, strict=True)
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
        return []  # constant rows, or an objective on what nothing bounds: nothing is gained
    keys = np.flatnonzero(wanted)
    last = np.flatnonzero(~wanted)
    groups = [np.array([key]) for key in keys] + ([last] if last.size else [])
    if len(groups) < 2:
        return []
    return [_part(problem, units, label[:lines], label[lines:], group) for group in groups]


def _units(problem: FeasibilityProblem) -> tuple[list[np.ndarray], int]:
    """For every entry of every block the unit that it belongs to: itself, or its block."""
    out, count = [], 0
    for block in problem.sets:
        alone = _is_separable(block)
        out.append(count + (np.arange(block.entries) if alone else np.zeros(block.entries, dtype=np.int64)))
        count += block.entries if alone else 1
    return out, count


def _is_separable(block: BlockSet) -> bool:
    return block.entrywise and block.trace is None and (block.free or block.cone)


def _used(problem: FeasibilityProblem, rows: Sequence[Rows | None], m: int, units: list[np.ndarray]) -> Any:
    """Which rows use which units."""
    lines, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for b, (part, own) in enumerate(zip(rows, units, strict=True)):
        if part is None or not m:
            continue
        if isinstance(part, (Dense, Sparse)):
            stored = as_sparse(part, problem.sets[b], m).tocoo()
            hit = stored.data != 0.0
            lines.append(stored.row[hit])
            columns.append(own[stored.col[hit]])
        elif np.unique(own).size == 1:
            lines.append(np.flatnonzero(problem.block_norms[b]))
            columns.append(np.full(lines[-1].size, own[0]))
        else:
            # Rows of other kinds on vectors: taken to use every entry.
            lines.append(np.repeat(np.arange(m), own.size))
            columns.append(np.tile(own, m))
    row, column = np.concatenate(lines), np.concatenate(columns)
    count = int(max(own.max() for own in units)) + 1
    return sp.csr_array((np.ones(row.size), (row, column)), shape=(m, count))


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
        rows.append(_cut(problem.rows[b], problem, b, index, None if whole else inside))
        for parts, j in zip(coefficients, chosen, strict=True):
            own_part = problem.lmis[j].coefficients[b]
            parts.append(own_part if own_part is None or whole else own_part.select(inside))
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


def _cut(
    rows: Rows | None, problem: FeasibilityProblem, b: int, index: np.ndarray, inside: np.ndarray | None
) -> Any:
    if rows is None or index.size == 0:
        return None
    if inside is None:
        return rows.select(index)
    stored = as_sparse(rows, problem.sets[b], problem.m)[index][:, inside]
    return Sparse(sp.csr_array(stored), inside.size, False)
