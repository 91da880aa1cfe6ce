"""The contract every backend keeps.

A backend is one class in one file. It says what it takes, it solves, and it hands in a claim; whether the
claim holds is not for it to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any, ClassVar

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.cards.options import NoOptions, parse_options
from sdpfeas.claims import Claim
from sdpfeas.errors import BackendError
from sdpfeas.extras import BROUGHT_BY, installed_version
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import KINDS, PSD, BlockSet, Free, Nonneg, SpectralBox

#: Every kind of set there is.
ALL_SETS: frozenset[type[BlockSet]] = frozenset(KINDS.values())
#: Those of real symmetric matrices and of single numbers.
SPECTRAL_SETS: frozenset[type[BlockSet]] = frozenset({PSD, Nonneg, Free, SpectralBox})
#: The sets that any backend has to take: all others are reduced to them.
CONES: frozenset[type[BlockSet]] = frozenset({PSD, Nonneg, Free})


class FeasibilityBackend(ABC):
    """Answers feasibility problems; the base class of every backend.

    Parameters
    ----------
    **options
        Fields of the class's ``Options``.

    Attributes
    ----------
    name : str
        The name it is asked for by.
    sets : frozenset of type
        The sets it takes as they are. Others are reduced to PSD blocks for it.
    lmis : bool
        Whether it takes LMIs as they are. Otherwise each becomes a slack and equality rows for it.
    warm_starts : bool
        Whether it makes use of a warm start.
    calls_back : bool
        Whether it reports its progress while it runs.
    maximises : bool
        Whether it takes a linear objective; see :meth:`maximise`.
    maximises_lmis : bool
        Whether it takes LMIs as they are where there is an objective, too.
    requires : tuple of str
        Modules that must be installed.
    distribution : str
        The installed package whose version is the backend's version.
    Options : type
        The dataclass of its options.
    """

    name: ClassVar[str]
    sets: ClassVar[frozenset[type[BlockSet]]] = CONES
    lmis: ClassVar[bool] = False
    warm_starts: ClassVar[bool] = False
    calls_back: ClassVar[bool] = False
    maximises: ClassVar[bool] = False
    maximises_lmis: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ()
    distribution: ClassVar[str] = "sdpfeas"
    Options: ClassVar[type] = NoOptions

    def __init__(self, **options: Any) -> None:
        self.options: Any = parse_options(self.Options, options, f"backend {self.name!r}")

    @classmethod
    def available(cls) -> tuple[bool, str]:
        """Whether the backend can run here, and if not why; imports nothing heavy."""
        missing = [module for module in cls.requires if find_spec(module) is None]
        if missing:
            extras = sorted({BROUGHT_BY[module] for module in missing if module in BROUGHT_BY})
            remedy = f": pip install 'sdpfeas[{','.join(extras)}]'" if extras else ""
            return False, f"needs {', '.join(missing)}, which is not installed{remedy}"
        return True, ""

    @classmethod
    def version(cls) -> str:
        """Version of the solver behind the backend."""
        return installed_version(cls.distribution) or "unknown"

    def accepts(self, problem: FeasibilityProblem) -> tuple[bool, str]:
        """Whether the backend takes a problem, and if not why."""
        for b, block in enumerate(problem.sets):
            if type(block) not in self.sets:
                return False, f"backend {self.name!r} takes no {block.kind} (block {problem.block_name(b)})"
        if problem.lmis and not self.lmis:
            return False, f"backend {self.name!r} takes no LMIs"
        return True, ""

    def option_values(self) -> dict[str, Any]:
        """Options as plain data, defaults included."""
        return asdict(self.options)

    @abstractmethod
    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a point or a certificate.

        All a backend has to do is to return a claim by ``inquiry.deadline``. It may do more: begin at
        ``inquiry.start``, ``inquiry.offer`` evidence that looks good enough for a proof and
        ``inquiry.report`` how it gets on, and stop when either says so.

        Parameters
        ----------
        problem : FeasibilityProblem
            A problem made of the sets the backend takes.
        inquiry : Inquiry
            What is asked besides: deadline, start, what is wanted.

        Returns
        -------
        Claim
            What was found, the raw status, and why it stopped.
        """

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise a linear objective; an optional capability.

        The claim holds the best point and the multipliers of the rows. With these multipliers ``y`` (signs as
        in a certificate) the optimal value is at most the support function of the sets at
        ``objective + A*y`` less ``beta(y)``.

        Parameters
        ----------
        program : ConicProgram
            Problem and objective.
        inquiry : Inquiry
            As in :meth:`solve`; there is nothing to prove, so nothing is offered.
        """
        raise BackendError(f"backend {self.name!r} takes no objective")
