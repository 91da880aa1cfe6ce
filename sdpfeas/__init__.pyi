"""The public names and where each is defined; at run time a name is imported when it is first used."""

import sdpfeas.backends.registry as _registry

from . import families as families
from .api import bisect as bisect, optimum as optimum, solve as solve, verify as verify
from .backends.base import FeasibilityBackend as FeasibilityBackend
from .backends.facial.facial_backend import reduce as reduce
from .backends.inquiry import Inquiry as Inquiry, Progress as Progress, WarmStart as WarmStart
from .backends.registry import Solver as Solver, find_solver as find_solver
from .certifier.certify import Evidence as Evidence, certify as certify
from .claims import Chain as Chain, Claim as Claim, Stop as Stop, Verdict as Verdict
from .cvxpy_models import from_cvxpy as from_cvxpy
from .cvxpy_models.solver import cvxpy_solver as cvxpy_solver
from .drivers.bisection import one_shot as one_shot
from .drivers.optimum import Optimum as Optimum
from .errors import (
    BackendError as BackendError,
    CardError as CardError,
    ClaimError as ClaimError,
    FileFormatError as FileFormatError,
    NotProved as NotProved,
    OptionError as OptionError,
    ProblemError as ProblemError,
    SdpfeasError as SdpfeasError,
)
from .io import read_problem as read_problem
from .io.cbf import read_cbf as read_cbf, write_cbf as write_cbf
from .io.sdpa import read_sdpa as read_sdpa, write_sdpa as write_sdpa
from .io.sedumi import read_sedumi as read_sedumi, write_sedumi as write_sedumi
from .problem.builder import ProblemBuilder as ProblemBuilder
from .problem.lmi import LMI as LMI
from .problem.objective import Objective as Objective
from .problem.problem import FeasibilityProblem as FeasibilityProblem
from .problem.rows import (
    Combined as Combined,
    LowRank as LowRank,
    PairwiseDifference as PairwiseDifference,
    Stacked as Stacked,
)
from .problem.sets import (
    PSD as PSD,
    Free as Free,
    HermitianPSD as HermitianPSD,
    Nonneg as Nonneg,
    SecondOrder as SecondOrder,
    SpectralBox as SpectralBox,
)
from .verifier.conflicts import Conflict as Conflict, Loosening as Loosening, Relaxation as Relaxation
from .verifier.outcome import Proof as Proof, Tolerances as Tolerances
from .verifier.results import Check as Check, Result as Result

__version__: str

# At run time this is the package, which lists the backends when it is called.
def backends() -> dict[str, _registry.BackendInfo]: ...
