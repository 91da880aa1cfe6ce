"""Use any backend as a cvxpy solver, with verified statuses: :func:`cvxpy_solver`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.claims import Verdict
from sdpfeas.cvxpy_models import convert
from sdpfeas.cvxpy_models.blocks import Blocks
from sdpfeas.cvxpy_models.canonical_form import accounted_form, capturing_solver
from sdpfeas.cvxpy_models.constraints import describe_constraint
from sdpfeas.drivers.infeasibility import farkas_certificate
from sdpfeas.drivers.optimum import Optimum, optimum
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import OptionError, ProblemError
from sdpfeas.extras import cvxpy
from sdpfeas.numerics.linalg import FloatArray

#: Options of ``Problem.solve``.
_SETTINGS = {"rigorous", "time_limit", "options"}


def cvxpy_solver(
    solver: str | Path | type[FeasibilityBackend] | Solver = "auto",
    *,
    rigorous: bool = False,
    time_limit: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Return a solver for ``cvxpy.Problem.solve`` with verified statuses.

    FEASIBLE becomes the status ``optimal``, with values; INFEASIBLE becomes ``infeasible``, with the Farkas
    certificate as dual values (a weakly infeasible problem has none). With an objective, ``optimal`` means
    that the value is proved within the tolerance of :func:`sdpfeas.optimum`, and ``unbounded`` that a ray was
    proved; there are no dual values then. Without a proof, cvxpy's ``SolverError`` is raised with the reason.
    The verdict is about cvxpy's canonical form. Problems without an exactly equivalent form are refused, as
    by :func:`sdpfeas.solve`.

    Parameters
    ----------
    solver : str, Path, type or Solver
        The backend.
    rigorous : bool
        Refuse a numeric verdict.
    time_limit : float, optional
        Seconds for everything, proofs included.
    options : mapping, optional
        Options of the backend.

    Returns
    -------
    cvxpy solver
        An object for ``problem.solve(solver=...)``.

    Examples
    --------
    >>> import cvxpy as cp, sdpfeas as sf
    >>> x = cp.Variable(nonneg=True)
    >>> problem = cp.Problem(cp.Minimize(0), [x <= -1])
    >>> problem.solve(solver=sf.cvxpy_solver(rigorous=True))
    inf
    >>> problem.status
    'infeasible'
    """
    cvxpy()
    chosen = find_solver(solver)
    given = {"rigorous": rigorous, "time_limit": time_limit, "options": options}

    def answer(data: dict[str, Any], inverse: Any, asked: dict[str, Any]) -> Any:
        unknown = sorted(set(asked) - _SETTINGS)
        if unknown:
            raise OptionError(f"unknown options {', '.join(unknown)}; known: {', '.join(sorted(_SETTINGS))}")
        return _answer(data, inverse, chosen, {**given, **asked})

    return capturing_solver(answer, _admit)


def _admit(problem: Any) -> None:
    """Raise an error unless the canonical form is exactly equivalent, as :func:`sdpfeas.solve` does."""
    cp = cvxpy()
    goal = problem.objective.expr
    bound = cp.Variable()
    reached = goal <= bound if isinstance(problem.objective, cp.Minimize) else goal >= bound
    objective = [] if goal.is_constant() else [reached.set_label("objective")]
    form = convert(cp.Problem(cp.Minimize(0), [*problem.constraints, *objective]))
    lost = [pair for pair in form.compiled[len(form.original.constraints) :] if pair[0] is not pair[1]]
    if lost:
        raise ProblemError(
            f"cvxpy compiles `{describe_constraint(lost[0][1])}` without "
            f"`{describe_constraint(lost[0][0])}`, which it implies; "
            "declare the variable nonneg=True, or pass the problem to sdpfeas.solve"
        )


def _answer(data: dict[str, Any], inverse: Any, solver: Solver, settings: dict[str, Any]) -> Any:
    from cvxpy.error import SolverError
    from cvxpy.reductions.solution import Solution, failure_solution

    form = accounted_form(data)
    cost = np.asarray(data["c"], dtype=float)
    blocks = Blocks(form, cost=cost)
    if np.any(cost):
        limits = {name: value for name, value in settings.items() if name != "rigorous"}
        found = optimum(blocks.problem(), blocks.objective(cost, "min"), solver=solver, **limits)
        if found.infeasible is None:
            return _optimal(cost, inverse, blocks, found)
        result = found.infeasible
    else:
        result = solve(blocks.problem(), solver, **settings)
    facts = {"solve_time": result.solve_time, "num_iters": result.iterations, "solver_specific_stats": result}
    if result.verdict is Verdict.FEASIBLE:
        assert result.point is not None
        variables = {inverse["var_id"]: blocks.columns(result.point)}
        return Solution("optimal", float(inverse["offset"]), variables, {}, facts)
    if result.verdict is Verdict.INFEASIBLE:
        whole = farkas_certificate(result.check)
        # Of weak infeasibility there is a chain, which no dual values can hold.
        duals = {} if whole is None else form.duals(blocks.row_multipliers(whole))
        return failure_solution("infeasible", facts, duals)
    raise SolverError(f"undecided: {result.reason}")


def _optimal(cost: FloatArray, inverse: Any, blocks: Blocks, found: Optimum) -> Any:
    """Return the solution if the optimal value is bracketed within the tolerance, or proved unbounded."""
    from cvxpy.error import SolverError
    from cvxpy.reductions.solution import Solution, failure_solution

    facts = {"solve_time": found.time, "num_iters": None, "solver_specific_stats": found}
    if found.unbounded:
        return failure_solution("unbounded", facts)
    if not found.converged or found.point is None:
        raise SolverError(f"the value lies between {found.lower:.8g} and {found.upper:.8g}: {found.reason}")
    x = blocks.columns(found.point)
    return Solution("optimal", float(cost @ x + inverse["offset"]), {inverse["var_id"]: x}, {}, facts)
