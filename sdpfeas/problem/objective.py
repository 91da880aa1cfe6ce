"""Linear objectives of files and models, and conic programs for backends that can optimise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np

from sdpfeas.errors import OptionError, ProblemError
from sdpfeas.numerics.exact_arithmetic import mean_of
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.sets import BlockSet, Nonneg
from sdpfeas.problem.validation import float_array, require_finite

Sense = Literal["max", "min"]


@dataclass(frozen=True)
class Objective:
    """A linear objective ``offset + sum_b <terms_b, X_b>`` to maximise or minimise.

    Attributes
    ----------
    terms : tuple of ndarray
        The matrix or vector ``C_b`` of every block of the problem.
    sense : {"max", "min"}
        Whether the objective is maximised or minimised.
    offset : float
        The constant term.

    Raises
    ------
    OptionError
        If ``sense`` is neither "max" nor "min".

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
    sense: Sense
    offset: float = 0.0

    def __post_init__(self) -> None:
        if self.sense not in get_args(Sense):
            raise OptionError(f"sense must be 'max' or 'min', got {self.sense!r}")
        object.__setattr__(self, "terms", tuple(self.terms))

    def to_maximise(self, problem: FeasibilityProblem) -> Point:
        """Return the terms of the objective to maximise: ``terms``, or ``-terms`` for sense "min".

        Raises
        ------
        ClaimError
            If there is not one real array of the right shape per set.
        ProblemError
            If a number is infinite, NaN, or not exactly representable as a double.
        """
        problem.point(self.terms)  # validates the shapes
        terms = tuple(_exact(part, block) for part, block in zip(self.terms, problem.sets, strict=True))
        return terms if self.sense == "max" else tuple(-part for part in terms)

    def value(self, point: Point) -> float:
        """Return the objective at a point."""
        return self.offset + float(sum(np.vdot(c, x) for c, x in zip(self.terms, point, strict=True)))


def _exact(part: Any, block: BlockSet) -> FloatArray:
    """Return the symmetric part of an objective term; raise ``ProblemError`` if it is not exact."""
    array = float_array(block.coordinates(part), "the terms of the objective")
    require_finite(array, "the objective must be finite; its terms")
    if not block.matrix or np.array_equal(array, array.T):
        return array
    mean, lost = mean_of(array, array.T)
    if np.any(lost):
        raise ProblemError(
            "a matrix of the objective is not symmetric, and the mean of two mirrored entries is not exactly "
            "representable; pass (C + C') / 2, rounded, if that is intended"
        )
    return np.asarray(mean)


# --- conic programs: a feasibility problem with a linear objective


class RowPricing(Protocol):
    """A cutting-plane oracle: adds rows to a program with very many rows when they are violated."""

    @property
    def program(self) -> ConicProgram:
        """The program with the rows added so far."""

    def extended(self, point: Point, y: FloatArray, gap: float) -> Extension | None:
        """Return the program with updated rows if omitted rows matter at ``point``, else None.

        ``point`` and ``y`` are iterates of the current program; ``gap`` is their relative duality gap.
        """


@dataclass(frozen=True)
class Extension:
    """A program with updated rows, and the same sets and objective.

    ``kept``: for each row its index in the previous program, or -1 for a new row.
    """

    program: ConicProgram
    kept: np.ndarray


@dataclass(frozen=True)
class ConicProgram:
    """Maximise ``sum_b <objective_b, X_b>`` over the points of a problem.

    ``scale``: index of a ``Nonneg(1)`` block tau by which every SpectralBox is multiplied: ``lower·tau·I <=
    Z <= upper·tau·I`` and ``tr Z = trace·tau``; None if boxes are not scaled. ``start``: a point and
    multipliers for a warm start. ``pricing``: adds omitted rows; without them, the optimal value is only an
    upper bound. Backends that support pricing call it between iterations.
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

    def through(self, reduction: Reduction) -> ConicProgram:
        """Return the program over the problem that a reduction made, without pricing."""
        start = self.start
        if start is not None:
            start = reduction.start_point(start[0]), reduction.start_multipliers(start[1])
        return ConicProgram(reduction.problem, reduction.terms(self.objective), self.scale, start)

    def value(self, point: Point) -> float:
        """Return the objective at a point."""
        return float(sum(np.vdot(c, x) for c, x in zip(self.objective, point, strict=True)))
