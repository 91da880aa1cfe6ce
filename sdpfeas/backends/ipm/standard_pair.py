"""The standard pair of cone programs that the sparse interior-point method works on.

``min <c, x> + f'u`` subject to ``A x + B u = b``, ``x`` in K, ``u`` free, beside ``max b'y`` subject to ``c -
A'y`` in K and ``B'y = f``. K is a product of cones of positive semidefinite matrices, of second-order cones
and of non-negative numbers. A member is one flat vector: the matrices written out in full, those of one side
next to each other, then the vectors of second-order cones, those of one length next to each other, then the
numbers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.sets import BlockSet, SecondOrder


@dataclass(frozen=True)
class ConeRows:
    """One factor of K with what stands on it.

    ``side``: side of the matrices; zero for vectors. ``rows``: shape (m, entries): full symmetric matrices,
    one a row, flattened. ``cost``: its part of c, flat; None for zero. ``curved``: whether it is a
    second-order cone.
    """

    side: int
    rows: Any
    cost: FloatArray | None = None
    curved: bool = False

    @classmethod
    def on(cls, block: BlockSet, rows: Any, cost: FloatArray | None = None) -> ConeRows:
        """Rows on a set that is a cone."""
        curved = isinstance(block, SecondOrder) and block.n > 1
        return cls(block.n if block.matrix else 0, rows, cost, curved)

    @property
    def entries(self) -> int:
        """Numbers of a member."""
        return int(self.rows.shape[1])


@dataclass(frozen=True)
class _Alike:
    """Members of cones of one kind and size, next to each other in a flat vector from ``start`` on."""

    count: int
    start: int

    @property
    @abstractmethod
    def _shape(self) -> tuple[int, ...]:
        """Of one of them."""

    @property
    def place(self) -> slice:
        """Where all of them are."""
        return slice(self.start, self.start + self.count * math.prod(self._shape))

    def of(self, flat: FloatArray) -> FloatArray:
        """Return the members in a flat vector, one along the first axis each."""
        return flat[self.place].reshape(self.count, *self._shape)


@dataclass(frozen=True)
class Group(_Alike):
    """Matrices of one side."""

    side: int

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.side, self.side


@dataclass(frozen=True)
class Bundle(_Alike):
    """Vectors of second-order cones of one dimension."""

    dimension: int

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.dimension,)


@dataclass(frozen=True)
class StandardPair:
    """The data of both programs.

    ``rows``: a, shape (m, size), compressed by rows. ``free``: b, shape (m, number of free variables).
    ``bundles``: where second-order cones are; the numbers come after the last one. ``places``: where each
    cone is that was given.
    """

    rows: Any
    adjoint: Any
    free: Any
    b: FloatArray
    c: FloatArray
    f: FloatArray
    groups: tuple[Group, ...]
    bundles: tuple[Bundle, ...]
    places: tuple[slice, ...]

    @property
    def m(self) -> int:
        """Number of rows."""
        return int(self.b.size)

    @property
    def size(self) -> int:
        """Length of a flat vector."""
        return int(self.c.size)

    @property
    def vectors(self) -> slice:
        """Where everything is that is no matrix."""
        return slice(self.groups[-1].place.stop if self.groups else 0, self.size)

    @property
    def lines(self) -> slice:
        """Where the non-negative numbers are."""
        return slice(self.bundles[-1].place.stop if self.bundles else self.vectors.start, self.size)

    @property
    def degree(self) -> int:
        """Complementary pairs of numbers: eigenvalues, entries, and one for each second-order cone."""
        lines = self.lines
        return (
            sum(g.side * g.count for g in self.groups)
            + sum(b.count for b in self.bundles)
            + (lines.stop - lines.start)
        )


def standard_pair(
    cones: Sequence[ConeRows], b: FloatArray, free: Any = None, f: FloatArray | None = None
) -> StandardPair:
    """Put cones in order and lay them out flat.

    ``cones``: the factors of K, in any order. ``b``: right-hand side, one number a row.
    """
    m = b.size
    kinds = [_kind(cone) for cone in cones]
    order = sorted(range(len(cones)), key=kinds.__getitem__)
    starts = np.cumsum([0, *(cones[k].entries for k in order)])
    size = int(starts[-1])
    places = [slice(0, 0)] * len(cones)
    c = np.zeros(size)
    which, where, value = [], [], []
    for k, start in zip(order, starts[:-1].tolist(), strict=True):
        places[k] = slice(start, start + cones[k].entries)
        coo = cones[k].rows.tocoo()
        which.append(coo.coords[0])
        where.append(coo.coords[1].astype(np.int64) + start)
        value.append(coo.data)
        cost = cones[k].cost
        if cost is not None:
            c[places[k]] = cost
    groups, bundles, start = list[Group](), list[Bundle](), 0
    for (rank, side), members in groupby(kinds[k] for k in order):
        if rank == 0:
            groups.append(Group(len(list(members)), start, side))
            start = groups[-1].place.stop
        elif rank == 1:
            bundles.append(Bundle(len(list(members)), start, side))
            start = bundles[-1].place.stop
    index = np.int32 if max(size, m) < 2**31 - 1 else np.int64
    parts = [np.concatenate([np.zeros(0, dtype=index), *part]) for part in (which, where)]
    coords = tuple(part.astype(index) for part in parts)
    rows = sp.csr_array((np.concatenate([np.zeros(0), *value]), coords), shape=(m, size))
    columns = sp.csr_array((m, 0)) if free is None else sp.csr_array(free)
    costs = np.zeros(columns.shape[1]) if f is None else f
    return StandardPair(
        rows, rows.T.tocsr(), columns, b, c, costs, tuple(groups), tuple(bundles), tuple(places)
    )


def _kind(cone: ConeRows) -> tuple[int, int]:
    """Matrices come first, by their side, then second-order cones, by their dimension, then numbers."""
    if cone.side:
        return 0, cone.side
    return (1, cone.entries) if cone.curved else (2, 0)
