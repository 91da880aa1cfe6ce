"""``clarabel``: the interior-point solver Clarabel (Goulart and Chen, 2024).

Clarabel supports neither warm starts nor callbacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.conic.conic_backend import ConicBackend, ConicOptions, ConicSolution
from sdpfeas.backends.conic.conic_cost import (
    ITERATION_NUMBERS,
    Cost,
    eigen_flops,
    interior_point_cost,
    solver_deadline,
)
from sdpfeas.cards.options import Count, NonNegative, Range, Share
from sdpfeas.claims import Stop
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.limits import WRITE_FLOPS
from sdpfeas.problem.conic_form import ConicForm

__all__ = ["Clarabel", "ClarabelOptions"]

#: Time of a multiply-add in a sparse factorisation, in multiply-adds of a dense product (measured: 8 to 20,
#: growing with the number of rows), and in a supernodal one, which stores zeros of dense blocks (0.3 to
#: 0.8).
SPARSE_FLOP_FACTOR, SUPERNODAL_FLOP_FACTOR = 20.0, 0.8

#: Stop reasons by Clarabel's status. Any other status is an error.
CLARABEL_STOPS = {
    "Solved": Stop.FINISHED,
    "PrimalInfeasible": Stop.FINISHED,
    "DualInfeasible": Stop.FINISHED,
    "AlmostSolved": Stop.STALLED,
    "AlmostPrimalInfeasible": Stop.STALLED,
    "AlmostDualInfeasible": Stop.STALLED,
    "InsufficientProgress": Stop.STALLED,
    "MaxIterations": Stop.ITERATION_LIMIT,
    "MaxTime": Stop.TIME_LIMIT,
    "NumericalError": Stop.NUMERICAL,
}


def read_clarabel(solution: Any) -> ConicSolution:
    """Read Clarabel's solution of a form with free variables."""
    status = str(solution.status)
    return ConicSolution(
        x=None if "PrimalInfeasible" in status else np.array(solution.x),
        z=None if "DualInfeasible" in status else np.array(solution.z),
        raw_status=status,
        stop=CLARABEL_STOPS.get(status, Stop.ERROR),
        iterations=int(solution.iterations),
    )


def set_up(form: ConicForm, **settings: Any) -> Any:
    """Return a Clarabel solver for a form with free variables."""
    import clarabel

    chosen = clarabel.DefaultSettings()
    chosen.verbose = False
    for name, value in settings.items():
        if hasattr(chosen, name):  # releases before 0.11 have no max_threads
            setattr(chosen, name, value)
    cones = [clarabel.ZeroConeT(form.rows.free)] if form.rows.free else []
    cones += [clarabel.NonnegativeConeT(form.rows.nonneg)] if form.rows.nonneg else []
    cones += [clarabel.SecondOrderConeT(n) for n in form.rows.second_order]
    cones += [clarabel.PSDTriangleConeT(n) for n in form.rows.semidefinite]
    quadratic = sp.csc_array((form.cost.size, form.cost.size))
    return clarabel.DefaultSolver(quadratic, form.cost, form.matrix, form.rhs, cones, chosen)


def factored_cost(form: ConicForm, solver: Any) -> Cost:
    """Estimate the iterations of a solver that is set up, from the size of its factor."""
    system = solver.get_info().linsolver
    entries = float(system.nnzL)
    # For a given number of entries, a factor with columns of equal length is the cheapest.
    factor = entries**2 / (2.0 * max(sum(form.matrix.shape), 1))
    factor *= SPARSE_FLOP_FACTOR if system.name == "qdldl" else SUPERNODAL_FLOP_FACTOR
    return Cost(0.0, factor + 6.0 * eigen_flops(form) + WRITE_FLOPS * ITERATION_NUMBERS * entries)


@dataclass(frozen=True)
class ClarabelOptions(ConicOptions):
    """Options of ``clarabel``, besides those of :class:`ConicOptions`.

    ``tolerance`` sets the relative and absolute tolerances of gap and feasibility. ``regularization`` is the
    static regularisation of the linear systems; Clarabel's default of 1e-8 makes it fail at the first
    iteration on some problems with Free blocks. ``threads`` are threads for linear algebra; 0 lets Clarabel
    choose.
    """

    tolerance: Share = 1e-8
    tolerance_infeasible: Share = 1e-8
    max_iterations: Count = 200
    regularization: NonNegative = 1e-7
    threads: Annotated[int, Range(0)] = 1

    def solver_settings(self, deadline: Deadline) -> dict[str, Any]:
        """Return the settings in Clarabel's names."""
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


class Clarabel(ConicBackend):
    """Clarabel, an interior-point solver: accurate, for problems of moderate size."""

    name = "clarabel"
    requires = ("clarabel",)
    distribution = "clarabel"
    triangle = "upper"
    Options = ClarabelOptions

    def solve_cones_on_rows(self, form: ConicForm, deadline: Deadline) -> ConicSolution:
        """Solve a form with free variables."""
        solver_deadline(interior_point_cost(form), "Clarabel", deadline)
        try:
            solver = set_up(form, **self.options.solver_settings(deadline))
            if hasattr(solver, "get_info"):  # releases before 0.11 keep the limit of the set-up
                stop = solver_deadline(factored_cost(form, solver), "Clarabel", deadline)
                if stop.limit is not None:
                    settings = solver.get_settings()
                    settings.time_limit = stop.limit
                    solver.update(settings=settings)
            return read_clarabel(solver.solve())
        except BaseException as error:  # noqa: BLE001 - a panic is no Exception; all else is raised again
            return ConicSolution.of_panic(error)
