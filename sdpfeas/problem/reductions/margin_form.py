"""Maximise the common margin of the rows: ``lower <= A(X)`` → ``lower + t·||A_i|| <= A(X)``, maximise ``t``.

The optimal point and multipliers yield bounds for thresholds near the problem, up to about the square of the
distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.sets import Nonneg

#: The margin is counted from minus this on, so that it is a non-negative number of about this size.
SHIFT = 0.5


@dataclass(frozen=True)
class MarginForm(Reduction):
    """A problem with a last block for the margin of its rows, counted from ``-SHIFT`` on."""

    original: FeasibilityProblem
    problem: FeasibilityProblem

    @property
    def objective(self) -> Point:
        """The margin, to be maximised."""
        return (*(np.zeros(block.shape) for block in self.original.sets), np.ones(1))

    def point(self, point: Point) -> Point:
        """Leave the margin away."""
        return point[:-1]

    def multipliers(self, y: FloatArray) -> FloatArray:
        """The same: the rows are."""
        return y

    def start_point(self, point: Point) -> Point:
        """The point with the largest margin that it has, or with none if it misses too much."""
        value = self.original.apply(point)
        left = np.minimum(value - self.original.lower, self.original.upper - value) / self.original.norms
        return (*point, np.array([max(float(np.min(left)) + SHIFT, 0.0)]))

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """The same."""
        return y

    def start(self, point: Point | None, y: FloatArray | None) -> tuple[Point, FloatArray] | None:
        """Return a point and multipliers as a start of the maximisation; None unless there are both."""
        if point is None or y is None:
            return None
        # The multipliers of the best margin weigh all rows, by their norms, with one in sum.
        weights = np.where(np.isfinite(self.original.lower), np.maximum(y, 0.0), np.minimum(y, 0.0))
        total = float(np.abs(weights) @ self.original.norms)
        return (point, weights / total) if 0.0 < total < np.inf else None


def margin_form(problem: FeasibilityProblem) -> MarginForm | None:
    """Give the rows of a problem a margin to maximise; None where that means nothing or may have no end.

    ``problem``: without LMIs, with a bounded block, and all rows with one bound and something in them.
    """
    one_sided = np.isfinite(problem.lower) != np.isfinite(problem.upper)
    norms = problem.norms
    usable = problem.m > 0 and bool(np.all(one_sided & (norms > 0.0) & np.isfinite(norms)))
    if problem.lmis or not usable or not any(block.bounded for block in problem.sets):
        return None
    column = np.where(np.isfinite(problem.lower), -norms, norms)[:, None]
    widened = FeasibilityProblem(
        [*problem.sets, Nonneg(1)],
        [*problem.rows, column],
        problem.lower - SHIFT * norms,
        problem.upper + SHIFT * norms,
    )
    return MarginForm(problem, widened)
