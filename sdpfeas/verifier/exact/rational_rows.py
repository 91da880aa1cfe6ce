"""The rows and LMIs of a problem in rational arithmetic."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from sdpfeas.numerics.decimals import Reading, written
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rational import eye, number, to_floats, zeros
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows.base import Read, fractions


class ExactLmi:
    """An LMI in rational arithmetic, over the stacked blocks."""

    def __init__(self, problem: FeasibilityProblem, lmi: LMI, read: Read) -> None:
        self.set = lmi.set
        self.constant = fractions(lmi.constant.reshape(-1), read)
        parts = []
        for block, rows in zip(problem.sets, lmi.coefficients, strict=True):
            if rows.empty:
                parts.append(zeros((block.entries, lmi.set.entries)))
                continue
            stacked = np.stack([rows.exact_row(i, read).reshape(-1) for i in range(rows.m)])
            # Mirrored entries have the same coefficients as stored, but maybe not as written.
            turned = np.arange(rows.m).reshape(block.shape).T.reshape(-1)
            parts.append((stacked + stacked[turned]) / 2)
        #: One line for every entry of the blocks, one column for every entry of the value.
        self.matrix = np.concatenate(parts)

    def value(self, x: np.ndarray) -> np.ndarray:
        """``F(X)`` for a point over the stacked blocks."""
        return np.asarray((self.constant + self.matrix.T.dot(x)).reshape(self.set.shape))

    @cached_property
    def entries(self) -> np.ndarray:
        """Places of the entries on and above the diagonal, or of all entries of a vector."""
        n = self.set.n
        return np.ravel_multi_index(np.triu_indices(n), (n, n)) if self.set.matrix else np.arange(n)

    @cached_property
    def mirror(self) -> np.ndarray:
        """For every entry the place of its mirror image."""
        return np.arange(self.set.entries).reshape(self.set.shape).T.reshape(-1)

    @cached_property
    def folded(self) -> np.ndarray:
        """The matrix on these entries alone, mirrored ones added up."""
        own = self.entries
        paired = self.mirror[own] != own
        folded = self.matrix[:, own]
        folded[:, paired] = folded[:, paired] + self.matrix[:, self.mirror[own][paired]]
        return folded


#: What a double stands for, in each reading.
READERS: dict[Reading, Read] = {Reading.STORED: number, Reading.WRITTEN: lambda value: number(written(value))}


class ExactRows:
    """All rows of a problem in rational arithmetic, as one matrix over the stacked blocks."""

    def __init__(self, problem: FeasibilityProblem, reading: Reading = Reading.STORED) -> None:
        self.problem, self.reading = problem, reading
        self._read = READERS[reading]
        parts = []
        for block, rows in zip(problem.sets, problem.rows, strict=True):
            width = math.prod(block.shape)
            if rows.empty or problem.m == 0:
                parts.append(zeros((problem.m, width)))
                continue
            parts.append(np.stack([rows.exact_row(i, self._read).reshape(-1) for i in range(problem.m)]))
        self.matrix = np.concatenate(parts, axis=1)
        self.lmis = [ExactLmi(problem, lmi, self._read) for lmi in problem.lmis]
        self.splits = np.cumsum([math.prod(block.shape) for block in problem.sets])[:-1]

    def number(self, value: float) -> Any:
        """Return what a stored number stands for, as a rational."""
        return self._read(float(value))

    def blocks(self, vector: np.ndarray) -> list[np.ndarray]:
        """A vector over the stacked blocks, cut into these."""
        pieces = np.split(vector, self.splits)
        return [p.reshape(b.shape) for p, b in zip(pieces, self.problem.sets, strict=True)]

    @cached_property
    def equations(self) -> tuple[np.ndarray, np.ndarray]:
        """Equality rows and prescribed traces, with their right-hand sides."""
        return _equations(self)

    @cached_property
    def mirror(self) -> np.ndarray:
        """For every entry the place of its mirror image; its own where it has none."""
        out, start = [], 0
        for block in self.problem.sets:
            place = np.arange(start, start + math.prod(block.shape)).reshape(block.shape)
            out.append(place.T.reshape(-1))
            start += place.size
        return np.concatenate(out)

    @cached_property
    def folded(self) -> tuple[np.ndarray, FloatArray, np.ndarray]:
        """The equations on entries with one of each mirrored pair left, in floating point too, and which."""
        folded = self.fold(self.equations[0])
        return folded, to_floats(folded), self.own

    @cached_property
    def own(self) -> np.ndarray:
        """Entries with one of each mirrored pair left."""
        return np.flatnonzero(self.mirror >= np.arange(self.mirror.size))

    def fold(self, matrix: np.ndarray) -> np.ndarray:
        """Rows over all entries as rows over those with one of each mirrored pair left."""
        paired = self.mirror[self.own] > self.own
        folded = matrix[:, self.own]
        folded[:, paired] = folded[:, paired] + matrix[:, self.mirror[self.own][paired]]
        return folded


def _equations(rows: ExactRows) -> tuple[np.ndarray, np.ndarray]:
    """Equality rows and prescribed traces, with their right-hand sides."""
    problem = rows.problem
    index = np.flatnonzero(problem.equality)
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
    """Rational rows, made once: problems are immutable."""
    key = f"_exact_rows_{reading}"
    found = problem.__dict__.get(key)
    if found is None:
        found = problem.__dict__[key] = ExactRows(problem, reading)
    return found
