"""Take out what an interior-point method cannot have: empty rows, and boxes without interior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import require_no_lmis
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction

__all__ = ["Presolved", "presolve"]


@dataclass(frozen=True)
class Presolved(Reduction):
    """A smaller problem, or an answer already found.

    Attributes
    ----------
    original, problem : FeasibilityProblem
        The problem before and after; they are the same where an answer was found.
    answer : tuple, optional
        A point or multipliers of the original problem, where nothing is left to solve.
    """

    original: FeasibilityProblem
    problem: FeasibilityProblem
    answer: tuple[Point | None, FloatArray | None] | None
    _rows: np.ndarray
    _blocks: tuple[int, ...]
    _fixed: Point

    def point(self, point: Point) -> Point:
        """Add the blocks that were fixed."""
        out = list(self._fixed)
        for b, x in zip(self._blocks, point, strict=True):
            out[b] = x
        return tuple(out)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Zero for the rows that were dropped."""
        out = np.zeros(self.original.m)
        out[self._rows] = y
        return out

    def start_point(self, point: Point) -> Point:
        """The blocks that are left."""
        return tuple(point[b] for b in self._blocks)

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """The rows that are left."""
        return y[self._rows]


def presolve(problem: FeasibilityProblem) -> Presolved:
    """Fix boxes that hold a single matrix, and drop rows without terms or without bounds.

    Parameters
    ----------
    problem : FeasibilityProblem
        Any problem.
    """
    require_no_lmis(problem, "presolving")
    fixed = tuple(block.interior_point() for block in problem.sets)
    blocks = tuple(b for b, block in enumerate(problem.sets) if not block.single)
    shift = np.zeros(problem.m)
    norms = np.zeros(problem.m)
    for b, rows in enumerate(problem.rows):
        if rows is None:
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
        return Presolved(problem, problem, (None, y), keep, blocks, fixed)
    if keep.size == 0:
        # Nothing ties the blocks together: any member of each will do.
        return Presolved(problem, problem, (fixed, None), keep, blocks, fixed)
    if keep.size == problem.m and len(blocks) == len(problem.sets):
        return Presolved(problem, problem, None, keep, blocks, fixed)
    left = [problem.rows[b] for b in blocks]
    if keep.size < problem.m:
        left = [None if r is None else r.select(keep) for r in left]
    smaller = FeasibilityProblem([problem.sets[b] for b in blocks], left, lower[keep], upper[keep])
    return Presolved(problem, smaller, None, keep, blocks, fixed)
