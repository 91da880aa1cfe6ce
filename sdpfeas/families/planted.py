"""Random problems whose answer is known because it was planted, as a family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sdpfeas.families import planting as planted
from sdpfeas.families.base import Family
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SpectralBox

__all__ = ["Planted", "PlantedOptions"]


@dataclass(frozen=True)
class PlantedOptions:
    """Parameters of a planted problem.

    Attributes
    ----------
    sets : {"psd", "box", "mixed"}
        One PSD block; one SpectralBox; or one block of every kind.
    n : int
        Side of the matrices.
    rows : int
        Number of rows.
    feasible : bool
        Which answer to plant.
    bounds : {"equality", "inequality", "two-sided", "mixed"}
        What the bounds of the rows look like; where there are too many equality rows for a feasible problem
        of that size, the rest are two-sided.
    storage : {"dense", "sparse", "low-rank", "pairwise", "stacked", "combined"}
        How the rows are stored.
    margin : float
        How clear the answer is: slack of the rows at the planted point, or gap of the planted
        certificate, relative to the size of the rows.
    seed : int
        Seed.
    """

    sets: Literal["psd", "box", "mixed"] = "mixed"
    n: int = 6
    rows: int = 8
    feasible: bool = True
    bounds: Literal["equality", "inequality", "two-sided", "mixed"] = "mixed"
    storage: Literal["dense", "sparse", "low-rank", "pairwise", "stacked", "combined"] = "dense"
    margin: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 2 or self.rows < 2:
            raise ValueError("n and rows must be at least 2")
        if not self.margin > 0.0:
            raise ValueError("margin must be above 0")


class Planted(Family):
    """Random problems with a planted point or a planted certificate."""

    name = "planted"
    Options = PlantedOptions

    @classmethod
    def build(cls, options: PlantedOptions) -> FeasibilityProblem:
        """Return a problem whose answer is ``options.feasible``."""
        return cls.plant(options).problem

    @staticmethod
    def plant(options: PlantedOptions) -> planted.Planted:
        """Return a problem with the evidence planted in it.

        Parameters
        ----------
        options : PlantedOptions
            What to plant.
        """
        make = planted.feasible if options.feasible else planted.infeasible
        return make(
            np.random.default_rng(options.seed),
            _sets(options),
            storage=options.storage,
            bounds=options.bounds,
            rows=options.rows,
            margin=options.margin,
        )


def _sets(options: PlantedOptions) -> list[BlockSet]:
    box = SpectralBox(options.n, trace=max(1.0, options.n // 2))
    if options.sets == "psd":
        return [PSD(options.n)]
    if options.sets == "box":
        return [box]
    # A*y has to vanish on the Free block: fewer entries than rows.
    return [PSD(options.n), box, Nonneg(3), Free(max(1, min(2, options.rows - 2)))]
