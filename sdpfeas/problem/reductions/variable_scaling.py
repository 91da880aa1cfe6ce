"""Scale variables by powers of two where their units differ by orders of magnitude.

``X in PSD(n)`` → ``X = D Y D``, ``Y in PSD(n)``, D diagonal; ``x`` in Nonneg or Free → ``x = D y``; one
factor for every other cone, none for boxes. Coefficients change by powers of two, without rounding.
Multipliers: unchanged. D minimises the squared logarithms of the ratios between the terms of a row and its
bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.problem.reductions.base import Reduction, changed
from sdpfeas.problem.rows import Dense, Sparse
from sdpfeas.problem.rows.base import stored_rows

#: Variables are not scaled if their units differ by fewer bits.
MIN_RANGE_BITS = 12

#: Problems with more row entries are not scaled.
MAX_SCALED_ENTRIES = 20_000

#: Weight of the regularisation towards unit factors, which makes the least-squares solution unique.
REGULARISATION_WEIGHT = 1e-2


@dataclass(frozen=True)
class VariableScaling(Reduction):
    """A problem with scaled variables; ``problem is original`` if scaling is not needed."""

    _units: tuple[FloatArray, ...]

    def point(self, point: Point) -> Point:
        """Return ``X = D Y D`` or ``x = D y``."""
        return tuple(x * unit for x, unit in zip(point, self._units, strict=True))

    def start_point(self, point: Point) -> Point:
        """Return ``Y = D^-1 X D^-1`` or ``y = D^-1 x``."""
        return tuple(x / unit for x, unit in zip(point, self._units, strict=True))


def scale_variables(problem: FeasibilityProblem) -> VariableScaling:
    """Scale the variables of a problem, unless it has LMIs or more than ``MAX_SCALED_ENTRIES`` entries."""
    same = VariableScaling(problem, problem, tuple(np.ones(block.shape) for block in problem.sets))
    kinds = all(isinstance(rows, (Dense, Sparse)) for rows in problem.rows)
    entries = sum(rows.entries for rows in problem.rows)
    if problem.lmis or not problem.m or not kinds or entries > MAX_SCALED_ENTRIES:
        return same
    stored = [rows.explicit() for rows in problem.rows]
    exponents = _exponents(problem, stored)
    if exponents is None:
        return same
    units = tuple(np.ldexp(1.0, part) for part in exponents)
    made = []
    for block, csr, unit in zip(problem.sets, stored, units, strict=True):
        with np.errstate(all="ignore"):
            data = csr.data * unit.reshape(-1)[csr.indices]
            if not np.array_equal(data / unit.reshape(-1)[csr.indices], csr.data):
                return same
        scaled = sp.csr_array((data, csr.indices, csr.indptr), shape=csr.shape)
        made.append(Sparse(scaled, block.n, block.matrix))
    return VariableScaling(problem, changed(problem, rows=made), units)


def _exponents(problem: FeasibilityProblem, stored: list[sp.csr_array]) -> list[np.ndarray] | None:
    """Return the binary exponents of the units, entry by entry; None if their range is small.

    Minimises the squared log2 of coefficient, units and row factor over all entries and bounds (LSQR).
    """
    lines, columns, weights, right, count = [], [], [], [], 0
    places, starts, width = [], [], 0
    for block in problem.sets:
        size = 0 if block.bounded else block.n if block.entrywise or block.matrix else 1
        starts.append(width)
        places.append(size)
        width += size

    def add(row: np.ndarray, column: np.ndarray, weight: float = 1.0) -> None:
        lines.append(row)
        columns.append(column)
        weights.append(np.full(row.size, weight))

    for block, csr, start, size in zip(problem.sets, stored, starts, places, strict=True):
        own = np.flatnonzero(csr.data)
        k = count + np.arange(own.size)
        add(k, width + stored_rows(csr)[own])
        if size == block.n and block.matrix:
            i, j = np.divmod(csr.indices[own], block.n)
            add(k, start + i)
            add(k, start + j)
        elif size:
            add(k, start + (csr.indices[own] if size == block.n else 0 * own))
        right.append(-np.log2(np.abs(csr.data[own])))
        count += own.size
    bound = largest_bound(problem)
    given = np.flatnonzero(bound)
    add(count + np.arange(given.size), width + given)
    right.append(-np.log2(bound[given]))
    count += given.size
    total = width + problem.m
    add(count + np.arange(width), np.arange(width), REGULARISATION_WEIGHT)
    right.append(np.zeros(width))
    triple = (np.concatenate(weights), (np.concatenate(lines), np.concatenate(columns)))
    matrix = sp.csr_array(triple, shape=(count + width, total))
    found = np.rint(lsqr(matrix, np.concatenate(right), iter_lim=1000)[0][:width]).astype(np.int64)
    if not width or np.max(found) - np.min(found) < MIN_RANGE_BITS:
        return None
    out = []
    for block, start, size in zip(problem.sets, starts, places, strict=True):
        own = found[start : start + size] if size else np.zeros(1, dtype=np.int64)
        whole = np.add.outer(own, own) if block.matrix else own
        out.append(np.broadcast_to(whole, block.shape))
    return out
