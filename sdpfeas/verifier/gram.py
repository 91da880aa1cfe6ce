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

import numpy as np
import scipy.linalg

from sdpfeas.numerics.effort import Work, need
from sdpfeas.numerics.linalg import FloatArray, smallest, symmetrize
from sdpfeas.numerics.rounding import (
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

__all__ = ["Gram", "ScaledGram", "need_gram"]

#: Share of a computed smallest eigenvalue that is asked of its proof; the rest is left to rounding.
CAUTION = 0.5

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

        Parameters
        ----------
        target : ndarray
            Upper bounds of the magnitudes of the inner products with the vectors as they were.
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

    Attributes
    ----------
    matrix : ndarray
        The matrix, exactly symmetric; or its diagonal, where the vectors are orthogonal.
    exponents : ndarray of int
        The power of two each vector was multiplied by.
    error : float
        Bound of the spectral norm of what rounding and underflow did to the matrix.
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

        Parameters
        ----------
        gram : ndarray
            Inner products of the vectors in units, or their squared norms where they are orthogonal.
        sizes : ndarray
            Upper bounds of the norms of the vectors in units, signs taken away from all terms.
        exponents : ndarray of int
            The power of two each vector in units is to be multiplied by.
        depth : int
            How many roundings are chained in one entry.
        overlap : ndarray, optional
            Inner products of the vectors without signs, up to as many roundings; at most those of ``sizes``.
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
        bound = CAUTION * smallest(self.matrix)
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
