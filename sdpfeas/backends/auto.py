"""``auto``: picks backends by the shape of the problem and tries the next one while nothing is proved.

The rules come from measurements (docs/backends.md). All backends share one inquiry, so what is proved for one
of them ends the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sdpfeas.backends.asking import ask, ask_program
from sdpfeas.backends.contract import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.cost import newton_work
from sdpfeas.backends.registry import find_solver
from sdpfeas.errors import OutOfMemory
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.program import ConicProgram
from sdpfeas.verifier.results import Claim, Stop

__all__ = ["Auto", "AutoOptions"]

#: Our own interior-point method.
OURS = "spectral-ipm"

#: Above this many multiply-adds per Newton system the interior-point method is no longer first.
DENSE_WORK = 5e10

#: Share of the remaining time a backend gets while others wait behind it.
SHARE = 0.5


@dataclass(frozen=True)
class AutoOptions:
    """Options of ``auto``.

    Attributes
    ----------
    order : str
        Backends to try, in this order, separated by commas; empty: chosen by the shape of the problem.
    """

    order: str = ""


class Auto(FeasibilityBackend):
    """Picks backends by problem shape, and tries the next one while nothing is proved."""

    name = "auto"
    sets = ALL_SETS
    lmis = True
    warm_starts = True
    calls_back = True
    maximises = True
    Options = AutoOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a point or a certificate; see :class:`FeasibilityBackend`."""
        tried: list[str] = []
        last = Claim(stop=Stop.UNSUPPORTED, raw_status="no backend takes this problem")
        queue = list(self._available(problem))
        for place, backend in enumerate(queue):
            if tried and inquiry.deadline.expired:
                return replace(last, stop=Stop.TIME_LIMIT)
            waiting = place < len(queue) - 1
            share = inquiry.deadline.limit
            claim = ask(
                backend, problem, inquiry.within(share * SHARE) if waiting and share is not None else inquiry
            )
            tried.append(f"{backend.name}: {claim.raw_status or claim.stop}")
            last = replace(claim, raw_status="; ".join(tried), info={**claim.info, "tried": list(tried)})
            if waiting and inquiry.offer(claim.point, claim.certificate, final=True):
                break
            if claim.info.get("flat"):
                # The others look for an interior as well, and some of them take all the time there is to find
                # none.
                break
        return last

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Let the first backend that takes an objective maximise it, ours first: it shows every iterate."""
        claim = Claim(stop=Stop.UNSUPPORTED, raw_status="no backend of the list takes an objective")
        for backend in self._available(program.problem, first=OURS):
            if not backend.maximises:
                continue
            try:
                claim = ask_program(backend, program, inquiry)
            except OutOfMemory as error:
                claim = Claim(stop=Stop.UNSUPPORTED, raw_status=str(error))
            if claim.stop is not Stop.UNSUPPORTED:
                break
        return claim

    def _available(self, problem: FeasibilityProblem, first: str = "") -> Iterator[FeasibilityBackend]:
        names = [name.strip() for name in self.options.order.split(",") if name.strip()]
        chosen = [(name, dict[str, object]()) for name in names]
        for name, options in chosen or sorted(preferred(problem), key=lambda each: each[0] != first):
            backend = find_solver(name).make(**options)
            if backend.available()[0]:
                yield backend


def preferred(problem: FeasibilityProblem) -> list[tuple[str, dict[str, object]]]:
    """Backends for a problem with their options, the most promising first."""
    rest: list[tuple[str, dict[str, object]]] = [
        ("clarabel", {"mode": "direct"}),
        ("dual-lbfgs", {}),
        ("scs", {"mode": "direct"}),
        ("admm", {}),
    ]
    ours = [(OURS, dict[str, object]())]
    # Ours would have to take second-order cones as matrices.
    sets = [*problem.sets, *(lmi.set for lmi in problem.lmis)]
    vectors = any(block.shadow_of and not block.side for block in sets)
    first = newton_work(problem).products <= DENSE_WORK and not vectors
    return ours + rest if first else [*rest[:1], *ours, *rest[1:]]
