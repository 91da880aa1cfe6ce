"""Operator splitting: the sets and bounds on one side, the rows on the other.

A problem asks for a member of ``K × [lower, upper]`` on the graph ``{(X, A(X))}``. Both are easy to project
onto, one block and one row at a time or by one factorised linear system, and over-relaxed ADMM
(Douglas–Rachford splitting) finds a common member. Where there is none its iterates drift by a constant
displacement, and that displacement is a certificate.

What it finds lies on a boundary, where little can be proved. So every problem is asked twice, by a margin:
*tightened*, with sets and bounds a little smaller, so that a solution lies inside the original ones; and
*widened*, with cones a little larger, so that a certificate is strict. Both runs go on side by side until
the verifier's own condition holds for either; when neither has more to give, the margin shrinks.

Warm starts are used (evidence that still holds ends the solve at once), progress is reported at every
screen, and nothing is random.

``space`` holds points as vectors in units of their own, ``graph`` the projection onto the rows,
``splitting`` one run, ``evidence`` what makes claims of its iterates, ``screens`` when these are good
enough, and ``search`` the two runs side by side.
"""

from __future__ import annotations

from sdpfeas.backends.admm.options import AdmmOptions
from sdpfeas.backends.admm.search import Search
from sdpfeas.backends.contract import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.results import Claim

__all__ = ["Admm", "AdmmOptions"]


class Admm(FeasibilityBackend):
    """Operator splitting on all sets, with proofs on the way."""

    name = "admm"
    sets = ALL_SETS
    warm_starts = True
    calls_back = True
    Options = AdmmOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a point or a certificate; see :meth:`FeasibilityBackend.solve`."""
        return Search(problem, self.options, inquiry).run()
