"""The paper's protocol: how data are split into training and test samples, and how they are preprocessed.

The sizes printed in the paper show how it splits: on the UCI data one draw from all samples, on the images
the same share of every class, halves rounded up in both cases. Principal components and scaling are computed
from the training samples alone. The main entry point is :meth:`Task.sample`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

import sdpfeas as sf

# Internals: the data sets of the problem cards.
from sdpfeas.datasets import Dataset, choose_classes, leading_axes, load_dataset

__all__ = ["PREPROCESSINGS", "Sample", "Task", "data"]

#: Seed of all random choices, together with the number of the split.
SEED = 20150101

Preprocessing = Literal["none", "standardised", "min-max", "unit norm", "whitened", "within-whitened"]

PREPROCESSINGS: tuple[Preprocessing, ...] = (
    "none",
    "standardised",
    "min-max",
    "unit norm",
    "whitened",
    "within-whitened",
)


@dataclass(frozen=True)
class Sample:
    """A split: training and test samples with their labels, and the final dimension."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    components: int


@dataclass(frozen=True)
class Task:
    """A data set and its preprocessing.

    Attributes
    ----------
    dataset : str
        Name of a data set in :mod:`sdpfeas.datasets`.
    share : float
        Share of training samples; with 1 all samples are used for training and for testing.
    by_class : bool
        Whether the share is drawn from every class separately.
    first_class, classes : int
        Use ``classes`` classes, in the order of their labels, from index ``first_class`` on; default: all.
    features : int, optional
        Number of features, the first ones; default: all.
    preprocessing : str
        One of :data:`PREPROCESSINGS`.
    pca : int, optional
        Number of principal components to keep (at most the rank); default: no PCA.
    components : int, optional
        Final dimension; default: number of classes minus one.
    """

    dataset: str
    share: float = 0.7
    by_class: bool = False
    first_class: int = 0
    classes: int | None = None
    features: int | None = None
    preprocessing: Preprocessing = "none"
    pca: int | None = None
    components: int | None = None

    def plain(self) -> dict[str, Any]:
        """All fields, as plain data for JSON."""
        return asdict(self)

    @property
    def label(self) -> str:
        """Data set and changed fields in one string, different for different tasks."""
        base = asdict(Task(self.dataset))
        changed = ", ".join(f"{key}={value}" for key, value in self.plain().items() if value != base[key])
        return f"{self.dataset}[{changed}]" if changed else self.dataset

    def sizes(self) -> tuple[int, int]:
        """Numbers of training and test samples."""
        train, test = self._indices(self._chosen()[1], 0)
        return train.size, test.size

    def class_count(self) -> int:
        """Number of classes."""
        return int(np.unique(self._chosen()[1]).size)

    def sample(self, split: int) -> Sample:
        """Draw split number ``split``. Tasks that differ in preprocessing only get the same samples."""
        X, y = self._chosen()
        train, test = self._indices(y, split)
        A, B = _preprocessed(self.preprocessing, X[train], y[train], X[test])
        if self.pca is not None:
            centre, axes = leading_axes(A, self.pca)
            A, B = (A - centre) @ axes, (B - centre) @ axes
        classes = np.unique(y).size
        return Sample(A, y[train], B, y[test], classes - 1 if self.components is None else self.components)

    def _chosen(self) -> tuple[np.ndarray, np.ndarray]:
        X, y = choose_classes(data(self.dataset), self.first_class, self.classes)
        return X[:, : self.features], y

    def _indices(self, y: np.ndarray, split: int) -> tuple[np.ndarray, np.ndarray]:
        everything = np.arange(y.size)
        if self.share == 1.0:
            return everything, everything
        rng = np.random.default_rng([SEED, split])
        groups = [np.flatnonzero(y == label) for label in np.unique(y)] if self.by_class else [everything]
        drawn = [rng.permutation(group)[: _half_up(self.share * group.size)] for group in groups]
        train = np.sort(np.concatenate(drawn))
        return train, np.setdiff1d(everything, train)


@lru_cache(maxsize=4)
def data(name: str) -> Dataset:
    """Load a data set; the last four are cached."""
    return load_dataset(name)


def _half_up(value: float) -> int:
    # 0.7 · 225 = 157.5 may be rounded down or up; the tolerance makes it count as a half.
    return math.floor(value + 0.5 + 1e-9)


def _preprocessed(
    how: Preprocessing, A: np.ndarray, y: np.ndarray, B: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Apply a preprocessing, fitted on the training samples ``A``, to training and test samples."""
    if how == "none":
        return A, B
    if how == "unit norm":
        return A / np.linalg.norm(A, axis=1)[:, None], B / np.linalg.norm(B, axis=1)[:, None]
    if how == "standardised":
        return _scaled(A, B, A.mean(axis=0), A.std(axis=0))
    if how == "min-max":
        return _scaled(A, B, A.min(axis=0), np.ptp(A, axis=0))
    centre = A.mean(axis=0)
    if how == "whitened":
        spread = A - centre
    elif how == "within-whitened":
        spread = A - np.array([A[y == label].mean(axis=0) for label in y])
    else:
        raise sf.OptionError(f"no preprocessing is called {how!r}; known: {', '.join(PREPROCESSINGS)}")
    _, singular, right = np.linalg.svd(spread, full_matrices=False)
    keep = singular > 1e-10 * singular[0]
    turn = right[keep].T * (math.sqrt(len(A)) / singular[keep])
    return (A - centre) @ turn, (B - centre) @ turn


def _scaled(
    A: np.ndarray, B: np.ndarray, shift: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    divisor = np.where(size > 0.0, size, 1.0)
    return (A - shift) / divisor, (B - shift) / divisor
