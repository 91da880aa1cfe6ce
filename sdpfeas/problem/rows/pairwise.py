"""Rows made of the differences of all pairs of means."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.rows.base import Read, Rows, State, fractions, frozen, outer_squares, sealed
from sdpfeas.problem.rows.compose import Combined, selection
from sdpfeas.problem.rows.low_rank import FactorRows, LowRank
from sdpfeas.problem.validation import float_array, require_finite

__all__ = ["PairwiseDifference", "pair_indices"]


@lru_cache(maxsize=32)
def pair_indices(c: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices i < j of all pairs out of c, in lexicographic order, read-only."""
    i, j = np.triu_indices(c, 1)
    return sealed(i), sealed(j)


class PairwiseDifference(FactorRows):
    """Rows ``(m_i - m_j)(m_i - m_j)'`` for all pairs i < j of the given means, in lexicographic order.

    ``apply(Z)`` returns the squared distances of the means in the metric Z. ``adjoint(y)`` is ``M' L M`` with
    the means as rows of M and the graph Laplacian L of the weights y. Neither forms the rows.

    Parameters
    ----------
    means : array_like
        Shape (c, n), one mean per row; c >= 2.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> rows = sf.PairwiseDifference([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    >>> print(rows.apply(np.eye(2)).round(12))
    [ 9. 16. 25.]
    """

    kind = "pairwise-difference"
    _factors_stored = 2

    def __init__(self, means: ArrayLike) -> None:
        data = float_array(means, "means")
        if data.ndim != 2 or data.shape[0] < 2 or data.shape[1] < 1:
            raise ProblemError(f"means must have shape (c, n) with c >= 2, got {data.shape}")
        require_finite(data, "means")
        self._means = frozen(data)
        self.c, self.n, self.matrix = *data.shape, True
        self.m = self.c * (self.c - 1) // 2

    def transformed(self, transform: FloatArray) -> PairwiseDifference:
        """Return the rows ``T A_i T'``, unchecked; their means are centred.

        Parameters
        ----------
        transform : ndarray
            The matrix T.
        """
        rows = type(self).__new__(type(self))
        rows.c, rows.m, rows.n, rows.matrix = self.c, self.m, transform.shape[0], True
        rows._means = self._centred @ transform.T
        return rows

    @property
    def means(self) -> FloatArray:
        """The means, read-only."""
        return self._means

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices i and j of every row, read-only."""
        return pair_indices(self.c)

    @cached_property
    def _centred(self) -> FloatArray:
        # Differences are invariant under a common shift; centred means have smaller rounding errors.
        return self._means - self._means.mean(axis=0)

    def differences(self) -> FloatArray:
        """Return ``m_i - m_j`` for every row, shape (m, n)."""
        return self._factors_at(slice(None))

    @property
    def factor_count(self) -> int:
        """Number of differences."""
        return self.m

    def _factors_at(self, place: slice | np.ndarray) -> FloatArray:
        i, j = self.pairs
        return np.asarray(self._means[i[place]] - self._means[j[place]])

    def _weights(self, y: FloatArray, magnitude: bool = False) -> FloatArray:
        return y

    def _sum_by_row(self, values: FloatArray, magnitude: bool = False) -> FloatArray:
        return values

    def apply(self, x: FloatArray) -> FloatArray:
        """Return the squared distances of the means in the metric ``x``."""
        gram = self._centred @ x @ self._centred.T
        diagonal = np.diagonal(gram)
        i, j = self.pairs
        return diagonal[i] + diagonal[j] - gram[i, j] - gram[j, i]

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Return ``M' L M`` with the graph Laplacian L of the weights."""
        i, j = self.pairs
        laplacian = np.zeros((self.c, self.c))
        laplacian[i, j] = laplacian[j, i] = -y
        laplacian.flat[:: self.c + 1] = -laplacian.sum(axis=1)
        return symmetrize(self._centred.T @ laplacian @ self._centred)

    def to_csr(self, magnitude: bool = False) -> Any:
        """Return all rows as one CSR array."""
        differences = self.differences()
        return sp.csr_array(outer_squares(np.abs(differences) if magnitude else differences))

    def _plain_norms(self) -> FloatArray:
        # The squared distance of the two means.
        from scipy.spatial.distance import pdist  # slow to import

        return np.asarray(pdist(self._means, "sqeuclidean"), dtype=np.float64)

    def units(self) -> tuple[Rows, np.ndarray]:
        """Return the units of the equal ``LowRank`` rows."""
        return LowRank.from_stacked(self.differences(), np.ones(self.m), np.arange(self.m), self.m).units()

    def _select(self, index: np.ndarray) -> Rows:
        return selection(self, index)

    def scaled(self, factors: FloatArray) -> Rows:
        """Return the rows multiplied by ``factors``, as ``Combined``."""
        every = np.arange(self.m + 1)
        return Combined(sp.csr_array((factors, every[:-1], every), (self.m, self.m)), self)

    def _gram(self) -> FloatArray:
        d = self.differences()
        return (d @ d.T) ** 2

    def exact_row(self, i: int, read: Read = Fraction) -> np.ndarray:
        """Return row ``i`` in rational arithmetic."""
        a, b = self.pairs
        d = fractions(self._means[a[i]], read) - fractions(self._means[b[i]], read)
        return np.outer(d, d)

    def state(self) -> State:
        """Return the means."""
        return {}, {"means": self._means}, []

    @classmethod
    def from_state(cls, numbers: dict[str, Any], arrays: dict[str, np.ndarray], children: list[Rows]) -> Rows:
        """Build rows from the output of :meth:`state`."""
        return cls(arrays["means"])

    @property
    def depths(self) -> tuple[int, int]:
        """Number of chained roundings in one entry of ``stable_apply`` and of ``stable_adjoint``."""
        # Two roundings more than LowRank: each factor is itself a rounded difference.
        return 2 * self.n + 7, self.m + 12
