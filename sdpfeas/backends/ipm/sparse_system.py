"""The Newton system of cones with rows stored as entries, with HKM directions.

Besides x, u, y and z of the standard form there are tau, which multiplies b, c and f, and its dual kappa,

    A x + B u = b tau,   z = c tau - A'y,   B'y = f tau,   kappa = b'y - <c, x> - f'u

(Xu, Hung and Ye 1996). :class:`SparseSystem` implements the steps of
:func:`sdpfeas.backends.ipm.interior_point.predictor_corrector`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpfeas.backends.ipm.interior_point import NewtonSystem
from sdpfeas.backends.ipm.iteration_cost import SPARSE_PRODUCTS_PER_CONE
from sdpfeas.backends.ipm.normal_equations import DenseNormalEquations, SparseNormalEquations
from sdpfeas.backends.ipm.primal_dual_forms import ProblemForm
from sdpfeas.backends.ipm.schur_complement import SchurComplement
from sdpfeas.backends.ipm.sparse_cones import HkmIterate, in_interior
from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import Point

#: The first iterate is a multiple of the identity this many times as large as the data.
START_FACTOR = 10.0

#: Share of the iterate that a corrected point must keep in every cone to count as interior.
INTERIOR_SHARE = 0.02

#: Most steps of conjugate gradients that correct a solution, and the residual, relative to the solution, at
#: which they end: rounding. A system that needs no more steps than this serves later solutions as well.
CORRECTION_STEPS, RESIDUAL_NOISE, ANCHOR_STEPS = 20, 3e-16, 3

#: Steps within which the residual must fall by ``1 / REFINED_SHARE``.
PATIENCE_STEPS = 5

#: Most steps of conjugate gradients that refine a direction, and the share of the residual that may be left.
DIRECTION_STEPS, REFINED_SHARE = 10, 0.1

#: Shares of the way from the last solution that was corrected accurately to one that was not.
SEGMENT_SHARES = (1.0, 0.98, 0.95, 0.9, 0.8, 0.5)

#: Where mu is below this share of its first value and the condition number still above this, no strictly
#: feasible point can be told from a boundary point in floating-point arithmetic.
NO_INTERIOR_MU_SHARE, NO_INTERIOR_CONDITION = 1e-9, 1e7

#: Points are not offered where the condition number is above this and grows by more than this power of the
#: factor by which mu falls: a proof would fail. The growth is about linear where there is no strictly
#: feasible point, and about constant where there is one.
SUSPECT_CONDITION, SUSPECT_GROWTH = 1e5, 0.5

#: Factorised normal equations.
Equations = DenseNormalEquations | SparseNormalEquations

#: A sparse factor with more than this share of the entries of a dense one, of a matrix with at most this many
#: rows, is replaced by a dense one: at half of the entries it takes three times as long.
DENSE_FILL, DENSE_FILL_ROWS = 0.45, 5000

#: The variables x, u and y.
Variables = tuple[FloatArray, FloatArray, FloatArray]


@dataclass
class _Anchor:
    """An iterate with its normal equations, and the solution ``A x + B u = b`` corrected with them."""

    equations: Equations
    iterate: HkmIterate
    x: FloatArray
    u: FloatArray


class SparseSystem(NewtonSystem):
    """The iterate and its Newton system. Rows of the standard form have norm about one."""

    def __init__(self, problem: ProblemForm) -> None:
        super().__init__()
        self.problem = problem
        self.form = form = problem.form
        self.schur = SchurComplement(form)
        guard("the Newton system", memory=self.schur.memory + 8.0 * 30.0 * form.size)
        largest = max([g.n for g in form.psd_groups], default=1)
        bound = max(1.0, float(np.max(np.abs(form.b), initial=0.0)))
        primal = START_FACTOR * bound * max(1.0, np.sqrt(largest))
        dual = START_FACTOR * max(1.0, float(np.linalg.norm(form.c)))
        self.iterate = HkmIterate.multiples_of_identity(form, primal, dual)
        self.y, self.u = np.zeros(form.m), np.zeros(form.free.shape[1])
        self.tau, self.kappa = 1.0, primal * dual
        self._has_cost = bool(np.any(form.c) or np.any(form.f))
        self._free_adjoint = form.free.T.tocsr()
        self.dx, self.dz, self.dy, self.du = (np.zeros_like(v) for v in (self.x, self.z, self.y, self.u))
        self._proposed = self.iterate
        #: The factorised normal equations; None until :meth:`factorise` is called at the iterate.
        self._equations: Equations | None = None
        self._anchor: _Anchor | None = None
        #: mu and condition number of the iterate and of the one before.
        self._conditioning = [(np.inf, np.inf)] * 2
        self.update_residuals()
        self._first_mu = self.mu

    @property
    def x(self) -> FloatArray:
        """The primal iterate, before division by tau."""
        return self.iterate.x

    @property
    def z(self) -> FloatArray:
        """The dual slack, before division by tau."""
        return self.iterate.z

    # --- Residuals, duality gap, stopping criteria

    def update_residuals(self) -> None:
        """Recompute residuals, objective values and the complementarity measure mu."""
        form = self.form
        slack = -(form.adjoint @ self.y) if self.y.any() else 0.0
        self.r_primal = form.b * self.tau - form.rows @ self.x - form.free @ self.u
        self.r_dual = form.c * self.tau + slack - self.z
        self.r_free = form.f * self.tau - self._free_adjoint @ self.y
        self.primal_value = float(form.c @ self.x + form.f @ self.u)
        self.dual_value = float(form.b @ self.y)
        self.r_gap = self.kappa + self.primal_value - self.dual_value
        self.mu = (float(self.x @ self.z) + self.tau * self.kappa) / (form.degree + 1)
        self._conditioning = [self._conditioning[1], (self.mu, self.condition)]

    @property
    def residual(self) -> float:
        """Largest residual of both programs, relative to their right-hand sides."""
        form = self.form
        parts = ((self.r_primal, form.b), (self.r_dual, form.c), (self.r_free, form.f))
        sizes = (
            float(np.max(np.abs(r), initial=0.0)) / (1.0 + float(np.max(np.abs(right), initial=0.0)))
            for r, right in parts
        )
        return max(sizes) / self.tau

    @property
    def condition(self) -> float:
        """Condition number of x and z: the largest ``tr(x) tr(z) / (n^2 mu)`` over the cones.

        On the central path it stays bounded if the feasible set or the set of certificates is strictly
        feasible, and grows without limit if neither is.
        """
        form, most = self.form, 1.0
        for group in form.psd_groups:
            x, z = (np.trace(group.view(flat), axis1=1, axis2=2) for flat in (self.x, self.z))
            most = max(most, float(np.max(x * z)) / group.n**2)
        for cones in form.second_order_groups:
            most = max(most, float(np.max(cones.view(self.x)[:, 0] * cones.view(self.z)[:, 0])))
        nonneg = form.nonneg
        count = max(nonneg.stop - nonneg.start, 1)
        most = max(most, float(np.sum(self.x[nonneg])) * float(np.sum(self.z[nonneg])) / count**2)
        return most / self.mu

    @property
    def no_interior(self) -> bool:
        """Whether mu is small and the condition number large."""
        small = self.mu < NO_INTERIOR_MU_SHARE * self._first_mu
        return small and self.condition > NO_INTERIOR_CONDITION

    @property
    def _losing_interior(self) -> bool:
        """Whether the condition number grew in the last step as it does without a strictly feasible point."""
        (last_mu, last), (mu, condition) = self._conditioning
        return condition > SUSPECT_CONDITION and condition > last * (last_mu / mu) ** SUSPECT_GROWTH

    # --- Newton system

    @property
    def _direction_flops(self) -> float:
        """Flop count of both directions, the step lengths and the move."""
        cubes = sum(float(g.count) * g.n**3 for g in self.form.psd_groups)
        return SPARSE_PRODUCTS_PER_CONE * cubes + 60.0 * WRITE_FLOPS * float(self.form.size)

    def factorise(self) -> None:
        """Form the Newton system and factorise it, unless a point was corrected with it before."""
        if self._equations is not None:
            return
        # At multiples of the identity this takes no products, and a point corrected there may end the search.
        first = self.iterate.multiple is not None
        guard("a step of the interior-point method", self.schur.flops + (not first) * self._direction_flops)
        schur = self.schur.at(self.iterate)
        if self.schur.sparse:
            self._equations = equations = SparseNormalEquations(schur, self.form.free)
            # The pattern is the same in all iterations, except for the first one with second-order cones.
            self.schur.sparse = equations.fill <= DENSE_FILL or self.form.m > DENSE_FILL_ROWS
        else:
            self._equations = DenseNormalEquations(schur, self.form.free.toarray())
        self._solve_for_tau()
        self._hkm_r_dual = self.iterate.apply_hkm(self.r_dual)
        self._rows_hkm_r_dual = self.form.rows @ self._hkm_r_dual

    def _solve(self, r1: FloatArray, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        assert self._equations is not None
        return self._equations.solve(r1, r2)

    def _solve_for_tau(self) -> None:
        """Solve for the change of all variables with tau, which predictor and corrector share."""
        form = self.form
        y_b, u_b = self._solve(form.b, np.zeros_like(self.u))
        self._hkm_cost, self._rows_hkm_cost = form.c, np.zeros(form.m)
        self._y_cost, u_cost = np.zeros(form.m), np.zeros_like(self.u)
        # The cost without its projection onto the rows: small, and inaccurate if computed as a difference of
        # inner products.
        self._cost_rest, hkm_rest = form.c, form.c
        if self._has_cost:
            self._hkm_cost = self.iterate.apply_hkm(form.c)
            self._rows_hkm_cost = form.rows @ self._hkm_cost
            self._y_cost, u_cost = self._solve(self._rows_hkm_cost, form.f)
            self._cost_rest = form.c - form.adjoint @ self._y_cost
            hkm_rest = self.iterate.apply_hkm(self._cost_rest)
        self._tau_y, self._tau_u = y_b + self._y_cost, u_b + u_cost
        # Both terms are squares in exact arithmetic.
        self._tau_slope = max(float(form.b @ y_b), 0.0) + max(float(self._cost_rest @ hkm_rest), 0.0)

    # --- Search directions and step

    def solve_direction(self, sigma: float, *, corrected: bool) -> None:
        """Solve the Newton system for products ``sigma mu`` and residuals times ``sigma``."""
        form, it, eta, centre = self.form, self.iterate, 1.0 - sigma, sigma * self.mu
        if it.multiple is not None and not corrected:
            guard("a step of the interior-point method", self._direction_flops)
        target = -it.x
        target_tau = centre - self.tau * self.kappa
        if centre > 0.0:
            target = target + centre * it.inverse_dual()
        if corrected:
            target = target - it.second_order_term(self.dx, self.dz)
            target_tau -= self.dtau * self.dkappa
        rhs = eta * self.r_primal - form.rows @ target + eta * self._rows_hkm_r_dual
        y, u = self._solve(rhs, eta * self.r_free)
        self.dtau = dtau = self._tau_change(target, target_tau, eta, y, u)
        self.dkappa = (target_tau - self.kappa * dtau) / self.tau
        self.dy, self.du = y + dtau * self._tau_y, u + dtau * self._tau_u
        self.dz = eta * self.r_dual - form.adjoint @ self.dy + dtau * form.c
        self.dx = target - it.apply_hkm(self.dz)
        if corrected and not self.u.size and self._has_cost:
            self._refine_direction(eta * self.r_primal + dtau * form.b)

    def _refine_direction(self, right: FloatArray) -> None:
        """Refine dx, dy and dz until ``A dx = right`` holds well enough.

        Conjugate gradients on the normal equations, preconditioned by their factor: near the optimum they
        are so ill-conditioned that solutions by the factor alone leave larger residuals than they remove.
        """
        form, noise = self.form, RESIDUAL_NOISE * float(np.linalg.norm(self.x))
        enough = max(REFINED_SHARE * float(np.linalg.norm(self.r_primal)), noise)
        direction, last = np.zeros(form.m), 0.0
        residual = right - form.rows @ self.dx
        for step in range(DIRECTION_STEPS):
            if float(np.linalg.norm(residual)) <= enough:
                return
            w, _ = self._solve(residual, self.u)
            product = float(residual @ w)
            if step:
                w = w + (product / last) * direction
            last, direction = product, w
            turn = form.adjoint @ w
            change = self.iterate.apply_hkm(turn)
            along = float(w @ (form.rows @ change))
            if not (along > 0.0 and product > 0.0):
                return
            length = product / along
            self.dy, self.dz, self.dx = (
                self.dy + length * w,
                self.dz - length * turn,
                self.dx + length * change,
            )
            residual = right - form.rows @ self.dx

    def _tau_change(
        self, target: FloatArray, target_tau: float, eta: float, y: FloatArray, u: FloatArray
    ) -> float:
        """Solve the gap equation for the change of tau."""
        form = self.form
        right = eta * self.r_gap + target_tau / self.tau
        if not self.u.size:
            right += eta * float(self._y_cost @ self.r_primal) - float(form.b @ y)
            right += float(self._cost_rest @ (target - eta * self._hkm_r_dual))
            return right / (self._tau_slope + self.kappa / self.tau)
        # Free columns may be linearly dependent; B'y = f then holds approximately at best and must not be
        # used.
        slope = form.b - self._rows_hkm_cost
        right += float(form.c @ target) - eta * float(form.c @ self._hkm_r_dual)
        right += float(form.f @ u) - float(slope @ y)
        left = float(slope @ self._tau_y) - float(form.f @ self._tau_u)
        return right / (left + float(form.c @ self._hkm_cost) + self.kappa / self.tau)

    def full_step(self) -> tuple[Point, FloatArray] | None:
        """Return point and multipliers after a step of length one, in the cones or not."""
        tau = self.tau + self.dtau
        if not tau > 0.0:
            return None
        scaled = (self.x + self.dx) / tau, (self.u + self.du) / tau, (self.y + self.dy) / tau
        return self.problem.point(*scaled), self.problem.multipliers(*scaled)

    def max_step(self) -> float:
        """Longest step along the direction that stays in all cones."""
        lowest = min(self.dtau / self.tau, self.dkappa / self.kappa)
        return min(*self.iterate.max_steps(self.dx, self.dz), np.inf if lowest >= 0.0 else -1.0 / lowest)

    def propose(self, length: float) -> None:
        """Factorise x and z after a step."""
        self._proposed = HkmIterate(self.form, self.x + length * self.dx, self.z + length * self.dz)

    def accept(self, length: float) -> None:
        """Take the step."""
        self.iterate, self._equations = self._proposed, None
        self.y, self.u = self.y + length * self.dy, self.u + length * self.du

    # --- Points and certificates
    #
    # The factorised system gives, in the metric of the iterate, the least change of x or of y and z after
    # which the equations hold. It is often interior long before the residuals have converged.

    def candidate_point(self) -> Point | None:
        """Correct the variables of the point onto their equations."""
        if self._losing_interior:
            return None
        found = self._corrected(self.problem.point_is_primal, self.tau)
        return None if found is None else self.problem.point(*(part / self.tau for part in found))

    def candidate_certificate(self) -> FloatArray | None:
        """Correct the variables of the multipliers to a ray: ``b'y > 0``, or ``<c, x> + f'u < 0``."""
        form, primal = self.form, not self.problem.point_is_primal

        def improves(x: FloatArray, u: FloatArray, y: FloatArray) -> bool:
            return bool(form.c @ x + form.f @ u < 0.0 if primal else form.b @ y > 0.0)

        if not improves(self.x, self.u, self.y):
            return None
        found = self._corrected(primal, 0.0)
        return self.problem.multipliers(*found) if found is not None and improves(*found) else None

    def evidence(self) -> tuple[Point, FloatArray]:
        """Point and multipliers of the iterate, uncorrected."""
        variables = self.x, self.u, self.y
        point = self.problem.point(*(part / self.tau for part in variables))
        return point, self.problem.multipliers(*variables)

    def solution(self) -> tuple[Point, FloatArray]:
        """Correct x and u, and y."""
        variables = self.x, self.u, self.y
        x, u = self._corrected_accurately() or variables[:2]
        y = (self._corrected(False, self.tau) or variables)[2]
        scaled = x / self.tau, u / self.tau, y / self.tau
        return self.problem.point(*scaled), self.problem.multipliers(*scaled)

    def _corrected(self, primal: bool, tau: float) -> Variables | None:
        """Variables near the iterate that satisfy the equations of one program; None if not interior.

        The equations are ``A x + B u = b tau`` or ``z = c tau - A'y``, ``B'y = f tau``.
        """
        self.factorise()
        form, change = self.form, tau - self.tau
        if primal:
            w, u = self._solve(self.r_primal + change * form.b, np.zeros_like(self.u))
            x = self.x + self.iterate.apply_hkm(form.adjoint @ w)
            return (x, self.u + u, self.y) if self._interior(x, self.x) else None
        rhs = self._rows_hkm_r_dual + change * self._rows_hkm_cost
        y = self.y + self._solve(rhs, self.r_free + change * form.f)[0]
        z = tau * form.c - form.adjoint @ y
        return (self.x, self.u, y) if self._interior(z, self.z) else None

    def _corrected_accurately(self) -> tuple[FloatArray, FloatArray] | None:
        """Return x and u near the iterate with ``A x + B u = b tau`` up to rounding; None if not interior."""
        self.factorise()
        assert self._equations is not None
        x, u, steps = self._refine(self._equations, self.iterate, self.x, self.u)
        inside, anchor = self._interior(x, self.x), self._anchor
        if inside and steps < CORRECTION_STEPS:
            if steps <= ANCHOR_STEPS:
                self._anchor = _Anchor(self._equations, self.iterate, x / self.tau, u / self.tau)
            return x, u
        if anchor is None:
            return (x, u) if inside else None
        # The equations are too ill-conditioned in the metric of this iterate. In that of an earlier one they
        # are not, and the segment from there to the corrected point is feasible.
        x, u = (x, u) if inside else (self.x, self.u)
        x, u, _ = self._refine(anchor.equations, anchor.iterate, x, u)
        start, end = self.tau * anchor.x, self.tau * anchor.u
        for share in SEGMENT_SHARES:
            near = start + share * (x - start)
            if bool(np.isfinite(near).all()) and in_interior(self.form, near):
                return near, end + share * (u - end)
        return None

    def _refine(
        self, equations: Equations, iterate: HkmIterate, x: FloatArray, u: FloatArray
    ) -> tuple[FloatArray, FloatArray, int]:
        """Correct x and u in the metric of an iterate; also return the number of steps to rounding level."""
        form = self.form
        right = form.b * self.tau
        residual = right - form.rows @ x - form.free @ u
        direction, last, least, size = np.zeros(form.m), 0.0, np.inf, np.inf
        for step in range(CORRECTION_STEPS):
            w, du = equations.solve(residual, np.zeros_like(u))
            product, length = float(residual @ w), 1.0
            # Conjugate gradients from the second step on; plain refinement with free columns.
            conjugate = bool(step) and not u.size
            if conjugate and step > 1 and last > 0.0:
                w = w + (product / last) * direction
            last, direction = product, w
            change = iterate.apply_hkm(form.adjoint @ w)
            if conjugate:
                along = float(w @ (form.rows @ change))
                length = product / along if along > 0.0 else 1.0
            x, u = x + length * change, u + length * du
            residual = right - form.rows @ x - form.free @ u
            before, size = size, float(np.linalg.norm(residual))
            if size <= RESIDUAL_NOISE * float(np.linalg.norm(x)):
                return x, u, step
            if u.size and step and not size < REFINED_SHARE * before:
                return x, u, step
            if not step % PATIENCE_STEPS:
                # Where there is no strictly feasible point the steps do not converge.
                if not size < REFINED_SHARE * least or (
                    not step and iterate is self.iterate and not self._interior(x, self.x)
                ):
                    break
                least = size
        return x, u, CORRECTION_STEPS

    def _interior(self, found: FloatArray, model: FloatArray) -> bool:
        """Whether ``found`` is interior with margin ``INTERIOR_SHARE`` relative to the rescaled ``model``."""
        rest = np.empty_like(found)
        for group in self.form.psd_groups:
            new, old = group.view(found), group.view(model)
            size = np.trace(new, axis1=1, axis2=2) / np.trace(old, axis1=1, axis2=2)
            np.multiply(-INTERIOR_SHARE * size[:, None, None], old, out=group.view(rest))
            group.view(rest)[:] += new
        for cones in self.form.second_order_groups:
            new, old = cones.view(found), cones.view(model)
            cones.view(rest)[:] = new - (INTERIOR_SHARE * new[:, :1] / old[:, :1]) * old
        nonneg = self.form.nonneg
        total = float(np.sum(model[nonneg])) or 1.0
        size = INTERIOR_SHARE * float(np.sum(found[nonneg])) / total
        rest[nonneg] = found[nonneg] - size * model[nonneg]
        return bool(np.isfinite(rest).all()) and in_interior(self.form, rest)
