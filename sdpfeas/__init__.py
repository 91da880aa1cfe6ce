"""Semidefinite feasibility problems, and answers that can be trusted.

Any backend may answer; one shared verifier decides. See :func:`verify` and :class:`FeasibilityProblem`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from sdpfeas.errors import (
    BackendError,
    CardError,
    ClaimError,
    FileFormatError,
    OptionError,
    ProblemError,
    SdpfeasError,
)
from sdpfeas.extras import on_demand

if TYPE_CHECKING:
    from sdpfeas import families
    from sdpfeas.api import bisect, optimum, solve, verify
    from sdpfeas.backends.base import FeasibilityBackend
    from sdpfeas.backends.facial.backend import reduce
    from sdpfeas.backends.inquiry import Inquiry, Progress, WarmStart
    from sdpfeas.backends.registry import Solver, backends, find_solver
    from sdpfeas.cvxpy_models import from_cvxpy
    from sdpfeas.cvxpy_models.solver import cvxpy_solver
    from sdpfeas.drivers.bisection import one_shot
    from sdpfeas.drivers.optimum import Optimum
    from sdpfeas.io.cbf import read_cbf, write_cbf
    from sdpfeas.io.formats import read_problem
    from sdpfeas.io.sdpa import read_sdpa, write_sdpa
    from sdpfeas.io.sedumi import read_sedumi, write_sedumi
    from sdpfeas.problem.builder import ProblemBuilder
    from sdpfeas.problem.lmi import LMI
    from sdpfeas.problem.objective import Objective
    from sdpfeas.problem.problem import FeasibilityProblem
    from sdpfeas.problem.rows import Combined, LowRank, PairwiseDifference, Stacked
    from sdpfeas.problem.sets import PSD, Free, HermitianPSD, Nonneg, SecondOrder, SpectralBox
    from sdpfeas.verifier.conflicts import Conflict
    from sdpfeas.verifier.facial_reduction import Chain
    from sdpfeas.verifier.results import Check, Claim, Result
    from sdpfeas.verifier.tolerances import Tolerances
    from sdpfeas.verifier.verdicts import Proof, Stop, Verdict
else:
    # Where the names above are; NumPy, SciPy and our own rooms are imported when a name is first asked for.
    _PLACES = {
        "sdpfeas.backends.base": ["FeasibilityBackend"],
        "sdpfeas.backends.facial.backend": ["reduce"],
        "sdpfeas.backends.inquiry": ["Inquiry", "Progress", "WarmStart"],
        "sdpfeas.backends.registry": ["Solver", "find_solver"],
        "sdpfeas.cvxpy_models": ["from_cvxpy"],
        "sdpfeas.io.cbf": ["read_cbf", "write_cbf"],
        "sdpfeas.io.formats": ["read_problem"],
        "sdpfeas.io.sdpa": ["read_sdpa", "write_sdpa"],
        "sdpfeas.io.sedumi": ["read_sedumi", "write_sedumi"],
        "sdpfeas.problem.builder": ["ProblemBuilder"],
        "sdpfeas.problem.objective": ["Objective"],
        "sdpfeas.problem.lmi": ["LMI"],
        "sdpfeas.problem.problem": ["FeasibilityProblem"],
        "sdpfeas.problem.rows": ["Combined", "LowRank", "PairwiseDifference", "Stacked"],
        "sdpfeas.problem.sets": ["PSD", "Free", "HermitianPSD", "Nonneg", "SecondOrder", "SpectralBox"],
        "sdpfeas.drivers.bisection": ["one_shot"],
        "sdpfeas.cvxpy_models.solver": ["cvxpy_solver"],
        "sdpfeas.api": ["bisect", "optimum", "solve", "verify"],
        "sdpfeas.drivers.optimum": ["Optimum"],
        "sdpfeas.verifier.facial_reduction": ["Chain"],
        "sdpfeas.verifier.conflicts": ["Conflict"],
        "sdpfeas.verifier.results": ["Check", "Claim", "Result"],
        "sdpfeas.verifier.verdicts": ["Proof", "Stop", "Verdict"],
        "sdpfeas.verifier.tolerances": ["Tolerances"],
    }
    _named = on_demand(__name__, _PLACES)

    def __getattr__(name):
        """Import a public name, or a room that is one."""
        # The first of these can also be called: it lists what is in it.
        return import_module(f"sdpfeas.{name}") if name in ("backends", "families") else _named(name)

    def __dir__():
        return sorted({*globals(), *__all__})


__version__ = "0.2.0"

__all__ = [
    "LMI",
    "PSD",
    "BackendError",
    "CardError",
    "Chain",
    "Check",
    "Claim",
    "ClaimError",
    "Combined",
    "Conflict",
    "FeasibilityBackend",
    "FeasibilityProblem",
    "FileFormatError",
    "Free",
    "HermitianPSD",
    "Inquiry",
    "LowRank",
    "Nonneg",
    "Objective",
    "Optimum",
    "OptionError",
    "PairwiseDifference",
    "ProblemBuilder",
    "ProblemError",
    "Progress",
    "Proof",
    "Result",
    "SdpfeasError",
    "SecondOrder",
    "Solver",
    "SpectralBox",
    "Stacked",
    "Stop",
    "Tolerances",
    "Verdict",
    "WarmStart",
    "__version__",
    "backends",
    "bisect",
    "cvxpy_solver",
    "families",
    "find_solver",
    "from_cvxpy",
    "one_shot",
    "optimum",
    "read_cbf",
    "read_problem",
    "read_sdpa",
    "read_sedumi",
    "reduce",
    "solve",
    "verify",
    "write_cbf",
    "write_sdpa",
    "write_sedumi",
]
