"""Find a smaller set of rows that still contradict each other."""

from __future__ import annotations

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.cases import CertificateCase, proof_modes
from sdpfeas.verifier.conflicts import shares
from sdpfeas.verifier.tolerances import Tolerances
from sdpfeas.verifier.verdicts import Proof

__all__ = ["prune_certificate"]


#: How many smaller certificates are tried at most; each costs a proof.
MOST_TRIALS = 500


def prune_certificate(problem: FeasibilityProblem, y: FloatArray, proof: Proof | None) -> FloatArray:
    """Return a certificate with as few rows and LMIs as dropping the lightest ones allows.

    They are dropped in halves, quarters and so on, lightest first, and at the end one by one until none can
    be spared (or the trials are used up); whatever is dropped, the rest is proved again, in the same way.
    """
    modes: list[Proof] = proof_modes(problem) if proof is Proof.RIGOROUS else [proof or Proof.NUMERIC]
    size = max(int(np.count_nonzero(shares(problem, y))) // 2, 1)
    trials = 0
    with np.errstate(all="ignore"), few_threads(problem.sides, problem.m):
        while trials < MOST_TRIALS:
            weights = shares(problem, y)
            order = [int(i) for i in np.argsort(weights, kind="stable") if weights[i] != 0.0]
            start, progress = 0, False
            while start < len(order) and trials < MOST_TRIALS:
                trials += 1
                smaller = _without(problem, y, order[start : start + size], modes)
                if smaller is None:
                    start += size
                else:
                    y, progress = smaller, True
                    weights = shares(problem, y)
                    order = [i for i in order if weights[i] != 0.0]
            if size == 1 and not progress:
                break
            size = max(size // 2, 1)
    return y


def _without(
    problem: FeasibilityProblem, y: FloatArray, dropped: list[int], modes: list[Proof]
) -> FloatArray | None:
    """Return a certificate with fewer rows and LMIs than ``y`` after dropping some, if that can be proved."""
    trial = np.array(y)
    rows, own = problem.split(trial)
    for i in dropped:
        if i < problem.m:
            rows[i] = 0.0
        else:
            own[i - problem.m][...] = 0.0
    case = CertificateCase(problem, trial, True, Tolerances())
    kept = next((found.evidence for mode in modes if (found := case.check(mode)).proven), None)
    # Repairs may bring rows back; only a proof with fewer rows is progress.
    fewer = kept is not None and np.count_nonzero(shares(problem, kept)) < np.count_nonzero(
        shares(problem, y)
    )
    return kept if fewer else None
