"""Rows in transformed coordinates, ``T A_i T'``, and their weighted Gram matrices.

With ``H^-1(G) = T' ((T G T') / K) T``, K elementwise, the Schur complement of a matrix block is the Gram
matrix ``<A_i, H^-1 A_j> = <T A_i T', (T A_j T') / K>``. :func:`transform_rows` transforms rows of every
storage kind without losing their structure, and :func:`weighted_gram` computes the Gram matrix by the
cheapest formula:

- rows that are squares of differences of means: from the products of all means (:func:`pairwise_gram`);
- rows of low rank in single precision: from a low-rank approximation of the weights (:func:`rank_one_gram`);
- all others: summed over strips of the matrices, so that memory stays bounded however many rows there are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.problem.rows import Combined, Dense, LowRank, PairwiseDifference, Rows, Sparse, Stacked
from sdpfeas.problem.rows.pairwise import pair_indices

#: Floating-point numbers in one strip: 6.4 MB, which stay in the cache while the strip is worked on.
STRIP_NUMBERS = 800_000

#: Low-rank rows that fit into one strip are stored as full matrices where these have at most this many
#: times the entries of their factors: products with them are then one call each.
FULL_STORAGE_FACTOR = 8.0

#: Error of single-precision inner products due to the low-rank weights, by a bound that is far from sharp:
#: the actual error is about that of rounding.
LOW_RANK_WEIGHT_ERROR = 1e-4

#: Low-rank weights are tried if at least this many terms are cheaper than full matrices, ...
LEAST_WEIGHT_TERMS = 6.0
#: ... and at most this many rows are not of low rank.
MOST_FULL_ROWS = 4

#: Floating-point numbers in one batch of products of factors: 4 MB, which stay in the cache.
FACTOR_BATCH_NUMBERS = 1_000_000

#: Floating-point numbers in one batch of products of means: 1.6 MB, which stay in the cache.
PAIR_BATCH_NUMBERS = 200_000

#: Up to this many means all products of means are stored in one table; its positions take up to 3 MB.
TABLE_MEANS = 20


def transform_rows(rows: Rows, transform: FloatArray) -> TransformedRows:
    """Return ``T A_i T'`` for all rows on a matrix block."""
    if isinstance(rows, Stacked):
        return _StackedRows([transform_rows(part, transform) for part in rows.parts])
    if isinstance(rows, Combined):
        return _CombinedRows(rows.coefficients, transform_rows(rows.base, transform))
    if isinstance(rows, PairwiseDifference):
        return _PairwiseRows(rows.transformed(transform))
    if isinstance(rows, LowRank):
        return _LowRankRows(rows.transformed(transform))
    assert isinstance(rows, (Dense, Sparse))
    return _FullRows(rows, transform)


class TransformedRows(ABC):
    """The matrices ``T A_i T'``."""

    #: Number of rows, and side of the matrices.
    m: int
    n: int

    def expand(self) -> tuple[list[TransformedRows], list[Any]]:
        """Return rows that are no combinations, and the coefficients (None for 1) of these ones in them."""
        return [self], [None]

    @abstractmethod
    def apply(self, x: FloatArray) -> FloatArray:
        """Inner products ``<T A_i T', x>``."""

    @abstractmethod
    def adjoint(self, y: FloatArray) -> FloatArray:
        """``sum_i y_i T A_i T'``."""

    @abstractmethod
    def strip(self, start: int, stop: int, out: Any) -> None:
        """Write the submatrices ``[start:stop, start:]`` of all rows to ``out``."""

    def single_precision(self, scale: FloatArray) -> TransformedRows | None:
        """Return the rows times a positive scale in single precision; None if impossible."""
        return None


# --- Weighted Gram matrices


def weighted_gram(
    rows: TransformedRows,
    kernel: FloatArray | None,
    others: Sequence[FloatArray] = (),
    *,
    single_precision: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Gram matrix of transformed rows in the inner product ``<X, Y / K>``.

    ``kernel`` is K; None for all ones. ``others`` are more matrices in the same coordinates. With
    ``single_precision`` the Gram matrix is computed in single precision where possible, in half the time.
    Returns the Gram matrix, and one row of inner products with all rows for each of the other matrices.
    """
    leaves, coefficients = rows.expand()
    products = _single_precision_products(leaves, kernel, others, rows.n) if single_precision else None
    if products is None:
        products = _products(leaves, kernel, others, rows.n)
    m = products.shape[0] - len(others)
    known = list(zip(leaves, coefficients, strict=True))
    if all(c is None or _is_diagonal(c) for c in coefficients):
        # By far the most frequent case, without a copy of a large matrix.
        scale = np.concatenate([np.ones(leaf.m) if c is None else c.data for leaf, c in known])
        products[:m] *= scale[:, None]
        products[:, :m] *= scale
        return products[:m, :m], products[m:, :m]
    combine = sp.block_diag([sp.eye_array(leaf.m) if c is None else c for leaf, c in known], format="csr")
    inner = np.asarray(combine @ (combine @ products[:m, :m]).T)
    return inner, np.asarray(combine @ products[:m, m:]).T


def _is_diagonal(coefficients: Any) -> bool:
    count = coefficients.shape[0]
    square = coefficients.shape[1] == coefficients.nnz == count
    return bool(square and np.array_equal(coefficients.indices, np.arange(count)))


def _products(
    leaves: Sequence[TransformedRows], kernel: FloatArray | None, others: Sequence[FloatArray], n: int
) -> FloatArray:
    """Inner products of all leaves, and of the other matrices after them."""
    edges = np.cumsum([0, *(leaf.m for leaf in leaves)])
    size = int(edges[-1]) + len(others)
    pairwise_leaves = [k for k, leaf in enumerate(leaves) if isinstance(leaf, _PairwiseRows)]
    if not pairwise_leaves:
        return _gram_by_strips(leaves, np.zeros((0, n)), kernel, others, n)[0]
    # The largest set of differences goes by its means, all other rows by strips.
    chosen = max(pairwise_leaves, key=lambda k: leaves[k].m)
    leaf, here = leaves[chosen], slice(edges[chosen], edges[chosen + 1])
    assert isinstance(leaf, _PairwiseRows)
    rest_leaves = [other for k, other in enumerate(leaves) if k != chosen]
    inner, forms = _gram_by_strips(rest_leaves, leaf.means, kernel, others, n)
    cross = pairwise_differences(forms)
    rest = np.concatenate([np.arange(here.start), np.arange(here.stop, size)])
    out = np.empty((size, size))
    out[np.ix_(rest, rest)] = inner
    out[rest, here], out[here, rest] = cross, cross.T
    pairwise_gram(leaf.means, np.ones((n, n)) if kernel is None else 1.0 / kernel, out[here, here])
    return out


def _single_precision_products(
    leaves: Sequence[TransformedRows], kernel: FloatArray | None, others: Sequence[FloatArray], n: int
) -> FloatArray | None:
    """As :func:`_products`, with rows in single precision; None where a row has no such form."""
    # Traces bound the entries of semidefinite rows: nothing overflows, and only negligible entries underflow.
    scales = [leaf.apply(np.eye(n)) for leaf in leaves]
    if not all(np.isfinite(scale).all() and np.all(scale > 0.0) for scale in scales):
        return None
    found = [leaf.single_precision(1.0 / scale) for leaf, scale in zip(leaves, scales, strict=True)]
    rows = [leaf for leaf in found if leaf is not None]
    if len(rows) < len(found):
        return None
    m = sum(leaf.m for leaf in leaves)
    size = m + len(others)
    out = np.zeros((size, size))
    gram = None if kernel is None else _gram_by_factors(rows, 1.0 / kernel)
    if gram is None:
        gram = _gram_by_strips(rows, np.zeros((0, n)), kernel, (), n, np.float32)[0]
    scale = np.concatenate(scales)
    np.multiply(gram, scale[:, None], out=out[:m, :m])
    out[:m, :m] *= scale
    for k, matrix in enumerate(others):
        weighted = matrix if kernel is None else matrix / kernel
        out[m + k, :m] = np.concatenate([leaf.apply(weighted) for leaf in leaves])
        out[:m, m + k] = out[m + k, :m]
    return out


def _gram_by_strips(
    leaves: Sequence[TransformedRows],
    means: FloatArray,
    kernel: FloatArray | None,
    others: Sequence[FloatArray],
    n: int,
    kind: type[np.floating[Any]] = np.float64,
) -> tuple[FloatArray, FloatArray]:
    """Gram matrix of rows and other matrices X, and the forms ``M (X / K) M'`` of the means."""
    m, c = sum(leaf.m for leaf in leaves), means.shape[0]
    size = m + len(others)
    gram, forms = np.zeros((size, size), dtype=kind, order="F"), np.zeros((size, c, c))
    width = max(1, min(n, STRIP_NUMBERS // max(size * n, 1)))
    buffer = np.empty(size * width * n, dtype=kind)
    for start in range(0, n, width):
        stop = min(start + width, n)
        shape = (size, stop - start, n - start)
        strip = buffer[: math.prod(shape)].reshape(shape)
        first = 0
        for leaf in leaves:
            leaf.strip(start, stop, strip[first : first + leaf.m])
            first += leaf.m
        for out, matrix in zip(strip[m:], others, strict=True):
            out[:] = matrix[start:stop, start:]
        weight = np.ones(strip.shape[1:]) if kernel is None else 1.0 / np.sqrt(kernel[start:stop, start:])
        strip *= double_off_block(weight).astype(kind, copy=False)
        flat = strip.reshape(size, -1)
        # Accumulate in place: a product of its own for every strip would be written and read again.
        syrk = scipy.linalg.blas.dsyrk if kind is np.float64 else scipy.linalg.blas.ssyrk
        gram = syrk(1.0, flat.T, 1.0, gram, trans=1, overwrite_c=1)
        if c:
            strip *= weight
            # Few large products instead of two small ones for every matrix.
            right = strip.reshape(-1, n - start) @ means[:, start:].T
            right = right.reshape(size, stop - start, c).transpose(1, 0, 2).reshape(stop - start, size * c)
            forms += (means[:, start:stop] @ right).reshape(c, size, c).transpose(1, 0, 2)
    gram += np.triu(gram, 1).T
    return gram.T, forms


def double_off_block(roots: FloatArray) -> FloatArray:
    """Scale square roots of a strip's weights in place: entries right of its diagonal block count twice."""
    roots[:, roots.shape[0] :] *= np.sqrt(2.0)
    return roots


# --- Rows by storage kind


class _StackedRows(TransformedRows):
    def __init__(self, parts: list[TransformedRows]) -> None:
        self.parts, self.n = parts, parts[0].n
        edges = np.cumsum([0, *(part.m for part in parts)])
        self.m = int(edges[-1])
        self._slices = [slice(a, b) for a, b in pairwise(edges)]

    def expand(self) -> tuple[list[TransformedRows], list[Any]]:
        both = [part.expand() for part in self.parts]
        return [leaf for leaves, _ in both for leaf in leaves], [c for _, cs in both for c in cs]

    def apply(self, x: FloatArray) -> FloatArray:
        return np.concatenate([part.apply(x) for part in self.parts])

    def adjoint(self, y: FloatArray) -> FloatArray:
        return np.asarray(
            sum(part.adjoint(y[own]) for part, own in zip(self.parts, self._slices, strict=True))
        )

    def strip(self, start: int, stop: int, out: FloatArray) -> None:
        for part, own in zip(self.parts, self._slices, strict=True):
            part.strip(start, stop, out[own])


class _CombinedRows(TransformedRows):
    def __init__(self, coefficients: Any, base: TransformedRows) -> None:
        self.coefficients, self.base = coefficients, base
        self.m, self.n = coefficients.shape[0], base.n
        self._scale = coefficients.data if _is_diagonal(coefficients) else None

    def expand(self) -> tuple[list[TransformedRows], list[Any]]:
        leaves, inner = self.base.expand()
        if len(leaves) > 1:
            return [self], [None]
        return leaves, [self.coefficients if inner[0] is None else self.coefficients @ inner[0]]

    def apply(self, x: FloatArray) -> FloatArray:
        values = self.base.apply(x)
        return np.asarray(self.coefficients @ values if self._scale is None else self._scale * values)

    def adjoint(self, y: FloatArray) -> FloatArray:
        return self.base.adjoint(self.coefficients.T @ y if self._scale is None else self._scale * y)

    def strip(self, start: int, stop: int, out: FloatArray) -> None:
        inner = np.empty((self.base.m, *out.shape[1:]))
        self.base.strip(start, stop, inner)
        out[:] = np.asarray(self.coefficients @ inner.reshape(self.base.m, -1)).reshape(out.shape)


class _PairwiseRows(TransformedRows):
    def __init__(self, rows: PairwiseDifference) -> None:
        self._rows, self.means = rows, rows.means
        self.m, self.n = rows.m, rows.n

    def apply(self, x: FloatArray) -> FloatArray:
        return self._rows.apply(x)

    def adjoint(self, y: FloatArray) -> FloatArray:
        return self._rows.adjoint(y)

    def strip(self, start: int, stop: int, out: FloatArray) -> None:
        v = self._rows.differences()
        np.multiply(v[:, start:stop, None], v[:, None, start:], out=out)


class _LowRankRows(TransformedRows):
    def __init__(self, rows: LowRank) -> None:
        self._rows = rows
        self.m, self.n = rows.m, rows.n
        counts = np.bincount(rows.owner, minlength=rows.m)
        self._slices = [slice(a, b) for a, b in pairwise(np.cumsum([0, *counts]))]
        self._rank_one = bool(np.all(counts == 1))
        self.factors, self.signs = rows.factors, rows.signs

    @cached_property
    def _matrices(self) -> FloatArray | None:
        """All matrices where they are few and hardly larger than their factors; None elsewhere."""
        if (
            self.m * self.n > FULL_STORAGE_FACTOR * self.factors.shape[0]
            or self.m * self.n**2 > STRIP_NUMBERS
        ):
            return None
        out = np.empty((self.m, self.n, self.n))
        self._write_strip(0, self.n, out)
        return out.reshape(self.m, -1)

    def apply(self, x: FloatArray) -> FloatArray:
        return self._rows.apply(x) if self._matrices is None else self._matrices @ x.reshape(-1)

    def adjoint(self, y: FloatArray) -> FloatArray:
        if self._matrices is None:
            return self._rows.adjoint(y)
        return (y @ self._matrices).reshape(self.n, self.n)

    def strip(self, start: int, stop: int, out: FloatArray) -> None:
        if self._matrices is None or out.dtype != np.float64:
            self._write_strip(start, stop, out)
        else:
            out[:] = self._matrices.reshape(self.m, self.n, self.n)[:, start:stop, start:]

    def _write_strip(self, start: int, stop: int, out: FloatArray) -> None:
        factors = self.factors[:, start:]
        left = factors[:, : stop - start] * self.signs[:, None]
        if self._rank_one:
            np.multiply(left[:, :, None], factors[:, None, :], out=out)
            return
        for k, own in enumerate(self._slices):
            np.matmul(left[own].T, factors[own], out=out[k])

    def sum_factors(self, terms: Any) -> Any:
        """Add up the signed terms of the factors of every row; ``terms`` has one row per factor."""
        if np.any(self.signs != 1.0):
            terms = terms * self.signs[:, None]
        if self._rank_one:
            return terms
        filled = [k for k, own in enumerate(self._slices) if own.stop > own.start]
        out = np.zeros((self.m, terms.shape[1]), dtype=terms.dtype)
        out[filled] = np.add.reduceat(terms, [self._slices[k].start for k in filled], axis=0)
        return out

    def apply_factors(self, x: FloatArray) -> FloatArray:
        """Inner products with a matrix, from the factors in their own precision."""
        forms = np.einsum("ij,ij->i", self.factors @ x, self.factors)
        shape = (self.m, self.factors.shape[0])
        combine = sp.csr_array((self.signs, (self._rows.owner, np.arange(shape[1]))), shape=shape)
        return np.asarray(combine @ forms)

    def single_precision(self, scale: FloatArray) -> TransformedRows:
        out = copy(self)
        root = np.sqrt(scale)[self._rows.owner, None]
        out.factors = (self.factors * root).astype(np.float32)
        out.signs = self.signs.astype(np.float32)
        return out


class _FullRows(TransformedRows):
    """Rows without low rank."""

    def __init__(self, rows: Dense | Sparse, transform: FloatArray) -> None:
        self._rows, self._transform = rows, transform
        self.m, self.n = rows.m, rows.n

    @cached_property
    def matrices(self) -> FloatArray:
        """All matrices ``T A_i T'``."""
        rows, transform = self._rows, self._transform
        if isinstance(rows, Dense):
            return np.asarray(transform @ rows.array @ transform.T)
        if rows.m == 1 and _is_trace(rows):
            return (transform @ transform.T)[None]
        stacked = rows.array.reshape((rows.m * rows.n, rows.n)).tocsr()
        half = (stacked @ transform.T).reshape(rows.m, rows.n, rows.n)
        return np.asarray(transform @ half)

    def single_precision(self, scale: FloatArray) -> TransformedRows:
        out = copy(self)
        out.matrices = (self.matrices * scale[:, None, None]).astype(np.float32)
        return out

    # Few rows are faster in transformed coordinates, many in those of the problem.
    def apply(self, x: FloatArray) -> FloatArray:
        if self.m < self.n:
            return self.matrices.reshape(self.m, -1) @ x.reshape(-1)
        return self._rows.apply(self._transform.T @ x @ self._transform)

    def adjoint(self, y: FloatArray) -> FloatArray:
        if self.m < self.n:
            return (y @ self.matrices.reshape(self.m, -1)).reshape(self.n, self.n)
        return self._transform @ self._rows.adjoint(y) @ self._transform.T

    def strip(self, start: int, stop: int, out: FloatArray) -> None:
        out[:] = self.matrices[:, start:stop, start:]


def _is_trace(rows: Sparse) -> bool:
    """Whether a single row is the identity matrix."""
    entries = rows.array
    diagonal = np.arange(rows.n) * (rows.n + 1)
    return bool(np.array_equal(entries.indices, diagonal) and np.all(entries.data == 1.0))


# --- Low-rank rows: a low-rank approximation of the weights
#
# Weights ``1 / (1 + r_i r_j)`` are a smooth function of the logarithms of r, so few terms ``sum_k s_k a_k
# a_k'`` approximate them to any accuracy, nearly independently of the dimension. Then ``<v v', W * u u'> =
# sum_k s_k (v' diag(a_k) u)²`` takes n multiply-adds per term, where all entries of the squares would take
# n²/2.


def _gram_by_factors(rows: Sequence[TransformedRows], weight: FloatArray) -> Any:
    """Gram matrix of rows in single precision from their factors; None where full matrices are cheaper."""
    low_rank = [leaf for leaf in rows if isinstance(leaf, _LowRankRows)]
    full = [leaf for leaf in rows if isinstance(leaf, _FullRows)]
    m, others = sum(leaf.m for leaf in rows), sum(leaf.m for leaf in full)
    if len(low_rank) + len(full) < len(rows) or not low_rank or others > MOST_FULL_ROWS:
        return None
    factors = np.concatenate([leaf.factors for leaf in low_rank])
    # With more terms than this, factors take more multiply-adds than full matrices.
    most = 0.4 * weight.shape[0] * (m / factors.shape[0]) ** 2
    if most < LEAST_WEIGHT_TERMS:
        return None
    terms, positive = low_rank_weights(weight, factors.astype(np.float64), LOW_RANK_WEIGHT_ERROR)
    if len(terms) > most:
        return None
    inner = rank_one_gram(factors, terms, positive)
    if m - others < factors.shape[0] or any(np.any(leaf.signs != 1.0) for leaf in low_rank):
        edges = np.cumsum([leaf.factors.shape[0] for leaf in low_rank])[:-1]
        for _ in range(2):
            parts = zip(low_rank, np.split(inner, edges), strict=True)
            inner = np.concatenate([leaf.sum_factors(part) for leaf, part in parts]).T
    if not full:
        return inner
    here = np.concatenate([np.full(leaf.m, isinstance(leaf, _LowRankRows)) for leaf in rows])
    matrices = np.concatenate([leaf.matrices for leaf in full])
    weighted = matrices * weight
    cross = np.concatenate([[leaf.apply_factors(x) for x in weighted] for leaf in low_rank], axis=1)
    out = np.empty((m, m), dtype=inner.dtype)
    if here[: m - others].all():
        out[: m - others, : m - others] = inner  # the most frequent case, and a plain copy
    else:
        out[np.ix_(here, here)] = inner
    out[np.ix_(~here, here)], out[np.ix_(here, ~here)] = cross, cross.T
    out[np.ix_(~here, ~here)] = matrices.reshape(others, -1) @ weighted.reshape(others, -1).T
    return out


def low_rank_weights(weight: FloatArray, vectors: FloatArray, accuracy: float) -> tuple[FloatArray, int]:
    """Approximate weights by few terms ``sum_k ±a_k a_k'``.

    The error of ``<v v', W * u u'>`` for two of the vectors is at most ``accuracy`` times the norms of ``v
    v'`` and ``u u'``. Returns the a_k, those with positive sign first, and the number of these.
    """
    values, frame = eigh(weight)
    squares = vectors * vectors
    norms = np.einsum("ij,ij->i", squares @ weight, squares)
    # The error is at most the largest neglected eigenvalue times |v * u|² <= |v * v| |u * u|.
    worst = float(np.max(np.einsum("ij,ij->i", squares, squares) / norms, initial=0.0))
    kept = np.flatnonzero(~(np.abs(values) * worst <= accuracy))[::-1]
    terms = (frame[:, kept] * np.sqrt(np.abs(values[kept]))).T
    return np.ascontiguousarray(terms), int(np.count_nonzero(values[kept] > 0.0))


def rank_one_gram(vectors: Any, terms: FloatArray, positive: int) -> Any:
    """``<v v', W * u u'>`` for all vectors in their precision, W by its terms of :func:`low_rank_weights`."""
    count, n = vectors.shape
    terms = terms.astype(vectors.dtype, copy=False)
    gram = np.empty((count, count), dtype=vectors.dtype)
    width = max(1, FACTOR_BATCH_NUMBERS // max(terms.shape[0] * count, 1))
    for start in range(0, count, width):
        stop = min(start + width, count)
        scaled = (terms[:, None] * vectors[start:stop]).reshape(-1, n)
        mixed = (scaled @ vectors[start:].T).reshape(terms.shape[0], stop - start, count - start)
        part = np.einsum("kij,kij->ij", mixed[:positive], mixed[:positive])
        part -= np.einsum("kij,kij->ij", mixed[positive:], mixed[positive:])
        part[:, : stop - start] = symmetrize(part[:, : stop - start])
        gram[start:stop, start:] = part
        gram[start:, start:stop] = part.T
    return gram


# --- Squares of differences of means
#
# The inner product of a row ``(m_i - m_j)(m_i - m_j)'`` with a matrix X is a sum of four entries of ``M X
# M'``, and the weighted inner product of two such rows a sum of sixteen numbers ``(m_i * m_k)' W (m_j *
# m_l)``. With c means there are c^4 of these, which take c^4·n multiply-adds; the pairs themselves would
# take c^4·n².


def pairwise_differences(forms: FloatArray) -> FloatArray:
    """``B_kk + B_ll - B_kl - B_lk`` for all pairs k < l over the last two axes of bilinear forms."""
    c = forms.shape[-1]
    first, second = pair_indices(c)
    flat = forms.reshape(*forms.shape[:-2], c * c)
    diagonal = flat[..., :: c + 1]
    out = diagonal.take(first, axis=-1)
    out += diagonal.take(second, axis=-1)
    out -= flat.take(first * c + second, axis=-1)
    out -= flat.take(second * c + first, axis=-1)
    return out


def pairwise_gram(means: FloatArray, weight: FloatArray, out: FloatArray) -> None:
    """Write ``<v v', W * u u'>`` for all differences v and u of means, in lexicographic order of the pairs.

    ``means`` has shape (c, n) and should be centred: a common part cancels and costs digits.
    """
    c, n = means.shape
    if c <= TABLE_MEANS:
        _pairwise_gram_by_table(means, weight, out)
        return
    products = means[:, None] * means
    halves = (products.reshape(c * c, n) @ weight).reshape(c, c, n)
    # (a - b) W (a - b)' with a and b the products of m_i and of m_j with all means.
    own = pairwise_differences(halves @ products.transpose(0, 2, 1))
    row = start = 0
    while start < c - 1:
        # Pairs of the means from `start` on come last; their products with earlier pairs are known.
        left = c - start
        count = min(max(1, PAIR_BATCH_NUMBERS // left**3), left)
        remaining = products[start:, start:].reshape(left * left, n)
        mixed = halves[start : start + count, start:].reshape(count * left, n) @ remaining.T
        mixed = mixed.reshape(count, left, left, left).transpose(0, 2, 1, 3)
        i, j = pair_indices(left)
        new = slice(0, int(np.searchsorted(i, count)))
        i, j = i[new], j[new]
        block = pairwise_differences(mixed)[i, j]
        block *= -2.0
        block += own[start + i, row:]
        block += own[start + j, row:]
        after = row + i.size
        out[row:after, row:] = block
        out[row:after, row:after] = symmetrize(block[:, : i.size])
        out[after:, row:after] = block[:, i.size :].T
        row, start = after, start + count


def _pairwise_gram_by_table(means: FloatArray, weight: FloatArray, out: FloatArray) -> None:
    """As :func:`pairwise_gram`, from one table of all products of two means with two others."""
    (first, second), ((a, b, c, d), crossed) = _table_positions(means.shape[0])
    products = means[first] * means[second]
    table = symmetrize(products @ weight @ products.T).reshape(-1)
    # The order of summation is symmetric in the two differences, so the result is exactly symmetric.
    ab, cd, ac, bd, ad, bc = (table.take(position) for position in crossed)
    ab += cd
    ac += bd
    ab += ac
    ad += bc
    ad -= ab
    ad *= 2.0
    own = np.ascontiguousarray(np.diagonal(table.reshape(first.size, -1)))
    squares, others = own.take(a), own.take(b)
    squares += own.take(d)
    others += own.take(c)
    squares += others
    np.add(squares, ad, out=out)


@lru_cache(maxsize=2)
def _table_positions(c: int) -> tuple[tuple[np.ndarray, ...], tuple[list[np.ndarray], list[np.ndarray]]]:
    """Pairs of means whose products are in the table, and the positions that two differences need.

    a, b, c and d are the products of the first and second mean of one difference with those of the other; the
    second list holds the positions of six products of two of them.
    """
    first, second = np.triu_indices(c)
    position = np.empty((c, c), dtype=np.intp)
    position[first, second] = position[second, first] = np.arange(first.size)
    i, j = pair_indices(c)
    a, b, c_, d = (position[p[:, None], q] for p in (i, j) for q in (i, j))
    pairs = ((a, b), (c_, d), (a, c_), (b, d), (a, d), (b, c_))
    return (first, second), ([a, b, c_, d], [p * first.size + q for p, q in pairs])
