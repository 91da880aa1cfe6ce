"""Max-min distance analysis as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdpfeas.drivers.bisection import bisect
from sdpfeas.estimators.projection import RefinedProjection, check_components, principal_axes
from sdpfeas.estimators.projection_refinement import RatioObjective
from sdpfeas.families.projection_problems import WhitenedMeans


class MaxMinDistance(RefinedProjection):
    """Max-min distance analysis: maximise the least distance of two projected class means.

    In coordinates in which the pooled within-class scatter is the identity, maximises
    ``min_ij ||W'(m_i - m_j)||²`` over orthonormal ``W`` (Bian and Tao, IEEE TPAMI 2011), by its semidefinite
    relaxation over the Fantope, rounded to its leading eigenvectors. The optimal value ``delta*`` of the
    relaxation has proven bounds, and no ``W`` attains more than ``delta_bounds_[1]``.

    Parameters
    ----------
    n_components : int, optional
        Number of new features; by default the dimension of the span of the centred class means. With fewer
        the method differs from linear discriminant analysis.
    shrinkage : float, "auto" or None
        Share of the multiple of the identity with the same trace in the pooled within-class scatter, or
        ``"auto"`` for that of Ledoit and Wolf; needed if the scatter is singular.
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
        One direction per row, shape (n_components, n_features); orthonormal in whitened coordinates, rotated
        such that the new features are uncorrelated.
    delta_ : float
        Largest value that a point of the relaxation provably attains.
    delta_bounds_ : tuple of float
        Lower and upper bound of ``delta*``.
    value_ : float
        Least squared distance of two projected class means, in floating-point arithmetic.
    rounded_value_ : float
        Value before local optimisation.
    relaxation_gap_ : float
        ``delta_bounds_[1] - value_``, relative to ``delta_bounds_[1]``.
    worst_pair_ : tuple
        Labels of the two classes whose projected means are closest.
    proven_, converged_ : bool
        Whether the bounds are proved, and whether they agree to within ``tol``.
    reason_ : str
        Why the search ended.
    history_ : tuple of Step
        The solves.
    mean_, means_, classes_
        Mean of the samples, means of the classes, labels.
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
    >>> from sklearn.datasets import load_wine
    >>> from sdpfeas.estimators import MaxMinDistance
    >>> X, y = load_wine(return_X_y=True)
    >>> mmda = MaxMinDistance(n_components=1, tol=1e-6).fit(X, y)
    >>> mmda.transform(X).shape
    (178, 1)
    """

    worst_pair_: tuple[Any, Any]

    def __init__(
        self,
        n_components: int | None = None,
        shrinkage: float | str | None = None,
        solver: Any = "auto",
        tol: float = 1e-3,
        refine: bool = False,
        time_limit: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.solver = solver
        self.tol = tol
        self.refine = refine
        self.time_limit = time_limit

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> MaxMinDistance:
        """Compute the projection.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            One label per sample.
        sample_weight : array_like, optional
            Weights of the samples: weight 2 is equivalent to repeating a sample, weight 0 to omitting it.
        """
        samples, index, weights = self._checked_samples(X, y, sample_weight)
        white = WhitenedMeans(samples, index, self.shrinkage, weights)
        r = check_components(self.n_components, white.k, white.k)
        found = bisect(white.family(r), self.solver, self.tol, time_limit=self.time_limit)
        self._take_bracket(found)
        objective = RatioObjective(white.scatter())
        # The scatter in the objective is the identity, so the ratio is the distance divided by r.
        A = self._round_and_refine(objective, found, r, scale=float(r))
        distances, _ = objective.values(A)
        pair = int(np.argmin(distances))
        self.worst_pair_ = (self.classes_[objective.first[pair]], self.classes_[objective.second[pair]])
        upper = self.delta_bounds_[1]
        self.relaxation_gap_ = max(upper - self.value_, 0.0) / upper if upper > 0.0 else 0.0
        turned = principal_axes(A, self._projected(samples, white.map @ A, weights))
        self.components_ = (white.map @ turned).T
        return self
