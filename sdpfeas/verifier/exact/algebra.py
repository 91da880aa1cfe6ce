"""Short rational corrections that make equations hold."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rational import solve_exact, zeros

__all__ = ["exact_step"]


def exact_step(
    matrix: np.ndarray, near: FloatArray, weight: FloatArray, off: np.ndarray
) -> np.ndarray | None:
    """Find a short rational ``step`` with ``matrix @ step = off``; None if none was found.

    Only a few entries move: as many as there are independent equations, chosen for a well-conditioned system
    among those that may move far (``weight``). Redundant equations have to hold by themselves.

    Parameters
    ----------
    matrix : ndarray of rationals
        One row per equation.
    near : ndarray
        The same in floating point.
    weight : ndarray
        How far each entry may move.
    off : ndarray of rationals
        The right-hand side.
    """
    table = near * weight
    size = np.linalg.norm(table, axis=1)
    if not np.isfinite(table).all() or not table.size:
        return None
    table = table / np.where(size > 0.0, size, 1.0)[:, None]
    _, triangle, columns = scipy.linalg.qr(table, mode="economic", pivoting=True)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int(np.sum(diagonal > 1e-10 * np.max(diagonal, initial=0.0)))
    step = zeros((matrix.shape[1],))
    if rank:
        columns = columns[:rank]
        index = scipy.linalg.qr(table[:, columns].T, mode="economic", pivoting=True)[2][:rank]
        part = solve_exact(matrix[np.ix_(index, columns)], off[index])
        if part is None:
            return None
        step[columns] = part
    return step if all(a == b for a, b in zip(matrix.dot(step), off, strict=True)) else None
