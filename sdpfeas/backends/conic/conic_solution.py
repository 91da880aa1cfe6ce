"""What a conic solver returns: :class:`ConicSolution`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sdpfeas.claims import Stop
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.conic_form import ConicForm


@dataclass(frozen=True)
class ConicSolution:
    """Solution, or infeasibility certificate, of a cone form.

    ``x`` are the variables, ``z`` the multipliers of the rows. If the solver reports primal infeasibility,
    ``z`` is a ray and ``x`` is None; if dual infeasibility, ``x`` is a ray and ``z`` is None.
    """

    x: FloatArray | None = None
    z: FloatArray | None = None
    raw_status: str = ""
    stop: Stop = Stop.FINISHED
    iterations: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)

    def back(self, form: ConicForm) -> ConicSolution:
        """Map a solution of a form to one of the form that it was made from."""
        x, z = form.back(self.x, self.z)
        return replace(self, x=x, z=z)

    @classmethod
    def of_panic(cls, error: BaseException) -> ConicSolution:
        """Convert a Rust panic, which is no ``Exception``, into an empty solution; re-raise anything else."""
        if type(error).__name__ != "PanicException":
            raise error
        return cls(raw_status=f"panic: {error}", stop=Stop.NUMERICAL)
