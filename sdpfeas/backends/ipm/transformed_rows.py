"""Inner products of squares of vectors with elementwise weights between them, by few terms of the weights.

Weights ``1 / (1 + r_i r_j)`` with positive numbers r are a smooth function of the logarithms of these, so
few terms ``sum_k s_k a_k a_k'`` make them up to any accuracy, more or less independent of the dimension. With
them ``<v v', W * u u'> = sum_k s_k (v' diag(a_k) u)²``: a product of n numbers a term, where all entries of
the squares would take n²/2.
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

# ------------------------------------------------------------
# Rows in the coordinates of a block: ``T A_i T'``, keeping the structure of every kind.
#
# The Newton system of a block asks for ``<A_i, H^-1 A_j>`` with ``H^-1(G) = T'·((T G T') / K)·T``
# elementwise: the Gram matrix of the images ``T A_i T' / sqrt(K)``. It is summed up over strips of that
# matrix, so that memory stays bounded however many rows there are.

#: Floats in one strip: 6.4 MB, which stay in the cache while the strip is worked on.
STRIP_SIZE = 800_000

#: Images of low rank that fit into one strip are formed as a whole where they have at most this many times
#: the entries of their factors: products with them are then one call each.
SPREAD = 8.0

#: What inner products in single precision may lose to terms of the kernel that are left out, by a bound that
#: is far from sharp: in fact about as much as to rounding.
TERMS_LOSE = 1e-4

#: Fewer terms than this never do; rows without low rank are few up to so many.
FEW_TERMS, FEW_FULL = 6.0, 4


class TransformedRows(ABC):
    """The images of some rows."""

    #: Number of rows, and side of the matrices.
    m: int
    n: int

    def expand(self) -> tuple[list[TransformedRows], list[Any]]:
        """Return images that are no combinations, and the coefficients (None for 1) of these ones in them."""
        return [self], [None]

    @abstractmethod
    def apply(self, x: FloatArray) -> FloatArray:
        """Inner products ``<T A_i T', x>``."""

    @abstractmethod
    def adjoint(self, y: FloatArray) -> FloatArray:
        """``sum_i y_i T A_i T'``."""

    @abstractmethod
    def strip(self, start: int, stop: int, out: Any) -> None:
        """Write rows ``start:stop`` and columns from ``start`` on of every image."""

    def rough(self, scale: FloatArray) -> TransformedRows | None:
        """Return the images times a scale, in single precision; None if there is no such thing."""
        return None


def transform_rows(rows: Rows, transform: FloatArray) -> TransformedRows:
    """Return the images of rows on a matrix block."""
    if isinstance(rows, Stacked):
        return _Stacked([transform_rows(part, transform) for part in rows.parts])
    if isinstance(rows, Combined):
        return _Combined(rows.coefficients, transform_rows(rows.base, transform))
    if isinstance(rows, PairwiseDifference):
        return _Pairwise(rows.transformed(transform))
    if isinstance(rows, LowRank):
        return _LowRank(rows.transformed(transform))
    assert isinstance(rows, (Dense, Sparse))
    return _Full(rows, transform)


def weighted_gram(
    image: TransformedRows,
    kernel: FloatArray | None,
    extra: Sequence[FloatArray] = (),
    *,
    rough: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Gram matrix of images in the inner product of a block.

    ``kernel``: the matrix K; None for all ones. ``extra``: more matrices in the coordinates of the block.
    ``rough``: whether single precision will do for the images; it takes half the time.

    Returns: inner products of the images with each other. Returns: one row for each extra matrix: its inner
    products with the images.
    """
    leaves, coefficients = image.expand()
    products = _rough_products(leaves, kernel, extra, image.n) if rough else None
    if products is None:
        products = _products(leaves, kernel, extra, image.n)
    m = products.shape[0] - len(extra)
    known = list(zip(leaves, coefficients, strict=True))
    if all(c is None or _only_scales(c) for c in coefficients):
        # By far the most frequent case, and worth no copy of a large matrix.
        scale = np.concatenate([np.ones(leaf.m) if c is None else c.data for leaf, c in known])
        products[:m] *= scale[:, None]
        products[:, :m] *= scale
        return products[:m, :m], products[m:, :m]
    combine = sp.block_diag([sp.eye_array(leaf.m) if c is None else c for leaf, c in known], format="csr")
    inner = np.asarray(combine @ (combine @ products[:m, :m]).T)
    return inner, np.asarray(combine @ products[:m, m:]).T


def _only_scales(coefficients: Any) -> bool:
    count = coefficients.shape[0]
    square = coefficients.shape[1] == coefficients.nnz == count
    return bool(square and np.array_equal(coefficients.indices, np.arange(count)))


def _products(
    leaves: Sequence[TransformedRows], kernel: FloatArray | None, extra: Sequence[FloatArray], n: int
) -> FloatArray:
    """Inner products of all leaves, and of the extra matrices after them."""
    edges = np.cumsum([0, *(leaf.m for leaf in leaves)])
    size = int(edges[-1]) + len(extra)
    pairs = [k for k, leaf in enumerate(leaves) if isinstance(leaf, _Pairwise)]
    if not pairs:
        return _by_strips(leaves, np.zeros((0, n)), kernel, extra, n)[0]
    # All rows of one kind go by their means; what may be left of that kind goes with the others.
    chosen = max(pairs, key=lambda k: leaves[k].m)
    leaf, here = leaves[chosen], slice(edges[chosen], edges[chosen + 1])
    assert isinstance(leaf, _Pairwise)
    others = [other for k, other in enumerate(leaves) if k != chosen]
    inner, forms = _by_strips(others, leaf.means, kernel, extra, n)
    cross = differences_of(forms)
    rest = np.concatenate([np.arange(here.start), np.arange(here.stop, size)])
    out = np.empty((size, size))
    out[np.ix_(rest, rest)] = inner
    out[rest, here], out[here, rest] = cross, cross.T
    pairwise_gram(leaf.means, np.ones((n, n)) if kernel is None else 1.0 / kernel, out[here, here])
    return out


def _rough_products(
    leaves: Sequence[TransformedRows], kernel: FloatArray | None, extra: Sequence[FloatArray], n: int
) -> FloatArray | None:
    """As :func:`_products`, with images in single precision; None if there is no such thing."""
    # Traces bound the entries of semidefinite images: nothing overflows, and only what is nothing underflows.
    scales = [leaf.apply(np.eye(n)) for leaf in leaves]
    if not all(np.isfinite(scale).all() and np.all(scale > 0.0) for scale in scales):
        return None
    found = [leaf.rough(1.0 / scale) for leaf, scale in zip(leaves, scales, strict=True)]
    images = [leaf for leaf in found if leaf is not None]
    if len(images) < len(found):
        return None
    m = sum(leaf.m for leaf in leaves)
    size = m + len(extra)
    out = np.zeros((size, size))
    gram = None if kernel is None else _by_factors(images, 1.0 / kernel)
    if gram is None:
        gram = _by_strips(images, np.zeros((0, n)), kernel, (), n, np.float32)[0]
    scale = np.concatenate(scales)
    np.multiply(gram, scale[:, None], out=out[:m, :m])
    out[:m, :m] *= scale
    for k, matrix in enumerate(extra):
        weighed = matrix if kernel is None else matrix / kernel
        out[m + k, :m] = np.concatenate([leaf.apply(weighed) for leaf in leaves])
        out[:m, m + k] = out[m + k, :m]
    return out


def _by_factors(images: Sequence[TransformedRows], weight: FloatArray) -> Any:
    """Gram matrix of images in single precision by way of their factors; None where entries are cheaper."""
    low = [leaf for leaf in images if isinstance(leaf, _LowRank)]
    full = [leaf for leaf in images if isinstance(leaf, _Full)]
    m, others = sum(leaf.m for leaf in images), sum(leaf.m for leaf in full)
    if len(low) + len(full) < len(images) or not low or others > FEW_FULL:
        return None
    factors = np.concatenate([leaf._factors for leaf in low])
    # With more terms than this, factors take more products than entries do.
    most = 0.4 * weight.shape[0] * (m / factors.shape[0]) ** 2
    if most < FEW_TERMS:
        return None
    terms, adding = low_rank_weights(weight, factors.astype(np.float64), TERMS_LOSE)
    if len(terms) > most:
        return None
    inner = rank_one_gram(factors, terms, adding)
    if m - others < factors.shape[0] or any(np.any(leaf._signs != 1.0) for leaf in low):
        edges = np.cumsum([leaf._factors.shape[0] for leaf in low])[:-1]
        for _ in range(2):
            inner = np.concatenate([x.summed(y) for x, y in zip(low, np.split(inner, edges), strict=True)]).T
    if not full:
        return inner
    here = np.concatenate([np.full(leaf.m, isinstance(leaf, _LowRank)) for leaf in images])
    more = np.concatenate([leaf._images for leaf in full])
    weighed = more * weight
    cross = np.concatenate([[leaf.apply_factors(x) for x in weighed] for leaf in low], axis=1)
    out = np.empty((m, m), dtype=inner.dtype)
    if here[: m - others].all():
        out[: m - others, : m - others] = inner  # the most frequent case, and a plain copy
    else:
        out[np.ix_(here, here)] = inner
    out[np.ix_(~here, here)], out[np.ix_(here, ~here)] = cross, cross.T
    out[np.ix_(~here, ~here)] = more.reshape(others, -1) @ weighed.reshape(others, -1).T
    return out


def mirrored(weight: FloatArray) -> FloatArray:
    """Weigh a strip, in place: entries right of its diagonal block stand for their mirror images too.

    ``weight``: square roots of the weights of the strip's entries.
    """
    weight[:, weight.shape[0] :] *= np.sqrt(2.0)
    return weight


def _by_strips(
    leaves: Sequence[TransformedRows],
    means: FloatArray,
    kernel: FloatArray | None,
    extra: Sequence[FloatArray],
    n: int,
    kind: type[np.floating[Any]] = np.float64,
) -> tuple[FloatArray, FloatArray]:
    """Gram matrix of images and extra matrices X, and the forms ``M (X / K) M'`` of the means."""
    m, c = sum(leaf.m for leaf in leaves), means.shape[0]
    size = m + len(extra)
    gram, forms = np.zeros((size, size), dtype=kind, order="F"), np.zeros((size, c, c))
    width = max(1, min(n, STRIP_SIZE // max(size * n, 1)))
    room = np.empty(size * width * n, dtype=kind)
    for start in range(0, n, width):
        stop = min(start + width, n)
        shape = (size, stop - start, n - start)
        strip = room[: math.prod(shape)].reshape(shape)
        place = 0
        for leaf in leaves:
            leaf.strip(start, stop, strip[place : place + leaf.m])
            place += leaf.m
        for out, matrix in zip(strip[m:], extra, strict=True):
            out[:] = matrix[start:stop, start:]
        weight = np.ones(strip.shape[1:]) if kernel is None else 1.0 / np.sqrt(kernel[start:stop, start:])
        strip *= mirrored(weight).astype(kind, copy=False)
        flat = strip.reshape(size, -1)
        # In place: a product of its own for every strip would be written and read again.
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


class _Stacked(TransformedRows):
    def __init__(self, parts: list[TransformedRows]) -> None:
        self.parts, self.n = parts, parts[0].n
        edges = np.cumsum([0, *(part.m for part in parts)])
        self.m = int(edges[-1])
        self._places = [slice(a, b) for a, b in pairwise(edges)]

    def expand(self) -> tuple[list[TransformedRows], list[Any]]:
        both = [part.expand() for part in self.parts]
        return [leaf for leaves, _ in both for leaf in leaves], [c for _, cs in both for c in cs]

    def apply(self, x: FloatArray) -> FloatArray:
        return np.concatenate([part.apply(x) for part in self.parts])

    def adjoint(self, y: FloatArray) -> FloatArray:
        return np.asarray(sum(p.adjoint(y[place]) for p, place in zip(self.parts, self._places, strict=True)))

    def strip(self, start: int, stop: int, out: FloatArray) -> None:
        for part, place in zip(self.parts, self._places, strict=True):
            part.strip(start, stop, out[place])


class _Combined(TransformedRows):
    def __init__(self, coefficients: Any, base: TransformedRows) -> None:
        self.coefficients, self.base = coefficients, base
        self.m, self.n = coefficients.shape[0], base.n
        self._scale = coefficients.data if _only_scales(coefficients) else None

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


class _Pairwise(TransformedRows):
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


class _LowRank(TransformedRows):
    def __init__(self, rows: LowRank) -> None:
        self._rows = rows
        self.m, self.n = rows.m, rows.n
        counts = np.bincount(rows.owner, minlength=rows.m)
        self._slices = [slice(a, b) for a, b in pairwise(np.cumsum([0, *counts]))]
        self._rank_one = bool(np.all(counts == 1))
        self._factors, self._signs = rows.factors, rows.signs

    @cached_property
    def _images(self) -> FloatArray | None:
        """All images, one a row, where they are few and hardly larger than their factors; None elsewhere."""
        if self.m * self.n > SPREAD * self._factors.shape[0] or self.m * self.n**2 > STRIP_SIZE:
            return None
        out = np.empty((self.m, self.n, self.n))
        self._write(0, self.n, out)
        return out.reshape(self.m, -1)

    def apply(self, x: FloatArray) -> FloatArray:
        return self._rows.apply(x) if self._images is None else self._images @ x.reshape(-1)

    def adjoint(self, y: FloatArray) -> FloatArray:
        if self._images is None:
            return self._rows.adjoint(y)
        return (y @ self._images).reshape(self.n, self.n)

    def strip(self, start: int, stop: int, out: FloatArray) -> None:
        if self._images is None or out.dtype != np.float64:
            self._write(start, stop, out)
        else:
            out[:] = self._images.reshape(self.m, self.n, self.n)[:, start:stop, start:]

    def _write(self, start: int, stop: int, out: FloatArray) -> None:
        factors = self._factors[:, start:]
        left = factors[:, : stop - start] * self._signs[:, None]
        if self._rank_one:
            np.multiply(left[:, :, None], factors[:, None, :], out=out)
            return
        for k, place in enumerate(self._slices):
            np.matmul(left[place].T, factors[place], out=out[k])

    @property
    def combination(self) -> Any:
        """Rows as sums of the squares of their factors."""
        shape = (self.m, self._factors.shape[0])
        return sp.csr_array((self._signs, (self._rows.owner, np.arange(shape[1]))), shape=shape)

    def summed(self, terms: Any) -> Any:
        """Sum up what belongs to the factors of every row, one row of an array a factor."""
        if np.any(self._signs != 1.0):
            terms = terms * self._signs[:, None]
        if self._rank_one:
            return terms
        filled = [k for k, place in enumerate(self._slices) if place.stop > place.start]
        out = np.zeros((self.m, terms.shape[1]), dtype=terms.dtype)
        out[filled] = np.add.reduceat(terms, [self._slices[k].start for k in filled], axis=0)
        return out

    def apply_factors(self, x: FloatArray) -> FloatArray:
        """Inner products with a matrix, of the images as their factors are."""
        forms = np.einsum("ij,ij->i", self._factors @ x, self._factors)
        return np.asarray(self.combination @ forms)

    def rough(self, scale: FloatArray) -> TransformedRows:
        """Return the images times a scale, in single precision."""
        out = copy(self)
        root = np.sqrt(scale)[self._rows.owner, None]
        out._factors = (self._factors * root).astype(np.float32)
        out._signs = self._signs.astype(np.float32)
        return out


class _Full(TransformedRows):
    """Rows without low rank: their images are formed, as strips need them."""

    def __init__(self, rows: Dense | Sparse, transform: FloatArray) -> None:
        self._rows, self._transform = rows, transform
        self.m, self.n = rows.m, rows.n

    @cached_property
    def _images(self) -> FloatArray:
        rows, transform = self._rows, self._transform
        if isinstance(rows, Dense):
            return np.asarray(transform @ rows.array @ transform.T)
        if rows.m == 1 and _is_identity(rows):
            return (transform @ transform.T)[None]
        stacked = rows.array.reshape((rows.m * rows.n, rows.n)).tocsr()
        half = (stacked @ transform.T).reshape(rows.m, rows.n, rows.n)
        return np.asarray(transform @ half)

    def rough(self, scale: FloatArray) -> TransformedRows:
        """Return the images times a scale, in single precision."""
        out = copy(self)
        out._images = (self._images * scale[:, None, None]).astype(np.float32)
        return out

    # Few rows are faster by their images, many by the rows themselves.
    def apply(self, x: FloatArray) -> FloatArray:
        if self.m < self.n:
            return self._images.reshape(self.m, -1) @ x.reshape(-1)
        return self._rows.apply(self._transform.T @ x @ self._transform)

    def adjoint(self, y: FloatArray) -> FloatArray:
        if self.m < self.n:
            return (y @ self._images.reshape(self.m, -1)).reshape(self.n, self.n)
        return self._transform @ self._rows.adjoint(y) @ self._transform.T

    def strip(self, start: int, stop: int, out: FloatArray) -> None:
        out[:] = self._images[:, start:stop, start:]


def _is_identity(rows: Sparse) -> bool:
    """Whether a single row is that of the trace."""
    entries = rows.array
    places = np.arange(rows.n) * (rows.n + 1)
    return bool(np.array_equal(entries.indices, places) and np.all(entries.data == 1.0))


#: Floats in one batch of products: 4 MB, which stay in the cache while the batch is worked on.
KERNEL_BATCH_NUMBERS = 1_000_000


def low_rank_weights(weight: FloatArray, vectors: FloatArray, accuracy: float) -> tuple[FloatArray, int]:
    """Terms of weights, as few as keep every inner product of squares to an accuracy.

    ``accuracy``: what may be lost of ``<v v', W * u u'>``, relative to the norms of ``v v'`` and ``u u'``.

    Returns: one vector a row, those that add first.
    """
    values, frame = eigh(weight)
    squares = vectors * vectors
    norms = np.einsum("ij,ij->i", squares @ weight, squares)
    # What is left out is at most its largest eigenvalue times |v * u|² <= |v * v| |u * u|.
    worst = float(np.max(np.einsum("ij,ij->i", squares, squares) / norms, initial=0.0))
    kept = np.flatnonzero(~(np.abs(values) * worst <= accuracy))[::-1]
    terms = (frame[:, kept] * np.sqrt(np.abs(values[kept]))).T
    return np.ascontiguousarray(terms), int(np.count_nonzero(values[kept] > 0.0))


def rank_one_gram(vectors: Any, terms: FloatArray, adding: int) -> Any:
    """``<v v', W * u u'>`` for all vectors, in their precision.

    ``terms, adding``: terms of W; see :func:`low_rank_weights`.
    """
    count, n = vectors.shape
    terms = terms.astype(vectors.dtype, copy=False)
    gram = np.empty((count, count), dtype=vectors.dtype)
    width = max(1, KERNEL_BATCH_NUMBERS // max(terms.shape[0] * count, 1))
    for start in range(0, count, width):
        stop = min(start + width, count)
        scaled = (terms[:, None] * vectors[start:stop]).reshape(-1, n)
        mixed = (scaled @ vectors[start:].T).reshape(terms.shape[0], stop - start, count - start)
        part = np.einsum("kij,kij->ij", mixed[:adding], mixed[:adding])
        part -= np.einsum("kij,kij->ij", mixed[adding:], mixed[adding:])
        part[:, : stop - start] = symmetrize(part[:, : stop - start])
        gram[start:stop, start:] = part
        gram[start:, start:stop] = part.T
    return gram


# ------------------------------------------------------------
# Inner products of rows that are squares of differences of means, by way of products of means.
#
# A row ``(m_i - m_j)(m_i - m_j)'`` meets a matrix X in four entries of ``M X M'``, and another such row,
# with elementwise weights between them, in sixteen numbers of the kind ``(m_i * m_k)' W (m_j * m_l)``. With
# c means there are c^4 of these, c^4·n products in all, where the pairs themselves would take c^4·n^2.

#: Floats in one batch of products: 1.6 MB, which stays in the cache while the batch is worked on.
PAIR_BATCH_NUMBERS = 200_000

#: Up to so many means the sixteen numbers are looked up in one table; their places then take up to 3 MB.
FEW_MEANS = 20


def differences_of(forms: FloatArray) -> FloatArray:
    """``B_kk + B_ll - B_kl - B_lk`` for all pairs k < l, over the last two axes.

    ``forms``: bilinear forms of c means, shape (..., c, c).
    """
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

    ``means``: shape (c, n), best centred: what they have in common cancels and costs digits. ``out``: where
    to: a square with one row a pair.
    """
    c, n = means.shape
    if c <= FEW_MEANS:
        _looked_up(means, weight, out)
        return
    products = means[:, None] * means
    halves = (products.reshape(c * c, n) @ weight).reshape(c, c, n)
    # (a - b) W (a - b)' with a and b the products of m_i and of m_j with all means.
    own = differences_of(halves @ products.transpose(0, 2, 1))
    row = start = 0
    while start < c - 1:
        # Pairs of means from `start` on are the last ones, and all others were met before.
        left = c - start
        count = min(max(1, PAIR_BATCH_NUMBERS // left**3), left)
        ahead = products[start:, start:].reshape(left * left, n)
        mixed = halves[start : start + count, start:].reshape(count * left, n) @ ahead.T
        mixed = mixed.reshape(count, left, left, left).transpose(0, 2, 1, 3)
        i, j = pair_indices(left)
        new = slice(0, int(np.searchsorted(i, count)))
        i, j = i[new], j[new]
        block = differences_of(mixed)[i, j]
        block *= -2.0
        block += own[start + i, row:]
        block += own[start + j, row:]
        after = row + i.size
        out[row:after, row:] = block
        out[row:after, row:after] = symmetrize(block[:, : i.size])
        out[after:, row:after] = block[:, i.size :].T
        row, start = after, start + count


def _looked_up(means: FloatArray, weight: FloatArray, out: FloatArray) -> None:
    """As :func:`pairwise_gram`, from one table of all products of two means with two others."""
    (first, second), ((a, b, c, d), crossed) = _places(means.shape[0])
    products = means[first] * means[second]
    table = symmetrize(products @ weight @ products.T).reshape(-1)
    # In an order that exchanging the two differences does not change: the outcome is exactly symmetric.
    ab, cd, ac, bd, ad, bc = (table.take(place) for place in crossed)
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
def _places(c: int) -> tuple[tuple[np.ndarray, ...], tuple[list[np.ndarray], list[np.ndarray]]]:
    """Pairs of means whose products are in the table, and where two differences find what they need.

    Products of the first and second mean of one difference with those of the other are the four places a, b,
    c and d; six combinations of two of them come after.
    """
    first, second = np.triu_indices(c)
    place = np.empty((c, c), dtype=np.intp)
    place[first, second] = place[second, first] = np.arange(first.size)
    i, j = pair_indices(c)
    a, b, c_, d = (place[p[:, None], q] for p in (i, j) for q in (i, j))
    pairs = ((a, b), (c_, d), (a, c_), (b, d), (a, d), (b, c_))
    return (first, second), ([a, b, c_, d], [p * first.size + q for p, q in pairs])
