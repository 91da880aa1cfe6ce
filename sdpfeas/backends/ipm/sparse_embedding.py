"""The homogeneous self-dual embedding of the standard form, with HKM directions.

Besides x, u, y and z there are two numbers: tau, by which b, c and f are multiplied, and its partner kappa.
If tau stays positive, x/tau and y/tau solve the two programs; if kappa does, x or y is a ray that shows one
of them to be infeasible. Without an objective the iterates head for the centre of the points, deep inside.

A point need not wait until the residuals have gone: at every iterate the least correction, in the metric of
the iterate, that makes the equations hold is at hand, and often it stays inside long before the method has
converged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpfeas.backends.ipm.newton_system import DenseNewtonSystem
from sdpfeas.backends.ipm.schur_complement import SchurComplement, SparseNewtonSystem
from sdpfeas.backends.ipm.sparse_cones import HkmIterate, inside
from sdpfeas.backends.ipm.standard_form import StandardForm
from sdpfeas.numerics.cost_estimate import Work, need
from sdpfeas.numerics.linalg import FloatArray

#: Share of the way to the boundary a step goes at most.
BOUNDARY = 0.98

#: How often a step that left a cone is tried again, and how much shorter.
RETRIES, SHORTER = 8, 0.8

#: The start is so many times as large as the data.
FAR = 10.0

#: A corrected point counts only if it kept this share of the iterate it was made from.
KEPT = 0.02


@dataclass
class _Direction:
    """Changes of everything."""

    x: FloatArray
    z: FloatArray
    y: FloatArray
    u: FloatArray
    tau: float
    kappa: float


class SparseEmbedding:
    """The iterate, and how to improve it.

    ``form``: the programs, rows of norm about one.
    """

    def __init__(self, form: StandardForm) -> None:
        self.form = form
        self.schur = SchurComplement(form)
        need("the Newton system", memory=self.schur.memory + 8.0 * 30.0 * form.size)
        largest = max([g.side for g in form.psd_groups], default=1)
        primal = FAR * max(1.0, float(np.max(np.abs(form.b), initial=0.0))) * max(1.0, np.sqrt(largest))
        dual = FAR * max(1.0, float(np.linalg.norm(form.c)))
        self.iterate = HkmIterate.multiples(form, primal, dual)
        self.y, self.u = np.zeros(form.m), np.zeros(form.free.shape[1])
        self.tau, self.kappa = 1.0, primal * dual
        self.iteration = 0
        self._has_cost = bool(np.any(form.c) or np.any(form.f))
        self._free_adjoint = form.free.T.tocsr()
        self._measure()
        #: Complementarity to begin with.
        self.first_mu = self.mu

    @property
    def x(self) -> FloatArray:
        """The present x."""
        return self.iterate.x

    @property
    def z(self) -> FloatArray:
        """The present z."""
        return self.iterate.z

    @property
    def _system_work(self) -> Work:
        """What the Newton system takes."""
        return self.schur.work.plus(Work(numbers=20.0 * float(self.form.rows.nnz)))

    @property
    def _move_work(self) -> Work:
        """What the rest of a step takes, from anywhere but multiples of the identity its system too."""
        cubes = sum(float(g.count) * g.side**3 for g in self.form.psd_groups)
        return Work(products=40.0 * cubes, numbers=60.0 * float(self.form.size))

    def _measure(self) -> None:
        """Recompute residuals and the complementarity measure."""
        form = self.form
        slack = -(form.adjoint @ self.y) if self.y.any() else 0.0
        self.r_primal = form.b * self.tau - form.rows @ self.x - form.free @ self.u
        self.r_dual = form.c * self.tau + slack - self.z
        self.r_free = form.f * self.tau - self._free_adjoint @ self.y
        #: Values of both programs, times tau.
        self.primal_value = float(form.c @ self.x + form.f @ self.u)
        self.dual_value = float(form.b @ self.y)
        self.r_gap = self.kappa + self.primal_value - self.dual_value
        self.mu = (float(self.x @ self.z) + self.tau * self.kappa) / (form.degree + 1)

    @property
    def spread(self) -> float:
        """How far the central path is from the middle of its cones: a condition number of x and z.

        It stays bounded if the points, or the rays, have an interior, and grows without limit if neither do.
        """
        form, most = self.form, 1.0
        for group in form.psd_groups:
            x, z = (np.trace(group.view(flat), axis1=1, axis2=2) for flat in (self.x, self.z))
            most = max(most, float(np.max(x * z)) / group.side**2)
        for bundle in form.second_order_groups:
            most = max(most, float(np.max(bundle.view(self.x)[:, 0] * bundle.view(self.z)[:, 0])))
        lines = form.nonneg
        count = max(lines.stop - lines.start, 1)
        most = max(most, float(np.sum(self.x[lines])) * float(np.sum(self.z[lines])) / count**2)
        return most / self.mu

    @property
    def residual(self) -> float:
        """Largest residual of the equations of both programs, each relative to the data on its right."""
        form = self.form
        parts = ((self.r_primal, form.b), (self.r_dual, form.c), (self.r_free, form.f))
        sizes = (
            float(np.max(np.abs(r), initial=0.0)) / (1.0 + float(np.max(np.abs(right), initial=0.0)))
            for r, right in parts
        )
        return max(sizes) / self.tau

    @property
    def sane(self) -> bool:
        """Whether the iterate is still made of finite, positive numbers."""
        return bool(np.isfinite(self.mu) and self.tau > 0.0 and self.kappa > 0.0)

    # ------------------------------------------------------------ the Newton system

    def factorise(self) -> None:
        """Form the Newton system at the present iterate and factorise it."""
        # At multiples of the identity nothing is multiplied, and what they show may be all that is asked for.
        first = self.iterate.multiple is not None
        work = self._system_work if first else self._system_work.plus(self._move_work)
        need("a step of the interior-point method", *work)
        schur = self.schur.at(self.iterate)
        self._system: DenseNewtonSystem | SparseNewtonSystem
        if self.schur.sparse:
            self._system = SparseNewtonSystem(schur, self.form.free)
        else:
            columns = self.form.free.toarray()
            self._system = DenseNewtonSystem(schur, columns, np.zeros(columns.shape[1]))
        # What answers to a unit change of tau, by b and by the costs: the same for both directions of a step.
        form = self.form
        by_b, free_b = self._system.solve(form.b, np.zeros_like(self.u))
        self._cost_response, self._cost_rows = form.c, np.zeros(form.m)
        self._cost_y, cost_u = np.zeros(form.m), np.zeros_like(self.u)
        #: The costs without what rows can make up for: the rest is small, and would be lost in differences.
        self._rest, rest_response = form.c, form.c
        if self._has_cost:
            self._cost_response = self.iterate.respond(form.c)
            self._cost_rows = form.rows @ self._cost_response
            self._cost_y, cost_u = self._system.solve(self._cost_rows, form.f)
            self._rest = form.c - form.adjoint @ self._cost_y
            rest_response = self.iterate.respond(self._rest)
        self._tau_y, self._tau_u = by_b + self._cost_y, free_b + cost_u
        # A sum of squares, but for rounding.
        self._tau_slope = max(float(form.b @ by_b), 0.0) + max(float(self._rest @ rest_response), 0.0)
        self._dual_response = self.iterate.respond(self.r_dual)
        self._dual_rows = form.rows @ self._dual_response

    def _direction(self, centre: float, eta: float, last: _Direction | None) -> _Direction:
        """Solve for a direction that aims at products ``centre`` and removes a share eta of the residuals."""
        form, it = self.form, self.iterate
        target = -it.x
        target_tau = centre - self.tau * self.kappa
        if centre > 0.0:
            target = target + centre * it.inverse_dual()
        if last is not None:
            target = target - it.correction(last.x, last.z)
            target_tau -= last.tau * last.kappa
        rhs = eta * self.r_primal - form.rows @ target + eta * self._dual_rows
        y, u = self._system.solve(rhs, eta * self.r_free)
        dtau = self._tau_step(target, target_tau, eta, y, u)
        y, u = y + dtau * self._tau_y, u + dtau * self._tau_u
        dz = eta * self.r_dual - form.adjoint @ y + dtau * form.c
        dx = target - it.respond(dz)
        return _Direction(dx, dz, y, u, dtau, (target_tau - self.kappa * dtau) / self.tau)

    def _tau_step(
        self, target: FloatArray, target_tau: float, eta: float, y: FloatArray, u: FloatArray
    ) -> float:
        """Solve the last equation, the gap, for the change of tau."""
        form = self.form
        right = eta * self.r_gap + target_tau / self.tau
        if not self.u.size:
            right += eta * float(self._cost_y @ self.r_primal) - float(form.b @ y)
            right += float(self._rest @ (target - eta * self._dual_response))
            return right / (self._tau_slope + self.kappa / self.tau)
        # Free columns may depend on each other, and then B'y = f is met nearly at best: no shortcuts.
        slope = form.b - self._cost_rows
        right += float(form.c @ target) - eta * float(form.c @ self._dual_response)
        right += float(form.f @ u) - float(slope @ y)
        left = float(slope @ self._tau_y) - float(form.f @ self._tau_u)
        return right / (left + float(form.c @ self._cost_response) + self.kappa / self.tau)

    def _limit(self, d: _Direction) -> float:
        primal, dual = self.iterate.limits(d.x, d.z)
        lowest = min(d.tau / self.tau, d.kappa / self.kappa)
        return min(primal, dual, np.inf if lowest >= 0.0 else -1.0 / lowest)

    def advance(self) -> float:
        """Take a predictor–corrector step with the system factorised before; return its length.

        Raises ``numpy.linalg.LinAlgError``: if no step stays inside.
        """
        if self.iterate.multiple is not None:
            need("a step of the interior-point method", *self._move_work)
        predictor = self._direction(0.0, 1.0, None)
        affine = min(1.0, self._limit(predictor))
        sigma = (1.0 - affine) ** 2 if affine > 0.1 else 0.9
        d = self._direction(sigma * self.mu, 1.0 - sigma, predictor)
        length = min(1.0, BOUNDARY * self._limit(d))
        for _ in range(RETRIES):
            try:
                self.iterate = HkmIterate(self.form, self.x + length * d.x, self.z + length * d.z)
                break
            except np.linalg.LinAlgError:
                length *= SHORTER
        else:
            raise np.linalg.LinAlgError("no step stays inside the cones")
        self.y, self.u = self.y + length * d.y, self.u + length * d.u
        self.tau += length * d.tau
        self.kappa += length * d.kappa
        self.iteration += 1
        self._measure()
        return length

    # ------------------------------------------------------------ what is found on the way

    def corrected_primal(self, tau: float) -> tuple[FloatArray, FloatArray] | None:
        """Return ``x, u`` with ``A x + B u = b tau``, next to the present ones; None if x is not inside."""
        form = self.form
        off = self.r_primal + (tau - self.tau) * form.b
        w, u = self._system.solve(off, np.zeros_like(self.u))
        change = self.iterate.respond(form.adjoint @ w)
        x = self.x + change
        return (x, self.u + u) if self._deep(x, self.x) else None

    def corrected_dual(self, tau: float) -> tuple[FloatArray, FloatArray] | None:
        """Return ``y, z`` with ``z = c tau - A'y`` inside and ``B'y = f tau``; None if z is not inside."""
        form, missing = self.form, tau - self.tau
        rows = self._dual_rows + missing * self._cost_rows
        dy, _ = self._system.solve(rows, self.r_free + missing * form.f)
        y = self.y + dy
        z = tau * form.c - form.adjoint @ y
        return (y, z) if self._deep(z, self.z) else None

    def _deep(self, found: FloatArray, model: FloatArray) -> bool:
        """Whether something is inside, every matrix by a share of an iterate made as large as it is."""
        less = np.empty_like(found)
        for group in self.form.psd_groups:
            new, old = group.view(found), group.view(model)
            size = np.trace(new, axis1=1, axis2=2) / np.trace(old, axis1=1, axis2=2)
            np.multiply(-KEPT * size[:, None, None], old, out=group.view(less))
            group.view(less)[:] += new
        for bundle in self.form.second_order_groups:
            new, old = bundle.view(found), bundle.view(model)
            bundle.view(less)[:] = new - (KEPT * new[:, :1] / old[:, :1]) * old
        lines = self.form.nonneg
        total = float(np.sum(model[lines])) or 1.0
        less[lines] = found[lines] - (KEPT * float(np.sum(found[lines])) / total) * model[lines]
        return bool(np.isfinite(less).all()) and inside(self.form, less)
