"""The worst-case ratio of a projection, by its definition."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from sdpfeas.families.refinement import soft_maximum
from sdpfeas.families.wlda.geometry import RANK_TOLERANCE, ClassScatter
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.rows.pairwise import pair_indices

#: Squares below this share of the whole are rounding, where directions without any scatter are looked for:
#: the square of what counts as zero in a null space.
ROUNDING = RANK_TOLERANCE**2


class Criterion:
    """Least squared distance of projected means over largest projected class scatter.

    Directions are given in the coordinates of the range of the data, see :attr:`basis`.

    ``floor``: scatters and squared distances below this share of the whole count as none. ``bounded``:
    whether no ratio is infinite, so that a projection without scatter has none worth naming: zero.

    ``basis``: orthonormal columns that span the range of the data, shape (features, coordinates).
    ``means``: one class mean a row; equal ones are exactly equal. ``factors``: for each class an array F,
    with no more rows than coordinates, such that its scatter is ``F'F``. ``stack, owner``: all of them, one
    below the other, and the class of every row. ``first, second``: the two classes of every pair.
    """

    def __init__(self, scatter: ClassScatter, floor: float = 0.0, bounded: bool = False) -> None:
        self._bounded = bounded
        scatter = scatter.merged_means(scatter.equal_means())
        self.basis = scatter.basis
        self.means = scatter.means
        self.factors = tuple(_compressed(f) for f in scatter.factors)
        self.stack = np.concatenate(self.factors)
        self.owner = np.repeat(np.arange(scatter.c), [f.shape[0] for f in self.factors])
        self.first, self.second = pair_indices(scatter.c)
        self._none = floor * (float(np.sum(self.stack**2)) + float(np.sum(self.differences() ** 2)))

    @property
    def k(self) -> int:
        """Number of coordinates."""
        return int(self.means.shape[1])

    def differences(self) -> FloatArray:
        """Differences of class means, one pair a row."""
        return np.asarray(self.means[self.first] - self.means[self.second])

    def values(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Squared distances of the projected means, pair by pair, and projected scatters, class by class."""
        projected = self.means @ A
        distances = np.sum((projected[self.first] - projected[self.second]) ** 2, axis=1)
        rows = np.sum((self.stack @ A) ** 2, axis=1)
        scatters = np.zeros(self.means.shape[0])
        np.add.at(scatters, self.owner, rows)
        return distances, scatters

    def ratio(self, A: FloatArray) -> float:
        """Ratio a projection attains."""
        distances, scatters = self.values(A)
        least, most = float(np.min(distances)), float(np.max(scatters))
        if most <= self._none:
            return math.inf if least > self._none and not self._bounded else 0.0
        return least / most

    def value(self, A: FloatArray) -> float:
        """The ratio, as what refinement raises."""
        return self.ratio(A)

    def guess(self, r: int) -> FloatArray:
        """The classical directions, as where refinement may start."""
        return self.discriminant(r)

    def units(self) -> FloatArray:
        """Upper triangular factor of coordinates in which all classes together have about unit scatter."""
        stack = np.concatenate([self.stack, self.differences()])
        size = np.sqrt(np.sum(stack * stack, axis=0))
        size = np.where(size > 0.0, size, 1.0)
        floor = 1e-5 * np.eye(self.k)
        triangle = scipy.linalg.qr(np.concatenate([stack / size, floor]), mode="economic")[1]
        inverse = scipy.linalg.solve_triangular(triangle, np.eye(self.k), lower=False)
        return np.asarray(inverse / size[:, None])

    def smoothed(self, A: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """Minus the logarithm of the smoothed ratio, and its gradient.

        ``sharpness``: how closely minimum and maximum are followed.
        """
        distances, scatters = self.values(A)
        tiny = 1e-300
        low, u = soft_maximum(-np.log(distances + tiny), sharpness)
        high, w = soft_maximum(np.log(scatters + tiny), sharpness)
        u, w = u / (distances + tiny), w / (scatters + tiny)
        differences = self.differences()
        G = self.stack.T @ (w[self.owner, None] * (self.stack @ A))
        G -= differences.T @ (u[:, None] * (differences @ A))
        return float(low + high), 2.0 * G

    def discriminant(self, r: int) -> FloatArray:
        """Orthonormal columns that span the r leading directions of the classical analysis."""
        centred = self.means - self.means.mean(axis=0)
        within = self.stack.T @ self.stack
        size = float(np.trace(within)) + float(np.sum(centred * centred))
        within = within / size + 1e-12 * np.eye(self.k)
        _, vec = scipy.linalg.eigh(centred.T @ centred / size, within)
        q, _ = np.linalg.qr(vec[:, ::-1][:, :r])
        return np.asarray(q)


def _compressed(factor: FloatArray) -> FloatArray:
    if factor.shape[0] <= factor.shape[1]:
        return factor
    return np.asarray(scipy.linalg.qr(factor, mode="r")[0][: factor.shape[1]])
