"""The kinds of proof, their tolerances, and the outcome of one proof attempt."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from sdpfeas.errors import ClaimError

__all__ = ["Outcome", "Proof", "Tolerances", "refuse"]


class Proof(StrEnum):
    """How a verdict was proved.

    ``exact``: in rational arithmetic. ``rigorous``: in floating-point arithmetic with a bound on every
    rounding error. ``numeric``: recomputed residuals are within the tolerances, which is no proof.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> sf.Proof.RIGOROUS == "rigorous"
    True
    """

    EXACT = "exact"
    RIGOROUS = "rigorous"
    NUMERIC = "numeric"


@dataclass(frozen=True)
class Tolerances:
    """Tolerances of the verifier, all relative.

    Attributes
    ----------
    residual : float
        Numeric mode: violation of a bound by a row, relative to that bound and to the terms that bounded
        blocks contribute to the row.
    rounding : float
        Numeric mode: violation that rounding alone can cause, relative to the terms. It is used where the
        size of the terms is no measure: on unbounded vector blocks, and for every entry of ``A*y`` on them.
        It never exceeds ``residual`` times the size that the bounds suggest for a point, or that the rows
        with nonzero bounds suggest for ``A*y``.
    membership : float
        Numeric mode: distance of a block from its set, relative to its norm. The effect of that distance is
        added to the violation of every row.
    margin : float
        Numeric mode: least difference of the two sides of a Farkas certificate, relative to their size.
    snap : float
        Rigorous mode: largest distance of the proved exact solution from the given point, relative to its
        norm, and of exact multipliers from the given ones. A claim farther away needs repair.
    sign : float
        Repair: a multiplier of the wrong sign is set to zero if it is below this share of the largest.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> sf.Tolerances(residual=1e-9).residual
    1e-09
    """

    residual: float = 1e-7
    rounding: float = 1e-13
    membership: float = 1e-9
    margin: float = 1e-10
    snap: float = 1e-8
    sign: float = 1e-5

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, (int, float)) or not 0.0 <= value < float("inf"):
                raise ClaimError(f"tolerance {item.name} must be a non-negative number, got {value!r}")


@dataclass(frozen=True)
class Outcome:
    """The outcome of one proof attempt.

    ``margin`` is relative to the size of the data. ``reason`` states what was proved or what is missing.
    ``evidence`` is the proved point or multipliers if these differ from the given ones, ``repairs`` the
    changes made, ``rational`` the evidence as fractions after an exact proof. ``dependent`` is set if the
    attempt failed because the equality rows are not provably independent. ``radius`` bounds the Frobenius
    distance from a point to the exact solution that was proved to exist.
    """

    proven: bool
    margin: float
    reason: str
    evidence: Any = None
    repairs: tuple[str, ...] = ()
    rational: Any = None
    dependent: bool = False
    radius: float | None = None


def refuse(reason: str, *, dependent: bool = False) -> Outcome:
    """Return the outcome of a failed attempt."""
    return Outcome(False, -math.inf, reason, dependent=dependent)
