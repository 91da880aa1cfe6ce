"""``reduce``: the faces of its sets that hold all points of a problem, for users who want only that."""

from __future__ import annotations

from dataclasses import dataclass

from sdpfeas.backends.facial.search import search
from sdpfeas.deadline import Deadline
from sdpfeas.errors import LimitError, ProblemError
from sdpfeas.numerics.effort import limited
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.faces import Faces, NotReduced
from sdpfeas.problem.reductions.integral import integral_rows
from sdpfeas.problem.reductions.rows_only import RowsOnly, has_faces, rows_only
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
    faces : Faces or None
        The face of every set: matrices ``V`` with ``X = V S V'``, or the entries that may be positive.
        None if the time was up before the search began.
    infeasible : bool
        Whether the chain ends in a contradiction.
    smallest : bool
        Whether no smaller face was found by a cone solver either: there is an interior point on the face, or
        the problem is strongly infeasible. This is numerical, unlike the rest.
    stopped : str
        Why the search did not begin, if it did not.
    """

    original: FeasibilityProblem
    chain: Chain
    faces: Faces | None
    infeasible: bool
    smallest: bool
    stopped: str = ""

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Size of every block before and after, then of the values of the LMIs.

        Second-order and Hermitian cones count as the semidefinite matrices that they are shadows of.
        """
        if self.faces is None:
            return tuple((block.n, block.n) for block in self._posed.problem.sets)
        return tuple(zip((block.n for block in self.faces.problem.sets), self.faces.sizes, strict=True))

    @property
    def regular(self) -> bool:
        """Whether the problem needs no reduction: no smaller face, as far as the search could see."""
        return not len(self.chain) and self.smallest

    @property
    def reduction(self) -> Reduction | None:
        """The smaller problem with the ways back; None if none is left or found, or no double can hold it."""
        try:
            found = None if self.infeasible or self.faces is None else self.faces.reduction
        except NotReduced:
            return None
        return found if found is None or found.original is self.original else self._posed.then(found)

    @property
    def _posed(self) -> RowsOnly:
        return rows_only(self.original)

    def explain(self) -> str:
        """Say in words what was found."""
        if not len(self.chain):
            found = "exists, by a cone solver's word" if self.smallest else "was found"
            return f"no smaller face {found}" + (f": {self.stopped}" if self.stopped else "")
        sizes = ", ".join(f"{before} to {after}" for before, after in self.sizes)
        end = "no point is left" if self.infeasible else f"sizes of the blocks: {sizes}"
        return "\n".join([*tell(self.original, self.chain), end])


def reduce(problem: FeasibilityProblem, *, time_limit: float | None = None) -> Reduced:
    """Find the smallest faces of its sets that hold all points of a problem, with proof.

    Parameters
    ----------
    problem : FeasibilityProblem
        Any problem whose numbers can be posed in rows alone; Free blocks and boxes stay whole.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    Reduced
        The faces, the chain that proves them, and the problem that is left.

    Raises
    ------
    ProblemError
        If rows on cones or coefficients of LMIs are stored as factors.
    """
    if not isinstance(problem, FeasibilityProblem):
        raise ProblemError(f"reduce needs a FeasibilityProblem, got {type(problem).__name__}")
    if not has_faces(problem):
        raise ProblemError(
            "reduce takes LMIs and cones with dense or sparse coefficients only: factors would be rounded"
        )
    deadline = Deadline(time_limit)
    try:
        with limited(deadline):
            posed = rows_only(problem)
            found = search(integral_rows(posed.problem, "stored"), deadline)
    except LimitError as error:
        return Reduced(problem, Chain(()), None, False, False, str(error))
    chain = Chain(tuple(map(posed.back, found.chain.steps)))
    return Reduced(problem, chain, found.faces, found.contradiction, found.smallest)
