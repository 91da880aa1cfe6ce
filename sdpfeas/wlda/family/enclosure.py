"""Proven bounds of the two terms of a ratio of scatters, at a matrix next to the spectral box."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import UNIT
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import SpectralBox
from sdpfeas.verifier.tolerances import Tolerances

__all__ = ["Enclosure"]


class Enclosure:
    """Bounds ``min <S_ij, Z>`` from below and ``max <S_k, Z>`` from above.

    Parameters
    ----------
    box : SpectralBox
        Where Z is from.
    pairs, scatters : Rows
        One row a pair of classes, and one a class.
    """

    def __init__(self, box: SpectralBox, pairs: Rows, scatters: Rows) -> None:
        self._box = box
        self._pairs = pairs
        self._scatters = scatters
        #: The last matrix that was asked for, and its bounds.
        self._last: tuple[FloatArray, tuple[float, float]] | None = None

    @cached_property
    def _norms(self) -> tuple[FloatArray, FloatArray]:
        """Proven upper bounds of the norms of all rows."""
        return self._pairs.norms_upper, self._scatters.norms_upper

    def bounds(self, z: FloatArray) -> tuple[float, float]:
        """Return bounds that hold at a member of the box next to ``z``; NaN where there is none.

        Parameters
        ----------
        z : ndarray
            A matrix.
        """
        if self._last is not None and self._last[0] is z:
            return self._last[1]
        eta = self._box.snapped_distance(z, Tolerances().snap)
        bounds = math.nan, math.nan
        if math.isfinite(eta):
            means, scatters = self._norms
            value, radius = self._pairs.enclose_apply(z)
            least = float(np.min(value - 1.01 * (radius + means * eta) - 8.0 * UNIT * np.abs(value)))
            value, radius = self._scatters.enclose_apply(z)
            most = float(np.max(value + 1.01 * (radius + scatters * eta) + 8.0 * UNIT * np.abs(value)))
            bounds = least, most
        self._last = (z, bounds)
        return bounds
