"""Corrections that make equality rows hold exactly.

A point that misses its equality rows a little has an exact solution next to it when the rows are
independent and the point is deeper inside its sets than the least correction is long. The same argument
gives an exact certificate next to one that misses ``(A*y)_b = 0`` on a Free block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import LimitError
from sdpfeas.numerics.cost_estimate import Work, need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import TINY, inflate, norm_upper, product_up, sqrt_upper, sum_up
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Dense, Rows, Sparse
from sdpfeas.problem.rows.base import EMPTY
from sdpfeas.problem.rows.matrix_view import column_sizes, dense_columns, matrix_of, vector_columns
from sdpfeas.verifier.gram import BOUND_SHARE, Gram, ScaledGram, SparseGram, need_gram
from sdpfeas.verifier.point_metric import MET, Entrywise, Orthonormal, only_stored

#: More equality rows than this are taken as sparse ones where they are, ...
MAX_DENSE_ROWS = 3000

#: ... and more than this only where they are.
MOST_DENSE_ROWS = 6000


@dataclass(frozen=True)
class Movable:
    """One block that may move, with its equality rows and how far it may move.

    For a matrix ``weight`` is the proven depth (a correction of Frobenius norm below it stays inside); for
    a vector there is one weight per entry.
    """

    block: int
    rows: Rows
    weight: float | FloatArray
    #: Prescribed trace of a SpectralBox; None where there is none.
    trace: float | None = None
    #: Proven bound on how far the trace is off.
    trace_off: float = 0.0

    def capped(self, limit: float) -> Movable:
        """Return the block with no weight above ``limit``."""
        weight = self.weight
        return replace(
            self, weight=np.minimum(weight, limit) if isinstance(weight, np.ndarray) else min(weight, limit)
        )

    @property
    def reach(self) -> float:
        """Bound on the Frobenius norm of a unit correction."""
        return float(np.max(self.weight, initial=0.0))

    @cached_property
    def share(self) -> Share:
        """The block's part in the Gram matrix of the equality rows."""
        return Share(self)


class Share:
    """What one block that may move adds to the Gram matrix, in units: rows times how far the block may move.

    ``exponents``: the power of two each row in units is to be multiplied by.
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
        """Add the inner products of the rows, each row times a number, to a matrix."""
        if self._vector:
            columns = vector_columns(self._units) @ sp.diags_array(self.weight)
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
        """The rows written out, each times a number, in units of how far the block may move."""
        stored = sp.diags_array(scale) @ sp.csr_array(matrix_of(self._units))
        return stored @ sp.diags_array(self.weight) if self._vector else stored * float(self.weight)

    @property
    def squares(self) -> FloatArray:
        """Squared norms of the rows, of a block with one weight."""
        return float(self.weight) ** 2 * self._units.norms() ** 2

    @property
    def sizes(self) -> FloatArray:
        """Upper bounds of the norms of the rows, signs taken away from all terms."""
        if not self._vector:
            return product_up(self._units.norms_upper, float(self.weight))
        weighted = column_sizes(self._units) @ sp.diags_array(self.weight)
        squares = np.asarray((weighted * weighted).sum(axis=1)).ravel()
        # Squares that underflow are made up for; a row of nothing else is as good as empty.
        squares = np.where(self.exponents == EMPTY, 0.0, squares + self._units.n * TINY)
        return inflate(np.sqrt(squares), self.depth)

    def along_identity(self) -> tuple[FloatArray, float]:
        """Inner products of the rows with the identity, and its own with itself."""
        n, square = self._units.n, float(self.weight) ** 2
        return square * self._units.enclose_apply(np.eye(n))[0], square * n


class CorrectionSystem:
    """The equality rows, restricted to the blocks that may move, in units of how far they may.

    ``m``: number of equality rows; a trace row follows for every box with a trace. ``diagonal``: whether
    the Gram matrix is known to be diagonal (one sparse block with disjoint rows).
    """

    def __init__(self, parts: list[Movable], m: int, diagonal: bool = False) -> None:
        self.parts = parts
        self.m = m
        self.blocks = frozenset(part.block for part in parts)
        self._traced = [part for part in parts if part.trace is not None]
        self._diagonal = diagonal

    @cached_property
    def _gram(self) -> Gram:
        """Gram matrix of the equality rows, each block in units of how far it may move."""
        size = self.m + len(self._traced)
        exponents = np.full(size, EMPTY)
        trace = self.m
        for part in self.parts:
            np.maximum(exponents[: self.m], part.share.exponents, out=exponents[: self.m])
            if part.trace is not None:
                exponents[trace] = part.share.reach
                trace += 1
        if size > MAX_DENSE_ROWS and not self._diagonal and all(only_stored(p.rows) for p in self.parts):
            sparse = self._sparse_gram(exponents)
            if sparse.fits or size > MOST_DENSE_ROWS:
                return sparse
        if not self._diagonal:
            need_gram([part.rows for part in self.parts], size)
        if self._diagonal:
            (part,) = self.parts
            return ScaledGram.of(part.share.squares, part.share.sizes, exponents, part.share.depth)
        gram, sizes, depth = np.zeros((size, size)), np.zeros(size), 0
        head, trace = slice(0, self.m), self.m
        for part in self.parts:
            share = part.share
            depth = max(depth, share.depth)
            # At most one; what underflows is lost next to the larger share of another block.
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
        """Bound of the least correction, in units of the depth, that makes every equality row hold.

        ``residual``: upper bounds of how far each equality row is off.
        """
        off = np.array([part.trace_off for part in self._traced], dtype=np.float64)
        return self._gram.shortest_upper(np.concatenate([residual, off]))

    def drift_upper(self, problem: FeasibilityProblem) -> FloatArray:
        """Bound of how far a unit correction moves each row of the problem."""
        moved = (product_up(part.reach, problem.upper_norms[part.block]) for part in self.parts)
        return sum_up(np.zeros(problem.m), *moved)

    def starts(self, point: Point) -> dict[int, FloatArray]:
        """How far the points that corrections start from are from the given one: not at all."""
        return {}

    @property
    def usable(self) -> bool:
        """Whether the Gram matrix could be computed at all."""
        return self._gram.usable

    def correct(self, point: Point, residual: FloatArray) -> Point:
        """Move the blocks so that the equality rows hold up to rounding.

        ``residual``: ``lower - A(X)`` on the equality rows.
        """
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


def correction_systems(problem: FeasibilityProblem, point: Point) -> Iterator[CorrectionSystem]:
    """Ways to correct the equality rows of a problem near a point, the simplest first."""
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
        # The computed depth is only a guess; what is left after caution is proved.
        weight = block.room(x, BOUND_SHARE)
        if weight is not None:
            movable.append(Movable(b, rows, weight, block.trace, block.trace_missed(x)))
    for part in movable:
        if part.trace is None and isinstance(part.weight, float) and _disjoint(part.rows):
            yield CorrectionSystem([part], index.size, diagonal=True)
            break
    if index.size <= MAX_DENSE_ROWS or (movable and _sparse_enough(movable, index.size)):
        yield CorrectionSystem(movable, index.size)
        depths = [part.weight for part in movable if isinstance(part.weight, float)]
        if len(movable) > 1 and depths:
            # Very unequal weights can ruin the condition of the system that they were meant to help.
            yield CorrectionSystem([part.capped(min(depths)) for part in movable], index.size)


def _sparse_enough(parts: list[Movable], m: int) -> bool:
    """Whether many rows are stored entry by entry, or not too many for a dense Gram matrix."""
    return m <= MOST_DENSE_ROWS or all(only_stored(part.rows) for part in parts)


def _disjoint(rows: Rows) -> bool:
    """Whether no two rows share an entry."""
    if not isinstance(rows, Sparse) or np.any(np.diff(rows.array.indptr) == 0):
        return False
    counts = np.bincount(rows.array.indices, minlength=1)
    return bool(np.max(counts) <= 1)


# ------------------------------------------------------------
# Corrections that make ``A*y`` vanish on Free blocks exactly, as for equality rows of a point.

#: A correction of multipliers that is shorter than this needs no finer proof.
FINE = 1e-9


class FreeColumns:
    """The columns of all Free blocks, on which ``A*y`` has to vanish exactly.

    Multipliers are corrected in proportion to what they may move by: one that is bound to a sign by its own
    size, so that a correction shorter than one keeps the sign, any other by the largest there is.
    """

    def __init__(self, problem: FeasibilityProblem, y: FloatArray) -> None:
        self._problem = problem
        self._y = y
        self._parts = [rows for _, block, rows in problem.blocks() if block.free and not rows.empty]
        enclosed = [rows.enclose_adjoint(y) for rows in self._parts]
        #: Upper bounds of |A*y| on the free entries.
        self.residual = np.concatenate([inflate(np.abs(g) + e, 4) for g, e in enclosed] or [np.zeros(0)])
        #: Whether these vanish as well as floating point can make them.
        self.met = all(bool(np.all(np.abs(g) <= MET * e)) for g, e in enclosed)

    @cached_property
    def weight(self) -> FloatArray:
        """How far each multiplier may move."""
        problem, size = self._problem, np.abs(self._y)
        signed = np.isinf(problem.lower) | np.isinf(problem.upper)
        unit = power_of_two(problem.norms)
        return np.where(signed, size, float(np.max(size / unit, initial=0.0)) * unit)

    @property
    def exact(self) -> bool:
        """Whether ``A*y`` vanishes exactly as it is."""
        return not self.residual.any()

    @cached_property
    def _units(self) -> tuple[list[Rows], list[FloatArray], int]:
        """The parts in units, what each row of them is to be multiplied by (at most one), and an exponent."""
        both = [rows.units() for rows in self._parts]
        mantissa, power = np.frexp(self.weight)
        powers = [np.where(self.weight == 0.0, EMPTY, own + power) for _, own in both]
        largest = max(int(np.max(p)) for p in powers)
        return [rows for rows, _ in both], [np.ldexp(mantissa, p - largest) for p in powers], largest

    def _weighted(self, kind: Callable[[Rows], Any]) -> Any:
        """Side by side, the columns of all parts in units, each row times what its multiplier may move by."""
        rows, scales, _ = self._units
        blocks = [kind(part) for part in rows]
        if all(sp.issparse(block) for block in blocks):
            parts = [sp.diags_array(s) @ block for s, block in zip(scales, blocks, strict=True)]
            return sp.hstack(parts, format="csr")
        return np.hstack([s[:, None] * dense_columns(block) for s, block in zip(scales, blocks, strict=True)])

    @cached_property
    def _columns(self) -> Any:
        return self._weighted(vector_columns)

    @cached_property
    def _gram(self) -> ScaledGram:
        """Gram matrix of the weighted columns."""
        count = float(self._columns.shape[1])
        # Sparse columns seldom meet; what they cost is the matrix that comes out.
        numbers = float(self._columns.size)
        work = (
            Work(numbers=20.0 * numbers)
            if sp.issparse(self._columns)
            else Work(products=2.0 * numbers * count)
        )
        need("the Gram matrix of the free columns", *work, memory=64.0 * count**2)
        rows, _, largest = self._units
        sizes = self._weighted(column_sizes)
        depth = self._problem.m + 8 + max(part.gram_depth for part in rows)
        overlap = inflate(dense_columns(sizes.T @ sizes), depth)
        norms = np.sqrt(inflate(np.diagonal(overlap), 4))
        exponents = np.full(norms.size, largest)
        return ScaledGram.of(dense_columns(self._columns.T @ self._columns), norms, exponents, depth, overlap)

    @cached_property
    def _orthonormal(self) -> Orthonormal | None:
        """The columns made orthonormal, where they are at hand as they are and there is room for it."""
        blocks = [vector_columns(rows) for rows in self._parts if only_stored(rows)]
        count = sum(block.shape[1] for block in blocks)
        if len(blocks) < len(self._parts) or count > min(self._problem.m, MAX_DENSE_ROWS):
            return None
        try:
            need("columns written out", memory=48.0 * count * self._problem.m)
            columns = np.hstack([dense_columns(block) for block in blocks]).T
            return Orthonormal(Entrywise(0, Dense(columns), self.weight).written(Dense(columns)))
        except LimitError:
            return None

    def correction_upper(self) -> float:
        """Bound of the least correction, in units of ``weight``, that makes ``A*y`` vanish exactly."""
        if self.exact:
            return 0.0
        bound = self._gram.shortest_upper(self.residual)
        if bound > FINE and self._orthonormal is not None:
            bound = min(bound, self._orthonormal.shortest_upper(self.residual))
        return bound

    def correct(self) -> FloatArray:
        """Return multipliers corrected so that ``A*y`` vanishes up to rounding."""
        y = np.array(self._y)
        if not self._gram.usable:
            return y
        # Where a Gram matrix is singular up to rounding its columns may not be.
        fine = None if self._gram.smallest_lower > 0.0 else self._orthonormal
        for _ in range(2):
            g = np.concatenate([rows.adjoint(y) for rows in self._parts])
            if fine is not None and fine.usable:
                y = y - self.weight * fine.shortest(g)
            else:
                y = y - self.weight * np.ldexp(self._columns @ self._gram.combination(g), self._units[2])
        return y

    def bound_norm(self) -> float:
        """Bound of how far a unit correction moves ``beta``."""
        return norm_upper(product_up(self.weight, largest_bound(self._problem)))

    def row_norm(self, b: int) -> float:
        """Bound of how far a unit correction moves ``A*y`` on block ``b``."""
        return norm_upper(product_up(self.weight, self._problem.upper_norms[b]))

    def moves(self, b: int) -> np.ndarray:
        """Which entries of ``A*y`` on block ``b`` a correction may move.

        The others provably stay as they are: no row touches them whose multiplier may move.
        """
        rows = self._problem.rows[b]
        # Not ``> 0``: what is not a number proves nothing.
        return rows.magnitude_adjoint_upper(self.weight) != 0.0
