"""``facial``: looks for the smallest face that holds all points, and asks another backend what is there.

Where a chain of multipliers leads to a contradiction, that is the answer. No warm start and no callback.
"""

from __future__ import annotations

from dataclasses import dataclass

from sdpfeas.backends.asking import ask
from sdpfeas.backends.contract import FeasibilityBackend
from sdpfeas.backends.facial.search import Found, search
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.registry import find_solver
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.faces import FaceReduction, NotReduced, has_faces
from sdpfeas.problem.reductions.integral import readings
from sdpfeas.problem.sets import PSD, Free, Nonneg, SpectralBox
from sdpfeas.verifier.results import Claim, Stop, Verdict

__all__ = ["Facial", "FacialOptions"]

#: Numbers in the rows beyond which they are not written out in integers.
LARGEST = 2_000_000


@dataclass(frozen=True)
class FacialOptions:
    """Options of ``facial``.

    Attributes
    ----------
    sieve : bool
        Look at single rows only, which is quick.
    whole : bool
        Ask these backends about the problem itself where no smaller face is found.
    ask : str
        Backends to ask about the problem on the face, in this order, separated by commas.
    """

    sieve: bool = False
    whole: bool = True
    ask: str = "spectral-ipm,clarabel"


class Facial(FeasibilityBackend):
    """Facial reduction: proves weak infeasibility, and feasibility on a face, by chains of multipliers."""

    name = "facial"
    sets = frozenset({PSD, Nonneg, Free, SpectralBox})
    Options = FacialOptions

    def accepts(self, problem: FeasibilityProblem) -> tuple[bool, str]:
        """Whether the problem is small enough to be written out in integers."""
        fine, why = super().accepts(problem)
        if fine and not self.takes(problem):
            return False, "too many numbers, or other cones, to look for faces of"
        return fine, why

    @staticmethod
    def takes(problem: FeasibilityProblem) -> bool:
        """Whether chains are about such a problem, and it is small enough to be written out in integers."""
        numbers = sum(rows.entries for rows in problem.rows if rows is not None)
        return has_faces(problem) and numbers <= LARGEST

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a chain, then for a point where it leads; see :class:`FeasibilityBackend`."""
        claim = Claim(raw_status="no smaller face found", stop=Stop.STALLED)
        for rows in readings(problem):
            if inquiry.deadline.expired:
                return Claim(raw_status=claim.raw_status, stop=Stop.TIME_LIMIT)
            found = search(rows, inquiry.deadline, deep=not self.options.sieve)
            claim = self._after(problem, found, inquiry)
            if inquiry.over:
                break
        return claim

    def _after(self, problem: FeasibilityProblem, found: Found, inquiry: Inquiry) -> Claim:
        """Answer the question that a chain leaves."""
        if found.contradiction:
            inquiry.offer(chain=found.chain)
            return Claim(chain=found.chain, raw_status=f"infeasible: {found.told}")
        if not len(found.chain):
            if not self.options.whole:
                return Claim(raw_status=found.told, stop=Stop.STALLED)
            return self._whole(problem, found, inquiry)
        try:
            reduction = found.faces.reduction
        except NotReduced as error:
            return Claim(chain=found.chain, raw_status=f"{found.told}, but {error}", stop=Stop.NUMERICAL)
        if reduction is None:
            zero = found.faces.point(())
            inquiry.offer(zero, chain=found.chain)
            return Claim(point=zero, chain=found.chain, raw_status=f"only zero is left: {found.told}")
        return self._on_face(reduction, found, inquiry)

    def _whole(self, problem: FeasibilityProblem, found: Found, inquiry: Inquiry) -> Claim:
        claim = Claim(raw_status=found.told, stop=Stop.STALLED)
        for name in self._names():
            claim = ask(find_solver(name).make(), problem, inquiry)
            if inquiry.offer(claim.point, claim.certificate):
                break
        return claim

    def _on_face(self, reduction: FaceReduction, found: Found, inquiry: Inquiry) -> Claim:
        smaller = reduction.problem
        claim = Claim(chain=found.chain, raw_status=found.told, stop=Stop.STALLED)
        for name in self._names():
            # An inquiry of its own: only a point on the face is evidence about the problem.
            inner = Inquiry(smaller, deadline=inquiry.deadline, rigorous=True)
            answer = ask(find_solver(name).make(), smaller, inner)
            check = inner.settle(answer)
            point = answer.point if check.verdict is not Verdict.FEASIBLE else check.point
            said = f"{found.told}; there {name}: {answer.raw_status or answer.stop}"
            claim = Claim(chain=found.chain, raw_status=said, stop=answer.stop)
            if point is not None:
                whole = reduction.point(smaller.point(point))
                claim = Claim(point=whole, chain=found.chain, raw_status=said, stop=answer.stop)
                if inquiry.offer(whole, chain=found.chain):
                    break
            if inquiry.deadline.expired:
                break
        return claim

    def _names(self) -> list[str]:
        return [name.strip() for name in self.options.ask.split(",") if name.strip()]
