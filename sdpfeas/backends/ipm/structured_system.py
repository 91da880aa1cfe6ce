"""The Newton system over structured rows and spectral boxes, with Nesterov–Todd directions.

Variables are the blocks X, the free entries v, multipliers y of the rows, and the *outer* variables theta:
tau, which multiplies every bound, and the scale of the boxes if there is one. With the derivative ``g_k`` of
a block's stationarity by ``theta_k`` and the objective ``c_1 = c``, ``c_2 = 0``, Newton's equations are

    H dX = A*dy + q + sum_k dtheta_k (g_k - c_k)      for every block, with its Hessian H
    A dX + B dv = r + sum_k dtheta_k b_k              for the rows
    B'dy = r_v + sum_k dtheta_k f_k                   for the free entries
    b_k'dy - <c_k + g_k, dX> - f_k'dv + ... = r_k     for every outer variable

X is eliminated first, then y and v; the outer variables come last. :class:`StructuredSystem` implements the
steps of :func:`sdpfeas.backends.ipm.interior_point.predictor_corrector`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.ipm.interior_point import NewtonSystem
from sdpfeas.backends.ipm.iteration_cost import structured_flops
from sdpfeas.backends.ipm.normal_equations import DenseNormalEquations
from sdpfeas.backends.ipm.structured_cones import (
    MatrixBlock,
    RowSlacks,
    VectorBlock,
    ratio_test,
)
from sdpfeas.numerics.limits import guard
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Dense, Rows, Sparse, Stacked
from sdpfeas.problem.sets import BlockSet

#: A warm start has the duality gap of its point and multipliers times this factor, but at least this share of
#: the objective value and this share of the gap of a cold start.
WARM_GAP_FACTOR, WARM_VALUE_SHARE, WARM_COLD_SHARE = 1.0, 0.15, 1e-8

#: Multipliers of new rows are this share of those on the central path: larger ones cost more in the
#: residual of stationarity, which is harder to reduce, than smaller ones do in centrality.
NEW_ROW_MULTIPLIER_SHARE = 0.3

#: Radius up to which points of unbounded sets are taken into account when a certificate is judged.
UNBOUNDED_RADIUS = 1e6

#: The Schur complement is computed in single precision if it has at least this many rows, the duality gap is
#: above this share of the objective, and the last step was no shorter than this.
SINGLE_PRECISION_ROWS, SINGLE_PRECISION_GAP, SINGLE_PRECISION_STEP = 250, 3e-4, 0.3

#: Indices of the rows of a block among all rows.
Index = slice | np.ndarray

#: A block that is eliminated.
Block = MatrixBlock | VectorBlock


class StructuredSystem(NewtonSystem):
    """The iterate and its Newton system.

    A SpectralBox of ``problem`` must have an interior, and no row may be zero or without bounds. ``cost``
    is the objective to minimise, one array per block; None for feasibility. ``scale`` is the index of a
    ``Nonneg(1)`` block whose variable multiplies every SpectralBox. ``start`` is a point with multipliers:
    the iterate starts on the central path of every block with the dual matrix of these multipliers; of the
    point only vectors are used. Without it the iterate starts at multiples of the identity.

    Every inequality row ``A(X) - r = bound tau`` has a slack r in a :class:`VectorBlock`, non-negative for a
    lower bound, non-positive for an upper one, between zero and the width for both.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        cost: Point | None = None,
        scale: int | None = None,
        start: tuple[Point, FloatArray] | None = None,
        *,
        residual_tolerance: float = 1e-7,
        iteration: int = 0,
    ) -> None:
        super().__init__(iteration)
        self._residual_tolerance = residual_tolerance
        # Four matrices of the size of the Newton system, and all dense or sparse rows in scaled coordinates.
        full = sum(leaf.m * leaf.n**2 for rows in problem.rows for leaf in _full_rows(rows))
        free = sum(block.n for block in problem.sets if block.free)
        guard("the Newton system", memory=32.0 * problem.m * (problem.m + free) + 16.0 * full)
        self.problem = problem
        self._flops = structured_flops(problem)
        self._factors = power_of_two(problem.norms)
        self._cost = tuple(np.zeros(block.shape) for block in problem.sets) if cost is None else cost
        self._scale_index = scale
        self._traced = [b for b, s in enumerate(problem.sets) if s.trace is not None]
        self.m = problem.m + len(self._traced)
        self._make_rows()
        self._make_blocks()
        self.y = np.zeros(self.m)
        largest = max(
            float(np.max(np.abs(each), initial=0.0, where=np.isfinite(each))) for each in self._bounds
        )
        primal = max(1.0, largest)
        dual = max(1.0, float(np.sqrt(sum(np.sum(c * c) for c in self._cost))))
        self.tau, self.kappa = 1.0, primal * dual
        #: The scale of the boxes and its dual, where there is a scale block.
        self.scale, self.scale_dual = 1.0, dual
        self._dtheta = self._dtheta_dual = np.zeros(self._right.shape[0])
        if start is None:
            for block in self.blocks:
                block.start_cold(primal, dual)
            self._update_multipliers()
        else:
            self._start_warm(*start)
        self.update_residuals()

    # --- Set-up

    def _make_rows(self) -> None:
        """Right-hand sides of all rows, and slacks of inequality rows."""
        problem, traces = self.problem, [self.problem.sets[b].trace or 0.0 for b in self._traced]
        #: Lower and upper bounds of the rows of the problem.
        self._bounds = lower, upper = problem.lower * self._factors, problem.upper * self._factors
        self._inequalities = problem.inequality_rows
        #: The vectors b of tau and of the scale, one row each.
        self._right = np.zeros((1 if self._scale_index is None else 2, self.m))
        self._right[0, : problem.m] = np.where(np.isfinite(lower), lower, upper)
        self._right[-1, problem.m :] = traces
        low, high = (each[self._inequalities] for each in self._bounds)
        below = np.isfinite(low)
        self.slacks = RowSlacks(np.where(below, 0.0, -np.inf), np.where(below, high - low, 0.0))

    def _make_blocks(self) -> None:
        problem, cost = self.problem, self._cost
        #: All blocks that are eliminated, the slacks first, and the indices of their rows.
        self.blocks: list[Block] = [self.slacks]
        self.index: list[Index] = [self._inequalities]
        #: Blocks by their position in the problem.
        self._block_at: dict[int, Block] = {}
        self._free_slices: dict[int, slice] = {}
        columns, start = [np.zeros((self.m, 0))], 0
        for b, block, rows in problem.blocks():
            active, own = self._rows_of(b, block, rows)
            if block.free:
                part = np.zeros((self.m, block.n))
                part[: problem.m] = _as_array(rows.columns()) * self._factors[:, None]
                columns.append(part)
                self._free_slices[b] = slice(start, start + block.n)
                start += block.n
                continue
            if b == self._scale_index:
                if own is not None:
                    self._right[1, active] -= np.asarray(own.apply(np.ones(1)))
                continue
            made: Block
            if block.entrywise:
                values = None if own is None else own.columns()
                made = VectorBlock(values, np.zeros(block.n), np.full(block.n, np.inf), cost[b])
            else:
                made = MatrixBlock(block, own, cost[b], self._right.shape[0] - 1)
            self.blocks.append(made)
            self.index.append(_as_slice(active))
            self._block_at[b] = made
        self.free_columns = np.hstack(columns)
        self.x_free = np.zeros(start)
        #: The vectors f of tau and of the scale, and how these two enter each other's equation.
        self._free_cost = np.zeros((self._right.shape[0], start))
        self._free_cost[0] = np.concatenate([np.zeros(0), *(cost[b] for b in self._free_slices)])
        self._outer_cost = np.zeros((self._right.shape[0],) * 2)
        if self._scale_index is not None:
            own_cost = float(cost[self._scale_index][0])
            self._outer_cost[:] = [[0.0, own_cost], [-own_cost, 0.0]]

    def _rows_of(self, b: int, block: BlockSet, rows: Rows) -> tuple[np.ndarray, Rows | None]:
        """Scaled non-zero rows on a block, its trace row last, and their indices."""
        parts: list[Rows] = []
        active = np.flatnonzero(self.problem.block_norms[b] > 0.0)
        if active.size == rows.m and not rows.empty:
            parts.append(rows.scaled(self._factors) if np.any(self._factors != 1.0) else rows)
        elif active.size:
            parts.append(rows.select(active).scaled(self._factors[active]))
        if b in self._traced:
            eye = np.arange(block.n) * (block.n + 1)
            row = sp.csr_array((np.ones(block.n), eye, np.array([0, block.n])), (1, block.n**2))
            parts.append(Sparse.unchecked(row, block.n))
            active = np.append(active, self.problem.m + self._traced.index(b))
        if not parts:
            return active, None
        return active, parts[0] if len(parts) == 1 else Stacked(parts)

    def _start_warm(self, point: Point, y: FloatArray) -> None:
        """Start on the central path, at a gap estimated from a point and multipliers."""
        lower, upper = self._bounds
        y = np.where(np.isfinite(lower), y / self._factors, np.minimum(y / self._factors, 0.0))
        y = np.where(np.isfinite(upper), y, np.maximum(y, 0.0))
        value = float(np.sum(np.where(y > 0.0, lower, upper) * y, where=y != 0.0))
        gap = abs(value - float(sum(np.vdot(c, x) for c, x in zip(self._cost, point, strict=True))))
        cold_gap = self.tau * self.kappa
        estimate = max(WARM_GAP_FACTOR * gap, WARM_VALUE_SHARE * abs(value), WARM_COLD_SHARE * cold_gap)
        mu = estimate / self.degree
        self.kappa = mu
        self.y[: self.problem.m] = y
        duals = np.maximum(np.abs(y[self._inequalities]), mu / np.sqrt(cold_gap))
        self.slacks.start_at(self.slacks.inside(mu / duals, 1.0), 1.0, mu)
        self._update_multipliers()
        if self._scale_index is not None:
            hint = float(point[self._scale_index][0])
            self.scale = hint if hint > 0.0 else float(np.sqrt(mu))
            self.scale_dual = mu / self.scale
        for b, own in self._free_slices.items():
            self.x_free[own] = point[b]
        for (b, block), index in zip(self._block_at.items(), self.index[1:], strict=True):
            g = block.adjoint(self.y[index]) - block.cost
            trace = block.start_warm(g, mu, float(self._theta[-1]), point[b])
            if b in self._traced:
                self.y[self.problem.m + self._traced.index(b)] = trace

    def with_rows(self, problem: FeasibilityProblem, kept: np.ndarray) -> Self:
        """Return the same iterate for a problem with the same sets and other rows.

        ``kept`` holds the former index of each row, -1 for new rows. Slacks of new rows are their distances
        from the bounds at the present point.
        """
        new = type(self)(problem, self._cost, self._scale_index, iteration=self.iteration)
        for block, old in zip(new.blocks[1:], self.blocks[1:], strict=True):
            block.copy_iterate(old)
        new.x_free, new.scale, new.scale_dual = self.x_free, self.scale, self.scale_dual
        new.tau, new.kappa = self.tau, self.kappa
        former = np.concatenate([kept, np.arange(self.problem.m, self.m)])
        new.y = np.where(former >= 0, self.y[former], 0.0)
        # Slacks of the former rows, and their products with the duals of lower and upper bounds.
        slack, products = np.zeros(self.m), np.zeros((2, self.m))
        slack[self._inequalities] = self.slacks.x
        sides, own = self.slacks.sides, self._inequalities[self.slacks.index]
        products[sides, own] = self.slacks.s * self.slacks.p
        former = former[new._inequalities]
        # The slack of a violated row is its violation: a slack near zero would need a huge multiplier.
        least = self.mu / (float(np.max(self.slacks.p, initial=0.0)) or 1.0)
        new.update_residuals()
        distance = np.abs(new.row_values - new._right[0] * new.tau)[new._inequalities]
        fresh = new.slacks.inside(np.maximum(distance, least), new.tau)
        index = new.slacks.index
        new.slacks.start_at(
            np.where(former < 0, fresh, slack[former]),
            new.tau,
            np.where(
                former[index] < 0,
                NEW_ROW_MULTIPLIER_SHARE * self.mu,
                products[new.slacks.sides, former[index]],
            ),
        )
        new._update_multipliers()
        new.update_residuals()
        return new

    def _update_multipliers(self) -> None:
        """Set y on inequality rows."""
        self.y[self._inequalities] = self.slacks.dual

    # --- Residuals, duality gap, stopping criteria

    @property
    def degree(self) -> int:
        """Barrier degree of all cones, row slacks and outer variables."""
        return sum(block.degree for block in self.blocks) + self._right.shape[0]

    @property
    def _theta(self) -> FloatArray:
        """Tau, and the scale if there is one."""
        return np.array([self.tau, self.scale][: self._right.shape[0]])

    @property
    def _theta_dual(self) -> FloatArray:
        """Kappa, and the dual of the scale."""
        return np.array([self.kappa, self.scale_dual][: self._right.shape[0]])

    def update_residuals(self) -> None:
        """Recompute residuals, objective values and the complementarity measure mu."""
        theta, dual = self._theta, self._theta_dual
        self.r_rows = self.free_columns @ self.x_free - theta @ self._right
        for block, index in zip(self.blocks, self.index, strict=True):
            self.r_rows[index] += block.row_values()
        self.r_free = self.free_columns.T @ self.y - theta @ self._free_cost
        costs = self._free_cost @ self.x_free + self._outer_cost @ theta
        costs[0] += sum(float(np.vdot(block.cost, block.x)) for block in self.blocks)
        values = self._right @ self.y
        for block in self.blocks:
            values[block.outer] -= block.rho_dual()
        self.primal_value, self.dual_value = float(costs[0]), float(values[0])
        self.r_outer = values - costs - dual
        products = sum(block.complementarity for block in self.blocks)
        self.mu = (products + float(theta @ dual)) / self.degree

    @property
    def row_values(self) -> FloatArray:
        """Row values ``A(X)``, before division by tau."""
        values = self.r_rows + self.tau * self._right[0]
        values[self._inequalities] += self.slacks.x
        return values

    @property
    def residual(self) -> float:
        """Largest row residual of the point ``X / tau``; rows have norm about one."""
        return float(np.max(np.abs(self.r_rows), initial=0.0)) / self.tau

    @property
    def r_blocks(self) -> list[FloatArray]:
        """Residuals of stationarity, one per block."""
        return [
            block.adjoint(self.y[index]) + block.dual - block.cost * self.tau
            for block, index in zip(self.blocks, self.index, strict=True)
        ]

    @property
    def dual_residual(self) -> float:
        """Norm of the dual residuals, before division by tau."""
        total = sum(float(np.sum(r * r)) for r in self.r_blocks)
        return float(np.sqrt(total + self.r_free @ self.r_free + self.r_outer[1:] @ self.r_outer[1:]))

    def _point(self, part: Callable[[Block], FloatArray], free: FloatArray, theta: FloatArray) -> Point:
        """Assemble a point from parts of the blocks, the free entries and the outer variables."""
        out = []
        for b, _ in enumerate(self.problem.sets):
            if b in self._block_at:
                out.append(part(self._block_at[b]) / theta[0])
            else:
                out.append((theta[1:] if b == self._scale_index else free[self._free_slices[b]]) / theta[0])
        return tuple(out)

    def point(self) -> Point:
        """The point ``X / tau`` of the iterate."""
        return self._point(lambda block: block.x, self.x_free, self._theta)

    def full_step(self) -> tuple[Point, FloatArray] | None:
        """Return point and multipliers after a step of length one, in the cones or not."""
        theta = self._theta + self._dtheta
        if not theta[0] > 0.0:
            return None
        point = self._point(lambda block: block.full_step(), self.x_free + self.dx_free, theta)
        return point, (self.y + self.dy)[: self.problem.m] * self._factors / theta[0]

    def multipliers(self) -> FloatArray:
        """Multipliers of the rows of the problem, before division by tau."""
        return self.y[: self.problem.m] * self._factors

    def evidence(self) -> tuple[Point, FloatArray]:
        """``X / tau`` and y."""
        return self.point(), self.multipliers()

    def solution(self) -> tuple[Point, FloatArray]:
        """``X / tau`` and ``y / tau``."""
        return self.point(), self.multipliers() / self.tau

    def candidate_point(self) -> Point | None:
        """``X / tau`` if inequality rows hold strictly and equality rows up to a relative residual."""
        values, (lower, upper) = self.row_values[: self.problem.m] / self.tau, self._bounds
        if not np.all(((values > lower) & (values < upper))[self._inequalities]):
            return None
        equal = np.ones(self.m, dtype=bool)
        equal[self._inequalities] = False
        size = 1.0 + float(np.max(np.abs(self._right), initial=0.0, where=equal))
        residual = float(np.max(np.abs(self.r_rows), initial=0.0, where=equal)) / self.tau
        return self.point() if residual <= self._residual_tolerance * size else None

    def candidate_certificate(self) -> FloatArray | None:
        """Return y if the dual residual, times the radius of the sets, is less than the dual value."""
        value = self.dual_value
        return self.multipliers() if value > 0.0 and self.dual_residual * self._radius <= value else None

    @property
    def _radius(self) -> float:
        """Largest radius of the sets."""
        sets = self.problem.sets
        if any(s.free or (s.cone and not s.entrywise) for s in sets):
            return UNBOUNDED_RADIUS
        return 2.0 * max([1.0, *(s.nuclear_radius for s in sets if s.bounded)])

    # --- Newton system

    @property
    def _single_precision(self) -> bool:
        """Whether the Schur complement may be computed in single precision: many rows, far from the optimum.

        Right-hand sides are always in double precision, so later steps remove the errors of a direction.
        """
        far = self.mu * self.degree > SINGLE_PRECISION_GAP * abs(self.primal_value) > 0.0
        return far and self.m >= SINGLE_PRECISION_ROWS and self.step_length >= SINGLE_PRECISION_STEP

    def factorise(self) -> None:
        """Form the Newton system and factorise it; the blocks scaled themselves when the step was taken."""
        guard("a step of the interior-point method", self._flops)
        schur = np.zeros((self.m, self.m))
        outer = range(self._right.shape[0])
        self._stationarity: list[FloatArray] = []
        #: Per block and outer variable: ``g_k - c_k`` and ``H^-1 (g_k + c_k)``.
        self._sources: list[list[FloatArray]] = []
        self._responses: list[list[FloatArray]] = []
        #: ``A H^-1`` of the stationarity residual without duals, of the objective and of the derivatives g.
        self._rows_stationarity, rows_cost = np.zeros(self.m), np.zeros(self.m)
        rows_gradient = np.zeros(self._right.shape)
        curvature = np.zeros(self._right.shape[0])
        inner = np.zeros((curvature.size, curvature.size))
        for block, index in zip(self.blocks, self.index, strict=True):
            cost, gradient = block.scaled_cost(), block.rho_gradient
            self._stationarity.append(block.scaled_adjoint(self.y[index]) - self.tau * cost)
            others = [self._stationarity[-1], cost, *([] if gradient is None else [gradient])]
            part, products = block.schur(others, single_precision=self._single_precision)
            schur[_square(index) if part.ndim == 2 else (index, index)] += part
            self._rows_stationarity[index] += products[0]
            rows_cost[index] += products[1]
            sources, weights = ([np.zeros_like(cost) for _ in outer] for _ in range(2))
            sources[0], weights[0] = -cost, cost
            if gradient is not None:
                rows_gradient[block.outer, index] += products[2]
                curvature[block.outer] += block.rho_curvature()
                sources[block.outer] = sources[block.outer] + gradient
                weights[block.outer] = weights[block.outer] + gradient
            self._sources.append(sources)
            self._responses.append([block.solve_hessian(weight) for weight in weights])
            inner += [[float(np.vdot(w, q)) for q in sources] for w in self._responses[-1]]
        self._system = DenseNormalEquations(schur, self.free_columns)
        rows_sources, rows_weights = rows_gradient.copy(), rows_gradient
        rows_sources[0] -= rows_cost
        rows_weights[0] += rows_cost
        right = self._right - rows_sources
        self._outer_rows = self._right - rows_weights
        #: y and v per unit of each outer variable, and the equations of the outer variables.
        self._unit = [self._system.solve(right[k], self._free_cost[k]) for k in outer]
        slopes = np.array([self._outer_rows @ y - self._free_cost @ v for y, v in self._unit]).T
        slopes -= self._outer_cost + inner - np.diag(np.diagonal(inner))
        # The curvature of the barrier by an outer variable, after the blocks are eliminated, is not negative.
        own = np.maximum(curvature - np.diagonal(inner), 0.0) + self._theta_dual / self._theta
        self._slopes = slopes + np.diag(own)

    # --- Search directions and step

    def solve_direction(self, sigma: float, *, corrected: bool) -> None:
        """Solve the Newton system for products ``sigma mu`` and residuals times ``sigma``."""
        eta, centre = 1.0 - sigma, sigma * self.mu
        # The stationarity residual is the part without duals, plus the duals, which set_target adds at no
        # cost.
        q = [
            block.set_target(centre, corrected, eta) + eta * part
            for block, part in zip(self.blocks, self._stationarity, strict=True)
        ]
        theta, dual = self._theta, self._theta_dual
        target = centre - theta * dual
        if corrected:
            target = target - self._dtheta * self._dtheta_dual
        # Without centring and corrector the targets cancel the duals: only stationarity is left in q.
        rows_q = self._rows_hessian(q) if corrected else self._rows_stationarity
        y, v = self._system.solve(-eta * self.r_rows - rows_q, -eta * self.r_free)
        right = target / theta - eta * self.r_outer - (self._outer_rows @ y - self._free_cost @ v)
        for block, part, responses in zip(self.blocks, q, self._responses, strict=True):
            right += [float(np.vdot(response, part)) for response in responses]
            right[block.outer] += block.rho_target()
        self._dtheta = change = np.asarray(np.linalg.solve(self._slopes, right), dtype=np.float64)
        self._dtheta_dual = (target - dual * change) / theta
        self.dtau, self.dkappa = float(change[0]), float(self._dtheta_dual[0])
        for step, (more_y, more_v) in zip(change, self._unit, strict=True):
            y, v = y + step * more_y, v + step * more_v
        self.dy, self.dx_free = y, v
        for block, index, part, sources in zip(self.blocks, self.index, q, self._sources, strict=True):
            g = block.scaled_adjoint(y[index]) + part
            for step, source in zip(change, sources, strict=True):
                g = g + step * source
            block.set_direction(block.solve_hessian(g), float(change[block.outer]))

    def _rows_hessian(self, q: list[FloatArray]) -> FloatArray:
        """``A H^-1 q``."""
        total = np.zeros(self.m)
        for block, index, part in zip(self.blocks, self.index, q, strict=True):
            total[index] += block.scaled_apply(block.solve_hessian(part))
        return total

    def max_step(self) -> float:
        """Longest step along the direction that stays in all cones."""
        limits = [block.max_step() for block in self.blocks]
        limits += [ratio_test(self._theta, self._dtheta), ratio_test(self._theta_dual, self._dtheta_dual)]
        return min(limits)

    def propose(self, length: float) -> None:
        """Compute all blocks after a step."""
        for block in self.blocks:
            block.propose(length, float(self._dtheta[block.outer]))

    def accept(self, length: float) -> None:
        """Take the step."""
        self.x_free = self.x_free + length * self.dx_free
        self.y = self.y + length * self.dy
        for block in self.blocks:
            block.accept()
        self._update_multipliers()
        if self._scale_index is not None:
            self.scale += length * float(self._dtheta[1])
            self.scale_dual += length * float(self._dtheta_dual[1])


def _as_slice(active: np.ndarray) -> Index:
    """Indices as a slice where they are consecutive: whole matrices are then added without copies."""
    first, size = (int(active[0]), active.size) if active.size else (0, 0)
    return slice(first, first + size) if np.array_equal(active, np.arange(first, first + size)) else active


def _square(index: Index) -> Any:
    return (index, index) if isinstance(index, slice) else np.ix_(index, index)


def _as_array(columns: Any) -> FloatArray:
    return np.asarray(columns.toarray() if sp.issparse(columns) else columns)


def _full_rows(rows: Rows) -> list[Rows]:
    """Rows on a matrix that are stored by their entries."""
    if rows.empty or not rows.matrix:
        return []
    return [leaf for leaf in rows.leaves() if isinstance(leaf, (Dense, Sparse))]
