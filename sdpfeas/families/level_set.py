"""Level sets: any maximisation as a family of feasibility problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.families.base import ParametricFamily
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Rows, Sparse, Stacked, as_rows
from sdpfeas.problem.sets import BlockSet
from sdpfeas.problem.validation import float_array

__all__ = ["LevelSet"]


class LevelSet(ParametricFamily):
    """Find a point of a problem whose objective is at least ``delta``.

    Parameters
    ----------
    sets : sequence of BlockSet
        One set per block.
    objective : sequence
        The objective as one row: for every block an entry as in :class:`FeasibilityProblem` with m = 1.
    rows, lower, upper
        The constraints, as in :class:`FeasibilityProblem`.
    bracket : tuple of float
        What is known about the maximum; its lower end is attained.
    unit : float
        The usual size of the maximum.
    row_names, block_names : sequence of str, optional
        Names of the constraints and of the blocks.
    """

    def __init__(
        self,
        sets: Sequence[BlockSet],
        objective: Sequence[Any],
        rows: Sequence[Any],
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        bracket: tuple[float, float] = (-math.inf, math.inf),
        unit: float = 1.0,
        row_names: Sequence[str] | None = None,
        block_names: Sequence[str] | None = None,
    ) -> None:
        low, high = float_array(lower, "lower"), float_array(upper, "upper")
        self._objective = [as_rows(entry, block) for entry, block in zip(objective, sets, strict=True)]
        self._constraints = [as_rows(entry, block) for entry, block in zip(rows, sets, strict=True)]
        self._bounds = low, high
        self._block_names = block_names
        m = low.size
        super().__init__(
            sets,
            [
                _stacked(goal, part, block, m)
                for goal, part, block in zip(self._objective, self._constraints, sets, strict=True)
            ],
            [None] * len(sets),
            np.concatenate([[0.0], low]),
            np.concatenate([[np.inf], high]),
            lower_slope=np.concatenate([[1.0], np.zeros(m)]),
            monotone="a point above a level is above every lower one",
            bracket=bracket,
            unit=unit,
            row_names=None if row_names is None else ["objective", *row_names],
            block_names=block_names,
        )

    def homogenized(self) -> ConicProgram:
        """Maximise the objective itself."""
        problem = FeasibilityProblem(
            self.sets, self._constraints, *self._bounds, block_names=self._block_names
        )
        objective = tuple(
            np.zeros(block.shape) if goal is None else goal.adjoint(np.ones(1))
            for goal, block in zip(self._objective, self.sets, strict=True)
        )
        return ConicProgram(problem, objective)

    def program_multipliers(self, y: FloatArray) -> FloatArray:
        """Put weight one on the objective."""
        return np.concatenate([[1.0], y])

    def program_point(self, point: Point) -> Point:
        """Return the point as it is."""
        return point


def _stacked(goal: Rows | None, part: Rows | None, block: BlockSet, m: int) -> Rows | None:
    if goal is None and part is None:
        return None
    first = _nothing(1, block) if goal is None else goal
    if m == 0:
        return first
    rest = _nothing(m, block) if part is None else part
    if not (isinstance(first, Sparse) and isinstance(rest, Sparse)):
        return Stacked([first, rest])
    # Many problems have thousands of blocks, and sp.vstack takes its time.
    a, b = first.array, rest.array
    ends = np.concatenate([a.indptr, a.indptr[-1] + b.indptr[1:]])
    both = (np.concatenate([a.data, b.data]), np.concatenate([a.indices, b.indices]), ends)
    return Sparse.sound(sp.csr_array(both, shape=(m + 1, block.entries)), block.n, block.matrix)


def _nothing(m: int, block: BlockSet) -> Sparse:
    """Rows of zeros."""
    return Sparse.sound(sp.csr_array((m, block.entries)), block.n, block.matrix)
