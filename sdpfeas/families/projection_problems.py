"""Fair PCA and max-min distance analysis as problems over the Fantope.

:class:`GroupCovariances` gives fair PCA (Tantipongpipat et al., NeurIPS 2019), :class:`WhitenedMeans` max-min
distance analysis (Bian and Tao, IEEE TPAMI 2011), both as :class:`~sdpfeas.families.FantopeMaxMin`. The
families ``fair-pca`` and ``max-min-distance`` build them on named data sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.families.class_scatter import RANK_TOLERANCE, ClassScatter, shrinkage_share
from sdpfeas.families.fantope import FantopeMaxMin
from sdpfeas.families.parametric_family import Family
from sdpfeas.families.wlda import NamedData
from sdpfeas.families.worst_case_ratio import distinct_names
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.rows import PairwiseDifference, Rows

#: Largest exponent of variances in the units of the data, so that neither their sums nor small shares leave
#: the range.
MAX_VARIANCE_EXPONENT = 1000

Aim = Literal["variance", "loss"]
Centring = Literal["group", "overall"]


class GroupCovariances:
    """Covariance matrices of groups of samples, in coordinates of the range of all samples.

    ``centring`` chooses variances around the mean of the group or around the mean of all samples. ``basis``
    has orthonormal columns that span the range, shape (features, coordinates). ``unit`` is the power of two
    by which variances of the coordinates are multiplied to be variances of the data. ``factors`` holds for
    each group an array F with covariance matrix ``F'F``.
    """

    def __init__(
        self,
        X: ArrayLike,
        groups: ArrayLike,
        centring: Centring = "group",
        *,
        shrinkage: float | str | None = None,
        weights: FloatArray | None = None,
    ) -> None:
        if centring not in ("group", "overall"):
            raise ProblemError(f"centring must be 'group' or 'overall', got {centring!r}")
        scatter = ClassScatter.from_samples(X, groups, shrinkage=shrinkage, weights=weights)
        self.basis, self.labels = scatter.basis, scatter.labels
        exponent = 2 * (math.frexp(scatter.scale)[1] - 1)
        if abs(exponent) > MAX_VARIANCE_EXPONENT:
            raise ProblemError(
                f"variances of about 2**{-exponent} are outside the floating-point range; scale the samples"
            )
        self.unit = math.ldexp(1.0, -exponent)
        factors = scatter.factors
        if centring == "overall":
            sizes = np.bincount(np.unique(groups, return_inverse=True)[1], weights)
            means = scatter.means - np.average(scatter.means, axis=0, weights=sizes)
            factors = tuple(np.vstack([f, m]) for f, m in zip(factors, means, strict=True))
        self.factors = factors
        self._scatter = replace(scatter, factors=factors, covariances=None)

    @property
    def k(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[1])

    def most(self, r: int) -> FloatArray:
        """Return for each group the largest variance that r directions can preserve."""
        kept = [scipy.linalg.svdvals(f)[:r] if f.size else np.zeros(1) for f in self.factors]
        return np.array([float(np.sum(values**2)) for values in kept])

    def rows(self) -> Rows:
        """Return one row per group, in low-rank or dense storage, whichever is smaller."""
        return self._scatter.scatter_rows()

    def family(self, r: int, aim: Aim) -> FantopeMaxMin:
        """Return the family whose threshold is the max-min variance, or minus the min-max loss."""
        if aim not in ("variance", "loss"):
            raise ProblemError(f"aim must be 'variance' or 'loss', got {aim!r}")
        names = distinct_names([f"group {label}" for label in self.labels])
        return FantopeMaxMin(self.rows(), r, self.most(r) if aim == "loss" else None, names=names)

    def kept(self, A: FloatArray) -> FloatArray:
        """Return the variance of each group that orthonormal columns preserve."""
        return np.array([float(np.sum((f @ A) ** 2)) for f in self.factors])


class WhitenedMeans:
    """Class means in coordinates in which the pooled within-class scatter is the identity.

    ``shrinkage`` is the share of a multiple of the identity in that scatter, or ``"auto"``. ``map`` maps
    centred samples to the coordinates of the span of the means, shape (features, coordinates).
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        shrinkage: float | str | None = None,
        weights: FloatArray | None = None,
    ) -> None:
        if shrinkage == "auto" and weights is not None:
            raise ProblemError("shrinkage='auto' does not support weights; give a number")
        scatter = ClassScatter.from_samples(X, y, scatter="sum", weights=weights)
        share = 0.0 if shrinkage is None else shrinkage_share(np.concatenate(scatter.factors), shrinkage)
        if share == 0.0 and scatter.within_rank() < scatter.k:
            raise ProblemError(
                f"the pooled within-class scatter has rank {scatter.within_rank()} of {scatter.k}, so it "
                "cannot be whitened: give shrinkage, or keep fewer principal components"
            )
        stack = np.concatenate(scatter.factors) / math.sqrt(
            np.shape(X)[0] if weights is None else float(np.sum(weights))
        )
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
        """Return the family whose threshold is the largest least squared distance of two projected means."""
        return FantopeMaxMin(PairwiseDifference(self.means), r, bracket=(0.0, math.inf))

    def scatter(self) -> ClassScatter:
        """Return the means with the identity as scatter of the first class and zero for the others."""
        k = self.k
        factors = [np.eye(k), *(np.zeros((0, k)) for _ in self.labels[1:])]
        return ClassScatter(self.means, tuple(factors), None, np.eye(k), 1.0, self.labels)


def _span(means: FloatArray) -> FloatArray:
    """Return orthonormal columns that span the centred means; at least one."""
    _, singular, right = scipy.linalg.svd(means, full_matrices=False)
    rank = int(np.sum(singular > RANK_TOLERANCE * max(float(singular[0]), np.finfo(float).tiny)))
    return np.asarray(right[: max(rank, 1)].T)


@dataclass(frozen=True)
class FairOptions(NamedData):
    """Parameters of fair PCA on a named data set; the classes are the groups."""

    n_components: int = 2
    aim: Literal["variance", "loss"] = "variance"
    centring: Literal["group", "overall"] = "group"


@dataclass(frozen=True)
class DistanceOptions(NamedData):
    """Parameters of max-min distance analysis on a named data set."""

    n_components: int = 2
    shrinkage: float | str | None = None


class FairPcaProblems(Family):
    """Fair PCA of the classes of a named data set; members are :class:`FantopeMaxMin` families."""

    name = "fair-pca"
    Options = FairOptions

    @classmethod
    def build(cls, options: FairOptions) -> FantopeMaxMin:
        """Build the family on a named data set."""
        groups = GroupCovariances(*options.samples(), options.centring)
        return groups.family(options.n_components, options.aim)


class MaxMinDistanceProblems(Family):
    """Max-min distance analysis of a named data set; members are :class:`FantopeMaxMin` families."""

    name = "max-min-distance"
    Options = DistanceOptions

    @classmethod
    def build(cls, options: DistanceOptions) -> FantopeMaxMin:
        """Build the family on a named data set."""
        return WhitenedMeans(*options.samples(), options.shrinkage).family(options.n_components)
