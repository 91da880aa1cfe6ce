"""Exact proofs that a point is feasible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rational import (
    to_float,
    to_floats,
    to_fractions,
    to_rationals,
    zeros,
)
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.verifier.exact.algebra import exact_step
from sdpfeas.verifier.exact.candidates import DENOMINATORS, SLIP, candidates
from sdpfeas.verifier.exact.eligible import need_rationals, small_enough
from sdpfeas.verifier.exact.rows import ExactRows, exact_rows
from sdpfeas.verifier.lmis import lmi_margin
from sdpfeas.verifier.outcome import Outcome, refuse
from sdpfeas.verifier.verdicts import Reading

__all__ = ["exact_point"]


def exact_point(
    problem: FeasibilityProblem,
    point: Point,
    *,
    repair: bool = True,
    denominators: tuple[int, ...] = DENOMINATORS,
    times: float = 1.0,
    reading: Reading = Reading.STORED,
) -> Outcome:
    """Prove in rational arithmetic that a point, or a rounder one next to it, is feasible.

    Parameters
    ----------
    problem : FeasibilityProblem
        A small problem.
    point : tuple of ndarray
        One array per set.
    repair : bool
        Round to small denominators and correct equality rows; else take the point exactly as it is.
    denominators : tuple of int
        The denominators to round to.
    times : float
        How many times larger than other problems this one may be.
    reading : Reading
        Which numbers of the problem the proof is about.
    """
    if not small_enough(problem, times):
        return refuse("the problem is too large for exact mode")
    if not all(np.isfinite(x).all() for x in point):
        return refuse("the point holds NaN or infinity")
    flat = np.concatenate([x.reshape(-1) for x in point])
    last = refuse("no rational point near the given one is feasible")
    open_still = _may_be_feasible(problem, point)
    if not open_still:
        last = refuse("rows or sets are violated by more than rounding")
        if not repair:
            return last
    need_rationals(problem)
    rows = exact_rows(problem, reading)
    as_it_is = to_rationals(flat)
    if open_still:
        last = _point_holds(rows, as_it_is)
        if last.proven or not repair:
            return last
    for candidate, said in candidates(flat, as_it_is, denominators):
        need_rationals(problem)
        x, done = _onto_equations(rows, candidate, flat)
        if x is None:
            last = refuse("no rational point near the given one meets the equality rows")
            continue
        near = tuple(to_floats(part) for part in rows.blocks(x))
        if not _may_be_feasible(problem, near):
            continue
        outcome = _point_holds(rows, x)
        if outcome.proven:
            return replace(outcome, evidence=near, repairs=said + done)
        last = outcome
    return last


def _onto_equations(
    rows: ExactRows, x: np.ndarray, flat: FloatArray
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    equations, values = rows.equations
    if values.size == 0:
        return x, ()
    off = values - equations.dot(x)
    if not any(v != 0 for v in off):
        return x, ()
    matrix, near, own = rows.folded
    step = exact_step(matrix, near, _reach(rows.problem, flat)[own], off)
    if step is None:
        return None, ()
    moved = np.array(x)
    moved[own] = moved[own] + step
    moved[rows.mirror[own]] = moved[own]
    return moved, ("moved the point onto the equality rows",)


def _reach(problem: FeasibilityProblem, flat: FloatArray) -> FloatArray:
    """How far each entry may move: by its own size if it must stay positive, else by that of its block."""
    out, start = [], 0
    for block in problem.sets:
        part = np.abs(flat[start : start + block.entries])
        start += part.size
        size = float(np.max(part, initial=0.0)) or 1.0
        out.append(
            np.maximum(part, 1e-6 * size) if block.cone and block.entrywise else np.full(part.size, size)
        )
    return np.concatenate(out)


def _may_be_feasible(problem: FeasibilityProblem, point: Point) -> bool:
    """Whether floating-point numbers leave it open: what misses by more than rounding needs no proof."""
    if not all(np.isfinite(x).all() for x in point):
        return False
    size = np.array([float(np.linalg.norm(x)) for x in point])
    if not np.isfinite(size).all():
        return True
    if problem.m:
        value = problem.stable_apply(point)
        allowed = SLIP * (size @ problem.block_norms + largest_bound(problem))
        if np.any(problem.lower - value > allowed) or np.any(value - problem.upper > allowed):
            return False
    for block, x, scale in zip(problem.sets, point, size, strict=True):
        reference = max(scale, block.spectral_radius) if block.bounded else scale
        if not block.free and block.depth(x) < -SLIP * reference:
            return False
    for lmi in problem.lmis:
        value = lmi.value(point)
        terms = float(np.linalg.norm(lmi.constant)) + float(np.max(size)) * lmi.norm
        if np.isfinite(value).all() and lmi.set.depth(value) < -SLIP * terms:
            return False
    return True


def _point_holds(rows: ExactRows, x: np.ndarray) -> Outcome:
    problem = rows.problem
    margin = 1.0
    value = rows.matrix.dot(x) if problem.m else zeros((0,))
    for i in range(problem.m):
        for bound, sign in ((problem.lower[i], 1), (problem.upper[i], -1)):
            if not np.isfinite(bound):
                continue
            left = sign * (value[i] - rows.number(bound))
            if left < 0:
                return refuse(f"row {problem.row_name(i)} is violated in exact arithmetic")
            if not problem.equality[i]:
                size = abs(to_float(value[i])) + abs(float(bound))
                margin = min(margin, to_float(left) / size if size > 0.0 else 1.0)
    for b, (block, part) in enumerate(zip(problem.sets, rows.blocks(x), strict=True)):
        if not block.contains_exact(part, rows.number):
            return refuse(f"block {problem.block_name(b)} is outside its set in exact arithmetic")
    for j, lmi in enumerate(rows.lmis):
        value = lmi.value(x)
        if not lmi.set.contains_exact(value, rows.number):
            return refuse(f"LMI {problem.lmi_name(j)} does not hold in exact arithmetic")
        near = to_floats(value)
        margin = min(margin, lmi_margin(lmi.set, near, 0.0) if np.isfinite(near).all() else 0.0)
    what = "every set, row and LMI" if rows.lmis else "every set and row"
    return Outcome(
        True,
        margin,
        f"the point, taken as rational numbers, meets {what} exactly",
        rational=tuple(to_fractions(part) for part in rows.blocks(x)),
    )
