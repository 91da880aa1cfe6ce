"""Rational numbers, of python-flint's kind where it is installed, and arrays of them."""

from __future__ import annotations

import math
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np

from sdpfeas.numerics.linalg import FloatArray

__all__ = [
    "HAS_FLINT",
    "eye",
    "number",
    "rounded",
    "to_float",
    "to_floats",
    "to_fractions",
    "to_rationals",
    "zeros",
]

HAS_FLINT = find_spec("flint") is not None


def number(value: Fraction) -> Any:
    """Return a rational of the fastest kind there is."""
    if HAS_FLINT:
        import flint

        return flint.fmpq(value.numerator, value.denominator)
    return value


def to_rationals(array: FloatArray) -> np.ndarray:
    """The same numbers as rationals."""
    return np.vectorize(lambda v: number(Fraction(float(v))), otypes=[object])(array)


def rounded(array: FloatArray, denominator: int) -> np.ndarray:
    """Nearest rationals with a denominator of at most ``denominator``."""

    def one(value: float) -> Any:
        return number(Fraction(float(value)).limit_denominator(denominator))

    return np.vectorize(one, otypes=[object])(array)


def zeros(shape: tuple[int, ...]) -> np.ndarray:
    """An array of zeros."""
    return np.full(shape, number(Fraction(0)), dtype=object)


def eye(n: int, value: Fraction) -> np.ndarray:
    """A multiple of the identity matrix."""
    out = zeros((n, n))
    out[np.diag_indices(n)] = number(value)
    return out


def _fraction(value: Any) -> Fraction:
    return value if isinstance(value, Fraction) else Fraction(int(value.p), int(value.q))


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
