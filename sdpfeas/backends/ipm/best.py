"""The best iterate on the way to an optimum."""

from __future__ import annotations

import math

import numpy as np

from sdpfeas.verifier.results import Claim

__all__ = ["PATIENCE", "Best", "relative_gap"]

#: Iterations without improvement after which rounding has taken over.
PATIENCE = 6


class Best:
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
