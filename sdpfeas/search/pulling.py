"""Points between one that is nearly optimal and one deep inside: deep enough for a proof, and no deeper.

What a solver ends with lies on the boundary up to its accuracy. On the way from there to a point in the
interior depth grows in proportion to what it costs, whatever the size of the multipliers, and every point of
the way meets equality rows as well as its two ends do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sdpfeas.problem.problem import Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.verifier.repair import moved_onto_rows
from sdpfeas.verifier.rigorous import prove_point

__all__ = ["between", "on_the_way", "pulled_point"]

#: How many times further a point is pulled where it was too little.
FURTHER = 8.0


def pulled_point(program: ConicProgram, found: Point, deep: Point, cost: float) -> Point | None:
    """The first provable point on the way from one that was found to one deep inside; None without one.

    Parameters
    ----------
    program : ConicProgram
        What is maximised over which problem.
    found : tuple of ndarray
        A point that is nearly optimal.
    deep : tuple of ndarray
        A point in the interior.
    cost : float
        How much of the objective may well be given up, and is at first.
    """
    problem = program.problem
    moved = moved_onto_rows(problem, found)
    near = found if moved is None else moved
    with np.errstate(all="ignore"):
        drop = sum(float(np.vdot(c, x - z)) for c, x, z in zip(program.objective, near, deep, strict=True))
    if not math.isfinite(drop):
        return None
    if not drop > 0.0:
        return None
    way = on_the_way(near, deep, cost / drop)
    return next((place for place in way if prove_point(problem, place).proven), deep)


def between(near: Point, deep: Point, share: float) -> Point:
    """The point a share of the way from one to another."""
    return tuple((1.0 - share) * x + share * z for x, z in zip(near, deep, strict=True))


def on_the_way(near: Point, deep: Point, share: float) -> Iterator[Point]:
    """Points between two, further and further from the first, from a share of the way on."""
    while 0.0 < share < 1.0:
        yield between(near, deep, share)
        share *= FURTHER
