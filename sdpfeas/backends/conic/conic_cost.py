"""Guards in front of conic solvers, whose factorisations cannot be interrupted (:func:`solver_deadline`).

Flops are those of :func:`sdpfeas.numerics.limits.guard`. The factors were measured on one core relative to
dense matrix products and to writing memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpfeas.deadline import Deadline
from sdpfeas.numerics.limits import EIGEN_FLOPS, WRITE_FLOPS, estimated_seconds, guard
from sdpfeas.numerics.linalg import FloatArray, sparse_factor, triangle_size
from sdpfeas.problem.conic_form import ConicForm

#: Numbers written per entry of the linear system: in Clarabel's set-up (measured: 15 to 25), and per entry of
#: the factor in an iteration (measured: 8 to 16).
SETUP_NUMBERS, ITERATION_NUMBERS = 25.0, 16.0

#: Time of a multiply-add in the sparse factorisation of SCS, in multiply-adds of a dense product.
SPLITTING_FLOP_FACTOR = 20.0

#: Its AMD ordering is quadratic in the entries of the longest row or column: numbers written per pair,
#: measured at 31,000 to 180,000 entries.
ORDERING_NUMBERS_PER_PAIR = 0.11

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
    """Estimate a method that factorises one sparse KKT system per iteration; its fill-in is not counted.

    A matrix cone is a dense block of the system, or one per clique of the chordal extension of its used
    entries.
    """
    used = np.diff(form.matrix.tocsr().indptr) > 0
    used |= form.rhs != 0.0
    parts = [_cliques(n, np.flatnonzero(used[part])) for n, part in form.rows.semidefinite_slices]
    sides = np.concatenate([[0.0], *parts])
    blocks = sides * (sides + 1.0) / 2.0
    entries = float(form.matrix.nnz + np.sum(blocks**2) / 2.0)
    return Cost(
        setup=WRITE_FLOPS * SETUP_NUMBERS * entries,
        iteration=float(np.sum(blocks**3)) / 6.0 + WRITE_FLOPS * ITERATION_NUMBERS * entries,
        memory=64.0 * entries,
    )


def _cliques(n: int, used: np.ndarray) -> np.ndarray:
    """Return the sizes of the maximal cliques of a chordal extension of some entries of an upper triangle.

    They are read off a sparse Cholesky factor: a column is part of a larger clique if it is the first below
    the diagonal of a column with one more entry (Vandenberghe and Andersen, 2015, section 4.4).
    """
    if used.size == triangle_size(n):
        return np.array([n])
    j = ((np.sqrt(8.0 * used + 1.0) - 1.0) / 2.0).astype(np.int64)
    half = sp.csr_array((np.full(used.size, -1.0), (used - j * (j + 1) // 2, j)), shape=(n, n))
    lower = sp.csc_array(sparse_factor(half + half.T + (2.0 * n + 1.0) * sp.eye_array(n)).L)
    lower.sort_indices()
    counts = np.diff(lower.indptr)
    inner = np.flatnonzero(counts > 1)
    parents = lower.indices[lower.indptr[inner] + 1]
    maximal = np.ones(n, dtype=bool)
    maximal[parents[counts[parents] == counts[inner] - 1]] = False
    return np.asarray(counts[maximal])


def eigen_flops(form: ConicForm) -> float:
    """Return the flops of one eigendecomposition per matrix."""
    return EIGEN_FLOPS * float(sum(float(n) ** 3 for n in form.rows.semidefinite))


def splitting_cost(form: ConicForm) -> Cost:
    """Estimate a method that factorises one sparse system once."""
    rows, columns = (np.diff(m.indptr).astype(np.float64) for m in (form.matrix.tocsr(), form.matrix.tocsc()))
    # Eliminating one side first leaves a matrix of the order of the other side.
    factor, fill = min(_elimination(rows, columns.size), _elimination(columns, rows.size))
    filled = float(form.matrix.nnz) + fill
    longest = float(np.max(np.concatenate([rows, columns]), initial=0.0))
    written = 60.0 * filled + ORDERING_NUMBERS_PER_PAIR * longest**2
    return Cost(
        setup=SPLITTING_FLOP_FACTOR * factor + WRITE_FLOPS * written,
        iteration=3.0 * eigen_flops(form) + WRITE_FLOPS * 8.0 * filled,
        memory=80.0 * filled,
    )


def _elimination(degrees: FloatArray, others: int) -> tuple[float, float]:
    """Return the flop count and fill-in of eliminating unknowns with the given degrees."""
    pairs, most = float(degrees @ degrees), float(others) ** 2
    return pairs / 2.0 + (others**3 / 6.0 if pairs > most else 0.0), min(pairs, most) / 2.0
