"""``reduce``: the faces of its sets that hold all points of a problem, for users who want only that."""

from __future__ import annotations

from dataclasses import dataclass

from sdpfeas.backends.facial.search import search
from sdpfeas.deadline import Deadline
from sdpfeas.errors import ProblemError
from sdpfeas.numerics.effort import limited
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.faces import FaceReduction, Faces, NotReduced, has_faces
from sdpfeas.problem.reductions.integral import readings
from sdpfeas.verifier.chains.chain import Chain
from sdpfeas.verifier.chains.words import tell

__all__ = ["Reduced", "reduce"]


@dataclass(frozen=True)
class Reduced:
    """What facial reduction makes of a problem.

    Attributes
    ----------
    original : FeasibilityProblem
        The problem.
    chain : Chain
        The multipliers that prove it, step by step.
    faces : Faces
        The face of every set: matrices ``V`` with ``X = V S V'``, or the entries that may be positive.
    infeasible : bool
        Whether the chain ends in a contradiction.
    smallest : bool
        Whether no smaller face was found by a cone solver either: there is an interior point on the face, or
        the problem is strongly infeasible. This is numerical, unlike the rest.
    """

    original: FeasibilityProblem
    chain: Chain
    faces: Faces
    infeasible: bool
    smallest: bool

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Size of every block before and after."""
        return tuple(zip((block.n for block in self.original.sets), self.faces.sizes, strict=True))

    @property
    def regular(self) -> bool:
        """Whether the problem needs no reduction: no smaller face, as far as the search could see."""
        return not len(self.chain) and self.smallest

    @property
    def reduction(self) -> FaceReduction | None:
        """The smaller problem with the ways back; None if none is left, or no double can hold its numbers."""
        try:
            return None if self.infeasible else self.faces.reduction
        except NotReduced:
            return None

    def explain(self) -> str:
        """Say in words what was found."""
        if not len(self.chain):
            return "no smaller face " + ("exists, by a cone solver's word" if self.smallest else "was found")
        sizes = ", ".join(f"{before} to {after}" for before, after in self.sizes)
        end = "no point is left" if self.infeasible else f"sizes of the blocks: {sizes}"
        return "\n".join([*tell(self.original, self.chain), end])


def reduce(problem: FeasibilityProblem, *, time_limit: float | None = None) -> Reduced:
    """Find the smallest faces of its sets that hold all points of a problem, with proof.

    Parameters
    ----------
    problem : FeasibilityProblem
        A problem of PSD, Nonneg and Free blocks and boxes; Free blocks and boxes stay whole.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    Reduced
        The faces, the chain that proves them, and the problem that is left.

    Raises
    ------
    ProblemError
        If the problem has LMIs or cones of another kind.
    """
    if not isinstance(problem, FeasibilityProblem):
        raise ProblemError(f"reduce needs a FeasibilityProblem, got {type(problem).__name__}")
    if not has_faces(problem):
        raise ProblemError(
            "reduce takes PSD, Nonneg, Free and SpectralBox blocks, and no LMIs: pose these as rows"
        )
    deadline = Deadline(time_limit)
    with limited(deadline):
        found = search(next(readings(problem)), deadline)
    return Reduced(problem, found.chain, found.faces, found.contradiction, found.smallest)
