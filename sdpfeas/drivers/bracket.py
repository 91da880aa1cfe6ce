"""A proven bracket, and the listener that tightens it while a backend runs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.inquiry import Listener, Progress, WarmStart
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.claims import Claim, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.errors import BackendError, ClaimError, LimitError, OptionError, ProblemError
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.families.subspace_restriction import SubspaceRestriction
from sdpfeas.notebook import Card, closing
from sdpfeas.numerics.cost_estimate import limited
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.problem import Point
from sdpfeas.verifier.outcome import Proof

#: Bounds are taken from the first so many candidates of a solve, then ever more rarely. A schedule by count,
#: not by the clock, gives the same bracket on every machine.
EAGER = 20

#: How many candidates that were passed over are looked at when a solve has ended; the last may be spoilt.
LOOK_BACK = 4

#: Share of the tolerance that a bound may give away for a cheaper proof.
GIVEN_AWAY = 0.05

#: Where a backend tells its own gap: look again when it has shrunk to this share, or less if the bracket is
#: still far from closed.
NEXT_LOOK = 0.25

#: A solve at one value of the parameter tells about the threshold up to about the square of its distance
#: from there, so nothing is gained by going on when its own gap is below this share of that square, ...
WORTHWHILE = 0.25
#: ... unless the distance is within the tolerance; then a gap of this share of the tolerance should do.
CLOSING = 0.7

#: A solve whose gap falls that fast goes on after its value is decided, while looking at it shrinks the
#: bracket to this share: one more iteration is far cheaper than a solve at the next value.
PAYS = 0.5

#: What the gap of a margin means to the last value of the parameter that is feasible: a ratio of two terms
#: changes by four times what each of two rows can spare of their sum.
GAP_PER_MARGIN = 4.0

#: A glance ahead is worth while where its gap should be within this many tolerances, and after one in vain
#: where it should be this share of that; it leads to a proof if its bounds lie this close. Its point is moved
#: inwards by a share of the tolerance, since proofs are cheapest inside.
AHEAD, AGAIN, SURE, INWARDS = 10.0, 0.1, 0.9, 1e-3

#: How many points and multipliers are kept for refinement.
POOL = 12


def relative_gap(lower: float, upper: float) -> float:
    """Width of a bracket relative to its upper end; zero where both ends agree."""
    if lower == upper:
        return 0.0
    if not (math.isfinite(lower) and math.isfinite(upper)) or upper == 0.0:
        return math.inf
    return (upper - lower) / abs(upper)


@dataclass
class Bracket:
    """The best proven bounds so far; whatever is offered can only tighten it."""

    family: ParametricFamily
    tol: float
    floor: float
    lower: float = -math.inf
    upper: float = math.inf
    point: Point | None = None
    certificate: FloatArray | None = None
    lower_proven: bool = True
    upper_proven: bool = True
    #: Whether anything was proved by what was offered since the last refinement.
    fresh: bool = False
    _points: deque[Point] = field(default_factory=lambda: deque(maxlen=POOL))
    _multipliers: deque[FloatArray] = field(default_factory=lambda: deque(maxlen=POOL))

    @property
    def closed(self) -> bool:
        """Whether the bracket is within the tolerance."""
        return relative_gap(self.lower, self.upper) <= self.tol or self.upper - self.lower <= self.floor

    def decides(self, delta: float | None) -> bool:
        """Whether a value of the parameter is known to lie on one side of the threshold."""
        return delta is not None and (self.lower >= delta or self.upper <= delta)

    def offer_point(self, point: Point | None) -> None:
        """Take a lower bound from a point."""
        if point is None:
            return
        bound = self.family.prove_lower(point, self.lower)
        if bound is None:
            return
        self.fresh = True
        self._points.append(bound.evidence)
        if bound.delta >= self.lower:
            if bound.delta > self.lower:
                self.lower_proven = True
            self.lower, self.point = bound.delta, bound.evidence

    def offer_multipliers(self, y: FloatArray | None) -> None:
        """Take an upper bound from multipliers, and a lower bound from the points they suggest."""
        if y is None or not np.any(y):
            return
        near = self.lower if math.isfinite(self.lower) else None
        bound = self.family.prove_upper(y, near, GIVEN_AWAY * self.tol, self.upper)
        if bound is None:
            return
        self.fresh = True
        self._multipliers.append(bound.evidence)
        if bound.delta <= self.upper:
            if bound.delta < self.upper:
                self.upper_proven = True
            self.upper, self.certificate = bound.delta, bound.evidence

    def foreseen(self, point: Point | None, y: FloatArray | None) -> tuple[Point | None, tuple[float, float]]:
        """About what a point, moved inside, and multipliers would make of the bracket, without a proof."""
        family, nothing = self.family, (point, (self.lower, self.upper))
        if point is None or y is None or not np.any(y):
            return nothing
        if not (np.isfinite(y).all() and all(np.isfinite(x).all() for x in point)):
            return nothing
        with np.errstate(all="ignore"):
            try:
                inner = tuple(
                    x + INWARDS * self.tol * (block.interior_point() - x) if block.bounded else x
                    for block, x in zip(family.sets, family.checked_projection(point), strict=True)
                )
                lower = max(family.estimate_delta(inner), self.lower)
                root = family.root(family.normalise_multipliers(y), lower, GIVEN_AWAY * self.tol)
            except (np.linalg.LinAlgError, ClaimError):
                return nothing
        return inner, (lower, min(root.delta, self.upper))

    def suggested(self, y: FloatArray | None) -> list[Point]:
        """Return the points that multipliers suggest."""
        if y is None or not np.isfinite(y).all() or not np.any(y):
            return []
        return self.family.recovered_points(y, self.upper if math.isfinite(self.upper) else None)

    def recover(self, y: FloatArray | None) -> None:
        """Take lower bounds from the points that multipliers suggest."""
        for point in self.suggested(y):
            self.offer_point(point)

    def refine(self) -> None:
        """Let the family improve on what was offered, if anything of it was worth something."""
        if self.closed or not self.fresh or not self._multipliers:
            return
        points, multipliers = list(self._points), list(self._multipliers)
        if self.point is not None:
            points.append(self.point)
        if self.certificate is not None:
            multipliers.append(self.certificate)
        self.fresh = False
        with suppress(LimitError):
            points, multipliers = self.family.refine(points, multipliers, self.tol)
            for point in points:
                self.offer_point(point)
            for y in multipliers:
                self.offer_multipliers(y)


class Watch(Listener):
    """The listener of a solve: turns candidates into bounds, and stops the solve once it is decided.

    ``bracket``: what the candidates are offered to. ``delta``: where the family is asked; None if it is not
    a question of one value. ``point, multipliers``: map the candidates of the solve to those of the family.
    """

    def __init__(
        self,
        bracket: Bracket,
        delta: float | None,
        point: Callable[[Point], Point] | None = None,
        multipliers: Callable[[FloatArray], FloatArray] | None = None,
    ) -> None:
        super().__init__()
        self._bracket = bracket
        self._delta = delta
        self._point = point
        self._multipliers = multipliers
        self._calls = self._next = 0
        #: Whether the backend tells how far it believes to be from the optimum.
        self.told = False
        self._least = self._latest = math.inf
        self._pays = False
        self._wanted = bracket.tol if bracket.tol > 0.0 else math.inf
        # At one value of the parameter there is nothing to see ahead; where rows are equations, too much.
        self._ahead = 0.0 if delta is not None or bracket.family.equality.any() else AHEAD * bracket.tol
        self._skipped: deque[Progress] = deque(maxlen=LOOK_BACK)

    @property
    def decided(self) -> bool:
        """Whether the solve has nothing left to tell."""
        return self._bracket.closed or self._bracket.decides(self._delta)

    def __call__(self, progress: Progress) -> bool:
        """Offer the candidates if it is their turn."""
        # Multipliers at once: the rows they are about may change. A point can wait until it is wanted.
        progress = replace(progress, certificate=self._weights(progress.certificate))
        if progress.gap is not None and self._delta is not None:
            progress = replace(progress, gap=GAP_PER_MARGIN * progress.gap)
        if self._due(progress):
            self._skipped.clear()
            # Where a backend tells its gap, both candidates are about as good.
            self.told = progress.gap is not None
            before = self._width
            point = self._place(progress.point)
            self._offer(point, progress.certificate, recover=not self.told, both=self.told)
            self._pays = self._width <= PAYS * before
            self._plan(progress)
        else:
            self._skipped.append(progress)
        self._calls += 1
        fast = progress.gap is not None and progress.gap <= NEXT_LOOK * self._latest
        self._latest = math.inf if progress.gap is None else progress.gap
        return self.decided and not (fast and self._pays and not self._bracket.closed)

    def offered(self, point: Point | None, multipliers: FloatArray | None, gap: float | None) -> bool:
        """Take bounds from what the backend itself finds promising."""
        self._offer(self._place(point), self._weights(multipliers), recover=False)
        return self.decided

    def awaits(self, gap: float) -> bool:
        """Whether candidates of about this gap may close the bracket."""
        return gap <= self._ahead

    def glanced(self, point: Point | None, multipliers: FloatArray | None) -> bool:
        """Take bounds from where a backend believes to be going, if they would close the bracket."""
        self._ahead *= AGAIN
        bracket, y = self._bracket, self._weights(multipliers)
        inner, ends = bracket.foreseen(self._place(point), y)
        if relative_gap(*ends) <= SURE * bracket.tol:
            self._offer(inner, y, recover=False)
        return self.decided

    def _due(self, progress: Progress) -> bool:
        if progress.gap is None:
            return self._calls >= self._next
        if self._delta is None or progress.point is None:
            return progress.gap <= self._wanted
        if progress.gap > self._least:
            return False
        try:
            estimate = self._bracket.family.estimate_delta(progress.point)
            away = abs(estimate - self._delta) / abs(self._delta or 1.0)
        except (ValueError, IndexError, TypeError):
            return True  # of the wrong shape; whoever it is offered to will say so
        return progress.gap <= max(CLOSING * self._bracket.tol, WORTHWHILE * away * away)

    def _plan(self, progress: Progress) -> None:
        """Say when to look next."""
        self._next = self._calls + 1 + self._calls // EAGER
        if progress.gap is not None:
            self._least = NEXT_LOOK * progress.gap
            width = self._width
            self._wanted = progress.gap * min(NEXT_LOOK, 2.0 * self._bracket.tol / width if width else 0.0)

    @property
    def _width(self) -> float:
        return relative_gap(self._bracket.lower, self._bracket.upper)

    def _place(self, point: Point | None) -> Point | None:
        """A point of the solve as one of the family."""
        with suppress(ClaimError):
            return point if point is None or self._point is None else self._point(point)
        return point

    def _weights(self, y: FloatArray | None) -> FloatArray | None:
        """Multipliers of the solve as those of the family."""
        with suppress(ClaimError):
            return y if y is None or self._multipliers is None else self._multipliers(y)
        return y

    def finish(self, claim: Claim) -> None:
        """Offer what the solve ended with, and what it passed over last."""
        last = claim.point, self._weights(claim.certificate)
        for point, y in (last, *((seen.point, seen.certificate) for seen in reversed(self._skipped))):
            if not self.decided:
                self._offer(self._place(point), y, recover=True)

    def _offer(self, point: Point | None, y: FloatArray | None, recover: bool, both: bool = False) -> None:
        # A candidate of the wrong shape is worth nothing, like any other wrong one.
        # For the proof of another there may still be time.
        with suppress(ClaimError, LimitError):
            if point is not None:
                self._bracket.offer_point(point)
        with suppress(ClaimError, LimitError):
            if y is not None and not (self._bracket.closed if both else self.decided):
                self._bracket.offer_multipliers(y)
                if recover and not self.decided:
                    self._bracket.recover(y)


# ------------------------------------------------------------
# The state of a search for the threshold of a family, and what comes out of it.


@dataclass(frozen=True)
class Step:
    """One solve of a search.

    ``verdict``: what came out; in paper mode, what the backend claimed. ``proof``: how the verdict was
    granted; None if it was not.
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
        A point at ``lower``.
    certificate : ndarray or None
        A certificate at ``upper``.
    history : tuple of Step
        One row a solve.
    proven : bool
        Whether both ends are proved.
    converged : bool
        Whether the bracket is within the tolerance.
    reason : str
        Why the search ended, and what is not proved.
    initial : tuple of float
        The bracket before the first solve.
    time : float
        Seconds.
    cause : str
        Why the search ended, without a note about ends that are not proved.
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
    cause: str = ""

    @property
    def solves(self) -> int:
        """Number of solves."""
        return len(self.history)

    @property
    def gap(self) -> float:
        """Width of the bracket relative to its upper end; zero where both ends agree."""
        return relative_gap(self.lower, self.upper)

    def __repr__(self) -> str:
        """The bracket and how it came about, in one line."""
        proven = "proven" if self.proven else "not proven"
        ends = f"{self.lower:.8g} <= delta* <= {self.upper:.8g}"
        return f"BisectionResult: {ends} ({proven}, {self.solves} solve(s), {self.time:.3g} s): {self.reason}"

    def _ends(self) -> str:
        """What the bracket says, as the title of its card."""
        return f"{self.lower:.8g} ≤ δ* ≤ {self.upper:.8g}"

    def _repr_html_(self) -> str:
        """Show the bracket closing, as a card in a notebook."""
        steps = [self.initial, *((step.lower, step.upper) for step in self.history)]
        facts = [
            ("gap", f"{self.gap:.2g}, relative to the upper end"),
            ("solves", str(self.solves)),
            ("time", f"{self.time:.3g} s"),
        ]
        badge, tone = ("PROVEN", "feasible") if self.proven else ("NOT PROVEN", "undecided")
        return Card(badge, tone, self._ends(), facts, picture=closing(steps), note=self.reason).html()


class Search:
    """State of a search: what is asked of whom, and the bracket so far."""

    def __init__(
        self,
        family: ParametricFamily,
        solver: str | Path | type[FeasibilityBackend] | Solver,
        tol: float,
        absolute_tol: float,
        time_limit: float | None,
        callback: Callable[[Step], Any] | None,
        options: dict[str, Any],
    ) -> None:
        if not isinstance(family, ParametricFamily):
            raise ProblemError(f"a search needs a ParametricFamily, got {type(family).__name__}")
        require_tolerances(tol, absolute_tol)
        self.family = family
        self.solver = find_solver(solver)
        self.options = options
        self.backend = self.solver.make(**options)
        fine, why = self.backend.available()
        if not fine:
            raise BackendError(f"backend {self.backend.name!r} is not available: {why}")
        self.deadline = Deadline(time_limit)
        self.callback = callback
        self.bracket = Bracket(family, tol, absolute_tol, *family.bracket)
        self.history: list[Step] = []
        self.warm: WarmStart | None = None
        self.initial = family.bracket
        self._given = False, False
        self.refines = True
        #: Where questions are asked on subspaces that grow; None if only in all dimensions together.
        self.spaces: SubspaceRestriction | None = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """Hold the time limit, and keep small matrices to one thread, while the search runs."""
        sides = [block.side for block in self.family.sets if block.side]
        with limited(self.deadline), few_threads(sides, self.family.m):
            yield

    def trust(self, lower: float | None, upper: float | None) -> None:
        """Begin with ends that are given, and not proved."""
        bracket = self.bracket
        for name, value in (("lower", lower), ("upper", upper)):
            if value is None:
                continue
            if not _is_number(value):
                raise OptionError(f"{name} must be a number, got {value!r}")
        if lower is not None and lower > bracket.lower:
            bracket.lower, bracket.lower_proven = float(lower), False
        if upper is not None and upper < bracket.upper:
            bracket.upper, bracket.upper_proven = float(upper), False
        if bracket.lower > bracket.upper:
            raise OptionError(f"lower = {bracket.lower} exceeds upper = {bracket.upper}")
        self._given = lower is not None, upper is not None
        self.initial = (bracket.lower, bracket.upper)

    def look_around(self) -> None:
        """Take bounds from what the family suggests, for the ends that are not given."""
        bracket, points = self.bracket, list[Point]()
        below, above = (not given for given in self._given)
        with suppress(LimitError):
            if below:
                points = self.family.initial_points()
            for y in self.family.initial_multipliers() if above else []:
                before = bracket.upper
                bracket.offer_multipliers(y)
                # What rules out less than others do suggests nothing better either.
                if below and bracket.upper < before:
                    points += bracket.suggested(y)
        with suppress(LimitError):
            # The best first: the others then need no proof.
            for point in sorted(points, key=self.family.estimate_delta, reverse=True):
                bracket.offer_point(point)
        if not self.history:
            self.initial = (bracket.lower, bracket.upper)

    def sound(self, claim: Claim, delta: float) -> Claim:
        """Drop what does not even have the right shape, or is not finite."""
        template = self.family.at(delta)
        point, y = claim.point, claim.certificate
        try:
            point = None if point is None else template.point(point)
            if point is not None and not all(np.isfinite(x).all() for x in point):
                point = None
        except ValueError:
            point = None
        try:
            y = None if y is None else template.multipliers(y)
            if y is not None and not np.isfinite(y).all():
                y = None
        except ValueError:
            y = None
        return replace(claim, point=point, certificate=y)

    def late(self, error: LimitError) -> str:
        """Say why nothing more could be begun."""
        return "time limit" if self.deadline.expired else f"time limit: {error}"

    def result(self, reason: str) -> BisectionResult:
        """Return the bracket there is."""
        bracket = self.bracket
        if self.family.caveat and not bracket.closed:
            reason += f"; {self.family.caveat}"
        given = [name for name in ("lower", "upper") if not getattr(bracket, f"{name}_proven")]
        cause = reason
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
            cause=cause,
        )


def require_tolerances(tol: float, absolute_tol: float) -> None:
    """Refuse tolerances of a bracket that make no sense."""
    for name, value in (("tol", tol), ("absolute_tol", absolute_tol)):
        if not _is_number(value) or not 0.0 <= value < 1.0:
            raise OptionError(f"{name} must be a number of at least 0 and below 1, got {value!r}")
    if not (tol > 0.0 or absolute_tol > 0.0):
        raise OptionError("tol and absolute_tol must not both be zero")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
