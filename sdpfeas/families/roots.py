"""Where multipliers begin to rule out a linear family: the root of a convex function of ``delta``.

Multipliers ``y`` are a certificate at ``delta`` if ``sigma(A*y - delta·B*y) < beta(y)`` over the compact sets
and ``A*y - delta·B*y`` lies in the polar of every cone. Each of these asks that a convex function of
``delta`` be negative, so Newton's method from the left never passes the root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sdpfeas.numerics.rounding import UNIT
from sdpfeas.problem.problem import Point
from sdpfeas.problem.sets import BlockSet

__all__ = ["Root", "certificate_root"]

#: Relative error of a root that only rounding explains.
EXACT = 4.0 * UNIT

#: Newton steps at most; it takes 3 to 5 near the root.
MAX_STEPS = 80


@dataclass(frozen=True)
class Root:
    """A root with an estimate of how far rounding may have moved it.

    Attributes
    ----------
    delta : float
        The root; infinity if there is none.
    error : float
        Its estimated error.
    """

    delta: float
    error: float = 0.0


NO_ROOT = Root(math.inf)


@dataclass(frozen=True)
class _Term:
    """Value and slope of one convex function at ``delta``, and size and number of the terms in it."""

    value: float
    slope: float
    size: float
    depth: int

    @property
    def noise(self) -> float:
        """What rounding alone may leave of a zero."""
        return 64.0 * UNIT * self.size

    @property
    def error(self) -> float:
        """How negative the value should be for a proof to go through; from experience."""
        return 512.0 * self.depth * UNIT * self.size


def certificate_root(
    sets: Sequence[BlockSet],
    fixed: Point,
    slope: Point,
    beta: float,
    beta_slope: float,
    start: float,
    unit: float = 1.0,
    accuracy: float = EXACT,
) -> Root:
    """Return the smallest ``delta`` at which multipliers are a certificate.

    Parameters
    ----------
    sets : sequence of BlockSet
        The sets.
    fixed, slope : tuple of ndarray
        ``A*y`` and ``B*y``, block by block.
    beta, beta_slope : float
        ``beta(y)`` at zero and its change per unit of ``delta``.
    start : float
        Where to begin; best left of the root.
    unit : float
        The usual size of ``delta``.
    accuracy : float
        Relative error of the root that is good enough; it is then a little too low.
    """

    def terms(delta: float) -> list[_Term]:
        return _terms(sets, fixed, slope, beta, beta_slope, delta)

    delta = start
    step = max(unit, abs(start))
    for _ in range(MAX_STEPS):  # go left until the certificate fails
        values = terms(delta)
        if any(term.value > 0.0 for term in values):
            break
        # A tangent of a convex function has its root left of the function's.
        roots = [delta - term.value / term.slope for term in values if term.slope < 0.0]
        tangent = max(roots, default=-math.inf)
        delta = tangent if delta - step < tangent < delta else delta - step
        step *= 2.0
    else:
        return NO_ROOT
    for _ in range(MAX_STEPS):
        above = [term for term in values if term.value > term.noise]
        if any(term.slope >= 0.0 for term in above):
            return NO_ROOT
        # Roundings of zero need no step, but a repair; the proof will tell.
        target = max((delta - term.value / term.slope for term in above), default=delta)
        if not math.isfinite(target):
            return NO_ROOT
        if target - delta <= accuracy * max(abs(delta), 1e-6 * unit):
            errors = [term.error / abs(term.slope) for term in values if term.slope < 0.0 and _near(term)]
            return Root(max(delta, target), max(errors, default=0.0))
        delta = target
        values = terms(delta)
    return Root(delta)


def _near(term: _Term) -> bool:
    return abs(term.value) <= 1e-6 * term.size


def _terms(
    sets: Sequence[BlockSet], fixed: Point, slope: Point, beta: float, beta_slope: float, delta: float
) -> list[_Term]:
    out = []
    value, change, size = -(beta + delta * beta_slope), -beta_slope, abs(beta) + abs(delta * beta_slope)
    for block, a, b in zip(sets, fixed, slope, strict=True):
        if block.free:
            continue
        if block.bounded:
            best = block.maximiser(a - delta * b)
            value += float(best.lam @ best.weights)
            change -= float(best.weights @ block.coefficients(best.frame, b))
            size += block.nuclear_radius * best.size
            continue
        lam, frame = block.decompose(a - delta * b)
        slopes = -block.coefficients(frame, b)
        k = int(np.argmax(lam))
        scale, depth = float(np.max(np.abs(a)) + abs(delta) * np.max(np.abs(b))) * block.n, block.n
        if block.entrywise:
            scale, depth = float(abs(a[k]) + abs(delta * b[k])), 1
        out.append(_Term(float(lam[k]), float(slopes[k]), scale, depth))
    out.append(_Term(value, change, size, max(block.n for block in sets)))
    return out
