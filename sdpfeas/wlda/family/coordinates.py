"""From the coordinates of a WLDA family to the features, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.wlda.family.degenerate import Analysis

__all__ = ["Coordinates"]


@dataclass(frozen=True)
class Coordinates:
    """Where the matrices Z of a family live.

    Attributes
    ----------
    basis : ndarray
        Orthonormal columns over the features.
    stretch : ndarray
        What each coordinate was multiplied by.
    trace : int
        Trace of Z.
    r : int
        Final dimension.
    analysis : Analysis
        What was found out about the scatters.
    """

    basis: FloatArray
    stretch: FloatArray
    trace: int
    r: int
    analysis: Analysis

    def in_range(self, z: FloatArray, ratio: Callable[[FloatArray], float]) -> tuple[FloatArray, FloatArray]:
        """Orthonormal columns over the features, and Z in their coordinates.

        Parameters
        ----------
        z : ndarray
            A matrix of the family.
        ratio : callable
            The ratio such a matrix attains.
        """
        scaled = z * self.stretch[:, None] * self.stretch
        trace = float(np.trace(scaled))
        if trace > 0.0:
            scaled = scaled * (self.trace / trace)
        if not self.analysis.vacuous:
            return self.basis, scaled
        null = self.analysis.null
        assert null is not None
        return null.turned.basis, null.fill(scaled, self.r, ratio(z))

    def from_range(self, z: FloatArray) -> FloatArray:
        """Undo the scaling of features.

        Parameters
        ----------
        z : ndarray
            A matrix in the coordinates of the basis.
        """
        matrix = z / self.stretch[:, None] / self.stretch
        trace = float(np.trace(matrix))
        return matrix / trace if self.trace == 1 and trace > 0.0 else matrix

    def from_null(self, z: FloatArray) -> FloatArray:
        """Complete a matrix on the common null space of the scatters by zeros.

        Parameters
        ----------
        z : ndarray
            The matrix.
        """
        null = self.analysis.null
        assert null is not None
        whole = np.zeros((null.turned.k, null.turned.k))
        whole[null.inside :, null.inside :] = z
        return self.from_range(whole)
