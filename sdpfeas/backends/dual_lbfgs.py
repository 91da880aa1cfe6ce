"""The paper's method: the Frobenius-regularised dual, maximised by L-BFGS-B.

``form="lifted"`` is the method as published (Li, Shen, van den Hengel, Shi, IEEE TIP 2015, Algorithm 2):
every SpectralBox becomes two PSD blocks and equality rows, rows are normalised, and the run ends when
L-BFGS-B has converged or the infeasibility screen fires.

``form="spectral"`` takes the box as it is: the rows alone have multipliers, and a step costs one
eigendecomposition. The margin of :mod:`sdpfeas.backends.dual_function` gives points with slack and keeps the
multipliers finite. Rounds of growing weight drive the margin to its largest value; a certificate comes out
of them where that is negative, and for it to be strict on the cones the centres grow too. Sizes of blocks
and rows are taken from the last round. The run ends as soon as the verifier's condition holds on either
side.

Warm starts use the multipliers, the callback is called every few iterations, and nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize

from sdpfeas.backend import ALL_SETS, Callback, FeasibilityBackend, Progress, WarmStart
from sdpfeas.backends.dual_evidence import Evidence, fit_numbers
from sdpfeas.backends.dual_function import DualFunction, Evaluation, Units
from sdpfeas.deadline import Deadline
from sdpfeas.lifting import Lift
from sdpfeas.linalg import FloatArray
from sdpfeas.problem import FeasibilityProblem, Point
from sdpfeas.result import Claim, Stop
from sdpfeas.sets import Free, SpectralBox

__all__ = ["DualLbfgs", "DualLbfgsOptions"]

#: Iterations between two calls of the callback.
CALL_EVERY = 5

#: Most steps of one line search.
LINE_SEARCH = 40

#: A round ends when rows are met to this share of its margin, ...
ACCURACY = 1e-2
#: ... the margin taken to lie between these.
LEAST_MARGIN, LARGE_MARGIN = 1e-7, 0.1

#: The last weight of the margin.
MOST_WEIGHT = 1e9

#: Where infeasibility is suspected, centres go beyond the largest eigenvalue of the point by this factor, ...
BEYOND = float(__import__("os").environ.get("BEYOND", 4.0))
#: ... and grow with the weight once ``||(A*y)_+|| / beta`` is below this.
SUSPICION = float(__import__("os").environ.get("SUSP", 0.1))


#: A proof is tried from this many times epsilon on: a refusal costs little.
EARLY = 100.0


@dataclass(frozen=True)
class DualLbfgsOptions:
    """Options of :class:`DualLbfgs`.

    Attributes
    ----------
    form : str
        ``"spectral"``, or ``"lifted"`` for the method as published.
    epsilon : float
        Level of the infeasibility screen ``||(A*y)_+|| / beta``. The lifted form ends when it fires; the
        spectral form then tries for a proof, and tightens the screen if there is none.
    margin : bool
        Spectral form: maximise a margin. Without, the plain regularised problem is solved.
    centre : float
        Spectral form: stay near this multiple of the identity, in units of the natural size, on PSD blocks
        (of the vector of ones on Nonneg blocks); a box is always centred in its middle.
    weight : float
        First weight of the margin.
    growth : float
        Factor by which the weight grows from round to round.
    max_iterations : int
        Iterations of L-BFGS-B over all rounds.
    memory : int
        Corrections L-BFGS-B keeps.
    ftol, gtol : float, optional
        L-BFGS-B's tolerances on the relative decrease and on the projected gradient. Default: in the
        lifted form those of the package (2.2e-9, 1e-5); in the spectral form 0 and what the round needs.
    restarts : int
        How often to start afresh from the same multipliers when the line search stalls.
    """

    form: Literal["spectral", "lifted"] = "spectral"
    epsilon: float = 1e-3
    margin: bool = True
    centre: float = 1.0
    weight: float = 10.0
    growth: float = 8.0
    max_iterations: int = 5000
    memory: int = 10
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

    def solve(
        self,
        problem: FeasibilityProblem,
        *,
        time_limit: float | None = None,
        warm_start: WarmStart | None = None,
        callback: Callback | None = None,
    ) -> Claim:
        """Look for a point or a certificate; see :meth:`FeasibilityBackend.solve`."""
        deadline = Deadline(time_limit)
        start = None if warm_start is None else warm_start.certificate
        if start is not None and not (np.isfinite(start).all() and start.any()):
            start = None
        # Data of wild scale overflow; what is not finite ends the run.
        with np.errstate(all="ignore"):
            if self.options.form == "lifted":
                return _published(problem, self.options, deadline, start, callback)
            return _spectral(problem, self.options, deadline, start, callback)


# ---------------------------------------------------------------- the ascent


class _Ended(Exception):
    """The search is over."""

    def __init__(self, stop: Stop, status: str) -> None:
        super().__init__(status)
        self.stop, self.status = stop, status


class _Ascent:
    """Runs of L-BFGS-B that share limits, counters and callback.

    Parameters
    ----------
    options : DualLbfgsOptions
        The options.
    deadline : Deadline
        When to stop.
    inspect : callable
        Called with the function and every evaluation; may raise ``_Ended``.
    report : callable, optional
        Called with iterations, seconds and an evaluation every few iterations; True stops.
    """

    def __init__(
        self,
        options: DualLbfgsOptions,
        deadline: Deadline,
        inspect: Callable[[DualFunction, Evaluation], None],
        report: Callable[[int, float, Evaluation], Any] | None,
    ) -> None:
        self.options, self.deadline = options, deadline
        self._inspect, self._report = inspect, report
        self.iterations = self.evaluations = self.rounds = 0
        self.latest: Evaluation | None = None
        self._at: tuple[DualFunction, FloatArray] | None = None

    def evaluate(self, function: DualFunction, z: FloatArray) -> Evaluation:
        """Evaluate within the limits; the same place twice costs nothing."""
        if self._at is not None and self._at[0] is function and np.array_equal(self._at[1], z):
            assert self.latest is not None
            return self.latest
        if self.deadline.expired and self.latest is not None:
            raise _Ended(Stop.TIME_LIMIT, "time limit")
        try:
            found = function.evaluate(z)
        except np.linalg.LinAlgError as error:
            raise _Ended(Stop.NUMERICAL, str(error)) from None
        if not (math.isfinite(found.value) and np.isfinite(found.gradient).all()):
            raise _Ended(Stop.NUMERICAL, "the dual function overflows")
        first = self.latest is None
        self.latest, self._at = found, (function, np.array(z))
        self.evaluations += 1
        if first:
            self._call()
        self._inspect(function, found)
        return found

    def climb(
        self, function: DualFunction, z: FloatArray, ftol: float, gtol: float
    ) -> tuple[Evaluation, str]:
        """Maximise from ``z``; the evaluation at the end and L-BFGS-B's word for it."""
        self.rounds += 1
        found = self.evaluate(function, z)
        if function.size == 0:
            raise _Ended(Stop.FINISHED, "no row has a finite bound")
        settings = {"maxcor": self.options.memory, "ftol": ftol, "gtol": gtol, "maxls": LINE_SEARCH}
        unlimited = {"maxiter": 10**9, "maxfun": 10**9}
        for _ in range(1 + self.options.restarts):
            before = self.iterations
            answer = minimize(
                lambda at: self._descend(function, at),
                z,
                jac=True,
                method="L-BFGS-B",
                bounds=function.bounds,
                callback=self._step,
                options={**settings, **unlimited},
            )
            z = np.asarray(answer.x)
            # A line search that fails at its first step will fail again.
            if answer.status != 2 or self.iterations == before:
                break
        found = self.evaluate(function, z)
        return found, str(answer.message).strip()

    def _descend(self, function: DualFunction, z: FloatArray) -> tuple[float, FloatArray]:
        found = self.evaluate(function, z)
        return -found.value, -found.gradient

    def _step(self, _: FloatArray) -> None:
        self.iterations += 1
        if self.iterations % CALL_EVERY == 0:
            self._call()
        if self.iterations >= self.options.max_iterations:
            raise _Ended(Stop.ITERATION_LIMIT, "iteration limit")

    def _call(self) -> None:
        assert self.latest is not None
        if self._report is not None and self._report(self.iterations, self.deadline.elapsed, self.latest):
            raise _Ended(Stop.CALLBACK, "stopped by the callback")

    def useful(self, function: DualFunction, y: FloatArray) -> FloatArray:
        """Variables along ``y`` where the function is no lower than at zero."""
        zero = np.zeros(function.size)
        level = self.evaluate(function, zero).value
        z = function.variables(y)
        for share in (1.0, 0.1, 0.01):
            if self.evaluate(function, share * z).value >= level:
                return share * z
        return zero


# ---------------------------------------------------------------- the spectral form


def _spectral(
    problem: FeasibilityProblem,
    options: DualLbfgsOptions,
    deadline: Deadline,
    start: FloatArray | None,
    callback: Callback | None,
) -> Claim:
    evidence = Evidence(problem, EARLY * options.epsilon)

    def inspect(function: DualFunction, found: Evaluation) -> None:
        if evidence.inspect(function, found):
            raise _Ended(Stop.FINISHED, f"{evidence.proven} found")

    def report(iterations: int, elapsed: float, found: Evaluation) -> Any:
        assert callback is not None
        point, _ = fit_numbers(problem, found.point, found.rows)
        return callback(Progress(iterations, elapsed, point, found.multipliers))

    ascent = _Ascent(options, deadline, inspect, None if callback is None else report)
    try:
        search = _rounds if options.margin else _plain
        stop, status = search(problem, ascent, start)
    except _Ended as end:
        stop, status = end.stop, end.status
    return _claim(ascent, stop, status, evidence.point, evidence.multipliers)


def _claim(
    ascent: _Ascent, stop: Stop, status: str, point: Point | None, y: FloatArray | None, **info: Any
) -> Claim:
    latest = ascent.latest
    info |= {"evaluations": ascent.evaluations, "rounds": ascent.rounds}
    if latest is not None:
        info["margin"] = latest.margin
    certificate = y if y is not None and y.any() else None
    return Claim(point, certificate, status, stop, ascent.iterations, info)


def _centres(problem: FeasibilityProblem, units: Units, centre: float) -> FloatArray:
    """Middle of every box, and the same multiple of the identity on all cones, in units."""
    out = np.zeros(len(problem.sets))
    for b, block in enumerate(problem.sets):
        if isinstance(block, SpectralBox):
            # With a prescribed trace every multiple of the identity gives the same projection.
            middle = 0.5 * (block.lower + block.upper) if block.trace is None else 0.0
            out[b] = middle / units.blocks[b]
        elif not isinstance(block, Free):
            out[b] = centre / math.sqrt(block.n)
    return out


def _plain(problem: FeasibilityProblem, ascent: _Ascent, start: FloatArray | None) -> tuple[Stop, str]:
    """Solve the regularised problem itself, once."""
    options = ascent.options
    units = Units.guess(problem)
    function = DualFunction(problem, units, _centres(problem, units, options.centre))
    z = np.zeros(function.size) if start is None else ascent.useful(function, start)
    ftol = 0.0 if options.ftol is None else options.ftol
    _, status = ascent.climb(function, z, ftol, 1e-10 if options.gtol is None else options.gtol)
    return _converged(status)


def _converged(status: str) -> tuple[Stop, str]:
    return (Stop.FINISHED if status.startswith("CONVERGENCE") else Stop.STALLED), status


def _rounds(problem: FeasibilityProblem, ascent: _Ascent, start: FloatArray | None) -> tuple[Stop, str]:
    """Maximise the margin in rounds of growing weight, sizes taken from the round before."""
    options = ascent.options
    units, weight, accuracy, margin = Units.guess(problem), options.weight, ACCURACY, LARGE_MARGIN
    centres, y, settled = _centres(problem, units, options.centre), np.zeros(problem.m), 0
    if start is not None:
        units, weight, y = _warm(problem, ascent, units, centres, start)
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
            # There is slack; only the equality rows are not met well enough for a proof.
            settled += 1
            if settled > options.restarts:
                return Stop.FINISHED, f"converged with slack; {status}"
            accuracy *= 0.1
        else:
            centres = _further(function, found, options.growth)
            weight *= options.growth
            y = y * options.growth
        units = Units.at(problem, found.point)
    return Stop.STALLED, f"no proof up to weight {MOST_WEIGHT:g}; {status}"


def _further(function: DualFunction, found: Evaluation, growth: float) -> FloatArray:
    """Centres beyond the point, so that ``A*y`` becomes strictly negative, where infeasibility is suspected."""
    support, excess = function.support(found.spectra)
    gap = float(np.sum(function.problem.beta_terms(found.multipliers))) - support
    centres = np.array(function.centres)
    if not gap > 0.0 or excess == 0.0:
        return centres
    for b, block in enumerate(function.problem.sets):
        if not isinstance(block, (Free, SpectralBox)):
            top = float(np.max(block.spectrum(found.point[b]))) / function.units.blocks[b]
            grown = centres[b] * (growth if excess < SUSPICION * gap else 1.0)
            centres[b] = max(grown, BEYOND * top)
    return centres


def _warm(
    problem: FeasibilityProblem, ascent: _Ascent, units: Units, centres: FloatArray, y: FloatArray
) -> tuple[Units, float, FloatArray]:
    """Units, weight and multipliers to start from: their size is that of the weight they were found with."""
    function = DualFunction(problem, units, centres, ascent.options.weight)
    size = float(np.sum(np.abs(function.variables(y))))
    weight = min(max(size, ascent.options.weight), MOST_WEIGHT)
    y = y * (weight / size) if size > 0.0 else np.zeros(problem.m)
    function = DualFunction(problem, units, centres, weight)
    found = ascent.evaluate(function, function.variables(y))
    return Units.at(problem, found.point), weight, y


# ---------------------------------------------------------------- the lifted form


def _published(
    problem: FeasibilityProblem,
    options: DualLbfgsOptions,
    deadline: Deadline,
    start: FloatArray | None,
    callback: Callback | None,
) -> Claim:
    """Algorithm 2 of the paper: no margin, no centres, and the screen has the last word."""
    lift = problem.lift()
    lifted = lift.problem

    def inspect(function: DualFunction, found: Evaluation) -> None:
        beta = float(np.sum(lifted.beta_terms(found.multipliers)))
        size = math.sqrt(sum(float(np.sum(x * x)) for x in found.point))
        if beta > 0.0 and size / beta < options.epsilon:
            raise _Ended(Stop.FINISHED, f"infeasibility screen: {size / beta:.3g} < {options.epsilon:g}")

    function = DualFunction(lifted, Units.plain(lifted), np.zeros(len(lifted.sets)))
    ascent = _Ascent(options, deadline, inspect, _unlifted(lift, callback))
    try:
        z = np.zeros(function.size) if start is None else ascent.useful(function, lift.certificate(start))
        ftol = 2.2e-9 if options.ftol is None else options.ftol
        _, status = ascent.climb(function, z, ftol, 1e-5 if options.gtol is None else options.gtol)
        stop, status = _converged(status)
    except _Ended as end:
        stop, status = end.stop, end.status
    claim = _claim(ascent, stop, status, None, None)
    if ascent.latest is None:
        return claim
    y = lift.unlift_certificate(ascent.latest.multipliers)
    return replace(claim, point=lift.unlift_point(ascent.latest.point), certificate=y if y.any() else None)


def _unlifted(lift: Lift, callback: Callback | None) -> Callable[[int, float, Evaluation], Any] | None:
    if callback is None:
        return None

    def report(iterations: int, elapsed: float, found: Evaluation) -> Any:
        point = lift.unlift_point(found.point)
        return callback(Progress(iterations, elapsed, point, lift.unlift_certificate(found.multipliers)))

    return report
