"""The non-negative orthant. Projection: ``max(x, 0)``. Support function: 0 if ``g <= 0``, else infinite."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import inflate, norm_upper
from sdpfeas.problem.sets.base import VectorSet

__all__ = ["Nonneg"]


@dataclass(frozen=True)
class Nonneg(VectorSet):
    """The cone of vectors of length n with non-negative entries.

    Parameters
    ----------
    n : int
        Length of the vectors.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> orthant = sf.Nonneg(3)
    >>> print(orthant.project(np.array([1.0, -2.0, 0.0])))
    [1. 0. 0.]
    >>> orthant.distance(np.array([1.0, -2.0, 0.0]))
    2.0
    """

    kind = "Nonneg"
    lower = 0.0

    def distance_upper(self, x: FloatArray) -> float:
        """Bound the norm of the negative part."""
        return norm_upper(np.minimum(x, 0.0))

    def interior_radius(self, x: FloatArray, share: float) -> FloatArray | None:
        """Return ``x`` itself: every entry may decrease by its own size."""
        return np.array(x) if np.all(x >= 0.0) else None

    def support_upper(
        self, g: FloatArray, error: FloatArray, slip: float, moves: np.ndarray | None
    ) -> tuple[float, float]:
        """Return zero if all these vectors are non-positive; see :meth:`BlockSet.support_upper`."""
        apart = 0.0 if moves is None else np.where(moves, slip, 0.0)
        return (0.0 if np.all(g + inflate(error + apart, 4) <= 0.0) else math.inf), 0.0
