"""Search for a facial reduction certificate: a chain of faces, each exposed by exact multipliers.

Facial reduction (Borwein and Wolkowicz 1981) replaces the cone by the smallest face that contains all
feasible points, one exposing vector at a time. Each step tries cheap ways to find one first. Entry points:
:func:`search_stages`, which is the algorithm, and :func:`search`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sdpfeas.backends.facial.exposing_vectors import (
    MINIMAL_FACE_DEPTH,
    AuxiliarySystem,
    auxiliary_system,
    round_multipliers,
    sieve,
    solve_auxiliary_problem,
    start_coefficients,
)
from sdpfeas.claims import Chain
from sdpfeas.deadline import Deadline
from sdpfeas.errors import LimitError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.reductions.faces import Faces
from sdpfeas.problem.reductions.integer_rows import IntegralRows
from sdpfeas.verifier.facial_reduction import FacialStep, Refused, expose_face

#: Largest number of multipliers for which LLL reduction is tried. With more, the conic solver is faster.
LATTICE_ROWS = 60

#: Name of the sieve over single rows.
SIEVE = "single rows"


@dataclass
class SearchState:
    """State of a search for a facial reduction certificate.

    ``chain`` holds the multipliers so far, all of them verified, and ``faces`` the faces they expose.
    ``methods`` names how each step was found. ``contradiction`` means that the last step proves
    infeasibility, ``minimal`` that the conic solver found no smaller face, ``ended`` that the search is over.
    ``note`` describes a numerical finding that could not be made exact, or why the search stopped.
    """

    chain: Chain
    faces: Faces
    contradiction: bool = False
    methods: list[str] = field(default_factory=list)
    minimal: bool = False
    note: str = ""
    ended: bool = False

    @property
    def description(self) -> str:
        """One line for the raw status."""
        steps = len(self.chain)
        if not steps:
            return self.note or "no smaller face" + (" exists" if self.minimal else " found")
        counts = {name: self.methods.count(name) for name in dict.fromkeys(self.methods)}
        made = ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counts.items())
        sizes = ", ".join(map(str, self.faces.sizes))
        end = "a contradiction" if self.contradiction else f"a face of size {sizes}"
        tail = f"; {self.note}" if self.note else ""
        return f"facial reduction in {steps} step{'s' * (steps > 1)} ({made}) to {end}{tail}"


def search(rows: IntegralRows, deadline: Deadline) -> SearchState:
    """Search for a facial reduction certificate to the end."""
    *_, state = search_stages(rows, deadline)
    return state


def search_stages(
    rows: IntegralRows,
    deadline: Deadline,
    *,
    deep: bool = True,
    start: FloatArray | None = None,
    auxiliary: bool = True,
) -> Iterator[SearchState]:
    """Search for a facial reduction certificate.

    Yields the state at the end and, on problems with many rows, before and after each expensive step. Without
    ``deep`` only the sieve is used. ``start`` are multipliers that may be close to an exposing vector.
    Without ``auxiliary`` no auxiliary problem is solved.
    """
    state = SearchState(Chain((), rows.reading), Faces.whole(rows))
    expensive = rows.problem.m > LATTICE_ROWS
    while not state.contradiction and not deadline.expired:
        try:
            system = auxiliary_system(state.faces)
            step = _first_step(state, ((SIEVE, weights) for weights in sieve(system)))
            if step is None and deep and any(state.faces.sizes):
                if expensive and state.methods[-1:] == [SIEVE]:
                    yield state
                step = _first_step(state, _expensive_candidates(system, state, deadline, start, auxiliary))
        except (LimitError, OverflowError, np.linalg.LinAlgError) as error:
            state.note = f"stopped: {error}" + (f"; {state.note}" if state.note else "")
            break
        if step is None:
            break
        state.chain = state.chain.then(rows.multipliers(step.weights))
        state.faces, state.contradiction = step.after, step.gap > 0
        if expensive and state.methods[-1] != SIEVE and not state.contradiction:
            yield state
    state.ended = True
    yield state


def _first_step(state: SearchState, candidates: Iterator[tuple[str, np.ndarray]]) -> FacialStep | None:
    """Return the step of the first candidate that the verifier accepts."""
    for method, weights in candidates:
        if not np.any(weights != 0):
            continue
        try:
            step = expose_face(state.faces, weights)
        except Refused:
            continue
        state.methods.append(method)
        state.note = ""
        return step
    return None


def _expensive_candidates(
    system: AuxiliarySystem,
    state: SearchState,
    deadline: Deadline,
    start: FloatArray | None,
    auxiliary: bool,
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield multipliers by lattice reduction, from the start, or from the auxiliary problem."""
    # With rounded data a proof would depend on their last digits.
    simple = state.faces.rows.simple
    if simple and system.matrix.shape[0] <= LATTICE_ROWS:
        system = system.lll_reduced()
        yield from (("short combinations of rows", weights) for weights in sieve(system))
    elif simple and start is not None and (near := start_coefficients(system, start)) is not None:
        yield from (("an interior-point method", weights) for weights in round_multipliers(system, near))
    solution = solve_auxiliary_problem(system, deadline) if auxiliary else None
    if solution is None:
        return
    coefficients, depth = solution
    state.minimal = depth < MINIMAL_FACE_DEPTH
    if state.minimal:
        return
    if not simple:
        state.note = "numerically on a smaller face; with rounded data that proves nothing"
        return
    state.note = "a smaller face exists numerically, but no exact exposing vector was found"
    yield from (("an auxiliary problem", weights) for weights in round_multipliers(system, coefficients))
