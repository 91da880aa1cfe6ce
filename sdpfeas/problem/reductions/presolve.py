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
from sdpfeas.problem.reductions.base import Reduction, changed
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


#: The entries of a block that stay non-negative, and the first and second ones of all pairs.
Merged = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class MergeOppositeColumns(Reduction):
    """A problem with one free variable for every pair of opposite columns, in a block of their own."""

    _merged: tuple[Merged | None, ...]

    def point(self, point: Point) -> Point:
        """Return positive and negative parts of the free variables."""
        parts, out = iter(point), []
        for block, merged in zip(self.original.sets, self._merged, strict=True):
            if merged is None:
                out.append(next(parts))
                continue
            kept, first, second = merged
            whole = np.zeros(block.n)
            if kept.size:
                whole[kept] = next(parts)
            free = next(parts)
            whole[first], whole[second] = np.maximum(free, 0.0), np.maximum(-free, 0.0)
            out.append(whole)
        return tuple(out)

    def start_point(self, point: Point) -> Point:
        """Return the differences of the pairs as free variables."""
        return self.terms(point, half=False)

    def terms(self, objective: Point, *, half: bool = True) -> Point:
        """Map an objective: a pair keeps the term of its first variable (``half=False``: the difference)."""
        out = []
        for part, merged in zip(objective, self._merged, strict=True):
            if merged is None:
                out.append(part)
                continue
            kept, first, second = merged
            out += [part[kept]] if kept.size else []
            out.append(part[first] if half else part[first] - part[second])
        return tuple(out)


def merge_opposite_columns(problem: FeasibilityProblem, objective: Point) -> MergeOppositeColumns:
    """Merge non-negative variables with opposite columns in rows and ``objective``; not with LMIs."""
    found, sets, parts = list[Merged | None](), list[BlockSet](), list[Any]()
    for b, block, rows in problem.blocks():
        merged = None
        stored = isinstance(rows, (Dense, Sparse)) and not rows.empty
        if isinstance(block, Nonneg) and stored and not problem.lmis:
            columns = rows.to_csr().tocsc()
            first, second = _pairs(columns, objective[b])
            if first.size:
                merged = np.setdiff1d(np.arange(block.n), [*first, *second]), first, second
                for kind, own in ((Nonneg, merged[0]), (Free, first)):
                    if own.size:
                        sets.append(kind(own.size))
                        parts.append(Sparse(columns[:, own], own.size, False))
        if merged is None:
            sets.append(block)
            parts.append(rows)
        found.append(merged)
    made = problem if not any(found) else changed(problem, sets=sets, rows=parts, block_names=None)
    return MergeOppositeColumns(problem, made, tuple(found))


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
