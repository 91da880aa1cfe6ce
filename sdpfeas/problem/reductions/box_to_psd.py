"""Replace every SpectralBox by two PSD blocks and equality rows (lifting).

``lower·I <= Z <= upper·I``, ``tr Z = r`` → ``P, Q in PSD(n)``, ``P + Q = (upper - lower)·I``, ``tr P = r -
n·lower``, with ``Z = P + lower·I``: n(n+1)/2 equality rows, and one for the trace. Multipliers: those of the
original rows. Used for solvers without a spectral set; :func:`lift` is the entry point.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray, eigh, spectral_matrix, triangle_map
from sdpfeas.numerics.rounding import UNIT, symmetric_norm_upper
from sdpfeas.problem.lmi import require_no_lmis
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.rows import NoRows, Rows, Sparse, Stacked
from sdpfeas.problem.sets import PSD, BlockSet
from sdpfeas.problem.sets.spectral_box import nearest_between

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem, Point

#: Shift of a lifted certificate into the interior of its cones, in multiples of the rounding error bound.
INTERIOR_SHIFT_ERRORS = 32.0


@dataclass(frozen=True)
class BoxToPsd(Reduction):
    """A problem without SpectralBox blocks; see the module for the formula."""

    #: For every box: its index in the original, and its first added row.
    _boxes: tuple[tuple[int, int], ...]

    def start_point(self, point: Point) -> Point:
        """Return ``P = Z - lower·I`` and ``Q = upper·I - Z`` for every box."""
        out: list[FloatArray] = []
        for block, x in zip(self.original.sets, self.original.point(point), strict=True):
            parts = [sign * x + shift * block.identity() for sign, shift in block.slacks]
            out += parts if block.bounded else [x]
        return tuple(out)

    def point(self, point: Point) -> Point:
        """Return ``Z = P + lower·I`` for every box."""
        parts, out = iter(self.problem.point(point)), []
        for block in self.original.sets:
            x = next(parts)
            if block.bounded:
                x = x + block.lower * block.identity()
                next(parts)  # Q
            out.append(x)
        return tuple(out)

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Compute optimal multipliers of the added rows.

        With ``G = A*y`` and ``theta`` the threshold eigenvalue of the support function, these are ``-(G -
        theta·I)_+`` for the entries and ``-theta`` for the trace. They put ``A*y`` on the boundary of the
        cones; a shift of ``INTERIOR_SHIFT_ERRORS`` times the rounding error moves it to the interior.
        """
        y = self.original.multipliers(y)
        out = np.zeros(self.problem.m)
        out[: self.original.m] = y
        for b, start in self._boxes:
            box, rows = self.original.sets[b], self.original.rows[b]
            if rows.empty:
                continue
            gradient, error = rows.enclose_adjoint(y)
            i, j = np.triu_indices(box.n)
            if not (np.isfinite(gradient).all() and np.isfinite(error).all()):
                out[start : start + i.size] = np.nan
                continue
            lam, vec = eigh(gradient)
            theta = box.threshold(lam)
            if box.trace is not None:
                out[start + i.size] = -theta
            size = box.n * (float(np.max(np.abs(lam))) + abs(theta))
            inwards = INTERIOR_SHIFT_ERRORS * (UNIT * size + symmetric_norm_upper(error))
            excess = -spectral_matrix(vec, np.maximum(lam - theta, 0.0) + inwards)
            # The row of an off-diagonal entry has the coefficient 1/2 at both mirrored entries.
            out[start : start + i.size] = np.where(i == j, 1.0, 2.0) * excess[i, j]
        return out

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Return the multipliers of the original rows."""
        return self.problem.multipliers(y)[: self.original.m].copy()


def lift(problem: FeasibilityProblem) -> BoxToPsd:
    """Replace every SpectralBox by PSD blocks and equality rows; without boxes, return the problem itself."""
    require_no_lmis(problem, "lifting")
    boxes = [(b, s) for b, s in enumerate(problem.sets) if s.bounded]
    if not boxes:
        return BoxToPsd(problem, problem, ())
    added = {b: s.n * (s.n + 1) // 2 + (s.trace is not None) for b, s in boxes}
    total = problem.m + sum(added.values())
    shift = np.zeros(problem.m)
    low_extra: list[FloatArray] = []
    sets: list[BlockSet] = []
    rows: list[Rows] = []
    where: list[tuple[int, int]] = []
    start = problem.m
    for b, block, old in problem.blocks():
        if not block.bounded:
            sets.append(block)
            rows.append(padded_rows(old, block, problem.m, total))
            continue
        if not old.empty and block.lower != 0.0:
            shift += block.lower * old.apply(np.eye(block.n))
        entries = triangle_map(block.n, 0.5).T
        with_trace = entries
        if block.trace is not None:
            with_trace = sp.vstack([entries, sp.csr_array(np.eye(block.n).reshape(1, -1))])
        untouched = NoRows(problem.m, block.n, True)
        for original, own in ((old, with_trace), (untouched, entries)):
            sets.append(PSD(block.n))
            rows.append(padded_rows(original, block, problem.m, total, start, own))
        where.append((b, start))
        i, j = np.triu_indices(block.n)
        low_extra.append(np.where(i == j, block.upper - block.lower, 0.0))
        if block.trace is not None:
            low_extra.append(np.array([_lifted_trace(block)]))
        start += added[b]
    extra = np.concatenate(low_extra)
    lifted = type(problem)(
        sets,
        rows,
        np.concatenate([problem.lower - shift, extra]),
        np.concatenate([problem.upper - shift, extra]),
    )
    return BoxToPsd(problem, lifted, tuple(where))


def _lifted_trace(box: BlockSet) -> float:
    """Return the trace of ``P = Z - lower·I``, clipped to the range that the rounded width permits."""
    assert box.trace is not None
    width = box.n * Fraction(box.upper - box.lower)
    return nearest_between(Fraction(box.trace) - box.n * Fraction(box.lower), Fraction(0), width)


def padded_rows(
    old: Rows,
    block: BlockSet,
    m: int,
    total: int,
    start: int = 0,
    own: Any = None,
) -> Rows:
    """Return the ``m`` old rows, padded by zeros to ``total``, with the rows ``own`` from ``start`` on."""
    width = block.entries
    if old.empty and own is None:
        return NoRows(total, block.n, block.matrix)
    tail = sp.csr_array((total - m, width))
    if own is not None:
        before = sp.csr_array((start - m, width))
        after = sp.csr_array((total - start - own.shape[0], width))
        tail = sp.vstack([before, own, after])
    if m == 0:
        return Sparse(tail, block.n, block.matrix)
    return Stacked([old, Sparse(tail, block.n, block.matrix)])
