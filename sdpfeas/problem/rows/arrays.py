"""Helpers the storage kinds share: freezing arrays and handling sparse ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.exactness import add_up
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.validation import RowError, float_array, require_doubles

#: Maps a float to the rational (``Fraction`` or ``fmpq``) it stands for: itself or what it was rounded from.
Read = Callable[[float], Any]


#: Numbers that are looked at in one go: an array may fill most of the memory.
LOOK = 4_000_000


def value_range(array: FloatArray) -> tuple[float, float]:
    """Smallest non-zero and largest magnitude."""
    least, most, flat = np.inf, 0.0, array.reshape(-1)
    for start in range(0, flat.size, LOOK):
        size = np.abs(flat[start : start + LOOK])
        least = min(least, float(np.min(size, initial=np.inf, where=size > 0.0)))
        most = max(most, float(np.max(size)))
    return least, most


#: Exponent of nothing at all, below that of any number or product of numbers.
EMPTY = -100_000


def exponents(sizes: FloatArray) -> np.ndarray:
    """Exponents of the powers of two just above non-negative numbers; ``EMPTY`` for zero."""
    return np.where(sizes == 0.0, EMPTY, np.frexp(sizes)[1])


def largest_by_row(matrix: Any, values: np.ndarray) -> np.ndarray:
    """Largest in every row of the ``values`` of the stored entries of a CSR array; ``EMPTY`` without any."""
    out = np.full(matrix.shape[0], EMPTY, dtype=np.int64)
    np.maximum.at(out, stored_rows(matrix), values)
    return out


def stored_rows(matrix: Any) -> np.ndarray:
    """Row of every stored entry of a CSR array."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def longest_row(matrix: Any) -> int:
    """Most stored entries in a row of a CSR array."""
    return int(np.max(np.diff(matrix.indptr), initial=0))


class _Owner:
    """The owner of the memory of a sealed array, which hands out no writeable view of it."""

    __slots__ = ("__array_interface__", "__kept")

    def __init__(self, array: np.ndarray) -> None:
        self.__kept = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], True)}


def sealed(array: Any) -> Any:
    """The numbers of a new array, not copied, in one that ``setflags`` cannot make writeable."""
    array.setflags(write=False)
    return np.asarray(_Owner(array))


def is_sealed(array: Any) -> bool:
    """Whether nobody can change an array: :func:`sealed` made it."""
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
    """Contiguous, read-only copy; the array itself if it is one."""
    if is_frozen(array):
        return array
    # Adding zero turns -0.0 into 0.0, so that equal data hash equally.
    return np.asarray(sealed(np.ascontiguousarray(array + 0.0)))


def fractions(array: FloatArray, read: Read = Fraction) -> np.ndarray:
    """Entries as exact rationals, in an object array."""
    return np.vectorize(lambda v: read(float(v)), otypes=[object])(array)


def canonical_csr(values: Any, what: str) -> Any:
    """Copy to a CSR array of finite floats without duplicates or stored zeros, sorted."""
    # SciPy would take a pair of numbers for a shape.
    array: Any = values if sp.issparse(values) else float_array(values, what)
    if array.dtype.kind not in "biuf":
        raise ProblemError(f"{what} must be real, got dtype {array.dtype}")
    if array.ndim != 2:
        raise ProblemError(f"{what} must have two dimensions, got shape {array.shape}")
    if sp.issparse(array) and array.format in ("csr", "csc"):
        across = array.shape[1] if array.format == "csr" else array.shape[0]
        require_sound(array.indices, array.indptr, across, what)
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
    """Whether all entries are there once, in order, finite and not zero; what SciPy noted may be untrue."""
    data, last = csr.data, int(csr.indptr[-1])
    if data.size != last or csr.indices.size != last or not (np.isfinite(data).all() and np.all(data)):
        return False
    ascends = np.append(True, np.diff(csr.indices) > 0)
    ascends[csr.indptr[:-1][csr.indptr[:-1] < last]] = True  # where a row begins
    return bool(np.all(ascends[:last]))


def require_sound(indices: np.ndarray, indptr: np.ndarray, width: int, what: str) -> None:
    """Refuse the index arrays of a compressed sparse array that do not fit each other.

    SciPy believes them, and reads and writes beyond its arrays where they lie; its own check overlooks a last
    pointer of zero.
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
    """Make a CSR array read-only, in place; one index width, so that equal rows hash equally."""
    for name, kind in (("data", np.float64), ("indices", np.int64), ("indptr", np.int64)):
        part = getattr(array, name)
        if not (is_sealed(part) and part.dtype == kind):
            setattr(array, name, sealed(part.astype(kind)))  # a copy: somebody else may hold the array
    return array


def csr_parts(array: Any) -> dict[str, np.ndarray]:
    """Return the three arrays of the CSR format, by name."""
    return {"data": array.data, "indices": array.indices, "indptr": array.indptr}


def csr_from_parts(parts: dict[str, np.ndarray], m: int, width: int) -> Any:
    """Return the array of shape (m, width) that three arrays of the CSR format stand for, if they do."""
    require_sound(parts["indices"], parts["indptr"], width, "sparse rows")
    try:
        csr = sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=(m, width))
        csr.check_format(full_check=True)
    except ValueError as error:
        raise ProblemError(f"sparse rows are malformed: {error}") from None
    return csr
