"""Definiteness in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

__all__ = ["semidefinite_exact"]


def semidefinite_exact(matrix: np.ndarray) -> bool:
    """Decide whether a symmetric matrix of rationals is positive semidefinite.

    Parameters
    ----------
    matrix : ndarray
        Fractions of the standard library, or rationals of python-flint.
    """
    n = matrix.shape[0]
    if n > 2 and not isinstance(matrix[0, 0], Fraction):
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
