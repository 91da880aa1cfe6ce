"""The regularised dual: one smooth concave function of the multipliers.

For sets ``K_b``, centres ``C_b`` and a weight ``rho`` it belongs to

    minimise    1/2 sum_b ||X_b / R_b - C_b||^2 + rho/2 (1 - s)^2
    subject to  X_b in K_b(s),   lower + s w <= A(X) <= upper - s w,

``R_b`` the unit of a block, ``w`` the sizes of the rows, and ``s`` the *margin*: inequality rows are
tightened by ``s w``, and so are the sets that equality rows touch, because only a point in their interior
can be corrected onto the rows. A minimiser with ``s > 0`` is therefore a point with slack, which can be
proved; a negative ``s`` keeps the problem feasible and the dual bounded where the question itself is not.
Without a weight ``s`` is zero, and with all centres zero this is the problem of the paper.

The dual gradient is what the rows miss at ``X(y)``, the projection of ``C + A*y``, so one evaluation costs
one eigendecomposition per matrix block. Rows with two distinct finite ends have two multipliers, one per
end, each of one sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.sets.base import BlockSet, Frame

#: Largest margin: at one, a box has shrunk to a single point.
MOST_MARGIN = 0.5

#: Rows are never taken to be smaller than this share of what their norm allows.
LEAST_ROW = 1e-8

#: Most steps of a search for the best margin, and the rounding error it stops at.
ROOT_STEPS, ROOT_ROUNDING = 100, 1e-15


@dataclass(frozen=True)
class Units:
    """Natural sizes: of each block (a Frobenius norm) and of each row (of the terms it adds up).

    ``blocks``: one unit per block, a power of two.
    """

    blocks: FloatArray
    rows: FloatArray

    @classmethod
    def plain(cls, problem: FeasibilityProblem) -> Units:
        """Unit blocks, and rows normalised by their norm: as published."""
        return cls(np.ones(len(problem.sets)), np.where(problem.norms > 0.0, problem.norms, 1.0))

    @classmethod
    def guess(cls, problem: FeasibilityProblem) -> Units:
        """Sizes from the data alone: boxes have a radius, and bounds ask something of the other blocks."""
        radii = np.array([_radius(block) for block in problem.sets])
        parts = problem.block_norms * radii[:, None]
        return cls._from_parts(problem, parts, radii, np.full(problem.m, math.inf))

    @classmethod
    def at(cls, problem: FeasibilityProblem, point: Point) -> Units:
        """Sizes of the terms at a point; what is far from its final size is thus found out on the way."""
        radii = np.array([_radius(block) for block in problem.sets])
        parts = np.array(
            [np.abs(rows.apply(x)) for rows, x in zip(problem.rows, point, strict=True)]
        ).reshape(len(problem.sets), problem.m)
        return cls._from_parts(problem, parts, radii, largest_bound(problem) + parts.sum(axis=0))

    @classmethod
    def _from_parts(
        cls, problem: FeasibilityProblem, parts: FloatArray, radii: FloatArray, terms: FloatArray
    ) -> Units:
        """Size an unbounded block so that its share of a typical row balances the rest of the row."""
        blocks = np.array(radii)
        total = largest_bound(problem) + parts.sum(axis=0)
        for b in np.flatnonzero(radii == 0.0):
            rest, norms = total - parts[b], problem.block_norms[b]
            known = (norms > 0.0) & (rest > 0.0)
            blocks[b] = float(np.median(rest[known] / norms[known])) if known.any() else 1.0
        blocks = 1.0 / power_of_two(blocks)
        reach = np.sqrt(np.sum((problem.block_norms * blocks[:, None]) ** 2, axis=0))
        reach = np.where(reach > 0.0, reach, 1.0)
        rows = np.where(problem.equality, reach, np.clip(terms, LEAST_ROW * reach, reach))
        return cls(blocks, rows)


def _radius(block: BlockSet) -> float:
    """Frobenius radius of a bounded set, its norm if it is a single point; 0 if unbounded."""
    if not block.bounded:
        return 0.0
    return max(block.radius, 1e-3 * (math.sqrt(block.degree) * block.spectral_radius)) or 1.0


@dataclass(frozen=True)
class Evaluation:
    """Everything one evaluation gives.

    ``value``: the dual function, to be maximised. ``multipliers``: ``y``, one per row, in the units of the
    problem. ``point``: ``X(y)``, in the units of the problem. ``spectra``: eigenvalues of ``A*y`` (entries,
    for vectors), each times the unit of its block. ``vectors``: eigenvectors of ``A*y``; None for vectors.
    ``projected``: eigenvalues (entries) of ``X(y)``, each divided by the unit of its block.
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

    ``problem``: the problem, in its own units. ``units``: natural sizes of blocks and rows. ``centres``:
    for every block the multiple of the identity (of the vector of ones) to stay near, in units. ``weight``:
    weight ``rho`` of the margin; None for no margin.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        units: Units,
        centres: FloatArray,
        weight: float | None = None,
        most_margin: float = MOST_MARGIN,
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
        #: What a variable is multiplied by to give its multiplier: a power of two, so it is exact both ways.
        self.factor = sign * power_of_two(units.rows)[self.row]
        gap = np.where(equal, 0.0, problem.upper - problem.lower)
        #: What a unit of margin adds to the bound of every variable.
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
        """Bounds of the variables; None where all are free, which spares scipy a look at each."""
        if self.signless.all():
            return None
        return [(None, None) if free else (0.0, None) for free in self.signless]

    def margin_moves(self, margin: float) -> bool:
        """Whether the margin at an evaluation changes with the variables: below its largest value."""
        return margin < self._most_margin

    def multipliers(self, z: FloatArray) -> FloatArray:
        """Multipliers of the rows, in the units of the problem."""
        y = np.zeros(self.problem.m)
        np.add.at(y, self.row, self.factor * z)
        return y

    def variables(self, y: FloatArray) -> FloatArray:
        """Variables that give the multipliers ``y``, signs permitting."""
        z = y[self.row] / self.factor
        return np.where(self.signless, z, np.maximum(z, 0.0))

    def balanced(self, y: FloatArray) -> FloatArray:
        """Multipliers along ``y`` of the size that belongs to a margin of zero; zero stays zero."""
        assert self.weight is not None
        mass = float((self.factor * self.variables(y)) @ self.tightening)
        return y * (self.weight / mass) if 0.0 < mass < math.inf else y

    def margin_gap(self, found: Evaluation, point: Point, rows: FloatArray) -> float:
        """How far apart a lower and an upper estimate of the largest margin are; for inequality rows only.

        The margin is here a share of the terms a row adds up at the point.

        ``point``: the point that is to have the margin.
        """
        weights = self.factor * self.variables(found.multipliers)
        sizes = np.sign(self.factor) * self._terms(point, rows)[self.row]
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
                # What a multiplier of a cone lacks counts for as much as the point makes of it.
                support += float(np.maximum(lam, 0.0) @ x)
        return support / mass - attained

    def _terms(self, point: Point, rows: FloatArray) -> FloatArray:
        """Sum of the magnitudes of bound and terms of every row, the largest block without a product."""
        problem = self.problem
        largest = max(range(len(point)), key=lambda b: point[b].size)
        total, rest = largest_bound(problem), np.array(rows)
        for b, (part, x) in enumerate(zip(problem.rows, point, strict=True)):
            if not part.empty and b != largest:
                value = part.apply(x)
                total = total + np.abs(value)
                rest -= value
        return total + np.abs(rest)

    def evaluate(self, z: FloatArray, before: Evaluation | None = None) -> Evaluation:
        """Value, gradient, and the point that goes with the variables.

        ``before``: of the same problem in the same units of blocks, maybe with another weight: at the same
        multipliers its eigendecompositions are used again.

        Raises ``numpy.linalg.LinAlgError``: if a block overflows or its eigendecomposition fails.
        """
        problem, y = self.problem, self.multipliers(z)
        weights = self.factor * z
        mass = float(weights @ self.tightening)
        if before is not None and np.array_equal(before.multipliers, y):
            spectra, vectors = before.spectra, before.vectors
        else:
            spectra, vectors = self._decomposed(y)
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
            point.append(self._array(b, vec, x))
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

    def _decomposed(self, y: FloatArray) -> tuple[tuple[FloatArray, ...], tuple[Frame, ...]]:
        """Eigenvalues and eigenvectors of ``A*y``, in units."""
        spectra: list[FloatArray] = []
        vectors: list[Frame] = []
        for (_, block, rows), unit in zip(self.problem.blocks(), self.units.blocks, strict=True):
            g = unit * rows.adjoint(y)
            lam, frame = block.decompose(g)
            spectra.append(lam)
            vectors.append(frame)
        return tuple(spectra), tuple(vectors)

    def _array(self, b: int, frame: Frame, x: FloatArray) -> FloatArray:
        """Array with given eigenvectors and eigenvalues; cheaper where most of these are zero."""
        inside = x != 0.0
        # The published method, which has no weight, is left as it was.
        few = self.weight is not None and 2 * int(np.count_nonzero(inside)) <= x.size and not np.any(x < 0.0)
        if frame is None or not (self.sets[b].matrix and few):
            return self.sets[b].compose(frame, x)
        half = frame[:, inside] * np.sqrt(x[inside])
        return np.asarray(half @ half.T)

    def support(self, spectra: tuple[FloatArray, ...]) -> tuple[float, float]:
        """Support function over the boxes, and how far ``A*y`` is from the polar of the other blocks."""
        total, excess = 0.0, 0.0
        for block, lam in zip(self.sets, spectra, strict=True):
            if block.bounded:
                total += block.support_spectrum(lam)
            else:
                # What is not in the polar of a cone is the projection onto the cone.
                excess = math.hypot(excess, float(np.linalg.norm(block.project_spectrum(lam))))
        return total, excess

    @cached_property
    def _middles(self) -> list[float]:
        """Where a shrinking set shrinks to (a box), or the direction it moves in (a cone)."""
        return [block.middle if block.bounded else 1.0 / math.sqrt(block.degree) for block in self.sets]

    def _project(self, b: int, v: FloatArray, margin: float) -> FloatArray:
        """Project a spectrum onto ``K_b(margin)``: a box pulled to its middle, a cone moved inwards."""
        block = self.sets[b]
        if not self._shrinks[b]:
            return block.project_spectrum(v)
        shift = margin * self._middles[b]
        if not block.bounded:
            return block.project_spectrum(v - shift) + shift
        pull = 1.0 - margin
        return pull * block.project_spectrum((v - shift) / pull) + shift

    def _slope(self, b: int, v: FloatArray, margin: float) -> float:
        """Derivative in the margin of what block ``b`` contributes to the inner maximum."""
        x = self._project(b, v, margin)
        middle = self._middles[b]
        if not self.sets[b].bounded:
            return float(np.sum(v - x)) * middle
        # x = (1 - s) p + s m with p in the set, so dx/ds = m - p = (m - x) / (1 - s).
        return float((v - x) @ (middle - x)) / (1.0 - margin)

    def _margin(self, spectra: Sequence[FloatArray], mass: float) -> float:
        """Best margin for given multipliers: the root of a function that falls at least as fast as rho·s."""
        if self.weight is None:
            return 0.0
        rho = self.weight
        moving = [b for b, shrinks in enumerate(self._shrinks) if shrinks]
        if not moving:
            return min(1.0 - mass / rho, self._most_margin)
        shifted = [(b, spectra[b] + self.centres[b]) for b in moving]

        def slope(s: float) -> float:
            return rho * (1.0 - s) - mass + sum(self._slope(b, v, s) for b, v in shifted)

        # Consecutive evaluations have nearly the same root.
        self._guess = _falling_root(slope, self._guess, rho, self._most_margin)
        return self._guess


def _falling_root(function: Callable[[float], float], guess: float, rate: float, most: float) -> float:
    """Root of a function that falls at least at ``rate``, or ``most`` if that comes first."""
    rounding = ROOT_ROUNDING * rate
    here = function(guess)
    # The rate says how far away the root can be.
    there = min(guess + here / rate, most)
    at_there = function(there)
    if not (math.isfinite(here) and math.isfinite(at_there)):
        raise np.linalg.LinAlgError("the multipliers overflow")
    ends, levels, last = [guess, there], [here, at_there], 0
    if here < 0.0:
        ends, levels = ends[::-1], levels[::-1]
    if levels[1] >= -rounding:
        return ends[1]
    if levels[0] <= rounding:
        return ends[0]
    root = ends[0]
    for _ in range(ROOT_STEPS):
        root = ends[0] + (ends[1] - ends[0]) * levels[0] / (levels[0] - levels[1])
        level = function(root)
        if abs(level) <= rounding or not ends[0] < root < ends[1]:
            break
        side = 0 if level > 0.0 else 1
        ends[side], levels[side] = root, level
        if side == last:
            # Regula falsi alone would keep the other end for ever; halving its level lets go of it.
            levels[1 - side] *= 0.5
        last = side
    return root
