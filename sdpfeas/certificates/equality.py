"""Corrections that make equality rows hold exactly: for points, and for certificates on Free blocks.

A point that misses its equality rows a little has an exact solution next to it when the rows are
independent and the point is deeper inside its sets than the least correction is long. The same argument
gives an exact certificate next to one that misses ``(A*y)_b = 0`` on a Free block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas.linalg import FloatArray, eigvalsh, symmetrize
from sdpfeas.operators import Dense, Rows, Sparse
from sdpfeas.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.rounding import definite, gamma, inflate, norm_upper, sum_upper, symmetric_norm_upper
from sdpfeas.scaling import power_of_two
from sdpfeas.sets import PSD, Free, Nonneg, SpectralBox

__all__ = ["CorrectionSystem", "FreeColumns", "correction_systems", "vector_columns"]

#: Share of a computed smallest eigenvalue that is asked of its proof; the rest is left to rounding.
CAUTION = 0.5

#: More equality rows than this are only handled where their Gram matrix is diagonal.
MAX_DENSE_ROWS = 3000


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

    @property
    def reach(self) -> float:
        """Bound on the Frobenius norm of a unit correction."""
        return float(np.max(self.weight, initial=0.0))


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
                gram[head, head] += _dense(columns @ columns.T)
                continue
            squared = part.weight**2
            gram[head, head] += squared * rows.gram()
            if part.trace is not None:
                gram[head, trace] = gram[trace, head] = squared * rows.apply(np.eye(rows.n))
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
        scaled = full * self._gram[1]
        return float(inflate(norm_upper(scaled) / math.sqrt(self._smallest_lower), 8))

    def drift_upper(self, upper_norms: FloatArray) -> FloatArray:
        """Bound of how far a unit correction moves each row of the problem."""
        out = np.zeros(upper_norms.shape[1])
        for part in self.parts:
            out += part.reach * upper_norms[part.block]
        return inflate(out, len(self.parts) + 4)

    def correct(self, point: Point, residual: FloatArray) -> Point:
        """Move the blocks so that the equality rows hold up to rounding.

        Parameters
        ----------
        point : tuple of ndarray
            Where to start.
        residual : ndarray
            ``lower - A(X)`` on the equality rows.
        """
        gram, scale, _ = self._gram
        off = [(part.trace or 0.0) - float(np.trace(point[part.block])) for part in self._traced]
        full = np.concatenate([residual, off]) * scale
        if self._diagonal:
            z = np.divide(full, gram, out=np.zeros_like(full), where=gram > 0.0)
        else:
            # Singular directions are those of redundant rows; they need no correction.
            z = scipy.linalg.pinvh(gram, rtol=1e-13) @ full
        z = z * scale
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
    movable = [part for b, rows in touched if (part := _movable(problem, b, rows, point)) is not None]
    for part in movable:
        if part.trace is None and isinstance(part.weight, float) and _disjoint(part.rows):
            yield CorrectionSystem([part], index.size, diagonal=True)
            break
    if index.size <= MAX_DENSE_ROWS:
        yield CorrectionSystem(movable, index.size)


def _movable(problem: FeasibilityProblem, b: int, rows: Rows, point: Point) -> Movable | None:
    block, x = problem.sets[b], point[b]
    if isinstance(block, Free):
        size = float(np.max(np.abs(x), initial=0.0))
        return Movable(b, rows, np.full(block.n, size if size > 0.0 else 1.0))
    if isinstance(block, Nonneg):
        return Movable(b, rows, np.array(x)) if np.all(x >= 0.0) else None
    # The computed depth is only a guess; `definite` proves what is left after caution.
    depth = CAUTION * block.depth(x)
    if not depth > 0.0:
        return None
    if isinstance(block, PSD):
        return Movable(b, rows, depth) if definite(x, shift=depth) else None
    assert isinstance(block, SpectralBox)
    eye = np.eye(block.n)
    rounding = 8.0 * np.finfo(float).eps * (norm_upper(x) + abs(block.lower) + abs(block.upper))
    if not definite(x - block.lower * eye, shift=depth + rounding):
        return None
    if not definite(block.upper * eye - x, shift=depth + rounding):
        return None
    if block.trace is None:
        return Movable(b, rows, depth)
    terms = np.append(np.diagonal(x), -block.trace)
    return Movable(b, rows, depth, block.trace, max(sum_upper(terms), sum_upper(-terms), 0.0))


def _disjoint(rows: Rows) -> bool:
    """Whether no two rows share an entry."""
    if not isinstance(rows, Sparse) or np.any(np.diff(rows.array.indptr) == 0):
        return False
    counts = np.bincount(rows.array.indices, minlength=1)
    return bool(np.max(counts) <= 1)


def vector_columns(rows: Rows) -> Any:
    """Rows on a vector block as a matrix of shape (m, n): sparse where they are stored so."""
    if isinstance(rows, Dense):
        return rows.array
    if isinstance(rows, Sparse):
        return rows.array
    return np.stack([rows.apply(unit) for unit in np.eye(rows.n)], axis=1)


def _dense(matrix: Any) -> FloatArray:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def independent_rows(problem: FeasibilityProblem) -> np.ndarray:
    """Indices of all inequality rows and of a largest independent set of equality rows, ascending.

    A numeric judgement, by pivoted Cholesky factorisation of the Gram matrix; prescribed traces count as
    rows that are there already.
    """
    index = np.flatnonzero(problem.equality)
    if not 0 < index.size <= MAX_DENSE_ROWS:
        return np.arange(problem.m)
    gram = np.zeros((index.size, index.size))
    for block, rows in zip(problem.sets, problem.rows, strict=True):
        if rows is None:
            continue
        part = rows.select(index)
        gram += part.gram()
        if isinstance(block, SpectralBox) and block.trace is not None:
            along = part.apply(np.eye(block.n))
            gram -= np.outer(along, along) / block.n
    keep = index[_pivots(gram)]
    return np.sort(np.concatenate([np.flatnonzero(~problem.equality), keep]))


def independent_free_columns(problem: FeasibilityProblem) -> FeasibilityProblem | None:
    """Return the problem with only independent columns in its Free blocks; None if all are."""
    sets, rows_out, dropped = list(problem.sets), list(problem.rows), False
    free = [
        (b, vector_columns(rows))
        for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True))
        if isinstance(block, Free) and rows is not None
    ]
    if not free:
        return None
    columns = sp.hstack([sp.csr_array(part) for _, part in free], format="csc")
    keep = np.sort(_pivots(_dense(columns.T @ columns)))
    start = 0
    for b, part in free:
        width = part.shape[1]
        own = keep[(keep >= start) & (keep < start + width)] - start
        start += width
        if own.size == width:
            continue
        dropped = True
        chosen = own if own.size else np.array([0])
        sets[b] = Free(chosen.size)
        rows_out[b] = Sparse(sp.csr_array(part)[:, chosen], chosen.size, False) if own.size else None
    if not dropped:
        return None
    return FeasibilityProblem(sets, rows_out, problem.lower, problem.upper)


def _pivots(gram: FloatArray) -> np.ndarray:
    """Indices of a largest numerically independent subset."""
    scale = power_of_two(np.sqrt(np.maximum(np.diagonal(gram), 0.0)))
    scaled = symmetrize(gram * scale[:, None] * scale)
    tolerance = 1e-12 * float(np.max(np.diagonal(scaled), initial=0.0))
    _, pivots, rank, _ = scipy.linalg.lapack.dpstrf(scaled, tol=tolerance, lower=1)
    return np.asarray(pivots[:rank] - 1)


class FreeColumns:
    """The columns of all Free blocks, on which ``A*y`` has to vanish exactly.

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
        parts = [
            rows
            for block, rows in zip(problem.sets, problem.rows, strict=True)
            if isinstance(block, Free) and rows is not None
        ]
        enclosed = [rows.enclose_adjoint(y) for rows in parts]
        #: Upper bounds of |A*y| on the free entries.
        self.residual = np.concatenate([inflate(np.abs(g) + e, 4) for g, e in enclosed] or [np.zeros(0)])
        self._parts = parts
        signed = np.isinf(problem.lower) | np.isinf(problem.upper)
        # A multiplier bound to one sign may only be corrected where it is clear of zero.
        clear = np.abs(y) > 1e-6 * np.max(np.abs(y), initial=0.0)
        self.index = np.flatnonzero(~signed | clear)
        self._signed = signed

    @property
    def exact(self) -> bool:
        """Whether ``A*y`` vanishes exactly as it is."""
        return not self.residual.any()

    @cached_property
    def columns(self) -> Any:
        """The free columns of the rows that may be corrected, stacked side by side."""
        blocks = [vector_columns(rows)[self.index] for rows in self._parts]
        if all(sp.issparse(block) for block in blocks):
            return sp.hstack(blocks, format="csr")
        return np.hstack([_dense(block) for block in blocks])

    @cached_property
    def _scaled_gram(self) -> tuple[FloatArray, FloatArray, float]:
        gram = _dense(self.columns.T @ self.columns)
        size = _dense(abs(self.columns).T @ abs(self.columns))
        scale = power_of_two(np.sqrt(np.maximum(np.diagonal(gram), 0.0)))
        depth = self.index.size + 8 + max(sum(rows._depths) for rows in self._parts)
        error = gamma(depth) * symmetric_norm_upper(inflate(size * scale[:, None] * scale, depth))
        return symmetrize(gram * scale[:, None] * scale), scale, float(inflate(error, 4))

    def correction_upper(self) -> float:
        """Bound of the norm of the least correction of ``y`` that makes ``A*y`` vanish exactly."""
        if self.exact:
            return 0.0
        gram, scale, error = self._scaled_gram
        if not np.isfinite(gram).all():
            return math.inf
        smallest = CAUTION * float(eigvalsh(gram)[0])
        if not (smallest > 0.0 and definite(gram, shift=smallest + error)):
            return math.inf
        return float(inflate(norm_upper(self.residual * scale) / math.sqrt(smallest), 8))

    def correct(self) -> FloatArray:
        """Return multipliers corrected so that ``A*y`` vanishes up to rounding."""
        gram, scale, _ = self._scaled_gram
        y = np.array(self._y)
        for _ in range(2):
            g = np.concatenate([rows.adjoint(y) for rows in self._parts])
            step = scale * (scipy.linalg.pinvh(gram, rtol=1e-13) @ (scale * g))
            y[self.index] -= self.columns @ step
        return y

    def signs_survive(self, shift: float) -> bool:
        """Whether a correction of that norm leaves every sign condition intact."""
        bound = self._y[self.index][self._signed[self.index]]
        return bool(np.all(np.abs(bound) >= shift))

    def bound_norm(self) -> float:
        """Norm of the finite bounds of the rows that may be corrected."""
        return norm_upper(largest_bound(self._problem)[self.index])

    def row_norm(self, b: int) -> float:
        """Bound of how far a unit correction moves ``A*y`` on block ``b``."""
        return norm_upper(self._problem.upper_norms[b][self.index])
