"""The words for what is known about a problem, how it was shown, and why a backend stopped."""

from __future__ import annotations

from enum import StrEnum

from sdpfeas.errors import TruthError

__all__ = ["Proof", "Stop", "Verdict"]


class Verdict(StrEnum):
    """What is known about a problem; only the verifier grants the first two."""

    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNDECIDED = "undecided"

    def __bool__(self) -> bool:
        """Refuse: none of the three is false, and INFEASIBLE least of all means true."""
        raise TruthError(
            "a verdict is one of three, not true or false: compare it, as in verdict == 'feasible'"
        )


class Proof(StrEnum):
    """How a verdict was granted."""

    EXACT = "exact"
    RIGOROUS = "rigorous"
    NUMERIC = "numeric"


class Stop(StrEnum):
    """Why a backend stopped."""

    FINISHED = "finished"
    TIME_LIMIT = "time limit"
    ITERATION_LIMIT = "iteration limit"
    CALLBACK = "stopped by the callback"
    STALLED = "no further progress"
    NUMERICAL = "numerical trouble"
    UNSUPPORTED = "problem not supported"
    ERROR = "error"
