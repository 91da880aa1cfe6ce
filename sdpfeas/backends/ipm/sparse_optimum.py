"""Maximise a linear objective with the sparse interior-point method."""

from __future__ import annotations

from dataclasses import replace

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.best import PATIENCE, Best, relative_gap
from sdpfeas.backends.ipm.posed import Posed
from sdpfeas.backends.ipm.self_dual import SelfDual
from sdpfeas.backends.ipm.sparse_walk import walk
from sdpfeas.verifier.results import Claim, Stop

__all__ = ["optimise"]


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

    def visit() -> Stop | None:
        point, y = posed.optimal(core)
        merit = relative_gap(core.primal_value / core.tau, core.dual_value / core.tau, core.residual)
        best.offer(merit, core.iteration, Claim(point, y))
        if inquiry.report(core.iteration, point, y, merit):
            best.claim = Claim(point, y)
            return Stop.CALLBACK
        return Stop.FINISHED if merit < gap else None

    stop, words = walk(core, inquiry, most, visit, lambda: core.iteration > best.iteration + PATIENCE)
    info = {"tau": float(core.tau), "kappa": float(core.kappa), "mu": float(core.mu), "gap": best.merit}
    return replace(best.claim, raw_status=words or str(stop), stop=stop, iterations=core.iteration, info=info)
