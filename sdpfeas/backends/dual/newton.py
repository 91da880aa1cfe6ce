"""Second-order steps on the regularised dual: what its curvature is, and where its quadratic model is best.

The projection onto a set is a spectral function, so its derivative is an elementwise product in the basis of
the eigenvectors: with ``x_i`` the projection of the eigenvalue ``v_i``, entry (i, j) is multiplied by
``(x_i - x_j) / (v_i - v_j)``. Most of these are zero where eigenvalues sit at the ends of a box or beyond a
cone, and the rows need only be rotated into the remaining part.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from sdpfeas.backends.dual.ascent import Ascent
from sdpfeas.backends.dual.function import DualFunction, Evaluation
from sdpfeas.backends.ipm.images import image_of, mirrored
from sdpfeas.numerics.effort import Work, need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, largest_bound
from sdpfeas.problem.rows import Dense, Rows, Sparse
from sdpfeas.problem.rows.columns import dense_columns, vector_columns
from sdpfeas.problem.sets import BlockSet

__all__ = ["Newton", "curvature", "even_multipliers", "model_step", "suits"]

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

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    """
    full = [
        leaf.m * math.prod(leaf.shape)
        for rows in problem.rows
        if rows is not None
        for leaf in rows.leaves()
        if isinstance(leaf, (Dense, Sparse))
    ]
    few = 0 < problem.m <= MOST_ROWS and sum(full) <= MOST_ENTRIES
    few = few and all(block.matrix or block.entrywise for block in problem.sets)
    terms = np.sum(problem.block_norms > 0.0, axis=0) + (largest_bound(problem) > 0.0)
    return few and not problem.equality.any() and bool(np.all(terms >= 2))


def even_multipliers(function: DualFunction) -> FloatArray:
    """Multipliers of about the same weight for every row that leave small vector blocks alone.

    Parameters
    ----------
    function : DualFunction
        The function.
    """
    problem, even = function.problem, np.ones(function.size)
    columns = [
        function.factor[:, None] * dense_columns(vector_columns(rows))[function.row]
        for rows in problem.rows
        if rows is not None and not rows.matrix and rows.n <= MOST_COLUMNS
    ]
    if columns:
        table = np.concatenate(columns, axis=1)
        even -= table @ np.linalg.lstsq(table, even, rcond=None)[0]
        even = np.maximum(even, 0.0) if np.any(even > 0.0) else np.ones(function.size)
    return function.multipliers(even)


class Newton:
    """Ascent by damped Newton steps that keep to the signs of the variables.

    Parameters
    ----------
    ascent : Ascent
        Evaluates, counts and reports.
    """

    def __init__(self, ascent: Ascent) -> None:
        self._ascent = ascent
        self._damping = DAMPING

    def climb(
        self, function: DualFunction, z: FloatArray, gtol: float, steps: int
    ) -> tuple[Evaluation, bool]:
        """Maximise from ``z``; the evaluation at the end, and whether steps still worked.

        Parameters
        ----------
        function : DualFunction
            The function; none of its sets may depend on the margin.
        z : ndarray
            Where to start.
        gtol : float
            Largest entry of the projected gradient at which to stop.
        steps : int
            Most steps.
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
            step = model_step(gradient, damped, start, signless)
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

    Parameters
    ----------
    function : DualFunction
        The function; none of its sets may depend on the margin.
    found : Evaluation
        What it found at the variables.
    chosen : ndarray of int
        The variables.
    """
    index, place = np.unique(function.row[chosen], return_inverse=True)
    need("a step of Newton's method", *_curvature_work(function.problem, index.size))
    gram = np.zeros((index.size, index.size))
    for b, (block, rows) in enumerate(zip(function.sets, function.problem.rows, strict=True)):
        if rows is None:
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
        if rows is not None and rows.matrix:
            full = sum(leaf.m for leaf in rows.leaves() if isinstance(leaf, (Dense, Sparse)))
            spread = Work(products=0.5 * (float(size) * rows.n) ** 2, numbers=2.0 * rows.m * rows.n**2)
            total = total.plus(spread).plus(Work(products=2.0 * full * float(rows.n) ** 3))
    return total


def _slopes(block: BlockSet, projected: FloatArray) -> FloatArray:
    """Derivative of the projection of every eigenvalue by itself: one inside a set, zero at its ends."""
    return ((projected > block.lower) & (projected < block.upper)).astype(np.float64)


def _vector_gram(rows: Rows, slopes: FloatArray, index: np.ndarray) -> FloatArray:
    table = dense_columns(vector_columns(rows))[np.ix_(index, np.flatnonzero(slopes))]
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
    image = image_of(rows, vec[:, order].T)
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
        strip *= mirrored(np.sqrt(kernel[start:stop, start:]))
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


def model_step(
    gradient: FloatArray, hessian: FloatArray, z: FloatArray, signless: np.ndarray
) -> FloatArray | None:
    """Maximise ``g'd - d'Hd/2`` over steps that keep ``z + d`` non-negative; None if that fails.

    Parameters
    ----------
    gradient, hessian : ndarray
        The model, H positive definite.
    z : ndarray
        Where the step starts.
    signless : ndarray of bool
        Variables that may have either sign.
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
