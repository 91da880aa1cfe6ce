"""Row values and weighted sums by the routes with the small error bounds.

``apply`` and ``adjoint`` of some storage kinds are fast but may cancel on the way; where a claim is judged,
accuracy comes first.
"""

from __future__ import annotations

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Combined, Rows, Stacked

__all__ = ["stable_adjoint", "stable_apply", "stable_values"]


def stable_apply(rows: Rows, x: FloatArray) -> FloatArray:
    """Inner products with every row of one block."""
    if isinstance(rows, Stacked):
        return np.concatenate([stable_apply(part, x) for part in rows.parts])
    if isinstance(rows, Combined):
        return np.asarray(rows.coefficients @ stable_apply(rows.base, x))
    return rows._stable_apply(x)


def stable_adjoint(rows: Rows, y: FloatArray) -> FloatArray:
    """Weighted sum of the rows of one block."""
    if isinstance(rows, Stacked):
        edges = np.cumsum([part.m for part in rows.parts])[:-1]
        parts = zip(rows.parts, np.split(y, edges), strict=True)
        return np.asarray(sum(stable_adjoint(part, weights) for part, weights in parts))
    if isinstance(rows, Combined):
        return stable_adjoint(rows.base, np.asarray(rows.coefficients.T @ y))
    return rows._stable_adjoint(y)


def stable_values(problem: FeasibilityProblem, point: Point) -> FloatArray:
    """Row values of a point."""
    total = np.zeros(problem.m)
    for rows, x in zip(problem.rows, point, strict=True):
        if rows is not None:
            total += stable_apply(rows, x)
    return total
