"""Two runs side by side, one tightened and one widened."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpfeas.backends.admm.evidence import Cleaner, Equations
from sdpfeas.backends.admm.options import AdmmOptions
from sdpfeas.backends.admm.screens import Judge, looks_inside, looks_strict, term_sizes
from sdpfeas.backends.admm.space import Space, equilibrate
from sdpfeas.backends.admm.splitting import Splitting
from sdpfeas.backends.inquiry import Inquiry, WarmStart
from sdpfeas.errors import OutOfTime
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.verifier.results import Claim, Stop

__all__ = ["Search"]

#: Each margin is this share of the one before.
MARGIN_STEP = 1e-2

#: Rows that are equations weigh this much more than inequalities.
EQUALITY_WEIGHT = 32.0

#: On problems with more rows or entries than this, nothing is offered that does not look right.
REPAIR_ROWS, REPAIR_ENTRIES = 200, 10_000

#: A starting point that misses an equality row by more than this, relative to its terms, is not tried.
NEARLY = 1e-6


class Search:
    """The two runs side by side, until what one of them offers settles the inquiry."""

    def __init__(self, problem: FeasibilityProblem, options: AdmmOptions, inquiry: Inquiry) -> None:
        self.original = problem
        self.options = options
        self.inquiry = inquiry
        self.scaling = problem.scaled()
        self.problem = self.scaling.problem
        rows, self.scales = equilibrate(self.problem.block_norms)
        self.weights = rows * np.where(problem.equality, EQUALITY_WEIGHT, 1.0)
        self.bounds = largest_bound(self.problem)
        self.iterations = 0
        self.point: Point | None = None
        self.certificate: FloatArray | None = None
        entries = sum(block.entries for block in problem.sets)
        small = problem.m <= REPAIR_ROWS and entries <= REPAIR_ENTRIES
        self.points: Judge[Point] = Judge(
            lambda point: looks_inside(problem, point),
            lambda point, final: inquiry.offer(point=point, final=final),
            small,
        )
        self.certificates: Judge[FloatArray] = Judge(
            lambda y: looks_strict(problem, y),
            lambda y, final: inquiry.offer(multipliers=y, final=final),
            small,
        )

    def run(self) -> Claim:
        """Look for evidence from the start on."""
        start = self.inquiry.start
        # A diverging run may overflow; what is not finite is refused where it matters.
        with np.errstate(all="ignore"):
            self.certificate = start.certificate
            if self.certificate is not None and self.inquiry.offer(multipliers=self.certificate):
                return self._claim(Stop.FINISHED, "certificate at the start")
            self.point = start.point
            if self.point is None:
                self.point = tuple(block.interior_point() for block in self.original.sets)
            if self._promises(self.point) and self.inquiry.offer(point=self.point):
                return self._claim(Stop.FINISHED, "point at the start")
            try:
                return self._search(start)
            except np.linalg.LinAlgError as error:
                return self._claim(Stop.NUMERICAL, str(error))
            except OutOfTime as error:
                return self._claim(Stop.TIME_LIMIT, str(error))

    def _promises(self, point: Point) -> bool:
        """Whether a point is worth an offer: a proof may be expensive."""
        problem = self.original
        off = np.abs(problem.apply(point) - problem.lower)[problem.equality]
        size = (largest_bound(problem) + term_sizes(problem, point))[problem.equality]
        return bool(np.all(off <= NEARLY * size)) and looks_inside(problem, point)

    def _search(self, start: WarmStart) -> Claim:
        self.equations = Equations(self.problem, self.scales)
        self.cleaner = Cleaner(self.problem)
        space = Space(self.problem, self.weights, self.scales)
        tightened = Splitting(space, self.options)
        tightened.start(start.point, None)
        widened: Splitting | None = None
        for margin, limit in self._margins():
            wider = Splitting(space.widened(margin), self.options)
            if widened is None:
                y = start.certificate
                wider.start(start.point, None if y is None else self.scaling.start_multipliers(y))
            else:
                wider.go_on_from(widened)
            widened = wider
            claim = self._rounds(tightened, widened, margin, limit)
            if claim is not None:
                return claim
            tightened.restart()
        if self.iterations >= self.options.max_iterations:
            return self._claim(Stop.ITERATION_LIMIT, "iteration limit")
        return self._claim(Stop.STALLED, "settled without a proof at every margin")

    def _margins(self) -> Iterator[tuple[float, int]]:
        """Margins to try, each with the iteration at which to give it up."""
        margin, most = self.options.margin, self.options.max_iterations
        while margin > self.options.min_margin * (1.0 + 1e-9):
            yield margin, self.iterations + (most - self.iterations + 2) // 3
            margin *= MARGIN_STEP
        yield self.options.min_margin, most

    def _rounds(self, tightened: Splitting, widened: Splitting, margin: float, limit: int) -> Claim | None:
        """Step and screen until there is a claim, or nothing more to gain at this margin."""
        runs = ((tightened, self._screen_point), (widened, self._screen_certificate))
        while self.iterations < limit and not (tightened.settled and widened.settled):
            steps = min(self.options.screen_every, limit - self.iterations)
            self.iterations += steps
            self._tighten(tightened, margin)
            for run, screen in runs:
                if run.settled:
                    continue
                run.advance(steps, self.inquiry.deadline)
                if screen(run):
                    return self._claim(Stop.FINISHED, f"proof at margin {margin:g}")
                if self.inquiry.deadline.expired:
                    return self._claim(Stop.TIME_LIMIT, "time limit")
                if self.options.adaptive:
                    run.balance()
            if self.inquiry.report(self.iterations, self.point, self.certificate):
                return self._claim(Stop.CALLBACK, "stopped by the callback")
        return None

    def _tighten(self, run: Splitting, margin: float) -> None:
        """Move sets and bounds inwards, relative to the size of the present point."""
        problem = self.problem
        point = run.space.point(run.member)
        room = margin * (self.bounds + term_sizes(problem, point))
        room = np.minimum(room, 0.25 * (problem.upper - problem.lower))
        run.lower = (problem.lower + room) * self.weights
        run.upper = (problem.upper - room) * self.weights
        if problem.equality.any():
            run.sets = run.space.sets(margin)
            run.floors = [
                margin * float(np.linalg.norm(x)) / block.degree if block.cone else 0.0
                for block, x in zip(problem.sets, run.space.blocks(run.member), strict=True)
            ]

    def _screen_point(self, run: Splitting) -> bool:
        """Whether the point of the tightened run settles the inquiry."""
        self.point = self.equations.correct(run.space.point(run.member))
        return self.points.accept(self.point, run)

    def _screen_certificate(self, run: Splitting) -> bool:
        """Whether multipliers of the widened run settle the inquiry."""
        for candidate in run.candidates():
            y = self.cleaner.clean(candidate)
            if y is None:
                continue
            self.certificate = self.scaling.multipliers(y)
            if self.certificates.accept(self.certificate, run):
                return True
        return False

    def _claim(self, stop: Stop, status: str) -> Claim:
        return Claim(self.point, self.certificate, status, stop, self.iterations)
