"""The structured interior-point method: a predictor–corrector method for spectral boxes and low-rank rows.

:func:`predictor_corrector` is the algorithm (Mehrotra 1992, with Nesterov–Todd directions on the homogeneous
self-dual embedding). :func:`search` looks for a point or a certificate with it, :func:`optimise` maximises an
objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.sparse_method import (
    MERIT_STALL_ITERATIONS,
    RETRY_MU_SHARE,
    BestIterate,
    relative_gap,
)
from sdpfeas.backends.ipm.structured_embedding import StructuredEmbedding
from sdpfeas.claims import Claim, Stop
from sdpfeas.deadline import Deadline
from sdpfeas.errors import OutOfTime
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import Point
from sdpfeas.problem.reductions.presolve import Presolve

#: Steps shorter than this, so many times in a row, mean that the method has stalled.
STALL_STEP_LENGTH, STALL_ITERATIONS = 1e-3, 4

#: With a listener, the gap is closed to this share of the tolerance: where large terms cancel, that much of
#: the accuracy of a point is lost in a proved bound.
LISTENER_GAP_SHARE = 1e-3

#: Radius up to which points of unbounded sets are taken into account when a certificate is judged.
UNBOUNDED_RADIUS = 1e6


@dataclass(frozen=True)
class StepRule:
    """Step length and centring.

    A step goes at most ``boundary_share`` of the way to the boundary of the cones. The centring parameter is
    ``(1 - affine step length) ** centring_power``.
    """

    boundary_share: float
    centring_power: int


#: A power of three is usual; two takes one iteration less where the second-order term is accurate.
AGGRESSIVE_STEPS, CONSERVATIVE_STEPS = StepRule(0.98, 2), StepRule(0.9, 3)


def predictor_corrector(
    embedding: StructuredEmbedding,
    deadline: Deadline,
    max_iterations: int,
    stopping_test: Callable[[StructuredEmbedding], Stop | StructuredEmbedding | None],
    steps: StepRule = AGGRESSIVE_STEPS,
    preview: Callable[[StructuredEmbedding, float], bool] | None = None,
) -> tuple[StructuredEmbedding, Stop, str]:
    """Run interior-point iterations until a stopping test holds.

    ``stopping_test`` is called at every iterate; it may return the embedding of a problem with other rows
    to continue with. ``preview`` is called between predictor and corrector with the length of the affine
    step and may call :meth:`StructuredEmbedding.extrapolate`; where it returns True the step is not taken.
    Returns the last embedding, the stop reason and, if an iteration was estimated to exceed the time limit,
    the message that says so.
    """
    short_steps = 0
    while True:
        # 1. Stopping test; row generation may replace the embedding.
        found = stopping_test(embedding)
        if isinstance(found, StructuredEmbedding):
            embedding = found
        elif found is not None:
            return embedding, found, ""
        if embedding.iteration >= max_iterations:
            return embedding, Stop.ITERATION_LIMIT, ""
        if deadline.expired:
            return embedding, Stop.TIME_LIMIT, ""
        try:
            # 2. Schur complement of the normal equations at the iterate.
            embedding.factorise()
            # 3. Predictor: the affine-scaling direction, and how far it goes.
            embedding.predictor()
            affine = min(1.0, embedding.max_step())
            if preview is not None and preview(embedding, affine):
                continue
            # 4. Centring parameter.
            sigma = (1.0 - affine) ** steps.centring_power
            # 5. Corrector: centring and the second-order term of the predictor.
            embedding.corrector(sigma)
            # 6. Step length, new iterate and its residuals.
            embedding.move(min(1.0, steps.boundary_share * embedding.max_step()))
        except np.linalg.LinAlgError:
            return embedding, Stop.NUMERICAL, ""
        except OutOfTime as error:
            return embedding, Stop.TIME_LIMIT, str(error)
        if not embedding.valid:
            return embedding, Stop.NUMERICAL, ""
        short_steps = short_steps + 1 if embedding.step_length < STALL_STEP_LENGTH else 0
        if short_steps == STALL_ITERATIONS:
            return embedding, Stop.STALLED, ""


def search(
    presolved: Presolve,
    inquiry: Inquiry,
    residual: float,
    max_iterations: int,
    steps: StepRule = AGGRESSIVE_STEPS,
) -> Claim:
    """Iterate until a point or a certificate is proved, or the method stalls.

    ``residual`` is the relative residual of equality rows below which a point is offered for a proof.
    """
    claim = Claim()
    next_point = next_certificate = next_report = np.inf
    radius = _certificate_radius(presolved)

    def stopping_test(embedding: StructuredEmbedding) -> Stop | None:
        nonlocal claim, next_point, next_certificate, next_report
        mu = embedding.mu
        point, y = presolved.point(embedding.point()), presolved.multipliers(embedding.multipliers())
        claim = Claim(point, y)
        if mu <= next_point and _point_is_promising(embedding, residual):
            if inquiry.offer(point=point):
                claim = Claim(point=point)
                return Stop.FINISHED
            next_point = RETRY_MU_SHARE * mu
        if mu <= next_certificate and _certificate_is_promising(embedding, radius):
            if inquiry.offer(multipliers=y):
                claim = Claim(certificate=y)
                return Stop.FINISHED
            next_certificate = RETRY_MU_SHARE * mu
        if mu <= next_report:
            next_report = RETRY_MU_SHARE * mu
            if inquiry.report(embedding.iteration, point, y):
                return Stop.CALLBACK
        return None

    embedding = StructuredEmbedding(presolved.problem, None)
    end = predictor_corrector(embedding, inquiry.deadline, max_iterations, stopping_test, steps)
    return _finish(claim, *end)


def _point_is_promising(embedding: StructuredEmbedding, residual: float) -> bool:
    """Whether inequality rows hold strictly and equality rows up to a relative residual."""
    values, tau = embedding.row_values / embedding.tau, embedding.tau
    inside = np.all(values[embedding.low] > embedding.lower[embedding.low])
    inside = inside and np.all(values[embedding.high] < embedding.upper[embedding.high])
    if not inside:
        return False
    size = 1.0 + float(np.max(np.abs(embedding.lower[embedding.equal]), initial=0.0))
    return float(np.max(np.abs(embedding.r_equal), initial=0.0)) <= residual * size * tau


def _certificate_is_promising(embedding: StructuredEmbedding, radius: float) -> bool:
    """Whether the dual residual, times the radius of the sets, is less than the dual value."""
    value = embedding.dual_value
    return value > 0.0 and embedding.dual_residual * radius <= value


def _certificate_radius(presolved: Presolve) -> float:
    sets = presolved.original.sets
    boxes = [s.nuclear_radius for s in sets if s.bounded]
    unbounded = any(s.free or (s.cone and not s.entrywise) for s in sets)
    return UNBOUNDED_RADIUS if unbounded else 2.0 * max([1.0, *boxes])


def optimise(
    program: ConicProgram, inquiry: Inquiry, gap_tolerance: float, max_iterations: int, before: int
) -> Claim:
    """Iterate until relative gap and row residuals are below a tolerance, reporting every iterate.

    Starts at ``program.start`` if it has one. ``before`` is the number of earlier iterations.
    """
    best, merit = BestIterate(), np.inf
    gap_tolerance = gap_tolerance * (LISTENER_GAP_SHARE if inquiry.has_listener else 1.0)

    def stopping_test(embedding: StructuredEmbedding) -> Stop | StructuredEmbedding | None:
        nonlocal best, merit
        point, y = embedding.point(), embedding.multipliers() / embedding.tau
        values = embedding.primal_value / embedding.tau, embedding.dual_value / embedding.tau
        merit = relative_gap(*values, embedding.row_residual)
        best.update(merit, embedding.iteration, Claim(point, y))
        if inquiry.report(before + embedding.iteration, point, y, merit):
            best.claim = Claim(point, y)
            return Stop.CALLBACK
        more = None if program.pricing is None else program.pricing.extended(point, y, merit)
        if more is not None:
            best = BestIterate()
            return embedding.with_rows(more.program.problem, more.kept)
        if best.merit < gap_tolerance:
            return Stop.FINISHED
        return Stop.STALLED if embedding.iteration >= best.iteration + MERIT_STALL_ITERATIONS else None

    def preview(embedding: StructuredEmbedding, affine: float) -> bool:
        # Empirical estimate of the merit of the extrapolated point, right within a factor of ten.
        if not inquiry.wants_preview(merit * (1.0 - affine) ** 3):
            return False
        found: tuple[Point, FloatArray] | None = embedding.extrapolate()
        return found is not None and inquiry.preview(*found)

    try:
        cost = tuple(-c for c in program.objective)
        embedding = StructuredEmbedding(program.problem, cost, program.scale, program.start)
    except (np.linalg.LinAlgError, ArithmeticError, ValueError):
        # A warm start on data of extreme scale may fail in any of these ways.
        return Claim(stop=Stop.UNSUPPORTED, raw_status="no interior to start from", iterations=before)
    if not embedding.valid:
        return Claim(stop=Stop.NUMERICAL, raw_status="the start overflows", iterations=before)
    end = predictor_corrector(embedding, inquiry.deadline, max_iterations, stopping_test, preview=preview)
    claim = _finish(best.claim, *end)
    return replace(claim, iterations=before + (claim.iterations or 0))


def _finish(claim: Claim, embedding: StructuredEmbedding, stop: Stop, message: str) -> Claim:
    """Add stop reason, iterations and the scalars of the embedding to a claim."""
    info = {"tau": float(embedding.tau), "kappa": float(embedding.kappa), "mu": float(embedding.mu)}
    return replace(
        claim, raw_status=message or str(stop), stop=stop, iterations=embedding.iteration, info=info
    )
