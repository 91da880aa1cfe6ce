"""Look for a point or a certificate with the sparse interior-point method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.posed import Posed
from sdpfeas.backends.ipm.self_dual import SelfDual
from sdpfeas.backends.ipm.sparse_walk import walk
from sdpfeas.verifier.results import Claim, Stop

__all__ = ["search"]

#: The method is stuck when so many steps have not shrunk the complementarity to this share.
STEPS, SHARE = 5, 0.5

#: What was refused once is offered again when the complementarity has shrunk to this share.
AGAIN = 0.1

#: Where the complementarity has shrunk to this share and the spread is still above this, there is no interior
#: that floating-point numbers would show.
SMALL, FLAT = 1e-9, 1e7

#: Where the spread is above this and grows by more than this power of what the complementarity shrinks by,
#: points lose their interior: a proof would fail, and waits until the spread stays. It grows like the first
#: power where there is no interior, and hardly where there is one.
SUSPECT, GROWTH = 1e5, 0.5

#: Below this share of the complementarity it began with nothing better is to come.
CONVERGED = 1e-16


def search(posed: Posed, inquiry: Inquiry, most: int) -> Claim:
    """Iterate until something offered is granted, or the method is stuck.

    Parameters
    ----------
    posed : Posed
        The question.
    inquiry : Inquiry
        What is asked, and where evidence is offered, as seen from the problem posed.
    most : int
        Iterations at most.
    """
    core = SelfDual(posed.pair)
    history, claim = [core.first_mu], Claim()
    next_point = next_certificate = due = np.inf
    last = core.mu, core.spread

    def losing() -> bool:
        """Whether points have lost interior since the last iterate."""
        nonlocal last
        (mu, spread), last = last, (core.mu, core.spread)
        return last[1] > max(SUSPECT, spread * (mu / last[0]) ** GROWTH)

    def visit() -> Stop | None:
        nonlocal claim, next_point, next_certificate, due
        sound = not losing()
        if sound and core.mu <= next_point and (point := posed.near_point(core)) is not None:
            if inquiry.offer(point=point):
                claim = Claim(point=point)
                return Stop.FINISHED
            next_point = AGAIN * core.mu
        if core.mu <= next_certificate and (y := posed.near_certificate(core)) is not None:
            if inquiry.offer(multipliers=y):
                claim = Claim(certificate=y)
                return Stop.FINISHED
            next_certificate = AGAIN * core.mu
        if inquiry.listens and core.mu <= due:
            due = AGAIN * core.mu
            if inquiry.report(core.iteration, *posed.present(core)):
                return Stop.CALLBACK
        return None

    def stuck() -> bool:
        history.append(core.mu)
        slow = len(history) > STEPS and core.mu > SHARE * history[-1 - STEPS]
        return slow or core.mu < CONVERGED * core.first_mu

    stop, words = walk(core, inquiry, most, visit, stuck)
    return _claim(core, claim if stop is Stop.FINISHED else Claim(*posed.present(core)), stop, words)


def _claim(core: SelfDual, claim: Claim, stop: Stop, words: str) -> Claim:
    info: dict[str, Any] = {"tau": float(core.tau), "kappa": float(core.kappa), "mu": float(core.mu)}
    stuck = stop in (Stop.STALLED, Stop.NUMERICAL)
    if stuck and core.mu < SMALL * core.first_mu and core.spread > FLAT:
        info["flat"] = True
        words = words or f"{stop}: no interior in sight"
    return replace(claim, raw_status=words or str(stop), stop=stop, iterations=core.iteration, info=info)
