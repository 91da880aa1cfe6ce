"""Rows composed of other rows: stacked, or combined linearly."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.limits import WRITE_FLOPS
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import TINY, gamma, in_strips, inflate, product_up, sum_radius, sum_up
from sdpfeas.problem.rows.base import (
    EMPTY,
    Read,
    Rows,
    State,
    canonical_csr,
    csr_from_parts,
    csr_parts,
    dense_array,
    frozen_csr,
    largest_by_row,
    longest_row,
    stored_rows,
)
from sdpfeas.problem.rows.sparse import NoRows
from sdpfeas.problem.validation import listed

__all__ = ["Combined", "Stacked", "selection"]


class Stacked(Rows):
    """The rows of several kinds, one after the other.

    Parameters
    ----------
    parts : sequence of Rows
        At least one; all for the same block.

    Examples
    --------
    One row of rank two, followed by the row of one pair of means:

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> pair = sf.PairwiseDifference([[0.0, 1.0], [0.0, 3.0]])
    >>> rows = sf.Stacked([sf.LowRank([np.eye(2)]), pair])
    >>> print(rows.apply(np.diag([3.0, 1.0])))
    [4. 4.]
    """

    kind = "stacked"

    def __init__(self, parts: Sequence[Rows]) -> None:
        given = listed(parts, "stacked rows must be a list of Rows")
        self.parts: tuple[Rows, ...] = tuple(p.stored() if isinstance(p, NoRows) else p for p in given)
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

    @property
    def entries(self) -> float:
        """Number of entries of all parts."""
        return sum(part.entries for part in self.parts)

    @property
    def gram_flops(self) -> float:
        """Cost estimate of the Gram matrices of the parts, and of the products between each two parts."""
        between = (
            (max(first.entries, second.entries) + WRITE_FLOPS * math.prod(self.shape))
            * min(first.m, second.m)
            for first, second in combinations(self.parts, 2)
        )
        return sum(part.gram_flops for part in self.parts) + 4.0 * sum(between)

    def apply(self, x: FloatArray) -> FloatArray:
        """Return the inner products with all rows."""
        return np.concatenate([part.apply(x) for part in self.parts])

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Return the weighted sum of the rows."""
        return self._total(lambda part, weights: part.adjoint(weights), y)

    def to_csr(self, magnitude: bool = False) -> Any:
        """Return all rows as one CSR array."""
        return sp.csr_array(sp.vstack([part.to_csr(magnitude) for part in self.parts], format="csr"))

    def columns(self, magnitude: bool = False) -> Any:
        """Return all rows as one matrix; a NumPy array if a part is stored densely."""
        parts = [part.columns(magnitude) for part in self.parts]
        if all(sp.issparse(part) for part in parts):
            return sp.vstack(parts, format="csr")
        return np.vstack([dense_array(part) for part in parts])

    def _total(self, product: Callable[[Rows, FloatArray], FloatArray], y: FloatArray) -> FloatArray:
        """Return the sum of ``product(part, weights)`` over the parts."""
        out = np.zeros(self.shape)
        for part, weights in zip(self.parts, np.split(y, self._splits), strict=True):
            out += product(part, weights)
        return out

    def _plain_norms(self) -> FloatArray:
        return np.concatenate([part.norms() for part in self.parts])

    def _norms_upper(self) -> FloatArray:
        return np.concatenate([part.norms_upper for part in self.parts])

    def units(self) -> tuple[Rows, np.ndarray]:
        """Return the stacked units of the parts."""
        both = [part.units() for part in self.parts]
        return Stacked([rows for rows, _ in both]), np.concatenate([power for _, power in both])

    @property
    def gram_depth(self) -> int:
        """Largest number of chained roundings within the parts and between them."""
        within = max(part.gram_depth for part in self.parts)
        apply, adjoint = zip(*(part.depths for part in self.parts), strict=True)
        return max(within, max(apply) + max(adjoint) + 2)

    def _locate(self, i: int) -> tuple[Rows, int]:
        """Return the part that contains row ``i``, and its index in the part."""
        for part in self.parts:
            if i < part.m:
                return part, i
            i -= part.m
        raise IndexError(i)

    def _gram(self) -> FloatArray:
        out = np.empty((self.m, self.m))
        edges = [0, *(int(k) for k in self._splits), self.m]
        places = [slice(a, b) for a, b in pairwise(edges)]
        for (first, here), (second, there) in combinations_with_replacement(
            zip(self.parts, places, strict=True), 2
        ):
            block = first.gram() if here == there else _cross_gram(first, second)
            out[here, there] = block
            out[there, here] = block.T
        return out

    def _select(self, index: np.ndarray) -> Rows:
        if index.size and np.all(np.diff(index) > 0):
            edges = [0, *self._splits, self.m]
            picks = [
                (part, index[(index >= a) & (index < b)] - a)
                for part, a, b in zip(self.parts, edges[:-1], edges[1:], strict=True)
            ]
            chosen = [part._select(pick) for part, pick in picks if pick.size]
            return chosen[0] if len(chosen) == 1 else Stacked(chosen)
        return selection(self, index)

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by ``factors``."""
        weights = np.split(factors, self._splits)
        return Stacked([part.scaled(w) for part, w in zip(self.parts, weights, strict=True)])

    def is_nonpositive(self, signs: FloatArray) -> bool:
        """Whether every part gives a negative semidefinite sum."""
        parts = zip(self.parts, np.split(signs, self._splits), strict=True)
        return all(part.is_nonpositive(own) for part, own in parts)

    def exact_row(self, i: int, read: Read = Fraction) -> np.ndarray:
        """Return row ``i`` in rational arithmetic."""
        part, k = self._locate(i)
        return part.exact_row(k, read)

    def state(self) -> State:
        """Return the parts."""
        return {}, {}, list(self.parts)

    @classmethod
    def from_state(cls, numbers: dict[str, Any], arrays: dict[str, np.ndarray], children: list[Rows]) -> Rows:
        """Build rows from the output of :meth:`state`."""
        return cls(children)

    def stable_apply(self, x: FloatArray) -> FloatArray:
        """Concatenate the stable values of the parts."""
        return np.concatenate([part.stable_apply(x) for part in self.parts])

    def stable_adjoint(self, y: FloatArray) -> FloatArray:
        """Add the stable sums of the parts."""
        return self._total(lambda part, weights: part.stable_adjoint(weights), y)

    def enclose_apply(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``apply`` with a proven error bound for every row."""
        both = [part.enclose_apply(x) for part in self.parts]
        return np.concatenate([v for v, _ in both]), np.concatenate([r for _, r in both])

    def enclose_adjoint(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``adjoint`` with a proven error bound for every entry."""
        (first, some), *others = zip(self.parts, np.split(y, self._splits), strict=True)
        total, radius = first.enclose_adjoint(some)
        for part, weights in others:
            value, error = part.enclose_adjoint(weights)
            value += total
            total, radius = value, in_strips(sum_radius, radius, error, value)
        return total, radius

    def magnitude_adjoint_upper(self, w: FloatArray) -> FloatArray:
        """Return a proven entrywise bound of ``sum_i w_i |A_i|`` for ``w >= 0``."""
        pieces = zip(self.parts, np.split(w, self._splits), strict=True)
        return sum_up(np.zeros(self.shape), *(part.magnitude_adjoint_upper(v) for part, v in pieces))

    def magnitude_apply(self, x: FloatArray) -> FloatArray:
        """Return an upper bound of ``<|A_i|, x>`` for ``x >= 0``, up to rounding."""
        return np.concatenate([part.magnitude_apply(x) for part in self.parts])

    def magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        """Return an entrywise upper bound of ``sum_i w_i |A_i|`` for ``w >= 0``, up to rounding."""
        return self._total(lambda part, weights: part.magnitude_adjoint(weights), w)

    @property
    def _factors_stored(self) -> int:
        return max(part._factors_stored for part in self.parts)

    @property
    def depths(self) -> tuple[int, int]:
        """Number of chained roundings in one entry of ``stable_apply`` and of ``stable_adjoint``."""
        apply, adjoint = zip(*(part.depths for part in self.parts), strict=True)
        return max(apply), max(adjoint) + len(self.parts)


class Combined(Rows):
    """Sparse linear combinations of other rows: row ``i`` is ``sum_k C_ik B_k``.

    Storage and products cost about as much as for the rows B, even if many rows are combined from few (all
    differences ``S_ij - delta S_k``, scaled rows, a selection).

    Parameters
    ----------
    coefficients : sparse array
        The matrix C, shape (m, base.m).
    base : Rows
        The rows B that are combined.

    Examples
    --------
    The difference of two rank-one rows:

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> import sdpfeas as sf
    >>> rows = sf.Combined(sp.csr_array([[1.0, -1.0]]), sf.LowRank(np.eye(2)))
    >>> print(rows.apply(np.diag([3.0, 1.0])))
    [2.]
    """

    kind = "combined"

    def __init__(self, coefficients: Any, base: Rows) -> None:
        csr = canonical_csr(coefficients, "coefficients of combined rows")
        if not isinstance(base, Rows):
            raise ProblemError(f"base of combined rows is {type(base).__name__}, not Rows")
        if csr.shape[1] != base.m:
            raise ProblemError(
                f"coefficients of combined rows have shape {csr.shape}, but the base has {base.m} rows"
            )
        self._csr, self.base = frozen_csr(csr), base.stored() if isinstance(base, NoRows) else base
        self.m, self.n, self.matrix = csr.shape[0], base.n, base.matrix

    @property
    def coefficients(self) -> Any:
        """The matrix C as a CSR array with read-only parts."""
        return copy.copy(self._csr)

    @property
    def entries(self) -> float:
        """Estimate of the number of entries: those of the base, once per use."""
        return self.base.entries * self._csr.nnz / max(self.base.m, 1)

    @property
    def gram_flops(self) -> float:
        """Cost estimate of the Gram matrix G of the base and of ``C G C'``."""
        return self.base.gram_flops + 2.0 * WRITE_FLOPS * self._csr.nnz * (self.base.m + self.m)

    def apply(self, x: FloatArray) -> FloatArray:
        """Return the inner products with all rows."""
        return np.asarray(self._csr @ self.base.apply(x))

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Return the weighted sum of the rows."""
        return self.base.adjoint(np.asarray(self._csr.T @ y))

    def to_csr(self, magnitude: bool = False) -> Any:
        """Return all rows as one CSR array."""
        return sp.csr_array(self._weights(magnitude) @ self.base.to_csr(magnitude))

    def columns(self, magnitude: bool = False) -> Any:
        """Return all rows as one matrix; a NumPy array if the base is stored densely."""
        return self._weights(magnitude) @ self.base.columns(magnitude)

    def _weights(self, magnitude: bool) -> Any:
        return abs(self._csr) if magnitude else self._csr

    def _plain_norms(self) -> FloatArray:
        sizes = np.diff(self._csr.indptr)
        if np.all(sizes <= 1):
            out = np.zeros(self.m)
            filled = sizes == 1
            out[filled] = np.abs(self._csr.data) * self.base.norms()[self._csr.indices]
            return out
        product = sp.csr_array(self._csr @ self.base.gram())
        squared = np.asarray(self._csr.multiply(product).sum(axis=1)).ravel()
        return np.sqrt(np.maximum(squared, 0.0))

    def _norms_upper(self) -> FloatArray:
        """Bound by ``|C|`` times the norm bounds of the base."""
        return _sums_up(self._csr, self.base.norms_upper)

    def units(self) -> tuple[Rows, np.ndarray]:
        """Return combinations of the units of the base, with coefficients of at most one."""
        base, own = self.base.units()
        mantissa, power = np.frexp(self._csr.data)
        power = power.astype(np.int64) + own[self._csr.indices]
        largest = largest_by_row(self._csr, power)
        data = np.ldexp(mantissa, power - largest[stored_rows(self._csr)])
        parts = (data, self._csr.indices, self._csr.indptr)
        # Combinations of empty rows only are empty.
        largest = np.where(largest < EMPTY // 2, EMPTY, largest)
        return Combined(sp.csr_array(parts, self._csr.shape), base), largest

    @property
    def gram_depth(self) -> int:
        """Number of chained roundings in ``C G C'``."""
        return self.base.gram_depth + 2 * (longest_row(self._csr) + 2)

    def _select(self, index: np.ndarray) -> Rows:
        return Combined(self._csr[index], self.base)

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by ``factors``."""
        return Combined(sp.diags_array(factors) @ self._csr, self.base)

    def _gram(self) -> FloatArray:
        return np.asarray(self._csr @ (self._csr @ self.base.gram()).T)

    def is_nonpositive(self, signs: FloatArray) -> bool:
        """Whether the base gives a negative semidefinite sum, if the signs of ``C' y`` are determined."""
        terms = np.sign(self._csr.data) * np.repeat(signs, np.diff(self._csr.indptr))
        up, down = (np.isin(range(self.base.m), self._csr.indices[s * terms > 0.0]) for s in (1, -1))
        return not np.any(up & down) and self.base.is_nonpositive(up.astype(np.float64) - down)

    def exact_row(self, i: int, read: Read = Fraction) -> np.ndarray:
        """Return row ``i`` in rational arithmetic."""
        out = np.full(self.shape, read(0.0), dtype=object)
        for k in range(self._csr.indptr[i], self._csr.indptr[i + 1]):
            row = self.base.exact_row(int(self._csr.indices[k]), read)
            out = out + read(float(self._csr.data[k])) * row
        return out

    def state(self) -> State:
        """Return the coefficients and the base."""
        return {"m": self.m}, csr_parts(self._csr), [self.base]

    @classmethod
    def from_state(cls, numbers: dict[str, Any], arrays: dict[str, np.ndarray], children: list[Rows]) -> Rows:
        """Build rows from the output of :meth:`state`."""
        return cls(csr_from_parts(arrays, int(numbers["m"]), children[0].m), children[0])

    def stable_apply(self, x: FloatArray) -> FloatArray:
        """Combine the stable values of the base."""
        return np.asarray(self._csr @ self.base.stable_apply(x))

    def stable_adjoint(self, y: FloatArray) -> FloatArray:
        """Return the stable sum of the base with the weights ``C' y``."""
        return self.base.stable_adjoint(np.asarray(self._csr.T @ y))

    def enclose_apply(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``apply`` with a proven error bound for every row."""
        value, radius = self.base.enclose_apply(x)
        error = sum_up(_sums_up(self._csr, radius), _slip(self._csr, np.abs(value)))
        return np.asarray(self._csr @ value), error

    def enclose_adjoint(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``adjoint`` with a proven error bound for every entry."""
        transposed = self._csr.T.tocsr()
        slip = _slip(transposed, np.abs(y))
        value, radius = self.base.enclose_adjoint(np.asarray(transposed @ y))
        return value, sum_up(radius, self.base.magnitude_adjoint_upper(slip))

    def magnitude_adjoint_upper(self, w: FloatArray) -> FloatArray:
        """Return a proven entrywise bound of ``sum_i w_i |A_i|`` for ``w >= 0``."""
        return self.base.magnitude_adjoint_upper(_sums_up(self._csr.T.tocsr(), w))

    def magnitude_apply(self, x: FloatArray) -> FloatArray:
        """Return an upper bound of ``<|A_i|, x>`` for ``x >= 0``, up to rounding."""
        return np.asarray(abs(self._csr) @ self.base.magnitude_apply(x))

    def magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        """Return an entrywise upper bound of ``sum_i w_i |A_i|`` for ``w >= 0``, up to rounding."""
        return self.base.magnitude_adjoint(np.asarray(abs(self._csr.T) @ w))

    @property
    def _factors_stored(self) -> int:
        return self.base._factors_stored + 1

    @property
    def depths(self) -> tuple[int, int]:
        """Number of chained roundings in one entry of ``stable_apply`` and of ``stable_adjoint``."""
        apply, adjoint = self.base.depths
        widest = longest_row(self._csr)
        tallest = int(np.max(np.bincount(self._csr.indices, minlength=1), initial=0))
        return apply + widest + 2, adjoint + tallest + 2


def _lost(matrix: Any, values: FloatArray) -> FloatArray:
    """Bound the underflow errors of ``matrix @ values``; zero for sums without terms."""
    ones = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
    return TINY * np.asarray(ones @ (values != 0.0))


def _sums_up(matrix: Any, values: FloatArray) -> FloatArray:
    """Return upper bounds of ``|matrix| @ values`` for ``values >= 0``; zero only without terms."""
    return inflate(np.asarray(abs(matrix) @ values) + _lost(matrix, values), longest_row(matrix) + 2)


def _slip(matrix: Any, sizes: FloatArray) -> FloatArray:
    """Bound the errors of ``matrix @ values`` for values of the given sizes; zero without terms."""
    rounding = product_up(gamma(longest_row(matrix) + 2), _sums_up(matrix, sizes))
    return sum_up(rounding, _lost(matrix, sizes))


def selection(base: Rows, index: np.ndarray) -> Combined:
    """Return the rows of ``base`` with the given indices, as a combination."""
    index = np.asarray(index)
    ones = np.ones(index.size)
    return Combined(sp.csr_array((ones, (np.arange(index.size), index)), (index.size, base.m)), base)


def _cross_gram(first: Rows, second: Rows) -> FloatArray:
    """Return the inner products between the rows of two parts."""
    if first.m > second.m:
        return _cross_gram(second, first).T
    out = np.empty((first.m, second.m))
    for i in range(first.m):
        out[i] = second.stable_apply(first._row(i))
    return out
