"""Solve, verify, optimise and bisect cvxpy models, with results in terms of the model.

:func:`solve_model`, :func:`verify_model`, :func:`optimum_model` and :func:`bisect_model` are what the public
functions call for a ``cvxpy.Problem``. Conflicts list constraints by label or as written, and values and dual
values are set on variables and constraints. Verdicts are about the converted problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.registry import Solver
from sdpfeas.claims import Claim, Verdict
from sdpfeas.cvxpy_models import CvxpyForm, convert
from sdpfeas.cvxpy_models.blocks import Blocks
from sdpfeas.cvxpy_models.bounded_models import convert_within
from sdpfeas.cvxpy_models.comparison import describe_violation, require_satisfied
from sdpfeas.cvxpy_models.constraints import describe_constraint
from sdpfeas.cvxpy_models.model_conflicts import ModelAnalysis
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bracket import BisectionResult, Question, Search, Step
from sdpfeas.drivers.infeasibility import farkas_certificate
from sdpfeas.drivers.optimum import Optimum, optimum
from sdpfeas.drivers.solve import backend_options, solve, without_bound
from sdpfeas.errors import ClaimError, ProblemError, hint
from sdpfeas.escaping import visible
from sdpfeas.extras import cvxpy
from sdpfeas.families.parametric_family import MonotoneFamily
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import Sense
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.bounded_variables import Bound
from sdpfeas.verifier import verify
from sdpfeas.verifier.outcome import Proof
from sdpfeas.verifier.results import NOTED_RADIUS, Check, Result, labelled

#: Relative slack of the constraints while values of auxiliary variables (norms, eigenvalues) are computed.
COMPLETION_SLACK = 1e-7

#: A repair that changes a value by more than this, relative to the largest, is reported.
REPORTED_CHANGE = 1e-6


@dataclass(frozen=True, repr=False)
class ModelCheck(Check):
    """A check of a cvxpy model: conflicts are constraints.

    Attributes
    ----------
    form : CvxpyForm
        The reduction of the model to its problem.
    sets_duals : bool
        Whether a Farkas certificate is assigned to the dual values of the constraints.
    """

    form: CvxpyForm | None = None
    sets_duals: bool = False

    @cached_property
    def farkas_certificate(self) -> FloatArray | None:
        """Multipliers that prove infeasibility in one step; None for a weakly infeasible model.

        Those of a facial reduction certificate are computed when they are first needed, since they take up to
        four verifications. With ``sets_duals`` they become the dual values of the constraints.
        """
        found = farkas_certificate(self)
        if self.sets_duals and self.form is not None and found is not None:
            self.form.assign_duals(found)
        return found

    @cached_property
    def _analysis(self) -> ModelAnalysis:
        return ModelAnalysis(self)

    def explain(self, *, prune: bool = False, limit: int = 10, time_limit: float | None = None) -> str:
        """Explain the verdict; for an infeasible model with the constraints in conflict.

        Parameters
        ----------
        prune : bool
            List a minimal conflict.
        limit : int
            Most constraints to list.
        time_limit : float, optional
            Seconds for ``prune``.
        """
        lines = [labelled(self), self.reason]
        if self.margin is not None:
            lines.append(f"margin: {self.margin:.3g}, relative to the size of the data")
        found = self.conflict(prune=prune, time_limit=time_limit)
        if found:
            lines.append(f"conflicting constraints ({len(found)}), heaviest first:")
            lines += [f"  {entry.weight:7.2%}  {entry.name}" for entry in found[:limit]]
            if len(found) > limit:
                lines.append(f"  … and {len(found) - limit} more")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class ModelResult(Result):
    """The result of a cvxpy model. Values and dual values are set on its variables and constraints."""

    @property
    def form(self) -> CvxpyForm:
        """The reduction of the model to its problem."""
        assert isinstance(self.check, ModelCheck)
        assert self.check.form is not None
        return self.check.form

    def __getitem__(self, variable: Any) -> Any:
        """Return the value of a variable at the point, by the variable or its name."""
        if self.point is None:
            raise ClaimError(f"there is no point to take a value from: the verdict is {self.verdict}")
        values = self.form.values(self.point)
        named = {v.name(): value for v, value in values.items()}
        if isinstance(variable, str) and variable in named:
            return named[variable]
        for each, value in values.items():
            if each is variable:
                return value
        name = variable if isinstance(variable, str) else str(variable)
        raise ClaimError(f"no variable of the model is {name!r}; {hint(name, named)}")

    def multiplier(self, row: Any) -> Any:
        """Return the dual value of a constraint, by the constraint, its label, or as it is written."""
        assert isinstance(self.check, ModelCheck)
        whole = self.check.farkas_certificate
        if whole is None:
            raise ClaimError(f"there are no multipliers: the verdict is {self.verdict}, {self.reason}")
        duals = self.form.duals(whole)
        for constraint, dual in duals.items():
            if constraint is row or (
                isinstance(row, str) and row in (constraint.label, describe_constraint(constraint))
            ):
                return dual
        named = [describe_constraint(constraint) for constraint in duals]
        raise ClaimError(f"no constraint of the model is {str(row)!r}; {hint(str(row), named)}")


def solve_model(model: Any, *arguments: Any, **settings: Any) -> ModelResult:
    """Decide the constraints of a cvxpy model; the settings are those of :func:`sdpfeas.solve`."""
    bound, deadline = settings.pop("bound", None), Deadline(settings.get("time_limit"))
    form = convert_within(model, bound)
    result = solve(form.problem, *arguments, **settings)
    if bound is not None:
        plain = convert(model)
        whole = without_bound(result, deadline)
        if whole.problem == plain.problem:
            result, form = whole, plain
    check = replace(_model_check(result.check, form), sets_duals=True)
    _assign(check, form)
    facts = {field.name: getattr(result, field.name) for field in fields(Result)}
    return ModelResult(**{**facts, "check": check})


def verify_model(
    model: Any,
    claim: Claim | Result | Check | None = None,
    *,
    time_limit: float | None = None,
    **settings: Any,
) -> ModelCheck:
    """Verify a claim, or without one the current values and dual values of a cvxpy model."""
    form = convert(model)
    deadline = Deadline(time_limit)
    note = ""
    if claim is None:
        claim, note = _claim_of_values(form, deadline)
    check = verify(form.problem, claim, time_limit=deadline.limit, **{**settings, "repair": False})
    if check.verdict is Verdict.UNDECIDED and settings.get("repair", True):
        check = verify(form.problem, claim, time_limit=deadline.limit, **settings)
        if claim.point is not None and check.verdict is Verdict.FEASIBLE and check.point is not None:
            moved = _largest_change(form, claim.point, check.point)
            if moved > REPORTED_CHANGE:
                note += f"; the point was repaired: its values differ by up to {moved:.2g} from those given"
    return _model_check(check, form, note)


def _model_check(check: Check, form: CvxpyForm, note: str = "") -> ModelCheck:
    facts = {field.name: getattr(check, field.name) for field in fields(Check)}
    objective = form.original.objective
    if not objective.expr.is_constant():
        note += "; the objective is ignored (sf.optimum brackets it)"
    if check.excluded_radius >= NOTED_RADIUS:
        note += "; the norm is that of the canonical form, auxiliary variables included"
    facts["reason"] += note
    if check.verdict is Verdict.FEASIBLE and check.point is not None:
        wrong = describe_violation(form, check.point)
        if wrong:
            nothing = dict.fromkeys(
                ("proof", "margin", "point", "certificate", "rational", "chain", "radius")
            )
            facts.update(nothing, verdict=Verdict.UNDECIDED, reason=wrong, repairs=())
    return ModelCheck(**facts, form=form)


def _assign(check: ModelCheck, form: CvxpyForm) -> None:
    """Set values and dual values, as cvxpy does after a solve."""
    if check.verdict is Verdict.FEASIBLE and check.point is not None:
        form.assign(check.point)
    elif check.verdict is Verdict.INFEASIBLE:
        duals = (dual for constraint in form.original.constraints for dual in constraint.dual_variables)
        for variable in (*form.original.variables(), *duals):
            variable.save_value(None)
        # For a certificate of several steps this would cost more than the verdict.
        if check.chain is None or len(check.chain) == 1:
            _ = check.farkas_certificate


def _claim_of_values(form: CvxpyForm, deadline: Deadline) -> tuple[Claim, str]:
    """Return the values and dual values of a model as a claim, and a note on what is missing."""
    values = {v: v.value for v in form.original.variables()}
    missing = [v.name() for v, value in values.items() if value is None]
    duals = {}
    for constraint in form.original.constraints:
        there = [dual.value for dual in constraint.dual_variables]
        if there and all(value is not None for value in there):
            duals[constraint] = there[0] if len(there) == 1 else there
    if len(missing) == len(values) and not duals:
        raise ClaimError("there is nothing to verify: no variable has a value and no constraint a dual value")
    point = None
    note = ""
    if missing:
        note = f"; variables without a value: {', '.join(missing)}" if len(missing) < len(values) else ""
    else:
        point = _complete_point(form, values, deadline)
        if point is None:
            note = "; no values of the auxiliary variables were found that fit those of the variables"
    return Claim(point=point, certificate=form.start_multipliers(duals) if duals else None), note


def _largest_change(form: CvxpyForm, given: Point, point: Point) -> float:
    """Return the largest change of a value between two points, relative to the largest value."""
    own = ~form.auxiliary
    before, after = form.columns(given)[own], form.columns(point)[own]
    return float(
        np.max(np.abs(after - before), initial=0.0) / max(np.max(np.abs(before), initial=0.0), 1e-300)
    )


def _complete_point(form: CvxpyForm, values: dict[Any, Any], deadline: Deadline) -> Point | None:
    """Return the point at given values, with auxiliary variables that fit; None if none are found."""
    x, _ = form.value_map.forth({v.id: value for v, value in values.items()})
    left = form.canonical.completing(x, form.auxiliary, COMPLETION_SLACK)
    if left is None:
        return form.blocks.forth(x)
    blocks = Blocks(left)
    found = solve(blocks.problem(), time_limit=deadline.limit)
    if found.point is None:
        return None
    x[form.auxiliary] = blocks.columns(found.point)
    return form.blocks.forth(x)


def optimum_model(model: Any, *arguments: Any, bound: Bound | None = None, **settings: Any) -> Optimum:
    """Bracket the optimal value of a cvxpy model; the settings are those of :func:`sdpfeas.optimum`.

    For a minimum, ``f(x) <= t`` becomes a constraint and ``t`` is minimised, so any objective with an exact
    canonical form is accepted. The variables get the values of the point found.
    """
    cp = cvxpy()
    sense: Sense = "min" if isinstance(model.objective, cp.Minimize) else "max"
    goal = model.objective.expr
    if goal.is_constant():
        raise ProblemError("the objective is constant; sf.solve decides the constraints")
    level = cp.Variable(name="the value of the objective")
    reached = (goal <= level) if sense == "min" else (goal >= level)
    form = convert_within(model, bound, [reached.set_label("objective")])
    column = np.zeros(form.canonical.matrix.shape[1])
    column[form.value_map.places[level.id]] = form.value_map.factors[level.id] != 0.0
    found = optimum(form.problem, form.blocks.objective(column, sense), *arguments, **settings)
    if found.point is not None:
        require_satisfied(form, found.point)
        form.assign(found.point)
    return replace(found, bound=bound)


# --- Bisection over a parameter, as for quasiconvex problems: feasible at one end, infeasible at the other.

#: Most solves until one feasible and one infeasible value are found.
MAX_EXPLORING_SOLVES = 40


@dataclass(frozen=True, repr=False)
class ParameterBracket(BisectionResult):
    """A bracket of a parameter: the model is feasible at one end and infeasible at the other.

    Attributes
    ----------
    feasible : {"lower", "upper"}
        The feasible end. The parameter and the variables are set to its values, and the constraints to the
        dual values of the other end.
    name : str
        The parameter.
    """

    feasible: Literal["lower", "upper"] = "lower"
    name: str = ""

    def __repr__(self) -> str:
        """Show the bracket, the number of solves and the stop reason in one line."""
        return (
            f"ParameterBracket: {self._title()} "
            f"({self.proved_ends}, {self.solves} solve(s), {self.time:.3g} s): {self.reason}"
        )

    def _title(self) -> str:
        ends = (self.lower, self.upper) if self.feasible == "lower" else (self.upper, self.lower)
        return f"{self.name} = {ends[0]:.8g} is feasible, {ends[1]:.8g} is not"


class _ParameterFamily(MonotoneFamily):
    """A cvxpy model as a family: ``delta`` is ``sign`` times its parameter.

    The sign is that of a model which is feasible for small values, until an infeasible one is found below.
    """

    def __init__(self, model: Any, parameter: Any, bound: Bound | None) -> None:
        self.model, self.parameter, self.bound, self.sign = model, parameter, bound, 1.0

    def form_at(self, delta: float) -> CvxpyForm:
        """Set the parameter, and convert the model."""
        self.parameter.value = self.sign * delta
        return convert_within(self.model, self.bound)

    def at(self, delta: float) -> FeasibilityProblem:
        """Return the problem of the model at ``delta``."""
        return self.form_at(delta).problem

    def admits(self, value: float) -> bool:
        """Whether the attributes of the parameter, such as a sign, admit a value."""
        try:
            self.parameter.value = value
        except ValueError:
            return False
        return True


class _ParameterSearch(Search):
    """The bracket loop over a parameter, in a direction that is known when both verdicts were proved."""

    family: _ParameterFamily

    def explore(self, lower: float | None, upper: float | None, start: Any) -> None:
        """Set the values to try until both verdicts are proved."""
        values = filter(self.family.admits, _trial_values(lower, upper, start))
        self._values = islice(values, MAX_EXPLORING_SOLVES)

    @property
    def both(self) -> bool:
        """Whether a feasible and an infeasible value are proved."""
        return math.isfinite(self.bracket.lower) and math.isfinite(self.bracket.upper)

    @property
    def ends(self) -> tuple[float, float]:
        """Both values of the parameter in order; infinite unless both verdicts are proved."""
        low, high = sorted((self.family.sign * self.bracket.lower, self.family.sign * self.bracket.upper))
        return (low, high) if self.both else (-math.inf, math.inf)

    def choose(self, stalled: int) -> Question | None:
        """Return the next value to try, then values inside the bracket."""
        return super().choose(stalled) if self.both else next(self._values, None)

    def exhausted_reason(self) -> str:
        """Return the stop reason if there is no value left to try."""
        if self.both:
            return "no further value fits into the bracket"
        verdicts = {step.verdict for step in self.history} - {Verdict.UNDECIDED}
        return f"{verdicts.pop()} at every value tried" if verdicts else "no value was decided"

    def ask(self, question: Question) -> Step:
        """Solve at a value; turn the direction if the model is feasible above an infeasible value."""
        family, bracket = self.family, self.bracket
        value = family.sign * float(question)
        step = super().ask(question)
        if bracket.lower > bracket.upper:
            family.sign = -1.0
            bracket.mirror()
        low, high = self.ends
        return replace(step, delta=value, lower=low, upper=high)

    def judge(self, delta: float, inquiry: Inquiry, claim: Claim) -> tuple[Verdict, Proof | None, str]:
        """Require that a feasible point satisfies the constraints as cvxpy evaluates them."""
        verdict, proof, reason = super().judge(delta, inquiry, claim)
        if verdict is Verdict.FEASIBLE and self.bracket.lower == delta and self.bracket.point is not None:
            require_satisfied(self.family.form_at(delta), self.bracket.point)
        return verdict, proof, reason

    def result(self, reason: str) -> ParameterBracket:
        """Set values and dual values on the model, and return the bracket."""
        family, bracket = self.family, self.bracket
        if bracket.certificate is not None:
            family.form_at(bracket.upper).assign_duals(bracket.certificate)
        if bracket.point is not None:
            family.form_at(bracket.lower).assign(bracket.point)
        found = super().result(reason)
        facts = {field.name: getattr(found, field.name) for field in fields(BisectionResult)}
        facts.update(lower=self.ends[0], upper=self.ends[1], initial=(-math.inf, math.inf))
        facts.update(bound=family.bound, proven=self.both, converged=self.both and bracket.closed)
        feasible: Literal["lower", "upper"] = "lower" if family.sign > 0.0 or not self.both else "upper"
        return ParameterBracket(**facts, feasible=feasible, name=visible(family.parameter.name()))


def bisect_model(
    model: Any,
    parameter: Any = None,
    solver: str | Path | type[FeasibilityBackend] | Solver = "auto",
    tol: float = 1e-3,
    lower: float | None = None,
    upper: float | None = None,
    time_limit: float | None = None,
    callback: Callable[[Step], Any] | None = None,
    *,
    absolute_tol: float = 1e-9,
    bound: Bound | None = None,
    options: Mapping[str, Any] | None = None,
) -> ParameterBracket:
    """Bracket the value of a scalar parameter at which a cvxpy model stops being feasible.

    The verdicts at both ends are proved; that feasibility is monotone in the parameter is assumed. ``lower``
    and ``upper`` are solved first. The other settings are those of :func:`sdpfeas.bisect`.
    """
    _require_parameter(model, parameter)
    family, before = _ParameterFamily(model, parameter, bound), parameter.value
    search = _ParameterSearch(
        family, solver, tol, absolute_tol, time_limit, callback, backend_options(options)
    )
    search.explore(lower, upper, before)
    found = None
    try:
        found = search.run()
        assert isinstance(found, ParameterBracket)
        return found
    finally:
        if found is None or found.point is None:
            parameter.value = before


def _require_parameter(model: Any, parameter: Any) -> None:
    names = ", ".join(p.name() for p in model.parameters()) or "none"
    if parameter is None or isinstance(parameter, (str, bytes)) or not hasattr(parameter, "is_constant"):
        raise ProblemError(
            "to bisect a cvxpy model, give one of its parameters, as in sf.bisect(problem, t); it has: "
            f"{names}. The objective is bracketed by sf.optimum"
        )
    if not any(parameter is each for each in model.parameters()):
        raise ProblemError(f"the model has no such parameter; it has: {names}")
    if parameter.size != 1:
        raise ProblemError(
            f"parameter {parameter.name()} has shape {parameter.shape}; only a scalar can be bisected"
        )


def _trial_values(lower: float | None, upper: float | None, start: Any) -> Iterator[float]:
    """Yield values to try: the given ends, the start, then values at growing distances."""
    yield from (float(end) for end in (lower, upper) if end is not None)
    if lower is not None and upper is not None:
        return
    middle = next((float(v) for v in (lower, upper, start) if v is not None), 0.0)
    yield middle
    reach = max(abs(middle), 1.0)
    while math.isfinite(reach):
        if upper is None:
            yield middle + reach
        if lower is None:
            yield middle - reach
        reach *= 4.0
