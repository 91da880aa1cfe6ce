"""Restriction of a family over a large Fantope to subspaces, and Davidson's method.

Optimal points of a family over ``{0 <= Z <= I, tr Z = r}`` have rank close to r. On the span of orthonormal
columns ``V`` the family is a small one with rows ``V'A_i V``: its points ``Z`` give points ``V Z V'`` of the
large family, and its multipliers give (weaker) upper bounds. The leading eigenvectors of ``sum_i y_i A_i``
are the directions that violate dual feasibility, and extend the subspace. This is Davidson's method (E. R.
Davidson, J. Comput. Phys. 1975) with a small conic program in place of the Rayleigh-Ritz step. A round gains
about one digit. Nothing here is proved: proofs refer to the large family (:mod:`sdpfeas.drivers.bisection`
runs the iteration).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import Point
from sdpfeas.problem.rows import Dense, LowRank, PairwiseDifference, Rows, Stacked
from sdpfeas.problem.rows.base import frozen
from sdpfeas.problem.sets import SpectralBox

#: Restrict to subspaces from this dimension on, and only if it is at least this multiple of the rank.
MIN_DIMENSION, MIN_DIMENSION_PER_RANK = 250, 6

#: Directions beyond the rank that every round adds; more cost larger programs, fewer cost more rounds.
GUARD_DIRECTIONS = 5

#: Cap on the steps of Davidson's method.
DAVIDSON_STEPS = 12

#: A subspace is restarted when it is this multiple of the rank plus the guard directions.
RESTART_RATIO = 12

#: Share of the centre of the box that is mixed into a lifted matrix, per dimension and per squared dimension:
#: above the rounding errors of its eigenvalues, below the accuracy of a bracket.
INTERIOR_SHARE, INTERIOR_SHARE_SQUARED = 1e-12, 1e-15

#: Eigenvalue of a point, relative to the largest, below which a restart drops its eigenvector.
RESTART_EIGENVALUE = 1e-4


class FantopeFamily(ParametricFamily):
    """Family over a matrix in the Fantope ``_box``, which can be restricted to subspaces."""

    _box: SpectralBox

    @abstractmethod
    def _restricted(self, basis: FloatArray) -> FantopeFamily:
        """Return the family on the span of orthonormal columns."""

    @abstractmethod
    def _initial_directions(self) -> FloatArray:
        """Return columns that span the initial subspace: more than the rank."""

    def _complete(self, z: FloatArray) -> Point:
        """Complete a matrix to a point of the family; by default there is nothing else."""
        return (z,)

    @abstractmethod
    def _expansion(
        self, y: FloatArray, basis: FloatArray, z: FloatArray, attained: float
    ) -> tuple[float, FloatArray]:
        """Return an estimate of the upper bound, and directions for the subspace.

        ``y`` are multipliers of the family, and ``z`` is a matrix in the coordinates of ``basis`` with the
        value ``attained``. The directions are orthonormal columns in which the multipliers violate dual
        feasibility.
        """


class SubspaceRestriction:
    """Restriction of a family to subspaces, one at a time; ``r`` is the rank of optimal points."""

    def __init__(self, family: FantopeFamily) -> None:
        self._family = self._small = family
        self._box, self.r = family._box, round(family._box.rank)

    @staticmethod
    def pays(box: SpectralBox) -> bool:
        """Whether a Fantope has so many dimensions that subspaces save time."""
        return box.n >= max(MIN_DIMENSION, MIN_DIMENSION_PER_RANK * box.rank)

    def initial_basis(self) -> FloatArray:
        """Return the initial subspace."""
        return orthonormalise(self._family._initial_directions())

    def program(self, basis: FloatArray) -> ConicProgram:
        """Return the conic program of the family on the span of orthonormal columns."""
        self._small = self._family._restricted(basis)
        program = self._small.conic_program()
        assert program is not None
        return program

    def matrix(self, point: Point) -> FloatArray:
        """Return the matrix of a point of the last program, in the coordinates of its basis.

        It is projected onto the small Fantope: an error of the trace would grow with the dimension when
        lifted.
        """
        z = self._small.program_point(point)[0]
        return SpectralBox(z.shape[0], trace=self._box.trace).project(symmetrize(z))

    def point(self, basis: FloatArray, matrix: FloatArray) -> Point:
        """Return the point of the family with a matrix on the subspace."""
        return self._family._complete(lift_to_interior(basis, matrix, self._box.rank))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers of the last program to multipliers of the family."""
        return self._small.program_multipliers(y)

    def expansion(
        self, y: FloatArray, basis: FloatArray, matrix: FloatArray
    ) -> tuple[float, float, FloatArray]:
        """Return the value of the matrix, an estimate of the upper bound, and directions for the subspace."""
        attained = self._small.estimate_delta(self._small._complete(matrix))
        return attained, *self._family._expansion(self.multipliers(y), basis, matrix, attained)

    def expanded(self, basis: FloatArray, matrix: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the basis extended by directions.

        A basis of more than ``RESTART_RATIO`` times the necessary size is first restarted from the range of
        ``matrix``, the best matrix in its coordinates.
        """
        if basis.shape[1] > RESTART_RATIO * (self.r + GUARD_DIRECTIONS):
            lam, vec = np.linalg.eigh(matrix)
            basis = basis @ vec[:, lam > RESTART_EIGENVALUE * lam[-1]]
        return orthonormalise(np.hstack([basis, directions]))


def restrict_rows(rows: Rows, basis: FloatArray) -> Rows:
    """Return the rows ``V'A_i V``; low-rank rows in the smaller of two storages."""
    if isinstance(rows, Stacked):
        return Stacked([restrict_rows(part, basis) for part in rows.parts])
    if isinstance(rows, PairwiseDifference):
        return PairwiseDifference(rows.means @ basis)
    if isinstance(rows, Dense):
        return Dense(symmetrize(basis.T @ rows.array @ basis))
    assert isinstance(rows, LowRank)
    factors, side = rows.factors @ basis, basis.shape[1]
    if factors.shape[0] < rows.m * side:
        return LowRank.from_stacked(factors, rows.signs, rows.owner, rows.m)
    out = np.zeros((rows.m, side, side))
    for k in range(rows.m):
        own = rows.owner == k
        out[k] = factors[own].T @ (factors[own] * rows.signs[own, None])
    return Dense(symmetrize(out))


def lift_to_interior(basis: FloatArray, matrix: FloatArray, r: float) -> FloatArray:
    """Return ``V Z V'`` with trace r, moved slightly towards the interior of the box.

    A matrix on the boundary, up to rounding, needs a full eigendecomposition to prove that it is near the
    box, and the proof costs digits. In the interior Cholesky factorisations suffice.
    """
    n = basis.shape[0]
    share = max(INTERIOR_SHARE, INTERIOR_SHARE_SQUARED * n) * n
    out = symmetrize((1.0 - share) * (basis @ matrix @ basis.T))
    out[np.diag_indices(n)] += (r - float(np.trace(out))) / n
    return frozen(out)


def orthonormalise(columns: FloatArray) -> FloatArray:
    """Return orthonormal columns with the span of the given ones."""
    return np.asarray(np.linalg.qr(columns)[0])


def davidson_pairs(
    multiply: Callable[[FloatArray], FloatArray],
    precondition: Callable[[FloatArray], FloatArray],
    basis: FloatArray,
    count: int,
    enough: Callable[[FloatArray], float],
) -> tuple[FloatArray, FloatArray, float]:
    """Compute the largest eigenvalues and eigenvectors of a symmetric operator by Davidson's method.

    ``precondition`` applies a positive definite approximation of the inverse of minus the operator. ``basis``
    holds at least ``count`` orthonormal columns. Iterations stop when the estimated error of the sum of the
    eigenvalues is at most ``enough(eigenvalues)``. Returns the eigenvalues, ascending, the eigenvectors and
    this error estimate.
    """
    image = multiply(basis)
    for step in range(DAVIDSON_STEPS + 1):
        lam, vec = np.linalg.eigh(symmetrize(basis.T @ image))
        lam, vec = lam[-count:], vec[:, -count:]
        found = basis @ vec
        residual = image @ vec - found * lam
        towards = precondition(residual)
        short = float(np.vdot(residual, towards))
        if step == DAVIDSON_STEPS or short <= enough(lam):
            break
        towards -= basis @ (basis.T @ towards)
        fresh = orthonormalise(towards)
        fresh = orthonormalise(fresh - basis @ (basis.T @ fresh))  # twice is enough (Kahan and Parlett)
        basis, image = np.hstack([basis, fresh]), np.hstack([image, multiply(fresh)])
    return lam, found, short
