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

from dataclasses import dataclass

import numpy as np

from sdpfeas.backends.base import SPECTRAL_SETS, FeasibilityBackend
from sdpfeas.backends.dispatch import reduction_for
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.interior_point import optimise, search
from sdpfeas.backends.ipm.iteration_cost import (
    dual_form_flops,
    primal_form_flops,
    rows_are_entries,
)
from sdpfeas.backends.ipm.primal_dual_forms import DualForm, PrimalForm, ProblemForm
from sdpfeas.backends.ipm.sparse_system import SparseSystem
from sdpfeas.backends.ipm.structured_system import StructuredSystem
from sdpfeas.cards.options import Count, Share
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


@dataclass(frozen=True)
class SpectralIpmOptions:
    """Options of ``spectral-ipm``.

    ``residual`` is the relative residual of equality rows below which a point is offered for a proof. With an
    objective the method stops when relative gap and row residual are below ``gap``.
    """

    max_iterations: Count = 100
    residual: Share = 1e-7
    gap: Share = 1e-9


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
        """Look for a point or a certificate over structured rows, with the largest margin if that is wanted.

        The margin is that of the rows, so that the result also decides neighbouring problems.
        """
        form = margin_form(problem) if inquiry.wanted == "margin" else None
        if form is not None:
            view = inquiry.through(form)
            start = form.start(view.start.point, view.start.certificate)
            program = ConicProgram(form.problem, form.objective, start=start)
            claim = self._optimise_structured(program, view).back(form)
            if claim.stop in (Stop.CALLBACK, Stop.FINISHED, Stop.TIME_LIMIT):
                return claim
        system = StructuredSystem(problem, residual_tolerance=self.options.residual)
        return search(system, inquiry, self.options.max_iterations)

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise a linear objective; see :meth:`FeasibilityBackend.maximise`."""
        sparse = program.scale is None and program.pricing is None and rows_are_entries(program.problem)
        reduction = _reduction(program.problem, sparse)
        if reduction is not None:
            program, inquiry = program.through(reduction), inquiry.through(reduction)
        with np.errstate(all="ignore"):
            if sparse:
                system = SparseSystem(_cheaper_form(program.problem, program.objective))
                claim = optimise(system, inquiry, self._gap(inquiry), self.options.max_iterations)
            else:
                claim = self._optimise_structured(program, inquiry)
        return claim if reduction is None else claim.back(reduction)

    def _optimise_structured(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise over structured rows.

        On badly scaled data a warm start may fail, or end short of the accuracy that the listener waits for.
        A cold start is tried then.
        """
        cost, claim = tuple(-c for c in program.objective), Claim()
        for start in [None] if program.start is None else [program.start, None]:
            now = program if program.pricing is None else program.pricing.program
            before = claim.iterations or 0
            try:
                system = StructuredSystem(now.problem, cost, now.scale, start, iteration=before)
            except (np.linalg.LinAlgError, ArithmeticError, ValueError):
                # A warm start on data of extreme scale may fail in any of these ways.
                claim = Claim(stop=Stop.UNSUPPORTED, raw_status="no interior to start from")
                continue
            most = before + self.options.max_iterations
            claim = optimise(system, inquiry, self._gap(inquiry), most, now.pricing)
            accurate = claim.stop is Stop.FINISHED and not inquiry.has_listener
            if accurate or claim.stop in (Stop.CALLBACK, Stop.TIME_LIMIT, Stop.ITERATION_LIMIT):
                break
        return claim

    def _gap(self, inquiry: Inquiry) -> float:
        """Return the relative gap at which to stop."""
        return self.options.gap * (LISTENER_GAP_SHARE if inquiry.has_listener else 1.0)


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
