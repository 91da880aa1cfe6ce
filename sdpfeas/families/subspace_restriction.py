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
from collections.abc import Callable

import numpy as np

from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows.base import frozen

#: From this side on, with at least this many times as many dimensions as directions, subspaces are worth it.
LARGE, MANY = 250, 6

#: Directions beyond those of the optimum that every round adds.
SPARE = 5

#: Steps of Davidson's method at most.
DAVIDSON_STEPS = 12

#: A subspace is cut back to the directions in use when it is this many times as large as they are.
CROWDED = 12

#: By this share times the dimension, or by the other times its square, matrices are moved towards the middle
#: of the box: above what rounding makes of their eigenvalues, below what a ratio notices.
INWARDS, FURTHER_INWARDS = 1e-12, 1e-15

#: Weight in a point above which a direction is in use.
USED = 1e-4


class SubspaceRestriction(ABC):
    """What a search in subspaces asks of a family.

    ``r``: number of directions that points consist of. ``basis``: where the last search ended, for the next
    one to begin with.
    """

    r: int
    basis: FloatArray | None = None

    @abstractmethod
    def first(self) -> FloatArray:
        """Orthonormal columns to begin with, more than r of them."""

    @abstractmethod
    def program(self, basis: FloatArray) -> ConicProgram:
        """Return the one program of the family on the span of orthonormal columns."""

    @abstractmethod
    def question(self, basis: FloatArray, delta: float) -> FeasibilityProblem:
        """Return the problem of the family at a value of its parameter, on the span of orthonormal columns.

        What is said of the last program below holds for the last question as well.
        """

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
    def ahead(self, y: FloatArray, basis: FloatArray, matrix: FloatArray) -> tuple[float, float, FloatArray]:
        """Look beyond the subspace.

        ``matrix``: the matrix they came with, in the coordinates of the basis.

        Returns: about what the matrix attains and what the multipliers rule out. Returns: orthonormal
        columns: where they do not yet.
        """

    def grown(self, basis: FloatArray, matrix: FloatArray, directions: FloatArray) -> FloatArray:
        """Return a basis with more directions, cut back first where it has become large.

        ``matrix``: the best matrix in its coordinates.
        """
        if basis.shape[1] > CROWDED * (self.r + SPARE):
            lam, vec = np.linalg.eigh(matrix)
            basis = basis @ vec[:, lam > USED * lam[-1]]
        return spanned(np.hstack([basis, directions]))


def lifted(basis: FloatArray, matrix: FloatArray, r: float) -> FloatArray:
    """Matrix of trace r over all coordinates from one on a subspace, moved a little into the box.

    On its boundary, up to rounding, it would be proved to be near the box by all its eigenvalues, and only to
    within a bound that costs digits; inside, Cholesky factors do.

    ``matrix``: a matrix in their coordinates, of trace r.
    """
    n = basis.shape[0]
    share = max(INWARDS, FURTHER_INWARDS * n) * n
    out = symmetrize((1.0 - share) * (basis @ matrix @ basis.T))
    out[np.diag_indices(n)] += (r - float(np.trace(out))) / n
    return frozen(out)


def spanned(columns: FloatArray) -> FloatArray:
    """Orthonormal columns with the span of given ones."""
    return np.asarray(np.linalg.qr(columns)[0])


def davidson_pairs(
    multiply: Callable[[FloatArray], FloatArray],
    soften: Callable[[FloatArray], FloatArray],
    basis: FloatArray,
    count: int,
    enough: Callable[[FloatArray], float],
) -> tuple[FloatArray, FloatArray, float]:
    """Largest eigenvalues of a symmetric operator, ascending, with eigenvectors: Davidson's method.

    ``soften``: applies something near the inverse of minus the operator, positive definite. ``basis``:
    orthonormal columns to begin with, at least as many as are asked for. ``enough``: from the eigenvalues:
    what they may be short of in all.

    Returns: about what all eigenvalues together are still short of.
    """
    image = multiply(basis)
    for step in range(DAVIDSON_STEPS + 1):
        lam, vec = np.linalg.eigh(symmetrize(basis.T @ image))
        lam, vec = lam[-count:], vec[:, -count:]
        found = basis @ vec
        residual = image @ vec - found * lam
        towards = soften(residual)
        short = float(np.vdot(residual, towards))
        if step == DAVIDSON_STEPS or short <= enough(lam):
            break
        towards -= basis @ (basis.T @ towards)
        fresh = spanned(towards)
        fresh = spanned(fresh - basis @ (basis.T @ fresh))  # twice is enough
        basis, image = np.hstack([basis, fresh]), np.hstack([image, multiply(fresh)])
    return lam, found, short
