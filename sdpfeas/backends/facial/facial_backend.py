"""``facial``: looks for the smallest face that holds all points, and asks another backend what is there.

Where a chain of multipliers leads to a contradiction, that is the answer. Multipliers to start from may come
close to exposing a face. No callback.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sdpfeas.backends.base import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.dispatch import dispatch
from sdpfeas.backends.facial.facial_search import Found, search, stages
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.registry import find_solver
from sdpfeas.claims import Chain, Claim, Stop, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.errors import LimitError, ProblemError
from sdpfeas.numerics.cost_estimate import limited
from sdpfeas.numerics.exact_arithmetic import Reading
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.faces import FaceReduction, Faces, NotReduced
from sdpfeas.problem.reductions.integer_rows import integral_rows
from sdpfeas.problem.reductions.rows_only import RowsOnly, has_faces, rows_only
from sdpfeas.verifier.facial_reduction import describe_chain

#: Numbers in the rows beyond which they are not written out in integers.
LARGEST = 2_000_000


@dataclass(frozen=True)
class FacialOptions:
    """Options of ``facial``.

    ``sieve``: look at single rows only, which is quick. ``whole``: ask these backends about the problem
    itself where no smaller face is found. ``ask``: backends to ask about the problem on the face, in this
    order, separated by commas.
    """

    sieve: bool = False
    whole: bool = True
    ask: str = "spectral-ipm,clarabel"


class Facial(FeasibilityBackend):
    """Facial reduction: proves weak infeasibility, and feasibility on a face, by chains of multipliers."""

    name = "facial"
    sets = ALL_SETS
    lmis = True
    warm_starts = True
    Options = FacialOptions

    def accepts(self, problem: FeasibilityProblem) -> tuple[bool, str]:
        """Whether the problem is small enough to be written out in integers."""
        fine, why = super().accepts(problem)
        if fine and not self.supports(problem):
            return False, "too many numbers to look for faces of, or factors that would have to be rounded"
        return fine, why

    @staticmethod
    def supports(problem: FeasibilityProblem) -> bool:
        """Whether chains are about such a problem, and it is small enough to be written out in integers."""
        parts = [*problem.rows, *(rows for lmi in problem.lmis for rows in lmi.coefficients)]
        # In rows alone an LMI has a row for every entry, on a slack and on all blocks.
        slacks = sum((lmi.set.entries + lmi.set.n) ** 2 // 4 for lmi in problem.lmis)
        cones = sum(block.n**2 for block in problem.sets if block.psd_side is not None)
        numbers = sum(rows.entries for rows in parts) + slacks + problem.m * cones
        return numbers <= LARGEST and has_faces(problem)

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a chain, then for a point where it leads; see :class:`FeasibilityBackend`."""
        reading = inquiry.reading
        if not has_faces(problem, reading):
            status = f"facial reduction is not about the numbers as {reading} of such a problem"
            return Claim(raw_status=status, stop=Stop.UNSUPPORTED)
        claim = Claim(raw_status="no smaller face found", stop=Stop.STALLED)
        posed = rows_only(problem)
        rows = integral_rows(posed.problem, reading)
        start, deep = inquiry.through(posed).start.certificate, not self.options.sieve
        asked: Faces | None = None
        for found in stages(rows, inquiry.deadline, deep=deep, start=start):
            chain = Chain(tuple(map(posed.back, found.chain.steps)), reading)
            names = self._names(found, asked)
            if found.faces is asked and not (names or found.contradiction):
                continue
            claim = self._after(posed, found, chain, inquiry, names)
            if inquiry.finished:
                return claim
            asked = found.faces
        return self._with_hint(problem, claim, inquiry)

    def _with_hint(self, problem: FeasibilityProblem, claim: Claim, inquiry: Inquiry) -> Claim:
        """Add to the status what the decimal data come to, where they differ and are decided."""
        if inquiry.reading is not Reading.STORED or inquiry.deadline.expired or inquiry.reduced:
            return claim
        if not has_faces(problem, Reading.WRITTEN):
            return claim
        stored, written = (integral_rows(rows_only(problem).problem, name) for name in Reading)
        if stored.scales == written.scales or not written.simple:
            return claim
        inner = Inquiry(problem, deadline=inquiry.deadline, rigorous=True, reading="written")
        verdict = inner.final_check(self.solve(problem, inner)).verdict
        if verdict is Verdict.UNDECIDED:
            return claim
        hint = f"as decimals: {verdict.upper()}; pass reading='written'"
        return replace(claim, raw_status=f"{claim.raw_status}; {hint}")

    def _names(self, found: Found, asked: Faces | None) -> list[str]:
        """Backends to ask what is on a face: the first while more may be found, and only once."""
        names = [name.strip() for name in self.options.ask.split(",") if name.strip()]
        return names[: None if found.ended else 1][1 if found.faces is asked else 0 :]

    def _after(
        self, posed: RowsOnly, found: Found, chain: Chain, inquiry: Inquiry, names: list[str]
    ) -> Claim:
        """Answer the question that a chain leaves."""
        if found.contradiction:
            inquiry.offer(chain=chain)
            return Claim(chain=chain, raw_status=f"infeasible: {found.told}")
        if not len(chain):
            if not self.options.whole:
                return Claim(raw_status=found.told, stop=Stop.STALLED)
            return self._whole(posed.original, found, inquiry, names)
        try:
            reduction = found.faces.reduction
        except NotReduced as error:
            return Claim(chain=chain, raw_status=f"{found.told}, but {error}", stop=Stop.NUMERICAL)
        if reduction is None:
            zero = posed.point(found.faces.point(()))
            inquiry.offer(zero, chain=chain)
            return Claim(point=zero, chain=chain, raw_status=f"only zero is left: {found.told}")
        whole = posed.then(reduction)
        claim = Claim(chain=chain, raw_status=found.told, stop=Stop.STALLED)
        for said, stop, point in self._on_face(reduction, inquiry, names):
            back = None if point is None else whole.point(point)
            claim = Claim(point=back, chain=chain, raw_status=f"{found.told}; there {said}", stop=stop)
            if back is not None and inquiry.offer(back, chain=chain):
                break
        return claim

    def _whole(self, problem: FeasibilityProblem, found: Found, inquiry: Inquiry, names: list[str]) -> Claim:
        claim = Claim(raw_status=found.told, stop=Stop.STALLED)
        for name in names:
            claim = dispatch(find_solver(name).make(), problem, inquiry)
            if inquiry.offer(claim.point, claim.certificate):
                break
        return claim

    def _on_face(
        self, reduction: FaceReduction, inquiry: Inquiry, names: list[str]
    ) -> Iterator[tuple[str, Stop, Point | None]]:
        """What backends say about the problem on the face, why they stopped, and the points they have."""
        smaller = reduction.problem
        for name in names:
            # An inquiry of its own: only a point on the face is evidence about the problem.
            inner = Inquiry(smaller, deadline=inquiry.deadline, rigorous=True)
            answer = dispatch(find_solver(name).make(), smaller, inner)
            check = inner.final_check(answer)
            point = answer.point if check.verdict is not Verdict.FEASIBLE else check.point
            said = f"{name}: {answer.raw_status or answer.stop}"
            yield said, answer.stop, None if point is None else smaller.point(point)
            if inquiry.deadline.expired:
                break


# ------------------------------------------------------------
# ``reduce``: the faces of its sets that hold all points of a problem, for users who want only that.


@dataclass(frozen=True)
class Reduced:
    """What facial reduction makes of a problem.

    ``chain``: the multipliers that prove it, step by step. ``faces``: the face of every set: matrices ``V``
    with ``X = V S V'``, or the entries that may be positive. None if the time was up before the search
    began. ``infeasible``: whether the chain ends in a contradiction. ``smallest``: whether no smaller face
    was found by a cone solver either: there is an interior point on the face, or the problem is strongly
    infeasible. This is numerical, unlike the rest. ``stopped``: why the search did not begin, if it did
    not.
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
        return "\n".join([*describe_chain(self.original, self.chain), end])


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
            found = search(integral_rows(posed.problem, Reading.STORED), deadline)
    except LimitError as error:
        return Reduced(problem, Chain(()), None, False, False, str(error))
    chain = Chain(tuple(map(posed.back, found.chain.steps)))
    return Reduced(problem, chain, found.faces, found.contradiction, found.smallest)
