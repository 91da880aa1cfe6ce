"""The state of a search for the threshold of a family, and what comes out of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.inquiry import WarmStart
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bracket import Bracket, relative_gap
from sdpfeas.errors import BackendError, LimitError, OptionError, ProblemError
from sdpfeas.families.base import ParametricFamily
from sdpfeas.families.subspaces import Subspaces
from sdpfeas.notebook import Card, closing
from sdpfeas.numerics.cost_estimate import limited
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.problem import Point
from sdpfeas.verifier.results import Claim
from sdpfeas.verifier.verdicts import Proof, Verdict


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
        Why the search ended.
    initial : tuple of float
        The bracket before the first solve.
    time : float
        Seconds.
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
        self.spaces: Subspaces | None = None

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
            for point in sorted(points, key=self.family.estimate, reverse=True):
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


def require_tolerances(tol: float, absolute_tol: float) -> None:
    """Refuse tolerances of a bracket that make no sense."""
    for name, value in (("tol", tol), ("absolute_tol", absolute_tol)):
        if not _is_number(value) or not 0.0 <= value < 1.0:
            raise OptionError(f"{name} must be a number of at least 0 and below 1, got {value!r}")
    if not (tol > 0.0 or absolute_tol > 0.0):
        raise OptionError("tol and absolute_tol must not both be zero")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
