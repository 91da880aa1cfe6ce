"""``clarabel``: the Clarabel interior-point solver, asked directly or through cvxpy.

No warm start and no callback: Clarabel has neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sdpfeas.backends.conic.cone_program import Answer, StandardForm
from sdpfeas.backends.conic.conic_backend import DirectBackend, DirectOptions
from sdpfeas.backends.conic.conic_cost import (
    Cost,
    affordable,
    clarabel_cost,
    each_iteration,
    set_up,
    setup_cost,
)
from sdpfeas.backends.conic.raw_status import panic_answer, read_clarabel
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.cost_estimate import Work

__all__ = ["Clarabel", "ClarabelOptions"]


@dataclass(frozen=True)
class ClarabelOptions(DirectOptions):
    """Options of ``clarabel``, besides those of :class:`DirectOptions`.

    ``tolerance``: clarabel's relative and absolute tolerances of gap and feasibility. ``regularization``:
    static regularisation of the linear systems. Clarabel's own default of 1e-8 makes it fail at the first
    iteration on some problems with free blocks. ``threads``: threads for the linear algebra; 0 lets
    Clarabel choose.
    """

    tolerance: float = 1e-8
    tolerance_infeasible: float = 1e-8
    max_iterations: int = 200
    regularization: float = 1e-7
    threads: int = 1

    def __post_init__(self) -> None:
        if not (0.0 < self.tolerance < 1.0 and 0.0 < self.tolerance_infeasible < 1.0):
            raise ValueError("tolerance and tolerance_infeasible must lie between 0 and 1")
        if self.max_iterations < 1:
            raise ValueError("max_iterations must be at least 1")
        if not self.regularization >= 0.0:
            raise ValueError("regularization must not be negative")
        if self.threads < 0:
            raise ValueError("threads must not be negative")

    def settings(self, deadline: Deadline) -> dict[str, Any]:
        """Clarabel's own settings."""
        out = {
            "max_iter": self.max_iterations,
            "tol_gap_abs": self.tolerance,
            "tol_gap_rel": self.tolerance,
            "tol_feas": self.tolerance,
            "tol_infeas_abs": self.tolerance_infeasible,
            "tol_infeas_rel": self.tolerance_infeasible,
            "static_regularization_constant": self.regularization,
            "max_threads": self.threads,
        }
        if deadline.limit is not None:
            out["time_limit"] = deadline.limit
        return out


class Clarabel(DirectBackend):
    """Clarabel, an interior-point solver: accurate, for problems of moderate size."""

    name = "clarabel"
    cvxpy_name = "CLARABEL"
    requires = ("clarabel", "cvxpy")
    distribution = "clarabel"
    triangle = "upper"
    Options = ClarabelOptions

    def _cost(self, form: StandardForm) -> Cost:
        return clarabel_cost(form)

    def _solve(self, form: StandardForm, deadline: Deadline) -> Answer:
        affordable(setup_cost(form), self.cvxpy_name, deadline)
        try:
            solver = set_up(form, **self.options.settings(deadline))
            each = each_iteration(form, solver)
            stop = affordable(Cost(Work(), each, 0.0), self.cvxpy_name, deadline)
            if stop.limit is not None:
                settings = solver.get_settings()
                settings.time_limit = stop.limit
                solver.update(settings=settings)
            return read_clarabel(solver.solve())
        except BaseException as error:  # noqa: BLE001 - a panic is no Exception; all else is raised again
            return panic_answer(error)
