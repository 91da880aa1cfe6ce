"""Rational numbers (python-flint's ``fmpq``), arrays of them, linear systems and definiteness."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.numerics.linalg import FloatArray

__all__ = [
    "echelon",
    "eye",
    "number",
    "rounded",
    "semidefinite_exact",
    "solve_exact",
    "to_float",
    "to_floats",
    "to_fractions",
    "to_rationals",
    "zeros",
]


def number(value: float | Fraction) -> Any:
    """A number as an exact rational."""
    import flint

    return flint.fmpq(*value.as_integer_ratio())


def to_rationals(array: FloatArray) -> np.ndarray:
    """The same numbers as rationals."""
    return np.vectorize(lambda v: number(float(v)), otypes=[object])(array)


def rounded(array: FloatArray, denominator: int) -> np.ndarray:
    """Nearest rationals with a denominator of at most ``denominator``."""

    def one(value: float) -> Any:
        return number(Fraction(float(value)).limit_denominator(denominator))

    return np.vectorize(one, otypes=[object])(array)


def zeros(shape: tuple[int, ...]) -> np.ndarray:
    """An array of zeros."""
    return np.full(shape, number(0), dtype=object)


def eye(n: int, value: float | Fraction = 1) -> np.ndarray:
    """A multiple of the identity matrix."""
    out = zeros((n, n))
    out[np.diag_indices(n)] = number(value)
    return out


def _fraction(value: Any) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def to_fractions(array: np.ndarray) -> np.ndarray:
    """The same numbers as fractions of the standard library."""
    return np.vectorize(_fraction, otypes=[object])(array)


def to_float(value: Any) -> float:
    """Nearest floating-point number; infinity where there is none."""
    try:
        return float(_fraction(value))
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def to_floats(array: np.ndarray) -> FloatArray:
    """Nearest floating-point numbers."""
    out = np.array([to_float(v) for v in array.reshape(-1)], dtype=np.float64)
    return out.reshape(array.shape)


def echelon(matrix: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Rows of the reduced row echelon form that are not zero, and their pivot columns."""
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


def semidefinite_exact(matrix: np.ndarray) -> bool:
    """Decide whether a symmetric matrix of rationals is positive semidefinite.

    All roots of its characteristic polynomial are real; none is negative if and only if the signs alternate.
    """
    import flint

    n = matrix.shape[0]
    whole, _ = flint.fmpq_mat(n, n, matrix.reshape(-1).tolist()).numer_denom()
    signs = whole.charpoly()
    return all((signs[k] if (n - k) % 2 == 0 else -signs[k]) >= 0 for k in range(n + 1))
