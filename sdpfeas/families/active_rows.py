"""Working on the rows that matter: a program over very many rows that holds few of them at a time.

Multipliers of some rows, zero on all others, are multipliers of the whole problem, so what they rule out is
ruled out for all. A point is another matter: it is priced, that is, all rows are looked at, and those it
violates or nearly meets are taken in before it moves on. Rows far from mattering are left out again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import ConicProgram, Extension
from sdpfeas.problem.problem import Point

#: A row is taken in if its slack, relative to its level, is below this multiple of the gap ...
NEAR = 0.3
#: ... but no more than the first of these, and no less than the second.
WIDEST, NARROWEST = 0.01, 2e-3

#: Rows are only asked for again if some slack is below this share of that margin; one more row is not worth
#: a new system.
URGENT = 0.5

#: Rows are left out if their slack exceeds this many margins and their weight is below this share of the
#: mean.
FAR, IDLE = 2.0, 0.1

#: Leaving rows out is worth a new system if it is this share of all.
WORTH = 0.3

#: Most rows taken in at once, as a multiple of those there are.
GROWTH = 0.5


@dataclass
class Part:
    """Rows of one kind, and which of them are worked on.

    ``slack``: relative slacks of all of them at a point of the program; negative where a row is violated.
    """

    slack: Callable[[Point], FloatArray]
    chosen: np.ndarray
    size: int


class ActiveRows:
    """Rows of a program that are taken in as they begin to matter; a :class:`RowPricing`.

    ``parts``: all rows, in the order of the program's. ``pose``: makes the program of the chosen rows, part
    by part.
    """

    def __init__(self, parts: Sequence[Part], pose: Callable[[Sequence[np.ndarray]], ConicProgram]) -> None:
        self._parts = parts
        self._pose = pose
        #: The program as it is now.
        self.program = self._posed()

    def _posed(self) -> ConicProgram:
        return replace(self._pose([part.chosen for part in self._parts]), pricing=self)

    def everywhere(self, y: FloatArray) -> FloatArray:
        """Multipliers of all rows from those of the chosen ones: zero on the others.

        ``y``: one multiplier per row of the present program.
        """
        out = []
        for part, weights in zip(self._parts, self._split(y), strict=True):
            whole = np.zeros(part.size)
            whole[part.chosen] = weights
            out.append(whole)
        return np.concatenate(out)

    def _split(self, y: FloatArray) -> list[FloatArray]:
        return np.split(y, np.cumsum([part.chosen.size for part in self._parts])[:-1])

    def extended(self, point: Point, y: FloatArray, gap: float) -> Extension | None:
        """Return the program with other rows, if some that are missing matter at a point.

        ``point``: a point of the present program.
        """
        margin = float(np.clip(NEAR * gap, NARROWEST, WIDEST))
        found = [
            _choice(part, weights, part.slack(point), margin)
            for part, weights in zip(self._parts, self._split(y), strict=True)
        ]
        urgent = any(choice.urgent for choice in found)
        idle = sum(choice.dropped for choice in found)
        if not urgent and idle <= WORTH * y.size:
            return None
        kept, before = [], 0
        for part, choice in zip(self._parts, found, strict=True):
            place = np.full(part.size, -1)
            place[part.chosen] = before + np.arange(part.chosen.size)
            before += part.chosen.size
            part.chosen = choice.chosen
            kept.append(place[choice.chosen])
        self.program = self._posed()
        return Extension(self.program, np.concatenate(kept))


@dataclass(frozen=True)
class _Choice:
    """Rows of a part to work on next."""

    chosen: np.ndarray
    urgent: bool
    dropped: int


def _choice(part: Part, weights: FloatArray, slack: FloatArray, margin: float) -> _Choice:
    inside = np.zeros(part.size, dtype=bool)
    inside[part.chosen] = True
    near = np.flatnonzero(~inside & (slack < margin))
    most = max(int(GROWTH * part.chosen.size), 1)
    if near.size > most:
        near = near[np.argpartition(slack[near], most)[:most]]
    urgent = bool(near.size) and float(np.min(slack[near])) < URGENT * margin
    size = np.abs(weights)
    idle = (slack[part.chosen] > FAR * margin) & (size < IDLE * float(np.mean(size)))
    inside[part.chosen[idle]] = False
    inside[near] = True
    return _Choice(np.flatnonzero(inside), urgent, int(np.count_nonzero(idle)))
