"""Numbers of evidence: short texts, rounding, and exact linear algebra over the rationals (python-flint)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.errors import NotProved
from sdpfeas.numerics.linalg import FloatArray

#: Most digits of a number in evidence.
MOST_DIGITS = 12_000


def text(value: Fraction | int) -> int | str:
    """Write a number for evidence: an integer, a binary number with exponent, or ``p/q``."""
    p, q = int(value.numerator), int(value.denominator)
    if q == 1 and abs(p) < 2**53:
        return p
    if max(p.bit_length(), q.bit_length()) > 3.3 * MOST_DIGITS:
        raise NotProved("the numbers of the evidence are too long")
    if q & (q - 1) == 0:
        shift = (p & -p).bit_length() - 1 if q == 1 else 0
        return f"{'-' * (p < 0)}0x{abs(p) >> shift:x}p{shift + 1 - q.bit_length()}"
    return f"{p}/{q}" if p.bit_length() + q.bit_length() < 200 else f"{p:#x}/{q:#x}"


def texts(values: Iterable[Fraction | int]) -> list[int | str]:
    """Write numbers for evidence."""
    return [text(v) for v in values]


def fractions(values: Any) -> list[Fraction]:
    """Convert numbers (floats, fractions or ``fmpq``) to a flat list of fractions."""
    flat = np.asarray(values).reshape(-1).tolist()
    return [Fraction(int(v.p), int(v.q)) if hasattr(v, "q") else Fraction(v) for v in flat]


def floats(values: Iterable[Fraction]) -> FloatArray:
    """Round to the nearest doubles; infinite on overflow."""

    def one(value: Fraction) -> float:
        try:
            return float(value)
        except OverflowError:
            return np.inf if value > 0 else -np.inf

    return np.array([one(v) for v in values], dtype=np.float64)


def on_grid(value: Fraction, bits: int) -> Fraction:
    """Round to the nearest multiple of ``2 ** -bits``."""
    return Fraction(round(value * Fraction(2) ** bits)) / Fraction(2) ** bits


def exponent(value: float) -> int:
    """Return the exponent ``k`` with ``2 ** (k - 1) <= value < 2 ** k``."""
    return int(np.frexp(value)[1])


def _matrix(rows: Sequence[Sequence[Fraction]], width: int) -> Any:
    import flint

    entries = [flint.fmpq(int(v.numerator), int(v.denominator)) for row in rows for v in row]
    return flint.fmpq_mat(len(rows), width, entries)


def solve(rows: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> list[Fraction] | None:
    """Solve a square rational system; None if it is singular."""
    try:
        found = _matrix(rows, len(right)).solve(_matrix([[v] for v in right], 1))
    except ZeroDivisionError:
        return None
    return fractions(found.entries())


def echelon(rows: Sequence[Sequence[Fraction]], width: int) -> tuple[list[list[Fraction]], list[int]]:
    """Return the non-zero rows of the reduced row echelon form, and their pivot columns."""
    form, rank = _matrix(rows, width).rref()
    flat = form.entries()
    table = [fractions(flat[i * width : (i + 1) * width]) for i in range(rank)]
    return table, [next(k for k, v in enumerate(row) if v) for row in table]


def kernel(rows: Sequence[Sequence[Fraction]], width: int) -> tuple[list[list[Fraction]], list[int]]:
    """Return a basis of the kernel as primitive integer columns, and for each the index it alone occupies."""
    table, pivots = echelon(rows, width)
    free = [k for k in range(width) if k not in set(pivots)]
    columns = []
    for k in free:
        column = [Fraction(0)] * width
        column[k] = Fraction(1)
        for row, pivot in zip(table, pivots, strict=True):
            column[pivot] = -row[k]
        columns.append(primitive(column))
    return columns, free


def primitive(column: Sequence[Fraction]) -> list[Fraction]:
    """Scale a vector to integers without a common divisor."""
    d = math.lcm(*(v.denominator for v in column))
    whole = [int(v * d) for v in column]
    g = math.gcd(*whole) or 1
    return [Fraction(v // g) for v in whole]
