"""Families: code that makes problems, most of them indexed by a scalar.

A family never asks a backend. It makes problems, and it turns anybody's points and multipliers into proven
bounds; :func:`sdpfeas.search.bisection.bisect` brings the two together.
"""

from typing import TYPE_CHECKING, Any

from sdpfeas.families.base import Bound, Family, Known, ParametricFamily
from sdpfeas.families.chains import PlantedFaces
from sdpfeas.families.family import family_names, find_family
from sdpfeas.families.fantope import FantopeMaxMin
from sdpfeas.families.graphs import MaxCut, Theta
from sdpfeas.families.level_set import LevelSet
from sdpfeas.families.planted import Planted

if TYPE_CHECKING:
    from sdpfeas.wlda.family.wlda import WLDA

__all__ = [
    "WLDA",
    "Bound",
    "Family",
    "FantopeMaxMin",
    "Known",
    "LevelSet",
    "MaxCut",
    "ParametricFamily",
    "Planted",
    "PlantedFaces",
    "Theta",
    "family_names",
    "find_family",
]


def __getattr__(name: str) -> Any:
    # A room above this one: found by its name, as any family is.
    if name == "WLDA":
        return find_family("wlda")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
