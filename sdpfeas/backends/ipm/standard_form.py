"""The primal–dual pair of cone programs in standard form that the sparse interior-point method solves.

    primal:  minimise <c, x> + f'u   subject to  A x + B u = b,   x in K,  u free
    dual:    maximise b'y            subject to  c - A'y in K,    B'y = f

K is a product of cones of positive semidefinite matrices, second-order cones and non-negative orthants. A
vector of the space of K is one flat array: first the PSD matrices in full, those of one side next to each
other, then the vectors of second-order cones, those of one dimension next to each other, then the entries of
all orthants. :meth:`StandardForm.from_cones` lays out the data in this order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.sets import BlockSet, SecondOrder


@dataclass(frozen=True)
class ConeBlock:
    """One factor of K with its columns of A and its part of c.

    ``side`` is the side of a PSD matrix and zero for vectors. ``rows`` has shape (m, entries); a row on a
    matrix is a full symmetric matrix, flattened. ``cost`` is flat; None for zero. ``second_order``
    tells second-order cones from orthants.
    """

    side: int
    rows: Any
    cost: FloatArray | None = None
    second_order: bool = False

    @classmethod
    def on(cls, block: BlockSet, rows: Any, cost: FloatArray | None = None) -> Self:
        """Make the factor of K for a set that is a cone."""
        second_order = isinstance(block, SecondOrder) and block.n > 1
        return cls(block.n if block.matrix else 0, rows, cost, second_order)

    @property
    def entries(self) -> int:
        """Number of entries of a vector of the cone."""
        return int(self.rows.shape[1])

    @property
    def kind(self) -> tuple[int, int]:
        """Position in the flat layout: PSD cones by side, second-order cones by dimension, orthants."""
        if self.side:
            return 0, self.side
        return (1, self.entries) if self.second_order else (2, 0)


@dataclass(frozen=True)
class ConeGroup:
    """Equal cones next to each other in a flat vector, from entry ``start`` on.

    ``n`` is the side of PSD matrices or the dimension of second-order cones, ``shape`` that of one cone.
    """

    count: int
    start: int
    n: int
    shape: tuple[int, ...]

    @property
    def slice(self) -> slice:
        """Slice of all entries of the group."""
        return slice(self.start, self.start + self.count * math.prod(self.shape))

    def view(self, flat: FloatArray) -> FloatArray:
        """Return the group's part of a flat vector, the cones along the first axis."""
        return flat[self.slice].reshape(self.count, *self.shape)


@dataclass(frozen=True)
class StandardForm:
    """The data of both programs.

    ``rows`` is A in compressed row format, ``adjoint`` its transpose, also in compressed row format; ``free``
    is B. ``cone_slices`` are the entries of each cone, in the order in which the cones were given.
    """

    rows: Any
    adjoint: Any
    free: Any
    b: FloatArray
    c: FloatArray
    f: FloatArray
    psd_groups: tuple[ConeGroup, ...]
    second_order_groups: tuple[ConeGroup, ...]
    cone_slices: tuple[slice, ...]

    @classmethod
    def from_cones(
        cls, cones: Sequence[ConeBlock], b: FloatArray, free: Any = None, f: FloatArray | None = None
    ) -> Self:
        """Sort the factors of K by kind and size and lay them out flat."""
        m = b.size
        order = sorted(range(len(cones)), key=lambda k: cones[k].kind)
        starts = np.cumsum([0, *(cones[k].entries for k in order)])
        size = int(starts[-1])
        cone_slices = [slice(0, 0)] * len(cones)
        c = np.zeros(size)
        row, column, value = [], [], []
        for k, start in zip(order, starts[:-1].tolist(), strict=True):
            cone_slices[k] = slice(start, start + cones[k].entries)
            coo = cones[k].rows.tocoo()
            row.append(coo.coords[0])
            column.append(coo.coords[1].astype(np.int64) + start)
            value.append(coo.data)
            cost = cones[k].cost
            if cost is not None:
                c[cone_slices[k]] = cost
        groups: tuple[list[ConeGroup], list[ConeGroup]] = [], []
        start = 0
        for (rank, n), members in groupby(cones[k].kind for k in order):
            if rank < 2:
                group = ConeGroup(len(list(members)), start, n, (n, n) if rank == 0 else (n,))
                groups[rank].append(group)
                start = group.slice.stop
        index = np.int32 if max(size, m) < 2**31 - 1 else np.int64
        parts = [np.concatenate([np.zeros(0, dtype=index), *part]) for part in (row, column)]
        coords = tuple(part.astype(index) for part in parts)
        rows = sp.csr_array((np.concatenate([np.zeros(0), *value]), coords), shape=(m, size))
        columns = sp.csr_array((m, 0)) if free is None else sp.csr_array(free)
        return cls(
            rows,
            rows.T.tocsr(),
            columns,
            b,
            c,
            np.zeros(columns.shape[1]) if f is None else f,
            tuple(groups[0]),
            tuple(groups[1]),
            tuple(cone_slices),
        )

    @property
    def m(self) -> int:
        """Number of equality constraints of the primal program."""
        return int(self.b.size)

    @property
    def size(self) -> int:
        """Length of a flat vector."""
        return int(self.c.size)

    @property
    def non_matrix(self) -> slice:
        """Slice of all entries outside the PSD blocks."""
        return slice(self.psd_groups[-1].slice.stop if self.psd_groups else 0, self.size)

    @property
    def nonneg(self) -> slice:
        """Slice of the entries of the non-negative orthants."""
        groups = self.second_order_groups
        return slice(groups[-1].slice.stop if groups else self.non_matrix.start, self.size)

    @property
    def degree(self) -> int:
        """Barrier degree of K, with one per second-order cone: the sum of <x, z> / mu on the central path."""
        nonneg = self.nonneg
        return (
            sum(g.n * g.count for g in self.psd_groups)
            + sum(g.count for g in self.second_order_groups)
            + (nonneg.stop - nonneg.start)
        )
