"""Maximise a linear objective with the sparse interior-point method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.posed import Posed
from sdpfeas.backends.ipm.self_dual import SelfDual
from sdpfeas.errors import OutOfTime
from sdpfeas.verifier.results import Claim, Stop

__all__ = ["PATIENCE", "Best", "optimise"]

#: Iterations without improvement after which rounding has taken over.
PATIENCE = 6


class Best:
    """The iterate of least merit so far."""

    def __init__(self) -> None:
        self.merit, self.iteration = np.inf, 0
        self.claim = Claim()

    def offer(self, merit: float, iteration: int, claim: Claim) -> None:
        """Keep a claim if it is better than the one before."""
        if merit < self.merit or self.claim.point is None:
            self.merit, self.iteration, self.claim = merit, iteration, claim


def optimise(posed: Posed, inquiry: Inquiry, gap: float, most: int) -> Claim:
    """Iterate until the gap is closed, showing every iterate, corrected where it can be.

    Parameters
    ----------
    posed : Posed
        The question, with its objective.
    inquiry : Inquiry
        Who listens, and until when.
    gap : float
        Relative gap and residual at which to stop.
    most : int
        Iterations at most.
    """
    core, best = SelfDual(posed.pair), Best()
    stop, words = Stop.ITERATION_LIMIT, ""
    while core.iteration < most:
        if inquiry.deadline.expired:
            stop = Stop.TIME_LIMIT
            break
        try:
            core.factorise()
            point, y = posed.optimal(core)
            merit = _merit(core)
            best.offer(merit, core.iteration, Claim(point, y))
            if inquiry.report(core.iteration, point, y, merit):
                best.claim, stop = Claim(point, y), Stop.CALLBACK
                break
            if merit < gap:
                stop = Stop.FINISHED
                break
            if core.iteration >= best.iteration + PATIENCE:
                stop = Stop.STALLED
                break
            core.advance()
        except np.linalg.LinAlgError:
            stop = Stop.NUMERICAL
            break
        except OutOfTime as error:
            stop, words = Stop.TIME_LIMIT, str(error)
            break
        if not core.sane:
            stop = Stop.NUMERICAL
            break
    info = {"tau": float(core.tau), "kappa": float(core.kappa), "mu": float(core.mu), "gap": best.merit}
    return replace(best.claim, raw_status=words or str(stop), stop=stop, iterations=core.iteration, info=info)


def _merit(core: SelfDual) -> float:
    """Relative gap or residual, whichever is larger; rounding makes both grow again in the end."""
    primal, dual = core.primal_value / core.tau, core.dual_value / core.tau
    gap = abs(primal - dual) / max(abs(primal) + abs(dual), np.finfo(float).tiny)
    merit = max(gap, core.residual)
    return merit if np.isfinite(merit) else np.inf
