"""Fair PCA and max-min distance analysis of named data sets, for problem cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sdpfeas.families.family import Family
from sdpfeas.families.fantope import FantopeMaxMin
from sdpfeas.projections.groups import GroupVariances
from sdpfeas.projections.whitening import Whitened
from sdpfeas.wlda.family.options import NamedData

__all__ = ["DistanceOptions", "FairOptions", "FairPcaProblems", "MaxMinDistanceProblems"]


@dataclass(frozen=True)
class FairOptions(NamedData):
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

    n_components: int = 2
    aim: Literal["variance", "loss"] = "variance"
    centring: Literal["group", "overall"] = "group"


@dataclass(frozen=True)
class DistanceOptions(NamedData):
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

    n_components: int = 2
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
