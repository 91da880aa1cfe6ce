"""The full auxiliary problem: the exposing vector that is deepest in its cone, by a cone solver.

Of all vectors that multipliers make, with trace one, the largest ``lambda`` such that the vector less
``lambda`` times the identity is still in the cone. Both this problem and its dual have interior points,
whatever the problem has. A negative value says that the face is the smallest; zero, that the optimal vectors
expose a smaller one, and an interior-point method finds those of largest rank.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas.backends.clarabel import Clarabel
from sdpfeas.backends.conic.cones import Cones, StandardForm, svec_map, triangle_size
from sdpfeas.backends.facial.table import Table
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.effort import Work, need
from sdpfeas.numerics.linalg import FloatArray, eigvalsh

__all__ = ["NOTHING", "deepest", "likely"]

#: Accuracy asked for; what the solver reaches is taken.
TOLERANCE = 1e-12

#: Depth, relative to the trace, below which no vector is in the cone.
NOTHING = -1e-5

#: Parts of an exposing vector smaller than this, relative to what it is made of, are rounding.
ROUNDING = 1e-7

#: Directions smaller than this, relative to the largest, are none.
RANK = 1e-10


def deepest(table: Table, deadline: Deadline) -> tuple[FloatArray, float] | None:
    """Find the deepest exposing vector: shares of the rows of ``table.near``, and its depth; None if none.

    Parameters
    ----------
    table : Table
        The table.
    deadline : Deadline
        Until when.
    """
    # What comes after the rows are written out takes the longer, and without it they are of no use.
    memory = 32.0 * sum(float(triangle_size(part.side)) ** 2 for part in table.parts)
    width = table.squares + table.rays.stop - table.rays.start
    work = table.near_work.plus(_orthonormal_work(table.lines.shape[0], width))
    need("an auxiliary problem", *work, memory=memory)
    vectors, flat = table.near
    basis, shares = _orthonormal(vectors, flat)
    if not len(basis):
        return None
    form = _form(table, basis)
    answer = Clarabel(tolerance=TOLERANCE, max_iterations=100)._solve(form, deadline)
    if answer.x is None or not np.isfinite(answer.x).all():
        return None
    y = answer.x[:-1]
    if not np.linalg.norm(y) > 1e-3:
        return None
    return y @ shares, float(answer.x[-1])


def likely(table: Table, multipliers: FloatArray) -> FloatArray | None:
    """Shares of the rows of ``table.near`` that are an exposing vector of trace one, as far as doubles tell.

    Parameters
    ----------
    table : Table
        The table of all rows on a face.
    multipliers : ndarray
        Multipliers of the rows of the problem that may make the vector; None is returned if they do not.
    """
    shares = table.shares(multipliers)
    vectors, flat = table.near
    matrices, rays = table.split(shares @ vectors)
    trace = float(sum(map(np.trace, matrices)) + rays.sum())
    slip = ROUNDING * float(np.abs(shares) @ np.linalg.norm(np.concatenate([vectors, flat], axis=1), axis=1))
    if not (math.isfinite(trace) and trace > slip and np.linalg.norm(shares @ flat) <= slip):
        return None
    depth = min((float(eigvalsh(matrix)[0]) for matrix in matrices), default=np.inf)
    return shares / trace if min(depth, rays.min()) > NOTHING * trace else None


def _orthonormal_work(count: int, width: int) -> Work:
    # Pivoting goes through all columns at every step, at the speed of the memory.
    return Work(products=12.0 * count * width * min(count, width) + 4.0 * count**3)


def _orthonormal(vectors: FloatArray, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Orthonormal vectors that span those that vanish where they must, and how they are made."""
    need("an auxiliary problem", *_orthonormal_work(*vectors.shape))
    sizes = np.linalg.norm(np.concatenate([vectors, flat], axis=1), axis=1)
    sizes[sizes == 0.0] = 1.0
    shares = np.diag(1.0 / sizes)
    if flat.shape[1]:
        shares = scipy.linalg.null_space((flat / sizes[:, None]).T, rcond=RANK).T / sizes
    made = shares @ vectors
    if not made.size:
        return made, shares
    q, r, order = scipy.linalg.qr(made.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diagonal(r))
    rank = int(np.sum(diagonal > RANK * np.max(diagonal, initial=0.0)))
    inverse = scipy.linalg.solve_triangular(r[:rank, :rank], np.eye(rank))
    return q[:, :rank].T, inverse.T @ shares[order[:rank]]


def _form(table: Table, basis: FloatArray) -> StandardForm:
    """Cone program: maximise the depth."""
    count = len(basis)
    trace = np.zeros(count)
    cone_rows, middles, sides, start = [], [], [], 0
    for part in table.parts:
        own = basis[:, start : start + part.side**2]
        start += part.side**2
        eye = np.eye(part.side).reshape(-1)
        trace += own @ eye
        pack = svec_map(part.side, "upper").T
        cone_rows.append(np.asarray(pack @ own.T))
        middles.append(np.asarray(pack @ eye))
        sides.append(part.side)
    rays = basis[:, start:].T
    trace += rays.sum(axis=0)
    body = np.concatenate([rays, *cone_rows])
    middle = np.concatenate([np.ones(len(rays)), *middles])
    matrix = sp.csc_array(np.block([[trace[None, :], np.zeros((1, 1))], [-body, middle[:, None]]]))
    rhs = np.zeros(matrix.shape[0])
    rhs[0] = 1.0
    cost = np.append(np.zeros(count), -1.0)
    cones = Cones(flat=1, nonneg=len(rays), psd=tuple(sides))
    return StandardForm(cost, matrix, rhs, cones, np.arange(matrix.shape[0]))
