"""``optimum``: bracket the optimal value of a linear objective, both ends proved.

A feasible point proves one end and dual multipliers prove the other. The problem is first reduced: to exact
data for the reading, to independent parts, to a tiny polyhedron that the exact simplex method solves, or to
equality rows for pairs of inequalities that meet. What is left is bracketed by one run of an interior-point
method, with proofs at its last iterates (:mod:`sdpfeas.drivers.certified_program`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.claims import Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bracket import CLOSED, Bracket, relative_gap, require_tolerances
from sdpfeas.drivers.certified_program import CertifiedProgram, Settings
from sdpfeas.drivers.isolation import make_available
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import BackendError, LimitError, ProblemError
from sdpfeas.notebook import Card
from sdpfeas.numerics.exact_arithmetic import READERS, Reading, as_reading, rounded_down
from sdpfeas.numerics.limits import WRITE_FLOPS, guard, limited
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.objective import ConicProgram, Objective
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.bounded_variables import Bound, describe_bound
from sdpfeas.problem.reductions.decimal_data import read_as, read_terms
from sdpfeas.problem.reductions.inequality_pairs import meeting_pairs
from sdpfeas.problem.reductions.presolve import merge_opposite_columns
from sdpfeas.problem.reductions.redundant_rows import MAX_ROWS, DropRedundantRows, independent_rows
from sdpfeas.problem.reductions.split import Part, split_parts
from sdpfeas.problem.rows import Stacked, as_rows
from sdpfeas.problem.validation import finite_number
from sdpfeas.verifier.exact_simplex import exact_vertex, is_tiny_polyhedron
from sdpfeas.verifier.results import Result

#: Most entries of the rows for a search of dependent rows, if there are more rows than a dense search takes.
MAX_DEPENDENT_ENTRIES = 100_000


#: Times that the entries of an objective are read or copied when it is validated (measured: 3 s of processor
#: time at side 7,000).
OBJECTIVE_COPIES = 64.0

#: Seconds for a proof of unboundedness, besides as many as everything before took.
RAY_SECONDS = 10.0

#: Share of the tolerance for a program on a face that proves one end only.
FACE_TOLERANCE_SHARE = 0.1


@dataclass(frozen=True)
class Optimum:
    """A bracket around an optimal value, with its evidence.

    Attributes
    ----------
    lower, upper : float
        The bracket. Every finite end is proved. An infinite end is not, except if the problem is proved
        infeasible (its maximum is ``-inf`` and its minimum ``inf``) or unbounded (the other way round).
    point : tuple of ndarray or None
        A point near which an exact feasible point attains the worse end.
    multipliers : ndarray or None
        Dual multipliers of the rows (and LMIs) that prove the better end; None if it is proved on a face.
    sense : str
        ``"max"`` or ``"min"``.
    converged : bool
        Whether the bracket is within the tolerance.
    reason : str
        Why the search ended.
    time : float
        Seconds.
    infeasible : Result or None
        The proof of infeasibility, if the problem is infeasible.
    reading : Reading
        The data that the bracket is about: as stored or as written.
    unbounded : bool
        Whether the objective is proved to be unbounded: there is a feasible point, and a ray along which the
        objective improves.
    bound : optional
        The bound of the variables within which the bracket holds, as the user gave it; None without one.
    value : Fraction or None
        The optimal value, if it is proved exactly: with ``exact=True``, or on a tiny polyhedron. The bracket
        is then the value, or the two doubles next to it.

    Examples
    --------
    >>> import numpy as np, sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    >>> found = sf.optimum(problem, sf.Objective((np.diag([1.0, 2.0]),), "min"))
    >>> found.sense, found.converged, found.lower <= 1.0 <= found.upper
    ('min', True, True)
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
    unbounded: bool = False
    bound: Any = None
    value: Fraction | None = None

    @property
    def proved_ends(self) -> str:
        """Which ends are proved, in words."""
        if self.unbounded:
            return "unboundedness is proved"
        proved = [name for name, end in (("lower", self.lower), ("upper", self.upper)) if math.isfinite(end)]
        if len(proved) == 1:
            return f"only the {proved[0]} end is proved"
        return "both ends are proved" if proved else "no end is proved"

    @property
    def _data(self) -> str:
        """The bound within which the bracket holds, and the data that it is about unless as stored."""
        within = "" if self.bound is None else f"within {describe_bound(self.bound)}"
        read = "" if self.reading is Reading.STORED else f"numbers as {self.reading}"
        return ", ".join(filter(None, (within, read)))

    def __repr__(self) -> str:
        """Show the bracket and the stop reason in one line."""
        if self.infeasible is not None or self.unbounded:
            return f"Optimum: {self.reason} ({', '.join(filter(None, (self._data, f'{self.time:.3g} s')))})"
        ends = f"{self.lower:.10g} <= {self.sense} <= {self.upper:.10g}"
        facts = ", ".join(filter(None, (self.proved_ends, self._data, f"{self.time:.3g} s")))
        return f"Optimum: {ends} ({facts}): {self.reason}"

    def _repr_html_(self) -> str:
        """Show the bracket as a card in a notebook."""
        if self.infeasible is not None:
            return self.infeasible._repr_html_()
        closed = self.unbounded or (math.isfinite(self.lower) and math.isfinite(self.upper))
        badge, tone = ("PROVEN", "feasible") if closed else ("OPEN", "undecided")
        title = f"{self.lower:.10g} ≤ {self.sense} ≤ {self.upper:.10g}"
        facts = [] if self.unbounded else [("width", f"{self.upper - self.lower:.2g}")]
        facts += [("time", f"{self.time:.3g} s")]
        facts += [("about", self._data)] if self._data else []
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
    bound: Bound | None = None,
    options: Mapping[str, Any] | None = None,
    callback: Callable[[float, float, float], Any] | None = None,
    exact: bool = False,
) -> Optimum:
    """Bracket the optimal value of a linear objective over a problem, or of a cvxpy model, with proofs.

    ``optimum(model)`` brackets the optimal value of a ``cvxpy.Problem`` with its own objective, which need
    not be linear: for a minimum, ``f(x) <= t`` becomes a constraint and ``t`` is minimised. The variables get
    the values of the point found. All other arguments but ``objective`` are the same.

    Parameters
    ----------
    problem : FeasibilityProblem or cvxpy.Problem
        The problem.
    objective : Objective or sequence of ndarray
        The objective; plain arrays, one per set, are maximised. Left out for a cvxpy model.
    tol : float
        Stop when ``(upper - lower) / |upper|`` is no larger than this.
    solver : str, Path, type or Solver
        The backend; it must accept objectives.
    time_limit : float, optional
        Seconds for everything.
    absolute_tol : float
        Also stop when the bracket is no wider than this.
    reading : {"stored", "written"}
        The data that the bracket is about: binary64 data as given, or the decimals and fractions they were
        rounded from, such as 1/30 for 0.0333333333333; see ``docs/verdicts.md``.
    bound : float or mapping, optional
        Bracket the optimal value within a bound of the variables; see :func:`sdpfeas.solve`.
    options : mapping, optional
        Options of the backend.
    callback : callable, optional
        Called in every iteration with the ends that are proved so far, infinite at first, and with the
        relative gap of the iterate, which is an estimate. Not called while a part or a face is bracketed.
    exact : bool
        Also try to prove that the optimal value is the simplest fraction in the bracket, such as 23 or 128/3,
        which often holds for problems with simple data. It takes two more solves on the boundary.

    Returns
    -------
    Optimum
        The bracket. An end stays infinite if the problem or its dual has no strictly feasible point to prove
        it with, or if the data as written have no form in binary64.

    Raises
    ------
    BackendError
        If the backend accepts no objective.

    Examples
    --------
    The largest off-diagonal entry of a positive semidefinite matrix of trace one is 0.5.

    >>> import numpy as np, sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    >>> found = sf.optimum(problem, [np.array([[0, 0.5], [0.5, 0]])])
    >>> found.lower <= 0.5 <= found.upper, found.converged
    (True, True)

    The same as a cvxpy model:

    >>> import cvxpy as cp
    >>> X = cp.Variable((2, 2), PSD=True)
    >>> found = sf.optimum(cp.Problem(cp.Maximize(X[0, 1]), [cp.trace(X) == 1]))
    >>> found.lower <= 0.5 <= found.upper, found.converged
    (True, True)
    """
    goal = objective if isinstance(objective, Objective) else Objective(tuple(objective), "max")
    if problem.m == 0 and not problem.lmis:
        raise ProblemError("optimum needs a problem with at least one row or LMI")
    deadline, read_mode = Deadline(time_limit), as_reading(reading)
    problem = problem if bound is None else problem.bounded(bound)
    try:
        with limited(deadline):
            entries = float(sum(block.entries for block in problem.sets))
            guard("the objective", OBJECTIVE_COPIES * WRITE_FLOPS * entries)
            terms = goal.to_maximise(problem)
    except LimitError as error:
        return replace(_unproved(str(error), deadline), sense=goal.sense, reading=read_mode, bound=bound)
    try:
        with limited(deadline):
            read = read_as(problem, read_mode)
            terms, factor, example = read_terms(terms, read_mode)
    except (LimitError, ProblemError) as error:
        found = _unproved(f"the numbers as {read_mode}: {error}", deadline)
        return replace(found, sense=goal.sense, reading=read_mode, bound=bound)
    require_tolerances(tol, absolute_tol)
    found_solver = find_solver(solver)
    backend = make_available(found_solver, dict(options or {}))
    offset = READERS[read_mode](finite_number(goal.offset, "the offset of the objective"))

    def watch(low: float, high: float, gap: float) -> None:
        if callback is not None:
            low, high = (-high, -low) if goal.sense == "min" else (low, high)
            callback(_round_down(low, factor, offset), 0.0 - _round_down(-high, factor, -offset), gap)

    settings = Settings(found_solver, backend, tol, absolute_tol * float(factor), deadline, watch, exact)
    try:
        found = _maximum(read.problem, terms, settings)
    except LimitError as error:
        found = _unproved(str(error), deadline)
    low, high = found.lower, found.upper
    if goal.sense == "min":
        low, high = -high, -low
    reason, y, value = found.reason, found.multipliers, found.value
    if value is not None:
        value = (-value if goal.sense == "min" else value) / factor + offset
    elif exact and found.converged and found.infeasible is None and not found.unbounded:
        reason += "; no exact value was proved"
    # Only here are the ends those of the user: a minimum is computed as a maximum.
    missing = [name for name, end in (("lower", low), ("upper", high)) if not math.isfinite(end)]
    if missing and found.infeasible is None and not found.unbounded:
        reason = f"no {' or '.join(missing)} bound could be proved: {reason}"
    if read_mode is not Reading.STORED:
        example = read.example or example
        reason += f"; as {read_mode} ({example})" if example else f"; as {read_mode}, which is as stored"
    lower, upper = _round_down(low, factor, offset), 0.0 - _round_down(-high, factor, -offset)
    if value is not None and not found.unbounded:
        lower, upper = rounded_down(value), 0.0 - rounded_down(-value)
    return replace(
        found,
        lower=lower,
        upper=upper,
        multipliers=None if y is None else read.multipliers(y) / float(factor),
        sense=goal.sense,
        reason=reason,
        time=deadline.elapsed,
        reading=read_mode,
        bound=bound,
        value=value,
    )


def _maximum(problem: FeasibilityProblem, terms: Point, settings: Settings) -> Optimum:
    """Bracket ``max <terms, X>`` by the first reduction or method that applies."""
    if not any(part.any() for part in terms):
        return _maximum_of_zero(problem, settings)
    with limited(settings.deadline):
        parts = split_parts(problem, terms)
    if len(parts) > 1:
        return _sum_of_parts(problem, terms, parts, settings)
    found = _tiny_polyhedron(problem, terms, settings)
    if found is not None:
        return found
    with limited(settings.deadline):
        pairs = meeting_pairs(problem)
    if pairs.problem is problem:
        return _by_programs(problem, terms, settings)
    found = _maximum(pairs.problem, terms, settings)
    if found.infeasible is not None:
        return _infeasible_as_given(found, problem, settings)
    y = found.multipliers
    return replace(found, multipliers=None if y is None else pairs.multipliers(y))


def _unproved(reason: str, deadline: Deadline) -> Optimum:
    return Optimum(-math.inf, math.inf, None, None, "max", False, reason, deadline.elapsed)


def _infeasible(proof: Result, deadline: Deadline) -> Optimum:
    """Return the maximum of an infeasible problem, minus infinity."""
    reason = f"the problem is infeasible: {proof.reason}"
    return Optimum(-math.inf, -math.inf, None, None, "max", True, reason, deadline.elapsed, proof)


#: Reason of an unbounded objective.
UNBOUNDED = "the objective is unbounded along a ray"


def _unbounded(point: Point | None, deadline: Deadline) -> Optimum:
    """Return the maximum of an unbounded objective, infinity, with a feasible point."""
    evidence = point, None, "max", True, UNBOUNDED, deadline.elapsed
    return Optimum(math.inf, math.inf, *evidence, unbounded=True)


def ray_problem(problem: FeasibilityProblem, terms: Point) -> FeasibilityProblem | None:
    """Return the problem whose points are rays ``D`` of the feasible set with ``<terms, D> = 1``.

    From any feasible point the objective grows without bound along such a ray: ``D`` is in the cones, rows
    with two bounds vanish at ``D``, rows with one bound have its sign, and ``F(D) - F(0)`` is in the cones of
    the LMIs. None if a bounded set occurs.
    """
    if any(block.bounded for block in (*problem.sets, *(lmi.set for lmi in problem.lmis))):
        return None
    lower = np.where(np.isfinite(problem.lower), 0.0, -np.inf)
    upper = np.where(np.isfinite(problem.upper), 0.0, np.inf)
    rows = [
        Stacked([as_rows(c[None], block, 1), own])
        for c, (_, block, own) in zip(terms, problem.blocks(), strict=True)
    ]
    lmis = [LMI(lmi.set, np.zeros(lmi.set.shape), lmi.coefficients) for lmi in problem.lmis]
    return FeasibilityProblem(problem.sets, rows, np.append(1.0, lower), np.append(1.0, upper), lmis=lmis)


def _has_ray(problem: FeasibilityProblem, terms: Point, settings: Settings) -> bool:
    """Whether a ray along which the objective grows is proved to exist."""
    rays = ray_problem(problem, terms)
    if rays is None or settings.deadline.expired:
        return False
    limit = min(settings.deadline.left, RAY_SECONDS + settings.deadline.elapsed)
    found = solve(rays, settings.solver, time_limit=limit, rigorous=True)
    return found.check.verdict is Verdict.FEASIBLE


def _infeasible_as_given(found: Optimum, problem: FeasibilityProblem, settings: Settings) -> Optimum:
    """Prove infeasibility of a problem itself, given the proof for a reduction of it, if possible."""
    whole = solve(problem, settings.solver, time_limit=settings.deadline.limit, rigorous=True)
    proved = whole.check.verdict is Verdict.INFEASIBLE
    return replace(found, infeasible=whole if proved else found.infeasible, multipliers=None)


def _maximum_of_zero(problem: FeasibilityProblem, settings: Settings) -> Optimum:
    """Return the maximum of a zero objective: zero, if the problem is feasible."""
    deadline = settings.deadline
    found = solve(problem, settings.solver, time_limit=deadline.limit, rigorous=True)
    if found.verdict is Verdict.INFEASIBLE:
        return _infeasible(found, deadline)
    proved = found.verdict is Verdict.FEASIBLE
    lower, point = (0.0, found.point) if proved else (-math.inf, None)
    reason = "the objective is zero at all points" if proved else found.reason
    zero = np.zeros(problem.multiplier_count)
    value = Fraction(0) if proved else None
    return Optimum(lower, 0.0, point, zero, "max", proved, reason, deadline.elapsed, value=value)


def _sum_of_parts(
    problem: FeasibilityProblem, terms: Point, parts: list[Part], settings: Settings
) -> Optimum:
    """Add the brackets of parts that share no variable; parts without an objective only need a point."""
    share = replace(settings.unwatched, absolute_tol=settings.absolute_tol / len(parts))
    point = tuple(np.zeros(block.shape) for block in problem.sets)
    y = np.zeros(problem.multiplier_count)
    found = list[Optimum]()
    for part in sorted(parts, key=lambda each: sum(rows.entries for rows in each.problem.rows)):
        own = _maximum(part.problem, part.terms(terms), share)
        if own.infeasible is not None:
            return _infeasible_as_given(own, problem, settings)
        if own.point is not None:
            part.place(own.point, point)
        if own.multipliers is not None:
            part.place_multipliers(own.multipliers, y)
        found.append(own)
    if any(own.unbounded for own in found) and all(own.unbounded or own.lower > -math.inf for own in found):
        whole = point if all(own.point is not None for own in found) else None
        return _unbounded(whole, settings.deadline)
    values = [each.value for each in found]
    lower = _sum_rounded_down([each.lower for each in found])
    upper = 0.0 - _sum_rounded_down([-each.upper for each in found])
    closed = relative_gap(lower, upper) <= settings.tol or upper - lower <= settings.absolute_tol
    rest = "; ".join(dict.fromkeys(each.reason for each in found if not each.converged))
    return Optimum(
        lower,
        upper,
        point if all(each.point is not None for each in found) else None,
        y if all(each.multipliers is not None for each in found) else None,
        "max",
        closed,
        CLOSED if closed else rest or "the terms of the parts cancel, so their sum needs narrower brackets",
        settings.deadline.elapsed,
        value=None if None in values else sum(filter(None, values), Fraction(0)),
    )


def _tiny_polyhedron(problem: FeasibilityProblem, terms: Point, settings: Settings) -> Optimum | None:
    """Maximise over a tiny polyhedron by the exact simplex method; None if it is not one, or infeasible."""
    if not settings.automatic or not is_tiny_polyhedron(problem):
        return None
    with limited(settings.deadline), suppress(LimitError):
        found = exact_vertex(problem, terms)
        if found.value is not None:
            if found.unbounded:
                return _unbounded(found.point, settings.deadline)
            lower, upper = rounded_down(found.value), 0.0 - rounded_down(-found.value)
            evidence = found.point, found.multipliers, "max", True, CLOSED
            return Optimum(lower, upper, *evidence, settings.deadline.elapsed, value=found.value)
    return None


def _by_programs(problem: FeasibilityProblem, terms: Point, settings: Settings) -> Optimum:
    """Bracket the maximum by a certified program: the dual of LMIs alone, else the slack form."""
    deadline = settings.deadline
    with limited(deadline):
        joined = merge_opposite_columns(problem, terms)
    without = list[Optimum]()

    def has_no_optimum(feasible: Point | None = None) -> bool:
        without.extend(_without_optimum(problem, terms, settings, feasible))
        return bool(without)

    inner, inner_terms = joined.problem, joined.terms(terms)
    with limited(deadline):
        make = _dual_of_lmis if has_only_lmis(inner) else _slack_form
        found = make(inner, inner_terms, settings, has_no_optimum)
    bracket = found.bracket
    feasible = None if found.point is None else joined.point(found.point)
    if not (without or deadline.expired) and (math.isinf(bracket.lower) or math.isinf(bracket.upper)):
        has_no_optimum(feasible)
    if without:
        return without[0]
    evidence = feasible, found.multipliers, "max", bracket.closed, CLOSED if bracket.closed else found.reason
    return Optimum(bracket.lower, bracket.upper, *evidence, deadline.elapsed, value=found.value)


def _without_optimum(
    problem: FeasibilityProblem, terms: Point, settings: Settings, feasible: Point | None
) -> Iterator[Optimum]:
    """Yield the answer if a problem is proved to be infeasible, or its objective to be unbounded."""
    if feasible is None and settings.automatic:
        whole = solve(problem, settings.solver, time_limit=settings.deadline.limit, rigorous=True)
        if whole.check.verdict is Verdict.INFEASIBLE:
            yield _infeasible(whole, settings.deadline)
        feasible = whole.point if whole.check.verdict is Verdict.FEASIBLE else None
    if feasible is not None and _has_ray(problem, terms, settings):
        yield _unbounded(feasible, settings.deadline)


@dataclass(frozen=True)
class _Found:
    """A bracket with the evidence of its ends, the reason why it is not closed, and the exact value."""

    bracket: Bracket
    point: Point | None
    multipliers: FloatArray | None
    reason: str
    value: Fraction | None


def _slack_form(
    problem: FeasibilityProblem, terms: Point, settings: Settings, has_no_optimum: Callable[[], bool]
) -> _Found:
    """Bracket ``max <terms, X>`` over the slack form of a problem."""
    slacks = problem.slack_form
    more = (np.zeros(block.shape) for block in slacks.problem.sets[len(problem.sets) :])
    independent = _independent(slacks.problem, True, settings.deadline)
    program = ConicProgram(independent.problem, (*terms, *more))
    certified = _certified(program, settings, has_no_optimum, dual_needed=False)
    reason = certified.solve()
    bracket = certified.bracket
    point, y = bracket.point, bracket.certificate
    return _Found(
        bracket,
        None if point is None else slacks.point(point),
        None if y is None else slacks.multipliers(independent.multipliers(y)),
        reason,
        certified.value,
    )


def _dual_of_lmis(
    problem: FeasibilityProblem, terms: Point, settings: Settings, has_no_optimum: Callable[[], bool]
) -> _Found:
    """Bracket ``max c'x`` over LMIs ``F(x) = F_0 + sum_i x_i F_i`` in free variables by the dual program.

    The dual maximises ``<-F_0, Y>`` over ``Y`` in the cones with ``<F_i, Y> = -c_i``. By weak duality
    ``c'x <= -<-F_0, Y>``, and dual multipliers ``y`` of it are a point ``x = -y`` of the LMIs. Dependent rows
    exist unless ``x`` is unique.
    """
    right = -np.concatenate(terms)
    dual = FeasibilityProblem([lmi.set for lmi in problem.lmis], _dual_rows(problem), right, right)
    independent = _independent(dual, True, settings.deadline)
    objective = tuple(-lmi.constant for lmi in problem.lmis)
    program = ConicProgram(independent.problem, objective)
    turned = replace(settings, watch=lambda low, high, gap: settings.watch(-high, -low, gap))
    certified = _certified(program, turned, has_no_optimum, dual_needed=True)
    reason = certified.solve()
    own, y = certified.bracket, certified.bracket.certificate
    bracket = Bracket(own.family, own.tol, own.absolute_tol, 0.0 - own.upper, 0.0 - own.lower)
    cuts = np.cumsum([block.n for block in problem.sets])[:-1]
    return _Found(
        bracket,
        None if y is None else tuple(np.split(-independent.multipliers(y), cuts)),
        None if own.point is None else np.concatenate([part.reshape(-1) for part in own.point]),
        reason,
        None if certified.value is None else -certified.value,
    )


def has_only_lmis(problem: FeasibilityProblem) -> bool:
    """Whether a problem consists of LMIs into cones in free variables, without rows."""
    cones = all(block.free for block in problem.sets) and all(lmi.set.cone for lmi in problem.lmis)
    return bool(problem.lmis) and not problem.m and cones


def _dual_rows(problem: FeasibilityProblem) -> list[Any]:
    """Return the coefficients of every LMI, one row per unknown."""
    out = []
    for lmi in problem.lmis:
        parts = lmi.coefficients
        out.append(parts[0] if len(parts) == 1 else Stacked(parts))
    return out


def _certified(
    program: ConicProgram, settings: Settings, has_no_optimum: Callable[[], bool], *, dual_needed: bool
) -> CertifiedProgram:
    """Return the certified program for these settings."""
    # On a face only the lower end counts then, and multipliers of the whole problem are less accurate.
    share = FACE_TOLERANCE_SHARE if dual_needed else 1.0
    inner = replace(settings.unwatched, tol=share * settings.tol, exact=False)

    def bracket_maximum(smaller: ConicProgram) -> tuple[float, float, Point | None]:
        found = _maximum(smaller.problem, smaller.objective, inner)
        return found.lower, found.upper, found.point

    if not settings.backend.maximises:
        raise BackendError(f"backend {settings.backend.name!r} takes no objective")
    return CertifiedProgram(program, settings, bracket_maximum, has_no_optimum, dual_needed)


def _independent(problem: FeasibilityProblem, wanted: bool, deadline: Deadline) -> DropRedundantRows:
    """Remove dependent rows if they are found quickly: rounding makes them inconsistent, and unprovable."""
    entries = sum(rows.entries for rows in problem.rows)
    if wanted and (problem.m <= MAX_ROWS or entries <= MAX_DEPENDENT_ENTRIES):
        with limited(deadline), suppress(LimitError):
            return independent_rows(problem)
    return DropRedundantRows(problem, problem, None, np.arange(problem.m), {})


def _round_down(value: float, factor: Fraction, offset: Fraction) -> float:
    """Return the largest double that is at most ``value / factor + offset``."""
    return rounded_down(Fraction(value) / factor + offset) if math.isfinite(value) else value


def _sum_rounded_down(values: list[float]) -> float:
    """Return the largest double that is at most a sum; minus infinity if a term is infinite."""
    finite = all(math.isfinite(value) for value in values)
    return rounded_down(sum(map(Fraction, values), Fraction(0))) if finite else -math.inf
