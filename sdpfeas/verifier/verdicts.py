"""The words for what is known about a problem, how it was shown, and why a backend stopped."""

from __future__ import annotations

from enum import StrEnum

from sdpfeas.errors import OptionError, TruthError

__all__ = ["Proof", "Reading", "Stop", "Verdict", "as_reading"]


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
    """Which numbers a verdict is about: doubles as they are stored, or what they were rounded from.

    The third is for chains, as written, and computed bounds as the fractions they are near, and for optimal
    values: there decimals of 10 to 15 digits are the fractions they show, besides.
    """

    STORED = "stored"
    WRITTEN = "written"
    MEANT = "meant"


def as_reading(value: str, *, meant: bool = False) -> Reading:
    """Return the reading of a name.

    Parameters
    ----------
    value : str
        ``"stored"`` or ``"written"``.
    meant : bool
        Whether ``"meant"`` may be asked for.

    Raises
    ------
    OptionError
        If it is none of these.
    """
    names = [str(reading) for reading in Reading if meant or reading is not Reading.MEANT]
    if value not in names:
        known = " or ".join(repr(name) for name in names)
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
