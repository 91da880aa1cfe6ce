"""Rows of any kind as one sparse matrix, up to rounding of their own entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.rows.base import Rows
from sdpfeas.problem.rows.compose import Combined, Stacked
from sdpfeas.problem.rows.dense import Dense
from sdpfeas.problem.rows.low_rank import LowRank
from sdpfeas.problem.rows.pairwise import PairwiseDifference
from sdpfeas.problem.rows.sparse import Sparse

# ------------------------------------------------------------
# Rows on a vector block as one matrix.


def vector_columns(rows: Rows) -> Any:
    """Rows on a vector block as a matrix of shape (m, n): sparse where they are stored so.

    ``rows``: rows on a block that is no matrix.
    """
    if isinstance(rows, (Dense, Sparse)):
        return rows.array
    if isinstance(rows, Stacked):
        return _vstack([vector_columns(part) for part in rows.parts])
    assert isinstance(rows, Combined)
    return rows.coefficients @ vector_columns(rows.base)


def column_sizes(rows: Rows) -> Any:
    """Entrywise bound of the numbers that add up to ``vector_columns``; cancellation does not shrink it.

    ``rows``: rows on a block that is no matrix.
    """
    if isinstance(rows, (Dense, Sparse)):
        return abs(rows.array)
    if isinstance(rows, Stacked):
        return _vstack([column_sizes(part) for part in rows.parts])
    assert isinstance(rows, Combined)
    return abs(rows.coefficients) @ column_sizes(rows.base)


def dense_columns(matrix: Any) -> FloatArray:
    """Return a matrix, sparse or not, as an array."""
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def _vstack(parts: list[Any]) -> Any:
    if all(sp.issparse(part) for part in parts):
        return sp.vstack(parts, format="csr")
    return np.vstack([dense_columns(part) for part in parts])


def matrix_of(rows: Rows) -> Any:
    """Rows as one sparse matrix, each flattened (row by row) into a row of it."""
    if isinstance(rows, Dense):
        return sp.csr_array(rows.array.reshape(rows.m, -1))
    if isinstance(rows, Sparse):
        return rows.array
    if isinstance(rows, PairwiseDifference):
        return sp.csr_array(_squares(rows.differences()))
    if isinstance(rows, LowRank):
        owner = (rows.signs, (rows.owner, np.arange(rows.owner.size)))
        pick = sp.csr_array(owner, shape=(rows.m, rows.owner.size))
        return sp.csr_array(pick @ sp.csr_array(_squares(rows.factors)))
    if isinstance(rows, Stacked):
        return sp.csr_array(sp.vstack([matrix_of(part) for part in rows.parts], format="csr"))
    assert isinstance(rows, Combined)
    return sp.csr_array(rows.coefficients @ matrix_of(rows.base))


def sizes_of(rows: Rows) -> Any:
    """Entrywise bound of the numbers that add up to ``matrix_of``; cancellation does not shrink it."""
    if isinstance(rows, (Dense, Sparse)):
        return abs(matrix_of(rows))
    if isinstance(rows, PairwiseDifference):
        return sp.csr_array(_squares(np.abs(rows.differences())))
    if isinstance(rows, LowRank):
        owner = (np.abs(rows.signs), (rows.owner, np.arange(rows.owner.size)))
        pick = sp.csr_array(owner, shape=(rows.m, rows.owner.size))
        return sp.csr_array(pick @ sp.csr_array(_squares(np.abs(rows.factors))))
    if isinstance(rows, Stacked):
        return sp.csr_array(sp.vstack([sizes_of(part) for part in rows.parts], format="csr"))
    assert isinstance(rows, Combined)
    return sp.csr_array(abs(rows.coefficients) @ sizes_of(rows.base))


def _squares(vectors: FloatArray) -> FloatArray:
    """Outer square of every vector, flattened."""
    return np.einsum("ki,kj->kij", vectors, vectors).reshape(vectors.shape[0], -1)
