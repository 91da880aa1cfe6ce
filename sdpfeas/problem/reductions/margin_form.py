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

#: The margin block holds ``t + MARGIN_SHIFT``, which is non-negative for margins t near zero.
MARGIN_SHIFT = 0.5


@dataclass(frozen=True)
class MarginForm(Reduction):
    """A problem with an additional last block Nonneg(1) that holds ``t + MARGIN_SHIFT``."""

    @property
    def objective(self) -> Point:
        """The terms of the objective to maximise, the margin."""
        return (*(np.zeros(block.shape) for block in self.original.sets), np.ones(1))

    def point(self, point: Point) -> Point:
        """Drop the margin block."""
        return point[:-1]

    def start_point(self, point: Point) -> Point:
        """Append the margin of the point, clipped at ``t = -MARGIN_SHIFT``."""
        value = self.original.apply(point)
        left = np.minimum(value - self.original.lower, self.original.upper - value) / self.original.norms
        return (*point, np.array([max(float(np.min(left)) + MARGIN_SHIFT, 0.0)]))

    def start(self, point: Point | None, y: FloatArray | None) -> tuple[Point, FloatArray] | None:
        """Return a warm start for the maximisation; None unless both point and usable multipliers exist."""
        if point is None or y is None:
            return None
        # Dual feasibility of the margin: sum_i |y_i| ||A_i|| = 1.
        weights = np.where(np.isfinite(self.original.lower), np.maximum(y, 0.0), np.minimum(y, 0.0))
        total = float(np.abs(weights) @ self.original.norms)
        return (point, weights / total) if 0.0 < total < np.inf else None


def margin_form(problem: FeasibilityProblem) -> MarginForm | None:
    """Build the margin maximisation; None if the margin is undefined or may be unbounded.

    It requires a problem without LMIs, with a SpectralBox, and with nonzero rows that have exactly one bound.
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
        problem.lower - MARGIN_SHIFT * norms,
        problem.upper + MARGIN_SHIFT * norms,
    )
    return MarginForm(problem, widened)
