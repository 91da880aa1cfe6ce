"""What moves with ``delta`` in a linear family: bounds, rounded as a proof needs them, and rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import Point
from sdpfeas.problem.rows import Rows, Sparse
from sdpfeas.problem.sets import BlockSet

__all__ = ["Line", "adjoints", "column", "line_of", "moved", "row_values"]

#: The largest number; what is beyond it is rounded to infinity outwards, and to it inwards.
_LARGEST = Fraction(float(np.finfo(np.float64).max))


def moved(bound: FloatArray, slope: FloatArray, delta: float, direction: int) -> FloatArray:
    """``bound + delta·slope``, rounded up (1), down (-1) or to nearest (0)."""
    out = np.array(bound)
    step = Fraction(delta)
    for i in np.flatnonzero((slope != 0.0) & np.isfinite(bound)):
        exact = Fraction(float(bound[i])) + step * Fraction(float(slope[i]))
        value = float(min(max(exact, -_LARGEST), _LARGEST))
        if direction > 0 and Fraction(value) < exact:
            value = math.nextafter(value, math.inf)
        elif direction < 0 and Fraction(value) > exact:
            value = math.nextafter(value, -math.inf)
        out[i] = value
    return out


@dataclass(frozen=True)
class Line:
    """``fixed - delta·slope`` on a vector block as one sparse matrix; no entry is in both."""

    fixed: FloatArray
    slope: FloatArray
    pattern: Any

    def exact_at(self, delta: float) -> bool:
        """Whether no product underflows or overflows: a power of two may take ``delta`` out of the range."""
        with np.errstate(over="ignore"):
            # Those of the slopes themselves: twice a product may be a number where the product is none.
            exponents = np.frexp(self.slope)[1] - 1
            return bool(np.all(np.ldexp(np.ldexp(delta, exponents), -exponents) == delta))

    def at(self, delta: float) -> Rows:
        """The rows at ``delta``."""
        pattern = self.pattern
        parts = self.fixed - delta * self.slope, np.array(pattern.indices), np.array(pattern.indptr)
        return Sparse.sound(sp.csr_array(parts, pattern.shape), pattern.shape[1], False)


def line_of(fixed: Rows | None, slope: Rows | None) -> Line | None:
    """Rows that move without rounding, or None."""
    if not isinstance(slope, Sparse) or slope.matrix or not isinstance(fixed, Sparse | None):
        return None
    if not np.all(np.frexp(np.abs(slope.array.data))[0] == 0.5):  # powers of two only
        return None
    if fixed is None:
        return Line(np.zeros(slope.array.nnz), np.array(slope.array.data), slope.array)
    marks = [sp.csr_array((np.ones(a.nnz), a.indices, a.indptr), a.shape) for a in (fixed.array, slope.array)]
    # One entry for each of either; what is in both would be three.
    pattern = sp.csr_array(marks[0] + 2.0 * marks[1])
    pattern.sort_indices()
    if np.any(pattern.data == 3.0):
        return None
    data = {}
    for mark, rows in ((1.0, fixed), (2.0, slope)):
        data[mark] = np.zeros(pattern.nnz)
        # Both are in the same order, row by row.
        data[mark][pattern.data == mark] = rows.array.data
    return Line(data[1.0], data[2.0], pattern)


def row_values(rows: Sequence[Rows | None], point: Point, m: int) -> FloatArray:
    """Values of all rows at a point."""
    out = np.zeros(m)
    for part, x in zip(rows, point, strict=True):
        if part is not None:
            out += part.apply(x)
    return out


def adjoints(rows: Sequence[Rows | None], sets: Sequence[BlockSet], y: FloatArray) -> Point:
    """``A*y``, block by block."""
    return tuple(
        np.zeros(block.shape) if part is None else part.adjoint(y)
        for part, block in zip(rows, sets, strict=True)
    )


def column(start: int, stop: int, m: int, value: float = 1.0) -> Sparse:
    """Rows on a scalar block: ``value`` in the rows from ``start`` to ``stop``, zero in the others.

    Parameters
    ----------
    start, stop, m : int
        Which of the m rows.
    value : float
        The coefficient.
    """
    count = stop - start
    ends = np.clip(np.arange(m + 1) - start, 0, count)
    parts = np.full(count, value), np.zeros(count, dtype=np.int64), ends
    return Sparse.sound(sp.csr_array(parts, (m, 1)), 1, False)
