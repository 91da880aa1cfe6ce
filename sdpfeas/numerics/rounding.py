"""Proofs in floating-point arithmetic.

Everything here returns bounds that hold in real arithmetic although they were computed with rounding
(to nearest, IEEE double precision). Four tools are enough for the verifier:

* products, quotients, sums and differences of bounds that are rounded to the safe side (``product_up`` and
  its kin);
* a-priori bounds on sums of products (``gamma``);
* a definiteness test: if the floating-point Cholesky factorisation of a slightly shifted matrix runs
  through, the matrix is positive definite (Rump, "Verification of positive definiteness", BIT 2006);
* enclosures of all eigenvalues from a computed eigensystem (Ostrowski's theorem and Weyl's inequality).

Two errors have to be told apart. Rounding is relative, and ``gamma`` and ``inflate`` cover it. Underflow is
absolute: a product of two numbers that are not zero may come out as zero, and no factor makes up for that.
Sums and differences never underflow, so only products and quotients have to be looked after.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.linalg

from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.linalg import FloatArray, eigh, leading_pairs

#: Unit roundoff of IEEE double precision.
UNIT = 2.0**-53
#: Smallest positive normal number; bounds the absolute error of an operation that underflows.
TINY = float(np.finfo(np.float64).tiny)

#: Entries that are worked on at a time where arrays may fill most of the memory.
STRIP = 1_000_000


def gamma(k: float) -> float:
    """Bound on the relative error of ``k`` chained roundings, ``k u / (1 - k u)``, rounded up."""
    ku = k * UNIT
    if ku >= 0.25:
        return float("inf")
    return ku / (1.0 - ku) * (1.0 + 8.0 * UNIT)


def inflate(bound: FloatArray | float, k: float) -> FloatArray:
    """Round up a non-negative ``bound`` that was computed with ``k`` chained roundings; zero stays zero.

    A product in it that underflows to zero is lost: take ``product_up`` for that.
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
    # Exact but among the smallest numbers.
    return np.where((array != 0.0) & (moved < TINY), np.nextafter(moved, np.inf), moved)


def sqrt_upper(number: float) -> float:
    """Upper bound of a square root."""
    return math.nextafter(math.sqrt(number), math.inf)


def in_strips(combine: Callable[..., FloatArray], own: FloatArray, *others: FloatArray | float) -> FloatArray:
    """Combine arrays of one shape, or numbers, entry by entry; the first array may be written over.

    A large one is, strip by strip: bounds of a matrix that fills most of the memory have to fit beside it.
    """
    if own.size <= STRIP or not own.flags.c_contiguous:
        return np.asarray(combine(own, *others))
    flat = [np.ravel(part) if isinstance(part, np.ndarray) and part.ndim else part for part in others]
    out = own.reshape(-1)
    for start in range(0, out.size, STRIP):
        place = slice(start, start + STRIP)
        parts = (part[place] if isinstance(part, np.ndarray) else part for part in flat)
        out[place] = combine(out[place], *parts)
    return own


def sum_up(*terms: FloatArray | float) -> FloatArray:
    """Upper bound of a sum; where all terms but one are zero it is that one."""
    out = np.asarray(terms[0], dtype=np.float64)
    for term in terms[1:]:
        exact = (out == 0.0) | (np.asarray(term) == 0.0)
        total = out + term
        out = np.where(exact, total, np.nextafter(total, np.inf))
    return out


def sum_radius(first: FloatArray, second: FloatArray, value: FloatArray) -> FloatArray:
    """Radius of a sum that came out as ``value``, from those of its two terms."""
    return sum_up(first, second, product_up(2.0 * UNIT, np.abs(value)))


def difference_down(a: FloatArray | float, b: FloatArray | float) -> FloatArray:
    """Lower bound of ``a - b``; zero where they are equal."""
    apart = np.asarray(a, dtype=np.float64) - b
    return np.where(apart == 0.0, 0.0, np.nextafter(apart, -np.inf))


def norms_upper(vectors: FloatArray) -> FloatArray:
    """Upper bounds of the Euclidean norms of the rows of a matrix; zero only where a row is."""
    # Scaled by powers of two, so that squaring neither overflows nor loses anything that counts.
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


def definite(matrix: FloatArray, *, shift: float = 0.0, graded: bool = True) -> bool:
    """Prove that ``matrix - shift·I`` is positive definite (strictly).

    The matrix is first scaled from both sides by powers of two, so that its diagonal is near one: that
    is exact, keeps definiteness, and lets the test succeed on graded matrices. Without that the test gives
    away a share of the trace, which is better where few eigenvalues are large.

    ``matrix``: symmetric matrix; nothing is proved about one that is not, to the last bit. ``shift``:
    non-negative shift, taken off the diagonal before the test. ``graded``: whether to scale the matrix row
    by row, or as a whole.

    Returns: true is a proof; False means "not proven".
    """
    n = matrix.shape[0]
    if n == 0:
        return True
    need("a proof of definiteness", products=float(n) ** 3, numbers=8.0 * n * n)
    diagonal = np.diagonal(matrix)
    # The factorisation reads one triangle only, and LAPACK need not notice what is not a number.
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
    scaled = np.outer(scale, scale)
    scaled *= matrix
    diag = lowered * scale * scale
    np.fill_diagonal(scaled, diag)
    # The largest entry of a definite matrix is on its diagonal; beyond that Cholesky would overflow.
    if not np.max(np.abs(scaled)) <= np.max(diag):
        return False
    # Underflow in the scaling of off-diagonal entries is at most TINY an entry.
    # Two roundings more than in Rump's bound: some libraries multiply by reciprocals of the pivots.
    phi = gamma(n + 3) / (1.0 - gamma(n + 3))
    c = float(inflate(phi * float(np.sum(diag)), n + 4)) + 8.0 * n * (n + 4) * TINY
    shifted = np.nextafter(diag - c, -np.inf)
    if not np.all(shifted > 0.0):
        return False
    np.fill_diagonal(scaled, shifted)
    factor, info = scipy.linalg.lapack.dpotrf(scaled.T, lower=1, clean=0, overwrite_a=1)
    # A pivot that is not a number stops some libraries and not others.
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

    ``matrix``: symmetric matrix; nothing is proved about one that is not, to the last bit.

    Returns: the k-th exact eigenvalue is within ``radius`` of the k-th computed one; infinity if not
    proven.
    """
    n = matrix.shape[0]
    need("an enclosure of eigenvalues", products=3.0 * float(n) ** 3, cubes=float(n) ** 3)
    lam, vec = eigh(matrix)
    if not np.array_equal(matrix, matrix.T):
        return lam, vec, float("inf")
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
    """Proven lower bound of the smallest eigenvalue of a symmetric matrix."""
    lam, _, radius = eigenvalue_enclosure(matrix)
    return float(np.nextafter(lam[0] - radius, -np.inf))


# --- upper bound of the sum of the largest eigenvalues, from one Cholesky factor
#
# If ``mu·I + W W' - G`` is positive semidefinite, then ``<G, Z> <= trace·mu + |W|²`` for every Z with ``0
# <= Z <= I`` and that trace. With the columns of W along the leading eigenvectors of G, and mu at the next
# eigenvalue, that is the sum of the largest eigenvalues up to the accuracy of these few.

#: How far mu is above the eigenvalue it belongs to, in units of what the test of definiteness gives away.
ROOM = 4.0


def largest_sum_upper(matrix: FloatArray, count: float) -> tuple[float, float]:
    """Upper bound of ``<matrix, Z>`` over all Z with ``0 <= Z <= I`` and ``tr Z = count``.

    ``matrix``: symmetric matrix; nothing is proved about one that is not, to the last bit. ``count``: the
    trace, non-negative and less than the side of the matrix; it need not be an integer.

    Returns: about the largest magnitude of an eigenvalue.
    """
    n, whole = matrix.shape[0], math.floor(count)
    size = float(np.max(np.sqrt(np.einsum("ij,ij->i", matrix, matrix)), initial=0.0))
    need("a bound of eigenvalues", products=float(n) ** 3, numbers=8.0 * n * n)
    if not (0.0 <= count < n and math.isfinite(size)):
        return math.inf, size
    lam, vec = leading_pairs(matrix, whole + 1)
    size = max(size, float(np.max(np.abs(lam))))
    factor = vec[:, 1:] * np.sqrt(np.maximum(lam[1:] - lam[0], 0.0))
    test = factor @ factor.T
    test -= matrix
    squares = float(product_up(norm_upper(factor), norm_upper(factor)))
    # Every entry of the product and of the two sums is rounded; each norm bounds that of its roundings.
    rounding = sum_up(product_up(gamma(whole + 2), squares), product_up(2.0 * UNIT, norm_upper(test)))
    diagonal = np.diagonal(test)
    # What the test gives away is in proportion to the diagonal of what it tests.
    given = n * n * UNIT * float(np.max(np.abs(diagonal + lam[0]), initial=0.0))
    mu = float(lam[0]) + ROOM * (given + n * UNIT * size + float(rounding))
    test.flat[:: n + 1] = diagonal + mu
    ends = product_up(2.0 * UNIT, float(np.max(np.abs(np.diagonal(test)), initial=0.0)))
    lost = 8.0 * n * (whole + 4) * TINY  # what underflow may have taken from the product
    if not definite(test, shift=float(sum_up(rounding, ends, lost))):
        return math.inf, size
    base = math.nextafter(count * mu, math.inf)
    bound = float(sum_up(base, squares))
    return (bound if math.isfinite(bound) else math.inf), size
