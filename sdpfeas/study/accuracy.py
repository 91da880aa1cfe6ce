"""How good the evidence is as it was handed in, before any repair."""

from __future__ import annotations

import math

import numpy as np

from sdpfeas.errors import ClaimError
from sdpfeas.problem.problem import FeasibilityProblem, largest_bound, sign_violation
from sdpfeas.verifier.results import Claim, Verdict

__all__ = ["claim_error"]


def claim_error(problem: FeasibilityProblem, claim: Claim, verdict: Verdict) -> float | None:
    """Relative error of the evidence behind a verdict; None where there is no evidence to measure.

    For a point, the largest violation of a row relative to its bound and terms, or the distance of a block
    from its set relative to its size. For a certificate, what the multipliers violate of the sign conditions
    relative to the largest one. Zero means the evidence holds as it is.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    claim : Claim
        What the backend handed in.
    verdict : Verdict
        The verdict the evidence is for.
    """
    try:
        if verdict is Verdict.FEASIBLE and claim.point is not None:
            return _point_error(problem, claim)
        if verdict is Verdict.INFEASIBLE and claim.certificate is not None:
            y = problem.multipliers(claim.certificate)
            largest = float(np.max(np.abs(y), initial=0.0))
            return float(np.max(sign_violation(problem, y), initial=0.0)) / largest if largest > 0 else None
    except (ClaimError, np.linalg.LinAlgError):
        return None
    return None


def _point_error(problem: FeasibilityProblem, claim: Claim) -> float | None:
    point = problem.point(claim.point)
    if not all(np.isfinite(x).all() for x in point):
        return None
    worst = 0.0
    size = 0.0
    for block, x in zip(problem.sets, point, strict=True):
        norm = float(np.linalg.norm(x))
        size += norm**2
        worst = max(worst, float(block.distance(x)) / max(norm, 1.0))
    for lmi in problem.lmis:
        inside = lmi.value(point)
        worst = max(worst, float(lmi.set.distance(inside)) / max(float(np.linalg.norm(inside)), 1.0))
    value = problem.apply(point)
    if not np.isfinite(value).all():
        return None
    violation = np.maximum(np.maximum(problem.lower - value, value - problem.upper), 0.0)
    scale = np.maximum(largest_bound(problem), problem.norms * math.sqrt(size))
    relative = np.divide(violation, scale, out=np.zeros_like(violation), where=scale > 0.0)
    return max(worst, float(np.max(relative, initial=0.0)))
