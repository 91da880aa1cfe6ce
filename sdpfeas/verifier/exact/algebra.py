"""Linear systems in rational arithmetic."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.verifier.exact import rationals
from sdpfeas.verifier.exact.rationals import zeros

__all__ = ["exact_step"]


def solve(matrix: np.ndarray, rhs: np.ndarray) -> np.ndarray | None:
    """Solve a square rational system; None if it is singular."""
    size = rhs.size
    if rationals.HAS_FLINT:
        import flint

        try:
            found = flint.fmpq_mat(size, size, list(matrix.reshape(-1))).solve(
                flint.fmpq_mat(size, 1, list(rhs))
            )
        except ZeroDivisionError:
            return None
        return np.array(found.entries(), dtype=object)
    table = np.concatenate([matrix, rhs.reshape(-1, 1)], axis=1)
    for col in range(size):
        hit = next((r for r in range(col, size) if table[r, col] != 0), None)
        if hit is None:
            return None
        if hit != col:
            table[[col, hit]] = table[[hit, col]]
        table[col] = table[col] / table[col, col]
        for r in range(size):
            if r != col and table[r, col] != 0:
                table[r] = table[r] - table[r, col] * table[col]
    return table[:, size]


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
        part = solve(matrix[np.ix_(index, columns)], off[index])
        if part is None:
            return None
        step[columns] = part
    return step if all(a == b for a, b in zip(matrix.dot(step), off, strict=True)) else None
