"""Backend ``auto``: choose backends by problem structure, and try them in turn until a proof is found.

docs/backends.md states the selection rules; docs/benchmarks.md, docs/board.md and docs/truth.md measure the
backends and ``auto`` itself. A constant below was chosen by a benchmark if its comment names one. All
backends share one inquiry, so the first proof ends the search. Entry point: :class:`Auto`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sdpfeas.backends.base import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.dispatch import all_sets, dispatch, dispatch_program
from sdpfeas.backends.facial.exposing_vectors import has_exposing_row
from sdpfeas.backends.facial.facial_backend import Facial
from sdpfeas.backends.inquiry import Inquiry, WarmStart
from sdpfeas.backends.ipm.iteration_cost import newton_flops
from sdpfeas.backends.multiprecision.size_limits import fits
from sdpfeas.backends.registry import find_solver
from sdpfeas.claims import Claim, Stop, claimed_verdict
from sdpfeas.errors import OutOfMemory
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.bounded_variables import WithoutBound
from sdpfeas.problem.reductions.inequality_pairs import meeting_pairs
from sdpfeas.problem.reductions.split import split_components
from sdpfeas.problem.reductions.variable_scaling import scale_variables

__all__ = ["Auto", "AutoOptions"]

#: Largest number of entries of all blocks for which variables are rescaled before a backend runs. Larger
#: problems lose iterations by it (``benchmarks/bench_sdplib.py``).
RESCALED_ENTRIES = 400

#: Bound of the variables with which a problem is tried if nothing is proved without one.
TRIED_BOUND = 1e6

#: Most seconds for that, besides at most as many as everything before took.
BOUND_SECONDS = 10.0

#: Name of our interior-point method.
IPM = "spectral-ipm"

#: Name of the backend that searches for facial reduction certificates.
FACIAL = "facial"

#: Name of the backend with multiprecision arithmetic, for small problems.
MULTIPRECISION = "multiprecision"

#: Backends for problems without a strictly feasible point that doubles can represent. Numeric verdicts wait
#: for them, since they may prove the point.
WITHOUT_INTERIOR = (FACIAL, MULTIPRECISION)

#: Time limit of these backends if the user sets none.
EXACT_SEARCH_SECONDS = 60.0

#: Share of the time limit after which the remaining backends are skipped, if both interior-point methods and
#: facial reduction have ended without a proof.
FALLBACK_TIME_SHARE = 0.2

#: Stop reasons that more time would not change.
CONCLUSIVE_STOPS = (Stop.FINISHED, Stop.STALLED, Stop.NUMERICAL, Stop.ITERATION_LIMIT)

#: Claim information of a run that claims no verdict.
NO_CLAIM = {"claimed": "undecided"}

#: Multiply-adds per Newton system above which our interior-point method is not the first choice.
DENSE_NEWTON_PRODUCTS = 5e10

#: Multiply-adds per Newton system above which Clarabel runs before our interior-point method on linear
#: programs (``benchmarks/bench_linear.py``). On the second-order problems there our method is not slower.
LINEAR_NEWTON_PRODUCTS = 3e8

#: Matrix side above which our interior-point method runs before Clarabel, which stores a dense matrix of the
#: squared cone dimension (50 GB at this side).
CLARABEL_SIDE = 400

#: Share of the remaining time for a backend while others are still queued.
TIME_SHARE = 0.5


@dataclass(frozen=True)
class AutoOptions:
    """Options of ``auto``: ``order`` lists backends separated by commas; empty chooses by structure."""

    order: str = ""


class Auto(FeasibilityBackend):
    """Choose backends by problem structure, and try them in turn until a proof is found."""

    name = "auto"
    sets = ALL_SETS
    lmis = True
    warm_starts = True
    calls_back = True
    maximises = True
    Options = AutoOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Search for a point or a certificate; see :meth:`FeasibilityBackend.solve`.

        If nothing is proved, a bound of the variables is added, or removed if the problem states one. Large
        bounds make problems ill-conditioned, and without a bound some have no robust certificate.
        """
        claim = self._solve_reduced(problem, inquiry)
        if inquiry.finished or inquiry.deadline.expired or inquiry.excluded_radius >= TRIED_BOUND:
            return claim
        other = problem.bounded(TRIED_BOUND).bound if problem.bound is None else WithoutBound(problem.bound)
        if other is not None:
            seconds = min(inquiry.deadline.elapsed, BOUND_SECONDS)
            found = self._solve_reduced(other.problem, inquiry.within(seconds).through(other)).back(other)
            inquiry.offer(found.point, found.certificate)
        return claim

    def _solve_reduced(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        pairs = meeting_pairs(problem)
        if pairs.certificate is not None and inquiry.offer(None, pairs.certificate):
            status = "two rows contradict each other"
            return Claim(certificate=pairs.certificate, raw_status=status, info={"claimed": "infeasible"})
        reduction: Reduction = pairs
        if sum(block.entries for block in pairs.problem.sets) <= RESCALED_ENTRIES:
            units = scale_variables(pairs.problem)
            reduction = pairs if units.problem is pairs.problem else pairs.then(units)
        if reduction.problem is not problem:
            # Facial reduction certificates are about the original problem: if the reduced one stays
            # undecided, the original is tried in the remaining time.
            view = inquiry.within(_share(inquiry, self, waiting=True, ended={}))
            claim = self._solve(reduction.problem, view.through(reduction)).back(reduction)
            inquiry.offer(claim.point, claim.certificate)
            if inquiry.finished:
                return claim
        return self._solve(problem, inquiry)

    def _solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        tried: list[str] = []
        last = Claim(stop=Stop.UNSUPPORTED, raw_status="no backend takes this problem")
        queue = self._queue(problem)
        # Claims whose numeric verdict is deferred; stop reasons by backend; whether no interior was found.
        deferred, ended, no_interior = list[Claim](), dict[str, Stop](), False
        # Multiprecision arithmetic follows on the original problem.
        first_try = inquiry.reduced and any(name == MULTIPRECISION for name, _ in queue)
        # Polyhedral problems can be proved feasible or infeasible without an interior.
        curved = not all(block.polyhedral for block in all_sets(problem))
        for place, (name, options) in enumerate(queue):
            if no_interior and name not in WITHOUT_INTERIOR:
                # The other backends need an interior too, and may use up all time without finding one.
                continue
            if name == MULTIPRECISION and inquiry.reduced:
                continue  # its evidence is exact, and reductions map evidence in floating-point arithmetic
            backend = _made(name, options)
            if backend is None:
                continue
            if tried and inquiry.deadline.expired:
                last = replace(last, stop=Stop.TIME_LIMIT)
                break
            waiting = place < len(queue) - 1 and not no_interior
            share = _share(inquiry, backend, waiting=waiting, ended=ended)
            if share is not None and share <= 0.0:
                status = f"{last.raw_status}; no other backend is likely to decide it"
                last = replace(last, raw_status=status, stop=Stop.STALLED, info={**last.info, **NO_CLAIM})
                break
            view = inquiry.within(share)
            # Without an interior, the final dual multipliers are close to an exposing vector.
            view = view.with_start(WarmStart(certificate=last.certificate)) if no_interior else view
            claim = dispatch(backend, problem, view)
            ended[backend.name] = claim.stop
            tried.append(f"{backend.name}: {claim.raw_status or claim.stop}")
            # The claimed verdict is that of this backend alone, not of the ones before it.
            claimed = claimed_verdict(claim)
            info = {**claim.info, **NO_CLAIM} if claimed is None else {**claim.info, "claimed": claimed.value}
            last = replace(claim, raw_status="; ".join(tried), info={**info, "tried": list(tried)})
            no_interior = no_interior or (curved and bool(claim.info.get("no_interior")))
            deferred.append(claim)
            inquiry.offer(rational=claim.rational)
            final = all(other not in WITHOUT_INTERIOR for other, _ in queue[place + 1 :]) and not first_try
            for each in deferred if final else [claim]:
                inquiry.offer(each.point if final or not no_interior else None, each.certificate, final=final)
            if inquiry.finished:
                return last
            deferred = [] if final else deferred
        for each in deferred:
            inquiry.offer(each.point, each.certificate, final=not first_try)
        return last

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise with the first backend that supports objectives, our interior-point method first."""
        claim = Claim(stop=Stop.UNSUPPORTED, raw_status="no backend of the list supports an objective")
        for name, options in self._queue(program.problem, first=IPM):
            backend = _made(name, options)
            if backend is None or not backend.maximises:
                continue
            try:
                claim = dispatch_program(backend, program, inquiry)
            except OutOfMemory as error:
                claim = Claim(stop=Stop.UNSUPPORTED, raw_status=str(error))
            if claim.stop is not Stop.UNSUPPORTED:
                break
        return claim

    def _queue(self, problem: FeasibilityProblem, first: str = "") -> list[tuple[str, dict[str, object]]]:
        """Return names and options of the backends to try: the option ``order``, or by structure."""
        names = [name.strip() for name in self.options.order.split(",") if name.strip()]
        for name in names:
            find_solver(name)  # raise on an unknown name before any backend runs
        if names:
            return [(name, {}) for name in names]
        if first:  # facial reduction supports no objective
            return sorted(_by_structure(problem), key=lambda each: each[0] != first)
        return preferred(problem)


def _made(name: str, options: dict[str, object]) -> FeasibilityBackend | None:
    """Return the backend of this name, or None if it is not available here."""
    backend = find_solver(name).make(**options)
    return backend if backend.available()[0] else None


def _share(
    inquiry: Inquiry, backend: FeasibilityBackend, *, waiting: bool, ended: dict[str, Stop]
) -> float | None:
    """Return the seconds for a backend; None means no limit, 0 that it is not worth running."""
    limit = inquiry.deadline.limit
    if limit is None:
        return EXACT_SEARCH_SECONDS if backend.name in WITHOUT_INTERIOR else None
    share = limit * TIME_SHARE if waiting else limit
    # After both interior-point methods and facial reduction failed, first-order methods rarely succeed.
    if all(ended.get(name, Stop.TIME_LIMIT) in CONCLUSIVE_STOPS for name in (IPM, "clarabel", FACIAL)):
        share = min(share, FALLBACK_TIME_SHARE * inquiry.deadline.seconds - inquiry.deadline.elapsed)
    return share


def preferred(problem: FeasibilityProblem) -> list[tuple[str, dict[str, object]]]:
    """Return backends and options for a problem, the most promising first."""
    sieve: dict[str, object] = {"sieve": True, "whole": False}
    queue = _by_structure(problem)
    facial = any(name == FACIAL for name, _ in queue)
    return [(FACIAL, sieve), *queue] if facial and has_exposing_row(problem) else queue


def _by_structure(problem: FeasibilityProblem) -> list[tuple[str, dict[str, object]]]:
    """Order backends by the cost of a Newton system and the largest matrix of the split problem."""
    rest: list[tuple[str, dict[str, object]]] = [
        ("clarabel", {}),
        ("dual-lbfgs", {}),
        ("scs", {}),
        ("admm", {}),
    ]
    ipm = [(IPM, dict[str, object]())]
    parts = split_components(problem)
    split = problem if parts is None else parts.problem
    largest = max((block.n for block in all_sets(split) if block.matrix), default=0)
    # Clarabel gets the problem unsplit, where matrices of side one may be parts of large ones.
    linear = all(block.polyhedral for block in all_sets(problem))
    most = LINEAR_NEWTON_PRODUCTS if linear else DENSE_NEWTON_PRODUCTS
    first = largest > CLARABEL_SIDE or newton_flops(split) <= most
    faces: list[tuple[str, dict[str, object]]] = []
    if Facial.supports(problem):
        faces = [(FACIAL, {"whole": False})]
    if fits(problem):
        faces.append((MULTIPRECISION, {}))
    return ipm + faces + rest if first else [*rest[:1], *ipm, *faces, *rest[1:]]
