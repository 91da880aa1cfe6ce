"""From feasibility to optimal values: a proven bracket around the threshold of a family.

:func:`bisect` asks any backend at a few values of ``delta`` and moves on proven bounds only: every point and
every vector of multipliers a backend comes up with, during a solve or at its end, decided or not, is turned
into a bound by the family. :func:`one_shot` does the same along a single program, for backends that take an
objective; ``bisect(family, "auto")`` begins with it where the family has one, and asks step by step only what
that leaves open. ``mode="paper"`` is the plain midpoint rule on what backends claim, and proves nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sdpfeas.backends.auto import Auto
from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.dispatch import ask, ask_program
from sdpfeas.backends.inquiry import Callback, Inquiry, Progress, WarmStart
from sdpfeas.backends.registry import Solver
from sdpfeas.claims import Claim, Stop, Verdict, claimed_verdict
from sdpfeas.drivers.bracket import GAP_PER_MARGIN, BisectionResult, Search, Step, Watch, relative_gap
from sdpfeas.drivers.solve import backend_options
from sdpfeas.errors import BackendError, ClaimError, LimitError, OptionError, ProblemError
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.families.subspace_restriction import SubspaceRestriction
from sdpfeas.numerics.cost_estimate import limited
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.outcome import Proof

# ------------------------------------------------------------
# The search as published: Algorithm 1 of Li, Shen, van den Hengel and Shi (IEEE TIP 2015).


def as_published(search: Search) -> BisectionResult:
    """Halve the bracket on what the backend claims, whether or not it is so.

    ``search``: a search that has been started.
    """
    low, high = search.bracket.lower, search.bracket.upper
    if not (math.isfinite(low) and math.isfinite(high)):
        raise OptionError("mode='paper' needs a finite bracket: give lower and upper")
    bracket, point, y = search.bracket, search.bracket.point, search.bracket.certificate
    reason = "the bracket is within the tolerance"
    while high - low > max(bracket.tol * abs(low), bracket.floor):
        if search.deadline.expired:
            reason = "time limit"
            break
        begin = time.perf_counter()
        delta = 0.5 * (low + high)
        try:
            problem = search.family.at(delta)
            inquiry = Inquiry(problem, deadline=search.deadline, start=search.warm)
            claim = search.sound(ask(search.backend, problem, inquiry), delta)
        except LimitError as error:
            reason = search.late(error)
            break
        said = claimed_verdict(claim)
        verdict = Verdict.UNDECIDED if said is None else said
        if verdict is Verdict.FEASIBLE:
            low, point = delta, claim.point
        elif verdict is Verdict.INFEASIBLE:
            high, y = delta, claim.certificate
        search.warm = WarmStart(claim.point, claim.certificate)
        spent = time.perf_counter() - begin
        step = Step(delta, verdict, None, low, high, claim.iterations, spent, claim.raw_status)
        search.history.append(step)
        if verdict is Verdict.UNDECIDED:
            reason = f"backend {search.backend.name!r} claims nothing at delta = {delta:.6g} ({claim.stop})"
            break
        if search.callback is not None and search.callback(step):
            reason = "stopped by the callback"
            break
    return BisectionResult(
        low,
        high,
        point,
        y,
        tuple(search.history),
        proven=False,
        converged=high - low <= max(bracket.tol * abs(low), bracket.floor),
        reason=f"{reason}; on claims, not on proofs",
        initial=search.initial,
        time=search.deadline.elapsed,
    )


#: Why a search ends that found what was asked for.
CLOSED = "the bracket is within the tolerance"

#: Where in the bracket to ask, while nothing is decided.
BRACKET_SHARES = (0.5, 0.8, 0.2, 0.95, 0.05)

#: Where to ask first, if the upper bound comes from multipliers that the family itself suggested: balanced
#: ones are nearer to the threshold than balanced points (on the paper's data by a factor of 1.5 to 11).
FIRST = 0.7

#: A solve that told its gap and shrank the bracket to less than this share needs no refinement.
MUCH = 0.2

#: Solves at most, whatever happens.
MAX_SOLVES = 200


def bisect(
    family: ParametricFamily,
    solver: str | Path | type[FeasibilityBackend] | Solver = "auto",
    tol: float = 1e-3,
    lower: float | None = None,
    upper: float | None = None,
    mode: Literal["certified", "paper"] = "certified",
    time_limit: float | None = None,
    callback: Callable[[Step], Any] | None = None,
    *,
    absolute_tol: float = 1e-9,
    refine: bool = True,
    options: Mapping[str, Any] | None = None,
) -> BisectionResult:
    """Bracket the threshold of a family.

    Parameters
    ----------
    family : ParametricFamily
        The family.
    solver : str, Path, type or Solver
        Which backend to ask. ``"auto"`` takes the fastest way there is: one program where the family has one,
        else, or where that leaves the bracket open, a bisection. Any other name means a bisection on it.
    tol : float
        Ask for ``(upper - lower) / |upper|`` no larger than this.
    lower, upper : float, optional
        Start from these. They are taken on trust: an end that never moves is not proved.
    mode : {"certified", "paper"}
        Move on proven bounds, or by the paper's Algorithm 1 on what the backend claims.
    time_limit : float, optional
        Seconds in all.
    callback : callable, optional
        Called with every :class:`Step`; returning True ends the search.
    absolute_tol : float
        Also stop when the bracket is no wider than this; needed where the threshold is zero.
    refine : bool
        Let the family combine what the backend found into better bounds after every solve. Turn it off to
        see what the backend does by itself.
    options : mapping, optional
        Options of the backend.

    Returns
    -------
    BisectionResult
        The bracket. If the backend stays undecided it is the one reached so far, and ``reason`` says so.
    """
    if mode not in ("certified", "paper"):
        raise OptionError(f"mode must be 'certified' or 'paper', got {mode!r}")
    search = Search(family, solver, tol, absolute_tol, time_limit, callback, backend_options(options))
    search.refines = refine
    with search.working():
        try:
            search.trust(lower, upper)
            known = _known(search)
            if known is not None:
                return known
            if mode == "certified":
                return _searched(search)
            search.look_around()
            return as_published(search)
        except LimitError as error:
            return search.result(search.late(error))


def one_shot(
    family: ParametricFamily,
    solver: str | Path | type[FeasibilityBackend] | Solver = "spectral-ipm",
    tol: float = 1e-6,
    time_limit: float | None = None,
    *,
    absolute_tol: float = 1e-12,
    options: Mapping[str, Any] | None = None,
) -> BisectionResult:
    """Bracket the threshold of a family along one program, with a backend that takes an objective.

    Parameters
    ----------
    family : ParametricFamily
        A family with a :meth:`~ParametricFamily.conic_program` program.
    solver : str, Path, type or Solver
        Which backend to ask.
    tol : float
        Stop when ``(upper - lower) / |upper|`` is no larger than this.
    time_limit : float, optional
        Seconds in all.
    absolute_tol : float
        Also stop when the bracket is no wider than this.
    options : mapping, optional
        Options of the backend.

    Returns
    -------
    BisectionResult
        The proven bracket; its history is one row.

    Raises
    ------
    BackendError
        If the backend takes no objective.
    ProblemError
        If the family has no such program.
    """
    search = Search(family, solver, tol, absolute_tol, time_limit, None, backend_options(options))
    if not search.backend.maximises:
        raise BackendError(f"backend {search.backend.name!r} takes no objective; use bisect")
    with search.working():
        try:
            known = _known(search)
            if known is not None:
                return known
            if _no_choice(family):
                search.look_around()
                if search.bracket.closed:
                    return search.result(CLOSED)
            found = _one_program(search)
            if found is None:
                raise ProblemError(f"family {family.name!r} has no single program; use bisect")
            step = found
            if not search.bracket.closed:
                search.look_around()
        except LimitError as error:
            with suppress(LimitError):
                search.look_around()
            return search.result(search.late(error))
    if search.bracket.closed:
        return search.result(CLOSED)
    return search.result(f"{step.reason}; the bracket is wider than asked for")


def _searched(search: Search) -> BisectionResult:
    """Bracket the threshold the fastest way that the choice of a solver leaves open."""
    free = isinstance(search.backend, Auto) and not search.backend.options.order
    step = _one_program(search) if free and not _no_choice(search.family) else None
    if step is not None:
        if search.callback is not None and search.callback(step):
            return search.result("stopped by the callback")
        if search.bracket.closed and search.bracket.lower <= search.bracket.upper:
            return search.result(CLOSED)
    elif _tells_its_gap(search.backend):
        search.spaces = search.family.subspace_restriction()
    search.look_around()
    return _certified(search)


def _tells_its_gap(backend: FeasibilityBackend) -> bool:
    """Whether a solve can be ended at the accuracy that one of many subspaces is worth."""
    return backend.calls_back and backend.maximises and not isinstance(backend, Auto)


def _no_choice(family: ParametricFamily) -> bool:
    """Whether a set has a single member: there is nothing to search, and no interior to do it in."""
    return any(block.single for block in family.sets)


def _one_program(search: Search) -> Step | None:
    """Take bounds along a program whose optimal value is the threshold; None if the family has none.

    In many dimensions it is solved on subspaces that grow, and as a whole only where that does not do.
    """
    begin = time.perf_counter()
    spaces, before = search.family.subspace_restriction(), 0
    claim = None if spaces is None else by_subspaces(search, spaces)
    if claim is None or not (search.bracket.closed or search.deadline.expired):
        before = 0 if claim is None else claim.iterations or 0
        program = search.family.conic_program()
        if program is None:
            return None
        claim = _maximised(search, program)
    iterations = None if claim.iterations is None else before + claim.iterations
    bracket = search.bracket
    step = Step(
        bracket.lower,
        Verdict.FEASIBLE if math.isfinite(bracket.lower) else Verdict.UNDECIDED,
        Proof.RIGOROUS if math.isfinite(bracket.lower) else None,
        bracket.lower,
        bracket.upper,
        iterations,
        time.perf_counter() - begin,
        str(claim.stop),
    )
    search.history.append(step)
    return step


def _maximised(search: Search, program: ConicProgram) -> Claim:
    """Let the backend maximise, and again with more rows where it left out some that matter."""
    family = search.family
    watch = Watch(search.bracket, None, family.program_point, family.program_multipliers)
    for _ in range(MAX_SOLVES):
        inquiry = Inquiry(program.problem, deadline=search.deadline, wanted="margin", listener=watch)
        try:
            with limited(inquiry.limit):
                claim = ask_program(search.backend, program, inquiry)
        except LimitError as error:
            claim = Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))
        watch.finish(claim)
        done = search.bracket.closed or search.deadline.expired or claim.stop is Stop.TIME_LIMIT
        if done or program.pricing is None or claim.point is None or claim.certificate is None:
            break
        more = program.pricing.extended(claim.point, claim.certificate, 0.0)
        if more is None:
            break
        program = more.program
    return claim


def _known(search: Search) -> BisectionResult | None:
    """Return the answer where the data give it away; a solve only chooses the point."""
    known = search.family.known
    if known is None:
        return None
    point, history = known.point, tuple(search.history)
    if known.substitute is not None:
        inner = Search(
            known.substitute,
            search.solver,
            max(search.bracket.tol, 1e-3),
            0.0,
            search.deadline.limit,
            search.callback,
            search.options,
        )
        found = _known(inner) or _searched(inner)
        point, history = found.point, found.history
        point = None if point is None else search.family.from_substitute(point)
    return BisectionResult(
        known.delta,
        known.delta,
        point,
        None,
        history,
        proven=known.proven,
        converged=True,
        reason=known.reason,
        initial=(known.delta, known.delta),
        time=search.deadline.elapsed,
    )


def _certified(search: Search) -> BisectionResult:
    """Move on proven bounds only."""
    bracket = search.bracket
    stuck = 0
    asked: list[float] = []
    while True:
        if bracket.lower > bracket.upper:
            return search.result("the given bounds contradict what was proved")
        if bracket.closed:
            return search.result(CLOSED)
        if search.deadline.expired:
            return search.result("time limit")
        if len(search.history) >= MAX_SOLVES:
            return search.result(f"gave up after {MAX_SOLVES} solves")
        if stuck == len(BRACKET_SHARES):
            places = ", ".join(f"{delta:.6g}" for delta in asked[-stuck:])
            last = search.history[-1].reason
            return search.result(
                f"backend {search.backend.name!r} stays undecided at delta = {places} ({last})"
            )
        delta = _next_delta(search, stuck)
        if delta is None:
            return search.result("no further value of delta fits into the bracket")
        asked.append(delta)
        before = bracket.lower, bracket.upper
        step = _ask(search, delta)
        stuck = 0 if _progress(before, step) else stuck + 1
        if search.callback is not None and search.callback(step):
            return search.result("stopped by the callback")


def _progress(before: tuple[float, float], step: Step) -> bool:
    low, high = before
    if step.verdict is not Verdict.UNDECIDED and step.proof in (Proof.RIGOROUS, Proof.EXACT):
        return True
    if math.isinf(low) or math.isinf(high):
        return (math.isinf(low) and math.isfinite(step.lower)) or (
            math.isinf(high) and math.isfinite(step.upper)
        )
    return step.upper - step.lower <= 0.9 * (high - low)


def _next_delta(search: Search, stuck: int) -> float | None:
    bracket = search.bracket
    low, high = bracket.lower, bracket.upper
    if math.isinf(low) or math.isinf(high):
        return _expanding(search, low, high, stuck)
    guessed = not search.history and bracket.certificate is not None
    place = FIRST if guessed else BRACKET_SHARES[stuck]
    delta = low + place * (high - low)
    return delta if low < delta < high else None


def _expanding(search: Search, low: float, high: float, stuck: int) -> float:
    unit = search.family.unit
    reach = 4.0 ** (len(search.history) + stuck)
    if math.isinf(low) and math.isinf(high):
        return 0.0 if not search.history else -unit * reach
    if math.isinf(high):
        return low + max(abs(low), unit * reach)
    return high - max(abs(high), unit * reach)


def _ask(search: Search, delta: float) -> Step:
    begin = time.perf_counter()
    bracket = search.bracket
    problem = search.family.at(delta)
    bracket.fresh = False
    before = relative_gap(bracket.lower, bracket.upper)
    watch = Watch(bracket, delta)
    # What the first bounds come from is nearer to the answer than what a backend begins with by itself.
    start = search.warm or WarmStart(bracket.point, bracket.certificate)
    inquiry = Inquiry(problem, deadline=search.deadline, start=start, wanted="margin", listener=watch)
    claim = Claim() if search.spaces is None else by_subspaces(search, search.spaces, delta)
    told = search.spaces is not None and watch.decided
    if not told:
        before_that = claim.iterations or 0
        claim = ask(search.backend, problem, inquiry)
        if claim.iterations is not None:
            claim = replace(claim, iterations=before_that + claim.iterations)
        told = watch.told
    claim = search.sound(claim, delta)
    verdict, proof, reason = Verdict.UNDECIDED, None, str(claim.stop)
    watch.finish(claim)
    if search.refines and not (told and relative_gap(bracket.lower, bracket.upper) < MUCH * before):
        bracket.refine()
    if bracket.lower >= delta:
        verdict, proof = Verdict.FEASIBLE, Proof.RIGOROUS
    elif bracket.upper <= delta:
        verdict, proof = Verdict.INFEASIBLE, Proof.RIGOROUS
    elif not bracket.closed:
        check = inquiry.settle(claim)
        verdict, proof, reason = check.verdict, check.proof, f"{claim.stop}; {check.reason}"
        if claim.point is None and claim.certificate is None:
            reason = f"{claim.stop}: {claim.raw_status}"
        # A proof about bounds that were rounded is one about a value next to delta.
        if proof in (Proof.RIGOROUS, Proof.EXACT) and search.family.exact_at(delta):
            if verdict is Verdict.FEASIBLE:
                bracket.lower, bracket.point, bracket.lower_proven = delta, check.point, True
            elif check.certificate is not None:
                bracket.upper, bracket.certificate, bracket.upper_proven = delta, check.certificate, True
    search.warm = WarmStart(claim.point, claim.certificate)
    step = Step(
        delta,
        verdict,
        proof,
        bracket.lower,
        bracket.upper,
        claim.iterations,
        time.perf_counter() - begin,
        reason,
    )
    search.history.append(step)
    return step


# ------------------------------------------------------------
# Programs or questions, one after the other, on subspaces that grow: for many dimensions.

#: Rounds at most, and how many without progress end the search.
ROUNDS, STALL_ROUNDS = 60, 4

#: A program is solved to this share of the gap that is left, but no further than this share of the tolerance.
INNER, FINEST = 0.05, 0.1

#: Proofs are tried when the gap is estimated to be below this share of the tolerance, and again when it has
#: shrunk to this share.
PROMISING, NEXT_PROOF_GAP_SHARE = 0.5, 0.3

#: A question that seems decided tells no more on larger subspaces when a round leaves this share of the gap.
LITTLE_MORE = 0.5


def by_subspaces(search: Search, spaces: SubspaceRestriction, delta: float | None = None) -> Claim:
    """Bracket the threshold of a family along growing subspaces.

    ``spaces``: what its family knows about subspaces. ``delta``: ask at this value of the parameter, until
    it is on one side of the threshold and no more can be learnt from it; default: solve the program whose
    optimal value is the threshold.

    Returns: the last point and multipliers, with how it ended and the iterations of all rounds.
    """
    bracket, iterations = search.bracket, 0
    claim = Claim(stop=Stop.STALLED)
    with suppress(np.linalg.LinAlgError):
        basis = spaces.first() if spaces.basis is None else spaces.basis
        known = 1.0 if delta is None else min(relative_gap(bracket.lower, bracket.upper), 1.0)
        least, since, promising = np.inf, 0, PROMISING * bracket.tol
        for _ in range(ROUNDS):
            spaces.basis = basis
            inner = _solved(search, spaces, delta, max(INNER * known, FINEST * bracket.tol))
            iterations += inner.iterations or 0
            if inner.point is None or inner.certificate is None:
                break
            matrix = spaces.matrix(inner.point)
            attained, upper, directions = spaces.ahead(inner.certificate, basis, matrix)
            gap = relative_gap(attained, upper)
            settled = delta is not None and not attained < delta < upper and gap >= LITTLE_MORE * least
            if gap <= promising or settled:
                promising = NEXT_PROOF_GAP_SHARE * gap
                y = spaces.multipliers(inner.certificate)
                claim = replace(claim, point=spaces.point(basis, matrix), certificate=y)
                with suppress(ClaimError):
                    bracket.offer_point(claim.point)
                    bracket.offer_multipliers(claim.certificate)
                if bracket.closed or (settled and bracket.decides(delta)):
                    return replace(claim, stop=Stop.CALLBACK, iterations=iterations)
            since = since + 1 if not gap < least else 0
            least = min(gap, least)
            # A margin says less about the threshold than an optimal value: it has to be ever more accurate.
            known = gap if delta is None else min(gap, LITTLE_MORE * known)
            if since == STALL_ROUNDS or not np.isfinite(gap) or search.deadline.expired:
                break
            basis = spaces.grown(basis, matrix, directions)
    return replace(claim, iterations=iterations)


def _solved(search: Search, spaces: SubspaceRestriction, delta: float | None, wanted: float) -> Claim:
    """Solve the program of the present subspace, or find the largest margin there, to an accuracy."""

    def enough(progress: Progress) -> bool:
        return progress.gap is not None and progress.gap <= wanted

    assert spaces.basis is not None
    if delta is not None:
        wanted /= GAP_PER_MARGIN
        problem = spaces.question(spaces.basis, delta)
        return ask(search.backend, problem, _inquiry(search, problem, enough))
    program = spaces.program(spaces.basis)
    inquiry = _inquiry(search, program.problem, enough)
    try:
        with limited(inquiry.limit):
            return search.backend.maximise(program, inquiry)
    except LimitError as error:
        return Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))


def _inquiry(search: Search, problem: FeasibilityProblem, listener: Callback) -> Inquiry:
    return Inquiry(problem, deadline=search.deadline, wanted="margin", listener=listener)
