"""From feasibility to optimal values: a proven bracket around the threshold of a family.

:func:`bisect` asks any backend at a few values of ``delta`` and moves on proven bounds only: every point and
every vector of multipliers a backend comes up with, during a solve or at its end, decided or not, is turned
into a bound by the family. :func:`one_shot` does the same along a single program, for backends that take an
objective. ``mode="paper"`` is the plain midpoint rule on what backends claim, and proves nothing.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sdpfeas.backend import FeasibilityBackend, WarmStart
from sdpfeas.bracket import Bracket, Watch, relative_gap
from sdpfeas.deadline import Deadline
from sdpfeas.errors import BackendError, OptionError, ProblemError
from sdpfeas.families.base import ParametricFamily
from sdpfeas.linalg import FloatArray
from sdpfeas.problem import Point
from sdpfeas.registry import Solver, find_solver
from sdpfeas.result import Claim, Proof, Stop, Verdict
from sdpfeas.solving import decide, solve_claim

__all__ = ["BisectionResult", "Step", "bisect", "one_shot"]

#: Where in the bracket to ask, while nothing is decided.
PLACES = (0.5, 0.8, 0.2, 0.95, 0.05)

#: Solves at most, whatever happens.
MAX_SOLVES = 200


@dataclass(frozen=True)
class Step:
    """One solve of a search.

    Attributes
    ----------
    delta : float
        Where the family was asked.
    verdict : Verdict
        What came out; in paper mode, what the backend claimed.
    proof : Proof or None
        How the verdict was granted; None if it was not.
    lower, upper : float
        The bracket after the step.
    iterations : int or None
        Iterations of the backend.
    time : float
        Seconds, bounds included.
    reason : str
        Why the backend stopped.
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
    **options: Any,
) -> BisectionResult:
    """Bracket the threshold of a family.

    Parameters
    ----------
    family : ParametricFamily
        The family.
    solver : str, Path, type or Solver
        Which backend to ask.
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
    **options
        Options of the backend.

    Returns
    -------
    BisectionResult
        The bracket. If the backend stays undecided it is the one reached so far, and ``reason`` says so.
    """
    if mode not in ("certified", "paper"):
        raise OptionError(f"mode must be 'certified' or 'paper', got {mode!r}")
    search = _Search(family, solver, tol, absolute_tol, time_limit, callback, options)
    search.refines = refine
    known = search.known()
    if known is not None:
        return known
    search.start(lower, upper)
    return search.certified() if mode == "certified" else search.as_published()


class _Search:
    """State of a search."""

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
        for name, value in (("tol", tol), ("absolute_tol", absolute_tol)):
            if not _is_number(value) or not 0.0 <= value < 1.0:
                raise OptionError(f"{name} must be a number of at least 0 and below 1, got {value!r}")
        if not (tol > 0.0 or absolute_tol > 0.0):
            raise OptionError("tol and absolute_tol must not both be zero")
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
        self.refines = True

    def known(self) -> BisectionResult | None:
        """Return the answer where the data give it away; a solve only chooses the point."""
        known = self.family.known
        if known is None:
            return None
        point, history = known.point, tuple(self.history)
        if known.substitute is not None:
            inner = _Search(
                known.substitute,
                self.solver,
                max(self.bracket.tol, 1e-3),
                0.0,
                self.deadline.limit,
                self.callback,
                self.options,
            )
            found = inner.known()
            if found is None:
                inner.start(None, None)
                found = inner.certified()
            point, history = found.point, found.history
            point = None if point is None else self.family.from_substitute(point)
        return BisectionResult(
            known.delta,
            known.delta,
            point,
            None,
            history,
            proven=True,
            converged=True,
            reason=known.reason,
            initial=(known.delta, known.delta),
            time=self.deadline.elapsed,
        )

    def start(self, lower: float | None, upper: float | None) -> None:
        """Find the initial bracket: what is given, else what the family can prove without a solve."""
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
        if lower is None:
            for point in self.family.initial_points():
                bracket.offer_point(point)
        if upper is None:
            for y in self.family.initial_multipliers():
                bracket.offer_multipliers(y)
                if lower is None:
                    bracket.recover(y)
        self.initial = (bracket.lower, bracket.upper)

    # ------------------------------------------------------------ certified

    def certified(self) -> BisectionResult:
        """Search on proven bounds."""
        bracket = self.bracket
        stuck = 0
        asked: list[float] = []
        while True:
            if bracket.lower > bracket.upper:
                return self._result("the given bounds contradict what was proved")
            if bracket.closed:
                return self._result("the bracket is within the tolerance")
            if self.deadline.expired:
                return self._result("time limit")
            if len(self.history) >= MAX_SOLVES:
                return self._result(f"gave up after {MAX_SOLVES} solves")
            if stuck == len(PLACES):
                places = ", ".join(f"{delta:.6g}" for delta in asked[-stuck:])
                return self._result(f"backend {self.backend.name!r} stays undecided at delta = {places}")
            delta = self._next_delta(stuck)
            if delta is None:
                return self._result("no further value of delta fits into the bracket")
            asked.append(delta)
            before = bracket.lower, bracket.upper
            step = self._ask(delta)
            stuck = 0 if self._progress(before, step) else stuck + 1
            if self.callback is not None and self.callback(step):
                return self._result("stopped by the callback")

    def _progress(self, before: tuple[float, float], step: Step) -> bool:
        low, high = before
        if step.verdict is not Verdict.UNDECIDED and step.proof in (Proof.RIGOROUS, Proof.EXACT):
            return True
        if math.isinf(low) or math.isinf(high):
            return (math.isinf(low) and math.isfinite(step.lower)) or (
                math.isinf(high) and math.isfinite(step.upper)
            )
        return step.upper - step.lower <= 0.9 * (high - low)

    def _next_delta(self, stuck: int) -> float | None:
        bracket = self.bracket
        low, high = bracket.lower, bracket.upper
        if math.isinf(low) or math.isinf(high):
            return self._expanding(low, high, stuck)
        delta = low + PLACES[stuck] * (high - low)
        return delta if low < delta < high else None

    def _expanding(self, low: float, high: float, stuck: int) -> float:
        unit = self.family.unit
        reach = 4.0 ** (len(self.history) + stuck)
        if math.isinf(low) and math.isinf(high):
            return 0.0 if not self.history else -unit * reach
        if math.isinf(high):
            return low + max(abs(low), unit * reach)
        return high - max(abs(high), unit * reach)

    def _ask(self, delta: float) -> Step:
        begin = time.perf_counter()
        bracket = self.bracket
        problem = self.family.at(delta)
        bracket.fresh = False
        watch = Watch(bracket, delta)
        claim = solve_claim(
            self.backend, problem, time_limit=self.deadline.limit, warm_start=self.warm, callback=watch
        )
        claim = self._sound(claim, delta)
        verdict, proof, reason = Verdict.UNDECIDED, None, str(claim.stop)
        watch.finish(claim)
        if self.refines:
            bracket.refine()
        if bracket.lower >= delta:
            verdict, proof = Verdict.FEASIBLE, Proof.RIGOROUS
        elif bracket.upper <= delta:
            verdict, proof = Verdict.INFEASIBLE, Proof.RIGOROUS
        else:
            check = decide(problem, claim)
            verdict, proof, reason = check.verdict, check.proof, f"{claim.stop}; {check.reason}"
            if proof in (Proof.RIGOROUS, Proof.EXACT):
                if verdict is Verdict.FEASIBLE:
                    bracket.lower, bracket.point, bracket.lower_proven = delta, check.point, True
                else:
                    bracket.upper, bracket.certificate, bracket.upper_proven = delta, check.certificate, True
        self.warm = WarmStart(claim.point, claim.certificate)
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
        self.history.append(step)
        return step

    def _sound(self, claim: Claim, delta: float) -> Claim:
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

    # ------------------------------------------------------------ as published

    def as_published(self) -> BisectionResult:
        """Algorithm 1: halve the bracket on what the backend claims."""
        low, high = self.bracket.lower, self.bracket.upper
        if not (math.isfinite(low) and math.isfinite(high)):
            raise OptionError("mode='paper' needs a finite bracket: give lower and upper")
        bracket, point, y = self.bracket, self.bracket.point, self.bracket.certificate
        reason = "the bracket is within the tolerance"
        while high - low > max(bracket.tol * abs(low), bracket.floor):
            if self.deadline.expired:
                reason = "time limit"
                break
            begin = time.perf_counter()
            delta = 0.5 * (low + high)
            claim = self._sound(
                solve_claim(
                    self.backend,
                    self.family.at(delta),
                    time_limit=self.deadline.limit,
                    warm_start=self.warm,
                ),
                delta,
            )
            verdict = claimed(claim)
            if verdict is Verdict.FEASIBLE:
                low, point = delta, claim.point
            elif verdict is Verdict.INFEASIBLE:
                high, y = delta, claim.certificate
            self.warm = WarmStart(claim.point, claim.certificate)
            spent = time.perf_counter() - begin
            step = Step(delta, verdict, None, low, high, claim.iterations, spent, claim.raw_status)
            self.history.append(step)
            if verdict is Verdict.UNDECIDED:
                reason = f"backend {self.backend.name!r} claims nothing at delta = {delta:.6g} ({claim.stop})"
                break
            if self.callback is not None and self.callback(step):
                reason = "stopped by the callback"
                break
        converged = high - low <= max(bracket.tol * abs(low), bracket.floor)
        return BisectionResult(
            low,
            high,
            point,
            y,
            tuple(self.history),
            proven=False,
            converged=converged,
            reason=f"{reason}; on claims, not on proofs",
            initial=self.initial,
            time=self.deadline.elapsed,
        )

    def _result(self, reason: str) -> BisectionResult:
        bracket = self.bracket
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


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


def claimed(claim: Claim) -> Verdict:
    """Read a claim at its word: what the backend itself would call the answer.

    An explicit word counts first, then the margin a backend maximised, then what evidence there is. As in
    the paper, a run that ended by itself without a sign of infeasibility counts as feasible.

    Parameters
    ----------
    claim : Claim
        What the backend handed in.
    """
    said, margin = claim.info.get("claimed"), claim.info.get("margin")
    if isinstance(said, str) and said in set(Verdict):
        return Verdict(said)
    if claim.stop not in (Stop.FINISHED, Stop.STALLED):
        return Verdict.UNDECIDED
    if re.search("infeasib|certificate", claim.raw_status, re.IGNORECASE):
        return Verdict.INFEASIBLE
    if re.search("point found|convergence", claim.raw_status, re.IGNORECASE):
        return Verdict.FEASIBLE
    if isinstance(margin, (int, float)):
        return Verdict.INFEASIBLE if margin < 0.0 else Verdict.FEASIBLE
    if claim.certificate is not None:
        return Verdict.INFEASIBLE
    return Verdict.UNDECIDED if claim.point is None else Verdict.FEASIBLE


def one_shot(
    family: ParametricFamily,
    solver: str | Path | type[FeasibilityBackend] | Solver = "spectral-ipm",
    tol: float = 1e-6,
    time_limit: float | None = None,
    *,
    absolute_tol: float = 1e-12,
    **options: Any,
) -> BisectionResult:
    """Bracket the threshold of a family along one program, with a backend that takes an objective.

    Parameters
    ----------
    family : ParametricFamily
        A family with a :meth:`~ParametricFamily.homogenized` program.
    solver : str, Path, type or Solver
        Which backend to ask.
    tol : float
        Stop when ``(upper - lower) / |upper|`` is no larger than this.
    time_limit : float, optional
        Seconds in all.
    absolute_tol : float
        Also stop when the bracket is no wider than this.
    **options
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
    search = _Search(family, solver, tol, absolute_tol, time_limit, None, options)
    if not search.backend.maximises:
        raise BackendError(f"backend {search.backend.name!r} takes no objective; use bisect")
    known = search.known()
    if known is not None:
        return known
    search.start(None, None)
    if search.bracket.closed:
        return search._result("the bracket is within the tolerance")
    program = family.homogenized()
    if program is None:
        raise ProblemError(f"family {family.name!r} has no single program; use bisect")
    begin = time.perf_counter()
    watch = Watch(search.bracket, None, family.program_point, family.program_multipliers)
    claim = search.backend.maximise(program, time_limit=search.deadline.limit, callback=watch)
    watch.finish(claim)
    bracket = search.bracket
    spent = time.perf_counter() - begin
    search.history.append(
        Step(
            bracket.lower,
            Verdict.FEASIBLE if math.isfinite(bracket.lower) else Verdict.UNDECIDED,
            Proof.RIGOROUS if math.isfinite(bracket.lower) else None,
            bracket.lower,
            bracket.upper,
            claim.iterations,
            spent,
            str(claim.stop),
        )
    )
    done = "the bracket is within the tolerance"
    return search._result(done if bracket.closed else f"{claim.stop}; the bracket is wider than asked for")
