"""Linear objectives of files and models, and conic programs for backends that can optimise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np

from sdpfeas.errors import OptionError, ProblemError
from sdpfeas.numerics.exact_arithmetic import mean_of
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.sets import BlockSet, Nonneg
from sdpfeas.problem.validation import float_array, require_finite

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

    Examples
    --------
    The largest entry ``X_12`` of a 2×2 correlation matrix is 1:

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> rows = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [1.0, 1.0], [1.0, 1.0])
    >>> objective = sf.Objective((np.array([[0.0, 0.5], [0.5, 0.0]]),), sense="max")
    >>> found = sf.optimum(problem, objective)
    >>> bool(found.lower <= 1.0 <= found.upper)
    True
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


# --- conic programs: a feasibility problem with a linear objective


class RowPricing(Protocol):
    """Rows that a program leaves out until they matter: of very many rows few ever do."""

    @property
    def program(self) -> ConicProgram:
        """The program with the rows that are in by now."""

    def extended(self, point: Point, y: FloatArray, gap: float) -> Extension | None:
        """Return the program with other rows, if some that are missing matter at a point.

        ``point``: a point of the present program. ``gap``: how far, relatively, whoever solves it believes
        to be from the optimum.
        """


@dataclass(frozen=True)
class Extension:
    """A program with other rows than the one before.

    ``program``: the program; same sets, same objective. ``kept``: for each of its rows the place it had
    before, or -1 if it is new.
    """

    program: ConicProgram
    kept: np.ndarray


@dataclass(frozen=True)
class ConicProgram:
    """Maximise ``sum_b <objective_b, X_b>`` over the points of a problem.

    ``scale``: index of a ``Nonneg(1)`` block tau by which every SpectralBox is multiplied: ``lower·tau·I <=
    Z <= upper·tau·I`` and ``tr Z = trace·tau``. None: boxes as they are. ``start``: a point and multipliers
    that may be near the best ones. ``pricing``: knows rows that are left out so far. Solving the program as
    it is then bounds the value from above only; whoever can asks for more rows on the way.
    """

    problem: FeasibilityProblem
    objective: Point
    scale: int | None = None
    start: tuple[Point, FloatArray] | None = None
    pricing: RowPricing | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "objective", self.problem.point(self.objective))
        if self.scale is not None:
            if not 0 <= self.scale < len(self.problem.sets) or self.problem.sets[self.scale] != Nonneg(1):
                raise ProblemError(f"scale must be the index of a Nonneg(1) block, got {self.scale}")
            if not any(block.bounded for block in self.problem.sets):
                raise ProblemError("scale is given, but there is no SpectralBox to scale")

    def with_slacks(self) -> ConicProgram:
        """The same program over the slack form of the problem, for backends that take no LMIs."""
        slacks = self.problem.slack_form
        more = (np.zeros(lmi.set.shape) for lmi in self.problem.lmis)
        start = self.start
        if start is not None:
            start = slacks.start_point(start[0]), slacks.start_multipliers(start[1])
        return ConicProgram(slacks.problem, (*self.objective, *more), self.scale, start)

    def value(self, point: Point) -> float:
        """Objective at a point."""
        return float(sum(np.vdot(c, x) for c, x in zip(self.objective, point, strict=True)))

    def unit_point(self, point: Point) -> tuple[FloatArray, ...]:
        """Divide a point by tau, so that its boxes have their own size again."""
        if self.scale is None:
            return point
        tau = float(point[self.scale][0])
        return tuple(x / tau for x in point)
