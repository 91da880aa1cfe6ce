"""Cones of a canonical form as sets of ours: which rows they are, there and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.exactness import sum_of
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.sets import PSD, BlockSet, HermitianPSD, SecondOrder

__all__ = ["Cone", "hermitian", "second_order", "semidefinite"]


@dataclass(frozen=True)
class Cone:
    """Rows of a canonical form that are entries of a member ``X`` of a set.

    Attributes
    ----------
    block : BlockSet
        The set.
    rows : ndarray
        All rows of the cone.
    first : ndarray
        Those that say it all; the others repeat them, maybe with the opposite sign.
    view, spread : sparse array
        ``view @ vec(X)`` are the first rows, and ``spread @`` these rows ``vec(X)``.
    copies : sparse array, optional
        How a multiplier of a first row is shared among it and its repetitions; none if there are none.
    as_lmi : bool
        Whether it is posed as an LMI where its rows are more than variables.
    """

    block: BlockSet
    rows: np.ndarray
    first: np.ndarray
    view: Any
    spread: Any
    copies: Any = None
    as_lmi: bool = True

    def member(self, entries: FloatArray) -> FloatArray:
        """What is seen as these entries of the first rows."""
        return np.asarray((self.spread @ entries).reshape(self.block.shape))

    def shared(self, multipliers: FloatArray) -> FloatArray:
        """Multipliers of all rows, from those of the first ones."""
        return multipliers if self.copies is None else np.asarray(self.copies @ multipliers)

    def row_multipliers(self, multiplier: FloatArray) -> FloatArray:
        """Multipliers of all rows, from that of the member."""
        return self.shared(self.spread.T @ multiplier)

    def multiplier(self, z: FloatArray) -> FloatArray:
        """The multiplier of the member, from those of all rows."""
        return np.asarray(self.view.T @ (z if self.copies is None else 2.0 * (self.copies.T @ z)))


def second_order(rows: np.ndarray) -> Cone:
    """A second-order cone.

    Parameters
    ----------
    rows : ndarray
        The bound, then what it bounds the length of.
    """
    same = sp.eye_array(rows.size, format="csr")
    # As LMIs they are solved as fast, but where one defines the bound of the next (as in x**4) certificates
    # stay unproved; with slacks they are proved.
    return Cone(SecondOrder(rows.size), rows, rows, same, same, as_lmi=False)


def semidefinite(rows: np.ndarray) -> Cone:
    """A semidefinite cone.

    Parameters
    ----------
    rows : ndarray
        The lower triangle, column by column.
    """
    n = (math.isqrt(8 * rows.size + 1) - 1) // 2
    return Cone(PSD(n), rows, rows, *_symmetric(n))


def hermitian(matrix: Any, b: FloatArray, rows: np.ndarray) -> Cone | None:
    """A Hermitian semidefinite cone, if a semidefinite one is that: real and imaginary part, each twice.

    Parameters
    ----------
    matrix, b
        The canonical form.
    rows : ndarray
        The rows of the semidefinite cone ``[[Re, -Im], [Im, Re]]``.

    Returns
    -------
    Cone or None
        None if its rows are other ones, or if a number of ``Re + Im`` would be rounded.
    """
    side = (math.isqrt(8 * rows.size + 1) - 1) // 2
    if side % 2 or side == 0:
        return None
    real, imaginary, empty = _halves(side // 2)
    counts = np.diff(matrix.indptr[rows[0] : rows[-1] + 2])
    bounds = b[rows]
    if (
        counts[empty].any()
        or bounds[empty].any()
        or not (counts[imaginary[0]].any() or bounds[imaginary[0]].any())
    ):
        return None
    for (one, other), sign in ((real, 1.0), (imaginary, -1.0)):
        if np.any(counts[one] != counts[other]) or np.any(bounds[one] != sign * bounds[other]):
            return None
        mine, yours = _stored(matrix, rows[one]), _stored(matrix, rows[other])
        if np.any(matrix.indices[mine] != matrix.indices[yours]):
            return None
        if np.any(matrix.data[mine] != sign * matrix.data[yours]):
            return None
    view, spread, copies = _complex(side // 2)
    first = rows[np.concatenate([real[0], imaginary[0]])]
    below = real[0][_below(side // 2)]
    for factor in (1.0, -1.0):
        if np.any(sum_of(bounds[below], factor * bounds[imaginary[0]])[1]):
            return None
    pairs = matrix[rows[below]].multiply(matrix[rows[imaginary[0]]])
    if pairs.nnz:  # a variable in both parts of an entry: their sum may be rounded
        return None
    return Cone(HermitianPSD(side // 2), rows, first, view, spread, copies)


def _stored(matrix: Any, rows: np.ndarray) -> np.ndarray:
    """Where the numbers of some rows are stored, row after row."""
    begin, end = matrix.indptr[rows], matrix.indptr[rows + 1]
    sizes = end - begin
    return np.asarray(np.repeat(begin - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum()))


@lru_cache(maxsize=64)
def _symmetric(n: int) -> tuple[Any, Any]:
    """The lower triangle, column by column, of a symmetric matrix, and the way back."""
    j, i = np.triu_indices(n)
    place, off = np.arange(i.size), i != j
    shape = (i.size, n * n)
    both = np.concatenate([i * n + j, j * n + i])
    view = sp.csr_array((np.full(both.size, 0.5), (np.tile(place, 2), both)), shape=shape)
    rows = np.concatenate([i * n + j, (j * n + i)[off]])
    columns = np.concatenate([place, place[off]])
    return view, sp.csr_array((np.ones(rows.size), (rows, columns)), shape=shape[::-1])


def _below(n: int) -> np.ndarray:
    """Mask of the entries below the diagonal in a lower triangle, column by column."""
    j, i = np.triu_indices(n)
    return np.asarray(i != j)


@lru_cache(maxsize=64)
def _halves(n: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Where the parts of a Hermitian matrix are in the triangle of the real one: twice each, and nothing."""

    def at(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return np.asarray(j * 2 * n - j * (j - 1) // 2 + (i - j))

    j, i = np.triu_indices(n)
    below = i != j
    p, q = i[below], j[below]
    own = np.arange(n)
    return (at(i, j), at(i + n, j + n)), (at(p + n, q), at(q + n, p)), at(own + n, own)


@lru_cache(maxsize=64)
def _complex(n: int) -> tuple[Any, Any, Any]:
    """View, spread and copies of a Hermitian cone; members are stored as ``Re + Im``."""
    j, i = np.triu_indices(n)
    below = i != j
    p, q = i[below], j[below]
    k, l = i.size, p.size  # noqa: E741 - real and imaginary parts
    re, im = np.arange(k), k + np.arange(l)
    halves = np.full(k, 0.5)
    view = sp.csr_array(
        (
            np.concatenate([halves, halves, np.full(l, 0.5), np.full(l, -0.5)]),
            (np.concatenate([re, re, im, im]), np.concatenate([i * n + j, j * n + i, p * n + q, q * n + p])),
        ),
        shape=(k + l, n * n),
    )
    spread = sp.csr_array(
        (
            np.concatenate([np.ones(k), np.ones(l), np.ones(l), -np.ones(l)]),
            (
                np.concatenate([i * n + j, q * n + p, p * n + q, q * n + p]),
                np.concatenate([re, re[below], im, im]),
            ),
        ),
        shape=(n * n, k + l),
    )
    real, imaginary, _ = _halves(n)
    copies = sp.csr_array(
        (
            np.concatenate([halves, halves, np.full(l, 0.5), np.full(l, -0.5)]),
            (np.concatenate([*real, *imaginary]), np.concatenate([re, re, im, im])),
        ),
        shape=(n * (2 * n + 1), k + l),
    )
    return view, spread, copies
