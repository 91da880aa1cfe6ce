"""Any backend as a solver for cvxpy, with the verdict of the verifier in place of a status."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.backends.contract import FeasibilityBackend
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.errors import OptionError
from sdpfeas.extras import cvxpy
from sdpfeas.io.cvxpy.blocks import Blocks
from sdpfeas.io.cvxpy.canonical import counted
from sdpfeas.io.cvxpy.reader import reader
from sdpfeas.search.solving import solve
from sdpfeas.verifier.results import Result, Verdict

__all__ = ["cvxpy_solver"]

#: What ``Problem.solve`` may set besides.
_SETTINGS = {"rigorous", "time_limit", "options"}


def cvxpy_solver(
    solver: str | Path | type[FeasibilityBackend] | Solver = "auto",
    *,
    rigorous: bool = False,
    time_limit: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """A solver for ``cvxpy.Problem.solve`` that answers feasibility with proof.

    FEASIBLE becomes the status ``optimal``, with values; INFEASIBLE becomes ``infeasible``, with the
    certificate in the dual values. Where nothing is proved cvxpy's ``SolverError`` says why. The verdict is
    about the canonical form cvxpy hands over: :func:`sdpfeas.solve` of the problem itself also refuses what
    cvxpy approximates on the way there.

    Parameters
    ----------
    solver : str, Path, type or Solver
        Which backend to ask.
    rigorous : bool
        Refuse a numeric verdict.
    time_limit : float, optional
        Seconds for everything, the proofs included.
    options : mapping, optional
        Options of the backend.

    Returns
    -------
    cvxpy solver
        To be passed as ``problem.solve(solver=...)``.

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

    return reader(answer)


def _answer(data: dict[str, Any], inverse: Any, solver: Solver, settings: dict[str, Any]) -> Any:
    from cvxpy.error import SolverError
    from cvxpy.reductions.solution import Solution, failure_solution

    if np.any(data["c"]):
        raise SolverError(
            "this solver answers whether the constraints can be met, and the problem has an objective: take "
            "Minimize(0), or let sdpfeas.optimum bracket the objective"
        )
    form = counted(data)
    blocks = Blocks(form)
    result = solve(blocks.problem(), solver, **settings)
    facts = {"solve_time": result.solve_time, "num_iters": result.iterations, "solver_specific_stats": result}
    if result.verdict is Verdict.FEASIBLE:
        variables = {inverse["var_id"]: _columns(blocks, result)}
        return Solution("optimal", float(inverse["offset"]), variables, {}, facts)
    if result.verdict is Verdict.INFEASIBLE:
        assert result.certificate is not None
        return failure_solution("infeasible", facts, form.duals(blocks.row_multipliers(result.certificate)))
    raise SolverError(f"undecided: {result.reason}")


def _columns(blocks: Blocks, result: Result) -> Any:
    assert result.point is not None
    return blocks.columns(result.point)
