"""``cvxpy``: any semidefinite solver that cvxpy finds, by name.

Through cvxpy some solvers (SDPA, CVXOPT) return no certificate for infeasible problems. The margin problem is
always feasible, so its multipliers give a certificate for them as well. Warm starts and callbacks are not
supported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sdpfeas.backends.clarabel import CLARABEL
from sdpfeas.backends.conic.conic_backend import ConicBackend, Objective
from sdpfeas.backends.conic.conic_solution import ConicSolution
from sdpfeas.backends.conic.cvxpy_model import CvxpySolver, require_solver, solve_with_cvxpy
from sdpfeas.backends.scs import SCS
from sdpfeas.deadline import Deadline
from sdpfeas.problem.conic_form import ConicForm

__all__ = ["Cvxpy", "CvxpyOptions"]

#: Solvers with a cost estimate or a time limit of their own. Any other is taken for an interior-point method.
KNOWN_SOLVERS = {each.name: each for each in (CLARABEL, SCS, CvxpySolver("COPT", time_limit="TimeLimit"))}


@dataclass(frozen=True)
class CvxpyOptions:
    """Options of ``cvxpy``.

    ``solver`` is the name of a solver, in cvxpy's spelling. ``objective`` asks for any feasible point
    ("none") or for the largest margin; "auto" tries "none" first, and "margin" if nothing is proved.
    ``settings`` are passed to the solver.
    """

    solver: str = "CLARABEL"
    objective: Objective = "auto"
    settings: dict = field(default_factory=dict)  # type: ignore[type-arg]


class Cvxpy(ConicBackend):
    """Any semidefinite solver that cvxpy finds, by name."""

    name = "cvxpy"
    requires = ("cvxpy",)
    distribution = "cvxpy"
    Options = CvxpyOptions

    def _solve_form(self, form: ConicForm, deadline: Deadline) -> ConicSolution:
        name = self.options.solver.upper()
        require_solver(name)
        solver = KNOWN_SOLVERS.get(name, CvxpySolver(name))
        return solve_with_cvxpy(form, solver, lambda stop: self._settings(solver, stop), deadline)

    def _settings(self, solver: CvxpySolver, deadline: Deadline) -> dict[str, Any]:
        out, limit = dict(self.options.settings), deadline.limit
        if limit is None:
            return out
        if solver.time_limit:
            out[solver.time_limit] = min(limit, out.get(solver.time_limit, limit))
        elif solver.name == "MOSEK":
            own = {"MSK_DPAR_OPTIMIZER_MAX_TIME": limit}
            out["mosek_params"] = {**own, **out.get("mosek_params", {})}
        return out
