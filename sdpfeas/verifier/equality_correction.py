"""Least-norm corrections: existence of an exact solution near an approximate one (Theorem 5 of
docs/mathematics.md).

Let a point miss its equality rows by ``r = b - A(X)``. If the rows are linearly independent on the blocks
that may move, the least-norm correction ``A* (A A*)^-1 r`` makes them hold, and the corrected point stays in
its sets if the correction is shorter than the distance to their boundary. :class:`CorrectionSystem` bounds
the length of the correction in units of that distance. :mod:`sdpfeas.verifier.multipliers` applies the same
argument to certificates.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.limits import guard
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import (
    TINY,
    inflate,
    product_up,
    sqrt_upper,
    sum_up,
)
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Rows, Sparse
from sdpfeas.problem.rows.base import EMPTY
from sdpfeas.verifier.gram import (
    BOUND_SHARE,
    DENSE_ROWS_LIMIT,
    MAX_GRAM_PRODUCTS,
    Gram,
    ScaledGram,
    SparseGram,
)
from sdpfeas.verifier.point_metric import CorrectingSystem, Movable, only_stored

#: Number of equality rows above which a sparse Gram matrix is preferred. Dense cost grows with its cube.
MAX_DENSE_ROWS = 3000

#: Number of equality rows, or of columns of Free blocks, from which the Gram matrix is computed as a sparse
#: product.
SPARSE_PRODUCT_ROWS = 1000


class GramShare:
    """The contribution of one block to the Gram matrix: its rows times its weight, scaled by powers of two.

    ``exponents`` are the powers of two by which the scaled rows are to be multiplied.
    """

    def __init__(self, part: Movable) -> None:
        self._units, own = part.rows.units()
        self.reach = math.frexp(part.reach)[1]
        self.weight = np.ldexp(part.weight, -self.reach)
        self.exponents = np.where(own == EMPTY, EMPTY, own + self.reach)
        self.depth = self._units.gram_depth + self._units.n + 8

    @property
    def _vector(self) -> bool:
        return self.weight.ndim == 1

    def add_gram(self, total: FloatArray, scale: FloatArray) -> None:
        """Add the inner products of the rows, each row times a factor, to ``total``."""
        if self._vector:
            columns = self._units.columns() @ sp.diags_array(self.weight)
            found, square = columns @ columns.T, 1.0
        else:
            units, square = self._units, float(self.weight) ** 2
            found = units.sparse_gram() if isinstance(units, Sparse) else units.gram()
        if sp.issparse(found):
            coo = found.tocoo()
            i, j = coo.coords
            total[i, j] += square * coo.data * scale[i] * scale[j]
        else:
            total += square * found * scale[:, None] * scale

    def vectors(self, scale: FloatArray) -> Any:
        """Return the weighted rows as a sparse matrix, each row times a factor."""
        stored = sp.diags_array(scale) @ self._units.to_csr()
        return stored @ sp.diags_array(self.weight) if self._vector else stored * float(self.weight)

    @property
    def sizes(self) -> FloatArray:
        """Upper bounds of the norms of the weighted rows, with absolute values of all terms."""
        if not self._vector:
            return product_up(self._units.norms_upper, float(self.weight))
        weighted = self._units.columns(magnitude=True) @ sp.diags_array(self.weight)
        squares = np.asarray((weighted * weighted).sum(axis=1)).ravel()
        # Bound the underflow of squares.
        squares = np.where(self.exponents == EMPTY, 0.0, squares + self._units.n * TINY)
        return inflate(np.sqrt(squares), self.depth)

    def along_identity(self) -> tuple[FloatArray, float]:
        """Return the inner products of the rows with the identity matrix, and its squared norm."""
        n, square = self._units.n, float(self.weight) ** 2
        return square * self._units.enclose_apply(np.eye(n))[0], square * n


class CorrectionSystem(CorrectingSystem[Movable]):
    """The equality rows with one weight per matrix, or per entry of a vector."""

    @cached_property
    def _shares(self) -> list[GramShare]:
        return [GramShare(part) for part in self.parts]

    @cached_property
    def _exponents(self) -> np.ndarray:
        """Exponents of the weighted equality rows, then of the traces."""
        traces = [s.reach for s, part in zip(self._shares, self.parts, strict=True) if part.trace is not None]
        rows = [share.exponents for share in self._shares]
        return np.concatenate([np.max(rows, axis=0), traces]).astype(np.int64)

    def _scales(self) -> list[FloatArray]:
        """Powers of two, at most one, that scale the rows of every part to the common exponents."""
        # Underflow is negligible next to the larger share of another block.
        head = self._exponents[: self.m]
        return [np.ldexp(1.0, share.exponents - head) for share in self._shares]

    @cached_property
    def _sizes(self) -> FloatArray:
        """Upper bounds of the norms of the weighted equality rows."""
        pieces = zip(self._shares, self._scales(), strict=True)
        return sum_up(np.zeros(self.m), *(product_up(share.sizes, scale) for share, scale in pieces))

    def out_of_reach(self, residual: FloatArray) -> bool:
        """Whether a correction is expensive to bound, and at least one unit long.

        By Cauchy-Schwarz it is no shorter than a residual over the norm of its row.
        """
        if self.m < SPARSE_PRODUCT_ROWS:
            return False
        return bool(np.any(np.ldexp(residual, -self._exponents[: self.m]) > self._sizes))

    @cached_property
    def solver(self) -> Gram:
        """Gram matrix of the weighted equality rows."""
        size, exponents = self.m + len(self.traced), self._exponents
        if _sparse_product([part.rows for part in self.parts], size):
            sparse = self._sparse_gram()
            if sparse.products < MAX_GRAM_PRODUCTS or size > DENSE_ROWS_LIMIT:
                return sparse.factorable()
        flops = float(size) ** 3 + sum(part.rows.gram_flops for part in self.parts)
        guard("the Gram matrix of the equality rows", flops, memory=32.0 * float(size) ** 2)
        gram, sizes, head, trace = np.zeros((size, size)), np.zeros(size), slice(0, self.m), self.m
        sizes[head] = self._sizes
        for part, share, scale in zip(self.parts, self._shares, self._scales(), strict=True):
            share.add_gram(gram[head, head], scale)
            if part.trace is not None:
                along, length = share.along_identity()
                gram[head, trace] = gram[trace, head] = along * scale
                gram[trace, trace] = length
                sizes[trace] = sqrt_upper(float(inflate(length, 2)))
                trace += 1
        depth = max(share.depth for share in self._shares)
        return ScaledGram.of(gram, sizes, exponents, depth + len(self.parts) + 8)

    def _sparse_gram(self) -> SparseGram:
        trace, blocks = 0, []
        for part, share, scale in zip(self.parts, self._shares, self._scales(), strict=True):
            own = share.vectors(scale)
            below = sp.csr_array((len(self.traced), own.shape[1]))
            if part.trace is not None:
                places = np.arange(part.rows.n) * (part.rows.n + 1)
                along = np.full(places.size, float(share.weight))
                below = sp.csr_array((along, (np.full(places.size, trace), places)), shape=below.shape)
                trace += 1
            blocks.append(sp.vstack([own, below], format="csr"))
        return SparseGram(sp.hstack(blocks, format="csr"), self._exponents)

    def drift_upper(self, problem: FeasibilityProblem) -> FloatArray:
        """Bound the change of every row value under a unit correction."""
        moved = (product_up(part.reach, problem.upper_norms[part.block]) for part in self.parts)
        return sum_up(np.zeros(problem.m), *moved)

    def at(self, problem: FeasibilityProblem, point: Point, corrected: Point) -> CorrectionSystem:
        """Return the system of ``point`` for use at ``corrected``, with the same weights and Gram matrix.

        If the way between the points has length ``used``, a correction shorter than ``1 - used`` stays
        inside.
        """
        system = copy.copy(self)
        # A computed difference is too small by at most one rounding.
        steps = [inflate(np.abs(corrected[part.block] - point[part.block]), 2) for part in self.parts]
        lengths = [part.length_upper(step) for part, step in zip(self.parts, steps, strict=True)]
        system.used = float(np.max(lengths))  # NaN if one of them is
        system.parts = [
            replace(part, trace_off=problem.sets[part.block].trace_missed(corrected[part.block]))
            for part in self.parts
        ]
        return system

    def correct(self, point: Point, residual: FloatArray) -> Point:
        """Return the point after the least-norm correction of ``residual = lower - A(X)``, up to rounding."""
        z = self.solver.combination(self._targets(point, residual))
        moved = list(point)
        trace = self.m
        for part in self.parts:
            step = part.rows.adjoint(z[: self.m])
            if part.trace is not None:
                step = step + z[trace] * np.eye(part.rows.n)
                trace += 1
            moved[part.block] = moved[part.block] + np.square(part.weight) * step
        return tuple(moved)


def correct_point(problem: FeasibilityProblem, system: Any, point: Point) -> Point:
    """Apply two least-norm corrections; the result is not finite if numbers overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(2):
            residual = (problem.lower - problem.apply(point))[problem.equality]
            point = system.correct(point, residual)
        return tuple(block.symmetrize(x) for block, x in zip(problem.sets, point, strict=True))


def correction_systems(problem: FeasibilityProblem, point: Point) -> Iterator[CorrectionSystem]:
    """Yield correction systems for the equality rows at a point, the simplest first."""
    index = problem.equality_rows
    if index.size == 0:
        yield CorrectionSystem([], 0)
        return
    touched = [
        (b, rows.select(index))
        for b, rows in enumerate(problem.rows)
        if not rows.empty and np.any(problem.block_norms[b][index] > 0.0)
    ]
    movable = []
    for b, rows in touched:
        block, x = problem.sets[b], point[b]
        # The computed distance to the boundary is an estimate; a share of it is proved.
        weight = block.interior_radius(x, BOUND_SHARE)
        if weight is not None:
            movable.append(Movable(b, rows, weight, block.trace, block.trace_missed(x)))
    if affordable(movable, index.size):
        yield CorrectionSystem(movable, index.size)
        depths = [part.weight for part in movable if isinstance(part.weight, float)]
        if len(movable) > 1 and depths:
            # Very different weights can make the system ill-conditioned.
            yield CorrectionSystem([part.capped(min(depths)) for part in movable], index.size)


def _sparse_product(rows: list[Rows], size: int) -> bool:
    """Whether a Gram matrix of this size is computed as a sparse product of explicitly stored rows."""
    if not all(only_stored(each) for each in rows):
        return False
    sparse = sum(each.entries for each in rows) < size**2
    return size > DENSE_ROWS_LIMIT or (size >= SPARSE_PRODUCT_ROWS and sparse)


def affordable(parts: list[Movable], m: int) -> bool:
    """Whether the rows are few enough for a dense Gram matrix, or stored explicitly for a sparse one."""
    return m <= MAX_DENSE_ROWS or bool(
        parts and (m <= DENSE_ROWS_LIMIT or all(only_stored(part.rows) for part in parts))
    )
