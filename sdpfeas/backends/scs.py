"""``scs``: the first-order solver SCS, asked directly or through cvxpy.

No callback: SCS has none. No warm start: from the answer to a neighbouring problem SCS took between half and
twice the iterations it takes from nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sdpfeas.backends.conic.cone_program import Answer, StandardForm
from sdpfeas.backends.conic.conic_backend import DirectBackend, DirectOptions
from sdpfeas.backends.conic.cost_estimate import Cost, affordable, splitting_cost
from sdpfeas.backends.conic.raw_status import read_scs
from sdpfeas.deadline import Deadline

__all__ = ["Scs", "ScsOptions"]


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
        stop = affordable(self._cost(form), self.cvxpy_name, deadline)
        solver = scs.SCS(data, cones, verbose=False, **self.options.settings(stop))
        return read_scs(solver.solve())
