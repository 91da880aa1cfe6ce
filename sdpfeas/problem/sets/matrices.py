"""Sets of symmetric matrices that depend on eigenvalues only."""

from __future__ import annotations

import numpy as np

from sdpfeas.numerics.linalg import (
    FloatArray,
    eigh,
    eigvalsh,
    random_orthogonal,
    smallest,
    spectral_matrix,
    symmetrize,
)
from sdpfeas.numerics.rational import semidefinite_exact
from sdpfeas.numerics.rounding import UNIT, definite, product_up, sum_up
from sdpfeas.problem.sets.base import BlockSet, Frame

__all__ = ["MatrixSet"]


class MatrixSet(BlockSet):
    """Symmetric matrices; a frame is an orthogonal matrix of eigenvectors."""

    matrix = True
    entrywise = False

    def identity(self) -> FloatArray:
        """Return the identity matrix."""
        return np.eye(self.n)

    def symmetrize(self, x: FloatArray) -> FloatArray:
        """Return ``(x + x') / 2``."""
        return symmetrize(x)

    def decompose(self, x: FloatArray) -> tuple[FloatArray, Frame]:
        """Eigenvalues, ascending, and eigenvectors of a symmetric matrix."""
        return eigh(x)

    def compose(self, frame: Frame, lam: FloatArray) -> FloatArray:
        """Matrix with given eigenvalues and eigenvectors, exactly symmetric."""
        assert frame is not None
        return spectral_matrix(frame, lam)

    def coefficients(self, frame: Frame, x: FloatArray) -> FloatArray:
        """``v' x v`` for every eigenvector v."""
        assert frame is not None
        return np.asarray(np.einsum("ij,ij->j", frame, x @ frame))

    def random_frame(self, rng: np.random.Generator) -> Frame:
        """Draw an orthogonal matrix."""
        return random_orthogonal(rng, self.n)

    def spectrum(self, x: FloatArray) -> FloatArray:
        """Eigenvalues, without eigenvectors."""
        return eigvalsh(symmetrize(x))

    def trace_of(self, x: FloatArray) -> float:
        """Sum of the diagonal."""
        return float(np.trace(x))

    def nonnegative_exact(self, x: np.ndarray) -> bool:
        """Decide by the signs of the characteristic polynomial."""
        return semidefinite_exact(x)

    def room(self, x: FloatArray, share: float) -> float | None:
        """Share of the least distance of an eigenvalue from the bounds."""
        alone = self.cone and len(self.slacks) == 1
        depth = share * (smallest(symmetrize(x)) if alone else self.depth(x))
        return depth if depth > 0.0 and self.proves_inside(x, depth) else None

    def proves_inside(self, x: FloatArray, room: float = 0.0, *, graded: bool = True) -> bool:
        """Prove that all eigenvalues of ``x`` are further than ``room`` from the bounds.

        Parameters
        ----------
        x : ndarray
            Exactly symmetric matrix.
        room : float
            Non-negative distance.
        graded : bool
            As for :func:`~sdpfeas.numerics.rounding.definite`.
        """
        size = float(np.max(np.abs(np.diagonal(x)))) + sum(abs(shift) for _, shift in self.slacks)
        # Rounding of the diagonal shift is covered by moving the bound inwards by a few units.
        slip = float(sum_up(product_up(16.0 * UNIT, size), room))
        return all(
            definite(_slack(x, sign, shift), shift=slip if shift else room, graded=graded)
            for sign, shift in self.slacks
        )


def _slack(x: FloatArray, sign: float, shift: float) -> FloatArray:
    """``sign·x + shift·I``."""
    if sign == 1.0 and shift == 0.0:
        return x
    out = sign * x
    out[np.diag_indices(x.shape[0])] += shift
    return out
