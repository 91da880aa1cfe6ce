"""A proven bound of the sum of the largest eigenvalues, from one Cholesky factor.

If ``mu·I + W W' - G`` is positive semidefinite, then ``<G, Z> <= trace·mu + |W|²`` for every Z with
``0 <= Z <= I`` and that trace. With the columns of W along the leading eigenvectors of G, and mu at the next
eigenvalue, that is the sum of the largest eigenvalues up to the accuracy of these few.
"""

from __future__ import annotations

import math

import numpy as np

from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray, leading_pairs
from sdpfeas.numerics.rounding import (
    TINY,
    UNIT,
    definite,
    gamma,
    norm_upper,
    product_up,
    sum_up,
)

__all__ = ["largest_sum_upper"]

#: How far mu is above the eigenvalue it belongs to, in units of what the test of definiteness gives away.
ROOM = 4.0


def largest_sum_upper(matrix: FloatArray, count: float) -> tuple[float, float]:
    """Upper bound of ``<matrix, Z>`` over all Z with ``0 <= Z <= I`` and ``tr Z = count``.

    Parameters
    ----------
    matrix : ndarray
        Symmetric matrix; nothing is proved about one that is not, to the last bit.
    count : float
        The trace, non-negative and less than the side of the matrix; it need not be an integer.

    Returns
    -------
    bound : float
        The bound; infinity if not proven.
    size : float
        About the largest magnitude of an eigenvalue.
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
