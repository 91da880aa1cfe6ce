"""The paper's protocol: which samples are trained on, which are tested, and what is done to them before.

The sizes the paper prints tell how it splits: on the UCI data they are those of one draw from all samples,
on the images those of the same share of every class, halves rounded up in both cases. Principal components,
and any scaling, are learnt from the training samples alone.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from sdpfeas.errors import OptionError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.wlda.data import Dataset, choose_classes, leading_axes, load_dataset

__all__ = ["PREPROCESSINGS", "Sample", "Task", "data"]

#: Every random choice comes from here and from the number of the split.
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
    """A split, ready for a method.

    Attributes
    ----------
    X, y : ndarray
        Training samples and their labels.
    X_test, y_test : ndarray
        Test samples and their labels.
    components : int
        Final dimension.
    """

    X: FloatArray
    y: np.ndarray
    X_test: FloatArray
    y_test: np.ndarray
    components: int


@dataclass(frozen=True)
class Task:
    """A data set and all that is done with it before a method sees it.

    Attributes
    ----------
    dataset : str
        A data set known to :mod:`sdpfeas.wlda.data`.
    share : float
        Share of the samples to train on; with 1 all samples are trained on and tested.
    by_class : bool
        Whether the share is drawn from every class.
    first_class, classes : int
        Use so many classes, in the order of their labels, from this one on.
    features : int, optional
        Use so many features, the first ones.
    preprocessing : str
        One of :data:`PREPROCESSINGS`.
    pca : int, optional
        Keep so many principal components (all there are, if fewer).
    components : int, optional
        Final dimension; default: one less than the classes.
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
        """What distinguishes it, as plain data."""
        return asdict(self)

    @property
    def label(self) -> str:
        """Name and parameters in one string; two tasks share it only if they are equal."""
        base = asdict(Task(self.dataset))
        changed = ", ".join(f"{key}={value}" for key, value in self.plain().items() if value != base[key])
        return f"{self.dataset}[{changed}]" if changed else self.dataset

    def sizes(self) -> tuple[int, int]:
        """How many samples are trained on, and how many are tested."""
        train, test = self._indices(self._chosen()[1], 0)
        return train.size, test.size

    def class_count(self) -> int:
        """How many classes there are."""
        return int(np.unique(self._chosen()[1]).size)

    def sample(self, split: int) -> Sample:
        """Draw a split.

        Parameters
        ----------
        split : int
            Its number; the same number gives the same samples, whatever is done with them afterwards.
        """
        X, y = self._chosen()
        train, test = self._indices(y, split)
        A, B = _preprocessed(self.preprocessing, X[train], y[train], X[test])
        if self.pca is not None:
            centre, axes = leading_axes(A, self.pca)
            A, B = (A - centre) @ axes, (B - centre) @ axes
        classes = np.unique(y).size
        return Sample(A, y[train], B, y[test], classes - 1 if self.components is None else self.components)

    def _chosen(self) -> tuple[FloatArray, np.ndarray]:
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
    """A data set, read once."""
    return load_dataset(name)


def _half_up(value: float) -> int:
    # 0.7 · 225 is a little below 157.5 in some arithmetic, and a little above in other.
    return math.floor(value + 0.5 + 1e-9)


def _preprocessed(
    how: Preprocessing, A: FloatArray, y: np.ndarray, B: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Training and test samples after the scaling that the training samples ask for."""
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
        raise OptionError(f"no preprocessing is called {how!r}; known: {', '.join(PREPROCESSINGS)}")
    _, singular, right = np.linalg.svd(spread, full_matrices=False)
    keep = singular > 1e-10 * singular[0]
    turn = right[keep].T * (math.sqrt(len(A)) / singular[keep])
    return (A - centre) @ turn, (B - centre) @ turn


def _scaled(
    A: FloatArray, B: FloatArray, shift: FloatArray, size: FloatArray
) -> tuple[FloatArray, FloatArray]:
    divisor = np.where(size > 0.0, size, 1.0)
    return (A - shift) / divisor, (B - shift) / divisor
