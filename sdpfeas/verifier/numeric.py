"""Numeric mode: recomputed, scale-free residuals against named tolerances; evidence, not a proof.

A residual is compared with a reference size, which depends on the block:

* On a bounded block a row is compared with its terms and with the bound it misses. A small relative residual
is
  a small backward error: a small change of the data makes the claim exact.
* On an unbounded block the terms, and with them the allowed residual, can be arbitrarily large. On a vector
block
  only rounding is allowed for, and no more than is small at a point of the size that the bounds suggest.
  Likewise multipliers of rows with zero bounds, which do not contribute to ``beta(y)``, allow for nothing.
* On an unbounded PSD block small residuals are no evidence: weakly infeasible problems have points with
  arbitrarily small residuals, and weakly feasible problems have such certificates. There the existence proof
  of the rigorous mode is required; only rows that are redundant up to rounding are dropped first.

The distance of a block from its set is charged to every row: moving the block into its set changes a row
value by up to that distance times the norm of the row.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from sdpfeas.numerics.limits import check_deadline, guard
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import TINY, UNIT
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.problem.reductions.inequality_pairs import meeting_pairs
from sdpfeas.problem.reductions.redundant_rows import screen
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.outcome import Outcome, Tolerances, refuse
from sdpfeas.verifier.rigorous import prove_certificate, prove_point

#: Rows that differ from a combination of others by at most this share of the terms are redundant.
REDUNDANT_SHARE = 1e-13


def without_redundant_rows(problem: FeasibilityProblem) -> FeasibilityProblem | None:
    """Drop equality rows that are redundant up to rounding; None if there are none.

    A dropped row and its bound agree with a combination of kept rows (and prescribed traces) to within
    ``REDUNDANT_SHARE`` of the terms. This is a numeric judgement, not a proof.
    """
    seen = screen(problem)
    if seen is None:
        return None
    index, kept = seen.index, seen.kept
    bound = np.ldexp(problem.lower[index], -seen.exponents)
    rest = np.setdiff1d(np.arange(index.size), kept)
    dropped = [k for k in rest if _follows(seen.parts, bound, seen.gram, kept, k)]
    if not dropped:
        return None
    return problem.select_rows(np.setdiff1d(np.arange(problem.m), index[dropped]))


def _follows(
    parts: list[tuple[BlockSet, Rows]], bound: FloatArray, gram: FloatArray, kept: np.ndarray, k: int
) -> bool:
    """Whether row ``k`` and its bound are a combination of the kept rows, up to rounding."""
    weights = np.zeros(bound.size)
    weights[k] = 1.0
    for _ in range(3):
        # Iterative refinement: the Gram matrix squares the condition number.
        differences, right, moved = [], float(weights @ bound), float(np.abs(weights) @ np.abs(bound))
        for block, rows in parts:
            apart = rows.adjoint(weights)
            if block.trace is not None:
                mean = block.trace_of(apart) / block.degree
                apart = apart - mean * block.identity()
                right -= mean * block.trace
                moved += abs(mean * block.trace)
            differences.append((rows, apart))
        off = sum((rows.apply(apart)[kept] for rows, apart in differences), np.zeros(kept.size))
        guard("the search for redundant rows", 4.0 * float(kept.size) ** 3)
        step = scipy.linalg.lstsq(gram[np.ix_(kept, kept)], off, check_finite=False)[0]
        if not np.isfinite(step).all():
            return False
        largest = max(float(np.max(np.abs(apart))) for _, apart in differences)
        terms = float(np.sum(np.abs(weights)))
        if largest <= REDUNDANT_SHARE * terms and abs(right) <= REDUNDANT_SHARE * moved < math.inf:
            return True
        weights[kept] -= step
    return False


def check_point(
    problem: FeasibilityProblem, point: Point, tolerances: Tolerances, proof: Outcome | None = None
) -> Outcome:
    """Check the residuals of a point, and if there are unbounded PSD blocks also the existence proof.

    ``proof`` is the outcome of the rigorous proof of the same point, if it was attempted.
    """
    if not all(np.isfinite(x).all() for x in point):
        return refuse("the point holds NaN or infinity")
    if problem.lmis:
        # In slack form an LMI is a block with equality rows.
        slacks = problem.slack_form
        return check_point(slacks.problem, slacks.start_point(point), tolerances, proof)
    value, excused = np.zeros(problem.m), _sizes_of_bounds(problem)
    drift, rounding = np.zeros(problem.m), np.zeros(problem.m)
    for (b, block, rows), x in zip(problem.blocks(), point, strict=True):
        lam = block.spectrum(x)
        apart = _norm(lam - block.project_spectrum(lam))
        if apart != 0.0:  # or not a number
            size = _size(block, x)
            if not (apart <= tolerances.membership * size and math.isfinite(size)):
                share = apart / size if size > 0.0 else math.inf
                return refuse(f"block {problem.block_name(b)} is outside its set by {share:.3g} of its size")
            drift += apart * problem.upper_norms[b]
        if not rows.empty:
            part, error = rows.enclose_apply(x)
            value += part
            rounding += error
            if not block.polyhedral:
                excused = excused + np.abs(part)
    if not np.isfinite(value).all():
        return refuse("the row values overflow")
    # One line per bound: each has its own reference size.
    violation = np.array([problem.lower - value, value - problem.upper]) + (drift + rounding)
    bad = ~(violation <= tolerances.residual * excused)
    if bad.any() and not _hopeless(problem, point, bad, violation, tolerances):
        excused = excused + _cancelled(problem, point, _rows_of(bad), tolerances)
        strained = bad & (violation > tolerances.residual * _natural_sizes(problem))
        bad &= ~(violation <= tolerances.residual * excused)
        if np.any(strained & ~bad):
            i = int(_rows_of(strained & ~bad)[0])
            return refuse(
                f"row {problem.row_name(i)} holds only next to the terms of a point that is far larger "
                "than anything the problem suggests"
            )
    if not np.isfinite(excused).all():
        return refuse("the row values overflow")
    if bad.any():
        ratio = np.where(bad, violation / np.where(excused > 0.0, excused, np.finfo(float).tiny), 0.0)
        ratio = np.max(ratio, axis=0)
        i = int(np.argmax(ratio))
        return refuse(
            f"row {problem.row_name(i)} is violated by {ratio[i]:.3g} of the size of its terms "
            f"(allowed: {tolerances.residual:g})"
        )
    if _has_unbounded_psd(problem):
        outcome = prove_point(problem, point, tolerances) if proof is None else proof
        if not outcome.proven:
            joined = meeting_pairs(problem).problem
            reduced = without_redundant_rows(joined) or joined
            if reduced is not problem:
                outcome = prove_point(reduced, point, tolerances)
        if not outcome.proven:
            return refuse(
                "numerically feasible, no interior found: the residuals are within the tolerances, but on "
                f"an unbounded PSD block that is no evidence ({outcome.reason})"
            )
    left, scale = -violation[:, ~problem.equality], excused[:, ~problem.equality]
    relative = np.divide(left, scale, out=np.ones_like(left), where=(scale > 0.0) & np.isfinite(left))
    margin = float(np.min(relative, initial=1.0))
    return Outcome(True, margin, "every set and every row holds within the tolerances")


def _sizes_of_bounds(problem: FeasibilityProblem) -> FloatArray:
    """Absolute values of the lower and upper bounds, one line each; zero for an infinite bound."""
    bounds = np.array([problem.lower, problem.upper])
    return np.where(np.isfinite(bounds), np.abs(bounds), 0.0)


def _natural_sizes(problem: FeasibilityProblem) -> FloatArray:
    """Sizes of the row values at a point of the size that bounds and sets suggest.

    Infinite if nothing suggests a size: then every point may be scaled.
    """
    norms = problem.norms
    sized = (norms > 0.0) & (largest_bound(problem) > 0.0)
    reach = float(np.max(largest_bound(problem)[sized] / norms[sized], initial=0.0))
    reach = max([reach, *(block.spectral_radius for block in problem.sets if block.bounded)])
    return norms * reach if reach > 0.0 else np.full(problem.m, np.inf)


def _rows_of(marked: np.ndarray) -> np.ndarray:
    """Indices of the rows with a marked bound."""
    return np.flatnonzero(marked.any(axis=0))


def _size(block: BlockSet, x: FloatArray) -> float:
    """Frobenius norm of a block, at least the spectral radius of its set if that is bounded."""
    size = _norm(x)
    return max(size, block.spectral_radius) if block.bounded else size


def _norm(x: FloatArray) -> float:
    """Frobenius norm without overflow or underflow."""
    largest = float(np.max(np.abs(x), initial=0.0))
    return largest * float(np.linalg.norm(x / largest)) if 0.0 < largest < math.inf else largest


def _hopeless(
    problem: FeasibilityProblem,
    point: Point,
    bad: np.ndarray,
    violation: FloatArray,
    tolerances: Tolerances,
) -> bool:
    """Whether a bound is missed by more than :func:`_cancelled` could ever allow for."""
    most, share = _sizes_of_bounds(problem), _rounding_share(tolerances)
    for b, (block, x) in enumerate(zip(problem.sets, point, strict=True)):
        reach = problem.upper_norms[b] * _size(block, x) * (4.0 + math.sqrt(block.n))
        most = most + (reach if block.bounded else share * reach)
    return bool(np.any(violation[bad] > tolerances.residual * most[bad]))


def _rounding_share(tolerances: Tolerances) -> float:
    """The rounding tolerance in units of the residual tolerance."""
    return tolerances.rounding / tolerances.residual if tolerances.residual > 0.0 else 0.0


def _cancelled(
    problem: FeasibilityProblem, point: Point, index: np.ndarray, tolerances: Tolerances
) -> FloatArray:
    """Sizes of terms that cancel inside a block, for some rows, in units of the residual tolerance.

    On a box the size is ``||W^(1/2) A_i W^(1/2)||`` with ``W = X - lower I``. It is invariant under
    congruence, so that large entries of a row where the point is small allow for nothing. Elsewhere, and on a
    box for equality rows up to the square root of the tolerance, rounding is allowed for: a few units times
    the norms of row and point.
    """
    out = np.zeros(problem.m)
    share = _rounding_share(tolerances)
    equal = problem.equality[index]
    for (b, block, rows), x in zip(problem.blocks(), point, strict=True):
        if rows.empty:
            continue
        reach = problem.upper_norms[b][index] * _size(block, x)
        if block.bounded:
            local = _local_sizes(rows.select(index), block, x)
            loose = np.minimum(share * reach, local / math.sqrt(tolerances.residual) if share else 0.0)
            out[index] += local + np.where(equal, loose, 0.0)
        elif not block.polyhedral:
            out[index] += share * reach
        else:
            out[index] += share * rows.select(index).magnitude_apply(np.abs(x))
    return out


def _local_sizes(rows: Rows, box: BlockSet, x: FloatArray) -> FloatArray:
    """Return ``||W^(1/2) A_i W^(1/2)||`` plus the terms of the lower bound, for every row on a box."""
    inner = x - box.lower * box.identity()
    out, unit = np.zeros(rows.m), np.zeros(rows.m)
    for i in range(rows.m):
        check_deadline("the sizes of the terms")
        unit[i] = 1.0
        a = rows.adjoint(unit)
        unit[i] = 0.0
        product = a @ inner
        out[i] = math.sqrt(max(float(np.sum(product * product.T)), 0.0)) + abs(box.lower * float(np.trace(a)))
    return out


def check_certificate(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances, proof: Outcome | None = None
) -> Outcome:
    """Check the two sides of a Farkas certificate; if there are unbounded PSD blocks, require the rigorous
    proof.

    ``proof`` is the outcome of the rigorous proof of the same multipliers, if it was attempted.
    """
    if not np.isfinite(y).all():
        return refuse("the certificate holds NaN or infinity")
    if not y.any():
        return refuse("the certificate is zero")
    if problem.lmis:
        slacks = problem.slack_form
        return check_certificate(slacks.problem, slacks.start_multipliers(y), tolerances, proof)
    y = y / float(np.max(np.abs(y)))
    wrong = sign_violation(problem, y)
    if wrong.any():
        name = problem.row_name(int(np.argmax(wrong)))
        return refuse(f"the multiplier of row {name} has the sign its missing bound forbids")
    if _has_unbounded_psd(problem):
        return prove_certificate(problem, y, tolerances) if proof is None else proof
    terms = problem.beta_terms(y)
    gap, scale, noise = float(np.sum(terms)), float(np.sum(np.abs(terms))), terms.size * TINY
    most = tolerances.residual * _decisive_size(problem, y, terms)
    for b, block, rows in problem.blocks():
        if rows.empty:
            continue
        g = rows.stable_adjoint(y)
        if not np.isfinite(g).all():
            return refuse("A*y overflows")
        if block.bounded:
            lam = block.spectrum(g)
            gap -= block.support_spectrum(lam)
            scale += block.nuclear_radius * float(np.max(np.abs(lam)))
            # Terms that cancelled when the rows were formed contribute rounding errors.
            noise += block.nuclear_radius * 128.0 * UNIT * float(np.abs(y) @ problem.upper_norms[b])
            continue
        what = f"A*y is {'not zero' if block.free else 'positive'} on block {problem.block_name(b)}"
        excess = _excess(block, rows, y)
        if not excess <= tolerances.rounding:
            return refuse(f"{what} by {excess:.3g} of the size of its terms")
        if not _norm(block.project_spectrum(g.ravel())) <= most:
            return refuse(f"{what} by more than multipliers can excuse that decide nothing but are huge")
    if not gap > tolerances.margin * scale + noise:
        return refuse(f"the two sides of the certificate differ by {gap:.3g}, within the tolerance")
    return Outcome(
        True,
        min(gap / scale, 1.0) if scale > 0.0 else 1.0,
        "the rows contradict each other within the tolerances",
    )


def _decisive_size(problem: FeasibilityProblem, y: FloatArray, terms: FloatArray) -> float:
    """Size of the weighted rows that contribute to ``beta(y)`` or to the support function of a bounded block.

    Other multipliers can be arbitrarily large, so that rounding relative to them would allow for anything.
    """
    bounded = [b for b, block in enumerate(problem.sets) if block.bounded]
    decide = (terms != 0.0) | (problem.block_norms[bounded] > 0.0).any(axis=0)
    return float(np.abs(y[decide]) @ problem.norms[decide])


def _has_unbounded_psd(problem: FeasibilityProblem) -> bool:
    # A PSD block of side one is polyhedral.
    """Whether an unbounded non-polyhedral cone occurs in the rows; weak infeasibility needs one."""
    return any(block.cone and not block.polyhedral and not rows.empty for _, block, rows in problem.blocks())


def _excess(block: BlockSet, rows: Rows, y: FloatArray) -> float:
    """Largest relative violation of ``(A*y)_j <= 0``, or of ``(A*y)_j = 0`` on a Free block, over all
    entries.

    Every entry is compared with its own terms ``sum_i |y_i| |a_ij|``: units are the user's choice, and large
    numbers in one column do not excuse another.
    """
    g, weights = rows.stable_adjoint(y).ravel(), np.abs(y)
    columns = rows.stable_apply(np.ones((1, 1)))[:, None] if block.matrix else rows.columns()
    size = abs(columns).T @ weights
    # Terms that cancelled when the rows were formed contribute rounding errors.
    slip = 8.0 * UNIT * rows.magnitude_adjoint(weights).ravel()
    # The projection onto a cone is the part outside its polar (Moreau).
    excess = np.abs(block.project_spectrum(g)) + slip
    return float(np.max(np.divide(excess, size, out=np.where(excess == 0.0, 0.0, np.inf), where=size > 0.0)))
