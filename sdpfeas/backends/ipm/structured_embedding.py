"""The homogeneous self-dual embedding, solved by a primal–dual predictor–corrector method.

Unknowns are the blocks X, multipliers y of the rows, and two numbers: tau, by which every bound is
multiplied, and its partner kappa. If tau stays positive, X/tau is a point; if kappa does, y is a certificate.
Without an objective the method heads for the analytic centre of the points, or of the certificates: deep
inside, which is what a proof likes best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.ipm.iteration_cost import newton_memory, structured_work
from sdpfeas.backends.ipm.newton_system import DenseNewtonSystem
from sdpfeas.backends.ipm.structured_cones import Block, MatrixBlock, NonnegBlock, ratio_limit
from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Rows, Sparse, Stacked
from sdpfeas.problem.rows.matrix_view import vector_columns
from sdpfeas.problem.sets import BlockSet

# ------------------------------------------------------------
# The iterate of the embedding: where the blocks, rows and multipliers stand, and how far from the end.


@dataclass(frozen=True)
class StepRule:
    """How bold steps are.

    ``boundary``: share of the way to the boundary a step goes at most. ``power``: a step aims at ``(1 -
    length)`` to this power of the present gap, ``length`` that of the predictor.
    """

    boundary: float
    power: int


#: A power of three is usual; two takes an iteration less where the corrector makes up for much.
AGGRESSIVE_STEPS, CONSERVATIVE_STEPS = StepRule(0.98, 2), StepRule(0.9, 3)

#: A suggested start begins where the gap is this many times that between its point and its multipliers, but
#: at no less than a share of the value, and of a cold start's gap.
START, START_SHARE, START_FLOOR = 1.0, 0.15, 1e-8

#: Rows taken in begin with this share of the multipliers that the central path asks for: all of it would
#: weigh on stationarity, which is harder to win back than centrality.
NEW_ROW_MULTIPLIER_SHARE = 0.3

#: Where the rows of a block are among all rows.
Index = slice | np.ndarray


class StructuredIterate:
    """The iterate of the embedding.

    ``problem``: sets and rows; a SpectralBox must have an interior, and no row may be zero or without
    bounds. ``cost``: objective to minimise, one array per block; None for pure feasibility. ``scale``:
    index of a ``Nonneg(1)`` block that multiplies every SpectralBox. ``start``: point and multipliers, in
    the units of the problem, to begin near: on the central path of every block, at the distance of the
    multipliers. Of the point only single numbers count; matrices follow from the multipliers. Default:
    begin far inside.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        cost: Point | None,
        scale: int | None = None,
        start: tuple[Point, FloatArray] | None = None,
        pace: StepRule = AGGRESSIVE_STEPS,
    ) -> None:
        need("the Newton system", memory=newton_memory(problem))
        self.problem, self._pace = problem, pace
        self._work = structured_work(problem)
        self._factors = power_of_two(problem.norms)
        lower, upper = problem.lower * self._factors, problem.upper * self._factors
        finite = np.concatenate([lower[np.isfinite(lower)], upper[np.isfinite(upper)]])
        largest = float(np.max(np.abs(finite), initial=0.0))
        cost = tuple(np.zeros(block.shape) for block in problem.sets) if cost is None else cost
        self._cost = cost
        primal = max(1.0, largest)
        dual = max(1.0, float(np.sqrt(sum(np.sum(c * c) for c in cost))))
        self._scale_block = scale
        self._traced = [b for b, s in enumerate(problem.sets) if s.trace is not None]
        self.m = problem.m + len(self._traced)
        self._make_blocks(problem, cost)
        self._make_rows(problem, lower, upper, primal, dual)
        self.tau, self.kappa = 1.0, primal * dual
        self.iteration = 0
        #: Whether the last step was a short one.
        self._short = False
        #: Whether the present direction is that of a look ahead.
        self._astray = False
        #: What kept the method from going on, if it says so.
        self.words = ""
        self.ds, self.dp = np.zeros_like(self.s), np.zeros_like(self.p)
        self.dt, self.dq = np.zeros_like(self.t), np.zeros_like(self.q)
        self.dtau = self.dkappa = 0.0
        if start is None:
            for block in self.blocks:
                block.place(primal, dual)
            if self.has_size:
                self.size.place(1.0, dual)
        else:
            self._start(*start)
        self._measure()

    def _make_blocks(self, problem: FeasibilityProblem, cost: Point) -> None:
        self.blocks: list[Block] = []
        self.index: list[Index] = []
        self._place: dict[int, Block] = {}
        free: list[tuple[int, Rows]] = []
        for b, block, rows in problem.blocks():
            active, own = self._rows_of(b, block, rows)
            made: Block
            if block.free:
                free.append((b, rows))
                continue
            if b == self._scale_block:
                self.size = NonnegBlock(1, None, cost[b])
                self._size_columns = np.zeros(self.m)
                if own is not None:
                    self._size_columns[active] = np.asarray(own.apply(np.ones(1)))
                for k, t in enumerate(self._traced):
                    self._size_columns[problem.m + k] = -float(problem.sets[t].trace or 0.0)
                continue
            if block.entrywise:
                made = NonnegBlock(block.n, own, cost[b])
            else:
                made = MatrixBlock(block, own, cost[b])
            self.blocks.append(made)
            self.index.append(_spot(active))
            self._place[b] = made
        self._free_slices: dict[int, slice] = {}
        columns, start = [], 0
        for b, rows in free:
            n = problem.sets[b].n
            self._free_slices[b] = slice(start, start + n)
            start += n
            part = np.zeros((self.m, n))
            dense = vector_columns(rows)
            dense = dense.toarray() if sp.issparse(dense) else np.asarray(dense)
            part[: problem.m] = dense * self._factors[:, None]
            columns.append(part)
        self.free_columns = np.hstack(columns) if columns else np.zeros((self.m, 0))
        self.free_cost = np.concatenate([cost[b] for b, _ in free]) if free else np.zeros(0)
        self.x_free = np.zeros(start)
        self.has_size = self._scale_block is not None

    def _rows_of(self, b: int, block: BlockSet, rows: Rows) -> tuple[np.ndarray, Rows | None]:
        """Scaled rows that touch a block, its trace row last, and their indices."""
        parts: list[Rows] = []
        active = np.flatnonzero(self.problem.block_norms[b] > 0.0)
        if active.size == rows.m and not rows.empty:
            parts.append(rows.scaled(self._factors) if np.any(self._factors != 1.0) else rows)
        elif active.size:
            parts.append(rows.select(active).scaled(self._factors[active]))
        if b in self._traced:
            eye = np.arange(block.n) * (block.n + 1)
            row = sp.csr_array((np.ones(block.n), eye, np.array([0, block.n])), (1, block.n**2))
            parts.append(Sparse.sound(row, block.n))
            active = np.append(active, self.problem.m + self._traced.index(b))
        if not parts:
            return active, None
        return active, parts[0] if len(parts) == 1 else Stacked(parts)

    def _make_rows(
        self, problem: FeasibilityProblem, lower: FloatArray, upper: FloatArray, primal: float, dual: float
    ) -> None:
        # With a scale block the trace row reads tr X - trace·size = 0.
        traces = np.array(
            [0.0 if self.has_size else problem.sets[b].trace for b in self._traced], dtype=float
        )
        self.lower, self.upper = np.concatenate([lower, traces]), np.concatenate([upper, traces])
        self.equal = np.concatenate([problem.equality, np.ones(len(self._traced), dtype=bool)])
        self.low = np.flatnonzero(~self.equal & np.isfinite(self.lower))
        self.high = np.flatnonzero(~self.equal & np.isfinite(self.upper))
        self.s, self.p = np.full(self.low.size, primal), np.full(self.low.size, dual)
        self.t, self.q = np.full(self.high.size, primal), np.full(self.high.size, dual)
        self.y = np.zeros(self.m)
        self._sync_multipliers()

    def _start(self, point: Point, y: FloatArray) -> None:
        self.y[: self.problem.m] = y / self._factors
        self.p, self.q = np.maximum(self.y[self.low], 0.0), np.maximum(-self.y[self.high], 0.0)
        fixed = float(self.lower[self.equal] @ self.y[self.equal])
        value = fixed + float(self.lower[self.low] @ self.p - self.upper[self.high] @ self.q)
        gap = abs(value - self._cost_of(point))
        usual = self.tau * self.kappa
        mu = max(START * gap, START_SHARE * abs(value), START_FLOOR * usual) / self.degree
        most = np.sqrt(usual)
        self.p, self.q = np.maximum(self.p, mu / most), np.maximum(self.q, mu / most)
        self.s, self.t = mu / self.p, mu / self.q
        self.tau, self.kappa = 1.0, mu
        self._sync_multipliers()
        if self.has_size:
            assert self._scale_block is not None
            self.size.start(np.zeros(1), mu, 1.0, point[self._scale_block])
        for b, place in self._free_slices.items():
            self.x_free[place] = point[b]
        for (b, block), index in zip(self._place.items(), self.index, strict=True):
            g = block.adjoint(self.y[index]) - block.cost
            trace = block.start(g, mu, self._rho(), point[b])
            if b in self._traced:
                self.y[self.problem.m + self._traced.index(b)] = trace

    def carried(self, problem: FeasibilityProblem, kept: np.ndarray) -> Self:
        """Return the same iterate with other rows: new ones begin where the point meets them.

        ``problem``: the same sets with other rows. ``kept``: for each of its rows the place it had before,
        or -1.
        """
        new = type(self)(problem, self._cost, self._scale_block, pace=self._pace)
        for block, old in zip(new.blocks, self.blocks, strict=True):
            block.adopt(old)
        if new.has_size:
            new.size.adopt(self.size)
        new.x_free = self.x_free
        new.tau, new.kappa, new.iteration = self.tau, self.kappa, self.iteration
        traces = np.arange(self.problem.m, self.m)
        place = np.concatenate([kept, traces])
        new.y = np.where(place >= 0, self.y[place], 0.0)
        values = new._apply()
        most = float(np.max(np.concatenate([self.p, self.q]), initial=0.0)) or 1.0
        for mine, theirs, room, names in (
            (new.low, self.low, values - new.lower * self.tau, ("s", "p")),
            (new.high, self.high, new.upper * self.tau - values, ("t", "q")),
        ):
            before = np.zeros((2, self.m))
            before[:, theirs] = getattr(self, names[0]), getattr(self, names[1])
            slack, dual = before[:, place[mine]]
            fresh = place[mine] < 0
            # A violated row as far inside as it is outside: next to nothing would make its multiplier huge.
            slack[fresh] = np.maximum(np.abs(room[mine][fresh]), self.mu / most)
            dual[fresh] = NEW_ROW_MULTIPLIER_SHARE * self.mu / slack[fresh]
            setattr(new, names[0], slack)
            setattr(new, names[1], dual)
        new._sync_multipliers()
        new._measure()
        return new

    def _cost_of(self, point: Point) -> float:
        total = sum(float(np.vdot(block.cost, point[b])) for b, block in self._place.items())
        if self._scale_block is not None:
            total += float(np.vdot(self.size.cost, point[self._scale_block]))
        free = np.concatenate([np.zeros(0), *(point[b] for b in self._free_slices)])
        return total + float(self.free_cost @ free)

    def _sync_multipliers(self) -> None:
        """Inequality rows have ``y = p - q``."""
        self.y[~self.equal] = 0.0
        self.y[self.low] += self.p
        self.y[self.high] -= self.q

    @property
    def degree(self) -> int:
        """Number of complementary pairs."""
        blocks = sum(block.degree for block in self.blocks)
        return blocks + self.low.size + self.high.size + (1 if self.has_size else 0) + 1

    def _rho(self) -> float:
        return float(self.size.x[0]) if self.has_size else self.tau

    def _apply(self) -> FloatArray:
        total = self.free_columns @ self.x_free
        for block, index in zip(self.blocks, self.index, strict=True):
            if block.rows is not None:
                total[index] += block.rows.apply(block.x)
        if self.has_size:
            total += self._size_columns * self.size.x[0]
        return total

    def _measure(self) -> None:
        """Recompute residuals and the complementarity measure."""
        values = self._apply()
        self.row_values = values
        self.r_equal = (values - self.lower * self.tau)[self.equal]
        self.r_low = values[self.low] - self.lower[self.low] * self.tau - self.s
        self.r_high = self.upper[self.high] * self.tau - values[self.high] - self.t
        self.r_free = self.free_columns.T @ self.y - self.free_cost * self.tau
        primal = self.free_cost @ self.x_free
        primal += sum(float(np.vdot(b.cost, b.x)) for b in self.blocks)
        traces = sum(b.size_trace() for b in self.blocks)
        dual = float(self.lower[self.equal] @ self.y[self.equal])
        dual += float(self.lower[self.low] @ self.p - self.upper[self.high] @ self.q)
        self.r_size = np.zeros(1)
        if self.has_size:
            primal += float(self.size.cost @ self.size.x)
            self.r_size = self._size_columns @ self.y + self.size.u + traces - self.size.cost * self.tau
        else:
            dual -= traces
        #: Objective values of both sides, times tau.
        self.primal_value, self.dual_value = float(primal), dual
        self.r_gap = dual - float(primal) - self.kappa
        products = sum(block.complementarity for block in self.blocks)
        products += float(self.s @ self.p + self.t @ self.q) + self.tau * self.kappa
        if self.has_size:
            products += self.size.complementarity
        self.mu = products / self.degree

    @property
    def sane(self) -> bool:
        """Whether the iterate is still made of finite, positive numbers."""
        return bool(np.isfinite(self.mu) and self.tau > 0.0 and self.kappa > 0.0)

    @property
    def row_residual(self) -> float:
        """Largest row residual of the point ``X / tau``, the rows having norm about one."""
        parts = (self.r_equal, self.r_low, self.r_high)
        return max(float(np.max(np.abs(part), initial=0.0)) for part in parts) / self.tau

    @property
    def r_blocks(self) -> list[FloatArray]:
        """Residuals of stationarity, block by block."""
        return [
            block.adjoint(self.y[index]) + block.dual - block.cost * self.tau
            for block, index in zip(self.blocks, self.index, strict=True)
        ]

    @property
    def dual_residual(self) -> float:
        """Norm of the dual residuals, before any normalisation."""
        total = sum(float(np.sum(r * r)) for r in self.r_blocks)
        return float(np.sqrt(total + self.r_free @ self.r_free + self.r_size @ self.r_size))

    def point(self) -> Point:
        """The present point ``X / tau``."""
        return self._point(lambda block: block.x, self.x_free, self.tau)

    def _point(self, part: Callable[[Block], FloatArray], free: FloatArray, tau: float) -> Point:
        """Put a point together from parts of the blocks and the free entries."""
        out = []
        for b, _ in enumerate(self.problem.sets):
            if b in self._place:
                out.append(part(self._place[b]) / tau)
            elif b == self._scale_block:
                out.append(part(self.size) / tau)
            else:
                out.append(free[self._free_slices[b]] / tau)
        return tuple(out)

    def multipliers(self) -> FloatArray:
        """The present multipliers, in the units of the problem."""
        return self.y[: self.problem.m] * self._factors


def _spot(active: np.ndarray) -> Index:
    """Indices as a slice where they have no gaps: whole matrices are then added without copies."""
    first, size = (int(active[0]), active.size) if active.size else (0, 0)
    return slice(first, first + size) if np.array_equal(active, np.arange(first, first + size)) else active


#: How often a step that left a cone is tried again, and how much shorter.
RETRIES, SHORTER = 5, 0.8

#: Newton systems of at least so many rows are summed up in single precision while the gap, relative to the
#: objective, is above this, and steps are no shorter than that.
MANY_ROWS, ROUGH, SHORT = 250, 3e-4, 0.3


@dataclass(frozen=True)
class _Sized:
    """How a block answers to a change of the size of its set: gradient g, ``H^-1 g`` and ``A H^-1 g``.

    The first two are images.
    """

    place: int
    block: MatrixBlock
    gradient: FloatArray
    response: FloatArray
    values: FloatArray


class StructuredEmbedding(StructuredIterate):
    """The iterate of the embedding, and how to improve it."""

    def step(self, glance: Callable[[float], bool] | None = None) -> float:
        """Take one predictor–corrector step.

        ``glance``: called with the length that the predictor allows, at most one. It may look
        :meth:`ahead`, and returns True if nothing is left to do; there is no step then.

        Returns: the length of the step taken; near zero when the method is stuck.

        Raises ``numpy.linalg.LinAlgError``: if the iterate is too close to the boundary for the
        factorisations to succeed. Raises ``LimitError``: if there is no time for it.
        """
        need("a step of the interior-point method", *self._work)
        self._factorise()
        self._direction(0.0, corrected=False)
        affine = min(1.0, self._limit())
        if glance is not None:
            self._astray = False
            if glance(affine):
                return 1.0
            if self._astray:
                self._direction(0.0, corrected=False)
        centring = (1.0 - affine) ** self._pace.power
        self._direction(centring, corrected=True)
        length = self._propose(min(1.0, self._pace.boundary * self._limit()))
        self._move(length)
        self.iteration += 1
        self._short = length < SHORT
        return length

    def ahead(self) -> tuple[Point, FloatArray] | None:
        """Point and multipliers a whole step on, by the corrector that aims at the very end.

        Near the end they are far better than those of the next iterate, which has to stay inside. Only for
        use between predictor and corrector. None if there is no such point.
        """
        self._astray = True
        self._direction(0.0, corrected=True)
        tau = self.tau + self.dtau
        if not tau > 0.0:
            return None
        point = self._point(lambda block: block.ahead(), self.x_free + self.dx_free, tau)
        return point, (self.y + self.dy)[: self.problem.m] * self._factors / tau

    @property
    def _rough(self) -> bool:
        """Whether the Newton system may be summed up in single precision: far from the end, with many rows.

        What it is solved for is always computed in full, so that errors of a step are mended by the next.
        """
        far = self.mu * self.degree > ROUGH * abs(self.primal_value) > 0.0
        return far and self.m >= MANY_ROWS and not self._short

    def _factorise(self) -> None:
        self._v_low, self._v_high = self.s / self.p, self.t / self.q
        weight = np.zeros(self.m)
        weight[self.low] += 1.0 / self._v_low
        weight[self.high] += 1.0 / self._v_high
        pull = np.zeros(self.m)
        pull[self.low] += self.lower[self.low] / self._v_low
        pull[self.high] += self.upper[self.high] / self._v_high
        self._omega = np.divide(1.0, weight, out=np.zeros(self.m), where=weight > 0.0)
        self._beta = np.where(self.equal, self.lower, self._omega * pull)
        self._costs = [block.cost_image() for block in self.blocks]
        self._stationarity = [
            block.adjoint_image(self.y[index]) - self.tau * cost
            for block, index, cost in zip(self.blocks, self.index, self._costs, strict=True)
        ]
        schur = np.diag(self._omega)
        self._sized = []
        self._after_stationarity, self._after_cost = np.zeros(self.m), np.zeros(self.m)
        for k, (block, index) in enumerate(zip(self.blocks, self.index, strict=True)):
            values = np.zeros(self.m)
            if block.rows is not None:
                known = [self._stationarity[k], self._costs[k]]
                known += [] if block.size_gradient is None else [block.size_gradient]
                part, after = block.schur(known, rough=self._rough)
                schur[_square(index)] += part
                self._after_stationarity[index] += after[0]
                self._after_cost[index] += after[1]
                if block.size_gradient is not None:
                    values[index] = after[2]
            if block.size_gradient is not None:
                assert isinstance(block, MatrixBlock)
                response = block.invert(block.size_gradient)
                self._sized.append(_Sized(k, block, block.size_gradient, response, values))
        columns, corner = self._border()
        self._system = DenseNewtonSystem(schur, columns, corner)
        self._tau_part()

    def _border(self) -> tuple[FloatArray, FloatArray]:
        """Columns and curvature of the unknowns that are not eliminated: Free entries and the size."""
        columns = self.free_columns
        corner = np.zeros(columns.shape[1])
        if self.has_size:
            column = np.array(self._size_columns)
            curvature = float(self.size.u[0] / self.size.x[0])
            for part in self._sized:
                curvature += part.block.size_curvature() - float(np.vdot(part.gradient, part.response))
                column += part.values
            columns = np.hstack([columns, column[:, None]])
            corner = np.append(corner, max(curvature, 0.0))
        return columns, corner

    def _rows_after_inverse(self, q: list[FloatArray]) -> FloatArray:
        """``A H^-1 q``."""
        total = np.zeros(self.m)
        for block, index, part in zip(self.blocks, self.index, q, strict=True):
            if block.rows is not None:
                total[index] += block.apply_image(block.invert(part))
        return total

    def _tau_part(self) -> None:
        """Response of all unknowns to a unit change of tau; the same for both directions of a step."""
        q, ahq = [-cost for cost in self._costs], -self._after_cost
        if not self.has_size:
            for part in self._sized:
                q[part.place] = q[part.place] + part.gradient
                ahq = ahq + part.values
        hq = [block.invert(part) for block, part in zip(self.blocks, q, strict=True)]
        r2 = np.array(self.free_cost)
        if self.has_size:
            r2 = np.append(r2, self.size.cost[0] - self._response_inner(q))
        y, border = self._system.solve(self._beta - ahq, r2)
        self._tau_q, self._tau_hq, self._tau_ahq = q, hq, ahq
        self._tau_y, self._tau_border = y, border
        self._tau_slope = self._slope()

    def _response_inner(self, q: list[FloatArray]) -> float:
        """``<H^-1 g, q>``."""
        return sum(float(np.vdot(part.response, q[part.place])) for part in self._sized)

    def _direction(self, centring: float, *, corrected: bool) -> None:
        """Compute a direction."""
        eta, centre = 1.0 - centring, centring * self.mu
        # The residual of stationarity without the dual, which aim adds where it costs nothing; all of it if
        # there is no corrector and no centring.
        q = [
            block.aim(centre, corrected, eta) + eta * part
            for block, part in zip(self.blocks, self._stationarity, strict=True)
        ]
        target_low, target_high = centre - self.s * self.p, centre - self.t * self.q
        target_tau = centre - self.tau * self.kappa
        if corrected:
            target_low = target_low - self.ds * self.dp
            target_high = target_high - self.dt * self.dq
            target_tau -= self.dtau * self.dkappa
        low = (target_low / self.p - eta * self.r_low) / self._v_low
        high = (target_high / self.q - eta * self.r_high) / self._v_high
        rows = np.zeros(self.m)
        rows[self.equal] = -eta * self.r_equal
        mixed = np.zeros(self.m)
        mixed[self.low] += low
        mixed[self.high] -= high
        rows += self._omega * mixed
        ahq = self._rows_after_inverse(q) if corrected else self._after_stationarity
        r2 = -eta * self.r_free
        size_q = 0.0
        if self.has_size:
            size_q = float(self.size.aim(centre, corrected, 0.0)[0]) + eta * float(self.r_size[0])
            size_q += sum(b.size_target() for b in self.blocks if isinstance(b, MatrixBlock))
            size_q += self._response_inner(q)
            r2 = np.append(r2, -size_q)
        y0, border0 = self._system.solve(rows - ahq, r2)
        self.dtau = self._tau_step(q, rows, low, high, (y0, border0), eta, target_tau)
        dy = y0 + self.dtau * self._tau_y
        border = border0 + self.dtau * self._tau_border
        self._spread(q, dy, border)
        self.dkappa = (target_tau - self.kappa * self.dtau) / self.tau
        values = rows + self.dtau * self._beta - self._omega * dy
        self.dp = low + (self.dtau * self.lower[self.low] - values[self.low]) / self._v_low
        self.dq = high + (values[self.high] - self.dtau * self.upper[self.high]) / self._v_high
        self.ds = target_low / self.p - self._v_low * self.dp
        self.dt = target_high / self.q - self._v_high * self.dq
        self.dy = dy

    def _limit(self) -> float:
        """Longest step that the present direction allows."""
        limits = [block.step_limit() for block in self.blocks]
        numbers = np.concatenate([self.s, self.p, self.t, self.q, [self.tau, self.kappa]])
        changes = np.concatenate([self.ds, self.dp, self.dt, self.dq, [self.dtau, self.dkappa]])
        limits.append(ratio_limit(numbers, changes))
        if self.has_size:
            limits.append(self.size.step_limit())
        return min(limits)

    def _tau_step(
        self,
        q: list[FloatArray],
        rows: FloatArray,
        low: FloatArray,
        high: FloatArray,
        solution: tuple[FloatArray, FloatArray],
        eta: float,
        target: float,
    ) -> float:
        """Solve the last equation, the gap, for the change of tau."""
        y0, border0 = solution
        constant = self._dual_change(rows - self._omega * y0, y0, low, high, 0.0)
        # <q_tau, dX> covers the objective, and without a scale block the traces of the duals too.
        inner = float(self._tau_ahq @ y0)
        inner += sum(float(np.vdot(h, part)) for h, part in zip(self._tau_hq, q, strict=True))
        constant += inner - float(self.free_cost @ border0[: self.free_cost.size])
        if self.has_size:
            constant += (self._response_inner(self._tau_q) - self.size.cost[0]) * border0[-1]
        else:
            targets = sum(b.size_target() for b in self.blocks if isinstance(b, MatrixBlock))
            # -sum offset tr dU = -(targets + <g, dX> - curvature·dtau), and q_tau = -cost + g.
            constant -= 2.0 * self._gradient_inner(q, y0) + targets
        return (target - self.tau * (constant + eta * self.r_gap)) / (self.kappa + self.tau * self._tau_slope)

    def _slope(self) -> float:
        """Change of the gap with tau; the same for both directions of a step."""
        y, border = self._tau_y, self._tau_border
        slope = self._dual_change(self._beta - self._omega * y, y, 0.0, 0.0, 1.0)
        inner = float(self._tau_ahq @ y)
        inner += sum(float(np.vdot(h, part)) for h, part in zip(self._tau_hq, self._tau_q, strict=True))
        slope += inner - float(self.free_cost @ border[: self.free_cost.size])
        if self.has_size:
            return float(slope + (self._response_inner(self._tau_q) - self.size.cost[0]) * border[-1])
        curvature = sum(b.size_curvature() for b in self.blocks if isinstance(b, MatrixBlock))
        return float(slope - 2.0 * self._gradient_inner(self._tau_q, y) + curvature)

    def _gradient_inner(self, q: list[FloatArray], y: FloatArray) -> float:
        """``<g, dX>`` for the direction that ``q`` and ``y`` give."""
        return self._response_inner(q) + sum(float(part.values @ y) for part in self._sized)

    def _dual_change(
        self,
        values: FloatArray,
        y: FloatArray,
        low: FloatArray | float,
        high: FloatArray | float,
        dtau: float,
    ) -> float:
        """Change of ``b'y + lo'p - hi'q`` for given changes of the row values, y and tau."""
        dp = low + (dtau * self.lower[self.low] - values[self.low]) / self._v_low
        dq = high + (values[self.high] - dtau * self.upper[self.high]) / self._v_high
        return float(
            self.lower[self.equal] @ y[self.equal] + self.lower[self.low] @ dp - self.upper[self.high] @ dq
        )

    def _spread(self, q: list[FloatArray], dy: FloatArray, border: FloatArray) -> None:
        """Directions of all blocks from those of the multipliers and the border."""
        f = self.free_cost.size
        self.dx_free = border[:f]
        self.drho = drho = float(border[-1]) if self.has_size else self.dtau
        rhs = [
            block.adjoint_image(dy[index]) + part + self.dtau * tau_part
            for block, index, part, tau_part in zip(self.blocks, self.index, q, self._tau_q, strict=True)
        ]
        if self.has_size:
            for part in self._sized:
                rhs[part.place] = rhs[part.place] + drho * part.gradient
        for block, right in zip(self.blocks, rhs, strict=True):
            block.set_direction(block.invert(right), drho)
        if self.has_size:
            self.size.set_direction(border[-1:], 0.0)

    def _propose(self, length: float) -> float:
        """Shorten a step until the blocks agree that it stays inside; limits are estimates."""
        for _ in range(RETRIES):
            try:
                for block in self.blocks:
                    block.propose(length, self.drho)
                return length
            except np.linalg.LinAlgError:
                length *= SHORTER
        raise np.linalg.LinAlgError("no step stays inside the cones")

    def _move(self, length: float) -> None:
        self.x_free = self.x_free + length * self.dx_free
        self.y = self.y + length * self.dy
        self.s, self.p = self.s + length * self.ds, self.p + length * self.dp
        self.t, self.q = self.t + length * self.dt, self.q + length * self.dq
        self.tau += length * self.dtau
        self.kappa += length * self.dkappa
        self._sync_multipliers()
        for block in self.blocks:
            block.accept()
        if self.has_size:
            self.size.propose(length, 0.0)
            self.size.accept()
        self._measure()


def _square(index: Index) -> Any:
    return (index, index) if isinstance(index, slice) else np.ix_(index, index)
