"""Cost estimates of conic solvers, made before a solver starts.

Native solvers cannot be interrupted during a factorisation, so work that does not fit into the time or memory
left is refused (:func:`solver_deadline`). The factors were measured on one core relative to dense matrix
products and to writing memory; see :mod:`sdpfeas.numerics.cost_estimate` for the units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sdpfeas.deadline import Deadline
from sdpfeas.numerics.cost_estimate import Work, need, seconds
from sdpfeas.numerics.linalg import FloatArray, triangle_size
from sdpfeas.problem.conic_form import ConicForm

#: Time of a multiply-add in a sparse factorisation, in multiply-adds of a dense product. Clarabel: 8 to 20,
#: growing with the number of rows.
SPARSE_FLOP_FACTOR = 20.0

#: The same in a supernodal factorisation, which stores the zeros of its dense blocks. Measured: 0.3 to 0.8.
SUPERNODAL_FLOP_FACTOR = 0.8

#: Numbers written per entry of the linear system while Clarabel sets up. Measured: 15 to 25.
SETUP_NUMBERS_PER_ENTRY = 25.0

#: Chordal decomposition of a sparse matrix cone: numbers written per pair of entries of its triangle, if it
#: has more than this many entries per row. With fewer, the decomposition is cheap.
CLIQUE_NUMBERS_PER_PAIR, CLIQUE_ENTRIES_PER_ROW = 16.0, 4.0

#: Numbers written per entry of the factor and iteration. Measured: 8 to 16.
ITERATION_NUMBERS_PER_ENTRY = 16.0

#: The AMD ordering of SCS is quadratic in the entries of the longest row or column: numbers written per pair,
#: measured at 31,000 to 180,000 entries.
ORDERING_NUMBERS_PER_PAIR = 0.11

#: Share of the time left that is reserved for reading the solution.
READOUT_TIME_SHARE = 0.05


class Cost(NamedTuple):
    """Cost of the set-up, cost per iteration, and memory in bytes."""

    setup: Work
    iteration: Work
    memory: float


def solver_deadline(cost: Cost, name: str, deadline: Deadline) -> Deadline:
    """Return the time limit of a solver such that its last iteration ends before the deadline.

    Raises ``OutOfTime`` or ``OutOfMemory`` if not even two iterations fit.
    """
    need(f"two iterations of {name}", *cost.setup.plus(cost.iteration.times(2.0)), memory=cost.memory)
    if deadline.limit is None:
        return deadline
    left = deadline.left
    usable = (1.0 - READOUT_TIME_SHARE) * left - seconds(cost.iteration, 0.05 * left)
    return deadline.within(max(usable, 1e-3))


def interior_point_cost(form: ConicForm) -> Cost:
    """Estimate an interior-point method that factorises one sparse KKT system per iteration.

    A matrix of side n is a dense block of the system with n(n + 1)/2 rows.
    """
    blocks = np.array([float(triangle_size(n)) for n in form.rows.semidefinite])
    touched = np.diff(form.matrix.tocsc().indptr).astype(np.float64)
    factor = float(np.sum(blocks**3) / 3.0 + touched @ touched / 2.0)
    filled = float(form.matrix.nnz + np.sum(blocks**2) / 2.0)
    cones = _cubes(form)
    each = Work(products=SPARSE_FLOP_FACTOR * factor + 20.0 * cones, cubes=4.0 * cones, numbers=20.0 * filled)
    return Cost(each, each, 64.0 * filled)


def setup_cost(form: ConicForm) -> Cost:
    """Return a lower bound on the cost of Clarabel: its set-up, and iterations without fill-in.

    Fill-in and chordal decomposition are known after the set-up; then :func:`factored_cost` applies.
    """
    used = np.diff(form.matrix.tocsr().indptr) > 0
    used |= form.rhs != 0.0
    blocks = np.array([float(np.count_nonzero(used[part])) for _, part in form.rows.semidefinite_slices])
    entries = float(form.matrix.nnz + np.sum(blocks**2) / 2.0)
    each = Work(products=float(np.sum(blocks**3)) / 6.0, numbers=ITERATION_NUMBERS_PER_ENTRY * entries)
    whole = np.array([float(triangle_size(n)) for n in form.rows.semidefinite])
    sides = np.array(form.rows.semidefinite, dtype=float)
    decomposed = (blocks < whole) & (blocks > CLIQUE_ENTRIES_PER_ROW * sides)
    pairs = float(np.sum(whole[decomposed] ** 2)) / 2.0
    setup = Work(numbers=SETUP_NUMBERS_PER_ENTRY * entries + CLIQUE_NUMBERS_PER_PAIR * pairs)
    return Cost(setup, each, interior_point_cost(form).memory)


def factored_cost(form: ConicForm, entries: float, *, supernodal: bool) -> Work:
    """Estimate an interior-point iteration from the number of entries of its factor."""
    # For a given number of entries, a factor with columns of equal length is the cheapest.
    factor = entries**2 / (2.0 * max(sum(form.matrix.shape), 1))
    cones = _cubes(form)
    return Work(
        products=(SUPERNODAL_FLOP_FACTOR if supernodal else SPARSE_FLOP_FACTOR) * factor + 20.0 * cones,
        cubes=4.0 * cones,
        numbers=ITERATION_NUMBERS_PER_ENTRY * entries,
    )


def splitting_cost(form: ConicForm) -> Cost:
    """Estimate an operator-splitting method that factorises one sparse system once, such as SCS."""
    rows, columns = (np.diff(m.indptr).astype(np.float64) for m in (form.matrix.tocsr(), form.matrix.tocsc()))
    # Eliminating one side first leaves a matrix of the order of the other side.
    factor, fill = min(_elimination(rows, columns.size), _elimination(columns, rows.size))
    filled = float(form.matrix.nnz) + fill
    each = Work(cubes=3.0 * _cubes(form), numbers=8.0 * filled)
    longest = max(float(part.max()) if part.size else 0.0 for part in (rows, columns))
    ordering = ORDERING_NUMBERS_PER_PAIR * longest**2
    setup = Work(products=SPARSE_FLOP_FACTOR * factor, numbers=60.0 * filled + ordering)
    return Cost(setup, each, 80.0 * filled)


def _elimination(degrees: FloatArray, others: int) -> tuple[float, float]:
    """Return the flop count and fill-in of eliminating unknowns with the given degrees."""
    pairs, most = float(degrees @ degrees), float(others) ** 2
    return pairs / 2.0 + (others**3 / 6.0 if pairs > most else 0.0), min(pairs, most) / 2.0


def _cubes(form: ConicForm) -> float:
    return float(sum(float(n) ** 3 for n in form.rows.semidefinite))
