"""Proven bounds of the threshold of a parametric family, from any point or any dual multipliers.

Multipliers ``y`` are an infeasibility certificate at ``delta`` if ``sigma(A*y - delta·B*y) < beta(y)`` over
the compact sets, and ``A*y - delta·B*y`` lies in the polar of every cone. Each condition asks that a convex
function of ``delta`` be negative, so Newton's method from the left does not overshoot the root
(:func:`certificate_root`).

:func:`prove_lower` and :func:`prove_upper` compute a candidate bound in floating-point arithmetic, relax it
by the smallest step for which the verifier's proof succeeds, and repair the point or the certificate where no
step suffices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import UNIT
from sdpfeas.problem.problem import Point
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.outcome import Tolerances
from sdpfeas.verifier.repair import repaired_certificates, repaired_points
from sdpfeas.verifier.rigorous import prove_certificate, prove_point

if TYPE_CHECKING:
    from sdpfeas.families.parametric_family import ParametricFamily

#: Relative error of a root at the level of rounding.
EXACT = 4.0 * UNIT

#: Cap on Newton steps; near the root 3 to 5 suffice.
MAX_STEPS = 80


@dataclass(frozen=True)
class Root:
    """Root of the certificate conditions and an estimate of its rounding error; infinite if there is none."""

    delta: float
    error: float = 0.0


NO_ROOT = Root(math.inf)


@dataclass(frozen=True)
class _Term:
    """Value and slope of a convex function at ``delta``, magnitude and number of its terms."""

    value: float
    slope: float
    size: float
    depth: int

    @property
    def noise(self) -> float:
        """Rounding error that a value of zero may have."""
        return 64.0 * UNIT * self.size

    @property
    def error(self) -> float:
        """How negative the value should be for a proof to succeed; an empirical factor times rounding."""
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
    """Return the smallest ``delta`` at which multipliers are an infeasibility certificate.

    ``fixed`` and ``slope`` are ``A*y`` and ``B*y``, block by block; ``beta`` and ``beta_slope`` are
    ``beta(y)`` at zero and its change per unit of ``delta``. Newton's method begins at ``start``, best left
    of the root, and stops at the relative ``accuracy`` with a root that is slightly too small.
    """

    def terms(delta: float) -> list[_Term]:
        return _terms(sets, fixed, slope, beta, beta_slope, delta)

    delta = start
    step = max(unit, abs(start))
    for _ in range(MAX_STEPS):  # move left until y is no certificate
        values = terms(delta)
        if any(term.value > 0.0 for term in values):
            break
        # The tangent of a convex function has its root left of the root of the function.
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
        # A value at the level of rounding needs no step; if the proof fails, the certificate is repaired.
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


# --- Proofs

#: Steps by which a candidate bound is relaxed, relative to its size, until its proof succeeds.
PUSHES = (2.0**-50, 2.0**-42, 2.0**-36, 2.0**-30, 2.0**-24, 2.0**-18, 2.0**-13)

#: The same steps where the point or the certificate has to be repaired first; each costs a factorisation.
REPAIRED_PUSHES = (2.0**-40, 2.0**-24, 2.0**-14)

#: Relative residual of the equality constraints above which no repair of a point is attempted.
REPAIRABLE_RESIDUAL = 1e-2


@dataclass(frozen=True)
class Bound:
    """Proven bound of the threshold ``delta*`` with its evidence.

    Attributes
    ----------
    delta : float
        The bound: the family is provably feasible (lower bound) or infeasible (upper bound) at this value.
    evidence : tuple of ndarray or ndarray
        The point, or the infeasibility certificate, of the proof.

    Examples
    --------
    >>> import numpy as np
    >>> from sdpfeas.families import FantopeMaxMin
    >>> family = FantopeMaxMin(np.array([np.diag([2.0, 1.0]), np.diag([1.0, 2.0])]), r=1)
    >>> bound = family.prove_lower([np.diag([0.5, 0.5])])
    >>> print(round(bound.delta, 6))
    1.5
    """

    delta: float
    evidence: Any


def prove_lower(family: ParametricFamily, point: Point, above: float, *, repair: bool = True) -> Bound | None:
    """Prove a lower bound of the threshold from a point; None if nothing is proved.

    If the bound would be at most ``above``, no proof is attempted and the bound is minus infinity.
    """
    point = family.checked_projection(point)
    if family.estimate_delta(point) <= above:
        return Bound(-math.inf, point)
    best = family.largest_delta(point)
    if math.isnan(best) or best == -math.inf:
        return None
    missed, repair = _missed(family, point, best), repair and math.isfinite(best)
    best = min(best, 1e300)
    scale, least = max(abs(best), 1e-6 * family.unit), family.bracket[0]

    def prove(push: float) -> Bound | None:
        return _prove_at(family, point, float(best - push * scale), inward=1)

    found = None
    if missed <= Tolerances().snap:
        found = _least(prove, [p for p in PUSHES if best - p * scale >= least])
    if found is not None or not repair or missed > REPAIRABLE_RESIDUAL:
        return found
    for push in REPAIRED_PUSHES:
        delta = best - push * scale
        found = _prove_at(family, point, delta, inward=1, repair=True) if delta >= least else None
        if found is not None:
            better = prove_lower(family, found.evidence, found.delta, repair=False)
            return found if better is None or better.delta < found.delta else better
    return None


def prove_upper(
    family: ParametricFamily, y: FloatArray, near: float | None, push: float, below: float
) -> Bound | None:
    """Prove an upper bound of the threshold from finite nonzero multipliers; None if nothing is proved.

    ``near`` is the value of ``delta`` at which the multipliers were computed. ``push`` is the relative
    increase that is acceptable for a cheaper proof. If the bound would be at least ``below``, no proof is
    attempted and the bound is infinity.
    """
    y = family.normalise_multipliers(y)
    # Newton's method converges quadratically, so the push exceeds the error that its last step leaves.
    root = family.root(y, near, max(push, EXACT))
    if not math.isfinite(root.delta):
        return None
    if root.delta >= below:
        return Bound(math.inf, y)
    scale, most = max(abs(root.delta), 1e-6 * family.unit), family.bracket[1]
    least = max(PUSHES[0] * scale, root.error / 16.0)

    def prove(step: float, repair: bool = False) -> Bound | None:
        delta = root.delta + step
        return _prove_at(family, y, delta, inward=-1, repair=repair) if delta < most else None

    found = prove(push * scale) if push * scale > least else None
    if found is None:
        steps = [least * 8.0**k for k in range(16) if k < 3 or least * 8.0**k <= PUSHES[-1] * scale]
        found = _least(prove, [step for step in steps if root.delta + step < most])
    repaired = (prove(share * scale, repair=True) for share in REPAIRED_PUSHES)
    return found or next((bound for bound in repaired if bound is not None), None)


def _prove_at(
    family: ParametricFamily, evidence: Any, delta: float, *, inward: int, repair: bool = False
) -> Bound | None:
    """Prove feasibility (``inward = 1``) at ``delta`` from a point, or infeasibility (-1) from multipliers.

    Bounds of the rows are rounded against the proof. With ``repair`` the evidence is repaired first.
    """
    try:
        problem = family.rounded_at(delta, inward)
    except ProblemError:  # rounded bounds cross
        return None
    tolerances = Tolerances()
    if inward > 0:
        placed: Any = family.checked_point_at(evidence, delta)
        repairs: Iterator[Any] = repaired_points(problem, placed) if repair else iter([(placed, "")])
        proven = (x for x, _ in repairs if prove_point(problem, x, tolerances).proven)
    else:
        placed = family.checked_multipliers_at(evidence, delta)
        repairs = repaired_certificates(problem, placed, tolerances) if repair else iter([(placed, "")])
        proven = (z for z, _ in repairs if prove_certificate(problem, z, tolerances).proven)
    return next((Bound(delta, found) for found in proven), None)


def _missed(family: ParametricFamily, point: Point, delta: float) -> float:
    """Return the largest residual of the equality constraints, relative to the size of their terms."""
    equal = family.equality
    if not equal.any() or not math.isfinite(delta):
        return 0.0
    problem = family.at(delta)
    placed = family.checked_point_at(point, delta)
    size = np.max([np.linalg.norm(x) for x in placed]) * problem.norms + np.abs(problem.lower)
    off = np.abs(problem.apply(placed) - problem.lower)
    return float(np.max(off[equal] / np.maximum(size[equal], 1e-300)))


def _least(prove: Callable[[float], Bound | None], pushes: Sequence[float]) -> Bound | None:
    """Return the proof with the smallest step in the ascending ``pushes`` for which ``prove`` succeeds.

    The two smallest steps usually succeed, so they are tried first. If the largest fails, all do; otherwise
    bisection finds the smallest.
    """
    for push in pushes[:2]:
        best = prove(push)
        if best is not None:
            return best
    if len(pushes) < 3:
        return None
    best = prove(pushes[-1])
    low, high = 1, len(pushes) - 1
    while best is not None and high - low > 1:
        middle = (low + high) // 2
        found = prove(pushes[middle])
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return best
