"""Problems: sets, rows, bounds, LMIs; the builder, the file format, and reductions."""

from sdpfeas.problem.problem import FeasibilityProblem, Point

__all__ = ["FeasibilityProblem", "Point"]
