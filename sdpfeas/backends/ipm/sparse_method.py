"""The steps of the sparse interior-point method, until somebody says stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.primal_dual_forms import ProblemForm
from sdpfeas.backends.ipm.sparse_embedding import SparseEmbedding
from sdpfeas.claims import Claim, Stop
from sdpfeas.errors import OutOfTime


def walk(
    core: SparseEmbedding,
    inquiry: Inquiry,
    most: int,
    visit: Callable[[], Stop | None],
    stuck: Callable[[], bool],
) -> tuple[Stop, str]:
    """Take steps; why they ended, and in whose words if not our own.

    ``visit``: called at every iterate, when its factors are there; may say stop. ``stuck``: called after
    every step: whether more of them are of no use.
    """
    while core.iteration < most:
        if inquiry.deadline.expired:
            return Stop.TIME_LIMIT, ""
        try:
            core.factorise()
            if (stop := visit()) is not None:
                return stop, ""
            core.advance()
        except np.linalg.LinAlgError:
            return Stop.NUMERICAL, ""
        except OutOfTime as error:
            return Stop.TIME_LIMIT, str(error)
        if not core.sane:
            return Stop.NUMERICAL, ""
        if stuck():
            return Stop.STALLED, ""
    return Stop.ITERATION_LIMIT, ""


# ------------------------------------------------------------
# The best iterate on the way to an optimum.

#: Iterations without improvement after which rounding has taken over.
PATIENCE = 6


class BestIterate:
    """The iterate of least merit so far."""

    def __init__(self) -> None:
        self.merit, self.iteration = math.inf, 0
        self.claim = Claim()

    def offer(self, merit: float, iteration: int, claim: Claim) -> None:
        """Keep a claim if it is better than the one before."""
        if merit < self.merit or self.claim.point is None:
            self.merit, self.iteration, self.claim = merit, iteration, claim


def relative_gap(primal: float, dual: float, residual: float) -> float:
    """Relative gap or residual, whichever is larger; rounding makes both grow again in the end."""
    gap = abs(primal - dual) / max(abs(primal) + abs(dual), np.finfo(float).tiny)
    merit = max(gap, residual)
    return float(merit) if np.isfinite(merit) else math.inf


# ------------------------------------------------------------
# Look for a point or a certificate with the sparse interior-point method.

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


def search(posed: ProblemForm, inquiry: Inquiry, most: int) -> Claim:
    """Iterate until something offered is granted, or the method is stuck.

    ``inquiry``: what is asked, and where evidence is offered, as seen from the problem posed.
    """
    core = SparseEmbedding(posed.form)
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
        if inquiry.has_listener and core.mu <= due:
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


def _claim(core: SparseEmbedding, claim: Claim, stop: Stop, words: str) -> Claim:
    info: dict[str, Any] = {"tau": float(core.tau), "kappa": float(core.kappa), "mu": float(core.mu)}
    stuck = stop in (Stop.STALLED, Stop.NUMERICAL)
    if stuck and core.mu < SMALL * core.first_mu and core.spread > FLAT:
        info["no_interior"] = True
        words = words or f"{stop}: no interior in sight"
    return replace(claim, raw_status=words or str(stop), stop=stop, iterations=core.iteration, info=info)


# ------------------------------------------------------------
# Maximise a linear objective with the sparse interior-point method.


def optimise(posed: ProblemForm, inquiry: Inquiry, gap: float, most: int) -> Claim:
    """Iterate until the gap is closed, showing every iterate, corrected where it can be.

    ``gap``: relative gap and residual at which to stop.
    """
    core, best = SparseEmbedding(posed.form), BestIterate()

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
