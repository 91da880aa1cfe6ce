"""Sets of vectors whose entries are taken one by one."""

from __future__ import annotations

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.sets.base import BlockSet, Frame

__all__ = ["VectorSet"]


class VectorSet(BlockSet):
    """Vectors: the entries are the eigenvalues, and there is but one frame."""

    matrix = False
    entrywise = True

    def identity(self) -> FloatArray:
        """Return the vector of ones."""
        return np.ones(self.n)

    def symmetrize(self, x: FloatArray) -> FloatArray:
        """Return the vector itself."""
        return x

    def decompose(self, x: FloatArray) -> tuple[FloatArray, Frame]:
        """Return the vector itself."""
        return x, None

    def compose(self, frame: Frame, lam: FloatArray) -> FloatArray:
        """Return the vector itself."""
        return lam

    def coefficients(self, frame: Frame, x: FloatArray) -> FloatArray:
        """Return the vector itself."""
        return x

    def trace_of(self, x: FloatArray) -> float:
        """Sum of the entries."""
        return float(np.sum(x))

    def nonnegative_exact(self, x: np.ndarray) -> bool:
        """Look at every entry."""
        return all(v >= 0 for v in x)

    def random_frame(self, rng: np.random.Generator) -> Frame:
        """Draw nothing."""
        return None
