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
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.auto import Auto
from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.registry import Solver
from sdpfeas.claims import Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bisection import run_bisection
from sdpfeas.drivers.bracket import CLOSED, Search, relative_gap
from sdpfeas.drivers.perturbed_programs import Programs
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import BackendError, LimitError, ProblemError
from sdpfeas.families.level_set import LevelSet
from sdpfeas.families.threshold_bounds import Bound
from sdpfeas.notebook import Card
from sdpfeas.numerics.cost_estimate import limited
from sdpfeas.numerics.decimals import READERS, Reading, as_reading
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import ConicProgram, Objective
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.decimal_data import read_as, read_terms
from sdpfeas.problem.reductions.inequality_pairs import meeting_pairs
from sdpfeas.problem.reductions.presolve import join_split
from sdpfeas.problem.reductions.redundant_rows import MAX_ROWS, Independent, independent_rows
from sdpfeas.problem.reductions.split import Part, split_parts
from sdpfeas.problem.rows import Stacked
from sdpfeas.problem.validation import finite_number
from sdpfeas.verifier.exact_simplex import exact_vertex, is_tiny_polyhedron
from sdpfeas.verifier.outcome import Tolerances
from sdpfeas.verifier.results import Result
from sdpfeas.verifier.rigorous import prove_point

# ------------------------------------------------------------
# Levels of an objective over LMIs in free variables alone, with proofs that take no slacks.
#
# A point is proved by the LMIs themselves. Multipliers are a point of the dual program: an exact Y in the
# cones with ``<F_i, Y> = -c_i`` shows ``c'x = <Y, F(0)> - <Y, F(x)> <= <Y, F(0)>`` for every x that meets
# the LMIs.

#: How far below the value of a point, relative to its terms, a level is that it is proved to reach.
PUSHES = (1e-14, 1e-12, 1e-9)


def are_lmis_alone(problem: FeasibilityProblem) -> bool:
    """Whether a problem is made of LMIs into cones, in free variables, and of nothing else."""
    cones = all(block.free for block in problem.sets) and all(lmi.set.cone for lmi in problem.lmis)
    return bool(problem.lmis) and not problem.m and cones


class LmiLevels(LevelSet):
    """Levels of ``c'x`` over the points of LMIs; the family itself is about their slack form.

    ``problem``: free blocks and LMIs into cones. ``terms``: what is maximised, one array per block.
    ``independent``: leaves out rows that follow from others: without a unique solution the dual has some.

    ``dual``: the dual: the multipliers of the LMIs as variables, one row for every unknown but those that
    others make up for.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        terms: Point,
        independent: Callable[[FeasibilityProblem], Independent],
    ) -> None:
        self._lmis, self._terms, self._slacks = problem, terms, problem.slack_form
        inner = self._slacks.problem
        goal: list[Any] = [sp.csr_array(c.reshape(1, -1)) if c.any() else None for c in terms]
        goal += [None] * (len(inner.sets) - len(goal))
        super().__init__(inner.sets, goal, inner.rows, inner.lower, inner.upper)
        right = -np.concatenate(terms)
        whole = FeasibilityProblem([lmi.set for lmi in problem.lmis], _columns(problem), right, right)
        self._fewer = independent(whole)
        self.dual = self._fewer.problem
        self.dual_terms = tuple(-lmi.constant for lmi in problem.lmis)
        values = [sp.csr_array(c.reshape(1, -1)) if c.any() else None for c in self.dual_terms]
        self._dual_levels = LevelSet(self.dual.sets, values, self.dual.rows, self.dual.lower, self.dual.upper)
        self._cuts = np.cumsum([block.n for block in problem.sets])[:-1]

    def evidence(self, point: Point | None, y: FloatArray | None) -> tuple[Point | None, FloatArray | None]:
        """Make a point and multipliers of the family of those of the dual program."""
        x = None if y is None else tuple(np.split(-self._fewer.multipliers(y), self._cuts))
        placed = None if x is None else self._slacks.start_point(x)
        if point is None:
            return placed, None
        flat = self._slacks.start_multipliers(np.concatenate([part.reshape(-1) for part in point]))
        return placed, self.program_multipliers(flat)

    def prove_lower(self, point: Any, above: float = -math.inf) -> Bound | None:
        """As for every family, by the LMIs themselves."""
        x = self._slacks.point(tuple(point))
        with np.errstate(all="ignore"):
            parts = [c * part for c, part in zip(self._terms, x, strict=True)]
            value = float(sum(np.sum(part) for part in parts))
            size = float(sum(np.sum(np.abs(part)) for part in parts))
        if not math.isfinite(size):
            return None
        if value <= above:
            return Bound(-math.inf, tuple(point))
        with np.errstate(all="ignore"):
            goal = [sp.csr_array(c.reshape(1, -1)) if c.any() else None for c in self._terms]
            for push in PUSHES:
                level = value - push * size
                asked = FeasibilityProblem(self._lmis.sets, goal, [level], [np.inf], lmis=self._lmis.lmis)
                if prove_point(asked, asked.point(x), Tolerances()).proven:
                    return Bound(level, tuple(point))
        return None

    def prove_upper(
        self, y: Any, near: float | None = None, push: float = 0.0, below: float = math.inf
    ) -> Bound | None:
        """As for every family, next to a point of the dual program."""
        z = np.asarray(y, dtype=np.float64)
        if not (np.isfinite(z).all() and z[0] > 0.0):
            return None
        flat = self._slacks.multipliers(z[1:]) / z[0]
        shapes = [block.shape for block in self.dual.sets]
        parts = np.split(flat, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        matrices = tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
        bound = self._dual_levels.prove_lower(matrices, -below)
        return None if bound is None else Bound(-bound.delta, z)


def _columns(problem: FeasibilityProblem) -> list[Any]:
    """For every LMI its coefficients, one row for every unknown."""
    out = []
    for lmi in problem.lmis:
        parts = lmi.coefficients
        out.append(parts[0] if len(parts) == 1 else Stacked(parts))
    return out


#: More rows than are looked at densely must hold no more entries than this to be looked at.
FEW_ENTRIES = 100_000


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
        Multipliers of the rows (and LMIs) that prove the better end; None where that is proved on a face.
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
    reading : Reading
        Which numbers it is about: as stored or as written.
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
    reading: Reading = Reading.STORED

    @property
    def _about(self) -> str:
        """Which numbers it is about, if these are not the stored ones."""
        return "" if self.reading is Reading.STORED else f"numbers as {self.reading}"

    def __repr__(self) -> str:
        """The bracket in one line."""
        if self.infeasible is not None:
            return f"Optimum: {self.reason} ({', '.join(filter(None, (self._about, f'{self.time:.3g} s')))})"
        ends = f"{self.lower:.10g} <= {self.sense} <= {self.upper:.10g}"
        facts = ", ".join(filter(None, ("proven", self._about, f"{self.time:.3g} s")))
        return f"Optimum: {ends} ({facts}): {self.reason}"

    def _repr_html_(self) -> str:
        """Show the bracket, as a card in a notebook."""
        if self.infeasible is not None:
            return self.infeasible._repr_html_()
        closed = math.isfinite(self.lower) and math.isfinite(self.upper)
        badge, tone = ("PROVEN", "feasible") if closed else ("OPEN", "undecided")
        title = f"{self.lower:.10g} ≤ {self.sense} ≤ {self.upper:.10g}"
        facts = [("width", f"{self.upper - self.lower:.2g}"), ("time", f"{self.time:.3g} s")]
        facts += [("numbers", f"as {self.reading}")] if self._about else []
        return Card(badge, tone, title, facts, note=self.reason).html()


def optimum(
    problem: FeasibilityProblem,
    objective: Objective | Any,
    tol: float = 1e-6,
    solver: str | Path | type[FeasibilityBackend] | Solver = "auto",
    *,
    time_limit: float | None = None,
    absolute_tol: float = 1e-9,
    reading: str = "stored",
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
    reading : {"stored", "written"}
        What the numbers of problem and objective stand for: themselves; the simplest numbers that round to
        them; or, besides, the fractions that decimals of 10 to 15 digits show (0.0333333333333 for 1/30),
        and those that computed bounds miss by a few roundings.
    options : mapping, optional
        Options of the backend.

    Returns
    -------
    Optimum
        The bracket; an end stays infinite where the problem, or its dual, has no interior to prove it in, and
        where the numbers as they are to be read make no problem of doubles.

    Raises
    ------
    BackendError
        If the backend takes no objective.
    """
    goal = objective if isinstance(objective, Objective) else Objective(tuple(objective))
    if problem.m == 0 and not problem.lmis:
        raise ProblemError("a problem without rows has no optimal value to look for")
    begun, asked = Deadline(time_limit), as_reading(reading)
    terms = goal.to_maximise(problem)
    none = -math.inf, math.inf, None, None
    try:
        with limited(begun):
            read = read_as(problem, asked)
            terms, factor, example = read_terms(terms, asked)
    except (LimitError, ProblemError) as error:
        reason = f"the numbers as {asked}: {error}"
        return Optimum(*none, goal.sense, False, reason, begun.elapsed, reading=asked)
    settings = solver, tol, absolute_tol * float(factor), dict(options or {})
    try:
        found = _optimum(read.problem, terms, begun, settings)
    except LimitError as error:
        found = Optimum(*none, "max", False, str(error), begun.elapsed)
    low, high = found.lower, found.upper
    if goal.sense == "min":
        low, high = -high, -low
    offset = READERS[asked](finite_number(goal.offset, "the offset of the objective"))
    reason, y = found.reason, found.multipliers
    # Said here, where the ends are those that were asked for: a minimum is looked for as a maximum.
    missing = [name for name, end in (("lower", low), ("upper", high)) if not math.isfinite(end)]
    if missing and found.infeasible is None:
        reason = f"no {' nor '.join(missing)} bound could be proved: {reason}"
    if asked is not Reading.STORED:
        example = read.example or example
        reason += f"; as {asked} ({example})" if example else f"; as {asked}, which is as stored"
    return replace(
        found,
        lower=_below(low, factor, offset),
        upper=0.0 - _below(-high, factor, -offset),
        multipliers=None if y is None else read.multipliers(y) / float(factor),
        sense=goal.sense,
        reason=reason,
        time=begun.elapsed,
        reading=asked,
    )


def _below(value: float, factor: Fraction, offset: Fraction) -> float:
    """The largest double that is no larger than ``value / factor + offset``."""
    if not math.isfinite(value):
        return value
    exact = Fraction(value) / factor + offset
    try:
        near = float(exact)
    except OverflowError:
        return -math.inf if exact < 0 else np.finfo(np.float64).max
    return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)


def _optimum(
    given: FeasibilityProblem,
    objective: Point,
    begun: Deadline,
    settings: tuple[Any, float, float, dict[str, Any]],
) -> Optimum:
    """Bracket the maximum of a problem whose numbers stand for themselves."""
    if not any(part.any() for part in objective):
        return _constant(given, begun, settings[0])
    with limited(begun):
        parts = split_parts(given, objective)
    if len(parts) > 1:
        return _summed(given, objective, parts, begun, settings)
    found = _at_vertex(given, objective, begun, settings)
    if found is not None:
        return found
    with limited(begun):
        pairs = meeting_pairs(given)
    if pairs.problem is given:
        return _moved(given, objective, begun, settings)
    found = _optimum(pairs.problem, objective, begun, settings)
    if found.infeasible is not None:
        return _without_points_as_a_whole(found, given, settings[0], begun)
    y = found.multipliers
    return replace(found, multipliers=None if y is None else pairs.multipliers(y))


def _summed(
    given: FeasibilityProblem,
    objective: Point,
    parts: list[Part],
    begun: Deadline,
    settings: tuple[Any, float, float, dict[str, Any]],
) -> Optimum:
    """Add up the brackets of parts that share no variable; those without an objective need a point only."""
    solver, tol, absolute_tol, options = settings
    share = solver, tol, absolute_tol / len(parts), options
    point = tuple(np.zeros(block.shape) for block in given.sets)
    y = np.zeros(given.multiplier_count)
    found = list[Optimum]()
    for part in sorted(parts, key=lambda each: each.problem.work):
        own = _optimum(part.problem, part.terms(objective), begun, share)
        if own.infeasible is not None:
            return _without_points_as_a_whole(own, given, solver, begun)
        if own.point is not None:
            part.place(own.point, point)
        if own.multipliers is not None:
            part.place_multipliers(own.multipliers, y)
        found.append(own)
    lower = _sum_below([each.lower for each in found])
    upper = 0.0 - _sum_below([-each.upper for each in found])
    closed = relative_gap(lower, upper) <= tol or upper - lower <= absolute_tol
    rest = "; ".join(dict.fromkeys(each.reason for each in found if not each.converged))
    return Optimum(
        lower,
        upper,
        point if all(each.point is not None for each in found) else None,
        y if all(each.multipliers is not None for each in found) else None,
        "max",
        closed,
        CLOSED if closed else rest or "the parts cancel: their brackets add up to a wider one",
        begun.elapsed,
    )


def _without_points_as_a_whole(
    found: Optimum, given: FeasibilityProblem, solver: Any, begun: Deadline
) -> Optimum:
    """Prove the problem given to have no point, as the reduced one has none, if that can be done."""
    whole = solve(given, solver, time_limit=begun.limit, rigorous=True)
    proved = whole.check.verdict is Verdict.INFEASIBLE
    return replace(found, infeasible=whole if proved else found.infeasible, multipliers=None)


def _sum_below(values: list[float]) -> float:
    """The largest double that is no larger than a sum; minus infinity if a term is."""
    if not all(math.isfinite(value) for value in values):
        return -math.inf
    return _below(0.0, Fraction(1), sum(map(Fraction, values), Fraction(0)))


def _at_vertex(
    problem: FeasibilityProblem,
    objective: Point,
    begun: Deadline,
    settings: tuple[Any, float, float, dict[str, Any]],
) -> Optimum | None:
    """The maximum over a tiny polyhedron, by the exact simplex method; None without a point."""
    solver = settings[0]
    if solver != "auto" or not is_tiny_polyhedron(problem):
        return None
    with limited(begun), suppress(LimitError):
        found = exact_vertex(problem, objective)
        if found.value is not None:
            lower, upper = _below(0.0, Fraction(1), found.value), 0.0 - _below(0.0, Fraction(1), -found.value)
            reason = CLOSED
            if found.unbounded:
                upper, reason = math.inf, "the objective is unbounded: a direction raises it for ever"
            proofs = found.point, found.multipliers, "max", not found.unbounded, reason
            return Optimum(lower, upper, *proofs, begun.elapsed)
    return None


def _moved(
    given: FeasibilityProblem,
    objective: Point,
    begun: Deadline,
    settings: tuple[Any, float, float, dict[str, Any]],
) -> Optimum:
    """Bracket the maximum by programs moved into the interior."""
    with limited(begun):
        joined = join_split(given, objective)
        problem = joined.problem
        slacks = problem.slack_form
    inner = slacks.problem
    extra = [np.zeros(block.shape) for block in inner.sets[len(problem.sets) :]]
    terms = (*joined.terms(objective), *extra)
    # Of LMIs alone the rows are slacks, and not asked about.
    fewer = _independent(inner, not are_lmis_alone(problem), begun)
    search, reason = _bracketed(problem, fewer.problem, terms, begun, settings)
    bracket = search.bracket
    if not bracket.closed and not search.deadline.expired and isinstance(search.backend, Auto):
        refuted = None if math.isfinite(bracket.lower) else _without_points(search, given)
        if refuted is not None:
            worst = -math.inf
            reason = f"there is no point: {refuted.reason}"
            return Optimum(worst, worst, None, None, "max", True, reason, begun.elapsed, refuted)
        reason = _by_levels(search, reason)
    y = bracket.certificate
    return Optimum(
        bracket.lower,
        bracket.upper,
        None if bracket.point is None else joined.point(slacks.point(bracket.point)),
        None if y is None else slacks.multipliers(fewer.multipliers(y[1:])),
        "max",
        bracket.closed,
        CLOSED if bracket.closed else reason,
        begun.elapsed,
    )


def _constant(problem: FeasibilityProblem, begun: Deadline, solver: Any) -> Optimum:
    """The maximum of zero: zero, if there is a point."""
    found = solve(problem, solver, time_limit=begun.limit, rigorous=True)
    if found.verdict is Verdict.INFEASIBLE:
        reason = f"there is no point: {found.reason}"
        return Optimum(-math.inf, -math.inf, None, None, "max", True, reason, begun.elapsed, found)
    proved = found.verdict is Verdict.FEASIBLE
    lower, point = (0.0, found.point) if proved else (-math.inf, None)
    reason = "the objective is zero at all points" if proved else found.reason
    zero = np.zeros(problem.multiplier_count)
    return Optimum(lower, 0.0, point, zero, "max", proved, reason, begun.elapsed)


def _independent(problem: FeasibilityProblem, wanted: bool, begun: Deadline) -> Independent:
    """Without rows that follow from others, where that is quickly seen: they would leave nothing provable."""
    entries = sum(rows.entries for rows in problem.rows)
    if wanted and (problem.m <= MAX_ROWS or entries <= FEW_ENTRIES):
        with limited(begun), suppress(LimitError):
            return independent_rows(problem)
    return Independent(problem, problem, None, np.arange(problem.m), {})


def _bracketed(
    problem: FeasibilityProblem,
    inner: FeasibilityProblem,
    terms: Point,
    begun: Deadline,
    settings: tuple[Any, float, float, dict[str, Any]],
) -> tuple[Search, str]:
    """Ask the programs, with slacks for LMIs but where there is nothing else; say why that ended."""
    family: LevelSet
    with limited(begun):
        if are_lmis_alone(problem):
            family = LmiLevels(problem, terms[: len(problem.sets)], lambda p: _independent(p, True, begun))
        else:
            rows = [sp.csr_array(c.reshape(1, -1)) if c.any() else None for c in terms]
            family = LevelSet(inner.sets, rows, inner.rows, inner.lower, inner.upper)
    solver, tol, absolute_tol, options = settings
    search = Search(family, solver, tol, absolute_tol, begun.limit, None, options)

    def again(program: ConicProgram) -> tuple[float, float, Point | None]:
        found = _optimum(program.problem, program.objective, begun, settings)
        return found.lower, found.upper, found.point

    if not search.backend.maximises:
        raise BackendError(f"backend {search.backend.name!r} takes no objective")
    with search.running():
        if isinstance(family, LmiLevels):
            return search, Programs(search, family.dual, family.dual_terms, again, family.evidence).run()
        return search, Programs(search, inner, terms, again).run()


def _without_points(search: Search, problem: FeasibilityProblem) -> Result | None:
    """The proof that a problem has no point, where there is one: then no level can be attained."""
    left = search.deadline.limit
    found = solve(problem, search.solver, time_limit=left, rigorous=True)
    return found if found.check.verdict is Verdict.INFEASIBLE else None


def _by_levels(search: Search, reason: str) -> str:
    """Ask feasibility questions, one a level, where one program leaves an end open."""
    bracket = search.bracket
    if math.isfinite(bracket.lower) and math.isfinite(bracket.upper):
        return reason
    inner = Search(
        search.family,
        search.solver,
        bracket.tol,
        bracket.absolute_tol,
        search.deadline.limit,
        None,
        {},
    )
    inner.start_from(
        bracket.lower if math.isfinite(bracket.lower) else None,
        bracket.upper if math.isfinite(bracket.upper) else None,
        proven=True,
    )
    found = run_bisection(inner)
    if found.point is not None and found.lower > bracket.lower:
        bracket.lower, bracket.point = found.lower, found.point
    if found.certificate is not None and found.upper < bracket.upper:
        bracket.upper, bracket.certificate = found.upper, found.certificate
    return found.reason
