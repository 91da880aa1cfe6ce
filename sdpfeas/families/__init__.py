"""Families: code that makes problems, most of them indexed by a scalar.

A family never asks a backend. It makes problems, and it turns anybody's points and multipliers into proven
bounds; :func:`sdpfeas.bisection.bisect` brings the two together.
"""

from sdpfeas.families.base import Bound, Family, Known, ParametricFamily
from sdpfeas.families.graphs import MaxCut, Theta
from sdpfeas.families.level import LevelSet
from sdpfeas.families.lookup import family_names, find_family
from sdpfeas.families.planted import Planted
from sdpfeas.families.wlda import WLDA

__all__ = [
    "WLDA",
    "Bound",
    "Family",
    "Known",
    "LevelSet",
    "MaxCut",
    "ParametricFamily",
    "Planted",
    "Theta",
    "family_names",
    "find_family",
]
