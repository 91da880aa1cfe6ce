"""Numeric mode: recomputed, scale-free residuals against named tolerances.

What a residual is compared with decides whether it means anything:

* On a bounded block a row is compared with the size of its terms and of the bound it misses. A small residual
  then says that a small change of the data makes the claim exact, and that is what a numeric verdict says.
* On an unbounded block the terms can be made as large as one likes, and so can the residual they excuse. A
  vector block excuses rounding only, and of that no more than is small at a point of the size that the bounds
  of the problem suggest: next to a point that is large enough, rounding excuses anything. Likewise
  multipliers of rows that decide nothing, because their bounds are zero, excuse nothing by their size.
* On an unbounded PSD block not even that is enough: weakly infeasible problems have points with residuals as
  small as one likes, and weakly feasible ones have such certificates. There the claim must lie in the
  interior by more than rounding can fake, which is the existence argument of the rigorous mode; only rows
  that follow from others are then left out.

A block that is slightly outside its set is charged for that in every row: moving it inside moves the row by
up to that distance times the norm of the row.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import TINY, UNIT, gamma
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.problem.reductions.inequality_pairs import meeting_pairs
from sdpfeas.problem.reductions.redundant_rows import screen
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Dense, NoRows, Rows
from sdpfeas.problem.rows.base import dense_array
from sdpfeas.problem.sets import BlockSet, Free
from sdpfeas.verifier.equality_correction import MAX_DENSE_ROWS
from sdpfeas.verifier.outcome import Outcome, Tolerances, refuse
from sdpfeas.verifier.rigorous import prove_certificate, prove_point

# ------------------------------------------------------------
# Rows and columns that follow from others, up to rounding: a numeric judgement, and nothing else.

#: Rows (or columns) that differ from a combination of others by no more than this share of the terms count
#: as redundant up to rounding.
REDUNDANT = 1e-13


def without_redundant_rows(problem: FeasibilityProblem) -> FeasibilityProblem | None:
    """Return the problem without equality rows that follow from others; None if there are none.

    A numeric judgement, up to rounding: the row, and its bound, must agree with a combination of rows that
    are kept (and of prescribed traces) to within a share of 1e-13 of the terms.
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
    """Whether row ``k`` and its bound are a combination of the kept rows up to rounding."""
    weights = np.zeros(bound.size)
    weights[k] = 1.0
    for _ in range(3):
        # Solving with the Gram matrix squares the condition; refining makes up for it.
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
        need("a look for redundant rows", products=4.0 * float(kept.size) ** 3)
        step = scipy.linalg.lstsq(gram[np.ix_(kept, kept)], off, check_finite=False)[0]
        if not np.isfinite(step).all():
            return False
        largest = max(float(np.max(np.abs(apart))) for _, apart in differences)
        terms = float(np.sum(np.abs(weights)))
        if largest <= REDUNDANT * terms and abs(right) <= REDUNDANT * moved < math.inf:
            return True
        weights[kept] -= step
    return False


def without_redundant_columns(problem: FeasibilityProblem) -> FeasibilityProblem | None:
    """Return the problem without columns of Free blocks that are combinations of others; None if all are
    needed.

    A numeric judgement, up to rounding, like that on rows.
    """
    own_rows = [(b, rows) for b, block, rows in problem.blocks() if block.free and not rows.empty]
    count = sum(problem.sets[b].n for b, _ in own_rows)
    if not 0 < problem.m * count <= MAX_DENSE_ROWS**2:
        return None
    need("a look for redundant columns", products=2.0 * problem.m * count**2)
    free = [(b, dense_array(rows.columns())) for b, rows in own_rows]
    columns = np.hstack([part for _, part in free]) * power_of_two(problem.norms)[:, None]
    columns = columns * power_of_two(np.linalg.norm(columns, axis=0))
    if not np.isfinite(columns).all():
        return None
    _, triangle, pivots = scipy.linalg.qr(columns, mode="economic", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int(np.sum(diagonal > REDUNDANT * max(float(np.max(diagonal, initial=0.0)), TINY)))
    kept, rest = np.sort(pivots[:rank]), pivots[rank:]
    keep = np.ones(columns.shape[1], dtype=bool)
    for k in rest:
        share = np.linalg.lstsq(columns[:, kept], columns[:, k], rcond=None)[0] if rank else np.zeros(0)
        apart = float(np.max(np.abs(columns[:, k] - columns[:, kept] @ share), initial=0.0))
        keep[k] = not apart <= REDUNDANT * (1.0 + float(np.sum(np.abs(share))))
    if keep.all():
        return None
    sets, rows_out, start = list(problem.sets), list(problem.rows), 0
    for b, part in free:
        own = np.flatnonzero(keep[start : start + part.shape[1]])
        start += part.shape[1]
        sets[b] = Free(max(own.size, 1))
        rows_out[b] = Dense(part[:, own]) if own.size else NoRows(problem.m, 1, matrix=False)
    return FeasibilityProblem(sets, rows_out, problem.lower, problem.upper)


def check_point(
    problem: FeasibilityProblem, point: Point, tolerances: Tolerances, proof: Outcome | None = None
) -> Outcome:
    """Check the residuals of a point, and where there are unbounded PSD blocks its depth.

    ``problem``: the problem, in its own units. ``tolerances``: ``residual``, ``rounding`` and
    ``membership`` are used. ``proof``: what the rigorous proof of the same point came to, if it was tried.
    """
    if not all(np.isfinite(x).all() for x in point):
        return refuse("the point holds NaN or infinity")
    if problem.lmis:
        # With slacks all that is said above holds for LMIs too.
        slacks = problem.slack_form
        return check_point(slacks.problem, slacks.start_point(point), tolerances, proof)
    value, excused = np.zeros(problem.m), _sizes_of_bounds(problem)
    drift, noise = np.zeros(problem.m), np.zeros(problem.m)
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
            part = rows.stable_apply(x)
            value += part
            noise += gamma(rows.depths[0]) * _norm(x) * problem.upper_norms[b]
            if not block.polyhedral:
                excused = excused + np.abs(part)
    if not np.isfinite(value).all():
        return refuse("the row values overflow")
    # A bound a line: what one allows does not excuse what is missed of the other.
    violation = np.array([problem.lower - value, value - problem.upper]) + drift
    bad = ~(violation <= tolerances.residual * excused)
    if not (bad.any() and _hopeless(problem, point, bad, violation, tolerances)):
        # Where rounding in the values might matter it is bounded, row by row.
        doubtful = _rows_of(~(violation + noise <= tolerances.residual * excused))
        violation[:, doubtful] += _rounding(problem, point, doubtful)
        bad = ~(violation <= tolerances.residual * excused)
        if bad.any():
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
    """Magnitudes of the lower and of the upper bounds, one line each; zero where there is none."""
    bounds = np.array([problem.lower, problem.upper])
    return np.where(np.isfinite(bounds), np.abs(bounds), 0.0)


def _natural_sizes(problem: FeasibilityProblem) -> FloatArray:
    """Sizes that the values of rows would have at a point of the size that bounds and sets suggest.

    Infinite where nothing suggests any: then all points may be scaled.
    """
    norms = problem.norms
    told = (norms > 0.0) & (largest_bound(problem) > 0.0)
    reach = float(np.max(largest_bound(problem)[told] / norms[told], initial=0.0))
    reach = max([reach, *(block.spectral_radius for block in problem.sets if block.bounded)])
    return norms * reach if reach > 0.0 else np.full(problem.m, np.inf)


def _rows_of(marked: np.ndarray) -> np.ndarray:
    """Rows either of whose bounds is marked."""
    return np.flatnonzero(marked.any(axis=0))


def _rounding(problem: FeasibilityProblem, point: Point, index: np.ndarray) -> FloatArray:
    """Bound of the rounding errors in the values of some rows."""
    out = np.zeros(index.size)
    if index.size:
        for rows, x in zip(problem.rows, point, strict=True):
            out += rows.select(index).enclose_apply(x)[1]
    return out


def _size(block: BlockSet, x: FloatArray) -> float:
    size = _norm(x)
    return max(size, block.spectral_radius) if block.bounded else size


def _norm(x: FloatArray) -> float:
    """Frobenius norm, whatever the scale."""
    largest = float(np.max(np.abs(x), initial=0.0))
    return largest * float(np.linalg.norm(x / largest)) if 0.0 < largest < math.inf else largest


def _hopeless(
    problem: FeasibilityProblem,
    point: Point,
    bad: np.ndarray,
    violation: FloatArray,
    tolerances: Tolerances,
) -> bool:
    """Whether some bound is missed by more than ``_cancelled`` could ever excuse."""
    most, slight = _sizes_of_bounds(problem), _slight(tolerances)
    for b, (block, x) in enumerate(zip(problem.sets, point, strict=True)):
        reach = problem.upper_norms[b] * _size(block, x) * (4.0 + math.sqrt(block.n))
        most = most + (reach if block.bounded else slight * reach)
    return bool(np.any(violation[bad] > tolerances.residual * most[bad]))


def _slight(tolerances: Tolerances) -> float:
    """Rounding in units of the residual tolerance."""
    return tolerances.rounding / tolerances.residual if tolerances.residual > 0.0 else 0.0


def _cancelled(
    problem: FeasibilityProblem, point: Point, index: np.ndarray, tolerances: Tolerances
) -> FloatArray:
    """Terms that cancelled inside a block, for some rows, in units of the residual tolerance.

    On a box these are measured as ``||W^(1/2) A_i W^(1/2)||`` with W the block less its lower bound: the same
    in any coordinates, congruent ones too, so that large entries of a row that the point avoids excuse
    nothing. Elsewhere, and for equality rows up to the square root of the tolerance on a box, rounding is
    excused: a few units of it times the norm of the row times that of the point.
    """
    out = np.zeros(problem.m)
    slight = _slight(tolerances)
    equal = problem.equality[index]
    for (b, block, rows), x in zip(problem.blocks(), point, strict=True):
        if rows.empty:
            continue
        reach = problem.upper_norms[b][index] * _size(block, x)
        if block.bounded:
            local = _local_sizes(rows.select(index), block, x)
            loose = np.minimum(slight * reach, local / math.sqrt(tolerances.residual) if slight else 0.0)
            out[index] += local + np.where(equal, loose, 0.0)
        elif not block.polyhedral:
            out[index] += slight * reach
        else:
            out[index] += slight * rows.select(index).magnitude_apply(np.abs(x))
    return out


def _local_sizes(rows: Rows, box: BlockSet, x: FloatArray) -> FloatArray:
    inner = x - box.lower * box.identity()
    out, unit = np.zeros(rows.m), np.zeros(rows.m)
    for i in range(rows.m):
        need("the sizes of the terms", *rows.work)
        unit[i] = 1.0
        a = rows.adjoint(unit)
        unit[i] = 0.0
        product = a @ inner
        out[i] = math.sqrt(max(float(np.sum(product * product.T)), 0.0)) + abs(box.lower * float(np.trace(a)))
    return out


def check_certificate(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances, proof: Outcome | None = None
) -> Outcome:
    """Check the two sides of a certificate, and where there are unbounded PSD blocks its depth.

    ``problem``: the problem, in its own units. ``tolerances``: ``residual``, ``rounding`` and ``margin``
    are used. ``proof``: what the rigorous proof of the same multipliers came to, if it was tried.
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
        outcome = prove_certificate(problem, y, tolerances) if proof is None else proof
        if not outcome.proven and all(
            _excess(block, rows, y) <= tolerances.rounding
            for _, block, rows in problem.blocks()
            if block.free and not rows.empty
        ):
            reduced = without_redundant_columns(problem)
            if reduced is not None:
                outcome = prove_certificate(reduced, y, tolerances)
        return outcome
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
            # Terms that cancelled when the rows were formed count for rounding too.
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
    """Size of the weighted rows that decide: with a bound that counts, or a part in a bounded block.

    Others may have multipliers as large as one likes, next to which rounding excuses anything.
    """
    bounded = [b for b, block in enumerate(problem.sets) if block.bounded]
    decide = (terms != 0.0) | (problem.block_norms[bounded] > 0.0).any(axis=0)
    return float(np.abs(y[decide]) @ problem.norms[decide])


def _has_unbounded_psd(problem: FeasibilityProblem) -> bool:
    # A PSD block of side one is a non-negative number: no weak infeasibility there.
    return any(block.cone and not block.polyhedral and not rows.empty for _, block, rows in problem.blocks())


def _excess(block: BlockSet, rows: Rows, y: FloatArray) -> float:
    """How positive ``A*y`` is at worst, or on a Free block how far from zero, relative to the terms.

    Entry by entry, each next to its own terms ``sum_i |y_i| |a_ij|``: units are the user's choice, and a
    column of large numbers excuses nothing in another.
    """
    g, weights = rows.stable_adjoint(y).ravel(), np.abs(y)
    columns = rows.stable_apply(np.ones((1, 1)))[:, None] if block.matrix else rows.columns()
    size = abs(columns).T @ weights
    # Terms that cancelled when the rows were formed count for rounding too.
    slip = 8.0 * UNIT * rows.magnitude_adjoint(weights).ravel()
    # What is not in the polar of a cone is the projection onto the cone.
    excess = np.abs(block.project_spectrum(g)) + slip
    return float(np.max(np.divide(excess, size, out=np.where(excess == 0.0, 0.0, np.inf), where=size > 0.0)))
