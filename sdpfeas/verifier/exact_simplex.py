"""Exact linear programming: optimal vertices and Farkas certificates of tiny polyhedra, in rational
arithmetic.

:func:`exact_vertex` is the entry point; :func:`maximise` is the two-phase tableau simplex method (Dantzig,
"Linear programming and extensions", 1963), applied to the dual, with Bland's rule after a number of pivots to
exclude cycling.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.numerics.exact_arithmetic import eye, number, to_floats, to_fractions, to_rationals, zeros
from sdpfeas.numerics.limits import check_deadline
from sdpfeas.problem.exact_rows import ExactRows, exact_rows
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.verifier.exact import small_enough

#: Pivots by Dantzig's rule (most negative reduced cost) per row and column of the tableau; then Bland's rule.
DANTZIG_PIVOTS = 2


@dataclass(frozen=True)
class Simplex:
    """The outcome of the simplex method; :func:`holds` checks it.

    ``x`` is an optimal vertex if there is one. ``y`` holds dual multipliers ``y >= 0`` with ``A'y = c`` if
    ``x`` is optimal, or a Farkas certificate ``A'y = 0``, ``b'y < 0`` if there is no feasible point. ``ray``
    is a direction with ``A d <= 0`` and ``c'd > 0`` if the dual is infeasible.
    """

    x: np.ndarray | None = None
    y: np.ndarray | None = None
    ray: np.ndarray | None = None


def maximise(matrix: np.ndarray, right: np.ndarray, objective: np.ndarray) -> Simplex:
    """Maximise ``c'x`` over ``A x <= b`` with free ``x``, through its dual ``min b'y``, ``A'y = c``, ``y >=
    0``; all rational.
    """
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
    # Remaining artificial variables are zero; those that cannot leave belong to dependent equations.
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
    """Pivot until no reduced cost is negative; return the entering column if the dual is unbounded."""
    steps = 0
    while True:
        negative = [j for j in range(count) if costs[phase, j] < 0]
        if not negative:
            return None
        steepest = steps < DANTZIG_PIVOTS * sum(table.shape)
        entering = min(negative, key=lambda j: costs[phase, j]) if steepest else negative[0]
        rows = [r for r in range(len(basis)) if table[r, entering] > 0]
        if not rows:
            return entering
        leaving = min(rows, key=lambda r: (table[r, -1] / table[r, entering], basis[r]))
        _pivot(table, costs, basis, leaving, entering)
        steps += 1


def _pivot(table: np.ndarray, costs: np.ndarray, basis: list[int], row: int, column: int) -> None:
    """Exchange a basic and a nonbasic variable in the tableau."""
    check_deadline("a vertex in rational arithmetic")
    table[row] = table[row] / table[row, column]
    for other in [*(table[r] for r in range(len(table)) if r != row), *costs]:
        if other[column] != 0:
            other[:] = other - other[column] * table[row]
    basis[row] = column


def holds(matrix: np.ndarray, right: np.ndarray, objective: np.ndarray, found: Simplex) -> bool:
    """Check an outcome exactly: primal and dual feasibility with equal objective values, or a Farkas
    certificate.
    """
    x, y = found.x, found.y
    if y is None or any(v < 0 for v in y):
        return False
    if x is None:
        return not any(v != 0 for v in matrix.T.dot(y)) and right.dot(y) < 0
    held = all(a <= b for a, b in zip(matrix.dot(x), right, strict=True))
    fits = all(a == b for a, b in zip(matrix.T.dot(y), objective, strict=True))
    return held and fits and objective.dot(x) == right.dot(y)


#: Largest number of entries of the tableau: about a second of pivots.
MAX_TABLEAU_ENTRIES = 20_000


@dataclass(frozen=True)
class Vertex:
    """The exact solution of a linear program over the points of a problem.

    ``value`` is the maximum; if the objective is unbounded, its value at some point; None if there is no
    point. ``point`` attains it, rounded to doubles. ``multipliers`` prove the value or infeasibility, rounded
    to doubles.
    """

    value: Fraction | None
    point: Point | None
    multipliers: np.ndarray | None
    unbounded: bool = False


def is_tiny_polyhedron(problem: FeasibilityProblem) -> bool:
    """Whether a problem is described by linear inequalities, few enough for the exact simplex method."""
    sets = (*problem.sets, *(lmi.set for lmi in problem.lmis))
    if not all(block.polyhedral for block in sets) or not small_enough(problem):
        return False
    n = sum(block.entries for block in problem.sets)
    return n * (n + 2 * (problem.m + sum(block.entries for block in sets))) <= MAX_TABLEAU_ENTRIES


def exact_vertex(problem: FeasibilityProblem, objective: Point | None = None) -> Vertex:
    """Maximise an objective, or find any vertex, over a tiny polyhedron; the result is checked exactly."""
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
    """Yield every inequality ``sign (a'x) <= sign bound``, with the position of its multiplier if any."""
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
    """Yield the inequalities of the finite bounds of one row."""
    for sign, bound in ((-1, lower), (1, upper)):
        if math.isfinite(bound):
            right = rows.number(bound) if shift is None else rows.number(bound) + shift
            yield sign * line, sign * right, place, sign
