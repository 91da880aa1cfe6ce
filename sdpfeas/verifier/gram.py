"""Gram matrices with verified smallest eigenvalues, dense and sparse, free of overflow and underflow.

If the Gram matrix ``G = B B'`` of vectors ``b_i`` has ``lambda_min(G) >= s > 0``, then ``B x = r`` has a
solution with ``||x|| <= ||r|| / sqrt(s)``, the least-norm solution ``B' G^-1 r``. :meth:`Gram.shortest_upper`
returns that bound. A dense ``lambda_min`` is proved by Rump's shifted Cholesky test (Theorem 3 of
docs/mathematics.md), a sparse one by the residual of an ``L D L'`` factorisation.

Vectors are passed scaled by powers of two, so that their entries are about one or at least below ``2**100``.
Then squares do not overflow, and one constant bounds all underflow.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.csgraph
import scipy.sparse.linalg

from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import (
    FloatArray,
    cholesky,
    envelope,
    pseudoinverse,
    smallest,
    smallest_of_factor,
    smallest_of_inverse,
    sparse_factor,
    symmetrize,
)
from sdpfeas.numerics.rounding import (
    TINY,
    UNIT,
    definite,
    difference_down,
    gamma,
    inflate,
    norm_upper,
    product_up,
    quotient_up,
    shift_up,
    sum_up,
)
from sdpfeas.problem.rows.base import longest_row, stored_rows

#: Share of a computed smallest eigenvalue that is proved. A larger share fails more often because of
#: rounding; a smaller one weakens the bound.
BOUND_SHARE = 0.5

#: Bound of the underflow error in one entry of a Gram matrix: fewer than 2**100 terms of the smallest normal
#: number, times entries of up to 2**200.
UNDERFLOW = 2.0**-700

#: A matrix is factorised rather than inverted if the least pivot of its Cholesky factor exceeds this share
#: of the largest.
LEAST_PIVOT_RATIO = 1e-6

#: Vectors that cancel to less than this power of two below their terms are not scaled up further.
MAX_SCALING_EXPONENT = 200


class Gram(ABC):
    """Inner products of vectors, each scaled by a power of two to norm about one."""

    #: The power of two each vector was multiplied by.
    exponents: np.ndarray

    @property
    @abstractmethod
    def usable(self) -> bool:
        """Whether the matrix was computed without overflow."""

    @property
    @abstractmethod
    def smallest_lower(self) -> float:
        """Proven lower bound of the smallest eigenvalue; zero if none is proved to be positive."""

    @abstractmethod
    def combination(self, target: FloatArray) -> FloatArray:
        """Coefficients ``z`` of the least-norm solution ``B' z`` of ``B x = target``, up to rounding."""

    def shortest_upper(self, target: FloatArray) -> float:
        """Bound the norm of the least-norm solution of ``B x = r`` over all ``|r| <= target``; infinity if
        unproved.
        """
        if not target.any():
            return 0.0
        if not self.smallest_lower > 0.0:
            return math.inf
        root = math.nextafter(math.sqrt(self.smallest_lower), 0.0)
        return float(quotient_up(norm_upper(shift_up(target, self.exponents)), root))


@dataclass(frozen=True)
class ScaledGram(Gram):
    """A Gram matrix of scaled vectors with a dense factor.

    ``matrix`` is exactly symmetric, an array or sparse. ``exponents`` are the powers of two of the scaling.
    ``error`` bounds the spectral norm of all rounding and underflow errors.
    """

    matrix: Any
    exponents: np.ndarray
    error: float

    def _array(self) -> FloatArray:
        return np.asarray(self.matrix.toarray() if sp.issparse(self.matrix) else self.matrix)

    @classmethod
    def of(cls, gram: FloatArray, sizes: FloatArray, exponents: np.ndarray, depth: int) -> ScaledGram:
        """Scale a computed Gram matrix, and bound its error.

        ``gram`` holds the inner products of the vectors. ``sizes`` are upper bounds of their norms with
        absolute values of all terms, ``exponents`` the powers of two they are still to be multiplied by,
        ``depth`` the number of roundings per entry.
        """
        diagonal = np.diagonal(gram)
        power = np.minimum(-np.frexp(np.sqrt(np.maximum(diagonal, 0.0)))[1], MAX_SCALING_EXPONENT)
        scale = np.ldexp(1.0, power)
        squares = inflate(np.square(product_up(sizes, scale)), 2)
        matrix = symmetrize(gram * scale[:, None] * scale)
        size = float(inflate(squares.sum(), squares.size))
        lost = product_up(UNDERFLOW, np.square(inflate(scale.sum(), scale.size)))
        error = float(sum_up(product_up(gamma(depth + 4), size), lost))
        return cls(matrix, power - exponents, error)

    @property
    def usable(self) -> bool:
        return bool(np.isfinite(self.matrix.data if sp.issparse(self.matrix) else self.matrix).all())

    @cached_property
    def smallest_lower(self) -> float:
        """Rump's shifted Cholesky test at ``BOUND_SHARE`` of the computed smallest eigenvalue."""
        if not (self.usable and math.isfinite(self.error)):
            return 0.0
        factor = self._factor
        least = smallest(self._array()) if factor is None else smallest_of_factor(factor)
        bound = BOUND_SHARE * least
        shift = float(sum_up(bound, self.error))
        overwrite = sp.issparse(self.matrix)
        return bound if bound > 0.0 and definite(self._array(), shift=shift, overwrite=overwrite) else 0.0

    @cached_property
    def _inverse(self) -> FloatArray:
        """Pseudoinverse of the matrix, which ignores dependent vectors."""
        return pseudoinverse(self._array())

    @cached_property
    def _factor(self) -> FloatArray | None:
        """Cholesky factor; None if the matrix is close to singular."""
        try:
            factor = cholesky(self._array())
        except np.linalg.LinAlgError:
            return None
        pivots = np.diagonal(factor)
        return factor if np.min(pivots) > LEAST_PIVOT_RATIO * np.max(pivots) else None

    def combination(self, target: FloatArray) -> FloatArray:
        scaled = np.ldexp(target, self.exponents)
        if self._factor is not None:
            solved = scipy.linalg.lapack.dpotrs(self._factor, scaled, lower=1)[0]
        else:
            solved = self._inverse @ scaled
        return np.ldexp(solved, self.exponents)


# --- Sparse symmetric matrices


def smallest_lower(matrix: Any, factor: Any) -> float:
    """Prove a lower bound of the smallest eigenvalue of a sparse symmetric matrix; zero if it is not
    positive.

    For a shift ``c`` below the computed smallest eigenvalue, ``A - c I = L D L' + E`` with computed ``L`` and
    ``D``. If ``D > 0`` then ``L D L'`` is semidefinite for any ``L``, so ``lambda_min(A) >= c - ||E||``.
    ``factor`` is the output of :func:`sparse_factor` for ``A``; it is used only to estimate the shift.
    """
    n = matrix.shape[0]
    coo = sp.coo_array(matrix)
    if not np.isfinite(coo.data).all():
        return 0.0
    try:
        shift = BOUND_SHARE * smallest_of_inverse(factor.solve, n)
        if not 0.0 < shift < np.inf:
            return 0.0
        shifted = sp.csc_array(matrix - shift * sp.eye_array(n))
        own = sparse_factor(shifted)
    except (np.linalg.LinAlgError, ZeroDivisionError):
        return 0.0
    missed = _residual_upper(shifted, own)
    largest = float(np.max(np.abs(coo.data), initial=0.0))
    rounding = product_up(4.0 * UNIT, sum_up(largest, shift))
    return max(float(difference_down(shift, sum_up(missed, rounding))), 0.0)


def _residual_upper(matrix: Any, factor: Any) -> float:
    """Bound the norm of ``A - L D L'`` for computed factors; infinity if ``D`` is not positive."""
    lower, pivots = sp.csr_array(factor.L), np.asarray(factor.U.diagonal())
    order = factor.perm_r
    if not (np.array_equal(order, factor.perm_c) and np.all(pivots > 0.0) and np.isfinite(pivots).all()):
        return float("inf")
    if not np.isfinite(lower.data).all():
        return float("inf")
    coo = sp.coo_array(matrix)
    placed = sp.csr_array((coo.data, (order[coo.coords[0]], order[coo.coords[1]])), matrix.shape)
    product = (lower @ sp.diags_array(pivots)) @ lower.T
    left = np.asarray(abs(placed - product).sum(axis=1)).ravel()
    sizes: FloatArray = abs(lower) @ (pivots * (abs(lower).T @ np.ones(lower.shape[0])))
    depth = int(np.max(np.diff(lower.indptr), initial=0)) + 8
    count = lower.shape[0]
    # A row sum has at most as many roundings as the row has entries.
    rounding = product_up(gamma(depth), inflate(np.max(sizes, initial=0.0), 2 * count))
    lost = float(count) * depth * TINY * (1.0 + float(np.max(pivots, initial=0.0)))
    return float(sum_up(inflate(np.max(left, initial=0.0), count + 2), rounding, lost))


#: Largest number of roundings in one entry of the vectors.
ENTRY_ROUNDINGS = 4

#: Largest number of products in a sparse Gram matrix, and of flops in its factorisation: some seconds each.
MAX_GRAM_PRODUCTS, MAX_FACTOR_FLOPS = 1e8, 5e9

#: Numbers written per product of a sparse Gram matrix, and per entry when it is made symmetric: 0.04 s for
#: 5.7e6 products in 1e6 entries, 4 s for 6e7 of each (both sides of ``control5`` and ``gpp124-1``).
PRODUCT_NUMBERS, ENTRY_NUMBERS = 10.0, 100.0

#: Dense flops assumed to take as long as one flop of a sparse factorisation. On the Gram matrix of 3,000
#: random sparse rows, of which SuperLU factorised a similar one in 1.2 s, dense Cholesky took 0.3 s.
DENSE_FLOPS_PER_SPARSE_FLOP = 30.0

#: Number of vectors above which a dense Gram matrix is never formed.
DENSE_ROWS_LIMIT = 6000


class SparseGram(Gram):
    """A Gram matrix of many sparse vectors, never stored densely.

    ``vectors`` holds one vector per row with largest entry about one, each entry with a few rounding errors;
    ``exponents`` are the powers of two they are to be multiplied by.
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
    def products(self) -> float:
        """Number of products in the matrix."""
        counts = np.bincount(self._vectors.indices, minlength=1).astype(np.float64)
        return float(counts @ counts)

    def factorable(self) -> Gram:
        """Return the matrix itself or, if its sparse factor would cost more, with a dense one."""
        size = self._vectors.shape[0]
        if size > DENSE_ROWS_LIMIT:
            return self
        dense_flops = float(size) ** 3 / 3.0
        if envelope(self.matrix)[1] < min(MAX_FACTOR_FLOPS, dense_flops / DENSE_FLOPS_PER_SPARSE_FLOP):
            return self
        guard("the Gram matrix as an array", float(size) ** 3, memory=32.0 * float(size) ** 2)
        return ScaledGram(self.matrix, self.exponents, self.error)

    @cached_property
    def matrix(self) -> Any:
        """The matrix, exactly symmetric."""
        pairs, size = self.products, float(self._vectors.shape[0])
        numbers = PRODUCT_NUMBERS * pairs + ENTRY_NUMBERS * min(pairs, size**2)
        guard("the Gram matrix of the equality rows", WRITE_FLOPS * numbers, memory=40.0 * pairs)
        product = sp.csr_array(self._vectors @ self._vectors.T)
        return sp.csr_array(0.5 * (product + product.T))

    @cached_property
    def error(self) -> float:
        """Bound of the spectral norm of all rounding and underflow errors of the matrix."""
        sizes = abs(self._vectors)
        along = sizes @ (sizes.T @ np.ones(sizes.shape[0]))
        depth = longest_row(self._vectors) + 2 * ENTRY_ROUNDINGS + 4
        largest = inflate(np.max(along, initial=0.0), 2 * sum(sizes.shape))
        return float(sum_up(product_up(gamma(depth), largest), product_up(UNDERFLOW, float(sizes.shape[0]))))

    @property
    def usable(self) -> bool:
        """Whether the matrix could be factorised."""
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
        if self._factor is None or not math.isfinite(self.error):
            return 0.0
        return max(float(difference_down(smallest_lower(self.matrix, self._factor), self.error)), 0.0)

    def combination(self, target: FloatArray) -> FloatArray:
        assert self._factor is not None
        scaled = np.ldexp(target, self.exponents)
        found = self._factor.solve(scaled)
        found = found + self._factor.solve(scaled - self.matrix @ found)
        return np.ldexp(found, self.exponents)
