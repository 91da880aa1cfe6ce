"""Fair principal component analysis as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdpfeas.drivers.bisection import bisect
from sdpfeas.estimators.projection import ProvenProjection, check_components, principal_axes
from sdpfeas.estimators.projection_refinement import MinVarianceObjective, refine_projection
from sdpfeas.families.projection_problems import Aim, Centring, GroupCovariances
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize

#: Number of new features where none is asked for.
USUAL = 2


class FairPCA(ProvenProjection):
    """Project such that even the group that loses most keeps much of its variance.

    With ``S_g`` the covariance matrix of group g and ``W`` orthonormal, ``aim="variance"`` maximises the
    least ``tr(W'S_g W)``, and ``aim="loss"`` minimises the largest loss, the variance that the best
    projection of that size for the group alone would keep less the variance kept (Samadi, Tantipongpipat,
    Morgenstern, Singh and Vempala, NeurIPS 2018; Tantipongpipat, Samadi, Singh, Morgenstern and Vempala,
    NeurIPS 2019). Solved by its semidefinite relaxation over the Fantope, whose optimal value ``delta*``
    comes with proven bounds: no ``W`` attains more than ``delta_bounds_[1]``. With two groups the relaxation
    is tight.

    Parameters
    ----------
    n_components : int, optional
        Number of new features; default: two, or as many as the data have.
    aim : {"variance", "loss"}
        Maximise the least variance, or minimise the largest loss.
    centring : {"group", "overall"}
        Take variances around the mean of the group, or around the mean of all samples.
    solver : str, Path, type or Solver
        As for :func:`sdpfeas.bisect`.
    tol : float
        Width of the bracket around ``delta*``, relative to its upper end.
    refine : bool
        After rounding, improve the value of ``W`` itself.
    time_limit : float, optional
        Seconds for the search of ``delta*``.

    Attributes
    ----------
    components_ : ndarray
        Orthonormal rows, shape (n_components, n_features).
    delta_ : float
        The largest value that a point of the relaxation was proved to attain. A loss counts negative, so
        that larger is better for both aims.
    delta_bounds_ : tuple of float
        Lower and upper bound of ``delta*``.
    value_ : float
        What ``components_`` attain, in plain arithmetic.
    rounded_value_ : float
        The same before refinement.
    relaxation_gap_ : float
        How far ``value_`` is below ``delta_bounds_[1]``, relative to the largest variance that any group
        could keep: no projection of that size can gain more.
    variances_, losses_ : ndarray
        What each group keeps and what it loses, in the order of ``classes_``.
    worst_group_ : object
        Label of the group that limits the value.
    proven_, converged_ : bool
        Whether the bounds are proved, and whether they are within ``tol``.
    reason_ : str
        Why the search ended.
    history_ : tuple of Step
        The solves.
    mean_, means_, classes_
        Mean of the samples, means of the groups, labels of the groups.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if they have any.

    Warns
    -----
    ConvergenceWarning
        If the bracket is wider than ``tol``; the bounds hold nevertheless.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpfeas.estimators import FairPCA
    >>> X, group = load_iris(return_X_y=True)
    >>> fair = FairPCA(n_components=1, tol=1e-6).fit(X, group)
    >>> print(round(fair.delta_, 4), fair.worst_group_)
    0.2317 0
    """

    value_: float
    rounded_value_: float
    variances_: FloatArray
    losses_: FloatArray
    worst_group_: Any

    def __init__(
        self,
        n_components: int | None = None,
        aim: Aim = "variance",
        centring: Centring = "group",
        solver: Any = "auto",
        tol: float = 1e-3,
        refine: bool = False,
        time_limit: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.aim = aim
        self.centring = centring
        self.solver = solver
        self.tol = tol
        self.refine = refine
        self.time_limit = time_limit

    def fit(self, X: ArrayLike, y: ArrayLike) -> FairPCA:
        """Find the projection.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            The group of each sample.
        """
        samples, index = self.checked_samples(X, y)
        groups = GroupCovariances(samples, index, self.centring)
        r = check_components(self.n_components, min(USUAL, groups.k), groups.k)
        family = groups.family(r, self.aim)
        found = bisect(family, self.solver, self.tol, time_limit=self.time_limit)
        self.take_bracket(found, groups.unit)
        most = groups.most(r)
        offsets = most if self.aim == "loss" else np.zeros(most.size)
        objective = MinVarianceObjective(groups, offsets)
        A = objective.guess(r)
        if found.point is not None:
            _, vec = eigh(symmetrize(found.point[0]))
            A = vec[:, ::-1][:, :r]
        self.rounded_value_ = objective.value(A) * groups.unit
        if self.refine:
            A = refine_projection(objective, A, found.upper - 0.1 * self.tol * abs(found.upper))
        kept = groups.kept(A)
        self.value_ = objective.value(A) * groups.unit
        self.variances_, self.losses_ = kept * groups.unit, (most - kept) * groups.unit
        self.worst_group_ = self.classes_[int(np.argmin(kept - offsets))]
        size = float(np.max(most)) * groups.unit
        self.relaxation_gap_ = max(self.delta_bounds_[1] - self.value_, 0.0) / size if size > 0.0 else 0.0
        self.components_ = principal_axes(groups.basis @ A, samples - self.mean_).T
        return self
