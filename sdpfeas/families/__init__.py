"""Families: code that builds problems, most of them indexed by a scalar parameter.

A family never calls a backend. It builds problems, and turns points and multipliers into proven bounds of its
threshold. :func:`sdpfeas.bisect` combines a family with a backend.
"""

from sdpfeas.families.fantope import FantopeMaxMin
from sdpfeas.families.level_set import LevelSet, MaxCut, Theta
from sdpfeas.families.parametric_family import (
    Family,
    KnownThreshold,
    MonotoneFamily,
    ParametricFamily,
    family_names,
    find_family,
)
from sdpfeas.families.planted import Planted, PlantedFaces
from sdpfeas.families.threshold_bounds import Bound
from sdpfeas.families.wlda import WLDA

__all__ = [
    "WLDA",
    "Bound",
    "Family",
    "FantopeMaxMin",
    "KnownThreshold",
    "LevelSet",
    "MaxCut",
    "MonotoneFamily",
    "ParametricFamily",
    "Planted",
    "PlantedFaces",
    "Theta",
    "family_names",
    "find_family",
]
