"""The bracket loop: candidates in, proven lower and upper ends out.

A family is feasible for every ``delta`` up to its threshold ``delta*``. :class:`Bracket` owns both ends of a
bracket of ``delta*``; they move only to what is proved. :meth:`Search.close` is the loop: choose a value of
``delta`` (or a program whose optimal value is ``delta*``), solve, offer the candidates to the bracket, stop.
The subclasses of :class:`Search` supply candidates: :func:`~sdpfeas.drivers.bisection.bisect` for families,
and the bisection over a parameter of a cvxpy model. :class:`BoundListener` offers the iterates of a running
backend.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.dispatch import dispatch
from sdpfeas.backends.inquiry import Inquiry, Listener, Progress, WarmStart
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.claims import Claim, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.isolation import make_available
from sdpfeas.errors import ClaimError, LimitError, OptionError, ProblemError
from sdpfeas.families.parametric_family import MonotoneFamily, ParametricFamily
from sdpfeas.notebook import Card, bracket_history
from sdpfeas.numerics.limits import limited
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.bounded_variables import describe_bound
from sdpfeas.verifier.outcome import Proof

#: Stop reason of a search that reached its tolerance, and end of the reason of one that did not.
CLOSED, WIDE = "the bracket is within the tolerance", "the bracket is wider than the tolerance"

#: A solve of the program whose optimal value is the threshold, instead of one at a value of ``delta``.
PROGRAM: Literal["program"] = "program"
Question = float | Literal["program"]

#: Where in the bracket to solve, as shares of its width: the next one after each solve without progress.
BRACKET_SHARES = (0.5, 0.8, 0.2, 0.95, 0.05)

#: Where to solve first if the upper bound comes from the initial multipliers of the family. They are closer
#: to the threshold than the initial points, by a factor of 1.5 to 11 on the data sets of the WLDA paper.
FIRST_BRACKET_SHARE = 0.7

#: Most solves of one search.
MAX_SOLVES = 200

#: Every candidate of a solve is offered for a bound until this many, then ever fewer. The schedule counts
#: candidates instead of seconds, so the bracket is the same on every machine.
DENSE_CANDIDATES = 20

#: Share of the tolerance that an upper bound may lose to a cheaper proof.
PROOF_TOLERANCE_SHARE = 0.05

#: If the backend reports a gap, the next proof is attempted when the gap has shrunk by this ratio, or by more
#: if the bracket is still far from closed.
NEXT_PROOF_GAP_RATIO = 0.25

#: A solve at one ``delta`` determines the threshold to about the square of its distance from ``delta``. A gap
#: below this share of the square gains nothing more ...
SQUARED_DISTANCE_SHARE = 0.25
#: ... unless the distance is within the tolerance; then this share of the tolerance is the goal.
CLOSING_TOLERANCE_SHARE = 0.7

#: A solve whose gap shrinks fast continues after its ``delta`` is decided, as long as every proof shrinks the
#: bracket by this ratio: an iteration costs far less than a solve at the next ``delta``.
WORTHWHILE_SHRINK_RATIO = 0.5

#: Factor from the relative gap of a margin to that of the threshold: a ratio of two terms changes by four
#: times the share of their sum that two rows have as slack.
GAP_PER_MARGIN = 4.0

#: Previews (extrapolated candidates) are requested if their gap should be within this many tolerances; after
#: each that closes nothing the limit is multiplied by the back-off. They are proved if the estimated bounds
#: are within this share of the tolerance. The point is moved into the interior by a share of the tolerance,
#: because proofs are cheapest there.
PREVIEW_GAP_TOLERANCES, PREVIEW_BACKOFF = 10.0, 0.1
PREVIEW_CLOSING_SHARE, INTERIOR_SHIFT_SHARE = 0.9, 1e-3

#: Points and multipliers kept for refinement.
REFINEMENT_CANDIDATES = 12


def relative_gap(lower: float, upper: float) -> float:
    """Return the width of a bracket relative to its upper end; zero if both ends are equal."""
    if lower == upper:
        return 0.0
    if not (math.isfinite(lower) and math.isfinite(upper)) or upper == 0.0:
        return math.inf
    return (upper - lower) / abs(upper)


@dataclass(frozen=True)
class Step:
    """One solve of a search.

    ``verdict`` is what the solve proved, or in paper mode what the backend claimed. ``proof`` is None for a
    verdict that was not granted. ``lower`` and ``upper`` are the bracket after the solve.
    """

    delta: float
    verdict: Verdict
    proof: Proof | None
    lower: float
    upper: float
    iterations: int | None
    time: float
    reason: str = ""


@dataclass(frozen=True)
class BisectionResult:
    """A bracket around the threshold of a family, with its evidence.

    Attributes
    ----------
    lower, upper : float
        The bracket.
    point : tuple of ndarray or None
        A feasible point at ``lower``.
    certificate : ndarray or None
        A Farkas certificate at ``upper``.
    history : tuple of Step
        One entry per solve.
    proven : bool
        Whether both ends are proved.
    converged : bool
        Whether the bracket is within the tolerance.
    reason : str
        Why the search ended.
    initial : tuple of float
        The bracket before the first solve.
    time : float
        Seconds.
    bound : optional
        The bound of the variables within which ``upper`` is infeasible, as the user gave it; see
        :meth:`FeasibilityProblem.bounded`.
    """

    lower: float
    upper: float
    point: Point | None
    certificate: FloatArray | None
    history: tuple[Step, ...]
    proven: bool
    converged: bool
    reason: str
    initial: tuple[float, float] = (-math.inf, math.inf)
    time: float = 0.0
    bound: Any = None

    @property
    def solves(self) -> int:
        """Number of solves."""
        return len(self.history)

    @property
    def gap(self) -> float:
        """Width of the bracket relative to its upper end; zero if both ends are equal."""
        return relative_gap(self.lower, self.upper)

    def __repr__(self) -> str:
        """Show the bracket, the number of solves and the stop reason in one line."""
        ends = f"{self.lower:.8g} <= delta* <= {self.upper:.8g}"
        facts = f"{self.proved_ends}, {self.solves} solve(s), {self.time:.3g} s"
        return f"BisectionResult: {ends} ({facts}): {self.reason}"

    @property
    def proved_ends(self) -> str:
        """Whether both ends are proved, and within which bound, in words."""
        within = "" if self.bound is None else f" within {describe_bound(self.bound)}"
        return ("proven" if self.proven else "not proven") + within

    def _title(self) -> str:
        """Return the title of the notebook card."""
        return f"{self.lower:.8g} ≤ δ* ≤ {self.upper:.8g}"

    def _repr_html_(self) -> str:
        """Show how the bracket closed, as a card in a notebook."""
        steps = [self.initial, *((step.lower, step.upper) for step in self.history)]
        facts = [
            ("gap", f"{self.gap:.2g}, relative to the upper end"),
            ("solves", str(self.solves)),
            ("time", f"{self.time:.3g} s"),
        ]
        tone = "feasible" if self.proven else "undecided"
        return Card(
            self.proved_ends.upper(),
            tone,
            self._title(),
            facts,
            picture=bracket_history(steps),
            note=self.reason,
        ).html()


@dataclass
class Bracket:
    """The best proven bounds so far; an offer can only tighten it."""

    family: MonotoneFamily
    tol: float
    absolute_tol: float
    lower: float = -math.inf
    upper: float = math.inf
    point: Point | None = None
    certificate: FloatArray | None = None
    lower_proven: bool = True
    upper_proven: bool = True
    #: Whether an offer proved a bound since the last refinement.
    has_new_evidence: bool = False
    _points: deque[Point] = field(default_factory=lambda: deque(maxlen=REFINEMENT_CANDIDATES))
    _multipliers: deque[FloatArray] = field(default_factory=lambda: deque(maxlen=REFINEMENT_CANDIDATES))

    @property
    def closed(self) -> bool:
        """Whether the bracket is within the tolerance."""
        return self.gap <= self.tol or self.upper - self.lower <= self.absolute_tol

    @property
    def gap(self) -> float:
        """Width relative to the upper end."""
        return relative_gap(self.lower, self.upper)

    def decides(self, delta: float | None) -> bool:
        """Whether ``delta`` is proved to lie on one side of the threshold."""
        return delta is not None and (self.lower >= delta or self.upper <= delta)

    def raise_lower(self, delta: float, point: Point | None, *, proven: bool = True) -> None:
        """Move the lower end up to ``delta``, where the family is feasible; ignored if it is above."""
        if delta >= self.lower:
            self.lower_proven = proven if delta > self.lower else self.lower_proven
            self.lower, self.point = delta, point

    def reduce_upper(self, delta: float, y: FloatArray | None, *, proven: bool = True) -> None:
        """Move the upper end down to ``delta``, where the family is infeasible; ignored if it is below."""
        if delta <= self.upper:
            self.upper_proven = proven if delta < self.upper else self.upper_proven
            self.upper, self.certificate = delta, y

    def mirror(self) -> None:
        """Negate both ends, if the family turns out to be feasible above an infeasible value."""
        self.lower, self.upper = -self.lower, -self.upper

    def offer_point(self, point: Point | None) -> bool:
        """Prove a lower bound from a point; return whether there is a proof."""
        bound = None if point is None else self.family.prove_lower(point, self.lower)
        if bound is None:
            return False
        self.has_new_evidence = True
        self._points.append(bound.evidence)
        self.raise_lower(bound.delta, bound.evidence)
        return True

    def offer_multipliers(self, y: FloatArray | None) -> bool:
        """Prove an upper bound from dual multipliers; return whether there is a proof."""
        if y is None or not np.any(y):
            return False
        near = self.lower if math.isfinite(self.lower) else None
        bound = self.family.prove_upper(y, near, PROOF_TOLERANCE_SHARE * self.tol, self.upper)
        if bound is None:
            return False
        self.has_new_evidence = True
        self._multipliers.append(bound.evidence)
        self.reduce_upper(bound.delta, bound.evidence)
        return True

    def estimate(self, point: Point | None, y: FloatArray | None) -> tuple[Point | None, tuple[float, float]]:
        """Estimate the bracket that a point and multipliers would prove.

        Returns the point, moved into the interior of bounded sets, and both ends.
        """
        family, unchanged = self.family, (point, (self.lower, self.upper))
        assert isinstance(family, ParametricFamily)
        if point is None or y is None or not np.any(y):
            return unchanged
        if not (np.isfinite(y).all() and all(np.isfinite(x).all() for x in point)):
            return unchanged
        with np.errstate(all="ignore"):
            try:
                inner = tuple(
                    x + INTERIOR_SHIFT_SHARE * self.tol * (block.interior_point() - x) if block.bounded else x
                    for block, x in zip(family.sets, family.checked_projection(point), strict=True)
                )
                lower = max(family.estimate_delta(inner), self.lower)
                root = family.root(family.normalise_multipliers(y), lower, PROOF_TOLERANCE_SHARE * self.tol)
            except (np.linalg.LinAlgError, ClaimError):
                return unchanged
        return inner, (lower, min(root.delta, self.upper))

    def recovered_points(self, y: FloatArray | None) -> list[Point]:
        """Return the points that the family recovers from dual multipliers."""
        if y is None or not np.isfinite(y).all() or not np.any(y):
            return []
        return self.family.recovered_points(y, self.upper if math.isfinite(self.upper) else None)

    def offer_recovered_points(self, y: FloatArray | None) -> None:
        """Prove lower bounds from the points that the family recovers from dual multipliers."""
        for point in self.recovered_points(y):
            self.offer_point(point)

    def refine(self) -> None:
        """Let the family combine the evidence so far into better bounds, if any of it is new."""
        if self.closed or not self.has_new_evidence or not self._multipliers:
            return
        points, multipliers = list(self._points), list(self._multipliers)
        if self.point is not None:
            points.append(self.point)
        if self.certificate is not None:
            multipliers.append(self.certificate)
        self.has_new_evidence = False
        with suppress(LimitError):
            points, multipliers = self.family.refine(points, multipliers, self.tol)
            for point in points:
                self.offer_point(point)
            for y in multipliers:
                self.offer_multipliers(y)


class BoundListener(Listener):
    """Turns the iterates of a backend into bounds, and stops it once nothing more can be learnt.

    The family is asked at ``delta``, or, if that is None, along a program whose optimal value is the
    threshold. ``map_point`` and ``map_multipliers`` map candidates of the solve to those of the family.
    """

    def __init__(
        self,
        bracket: Bracket,
        delta: float | None,
        map_point: Callable[[Point], Point] | None = None,
        map_multipliers: Callable[[FloatArray], FloatArray] | None = None,
    ) -> None:
        super().__init__()
        self._family = cast("ParametricFamily", bracket.family)
        self._bracket = bracket
        self._delta = delta
        self._map_point = map_point
        self._map_multipliers = map_multipliers
        self._calls = self._next_call = 0
        #: Whether the backend reported a gap with the last candidates offered.
        self.gap_reported = False
        self._next_gap = self._latest_gap = math.inf
        self._worthwhile = False
        self._program_gap = bracket.tol if bracket.tol > 0.0 else math.inf
        # At one value of delta a preview decides nothing, and with equality rows it proves too little.
        previews = delta is None and not self._family.equality.any()
        self._preview_gap = PREVIEW_GAP_TOLERANCES * bracket.tol if previews else 0.0

    @property
    def decided(self) -> bool:
        """Whether the solve can be stopped: the bracket is closed, or ``delta`` is decided."""
        return self._bracket.closed or self._bracket.decides(self._delta)

    def __call__(self, progress: Progress) -> bool:
        """Offer the candidates if they are due; True stops the backend."""
        # Multipliers are mapped at once, because the rows they refer to may change; points only if used.
        progress = replace(progress, certificate=self._mapped_multipliers(progress.certificate))
        if progress.gap is not None and self._delta is not None:
            progress = replace(progress, gap=GAP_PER_MARGIN * progress.gap)
        if self._is_due(progress):
            # With a gap, point and multipliers are about equally accurate.
            self.gap_reported = progress.gap is not None
            before = self._bracket.gap
            point = self._mapped_point(progress.point)
            self._offer(point, progress.certificate, recover=not self.gap_reported, both=self.gap_reported)
            self._worthwhile = self._bracket.gap <= WORTHWHILE_SHRINK_RATIO * before
            self._schedule_next(progress)
        self._calls += 1
        fast = progress.gap is not None and progress.gap <= NEXT_PROOF_GAP_RATIO * self._latest_gap
        self._latest_gap = math.inf if progress.gap is None else progress.gap
        return self.decided and not (fast and self._worthwhile and not self._bracket.closed)

    def offered(self, point: Point | None, multipliers: FloatArray | None, gap: float | None) -> bool:
        """Prove bounds from candidates that the backend selected."""
        self._offer(self._mapped_point(point), self._mapped_multipliers(multipliers), recover=False)
        return self.decided

    def wants_preview(self, gap: float) -> bool:
        """Whether a preview of about this gap may close the bracket."""
        return gap <= self._preview_gap

    def previewed(self, point: Point | None, multipliers: FloatArray | None) -> bool:
        """Prove bounds from a preview if its estimated bounds close the bracket."""
        self._preview_gap *= PREVIEW_BACKOFF
        bracket, y = self._bracket, self._mapped_multipliers(multipliers)
        inner, ends = bracket.estimate(self._mapped_point(point), y)
        if relative_gap(*ends) <= PREVIEW_CLOSING_SHARE * bracket.tol:
            self._offer(inner, y, recover=False)
        return self.decided

    def finish(self, claim: Claim) -> None:
        """Offer the claim of the solve."""
        if not self.decided:
            y = self._mapped_multipliers(claim.certificate)
            self._offer(self._mapped_point(claim.point), y, recover=True)

    def _is_due(self, progress: Progress) -> bool:
        """Whether a proof from these candidates is worth its cost."""
        if progress.gap is None:
            return self._calls >= self._next_call
        if self._delta is None or progress.point is None:
            return progress.gap <= self._program_gap
        if progress.gap > self._next_gap:
            return False
        try:
            estimate = self._family.estimate_delta(progress.point)
        except (ValueError, IndexError, TypeError):
            return True  # of the wrong shape; the offer reports it
        distance = abs(estimate - self._delta) / abs(self._delta or 1.0)
        worthwhile = SQUARED_DISTANCE_SHARE * distance * distance
        return progress.gap <= max(CLOSING_TOLERANCE_SHARE * self._bracket.tol, worthwhile)

    def _schedule_next(self, progress: Progress) -> None:
        """Set the call or the gap at which the next proof is due."""
        self._next_call = self._calls + 1 + self._calls // DENSE_CANDIDATES
        if progress.gap is not None:
            self._next_gap = NEXT_PROOF_GAP_RATIO * progress.gap
            width = self._bracket.gap
            missing = 2.0 * self._bracket.tol / width if width else 0.0
            self._program_gap = progress.gap * min(NEXT_PROOF_GAP_RATIO, missing)

    def _mapped_point(self, point: Point | None) -> Point | None:
        """Map a point of the solve to one of the family."""
        with suppress(ClaimError):
            return point if point is None or self._map_point is None else self._map_point(point)
        return point

    def _mapped_multipliers(self, y: FloatArray | None) -> FloatArray | None:
        """Map multipliers of the solve to those of the family."""
        with suppress(ClaimError):
            return y if y is None or self._map_multipliers is None else self._map_multipliers(y)
        return y

    def _offer(self, point: Point | None, y: FloatArray | None, recover: bool, both: bool = False) -> None:
        """Offer a point, then multipliers unless the point decided; with ``both``, unless it closed."""
        # Malformed candidates prove nothing. If one proof is too expensive, the other may not be.
        with suppress(ClaimError, LimitError):
            if point is not None:
                self._bracket.offer_point(point)
        with suppress(ClaimError, LimitError):
            if y is not None and not (self._bracket.closed if both else self.decided):
                self._bracket.offer_multipliers(y)
                if recover and not self.decided:
                    self._bracket.offer_recovered_points(y)


class Search:
    """A search for the threshold of a family: its state, and the loop that closes the bracket.

    This class decides the problem at each chosen value of ``delta``, which needs no more of a family than
    its problems. Subclasses override :meth:`choose`, :meth:`solve_at` and :meth:`judge`.
    """

    #: Values of ``delta`` without progress, one after the other, that end the search.
    max_stalled = len(BRACKET_SHARES)
    #: Whether only a rigorous or exact proof ends a solve.
    rigorous = True

    def __init__(
        self,
        family: MonotoneFamily,
        solver: str | Path | type[FeasibilityBackend] | Solver,
        tol: float,
        absolute_tol: float,
        time_limit: float | None,
        callback: Callable[[Step], Any] | None,
        options: dict[str, Any],
    ) -> None:
        if not isinstance(family, MonotoneFamily):
            raise ProblemError(
                f"a search needs a ParametricFamily or another MonotoneFamily, got {type(family).__name__}"
            )
        require_tolerances(tol, absolute_tol)
        self.family = family
        self.solver = find_solver(solver)
        self.options = options
        self.backend = make_available(self.solver, options)
        self.deadline = Deadline(time_limit)
        self.callback = callback
        self.bracket = Bracket(family, tol, absolute_tol, *family.bracket)
        self.history: list[Step] = []
        self.warm_start: WarmStart | None = None
        self.initial = family.bracket
        self._given = False, False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Enforce the time limit, and use one thread for small matrices."""
        sides = [block.side for block in self.family.sets if block.side]
        with limited(self.deadline), few_threads(sides, self.family.m):
            yield

    def start_from(self, lower: float | None, upper: float | None) -> None:
        """Start from given ends, which are taken without proof."""
        bracket = self.bracket
        for name, value in (("lower", lower), ("upper", upper)):
            if value is not None and not _is_number(value):
                raise OptionError(f"{name} must be a number, got {value!r}")
        if lower is not None:
            bracket.raise_lower(float(lower), bracket.point, proven=False)
        if upper is not None:
            bracket.reduce_upper(float(upper), bracket.certificate, proven=False)
        if bracket.lower > bracket.upper:
            raise OptionError(f"lower = {bracket.lower} exceeds upper = {bracket.upper}")
        self._given = lower is not None, upper is not None
        self.initial = (bracket.lower, bracket.upper)

    def run(self) -> BisectionResult:
        """Close the bracket within the time limit."""
        with self.running():
            try:
                return self.result(self.close())
            except LimitError as error:
                return self.result(self.time_limit_reason(error))

    def close(self) -> str:
        """Choose where to solve, solve, and move the bracket to what is proved; return the stop reason."""
        bracket, stalled = self.bracket, 0
        self.offer_initial_candidates()
        while True:
            if bracket.lower > bracket.upper:
                return "the given bounds contradict what was proved"
            if bracket.closed:
                return CLOSED
            if self.deadline.expired:
                return "time limit"
            if len(self.history) >= MAX_SOLVES:
                return f"gave up after {MAX_SOLVES} solves"
            if stalled == self.max_stalled:
                return self.stall_reason()
            question = self.choose(stalled)
            if question is None:
                return self.exhausted_reason()
            before = bracket.lower, bracket.upper
            step = self.ask(question)
            self.history.append(step)
            stalled = 0 if question == PROGRAM or _made_progress(before, step) else stalled + 1
            if self.callback is not None and self.callback(step):
                return "stopped by the callback"

    def choose(self, stalled: int) -> Question | None:
        """Return a value inside the bracket, or beyond its finite end; None if no double fits in."""
        low, high = self.bracket.lower, self.bracket.upper
        if math.isinf(low) or math.isinf(high):
            unit = self.family.unit
            reach = 4.0 ** (len(self.history) + stalled)
            if math.isinf(low) and math.isinf(high):
                return 0.0 if not self.history else -unit * reach
            if math.isinf(high):
                return low + max(abs(low), unit * reach)
            return high - max(abs(high), unit * reach)
        initial = not self.history and self.bracket.certificate is not None
        delta = low + (FIRST_BRACKET_SHARE if initial else BRACKET_SHARES[stalled]) * (high - low)
        return delta if low < delta < high else None

    def ask(self, question: Question) -> Step:
        """Solve at ``delta``; candidates and verdict move the bracket."""
        assert question != PROGRAM
        delta, begin = question, time.perf_counter()
        inquiry, claim = self.solve_at(delta, self.family.at(delta))
        verdict, proof, reason = self.judge(delta, inquiry, claim)
        if isinstance(self.family, ParametricFamily):  # whose problems all have one shape
            self.warm_start = WarmStart(claim.point, claim.certificate)
        return self.step(delta, verdict, proof, claim, reason, begin)

    def step(
        self, delta: float, verdict: Verdict, proof: Proof | None, claim: Claim, reason: str, begin: float
    ) -> Step:
        """Return the step of a solve that began at ``begin``, with the bracket after it."""
        low, high = self.bracket.lower, self.bracket.upper
        return Step(delta, verdict, proof, low, high, claim.iterations, time.perf_counter() - begin, reason)

    def solve_at(self, delta: float, problem: FeasibilityProblem) -> tuple[Inquiry, Claim]:
        """Solve the problem at ``delta`` and offer what is found; return the claim with its inquiry."""
        inquiry = Inquiry(problem, deadline=self.deadline, start=self.warm_start, rigorous=self.rigorous)
        return inquiry, without_malformed(dispatch(self.backend, problem, inquiry), problem)

    def judge(self, delta: float, inquiry: Inquiry, claim: Claim) -> tuple[Verdict, Proof | None, str]:
        """Return verdict, proof and reason at ``delta``, and move an end to ``delta`` if that is proved."""
        check = inquiry.final_check(claim)
        reason = f"{claim.stop}; {check.reason}"
        if claim.point is None and claim.certificate is None and check.verdict is Verdict.UNDECIDED:
            reason = f"{claim.stop}: {claim.raw_status}"
        # If bounds were rounded at delta, the proof is about a value next to delta.
        if check.proof in (Proof.RIGOROUS, Proof.EXACT) and self.family.exact_at(delta):
            if check.verdict is Verdict.FEASIBLE:
                self.bracket.raise_lower(delta, check.point)
            elif check.verdict is Verdict.INFEASIBLE:
                self.bracket.reduce_upper(delta, check.certificate)
        return check.verdict, check.proof, reason

    def stall_reason(self) -> str:
        """Return the stop reason after :attr:`max_stalled` solves without progress."""
        last = self.history[-self.max_stalled :]
        values = ", ".join(f"{step.delta:.6g}" for step in last)
        return f"backend {self.backend.name!r} stays undecided at delta = {values} ({last[-1].reason})"

    def exhausted_reason(self) -> str:
        """Return the stop reason if there is nothing left to solve."""
        return "no further value of delta fits into the bracket"

    def offer_initial_candidates(self) -> None:
        """Prove bounds from the initial candidates of the family, for the ends that were not given."""
        bracket, points = self.bracket, list[Point]()
        below, above = (not given for given in self._given)
        with suppress(LimitError):
            if below:
                points = self.family.initial_points()
            for y in self.family.initial_multipliers() if above else []:
                before = bracket.upper
                bracket.offer_multipliers(y)
                # Multipliers that do not improve the upper bound recover no better points either.
                if below and bracket.upper < before:
                    points += bracket.recovered_points(y)
        with suppress(LimitError):
            # Best first, so that the others need no proof.
            for point in sorted(points, key=self.family.estimate_delta, reverse=True):
                bracket.offer_point(point)
        if not self.history:
            self.initial = (bracket.lower, bracket.upper)

    def time_limit_reason(self, error: LimitError) -> str:
        """Return the stop reason for work that was not started for lack of time."""
        return "time limit" if self.deadline.expired else f"time limit: {error}"

    def result(self, reason: str) -> BisectionResult:
        """Return the bracket so far as a result."""
        bracket = self.bracket
        if self.family.caveat and not bracket.closed:
            reason += f"; {self.family.caveat}"
        given = [name for name in ("lower", "upper") if not getattr(bracket, f"{name}_proven")]
        if given:
            reason += f"; the {' and the '.join(given)} end is as given, not proved"
        return BisectionResult(
            bracket.lower,
            bracket.upper,
            bracket.point,
            bracket.certificate,
            tuple(self.history),
            proven=not given and bracket.lower <= bracket.upper,
            converged=bracket.closed,
            reason=reason,
            initial=self.initial,
            time=self.deadline.elapsed,
        )


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


def without_malformed(claim: Claim, problem: FeasibilityProblem) -> Claim:
    """Drop a point or multipliers of the wrong shape, or with entries that are not finite."""
    point, y = claim.point, claim.certificate
    try:
        point = None if point is None else problem.point(point)
        if point is not None and not all(np.isfinite(x).all() for x in point):
            point = None
    except ValueError:
        point = None
    try:
        y = None if y is None else problem.multipliers(y)
        if y is not None and not np.isfinite(y).all():
            y = None
    except ValueError:
        y = None
    return replace(claim, point=point, certificate=y)


def require_tolerances(tol: float, absolute_tol: float) -> None:
    """Raise an error unless both tolerances of a bracket are in [0, 1) and one is positive."""
    for name, value in (("tol", tol), ("absolute_tol", absolute_tol)):
        if not _is_number(value) or not 0.0 <= value < 1.0:
            raise OptionError(f"{name} must be a number of at least 0 and below 1, got {value!r}")
    if not (tol > 0.0 or absolute_tol > 0.0):
        raise OptionError("tol and absolute_tol must not both be zero")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
