"""Semidefinite feasibility problems, and answers that can be trusted.

Any backend may answer; one shared verifier decides. See :func:`verify` and :class:`FeasibilityProblem`.
"""

# The package of that name first: loading it later would hide the function ``backends``.
import sdpfeas.backends  # noqa: F401
from sdpfeas import families
from sdpfeas.backend import FeasibilityBackend, Progress, WarmStart
from sdpfeas.bisection import bisect, one_shot
from sdpfeas.builder import ProblemBuilder
from sdpfeas.certificates import verify
from sdpfeas.errors import (
    BackendError,
    CardError,
    ClaimError,
    FileFormatError,
    OptionError,
    ProblemError,
    SdpfeasError,
)
from sdpfeas.io.cvxpy import from_cvxpy
from sdpfeas.io.sdpa import read_sdpa, write_sdpa
from sdpfeas.operators import Combined, LowRank, PairwiseDifference, Stacked
from sdpfeas.problem import FeasibilityProblem
from sdpfeas.registry import Solver, backends, find_solver
from sdpfeas.result import Check, Claim, Conflict, Proof, Result, Stop, Verdict
from sdpfeas.sets import PSD, Free, Nonneg, SpectralBox
from sdpfeas.solving import solve
from sdpfeas.tolerances import Tolerances

__version__ = "0.1.0"

__all__ = [
    "PSD",
    "BackendError",
    "CardError",
    "Check",
    "Claim",
    "ClaimError",
    "Combined",
    "Conflict",
    "FeasibilityBackend",
    "FeasibilityProblem",
    "FileFormatError",
    "Free",
    "LowRank",
    "Nonneg",
    "OptionError",
    "PairwiseDifference",
    "ProblemBuilder",
    "ProblemError",
    "Progress",
    "Proof",
    "Result",
    "SdpfeasError",
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
    "families",
    "find_solver",
    "from_cvxpy",
    "one_shot",
    "read_sdpa",
    "solve",
    "verify",
    "write_sdpa",
]
