"""Maximisation of the dual function: L-BFGS-B (scipy) and a damped semismooth Newton method.

:meth:`Ascent.maximise` runs L-BFGS-B (Byrd, Lu, Nocedal and Zhu 1995), :meth:`SemismoothNewton.maximise`
Newton steps with an element of the generalised Jacobian of the gradient (Qi and Sun 2006). Every evaluation
checks the limits of time and iterations and calls the stopping test of the backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from sdpfeas.backends.dual.dual_function import DualFunction, Evaluation
from sdpfeas.backends.ipm.transformed_rows import double_off_block, transform_rows
from sdpfeas.cards.options import Count, Range
from sdpfeas.claims import Stop
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.limits import check_deadline
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, largest_bound
from sdpfeas.problem.rows import Dense, Rows, Sparse
from sdpfeas.problem.rows.base import dense_array
from sdpfeas.problem.sets import BlockSet

#: Iterations between two calls of the callback.
CALLBACK_ITERATIONS = 5

#: Most steps of one line search.
LINE_SEARCH_STEPS = 40

#: scipy's status for a line search that failed.
LINE_SEARCH_FAILED = 2


@dataclass(frozen=True)
class Limits:
    """Options that limit an ascent.

    ``max_iterations`` over all runs, ``memory``: correction pairs of L-BFGS-B, ``restarts`` of a run from the
    same multipliers after a failed line search.
    """

    max_iterations: Count = 5000
    memory: Count = 30
    restarts: Annotated[int, Range(0)] = 3


class AscentStopped(Exception):
    """Ends the ascent with a stop reason and a status."""

    def __init__(self, stop: Stop, status: str) -> None:
        super().__init__(status)
        self.stop, self.status = stop, status


class Ascent:
    """Runs of L-BFGS-B with common limits, counters and callback.

    ``inspect`` is called with the function and every evaluation and may raise :class:`AscentStopped`.
    ``report`` is called with iterations, function and evaluation every few iterations; it returns True to
    stop.
    """

    def __init__(
        self,
        limits: Limits,
        deadline: Deadline,
        inspect: Callable[[DualFunction, Evaluation], None],
        report: Callable[[int, DualFunction, Evaluation], bool] | None,
    ) -> None:
        self.limits, self.deadline = limits, deadline
        self._inspect, self._report = inspect, report
        self.iterations = self.evaluations = self.rounds = 0
        self.latest: Evaluation | None = None
        self._latest_at: tuple[DualFunction, FloatArray] | None = None

    def evaluate(self, function: DualFunction, z: FloatArray) -> Evaluation:
        """Evaluate within the limits; the last evaluation is cached."""
        at = self._latest_at
        if at is not None and at[0] is function and np.array_equal(at[1], z):
            assert self.latest is not None
            return self.latest
        if self.deadline.expired and self.latest is not None:
            raise AscentStopped(Stop.TIME_LIMIT, "time limit")
        # Functions that differ in the weight only share their eigendecompositions.
        same = at is not None and np.array_equal(at[0].units.blocks, function.units.blocks)
        try:
            found = function.evaluate(z, self.latest if same else None)
        except np.linalg.LinAlgError as error:
            raise AscentStopped(Stop.NUMERICAL, str(error)) from None
        if not (math.isfinite(found.value) and np.isfinite(found.gradient).all()):
            raise AscentStopped(Stop.NUMERICAL, "the dual function overflows")
        first = self.latest is None
        self.latest, self._latest_at = found, (function, np.array(z))
        self.evaluations += 1
        if first:
            self._call_back()
        self._inspect(function, found)
        return found

    def maximise(
        self, function: DualFunction, z: FloatArray, ftol: float, gtol: float
    ) -> tuple[Evaluation, str]:
        """Maximise from ``z``; return the last evaluation and the message of L-BFGS-B."""
        self.rounds += 1
        found = self.evaluate(function, z)
        if function.size == 0:
            raise AscentStopped(Stop.FINISHED, "no row has a finite bound")
        settings = {"maxcor": self.limits.memory, "ftol": ftol, "gtol": gtol, "maxls": LINE_SEARCH_STEPS}
        unlimited = {"maxiter": 10**9, "maxfun": 10**9}
        for _ in range(1 + self.limits.restarts):
            before = self.iterations
            answer = minimize(
                lambda at: self._negated(function, at),
                z,
                jac=True,
                method="L-BFGS-B",
                bounds=function.bounds,
                callback=lambda _: self.count_iteration(CALLBACK_ITERATIONS),
                options={**settings, **unlimited},
            )
            z = np.asarray(answer.x)
            # A line search that fails at its first step will fail again.
            if answer.status != LINE_SEARCH_FAILED or self.iterations == before:
                break
        found = self.evaluate(function, z)
        return found, str(answer.message).strip()

    def _negated(self, function: DualFunction, z: FloatArray) -> tuple[float, FloatArray]:
        found = self.evaluate(function, z)
        return -found.value, -found.gradient

    def count_iteration(self, every: int) -> None:
        """Count an iteration, and call the callback if their number is a multiple of ``every``."""
        self.iterations += 1
        if self.iterations % every == 0:
            self._call_back()
        if self.iterations >= self.limits.max_iterations:
            raise AscentStopped(Stop.ITERATION_LIMIT, "iteration limit")

    def _call_back(self) -> None:
        assert self.latest is not None
        assert self._latest_at is not None
        if self._report is not None and self._report(self.iterations, self._latest_at[0], self.latest):
            raise AscentStopped(Stop.CALLBACK, "stopped by the callback")

    def scale_start(self, function: DualFunction, y: FloatArray) -> FloatArray:
        """Scale multipliers down until the function is no lower than at zero; return their variables."""
        zero = np.zeros(function.size)
        level = self.evaluate(function, zero).value
        z = function.variables(y)
        for share in (1.0, 0.1, 0.01):
            if self.evaluate(function, share * z).value >= level:
                return share * z
        return zero


# --- Semismooth Newton method
#
# The projection onto a set is a spectral function, so its derivative is an elementwise product in the basis
# of the eigenvectors: entry (i, j) is multiplied by the divided difference ``(x_i - x_j) / (v_i - v_j)`` of
# eigenvalues v and projected eigenvalues x. Most of these are zero where eigenvalues are at the ends of a
# box or outside a cone, and the rows are transformed only into the remaining part.

#: The Newton method is used for at most this many rows, and entries of rows without low rank.
NEWTON_ROWS, NEWTON_ENTRIES = 2500, 30_000_000

#: Damping relative to the mean diagonal entry of the Jacobian: first and least value, and value to give up
#: at.
DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-6, 1e-12, 1e6

#: Factors of the damping after a step that failed and after a full step that succeeded.
DAMPING_INCREASE, DAMPING_DECREASE = 30.0, 0.1

#: Share of the increase predicted by the gradient that a step must attain (Armijo).
SUFFICIENT_INCREASE = 0.05

#: A step that fails is retried once, shortened to a length in this range by a quadratic model.
SHORTENED_STEP_RANGE = (0.1, 0.5)

#: Floating-point numbers in one strip of transformed rows.
STRIP_NUMBERS = 2_000_000

#: Eigenvalues closer than this share of the largest count as equal.
EQUAL_EIGENVALUES_SHARE = 1e-13

#: Most iterations of the active-set method for a quadratic model.
ACTIVE_SET_ROUNDS = 30


def newton_applies(problem: FeasibilityProblem) -> bool:
    """Whether the Newton method is used: inequality rows only, and a Jacobian that is cheap enough.

    Every row must have at least two terms, its bound included: a single term that vanishes at the optimum
    gives no scale for a relative margin.
    """
    full = [
        leaf.m * math.prod(leaf.shape)
        for rows in problem.rows
        if not rows.empty
        for leaf in rows.leaves()
        if isinstance(leaf, (Dense, Sparse))
    ]
    few = 0 < problem.m <= NEWTON_ROWS and sum(full) <= NEWTON_ENTRIES
    few = few and all(block.matrix or block.entrywise for block in problem.sets)
    terms = np.sum(problem.block_norms > 0.0, axis=0) + (largest_bound(problem) > 0.0)
    return few and not problem.equality.any() and bool(np.all(terms >= 2))


class SemismoothNewton:
    """Ascent by damped semismooth Newton steps that keep the signs of the variables."""

    def __init__(self, ascent: Ascent) -> None:
        self._ascent = ascent
        self._damping = DAMPING

    def maximise(
        self, function: DualFunction, z: FloatArray, gtol: float, steps: int
    ) -> tuple[Evaluation, bool]:
        """Maximise from ``z`` until the projected gradient is at most ``gtol``.

        Returns the last evaluation, and False if a step failed. No set of the function may shrink with the
        margin.
        """
        ascent = self._ascent
        ascent.rounds += 1
        found = ascent.evaluate(function, z)
        for _ in range(steps):
            gradient, bound = found.gradient, ~function.signless & (z <= 0.0)
            chosen = np.flatnonzero(~bound | (gradient > 0.0))
            if float(np.max(np.abs(gradient[chosen]), initial=0.0)) <= gtol:
                break
            moved = self._step(function, found, z, chosen)
            if moved is None:
                return found, False
            z, found = moved
            ascent.count_iteration(1)
        return found, True

    def _step(
        self, function: DualFunction, found: Evaluation, z: FloatArray, chosen: np.ndarray
    ) -> tuple[FloatArray, Evaluation] | None:
        """Take one damped step; return variables and evaluation, None if no damping gives an increase."""
        hessian = generalised_jacobian(function, found, chosen)
        scale = float(np.trace(hessian)) / chosen.size
        gradient, start, signless = found.gradient[chosen], z[chosen], function.signless[chosen]
        if not 0.0 < scale < np.inf:
            return None
        while self._damping <= MOST_DAMPING:
            damped = hessian + self._damping * scale * np.eye(chosen.size)
            step = solve_quadratic_model(gradient, damped, start, signless)
            if step is not None:
                slope, length = float(gradient @ step), 1.0
                for _ in range(2):
                    there = np.array(z)
                    moved = start + length * step
                    there[chosen] = np.where(signless, moved, np.maximum(moved, 0.0))
                    after = self._ascent.evaluate(function, there)
                    gain = after.value - found.value
                    if gain >= SUFFICIENT_INCREASE * length * slope:
                        if length == 1.0:
                            self._damping = max(DAMPING_DECREASE * self._damping, LEAST_DAMPING)
                        return there, after
                    length = float(np.clip(0.5 * slope / (slope - gain), *SHORTENED_STEP_RANGE))
            self._damping *= DAMPING_INCREASE
        self._damping = DAMPING
        return None


def generalised_jacobian(function: DualFunction, found: Evaluation, chosen: np.ndarray) -> FloatArray:
    """Return minus an element of the generalised Jacobian of the gradient, in some of the variables.

    No set of the function may shrink with the margin.
    """
    index, place = np.unique(function.row[chosen], return_inverse=True)
    gram = np.zeros((index.size, index.size))
    for b, (block, rows) in enumerate(zip(function.sets, function.problem.rows, strict=True)):
        if rows.empty:
            continue
        shifted, projected = found.spectra[b] + function.centres[b], found.projected[b]
        vec, unit = found.vectors[b], function.units.blocks[b]
        if vec is None:
            part = _vector_jacobian(rows, _projection_slopes(block, projected), index)
        else:
            part = _matrix_jacobian(block, rows, vec, shifted, projected, index)
        gram += unit**2 * part
    out = gram[np.ix_(place, place)]
    if function.weight is not None and function.margin_moves(found.margin):
        tight = function.tightening[chosen]
        out += np.outer(tight, tight) / function.weight
    factor = function.factor[chosen]
    return np.asarray(factor[:, None] * out * factor)


def _projection_slopes(block: BlockSet, projected: FloatArray) -> FloatArray:
    """Derivative of every projected eigenvalue: one in the interior of a set, zero on its boundary."""
    return ((projected > block.lower) & (projected < block.upper)).astype(np.float64)


def _vector_jacobian(rows: Rows, slopes: FloatArray, index: np.ndarray) -> FloatArray:
    table = dense_array(rows.columns())[np.ix_(index, np.flatnonzero(slopes))]
    return np.asarray(table @ table.T)


def _matrix_jacobian(
    block: BlockSet,
    rows: Rows,
    vec: FloatArray,
    shifted: FloatArray,
    projected: FloatArray,
    index: np.ndarray,
) -> FloatArray:
    slopes = _projection_slopes(block, projected)
    inside = slopes > 0.0
    low = ~inside & (projected <= block.lower)
    high = ~inside & ~low
    # Divided differences between eigenvalues at the same end are zero: the larger such group is left out.
    last = high if high.sum() > low.sum() else low
    order = np.concatenate([np.flatnonzero(~last), np.flatnonzero(last)])
    moving = int(np.sum(~last))
    kernel = _divided_differences(shifted[order], projected[order], slopes[order], moving)
    image = transform_rows(rows, vec[:, order].T)
    n, m = block.n, rows.m
    traced = block.trace is not None and bool(inside.any())
    traces = np.zeros(index.size)
    gram = np.zeros((index.size, index.size))
    width = max(1, min(moving, STRIP_NUMBERS // max(m * n, 1)))
    spots = np.flatnonzero(slopes[order])
    for start in range(0, moving, width):
        check_deadline("a step of Newton's method")
        stop = min(start + width, moving)
        strip = np.empty((m, stop - start, n - start))
        image.strip(start, stop, strip)
        if index.size < m:
            strip = strip[index]
        if traced:
            here = spots[(spots >= start) & (spots < stop)] - start
            traces += strip[:, here, here].sum(axis=1)
        strip *= double_off_block(np.sqrt(kernel[start:stop, start:]))
        flat = strip.reshape(index.size, -1)
        gram += flat @ flat.T
    if traced:
        gram -= np.outer(traces, traces) / spots.size
    return gram


def _divided_differences(
    shifted: FloatArray, projected: FloatArray, slopes: FloatArray, moving: int
) -> FloatArray:
    """First ``moving`` rows of the matrix of divided differences of the projection."""
    run = shifted[:moving, None] - shifted
    rise = projected[:moving, None] - projected
    equal = np.abs(run) <= EQUAL_EIGENVALUES_SHARE * float(np.max(np.abs(shifted), initial=0.0))
    table = np.where(equal, 0.5 * (slopes[:moving, None] + slopes), rise / np.where(equal, 1.0, run))
    return np.asarray(np.clip(table, 0.0, 1.0))


def solve_quadratic_model(
    gradient: FloatArray, hessian: FloatArray, z: FloatArray, signless: np.ndarray
) -> FloatArray | None:
    """Maximise ``g'd - d'Hd/2`` over steps that keep ``z + d`` non-negative, by an active-set method.

    Variables in ``signless`` may have either sign. Returns None if H is not positive definite.
    """
    at_zero = np.zeros(z.size, dtype=bool)
    step = np.zeros(z.size)
    for _ in range(ACTIVE_SET_ROUNDS):
        free = ~at_zero
        step[at_zero] = -z[at_zero]
        right = gradient[free] - hessian[np.ix_(free, at_zero)] @ step[at_zero]
        try:
            factor = scipy.linalg.cho_factor(hessian[np.ix_(free, free)], check_finite=False)
        except np.linalg.LinAlgError:
            return None
        step[free] = scipy.linalg.cho_solve(factor, right, check_finite=False)
        push = gradient - hessian @ step
        want = ~signless & np.where(at_zero, push <= 0.0, z + step < 0.0)
        if np.array_equal(want, at_zero):
            return step
        at_zero = want
    return np.asarray(np.where(signless, step, np.maximum(step, -z)))
