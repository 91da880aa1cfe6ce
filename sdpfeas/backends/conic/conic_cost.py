"""Guards in front of conic solvers, whose factorisations cannot be interrupted (:func:`solver_deadline`).

Flops are those of :func:`sdpfeas.numerics.limits.guard`. The factors were measured on one core relative to
dense matrix products and to writing memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sdpfeas.deadline import Deadline
from sdpfeas.numerics.limits import EIGEN_FLOPS, WRITE_FLOPS, estimated_seconds, guard
from sdpfeas.numerics.linalg import triangle_size
from sdpfeas.problem.conic_form import ConicForm

#: Numbers written per entry of the linear system: in Clarabel's set-up (measured: 15 to 25), and per entry of
#: the factor in an iteration (measured: 8 to 16).
SETUP_NUMBERS, ITERATION_NUMBERS = 25.0, 16.0

#: Chordal decomposition of a sparse matrix cone: numbers written per pair of entries of its triangle, if it
#: has more than this many entries per row. With fewer, the decomposition is cheap.
CLIQUE_NUMBERS_PER_PAIR, CLIQUE_ENTRIES_PER_ROW = 16.0, 4.0

#: Share of the time left that is reserved for reading the solution.
READOUT_TIME_SHARE = 0.05


class Cost(NamedTuple):
    """Flops of the set-up, flops of an iteration, and memory in bytes."""

    setup: float
    iteration: float
    memory: float = 0.0


def solver_deadline(cost: Cost, name: str, deadline: Deadline) -> Deadline:
    """Return the time limit of a solver such that its last iteration ends before the deadline.

    Raises ``OutOfTime`` or ``OutOfMemory`` if not even two iterations fit.
    """
    guard(f"two iterations of {name}", cost.setup + 2.0 * cost.iteration, memory=cost.memory)
    if deadline.limit is None:
        return deadline
    usable = (1.0 - READOUT_TIME_SHARE) * deadline.left - estimated_seconds(cost.iteration)
    return deadline.within(max(usable, 1e-3))


def interior_point_cost(form: ConicForm) -> Cost:
    """Return a lower bound on the cost of a method that factorises one sparse KKT system per iteration.

    The used entries of a matrix are a dense block of the system. Fill-in is not counted.
    """
    used = np.diff(form.matrix.tocsr().indptr) > 0
    used |= form.rhs != 0.0
    blocks = np.array([float(np.count_nonzero(used[part])) for _, part in form.rows.semidefinite_slices])
    sides = np.array(form.rows.semidefinite, dtype=float)
    entries = float(form.matrix.nnz + np.sum(blocks**2) / 2.0)
    whole = np.array([float(triangle_size(n)) for n in form.rows.semidefinite])
    decomposed = (blocks < whole) & (blocks > CLIQUE_ENTRIES_PER_ROW * sides)
    pairs = float(np.sum(whole[decomposed] ** 2)) / 2.0
    return Cost(
        setup=WRITE_FLOPS * (SETUP_NUMBERS * entries + CLIQUE_NUMBERS_PER_PAIR * pairs),
        iteration=float(np.sum(blocks**3)) / 6.0 + WRITE_FLOPS * ITERATION_NUMBERS * entries,
        memory=64.0 * entries,
    )


def eigen_flops(form: ConicForm) -> float:
    """Return the flops of one eigendecomposition per matrix."""
    return EIGEN_FLOPS * float(sum(float(n) ** 3 for n in form.rows.semidefinite))
