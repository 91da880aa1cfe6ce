"""Rows on a vector block as one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.rows.base import Rows
from sdpfeas.problem.rows.compose import Combined, Stacked
from sdpfeas.problem.rows.dense import Dense
from sdpfeas.problem.rows.sparse import Sparse

__all__ = ["column_sizes", "dense_columns", "vector_columns"]


def vector_columns(rows: Rows) -> Any:
    """Rows on a vector block as a matrix of shape (m, n): sparse where they are stored so.

    Parameters
    ----------
    rows : Rows
        Rows on a block that is no matrix.
    """
    if isinstance(rows, (Dense, Sparse)):
        return rows.array
    if isinstance(rows, Stacked):
        return _vstack([vector_columns(part) for part in rows.parts])
    assert isinstance(rows, Combined)
    return rows.coefficients @ vector_columns(rows.base)


def column_sizes(rows: Rows) -> Any:
    """Entrywise bound of the numbers that add up to ``vector_columns``; cancellation does not shrink it.

    Parameters
    ----------
    rows : Rows
        Rows on a block that is no matrix.
    """
    if isinstance(rows, (Dense, Sparse)):
        return abs(rows.array)
    if isinstance(rows, Stacked):
        return _vstack([column_sizes(part) for part in rows.parts])
    assert isinstance(rows, Combined)
    return abs(rows.coefficients) @ column_sizes(rows.base)


def dense_columns(matrix: Any) -> FloatArray:
    """Return a matrix, sparse or not, as an array.

    Parameters
    ----------
    matrix : ndarray or sparse array
        For instance from :func:`vector_columns`.
    """
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def _vstack(parts: list[Any]) -> Any:
    if all(sp.issparse(part) for part in parts):
        return sp.vstack(parts, format="csr")
    return np.vstack([dense_columns(part) for part in parts])
