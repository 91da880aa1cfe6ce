"""The interface of a reduction, and the composition of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sdpfeas.numerics.linalg import FloatArray

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem, Point

__all__ = ["ComposedReduction", "Reduction", "changed"]


def changed(problem: FeasibilityProblem, **parts: Any) -> FeasibilityProblem:
    """Return a problem with some arguments of its constructor replaced."""
    names = ("sets", "rows", "lower", "upper", "row_names", "block_names", "lmis")
    return type(problem)(**{name: getattr(problem, name) for name in names} | parts)


@dataclass(frozen=True, eq=False)
class Reduction:
    """A map from a problem to another one, with maps of evidence in both directions.

    ``point`` and ``multipliers`` map evidence about ``problem`` back to ``original``; ``start_point`` and
    ``start_multipliers`` map a warm start from ``original`` to ``problem``. The maps are exact up to
    rounding; a map that a reduction does not define is the identity. Evidence is always verified on the
    original problem.
    """

    original: FeasibilityProblem
    problem: FeasibilityProblem

    def point(self, point: Point) -> Point:
        """Map a point of ``problem`` to one of ``original``."""
        return point

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Map dual multipliers (a certificate) of ``problem`` to those of ``original``."""
        return y

    def start_point(self, point: Point) -> Point:
        """Map a point of ``original`` to one of ``problem``."""
        return point

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Map dual multipliers of ``original`` to those of ``problem``."""
        return y

    def terms(self, objective: Point) -> Point:
        """Map the terms of a linear objective on ``original`` to those of an equal one on ``problem``."""
        raise NotImplementedError(f"{type(self).__name__} maps no objective")

    def then(self, following: Reduction) -> Reduction:
        """Compose this reduction with one of ``self.problem``."""
        return ComposedReduction(self, following)


class ComposedReduction(Reduction):
    """The composition of two reductions: ``second`` reduces the problem that ``first`` made."""

    def __init__(self, first: Reduction, second: Reduction) -> None:
        super().__init__(first.original, second.problem)
        self._first, self._second = first, second

    def point(self, point: Point) -> Point:
        """Map a point through ``second``, then ``first``."""
        return self._first.point(self._second.point(point))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers through ``second``, then ``first``."""
        return self._first.multipliers(self._second.multipliers(y))

    def start_point(self, point: Point) -> Point:
        """Map a warm-start point through ``first``, then ``second``."""
        return self._second.start_point(self._first.start_point(point))

    def terms(self, objective: Point) -> Point:
        """Map the terms of an objective through ``first``, then ``second``."""
        return self._second.terms(self._first.terms(objective))

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Map warm-start multipliers through ``first``, then ``second``."""
        return self._second.start_multipliers(self._first.start_multipliers(y))
