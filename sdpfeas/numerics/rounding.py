"""Proofs in floating-point arithmetic.

Everything here returns bounds that hold in real arithmetic although they were computed with rounding
(to nearest, IEEE double precision). Three tools are enough for the verifier:

* a-priori bounds on sums of products (``gamma``);
* a definiteness test: if the floating-point Cholesky factorisation of a slightly shifted matrix runs
  through, the matrix is positive definite (Rump, "Verification of positive definiteness", BIT 2006);
* enclosures of all eigenvalues from a computed eigensystem (Ostrowski's theorem and Weyl's inequality).

Bounds on non-negative quantities are themselves computed in floating point and then inflated.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpfeas.numerics.linalg import FloatArray, eigh

#: Unit roundoff of IEEE double precision.
UNIT = 2.0**-53
#: Smallest positive normal number; bounds the absolute error of an operation that underflows.
TINY = float(np.finfo(np.float64).tiny)


def gamma(k: float) -> float:
    """Bound on the relative error of ``k`` chained roundings, ``k u / (1 - k u)``, rounded up."""
    ku = k * UNIT
    if ku >= 0.25:
        return float("inf")
    return ku / (1.0 - ku) * (1.0 + 8.0 * UNIT)


def inflate(bound: FloatArray | float, k: float) -> FloatArray:
    """Round up a non-negative ``bound`` that was computed with ``k`` chained roundings; zero stays zero."""
    array = np.asarray(bound, dtype=np.float64)
    return array * (1.0 + 2.0 * gamma(k + 4)) + np.where(array > 0.0, (k + 4) * TINY, 0.0)


def norm_upper(matrix: FloatArray) -> float:
    """Upper bound of the Frobenius norm."""
    scale = float(np.max(np.abs(matrix), initial=0.0))
    if scale == 0.0 or not np.isfinite(scale):
        return scale
    # Scaled by a power of two, so that squaring neither overflows nor loses everything.
    power = 2.0 ** np.floor(np.log2(scale)) if scale > TINY else TINY
    scaled = matrix / power
    bound = float(inflate(np.sqrt(np.sum(scaled * scaled)), matrix.size + 2)) * power * (1 + 4 * UNIT)
    return float(np.nextafter(bound, np.inf))  # the product may have rounded down among the smallest numbers


def symmetric_norm_upper(magnitude: FloatArray) -> float:
    """Upper bound of the spectral norm of any symmetric matrix with ``|entries| <= magnitude``."""
    if magnitude.size == 0:
        return 0.0
    return float(inflate(magnitude.sum(axis=1).max(), magnitude.shape[0]))


def magnitude_norm_upper(matrix: FloatArray) -> float:
    """Upper bound of the spectral norm of the matrix of magnitudes."""
    size = np.abs(matrix)
    rows, columns = float(np.max(size.sum(axis=1), initial=0.0)), float(np.max(size.sum(axis=0), initial=0.0))
    by_sums = float(inflate(np.sqrt(rows) * np.sqrt(columns), sum(matrix.shape) + 4))
    return min(norm_upper(matrix), by_sums)


def sum_lower(values: FloatArray, radius: float = 0.0) -> float:
    """Lower bound of the exact sum of ``values`` less ``radius``."""
    total = float(np.sum(values))
    error = float(inflate(gamma(values.size + 2) * float(np.sum(np.abs(values))), values.size))
    # Two differences are rounded below, each by up to a unit of either operand.
    return total - (error + radius) * (1 + 16 * UNIT) - 8 * UNIT * abs(total)


def sum_upper(values: FloatArray, radius: float = 0.0) -> float:
    """Upper bound of the exact sum of ``values`` plus ``radius``."""
    return -sum_lower(-values, radius)


def definite(matrix: FloatArray, *, shift: float = 0.0) -> bool:
    """Prove that ``matrix - shift·I`` is positive definite (strictly).

    The matrix is first scaled from both sides by powers of two, so that its diagonal is near one: that
    is exact, keeps definiteness, and lets the test succeed on graded matrices.

    Parameters
    ----------
    matrix : ndarray
        Exactly symmetric matrix.
    shift : float
        Non-negative shift, taken off the diagonal before the test.

    Returns
    -------
    bool
        True is a proof; False means "not proven".
    """
    n = matrix.shape[0]
    if n == 0:
        return True
    diagonal = np.diagonal(matrix)
    if not np.isfinite(matrix).all() or not np.isfinite(shift):
        return False
    if not np.all(diagonal > shift):
        return False
    # fl(a - shift) rounds by at most u|a - shift|: step down so that the test matrix lies below.
    lowered = np.nextafter(diagonal - shift, -np.inf)
    if not np.all(lowered > 0.0):
        return False
    exponent = np.clip(-np.floor(np.log2(lowered) / 2.0), -500, 500)
    scale = 2.0**exponent
    scaled = matrix * np.outer(scale, scale)
    diag = lowered * scale * scale
    if not np.isfinite(scaled).all() or not np.isfinite(diag).all():
        return False
    # Underflow in the scaling of off-diagonal entries is at most TINY an entry.
    # Two roundings more than in Rump's bound: some libraries multiply by reciprocals of the pivots.
    phi = gamma(n + 3) / (1.0 - gamma(n + 3))
    c = float(inflate(phi * float(np.sum(diag)), n + 4)) + 8.0 * n * (n + 4) * TINY
    shifted = np.nextafter(diag - c, -np.inf)
    if not np.all(shifted > 0.0):
        return False
    np.fill_diagonal(scaled, shifted)
    _, info = scipy.linalg.lapack.dpotrf(scaled, lower=1, clean=0, overwrite_a=1)
    return bool(info == 0)


def semidefinite(matrix: FloatArray) -> bool:
    """Prove that an exactly symmetric matrix is positive semidefinite.

    Rows that are exactly zero are dropped; the rest must be positive definite.
    """
    if not np.isfinite(matrix).all():
        return False
    keep = np.any(matrix != 0.0, axis=1)
    if not keep.any():
        return True
    if not keep.all():
        matrix = np.ascontiguousarray(matrix[np.ix_(keep, keep)])
    return definite(matrix)


def eigenvalue_enclosure(matrix: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Eigenvalues with a proven common radius.

    With ``V`` the computed eigenvectors and ``delta >= ||V'V - I||``, Ostrowski's theorem bounds the
    eigenvalues of ``V'AV`` against those of ``A``, and Weyl's inequality those of ``V'AV`` against its
    diagonal part.

    Parameters
    ----------
    matrix : ndarray
        Exactly symmetric matrix.

    Returns
    -------
    eigenvalues : ndarray
        Computed eigenvalues, ascending.
    vectors : ndarray
        Computed eigenvectors.
    radius : float
        The k-th exact eigenvalue is within ``radius`` of the k-th computed one; infinity if not proven.
    """
    n = matrix.shape[0]
    lam, vec = eigh(matrix)
    # Every product is off by at most gamma times the product of the magnitudes, whose norm is bounded by the
    # product of their norms: no further product is needed.
    size, vec_size = magnitude_norm_upper(matrix), magnitude_norm_upper(vec)
    gram = vec.T @ vec
    gram[np.diag_indices(n)] -= 1.0
    gram_error = gamma(n + 2) * (vec_size * vec_size + 1.0)
    off = np.abs(gram)
    delta = float(inflate(symmetric_norm_upper(inflate(np.maximum(off, off.T), 2)) + gram_error, 8))
    if not delta < 0.5:
        return lam, vec, float("inf")
    half = matrix @ vec
    compressed = vec.T @ half
    off = np.abs(compressed - np.diag(lam))
    rounding = gamma(n + 4) * vec_size * (magnitude_norm_upper(half) + (1.0 + delta) * size)
    spread = gamma(4) * (float(np.max(np.abs(compressed))) + float(np.max(np.abs(lam))))
    off_bound = symmetric_norm_upper(inflate(np.maximum(off, off.T), 2))
    off_bound = float(inflate(off_bound + rounding + spread, 8))
    largest = (float(np.max(np.abs(lam))) + off_bound) / (1.0 - delta)
    radius = float(inflate(delta * largest + off_bound, 8))
    if matrix.any():
        radius += 8.0 * n * n * TINY  # what underflow may have taken from the products
    return lam, vec, radius if np.isfinite(radius) else float("inf")


def smallest_eigenvalue_lower(matrix: FloatArray) -> float:
    """Proven lower bound of the smallest eigenvalue of an exactly symmetric matrix."""
    lam, _, radius = eigenvalue_enclosure(matrix)
    return float(np.nextafter(lam[0] - radius, -np.inf))
