"""The Frobenius-regularised dual: a smooth concave function of the multipliers.

For sets ``K_b``, centres ``C_b`` and a weight ``rho`` it is the dual of

    minimise    1/2 sum_b ||X_b / R_b - C_b||^2 + rho/2 (1 - s)^2
    subject to  X_b in K_b(s),   lower + s w <= A(X) <= upper - s w,

with the unit ``R_b`` of a block, the scales ``w`` of the rows and the *margin* ``s``. Inequality rows are
tightened by ``s w``, and so are the sets that equality rows have entries on, because only an interior point
can be corrected onto these rows. A minimiser with ``s > 0`` is therefore a point with slack, which can be
proved feasible; a negative ``s`` keeps the program feasible and the dual bounded where the problem is
infeasible. Without a weight ``s`` is zero, and with all centres zero this is the program of Li, Shen, van
den Hengel and Shi (2015).

The gradient of the dual function is the residual of the rows at ``X(y)``, the projection of ``C + A*y``, so
an evaluation costs one eigendecomposition per matrix block. A row with two distinct finite bounds has two
variables, one per bound, each of one sign. :meth:`DualFunction.evaluate` is the main entry point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from scipy.optimize import brentq

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.sets.base import BlockSet, Frame

#: Upper limit of the margin: at one, a box has shrunk to a single point.
LARGEST_MARGIN = 0.5

#: Least scale of a row, relative to the bound by its norm.
LEAST_ROW_SHARE = 1e-8

#: Error of the optimal margin.
ROOT_ERROR = 1e-15


@dataclass(frozen=True)
class Units:
    """Natural scales of each block (a Frobenius norm, to a power of two) and of the terms of each row."""

    blocks: FloatArray
    rows: FloatArray

    @classmethod
    def plain(cls, problem: FeasibilityProblem) -> Units:
        """Unit blocks and rows normalised by their norm, as in the published method."""
        return cls(np.ones(len(problem.sets)), np.where(problem.norms > 0.0, problem.norms, 1.0))

    @classmethod
    def guess(cls, problem: FeasibilityProblem) -> Units:
        """Scales from the data: radii of boxes, and the scale of the bounds for other blocks."""
        radii = np.array([_radius(block) for block in problem.sets])
        parts = problem.block_norms * radii[:, None]
        return cls._from_parts(problem, parts, radii, np.full(problem.m, math.inf))

    @classmethod
    def at(cls, problem: FeasibilityProblem, point: Point) -> Units:
        """Scales of the terms of the rows at a point."""
        radii = np.array([_radius(block) for block in problem.sets])
        parts = np.array(
            [np.abs(rows.apply(x)) for rows, x in zip(problem.rows, point, strict=True)]
        ).reshape(len(problem.sets), problem.m)
        return cls._from_parts(problem, parts, radii, largest_bound(problem) + parts.sum(axis=0))

    @classmethod
    def _from_parts(
        cls, problem: FeasibilityProblem, parts: FloatArray, radii: FloatArray, terms: FloatArray
    ) -> Units:
        """Scale an unbounded block so that its term in a typical row balances the rest of the row."""
        blocks = np.array(radii)
        total = largest_bound(problem) + parts.sum(axis=0)
        for b in np.flatnonzero(radii == 0.0):
            rest, norms = total - parts[b], problem.block_norms[b]
            known = (norms > 0.0) & (rest > 0.0)
            blocks[b] = float(np.median(rest[known] / norms[known])) if known.any() else 1.0
        blocks = 1.0 / power_of_two(blocks)
        reach = np.sqrt(np.sum((problem.block_norms * blocks[:, None]) ** 2, axis=0))
        reach = np.where(reach > 0.0, reach, 1.0)
        rows = np.where(problem.equality, reach, np.clip(terms, LEAST_ROW_SHARE * reach, reach))
        return cls(blocks, rows)


def _radius(block: BlockSet) -> float:
    """Frobenius radius of a bounded set, its norm if it is a single point; zero if unbounded."""
    if not block.bounded:
        return 0.0
    return max(block.radius, 1e-3 * (math.sqrt(block.degree) * block.spectral_radius)) or 1.0


@dataclass(frozen=True)
class Evaluation:
    """Value and gradient of the dual function with the quantities computed on the way.

    - ``multipliers``, ``point``, ``rows``: y, ``X(y)`` and its row values, in the units of the problem.
    - ``spectra``: eigenvalues of ``A*y`` (entries, for vectors), times the unit of the block.
    - ``vectors``: eigenvectors of ``A*y``; None for vectors.
    - ``projected``: eigenvalues (entries) of ``X(y)``, divided by the unit of the block.
    """

    value: float
    gradient: FloatArray
    multipliers: FloatArray
    point: Point
    rows: FloatArray
    spectra: tuple[FloatArray, ...]
    margin: float
    vectors: tuple[Frame, ...]
    projected: tuple[FloatArray, ...]


class DualFunction:
    """The dual function of a problem in given units.

    ``centres`` holds, for every block, the multiple of the identity (of the vector of ones) to stay near,
    in units. ``weight`` is the weight rho of the margin; None for no margin.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        units: Units,
        centres: FloatArray,
        weight: float | None = None,
        most_margin: float = LARGEST_MARGIN,
    ) -> None:
        self.problem, self.units, self.centres, self.weight = problem, units, centres, weight
        self._most_margin = most_margin
        equal = problem.equality
        low = np.flatnonzero(np.isfinite(problem.lower))
        high = np.flatnonzero(np.isfinite(problem.upper) & ~equal)
        #: Row of every variable.
        self.row = np.concatenate([low, high])
        self._bound = np.concatenate([problem.lower[low], problem.upper[high]])
        #: Variables of equality rows, which may have either sign.
        self.signless = equal[self.row]
        sign = np.concatenate([np.ones(low.size), -np.ones(high.size)])
        #: Multiplier of a row per unit of a variable: a power of two, so that conversion is exact.
        self.factor = sign * power_of_two(units.rows)[self.row]
        gap = np.where(equal, 0.0, problem.upper - problem.lower)
        #: Change of the bound of every variable per unit of the margin.
        self.tightening = sign * np.minimum(units.rows, 0.25 * gap)[self.row]
        self._guess = 0.0
        #: The sets in units.
        self.sets = [block.scaled(1.0 / r) for block, r in zip(problem.sets, units.blocks, strict=True)]
        touched = [bool(np.any(norms[equal] > 0.0)) for norms in problem.block_norms]
        self._shrinks = [
            weight is not None and hit and not block.free
            for block, hit in zip(problem.sets, touched, strict=True)
        ]

    @property
    def size(self) -> int:
        """Number of variables."""
        return int(self.row.size)

    @property
    def bounds(self) -> list[tuple[float | None, float | None]] | None:
        """Bounds of the variables for scipy; None where all are free, which is faster."""
        if self.signless.all():
            return None
        return [(None, None) if free else (0.0, None) for free in self.signless]

    def margin_moves(self, margin: float) -> bool:
        """Whether the margin changes with the variables: it is below its upper limit."""
        return margin < self._most_margin

    def multipliers(self, z: FloatArray) -> FloatArray:
        """Multipliers of the rows, in the units of the problem."""
        y = np.zeros(self.problem.m)
        np.add.at(y, self.row, self.factor * z)
        return y

    def variables(self, y: FloatArray) -> FloatArray:
        """Variables of the multipliers ``y``, clipped to their signs."""
        z = y[self.row] / self.factor
        return np.where(self.signless, z, np.maximum(z, 0.0))

    def scale_to_zero_margin(self, y: FloatArray) -> FloatArray:
        """Scale multipliers so that the optimal margin is zero; zero stays zero."""
        assert self.weight is not None
        mass = float((self.factor * self.variables(y)) @ self.tightening)
        return y * (self.weight / mass) if 0.0 < mass < math.inf else y

    def margin_gap(self, found: Evaluation, point: Point, rows: FloatArray) -> float:
        """Gap between an upper and a lower estimate of the largest margin; for inequality rows only.

        The margin is relative to the sum of the magnitudes of the terms of a row at ``point``.
        """
        weights = self.factor * self.variables(found.multipliers)
        terms = (abs(part.apply(x)) for part, x in zip(self.problem.rows, point, strict=True))
        sizes = np.sign(self.factor) * sum(terms, largest_bound(self.problem))[self.row]
        mass = float(weights @ sizes)
        if not mass > 0.0 or not np.all(sizes):
            return math.inf
        attained = max(
            float(np.min((values[self.row] - self._bound) / sizes)) for values in (rows, found.rows)
        )
        support = -float(weights @ self._bound)
        for unit_set, lam, x in zip(self.sets, found.spectra, found.projected, strict=True):
            if unit_set.bounded:
                support += unit_set.support_spectrum(lam)
            else:
                # The violation of dual feasibility on a cone counts with the weight of the point.
                support += float(np.maximum(lam, 0.0) @ x)
        return support / mass - attained

    def evaluate(self, z: FloatArray, before: Evaluation | None = None) -> Evaluation:
        """Evaluate value, gradient, point and margin at the variables ``z``.

        Eigendecompositions of ``before``, an evaluation with the same units of blocks, are reused at equal
        multipliers. Raises ``numpy.linalg.LinAlgError`` if a block overflows or its eigendecomposition
        fails.
        """
        problem, y = self.problem, self.multipliers(z)
        weights = self.factor * z
        mass = float(weights @ self.tightening)
        if before is not None and np.array_equal(before.multipliers, y):
            spectra, vectors = before.spectra, before.vectors
        else:
            spectra, vectors = self._decompose(y)
        margin = self._margin(spectra, mass)
        value = float(weights @ self._bound)
        if self.weight is not None:
            value += margin * mass + 0.5 * self.weight * (1.0 - margin) ** 2
        point, projected = [], []
        for b, (lam, vec) in enumerate(zip(spectra, vectors, strict=True)):
            x = self._project(b, lam + self.centres[b], margin)
            value -= float(lam @ x) - 0.5 * float(np.sum((x - self.centres[b]) ** 2))
            projected.append(x)
            x = x * self.units.blocks[b]
            point.append(self._compose(b, vec, x))
        at_rows = problem.apply(tuple(point))
        short = self._bound + margin * self.tightening - at_rows[self.row]
        return Evaluation(
            value,
            self.factor * short,
            y,
            tuple(point),
            at_rows,
            spectra,
            margin,
            vectors,
            tuple(projected),
        )

    def _decompose(self, y: FloatArray) -> tuple[tuple[FloatArray, ...], tuple[Frame, ...]]:
        """Eigenvalues and eigenvectors of ``A*y``, in units."""
        spectra: list[FloatArray] = []
        vectors: list[Frame] = []
        for (_, block, rows), unit in zip(self.problem.blocks(), self.units.blocks, strict=True):
            g = unit * rows.adjoint(y)
            lam, frame = block.decompose(g)
            spectra.append(lam)
            vectors.append(frame)
        return tuple(spectra), tuple(vectors)

    def _compose(self, b: int, frame: Frame, x: FloatArray) -> FloatArray:
        """Block from eigenvectors and eigenvalues, by a low-rank product where most of these are zero."""
        inside = x != 0.0
        # The published method, which has no weight, uses the plain product.
        few = self.weight is not None and 2 * int(np.count_nonzero(inside)) <= x.size and not np.any(x < 0.0)
        if frame is None or not (self.sets[b].matrix and few):
            return self.sets[b].compose(frame, x)
        half = frame[:, inside] * np.sqrt(x[inside])
        return np.asarray(half @ half.T)

    def support(self, spectra: tuple[FloatArray, ...]) -> tuple[float, float]:
        """Support function of the boxes, and the distance of ``A*y`` from the polar cones of other blocks."""
        total, excess = 0.0, 0.0
        for block, lam in zip(self.sets, spectra, strict=True):
            if block.bounded:
                total += block.support_spectrum(lam)
            else:
                # The distance from the polar cone is the norm of the projection onto the cone (Moreau).
                excess = math.hypot(excess, float(np.linalg.norm(block.project_spectrum(lam))))
        return total, excess

    @cached_property
    def _shrink_directions(self) -> list[float]:
        """Point to which a box shrinks, or direction in which a cone moves, as multiples of the identity."""
        return [block.middle if block.bounded else 1.0 / math.sqrt(block.degree) for block in self.sets]

    def _project(self, b: int, v: FloatArray, margin: float) -> FloatArray:
        """Project a spectrum onto ``K_b(margin)``: a box shrunk to its middle, a cone moved inwards."""
        block = self.sets[b]
        if not self._shrinks[b]:
            return block.project_spectrum(v)
        shift = margin * self._shrink_directions[b]
        if not block.bounded:
            return block.project_spectrum(v - shift) + shift
        share = 1.0 - margin
        return share * block.project_spectrum((v - shift) / share) + shift

    def _margin_slope(self, b: int, v: FloatArray, margin: float) -> float:
        """Derivative by the margin of the contribution of block ``b`` to the inner maximum."""
        x = self._project(b, v, margin)
        middle = self._shrink_directions[b]
        if not self.sets[b].bounded:
            return float(np.sum(v - x)) * middle
        # x = (1 - s) p + s m with p in the set, so dx/ds = m - p = (m - x) / (1 - s).
        return float((v - x) @ (middle - x)) / (1.0 - margin)

    def _margin(self, spectra: Sequence[FloatArray], mass: float) -> float:
        """Optimal margin for given multipliers: the root of a derivative with slope at most -rho."""
        if self.weight is None:
            return 0.0
        rho = self.weight
        moving = [b for b, shrinks in enumerate(self._shrinks) if shrinks]
        if not moving:
            return min(1.0 - mass / rho, self._most_margin)
        shifted = [(b, spectra[b] + self.centres[b]) for b in moving]

        @cache  # brentq evaluates both ends again
        def slope(s: float) -> float:
            return rho * (1.0 - s) - mass + sum(self._margin_slope(b, v, s) for b, v in shifted)

        # The root of the last evaluation is a good initial guess.
        self._guess = _decreasing_root(slope, self._guess, rho, self._most_margin)
        return self._guess


def _decreasing_root(function: Callable[[float], float], guess: float, rate: float, most: float) -> float:
    """Root of a function that decreases at least at ``rate``, but at most ``most``."""
    here = function(guess)
    # The rate bounds the distance of the root.
    there = min(guess + here / rate, most)
    at_there = function(there)
    if not (math.isfinite(here) and math.isfinite(at_there)):
        raise np.linalg.LinAlgError("the multipliers overflow")
    if here * at_there >= 0.0:  # a root up to rounding, or beyond the upper limit
        return there
    # After a hundred iterations, which very wide brackets may take, the last iterate is as good as any.
    rounding = 4.0 * np.finfo(float).eps
    return float(brentq(function, guess, there, xtol=ROOT_ERROR, rtol=rounding, disp=False))
