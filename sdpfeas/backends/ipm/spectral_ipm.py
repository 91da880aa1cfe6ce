"""``spectral-ipm``: a primal–dual interior-point method on the homogeneous self-dual embedding.

The backend takes every set as it is (a SpectralBox is two cones on one matrix, without additional rows) and
keeps low-rank rows low-rank and sparse rows sparse. The method is in
:mod:`sdpfeas.backends.ipm.interior_point`. Problems over cones with rows stored as entries use the Newton
system :class:`~sdpfeas.backends.ipm.sparse_system.SparseSystem`, all others
:class:`~sdpfeas.backends.ipm.structured_system.StructuredSystem`, which takes second-order cones as PSD
matrices.

Both need well-centred starts, so warm starts are used only where the largest margin is wanted; they
determine where on the central path the method starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sdpfeas.backends.base import SPECTRAL_SETS, FeasibilityBackend
from sdpfeas.backends.dispatch import reduction_for
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.interior_point import CONSERVATIVE_STEPS, optimise, search
from sdpfeas.backends.ipm.iteration_cost import (
    dual_form_flops,
    newton_flops,
    primal_form_flops,
    rows_are_entries,
    structured_flops,
)
from sdpfeas.backends.ipm.primal_dual_forms import DualForm, PrimalForm, ProblemForm
from sdpfeas.backends.ipm.sparse_system import SparseSystem
from sdpfeas.backends.ipm.structured_system import StructuredSystem
from sdpfeas.claims import Claim, Stop
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.margin_form import margin_form
from sdpfeas.problem.reductions.presolve import presolve
from sdpfeas.problem.reductions.split import split_components
from sdpfeas.problem.sets import SecondOrder

__all__ = ["SpectralIpm", "SpectralIpmOptions"]

#: With a listener, the gap is closed to this share of the tolerance: where large terms
#: cancel, that much of the accuracy of a point is lost in a proved bound.
LISTENER_GAP_SHARE = 1e-3

#: With an objective: relative gap over sparse rows below which structured rows are not tried.
SPARSE_GAP_ACCEPTED = 1e-6

#: Structured rows are tried after sparse ones if an iteration costs at most this many times as much.
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
        parts = split_components(problem)
        whole = problem if parts is None else parts.problem
        reduction = _reduction(whole, rows_are_entries(whole))
        chain = [each for each in (parts, reduction) if each is not None]
        for each in chain:
            problem, inquiry = each.problem, inquiry.through(each)
        with np.errstate(all="ignore"):
            claim = self._search(problem, inquiry)
        for each in reversed(chain):
            claim = claim.back(each)
        return claim

    def _search(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a point or a certificate of a reduced problem."""
        if problem.lmis:
            return search(SparseSystem(DualForm(problem)), inquiry, self.options.max_iterations)
        small = presolve(problem)
        if small.answer is not None:
            return Claim(*small.answer, raw_status="presolved")
        inquiry = inquiry.through(small)
        if rows_are_entries(small.problem):
            system = SparseSystem(_cheaper_form(small.problem))
            return search(system, inquiry, self.options.max_iterations).back(small)
        return self._search_structured(small.problem, inquiry).back(small)

    def _search_structured(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a point or a certificate over structured rows."""
        options = self.options
        if inquiry.wanted == "margin":
            claim = self._maximise_margin(problem, inquiry)
            if claim.stop in (Stop.CALLBACK, Stop.FINISHED, Stop.TIME_LIMIT):
                return claim
        system = StructuredSystem(problem, residual_tolerance=options.residual)
        claim = search(system, inquiry, options.max_iterations)
        failed = claim.stop in (Stop.STALLED, Stop.NUMERICAL)
        if not failed or inquiry.offer(claim.point, claim.certificate, final=True):
            return claim
        # Rounding errors grew too large before anything was proved; shorter steps keep better centred.
        before = claim.iterations or 0
        system = StructuredSystem(problem, residual_tolerance=options.residual, iteration=before)
        return search(system, inquiry, before + options.max_iterations, CONSERVATIVE_STEPS)

    def _maximise_margin(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Maximise the margin of the rows, so that the result also decides neighbouring problems."""
        form = margin_form(problem)
        if form is None:
            return Claim(stop=Stop.UNSUPPORTED, raw_status="the rows have no margin in common")
        inquiry = inquiry.through(form)
        program = ConicProgram(form.problem, form.objective)
        start = form.start(inquiry.start.point, inquiry.start.certificate)
        claim = Claim()
        for begin in [None] if start is None else [start, None]:
            claim = self._optimise_structured(replace(program, start=begin), inquiry, claim.iterations or 0)
            if claim.stop in (Stop.CALLBACK, Stop.FINISHED, Stop.TIME_LIMIT):
                break
        return claim.back(form)

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise a linear objective; see :meth:`FeasibilityBackend.maximise`."""
        reduction = _reduction(program.problem, _is_sparse(program))
        with np.errstate(all="ignore"):
            if reduction is None:
                return self._optimise(program, inquiry)
            claim = self._optimise(program.through(reduction), inquiry.through(reduction))
        return claim.back(reduction)

    def _optimise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise the objective of a reduced program."""
        claim, options = Claim(), self.options
        if _is_sparse(program):
            system = SparseSystem(_cheaper_form(program.problem, program.objective))
            gap = options.gap * (LISTENER_GAP_SHARE if inquiry.has_listener else 1.0)
            claim = optimise(system, inquiry, gap, options.max_iterations)
            final = (Stop.FINISHED, Stop.CALLBACK, Stop.TIME_LIMIT, Stop.ITERATION_LIMIT)
            accurate = claim.info["gap"] < SPARSE_GAP_ACCEPTED
            on_ray = claim.info["kappa"] > claim.info["tau"]
            if claim.stop in final or accurate or on_ray or not _retry_is_cheap(program.problem):
                return claim
        # On badly scaled data a warm start may end short of the accuracy that the listener waits for; a cold
        # start is tried then.
        for start in [None] if program.start is None else [program.start, None]:
            program = program if program.pricing is None else program.pricing.program
            claim = self._optimise_structured(replace(program, start=start), inquiry, claim.iterations or 0)
            accurate = claim.stop is Stop.FINISHED and not inquiry.has_listener
            if accurate or claim.stop in (Stop.CALLBACK, Stop.TIME_LIMIT, Stop.ITERATION_LIMIT):
                break
        return claim

    def _optimise_structured(self, program: ConicProgram, inquiry: Inquiry, before: int) -> Claim:
        """Maximise over structured rows, after some iterations of another run."""
        options, cost = self.options, tuple(-c for c in program.objective)
        try:
            system = StructuredSystem(program.problem, cost, program.scale, program.start, iteration=before)
        except (np.linalg.LinAlgError, ArithmeticError, ValueError):
            # A warm start on data of extreme scale may fail in any of these ways.
            return Claim(stop=Stop.UNSUPPORTED, raw_status="no interior to start from", iterations=before)
        if not system.valid:
            return Claim(stop=Stop.NUMERICAL, raw_status="the start overflows", iterations=before)
        gap = options.gap * (LISTENER_GAP_SHARE if inquiry.has_listener else 1.0)
        return optimise(system, inquiry, gap, before + options.max_iterations, program.pricing)


def _is_sparse(program: ConicProgram) -> bool:
    """Whether a program goes to the sparse system first."""
    return program.scale is None and program.pricing is None and rows_are_entries(program.problem)


def _reduction(problem: FeasibilityProblem, sparse: bool) -> Reduction | None:
    """Return the reduction that the sparse or the structured system needs; None if none is.

    LMIs become slacks unless the dual form is cheaper; over structured rows second-order cones become PSD
    blocks.
    """
    if sparse:
        return problem.slack_form if problem.lmis and not dual_form_is_cheaper(problem) else None
    return reduction_for(problem, SPECTRAL_SETS, lmis=False)


def _cheaper_form(problem: FeasibilityProblem, objective: Point | None = None) -> ProblemForm:
    form = DualForm if dual_form_is_cheaper(problem) else PrimalForm
    return form(problem, objective)


def dual_form_is_cheaper(problem: FeasibilityProblem) -> bool:
    """Whether an iteration in dual form takes fewer floating-point operations than one in primal form."""
    return dual_form_flops(problem) < primal_form_flops(problem)


def _has_second_order(problem: FeasibilityProblem) -> bool:
    return any(isinstance(block, SecondOrder) for block in problem.sets)


def _retry_is_cheap(problem: FeasibilityProblem) -> bool:
    """Whether an iteration of the structured method costs little more than one of the sparse method."""
    if problem.lmis or _has_second_order(problem):
        return False
    return structured_flops(problem) <= RETRY_COST_FACTOR * newton_flops(problem)
