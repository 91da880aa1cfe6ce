"""The published feasibility solver, with a stricter reading of "L-BFGS-B has converged".

Algorithm 2 of the paper calls a problem feasible when L-BFGS-B converges before the screen for infeasibility
fires. L-BFGS-B has two criteria. A small projected gradient says that the rows hold at ``X(y)``, for it is
what they miss. A small change of the dual function says nothing about the rows, and it comes first: with
both at their defaults, values of ``delta`` up to some per cent too high are called feasible. So only the
gradient counts here, at a tenth of its default tolerance, and a run that stalls before is started afresh
from where it is. The dual of a feasible problem converges; one that does not, within the iterations allowed
or because no further progress is possible, is taken for infeasible.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sdpfeas.backends.claimed import claimed_verdict
from sdpfeas.backends.dual.lbfgs import DualLbfgs
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.results import Claim, Stop, Verdict

__all__ = ["GRADIENT", "ITERATIONS", "PublishedLbfgs", "gradient_verdict"]

#: A tenth of L-BFGS-B's own default for the projected gradient: at the default itself two of 30 splits of
#: Sonar end 0.3 and 0.6 % too high.
GRADIENT = 1e-6

#: A dual that has not converged by then is taken for unbounded.
ITERATIONS = 5000

#: What L-BFGS-B says when the gradient is small; the separators differ between versions of scipy.
SMALL_GRADIENT = re.compile(r"NORM.OF.PROJECTED.GRADIENT")

#: Ends of a run that neither criterion brought about, but the dual itself.
DIVERGED = (Stop.FINISHED, Stop.STALLED, Stop.ITERATION_LIMIT)


class PublishedLbfgs(DualLbfgs):
    """The lifted dual by L-BFGS-B; a problem counts as feasible if the gradient got small."""

    name = "published-lbfgs"

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Solve, and say outright what the end of the run is taken for."""
        claim = super().solve(problem, inquiry)
        said = gradient_verdict(claim)
        verdict = Verdict.UNDECIDED if said is None else said
        return replace(claim, info={**claim.info, "claimed": verdict.value})


def gradient_verdict(claim: Claim) -> Verdict | None:
    """What a run of the lifted dual is taken for; None where it was cut short.

    Parameters
    ----------
    claim : Claim
        What the backend handed in.
    """
    if claimed_verdict(claim) is Verdict.INFEASIBLE:
        return Verdict.INFEASIBLE
    if claim.stop is Stop.FINISHED and SMALL_GRADIENT.search(claim.raw_status):
        return Verdict.FEASIBLE
    return Verdict.INFEASIBLE if claim.stop in DIVERGED else None
