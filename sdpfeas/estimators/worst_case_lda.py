"""Worst-case linear discriminant analysis as a scikit-learn transformer, classifier and plot."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning, DataDimensionalityWarning
from sklearn.metrics import accuracy_score

from sdpfeas.drivers.bisection import bisect, one_shot
from sdpfeas.drivers.bracket import BisectionResult, relative_gap
from sdpfeas.estimators.projection import ProvenProjection, principal_axes
from sdpfeas.estimators.projection_refinement import ZERO_SCATTER_SHARE, RatioObjective, refine_projection
from sdpfeas.families import WLDA
from sdpfeas.families.class_scatter import ClassScatter
from sdpfeas.numerics.linalg import FloatArray, symmetrize

#: Effort of ``refine="auto"``, relative to that of the search. Both are estimated in floating-point
#: operations (:func:`_search_operations`), so that results do not depend on the machine's load. Measured by
#: ``python -m benchmarks.paper.attained``: 1.4 times the processor time of the search on average, and at
#: most about twice, also after a second search.
REFINEMENT_SHARE = 2.3

#: Tolerance of the second search for ``delta*``, relative to that of the first; it repeats the first and adds
#: some iterations.
ACCURATE_TOL = 1e-3

#: Relaxation gap above which ``fit`` warns, and a more accurate Z is not worth its time.
WIDE_GAP = 0.1


class WorstCaseLDA(ProvenProjection):
    """Worst-case LDA: maximise the least distance of two class means over the largest class scatter.

    Maximises ``min_ij ||W'(m_i - m_j)||² / max_k tr(W'S_k W)`` over orthonormal ``W``, by its semidefinite
    relaxation, rounded to its leading eigenvectors (Li, Shen, van den Hengel and Shi, IEEE TIP 2015). The
    optimal value ``delta*`` of the relaxation has proven bounds, and no ``W`` attains more than
    ``delta_bounds_[1]``.

    Parameters
    ----------
    n_components : int, optional
        Number of new features; by default the number of classes minus one, at most the rank of the data.
    solver : str, Path, type or Solver
        ``"auto"`` solves one conic program by ``spectral-ipm``, and bisects if that does not close the
        bracket. Any other solver is called once per step of a bisection.
    tol : float
        Width of the bracket around ``delta*``, relative to its upper end.
    formulation : {"compact", "paper"}
        Formulation of the feasibility problems of a bisection; see :class:`sdpfeas.families.WLDA`.
    scatter : {"mean", "sum"}
        Divide the scatter of a class by its number of samples, or do not.
    shrinkage : float, "auto" or None
        Replace every class scatter by a convex combination with a multiple of the identity: with this share,
        or with that of Ledoit and Wolf. The ratios are those of the shrunk scatters.
    refine : bool or "auto"
        Improve the rounded ``W`` by optimising the ratio from several starts. ``"auto"`` does so if the
        relaxation gap exceeds ``tol``, in about the time of the search, and at most twice that. Always done
        if ratios are vacuous (``notes_``).
    time_limit : float, optional
        Time limit of the search for ``delta*``, in seconds.

    Attributes
    ----------
    components_ : ndarray
        Orthonormal rows, shape (n_components, n_features): the span of the leading eigenvectors of the
        optimal ``Z`` (then improved, see ``refine``), rotated such that the new features are uncorrelated.
    delta_ : float
        Largest ratio that a point of the relaxation provably attains, ``delta_bounds_[0]``. Infinity if all
        means differ on the common null space of the class scatters.
    delta_bounds_ : tuple of float
        Lower and upper bound of ``delta*``.
    ratio_ : float
        Ratio of ``components_``, in floating-point arithmetic.
    rounded_ratio_ : float
        Ratio before local optimisation.
    relaxation_gap_ : float
        ``delta_bounds_[1] - ratio_``, relative to ``delta_bounds_[1]``: no projection of that dimension can
        gain more.
    proven_, converged_ : bool
        Whether the bounds are proved, and whether they agree to within ``tol``.
    reason_ : str
        Why the search ended.
    worst_pair_ : tuple
        Labels of the two classes whose projected means are closest.
    worst_class_ : object
        Label of the class with the largest projected scatter.
    history_ : tuple of Step
        The solves.
    notes_ : tuple of str
        Degeneracies of the data, in words.
    mean_, means_, classes_
        Mean of the samples, means of the classes, labels.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if ``X`` has any.

    Warns
    -----
    DataDimensionalityWarning
        If the data are rank-deficient, or directions without scatter make the ratio infinite or vacuous.
    UserWarning
        If two classes have the same mean, so that ``delta*`` is zero, or a class has only one sample.
    ConvergenceWarning
        If the bracket is wider than ``tol``, or the relaxation gap is above 10 %; the bounds hold
        nevertheless.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpfeas.estimators import WorstCaseLDA
    >>> X, y = load_iris(return_X_y=True)
    >>> wlda = WorstCaseLDA(n_components=2, tol=1e-6).fit(X, y)
    >>> print(round(wlda.delta_, 4))
    9.6254
    >>> wlda.transform(X).shape
    (150, 2)
    """

    ratio_: float
    rounded_ratio_: float
    worst_pair_: tuple[Any, Any]
    worst_class_: Any
    notes_: tuple[str, ...]

    def __init__(
        self,
        n_components: int | None = None,
        solver: Any = "auto",
        tol: float = 1e-3,
        formulation: Literal["compact", "paper"] = "compact",
        scatter: Literal["mean", "sum"] = "mean",
        shrinkage: float | str | None = None,
        refine: bool | Literal["auto"] = "auto",
        time_limit: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.tol = tol
        self.formulation = formulation
        self.scatter = scatter
        self.shrinkage = shrinkage
        self.refine = refine
        self.time_limit = time_limit

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> WorstCaseLDA:
        """Compute the projection.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            One label per sample.
        sample_weight : array_like, optional
            Weights of the samples in means and scatters: weight 2 is equivalent to repeating a sample, weight
            0 to omitting it.
        """
        if self.refine not in (True, False, "auto"):
            raise ValueError(f"refine must be True, False or 'auto', got {self.refine!r}")
        samples, index, weights = self._checked_samples(X, y, sample_weight)
        lone = self.classes_[np.bincount(index) == 1]
        if lone.size:
            names = ", ".join(map(str, lone[:5])) + (", …" if lone.size > 5 else "")
            warnings.warn(f"classes with one sample have no scatter: {names}", UserWarning, stacklevel=2)
        classes = ClassScatter.from_samples(
            samples,
            self.classes_[index],
            scatter=self.scatter,
            shrinkage=self.shrinkage,
            weights=weights,
        )
        family = WLDA(classes, self.n_components, self.formulation)
        found = bisect(family, self.solver, self.tol, time_limit=self.time_limit)
        self.notes_ = family.notes
        for message, category in _warnings(family, found):
            warnings.warn(message, category, stacklevel=2)
        self._take_bracket(found)
        degenerate = family.vacuous or math.isinf(found.lower)
        objective = RatioObjective(
            classes, ZERO_SCATTER_SHARE if degenerate else 0.0, bounded=math.isfinite(found.lower)
        )
        W = self._take_projection(objective, family, found, samples.shape[0])
        self.components_ = principal_axes(W, self._projected(samples, W, weights)).T
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class with the nearest mean in the projection.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        """
        projected = self.transform(X)
        means = (self.means_ - self.mean_) @ self.components_.T
        # -|z - m|² / 2 without |z|² / 2, which is the same for all classes.
        nearness = projected @ means.T - 0.5 * np.sum(means**2, axis=1)
        return np.asarray(self.classes_[np.argmax(nearness, axis=1)])

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of :meth:`predict`.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            True labels.
        sample_weight : array_like, optional
            Weights of the samples.
        """
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def _take_projection(
        self, objective: RatioObjective, family: WLDA, found: BisectionResult, samples: int
    ) -> FloatArray:
        """Round and refine the point found; set the attributes about ratios, and return W."""
        upper = self.delta_bounds_[1]
        point = found.point
        if point is None:
            point = max(family.initial_points(), key=family.ratio)
        A, _ = np.linalg.qr(objective.basis.T @ family.components(point))
        self.rounded_ratio_ = objective.value(A)
        # A vacuous Z rounds to the null space of the scatters, where some means agree: refine it.
        always = family.vacuous or self.refine is True
        open_gap = relative_gap(self.rounded_ratio_, upper) > self.tol
        if math.isfinite(found.lower) and (always or (self.refine == "auto" and open_gap)):
            target = (1.0 - (0.1 if always else 1.0) * self.tol) * upper
            narrow = (1.0 - WIDE_GAP) * upper <= self.rounded_ratio_ < target
            if self.solver == "auto" and found.history and narrow:
                # Where the relaxation is tight, an accurate Z has rank r, and rounding loses nothing.
                tight = one_shot(family, tol=ACCURATE_TOL * self.tol, time_limit=self.time_limit)
                if tight.point is not None:
                    point = tight.point
                    rounded, _ = np.linalg.qr(objective.basis.T @ family.components(point))
                    A = max(A, rounded, key=objective.value)
            A = refine_projection(
                objective,
                A,
                target,
                relaxed=symmetrize(objective.basis.T @ family.expand(point) @ objective.basis),
                effort=math.inf
                if always
                else REFINEMENT_SHARE * _search_operations(objective, found, samples),
            )
        self.ratio_ = objective.value(A)
        self.relaxation_gap_ = max(relative_gap(self.ratio_, upper), 0.0)
        if WIDE_GAP < self.relaxation_gap_ < math.inf:
            remedy = "more components narrow it" if self.refine is True else "refine=True searches longer"
            message = (
                f"the projection attains the ratio {self.ratio_:.4g}, none attains more than {upper:.4g}: "
                f"relaxation gap {self.relaxation_gap_:.0%} ({remedy})"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        distances, scatters = objective.values(A)
        pair = int(np.argmin(distances))
        self.worst_pair_ = (self.classes_[objective.first[pair]], self.classes_[objective.second[pair]])
        self.worst_class_ = self.classes_[int(np.argmax(scatters))]
        return np.asarray(objective.basis @ A)


def _search_operations(objective: RatioObjective, found: BisectionResult, samples: int) -> float:
    """Estimate the floating-point operations of a search; the coefficients are fitted to measured times."""
    iterations = sum(step.iterations or 0 for step in found.history)
    rows = objective.first.size + objective.means.shape[0]
    reading = min(1200.0 * samples * objective.k, 1e9)
    k = min(objective.k, 100)  # of more, the search uses subspaces
    per_iteration = 1.4e7 + 3.0 * rows**2 * k + 42.0 * k**3
    return 6e7 + reading + iterations * per_iteration + 270.0 * k**3


def _warnings(family: WLDA, found: BisectionResult) -> Iterator[tuple[str, type[Warning]]]:
    """Yield warnings about degenerate data and infinite or zero thresholds."""
    features = family.basis.shape[0]
    if family.rank < features:
        message = f"the data have rank {family.rank} of {features} features; other directions are left out"
        yield message, DataDimensionalityWarning
    if found.lower == math.inf:
        yield f"delta* is infinite: {found.reason}; consider shrinkage", DataDimensionalityWarning
    if family.vacuous:
        yield f"{family.notes[-1]}; consider shrinkage", DataDimensionalityWarning
    if found.upper == 0.0:
        yield f"delta* is zero: {found.reason}", UserWarning
