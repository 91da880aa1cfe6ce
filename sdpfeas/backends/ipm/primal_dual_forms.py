"""A feasibility problem written as the primal or as the dual program of the standard form.

:class:`PrimalForm` has one equality constraint per row, :class:`DualForm` one variable y_k per entry of the
blocks. The Schur complement has one row per constraint or per entry; the cheaper form is chosen by
:func:`sdpfeas.backends.ipm.spectral_ipm.dual_form_is_cheaper`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.ipm.standard_form import ConeBlock, StandardForm
from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray, symmetrize, triangle_map, unpack_triangle
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import BlockSet


class PrimalForm:
    """``lower <= A(X) <= upper``, ``X`` in K -> ``A x + B u = b``, x in K. Multipliers: y.

    The blocks are PSD, SecondOrder, Nonneg and Free; x holds the cones and u the free blocks. An inequality
    row gets a non-negative slack, ``A(X) - s = lower`` or ``A(X) + s = upper``; a row with two bounds also a
    row ``s + t = upper - lower``. No row may be zero or without bounds. ``objective`` is maximised.
    """

    #: Whether the primal variables x and u hold the point, and the dual variables y the multipliers.
    point_is_primal = True

    def __init__(self, problem: FeasibilityProblem, objective: Point | None = None) -> None:
        self.problem = problem
        _check_limits("the rows in standard form", problem.rows, numbers=40.0, memory=120.0)
        ranged = np.intersect1d(problem.lower_rows, problem.upper_rows)
        total = problem.m + ranged.size
        self._factors = power_of_two(np.append(problem.norms, np.ones(ranged.size)))
        cones, self._cone_blocks, free, self._free_blocks = [], [], [], []
        for b, block, rows in problem.blocks():
            own = _scale_rows(self._factors, _pad_rows(rows.to_csr(), 0, total))
            if block.free:
                self._free_blocks.append(b)
                free.append(own)
            else:
                self._cone_blocks.append(b)
                cost = None if objective is None else -objective[b].reshape(-1)
                cones.append(ConeBlock.on(block, own, cost))
        cones.append(ConeBlock(0, _scale_rows(self._factors, _slack_columns(problem, ranged))))
        one_bound = np.where(np.isfinite(problem.lower), problem.lower, problem.upper)
        right = np.concatenate([one_bound, (problem.upper - problem.lower)[ranged]])
        columns = sp.hstack(free, format="csr") if free else None
        f = None
        if objective is not None and free:
            f = -np.concatenate([objective[b] for b in self._free_blocks])
        self.form = StandardForm.from_cones(cones, right * self._factors, columns, f)

    def point(self, x: FloatArray, u: FloatArray, y: FloatArray) -> Point:
        """Return the point of the variables of a solution: blocks of x and u."""
        out: list[FloatArray] = [np.zeros(0)] * len(self.problem.sets)
        for b, own in zip(self._cone_blocks, self.form.cone_slices, strict=False):
            block = self.problem.sets[b]
            part = x[own].reshape(block.shape)
            out[b] = symmetrize(part) if block.matrix else part
        start = 0
        for b in self._free_blocks:
            n = self.problem.sets[b].n
            out[b] = u[start : start + n]
            start += n
        return tuple(out)

    def multipliers(self, x: FloatArray, u: FloatArray, y: FloatArray) -> FloatArray:
        """Return the multipliers of a solution or ray: the first part of y, in the units of the rows."""
        found = (y * self._factors)[: self.problem.m]
        # The dual slacks of s and t are non-negative, so the signs are right up to rounding.
        found = np.where(np.isneginf(self.problem.lower), np.minimum(found, 0.0), found)
        return np.where(np.isposinf(self.problem.upper), np.maximum(found, 0.0), found)


class DualForm:
    """``X`` in K, ``lower <= A(X) <= upper``, LMIs ``F(X)`` in L -> ``c - A'y in K x L x R+``, ``B'y = f``.

    y holds the entries of all blocks, the upper triangle of matrices. Cone blocks, LMIs and finite bounds of
    inequality rows are factors of the cone, equality rows are the equations ``B'y = f``. Multipliers: x for
    bounds and LMIs, -u for equality rows. ``objective`` is maximised.
    """

    point_is_primal = False

    def __init__(self, problem: FeasibilityProblem, objective: Point | None = None) -> None:
        self.problem = problem
        coefficients = [rows for lmi in problem.lmis for rows in lmi.coefficients]
        _check_limits(
            "the unknowns in standard form", (*coefficients, *problem.rows), numbers=60.0, memory=160.0
        )
        self._counts = [block.dimension for block in problem.sets]
        self._total = total = sum(self._counts)
        self._triangles = [_triangle_sums(block) for block in problem.sets]
        cones = [
            ConeBlock.on(
                lmi.set,
                -self._values_at_units(rows.to_csr() for rows in lmi.coefficients),
                lmi.constant.reshape(-1),
            )
            for lmi in problem.lmis
        ]
        start = 0
        for block, count, triangle in zip(problem.sets, self._counts, self._triangles, strict=True):
            if not block.free:
                cones.append(ConeBlock.on(block, -_pad_rows(triangle, start, total)))
            start += count
        # An equality row without entries is always satisfied, or has one bound that no point meets.
        equal = problem.equality & (problem.norms > 0.0)
        empty = problem.equality & ~equal
        self._equal = np.flatnonzero(equal)
        self._low = np.flatnonzero(
            np.where(problem.equality, empty & (problem.lower > 0.0), np.isfinite(problem.lower))
        )
        self._high = np.flatnonzero(
            np.where(problem.equality, empty & (problem.upper < 0.0), np.isfinite(problem.upper))
        )
        #: Powers of two that give rows, and with them their bounds, norm about one.
        self._row_factors = unit = power_of_two(problem.norms)
        rows = self._values_at_units(sp.csr_array(rows.to_csr().T) for rows in problem.rows).T.tocsr()
        bounds = sp.csr_array(
            sp.vstack(
                [
                    -_scale_rows(unit[self._low], rows[self._low]),
                    _scale_rows(unit[self._high], rows[self._high]),
                ]
            ).T
        )
        limits = np.concatenate([-(problem.lower * unit)[self._low], (problem.upper * unit)[self._high]])
        cones.append(ConeBlock(0, bounds, limits))
        free = sp.csr_array(_scale_rows(unit[self._equal], rows[self._equal]).T)
        squares = np.zeros(total)
        for part in (*(cone.rows for cone in cones), free):
            owner = np.repeat(np.arange(total), np.diff(part.indptr))
            squares += np.bincount(owner, weights=np.square(part.data), minlength=total)
        right = np.zeros(total)
        if objective is not None:
            parts = zip(self._triangles, objective, strict=True)
            right = np.concatenate([triangle @ part.reshape(-1) for triangle, part in parts])
        # A variable without coefficients stays zero. One is kept, since a system needs a row.
        used = (squares > 0.0) | (right != 0.0)
        self._used = np.flatnonzero(used) if used.any() else np.zeros(1, dtype=np.int64)
        self._factors = power_of_two(np.sqrt(squares[self._used]))
        self.form = StandardForm.from_cones(
            [replace(cone, rows=self._select_used(cone.rows)) for cone in cones],
            right[self._used] * self._factors,
            self._select_used(free),
            (problem.lower * unit)[self._equal],
        )

    def _select_used(self, rows: Any) -> Any:
        rows = rows if self._used.size == rows.shape[0] else rows[self._used]
        return _scale_rows(self._factors, sp.csr_array(rows))

    def _values_at_units(self, matrices: Iterable[Any]) -> Any:
        """Values of a linear map at the unit vectors of y, one per row, from those at all entries."""
        parts = [
            triangle @ matrix if block.matrix else matrix
            for matrix, triangle, block in zip(matrices, self._triangles, self.problem.sets, strict=True)
        ]
        return sp.csr_array(parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr"))

    def point(self, x: FloatArray, u: FloatArray, y: FloatArray) -> Point:
        """Return the point of the variables of a solution: blocks of y."""
        entries = np.zeros(self._total)
        entries[self._used] = y * self._factors
        out, start = [], 0
        for block, count in zip(self.problem.sets, self._counts, strict=True):
            part = entries[start : start + count]
            start += count
            if block.matrix:
                part = unpack_triangle(part, block.n)
            out.append(part)
        return tuple(out)

    def multipliers(self, x: FloatArray, u: FloatArray, y: FloatArray) -> FloatArray:
        """Return the multipliers of a solution or ray: x of bounds and LMIs, u of equality rows."""
        lmis, slices = self.problem.lmis, self.form.cone_slices
        rows = np.zeros(self.problem.m)
        bounds = x[slices[-1]]
        rows[self._low] += bounds[: self._low.size]
        rows[self._high] -= bounds[self._low.size :]
        rows[self._equal] = -u
        parts = [rows * self._row_factors]
        for lmi, own in zip(lmis, slices, strict=False):
            part = x[own].reshape(lmi.set.shape)
            parts.append((symmetrize(part) if lmi.set.matrix else part).reshape(-1))
        return np.concatenate(parts)


#: A problem in standard form, and the way back from its variables to points and multipliers.
ProblemForm = PrimalForm | DualForm


def _check_limits(what: str, parts: Iterable[Rows], *, numbers: float, memory: float) -> None:
    """Refuse a standard form that exceeds the limits; numbers and bytes are per stored entry."""
    entries = sum(rows.entries for rows in parts)
    guard(what, numbers * WRITE_FLOPS * entries, memory=memory * entries)


def _scale_rows(factors: FloatArray, rows: Any) -> Any:
    """Multiply every row by a factor."""
    data = rows.data * np.repeat(factors, np.diff(rows.indptr))
    return sp.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def _pad_rows(rows: Any, start: int, total: int) -> Any:
    """Put rows at positions ``start`` on of ``total`` rows, all others empty."""
    if rows.shape[0] == total:
        return rows
    pointers = np.pad(rows.indptr, (start, total - start - rows.shape[0]), mode="edge")
    return sp.csr_array((rows.data, rows.indices, pointers), shape=(total, rows.shape[1]))


def _slack_columns(problem: FeasibilityProblem, ranged: np.ndarray) -> Any:
    """Columns of the slacks s and t of inequality rows."""
    inequalities = problem.inequality_rows
    below = np.isfinite(problem.lower[inequalities])
    k, e = np.arange(inequalities.size), np.arange(ranged.size)
    row = np.concatenate([inequalities, problem.m + e, problem.m + e])
    column = np.concatenate([k, np.searchsorted(inequalities, ranged), inequalities.size + e])
    value = np.concatenate([np.where(below, -1.0, 1.0), np.ones(2 * ranged.size)])
    shape = (problem.m + ranged.size, inequalities.size + ranged.size)
    return sp.csr_array((value, (row, column)), shape=shape)


def _triangle_sums(block: BlockSet) -> Any:
    """Matrix that adds the two mirrored entries of a flattened matrix, one row per entry of the triangle."""
    return triangle_map(block.n, 1.0).T if block.matrix else sp.eye_array(block.n, format="csr")
