"""Dykstra's alternating projections: a complete backend in one file, to read and to copy.

A problem asks for a member of ``C = K × [lower, upper]`` on the subspace ``S = {(X, A(X))}``. Dykstra's
method projects onto the one and the other in turn, and carries along what the projection onto ``C`` cut off,
so that it ends at the common member nearest to the start. If there is none, the two projections stay apart
by a constant vector ``(V, v)``, the shortest from ``S`` to ``C``. It is orthogonal to ``S``, so ``V = -A*v``,
and it separates the two, so ``v`` is a certificate.

The nearest member lies on the boundary, where little can be proved. So the bounds and the cones are moved
inwards a little, and the rest is left to the repairs of the verifier.

No warm start; calls back at every look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from sdpfeas.backend import ALL_SETS, Callback, FeasibilityBackend, Progress, WarmStart
from sdpfeas.certificates import verify
from sdpfeas.deadline import Deadline
from sdpfeas.linalg import FloatArray
from sdpfeas.problem import FeasibilityProblem, Point
from sdpfeas.result import Claim, Stop, Verdict
from sdpfeas.sets import PSD, BlockSet, Nonneg


@dataclass(frozen=True)
class DykstraOptions:
    """Options of the backend; they are checked by name and type before it sees them.

    Attributes
    ----------
    max_iterations : int
        Pairs of projections.
    look_every : int
        Pairs of projections between two looks at what there is; each look waits longer than the one before.
    margin : float
        How far bounds and cones are moved inwards, relative to the rows and to the size of the start.
    """

    max_iterations: int = 10_000
    look_every: int = 50
    margin: float = 1e-4

    def __post_init__(self) -> None:
        if self.max_iterations < 1 or self.look_every < 1:
            raise ValueError("options 'max_iterations' and 'look_every' must be at least 1")
        if not 0.0 <= self.margin < 1.0:
            raise ValueError(f"option 'margin' must lie between 0 and 1, got {self.margin}")


class Dykstra(FeasibilityBackend):
    """Dykstra's alternating projections between the sets and the rows."""

    name = "dykstra"
    sets = ALL_SETS
    calls_back = True
    Options = DykstraOptions

    def solve(
        self,
        problem: FeasibilityProblem,
        *,
        time_limit: float | None = None,
        warm_start: WarmStart | None = None,
        callback: Callback | None = None,
    ) -> Claim:
        deadline = Deadline(time_limit)
        if problem.m == 0:
            return Claim(tuple(block.interior_point() for block in problem.sets), raw_status="no rows")
        scaling = problem.scaled()
        run = _Run(scaling.problem, self.options.margin)
        look, claim = self.options.look_every, Claim()
        for k in range(1, self.options.max_iterations + 1):
            run.step()
            late = deadline.expired
            if k < look and not late and k < self.options.max_iterations:
                continue
            look += max(self.options.look_every, k // 4)
            y = scaling.unscale_certificate(run.certificate())
            claim = Claim(run.point, y, "still apart", Stop.ITERATION_LIMIT, k)
            if late:
                return replace(claim, stop=Stop.TIME_LIMIT)
            if verify(problem, claim).verdict is not Verdict.UNDECIDED:
                return replace(claim, raw_status="the verifier is content", stop=Stop.FINISHED)
            if callback is not None and callback(Progress(k, deadline.elapsed, claim.point, y)) is True:
                return replace(claim, stop=Stop.CALLBACK)
            run.tighten()
        return claim


class _Run:
    """The iteration; the rows have norm about one."""

    def __init__(self, problem: FeasibilityProblem, margin: float) -> None:
        self.problem = problem
        self.margin = margin
        gram = sum((rows.gram() for rows in problem.rows if rows is not None), np.eye(problem.m))
        self.factor = scipy.linalg.cho_factor(gram)
        self.point = tuple(block.interior_point() for block in problem.sets)
        self.value = problem.apply(self.point)
        self.cut = tuple(np.zeros_like(x) for x in self.point), np.zeros(problem.m)
        self.tighten()

    def tighten(self) -> None:
        """Move bounds and cones inwards, relative to the size of the present point."""
        problem = self.problem
        size = sum(n * np.linalg.norm(x) for n, x in zip(problem.block_norms, self.point, strict=True))
        room = np.minimum(self.margin * size, 0.25 * (problem.upper - problem.lower))
        self.lower, self.upper = problem.lower + room, problem.upper - room
        self.floors = [
            self.margin * np.linalg.norm(x) / block.n * _unit(block)
            if isinstance(block, (PSD, Nonneg))
            else 0.0
            for block, x in zip(problem.sets, self.point, strict=True)
        ]

    def step(self) -> None:
        """Project onto the subspace, then onto sets and bounds, starting from what was cut off last time."""
        x, z = self.onto_subspace(self.point, self.value)
        ahead = tuple(a + b for a, b in zip(x, self.cut[0], strict=True)), z + self.cut[1]
        self.point = tuple(
            block.project(a - floor) + floor
            for block, a, floor in zip(self.problem.sets, ahead[0], self.floors, strict=True)
        )
        self.value = np.clip(ahead[1], self.lower, self.upper)
        self.cut = (
            tuple(a - b for a, b in zip(ahead[0], self.point, strict=True)),
            ahead[1] - self.value,
        )

    def onto_subspace(self, x: Point, z: FloatArray) -> tuple[Point, FloatArray]:
        """Nearest ``(X, A(X))``: ``X = x + A*t`` with ``(I + AA*) t = z - A(x)``."""
        t = scipy.linalg.cho_solve(self.factor, z - self.problem.apply(x))
        return tuple(a + b for a, b in zip(x, self.problem.adjoint(t), strict=True)), z - t

    def certificate(self) -> FloatArray:
        """Second part of the vector between the two projections."""
        _, z = self.onto_subspace(self.point, self.value)
        v = self.value - z
        # A row with one bound allows one sign only; rounding may give the other.
        v = np.where(np.isneginf(self.problem.lower), np.minimum(v, 0.0), v)
        return np.where(np.isposinf(self.problem.upper), np.maximum(v, 0.0), v)


def _unit(block: BlockSet) -> FloatArray:
    return np.eye(block.n) if block.matrix else np.ones(block.n)
