"""Base classes of the estimators: validation of samples, ``transform``, and the bracket of a search."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdpfeas.drivers.bracket import BisectionResult, Step
from sdpfeas.estimators.projection_plot import plot_projection
from sdpfeas.estimators.projection_refinement import ProjectionObjective, refine_projection
from sdpfeas.extras import extra
from sdpfeas.families.class_scatter import STRIP_ROWS
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.problem.validation import require_doubles

with extra("wlda", "sdpfeas.estimators"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data


class LinearProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Supervised linear projection to fewer features; subclasses set ``components_`` in ``fit``.

    Attributes
    ----------
    components_ : ndarray
        One direction per row, shape (n_components, n_features).
    mean_ : ndarray
        Mean of the samples, subtracted before projecting.
    means_ : ndarray
        Mean of every class, shape (n_classes, n_features).
    classes_ : ndarray
        The labels, sorted.
    """

    components_: FloatArray
    mean_: FloatArray
    means_: FloatArray
    classes_: np.ndarray

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _checked_samples(
        self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None = None
    ) -> tuple[FloatArray, np.ndarray, FloatArray | None]:
        """Validate samples, labels and weights, and set ``classes_``, ``mean_`` and ``means_``.

        Returns the samples of positive weight, the class of each as an index into ``classes_``, and their
        weights. Called by subclasses.
        """
        samples, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        require_doubles(X, "X")  # scikit-learn rounds large integers silently
        check_classification_targets(labels)
        self.classes_, index = np.unique(labels, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least two classes; the data contain 1 class"
            )
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, samples, dtype=np.float64)
            if np.any(weights < 0.0):
                raise ValueError("sample_weight holds negative numbers; 0 leaves a sample out")
            keep = weights > 0.0
            samples, index, weights = samples[keep], index[keep], weights[keep]
        own = [index == g for g in range(self.classes_.size)]
        gone = [name for name, part in zip(self.classes_, own, strict=True) if not part.any()]
        if gone:
            raise ValueError(f"no sample of class {gone[0]} has a positive weight")
        shares = [None if weights is None else weights[part] for part in own]
        self.mean_ = np.average(samples, axis=0, weights=weights)
        means = [np.average(samples[k], axis=0, weights=w) for k, w in zip(own, shares, strict=True)]
        self.means_ = np.array(means)
        return samples, index, weights

    def _projected(self, samples: FloatArray, W: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Return the centred and projected samples, multiplied by the roots of their weights."""
        strips = range(0, samples.shape[0], STRIP_ROWS)
        parts = [(samples[i : i + STRIP_ROWS] - self.mean_) @ W for i in strips]
        projected = np.concatenate(parts)
        return projected if weights is None else np.sqrt(weights)[:, None] * projected

    def transform(self, X: ArrayLike) -> FloatArray:
        """Project samples.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).

        Returns
        -------
        ndarray
            Shape (n_samples, n_components).
        """
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray((samples - self.mean_) @ self.components_.T)


class ProvenProjection(LinearProjection):
    """Linear projection found by a search that brackets the optimal value of a semidefinite relaxation.

    Attributes
    ----------
    delta_ : float
        Largest value that a point of the relaxation provably attains, ``delta_bounds_[0]``.
    delta_bounds_ : tuple of float
        Lower and upper bound of the optimal value of the relaxation.
    proven_, converged_ : bool
        Whether the bounds are proved, and whether they agree to within the tolerance.
    reason_ : str
        Why the search ended.
    history_ : tuple of Step
        The solves.
    """

    delta_: float
    delta_bounds_: tuple[float, float]
    relaxation_gap_: float
    proven_: bool
    converged_: bool
    reason_: str
    history_: tuple[Step, ...]

    def plot(self, X: ArrayLike, y: ArrayLike, *, ax: Any = None) -> Any:
        """Draw samples in the projection; returns the Matplotlib figure.

        Marks the classes or the group that limit the objective; the title shows the proven bracket. More than
        two components are drawn in panels, two at a time.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            Their labels, or groups.
        ax : Axes, optional
            Draw here, the first two components only; by default in a new figure.
        """
        return plot_projection(self, self.transform(X), np.asarray(y), ax)

    def _take_bracket(self, found: BisectionResult, unit: float = 1.0) -> None:
        """Set the attributes that describe the result of a search; called by subclasses.

        ``unit`` is a power of two that converts values to the units of the data. A bound that it rounds is
        moved outwards.
        """
        low, high = found.lower * unit, found.upper * unit
        # Scaling by a power of two rounds subnormal numbers.
        low = low if low / unit == found.lower else math.nextafter(low, -math.inf)
        high = high if high / unit == found.upper else math.nextafter(high, math.inf)
        self.delta_bounds_ = (low, high)
        self.delta_ = self.delta_bounds_[0]
        self.proven_, self.converged_, self.reason_ = found.proven, found.converged, found.reason
        self.history_ = found.history
        if not found.converged:
            bracket = "[{:.6g}, {:.6g}]".format(*self.delta_bounds_)
            message = f"delta* was only found to lie in {bracket}: {found.reason}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)


class RefinedProjection(ProvenProjection):
    """Projection that maximises a value: the rounded solution of the relaxation, improved with ``refine``.

    Attributes
    ----------
    value_ : float
        Value of ``components_``, in floating-point arithmetic.
    rounded_value_ : float
        Value before local optimisation.
    """

    value_: float
    rounded_value_: float
    tol: float
    refine: bool

    def _round_and_refine(
        self,
        objective: ProjectionObjective,
        found: BisectionResult,
        r: int,
        scale: float,
        unit: float = 1.0,
    ) -> FloatArray:
        """Return the projection in the coordinates of the objective, and set its value.

        ``scale`` converts values of the objective, and ``unit`` those of the family, to units of the data.
        """
        relaxed = None if found.point is None else symmetrize(found.point[0])
        A = objective.initial_projection(r) if relaxed is None else eigh(relaxed)[1][:, ::-1][:, :r]
        self.rounded_value_ = self.value_ = scale * objective.value(A)
        if self.refine:
            target = (found.upper - 0.1 * self.tol * abs(found.upper)) * (unit / scale)
            A = refine_projection(objective, A, target, relaxed=relaxed)
            self.value_ = scale * objective.value(A)
        return A


def principal_axes(W: FloatArray, projected: FloatArray) -> FloatArray:
    """Rotate orthonormal columns within their span such that the projected samples are uncorrelated.

    Distances between projected samples do not change. Order and signs of the columns become unique.
    """
    size = float(np.max(np.abs(projected), initial=0.0)) or 1.0
    # Fewer samples than columns have no unique axes; the full matrix completes them.
    _, _, right = np.linalg.svd(projected / size, full_matrices=projected.shape[0] < projected.shape[1])
    turned = W @ right.T
    largest = turned[np.argmax(np.abs(turned), axis=0), np.arange(turned.shape[1])]
    return np.asarray(turned * np.where(largest < 0.0, -1.0, 1.0))


def check_components(n_components: Any, default: int, most: int) -> int:
    """Validate a number of new features."""
    if n_components is None:
        return default
    if isinstance(n_components, bool) or not isinstance(n_components, (int, np.integer)) or n_components < 1:
        raise ValueError(f"n_components must be a positive integer, got {n_components!r}")
    if n_components > most:
        raise ValueError(f"n_components = {n_components} exceeds {most}: the data have no more dimensions")
    return int(n_components)
