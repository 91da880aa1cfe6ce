"""What a double holds exactly: numbers, sums and means that come through without rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sdpfeas.numerics.linalg import FloatArray

#: Integers up to this size are all doubles.
LARGEST_INTEGER = 2**53


def first_rounded(values: Any) -> Any | None:
    """First number that no double can hold, in an array or in nested lists; None if there is none."""
    # NumPy makes one type of all entries of a list, and rounds on its way: look before it does.
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
        # What was read from a file may be bits that are no number at all.
        with np.errstate(all="ignore"):
            off = (array.astype(np.float64) != array) & ~np.isnan(array)
        return array[off].flat[0] if off.any() else None
    return None


def add_up(place: np.ndarray, values: FloatArray) -> tuple[np.ndarray, FloatArray, np.ndarray]:
    """Sums of the values that share a place.

    Returns: for every place, in ascending order, the last value that stands there. Returns: the sum for
    every place; infinity where it overflows. Returns: those of ``index`` whose sum no double can hold.
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
            # The sum of doubles is a multiple of the smallest one: what is left over cannot underflow.
            exact = math.fsum([*terms, -totals[k]]) == 0.0
        except OverflowError:
            totals[k], exact = math.inf, False
        if not exact:
            rounded.append(index[k])
    return index, totals, np.array(rounded, dtype=np.int64)


def mean_of(a: Any, b: Any) -> tuple[Any, Any]:
    """Return ``(a + b) / 2`` of two arrays, sparse ones too, and what is zero just where it is exact."""
    # Halving first: the sum of two huge entries would overflow.
    x, y = 0.5 * a, 0.5 * b
    mean, lost = sum_of(x, y)
    # What the addition lost, and what halving lost to underflow.
    return mean, abs(lost) + abs(a - 2.0 * x) + abs(b - 2.0 * y)


def sum_of(a: Any, b: Any) -> tuple[Any, Any]:
    """Return ``a + b`` of two arrays, sparse ones too, and what the addition lost (Knuth's two-sum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
