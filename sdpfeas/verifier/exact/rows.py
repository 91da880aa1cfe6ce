"""The rows of a problem in rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.exact import rationals
from sdpfeas.verifier.exact.rationals import eye, number, to_floats, zeros

__all__ = ["ExactRows", "exact_rows"]


class ExactRows:
    """All rows of a problem in rational arithmetic, as one matrix over the stacked blocks."""

    def __init__(self, problem: FeasibilityProblem) -> None:
        self.problem = problem
        parts = []
        for block, rows in zip(problem.sets, problem.rows, strict=True):
            width = math.prod(block.shape)
            if rows is None or problem.m == 0:
                parts.append(zeros((problem.m, width)))
                continue
            stacked = np.stack([rows.exact_row(i).reshape(-1) for i in range(problem.m)])
            parts.append(np.vectorize(number, otypes=[object])(stacked))
        self.matrix = np.concatenate(parts, axis=1)
        self.splits = np.cumsum([math.prod(block.shape) for block in problem.sets])[:-1]

    def number(self, value: float) -> Any:
        """Return what a stored number stands for, as a rational of the fastest kind there is."""
        return number(Fraction(float(value)))

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
        matrix = self.equations[0]
        own = np.flatnonzero(self.mirror >= np.arange(self.mirror.size))
        paired = self.mirror[own] > own
        folded = matrix[:, own]
        folded[:, paired] = folded[:, paired] + matrix[:, self.mirror[own][paired]]
        return folded, to_floats(folded), own


def _equations(rows: ExactRows) -> tuple[np.ndarray, np.ndarray]:
    """Equality rows and prescribed traces, with their right-hand sides."""
    problem = rows.problem
    index = np.flatnonzero(problem.equality)
    matrix = [rows.matrix[i] for i in index]
    values = [rows.number(problem.lower[i]) for i in index]
    for b, block in enumerate(problem.sets):
        if block.trace is not None:
            parts = [zeros((math.prod(s.shape),)) for s in problem.sets]
            parts[b] = eye(block.n, Fraction(1)).reshape(-1)
            matrix.append(np.concatenate(parts))
            values.append(rows.number(block.trace))
    width = rows.matrix.shape[1]
    stacked = np.stack(matrix) if matrix else zeros((0, width))
    return stacked, np.array(values, dtype=object)


def exact_rows(problem: FeasibilityProblem) -> ExactRows:
    """Rational rows, made once: problems are immutable."""
    key = f"_exact_rows_{rationals.HAS_FLINT}"
    found = problem.__dict__.get(key)
    if found is None:
        found = problem.__dict__[key] = ExactRows(problem)
    return found
