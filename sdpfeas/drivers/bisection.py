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
from sdpfeas.backends.inquiry import Inquiry, Progress, WarmStart
from sdpfeas.backends.registry import Solver
from sdpfeas.claims import Claim, Stop, Verdict, claimed_verdict
from sdpfeas.drivers.bracket import (
    CLOSED,
    MAX_SOLVES,
    PROGRAM,
    WIDE,
    BisectionResult,
    BoundListener,
    Question,
    Search,
    Step,
    relative_gap,
    without_malformed,
)
from sdpfeas.drivers.solve import backend_options
from sdpfeas.errors import BackendError, ClaimError, LimitError, OptionError, ProblemError
from sdpfeas.families.parametric_family import MonotoneFamily, ParametricFamily
from sdpfeas.families.subspace_restriction import SubspaceRestriction
from sdpfeas.numerics.limits import limited
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.bounded_variables import Bound
from sdpfeas.verifier.outcome import Proof

#: After a solve that reported a gap and shrank the bracket by this ratio, refinement is skipped.
NO_REFINEMENT_RATIO = 0.2

#: Most rounds on growing subspaces, and rounds without progress that end them.
MAX_ROUNDS, STALL_ROUNDS = 60, 4

#: A subspace is solved to this share of the remaining gap, but not below this share of the tolerance.
ROUND_GAP_SHARE, FINEST_TOLERANCE_SHARE = 0.05, 0.1

#: On subspaces, proofs are attempted when the estimated gap is below this share of the tolerance, and again
#: whenever it has shrunk by this ratio.
PROOF_GAP_SHARE, NEXT_PROOF_RATIO = 0.5, 0.3


def bisect(
    family: MonotoneFamily,
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
    bound: Bound | None = None,
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
        the bracket is still open. Any other backend is used for a bisection; an interior-point method on many
        dimensions solves the program on growing subspaces first.
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
    bound : float or mapping, optional
        Points with a larger norm do not interest: the upper end is then infeasible within the bound; see
        :func:`sdpfeas.solve`. Every bound is proved by a solve at its value of ``delta``.
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
    if bound is not None and isinstance(family, MonotoneFamily):
        family = _BoundedFamily(family, bound)
    kind = Search
    if mode == "paper":
        kind = ClaimSearch
    elif isinstance(family, ParametricFamily):
        kind = ThresholdSearch
    search = kind(family, solver, tol, absolute_tol, time_limit, callback, backend_options(options))
    if isinstance(search, ThresholdSearch):
        search.refine = refine
    search.start_from(lower, upper)
    return replace(_run(search), bound=bound)


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
    if not isinstance(family, ParametricFamily):
        raise ProblemError(f"one_shot needs a ParametricFamily, got {type(family).__name__}")
    search = ThresholdSearch(family, solver, tol, absolute_tol, time_limit, None, backend_options(options))
    if not search.backend.maximises:
        raise BackendError(f"backend {search.backend.name!r} takes no objective; use bisect")
    search.use_program = "only"
    return _run(search)


def _run(search: Search) -> BisectionResult:
    """Run a search, unless degenerate data determine the threshold; a solve then only selects the point."""
    with search.running():
        try:
            known = search.family.known
        except LimitError as error:
            return search.result(search.time_limit_reason(error))
    if known is None:
        return search.run()
    point, history = known.point, tuple[Step, ...]()
    if known.substitute is not None:
        tol, limit = max(search.bracket.tol, 1e-3), search.deadline.limit
        found = _run(
            ThresholdSearch(known.substitute, search.solver, tol, 0.0, limit, search.callback, search.options)
        )
        history = found.history
        point = None if found.point is None else search.family.from_substitute(found.point)
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


class _BoundedFamily(MonotoneFamily):
    """A family within a bound of the variables. Only its a priori upper bound holds for this one too."""

    def __init__(self, family: MonotoneFamily, bound: Bound) -> None:
        self._family, self._bound = family, bound
        self.sets, self.m, self.unit, self.caveat = family.sets, family.m, family.unit, family.caveat
        self.bracket = (-math.inf, family.bracket[1])

    def at(self, delta: float) -> FeasibilityProblem:
        """Return the problem at ``delta``, with rows that state the bound."""
        return self._family.at(delta).bounded(self._bound)

    def exact_at(self, delta: float) -> bool:
        """Return whether no number of the problem at ``delta`` is rounded."""
        return self._family.exact_at(delta)


class ClaimSearch(Search):
    """The midpoint rule on what the backend claims, without proof: Algorithm 1 of Li et al."""

    max_stalled = 1
    rigorous = False

    def choose(self, stalled: int) -> float:
        """Return the midpoint of the bracket."""
        low, high = self.bracket.lower, self.bracket.upper
        if not (math.isfinite(low) and math.isfinite(high)):
            raise OptionError("mode='paper' needs a finite bracket: give lower and upper")
        return 0.5 * (low + high)

    def judge(self, delta: float, inquiry: Inquiry, claim: Claim) -> tuple[Verdict, Proof | None, str]:
        """Move an end to ``delta`` on the claim of the backend."""
        claimed = claimed_verdict(claim)
        if claimed is Verdict.FEASIBLE:
            self.bracket.raise_lower(delta, claim.point, proven=False)
        elif claimed is Verdict.INFEASIBLE:
            self.bracket.reduce_upper(delta, claim.certificate, proven=False)
        return Verdict.UNDECIDED if claimed is None else claimed, None, claim.raw_status

    def stall_reason(self) -> str:
        """Return the stop reason if the backend claims nothing."""
        delta = self.history[-1].delta
        return f"backend {self.backend.name!r} claims nothing at delta = {delta:.6g}"

    def result(self, reason: str) -> BisectionResult:
        """Return the bracket so far, as not proved."""
        reason = f"{reason}; on claims, not on proofs"
        return replace(super().result(reason), proven=False, reason=reason)


class ThresholdSearch(Search):
    """A search for the threshold of a :class:`ParametricFamily`, whose bounds hold at every ``delta``.

    Every candidate of a solve, intermediate or final, is offered to the bracket. If the solver is ``auto``
    and the family has one, the first solve is a program whose optimal value is the threshold.
    """

    family: ParametricFamily
    #: Whether the program is only the first solve, before a bisection, or the only one.
    use_program: Literal["first", "only"] = "first"
    #: Whether the family combines the evidence of every solve into better bounds.
    refine = True
    #: Growing subspaces on which the program is solved first; None to solve in all dimensions.
    _subspaces: SubspaceRestriction | None = None
    _program: ConicProgram | None = None
    #: Whether a program is still to be solved, and whether also the one in all dimensions.
    _program_left = _whole = False

    def close(self) -> str:
        """Choose between program and bisection, and run the loop."""
        family, backend = self.family, self.backend
        only, automatic = self.use_program == "only", isinstance(backend, Auto) and not backend.options.order
        # If a set has a single member, there is nothing to search, and no interior.
        single = any(block.single for block in family.sets)
        if only and single:
            super().offer_initial_candidates()
            if self.bracket.closed:
                return CLOSED
        self._whole = only or (automatic and not single)
        if self._whole or _reports_gap(backend):
            self._subspaces = family.subspace_restriction()
        self._program_left = self._subspaces is not None
        if self._whole and self._subspaces is None:
            self._program = family.conic_program()
            self._program_left = self._program is not None
            if only and not self._program_left:
                raise ProblemError(f"family {family.name!r} has no single program; use bisect")
        return super().close()

    def offer_initial_candidates(self) -> None:
        """Prove bounds from the initial candidates of the family, unless a program is solved first."""
        if not self._program_left:
            super().offer_initial_candidates()

    def choose(self, stalled: int) -> Question | None:
        """Return the program first, then values of ``delta``."""
        if self._program_left:
            return PROGRAM
        return None if self.use_program == "only" else super().choose(stalled)

    def exhausted_reason(self) -> str:
        """Return the stop reason if there is nothing left to solve."""
        if self.use_program == "only":
            return f"{self.history[-1].reason}; {WIDE}"
        return super().exhausted_reason()

    def ask(self, question: Question) -> Step:
        """Solve at ``delta``, or the program; candidates and verdict move the bracket."""
        if question != PROGRAM:
            return super().ask(question)
        begin, bracket = time.perf_counter(), self.bracket
        self._program_left = False
        try:
            claim = self._solve_program()
        finally:
            if not bracket.closed:
                self.offer_initial_candidates()
        known = math.isfinite(bracket.lower)
        verdict, proof = (Verdict.FEASIBLE, Proof.RIGOROUS) if known else (Verdict.UNDECIDED, None)
        return self.step(bracket.lower, verdict, proof, claim, str(claim.stop), begin)

    # --- Bisection

    def solve_at(self, delta: float, problem: FeasibilityProblem) -> tuple[Inquiry, Claim]:
        """Find the largest margin at ``delta``; its iterates are offered to the bracket."""
        bracket = self.bracket
        bracket.has_new_evidence = False
        before = bracket.gap
        listener = BoundListener(bracket, delta)
        # The evidence for the first bounds is closer to the solution than a backend's own start.
        start = self.warm_start or WarmStart(bracket.point, bracket.certificate)
        inquiry = Inquiry(problem, deadline=self.deadline, start=start, wanted="margin", listener=listener)
        claim = dispatch(self.backend, problem, inquiry)
        claim = without_malformed(claim, problem)
        listener.finish(claim)
        if self.refine and not (listener.gap_reported and bracket.gap < NO_REFINEMENT_RATIO * before):
            bracket.refine()
        return inquiry, claim

    def judge(self, delta: float, inquiry: Inquiry, claim: Claim) -> tuple[Verdict, Proof | None, str]:
        """Return the verdict that the bracket implies at ``delta``, else that of the verifier there."""
        if self.bracket.lower >= delta:
            return Verdict.FEASIBLE, Proof.RIGOROUS, str(claim.stop)
        if self.bracket.upper <= delta:
            return Verdict.INFEASIBLE, Proof.RIGOROUS, str(claim.stop)
        if self.bracket.closed:
            return Verdict.UNDECIDED, None, str(claim.stop)
        return super().judge(delta, inquiry, claim)

    # --- One program whose optimal value is the threshold

    def _solve_program(self) -> Claim:
        """Prove bounds along the program; in many dimensions on growing subspaces first."""
        claim, before, program = Claim(), 0, self._program
        if self._subspaces is not None:
            claim = self._solve_on_subspaces(self._subspaces)
            if self.bracket.closed or self.deadline.expired or not self._whole:
                return claim
            before, program = claim.iterations or 0, self.family.conic_program()
        if program is not None:
            claim = self._maximise(program)
        return claim if claim.iterations is None else replace(claim, iterations=before + claim.iterations)

    def _maximise(self, program: ConicProgram) -> Claim:
        """Maximise a program; repeat with more rows as long as pricing finds violated ones."""
        family = self.family
        listener = BoundListener(self.bracket, None, family.program_point, family.program_multipliers)
        for _ in range(MAX_SOLVES):
            inquiry = Inquiry(program.problem, deadline=self.deadline, wanted="margin", listener=listener)
            try:
                with limited(inquiry.limit):
                    claim = dispatch_program(self.backend, program, inquiry)
            except LimitError as error:
                claim = Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))
            listener.finish(claim)
            done = self.bracket.closed or self.deadline.expired or claim.stop is Stop.TIME_LIMIT
            if done or program.pricing is None or claim.point is None or claim.certificate is None:
                break
            more = program.pricing.extended(claim.point, claim.certificate, 0.0)
            if more is None:
                break
            program = more.program
        return claim

    # --- Growing subspaces, for many dimensions

    def _solve_on_subspaces(self, subspaces: SubspaceRestriction) -> Claim:
        """Prove bounds from the program on growing subspaces (:mod:`sdpfeas.families.subspace_restriction`).

        Returns the last point and multipliers that were offered, and the iterations of all rounds.
        """
        bracket, iterations = self.bracket, 0
        claim = Claim(stop=Stop.STALLED)
        with suppress(np.linalg.LinAlgError):
            basis, known_gap = subspaces.initial_basis(), 1.0
            least_gap, stalled, proof_gap = np.inf, 0, PROOF_GAP_SHARE * bracket.tol
            for _ in range(MAX_ROUNDS):
                target_gap = max(ROUND_GAP_SHARE * known_gap, FINEST_TOLERANCE_SHARE * bracket.tol)
                inner = self._solve_to_gap(subspaces.program(basis), target_gap)
                iterations += inner.iterations or 0
                if inner.point is None or inner.certificate is None:
                    break
                matrix = subspaces.matrix(inner.point)
                attained, upper, directions = subspaces.expansion(inner.certificate, basis, matrix)
                gap = relative_gap(attained, upper)
                if gap <= proof_gap:
                    proof_gap = NEXT_PROOF_RATIO * gap
                    y = subspaces.multipliers(inner.certificate)
                    claim = replace(claim, point=subspaces.point(basis, matrix), certificate=y)
                    with suppress(ClaimError):
                        bracket.offer_point(claim.point)
                        bracket.offer_multipliers(claim.certificate)
                    if bracket.closed:
                        return replace(claim, stop=Stop.CALLBACK, iterations=iterations)
                stalled = stalled + 1 if not gap < least_gap else 0
                known_gap, least_gap = gap, min(gap, least_gap)
                if stalled == STALL_ROUNDS or not np.isfinite(gap) or self.deadline.expired:
                    break
                basis = subspaces.expanded(basis, matrix, directions)
        return replace(claim, iterations=iterations)

    def _solve_to_gap(self, program: ConicProgram, target_gap: float) -> Claim:
        """Maximise the program of one subspace to a gap."""

        def close_enough(progress: Progress) -> bool:
            return progress.gap is not None and progress.gap <= target_gap

        inquiry = Inquiry(program.problem, deadline=self.deadline, wanted="margin", listener=close_enough)
        try:
            with limited(inquiry.limit):
                return self.backend.maximise(program, inquiry)
        except LimitError as error:
            return Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))


def _reports_gap(backend: FeasibilityBackend) -> bool:
    """Whether a solve can be stopped at a given gap, as rounds on subspaces need."""
    return backend.calls_back and backend.maximises and not isinstance(backend, Auto)
