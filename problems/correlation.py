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
        self._i, self._j, values = i[known], j[known], given[i, j][known]
        self._low, self._high = values - tolerance, values + tolerance
        k = np.arange(values.size)
        place = (np.concatenate([k, k]), np.concatenate([self._i * n + self._j, self._j * n + self._i]))
        entries = sp.csr_array((np.full(2 * k.size, 0.5), place), (k.size, n * n))
        d = np.arange(n)
        diagonal = sp.csr_array((np.ones(n), (d, d * n + d)), (n, n * n))
        zeros = np.zeros(k.size)
        super().__init__(
            [PSD(n)],
            [sp.vstack([entries, diagonal])],
            [None],
            np.concatenate([self._low, np.full(n, -np.inf)]),
            np.concatenate([self._high, np.ones(n)]),
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

    def project_point(self, point: Any) -> Any:
        """Set the known entries, then shift along the identity until the smallest eigenvalue is zero."""
        y = np.array(point[0])
        y[self._i, self._j] = np.clip(y[self._i, self._j], self._low, self._high)
        y[self._j, self._i] = y[self._i, self._j]
        return (y - np.linalg.eigvalsh(y)[0] * np.eye(len(y)),)

    def point_at(self, point: Any, delta: float) -> Any:
        """Move into the interior along the identity, as far as the bounds of the diagonal allow."""
        y = np.array(point[0])
        slack = 1.0 - delta - float(np.max(np.diagonal(y)))
        return (y + max(slack, 0.0) * (1.0 - 1e-6) * np.eye(len(y)),)

    def normalise_multipliers(self, y: np.ndarray) -> np.ndarray:
        """Lower the multipliers of the diagonal until ``A*y`` is negative definite."""
        n = self.sets[0].n
        y = y / float(np.max(np.abs(y)))
        y[-n:] = np.minimum(y[-n:], 0.0)
        g = self.at(0.0).adjoint(y)[0]
        top = float(np.linalg.eigvalsh(g)[-1])
        y[-n:] -= max(top, 0.0) + 1e-13 * n
        return y

    def initial_points(self) -> list[Any]:
        """Return the zero matrix."""
        return [(np.zeros(self.sets[0].shape),)]
