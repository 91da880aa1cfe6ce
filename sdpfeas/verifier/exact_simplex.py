"""Tiny problems that are polyhedra: optimal vertices and Farkas certificates in rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.rational import eye, number, to_floats, to_fractions, to_rationals, zeros
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.verifier.exact import ExactRows, exact_rows, small_enough

# ------------------------------------------------------------
# The simplex method in rational arithmetic, for tiny linear programs.
#
# ``maximise`` solves ``max c'x`` over ``A x <= b`` with free x through its dual, ``min b'y`` over ``A'y =
# c``, ``y >= 0``, by the two-phase tableau method (Dantzig, "Linear programming and extensions", 1963) with
# Bland's rule after a while, which cannot cycle.

#: Floating-point numbers that can be written in the time of one rational operation.
NUMBERS = 2000.0

#: Pivots with the steepest entering column, per row and column; after that Bland's rule.
STEEPEST = 2


@dataclass(frozen=True)
class Simplex:
    """What the simplex method ends with; every array is checked by whoever relies on it.

    ``x``: an optimal vertex, where there is one. ``y``: dual multipliers ``y >= 0`` with ``A'y = c`` where
    ``x`` is optimal; a Farkas certificate, ``A'y = 0`` and ``b'y < 0``, where there is no point. ``ray``: a
    direction with ``A d <= 0`` and ``c'd > 0``, where no multipliers bound the objective.
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


#: Cells of the tableau, at the most: about a second of pivots.
MOST_CELLS = 20_000


@dataclass(frozen=True)
class Vertex:
    """The exact solution of a linear program over the points of a problem.

    ``value``: the maximum; that of some point where the objective is unbounded; None where there is no
    point. ``point``: the point that attains it, rounded to doubles. ``multipliers``: multipliers that prove
    the value, or a Farkas certificate, rounded to doubles. ``unbounded``: whether a direction of the
    polyhedron raises the objective for ever.
    """

    value: Fraction | None
    point: Point | None
    multipliers: np.ndarray | None
    unbounded: bool = False


def is_tiny_polyhedron(problem: FeasibilityProblem) -> bool:
    """Whether linear inequalities describe a problem, few enough for the exact simplex method."""
    sets = (*problem.sets, *(lmi.set for lmi in problem.lmis))
    if not all(block.polyhedral for block in sets) or not small_enough(problem):
        return False
    n = sum(block.entries for block in problem.sets)
    return n * (n + 2 * (problem.m + sum(block.entries for block in sets))) <= MOST_CELLS


def exact_vertex(problem: FeasibilityProblem, objective: Point | None = None) -> Vertex:
    """Maximise an objective, or none, over a tiny polyhedron; what is returned was checked exactly."""
    rows = exact_rows(problem)
    width = rows.matrix.shape[1]
    goal = zeros((width,))
    if objective is not None:
        goal = to_rationals(np.concatenate([part.reshape(-1) for part in objective]))
    listed = list(_inequalities(rows))
    matrix = np.array([line for line, _, _, _ in listed] or zeros((0, width)), dtype=object)
    matrix, right = matrix.reshape(-1, width), np.array([bound for _, bound, _, _ in listed], dtype=object)
    asked, found = goal, maximise(matrix, right, goal)
    unbounded = found.ray is not None and goal.dot(found.ray) > 0
    if found.ray is not None:
        unbounded = unbounded and all(v <= 0 for v in matrix.dot(found.ray))
        asked = zeros((width,))
        found = maximise(matrix, right, asked)
    if not holds(matrix, right, asked, found):
        return Vertex(None, None, None)
    assert found.y is not None
    y = zeros((problem.multiplier_count,))
    for weight, (_, _, place, sign) in zip(found.y, listed, strict=True):
        if place is not None:
            y[place] -= sign * weight
    if found.x is None:
        return Vertex(None, None, to_floats(y / max(abs(v) for v in found.y)))
    point = tuple(to_floats(part) for part in rows.blocks(found.x))
    value: Fraction = to_fractions(np.array([goal.dot(found.x)], dtype=object))[0]
    return Vertex(value, point, None if unbounded else to_floats(y), unbounded)


def _inequalities(rows: ExactRows) -> Iterator[tuple[np.ndarray, Any, int | None, int]]:
    """Every ``sign·(a'x) <= sign·bound``, with the place of its multiplier; sets have none."""
    problem = rows.problem
    for i in range(problem.m):
        yield from _sided(rows, rows.matrix[i], problem.lower[i], problem.upper[i], i)
    unit = zeros((rows.matrix.shape[1],))
    for block, places in zip(problem.sets, rows.blocks(np.arange(unit.size)), strict=True):
        for k in places.reshape(-1).tolist():
            line = np.array(unit)
            line[k] = number(1)
            yield from _sided(rows, line, block.lower, block.upper, None)
        if block.trace is not None:
            line = np.array(unit)
            line[places.reshape(-1)] = number(1)
            yield from _sided(rows, line, block.trace, block.trace, None)
    start = problem.m
    for lmi in rows.lmis:
        for k in range(lmi.set.entries):
            shift = -lmi.constant[k]
            yield from _sided(rows, lmi.matrix[:, k], lmi.set.lower, lmi.set.upper, start + k, shift)
        start += lmi.set.entries


def _sided(
    rows: ExactRows, line: np.ndarray, lower: float, upper: float, place: int | None, shift: Any = None
) -> Iterator[tuple[np.ndarray, Any, int | None, int]]:
    for sign, bound in ((-1, lower), (1, upper)):
        if math.isfinite(bound):
            right = rows.number(bound) if shift is None else rows.number(bound) + shift
            yield sign * line, sign * right, place, sign
