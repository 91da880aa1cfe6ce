"""Variances of groups of samples, and what a projection keeps of them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.families.fantope import FantopeMaxMin
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.problem.rows import Dense, LowRank, Rows
from sdpfeas.wlda.family import geometry
from sdpfeas.wlda.refine import soft_maximum

__all__ = ["Aim", "Centring", "GroupVariances", "LeastKept"]

#: Variances of this power of two leave room for sums of them, and for small shares.
LARGEST_EXPONENT = 1000

Aim = Literal["variance", "loss"]
Centring = Literal["group", "overall"]


class GroupVariances:
    """Covariance matrices of groups, in the coordinates of the range of all samples.

    Parameters
    ----------
    X : array_like
        Samples, shape (samples, features).
    groups : array_like
        One label a sample.
    centring : {"group", "overall"}
        Take variances around the mean of the group, or around the mean of all samples.

    Attributes
    ----------
    basis : ndarray
        Orthonormal columns that span the range, shape (features, coordinates).
    unit : float
        A power of two: variances of the data are those of the coordinates times this.
    labels : ndarray
        Labels of the groups.
    factors : tuple of ndarray
        For each group an array F with covariance matrix ``F'F``.
    """

    def __init__(self, X: ArrayLike, groups: ArrayLike, centring: Centring = "group") -> None:
        if centring not in ("group", "overall"):
            raise ProblemError(f"centring must be 'group' or 'overall', got {centring!r}")
        scatter = geometry.from_data(X, groups)
        self.basis, self.labels = scatter.basis, scatter.labels
        exponent = 2 * (math.frexp(scatter.scale)[1] - 1)
        if abs(exponent) > LARGEST_EXPONENT:
            raise ProblemError(
                f"variances of about 2**{-exponent} are beyond what floating-point numbers hold; scale the "
                "samples"
            )
        self.unit = math.ldexp(1.0, -exponent)
        factors = scatter.factors
        if centring == "overall":
            factors = tuple(np.vstack([f, m]) for f, m in zip(factors, scatter.means, strict=True))
        self.factors = factors

    @property
    def k(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[1])

    def most(self, r: int) -> FloatArray:
        """For each group the largest variance that any r directions keep of it.

        Parameters
        ----------
        r : int
            How many directions.
        """
        kept = [scipy.linalg.svdvals(f)[:r] if f.size else np.zeros(1) for f in self.factors]
        return np.array([float(np.sum(values**2)) for values in kept])

    def rows(self) -> Rows:
        """Return one row a group: low-rank where that is the smaller description, else dense."""
        if sum(f.shape[0] for f in self.factors) < len(self.factors) * self.k:
            return LowRank([f if f.shape[0] else np.zeros((1, self.k)) for f in self.factors])
        return Dense(np.array([symmetrize(f.T @ f) for f in self.factors]))

    def family(self, r: int, aim: Aim) -> FantopeMaxMin:
        """Return the family whose threshold is the largest least variance, or minus the least largest loss.

        Parameters
        ----------
        r : int
            Number of directions.
        aim : {"variance", "loss"}
            Which.
        """
        if aim not in ("variance", "loss"):
            raise ProblemError(f"aim must be 'variance' or 'loss', got {aim!r}")
        names = [f"group {label}" for label in self.labels]
        names = names if len(set(names)) == len(names) else [f"{name} ({i})" for i, name in enumerate(names)]
        return FantopeMaxMin(self.rows(), r, self.most(r) if aim == "loss" else None, names=names)

    def kept(self, A: FloatArray) -> FloatArray:
        """Variance that orthonormal columns keep of each group.

        Parameters
        ----------
        A : ndarray
            Shape (coordinates, components).
        """
        return np.array([float(np.sum((f @ A) ** 2)) for f in self.factors])


class LeastKept:
    """The least over the groups of the variance that is kept, less an offset: what refinement raises.

    Parameters
    ----------
    groups : GroupVariances
        The groups.
    offsets : ndarray
        What is taken off the variance of each.
    """

    def __init__(self, groups: GroupVariances, offsets: FloatArray) -> None:
        self._groups, self._offsets = groups, offsets

    @cached_property
    def _size(self) -> float:
        return float(np.max(self._groups.most(self._groups.k), initial=0.0)) or 1.0

    def value(self, A: FloatArray) -> float:
        """The least."""
        return float(np.min(self._groups.kept(A) - self._offsets))

    def smoothed(self, A: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """Minus the smoothed least, relative to the whole variance, and its gradient."""
        values, shares = soft_maximum((self._offsets - self._groups.kept(A)) / self._size, sharpness)
        G = np.zeros(A.shape)
        for share, f in zip(shares, self._groups.factors, strict=True):
            G -= (2.0 * share / self._size) * (f.T @ (f @ A))
        return values, G

    def units(self) -> FloatArray:
        """Coordinates as they are."""
        return np.eye(self._groups.k)

    def guess(self, r: int) -> FloatArray:
        """Principal directions of all groups, each counting the same."""
        total = sum(f.T @ f for f in self._groups.factors)
        _, vec = eigh(symmetrize(np.asarray(total)))
        return np.asarray(vec[:, ::-1][:, :r])
