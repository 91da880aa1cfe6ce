"""What one test of a claim comes to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

__all__ = ["Outcome", "refuse"]


@dataclass(frozen=True)
class Outcome:
    """Whether a proof went through, by what relative margin, and what was shown or missing.

    Attributes
    ----------
    proven : bool
        Whether the verdict may be granted.
    margin : float
        By how much, relative to the size of the data.
    reason : str
        What was shown, or what is missing.
    evidence : optional
        The point or multipliers the proof is about, if not those that were handed in.
    repairs : tuple of str
        What was changed to get there.
    rational : optional
        The evidence as fractions, where the proof is exact.
    dependent : bool
        Whether a proof failed because equality rows are not provably independent.
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
