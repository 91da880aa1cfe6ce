"""Audit a stored answer: certify it anew, from the stored numbers alone, and check the evidence.

The certifier may err. The finding rests on ``sdpcheck``, which shares no code with the verifier, and on the
document of the problem (:mod:`sdpfeas.certifier.documents`). :func:`audit` is the entry point.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from sdpfeas.certifier.certify import Case, Evidence, certify, contradiction, stated_problem
from sdpfeas.errors import NotProved
from sdpfeas.numerics.exact_arithmetic import as_reading
from sdpfeas.numerics.floating_point_environment import require_ieee
from sdpfeas.problem.problem import FeasibilityProblem

__all__ = ["Audit", "Finding", "NotProved", "audit", "prove"]


class Finding(StrEnum):
    """Outcome of an audit: proved again; no proof was claimed; not proved; the opposite is proved."""

    CONFIRMED = "confirmed"
    NUMERIC = "numeric"
    NOT_CONFIRMED = "not confirmed"
    REFUTED = "refuted"


@dataclass(frozen=True)
class Audit:
    """An audited answer: finding, verdict that the checker accepts, reason, reading and exact evidence."""

    finding: Finding
    proved: str | None
    reason: str
    reading: str
    evidence: Evidence | None = None


def audit(problem: FeasibilityProblem, answer: Any, reading: str = "stored") -> Audit:
    """Prove a stored answer, or its opposite, for the given reading of the data.

    The reading is part of the question: an answer about other numbers is not confirmed.
    """
    require_ieee()
    problem = stated_problem(problem, answer)
    finding, proved, found = _audit(problem, answer, str(as_reading(reading)))
    about = "" if reading == "stored" else f", about the numbers as {reading}"
    reason, evidence = (found, None) if isinstance(found, str) else (found.statement, found)
    return Audit(finding, proved, reason + about, reading, evidence)


def _audit(
    problem: FeasibilityProblem, answer: Any, reading: str
) -> tuple[Finding, str | None, Evidence | str]:
    """Return the finding, the proved verdict, and the evidence for it or the reason why there is none."""
    evidence: dict[str, Any] = {"feasible": answer.point, "infeasible": answer.certificate}
    if answer.verdict not in evidence:
        return Finding.NOT_CONFIRMED, None, "the answer claims neither feasible nor infeasible"
    if answer.reading != reading:
        note = f"the answer is about the numbers as {answer.reading}, and was asked about those as {reading}"
        return Finding.NOT_CONFIRMED, None, note
    # A facial reduction certificate is a proof, whatever the answer claims to be.
    claimed = answer.proof in ("rigorous", "exact") or answer.chain is not None
    try:
        made = certify(answer, problem)
        return Finding.CONFIRMED if claimed else Finding.NUMERIC, answer.verdict, made
    except NotProved as missing:
        reason = str(missing)
    (opposite,) = {"feasible", "infeasible"} - {answer.verdict}
    for other in (evidence[opposite], None):
        with suppress(NotProved):
            return Finding.REFUTED, opposite, prove(problem, opposite, other, reading)
    return Finding.NOT_CONFIRMED if claimed else Finding.NUMERIC, None, reason


def prove(problem: FeasibilityProblem, verdict: str, evidence: Any, reading: str = "stored") -> Evidence:
    """Prove a verdict and return the evidence that the checker accepts, or raise NotProved.

    Without evidence, FEASIBLE is attempted at the centres of the sets and INFEASIBLE by inconsistent equality
    rows.
    """
    if verdict == "feasible" and evidence is None:
        evidence = [np.eye(block.n) if block.matrix else np.ones(block.n) for block in problem.sets]
    case = Case(problem, reading)
    return contradiction(case) if evidence is None else case.prove(verdict, evidence)
