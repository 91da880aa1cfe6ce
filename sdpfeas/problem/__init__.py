"""What a problem is made of: sets, rows, bounds; how it is built, and reduced to another."""

from sdpfeas.problem.problem import FeasibilityProblem, Point

__all__ = ["FeasibilityProblem", "Point"]
