"""Definiteness and linear systems in rational arithmetic."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.verifier.exact import rationals
from sdpfeas.verifier.exact.rationals import zeros

__all__ = ["exact_step", "semidefinite_exact"]


def semidefinite_exact(matrix: np.ndarray) -> bool:
    """Decide whether a symmetric matrix of rationals is positive semidefinite."""
    n = matrix.shape[0]
    if rationals.HAS_FLINT and n > 2:
        import flint

        # All roots of a characteristic polynomial are real; none is negative if the signs alternate.
        whole, _ = flint.fmpq_mat(n, n, list(matrix.reshape(-1))).numer_denom()
        signs = whole.charpoly()
        return all((signs[k] if (n - k) % 2 == 0 else -signs[k]) >= 0 for k in range(n + 1))
    return _semidefinite_by_pivots(matrix)


def _semidefinite_by_pivots(matrix: np.ndarray) -> bool:
    """Decide by LDL' whether a symmetric matrix of rationals is positive semidefinite."""
    a = np.array(matrix, dtype=object)
    n = a.shape[0]
    for k in range(n):
        pivot = a[k, k]
        if pivot < 0:
            return False
        column = a[k + 1 :, k]
        if pivot == 0:
            if any(v != 0 for v in column):
                return False
            continue
        ratio = column / pivot
        for offset in range(n - k - 1):
            if ratio[offset] != 0:
                row = k + 1 + offset
                a[row, k + 1 :] = a[row, k + 1 :] - ratio[offset] * a[k, k + 1 :]
    return True


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
    columns = columns[:rank]
    _, _, order = scipy.linalg.qr(table[:, columns].T, mode="economic", pivoting=True)
    index = order[:rank]
    part = solve(matrix[np.ix_(index, columns)], off[index]) if rank else zeros((0,))
    if part is None:
        return None
    step = zeros((matrix.shape[1],))
    step[columns] = part
    return step if all(a == b for a, b in zip(matrix.dot(step), off, strict=True)) else None
