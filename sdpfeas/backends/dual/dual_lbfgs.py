"""``dual-lbfgs``: the Frobenius-regularised dual, maximised by L-BFGS-B.

``form="lifted"`` is the published method (Li, Shen, van den Hengel and Shi, IEEE TIP 2015, Algorithm 2):
every SpectralBox becomes two PSD blocks and equality rows, rows are normalised, and the run ends when
L-BFGS-B has converged or the infeasibility screen holds. :func:`_solve_published` is that algorithm.

``form="spectral"`` takes a SpectralBox as it is: only the rows have multipliers, and an evaluation costs
one eigendecomposition per block. The margin of :mod:`sdpfeas.backends.dual.dual_function` gives points with
slack and keeps the multipliers bounded. :func:`_maximise_margin` maximises it by continuation in its
weight, with the scales of blocks and rows taken from the last round; where the largest margin is negative,
the multipliers converge to a certificate, and the centres grow so that it is strictly feasible on the
cones. The run ends as soon as a point or a certificate is proved. Where L-BFGS-B converges slowly, or the
largest margin itself is wanted, the semismooth Newton method of :mod:`sdpfeas.backends.dual.ascent` takes
over.

Warm starts use the multipliers. The method is deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from sdpfeas.backends.base import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.dual.ascent import (
    Ascent,
    AscentStopped,
    Limits,
    SemismoothNewton,
    newton_applies,
)
from sdpfeas.backends.dual.dual_function import DualFunction, Evaluation, Units
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.cards.options import NonNegative, Positive, Range
from sdpfeas.claims import Claim, Stop
from sdpfeas.errors import OutOfTime
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point

#: Rounding error of the value of a certificate, relative to its terms.
ROUNDING_SHARE = 1e-12

#: A point is offered when equality rows hold up to this share of the margin, ...
EQUALITY_MARGIN_SHARE = 0.5
#: ... or, without a margin, up to this residual relative to their scale.
EQUALITY_RESIDUAL = 1e-6

#: A refused proof makes the screen for the next one stricter by this factor.
REFUSAL_FACTOR = 4.0

#: A round ends when the gradient is below this share of its margin, ...
ROUND_ACCURACY_SHARE = 0.1
#: ... where the margin is clipped to this range.
LEAST_MARGIN, LARGE_MARGIN = 1e-7, 0.1

#: Factor by which the share is reduced where a round was not accurate enough.
ACCURACY_FACTOR = 0.1

#: Largest weight of the margin, and largest first weight of a warm start.
MOST_WEIGHT, WARM_WEIGHT = 1e9, 1e4

#: Where infeasibility is suspected, centres are this many times the largest eigenvalue of the point, ...
CENTRE_FACTOR = 1.2
#: ... and grow with the weight once ``||(A*y)_+|| / beta`` is below this.
SUSPECT_EXCESS_SHARE = 0.03

#: The Newton method takes over after this many iterations of L-BFGS-B.
NEWTON_AFTER_ITERATIONS = 100

#: The Newton method starts with a weight larger by this factor, since conditioning does not slow it down, ...
NEWTON_WEIGHT_FACTOR = 8.0
#: ... reduces the gradient to this value in its first round, to less in proportion to the weight in later
#: ones, and takes at most this many steps per round.
NEWTON_ACCURACY, NEWTON_ROUND_STEPS = 1e-2, 40
#: Factor by which the weight grows between rounds of the Newton method.
NEWTON_WEIGHT_GROWTH = 4.0

#: Certificates are offered from this many times epsilon on: a refused proof is cheap.
EARLY_SCREEN_FACTOR = 100.0


@dataclass(frozen=True)
class DualLbfgsOptions(Limits):
    """Options of :class:`DualLbfgs`, besides those of :class:`Limits`.

    - ``form``: ``"spectral"``, or ``"lifted"`` for the published method.
    - ``epsilon``: level of the infeasibility screen ``||(A*y)_+|| / beta``. The lifted form stops when it
      holds; the spectral form then tries a proof, and makes the screen stricter if the proof fails.
    - ``newton``: spectral form: use the semismooth Newton method where L-BFGS-B is slow, and from the
      start where the largest margin is wanted. It needs a problem without equality rows, with few rows of
      at least two terms each.
    - ``centre``: spectral form: multiple of the identity on PSD blocks (of the vector of ones on Nonneg
      blocks) to stay near, in units of the natural scale. A box is always centred at its middle.
    - ``weight``, ``growth``: first weight of the margin, and its factor between rounds.
    - ``ftol``, ``gtol``: tolerances of L-BFGS-B on the relative decrease and the projected gradient.
      Default: in the lifted form those of the package (2.2e-9, 1e-5); in the spectral form 0 and the
      accuracy of the round.
    - ``restarts``: in the lifted form with ``ftol`` zero also when the function value has stopped changing.
    """

    form: Literal["spectral", "lifted"] = "spectral"
    epsilon: Positive = 1e-3
    newton: bool = True
    centre: NonNegative = 1.0
    weight: Positive = 30.0
    growth: Annotated[float, Range(1.0, above=True)] = 8.0
    ftol: NonNegative | None = None
    gtol: NonNegative | None = None


class DualLbfgs(FeasibilityBackend):
    """Frobenius-regularised dual by L-BFGS-B, on all sets as they are, with proofs during the run."""

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
        # Data of extreme scale may overflow; the ascent stops at values that are not finite.
        with np.errstate(all="ignore"):
            if self.options.form == "lifted":
                return _solve_published(problem, self.options, inquiry, start)
            return _solve_spectral(problem, self.options, inquiry, start)


# --- Spectral form


class _SlowConvergence(Exception):
    """Raised when the Newton method should take over from L-BFGS-B."""


def _solve_spectral(
    problem: FeasibilityProblem,
    options: DualLbfgsOptions,
    inquiry: Inquiry,
    start: FloatArray | None,
) -> Claim:
    test = StoppingTest(problem, EARLY_SCREEN_FACTOR * options.epsilon, inquiry)
    newton = options.newton and newton_applies(problem)
    # If the caller wants the maximal margin, skip early proof attempts.
    margin_wanted = newton and inquiry.wanted == "margin"

    def inspect(function: DualFunction, found: Evaluation) -> None:
        if not margin_wanted and test.holds(function, found):
            raise AscentStopped(Stop.FINISHED, f"{test.proved} found")
        if newton and not margin_wanted and ascent.iterations >= NEWTON_AFTER_ITERATIONS:
            raise _SlowConvergence

    def report(iterations: int, function: DualFunction, found: Evaluation) -> bool:
        point, value = refit_scalars(problem, found.point, found.rows)
        gap = function.margin_gap(found, point, value) if margin_wanted else None
        return inquiry.report(iterations, point, found.multipliers, gap)

    ascent = Ascent(options, inquiry.deadline, inspect, report if inquiry.has_listener else None)
    try:
        try:
            if margin_wanted:
                _maximise_margin_newton(problem, options, ascent, start)
                newton = margin_wanted = False
            stop, status = _maximise_margin(problem, options, ascent, start)
        except _SlowConvergence:
            newton = False
            assert ascent.latest is not None
            start = ascent.latest.multipliers
            _maximise_margin_newton(problem, options, ascent, start)
            stop, status = _maximise_margin(problem, options, ascent, start)
    except AscentStopped as end:
        stop, status = end.stop, end.status
    except OutOfTime as error:
        stop, status = Stop.TIME_LIMIT, str(error)
    point, y, latest = test.point, test.multipliers, ascent.latest
    if latest is not None:
        point = latest.point if point is None else point
        # With a proved point the multipliers serve warm starts only; the last ones are best for that.
        y = latest.multipliers if y is None or test.proved == "point" else y
    return _claim(ascent, stop, status, point, y)


def _claim(ascent: Ascent, stop: Stop, status: str, point: Point | None, y: FloatArray | None) -> Claim:
    info: dict[str, Any] = {"evaluations": ascent.evaluations, "rounds": ascent.rounds}
    if ascent.latest is not None:
        info["margin"] = ascent.latest.margin
    certificate = y if y is not None and y.any() else None
    return Claim(point, certificate, status, stop, ascent.iterations, info)


def _centres(problem: FeasibilityProblem, units: Units, centre: float) -> FloatArray:
    """Centres in units: the middle of every box, the same multiple of the identity on all cones."""
    out = np.zeros(len(problem.sets))
    for b, block in enumerate(problem.sets):
        if block.bounded:
            # With a fixed trace all multiples of the identity give the same projection.
            out[b] = (block.middle if block.trace is None else 0.0) / units.blocks[b]
        elif block.cone:
            out[b] = centre / math.sqrt(block.degree)
    return out


def _lbfgs_stop(status: str) -> tuple[Stop, str]:
    return (Stop.FINISHED if status.startswith("CONVERGENCE") else Stop.STALLED), status


def _maximise_margin(
    problem: FeasibilityProblem, options: DualLbfgsOptions, ascent: Ascent, start: FloatArray | None
) -> tuple[Stop, str]:
    """Maximise the margin by continuation: rounds of growing weight, with units from the last round."""
    units, weight, accuracy, margin = Units.guess(problem), options.weight, ROUND_ACCURACY_SHARE, LARGE_MARGIN
    centres, y, slack_rounds = _centres(problem, units, options.centre), np.zeros(problem.m), 0
    if start is not None:
        units, weight, y = _start_warm(problem, ascent, DualFunction(problem, units, centres, weight), start)
    while weight <= MOST_WEIGHT:
        function = DualFunction(problem, units, centres, weight)
        goal = accuracy * min(max(abs(margin), LEAST_MARGIN), LARGE_MARGIN)
        found, status = ascent.maximise(
            function,
            function.variables(y),
            0.0 if options.ftol is None else options.ftol,
            goal if options.gtol is None else options.gtol,
        )
        y, margin = found.multipliers, found.margin
        if margin > 0.0:
            # Inequality rows have slack, but equality rows are too inaccurate for a proof. Solve the round
            # more accurately, and increase the weight if that does not help.
            slack_rounds += 1
            if slack_rounds > 2 * options.restarts:
                return Stop.FINISHED, f"converged with slack; {status}"
            if slack_rounds <= options.restarts:
                accuracy *= ACCURACY_FACTOR
                continue
        centres = _move_centres(function, found, options.growth)
        weight *= options.growth
        y = y * options.growth
        units = Units.at(problem, found.point)
    return Stop.STALLED, f"no proof up to weight {MOST_WEIGHT:g}; {status}"


def _maximise_margin_newton(
    problem: FeasibilityProblem, options: DualLbfgsOptions, ascent: Ascent, start: FloatArray | None
) -> None:
    """Maximise the margin by the semismooth Newton method, in rounds, until a step fails."""
    newton, first = SemismoothNewton(ascent), NEWTON_WEIGHT_FACTOR * options.weight
    units, weight = Units.guess(problem), first
    centres = _centres(problem, units, options.centre)
    function = DualFunction(problem, units, centres, weight, math.inf)
    y = function.scale_to_zero_margin(
        function.multipliers(np.ones(function.size)) if start is None else start
    )
    units = Units.at(problem, ascent.evaluate(function, function.variables(y)).point)
    y = DualFunction(problem, units, centres, weight).scale_to_zero_margin(y)
    while weight <= MOST_WEIGHT:
        # No set shrinks with the margin here, so the margin needs no upper limit.
        function = DualFunction(problem, units, centres, weight, math.inf)
        z = function.variables(y)
        found, works = newton.maximise(function, z, NEWTON_ACCURACY * first / weight, NEWTON_ROUND_STEPS)
        if not works:
            break
        y = found.multipliers
        centres, units = _move_centres(function, found, NEWTON_WEIGHT_GROWTH), Units.at(problem, found.point)
        weight *= NEWTON_WEIGHT_GROWTH


def _move_centres(function: DualFunction, found: Evaluation, growth: float) -> FloatArray:
    """Move centres beyond the point where infeasibility is suspected, so that ``-A*y`` becomes interior."""
    support, excess = function.support(found.spectra)
    gap = float(np.sum(function.problem.beta_terms(found.multipliers))) - support
    centres = np.array(function.centres)
    if not gap > 0.0 or excess == 0.0:
        return centres
    for b, block in enumerate(function.problem.sets):
        if block.cone:
            top = float(np.max(block.spectrum(found.point[b]))) / function.units.blocks[b]
            grown = centres[b] * (growth if excess < SUSPECT_EXCESS_SHARE * gap else 1.0)
            centres[b] = max(grown, CENTRE_FACTOR * top)
    return centres


def _start_warm(
    problem: FeasibilityProblem, ascent: Ascent, function: DualFunction, y: FloatArray
) -> tuple[Units, float, FloatArray]:
    """Return units, weight and multipliers of a warm start; the sum of multipliers estimates the weight."""
    assert function.weight is not None
    size = float(np.sum(np.abs(function.variables(y))))
    if not 0.0 < size < math.inf:
        return function.units, function.weight, np.zeros(problem.m)
    weight = min(max(size, function.weight), WARM_WEIGHT)
    y = y * (weight / size)
    function = DualFunction(problem, function.units, function.centres, weight)
    found = ascent.evaluate(function, function.variables(y))
    return Units.at(problem, found.point), weight, y


# --- Lifted form


def _solve_published(
    problem: FeasibilityProblem,
    options: DualLbfgsOptions,
    inquiry: Inquiry,
    start: FloatArray | None,
) -> Claim:
    """Algorithm 2 of the paper: no margin, no centres; stops at convergence or when the screen holds."""
    lift = problem.lift()
    lifted = lift.problem

    def inspect(function: DualFunction, found: Evaluation) -> None:
        beta = float(np.sum(lifted.beta_terms(found.multipliers)))
        size = math.sqrt(sum(float(np.sum(x * x)) for x in found.point))
        if beta > 0.0 and size / beta < options.epsilon:
            raise AscentStopped(
                Stop.FINISHED, f"infeasibility screen: {size / beta:.3g} < {options.epsilon:g}"
            )

    view = inquiry.through(lift)

    def report(iterations: int, function: DualFunction, found: Evaluation) -> bool:
        return view.report(iterations, found.point, found.multipliers)

    function = DualFunction(lifted, Units.plain(lifted), np.zeros(len(lifted.sets)))
    ascent = Ascent(options, inquiry.deadline, inspect, report if inquiry.has_listener else None)
    try:
        z = np.zeros(function.size)
        if start is not None:
            z = ascent.scale_start(function, lift.start_multipliers(start))
        ftol = 2.2e-9 if options.ftol is None else options.ftol
        gtol = 1e-5 if options.gtol is None else options.gtol
        _, status = ascent.maximise(function, z, ftol, gtol)
        for _ in range(options.restarts if ftol == 0.0 else 0):
            # Restart if the function value has stopped changing before the gradient test holds.
            if "GRADIENT" in status:
                break
            before = ascent.iterations
            assert ascent.latest is not None
            z = function.variables(ascent.latest.multipliers)
            _, status = ascent.maximise(function, z, ftol, gtol)
            if ascent.iterations == before:
                break
        stop, status = _lbfgs_stop(status)
    except AscentStopped as end:
        stop, status = end.stop, end.status
    except OutOfTime as error:
        stop, status = Stop.TIME_LIMIT, str(error)
    if ascent.latest is None:
        return _claim(ascent, stop, status, None, None)
    point = lift.point(ascent.latest.point)
    return _claim(ascent, stop, status, point, lift.multipliers(ascent.latest.multipliers))


# --- Stopping test


class StoppingTest:
    """Keeps the best point and multipliers, and offers promising ones for a proof.

    ``A*y``, its eigenvalues, ``X(y)`` and the row values are known after every evaluation of the dual
    function, so the conditions of the verifier can be tested at little cost. After a refusal the test
    becomes stricter. Multipliers are offered where ``||(A*y)_+||`` is below ``epsilon`` times the value of
    the certificate.
    """

    def __init__(self, problem: FeasibilityProblem, epsilon: float, inquiry: Inquiry) -> None:
        self.problem = problem
        self._inquiry = inquiry
        self.point: Point | None = None
        self.multipliers: FloatArray | None = None
        self.proved = ""
        self._screen = epsilon
        self._least_violation, self._lead = np.inf, -np.inf
        self._refusals, self._next_attempt, self._evaluations = 0, 0, 0

    def holds(self, function: DualFunction, found: Evaluation) -> bool:
        """Test an evaluation; return True if its multipliers or its point are proved."""
        self._evaluations += 1
        return self._certificate(function, found) or self._point(function, found)

    def _certificate(self, function: DualFunction, found: Evaluation) -> bool:
        y = found.multipliers
        beta = float(np.sum(self.problem.beta_terms(y)))
        support, excess = function.support(found.spectra)
        gap, size = beta - support, abs(beta) + abs(support)
        lead = (gap - excess) / size if size > 0.0 else -np.inf
        if lead > self._lead or self.multipliers is None:
            self._lead, self.multipliers = lead, y
        if not gap > ROUNDING_SHARE * size:
            return False
        ratio = excess / gap
        if not ratio < self._screen:
            return False
        if not self._inquiry.offer(multipliers=y):
            self._screen = min(self._screen, ratio / REFUSAL_FACTOR)
            return False
        self.multipliers, self.proved = y, "certificate"
        return True

    def _point(self, function: DualFunction, found: Evaluation) -> bool:
        problem, equal, sizes = self.problem, self.problem.equality, function.units.rows
        point, value = refit_scalars(problem, found.point, found.rows)
        short = np.maximum(problem.lower - value, value - problem.upper) / sizes
        worst = float(np.max(short, initial=-np.inf))
        if worst < self._least_violation or self.point is None:
            self._least_violation, self.point = worst, point
        if np.any(short[~equal] > 0.0) or self._evaluations < self._next_attempt:
            return False
        missed = float(np.linalg.norm(short[equal]))
        near = EQUALITY_MARGIN_SHARE * found.margin if found.margin > 0.0 else EQUALITY_RESIDUAL
        if equal.any() and not missed < near:
            return False
        if not self._inquiry.offer(point=point):
            self._refusals += 1
            self._next_attempt = self._evaluations + 2**self._refusals
            return False
        self.point, self.proved = point, "point"
        return True


def refit_scalars(problem: FeasibilityProblem, point: Point, value: FloatArray) -> tuple[Point, FloatArray]:
    """Move every block that is a single number to the middle of the interval that the rows allow.

    Returns the point with these blocks changed, and its row values.
    """
    for b, slope in _scalar_blocks(problem):
        old = float(point[b][0])
        rest = value - slope * old
        low, high = _feasible_interval(problem, slope, rest)
        low = max(low, problem.sets[b].lower)
        new = old
        if math.isfinite(low) and math.isfinite(high):
            new = 0.5 * (low + high)
        elif math.isfinite(low):
            # The interval is unbounded: move beyond its end by the distance of that end from zero.
            new = max(old, low + abs(low))
        elif math.isfinite(high):
            new = min(old, high - abs(high))
        new = max(new, problem.sets[b].lower)
        point = (*point[:b], np.array([new]), *point[b + 1 :])
        value = rest + slope * new
    return point, value


def _feasible_interval(
    problem: FeasibilityProblem, slope: FloatArray, rest: FloatArray
) -> tuple[float, float]:
    """Interval of t with ``lower <= rest + slope t <= upper``; its ends are crossed if it is empty."""
    up, down = slope > 0.0, slope < 0.0
    divisor = np.where(up | down, slope, 1.0)
    lower, upper = (problem.lower - rest) / divisor, (problem.upper - rest) / divisor
    low = np.max(np.concatenate([lower[up], upper[down]]), initial=-np.inf)
    high = np.min(np.concatenate([upper[up], lower[down]]), initial=np.inf)
    return float(low), float(high)


def _scalar_blocks(problem: FeasibilityProblem) -> Iterator[tuple[int, FloatArray]]:
    """Blocks of one number without entries in equality rows, with their coefficients."""
    for b, block, rows in problem.blocks():
        if not block.entrywise or block.n > 1 or rows.empty:
            continue
        if not np.any(problem.block_norms[b][problem.equality] > 0.0):
            yield b, rows.apply(np.ones(1))
