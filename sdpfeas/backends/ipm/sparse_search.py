"""Look for a point or a certificate with the sparse interior-point method."""

from __future__ import annotations

import numpy as np

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.posed import Posed
from sdpfeas.backends.ipm.self_dual import SelfDual
from sdpfeas.errors import OutOfTime
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.verifier.results import Claim, Stop

__all__ = ["search"]

#: The method is stuck when so many steps have not shrunk the complementarity to this share.
STEPS, SHARE = 5, 0.5

#: What was refused once is offered again when the complementarity has shrunk to this share.
AGAIN = 0.1

#: Below this share of the complementarity it began with nothing better is to come.
CONVERGED = 1e-16


def search(posed: Posed, way_back: Reduction, inquiry: Inquiry, most: int) -> Claim:
    """Iterate until something offered is granted, or the method is stuck.

    Parameters
    ----------
    posed : Posed
        The question.
    way_back : Reduction
        How evidence becomes that of the problem of the inquiry.
    inquiry : Inquiry
        What is asked, and where evidence is offered.
    most : int
        Iterations at most.
    """
    core = SelfDual(posed.pair)
    history, words = [core.mu], ""
    next_point = next_certificate = due = np.inf
    while True:
        if core.iteration >= most:
            stop = Stop.ITERATION_LIMIT
            break
        if inquiry.deadline.expired:
            stop = Stop.TIME_LIMIT
            break
        try:
            core.factorise()
            if core.mu <= next_point and (point := posed.near_point(core)) is not None:
                point = way_back.point(point)
                if inquiry.offer(point=point):
                    return _claim(core, Claim(point=point), Stop.FINISHED, words)
                next_point = AGAIN * core.mu
            if core.mu <= next_certificate and (y := posed.near_certificate(core)) is not None:
                y = way_back.multipliers(y)
                if inquiry.offer(multipliers=y):
                    return _claim(core, Claim(certificate=y), Stop.FINISHED, words)
                next_certificate = AGAIN * core.mu
            if inquiry.listens and core.mu <= due:
                due = AGAIN * core.mu
                present = posed.present(core)
                if inquiry.report(
                    core.iteration, way_back.point(present[0]), way_back.multipliers(present[1])
                ):
                    stop = Stop.CALLBACK
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
        history.append(core.mu)
        stuck = len(history) > STEPS and core.mu > SHARE * history[-1 - STEPS]
        if stuck or core.mu < CONVERGED * history[0]:
            stop = Stop.STALLED
            break
    found, y = posed.present(core)
    return _claim(core, Claim(way_back.point(found), way_back.multipliers(y)), stop, words)


def _claim(core: SelfDual, claim: Claim, stop: Stop, words: str) -> Claim:
    info = {"tau": float(core.tau), "kappa": float(core.kappa), "mu": float(core.mu)}
    return Claim(
        claim.point, claim.certificate, words or str(stop), stop, iterations=core.iteration, info=info
    )
