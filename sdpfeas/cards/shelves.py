"""What ships under a name, and where names are looked up; nothing is imported before it is asked for."""

from __future__ import annotations

from sdpfeas.cards.finder import Shelf

__all__ = ["PROBLEMS", "SOLVERS"]

#: Where solvers are looked up.
SOLVERS = Shelf(
    "solvers",
    "sdpfeas.backends",
    {
        "admm": "sdpfeas.backends.admm:Admm",
        "auto": "sdpfeas.backends.auto:Auto",
        "clarabel": "sdpfeas.backends.clarabel:Clarabel",
        "cvxpy": "sdpfeas.backends.cvxpy:Cvxpy",
        "dual-lbfgs": "sdpfeas.backends.dual.lbfgs:DualLbfgs",
        "facial": "sdpfeas.backends.facial.backend:Facial",
        "scs": "sdpfeas.backends.scs:Scs",
        "spectral-ipm": "sdpfeas.backends.ipm.backend:SpectralIpm",
    },
)

#: Where problems and families are looked up.
PROBLEMS = Shelf(
    "problems",
    "sdpfeas.families",
    {
        "fair-pca": "sdpfeas.projections.problems:FairPcaProblems",
        "fantope-max-min": "sdpfeas.families.fantope:FantopeMaxMin",
        "max-cut": "sdpfeas.families.graphs:MaxCut",
        "max-min-distance": "sdpfeas.projections.problems:MaxMinDistanceProblems",
        "planted": "sdpfeas.families.planted:Planted",
        "planted-faces": "sdpfeas.families.chains:PlantedFaces",
        "theta": "sdpfeas.families.graphs:Theta",
        "wlda": "sdpfeas.wlda.family.wlda:WLDA",
    },
)
