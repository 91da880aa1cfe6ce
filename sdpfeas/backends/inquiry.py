"""What a backend is asked besides the problem, and where it offers what it finds.

An inquiry holds the deadline, the start, what is wanted, and the attempts at a proof: a backend offers what
its own cheap screens find promising, and is told whether to stop. Each piece of evidence is proved once. What
was granted is kept, and whoever asked takes it from here.

A view is the same inquiry for a part of the work: with a shorter deadline, or seen through a reduction.
"""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np

from sdpfeas.claims import Chain, Claim, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.errors import ClaimError, OptionError, OutOfTime
from sdpfeas.numerics.cost_estimate import CAUTION, Work, limited, need, seconds
from sdpfeas.numerics.decimals import Reading, as_reading
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.verifier.equality_correction import MAX_DENSE_ROWS
from sdpfeas.verifier.outcome import Proof, Tolerances
from sdpfeas.verifier.proof_attempts import Case, CertificateCase, PointCase, proof_modes
from sdpfeas.verifier.results import Check
from sdpfeas.verifier.verifier import ChainCase, judge, malformed

#: What is wanted of a backend: anything that can be proved, or the largest margin it can find, with its gap.
Wanted = Literal["proof", "margin"]

#: Most of the time that attempts at a proof may take while a backend runs, ...
SHARE = 0.5
#: ... and the seconds they may take in any case, so that small problems do not depend on the clock.
FREE = 0.5

#: Shares of the time that are kept for the last proof: what it is estimated to take, but between these.
LEAST_RESERVE, MOST_RESERVE = 0.06, 0.4

#: Share of that reserve which a backend may use up to finish what it began.
GRACE = 0.5

#: Seconds beyond the deadline that the last proof may take: one that is quick is always tried.
LAST = 0.1

#: Entries from which a point is copied, symmetrised and hashed only if there is time for it, and that time
#: per entry in floating-point numbers written; measured at side 7000.
LARGE_POINT, NUMBERS_PER_COPY = 10**6, 16.0

#: How many pieces of evidence are remembered with what they came to.
REMEMBERED = 8


@dataclass(frozen=True)
class Progress:
    """What a callback is told.

    Attributes
    ----------
    iteration : int
        Iterations so far.
    elapsed : float
        Seconds so far.
    point, certificate : optional
        The present candidates, in the units of the problem the user asked.
    gap : float, optional
        How far the backend believes to be from the optimum, relative to it; a hint when to look closely.
        Where there is no objective, the optimum is the largest margin, relative to the size of the rows.
    """

    iteration: int
    elapsed: float
    point: Point | None = None
    certificate: FloatArray | None = None
    gap: float | None = None


#: Called now and then; returning True stops the solve.
Callback = Callable[[Progress], Any]


class Listener:
    """Hears of a backend's progress, and of what it offers before the verifier does."""

    def __init__(self, callback: Callback | None = None) -> None:
        self._callback = callback

    def __call__(self, progress: Progress) -> bool:
        """Take note of progress; True stops the backend."""
        return self._callback is not None and bool(self._callback(progress))

    def offered(self, point: Point | None, multipliers: FloatArray | None, gap: float | None) -> bool:
        """Take note of what is offered for a proof; True if nothing is left to prove."""
        return False

    def awaits(self, gap: float) -> bool:
        """Whether a glance ahead is worth while, at candidates that should have about this gap."""
        return False

    def glanced(self, point: Point | None, multipliers: FloatArray | None) -> bool:
        """Take note of where a backend believes to be going; True if nothing is left to prove."""
        return False


@dataclass(frozen=True)
class WarmStart:
    """Where to start from: a point, multipliers, or both, of a problem of the same shape."""

    point: Point | None = None
    certificate: FloatArray | None = None


class Inquiry:
    """What a backend is asked besides the problem.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem the evidence is about.
    deadline : Deadline, optional
        When all has to be done, proofs included. That of the inquiry itself is the backend's, and earlier.
    start : WarmStart, optional
        Where to start from, for backends that can.
    wanted : {"proof", "margin"}
        Whether a proof is enough, or the largest margin is looked for.
    rigorous : bool
        Whether only a rigorous or exact proof counts.
    reading : {"stored", "written"}
        Which numbers of the problem the verdict is about.
    listener : Listener or callable, optional
        Called now and then with a :class:`Progress`; returning True stops the backend.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        *,
        deadline: Deadline | None = None,
        start: WarmStart | None = None,
        wanted: Wanted = "proof",
        rigorous: bool = False,
        reading: str = "stored",
        listener: Listener | Callback | None = None,
    ) -> None:
        if wanted not in ("proof", "margin"):
            raise OptionError(f"wanted must be 'proof' or 'margin', got {wanted!r}")
        whole = Deadline(None) if deadline is None else deadline
        reserve = _reserve(problem, whole)
        #: When a backend has to stop.
        self.deadline = whole.within(whole.left - reserve)
        self._grace = GRACE * reserve
        self.start = WarmStart() if start is None else start
        self.wanted = wanted
        self.listens = listener is not None
        self._listener = listener if isinstance(listener, Listener) else Listener(listener)
        self._proofs = _Proofs(problem, whole, rigorous, as_reading(reading))
        self._reductions: tuple[Reduction, ...] = ()

    # ------------------------------------------------------------ what a backend needs

    def offer(
        self,
        point: Point | None = None,
        multipliers: FloatArray | None = None,
        gap: float | None = None,
        *,
        chain: Chain | None = None,
        final: bool = False,
    ) -> bool:
        """Offer evidence that looks good enough for a proof; True: stop.

        Parameters
        ----------
        point : tuple of ndarray, optional
            One array per set.
        multipliers : ndarray, optional
            One number per row.
        gap : float, optional
            As in :class:`Progress`.
        chain : Chain, optional
            A chain, of the problem itself: it does not come back through a reduction.
        final : bool
            Nothing better is to come: a numeric verdict will do, unless only a rigorous proof counts.
        """
        if self.over:
            return True
        try:
            if chain is not None and not self._reductions:
                self._proofs.replay(chain, point)
                return self.over
            point, multipliers = self._mapped(point, multipliers)
            with limited(self._proofs.deadline):
                self._proofs.stopped = self._listener.offered(point, multipliers, gap)
            if not self.over:
                self._proofs.attempt(point, multipliers, final=final)
        except ClaimError:
            pass  # of the wrong shape: worth nothing, like any other wrong evidence
        return self.over

    def report(
        self,
        iteration: int,
        point: Point | None = None,
        multipliers: FloatArray | None = None,
        gap: float | None = None,
    ) -> bool:
        """Tell the listener how things stand, good enough for a proof or not; True: stop.

        Parameters
        ----------
        iteration : int
            Iterations so far.
        point, multipliers, gap
            The present candidates, as in :class:`Progress`.
        """
        if self.listens and not self.over:
            point, multipliers = self._mapped(point, multipliers)
            progress = Progress(iteration, self.deadline.elapsed, point, multipliers, gap)
            with limited(self._proofs.deadline):
                self._proofs.stopped = self._listener(progress)
        return self.over

    def awaits(self, gap: float) -> bool:
        """Whether the listener would have a glance ahead, at candidates of about this gap.

        Parameters
        ----------
        gap : float
            As in :class:`Progress`.
        """
        return self.listens and not self.over and self._listener.awaits(gap)

    def glance(self, point: Point, multipliers: FloatArray) -> bool:
        """Show the listener where the backend believes to be going; True: stop.

        Parameters
        ----------
        point, multipliers
            Candidates that the backend itself has not reached.
        """
        with limited(self._proofs.deadline):
            self._proofs.stopped = self._listener.glanced(*self._mapped(point, multipliers))
        return self.over

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Take time from what is kept for the proof, to make evidence of what was found at last."""
        with limited(self._proofs.last):
            yield

    def _mapped(
        self, point: Point | None, multipliers: FloatArray | None
    ) -> tuple[Point | None, FloatArray | None]:
        for reduction in reversed(self._reductions):
            point = None if point is None else reduction.point(point)
            multipliers = None if multipliers is None else reduction.multipliers(multipliers)
        return point, multipliers

    # ------------------------------------------------------------ what whoever asks needs

    @property
    def limit(self) -> Deadline:
        """Until when work of the backend may last: a little longer than it may begin any."""
        return self.deadline.later(self._grace)

    @property
    def reading(self) -> Reading:
        """Which numbers the verdict is to be about."""
        return self._proofs.reading

    @property
    def reduced(self) -> bool:
        """Whether a backend sees it through a reduction of the problem that evidence is about."""
        return bool(self._reductions)

    @property
    def granted(self) -> Check | None:
        """The check that was granted on something offered; None so far."""
        return self._proofs.granted

    @property
    def over(self) -> bool:
        """Whether nothing is left to do: a verdict is granted, or the listener said stop."""
        return self._proofs.granted is not None or self._proofs.stopped

    def settle(self, claim: Claim) -> Check:
        """Return the check that was granted, or else that of the claim a backend ended with."""
        try:
            if claim.chain is not None:
                self._proofs.replay(claim.chain, claim.point)
            self._proofs.attempt(claim.point, claim.certificate, final=True)
        except ClaimError as error:
            return malformed(self._proofs.problem, error)
        except OutOfTime as error:
            return Check(self._proofs.problem, Verdict.UNDECIDED, None, None, str(error))
        granted = self._proofs.granted
        return self._proofs.latest if granted is None else granted

    # ------------------------------------------------------------ views

    def within(self, seconds: float | None) -> Inquiry:
        """Return the same inquiry with a deadline no later than ``seconds`` from now."""
        view = copy.copy(self)
        view.deadline = self.deadline.within(seconds)
        return view

    def starting(self, start: WarmStart) -> Inquiry:
        """Return the same inquiry with another start."""
        view = copy.copy(self)
        view.start = start
        return view

    def through(self, reduction: Reduction) -> Inquiry:
        """Return the same inquiry as it is seen by a backend that works on a reduction of the problem."""
        view = copy.copy(self)
        view._reductions = (*self._reductions, reduction)
        point, y = self.start.point, self.start.certificate
        view.start = WarmStart(
            None if point is None else reduction.start_point(point),
            None if y is None else reduction.start_multipliers(y),
        )
        return view


class _Proofs:
    """The attempts at a proof that an inquiry and its views share."""

    def __init__(
        self, problem: FeasibilityProblem, deadline: Deadline, rigorous: bool, reading: Reading
    ) -> None:
        self.problem, self.deadline = problem, deadline
        self.rigorous, self.reading = rigorous, reading
        self.last = deadline.later(LAST)
        self.granted: Check | None = None
        self.latest = Check(problem, Verdict.UNDECIDED, None, None, "nothing was offered")
        #: Whether the listener said stop.
        self.stopped = False
        self.spent = 0.0
        self._refused = 0
        self._cases: dict[bytes, Case[Any]] = {}
        self._entries = float(sum(block.entries for block in problem.sets))

    def attempt(self, point: Point | None, multipliers: FloatArray | None, *, final: bool) -> None:
        """Prove what is offered, if that is worth its time."""
        if self.granted is not None:
            return
        dear = self.spent > max(FREE, SHARE * self.deadline.elapsed)
        if dear and not final:
            return
        begin = time.perf_counter()
        try:
            with limited(self.last if final else self.deadline):
                self.latest = self._check(point, multipliers, final=final)
        finally:
            self.spent += time.perf_counter() - begin
        if self.latest.verdict is not Verdict.UNDECIDED:
            self.granted = self.latest

    def replay(self, chain: Chain, point: Point | None) -> None:
        """Prove what a chain says, about the point on its last face if there is one."""
        if self.granted is not None:
            return
        begin = time.perf_counter()
        try:
            with limited(self.last), np.errstate(all="ignore"):
                found = ChainCase(self.problem, chain, self.reading, point, True, Tolerances()).check()
        finally:
            self.spent += time.perf_counter() - begin
        if found.verdict is not Verdict.UNDECIDED:
            self.granted = self.latest = found

    def _check(self, point: Point | None, multipliers: FloatArray | None, *, final: bool) -> Check:
        cases = self._find(point, multipliers)
        modes = proof_modes(self.problem, self.reading)
        # Rational arithmetic is slow, and what it refuses once it will often refuse again.
        if not final and self._refused & (self._refused - 1):
            modes = modes[:1]
        check = judge(self.problem, cases, modes, self.reading)
        if check.verdict is not Verdict.UNDECIDED:
            return check
        self._refused += 1
        if final and not self.rigorous:
            numeric = judge(self.problem, cases, [Proof.NUMERIC], self.reading)
            if numeric.verdict is not Verdict.UNDECIDED:
                return numeric
        return check

    def _find(self, point: Point | None, multipliers: FloatArray | None) -> list[Case[Any]]:
        """Cases of both sides: those of evidence seen before, with what they came to."""
        out: list[Case[Any]] = []
        for kind, evidence in ((PointCase, point), (CertificateCase, multipliers)):
            if evidence is None:
                continue
            if kind is PointCase and self._entries > LARGE_POINT:
                need("a copy of the point", numbers=NUMBERS_PER_COPY * self._entries)
            with np.errstate(all="ignore"):
                fresh: Case[Any] = kind(self.problem, evidence, True, Tolerances())
            key = _digest(fresh)
            self._cases[key] = self._cases.pop(key, fresh)
            out.append(self._cases[key])
        while len(self._cases) > REMEMBERED:
            del self._cases[next(iter(self._cases))]
        return out


def _reserve(problem: FeasibilityProblem, whole: Deadline) -> float:
    """Seconds to keep for the last proof."""
    if whole.limit is None:
        return 0.0
    left = whole.left
    wanted = CAUTION * seconds(proof_work(problem), 2.0 * LEAST_RESERVE * left)
    return min(max(wanted, LEAST_RESERVE * left), MOST_RESERVE * left)


def _digest(case: Case[Any]) -> bytes:
    """Tell pieces of evidence apart."""
    found = hashlib.blake2b(repr((type(case), case.preparation)).encode(), digest_size=16)
    for part in case.evidence if isinstance(case, PointCase) else [case.evidence]:
        found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8))
    return found.digest()


# ------------------------------------------------------------
# What a proof takes, so that time can be kept for it.


def proof_work(problem: FeasibilityProblem) -> Work:
    """What a typical proof takes: row values, definiteness of every block, and the equality rows."""
    sides = [float(n) for n in problem.sides]
    cubes = sum(n**3 for n in sides)
    total = problem.work.times(4.0).plus(Work(products=4.0 * cubes, cubes=cubes))
    equations = int(np.count_nonzero(problem.equality))
    if 0 < equations <= MAX_DENSE_ROWS:
        parts = (rows.gram_work for rows in problem.rows)
        gram = reduce(Work.plus, parts, Work()).times((equations / problem.m) ** 2)
        total = total.plus(gram).plus(Work(products=float(equations) ** 3, cubes=0.5 * float(equations) ** 3))
    elif equations:
        # A sparse factor, where there is one: much more than the rows themselves, and less than a dense one.
        stored = sum(rows.entries for rows in problem.rows)
        total = total.plus(Work(numbers=200.0 * min(stored, float(equations) ** 2)))
    return total
