"""One semidefinite cone: a slack, its dual, and their Nesterov–Todd scaling."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpfeas.linalg import FloatArray, eigh, eigvalsh, symmetrize

__all__ = ["Cone"]

#: From this size on step lengths come from Lanczos instead of all eigenvalues.
LANCZOS_SIZE = 150

#: Lanczos steps at most, how often to look, and the relative error that is good enough for a step length.
LANCZOS_STEPS, LANCZOS_CHECK, LANCZOS_ERROR = 60, 10, 0.005


class Cone:
    """The slack ``S = sign·X + offset·rho·I`` of a block X, and its dual U.

    ``rho`` is the size of the set: the homogenising variable, or a scale block. With the scaling ``R``,
    ``R^-1 S R^-T = R' U R = diag(lam)``. Directions of the block come in its own coordinates, of which
    ``basis`` makes those of this cone.

    Parameters
    ----------
    n : int
        Side of the matrices.
    sign, offset : float
        Which slack it is.
    slack, dual : ndarray
        Where to start; positive definite.

    Raises
    ------
    numpy.linalg.LinAlgError
        If slack or dual is not positive definite.
    """

    def __init__(self, n: int, sign: float, offset: float, slack: FloatArray, dual: FloatArray) -> None:
        self.n, self.sign, self.offset = n, sign, offset
        self.slack, self.dual = slack, dual
        lower = scipy.linalg.cholesky(self.slack, lower=True, check_finite=False)
        half = _triangular_product(lower, self.dual, transposed=True)
        squares, vec = eigh(_triangular_product(lower, half.T, transposed=True))
        if not squares[0] > 0.0:
            raise np.linalg.LinAlgError("the dual slack is not positive definite")
        #: Scaled eigenvalues of both slacks.
        self.lam: FloatArray = np.sqrt(squares)
        root = np.sqrt(self.lam)
        #: The scaling R and its inverse.
        self.scaling: FloatArray = _triangular_product(lower, vec) / root
        self.inverse: FloatArray = (
            root[:, None]
            * scipy.linalg.solve_triangular(lower, vec, lower=True, trans="T", check_finite=False).T
        )
        #: ``R^-1 R^-T``, the identity in the coordinates of the cone.
        self.identity: FloatArray | None = self.inverse @ self.inverse.T if self.offset else None
        #: ``B`` with ``R^-1 X R^-T = B x B'`` for a matrix x in the coordinates of the block; None for I.
        self.basis: FloatArray | None = None
        self._target: FloatArray = np.zeros((self.n, self.n))
        self._scaled: tuple[FloatArray, FloatArray] = (self._target, self._target)

    @property
    def complementarity(self) -> float:
        """Inner product of slack and dual."""
        return float(self.lam @ self.lam)

    def aim(self, centre: float, corrected: bool) -> None:
        """Set the right-hand side of the scaled complementarity equation ``ds + du = target``.

        Parameters
        ----------
        centre : float
            Value the products of the pair should move to.
        corrected : bool
            Whether to take the last direction into account (Mehrotra's corrector).
        """
        self._target = np.diag(centre / self.lam - self.lam)
        if corrected:
            # The last direction had ds + du = -diag(lam), so that -(ds du + du ds) / 2 is a square and more.
            ds = self._scaled[0]
            self._target += ds @ ds.T * (2.0 / (self.lam[:, None] + self.lam[None, :])) + ds

    def pulled(self, eta: float) -> FloatArray:
        """``B' (target + eta·diag(lam)) B``: the target beside a part of the present dual."""
        out = np.array(self._target)
        out[np.diag_indices(self.n)] += eta * self.lam
        return out if self.basis is None or not out.any() else self.basis.T @ out @ self.basis

    def set_direction(self, x: FloatArray, drho: float) -> None:
        """Compute the scaled directions of slack and dual from those of the block and of its size."""
        ds = self.sign * (x if self.basis is None else self.basis @ x @ self.basis.T)
        if self.identity is not None:
            ds = ds + (self.offset * drho) * self.identity
        ds = symmetrize(ds)
        self._scaled = (ds, self._target - ds)

    def size_gradient(self) -> FloatArray | None:
        """``sign·offset·P²``, with ``P = R^-T R^-1``, in the coordinates of the block."""
        if self.identity is None:
            return None
        root = self.inverse if self.basis is None else self.basis.T @ self.inverse
        return self.sign * self.offset * (root @ root.T)

    def size_curvature(self) -> float:
        """``offset² tr P²``."""
        return 0.0 if self.identity is None else self.offset**2 * float(np.sum(self.identity**2))

    def size_target(self) -> float:
        """``offset·tr(R^-T target R^-1)``."""
        return 0.0 if self.identity is None else self.offset * float(np.vdot(self.identity, self._target))

    def step_limit(self) -> float:
        """Longest step along the directions that stays in the cone (at least nearly)."""
        root = 1.0 / np.sqrt(self.lam)
        lowest = min(_lowest(d * root[:, None] * root[None, :]) for d in self._scaled)
        return np.inf if lowest >= 0.0 else -1.0 / lowest

    def moved(self, step: float, dx: FloatArray, drho: float) -> Cone:
        """Return the cone after a step along the directions.

        Parameters
        ----------
        step : float
            Its length.
        dx, drho : ndarray, float
            Directions of the block, in the coordinates of the problem, and of its size.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the step leaves the cone.
        """
        slack = self.slack + (step * self.sign) * dx
        slack[np.diag_indices(self.n)] += step * self.offset * drho
        dual = self.dual + step * symmetrize(self.inverse.T @ self._scaled[1] @ self.inverse)
        return Cone(self.n, self.sign, self.offset, slack, dual)


def _triangular_product(lower: FloatArray, matrix: FloatArray, transposed: bool = False) -> FloatArray:
    """``L A``, or ``L' A``, at half the cost of a full product."""
    out: FloatArray = scipy.linalg.blas.dtrmm(1.0, lower, matrix, lower=1, trans_a=int(transposed))
    return out


def _lowest(matrix: FloatArray) -> float:
    """Smallest eigenvalue of a symmetric matrix, or a little below it (as far as Lanczos can tell)."""
    n = matrix.shape[0]
    if n < LANCZOS_SIZE:
        return float(eigvalsh(matrix)[0])
    basis = np.empty((LANCZOS_STEPS + 1, n))
    start = np.random.default_rng(0).standard_normal(n)
    basis[0] = start / np.linalg.norm(start)
    diagonal, off = np.empty(LANCZOS_STEPS), np.empty(LANCZOS_STEPS)
    lowest = 0.0
    for k in range(LANCZOS_STEPS):
        w = matrix @ basis[k]
        diagonal[k] = w @ basis[k]
        # Twice: after one pass rounding leaves enough of the old vectors to come back as ghosts.
        for _ in range(2):
            w -= basis[: k + 1].T @ (basis[: k + 1] @ w)
        off[k] = np.linalg.norm(w)
        finished = k == LANCZOS_STEPS - 1 or off[k] <= 1e-14 * abs(diagonal[k])
        if finished or k % LANCZOS_CHECK == LANCZOS_CHECK - 1:
            values, vectors = scipy.linalg.eigh_tridiagonal(diagonal[: k + 1], off[:k])
            error = off[k] * abs(vectors[-1, 0])
            lowest = float(values[0] - error)
            if finished or error <= LANCZOS_ERROR * abs(values[0]) or values[0] > error:
                break
        basis[k + 1] = w / off[k]
    return lowest
