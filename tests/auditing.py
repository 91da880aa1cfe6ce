"""Answers for the auditor, made of what the verifier granted."""

from __future__ import annotations

import sdpfeas as sf
from sdpfeas.certifier.audit import Audit, audit
from sdpfeas.io.result_files import SavedResult


def saved(check: sf.Check) -> SavedResult:
    """What a file would hold of a check."""
    return SavedResult(
        problem_hash=check.problem.content_hash,
        verdict=check.verdict.value,
        proof=None if check.proof is None else check.proof.value,
        point=check.point,
        certificate=check.certificate,
        rational=check.rational,
        chain=check.chain,
        reading=check.reading.value,
    )


def audited(check: sf.Check) -> Audit:
    """What the auditor says of a check."""
    return audit(check.problem, saved(check), check.reading.value)
