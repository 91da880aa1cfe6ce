"""Semidefinite feasibility problems, and answers that can be trusted.

Any backend may answer; one shared verifier decides. See :func:`verify` and :class:`FeasibilityProblem`.
"""

from typing import TYPE_CHECKING

from sdpfeas import families
from sdpfeas.backends.contract import FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry, Progress, WarmStart
from sdpfeas.backends.registry import Solver, find_solver
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
from sdpfeas.problem.builder import ProblemBuilder
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Combined, LowRank, PairwiseDifference, Stacked
from sdpfeas.problem.sets import PSD, Free, Nonneg, SpectralBox
from sdpfeas.search.bisection import bisect, one_shot
from sdpfeas.search.solving import solve
from sdpfeas.verifier import verify
from sdpfeas.verifier.results import Check, Claim, Conflict, Proof, Result, Stop, Verdict
from sdpfeas.verifier.tolerances import Tolerances

if TYPE_CHECKING:  # the package can be called: it lists what is in it
    from sdpfeas.backends.registry import backends
else:
    from sdpfeas import backends

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
    "Inquiry",
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
