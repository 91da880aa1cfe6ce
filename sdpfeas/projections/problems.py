"""Fair PCA and max-min distance analysis of named data sets, for problem cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sdpfeas.families.family import Family
from sdpfeas.families.fantope import FantopeMaxMin
from sdpfeas.projections.groups import GroupVariances
from sdpfeas.projections.whitening import Whitened
from sdpfeas.wlda.data import prepared

__all__ = ["DistanceOptions", "FairOptions", "FairPcaProblems", "MaxMinDistanceProblems"]


@dataclass(frozen=True)
class _Data:
    """A named data set, as :mod:`sdpfeas.wlda.data` prepares it; its classes are the groups."""

    dataset: str = "iris"
    classes: int | None = None
    first_class: int = 0
    train: float | None = None
    seed: int = 0
    standardize: bool = False
    pca: int | None = None
    n_components: int = 2

    def __post_init__(self) -> None:
        if self.n_components < 1:
            raise ValueError(f"n_components must be positive, got {self.n_components}")

    def samples(self) -> tuple[Any, Any]:
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
class FairOptions(_Data):
    """Parameters of fair PCA on a named data set.

    Attributes
    ----------
    dataset, classes, first_class, train, seed, standardize, pca
        As for the family ``wlda``; the classes are the groups.
    n_components : int
        Number of directions.
    aim, centring
        See :class:`sdpfeas.projections.FairPCA`.
    """

    aim: Literal["variance", "loss"] = "variance"
    centring: Literal["group", "overall"] = "group"


@dataclass(frozen=True)
class DistanceOptions(_Data):
    """Parameters of max-min distance analysis on a named data set.

    Attributes
    ----------
    dataset, classes, first_class, train, seed, standardize, pca
        As for the family ``wlda``.
    n_components : int
        Number of directions.
    shrinkage : float, optional
        See :class:`sdpfeas.projections.MaxMinDistance`.
    """

    shrinkage: float | None = None


class FairPcaProblems(Family):
    """Fair PCA of the classes of a named data set; members are :class:`FantopeMaxMin` families."""

    name = "fair-pca"
    Options = FairOptions

    @classmethod
    def build(cls, options: FairOptions) -> FantopeMaxMin:
        """Build the family on a named data set."""
        groups = GroupVariances(*options.samples(), options.centring)
        return groups.family(options.n_components, options.aim)

    @classmethod
    def seeded(cls, options: FairOptions) -> bool:
        """Whether samples are drawn at random."""
        return options.train is not None


class MaxMinDistanceProblems(Family):
    """Max-min distance analysis of a named data set; members are :class:`FantopeMaxMin` families."""

    name = "max-min-distance"
    Options = DistanceOptions

    @classmethod
    def build(cls, options: DistanceOptions) -> FantopeMaxMin:
        """Build the family on a named data set."""
        return Whitened(*options.samples(), options.shrinkage).family(options.n_components)

    @classmethod
    def seeded(cls, options: DistanceOptions) -> bool:
        """Whether samples are drawn at random."""
        return options.train is not None
