"""What cone solvers say in their own words, read as answers: asked directly, or through cvxpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sdpfeas.backends.conic.cone_program import Answer
from sdpfeas.claims import Stop

#: Why Clarabel stopped, by its own status; what is not listed is an error.
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

#: SCS's words for a program that is infeasible, and for one that is unbounded.
INFEASIBLE, UNBOUNDED = (-2, -7), (-1, -6)


def read_clarabel(solution: Any) -> Answer:
    """Read Clarabel's solution of a standard form."""
    status = str(solution.status)
    return Answer(
        x=None if "PrimalInfeasible" in status else np.array(solution.x),
        z=None if "DualInfeasible" in status else np.array(solution.z),
        raw_status=status,
        stop=CLARABEL_STOPS.get(status, Stop.ERROR),
        iterations=int(solution.iterations),
    )


def panic_answer(error: BaseException) -> Answer:
    """Turn a panic in Rust, which is no ``Exception``, into an answer; raise anything else again."""
    if type(error).__name__ != "PanicException":
        raise error
    return Answer(raw_status=f"panic: {error}", stop=Stop.NUMERICAL)


def read_scs(solution: Any) -> Answer:
    """Read SCS's solution of a standard form.

    Raises ``KeyboardInterrupt``: if SCS was interrupted, which it keeps to itself.
    """
    info = solution["info"]
    value, status = int(info["status_val"]), str(info["status"])
    if value == -5:
        raise KeyboardInterrupt
    return Answer(
        x=None if value in INFEASIBLE else np.array(solution["x"]),
        z=None if value in UNBOUNDED else np.array(solution["y"]),
        raw_status=status,
        stop=_stop(value, status),
        iterations=int(info["iter"]),
    )


def _stop(value: int, status: str) -> Stop:
    if "time_limit" in status:
        return Stop.TIME_LIMIT
    if "max_iters" in status:
        return Stop.ITERATION_LIMIT
    if value in (1, -1, -2):
        return Stop.FINISHED
    return Stop.NUMERICAL if value == -3 else Stop.STALLED if value in (2, -6, -7) else Stop.ERROR


#: How to read the raw results of the solvers whose vocabulary is known, by the names cvxpy has for them.
READERS: Mapping[str, Callable[[Any], Answer]] = {"CLARABEL": read_clarabel, "SCS": read_scs}
