"""What a backend's own words claim, before anyone checked them.

Studies count how often such claims are wrong, and the search as published moves on them.
"""

from __future__ import annotations

import math
import re

from sdpfeas.verifier.results import Claim, Stop, Verdict

__all__ = ["claimed_verdict"]

#: Reasons to stop that come without an answer.
NO_CLAIM = (Stop.ERROR, Stop.UNSUPPORTED, Stop.TIME_LIMIT, Stop.ITERATION_LIMIT)

#: Words that say nothing either way, whatever else stands beside them.
NO_ANSWER = re.compile(
    r"limit|max[_ ]?iter|max_?time|unknown|undecided|error|stall|no further progress|numerical|insufficient|"
    r"infeasible[_ ]or[_ ]unbounded|killed|failed|interrupt",
    re.IGNORECASE,
)
NEGATIVE = re.compile(r"infeasib|unbounded|certificate found", re.IGNORECASE)
#: Words that need no margin beside them; the last margin may well be that of another point.
FOUND = re.compile(r"point found", re.IGNORECASE)
POSITIVE = re.compile(r"optimal|solved|feasible|success|converge", re.IGNORECASE)


def claimed_verdict(claim: Claim) -> Verdict | None:
    """Read the verdict a backend claims; None where it claims none.

    A backend may say it outright in ``info["claimed"]``. Otherwise its status word is read. One that
    maximises a margin is "solved" either way: there the sign of ``info["margin"]`` is the claim.

    Parameters
    ----------
    claim : Claim
        What the backend handed in.
    """
    said = claim.info.get("claimed")
    if isinstance(said, str) and said in set(Verdict):
        return None if said == Verdict.UNDECIDED else Verdict(said)
    status = claim.raw_status
    if claim.stop in NO_CLAIM or NO_ANSWER.search(status):
        return None
    if NEGATIVE.search(status):
        return Verdict.INFEASIBLE
    if FOUND.search(status):
        return Verdict.FEASIBLE
    margin = claim.info.get("margin")
    if isinstance(margin, (int, float)) and math.isfinite(margin) and margin != 0.0:
        return Verdict.FEASIBLE if margin > 0.0 else Verdict.INFEASIBLE
    if POSITIVE.search(status):
        return Verdict.FEASIBLE
    if claim.stop is Stop.FINISHED and (claim.point is None) != (claim.certificate is None):
        return Verdict.INFEASIBLE if claim.point is None else Verdict.FEASIBLE
    return None
