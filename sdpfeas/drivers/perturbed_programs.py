"""Optima where the interior is too thin for floating-point numbers: the program as a deep point sees it.

However thin the points of a problem are, next to one in the middle of them (``X = L S L'``, S about one) all
others are of moderate size. There solvers find what they cannot see from outside, and points are proved in
balls of many bits (:mod:`sdpfeas.verifier.multiprecision`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property

import numpy as np

from sdpfeas.backends.auto import Auto
from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.dispatch import dispatch_program
from sdpfeas.backends.facial.facial_backend import Facial, reduce
from sdpfeas.backends.inquiry import Inquiry, Progress
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.claims import Claim, Stop, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bracket import WIDE, BoundListener, Bracket, Search
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import ClaimError, LimitError
from sdpfeas.numerics.cost_estimate import limited
from sdpfeas.numerics.linalg import FloatArray, eigh
from sdpfeas.numerics.rounding import TINY
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.multiprecision import Precise, Proved, fits_balls
from sdpfeas.verifier.repair import moved_onto_rows
from sdpfeas.verifier.results import Result
from sdpfeas.verifier.rigorous import prove_point

# ------------------------------------------------------------
# Points between one that is nearly optimal and one deep inside: deep enough for a proof, and no deeper.
#
# What a solver ends with lies on the boundary up to its accuracy. On the way from there to a point in the
# interior depth grows in proportion to what it costs, whatever the size of the multipliers, and every point
# of the way meets equality rows as well as its two ends do.

#: How many times further a point is pulled where it was too little.
FURTHER = 8.0


def pulled_point(program: ConicProgram, found: Point, deep: Point, cost: float) -> Point | None:
    """The first provable point on the way from one that was found to one deep inside; None without one.

    ``program``: what is maximised over which problem. ``found``: a point that is nearly optimal. ``cost``:
    how much of the objective may well be given up, and is at first.
    """
    problem = program.problem
    moved = moved_onto_rows(problem, found)
    near = found if moved is None else moved
    with np.errstate(all="ignore"):
        drop = sum(float(np.vdot(c, x - z)) for c, x, z in zip(program.objective, near, deep, strict=True))
    if not math.isfinite(drop):
        return None
    if not drop > 0.0:
        return None
    way = on_the_way(near, deep, cost / drop)
    return next((place for place in way if prove_point(problem, place).proven), deep)


def between(near: Point, deep: Point, share: float) -> Point:
    """The point a share of the way from one to another."""
    return tuple((1.0 - share) * x + share * z for x, z in zip(near, deep, strict=True))


def on_the_way(near: Point, deep: Point, share: float) -> Iterator[Point]:
    """Points between two, further and further from the first, from a share of the way on."""
    while 0.0 < share < 1.0:
        yield between(near, deep, share)
        share *= FURTHER


#: Times that a metric is looked for.
TURNS = 6

#: Eigenvalues of a point in a good metric are no further apart than this.
SPREAD = 1e3

#: Eigenvalues of a point below this share of the largest may be anything.
NOISE = 1e-16

#: Share of the time left that one look for a deep point may take.
SHARPENING_TIME_SHARE = 0.2


class Sharpened:
    """A program in the metric of a point that is proved to lie deep inside."""

    def __init__(self, precise: Precise, deep: Point) -> None:
        self._precise, self._deep = precise, deep
        self._program = precise.program
        self._units = tuple(
            block.identity() if block.cone else np.zeros(block.shape) for block in self._program.problem.sets
        )

    def ask(self, backend: FeasibilityBackend, deadline: Deadline, apart: float = 0.0) -> Claim:
        """Maximise ``c + apart·I`` in the metric."""
        terms = tuple(c + apart * unit for c, unit in zip(self._program.objective, self._units, strict=True))
        inquiry = Inquiry(self._program.problem, deadline=deadline, wanted="margin")
        with limited(inquiry.limit):
            return dispatch_program(backend, ConicProgram(self._program.problem, terms), inquiry)

    def value(self, inner: Point) -> float:
        """The objective at a point in the metric."""
        return sum(float(np.vdot(c, x)) for c, x in zip(self._program.objective, inner, strict=True))

    def size(self, inner: Point) -> float:
        """The trace of a point in the metric: what one unit of ``apart`` costs."""
        return sum(float(np.vdot(unit, x)) for unit, x in zip(self._units, inner, strict=True))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Multipliers of the rows as they were."""
        return self._precise.multipliers(y)

    def proved(self, inner: Point, cost: float) -> Proved | None:
        """What is proved by the first provable point on the way from one in the metric to the deep one.

        ``inner``: a point in the metric that is nearly optimal. ``cost``: how much of the objective may
        well be given up.
        """
        drop = self.value(inner) - self.value(self._deep)
        share = cost / drop if drop > cost > 0.0 else 1.0
        for between in (inner, *on_the_way(inner, self._deep, share)):
            found = self._precise.prove(between)
            if found is not None:
                return found
        return self._precise.prove(self._deep)


def sharpen(
    program: ConicProgram, starts: Iterator[Point], solver: Solver, deadline: Deadline
) -> Sharpened | None:
    """Look for a metric in which a point of a program is provable and of moderate size; None without one.

    ``program``: a program whose problem fits balls. ``solver``: who is asked for points in the metric.
    """
    sets = program.problem.sets
    for start in starts:
        roots = [_root(block, x) for block, x in zip(sets, start, strict=True)]
        best = None
        for _ in range(TURNS):
            if deadline.expired or not all(np.isfinite(root).all() for root in roots):
                break
            try:
                precise = Precise(program, roots)
            except np.linalg.LinAlgError:
                break
            limit = deadline.limit
            limit = None if limit is None else SHARPENING_TIME_SHARE * limit
            found = solve(precise.program.problem, solver, time_limit=limit)
            inner = found.point if found.point is not None else found.claim.point
            if inner is None or not all(np.isfinite(x).all() for x in inner):
                break
            if precise.prove(inner) is not None:
                best = Sharpened(precise, inner)
                if max(_spread(block, x) for block, x in zip(sets, inner, strict=True)) <= SPREAD:
                    break
            roots = [
                root @ _root(block, x) if block.matrix else root * _root(block, x)
                for block, root, x in zip(sets, roots, inner, strict=True)
            ]
        if best is not None:
            return best
    return None


def _root(block: BlockSet, x: FloatArray) -> FloatArray:
    """``L`` with ``L L'`` near a matrix, or the positive part of a vector; ones for a free one."""
    if block.free:
        return np.ones(block.n)
    if not block.matrix:
        return np.maximum(x, NOISE * max(float(np.max(np.abs(x))), np.finfo(float).tiny))
    lam, vec = eigh(x)
    return np.asarray(vec * np.sqrt(np.maximum(lam, NOISE * max(float(np.max(np.abs(lam))), 1e-300))))


def _spread(block: BlockSet, x: FloatArray) -> float:
    """Largest eigenvalue over the least; one for a free vector."""
    if block.free:
        return 1.0
    lam = block.decompose(x)[0]
    least = float(np.min(lam))
    return float(np.max(lam)) / least if least > 0.0 else np.inf


# ------------------------------------------------------------
# Programs without an interior: the same objective over the smaller problem on faces that hold all points.
#
# A chain (:mod:`sdpfeas.verifier.facial_reduction`) proves, in integers, that all points lie on faces of the
# sets. There the problem may have an interior, and both bounds of its value are bounds of the original's.

#: Share of the time left that faces are looked for.
FACIAL_TIME_SHARE = 0.3


def program_on_face(
    problem: FeasibilityProblem, terms: Point, deadline: Deadline
) -> tuple[Reduction, ConicProgram] | None:
    """Return the program on the minimal face found and the way back; None if no smaller face was found."""
    if deadline.expired or not Facial.supports(problem):
        return None
    left = deadline.limit
    with suppress(LimitError):
        found = reduce(problem, time_limit=None if left is None else FACIAL_TIME_SHARE * left)
        faces = found.faces
        if faces is None or faces.problem is not problem:
            return None
        reduction = found.reduction if len(found.chain) else None
        made = None if reduction is None else faces.terms(terms)
        if reduction is not None and made is not None:
            return reduction, ConicProgram(reduction.problem, made)
    return None


# ------------------------------------------------------------
# The programs behind a proven bracket: as they are, and moved into the interior.

#: Shares of the tolerance that moving into the interior may cost, tried in turn for an end not yet proved.
SHARES = (0.2, 0.45, 3.0, 50.0)

#: An end is good enough if it is no further than this share of the tolerance from the value that was found.
GOOD = 0.5

#: Numbers in the iterates that are remembered.
REMEMBERED = 20_000_000

#: How many times the way from what proves an end to what was found is halved.
HALVINGS = 4

#: A value below this share of the terms it adds up is as good as zero.
ZERO = 1e-6

#: Share of the time left that a point deep inside is looked for, and how many times that of the program plus
#: a second: it takes less where the interior is not thin.
PULL_TIME, PATIENCE = 0.3, 2.0


Candidates = tuple[Point | None, FloatArray | None]
Evidence = Callable[[Point | None, FloatArray | None], Candidates]


class LookingBack(BoundListener):
    """A watch on a program whose evidence has to be made into that of the family.

    Earlier iterates of an interior-point method lie deeper inside than later ones. Where what it ends with
    does not close the bracket, the last of them is looked for that improves on it.

    ``bracket``: what the candidates are offered to. ``evidence``: makes a point and multipliers of the
    family of those of the program.
    """

    def __init__(self, bracket: Bracket, evidence: Evidence) -> None:
        super().__init__(bracket, None)
        self._evidence = evidence
        self._passed: list[Candidates] = []
        self._room = REMEMBERED

    def __call__(self, progress: Progress) -> bool:
        """Remember the candidates, and offer them if it is their turn."""
        parts = [*(progress.point or ()), *([] if progress.certificate is None else [progress.certificate])]
        self._room -= sum(part.size for part in parts)
        if progress.gap is not None and self._room >= 0:
            self._passed.append((progress.point, progress.certificate))
        return super().__call__(progress)

    def finish(self, claim: Claim) -> None:
        """Offer what the solve ended with; then, while the bracket is open, what it passed by."""
        super().finish(claim)
        bracket = self._bracket
        # An end that nothing proves comes first: where there is one, the other is as good as it need be.
        missing = [end for end in ("lower", "upper") if not math.isfinite(getattr(bracket, end))]
        for end in missing or ("lower", "upper"):
            if not self.decided:
                self._look_back(end)
        for end in () if missing else ("lower", "upper"):
            self._go_further(end, (claim.point, claim.certificate))

    def wants_preview(self, gap: float) -> bool:
        """Never: where a backend is going lies on the boundary, and is pulled inside in the end."""
        return False

    def previewed(self, point: Point | None, multipliers: FloatArray | None) -> bool:
        """Take nothing from it, therefore."""
        return self.decided

    def _look_back(self, end: str) -> None:
        """Find the latest iterate that improves an end, by steps that double and then halve."""
        late, early, step = len(self._passed), -1, 1
        while late - early > 1:
            k = max(late - step, 0) if early < 0 else (early + late) // 2
            try:
                improved = self._improves(end, *self._made(self._passed[k]))
            except LimitError:
                return  # the others are as large
            if improved:
                early = k
            else:
                late, step = k, 2 * step

    def _go_further(self, end: str, found: Candidates) -> None:
        """Go from what proves an end towards what the solve ended with, as far as there is a proof."""
        there, proved = self._made(found), (self._bracket.point, self._bracket.certificate)
        share, step = 0.0, 0.5
        with suppress(LimitError):
            for _ in range(HALVINGS):
                if self.decided:
                    return
                if self._improves(end, *_between(proved, there, share + step)):
                    share += step
                step /= 2.0

    def _made(self, found: Candidates) -> Candidates:
        """What candidates of the program are to the family; nothing if they are malformed."""
        try:
            return self._evidence(*found)
        except ClaimError:
            return None, None

    def _improves(self, end: str, point: Point | None, y: FloatArray | None) -> bool:
        """Whether a candidate of the family moves an end."""
        before = getattr(self._bracket, end)
        with suppress(ClaimError):
            if end == "lower":
                self._bracket.offer_point(point)
            else:
                self._bracket.offer_multipliers(y)
        return bool(getattr(self._bracket, end) != before)

    def _offer(self, point: Point | None, y: FloatArray | None, recover: bool, both: bool = False) -> None:
        super()._offer(*self._evidence(point, y), recover, both)


def _between(proved: Candidates, found: Candidates, share: float) -> Candidates:
    """A share of the way from one pair of candidates to another, where there are both."""
    point, y = None, None
    if proved[0] is not None and found[0] is not None:
        point = between(proved[0], found[0], share)
    if proved[1] is not None and found[1] is not None:
        (y,) = between((proved[1],), (found[1],), share)
    return point, y


class Programs:
    """The program as it is, and moved into the interior.

    ``search``: the search; its bracket takes what is proved. ``again``: brackets the maximum of another
    program: lower and upper end, and a point for the lower one. ``turned``: of a dual program, what makes
    evidence about the family of that about the program.
    """

    def __init__(
        self,
        search: Search,
        problem: FeasibilityProblem,
        terms: Point,
        again: Callable[[ConicProgram], tuple[float, float, Point | None]],
        turned: Evidence | None = None,
    ) -> None:
        self._again = again
        self._search, self._problem, self._terms, self._turned = search, problem, terms, turned
        self._units = tuple(
            block.identity() if block.cone else np.zeros(block.shape) for block in problem.sets
        )
        with np.errstate(over="ignore"):
            self._along = problem.apply(self._units)
        #: Seconds that the program as it is took, and whether no point deep inside was found then.
        self._took, self._thin = 0.0, False

    def run(self) -> str:
        """Ask until the bracket is closed, and say why it ended."""
        bracket = self._search.bracket
        try:
            claim = self._ask(0.0, 0.0, self._search.backend)
            if self._thin:
                self._on_face()
                self._sharpen(claim)
            for backend in self._backends():
                for share in SHARES:
                    if bracket.closed:
                        return "closed"
                    if self._search.deadline.expired:
                        return str(Stop.TIME_LIMIT)
                    moves = self._moves(claim, share)
                    if moves is None:
                        break
                    claim = self._better(claim, self._ask(*moves, backend))
            if not self._thin:
                self._sharpen(claim)
        except LimitError as error:
            return str(error)
        if bracket.closed:
            return "closed"
        if not (math.isfinite(bracket.lower) and math.isfinite(bracket.upper)):
            return f"there may be no interior ({claim.stop})"
        return f"{claim.stop}; {WIDE}"

    def _backends(self) -> list[FeasibilityBackend]:
        """Who is asked for moved programs: where the choice is free, another one after the first."""
        found = [self._search.backend]
        if isinstance(found[0], Auto) and not found[0].options.order:
            other = find_solver("clarabel").make(mode="direct")
            found += [other] if other.available()[0] else []
        return found

    @staticmethod
    def _better(old: Claim, new: Claim) -> Claim:
        return old if new.point is None or new.certificate is None else new

    @cached_property
    def _inside(self) -> Result:
        """An answer to whether there is a point at all."""
        limit = min(PULL_TIME * self._search.deadline.left, PATIENCE * (self._took + 1.0))
        return solve(self._problem, self._search.solver, time_limit=max(limit, 1e-3), rigorous=True)

    def _pull(self, claim: Claim, watch: LookingBack) -> None:
        """Pull the point that was found towards one that is deep inside, no further than a proof takes."""
        search = self._search
        if claim.point is None or watch.decided or search.deadline.expired:
            return
        value, wanted = self._wanted(claim.point)
        if not self._ends(value)[0] > GOOD * wanted:
            return
        deep = self._inside
        # A point on a face, which a chain leads to, is not deep inside.
        self._thin = deep.verdict is not Verdict.FEASIBLE or deep.check.chain is not None
        if not self._thin and deep.point is not None:
            program = ConicProgram(self._problem, self._terms)
            found = pulled_point(program, claim.point, deep.point, 0.5 * GOOD * wanted)
            watch.offered(found, claim.certificate, None)

    def _on_face(self) -> None:
        """Look at the program on the faces that hold all points, where there is no interior."""
        bracket = self._search.bracket
        found = program_on_face(self._problem, self._terms, self._search.deadline)
        if found is None:
            return
        reduction, program = found
        lower, upper, point = self._again(program)
        if point is not None and math.isfinite(lower):
            self._take(Proved(lower, reduction.point(point)))
        if self._turned is None and upper < bracket.upper:
            # Multipliers on a face are none of the problem.
            bracket.upper, bracket.certificate, bracket.upper_proven = upper, None, True

    def _sharpen(self, claim: Claim) -> None:
        """Look from a point deep inside, and prove in balls, where the interior is thin."""
        search = self._search
        if search.bracket.closed or search.deadline.expired or not fits_balls(self._problem):
            return
        program = ConicProgram(self._problem, self._terms)
        seen = sharpen(program, self._starts(claim), search.solver, search.deadline)
        if seen is None:
            return
        found = seen.ask(search.backend, search.deadline)
        if found.point is None or found.certificate is None:
            return
        proved = seen.proved(found.point, GOOD * search.bracket.tol * abs(seen.value(found.point)))
        if proved is not None:
            self._take(proved)
            value, wanted = self._wanted(proved.point)
            for share in (0.0, *SHARES):
                if not self._ends(value)[1] > GOOD * wanted:
                    return
                apart = share * wanted / max(seen.size(found.point), TINY)
                if not math.isfinite(apart):
                    return
                moved = seen.ask(search.backend, search.deadline, apart) if share else found
                if moved.certificate is not None:
                    self._offer_multipliers(seen.multipliers(moved.certificate))

    def _starts(self, claim: Claim) -> Iterator[Point]:
        """Points that may be near the middle of all."""
        points = (self._inside.claim.point, claim.point, self._units)
        yield from (point for point in points if point is not None)

    def _take(self, proved: Proved) -> None:
        """Let what is proved of an exact point tighten the bracket."""
        bracket = self._search.bracket
        if self._turned is None and proved.value > bracket.lower:
            bracket.lower, bracket.point, bracket.lower_proven = proved.value, proved.point, True
        elif self._turned is not None and -proved.value < bracket.upper:
            bracket.upper, bracket.certificate = -proved.value, self._turned(proved.point, None)[1]
            bracket.upper_proven = True

    def _offer_multipliers(self, y: FloatArray) -> None:
        bracket, family = self._search.bracket, self._search.family
        with suppress(ClaimError):
            if self._turned is None:
                bracket.offer_multipliers(family.program_multipliers(y))
            else:
                bracket.offer_point(self._turned(None, y)[0])

    def _wanted(self, point: Point) -> tuple[float, float]:
        """The value of a point, and how wide the bracket around it may be."""
        bracket = self._search.bracket
        with np.errstate(all="ignore"):
            parts = [c * x for c, x in zip(self._terms, point, strict=True)]
            value, size = (sum(float(np.sum(part)) for part in each) for each in (parts, map(np.abs, parts)))
            return value, max(bracket.tol * max(abs(value), ZERO * size), bracket.absolute_tol)

    def _ends(self, value: float) -> tuple[float, float]:
        """How far below a value of the program points are proved, and how far above it multipliers."""
        bracket = self._search.bracket
        if self._turned is None:
            return value - bracket.lower, bracket.upper - value
        return bracket.upper + value, -value - bracket.lower

    def _moves(self, claim: Claim, share: float) -> tuple[float, float] | None:
        """How far to move points and multipliers, if the claim tells the sizes."""
        if claim.point is None or claim.certificate is None:
            return None
        terms = self._terms
        with np.errstate(all="ignore"):
            value, wanted = self._wanted(claim.point)
            slack = [-(c + g) for c, g in zip(terms, self._problem.adjoint(claim.certificate), strict=True)]
            primal, dual = (
                sum(max(float(np.vdot(unit, x)), 0.0) for unit, x in zip(self._units, part, strict=True))
                for part in (claim.point, slack)
            )
            # An end that is near enough to what the solver found may stay.
            ends = self._ends(value)
            inwards = share * wanted / dual if dual > 0.0 and ends[0] > GOOD * wanted else 0.0
            apart = share * wanted / primal if primal > 0.0 and ends[1] > GOOD * wanted else 0.0
        fine = math.isfinite(inwards) and math.isfinite(apart) and (inwards > 0.0 or apart > 0.0)
        return (inwards, apart) if fine else None

    def _ask(self, inwards: float, apart: float, backend: FeasibilityBackend) -> Claim:
        """Maximise ``c + apart·I`` over the points further than ``inwards`` inside, and take bounds."""
        problem, search = self._problem, self._search
        shift = inwards * self._along
        if inwards:
            problem = FeasibilityProblem(
                problem.sets, problem.rows, problem.lower - shift, problem.upper - shift
            )
        terms = tuple(c + apart * unit for c, unit in zip(self._terms, self._units, strict=True))

        def back(point: Point) -> Point:
            return tuple(x + inwards * unit for x, unit in zip(point, self._units, strict=True))

        def evidence(point: Point | None, y: FloatArray | None) -> Candidates:
            point = None if point is None else back(point)
            if self._turned is not None:
                return self._turned(point, y)
            return point, None if y is None else search.family.program_multipliers(y)

        begun = search.deadline.elapsed
        watch = LookingBack(search.bracket, evidence)
        inquiry = Inquiry(problem, deadline=search.deadline, wanted="margin", listener=watch)
        try:
            with limited(inquiry.limit):
                claim = dispatch_program(backend, ConicProgram(problem, terms), inquiry)
        except LimitError as error:
            claim = Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))
        point = None if claim.point is None else back(claim.point)
        moved = Claim(point, claim.certificate, claim.raw_status, claim.stop, claim.iterations)
        with suppress(LimitError):
            if not (inwards or apart):
                self._took = search.deadline.elapsed - begun
                self._pull(moved, watch)
            watch.finish(claim)
        return moved
