"""A projection in a picture: its classes, the closest pair of them, and how good it is proved to be."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import _check_sample_weight

from sdpfeas.drivers.bisection import bisect
from sdpfeas.drivers.bracket import BisectionResult, relative_gap
from sdpfeas.escaping import escape_figure
from sdpfeas.estimators.projection import ProvenProjection, principal_axes
from sdpfeas.estimators.projection_refinement import ROUNDING, Criterion, refine_projection
from sdpfeas.extras import extra
from sdpfeas.families import WLDA
from sdpfeas.families.class_scatter import ClassScatter
from sdpfeas.numerics.linalg import FloatArray

#: Components that are drawn against each other at most, and classes that a legend lists.
MOST_PANELS = 5
MOST_LISTED = 20


def new_figure(side: float = 6.0) -> Any:
    """An empty figure of Matplotlib."""
    with extra("plot", "a plot"):
        from matplotlib.figure import Figure
    return Figure(figsize=(side, 0.77 * side), layout="constrained")


def plot_projection(found: Any, Z: FloatArray, y: np.ndarray) -> Any:
    """Draw projected samples, two components a panel.

    The two closest classes are joined by a line between their means, the widest is drawn with a ring around
    its mean, and the title says what was proved about the ratio.
    """
    count = min(Z.shape[1], MOST_PANELS)
    panels = [(i, j) for i in range(count) for j in range(i)] or [(0, 0)]
    side = max(count - 1, 1)
    figure = new_figure(6.0 if side == 1 else 3.2 * side)
    grid = figure.subplots(side, side, squeeze=False)
    for axes in grid.flat:
        axes.set_visible(False)
    for i, j in panels:
        axes = grid[max(i - 1, 0), j]
        axes.set_visible(True)
        if count == 1:
            _histogram(axes, found, Z[:, 0], y)
        else:
            _scatter(axes, found, Z[:, [j, i]], y)
            axes.set_xlabel(f"component {j + 1}")
            axes.set_ylabel(f"component {i + 1}")
        axes.spines[["top", "right"]].set_visible(False)
    if len(found.classes_) <= MOST_LISTED:
        grid[0, 0].legend(frameon=False, fontsize="small")
    lower, upper = found.delta_bounds_
    proof = "" if found.proven_ else ", not proven"
    figure.suptitle(
        f"{lower:.5g} ≤ δ* ≤ {upper:.5g}{proof}; this projection: {found.ratio_:.5g}", fontsize="medium"
    )
    return figure


def _histogram(axes: Any, found: Any, values: FloatArray, y: np.ndarray) -> None:
    for name in found.classes_:
        axes.hist(values[y == name], bins=30, alpha=0.55, label=escape_figure(_titled(found, name)))
    axes.set_xlabel("component 1")
    axes.set_ylabel("samples")


def _scatter(axes: Any, found: Any, values: FloatArray, y: np.ndarray) -> None:
    means = {}
    for name in found.classes_:
        mine = values[y == name]
        drawn = axes.scatter(
            mine[:, 0], mine[:, 1], s=14, alpha=0.7, label=escape_figure(_titled(found, name))
        )
        if mine.size:
            means[name] = mine.mean(axis=0)
            if name == found.worst_class_:
                axes.plot(
                    *means[name], marker="o", markersize=16, fillstyle="none", color=drawn.get_facecolor()[0]
                )
    pair = [means[name] for name in found.worst_pair_ if name in means]
    if len(pair) == 2:
        axes.plot(*np.transpose(pair), color="black", linewidth=1.2, marker="x")
    axes.set_aspect("equal", adjustable="datalim")


def _titled(found: Any, name: Any) -> str:
    """The name of a class, with what is special about it."""
    facts = {"closest pair": name in found.worst_pair_, "widest": name == found.worst_class_}
    special = [what for what, holds in facts.items() if holds]
    return f"{name} ({', '.join(special)})" if special else str(name)


# ------------------------------------------------------------
# Worst-case linear discriminant analysis as a scikit-learn transformer.


class WorstCaseLDA(ProvenProjection):
    """Project such that even the closest two classes are far apart, and even the widest class is narrow.

    Maximises ``min_ij ||W'(m_i - m_j)||² / max_k tr(W'S_k W)`` over orthonormal ``W``, by its semidefinite
    relaxation (Li, Shen, van den Hengel and Shi, IEEE TIP 2015). The optimal value ``delta*`` of the
    relaxation comes with proven bounds, so that ``delta_bounds_[1]`` also bounds what any ``W`` attains.

    Parameters
    ----------
    n_components : int, optional
        Number of new features; default: one less than the classes, or the rank of the data if smaller.
    solver : str, Path, type or Solver
        ``"auto"`` solves one program by ``spectral-ipm``, and bisects where that does not close the bracket.
        Any other solver is asked step by step in a bisection.
    tol : float
        Width of the bracket around ``delta*``, relative to its upper end.
    formulation : {"compact", "paper"}
        How the feasibility problems of a bisection are posed; see :class:`sdpfeas.families.WLDA`.
    scatter : {"mean", "sum"}
        Divide the scatter of a class by its number of samples, or do not.
    shrinkage : float, "auto" or None
        Shrink every class scatter towards a multiple of the identity: by this share, or by that of Ledoit and
        Wolf. The ratios are those of the shrunk scatters.
    refine : bool
        After rounding, improve the ratio of ``W`` itself. Done anyway where ratios are vacuous (``notes_``).
    time_limit : float, optional
        Seconds for the search of ``delta*``.

    Attributes
    ----------
    components_ : ndarray
        Orthonormal rows, shape (n_components, n_features): the span of the leading eigenvectors of the
        optimal ``Z`` (refined, if asked for), turned such that the new features are uncorrelated.
    delta_ : float
        The largest ratio that a point of the relaxation was proved to attain, ``delta_bounds_[0]``. Infinity
        if the class scatters leave room to separate all means.
    delta_bounds_ : tuple of float
        Lower and upper bound of ``delta*``.
    ratio_ : float
        Ratio attained by ``components_``, in plain arithmetic.
    rounded_ratio_ : float
        The same before refinement.
    relaxation_gap_ : float
        How far ``ratio_`` is below ``delta_bounds_[1]``, relative to the latter: no projection of that size
        can gain more.
    proven_, converged_ : bool
        Whether the bounds are proved, and whether they are within ``tol``.
    reason_ : str
        Why the search ended.
    worst_pair_ : tuple
        Labels of the two classes whose projected means are closest.
    worst_class_ : object
        Label of the class with the largest projected scatter.
    history_ : tuple of Step
        The solves.
    notes_ : tuple of str
        What was found out about the data.
    mean_, means_, classes_
        Mean of the samples, means of the classes, labels.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if they have any.

    Warns
    -----
    DataDimensionalityWarning
        If directions were left out because nothing varies in them, or if directions without scatter make
        the ratio infinite or vacuous.
    UserWarning
        If two classes have the same mean, so that ``delta*`` is zero, or a class has one sample only.
    ConvergenceWarning
        If the bracket is wider than ``tol``; the bounds hold nevertheless.

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
        refine: bool = False,
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
        """Find the projection.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            One label a sample.
        sample_weight : array_like, optional
            How much each sample counts in means and scatters: 2 is a sample that is there twice, 0 one that
            is not there.
        """
        samples, index = self.checked_samples(X, y)
        weights = None
        if sample_weight is not None:
            samples, index, weights = self._weighted(samples, index, sample_weight)
        lone = self.classes_[np.bincount(index) == 1]
        if lone.size:
            names = ", ".join(map(str, lone[:5])) + (", …" if lone.size > 5 else "")
            warnings.warn(f"classes with one sample have no scatter: {names}", UserWarning, stacklevel=2)
        family = WLDA.from_data(
            samples,
            self.classes_[index],
            self.n_components,
            formulation=self.formulation,
            scatter=self.scatter,
            shrinkage=self.shrinkage,
            weights=weights,
        )
        found = bisect(family, self.solver, self.tol, time_limit=self.time_limit)
        self.notes_ = family.notes
        for message, category in _warnings(family, found):
            warnings.warn(message, category, stacklevel=2)
        self.take_bracket(found)
        classes = ClassScatter.from_samples(
            samples, index, scatter=self.scatter, shrinkage=self.shrinkage, weights=weights
        )
        degenerate = family.vacuous or math.isinf(found.lower)
        criterion = Criterion(classes, ROUNDING if degenerate else 0.0, bounded=math.isfinite(found.lower))
        # Rounding a vacuous Z leaves the null space of the scatters, where some means agree.
        refine = (self.refine or family.vacuous) and math.isfinite(found.lower)
        spread = (samples - self.mean_) * (1.0 if weights is None else np.sqrt(weights)[:, None])
        self._take_projection(criterion, _rounded(family, found), spread, refine)
        return self

    def _weighted(
        self, samples: FloatArray, index: np.ndarray, sample_weight: ArrayLike
    ) -> tuple[FloatArray, np.ndarray, FloatArray]:
        """The samples that count, their classes and weights; means are weighted, too."""
        weights = _check_sample_weight(sample_weight, samples, dtype=np.float64)
        if np.any(weights < 0.0):
            raise ValueError("sample_weight holds negative numbers; 0 leaves a sample out")
        keep = weights > 0.0
        samples, index, weights = samples[keep], index[keep], weights[keep]
        gone = np.setdiff1d(np.arange(self.classes_.size), index)
        if gone.size:
            raise ValueError(f"no sample of class {self.classes_[gone[0]]} has a positive weight")
        self.mean_ = np.average(samples, axis=0, weights=weights)
        own = [index == g for g in range(self.classes_.size)]
        self.means_ = np.array([np.average(samples[k], axis=0, weights=weights[k]) for k in own])
        return samples, index, weights

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The class whose mean is nearest in the projection, sample by sample.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        """
        projected = self.transform(X)
        means = (self.means_ - self.mean_) @ self.components_.T
        # |z - m|² without |z|², which is the same for all classes.
        nearness = projected @ means.T - 0.5 * np.sum(means**2, axis=1)
        return np.asarray(self.classes_[np.argmax(nearness, axis=1)])

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of samples whose class is predicted right.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            Their labels.
        sample_weight : array_like, optional
            How much each sample counts.
        """
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def plot(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Draw samples in the projection: a figure of Matplotlib.

        The two closest classes are joined, the widest is ringed, and the title has the proven bracket. More
        than two components are drawn in panels, two at a time.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            Their labels.
        """
        return plot_projection(self, self.transform(X), np.asarray(y))

    def _take_projection(self, criterion: Criterion, W: FloatArray, spread: FloatArray, refine: bool) -> None:
        A, _ = np.linalg.qr(criterion.basis.T @ W)
        self.rounded_ratio_ = self.ratio_ = criterion.ratio(A)
        if refine:
            A = refine_projection(criterion, A, (1.0 - 0.1 * self.tol) * self.delta_bounds_[1])
            self.ratio_ = criterion.ratio(A)
        self.relaxation_gap_ = max(relative_gap(self.ratio_, self.delta_bounds_[1]), 0.0)
        distances, scatters = criterion.values(A)
        pair = int(np.argmin(distances))
        self.worst_pair_ = (self.classes_[criterion.first[pair]], self.classes_[criterion.second[pair]])
        self.worst_class_ = self.classes_[int(np.argmax(scatters))]
        self.components_ = principal_axes(criterion.basis @ A, spread).T


def _warnings(family: WLDA, found: BisectionResult) -> Iterator[tuple[str, type[Warning]]]:
    """What a user should hear about the data and the search."""
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


def _rounded(family: WLDA, found: BisectionResult) -> FloatArray:
    """Leading eigenvectors of the point found, or of the best first guess where there is none."""
    point = found.point
    if point is None:
        point = max(family.initial_points(), key=family.ratio)
    return family.components(point)
