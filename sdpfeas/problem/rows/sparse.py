"""Rows stored as one CSR array, and the zero rows of untouched blocks."""

from __future__ import annotations

import copy
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.exact_arithmetic import mean_of
from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.rows.base import (
    Read,
    Rows,
    State,
    canonical_csr,
    csr_from_parts,
    csr_parts,
    exponents,
    frozen_csr,
    largest_by_row,
    longest_row,
    stored_rows,
)
from sdpfeas.problem.validation import RowError, require_exact_mean, require_symmetric

__all__ = ["NoRows", "Sparse"]


class Sparse(Rows):
    """Rows stored as one sparse matrix.

    ``array``: shape (m, n²), row ``i`` being the full symmetric matrix ``A_i`` flattened, or (m, n) for a
    vector block. ``n``: side of the matrix or length of the vector. ``matrix``: whether the block is a
    matrix.
    """

    kind = "sparse"
    _factors_stored = 1

    def __init__(self, array: Any, n: int, matrix: bool = True) -> None:
        csr = canonical_csr(array, "sparse rows")
        guard("a copy of the rows", 40.0 * WRITE_FLOPS * csr.nnz, memory=80.0 * csr.nnz)
        width = n * n if matrix else n
        if csr.shape[1] != width:
            raise ProblemError(
                f"sparse rows for a block of size n = {n} must have {'n²' if matrix else 'n'} = {width} "
                f"columns; got shape {csr.shape}"
            )
        self.m, self.n, self.matrix = csr.shape[0], int(n), bool(matrix)
        if matrix:
            csr = self._symmetric(csr)
        self._csr = frozen_csr(csr)

    @classmethod
    def unchecked(cls, array: Any, n: int, matrix: bool = True) -> Sparse:
        """Build rows from a symmetric array without duplicates; check only that it is finite."""
        frame = object.__new__(cls)
        frame.n, frame.matrix = int(n), bool(matrix)
        csr = array.tocsr()
        csr.sort_indices()
        return frame._derived(csr)

    def _derived(self, csr: Any) -> Sparse:
        """Wrap a CSR array derived by selection or scaling, which is symmetric without duplicates."""
        out = object.__new__(Sparse)
        bad = ~np.isfinite(csr.data)
        if bad.any():
            raise RowError(int(stored_rows(csr)[np.argmax(bad)]), "sparse rows hold NaN or infinity")
        if not np.all(csr.data):
            csr.eliminate_zeros()
        out.m, out.n, out.matrix = csr.shape[0], self.n, self.matrix
        out._csr = frozen_csr(csr)
        return out

    def _symmetric(self, csr: Any) -> Any:
        coo = csr.tocoo()
        i, j = np.divmod(coo.col, self.n)
        mirror = sp.csr_array((coo.data, (coo.row, j * self.n + i)), shape=csr.shape)
        skew = _largest(csr - mirror) if csr.nnz else np.zeros(self.m)
        if not np.any(skew):
            return csr
        require_symmetric(skew, _largest(csr))
        mean, off = mean_of(csr, mirror)
        require_exact_mean(_largest(off))
        mean.sort_indices()
        return mean

    @property
    def array(self) -> Any:
        """The rows as a CSR array with read-only parts."""
        return copy.copy(self._csr)

    @cached_property
    def _transposed(self) -> Any:
        return self._csr.T.tocsr()

    @property
    def entries(self) -> float:
        """Number of stored entries."""
        return float(self._csr.nnz)

    @property
    def gram_flops(self) -> float:
        """Cost estimate of the products of all pairs of entries in one column."""
        counts = np.unique(self._csr.indices, return_counts=True)[1].astype(np.float64)
        return WRITE_FLOPS * (10.0 * float(counts @ counts) + 3.0 * float(self.m) ** 2)

    def apply(self, x: FloatArray) -> FloatArray:
        """Return the inner products with all rows."""
        return np.asarray(self._csr @ x.reshape(-1))

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Return the weighted sum of the rows."""
        return np.asarray(self._transposed @ y).reshape(self.shape)

    def to_csr(self, magnitude: bool = False) -> Any:
        """Return all rows as one CSR array."""
        return abs(self.array) if magnitude else self.array

    def stable_apply(self, x: FloatArray) -> FloatArray:
        """Return ``apply``: every term is a single product."""
        return self.apply(x)

    def stable_adjoint(self, y: FloatArray) -> FloatArray:
        """Return ``adjoint``: every term is a single product."""
        return self.adjoint(y)

    def _plain_norms(self) -> FloatArray:
        squares = self._csr.data * self._csr.data
        return np.sqrt(np.bincount(stored_rows(self._csr), weights=squares, minlength=self.m))

    def _select(self, index: np.ndarray) -> Rows:
        if index.size == self.m and np.array_equal(index, np.arange(self.m)):
            return self
        return self._derived(self._csr[index])

    def _with(self, data: FloatArray) -> Sparse:
        """Return rows with the same sparsity pattern and other numbers."""
        parts = (data, np.array(self._csr.indices), np.array(self._csr.indptr))
        return self._derived(sp.csr_array(parts, self._csr.shape))

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by ``factors``."""
        return self._with(self._csr.data * np.asarray(factors)[stored_rows(self._csr)])

    def units(self) -> tuple[Rows, np.ndarray]:
        """Return rows with largest entry in [1/2, 1)."""
        return self._in_units

    @cached_property
    def _in_units(self) -> tuple[Rows, np.ndarray]:
        csr = self._csr
        power = largest_by_row(csr, exponents(np.abs(csr.data)))
        return self._with(np.ldexp(csr.data, -power[stored_rows(csr)])), power

    def sparse_gram(self) -> Any:
        """Return the Gram matrix of the rows as a sparse array."""
        return sp.csr_array(self._csr @ self._csr.T)

    def _gram(self) -> FloatArray:
        return np.asarray(self.sparse_gram().toarray())

    def exact_row(self, i: int, read: Read = Fraction) -> np.ndarray:
        """Return row ``i`` in rational arithmetic."""
        out = np.full(self._csr.shape[1], read(0.0), dtype=object)
        start, stop = self._csr.indptr[i], self._csr.indptr[i + 1]
        for k in range(start, stop):
            out[self._csr.indices[k]] = read(float(self._csr.data[k]))
        return out.reshape(self.shape)

    def exact_terms(self, i: int) -> dict[int, Fraction]:
        """Return the non-zero entries of row ``i``."""
        part = slice(self._csr.indptr[i], self._csr.indptr[i + 1])
        places, values = self._csr.indices[part].tolist(), self._csr.data[part].tolist()
        return {k: Fraction(v) for k, v in zip(places, values, strict=True)}

    def state(self) -> State:
        """Return the three arrays of the CSR format."""
        return {"m": self.m, "n": self.n, "matrix": self.matrix}, csr_parts(self._csr), []

    @classmethod
    def from_state(cls, numbers: dict[str, Any], arrays: dict[str, np.ndarray], children: list[Rows]) -> Rows:
        """Build rows from the output of :meth:`state`."""
        n, matrix = int(numbers["n"]), bool(numbers["matrix"])
        return cls(csr_from_parts(arrays, int(numbers["m"]), n * n if matrix else n), n, matrix)

    def magnitude_apply(self, x: FloatArray) -> FloatArray:
        """Return an upper bound of ``<|A_i|, x>`` for ``x >= 0``, up to rounding."""
        return np.asarray(abs(self._csr) @ x.reshape(-1))

    def magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        """Return an entrywise upper bound of ``sum_i w_i |A_i|`` for ``w >= 0``, up to rounding."""
        return np.asarray(abs(self._transposed) @ w).reshape(self.shape)

    @cached_property
    def depths(self) -> tuple[int, int]:
        """Number of chained roundings in one entry of ``stable_apply`` and of ``stable_adjoint``."""
        tallest = int(np.max(np.unique(self._csr.indices, return_counts=True)[1], initial=0))
        return longest_row(self._csr) + 2, tallest + 2


class NoRows(Sparse):
    """``m`` zero rows, for a block that no row touches.

    Hashes and files record only that the block is untouched.
    """

    kind = "none"
    empty = True

    def __init__(self, m: int, n: int, matrix: bool) -> None:
        self.m, self.n, self.matrix = m, n, matrix

    @cached_property
    def _csr(self) -> Any:
        width = self.n * self.n if self.matrix else self.n
        return frozen_csr(sp.csr_array((self.m, width)))

    @property
    def value_range(self) -> tuple[float, float]:
        """Range of the empty set of stored numbers."""
        return np.inf, 0.0

    @property
    def entries(self) -> float:
        """Number of stored entries, zero."""
        return 0.0

    gram_flops = entries

    def apply(self, x: FloatArray) -> FloatArray:
        """Return zero for every row."""
        return np.zeros(self.m)

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Return the zero of the block."""
        return np.zeros(self.shape)

    def enclose_apply(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return zero for every row, which is exact."""
        return np.zeros(self.m), np.zeros(self.m)

    def enclose_adjoint(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the zero of the block, which is exact."""
        return np.zeros(self.shape), np.zeros(self.shape)

    def _plain_norms(self) -> FloatArray:
        return np.zeros(self.m)

    def _select(self, index: np.ndarray) -> Rows:
        return NoRows(index.size, self.n, self.matrix)

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the same rows."""
        return self

    def stored(self) -> Sparse:
        """Return zero rows of kind ``Sparse``, for use in composed rows."""
        return Sparse(self._csr, self.n, self.matrix)

    def state(self) -> State:
        """Return the sizes."""
        return {"m": self.m, "n": self.n, "matrix": self.matrix}, {}, []

    @classmethod
    def from_state(cls, numbers: dict[str, Any], arrays: dict[str, np.ndarray], children: list[Rows]) -> Rows:
        """Build rows from the output of :meth:`state`."""
        return cls(int(numbers["m"]), int(numbers["n"]), bool(numbers["matrix"]))


def _largest(rows: Any) -> FloatArray:
    """Return the largest magnitude in every row."""
    return np.asarray(abs(rows).max(axis=1).toarray().ravel())
