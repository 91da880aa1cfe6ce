"""Exact arithmetic: error-free sums of doubles, the decimal or fraction behind a double, and rationals.

``add_up``, ``mean_of`` and ``sum_of`` detect rounding (Knuth's two-sum); ``written`` returns the simplest
decimal or fraction that rounds to a double; rational linear systems and definiteness use python-flint's
``fmpq``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg

from sdpfeas.errors import OptionError
from sdpfeas.numerics.linalg import FloatArray

# --- sums and means of doubles, with detection of rounding

#: Integers up to this size are all doubles.
LARGEST_INTEGER = 2**53


def first_rounded(values: Any) -> Any | None:
    """Return the first number that is not a double, in an array or nested lists; None if all are."""
    # NumPy converts a list to one type, which may round: check the entries first.
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return next((found for v in values if (found := first_rounded(v)) is not None), None)
    if isinstance(values, float):
        return None
    array = np.asarray(values)
    if array.dtype.kind in "iu" and array.dtype.itemsize >= 8:
        large = array[(array > LARGEST_INTEGER) | (array < -LARGEST_INTEGER)]
        # Python compares integers with floats exactly, NumPy does not.
        return next((v for v in large.tolist() if float(v) != v), None)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        # Bits read from a file need not be a valid extended-precision number.
        with np.errstate(all="ignore"):
            off = (array.astype(np.float64) != array) & ~np.isnan(array)
        return array[off].flat[0] if off.any() else None
    return None


def add_up(place: np.ndarray, values: FloatArray) -> tuple[np.ndarray, FloatArray, np.ndarray]:
    """Add up the values of equal ``place`` and detect rounding.

    Returns, for the distinct places in ascending order, the index of the last value of each and the sums
    (infinity on overflow), then the indices of those sums that are not exact.
    """
    order = np.argsort(place, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(place[order]) != 0, np.ones(min(order.size, 1), dtype=bool))) + 1
    starts = np.append(0, ends[:-1])[: ends.size]
    index, totals = order[ends - 1], values[order[ends - 1]]
    rounded = []
    for k in np.flatnonzero(ends - starts > 1):
        terms = values[order[starts[k] : ends[k]]].tolist()
        try:
            totals[k] = math.fsum(terms)
            # A sum of doubles is a multiple of the smallest subnormal: the remainder cannot underflow.
            exact = math.fsum([*terms, -totals[k]]) == 0.0
        except OverflowError:
            totals[k], exact = math.inf, False
        if not exact:
            rounded.append(index[k])
    return index, totals, np.array(rounded, dtype=np.int64)


def mean_of(a: Any, b: Any) -> tuple[Any, Any]:
    """Return ``(a + b) / 2`` of dense or sparse arrays, and an array that is zero only where it is exact."""
    # Halving first: the sum of two huge entries would overflow.
    x, y = 0.5 * a, 0.5 * b
    mean, lost = sum_of(x, y)
    # Rounding error of the addition, and underflow error of the halving.
    return mean, abs(lost) + abs(a - 2.0 * x) + abs(b - 2.0 * y)


def sum_of(a: Any, b: Any) -> tuple[Any, Any]:
    """Return ``a + b`` of dense or sparse arrays, and its rounding error (Knuth's two-sum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


#: Decimals of at most this many digits are preferred to fractions: few random doubles have such a decimal.
SHORT_DIGITS = 9

#: Every decimal of at most this many digits is the shortest that rounds to its double.
DECIMAL_DIGITS = 15

#: Largest numerator times denominator of a simple fraction, and largest odd factor of an integer times a
#: power of two. Fewer than one random double in a million rounds from such a number.
SIMPLE_FRACTION_SIZE = 2**30

#: Integers up to this size are taken as exact data: fewer than one random double in a hundred of that size is
#: an integer, and a row holds many numbers.
LARGEST_EXACT_INTEGER = 2**45


@lru_cache(maxsize=65_536)
def written(value: float) -> Fraction:
    """Return the simplest number that rounds to a double: its decimal data.

    In this order: the double itself, if it is an integer up to 2⁴⁵, or one below 2³⁰ times a power of two; a
    decimal of at most 9 digits; a fraction whose numerator times denominator is at most 2³⁰; a decimal of at
    most 15 digits; the double itself. The result always rounds to ``value``. Raises ``ValueError`` for NaN
    and ``OverflowError`` for infinity.
    """
    value = float(value)
    stored = Fraction(value)
    if value < 0.0:
        return -written(-value)
    simple = _simple(value, stored)
    if simple is not None:
        return simple
    return Fraction(repr(value)) if _digits(value) <= DECIMAL_DIGITS else stored


def is_simple(value: float | Fraction) -> bool:
    """Whether a finite number has a short binary, short decimal or simple fractional form.

    A ``Fraction`` must equal that form itself; for a float it is enough that the form rounds to it.
    """
    try:
        size = abs(float(value))
    except OverflowError:
        return False
    found = _simple(size, Fraction(size))
    return found is not None and (not isinstance(value, Fraction) or found == abs(value))


def _simple(value: float, stored: Fraction) -> Fraction | None:
    """Return the short binary, short decimal or simple fraction that rounds to a number; None without one."""
    if _odd_part(stored.numerator) <= SIMPLE_FRACTION_SIZE or (
        stored.denominator == 1 and stored <= LARGEST_EXACT_INTEGER
    ):
        return stored
    if _digits(value) <= SHORT_DIGITS:
        return Fraction(repr(value))
    # Numerator times denominator is at least the number, and at least its inverse.
    return _simplest(value) if 1.0 / SIMPLE_FRACTION_SIZE < value < SIMPLE_FRACTION_SIZE else None


def _digits(value: float) -> int:
    """Count the digits of the shortest decimal that rounds to a number."""
    return len(repr(value).partition("e")[0].replace(".", "").strip("0"))


def _odd_part(number: int) -> int:
    """Divide an integer by the largest power of two that divides it."""
    return number // (number & -number) if number else 0


def _simplest(value: float) -> Fraction | None:
    """Return the fraction of smallest denominator that rounds to a positive number; None if not simple."""
    # The interval that rounds to the number, scaled to integers: faster than Fraction arithmetic.
    ends = [float(value), math.nextafter(value, 0.0), math.nextafter(value, math.inf)]
    unit = 2 * max(Fraction(end).denominator for end in ends)
    middle, below, above = (int(Fraction(end) * unit) for end in ends)
    found = simplest_between((middle + below) // 2, (middle + above) // 2, unit, SIMPLE_FRACTION_SIZE)
    # The ends of the interval round to even, possibly to a neighbour.
    return found if found is not None and float(found) == value else None


def simplest_between(low: int, high: int, unit: int, most: int) -> Fraction | None:
    """Return the fraction of smallest denominator in ``[low / unit, high / unit]``, both positive.

    Returns None if its numerator times denominator exceeds ``most``.
    """
    low_unit, high_unit = unit, unit
    # Continued fractions: both ends share their partial quotients until an integer lies between them.
    p, q, before_p, before_q = 1, 0, 0, 1
    while True:
        quotient = -(-low // low_unit)
        inside = quotient * high_unit <= high
        if not inside:
            quotient -= 1
        p, before_p = quotient * p + before_p, p
        q, before_q = quotient * q + before_q, q
        if p * q > most:
            return None
        if inside:
            return Fraction(p, q)
        low, low_unit, high, high_unit = (
            high_unit,
            high - quotient * high_unit,
            low_unit,
            low - quotient * low_unit,
        )


class Reading(StrEnum):
    """Which numbers a verdict is about: the binary64 data, or the decimals and fractions they stand for."""

    STORED = "stored"
    WRITTEN = "written"


#: Maps a reading to the function that maps a double to the exact number it represents.
READERS: dict[Reading, Callable[[float], Fraction]] = {Reading.STORED: Fraction, Reading.WRITTEN: written}


def as_reading(value: str) -> Reading:
    """Parse the name of a reading; raise ``OptionError`` for an unknown one."""
    if value not in set(Reading):
        known = " or ".join(repr(str(reading)) for reading in Reading)
        raise OptionError(f"reading must be {known}, got {value!r}")
    return Reading(value)


# --- rationals: arrays of fmpq, linear systems, definiteness


def number(value: float | Fraction) -> Any:
    """Convert a number to an ``fmpq``."""
    import flint

    return flint.fmpq(*value.as_integer_ratio())


def to_rationals(array: FloatArray) -> np.ndarray:
    """Convert an array of doubles to ``fmpq``."""
    return np.vectorize(lambda v: number(float(v)), otypes=[object])(array)


def rounded(array: FloatArray, denominator: int) -> np.ndarray:
    """Round to the nearest rationals with a denominator of at most ``denominator``."""

    def one(value: float) -> Any:
        return number(Fraction(float(value)).limit_denominator(denominator))

    return np.vectorize(one, otypes=[object])(array)


def zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of rational zeros."""
    return np.full(shape, number(0), dtype=object)


def eye(n: int, value: float | Fraction = 1) -> np.ndarray:
    """Return ``value`` times the identity matrix, as rationals."""
    out = zeros((n, n))
    out[np.diag_indices(n)] = number(value)
    return out


def _fraction(value: Any) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def to_fractions(array: np.ndarray) -> np.ndarray:
    """Convert an array of ``fmpq`` to ``fractions.Fraction``."""
    return np.vectorize(_fraction, otypes=[object])(array)


def to_float(value: Any) -> float:
    """Round to the nearest double; infinity on overflow."""
    try:
        return float(_fraction(value))
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def fractions_to_floats(array: np.ndarray) -> FloatArray:
    """Round an array of ``fractions.Fraction`` to the nearest doubles; infinity on overflow."""
    return to_floats(np.vectorize(number, otypes=[object])(array)) if array.size else np.zeros(array.shape)


def rounded_down(value: Fraction) -> float:
    """Return the largest double that is at most a fraction; minus infinity on overflow."""
    try:
        near = float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.nextafter(math.inf, 0.0)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def to_floats(array: np.ndarray) -> FloatArray:
    """Round an array of ``fmpq`` to the nearest doubles."""
    out = np.array([to_float(v) for v in array.reshape(-1)], dtype=np.float64)
    return out.reshape(array.shape)


def echelon(matrix: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return the non-zero rows of the reduced row echelon form, and their pivot columns."""
    import flint

    rows, columns = matrix.shape
    form, rank = flint.fmpq_mat(rows, columns, matrix.reshape(-1).tolist()).rref()
    table = np.array([*form.entries(), None], dtype=object)[:-1].reshape(matrix.shape)[:rank]
    return table, [int(np.argmax(row != 0)) for row in table]


def solve_exact(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Solve a square rational system; None if it is singular."""
    import flint

    n = right.size
    try:
        found = flint.fmpq_mat(n, n, matrix.reshape(-1).tolist()).solve(flint.fmpq_mat(n, 1, right.tolist()))
    except ZeroDivisionError:
        return None
    return np.array(found.entries(), dtype=object)


def exact_step(
    matrix: np.ndarray, near: FloatArray, weight: FloatArray, off: np.ndarray
) -> np.ndarray | None:
    """Find a short rational ``step`` with ``matrix @ step = off``; None if none is found.

    Only as many entries move as there are independent equations. They are chosen by pivoted QR factorisation
    of the columns scaled by ``weight`` (how far each entry may move), so that the system is well-conditioned.
    Redundant equations must hold by themselves.
    """
    table = near * weight
    size = np.linalg.norm(table, axis=1)
    if not np.isfinite(table).all() or not table.size:
        return None
    table = table / np.where(size > 0.0, size, 1.0)[:, None]
    _, triangle, columns = scipy.linalg.qr(table, mode="economic", pivoting=True)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int(np.sum(diagonal > 1e-10 * np.max(diagonal, initial=0.0)))
    step = zeros((matrix.shape[1],))
    if rank:
        columns = columns[:rank]
        index = scipy.linalg.qr(table[:, columns].T, mode="economic", pivoting=True)[2][:rank]
        part = solve_exact(matrix[np.ix_(index, columns)], off[index])
        if part is None:
            return None
        step[columns] = part
    return step if all(a == b for a, b in zip(matrix.dot(step), off, strict=True)) else None


#: Precisions in bits of a factorisation in balls.
BALL_BITS = 128, 768


def _definite_in_balls(matrix: np.ndarray, bits: int) -> bool:
    """Prove a symmetric matrix of rationals definite: all pivots of ``L D L'`` are positive balls."""
    import flint

    with flint.ctx.workprec(bits):
        rest = [[flint.arb(v) for v in line] for line in matrix]
        for k, own in enumerate(rest):
            if not own[k] > 0:
                return False
            for i in range(k + 1, len(rest)):
                share = own[i] / own[k]
                for j in range(i, len(rest)):
                    rest[i][j] -= share * own[j]
    return True


def semidefinite_exact(matrix: np.ndarray) -> bool:
    """Decide whether the symmetric part of a matrix of rationals is positive semidefinite.

    Rows and columns of zeros are left out. A definite matrix is usually proved so by a factorisation in
    balls. Otherwise: all roots of its characteristic polynomial are real, and none is negative if and only if
    the signs alternate.
    """
    import flint

    matrix = (matrix + matrix.T) / 2
    used = [i for i, line in enumerate(matrix) if any(v != 0 for v in line)]
    matrix = matrix[np.ix_(used, used)]
    n = matrix.shape[0]
    if any(_definite_in_balls(matrix, bits) for bits in BALL_BITS):
        return True
    whole, _ = flint.fmpq_mat(n, n, matrix.reshape(-1).tolist()).numer_denom()
    signs = whole.charpoly()
    return all((signs[k] if (n - k) % 2 == 0 else -signs[k]) >= 0 for k in range(n + 1))
