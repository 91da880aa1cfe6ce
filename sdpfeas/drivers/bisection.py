"""Bracket the threshold of a parametric family with proofs: ``bisect`` and ``one_shot``.

A family is feasible for every ``delta`` up to its threshold ``delta*``. :func:`bisect` solves feasibility
problems at a few values of ``delta``. Unlike a textbook bisection it does not move to ``delta`` itself: the
family turns every point and all multipliers of a backend, intermediate and final ones, into proven bounds of
``delta*``, and the bracket moves to the best of them. :func:`one_shot` proves bounds along a single program
with the optimal value ``delta*``, for backends that accept an objective. ``bisect(family, "auto")`` starts
with that program if the family has one.

``mode="paper"`` is Algorithm 1 of Li, Shen, van den Hengel and Shi (IEEE TIP 2015): the midpoint rule on what
the backend claims, without proof.
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
from sdpfeas.backends.dispatch import dispatch, dispatch_program
from sdpfeas.backends.inquiry import Callback, Inquiry, Progress, WarmStart
from sdpfeas.backends.registry import Solver
from sdpfeas.claims import Claim, Stop, Verdict, claimed_verdict
from sdpfeas.drivers.bracket import (
    CLOSED,
    GAP_PER_MARGIN,
    WIDE,
    BisectionResult,
    BoundListener,
    Search,
    Step,
    relative_gap,
)
from sdpfeas.drivers.solve import backend_options
from sdpfeas.errors import BackendError, ClaimError, LimitError, OptionError, ProblemError
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.families.subspace_restriction import SubspaceRestriction
from sdpfeas.numerics.cost_estimate import limited
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.outcome import Proof

#: Where in the bracket to solve, as shares of its width: the next one after each solve without progress.
BRACKET_SHARES = (0.5, 0.8, 0.2, 0.95, 0.05)

#: Where to solve first if the upper bound comes from the initial multipliers of the family. They are closer
#: to the threshold than the initial points, by a factor of 1.5 to 11 on the data sets of the WLDA paper.
FIRST_BRACKET_SHARE = 0.7

#: After a solve that reported a gap and shrank the bracket by this ratio, refinement is skipped.
NO_REFINEMENT_RATIO = 0.2

#: Most solves of one search.
MAX_SOLVES = 200

#: Most rounds on growing subspaces, and rounds without progress that end them.
MAX_ROUNDS, STALL_ROUNDS = 60, 4

#: A subspace is solved to this share of the remaining gap, but not below this share of the tolerance.
ROUND_GAP_SHARE, FINEST_TOLERANCE_SHARE = 0.05, 0.1

#: On subspaces, proofs are attempted when the estimated gap is below this share of the tolerance, and again
#: whenever it has shrunk by this ratio.
PROOF_GAP_SHARE, NEXT_PROOF_RATIO = 0.5, 0.3

#: If ``delta`` seems decided and a round leaves more than this share of the gap, the rounds end.
STALLED_GAP_RATIO = 0.5


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
    """Bracket the threshold of a family, or of a parameter of a cvxpy model; both ends are proved.

    ``bisect(family)`` brackets the largest ``delta`` at which a :class:`ParametricFamily` is feasible.
    ``bisect(model, parameter)`` brackets the value of a scalar ``cvxpy.Parameter`` at which a
    ``cvxpy.Problem`` stops being feasible. It accepts all other arguments but ``mode`` and ``refine``. The
    model must be convex for every value of the parameter, as quasiconvex problems with a fixed level are, and
    its objective is ignored. ``lower`` and ``upper`` are then solved first. The verdict at both ends is
    proved; that feasibility is monotone in the parameter is assumed. The model is left with the feasible end:
    the parameter and the variables have its values, and the constraints the dual values of the other end.

    Parameters
    ----------
    family : ParametricFamily or cvxpy.Problem
        The family, or a cvxpy model followed by one of its parameters.
    solver : str, Path, type or Solver
        The backend. ``"auto"`` solves one program if the family has one, and continues with a bisection if
        the bracket is still open. Any other backend is used for a bisection.
    tol : float
        Goal for ``(upper - lower) / |upper|``.
    lower, upper : float, optional
        Ends to start from. They are taken without proof: an end that never moves is not proved.
    mode : {"certified", "paper"}
        Move on proven bounds, or by Algorithm 1 of the WLDA paper on what the backend claims.
    time_limit : float, optional
        Seconds for everything.
    callback : callable, optional
        Called with every :class:`Step`; returning True ends the search.
    absolute_tol : float
        Also stop when the bracket is no wider than this; needed if the threshold is zero.
    refine : bool
        Let the family combine what the backend found into better bounds after every solve. Turn it off to
        measure the backend alone.
    options : mapping, optional
        Options of the backend.

    Returns
    -------
    BisectionResult
        The bracket with a point and a Farkas certificate for its ends. If the backend stays undecided, the
        bracket reached so far, with the reason. For a cvxpy model, a subclass with the name of the parameter
        and the feasible end.

    Raises
    ------
    BackendError
        If the solver cannot be found or cannot run here.
    OptionError
        If an argument or an option of the backend is invalid.

    Examples
    --------
    The largest off-diagonal entry of a positive semidefinite matrix of trace one is 0.5.

    >>> import numpy as np, sdpfeas as sf
    >>> corner, trace = np.array([[0, 0.5], [0.5, 0]]), np.eye(2)
    >>> family = sf.families.LevelSet([sf.PSD(2)], [[corner]], [[trace]], [1.0], [1.0])
    >>> found = sf.bisect(family, tol=1e-4)
    >>> found.lower <= 0.5 <= found.upper, found.proven, found.converged
    (True, True, True)

    The same question as a cvxpy model with a parameter:

    >>> import cvxpy as cp
    >>> X, level = cp.Variable((2, 2), PSD=True), cp.Parameter(name="level")
    >>> model = cp.Problem(cp.Minimize(0), [cp.trace(X) == 1, X[0, 1] >= level])
    >>> found = sf.bisect(model, level, lower=0.0, upper=1.0)
    >>> found.lower <= 0.5 <= found.upper, found.feasible
    (True, 'lower')
    """
    if mode not in ("certified", "paper"):
        raise OptionError(f"mode must be 'certified' or 'paper', got {mode!r}")
    search = Search(family, solver, tol, absolute_tol, time_limit, callback, backend_options(options))
    search.refine = refine
    search.start_from(lower, upper)
    return run_bisection(search, mode)


def run_bisection(search: Search, mode: Literal["certified", "paper"] = "certified") -> BisectionResult:
    """Bracket the threshold from the state of a search."""
    with search.running():
        try:
            known = _known_threshold(search)
            if known is not None:
                return known
            if mode == "paper":
                search.offer_initial_candidates()
                return _midpoint_rule_on_claims(search)
            return _certified_search(search)
        except LimitError as error:
            return search.result(search.time_limit_reason(error))


def one_shot(
    family: ParametricFamily,
    solver: str | Path | type[FeasibilityBackend] | Solver = "spectral-ipm",
    tol: float = 1e-6,
    time_limit: float | None = None,
    *,
    absolute_tol: float = 1e-12,
    options: Mapping[str, Any] | None = None,
) -> BisectionResult:
    """Bracket the threshold of a family along one program, with a backend that accepts an objective.

    Parameters
    ----------
    family : ParametricFamily
        A family with a :meth:`~ParametricFamily.conic_program` program.
    solver : str, Path, type or Solver
        The backend.
    tol : float
        Stop when ``(upper - lower) / |upper|`` is no larger than this.
    time_limit : float, optional
        Seconds for everything.
    absolute_tol : float
        Also stop when the bracket is no wider than this.
    options : mapping, optional
        Options of the backend.

    Returns
    -------
    BisectionResult
        The proven bracket; its history has one entry.

    Raises
    ------
    BackendError
        If the backend accepts no objective.
    ProblemError
        If the family has no such program.

    Examples
    --------
    >>> import numpy as np, sdpfeas as sf
    >>> corner, trace = np.array([[0, 0.5], [0.5, 0]]), np.eye(2)
    >>> family = sf.families.LevelSet([sf.PSD(2)], [[corner]], [[trace]], [1.0], [1.0])
    >>> found = sf.one_shot(family)
    >>> found.lower <= 0.5 <= found.upper, found.proven, found.solves
    (True, True, 1)
    """
    search = Search(family, solver, tol, absolute_tol, time_limit, None, backend_options(options))
    if not search.backend.maximises:
        raise BackendError(f"backend {search.backend.name!r} takes no objective; use bisect")
    with search.running():
        try:
            known = _known_threshold(search)
            if known is not None:
                return known
            if _has_single_member(family):
                search.offer_initial_candidates()
                if search.bracket.closed:
                    return search.result(CLOSED)
            step = _solve_one_program(search)
            if step is None:
                raise ProblemError(f"family {family.name!r} has no single program; use bisect")
            if not search.bracket.closed:
                search.offer_initial_candidates()
        except LimitError as error:
            with suppress(LimitError):
                search.offer_initial_candidates()
            return search.result(search.time_limit_reason(error))
    return search.result(CLOSED if search.bracket.closed else f"{step.reason}; {WIDE}")


def _known_threshold(search: Search) -> BisectionResult | None:
    """Return the threshold if degenerate data determine it; a solve then only selects the point."""
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
        found = _known_threshold(inner) or _certified_search(inner)
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


def _certified_search(search: Search) -> BisectionResult:
    """Solve one program if the solver is ``auto`` and the family has one; then bisect on proven bounds."""
    automatic = isinstance(search.backend, Auto) and not search.backend.options.order
    step = _solve_one_program(search) if automatic and not _has_single_member(search.family) else None
    if step is not None:
        if search.callback is not None and search.callback(step):
            return search.result("stopped by the callback")
        if search.bracket.closed and search.bracket.lower <= search.bracket.upper:
            return search.result(CLOSED)
    elif _reports_gap(search.backend):
        search.subspaces = search.family.subspace_restriction()
    search.offer_initial_candidates()
    return _certified_bisection(search)


def _reports_gap(backend: FeasibilityBackend) -> bool:
    """Whether a solve can be stopped at a given gap, as rounds on subspaces need."""
    return backend.calls_back and backend.maximises and not isinstance(backend, Auto)


def _has_single_member(family: ParametricFamily) -> bool:
    """Whether a set has a single member: there is nothing to search, and no interior."""
    return any(block.single for block in family.sets)


# --- Bisection


def _certified_bisection(search: Search) -> BisectionResult:
    """Solve at values of ``delta`` inside the bracket, and move its ends to proven bounds only."""
    bracket = search.bracket
    stalled = 0
    tried: list[float] = []
    while True:
        if bracket.lower > bracket.upper:
            return search.result("the given bounds contradict what was proved")
        if bracket.closed:
            return search.result(CLOSED)
        if search.deadline.expired:
            return search.result("time limit")
        if len(search.history) >= MAX_SOLVES:
            return search.result(f"gave up after {MAX_SOLVES} solves")
        if stalled == len(BRACKET_SHARES):
            values = ", ".join(f"{delta:.6g}" for delta in tried[-stalled:])
            last = search.history[-1].reason
            return search.result(
                f"backend {search.backend.name!r} stays undecided at delta = {values} ({last})"
            )
        delta = _next_delta(search, stalled)
        if delta is None:
            return search.result("no further value of delta fits into the bracket")
        tried.append(delta)
        before = bracket.lower, bracket.upper
        step = _solve_at(search, delta)
        stalled = 0 if _made_progress(before, step) else stalled + 1
        if search.callback is not None and search.callback(step):
            return search.result("stopped by the callback")


def _next_delta(search: Search, stalled: int) -> float | None:
    """Return a value inside the bracket, or beyond its finite end; None if no double fits in."""
    bracket = search.bracket
    low, high = bracket.lower, bracket.upper
    if math.isinf(low) or math.isinf(high):
        unit = search.family.unit
        reach = 4.0 ** (len(search.history) + stalled)
        if math.isinf(low) and math.isinf(high):
            return 0.0 if not search.history else -unit * reach
        if math.isinf(high):
            return low + max(abs(low), unit * reach)
        return high - max(abs(high), unit * reach)
    initial = not search.history and bracket.certificate is not None
    delta = low + (FIRST_BRACKET_SHARE if initial else BRACKET_SHARES[stalled]) * (high - low)
    return delta if low < delta < high else None


def _made_progress(before: tuple[float, float], step: Step) -> bool:
    """Whether a solve was decided by proof, found a missing end, or shrank the bracket by a tenth."""
    low, high = before
    if step.verdict is not Verdict.UNDECIDED and step.proof in (Proof.RIGOROUS, Proof.EXACT):
        return True
    if math.isinf(low) or math.isinf(high):
        return (math.isinf(low) and math.isfinite(step.lower)) or (
            math.isinf(high) and math.isfinite(step.upper)
        )
    return step.upper - step.lower <= 0.9 * (high - low)


def _solve_at(search: Search, delta: float) -> Step:
    """Solve the problem at ``delta``, and move the bracket to what it proves."""
    begin = time.perf_counter()
    bracket = search.bracket
    problem = search.family.at(delta)
    bracket.has_new_evidence = False
    before = bracket.gap
    listener = BoundListener(bracket, delta)
    # The evidence for the first bounds is closer to the solution than a backend's own start.
    start = search.warm_start or WarmStart(bracket.point, bracket.certificate)
    inquiry = Inquiry(problem, deadline=search.deadline, start=start, wanted="margin", listener=listener)
    claim = Claim() if search.subspaces is None else solve_on_subspaces(search, search.subspaces, delta)
    gap_reported = search.subspaces is not None and listener.decided
    if not gap_reported:
        iterations = claim.iterations or 0
        claim = dispatch(search.backend, problem, inquiry)
        if claim.iterations is not None:
            claim = replace(claim, iterations=iterations + claim.iterations)
        gap_reported = listener.gap_reported
    claim = search.without_malformed(claim, delta)
    verdict, proof, reason = Verdict.UNDECIDED, None, str(claim.stop)
    listener.finish(claim)
    if search.refine and not (gap_reported and bracket.gap < NO_REFINEMENT_RATIO * before):
        bracket.refine()
    if bracket.lower >= delta:
        verdict, proof = Verdict.FEASIBLE, Proof.RIGOROUS
    elif bracket.upper <= delta:
        verdict, proof = Verdict.INFEASIBLE, Proof.RIGOROUS
    elif not bracket.closed:
        check = inquiry.final_check(claim)
        verdict, proof, reason = check.verdict, check.proof, f"{claim.stop}; {check.reason}"
        if claim.point is None and claim.certificate is None:
            reason = f"{claim.stop}: {claim.raw_status}"
        # If bounds were rounded at delta, the proof is about a value next to delta.
        if proof in (Proof.RIGOROUS, Proof.EXACT) and search.family.exact_at(delta):
            if verdict is Verdict.FEASIBLE:
                bracket.lower, bracket.point, bracket.lower_proven = delta, check.point, True
            elif check.certificate is not None:
                bracket.upper, bracket.certificate, bracket.upper_proven = delta, check.certificate, True
    search.warm_start = WarmStart(claim.point, claim.certificate)
    seconds = time.perf_counter() - begin
    step = Step(delta, verdict, proof, bracket.lower, bracket.upper, claim.iterations, seconds, reason)
    search.history.append(step)
    return step


def _midpoint_rule_on_claims(search: Search) -> BisectionResult:
    """Halve the bracket on what the backend claims, without proof: Algorithm 1 of Li et al."""
    low, high = search.bracket.lower, search.bracket.upper
    if not (math.isfinite(low) and math.isfinite(high)):
        raise OptionError("mode='paper' needs a finite bracket: give lower and upper")
    bracket, point, y = search.bracket, search.bracket.point, search.bracket.certificate
    reason = CLOSED
    while high - low > max(bracket.tol * abs(low), bracket.absolute_tol):
        if search.deadline.expired:
            reason = "time limit"
            break
        begin = time.perf_counter()
        delta = 0.5 * (low + high)
        try:
            problem = search.family.at(delta)
            inquiry = Inquiry(problem, deadline=search.deadline, start=search.warm_start)
            claim = search.without_malformed(dispatch(search.backend, problem, inquiry), delta)
        except LimitError as error:
            reason = search.time_limit_reason(error)
            break
        claimed = claimed_verdict(claim)
        verdict = Verdict.UNDECIDED if claimed is None else claimed
        if verdict is Verdict.FEASIBLE:
            low, point = delta, claim.point
        elif verdict is Verdict.INFEASIBLE:
            high, y = delta, claim.certificate
        search.warm_start = WarmStart(claim.point, claim.certificate)
        seconds = time.perf_counter() - begin
        step = Step(delta, verdict, None, low, high, claim.iterations, seconds, claim.raw_status)
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
        converged=high - low <= max(bracket.tol * abs(low), bracket.absolute_tol),
        reason=f"{reason}; on claims, not on proofs",
        initial=search.initial,
        time=search.deadline.elapsed,
    )


# --- One program whose optimal value is the threshold


def _solve_one_program(search: Search) -> Step | None:
    """Prove bounds along a program whose optimal value is the threshold; None if the family has none.

    In many dimensions it is solved on growing subspaces first; as a whole only if the bracket stays open.
    """
    begin = time.perf_counter()
    subspaces, before = search.family.subspace_restriction(), 0
    claim = None if subspaces is None else solve_on_subspaces(search, subspaces)
    if claim is None or not (search.bracket.closed or search.deadline.expired):
        before = 0 if claim is None else claim.iterations or 0
        program = search.family.conic_program()
        if program is None:
            return None
        claim = _maximise(search, program)
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


def _maximise(search: Search, program: ConicProgram) -> Claim:
    """Maximise a program; repeat with more rows as long as pricing finds violated ones."""
    family = search.family
    listener = BoundListener(search.bracket, None, family.program_point, family.program_multipliers)
    for _ in range(MAX_SOLVES):
        inquiry = Inquiry(program.problem, deadline=search.deadline, wanted="margin", listener=listener)
        try:
            with limited(inquiry.limit):
                claim = dispatch_program(search.backend, program, inquiry)
        except LimitError as error:
            claim = Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))
        listener.finish(claim)
        done = search.bracket.closed or search.deadline.expired or claim.stop is Stop.TIME_LIMIT
        if done or program.pricing is None or claim.point is None or claim.certificate is None:
            break
        more = program.pricing.extended(claim.point, claim.certificate, 0.0)
        if more is None:
            break
        program = more.program
    return claim


# --- Growing subspaces, for many dimensions


def solve_on_subspaces(search: Search, subspaces: SubspaceRestriction, delta: float | None = None) -> Claim:
    """Prove bounds from solutions on growing subspaces (:mod:`sdpfeas.families.subspace_restriction`).

    With ``delta``, find the largest margin there until ``delta`` is decided and larger subspaces add nothing;
    without, solve the program whose optimal value is the threshold. Returns the last point and multipliers
    that were offered, and the iterations of all rounds.
    """
    bracket, iterations = search.bracket, 0
    claim = Claim(stop=Stop.STALLED)
    with suppress(np.linalg.LinAlgError):
        basis = subspaces.initial_basis() if subspaces.basis is None else subspaces.basis
        known_gap = 1.0 if delta is None else min(bracket.gap, 1.0)
        least_gap, stalled, proof_gap = np.inf, 0, PROOF_GAP_SHARE * bracket.tol
        for _ in range(MAX_ROUNDS):
            subspaces.basis = basis
            target_gap = max(ROUND_GAP_SHARE * known_gap, FINEST_TOLERANCE_SHARE * bracket.tol)
            inner = _solve_on_subspace(search, subspaces, delta, target_gap)
            iterations += inner.iterations or 0
            if inner.point is None or inner.certificate is None:
                break
            matrix = subspaces.matrix(inner.point)
            attained, upper, directions = subspaces.expansion(inner.certificate, basis, matrix)
            gap = relative_gap(attained, upper)
            beside = delta is not None and not attained < delta < upper
            decided = beside and gap >= STALLED_GAP_RATIO * least_gap
            if gap <= proof_gap or decided:
                proof_gap = NEXT_PROOF_RATIO * gap
                y = subspaces.multipliers(inner.certificate)
                claim = replace(claim, point=subspaces.point(basis, matrix), certificate=y)
                with suppress(ClaimError):
                    bracket.offer_point(claim.point)
                    bracket.offer_multipliers(claim.certificate)
                if bracket.closed or (decided and bracket.decides(delta)):
                    return replace(claim, stop=Stop.CALLBACK, iterations=iterations)
            stalled = stalled + 1 if not gap < least_gap else 0
            least_gap = min(gap, least_gap)
            # A margin determines the threshold less accurately than an optimal value: tighten every round.
            known_gap = gap if delta is None else min(gap, STALLED_GAP_RATIO * known_gap)
            if stalled == STALL_ROUNDS or not np.isfinite(gap) or search.deadline.expired:
                break
            basis = subspaces.expanded(basis, matrix, directions)
    return replace(claim, iterations=iterations)


def _solve_on_subspace(
    search: Search, subspaces: SubspaceRestriction, delta: float | None, target_gap: float
) -> Claim:
    """Solve the program of one subspace, or find the largest margin at ``delta`` there, to a gap."""

    def close_enough(progress: Progress) -> bool:
        return progress.gap is not None and progress.gap <= target_gap

    assert subspaces.basis is not None
    if delta is not None:
        target_gap /= GAP_PER_MARGIN
        problem = subspaces.problem_at(subspaces.basis, delta)
        return dispatch(search.backend, problem, _margin_inquiry(search, problem, close_enough))
    program = subspaces.program(subspaces.basis)
    inquiry = _margin_inquiry(search, program.problem, close_enough)
    try:
        with limited(inquiry.limit):
            return search.backend.maximise(program, inquiry)
    except LimitError as error:
        return Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))


def _margin_inquiry(search: Search, problem: FeasibilityProblem, listener: Callback) -> Inquiry:
    return Inquiry(problem, deadline=search.deadline, wanted="margin", listener=listener)
