"""Gram matrices in floating point, at any scale: how short a vector with given inner products can be.

Vectors are handed in *units*: scaled by powers of two so that their entries are about one, or at least below
``2**100``. Then squares neither overflow nor underflow to anything that counts, and one constant covers
whatever the smallest entries lose.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.csgraph
import scipy.sparse.linalg

from sdpfeas.numerics.cost_estimate import Work, need
from sdpfeas.numerics.linalg import FloatArray, smallest, symmetrize
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
    symmetric_norm_upper,
)
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.rows.base import longest_row, stored_rows

#: Share of a computed smallest eigenvalue that is asked of its proof; the rest is left to rounding.
BOUND_SHARE = 0.5

#: What underflow may take from an entry of the Gram matrix of vectors in units: fewer than 2**100 times the
#: smallest normal number, times entries of up to 2**200.
LOST = 2.0**-700

#: Vectors that cancelled to less than this power of two below their terms are not scaled up any further.
MOST = 200


def need_gram(parts: list[Rows], size: int) -> None:
    """Refuse a Gram matrix for which there is neither time nor memory, its factorisation included."""
    work = reduce(Work.plus, (rows.gram_work for rows in parts), Work(products=float(size) ** 3))
    need("the Gram matrix of the equality rows", *work, memory=32.0 * float(size) ** 2)


class Gram(ABC):
    """Inner products of vectors, each times a power of two such that its norm is about one."""

    #: The power of two each vector was multiplied by.
    exponents: np.ndarray

    @property
    @abstractmethod
    def usable(self) -> bool:
        """Whether the matrix could be computed at all."""

    @property
    @abstractmethod
    def smallest_lower(self) -> float:
        """Proven lower bound of the smallest eigenvalue; zero if none is proven to be positive."""

    @abstractmethod
    def combination(self, target: FloatArray) -> FloatArray:
        """Weights of the vectors whose combination has given inner products, in plain arithmetic."""

    def shortest_upper(self, target: FloatArray) -> float:
        """Bound of the shortest vector with given inner products; infinity if there may be none.

        ``target``: upper bounds of the magnitudes of the inner products with the vectors as they were.
        """
        if not target.any():
            return 0.0
        if not self.smallest_lower > 0.0:
            return math.inf
        root = math.nextafter(math.sqrt(self.smallest_lower), 0.0)
        return float(quotient_up(norm_upper(shift_up(target, self.exponents)), root))


@dataclass(frozen=True)
class ScaledGram(Gram):
    """Inner products of vectors, each times a power of two such that its norm is about one.

    ``matrix``: the matrix, exactly symmetric; or its diagonal, where the vectors are orthogonal.
    ``exponents``: the power of two each vector was multiplied by. ``error``: bound of the spectral norm of
    what rounding and underflow did to the matrix.
    """

    matrix: FloatArray
    exponents: np.ndarray
    error: float

    @classmethod
    def of(
        cls,
        gram: FloatArray,
        sizes: FloatArray,
        exponents: np.ndarray,
        depth: int,
        overlap: FloatArray | None = None,
    ) -> ScaledGram:
        """Scale a computed Gram matrix.

        ``gram``: inner products of the vectors in units, or their squared norms where they are orthogonal.
        ``sizes``: upper bounds of the norms of the vectors in units, signs taken away from all terms.
        ``exponents``: the power of two each vector in units is to be multiplied by. ``depth``: how many
        roundings are chained in one entry. ``overlap``: inner products of the vectors without signs, up to
        as many roundings; at most those of ``sizes``.
        """
        diagonal = gram if gram.ndim == 1 else np.diagonal(gram)
        power = np.minimum(-np.frexp(np.sqrt(np.maximum(diagonal, 0.0)))[1], MOST)
        scale = np.ldexp(1.0, power)
        squares = inflate(np.square(product_up(sizes, scale)), 2)
        if gram.ndim == 1:
            matrix, size = gram * scale * scale, float(np.max(squares, initial=0.0))
        else:
            matrix, size = (
                symmetrize(gram * scale[:, None] * scale),
                float(inflate(squares.sum(), squares.size)),
            )
        if overlap is not None:
            size = min(size, symmetric_norm_upper(inflate(overlap * scale[:, None] * scale, depth)))
        lost = product_up(LOST, np.square(inflate(scale.sum(), scale.size)))
        error = float(sum_up(product_up(gamma(depth + 4), size), lost))
        return cls(matrix, power - exponents, error)

    @property
    def usable(self) -> bool:
        """Whether the matrix could be computed at all."""
        return bool(np.isfinite(self.matrix).all())

    @cached_property
    def smallest_lower(self) -> float:
        """Proven lower bound of the smallest eigenvalue; zero if none is proven to be positive."""
        if not (self.usable and math.isfinite(self.error)):
            return 0.0
        if self.matrix.ndim == 1:
            return max(float(difference_down(np.min(self.matrix, initial=math.inf), self.error)), 0.0)
        bound = BOUND_SHARE * smallest(self.matrix)
        proven = bound > 0.0 and definite(self.matrix, shift=float(sum_up(bound, self.error)))
        return bound if proven else 0.0

    @cached_property
    def _inverse(self) -> FloatArray:
        """Inverse of the matrix, without the singular directions of vectors that depend on others."""
        need("a correction of rows or columns", cubes=1.5 * float(self.matrix.shape[0]) ** 3)
        return np.asarray(scipy.linalg.pinvh(self.matrix, rtol=1e-13))

    def combination(self, target: FloatArray) -> FloatArray:
        """Weights of the vectors whose combination has given inner products, in plain arithmetic."""
        scaled = np.ldexp(target, self.exponents)
        solved = scaled / self.matrix if self.matrix.ndim == 1 else self._inverse @ scaled
        return np.ldexp(solved, self.exponents)


# ------------------------------------------------------------
# Sparse symmetric matrices: factors, and a proof of how large the smallest eigenvalue is at least.

#: Share of a computed smallest eigenvalue that is asked of its proof; the rest is left to rounding.
SHIFT_SHARE = 0.5

#: Operations with single numbers that take as long as writing one.
PER_NUMBER = 2.0


def envelope(matrix: Any) -> tuple[float, float]:
    """Entries of a factor, and products it takes, where rows are ordered to lie close to the diagonal."""
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(sp.csr_array(matrix), symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    i, j = sp.coo_array(matrix).coords
    widths = np.zeros(matrix.shape[0])
    np.maximum.at(widths, place[i], (place[i] - place[j]).astype(np.float64))
    return float(np.sum(widths + 1.0)), float(np.sum((widths + 1.0) ** 2))


def sparse_factor(matrix: Any) -> Any:
    """Factors of a sparse symmetric matrix without regard to the size of its pivots.

    Raises ``numpy.linalg.LinAlgError``: if a pivot is zero.
    """
    entries, products = envelope(matrix)
    need("a sparse factor", numbers=products / PER_NUMBER + 20.0 * entries, memory=64.0 * entries)
    try:
        return scipy.sparse.linalg.splu(
            sp.csc_array(matrix),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError as error:
        raise np.linalg.LinAlgError(f"a sparse factor: {error}") from None


def smallest_lower(matrix: Any, factor: Any) -> float:
    """Proven lower bound of the smallest eigenvalue of a sparse symmetric matrix; zero if none is positive.

    With ``c`` below a computed smallest eigenvalue, ``L D L'`` is formed from the computed factors of
    ``A - c·I``. If D is positive it is semidefinite whatever rounding did to it, and the smallest eigenvalue
    of A is at least c less the norm of the residual.

    ``factor``: from :func:`sparse_factor`, of the same matrix; it only has to help.
    """
    n = matrix.shape[0]
    coo = sp.coo_array(matrix)
    if not np.isfinite(coo.data).all():
        return 0.0
    inverse = scipy.sparse.linalg.LinearOperator((n, n), matvec=factor.solve, dtype=np.float64)
    try:
        start = np.random.default_rng(0).normal(size=n)
        least = scipy.sparse.linalg.eigsh(
            inverse, k=1, which="LA", tol=1e-2, v0=start, return_eigenvectors=False
        )
        shift = SHIFT_SHARE / float(least[0])
        if not 0.0 < shift < np.inf:
            return 0.0
        shifted = sp.csc_array(matrix - shift * sp.eye_array(n))
        own = sparse_factor(shifted)
    except (np.linalg.LinAlgError, scipy.sparse.linalg.ArpackError, ZeroDivisionError):
        return 0.0
    missed = _residual_upper(shifted, own)
    largest = float(np.max(np.abs(coo.data), initial=0.0))
    rounding = product_up(4.0 * UNIT, sum_up(largest, shift))
    return max(float(difference_down(shift, sum_up(missed, rounding))), 0.0)


def _residual_upper(matrix: Any, factor: Any) -> float:
    """Bound of the norm of ``A - L D L'`` for computed factors; infinity if D is not positive."""
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
    # Rows are added up with as many roundings as they have entries, at most all.
    rounding = product_up(gamma(depth), inflate(np.max(sizes, initial=0.0), 2 * count))
    lost = float(count) * depth * TINY * (1.0 + float(np.max(pivots, initial=0.0)))
    return float(sum_up(inflate(np.max(left, initial=0.0), count + 2), rounding, lost))


# ------------------------------------------------------------
# Gram matrices of many sparse vectors: as :mod:`sdpfeas.verifier.gram`, without a dense matrix anywhere.

#: Roundings in one entry of the vectors, at the most.
ENTRY = 4

#: Pairs of entries in one column, and products of a factor, that are computed number by number: some seconds.
MOST_PAIRS, MOST_PRODUCTS = 1e8, 5e9


class SparseGram(Gram):
    """Inner products of sparse vectors, each times a power of two such that its norm is about one.

    ``vectors``: one vector a row, its largest entries about one, each entry off by a few roundings.
    ``exponents``: the power of two each is to be multiplied by.
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
