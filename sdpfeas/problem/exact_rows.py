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
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.rows.base import Read, fractions
from sdpfeas.problem.sets import BlockSet


class StackedSets:
    """Vectors over the stacked entries of some sets, and their restriction to the upper triangles."""

    def __init__(self, sets: Sequence[BlockSet]) -> None:
        self._sets, self._ends = sets, np.cumsum([block.entries for block in sets])

    def blocks(self, vector: np.ndarray) -> list[np.ndarray]:
        """Split a vector over the stacked entries into blocks."""
        pieces = np.split(vector, self._ends[:-1])
        return [piece.reshape(block.shape) for piece, block in zip(pieces, self._sets, strict=True)]

    @cached_property
    def mirror(self) -> np.ndarray:
        """For every entry the position of its transposed entry; its own position on vectors and diagonals."""
        return np.concatenate([part.T.reshape(-1) for part in self.blocks(np.arange(self._ends[-1]))])

    @cached_property
    def entries(self) -> np.ndarray:
        """Positions of the entries on and above the diagonals, and of all entries of vectors."""
        return np.flatnonzero(self.mirror >= np.arange(self.mirror.size))

    def fold(self, matrix: np.ndarray) -> np.ndarray:
        """Restrict rows to the upper triangles, with the coefficients of transposed entries added."""
        paired = self.mirror[self.entries] > self.entries
        folded = matrix[:, self.entries]
        folded[:, paired] = folded[:, paired] + matrix[:, self.mirror[self.entries][paired]]
        return folded


class ExactLmi(StackedSets):
    """An LMI in rational arithmetic, over the stacked entries of all blocks."""

    def __init__(self, problem: FeasibilityProblem, lmi: LMI, read: Read) -> None:
        super().__init__([lmi.set])
        self.set = lmi.set
        self.constant = fractions(lmi.constant.reshape(-1), read)
        parts = []
        for block, rows in zip(problem.sets, lmi.coefficients, strict=True):
            stacked = _matrix(rows, read)
            # Transposed entries have equal stored coefficients, but not always equal decimals.
            turned = np.arange(rows.m).reshape(block.shape).T.reshape(-1)
            parts.append((stacked + stacked[turned]) / 2)
        #: One row per entry of the blocks, one column per entry of the value.
        self.matrix = np.concatenate(parts)

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return ``F(X)`` for a point over the stacked blocks."""
        return np.asarray((self.constant + self.matrix.T.dot(x)).reshape(self.set.shape))

    @cached_property
    def folded(self) -> np.ndarray:
        """The matrix on the upper triangle only, with the coefficients of transposed entries added."""
        return self.fold(self.matrix)


def _matrix(rows: Rows, read: Read) -> np.ndarray:
    """Return all rows on one block in rational arithmetic, one per line."""
    if rows.empty or rows.m == 0:
        return zeros((rows.m, math.prod(rows.shape)))
    return np.stack([rows.exact_row(i, read).reshape(-1) for i in range(rows.m)])


#: The rational number that a stored number stands for, by reading.
RATIONAL_READERS: dict[Reading, Read] = {
    Reading.STORED: number,
    Reading.WRITTEN: lambda value: number(written(value)),
}


class ExactRows(StackedSets):
    """All rows of a problem in rational arithmetic, as one matrix over the stacked entries of all blocks."""

    def __init__(self, problem: FeasibilityProblem, reading: Reading = Reading.STORED) -> None:
        super().__init__(problem.sets)
        self.problem, self.reading = problem, reading
        self._read = RATIONAL_READERS[reading]
        self.matrix = np.concatenate([_matrix(rows, self._read) for rows in problem.rows], axis=1)
        self.lmis = [ExactLmi(problem, lmi, self._read) for lmi in problem.lmis]

    def number(self, value: float) -> Any:
        """Return the rational number that a stored number stands for."""
        return self._read(float(value))

    @cached_property
    def equations(self) -> tuple[np.ndarray, np.ndarray]:
        """Equality rows and prescribed traces, with their right-hand sides."""
        index = self.problem.equality_rows
        matrix = list(self.matrix[index])
        values = [self.number(self.problem.lower[i]) for i in index]
        for b, block in enumerate(self.problem.sets):
            if block.trace is not None:
                parts = [zeros((each.entries,)) for each in self.problem.sets]
                parts[b] = eye(block.n).reshape(-1)
                matrix.append(np.concatenate(parts))
                values.append(self.number(block.trace))
        stacked = np.stack(matrix) if matrix else self.matrix[:0]
        return stacked, np.array(values, dtype=object)

    @cached_property
    def folded(self) -> tuple[np.ndarray, FloatArray, np.ndarray]:
        """The equations on the upper triangles, exact and in doubles, and the positions of these entries."""
        folded = self.fold(self.equations[0])
        return folded, to_floats(folded), self.entries


def exact_rows(problem: FeasibilityProblem, reading: Reading = Reading.STORED) -> ExactRows:
    """Return the rational rows of a problem, cached on the problem."""
    return problem.cached(ExactRows, reading)
