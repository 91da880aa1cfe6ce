"""The paper's method: the Frobenius-regularised dual, maximised by L-BFGS-B.

``form="lifted"`` is the method as published (Li, Shen, van den Hengel, Shi, IEEE TIP 2015, Algorithm 2):
every SpectralBox becomes two PSD blocks and equality rows, rows are normalised, and the run ends when
L-BFGS-B has converged or the infeasibility screen fires.

``form="spectral"`` takes the box as it is: the rows alone have multipliers, and a step costs one
eigendecomposition. The margin (:mod:`sdpfeas.backends.dual.dual_function`) gives points with slack and
keeps the multipliers finite. Rounds of growing weight drive the margin to its largest value; a certificate
comes out of them where that is negative, and for it to be strict on the cones the centres grow too. Sizes
of blocks and rows are taken from the last round. The run ends as soon as the verifier's condition holds on
either side. Where L-BFGS-B is slow, and for callers who want the largest margin itself, Newton's method
takes over (:mod:`sdpfeas.backends.dual.ascent`).

Warm starts use the multipliers, the callback is called every few iterations, and nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sdpfeas.backends.base import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.dual.ascent import Ascent, Ended, Newton, suits, uniform_multipliers
from sdpfeas.backends.dual.dual_function import DualFunction, Evaluation, Units
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.claims import Claim, Stop
from sdpfeas.errors import OutOfTime
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point

# ------------------------------------------------------------
# Evidence on the way: what an evaluation of the dual function says about the problem as it was asked.
#
# ``A*y``, its eigenvalues, ``X(y)`` and the row values are at hand after every evaluation, so the
# verifier's conditions can be looked at for next to nothing. Only what looks right is offered, and after a
# refusal the bar is raised.

#: A gap between the sides of a certificate below this share of them is rounding.
ROUNDING = 1e-12

#: Equality rows may be missed by this share of the margin when a proof is tried, without a margin by ...
WITHIN_MARGIN = 0.5
#: ... this much, relative to their size.
WITHIN = 1e-6

#: A refusal lowers what a screen lets through by this factor.
RAISE = 4.0


class Evidence:
    """The best point and multipliers so far, and which of them was good enough to stop.

    ``problem``: the problem as it was asked. ``epsilon``: first level of the screen: ``||(A*y)_+|| / beta``
    below it is worth an offer.
    """

    def __init__(self, problem: FeasibilityProblem, epsilon: float, inquiry: Inquiry) -> None:
        self.problem = problem
        self._inquiry = inquiry
        self.point: Point | None = None
        self.multipliers: FloatArray | None = None
        self.proven = ""
        self._screen = epsilon
        self._missed = np.inf
        self._shortfall, self._lead, self._refused_lead = np.inf, -np.inf, 0.0
        self._refused, self._wait, self._seen = 0, 0, 0

    def inspect(self, function: DualFunction, found: Evaluation) -> bool:
        """Look at an evaluation; True when either side of it settles the inquiry."""
        self._seen += 1
        return self._certificate(function, found) or self._point(function, found)

    def _certificate(self, function: DualFunction, found: Evaluation) -> bool:
        y = found.multipliers
        beta = float(np.sum(self.problem.beta_terms(y)))
        support, excess = function.support(found.spectra)
        gap, size = beta - support, abs(beta) + abs(support)
        lead = (gap - excess) / size if size > 0.0 else -np.inf
        if lead > self._lead or self.multipliers is None:
            self._lead, self.multipliers = lead, y
        if not gap > ROUNDING * size:
            return False
        ratio = excess / gap
        if not ratio < self._screen and not (excess == 0.0 and lead > self._refused_lead):
            return False
        if not self._inquiry.offer(multipliers=y):
            self._screen = min(self._screen, ratio / RAISE)
            self._refused_lead = 2.0 * lead
            return False
        self.multipliers, self.proven = y, "certificate"
        return True

    def _point(self, function: DualFunction, found: Evaluation) -> bool:
        problem, equal, sizes = self.problem, self.problem.equality, function.units.rows
        point, value = fit_numbers(problem, found.point, found.rows)
        short = np.maximum(problem.lower - value, value - problem.upper) / sizes
        worst = float(np.max(short, initial=-np.inf))
        if worst < self._shortfall or self.point is None:
            self._shortfall, self.point = worst, point
        if np.any(short[~equal] > 0.0) or self._seen < self._wait:
            return False
        missed = float(np.linalg.norm(short[equal]))
        near = WITHIN_MARGIN * found.margin if found.margin > 0.0 else WITHIN
        if equal.any() and not missed < min(near, self._missed):
            return False
        if not self._inquiry.offer(point=point):
            self._missed = missed / RAISE
            self._refused += 1
            self._wait = self._seen + 2**self._refused
            return False
        self.point, self.proven = point, "point"
        return True


def fit_numbers(problem: FeasibilityProblem, point: Point, value: FloatArray) -> tuple[Point, FloatArray]:
    """Choose every block that is a single number anew: in the middle of what the rows leave it.

    Returns: the point with these blocks changed, and its row values.
    """
    for b, slope in _numbers(problem):
        old = float(point[b][0])
        rest = value - slope * old
        low, high = _interval(problem, slope, rest)
        low = max(low, problem.sets[b].lower)
        new = old
        if math.isfinite(low) and math.isfinite(high):
            new = 0.5 * (low + high)
        elif math.isfinite(low):
            # Nothing limits the other side: go as far beyond this end as that is from zero.
            new = max(old, low + abs(low))
        elif math.isfinite(high):
            new = min(old, high - abs(high))
        new = max(new, problem.sets[b].lower)
        point = (*point[:b], np.array([new]), *point[b + 1 :])
        value = rest + slope * new
    return point, value


def _interval(problem: FeasibilityProblem, slope: FloatArray, rest: FloatArray) -> tuple[float, float]:
    """Where ``rest + slope·t`` is within the bounds of every row; crossed if nowhere."""
    up, down = slope > 0.0, slope < 0.0
    divisor = np.where(up | down, slope, 1.0)
    lower, upper = (problem.lower - rest) / divisor, (problem.upper - rest) / divisor
    low = np.max(np.concatenate([lower[up], upper[down]]), initial=-np.inf)
    high = np.min(np.concatenate([upper[up], lower[down]]), initial=np.inf)
    return float(low), float(high)


def _numbers(problem: FeasibilityProblem) -> Iterator[tuple[int, FloatArray]]:
    """Blocks of one number that no equality row touches, with their coefficients."""
    for b, block, rows in problem.blocks():
        if not block.entrywise or block.n > 1 or rows.empty:
            continue
        if not np.any(problem.block_norms[b][problem.equality] > 0.0):
            yield b, rows.apply(np.ones(1))


#: A round ends when rows are met to this share of its margin, ...
ACCURACY = 0.1
#: ... the margin taken to lie between these.
LEAST_MARGIN, LARGE_MARGIN = 1e-7, 0.1

#: The accuracy gets better by this factor when it was not enough, down to the second number.
TIGHTER, LEAST_ACCURACY = 0.1, 1e-4

#: A (negative) margin this many times that of the round before is lower by more than inaccuracy.
LOWER = 1.1

#: Margins of two rounds compare if no row changed its size by more than this share.
SAME_SIZE = 0.01

#: The last weight of the margin, and the largest a warm start begins with.
MOST_WEIGHT, WARM_WEIGHT = 1e9, 1e4

#: Where infeasibility is suspected, centres go beyond the largest eigenvalue of the point by this factor, ...
BEYOND = 1.2
#: ... and grow with the weight once ``||(A*y)_+|| / beta`` is below this.
SUSPICION = 0.03

#: L-BFGS-B is slow if it takes more iterations than this.
NEWTON_AFTER = 100

#: Newton's method begins with a weight that is larger by this factor: it does not mind, ...
NEWTON_WEIGHT = 8.0
#: ... meets rows to this share of their size in its first round, better by as much as the weight grows in
#: the rounds that follow, and takes at most so many steps in each.
NEWTON_ACCURACY, NEWTON_STEPS = 1e-2, 40
#: Factor by which its weight grows.
NEWTON_GROWTH = 4.0

#: A proof is tried from this many times epsilon on: a refusal costs little.
EARLY = 100.0


@dataclass(frozen=True)
class DualLbfgsOptions:
    """Options of :class:`DualLbfgs`.

    ``form``: ``"spectral"``, or ``"lifted"`` for the method as published. ``epsilon``: level of the
    infeasibility screen ``||(A*y)_+|| / beta``. The lifted form ends when it fires; the spectral form then
    tries for a proof, and tightens the screen if there is none. ``newton``: spectral form: take Newton
    steps where L-BFGS-B is slow, and from the start where the largest margin is wanted and not just a
    proof. Only on problems without equality rows, with rows few enough and of two terms at least; L-BFGS-B
    has the rest. ``margin``: spectral form: maximise a margin. Without, the plain regularised problem is
    solved. ``centre``: spectral form: stay near this multiple of the identity, in units of the natural
    size, on PSD blocks (of the vector of ones on Nonneg blocks); a box is always centred in its middle.
    ``growth``: factor by which the weight grows from round to round. ``max_iterations``: iterations of
    L-BFGS-B over all rounds. ``ftol, gtol``: l-BFGS-B's tolerances on the relative decrease and on the
    projected gradient. Default: in the lifted form those of the package (2.2e-9, 1e-5); in the spectral
    form 0 and what the round needs. ``restarts``: how often to start afresh from the same multipliers when
    the line search stalls; in the lifted form, with ``ftol`` zero, also when the dual function has stopped
    to change.
    """

    form: Literal["spectral", "lifted"] = "spectral"
    epsilon: float = 1e-3
    newton: bool = True
    margin: bool = True
    centre: float = 1.0
    weight: float = 30.0
    growth: float = 8.0
    max_iterations: int = 5000
    memory: int = 30
    ftol: float | None = None
    gtol: float | None = None
    restarts: int = 3

    def __post_init__(self) -> None:
        for name in ("max_iterations", "memory"):
            if getattr(self, name) < 1:
                raise ValueError(f"option {name!r} must be at least 1, got {getattr(self, name)}")
        for name, least in (("epsilon", 0.0), ("weight", 0.0), ("growth", 1.0)):
            if not least < getattr(self, name) < math.inf:
                raise ValueError(f"option {name!r} must be above {least:g}, got {getattr(self, name)}")
        for name in ("centre", "ftol", "gtol", "restarts"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < math.inf:
                raise ValueError(f"option {name!r} must not be negative, got {value}")


class DualLbfgs(FeasibilityBackend):
    """The paper's regularised dual by L-BFGS-B, native on all sets, with proofs on the way."""

    name = "dual-lbfgs"
    sets = ALL_SETS
    warm_starts = True
    calls_back = True
    Options = DualLbfgsOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a point or a certificate; see :meth:`FeasibilityBackend.solve`."""
        start = inquiry.start.certificate
        if start is not None and not (np.isfinite(start).all() and start.any()):
            start = None
        # Data of wild scale overflow; what is not finite ends the run.
        with np.errstate(all="ignore"):
            if self.options.form == "lifted":
                return _published(problem, self.options, inquiry, start)
            return _spectral(problem, self.options, inquiry, start)


# ---------------------------------------------------------------- the spectral form


class _Slow(Exception):
    """L-BFGS-B has had its chance."""


def _spectral(
    problem: FeasibilityProblem,
    options: DualLbfgsOptions,
    inquiry: Inquiry,
    start: FloatArray | None,
) -> Claim:
    evidence = Evidence(problem, EARLY * options.epsilon, inquiry)
    newton = options.newton and options.margin and suits(problem)
    # Whoever is not content with a proof judges for himself.
    patient = newton and inquiry.wanted == "margin"

    def inspect(function: DualFunction, found: Evaluation) -> None:
        if not patient and evidence.inspect(function, found):
            raise Ended(Stop.FINISHED, f"{evidence.proven} found")
        if newton and not patient and ascent.iterations >= NEWTON_AFTER:
            raise _Slow

    def report(iterations: int, function: DualFunction, found: Evaluation) -> bool:
        point, value = fit_numbers(problem, found.point, found.rows)
        gap = function.margin_gap(found, point, value) if patient else None
        return inquiry.report(iterations, point, found.multipliers, gap)

    ascent = Ascent(options, inquiry.deadline, inspect, report if inquiry.has_listener else None)
    search = _rounds if options.margin else _plain
    try:
        try:
            if patient:
                _newton_rounds(problem, options, ascent, start)
                newton = patient = False
            stop, status = search(problem, options, ascent, start)
        except _Slow:
            newton = False
            assert ascent.latest is not None
            start = ascent.latest.multipliers
            _newton_rounds(problem, options, ascent, start)
            stop, status = search(problem, options, ascent, start)
    except Ended as end:
        stop, status = end.stop, end.status
    except OutOfTime as error:
        stop, status = Stop.TIME_LIMIT, str(error)
    point, y, latest = evidence.point, evidence.multipliers, ascent.latest
    if latest is not None:
        point = latest.point if point is None else point
        # Beside a proven point the multipliers are for warm starts, and there the last are best.
        y = latest.multipliers if y is None or evidence.proven == "point" else y
    return _claim(ascent, stop, status, point, y)


def _claim(ascent: Ascent, stop: Stop, status: str, point: Point | None, y: FloatArray | None) -> Claim:
    info: dict[str, Any] = {"evaluations": ascent.evaluations, "rounds": ascent.rounds}
    if ascent.latest is not None:
        info["margin"] = ascent.latest.margin
    certificate = y if y is not None and y.any() else None
    return Claim(point, certificate, status, stop, ascent.iterations, info)


def _centres(problem: FeasibilityProblem, units: Units, centre: float) -> FloatArray:
    """Middle of every box, and the same multiple of the identity on all cones, in units."""
    out = np.zeros(len(problem.sets))
    for b, block in enumerate(problem.sets):
        if block.bounded:
            # With a prescribed trace every multiple of the identity gives the same projection.
            out[b] = (block.middle if block.trace is None else 0.0) / units.blocks[b]
        elif block.cone:
            out[b] = centre / math.sqrt(block.degree)
    return out


def _plain(
    problem: FeasibilityProblem, options: DualLbfgsOptions, ascent: Ascent, start: FloatArray | None
) -> tuple[Stop, str]:
    """Solve the regularised problem itself, once."""
    units = Units.guess(problem)
    function = DualFunction(problem, units, _centres(problem, units, options.centre))
    z = np.zeros(function.size) if start is None else ascent.useful(function, start)
    ftol = 0.0 if options.ftol is None else options.ftol
    _, status = ascent.climb(function, z, ftol, 1e-10 if options.gtol is None else options.gtol)
    return _converged(status)


def _converged(status: str) -> tuple[Stop, str]:
    return (Stop.FINISHED if status.startswith("CONVERGENCE") else Stop.STALLED), status


def _rounds(
    problem: FeasibilityProblem, options: DualLbfgsOptions, ascent: Ascent, start: FloatArray | None
) -> tuple[Stop, str]:
    """Maximise the margin in rounds of growing weight, sizes taken from the round before."""
    units, weight, accuracy, margin = Units.guess(problem), options.weight, ACCURACY, LARGE_MARGIN
    centres, y, settled, best = _centres(problem, units, options.centre), np.zeros(problem.m), 0, -math.inf
    if start is not None:
        units, weight, y = _warm(problem, ascent, DualFunction(problem, units, centres, weight), start)
    while weight <= MOST_WEIGHT:
        function = DualFunction(problem, units, centres, weight)
        goal = accuracy * min(max(abs(margin), LEAST_MARGIN), LARGE_MARGIN)
        found, status = ascent.climb(
            function,
            function.variables(y),
            0.0 if options.ftol is None else options.ftol,
            goal if options.gtol is None else options.gtol,
        )
        y, margin = found.multipliers, found.margin
        if margin > 0.0:
            # There is slack; only the equality rows are not met well enough for a proof. If meeting them
            # better does not help, a larger margin may.
            settled += 1
            if settled > 2 * options.restarts:
                return Stop.FINISHED, f"converged with slack; {status}"
            if settled <= options.restarts:
                accuracy *= TIGHTER
                continue
        elif margin < LOWER * best and accuracy > LEAST_ACCURACY:
            # More weight never lowers the best margin, so this round was ended too early.
            accuracy *= TIGHTER
            continue
        centres = _further(function, found, options.growth)
        weight *= options.growth
        y = y * options.growth
        units = Units.at(problem, found.point)
        same = np.allclose(units.rows, function.units.rows, rtol=SAME_SIZE, atol=0.0)
        best = margin if same else -math.inf  # margins in other units do not compare
    return Stop.STALLED, f"no proof up to weight {MOST_WEIGHT:g}; {status}"


def _newton_rounds(
    problem: FeasibilityProblem, options: DualLbfgsOptions, ascent: Ascent, start: FloatArray | None
) -> None:
    """Maximise the margin by Newton's method, in rounds, as long as that works."""
    newton, first = Newton(ascent), NEWTON_WEIGHT * options.weight
    units, weight = Units.guess(problem), first
    centres = _centres(problem, units, options.centre)
    function = DualFunction(problem, units, centres, weight, math.inf)
    y = function.balanced(uniform_multipliers(function) if start is None else start)
    units = Units.at(problem, ascent.evaluate(function, function.variables(y)).point)
    y = DualFunction(problem, units, centres, weight).balanced(y)
    while weight <= MOST_WEIGHT:
        # Nothing shrinks here, so nothing limits the margin.
        function = DualFunction(problem, units, centres, weight, math.inf)
        z = function.variables(y)
        found, works = newton.climb(function, z, NEWTON_ACCURACY * first / weight, NEWTON_STEPS)
        if not works:
            break
        y = found.multipliers
        centres, units = _further(function, found, NEWTON_GROWTH), Units.at(problem, found.point)
        weight *= NEWTON_GROWTH


def _further(function: DualFunction, found: Evaluation, growth: float) -> FloatArray:
    """Where infeasibility is suspected: centres beyond the point, so that ``A*y`` gets strictly negative."""
    support, excess = function.support(found.spectra)
    gap = float(np.sum(function.problem.beta_terms(found.multipliers))) - support
    centres = np.array(function.centres)
    if not gap > 0.0 or excess == 0.0:
        return centres
    for b, block in enumerate(function.problem.sets):
        if block.cone:
            top = float(np.max(block.spectrum(found.point[b]))) / function.units.blocks[b]
            grown = centres[b] * (growth if excess < SUSPICION * gap else 1.0)
            centres[b] = max(grown, BEYOND * top)
    return centres


def _warm(
    problem: FeasibilityProblem, ascent: Ascent, function: DualFunction, y: FloatArray
) -> tuple[Units, float, FloatArray]:
    """Units, weight and multipliers to start from: multipliers are about as large as their weight was."""
    assert function.weight is not None
    size = float(np.sum(np.abs(function.variables(y))))
    if not 0.0 < size < math.inf:
        return function.units, function.weight, np.zeros(problem.m)
    weight = min(max(size, function.weight), WARM_WEIGHT)
    y = y * (weight / size)
    function = DualFunction(problem, function.units, function.centres, weight)
    found = ascent.evaluate(function, function.variables(y))
    return Units.at(problem, found.point), weight, y


# ---------------------------------------------------------------- the lifted form


def _published(
    problem: FeasibilityProblem,
    options: DualLbfgsOptions,
    inquiry: Inquiry,
    start: FloatArray | None,
) -> Claim:
    """Algorithm 2 of the paper: no margin, no centres, and the screen has the last word."""
    lift = problem.lift()
    lifted = lift.problem

    def inspect(function: DualFunction, found: Evaluation) -> None:
        beta = float(np.sum(lifted.beta_terms(found.multipliers)))
        size = math.sqrt(sum(float(np.sum(x * x)) for x in found.point))
        if beta > 0.0 and size / beta < options.epsilon:
            raise Ended(Stop.FINISHED, f"infeasibility screen: {size / beta:.3g} < {options.epsilon:g}")

    view = inquiry.through(lift)

    def report(iterations: int, function: DualFunction, found: Evaluation) -> bool:
        return view.report(iterations, found.point, found.multipliers)

    function = DualFunction(lifted, Units.plain(lifted), np.zeros(len(lifted.sets)))
    ascent = Ascent(options, inquiry.deadline, inspect, report if inquiry.has_listener else None)
    try:
        z = np.zeros(function.size)
        if start is not None:
            z = ascent.useful(function, lift.start_multipliers(start))
        ftol = 2.2e-9 if options.ftol is None else options.ftol
        gtol = 1e-5 if options.gtol is None else options.gtol
        _, status = ascent.climb(function, z, ftol, gtol)
        for _ in range(options.restarts if ftol == 0.0 else 0):
            # The function no longer changes in its last digit, but the rows do not hold yet.
            if "GRADIENT" in status:
                break
            before = ascent.iterations
            assert ascent.latest is not None
            z = function.variables(ascent.latest.multipliers)
            _, status = ascent.climb(function, z, ftol, gtol)
            if ascent.iterations == before:
                break
        stop, status = _converged(status)
    except Ended as end:
        stop, status = end.stop, end.status
    except OutOfTime as error:
        stop, status = Stop.TIME_LIMIT, str(error)
    if ascent.latest is None:
        return _claim(ascent, stop, status, None, None)
    point = lift.point(ascent.latest.point)
    return _claim(ascent, stop, status, point, lift.multipliers(ascent.latest.multipliers))
