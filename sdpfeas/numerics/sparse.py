"""Sparse symmetric matrices: factors, and a proof of how large the smallest eigenvalue is at least."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.csgraph
import scipy.sparse.linalg

from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import TINY, UNIT, difference_down, gamma, inflate, product_up, sum_up

__all__ = ["envelope", "smallest_lower", "sparse_factor"]

#: Share of a computed smallest eigenvalue that is asked of its proof; the rest is left to rounding.
CAUTION = 0.5

#: Operations with single numbers that take as long as writing one.
PER_NUMBER = 2.0


def envelope(matrix: Any) -> tuple[float, float]:
    """Entries of a factor, and products it takes, where rows are ordered to lie close to the diagonal.

    Parameters
    ----------
    matrix : sparse array
        Symmetric matrix.
    """
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(sp.csr_array(matrix), symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    i, j = sp.coo_array(matrix).coords
    widths = np.zeros(matrix.shape[0])
    np.maximum.at(widths, place[i], (place[i] - place[j]).astype(np.float64))
    return float(np.sum(widths + 1.0)), float(np.sum((widths + 1.0) ** 2))


def sparse_factor(matrix: Any) -> Any:
    """Factors of a sparse symmetric matrix without regard to the size of its pivots.

    Parameters
    ----------
    matrix : sparse array
        Symmetric matrix.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a pivot is zero.
    """
    entries, products = envelope(matrix)
    need("a sparse factor", numbers=products / PER_NUMBER + 20.0 * entries, memory=64.0 * entries)
    try:
        return scipy.sparse.linalg.splu(
            sp.csc_array(matrix),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError as error:
        raise np.linalg.LinAlgError(f"a sparse factor: {error}") from None


def smallest_lower(matrix: Any, factor: Any) -> float:
    """Proven lower bound of the smallest eigenvalue of a sparse symmetric matrix; zero if none is positive.

    With ``c`` below a computed smallest eigenvalue, ``L D L'`` is formed from the computed factors of
    ``A - c·I``. If D is positive it is semidefinite whatever rounding did to it, and the smallest eigenvalue
    of A is at least c less the norm of the residual.

    Parameters
    ----------
    matrix : sparse array
        The matrix, exactly symmetric.
    factor : object
        From :func:`sparse_factor`, of the same matrix; it only has to help.
    """
    n = matrix.shape[0]
    coo = sp.coo_array(matrix)
    if not np.isfinite(coo.data).all():
        return 0.0
    inverse = scipy.sparse.linalg.LinearOperator((n, n), matvec=factor.solve, dtype=np.float64)
    try:
        start = np.random.default_rng(0).normal(size=n)
        least = scipy.sparse.linalg.eigsh(
            inverse, k=1, which="LA", tol=1e-2, v0=start, return_eigenvectors=False
        )
        shift = CAUTION / float(least[0])
        if not 0.0 < shift < np.inf:
            return 0.0
        shifted = sp.csc_array(matrix - shift * sp.eye_array(n))
        own = sparse_factor(shifted)
    except (np.linalg.LinAlgError, scipy.sparse.linalg.ArpackError, ZeroDivisionError):
        return 0.0
    missed = _residual_upper(shifted, own)
    largest = float(np.max(np.abs(coo.data), initial=0.0))
    rounding = product_up(4.0 * UNIT, sum_up(largest, shift))
    return max(float(difference_down(shift, sum_up(missed, rounding))), 0.0)


def _residual_upper(matrix: Any, factor: Any) -> float:
    """Bound of the norm of ``A - L D L'`` for computed factors; infinity if D is not positive."""
    lower, pivots = sp.csr_array(factor.L), np.asarray(factor.U.diagonal())
    order = factor.perm_r
    if not (np.array_equal(order, factor.perm_c) and np.all(pivots > 0.0) and np.isfinite(pivots).all()):
        return float("inf")
    if not np.isfinite(lower.data).all():
        return float("inf")
    coo = sp.coo_array(matrix)
    placed = sp.csr_array((coo.data, (order[coo.coords[0]], order[coo.coords[1]])), matrix.shape)
    product = (lower @ sp.diags_array(pivots)) @ lower.T
    left = np.asarray(abs(placed - product).sum(axis=1)).ravel()
    sizes: FloatArray = abs(lower) @ (pivots * (abs(lower).T @ np.ones(lower.shape[0])))
    depth = int(np.max(np.diff(lower.indptr), initial=0)) + 8
    count = lower.shape[0]
    # Rows are added up with as many roundings as they have entries, at most all.
    rounding = product_up(gamma(depth), inflate(np.max(sizes, initial=0.0), 2 * count))
    lost = float(count) * depth * TINY * (1.0 + float(np.max(pivots, initial=0.0)))
    return float(sum_up(inflate(np.max(left, initial=0.0), count + 2), rounding, lost))
