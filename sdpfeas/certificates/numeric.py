"""Numeric mode: recomputed, scale-free residuals against named tolerances.

On bounded and on vector blocks small residuals mean that a small change of the data makes the claim
exact, and that is what a numeric verdict says. On an unbounded PSD block they mean nothing by themselves:
weakly infeasible problems have points with residuals as small as one likes, and weakly feasible ones have
such certificates. There the claim must also lie in the interior by more than rounding can fake, which is
the existence argument of the rigorous mode; only rows that depend on others are then left to tolerances.
"""

from __future__ import annotations

import numpy as np

from sdpfeas.certificates.equality import independent_free_columns, independent_rows
from sdpfeas.certificates.rigorous import Outcome, prove_certificate, prove_point, refuse
from sdpfeas.linalg import FloatArray
from sdpfeas.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.sets import PSD, Free, SpectralBox
from sdpfeas.tolerances import Tolerances

__all__ = ["check_certificate", "check_point"]


def check_point(problem: FeasibilityProblem, point: Point, tolerances: Tolerances) -> Outcome:
    """Check the residuals of a point, and where there are unbounded PSD blocks its depth.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem, in its own units.
    point : tuple of ndarray
        One array per set.
    tolerances : Tolerances
        ``residual``, ``backward`` and ``membership`` are used.
    """
    if not all(np.isfinite(x).all() for x in point):
        return refuse("the point holds NaN or infinity")
    value, terms, reach = np.zeros(problem.m), np.zeros(problem.m), np.zeros(problem.m)
    for b, (block, rows, x) in enumerate(zip(problem.sets, problem.rows, point, strict=True)):
        size = float(np.linalg.norm(x))
        apart = block.distance(x)
        if isinstance(block, SpectralBox):
            size = max(size, abs(block.lower), abs(block.upper))
        if apart > tolerances.membership * size:
            return refuse(
                f"block {problem.block_name(b)} is outside its set by {apart / size:.3g} of its size"
            )
        if rows is not None:
            part = rows.apply(x)
            value += part
            terms += np.abs(part)
            reach += problem.block_norms[b] * size
    if not (np.isfinite(value).all() and np.isfinite(reach).all()):
        return refuse("the row values overflow")
    size_of_terms = largest_bound(problem) + terms
    violation = np.maximum(np.maximum(problem.lower - value, value - problem.upper), 0.0)
    bad = violation > tolerances.residual * size_of_terms + tolerances.backward * reach
    if bad.any():
        ratio = np.where(bad, violation / np.where(bad, size_of_terms, 1.0), 0.0)
        i = int(np.argmax(ratio))
        return refuse(
            f"row {problem.row_name(i)} is violated by {ratio[i]:.3g} of the size of its terms "
            f"(allowed: {tolerances.residual:g})"
        )
    if _has_unbounded_psd(problem):
        outcome = prove_point(problem, point, tolerances)
        if not outcome.proven:
            keep = independent_rows(problem)
            if keep.size < problem.m:
                outcome = prove_point(problem.select_rows(keep), point, tolerances)
        if not outcome.proven:
            return refuse(
                "numerically feasible, no interior found: the residuals are within the tolerances, but on "
                f"an unbounded PSD block that is no evidence ({outcome.reason})"
            )
    left = np.minimum(value - problem.lower, problem.upper - value)[~problem.equality]
    scale = size_of_terms[~problem.equality]
    relative = np.divide(left, scale, out=np.ones_like(left), where=(scale > 0.0) & np.isfinite(left))
    margin = float(np.min(relative, initial=1.0))
    return Outcome(True, margin, "every set and every row holds within the tolerances")


def check_certificate(problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances) -> Outcome:
    """Check the two sides of a certificate, and where there are unbounded PSD blocks its depth.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem, in its own units.
    y : ndarray
        One multiplier per row.
    tolerances : Tolerances
        ``membership`` and ``margin`` are used.
    """
    if not np.isfinite(y).all():
        return refuse("the certificate holds NaN or infinity")
    if not y.any():
        return refuse("the certificate is zero")
    y = y / float(np.max(np.abs(y)))
    wrong = sign_violation(problem, y)
    if wrong.any():
        name = problem.row_name(int(np.argmax(wrong)))
        return refuse(f"the multiplier of row {name} has the sign its missing bound forbids")
    if _has_unbounded_psd(problem):
        outcome = prove_certificate(problem, y)
        if not outcome.proven:
            reduced = independent_free_columns(problem)
            if reduced is not None and _free_residual(problem, y) <= tolerances.membership:
                outcome = prove_certificate(reduced, y)
        return outcome
    terms = problem.beta_terms(y)
    gap, scale = float(np.sum(terms)), float(np.sum(np.abs(terms)))
    for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True)):
        if rows is None:
            continue
        g = rows.adjoint(y)
        if not np.isfinite(g).all():
            return refuse("A*y overflows")
        if isinstance(block, SpectralBox):
            lam = block.spectrum(g)
            gap -= block.support_spectrum(lam)
            scale += block.nuclear_radius * float(np.max(np.abs(lam)))
            continue
        excess = float(np.max(np.abs(g) if isinstance(block, Free) else g))
        size = float(np.abs(y) @ problem.block_norms[b])
        if excess > tolerances.membership * size:
            return refuse(
                f"A*y is {'not zero' if isinstance(block, Free) else 'positive'} on block "
                f"{problem.block_name(b)} by {excess / size:.3g} of its size"
            )
    if not gap > tolerances.margin * scale:
        return refuse(f"the two sides of the certificate differ by {gap:.3g}, within the tolerance")
    return Outcome(
        True,
        min(gap / scale, 1.0) if scale > 0.0 else 1.0,
        "the rows contradict each other within the tolerances",
    )


def _has_unbounded_psd(problem: FeasibilityProblem) -> bool:
    # A PSD block of side one is a non-negative number: no weak infeasibility there.
    return any(
        isinstance(block, PSD) and block.n > 1 and rows is not None
        for block, rows in zip(problem.sets, problem.rows, strict=True)
    )


def _free_residual(problem: FeasibilityProblem, y: FloatArray) -> float:
    """Largest entry of ``A*y`` on the Free blocks, relative to its terms."""
    worst = 0.0
    for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True)):
        if isinstance(block, Free) and rows is not None:
            size = float(np.abs(y) @ problem.block_norms[b])
            worst = max(worst, float(np.max(np.abs(rows.adjoint(y)))) / size if size > 0.0 else 0.0)
    return worst
