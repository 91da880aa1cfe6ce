"""All vectors of R^n. Projection: the identity. Support function: 0 at ``g = 0``, else infinite."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.sets.base import VectorSet

__all__ = ["Free"]


@dataclass(frozen=True)
class Free(VectorSet):
    """All vectors of length n, for variables without a sign or cone constraint.

    Parameters
    ----------
    n : int
        Length of the vectors.

    Examples
    --------
    The equation ``x_1 + x_2 = -3`` has a solution if the variables may be negative:

    >>> import sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.Free(2)], [[[1.0, 1.0]]], [-3.0], [-3.0])
    >>> print(sf.solve(problem).verdict)
    feasible
    """

    kind = "Free"

    def distance_upper(self, x: FloatArray) -> float:
        """Return zero."""
        return 0.0

    def interior_radius(self, x: FloatArray, share: float) -> FloatArray | None:
        """Return the largest magnitude in ``x`` for every entry; any radius would be valid."""
        return np.full(self.n, float(np.max(np.abs(x))) or 1.0)

    def support_upper(
        self, g: FloatArray, error: FloatArray, slip: float, moves: np.ndarray | None
    ) -> tuple[float, float]:
        """Return zero at the zero vector and infinity elsewhere; see :meth:`BlockSet.support_upper`."""
        return (math.inf if moves is not None or g.any() or error.any() else 0.0), 0.0
