"""Fair principal component analysis as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdpfeas.drivers.bisection import bisect
from sdpfeas.estimators.projection import RefinedProjection, check_components, principal_axes
from sdpfeas.estimators.projection_refinement import MinVarianceObjective
from sdpfeas.families.projection_problems import Aim, Centring, GroupCovariances
from sdpfeas.numerics.linalg import FloatArray

#: Default number of new features.
DEFAULT_COMPONENTS = 2


class FairPCA(RefinedProjection):
    """Fair principal component analysis: maximise the variance preserved in the worst group.

    With ``S_g`` the covariance matrix of group g and ``W`` orthonormal, ``aim="variance"`` maximises
    ``min_g tr(W'S_g W)``. ``aim="loss"`` minimises the largest loss, that is, the variance that the best
    projection for the group alone would preserve minus ``tr(W'S_g W)`` (Samadi, Tantipongpipat, Morgenstern,
    Singh and Vempala, NeurIPS 2018; Tantipongpipat, Samadi, Singh, Morgenstern and Vempala, NeurIPS 2019).
    The method is the semidefinite relaxation over the Fantope, rounded to its leading eigenvectors. The
    optimal value ``delta*`` of the relaxation has proven bounds, and no ``W`` attains more than
    ``delta_bounds_[1]``. With two groups the relaxation is tight.

    Parameters
    ----------
    n_components : int, optional
        Number of new features; by default two, at most the rank of the data.
    aim : {"variance", "loss"}
        Maximise the least variance, or minimise the largest loss.
    centring : {"group", "overall"}
        Take variances around the mean of the group, or around the mean of all samples.
    shrinkage : float, "auto" or None
        Replace the covariance matrix of every group by a convex combination with a multiple of the identity:
        with this share, or with that of Ledoit and Wolf. Variances and losses are those of the shrunk
        matrices.
    solver : str, Path, type or Solver
        As for :func:`sdpfeas.bisect`.
    tol : float
        Width of the bracket around ``delta*``, relative to its upper end.
    refine : bool
        Improve the rounded ``W`` by local optimisation.
    time_limit : float, optional
        Time limit of the search for ``delta*``, in seconds.

    Attributes
    ----------
    components_ : ndarray
        Orthonormal rows, shape (n_components, n_features).
    delta_ : float
        Largest value that a point of the relaxation provably attains. Losses are negated, so that larger is
        better for both aims.
    delta_bounds_ : tuple of float
        Lower and upper bound of ``delta*``.
    value_ : float
        Value of ``components_``, in floating-point arithmetic.
    rounded_value_ : float
        Value before local optimisation.
    relaxation_gap_ : float
        ``delta_bounds_[1] - value_``, relative to the largest variance that any group could preserve: no
        projection of that dimension can gain more.
    variances_, losses_ : ndarray
        Variance that each group preserves, and its loss, in the order of ``classes_``.
    worst_group_ : object
        Label of the group that limits the value.
    proven_, converged_ : bool
        Whether the bounds are proved, and whether they agree to within ``tol``.
    reason_ : str
        Why the search ended.
    history_ : tuple of Step
        The solves.
    mean_, means_, classes_
        Mean of the samples, means of the groups, labels of the groups.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if ``X`` has any.

    Warns
    -----
    ConvergenceWarning
        If the bracket is wider than ``tol``; the bounds hold nevertheless.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpfeas.estimators import FairPCA
    >>> X, group = load_iris(return_X_y=True)
    >>> fair = FairPCA(n_components=1, tol=1e-6).fit(X, groups=group)
    >>> print(round(fair.delta_, 4), fair.worst_group_)
    0.2317 0
    """

    variances_: FloatArray
    losses_: FloatArray
    worst_group_: Any

    def __init__(
        self,
        n_components: int | None = None,
        aim: Aim = "variance",
        centring: Centring = "group",
        shrinkage: float | str | None = None,
        solver: Any = "auto",
        tol: float = 1e-3,
        refine: bool = False,
        time_limit: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.aim = aim
        self.centring = centring
        self.shrinkage = shrinkage
        self.solver = solver
        self.tol = tol
        self.refine = refine
        self.time_limit = time_limit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> FairPCA:
        """Compute the projection.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like, optional
            Ignored: the target of a classifier is not the group.
        groups : array_like
            The group of each sample. In a pipeline it is routed here after
            ``FairPCA().set_fit_request(groups=True)``.
        sample_weight : array_like, optional
            Weights of the samples: weight 2 is equivalent to repeating a sample, weight 0 to omitting it.
        """
        if groups is None:
            raise ValueError(
                "FairPCA requires groups, the group of each sample: fit(X, groups=...). In a pipeline, call "
                "set_fit_request(groups=True) with metadata routing, or pass fairpca__groups without. The "
                "target y is not taken for the groups."
            )
        samples, index, weights = self._checked_samples(X, groups, sample_weight)
        covariances = GroupCovariances(
            samples, index, self.centring, shrinkage=self.shrinkage, weights=weights
        )
        r = check_components(self.n_components, min(DEFAULT_COMPONENTS, covariances.k), covariances.k)
        family = covariances.family(r, self.aim)
        found = bisect(family, self.solver, self.tol, time_limit=self.time_limit)
        self._take_bracket(found, covariances.unit)
        most = covariances.most(r)
        offsets = most if self.aim == "loss" else np.zeros(most.size)
        objective = MinVarianceObjective(covariances, offsets)
        A = self._round_and_refine(objective, found, r, covariances.unit, covariances.unit)
        kept = covariances.kept(A)
        self.variances_, self.losses_ = kept * covariances.unit, (most - kept) * covariances.unit
        self.worst_group_ = self.classes_[int(np.argmin(kept - offsets))]
        size = float(np.max(most)) * covariances.unit
        self.relaxation_gap_ = max(self.delta_bounds_[1] - self.value_, 0.0) / size if size > 0.0 else 0.0
        W = covariances.basis @ A
        self.components_ = principal_axes(W, self._projected(samples, W, weights)).T
        return self
