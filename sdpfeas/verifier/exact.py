"""Exact mode: proofs in rational arithmetic (python-flint), for small problems.

:func:`exact_point` rounds a point to small denominators, corrects its equality rows by an exact linear solve
and checks sets, rows and LMIs exactly. :func:`exact_certificate` does the same for dual multipliers and
Farkas' lemma. :func:`rational_evidence`, :func:`rational_lower_bound` and :func:`rational_upper_bound` check
rational points and multipliers as given (Theorem 6 of docs/mathematics.md). :func:`contradiction` finds
dependent rows with inconsistent bounds by Gaussian elimination. Binary64 numbers are rational, so every small
problem qualifies (:func:`small_enough`); with ``Reading.WRITTEN`` the data are the decimals or fractions from
which they were rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.numerics.exact_arithmetic import (
    Reading,
    echelon,
    exact_step,
    eye,
    is_simple,
    number,
    rounded,
    semidefinite_exact,
    to_float,
    to_floats,
    to_fractions,
    to_rationals,
    written,
    zeros,
)
from sdpfeas.numerics.limits import check_deadline, guard
from sdpfeas.numerics.linalg import FloatArray, eigh, spectral_matrix
from sdpfeas.problem.exact_rows import ExactRows, exact_rows
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, restricting_rows, sign_violation
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.outcome import Outcome, refuse
from sdpfeas.verifier.rigorous import lmi_margin

#: Largest number of rational operations of a proof: about a second.
MAX_OPERATIONS = 200_000

#: Cost of one rational operation, in multiply-adds.
FLOPS_PER_OPERATION = 3.2e4

#: Numbers of at most this many significant bits are the same in both readings.
SHORT_BITS = 30

#: Largest number of significant digits of a short decimal.
ROUND_DIGITS = 9


def small_enough(problem: FeasibilityProblem, times: float = 1.0) -> bool:
    """Whether the cost estimate of an exact proof is at most ``times`` the limit ``MAX_OPERATIONS``."""
    return _operations(problem) <= times * MAX_OPERATIONS


def need_rationals(problem: FeasibilityProblem) -> None:
    """Refuse an exact proof if the time limit does not suffice."""
    guard("a proof in rational arithmetic", FLOPS_PER_OPERATION * _operations(problem))


def _operations(problem: FeasibilityProblem, solving: bool = True) -> int:
    """Estimate the number of rational operations of an exact proof, with or without solving equations."""
    entries = sum(math.prod(block.shape) for block in problem.sets)
    total = problem.m * entries + sum(3 * block.side**3 for block in problem.sets)
    # Of an LMI its terms and its factorisation.
    total += sum(entries * lmi.set.entries + 3 * lmi.set.side**3 for lmi in problem.lmis)
    if not solving:
        return total
    equations = int(problem.equality.sum())
    free = sum(block.n for block in problem.sets if block.free)
    total += equations**2 * (entries + equations) + (free**3 if problem.lmis else 0)
    return total + sum(entries * lmi.set.entries + free**2 * lmi.set.dimension for lmi in problem.lmis)


def is_round(problem: FeasibilityProblem) -> bool:
    """Whether all numbers of a problem are short decimals or simple fractions.

    The bounds of rows that restrict no other variable do not count.

    For data that were themselves rounded, exact arithmetic can prove what the next bit would disprove: a
    weakly infeasible problem in rotated coordinates is feasible or infeasible by accident of rounding.
    """
    return problem.cached(_is_round)


def _is_round(problem: FeasibilityProblem) -> bool:
    sizes = np.unique(np.abs(_numbers(problem, restricting_rows(problem))))
    return all(_is_short(v) for v in sizes.tolist())


def has_round_rows(problem: FeasibilityProblem) -> bool:
    """Whether all coefficients of rows and LMIs are short decimals or simple fractions."""
    return problem.cached(_has_round_rows)


def _has_round_rows(problem: FeasibilityProblem) -> bool:
    parts = [*problem.rows, *(rows for lmi in problem.lmis for rows in lmi.coefficients)]
    numbers = [a.reshape(-1) for rows in parts for a in _stored(rows)]
    sizes = np.unique(np.abs(np.concatenate([np.zeros(0), *numbers])))
    return all(_is_short(v) for v in sizes.tolist())


def read_alike(problem: FeasibilityProblem) -> bool:
    """Whether all numbers of a small problem are the same in both readings."""
    return problem.cached(_read_alike)


def _read_alike(problem: FeasibilityProblem) -> bool:
    numbers = np.unique(np.abs(_numbers(problem)))
    # Short binaries stand for themselves, and most problems hold little else.
    mantissas = np.ldexp(np.frexp(numbers)[0], SHORT_BITS)
    rest = numbers[mantissas != np.floor(mantissas)].tolist()
    return all(written(v) == Fraction(v) for v in rest)


def _numbers(problem: FeasibilityProblem, bounded: Any = slice(None)) -> FloatArray:
    """Return all finite numbers of a problem, with the bounds of the chosen rows."""
    bounds = np.concatenate([problem.lower[bounded], problem.upper[bounded]])
    numbers = [bounds[np.isfinite(bounds)]]
    numbers.append(np.array([v for s in problem.sets for v in s.spec().values() if isinstance(v, float)]))
    parts = list(problem.rows)
    for lmi in problem.lmis:
        numbers.append(lmi.constant)
        numbers.append(np.array([v for v in lmi.set.spec().values() if isinstance(v, float)]))
        parts += lmi.coefficients
    for rows in parts:
        numbers += _stored(rows)
    return np.concatenate([a.reshape(-1) for a in numbers])


def _is_short(value: float) -> bool:
    """Whether a number is a simple fraction, or a short decimal times a power of two."""
    mantissa, _ = math.frexp(value)
    return is_simple(value) or any(
        float(f"{v:.{ROUND_DIGITS}g}") == v for v in (math.ldexp(mantissa, k) for k in (0, *range(-20, 40)))
    )


def _stored(rows: Rows) -> list[FloatArray]:
    _, arrays, children = rows.state()
    out = [a for a in arrays.values() if a.dtype.kind == "f"]
    for child in children:
        out += _stored(child)
    return out


#: Denominators to which a claim is rounded, in this order; the claim as given comes last.
DENOMINATORS = (1, 12, 1000, 10**6)

#: A relative violation above this in floating point refutes a candidate without rational arithmetic.
MAX_VIOLATION_SHARE = 1e-9


def candidates(
    flat: FloatArray, as_it_is: np.ndarray, denominators: tuple[int, ...]
) -> Iterator[tuple[np.ndarray, tuple[str, ...]]]:
    """Yield rational numbers near the given ones, smallest denominators first, with the change made."""
    for denominator in denominators:
        yield rounded(flat, denominator), (f"rounded to denominators of at most {denominator}",)
    yield as_it_is, ()


#: A row counts as satisfied, and as active, within this tolerance relative to its terms. The proof that
#: follows is exact, so the tolerance only selects candidates.
ACTIVE_SHARE = 1e-6

#: Active inequality rows are considered up to this number.
MAX_ACTIVE_ROWS = 40


def contradiction(problem: FeasibilityProblem, point: Point, reading: Reading = Reading.STORED) -> Outcome:
    """Prove in rational arithmetic that dependent rows have inconsistent bounds.

    Inequality rows that are active at ``point``, which nearly satisfies the problem, are treated as
    equations.
    """
    last = refuse("no rows contradict each other")
    if not small_enough(problem) or problem.m == 0 or problem.lmis:
        return last
    need_rationals(problem)
    rows = exact_rows(problem, reading)
    active = _active(problem, point)
    if active is None:
        return last
    for y in _dependences(rows, active):
        for sign in (1, -1):
            outcome = certificate_holds(rows, sign * y)
            if outcome.proven:
                near = to_floats(sign * y)
                if np.isfinite(near).all():
                    return replace(outcome, evidence=near, repairs=("found rows that contradict each other",))
    return last


def _active(problem: FeasibilityProblem, point: Point) -> np.ndarray | None:
    """Return the inequality rows active at a point, up to rounding; None if it is clearly infeasible."""
    value = problem.stable_apply(point)
    size = np.array([float(np.linalg.norm(x)) for x in point])
    allowed = ACTIVE_SHARE * (size @ problem.block_norms + largest_bound(problem))
    above, below = value - problem.lower, problem.upper - value
    if not (np.all(above >= -allowed) and np.all(below >= -allowed)):
        return None
    tight = (above <= allowed) | (below <= allowed)
    found = np.flatnonzero(tight & ~problem.equality)
    return found if found.size <= MAX_ACTIVE_ROWS else found[:0]


def _dependences(rows: ExactRows, active: np.ndarray) -> Iterator[np.ndarray]:
    """Yield multipliers with ``A*y = 0``, or a multiple of the identity on boxes with a prescribed trace."""
    equations, _ = rows.equations
    index = np.concatenate([rows.problem.equality_rows, active]).astype(np.int64)
    traces = equations[index.size - active.size :]
    table = rows.fold(np.concatenate([traces, rows.matrix[index]]))
    # Each dependent row is a combination of earlier independent rows, with the weights in its column.
    weights, pivots = echelon(table.T)
    for r in sorted(set(range(len(table))) - set(pivots)):
        combined = zeros((len(table),))
        combined[r] = number(1)
        combined[pivots] = -weights[:, r]
        # Prescribed traces are no rows: their multipliers are dropped.
        if r >= len(traces):
            y = zeros((rows.problem.m,))
            y[index] = combined[len(traces) :]
            yield y


def exact_certificate(
    problem: FeasibilityProblem,
    y: FloatArray,
    *,
    repair: bool = True,
    denominators: tuple[int, ...] = DENOMINATORS,
    reading: Reading = Reading.STORED,
) -> Outcome:
    """Prove infeasibility by Farkas' lemma in rational arithmetic, with ``y`` or rounder multipliers near it.

    With ``repair``, multipliers are rounded to small denominators and corrected so that ``A*y`` vanishes on
    the Free blocks; otherwise they are used as given.
    """
    if not small_enough(problem):
        return refuse("the problem is too large for exact mode")
    if not np.isfinite(y).all() or not y.any():
        return refuse("the certificate is zero or holds NaN or infinity")
    last = refuse("the two sides of the certificate, or A*y, are off by more than rounding")
    if not (repair or _may_be_certificate(problem, y)):
        return last
    need_rationals(problem)
    rows = exact_rows(problem, reading)
    for exact, changes in _rational_multipliers(rows, y, denominators if repair else None):
        near = to_floats(exact) if changes else y
        if _may_be_certificate(problem, near):
            last = certificate_holds(rows, exact)
            if last.proven:
                return replace(last, evidence=near if changes else None, repairs=changes)
    return last


def _rational_multipliers(
    rows: ExactRows, y: FloatArray, denominators: tuple[int, ...] | None
) -> Iterator[tuple[np.ndarray, tuple[str, ...]]]:
    """Yield multipliers as given, then unless None, rounder ones near them, with the changes made."""
    yield to_rationals(y), ()
    if denominators is None:
        return
    # Scale by powers of two to rows of norm about one, so that the units of a row do not matter.
    factors = _factors(rows.problem)
    plain, back = y / factors, to_rationals(factors)
    size = np.abs(plain)
    largest = float(np.max(size))
    significant = float(np.min(size[size > 1e-6 * largest], initial=largest))
    # Multipliers are determined up to a factor: make the largest, or the smallest significant one, equal to
    # one.
    for unit in dict.fromkeys((largest, significant)):
        scaled = plain / unit
        if not np.isfinite(scaled).all():
            continue
        for candidate, changes in candidates(scaled, to_rationals(scaled), denominators):
            if any(v != 0 for v in candidate):
                need_rationals(rows.problem)
                exact, done = _clear_free(rows, candidate * back)
                yield exact, changes + done


def _factors(problem: FeasibilityProblem) -> FloatArray:
    """Powers of two that scale rows, and LMIs as a whole, to norm about one."""
    parts = [np.full(lmi.set.entries, power_of_two(np.array([lmi.norm]))[0]) for lmi in problem.lmis]
    return np.concatenate([power_of_two(problem.norms), *parts])


def _may_be_certificate(problem: FeasibilityProblem, y: FloatArray) -> bool:
    """Whether floating-point arithmetic leaves open that ``y`` is a certificate, up to rounding."""
    if not np.isfinite(y).all():
        return False
    if problem.lmis:
        slacks = problem.slack_form
        return _may_be_certificate(slacks.problem, slacks.start_multipliers(y))
    if np.any(sign_violation(problem, y) > 0.0):
        return False
    terms = problem.beta_terms(y)
    gap, scale = float(np.sum(terms)), float(np.sum(np.abs(terms)))
    for b, (block, g) in enumerate(zip(problem.sets, problem.adjoint(y), strict=True)):
        size = float(np.abs(y) @ problem.block_norms[b])
        if not (np.isfinite(g).all() and math.isfinite(size)):
            return True
        lam = np.abs(g) if block.free else block.spectrum(g)
        if block.bounded:
            gap -= block.support_spectrum(lam)
            scale += block.nuclear_radius * size
        elif float(np.max(lam)) > MAX_VIOLATION_SHARE * size:
            return False
    return not gap < -MAX_VIOLATION_SHARE * scale


def _split(rows: ExactRows, y: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Split multipliers into those of the rows and those of every LMI, as vectors."""
    cuts = np.cumsum([rows.problem.m, *(lmi.set.entries for lmi in rows.lmis)])[:-1]
    first, *own = np.split(y, cuts)
    return first, own


def _gradient(rows: ExactRows, y: np.ndarray) -> np.ndarray:
    """Return ``A*y + B*Y`` over the stacked entries."""
    first, own = _split(rows, y)
    total = rows.matrix.T.dot(first) if first.size else zeros((rows.matrix.shape[1],))
    for lmi, part in zip(rows.lmis, own, strict=True):
        total = total + lmi.matrix.dot(part)
    return np.asarray(total)


def _clear_free(rows: ExactRows, y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Correct multipliers so that ``A*y + B*Y`` vanishes on the Free blocks, if a correction is found."""
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
    """Check exactly, by Farkas' lemma, whether rational multipliers rule out every point."""
    found = _dual_value(rows, y)
    if isinstance(found, str):
        return refuse(found)
    gap, scale = found
    if not gap > 0:
        return refuse("the two sides of the certificate do not differ in exact arithmetic")
    return Outcome(
        True,
        min(to_float(gap) / scale, 1.0) if scale > 0.0 else 1.0,
        "the multipliers, taken as rational numbers, rule out every point exactly",
        rational=to_fractions(y),
    )


def _dual_value(rows: ExactRows, y: np.ndarray, terms: np.ndarray | None = None) -> tuple[Any, float] | str:
    """Return ``beta(y)`` minus the support functions of all sets, and the size of its terms; or a refusal.

    With an objective ``terms`` over the stacked entries, its maximum is at most minus that value.
    """
    problem = rows.problem
    gap, scale = number(0), 0.0
    first, own = _split(rows, y)
    for i, weight in enumerate(first):
        if weight == 0:
            continue
        bound = problem.lower[i] if weight > 0 else problem.upper[i]
        if not np.isfinite(bound):
            return f"the multiplier of row {problem.row_name(i)} has a forbidden sign"
        term = weight * rows.number(bound)
        gap += term
        scale += abs(to_float(term))
    for j, (lmi, part) in enumerate(zip(rows.lmis, own, strict=True)):
        products = part * lmi.constant
        gap -= products.sum()
        scale += sum(abs(to_float(term)) for term in products)
        multiplier = part.reshape(lmi.set.shape)
        support = _box_support(rows, lmi.set, -multiplier) if lmi.set.bounded else number(0)
        if support is None or not (lmi.set.bounded or lmi.set.polar_exact(-multiplier)):
            return f"the multiplier of LMI {problem.lmi_name(j)} is not in the dual of its set exactly"
        gap -= support
        scale += abs(to_float(support))
    total = _gradient(rows, y) if terms is None else _gradient(rows, y) + terms
    for b, (block, g) in enumerate(zip(problem.sets, rows.blocks(total), strict=True)):
        if block.bounded:
            support = _box_support(rows, block, g)
            if support is None:
                return f"block {problem.block_name(b)}: support function not bounded exactly"
            gap -= support
            scale += abs(to_float(support))
        elif not block.polar_exact(g):
            return f"A*y is not in the polar of block {problem.block_name(b)} exactly"
    return gap, scale


def _box_support(rows: ExactRows, box: BlockSet, g: np.ndarray) -> Any | None:
    """Return a rational upper bound of the support function of a box; None if none is found.

    With ``g = theta I + P - N`` and semidefinite ``P, N``, every member ``Z`` has ``<g, Z> <= theta trace +
    upper tr P - lower tr N``; ``theta`` is zero if no trace is prescribed.
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
    # A small multiple of the identity makes both parts semidefinite despite rounding; diagonal ones need
    # none.
    for lift in (Fraction(0), Fraction(spread) * Fraction(1, 2**44) * box.n):
        positive = split + eye(box.n, lift)
        negative = positive - g + shift * eye(box.n)
        if semidefinite_exact(positive) and semidefinite_exact(negative):
            total = rows.number(box.upper) * np.trace(positive) - rows.number(box.lower) * np.trace(negative)
            if box.trace is not None:
                total += shift * rows.number(box.trace)
            return total
    return None


#: Longest numerator or denominator of rational evidence, in bits: bounds the cost of hostile claims.
MAX_EVIDENCE_BITS = 2**17

#: Largest number of rational operations of a check of evidence as given, which solves no equations.
MAX_CHECK_OPERATIONS = 40 * MAX_OPERATIONS


def rational_evidence(problem: FeasibilityProblem, given: Any, reading: Reading = Reading.STORED) -> Outcome:
    """Verify a point (a tuple) or dual multipliers (an array) in fractions, exactly as given."""
    point = isinstance(given, tuple)
    shapes: list[tuple[int, ...]] = [block.shape for block in problem.sets]
    shapes = shapes if point else [(problem.multiplier_count,)]
    flat = _stacked(given if point else (given,), shapes)
    if isinstance(flat, str):
        return refuse(flat)
    refusal = _check_cost(problem)
    if refusal is not None:
        return refusal
    rows = exact_rows(problem, reading)
    outcome = _point_holds(rows, flat) if point else certificate_holds(rows, flat)
    if not outcome.proven:
        return outcome
    near = to_floats(flat)
    return replace(outcome, evidence=tuple(rows.blocks(near)) if point else near)


def rational_lower_bound(
    problem: FeasibilityProblem, terms: Point, point: Any, reading: Reading = Reading.STORED
) -> Fraction | None:
    """Return ``<terms, X>`` at a point in fractions if it is exactly feasible; else None."""
    if not rational_evidence(problem, tuple(point), reading).proven:
        return None
    total = Fraction(0)
    for part, own in zip(terms, point, strict=True):
        total += sum(Fraction(float(c)) * x for c, x in zip(part.flat, own.flat, strict=True) if c)
    return total


def rational_upper_bound(
    problem: FeasibilityProblem, terms: Point, y: np.ndarray, reading: Reading = Reading.STORED
) -> Fraction | None:
    """Return the bound of ``max <terms, X>`` that dual multipliers in fractions prove exactly; else None.

    By weak duality ``<terms, X> <= sigma(terms + A*y) - beta(y)``, with ``sigma`` the support function of the
    sets.
    """
    flat = _stacked((y,), [(problem.multiplier_count,)])
    if isinstance(flat, str) or _check_cost(problem) is not None:
        return None
    objective = to_rationals(np.concatenate([part.reshape(-1) for part in terms]))
    found = _dual_value(exact_rows(problem, reading), flat, objective)
    return None if isinstance(found, str) else -to_fractions(np.array([found[0]], dtype=object))[0]


def _stacked(parts: tuple[Any, ...], shapes: list[tuple[int, ...]]) -> np.ndarray | str:
    """Convert arrays of fractions to one vector of ``fmpq``; return what is wrong with them otherwise.

    Entries must be symmetric: only the symmetric part of a matrix is a member of a set.
    """
    arrays = [np.asarray(part) for part in parts]
    if [array.shape for array in arrays] != shapes:
        return "the rational evidence does not have the shape of the problem"
    values = [v for array in arrays for v in array.reshape(-1).tolist()]
    if not all(isinstance(v, Fraction) for v in values):
        return "the rational evidence holds entries that are not fractions"
    if any(max(v.numerator.bit_length(), v.denominator.bit_length()) > MAX_EVIDENCE_BITS for v in values):
        return "the numbers of the rational evidence are too long"
    if any(array.ndim == 2 and not np.array_equal(array, array.T) for array in arrays):
        return "a matrix of the rational evidence is not symmetric"
    return np.array([*(number(v) for v in values), None], dtype=object)[:-1]


def _check_cost(problem: FeasibilityProblem) -> Outcome | None:
    """Refuse a check of evidence as given if the problem is too large or the time too short."""
    if _operations(problem, solving=False) > MAX_CHECK_OPERATIONS:
        return refuse("the problem is too large for exact mode")
    check_deadline("a check in rational arithmetic")
    return None


def exact_point(
    problem: FeasibilityProblem,
    point: Point,
    *,
    repair: bool = True,
    denominators: tuple[int, ...] = DENOMINATORS,
    times: float = 1.0,
    reading: Reading = Reading.STORED,
) -> Outcome:
    """Prove feasibility in rational arithmetic, of a point or of a rounder one near it.

    With ``repair``, the point is rounded to small denominators and its equality rows are corrected; otherwise
    it is used as given. ``times`` raises the size limit.
    """
    if not small_enough(problem, times):
        return refuse("the problem is too large for exact mode")
    if not all(np.isfinite(x).all() for x in point):
        return refuse("the point holds NaN or infinity")
    last = refuse("rows or sets are violated by more than rounding")
    if not (repair or _may_be_feasible(problem, point)):
        return last
    need_rationals(problem)
    rows = exact_rows(problem, reading)
    for exact, changes in _rational_points(rows, point, denominators if repair else None):
        near = tuple(to_floats(part) for part in rows.blocks(exact)) if changes else point
        if _may_be_feasible(problem, near):
            last = _point_holds(rows, exact)
            if last.proven:
                return replace(last, evidence=near if changes else None, repairs=changes)
    return last


def _rational_points(
    rows: ExactRows, point: Point, denominators: tuple[int, ...] | None
) -> Iterator[tuple[np.ndarray, tuple[str, ...]]]:
    """Yield a point as given, then unless None, rounder ones that meet the equations, with the changes."""
    flat = np.concatenate([x.reshape(-1) for x in point])
    as_it_is = to_rationals(flat)
    yield as_it_is, ()
    if denominators is None:
        return
    for candidate, changes in candidates(flat, as_it_is, denominators):
        need_rationals(rows.problem)
        x, done = _onto_equations(rows, candidate, flat)
        if x is not None:
            yield x, changes + done


def _onto_equations(
    rows: ExactRows, x: np.ndarray, flat: FloatArray
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Correct a rational point so that all equations hold exactly; None if no correction is found."""
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
    """Whether floating-point arithmetic leaves open that a point is feasible, up to rounding."""
    if not all(np.isfinite(x).all() for x in point):
        return False
    size = np.array([float(np.linalg.norm(x)) for x in point])
    if not np.isfinite(size).all():
        return True
    if problem.m:
        value = problem.stable_apply(point)
        allowed = MAX_VIOLATION_SHARE * (size @ problem.block_norms + largest_bound(problem))
        if np.any(problem.lower - value > allowed) or np.any(value - problem.upper > allowed):
            return False
    for block, x, scale in zip(problem.sets, point, size, strict=True):
        reference = max(scale, block.spectral_radius) if block.bounded else scale
        if not block.free and block.depth(x) < -MAX_VIOLATION_SHARE * reference:
            return False
    for lmi in problem.lmis:
        value = lmi.value(point)
        terms = float(np.linalg.norm(lmi.constant)) + float(np.max(size)) * lmi.norm
        if np.isfinite(value).all() and lmi.set.depth(value) < -MAX_VIOLATION_SHARE * terms:
            return False
    return True


def _point_holds(rows: ExactRows, x: np.ndarray) -> Outcome:
    """Check exactly whether a rational point satisfies all sets, rows and LMIs."""
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
