"""The sparse interior-point method: a primal–dual predictor–corrector method for rows stored as entries.

:func:`predictor_corrector` is the algorithm (Mehrotra 1992, with HKM directions on the homogeneous
self-dual embedding). :func:`search` looks for a point or a certificate with it, :func:`optimise` maximises
an objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.primal_dual_forms import ProblemForm
from sdpfeas.backends.ipm.sparse_embedding import SparseEmbedding
from sdpfeas.claims import Claim, Stop
from sdpfeas.deadline import Deadline
from sdpfeas.errors import OutOfTime

#: Largest share of the way to the boundary of the cones that a step takes.
BOUNDARY_SHARE = 0.98

#: Centring parameter where the predictor allows a step of at most this length.
SHORT_PREDICTOR_STEP, SHORT_PREDICTOR_CENTRING = 0.1, 0.9

#: The method has stalled when mu has not fallen to this share within this many iterations.
STALL_ITERATIONS, STALL_MU_SHARE = 5, 0.5

#: The method has converged when mu is below this share of its first value: rounding limits it from there on.
CONVERGED_MU_SHARE = 1e-16

#: With an objective: iterations without a better iterate after which rounding is taken to limit accuracy.
MERIT_STALL_ITERATIONS = 6

#: Evidence that was refused, and the listener, get the next iterate when mu has fallen to this share.
RETRY_MU_SHARE = 0.1

#: Where mu is below this share of its first value and the condition number still above this, no strictly
#: feasible point can be told from a boundary point in floating-point arithmetic.
NO_INTERIOR_MU_SHARE, NO_INTERIOR_CONDITION = 1e-9, 1e7

#: Points are not offered where the condition number is above this and grows by more than this power of the
#: factor by which mu falls: a proof would fail. The growth is about linear where there is no strictly
#: feasible point, and about constant where there is one.
SUSPECT_CONDITION, SUSPECT_GROWTH = 1e5, 0.5


def predictor_corrector(
    embedding: SparseEmbedding,
    deadline: Deadline,
    max_iterations: int,
    stopping_test: Callable[[], Stop | None],
    stalled: Callable[[], bool] = lambda: False,
) -> tuple[Stop, str]:
    """Run interior-point iterations until a stopping test holds.

    ``stopping_test`` is called at every factorised iterate, ``stalled`` after every step. Returns the stop
    reason and, if an iteration was estimated to exceed the time limit, the message that says so.
    """
    while embedding.iteration < max_iterations:
        if deadline.expired:
            return Stop.TIME_LIMIT, ""
        try:
            # 1. Schur complement of the normal equations at the iterate.
            embedding.factorise()
            # 2. Stopping test; the factorisation serves to correct points onto their equations.
            if (stop := stopping_test()) is not None:
                return stop, ""
            # 3. Predictor: the affine-scaling direction, and how far it goes.
            embedding.predictor()
            affine = min(1.0, embedding.max_step())
            # 4. Centring parameter.
            sigma = (1.0 - affine) ** 2 if affine > SHORT_PREDICTOR_STEP else SHORT_PREDICTOR_CENTRING
            # 5. Corrector: centring and the second-order term of the predictor.
            embedding.corrector(sigma)
            # 6. Step length, new iterate and its residuals.
            embedding.move(min(1.0, BOUNDARY_SHARE * embedding.max_step()))
        except np.linalg.LinAlgError:
            return Stop.NUMERICAL, ""
        except OutOfTime as error:
            return Stop.TIME_LIMIT, str(error)
        if not embedding.valid:
            return Stop.NUMERICAL, ""
        if stalled():
            return Stop.STALLED, ""
    return Stop.ITERATION_LIMIT, ""


def search(problem: ProblemForm, inquiry: Inquiry, max_iterations: int) -> Claim:
    """Iterate until a point or a certificate is proved, or the method stalls."""
    embedding = SparseEmbedding(problem.form)
    history, claim = [embedding.first_mu], Claim()
    next_point = next_certificate = next_report = np.inf
    last = embedding.mu, embedding.condition

    def losing_interior() -> bool:
        """Whether the condition number grows as it does without a strictly feasible point."""
        nonlocal last
        (mu, condition), last = last, (embedding.mu, embedding.condition)
        return last[1] > max(SUSPECT_CONDITION, condition * (mu / last[0]) ** SUSPECT_GROWTH)

    def stopping_test() -> Stop | None:
        nonlocal claim, next_point, next_certificate, next_report
        mu, interior = embedding.mu, not losing_interior()
        if interior and mu <= next_point and (point := problem.corrected_point(embedding)) is not None:
            if inquiry.offer(point=point):
                claim = Claim(point=point)
                return Stop.FINISHED
            next_point = RETRY_MU_SHARE * mu
        if mu <= next_certificate and (y := problem.corrected_certificate(embedding)) is not None:
            if inquiry.offer(multipliers=y):
                claim = Claim(certificate=y)
                return Stop.FINISHED
            next_certificate = RETRY_MU_SHARE * mu
        if inquiry.has_listener and mu <= next_report:
            next_report = RETRY_MU_SHARE * mu
            if inquiry.report(embedding.iteration, *problem.current_solution(embedding)):
                return Stop.CALLBACK
        return None

    def stalled() -> bool:
        history.append(embedding.mu)
        window = history[-1 - STALL_ITERATIONS :]
        slow = len(window) > STALL_ITERATIONS and embedding.mu > STALL_MU_SHARE * window[0]
        return slow or embedding.mu < CONVERGED_MU_SHARE * embedding.first_mu

    stop, message = predictor_corrector(embedding, inquiry.deadline, max_iterations, stopping_test, stalled)
    info = _info(embedding)
    if stop is not Stop.FINISHED:
        claim = Claim(*problem.current_solution(embedding))
    small = embedding.mu < NO_INTERIOR_MU_SHARE * embedding.first_mu
    if stop in (Stop.STALLED, Stop.NUMERICAL) and small and embedding.condition > NO_INTERIOR_CONDITION:
        info["no_interior"] = True
        message = message or f"{stop}: no strictly feasible point in sight"
    return replace(
        claim, raw_status=message or str(stop), stop=stop, iterations=embedding.iteration, info=info
    )


def optimise(problem: ProblemForm, inquiry: Inquiry, gap_tolerance: float, max_iterations: int) -> Claim:
    """Iterate until relative gap and residuals are below a tolerance, reporting every corrected iterate."""
    embedding, best = SparseEmbedding(problem.form), BestIterate()

    def stopping_test() -> Stop | None:
        point, y = problem.corrected_solution(embedding)
        tau = embedding.tau
        merit = relative_gap(embedding.primal_value / tau, embedding.dual_value / tau, embedding.residual)
        best.update(merit, embedding.iteration, Claim(point, y))
        if inquiry.report(embedding.iteration, point, y, merit):
            best.claim = Claim(point, y)
            return Stop.CALLBACK
        return Stop.FINISHED if merit < gap_tolerance else None

    def stalled() -> bool:
        return embedding.iteration > best.iteration + MERIT_STALL_ITERATIONS

    stop, message = predictor_corrector(embedding, inquiry.deadline, max_iterations, stopping_test, stalled)
    return replace(
        best.claim,
        raw_status=message or str(stop),
        stop=stop,
        iterations=embedding.iteration,
        info=_info(embedding) | {"gap": best.merit},
    )


def _info(embedding: SparseEmbedding) -> dict[str, Any]:
    return {"tau": float(embedding.tau), "kappa": float(embedding.kappa), "mu": float(embedding.mu)}


class BestIterate:
    """The claim of least merit so far, and the iteration it is from."""

    def __init__(self) -> None:
        self.merit, self.iteration = math.inf, 0
        self.claim = Claim()

    def update(self, merit: float, iteration: int, claim: Claim) -> None:
        """Keep a claim if its merit is less."""
        if merit < self.merit or self.claim.point is None:
            self.merit, self.iteration, self.claim = merit, iteration, claim


def relative_gap(primal: float, dual: float, residual: float) -> float:
    """Relative duality gap or residual, whichever is larger; rounding makes both grow again in the end."""
    gap = abs(primal - dual) / max(abs(primal) + abs(dual), np.finfo(float).tiny)
    merit = max(gap, residual)
    return float(merit) if np.isfinite(merit) else math.inf
