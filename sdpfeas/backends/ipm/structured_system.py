"""The Newton system over structured rows and spectral boxes, with Nesterov–Todd directions.

Variables are the blocks X, multipliers y of the rows, tau, which multiplies every bound, and its dual kappa.
X/tau is a point if tau stays positive, y a certificate if kappa does. :class:`StructuredSystem` implements
the steps of :func:`sdpfeas.backends.ipm.interior_point.predictor_corrector`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.ipm.interior_point import NewtonSystem
from sdpfeas.backends.ipm.iteration_cost import structured_flops, structured_memory
from sdpfeas.backends.ipm.normal_equations import DenseNormalEquations
from sdpfeas.backends.ipm.structured_cones import Block, MatrixBlock, NonnegBlock, ratio_test
from sdpfeas.numerics.limits import guard
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Rows, Sparse, Stacked
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


@dataclass(frozen=True)
class _RhoDerivative:
    """Derivatives of a block by the scale rho of its set: gradient g, ``H^-1 g`` and ``A H^-1 g``.

    The first two are in scaled coordinates.
    """

    position: int
    block: MatrixBlock
    gradient: FloatArray
    response: FloatArray
    values: FloatArray


class StructuredSystem(NewtonSystem):
    """The iterate and its Newton system.

    A SpectralBox of ``problem`` must have an interior, and no row may be zero or without bounds. ``cost``
    is the objective to minimise, one array per block; None for feasibility. ``scale`` is the index of a
    ``Nonneg(1)`` block whose variable multiplies every SpectralBox. ``start`` is a point with multipliers:
    the iterate starts on the central path of every block with the dual matrix of these multipliers; of the
    point only vectors are used. Without it the iterate starts at multiples of the identity.

    A finite bound of an inequality row has a slack ``s = sign (A(X) - bound tau)`` and a dual p; y is the sum
    of ``sign p`` over the bounds of a row. The sign is 1 for lower and -1 for upper bounds.
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
        guard("the Newton system", memory=structured_memory(problem))
        self.problem = problem
        self._flops = structured_flops(problem)
        self._factors = power_of_two(problem.norms)
        lower, upper = problem.lower * self._factors, problem.upper * self._factors
        finite = np.concatenate([lower[np.isfinite(lower)], upper[np.isfinite(upper)]])
        largest = float(np.max(np.abs(finite), initial=0.0))
        cost = tuple(np.zeros(block.shape) for block in problem.sets) if cost is None else cost
        self._cost = cost
        primal = max(1.0, largest)
        dual = max(1.0, float(np.sqrt(sum(np.sum(c * c) for c in cost))))
        self._scale_index = scale
        self.has_scale = scale is not None
        self._traced = [b for b, s in enumerate(problem.sets) if s.trace is not None]
        self.m = problem.m + len(self._traced)
        self._make_blocks(problem, cost)
        self._make_rows(problem, lower, upper, primal, dual)
        self.tau, self.kappa = 1.0, primal * dual
        self.ds, self.dp = np.zeros_like(self.s), np.zeros_like(self.p)
        if start is None:
            for block in self.blocks:
                block.start_cold(primal, dual)
            if self.has_scale:
                self.scale.start_cold(1.0, dual)
        else:
            self._start_warm(*start)
        self.update_residuals()

    # --- Set-up

    def _make_blocks(self, problem: FeasibilityProblem, cost: Point) -> None:
        self.blocks: list[Block] = []
        self.index: list[Index] = []
        #: Blocks by their position in the problem.
        self._block_at: dict[int, Block] = {}
        free: list[tuple[int, Rows]] = []
        for b, block, rows in problem.blocks():
            active, own = self._rows_of(b, block, rows)
            made: Block
            if block.free:
                free.append((b, rows))
                continue
            if b == self._scale_index:
                self.scale = NonnegBlock(1, None, cost[b])
                self._scale_column = np.zeros(self.m)
                if own is not None:
                    self._scale_column[active] = np.asarray(own.apply(np.ones(1)))
                for k, t in enumerate(self._traced):
                    self._scale_column[problem.m + k] = -float(problem.sets[t].trace or 0.0)
                continue
            if block.entrywise:
                made = NonnegBlock(block.n, own, cost[b])
            else:
                made = MatrixBlock(block, own, cost[b])
            self.blocks.append(made)
            self.index.append(_as_slice(active))
            self._block_at[b] = made
        self._free_slices: dict[int, slice] = {}
        columns, start = [], 0
        for b, rows in free:
            n = problem.sets[b].n
            self._free_slices[b] = slice(start, start + n)
            start += n
            part = np.zeros((self.m, n))
            dense = rows.columns()
            dense = dense.toarray() if sp.issparse(dense) else np.asarray(dense)
            part[: problem.m] = dense * self._factors[:, None]
            columns.append(part)
        self.free_columns = np.hstack(columns) if columns else np.zeros((self.m, 0))
        self.free_cost = np.concatenate([cost[b] for b, _ in free]) if free else np.zeros(0)
        self.x_free = np.zeros(start)

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

    def _make_rows(
        self, problem: FeasibilityProblem, lower: FloatArray, upper: FloatArray, primal: float, dual: float
    ) -> None:
        # With a scale block the trace row is tr X - trace·scale = 0.
        traces = np.array(
            [0.0 if self.has_scale else problem.sets[b].trace for b in self._traced], dtype=float
        )
        self.equal = np.concatenate([problem.equality, np.ones(len(self._traced), dtype=bool)])
        #: Right-hand sides of equality rows.
        self.right = np.concatenate([lower, traces])[self.equal]
        low = np.flatnonzero(~problem.equality & np.isfinite(lower))
        high = np.flatnonzero(~problem.equality & np.isfinite(upper))
        #: The rows of all bounds of inequality rows, their signs and values.
        self.bounded = np.concatenate([low, high])
        self.signs = np.repeat([1.0, -1.0], [low.size, high.size])
        self.bounds = np.concatenate([lower[low], upper[high]])
        self.s, self.p = np.full(self.bounded.size, primal), np.full(self.bounded.size, dual)
        self.y = np.zeros(self.m)
        self._update_multipliers()

    def _sum_over_bounds(self, values: FloatArray) -> FloatArray:
        """Add up values per bound to one per row."""
        total = np.bincount(self.bounded, weights=values, minlength=self.m)
        return total.astype(np.float64, copy=False)

    def _start_warm(self, point: Point, y: FloatArray) -> None:
        """Start on the central path, at a gap estimated from a point and multipliers."""
        self.y[: self.problem.m] = y / self._factors
        self.p = np.maximum(self.signs * self.y[self.bounded], 0.0)
        value = float(self.right @ self.y[self.equal]) + float((self.signs * self.bounds) @ self.p)
        gap = abs(value - self._cost_of(point))
        cold_gap = self.tau * self.kappa
        mu = (
            max(WARM_GAP_FACTOR * gap, WARM_VALUE_SHARE * abs(value), WARM_COLD_SHARE * cold_gap)
            / self.degree
        )
        most = np.sqrt(cold_gap)
        self.p = np.maximum(self.p, mu / most)
        self.s = mu / self.p
        self.tau, self.kappa = 1.0, mu
        self._update_multipliers()
        if self.has_scale:
            assert self._scale_index is not None
            self.scale.start_warm(np.zeros(1), mu, 1.0, point[self._scale_index])
        for b, own in self._free_slices.items():
            self.x_free[own] = point[b]
        for (b, block), index in zip(self._block_at.items(), self.index, strict=True):
            g = block.adjoint(self.y[index]) - block.cost
            trace = block.start_warm(g, mu, self._rho(), point[b])
            if b in self._traced:
                self.y[self.problem.m + self._traced.index(b)] = trace

    def with_rows(self, problem: FeasibilityProblem, kept: np.ndarray) -> Self:
        """Return the same iterate for a problem with the same sets and other rows.

        ``kept`` holds the former index of each row, -1 for new rows. Slacks of new rows are their distances
        from the bounds at the present point.
        """
        new = type(self)(problem, self._cost, self._scale_index, iteration=self.iteration)
        for block, old in zip(new.blocks, self.blocks, strict=True):
            block.copy_iterate(old)
        if new.has_scale:
            new.scale.copy_iterate(self.scale)
        new.x_free = self.x_free
        new.tau, new.kappa = self.tau, self.kappa
        former = np.concatenate([kept, np.arange(self.problem.m, self.m)])
        new.y = np.where(former >= 0, self.y[former], 0.0)
        most = float(np.max(self.p, initial=0.0)) or 1.0
        # Slacks and duals of the former lower and upper bounds of all rows.
        before = np.zeros((2, 2, self.m))
        before[:, (self.signs < 0.0).astype(int), self.bounded] = self.s, self.p
        new.s, new.p = before[:, (new.signs < 0.0).astype(int), former[new.bounded]]
        fresh = former[new.bounded] < 0
        distance = new._apply()[new.bounded] - new.bounds * self.tau
        # The slack of a violated row is its violation: a slack near zero would need a huge multiplier.
        new.s[fresh] = np.maximum(np.abs(distance[fresh]), self.mu / most)
        new.p[fresh] = NEW_ROW_MULTIPLIER_SHARE * self.mu / new.s[fresh]
        new._update_multipliers()
        new.update_residuals()
        return new

    def _cost_of(self, point: Point) -> float:
        total = sum(float(np.vdot(block.cost, point[b])) for b, block in self._block_at.items())
        if self._scale_index is not None:
            total += float(np.vdot(self.scale.cost, point[self._scale_index]))
        free = np.concatenate([np.zeros(0), *(point[b] for b in self._free_slices)])
        return total + float(self.free_cost @ free)

    def _update_multipliers(self) -> None:
        """Set y on inequality rows."""
        self.y[~self.equal] = self._sum_over_bounds(self.signs * self.p)[~self.equal]

    # --- Residuals, duality gap, stopping criteria

    @property
    def degree(self) -> int:
        """Barrier degree of all cones, row slacks and tau."""
        blocks = sum(block.degree for block in self.blocks)
        return blocks + self.bounded.size + (1 if self.has_scale else 0) + 1

    def _rho(self) -> float:
        return float(self.scale.x[0]) if self.has_scale else self.tau

    def _apply(self) -> FloatArray:
        """Row values ``A(X)``, before division by tau."""
        total = self.free_columns @ self.x_free
        for block, index in zip(self.blocks, self.index, strict=True):
            if block.rows is not None:
                total[index] += block.rows.apply(block.x)
        if self.has_scale:
            total += self._scale_column * self.scale.x[0]
        return total

    def update_residuals(self) -> None:
        """Recompute residuals, objective values and the complementarity measure mu."""
        values = self._apply()
        self.row_values = values
        self.r_equal = values[self.equal] - self.right * self.tau
        self.r_bounds = self.signs * (values[self.bounded] - self.bounds * self.tau) - self.s
        self.r_free = self.free_columns.T @ self.y - self.free_cost * self.tau
        primal = self.free_cost @ self.x_free
        primal += sum(float(np.vdot(b.cost, b.x)) for b in self.blocks)
        rho_dual = sum(b.rho_dual() for b in self.blocks)
        dual = float(self.right @ self.y[self.equal]) + float((self.signs * self.bounds) @ self.p)
        self.r_scale = np.zeros(1)
        if self.has_scale:
            primal += float(self.scale.cost @ self.scale.x)
            self.r_scale = self._scale_column @ self.y + self.scale.u + rho_dual - self.scale.cost * self.tau
        else:
            dual -= rho_dual
        self.primal_value, self.dual_value = float(primal), dual
        self.r_gap = dual - float(primal) - self.kappa
        products = sum(block.complementarity for block in self.blocks)
        products += float(self.s @ self.p) + self.tau * self.kappa
        if self.has_scale:
            products += self.scale.complementarity
        self.mu = products / self.degree

    @property
    def residual(self) -> float:
        """Largest row residual of the point ``X / tau``; rows have norm about one."""
        parts = (self.r_equal, self.r_bounds)
        return max(float(np.max(np.abs(part), initial=0.0)) for part in parts) / self.tau

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
        return float(np.sqrt(total + self.r_free @ self.r_free + self.r_scale @ self.r_scale))

    def point(self) -> Point:
        """The point ``X / tau`` of the iterate."""
        return self._point(lambda block: block.x, self.x_free, self.tau)

    def _point(self, part: Callable[[Block], FloatArray], free: FloatArray, tau: float) -> Point:
        """Assemble a point from parts of the blocks and the free entries."""
        out = []
        for b, _ in enumerate(self.problem.sets):
            if b in self._block_at:
                out.append(part(self._block_at[b]) / tau)
            elif b == self._scale_index:
                out.append(part(self.scale) / tau)
            else:
                out.append(free[self._free_slices[b]] / tau)
        return tuple(out)

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
        values = self.row_values[self.bounded] / self.tau
        if not np.all(self.signs * values > self.signs * self.bounds):
            return None
        size = 1.0 + float(np.max(np.abs(self.right), initial=0.0))
        residual = float(np.max(np.abs(self.r_equal), initial=0.0)) / self.tau
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
        self._v = self.s / self.p
        weight = self._sum_over_bounds(1.0 / self._v)
        self._omega = np.divide(1.0, weight, out=np.zeros(self.m), where=weight > 0.0)
        self._beta = self._omega * self._sum_over_bounds(self.bounds / self._v)
        self._beta[self.equal] = self.right
        self._scaled_costs = [block.scaled_cost() for block in self.blocks]
        self._stationarity = [
            block.scaled_adjoint(self.y[index]) - self.tau * cost
            for block, index, cost in zip(self.blocks, self.index, self._scaled_costs, strict=True)
        ]
        schur = np.diag(self._omega)
        self._rho_derivatives = []
        self._rows_stationarity, self._rows_cost = np.zeros(self.m), np.zeros(self.m)
        for k, (block, index) in enumerate(zip(self.blocks, self.index, strict=True)):
            values = np.zeros(self.m)
            if block.rows is not None:
                others = [self._stationarity[k], self._scaled_costs[k]]
                others += [] if block.rho_gradient is None else [block.rho_gradient]
                part, products = block.schur(others, single_precision=self._single_precision)
                schur[_square(index)] += part
                self._rows_stationarity[index] += products[0]
                self._rows_cost[index] += products[1]
                if block.rho_gradient is not None:
                    values[index] = products[2]
            if block.rho_gradient is not None:
                assert isinstance(block, MatrixBlock)
                response = block.solve_hessian(block.rho_gradient)
                self._rho_derivatives.append(_RhoDerivative(k, block, block.rho_gradient, response, values))
        self._system = DenseNormalEquations(schur, *self._border())
        self._solve_for_tau()

    def _border(self) -> tuple[FloatArray, FloatArray]:
        """Columns and curvature of the variables that are not eliminated: free entries and the scale."""
        columns = self.free_columns
        corner = np.zeros(columns.shape[1])
        if self.has_scale:
            column = np.array(self._scale_column)
            curvature = float(self.scale.u[0] / self.scale.x[0])
            for part in self._rho_derivatives:
                curvature += part.block.rho_curvature() - float(np.vdot(part.gradient, part.response))
                column += part.values
            columns = np.hstack([columns, column[:, None]])
            corner = np.append(corner, max(curvature, 0.0))
        return columns, corner

    def _rows_hessian(self, q: list[FloatArray]) -> FloatArray:
        """``A H^-1 q``."""
        total = np.zeros(self.m)
        for block, index, part in zip(self.blocks, self.index, q, strict=True):
            if block.rows is not None:
                total[index] += block.scaled_apply(block.solve_hessian(part))
        return total

    def _solve_for_tau(self) -> None:
        """Solve for the change of all variables with tau, which predictor and corrector share."""
        q, rows_q = [-cost for cost in self._scaled_costs], -self._rows_cost
        if not self.has_scale:
            for part in self._rho_derivatives:
                q[part.position] = q[part.position] + part.gradient
                rows_q = rows_q + part.values
        hessian_q = [block.solve_hessian(part) for block, part in zip(self.blocks, q, strict=True)]
        r2 = np.array(self.free_cost)
        if self.has_scale:
            r2 = np.append(r2, self.scale.cost[0] - self._response_inner(q))
        y, border = self._system.solve(self._beta - rows_q, r2)
        self._tau_q, self._tau_hessian_q, self._tau_rows_q = q, hessian_q, rows_q
        self._tau_y, self._tau_border = y, border
        self._tau_slope = self._gap_slope()

    def _gap_slope(self) -> float:
        """Derivative of the gap equation by tau."""
        y, border = self._tau_y, self._tau_border
        slope = self._dual_change(self._beta - self._omega * y, y, 0.0, 1.0)
        inner = float(self._tau_rows_q @ y)
        inner += sum(float(np.vdot(h, q)) for h, q in zip(self._tau_hessian_q, self._tau_q, strict=True))
        slope += inner - float(self.free_cost @ border[: self.free_cost.size])
        if self.has_scale:
            return float(slope + (self._response_inner(self._tau_q) - self.scale.cost[0]) * border[-1])
        curvature = sum(b.rho_curvature() for b in self.blocks if isinstance(b, MatrixBlock))
        return float(slope - 2.0 * self._gradient_inner(self._tau_q, y) + curvature)

    # --- Search directions and step

    def full_step(self) -> tuple[Point, FloatArray] | None:
        """Return point and multipliers after a step of length one, in the cones or not."""
        tau = self.tau + self.dtau
        if not tau > 0.0:
            return None
        point = self._point(lambda block: block.full_step(), self.x_free + self.dx_free, tau)
        return point, (self.y + self.dy)[: self.problem.m] * self._factors / tau

    def solve_direction(self, sigma: float, *, corrected: bool) -> None:
        """Solve the Newton system for products ``sigma mu`` and residuals times ``sigma``."""
        eta, centre = 1.0 - sigma, sigma * self.mu
        # The stationarity residual is the part without duals, plus the duals, which set_target adds at no
        # cost.
        q = [
            block.set_target(centre, corrected, eta) + eta * part
            for block, part in zip(self.blocks, self._stationarity, strict=True)
        ]
        target = centre - self.s * self.p
        target_tau = centre - self.tau * self.kappa
        if corrected:
            target = target - self.ds * self.dp
            target_tau -= self.dtau * self.dkappa
        duals = (target / self.p - eta * self.r_bounds) / self._v
        rows = self._omega * self._sum_over_bounds(self.signs * duals)
        rows[self.equal] = -eta * self.r_equal
        # Without centring and corrector the targets cancel the duals: only stationarity is left in q.
        rows_q = self._rows_hessian(q) if corrected else self._rows_stationarity
        r2 = -eta * self.r_free
        if self.has_scale:
            scale_q = float(self.scale.set_target(centre, corrected, 0.0)[0]) + eta * float(self.r_scale[0])
            scale_q += sum(b.rho_target() for b in self.blocks if isinstance(b, MatrixBlock))
            scale_q += self._response_inner(q)
            r2 = np.append(r2, -scale_q)
        y0, border0 = self._system.solve(rows - rows_q, r2)
        self.dtau = self._tau_change(q, rows, duals, (y0, border0), eta, target_tau)
        dy = y0 + self.dtau * self._tau_y
        border = border0 + self.dtau * self._tau_border
        self._set_block_directions(q, dy, border)
        self.dkappa = (target_tau - self.kappa * self.dtau) / self.tau
        values = rows + self.dtau * self._beta - self._omega * dy
        self.dp = self._bound_duals(duals, values, self.dtau)
        self.ds = target / self.p - self._v * self.dp
        self.dy = dy

    def _tau_change(
        self,
        q: list[FloatArray],
        rows: FloatArray,
        duals: FloatArray,
        solution: tuple[FloatArray, FloatArray],
        eta: float,
        target: float,
    ) -> float:
        """Solve the gap equation for the change of tau."""
        y0, border0 = solution
        constant = self._dual_change(rows - self._omega * y0, y0, duals, 0.0)
        # <q_tau, dX> is the objective and, without a scale block, the traces of the duals.
        inner = float(self._tau_rows_q @ y0)
        inner += sum(float(np.vdot(h, part)) for h, part in zip(self._tau_hessian_q, q, strict=True))
        constant += inner - float(self.free_cost @ border0[: self.free_cost.size])
        if self.has_scale:
            constant += (self._response_inner(self._tau_q) - self.scale.cost[0]) * border0[-1]
        else:
            targets = sum(b.rho_target() for b in self.blocks if isinstance(b, MatrixBlock))
            # -sum offset tr dU = -(targets + <g, dX> - curvature·dtau), and q_tau = -cost + g.
            constant -= 2.0 * self._gradient_inner(q, y0) + targets
        return (target - self.tau * (constant + eta * self.r_gap)) / (self.kappa + self.tau * self._tau_slope)

    def _response_inner(self, q: list[FloatArray]) -> float:
        """``<H^-1 g, q>`` for the derivatives g by rho."""
        return sum(float(np.vdot(part.response, q[part.position])) for part in self._rho_derivatives)

    def _gradient_inner(self, q: list[FloatArray], y: FloatArray) -> float:
        """``<g, dX>`` for the derivatives g by rho and the direction of ``q`` and ``y``."""
        return self._response_inner(q) + sum(float(part.values @ y) for part in self._rho_derivatives)

    def _bound_duals(self, duals: FloatArray | float, values: FloatArray, dtau: float) -> FloatArray:
        """Change of p for given changes of the row values and tau."""
        return duals + self.signs * (dtau * self.bounds - values[self.bounded]) / self._v

    def _dual_change(
        self, values: FloatArray, y: FloatArray, duals: FloatArray | float, dtau: float
    ) -> float:
        """Change of the dual value for given changes of the row values, y and tau."""
        dp = self._bound_duals(duals, values, dtau)
        return float(self.right @ y[self.equal] + (self.signs * self.bounds) @ dp)

    def _set_block_directions(self, q: list[FloatArray], dy: FloatArray, border: FloatArray) -> None:
        """Compute the directions of all blocks from those of multipliers, free entries and scale."""
        f = self.free_cost.size
        self.dx_free = border[:f]
        self.drho = drho = float(border[-1]) if self.has_scale else self.dtau
        rhs = [
            block.scaled_adjoint(dy[index]) + part + self.dtau * tau_part
            for block, index, part, tau_part in zip(self.blocks, self.index, q, self._tau_q, strict=True)
        ]
        if self.has_scale:
            for part in self._rho_derivatives:
                rhs[part.position] = rhs[part.position] + drho * part.gradient
        for block, right in zip(self.blocks, rhs, strict=True):
            block.set_direction(block.solve_hessian(right), drho)
        if self.has_scale:
            self.scale.set_direction(border[-1:], 0.0)

    def max_step(self) -> float:
        """Longest step along the direction that stays in all cones."""
        limits = [block.max_step() for block in self.blocks]
        numbers = np.concatenate([self.s, self.p, [self.tau, self.kappa]])
        changes = np.concatenate([self.ds, self.dp, [self.dtau, self.dkappa]])
        limits.append(ratio_test(numbers, changes))
        if self.has_scale:
            limits.append(self.scale.max_step())
        return min(limits)

    def propose(self, length: float) -> None:
        """Compute all blocks after a step."""
        for block in self.blocks:
            block.propose(length, self.drho)
        if self.has_scale:
            self.scale.propose(length, 0.0)

    def accept(self, length: float) -> None:
        """Take the step."""
        self.x_free = self.x_free + length * self.dx_free
        self.y = self.y + length * self.dy
        self.s, self.p = self.s + length * self.ds, self.p + length * self.dp
        self._update_multipliers()
        for block in self.blocks:
            block.accept()
        if self.has_scale:
            self.scale.accept()


def _as_slice(active: np.ndarray) -> Index:
    """Indices as a slice where they are consecutive: whole matrices are then added without copies."""
    first, size = (int(active[0]), active.size) if active.size else (0, 0)
    return slice(first, first + size) if np.array_equal(active, np.arange(first, first + size)) else active


def _square(index: Index) -> Any:
    return (index, index) if isinstance(index, slice) else np.ix_(index, index)
