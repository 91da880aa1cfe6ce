"""What second-order cones and non-negative numbers contribute to the Schur complement."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.ipm.hkm import Iterate
from sdpfeas.backends.ipm.pair import Bundle, StandardPair
from sdpfeas.numerics.linalg import FloatArray

__all__ = ["VectorPart"]

#: Second-order cones up to this dimension are squares on the diagonal; of larger ones four vectors are kept.
WRITTEN = 8


class VectorPart:
    """Rows on all that is no matrix: ``A W A'``, W the identity, scaled, plus a few vectors for every cone.

    Parameters
    ----------
    pair : StandardPair
        The programs.
    columns : sparse array
        The rows on vectors and numbers, compressed by columns.
    """

    def __init__(self, pair: StandardPair, columns: Any) -> None:
        self._pair = pair
        self._rows = columns.tocsr()
        self._adjoint = columns.T.tocsr()
        self._start = pair.vectors.start
        squares = [np.diff(columns.indptr)[pair.lines.start - self._start :]]
        for bundle in pair.bundles:
            own = columns[:, bundle.start - self._start : bundle.place.stop - self._start].tocoo()
            cone = own.coords[1].astype(np.int64) // bundle.dimension
            met = np.unique(cone * pair.m + own.coords[0])
            squares.append(np.bincount(met // pair.m, minlength=bundle.count))
        #: Entries of the complement that it adds to, at most.
        self.filled = float(sum(np.sum(np.square(part.astype(np.float64))) for part in squares))
        self._pattern = _pattern(pair)

    def at(self, iterate: Iterate) -> Any:
        """The contribution, sparse; None if there is none."""
        if not self._rows.nnz:
            return None
        if iterate.multiple is not None:
            return iterate.multiple * (self._rows @ self._adjoint)
        data, extra = [], list[tuple[Bundle, FloatArray, FloatArray]]()
        for bundle, scaling in zip(self._pair.bundles, iterate.scalings, strict=True):
            diagonal, columns, inner = scaling.factors(bundle.of(iterate.x))
            if bundle.dimension <= WRITTEN:
                squares = columns @ inner @ np.swapaxes(columns, 1, 2)
                squares[:, np.arange(bundle.dimension), np.arange(bundle.dimension)] += diagonal[:, None]
                data.append(squares.reshape(-1))
            else:
                data.append(np.repeat(diagonal, bundle.dimension))
                extra.append((bundle, columns, inner))
        data.append(iterate.ratios)
        indices, pointers = self._pattern
        size = self._rows.shape[1]
        weights = sp.csr_array((np.concatenate(data), indices, pointers), shape=(size, size))
        total = self._rows @ weights @ self._adjoint
        for bundle, columns, inner in extra:
            start = bundle.start - self._start
            own = self._rows[:, start : start + bundle.count * bundle.dimension]
            spread = own @ _along_diagonal(columns)
            total = total + spread @ _along_diagonal(inner) @ spread.T
        return total


def _along_diagonal(blocks: FloatArray) -> Any:
    """Blocks of one shape as the diagonal of a sparse matrix."""
    count, rows, columns = blocks.shape
    shape = (count * rows, count * columns)
    return sp.bsr_array((blocks, np.arange(count), np.arange(count + 1)), shape=shape).tocsr()


def _pattern(pair: StandardPair) -> tuple[np.ndarray, np.ndarray]:
    """Where the entries of W are: indices and pointers of compressed rows."""
    start, indices, counts = pair.vectors.start, list[np.ndarray](), list[np.ndarray]()
    for bundle in pair.bundles:
        place = np.arange(bundle.place.start, bundle.place.stop) - start
        d = bundle.dimension
        if d <= WRITTEN:
            indices.append(np.repeat(place.reshape(-1, d), d, axis=0).reshape(-1))
            counts.append(np.full(place.size, d))
        else:
            indices.append(place)
            counts.append(np.ones(place.size, dtype=np.int64))
    lines = np.arange(pair.lines.start, pair.lines.stop) - start
    indices.append(lines)
    counts.append(np.ones(lines.size, dtype=np.int64))
    pointers = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return np.concatenate(indices), pointers
