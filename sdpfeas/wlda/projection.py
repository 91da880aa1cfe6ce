"""What all linear projections share: checked input, ``transform``, names of the new features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdpfeas.extras import extra
from sdpfeas.numerics.linalg import FloatArray

with extra("wlda", "sdpfeas.wlda"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["LinearProjection", "check_components", "principal_axes"]


class LinearProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A supervised linear map to fewer features.

    Subclasses set ``components_`` in their ``fit``.

    Attributes
    ----------
    components_ : ndarray
        One direction a row, shape (n_components, n_features).
    mean_ : ndarray
        Mean of the samples, taken off before projecting.
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

    def _labelled(self, X: ArrayLike, y: ArrayLike | None) -> tuple[FloatArray, np.ndarray]:
        """Check samples and labels; return the samples and the class of each, as an index."""
        samples, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        classes, index = np.unique(labels, return_inverse=True)
        if classes.size < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least two classes; the data contain 1 class"
            )
        self.classes_ = classes
        self.mean_ = samples.mean(axis=0)
        self.means_ = np.array([samples[index == k].mean(axis=0) for k in range(classes.size)])
        return samples, index

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


def principal_axes(W: FloatArray, X: FloatArray) -> FloatArray:
    """Turn orthonormal columns within their span such that projected samples are uncorrelated.

    Distances between projected samples stay as they are; what was arbitrary, order and signs included,
    is so no more.

    Parameters
    ----------
    W : ndarray
        Orthonormal columns, shape (features, components).
    X : ndarray
        Centred samples.
    """
    size = float(np.max(np.abs(X), initial=0.0)) or 1.0
    _, _, right = np.linalg.svd((X / size) @ W, full_matrices=True)
    turned = W @ right.T
    largest = turned[np.argmax(np.abs(turned), axis=0), np.arange(turned.shape[1])]
    return np.asarray(turned * np.where(largest < 0.0, -1.0, 1.0))


def check_components(n_components: Any, default: int, most: int) -> int:
    """Check a number of new features.

    Parameters
    ----------
    n_components : int or None
        What was asked for.
    default : int
        What None stands for.
    most : int
        How many there can be.
    """
    if n_components is None:
        return default
    if isinstance(n_components, bool) or not isinstance(n_components, (int, np.integer)) or n_components < 1:
        raise ValueError(f"n_components must be a positive integer, got {n_components!r}")
    if n_components > most:
        raise ValueError(f"n_components = {n_components} exceeds {most}: the data have no more dimensions")
    return int(n_components)
