"""Orthogonal linear discriminant analysis (Ye, JMLR 2005), which works with singular scatters too."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sdpfeas.wlda.projection import LinearProjection, check_components

__all__ = ["OrthogonalLDA"]


class OrthogonalLDA(LinearProjection):
    """Diagonalise total, between-class and within-class scatter at once, then orthonormalise.

    Parameters
    ----------
    n_components : int, optional
        Number of new features; default: the rank of the between-class scatter.
    tol : float
        Singular values below this share of the largest count as zero.

    Attributes
    ----------
    components_ : ndarray
        Orthonormal rows, shape (n_components, n_features).
    """

    def __init__(self, n_components: int | None = None, tol: float = 1e-10) -> None:
        self.n_components = n_components
        self.tol = tol

    def fit(self, X: ArrayLike, y: ArrayLike) -> OrthogonalLDA:
        """Find the projection.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            One label a sample.
        """
        samples, index = self.checked_samples(X, y)
        centred = samples - self.mean_
        _, singular, right = np.linalg.svd(centred, full_matrices=False)
        rank = int(np.sum(singular > self.tol * singular[0]))
        if rank == 0:
            raise ValueError("every feature is constant: there is nothing to discriminate by")
        whiten = right[:rank].T / singular[:rank]
        weights = np.sqrt(np.bincount(index))
        between = whiten.T @ ((self.means_ - self.mean_) * weights[:, None]).T
        left, strength, _ = np.linalg.svd(between, full_matrices=False)
        # The strengths are canonical correlations: between zero and one, whatever the scale of the data.
        useful = int(np.sum(strength > self.tol)) or 1
        r = check_components(self.n_components, useful, useful)
        q, triangle = np.linalg.qr(whiten @ left[:, :r])
        self.components_ = (q * np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)).T
        return self
