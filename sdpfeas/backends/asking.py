"""Ask a backend: reduce the problem to what it takes, map its claim back, and survive whatever it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sdpfeas.backends.claimed import read_claim
from sdpfeas.backends.contract import FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.errors import ClaimError, in_words, raised_where
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.results import Claim, Proof, Stop, Verdict

__all__ = ["ask"]


def ask(backend: FeasibilityBackend, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
    """Run a backend on a problem, lifting what it does not take, and map the claim back.

    Whatever a backend raises becomes a claim that says so; only an interrupt passes through. If the backend
    stopped because something it offered was granted, the claim holds that.

    Parameters
    ----------
    backend : FeasibilityBackend
        The backend.
    problem : FeasibilityProblem
        The problem in its own units.
    inquiry : Inquiry
        What it is asked besides the problem.
    """
    if all(type(s) in backend.sets or not s.bounded for s in problem.sets):
        claim = _run(backend, problem, inquiry)
    else:
        lift = problem.lift()
        claim = _run(backend, lift.problem, inquiry.through(lift))
        try:
            claim = claim.back(lift)
        except ClaimError as error:
            claim = Claim(stop=Stop.ERROR, raw_status=f"malformed claim: {error}")
    check = inquiry.granted
    if check is None or check.proof is not Proof.RIGOROUS:
        return claim
    if check.verdict is Verdict.FEASIBLE:
        return replace(claim, point=check.point)
    return replace(claim, certificate=check.certificate)


def _run(backend: FeasibilityBackend, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
    try:
        fine, why = backend.accepts(problem)
        if not fine:
            return Claim(stop=Stop.UNSUPPORTED, raw_status=in_words(why))
        returned: Any = backend.solve(problem, inquiry)
    except Exception as error:  # noqa: BLE001 - a backend may raise anything; it costs this answer only
        info = {"raised": raised_where(error)}
        return Claim(stop=Stop.ERROR, raw_status=in_words(error), info=info)
    return read_claim(returned)
