"""Run a backend on any problem: reduce unsupported sets, map the claim back, contain failures.

Entry points: :func:`dispatch` for feasibility, :func:`dispatch_program` for a linear objective.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.claims import Claim, Stop, Verdict, malformed_claim, read_claim
from sdpfeas.errors import ClaimError, LimitError, OutOfTime, safe_text, traceback_summary
from sdpfeas.numerics.limits import limited
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.cones_to_psd import cones_to_psd
from sdpfeas.problem.reductions.presolve import presolve
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.outcome import Proof


def dispatch(backend: FeasibilityBackend, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
    """Run a backend on a problem, reducing sets it does not accept, and map its claim back.

    An exception raised by the backend becomes a claim with ``Stop.ERROR``; only an interrupt propagates. If a
    verdict was granted during the run, the claim holds the evidence of that verdict.
    """
    try:
        with limited(inquiry.limit):
            claim = _reduce_and_run(backend, problem, inquiry)
    except LimitError as error:
        stop = Stop.TIME_LIMIT if isinstance(error, OutOfTime) else Stop.UNSUPPORTED
        claim = Claim(stop=stop, raw_status=str(error))
    # Through a reduction, the granted check is about the original problem, not about this one.
    check = None if inquiry.reduced else inquiry.granted
    if check is not None and check.chain is not None:
        return replace(claim, point=check.point, certificate=None, chain=check.chain)
    if check is None or check.proof is not Proof.RIGOROUS:
        return claim
    if check.verdict is Verdict.FEASIBLE:
        return replace(claim, point=check.point)
    return replace(claim, certificate=check.certificate)


def dispatch_program(backend: FeasibilityBackend, program: ConicProgram, inquiry: Inquiry) -> Claim:
    """Maximise an objective with a backend, after reducing LMIs and sets that it does not accept."""
    chain = reduction_for(program.problem, backend.sets, backend.maximises_lmis)
    if chain is None:
        return backend.maximise(program, inquiry)
    if any(block.bounded and type(block) not in backend.sets for block in all_sets(program.problem)):
        return Claim(stop=Stop.UNSUPPORTED, raw_status=f"backend {backend.name!r} does not take all sets")
    return _back(backend.maximise(program.through(chain), inquiry.through(chain)), chain)


def _reduce_and_run(backend: FeasibilityBackend, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
    chain = reduction_for(problem, backend.sets, backend.lmis)
    if chain is None:
        return _presolve_and_run(backend, problem, inquiry)
    return _back(_presolve_and_run(backend, chain.problem, inquiry.through(chain)), chain)


def _presolve_and_run(backend: FeasibilityBackend, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
    if not backend.presolves or problem.lmis:
        return _run(backend, problem, inquiry)
    small = presolve(problem)
    if small.answer is not None:
        return Claim(*small.answer, raw_status="presolved")
    return _back(_run(backend, small.problem, inquiry.through(small)), small)


def reduction_for(
    problem: FeasibilityProblem, sets: Collection[type[BlockSet]], lmis: bool
) -> Reduction | None:
    """Return the reductions from a problem to given set types, with or without LMIs; None if none is needed.

    In this order: LMIs become slack blocks, other cones PSD blocks, boxes pairs of PSD blocks.
    """
    foreign = [block for block in all_sets(problem) if type(block) not in sets]
    chain: Reduction | None = problem.slack_form if problem.lmis and (foreign or not lmis) else None
    if foreign:
        cones = cones_to_psd(problem if chain is None else chain.problem, sets)
        chain = cones if chain is None else chain.then(cones)
    if chain is not None and any(block.bounded for block in foreign):
        chain = chain.then(chain.problem.lift())
    return chain


def all_sets(problem: FeasibilityProblem) -> list[BlockSet]:
    """Return the sets of all blocks and LMIs."""
    return [*problem.sets, *(lmi.set for lmi in problem.lmis)]


def _back(claim: Claim, reduction: Reduction) -> Claim:
    """Map a claim about the reduced problem back; a malformed one becomes an error."""
    try:
        return claim.back(reduction)
    except ClaimError as error:
        return malformed_claim(str(error))


def _run(backend: FeasibilityBackend, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
    """Call ``backend.solve`` and validate what it returns."""
    try:
        fine, why = backend.accepts(problem)
        if not fine:
            return Claim(stop=Stop.UNSUPPORTED, raw_status=safe_text(why))
        returned: Any = backend.solve(problem, inquiry)
    except LimitError:
        raise
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        info = {"raised": traceback_summary(error)}
        return Claim(stop=Stop.ERROR, raw_status=safe_text(error), info=info)
    return read_claim(returned)
