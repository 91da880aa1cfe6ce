"""What a proof takes, so that time can be kept for it."""

from __future__ import annotations

from functools import reduce

import numpy as np

from sdpfeas.numerics.effort import Work
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.equality import MAX_DENSE_ROWS

__all__ = ["proof_work"]


def proof_work(problem: FeasibilityProblem) -> Work:
    """What a typical proof takes: row values, definiteness of every block, and the equality rows.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    """
    sides = [float(n) for n in problem.sides]
    cubes = sum(n**3 for n in sides)
    total = problem.work.times(4.0).plus(Work(products=4.0 * cubes, cubes=cubes))
    equations = int(np.count_nonzero(problem.equality))
    if 0 < equations <= MAX_DENSE_ROWS:
        parts = (rows.gram_work for rows in problem.rows if rows is not None)
        gram = reduce(Work.plus, parts, Work()).times((equations / problem.m) ** 2)
        total = total.plus(gram).plus(Work(products=float(equations) ** 3, cubes=0.5 * float(equations) ** 3))
    elif equations:
        # A sparse factor, where there is one: much more than the rows themselves, and less than a dense one.
        stored = sum(rows.entries for rows in problem.rows if rows is not None)
        total = total.plus(Work(numbers=200.0 * min(stored, float(equations) ** 2)))
    return total
