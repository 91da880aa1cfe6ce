"""All rows of one block on a face: in words of the machine and sparse, or as long integers.

Either a CSR array of integers or an array of Python's, one row a line, matrices flattened.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.effort import need
from sdpfeas.numerics.integers import row_divisors
from sdpfeas.problem.rows.arrays import stored_rows

__all__ = ["congruences", "divided", "divisors", "filled", "is_sparse"]

#: No sum of products may reach this.
LARGEST = 2**62

#: Numbers that can be written in the time of one product of sparse matrices, and bytes that one takes.
NUMBERS, BYTES = 20.0, 32.0

#: Rows of which more than this share is not zero are stored in full.
DENSE = 0.25


def is_sparse(table: Any) -> bool:
    """Whether rows are a CSR array."""
    return bool(sp.issparse(table))


def congruences(rows: Any, basis: np.ndarray) -> Any | None:
    """``V' A_i V`` for all rows; None if numbers might become too long.

    Parameters
    ----------
    rows : csr_array of int
        Symmetric matrices, flattened.
    basis : ndarray of int
        V.
    """
    m, (n, side) = rows.shape[0], basis.shape
    largest = max(int(basis.max(initial=0)), -int(basis.min(initial=0)))
    sums = int(np.max(abs(rows).sum(axis=1), initial=0))
    if not rows.nnz or not basis.size:
        return sp.csr_array((m, side * side), dtype=np.int64)
    if sums * largest**2 >= LARGEST:
        return None
    v = sp.csr_array(basis)
    lengths = np.diff(v.indptr)
    _need(lengths[rows.indices % n])
    half = sp.coo_array(sp.csr_array(sp.coo_array(rows).reshape((m * n, n))) @ v)
    row, first = np.divmod(half.coords[0].astype(np.int64), n)
    _need(lengths[first])
    turned = sp.csr_array((half.data, (row * side + half.coords[1], first)), shape=(m * side, n))
    out = sp.csr_array(sp.coo_array(turned @ v).reshape((m, side * side)))
    out.eliminate_zeros()
    return out


def _need(lengths: np.ndarray) -> None:
    count = float(lengths.sum(dtype=np.float64))
    need("the rows on a face", numbers=NUMBERS * count, memory=BYTES * count)


def filled(table: Any, side: int | None) -> np.ndarray:
    """The columns of rows that differ and are not zero, of matrices those of the upper triangle.

    Parameters
    ----------
    table : csr_array or ndarray
        The rows.
    side : int or None
        Side of the matrices; None if they are none.
    """
    columns = np.unique(table.indices) if is_sparse(table) else np.arange(table.shape[1])
    if side is not None:
        first, second = np.divmod(columns, side)
        columns = columns[first <= second]
    if not is_sparse(table):
        return np.asarray(table[:, columns])
    chosen = _distinct(sp.csc_array(table[:, columns]))
    need("the rows on a face", memory=8.0 * math.prod(chosen.shape))
    return np.asarray(chosen.toarray())


def _distinct(table: Any) -> Any:
    """Every column once."""
    marks = np.random.default_rng(0).integers(1, LARGEST, size=table.shape[0])
    _, first, place = np.unique(table.T @ marks, return_index=True, return_inverse=True)
    few = table[:, first]
    # Columns with the same sum, which may have run over, are most likely the same.
    return table if (table - few[:, place]).nnz else few


def divisors(table: Any) -> list[int]:
    """Greatest common divisor of every row; zero for one that is zero."""
    if not is_sparse(table):
        return row_divisors(table)
    out = np.zeros(table.shape[0], dtype=np.int64)
    np.gcd.at(out, stored_rows(table), np.abs(table.data))
    return [int(v) for v in out.tolist()]


def divided(table: Any, own: np.ndarray) -> Any:
    """Rows over divisors of theirs."""
    if is_sparse(table):
        # Of a row that is zero the divisor is that of its bounds, however long.
        short = np.array([d if d < LARGEST else 1 for d in own], dtype=np.int64)
        values = table.data // short[stored_rows(table)]
        return sp.csr_array((values, table.indices, table.indptr), table.shape)
    out = table.copy()
    which = np.flatnonzero(own != 1)
    out[which] //= own[which, None]
    return out
