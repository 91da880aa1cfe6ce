"""The interior-point method: predictor–corrector iterations on the homogeneous self-dual embedding.

:func:`predictor_corrector` is the algorithm (Mehrotra 1992, on the embedding of Ye, Todd and Mizuno 1994), in
the steps that docs/mathematics.md explains. :func:`search` looks for a point or a certificate with it,
:func:`optimise` maximises an objective.

The linear algebra of an iteration is behind :class:`NewtonSystem`:
:class:`sdpfeas.backends.ipm.sparse_system.SparseSystem` for cones with rows stored as entries (HKM
directions) and :class:`sdpfeas.backends.ipm.structured_system.StructuredSystem` for SpectralBoxes and
low-rank rows (Nesterov–Todd directions). What iterates are tested for is behind :class:`Goal`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.claims import Claim, Stop
from sdpfeas.deadline import Deadline
from sdpfeas.errors import OutOfTime
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import RowPricing
from sdpfeas.problem.problem import Point

#: The centring parameter is one minus the length of the predictor's step, to this power: three is usual, two
#: takes one iteration less where the second-order term is accurate.
CENTRING_POWER = 2

#: Centring parameter where the predictor allows a step of at most this length.
SHORT_PREDICTOR_STEP, SHORT_PREDICTOR_CENTRING = 0.1, 0.9

#: How often a step that left a cone is shortened, and by which factor.
BACKTRACKING_STEPS, BACKTRACKING_FACTOR = 8, 0.8

#: Steps shorter than this, so many times in a row, mean that the method has stalled.
STALL_STEP_LENGTH, STALL_STEPS = 1e-3, 4

#: A search has stalled when mu has not fallen to this share within this many iterations.
STALL_ITERATIONS, STALL_MU_SHARE = 5, 0.5

#: A search has converged when mu is below this share of its first value: rounding limits it from there on.
CONVERGED_MU_SHARE = 1e-16

#: With an objective: iterations without a better iterate after which rounding is taken to limit accuracy.
MERIT_STALL_ITERATIONS = 6

#: Evidence that was refused, and the listener, get the next iterate when mu has fallen to this share.
RETRY_MU_SHARE = 0.1


#: Share of the way to the boundary of the cones that a step goes at most.
BOUNDARY_SHARE = 0.98


def predictor_corrector(
    system: NewtonSystem,
    goal: Goal,
    deadline: Deadline,
    max_iterations: int,
) -> Claim:
    """Run interior-point iterations from the iterate of ``system`` until a test of ``goal`` holds."""
    stop, message, short_steps = None, "", 0
    while stop is None:
        try:
            # 1. Limits, stopping tests and offers at the iterate; row generation may replace the system.
            if not system.valid:
                stop = Stop.NUMERICAL
            elif deadline.expired:
                stop = Stop.TIME_LIMIT
            else:
                found = goal.test(system)
                system, stop = (found, None) if isinstance(found, NewtonSystem) else (system, found)
            if stop is None and system.iteration >= max_iterations:
                stop = Stop.ITERATION_LIMIT
            if stop is not None:
                break
            # 2. Scaling of the cones, Schur complement of the normal equations, factorisation.
            system.factorise()
            # 3. Predictor: the affine-scaling direction, and how far it goes.
            system.predictor()
            affine = min(1.0, system.max_step())
            if goal.preview(system, affine):
                stop = Stop.CALLBACK
                break
            # 4. Corrector: centring, and the second-order term of the predictor.
            sigma = (
                (1.0 - affine) ** CENTRING_POWER
                if affine > SHORT_PREDICTOR_STEP
                else SHORT_PREDICTOR_CENTRING
            )
            system.corrector(sigma)
            # 5. Step length: a share of the way to the boundary of the cones.
            length = min(1.0, BOUNDARY_SHARE * system.max_step())
            # 6. Update: the new iterate, its residuals, objective values and mu.
            system.move(length)
            short_steps = short_steps + 1 if system.step_length < STALL_STEP_LENGTH else 0
            stop = Stop.STALLED if short_steps == STALL_STEPS else None
        except np.linalg.LinAlgError:
            stop = Stop.NUMERICAL
        except OutOfTime as error:
            stop, message = Stop.TIME_LIMIT, str(error)
    info: dict[str, Any] = {key: float(getattr(system, key)) for key in ("tau", "kappa", "mu")}
    if stop in (Stop.STALLED, Stop.NUMERICAL) and system.no_interior:
        info["no_interior"], message = True, f"{stop}: no strictly feasible point in sight"
    claim = goal.claim(system)
    return replace(
        claim,
        raw_status=message or str(stop),
        stop=stop,
        iterations=system.iteration,
        info={**claim.info, **info},
    )


class NewtonSystem(ABC):
    """An iterate of the homogeneous self-dual embedding and the linear algebra of one iteration.

    The embedding has two scalars besides the primal and dual variables: tau, which multiplies all right-hand
    sides, and its dual kappa. If tau stays positive, the variables divided by tau solve both programs; if
    kappa does, they are rays that prove one of the programs infeasible. Without an objective the iterates
    converge to the analytic centre of the feasible set, or of the certificates.
    """

    #: The homogenising variables, and their search direction.
    tau: float
    kappa: float
    dtau: float
    dkappa: float
    #: Complementarity measure: the mean product of slacks and dual slacks.
    mu: float
    #: Objective values of both programs, times tau.
    primal_value: float
    dual_value: float

    def __init__(self, iteration: int = 0) -> None:
        self.iteration = iteration
        #: Length of the last step.
        self.step_length = 1.0
        self.dtau = self.dkappa = 0.0

    @property
    def valid(self) -> bool:
        """Whether mu is finite and tau and kappa are positive."""
        return bool(np.isfinite(self.mu) and self.tau > 0.0 and self.kappa > 0.0)

    # --- The steps of an iteration

    @abstractmethod
    def update_residuals(self) -> None:
        """Recompute residuals, objective values and mu at the iterate."""

    @abstractmethod
    def factorise(self) -> None:
        """Scale the cones, form the Newton system at the iterate and factorise it.

        Raises ``numpy.linalg.LinAlgError`` if the iterate is too close to the boundary, and ``OutOfTime`` if
        an iteration is estimated to exceed the time limit.
        """

    @abstractmethod
    def solve_direction(self, sigma: float, *, corrected: bool) -> None:
        """Solve the Newton system for products ``sigma mu`` of slacks and duals, residuals times ``sigma``.

        ``corrected`` adds Mehrotra's second-order term of the last direction.
        """

    def predictor(self) -> None:
        """Compute the affine-scaling direction: all residuals and mu to zero."""
        self.solve_direction(0.0, corrected=False)

    def corrector(self, sigma: float) -> None:
        """Compute the direction to ``sigma mu`` with the second-order term of the predictor."""
        self.solve_direction(sigma, corrected=True)

    @abstractmethod
    def max_step(self) -> float:
        """Longest step along the direction that stays in all cones, up to the error of the eigenvalues."""

    @abstractmethod
    def propose(self, length: float) -> None:
        """Compute the iterate after a step; raise ``numpy.linalg.LinAlgError`` if it leaves the cones."""

    @abstractmethod
    def accept(self, length: float) -> None:
        """Take the step proposed last, of this length."""

    def move(self, length: float) -> None:
        """Step along the direction, shortened until the iterate is in the interior of all cones.

        Raises ``numpy.linalg.LinAlgError`` if no step is.
        """
        for _ in range(BACKTRACKING_STEPS):
            try:
                self.propose(length)
                break
            except np.linalg.LinAlgError:
                length *= BACKTRACKING_FACTOR
        else:
            raise np.linalg.LinAlgError("no step stays inside the cones")
        self.accept(length)
        self.tau += length * self.dtau
        self.kappa += length * self.dkappa
        self.iteration += 1
        self.step_length = length
        self.update_residuals()

    def extrapolate(self) -> tuple[Point, FloatArray] | None:
        """Return point and multipliers after a full corrector step without centring; None if there are none.

        Near the optimum they are far more accurate than the next iterate, which has to stay in the cones. To
        be called between predictor and corrector.
        """
        self.solve_direction(0.0, corrected=True)
        found = self.full_step()
        self.predictor()
        return found

    @abstractmethod
    def full_step(self) -> tuple[Point, FloatArray] | None:
        """Return point and multipliers after a step of length one, in the cones or not; None if tau <= 0."""

    def with_rows(self, problem: Any, kept: np.ndarray) -> NewtonSystem:
        """Return the same iterate for a problem with other rows; ``kept`` holds their former indices."""
        raise NotImplementedError

    # --- What an iterate is worth

    @property
    @abstractmethod
    def residual(self) -> float:
        """Largest residual of the rows, relative to their size."""

    @property
    def no_interior(self) -> bool:
        """Whether the iterates behave as they do where there is no strictly feasible point."""
        return False

    @abstractmethod
    def candidate_point(self) -> Point | None:
        """Return a point near the iterate that is likely to be proved feasible; None if there is none."""

    @abstractmethod
    def candidate_certificate(self) -> FloatArray | None:
        """Return multipliers near the iterate that are likely to be a certificate; None if there are none."""

    @abstractmethod
    def evidence(self) -> tuple[Point, FloatArray]:
        """Return the point of the iterate, and its multipliers as a ray."""

    @abstractmethod
    def solution(self) -> tuple[Point, FloatArray]:
        """Return point and multipliers for the objective, corrected onto their equations where possible."""


class Goal(ABC):
    """Sees every iterate, decides when to stop, and holds what has been found."""

    def __init__(self, inquiry: Inquiry) -> None:
        self.inquiry = inquiry

    @abstractmethod
    def test(self, system: NewtonSystem) -> Stop | NewtonSystem | None:
        """Test an iterate. Returns a stop reason, or a system with other rows to continue with."""

    def preview(self, system: NewtonSystem, affine: float) -> bool:
        """Look at an extrapolated point, given the length of the affine step; True if it suffices."""
        return False

    @abstractmethod
    def claim(self, system: NewtonSystem) -> Claim:
        """Return what was found; ``system`` has the last iterate."""


# --- Feasibility: a point or a certificate


class FeasibilityGoal(Goal):
    """Offers points and certificates until one of them is proved, or the method stalls."""

    def __init__(self, inquiry: Inquiry) -> None:
        super().__init__(inquiry)
        self._mu = list[float]()
        self._next_point = self._next_certificate = self._next_report = math.inf
        self._proved: Claim | None = None

    def test(self, system: NewtonSystem) -> Stop | None:
        """Test for convergence and stalling; then offer a point, a certificate and a progress report."""
        mu, inquiry = system.mu, self.inquiry
        self._mu.append(mu)
        window = self._mu[-1 - STALL_ITERATIONS :]
        slow = len(window) > STALL_ITERATIONS and mu > STALL_MU_SHARE * window[0]
        if slow or mu < CONVERGED_MU_SHARE * self._mu[0]:
            return Stop.STALLED
        if mu <= self._next_point and (point := system.candidate_point()) is not None:
            if inquiry.offer(point=point):
                self._proved = Claim(point=point)
                return Stop.FINISHED
            self._next_point = RETRY_MU_SHARE * mu
        if mu <= self._next_certificate and (y := system.candidate_certificate()) is not None:
            if inquiry.offer(multipliers=y):
                self._proved = Claim(certificate=y)
                return Stop.FINISHED
            self._next_certificate = RETRY_MU_SHARE * mu
        if inquiry.has_listener and mu <= self._next_report:
            self._next_report = RETRY_MU_SHARE * mu
            if inquiry.report(system.iteration, *system.evidence()):
                return Stop.CALLBACK
        return None

    def claim(self, system: NewtonSystem) -> Claim:
        """Return what was proved, else the last iterate."""
        return Claim(*system.evidence()) if self._proved is None else self._proved


def search(system: NewtonSystem, inquiry: Inquiry, max_iterations: int) -> Claim:
    """Iterate until a point or a certificate is proved, or the method stalls."""
    return predictor_corrector(system, FeasibilityGoal(inquiry), inquiry.deadline, max_iterations)


# --- Objectives


class OptimalityGoal(Goal):
    """Reports every iterate, and tests relative gap and residual against a tolerance."""

    def __init__(self, inquiry: Inquiry, gap_tolerance: float, pricing: RowPricing | None) -> None:
        super().__init__(inquiry)
        self._gap_tolerance, self._pricing = gap_tolerance, pricing
        self._merit = math.inf
        self._forget()

    def _forget(self) -> None:
        """Start with no best iterate."""
        self._best, self._best_merit, self._best_iteration = Claim(), math.inf, 0
        self._least_residual, self._least_mu, self._first_mu = math.inf, math.inf, 0.0

    def test(self, system: NewtonSystem) -> Stop | NewtonSystem | None:
        """Keep the best iterate, report, generate rows; then test for the gap and for stalling."""
        point, y = system.solution()
        self._merit = merit = _merit(system)
        if merit < self._best_merit or self._best.point is None:
            self._best, self._best_merit, self._best_iteration = Claim(point, y), merit, system.iteration
        # While residuals fall the gap may grow for many iterations (control2 of SDPLIB), and relative to an
        # optimal value of zero it never falls, while mu does.
        if system.residual < STALL_MU_SHARE * self._least_residual:
            self._least_residual, self._best_iteration = system.residual, system.iteration
        self._first_mu = max(self._first_mu, system.mu)
        if CONVERGED_MU_SHARE * self._first_mu < system.mu < STALL_MU_SHARE * self._least_mu:
            self._least_mu, self._best_iteration = system.mu, system.iteration
        if self.inquiry.report(system.iteration, point, y, merit):
            self._best = Claim(point, y)
            return Stop.CALLBACK
        more = None if self._pricing is None else self._pricing.extended(point, y, merit)
        if more is not None:
            self._forget()
            return system.with_rows(more.program.problem, more.kept)
        if self._best_merit < self._gap_tolerance:
            return Stop.FINISHED
        return Stop.STALLED if system.iteration >= self._best_iteration + MERIT_STALL_ITERATIONS else None

    def preview(self, system: NewtonSystem, affine: float) -> bool:
        """Show the listener an extrapolated point where it wants one."""
        # Empirical estimate of the merit of the extrapolated point, right within a factor of ten.
        if not self.inquiry.wants_preview(self._merit * (1.0 - affine) ** 3):
            return False
        found = system.extrapolate()
        return found is not None and self.inquiry.preview(*found)

    def claim(self, system: NewtonSystem) -> Claim:
        """Return the best iterate and its gap."""
        return replace(self._best, info={"gap": self._best_merit})


def _merit(system: NewtonSystem) -> float:
    """Relative duality gap or residual, whichever is larger; rounding makes both grow again in the end."""
    primal, dual = system.primal_value / system.tau, system.dual_value / system.tau
    gap = abs(primal - dual) / max(abs(primal) + abs(dual), np.finfo(float).tiny)
    merit = max(gap, system.residual)
    return float(merit) if np.isfinite(merit) else math.inf


def optimise(
    system: NewtonSystem,
    inquiry: Inquiry,
    gap_tolerance: float,
    max_iterations: int,
    pricing: RowPricing | None = None,
) -> Claim:
    """Iterate until relative gap and residual are below a tolerance, reporting every iterate."""
    goal = OptimalityGoal(inquiry, gap_tolerance, pricing)
    return predictor_corrector(system, goal, inquiry.deadline, max_iterations)
