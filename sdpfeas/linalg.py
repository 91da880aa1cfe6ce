"""Small dense linear algebra used everywhere: symmetrising and eigendecompositions."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

#: Entries may differ from their mirror image by this much, relative to the largest entry of the
#: matrix, and still count as symmetric up to rounding.
SYMMETRY_TOLERANCE = 1e-10


def symmetrize(matrix: FloatArray) -> FloatArray:
    """Return ``(matrix + matrix') / 2`` over the last two axes."""
    # Halving first: the sum of two huge entries would overflow.
    half = 0.5 * matrix
    return np.asarray(half + np.swapaxes(half, -1, -2), dtype=np.float64)


def eigh(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (ascending) and eigenvectors of a symmetric matrix.

    LAPACK's fast driver can fail to converge on matrices of wild scale; the slower one is then tried.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix holds NaN or infinity, or neither driver converges.
    """
    if not np.isfinite(matrix).all():
        raise np.linalg.LinAlgError("matrix holds NaN or infinity")
    try:
        lam, vec = scipy.linalg.eigh(matrix, driver="evd", check_finite=False)
    except np.linalg.LinAlgError:
        lam, vec = scipy.linalg.eigh(matrix, driver="ev", check_finite=False)
    return lam, vec


def eigvalsh(matrix: FloatArray) -> FloatArray:
    """Eigenvalues (ascending) of a symmetric matrix."""
    if not np.isfinite(matrix).all():
        raise np.linalg.LinAlgError("matrix holds NaN or infinity")
    lam: FloatArray = scipy.linalg.eigvalsh(matrix, check_finite=False)
    return lam


def spectral_matrix(vec: FloatArray, lam: FloatArray) -> FloatArray:
    """Return ``vec diag(lam) vec'``, exactly symmetric."""
    return symmetrize((vec * lam) @ vec.T)
