"""``auto``: picks backends by the shape of the problem and tries the next one while nothing is proved.

The rules come from measurements (docs/backends.md). All backends share one inquiry, so what is proved for one
of them ends the search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sdpfeas.backends.base import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.dispatch import ask, ask_program
from sdpfeas.backends.facial.backend import Facial
from sdpfeas.backends.facial.exposing_vectors import promising
from sdpfeas.backends.inquiry import Inquiry, WarmStart
from sdpfeas.backends.ipm.iteration_cost import newton_work
from sdpfeas.backends.registry import find_solver
from sdpfeas.claims import Claim, Stop, claimed_verdict
from sdpfeas.errors import OutOfMemory
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.inequality_pairs import meeting_pairs
from sdpfeas.problem.reductions.split import in_components
from sdpfeas.problem.reductions.variable_scaling import equilibrate

__all__ = ["Auto", "AutoOptions"]

#: Entries of all blocks up to which variables of different units are rescaled before anything is asked.
SMALL_ENTRIES = 400

#: Our own interior-point method.
OURS = "spectral-ipm"

#: The search for facial chains.
FACES = "facial"

#: Seconds that it gets where there is no time limit.
PATIENCE = 60.0

#: Share of the time limit after which the last backends are not asked, where the first came to their end.
EARLY = 0.2

#: Ends that more time would not change.
THOROUGH = (Stop.FINISHED, Stop.STALLED, Stop.NUMERICAL, Stop.ITERATION_LIMIT)

#: What a claim says that claims nothing.
NO_WORD = {"claimed": "undecided"}

#: Above this many multiply-adds per Newton system the interior-point method is no longer first.
DENSE_WORK = 5e10

#: Side of a matrix above which Clarabel is not asked before ours: it writes out the square of the dimension
#: of a cone, which would be 50 GB.
LARGEST_CONE = 400

#: Share of the remaining time a backend gets while others wait behind it.
SHARE = 0.5


@dataclass(frozen=True)
class AutoOptions:
    """Options of ``auto``.

    ``order``: backends to try, in this order, separated by commas; empty: chosen by the shape of the
    problem.
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
        pairs = meeting_pairs(problem)
        if pairs.certificate is not None and inquiry.offer(None, pairs.certificate):
            said = "two rows contradict each other"
            return Claim(certificate=pairs.certificate, raw_status=said, info={"claimed": "infeasible"})
        reduction: Reduction = pairs
        # Large problems have been scaled by whoever made them, and lose iterations.
        if sum(block.entries for block in pairs.problem.sets) <= SMALL_ENTRIES:
            units = equilibrate(pairs.problem)
            reduction = pairs if units.problem is pairs.problem else pairs.then(units)
        if reduction.problem is not problem:
            # Chains are looked for in the problem as it is.
            asked = inquiry.within(_share(inquiry, self, waiting=True, ended={}))
            claim = self._solve(reduction.problem, asked.through(reduction)).back(reduction)
            inquiry.offer(claim.point, claim.certificate)
            if inquiry.over:
                return claim
        return self._solve(problem, inquiry)

    def _solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        tried: list[str] = []
        last = Claim(stop=Stop.UNSUPPORTED, raw_status="no backend takes this problem")
        queue = self._queue(problem)
        held, ended, flat = list[Claim](), dict[str, Stop](), False
        # Linear inequalities alone can be met, or contradicted, without an interior.
        curved = not all(block.polyhedral for block in (*problem.sets, *(lmi.set for lmi in problem.lmis)))
        for place, (name, options) in enumerate(queue):
            if flat and name != FACES:
                # The others look for an interior as well, and some of them take all the time there is to find
                # none.
                continue
            backend = _made(name, options)
            if backend is None:
                continue
            if tried and inquiry.deadline.expired:
                last = replace(last, stop=Stop.TIME_LIMIT)
                break
            # Where there is no interior nobody waits behind the search for faces.
            waiting = place < len(queue) - 1 and not flat
            share = _share(inquiry, backend, waiting=waiting, ended=ended)
            if share is not None and share <= 0.0:
                said = f"{last.raw_status}; nothing more is likely to help"
                last = replace(last, raw_status=said, stop=Stop.STALLED, info={**last.info, **NO_WORD})
                break
            asked = inquiry.within(share)
            # Multipliers that end where there is no interior come close to exposing a face.
            asked = asked.starting(WarmStart(certificate=last.certificate)) if flat else asked
            claim = ask(backend, problem, asked)
            ended[backend.name] = claim.stop
            tried.append(f"{backend.name}: {claim.raw_status or claim.stop}")
            # What was tried in vain before says nothing about what the last one found.
            word = claimed_verdict(claim)
            info = {**claim.info, **NO_WORD} if word is None else {**claim.info, "claimed": word.value}
            last = replace(claim, raw_status="; ".join(tried), info={**info, "tried": list(tried)})
            flat = flat or (curved and bool(claim.info.get("flat")))
            held.append(claim)
            # A numeric verdict has to wait: there may be a proof on a face. So do points without an interior.
            final = all(other != FACES for other, _ in queue[place + 1 :])
            for each in held if final else [claim]:
                inquiry.offer(each.point if final or not flat else None, each.certificate, final=final)
            if inquiry.over:
                return last
            held = [] if final else held
        for each in held:
            inquiry.offer(each.point, each.certificate, final=True)
        return last

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Let the first backend that takes an objective maximise it, ours first: it shows every iterate."""
        claim = Claim(stop=Stop.UNSUPPORTED, raw_status="no backend of the list takes an objective")
        for name, options in self._queue(program.problem, first=OURS):
            backend = _made(name, options)
            if backend is None or not backend.maximises:
                continue
            try:
                claim = ask_program(backend, program, inquiry)
            except OutOfMemory as error:
                claim = Claim(stop=Stop.UNSUPPORTED, raw_status=str(error))
            if claim.stop is not Stop.UNSUPPORTED:
                break
        return claim

    def _queue(self, problem: FeasibilityProblem, first: str = "") -> list[tuple[str, dict[str, object]]]:
        """Names of backends with their options: as asked for, or by the shape of the problem."""
        names = [name.strip() for name in self.options.order.split(",") if name.strip()]
        for name in names:
            find_solver(name)  # a name that stands for nothing is said before anything is asked
        if names:
            return [(name, {}) for name in names]
        if first:  # chains take no objective, so there is no need to ask whether one is likely
            return sorted(_by_shape(problem), key=lambda each: each[0] != first)
        return preferred(problem)


def _made(name: str, options: dict[str, object]) -> FeasibilityBackend | None:
    """The backend of a name, made when its turn comes; None if it cannot run here."""
    backend = find_solver(name).make(**options)
    return backend if backend.available()[0] else None


def _share(
    inquiry: Inquiry, backend: FeasibilityBackend, *, waiting: bool, ended: dict[str, Stop]
) -> float | None:
    """Seconds for a backend; None for all there are, and none where nothing more is likely to help."""
    limit = inquiry.deadline.limit
    if limit is None:
        return PATIENCE if backend.name == FACES else None
    share = limit * SHARE if waiting else limit
    # Two interior-point methods that come to their end without a proof, and no chain: others rarely help.
    if all(ended.get(name, Stop.TIME_LIMIT) in THOROUGH for name in (OURS, "clarabel", FACES)):
        share = min(share, EARLY * inquiry.deadline.seconds - inquiry.deadline.elapsed)
    return share


def preferred(problem: FeasibilityProblem) -> list[tuple[str, dict[str, object]]]:
    """Backends for a problem with their options, the most promising first."""
    sieve: dict[str, object] = {"sieve": True, "whole": False}
    queue = _by_shape(problem)
    faces = any(name == FACES for name, _ in queue)
    return [(FACES, sieve), *queue] if faces and promising(problem) else queue


def _by_shape(problem: FeasibilityProblem) -> list[tuple[str, dict[str, object]]]:
    rest: list[tuple[str, dict[str, object]]] = [
        ("clarabel", {"mode": "direct"}),
        ("dual-lbfgs", {}),
        ("scs", {"mode": "direct"}),
        ("admm", {}),
    ]
    ours = [(OURS, dict[str, object]())]
    parts = in_components(problem)
    asked = problem if parts is None else parts.problem
    sides = (block.n for block in (*asked.sets, *(lmi.set for lmi in asked.lmis)) if block.matrix)
    first = max(sides, default=0) > LARGEST_CONE or newton_work(asked).products <= DENSE_WORK
    faces: list[tuple[str, dict[str, object]]] = []
    if Facial.takes(problem):
        faces = [(FACES, {"whole": False})]
    return ours + faces + rest if first else [*rest[:1], *ours, *faces, *rest[1:]]
