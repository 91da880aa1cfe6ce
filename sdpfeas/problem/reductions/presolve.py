"""Presolve: remove empty rows, boxes without interior and fixed free variables, merge split free variables.

Two entries ``x, z`` of a Nonneg block with opposite columns in all rows and in the objective only matter by
their difference: ``x, z >= 0`` → ``x - z in Free(1)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import require_no_lmis
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.rows import Dense, Sparse
from sdpfeas.problem.sets import BlockSet, Free, Nonneg


@dataclass(frozen=True)
class Presolve(Reduction):
    """A presolved problem, or its solution.

    ``answer``: a point or a Farkas certificate of the original problem if presolve solves it, else None. With
    an answer, ``problem is original``.
    """

    answer: tuple[Point | None, FloatArray | None] | None
    _rows: np.ndarray
    _blocks: tuple[int, ...]
    _fixed: Point

    def point(self, point: Point) -> Point:
        """Insert the fixed blocks."""
        out = list(self._fixed)
        for b, x in zip(self._blocks, point, strict=True):
            out[b] = x
        return tuple(out)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Insert zeros for the dropped rows."""
        out = np.zeros(self.original.m)
        out[self._rows] = y
        return out

    def start_point(self, point: Point) -> Point:
        """Drop the fixed blocks."""
        return tuple(point[b] for b in self._blocks)

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Drop the multipliers of dropped rows."""
        return y[self._rows]


def presolve(problem: FeasibilityProblem) -> Presolve:
    """Fix boxes of one matrix and scalars that one row fixes; drop rows without coefficients or bounds."""
    require_no_lmis(problem, "presolve")
    values = _fixed_scalars(problem)
    pairs = zip(problem.sets, values, strict=True)
    fixed = tuple(block.interior_point() if value is None else value for block, value in pairs)
    blocks = tuple(b for b, block in enumerate(problem.sets) if not block.single and values[b] is None)
    shift = np.zeros(problem.m)
    norms = np.zeros(problem.m)
    for b, rows in enumerate(problem.rows):
        if rows.empty:
            continue
        if b in blocks:
            norms = np.maximum(norms, problem.block_norms[b])
        else:
            shift += rows.apply(fixed[b])
    lower, upper = problem.lower - shift, problem.upper - shift
    empty = norms == 0.0
    against = np.flatnonzero(empty & ((lower > 0.0) | (upper < 0.0)))
    bounded = np.isfinite(lower) | np.isfinite(upper)
    keep = np.flatnonzero(~empty & bounded)
    if against.size:
        y = np.zeros(problem.m)
        worst = int(against[0])
        y[worst] = 1.0 if lower[worst] > 0.0 else -1.0
        return Presolve(problem, problem, (None, y), keep, blocks, fixed)
    if keep.size == 0:
        # No constraints are left: any element of every set is feasible.
        return Presolve(problem, problem, (fixed, None), keep, blocks, fixed)
    if keep.size == problem.m and len(blocks) == len(problem.sets):
        return Presolve(problem, problem, None, keep, blocks, fixed)
    left = [problem.rows[b] for b in blocks]
    if keep.size < problem.m:
        left = [r.select(keep) for r in left]
    smaller = FeasibilityProblem([problem.sets[b] for b in blocks], left, lower[keep], upper[keep])
    return Presolve(problem, smaller, None, keep, blocks, fixed)


def _fixed_scalars(problem: FeasibilityProblem) -> list[FloatArray | None]:
    """Return the values of the Free(1) blocks that are used by one equation only, without other entries.

    Such a value may be so large that all other blocks of a point are below its rounding errors.
    """
    out: list[FloatArray | None] = [None] * len(problem.sets)
    for b, block, rows in problem.blocks():
        if block.free and block.n == 1 and not rows.empty:
            used = np.flatnonzero(problem.block_norms[b])
            if used.size == 1 and np.count_nonzero(problem.block_norms[:, used]) == 1:
                factor = float(rows.select(used).apply(np.ones(1))[0])
                lower, upper = float(problem.lower[used[0]]), float(problem.upper[used[0]])
                if lower == upper == factor * (lower / factor):
                    out[b] = np.array([lower / factor])
    return out


# --- split free variables; unless they are merged, the dual has no strictly feasible point


@dataclass(frozen=True)
class MergeOppositeColumns(Reduction):
    """A problem with one free variable for every pair of opposite columns."""

    _first: dict[int, np.ndarray]
    _second: dict[int, np.ndarray]
    _kept: tuple[np.ndarray | None, ...]

    def point(self, point: Point) -> Point:
        """Return positive and negative parts of the free variables."""
        parts, out = iter(point), []
        for block, kept in zip(self.original.sets, self._kept, strict=True):
            if kept is None:
                out.append(next(parts))
                continue
            whole = np.zeros(block.n)
            if kept.size:
                whole[kept] = next(parts)
            out.append(whole)
        for (b, first), second, free in zip(self._first.items(), self._second.values(), parts, strict=True):
            out[b][first], out[b][second] = np.maximum(free, 0.0), np.maximum(-free, 0.0)
        return tuple(out)

    def start_point(self, point: Point) -> Point:
        """Return the differences of the pairs as free variables."""
        return self.terms(point, half=False)

    def terms(self, objective: Point, *, half: bool = True) -> Point:
        """Map an objective: a pair keeps the term of its first variable (``half=False``: the difference)."""
        out = []
        for part, kept in zip(objective, self._kept, strict=True):
            if kept is None:
                out.append(part)
            elif kept.size:
                out.append(part[kept])
        for (b, first), second in zip(self._first.items(), self._second.values(), strict=True):
            out.append(objective[b][first] if half else objective[b][first] - objective[b][second])
        return tuple(out)


def merge_opposite_columns(problem: FeasibilityProblem, objective: Point) -> MergeOppositeColumns:
    """Merge non-negative variables with opposite columns in rows and ``objective``; not with LMIs."""
    kept: list[np.ndarray | None] = [None] * len(problem.sets)
    pairs: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for b, block, rows in problem.blocks():
        if (
            isinstance(block, Nonneg)
            and isinstance(rows, (Dense, Sparse))
            and not rows.empty
            and not problem.lmis
        ):
            first, second = _pairs(rows.explicit().tocsc(), objective[b])
            if first.size:
                pairs[b] = first, second
                kept[b] = np.setdiff1d(np.arange(block.n), np.concatenate([first, second]))
    names = {b: first for b, (first, _) in pairs.items()}
    if not pairs:
        return MergeOppositeColumns(problem, problem, {}, {}, tuple(kept))
    sets, parts = list[BlockSet](), list[Any]()
    for b, block, rows in problem.blocks():
        own = kept[b]
        if own is None:
            sets.append(block)
            parts.append(rows)
        elif own.size:
            sets.append(Nonneg(own.size))
            parts.append(_columns(problem, b, own))
    for b, (first, _) in pairs.items():
        sets.append(Free(first.size))
        parts.append(_columns(problem, b, first))
    made = FeasibilityProblem(sets, parts, problem.lower, problem.upper, problem.row_names)
    return MergeOppositeColumns(
        problem, made, names, {b: second for b, (_, second) in pairs.items()}, tuple(kept)
    )


def _columns(problem: FeasibilityProblem, b: int, chosen: np.ndarray) -> Sparse:
    whole = problem.rows[b].explicit()
    return Sparse(whole[:, chosen].tocsr(), chosen.size, False)


def _pairs(columns: Any, objective: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """Find pairs of columns ``a, -a`` with opposite objective; zero columns are skipped."""
    waiting: dict[tuple[bytes, bytes], list[int]] = {}
    first, second = list[int](), list[int]()
    columns.sum_duplicates()
    columns.eliminate_zeros()
    for j in range(objective.size):
        own = slice(columns.indptr[j], columns.indptr[j + 1])
        place = columns.indices[own].tobytes()
        # Adding 0.0 turns -0.0 into 0.0, so that equal values have equal bytes.
        values = np.append(columns.data[own], objective[j]) + 0.0
        if not values.any():
            continue
        partners = waiting.get((place, (0.0 - values).tobytes()))
        if partners:
            first.append(partners.pop())
            second.append(j)
        else:
            waiting.setdefault((place, values.tobytes()), []).append(j)
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)
