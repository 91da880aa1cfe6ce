"""``scs``: the operator-splitting solver SCS (O'Donoghue, Chu, Parikh and Boyd, 2016).

It is called directly or through cvxpy. SCS has no callbacks, and checks its time limit every 25 iterations
only. If that is too coarse for the time limit, two iterations are timed and the iteration limit is set to
what fits. Warm starts are not supported: from the solution of a neighbouring problem SCS took between half
and twice the iterations of a cold start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from sdpfeas.backends.conic.conic_backend import DirectBackend, DirectOptions
from sdpfeas.backends.conic.conic_cost import Cost, eigen_flops, solver_deadline
from sdpfeas.backends.conic.conic_solution import ConicSolution
from sdpfeas.backends.conic.cvxpy_model import CvxpySolver
from sdpfeas.cards.options import Count, Range, Share
from sdpfeas.claims import Stop
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.limits import WRITE_FLOPS, estimated_seconds
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.conic_form import ConicForm

__all__ = ["SCS", "Scs", "ScsOptions"]

#: Time of a multiply-add in the sparse factorisation, in multiply-adds of a dense product.
SPARSE_FLOP_FACTOR = 20.0

#: The AMD ordering is quadratic in the entries of the longest row or column: numbers written per pair,
#: measured at 31,000 to 180,000 entries.
ORDERING_NUMBERS_PER_PAIR = 0.11

#: Iterations between two checks of the time limit in SCS.
CLOCK_ITERATIONS = 25

#: Iterations are timed if that many are estimated to take more than this share of the time left and more than
#: these seconds.
CLOCK_TIME_SHARE, CLOCK_SECONDS = 0.1, 0.2

#: Iterations that are timed.
TRIAL_ITERATIONS = 2

#: SCS's status values of infeasible, unbounded and interrupted solves.
INFEASIBLE, UNBOUNDED, INTERRUPTED = (-2, -7), (-1, -6), -5

#: Stop reasons by SCS's status value, if no limit was reached. Any other value is an error.
SCS_STOPS = {
    1: Stop.FINISHED,
    -1: Stop.FINISHED,
    -2: Stop.FINISHED,
    -3: Stop.NUMERICAL,
    2: Stop.STALLED,
    -6: Stop.STALLED,
    -7: Stop.STALLED,
}


def read_scs(solution: Any) -> ConicSolution:
    """Read SCS's solution. Raises ``KeyboardInterrupt`` if SCS was interrupted."""
    info = solution["info"]
    value, status = int(info["status_val"]), str(info["status"])
    if value == INTERRUPTED:
        raise KeyboardInterrupt
    stop = SCS_STOPS.get(value, Stop.ERROR)
    if "time_limit" in status:
        stop = Stop.TIME_LIMIT
    elif "max_iters" in status:
        stop = Stop.ITERATION_LIMIT
    return ConicSolution(
        x=None if value in INFEASIBLE else np.array(solution["x"]),
        z=None if value in UNBOUNDED else np.array(solution["y"]),
        raw_status=status,
        stop=stop,
        iterations=int(info["iter"]),
    )


def splitting_cost(form: ConicForm) -> Cost:
    """Estimate a method that factorises one sparse system once."""
    rows, columns = (np.diff(m.indptr).astype(np.float64) for m in (form.matrix.tocsr(), form.matrix.tocsc()))
    # Eliminating one side first leaves a matrix of the order of the other side.
    factor, fill = min(_elimination(rows, columns.size), _elimination(columns, rows.size))
    filled = float(form.matrix.nnz) + fill
    longest = float(np.max(np.concatenate([rows, columns]), initial=0.0))
    written = 60.0 * filled + ORDERING_NUMBERS_PER_PAIR * longest**2
    return Cost(
        setup=SPARSE_FLOP_FACTOR * factor + WRITE_FLOPS * written,
        iteration=3.0 * eigen_flops(form) + WRITE_FLOPS * 8.0 * filled,
        memory=80.0 * filled,
    )


def _elimination(degrees: FloatArray, others: int) -> tuple[float, float]:
    """Return the flop count and fill-in of eliminating unknowns with the given degrees."""
    pairs, most = float(degrees @ degrees), float(others) ** 2
    return pairs / 2.0 + (others**3 / 6.0 if pairs > most else 0.0), min(pairs, most) / 2.0


#: SCS as a solver of cvxpy.
SCS = CvxpySolver("SCS", splitting_cost, read_scs, "time_limit_secs")


@dataclass(frozen=True)
class ScsOptions(DirectOptions):
    """Options of ``scs``, besides those of :class:`DirectOptions`.

    ``eps`` sets the relative and absolute tolerances, ``eps_infeasible`` that of infeasibility and
    unboundedness. ``acceleration`` is the memory of the Anderson acceleration; 0 disables it.
    """

    eps: Share = 1e-6
    eps_infeasible: Share = 1e-8
    max_iterations: Count = 20_000
    acceleration: Annotated[int, Range(0)] = 10

    def settings(self, deadline: Deadline) -> dict[str, Any]:
        """Return the settings in SCS's names."""
        out = {
            "eps_abs": self.eps,
            "eps_rel": self.eps,
            "eps_infeas": self.eps_infeasible,
            "max_iters": self.max_iterations,
            "acceleration_lookback": self.acceleration,
        }
        if deadline.limit is not None:
            out["time_limit_secs"] = deadline.limit
        return out


class Scs(DirectBackend):
    """SCS, an operator-splitting solver: cheap iterations, modest accuracy."""

    name = "scs"
    cvxpy_solver = SCS
    requires = ("scs", "cvxpy")
    distribution = "scs"
    triangle = "lower"
    objectives = ("margin", "none")
    Options = ScsOptions

    def solve_cones_on_rows(self, form: ConicForm, deadline: Deadline) -> ConicSolution:
        """Solve a form with free variables."""
        import scs

        data = {"A": form.matrix, "b": form.rhs, "c": form.cost}
        sides = {"q": list(form.rows.second_order), "s": list(form.rows.semidefinite)}
        cones = {"z": form.rows.free, "l": form.rows.nonneg, **sides}
        cost = splitting_cost(form)
        stop = solver_deadline(cost, SCS.name, deadline)

        def run(**settings: Any) -> Any:
            return scs.SCS(data, cones, verbose=False, **self.options.settings(stop) | settings).solve()

        most = self.options.max_iterations
        allowed = max(CLOCK_TIME_SHARE * stop.left, CLOCK_SECONDS) / CLOCK_ITERATIONS
        timed = stop.limit is not None and most > TRIAL_ITERATIONS
        if timed and estimated_seconds(cost.iteration) > allowed:
            begin = stop.elapsed
            trial = run(max_iters=TRIAL_ITERATIONS)
            solving = 1e-3 * float(trial["info"]["solve_time"])
            setup = stop.elapsed - begin - solving
            each = max(solving / max(int(trial["info"]["iter"]), 1), 1e-9)
            if each > allowed:
                most = min(most, math.floor(0.9 * (stop.left - setup) / each))
            if most <= TRIAL_ITERATIONS:
                return replace(read_scs(trial), stop=Stop.TIME_LIMIT)
        solution = read_scs(run(max_iters=most))
        if most == self.options.max_iterations or solution.stop is not Stop.ITERATION_LIMIT:
            return solution
        status = f"{solution.raw_status}, the number that the time limit allows"
        return replace(solution, stop=Stop.TIME_LIMIT, raw_status=status)
