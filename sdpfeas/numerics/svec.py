"""Symmetric matrices as vectors: one triangle, scaled so that inner products stay what they are."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

__all__ = ["Triangle", "svec_map", "triangle_size"]

Triangle = Literal["lower", "upper"]


def triangle_size(n: int) -> int:
    """Entries of one triangle of an n×n matrix."""
    return n * (n + 1) // 2


@lru_cache(maxsize=32)
def svec_map(n: int, triangle: Triangle) -> Any:
    """Return the sparse matrix T with ``vec(X) = T svec(X)``; its columns are orthonormal.

    Parameters
    ----------
    n : int
        Side of the matrix.
    triangle : {"lower", "upper"}
        Which triangle is stored, column by column; off-diagonal entries are scaled by the root of two.

    Examples
    --------
    >>> import numpy as np
    >>> T = svec_map(2, "lower")
    >>> svec = T.T @ np.ravel([[1.0, 2.0], [2.0, 3.0]])
    >>> np.allclose(svec, [1.0, 2.0 * np.sqrt(2.0), 3.0])
    True
    >>> np.allclose((T @ svec).reshape(2, 2), [[1.0, 2.0], [2.0, 3.0]])
    True
    """
    # Column-major in one triangle is row-major in the other.
    i, j = np.triu_indices(n) if triangle == "lower" else np.tril_indices(n)
    k = np.arange(i.size)
    value = np.where(i == j, 0.5, np.sqrt(0.5))  # on the diagonal the two halves fall on one entry
    place = (np.concatenate([i * n + j, j * n + i]), np.concatenate([k, k]))
    return sp.csc_array((np.concatenate([value, value]), place), shape=(n * n, i.size))
