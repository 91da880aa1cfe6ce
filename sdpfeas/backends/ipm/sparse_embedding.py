"""The homogeneous self-dual embedding of the standard form, with HKM directions.

Besides x, u, y and z there are two scalars: tau, which multiplies b, c and f, and its dual kappa,

    A x + B u = b tau,   z = c tau - A'y,   B'y = f tau,   kappa = b'y - <c, x> - f'u.

If tau stays positive, x/tau and y/tau solve the two programs; if kappa does, x or y is a ray that proves
one of them infeasible (Ye, Todd and Mizuno 1994; Xu, Hung and Ye 1996). Without an objective the iterates
converge to the analytic centre of the feasible set.
:func:`sdpfeas.backends.ipm.sparse_method.predictor_corrector` is the main loop over the methods of
:class:`SparseEmbedding`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpfeas.backends.ipm.newton_system import DenseNewtonSystem, SparseNewtonSystem
from sdpfeas.backends.ipm.schur_complement import SchurComplement
from sdpfeas.backends.ipm.sparse_cones import HkmIterate, in_interior
from sdpfeas.backends.ipm.standard_form import StandardForm
from sdpfeas.numerics.cost_estimate import Work, need
from sdpfeas.numerics.linalg import FloatArray

#: How often a step that left a cone is shortened, and by which factor.
BACKTRACKING_STEPS, BACKTRACKING_FACTOR = 8, 0.8

#: The first iterate is a multiple of the identity this many times as large as the data.
START_FACTOR = 10.0

#: Share of the iterate that a corrected point must keep in every cone to count as interior.
INTERIOR_SHARE = 0.02


@dataclass
class _Direction:
    """A search direction."""

    x: FloatArray
    z: FloatArray
    y: FloatArray
    u: FloatArray
    tau: float
    kappa: float


class SparseEmbedding:
    """The iterate of the embedding and the parts of one iteration. Rows of ``form`` have norm about one."""

    def __init__(self, form: StandardForm) -> None:
        self.form = form
        self.schur = SchurComplement(form)
        need("the Newton system", memory=self.schur.memory + 8.0 * 30.0 * form.size)
        largest = max([g.side for g in form.psd_groups], default=1)
        bound = max(1.0, float(np.max(np.abs(form.b), initial=0.0)))
        primal = START_FACTOR * bound * max(1.0, np.sqrt(largest))
        dual = START_FACTOR * max(1.0, float(np.linalg.norm(form.c)))
        self.iterate = HkmIterate.multiples_of_identity(form, primal, dual)
        self.y, self.u = np.zeros(form.m), np.zeros(form.free.shape[1])
        self.tau, self.kappa = 1.0, primal * dual
        self.iteration = 0
        self._has_cost = bool(np.any(form.c) or np.any(form.f))
        self._free_adjoint = form.free.T.tocsr()
        self._direction: _Direction | None = None
        self._update_residuals()
        #: Complementarity measure of the first iterate.
        self.first_mu = self.mu

    @property
    def x(self) -> FloatArray:
        """The primal iterate, before division by tau."""
        return self.iterate.x

    @property
    def z(self) -> FloatArray:
        """The dual slack, before division by tau."""
        return self.iterate.z

    # --- Residuals, duality gap, stopping criteria

    def _update_residuals(self) -> None:
        """Recompute residuals, objective values and the complementarity measure mu."""
        form = self.form
        slack = -(form.adjoint @ self.y) if self.y.any() else 0.0
        self.r_primal = form.b * self.tau - form.rows @ self.x - form.free @ self.u
        self.r_dual = form.c * self.tau + slack - self.z
        self.r_free = form.f * self.tau - self._free_adjoint @ self.y
        #: Objective values of both programs, times tau.
        self.primal_value = float(form.c @ self.x + form.f @ self.u)
        self.dual_value = float(form.b @ self.y)
        self.r_gap = self.kappa + self.primal_value - self.dual_value
        self.mu = (float(self.x @ self.z) + self.tau * self.kappa) / (form.degree + 1)

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
            most = max(most, float(np.max(x * z)) / group.side**2)
        for cones in form.second_order_groups:
            most = max(most, float(np.max(cones.view(self.x)[:, 0] * cones.view(self.z)[:, 0])))
        nonneg = form.nonneg
        count = max(nonneg.stop - nonneg.start, 1)
        most = max(most, float(np.sum(self.x[nonneg])) * float(np.sum(self.z[nonneg])) / count**2)
        return most / self.mu

    @property
    def valid(self) -> bool:
        """Whether mu is finite and tau and kappa are positive."""
        return bool(np.isfinite(self.mu) and self.tau > 0.0 and self.kappa > 0.0)

    # --- Newton system

    @property
    def _factorisation_work(self) -> Work:
        """Cost estimate of the Newton system."""
        return self.schur.work.plus(Work(numbers=20.0 * float(self.form.rows.nnz)))

    @property
    def _direction_work(self) -> Work:
        """Cost estimate of the products with matrices of both directions, the step lengths and the move."""
        cubes = sum(float(g.count) * g.side**3 for g in self.form.psd_groups)
        return Work(products=40.0 * cubes, numbers=60.0 * float(self.form.size))

    def factorise(self) -> None:
        """Form the Newton system at the iterate and factorise it."""
        # At multiples of the identity this takes no products, and a point corrected there may end the search.
        first = self.iterate.multiple is not None
        work = self._factorisation_work if first else self._factorisation_work.plus(self._direction_work)
        need("a step of the interior-point method", *work)
        schur = self.schur.at(self.iterate)
        self._system: DenseNewtonSystem | SparseNewtonSystem
        if self.schur.sparse:
            self._system = SparseNewtonSystem(schur, self.form.free)
        else:
            columns = self.form.free.toarray()
            self._system = DenseNewtonSystem(schur, columns, np.zeros(columns.shape[1]))
        self._solve_for_tau()
        self._hkm_r_dual = self.iterate.apply_hkm(self.r_dual)
        self._rows_hkm_r_dual = self.form.rows @ self._hkm_r_dual

    def _solve_for_tau(self) -> None:
        """Solve for the change of all variables with tau, which predictor and corrector share."""
        form = self.form
        y_b, u_b = self._system.solve(form.b, np.zeros_like(self.u))
        self._hkm_cost, self._rows_hkm_cost = form.c, np.zeros(form.m)
        self._y_cost, u_cost = np.zeros(form.m), np.zeros_like(self.u)
        # The cost without its projection onto the rows: small, and inaccurate if computed as a difference of
        # inner products.
        self._cost_rest, hkm_rest = form.c, form.c
        if self._has_cost:
            self._hkm_cost = self.iterate.apply_hkm(form.c)
            self._rows_hkm_cost = form.rows @ self._hkm_cost
            self._y_cost, u_cost = self._system.solve(self._rows_hkm_cost, form.f)
            self._cost_rest = form.c - form.adjoint @ self._y_cost
            hkm_rest = self.iterate.apply_hkm(self._cost_rest)
        self._tau_y, self._tau_u = y_b + self._y_cost, u_b + u_cost
        # Both terms are squares in exact arithmetic.
        self._tau_slope = max(float(form.b @ y_b), 0.0) + max(float(self._cost_rest @ hkm_rest), 0.0)

    # --- Search directions and step

    def predictor(self) -> None:
        """Compute the affine-scaling direction: all residuals and mu to zero."""
        if self.iterate.multiple is not None:
            need("a step of the interior-point method", *self._direction_work)
        self._direction = self._solve_direction(0.0, 1.0, None)

    def corrector(self, sigma: float) -> None:
        """Compute the direction to ``sigma mu`` with Mehrotra's second-order term of the predictor."""
        self._direction = self._solve_direction(sigma * self.mu, 1.0 - sigma, self._direction)

    def _solve_direction(self, centre: float, eta: float, predictor: _Direction | None) -> _Direction:
        """Solve the Newton system for products ``centre`` and residuals times ``1 - eta``."""
        form, it = self.form, self.iterate
        target = -it.x
        target_tau = centre - self.tau * self.kappa
        if centre > 0.0:
            target = target + centre * it.inverse_dual()
        if predictor is not None:
            target = target - it.second_order_term(predictor.x, predictor.z)
            target_tau -= predictor.tau * predictor.kappa
        rhs = eta * self.r_primal - form.rows @ target + eta * self._rows_hkm_r_dual
        y, u = self._system.solve(rhs, eta * self.r_free)
        dtau = self._tau_change(target, target_tau, eta, y, u)
        y, u = y + dtau * self._tau_y, u + dtau * self._tau_u
        dz = eta * self.r_dual - form.adjoint @ y + dtau * form.c
        dx = target - it.apply_hkm(dz)
        return _Direction(dx, dz, y, u, dtau, (target_tau - self.kappa * dtau) / self.tau)

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

    def max_step(self) -> float:
        """Longest step along the direction that stays in all cones."""
        d = self._direction
        assert d is not None
        primal, dual = self.iterate.max_steps(d.x, d.z)
        lowest = min(d.tau / self.tau, d.kappa / self.kappa)
        return min(primal, dual, np.inf if lowest >= 0.0 else -1.0 / lowest)

    def move(self, length: float) -> None:
        """Step along the direction, shortened until x and z are in the interior of their cones.

        Raises ``numpy.linalg.LinAlgError`` if no step is.
        """
        d = self._direction
        assert d is not None
        for _ in range(BACKTRACKING_STEPS):
            try:
                self.iterate = HkmIterate(self.form, self.x + length * d.x, self.z + length * d.z)
                break
            except np.linalg.LinAlgError:
                length *= BACKTRACKING_FACTOR
        else:
            raise np.linalg.LinAlgError("no step stays inside the cones")
        self.y, self.u = self.y + length * d.y, self.u + length * d.u
        self.tau += length * d.tau
        self.kappa += length * d.kappa
        self.iteration += 1
        self._update_residuals()

    # --- Points that satisfy the equations
    #
    # The factorised system gives, in the metric of the iterate, the least change of x or of y and z after
    # which the equations hold. It is often interior long before the residuals have converged.

    def corrected_primal(self, tau: float) -> tuple[FloatArray, FloatArray] | None:
        """Return ``x, u`` near the iterate with ``A x + B u = b tau``; None if x is not interior."""
        form = self.form
        residual = self.r_primal + (tau - self.tau) * form.b
        w, u = self._system.solve(residual, np.zeros_like(self.u))
        x = self.x + self.iterate.apply_hkm(form.adjoint @ w)
        return (x, self.u + u) if self._interior(x, self.x) else None

    def corrected_dual(self, tau: float) -> tuple[FloatArray, FloatArray] | None:
        """Return ``y, z`` near the iterate with ``z = c tau - A'y``, ``B'y = f tau``; None if exterior."""
        form, change = self.form, tau - self.tau
        rhs = self._rows_hkm_r_dual + change * self._rows_hkm_cost
        dy, _ = self._system.solve(rhs, self.r_free + change * form.f)
        y = self.y + dy
        z = tau * form.c - form.adjoint @ y
        return (y, z) if self._interior(z, self.z) else None

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
