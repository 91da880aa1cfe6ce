"""Proven brackets of optimal values: one program, moved into the interior until both ends are proved.

Of ``max <c, X>`` over the points of a problem a point proves a lower bound and multipliers an upper one. What
a solver ends with lies on the boundary, up to its tolerance, where nothing can be proved. So the program is
moved a little: ``X - e·I`` in the cones instead of ``X``, and ``c + d·I`` instead of ``c``. Its points are
deeper than ``e`` inside the original cones, ``c + A*y`` is further than ``d`` inside their polars, and both
bounds hold although rounding leaves rows and multipliers a little off (Jansson, Chaykin and Keil, "Rigorous
error bounds for the optimal value in semidefinite programming", SINUM 2007). What this costs is ``e·tr S``
and ``d·tr X``, so e and d are chosen by the tolerance that is asked for. Iterates on the way to the solution
are deep inside as well: the last of them that can be proved bounds what the others leave open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.asking import ask_program
from sdpfeas.backends.auto import Auto
from sdpfeas.backends.contract import FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry, Progress
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.errors import BackendError, ClaimError, LimitError, ProblemError
from sdpfeas.families.level_set import LevelSet
from sdpfeas.notebook.card import Card
from sdpfeas.numerics.effort import limited
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.problem.reductions.joined import join_split
from sdpfeas.problem.validation import finite_number
from sdpfeas.search.bisection import bisect
from sdpfeas.search.bracket import Bracket, Watch
from sdpfeas.search.driver import Search
from sdpfeas.search.optimum_lmis import LmiLevels, are_lmis_alone
from sdpfeas.search.solving import solve
from sdpfeas.verifier.results import Claim, Result, Stop, Verdict

__all__ = ["Optimum", "optimum"]

#: Shares of the tolerance that moving into the interior may cost, tried in turn for an end not yet proved.
SHARES = (0.2, 0.45, 3.0, 50.0)

#: An end is good enough if it is no further than this share of the tolerance from the value that was found.
GOOD = 0.5

#: Numbers in the iterates that are remembered.
REMEMBERED = 20_000_000

#: A value below this share of the terms it adds up is as good as zero.
ZERO = 1e-6


@dataclass(frozen=True)
class Optimum:
    """A bracket around an optimal value, with its evidence.

    Attributes
    ----------
    lower, upper : float
        The bracket; both ends are proved. An infinite end says that nothing was proved there, but for a
        problem that is proved to have no point: its largest value is ``-inf``, its smallest ``inf``.
    point : tuple of ndarray or None
        A point next to which an exact solution lies whose value is at least as good as the worse end.
    multipliers : ndarray or None
        Multipliers of the rows (and LMIs) that prove the better end.
    sense : str
        ``"max"`` or ``"min"``.
    converged : bool
        Whether the bracket is within the tolerance.
    reason : str
        Why the search ended.
    time : float
        Seconds.
    infeasible : Result or None
        The proof that there is no point at all, where there is none.
    """

    lower: float
    upper: float
    point: Point | None
    multipliers: FloatArray | None
    sense: str
    converged: bool
    reason: str
    time: float
    infeasible: Result | None = None

    def __repr__(self) -> str:
        """The bracket in one line."""
        if self.infeasible is not None:
            return f"Optimum: {self.reason} ({self.time:.3g} s)"
        ends = f"{self.lower:.10g} <= {self.sense} <= {self.upper:.10g}"
        return f"Optimum: {ends} (proven, {self.time:.3g} s): {self.reason}"

    def _repr_html_(self) -> str:
        """Show the bracket, as a card in a notebook."""
        if self.infeasible is not None:
            return self.infeasible._repr_html_()
        closed = math.isfinite(self.lower) and math.isfinite(self.upper)
        badge, tone = ("PROVEN", "feasible") if closed else ("OPEN", "undecided")
        title = f"{self.lower:.10g} ≤ {self.sense} ≤ {self.upper:.10g}"
        facts = [("width", f"{self.upper - self.lower:.2g}"), ("time", f"{self.time:.3g} s")]
        return Card(badge, tone, title, facts, note=self.reason).html()


def optimum(
    problem: FeasibilityProblem,
    objective: Objective | Any,
    tol: float = 1e-6,
    solver: str | Path | type[FeasibilityBackend] | Solver = "auto",
    *,
    time_limit: float | None = None,
    absolute_tol: float = 1e-9,
    options: Mapping[str, Any] | None = None,
) -> Optimum:
    """Bracket the optimal value of a linear objective over the points of a problem; both ends are proved.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    objective : Objective or sequence of ndarray
        What is maximised or minimised; plain arrays, one per set, are maximised.
    tol : float
        Stop when ``(upper - lower) / |upper|`` is no larger than this.
    solver : str, Path, type or Solver
        Which backend to ask; one that takes objectives.
    time_limit : float, optional
        Seconds in all.
    absolute_tol : float
        Also stop when the bracket is no wider than this.
    options : mapping, optional
        Options of the backend.

    Returns
    -------
    Optimum
        The bracket; an end stays infinite where the problem, or its dual, has no interior to prove it in.

    Raises
    ------
    BackendError
        If the backend takes no objective.
    """
    goal = objective if isinstance(objective, Objective) else Objective(tuple(objective))
    if problem.m == 0 and not problem.lmis:
        raise ProblemError("a problem without rows has no optimal value to look for")
    given = problem
    joined = join_split(problem, goal.to_maximise(problem))
    problem = joined.problem
    slacks = problem.slack_form
    inner = slacks.problem
    extra = [np.zeros(block.shape) for block in inner.sets[len(problem.sets) :]]
    terms = (*joined.terms(goal.to_maximise(joined.original)), *extra)
    family: LevelSet
    if are_lmis_alone(problem):
        family = LmiLevels(problem, terms[: len(problem.sets)])
    else:
        rows = [sp.csr_array(c.reshape(1, -1)) if c.any() else None for c in terms]
        family = LevelSet(inner.sets, rows, inner.rows, inner.lower, inner.upper)
    search = Search(family, solver, tol, absolute_tol, time_limit, None, dict(options or {}))
    if not search.backend.maximises:
        raise BackendError(f"backend {search.backend.name!r} takes no objective")
    with search.working():
        if isinstance(family, LmiLevels):
            programs = _Programs(search, family.dual, family.dual_terms, family.evidence)
        else:
            programs = _Programs(search, inner, terms)
        reason = programs.run()
    bracket = search.bracket
    if not bracket.closed and not search.deadline.expired and isinstance(search.backend, Auto):
        refuted = None if math.isfinite(bracket.lower) else _without_points(search, given)
        if refuted is not None:
            worst = math.inf if goal.sense == "min" else -math.inf
            reason = f"there is no point: {refuted.reason}"
            return Optimum(
                worst, worst, None, None, goal.sense, True, reason, search.deadline.elapsed, refuted
            )
        reason = _by_levels(search, reason)
    low, high = bracket.lower, bracket.upper
    offset = finite_number(goal.offset, "the offset of the objective")
    if goal.sense == "min":
        low, high = -high, -low
    if offset:
        low, high = math.nextafter(low + offset, -math.inf), math.nextafter(high + offset, math.inf)
    return Optimum(
        low,
        high,
        None if bracket.point is None else joined.point(slacks.point(bracket.point)),
        None if bracket.certificate is None else slacks.multipliers(bracket.certificate[1:]),
        goal.sense,
        bracket.closed,
        "the bracket is as narrow as asked for" if bracket.closed else reason,
        search.deadline.elapsed,
    )


def _without_points(search: Search, problem: FeasibilityProblem) -> Result | None:
    """The proof that a problem has no point, where there is one: then no level can be attained."""
    left = search.deadline.left if search.deadline.limit is not None else None
    found = solve(problem, search.solver, time_limit=left, rigorous=True)
    return found if found.verdict is Verdict.INFEASIBLE else None


def _by_levels(search: Search, reason: str) -> str:
    """Ask feasibility questions, one a level, where one program leaves an end open."""
    bracket = search.bracket
    if math.isfinite(bracket.lower) and math.isfinite(bracket.upper):
        return reason
    left = search.deadline.left if search.deadline.limit is not None else None
    found = bisect(
        search.family,
        search.solver,
        tol=bracket.tol,
        absolute_tol=bracket.floor,
        time_limit=left,
        lower=bracket.lower if math.isfinite(bracket.lower) else None,
        upper=bracket.upper if math.isfinite(bracket.upper) else None,
    )
    if found.point is not None and found.lower > bracket.lower:
        bracket.lower, bracket.point = found.lower, found.point
    if found.certificate is not None and found.upper < bracket.upper:
        bracket.upper, bracket.certificate = found.upper, found.certificate
    return found.reason


Evidence = Callable[[Point | None, FloatArray | None], tuple[Point | None, FloatArray | None]]


class _Watch(Watch):
    """A watch on a program whose evidence has to be made into that of the family.

    Earlier iterates of an interior-point method lie deeper inside than later ones. Where what it ends with
    does not close the bracket, the last of them is looked for that improves on it.

    Parameters
    ----------
    bracket : Bracket
        What the candidates are offered to.
    evidence : callable
        Makes a point and multipliers of the family of those of the program.
    """

    def __init__(self, bracket: Bracket, evidence: Evidence) -> None:
        super().__init__(bracket, None)
        self._evidence = evidence
        self._passed: list[tuple[Point | None, FloatArray | None]] = []
        self._room = REMEMBERED

    def __call__(self, progress: Progress) -> bool:
        """Remember the candidates, and offer them if it is their turn."""
        parts = [*(progress.point or ()), *([] if progress.certificate is None else [progress.certificate])]
        self._room -= sum(part.size for part in parts)
        if progress.gap is not None and self._room >= 0:
            self._passed.append((progress.point, progress.certificate))
        return super().__call__(progress)

    def finish(self, claim: Claim) -> None:
        """Offer what the solve ended with; then, while the bracket is open, what it passed by."""
        super().finish(claim)
        bracket = self._bracket
        # An end that nothing proves comes first: where there is one, the other is as good as it need be.
        missing = [end for end in ("lower", "upper") if not math.isfinite(getattr(bracket, end))]
        for end in missing or ("lower", "upper"):
            if not self.decided:
                self._look_back(end)

    def _look_back(self, end: str) -> None:
        """Find the latest iterate that improves an end, by steps that double and then halve."""
        late, early, step = len(self._passed), -1, 1
        while late - early > 1:
            k = max(late - step, 0) if early < 0 else (early + late) // 2
            before = getattr(self._bracket, end)
            try:
                point, y = self._evidence(*self._passed[k])
                if end == "lower":
                    self._bracket.offer_point(point)
                else:
                    self._bracket.offer_multipliers(y)
            except ClaimError:
                pass
            except LimitError:
                return  # the others are as large
            if getattr(self._bracket, end) != before:
                early = k
            else:
                late, step = k, 2 * step

    def _offer(self, point: Point | None, y: FloatArray | None, recover: bool, both: bool = False) -> None:
        super()._offer(*self._evidence(point, y), recover, both)


class _Programs:
    """The program as it is, and moved into the interior.

    Parameters
    ----------
    search : Search
        The search; its bracket takes what is proved.
    problem : FeasibilityProblem
        The problem, without LMIs.
    terms : tuple of ndarray
        What is maximised.
    turned : callable, optional
        Of a dual program, what makes evidence about the family of that about the program.
    """

    def __init__(
        self, search: Search, problem: FeasibilityProblem, terms: Point, turned: Evidence | None = None
    ) -> None:
        self._search, self._problem, self._terms, self._turned = search, problem, terms, turned
        self._units = tuple(
            block.identity() if block.cone else np.zeros(block.shape) for block in problem.sets
        )
        with np.errstate(over="ignore"):
            self._along = problem.apply(self._units)

    def run(self) -> str:
        """Ask until the bracket is closed, and say why it ended."""
        bracket = self._search.bracket
        try:
            claim = self._ask(0.0, 0.0, self._search.backend)
            for backend in self._backends():
                for share in SHARES:
                    if bracket.closed:
                        return "closed"
                    if self._search.deadline.expired:
                        return str(Stop.TIME_LIMIT)
                    moves = self._moves(claim, share)
                    if moves is None:
                        break
                    claim = self._better(claim, self._ask(*moves, backend))
        except LimitError as error:
            return str(error)
        missing = [name for name in ("lower", "upper") if not math.isfinite(getattr(bracket, name))]
        if missing:
            return (
                f"no {' nor '.join(missing)} bound could be proved: there may be no interior ({claim.stop})"
            )
        return f"{claim.stop}; the bracket is wider than asked for"

    def _backends(self) -> list[FeasibilityBackend]:
        """Who is asked for moved programs: where the choice is free, another one after the first."""
        found = [self._search.backend]
        if isinstance(found[0], Auto) and not found[0].options.order:
            other = find_solver("clarabel").make(mode="direct")
            found += [other] if other.available()[0] else []
        return found

    @staticmethod
    def _better(old: Claim, new: Claim) -> Claim:
        return old if new.point is None or new.certificate is None else new

    def _moves(self, claim: Claim, share: float) -> tuple[float, float] | None:
        """How far to move points and multipliers, if the claim tells the sizes."""
        if claim.point is None or claim.certificate is None:
            return None
        bracket, terms = self._search.bracket, self._terms
        with np.errstate(all="ignore"):
            parts = [c * x for c, x in zip(terms, claim.point, strict=True)]
            value, size = (sum(float(np.sum(part)) for part in each) for each in (parts, map(np.abs, parts)))
            slack = [-(c + g) for c, g in zip(terms, self._problem.adjoint(claim.certificate), strict=True)]
            primal, dual = (
                sum(max(float(np.vdot(unit, x)), 0.0) for unit, x in zip(self._units, part, strict=True))
                for part in (claim.point, slack)
            )
            wanted = max(bracket.tol * max(abs(value), ZERO * size), bracket.floor)
            # An end that is near enough to what the solver found may stay.
            ends = (value - bracket.lower, bracket.upper - value)
            if self._turned is not None:
                ends = (bracket.upper + value, -value - bracket.lower)
            inwards = share * wanted / dual if dual > 0.0 and ends[0] > GOOD * wanted else 0.0
            apart = share * wanted / primal if primal > 0.0 and ends[1] > GOOD * wanted else 0.0
        fine = math.isfinite(inwards) and math.isfinite(apart) and (inwards > 0.0 or apart > 0.0)
        return (inwards, apart) if fine else None

    def _ask(self, inwards: float, apart: float, backend: FeasibilityBackend) -> Claim:
        """Maximise ``c + apart·I`` over the points further than ``inwards`` inside, and take bounds."""
        problem, search = self._problem, self._search
        shift = inwards * self._along
        if inwards:
            problem = FeasibilityProblem(
                problem.sets, problem.rows, problem.lower - shift, problem.upper - shift
            )
        terms = tuple(c + apart * unit for c, unit in zip(self._terms, self._units, strict=True))

        def back(point: Point) -> Point:
            return tuple(x + inwards * unit for x, unit in zip(point, self._units, strict=True))

        def evidence(point: Point | None, y: FloatArray | None) -> tuple[Point | None, FloatArray | None]:
            point = None if point is None else back(point)
            if self._turned is not None:
                return self._turned(point, y)
            return point, None if y is None else search.family.program_multipliers(y)

        watch = _Watch(search.bracket, evidence)
        inquiry = Inquiry(problem, deadline=search.deadline, wanted="margin", listener=watch)
        try:
            with limited(inquiry.limit):
                claim = ask_program(backend, ConicProgram(problem, terms), inquiry)
        except LimitError as error:
            claim = Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))
        with suppress(LimitError):
            watch.finish(claim)
        point = None if claim.point is None else back(claim.point)
        return Claim(point, claim.certificate, claim.raw_status, claim.stop, claim.iterations)
