"""Optima where the interior is too thin for floating-point numbers: the program as a deep point sees it.

However thin the points of a problem are, next to one in the middle of them (``X = L S L'``, S about one) all
others are of moderate size. There solvers find what they cannot see from outside, and points are proved in
balls of many bits (:mod:`sdpfeas.verifier.precise`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpfeas.backends.asking import ask_program
from sdpfeas.backends.contract import FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.registry import Solver
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.effort import limited
from sdpfeas.numerics.linalg import FloatArray, eigh
from sdpfeas.problem.problem import Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.problem.sets import BlockSet
from sdpfeas.search.pulling import on_the_way
from sdpfeas.search.solving import solve
from sdpfeas.verifier.precise import Precise, Proved
from sdpfeas.verifier.results import Claim

__all__ = ["Sharpened", "sharpen"]

#: Times that a metric is looked for.
TURNS = 6

#: Eigenvalues of a point in a good metric are no further apart than this.
SPREAD = 1e3

#: Eigenvalues of a point below this share of the largest may be anything.
NOISE = 1e-16

#: Share of the time left that one look for a deep point may take.
LOOK = 0.2


class Sharpened:
    """A program in the metric of a point that is proved to lie deep inside.

    Parameters
    ----------
    precise : Precise
        The program in that metric.
    deep : tuple of ndarray
        The point, in that metric.
    """

    def __init__(self, precise: Precise, deep: Point) -> None:
        self._precise, self._deep = precise, deep
        self._program = precise.program
        self._units = tuple(
            block.identity() if block.cone else np.zeros(block.shape) for block in self._program.problem.sets
        )

    def ask(self, backend: FeasibilityBackend, deadline: Deadline, apart: float = 0.0) -> Claim:
        """Maximise ``c + apart·I`` in the metric."""
        terms = tuple(c + apart * unit for c, unit in zip(self._program.objective, self._units, strict=True))
        inquiry = Inquiry(self._program.problem, deadline=deadline, wanted="margin")
        with limited(inquiry.limit):
            return ask_program(backend, ConicProgram(self._program.problem, terms), inquiry)

    def value(self, inner: Point) -> float:
        """The objective at a point in the metric."""
        return sum(float(np.vdot(c, x)) for c, x in zip(self._program.objective, inner, strict=True))

    def size(self, inner: Point) -> float:
        """The trace of a point in the metric: what one unit of ``apart`` costs."""
        return sum(float(np.vdot(unit, x)) for unit, x in zip(self._units, inner, strict=True))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Multipliers of the rows as they were."""
        return self._precise.multipliers(y)

    def proved(self, inner: Point, cost: float) -> Proved | None:
        """What is proved by the first provable point on the way from one in the metric to the deep one.

        Parameters
        ----------
        inner : tuple of ndarray
            A point in the metric that is nearly optimal.
        cost : float
            How much of the objective may well be given up.
        """
        drop = self.value(inner) - self.value(self._deep)
        share = cost / drop if drop > cost > 0.0 else 1.0
        for between in (inner, *on_the_way(inner, self._deep, share)):
            found = self._precise.prove(between)
            if found is not None:
                return found
        return self._precise.prove(self._deep)


def sharpen(
    program: ConicProgram, starts: Iterator[Point], solver: Solver, deadline: Deadline
) -> Sharpened | None:
    """Look for a metric in which a point of a program is provable and of moderate size; None without one.

    Parameters
    ----------
    program : ConicProgram
        A program whose problem fits balls.
    starts : iterator of tuple of ndarray
        Points that may be near.
    solver : Solver
        Who is asked for points in the metric.
    deadline : Deadline
        When to stop.
    """
    sets = program.problem.sets
    for start in starts:
        roots = [_root(block, x) for block, x in zip(sets, start, strict=True)]
        best = None
        for _ in range(TURNS):
            if deadline.expired or not all(np.isfinite(root).all() for root in roots):
                break
            try:
                precise = Precise(program, roots)
            except np.linalg.LinAlgError:
                break
            limit = deadline.limit
            limit = None if limit is None else LOOK * limit
            found = solve(precise.program.problem, solver, time_limit=limit)
            inner = found.point if found.point is not None else found.claim.point
            if inner is None or not all(np.isfinite(x).all() for x in inner):
                break
            if precise.prove(inner) is not None:
                best = Sharpened(precise, inner)
                if max(_spread(block, x) for block, x in zip(sets, inner, strict=True)) <= SPREAD:
                    break
            roots = [
                root @ _root(block, x) if block.matrix else root * _root(block, x)
                for block, root, x in zip(sets, roots, inner, strict=True)
            ]
        if best is not None:
            return best
    return None


def _root(block: BlockSet, x: FloatArray) -> FloatArray:
    """``L`` with ``L L'`` near a matrix, or the positive part of a vector; ones for a free one."""
    if block.free:
        return np.ones(block.n)
    if not block.matrix:
        return np.maximum(x, NOISE * max(float(np.max(np.abs(x))), np.finfo(float).tiny))
    lam, vec = eigh(x)
    return np.asarray(vec * np.sqrt(np.maximum(lam, NOISE * max(float(np.max(np.abs(lam))), 1e-300))))


def _spread(block: BlockSet, x: FloatArray) -> float:
    """Largest eigenvalue over the least; one for a free vector."""
    if block.free:
        return 1.0
    lam = block.decompose(x)[0]
    least = float(np.min(lam))
    return float(np.max(lam)) / least if least > 0.0 else np.inf
