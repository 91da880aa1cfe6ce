"""Repairs: small changes that may turn a point or dual multipliers into provable evidence.

A repaired claim is verified like any other, so repairs need not be rigorous. Points (:func:`repaired_points`)
are projected onto their sets, corrected onto the equality rows by least-norm steps, and moved towards an
interior point. Multipliers (:func:`repaired_multipliers`) are corrected so that ``A*y`` vanishes on Free
blocks, and shifted along a definite combination of rows. Every repair comes with a description.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, lsmr

from sdpfeas.errors import LimitError
from sdpfeas.numerics.limits import check_deadline, time_left
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import UNIT
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.equality_correction import (
    MAX_DENSE_ROWS,
    CorrectionSystem,
    correct_point,
)
from sdpfeas.verifier.multipliers import Multipliers
from sdpfeas.verifier.outcome import Tolerances
from sdpfeas.verifier.point_metric import Movable, metric_system, only_stored

#: Weights of the interior point in convex combinations with the given point.
INTERIOR_WEIGHTS = (1e-9, 1e-7, 1e-5, 1e-3, 1e-2, 0.1, 0.5, 1.0)

#: Largest number of such combinations that are verified; each costs a proof.
MAX_COMBINATIONS = 2

#: Vector blocks with more entries than this are not re-optimised.
MAX_LP_COLUMNS = 2000

#: A block closer to its set than this, relative to its size and side, is a member up to rounding.
ROUNDING = 1e-14

#: A relative slack above this is enough for a proof.
ENOUGH_SLACK = 1e-9


def repaired_points(problem: FeasibilityProblem, point: Point) -> Iterator[tuple[Point, tuple[str, ...]]]:
    """Yield points near the given one that are more likely to be provably feasible, with the changes made."""
    if not all(np.isfinite(x).all() for x in point):
        return
    done: tuple[str, ...] = ()
    inside = tuple(_into(block, x) for block, x in zip(problem.sets, point, strict=True))
    if any(a is not b for a, b in zip(inside, point, strict=True)):
        done += ("moved the blocks onto their sets",)
    system = _plain_system(problem, inside)
    if system is not None:
        moved = correct_point(problem, system, inside)
        if _finite(moved):
            inside = moved
            done += ("moved the point onto the equality rows",)
    value = problem.apply(inside)
    fitted = _fit_vectors(problem, inside, value)
    if fitted is not None:
        inside, value = fitted
        done += ("chose the vector blocks anew for the largest slack",)
    if done and _finite(inside):
        yield inside, done
    if system is not None:
        stretched = _in_own_metric(problem, point)
        if stretched is not None:
            yield stretched, ("moved the point onto the equality rows, in its local metric",)
    # An interior point of the sets may violate the LMIs.
    centre = None if problem.lmis else _centre(problem, system, inside)
    if centre is None or not _finite((*inside, *centre)):
        return
    for weight in _interior_weights(problem, (inside, value), (centre, problem.apply(centre))):
        mixed = tuple((1.0 - weight) * x + weight * c for x, c in zip(inside, centre, strict=True))
        yield mixed, (*done, f"moved the point towards an interior point (by {weight:g})")


def moved_onto_rows(problem: FeasibilityProblem, point: Point) -> Point | None:
    """Return a nearby point that satisfies the equality rows up to rounding; None if none is found easily."""
    if not _finite(point):
        return None
    if not problem.equality.any():
        return point
    system = _plain_system(problem, point)
    moved = None if system is None else correct_point(problem, system, point)
    return moved if moved is not None and _finite(moved) else None


def _finite(arrays: tuple[FloatArray, ...]) -> bool:
    return all(np.isfinite(x).all() for x in arrays)


def _into(block: BlockSet, x: FloatArray) -> FloatArray:
    """Return the projection onto the set, or ``x`` itself if that changes it by no more than rounding."""
    if block.entrywise:
        return x if np.array_equal(projected := block.project(x), x) else projected
    lam, frame = block.decompose(x)
    target = block.project_spectrum(lam)
    size = max(float(np.max(np.abs(lam))), float(np.max(np.abs(target))))
    if float(np.max(np.abs(lam - target))) <= ROUNDING * block.n * size:
        return x
    return block.compose(frame, target)


def _plain_system(problem: FeasibilityProblem, point: Point) -> CorrectionSystem | None:
    """Return a correction system with every block weighted by its size; nothing is proved about it."""
    index = problem.equality_rows
    if index.size == 0:
        return None
    parts = []
    for (b, block, rows), x in zip(problem.blocks(), point, strict=True):
        if rows.empty or not np.any(problem.block_norms[b][index] > 0.0):
            continue
        size = float(np.max(np.abs(x), initial=0.0))
        size = size if size > 0.0 else 1.0
        weight: float | FloatArray = size
        if block.bounded:
            weight = max(block.upper - block.lower, np.finfo(float).tiny)
        elif block.entrywise:
            weight = np.full(block.n, size) if block.free else np.maximum(x, 1e-3 * size)
        parts.append(Movable(b, rows.select(index), weight, block.trace))
    if not parts or (index.size > MAX_DENSE_ROWS and not all(only_stored(part.rows) for part in parts)):
        return None
    try:
        system = CorrectionSystem(parts, index.size)
        return system if system.usable else None
    except LimitError:
        return None


def _in_own_metric(problem: FeasibilityProblem, point: Point) -> Point | None:
    """Correct an interior point onto the equality rows in its local metric; None on failure."""
    try:
        system = metric_system(problem, point)
        if system is None or not system.usable:
            return None
    except LimitError:
        return None  # other repairs may still fit into the time limit
    moved = correct_point(problem, system, point)
    return moved if _finite(moved) else None


def _centre(problem: FeasibilityProblem, system: CorrectionSystem | None, point: Point) -> Point | None:
    """Return an interior point of the sets that satisfies the equality rows; None if none is found."""
    start = []
    for block, x in zip(problem.sets, point, strict=True):
        if block.cone:
            mean = block.trace_of(x) / block.degree
            start.append((mean if mean > 0.0 else 1.0) * block.identity())
        else:
            start.append(block.interior_point() if block.bounded else x)
    centre: Point = tuple(start)
    if not _finite(centre):
        return None
    if system is not None:
        centre = correct_point(problem, system, centre)
        if not _finite(centre):
            return None
    fitted = _fit_vectors(problem, centre, problem.apply(centre))
    if fitted is not None:
        centre = fitted[0]
    depths = [_depth(block, c) for block, c in zip(problem.sets, centre, strict=True)]
    return centre if min(depths) > 0.0 else None


def _depth(block: BlockSet, x: FloatArray) -> float:
    """Distance to the boundary of a set; infinite for a set with a single member."""
    if block.lower == block.upper:
        return np.inf  # a single member: there is no interior
    return block.depth(x)


def _slack(problem: FeasibilityProblem, value: FloatArray, size: FloatArray) -> float:
    """Least slack of the inequality rows, relative to their sizes; infinity if there are none."""
    left = np.minimum(value - problem.lower, problem.upper - value)[~problem.equality]
    return float(np.min(left / size[~problem.equality], initial=np.inf))


def _interior_weights(
    problem: FeasibilityProblem, inside: tuple[Point, FloatArray], centre: tuple[Point, FloatArray]
) -> list[float]:
    """Return the weights of the interior point that look strictly feasible, largest slack first."""
    (start, first), (end, last) = inside, centre
    size = np.maximum(np.abs(first) + np.abs(last) + largest_bound(problem), np.finfo(float).tiny)
    depths = [
        (_depth(block, x), _depth(block, c))
        for block, x, c in zip(problem.sets, start, end, strict=True)
        if not block.free
    ]
    found = []
    for weight in INTERIOR_WEIGHTS:
        slack = _slack(problem, (1.0 - weight) * first + weight * last, size)
        interior = all((1.0 - weight) * near + weight * far > 0.0 for near, far in depths)
        if slack > 0.0 and interior:
            found.append((min(slack, weight), weight))
    return [weight for _, weight in sorted(found, reverse=True)[:MAX_COMBINATIONS]]


def _fit_vectors(
    problem: FeasibilityProblem, point: Point, value: FloatArray
) -> tuple[Point, FloatArray] | None:
    """Maximise the smallest relative slack over the vector blocks, with fixed matrix blocks: a small LP.

    Returns the point with its row values; None if there is nothing to choose or to gain.
    """
    vectors = {b: rows for b, block, rows in problem.blocks() if block.entrywise and not rows.empty}
    blocks = list(vectors)
    columns = sum(problem.sets[b].n for b in blocks)
    if not 0 < columns <= MAX_LP_COLUMNS or not np.isfinite(value).all():
        return None
    touched = np.any(problem.block_norms[blocks] > 0.0, axis=0)
    if np.any(touched & problem.equality):
        return None
    index = np.flatnonzero(touched)
    if index.size == 0:
        return None
    parts = [rows.columns() for rows in vectors.values()]
    matrix = sp.hstack([sp.csr_array(part)[index] for part in parts], format="csr")
    current = np.concatenate([point[b] for b in blocks])
    fixed = value[index] - matrix @ current
    size = np.abs(fixed) + abs(matrix) @ np.abs(current) + largest_bound(problem)[index]
    size = np.where(size > 0.0, size, 1.0)
    low, high = problem.lower[index], problem.upper[index]
    slack = np.min(np.minimum(value[index] - low, high - value[index]) / size)
    floor = np.concatenate([np.full(problem.sets[b].n, problem.sets[b].lower) for b in blocks])
    if slack > ENOUGH_SLACK or not np.isfinite(slack):
        return None
    chosen = _best_vector(matrix, current, fixed, size, (low, high), floor)
    if chosen is None:
        return None
    out = list(point)
    start = 0
    for b in blocks:
        out[b] = chosen[start : start + problem.sets[b].n]
        start += problem.sets[b].n
    moved = np.array(value)
    moved[index] = fixed + matrix @ chosen
    return tuple(out), moved


def _best_vector(
    matrix: sp.csr_array,
    current: FloatArray,
    fixed: FloatArray,
    size: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
    floor: FloatArray,
) -> FloatArray | None:
    """Solve the LP of :func:`_fit_vectors` with HiGHS."""
    unit = np.where(np.abs(current) > 0.0, np.abs(current), 1.0)
    scaled = sp.diags_array(1.0 / size) @ matrix @ sp.diags_array(unit)
    parts, limits = [], []
    for sign, bound in zip((-1.0, 1.0), bounds, strict=True):
        has = np.isfinite(bound)
        parts.append(sp.hstack([sign * scaled[has], np.ones((int(has.sum()), 1))]))
        limits.append((sign * (bound - fixed) / size)[has])
    table, right = sp.csr_array(sp.vstack(parts)), np.concatenate(limits)
    if not (np.isfinite(table.data).all() and np.isfinite(right).all()):
        return None
    limits_of = [(lo, None) for lo in floor] + [(None, 1.0)]
    objective = np.append(np.zeros(floor.size), -1.0)
    from scipy.optimize import linprog  # slow to import

    check_deadline("a linear program")
    left = time_left()
    options = {} if math.isinf(left) else {"time_limit": 0.5 * left}
    answer = linprog(objective, table, right, bounds=limits_of, method="highs", options=options)
    if answer.x is None or not np.isfinite(answer.x).all():
        return None
    return np.maximum(answer.x[:-1] * unit, floor)


def repaired_certificates(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances
) -> Iterator[tuple[FloatArray, tuple[str, ...]]]:
    """Yield certificates near the given one that are more likely to be provable, with the changes made."""
    if not np.isfinite(y).all() or not y.any():
        return
    done: tuple[str, ...] = ()
    y = y / float(np.max(np.abs(y)))
    wrong = sign_violation(problem, y)
    if wrong.any():
        weights = np.abs(y) * problem.norms
        share = wrong * problem.norms > tolerances.sign * np.max(weights)
        if np.any(share):
            return
        y = np.where(wrong > 0.0, 0.0, y)
        done += ("set multipliers of the wrong sign to zero",)
    if Multipliers(problem, y).residual.any():
        done += ("made A*y vanish on the free blocks",)
        for moved in Multipliers(problem, y).corrected():
            if not sign_violation(problem, moved).any():
                yield from _negative_enough(problem, moved, done)
    else:
        yield from _negative_enough(problem, y, done)


def _negative_enough(
    problem: FeasibilityProblem, y: FloatArray, done: tuple[str, ...]
) -> Iterator[tuple[FloatArray, tuple[str, ...]]]:
    """Yield multipliers changed so that ``A*y`` is provably non-positive on the cones."""
    trimmed = _trim_nonneg(problem, y)
    if trimmed is not None:
        y = trimmed
        done += ("reduced multipliers that make A*y positive on a non-negative block",)
    if not float(np.sum(problem.beta_terms(y))) > _box_supports(problem, y):
        return  # no small change can reverse the inequality of the two sides
    if done:
        yield y, done
    direction = _definite_direction(problem)
    if direction is None:
        return
    for push in (1.0, 1e2, 1e4):
        shifted = _shift(problem, y, direction, push)
        if shifted is not None:
            yield shifted, (*done, "shifted the multipliers along a definite combination of rows")


def _box_supports(problem: FeasibilityProblem, y: FloatArray) -> float:
    """Sum of the support functions of the bounded blocks at ``A*y``."""
    return sum(
        block.support(rows.adjoint(y))
        for _, block, rows in problem.blocks()
        if block.bounded and not rows.empty
    )


def _trim_nonneg(problem: FeasibilityProblem, y: FloatArray) -> FloatArray | None:
    """Shrink multipliers that cause positive entries of ``A*y`` on Nonneg blocks; None if there are none."""
    changed = False
    for _, block, rows in problem.blocks():
        if not (block.entrywise and block.cone) or rows.empty:
            continue
        near = np.flatnonzero(rows.adjoint(y) > -1e-13 * (np.abs(y) @ np.asarray(rows.norms())))
        if near.size == 0:
            continue
        columns = sp.csc_array(rows.columns())
        for j in near:
            start, stop = columns.indptr[j], columns.indptr[j + 1]
            index = columns.indices[start:stop]
            terms = columns.data[start:stop] * y[index]
            pushing = terms > 0.0
            positive, negative = float(terms[pushing].sum()), -float(terms[~pushing].sum())
            if not positive > 0.0:
                continue
            # A few rounding units below balance, so that the sum is provably not positive.
            target = negative * (1.0 - 1e-13 * (index.size + 4))
            if target < positive:
                y = np.array(y)
                y[index[pushing]] *= target / positive
                changed = True
    return y if changed else None


def _definite_direction(problem: FeasibilityProblem) -> FloatArray | None:
    """Return ``w`` with ``A*w`` definite on PSD blocks, positive on Nonneg, zero on Free blocks; None on
    failure.

    ``y - s w`` keeps allowed signs for every ``s > 0``: ``w >= 0`` for a row without a lower bound, ``w <=
    0`` for one without an upper bound. Such a ``w`` proves that the feasible set is bounded. Least squares
    (LSMR) on the equation ``A*w = I``.
    """
    parts = [(block, rows) for _, block, rows in problem.blocks() if not rows.empty and not block.bounded]
    if all(block.entrywise for block, _ in parts):
        return None
    below, above = np.isfinite(problem.lower), np.isfinite(problem.upper)
    usable = (below | above) & (problem.norms > 0.0) & np.isfinite(problem.norms)
    target = np.concatenate([block.interior_point().ravel() for block, _ in parts])
    splits = np.cumsum([block.entries for block, _ in parts])[:-1]
    for _ in range(4):
        if not usable.any():
            return None
        scale = np.where(usable, 1.0 / np.where(usable, problem.norms, 1.0), 0.0)

        def adjoint(w: FloatArray, scale: FloatArray = scale) -> FloatArray:
            check_deadline("a definite combination of the rows")
            return np.concatenate([rows.adjoint(scale * w.ravel()).ravel() for _, rows in parts])

        def apply(x: FloatArray, scale: FloatArray = scale) -> FloatArray:
            pieces = np.split(np.asarray(x).ravel(), splits)
            total = sum(
                rows.apply(p.reshape(block.shape)) for (block, rows), p in zip(parts, pieces, strict=True)
            )
            return scale * np.asarray(total)

        operator = LinearOperator((target.size, problem.m), matvec=adjoint, rmatvec=apply, dtype=np.float64)
        w = scale * lsmr(operator, target, atol=1e-13, btol=1e-13, maxiter=200)[0]
        if not np.isfinite(w).all():
            return None
        wrong = (~below & (w < 0.0)) | (~above & (w > 0.0))
        if not wrong.any():
            return w if _is_definite(parts, w) else None
        # Drop the rows with the wrong sign and solve again.
        usable &= ~wrong
    return None


def _is_definite(parts: list[tuple[BlockSet, Rows]], w: FloatArray) -> bool:
    """Whether ``A*w`` is definite on all cones and vanishes on Free blocks, up to rounding."""
    for block, rows in parts:
        g = rows.adjoint(w)
        least = 0.0 if block.entrywise else 1e-8 * np.max(np.abs(g))
        if block.cone and not block.depth(g) > least:
            return False
        if block.free and np.any(np.abs(g) > 1e-10 * (np.abs(w) @ rows.norms())):
            return False
    return True


def _shift(problem: FeasibilityProblem, y: FloatArray, w: FloatArray, push: float) -> FloatArray | None:
    """Return ``y - s w`` with the least ``s`` that makes ``A*y`` negative by more than rounding; None on
    failure.
    """
    step = 0.0
    for b, block, rows in problem.blocks():
        if rows.empty or not block.cone:
            continue
        top = float(np.max(block.spectrum(rows.adjoint(y))))
        bottom = float(np.min(block.spectrum(rows.adjoint(w))))
        rounding = 1e-13 * block.n * float(np.abs(y) @ problem.block_norms[b])
        if top > -rounding:
            step = max(step, (top + push * rounding) / bottom)
    shifted = y - step * w
    if sign_violation(problem, shifted).any():
        return None
    return shifted if float(np.sum(problem.beta_terms(shifted))) > _box_supports(problem, shifted) else None


def repaired_multipliers(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances
) -> Iterator[tuple[FloatArray, tuple[str, ...]]]:
    """Yield repaired multipliers; with LMIs first those corrected on the Free blocks, then those of the slack
    form.
    """
    if not problem.lmis:
        yield from repaired_certificates(problem, y, tolerances)
        return
    if not np.isfinite(y).all() or not y.any():
        return
    y = y / float(np.max(np.abs(y)))
    if not sign_violation(problem, y).any():
        for moved in Multipliers(problem, y).corrected():
            if not sign_violation(problem, moved).any():
                yield moved, ("made A*y vanish on the free blocks",)
    slacks = problem.slack_form
    if slacks.problem.m <= MAX_DENSE_ROWS:
        for z, changes in repaired_certificates(slacks.problem, slacks.start_multipliers(y), tolerances):
            yield slacks.multipliers(z), changes


def admissible_multipliers(problem: FeasibilityProblem, y: FloatArray) -> FloatArray:
    """Set multipliers of rows with a wrong sign to zero, and move those of LMIs into the dual cones, by more
    than the rounding errors of a proof.
    """
    if not np.isfinite(y).all():
        return y
    rows, own = problem.split(y)
    parts = [np.where(sign_violation(problem, y) > 0.0, 0.0, rows)]
    for lmi, part in zip(problem.lmis, own, strict=True):
        if lmi.set.cone:
            inside = 8.0 * (lmi.set.n + 4) ** 2 * UNIT * float(np.max(np.abs(part), initial=0.0))
            moved = lmi.set.project(part) + (0.0 if lmi.set.entrywise else inside) * lmi.set.identity()
        parts.append((moved if lmi.set.cone else part).reshape(-1))
    return np.concatenate(parts)
