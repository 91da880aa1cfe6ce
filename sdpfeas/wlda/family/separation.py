"""The largest least distance between projected means: what is left to choose where no class has scatter."""

from __future__ import annotations

import math

import numpy as np

from sdpfeas.families.base import ParametricFamily
from sdpfeas.numerics.linalg import FloatArray, eigh, spectral_matrix
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import Nonneg, SpectralBox
from sdpfeas.wlda.family.descent import REFINE_ROUNDS, Oracle, refine
from sdpfeas.wlda.family.formulations import column

__all__ = ["Separation"]


class Separation(ParametricFamily):
    """Find ``Z`` in a spectral box with ``<S_ij, Z> >= delta`` for every pair: maximise the least distance.

    Parameters
    ----------
    pairs : Rows
        One row a pair, each positive semidefinite.
    r : int
        Trace of ``Z``.
    """

    name = "separation"

    def __init__(self, pairs: Rows, r: int) -> None:
        self._pairs = pairs
        self._box = SpectralBox(pairs.n, trace=r)
        super().__init__(
            [self._box],
            [pairs],
            [None],
            np.zeros(pairs.m),
            np.full(pairs.m, np.inf),
            lower_slope=np.ones(pairs.m),
            monotone="a smaller distance asks less of every pair",
            bracket=(0.0, math.inf),
            unit=float(np.max(pairs.norms(), initial=0.0)) or 1.0,
            block_names=["Z"],
        )

    def initial_multipliers(self) -> list[FloatArray]:
        """Equal weights, and all weight on the closest pair in the middle of the box."""
        closest = int(np.argmin(self._pairs.apply(self.sets[0].interior_point())))
        return [np.full(self.m, 1.0 / self.m), np.eye(self.m)[closest]]

    def recovered_points(self, y: FloatArray, near: float | None = None) -> list[Point]:
        """Return the projector on the leading eigenvectors of the weighted sum."""
        return [(self._price(y, np.ones(1), 0.0)[1],)]

    def refine(
        self, points: list[Point], multipliers: list[FloatArray], tol: float
    ) -> tuple[list[Point], list[FloatArray]]:
        """Return a better point and better multipliers: column generation with one constant scatter."""
        oracle = Oracle(self._pairs.apply, lambda z: np.ones(1), self._price)
        weights = [(y, np.ones(1)) for y in multipliers]
        found = refine(oracle, [point[0] for point in points], weights, REFINE_ROUNDS, 0.2 * tol)
        return ([], []) if found is None else ([(found[0],)], [found[1][0]])

    def _price(self, u: FloatArray, w: FloatArray, near: float) -> tuple[float, FloatArray]:
        lam, vec = eigh(self._pairs.adjoint(u))
        weights = self._box.maximiser_spectrum(lam)
        return float(lam @ weights), spectral_matrix(vec, weights)

    def homogenized(self) -> ConicProgram:
        """``max t`` subject to ``<S_ij, Z> >= t``."""
        box, m = self.sets[0], self.m
        level = column(0, m, m, -1.0)
        problem = FeasibilityProblem(
            [box, Nonneg(1)], [self._pairs, level], np.zeros(m), np.full(m, np.inf), block_names=["Z", "t"]
        )
        return ConicProgram(problem, (np.zeros(box.shape), np.ones(1)))

    def program_point(self, point: Point) -> Point:
        """Drop t."""
        return (point[0],)
