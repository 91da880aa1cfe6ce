"""Vectors that are nearly dependent: how short one with given inner products can be, the condition felt once.

A Gram matrix squares the condition of the vectors behind it. Here a combination ``P`` of them is computed
that makes them orthonormal, up to rounding; nothing is believed about P but that it is a matrix: the vectors
``P B`` are enclosed, and if their Gram matrix is near the identity, ``B s = r`` has a solution no
longer than ``|| |P| |r| ||`` over the least singular value of ``P B``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import (
    TINY,
    UNIT,
    gamma,
    inflate,
    norm_upper,
    norms_upper,
    product_up,
    quotient_up,
    shift_up,
    sum_up,
    symmetric_norm_upper,
)

__all__ = ["Orthonormal", "Written"]

#: Times that vectors are made orthonormal: the first takes a condition of 1e15 to 1e8, the next to nothing.
ROUNDS = 4

#: How far a Gram matrix may be from the identity.
NEAR = 0.5


@dataclass(frozen=True)
class Written:
    """Vectors written out, one a row, each times a power of two.

    Attributes
    ----------
    vectors : ndarray
        The vectors, their largest entries about one.
    slips : ndarray
        Bounds of the norms of what each is off.
    exponents : ndarray of int
        The powers of two that they are to be multiplied by.
    """

    vectors: FloatArray
    slips: FloatArray
    exponents: np.ndarray

    @property
    def norms(self) -> FloatArray:
        """Upper bounds of the norms of the vectors as they were."""
        return shift_up(sum_up(norms_upper(self.vectors), self.slips), self.exponents)

    @classmethod
    def beside(cls, parts: list[Written]) -> Written:
        """Put parts of the same vectors side by side."""
        exponents = np.max([part.exponents for part in parts], axis=0)
        vectors, slips = [], []
        for part in parts:
            power = part.exponents - exponents  # not positive
            vectors.append(np.ldexp(part.vectors, power[:, None]))
            lost = part.vectors.shape[1] * TINY
            slips.append(sum_up(shift_up(part.slips, power), np.where(power < 0, lost, 0.0)))
        return cls(np.hstack(vectors), sum_up(*slips), exponents)

    @classmethod
    def below(cls, parts: list[Written]) -> Written:
        """Put vectors one below the other."""
        joined = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("vectors", "slips", "exponents")
        )
        return cls(*joined)


class Orthonormal:
    """Vectors, and a combination of them that is provably near orthonormal if one is found.

    Parameters
    ----------
    written : Written
        The vectors.
    """

    def __init__(self, written: Written) -> None:
        self._given = written

    @cached_property
    def _scaled(self) -> tuple[FloatArray, FloatArray, np.ndarray]:
        """The vectors with norms of about one, what they are off, and their exponents."""
        vectors, slips = self._given.vectors, self._given.slips
        power = np.clip(np.frexp(norms_upper(vectors))[1], -900, 900)
        vectors = np.ldexp(vectors, -power[:, None])
        lost = np.where(power > 0, vectors.shape[1] * TINY, 0.0)
        return vectors, sum_up(shift_up(slips, -power), lost), self._given.exponents + power

    @cached_property
    def _found(self) -> tuple[FloatArray, FloatArray, float] | None:
        """The combination, the vectors it makes, and a lower bound of their least singular value."""
        vectors, slips, _ = self._scaled
        m, n = vectors.shape
        if m > n or not (np.isfinite(vectors).all() and np.isfinite(slips).all()):
            return None
        work = float(m) ** 2 * n
        need(
            "making rows orthonormal",
            products=5.0 * work + 4.0 * float(m) ** 3,
            memory=8.0 * (2.0 * m * n + 4.0 * m * m),
        )
        combination, made = np.eye(m), vectors
        for turn in range(ROUNDS):
            gram = made @ made.T
            near = self._near(gram, made)
            if near < NEAR:
                slip = self._slip(combination, vectors, slips) if turn else norm_upper(slips)
                root = math.nextafter(math.sqrt(math.nextafter(1.0 - near, 0.0)), 0.0)
                least = math.nextafter(root - slip, -math.inf)
                return (combination, made, least) if least > 0.0 else None
            factor = _factor(gram, n)
            if factor is None:
                return None
            combination = scipy.linalg.solve_triangular(factor, combination, lower=True, check_finite=False)
            if not np.isfinite(combination).all():
                return None
            made = combination @ vectors
        return None

    @staticmethod
    def _near(gram: FloatArray, made: FloatArray) -> float:
        """Bound of the distance of the Gram matrix of exactly these vectors from the identity."""
        m, n = made.shape
        off = np.abs(gram - np.eye(m))
        off = np.maximum(off, off.T)
        sizes = norm_upper(made)
        rounding = product_up(gamma(n + 4), sizes, sizes)
        return float(sum_up(symmetric_norm_upper(inflate(off, 2)), rounding, float(m) * m * n * TINY))

    @staticmethod
    def _slip(combination: FloatArray, vectors: FloatArray, slips: FloatArray) -> float:
        """Bound of the norm of what the computed combinations are off."""
        m = vectors.shape[0]
        each = sum_up(product_up(gamma(m + 2), norms_upper(vectors)), slips)
        totals = inflate(np.abs(combination) @ each, m + 2)
        lost = float(m) * m * vectors.shape[1] * TINY * (1.0 + float(np.max(np.abs(combination))))
        return float(sum_up(norm_upper(totals), lost))

    def shortest_upper(self, target: FloatArray) -> float:
        """Bound of the shortest vector with given inner products; infinity if there may be none.

        Parameters
        ----------
        target : ndarray
            Upper bounds of the magnitudes of the inner products with the vectors as they were.
        """
        if not target.any():
            return 0.0
        if self._found is None:
            return math.inf
        combination, _, least = self._found
        scaled = shift_up(target, -self._scaled[2])
        if not np.isfinite(scaled).all():
            return math.inf
        size = inflate(np.abs(combination) @ scaled, scaled.size + 2)
        lost = np.where(np.any(scaled != 0.0), scaled.size * TINY, 0.0)
        return float(quotient_up(norm_upper(sum_up(size, lost)), least))

    @property
    def usable(self) -> bool:
        """Whether a combination was found."""
        return self._found is not None

    def shortest(self, target: FloatArray) -> FloatArray:
        """The shortest vector with given inner products, in plain arithmetic."""
        assert self._found is not None
        combination, made, _ = self._found
        return np.asarray(made.T @ (combination @ np.ldexp(target, -self._scaled[2])))


def _factor(gram: FloatArray, depth: int) -> FloatArray | None:
    """Lower Cholesky factor of a Gram matrix, shifted where it is singular up to rounding."""
    m = gram.shape[0]
    shift = 0.0
    for _ in range(2):
        factor, info = scipy.linalg.lapack.dpotrf(gram + shift * np.eye(m), lower=1, clean=1)
        if info == 0 and np.isfinite(factor).all():
            return np.asarray(factor)
        shift = 11.0 * UNIT * (m * depth + m * (m + 1.0)) * float(np.max(np.diagonal(gram), initial=0.0))
    return None
