"""``facial``: facial reduction, then another backend on the smaller face.

If the search ends in a contradiction, the facial reduction certificate proves infeasibility, also of weakly
infeasible problems. Otherwise the problem on the face is smaller and may have a strictly feasible point.
Starting multipliers may be close to an exposing vector. Callbacks are not supported. Entry points:
:class:`Facial` and, for the reduction alone, :func:`reduce`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sdpfeas.backends.base import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.dispatch import dispatch
from sdpfeas.backends.facial.facial_search import SearchState, search, search_stages
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.registry import find_solver
from sdpfeas.claims import Chain, Claim, Stop, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.errors import LimitError, ProblemError
from sdpfeas.numerics.exact_arithmetic import Reading
from sdpfeas.numerics.limits import limited
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.faces import FaceReduction, Faces, NotReduced
from sdpfeas.problem.reductions.integer_rows import integral_rows
from sdpfeas.problem.reductions.rows_only import RowsOnly, has_faces, rows_only
from sdpfeas.verifier.facial_reduction import describe_chain

#: Largest number of coefficients for which rows are converted to integers.
INTEGER_COEFFICIENTS = 2_000_000


@dataclass(frozen=True)
class FacialOptions:
    """Options of ``facial``.

    ``sieve`` restricts the search to single rows, which is fast. ``whole`` calls the backends on the original
    problem if no smaller face is found. ``ask`` lists the backends for the problem on the face, in order,
    separated by commas.
    """

    sieve: bool = False
    whole: bool = True
    ask: str = "spectral-ipm,clarabel"


class Facial(FeasibilityBackend):
    """Facial reduction: proves weak infeasibility, and feasibility of points on a face."""

    name = "facial"
    sets = ALL_SETS
    lmis = True
    warm_starts = True
    Options = FacialOptions

    def accepts(self, problem: FeasibilityProblem) -> tuple[bool, str]:
        """Return whether the problem is small enough for integer arithmetic, and if not, the reason."""
        fine, why = super().accepts(problem)
        if fine and not self.supports(problem):
            return False, "too many coefficients, or factored rows that facial reduction would have rounded"
        return fine, why

    @staticmethod
    def supports(problem: FeasibilityProblem) -> bool:
        """Return whether the problem has faces to reduce to, and few enough coefficients."""
        parts = [*problem.rows, *(rows for lmi in problem.lmis for rows in lmi.coefficients)]
        # An LMI becomes one row per entry, on a slack block and on all other blocks.
        slacks = sum((lmi.set.entries + lmi.set.n) ** 2 // 4 for lmi in problem.lmis)
        cones = sum(block.n**2 for block in problem.sets if block.psd_side is not None)
        coefficients = sum(rows.entries for rows in parts) + slacks + problem.m * cones
        return coefficients <= INTEGER_COEFFICIENTS and has_faces(problem)

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Search for a facial reduction certificate, then for a point on its last face."""
        reading = inquiry.reading
        if not has_faces(problem, reading):
            status = f"facial reduction is not defined for the data as {reading} of this problem"
            return Claim(raw_status=status, stop=Stop.UNSUPPORTED)
        claim = Claim(raw_status="no smaller face found", stop=Stop.STALLED)
        in_rows = rows_only(problem)
        rows = integral_rows(in_rows.problem, reading)
        start, deep = inquiry.through(in_rows).start.certificate, not self.options.sieve
        solved: Faces | None = None
        for state in search_stages(rows, inquiry.deadline, deep=deep, start=start):
            chain = Chain(tuple(map(in_rows.back, state.chain.steps)), reading)
            names = self._backends(state, solved)
            if state.faces is solved and not (names or state.contradiction):
                continue
            claim = self._solve_on_face(in_rows, state, chain, inquiry, names)
            if inquiry.finished:
                return claim
            solved = state.faces
        return claim

    def _backends(self, state: SearchState, solved: Faces | None) -> list[str]:
        """Return the backends to call on a face: the first one during the search, the others at its end."""
        names = [name.strip() for name in self.options.ask.split(",") if name.strip()]
        return names[: None if state.ended else 1][1 if state.faces is solved else 0 :]

    def _solve_on_face(
        self, in_rows: RowsOnly, state: SearchState, chain: Chain, inquiry: Inquiry, names: list[str]
    ) -> Claim:
        """Turn the state of the search into a claim, by calling backends on the face."""
        if state.contradiction:
            inquiry.offer(chain=chain)
            return Claim(chain=chain, raw_status=f"infeasible: {state.description}")
        if not len(chain):
            if not self.options.whole:
                return Claim(raw_status=state.description, stop=Stop.STALLED)
            return self._solve_whole(in_rows.original, state, inquiry, names)
        try:
            reduction = state.faces.reduction
        except NotReduced as error:
            return Claim(chain=chain, raw_status=f"{state.description}, but {error}", stop=Stop.NUMERICAL)
        if reduction is None:
            zero = in_rows.point(state.faces.point(()))
            inquiry.offer(zero, chain=chain)
            status = f"zero is the only candidate: {state.description}"
            return Claim(point=zero, chain=chain, raw_status=status)
        whole = in_rows.then(reduction)
        claim = Claim(chain=chain, raw_status=state.description, stop=Stop.STALLED)
        for answer, stop, point in self._points_on_face(reduction, inquiry, names):
            back = None if point is None else whole.point(point)
            status = f"{state.description}; on the face {answer}"
            claim = Claim(point=back, chain=chain, raw_status=status, stop=stop)
            if back is not None and inquiry.offer(back, chain=chain):
                break
        return claim

    def _solve_whole(
        self, problem: FeasibilityProblem, state: SearchState, inquiry: Inquiry, names: list[str]
    ) -> Claim:
        """Call the backends on the original problem."""
        claim = Claim(raw_status=state.description, stop=Stop.STALLED)
        for name in names:
            claim = dispatch(find_solver(name).make(), problem, inquiry)
            if inquiry.offer(claim.point, claim.certificate):
                break
        return claim

    def _points_on_face(
        self, reduction: FaceReduction, inquiry: Inquiry, names: list[str]
    ) -> Iterator[tuple[str, Stop, Point | None]]:
        """Yield the status, the stop reason and the point of each backend on the face."""
        smaller = reduction.problem
        for name in names:
            # A separate inquiry: only a point on the face is evidence about the original problem.
            inner = Inquiry(smaller, deadline=inquiry.deadline, rigorous=True)
            answer = dispatch(find_solver(name).make(), smaller, inner)
            check = inner.final_check(answer)
            point = answer.point if check.verdict is not Verdict.FEASIBLE else check.point
            status = f"{name}: {answer.raw_status or answer.stop}"
            yield status, answer.stop, None if point is None else smaller.point(point)
            if inquiry.deadline.expired:
                break


@dataclass(frozen=True)
class FacialReduction:
    """Result of :func:`reduce`.

    Attributes
    ----------
    original : FeasibilityProblem
        The problem.
    chain : Chain
        Facial reduction certificate: the multipliers of every step.
    faces : Faces or None
        Face of every set: matrices ``V`` with ``X = V S V'``, or the entries that may be positive. None if
        the time limit expired before the search.
    infeasible : bool
        Whether the certificate ends in a contradiction.
    smallest : bool
        Whether the faces are minimal according to a conic solver: then the face has a relative interior
        point, or the problem is strongly infeasible. Unlike the rest, this is numerical.
    stopped : str
        Why the search did not start, if so.
    """

    original: FeasibilityProblem
    chain: Chain
    faces: Faces | None
    infeasible: bool
    smallest: bool
    stopped: str = ""

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Size of every block before and after, then of every LMI.

        Second-order and Hermitian cones count as the PSD blocks that they are reduced to.
        """
        if self.faces is None:
            return tuple((block.n, block.n) for block in self._in_rows.problem.sets)
        return tuple(zip((block.n for block in self.faces.problem.sets), self.faces.sizes, strict=True))

    @property
    def regular(self) -> bool:
        """Whether the problem needs no reduction: the cones themselves are minimal, numerically."""
        return not len(self.chain) and self.smallest

    @property
    def reduction(self) -> Reduction | None:
        """Reduction to the smaller problem; None without one, or if binary64 cannot represent it."""
        try:
            found = None if self.infeasible or self.faces is None else self.faces.reduction
        except NotReduced:
            return None
        return found if found is None or found.original is self.original else self._in_rows.then(found)

    @property
    def _in_rows(self) -> RowsOnly:
        return rows_only(self.original)

    def explain(self) -> str:
        """Return a description of the steps."""
        if not len(self.chain):
            found = "exists, according to a conic solver" if self.smallest else "was found"
            return f"no smaller face {found}" + (f": {self.stopped}" if self.stopped else "")
        sizes = ", ".join(f"{before} to {after}" for before, after in self.sizes)
        end = "no feasible point is left" if self.infeasible else f"sizes of the blocks: {sizes}"
        return "\n".join([*describe_chain(self.original, self.chain), end])


def reduce(problem: FeasibilityProblem, *, time_limit: float | None = None) -> FacialReduction:
    """Reduce every cone to the smallest face found that contains all feasible points, with proof.

    Parameters
    ----------
    problem : FeasibilityProblem
        Any problem with dense or sparse coefficients. Free blocks and boxes are not reduced.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    FacialReduction
        The faces, the certificate that proves them, and the reduced problem.

    Raises
    ------
    ProblemError
        If rows on cones or coefficients of LMIs are stored as factors.

    Examples
    --------
    A zero on the diagonal of a PSD matrix leaves a face of one dimension less.

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> rows = np.array([np.diag([1.0, 0.0]), np.eye(2)])
    >>> found = sf.reduce(sf.FeasibilityProblem([sf.PSD(2)], [rows], [0.0, 1.0], [0.0, 1.0]))
    >>> found.sizes, found.reduction.problem.sets
    (((2, 1),), (PSD(n=1),))
    """
    deadline = Deadline(time_limit)
    if not isinstance(problem, FeasibilityProblem):
        raise ProblemError(f"reduce needs a FeasibilityProblem, got {type(problem).__name__}")
    if not has_faces(problem):
        raise ProblemError(
            "reduce needs dense or sparse coefficients on cones and LMIs: factored rows would be rounded"
        )
    try:
        with limited(deadline):
            in_rows = rows_only(problem)
            found = search(integral_rows(in_rows.problem, Reading.STORED), deadline)
    except LimitError as error:
        return FacialReduction(problem, Chain(()), None, False, False, str(error))
    chain = Chain(tuple(map(in_rows.back, found.chain.steps)))
    return FacialReduction(problem, chain, found.faces, found.contradiction, found.minimal)
