"""The channel between a backend and the verifier while a solve runs.

An :class:`Inquiry` holds the deadline, the starting point and the goal. A backend offers evidence that passes
its own cheap screens and learns whether to stop. The verifier attempts a proof of each piece of evidence
once, and the first granted verdict is kept.

``within``, ``with_start`` and ``through`` return views: the same inquiry with a shorter deadline, another
start, or seen through a reduction. All views share the proof attempts.
"""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sdpfeas.claims import Chain, Claim, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.errors import ClaimError, LimitError, OptionError, OutOfTime
from sdpfeas.numerics.exact_arithmetic import Reading, as_reading
from sdpfeas.numerics.limits import EIGEN_FLOPS, SLOW_RATE, WRITE_FLOPS, estimated_seconds, limited
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.verifier.equality_correction import MAX_DENSE_ROWS
from sdpfeas.verifier.outcome import Proof, Tolerances
from sdpfeas.verifier.proof_attempts import CertificateAttempt, PointAttempt, ProofAttempt, proof_modes
from sdpfeas.verifier.results import Check, with_excluded_radius
from sdpfeas.verifier.verifier import check_chain, check_rational, judge, malformed

#: Goal of a solve: any evidence that can be proved, or the largest margin together with its duality gap.
Wanted = Literal["proof", "margin"]

#: Largest share of the elapsed time that proof attempts may take while a backend runs.
PROOF_TIME_SHARE = 0.5
#: Seconds of proof attempts that are always allowed, so that small problems do not depend on the clock.
FREE_PROOF_SECONDS = 0.5

#: The time reserved for the final proof is its cost estimate, clipped to these shares of the time limit.
LEAST_RESERVE_SHARE, MOST_RESERVE_SHARE = 0.06, 0.4

#: Share of that reserve which a backend may use to finish a step it has begun.
GRACE_SHARE = 0.5

#: Seconds beyond the deadline that the final proof may take, so that a quick one is always attempted.
FINAL_PROOF_SECONDS = 0.1

#: Number of most recent pieces of evidence whose proof attempts are cached.
CACHED_ATTEMPTS = 8

#: Number of most recent multipliers from which an excluded radius is computed if nothing is proved.
RADIUS_ATTEMPTS = 3


@dataclass(frozen=True)
class Progress:
    """State of a running backend, passed to callbacks.

    Attributes
    ----------
    iteration : int
        Iterations so far.
    elapsed : float
        Seconds so far.
    point, certificate : optional
        Current candidates, in the units of the user's problem.
    gap : float, optional
        Estimate of the relative duality gap. Without an objective, the gap of the margin problem, relative
        to the size of the rows.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> sf.Progress(iteration=3, elapsed=0.1, gap=1e-4).iteration
    3
    """

    iteration: int
    elapsed: float
    point: Point | None = None
    certificate: FloatArray | None = None
    gap: float | None = None


#: Called with the progress of a backend; returning True stops the solve.
Callback = Callable[[Progress], Any]


class Listener:
    """Receives the progress of a backend, and its offers before the verifier does."""

    def __init__(self, callback: Callback | None = None) -> None:
        self._callback = callback

    def __call__(self, progress: Progress) -> bool:
        """Receive progress. Returning True stops the backend."""
        return self._callback is not None and bool(self._callback(progress))

    def offered(self, point: Point | None, multipliers: FloatArray | None, gap: float | None) -> bool:
        """Receive an offer. Returning True means that nothing is left to prove."""
        return False

    def wants_preview(self, gap: float) -> bool:
        """Return whether a preview of candidates with about this gap is useful."""
        return False

    def previewed(self, point: Point | None, multipliers: FloatArray | None) -> bool:
        """Receive predicted candidates. Returning True means that nothing is left to prove."""
        return False


@dataclass(frozen=True)
class WarmStart:
    """Starting point: a primal point, dual multipliers, or both, of a problem of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> sf.WarmStart(point=(np.eye(2),)).certificate is None
    True
    """

    point: Point | None = None
    certificate: FloatArray | None = None


class Inquiry:
    """Everything a backend is given besides the problem, and the place where it offers evidence.

    Parameters
    ----------
    problem : FeasibilityProblem
        Problem that the evidence is about.
    deadline : Deadline, optional
        Deadline of the whole solve, proofs included. The attribute ``deadline`` is that of the backend, and
        earlier.
    start : WarmStart, optional
        Starting point, for backends that support one.
    wanted : {"proof", "margin"}
        Whether any proof suffices, or the largest margin is sought.
    rigorous : bool
        Whether only a rigorous or exact proof counts.
    reading : {"stored", "written"}
        Whether the verdict is about the binary64 data or about the decimals they were rounded from.
    listener : Listener or callable, optional
        Called with a :class:`Progress`; returning True stops the backend.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [3.0])
    >>> inquiry = sf.Inquiry(problem)
    >>> inquiry.offer(point=(np.eye(2),)), inquiry.granted.verdict
    (True, <Verdict.FEASIBLE: 'feasible'>)
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
        #: Deadline of the backend.
        self.deadline = whole.within(whole.left - reserve)
        self._grace = GRACE_SHARE * reserve
        self.start = WarmStart() if start is None else start
        self.wanted = wanted
        self.has_listener = listener is not None
        self._listener = listener if isinstance(listener, Listener) else Listener(listener)
        self._proofs = _ProofAttempts(problem, whole, rigorous, as_reading(reading))
        self._reductions: tuple[Reduction, ...] = ()

    # ------------------------------------------------------------ for backends

    def offer(
        self,
        point: Point | None = None,
        multipliers: FloatArray | None = None,
        gap: float | None = None,
        *,
        chain: Chain | None = None,
        rational: Any = None,
        final: bool = False,
    ) -> bool:
        """Offer evidence for a proof. Returns True if the backend should stop.

        Parameters
        ----------
        point : tuple of ndarray, optional
            One array per set.
        multipliers : ndarray, optional
            Dual multipliers, one per row and then those of the LMIs.
        gap : float, optional
            As in :class:`Progress`.
        chain : Chain, optional
            Facial reduction certificate of the original problem. It is ignored through a reduction.
        rational : tuple of ndarray or ndarray, optional
            The point or the multipliers in fractions, as in :class:`Claim`; ignored through a reduction.
        final : bool
            Whether no better evidence will follow: then a numeric verdict is granted as a fallback, unless
            ``rigorous`` was requested.
        """
        if self.finished:
            return True
        try:
            if chain is not None and not self._reductions:
                self._proofs.replay(chain, point)
                return self.finished
            if rational is not None and not self._reductions:
                self._proofs.check_rational(rational)
            if self.granted is not None:
                return True
            point, multipliers = self._mapped(point, multipliers)
            with limited(self._proofs.deadline):
                self._proofs.stopped = self._listener.offered(point, multipliers, gap)
            if not self.finished:
                self._proofs.attempt(point, multipliers, final=final)
        except ClaimError:
            pass  # evidence of the wrong shape proves nothing
        return self.finished

    def report(
        self,
        iteration: int,
        point: Point | None = None,
        multipliers: FloatArray | None = None,
        gap: float | None = None,
    ) -> bool:
        """Report progress to the listener. Returns True if the backend should stop.

        Parameters
        ----------
        iteration : int
            Iterations so far.
        point, multipliers, gap
            Current candidates, as in :class:`Progress`.
        """
        if self.has_listener and not self.finished:
            point, multipliers = self._mapped(point, multipliers)
            progress = Progress(iteration, self.deadline.elapsed, point, multipliers, gap)
            with limited(self._proofs.deadline):
                self._proofs.stopped = self._listener(progress)
        return self.finished

    def wants_preview(self, gap: float) -> bool:
        """Return whether the listener wants a preview of candidates with about this relative gap."""
        return self.has_listener and not self.finished and self._listener.wants_preview(gap)

    def preview(self, point: Point, multipliers: FloatArray) -> bool:
        """Show the listener predicted candidates. Returns True if the backend should stop."""
        with limited(self._proofs.deadline):
            self._proofs.stopped = self._listener.previewed(*self._mapped(point, multipliers))
        return self.finished

    @contextmanager
    def proof_time(self) -> Iterator[None]:
        """Extend the time limit by the proof reserve, to turn the final iterate into evidence."""
        with limited(self._proofs.last):
            yield

    def _mapped(
        self, point: Point | None, multipliers: FloatArray | None
    ) -> tuple[Point | None, FloatArray | None]:
        for reduction in reversed(self._reductions):
            point = None if point is None else reduction.point(point)
            multipliers = None if multipliers is None else reduction.multipliers(multipliers)
        return point, multipliers

    # ------------------------------------------------------------ for drivers

    @property
    def limit(self) -> Deadline:
        """Hard deadline of the backend: a step begun before ``deadline`` may run until here."""
        return self.deadline.later(self._grace)

    @property
    def reading(self) -> Reading:
        """Whether the verdict is about the binary64 data or about decimals."""
        return self._proofs.reading

    @property
    def reduced(self) -> bool:
        """Whether this is a view through a reduction."""
        return bool(self._reductions)

    @property
    def granted(self) -> Check | None:
        """Granted check, or None as long as there is none."""
        return self._proofs.granted

    @property
    def finished(self) -> bool:
        """Whether a verdict was granted or the listener requested a stop."""
        return self._proofs.granted is not None or self._proofs.stopped

    def final_check(self, claim: Claim) -> Check:
        """Return the granted check, or else the check of the final claim of a backend."""
        try:
            if claim.chain is not None:
                self._proofs.replay(claim.chain, claim.point)
            if claim.rational is not None:
                self._proofs.check_rational(claim.rational)
            self._proofs.attempt(claim.point, claim.certificate, final=True)
        except ClaimError as error:
            return malformed(self._proofs.problem, error)
        except OutOfTime as error:
            return Check(self._proofs.problem, Verdict.UNDECIDED, None, None, str(error))
        granted = self._proofs.granted
        return self._proofs.undecided() if granted is None else granted

    @property
    def excluded_radius(self) -> float:
        """The largest norm up to which the latest multipliers rule out every point."""
        return self._proofs.undecided().excluded_radius

    # ------------------------------------------------------------ views

    def within(self, seconds: float | None) -> Inquiry:
        """Return a view whose deadline is at most ``seconds`` from now."""
        view = copy.copy(self)
        view.deadline = self.deadline.within(seconds)
        return view

    def with_start(self, start: WarmStart) -> Inquiry:
        """Return a view with another starting point."""
        view = copy.copy(self)
        view.start = start
        return view

    def through(self, reduction: Reduction) -> Inquiry:
        """Return a view for a backend that works on the reduced problem."""
        view = copy.copy(self)
        view._reductions = (*self._reductions, reduction)
        point, y = self.start.point, self.start.certificate
        view.start = WarmStart(
            None if point is None else reduction.start_point(point),
            None if y is None else reduction.start_multipliers(y),
        )
        return view


class _ProofAttempts:
    """Proof attempts, shared by an inquiry and its views."""

    def __init__(
        self, problem: FeasibilityProblem, deadline: Deadline, rigorous: bool, reading: Reading
    ) -> None:
        self.problem, self.deadline = problem, deadline
        self.rigorous, self.reading = rigorous, reading
        self.last = deadline.later(FINAL_PROOF_SECONDS)
        self.granted: Check | None = None
        self.latest = Check(problem, Verdict.UNDECIDED, None, None, "nothing was offered")
        #: Whether the listener requested a stop.
        self.stopped = False
        self.spent = 0.0
        self._refused = 0
        self._cases: dict[bytes, ProofAttempt[Any]] = {}

    def attempt(self, point: Point | None, multipliers: FloatArray | None, *, final: bool) -> None:
        """Attempt a proof, unless earlier attempts have used up their share of the time."""
        if self.granted is not None:
            return
        over_budget = self.spent > max(FREE_PROOF_SECONDS, PROOF_TIME_SHARE * self.deadline.elapsed)
        if over_budget and not final:
            return
        deadline = self.last if final else self.deadline
        self.latest = self._timed(lambda: self._check(point, multipliers, final=final), deadline)
        if self.latest.verdict is not Verdict.UNDECIDED:
            self.granted = self.latest

    def replay(self, chain: Chain, point: Point | None) -> None:
        """Verify a facial reduction certificate, with the point on its last face if there is one."""
        self._prove(lambda: check_chain(self.problem, chain, self.reading, point))

    def check_rational(self, given: Any) -> None:
        """Verify a point or multipliers in fractions."""
        self._prove(lambda: check_rational(self.problem, given, self.reading))

    def undecided(self) -> Check:
        """Return the latest check, with the largest excluded radius that the latest multipliers prove."""
        refused = [case for case in self._cases.values() if isinstance(case, CertificateAttempt)]
        radius = 0.0
        if self.reading is Reading.STORED:
            with suppress(LimitError), limited(self.last), np.errstate(all="ignore"):
                for case in refused[: -RADIUS_ATTEMPTS - 1 : -1]:
                    radius = max(radius, case.excluded_radius())
        return with_excluded_radius(self.latest, radius) if math.isfinite(radius) else self.latest

    def _prove(self, attempt: Callable[[], Check]) -> None:
        """Attempt a proof of its own kind, and keep what is granted."""
        if self.granted is not None:
            return
        with np.errstate(all="ignore"):
            found = self._timed(attempt, self.last)
        if found.verdict is not Verdict.UNDECIDED:
            self.granted = self.latest = found

    def _timed(self, attempt: Callable[[], Check], deadline: Deadline) -> Check:
        """Run an attempt, and count its time."""
        begin = time.perf_counter()
        try:
            with limited(deadline):
                return attempt()
        finally:
            self.spent += time.perf_counter() - begin

    def _check(self, point: Point | None, multipliers: FloatArray | None, *, final: bool) -> Check:
        cases = self._find(point, multipliers)
        modes = proof_modes(self.problem, self.reading)
        # Exact arithmetic is slow and fails repeatedly: attempt it after 0, 1, 2, 4, 8, ... failures.
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

    def _find(self, point: Point | None, multipliers: FloatArray | None) -> list[ProofAttempt[Any]]:
        """Return the cases of point and multipliers, from the cache if the evidence was offered before."""
        out: list[ProofAttempt[Any]] = []
        for kind, evidence in ((PointAttempt, point), (CertificateAttempt, multipliers)):
            if evidence is None:
                continue
            with np.errstate(all="ignore"):
                fresh: ProofAttempt[Any] = kind(self.problem, evidence, True, Tolerances())
            key = _digest(fresh)
            self._cases[key] = self._cases.pop(key, fresh)
            out.append(self._cases[key])
        while len(self._cases) > CACHED_ATTEMPTS:
            del self._cases[next(iter(self._cases))]
        return out


def _reserve(problem: FeasibilityProblem, whole: Deadline) -> float:
    """Return the seconds reserved for the final proof."""
    if whole.limit is None:
        return 0.0
    left, flops = whole.left, proof_flops(problem)
    least = LEAST_RESERVE_SHARE * left
    wanted = 0.0 if flops < SLOW_RATE * least else estimated_seconds(flops)
    return min(max(wanted, least), MOST_RESERVE_SHARE * left)


def _digest(case: ProofAttempt[Any]) -> bytes:
    """Return a hash of the evidence of a case."""
    found = hashlib.blake2b(repr((type(case), case.preparation)).encode(), digest_size=16)
    for part in case.evidence if isinstance(case, PointAttempt) else [case.evidence]:
        found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return found.digest()


def proof_flops(problem: FeasibilityProblem) -> float:
    """Estimate the cost of a proof: row values, definiteness of the blocks, Gram matrix of the equations."""
    coefficients = (*problem.rows, *(rows for lmi in problem.lmis for rows in lmi.coefficients))
    stored = sum(rows.entries for rows in coefficients)
    total = 8.0 * stored + (4.0 + EIGEN_FLOPS) * sum(float(n) ** 3 for n in problem.sides)
    equations = float(np.count_nonzero(problem.equality))
    if 0.0 < equations <= MAX_DENSE_ROWS:
        gram = sum(rows.gram_flops for rows in problem.rows)
        total += gram * (equations / problem.m) ** 2 + (1.0 + 0.5 * EIGEN_FLOPS) * equations**3
    elif equations:
        # Guess of the fill-in of a sparse factor: between the entries of the rows and a dense factor.
        total += 200.0 * WRITE_FLOPS * min(stored, equations**2)
    return total
