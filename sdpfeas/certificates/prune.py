"""Find a smaller set of rows that still contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sdpfeas.certificates.verifier import verify
from sdpfeas.linalg import FloatArray
from sdpfeas.result import Claim, Proof, Verdict

if TYPE_CHECKING:
    from sdpfeas.result import Check

__all__ = ["prune_certificate"]


def prune_certificate(check: Check) -> FloatArray:
    """Return a certificate with as few rows as dropping the lightest ones allows.

    Rows are dropped in halves, lightest first, and one by one at the end; whatever is dropped, the rest
    is verified again with the same kind of proof.

    Parameters
    ----------
    check : Check
        A check with verdict INFEASIBLE.
    """
    assert check.certificate is not None
    problem, y = check.problem, np.array(check.certificate)
    order = [int(i) for i in np.argsort(np.abs(y) * problem.norms, kind="stable") if y[i] != 0.0]
    size = max(len(order) // 2, 1)
    while order:
        start = 0
        while start < len(order):
            trial = np.array(y)
            trial[order[start : start + size]] = 0.0
            found = verify(
                problem,
                Claim(certificate=trial),
                rigorous=check.proof is not Proof.NUMERIC,
                exact=check.proof is Proof.EXACT,
            )
            # Repairs may bring rows back; only a proof with fewer rows is progress.
            kept = found.certificate
            if (
                found.verdict is Verdict.INFEASIBLE
                and kept is not None
                and np.count_nonzero(kept) < np.count_nonzero(y)
            ):
                y = np.array(kept)
                order = [i for i in order if y[i] != 0.0]
            else:
                start += size
        if size == 1:
            break
        size //= 2
    return y
