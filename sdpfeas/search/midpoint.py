"""The search as published: Algorithm 1 of Li, Shen, van den Hengel and Shi (IEEE TIP 2015)."""

from __future__ import annotations

import math
import time

from sdpfeas.backends.asking import ask
from sdpfeas.backends.claimed import claimed_verdict
from sdpfeas.backends.inquiry import Inquiry, WarmStart
from sdpfeas.errors import LimitError, OptionError
from sdpfeas.search.driver import BisectionResult, Search, Step
from sdpfeas.verifier.results import Verdict

__all__ = ["as_published"]


def as_published(search: Search) -> BisectionResult:
    """Halve the bracket on what the backend claims, whether or not it is so.

    Parameters
    ----------
    search : Search
        A search that has been started.
    """
    low, high = search.bracket.lower, search.bracket.upper
    if not (math.isfinite(low) and math.isfinite(high)):
        raise OptionError("mode='paper' needs a finite bracket: give lower and upper")
    bracket, point, y = search.bracket, search.bracket.point, search.bracket.certificate
    reason = "the bracket is within the tolerance"
    while high - low > max(bracket.tol * abs(low), bracket.floor):
        if search.deadline.expired:
            reason = "time limit"
            break
        begin = time.perf_counter()
        delta = 0.5 * (low + high)
        try:
            problem = search.family.at(delta)
            inquiry = Inquiry(problem, deadline=search.deadline, start=search.warm)
            claim = search.sound(ask(search.backend, problem, inquiry), delta)
        except LimitError as error:
            reason = search.late(error)
            break
        said = claimed_verdict(claim)
        verdict = Verdict.UNDECIDED if said is None else said
        if verdict is Verdict.FEASIBLE:
            low, point = delta, claim.point
        elif verdict is Verdict.INFEASIBLE:
            high, y = delta, claim.certificate
        search.warm = WarmStart(claim.point, claim.certificate)
        spent = time.perf_counter() - begin
        step = Step(delta, verdict, None, low, high, claim.iterations, spent, claim.raw_status)
        search.history.append(step)
        if verdict is Verdict.UNDECIDED:
            reason = f"backend {search.backend.name!r} claims nothing at delta = {delta:.6g} ({claim.stop})"
            break
        if search.callback is not None and search.callback(step):
            reason = "stopped by the callback"
            break
    return BisectionResult(
        low,
        high,
        point,
        y,
        tuple(search.history),
        proven=False,
        converged=high - low <= max(bracket.tol * abs(low), bracket.floor),
        reason=f"{reason}; on claims, not on proofs",
        initial=search.initial,
        time=search.deadline.elapsed,
    )
