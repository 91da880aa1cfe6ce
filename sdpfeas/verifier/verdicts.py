"""The words for what is known about a problem, how it was shown, and why a backend stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sdpfeas.errors import OptionError, TruthError


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


class Reading(StrEnum):
    """Which numbers a verdict is about: the binary64 data, or the decimals and fractions they stand for."""

    STORED = "stored"
    WRITTEN = "written"


def as_reading(value: str) -> Reading:
    """Return the reading of a name.

    Raises ``OptionError``: if it is none of these.
    """
    if value not in set(Reading):
        known = " or ".join(repr(str(reading)) for reading in Reading)
        raise OptionError(f"reading must be {known}, got {value!r}")
    return Reading(value)


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


# ------------------------------------------------------------
# What one test of a claim comes to.


@dataclass(frozen=True)
class Outcome:
    """Whether a proof went through, by what relative margin, and what was shown or missing.

    ``proven``: whether the verdict may be granted. ``margin``: by how much, relative to the size of the
    data. ``reason``: what was shown, or what is missing. ``evidence``: the point or multipliers the proof
    is about, if not those that were handed in. ``repairs``: what was changed to get there. ``rational``:
    the evidence as fractions, where the proof is exact. ``dependent``: whether a proof failed because
    equality rows are not provably independent.
    """

    proven: bool
    margin: float
    reason: str
    evidence: Any = None
    repairs: tuple[str, ...] = ()
    rational: Any = None
    dependent: bool = False


def refuse(reason: str, *, dependent: bool = False) -> Outcome:
    """Return an outcome that proves nothing."""
    return Outcome(False, -math.inf, reason, dependent=dependent)
