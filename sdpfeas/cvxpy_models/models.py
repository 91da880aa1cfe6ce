"""Models of cvxpy: asked like problems, and answered in their own terms.

Constraints are what a conflict is made of, by their label or as written; values and dual values are set on
the variables and constraints. What is proved is proved of the problem the model was converted to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sdpfeas.cvxpy_models import CvxpyForm, convert
from sdpfeas.cvxpy_models.blocks import Blocks
from sdpfeas.cvxpy_models.comparison import violated
from sdpfeas.cvxpy_models.conflicts import contradiction, evidence, irreducible, shares
from sdpfeas.cvxpy_models.constraints import Part, spoken
from sdpfeas.cvxpy_models.relaxation import Loosening, loosenings
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import ClaimError, hint
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.verifier import verify
from sdpfeas.verifier.conflicts import Conflict
from sdpfeas.verifier.results import Check, Claim, Result
from sdpfeas.verifier.verdicts import Verdict

#: How far values of functions (norms, largest eigenvalues) are looked for beyond what values allow.
NEAR = 1e-7

#: A repair that changes a value by more than this, relative to the largest, is spoken of.
SMALL_MOVE = 1e-6

#: Asks a backend a problem.
Ask = Callable[[FeasibilityProblem], Result]


@dataclass(frozen=True)
class ConstraintConflict(Conflict):
    """A constraint of a model, or what an attribute of a variable says, with its part in a contradiction.

    Attributes
    ----------
    constraint, variable : optional
        The constraint, or the variable whose attribute it is. ``multiplier`` is the dual value.
    """

    constraint: Any = None
    variable: Any = None

    def described(self, problem: FeasibilityProblem) -> str:
        """Nothing more: the name says it."""
        return ""


@dataclass(frozen=True, repr=False)
class ModelCheck(Check):
    """A check of a cvxpy model: conflicts are constraints.

    Attributes
    ----------
    form : CvxpyForm
        The model with the ways to its problem and back.
    ask : callable
        Answers parts of the problem, for conflicts that cannot be made smaller.
    """

    form: CvxpyForm | None = None
    ask: Ask | None = None

    def conflict(self, *, prune: bool = False, sets: bool = False) -> list[Conflict]:
        """Constraints that contradict each other, heaviest first; empty unless infeasible.

        Parameters
        ----------
        prune : bool
            Leave out constraints as long as the rest is proved infeasible; each costs a solve. What remains
            is irreducible: without any one of them there is a point, or none is proved missing.
        sets : bool
            Makes no difference: what attributes of variables say is always listed.
        """
        assert self.form is not None
        form, z = self.form, evidence(self.form.blocks, self)
        if z is None:
            return []
        parts = shares(form, z)
        if prune and self.ask is not None:
            z = irreducible(form, [part for part, _ in parts], self.ask, z)
            parts = shares(form, z)
        # Of a longer chain there are no dual values: its multipliers work one after the other.
        duals = {} if contradiction(self) is None else form.canonical.invert_duals(z)
        return [self._entry(part, share, duals) for part, share in parts]

    def _entry(self, part: Part, share: float, duals: dict[int, Any]) -> ConstraintConflict:
        assert self.form is not None
        number = self.form.number(part.constraint)
        dual = duals.get(-1 if number is None else number, np.nan)
        return ConstraintConflict(
            row=None,
            name=part.name,
            multiplier=dual,
            weight=share,
            side="constraint",
            constraint=part.constraint,
            variable=part.variable,
        )

    def loosen(
        self, *, limit: int = 5, tol: float = 1e-3, time_limit: float | None = None
    ) -> list[Loosening]:
        """By how much each constraint of the conflict would have to be loosened, all others as they are.

        Parameters
        ----------
        limit : int
            How many constraints to try at most, heaviest first.
        tol : float
            Relative width of the brackets.
        time_limit : float, optional
            Seconds in all.
        """
        assert self.form is not None
        z = evidence(self.form.blocks, self)
        if z is None:
            return []
        parts = shares(self.form, z)
        return loosenings(self.form, [part for part, _ in parts[:limit]], tol, Deadline(time_limit))

    def explain(self, *, prune: bool = False, limit: int = 10) -> str:
        """Say in words what was proved; for an infeasible model with the constraints in conflict.

        Parameters
        ----------
        prune : bool
            List an irreducible conflict.
        limit : int
            How many constraints to list at most.
        """
        lines = [f"{self.verdict.upper()}" + (f" ({self.proof} proof)" if self.proof else ""), self.reason]
        if self.margin is not None:
            lines.append(f"margin: {self.margin:.3g}, relative to the size of the data")
        found = self.conflict(prune=prune)
        if found:
            lines.append(f"conflicting constraints ({len(found)}), heaviest first:")
            lines += [f"  {entry.weight:7.2%}  {entry.name}" for entry in found[:limit]]
            if len(found) > limit:
                lines.append(f"  … and {len(found) - limit} more")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class ModelResult(Result):
    """The answer to a cvxpy model. Values and dual values are set on its variables and constraints."""

    @property
    def form(self) -> CvxpyForm:
        """The model with the ways to its problem and back."""
        assert isinstance(self.check, ModelCheck)
        assert self.check.form is not None
        return self.check.form

    def loosen(
        self, *, limit: int = 5, tol: float = 1e-3, time_limit: float | None = None
    ) -> list[Loosening]:
        """By how much each constraint of the conflict must be loosened; see :meth:`ModelCheck.loosen`."""
        assert isinstance(self.check, ModelCheck)
        return self.check.loosen(limit=limit, tol=tol, time_limit=time_limit)

    def __getitem__(self, variable: Any) -> Any:
        """The value of a variable at the point, by the variable or its name."""
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
        """The dual value of a constraint, by the constraint, its label, or as it is written."""
        whole = contradiction(self.check)
        if whole is None:
            raise ClaimError(f"there are no multipliers: the verdict is {self.verdict}, {self.reason}")
        duals = self.form.duals(whole)
        for constraint, dual in duals.items():
            if constraint is row or (isinstance(row, str) and row in (constraint.label, spoken(constraint))):
                return dual
        named = [spoken(constraint) for constraint in duals]
        raise ClaimError(f"no constraint of the model is {str(row)!r}; {hint(str(row), named)}")


def solve_model(model: Any, *arguments: Any, **settings: Any) -> ModelResult:
    """Answer a cvxpy model; see :func:`sdpfeas.solve` for the settings."""
    form = convert(model)
    result = solve(form.problem, *arguments, **settings)
    again = {name: settings[name] for name in ("rigorous", "options") if name in settings}

    def ask(problem: FeasibilityProblem) -> Result:
        return solve(problem, *arguments, time_limit=settings.get("time_limit"), **again)

    check = _model_check(result.check, form, ask)
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
    """Verify the values and dual values that a cvxpy model has, from whatever solver, or a claim."""
    form = convert(model)
    deadline = Deadline(time_limit)
    note = ""
    if claim is None:
        claim, note = _claim_there(form, deadline)
    check = verify(form.problem, claim, time_limit=deadline.limit, **{**settings, "repair": False})
    if check.verdict is Verdict.UNDECIDED and settings.get("repair", True):
        check = verify(form.problem, claim, time_limit=deadline.limit, **settings)
        if claim.point is not None and check.verdict is Verdict.FEASIBLE and check.point is not None:
            moved = _moved(form, claim.point, check.point)
            if moved > SMALL_MOVE:
                note += f"; it had to be moved: values there differ by up to {moved:.2g} from those given"

    def ask(problem: FeasibilityProblem) -> Result:
        return solve(problem, time_limit=time_limit)

    return _model_check(check, form, ask, note)


def _model_check(check: Check, form: CvxpyForm, ask: Ask, note: str = "") -> ModelCheck:
    facts = {field.name: getattr(check, field.name) for field in fields(Check)}
    objective = form.original.objective
    if not objective.expr.is_constant():
        note += "; the objective is no part of the question (sf.optimum brackets it)"
    facts["reason"] += note
    if check.verdict is Verdict.FEASIBLE and check.point is not None:
        wrong = violated(form, check.point)
        if wrong:
            nothing = dict.fromkeys(("proof", "margin", "point", "certificate", "rational", "chain"))
            facts.update(nothing, verdict=Verdict.UNDECIDED, reason=wrong, repairs=())
    return ModelCheck(**facts, form=form, ask=ask)


def _assign(check: ModelCheck, form: CvxpyForm) -> None:
    """Set values and dual values, as cvxpy does when it is told a status."""
    if check.verdict is Verdict.FEASIBLE and check.point is not None:
        form.assign(check.point)
    elif check.verdict is Verdict.INFEASIBLE:
        for variable in form.original.variables():
            variable.save_value(None)
        whole = contradiction(check)
        if whole is not None:
            form.assign_duals(whole)


def _claim_there(form: CvxpyForm, deadline: Deadline) -> tuple[Claim, str]:
    """What the values and dual values of a model claim, and what is missing."""
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
        point = _completed(form, values, deadline)
        if point is None:
            note = (
                "; no values of the functions in the constraints were found that fit those of the variables"
            )
    return Claim(point=point, certificate=form.start_multipliers(duals) if duals else None), note


def _moved(form: CvxpyForm, given: Point, point: Point) -> float:
    """The largest change of a value between two points, relative to the largest value."""
    own = ~form.auxiliary
    before, after = form.columns(given)[own], form.columns(point)[own]
    return float(
        np.max(np.abs(after - before), initial=0.0) / max(np.max(np.abs(before), initial=0.0), 1e-300)
    )


def _completed(form: CvxpyForm, values: dict[Any, Any], deadline: Deadline) -> Point | None:
    """The point at some values, auxiliary variables chosen to fit; None if none are found."""
    x, _ = form.value_way.forth({v.id: value for v, value in values.items()})
    left = form.canonical.completing(x, form.auxiliary, NEAR)
    if left is None:
        return form.blocks.forth(x)
    blocks = Blocks(left)
    found = solve(blocks.problem(), time_limit=deadline.limit)
    if found.point is None:
        return None
    x[form.auxiliary] = blocks.columns(found.point)
    return form.blocks.forth(x)
