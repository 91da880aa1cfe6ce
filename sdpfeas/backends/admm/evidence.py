"""What becomes of iterates: points that meet their equations, multipliers with the right signs."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas.backends.admm.graph import Graph
from sdpfeas.backends.admm.space import Space
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point, sign_violation
from sdpfeas.problem.rows import Rows, Sparse, Stacked
from sdpfeas.problem.rows.columns import vector_columns
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.free_columns import FreeColumns

__all__ = ["Cleaner", "Equations"]

#: Weight of the equations when a point is moved onto them.
EQUATION_PENALTY = 1e9


class Equations:
    """Least-norm correction onto the equality rows and prescribed traces."""

    def __init__(self, problem: FeasibilityProblem, scales: FloatArray) -> None:
        index = np.flatnonzero(problem.equality)
        self._graph: Graph | None = None
        if index.size == 0:
            return
        traces = {b: s.trace for b, s in enumerate(problem.sets) if s.trace is not None}
        right = np.append(problem.lower[index], list(traces.values()))
        rows = [
            _with_traces(
                None if rows is None else rows.select(index),
                block,
                list(traces).index(b) if b in traces else None,
                index.size,
                len(traces),
            )
            for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True))
        ]
        equations = FeasibilityProblem(problem.sets, rows, right, right)
        # A large penalty makes the equations hold; repeating makes up for its not being infinite.
        self._graph = Graph(Space(equations, np.ones(right.size), scales), EQUATION_PENALTY)

    def correct(self, point: Point) -> Point:
        """Return the nearest point that meets all equations."""
        if self._graph is None:
            return point
        space = self._graph.space
        flat = space.flat(point)
        for _ in range(3):
            flat, _ = self._graph.project(flat, space.problem.lower)
        return tuple(symmetrize(x) if x.ndim == 2 else x for x in space.point(flat))


def _with_traces(rows: Rows | None, block: BlockSet, own: int | None, m: int, traces: int) -> Rows | None:
    """Rows of one block, followed by a row for every prescribed trace; its own is the ``own``-th of these."""
    if traces == 0 or (rows is None and own is None):
        return rows
    width = block.entries
    head = Sparse(sp.csr_array((m, width)), block.n, block.matrix) if rows is None else rows
    tail = sp.lil_array((traces, width))
    if own is not None:
        tail[own, :] = block.identity().reshape(1, -1)
    return Stacked([head, Sparse(tail.tocsr(), block.n, block.matrix)])


class Cleaner:
    """Gives multipliers the signs their rows allow, and makes ``A*y`` vanish on the Free blocks."""

    def __init__(self, problem: FeasibilityProblem) -> None:
        self.problem = problem
        parts = [
            sp.csr_array(vector_columns(rows))
            for block, rows in zip(problem.sets, problem.rows, strict=True)
            if block.free and rows is not None
        ]
        self._columns = sp.hstack(parts, format="csr") if parts else None
        if self._columns is not None:
            need("the free columns", cubes=1.5 * float(self._columns.shape[1]) ** 3)
            gram = (self._columns.T @ self._columns).toarray()
            self._inverse = scipy.linalg.pinvh(gram, rtol=1e-13, check_finite=False)

    def clean(self, y: FloatArray) -> FloatArray | None:
        """Return multipliers near ``y``, or None if nothing is left of them."""
        largest = float(np.max(np.abs(y), initial=0.0))
        if not 0.0 < largest < np.inf:
            return None
        y = self._signed(y / largest)
        if self._columns is not None:
            for _ in range(2):
                y = y - self._columns @ (self._inverse @ (self._columns.T @ y))
            if sign_violation(self.problem, y).any():
                # Only multipliers that are clear of zero may make up for the others.
                y = self._signed(FreeColumns(self.problem, self._signed(y)).correct())
        return y if y.any() else None

    def _signed(self, y: FloatArray) -> FloatArray:
        return np.where(sign_violation(self.problem, y) > 0.0, 0.0, y)
