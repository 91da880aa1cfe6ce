"""The homogeneous self-dual embedding, solved by a primal–dual predictor–corrector method.

Unknowns are the blocks X, multipliers y of the rows, and two numbers: tau, by which every bound is
multiplied, and its partner kappa. If tau stays positive, X/tau is a point; if kappa does, y is a certificate.
Without an objective the method heads for the analytic centre of the points, or of the certificates: deep
inside, which is what a proof likes best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdpfeas.backends.ipm.blocks import MatrixBlock, ratio_limit
from sdpfeas.backends.ipm.iterate import Index, Iterate
from sdpfeas.backends.ipm.quasi_definite import QuasiDefinite
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import Point

__all__ = ["Embedding"]

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


class Embedding(Iterate):
    """The iterate of the embedding, and how to improve it."""

    def step(self, glance: Callable[[float], bool] | None = None) -> float:
        """Take one predictor–corrector step.

        Parameters
        ----------
        glance : callable, optional
            Called with the length that the predictor allows, at most one. It may look :meth:`ahead`, and
            returns True if nothing is left to do; there is no step then.

        Returns
        -------
        float
            The length of the step taken; near zero when the method is stuck.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the iterate is too close to the boundary for the factorisations to succeed.
        LimitError
            If there is no time for it.
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
        self._system = QuasiDefinite(schur, columns, corner)
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
