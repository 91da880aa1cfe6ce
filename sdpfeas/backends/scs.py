"""``scs``: the operator-splitting solver SCS (O'Donoghue, Chu, Parikh and Boyd, 2016).

SCS has no callbacks, and checks its time limit every 25 iterations only. If that is too coarse for the time
limit, two iterations are timed and the iteration limit is set to what fits. Warm starts are not supported:
from the solution of a neighbouring problem SCS took between half and twice the iterations of a cold start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from sdpfeas.backends.conic.conic_backend import ConicBackend, ConicOptions, ConicSolution
from sdpfeas.backends.conic.conic_cost import solver_deadline, splitting_cost
from sdpfeas.cards.options import Count, Range, Share
from sdpfeas.claims import Stop
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.limits import estimated_seconds
from sdpfeas.problem.conic_form import ConicForm

__all__ = ["Scs", "ScsOptions"]

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


@dataclass(frozen=True)
class ScsOptions(ConicOptions):
    """Options of ``scs``, besides those of :class:`ConicOptions`.

    ``eps`` sets the relative and absolute tolerances, ``eps_infeasible`` that of infeasibility and
    unboundedness. ``acceleration`` is the memory of the Anderson acceleration; 0 disables it.
    """

    eps: Share = 1e-6
    eps_infeasible: Share = 1e-8
    max_iterations: Count = 20_000
    acceleration: Annotated[int, Range(0)] = 10

    def solver_settings(self, deadline: Deadline) -> dict[str, Any]:
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


class Scs(ConicBackend):
    """SCS, an operator-splitting solver: cheap iterations, modest accuracy."""

    name = "scs"
    requires = ("scs",)
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
        stop = solver_deadline(cost, "SCS", deadline)

        def run(**settings: Any) -> Any:
            return scs.SCS(
                data, cones, verbose=False, **self.options.solver_settings(stop) | settings
            ).solve()

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
