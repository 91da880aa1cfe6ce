"""Active-set handling of rows: a program over very many rows that holds few of them at a time.

Multipliers of the active rows, zero on all others, are multipliers of the full problem, so an upper bound
from active rows holds for all rows. Points are checked against all rows ("pricing", as in column generation
on the dual problem): rows that a point violates or nearly violates become active, rows with large slack and
small multipliers are dropped. The entry point is :class:`ActiveRows`, which a program carries as its
``pricing``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import ConicProgram, Extension
from sdpfeas.problem.problem import Point

#: A row becomes active if its relative slack is below a margin: this multiple of the duality gap ...
MARGIN_PER_GAP = 0.3
#: ... between these limits. A larger margin activates more rows per round, a smaller one takes more rounds.
MAX_MARGIN, MIN_MARGIN = 0.01, 2e-3

#: A new program is built if some slack is below this share of the margin; for other rows it does not pay.
URGENT_SHARE = 0.5

#: A row is dropped if its slack exceeds this many margins and its multiplier is below this share of the mean.
DROP_MARGINS, DROP_MULTIPLIER_SHARE = 2.0, 0.1

#: A new program is built to drop rows if they are this share of the active ones.
DROP_ROWS_SHARE = 0.3

#: Cap on the rows activated at once, as a share of the active ones.
GROWTH_SHARE = 0.5


@dataclass
class RowGroup:
    """Rows of one kind, and the indices of the active ones.

    ``slack`` returns the relative slacks of all ``size`` rows at a point of the program, negative for
    violated rows.
    """

    slack: Callable[[Point], FloatArray]
    active: np.ndarray
    size: int


class ActiveRows:
    """Active rows of a program; implements :class:`RowPricing`.

    ``groups`` are all rows in the order of the program, and ``build`` makes the program of the active rows.
    """

    def __init__(
        self, groups: Sequence[RowGroup], build: Callable[[Sequence[np.ndarray]], ConicProgram]
    ) -> None:
        self.groups = groups
        self._build = build
        #: The program of the active rows.
        self.program = self._build_program()

    def _build_program(self) -> ConicProgram:
        return replace(self._build([group.active for group in self.groups]), pricing=self)

    def extend_multipliers(self, y: FloatArray) -> FloatArray:
        """Extend multipliers of the active rows to all rows by zeros."""
        out = []
        for group, weights in zip(self.groups, self._split(y), strict=True):
            whole = np.zeros(group.size)
            whole[group.active] = weights
            out.append(whole)
        return np.concatenate(out)

    def _split(self, y: FloatArray) -> list[FloatArray]:
        return np.split(y, np.cumsum([group.active.size for group in self.groups])[:-1])

    def extended(self, point: Point, y: FloatArray, gap: float) -> Extension | None:
        """Return the program with a new active set if missing rows matter at ``point``; else None."""
        margin = float(np.clip(MARGIN_PER_GAP * gap, MIN_MARGIN, MAX_MARGIN))
        found = [
            _choice(group, weights, group.slack(point), margin)
            for group, weights in zip(self.groups, self._split(y), strict=True)
        ]
        urgent = any(choice.urgent for choice in found)
        idle = sum(choice.dropped for choice in found)
        if not urgent and idle <= DROP_ROWS_SHARE * y.size:
            return None
        kept, before = [], 0
        for group, choice in zip(self.groups, found, strict=True):
            place = np.full(group.size, -1)
            place[group.active] = before + np.arange(group.active.size)
            before += group.active.size
            group.active = choice.active
            kept.append(place[choice.active])
        self.program = self._build_program()
        return Extension(self.program, np.concatenate(kept))


@dataclass(frozen=True)
class _Choice:
    """Active rows of a group for the next program."""

    active: np.ndarray
    urgent: bool
    dropped: int


def _choice(group: RowGroup, weights: FloatArray, slack: FloatArray, margin: float) -> _Choice:
    """Choose the active rows of a group from their multipliers and slacks."""
    inside = np.zeros(group.size, dtype=bool)
    inside[group.active] = True
    near = np.flatnonzero(~inside & (slack < margin))
    most = max(int(GROWTH_SHARE * group.active.size), 1)
    if near.size > most:
        near = near[np.argpartition(slack[near], most)[:most]]
    urgent = bool(near.size) and float(np.min(slack[near])) < URGENT_SHARE * margin
    size = np.abs(weights)
    small = size < DROP_MULTIPLIER_SHARE * float(np.mean(size))
    idle = (slack[group.active] > DROP_MARGINS * margin) & small
    inside[group.active[idle]] = False
    inside[near] = True
    return _Choice(np.flatnonzero(inside), urgent, int(np.count_nonzero(idle)))
