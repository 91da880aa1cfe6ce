"""Floating-point proofs that a problem is feasible or infeasible.

A point proves feasibility if an exact solution provably lies next to it; a certificate proves
infeasibility if its two sides differ by more than every rounding error. Nothing here changes the claim:
that is what :mod:`sdpfeas.verifier.repair` is for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import (
    TINY,
    difference_down,
    gamma,
    inflate,
    norm_upper,
    product_up,
    sum_lower,
    sum_up,
)
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.verifier.equality_correction import CorrectionSystem, FreeColumns, correction_systems
from sdpfeas.verifier.outcome import Outcome, Tolerances, refuse
from sdpfeas.verifier.point_metric import MET, MetricSystem, metric_system
from sdpfeas.verifier.rigorous_lmis import lmi_margin, lmi_slip, prove_lmi_certificate

__all__ = ["prove_certificate", "prove_point"]

DEFAULTS = Tolerances()

#: Row values, their radii, and the size of their terms.
Enclosed = tuple[FloatArray, FloatArray, FloatArray]

#: Equality rows that are missed by more than this, relative to their terms, need a repair and no finer proof.
PLAUSIBLE = 1e-7


def prove_point(problem: FeasibilityProblem, point: Point, tolerances: Tolerances = DEFAULTS) -> Outcome:
    """Prove that an exact solution exists at or next to ``point``.

    ``problem``: the problem, in its own units. ``point``: one array per set, matrices exactly symmetric.
    """
    if not all(np.isfinite(x).all() for x in point):
        return refuse("the point holds NaN or infinity")
    point = tuple(
        _without_slips(x, tolerances.snap) if block.cone and block.entrywise else x
        for block, x in zip(problem.sets, point, strict=True)
    )
    value, radius, size = enclose_rows(problem, point)
    if not (np.isfinite(value).all() and np.isfinite(radius).all()):
        return refuse("the row values overflow")
    lmis = [lmi.enclose(point) for lmi in problem.lmis]
    if not all(np.isfinite(part).all() for both in lmis for part in both):
        return refuse("the values of the LMIs overflow")
    best = refuse("the point could not be placed in its sets")
    enclosed = value, radius, size
    for system in _systems(problem, point, enclosed):
        outcome = _prove_with(problem, point, enclosed, lmis, system, tolerances)
        if outcome.proven:
            return outcome
        best = outcome
    return best


def _systems(
    problem: FeasibilityProblem, point: Point, enclosed: Enclosed
) -> Iterator[CorrectionSystem | MetricSystem]:
    """Ways to correct equality rows, the cheapest first."""
    yield from correction_systems(problem, point)
    index = np.flatnonzero(problem.equality)
    value, radius, size = (part[index] for part in enclosed)
    missed = np.abs(value - problem.lower[index]) > PLAUSIBLE * (size + np.abs(problem.lower[index])) + radius
    if missed.any():
        return
    system = metric_system(problem, point)
    if system is not None:
        yield system


def _without_slips(x: FloatArray, snap: float) -> FloatArray:
    """Set slightly negative entries to zero: the exact solution is looked for from there."""
    low = np.minimum(x, 0.0)
    return np.maximum(x, 0.0) if norm_upper(low) <= snap * norm_upper(x) < math.inf else x


def enclose_rows(problem: FeasibilityProblem, point: Point) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Row values with proven radii, and the size of the terms that add up to them."""
    total, radius, size = (np.zeros(problem.m) for _ in range(3))
    for rows, x in zip(problem.rows, point, strict=True):
        if not rows.empty:
            value, error = rows.enclose_apply(x)
            total += value
            size += np.abs(value)
            radius = sum_up(radius, error)
    k = len(problem.sets) + 2
    return total, sum_up(radius, product_up(gamma(k), inflate(size, k))), size


def _prove_with(
    problem: FeasibilityProblem,
    point: Point,
    enclosed: Enclosed,
    lmis: list[tuple[FloatArray, FloatArray]],
    system: CorrectionSystem | MetricSystem,
    tolerances: Tolerances,
) -> Outcome:
    value, radius, terms = enclosed
    equal = problem.equality
    drift = np.zeros(problem.m)
    moved: list[float | FloatArray] = [0.0] * len(problem.sets)
    for b, (block, x) in enumerate(zip(problem.sets, point, strict=True)):
        if b in system.blocks:
            continue
        eta = block.snapped_distance(x, tolerances.snap)
        if not math.isfinite(eta):
            return refuse(f"block {problem.block_name(b)} is not provably in its set")
        moved[b] = eta
        drift = sum_up(drift, product_up(problem.upper_norms[b], eta))
    for b, apart in system.starts(point).items():
        rows = problem.rows[b]
        moved[b] = norm_upper(apart)
        drift = drift if rows.empty else sum_up(drift, rows.magnitude_apply_upper(apart))
    local = 0.0
    if equal.any():
        off = np.abs(value[equal] - problem.lower[equal])
        local = system.correction_upper(inflate(off + radius[equal] + drift[equal], 4))
        if not math.isfinite(local):
            reason = "the equality rows are not provably independent on the blocks that can move"
            return refuse(reason, dependent=True)
        if not local < 1.0:
            return refuse(
                "the equality rows are missed by more than the distance to the boundary allows "
                f"({local:.3g} times)"
            )
        size = max(norm_upper(x) for x in point)
        met = bool(np.all(off <= MET * radius[equal]))
        if not met and any(local * part.reach > tolerances.snap * size for part in system.parts):
            return refuse(
                f"the equality rows are missed by more than {tolerances.snap:g} of the size of the point"
            )
        drift = sum_up(drift, product_up(local, system.drift_upper(problem)))
        for part in system.parts:
            moved[part.block] = sum_up(moved[part.block], product_up(part.weight, local))
    slack = np.minimum(difference_down(value, problem.lower), difference_down(problem.upper, value))
    left = difference_down(slack, sum_up(radius, drift))[~equal]
    if not np.all(left >= 0.0):
        worst = np.flatnonzero(~equal)[int(np.argmin(left))]
        return refuse(f"row {problem.row_name(int(worst))} is not provably within its bounds")
    scale = (terms + largest_bound(problem))[~equal]
    relative = np.divide(np.minimum(left, scale), scale, out=np.ones_like(left), where=scale > 0.0)
    margin = min(1.0 - local, float(np.min(relative, initial=1.0)))
    for j, (lmi, (middle, error)) in enumerate(zip(problem.lmis, lmis, strict=True)):
        slip = lmi_slip(lmi, moved)
        if not lmi.set.proves_near(middle, error, slip):
            return refuse(f"LMI {problem.lmi_name(j)} does not provably hold")
        margin = min(margin, lmi_margin(lmi.set, middle, float(sum_up(norm_upper(error), slip))))
    where = "next to" if local > 0.0 or drift.any() or any(np.any(step) for step in moved) else "at"
    what = "every set, every row and every LMI holds" if lmis else "every set and every row holds"
    return Outcome(True, margin, f"an exact solution lies {where} the point: {what}")


def prove_certificate(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances = DEFAULTS
) -> Outcome:
    """Prove that the multipliers ``y`` (or exact ones next to them) rule out every point.

    ``problem``: the problem, in its own units. ``y``: one multiplier per row, then those of the LMIs.
    """
    if not np.isfinite(y).all():
        return refuse("the certificate holds NaN or infinity")
    size = float(np.max(np.abs(y), initial=0.0))
    if size == 0.0:
        return refuse("the certificate is zero")
    # A power of two changes nothing but keeps products clear of overflow and underflow.
    exponent = math.frexp(size)[1]
    scaled = np.ldexp(y, -exponent)
    y = scaled if np.array_equal(np.ldexp(scaled, exponent), y) else y
    wrong = sign_violation(problem, y)
    if np.any(wrong > 0.0):
        name = problem.row_name(int(np.argmax(wrong)))
        return refuse(f"the multiplier of row {name} has the sign its missing bound forbids")
    if problem.lmis:
        return prove_lmi_certificate(problem, y, tolerances)
    free = FreeColumns(problem, y)
    shift = free.correction_upper()
    if not math.isfinite(shift):
        return refuse(
            "A*y does not vanish on the free blocks, and no certificate for which it does is provably near"
        )
    if not shift <= (0.5 if free.met else min(tolerances.snap, 0.5)):
        return refuse(
            "A*y does not vanish on the free blocks: "
            f"an exact certificate may be {shift:.3g} of the size away"
        )
    terms = problem.beta_terms(y)
    lost = terms.size * TINY  # what underflow may have taken from the products
    slip = product_up(shift, free.bound_norm()) if shift else 0.0
    beta = sum_lower(terms, float(sum_up(slip, lost)))
    support_total, scale = 0.0, float(np.sum(np.abs(terms)))
    for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True)):
        if rows.empty or block.free:
            continue
        g, error = rows.enclose_adjoint(y)
        if not (np.isfinite(g).all() and np.isfinite(error).all()):
            return refuse("A*y overflows")
        if shift == 0.0 and block.matrix and block.cone and rows.sums_down(np.sign(y)):
            continue  # its sign needs no eigenvalue: nothing is added up but squares
        slip = float(product_up(shift, free.row_norm(b))) if shift else 0.0
        support, size = block.support_upper(g, error, slip, free.moves(b) if shift else None)
        if math.isfinite(support):
            support_total = float(sum_up(support_total, support))
            scale += size
        elif block.bounded:
            return refuse(f"block {problem.block_name(b)}: eigenvalues could not be enclosed")
        else:
            return refuse(f"A*y is not provably non-positive on block {problem.block_name(b)}")
    gap = float(difference_down(beta, support_total))
    if not gap > 0.0:
        return refuse(f"the two sides of the certificate do not provably differ (gap {gap:.3g})")
    near = "the multipliers" if shift == 0.0 else "exact multipliers next to the given ones"
    margin = min(gap / scale, 1.0) if scale > 0.0 else 1.0
    return Outcome(True, margin, f"{near} rule out every point: the rows contradict each other")
