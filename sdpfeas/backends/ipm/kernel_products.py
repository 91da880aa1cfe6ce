"""Inner products of squares of vectors with elementwise weights between them, by few terms of the weights.

Weights ``1 / (1 + r_i r_j)`` with positive numbers r are a smooth function of the logarithms of these, so
few terms ``sum_k s_k a_k a_k'`` make them up to any accuracy, more or less independent of the dimension. With
them ``<v v', W * u u'> = sum_k s_k (v' diag(a_k) u)²``: a product of n numbers a term, where all entries of
the squares would take n²/2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize

__all__ = ["square_gram", "weight_terms"]

#: Floats in one batch of products: 4 MB, which stay in the cache while the batch is worked on.
BATCH_SIZE = 1_000_000


def weight_terms(weight: FloatArray, vectors: FloatArray, accuracy: float) -> tuple[FloatArray, int]:
    """Terms of weights, as few as keep every inner product of squares to an accuracy.

    Parameters
    ----------
    weight : ndarray
        The symmetric matrix W, positive.
    vectors : ndarray
        One vector v a row.
    accuracy : float
        What may be lost of ``<v v', W * u u'>``, relative to the norms of ``v v'`` and ``u u'``.

    Returns
    -------
    terms : ndarray
        One vector a row, those that add first.
    adding : int
        How many add; the others subtract.
    """
    values, frame = eigh(weight)
    squares = vectors * vectors
    norms = np.einsum("ij,ij->i", squares @ weight, squares)
    # What is left out is at most its largest eigenvalue times |v * u|² <= |v * v| |u * u|.
    worst = float(np.max(np.einsum("ij,ij->i", squares, squares) / norms, initial=0.0))
    kept = np.flatnonzero(~(np.abs(values) * worst <= accuracy))[::-1]
    terms = (frame[:, kept] * np.sqrt(np.abs(values[kept]))).T
    return np.ascontiguousarray(terms), int(np.count_nonzero(values[kept] > 0.0))


def square_gram(vectors: Any, terms: FloatArray, adding: int) -> Any:
    """``<v v', W * u u'>`` for all vectors, in their precision.

    Parameters
    ----------
    vectors : ndarray
        One vector a row.
    terms, adding : ndarray, int
        Terms of W; see :func:`weight_terms`.
    """
    count, n = vectors.shape
    terms = terms.astype(vectors.dtype, copy=False)
    gram = np.empty((count, count), dtype=vectors.dtype)
    width = max(1, BATCH_SIZE // max(terms.shape[0] * count, 1))
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
