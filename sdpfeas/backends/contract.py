"""The contract every backend keeps.

A backend is one class in one file. It says what it takes, it solves, and it hands in a claim; whether the
claim holds is not for it to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, ClassVar

from sdpfeas.cards.options import NoOptions, parse_options
from sdpfeas.errors import BackendError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SpectralBox
from sdpfeas.verifier.results import Claim

__all__ = ["ALL_SETS", "CONES", "Callback", "FeasibilityBackend", "Progress", "WarmStart"]

#: Every kind of set there is.
ALL_SETS: frozenset[type[BlockSet]] = frozenset({PSD, Nonneg, Free, SpectralBox})
#: The sets that are cones: what is left after lifting.
CONES: frozenset[type[BlockSet]] = frozenset({PSD, Nonneg, Free})


@dataclass(frozen=True)
class Progress:
    """What a callback is told.

    Attributes
    ----------
    iteration : int
        Iterations so far.
    elapsed : float
        Seconds so far.
    point, certificate : optional
        The present candidates, in the units of the problem the user asked.
    gap : float, optional
        How far the backend believes to be from the optimum, relative to it; a hint when to look closely.
        Where there is no objective, the optimum is the largest margin, and the gap is by how much the ratio
        of two terms of a row would have to change.
    """

    iteration: int
    elapsed: float
    point: Point | None = None
    certificate: FloatArray | None = None
    gap: float | None = None


#: Called now and then; returning True stops the solve. One with a true attribute ``patient`` is not content
#: with a proof: a backend may then go on to the largest margin it can find, and tell its gap.
Callback = Callable[[Progress], Any]


@dataclass(frozen=True)
class WarmStart:
    """Where to start from: a point, multipliers, or both, of a problem of the same shape."""

    point: Point | None = None
    certificate: FloatArray | None = None


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
        The sets it takes as they are. A SpectralBox it does not take is lifted for it.
    warm_starts : bool
        Whether it makes use of a warm start.
    calls_back : bool
        Whether it calls the callback while it runs.
    maximises : bool
        Whether it takes a linear objective; see :meth:`maximise`.
    requires : tuple of str
        Modules that must be installed.
    distribution : str
        The installed package whose version is the backend's version.
    Options : type
        The dataclass of its options.
    """

    name: ClassVar[str]
    sets: ClassVar[frozenset[type[BlockSet]]] = CONES
    warm_starts: ClassVar[bool] = False
    calls_back: ClassVar[bool] = False
    maximises: ClassVar[bool] = False
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
            return False, f"needs {', '.join(missing)}, which is not installed"
        return True, ""

    @classmethod
    def version(cls) -> str:
        """Version of the solver behind the backend."""
        try:
            return version(cls.distribution)
        except PackageNotFoundError:
            return "unknown"

    def accepts(self, problem: FeasibilityProblem) -> tuple[bool, str]:
        """Whether the backend takes a problem, and if not why."""
        for b, block in enumerate(problem.sets):
            if type(block) not in self.sets:
                return False, f"backend {self.name!r} takes no {block.kind} (block {problem.block_name(b)})"
        return True, ""

    def option_values(self) -> dict[str, Any]:
        """Options as plain data, defaults included."""
        return asdict(self.options)

    @abstractmethod
    def solve(
        self,
        problem: FeasibilityProblem,
        *,
        time_limit: float | None = None,
        warm_start: WarmStart | None = None,
        callback: Callback | None = None,
    ) -> Claim:
        """Look for a point or a certificate.

        Parameters
        ----------
        problem : FeasibilityProblem
            A problem made of the sets the backend takes.
        time_limit : float, optional
            Seconds after which to stop with what there is.
        warm_start : WarmStart, optional
            Where to start from, for backends that can.
        callback : callable, optional
            Called now and then with a :class:`Progress`; returning True stops the solve.

        Returns
        -------
        Claim
            What was found, the raw status, and why it stopped.
        """

    def maximise(
        self,
        program: ConicProgram,
        *,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> Claim:
        """Maximise a linear objective; an optional capability.

        The claim holds the best point and the multipliers of the rows. With these multipliers ``y`` (signs as
        in a certificate) the optimal value is at most the support function of the sets at
        ``objective + A*y`` less ``beta(y)``.

        Parameters
        ----------
        program : ConicProgram
            Problem and objective.
        time_limit, callback
            As in :meth:`solve`.
        """
        raise BackendError(f"backend {self.name!r} takes no objective")
