"""Linear objectives: what files and models maximise or minimise over the points of a problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sdpfeas.errors import OptionError, ProblemError
from sdpfeas.numerics.exactness import mean_of
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.sets import BlockSet
from sdpfeas.problem.validation import float_array, require_finite

__all__ = ["Objective", "Sense"]

Sense = Literal["max", "min"]


@dataclass(frozen=True)
class Objective:
    """The number ``offset + sum_b <terms_b, X_b>``, which is to be large or small.

    Attributes
    ----------
    terms : tuple of ndarray
        One array per set of the problem.
    sense : {"max", "min"}
        Whether it is to be large or small.
    offset : float
        A constant.
    """

    terms: tuple[Any, ...]
    sense: Sense = "max"
    offset: float = 0.0

    def __post_init__(self) -> None:
        if self.sense not in get_args(Sense):
            raise OptionError(f"sense must be 'max' or 'min', got {self.sense!r}")
        object.__setattr__(self, "terms", tuple(self.terms))

    def to_maximise(self, problem: FeasibilityProblem) -> Point:
        """Arrays whose inner product with a point of the problem is to be large.

        Raises
        ------
        ClaimError
            If there is not one real array of the right shape per set.
        ProblemError
            If a number would be rounded, or is not finite: bounds would be those of another objective.
        """
        problem.point(self.terms)  # one array of the right shape per set
        terms = tuple(_exact(part, block) for part, block in zip(self.terms, problem.sets, strict=True))
        return terms if self.sense == "max" else tuple(-part for part in terms)

    def value(self, point: Point) -> float:
        """What it is at a point."""
        return self.offset + float(sum(np.vdot(c, x) for c, x in zip(self.terms, point, strict=True)))


def _exact(part: Any, block: BlockSet) -> FloatArray:
    """An array of an objective, of a matrix its symmetric part; refused if that takes rounding."""
    array = float_array(block.coordinates(part), "the terms of the objective")
    require_finite(array, "the objective must be finite; its terms")
    if not block.matrix or np.array_equal(array, array.T):
        return array
    mean, lost = mean_of(array, array.T)
    if np.any(lost):
        raise ProblemError(
            "a matrix of the objective is not symmetric, and the mean of two mirrored entries is no "
            "floating-point number; pass (C + C') / 2, rounded, if that is what you mean"
        )
    return np.asarray(mean)
