"""What every storage kind of rows has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sdpfeas.linalg import FloatArray, symmetrize
from sdpfeas.operators.arrays import value_range
from sdpfeas.rounding import TINY, gamma

__all__ = ["Rows", "State"]

#: Products of four factors of these sizes neither underflow nor overflow.
SAFE_SMALL, SAFE_LARGE = 1e-60, 1e60

#: What one kind stores: plain numbers, arrays by name, and other rows it is made of.
State = tuple[dict[str, Any], dict[str, np.ndarray], list["Rows"]]


class Rows(ABC):
    """The part of ``m`` rows that acts on one block; the base class of every storage kind."""

    kind: ClassVar[str]
    #: Number of rows.
    m: int
    #: Side of the matrix, or length of the vector.
    n: int
    #: Whether the block is a matrix.
    matrix: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the block's array."""
        return (self.n, self.n) if self.matrix else (self.n,)

    @abstractmethod
    def apply(self, x: FloatArray) -> FloatArray:
        """Inner products ``<A_i, x>`` for every row."""

    @abstractmethod
    def adjoint(self, y: FloatArray) -> FloatArray:
        """Weighted sum ``sum_i y_i A_i``."""

    @abstractmethod
    def norms(self) -> FloatArray:
        """Frobenius norm of every row."""

    @abstractmethod
    def select(self, index: np.ndarray) -> Rows:
        """Return the rows with the given indices, in that order."""

    @abstractmethod
    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by ``factors`` (exactly, if these are powers of two)."""

    @abstractmethod
    def exact_row(self, i: int) -> np.ndarray:
        """Row ``i`` in rational arithmetic, as an object array of ``Fraction``."""

    @abstractmethod
    def state(self) -> State:
        """Return what the kind stores, for files and hashes."""

    @abstractmethod
    def _magnitude_apply(self, x: FloatArray) -> FloatArray:
        """Bound of ``<|A_i|, x>`` for ``x >= 0``, up to rounding."""

    @abstractmethod
    def _magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        """Entrywise bound of ``sum_i w_i |A_i|`` for ``w >= 0``, up to rounding."""

    def magnitude_norms(self) -> FloatArray:
        """Frobenius norm of the entrywise bound behind ``_magnitude_apply``; at least ``norms()``."""
        return self.norms()

    @property
    @abstractmethod
    def _depths(self) -> tuple[int, int]:
        """How many roundings are chained in one entry of ``apply`` and of ``adjoint``."""

    def _stable_apply(self, x: FloatArray) -> FloatArray:
        """``apply`` by the route that the bound of ``_depths`` is for."""
        return self.apply(x)

    def _stable_adjoint(self, y: FloatArray) -> FloatArray:
        """``adjoint`` by the route that the bound of ``_depths`` is for."""
        return self.adjoint(y)

    def enclose_apply(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``apply`` with a proven radius for every row."""
        size = np.abs(x)
        radius = self._radius(self._magnitude_apply(size), self._depths[0], size)
        return self._stable_apply(x), radius

    def enclose_adjoint(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``adjoint`` with a proven radius for every entry."""
        size = np.abs(y)
        radius = self._radius(self._magnitude_adjoint(size), self._depths[1], size)
        return self._stable_adjoint(y), radius

    def _radius(self, magnitude: FloatArray, depth: int, argument: FloatArray) -> FloatArray:
        """Error bound of a sum of products of at most four factors, two of them from ``argument``."""
        radius = gamma(depth) * magnitude * (1.0 + 4.0 * gamma(depth + 4))
        low, high = self._range
        small, large = value_range(argument)
        if min(low, small) >= SAFE_SMALL and max(high, large) <= SAFE_LARGE:
            return radius  # no product can underflow, so a magnitude of zero is an exact zero
        return radius + depth * TINY * (1.0 + high) ** 2 * (1.0 + large)

    @cached_property
    def _range(self) -> tuple[float, float]:
        """Smallest non-zero and largest magnitude of all stored numbers."""
        _, arrays, children = self.state()
        ranges = [value_range(a) for a in arrays.values() if a.dtype.kind == "f"]
        ranges += [child._range for child in children]
        return min(r[0] for r in ranges), max(r[1] for r in ranges)

    def gram(self) -> FloatArray:
        """Matrix of inner products ``<A_i, A_j>``."""
        unit = np.zeros(self.m)
        out = np.empty((self.m, self.m))
        for i in range(self.m):
            unit[i] = 1.0
            out[i] = self.apply(self.adjoint(unit))
            unit[i] = 0.0
        return symmetrize(out)

    @property
    def gram_depth(self) -> int:
        """How many roundings are chained in one entry of ``gram``, at the most."""
        return sum(self._depths) + int(np.prod(self.shape)) + 8

    def __repr__(self) -> str:
        """Kind and sizes."""
        return f"{self.kind}(m={self.m}, n={self.n})"
