"""Which rows and sets of an infeasible problem contradict each other, and how much each has a part in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem

__all__ = ["Conflict", "conflicts"]

#: A set has no part in a contradiction if the weighted rows cancel on it to this share of their size.
CANCELLED = 1e-9


@dataclass(frozen=True)
class Conflict:
    """One row, or one set, of an infeasible problem with its part in the contradiction.

    Attributes
    ----------
    row : int or None
        Index of the row; None for a set.
    name : str
        Its name.
    multiplier : float or ndarray
        Its entry of the certificate; of a set the weighted rows on its block with their sign turned: what
        has no negative inner product with a member of a cone.
    weight : float
        Share of the certificate, each multiplier times the norm of its row; all shares add up to one.
    side : str
        ``"lower"`` or ``"upper"``: the bound that takes part; ``"set"`` for a set.
    block : int or None
        Index of the block, for a set.
    """

    row: int | None
    name: str
    multiplier: float | FloatArray
    weight: float
    side: str
    block: int | None = None

    def described(self, problem: FeasibilityProblem) -> str:
        """Say what the row or the set asks for."""
        if self.block is not None:
            return f"in {problem.sets[self.block].described()}"
        assert self.row is not None
        if problem.equality[self.row]:
            return f"= {problem.lower[self.row]:g}"
        if self.side == "lower":
            return f">= {problem.lower[self.row]:g}"
        return f"<= {problem.upper[self.row]:g}"


def conflicts(problem: FeasibilityProblem, y: FloatArray, *, sets: bool = False) -> list[Conflict]:
    """Rows with a multiplier, and sets if they are asked for, heaviest first.

    Parameters
    ----------
    problem : FeasibilityProblem
        An infeasible problem.
    y : ndarray
        Its certificate.
    sets : bool
        Whether sets are listed too. They say what the rows contradict when they do not contradict each
        other: ``tr X <= -1`` and ``X in PSD(3)``.
    """
    # Relative to the largest, so that nothing overflows.
    unit = y / (float(np.max(np.abs(y), initial=0.0)) or 1.0)
    norms = np.maximum(problem.norms, np.finfo(float).tiny)
    top = float(np.max(norms, initial=0.0)) or 1.0
    weights = np.abs(unit) * (norms / top)
    found = [
        Conflict(
            row=int(i),
            name=problem.row_name(int(i)),
            multiplier=float(y[i]),
            weight=float(weights[i]),
            side="lower" if y[i] > 0 else "upper",
        )
        for i in np.flatnonzero(y)
    ]
    if sets:
        found += _sets(problem, unit, y, top)
    total = max(sum(each.weight for each in found), np.finfo(float).tiny)
    found = [replace(each, weight=each.weight / total) for each in found]
    return sorted(found, key=lambda each: -each.weight)


def _sets(problem: FeasibilityProblem, unit: FloatArray, y: FloatArray, top: float) -> list[Conflict]:
    """The sets on which the weighted rows do not cancel; on a Free block they always do."""
    with np.errstate(all="ignore"):
        combined, scale = problem.adjoint(unit), float(np.max(np.abs(y), initial=0.0))
        found = []
        for b, (block, part) in enumerate(zip(problem.sets, combined, strict=True)):
            size = float(np.linalg.norm(part / top))
            terms = float(np.abs(unit) @ (problem.block_norms[b] / top))
            if not block.free and size > CANCELLED * terms:
                found.append(Conflict(None, problem.block_name(b), -scale * part, size, "set", b))
    return found
