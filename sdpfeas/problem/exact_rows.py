"""The rows and LMIs of a problem in rational arithmetic, for either reading: :func:`exact_rows`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from sdpfeas.numerics.exact_arithmetic import Reading, eye, number, to_floats, written, zeros
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows.base import Read, fractions
from sdpfeas.problem.sets import BlockSet


class ExactLmi:
    """An LMI in rational arithmetic, over the stacked entries of all blocks."""

    def __init__(self, problem: FeasibilityProblem, lmi: LMI, read: Read) -> None:
        self.set = lmi.set
        self.constant = fractions(lmi.constant.reshape(-1), read)
        parts = []
        for block, rows in zip(problem.sets, lmi.coefficients, strict=True):
            if rows.empty:
                parts.append(zeros((block.entries, lmi.set.entries)))
                continue
            stacked = np.stack([rows.exact_row(i, read).reshape(-1) for i in range(rows.m)])
            # Transposed entries have equal stored coefficients, but not always equal decimals.
            turned = np.arange(rows.m).reshape(block.shape).T.reshape(-1)
            parts.append((stacked + stacked[turned]) / 2)
        #: One row per entry of the blocks, one column per entry of the value.
        self.matrix = np.concatenate(parts)

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return ``F(X)`` for a point over the stacked blocks."""
        return np.asarray((self.constant + self.matrix.T.dot(x)).reshape(self.set.shape))

    @cached_property
    def entries(self) -> np.ndarray:
        """Positions of the entries on and above the diagonal, or of all entries of a vector."""
        return _upper(self.mirror)

    @cached_property
    def mirror(self) -> np.ndarray:
        """For every entry the position of its transposed entry."""
        return _mirror([self.set])

    @cached_property
    def folded(self) -> np.ndarray:
        """The matrix on the upper triangle only, with the coefficients of transposed entries added."""
        return _folded(self.matrix, self.mirror)


def _mirror(blocks: Sequence[BlockSet]) -> np.ndarray:
    """For every stacked entry the position of its transposed entry; on vectors and diagonals its own."""
    out, start = [], 0
    for block in blocks:
        place = np.arange(start, start + block.entries).reshape(block.shape)
        out.append(place.T.reshape(-1))
        start += block.entries
    return np.concatenate(out)


def _upper(mirror: np.ndarray) -> np.ndarray:
    """Return the positions of the entries on and above the diagonals."""
    return np.flatnonzero(mirror >= np.arange(mirror.size))


def _folded(matrix: np.ndarray, mirror: np.ndarray) -> np.ndarray:
    """Restrict rows to the upper triangles, with the coefficients of transposed entries added."""
    own = _upper(mirror)
    paired = mirror[own] > own
    folded = matrix[:, own]
    folded[:, paired] = folded[:, paired] + matrix[:, mirror[own][paired]]
    return folded


#: The rational number that a stored number stands for, by reading.
RATIONAL_READERS: dict[Reading, Read] = {
    Reading.STORED: number,
    Reading.WRITTEN: lambda value: number(written(value)),
}


class ExactRows:
    """All rows of a problem in rational arithmetic, as one matrix over the stacked entries of all blocks."""

    def __init__(self, problem: FeasibilityProblem, reading: Reading = Reading.STORED) -> None:
        self.problem, self.reading = problem, reading
        self._read = RATIONAL_READERS[reading]
        parts = []
        for _, block, rows in problem.blocks():
            width = math.prod(block.shape)
            if rows.empty or problem.m == 0:
                parts.append(zeros((problem.m, width)))
                continue
            parts.append(np.stack([rows.exact_row(i, self._read).reshape(-1) for i in range(problem.m)]))
        self.matrix = np.concatenate(parts, axis=1)
        self.lmis = [ExactLmi(problem, lmi, self._read) for lmi in problem.lmis]
        self.splits = np.cumsum([math.prod(block.shape) for block in problem.sets])[:-1]

    def number(self, value: float) -> Any:
        """Return the rational number that a stored number stands for."""
        return self._read(float(value))

    def blocks(self, vector: np.ndarray) -> list[np.ndarray]:
        """Split a vector over the stacked entries into blocks."""
        pieces = np.split(vector, self.splits)
        return [p.reshape(b.shape) for p, b in zip(pieces, self.problem.sets, strict=True)]

    @cached_property
    def equations(self) -> tuple[np.ndarray, np.ndarray]:
        """Equality rows and prescribed traces, with their right-hand sides."""
        return _equations(self)

    @cached_property
    def mirror(self) -> np.ndarray:
        """For every entry the position of its transposed entry; its own position on vectors and diagonals."""
        return _mirror(self.problem.sets)

    @cached_property
    def folded(self) -> tuple[np.ndarray, FloatArray, np.ndarray]:
        """The equations on the upper triangles, exact and in doubles, and the positions of these entries."""
        folded = self.fold(self.equations[0])
        return folded, to_floats(folded), self.own

    @cached_property
    def own(self) -> np.ndarray:
        """Positions of the entries on and above the diagonals."""
        return _upper(self.mirror)

    def fold(self, matrix: np.ndarray) -> np.ndarray:
        """Restrict rows to the upper triangles, with the coefficients of transposed entries added."""
        return _folded(matrix, self.mirror)


def _equations(rows: ExactRows) -> tuple[np.ndarray, np.ndarray]:
    """Collect the equality rows and prescribed traces with their right-hand sides."""
    problem = rows.problem
    index = problem.equality_rows
    matrix = [rows.matrix[i] for i in index]
    values = [rows.number(problem.lower[i]) for i in index]
    for b, block in enumerate(problem.sets):
        if block.trace is not None:
            parts = [zeros((math.prod(s.shape),)) for s in problem.sets]
            parts[b] = eye(block.n).reshape(-1)
            matrix.append(np.concatenate(parts))
            values.append(rows.number(block.trace))
    width = rows.matrix.shape[1]
    stacked = np.stack(matrix) if matrix else zeros((0, width))
    return stacked, np.array(values, dtype=object)


def exact_rows(problem: FeasibilityProblem, reading: Reading = Reading.STORED) -> ExactRows:
    """Return the rational rows of a problem, cached on the problem."""
    return problem.cached(ExactRows, reading)
