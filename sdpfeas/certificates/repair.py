"""Repairs: small changes to a claim that may turn it into evidence.

A repaired claim is a new claim and is checked like any other, so nothing here has to be right: it only
has to help. Each repair says in words what it did.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.sparse.linalg import LinearOperator, lsmr

from sdpfeas.certificates.equality import (
    MAX_DENSE_ROWS,
    CorrectionSystem,
    FreeColumns,
    Movable,
    vector_columns,
)
from sdpfeas.linalg import FloatArray, eigvalsh
from sdpfeas.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.sets import PSD, Free, Nonneg, SpectralBox
from sdpfeas.tolerances import Tolerances

__all__ = ["repaired_certificates", "repaired_points"]

#: How far to pull a point towards the interior, from hardly to halfway.
PULLS = (1e-9, 1e-7, 1e-5, 1e-3, 1e-2, 0.1, 0.5, 1.0)

#: How many pulled points are handed to the prover at most; each costs a proof.
MOST_PULLED = 3

#: Vector blocks with more entries than this are not re-optimised.
MAX_LP_COLUMNS = 2000


def repaired_points(problem: FeasibilityProblem, point: Point) -> Iterator[tuple[Point, tuple[str, ...]]]:
    """Points near the given one that are more likely to be provably feasible, with what was done.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    point : tuple of ndarray
        A point that could not be proved as it is.
    """
    if not all(np.isfinite(x).all() for x in point):
        return
    done: tuple[str, ...] = ()
    inside = tuple(
        block.project(x) if block.distance(x) > 0.0 else x
        for block, x in zip(problem.sets, point, strict=True)
    )
    if any(a is not b for a, b in zip(inside, point, strict=True)):
        done += ("moved the blocks onto their sets",)
    system = _plain_system(problem, inside)
    if system is not None:
        inside = _onto_rows(problem, system, inside)
        done += ("moved the point onto the equality rows",)
    fitted = _fit_vectors(problem, inside)
    if fitted is not None:
        inside = fitted
        done += ("chose the vector blocks anew for the largest slack",)
    if done:
        yield inside, done
    centre = _centre(problem, system, inside)
    if centre is None:
        return
    yielded = 0
    for pull in PULLS:
        pulled = tuple((1.0 - pull) * x + pull * c for x, c in zip(inside, centre, strict=True))
        refitted = _fit_vectors(problem, pulled)
        pulled = pulled if refitted is None else refitted
        if _looks_feasible(problem, pulled):
            yield pulled, (*done, f"pulled the point towards the interior (by {pull:g})")
            yielded += 1
            if yielded == MOST_PULLED:
                return


def _plain_system(problem: FeasibilityProblem, point: Point) -> CorrectionSystem | None:
    """Correct all blocks in proportion to their size; nothing is proved about it."""
    index = np.flatnonzero(problem.equality)
    if not 0 < index.size <= MAX_DENSE_ROWS:
        return None
    parts = []
    for b, (block, rows, x) in enumerate(zip(problem.sets, problem.rows, point, strict=True)):
        if rows is None or not np.any(problem.block_norms[b][index] > 0.0):
            continue
        size = float(np.max(np.abs(x), initial=0.0))
        size = size if size > 0.0 else 1.0
        trace = None
        weight: float | FloatArray = size
        if isinstance(block, SpectralBox):
            weight, trace = max(block.upper - block.lower, np.finfo(float).tiny), block.trace
        elif isinstance(block, Nonneg):
            weight = np.maximum(x, 1e-3 * size)
        elif isinstance(block, Free):
            weight = np.full(block.n, size)
        parts.append(Movable(b, rows.select(index), weight, trace))
    return CorrectionSystem(parts, index.size) if parts else None


def _onto_rows(problem: FeasibilityProblem, system: CorrectionSystem, point: Point) -> Point:
    for _ in range(2):
        residual = (problem.lower - problem.apply(point))[problem.equality]
        point = system.correct(point, residual)
    return point


def _centre(problem: FeasibilityProblem, system: CorrectionSystem | None, point: Point) -> Point | None:
    """Return a point in the interior of every set that meets the equality rows, if one is easily found."""
    start = []
    for block, x in zip(problem.sets, point, strict=True):
        if isinstance(block, PSD):
            mean = float(np.trace(x)) / block.n
            start.append((mean if mean > 0.0 else 1.0) * np.eye(block.n))
        elif isinstance(block, Nonneg):
            mean = float(np.mean(x))
            start.append(np.full(block.n, mean if mean > 0.0 else 1.0))
        elif isinstance(block, SpectralBox):
            start.append(block.interior_point())
        else:
            start.append(x)
    centre: Point = tuple(start)
    if system is not None:
        centre = _onto_rows(problem, system, centre)
    depths = [block.depth(c) for block, c in zip(problem.sets, centre, strict=True)]
    return centre if min(depths) > 0.0 else None


def _looks_feasible(problem: FeasibilityProblem, point: Point) -> bool:
    value = problem.apply(point)
    open_rows = ~problem.equality
    if np.any((value < problem.lower)[open_rows]) or np.any((value > problem.upper)[open_rows]):
        return False
    return all(
        isinstance(block, SpectralBox) or block.depth(x) >= 0.0
        for block, x in zip(problem.sets, point, strict=True)
    )


def _fit_vectors(problem: FeasibilityProblem, point: Point) -> Point | None:
    """Choose the vector blocks for the largest relative slack, the matrix blocks fixed: a small LP."""
    vectors = {
        b: rows
        for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True))
        if isinstance(block, (Nonneg, Free)) and rows is not None
    }
    blocks = list(vectors)
    columns = sum(problem.sets[b].n for b in blocks)
    if not 0 < columns <= MAX_LP_COLUMNS:
        return None
    touched = np.any(problem.block_norms[blocks] > 0.0, axis=0)
    if np.any(touched & problem.equality):
        return None
    index = np.flatnonzero(touched)
    if index.size == 0:
        return None
    matrix = sp.hstack([sp.csr_array(vector_columns(r))[index] for r in vectors.values()], format="csr")
    current = np.concatenate([point[b] for b in blocks])
    fixed = problem.apply(point)[index] - matrix @ current
    size = np.abs(fixed) + abs(matrix) @ np.abs(current) + largest_bound(problem)[index]
    size = np.where(size > 0.0, size, 1.0)
    unit = np.where(np.abs(current) > 0.0, np.abs(current), 1.0)
    scaled = sp.diags_array(1.0 / size) @ matrix @ sp.diags_array(unit)
    parts, limits = [], []
    for sign, bound in ((-1.0, problem.lower[index]), (1.0, problem.upper[index])):
        has = np.isfinite(bound)
        parts.append(sp.hstack([sign * scaled[has], np.ones((int(has.sum()), 1))]))
        limits.append((sign * (bound - fixed) / size)[has])
    least = {True: 0.0, False: -np.inf}
    low = np.concatenate(
        [np.full(problem.sets[b].n, least[isinstance(problem.sets[b], Nonneg)]) for b in blocks]
    )
    bounds = [(lo, None) for lo in low] + [(None, 1.0)]
    objective = np.zeros(columns + 1)
    objective[-1] = -1.0
    answer = linprog(objective, sp.vstack(parts), np.concatenate(limits), bounds=bounds, method="highs")
    if answer.x is None or not np.isfinite(answer.x).all():
        return None
    values = np.maximum(answer.x[:-1] * unit, low)
    out = list(point)
    start = 0
    for b in blocks:
        out[b] = values[start : start + problem.sets[b].n]
        start += problem.sets[b].n
    return tuple(out)


def repaired_certificates(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances
) -> Iterator[tuple[FloatArray, tuple[str, ...]]]:
    """Certificates near the given one that are more likely to hold, with what was done.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    y : ndarray
        Multipliers that could not be proved as they are.
    tolerances : Tolerances
        Only ``sign`` is used.
    """
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
    free = FreeColumns(problem, y)
    if not free.exact:
        y = free.correct()
        if sign_violation(problem, y).any():
            return
        done += ("made A*y vanish on the free blocks",)
    trimmed = _trim_nonneg(problem, y)
    if trimmed is not None:
        y = trimmed
        done += ("reduced multipliers that make A*y positive on a non-negative block",)
    if done:
        yield y, done
    direction = _definite_direction(problem)
    if direction is None:
        return
    for push in (1.0, 1e2, 1e4):
        shifted = _shift(problem, y, direction, push)
        if shifted is not None:
            yield shifted, (*done, "shifted the multipliers along a definite combination of rows")


def _trim_nonneg(problem: FeasibilityProblem, y: FloatArray) -> FloatArray | None:
    """Shrink the multipliers behind positive entries of ``A*y`` on Nonneg blocks until these vanish."""
    changed = False
    for block, rows in zip(problem.sets, problem.rows, strict=True):
        if not isinstance(block, Nonneg) or rows is None:
            continue
        columns = sp.csc_array(vector_columns(rows))
        for j in np.flatnonzero(rows.adjoint(y) > -1e-13 * (np.abs(y) @ np.asarray(rows.norms()))):
            start, stop = columns.indptr[j], columns.indptr[j + 1]
            index, terms = (
                columns.indices[start:stop],
                columns.data[start:stop] * y[columns.indices[start:stop]],
            )
            pushing = terms > 0.0
            positive, negative = float(terms[pushing].sum()), -float(terms[~pushing].sum())
            if not positive > 0.0:
                continue
            # A few units of rounding below balance, so that the proof has room.
            target = negative * (1.0 - 1e-13 * (index.size + 4))
            if target < positive:
                y = np.array(y)
                y[index[pushing]] *= target / positive
                changed = True
    return y if changed else None


def _definite_direction(problem: FeasibilityProblem) -> FloatArray | None:
    """Return ``w`` with ``A*w`` definite on PSD blocks, positive on Nonneg, zero on Free; or None."""
    parts = [
        (block, rows)
        for block, rows in zip(problem.sets, problem.rows, strict=True)
        if rows is not None and not block.bounded
    ]
    if not any(isinstance(block, PSD) for block, _ in parts):
        return None
    usable = np.isfinite(problem.lower) & np.isfinite(problem.upper)
    scale = np.where(usable & (problem.norms > 0.0), 1.0 / np.maximum(problem.norms, 1e-300), 0.0)
    target = np.concatenate([block.interior_point().ravel() for block, _ in parts])
    splits = np.cumsum([int(np.prod(block.shape)) for block, _ in parts])[:-1]

    def adjoint(w: FloatArray) -> FloatArray:
        return np.concatenate([rows.adjoint(scale * w.ravel()).ravel() for _, rows in parts])

    def apply(x: FloatArray) -> FloatArray:
        pieces = np.split(np.asarray(x).ravel(), splits)
        total = sum(
            rows.apply(p.reshape(block.shape)) for (block, rows), p in zip(parts, pieces, strict=True)
        )
        return scale * np.asarray(total)

    operator = LinearOperator((target.size, problem.m), matvec=adjoint, rmatvec=apply, dtype=np.float64)
    w = scale * lsmr(operator, target, atol=1e-13, btol=1e-13, maxiter=200)[0]
    for block, rows in parts:
        g = rows.adjoint(w)
        if isinstance(block, PSD) and not eigvalsh(g)[0] > 1e-8 * np.max(np.abs(g)):
            return None
        if isinstance(block, Nonneg) and not np.min(g) > 0.0:
            return None
        if isinstance(block, Free) and np.any(np.abs(g) > 1e-10 * (np.abs(w) @ rows.norms())):
            return None
    return np.asarray(w)


def _shift(problem: FeasibilityProblem, y: FloatArray, w: FloatArray, push: float) -> FloatArray | None:
    """Return ``y - s·w`` with the least ``s`` that makes ``A*y`` negative by more than rounding."""
    step = 0.0
    for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True)):
        if rows is None or not isinstance(block, (PSD, Nonneg)):
            continue
        top = float(np.max(block.spectrum(rows.adjoint(y))))
        bottom = float(np.min(block.spectrum(rows.adjoint(w))))
        rounding = 1e-13 * block.n * float(np.abs(y) @ problem.block_norms[b])
        if top > -rounding:
            step = max(step, (top + push * rounding) / bottom)
    shifted = y - step * w
    return shifted if float(np.sum(problem.beta_terms(shifted))) > 0.0 else None
