"""Rows that contradict each other whatever the sets are, found by elimination in rational arithmetic.

A point that misses its rows by the last digits only looks feasible to everybody. Where the rows are
dependent, elimination says whether their bounds agree, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sdpfeas.numerics.rational import echelon, number, to_floats, zeros
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.verifier.exact.eligible import need_rationals, small_enough
from sdpfeas.verifier.exact.multipliers import certificate_holds
from sdpfeas.verifier.exact.rows import ExactRows, exact_rows
from sdpfeas.verifier.outcome import Outcome, refuse
from sdpfeas.verifier.verdicts import Reading

__all__ = ["contradiction"]

#: Rows are taken for met, and for tight, if they are so within this, relative to their terms.
NEAR = 1e-6

#: Inequality rows that hold with equality at a point, at the most, that are looked at as well.
MOST_ACTIVE = 40


def contradiction(problem: FeasibilityProblem, point: Point, reading: Reading = Reading.STORED) -> Outcome:
    """Prove in rational arithmetic that dependent rows contradict each other.

    Parameters
    ----------
    problem : FeasibilityProblem
        A small problem.
    point : tuple of ndarray
        A point that nearly meets it: inequality rows that are tight there are taken for equations.
    reading : Reading
        Which numbers of the problem the proof is about.
    """
    last = refuse("no rows contradict each other")
    if not small_enough(problem) or problem.m == 0 or problem.lmis:
        return last
    need_rationals(problem)
    rows = exact_rows(problem, reading)
    active = _active(problem, point)
    if active is None:
        return last
    for y in _dependences(rows, active):
        for sign in (1, -1):
            outcome = certificate_holds(rows, sign * y)
            if outcome.proven:
                near = to_floats(sign * y)
                if np.isfinite(near).all():
                    return replace(outcome, evidence=near, repairs=("found rows that contradict each other",))
    return last


def _active(problem: FeasibilityProblem, point: Point) -> np.ndarray | None:
    """Inequality rows that are tight at a point, up to rounding; None if it is no solution to anybody."""
    value = problem.stable_apply(point)
    size = np.array([float(np.linalg.norm(x)) for x in point])
    allowed = NEAR * (size @ problem.block_norms + largest_bound(problem))
    above, below = value - problem.lower, problem.upper - value
    if not (np.all(above >= -allowed) and np.all(below >= -allowed)):
        return None
    tight = (above <= allowed) | (below <= allowed)
    found = np.flatnonzero(tight & ~problem.equality)
    return found if found.size <= MOST_ACTIVE else found[:0]


def _dependences(rows: ExactRows, active: np.ndarray) -> Iterator[np.ndarray]:
    """Multipliers of rows that add up to nothing, or to multiples of the identity where a trace is known."""
    equations, _ = rows.equations
    index = np.concatenate([np.flatnonzero(rows.problem.equality), active]).astype(np.int64)
    traces = equations[index.size - active.size :]
    table = rows.fold(np.concatenate([traces, rows.matrix[index]]))
    # Every row is a combination of the independent ones before it, with these weights in its column.
    weights, pivots = echelon(table.T)
    for r in sorted(set(range(len(table))) - set(pivots)):
        combined = zeros((len(table),))
        combined[r] = number(1)
        combined[pivots] = -weights[:, r]
        # Traces are no rows: their multipliers do not matter.
        if r >= len(traces):
            y = zeros((rows.problem.m,))
            y[index] = combined[len(traces) :]
            yield y
