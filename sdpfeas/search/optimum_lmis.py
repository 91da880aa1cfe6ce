"""Levels of an objective over LMIs in free variables alone, with proofs that take no slacks.

A point is proved by the LMIs themselves. Multipliers are a point of the dual program: an exact Y in the cones
with ``<F_i, Y> = -c_i`` shows ``c'x = <Y, F(0)> - <Y, F(x)> <= <Y, F(0)>`` for every x that meets the LMIs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.families.level_set import LevelSet
from sdpfeas.families.proofs import Bound
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.redundancy import Independent
from sdpfeas.problem.rows import Sparse, Stacked
from sdpfeas.verifier.rigorous import prove_point
from sdpfeas.verifier.tolerances import Tolerances

__all__ = ["LmiLevels", "are_lmis_alone"]

#: How far below the value of a point, relative to its terms, a level is that it is proved to reach.
PUSHES = (1e-14, 1e-12, 1e-9)


def are_lmis_alone(problem: FeasibilityProblem) -> bool:
    """Whether a problem is made of LMIs into cones, in free variables, and of nothing else."""
    cones = all(block.free for block in problem.sets) and all(lmi.set.cone for lmi in problem.lmis)
    return bool(problem.lmis) and not problem.m and cones


class LmiLevels(LevelSet):
    """Levels of ``c'x`` over the points of LMIs; the family itself is about their slack form.

    Parameters
    ----------
    problem : FeasibilityProblem
        Free blocks and LMIs into cones.
    terms : tuple of ndarray
        What is maximised, one array per block.
    independent : callable
        Leaves out rows that follow from others: without a unique solution the dual has some.

    Attributes
    ----------
    dual : FeasibilityProblem
        The dual: the multipliers of the LMIs as variables, one row for every unknown but those that others
        make up for.
    dual_terms : tuple of ndarray
        What it maximises.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        terms: Point,
        independent: Callable[[FeasibilityProblem], Independent],
    ) -> None:
        self._lmis, self._terms, self._slacks = problem, terms, problem.slack_form
        inner = self._slacks.problem
        goal: list[Any] = [sp.csr_array(c.reshape(1, -1)) if c.any() else None for c in terms]
        goal += [None] * (len(inner.sets) - len(goal))
        super().__init__(inner.sets, goal, inner.rows, inner.lower, inner.upper)
        right = -np.concatenate(terms)
        whole = FeasibilityProblem([lmi.set for lmi in problem.lmis], _columns(problem), right, right)
        self._fewer = independent(whole)
        self.dual = self._fewer.problem
        self.dual_terms = tuple(-lmi.constant for lmi in problem.lmis)
        values = [sp.csr_array(c.reshape(1, -1)) if c.any() else None for c in self.dual_terms]
        self._dual_levels = LevelSet(self.dual.sets, values, self.dual.rows, self.dual.lower, self.dual.upper)
        self._cuts = np.cumsum([block.n for block in problem.sets])[:-1]

    def evidence(self, point: Point | None, y: FloatArray | None) -> tuple[Point | None, FloatArray | None]:
        """Make a point and multipliers of the family of those of the dual program."""
        x = None if y is None else tuple(np.split(-self._fewer.multipliers(y), self._cuts))
        placed = None if x is None else self._slacks.start_point(x)
        if point is None:
            return placed, None
        flat = self._slacks.start_multipliers(np.concatenate([part.reshape(-1) for part in point]))
        return placed, self.program_multipliers(flat)

    def prove_lower(self, point: Any, above: float = -math.inf) -> Bound | None:
        """As for every family, by the LMIs themselves."""
        x = self._slacks.point(tuple(point))
        with np.errstate(all="ignore"):
            parts = [c * part for c, part in zip(self._terms, x, strict=True)]
            value = float(sum(np.sum(part) for part in parts))
            size = float(sum(np.sum(np.abs(part)) for part in parts))
        if not math.isfinite(size):
            return None
        if value <= above:
            return Bound(-math.inf, tuple(point))
        with np.errstate(all="ignore"):
            goal = [sp.csr_array(c.reshape(1, -1)) if c.any() else None for c in self._terms]
            for push in PUSHES:
                level = value - push * size
                asked = FeasibilityProblem(self._lmis.sets, goal, [level], [np.inf], lmis=self._lmis.lmis)
                if prove_point(asked, asked.point(x), Tolerances()).proven:
                    return Bound(level, tuple(point))
        return None

    def prove_upper(
        self, y: Any, near: float | None = None, push: float = 0.0, below: float = math.inf
    ) -> Bound | None:
        """As for every family, next to a point of the dual program."""
        z = np.asarray(y, dtype=np.float64)
        if not (np.isfinite(z).all() and z[0] > 0.0):
            return None
        flat = self._slacks.multipliers(z[1:]) / z[0]
        shapes = [block.shape for block in self.dual.sets]
        parts = np.split(flat, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        matrices = tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
        bound = self._dual_levels.prove_lower(matrices, -below)
        return None if bound is None else Bound(-bound.delta, z)


def _columns(problem: FeasibilityProblem) -> list[Any]:
    """For every LMI its coefficients, one row for every unknown."""
    out = []
    for lmi in problem.lmis:
        parts = [
            Sparse(sp.csr_array((block.n, lmi.set.entries)), lmi.set.n, lmi.set.matrix)
            if part is None
            else part
            for part, block in zip(lmi.coefficients, problem.sets, strict=True)
        ]
        out.append(parts[0] if len(parts) == 1 else Stacked(parts))
    return out
