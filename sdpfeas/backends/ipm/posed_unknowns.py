"""Feasibility questions in the form of linear matrix inequalities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.ipm.pair import ConeRows, standard_pair
from sdpfeas.backends.ipm.posed import Posed, scaled_rows
from sdpfeas.backends.ipm.self_dual import SelfDual
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.scaling import power_of_two
from sdpfeas.problem.rows.flat import matrix_of
from sdpfeas.problem.sets import BlockSet

__all__ = ["PosedUnknowns"]


class PosedUnknowns(Posed):
    """The entries of all blocks as the unknowns y of ``c - A'y`` in K, ``B'y = f``.

    LMIs, blocks that are cones and rows with bounds are factors of K; equality rows are equations ``B'y =
    f``. Points are y, certificates x and u.

    Parameters
    ----------
    problem : FeasibilityProblem
        Blocks and LMIs in PSD, SecondOrder, Nonneg or, blocks only, Free.
    objective : tuple of ndarray, optional
        What to maximise, one array per block.
    """

    def __init__(self, problem: FeasibilityProblem, objective: Point | None = None) -> None:
        self.problem = problem
        stored = [rows for lmi in problem.lmis for rows in lmi.coefficients]
        entries = sum(rows.entries for rows in (*stored, *problem.rows) if rows is not None)
        need("the unknowns in standard form", numbers=60.0 * entries, memory=160.0 * entries)
        self._counts = [block.dimension for block in problem.sets]
        self._folds = [_fold(block) for block in problem.sets]
        cones = [
            ConeRows.on(lmi.set, -self._stacked(lmi.coefficients, lmi.set), lmi.constant.reshape(-1))
            for lmi in problem.lmis
        ]
        self._own = []
        start = 0
        total = sum(self._counts)
        for b, (block, count, fold) in enumerate(zip(problem.sets, self._counts, self._folds, strict=True)):
            if not block.free:
                self._own.append(b)
                cones.append(ConeRows.on(block, -_padded(fold, start, total)))
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
        cones.append(ConeRows(0, bounds, limits))
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
        self.pair = standard_pair(
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
        for rows, count, fold, own in zip(
            coefficients, self._counts, self._folds, self.problem.sets, strict=True
        ):
            if rows is None:
                parts.append(sp.csr_array((count, block.entries)))
            else:
                found = matrix_of(rows)
                parts.append(fold @ found if own.matrix else found)
        return sp.csr_array(parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr"))

    def _rows(self, total: int) -> Any:
        """The rows of the problem as columns, over all unknowns."""
        parts = []
        for rows, count, fold, block in zip(
            self.problem.rows, self._counts, self._folds, self.problem.sets, strict=True
        ):
            if rows is None:
                parts.append(sp.csr_array((count, self.problem.m)))
            else:
                found = sp.csr_array(matrix_of(rows).T)
                parts.append(fold @ found if block.matrix else found)
        return sp.csr_array(sp.vstack(parts, format="csr")) if self.problem.m else sp.csr_array((total, 0))

    def near_point(self, core: SelfDual) -> Point | None:
        """Correct y."""
        found = core.corrected_dual(core.tau)
        return None if found is None else self._point(found[0] / core.tau)

    def near_certificate(self, core: SelfDual) -> FloatArray | None:
        """Correct x and u."""
        if not core.primal_value < 0.0:
            return None
        found = core.corrected_primal(0.0)
        if found is None or not core.pair.c @ found[0] + core.pair.f @ found[1] < 0.0:
            return None
        return self._multipliers(*found)

    def optimal(self, core: SelfDual) -> tuple[Point, FloatArray]:
        """Correct y, and x with u."""
        y, _ = core.corrected_dual(core.tau) or (core.y, core.z)
        x, u = core.corrected_primal(core.tau) or (core.x, core.u)
        return self._point(y / core.tau), self._multipliers(x, u) / core.tau

    def present(self, core: SelfDual) -> tuple[Point, FloatArray]:
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
        lmis, places = self.problem.lmis, self.pair.places
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
