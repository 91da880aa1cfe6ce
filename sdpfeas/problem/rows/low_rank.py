"""Rows that are sums of a few signed rank-one matrices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.limits import WRITE_FLOPS
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import inflate, norms_upper, product_up
from sdpfeas.problem.rows.base import (
    EMPTY,
    Read,
    Rows,
    State,
    fractions,
    frozen,
    is_frozen,
    outer_squares,
    sealed,
)
from sdpfeas.problem.validation import float_array, listed, require_finite, row_index

__all__ = ["LowRank"]

#: Numbers in one strip of factors (16 MB): products of all factors would double the memory.
STRIP_NUMBERS = 2_000_000

#: Rows of a triangle that are mirrored at a time.
MIRRORED_ROWS = 1024


class FactorRows(Rows):
    """Rows that are sums of rank-one matrices, ``A_i = sum_k s_ik f_ik f_ik'``, used in strips."""

    @property
    @abstractmethod
    def factor_count(self) -> int:
        """Number of factors of all rows."""

    @abstractmethod
    def _factors_at(self, place: slice | np.ndarray) -> FloatArray:
        """Return some of the factors, one per row."""

    @abstractmethod
    def _weights(self, y: FloatArray, magnitude: bool = False) -> FloatArray:
        """Return ``s_ik y_i`` for every factor; with ``magnitude``, ``|s_ik| y_i``."""

    @abstractmethod
    def _sum_by_row(self, values: FloatArray, magnitude: bool = False) -> FloatArray:
        """Return ``sum_k s_ik v_ik`` for every row; with ``magnitude``, ``sum_k |s_ik| v_ik``."""

    def _strips(self, index: np.ndarray | None = None) -> Iterator[tuple[Any, FloatArray]]:
        """Iterate over strips of all factors or of those in ``index``, with their positions."""
        size = max(1, STRIP_NUMBERS // self.n)
        for start in range(0, self.factor_count if index is None else index.size, size):
            place = slice(start, start + size) if index is None else index[start : start + size]
            yield place, self._factors_at(place)

    def _forms(self, x: FloatArray, magnitude: bool = False) -> FloatArray:
        """Return ``f' x f`` for every factor, from one triangle of x at half the cost."""
        half = np.array(x)
        half.flat[:: x.shape[0] + 1] *= 0.5
        out = np.empty(self.factor_count)
        for place, given in self._strips():
            part = np.abs(given) if magnitude else given
            product = scipy.linalg.blas.dtrmm(2.0, half.T, part.T, lower=0)
            out[place] = np.einsum("nk,kn->k", product, part)
        return out

    def _squares(self, weights: FloatArray, magnitude: bool = False) -> FloatArray:
        """Return ``sum_k w_k f_k f_k'`` for non-negative weights, exactly symmetric."""
        # Often only few of very many rows have a weight.
        used, n, out = np.flatnonzero(weights), self.n, None
        for place, given in self._strips(None if used.size == weights.size else used):
            root = np.sqrt(weights[place])[:, None] * given
            root = np.abs(root) if magnitude else root
            if root.shape[0] == used.size:
                return np.asarray(root.T @ root)
            out = np.zeros((n, n), order="F") if out is None else out
            out = scipy.linalg.blas.dsyrk(1.0, root.T, beta=1.0, c=out, lower=1, overwrite_c=1)
        if out is None:
            return np.zeros((n, n))
        for start in range(0, n, MIRRORED_ROWS):
            stop = min(start + MIRRORED_ROWS, n)
            block = np.tril(out[start:stop, start:stop])
            out[start:stop, start:stop] = block + np.tril(block, -1).T
            out[start:stop, stop:] = out[stop:, start:stop].T
        return np.asarray(out.T)

    @property
    def entries(self) -> float:
        """Number of entries of all matrices ``A_i``."""
        return float(self.m) * self.n**2

    @property
    def gram_flops(self) -> float:
        """Cost estimate of the products of all pairs of factors."""
        return float(self.factor_count) ** 2 * (0.6 * self.n + 12.0 * WRITE_FLOPS)

    def apply(self, x: FloatArray) -> FloatArray:
        """Return the inner products with all rows."""
        return self.stable_apply(x)

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Return the weighted sum of the rows."""
        return self.stable_adjoint(y)

    def stable_apply(self, x: FloatArray) -> FloatArray:
        """Add every term ``s_ik f_ik' x f_ik`` once."""
        return self._sum_by_row(self._forms(x))

    def stable_adjoint(self, y: FloatArray) -> FloatArray:
        """Add every rank-one term once."""
        weights = self._weights(y)
        # BLAS computes a product with the own transpose at half the cost, exactly symmetric.
        if not np.any(weights < 0.0):
            return self._squares(weights)
        out = self._squares(np.maximum(-weights, 0.0))
        if not np.any(weights > 0.0):
            return np.negative(out, out=out)
        return self._squares(np.maximum(weights, 0.0)) - out

    def magnitude_apply(self, x: FloatArray) -> FloatArray:
        """Return an upper bound of ``<|A_i|, x>`` for ``x >= 0``, up to rounding."""
        return self._sum_by_row(self._forms(x, magnitude=True), magnitude=True)

    def magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        """Return an entrywise upper bound of ``sum_i w_i |A_i|`` for ``w >= 0``, up to rounding."""
        return self._squares(self._weights(w, magnitude=True), magnitude=True)

    def _norms_upper(self) -> FloatArray:
        """Bound by the sum of the norms of the rank-one terms of every row."""
        lengths = np.empty(self.factor_count)
        for place, factors in self._strips():
            lengths[place] = inflate(norms_upper(factors), 2)  # factors may be rounded differences
        return inflate(self._sum_by_row(product_up(lengths, lengths), magnitude=True), self.depths[0])

    def is_nonpositive(self, signs: FloatArray) -> bool:
        """Whether no rank-one term has a positive weight."""
        return not np.any(self._weights(signs) > 0.0)


class LowRank(FactorRows):
    """Rows that are sums of a few signed rank-one matrices, ``A_i = sum_k s_ik f_ik f_ik'``.

    Parameters
    ----------
    factors : sequence of array_like
        One entry per row: an array of shape (n,) or (k, n) with the k vectors ``f_ik`` of that row.
        An array of shape (m, n) therefore stands for m rank-one rows.
    signs : sequence of array_like, optional
        One entry per row: the k coefficients ``s_ik``, usually ±1; any real numbers are allowed. Default:
        all ones.

    Examples
    --------
    The row ``A = e_1 e_1' - e_2 e_2'``:

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> rows = sf.LowRank([np.eye(2)], [[1.0, -1.0]])
    >>> print(rows.apply(np.diag([3.0, 1.0])))
    [2.]
    >>> print(rows.adjoint(np.array([2.0])))
    [[ 2.  0.]
     [ 0. -2.]]
    """

    kind = "low-rank"
    _factors_stored = 3

    def __init__(self, factors: Sequence[ArrayLike] | np.ndarray, signs: Any = None) -> None:
        entries = listed(factors, "factors must be a list with one entry per row")
        blocks = [np.atleast_2d(float_array(f, f"row {i}: factors")) for i, f in enumerate(entries)]
        if not blocks:
            raise ProblemError("low-rank rows need at least one row; use None for a block no row touches")
        n = blocks[0].shape[-1]
        for i, block in enumerate(blocks):
            if block.ndim != 2 or block.shape[1] != n:
                raise ProblemError(
                    f"row {i}: factors must have shape (k, {n}) like those of row 0, got {block.shape}"
                )
            require_finite(block, f"row {i}: factors")
        counts = np.array([block.shape[0] for block in blocks])
        if signs is None:
            flat = np.ones(int(counts.sum()))
        else:
            coefficients = listed(signs, "signs must be a list with one entry per row")
            if len(coefficients) != len(blocks):
                raise ProblemError(f"signs has {len(coefficients)} entries for {len(blocks)} rows")
            parts = [np.atleast_1d(float_array(s, f"row {i}: signs")) for i, s in enumerate(coefficients)]
            for i, (part, count) in enumerate(zip(parts, counts, strict=True)):
                if part.shape != (count,):
                    raise ProblemError(f"row {i}: {count} factors but signs of shape {part.shape}")
                require_finite(part, f"row {i}: signs")
            flat = np.concatenate(parts)
        self._set(np.concatenate(blocks), flat, np.repeat(np.arange(len(blocks)), counts), len(blocks))

    def _set(self, factors: FloatArray, signs: FloatArray, owner: np.ndarray, m: int) -> None:
        self.m, self.n, self.matrix = m, factors.shape[1], True
        self._factors, self._signs = frozen(factors), frozen(signs)
        self._owner = sealed(np.array(owner, dtype=np.int64))

    @classmethod
    def from_stacked(cls, factors: ArrayLike, signs: ArrayLike, owner: ArrayLike, m: int) -> LowRank:
        """Build rows from the factors of all rows, one below the other.

        Parameters
        ----------
        factors : array_like
            Shape (k, n).
        signs : array_like
            The coefficient of every factor, shape (k,).
        owner : array_like of int
            The row every factor belongs to, ascending, shape (k,).
        m : int
            Number of rows.
        """
        settled = isinstance(factors, np.ndarray) and is_frozen(factors)
        all_factors: FloatArray = factors if settled else float_array(factors, "factors")  # type: ignore[assignment]
        all_signs = float_array(signs, "signs")
        owners = row_index(owner, m)
        if all_factors.ndim != 2 or not all_signs.shape == owners.shape == all_factors.shape[:1]:
            raise ProblemError(
                f"factors of shape (k, n), k signs and k owners are needed, got shapes {all_factors.shape}, "
                f"{all_signs.shape} and {owners.shape}"
            )
        if np.any(np.diff(owners) < 0):
            raise ProblemError("owners must be ascending")
        require_finite(all_factors, "factors")
        require_finite(all_signs, "signs")
        rows = cls.__new__(cls)
        rows._set(all_factors, all_signs, owners, m)
        return rows

    def transformed(self, transform: FloatArray) -> LowRank:
        """Return the rows ``T A_i T'``, unchecked.

        Parameters
        ----------
        transform : ndarray
            The matrix T.
        """
        rows = type(self).__new__(type(self))
        rows.m, rows.n, rows.matrix = self.m, transform.shape[0], True
        rows._factors, rows._signs, rows._owner = self._factors @ transform.T, self._signs, self._owner
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

    @property
    def factor_count(self) -> int:
        """Number of factors of all rows."""
        return int(self._owner.size)

    def _factors_at(self, place: slice | np.ndarray) -> FloatArray:
        return np.asarray(self._factors[place])

    def _weights(self, y: FloatArray, magnitude: bool = False) -> FloatArray:
        return np.asarray((np.abs(self._signs) if magnitude else self._signs) * y[self._owner])

    def _sum_by_row(self, values: FloatArray, magnitude: bool = False) -> FloatArray:
        values = values * (np.abs(self._signs) if magnitude else self._signs)
        return np.bincount(self._owner, weights=values, minlength=self.m).astype(np.float64)

    def units(self) -> tuple[Rows, np.ndarray]:
        """Return rows with factors and coefficients of at most one."""
        length = np.frexp(np.max(np.abs(self._factors), axis=1, initial=0.0))[1]
        mantissa, power = np.frexp(self._signs)
        power = power.astype(np.int64) + 2 * length
        power[(self._signs == 0.0) | ~self._factors.any(axis=1)] = EMPTY
        largest = np.full(self.m, EMPTY, dtype=np.int64)
        np.maximum.at(largest, self._owner, power)
        factors = np.ldexp(self._factors, -length[:, None])
        signs = np.ldexp(mantissa, power - largest[self._owner])
        return self.from_stacked(factors, signs, self._owner, self.m), largest

    def to_csr(self, magnitude: bool = False) -> Any:
        """Return all rows as one CSR array."""
        signs, factors = self._signs, self._factors
        if magnitude:
            signs, factors = np.abs(signs), np.abs(factors)
        pick = sp.csr_array((signs, (self._owner, np.arange(signs.size))), shape=(self.m, signs.size))
        return sp.csr_array(pick @ sp.csr_array(outer_squares(factors)))

    def _plain_norms(self) -> FloatArray:
        if np.array_equal(self._owner, np.arange(self.m)):
            return np.asarray(np.abs(self._signs) * np.einsum("ij,ij->i", self._factors, self._factors))
        starts = np.searchsorted(self._owner, np.arange(self.m + 1))
        out = np.zeros(self.m)
        for i in range(self.m):
            part = slice(starts[i], starts[i + 1])
            f, s = self._factors[part], self._signs[part]
            out[i] = np.sqrt(max(float(s @ ((f @ f.T) ** 2) @ s), 0.0))
        return out

    def _select(self, index: np.ndarray) -> Rows:
        starts = np.searchsorted(self._owner, np.arange(self.m + 1))
        picks = [np.arange(starts[i], starts[i + 1]) for i in index]
        owner = np.repeat(np.arange(len(picks)), [p.size for p in picks])
        flat = np.concatenate(picks) if picks else np.zeros(0, dtype=np.int64)
        return self.from_stacked(self._factors[flat], self._signs[flat], owner, len(picks))

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by ``factors``."""
        return self.from_stacked(self._factors, self._signs * factors[self._owner], self._owner, self.m)

    def _gram(self) -> FloatArray:
        squared = (self._factors @ self._factors.T) ** 2
        pick = sp.csr_array(
            (self._signs, (self._owner, np.arange(self._owner.size))), (self.m, self._owner.size)
        )
        return np.asarray(pick @ (pick @ squared).T)

    def exact_row(self, i: int, read: Read = Fraction) -> np.ndarray:
        """Return row ``i`` in rational arithmetic."""
        out = np.full(self.shape, read(0.0), dtype=object)
        for k in np.flatnonzero(self._owner == i):
            f = fractions(self._factors[k], read)
            out = out + read(float(self._signs[k])) * np.outer(f, f)
        return out

    def state(self) -> State:
        """Return the stacked factors, their coefficients and owners."""
        arrays = {"factors": self._factors, "signs": self._signs, "owner": self._owner}
        return {"m": self.m}, arrays, []

    @classmethod
    def from_state(cls, numbers: dict[str, Any], arrays: dict[str, np.ndarray], children: list[Rows]) -> Rows:
        """Build rows from the output of :meth:`state`."""
        return cls.from_stacked(arrays["factors"], arrays["signs"], arrays["owner"], int(numbers["m"]))

    @property
    def depths(self) -> tuple[int, int]:
        """Number of chained roundings in one entry of the stable products, with roots of the weights."""
        most = int(np.max(np.bincount(self._owner, minlength=self.m), initial=0))
        return 2 * self.n + most + 4, self._owner.size + 10
