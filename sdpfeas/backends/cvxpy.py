"""``cvxpy``: any semidefinite solver cvxpy finds.

Some of them return no ray for infeasible problems through cvxpy (SDPA, CVXOPT): asking for a margin gets
certificates from them all the same. No warm start and no callback.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sdpfeas.backends.conic.cone_program import Answer, ConePair
from sdpfeas.backends.conic.conic_backend import ConicBackend, Objective
from sdpfeas.backends.conic.conic_cost import clarabel_cost, interior_point_cost, splitting_cost
from sdpfeas.backends.conic.cvxpy_model import ask_cvxpy, require_solver
from sdpfeas.deadline import Deadline

__all__ = ["Cvxpy", "CvxpyOptions"]

#: What solvers call their time limit, where they have one.
TIME_LIMITS = {"CLARABEL": "time_limit", "SCS": "time_limit_secs", "COPT": "TimeLimit"}

#: What solvers take that are known; any other is an interior-point method.
COSTS = {"CLARABEL": clarabel_cost, "SCS": splitting_cost}


@dataclass(frozen=True)
class CvxpyOptions:
    """Options of ``cvxpy``.

    ``solver``: name of the solver, in cvxpy's spelling. ``objective``: ask for any point, or for the one
    deepest inside; "auto" begins with "none" and goes on with the other where nothing is proved.
    ``settings``: the solver's own settings, handed on as they are.
    """

    solver: str = "CLARABEL"
    objective: Objective = "auto"
    settings: dict = field(default_factory=dict)  # type: ignore[type-arg]


class Cvxpy(ConicBackend):
    """Any semidefinite solver cvxpy finds, by name."""

    name = "cvxpy"
    requires = ("cvxpy",)
    distribution = "cvxpy"
    Options = CvxpyOptions

    def _ask(self, pair: ConePair, deadline: Deadline) -> Answer:
        solver = self.options.solver.upper()
        require_solver(solver)
        cost = COSTS.get(solver, interior_point_cost)
        return ask_cvxpy(pair, solver, lambda stop: self._settings(solver, stop), deadline, cost)

    def _settings(self, solver: str, deadline: Deadline) -> dict[str, Any]:
        out = dict(self.options.settings)
        if solver in TIME_LIMITS and deadline.limit is not None:
            out[TIME_LIMITS[solver]] = min(deadline.limit, out.get(TIME_LIMITS[solver], deadline.limit))
        elif solver == "MOSEK" and deadline.limit is not None:
            own = {"MSK_DPAR_OPTIMIZER_MAX_TIME": deadline.limit}
            out["mosek_params"] = {**own, **out.get("mosek_params", {})}
        return out
