"""Class means in coordinates in which the scatter within all classes together is the identity."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.families.fantope import FantopeMaxMin
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.rows import PairwiseDifference
from sdpfeas.problem.validation import finite_number
from sdpfeas.wlda.family import geometry
from sdpfeas.wlda.family.geometry import ClassScatter
from sdpfeas.wlda.family.row_space import RANK_TOLERANCE

__all__ = ["Whitened"]


class Whitened:
    """Class means, whitened, in the coordinates of what they span.

    Parameters
    ----------
    X : array_like
        Samples, shape (samples, features).
    y : array_like
        One label a sample.
    shrinkage : float, optional
        Shrink the scatter within the classes towards a multiple of the identity, by this share.

    Attributes
    ----------
    map : ndarray
        Takes centred samples to those coordinates: shape (features, coordinates).
    means : ndarray
        One class mean a row.
    """

    def __init__(self, X: ArrayLike, y: ArrayLike, shrinkage: float | None = None) -> None:
        share = 0.0 if shrinkage is None else finite_number(shrinkage, "shrinkage")
        if not 0.0 <= share <= 1.0:
            raise ProblemError(f"shrinkage must be a number between 0 and 1, or None; got {shrinkage!r}")
        scatter = geometry.from_data(X, y, scatter="sum")
        if share == 0.0 and scatter.within_rank() < scatter.k:
            raise ProblemError(
                f"the scatter within the classes has rank {scatter.within_rank()} of {scatter.k}, so it "
                "cannot be whitened: give shrinkage, or keep fewer principal components"
            )
        stack = np.concatenate(scatter.factors) / math.sqrt(np.shape(X)[0])
        floor = math.sqrt(share * float(np.sum(stack * stack)) / scatter.k) * np.eye(scatter.k)
        triangle = scipy.linalg.qr(np.concatenate([math.sqrt(1.0 - share) * stack, floor]), mode="r")[0]
        triangle = triangle[: scatter.k]
        white = scipy.linalg.solve_triangular(triangle, scatter.means.T, trans=1).T
        span = _span(white - white.mean(axis=0))
        inverse = scipy.linalg.solve_triangular(triangle, span)
        self.labels = scatter.labels
        self.map = np.asarray(scatter.scale * (scatter.basis @ inverse))
        self.means = np.asarray(white @ span)

    @property
    def k(self) -> int:
        """Number of coordinates."""
        return int(self.means.shape[1])

    def family(self, r: int) -> FantopeMaxMin:
        """Return the family whose threshold is the largest least squared distance of two projected means.

        Parameters
        ----------
        r : int
            Number of directions.
        """
        return FantopeMaxMin(PairwiseDifference(self.means), r, bracket=(0.0, math.inf))

    def scatter(self) -> ClassScatter:
        """Return the means with the identity as scatter of one class, and none of the others."""
        k = self.k
        factors = [np.eye(k), *(np.zeros((0, k)) for _ in self.labels[1:])]
        return ClassScatter(self.means, tuple(factors), None, np.eye(k), 1.0, self.labels)


def _span(means: FloatArray) -> FloatArray:
    """Orthonormal columns that span centred means; one of them at least."""
    _, singular, right = scipy.linalg.svd(means, full_matrices=False)
    rank = int(np.sum(singular > RANK_TOLERANCE * max(float(singular[0]), np.finfo(float).tiny)))
    return np.asarray(right[: max(rank, 1)].T)
