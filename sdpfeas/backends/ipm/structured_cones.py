"""The blocks of the structured interior-point method: cones with Nesterov–Todd scaling.

A block holds its part of the iterate, inverts its own Hessian ``H``, and contributes ``A H^-1 A*`` to the
Schur complement. H is diagonal in *scaled coordinates*, which change with every step: a dual matrix g has
the coordinates ``T g T'``, a direction x is ``X = T' x T``. ``cost`` is the block's part of the objective, to
be minimised. :class:`MatrixBlock` is a PSD block or a SpectralBox; a SpectralBox has two cones
on one matrix, ``X - lower I`` and ``upper I - X``, and its Hessian ``P1 . P1 + P2 . P2`` is inverted by one
simultaneous diagonalisation instead of n(n+1)/2 additional rows. :class:`VectorBlock` holds numbers between
bounds: an orthant, or the slacks of inequality rows.

``rho`` is the variable that multiplies the bounds of a block: tau, or the variable of a scale block;
``outer`` is its index among the variables that the system solves for last. ``rho_gradient`` is the derivative
of the stationarity equation by rho, in scaled coordinates, None if it is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas.backends.ipm.transformed_rows import transform_rows, weighted_gram
from sdpfeas.numerics.linalg import FloatArray, cholesky, eigh, outer_eigenvalues, spectral_matrix, symmetrize
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import BlockSet

#: From this side on, step lengths come from Lanczos' method instead of all eigenvalues.
LANCZOS_SIDE = 150

#: Below that side, absolute error of the eigenvalues of scaled directions, which are of the order of one.
SCALED_EIGENVALUE_ERROR = 1e-4

#: Most steps of Lanczos' method, steps between two convergence tests, and the relative error to reach.
LANCZOS_STEPS, LANCZOS_TEST_STEPS, LANCZOS_ERROR = 60, 10, 0.005

#: From this share of non-zeros on, the columns of a vector block are stored as a dense array.
DENSE_SHARE = 0.25


# --- PSD blocks and spectral boxes


class NesterovToddCone:
    """The slack ``S = sign X + offset rho I`` of a matrix X, its dual slack U, and their scaling.

    The Nesterov–Todd scaling is R with ``R^-1 S R^-T = R' U R = diag(lam)``; ``inverse`` is ``R^-1``.
    Directions of the block are given in the block's coordinates x; ``R^-1 X R^-T = B x B'`` with the basis B
    of the cone.
    """

    def __init__(
        self,
        kind: tuple[float, float],
        slack: FloatArray,
        dual: FloatArray,
        lam: FloatArray,
        scaling: FloatArray,
        inverse: FloatArray,
    ) -> None:
        self.sign, self.offset = kind
        self.slack, self.dual, self.lam, self.scaling, self.inverse = slack, dual, lam, scaling, inverse
        #: ``R^-1 R^-T``, the identity in scaled coordinates; None if rho does not enter the slack.
        self.identity: FloatArray | None = inverse @ inverse.T if self.offset else None
        #: The basis B; None for the identity.
        self.basis: FloatArray | None = None
        self._target: FloatArray = np.zeros_like(slack)
        self._scaled: tuple[FloatArray, FloatArray] = (self._target, self._target)
        #: Whether the direction is the affine-scaling direction.
        self._affine = False

    @classmethod
    def of(cls, kind: tuple[float, float], slack: FloatArray, dual: FloatArray) -> NesterovToddCone:
        """Compute the scaling; raise ``numpy.linalg.LinAlgError`` if S or U is not positive definite."""
        lower = cholesky(slack)
        half = _triangular_product(lower, dual, transposed=True)
        squares, vec = eigh(_triangular_product(lower, half.T, transposed=True))
        if not squares[0] > 0.0:
            raise np.linalg.LinAlgError("the dual slack is not positive definite")
        lam = np.sqrt(squares)
        root = np.sqrt(lam)
        solved, _ = scipy.linalg.lapack.dtrtrs(lower, vec, lower=1, trans=1)
        scaling = _triangular_product(lower, vec) / root
        return cls(kind, slack, dual, lam, scaling, root[:, None] * solved.T)

    @classmethod
    def from_spectra(
        cls, vec: FloatArray, kind: tuple[float, float], slack: FloatArray, dual: FloatArray
    ) -> NesterovToddCone:
        """Make a cone with common eigenvectors of slack and dual slack, from their eigenvalues."""
        if not (np.all(slack > 0.0) and np.all(dual > 0.0)):
            raise np.linalg.LinAlgError("slack or dual is not positive definite")
        root = (slack / dual) ** 0.25
        full = spectral_matrix(vec, slack), spectral_matrix(vec, dual)
        return cls(kind, *full, np.sqrt(slack * dual), vec * root, (vec / root).T)

    @property
    def complementarity(self) -> float:
        """Inner product of slack and dual slack."""
        return float(self.lam @ self.lam)

    def set_target(self, centre: float, corrected: bool) -> None:
        """Set the right-hand side of the scaled complementarity equation ``ds + du = target``."""
        self._target = np.diag(centre / self.lam - self.lam)
        self._affine = centre == 0.0 and not corrected
        if corrected:
            # The predictor has ds + du = -diag(lam), so -(ds du + du ds) / 2 = ds ds + (lam ds + ds lam) / 2.
            ds = self._scaled[0]
            self._target += ds @ ds.T * (2.0 / (self.lam[:, None] + self.lam[None, :])) + ds

    def target_in_block(self, eta: float) -> FloatArray:
        """``B' (target + eta diag(lam)) B``: the target and a share of the dual slack."""
        out = np.array(self._target)
        out.flat[:: len(out) + 1] += eta * self.lam
        return out if self.basis is None or not out.any() else self.basis.T @ out @ self.basis

    def set_direction(self, x: FloatArray, drho: float) -> None:
        """Compute the scaled directions of slack and dual slack from those of the block and of rho."""
        ds = self.sign * (x if self.basis is None else self.basis @ x @ self.basis.T)
        if self.identity is not None:
            ds = ds + (self.offset * drho) * self.identity
        ds = symmetrize(ds)
        self._scaled = (ds, self._target - ds)

    def rho_gradient(self) -> FloatArray | None:
        """``sign offset P²``, with ``P = R^-T R^-1``, in the coordinates of the block."""
        if self.identity is None:
            return None
        root = self.inverse if self.basis is None else self.basis.T @ self.inverse
        return self.sign * self.offset * (root @ root.T)

    def rho_curvature(self) -> float:
        """``offset² tr P²``."""
        return 0.0 if self.identity is None else self.offset**2 * float(np.sum(self.identity**2))

    def rho_target(self) -> float:
        """``offset tr(R^-T target R^-1)``."""
        return 0.0 if self.identity is None else self.offset * float(np.vdot(self.identity, self._target))

    def max_step(self) -> float:
        """Longest step along the directions that stays in the cone, up to the error of the eigenvalues."""
        root = 1.0 / np.sqrt(self.lam)
        ds, du = (d * root[:, None] * root[None, :] for d in self._scaled)
        if self._affine:
            # ds + du = -I, so the largest eigenvalue of ds gives the smallest of du.
            low, high = extreme_eigenvalues(ds, both=True)
            lowest = min(low, -1.0 - high)
        else:
            lowest = min(extreme_eigenvalues(ds, both=False)[0], extreme_eigenvalues(du, both=False)[0])
        return np.inf if lowest >= 0.0 else -1.0 / lowest

    def moved(self, step: float, dx: FloatArray, drho: float) -> NesterovToddCone:
        """Return the cone after a step; ``dx`` is in the coordinates of the problem.

        Raises ``numpy.linalg.LinAlgError`` if the step leaves the cone.
        """
        slack = self.slack + (step * self.sign) * dx
        slack.flat[:: len(slack) + 1] += step * self.offset * drho
        dual = self.dual + step * symmetrize(self.inverse.T @ self._scaled[1] @ self.inverse)
        return NesterovToddCone.of((self.sign, self.offset), slack, dual)


class MatrixBlock:
    """A PSD block (one cone) or a SpectralBox (two cones on one matrix).

    ``rows`` is None if no row has entries on the block.
    """

    x: FloatArray

    def __init__(self, block: BlockSet, rows: Rows | None, cost: FloatArray, outer: int = 0) -> None:
        self._set, self.rows, self.cost, self.outer = block, rows, cost, outer
        self.rho_gradient: FloatArray | None = None
        self.has_cost = bool(np.any(cost))

    def start_cold(self, primal: float, dual: float) -> None:
        """Start at multiples of the identity, or at the middle of the box."""
        block, n = self._set, self._set.n
        middle = block.middle if block.bounded else primal
        spectra = [(np.full(n, sign * middle + offset), np.full(n, dual)) for sign, offset in block.slacks]
        self._start(np.eye(n), spectra, 1.0)

    def start_warm(self, g: FloatArray, mu: float, rho: float, hint: FloatArray) -> float:
        """Start at the point of the central path with a given dual matrix ``g``, without the trace row.

        Returns the multiplier of the trace row, zero if there is none.
        """
        lam, vec = eigh(g)
        block, n = self._set, g.shape[0]
        if not block.bounded:
            theta = 0.0
            self._start(vec, [central_path_pair(lam, mu)], rho)
        else:
            shift, width = block.lower * rho, (block.upper - block.lower) * rho
            total = None if block.trace is None else block.trace * rho - n * shift
            low, high, theta = central_path_spectrum(lam, mu, width, total)
            self._start(vec, [(low, mu / low), (high, mu / high)], rho)
        return -theta

    def _start(self, vec: FloatArray, spectra: list[tuple[FloatArray, FloatArray]], rho: float) -> None:
        """Set slacks and dual slacks with common eigenvectors, from their eigenvalues cone by cone."""
        self.cones = [
            NesterovToddCone.from_spectra(vec, kind, slack, dual)
            for kind, (slack, dual) in zip(self._set.slacks, spectra, strict=True)
        ]
        sign, offset = self._set.slacks[0]
        self.x = sign * (self.cones[0].slack - offset * rho * np.eye(vec.shape[0]))
        self._direction = np.zeros_like(self.x)
        self._proposed = self.x, self.cones
        self._update_coordinates()

    @property
    def degree(self) -> int:
        """Sum of the sides of its cones."""
        return len(self._set.slacks) * self._set.n

    @property
    def complementarity(self) -> float:
        """Inner product of its slacks and dual slacks."""
        return sum(cone.complementarity for cone in self.cones)

    @property
    def dual(self) -> FloatArray:
        """``sum_j sign_j U_j``."""
        return np.asarray(sum(cone.sign * cone.dual for cone in self.cones))

    def _update_coordinates(self) -> None:
        """Compute the coordinates T in which the Hessian is diagonal: division by the kernel K."""
        first = self.cones[0]
        self._transform = first.scaling.T
        self._kernel: FloatArray | None = None
        if len(self.cones) == 2:
            second = self.cones[1]
            mixed = second.inverse @ first.scaling
            _, vec = eigh(mixed.T @ mixed)
            self._transform = vec.T @ self._transform
            first.basis, second.basis = vec, mixed @ vec
            ratio = np.einsum("ij,ij->j", second.basis, second.basis)
            self._kernel = 1.0 + ratio[:, None] * ratio[None, :]
        self._rows = None if self.rows is None else transform_rows(self.rows, self._transform)
        gradient = [g for g in (cone.rho_gradient() for cone in self.cones) if g is not None]
        # -sum_j sign_j offset_j P_j²
        self.rho_gradient = -np.asarray(sum(gradient)) if gradient else None

    def scaled_cost(self) -> FloatArray:
        """``T cost T'``."""
        return self._transform @ self.cost @ self._transform.T if self.has_cost else self.cost

    def row_values(self) -> FloatArray:
        """``A(X)``."""
        return np.zeros(0) if self.rows is None else self.rows.apply(self.x)

    def adjoint(self, y: FloatArray) -> FloatArray:
        """``A*y``."""
        return np.zeros(self.x.shape) if self.rows is None else self.rows.adjoint(y)

    def scaled_apply(self, x: FloatArray) -> FloatArray:
        """Row values of a direction in scaled coordinates."""
        return np.zeros(0) if self._rows is None else self._rows.apply(x)

    def scaled_adjoint(self, y: FloatArray) -> FloatArray:
        """``T (A*y) T'``."""
        return np.zeros(self.x.shape) if self._rows is None else self._rows.adjoint(y)

    def schur(
        self, others: Sequence[FloatArray], *, single_precision: bool = False
    ) -> tuple[Any, FloatArray]:
        """Return ``A H^-1 A*`` and one row ``A H^-1 q`` for each of the other matrices q.

        The first is the Gram matrix of the transformed rows, weighted by ``1 / K``; with ``single_precision``
        it may be computed in single precision.
        """
        if self._rows is None:
            return np.zeros((0, 0)), np.zeros((len(others), 0))
        return weighted_gram(self._rows, self._kernel, others, single_precision=single_precision)

    def solve_hessian(self, g: FloatArray) -> FloatArray:
        """``g / K``."""
        return g if self._kernel is None else g / self._kernel

    def set_target(self, centre: float, corrected: bool, eta: float) -> FloatArray:
        """Set the right-hand side of the complementarity equations.

        ``centre`` is the value that all products of slack and dual slack aim at; ``corrected`` adds
        Mehrotra's second-order term of the last direction. Returns the right-hand side plus ``eta`` times
        the dual slack, in scaled coordinates.
        """
        for cone in self.cones:
            cone.set_target(centre, corrected)
        return np.asarray(sum(cone.sign * cone.target_in_block(eta) for cone in self.cones))

    def set_direction(self, x: FloatArray, drho: float) -> None:
        """Compute the scaled directions of all cones."""
        self._direction = x
        for cone in self.cones:
            cone.set_direction(x, drho)

    def max_step(self) -> float:
        """Longest step that stays in all cones."""
        return min(cone.max_step() for cone in self.cones)

    def propose(self, step: float, drho: float) -> None:
        """Compute all cones after a step; nothing changes before :meth:`accept`.

        Raises ``numpy.linalg.LinAlgError`` if the step leaves the cones.
        """
        dx = self._unscaled_direction()
        self._proposed = self.x + step * dx, [cone.moved(step, dx, drho) for cone in self.cones]

    def _unscaled_direction(self) -> FloatArray:
        """``T' x T``."""
        return symmetrize(self._transform.T @ self._direction @ self._transform)

    def full_step(self) -> FloatArray:
        """``X + dX``."""
        return self.x + self._unscaled_direction()

    def accept(self) -> None:
        """Take the step and compute the new coordinates."""
        self.x, self.cones = self._proposed
        self._update_coordinates()

    def copy_iterate(self, other: Any) -> None:
        """Take over slacks and dual slacks."""
        self._proposed = other.x, other.cones
        self.accept()

    def rho_dual(self) -> float:
        """``sum_j offset_j tr U_j``."""
        return float(sum(cone.offset * np.trace(cone.dual) for cone in self.cones if cone.offset))

    def rho_curvature(self) -> float:
        """``sum_j offset_j² tr P_j²``."""
        return sum(cone.rho_curvature() for cone in self.cones)

    def rho_target(self) -> float:
        """``sum_j offset_j tr(R_j^-T target_j R_j^-1)``."""
        return sum(cone.rho_target() for cone in self.cones)


def _triangular_product(lower: FloatArray, matrix: FloatArray, transposed: bool = False) -> FloatArray:
    """``L A``, or ``L' A``, at half the cost of a full product."""
    out: FloatArray = scipy.linalg.blas.dtrmm(1.0, lower, matrix, lower=1, trans_a=int(transposed))
    return out


def extreme_eigenvalues(matrix: FloatArray, both: bool) -> tuple[float, float]:
    """Bounds of the smallest and largest eigenvalue of a symmetric matrix, by Lanczos' method if it is large.

    They are a little outside the spectrum, as far as Lanczos' error estimates are right. Unless ``both`` is
    set, the bound of the largest eigenvalue may be far off.
    """
    n = matrix.shape[0]
    if n < LANCZOS_SIDE:
        return outer_eigenvalues(matrix, SCALED_EIGENVALUE_ERROR, both)
    basis = np.empty((LANCZOS_STEPS + 1, n))
    start = np.random.default_rng(0).standard_normal(n)
    basis[0] = start / np.linalg.norm(start)
    diagonal, off = np.empty(LANCZOS_STEPS), np.empty(LANCZOS_STEPS)
    low = high = 0.0
    for k in range(LANCZOS_STEPS):
        w = matrix @ basis[k]
        diagonal[k] = w @ basis[k]
        # Orthogonalise twice: after one pass rounding leaves enough of the old vectors for ghost eigenvalues.
        for _ in range(2):
            w -= basis[: k + 1].T @ (basis[: k + 1] @ w)
        off[k] = np.linalg.norm(w)
        finished = k == LANCZOS_STEPS - 1 or off[k] <= 1e-14 * abs(diagonal[k])
        if finished or k % LANCZOS_TEST_STEPS == LANCZOS_TEST_STEPS - 1:
            values, vectors = scipy.linalg.eigh_tridiagonal(diagonal[: k + 1], off[:k])
            errors = off[k] * np.abs(vectors[-1])
            low, high = float(values[0] - errors[0]), float(values[-1] + errors[-1])
            accurate = errors <= LANCZOS_ERROR * np.abs(values)
            converged = accurate[0] and accurate[-1] if both else accurate[0] or values[0] > errors[0]
            if finished or converged:
                break
        basis[k + 1] = w / off[k]
    return low, high


# --- Orthants, and slacks of inequality rows


class VectorBlock:
    """Numbers ``lower rho <= x <= upper rho``. Every finite bound has a slack s and a dual p.

    ``columns`` is A; None if no row has entries on the block. Every number has a bound.
    """

    def __init__(self, columns: Any, lower: FloatArray, upper: FloatArray, cost: FloatArray) -> None:
        self.cost, self.has_cost, self.outer = cost, bool(np.any(cost)), 0
        self.rho_gradient: FloatArray | None = None
        low, high = np.flatnonzero(np.isfinite(lower)), np.flatnonzero(np.isfinite(upper))
        self._columns: Any = np.zeros((0, lower.size)) if columns is None else _dense_if_filled(columns)
        self._lower, self._upper = lower, upper
        #: The number of every slack, whether it is that of an upper bound, its sign, and what rho adds to it.
        self.index, self.sides = np.concatenate([low, high]), np.repeat([0, 1], [low.size, high.size])
        self._signs = 1.0 - 2.0 * self.sides
        self._offsets = np.concatenate([-lower[low], upper[high]])
        self.start_cold(1.0, 1.0)
        self.dx, self._ds, self._dp = np.zeros_like(self.x), np.zeros_like(self.s), np.zeros_like(self.s)
        self._target, self._proposed = np.zeros_like(self.s), (self.x, self.s, self.p)

    def _sum(self, values: FloatArray) -> FloatArray:
        """Add up values per slack to one per number."""
        return np.bincount(self.index, weights=values, minlength=self.x.size).astype(np.float64, copy=False)

    @property
    def degree(self) -> int:
        """Number of slacks."""
        return self.s.size

    @property
    def complementarity(self) -> float:
        """``s'p``."""
        return float(self.s @ self.p)

    @property
    def dual(self) -> FloatArray:
        """Duals of lower bounds minus those of upper bounds."""
        return self._sum(self._signs * self.p)

    def start_cold(self, primal: float, dual: float) -> None:
        """Start at equal slacks and equal duals, in the middle between two bounds that are close."""
        self.start_at(self.inside(np.full(self._lower.size, primal), 1.0), 1.0, primal * dual)

    def inside(self, distance: FloatArray, rho: float) -> FloatArray:
        """Numbers at a distance from their lower bound, or the only one, and at most in the middle."""
        distance = np.minimum(distance, 0.5 * rho * (self._upper - self._lower))
        below = np.isfinite(self._lower)
        return np.where(below, rho * self._lower + distance, rho * self._upper - distance)

    def start_at(self, x: FloatArray, rho: float, products: FloatArray | float) -> None:
        """Start at given numbers, and at given products of slacks and duals."""
        self.x = x
        self.s = self._signs * x[self.index] + rho * self._offsets
        self._update(self.s, products / self.s)

    def start_warm(self, g: FloatArray, mu: float, rho: float, hint: FloatArray) -> float:
        """Start at the hint where it is positive, else on the central path with a given dual vector ``g``."""
        x, _ = central_path_pair(g, mu)
        self.start_at(np.where(hint > 0.0, hint, x), rho, mu)
        return 0.0

    def _update(self, s: FloatArray, p: FloatArray) -> None:
        """Set slacks and duals, and the Hessian, which is diagonal."""
        self.s, self.p = s, p
        self._hessian = self._sum(p / s)
        if self._offsets.any():
            self.rho_gradient = -self._sum(self._signs * self._offsets * p / s)

    def copy_iterate(self, other: Any) -> None:
        """Take over numbers, slacks and duals."""
        self.x = other.x
        self._update(other.s, other.p)

    def scaled_cost(self) -> FloatArray:
        """Return the cost; the coordinates are not scaled."""
        return self.cost

    def row_values(self) -> FloatArray:
        """``A x``."""
        return self.scaled_apply(self.x)

    def adjoint(self, y: FloatArray) -> FloatArray:
        """``A'y``."""
        return np.asarray(self._columns.T @ y)

    def scaled_adjoint(self, y: FloatArray) -> FloatArray:
        """``A'y``; the coordinates are not scaled."""
        return self.adjoint(y)

    def scaled_apply(self, x: FloatArray) -> FloatArray:
        """``A x``."""
        return np.asarray(self._columns @ x)

    def schur(
        self, others: Sequence[FloatArray], *, single_precision: bool = False
    ) -> tuple[Any, FloatArray]:
        """``A H^-1 A'``."""
        mixed = np.array([self.scaled_apply(self.solve_hessian(part)) for part in others])
        if sp.issparse(self._columns):
            product = self._columns @ sp.diags_array(1.0 / self._hessian) @ self._columns.T
            return product.toarray(), mixed
        return (self._columns / self._hessian) @ self._columns.T, mixed

    def solve_hessian(self, g: FloatArray) -> FloatArray:
        """``H^-1 g``."""
        return g / self._hessian

    def set_target(self, centre: float, corrected: bool, eta: float) -> FloatArray:
        """Set the targets of all products ``s p``; see :meth:`MatrixBlock.set_target`."""
        self._target = centre - self.s * self.p
        if corrected:
            self._target = self._target - self._ds * self._dp
        return self._sum(self._signs * (self._target / self.s + eta * self.p))

    def set_direction(self, x: FloatArray, drho: float) -> None:
        """Compute the directions of slacks and duals."""
        self.dx = x
        self._ds = self._signs * x[self.index] + drho * self._offsets
        self._dp = (self._target - self.p * self._ds) / self.s

    def max_step(self) -> float:
        """Longest step that keeps slacks and duals non-negative."""
        return min(ratio_test(self.s, self._ds), ratio_test(self.p, self._dp))

    def propose(self, step: float, drho: float) -> None:
        """Compute numbers, slacks and duals after a step."""
        self._proposed = self.x + step * self.dx, self.s + step * self._ds, self.p + step * self._dp

    def full_step(self) -> FloatArray:
        """``x + dx``."""
        return self.x + self.dx

    def accept(self) -> None:
        """Take the step."""
        self.x, *rest = self._proposed
        self._update(*rest)

    def rho_dual(self) -> float:
        """``sum_j offset_j p_j``."""
        return float(self._offsets @ self.p)

    def rho_curvature(self) -> float:
        """``sum_j offset_j² p_j / s_j``."""
        return float(self._offsets**2 @ (self.p / self.s))

    def rho_target(self) -> float:
        """``sum_j offset_j target_j / s_j``."""
        return float(self._offsets @ (self._target / self.s))


class RowSlacks(VectorBlock):
    """The slacks r of inequality rows ``A(X) - r = bound tau``: minus the identity is their part of A."""

    def __init__(self, lower: FloatArray, upper: FloatArray) -> None:
        super().__init__(None, lower, upper, np.zeros(lower.size))

    def adjoint(self, y: FloatArray) -> FloatArray:
        """``-y``."""
        return -y

    def scaled_apply(self, x: FloatArray) -> FloatArray:
        """``-x``."""
        return -x

    def schur(
        self, others: Sequence[FloatArray], *, single_precision: bool = False
    ) -> tuple[Any, FloatArray]:
        """Return the diagonal of ``H^-1``."""
        return 1.0 / self._hessian, np.array([-self.solve_hessian(part) for part in others])


def _dense_if_filled(columns: Any) -> Any:
    """Columns as a dense array where they are mostly filled, as the product of any two of them is then."""
    filled = sp.issparse(columns) and columns.nnz > DENSE_SHARE * columns.shape[0] * columns.shape[1]
    return columns.toarray() if filled else columns


def ratio_test(x: FloatArray, dx: FloatArray) -> float:
    """Longest step along ``dx`` that keeps ``x`` non-negative."""
    falling = dx < 0.0
    return float(np.min(-x[falling] / dx[falling], initial=np.inf))


# --- Points on the central path with a given dual matrix, for warm starts


def central_path_pair(g: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
    """Solve ``u - x = -g``, ``x u = mu`` for positive x and u, without cancellation."""
    root = np.sqrt(g * g + 4.0 * mu)
    u = np.where(g > 0.0, 2.0 * mu / (root + g), 0.5 * (root - g))
    return mu / u, u


def central_path_spectrum(
    g: FloatArray, mu: float, width: float, total: float | None
) -> tuple[FloatArray, FloatArray, float]:
    """Solve ``g - theta + mu/z - mu/(width - z) = 0`` for ``0 < z < width`` and, if given, ``sum z = total``.

    ``g`` holds the eigenvalues of the dual matrix in ascending order; without a total theta is zero.
    Returns z, ``width - z`` without cancellation, and theta.
    """

    def solve(theta: float) -> tuple[FloatArray, FloatArray]:
        a = (g - theta) * width
        root = np.hypot(a, 2.0 * mu)
        near = 2.0 * mu * width / (root + np.abs(a) + 2.0 * mu)
        far = width - near
        return np.where(a < 0.0, near, far), np.where(a < 0.0, far, near)

    theta = 0.0
    if total is not None:
        from scipy.optimize import brentq  # slow to import

        n = g.size
        low = float(g[0]) - 2.0 * n * mu / (n * width - total)
        high = float(g[-1]) + 2.0 * n * mu / total
        theta = float(
            brentq(lambda t: float(np.sum(solve(t)[0])) - total, low, high, xtol=1e-300, rtol=1e-14)
        )
    return *solve(theta), theta
