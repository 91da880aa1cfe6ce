"""``verify``: check a claim as it is, then repaired, in the mode asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np

from sdpfeas.certificates.exact import exact_certificate, exact_point, small_enough
from sdpfeas.certificates.numeric import check_certificate, check_point
from sdpfeas.certificates.repair import repaired_certificates, repaired_points
from sdpfeas.certificates.rigorous import Outcome, prove_certificate, prove_point, refuse
from sdpfeas.errors import ClaimError
from sdpfeas.linalg import FloatArray
from sdpfeas.problem import FeasibilityProblem, Point
from sdpfeas.result import Check, Claim, Proof, Result, Verdict
from sdpfeas.tolerances import Tolerances

__all__ = ["verify"]

Evidence = TypeVar("Evidence")


def verify(
    problem: FeasibilityProblem,
    claim: Claim | Result | Check,
    *,
    rigorous: bool = False,
    exact: bool = False,
    repair: bool = True,
    tolerances: Tolerances | None = None,
) -> Check:
    """Check a claim against the original data of a problem.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem, unscaled.
    claim : Claim, Result or Check
        A point, a certificate, or both.
    rigorous : bool
        Accept only a proof valid in floating-point arithmetic or, on small problems, one in rational
        arithmetic. Otherwise recomputed residuals within the tolerances are enough.
    exact : bool
        Accept only a proof in rational arithmetic; for small problems.
    repair : bool
        Try to repair a claim that nearly holds; what was done is said in ``repairs``.
    tolerances : Tolerances, optional
        The tolerances to use.

    Returns
    -------
    Check
        The verdict with its proof and margin; UNDECIDED, with the reason, when nothing is proved.

    Raises
    ------
    ClaimError
        If the claim does not have the shape the problem asks for. A wrong claim raises nothing.
    """
    if not isinstance(problem, FeasibilityProblem):
        raise ClaimError(f"verify needs a FeasibilityProblem, got {type(problem).__name__}")
    if not isinstance(claim, (Claim, Result, Check)):
        raise ClaimError(f"verify needs a Claim, a Result or a Check, got {type(claim).__name__}")
    limits = Tolerances() if tolerances is None else tolerances
    point = None if claim.point is None else problem.point(claim.point)
    y = None if claim.certificate is None else problem.multipliers(claim.certificate)
    undecided = Check(problem, Verdict.UNDECIDED, None, None, "")
    if point is None and y is None:
        return replace(undecided, reason="the claim holds neither a point nor a certificate")
    reasons: dict[str, None] = {}
    # Hostile claims overflow on purpose; every test below refuses what is not finite.
    with np.errstate(all="ignore"):
        for mode in _modes(problem, rigorous=rigorous, exact=exact):
            checks = []
            if point is not None:
                checks.append(_check_point(problem, point, mode, repair, limits))
            if y is not None:
                checks.append(_check_certificate(problem, y, mode, repair, limits))
            granted = [check for check in checks if check.verdict is not Verdict.UNDECIDED]
            if len(granted) == 1:
                return granted[0]
            if granted:
                return replace(undecided, reason="point and certificate both hold: too close to call")
            reasons |= dict.fromkeys(check.reason for check in checks)
    return replace(undecided, reason="; ".join(reasons))


def _modes(problem: FeasibilityProblem, *, rigorous: bool, exact: bool) -> list[Proof]:
    if exact:
        return [Proof.EXACT]
    if rigorous:
        return [Proof.RIGOROUS, Proof.EXACT] if small_enough(problem) else [Proof.RIGOROUS]
    return [Proof.NUMERIC]


def _check_point(
    problem: FeasibilityProblem, point: Point, mode: Proof, repair: bool, tolerances: Tolerances
) -> Check:
    def judge(candidate: Point) -> Outcome:
        if mode is Proof.EXACT:
            return exact_point(problem, candidate, repair=repair)
        if mode is Proof.RIGOROUS:
            return prove_point(problem, candidate, tolerances)
        return check_point(problem, candidate, tolerances)

    repaired = repaired_points(problem, point) if repair else iter(())
    outcome, evidence, repairs = _first_proven(point, repaired, judge)
    if not outcome.proven:
        return Check(problem, Verdict.UNDECIDED, None, None, f"point: {outcome.reason}")
    return Check(problem, Verdict.FEASIBLE, mode, outcome.margin, outcome.reason, repairs, point=evidence)


def _check_certificate(
    problem: FeasibilityProblem, y: FloatArray, mode: Proof, repair: bool, tolerances: Tolerances
) -> Check:
    def judge(candidate: FloatArray) -> Outcome:
        if mode is Proof.EXACT:
            return exact_certificate(problem, candidate, repair=repair)
        if mode is Proof.RIGOROUS:
            return prove_certificate(problem, candidate)
        return check_certificate(problem, candidate, tolerances)

    repaired = repaired_certificates(problem, y, tolerances) if repair else iter(())
    outcome, evidence, repairs = _first_proven(y, repaired, judge)
    if not outcome.proven:
        return Check(problem, Verdict.UNDECIDED, None, None, f"certificate: {outcome.reason}")
    return Check(
        problem,
        Verdict.INFEASIBLE,
        mode,
        outcome.margin,
        outcome.reason,
        repairs,
        certificate=evidence,
    )


def _first_proven(
    claimed: Evidence,
    repaired: Iterator[tuple[Evidence, tuple[str, ...]]],
    judge: Callable[[Evidence], Outcome],
) -> tuple[Outcome, Evidence, tuple[str, ...]]:
    """Judge the claim as it is, then each repair, until one holds; the first refusal if none does."""
    try:
        first = judge(claimed)
        if first.proven:
            return first, claimed, ()
        for evidence, repairs in repaired:
            outcome = judge(evidence)
            if outcome.proven:
                return outcome, evidence, repairs
    except np.linalg.LinAlgError as error:
        return refuse(f"an eigendecomposition failed: {error}"), claimed, ()
    return first, claimed, ()
