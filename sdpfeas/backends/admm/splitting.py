"""The iteration itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpfeas.backends.admm.graph import Graph
from sdpfeas.backends.admm.options import AdmmOptions
from sdpfeas.backends.admm.space import Space
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import Point

__all__ = ["Splitting"]

#: A run has settled when it is this close to a solution, relative to its size, ...
SOLVED = 1e-9

#: ... or when its displacement repeats itself to this accuracy.
DRIFTING = 1e-5


class Splitting:
    """One run of the iteration; its sets and bounds may be moved between steps."""

    def __init__(self, space: Space, options: AdmmOptions) -> None:
        self.space = space
        self.relaxation = options.relaxation
        self.graph = Graph(space, options.penalty)
        self.sets = space.sets()
        self.floors = [0.0] * len(self.sets)
        self.lower = space.problem.lower * space.weights
        self.upper = space.problem.upper * space.weights
        self.x, self.z = np.zeros(space.size), np.zeros(space.problem.m)
        self.settled = False
        self._displacement: tuple[FloatArray, FloatArray] | None = None
        self.screens, self._balance_at = 0, 2
        self._project()

    def start(self, point: Point | None, y: FloatArray | None) -> None:
        """Begin at a point, at multipliers, or both."""
        if point is not None:
            self.x = self.space.flat(point)
            self.z = np.clip(self.space.apply(self.x), self.lower, self.upper)
        if y is not None:
            weighted = y / self.space.weights
            self.x = self.x + self.space.adjoint(weighted)
            self.z = self.z - weighted / self.graph.penalty
        self._project()

    def go_on_from(self, other: Splitting) -> None:
        """Begin where another run is."""
        self.x, self.z = other.x, other.z
        self.graph.set_penalty(other.graph.penalty)
        self._project()

    def restart(self) -> None:
        """Forget how far the run has drifted, and go on from its present point."""
        self.x, self.z = self.member, self.value
        self.settled, self._displacement = False, None
        self._project()

    def _project(self) -> None:
        """Find the members of the sets and bounds nearest to where the run is."""
        parts = [
            block.project(x - floor * block.identity()) + floor * block.identity()
            if floor
            else block.project(x)
            for block, x, floor in zip(self.sets, self.space.blocks(self.x), self.floors, strict=True)
        ]
        self.member = np.concatenate([part.reshape(-1) for part in parts])
        self.value = np.clip(self.z, self.lower, self.upper)

    def _step(self) -> None:
        x, z = self.graph.project(2.0 * self.member - self.x, 2.0 * self.value - self.z)
        self._apart = x - self.member, z - self.value
        self.x = self.x + self.relaxation * self._apart[0]
        self.z = self.z + self.relaxation * self._apart[1]
        self._project()

    def advance(self, steps: int, deadline: Deadline) -> None:
        """Take steps, and notice when further ones will bring nothing new."""
        x, z = self.x, self.z
        for _ in range(steps):
            need("a step of the splitting", *self.space.problem.work.times(2.0))
            self._step()
            if deadline.expired:
                break
        last, self._displacement = self._displacement, (self.x - x, self.z - z)
        self.screens += 1
        self.settled = _norm(*self._apart) <= SOLVED * _norm(self.member, self.value)
        if last is not None:
            change = _norm(self._displacement[0] - last[0], self._displacement[1] - last[1])
            self.settled |= change <= DRIFTING * _norm(*self._displacement)

    def balance(self) -> None:
        """Let the penalty follow the residuals, ever more rarely."""
        if self.screens < self._balance_at:
            return
        self._balance_at *= 2
        sets, rows = _norm(self._apart[0]), _norm(self._apart[1])
        if not (sets > 0.0 and rows > 0.0) or 1.0 / 3.0 < rows / sets < 3.0:
            return
        old = self.graph.penalty
        new = float(np.clip(old * np.clip(rows / sets, 0.1, 10.0), 1e-4, 1e4))
        # The multipliers, penalty times distance from the bounds, stay as they are.
        self.z = self.value + (self.z - self.value) * (old / new)
        self.graph.set_penalty(new)
        self._displacement = None

    def candidates(self) -> Iterator[FloatArray]:
        """Multipliers: the part of the last displacement, then of all of them, that no row explains."""
        assert self._displacement is not None
        for dx, dz in (self._displacement, (self.x - self.member, self.z - self.value)):
            yield -self.space.weights * self.graph.multipliers(dz - self.space.apply(dx))


def _norm(*parts: FloatArray) -> float:
    return float(np.sqrt(sum(float(part @ part) for part in parts)))
