"""Rows stored as NumPy arrays."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.exact_arithmetic import mean_of
from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.rows.base import EMPTY, Read, Rows, State, exponents, fractions, frozen, sealed
from sdpfeas.problem.rows.compose import Combined
from sdpfeas.problem.validation import RowError, float_array, require_exact_mean, require_symmetric

__all__ = ["Dense"]

#: Rows with largest exponents up to this are not rescaled by ``units``, which saves a copy.
UNSCALED_EXPONENT = 100

#: Entries above which scaled rows are stored as a combination instead of a copy.
COPIED_ENTRIES = 10_000_000


class Dense(Rows):
    """Rows stored as arrays.

    ``array``: shape (m, n, n), each matrix symmetric, or (m, n) for a vector block.
    """

    kind = "dense"
    _factors_stored = 1

    def __init__(self, array: ArrayLike) -> None:
        data = float_array(array, "rows")
        guard("a copy of the rows", 6.0 * WRITE_FLOPS * data.size, memory=24.0 * data.size)
        if data.ndim not in (2, 3) or (data.ndim == 3 and data.shape[1] != data.shape[2]):
            raise ProblemError(
                f"dense rows must have shape (m, n, n) or, for a vector block, (m, n); got {data.shape}"
            )
        bad = ~np.isfinite(data)
        if bad.any():
            row, *entry = (int(k) for k in np.argwhere(bad)[0])
            raise RowError(row, f"dense rows hold NaN or infinity at entry {tuple(entry)}")
        self.matrix = data.ndim == 3
        self.m, self.n = data.shape[0], data.shape[1]
        if self.matrix:
            with np.errstate(over="ignore"):
                skew = _largest(data - np.swapaxes(data, 1, 2))
            if skew.any():
                require_symmetric(skew, _largest(data))
                data, off = mean_of(data, np.swapaxes(data, 1, 2))
                require_exact_mean(_largest(off))
        self._array = frozen(data)
        self._flat = self._array.reshape(self.m, math.prod(data.shape[1:]))

    @property
    def array(self) -> FloatArray:
        """The rows, read-only."""
        return self._array

    @property
    def entries(self) -> float:
        """Number of stored entries."""
        return float(self._flat.size)

    @property
    def gram_flops(self) -> float:
        """Cost estimate of one product of the rows with their transpose."""
        return 0.6 * self.m * self._flat.size

    def apply(self, x: FloatArray) -> FloatArray:
        """Return the inner products with all rows."""
        return self._flat @ x.reshape(-1)

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Return the weighted sum of the rows."""
        total = (y @ self._flat).reshape(self.shape)
        # BLAS may sum mirror entries in different orders.
        return symmetrize(total) if self.matrix else total

    def to_csr(self, magnitude: bool = False) -> Any:
        """Return all rows as one CSR array."""
        csr = sp.csr_array(self._flat)
        return abs(csr) if magnitude else csr

    def columns(self, magnitude: bool = False) -> Any:
        """Return all rows as one array."""
        return np.abs(self._flat) if magnitude else self._flat

    def stable_apply(self, x: FloatArray) -> FloatArray:
        """Return ``apply``: every term is a single product."""
        return self.apply(x)

    def stable_adjoint(self, y: FloatArray) -> FloatArray:
        """Return ``adjoint``: every term is a single product."""
        return self.adjoint(y)

    def _plain_norms(self) -> FloatArray:
        # einsum allocates no array of squares, which would be as large as the problem.
        return np.sqrt(np.einsum("ij,ij->i", self._flat, self._flat))

    def _row(self, i: int) -> FloatArray:
        return self._array[i]

    def _select(self, index: np.ndarray) -> Rows:
        numbers = float(index.size) * self._flat.shape[1]
        guard("a copy of the rows", WRITE_FLOPS * numbers, memory=8.0 * numbers)
        return self._like(self._array[index])

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by ``factors``; large ones as ``Combined``, without a copy."""
        if self._array.size > COPIED_ENTRIES:
            return Combined(sp.diags_array(factors), self)
        scaled = self._array * factors.reshape((-1,) + (1,) * (self._array.ndim - 1))
        largest = np.maximum(scaled.max(initial=0.0), -scaled.min(initial=0.0))
        return self._like(scaled) if np.isfinite(largest) else Dense(scaled)

    def _like(self, array: FloatArray) -> Dense:
        """Wrap a new array that is known to be finite and symmetric."""
        array += 0.0  # as `frozen` does, but in place: the problem may fill half of the memory
        rows = type(self).__new__(type(self))
        rows.matrix, rows.m, rows.n = self.matrix, array.shape[0], self.n
        rows._array = sealed(array)
        rows._flat = rows._array.reshape(rows.m, self._flat.shape[1])
        return rows

    def units(self) -> tuple[Rows, np.ndarray]:
        """Return rows with largest entry in [1/2, 1), or these rows if no exponent is extreme."""
        flat = self._flat
        power = exponents(np.maximum(flat.max(axis=1, initial=0.0), -flat.min(axis=1, initial=0.0)))
        if np.all((np.abs(power) <= UNSCALED_EXPONENT) | (power == EMPTY)):
            return self, np.where(power == EMPTY, EMPTY, 0)
        shape = (-1,) + (1,) * (self._array.ndim - 1)
        return Dense(np.ldexp(self._array, -power.reshape(shape))), power

    def _gram(self) -> FloatArray:
        return self._flat @ self._flat.T

    def exact_row(self, i: int, read: Read = Fraction) -> np.ndarray:
        """Return row ``i`` in rational arithmetic."""
        return fractions(self._array[i], read)

    def state(self) -> State:
        """Return the array."""
        return {}, {"array": self._array}, []

    @classmethod
    def from_state(cls, numbers: dict[str, Any], arrays: dict[str, np.ndarray], children: list[Rows]) -> Rows:
        """Build rows from the output of :meth:`state`."""
        return cls(arrays["array"])

    def magnitude_apply(self, x: FloatArray) -> FloatArray:
        """Return an upper bound of ``<|A_i|, x>`` for ``x >= 0``, up to rounding."""
        flat = x.reshape(-1)
        # Row by row: a copy of all magnitudes at once would double the memory of the problem.
        return np.array([np.abs(row) @ flat for row in self._flat])

    def magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        """Return an entrywise upper bound of ``sum_i w_i |A_i|`` for ``w >= 0``, up to rounding."""
        out = np.zeros(self._flat.shape[1])
        for weight, row in zip(w, self._flat, strict=True):
            if weight:
                out += weight * np.abs(row)
        return out.reshape(self.shape)

    @property
    def depths(self) -> tuple[int, int]:
        """Number of chained roundings in one entry of ``stable_apply`` and of ``stable_adjoint``."""
        return self._flat.shape[1] + 2, self.m + 3


def _largest(matrices: FloatArray) -> FloatArray:
    """Return the largest magnitude in every matrix."""
    return np.asarray(np.abs(matrices).max(axis=(1, 2), initial=0.0))
