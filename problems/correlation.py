"""Completion of a correlation matrix: maximise its smallest eigenvalue.

Some entries of a correlation matrix are known, exactly or up to a tolerance, the others are free. Find a
completion ``X`` with ``X - delta·I`` positive semidefinite. With ``X = Y + delta·I`` the known entries do not
depend on ``delta``, and the diagonal gives ``Y_ii <= 1 - delta``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas import PSD, ProblemError
from sdpfeas.dropin import ParametricFamily


@dataclass(frozen=True)
class CorrelationOptions:
    """Parameters: a correlation matrix with NaN for unknown entries, or the size of a random one."""

    matrix: list | None = None  # type: ignore[type-arg]
    n: int = 8
    missing: float = 0.5
    factors: int = 3
    tolerance: float = 0.0
    seed: int = 0


class Correlation(ParametricFamily):
    """Completions of a correlation matrix, indexed by their smallest eigenvalue.

    Parameters
    ----------
    matrix : array_like
        Symmetric, NaN for unknown entries; the diagonal is ignored.
    tolerance : float
        Largest deviation of the known entries.
    """

    name = "correlation"
    Options = CorrelationOptions

    def __init__(self, matrix: Any, tolerance: float = 0.0) -> None:
        given = np.array(matrix, dtype=np.float64)
        if given.ndim != 2 or given.shape[0] != given.shape[1]:
            raise ProblemError(f"matrix must be square, got shape {given.shape}")
        n = given.shape[0]
        i, j = np.triu_indices(n, 1)
        known = np.isfinite(given[i, j])
        i, j, values = i[known], j[known], given[i, j][known]
        k = np.arange(values.size)
        place = (np.concatenate([k, k]), np.concatenate([i * n + j, j * n + i]))
        entries = sp.csr_array((np.full(2 * k.size, 0.5), place), (k.size, n * n))
        d = np.arange(n)
        diagonal = sp.csr_array((np.ones(n), (d, d * n + d)), (n, n * n))
        zeros = np.zeros(k.size)
        super().__init__(
            [PSD(n)],
            [sp.vstack([entries, diagonal])],
            [None],
            np.concatenate([values - tolerance, np.full(n, -np.inf)]),
            np.concatenate([values + tolerance, np.ones(n)]),
            upper_slope=np.concatenate([zeros, -np.ones(n)]),
            monotone="X - delta·I positive semidefinite implies the same for every smaller delta",
            bracket=(-np.inf, 1.0),
            block_names=["Y"],
        )

    @classmethod
    def build(cls, options: CorrelationOptions) -> "Correlation":
        """Take the matrix as given, or draw one and hide some of its entries."""
        if options.matrix is not None:
            return cls(options.matrix, options.tolerance)
        rng = np.random.default_rng(options.seed)
        loading = rng.standard_normal((options.n, options.factors))
        covariance = loading @ loading.T + 0.5 * np.eye(options.n)
        size = np.sqrt(np.diagonal(covariance))
        matrix = covariance / size[:, None] / size
        hidden = np.triu(rng.random(matrix.shape) < options.missing, 1)
        matrix[hidden | hidden.T] = np.nan
        return cls(matrix, options.tolerance)

    @classmethod
    def seeded(cls, options: CorrelationOptions) -> bool:
        """Return whether the matrix is random."""
        return options.matrix is None

    def completion(self, point: Any) -> np.ndarray:
        """Return the completed correlation matrix of a point."""
        y = point[0]
        out = np.array(y)
        np.fill_diagonal(out, 1.0)
        return out
