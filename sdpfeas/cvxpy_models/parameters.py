"""A bracket of a cvxpy ``Parameter``: feasible at one end, infeasible at the other, both proved.

That is what a quasiconvex problem asks for: fix the level, and every question is convex. cvxpy's own
bisection believes the statuses of solvers; this one moves on proofs only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.registry import Solver
from sdpfeas.cvxpy_models import CvxpyForm, convert
from sdpfeas.cvxpy_models.comparison import require_met
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bracket import relative_gap
from sdpfeas.drivers.bracket_search import BisectionResult, Step, require_tolerances
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import ProblemError
from sdpfeas.escaping import visible
from sdpfeas.verifier.results import Check
from sdpfeas.verifier.verdicts import Verdict

#: Where in the bracket to ask, while nothing is decided.
PLACES = (0.5, 0.8, 0.2, 0.95, 0.05)

#: Solves at most, whatever happens, and at most until both ends are there.
MAX_SOLVES = 200
MAX_EXPLORING = 40


@dataclass(frozen=True, repr=False)
class ParameterBracket(BisectionResult):
    """A bracket of a parameter: the model has a point at one end and none at the other.

    Attributes
    ----------
    feasible : {"lower", "upper"}
        At which end there is a point. The parameter and the variables have the values of that end now, and
        the constraints the dual values of the other.
    name : str
        The parameter.
    """

    feasible: Literal["lower", "upper"] = "lower"
    name: str = ""

    def __repr__(self) -> str:
        """The bracket and how it came about, in one line."""
        proven = "proven" if self.proven else "not proven"
        return (
            f"ParameterBracket: {self._ends()} "
            f"({proven}, {self.solves} solve(s), {self.time:.3g} s): {self.reason}"
        )

    def _ends(self) -> str:
        ends = (self.lower, self.upper) if self.feasible == "lower" else (self.upper, self.lower)
        return f"{self.name} = {ends[0]:.8g} is feasible, {ends[1]:.8g} is not"


class _Asking:
    """A model asked at values of its parameter, and what was proved so far."""

    def __init__(self, model: Any, parameter: Any, ask: Callable[[CvxpyForm, float | None], Check]) -> None:
        self.model, self.parameter, self._ask = model, parameter, ask
        self.ends: dict[Verdict, tuple[float, CvxpyForm, Check]] = {}
        self.history: list[Step] = []

    def at(self, value: float, deadline: Deadline) -> Verdict:
        """Ask at a value, and keep what is proved."""
        begin = deadline.elapsed
        self.parameter.value = value
        form = convert(self.model)
        check = self._ask(form, deadline.limit)
        if check.verdict is Verdict.FEASIBLE and check.point is not None:
            require_met(form, check.point)
        if check.verdict is not Verdict.UNDECIDED:
            self.ends[check.verdict] = (value, form, check)
        low, high = self.bracket
        self.history.append(
            Step(value, check.verdict, check.proof, low, high, None, deadline.elapsed - begin, check.reason)
        )
        return check.verdict

    @property
    def bracket(self) -> tuple[float, float]:
        """What is known, in order; infinite where nothing is."""
        values = sorted(value for value, _, _ in self.ends.values())
        return (values[0], values[1]) if len(values) == 2 else (-math.inf, math.inf)


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
    options: Mapping[str, Any] | None = None,
) -> ParameterBracket:
    """Bracket the value of a parameter at which a cvxpy model stops being feasible.

    Parameters
    ----------
    model : cvxpy.Problem
        A model that is convex for every value of the parameter; its objective is no part of the question.
    parameter : cvxpy.Parameter
        A scalar. That feasibility is monotone in it is the user's word: what is proved is the verdict at
        both ends.
    solver, tol, time_limit, callback, absolute_tol, options
        As for families.
    lower, upper : float, optional
        Look between these; both are asked first.
    """
    _require_parameter(model, parameter)
    require_tolerances(tol, absolute_tol)
    deadline = Deadline(time_limit)

    def ask(form: CvxpyForm, limit: float | None) -> Check:
        found = solve(form.problem, solver, time_limit=limit, rigorous=True, options=options)
        return found.check

    asking, before = _Asking(model, parameter, ask), parameter.value
    try:
        reason = _explored(asking, lower, upper, before, deadline, callback)
        if not reason:
            reason = _closed(asking, tol, absolute_tol, deadline, callback)
    finally:
        parameter.value = before
    return _result(asking, reason, tol, absolute_tol, deadline)


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
            f"parameter {parameter.name()} has shape {parameter.shape}; a scalar can be bracketed"
        )


def _explored(
    asking: _Asking,
    lower: float | None,
    upper: float | None,
    start: Any,
    deadline: Deadline,
    callback: Callable[[Step], Any] | None,
) -> str:
    """Ask until there are both kinds of ends; why not, else."""
    for k, value in enumerate(_places(lower, upper, start)):
        if deadline.expired:
            return "time limit"
        if k == MAX_EXPLORING:
            break
        if not _allowed(asking.parameter, value):
            continue
        asking.at(value, deadline)
        if callback is not None and callback(asking.history[-1]):
            return "stopped by the callback"
        if len(asking.ends) == 2:
            return ""
    only = next(iter(asking.ends), None)
    return "nothing was decided" if only is None else f"{only} wherever it was asked"


def _places(lower: float | None, upper: float | None, start: Any) -> Iterator[float]:
    """Where to look for a feasible and an infeasible value."""
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


def _allowed(parameter: Any, value: float) -> bool:
    """Whether the attributes of the parameter (a sign, say) admit a value."""
    try:
        parameter.value = value
    except ValueError:
        return False
    return True


def _closed(
    asking: _Asking,
    tol: float,
    absolute_tol: float,
    deadline: Deadline,
    callback: Callable[[Step], Any] | None,
) -> str:
    """Halve the bracket until it is within the tolerance; why it ended."""
    stuck = 0
    while True:
        low, high = asking.bracket
        if relative_gap(low, high) <= tol or high - low <= absolute_tol:
            return "the bracket is within the tolerance"
        if deadline.expired:
            return "time limit"
        value = low + PLACES[stuck] * (high - low)
        if not low < value < high or len(asking.history) >= MAX_SOLVES:
            return "no further value fits into the bracket"
        stuck = 0 if asking.at(value, deadline) is not Verdict.UNDECIDED else stuck + 1
        if callback is not None and callback(asking.history[-1]):
            return "stopped by the callback"
        if stuck == len(PLACES):
            return f"undecided between {low:.8g} and {high:.8g} ({asking.history[-1].reason})"


def _result(
    asking: _Asking, reason: str, tol: float, absolute_tol: float, deadline: Deadline
) -> ParameterBracket:
    """The bracket, with values set on the model."""
    feasible, infeasible = (asking.ends.get(v) for v in (Verdict.FEASIBLE, Verdict.INFEASIBLE))
    if infeasible is not None and infeasible[2].certificate is not None:
        infeasible[1].assign_duals(infeasible[2].certificate)
    if feasible is not None and feasible[2].point is not None:
        asking.parameter.value = feasible[0]
        feasible[1].assign(feasible[2].point)
    low, high = asking.bracket
    below = feasible is not None and feasible[0] == low
    both = feasible is not None and infeasible is not None
    return ParameterBracket(
        low,
        high,
        None if feasible is None else feasible[2].point,
        None if infeasible is None else infeasible[2].certificate,
        tuple(asking.history),
        proven=both,
        converged=both and (relative_gap(low, high) <= tol or high - low <= absolute_tol),
        reason=reason,
        time=deadline.elapsed,
        feasible="lower" if below or not both else "upper",
        name=visible(asking.parameter.name()),
    )
