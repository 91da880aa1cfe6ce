"""Ascent by scipy's L-BFGS-B, within limits of time and iterations that every evaluation checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from sdpfeas.backends.dual.dual_function import DualFunction, Evaluation
from sdpfeas.backends.ipm.transformed_rows import double_off_block, transform_rows
from sdpfeas.claims import Stop
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.cost_estimate import Work, need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, largest_bound
from sdpfeas.problem.rows import Dense, Rows, Sparse
from sdpfeas.problem.rows.base import dense_array
from sdpfeas.problem.sets import BlockSet

#: Iterations between two calls of the callback.
CALL_EVERY = 5

#: Most steps of one line search.
LINE_SEARCH = 40

#: Numbers that could be written while scipy looks at one bound, in Python and several times.
SETUP = 4000.0

#: scipy's status for a line search that failed.
ABNORMAL = 2


class Limits(Protocol):
    """The options an ascent looks at."""

    @property
    def max_iterations(self) -> int:
        """Iterations over all runs."""

    @property
    def memory(self) -> int:
        """Corrections kept."""

    @property
    def restarts(self) -> int:
        """Fresh starts when the line search stalls."""


class Ended(Exception):
    """The search is over."""

    def __init__(self, stop: Stop, status: str) -> None:
        super().__init__(status)
        self.stop, self.status = stop, status


class Ascent:
    """Runs of L-BFGS-B that share limits, counters and callback.

    ``limits``: what L-BFGS-B may do. ``inspect``: called with the function and every evaluation; may raise
    :class:`Ended`. ``report``: called with iterations, function and an evaluation every few iterations;
    True stops.
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
        self._at: tuple[DualFunction, FloatArray] | None = None

    def evaluate(self, function: DualFunction, z: FloatArray) -> Evaluation:
        """Evaluate within the limits; the same place twice costs nothing."""
        if self._at is not None and self._at[0] is function and np.array_equal(self._at[1], z):
            assert self.latest is not None
            return self.latest
        if self.deadline.expired and self.latest is not None:
            raise Ended(Stop.TIME_LIMIT, "time limit")
        # Where only the weight is another, the eigendecompositions are the same.
        same = self._at is not None and np.array_equal(self._at[0].units.blocks, function.units.blocks)
        try:
            need("an evaluation of the dual function", *function.problem.work.times(2.0))
            found = function.evaluate(z, self.latest if same else None)
        except np.linalg.LinAlgError as error:
            raise Ended(Stop.NUMERICAL, str(error)) from None
        if not (math.isfinite(found.value) and np.isfinite(found.gradient).all()):
            raise Ended(Stop.NUMERICAL, "the dual function overflows")
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
            raise Ended(Stop.FINISHED, "no row has a finite bound")
        settings = {"maxcor": self.limits.memory, "ftol": ftol, "gtol": gtol, "maxls": LINE_SEARCH}
        unlimited = {"maxiter": 10**9, "maxfun": 10**9}
        bounds = function.bounds
        need("the set-up of L-BFGS-B", numbers=SETUP * len(bounds or ()))
        for _ in range(1 + self.limits.restarts):
            before = self.iterations
            answer = minimize(
                lambda at: self._descend(function, at),
                z,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                callback=lambda _: self.advance(CALL_EVERY),
                options={**settings, **unlimited},
            )
            z = np.asarray(answer.x)
            # A line search that fails at its first step will fail again.
            if answer.status != ABNORMAL or self.iterations == before:
                break
        found = self.evaluate(function, z)
        return found, str(answer.message).strip()

    def _descend(self, function: DualFunction, z: FloatArray) -> tuple[float, FloatArray]:
        found = self.evaluate(function, z)
        return -found.value, -found.gradient

    def advance(self, every: int) -> None:
        """Count an iteration, and call the callback if their number is a multiple of ``every``."""
        self.iterations += 1
        if self.iterations % every == 0:
            self._call()
        if self.iterations >= self.limits.max_iterations:
            raise Ended(Stop.ITERATION_LIMIT, "iteration limit")

    def _call(self) -> None:
        assert self.latest is not None
        assert self._at is not None
        if self._report is not None and self._report(self.iterations, self._at[0], self.latest):
            raise Ended(Stop.CALLBACK, "stopped by the callback")

    def useful(self, function: DualFunction, y: FloatArray) -> FloatArray:
        """Variables along ``y`` where the function is no lower than at zero."""
        zero = np.zeros(function.size)
        level = self.evaluate(function, zero).value
        z = function.variables(y)
        for share in (1.0, 0.1, 0.01):
            if self.evaluate(function, share * z).value >= level:
                return share * z
        return zero


# ------------------------------------------------------------
# Second-order steps on the regularised dual: what its curvature is, and where its quadratic model is best.
#
# The projection onto a set is a spectral function, so its derivative is an elementwise product in the basis
# of the eigenvectors: with ``x_i`` the projection of the eigenvalue ``v_i``, entry (i, j) is multiplied by
# ``(x_i - x_j) / (v_i - v_j)``. Most of these are zero where eigenvalues sit at the ends of a box or beyond
# a cone, and the rows need only be rotated into the remaining part.

#: Most rows, and most entries of rows that have to be rotated as full matrices or belong to vectors.
MOST_ROWS, MOST_ENTRIES = 2500, 30_000_000

#: Vector blocks of more entries than this are not balanced at the start.
MOST_COLUMNS = 50

#: Damping of the model, relative to the mean of its curvature: at first, at least, and beyond which no step
#: is worth another try.
DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-6, 1e-12, 1e6

#: The damping grows by this factor where a step fails, and shrinks by the other where one succeeds.
MORE, LESS = 30.0, 0.1

#: Share of the rise that the gradient promises which a step has to bring.
RISE = 0.05

#: A step that fails is tried once more, shortened to between these.
SHORTENED = (0.1, 0.5)

#: Floats in one strip of rotated rows.
STRIP_SIZE = 2_000_000

#: Eigenvalues closer than this share of the largest count as equal.
EQUAL = 1e-13

#: Rounds of the active-set method for a quadratic model.
MODEL_ROUNDS = 30


def suits(problem: FeasibilityProblem) -> bool:
    """Whether Newton's method is worth trying: no equality rows, and a curvature that is cheap enough.

    Every row must also have two terms at least, bound included: of a single one that vanishes at the end the
    value tells no size, and margins relative to it mean nothing.
    """
    full = [
        leaf.m * math.prod(leaf.shape)
        for rows in problem.rows
        if not rows.empty
        for leaf in rows.leaves()
        if isinstance(leaf, (Dense, Sparse))
    ]
    few = 0 < problem.m <= MOST_ROWS and sum(full) <= MOST_ENTRIES
    few = few and all(block.matrix or block.entrywise for block in problem.sets)
    terms = np.sum(problem.block_norms > 0.0, axis=0) + (largest_bound(problem) > 0.0)
    return few and not problem.equality.any() and bool(np.all(terms >= 2))


def uniform_multipliers(function: DualFunction) -> FloatArray:
    """Multipliers of about the same weight for every row that leave small vector blocks alone."""
    problem, even = function.problem, np.ones(function.size)
    columns = [
        function.factor[:, None] * dense_array(rows.columns())[function.row]
        for rows in problem.rows
        if not rows.empty and not rows.matrix and rows.n <= MOST_COLUMNS
    ]
    if columns:
        table = np.concatenate(columns, axis=1)
        even -= table @ np.linalg.lstsq(table, even, rcond=None)[0]
        even = np.maximum(even, 0.0) if np.any(even > 0.0) else np.ones(function.size)
    return function.multipliers(even)


class Newton:
    """Ascent by damped Newton steps that keep to the signs of the variables."""

    def __init__(self, ascent: Ascent) -> None:
        self._ascent = ascent
        self._damping = DAMPING

    def climb(
        self, function: DualFunction, z: FloatArray, gtol: float, steps: int
    ) -> tuple[Evaluation, bool]:
        """Maximise from ``z``; the evaluation at the end, and whether steps still worked.

        ``function``: the function; none of its sets may depend on the margin. ``gtol``: largest entry of
        the projected gradient at which to stop.
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
            ascent.advance(1)
        return found, True

    def _step(
        self, function: DualFunction, found: Evaluation, z: FloatArray, chosen: np.ndarray
    ) -> tuple[FloatArray, Evaluation] | None:
        """Variables and evaluation after one step; None if no damping makes one work."""
        hessian = curvature(function, found, chosen)
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
                    if gain >= RISE * length * slope:
                        if length == 1.0:
                            self._damping = max(LESS * self._damping, LEAST_DAMPING)
                        return there, after
                    length = float(np.clip(0.5 * slope / (slope - gain), *SHORTENED))
            self._damping *= MORE
        self._damping = DAMPING
        return None


def curvature(function: DualFunction, found: Evaluation, chosen: np.ndarray) -> FloatArray:
    """Return minus the (generalised) second derivative of the dual function in some of its variables.

    ``function``: the function; none of its sets may depend on the margin. ``found``: what it found at the
    variables.
    """
    index, place = np.unique(function.row[chosen], return_inverse=True)
    need("a step of Newton's method", *_curvature_work(function.problem, index.size))
    gram = np.zeros((index.size, index.size))
    for b, (block, rows) in enumerate(zip(function.sets, function.problem.rows, strict=True)):
        if rows.empty:
            continue
        shifted, projected = found.spectra[b] + function.centres[b], found.projected[b]
        vec, unit = found.vectors[b], function.units.blocks[b]
        if vec is None:
            part = _vector_gram(rows, _slopes(block, projected), index)
        else:
            part = _matrix_gram(block, rows, vec, shifted, projected, index)
        gram += unit**2 * part
    out = gram[np.ix_(place, place)]
    if function.weight is not None and function.margin_moves(found.margin):
        tight = function.tightening[chosen]
        out += np.outer(tight, tight) / function.weight
    factor = function.factor[chosen]
    return np.asarray(factor[:, None] * out * factor)


def _curvature_work(problem: FeasibilityProblem, size: int) -> Work:
    """What the curvature takes, and a factorisation of it, at the most."""
    total = Work(products=float(size) ** 3, numbers=8.0 * float(size) ** 2)
    for rows in problem.rows:
        if not rows.empty and rows.matrix:
            full = sum(leaf.m for leaf in rows.leaves() if isinstance(leaf, (Dense, Sparse)))
            spread = Work(products=0.5 * (float(size) * rows.n) ** 2, numbers=2.0 * rows.m * rows.n**2)
            total = total.plus(spread).plus(Work(products=2.0 * full * float(rows.n) ** 3))
    return total


def _slopes(block: BlockSet, projected: FloatArray) -> FloatArray:
    """Derivative of the projection of every eigenvalue by itself: one inside a set, zero at its ends."""
    return ((projected > block.lower) & (projected < block.upper)).astype(np.float64)


def _vector_gram(rows: Rows, slopes: FloatArray, index: np.ndarray) -> FloatArray:
    table = dense_array(rows.columns())[np.ix_(index, np.flatnonzero(slopes))]
    return np.asarray(table @ table.T)


def _matrix_gram(
    block: BlockSet,
    rows: Rows,
    vec: FloatArray,
    shifted: FloatArray,
    projected: FloatArray,
    index: np.ndarray,
) -> FloatArray:
    slopes = _slopes(block, projected)
    inside = slopes > 0.0
    low = ~inside & (projected <= block.lower)
    high = ~inside & ~low
    # Between eigenvalues at the same end nothing moves: the larger such group comes last and is left out.
    last = high if high.sum() > low.sum() else low
    order = np.concatenate([np.flatnonzero(~last), np.flatnonzero(last)])
    moving = int(np.sum(~last))
    kernel = _divided(shifted[order], projected[order], slopes[order], moving)
    image = transform_rows(rows, vec[:, order].T)
    n, m = block.n, rows.m
    traced = block.trace is not None and bool(inside.any())
    traces = np.zeros(index.size)
    gram = np.zeros((index.size, index.size))
    width = max(1, min(moving, STRIP_SIZE // max(m * n, 1)))
    spots = np.flatnonzero(slopes[order])
    for start in range(0, moving, width):
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


def _divided(shifted: FloatArray, projected: FloatArray, slopes: FloatArray, moving: int) -> FloatArray:
    """First ``moving`` rows of the table of divided differences of the projection."""
    run = shifted[:moving, None] - shifted
    rise = projected[:moving, None] - projected
    equal = np.abs(run) <= EQUAL * float(np.max(np.abs(shifted), initial=0.0))
    table = np.where(equal, 0.5 * (slopes[:moving, None] + slopes), rise / np.where(equal, 1.0, run))
    return np.asarray(np.clip(table, 0.0, 1.0))


def solve_quadratic_model(
    gradient: FloatArray, hessian: FloatArray, z: FloatArray, signless: np.ndarray
) -> FloatArray | None:
    """Maximise ``g'd - d'Hd/2`` over steps that keep ``z + d`` non-negative; None if that fails.

    ``signless``: variables that may have either sign.
    """
    at_zero = np.zeros(z.size, dtype=bool)
    step = np.zeros(z.size)
    for _ in range(MODEL_ROUNDS):
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
