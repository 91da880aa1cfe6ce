"""Feasibility questions as one of the two programs of a standard form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.ipm.sparse_embedding import SparseEmbedding
from sdpfeas.backends.ipm.standard_form import ConeBlock, StandardForm
from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows.matrix_view import matrix_of
from sdpfeas.problem.sets import BlockSet


class ProblemForm(ABC):
    """A problem posed as one program of a standard form, and how its iterates are read."""

    form: StandardForm

    @abstractmethod
    def near_point(self, core: SparseEmbedding) -> Point | None:
        """A point near the iterate that meets all equations and is deep inside; None if there is none."""

    @abstractmethod
    def near_certificate(self, core: SparseEmbedding) -> FloatArray | None:
        """Multipliers near the iterate that are deep inside and gain something; None if there are none."""

    @abstractmethod
    def optimal(self, core: SparseEmbedding) -> tuple[Point, FloatArray]:
        """Point and multipliers of the objective, with equations that hold where that can be."""

    @abstractmethod
    def present(self, core: SparseEmbedding) -> tuple[Point, FloatArray]:
        """The present point and multipliers, as they are."""


class PrimalForm(ProblemForm):
    """Rows as equations ``A x + B u = b``: points are x and u, certificates y.

    Rows that are no equations get a non-negative slack, and a second one with a row of its own if both bounds
    are finite.

    ``problem``: PSD, SecondOrder, Nonneg and Free blocks; no row may be zero or without bounds.
    ``objective``: what to maximise, one array per block.
    """

    def __init__(self, problem: FeasibilityProblem, objective: Point | None = None) -> None:
        self.problem = problem
        entries = sum(rows.entries for rows in problem.rows)
        need("the rows in standard form", numbers=40.0 * entries, memory=120.0 * entries)
        m = problem.m
        ranged = np.intersect1d(problem.lower_rows, problem.upper_rows)
        total = m + ranged.size
        self._factors = power_of_two(np.append(problem.norms, np.ones(ranged.size)))
        cones, self._blocks, free, self._free = [], [], [], []
        for b, block, rows in problem.blocks():
            own = scaled_rows(self._factors, _taller(matrix_of(rows), total))
            if block.free:
                self._free.append(b)
                free.append(own)
            else:
                self._blocks.append(b)
                cost = None if objective is None else -objective[b].reshape(-1)
                cones.append(ConeBlock.on(block, own, cost))
        cones.append(ConeBlock(0, scaled_rows(self._factors, _slacks(problem, ranged))))
        right = np.concatenate(
            [
                np.where(np.isfinite(problem.lower), problem.lower, problem.upper),
                (problem.upper - problem.lower)[ranged],
            ]
        )
        columns = sp.hstack(free, format="csr") if free else None
        f = None if objective is None or not free else -np.concatenate([objective[b] for b in self._free])
        self.form = StandardForm.from_cones(cones, right * self._factors, columns, f)

    def near_point(self, core: SparseEmbedding) -> Point | None:
        """Correct x and u."""
        found = core.corrected_primal(core.tau)
        return None if found is None else self._point(found[0], found[1], core.tau)

    def near_certificate(self, core: SparseEmbedding) -> FloatArray | None:
        """Correct y."""
        if not core.dual_value > 0.0:
            return None
        found = core.corrected_dual(0.0)
        return self._multipliers(found[0]) if found is not None and core.form.b @ found[0] > 0.0 else None

    def optimal(self, core: SparseEmbedding) -> tuple[Point, FloatArray]:
        """Correct x and u, and y."""
        x, u = core.corrected_primal(core.tau) or (core.x, core.u)
        y, _ = core.corrected_dual(core.tau) or (core.y, core.z)
        return self._point(x, u, core.tau), self._multipliers(y) / core.tau

    def present(self, core: SparseEmbedding) -> tuple[Point, FloatArray]:
        """``x / tau`` and y."""
        return self._point(core.x, core.u, core.tau), self._multipliers(core.y)

    def _point(self, x: FloatArray, u: FloatArray, tau: float) -> Point:
        out: list[FloatArray] = [np.zeros(0)] * len(self.problem.sets)
        for b, place in zip(self._blocks, self.form.cone_slices, strict=False):
            block = self.problem.sets[b]
            part = x[place].reshape(block.shape) / tau
            out[b] = symmetrize(part) if block.matrix else part
        start = 0
        for b in self._free:
            n = self.problem.sets[b].n
            out[b] = u[start : start + n] / tau
            start += n
        return tuple(out)

    def _multipliers(self, y: FloatArray) -> FloatArray:
        found = (y * self._factors)[: self.problem.m]
        # Slacks are non-negative, so signs are right already, but for rounding.
        found = np.where(np.isneginf(self.problem.lower), np.minimum(found, 0.0), found)
        return np.where(np.isposinf(self.problem.upper), np.maximum(found, 0.0), found)


def scaled_rows(factors: FloatArray, rows: Any) -> Any:
    """Rows times factors."""
    data = rows.data * np.repeat(factors, np.diff(rows.indptr))
    return sp.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def _taller(rows: Any, total: int) -> Any:
    """The same rows with empty ones below."""
    if rows.shape[0] == total:
        return rows
    return sp.csr_array(sp.vstack([rows, sp.csr_array((total - rows.shape[0], rows.shape[1]))]))


def _slacks(problem: FeasibilityProblem, ranged: np.ndarray) -> Any:
    """Columns of the slacks: ``A(X) - s = lower`` or ``A(X) + s = upper``, and ``s + t = upper - lower``."""
    open_rows = problem.inequality_rows
    below = np.isfinite(problem.lower[open_rows])
    k, e = np.arange(open_rows.size), np.arange(ranged.size)
    row = np.concatenate([open_rows, problem.m + e, problem.m + e])
    column = np.concatenate([k, np.searchsorted(open_rows, ranged), open_rows.size + e])
    value = np.concatenate([np.where(below, -1.0, 1.0), np.ones(2 * ranged.size)])
    shape = (problem.m + ranged.size, open_rows.size + ranged.size)
    return sp.csr_array((value, (row, column)), shape=shape)


# ------------------------------------------------------------
# Feasibility questions in the form of linear matrix inequalities.


class DualForm(ProblemForm):
    """The entries of all blocks as the unknowns y of ``c - A'y`` in K, ``B'y = f``.

    LMIs, blocks that are cones and rows with bounds are factors of K; equality rows are equations ``B'y =
    f``. Points are y, certificates x and u.

    ``problem``: blocks and LMIs in PSD, SecondOrder, Nonneg or, blocks only, Free. ``objective``: what to
    maximise, one array per block.
    """

    def __init__(self, problem: FeasibilityProblem, objective: Point | None = None) -> None:
        self.problem = problem
        stored = [rows for lmi in problem.lmis for rows in lmi.coefficients]
        entries = sum(rows.entries for rows in (*stored, *problem.rows))
        need("the unknowns in standard form", numbers=60.0 * entries, memory=160.0 * entries)
        self._counts = [block.dimension for block in problem.sets]
        self._folds = [_fold(block) for block in problem.sets]
        cones = [
            ConeBlock.on(lmi.set, -self._stacked(lmi.coefficients, lmi.set), lmi.constant.reshape(-1))
            for lmi in problem.lmis
        ]
        self._own = []
        start = 0
        total = sum(self._counts)
        for b, (block, count, fold) in enumerate(zip(problem.sets, self._counts, self._folds, strict=True)):
            if not block.free:
                self._own.append(b)
                cones.append(ConeBlock.on(block, -_padded(fold, start, total)))
            start += count
        rows = self._rows(total)
        # An equality row without terms holds anyway, or is one bound that no point meets.
        equal = problem.equality & (problem.norms > 0.0)
        void = problem.equality & ~equal
        self._equal = np.flatnonzero(equal)
        self._low = np.flatnonzero(
            np.where(problem.equality, void & (problem.lower > 0.0), np.isfinite(problem.lower))
        )
        self._high = np.flatnonzero(
            np.where(problem.equality, void & (problem.upper < 0.0), np.isfinite(problem.upper))
        )
        # Rows and bounds of about the same size as everything else.
        unit = power_of_two(problem.norms)
        self._unit = unit
        by_row = rows.T.tocsr()
        bounds = sp.csr_array(
            sp.vstack(
                [
                    -scaled_rows(unit[self._low], by_row[self._low]),
                    scaled_rows(unit[self._high], by_row[self._high]),
                ]
            ).T
        )
        limits = np.concatenate([-(problem.lower * unit)[self._low], (problem.upper * unit)[self._high]])
        cones.append(ConeBlock(0, bounds, limits))
        free = sp.csr_array(scaled_rows(unit[self._equal], by_row[self._equal]).T)
        sizes = np.zeros(total)
        for part in (*(cone.rows for cone in cones), free):
            sizes += np.bincount(_row_of(part), weights=np.square(part.data), minlength=total)
        right = np.zeros(total)
        if objective is not None:
            pairs = zip(self._folds, objective, strict=True)
            right = np.concatenate([fold @ part.reshape(-1) for fold, part in pairs])
        # An unknown that nothing depends on stays zero; one is kept, for there has to be a system.
        used = (sizes > 0.0) | (right != 0.0)
        self._used = np.flatnonzero(used) if used.any() else np.zeros(1, dtype=np.int64)
        self._factors = power_of_two(np.sqrt(sizes[self._used]))
        cones = [replace(c, rows=self._taken(c.rows)) for c in cones]
        self.form = StandardForm.from_cones(
            cones,
            right[self._used] * self._factors,
            self._taken(free),
            (problem.lower * unit)[self._equal],
        )
        self._total = total

    def _taken(self, rows: Any) -> Any:
        rows = rows if self._used.size == rows.shape[0] else rows[self._used]
        return scaled_rows(self._factors, sp.csr_array(rows))

    def _stacked(self, coefficients: Any, block: BlockSet) -> Any:
        """Values of a map into a set at all unknowns, one a row."""
        parts = []
        for rows, fold, own in zip(coefficients, self._folds, self.problem.sets, strict=True):
            found = matrix_of(rows)
            parts.append(fold @ found if own.matrix else found)
        return sp.csr_array(parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr"))

    def _rows(self, total: int) -> Any:
        """The rows of the problem as columns, over all unknowns."""
        parts = []
        for rows, fold, block in zip(self.problem.rows, self._folds, self.problem.sets, strict=True):
            found = sp.csr_array(matrix_of(rows).T)
            parts.append(fold @ found if block.matrix else found)
        return sp.csr_array(sp.vstack(parts, format="csr")) if self.problem.m else sp.csr_array((total, 0))

    def near_point(self, core: SparseEmbedding) -> Point | None:
        """Correct y."""
        found = core.corrected_dual(core.tau)
        return None if found is None else self._point(found[0] / core.tau)

    def near_certificate(self, core: SparseEmbedding) -> FloatArray | None:
        """Correct x and u."""
        if not core.primal_value < 0.0:
            return None
        found = core.corrected_primal(0.0)
        if found is None or not core.form.c @ found[0] + core.form.f @ found[1] < 0.0:
            return None
        return self._multipliers(*found)

    def optimal(self, core: SparseEmbedding) -> tuple[Point, FloatArray]:
        """Correct y, and x with u."""
        y, _ = core.corrected_dual(core.tau) or (core.y, core.z)
        x, u = core.corrected_primal(core.tau) or (core.x, core.u)
        return self._point(y / core.tau), self._multipliers(x, u) / core.tau

    def present(self, core: SparseEmbedding) -> tuple[Point, FloatArray]:
        """``y / tau``, and x with u."""
        return self._point(core.y / core.tau), self._multipliers(core.x, core.u)

    def _point(self, y: FloatArray) -> Point:
        numbers = np.zeros(self._total)
        numbers[self._used] = y * self._factors
        out, start = [], 0
        for block, count in zip(self.problem.sets, self._counts, strict=True):
            part = numbers[start : start + count]
            start += count
            if block.matrix:
                whole = np.zeros(block.shape)
                i, j = np.triu_indices(block.n)
                whole[i, j] = whole[j, i] = part
                part = whole
            out.append(part)
        return tuple(out)

    def _multipliers(self, x: FloatArray, u: FloatArray) -> FloatArray:
        lmis, places = self.problem.lmis, self.form.cone_slices
        rows = np.zeros(self.problem.m)
        bounds = x[places[-1]]
        rows[self._low] += bounds[: self._low.size]
        rows[self._high] -= bounds[self._low.size :]
        rows[self._equal] = -u
        parts = [rows * self._unit]
        for lmi, place in zip(lmis, places, strict=False):
            part = x[place].reshape(lmi.set.shape)
            parts.append((symmetrize(part) if lmi.set.matrix else part).reshape(-1))
        return np.concatenate(parts)


def _row_of(rows: Any) -> np.ndarray:
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def _fold(block: BlockSet) -> Any:
    """Matrix that adds up what the entries of a block and their mirror images say: one unknown a row."""
    if not block.matrix:
        return sp.eye_array(block.n, format="csr")
    i, j = np.triu_indices(block.n)
    k, off = np.arange(i.size), i != j
    row = np.concatenate([k, k[off]])
    place = np.concatenate([i * block.n + j, (j * block.n + i)[off]])
    return sp.csr_array((np.ones(row.size), (row, place)), shape=(i.size, block.n**2))


def _padded(rows: Any, start: int, total: int) -> Any:
    """Rows with empty ones before and after."""
    pointers = np.concatenate(
        [
            np.zeros(start, dtype=rows.indptr.dtype),
            rows.indptr,
            np.full(total - start - rows.shape[0], rows.indptr[-1]),
        ]
    )
    return sp.csr_array((rows.data, rows.indices, pointers), shape=(total, rows.shape[1]))
