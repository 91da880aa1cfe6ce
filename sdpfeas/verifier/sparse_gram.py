"""Gram matrices of many sparse vectors: as :mod:`sdpfeas.verifier.gram`, without a dense matrix anywhere."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import (
    difference_down,
    gamma,
    inflate,
    product_up,
    sum_up,
)
from sdpfeas.numerics.sparse import envelope, smallest_lower, sparse_factor
from sdpfeas.problem.rows.arrays import longest_row, stored_rows
from sdpfeas.verifier.gram import LOST, Gram

__all__ = ["SparseGram"]

#: Roundings in one entry of the vectors, at the most.
ENTRY = 4

#: Pairs of entries in one column, and products of a factor, that are computed number by number: some seconds.
MOST_PAIRS, MOST_PRODUCTS = 1e8, 5e9


class SparseGram(Gram):
    """Inner products of sparse vectors, each times a power of two such that its norm is about one.

    Parameters
    ----------
    vectors : sparse array
        One vector a row, its largest entries about one, each entry off by a few roundings.
    exponents : ndarray of int
        The power of two each is to be multiplied by.
    """

    def __init__(self, vectors: Any, exponents: np.ndarray) -> None:
        csr = sp.csr_array(vectors)
        squares = np.bincount(stored_rows(csr), weights=csr.data * csr.data, minlength=csr.shape[0])
        power = -np.frexp(np.sqrt(squares))[1]
        self._vectors = sp.csr_array(
            (np.ldexp(csr.data, power[stored_rows(csr)]), csr.indices, csr.indptr), csr.shape
        )
        self.exponents = power - exponents

    @cached_property
    def matrix(self) -> Any:
        """The matrix, exactly symmetric."""
        counts = np.bincount(self._vectors.indices, minlength=1).astype(np.float64)
        pairs = float(counts @ counts)
        need("the Gram matrix of the equality rows", numbers=10.0 * pairs, memory=40.0 * pairs)
        product = sp.csr_array(self._vectors @ self._vectors.T)
        return sp.csr_array(0.5 * (product + product.T))

    @cached_property
    def error(self) -> float:
        """Bound of the spectral norm of what rounding and underflow did to the matrix."""
        sizes = abs(self._vectors)
        along = sizes @ (sizes.T @ np.ones(sizes.shape[0]))
        depth = longest_row(self._vectors) + 2 * ENTRY + 4
        largest = inflate(np.max(along, initial=0.0), 2 * sum(sizes.shape))
        return float(sum_up(product_up(gamma(depth), largest), product_up(LOST, float(sizes.shape[0]))))

    @cached_property
    def fits(self) -> bool:
        """Whether a factor is sparse enough to be computed number by number."""
        counts = np.bincount(self._vectors.indices, minlength=1).astype(np.float64)
        return float(counts @ counts) < MOST_PAIRS and envelope(self.matrix)[1] < MOST_PRODUCTS

    @property
    def usable(self) -> bool:
        """Whether the matrix could be factored."""
        return self._factor is not None

    @cached_property
    def _factor(self) -> Any | None:
        if not (np.isfinite(self.matrix.data).all() and np.all(self.matrix.diagonal() > 0.0)):
            return None
        try:
            return sparse_factor(self.matrix)
        except np.linalg.LinAlgError:
            return None

    @cached_property
    def smallest_lower(self) -> float:
        """Proven lower bound of the smallest eigenvalue; zero if none is proven to be positive."""
        if self._factor is None or not math.isfinite(self.error):
            return 0.0
        return max(float(difference_down(smallest_lower(self.matrix, self._factor), self.error)), 0.0)

    def combination(self, target: FloatArray) -> FloatArray:
        """Weights of the vectors whose combination has given inner products, in plain arithmetic."""
        assert self._factor is not None
        scaled = np.ldexp(target, self.exponents)
        found = self._factor.solve(scaled)
        found = found + self._factor.solve(scaled - self.matrix @ found)
        return np.ldexp(found, self.exponents)
