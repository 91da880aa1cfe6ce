"""Many dimensions: a search in subspaces that grow by the directions that multipliers ask for.

The points that attain the threshold of a family over a Fantope live in few directions. On a subspace the
family is a small one, with the same rows: its points are points of the whole, and its multipliers rule out
something for the whole too, only less. Where they do not is told by the leading eigenvectors of one matrix,
and these are the directions that the subspace lacks. This is Davidson's method for eigenvectors, with a small
program in place of a small eigendecomposition; every round brings a digit or so. Nothing here is proved, nor
has to be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy.linalg

from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.problem import Point
from sdpfeas.problem.program import ConicProgram

__all__ = ["LARGE", "MANY", "Subspaces", "leading_pairs", "lifted", "spanned"]

#: From this side on, with at least this many times as many dimensions as directions, subspaces are worth it.
LARGE, MANY = 250, 6

#: Directions beyond those of the optimum that every round adds.
SPARE = 5

#: A subspace is cut back to the directions in use when it is this many times as large as they are.
CROWDED = 12

#: By this share, times the dimension, matrices are moved towards the middle of the box: above what rounding
#: makes of their eigenvalues, below what a ratio notices.
INWARDS = 1e-12

#: Weight in a point above which a direction is in use.
USED = 1e-4


class Subspaces(ABC):
    """What a search in subspaces asks of a family.

    Attributes
    ----------
    r : int
        Number of directions that points consist of.
    """

    r: int

    @abstractmethod
    def first(self) -> FloatArray:
        """Orthonormal columns to begin with, more than r of them."""

    @abstractmethod
    def program(self, basis: FloatArray) -> ConicProgram:
        """Return the one program of the family on the span of orthonormal columns."""

    @abstractmethod
    def matrix(self, point: Point) -> FloatArray:
        """Return the matrix of a point of the last program, in the coordinates of its basis."""

    @abstractmethod
    def point(self, basis: FloatArray, matrix: FloatArray) -> Point:
        """Return the point of the family whose matrix lives on a subspace."""

    @abstractmethod
    def multipliers(self, y: FloatArray) -> FloatArray:
        """Return multipliers of the family from those of the last program."""

    @abstractmethod
    def ahead(self, y: FloatArray, matrix: FloatArray) -> tuple[float, float, FloatArray]:
        """Look beyond the subspace.

        Parameters
        ----------
        y : ndarray
            Multipliers of the last program.
        matrix : ndarray
            The matrix they came with.

        Returns
        -------
        lower, upper : float
            About what the matrix attains and what the multipliers rule out.
        directions : ndarray
            Orthonormal columns: where they do not yet.
        """

    def grown(self, basis: FloatArray, matrix: FloatArray, directions: FloatArray) -> FloatArray:
        """Return a basis with more directions, cut back first where it has become large.

        Parameters
        ----------
        basis : ndarray
            The present basis.
        matrix : ndarray
            The best matrix in its coordinates.
        directions : ndarray
            Columns to add.
        """
        if basis.shape[1] > CROWDED * (self.r + SPARE):
            lam, vec = np.linalg.eigh(matrix)
            basis = basis @ vec[:, lam > USED * lam[-1]]
        return spanned(np.hstack([basis, directions]))


def lifted(basis: FloatArray, matrix: FloatArray, r: float) -> FloatArray:
    """Matrix of trace r over all coordinates from one on a subspace, moved a little into the box.

    On its boundary, up to rounding, it would be proved to be near the box by all its eigenvalues, and only to
    within a bound that costs digits; inside, Cholesky factors do.

    Parameters
    ----------
    basis : ndarray
        Orthonormal columns.
    matrix : ndarray
        A matrix in their coordinates, of trace r.
    r : float
        The trace.
    """
    n = basis.shape[0]
    share = INWARDS * n
    out = symmetrize((1.0 - share) * (basis @ matrix @ basis.T))
    out[np.diag_indices(n)] += (r - float(np.trace(out))) / n
    return out


def spanned(columns: FloatArray) -> FloatArray:
    """Orthonormal columns with the span of given ones."""
    return np.asarray(np.linalg.qr(columns)[0])


def leading_pairs(matrix: FloatArray, r: int) -> tuple[FloatArray, FloatArray]:
    """The r largest eigenvalues of a symmetric matrix and a few more, ascending, with eigenvectors.

    Parameters
    ----------
    matrix : ndarray
        The matrix.
    r : int
        How many.
    """
    n = matrix.shape[0]
    need("a few eigenvectors", cubes=0.5 * float(n) ** 3)
    first = max(n - r - SPARE, 0)
    lam, vec = scipy.linalg.eigh(matrix, subset_by_index=(first, n - 1))
    return lam, vec
