"""Find a smaller set of rows that still contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.verifier.results import Claim, Proof, Verdict
from sdpfeas.verifier.verifier import verify

if TYPE_CHECKING:
    from sdpfeas.verifier.results import Check

__all__ = ["prune_certificate"]


#: How many smaller certificates are tried at most; each costs a proof.
MOST_TRIALS = 500


def prune_certificate(check: Check) -> FloatArray:
    """Return a certificate with as few rows as dropping the lightest ones allows.

    Rows are dropped in halves, quarters and so on, lightest first, and at the end one by one until none can
    be spared (or the trials are used up); whatever is dropped, the rest is verified again with the same kind
    of proof.

    Parameters
    ----------
    check : Check
        A check with verdict INFEASIBLE.
    """
    assert check.certificate is not None
    problem, y = check.problem, np.array(check.certificate)
    size = max(int(np.count_nonzero(y)) // 2, 1)
    trials = 0
    while trials < MOST_TRIALS:
        order = [int(i) for i in np.argsort(np.abs(y) * problem.norms, kind="stable") if y[i] != 0.0]
        start, progress = 0, False
        while start < len(order) and trials < MOST_TRIALS:
            trials += 1
            smaller = _without(check, y, order[start : start + size])
            if smaller is None:
                start += size
            else:
                y, progress = smaller, True
                order = [i for i in order if y[i] != 0.0]
        if size == 1 and not progress:
            break
        size = max(size // 2, 1)
    return y


def _without(check: Check, y: FloatArray, rows: list[int]) -> FloatArray | None:
    """Return a certificate with fewer rows than ``y`` after dropping some, if that can be proved."""
    trial = np.array(y)
    trial[rows] = 0.0
    found = verify(
        check.problem,
        Claim(certificate=trial),
        rigorous=check.proof is not Proof.NUMERIC,
        exact=check.proof is Proof.EXACT,
    )
    kept = found.certificate
    if found.verdict is not Verdict.INFEASIBLE or kept is None:
        return None
    # Repairs may bring rows back; only a proof with fewer rows is progress.
    return np.array(kept) if np.count_nonzero(kept) < np.count_nonzero(y) else None
