"""Bracket the maximum of a linear objective by one run of an interior-point method, both ends proved.

For ``max <c, X>`` a feasible point proves a lower bound and dual multipliers prove an upper one. The iterates
of an interior-point method lie inside the cones by a depth in proportion to the duality gap, and their
residuals are of the size of rounding. So a proof succeeds at the iterate whose gap is within the tolerance:
an exact solution exists near ``X`` (Theorem 5 of docs/mathematics.md), and ``-(c + A*y)`` is positive
definite by one Cholesky factorisation (compare Jansson, Chaykin and Keil, "Rigorous error bounds for the
optimal value in semidefinite programming", SIAM J. Numer. Anal. 2007). If the last iterate is not inside, a
convex combination ``(1 - t) X + t X_int`` with a strictly feasible point is, and costs ``t <c, X - X_int>``.

:class:`CertifiedProgram` is the method. If an end stays open it falls back on

- the program on the minimal face, if there is no strictly feasible point (:func:`program_on_face`),
- multiprecision arithmetic with rational evidence, for small programs whose interior is too thin for binary64
  (:mod:`sdpfeas.backends.multiprecision`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.auto import MULTIPRECISION, Auto
from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.dispatch import dispatch_program
from sdpfeas.backends.facial.exposing_vectors import has_exposing_row
from sdpfeas.backends.facial.facial_backend import Facial
from sdpfeas.backends.facial.facial_search import search_stages
from sdpfeas.backends.inquiry import Inquiry, Listener, Progress
from sdpfeas.backends.multiprecision.size_limits import fits
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.claims import Chain, Claim, Stop, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bracket import CLOSED, WIDE, Bracket
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import ClaimError, LimitError
from sdpfeas.families.parametric_family import MonotoneFamily
from sdpfeas.families.threshold_bounds import Bound
from sdpfeas.numerics.exact_arithmetic import Reading, fractions_to_floats, rounded_down, simplest_between
from sdpfeas.numerics.limits import limited
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point, sign_violation
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.faces import NotReduced
from sdpfeas.problem.reductions.integer_rows import integral_rows
from sdpfeas.problem.rows import Stacked, as_rows
from sdpfeas.problem.sets import BlockSet, Free
from sdpfeas.verifier.exact import has_round_rows, rational_lower_bound, rational_upper_bound
from sdpfeas.verifier.facial_reduction import replay
from sdpfeas.verifier.repair import moved_onto_rows
from sdpfeas.verifier.results import Result
from sdpfeas.verifier.rigorous import prove_upper_bound, prove_value

#: A proof is attempted when the estimated width of the bracket is below this share of the tolerance, and
#: again when it has shrunk by this ratio.
ATTEMPT_SHARE, ATTEMPT_RATIO = 0.95, 0.3

#: Most attempts while the backend runs.
MAX_ATTEMPTS = 4

#: The last iterates of at least so many tolerances of estimated width serve as strictly feasible evidence.
INTERIOR_TOLERANCES = (1e2, 1e5)

#: Least weight of a strictly feasible point in convex combinations; it covers what of the solution is
#: outside its sets this many times.
LEAST_WEIGHT, OUTSIDE_FACTOR = 2.0**-40, 2.0

#: A value below this share of the terms it sums is treated as zero when the tolerance is relative.
ZERO_VALUE_SHARE = 1e-6

#: Share of the time left for a strictly feasible point, and the limit in multiples of one second plus the
#: time of the program; a wide interior takes less.
INTERIOR_TIME_SHARE, INTERIOR_TIME_FACTOR = 0.3, 2.0

#: Share of the time left for facial reduction.
FACIAL_TIME_SHARE = 0.3

#: Share of the tolerances that the width of a bracket in multiprecision arithmetic may take.
MULTIPRECISION_SHARE = 0.1


#: Distance of a simple number from an approximate value, as a share of the tolerance.
LEVEL_SHARE = 0.5

#: Largest numerator times denominator of an exact value.
SIMPLE_VALUE_SIZE = 10**6

#: A point and multipliers.
Evidence = tuple[Point, FloatArray]


class ProgramFamily(MonotoneFamily):
    """Level sets of an objective: the threshold is the maximum.

    Bounds are proved from one point or one vector of multipliers. ``guide`` holds multipliers near the
    optimal ones: with them the objective hardly changes between a point and the exact one near it.
    """

    def __init__(self, program: ConicProgram) -> None:
        self.program, self.problem, self.terms = program, program.problem, program.objective
        self.sets, self.m = program.problem.sets, program.problem.m + 1
        self.guide: FloatArray | None = None

    def at(self, delta: float) -> FeasibilityProblem:
        """Return the problem with the objective as its first row."""
        problem = self.problem
        rows = [
            Stacked([as_rows(c[None], block, 1), rows])
            for c, block, rows in zip(self.terms, problem.sets, problem.rows, strict=True)
        ]
        lower, upper = np.append(delta, problem.lower), np.append(np.inf, problem.upper)
        return FeasibilityProblem(problem.sets, rows, lower, upper)

    def estimate_delta(self, point: Point) -> float:
        """Return the objective at a point."""
        with np.errstate(all="ignore"):
            return self.program.value(point)

    def prove_lower(self, point: Any, above: float = -math.inf) -> Bound | None:
        """Prove the value of an exact point near the given one."""
        x = self.problem.point(point)
        with np.errstate(all="ignore"):
            if not self.estimate_delta(x) > above:
                return Bound(-math.inf, x)
            try:
                value = prove_value(self.problem, self.terms, x, self.guide)
            except np.linalg.LinAlgError:
                return None
        return None if value is None else Bound(value, x)

    def prove_upper(
        self, y: Any, near: float | None = None, push: float = 0.0, below: float = math.inf
    ) -> Bound | None:
        """Prove the bound of the dual program."""
        z = np.asarray(y, dtype=np.float64)
        with np.errstate(all="ignore"):
            z = np.where(sign_violation(self.problem, z) > 0.0, 0.0, z)
            bound = prove_upper_bound(self.problem, self.terms, z)
        return None if bound is None else Bound(bound, z)

    def estimate_upper(self, y: FloatArray) -> float | None:
        """Return the bound that multipliers prove if they are dual feasible; None for bounded sets."""
        if any(block.bounded for block in self.sets):
            return None
        with np.errstate(all="ignore"):
            return -float(np.sum(self.problem.beta_terms(y)))


class ProofListener(Listener):
    """Attempts to prove both ends once the estimated width of the bracket is within the tolerance.

    ``interior`` holds iterates that were farther from the optimum, and therefore deeper inside. If no point
    near the first iterate that should close the bracket can be proved, ``on_no_point`` is called with the
    direction in which the multipliers grow; True stops the backend.
    """

    def __init__(
        self,
        bracket: Bracket,
        family: ProgramFamily,
        on_no_point: Callable[[FloatArray], bool],
        watch: Watch,
    ) -> None:
        super().__init__()
        self._bracket, self._family = bracket, family
        self._on_no_point, self._watch = on_no_point, watch
        self._attempts, self._next = 0, ATTEMPT_SHARE
        self._lower_known = math.isfinite(bracket.lower)
        self._interior = dict[float, Evidence]()
        self.last: Evidence | None = None

    @property
    def interior(self) -> list[Evidence]:
        """The stored iterates, the closest to the optimum first."""
        return [self._interior[key] for key in sorted(self._interior)]

    def __call__(self, progress: Progress) -> bool:
        """Attempt a proof if it is due; True stops the backend."""
        point, y = progress.point, progress.certificate
        if point is None or y is None or not all(np.isfinite(part).all() for part in (*point, y)):
            return self._bracket.closed
        bracket, tolerances = self._bracket, self._estimated_tolerances(progress)
        self._interior |= {least: (point, y) for least in INTERIOR_TOLERANCES if tolerances >= least}
        self.last = point, y
        self._watch(bracket.lower, bracket.upper, tolerances * bracket.tol)
        if tolerances <= self._next and self._attempts < MAX_ATTEMPTS:
            self._attempts += 1
            self._next = ATTEMPT_RATIO * tolerances
            self.offer(point, y)
            if self._attempts == 1 and self.interior and not math.isfinite(bracket.lower):
                stop = self._on_no_point(y - self.interior[0][1])
                self._next, self._lower_known = ATTEMPT_SHARE, math.isfinite(bracket.lower)
                return stop or bracket.closed
        return bracket.closed

    def offered(self, point: Point | None, multipliers: FloatArray | None, gap: float | None) -> bool:
        """Prove bounds from candidates that the backend selected."""
        self.offer(point, multipliers)
        return self._bracket.closed

    def offer(self, point: Point | None, y: FloatArray | None) -> None:
        """Prove a lower bound from a point, and an upper one from multipliers."""
        # Malformed candidates prove nothing. If one proof is too expensive, the other may not be.
        with suppress(ClaimError, LimitError):
            self._family.guide = y
            self._bracket.offer_point(point)
        with suppress(ClaimError, LimitError):
            if y is not None:
                self._bracket.offer_multipliers(y)

    def _estimated_tolerances(self, progress: Progress) -> float:
        """Width of the bracket that an iterate would prove, in tolerances."""
        point, y = progress.point, progress.certificate
        assert point is not None
        assert y is not None
        try:
            value, width = value_and_width(self._family.program, point, self._bracket)
            upper = self._family.estimate_upper(y)
        except (ClaimError, ValueError):
            return math.inf
        if upper is None:
            return math.inf if progress.gap is None else 2.0 * abs(value) * progress.gap / width
        # On a face the lower end may be known, and no iterate be feasible.
        found = abs(upper - (self._bracket.lower if self._lower_known else value)) / width
        return found if math.isfinite(found) else math.inf


def value_and_width(program: ConicProgram, point: Point, bracket: Bracket) -> tuple[float, float]:
    """Return the value of a point, and the width that the tolerances allow around it."""
    with np.errstate(all="ignore"):
        parts = [c * x for c, x in zip(program.objective, point, strict=True)]
        value, size = (sum(float(np.sum(part)) for part in each) for each in (parts, map(np.abs, parts)))
        relative = bracket.tol * max(abs(value), ZERO_VALUE_SHARE * size)
        return value, max(relative, bracket.absolute_tol)


#: Receives the ends proved so far, and the relative gap of the iterate as estimated.
Watch = Callable[[float, float, float], Any]


def _unwatched(lower: float, upper: float, gap: float) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Settings:
    """Settings of a bracket; ``absolute_tol`` is in the units of the scaled objective."""

    solver: Solver
    backend: FeasibilityBackend
    tol: float
    absolute_tol: float
    deadline: Deadline
    watch: Watch = _unwatched
    exact: bool = False

    @property
    def unwatched(self) -> Settings:
        """The same for a part of the problem, whose ends are not those of the whole."""
        return replace(self, watch=_unwatched)

    @property
    def automatic(self) -> bool:
        """Whether the backend is chosen by structure."""
        return isinstance(self.backend, Auto) and not self.backend.options.order


#: Brackets the maximum of a smaller program: the lower end, the upper end, and a point of the lower one.
BracketMaximum = Callable[[ConicProgram], tuple[float, float, Point | None]]


class CertifiedProgram:
    """Maximise ``<objective, X>`` over a problem without LMIs, and prove both ends of the bracket.

    ``bracket_maximum`` brackets the maximum of another program, such as the one on a face. If ``dual_needed``
    an upper end counts only with multipliers of the problem itself, not of a face. ``has_no_optimum`` tries
    to prove that there is no optimal value; it is called if the iterates of the backend converge to a ray.
    """

    def __init__(
        self,
        program: ConicProgram,
        settings: Settings,
        bracket_maximum: BracketMaximum,
        has_no_optimum: Callable[[], bool],
        dual_needed: bool = False,
    ) -> None:
        self._program, self._problem, self._settings = program, program.problem, settings
        self._bracket_maximum, self._has_no_optimum = bracket_maximum, has_no_optimum
        self._dual_needed, self._reduced = dual_needed, False
        self._family = ProgramFamily(program)
        self.bracket = Bracket(self._family, settings.tol, settings.absolute_tol)
        self._first_seconds = 0.0
        #: The maximum, if it is asked for and proved exactly.
        self.value: Fraction | None = None

    @property
    def _ended(self) -> bool:
        return self.bracket.closed or self._settings.deadline.expired

    def solve(self) -> str:
        """Close the bracket; return the stop reason."""
        bracket, deadline = self.bracket, self._settings.deadline
        claim = Claim()
        sides = [block.side for block in self._problem.sets if block.side]
        try:
            with few_threads(sides, self._problem.m):
                if has_exposing_row(self._problem):
                    self._solve_on_face(deep=False)
                if not bracket.closed and (self._dual_needed or not self._reduced):
                    listener = ProofListener(bracket, self._family, self._reduce_from, self._settings.watch)
                    claim = self._run(listener)
                    if not self._ended and converges_to_ray(claim) and self._has_no_optimum():
                        return str(claim.stop)
                    if not self._ended and (self._dual_needed or not self._reduced):
                        self._prove_last(claim, listener)
                exact_faces = not self._takes_multiprecision or has_round_rows(self._problem)
                if not self._ended and exact_faces and not self._reduced and self._no_interior:
                    self._solve_on_face(self.feasibility.check.chain)
                if not self._ended and self._takes_multiprecision:
                    self._solve_in_multiprecision()
                if bracket.closed and self._settings.exact:
                    self._prove_simple_value(bracket.lower, bracket.upper)
                elif not self._ended and claim.point is not None and self._settings.automatic:
                    value, width = value_and_width(self._program, claim.point, bracket)
                    if has_round_rows(self._problem):  # on other data faces prove nothing
                        self._prove_simple_value(value - LEVEL_SHARE * width, value + LEVEL_SHARE * width)
        except LimitError as error:
            return str(error)
        if bracket.closed:
            return CLOSED
        if deadline.expired:
            return str(Stop.TIME_LIMIT)
        if not (math.isfinite(bracket.lower) and math.isfinite(bracket.upper)):
            return f"the problem or its dual may have no strictly feasible point ({claim.stop})"
        return f"{claim.stop}; {WIDE}"

    def _run(self, listener: ProofListener) -> Claim:
        """Maximise with the backend."""
        settings = self._settings
        started = settings.deadline.elapsed
        inquiry = Inquiry(self._problem, deadline=settings.deadline, wanted="margin", listener=listener)
        try:
            with limited(inquiry.limit):
                claim = dispatch_program(settings.backend, self._program, inquiry)
        except LimitError as error:
            claim = Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))
        self._first_seconds = settings.deadline.elapsed - started
        return claim

    def _reduce_from(self, direction: FloatArray) -> bool:
        """Look for a face exposed by a direction in which multipliers grow; whether to stop the backend."""
        with suppress(LimitError):
            if not self._reduced:
                self._solve_on_face(start=direction)
        return self._reduced and not self._dual_needed

    def _prove_last(self, claim: Claim, listener: ProofListener) -> None:
        """Prove what is still open from the last iterates."""
        with suppress(LimitError):
            listener.offer(claim.point, claim.certificate)
            # The best iterate of a backend is the one of least relative gap, which tells nothing at zero.
            if not self.bracket.closed and listener.last is not None:
                listener.offer(*listener.last)
                self._combine(listener.last, listener.interior)
            elif not self.bracket.closed and claim.point is not None and claim.certificate is not None:
                self._combine((claim.point, claim.certificate), listener.interior)

    def _combine(self, found: Evidence, interior: list[Evidence]) -> None:
        """Prove ends that are not close from convex combinations with strictly feasible evidence."""
        if not all(np.isfinite(part).all() for part in (*found[0], found[1])):
            return
        for point, y in interior:
            self._combine_points(found, point)
            self._combine_multipliers(found, y)
        if self._takes_multiprecision and not has_round_rows(self._problem):
            return  # faces are found in rational numbers only, and these cost less than deeper evidence
        if not self._close(found)[0] and (deep := self._interior_point) is not None:
            self._combine_points(found, deep)
        if not self._close(found)[1] and (deep_y := self._interior_multipliers) is not None:
            self._combine_multipliers(found, deep_y)

    def _close(self, found: Evidence) -> tuple[bool, bool]:
        """Whether the lower and the upper end are within half the tolerance of the value of a point."""
        value, width = value_and_width(self._program, found[0], self.bracket)
        return value - self.bracket.lower <= 0.5 * width, self.bracket.upper - value <= 0.5 * width

    def _combine_points(self, found: Evidence, interior: Point) -> None:
        least, combined = combined_points(self._problem, found[0], interior)
        bisect_weights(least, lambda t: self._close(found)[0] or self.bracket.offer_point(combined(t)))

    def _combine_multipliers(self, found: Evidence, interior: FloatArray) -> None:
        least, combined = combined_multipliers(self._program, found[1], interior)
        bisect_weights(least, lambda t: self._close(found)[1] or self.bracket.offer_multipliers(combined(t)))

    @cached_property
    def _interior_multipliers(self) -> FloatArray | None:
        """Multipliers with a positive definite dual slack: a point of the LMIs ``-(c + A*y) >= 0``."""
        dual = multiplier_problem(self._program)
        if dual is None:
            return None
        found = solve(dual, self._settings.solver, time_limit=self._interior_seconds, rigorous=True)
        return None if found.verdict is not Verdict.FEASIBLE or found.point is None else -found.point[0]

    @property
    def _interior_point(self) -> Point | None:
        found = self.feasibility
        return None if self._no_interior else found.point

    @property
    def _no_interior(self) -> bool:
        """Whether no strictly feasible point was found. One with a facial reduction certificate is not."""
        found = self.feasibility
        return found.verdict is not Verdict.FEASIBLE or found.check.chain is not None

    @cached_property
    def feasibility(self) -> Result:
        """Result of the feasibility problem without the objective."""
        return solve(self._problem, self._settings.solver, time_limit=self._interior_seconds, rigorous=True)

    @property
    def _interior_seconds(self) -> float:
        left = self._settings.deadline.left
        limit = min(INTERIOR_TIME_SHARE * left, INTERIOR_TIME_FACTOR * (self._first_seconds + 1.0))
        return max(limit, 1e-3)

    def _solve_on_face(
        self, chain: Chain | None = None, *, deep: bool = True, start: FloatArray | None = None
    ) -> None:
        """Bracket the program on a smaller face, if there is one; see :func:`program_on_face`."""
        found = program_on_face(self._program, self._settings.deadline, chain, deep=deep, start=start)
        if found is None:
            return
        self._reduced = True
        reduction, program = found
        lower, upper, point = self._bracket_maximum(program)
        if point is not None and math.isfinite(lower):
            self.bracket.raise_lower(lower, reduction.point(point))
        # Multipliers on a face are not multipliers of the problem; that it has no point, solve has to prove.
        if not self._dual_needed and upper > -math.inf:
            self.bracket.reduce_upper(upper, None)

    @property
    def _takes_multiprecision(self) -> bool:
        return self._settings.automatic and fits(self._problem)

    def _solve_in_multiprecision(self) -> None:
        """Prove ends that doubles leave open by rational evidence, on small programs."""
        settings, bracket = self._settings, self.bracket
        with limited(settings.deadline), np.errstate(all="ignore"):
            tolerances = MULTIPRECISION_SHARE * bracket.tol, MULTIPRECISION_SHARE * bracket.absolute_tol
            backend: Any = find_solver(MULTIPRECISION).make()  # imports python-flint only now
            point, y = backend.rational_bounds(self._program, *tolerances)
            if point is not None:
                value = rational_lower_bound(self._problem, self._program.objective, point)
                if value is not None:
                    bracket.raise_lower(rounded_down(value), tuple(map(fractions_to_floats, point)))
            if y is not None:
                bound = rational_upper_bound(self._problem, self._program.objective, y)
                if bound is not None:
                    bracket.reduce_upper(0.0 - rounded_down(-bound), fractions_to_floats(y))

    def _prove_simple_value(self, low: float, high: float) -> None:
        """Prove that a point, and multipliers, attain the simplest number between two values.

        Both are solutions of feasibility problems, without rounding: their rows are those of the program and
        the objective, multiplied by the denominator. So facial reduction in integers applies to both.
        """
        value = simplest_value(low, high)
        program = None if value is None else multiplied(self._program, value.denominator)
        if value is None or program is None:
            return
        level = float(value.numerator)
        point = self._solution(ProgramFamily(program).at(level))
        if point is not None:
            self.bracket.raise_lower(rounded_down(value), point)
        x = self._solution(multiplier_problem(program, level))
        if x is not None:
            self.bracket.reduce_upper(0.0 - rounded_down(-value), -x[0] / value.denominator)
        self.value = value if point is not None and x is not None else None

    def _solution(self, problem: FeasibilityProblem | None) -> Point | None:
        """Return a point of a problem that is proved to have an exact solution near it."""
        deadline = self._settings.deadline
        if problem is None or deadline.expired:
            return None
        found = solve(problem, self._settings.solver, time_limit=deadline.left, rigorous=True)
        return found.point if found.verdict is Verdict.FEASIBLE else None


def converges_to_ray(claim: Claim) -> bool:
    """Whether the embedding of an interior-point method ended at a ray, so that a program has no optimum."""
    return bool(claim.info.get("kappa", 0.0) > claim.info.get("tau", math.inf))


# --- Exact values


def simplest_value(low: float, high: float) -> Fraction | None:
    """Return the simplest fraction in a bracket; None if it is not simple."""
    if low <= 0.0 <= high:
        return Fraction(0)
    least, most = sorted((abs(Fraction(low)), abs(Fraction(high))))
    unit = max(least.denominator, most.denominator)
    found = simplest_between(int(least * unit), int(most * unit), unit, SIMPLE_VALUE_SIZE)
    return found if found is None or low > 0.0 else -found


def multiplied(program: ConicProgram, factor: int) -> ConicProgram | None:
    """Return a program with its objective multiplied by an integer; None if that rounds a number."""
    if factor == 1:
        return program
    with np.errstate(over="ignore"):
        terms = tuple(factor * c for c in program.objective)
    pairs = (
        pair
        for c, t in zip(program.objective, terms, strict=True)
        for pair in set(zip(c.reshape(-1).tolist(), t.reshape(-1).tolist(), strict=True))
    )
    exact = all(math.isfinite(t) and factor * Fraction(c) == Fraction(t) for c, t in pairs)
    return replace(program, objective=terms) if exact else None


def multiplier_problem(program: ConicProgram, level: float = math.inf) -> FeasibilityProblem | None:
    """Return the problem of ``x = -y`` for multipliers ``y`` that prove a bound of at most ``level``.

    ``A*x - c`` is in the cones and zero on Free blocks, ``x_i`` has the sign of the bound of its row, and
    ``b'x <= level``. None without rows, if a set is no cone, or if a row has two different bounds.
    """
    problem, lmis = program.problem, list[LMI]()
    below, above = np.isfinite(problem.lower), np.isfinite(problem.upper)
    sided = np.flatnonzero(~problem.equality)
    cones = all(block.cone or block.free for block in problem.sets)
    if not problem.m or not cones or np.any(below[sided] == above[sided]):
        return None
    parts = [sp.eye_array(problem.m, format="csr")[sided]]
    lower = [np.where(below[sided], -np.inf, 0.0)]
    upper = [np.where(below[sided], 0.0, np.inf)]
    for (_, block, rows), c in zip(problem.blocks(), program.objective, strict=True):
        if block.free:
            parts.append(rows.to_csr().T)
            lower.append(c)
            upper.append(c)
        else:
            lmis.append(LMI(block, -c, [rows]))
    if math.isfinite(level):
        parts.append(sp.csr_array(np.where(below, problem.lower, problem.upper)[None]))
        lower.append(np.array([-np.inf]))
        upper.append(np.array([level]))
    matrix = sp.csr_array(sp.vstack(parts, format="csr"))
    bounds = np.concatenate(lower), np.concatenate(upper)
    return FeasibilityProblem([Free(problem.m)], [matrix if matrix.shape[0] else None], *bounds, lmis=lmis)


# --- Convex combinations with strictly feasible evidence


def combined_points(
    problem: FeasibilityProblem, found: Point, interior: Point
) -> tuple[float, Callable[[float], Point]]:
    """Return ``(1 - t) found + t interior`` as a function of ``t``, with ``found`` moved onto the rows.

    Also returns the least ``t`` that makes up for the part of ``found`` that is outside its sets.
    """
    moved = moved_onto_rows(problem, found)
    near = found if moved is None else moved
    blocks = (each for each in zip(problem.sets, near, interior, strict=True) if not each[0].free)
    return _share_outside(blocks), lambda t: tuple(
        (1.0 - t) * x + t * z for x, z in zip(near, interior, strict=True)
    )


def combined_multipliers(
    program: ConicProgram, found: FloatArray, interior: FloatArray
) -> tuple[float, Callable[[float], FloatArray]]:
    """Return ``(1 - t) found + t interior`` as a function of ``t``.

    Also returns the least ``t`` that makes up for what of the dual slack ``-(c + A*y)`` is outside its cones.
    """
    with np.errstate(all="ignore"):
        slacks = [
            [-(c + part) for c, part in zip(program.objective, program.problem.adjoint(y), strict=True)]
            for y in (found, interior)
        ]
    blocks = (each for each in zip(program.problem.sets, *slacks, strict=True) if each[0].cone)
    return _share_outside(blocks), lambda t: (1.0 - t) * found + t * interior


def _share_outside(blocks: Iterable[tuple[BlockSet, FloatArray, FloatArray]]) -> float:
    """Return the least share of the interior at which combinations are inside; infinity without one."""
    share = 0.0
    with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
        for block, x, z in blocks:
            deep = block.depth(z)
            share = max(share, -block.depth(x) / deep if deep > 0.0 else math.inf)
        return share
    return math.inf


def bisect_weights(least: float, proved: Callable[[float], bool]) -> None:
    """Try weights below one, from ``least`` in powers of two, in search of the least that is proved."""
    least = max(OUTSIDE_FACTOR * least, LEAST_WEIGHT)
    low, high = 0, math.ceil(-math.log2(min(least, 1.0)))
    while low < high:
        middle = (low + high) // 2
        if proved(least * 2.0**middle):
            high = middle
        else:
            low = middle + 1


# --- Programs without strictly feasible points


def program_on_face(
    program: ConicProgram,
    deadline: Deadline,
    chain: Chain | None = None,
    *,
    deep: bool = True,
    start: FloatArray | None = None,
) -> tuple[Reduction, ConicProgram] | None:
    """Return the program on the face that facial reduction finds, with the reduction; None without one.

    A facial reduction certificate proves in integers that all points lie on faces of the sets
    (:mod:`sdpfeas.verifier.facial_reduction`), so both bounds of the program there are bounds of this one.
    ``chain`` is such a certificate, if one is known. Unless ``deep``, only faces that single rows expose are
    found; with ``start`` those that multipliers near it expose as well.
    """
    problem = program.problem
    if deadline.expired or not Facial.supports(problem):
        return None
    left = deadline.limit
    limit = deadline if left is None else deadline.within(FACIAL_TIME_SHARE * left)
    with suppress(LimitError), limited(limit):
        if chain is not None:
            faces = replay(problem, chain).faces
        else:
            rows = integral_rows(problem, Reading.STORED)
            if start is not None and not rows.simple:
                return None  # with rounded data multipliers prove no face
            *_, state = search_stages(rows, limit, deep=deep, start=start, auxiliary=start is None)
            if state.contradiction or not len(state.chain):
                return None
            faces = state.faces
        if faces.problem is not problem:
            return None  # LMIs or vector cones were rewritten as rows
        with suppress(NotReduced):
            reduction, terms = faces.reduction, faces.terms(program.objective)
            if reduction is not None and terms is not None:
                return reduction, ConicProgram(reduction.problem, terms)
    return None
