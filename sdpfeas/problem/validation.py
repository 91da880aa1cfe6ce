"""Validation of user input, with uniform error messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set, Sized
from typing import Any

import numpy as np

from sdpfeas.errors import ProblemError, SdpfeasError
from sdpfeas.numerics.exact_arithmetic import first_rounded
from sdpfeas.numerics.linalg import SYMMETRY_TOLERANCE, FloatArray

__all__ = [
    "RowError",
    "counted",
    "distinct",
    "finite_number",
    "float_array",
    "listed",
    "real_number",
    "require_doubles",
    "require_exact_mean",
    "require_finite",
    "require_symmetric",
    "row_index",
]


class RowError(ProblemError):
    """One row is malformed. The index is an attribute, so that callers can report the name of the row."""

    def __init__(self, row: int, detail: str) -> None:
        super().__init__(row, detail)
        self.row, self.detail = row, detail

    def __str__(self) -> str:
        """Return index and detail."""
        return f"row {self.row}: {self.detail}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which takes a plural "s" unless the count is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def distinct(fresh: list[str], taken: list[str]) -> list[str]:
    """Append primes to names in ``fresh`` until all names are distinct."""
    seen = set(taken)
    out = []
    for name in fresh:
        while name in seen:
            name += "'"  # noqa: PLW2901
        seen.add(name)
        out.append(name)
    return out


def listed(values: Any, what: str, error: type[SdpfeasError] = ProblemError) -> list[Any]:
    """Convert an ordered collection to a list; ``what`` is the requirement, for the error message.

    Generators, which may be infinite, and sets, which have no order, are rejected.
    """
    if isinstance(values, (str, bytes, Mapping, Set)) or not (
        isinstance(values, Sized) and isinstance(values, Iterable)
    ):
        raise error(f"{what}, got {type(values).__name__}")
    try:
        return list(values)
    except TypeError:  # a 0-dimensional array has __iter__ but cannot be iterated
        raise error(f"{what}, got a single number") from None


def float_array(
    values: Any, what: str, error: type[SdpfeasError] = ProblemError, *, exact: bool = True
) -> FloatArray:
    """Copy to a float64 array; ``what`` names it in messages. ``exact=False`` permits rounding."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"dtype {array.dtype}")
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            raise TypeError("entries are masked")
    except (TypeError, ValueError) as refusal:
        raise error(f"{what} must be a real array: {refusal}") from None
    if exact:
        require_doubles(values, what)
    with np.errstate(over="ignore"):
        return np.array(array, dtype=np.float64, order="C")


def require_doubles(values: Any, what: str) -> None:
    """Raise ``ProblemError`` for numbers that are not exactly representable as doubles."""
    found = first_rounded(values)
    if found is not None:
        raise ProblemError(f"{what} hold {_rounding(found)}")


def _rounding(value: Any) -> str:
    return (
        f"{value}, which is not exactly representable as a double and would be rounded to "
        f"{float(value)!r}; round it first if that is intended"
    )


def finite_number(value: Any, what: str, hint: str = "") -> float:
    """Convert one finite number to a float."""
    number = real_number(value, what)
    if not math.isfinite(number):
        raise ProblemError(f"{what} must be finite, got {number}{hint}")
    return number


def real_number(value: Any, what: str) -> float:
    """Convert one number to a float without rounding; strings are rejected."""
    try:
        if isinstance(value, (str, bytes, bool)) or np.ndim(value) != 0:
            raise TypeError
        number = float(value) + 0.0
    except (TypeError, ValueError, OverflowError):
        raise ProblemError(f"{what} must be a number, got {value!r}") from None
    # Python integers compare with floats exactly, NumPy integers are converted first.
    plain = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if number != plain and not math.isnan(number):
        raise ProblemError(f"{what} is {_rounding(value)}")
    return number


def row_index(index: Any, m: int) -> np.ndarray:
    """Convert a boolean mask or a list of row indices to an array of row indices."""
    try:
        array = np.asarray(index)
    except ValueError as error:
        raise ProblemError(f"row numbers must be a vector: {error}") from None
    if array.ndim != 1:
        raise ProblemError(f"row numbers must be a vector, got shape {array.shape}")
    if array.dtype.kind == "b":
        if array.size != m:
            raise ProblemError(f"a mask over {m} rows must have that many entries, got {array.size}")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise ProblemError(f"row numbers must be integers, got dtype {array.dtype}")
    outside = (array < 0) | (array >= m)
    if outside.any():
        raise ProblemError(f"there is no row {array[np.argmax(outside)]}; rows are numbered 0 to {m - 1}")
    return array.astype(np.int64)


def require_finite(array: FloatArray, what: str) -> None:
    """Raise ``ProblemError`` for NaN and infinity."""
    bad = ~np.isfinite(array)
    if bad.any():
        place = tuple(int(k) for k in np.argwhere(bad)[0])
        raise ProblemError(f"{what} hold NaN or infinity at index {place}")


def require_symmetric(skew: FloatArray, size: FloatArray) -> None:
    """Raise ``RowError`` for a row with ``skew = max |A - A'|`` beyond rounding of ``size = max |A|``."""
    bad = skew > SYMMETRY_TOLERANCE * size
    if bad.any():
        i = int(np.argmax(bad))
        raise RowError(
            i,
            f"the matrix is not symmetric, entries differ by {skew[i]:.3g} "
            f"(largest entry {size[i]:.3g}); pass (A + A') / 2 if that is intended",
        )


def require_exact_mean(off: FloatArray) -> None:
    """Raise ``RowError`` for nearly symmetric rows with a rounding error ``off`` in ``(A + A') / 2``."""
    if off.any():
        raise RowError(
            int(np.argmax(off != 0.0)),
            "the matrix is symmetric only up to rounding, and the mean of two mirrored entries is not "
            "exactly representable; pass (A + A') / 2, rounded, if that is intended",
        )
