"""``verify`` a claim in the mode asked for, or ``decide``: in the best mode that grants a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sdpfeas.deadline import Deadline
from sdpfeas.errors import ClaimError
from sdpfeas.numerics.effort import limited
from sdpfeas.numerics.float_state import not_ieee
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.cases import Case, CertificateCase, PointCase, proof_modes
from sdpfeas.verifier.chains.case import ChainCase
from sdpfeas.verifier.judging import judge
from sdpfeas.verifier.results import Check, Claim, Result
from sdpfeas.verifier.tolerances import Tolerances
from sdpfeas.verifier.verdicts import Proof, Reading, Verdict, as_reading

__all__ = ["decide", "malformed", "verify"]


def verify(
    problem: FeasibilityProblem,
    claim: Claim | Result | Check | None = None,
    *,
    rigorous: bool = False,
    exact: bool = False,
    repair: bool = True,
    tolerances: Tolerances | None = None,
    time_limit: float | None = None,
    reading: str = "stored",
) -> Check:
    """Check a claim against the original data of a problem.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem, unscaled; ``sdpfeas.verify`` also takes a ``cvxpy.Problem``.
    claim : Claim, Result or Check
        A point, a certificate, a chain, or several of these. Of a cvxpy model it may be left out: then the
        values of its variables and the dual values of its constraints are verified, whoever set them.
    rigorous : bool
        Accept only a proof valid in floating-point arithmetic or, on small problems of round numbers, one in
        rational arithmetic. Otherwise recomputed residuals within the tolerances are enough.
    exact : bool
        Accept only a proof in rational arithmetic, of the numbers to the last bit; for small problems.
    repair : bool
        Try to repair a claim that nearly holds; what was done is said in ``repairs``.
    tolerances : Tolerances, optional
        The tolerances to use.
    time_limit : float, optional
        Seconds. What is estimated to take longer is not begun, and the reason says so.
    reading : {"stored", "written"}
        Whether the numbers of the problem stand for themselves, or for the decimals and fractions they were
        rounded from; see ``docs/verdicts.md``. Proofs about the latter are exact, for small problems.

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
        raise ClaimError(
            f"verify needs a Claim, a Result or a Check besides the problem, got {type(claim).__name__}"
        )
    if tolerances is not None and not isinstance(tolerances, Tolerances):
        raise ClaimError(f"tolerances must be a Tolerances, got {type(tolerances).__name__}")
    limits = Tolerances() if tolerances is None else tolerances
    read = as_reading(reading)
    if wrong := not_ieee():
        return Check(problem, Verdict.UNDECIDED, None, None, wrong)
    limit = None if time_limit is None else Deadline(time_limit)
    chained = _chained(problem, claim, repair, limits, read)
    with limited(limit), few_threads(problem.sides, problem.m):
        modes = [Proof.EXACT] if exact else proof_modes(problem, read) if rigorous else [Proof.NUMERIC]
        first = None if chained is None else chained.check(exact=exact)
        if first is not None and first.verdict is not Verdict.UNDECIDED:
            return first
        cases = _cases(problem, claim, repair, limits)
        return _both(first, judge(problem, cases, modes, read)) if cases or first is None else first


def decide(
    problem: FeasibilityProblem,
    claim: Claim | Result | Check,
    *,
    rigorous: bool = False,
    reading: str = "stored",
) -> Check:
    """Verify a claim: the rigorous proof first, a numeric verdict only if that is allowed.

    A claim of the wrong shape is worth nothing, like any other wrong claim.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    claim : Claim, Result or Check
        What the backend handed in.
    rigorous : bool
        Refuse the numeric verdict.
    reading : {"stored", "written"}
        As for :func:`verify`.
    """
    read = as_reading(reading)
    if wrong := not_ieee():
        return Check(problem, Verdict.UNDECIDED, None, None, wrong)
    try:
        cases = _cases(problem, claim, True, Tolerances())
        chained = _chained(problem, claim, True, Tolerances(), read)
    except ClaimError as error:
        return malformed(problem, error)
    with few_threads(problem.sides, problem.m):
        check = None if chained is None else chained.check()
        if check is None or (cases and check.verdict is Verdict.UNDECIDED):
            check = _both(check, judge(problem, cases, proof_modes(problem, read), read))
        if check.verdict is Verdict.UNDECIDED and not rigorous:
            numeric = judge(problem, cases, [Proof.NUMERIC], read)
            if numeric.verdict is not Verdict.UNDECIDED:
                return numeric
    return check


def malformed(problem: FeasibilityProblem, error: ClaimError) -> Check:
    """Return the check of a claim that does not even have the right shape."""
    reason = f"the backend handed in a malformed claim: {error}"
    return Check(problem, Verdict.UNDECIDED, None, None, reason)


def _chained(
    problem: FeasibilityProblem,
    claim: Claim | Result | Check,
    repair: bool,
    tolerances: Tolerances,
    reading: Reading,
) -> ChainCase | None:
    """Return the facial reduction certificate of a claim, if it holds one."""
    if claim.chain is None:
        return None
    return ChainCase(problem, claim.chain, reading, claim.point, repair, tolerances)


def _both(undecided: Check | None, other: Check) -> Check:
    """Return the check of the other evidence, with the reason why the chain proved nothing."""
    if undecided is None or other.verdict is not Verdict.UNDECIDED:
        return other
    return replace(other, reason=f"{undecided.reason}; {other.reason}")


def _cases(
    problem: FeasibilityProblem, claim: Claim | Result | Check, repair: bool, tolerances: Tolerances
) -> list[Case[Any]]:
    cases: list[Case[Any]] = []
    with np.errstate(all="ignore"):
        if claim.point is not None:
            cases.append(PointCase(problem, claim.point, repair, tolerances))
        if claim.certificate is not None:
            cases.append(CertificateCase(problem, claim.certificate, repair, tolerances))
    return cases
