"""``clarabel``: the Clarabel interior-point solver, asked directly or through cvxpy.

No warm start and no callback: Clarabel has neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from sdpfeas.backends.conic.cones import Answer, StandardForm
from sdpfeas.backends.conic.cost import Cost, interior_point_cost
from sdpfeas.backends.conic.direct import DirectBackend, DirectOptions
from sdpfeas.backends.conic.statuses import panic_answer, read_clarabel
from sdpfeas.deadline import Deadline

__all__ = ["Clarabel", "ClarabelOptions"]


@dataclass(frozen=True)
class ClarabelOptions(DirectOptions):
    """Options of ``clarabel``, besides those of :class:`DirectOptions`.

    Attributes
    ----------
    tolerance : float
        Clarabel's relative and absolute tolerances of gap and feasibility.
    tolerance_infeasible : float
        Clarabel's tolerances of infeasibility.
    max_iterations : int
        Interior-point iterations at most.
    regularization : float
        Static regularisation of the linear systems. Clarabel's own default of 1e-8 makes it fail at the first
        iteration on some problems with free blocks.
    threads : int
        Threads for the linear algebra; 0 lets Clarabel choose.
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
        return interior_point_cost(form)

    def _solve(self, form: StandardForm, deadline: Deadline) -> Answer:
        import clarabel

        settings = clarabel.DefaultSettings()
        settings.verbose = False
        for name, value in self.options.settings(deadline).items():
            setattr(settings, name, value)
        cones = [clarabel.ZeroConeT(form.cones.flat)] if form.cones.flat else []
        cones += [clarabel.NonnegativeConeT(form.cones.nonneg)] if form.cones.nonneg else []
        cones += [clarabel.SecondOrderConeT(n) for n in form.cones.second]
        cones += [clarabel.PSDTriangleConeT(n) for n in form.cones.psd]
        quadratic = sp.csc_array((form.cost.size, form.cost.size))
        try:
            solver = clarabel.DefaultSolver(quadratic, form.cost, form.matrix, form.rhs, cones, settings)
            return read_clarabel(solver.solve())
        except BaseException as error:  # noqa: BLE001 - a panic is no Exception; all else is raised again
            return panic_answer(error)
