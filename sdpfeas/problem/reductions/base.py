"""The contract of a reduction, and chains of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from sdpfeas.numerics.linalg import FloatArray

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem, Point

__all__ = ["ComposedReduction", "Reduction"]


class Reduction(ABC):
    """A problem made from another one, with the ways between them.

    Evidence about the problem made is mapped back by ``point`` and ``multipliers``; what a backend may start
    from is mapped forth by ``start_point`` and ``start_multipliers``. Evidence stays evidence up to rounding,
    so it is always judged on the original problem.
    """

    original: FeasibilityProblem
    problem: FeasibilityProblem

    @abstractmethod
    def point(self, point: Point) -> Point:
        """Map a point of the problem made back to the original one."""

    @abstractmethod
    def multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers (a certificate) of the problem made back to the original one."""

    @abstractmethod
    def start_point(self, point: Point) -> Point:
        """Map a point of the original problem forth."""

    @abstractmethod
    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers of the original problem forth."""

    def then(self, following: Reduction) -> Reduction:
        """Return this reduction with another one after it, of the problem it made."""
        return ComposedReduction(self, following)


class ComposedReduction(Reduction):
    """One reduction after the other.

    ``first, second``: the second is one of the problem that the first made.
    """

    def __init__(self, first: Reduction, second: Reduction) -> None:
        self._first, self._second = first, second
        self.original, self.problem = first.original, second.problem

    def point(self, point: Point) -> Point:
        """Map a point back through both."""
        return self._first.point(self._second.point(point))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers back through both."""
        return self._first.multipliers(self._second.multipliers(y))

    def start_point(self, point: Point) -> Point:
        """Map a point forth through both."""
        return self._second.start_point(self._first.start_point(point))

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers forth through both."""
        return self._second.start_multipliers(self._first.start_multipliers(y))
