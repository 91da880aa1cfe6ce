"""Floating-point proofs that a problem is feasible or infeasible.

A point proves feasibility if an exact solution provably lies next to it; a certificate proves
infeasibility if its two sides differ by more than every rounding error. Nothing here changes the claim:
that is what :mod:`sdpfeas.verifier.repair` is for.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import (
    TINY,
    UNIT,
    definite,
    difference_down,
    eigenvalue_enclosure,
    gamma,
    inflate,
    norm_upper,
    product_up,
    quotient_up,
    semidefinite,
    smallest_eigenvalue_lower,
    sqrt_upper,
    sum_lower,
    sum_up,
    sum_upper,
    symmetric_norm_upper,
)
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SpectralBox
from sdpfeas.verifier.equality import CorrectionSystem, FreeColumns, correction_systems
from sdpfeas.verifier.outcome import Outcome, refuse
from sdpfeas.verifier.tolerances import Tolerances

__all__ = ["prove_certificate", "prove_point"]

DEFAULTS = Tolerances()


def prove_point(problem: FeasibilityProblem, point: Point, tolerances: Tolerances = DEFAULTS) -> Outcome:
    """Prove that an exact solution exists at or next to ``point``.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem, in its own units.
    point : tuple of ndarray
        One array per set, matrices exactly symmetric.
    tolerances : Tolerances
        Only ``snap`` is used.
    """
    if not all(np.isfinite(x).all() for x in point):
        return refuse("the point holds NaN or infinity")
    point = tuple(
        _without_slips(x, tolerances.snap) if isinstance(block, Nonneg) else x
        for block, x in zip(problem.sets, point, strict=True)
    )
    value, radius, size = enclose_rows(problem, point)
    if not (np.isfinite(value).all() and np.isfinite(radius).all()):
        return refuse("the row values overflow")
    best = refuse("the point could not be placed in its sets")
    for system in correction_systems(problem, point):
        outcome = _prove_with(problem, point, (value, radius, size), system, tolerances)
        if outcome.proven:
            return outcome
        best = outcome
    return best


def _without_slips(x: FloatArray, snap: float) -> FloatArray:
    """Set slightly negative entries to zero: the exact solution is looked for from there."""
    low = np.minimum(x, 0.0)
    return np.maximum(x, 0.0) if norm_upper(low) <= snap * norm_upper(x) < math.inf else x


def enclose_rows(problem: FeasibilityProblem, point: Point) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Row values with proven radii, and the size of the terms that add up to them."""
    total, radius, size = (np.zeros(problem.m) for _ in range(3))
    for rows, x in zip(problem.rows, point, strict=True):
        if rows is not None:
            value, error = rows.enclose_apply(x)
            total += value
            size += np.abs(value)
            radius = sum_up(radius, error)
    k = len(problem.sets) + 2
    return total, sum_up(radius, product_up(gamma(k), inflate(size, k))), size


def _prove_with(
    problem: FeasibilityProblem,
    point: Point,
    enclosed: tuple[FloatArray, FloatArray, FloatArray],
    system: CorrectionSystem,
    tolerances: Tolerances,
) -> Outcome:
    value, radius, terms = enclosed
    equal = problem.equality
    drift = np.zeros(problem.m)
    for b, (block, x) in enumerate(zip(problem.sets, point, strict=True)):
        if b in system.blocks:
            continue
        eta = distance_upper(block, x, tolerances.snap)
        if not math.isfinite(eta):
            return refuse(f"block {problem.block_name(b)} is not provably in its set")
        drift = sum_up(drift, product_up(problem.upper_norms[b], eta))
    local = 0.0
    if equal.any():
        off = np.abs(value[equal] - problem.lower[equal])
        local = system.correction_upper(inflate(off + radius[equal] + drift[equal], 4))
        if not math.isfinite(local):
            return refuse("the equality rows are not provably independent on the blocks that can move")
        if not local < 1.0:
            return refuse(
                "the equality rows are missed by more than the distance to the boundary allows "
                f"({local:.3g} times)"
            )
        size = max(norm_upper(x) for x in point)
        if any(local * part.reach > tolerances.snap * size for part in system.parts):
            return refuse(
                f"the equality rows are missed by more than {tolerances.snap:g} of the size of the point"
            )
        drift = sum_up(drift, product_up(local, system.drift_upper(problem.upper_norms)))
    slack = np.minimum(difference_down(value, problem.lower), difference_down(problem.upper, value))
    left = difference_down(slack, sum_up(radius, drift))[~equal]
    if not np.all(left >= 0.0):
        worst = np.flatnonzero(~equal)[int(np.argmin(left))]
        return refuse(f"row {problem.row_name(int(worst))} is not provably within its bounds")
    scale = (terms + largest_bound(problem))[~equal]
    relative = np.divide(np.minimum(left, scale), scale, out=np.ones_like(left), where=scale > 0.0)
    margin = min(1.0 - local, float(np.min(relative, initial=1.0)))
    where = "next to" if local > 0.0 or drift.any() else "at"
    return Outcome(True, margin, f"an exact solution lies {where} the point: every set and every row holds")


def distance_upper(block: BlockSet, x: FloatArray, snap: float) -> float:
    """Proven bound on the distance of ``x`` from an exact member; infinity beyond ``snap``."""
    if isinstance(block, Free):
        return 0.0
    size = norm_upper(x)
    limit = snap * size
    if isinstance(block, Nonneg):
        eta = norm_upper(np.minimum(x, 0.0))
    elif isinstance(block, PSD):
        if semidefinite(x):
            return 0.0
        eta = float(product_up(max(-smallest_eigenvalue_lower(x), 0.0), sqrt_upper(block.n)))
    else:
        assert isinstance(block, SpectralBox)
        if block.trace is not None and not (
            Fraction(block.lower) * block.n <= Fraction(block.trace) <= Fraction(block.upper) * block.n
        ):
            return math.inf
        missed = 0.0 if block.trace is None else _sum_missed(np.diagonal(x), block.trace)
        room = float(quotient_up(missed, block.n))
        if definite_between(x, block.lower, block.upper, room):
            # Strictly inside: a shift of the diagonal makes up for the trace.
            eta = float(product_up(room, sqrt_upper(block.n)))
        else:
            lam, _, error = eigenvalue_enclosure(x)
            target = block.project_spectrum(lam)
            off = inflate(np.abs(lam - target), 2)
            eta = float(sum_up(norm_upper(off), product_up(error, sqrt_upper(block.n))))
            if block.trace is not None:
                # An exact spectrum with the right trace is no further from the target than its sum is off.
                eta = float(sum_up(eta, _sum_missed(target, block.trace)))
        limit = snap * max(size, math.sqrt(block.n) * max(abs(block.lower), abs(block.upper)))
    return eta if eta <= limit else math.inf


def _sum_missed(values: FloatArray, total: float) -> float:
    """Proven bound on how far the exact sum of values is from a number."""
    terms = np.append(values, -total)
    return max(sum_upper(terms), -sum_lower(terms), 0.0)


def definite_between(x: FloatArray, lower: float, upper: float, room: float = 0.0) -> bool:
    """Prove ``(lower + room)·I < x < (upper - room)·I``."""
    eye = np.eye(x.shape[0])
    # Rounding of the diagonal shift is covered by moving the bound outwards by a few units.
    size = float(np.max(np.abs(np.diagonal(x)))) + abs(lower) + abs(upper)
    slip = float(sum_up(product_up(16.0 * UNIT, size), room))
    return definite(x - lower * eye, shift=slip) and definite(upper * eye - x, shift=slip)


def prove_certificate(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances = DEFAULTS
) -> Outcome:
    """Prove that the multipliers ``y`` (or exact ones next to them) rule out every point.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem, in its own units.
    y : ndarray
        One multiplier per row.
    tolerances : Tolerances
        Only ``snap`` is used.
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
    free = FreeColumns(problem, y)
    shift = free.correction_upper()
    if not math.isfinite(shift):
        return refuse(
            "A*y does not vanish on the free blocks, and no certificate for which it does is provably near"
        )
    if not shift <= min(tolerances.snap, 0.5):
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
        if rows is None or isinstance(block, Free):
            continue
        g, error = rows.enclose_adjoint(y)
        if not (np.isfinite(g).all() and np.isfinite(error).all()):
            return refuse("A*y overflows")
        slip = float(product_up(shift, free.row_norm(b))) if shift else 0.0
        if isinstance(block, SpectralBox):
            support, size = _box_support_upper(block, g, error, slip)
            if not math.isfinite(support):
                return refuse(f"block {problem.block_name(b)}: eigenvalues could not be enclosed")
            support_total = float(sum_up(support_total, support))
            scale += size
        elif not _in_polar(block, g, error, slip, free.moves(b) if shift else None):
            return refuse(f"A*y is not provably non-positive on block {problem.block_name(b)}")
    gap = float(difference_down(beta, support_total))
    if not gap > 0.0:
        return refuse(f"the two sides of the certificate do not provably differ (gap {gap:.3g})")
    near = "the multipliers" if shift == 0.0 else "exact multipliers next to the given ones"
    margin = min(gap / scale, 1.0) if scale > 0.0 else 1.0
    return Outcome(True, margin, f"{near} rule out every point: the rows contradict each other")


def _in_polar(
    block: BlockSet, g: FloatArray, error: FloatArray, slip: float, moves: np.ndarray | None
) -> bool:
    """Prove that every matrix within the error (and ``slip`` in norm) of ``g`` is non-positive.

    ``moves`` marks the entries that ``slip`` is about; no entry moves where it is None.
    """
    if isinstance(block, Nonneg):
        apart = 0.0 if moves is None else np.where(moves, slip, 0.0)
        return bool(np.all(g + inflate(error + apart, 4) <= 0.0))
    assert isinstance(block, PSD)
    # Rows that are exactly zero stay so: they need no strictness.
    alive = (g != 0.0) | (error != 0.0)
    alive = alive if moves is None else alive | moves
    keep = np.any(alive | alive.T, axis=1)
    if not keep.any():
        return True
    g, error = g[np.ix_(keep, keep)], error[np.ix_(keep, keep)]
    if moves is None and not error.any():
        return definite(-g)
    return definite(-g, shift=float(inflate(symmetric_norm_upper(error) + slip, 4)))


def _box_support_upper(
    box: SpectralBox, g: FloatArray, error: FloatArray, slip: float
) -> tuple[float, float]:
    """Proven upper bound of the support function, and the size of the terms in it."""
    lam, _, radius = eigenvalue_enclosure(g)
    bound = max(abs(box.lower), abs(box.upper))
    total = inflate(np.sum(np.abs(lam)), box.n)
    rounding = product_up(2.0 * gamma(8 * box.n + 32), bound, total)
    spread = sum_up(radius, symmetric_norm_upper(error), slip)
    lost = 64.0 * box.n * TINY * (1.0 + bound)  # what underflow may have taken
    # The radius of the box may have been rounded itself.
    extra = sum_up(product_up(inflate(box.nuclear_radius, 2), spread), rounding, lost)
    value = box.support_spectrum(lam)
    size = box.nuclear_radius * float(np.max(np.abs(lam), initial=0.0))
    return float(sum_up(value, extra)), size
