"""Bracket the maximum of a linear objective by perturbed programs: both ends are proved in the interior.

For ``max <c, X>`` a feasible point proves a lower bound and dual multipliers prove an upper one. The solution
of a numerical solver lies on the boundary up to its tolerance, where nothing can be proved. The program is
therefore perturbed: ``X - e·I`` in the cones instead of ``X``, and ``c + d·I`` instead of ``c``. Its points
have depth ``e`` in the original cones, ``c + A*y`` has depth ``d`` in their polars, and both bounds hold
despite rounding errors in rows and multipliers (Jansson, Chaykin and Keil, "Rigorous error bounds for the
optimal value in semidefinite programming", SIAM J. Numer. Anal. 2007). The perturbation costs ``e·tr S`` and
``d·tr X``, so ``e`` and ``d`` follow from the tolerance.

:class:`PerturbedPrograms` is the method. If a perturbation proves too little it falls back on

- convex combinations of the solution with a strictly feasible point (:func:`provable_combination`),
- earlier iterates, which lie deeper inside (:class:`BacktrackingListener`),
- the program on a face, if there is no strictly feasible point (:func:`program_on_face`),
- the program in rescaled coordinates ``X = L S L'``, if the interior is too thin for binary64
  (:func:`rescale_program`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.auto import Auto
from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.dispatch import dispatch_program
from sdpfeas.backends.facial.facial_backend import Facial, reduce
from sdpfeas.backends.inquiry import Inquiry, Progress
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.claims import Claim, Stop, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bisection import ThresholdSearch
from sdpfeas.drivers.bracket import WIDE, BoundListener, Bracket
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import ClaimError, LimitError
from sdpfeas.families.level_set import LevelSet
from sdpfeas.families.threshold_bounds import Bound
from sdpfeas.numerics.limits import limited
from sdpfeas.numerics.linalg import FloatArray, eigh
from sdpfeas.numerics.rounding import TINY
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.redundant_rows import DropRedundantRows
from sdpfeas.problem.rows import Stacked
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.multiprecision import CongruenceProgram, ProvedPoint, fits_balls
from sdpfeas.verifier.outcome import Tolerances
from sdpfeas.verifier.repair import moved_onto_rows
from sdpfeas.verifier.results import Result
from sdpfeas.verifier.rigorous import prove_point

#: Shares of the tolerance that a perturbation may cost, tried in turn for an end that is not yet proved.
PERTURBATION_SHARES = (0.2, 0.45, 3.0, 50.0)

#: An end is close enough if it is within this share of the tolerance from the value that was found.
CLOSE_SHARE = 0.5

#: A value below this share of the terms it sums is treated as zero when the tolerance is relative.
ZERO_VALUE_SHARE = 1e-6

#: Share of the time left for a strictly feasible point, and the limit in multiples of one second plus the
#: time of the unperturbed program; a wide interior takes less.
INTERIOR_TIME_SHARE, INTERIOR_TIME_FACTOR = 0.3, 2.0

#: Share of the time left for facial reduction.
FACIAL_TIME_SHARE = 0.3

#: Share of the time left for a point in one set of rescaled coordinates.
RESCALING_TIME_SHARE = 0.2

#: Most rescalings; coordinates are good if the eigenvalues of a point are within this ratio of each other.
MAX_RESCALINGS, MAX_CONDITION = 6, 1e3

#: Eigenvalues of a point below this share of the largest are rounding errors.
EIGENVALUE_NOISE = 1e-16

#: Growth of the weight of the strictly feasible point while a convex combination cannot be proved.
WEIGHT_GROWTH = 8.0

#: Most numbers in stored iterates (8 bytes each).
MAX_STORED_NUMBERS = 20_000_000

#: Halvings in the line search from proved evidence towards the solution.
LINE_SEARCH_HALVINGS = 4

#: Distances below the value of a point, relative to its terms, of the levels that it is tried to prove.
LEVEL_MARGINS = (1e-14, 1e-12, 1e-9)

Candidates = tuple[Point | None, FloatArray | None]
MapCandidates = Callable[[Point | None, FloatArray | None], Candidates]


class PerturbedPrograms:
    """Maximise ``<terms, X>`` over ``problem``, perturbed until the bracket of ``search`` is closed.

    ``bracket_maximum`` brackets the maximum of another program, such as the one on a face: lower end, upper
    end and a point. If the program is the dual of the family's, ``to_family`` maps its candidates to those of
    the family.
    """

    def __init__(
        self,
        search: ThresholdSearch,
        problem: FeasibilityProblem,
        terms: Point,
        bracket_maximum: Callable[[ConicProgram], tuple[float, float, Point | None]],
        to_family: MapCandidates | None = None,
    ) -> None:
        self._bracket_maximum = bracket_maximum
        self._search, self._problem, self._terms, self._to_family = search, problem, terms, to_family
        self._units = _units(problem)
        with np.errstate(over="ignore"):
            self._unit_rows = problem.apply(self._units)
        #: Seconds of the unperturbed program, and whether no strictly feasible point was found after it.
        self._first_seconds, self._no_interior = 0.0, False

    def solve(self) -> str:
        """Solve programs until the bracket is closed; return the stop reason."""
        bracket = self._search.bracket
        try:
            claim = self._solve_perturbed(0.0, 0.0, self._search.backend)
            if self._no_interior:
                self._solve_on_face()
                self._solve_rescaled(claim)
            for backend in self._backends():
                for share in PERTURBATION_SHARES:
                    if bracket.closed:
                        return "closed"
                    if self._search.deadline.expired:
                        return str(Stop.TIME_LIMIT)
                    perturbation = self._perturbation(claim, share)
                    if perturbation is None:
                        break
                    found = self._solve_perturbed(*perturbation, backend)
                    if found.point is not None and found.certificate is not None:
                        claim = found
            if not self._no_interior:
                self._solve_rescaled(claim)
        except LimitError as error:
            return str(error)
        if bracket.closed:
            return "closed"
        if not (math.isfinite(bracket.lower) and math.isfinite(bracket.upper)):
            return f"the problem or its dual may have no strictly feasible point ({claim.stop})"
        return f"{claim.stop}; {WIDE}"

    def _backends(self) -> list[FeasibilityBackend]:
        """Return the backends for perturbed programs; ``auto`` falls back on Clarabel."""
        found = [self._search.backend]
        if isinstance(found[0], Auto) and not found[0].options.order:
            other = find_solver("clarabel").make(mode="direct")
            found += [other] if other.available()[0] else []
        return found

    def _perturbation(self, claim: Claim, share: float) -> tuple[float, float] | None:
        """Return ``e, d`` that cost a share of the tolerance; None if the claim lacks ``X`` or ``S``."""
        if claim.point is None or claim.certificate is None:
            return None
        terms = self._terms
        with np.errstate(all="ignore"):
            value, width = self._value_and_width(claim.point)
            slack = [-(c + g) for c, g in zip(terms, self._problem.adjoint(claim.certificate), strict=True)]
            primal, dual = (
                sum(max(float(np.vdot(unit, x)), 0.0) for unit, x in zip(self._units, part, strict=True))
                for part in (claim.point, slack)
            )
            # An end that is close enough to the value is not perturbed.
            below, above = self._end_distances(value)
            e = share * width / dual if dual > 0.0 and below > CLOSE_SHARE * width else 0.0
            d = share * width / primal if primal > 0.0 and above > CLOSE_SHARE * width else 0.0
        usable = math.isfinite(e) and math.isfinite(d) and (e > 0.0 or d > 0.0)
        return (e, d) if usable else None

    def _solve_perturbed(self, e: float, d: float, backend: FeasibilityBackend) -> Claim:
        """Maximise ``c + d·I`` over points of depth ``e``, and offer the candidates to the bracket."""
        problem, search = self._problem, self._search
        if e:
            shift = e * self._unit_rows
            problem = FeasibilityProblem(
                problem.sets, problem.rows, problem.lower - shift, problem.upper - shift
            )
        terms = tuple(c + d * unit for c, unit in zip(self._terms, self._units, strict=True))

        def deepened(point: Point) -> Point:
            return tuple(x + e * unit for x, unit in zip(point, self._units, strict=True))

        def to_family(point: Point | None, y: FloatArray | None) -> Candidates:
            point = None if point is None else deepened(point)
            if self._to_family is not None:
                return self._to_family(point, y)
            return point, None if y is None else search.family.program_multipliers(y)

        started = search.deadline.elapsed
        listener = BacktrackingListener(search.bracket, to_family)
        inquiry = Inquiry(problem, deadline=search.deadline, wanted="margin", listener=listener)
        try:
            with limited(inquiry.limit):
                claim = dispatch_program(backend, ConicProgram(problem, terms), inquiry)
        except LimitError as error:
            claim = Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))
        point = None if claim.point is None else deepened(claim.point)
        found = Claim(point, claim.certificate, claim.raw_status, claim.stop, claim.iterations)
        with suppress(LimitError):
            if not (e or d):
                self._first_seconds = search.deadline.elapsed - started
                self._offer_combination(found, listener)
            listener.finish(claim)
        return found

    def _offer_combination(self, claim: Claim, listener: BacktrackingListener) -> None:
        """Offer a convex combination of the solution with a strictly feasible point, if one is needed."""
        search = self._search
        if claim.point is None or listener.decided or search.deadline.expired:
            return
        value, width = self._value_and_width(claim.point)
        if not self._end_distances(value)[0] > CLOSE_SHARE * width:
            return
        interior = self._feasible
        # A feasible point with a facial reduction certificate lies on a face, not in the interior.
        self._no_interior = interior.verdict is not Verdict.FEASIBLE or interior.check.chain is not None
        if not self._no_interior and interior.point is not None:
            program = ConicProgram(self._problem, self._terms)
            cost = 0.5 * CLOSE_SHARE * width
            found = provable_combination(program, claim.point, interior.point, cost)
            listener.offered(found, claim.certificate, None)

    @cached_property
    def _feasible(self) -> Result:
        """Result of the feasibility problem without the objective."""
        search = self._search
        limit = min(
            INTERIOR_TIME_SHARE * search.deadline.left, INTERIOR_TIME_FACTOR * (self._first_seconds + 1.0)
        )
        return solve(self._problem, search.solver, time_limit=max(limit, 1e-3), rigorous=True)

    def _solve_on_face(self) -> None:
        """Bracket the program on the minimal face, if there is no strictly feasible point."""
        bracket = self._search.bracket
        found = program_on_face(self._problem, self._terms, self._search.deadline)
        if found is None:
            return
        reduction, program = found
        lower, upper, point = self._bracket_maximum(program)
        if point is not None and math.isfinite(lower):
            self._accept(ProvedPoint(lower, reduction.point(point)))
        if self._to_family is None and upper < bracket.upper:
            bracket.reduce_upper(upper, None)  # multipliers on a face are not multipliers of the problem

    def _solve_rescaled(self, claim: Claim) -> None:
        """Solve in rescaled coordinates and prove points in multiprecision, if the interior is thin."""
        search = self._search
        if search.bracket.closed or search.deadline.expired or not fits_balls(self._problem):
            return
        program = ConicProgram(self._problem, self._terms)
        rescaled = rescale_program(program, self._centres(claim), search.solver, search.deadline)
        if rescaled is None:
            return
        found = rescaled.solve(search.backend, search.deadline)
        if found.point is None or found.certificate is None:
            return
        cost = CLOSE_SHARE * search.bracket.tol * abs(rescaled.value(found.point))
        proved = rescaled.prove(found.point, cost)
        if proved is not None:
            self._accept(proved)
            value, width = self._value_and_width(proved.point)
            for share in (0.0, *PERTURBATION_SHARES):
                if not self._end_distances(value)[1] > CLOSE_SHARE * width:
                    return
                d = share * width / max(rescaled.trace(found.point), TINY)
                if not math.isfinite(d):
                    return
                perturbed = rescaled.solve(search.backend, search.deadline, d) if share else found
                if perturbed.certificate is not None:
                    self._offer_multipliers(rescaled.multipliers(perturbed.certificate))

    def _centres(self, claim: Claim) -> Iterator[Point]:
        """Yield points that may be near the analytic centre."""
        points = (self._feasible.claim.point, claim.point, self._units)
        yield from (point for point in points if point is not None)

    def _accept(self, proved: ProvedPoint) -> None:
        """Tighten the bracket by the proved value of an exact point."""
        bracket = self._search.bracket
        if self._to_family is None:
            bracket.raise_lower(proved.value, proved.point)
        else:
            bracket.reduce_upper(-proved.value, self._to_family(proved.point, None)[1])

    def _offer_multipliers(self, y: FloatArray) -> None:
        bracket, family = self._search.bracket, self._search.family
        with suppress(ClaimError):
            if self._to_family is None:
                bracket.offer_multipliers(family.program_multipliers(y))
            else:
                bracket.offer_point(self._to_family(None, y)[0])

    def _value_and_width(self, point: Point) -> tuple[float, float]:
        """Return the value of a point, and the width that the tolerance allows around it."""
        bracket = self._search.bracket
        with np.errstate(all="ignore"):
            parts = [c * x for c, x in zip(self._terms, point, strict=True)]
            value, size = (sum(float(np.sum(part)) for part in each) for each in (parts, map(np.abs, parts)))
            relative = bracket.tol * max(abs(value), ZERO_VALUE_SHARE * size)
            return value, max(relative, bracket.absolute_tol)

    def _end_distances(self, value: float) -> tuple[float, float]:
        """Return the distances from a value of the program to the ends that points and multipliers prove."""
        bracket = self._search.bracket
        if self._to_family is None:
            return value - bracket.lower, bracket.upper - value
        return bracket.upper + value, -value - bracket.lower


class BacktrackingListener(BoundListener):
    """Stores the iterates of a perturbed program, and falls back on earlier ones.

    Earlier iterates of an interior-point method lie deeper inside. If the last one does not close the
    bracket, a bisection finds the latest one that improves an end; a line search then moves from there
    towards the solution. ``to_family`` maps candidates of the program to those of the family.
    """

    def __init__(self, bracket: Bracket, to_family: MapCandidates) -> None:
        super().__init__(bracket, None)
        self._to_family = to_family
        self._iterates: list[Candidates] = []
        self._numbers_left = MAX_STORED_NUMBERS

    def __call__(self, progress: Progress) -> bool:
        """Store the candidates, and offer them if they are due."""
        parts = [*(progress.point or ()), *([] if progress.certificate is None else [progress.certificate])]
        self._numbers_left -= sum(part.size for part in parts)
        if progress.gap is not None and self._numbers_left >= 0:
            self._iterates.append((progress.point, progress.certificate))
        return super().__call__(progress)

    def finish(self, claim: Claim) -> None:
        """Offer the claim of the solve; then earlier iterates, while the bracket is open."""
        super().finish(claim)
        bracket = self._bracket
        # An end without any proof comes first: if there is one, the other end is close enough already.
        missing = [end for end in ("lower", "upper") if not math.isfinite(getattr(bracket, end))]
        for end in missing or ("lower", "upper"):
            if not self.decided:
                self._offer_latest_provable(end)
        for end in () if missing else ("lower", "upper"):
            self._search_line(end, (claim.point, claim.certificate))

    def wants_preview(self, gap: float) -> bool:
        """Never: a preview lies on the boundary, where nothing can be proved."""
        return False

    def previewed(self, point: Point | None, multipliers: FloatArray | None) -> bool:
        """Ignore previews."""
        return self.decided

    def _offer_latest_provable(self, end: str) -> None:
        """Find the latest iterate that improves an end: back by doubling steps, then by bisection."""
        late, early, step = len(self._iterates), -1, 1
        while late - early > 1:
            k = max(late - step, 0) if early < 0 else (early + late) // 2
            try:
                improved = self._improves(end, *self._mapped(self._iterates[k]))
            except LimitError:
                return  # the others are as large
            if improved:
                early = k
            else:
                late, step = k, 2 * step

    def _search_line(self, end: str, found: Candidates) -> None:
        """Move from the evidence of an end towards the solution, as far as it can be proved."""
        goal, proved = self._mapped(found), (self._bracket.point, self._bracket.certificate)
        share, step = 0.0, 0.5
        with suppress(LimitError):
            for _ in range(LINE_SEARCH_HALVINGS):
                if self.decided:
                    return
                if self._improves(end, *_combined_candidates(proved, goal, share + step)):
                    share += step
                step /= 2.0

    def _mapped(self, found: Candidates) -> Candidates:
        """Map candidates of the program to the family; None for malformed ones."""
        try:
            return self._to_family(*found)
        except ClaimError:
            return None, None

    def _improves(self, end: str, point: Point | None, y: FloatArray | None) -> bool:
        """Offer a candidate of the family; True if it moves an end."""
        before = getattr(self._bracket, end)
        with suppress(ClaimError):
            if end == "lower":
                self._bracket.offer_point(point)
            else:
                self._bracket.offer_multipliers(y)
        return bool(getattr(self._bracket, end) != before)

    def _offer(self, point: Point | None, y: FloatArray | None, recover: bool, both: bool = False) -> None:
        super()._offer(*self._to_family(point, y), recover, both)


# --- Convex combinations with a strictly feasible point


def provable_combination(program: ConicProgram, found: Point, interior: Point, cost: float) -> Point | None:
    """Return the first provable point on the segment from ``found`` to ``interior``, or ``interior``.

    Along the segment the depth grows in proportion to the loss of the objective, and equality rows hold as
    well as at both ends. The first point tried loses ``cost``. None if ``interior`` is not worse than
    ``found``.
    """
    problem = program.problem
    moved = moved_onto_rows(problem, found)
    near = found if moved is None else moved
    with np.errstate(all="ignore"):
        terms = zip(program.objective, near, interior, strict=True)
        loss = sum(float(np.vdot(c, x - z)) for c, x, z in terms)
    if not (math.isfinite(loss) and loss > 0.0):
        return None
    combinations = _combinations(near, interior, cost / loss)
    return next((point for point in combinations if prove_point(problem, point).proven), interior)


def _combinations(near: Point, interior: Point, weight: float) -> Iterator[Point]:
    """Yield convex combinations with growing weights of the second point."""
    while 0.0 < weight < 1.0:
        yield _combined(near, interior, weight)
        weight *= WEIGHT_GROWTH


def _combined(near: Point, far: Point, weight: float) -> Point:
    """Return ``(1 - weight)·near + weight·far``."""
    return tuple((1.0 - weight) * x + weight * z for x, z in zip(near, far, strict=True))


def _combined_candidates(near: Candidates, far: Candidates, weight: float) -> Candidates:
    """Combine points and multipliers; None for what one of the pairs lacks."""
    point, y = None, None
    if near[0] is not None and far[0] is not None:
        point = _combined(near[0], far[0], weight)
    if near[1] is not None and far[1] is not None:
        (y,) = _combined((near[1],), (far[1],), weight)
    return point, y


def _units(problem: FeasibilityProblem) -> Point:
    """Return the identity of every cone, and zero on free blocks."""
    return tuple(block.identity() if block.cone else np.zeros(block.shape) for block in problem.sets)


# --- Programs without strictly feasible points


def program_on_face(
    problem: FeasibilityProblem, terms: Point, deadline: Deadline
) -> tuple[Reduction, ConicProgram] | None:
    """Return the program on the face that facial reduction finds, with the reduction; None without one.

    A facial reduction certificate proves in integers that all points lie on faces of the sets
    (:mod:`sdpfeas.verifier.facial_reduction`), so both bounds of the program there are bounds of this one.
    """
    if deadline.expired or not Facial.supports(problem):
        return None
    left = deadline.limit
    with suppress(LimitError):
        found = reduce(problem, time_limit=None if left is None else FACIAL_TIME_SHARE * left)
        faces = found.faces
        if faces is None or faces.problem is not problem:
            return None
        reduction = found.reduction if len(found.chain) else None
        reduced_terms = None if reduction is None else faces.terms(terms)
        if reduction is not None and reduced_terms is not None:
            return reduction, ConicProgram(reduction.problem, reduced_terms)
    return None


# --- Rescaled coordinates, for an interior too thin for binary64
#
# However thin the feasible set is, in coordinates ``X = L S L'`` with ``L L'`` near its analytic centre all
# points are of moderate size. Solvers then find what rounding hides in the original coordinates, and points
# are proved in multiprecision ball arithmetic (:mod:`sdpfeas.verifier.multiprecision`).


class RescaledProgram:
    """A program in coordinates ``X = L S L'`` with a proved strictly feasible point ``interior``."""

    def __init__(self, precise: CongruenceProgram, interior: Point) -> None:
        self._precise, self._interior = precise, interior
        self._program = precise.program
        self._units = _units(self._program.problem)

    def solve(self, backend: FeasibilityBackend, deadline: Deadline, d: float = 0.0) -> Claim:
        """Maximise ``c + d·I`` in the rescaled coordinates."""
        terms = tuple(c + d * unit for c, unit in zip(self._program.objective, self._units, strict=True))
        inquiry = Inquiry(self._program.problem, deadline=deadline, wanted="margin")
        with limited(inquiry.limit):
            return dispatch_program(backend, ConicProgram(self._program.problem, terms), inquiry)

    def value(self, inner: Point) -> float:
        """Return the objective at a point in rescaled coordinates."""
        return sum(float(np.vdot(c, x)) for c, x in zip(self._program.objective, inner, strict=True))

    def trace(self, inner: Point) -> float:
        """Return the trace of a point in rescaled coordinates: the cost of one unit of ``d``."""
        return sum(float(np.vdot(unit, x)) for unit, x in zip(self._units, inner, strict=True))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers to the rows of the original program."""
        return self._precise.multipliers(y)

    def prove(self, inner: Point, cost: float) -> ProvedPoint | None:
        """Prove the first provable point on the segment from ``inner`` to the strictly feasible one.

        The first point after ``inner`` itself loses ``cost`` of the objective.
        """
        loss = self.value(inner) - self.value(self._interior)
        weight = cost / loss if loss > cost > 0.0 else 1.0
        for point in (inner, *_combinations(inner, self._interior, weight)):
            found = self._precise.prove(point)
            if found is not None:
                return found
        return self._precise.prove(self._interior)


def rescale_program(
    program: ConicProgram, starts: Iterator[Point], solver: Solver, deadline: Deadline
) -> RescaledProgram | None:
    """Find coordinates in which a point is provable and well-conditioned; None without a provable point.

    Each round solves the feasibility problem in the current coordinates and rescales to the point found.
    """
    sets = program.problem.sets
    for start in starts:
        roots = [_root(block, x) for block, x in zip(sets, start, strict=True)]
        best = None
        for _ in range(MAX_RESCALINGS):
            if deadline.expired or not all(np.isfinite(root).all() for root in roots):
                break
            try:
                precise = CongruenceProgram(program, roots)
            except np.linalg.LinAlgError:
                break
            limit = deadline.limit
            limit = None if limit is None else RESCALING_TIME_SHARE * limit
            found = solve(precise.program.problem, solver, time_limit=limit)
            inner = found.point if found.point is not None else found.claim.point
            if inner is None or not all(np.isfinite(x).all() for x in inner):
                break
            if precise.prove(inner) is not None:
                best = RescaledProgram(precise, inner)
                if max(_condition(block, x) for block, x in zip(sets, inner, strict=True)) <= MAX_CONDITION:
                    break
            roots = [
                root @ _root(block, x) if block.matrix else root * _root(block, x)
                for block, root, x in zip(sets, roots, inner, strict=True)
            ]
        if best is not None:
            return best
    return None


def _root(block: BlockSet, x: FloatArray) -> FloatArray:
    """Return ``L`` with ``L L'`` near a matrix, the positive part of a vector, or ones for a free block."""
    if block.free:
        return np.ones(block.n)
    if not block.matrix:
        return np.maximum(x, EIGENVALUE_NOISE * max(float(np.max(np.abs(x))), np.finfo(float).tiny))
    lam, vec = eigh(x)
    least = EIGENVALUE_NOISE * max(float(np.max(np.abs(lam))), 1e-300)
    return np.asarray(vec * np.sqrt(np.maximum(lam, least)))


def _condition(block: BlockSet, x: FloatArray) -> float:
    """Return the condition number of a point; one for a free block."""
    if block.free:
        return 1.0
    lam = block.decompose(x)[0]
    least = float(np.min(lam))
    return float(np.max(lam)) / least if least > 0.0 else np.inf


# --- LMIs in free variables alone


def has_only_lmis(problem: FeasibilityProblem) -> bool:
    """Whether a problem consists of LMIs into cones in free variables, without rows."""
    cones = all(block.free for block in problem.sets) and all(lmi.set.cone for lmi in problem.lmis)
    return bool(problem.lmis) and not problem.m and cones


class LmiLevels(LevelSet):
    """Level sets of ``c'x`` over LMIs in free variables, with proofs that need no slack variables.

    A point is proved by the LMIs themselves. An upper bound is proved by a point of the dual program: an
    exact ``Y`` in the cones with ``<F_i, Y> = -c_i`` proves
    ``c'x = <Y, F(0)> - <Y, F(x)> <= <Y, F(0)>`` for every feasible ``x``. The level set itself is that of the
    slack form.

    ``independent`` removes dependent rows of the dual program, which exist unless ``x`` is unique. ``dual``
    has the multipliers of the LMIs as variables and one row per remaining unknown, ``dual_terms`` is its
    objective.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        terms: Point,
        independent: Callable[[FeasibilityProblem], DropRedundantRows],
    ) -> None:
        self._lmis, self._terms, self._slacks = problem, terms, problem.slack_form
        inner = self._slacks.problem
        goal = [*_as_rows(terms), *[None] * (len(inner.sets) - len(terms))]
        super().__init__(inner.sets, goal, inner.rows, inner.lower, inner.upper)
        right = -np.concatenate(terms)
        whole = FeasibilityProblem([lmi.set for lmi in problem.lmis], _dual_rows(problem), right, right)
        self._independent = independent(whole)
        self.dual = self._independent.problem
        self.dual_terms = tuple(-lmi.constant for lmi in problem.lmis)
        goal = _as_rows(self.dual_terms)
        self._dual_levels = LevelSet(self.dual.sets, goal, self.dual.rows, self.dual.lower, self.dual.upper)
        self._cuts = np.cumsum([block.n for block in problem.sets])[:-1]

    def from_dual(self, point: Point | None, y: FloatArray | None) -> Candidates:
        """Map a point and multipliers of the dual program to multipliers and a point of the family."""
        x = None if y is None else tuple(np.split(-self._independent.multipliers(y), self._cuts))
        primal = None if x is None else self._slacks.start_point(x)
        if point is None:
            return primal, None
        flat = self._slacks.start_multipliers(np.concatenate([part.reshape(-1) for part in point]))
        return primal, self.program_multipliers(flat)

    def prove_lower(self, point: Any, above: float = -math.inf) -> Bound | None:
        """Prove a level from a point, by the LMIs themselves."""
        x = self._slacks.point(tuple(point))
        with np.errstate(all="ignore"):
            parts = [c * part for c, part in zip(self._terms, x, strict=True)]
            value = float(sum(np.sum(part) for part in parts))
            size = float(sum(np.sum(np.abs(part)) for part in parts))
        if not math.isfinite(size):
            return None
        if value <= above:
            return Bound(-math.inf, tuple(point))
        with np.errstate(all="ignore"):
            goal = _as_rows(self._terms)
            for margin in LEVEL_MARGINS:
                level = value - margin * size
                at_level = FeasibilityProblem(self._lmis.sets, goal, [level], [np.inf], lmis=self._lmis.lmis)
                if prove_point(at_level, at_level.point(x), Tolerances()).proven:
                    return Bound(level, tuple(point))
        return None

    def prove_upper(
        self, y: Any, near: float | None = None, push: float = 0.0, below: float = math.inf
    ) -> Bound | None:
        """Prove an upper bound from multipliers, by an exact point of the dual program next to them."""
        z = np.asarray(y, dtype=np.float64)
        if not (np.isfinite(z).all() and z[0] > 0.0):
            return None
        flat = self._slacks.multipliers(z[1:]) / z[0]
        shapes = [block.shape for block in self.dual.sets]
        parts = np.split(flat, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        matrices = tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
        bound = self._dual_levels.prove_lower(matrices, -below)
        return None if bound is None else Bound(-bound.delta, z)


def _as_rows(terms: Point) -> list[Any]:
    """Return an objective as one sparse row per block; None for zero ones."""
    return [sp.csr_array(c.reshape(1, -1)) if c.any() else None for c in terms]


def _dual_rows(problem: FeasibilityProblem) -> list[Any]:
    """Return the coefficients of every LMI, one row per unknown."""
    out = []
    for lmi in problem.lmis:
        parts = lmi.coefficients
        out.append(parts[0] if len(parts) == 1 else Stacked(parts))
    return out
