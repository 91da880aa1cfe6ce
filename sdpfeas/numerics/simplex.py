"""The simplex method in rational arithmetic, for tiny linear programs.

``maximise`` solves ``max c'x`` over ``A x <= b`` with free x through its dual, ``min b'y`` over ``A'y = c``,
``y >= 0``, by the two-phase tableau method (Dantzig, "Linear programming and extensions", 1963) with Bland's
rule after a while, which cannot cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpfeas.numerics.effort import need
from sdpfeas.numerics.rational import eye, number, zeros

__all__ = ["Simplex", "holds", "maximise"]

#: Floating-point numbers that can be written in the time of one rational operation.
NUMBERS = 2000.0

#: Pivots with the steepest entering column, per row and column; after that Bland's rule.
STEEPEST = 2


@dataclass(frozen=True)
class Simplex:
    """What the simplex method ends with; every array is checked by whoever relies on it.

    Attributes
    ----------
    x : ndarray or None
        An optimal vertex, where there is one.
    y : ndarray or None
        Dual multipliers ``y >= 0`` with ``A'y = c`` where ``x`` is optimal; a Farkas certificate, ``A'y = 0``
        and ``b'y < 0``, where there is no point.
    ray : ndarray or None
        A direction with ``A d <= 0`` and ``c'd > 0``, where no multipliers bound the objective.
    """

    x: np.ndarray | None = None
    y: np.ndarray | None = None
    ray: np.ndarray | None = None


def maximise(matrix: np.ndarray, right: np.ndarray, objective: np.ndarray) -> Simplex:
    """Maximise ``objective'x`` over ``matrix @ x <= right``; all arrays hold rationals."""
    count, n = matrix.shape
    signs = np.array([-1 if c < 0 else 1 for c in objective], dtype=object)
    table = np.concatenate([signs[:, None] * matrix.T, eye(n), (signs * objective)[:, None]], axis=1)
    basis = list(range(count, count + n))
    # Costs of phase one, the sum of the artificial variables, and of phase two.
    costs = np.stack([zeros((count + n + 1,)), np.concatenate([right, zeros((n + 1,))])])
    costs[0, count:-1] += 1
    costs[0] -= table.sum(axis=0)
    _run(table, costs, basis, 0, count)
    if costs[0, -1] != 0:
        return Simplex(ray=signs * (1 - costs[0, count:-1]))
    # Artificial variables that are left are zero; those that cannot leave belong to dependent equations.
    for row in range(n):
        if basis[row] >= count:
            column = next((j for j in range(count) if table[row, j] != 0), None)
            if column is not None:
                _pivot(table, costs, basis, row, column)
    entering = _run(table, costs, basis, 1, count)
    y = zeros((count,))
    if entering is not None:
        y[entering] = number(1)
        for row, column in enumerate(basis):
            if column < count:
                y[column] = -table[row, entering]
        return Simplex(y=y)
    for row, column in enumerate(basis):
        if column < count:
            y[column] = table[row, -1]
    return Simplex(x=-signs * costs[1, count:-1], y=y)


def _run(table: np.ndarray, costs: np.ndarray, basis: list[int], phase: int, count: int) -> int | None:
    """Pivot until no reduced cost is negative; return a column along which the costs fall for ever."""
    steps = 0
    while True:
        negative = [j for j in range(count) if costs[phase, j] < 0]
        if not negative:
            return None
        steepest = steps < STEEPEST * sum(table.shape)
        entering = min(negative, key=lambda j: costs[phase, j]) if steepest else negative[0]
        rows = [r for r in range(len(basis)) if table[r, entering] > 0]
        if not rows:
            return entering
        leaving = min(rows, key=lambda r: (table[r, -1] / table[r, entering], basis[r]))
        _pivot(table, costs, basis, leaving, entering)
        steps += 1


def _pivot(table: np.ndarray, costs: np.ndarray, basis: list[int], row: int, column: int) -> None:
    need("a vertex in rational arithmetic", numbers=NUMBERS * table.size)
    table[row] = table[row] / table[row, column]
    for other in [*(table[r] for r in range(len(table)) if r != row), *costs]:
        if other[column] != 0:
            other[:] = other - other[column] * table[row]
    basis[row] = column


def holds(matrix: np.ndarray, right: np.ndarray, objective: np.ndarray, found: Simplex) -> bool:
    """Check a result by its definition: vertex and multipliers of one value, or a Farkas certificate."""
    x, y = found.x, found.y
    if y is None or any(v < 0 for v in y):
        return False
    if x is None:
        return not any(v != 0 for v in matrix.T.dot(y)) and right.dot(y) < 0
    held = all(a <= b for a, b in zip(matrix.dot(x), right, strict=True))
    fits = all(a == b for a, b in zip(matrix.T.dot(y), objective, strict=True))
    return held and fits and objective.dot(x) == right.dot(y)
