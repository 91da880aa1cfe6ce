"""Abstract base class of every backend.

A backend declares which sets it accepts and returns a :class:`Claim`: a point, dual multipliers or both. The
claim carries no authority. The verifier checks it and grants the verdict.
"""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.cards.finder import dropin_file
from sdpfeas.cards.options import NoOptions, parse_options
from sdpfeas.claims import Claim
from sdpfeas.errors import BackendError
from sdpfeas.extras import BROUGHT_BY, installed_version
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import KINDS, PSD, BlockSet, Free, Nonneg, SpectralBox

#: All set types.
ALL_SETS: frozenset[type[BlockSet]] = frozenset(KINDS.values())
#: Set types of real symmetric matrices, and of vectors taken entry by entry.
SPECTRAL_SETS: frozenset[type[BlockSet]] = frozenset({PSD, Nonneg, Free, SpectralBox})
#: Set types that every backend accepts. All other sets are reduced to these.
CONES: frozenset[type[BlockSet]] = frozenset({PSD, Nonneg, Free})


class FeasibilityBackend(ABC):
    """Abstract base class of every backend.

    A subclass defines :meth:`solve` and, as class attributes, what it supports.

    Parameters
    ----------
    **options
        Fields of the class's ``Options``.

    Attributes
    ----------
    name : str
        Name under which the backend is found.
    sets : frozenset of type
        Set types accepted natively. Blocks in other sets are reduced to PSD blocks first.
    lmis : bool
        Whether LMIs are accepted natively. Otherwise each becomes a slack block and equality rows.
    warm_starts : bool
        Whether ``inquiry.start`` is used.
    calls_back : bool
        Whether progress is reported while the backend runs.
    maximises : bool
        Whether a linear objective is supported; see :meth:`maximise`.
    maximises_lmis : bool
        Whether LMIs are accepted natively together with an objective.
    presolves : bool
        Whether problems without LMIs are presolved first; the backend gets none that presolve decides.
    requires : tuple of str
        Modules that must be installed.
    distribution : str
        Installed distribution whose version is the version of the backend.
    Options : type
        Dataclass of the backend's options.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> class Identity(sf.FeasibilityBackend):
    ...     name = "identity"
    ...
    ...     def solve(self, problem, inquiry):
    ...         return sf.Claim(point=tuple(np.eye(block.n) for block in problem.sets))
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [3.0])
    >>> sf.solve(problem, Identity).verdict
    <Verdict.FEASIBLE: 'feasible'>
    """

    name: ClassVar[str]
    sets: ClassVar[frozenset[type[BlockSet]]] = CONES
    lmis: ClassVar[bool] = False
    warm_starts: ClassVar[bool] = False
    calls_back: ClassVar[bool] = False
    maximises: ClassVar[bool] = False
    maximises_lmis: ClassVar[bool] = False
    presolves: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ()
    distribution: ClassVar[str] = "sdpfeas"
    Options: ClassVar[type] = NoOptions

    def __init__(self, **options: Any) -> None:
        self.options: Any = parse_options(self.Options, options, f"backend {self.name!r}")

    @classmethod
    def available(cls) -> tuple[bool, str]:
        """Return whether the backend can run here and, if not, the reason. Imports nothing heavy."""
        missing = [module for module in cls.requires if find_spec(module) is None]
        if missing:
            extras = sorted({BROUGHT_BY[module] for module in missing if module in BROUGHT_BY})
            remedy = f": pip install 'sdpfeas[{','.join(extras)}]'" if extras else ""
            return False, f"needs {', '.join(missing)}, which is not installed{remedy}"
        return True, ""

    @classmethod
    def version(cls) -> str:
        """Return the version of the solver behind the backend.

        By default that of the package ``distribution``. A drop-in file without one has the version
        ``__version__`` of its module, else the hash of the file.
        """
        file = dropin_file(cls)
        if file is None or cls.distribution != FeasibilityBackend.distribution:
            return installed_version(cls.distribution) or "unknown"
        stated = getattr(sys.modules[cls.__module__], "__version__", None)
        return str(stated) if stated else f"file {hashlib.sha256(Path(file).read_bytes()).hexdigest()[:8]}"

    def accepts(self, problem: FeasibilityProblem) -> tuple[bool, str]:
        """Return whether the backend accepts the problem and, if not, the reason."""
        for b, block in enumerate(problem.sets):
            if type(block) not in self.sets:
                return False, f"backend {self.name!r} takes no {block.kind} (block {problem.block_name(b)})"
        if problem.lmis and not self.lmis:
            return False, f"backend {self.name!r} takes no LMIs"
        return True, ""

    def option_values(self) -> dict[str, Any]:
        """Return all options with their values, defaults included."""
        return asdict(self.options)

    @abstractmethod
    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Search for a feasible point or an infeasibility certificate.

        The only duty is to return a claim before ``inquiry.deadline`` expires. Optionally, a backend starts
        from ``inquiry.start``, calls ``inquiry.offer`` with evidence that may already suffice for a proof,
        calls ``inquiry.report`` with its progress, and stops as soon as either returns True.

        Parameters
        ----------
        problem : FeasibilityProblem
            Problem whose sets are all in ``sets``.
        inquiry : Inquiry
            Deadline, starting point, goal, and the place to offer evidence.

        Returns
        -------
        Claim
            Evidence found, raw status of the solver, and the reason for stopping.
        """

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise a linear objective ``<C, X>``. Optional capability.

        The claim holds the best point and dual multipliers ``y`` with the signs of a Farkas certificate.
        By weak duality the optimal value is at most ``sigma_K(C + A*y) - beta(y)``, with ``sigma_K`` the
        support function of the sets.

        Parameters
        ----------
        program : ConicProgram
            Problem and objective.
        inquiry : Inquiry
            As in :meth:`solve`. Nothing is offered: there is no feasibility verdict to prove.
        """
        raise BackendError(f"backend {self.name!r} takes no objective")
