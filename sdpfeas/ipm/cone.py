"""One semidefinite cone: a slack, its dual, and their Nesterov–Todd scaling."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackError, eigsh

from sdpfeas.linalg import FloatArray, eigh, eigvalsh, symmetrize

__all__ = ["Cone"]

#: From this size on step lengths come from Lanczos instead of all eigenvalues.
LANCZOS_SIZE = 150


class Cone:
    """The slack ``S = sign·X + offset·rho·I`` of a block X, and its dual U.

    ``rho`` is the size of the set: the homogenising variable, or a scale block. With the scaling ``R``,
    ``R^-1 S R^-T = R' U R = diag(lam)``.

    Parameters
    ----------
    n : int
        Side of the matrices.
    sign, offset : float
        Which slack it is.
    slack, dual : ndarray
        Where to start; positive definite.
    """

    def __init__(self, n: int, sign: float, offset: float, slack: FloatArray, dual: FloatArray) -> None:
        self.n, self.sign, self.offset = n, sign, offset
        self.slack, self.dual = slack, dual
        self.rescale()

    def rescale(self) -> None:
        """Recompute the scaling.

        Raises
        ------
        numpy.linalg.LinAlgError
            If slack or dual has left the cone.
        """
        lower = scipy.linalg.cholesky(self.slack, lower=True, check_finite=False)
        inner = symmetrize(lower.T @ self.dual @ lower)
        squares, vec = eigh(inner)
        if not squares[0] > 0.0:
            raise np.linalg.LinAlgError("the dual slack is not positive definite")
        #: Scaled eigenvalues of both slacks.
        self.lam: FloatArray = np.sqrt(squares)
        root = np.sqrt(self.lam)
        #: The scaling R and its inverse.
        self.scaling: FloatArray = (lower @ vec) / root
        self.inverse: FloatArray = (
            root[:, None]
            * scipy.linalg.solve_triangular(lower, vec, lower=True, trans="T", check_finite=False).T
        )
        self.dslack = self.ddual = np.zeros_like(self.slack)
        self._scaled: tuple[FloatArray, FloatArray] = (self.dslack, self.ddual)

    @property
    def complementarity(self) -> float:
        """Inner product of slack and dual."""
        return float(self.lam @ self.lam)

    def inverse_square(self) -> FloatArray:
        """``P P`` with ``P = R^-T R^-1``."""
        p = self.inverse.T @ self.inverse
        return p @ p

    def target(self, centre: float, corrected: bool) -> FloatArray:
        """Right-hand side of the scaled complementarity equation ``ds + du = target``.

        Parameters
        ----------
        centre : float
            Value the products of the pair should move to.
        corrected : bool
            Whether to take the last direction into account (Mehrotra's corrector).
        """
        out = np.diag(centre - self.lam**2)
        if corrected:
            ds, du = self._scaled
            out -= symmetrize(ds @ du)
        return out * (2.0 / (self.lam[:, None] + self.lam[None, :]))

    def pull(self, target: FloatArray) -> FloatArray:
        """``R^-T target R^-1``: what a target contributes to the dual slack."""
        return symmetrize(self.inverse.T @ target @ self.inverse)

    def set_direction(self, target: FloatArray, dx: FloatArray, drho: float) -> None:
        """Compute the directions of both slacks from the one of the block and of its size."""
        dslack = self.sign * dx
        dslack[np.diag_indices(self.n)] += self.offset * drho
        ds = symmetrize(self.inverse @ dslack @ self.inverse.T)
        du = target - ds
        self.dslack = dslack
        self.ddual = symmetrize(self.inverse.T @ du @ self.inverse)
        self._scaled = (ds, du)

    def step_limit(self) -> float:
        """Longest step along the directions that stays in the cone (at least nearly)."""
        root = 1.0 / np.sqrt(self.lam)
        lowest = min(_lowest(d * root[:, None] * root[None, :]) for d in self._scaled)
        return np.inf if lowest >= 0.0 else -1.0 / lowest

    def move(self, step: float) -> None:
        """Take a step along the directions."""
        self.slack = self.slack + step * self.dslack
        self.dual = self.dual + step * self.ddual


def _lowest(matrix: FloatArray) -> float:
    """Smallest eigenvalue, or a little below it."""
    n = matrix.shape[0]
    if n < LANCZOS_SIZE:
        return float(eigvalsh(symmetrize(matrix))[0])
    start = np.random.default_rng(0).standard_normal(n)
    try:
        values, vectors = eigsh(symmetrize(matrix), k=1, which="SA", tol=1e-3, v0=start, maxiter=300)
    except ArpackError:
        return float(eigvalsh(symmetrize(matrix))[0])
    residual = matrix @ vectors[:, 0] - values[0] * vectors[:, 0]
    return float(values[0] - np.linalg.norm(residual))
