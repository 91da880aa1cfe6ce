"""Points as long vectors, and the units in which rows and blocks are alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np

from sdpfeas.numerics.effort import Work, need
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.scaling import power_of_two
from sdpfeas.problem.rows import Rows, Sparse
from sdpfeas.problem.sets import BlockSet

__all__ = ["Space", "equilibrate"]

#: Rows with up to this many coefficients are kept as one dense matrix, whatever their storage.
DENSE_LIMIT = 250_000


class Space:
    """Points as long vectors, with rows and blocks in units of their own, the cones optionally widened.

    All cones together are widened by the map ``W -> X = W - kappa·tr(W)·I``, so that ``X`` may be a little
    indefinite; everything is computed on ``W``, in units of ``scales``.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        weights: FloatArray,
        scales: FloatArray,
        margin: float = 0.0,
    ) -> None:
        self.problem = problem
        self.weights = weights
        self.scales = scales
        sizes = [block.entries for block in problem.sets]
        self.size = sum(sizes)
        ends = np.cumsum(sizes)
        self._slices = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        self._plain = self
        self._side = sum(block.degree for block in problem.sets if block.cone)
        self._kappa = margin / ((1.0 + margin) * self._side) if self._side else 0.0

    def widened(self, margin: float) -> Space:
        """Return the same space with wider cones."""
        out = Space(self.problem, self.weights, self.scales, margin)
        out._plain = self._plain
        return out

    def blocks(self, flat: FloatArray) -> list[FloatArray]:
        """The vector cut into one array per set, in their units."""
        shapes = (block.shape for block in self.problem.sets)
        return [flat[part].reshape(shape) for part, shape in zip(self._slices, shapes, strict=True)]

    def sets(self, margin: float = 0.0) -> list[BlockSet]:
        """Return the sets in their units, boxes pulled towards their middle by a margin."""
        return [
            block.shrunk(margin).scaled(1.0 / scale)
            for block, scale in zip(self.problem.sets, self.scales, strict=True)
        ]

    def _bend(self, blocks: Sequence[FloatArray], kappa: float) -> list[FloatArray]:
        """Subtract a multiple of the trace of all cones from their diagonals."""
        if kappa == 0.0:
            return list(blocks)
        pairs = list(zip(self.problem.sets, blocks, strict=True))
        shift = kappa * sum(block.trace_of(x) for block, x in pairs if block.cone)
        return [x - shift * block.identity() if block.cone else x for block, x in pairs]

    def _scaled(self, blocks: Sequence[FloatArray], scales: FloatArray) -> Point:
        return tuple(scale * x for scale, x in zip(scales, blocks, strict=True))

    def point(self, flat: FloatArray) -> Point:
        """The point a vector stands for, in the units of the problem."""
        return self._scaled(self._bend(self.blocks(flat), self._kappa), self.scales)

    def flat(self, point: Point) -> FloatArray:
        """Inverse of :meth:`point`."""
        back = -self._kappa / (1.0 - self._kappa * self._side)
        blocks = self._bend(self._scaled(point, 1.0 / self.scales), back)
        return np.concatenate([x.reshape(-1) for x in blocks])

    def apply(self, flat: FloatArray) -> FloatArray:
        """The rows, weighted, of a vector."""
        if self.matrix is not None:
            return self.matrix @ flat
        return self.weights * self.problem.apply(self.point(flat))

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Adjoint of :meth:`apply`."""
        if self.matrix is not None:
            return y @ self.matrix
        return self._adjoint(y)

    def _adjoint(self, y: FloatArray) -> FloatArray:
        gradient = self._scaled(self.problem.adjoint(self.weights * y), self.scales)
        return np.concatenate([g.reshape(-1) for g in self._bend(gradient, self._kappa)])

    @cached_property
    def matrix(self) -> FloatArray | None:
        """The rows as one dense matrix, where it is small."""
        if not 0 < self.size * self.problem.m <= DENSE_LIMIT:
            return None
        return np.array([self._adjoint(unit) for unit in np.eye(self.problem.m)])

    @cached_property
    def _plain_gram(self) -> FloatArray:
        total = np.zeros((self.problem.m, self.problem.m))
        for rows, scale in zip(self.problem.rows, self.scales, strict=True):
            if rows is not None:
                total += scale**2 * rows.gram()
        return total

    @property
    def gram_work(self) -> Work:
        """What ``gram`` takes."""
        parts = (rows.gram_work for rows in self.problem.rows if rows is not None)
        return reduce(Work.plus, parts, Work(numbers=8.0 * float(self.problem.m) ** 2))

    def _along(self) -> FloatArray:
        """Column with which widening the cones changes ``AA'``: it is subtracted, times itself."""
        total = np.zeros(self.problem.m)
        for block, rows, scale in zip(self.problem.sets, self.problem.rows, self.scales, strict=True):
            if block.cone and rows is not None:
                total += scale * rows.apply(block.identity())
        return np.sqrt(self._kappa * (2.0 - self._kappa * self._side)) * total

    def gram(self) -> FloatArray:
        """Inner products of the rows."""
        along = self._along()
        total = self._plain._plain_gram - np.outer(along, along)
        return symmetrize(total * self.weights[:, None] * self.weights)

    def diagonal_plus_columns(self) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Return ``AA'`` as a diagonal matrix plus ``U diag(signs) U'``, where ``U`` has few columns.

        Blocks on which no two rows share an entry, such as slack, give the diagonal; all others columns.
        """
        problem = self.problem
        parts = [
            (rows, scale, int(np.prod(rows.shape)))
            for rows, scale in zip(problem.rows, self.scales, strict=True)
            if rows is not None
        ]
        count = 1 + sum(size for rows, _, size in parts if not _disjoint(rows))
        if 2 * count > problem.m:
            return None
        cells = float(count) * problem.m
        need("the columns of the rows", numbers=4.0 * cells, memory=24.0 * cells)
        diagonal, columns = np.zeros(problem.m), [self._along()]
        for rows, scale, size in parts:
            if _disjoint(rows):
                diagonal += (scale * rows.norms()) ** 2
            else:
                columns += [scale * rows.apply(unit.reshape(rows.shape)) for unit in np.eye(size)]
        signs = np.ones(len(columns))
        signs[0] = -1.0
        return diagonal * self.weights**2, np.stack(columns, axis=1) * self.weights[:, None], signs


def _disjoint(rows: Rows) -> bool:
    """Whether no two rows share an entry."""
    return isinstance(rows, Sparse) and bool(np.max(np.bincount(rows.array.indices), initial=0) <= 1)


def equilibrate(norms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Powers of two for rows and blocks that bring norms (blocks × rows) near one in both directions."""
    rows, blocks = np.ones(norms.shape[1]), np.ones(norms.shape[0])
    for _ in range(10):
        scaled = norms * blocks[:, None] * rows
        rows *= _inverse_root(np.sqrt(np.sum(scaled**2, axis=0)))
        touched = np.maximum(np.sum(norms > 0.0, axis=1), 1)
        blocks *= _inverse_root(np.sqrt(np.sum(scaled**2, axis=1) / touched))
    return power_of_two(1.0 / rows), power_of_two(1.0 / blocks)


def _inverse_root(sizes: FloatArray) -> FloatArray:
    return 1.0 / np.sqrt(np.where(sizes > 0.0, sizes, 1.0))
