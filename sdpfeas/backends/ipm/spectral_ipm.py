"""``spectral-ipm``: primal–dual interior-point methods on the homogeneous self-dual embedding.

The backend takes every set as it is (a SpectralBox is two cones on one matrix, without additional rows) and
keeps low-rank rows low-rank and sparse rows sparse. It has two engines: problems over cones with rows
stored as entries go to the sparse method (:mod:`sdpfeas.backends.ipm.sparse_method`), all others to the
structured method (:mod:`sdpfeas.backends.ipm.structured_method`), which takes second-order cones as PSD
matrices.

Both need well-centred starts, so warm starts are used only where the largest margin is wanted; they
determine where on the central path the method starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sdpfeas.backends.base import SPECTRAL_SETS, FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm import sparse_method, structured_method
from sdpfeas.backends.ipm.iteration_cost import (
    dual_form_work,
    newton_work,
    primal_form_work,
    rows_are_entries,
    structured_work,
)
from sdpfeas.backends.ipm.primal_dual_forms import DualForm, PrimalForm, ProblemForm
from sdpfeas.backends.ipm.structured_method import CONSERVATIVE_STEPS
from sdpfeas.claims import Claim, Stop
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.cones_to_psd import cones_to_psd
from sdpfeas.problem.reductions.margin_form import margin_form
from sdpfeas.problem.reductions.presolve import Presolve, presolve
from sdpfeas.problem.reductions.split import split_components
from sdpfeas.problem.sets import SecondOrder

__all__ = ["SpectralIpm", "SpectralIpmOptions"]

#: With an objective: relative gap of the sparse method below which the structured method is not tried.
SPARSE_GAP_ACCEPTED = 1e-6

#: The structured method is tried after the sparse one if an iteration costs at most this many times as much.
RETRY_COST_FACTOR = 5.0


@dataclass(frozen=True)
class SpectralIpmOptions:
    """Options of ``spectral-ipm``.

    ``residual`` is the relative residual of equality rows below which a point is offered for a proof. With an
    objective the method stops when relative gap and row residual are below ``gap``.
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
    """Primal–dual interior-point method over PSD, SecondOrder, Nonneg, Free and SpectralBox blocks."""

    name = "spectral-ipm"
    sets = SPECTRAL_SETS | {SecondOrder}
    lmis = True
    calls_back = True
    maximises = True
    maximises_lmis = True
    Options = SpectralIpmOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a point or a certificate; see :class:`FeasibilityBackend`."""
        options = self.options
        if (parts := split_components(problem)) is not None:
            return self.solve(parts.problem, inquiry.through(parts)).back(parts)
        if problem.lmis:
            if rows_are_entries(problem) and dual_form_is_cheaper(problem):
                with np.errstate(all="ignore"):
                    return sparse_method.search(DualForm(problem), inquiry, options.max_iterations)
            slacks = problem.slack_form
            return self.solve(slacks.problem, inquiry.through(slacks)).back(slacks)
        if _has_second_order(problem) and not rows_are_entries(problem):
            matrices = cones_to_psd(problem, SPECTRAL_SETS)
            return self.solve(matrices.problem, inquiry.through(matrices)).back(matrices)
        small = presolve(problem)
        if small.answer is not None:
            return Claim(*small.answer, raw_status="presolved")
        with np.errstate(all="ignore"):
            if rows_are_entries(small.problem):
                form, seen = _cheaper_form(small.problem), inquiry.through(small)
                return sparse_method.search(form, seen, options.max_iterations).back(small)
            if inquiry.wanted == "margin":
                claim = self._maximise_margin(small, inquiry)
                if claim.stop in (Stop.CALLBACK, Stop.FINISHED, Stop.TIME_LIMIT):
                    return claim
            limits = options.residual, options.max_iterations
            claim = structured_method.search(small, inquiry, *limits)
            failed = claim.stop in (Stop.STALLED, Stop.NUMERICAL)
            if not failed or inquiry.offer(claim.point, claim.certificate, final=True):
                return claim
            # Rounding errors grew too large before anything was proved; shorter steps keep better centred.
            again = structured_method.search(small, inquiry, *limits, CONSERVATIVE_STEPS)
        return replace(again, iterations=(claim.iterations or 0) + (again.iterations or 0))

    def _maximise_margin(self, small: Presolve, inquiry: Inquiry) -> Claim:
        """Maximise the margin of the rows, so that the result also decides neighbouring problems."""
        form = margin_form(small.problem)
        if form is None:
            return Claim(stop=Stop.UNSUPPORTED, raw_status="the rows have no margin in common")
        both = small.then(form)
        seen = inquiry.through(both)
        program = ConicProgram(form.problem, form.objective)
        start = form.start(seen.start.point, seen.start.certificate)
        claim = Claim()
        for begin in [None] if start is None else [start, None]:
            claim = self._optimise_structured(replace(program, start=begin), seen, claim.iterations or 0)
            if claim.stop in (Stop.CALLBACK, Stop.FINISHED, Stop.TIME_LIMIT):
                break
        return claim.back(both)

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise a linear objective; see :meth:`FeasibilityBackend.maximise`."""
        claim, problem, options = Claim(), program.problem, self.options
        sparse = program.scale is None and program.pricing is None and rows_are_entries(problem)
        if problem.lmis and not (sparse and dual_form_is_cheaper(problem)):
            slacks = problem.slack_form
            return self.maximise(program.with_slacks(), inquiry.through(slacks)).back(slacks)
        if _has_second_order(problem) and not sparse:
            matrices = cones_to_psd(problem, SPECTRAL_SETS)
            terms = matrices.terms(program.objective)
            reduced = replace(program, problem=matrices.problem, objective=terms, start=None)
            return self.maximise(reduced, inquiry.through(matrices)).back(matrices)
        if sparse:
            with np.errstate(all="ignore"):
                form = _cheaper_form(problem, program.objective)
                claim = sparse_method.optimise(form, inquiry, options.gap, options.max_iterations)
            final = (Stop.FINISHED, Stop.CALLBACK, Stop.TIME_LIMIT, Stop.ITERATION_LIMIT)
            accurate = claim.info["gap"] < SPARSE_GAP_ACCEPTED and not inquiry.has_listener
            if claim.stop in final or accurate or not _retry_is_cheap(problem):
                return claim
        # On badly scaled data a warm start may end short of the accuracy that the listener waits for; a cold
        # start is tried then.
        starts = [program.start] if program.start is None else [program.start, None]
        with np.errstate(all="ignore"):
            for start in starts:
                program = program if program.pricing is None else program.pricing.program
                claim = self._optimise_structured(
                    replace(program, start=start), inquiry, claim.iterations or 0
                )
                accurate = claim.stop is Stop.FINISHED and not inquiry.has_listener
                if accurate or claim.stop in (Stop.CALLBACK, Stop.TIME_LIMIT, Stop.ITERATION_LIMIT):
                    break
        return claim

    def _optimise_structured(self, program: ConicProgram, inquiry: Inquiry, before: int) -> Claim:
        options = self.options
        return structured_method.optimise(program, inquiry, options.gap, options.max_iterations, before)


def _cheaper_form(problem: FeasibilityProblem, objective: Point | None = None) -> ProblemForm:
    form = DualForm if dual_form_is_cheaper(problem) else PrimalForm
    return form(problem, objective)


def dual_form_is_cheaper(problem: FeasibilityProblem) -> bool:
    """Whether an iteration in dual form takes fewer floating-point operations than one in primal form."""
    return dual_form_work(problem).products < primal_form_work(problem).products


def _has_second_order(problem: FeasibilityProblem) -> bool:
    return any(isinstance(block, SecondOrder) for block in problem.sets)


def _retry_is_cheap(problem: FeasibilityProblem) -> bool:
    """Whether an iteration of the structured method costs little more than one of the sparse method."""
    if problem.lmis or _has_second_order(problem):
        return False
    return structured_work(problem).products <= RETRY_COST_FACTOR * newton_work(problem).products
