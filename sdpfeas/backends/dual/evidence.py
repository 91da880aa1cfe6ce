"""Evidence on the way: what an evaluation of the dual function says about the problem as it was asked.

``A*y``, its eigenvalues, ``X(y)`` and the row values are at hand after every evaluation, so the verifier's
conditions can be looked at for next to nothing. Only what looks right is offered, and after a refusal the bar
is raised.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sdpfeas.backends.dual.function import DualFunction, Evaluation
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point

__all__ = ["Evidence", "fit_numbers"]

#: A gap between the sides of a certificate below this share of them is rounding.
ROUNDING = 1e-12

#: Equality rows may be missed by this share of the margin when a proof is tried, without a margin by ...
WITHIN_MARGIN = 0.5
#: ... this much, relative to their size.
WITHIN = 1e-6

#: A refusal lowers what a screen lets through by this factor.
RAISE = 4.0


class Evidence:
    """The best point and multipliers so far, and which of them was good enough to stop.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem as it was asked.
    epsilon : float
        First level of the screen: ``||(A*y)_+|| / beta`` below it is worth an offer.
    inquiry : Inquiry
        Where to offer.
    """

    def __init__(self, problem: FeasibilityProblem, epsilon: float, inquiry: Inquiry) -> None:
        self.problem = problem
        self._inquiry = inquiry
        self.point: Point | None = None
        self.multipliers: FloatArray | None = None
        self.proven = ""
        self._screen = epsilon
        self._missed = np.inf
        self._shortfall, self._lead, self._refused_lead = np.inf, -np.inf, 0.0
        self._refused, self._wait, self._seen = 0, 0, 0

    def inspect(self, function: DualFunction, found: Evaluation) -> bool:
        """Look at an evaluation; True when either side of it settles the inquiry."""
        self._seen += 1
        return self._certificate(function, found) or self._point(function, found)

    def _certificate(self, function: DualFunction, found: Evaluation) -> bool:
        y = found.multipliers
        beta = float(np.sum(self.problem.beta_terms(y)))
        support, excess = function.support(found.spectra)
        gap, size = beta - support, abs(beta) + abs(support)
        lead = (gap - excess) / size if size > 0.0 else -np.inf
        if lead > self._lead or self.multipliers is None:
            self._lead, self.multipliers = lead, y
        if not gap > ROUNDING * size:
            return False
        ratio = excess / gap
        if not ratio < self._screen and not (excess == 0.0 and lead > self._refused_lead):
            return False
        if not self._inquiry.offer(multipliers=y):
            self._screen = min(self._screen, ratio / RAISE)
            self._refused_lead = 2.0 * lead
            return False
        self.multipliers, self.proven = y, "certificate"
        return True

    def _point(self, function: DualFunction, found: Evaluation) -> bool:
        problem, equal, sizes = self.problem, self.problem.equality, function.units.rows
        point, value = fit_numbers(problem, found.point, found.rows)
        short = np.maximum(problem.lower - value, value - problem.upper) / sizes
        worst = float(np.max(short, initial=-np.inf))
        if worst < self._shortfall or self.point is None:
            self._shortfall, self.point = worst, point
        if np.any(short[~equal] > 0.0) or self._seen < self._wait:
            return False
        missed = float(np.linalg.norm(short[equal]))
        near = WITHIN_MARGIN * found.margin if found.margin > 0.0 else WITHIN
        if equal.any() and not missed < min(near, self._missed):
            return False
        if not self._inquiry.offer(point=point):
            self._missed = missed / RAISE
            self._refused += 1
            self._wait = self._seen + 2**self._refused
            return False
        self.point, self.proven = point, "point"
        return True


def fit_numbers(problem: FeasibilityProblem, point: Point, value: FloatArray) -> tuple[Point, FloatArray]:
    """Choose every block that is a single number anew: in the middle of what the rows leave it.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    point : tuple of ndarray
        One array per set.
    value : ndarray
        Its row values.

    Returns
    -------
    point, value
        The point with these blocks changed, and its row values.
    """
    for b, slope in _numbers(problem):
        old = float(point[b][0])
        rest = value - slope * old
        low, high = _interval(problem, slope, rest)
        low = max(low, problem.sets[b].lower)
        new = old
        if math.isfinite(low) and math.isfinite(high):
            new = 0.5 * (low + high)
        elif math.isfinite(low):
            # Nothing limits the other side: go as far beyond this end as that is from zero.
            new = max(old, low + abs(low))
        elif math.isfinite(high):
            new = min(old, high - abs(high))
        new = max(new, problem.sets[b].lower)
        point = (*point[:b], np.array([new]), *point[b + 1 :])
        value = rest + slope * new
    return point, value


def _interval(problem: FeasibilityProblem, slope: FloatArray, rest: FloatArray) -> tuple[float, float]:
    """Where ``rest + slope·t`` is within the bounds of every row; crossed if nowhere."""
    up, down = slope > 0.0, slope < 0.0
    divisor = np.where(up | down, slope, 1.0)
    lower, upper = (problem.lower - rest) / divisor, (problem.upper - rest) / divisor
    low = np.max(np.concatenate([lower[up], upper[down]]), initial=-np.inf)
    high = np.min(np.concatenate([upper[up], lower[down]]), initial=np.inf)
    return float(low), float(high)


def _numbers(problem: FeasibilityProblem) -> Iterator[tuple[int, FloatArray]]:
    """Blocks of one number that no equality row touches, with their coefficients."""
    for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True)):
        if not block.entrywise or block.n > 1 or rows is None:
            continue
        if not np.any(problem.block_norms[b][problem.equality] > 0.0):
            yield b, rows.apply(np.ones(1))
