"""Dense symmetric linear algebra: symmetrising, eigenvalues, Cholesky factors, packed triangles (svec)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.csgraph
import scipy.sparse.linalg
from numpy.typing import NDArray

from sdpfeas.numerics.limits import EIGEN_FLOPS, WRITE_FLOPS, guard

FloatArray = NDArray[np.float64]

#: Entries may differ from their mirror image by this much, relative to the largest entry of the
#: matrix, and still count as symmetric up to rounding.
SYMMETRY_TOLERANCE = 1e-10

#: Inverse Lanczos iteration in :func:`smallest`: smallest side, vectors kept, and relative error at which it
#: stops.
INVERSE_SIZE, INVERSE_VECTORS, INVERSE_ERROR = 120, 10, 0.1

#: Side from which computing a few eigenvectors is faster than computing all.
PARTIAL_SIZE = 100


#: Side of the tiles in which a large matrix and its transpose are read: two tiles fit into the cache.
TILE = 128


def symmetrize(matrix: FloatArray) -> FloatArray:
    """Return ``(matrix + matrix') / 2`` over the last two axes."""
    # Halving first: the sum of two huge entries would overflow.
    half = 0.5 * matrix
    if half.ndim > 2 or half.shape[-1] <= 8 * TILE:
        return np.asarray(half + half.swapaxes(-1, -2), dtype=np.float64)
    out = np.asarray(half, dtype=np.float64)
    for above, below in _mirrored_tiles(out.shape[0]):
        tile = out[above] + out[below].T
        out[above], out[below] = tile, tile.T
    return out


def asymmetry(matrix: FloatArray) -> float:
    """Return the largest ``|a_ij - a_ji|`` of a square matrix; NaN if there is one."""
    tiles = _mirrored_tiles(matrix.shape[0])
    return float(np.max([np.max(np.abs(matrix[above] - matrix[below].T)) for above, below in tiles]))


def _mirrored_tiles(n: int) -> Iterator[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Tiles of the upper triangle of an n×n matrix, each with its mirror image."""
    parts = [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]
    for k, rows in enumerate(parts):
        for columns in parts[k:]:
            yield (rows, columns), (columns, rows)


def check_input(matrix: FloatArray, flops: float, what: str = "an eigendecomposition") -> None:
    """Refuse a factorisation that exceeds the time left, or of a matrix that holds NaN or infinity."""
    guard(what, flops)
    if not np.isfinite(matrix).all():
        raise np.linalg.LinAlgError("matrix holds NaN or infinity")


def eigh(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the eigenvalues (ascending) and eigenvectors of a symmetric matrix.

    LAPACK's divide-and-conquer driver can fail to converge on badly scaled matrices; QR iteration is then
    tried. Raises ``numpy.linalg.LinAlgError`` if the matrix holds NaN or infinity, or neither converges.
    """
    check_input(matrix, EIGEN_FLOPS * matrix.shape[0] ** 3)
    # Call LAPACK directly: below a hundred rows SciPy's checks take a fifth of the time. The transpose is the
    # same matrix in Fortran order, which LAPACK copies fastest.
    lam, vec, info = scipy.linalg.lapack.dsyevd(matrix.T, lower=1)
    if info != 0:
        lam, vec = scipy.linalg.eigh(matrix, driver="ev", check_finite=False)
    return lam, vec


def eigvalsh(matrix: FloatArray) -> FloatArray:
    """Compute the eigenvalues (ascending) of a symmetric matrix.

    Raises ``numpy.linalg.LinAlgError`` as :func:`eigh` does.
    """
    check_input(matrix, 0.5 * EIGEN_FLOPS * matrix.shape[0] ** 3)
    lam: FloatArray
    # With a smaller workspace the reduction to tridiagonal form is not blocked.
    lam, _, info = scipy.linalg.lapack.dsyevd(matrix.T, compute_v=0, lower=1, lwork=66 * matrix.shape[0] + 1)
    return lam if info == 0 else scipy.linalg.eigvalsh(matrix, driver="ev", check_finite=False)


def outer_eigenvalues(matrix: FloatArray, error: float, both: bool = True) -> tuple[float, float]:
    """Bound the eigenvalues of a symmetric matrix from below and above, up to about ``error``.

    Bisection on the tridiagonal form computes the two extreme eigenvalues in a fraction of the time of all.
    The upper bound is infinite unless ``both``. Raises ``numpy.linalg.LinAlgError`` as :func:`eigh` does.
    """
    n = matrix.shape[0]
    check_input(matrix, 0.25 * EIGEN_FLOPS * n**3)
    if n < 2:
        return float(matrix[0, 0]) - error, float(matrix[0, 0]) + error
    _, diagonal, off, _, info = scipy.linalg.lapack.dsytrd(matrix.T, lower=1, lwork=64 * n)
    ends = [math.inf, math.inf]
    for k, place in enumerate((1, n)[: 1 + both]):
        if info == 0:
            by_place, entire = 2, "E"
            _, values, _, _, info = scipy.linalg.lapack.dstebz(
                diagonal, off, by_place, 0.0, 0.0, place, place, error, entire
            )
            ends[k] = float(values[0])
    if info != 0:
        values = eigvalsh(matrix)
        ends = [float(values[0]), float(values[-1])]
    return ends[0] - error, ends[1] + error


def leading_pairs(matrix: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Compute the ``count`` largest eigenvalues of a symmetric matrix, ascending, and their eigenvectors.

    Raises ``numpy.linalg.LinAlgError`` as :func:`eigh` does.
    """
    n = matrix.shape[0]
    count = min(count, n)
    if n < PARTIAL_SIZE or 3 * count > n:
        lam, vec = eigh(matrix)
        return lam[n - count :], vec[:, n - count :]
    check_input(matrix, 0.5 * EIGEN_FLOPS * n**3)
    lam, vec = scipy.linalg.eigh(matrix, subset_by_index=(n - count, n - 1), check_finite=False)
    return lam, vec


def cholesky(matrix: FloatArray) -> FloatArray:
    """Compute the lower Cholesky factor of a symmetric matrix.

    Raises ``numpy.linalg.LinAlgError`` if the matrix is not positive definite.
    """
    check_input(matrix, 0.5 * matrix.shape[0] ** 3, "a Cholesky factor")
    factor: FloatArray
    factor, info = scipy.linalg.lapack.dpotrf(matrix.T, lower=1, clean=1)
    # A pivot that overflows to NaN stops some LAPACK libraries and not others; it remains on the diagonal.
    if info != 0 or not math.isfinite(np.trace(factor)):
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return factor


def pseudoinverse(matrix: FloatArray) -> FloatArray:
    """Compute the pseudoinverse of a symmetric matrix; eigenvalues up to 1e-13 of the largest count as zero.

    Raises ``numpy.linalg.LinAlgError`` if the matrix holds NaN or infinity.
    """
    check_input(matrix, 1.5 * EIGEN_FLOPS * matrix.shape[0] ** 3)
    return np.asarray(scipy.linalg.pinvh(matrix, rtol=1e-13))


def smallest(matrix: FloatArray) -> float:
    """Estimate the smallest eigenvalue of a symmetric matrix.

    Raises ``numpy.linalg.LinAlgError`` as :func:`eigh` does.
    """
    n = matrix.shape[0]
    if n < INVERSE_SIZE:
        return float(eigvalsh(matrix)[0])
    try:
        factor = cholesky(matrix)
    except np.linalg.LinAlgError:
        return float(eigvalsh(matrix)[0])
    return smallest_of_factor(factor)


def smallest_of_factor(factor: FloatArray) -> float:
    """Estimate the smallest eigenvalue of a matrix with this lower Cholesky factor."""
    n = factor.shape[0]
    if n < INVERSE_SIZE:
        return float(np.linalg.norm(factor, -2)) ** 2
    return smallest_of_inverse(lambda x: scipy.linalg.lapack.dpotrs(factor, x, lower=1)[0], n)


def smallest_of_inverse(solve: Callable[[FloatArray], FloatArray], n: int) -> float:
    """Estimate the smallest eigenvalue of a definite matrix by the Lanczos method on its inverse.

    Returns 0.0 if the inverse overflows or the method does not converge.
    """
    start = np.random.default_rng(0).normal(size=n)
    if not np.isfinite(solve(start)).all():
        return 0.0
    inverse = scipy.sparse.linalg.LinearOperator((n, n), matvec=solve, dtype=np.float64)
    try:
        found = scipy.sparse.linalg.eigsh(
            inverse, 1, which="LA", v0=start, ncv=min(INVERSE_VECTORS, n), tol=INVERSE_ERROR
        )
    except scipy.sparse.linalg.ArpackError:
        return 0.0
    return float(1.0 / found[0][0])


def spectral_matrix(vec: FloatArray, lam: FloatArray) -> FloatArray:
    """Return ``vec diag(lam) vec'``, exactly symmetric."""
    return symmetrize((vec * lam) @ vec.T)


def random_orthogonal(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw a random orthogonal matrix."""
    q, r = np.linalg.qr(rng.normal(size=(n, n)))
    return np.asarray(q * np.sign(np.diagonal(r)))


# --- symmetric matrices as vectors: one triangle

Triangle = Literal["lower", "upper"]


def triangle_size(n: int) -> int:
    """Return the number of entries of one triangle of an n×n matrix."""
    return n * (n + 1) // 2


@lru_cache(maxsize=64)
def triangle_map(n: int, weight: float, triangle: Triangle = "lower") -> Any:
    """Map a packed triangle to the flattened matrix: 1 on the diagonal, ``weight`` at both mirrored entries.

    The triangle is packed column by column; "lower" is also the upper triangle row by row. With weight 1 the
    result T unpacks (``vec(X) = T x``), and ``T'`` adds mirrored entries; with weight 1/2, ``T'`` packs a
    symmetric matrix; with the root of 1/2 it is the isometry of :func:`svec_map`.
    """
    guard("the map of a triangle", 180.0 * WRITE_FLOPS * n**2, memory=80.0 * n**2)
    # Column-major in one triangle is row-major in the other.
    i, j = np.triu_indices(n) if triangle == "lower" else np.tril_indices(n)
    k = np.arange(i.size)
    value = np.where(i == j, 0.5, weight)  # on the diagonal the two halves fall on one entry
    place = (np.concatenate([i * n + j, j * n + i]), np.concatenate([k, k]))
    return sp.csc_array((np.concatenate([value, value]), place), shape=(n * n, i.size))


def unpack_triangle(entries: FloatArray, n: int) -> FloatArray:
    """Return the symmetric matrix with the given entries on and above its diagonal, row by row."""
    out = np.zeros((n, n))
    i, j = np.triu_indices(n)
    out[i, j] = out[j, i] = entries
    return out


def svec_map(n: int, triangle: Triangle) -> Any:
    """Return the sparse matrix T with ``vec(X) = T svec(X)``; its columns are orthonormal.

    Parameters
    ----------
    n : int
        Side of the matrix.
    triangle : {"lower", "upper"}
        Which triangle is stored, column by column; off-diagonal entries are scaled by the root of two.

    Examples
    --------
    >>> import numpy as np
    >>> T = svec_map(2, "lower")
    >>> svec = T.T @ np.ravel([[1.0, 2.0], [2.0, 3.0]])
    >>> np.allclose(svec, [1.0, 2.0 * np.sqrt(2.0), 3.0])
    True
    >>> np.allclose((T @ svec).reshape(2, 2), [[1.0, 2.0], [2.0, 3.0]])
    True
    """
    return triangle_map(n, np.sqrt(0.5), triangle)


#: Cost of a flop of a sparse factorisation, in multiply-adds of a dense product.
SPARSE_FLOPS = 8.0


def envelope(matrix: Any) -> tuple[float, float]:
    """Estimate entries and flops of a sparse factorisation: the envelope after reverse Cuthill-McKee
    ordering.
    """
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(sp.csr_array(matrix), symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    i, j = sp.coo_array(matrix).coords
    widths = np.zeros(matrix.shape[0])
    np.maximum.at(widths, place[i], (place[i] - place[j]).astype(np.float64))
    return float(np.sum(widths + 1.0)), float(np.sum((widths + 1.0) ** 2))


def sparse_factor(matrix: Any) -> Any:
    """Factorise a sparse symmetric matrix without pivoting, within the limits of time and memory."""
    entries, products = envelope(matrix)
    guard("a sparse factor", SPARSE_FLOPS * products + 20.0 * WRITE_FLOPS * entries, memory=64.0 * entries)
    return symmetric_lu(matrix, "a sparse factor")


def symmetric_lu(matrix: Any, what: str) -> Any:
    """Factorise a sparse symmetric matrix without pivoting; raises ``LinAlgError`` on a zero pivot.

    The matrix may be indefinite if its pivots cannot vanish (quasi-definite systems).
    """
    try:
        return scipy.sparse.linalg.splu(
            sp.csc_array(matrix),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError as error:
        raise np.linalg.LinAlgError(f"{what}: {error}") from None
