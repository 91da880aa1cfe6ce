"""Corrections that make equality rows hold exactly: for points, and for certificates on Free blocks.

A point that misses its equality rows a little has an exact solution next to it when the rows are
independent and the point is deeper inside its sets than the least correction is long. The same argument
gives an exact certificate next to one that misses ``(A*y)_b = 0`` on a Free block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray, eigvalsh, symmetrize
from sdpfeas.numerics.rounding import (
    TINY,
    definite,
    gamma,
    inflate,
    norm_upper,
    product_up,
    quotient_up,
    sum_up,
    symmetric_norm_upper,
)
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.problem.reductions.scaling import power_of_two
from sdpfeas.problem.rows import Dense, Rows, Sparse
from sdpfeas.problem.rows.columns import column_sizes, dense_columns, vector_columns
from sdpfeas.problem.sets import Free

__all__ = [
    "CorrectionSystem",
    "FreeColumns",
    "correction_systems",
    "without_redundant_columns",
    "without_redundant_rows",
]

#: Share of a computed smallest eigenvalue that is asked of its proof; the rest is left to rounding.
CAUTION = 0.5

#: More equality rows than this are only handled where their Gram matrix is diagonal.
MAX_DENSE_ROWS = 3000

#: Rows and reaches outside these bounds may underflow or overflow when they are squared: nothing is proved.
SMALLEST, LARGEST = 1e-100, 1e100

#: Rows (or columns) that differ from a combination of others by no more than this share of the terms count
#: as redundant up to rounding; numeric mode only.
REDUNDANT = 1e-13


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

    @property
    def in_range(self) -> bool:
        """Whether squares of the rows and of the reach neither underflow nor overflow."""
        sizes = np.append(self.rows.magnitude_norms(), self.reach)
        return bool(np.all((sizes == 0.0) | ((sizes > SMALLEST) & (sizes < LARGEST))))


class CorrectionSystem:
    """The equality rows, restricted to the blocks that may move, in units of how far they may.

    Parameters
    ----------
    parts : list of Movable
        The blocks that may move.
    m : int
        Number of equality rows; a trace row follows for every box with a trace.
    diagonal : bool
        Whether the Gram matrix is known to be diagonal (one sparse block with disjoint rows).
    """

    def __init__(self, parts: list[Movable], m: int, diagonal: bool = False) -> None:
        self.parts = parts
        self.m = m
        self.blocks = frozenset(part.block for part in parts)
        self._traced = [part for part in parts if part.trace is not None]
        self._diagonal = diagonal

    @cached_property
    def _gram(self) -> tuple[FloatArray, FloatArray, float]:
        """Scaled Gram matrix (or its diagonal), the row scales, and a bound on its rounding error."""
        if self._diagonal:
            (part,) = self.parts
            raw = part.reach**2 * part.rows.norms() ** 2
            scale = power_of_two(np.sqrt(raw))
            # Relative error of one entry; the proof below only needs the smallest.
            return raw * scale * scale, scale, gamma(part.rows.gram_depth) * 4.0
        size = self.m + len(self._traced)
        gram, magnitude, depth = np.zeros((size, size)), np.zeros(size), 0
        head = slice(0, self.m)
        trace = self.m
        for part in self.parts:
            rows = part.rows
            depth = max(depth, rows.gram_depth + rows.n + 8)
            magnitude[head] += part.reach * rows.magnitude_norms()
            if isinstance(part.weight, np.ndarray):
                columns = vector_columns(rows) @ sp.diags_array(part.weight)
                gram[head, head] += dense_columns(columns @ columns.T)
                continue
            squared = part.weight**2
            gram[head, head] += squared * rows.gram()
            if part.trace is not None:
                gram[head, trace] = gram[trace, head] = squared * rows.enclose_apply(np.eye(rows.n))[0]
                gram[trace, trace] = squared * rows.n
                magnitude[trace] = part.reach * math.sqrt(rows.n)
                trace += 1
        scale = power_of_two(np.sqrt(np.maximum(np.diagonal(gram), 0.0)))
        scaled = symmetrize(gram * scale[:, None] * scale[None, :])
        error = gamma(depth + len(self.parts) + 8) * float(np.sum((magnitude * scale) ** 2))
        return scaled, scale, float(inflate(error, size + 8))

    @cached_property
    def _smallest_lower(self) -> float:
        """Proven lower bound of the smallest eigenvalue of the scaled Gram matrix."""
        if not all(part.in_range for part in self.parts):
            return 0.0
        gram, _, error = self._gram
        if gram.size == 0:
            return math.inf
        if self._diagonal:
            return max(float(np.min(gram)) * (1.0 - error), 0.0)
        if not np.isfinite(gram).all():
            return 0.0
        smallest = CAUTION * float(eigvalsh(gram)[0])
        return smallest if smallest > 0.0 and definite(gram, shift=smallest + error) else 0.0

    def correction_upper(self, residual: FloatArray) -> float:
        """Bound of the least correction, in units of the depth, that makes every equality row hold.

        Parameters
        ----------
        residual : ndarray
            Upper bounds of how far each equality row is off.
        """
        off = np.array([part.trace_off for part in self._traced], dtype=np.float64)
        full = np.concatenate([residual, off])
        if full.size == 0:
            return 0.0
        if self._smallest_lower <= 0.0:
            return 0.0 if not full.any() else math.inf
        scaled = norm_upper(product_up(full, self._gram[1]))
        return float(inflate(quotient_up(scaled, math.sqrt(self._smallest_lower)), 4))

    def drift_upper(self, upper_norms: FloatArray) -> FloatArray:
        """Bound of how far a unit correction moves each row of the problem."""
        moved = (product_up(part.reach, upper_norms[part.block]) for part in self.parts)
        return sum_up(np.zeros(upper_norms.shape[1]), *moved)

    @property
    def usable(self) -> bool:
        """Whether the Gram matrix could be computed at all."""
        return bool(np.isfinite(self._gram[0]).all())

    @cached_property
    def _inverse(self) -> FloatArray:
        """Inverse of the scaled Gram matrix; redundant rows have singular directions, which are left out."""
        return np.asarray(scipy.linalg.pinvh(self._gram[0], rtol=1e-13))

    def correct(self, point: Point, residual: FloatArray) -> Point:
        """Move the blocks so that the equality rows hold up to rounding.

        Parameters
        ----------
        point : tuple of ndarray
            Where to start.
        residual : ndarray
            ``lower - A(X)`` on the equality rows.
        """
        scale = self._gram[1]
        off = [(part.trace or 0.0) - float(np.trace(point[part.block])) for part in self._traced]
        full = scale * np.concatenate([residual, off])
        z = scale * (full / self._gram[0] if self._diagonal else self._inverse @ full)
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
    index = np.flatnonzero(problem.equality)
    if index.size == 0:
        yield CorrectionSystem([], 0)
        return
    touched = [
        (b, rows.select(index))
        for b, rows in enumerate(problem.rows)
        if rows is not None and np.any(problem.block_norms[b][index] > 0.0)
    ]
    movable = []
    for b, rows in touched:
        block, x = problem.sets[b], point[b]
        # The computed depth is only a guess; what is left after caution is proved.
        weight = block.room(x, CAUTION)
        if weight is not None:
            movable.append(Movable(b, rows, weight, block.trace, block.trace_missed(x)))
    for part in movable:
        if part.trace is None and isinstance(part.weight, float) and _disjoint(part.rows):
            yield CorrectionSystem([part], index.size, diagonal=True)
            break
    if index.size <= MAX_DENSE_ROWS:
        yield CorrectionSystem(movable, index.size)
        depths = [part.weight for part in movable if isinstance(part.weight, float)]
        if len(movable) > 1 and depths:
            # Very unequal weights can ruin the condition of the system that they were meant to help.
            yield CorrectionSystem([part.capped(min(depths)) for part in movable], index.size)


def _disjoint(rows: Rows) -> bool:
    """Whether no two rows share an entry."""
    if not isinstance(rows, Sparse) or np.any(np.diff(rows.array.indptr) == 0):
        return False
    counts = np.bincount(rows.array.indices, minlength=1)
    return bool(np.max(counts) <= 1)


def without_redundant_rows(problem: FeasibilityProblem) -> FeasibilityProblem | None:
    """Return the problem without equality rows that follow from others; None if there are none.

    A numeric judgement, up to rounding: the row, and its bound, must agree with a combination of rows that
    are kept (and of prescribed traces) to within a share of 1e-13 of the terms.
    """
    index = np.flatnonzero(problem.equality)
    if not 1 < index.size <= MAX_DENSE_ROWS:
        return None
    scale = power_of_two(problem.norms[index])
    parts = [
        (block, rows.select(index).scaled(scale))
        for block, rows in zip(problem.sets, problem.rows, strict=True)
        if rows is not None
    ]
    gram = np.zeros((index.size, index.size))
    for block, rows in parts:
        gram += rows.gram()
        if block.trace is not None:
            along = rows.apply(block.identity())
            gram -= np.outer(along, along) / block.degree
    if not np.isfinite(gram).all():
        return None
    kept = _pivots(gram)
    bound = problem.lower[index] * scale
    dropped = [k for k in np.setdiff1d(np.arange(index.size), kept) if _follows(parts, bound, gram, kept, k)]
    if not dropped:
        return None
    return problem.select_rows(np.setdiff1d(np.arange(problem.m), index[dropped]))


def _follows(
    parts: list[tuple[Any, Rows]], bound: FloatArray, gram: FloatArray, kept: np.ndarray, k: int
) -> bool:
    """Whether row ``k`` and its bound are a combination of the kept rows up to rounding."""
    weights = np.zeros(bound.size)
    weights[k] = 1.0
    for _ in range(3):
        # Solving with the Gram matrix squares the condition; refining makes up for it.
        differences, right, moved = [], float(weights @ bound), float(np.abs(weights) @ np.abs(bound))
        for block, rows in parts:
            apart = rows.adjoint(weights)
            if block.trace is not None:
                mean = block.trace_of(apart) / block.degree
                apart = apart - mean * block.identity()
                right -= mean * block.trace
                moved += abs(mean * block.trace)
            differences.append((rows, apart))
        off = sum((rows.apply(apart)[kept] for rows, apart in differences), np.zeros(kept.size))
        step = scipy.linalg.lstsq(gram[np.ix_(kept, kept)], off, check_finite=False)[0]
        if not np.isfinite(step).all():
            return False
        largest = max(float(np.max(np.abs(apart))) for _, apart in differences)
        terms = float(np.sum(np.abs(weights)))
        if largest <= REDUNDANT * terms and abs(right) <= REDUNDANT * moved:
            return True
        weights[kept] -= step
    return False


def without_redundant_columns(problem: FeasibilityProblem) -> FeasibilityProblem | None:
    """Return the problem without columns of Free blocks that are combinations of others; None if all are needed.

    A numeric judgement, up to rounding, like that on rows.
    """  # noqa: E501
    free = [
        (b, dense_columns(vector_columns(rows)))
        for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True))
        if block.free and rows is not None
    ]
    if not free or sum(part.size for _, part in free) > MAX_DENSE_ROWS**2:
        return None
    columns = np.hstack([part for _, part in free]) * power_of_two(problem.norms)[:, None]
    columns = columns * power_of_two(np.linalg.norm(columns, axis=0))
    if not np.isfinite(columns).all():
        return None
    _, triangle, pivots = scipy.linalg.qr(columns, mode="economic", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int(np.sum(diagonal > REDUNDANT * max(float(np.max(diagonal, initial=0.0)), TINY)))
    kept, rest = np.sort(pivots[:rank]), pivots[rank:]
    keep = np.ones(columns.shape[1], dtype=bool)
    for k in rest:
        share = np.linalg.lstsq(columns[:, kept], columns[:, k], rcond=None)[0] if rank else np.zeros(0)
        apart = float(np.max(np.abs(columns[:, k] - columns[:, kept] @ share), initial=0.0))
        keep[k] = apart > REDUNDANT * (1.0 + float(np.sum(np.abs(share))))
    if keep.all():
        return None
    sets, rows_out, start = list(problem.sets), list(problem.rows), 0
    for b, part in free:
        own = np.flatnonzero(keep[start : start + part.shape[1]])
        start += part.shape[1]
        sets[b] = Free(max(own.size, 1))
        rows_out[b] = Dense(part[:, own]) if own.size else None
    return FeasibilityProblem(sets, rows_out, problem.lower, problem.upper)


def _pivots(gram: FloatArray) -> np.ndarray:
    """Indices of a largest subset that is independent by the judgement of a pivoted factorisation."""
    tolerance = 1e-12 * float(np.max(np.diagonal(gram), initial=0.0))
    _, pivots, rank, _ = scipy.linalg.lapack.dpstrf(symmetrize(gram), tol=tolerance, lower=1)
    return np.sort(pivots[:rank] - 1)


class FreeColumns:
    """The columns of all Free blocks, on which ``A*y`` has to vanish exactly.

    Multipliers are corrected in proportion to what they may move by: one that is bound to a sign by its own
    size, so that a correction shorter than one keeps the sign, any other by the largest there is.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    y : ndarray
        The multipliers.
    """

    def __init__(self, problem: FeasibilityProblem, y: FloatArray) -> None:
        self._problem = problem
        self._y = y
        self._parts = [
            rows
            for block, rows in zip(problem.sets, problem.rows, strict=True)
            if block.free and rows is not None
        ]
        enclosed = [rows.enclose_adjoint(y) for rows in self._parts]
        #: Upper bounds of |A*y| on the free entries.
        self.residual = np.concatenate([inflate(np.abs(g) + e, 4) for g, e in enclosed] or [np.zeros(0)])

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
    def columns(self) -> Any:
        """The free columns side by side, each row times what its multiplier may move by."""
        return self._weighted([vector_columns(rows) for rows in self._parts])

    def _weighted(self, blocks: list[Any]) -> Any:
        if all(sp.issparse(block) for block in blocks):
            return sp.diags_array(self.weight) @ sp.hstack(blocks, format="csr")
        return self.weight[:, None] * np.hstack([dense_columns(block) for block in blocks])

    @cached_property
    def _scaled_gram(self) -> tuple[FloatArray, FloatArray, float]:
        gram = dense_columns(self.columns.T @ self.columns)
        sizes = self._weighted([column_sizes(rows) for rows in self._parts])
        scale = power_of_two(np.sqrt(np.maximum(np.diagonal(gram), 0.0)))
        depth = self._problem.m + 8 + max(sum(rows._depths) for rows in self._parts)
        bound = inflate(dense_columns(sizes.T @ sizes) * scale[:, None] * scale, depth)
        lost = 8.0 * TINY * float(np.sum(scale)) ** 2 * (self._problem.m + 1)
        error = gamma(depth) * symmetric_norm_upper(bound) + lost
        return symmetrize(gram * scale[:, None] * scale), scale, float(inflate(error, 4))

    def correction_upper(self) -> float:
        """Bound of the least correction, in units of ``weight``, that makes ``A*y`` vanish exactly."""
        if self.exact:
            return 0.0
        gram, scale, error = self._scaled_gram
        if not (np.isfinite(gram).all() and math.isfinite(error)):
            return math.inf
        smallest = CAUTION * float(eigvalsh(gram)[0])
        if not (smallest > 0.0 and definite(gram, shift=smallest + error)):
            return math.inf
        scaled = norm_upper(product_up(self.residual, scale))
        return float(inflate(quotient_up(scaled, math.sqrt(smallest)), 4))

    def correct(self) -> FloatArray:
        """Return multipliers corrected so that ``A*y`` vanishes up to rounding."""
        gram, scale, _ = self._scaled_gram
        y = np.array(self._y)
        if not np.isfinite(gram).all():
            return y
        inverse = scipy.linalg.pinvh(gram, rtol=1e-13)
        for _ in range(2):
            g = np.concatenate([rows.adjoint(y) for rows in self._parts])
            y = y - self.weight * (self.columns @ (scale * (inverse @ (scale * g))))
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
        assert rows is not None
        # Not ``> 0``: what is not a number proves nothing.
        return rows._magnitude_adjoint_upper(self.weight) != 0.0
