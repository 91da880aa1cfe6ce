"""Exact mode: proofs in rational arithmetic, for small problems.

A claim is rounded to small denominators (which repairs what was meant to be a round number), made to meet
its equations exactly, and checked with an exact LDL' factorisation. Floating-point data are rationals too,
so every small problem qualifies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np

from sdpfeas.certificates.rigorous import Outcome, refuse
from sdpfeas.linalg import FloatArray, eigh, spectral_matrix
from sdpfeas.problem import FeasibilityProblem, Point
from sdpfeas.sets import PSD, Free, Nonneg, SpectralBox

__all__ = ["exact_certificate", "exact_point", "semidefinite_exact", "small_enough"]

#: Rational operations a proof may take; about a second with python-flint, a few without.
MAX_OPERATIONS = 200_000

#: Denominators a claim is rounded to before it is taken as it is.
DENOMINATORS = (1, 12, 1000, 10**6)

HAS_FLINT = find_spec("flint") is not None


def small_enough(problem: FeasibilityProblem) -> bool:
    """Whether a problem is small enough for exact mode."""
    entries = sum(math.prod(block.shape) for block in problem.sets)
    equations = int(problem.equality.sum())
    cubes = sum(3 * block.n**3 for block in problem.sets if block.matrix)
    return problem.m * entries + equations**2 * (entries + equations) + cubes <= MAX_OPERATIONS


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


def _solve(gram: np.ndarray, rhs: np.ndarray) -> np.ndarray | None:
    """One solution of a rational linear system, or None if it has none."""
    size = rhs.size
    table = np.concatenate([gram, rhs.reshape(-1, 1)], axis=1)
    pivots: list[tuple[int, int]] = []
    row = 0
    for col in range(size):
        hit = next((r for r in range(row, size) if table[r, col] != 0), None)
        if hit is None:
            continue
        if hit != row:
            table[[row, hit]] = table[[hit, row]]
        table[row] = table[row] / table[row, col]
        for r in range(size):
            if r != row and table[r, col] != 0:
                table[r] = table[r] - table[r, col] * table[row]
        pivots.append((row, col))
        row += 1
    if any(table[r, size] != 0 for r in range(row, size)):
        return None
    out = _zeros((size,))
    for r, c in pivots:
        out[c] = table[r, size]
    return out


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


def exact_point(problem: FeasibilityProblem, point: Point, *, repair: bool = True) -> Outcome:
    """Prove in rational arithmetic that a point near the given one is feasible.

    Parameters
    ----------
    problem : FeasibilityProblem
        A small problem.
    point : tuple of ndarray
        One array per set.
    repair : bool
        Round to small denominators and correct equality rows; else take the point exactly as it is.
    """
    if not small_enough(problem):
        return refuse("the problem is too large for exact mode")
    if not all(np.isfinite(x).all() for x in point):
        return refuse("the point holds NaN or infinity")
    rows = _ExactRows(problem)
    equations, values = _equations(rows)
    gram: np.ndarray | None = None
    flat = np.concatenate([x.reshape(-1) for x in point])
    last = refuse("no rational point near the given one is feasible")
    for candidate in _candidates(flat) if repair else [_exact(flat)]:
        x = candidate
        if values.size and repair:
            off = values - equations.dot(x)
            if any(v != 0 for v in off):
                gram = equations.dot(equations.T) if gram is None else gram
                step = _solve(gram, off)
                if step is None:
                    return refuse("the equality rows contradict each other")
                x = x + equations.T.dot(step)
        outcome = _point_holds(rows, x)
        if outcome.proven:
            return outcome
        last = outcome
    return last


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


def _candidates(flat: FloatArray) -> Iterator[np.ndarray]:
    for denominator in DENOMINATORS:
        yield _rounded(flat, denominator)
    yield _exact(flat)


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
    return Outcome(True, margin, "a rational point near the given one meets every set and row exactly")


def _float(value: Any) -> float:
    if isinstance(value, Fraction):
        return float(value)
    return float(Fraction(int(value.p), int(value.q)))


def exact_certificate(problem: FeasibilityProblem, y: FloatArray, *, repair: bool = True) -> Outcome:
    """Prove in rational arithmetic that multipliers near the given ones rule out every point.

    Parameters
    ----------
    problem : FeasibilityProblem
        A small problem.
    y : ndarray
        One multiplier per row.
    repair : bool
        Round to small denominators and clear the Free blocks; else take the multipliers as they are.
    """
    if not small_enough(problem):
        return refuse("the problem is too large for exact mode")
    if not np.isfinite(y).all() or not y.any():
        return refuse("the certificate is zero or holds NaN or infinity")
    rows = _ExactRows(problem)
    if not repair:
        return _certificate_holds(rows, _exact(y))
    size = np.abs(y)
    largest = float(np.max(size))
    significant = float(np.min(size[size > 1e-6 * largest]))
    last = refuse("no rational certificate near the given one holds")
    # Multipliers are meant up to a factor: let the largest, or the smallest that counts, be one.
    for unit in dict.fromkeys((largest, significant)):
        for candidate in _candidates(y / unit):
            if not any(v != 0 for v in candidate):
                continue
            outcome = _certificate_holds(rows, _clear_free(rows, candidate))
            if outcome.proven:
                return outcome
            last = outcome
    return last


def _clear_free(rows: _ExactRows, y: np.ndarray) -> np.ndarray:
    """Correct multipliers so that ``A*y`` vanishes on the Free blocks, where that can be done."""
    problem = rows.problem
    free = np.concatenate([np.full(math.prod(s.shape), isinstance(s, Free)) for s in problem.sets])
    if not free.any():
        return y
    columns = rows.matrix[:, free]
    off = columns.T.dot(y)
    if not any(v != 0 for v in off):
        return y
    movable = np.array(
        [(np.isfinite(lo) and np.isfinite(hi)) or v != 0
         for lo, hi, v in zip(problem.lower, problem.upper, y, strict=True)]
    )  # fmt: skip
    part = columns[movable]
    step = _solve(part.T.dot(part), off)
    if step is None:
        return y
    out = np.array(y)
    out[movable] = out[movable] - part.dot(step)
    return out


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
        "rational multipliers near the given ones rule out every point exactly",
    )


def _box_support(box: SpectralBox, g: np.ndarray) -> Any | None:
    """Rational upper bound of the support function, from ``g = theta·I + P - N``, P and N semidefinite.

    Then ``<g, Z> <= theta·trace + upper·tr P - lower·tr N``; theta is zero where no trace is prescribed.
    """
    approximate = np.array([[_float(v) for v in row] for row in g])
    lam, vec = eigh(approximate)
    theta = 0.0
    if box.trace is not None:
        theta = float(lam[::-1][min(max(int(box.rank), 0), box.n - 1)])
    spread = float(np.max(np.abs(lam - theta), initial=0.0))
    lift = Fraction(spread) * Fraction(1, 2**44) * box.n
    positive = _exact(spectral_matrix(vec, np.maximum(lam - theta, 0.0))) + _eye(box.n, lift)
    shift = _number(Fraction(theta))
    negative = positive - g + shift * _eye(box.n, Fraction(1))
    if not (semidefinite_exact(positive) and semidefinite_exact(negative)):
        return None
    total = _number(Fraction(box.upper)) * np.trace(positive)
    total -= _number(Fraction(box.lower)) * np.trace(negative)
    if box.trace is not None:
        total += shift * _number(Fraction(box.trace))
    return total
