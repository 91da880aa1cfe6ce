"""Semidefinite feasibility problems, and answers that can be trusted.

Any backend may answer; one shared verifier decides. See :func:`verify` and :class:`FeasibilityProblem`.
"""

from sdpfeas.builder import ProblemBuilder
from sdpfeas.certificates import verify
from sdpfeas.errors import ClaimError, FileFormatError, ProblemError, SdpfeasError
from sdpfeas.operators import Combined, LowRank, PairwiseDifference, Stacked
from sdpfeas.problem import FeasibilityProblem
from sdpfeas.result import Check, Claim, Conflict, Proof, Result, Stop, Verdict
from sdpfeas.sets import PSD, Free, Nonneg, SpectralBox
from sdpfeas.tolerances import Tolerances

__version__ = "0.1.0"

__all__ = [
    "PSD",
    "Check",
    "Claim",
    "ClaimError",
    "Combined",
    "Conflict",
    "FeasibilityProblem",
    "FileFormatError",
    "Free",
    "LowRank",
    "Nonneg",
    "PairwiseDifference",
    "ProblemBuilder",
    "ProblemError",
    "Proof",
    "Result",
    "SdpfeasError",
    "SpectralBox",
    "Stacked",
    "Stop",
    "Tolerances",
    "Verdict",
    "__version__",
    "verify",
]
