"""Whether evidence is good enough to offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from sdpfeas.backends.admm.splitting import Splitting
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point

__all__ = ["Judge", "looks_inside", "looks_strict", "term_sizes"]

Evidence = TypeVar("Evidence")

#: How often a proof may be refused before a numeric check is enough.
PATIENCE = 4


class Judge(Generic[Evidence]):
    """Decides what of the evidence to offer.

    That is what looks promising, and ever more rarely where it was refused. On small problems what does not
    look so is offered at every power of two as well, for a repair may help; and in the end a numeric verdict
    is enough.
    """

    def __init__(
        self, looks: Callable[[Evidence], bool], offer: Callable[[Evidence, bool], bool], small: bool
    ) -> None:
        self._looks, self._offer, self._small = looks, offer, small
        self._refusals = self._skip = 0

    def accept(self, evidence: Evidence, run: Splitting) -> bool:
        """Offer the evidence if it is worth it; True if it settles the inquiry."""
        if self._looks(evidence) and self._holds(evidence, run.settled):
            return True
        now = run.screens >= 4 and run.screens & (run.screens - 1) == 0
        return self._small and now and self._offer(evidence, False)

    def _holds(self, evidence: Evidence, last: bool) -> bool:
        if self._skip and not last:
            self._skip -= 1
            return False
        if self._offer(evidence, last or self._refusals + 1 >= PATIENCE):
            return True
        self._refusals += 1
        self._skip = 2 ** min(self._refusals, 6)
        return False


def looks_inside(problem: FeasibilityProblem, point: Point) -> bool:
    """Whether a point meets the inequality rows and lies where corrections of equations are allowed."""
    value = problem.apply(point)
    within = (value >= problem.lower) & (value <= problem.upper)
    if not np.all(within | problem.equality):
        return False
    corrected = bool(problem.equality.any())
    return all(
        block.depth(x) > 0.0
        for block, x in zip(problem.sets, point, strict=True)
        if corrected and not block.free
    )


def looks_strict(problem: FeasibilityProblem, y: FloatArray) -> bool:
    """Whether the two sides of a certificate differ in the right direction."""
    gap = float(np.sum(problem.beta_terms(y)))
    for block, rows in zip(problem.sets, problem.rows, strict=True):
        if rows is None or block.free:
            continue
        gap -= block.support(rows.adjoint(y))
    return gap > 0.0


def term_sizes(problem: FeasibilityProblem, point: Point) -> FloatArray:
    """Size of what the blocks add to every row."""
    total = np.zeros(problem.m)
    for rows, x in zip(problem.rows, point, strict=True):
        if rows is not None:
            total += np.abs(rows.apply(x))
    return total
