"""Least-norm corrections: existence of an exact solution near an approximate one (Theorem 5 of
docs/mathematics.md).

Let a point miss its equality rows by ``r = b - A(X)``. If the rows are linearly independent on the blocks
that may move, the least-norm correction ``A* (A A*)^-1 r`` makes them hold, and the corrected point stays in
its sets if the correction is shorter than the distance to their boundary. :class:`CorrectionSystem` bounds
the length of the correction in units of that distance. :class:`FreeColumns` applies the same argument to a
certificate, which must satisfy ``(A*y)_b = 0`` on every Free block.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import LimitError
from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import (
    TINY,
    UNIT,
    inflate,
    norm_upper,
    product_up,
    quotient_up,
    sqrt_upper,
    sum_up,
)
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Dense, Rows, Sparse
from sdpfeas.problem.rows.base import EMPTY, dense_array
from sdpfeas.verifier.gram import (
    BOUND_SHARE,
    DENSE_ROWS_LIMIT,
    MAX_GRAM_PRODUCTS,
    Gram,
    ScaledGram,
    SparseGram,
)
from sdpfeas.verifier.point_metric import MET_RADII, EntrywiseBlock, Orthonormalisation, only_stored

#: Number of equality rows above which a sparse Gram matrix is preferred. Dense cost grows with its cube.
MAX_DENSE_ROWS = 3000

#: Number of equality rows, or of columns of Free blocks, from which the Gram matrix is computed as a sparse
#: product.
SPARSE_PRODUCT_ROWS = 1000


@dataclass(frozen=True)
class Movable:
    """A block that may move, with its equality rows and how far it may move.

    For a matrix ``weight`` is a proven distance to the boundary (a correction of smaller Frobenius norm stays
    inside); for a vector it holds one distance per entry.
    """

    block: int
    rows: Rows
    weight: float | FloatArray
    #: Prescribed trace of a SpectralBox; None if there is none.
    trace: float | None = None
    #: Proven bound of the deviation from that trace.
    trace_off: float = 0.0

    def capped(self, limit: float) -> Movable:
        """Return the block with all weights limited to ``limit``."""
        weight = self.weight
        return replace(
            self, weight=np.minimum(weight, limit) if isinstance(weight, np.ndarray) else min(weight, limit)
        )

    @property
    def reach(self) -> float:
        """Bound of the Frobenius norm of a unit correction."""
        return float(np.max(self.weight, initial=0.0))

    def length_upper(self, step: FloatArray) -> float:
        """Bound the length of a step in units of the weight."""
        weight = np.broadcast_to(np.asarray(self.weight, dtype=np.float64), step.shape)
        used = step != 0.0
        if not np.all(weight[used] > 0.0):
            return math.inf
        return norm_upper(quotient_up(np.abs(step[used]), weight[used]))

    @cached_property
    def share(self) -> GramShare:
        """The contribution of the block to the Gram matrix of the equality rows."""
        return GramShare(self)


class GramShare:
    """The contribution of one block to the Gram matrix: its rows times its weight, scaled by powers of two.

    ``exponents`` are the powers of two by which the scaled rows are to be multiplied.
    """

    def __init__(self, part: Movable) -> None:
        self._units, own = part.rows.units()
        self.reach = math.frexp(part.reach)[1]
        self.weight = np.ldexp(part.weight, -self.reach)
        self.exponents = np.where(own == EMPTY, EMPTY, own + self.reach)
        self.depth = self._units.gram_depth + self._units.n + 8

    @property
    def _vector(self) -> bool:
        return self.weight.ndim == 1

    def add_gram(self, total: FloatArray, scale: FloatArray) -> None:
        """Add the inner products of the rows, each row times a factor, to ``total``."""
        if self._vector:
            columns = self._units.columns() @ sp.diags_array(self.weight)
            found, square = columns @ columns.T, 1.0
        else:
            units, square = self._units, float(self.weight) ** 2
            found = units.sparse_gram() if isinstance(units, Sparse) else units.gram()
        if sp.issparse(found):
            coo = found.tocoo()
            i, j = coo.coords
            total[i, j] += square * coo.data * scale[i] * scale[j]
        else:
            total += square * found * scale[:, None] * scale

    def vectors(self, scale: FloatArray) -> Any:
        """Return the weighted rows as a sparse matrix, each row times a factor."""
        stored = sp.diags_array(scale) @ self._units.to_csr()
        return stored @ sp.diags_array(self.weight) if self._vector else stored * float(self.weight)

    @property
    def sizes(self) -> FloatArray:
        """Upper bounds of the norms of the weighted rows, with absolute values of all terms."""
        if not self._vector:
            return product_up(self._units.norms_upper, float(self.weight))
        weighted = self._units.columns(magnitude=True) @ sp.diags_array(self.weight)
        squares = np.asarray((weighted * weighted).sum(axis=1)).ravel()
        # Bound the underflow of squares.
        squares = np.where(self.exponents == EMPTY, 0.0, squares + self._units.n * TINY)
        return inflate(np.sqrt(squares), self.depth)

    def along_identity(self) -> tuple[FloatArray, float]:
        """Return the inner products of the rows with the identity matrix, and its squared norm."""
        n, square = self._units.n, float(self.weight) ** 2
        return square * self._units.enclose_apply(np.eye(n))[0], square * n


class CorrectionSystem:
    """The equality rows on the blocks that may move, in units of how far these may move.

    ``m`` is the number of equality rows; one trace equation follows per box with a prescribed trace.
    ``used`` bounds the part of the admissible correction that led to the current point.
    """

    used = 0.0

    def __init__(self, parts: list[Movable], m: int) -> None:
        self.parts = parts
        self.m = m
        self.blocks = frozenset(part.block for part in parts)
        self._traced = [part for part in parts if part.trace is not None]

    @cached_property
    def _gram(self) -> Gram:
        """Gram matrix of the weighted equality rows."""
        size = self.m + len(self._traced)
        exponents = np.full(size, EMPTY)
        trace = self.m
        for part in self.parts:
            np.maximum(exponents[: self.m], part.share.exponents, out=exponents[: self.m])
            if part.trace is not None:
                exponents[trace] = part.share.reach
                trace += 1
        if _sparse_product([part.rows for part in self.parts], size):
            sparse = self._sparse_gram(exponents)
            if sparse.products < MAX_GRAM_PRODUCTS or size > DENSE_ROWS_LIMIT:
                return sparse.factorable()
        flops = float(size) ** 3 + sum(part.rows.gram_flops for part in self.parts)
        guard("the Gram matrix of the equality rows", flops, memory=32.0 * float(size) ** 2)
        gram, sizes, depth = np.zeros((size, size)), np.zeros(size), 0
        head, trace = slice(0, self.m), self.m
        for part in self.parts:
            share = part.share
            depth = max(depth, share.depth)
            # At most one. Underflow is negligible next to the larger share of another block.
            scale = np.ldexp(1.0, share.exponents - exponents[head])
            share.add_gram(gram[head, head], scale)
            sizes[head] = sum_up(sizes[head], product_up(share.sizes, scale))
            if part.trace is not None:
                along, length = share.along_identity()
                gram[head, trace] = gram[trace, head] = along * scale
                gram[trace, trace] = length
                sizes[trace] = sqrt_upper(float(inflate(length, 2)))
                trace += 1
        return ScaledGram.of(gram, sizes, exponents, depth + len(self.parts) + 8)

    def _sparse_gram(self, exponents: np.ndarray) -> SparseGram:
        head, trace, blocks = slice(0, self.m), self.m, []
        for part in self.parts:
            scale = np.ldexp(1.0, part.share.exponents - exponents[head])
            own = part.share.vectors(scale)
            below = sp.csr_array((len(self._traced), own.shape[1]))
            if part.trace is not None:
                places = np.arange(part.rows.n) * (part.rows.n + 1)
                along = np.full(places.size, float(part.share.weight))
                at = (along, (np.full(places.size, trace - self.m), places))
                below = sp.csr_array(at, shape=below.shape)
                trace += 1
            blocks.append(sp.vstack([own, below], format="csr"))
        return SparseGram(sp.hstack(blocks, format="csr"), exponents)

    def correction_upper(self, residual: FloatArray) -> float:
        """Bound the least-norm correction, in units of the weights, for residuals of absolute value up to
        ``residual``; infinity without a block that can move.
        """
        if not self.parts:
            return math.inf
        off = np.array([part.trace_off for part in self._traced], dtype=np.float64)
        return self._gram.shortest_upper(np.concatenate([residual, off]))

    def drift_upper(self, problem: FeasibilityProblem) -> FloatArray:
        """Bound the change of every row value under a unit correction."""
        moved = (product_up(part.reach, problem.upper_norms[part.block]) for part in self.parts)
        return sum_up(np.zeros(problem.m), *moved)

    def at(self, problem: FeasibilityProblem, point: Point, corrected: Point) -> CorrectionSystem:
        """Return the system of ``point`` for use at ``corrected``, with the same weights and Gram matrix.

        If the way between the points has length ``used``, a correction shorter than ``1 - used`` stays
        inside.
        """
        system = copy.copy(self)
        # A computed difference is too small by at most one rounding.
        steps = [inflate(np.abs(corrected[part.block] - point[part.block]), 2) for part in self.parts]
        lengths = [part.length_upper(step) for part, step in zip(self.parts, steps, strict=True)]
        system.used = float(np.max(lengths))  # NaN if one of them is
        system.parts = [
            replace(part, trace_off=problem.sets[part.block].trace_missed(corrected[part.block]))
            for part in self.parts
        ]
        system._traced = [part for part in system.parts if part.trace is not None]
        return system

    def starts(self, point: Point) -> dict[int, FloatArray]:
        """Distances of the starting points of the correction from the given point, by block: none."""
        return {}

    @property
    def usable(self) -> bool:
        """Whether the Gram matrix was computed without overflow."""
        return self._gram.usable

    def correct(self, point: Point, residual: FloatArray) -> Point:
        """Return the point after the least-norm correction of ``residual = lower - A(X)``, up to rounding."""
        off = [(part.trace or 0.0) - float(np.trace(point[part.block])) for part in self._traced]
        z = self._gram.combination(np.concatenate([residual, off]))
        moved = list(point)
        trace = self.m
        for part in self.parts:
            step = part.rows.adjoint(z[: self.m])
            if part.trace is not None:
                step = step + z[trace] * np.eye(part.rows.n)
                trace += 1
            moved[part.block] = moved[part.block] + np.square(part.weight) * step
        return tuple(moved)


def correct_point(problem: FeasibilityProblem, system: Any, point: Point) -> Point:
    """Apply two least-norm corrections; the result is not finite if numbers overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(2):
            residual = (problem.lower - problem.apply(point))[problem.equality]
            point = system.correct(point, residual)
        return tuple(block.symmetrize(x) for block, x in zip(problem.sets, point, strict=True))


def correction_systems(problem: FeasibilityProblem, point: Point) -> Iterator[CorrectionSystem]:
    """Yield correction systems for the equality rows at a point, the simplest first."""
    index = problem.equality_rows
    if index.size == 0:
        yield CorrectionSystem([], 0)
        return
    touched = [
        (b, rows.select(index))
        for b, rows in enumerate(problem.rows)
        if not rows.empty and np.any(problem.block_norms[b][index] > 0.0)
    ]
    movable = []
    for b, rows in touched:
        block, x = problem.sets[b], point[b]
        # The computed distance to the boundary is an estimate; a share of it is proved.
        weight = block.interior_radius(x, BOUND_SHARE)
        if weight is not None:
            movable.append(Movable(b, rows, weight, block.trace, block.trace_missed(x)))
    if index.size <= MAX_DENSE_ROWS or (movable and _sparse_enough(movable, index.size)):
        yield CorrectionSystem(movable, index.size)
        depths = [part.weight for part in movable if isinstance(part.weight, float)]
        if len(movable) > 1 and depths:
            # Very different weights can make the system ill-conditioned.
            yield CorrectionSystem([part.capped(min(depths)) for part in movable], index.size)


def _sparse_product(rows: list[Rows], size: int) -> bool:
    """Whether a Gram matrix of this size is computed as a sparse product of explicitly stored rows."""
    if not all(only_stored(each) for each in rows):
        return False
    sparse = sum(each.entries for each in rows) < size**2
    return size > DENSE_ROWS_LIMIT or (size >= SPARSE_PRODUCT_ROWS and sparse)


def _sparse_enough(parts: list[Movable], m: int) -> bool:
    """Whether the rows are stored explicitly, or few enough for a dense Gram matrix."""
    return m <= DENSE_ROWS_LIMIT or all(only_stored(part.rows) for part in parts)


#: A correction of multipliers longer than this, in units of their weights, proves nothing.
OUT_OF_REACH = 0.5

#: A correction of multipliers shorter than this, in units of their weights, needs no sharper bound.
SHORT_CORRECTION = 1e-9


def enclose_slack(rows: Rows, y: FloatArray, terms: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return ``terms + A*y`` on one block, with a proven radius for every entry."""
    if rows.empty and terms is not None:
        return terms, np.zeros(terms.shape)
    value, error = rows.enclose_adjoint(y)
    if terms is None or not terms.any():
        return value, error
    total = value + terms
    rounded = (value != 0.0) & (terms != 0.0)
    return total, sum_up(error, np.where(rounded, product_up(2.0 * UNIT, np.abs(total)), 0.0))


class FreeColumns:
    """The columns of all Free blocks, on which ``A*y``, or ``terms + A*y``, must vanish exactly.

    The correction of a multiplier is weighted by how far it may move: one with a restricted sign by its own
    size, so that a correction shorter than one keeps the sign; all others by the largest size.
    """

    def __init__(self, problem: FeasibilityProblem, y: FloatArray, terms: Point | None = None) -> None:
        self._problem = problem
        self._y = y
        used = [
            (rows, None if terms is None else terms[b])
            for b, block, rows in problem.blocks()
            if block.free and not (rows.empty and (terms is None or not terms[b].any()))
        ]
        self._parts, self._terms = [rows for rows, _ in used], [c for _, c in used]
        enclosed = [enclose_slack(rows, y, c) for rows, c in used]
        #: Upper bounds of |A*y| on the free entries.
        self.residual = np.concatenate([inflate(np.abs(g) + e, 4) for g, e in enclosed] or [np.zeros(0)])
        #: Whether these vanish up to a few times the rounding error.
        self.met = all(bool(np.all(np.abs(g) <= MET_RADII * e)) for g, e in enclosed)

    def _value(self, k: int, y: FloatArray) -> FloatArray:
        value, c = self._parts[k].adjoint(y), self._terms[k]
        return value if c is None else np.asarray(value + c)

    @cached_property
    def weight(self) -> FloatArray:
        """How far each multiplier may move."""
        problem, size = self._problem, np.abs(self._y)
        signed = np.isinf(problem.lower) | np.isinf(problem.upper)
        unit = power_of_two(problem.norms)
        return np.where(signed, size, float(np.max(size / unit, initial=0.0)) * unit)

    @property
    def exact(self) -> bool:
        """Whether ``A*y`` vanishes exactly as given."""
        return not self.residual.any()

    @cached_property
    def _units(self) -> tuple[list[Rows], list[FloatArray], int]:
        """The scaled rows of the Free blocks, a factor of at most one per row, and their common exponent."""
        both = [rows.units() for rows in self._parts]
        mantissa, power = np.frexp(self.weight)
        powers = [np.where(self.weight == 0.0, EMPTY, own + power) for _, own in both]
        largest = max(int(np.max(p)) for p in powers)
        return [rows for rows, _ in both], [np.ldexp(mantissa, p - largest) for p in powers], largest

    def _weighted(self, magnitude: bool = False) -> Any:
        """Return the weighted columns of all Free blocks side by side."""
        rows, scales, _ = self._units
        blocks = [part.columns(magnitude) for part in rows]
        if all(sp.issparse(block) for block in blocks):
            parts = [sp.diags_array(s) @ block for s, block in zip(scales, blocks, strict=True)]
            return sp.hstack(parts, format="csr")
        return np.hstack([s[:, None] * dense_array(block) for s, block in zip(scales, blocks, strict=True)])

    @cached_property
    def _columns(self) -> Any:
        return self._weighted()

    @cached_property
    def _gram(self) -> Gram:
        """Gram matrix of the weighted columns."""
        if sp.issparse(self._columns) and _sparse_product(self._parts, self._columns.shape[1]):
            sparse = SparseGram(self._columns.T, np.full(self._columns.shape[1], self._units[2]))
            if sparse.products < MAX_GRAM_PRODUCTS or self._columns.shape[1] > DENSE_ROWS_LIMIT:
                return sparse.factorable()
        count = float(self._columns.shape[1])
        # Sparse columns seldom overlap: the cost is that of the resulting matrix.
        flops = float(self._columns.size) * (300.0 if sp.issparse(self._columns) else 2.0 * count)
        guard("the Gram matrix of the free columns", flops, memory=64.0 * count**2)
        rows, _, largest = self._units
        sizes = self._weighted(magnitude=True)
        depth = self._problem.m + 8 + max(part.gram_depth for part in rows)
        overlap = inflate(dense_array(sizes.T @ sizes), depth)
        norms = np.sqrt(inflate(np.diagonal(overlap), 4))
        exponents = np.full(norms.size, largest)
        return ScaledGram.of(dense_array(self._columns.T @ self._columns), norms, exponents, depth, overlap)

    @cached_property
    def _orthonormal(self) -> Orthonormalisation | None:
        """The weighted columns with a verified orthonormalisation; None if they are not stored explicitly or
        too large.
        """
        blocks = [rows.columns() for rows in self._parts if only_stored(rows)]
        count = sum(block.shape[1] for block in blocks)
        if len(blocks) < len(self._parts) or count > min(self._problem.m, MAX_DENSE_ROWS):
            return None
        try:
            cells = float(count) * self._problem.m
            # Scaling and bounding them takes most of the time: 80 to 105 ns per number, at side 500.
            guard("columns written out", 120.0 * WRITE_FLOPS * cells, memory=48.0 * cells)
            columns = Dense(np.hstack([dense_array(block) for block in blocks]).T)
            return Orthonormalisation(EntrywiseBlock(0, columns, self.weight).transformed(columns))
        except LimitError:
            return None

    @cached_property
    def out_of_reach(self) -> bool:
        """Whether a correction is expensive to bound, and at least ``OUT_OF_REACH`` units long.

        By Cauchy-Schwarz it is no shorter than ``|A*y|_j`` over the norm of column ``j``.
        """
        if self._columns.shape[1] < SPARSE_PRODUCT_ROWS:
            return False
        squares = np.asarray((self._columns * self._columns).sum(axis=0)).ravel()
        missed = np.ldexp(self.residual, -self._units[2])
        return bool(np.any(missed > OUT_OF_REACH * np.sqrt(squares)))

    def correction_upper(self) -> float:
        """Bound the least-norm correction, in units of ``weight``, that makes ``A*y`` vanish exactly."""
        if self.exact:
            return 0.0
        if self.out_of_reach or self._columns.shape[1] > np.count_nonzero(self.weight):
            return math.inf  # too long, or the columns are dependent
        bound = self._gram.shortest_upper(self.residual)
        if bound > SHORT_CORRECTION and self._orthonormal is not None:
            bound = min(bound, self._orthonormal.shortest_upper(self.residual))
        return bound

    def correct(self) -> FloatArray:
        """Return corrected multipliers for which ``A*y`` vanishes up to rounding."""
        y = np.array(self._y)
        if not self._gram.usable:
            return y
        # The condition of the Gram matrix is the square of that of its columns, which may be regular.
        fine = None if self._gram.smallest_lower > 0.0 else self._orthonormal
        for _ in range(2):
            g = np.concatenate([self._value(k, y) for k in range(len(self._parts))])
            if fine is not None and fine.usable:
                y = y - self.weight * fine.shortest(g)
            else:
                y = y - self.weight * np.ldexp(self._columns @ self._gram.combination(g), self._units[2])
        return y

    def bound_norm(self) -> float:
        """Bound the change of ``beta(y)`` under a unit correction."""
        return norm_upper(product_up(self.weight, largest_bound(self._problem)))

    def row_norm(self, b: int) -> float:
        """Bound the change of ``A*y`` on block ``b`` under a unit correction."""
        return norm_upper(product_up(self.weight, self._problem.upper_norms[b]))

    def moves(self, b: int) -> np.ndarray:
        """Mask of the entries of ``A*y`` on block ``b`` that a correction may change.

        The others are provably unchanged: they occur only in rows whose multiplier is fixed.
        """
        rows = self._problem.rows[b]
        # Not ``> 0``: NaN must count as a change.
        return rows.magnitude_adjoint_upper(self.weight) != 0.0
