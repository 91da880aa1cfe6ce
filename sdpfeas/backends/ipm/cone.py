"""One semidefinite cone: a slack, its dual, and their Nesterov–Todd scaling."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpfeas.numerics.linalg import FloatArray, cholesky, eigh, outer_eigenvalues, spectral_matrix, symmetrize

__all__ = ["Cone", "extremes"]

#: From this size on step lengths come from Lanczos instead of all eigenvalues.
LANCZOS_SIZE = 150

#: Below it eigenvalues of scaled directions, which are of the order of one, are found to this error.
SCALED_ERROR = 1e-4

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
        lower = cholesky(slack)
        half = _triangular_product(lower, dual, transposed=True)
        squares, vec = eigh(_triangular_product(lower, half.T, transposed=True))
        if not squares[0] > 0.0:
            raise np.linalg.LinAlgError("the dual slack is not positive definite")
        lam = np.sqrt(squares)
        root = np.sqrt(lam)
        solved, _ = scipy.linalg.lapack.dtrtrs(lower, vec, lower=1, trans=1)
        scaling = _triangular_product(lower, vec) / root
        self._set(n, sign, offset, slack, dual, lam, scaling, root[:, None] * solved.T)

    @classmethod
    def diagonal(
        cls, vec: FloatArray, sign: float, offset: float, slack: FloatArray, dual: FloatArray
    ) -> Cone:
        """Cone whose slack and dual have the same eigenvectors; their eigenvalues say all the rest.

        Parameters
        ----------
        vec : ndarray
            The eigenvectors, one a column.
        sign, offset : float
            Which slack it is.
        slack, dual : ndarray
            Eigenvalues, positive.
        """
        if not (np.all(slack > 0.0) and np.all(dual > 0.0)):
            raise np.linalg.LinAlgError("slack or dual is not positive definite")
        root = (slack / dual) ** 0.25
        cone = cls.__new__(cls)
        full = spectral_matrix(vec, slack), spectral_matrix(vec, dual)
        cone._set(slack.size, sign, offset, *full, np.sqrt(slack * dual), vec * root, (vec / root).T)
        return cone

    def _set(
        self,
        n: int,
        sign: float,
        offset: float,
        slack: FloatArray,
        dual: FloatArray,
        lam: FloatArray,
        scaling: FloatArray,
        inverse: FloatArray,
    ) -> None:
        self.n, self.sign, self.offset = n, sign, offset
        self.slack, self.dual = slack, dual
        #: Scaled eigenvalues of both slacks.
        self.lam = lam
        #: The scaling R and its inverse.
        self.scaling, self.inverse = scaling, inverse
        #: ``R^-1 R^-T``, the identity in the coordinates of the cone.
        self.identity: FloatArray | None = inverse @ inverse.T if offset else None
        #: ``B`` with ``R^-1 X R^-T = B x B'`` for a matrix x in the coordinates of the block; None for I.
        self.basis: FloatArray | None = None
        self._target: FloatArray = np.zeros((n, n))
        self._scaled: tuple[FloatArray, FloatArray] = (self._target, self._target)
        #: Whether the direction is a predictor, which aims at zero.
        self._plain = False

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
        self._plain = centre == 0.0 and not corrected
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
        ds, du = (d * root[:, None] * root[None, :] for d in self._scaled)
        if self._plain:
            # ds + du = -I: what is high for one is low for the other.
            low, high = extremes(ds, both=True)
            lowest = min(low, -1.0 - high)
        else:
            lowest = min(extremes(ds, both=False)[0], extremes(du, both=False)[0])
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


def extremes(matrix: FloatArray, both: bool) -> tuple[float, float]:
    """Extreme eigenvalues of a symmetric matrix, or a little beyond them (as far as Lanczos can tell).

    Unless both are asked for the largest may be far off.
    """
    n = matrix.shape[0]
    if n < LANCZOS_SIZE:
        return outer_eigenvalues(matrix, SCALED_ERROR, both)
    basis = np.empty((LANCZOS_STEPS + 1, n))
    start = np.random.default_rng(0).standard_normal(n)
    basis[0] = start / np.linalg.norm(start)
    diagonal, off = np.empty(LANCZOS_STEPS), np.empty(LANCZOS_STEPS)
    low = high = 0.0
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
            errors = off[k] * np.abs(vectors[-1])
            low, high = float(values[0] - errors[0]), float(values[-1] + errors[-1])
            good = errors <= LANCZOS_ERROR * np.abs(values)
            enough = good[0] and good[-1] if both else good[0] or values[0] > errors[0]
            if finished or enough:
                break
        basis[k + 1] = w / off[k]
    return low, high
