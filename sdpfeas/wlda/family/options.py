"""What a problem card says about a WLDA problem, or about any other on a named data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.wlda.data import prepared

__all__ = ["Formulation", "NamedData", "WldaOptions"]

Formulation = Literal["compact", "paper"]


@dataclass(frozen=True)
class NamedData:
    """A named data set, and what is made of it.

    Attributes
    ----------
    dataset : str
        A data set known to :mod:`sdpfeas.wlda.data`.
    classes : int, optional
        Use only so many classes, in the order of their labels.
    first_class : int
        Skip so many classes first.
    train : float, optional
        Use only this share of the samples of every class, drawn at random.
    seed : int
        Seed of that draw.
    standardize : bool
        Scale every feature to variance one.
    pca : int, optional
        Keep so many principal components (all there are, if fewer).
    """

    dataset: str = "iris"
    classes: int | None = None
    first_class: int = 0
    train: float | None = None
    seed: int = 0
    standardize: bool = False
    pca: int | None = None

    def samples(self) -> tuple[FloatArray, np.ndarray]:
        """Samples and labels."""
        return prepared(
            self.dataset,
            classes=self.classes,
            first_class=self.first_class,
            train=self.train,
            seed=self.seed,
            standardize=self.standardize,
            pca=self.pca,
        )


@dataclass(frozen=True)
class WldaOptions(NamedData):
    """Parameters of a WLDA problem on a named data set.

    Attributes
    ----------
    dataset, classes, first_class, train, seed, standardize, pca
        See :class:`NamedData`.
    n_components : int, optional
        Final dimension; default: one less than the classes.
    formulation, scatter, shrinkage
        See :meth:`WLDA.from_data`.
    """

    n_components: int | None = None
    formulation: Literal["compact", "paper"] = "compact"
    scatter: Literal["mean", "sum"] = "mean"
    shrinkage: float | str | None = None
