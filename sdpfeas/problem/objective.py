"""Linear objectives: what files and models maximise or minimise over the points of a problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sdpfeas.errors import OptionError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point

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
        """Arrays whose inner product with a point of the problem is to be large."""
        terms: tuple[FloatArray, ...] = problem.point(self.terms)
        return terms if self.sense == "max" else tuple(-part for part in terms)

    def value(self, point: Point) -> float:
        """What it is at a point."""
        return self.offset + float(sum(np.vdot(c, x) for c, x in zip(self.terms, point, strict=True)))
