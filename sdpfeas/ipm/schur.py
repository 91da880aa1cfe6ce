"""Gram matrices of rows in a scaled inner product, without ever forming a row that has structure.

The Newton system of a block asks for ``<A_i, H^-1 A_j>`` with
``H^-1(G) = T'·((T G T') / K)·T`` elementwise. That is the Gram matrix of the rows ``T A_i T' / sqrt(K)``;
it is summed up over strips of that matrix, so that memory stays bounded however many rows there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sdpfeas.linalg import FloatArray
from sdpfeas.operators import Combined, Dense, LowRank, PairwiseDifference, Rows, Sparse, Stacked

__all__ = ["scaled_gram"]

#: Floats in one strip: 16 million are 128 MB.
STRIP_SIZE = 16_000_000


def scaled_gram(rows: Rows, transform: FloatArray, kernel: FloatArray | None) -> FloatArray:
    """Gram matrix of the rows in the inner product of a block.

    Parameters
    ----------
    rows : Rows
        Rows on a matrix block.
    transform : ndarray
        The matrix T.
    kernel : ndarray, optional
        The matrix K; None for all ones.
    """
    if isinstance(rows, Combined):
        inner = scaled_gram(rows.base, transform, kernel)
        return np.asarray(rows.coefficients @ (rows.coefficients @ inner).T)
    n = transform.shape[0]
    weight = None if kernel is None else 1.0 / np.sqrt(kernel)
    parts = _prepare(rows, transform)
    m = rows.m
    gram = np.zeros((m, m))
    width = max(1, min(n, STRIP_SIZE // max(m * n, 1)))
    for start in range(0, n, width):
        stop = min(start + width, n)
        # Entries right of the strip's diagonal block stand for their mirror images too.
        strip = np.concatenate([_strip(part, start, stop) for part in parts], axis=0)
        if weight is not None:
            strip *= weight[start:stop, start:]
        strip[:, :, stop - start :] *= np.sqrt(2.0)
        flat = strip.reshape(m, -1)
        gram += flat @ flat.T
    return gram


def _prepare(rows: Rows, transform: FloatArray) -> list[Any]:
    """Rows in the coordinates of the transform: whole matrices, or factors with their owners."""
    if isinstance(rows, Stacked):
        return [piece for part in rows.parts for piece in _prepare(part, transform)]
    if isinstance(rows, PairwiseDifference):
        means = (rows.means - rows.means.mean(axis=0)) @ transform.T
        i, j = rows.pairs
        return [("rank-one", means[i] - means[j], np.ones(rows.m))]
    if isinstance(rows, LowRank):
        factors = rows.factors @ transform.T
        counts = np.bincount(rows.owner, minlength=rows.m)
        if np.all(counts == 1):
            return [("rank-one", factors, rows.signs)]
        return [
            (
                "factors",
                np.split(factors, np.cumsum(counts)[:-1]),
                np.split(rows.signs, np.cumsum(counts)[:-1]),
            )
        ]
    if isinstance(rows, Dense):
        return [("full", transform @ rows.array @ transform.T)]
    if isinstance(rows, Sparse):
        n = rows.n
        stacked = rows.array.reshape((rows.m * n, n)).tocsr()
        half = (stacked @ transform.T).reshape(rows.m, n, n)
        return [("full", transform @ half)]
    inner = _prepare(rows.base, transform)  # type: ignore[attr-defined]
    return [("combined", rows.coefficients, inner)]  # type: ignore[attr-defined]


def _strip(part: Any, start: int, stop: int) -> FloatArray:
    """Rows ``start:stop`` and columns from ``start`` on of every matrix of a part."""
    kind = part[0]
    if kind == "full":
        return np.array(part[1][:, start:stop, start:])
    if kind == "rank-one":
        _, vectors, signs = part
        return (signs[:, None] * vectors[:, start:stop])[:, :, None] * vectors[:, None, start:]
    if kind == "factors":
        _, factors, signs = part
        return np.stack(
            [(f[:, start:stop].T * s) @ f[:, start:] for f, s in zip(factors, signs, strict=True)]
        )
    _, coefficients, inner = part
    base = np.concatenate([_strip(piece, start, stop) for piece in inner], axis=0)
    return np.asarray(coefficients @ base.reshape(base.shape[0], -1)).reshape(-1, *base.shape[1:])
