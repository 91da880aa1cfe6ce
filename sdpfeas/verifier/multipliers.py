"""Dual multipliers of rows and LMIs, and least-norm corrections of them.

A Farkas certificate must satisfy ``(A*y + B*Y)_b = 0`` exactly on every Free block, and so must multipliers
that bound an objective ``C``: ``(C + A*y + B*Y)_b = 0``. Theorem 5 of docs/mathematics.md applies to these
equations as it does to the equality rows of a point: a multiplier of a row may move without changing a
restricted sign, that of an LMI inside the dual cone, and the least-norm correction is bounded in units of
these distances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import LimitError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import inflate, norm_upper, product_up, sum_radius, sum_up
from sdpfeas.problem.lmi import LMI, mirrored
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Combined, Dense, Rows, Sparse, Stacked
from sdpfeas.verifier.equality_correction import MAX_DENSE_ROWS, CorrectionSystem, affordable
from sdpfeas.verifier.gram import BOUND_SHARE
from sdpfeas.verifier.outcome import Outcome, Tolerances, refuse
from sdpfeas.verifier.point_metric import (
    MET_RADII,
    CongruenceBlock,
    MetricSystem,
    Movable,
    metric_block,
    only_stored,
)

#: Values with a proven radius for each.
Enclosed = tuple[FloatArray, FloatArray]

#: A correction of multipliers shorter than this, in units of their weights, needs no sharper bound.
SHORT_CORRECTION = 1e-9


def transposed(rows: Rows) -> Rows:
    """Return the rows of a vector block with rows and columns exchanged, without rounding."""
    if only_stored(rows):
        columns = rows.columns()
        return Sparse(columns.T, rows.m, False) if sp.issparse(columns) else Dense(columns.T)
    if isinstance(rows, Combined):
        return _times(transposed(rows.base), rows.coefficients.T)
    assert isinstance(rows, Stacked), rows
    parts, start = [], 0
    for part in rows.parts:
        parts.append(_times(transposed(part), sp.eye_array(part.m, rows.m, k=start)))
        start += part.m
    return Combined(sp.hstack([sp.eye_array(rows.n)] * len(parts)), Stacked(parts))


def _times(rows: Rows, matrix: Any) -> Rows:
    """Return rows times a matrix from the right, as a composition."""
    if isinstance(rows, Combined):
        return Combined(rows.coefficients, _times(rows.base, matrix))
    return Combined(rows.to_csr(), Sparse(matrix, matrix.shape[1], False))


@dataclass(frozen=True)
class Correction:
    """A least-norm correction of multipliers: a system, and the length in units of its weights."""

    parts: dict[int, Movable | CongruenceBlock]
    length: float
    #: Bound of the displacement of the multiplier of every row under a unit correction.
    rows: FloatArray

    def constant_slip(self, problem: FeasibilityProblem) -> float:
        """Bound the change of ``beta(y) - <Y, F(0)>``."""
        slips = [norm_upper(product_up(self.rows, largest_bound(problem)))]
        for j, lmi in enumerate(problem.lmis):
            if j in self.parts:
                part = self.parts[j]
                slip = norm_upper(product_up(np.abs(lmi.constant), part.weight))
                slips.append(
                    min(slip, part.slope(lmi.constant)) if isinstance(part, CongruenceBlock) else slip
                )
        return float(product_up(self.length, sum_up(0.0, *slips))) if self.length else 0.0

    def block_slip(self, problem: FeasibilityProblem, b: int) -> tuple[float, np.ndarray | None]:
        """Bound the change of ``A*y + B*Y`` on a block, and mark the entries that may change.

        The others are provably unchanged: they occur only in rows whose multiplier is fixed.
        """
        block, rows = problem.sets[b], problem.rows[b]
        moves = np.zeros(block.shape, dtype=bool)
        slips = []
        if not rows.empty and self.rows.any():
            slips.append(norm_upper(product_up(self.rows, problem.upper_norms[b])))
            moves |= rows.magnitude_adjoint_upper(self.rows) != 0.0  # not ``> 0``: NaN counts as a change
        for j, lmi in enumerate(problem.lmis):
            coefficients = lmi.coefficients[b]
            if j in self.parts and not coefficients.empty:
                slips.append(float(product_up(norm_upper(coefficients.norms_upper), self.parts[j].reach)))
                moves |= coefficients.norms_upper.reshape(block.shape) != 0.0
        slip = float(product_up(self.length, sum_up(0.0, *slips))) if self.length else 0.0
        return slip, moves if slip else None


class Multipliers:
    """Multipliers of rows and LMIs, with the equations ``(C + A*y + B*Y)_b = 0`` on the Free blocks.

    ``y`` holds the multipliers of the rows, then those of the LMIs; ``terms`` is the objective ``C``, if any.
    """

    def __init__(self, problem: FeasibilityProblem, y: FloatArray, terms: Point | None = None) -> None:
        self.problem, self.flat, self._terms = problem, y, terms
        self.rows, self.own = problem.split(y)
        self._free = [b for b, block in enumerate(problem.sets) if block.free]

    def enclose(self, b: int) -> Enclosed:
        """Return ``C + A*y + B*Y`` on one block, with a proven radius for every entry."""
        block, rows = self.problem.sets[b], self.problem.rows[b]
        parts: list[Enclosed] = []
        if not rows.empty and self.rows.any():
            parts.append(rows.enclose_adjoint(self.rows))
        for lmi, own in zip(self.problem.lmis, self.own, strict=True):
            coefficients = lmi.coefficients[b]
            if not coefficients.empty and own.any():
                value, error = coefficients.enclose_apply(own)
                parts.append((mirrored(value, block), mirrored(error, block)))
        if self._terms is not None and self._terms[b].any():
            parts.append((self._terms[b], np.zeros(block.shape)))
        total, radius = parts[0] if parts else (np.zeros(block.shape), np.zeros(block.shape))
        for value, error in parts[1:]:
            total = total + value
            radius = sum_radius(radius, error, total)
        return total, radius

    def touched_by_rows_alone(self, b: int) -> bool:
        """Whether neither LMIs nor the objective contribute to a block."""
        free_of_terms = self._terms is None or not self._terms[b].any()
        return free_of_terms and all(lmi.coefficients[b].empty for lmi in self.problem.lmis)

    @cached_property
    def _left(self) -> list[Enclosed]:
        return [self.enclose(b) for b in self._free]

    @cached_property
    def residual(self) -> FloatArray:
        """Upper bounds of the absolute values of ``C + A*y + B*Y`` on the free entries."""
        return np.concatenate([np.zeros(0), *(inflate(np.abs(g) + e, 4) for g, e in self._left)])

    @property
    def met(self) -> bool:
        """Whether these vanish up to a few times the rounding error."""
        return all(bool(np.all(np.abs(g) <= MET_RADII * e)) for g, e in self._left)

    @cached_property
    def _columns(self) -> Rows:
        """Coefficients of the rows on the free entries, one row per entry."""
        return _stacked([transposed(self.problem.rows[b]) for b in self._free])

    @cached_property
    def weight(self) -> FloatArray:
        """How far the multiplier of every row may move; zero if no Free block occurs in the row.

        A multiplier whose sign is restricted may move by its own size, so that a correction shorter than one
        keeps its sign; all others by the largest size, in units of their rows.
        """
        problem, size = self.problem, np.abs(self.rows)
        if not problem.m:
            return size
        touched = np.any(problem.block_norms[self._free] > 0.0, axis=0)
        signed = np.isinf(problem.lower) | np.isinf(problem.upper)
        unit = power_of_two(problem.norms)
        return np.where(touched, np.where(signed, size, float(np.max(size / unit)) * unit), 0.0)

    def _coefficients(self, lmi: LMI) -> Rows:
        """Coefficients of an LMI on all free entries, one row per entry."""
        return _stacked([lmi.coefficients[b] for b in self._free])

    def _movable(self, weights: list[float | FloatArray | None]) -> tuple[list[Movable], np.ndarray]:
        """Return the multipliers that may move, and the indices of the equations in which they occur.

        ``weights`` holds how far the multiplier of every LMI may move, as in :class:`Movable`; None if it is
        fixed.
        """
        touched = self.residual != 0.0  # or not a number
        found: list[tuple[int, Rows, float | FloatArray]] = []
        for j, (lmi, weight) in enumerate(zip(self.problem.lmis, weights, strict=True)):
            if weight is not None and np.any(weight):
                found.append((j, self._coefficients(lmi), weight))
        if self.weight.any():
            found.append((len(weights), self._columns, self.weight))
        for _, rows, _ in found:
            touched |= rows.norms_upper > 0.0
        index = np.flatnonzero(touched)
        return [Movable(j, rows.select(index), weight) for j, rows, weight in found], index

    def depths(self) -> list[float | FloatArray | None]:
        """Proven bounds of how far the multiplier of every LMI may move inside the dual cone; None if it is
        fixed.
        """
        return [
            norm_upper(own) or 1.0 if lmi.set.bounded else lmi.set.interior_radius(own, BOUND_SHARE)
            for lmi, own in zip(self.problem.lmis, self.own, strict=True)
        ]

    def systems(
        self, weights: list[float | FloatArray | None]
    ) -> Iterator[tuple[CorrectionSystem | MetricSystem, np.ndarray]]:
        """Yield correction systems with the indices of their equations: with the given weights of the LMIs,
        then in the local metric of the multipliers.
        """
        parts, index = self._movable(weights)
        if parts and affordable(parts, index.size):
            yield CorrectionSystem(parts, index.size), index
        proved = self.depths()
        sets = [lmi.set for lmi in self.problem.lmis]
        weights = [1.0 if w is None and kind.matrix else w for w, kind in zip(proved, sets, strict=True)]
        parts, index = self._movable(weights)
        found: list[Movable | CongruenceBlock] = []
        for part in parts:
            target = sets[part.block] if part.block < len(sets) else None
            if target is not None and target.matrix and target.cone:
                rooted = metric_block(part.block, target, self.own[part.block], part.rows)
                found += [] if rooted is None else [rooted]
            else:
                found.append(part)
        if index.size <= min(sum(part.size for part in found), MAX_DENSE_ROWS):
            yield MetricSystem(found, index.size), index

    def correction(self, tolerances: Tolerances) -> Correction | Outcome:
        """Bound a correction that makes ``C + A*y + B*Y`` vanish on the Free blocks; or say why there is
        none.
        """
        none = Correction({}, 0.0, np.zeros(self.problem.m))
        if not self.residual.any():
            return none
        missed = "A*y does not vanish on the free blocks"
        refused = refuse(f"{missed}, and no multiplier can be moved provably")
        best: Correction | None = None
        size = norm_upper(self.flat)
        try:
            for system, index in self.systems(self.depths()):
                if isinstance(system, CorrectionSystem) and system.out_of_reach(self.residual[index]):
                    return refuse(
                        "A*y does not vanish on the free blocks, by more than a correction can change"
                    )
                local = system.correction_upper(self.residual[index])
                near = self.met or all(
                    local * min(part.reach, size) <= tolerances.snap * size for part in system.parts
                )
                if not np.isfinite(local):
                    refused = refuse(f"{missed}, and their columns are not provably independent")
                elif not local < 1.0 or not near:
                    far = f"{local:.3g} of the distance to the boundary"
                    refused = refuse(f"{missed}: an exact certificate may be {far} away")
                elif best is None or local < best.length:
                    parts = {part.block: part for part in system.parts}
                    moved = self.weight if len(self.own) in parts else none.rows
                    best = Correction(parts, local, moved)
                if best is not None and best.length <= SHORT_CORRECTION:
                    break
        except LimitError:
            if best is None:
                raise
        return refused if best is None else best

    def corrected(self) -> Iterator[FloatArray]:
        """Yield multipliers with ``C + A*y + B*Y = 0`` on the Free blocks up to rounding: by weights of the
        size of every multiplier, then in their local metric, which needs multipliers inside the dual cones.
        """
        if not self.residual.any():
            return
        sizes: list[float | FloatArray | None] = []
        for lmi, own in zip(self.problem.lmis, self.own, strict=True):
            largest = float(np.max(np.abs(own)))
            whole = np.maximum(own, 1e-3 * largest) if lmi.set.entrywise else largest
            sizes.append(whole if largest > 0.0 else None)
        try:
            for system, index in self.systems(sizes):
                if isinstance(system, CorrectionSystem) and system.out_of_reach(self.residual[index]):
                    return
                if not system.usable:
                    continue
                evidence: Point = (*self.own, self.rows)
                for _ in range(2):
                    now = Multipliers(self.problem, _flat(evidence), self._terms)
                    off = np.concatenate([now.enclose(b)[0] for b in self._free])
                    evidence = system.correct(evidence, -off[index])
                moved = _flat(evidence)
                if np.isfinite(moved).all():
                    yield moved
                if (
                    not self.own
                    and isinstance(system, CorrectionSystem)
                    and system.solver.smallest_lower > 0.0
                ):
                    return  # the weights of rows are their local metric, which matters if they are dependent
        except LimitError:
            return  # corrections are optional


def _stacked(parts: list[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else Stacked(parts)


def _flat(evidence: Point) -> FloatArray:
    *own, rows = evidence
    return np.concatenate([rows, *chain(part.reshape(-1) for part in own)])
