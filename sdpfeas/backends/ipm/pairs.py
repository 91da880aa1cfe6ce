"""Inner products of rows that are squares of differences of means, by way of products of means.

A row ``(m_i - m_j)(m_i - m_j)'`` meets a matrix X in four entries of ``M X M'``, and another such row, with
elementwise weights between them, in sixteen numbers of the kind ``(m_i * m_k)' W (m_j * m_l)``. With c means
there are c^4 of these, c^4·n products in all, where the pairs themselves would take c^4·n^2.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.rows.pairwise import pair_indices

__all__ = ["differences_of", "pair_gram"]

#: Floats in one batch of products: 1.6 MB, which stays in the cache while the batch is worked on.
BATCH_SIZE = 200_000

#: Up to so many means the sixteen numbers are looked up in one table; their places then take up to 3 MB.
FEW_MEANS = 20


def differences_of(forms: FloatArray) -> FloatArray:
    """``B_kk + B_ll - B_kl - B_lk`` for all pairs k < l, over the last two axes.

    Parameters
    ----------
    forms : ndarray
        Bilinear forms of c means, shape (..., c, c).
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


def pair_gram(means: FloatArray, weight: FloatArray, out: FloatArray) -> None:
    """Write ``<v v', W * u u'>`` for all differences v and u of means, in lexicographic order of the pairs.

    Parameters
    ----------
    means : ndarray
        Shape (c, n), best centred: what they have in common cancels and costs digits.
    weight : ndarray
        The symmetric matrix W.
    out : ndarray
        Where to: a square with one row a pair.
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
        count = min(max(1, BATCH_SIZE // left**3), left)
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
    """As :func:`pair_gram`, from one table of all products of two means with two others."""
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
