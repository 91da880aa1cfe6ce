"""Tiny problems that are polyhedra: optimal vertices and Farkas certificates in rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.numerics.rational import number, to_floats, to_fractions, to_rationals, zeros
from sdpfeas.numerics.simplex import holds, maximise
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.verifier.exact.eligible import small_enough
from sdpfeas.verifier.exact.rows import ExactRows, exact_rows

__all__ = ["Vertex", "exact_vertex", "is_tiny_polyhedron"]

#: Cells of the tableau, at the most: about a second of pivots.
MOST_CELLS = 20_000


@dataclass(frozen=True)
class Vertex:
    """The exact solution of a linear program over the points of a problem.

    Attributes
    ----------
    value : Fraction or None
        The maximum; that of some point where the objective is unbounded; None where there is no point.
    point : tuple of ndarray or None
        The point that attains it, rounded to doubles.
    multipliers : ndarray or None
        Multipliers that prove the value, or a Farkas certificate, rounded to doubles.
    unbounded : bool
        Whether a direction of the polyhedron raises the objective for ever.
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
    """Maximise an objective, or none, over a tiny polyhedron; what is returned was checked exactly.

    Parameters
    ----------
    problem : FeasibilityProblem
        One that :func:`is_tiny_polyhedron`.
    objective : tuple of ndarray, optional
        One array per set.
    """
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
