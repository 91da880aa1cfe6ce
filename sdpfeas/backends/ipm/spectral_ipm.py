"""``spectral-ipm``: a structured primal–dual interior-point method of our own.

It takes every set as it is (a SpectralBox costs two cones on one matrix, no extra rows), keeps low-rank rows
low-rank and sparse ones sparse, and heads for the centre of the points or of the certificates. Questions
about cones with rows stored as entries go to the sparse method, all others to the structured one, which
takes second-order cones as matrices. A centred start is what both live on, so a warm start only helps where
the largest margin is wanted: there it says where on the central path to begin. Calls back every few
iterations, with an objective in every one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sdpfeas.backends.base import SPECTRAL_SETS, FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.iteration_cost import (
    newton_work,
    rows_work,
    stored_as_entries,
    structured_work,
    unknowns_work,
)
from sdpfeas.backends.ipm.primal_dual_forms import DualForm, PrimalForm
from sdpfeas.backends.ipm.sparse_method import PATIENCE, BestIterate, optimise, relative_gap, search
from sdpfeas.backends.ipm.structured_embedding import CONSERVATIVE_STEPS, StructuredEmbedding
from sdpfeas.claims import Claim, Stop
from sdpfeas.deadline import Deadline
from sdpfeas.errors import OutOfTime
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.cones_to_psd import cast_shadows
from sdpfeas.problem.reductions.margin_form import margin_form
from sdpfeas.problem.reductions.presolve import Presolved, presolve
from sdpfeas.problem.reductions.split import in_components
from sdpfeas.problem.sets import SecondOrder

__all__ = ["SpectralIpm", "SpectralIpmOptions"]

#: Steps shorter than this, this many times in a row, mean that the method is stuck.
SHORT_STEP, SHORT_STEPS = 1e-3, 4

#: With an objective: a relative gap below which the structured method is not asked for the rest.
CLOSE = 1e-6

#: How many times as dear a step of the structured method may be to be tried after the sparse one.
DEARER = 5.0

#: A listener that has not said stop gets this share of the gap asked for: where large terms cancel, points
#: lose that much on the way to a bound.
FINER = 1e-3

#: Without one, the callback is called again when the complementarity has shrunk to this share: what it is
#: shown before that is hardly better than what it saw.
CALL_AGAIN = 0.1


@dataclass(frozen=True)
class SpectralIpmOptions:
    """Options of ``spectral-ipm``.

    ``residual``: row residual, relative, below which a point is worth a proof. ``gap``: with an objective:
    relative gap and row residual at which to stop.
    """

    max_iterations: int = 100
    residual: float = 1e-7
    gap: float = 1e-9

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise ValueError("max_iterations must be at least 1")
        if not (0.0 < self.residual < 1.0 and 0.0 < self.gap < 1.0):
            raise ValueError("residual and gap must lie between 0 and 1")


class SpectralIpm(FeasibilityBackend):
    """Structured primal–dual interior-point method; certified stops, no extra rows for a box."""

    name = "spectral-ipm"
    sets = SPECTRAL_SETS | {SecondOrder}
    lmis = True
    calls_back = True
    maximises = True
    maximises_lmis = True
    Options = SpectralIpmOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a point or a certificate; see :class:`FeasibilityBackend`."""
        if (parts := in_components(problem)) is not None:
            return self.solve(parts.problem, inquiry.through(parts)).back(parts)
        if problem.lmis:
            if stored_as_entries(problem) and _unknowns_are_cheaper(problem):
                with np.errstate(all="ignore"):
                    return search(DualForm(problem), inquiry, self.options.max_iterations)
            slacks = problem.slack_form
            return self.solve(slacks.problem, inquiry.through(slacks)).back(slacks)
        if _curved(problem) and not stored_as_entries(problem):
            shadows = cast_shadows(problem, SPECTRAL_SETS)
            return self.solve(shadows.problem, inquiry.through(shadows)).back(shadows)
        small = presolve(problem)
        if small.answer is not None:
            return Claim(*small.answer, raw_status="presolved")
        with np.errstate(all="ignore"):
            if stored_as_entries(small.problem):
                pose = DualForm if _unknowns_are_cheaper(small.problem) else PrimalForm
                seen = inquiry.through(small)
                return search(pose(small.problem), seen, self.options.max_iterations).back(small)
            if inquiry.wanted == "margin":
                claim = self._largest_margin(small, inquiry)
                if claim.stop in (Stop.CALLBACK, Stop.FINISHED, Stop.TIME_LIMIT):
                    return claim
            claim = self._run(StructuredEmbedding(small.problem, None), small, inquiry)
            stuck = claim.stop in (Stop.STALLED, Stop.NUMERICAL)
            if not stuck or inquiry.offer(claim.point, claim.certificate, final=True):
                return claim
            # Rounding took over before anything could be proved; shorter steps may get by.
            again = self._run(
                StructuredEmbedding(small.problem, None, pace=CONSERVATIVE_STEPS), small, inquiry
            )
        return replace(again, iterations=(claim.iterations or 0) + (again.iterations or 0))

    def _largest_margin(self, small: Presolved, inquiry: Inquiry) -> Claim:
        """Maximise the margin of the rows: what comes out tells about neighbouring problems as well."""
        form = margin_form(small.problem)
        if form is None:
            return Claim(stop=Stop.UNSUPPORTED, raw_status="the rows have no margin in common")
        both = small.then(form)
        seen = inquiry.through(both)
        program = ConicProgram(form.problem, form.objective)
        start = form.start(seen.start.point, seen.start.certificate)
        claim = Claim()
        for begin in [None] if start is None else [start, None]:
            claim = self._maximise(replace(program, start=begin), seen, claim.iterations or 0)
            if claim.stop in (Stop.CALLBACK, Stop.FINISHED, Stop.TIME_LIMIT):
                break
        return claim.back(both)

    def _run(self, embedding: StructuredEmbedding, small: Presolved, inquiry: Inquiry) -> Claim:
        screen = _Screen(small, self.options.residual, inquiry)
        latest: list[Claim] = []
        due = [np.inf]

        def visit() -> Stop | None:
            point, y = small.point(embedding.point()), small.multipliers(embedding.multipliers())
            settled = screen.settled(embedding, point, y)
            latest[:] = [settled or Claim(point, y)]
            if settled is not None:
                return Stop.FINISHED
            if embedding.mu <= due[0]:
                due[0] = CALL_AGAIN * embedding.mu
                if inquiry.report(embedding.iteration, point, y):
                    return Stop.CALLBACK
            return None

        stop = self._iterate(embedding, inquiry.deadline, visit)
        return self._claim(embedding, latest[0], stop)

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise a linear objective; see :meth:`FeasibilityBackend.maximise`."""
        claim, problem = Claim(), program.problem
        plain = program.scale is None and program.pricing is None and stored_as_entries(problem)
        if problem.lmis and not (plain and _unknowns_are_cheaper(problem)):
            slacks = problem.slack_form
            return self.maximise(program.with_slacks(), inquiry.through(slacks)).back(slacks)
        if _curved(problem) and not plain:
            shadows = cast_shadows(problem, SPECTRAL_SETS)
            terms = shadows.terms(program.objective)
            reduced = replace(program, problem=shadows.problem, objective=terms, start=None)
            return self.maximise(reduced, inquiry.through(shadows)).back(shadows)
        if plain:
            claim = self._maximise_sparse(program, inquiry)
            limits = (Stop.FINISHED, Stop.CALLBACK, Stop.TIME_LIMIT, Stop.ITERATION_LIMIT)
            satisfied = claim.info["gap"] < CLOSE and not inquiry.has_listener
            if claim.stop in limits or satisfied or not _worth_another_try(problem):
                return claim
        # A suggested start only has to help. On badly scaled data it may end short of what the listener
        # wants, where one from far inside goes on.
        starts = [program.start] if program.start is None else [program.start, None]
        with np.errstate(all="ignore"):
            for start in starts:
                program = program if program.pricing is None else program.pricing.program
                claim = self._maximise(replace(program, start=start), inquiry, claim.iterations or 0)
                satisfied = claim.stop is Stop.FINISHED and not inquiry.has_listener
                if satisfied or claim.stop in (Stop.CALLBACK, Stop.TIME_LIMIT, Stop.ITERATION_LIMIT):
                    break
        return claim

    def _maximise_sparse(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        problem, options = program.problem, self.options
        pose = DualForm if _unknowns_are_cheaper(problem) else PrimalForm
        with np.errstate(all="ignore"):
            return optimise(pose(problem, program.objective), inquiry, options.gap, options.max_iterations)

    def _maximise(self, program: ConicProgram, inquiry: Inquiry, before: int) -> Claim:
        """Run from the start that is suggested, or from far inside; a number of iterations came before."""
        best = BestIterate()
        embedding: StructuredEmbedding
        merit = np.inf
        gap = self.options.gap * (FINER if inquiry.has_listener else 1.0)

        def visit() -> Stop | StructuredEmbedding | None:
            nonlocal embedding, best, merit
            point, y = embedding.point(), embedding.multipliers() / embedding.tau
            values = embedding.primal_value / embedding.tau, embedding.dual_value / embedding.tau
            merit = relative_gap(*values, embedding.row_residual)
            best.offer(merit, embedding.iteration, Claim(point, y))
            if inquiry.report(before + embedding.iteration, point, y, merit):
                best.claim = Claim(point, y)
                return Stop.CALLBACK
            more = None if program.pricing is None else program.pricing.extended(point, y, merit)
            if more is not None:
                best = BestIterate()
                embedding = embedding.carried(more.program.problem, more.kept)
                return embedding
            if best.merit < gap:
                return Stop.FINISHED
            return Stop.STALLED if embedding.iteration >= best.iteration + PATIENCE else None

        def preview(affine: float) -> bool:
            # From experience, within a factor of ten.
            if not inquiry.wants_preview(merit * (1.0 - affine) ** 3):
                return False
            found = embedding.ahead()
            return found is not None and inquiry.preview(*found)

        try:
            cost = tuple(-c for c in program.objective)
            embedding = StructuredEmbedding(program.problem, cost, program.scale, program.start)
        except (np.linalg.LinAlgError, ArithmeticError, ValueError):
            # On wild numbers a suggested start may fail in any way.
            return Claim(stop=Stop.UNSUPPORTED, raw_status="no interior to start from", iterations=before)
        if not embedding.sane:
            return Claim(stop=Stop.NUMERICAL, raw_status="the start overflows", iterations=before)
        stop = self._iterate(embedding, inquiry.deadline, visit, preview)
        claim = self._claim(embedding, best.claim, stop)
        return replace(claim, iterations=before + embedding.iteration)

    def _iterate(
        self,
        embedding: StructuredEmbedding,
        deadline: Deadline,
        visit: Callable[[], Stop | StructuredEmbedding | None],
        glance: Callable[[float], bool] | None = None,
    ) -> Stop:
        """Take steps, visiting every iterate, until something says stop or has us go on elsewhere."""
        short = 0
        while True:
            found = visit()
            if isinstance(found, StructuredEmbedding):
                embedding = found
            elif found is not None:
                return found
            if embedding.iteration >= self.options.max_iterations:
                return Stop.ITERATION_LIMIT
            if deadline.expired:
                return Stop.TIME_LIMIT
            try:
                length = embedding.step(glance)
            except np.linalg.LinAlgError:
                return Stop.NUMERICAL
            except OutOfTime as error:
                embedding.words = str(error)
                return Stop.TIME_LIMIT
            if not embedding.sane:
                return Stop.NUMERICAL
            short = short + 1 if length < SHORT_STEP else 0
            if short == SHORT_STEPS:
                return Stop.STALLED

    @staticmethod
    def _claim(embedding: StructuredEmbedding, latest: Claim, stop: Stop) -> Claim:
        info = {"tau": float(embedding.tau), "kappa": float(embedding.kappa), "mu": float(embedding.mu)}
        status = embedding.words or str(stop)
        return replace(latest, raw_status=status, stop=stop, iterations=embedding.iteration, info=info)


def _unknowns_are_cheaper(problem: FeasibilityProblem) -> bool:
    """Which of the two programs of a pair a question is better posed as."""
    return unknowns_work(problem).products < rows_work(problem).products


def _curved(problem: FeasibilityProblem) -> bool:
    """Whether there are second-order cones, which the structured method takes as matrices only."""
    return any(isinstance(block, SecondOrder) for block in problem.sets)


def _worth_another_try(problem: FeasibilityProblem) -> bool:
    """Whether the structured method takes no more than a few times what the sparse one did."""
    if problem.lmis or _curved(problem):
        return False
    return structured_work(problem).products <= DEARER * newton_work(problem).products


class _Screen:
    """Cheap tests that say when evidence is worth offering."""

    def __init__(self, small: Presolved, residual: float, inquiry: Inquiry) -> None:
        self._inquiry = inquiry
        self._residual = residual
        # A dual residual costs its size times the size of the set it acts on.
        sets = small.original.sets
        boxes = [s.nuclear_radius for s in sets if s.bounded]
        unbounded = any(s.free or (s.cone and not s.entrywise) for s in sets)
        self._reach = 1e6 if unbounded else 2.0 * max([1.0, *boxes])
        self._next_point = self._next_certificate = np.inf

    def settled(self, embedding: StructuredEmbedding, point: Point, y: FloatArray) -> Claim | None:
        """The present point or multipliers, if they settle the inquiry."""
        if embedding.mu <= self._next_point and self._promising_point(embedding):
            if self._inquiry.offer(point=point):
                return Claim(point=point)
            self._next_point = 0.1 * embedding.mu
        if embedding.mu <= self._next_certificate and self._promising_certificate(embedding):
            if self._inquiry.offer(multipliers=y):
                return Claim(certificate=y)
            self._next_certificate = 0.1 * embedding.mu
        return None

    def _promising_point(self, embedding: StructuredEmbedding) -> bool:
        values, tau = embedding.row_values / embedding.tau, embedding.tau
        inside = np.all(values[embedding.low] > embedding.lower[embedding.low])
        inside = inside and np.all(values[embedding.high] < embedding.upper[embedding.high])
        if not inside:
            return False
        size = 1.0 + float(np.max(np.abs(embedding.lower[embedding.equal]), initial=0.0))
        return float(np.max(np.abs(embedding.r_equal), initial=0.0)) <= self._residual * size * tau

    def _promising_certificate(self, embedding: StructuredEmbedding) -> bool:
        gain = embedding.dual_value
        return gain > 0.0 and embedding.dual_residual * self._reach <= gain
