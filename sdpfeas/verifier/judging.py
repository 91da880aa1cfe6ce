"""Judge a claim by its sides: a verdict is granted where exactly one of them holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from sdpfeas.errors import LimitError
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.redundancy import independent_rows
from sdpfeas.verifier.cases import BY_ROUNDING, Case, PointCase
from sdpfeas.verifier.exact import contradiction, is_round, small_enough
from sdpfeas.verifier.outcome import Outcome
from sdpfeas.verifier.readings import in_other_words
from sdpfeas.verifier.results import Check
from sdpfeas.verifier.verdicts import Proof, Reading, Verdict

__all__ = ["judge"]


def judge(
    problem: FeasibilityProblem,
    cases: Iterable[Case[Any]],
    modes: Iterable[Proof],
    reading: Reading = Reading.STORED,
) -> Check:
    """Judge the sides of a claim, in one mode after the other, until exactly one holds."""
    cases = list(cases)
    undecided = Check(problem, Verdict.UNDECIDED, None, None, "", reading=reading)
    if not cases:
        return replace(undecided, reason="the claim holds neither a point nor a certificate")
    reasons: dict[str, None] = {}
    # Hostile claims overflow on purpose; every test refuses what is not finite.
    with np.errstate(all="ignore"):
        for mode in modes:
            outcomes = [case.check(mode, reading) for case in cases]
            granted = [_grant(case, mode, o) for case, o in zip(cases, outcomes, strict=True) if o.proven]
            if len(granted) > 1:
                return replace(undecided, reason="point and certificate both hold: too close to call")
            if mode is not Proof.RIGOROUS:
                granted = _refuted(problem, cases, granted, mode, reading) or granted
            elif not granted and any(_may_contradict(*both) for both in zip(cases, outcomes, strict=True)):
                granted = _contradicted(problem)
            if granted:
                check = replace(granted[0], reading=reading)
                return in_other_words(check, _points(cases)) if check.proof is Proof.EXACT else check
            reasons |= dict.fromkeys(outcome.reason for outcome in outcomes)
    return replace(undecided, reason="; ".join(reasons))


def _refuted(
    problem: FeasibilityProblem, cases: list[Case[Any]], granted: list[Check], mode: Proof, reading: Reading
) -> list[Check]:
    """Check of the contradiction between rows that a point which looks feasible leads to, if there is one."""
    if mode is Proof.EXACT:
        wanted = not granted and any(case.repair for case in cases)
    else:
        # A numeric verdict is no proof: no point may be granted where the rows are known to disagree.
        wanted = any(check.verdict is Verdict.FEASIBLE for check in granted)
        wanted = wanted and small_enough(problem) and (reading is Reading.WRITTEN or is_round(problem))
    if not wanted:
        return []
    found = (_contradicted_at(problem, point, reading) for point in _points(cases))
    return [check for check in found if check is not None][:1]


def _contradicted_at(problem: FeasibilityProblem, point: Point, reading: Reading) -> Check | None:
    """Check of rows that contradict each other, exactly, at a point that looks feasible; None without any."""
    try:
        found = contradiction(problem, point, reading)
    except (LimitError, np.linalg.LinAlgError):
        return None
    if not found.proven:
        return None
    check = Check(problem, Verdict.INFEASIBLE, Proof.EXACT, found.margin, found.reason, found.repairs)
    return replace(check, certificate=found.evidence, rational=found.rational, reading=reading)


def _may_contradict(case: Case[Any], outcome: Outcome) -> bool:
    """Whether a refused claim suggests that equality rows may contradict each other."""
    return case.repair and (outcome.dependent or case.verdict is Verdict.INFEASIBLE)


def _contradicted(problem: FeasibilityProblem) -> list[Check]:
    """Check of equality rows that contradict each other by more than rounding may have done to them."""
    try:
        found = independent_rows(problem).contradiction
    except LimitError:
        return []
    if found is None:
        return []
    margin = float(found.gap / found.size)
    with np.errstate(over="ignore"):
        y = np.array([float(v) for v in found.multipliers / max(map(abs, found.multipliers))])
    if not (margin > BY_ROUNDING or is_round(problem)):
        return []
    reason = "equality rows contradict each other: their combination, in fractions, asks for the impossible"
    check = Check(problem, Verdict.INFEASIBLE, Proof.EXACT, margin, reason)
    return [replace(check, certificate=y, rational=found.multipliers)]


def _points(cases: list[Case[Any]]) -> list[Point]:
    return [case.evidence for case in cases if isinstance(case, PointCase)]


def _grant(case: Case[Any], mode: Proof, outcome: Outcome) -> Check:
    evidence: dict[str, Any] = {case.kind: outcome.evidence, "rational": outcome.rational}
    found = Check(case.problem, case.verdict, mode, outcome.margin, outcome.reason, outcome.repairs)
    return replace(found, **evidence)
