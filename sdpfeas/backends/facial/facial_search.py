"""From face to face: what is cheap first, and again after every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sdpfeas.backends.facial.exposing_vectors import (
    NOTHING,
    Table,
    apart,
    deepest,
    exact_multipliers,
    exposing,
    likely,
    make_table,
)
from sdpfeas.claims import Chain
from sdpfeas.deadline import Deadline
from sdpfeas.errors import LimitError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.reductions.faces import Faces
from sdpfeas.problem.reductions.integer_rows import IntegralRows
from sdpfeas.verifier.facial_reduction import FacialStep, Refused, expose_face

#: Multipliers beyond which short combinations are not looked for: a cone solver is quicker then.
LARGEST_LATTICE = 60

#: How a step was found, where single rows show it.
ROWS = "rows"


@dataclass
class Found:
    """What a search has come to.

    ``chain``: the steps, all of them proved. ``contradiction``: whether the last one rules out all points.
    ``smallest``: whether the cone solver found no smaller face. ``hint``: what it found that could not be
    proved. ``ended``: whether nothing more is looked for.
    """

    chain: Chain
    faces: Faces
    contradiction: bool = False
    said: list[str] = field(default_factory=list)
    smallest: bool = False
    hint: str = ""
    ended: bool = False

    @property
    def told(self) -> str:
        """What was found, in words."""
        steps = len(self.chain)
        if not steps:
            return self.hint or "no smaller face" + (" exists" if self.smallest else " found")
        counts = {how: self.said.count(how) for how in dict.fromkeys(self.said)}
        made = ", ".join(how if count == 1 else f"{count} × {how}" for how, count in counts.items())
        sizes = ", ".join(map(str, self.faces.sizes))
        end = "a contradiction" if self.contradiction else f"a face of size {sizes}"
        tail = f"; {self.hint}" if self.hint else ""
        return f"chain of {steps} step{'s' * (steps > 1)} ({made}) to {end}{tail}"


def search(rows: IntegralRows, deadline: Deadline) -> Found:
    """Look for a chain, as :func:`stages` does, to the end."""
    *_, found = stages(rows, deadline)
    return found


def stages(
    rows: IntegralRows, deadline: Deadline, *, deep: bool = True, start: FloatArray | None = None
) -> Iterator[Found]:
    """Look for a chain, and yield it when all is done, and before what is dear is done to make it longer.

    ``rows``: the rows of the problem, in the reading that the chain is to be about. ``start``: multipliers
    that may come close to exposing a face.
    """
    found = Found(Chain((), rows.reading), Faces.whole(rows))
    dear = rows.problem.m > LARGEST_LATTICE
    while not found.contradiction and not deadline.expired:
        try:
            table = make_table(found.faces)
            step = _first(found, ((ROWS, weights) for weights in exposing(table)))
            if step is None and deep and any(found.faces.sizes):
                if dear and found.said[-1:] == [ROWS]:
                    yield found
                step = _first(found, _deep(table, found, deadline, start))
        except (LimitError, OverflowError, np.linalg.LinAlgError) as error:
            found.hint = f"stopped: {error}" + (f"; {found.hint}" if found.hint else "")
            break
        if step is None:
            break
        found.chain = found.chain.then(rows.multipliers(step.weights))
        found.faces, found.contradiction = step.after, step.gap > 0
        if dear and found.said[-1] != ROWS and not found.contradiction:
            yield found
    found.ended = True
    yield found


def _first(found: Found, candidates: Iterator[tuple[str, np.ndarray]]) -> FacialStep | None:
    for how, weights in candidates:
        if not np.any(weights != 0):
            continue
        try:
            step = expose_face(found.faces, weights)
        except Refused:
            continue
        found.said.append(how)
        found.hint = ""
        return step
    return None


def _deep(
    table: Table, found: Found, deadline: Deadline, start: FloatArray | None
) -> Iterator[tuple[str, np.ndarray]]:
    # Of numbers that were rounded no combination is short, and what it proves hangs on their last digits.
    simple = found.faces.rows.simple
    if simple and table.lines.shape[0] <= LARGEST_LATTICE:
        table = table.short()
        yield from (("short combinations of rows", weights) for weights in exposing(table))
    elif simple and start is not None and (near := likely(table, start)) is not None:
        yield from (("an interior-point method", weights) for weights in exact_multipliers(table, near))
    answer = deepest(table, deadline)
    if answer is None:
        return
    shares, depth = answer
    found.smallest = depth < NOTHING
    if not found.smallest:
        found.hint = "a cone solver sees a smaller face, but no exact multipliers near its own expose one"
        if not simple:
            found.hint = "numerically on a smaller face; of numbers that were rounded that proves nothing"
            if (weights := apart(table, shares)) is not None:
                yield "rows that leave entries alone", weights
            return
        yield from (("an auxiliary problem", weights) for weights in exact_multipliers(table, shares))
