"""What a problem card says about a WLDA problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Formulation", "WldaOptions"]

Formulation = Literal["compact", "paper"]


@dataclass(frozen=True)
class WldaOptions:
    """Parameters of a WLDA problem on a named data set.

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
    n_components : int, optional
        Final dimension; default: one less than the classes.
    formulation, scatter, shrinkage
        See :meth:`WLDA.from_data`.
    """

    dataset: str = "iris"
    classes: int | None = None
    first_class: int = 0
    train: float | None = None
    seed: int = 0
    standardize: bool = False
    pca: int | None = None
    n_components: int | None = None
    formulation: Literal["compact", "paper"] = "compact"
    scatter: Literal["mean", "sum"] = "mean"
    shrinkage: float | str | None = None
