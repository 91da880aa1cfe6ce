"""The interface of all storage kinds of rows, with read-only arrays and CSR helpers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.exact_arithmetic import add_up
from sdpfeas.numerics.limits import WRITE_FLOPS, check_deadline, guard
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import TINY, gamma, in_strips, inflate, product_up, sum_up
from sdpfeas.problem.validation import RowError, float_array, require_doubles, row_index

# --- read-only arrays and CSR arrays

#: Maps a float to the rational (``Fraction`` or ``fmpq``) it represents: exact or decimal data.
Read = Callable[[float], Any]


#: Entries scanned at a time: an array may fill most of the memory.
SCANNED_ENTRIES = 4_000_000


def value_range(array: FloatArray) -> tuple[float, float]:
    """Return the smallest non-zero and the largest magnitude of an array."""
    least, most, flat = np.inf, 0.0, array.reshape(-1)
    for start in range(0, flat.size, SCANNED_ENTRIES):
        size = np.abs(flat[start : start + SCANNED_ENTRIES])
        least = min(least, float(np.min(size, initial=np.inf, where=size > 0.0)))
        most = max(most, float(np.max(size)))
    return least, most


#: Exponent of zero and of rows without entries, below that of any product of doubles.
EMPTY = -100_000


def exponents(sizes: FloatArray) -> np.ndarray:
    """Return the exponents of the next larger powers of two of non-negative numbers; ``EMPTY`` for zero."""
    return np.where(sizes == 0.0, EMPTY, np.frexp(sizes)[1])


def largest_by_row(matrix: Any, values: np.ndarray) -> np.ndarray:
    """Return the row maxima of ``values``, one per stored entry of a CSR array; ``EMPTY`` for empty rows."""
    out = np.full(matrix.shape[0], EMPTY, dtype=np.int64)
    np.maximum.at(out, stored_rows(matrix), values)
    return out


def stored_rows(matrix: Any) -> np.ndarray:
    """Return the row index of every stored entry of a CSR array."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def longest_row(matrix: Any) -> int:
    """Return the largest number of stored entries in a row of a CSR array."""
    return int(np.max(np.diff(matrix.indptr), initial=0))


def dense_array(matrix: Any) -> FloatArray:
    """Return a sparse or dense matrix as a NumPy array; raises ``LimitError`` if a copy takes too much."""
    if not sp.issparse(matrix):
        return np.asarray(matrix)
    cells = float(math.prod(matrix.shape))
    guard("a dense copy of a sparse matrix", 10.0 * WRITE_FLOPS * cells, memory=8.0 * cells)
    return np.asarray(matrix.toarray())


def outer_squares(vectors: FloatArray) -> FloatArray:
    """Return ``v v'`` for every row ``v``, flattened."""
    return np.einsum("ki,kj->kij", vectors, vectors).reshape(vectors.shape[0], -1)


class _Owner:
    """Owner of the memory of a sealed array; it exposes the memory as read-only."""

    __slots__ = ("__array_interface__", "__kept")

    def __init__(self, array: np.ndarray) -> None:
        self.__kept = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], True)}


def sealed(array: Any) -> Any:
    """Return a view of a new array that ``setflags`` cannot make writeable again."""
    array.setflags(write=False)
    return np.asarray(_Owner(array))


def is_sealed(array: Any) -> bool:
    """Whether an array was returned by :func:`sealed`."""
    return isinstance(array.base, _Owner)


def is_frozen(array: Any) -> bool:
    """Whether an array is what :func:`frozen` returns: sealed, contiguous, without -0.0."""
    return bool(
        isinstance(array, np.ndarray)
        and array.dtype == np.float64
        and array.flags.c_contiguous
        and is_sealed(array)
        and not np.any(np.signbit(array) & (array == 0.0))
    )


def frozen(array: FloatArray) -> FloatArray:
    """Return a contiguous read-only copy; an array that is frozen already is returned itself."""
    if is_frozen(array):
        return array
    # Adding zero turns -0.0 into 0.0, so that equal data hash equally.
    return np.asarray(sealed(np.ascontiguousarray(array + 0.0)))


def fractions(array: FloatArray, read: Read = Fraction) -> np.ndarray:
    """Convert the entries to exact rationals, in an object array."""
    return np.vectorize(lambda v: read(float(v)), otypes=[object])(array)


def canonical_csr(values: Any, what: str) -> Any:
    """Copy to a sorted CSR array of finite floats without duplicates or stored zeros."""
    # SciPy would take a pair of numbers for a shape.
    array: Any = values if sp.issparse(values) else float_array(values, what)
    if array.dtype.kind not in "biuf":
        raise ProblemError(f"{what} must be real, got dtype {array.dtype}")
    if array.ndim != 2:
        raise ProblemError(f"{what} must have two dimensions, got shape {array.shape}")
    if sp.issparse(array) and array.format in ("csr", "csc"):
        across = array.shape[1] if array.format == "csr" else array.shape[0]
        validate_indices(array.indices, array.indptr, across, what)
        if array.format == "csr" and array.dtype == np.float64 and _is_canonical(array):
            return sp.csr_array(array, copy=True)
    coo = sp.coo_array(array)
    require_doubles(coo.data, what)
    coo = coo.astype(np.float64)
    finite = np.isfinite(coo.data)
    if not finite.all():
        raise RowError(int(np.min(coo.row[~finite])), f"{what} hold NaN or infinity")
    csr = sp.csr_array(coo)
    if csr.nnz < coo.nnz:
        index, totals, rounded = add_up(coo.row.astype(np.int64) * coo.shape[1] + coo.col, coo.data)
        if rounded.size:
            far = " to infinity" if np.isinf(totals).any() else ""
            raise RowError(
                int(np.min(coo.row[rounded])),
                f"{what} hold an entry more than once, and the sum would be rounded{far}; "
                "add them up yourself (sum_duplicates) if that is what you mean",
            )
        csr = sp.csr_array((totals, (coo.row[index], coo.col[index])), coo.shape)
    csr.eliminate_zeros()
    csr.sort_indices()
    return csr


def _is_canonical(csr: Any) -> bool:
    """Whether entries are sorted, unique, finite and non-zero; SciPy's cached flags are not trusted."""
    data, last = csr.data, int(csr.indptr[-1])
    if data.size != last or csr.indices.size != last or not (np.isfinite(data).all() and np.all(data)):
        return False
    ascends = np.append(True, np.diff(csr.indices) > 0)
    ascends[csr.indptr[:-1][csr.indptr[:-1] < last]] = True  # first entries of rows
    return bool(np.all(ascends[:last]))


def validate_indices(indices: np.ndarray, indptr: np.ndarray, width: int, what: str) -> None:
    """Raise ``ProblemError`` if the index arrays of a compressed sparse array are inconsistent.

    SciPy does not check them and would access memory out of bounds; its own check accepts a last pointer of
    zero.
    """
    if any(part.dtype.kind not in "iu" or part.ndim != 1 for part in (indices, indptr)):
        raise ProblemError(f"{what} are malformed: their indices are not vectors of integers")
    last = int(indptr[-1]) if indptr.size else -1
    if last < 0 or indptr[0] != 0 or last > indices.size or np.any(indptr[1:] < indptr[:-1]):
        raise ProblemError(f"{what} are malformed: their index pointers do not ascend from 0")
    used = indices[:last]
    if used.size and (int(used.min()) < 0 or int(used.max()) >= width):
        raise ProblemError(f"{what} are malformed: an index is outside the {width} columns")


def frozen_csr(array: Any) -> Any:
    """Make a CSR array read-only in place, with int64 indices so that equal rows hash equally."""
    for name, kind in (("data", np.float64), ("indices", np.int64), ("indptr", np.int64)):
        part = getattr(array, name)
        if not (is_sealed(part) and part.dtype == kind):
            setattr(array, name, sealed(part.astype(kind)))  # a copy: the caller may hold a reference
    return array


def csr_parts(array: Any) -> dict[str, np.ndarray]:
    """Return the three arrays of the CSR format, by name."""
    return {"data": array.data, "indices": array.indices, "indptr": array.indptr}


def csr_from_parts(parts: dict[str, np.ndarray], m: int, width: int) -> Any:
    """Build a CSR array of shape (m, width) from its three arrays; raise ``ProblemError`` if malformed."""
    validate_indices(parts["indices"], parts["indptr"], width, "sparse rows")
    try:
        return sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=(m, width))
    except ValueError as error:
        raise ProblemError(f"sparse rows are malformed: {error}") from None


#: If the product of the smallest factors is above this, no intermediate product underflows. The same holds
#: for factors times sums with cancellation: a partial sum is zero or a multiple of the last bit of its terms.
SAFE_SMALL = 1e-200

#: With stored numbers up to this size and down to its inverse, norms neither overflow nor underflow, for
#: every storage kind.
NORM_SAFE = 1e30

#: A bound of sums of products: the magnitudes of ``apply`` or ``adjoint``.
Product = Callable[[FloatArray], FloatArray]

#: Stored data of rows: plain numbers, arrays by name, and the rows they are composed of.
State = tuple[dict[str, Any], dict[str, np.ndarray], list["Rows"]]


class Rows(ABC):
    """The rows ``A_1, ..., A_m`` on one block; the base class of every storage kind. Immutable."""

    kind: ClassVar[str]
    #: Number of rows.
    m: int
    #: Side of the matrix, or length of the vector.
    n: int
    #: Whether the block is a matrix.
    matrix: bool
    #: Whether no row touches the block; True only for ``NoRows``.
    empty: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the block's array."""
        return (self.n, self.n) if self.matrix else (self.n,)

    @abstractmethod
    def apply(self, x: FloatArray) -> FloatArray:
        """Return the inner products ``<A_i, x>`` of all rows."""

    @abstractmethod
    def adjoint(self, y: FloatArray) -> FloatArray:
        """Return the weighted sum ``sum_i y_i A_i``."""

    @abstractmethod
    def to_csr(self, magnitude: bool = False) -> Any:
        """Return all rows as one CSR array of shape (m, entries of the block).

        Entries are rounded if the kind stores factors. With ``magnitude`` they are the sums of the magnitudes
        of the terms, without cancellation.
        """

    def explicit(self) -> Any:
        """Return all rows as one CSR array in which row ``i`` is ``adjoint(e_i)``, bit for bit.

        Writers and reductions use it, so that a problem read back has the same row matrices. Where factors
        are stored it costs one adjoint per row; :meth:`to_csr` is faster and may differ in the last bit.
        """
        if self._factors_stored == 1:
            return self.to_csr()
        rows = [sp.csr_array(self.adjoint(unit).reshape(1, -1)) for unit in np.eye(self.m)]
        return sp.csr_array(sp.vstack(rows, format="csr")) if rows else self.to_csr()

    def columns(self, magnitude: bool = False) -> Any:
        """Return ``to_csr``, or a NumPy array if the rows are stored densely."""
        return self.to_csr(magnitude)

    def leaves(self) -> Iterator[Rows]:
        """Iterate over the rows at the leaves of the composition tree."""
        children = self.state()[2]
        if not children:
            yield self
        for child in children:
            yield from child.leaves()

    @property
    @abstractmethod
    def entries(self) -> float:
        """Upper bound of the number of non-zero entries of all matrices ``A_i``."""

    @property
    @abstractmethod
    def gram_flops(self) -> float:
        """Cost estimate of ``gram``, in multiply-adds of a dense matrix product."""

    def norms(self) -> FloatArray:
        """Return the Frobenius norm of every row."""
        low, high = self.value_range
        with np.errstate(all="ignore"):
            if low >= 1.0 / NORM_SAFE and high <= NORM_SAFE:
                return self._plain_norms()
            rows, power = self.units()
            return np.ldexp(rows._plain_norms(), power)

    @abstractmethod
    def _plain_norms(self) -> FloatArray:
        """Return the Frobenius norms, valid if squares neither underflow nor overflow."""

    def _row(self, i: int) -> FloatArray:
        """Return row ``i`` with at most ``depths[1]`` chained roundings in an entry."""
        unit = np.zeros(self.m)
        unit[i] = 1.0
        return self.stable_adjoint(unit)

    def require_representable(self) -> None:
        """Raise ``RowError`` if the norm of a row overflows."""
        if self.value_range[1] <= NORM_SAFE:
            return
        with np.errstate(all="ignore"):
            bad = ~np.isfinite(self.norms_upper)
        if bad.any():
            raise RowError(int(np.argmax(bad)), "the row is too large for floating point, its norm overflows")

    def select(self, index: Any) -> Rows:
        """Return the rows with the given indices, in that order, or those selected by a mask."""
        return self._select(row_index(index, self.m))

    @abstractmethod
    def _select(self, index: np.ndarray) -> Rows:
        """``select`` for an array of valid row numbers."""

    @abstractmethod
    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by ``factors`` (exactly, if these are powers of two)."""

    @abstractmethod
    def exact_row(self, i: int, read: Read = Fraction) -> np.ndarray:
        """Return row ``i`` in rational arithmetic; ``read`` maps each stored number to a rational."""

    def is_nonpositive(self, signs: FloatArray) -> bool:
        """Whether weights of these signs give a negative semidefinite sum, as far as the storage shows.

        False means unknown.
        """
        return not signs.any()

    def exact_terms(self, i: int) -> dict[int, Fraction]:
        """Return the non-zero entries of row ``i`` as fractions, by their index in the flattened array."""
        return {k: v for k, v in enumerate(self.exact_row(i).reshape(-1).tolist()) if v}

    @abstractmethod
    def state(self) -> State:
        """Return the stored data, for files, pickles and hashes."""

    @classmethod
    @abstractmethod
    def from_state(cls, numbers: dict[str, Any], arrays: dict[str, np.ndarray], children: list[Rows]) -> Rows:
        """Build rows from the output of :meth:`state`."""

    @abstractmethod
    def magnitude_apply(self, x: FloatArray) -> FloatArray:
        """Return an upper bound of ``<|A_i|, x>`` for ``x >= 0``, up to rounding."""

    @abstractmethod
    def magnitude_adjoint(self, w: FloatArray) -> FloatArray:
        """Return an entrywise upper bound of ``sum_i w_i |A_i|`` for ``w >= 0``, up to rounding."""

    @cached_property
    def norms_upper(self) -> FloatArray:
        """Proven upper bounds of the row norms, with all terms replaced by their magnitudes; read-only.

        A bound is zero only if the row has no terms.
        """
        return np.asarray(sealed(self._norms_upper()))

    def _norms_upper(self) -> FloatArray:
        return inflate(self.norms(), self.gram_depth)

    @abstractmethod
    def units(self) -> tuple[Rows, np.ndarray]:
        """Return normalised rows and exponents: row ``i`` is ``2**exponents[i]`` times row ``i`` of them.

        Their stored numbers are below ``2**100``, so products of a few of them neither overflow nor underflow
        relative to the row. A number lost to underflow changes the row by less than the smallest normal
        number. A row without terms has the exponent ``EMPTY``.
        """

    @property
    @abstractmethod
    def depths(self) -> tuple[int, int]:
        """Number of chained roundings in one entry of ``stable_apply`` and of ``stable_adjoint``."""

    @property
    @abstractmethod
    def _factors_stored(self) -> int:
        """Number of stored factors in one term of ``apply``."""

    @abstractmethod
    def stable_apply(self, x: FloatArray) -> FloatArray:
        """Compute ``apply`` with errors relative to ``<|A_i|, |x|>``; ``depths`` counts the roundings."""

    @abstractmethod
    def stable_adjoint(self, y: FloatArray) -> FloatArray:
        """Compute ``adjoint`` with errors relative to ``sum |y_i| |A_i|``; see ``depths``."""

    def enclose_apply(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``apply`` with a proven error bound for every row."""
        check_deadline("the values of the rows")
        return self.stable_apply(x), self._radius(self.magnitude_apply, self.depths[0], np.abs(x))

    def enclose_adjoint(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``adjoint`` with a proven error bound for every entry."""
        check_deadline("a combination of the rows")
        return self.stable_adjoint(y), self._radius(self.magnitude_adjoint, self.depths[1], np.abs(y))

    def _radius(self, product: Product, depth: int, argument: FloatArray) -> FloatArray:
        """Bound the rounding and underflow errors of sums whose terms contain a factor of ``argument``."""
        lost = self._underflow(product, depth, argument)

        def rounding(total: FloatArray, less: FloatArray | float) -> FloatArray:
            return sum_up(product_up(gamma(depth), inflate(total, depth + 4)), less)

        return in_strips(rounding, product(argument), lost)

    def magnitude_apply_upper(self, x: FloatArray) -> FloatArray:
        """Return proven bounds of ``<|A_i|, x>`` for ``x >= 0``; zero only for sums without terms."""
        depth = self.depths[0]
        lost = self._underflow(self.magnitude_apply, depth, x)
        return sum_up(inflate(self.magnitude_apply(x), depth), lost)

    def magnitude_adjoint_upper(self, w: FloatArray) -> FloatArray:
        """Return proven bounds of ``sum_i w_i |A_i|`` for ``w >= 0``; zero only for sums without terms."""
        depth = self.depths[1]
        lost = self._underflow(self.magnitude_adjoint, depth, w)
        return sum_up(inflate(self.magnitude_adjoint(w), depth), lost)

    def _underflow(self, product: Product, depth: int, argument: FloatArray) -> FloatArray | float:
        """Bound the underflow errors of the sums that ``product`` bounds; zero for sums without terms."""
        low, high = self.value_range
        smallest, largest = value_range(argument)
        stored, worst = 1.0, 1.0 + largest
        for _ in range(self._factors_stored):
            # Repeated multiplication: Python's power operator raises on overflow.
            stored *= min(low, 1.0)
            worst *= 1.0 + high
        if largest == 0.0 or smallest * stored >= SAFE_SMALL:
            return 0.0
        # A sum has at most depth³ terms: LowRank has n² terms per factor of a row.
        lost = float(depth) ** 3 * TINY * worst
        if stored < SAFE_SMALL:
            return lost
        return np.where(product((argument != 0.0).astype(np.float64)) != 0.0, lost, 0.0)

    @cached_property
    def value_range(self) -> tuple[float, float]:
        """Smallest non-zero and largest magnitude of all stored numbers."""
        _, arrays, children = self.state()
        ranges = [value_range(a) for a in arrays.values() if a.dtype.kind == "f"]
        ranges += [child.value_range for child in children]
        return min(r[0] for r in ranges), max(r[1] for r in ranges)

    def gram(self) -> FloatArray:
        """Return the Gram matrix ``<A_i, A_j>``.

        The error of an entry is at most ``gamma(gram_depth)`` times the ``norms_upper`` of its two rows if no
        product underflows; call ``units`` first to ensure that. Raises ``LimitError`` if time or memory are
        short.
        """
        guard("the Gram matrix of the rows", self.gram_flops, memory=32.0 * float(self.m) ** 2)
        return self._gram()

    @abstractmethod
    def _gram(self) -> FloatArray:
        """Return ``gram``."""

    @property
    def gram_depth(self) -> int:
        """Upper bound of the number of chained roundings in one entry of ``gram``."""
        return sum(self.depths) + int(np.prod(self.shape)) + 8

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; raise if it was set before."""
        if name in self.__dict__:
            raise AttributeError(f"{type(self).__name__} rows are immutable; cannot set {name!r}")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        """Raise: rows are immutable."""
        raise AttributeError(f"{type(self).__name__} rows are immutable; cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle through ``from_state``, since unpickled arrays are writeable."""
        return type(self).from_state, self.state()

    def __repr__(self) -> str:
        """Format the kind and the sizes."""
        return f"{self.kind}(m={self.m}, n={self.n})"
