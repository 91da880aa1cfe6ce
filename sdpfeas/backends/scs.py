"""``scs``: the first-order solver SCS, asked directly or through cvxpy.

No callback: SCS has none, and it looks at its clock in every 25th iteration only. Where that is too seldom
for the time limit, two iterations are timed, and it may take as many as fit. No warm start: from the answer
to a neighbouring problem SCS took between half and twice the iterations it takes from nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from sdpfeas.backends.conic.cone_program import Answer, StandardForm
from sdpfeas.backends.conic.conic_backend import DirectBackend, DirectOptions
from sdpfeas.backends.conic.conic_cost import Cost, affordable, splitting_cost
from sdpfeas.backends.conic.raw_status import read_scs
from sdpfeas.claims import Stop
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.cost_estimate import seconds

__all__ = ["Scs", "ScsOptions"]

#: Iterations between two looks at the clock; they are timed, by running a few, if they are estimated to take
#: more than this share of the time left and more than these seconds.
CLOCK_ITERATIONS, CLOCK_SHARE, CLOCK_SECONDS, TRIAL_ITERATIONS = 25, 0.1, 0.2, 2


@dataclass(frozen=True)
class ScsOptions(DirectOptions):
    """Options of ``scs``, besides those of :class:`DirectOptions`.

    ``eps``: SCS's relative and absolute tolerances. ``eps_infeasible``: SCS's tolerance of infeasibility
    and unboundedness. ``acceleration``: memory of the Anderson acceleration; 0 switches it off.
    """

    eps: float = 1e-6
    eps_infeasible: float = 1e-8
    max_iterations: int = 20_000
    acceleration: int = 10

    def __post_init__(self) -> None:
        if not (0.0 < self.eps < 1.0 and 0.0 < self.eps_infeasible < 1.0):
            raise ValueError("eps and eps_infeasible must lie between 0 and 1")
        if self.max_iterations < 1:
            raise ValueError("max_iterations must be at least 1")
        if self.acceleration < 0:
            raise ValueError("acceleration must not be negative")

    def settings(self, deadline: Deadline) -> dict[str, Any]:
        """Return SCS's own settings."""
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
    """SCS, a first-order solver: cheap iterations, modest accuracy."""

    name = "scs"
    cvxpy_name = "SCS"
    requires = ("scs", "cvxpy")
    distribution = "scs"
    triangle = "lower"
    objectives = ("margin", "none")
    Options = ScsOptions

    def _cost(self, form: StandardForm) -> Cost:
        return splitting_cost(form)

    def _solve(self, form: StandardForm, deadline: Deadline) -> Answer:
        import scs

        data = {"A": form.matrix, "b": form.rhs, "c": form.cost}
        sides = {"q": list(form.cones.second), "s": list(form.cones.psd)}
        cones = {"z": form.cones.flat, "l": form.cones.nonneg, **sides}
        cost = self._cost(form)
        stop = affordable(cost, self.cvxpy_name, deadline)

        def run(**settings: Any) -> Any:
            return scs.SCS(data, cones, verbose=False, **self.options.settings(stop) | settings).solve()

        most = self.options.max_iterations
        often = max(CLOCK_SHARE * stop.left, CLOCK_SECONDS) / CLOCK_ITERATIONS
        if stop.limit is not None and most > TRIAL_ITERATIONS and seconds(cost.each, often) > often:
            begin = stop.elapsed
            trial = run(max_iters=TRIAL_ITERATIONS)
            solving = 1e-3 * float(trial["info"]["solve_time"])
            setting_up = stop.elapsed - begin - solving
            each = max(solving / max(int(trial["info"]["iter"]), 1), 1e-9)
            if each > often:
                most = min(most, math.floor(0.9 * (stop.left - setting_up) / each))
            if most <= TRIAL_ITERATIONS:
                return replace(read_scs(trial), stop=Stop.TIME_LIMIT)
        answer = read_scs(run(max_iters=most))
        if most == self.options.max_iterations or answer.stop is not Stop.ITERATION_LIMIT:
            return answer
        status = f"{answer.raw_status}, which were as many as the time limit allowed"
        return replace(answer, stop=Stop.TIME_LIMIT, raw_status=status)
