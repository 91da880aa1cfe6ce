"""The linear map A, block by block.

``Rows`` holds the part of every row that acts on one block. The kinds form a closed list, so that problems
can be hashed and saved; each keeps its structure and none forms what structure gives for free:

========================  =====================================================================
``Dense``                 ``A_i`` as arrays
``Sparse``                ``A_i`` as rows of one sparse matrix
``LowRank``               ``A_i = sum_k s_ik f_ik f_ik'``
``PairwiseDifference``    ``A_ij = (m_i - m_j)(m_i - m_j)'`` for all pairs i < j
``Stacked``               the rows of several kinds, one after the other
``Combined``              sparse linear combinations of the rows of another kind
========================  =====================================================================

Beside ``apply`` and ``adjoint`` each kind gives *enclosures*: a value with a radius that provably covers
every rounding error, for the verifier.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from sdpfeas.errors import ProblemError
from sdpfeas.linalg import SYMMETRY_TOLERANCE, FloatArray, symmetrize
from sdpfeas.rounding import TINY, gamma, inflate
from sdpfeas.sets import BlockSet

__all__ = [
    "Combined",
    "Dense",
    "LowRank",
    "PairwiseDifference",
    "Rows",
    "Sparse",
    "Stacked",
    "as_rows",
    "rows_from_state",
]

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
        small, large = _value_range(argument)
        if min(low, small) >= SAFE_SMALL and max(high, large) <= SAFE_LARGE:
            return radius  # no product can underflow, so a magnitude of zero is an exact zero
        return radius + depth * TINY * (1.0 + high) ** 2 * (1.0 + large)

    @cached_property
    def _range(self) -> tuple[float, float]:
        """Smallest non-zero and largest magnitude of all stored numbers."""
        _, arrays, children = self.state()
        ranges = [_value_range(a) for a in arrays.values() if a.dtype.kind == "f"]
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


class Dense(Rows):
    """Rows stored as arrays.

    Parameters
    ----------
    array : array_like
        Shape (m, n, n), each matrix symmetric, or (m, n) for a vector block.
    """

    kind = "dense"

    def __init__(self, array: ArrayLike) -> None:
        data = _float_array(array, "rows")
        if data.ndim not in (2, 3) or (data.ndim == 3 and data.shape[1] != data.shape[2]):
            raise ProblemError(
                f"dense rows must have shape (m, n, n) or, for a vector block, (m, n); got {data.shape}"
            )
        _require_finite(data, "dense rows")
        self.matrix = data.ndim == 3
        self.m, self.n = data.shape[0], data.shape[1]
        if self.matrix:
            skew = np.abs(data - np.swapaxes(data, 1, 2)).max(axis=(1, 2), initial=0.0)
            _require_symmetric(skew, np.abs(data).max(axis=(1, 2), initial=0.0))
            data = symmetrize(data)
        self._array = _frozen(data)
        self._flat = self._array.reshape(self.m, -1)

    @property
    def array(self) -> FloatArray:
        """The rows, read-only."""
        return self._array

    def apply(self, x: FloatArray) -> FloatArray:
        """Inner products with every row."""
        return self._flat @ x.reshape(-1)

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Weighted sum of the rows."""
        total = (y @ self._flat).reshape(self.shape)
        # BLAS may sum mirror entries in different orders.
        return symmetrize(total) if self.matrix else total

    def norms(self) -> FloatArray:
        """Frobenius norm of every row."""
        return np.asarray(np.linalg.norm(self._flat, axis=1), dtype=np.float64)

    def select(self, index: np.ndarray) -> Rows:
        """Return the rows with the given indices."""
        return Dense(self._array[index])

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by factors."""
        return Dense(self._array * factors.reshape((-1,) + (1,) * (self._array.ndim - 1)))

    def gram(self) -> FloatArray:
        """Matrix of inner products between rows."""
        return self._flat @ self._flat.T

    def exact_row(self, i: int) -> np.ndarray:
        """Row ``i`` in rational arithmetic."""
        return _fractions(self._array[i])

    def state(self) -> State:
        """Return the array."""
        return {}, {"array": self._array}, []

    def _magnitude_apply(self, x: FloatArray) -> FloatArray:
        flat = x.reshape(-1)
        # Row by row: a copy of all magnitudes at once would double the memory of the problem.
        return np.array([np.abs(row) @ flat for row in self._flat])

    def _magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        out = np.zeros(self._flat.shape[1])
        for weight, row in zip(w, self._flat, strict=True):
            if weight:
                out += weight * np.abs(row)
        return out.reshape(self.shape)

    @property
    def _depths(self) -> tuple[int, int]:
        return self._flat.shape[1] + 2, self.m + 3


class Sparse(Rows):
    """Rows stored as one sparse matrix.

    Parameters
    ----------
    array : sparse array
        Shape (m, n²), row ``i`` being the full symmetric matrix ``A_i`` flattened, or (m, n) for a
        vector block.
    n : int
        Side of the matrix or length of the vector.
    matrix : bool
        Whether the block is a matrix.
    """

    kind = "sparse"

    def __init__(self, array: Any, n: int, matrix: bool = True) -> None:
        csr = sp.csr_array(array, dtype=np.float64, copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        csr.sort_indices()
        width = n * n if matrix else n
        if csr.shape[1] != width:
            raise ProblemError(
                f"sparse rows for a block of size n = {n} must have {'n²' if matrix else 'n'} = {width} "
                f"columns; got shape {csr.shape}"
            )
        finite = np.isfinite(csr.data)
        if not finite.all():
            row = int(np.searchsorted(csr.indptr, int(np.argmin(finite)), side="right")) - 1
            raise ProblemError(f"row {row}: sparse rows hold NaN or infinity")
        self.m, self.n, self.matrix = csr.shape[0], int(n), matrix
        if matrix:
            csr = self._symmetric(csr)
        # One index width whatever the source, so that equal rows hash equally.
        csr.indices = csr.indices.astype(np.int64)
        csr.indptr = csr.indptr.astype(np.int64)
        for part in (csr.data, csr.indices, csr.indptr):
            part.setflags(write=False)
        self._csr = csr

    def _symmetric(self, csr: Any) -> Any:
        coo = csr.tocoo()
        i, j = np.divmod(coo.col, self.n)
        mirror = sp.csr_array((coo.data, (coo.row, j * self.n + i)), shape=csr.shape)
        skew = abs(csr - mirror).max(axis=1).toarray().ravel() if csr.nnz else np.zeros(self.m)
        if not np.any(skew):
            return csr
        _require_symmetric(skew, abs(csr).max(axis=1).toarray().ravel())
        mean = sp.csr_array(0.5 * csr + 0.5 * mirror)
        mean.sort_indices()
        return mean

    @property
    def array(self) -> Any:
        """The rows as a CSR array; do not change it."""
        return self._csr

    @cached_property
    def _transposed(self) -> Any:
        return self._csr.T.tocsr()

    def apply(self, x: FloatArray) -> FloatArray:
        """Inner products with every row."""
        return np.asarray(self._csr @ x.reshape(-1))

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Weighted sum of the rows."""
        return np.asarray(self._transposed @ y).reshape(self.shape)

    def norms(self) -> FloatArray:
        """Frobenius norm of every row."""
        return np.sqrt(np.asarray(self._csr.multiply(self._csr).sum(axis=1)).ravel())

    def select(self, index: np.ndarray) -> Rows:
        """Return the rows with the given indices."""
        return Sparse(self._csr[np.asarray(index)], self.n, self.matrix)

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by factors."""
        return Sparse(sp.diags_array(factors) @ self._csr, self.n, self.matrix)

    def sparse_gram(self) -> Any:
        """Matrix of inner products between rows, as a sparse array."""
        return sp.csr_array(self._csr @ self._csr.T)

    def gram(self) -> FloatArray:
        """Matrix of inner products between rows."""
        return np.asarray(self.sparse_gram().toarray())

    def exact_row(self, i: int) -> np.ndarray:
        """Row ``i`` in rational arithmetic."""
        out = np.full(self._csr.shape[1], Fraction(0), dtype=object)
        start, stop = self._csr.indptr[i], self._csr.indptr[i + 1]
        for k in range(start, stop):
            out[self._csr.indices[k]] = Fraction(float(self._csr.data[k]))
        return out.reshape(self.shape)

    def state(self) -> State:
        """Return the three arrays of the CSR format."""
        arrays = {"data": self._csr.data, "indices": self._csr.indices, "indptr": self._csr.indptr}
        return {"m": self.m, "n": self.n, "matrix": self.matrix}, arrays, []

    def _magnitude_apply(self, x: FloatArray) -> FloatArray:
        return np.asarray(abs(self._csr) @ x.reshape(-1))

    def _magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        return np.asarray(abs(self._transposed) @ w).reshape(self.shape)

    @property
    def _depths(self) -> tuple[int, int]:
        widest = int(np.max(np.diff(self._csr.indptr), initial=0))
        tallest = int(np.max(np.diff(self._transposed.indptr), initial=0))
        return widest + 2, tallest + 2


class LowRank(Rows):
    """Rows that are sums of a few signed rank-one matrices, ``A_i = sum_k s_ik f_ik f_ik'``.

    Parameters
    ----------
    factors : sequence of array_like
        One entry a row: an array of shape (n,) or (k, n) whose k vectors are the factors of that row.
        An array of shape (m, n) therefore stands for m rank-one rows.
    signs : sequence of array_like, optional
        One entry a row: the k coefficients, usually ±1 (any real number will do). Default: all ones.
    """

    kind = "low-rank"

    def __init__(self, factors: Sequence[ArrayLike] | np.ndarray, signs: Any = None) -> None:
        blocks = [np.atleast_2d(_float_array(f, f"row {i}: factors")) for i, f in enumerate(factors)]
        if not blocks:
            raise ProblemError("low-rank rows need at least one row; use None for a block no row touches")
        n = blocks[0].shape[-1]
        for i, block in enumerate(blocks):
            if block.ndim != 2 or block.shape[1] != n:
                raise ProblemError(
                    f"row {i}: factors must have shape (k, {n}) like those of row 0, got {block.shape}"
                )
            _require_finite(block, f"row {i}: factors")
        counts = np.array([block.shape[0] for block in blocks])
        if signs is None:
            flat = np.ones(int(counts.sum()))
        else:
            if len(signs) != len(blocks):
                raise ProblemError(f"signs has {len(signs)} entries for {len(blocks)} rows")
            parts = [np.atleast_1d(_float_array(s, f"row {i}: signs")) for i, s in enumerate(signs)]
            for i, (part, count) in enumerate(zip(parts, counts, strict=True)):
                if part.shape != (count,):
                    raise ProblemError(f"row {i}: {count} factors but signs of shape {part.shape}")
                _require_finite(part, f"row {i}: signs")
            flat = np.concatenate(parts)
        self._set(np.concatenate(blocks), flat, np.repeat(np.arange(len(blocks)), counts), len(blocks))

    def _set(self, factors: FloatArray, signs: FloatArray, owner: np.ndarray, m: int) -> None:
        self.m, self.n, self.matrix = m, factors.shape[1], True
        self._factors, self._signs = _frozen(factors), _frozen(signs)
        self._owner = np.ascontiguousarray(owner, dtype=np.int64)
        self._owner.setflags(write=False)

    @classmethod
    def _stacked(cls, factors: FloatArray, signs: FloatArray, owner: np.ndarray, m: int) -> LowRank:
        rows = cls.__new__(cls)
        rows._set(factors, signs, owner, m)
        return rows

    @property
    def factors(self) -> FloatArray:
        """All factors of all rows, one below the other, read-only."""
        return self._factors

    @property
    def signs(self) -> FloatArray:
        """The coefficient of every factor, read-only."""
        return self._signs

    @property
    def owner(self) -> np.ndarray:
        """Index of the row each factor belongs to, ascending, read-only."""
        return self._owner

    def magnitude_norms(self) -> FloatArray:
        """Sum of the norms of the rank-one parts of every row."""
        return self._sum_by_row(np.abs(self._signs) * np.einsum("kn,kn->k", self._factors, self._factors))

    def _sum_by_row(self, values: FloatArray) -> FloatArray:
        return np.bincount(self._owner, weights=values, minlength=self.m).astype(np.float64)

    def apply(self, x: FloatArray) -> FloatArray:
        """Inner products with every row."""
        quadratic = np.einsum("kn,kn->k", self._factors @ x, self._factors)
        return self._sum_by_row(self._signs * quadratic)

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Weighted sum of the rows."""
        weights = self._signs * y[self._owner]
        return symmetrize((self._factors.T * weights) @ self._factors)

    def norms(self) -> FloatArray:
        """Frobenius norm of every row."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(self._owner, minlength=self.m))])
        out = np.zeros(self.m)
        for i in range(self.m):
            part = slice(starts[i], starts[i + 1])
            f, s = self._factors[part], self._signs[part]
            out[i] = np.sqrt(max(float(s @ ((f @ f.T) ** 2) @ s), 0.0))
        return out

    def select(self, index: np.ndarray) -> Rows:
        """Return the rows with the given indices."""
        picks = [np.flatnonzero(self._owner == i) for i in np.asarray(index)]
        owner = np.repeat(np.arange(len(picks)), [p.size for p in picks])
        flat = np.concatenate(picks) if picks else np.zeros(0, dtype=np.int64)
        return self._stacked(self._factors[flat], self._signs[flat], owner, len(picks))

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by factors."""
        return self._stacked(self._factors, self._signs * factors[self._owner], self._owner, self.m)

    def gram(self) -> FloatArray:
        """Matrix of inner products between rows."""
        squared = (self._factors @ self._factors.T) ** 2
        pick = sp.csr_array(
            (self._signs, (self._owner, np.arange(self._owner.size))), (self.m, self._owner.size)
        )
        return np.asarray(pick @ (pick @ squared).T)

    def exact_row(self, i: int) -> np.ndarray:
        """Row ``i`` in rational arithmetic."""
        out = np.full(self.shape, Fraction(0), dtype=object)
        for k in np.flatnonzero(self._owner == i):
            f = _fractions(self._factors[k])
            out = out + Fraction(float(self._signs[k])) * np.outer(f, f)
        return out

    def state(self) -> State:
        """Return the stacked factors, their coefficients and owners."""
        arrays = {"factors": self._factors, "signs": self._signs, "owner": self._owner}
        return {"m": self.m}, arrays, []

    def _magnitude_apply(self, x: FloatArray) -> FloatArray:
        size = np.abs(self._factors)
        return self._sum_by_row(np.abs(self._signs) * np.einsum("kn,kn->k", size @ x, size))

    def _magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        size = np.abs(self._factors)
        return (size.T * (np.abs(self._signs) * w[self._owner])) @ size

    @property
    def _depths(self) -> tuple[int, int]:
        most = int(np.max(np.bincount(self._owner, minlength=self.m), initial=0))
        return 2 * self.n + most + 4, self._owner.size + 5


class PairwiseDifference(Rows):
    """Rows ``(m_i - m_j)(m_i - m_j)'`` for all pairs i < j of the given means, in lexicographic order.

    Applied to Z they are the squared distances of the projected means; the adjoint is ``M' L M`` with L the
    graph Laplacian of the weights. Neither needs the rows themselves.

    Parameters
    ----------
    means : array_like
        Shape (c, n), one mean a row; c >= 2.
    """

    kind = "pairwise-difference"

    def __init__(self, means: ArrayLike) -> None:
        data = _float_array(means, "means")
        if data.ndim != 2 or data.shape[0] < 2 or data.shape[1] < 1:
            raise ProblemError(f"means must have shape (c, n) with c >= 2, got {data.shape}")
        _require_finite(data, "means")
        self._means = _frozen(data)
        self.c, self.n, self.matrix = data.shape[0], data.shape[1], True
        self.m = self.c * (self.c - 1) // 2

    @property
    def means(self) -> FloatArray:
        """The means, read-only."""
        return self._means

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices i and j of every row."""
        i, j = np.triu_indices(self.c, 1)
        return i, j

    @cached_property
    def _centred(self) -> FloatArray:
        # Differences do not see a common shift, rounding does.
        return self._means - self._means.mean(axis=0)

    def differences(self) -> FloatArray:
        """``m_i - m_j`` for every row, shape (m, n)."""
        i, j = self.pairs
        return self._means[i] - self._means[j]

    def apply(self, x: FloatArray) -> FloatArray:
        """Squared distances of the means in the metric ``x``."""
        gram = self._centred @ x @ self._centred.T
        diagonal = np.diagonal(gram)
        i, j = self.pairs
        return diagonal[i] + diagonal[j] - gram[i, j] - gram[j, i]

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Means in the Laplacian of the weights."""
        i, j = self.pairs
        laplacian = np.zeros((self.c, self.c))
        laplacian[i, j] = laplacian[j, i] = -y
        laplacian[np.diag_indices(self.c)] = -laplacian.sum(axis=1)
        return symmetrize(self._centred.T @ laplacian @ self._centred)

    def _stable_apply(self, x: FloatArray) -> FloatArray:
        d = self.differences()
        return np.einsum("kn,kn->k", d @ x, d)

    def _stable_adjoint(self, y: FloatArray) -> FloatArray:
        d = self.differences()
        return symmetrize((d.T * y) @ d)

    def norms(self) -> FloatArray:
        """Frobenius norm of every row: the squared distance of the two means."""
        return np.asarray(pdist(self._means, "sqeuclidean"), dtype=np.float64)

    def select(self, index: np.ndarray) -> Rows:
        """Return the rows with the given indices, as a selection of these."""
        return _selection(self, index)

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by factors, as a combination of these."""
        return Combined(sp.diags_array(factors), self)

    def gram(self) -> FloatArray:
        """Matrix of inner products between rows."""
        d = self.differences()
        return (d @ d.T) ** 2

    def exact_row(self, i: int) -> np.ndarray:
        """Row ``i`` in rational arithmetic."""
        a, b = self.pairs
        d = _fractions(self._means[a[i]]) - _fractions(self._means[b[i]])
        return np.outer(d, d)

    def state(self) -> State:
        """Return the means."""
        return {}, {"means": self._means}, []

    def _magnitude_apply(self, x: FloatArray) -> FloatArray:
        size = np.abs(self.differences())
        return np.einsum("kn,kn->k", size @ x, size)

    def _magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        size = np.abs(self.differences())
        return (size.T * w) @ size

    @property
    def _depths(self) -> tuple[int, int]:
        # Two roundings more than LowRank: each factor is itself a rounded difference.
        return 2 * self.n + 6, self.m + 7


class Stacked(Rows):
    """The rows of several kinds, one after the other.

    Parameters
    ----------
    parts : sequence of Rows
        At least one; all for the same block.
    """

    kind = "stacked"

    def __init__(self, parts: Sequence[Rows]) -> None:
        self.parts = tuple(parts)
        if not self.parts:
            raise ProblemError("stacked rows need at least one part")
        for k, part in enumerate(self.parts):
            if not isinstance(part, Rows):
                raise ProblemError(f"part {k} of stacked rows is {type(part).__name__}, not Rows")
            if (part.n, part.matrix) != (self.parts[0].n, self.parts[0].matrix):
                raise ProblemError(
                    f"part {k} of stacked rows is for a block of shape {part.shape}, "
                    f"part 0 for one of shape {self.parts[0].shape}"
                )
        self.n, self.matrix = self.parts[0].n, self.parts[0].matrix
        self.m = sum(part.m for part in self.parts)
        self._splits = np.cumsum([part.m for part in self.parts])[:-1]

    def apply(self, x: FloatArray) -> FloatArray:
        """Inner products with every row."""
        return np.concatenate([part.apply(x) for part in self.parts])

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Weighted sum of the rows."""
        out = np.zeros(self.shape)
        for part, weights in zip(self.parts, np.split(y, self._splits), strict=True):
            out += part.adjoint(weights)
        return out

    def norms(self) -> FloatArray:
        """Frobenius norm of every row."""
        return np.concatenate([part.norms() for part in self.parts])

    def magnitude_norms(self) -> FloatArray:
        """Magnitude norms of the parts."""
        return np.concatenate([part.magnitude_norms() for part in self.parts])

    def select(self, index: np.ndarray) -> Rows:
        """Return the rows with the given indices."""
        index = np.asarray(index)
        if index.size and np.all(np.diff(index) > 0):
            edges = [0, *self._splits, self.m]
            picks = [
                (part, index[(index >= a) & (index < b)] - a)
                for part, a, b in zip(self.parts, edges[:-1], edges[1:], strict=True)
            ]
            chosen = [part.select(pick) for part, pick in picks if pick.size]
            return chosen[0] if len(chosen) == 1 else Stacked(chosen)
        return _selection(self, index)

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by factors."""
        weights = np.split(factors, self._splits)
        return Stacked([part.scaled(w) for part, w in zip(self.parts, weights, strict=True)])

    def exact_row(self, i: int) -> np.ndarray:
        """Row ``i`` in rational arithmetic."""
        for part in self.parts:
            if i < part.m:
                return part.exact_row(i)
            i -= part.m
        raise IndexError(i)

    def state(self) -> State:
        """Return the parts."""
        return {}, {}, list(self.parts)

    def enclose_apply(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``apply`` with a proven radius for every row."""
        both = [part.enclose_apply(x) for part in self.parts]
        return np.concatenate([v for v, _ in both]), np.concatenate([r for _, r in both])

    def enclose_adjoint(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``adjoint`` with a proven radius for every entry."""
        total, radius, size = np.zeros(self.shape), np.zeros(self.shape), np.zeros(self.shape)
        for part, weights in zip(self.parts, np.split(y, self._splits), strict=True):
            value, error = part.enclose_adjoint(weights)
            total += value
            size += np.abs(value)
            radius += error
        k = len(self.parts) + 2
        return total, inflate(radius + gamma(k) * size, k)

    def _magnitude_apply(self, x: FloatArray) -> FloatArray:
        return np.concatenate([part._magnitude_apply(x) for part in self.parts])

    def _magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        out = np.zeros(self.shape)
        for part, weights in zip(self.parts, np.split(w, self._splits), strict=True):
            out += part._magnitude_adjoint(weights)
        return out

    @property
    def _depths(self) -> tuple[int, int]:
        apply, adjoint = zip(*(part._depths for part in self.parts), strict=True)
        return max(apply), max(adjoint) + len(self.parts)


class Combined(Rows):
    """Sparse linear combinations of other rows: row ``i`` is ``sum_k C_ik B_k``.

    Many rows made of few (all differences ``S_ij - delta S_k``, scaled rows, a selection) cost only the few.

    Parameters
    ----------
    coefficients : sparse array
        The matrix C, shape (m, base.m).
    base : Rows
        The rows B that are combined.
    """

    kind = "combined"

    def __init__(self, coefficients: Any, base: Rows) -> None:
        csr = sp.csr_array(coefficients, dtype=np.float64, copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        csr.sort_indices()
        if not isinstance(base, Rows):
            raise ProblemError(f"base of combined rows is {type(base).__name__}, not Rows")
        if csr.shape[1] != base.m:
            raise ProblemError(
                f"coefficients of combined rows have shape {csr.shape}, but the base has {base.m} rows"
            )
        _require_finite(csr.data, "coefficients of combined rows")
        csr.indices = csr.indices.astype(np.int64)
        csr.indptr = csr.indptr.astype(np.int64)
        for part in (csr.data, csr.indices, csr.indptr):
            part.setflags(write=False)
        self._csr, self.base = csr, base
        self.m, self.n, self.matrix = csr.shape[0], base.n, base.matrix

    @property
    def coefficients(self) -> Any:
        """The matrix C as a CSR array; do not change it."""
        return self._csr

    def apply(self, x: FloatArray) -> FloatArray:
        """Inner products with every row."""
        return np.asarray(self._csr @ self.base.apply(x))

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Weighted sum of the rows."""
        return self.base.adjoint(np.asarray(self._csr.T @ y))

    def norms(self) -> FloatArray:
        """Frobenius norm of every row."""
        sizes = np.diff(self._csr.indptr)
        if np.all(sizes <= 1):
            out = np.zeros(self.m)
            filled = sizes == 1
            out[filled] = np.abs(self._csr.data) * self.base.norms()[self._csr.indices]
            return out
        product = sp.csr_array(self._csr @ self.base.gram())
        squared = np.asarray(self._csr.multiply(product).sum(axis=1)).ravel()
        return np.sqrt(np.maximum(squared, 0.0))

    def magnitude_norms(self) -> FloatArray:
        """Magnitude norms of the base, combined without signs."""
        return np.asarray(abs(self._csr) @ self.base.magnitude_norms())

    def select(self, index: np.ndarray) -> Rows:
        """Return the rows with the given indices."""
        return Combined(self._csr[np.asarray(index)], self.base)

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by factors."""
        return Combined(sp.diags_array(factors) @ self._csr, self.base)

    def gram(self) -> FloatArray:
        """Matrix of inner products between rows."""
        return np.asarray(self._csr @ (self._csr @ self.base.gram()).T)

    def exact_row(self, i: int) -> np.ndarray:
        """Row ``i`` in rational arithmetic."""
        out = np.full(self.shape, Fraction(0), dtype=object)
        for k in range(self._csr.indptr[i], self._csr.indptr[i + 1]):
            row = self.base.exact_row(int(self._csr.indices[k]))
            out = out + Fraction(float(self._csr.data[k])) * row
        return out

    def state(self) -> State:
        """Return the coefficients and the base."""
        arrays = {"data": self._csr.data, "indices": self._csr.indices, "indptr": self._csr.indptr}
        return {"m": self.m}, arrays, [self.base]

    def enclose_apply(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``apply`` with a proven radius for every row."""
        value, radius = self.base.enclose_apply(x)
        k = int(np.max(np.diff(self._csr.indptr), initial=0)) + 2
        size = abs(self._csr)
        return np.asarray(self._csr @ value), inflate(
            np.asarray(size @ radius) + gamma(k) * np.asarray(size @ np.abs(value)), k
        )

    def enclose_adjoint(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``adjoint`` with a proven radius for every entry."""
        transposed = self._csr.T.tocsr()
        k = int(np.max(np.diff(transposed.indptr), initial=0)) + 2
        slip = inflate(gamma(k) * np.asarray(abs(transposed) @ np.abs(y)), k)
        value, radius = self.base.enclose_adjoint(np.asarray(transposed @ y))
        depth = self.base._depths[1]
        return value, inflate(radius + inflate(self.base._magnitude_adjoint(slip), depth), 4)

    def _magnitude_apply(self, x: FloatArray) -> FloatArray:
        return np.asarray(abs(self._csr) @ self.base._magnitude_apply(x))

    def _magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        return self.base._magnitude_adjoint(np.asarray(abs(self._csr.T) @ w))

    @property
    def _depths(self) -> tuple[int, int]:
        apply, adjoint = self.base._depths
        widest = int(np.max(np.diff(self._csr.indptr), initial=0))
        tallest = int(np.max(np.bincount(self._csr.indices, minlength=1), initial=0))
        return apply + widest + 2, adjoint + tallest + 2


def _selection(base: Rows, index: np.ndarray) -> Combined:
    index = np.asarray(index)
    ones = np.ones(index.size)
    return Combined(sp.csr_array((ones, (np.arange(index.size), index)), (index.size, base.m)), base)


def as_rows(entry: Any, block: BlockSet) -> Rows | None:
    """Turn what a user gives for one block into ``Rows``; ``None`` stays ``None``.

    Parameters
    ----------
    entry : None, array_like, sparse array or Rows
        See :class:`FeasibilityProblem`.
    block : BlockSet
        The set of the block the rows act on.
    """
    if entry is None:
        return None
    if isinstance(entry, Rows):
        rows = entry
    elif sp.issparse(entry):
        rows = Sparse(entry, block.n, block.matrix)
    else:
        rows = Dense(entry)
    if rows.shape != block.shape:
        raise ProblemError(
            f"rows are for a block of shape {rows.shape}, but the set {block.kind}({block.n}) "
            f"has members of shape {block.shape}"
        )
    return rows


def rows_from_state(
    kind: str, numbers: dict[str, Any], arrays: dict[str, np.ndarray], children: list[Rows]
) -> Rows:
    """Build rows from what :meth:`Rows.state` returned."""
    if kind == Dense.kind:
        return Dense(arrays["array"])
    if kind == Sparse.kind:
        n, matrix = int(numbers["n"]), bool(numbers["matrix"])
        return Sparse(_csr(arrays, int(numbers["m"]), n * n if matrix else n), n, matrix)
    if kind == LowRank.kind:
        owner = arrays["owner"]
        order = np.split(np.arange(owner.size), np.searchsorted(owner, np.arange(1, int(numbers["m"]))))
        return LowRank([arrays["factors"][o] for o in order], [arrays["signs"][o] for o in order])
    if kind == PairwiseDifference.kind:
        return PairwiseDifference(arrays["means"])
    if kind == Stacked.kind:
        return Stacked(children)
    if kind == Combined.kind:
        return Combined(_csr(arrays, int(numbers["m"]), children[0].m), children[0])
    raise ProblemError(f"unknown kind of rows {kind!r}")


def _csr(arrays: dict[str, np.ndarray], m: int, width: int) -> Any:
    try:
        csr = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(m, width))
        csr.check_format(full_check=True)
    except ValueError as error:
        raise ProblemError(f"sparse rows are malformed: {error}") from None
    return csr


def _float_array(values: Any, what: str) -> FloatArray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"dtype {array.dtype}")
        return np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{what} must be a real array: {error}") from None


def _value_range(array: FloatArray) -> tuple[float, float]:
    size = np.abs(array)
    return float(np.min(size, initial=np.inf, where=size > 0.0)), float(np.max(size, initial=0.0))


def _frozen(array: FloatArray) -> FloatArray:
    # Adding zero turns -0.0 into 0.0, so that equal data hash equally.
    out = np.ascontiguousarray(array + 0.0)
    out.setflags(write=False)
    return out


def _require_finite(array: FloatArray, what: str) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        place = tuple(int(k) for k in np.argwhere(bad)[0])
        raise ProblemError(f"{what} hold NaN or infinity at index {place}")


def _require_symmetric(skew: FloatArray, size: FloatArray) -> None:
    bad = skew > SYMMETRY_TOLERANCE * size
    if bad.any():
        i = int(np.argmax(bad))
        raise ProblemError(
            f"row {i}: the matrix is not symmetric, entries differ by {skew[i]:.3g} "
            f"(largest entry {size[i]:.3g}); pass (A + A') / 2 if that is what you mean"
        )


def _fractions(array: FloatArray) -> np.ndarray:
    return np.vectorize(lambda v: Fraction(float(v)), otypes=[object])(array)
