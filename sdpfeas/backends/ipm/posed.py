"""Feasibility questions as one of the two programs of a standard pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.ipm.pair import ConeRows, StandardPair, standard_pair
from sdpfeas.backends.ipm.self_dual import SelfDual
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.scaling import power_of_two
from sdpfeas.problem.rows.flat import matrix_of

__all__ = ["Posed", "PosedRows", "scaled_rows"]


class Posed(ABC):
    """A problem posed as one program of a standard pair, and how its iterates are read.

    Attributes
    ----------
    pair : StandardPair
        The pair.
    """

    pair: StandardPair

    @abstractmethod
    def near_point(self, core: SelfDual) -> Point | None:
        """A point near the iterate that meets all equations and is deep inside; None if there is none."""

    @abstractmethod
    def near_certificate(self, core: SelfDual) -> FloatArray | None:
        """Multipliers near the iterate that are deep inside and gain something; None if there are none."""

    @abstractmethod
    def optimal(self, core: SelfDual) -> tuple[Point, FloatArray]:
        """Point and multipliers of the objective, with equations that hold where that can be."""

    @abstractmethod
    def present(self, core: SelfDual) -> tuple[Point, FloatArray]:
        """The present point and multipliers, as they are."""


class PosedRows(Posed):
    """Rows as equations ``A x + B u = b``: points are x and u, certificates y.

    Rows that are no equations get a non-negative slack, and a second one with a row of its own if both bounds
    are finite.

    Parameters
    ----------
    problem : FeasibilityProblem
        PSD, SecondOrder, Nonneg and Free blocks; no row may be zero or without bounds.
    objective : tuple of ndarray, optional
        What to maximise, one array per block.
    """

    def __init__(self, problem: FeasibilityProblem, objective: Point | None = None) -> None:
        self.problem = problem
        entries = sum(rows.entries for rows in problem.rows if rows is not None)
        need("the rows in standard form", numbers=40.0 * entries, memory=120.0 * entries)
        m = problem.m
        ranged = np.flatnonzero(~problem.equality & np.isfinite(problem.lower) & np.isfinite(problem.upper))
        total = m + ranged.size
        parts = [None if rows is None else _taller(matrix_of(rows), total) for rows in problem.rows]
        self._factors = power_of_two(np.append(problem.norms, np.ones(ranged.size)))
        cones, self._blocks, free, self._free = [], [], [], []
        for b, (block, part) in enumerate(zip(problem.sets, parts, strict=True)):
            own = sp.csr_array((total, block.entries)) if part is None else scaled_rows(self._factors, part)
            if block.free:
                self._free.append(b)
                free.append(own)
            else:
                self._blocks.append(b)
                cost = None if objective is None else -objective[b].reshape(-1)
                cones.append(ConeRows.on(block, own, cost))
        cones.append(ConeRows(0, scaled_rows(self._factors, _slacks(problem, ranged))))
        right = np.concatenate(
            [
                np.where(np.isfinite(problem.lower), problem.lower, problem.upper),
                (problem.upper - problem.lower)[ranged],
            ]
        )
        columns = sp.hstack(free, format="csr") if free else None
        f = None if objective is None or not free else -np.concatenate([objective[b] for b in self._free])
        self.pair = standard_pair(cones, right * self._factors, columns, f)

    def near_point(self, core: SelfDual) -> Point | None:
        """Correct x and u."""
        found = core.corrected_primal(core.tau)
        return None if found is None else self._point(found[0], found[1], core.tau)

    def near_certificate(self, core: SelfDual) -> FloatArray | None:
        """Correct y."""
        if not core.dual_value > 0.0:
            return None
        found = core.corrected_dual(0.0)
        return self._multipliers(found[0]) if found is not None and core.pair.b @ found[0] > 0.0 else None

    def optimal(self, core: SelfDual) -> tuple[Point, FloatArray]:
        """Correct x and u, and y."""
        x, u = core.corrected_primal(core.tau) or (core.x, core.u)
        y, _ = core.corrected_dual(core.tau) or (core.y, core.z)
        return self._point(x, u, core.tau), self._multipliers(y) / core.tau

    def present(self, core: SelfDual) -> tuple[Point, FloatArray]:
        """``x / tau`` and y."""
        return self._point(core.x, core.u, core.tau), self._multipliers(core.y)

    def _point(self, x: FloatArray, u: FloatArray, tau: float) -> Point:
        out: list[FloatArray] = [np.zeros(0)] * len(self.problem.sets)
        for b, place in zip(self._blocks, self.pair.places, strict=False):
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
    open_rows = np.flatnonzero(~problem.equality)
    below = np.isfinite(problem.lower[open_rows])
    k, e = np.arange(open_rows.size), np.arange(ranged.size)
    row = np.concatenate([open_rows, problem.m + e, problem.m + e])
    column = np.concatenate([k, np.searchsorted(open_rows, ranged), open_rows.size + e])
    value = np.concatenate([np.where(below, -1.0, 1.0), np.ones(2 * ranged.size)])
    shape = (problem.m + ranged.size, open_rows.size + ranged.size)
    return sp.csr_array((value, (row, column)), shape=shape)
