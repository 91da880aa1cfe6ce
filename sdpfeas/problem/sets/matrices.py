"""Sets of symmetric matrices that depend on eigenvalues only."""

from __future__ import annotations

import numpy as np

from sdpfeas.numerics.linalg import FloatArray, eigh, eigvalsh, random_orthogonal, spectral_matrix, symmetrize
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
