"""Exact proofs that multipliers rule out every point."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.numerics.linalg import FloatArray, eigh, spectral_matrix
from sdpfeas.numerics.rational import (
    eye,
    number,
    semidefinite_exact,
    to_float,
    to_floats,
    to_fractions,
    to_rationals,
    zeros,
)
from sdpfeas.problem.problem import FeasibilityProblem, sign_violation
from sdpfeas.problem.reductions.scaling import power_of_two
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.exact.algebra import exact_step
from sdpfeas.verifier.exact.candidates import DENOMINATORS, SLIP, candidates
from sdpfeas.verifier.exact.eligible import need_rationals, small_enough
from sdpfeas.verifier.exact.rows import ExactRows, exact_rows
from sdpfeas.verifier.outcome import Outcome, refuse
from sdpfeas.verifier.verdicts import Reading

__all__ = ["certificate_holds", "exact_certificate"]


def exact_certificate(
    problem: FeasibilityProblem,
    y: FloatArray,
    *,
    repair: bool = True,
    denominators: tuple[int, ...] = DENOMINATORS,
    reading: Reading = Reading.STORED,
) -> Outcome:
    """Prove in rational arithmetic that multipliers, or rounder ones next to them, rule out every point.

    Parameters
    ----------
    problem : FeasibilityProblem
        A small problem.
    y : ndarray
        One multiplier per row.
    repair : bool
        Round to small denominators and clear the Free blocks; else take the multipliers as they are.
    denominators : tuple of int
        The denominators to round to.
    reading : Reading
        Which numbers of the problem the proof is about.
    """
    if not small_enough(problem):
        return refuse("the problem is too large for exact mode")
    if not np.isfinite(y).all() or not y.any():
        return refuse("the certificate is zero or holds NaN or infinity")
    last = refuse("no rational certificate near the given one holds")
    open_still = _may_be_certificate(problem, y)
    if not open_still:
        last = refuse("the two sides of the certificate, or A*y, are off by more than rounding")
        if not repair:
            return last
    need_rationals(problem)
    rows = exact_rows(problem, reading)
    if open_still:
        last = certificate_holds(rows, to_rationals(y))
        if last.proven or not repair:
            return last
    # In the units of their rows, up to powers of two, so that the units of a row do not matter.
    factors = _factors(problem)
    plain = y / factors
    size = np.abs(plain)
    largest = float(np.max(size))
    significant = float(np.min(size[size > 1e-6 * largest], initial=largest))
    back = to_rationals(factors)
    # Multipliers are meant up to a factor: let the largest, or the smallest that counts, be one.
    for unit in dict.fromkeys((largest, significant)):
        scaled = plain / unit
        if not np.isfinite(scaled).all():
            continue
        for candidate, said in candidates(scaled, to_rationals(scaled), denominators):
            if not any(v != 0 for v in candidate):
                continue
            need_rationals(problem)
            exact, done = _clear_free(rows, candidate * back)
            near = to_floats(exact)
            if not _may_be_certificate(problem, near):
                continue
            outcome = certificate_holds(rows, exact)
            if outcome.proven:
                return replace(outcome, evidence=near, repairs=said + done)
            last = outcome
    return last


def _factors(problem: FeasibilityProblem) -> FloatArray:
    """Powers of two by which rows, and LMIs as a whole, get norms about one."""
    parts = [np.full(lmi.set.entries, power_of_two(np.array([lmi.norm]))[0]) for lmi in problem.lmis]
    return np.concatenate([power_of_two(problem.norms), *parts])


def _may_be_certificate(problem: FeasibilityProblem, y: FloatArray) -> bool:
    """Whether floating-point numbers leave it open: what misses by more than rounding needs no proof."""
    if not np.isfinite(y).all():
        return False
    if np.any(sign_violation(problem, y) > 0.0):
        return False
    terms = problem.beta_terms(y)
    gap, scale = float(np.sum(terms)), float(np.sum(np.abs(terms)))
    rows_part, own_parts = problem.split(y)
    for b, (block, g) in enumerate(zip(problem.sets, problem.adjoint(y), strict=True)):
        size = float(np.abs(rows_part) @ problem.block_norms[b])
        for lmi, own in zip(problem.lmis, own_parts, strict=True):
            size += 0.0 if lmi.coefficients[b] is None else float(np.linalg.norm(own)) * lmi.norm
        if not (np.isfinite(g).all() and math.isfinite(size)):
            return True
        lam = np.abs(g) if block.free else block.spectrum(g)
        if block.bounded:
            gap -= block.support_spectrum(lam)
            scale += block.nuclear_radius * size
        elif float(np.max(lam)) > SLIP * size:
            return False
    for lmi, own in zip(problem.lmis, own_parts, strict=True):
        lam = lmi.set.spectrum(-own)
        if lmi.set.bounded:
            gap -= lmi.set.support_spectrum(lam)
            scale += lmi.set.nuclear_radius * float(np.max(np.abs(lam)))
        elif float(np.max(lam)) > SLIP * float(np.max(np.abs(lam))):
            return False
    return not gap < -SLIP * scale


def _split(rows: ExactRows, y: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Multipliers of the rows, and of every LMI as a vector."""
    cuts = np.cumsum([rows.problem.m, *(lmi.set.entries for lmi in rows.lmis)])[:-1]
    first, *own = np.split(y, cuts)
    return first, own


def _gradient(rows: ExactRows, y: np.ndarray) -> np.ndarray:
    """``A*y`` with what the LMIs add, over the stacked blocks."""
    first, own = _split(rows, y)
    total = rows.matrix.T.dot(first) if first.size else zeros((rows.matrix.shape[1],))
    for lmi, part in zip(rows.lmis, own, strict=True):
        total = total + lmi.matrix.dot(part)
    return np.asarray(total)


def _clear_free(rows: ExactRows, y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Correct multipliers so that ``A*y`` vanishes on the Free blocks, where that can be done."""
    problem = rows.problem
    free = np.concatenate([np.full(s.entries, s.free) for s in problem.sets])
    off = _gradient(rows, y)[free]
    if not any(v != 0 for v in off):
        return y, ()
    first, own = _split(rows, y)
    movable = np.array(
        [(np.isfinite(lo) and np.isfinite(hi)) or v != 0
         for lo, hi, v in zip(problem.lower, problem.upper, first, strict=True)], dtype=bool
    )  # fmt: skip
    size = np.abs(to_floats(first[movable]))
    unit = power_of_two(problem.norms[movable])
    signed = ~(np.isfinite(problem.lower) & np.isfinite(problem.upper))[movable]
    weights = [np.where(signed, size, float(np.max(size / unit, initial=0.0)) * unit)]
    parts = [rows.matrix[:, free][movable].T]
    for lmi, part in zip(rows.lmis, own, strict=True):
        sizes = np.abs(to_floats(part[lmi.entries]))
        weights.append(sizes if lmi.set.entrywise else np.full(sizes.size, float(np.max(sizes))))
        parts.append(lmi.folded[free])
    matrix = np.concatenate(parts, axis=1)
    step = exact_step(matrix, to_floats(matrix), np.concatenate(weights), off)
    if step is None:
        return y, ()
    moves = np.split(step, np.cumsum([part.shape[1] for part in parts])[:-1])
    first = np.array(first)
    first[movable] = first[movable] - moves[0]
    out = [first]
    for lmi, part, move in zip(rows.lmis, own, moves[1:], strict=True):
        moved = np.array(part)
        moved[lmi.entries] = moved[lmi.entries] - move
        moved[lmi.mirror[lmi.entries]] = moved[lmi.entries]
        out.append(moved)
    return np.concatenate(out), ("made A*y vanish on the free blocks",)


def certificate_holds(rows: ExactRows, y: np.ndarray) -> Outcome:
    """Decide whether rational multipliers rule out every point, as they are."""
    problem = rows.problem
    gap, scale = number(0), 0.0
    first, own = _split(rows, y)
    for i, weight in enumerate(first):
        if weight == 0:
            continue
        bound = problem.lower[i] if weight > 0 else problem.upper[i]
        if not np.isfinite(bound):
            return refuse(f"the multiplier of row {problem.row_name(i)} has a forbidden sign")
        term = weight * rows.number(bound)
        gap += term
        scale += abs(to_float(term))
    for j, (lmi, part) in enumerate(zip(rows.lmis, own, strict=True)):
        terms = part * lmi.constant
        gap -= terms.sum()
        scale += sum(abs(to_float(term)) for term in terms)
        multiplier = part.reshape(lmi.set.shape)
        support = _box_support(rows, lmi.set, -multiplier) if lmi.set.bounded else number(0)
        if support is None or not (lmi.set.bounded or lmi.set.polar_exact(-multiplier)):
            return refuse(
                f"the multiplier of LMI {problem.lmi_name(j)} is not in the dual of its set exactly"
            )
        gap -= support
        scale += abs(to_float(support))
    for b, (block, g) in enumerate(zip(problem.sets, rows.blocks(_gradient(rows, y)), strict=True)):
        if block.bounded:
            support = _box_support(rows, block, g)
            if support is None:
                return refuse(f"block {problem.block_name(b)}: support function not bounded exactly")
            gap -= support
            scale += abs(to_float(support))
        elif not block.polar_exact(g):
            return refuse(f"A*y is not in the polar of block {problem.block_name(b)} exactly")
    if not gap > 0:
        return refuse("the two sides of the certificate do not differ in exact arithmetic")
    return Outcome(
        True,
        min(to_float(gap) / scale, 1.0) if scale > 0.0 else 1.0,
        "the multipliers, taken as rational numbers, rule out every point exactly",
        rational=to_fractions(y),
    )


def _box_support(rows: ExactRows, box: BlockSet, g: np.ndarray) -> Any | None:
    """Rational upper bound of the support function, from ``g = theta·I + P - N``, P and N semidefinite.

    Then ``<g, Z> <= theta·trace + upper·tr P - lower·tr N``; theta is zero where no trace is prescribed.
    """
    if box.trace is not None and np.all(g == g[0, 0] * eye(box.n)):
        return g[0, 0] * rows.number(box.trace)
    approximate = to_floats(g)
    if not np.isfinite(approximate).all():
        return None
    lam, vec = eigh(approximate)
    theta = box.threshold(lam)
    spread = float(np.max(np.abs(lam - theta), initial=0.0))
    rounded = spectral_matrix(vec, np.maximum(lam - theta, 0.0))
    if not (math.isfinite(spread) and np.isfinite(rounded).all()):
        return None
    split = to_rationals(rounded)
    shift = number(theta)
    # A little lift makes both parts semidefinite whatever the rounding; diagonal ones need none.
    for lift in (Fraction(0), Fraction(spread) * Fraction(1, 2**44) * box.n):
        positive = split + eye(box.n, lift)
        negative = positive - g + shift * eye(box.n)
        if semidefinite_exact(positive) and semidefinite_exact(negative):
            total = rows.number(box.upper) * np.trace(positive) - rows.number(box.lower) * np.trace(negative)
            if box.trace is not None:
                total += shift * rows.number(box.trace)
            return total
    return None
