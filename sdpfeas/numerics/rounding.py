"""Proofs in floating-point arithmetic.

Everything here returns bounds that hold in real arithmetic although they were computed with rounding
(to nearest, IEEE double precision). Four tools are enough for the verifier:

* products, quotients, sums and differences of bounds that are rounded to the safe side (``product_up`` and
  its kin);
* a-priori bounds on sums of products (``gamma``);
* a definiteness test: if the floating-point Cholesky factorisation of a slightly shifted matrix runs
  through, the matrix is positive definite (Rump, "Verification of positive definiteness", BIT 2006);
* enclosures of all eigenvalues from a computed eigensystem (Ostrowski's theorem and Weyl's inequality).

There are two kinds of errors. Rounding errors are relative; ``gamma`` and ``inflate`` bound them. Underflow
errors are absolute: the product of two non-zero numbers may be computed as zero, which no relative bound
covers. Sums and differences never underflow, so only products and quotients need absolute bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import scipy.linalg

from sdpfeas.numerics.limits import guard
from sdpfeas.numerics.linalg import FloatArray, eigh, leading_pairs

#: Unit roundoff of IEEE double precision.
UNIT = 2.0**-53
#: Smallest positive normal number; bounds the absolute error of an operation that underflows.
TINY = float(np.finfo(np.float64).tiny)

#: Entries processed at a time where arrays may fill most of the memory.
STRIP_ENTRIES = 1_000_000


def gamma(k: float) -> float:
    """Bound on the relative error of ``k`` chained roundings, ``k u / (1 - k u)``, rounded up."""
    ku = k * UNIT
    if ku >= 0.25:
        return float("inf")
    return ku / (1.0 - ku) * (1.0 + 8.0 * UNIT)


def inflate(bound: FloatArray | float, k: float) -> FloatArray:
    """Round up a non-negative ``bound`` that was computed with ``k`` chained roundings; zero stays zero.

    It does not cover a product that underflowed to zero; use ``product_up`` for those.
    """
    array = np.asarray(bound, dtype=np.float64)
    return array * (1.0 + 2.0 * gamma(k + 4)) + np.where(array > 0.0, (k + 4) * TINY, 0.0)


def product_up(*factors: FloatArray | float) -> FloatArray:
    """Upper bound of a product of non-negative numbers; zero only where a factor is zero."""
    out = np.asarray(factors[0], dtype=np.float64)
    for factor in factors[1:]:
        zero = (out == 0.0) | (np.asarray(factor) == 0.0)
        out = np.where(zero, 0.0, np.nextafter(out * factor, np.inf))
    return out


def quotient_up(bound: FloatArray | float, divisor: FloatArray | float) -> FloatArray:
    """Upper bound of a non-negative number over a positive one; zero only where the number is zero."""
    array = np.asarray(bound, dtype=np.float64)
    return np.where(array == 0.0, 0.0, np.nextafter(array / divisor, np.inf))


def shift_up(bound: FloatArray | float, exponent: np.ndarray | int) -> FloatArray:
    """Upper bound of a non-negative number times a power of two; zero only where the number is zero."""
    array = np.asarray(bound, dtype=np.float64)
    moved = np.ldexp(array, exponent)
    # Multiplication by a power of two is exact except for subnormal results.
    return np.where((array != 0.0) & (moved < TINY), np.nextafter(moved, np.inf), moved)


#: Factor of Veltkamp's splitting of a double into two halves of 26 bits.
SPLITTER = 2.0**27 + 1.0


def two_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``p`` and ``e`` with ``p + e = a b`` (Dekker 1971), up to ``4 TINY`` where a product underflows.

    Both are not finite where a product or its parts overflow.
    """
    with np.errstate(all="ignore"):
        product = a * b
        (high_a, low_a), (high_b, low_b) = _halves(a), _halves(b)
        return product, low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)


def _halves(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split doubles into halves whose products are exact."""
    scaled = SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def sqrt_upper(number: float) -> float:
    """Upper bound of a square root."""
    return math.nextafter(math.sqrt(number), math.inf)


def in_strips(combine: Callable[..., FloatArray], own: FloatArray, *others: FloatArray | float) -> FloatArray:
    """Apply an entrywise function to arrays of one shape or numbers; may overwrite the first array.

    Large arrays are processed in place, in strips, so that no temporary array of their size is allocated.
    """
    if own.size <= STRIP_ENTRIES or not own.flags.c_contiguous:
        return np.asarray(combine(own, *others))
    flat = [np.ravel(part) if isinstance(part, np.ndarray) and part.ndim else part for part in others]
    out = own.reshape(-1)
    for start in range(0, out.size, STRIP_ENTRIES):
        place = slice(start, start + STRIP_ENTRIES)
        parts = (part[place] if isinstance(part, np.ndarray) else part for part in flat)
        out[place] = combine(out[place], *parts)
    return own


def sum_up(*terms: FloatArray | float) -> FloatArray:
    """Upper bound of a sum; exact where all terms but one are zero."""
    out = np.asarray(terms[0], dtype=np.float64)
    for term in terms[1:]:
        exact = (out == 0.0) | (np.asarray(term) == 0.0)
        total = out + term
        out = np.where(exact, total, np.nextafter(total, np.inf))
    return out


def sum_radius(first: FloatArray, second: FloatArray, value: FloatArray) -> FloatArray:
    """Radius of a computed sum ``value`` of two terms with the given radii."""
    return sum_up(first, second, product_up(2.0 * UNIT, np.abs(value)))


def difference_down(a: FloatArray | float, b: FloatArray | float) -> FloatArray:
    """Lower bound of ``a - b``; zero where they are equal."""
    apart = np.asarray(a, dtype=np.float64) - b
    return np.where(apart == 0.0, 0.0, np.nextafter(apart, -np.inf))


def norms_upper(vectors: FloatArray) -> FloatArray:
    """Upper bounds of the Euclidean norms of the rows of a matrix; zero only for zero rows."""
    # Scaling by powers of two prevents overflow and harmful underflow of the squares.
    exponent = np.frexp(np.max(np.abs(vectors), axis=1, initial=0.0))[1]
    scaled = np.ldexp(vectors, -exponent[:, None])
    return shift_up(inflate(np.sqrt(np.sum(scaled * scaled, axis=1)), vectors.shape[1] + 4), exponent)


def norm_upper(matrix: FloatArray) -> float:
    """Upper bound of the Frobenius norm."""
    return float(norms_upper(matrix.reshape(1, -1))[0])


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
    size = inflate(np.sum(np.abs(values)), values.size)
    error = product_up(gamma(values.size + 2), size)
    return float(difference_down(np.sum(values), sum_up(error, radius)))


def sum_upper(values: FloatArray, radius: float = 0.0) -> float:
    """Upper bound of the exact sum of ``values`` plus ``radius``."""
    return -sum_lower(-values, radius)


def _row_tiles(n: int) -> Iterator[slice]:
    """Yield slices of rows whose temporary copies are small."""
    step = max(1, STRIP_ENTRIES // max(n, 1))
    for start in range(0, n, step):
        yield slice(start, start + step)


def definite(matrix: FloatArray, *, shift: float = 0.0, graded: bool = True, overwrite: bool = False) -> bool:
    """Prove that ``matrix - shift·I`` is positive definite (strictly).

    The matrix is first scaled from both sides by powers of two, so that its diagonal is near one: that
    is exact, keeps definiteness, and lets the test succeed on graded matrices. With ``graded=False`` one
    common scale is used; the test then loses a multiple of the trace, which is less where few eigenvalues are
    large.

    The matrix must be exactly symmetric, else the result is False, and ``shift`` non-negative. True is a
    proof; False means "not proven". With ``overwrite`` the memory of the matrix is used for its factor.
    """
    n = matrix.shape[0]
    if n == 0:
        return True
    guard("a proof of definiteness", float(n) ** 3)
    diagonal = np.diagonal(matrix)
    # The factorisation reads one triangle only, and LAPACK need not detect NaN.
    if not (np.isfinite(matrix).all() and np.isfinite(shift) and np.array_equal(matrix, matrix.T)):
        return False
    if not np.all(diagonal > shift):
        return False
    # fl(a - shift) rounds by at most u|a - shift|: step down so that the test matrix lies below.
    lowered = np.nextafter(diagonal - shift, -np.inf)
    if not np.all(lowered > 0.0):
        return False
    size = lowered if graded else np.full(n, np.max(lowered))
    scale = np.ldexp(1.0, np.clip(-(np.frexp(size)[1] // 2), -500, 500))
    scaled = matrix if overwrite else np.empty_like(matrix)
    for rows in _row_tiles(n):
        # One product by both scales: after a product by one of them that underflows, the other would
        # enlarge the error.
        np.multiply(matrix[rows], np.multiply.outer(scale[rows], scale), out=scaled[rows])
    diag = lowered * scale * scale
    np.fill_diagonal(scaled, diag)
    # The largest entry of a definite matrix is on its diagonal; beyond that Cholesky would overflow.
    if not max(np.max(scaled), -np.min(scaled)) <= np.max(diag):
        return False
    # Underflow in the scaling of off-diagonal entries is at most TINY per entry.
    # Two roundings more than in Rump's bound: some libraries multiply by reciprocals of the pivots.
    phi = gamma(n + 3) / (1.0 - gamma(n + 3))
    c = float(inflate(phi * float(np.sum(diag)), n + 4)) + 8.0 * n * (n + 4) * TINY
    shifted = np.nextafter(diag - c, -np.inf)
    if not np.all(shifted > 0.0):
        return False
    np.fill_diagonal(scaled, shifted)
    factor, info = scipy.linalg.lapack.dpotrf(scaled.T, lower=1, clean=0, overwrite_a=1)
    # A NaN pivot stops some LAPACK libraries and not others.
    return bool(info == 0 and np.isfinite(factor).all())


def semidefinite(matrix: FloatArray) -> bool:
    """Prove that a symmetric matrix is positive semidefinite.

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

    Returns the eigenvalues, the eigenvectors and the radius: the k-th exact eigenvalue is within ``radius``
    of the k-th computed one. The radius is infinite if the proof fails, or if the matrix is not exactly
    symmetric.
    """
    n = matrix.shape[0]
    lam, vec = eigh(matrix)
    if not np.array_equal(matrix, matrix.T):
        return lam, vec, float("inf")
    # The error of a product is at most gamma times the product of the magnitudes, whose norm is at most the
    # product of their norms. Hence no further matrix product is needed.
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
        radius += 8.0 * n * n * TINY  # bound of the underflow errors of the products
    return lam, vec, radius if np.isfinite(radius) else float("inf")


def smallest_eigenvalue_lower(matrix: FloatArray) -> float:
    """Proven lower bound of the smallest eigenvalue of a symmetric matrix."""
    lam, _, radius = eigenvalue_enclosure(matrix)
    return float(np.nextafter(lam[0] - radius, -np.inf))


#: Distance of mu in :func:`largest_sum_upper` from its eigenvalue, in units of the loss of the definiteness
#: test. If it is smaller, the test fails more often; if it is larger, the bound is weaker.
DEFINITENESS_LOSSES = 4.0


def largest_sum_upper(matrix: FloatArray, count: float) -> tuple[float, float]:
    """Upper bound of ``<matrix, Z>`` over all Z with ``0 <= Z <= I`` and ``tr Z = count``.

    If ``mu·I + W W' - G`` is positive semidefinite, then ``<G, Z> <= count·mu + ||W||²`` for all these Z. The
    columns of W are multiples of the leading eigenvectors of G, and mu is slightly above the next eigenvalue.

    ``matrix`` must be exactly symmetric, and ``count`` non-negative and less than its side; ``count`` need
    not be an integer. Returns the bound (infinity if the proof fails) and an estimate of the spectral norm.
    """
    n, whole = matrix.shape[0], math.floor(count)
    size = float(np.max(np.sqrt(np.einsum("ij,ij->i", matrix, matrix)), initial=0.0))
    if not (0.0 <= count < n and math.isfinite(size)):
        return math.inf, size
    lam, vec = leading_pairs(matrix, whole + 1)
    size = max(size, float(np.max(np.abs(lam))))
    factor = vec[:, 1:] * np.sqrt(np.maximum(lam[1:] - lam[0], 0.0))
    test = factor @ factor.T
    test -= matrix
    squares = float(product_up(norm_upper(factor), norm_upper(factor)))
    # Rounding errors of the product and of the two sums, bounded in the Frobenius norm.
    rounding = sum_up(product_up(gamma(whole + 2), squares), product_up(2.0 * UNIT, norm_upper(test)))
    diagonal = np.diagonal(test)
    # The loss of the definiteness test is proportional to the diagonal of the tested matrix.
    loss = n * n * UNIT * float(np.max(np.abs(diagonal + lam[0]), initial=0.0))
    mu = float(lam[0]) + DEFINITENESS_LOSSES * (loss + n * UNIT * size + float(rounding))
    test.flat[:: n + 1] = diagonal + mu
    ends = product_up(2.0 * UNIT, float(np.max(np.abs(np.diagonal(test)), initial=0.0)))
    lost = 8.0 * n * (whole + 4) * TINY  # bound of the underflow errors of the product
    if not definite(test, shift=float(sum_up(rounding, ends, lost))):
        return math.inf, size
    base = math.nextafter(count * mu, math.inf)
    bound = float(sum_up(base, squares))
    return (bound if math.isfinite(bound) else math.inf), size
