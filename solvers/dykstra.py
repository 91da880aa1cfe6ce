"""Dykstra's alternating projections: a complete backend in one file, as an example.

A problem asks for a member of ``C = K × [lower, upper]`` on the subspace ``S = {(X, A(X))}``. Dykstra's
method projects onto both sets in turn and adds back the correction of the last projection onto ``C``, so it
converges to the common member nearest to the start. If there is none, the difference of the two projections
converges to a constant ``(V, v)``, the shortest vector from ``S`` to ``C`` (Bauschke and Borwein 1994). It is
orthogonal to ``S``, so ``V = -A*v``, and separates the two sets, so ``v`` is a Farkas certificate.

The limit lies on the boundary, where little can be proved. So two runs alternate: *inside*, with slightly
smaller cones and bounds, for a point; and *outside*, with slightly larger cones, for a certificate.

No warm start; calls back and offers evidence at regular intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy.linalg

from sdpfeas import Claim, FeasibilityBackend, FeasibilityProblem, Inquiry, Stop
from sdpfeas.dropin import ALL_SETS, BlockSet, Count, FloatArray, Point, Range, require_resources


@dataclass(frozen=True)
class DykstraOptions:
    """Options of the backend, validated by name and type.

    Attributes
    ----------
    max_iterations : int
        Pairs of projections.
    look_every : int
        Pairs of projections between two looks at what there is; each look waits longer than the one before.
    margin : float
        By how much bounds and cones are made smaller or larger, relative to their size.
    """

    max_iterations: Count = 10_000
    look_every: Count = 50
    margin: Annotated[float, Range(0.0, 1.0)] = 1e-3


class Dykstra(FeasibilityBackend):
    """Dykstra's alternating projections between the sets and the rows."""

    name = "dykstra"
    sets = ALL_SETS
    calls_back = True
    presolves = True
    Options = DykstraOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        scaling = problem.scaled()
        inside = _Run(scaling.problem, -self.options.margin)
        outside = _Run(scaling.problem, self.options.margin)
        look, claim = self.options.look_every, Claim()
        for k in range(1, self.options.max_iterations + 1):
            inside.step()
            outside.step()
            late = inquiry.deadline.expired
            if k < look and not late and k < self.options.max_iterations:
                continue
            look += max(self.options.look_every, k // 4)
            y = scaling.multipliers(outside.certificate())
            claim = Claim(inside.point(), y, "still apart", Stop.ITERATION_LIMIT, k)
            if late:
                return replace(claim, stop=Stop.TIME_LIMIT)
            if inquiry.report(k, claim.point, y):
                return replace(claim, stop=Stop.CALLBACK)
            if inquiry.offer(claim.point, y, final=True):
                return replace(claim, raw_status="a verdict was granted", stop=Stop.FINISHED)
            inside.tighten()
        return claim


class _Run:
    """One run of the method; the rows have norm about one.

    Cones are resized by a change of variables, ``X = W - kappa·tr(W)·I`` with ``W`` in the cones: a positive
    margin lets ``X`` be a little indefinite, a negative one keeps it definite.
    """

    def __init__(self, problem: FeasibilityProblem, margin: float) -> None:
        self.problem = problem
        self.margin = margin
        side = sum(block.degree for block in problem.sets if block.cone)
        self.kappa = margin / ((1.0 + margin) * max(side, 1))
        require_resources(
            "the Gram matrix of the rows", products=float(problem.m) ** 3, memory=32.0 * problem.m**2
        )
        along = problem.apply(tuple(map(self._identity, problem.sets)))
        gram = sum((rows.gram() for rows in problem.rows if not rows.empty), np.eye(problem.m))
        gram -= self.kappa * (2.0 - self.kappa * side) * np.outer(along, along)
        self.factor = scipy.linalg.cho_factor(gram)
        self.x: Point = tuple(block.interior_point() for block in problem.sets)
        self.z = self.apply(self.x)
        self.cut_x: Point = tuple(np.zeros_like(x) for x in self.x)
        self.cut_z = np.zeros(problem.m)
        self.lower, self.upper = problem.lower, problem.upper

    @staticmethod
    def _identity(block: BlockSet) -> FloatArray:
        """The identity of a cone; zero for other sets."""
        return block.identity() if block.cone else np.zeros(block.shape)

    def _bend(self, w: Point) -> Point:
        units = [self._identity(block) for block in self.problem.sets]
        trace = sum(float(np.sum(unit * x)) for unit, x in zip(units, w, strict=True))
        return tuple(x - self.kappa * trace * unit for unit, x in zip(units, w, strict=True))

    def apply(self, w: Point) -> FloatArray:
        return self.problem.apply(self._bend(w))

    def adjoint(self, y: FloatArray) -> Point:
        return self._bend(self.problem.adjoint(y))

    def tighten(self) -> None:
        """Move the bounds inwards, relative to the size of the present point."""
        problem = self.problem
        norms = [float(np.linalg.norm(x)) for x in self.x]
        room = np.minimum(
            -self.margin * (norms @ problem.block_norms), 0.25 * (problem.upper - problem.lower)
        )
        self.lower, self.upper = problem.lower + room, problem.upper - room

    def step(self) -> None:
        """Project onto the subspace; then add the last correction and project onto sets and bounds."""
        x, z = self.onto_subspace()
        ahead = tuple(a + b for a, b in zip(x, self.cut_x, strict=True))
        self.x = tuple(block.project(a) for block, a in zip(self.problem.sets, ahead, strict=True))
        self.cut_x = tuple(a - b for a, b in zip(ahead, self.x, strict=True))
        self.z = np.clip(z + self.cut_z, self.lower, self.upper)
        self.cut_z = z + self.cut_z - self.z

    def onto_subspace(self) -> tuple[Point, FloatArray]:
        """Nearest ``(W, A(W))``: ``W = x + A*t`` with ``(I + AA*) t = z - A(x)``."""
        t = scipy.linalg.cho_solve(self.factor, self.z - self.apply(self.x))
        return tuple(a + b for a, b in zip(self.x, self.adjoint(t), strict=True)), self.z - t

    def point(self) -> Point:
        return self._bend(self.x)

    def certificate(self) -> FloatArray:
        """The second part ``v`` of the vector from the subspace to the sets and bounds."""
        v = self.z - self.onto_subspace()[1]
        # The multiplier of a one-sided row has a known sign, which rounding may violate.
        v = np.where(np.isneginf(self.problem.lower), np.minimum(v, 0.0), v)
        return np.where(np.isposinf(self.problem.upper), np.maximum(v, 0.0), v)
