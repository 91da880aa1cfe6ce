"""Judge a claim by its sides: a verdict is granted where exactly one of them holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.cases import Case
from sdpfeas.verifier.outcome import Outcome
from sdpfeas.verifier.results import Check
from sdpfeas.verifier.verdicts import Proof, Verdict

__all__ = ["judge"]


def judge(problem: FeasibilityProblem, cases: Iterable[Case[Any]], modes: Iterable[Proof]) -> Check:
    """Judge the sides of a claim, in one mode after the other, until exactly one holds."""
    cases = list(cases)
    undecided = Check(problem, Verdict.UNDECIDED, None, None, "")
    if not cases:
        return replace(undecided, reason="the claim holds neither a point nor a certificate")
    reasons: dict[str, None] = {}
    # Hostile claims overflow on purpose; every test refuses what is not finite.
    with np.errstate(all="ignore"):
        for mode in modes:
            outcomes = [case.check(mode) for case in cases]
            granted = [_grant(case, mode, o) for case, o in zip(cases, outcomes, strict=True) if o.proven]
            if len(granted) == 1:
                return granted[0]
            if granted:
                return replace(undecided, reason="point and certificate both hold: too close to call")
            reasons |= dict.fromkeys(outcome.reason for outcome in outcomes)
    return replace(undecided, reason="; ".join(reasons))


def _grant(case: Case[Any], mode: Proof, outcome: Outcome) -> Check:
    evidence: dict[str, Any] = {case.kind: outcome.evidence, "rational": outcome.rational}
    found = Check(case.problem, case.verdict, mode, outcome.margin, outcome.reason, outcome.repairs)
    return replace(found, **evidence)
