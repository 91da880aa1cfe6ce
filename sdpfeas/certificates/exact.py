"""Exact mode: proofs in rational arithmetic, for small problems.

A claim is rounded to small denominators (which repairs what was meant to be a round number), made to meet
its equations exactly, and checked with an exact LDL' factorisation. Floating-point data are rationals too,
so every small problem qualifies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.linalg

from sdpfeas.certificates.outcome import Outcome, refuse
from sdpfeas.certificates.stable import stable_adjoint, stable_values
from sdpfeas.linalg import FloatArray, eigh, spectral_matrix
from sdpfeas.operators import Rows
from sdpfeas.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.scaling import power_of_two
from sdpfeas.sets import PSD, Free, Nonneg, SpectralBox

__all__ = ["exact_certificate", "exact_point", "is_round", "semidefinite_exact", "small_enough"]

#: Rational operations a proof may take; about a second.
MAX_OPERATIONS = 200_000

#: The same without python-flint.
MAX_SLOW_OPERATIONS = 20_000

#: Denominators a claim is rounded to before it is taken as it is.
DENOMINATORS = (1, 12, 1000, 10**6)

#: Significant decimal digits of a number that somebody may have meant.
ROUND_DIGITS = 9

#: What is violated by more than this, relative to its size, is not worth rational arithmetic.
SLIP = 1e-9

HAS_FLINT = find_spec("flint") is not None


def small_enough(problem: FeasibilityProblem) -> bool:
    """Whether a problem is small enough for exact mode."""
    entries = sum(math.prod(block.shape) for block in problem.sets)
    equations = int(problem.equality.sum())
    cubes = sum(3 * block.n**3 for block in problem.sets if block.matrix)
    limit = MAX_OPERATIONS if HAS_FLINT else MAX_SLOW_OPERATIONS
    return problem.m * entries + equations**2 * (entries + equations) + cubes <= limit


def is_round(problem: FeasibilityProblem) -> bool:
    """Whether every number of a problem is a short decimal, as numbers are that somebody meant.

    Of numbers that were themselves rounded, rational arithmetic can prove what the next bit would disprove:
    a weakly infeasible problem in rotated coordinates is feasible or infeasible by chance.
    """
    found = problem.__dict__.get("_is_round")
    if found is None:
        bounds = np.concatenate([problem.lower, problem.upper])
        numbers = [bounds[np.isfinite(bounds)]]
        numbers.append(np.array([v for s in problem.sets for v in s.spec().values() if isinstance(v, float)]))
        for rows in problem.rows:
            if rows is not None:
                numbers += _stored(rows)
        mantissas, _ = np.frexp(np.concatenate([a.reshape(-1) for a in numbers]))
        found = all(_is_short(v) for v in np.unique(np.abs(mantissas)).tolist())
        problem.__dict__["_is_round"] = found
    return bool(found)


def _is_short(mantissa: float) -> bool:
    """Whether a number is a short decimal, whatever power of two it was scaled by."""
    return any(
        float(f"{v:.{ROUND_DIGITS}g}") == v for v in (math.ldexp(mantissa, k) for k in (0, *range(-20, 40)))
    )


def _stored(rows: Rows) -> list[FloatArray]:
    _, arrays, children = rows.state()
    out = [a for a in arrays.values() if a.dtype.kind == "f"]
    for child in children:
        out += _stored(child)
    return out


def _number(value: Fraction) -> Any:
    """Return a rational of the fastest kind there is."""
    if HAS_FLINT:
        import flint

        return flint.fmpq(value.numerator, value.denominator)
    return value


def _exact(array: FloatArray) -> np.ndarray:
    return np.vectorize(lambda v: _number(Fraction(float(v))), otypes=[object])(array)


def _rounded(array: FloatArray, denominator: int) -> np.ndarray:
    def one(value: float) -> Any:
        return _number(Fraction(float(value)).limit_denominator(denominator))

    return np.vectorize(one, otypes=[object])(array)


def _zeros(shape: tuple[int, ...]) -> np.ndarray:
    return np.full(shape, _number(Fraction(0)), dtype=object)


def _eye(n: int, value: Fraction) -> np.ndarray:
    out = _zeros((n, n))
    out[np.diag_indices(n)] = _number(value)
    return out


def semidefinite_exact(matrix: np.ndarray) -> bool:
    """Decide whether a symmetric matrix of rationals is positive semidefinite."""
    n = matrix.shape[0]
    if HAS_FLINT and n > 2:
        import flint

        # All roots of a characteristic polynomial are real; none is negative if the signs alternate.
        whole, _ = flint.fmpq_mat(n, n, list(matrix.reshape(-1))).numer_denom()
        signs = whole.charpoly()
        return all((signs[k] if (n - k) % 2 == 0 else -signs[k]) >= 0 for k in range(n + 1))
    return _semidefinite_by_pivots(matrix)


def _semidefinite_by_pivots(matrix: np.ndarray) -> bool:
    """Decide by LDL' whether a symmetric matrix of rationals is positive semidefinite."""
    a = np.array(matrix, dtype=object)
    n = a.shape[0]
    for k in range(n):
        pivot = a[k, k]
        if pivot < 0:
            return False
        column = a[k + 1 :, k]
        if pivot == 0:
            if any(v != 0 for v in column):
                return False
            continue
        ratio = column / pivot
        for offset in range(n - k - 1):
            if ratio[offset] != 0:
                row = k + 1 + offset
                a[row, k + 1 :] = a[row, k + 1 :] - ratio[offset] * a[k, k + 1 :]
    return True


def _solve(matrix: np.ndarray, rhs: np.ndarray) -> np.ndarray | None:
    """Solve a square rational system; None if it is singular."""
    size = rhs.size
    if HAS_FLINT:
        import flint

        try:
            found = flint.fmpq_mat(size, size, list(matrix.reshape(-1))).solve(
                flint.fmpq_mat(size, 1, list(rhs))
            )
        except ZeroDivisionError:
            return None
        return np.array(found.entries(), dtype=object)
    table = np.concatenate([matrix, rhs.reshape(-1, 1)], axis=1)
    for col in range(size):
        hit = next((r for r in range(col, size) if table[r, col] != 0), None)
        if hit is None:
            return None
        if hit != col:
            table[[col, hit]] = table[[hit, col]]
        table[col] = table[col] / table[col, col]
        for r in range(size):
            if r != col and table[r, col] != 0:
                table[r] = table[r] - table[r, col] * table[col]
    return table[:, size]


def _exact_step(
    matrix: np.ndarray, near: FloatArray, weight: FloatArray, off: np.ndarray
) -> np.ndarray | None:
    """Find a short rational ``step`` with ``matrix @ step = off``; None if none was found.

    Only a few entries move: as many as there are independent equations, chosen for a well-conditioned system
    among those that may move far (``weight``). Redundant equations have to hold by themselves.

    Parameters
    ----------
    matrix : ndarray of rationals
        One row per equation.
    near : ndarray
        The same in floating point.
    weight : ndarray
        How far each entry may move.
    off : ndarray of rationals
        The right-hand side.
    """
    table = near * weight
    size = np.linalg.norm(table, axis=1)
    if not np.isfinite(table).all() or not table.size:
        return None
    table = table / np.where(size > 0.0, size, 1.0)[:, None]
    _, triangle, columns = scipy.linalg.qr(table, mode="economic", pivoting=True)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int(np.sum(diagonal > 1e-10 * np.max(diagonal, initial=0.0)))
    columns = columns[:rank]
    _, _, order = scipy.linalg.qr(table[:, columns].T, mode="economic", pivoting=True)
    index = order[:rank]
    part = _solve(matrix[np.ix_(index, columns)], off[index]) if rank else _zeros((0,))
    if part is None:
        return None
    step = _zeros((matrix.shape[1],))
    step[columns] = part
    return step if all(a == b for a, b in zip(matrix.dot(step), off, strict=True)) else None


class _ExactRows:
    """All rows of a problem in rational arithmetic, as one matrix over the stacked blocks."""

    def __init__(self, problem: FeasibilityProblem) -> None:
        self.problem = problem
        parts = []
        for block, rows in zip(problem.sets, problem.rows, strict=True):
            width = math.prod(block.shape)
            if rows is None or problem.m == 0:
                parts.append(_zeros((problem.m, width)))
                continue
            stacked = np.stack([rows.exact_row(i).reshape(-1) for i in range(problem.m)])
            parts.append(np.vectorize(_number, otypes=[object])(stacked))
        self.matrix = np.concatenate(parts, axis=1)
        self.splits = np.cumsum([math.prod(block.shape) for block in problem.sets])[:-1]

    def blocks(self, vector: np.ndarray) -> list[np.ndarray]:
        pieces = np.split(vector, self.splits)
        return [p.reshape(b.shape) for p, b in zip(pieces, self.problem.sets, strict=True)]

    @cached_property
    def equations(self) -> tuple[np.ndarray, np.ndarray]:
        """Equality rows and prescribed traces, with their right-hand sides."""
        return _equations(self)

    @cached_property
    def mirror(self) -> np.ndarray:
        """For every entry the place of its mirror image; its own where it has none."""
        out, start = [], 0
        for block in self.problem.sets:
            place = np.arange(start, start + math.prod(block.shape)).reshape(block.shape)
            out.append(place.T.reshape(-1))
            start += place.size
        return np.concatenate(out)

    @cached_property
    def folded(self) -> tuple[np.ndarray, FloatArray, np.ndarray]:
        """The equations on entries with one of each mirrored pair left, in floating point too, and which."""
        matrix = self.equations[0]
        own = np.flatnonzero(self.mirror >= np.arange(self.mirror.size))
        paired = self.mirror[own] > own
        folded = matrix[:, own]
        folded[:, paired] = folded[:, paired] + matrix[:, self.mirror[own][paired]]
        return folded, _floats(folded), own


def _exact_rows(problem: FeasibilityProblem) -> _ExactRows:
    """Rational rows, made once: problems are immutable."""
    key = f"_exact_rows_{HAS_FLINT}"
    found = problem.__dict__.get(key)
    if found is None:
        found = problem.__dict__[key] = _ExactRows(problem)
    return found


def exact_point(
    problem: FeasibilityProblem,
    point: Point,
    *,
    repair: bool = True,
    denominators: tuple[int, ...] = DENOMINATORS,
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
    """
    if not small_enough(problem):
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
    rows = _exact_rows(problem)
    as_it_is = _exact(flat)
    if open_still:
        last = _point_holds(rows, as_it_is)
        if last.proven or not repair:
            return last
    for candidate, said in _candidates(flat, as_it_is, denominators):
        x, done = _onto_equations(rows, candidate, flat)
        if x is None:
            last = refuse("no rational point near the given one meets the equality rows")
            continue
        near = tuple(_floats(part) for part in rows.blocks(x))
        if not _may_be_feasible(problem, near):
            continue
        outcome = _point_holds(rows, x)
        if outcome.proven:
            return replace(outcome, evidence=near, repairs=said + done)
        last = outcome
    return last


def _onto_equations(
    rows: _ExactRows, x: np.ndarray, flat: FloatArray
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    equations, values = rows.equations
    if values.size == 0:
        return x, ()
    off = values - equations.dot(x)
    if not any(v != 0 for v in off):
        return x, ()
    matrix, near, own = rows.folded
    step = _exact_step(matrix, near, _reach(rows.problem, flat)[own], off)
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
        part = np.abs(flat[start : start + math.prod(block.shape)])
        start += part.size
        size = float(np.max(part, initial=0.0)) or 1.0
        out.append(np.maximum(part, 1e-6 * size) if isinstance(block, Nonneg) else np.full(part.size, size))
    return np.concatenate(out)


def _may_be_feasible(problem: FeasibilityProblem, point: Point) -> bool:
    """Whether floating-point numbers leave it open: what misses by more than rounding needs no proof."""
    if not all(np.isfinite(x).all() for x in point):
        return False
    size = np.array([float(np.linalg.norm(x)) for x in point])
    if not np.isfinite(size).all():
        return True
    if problem.m:
        value = stable_values(problem, point)
        allowed = SLIP * (size @ problem.block_norms + largest_bound(problem))
        if np.any(problem.lower - value > allowed) or np.any(value - problem.upper > allowed):
            return False
    for block, x, scale in zip(problem.sets, point, size, strict=True):
        reference = scale
        if isinstance(block, SpectralBox):
            reference = max(scale, abs(block.lower), abs(block.upper))
        if not isinstance(block, Free) and block.depth(x) < -SLIP * reference:
            return False
    return True


def _equations(rows: _ExactRows) -> tuple[np.ndarray, np.ndarray]:
    """Equality rows and prescribed traces, with their right-hand sides."""
    problem = rows.problem
    index = np.flatnonzero(problem.equality)
    matrix = [rows.matrix[i] for i in index]
    values = [_number(Fraction(float(problem.lower[i]))) for i in index]
    for b, block in enumerate(problem.sets):
        if isinstance(block, SpectralBox) and block.trace is not None:
            parts = [_zeros((math.prod(s.shape),)) for s in problem.sets]
            parts[b] = _eye(block.n, Fraction(1)).reshape(-1)
            matrix.append(np.concatenate(parts))
            values.append(_number(Fraction(block.trace)))
    width = rows.matrix.shape[1]
    stacked = np.stack(matrix) if matrix else _zeros((0, width))
    return stacked, np.array(values, dtype=object)


def _candidates(
    flat: FloatArray, as_it_is: np.ndarray, denominators: tuple[int, ...]
) -> Iterator[tuple[np.ndarray, tuple[str, ...]]]:
    for denominator in denominators:
        yield _rounded(flat, denominator), (f"rounded to denominators of at most {denominator}",)
    yield as_it_is, ()


def _point_holds(rows: _ExactRows, x: np.ndarray) -> Outcome:
    problem = rows.problem
    margin = 1.0
    value = rows.matrix.dot(x) if problem.m else _zeros((0,))
    for i in range(problem.m):
        for bound, sign in ((problem.lower[i], 1), (problem.upper[i], -1)):
            if not np.isfinite(bound):
                continue
            left = sign * (value[i] - _number(Fraction(float(bound))))
            if left < 0:
                return refuse(f"row {problem.row_name(i)} is violated in exact arithmetic")
            if not problem.equality[i]:
                size = abs(_float(value[i])) + abs(float(bound))
                margin = min(margin, _float(left) / size if size > 0.0 else 1.0)
    for b, (block, part) in enumerate(zip(problem.sets, rows.blocks(x), strict=True)):
        inside = True
        if isinstance(block, PSD):
            inside = semidefinite_exact(part)
        elif isinstance(block, Nonneg):
            inside = all(v >= 0 for v in part)
        elif isinstance(block, SpectralBox):
            inside = semidefinite_exact(part - _eye(block.n, Fraction(block.lower))) and (
                semidefinite_exact(_eye(block.n, Fraction(block.upper)) - part)
            )
            if block.trace is not None:
                inside = inside and np.trace(part) == _number(Fraction(block.trace))
        if not inside:
            return refuse(f"block {problem.block_name(b)} is outside its set in exact arithmetic")
    return Outcome(
        True,
        margin,
        "the point, taken as rational numbers, meets every set and row exactly",
        rational=tuple(_fractions(part) for part in rows.blocks(x)),
    )


def _fraction(value: Any) -> Fraction:
    return value if isinstance(value, Fraction) else Fraction(int(value.p), int(value.q))


def _fractions(array: np.ndarray) -> np.ndarray:
    return np.vectorize(_fraction, otypes=[object])(array)


def _float(value: Any) -> float:
    try:
        return float(_fraction(value))
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _floats(array: np.ndarray) -> FloatArray:
    """Nearest floating-point numbers."""
    out = np.array([_float(v) for v in array.reshape(-1)], dtype=np.float64)
    return out.reshape(array.shape)


def exact_certificate(
    problem: FeasibilityProblem,
    y: FloatArray,
    *,
    repair: bool = True,
    denominators: tuple[int, ...] = DENOMINATORS,
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
    rows = _exact_rows(problem)
    if open_still:
        last = _certificate_holds(rows, _exact(y))
        if last.proven or not repair:
            return last
    # In the units of their rows, up to powers of two, so that the units of a row do not matter.
    factors = power_of_two(problem.norms)
    plain = y / factors
    size = np.abs(plain)
    largest = float(np.max(size))
    significant = float(np.min(size[size > 1e-6 * largest], initial=largest))
    back = _exact(factors)
    # Multipliers are meant up to a factor: let the largest, or the smallest that counts, be one.
    for unit in dict.fromkeys((largest, significant)):
        scaled = plain / unit
        if not np.isfinite(scaled).all():
            continue
        for candidate, said in _candidates(scaled, _exact(scaled), denominators):
            if not any(v != 0 for v in candidate):
                continue
            exact, done = _clear_free(rows, candidate * back)
            near = _floats(exact)
            if not _may_be_certificate(problem, near):
                continue
            outcome = _certificate_holds(rows, exact)
            if outcome.proven:
                return replace(outcome, evidence=near, repairs=said + done)
            last = outcome
    return last


def _may_be_certificate(problem: FeasibilityProblem, y: FloatArray) -> bool:
    """Whether floating-point numbers leave it open: what misses by more than rounding needs no proof."""
    if not np.isfinite(y).all():
        return False
    if np.any(sign_violation(problem, y) > 0.0):
        return False
    terms = problem.beta_terms(y)
    gap, scale = float(np.sum(terms)), float(np.sum(np.abs(terms)))
    for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True)):
        if rows is None:
            continue
        g = stable_adjoint(rows, y)
        size = float(np.abs(y) @ problem.block_norms[b])
        if not (np.isfinite(g).all() and math.isfinite(size)):
            return True
        lam = np.abs(g) if isinstance(block, Free) else block.spectrum(g)
        if isinstance(block, SpectralBox):
            gap -= block.support_spectrum(lam)
            scale += block.nuclear_radius * size
        elif float(np.max(lam)) > SLIP * size:
            return False
    return not gap < -SLIP * scale


def _clear_free(rows: _ExactRows, y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Correct multipliers so that ``A*y`` vanishes on the Free blocks, where that can be done."""
    problem = rows.problem
    free = np.concatenate([np.full(math.prod(s.shape), isinstance(s, Free)) for s in problem.sets])
    if not free.any():
        return y, ()
    columns = rows.matrix[:, free]
    off = columns.T.dot(y)
    if not any(v != 0 for v in off):
        return y, ()
    movable = np.array(
        [(np.isfinite(lo) and np.isfinite(hi)) or v != 0
         for lo, hi, v in zip(problem.lower, problem.upper, y, strict=True)]
    )  # fmt: skip
    part = columns[movable].T
    size = np.abs(_floats(y[movable]))
    unit = power_of_two(problem.norms[movable])
    signed = ~(np.isfinite(problem.lower) & np.isfinite(problem.upper))[movable]
    weight = np.where(signed, size, float(np.max(size / unit, initial=0.0)) * unit)
    step = _exact_step(part, _floats(part), weight, off)
    if step is None:
        return y, ()
    out = np.array(y)
    out[movable] = out[movable] - step
    return out, ("made A*y vanish on the free blocks",)


def _certificate_holds(rows: _ExactRows, y: np.ndarray) -> Outcome:
    problem = rows.problem
    gap, scale = _number(Fraction(0)), 0.0
    for i, weight in enumerate(y):
        if weight == 0:
            continue
        bound = problem.lower[i] if weight > 0 else problem.upper[i]
        if not np.isfinite(bound):
            return refuse(f"the multiplier of row {problem.row_name(i)} has a forbidden sign")
        term = weight * _number(Fraction(float(bound)))
        gap += term
        scale += abs(_float(term))
    gradient = rows.matrix.T.dot(y)
    for b, (block, g) in enumerate(zip(problem.sets, rows.blocks(gradient), strict=True)):
        if isinstance(block, SpectralBox):
            support = _box_support(block, g)
            if support is None:
                return refuse(f"block {problem.block_name(b)}: support function not bounded exactly")
            gap -= support
            scale += abs(_float(support))
            continue
        polar = (
            semidefinite_exact(-g)
            if isinstance(block, PSD)
            else all(v <= 0 for v in g)
            if isinstance(block, Nonneg)
            else all(v == 0 for v in g)
        )
        if not polar:
            return refuse(f"A*y is not in the polar of block {problem.block_name(b)} exactly")
    if not gap > 0:
        return refuse("the two sides of the certificate do not differ in exact arithmetic")
    return Outcome(
        True,
        min(_float(gap) / scale, 1.0) if scale > 0.0 else 1.0,
        "the multipliers, taken as rational numbers, rule out every point exactly",
        rational=_fractions(y),
    )


def _box_support(box: SpectralBox, g: np.ndarray) -> Any | None:
    """Rational upper bound of the support function, from ``g = theta·I + P - N``, P and N semidefinite.

    Then ``<g, Z> <= theta·trace + upper·tr P - lower·tr N``; theta is zero where no trace is prescribed.
    """
    approximate = _floats(g)
    if not np.isfinite(approximate).all():
        return None
    lam, vec = eigh(approximate)
    theta = 0.0
    if box.trace is not None:
        theta = float(lam[::-1][min(max(int(box.rank), 0), box.n - 1)])
    spread = float(np.max(np.abs(lam - theta), initial=0.0))
    rounded = spectral_matrix(vec, np.maximum(lam - theta, 0.0))
    if not (math.isfinite(spread) and np.isfinite(rounded).all()):
        return None
    split = _exact(rounded)
    shift = _number(Fraction(theta))
    # A little lift makes both parts semidefinite whatever the rounding; diagonal ones need none.
    for lift in (Fraction(0), Fraction(spread) * Fraction(1, 2**44) * box.n):
        positive = split + _eye(box.n, lift)
        negative = positive - g + shift * _eye(box.n, Fraction(1))
        if semidefinite_exact(positive) and semidefinite_exact(negative):
            total = _number(Fraction(box.upper)) * np.trace(positive)
            total -= _number(Fraction(box.lower)) * np.trace(negative)
            if box.trace is not None:
                total += shift * _number(Fraction(box.trace))
            return total
    return None
