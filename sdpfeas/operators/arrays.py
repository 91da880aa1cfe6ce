"""Helpers the storage kinds share: reading, checking and freezing arrays."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.linalg import SYMMETRY_TOLERANCE, FloatArray


def float_array(values: Any, what: str) -> FloatArray:
    """Copy to an array of floats; ``what`` names it in messages."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"dtype {array.dtype}")
        return np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{what} must be a real array: {error}") from None


def value_range(array: FloatArray) -> tuple[float, float]:
    """Smallest non-zero and largest magnitude."""
    size = np.abs(array)
    return float(np.min(size, initial=np.inf, where=size > 0.0)), float(np.max(size, initial=0.0))


def frozen(array: FloatArray) -> FloatArray:
    """Contiguous, read-only copy."""
    # Adding zero turns -0.0 into 0.0, so that equal data hash equally.
    out = np.ascontiguousarray(array + 0.0)
    out.setflags(write=False)
    return out


def frozen_csr(array: Any) -> Any:
    """Make a CSR array read-only, in place; one index width, so that equal rows hash equally."""
    array.indices = array.indices.astype(np.int64)
    array.indptr = array.indptr.astype(np.int64)
    for part in (array.data, array.indices, array.indptr):
        part.setflags(write=False)
    return array


def canonical_csr(values: Any) -> Any:
    """Copy to a CSR array of floats without duplicates or stored zeros, sorted."""
    csr = sp.csr_array(values, dtype=np.float64, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    csr.sort_indices()
    return csr


def csr_parts(array: Any) -> dict[str, np.ndarray]:
    """Return the three arrays of the CSR format, by name."""
    return {"data": array.data, "indices": array.indices, "indptr": array.indptr}


def require_finite(array: FloatArray, what: str) -> None:
    """Refuse NaN and infinity."""
    bad = ~np.isfinite(array)
    if bad.any():
        place = tuple(int(k) for k in np.argwhere(bad)[0])
        raise ProblemError(f"{what} hold NaN or infinity at index {place}")


def require_symmetric(skew: FloatArray, size: FloatArray) -> None:
    """Refuse rows whose largest asymmetry ``skew`` is beyond rounding for their ``size``."""
    bad = skew > SYMMETRY_TOLERANCE * size
    if bad.any():
        i = int(np.argmax(bad))
        raise ProblemError(
            f"row {i}: the matrix is not symmetric, entries differ by {skew[i]:.3g} "
            f"(largest entry {size[i]:.3g}); pass (A + A') / 2 if that is what you mean"
        )


def fractions(array: FloatArray) -> np.ndarray:
    """Entries as exact fractions, in an object array."""
    return np.vectorize(lambda v: Fraction(float(v)), otypes=[object])(array)
