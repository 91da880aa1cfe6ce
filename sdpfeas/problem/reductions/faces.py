"""Restrict a problem to faces of its sets, in exact integer arithmetic (one step of facial reduction).

A face of PSD(n) is ``{V S V' : S in PSD(r)}``; a face of Nonneg(n) is a subset of its entries. Free blocks
and boxes have no smaller face here. ``X in PSD(n)`` → ``X = V S V'``, ``S in PSD(r)``, rows ``V' A_i V``.
With V and the rows in integers the reduced problem has exactly the points of the original one on the face.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.integer_matrices import (
    EXACT_FLOAT,
    as_floats,
    as_int64,
    identity,
    independent_rows,
    integral,
    product,
    row_divisors,
)
from sdpfeas.numerics.limits import check_deadline, guard
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.integer_rows import IntegralRows
from sdpfeas.problem.rows.base import dense_array, stored_rows
from sdpfeas.problem.sets import PSD, BlockSet, Nonneg

# --- tables: the rows of one block on a face, flattened; a CSR array of int64, or an array of Python integers

#: Bound of sums of products in int64, with one bit to spare before overflow.
LARGEST = 2**62

#: Cost of one term of a sparse product, in multiply-adds and in bytes.
TERM_FLOPS, TERM_BYTES = 320.0, 32.0

#: Tables with a larger share of nonzeros are stored dense.
DENSE_SHARE = 0.25


def is_sparse(table: Any) -> bool:
    """Return whether a table is a CSR array."""
    return bool(sp.issparse(table))


def congruences(rows: Any, basis: np.ndarray) -> Any | None:
    """Return ``V' A_i V`` for all rows in int64; None if that may overflow."""
    m, (n, side) = rows.shape[0], basis.shape
    largest = max(int(basis.max(initial=0)), -int(basis.min(initial=0)))
    sums = int(np.max(abs(rows).sum(axis=1), initial=0))
    if not rows.nnz or not basis.size:
        return sp.csr_array((m, side * side), dtype=np.int64)
    if sums * largest**2 >= LARGEST:
        return None
    v = sp.csr_array(basis)
    lengths = np.diff(v.indptr)
    _guard_product(lengths[rows.indices % n])
    half = sp.coo_array(sp.csr_array(sp.coo_array(rows).reshape((m * n, n))) @ v)
    row, first = np.divmod(half.coords[0].astype(np.int64), n)
    _guard_product(lengths[first])
    turned = sp.csr_array((half.data, (row * side + half.coords[1], first)), shape=(m * side, n))
    out = sp.csr_array(sp.coo_array(turned @ v).reshape((m, side * side)))
    out.eliminate_zeros()
    return out


def _guard_product(lengths: np.ndarray) -> None:
    count = float(lengths.sum(dtype=np.float64))
    guard("the rows on a face", TERM_FLOPS * count, memory=TERM_BYTES * count)


def filled(table: Any, side: int | None) -> np.ndarray:
    """Return the distinct nonzero columns of a table as a dense array, for the test of linear independence.

    For matrices of the given ``side``, only columns of the upper triangle; ``side`` is None for vectors.
    """
    columns = np.unique(table.indices) if is_sparse(table) else np.arange(table.shape[1])
    if side is not None:
        first, second = np.divmod(columns, side)
        columns = columns[first <= second]
    if not is_sparse(table):
        return np.asarray(table[:, columns])
    return dense_array(_distinct(sp.csc_array(table[:, columns])))


def _distinct(table: Any) -> Any:
    """Remove duplicate columns; if a hash collision occurs, return all columns."""
    marks = np.random.default_rng(0).integers(1, LARGEST, size=table.shape[0])
    _, first, place = np.unique(table.T @ marks, return_index=True, return_inverse=True)
    few = table[:, first]
    # Columns with the same hash, a random sum modulo 2**64, are almost surely equal; compare to be sure.
    return table if (table - few[:, place]).nnz else few


def divisors(table: Any) -> list[int]:
    """Return the greatest common divisor of every row; zero for a zero row."""
    if not is_sparse(table):
        return row_divisors(table)
    out = np.zeros(table.shape[0], dtype=np.int64)
    np.gcd.at(out, stored_rows(table), np.abs(table.data))
    return [int(v) for v in out.tolist()]


def divided(table: Any, own: np.ndarray) -> Any:
    """Divide every row by a divisor of its entries."""
    if is_sparse(table):
        # The divisor of a zero row is that of its bounds and may exceed int64.
        short = np.array([d if d < LARGEST else 1 for d in own], dtype=np.int64)
        values = table.data // short[stored_rows(table)]
        return sp.csr_array((values, table.indices, table.indptr), table.shape)
    out = table.copy()
    which = np.flatnonzero(own != 1)
    out[which] //= own[which, None]
    return out


class NotReduced(ProblemError):
    """The problem on a face has data that are not exactly representable as doubles."""


@dataclass(frozen=True)
class Faces:
    """A face of every set, with the bounds of the rows on it.

    ``bases``: for a PSD block the integer matrix V with independent columns; for a Nonneg block the indices
    of the entries that may be positive; None for other blocks. ``lower, upper``: bounds of the integer rows.
    They are equal for an inequality that a facial reduction certificate has shown to be active.
    """

    rows: IntegralRows
    bases: tuple[np.ndarray | None, ...]
    lower: tuple[int | None, ...]
    upper: tuple[int | None, ...]

    @classmethod
    def whole(cls, rows: IntegralRows) -> Faces:
        """Return the sets themselves as faces."""

        def basis(block: BlockSet) -> np.ndarray | None:
            if type(block) is PSD:
                return identity(block.n)
            return np.arange(block.n) if type(block) is Nonneg else None

        bases = tuple(basis(block) for block in rows.problem.sets)
        return cls(rows, bases, tuple(rows.lower), tuple(rows.upper))

    @property
    def problem(self) -> FeasibilityProblem:
        """The original problem."""
        return self.rows.problem

    @property
    def sizes(self) -> tuple[int, ...]:
        """Size of the face of every block: the side of S, or the number of entries."""
        pairs = zip(self.bases, self.problem.sets, strict=True)
        return tuple(block.n if basis is None else basis.shape[-1] for basis, block in pairs)

    def images(self, weights: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the weighted sum of the rows on the face of every block."""
        check_deadline("rows on a face")
        for basis, total in zip(self.bases, self.rows.adjoint(weights), strict=True):
            yield self._on(basis, total)

    def _on(self, basis: np.ndarray | None, total: np.ndarray) -> np.ndarray:
        """Restrict a coefficient array to a face: ``V' A V``, or a subset of the entries."""
        if basis is None:
            return total
        if basis.ndim == 1:
            return total[basis]
        return product(product(basis.T, total), basis)

    def terms(self, given: Point) -> Point | None:
        """Restrict a linear objective to the nonempty faces; None if it is not exactly representable."""
        out = []
        for term, basis, size in zip(given, self.bases, self.sizes, strict=True):
            if not size:
                continue
            if basis is None or basis.ndim == 1:
                out.append(term if basis is None else term[basis])
                continue
            whole, places = np.zeros(term.shape, dtype=object), np.nonzero(term)
            whole[places], common = integral(map(Fraction, term[places].tolist()))
            try:
                values = _floats(self._on(basis, whole))
            except NotReduced:
                return None
            bits = common.bit_length() - 1  # denominators of doubles are powers of two
            turned = np.ldexp(values, -bits)
            if not np.array_equal(np.ldexp(turned, bits), values):
                return None
            out.append(turned)
        return tuple(out)

    def row(self, b: int, i: int) -> np.ndarray:
        """Return row ``i`` on the face of block ``b``."""
        block, basis = self.problem.sets[b], self.bases[b]
        place, values = self.rows.row(b, i)
        if basis is not None and basis.ndim == 2:
            # Only the rows of V at nonzero entries of the row are needed.
            first, second = np.divmod(place, block.n)
            own = np.unique(first)
            part = np.zeros((own.size, own.size), dtype=object)
            part[np.searchsorted(own, first), np.searchsorted(own, second)] = values
            return self._on(basis[own], part)
        total = np.zeros(math.prod(block.shape), dtype=object)
        total[place] = values
        return self._on(basis, total.reshape(block.shape))

    def table(self, b: int) -> Any:
        """Return all rows on the face of block ``b``, as CSR array of int64 or array of Python integers."""
        basis, words = self.bases[b], self.rows.words[b]
        if words is not None and (basis is None or basis.ndim == 1):
            return words if basis is None else sp.csr_array(words[:, basis])
        short = None if words is None or basis is None else as_int64(basis)
        found = None if short is None else congruences(words, short)
        if found is not None:
            return found
        width = math.prod(_shape(self.problem.sets[b], self.sizes[b]))
        guard("the rows on a face", memory=8.0 * self.problem.m * width)
        out = np.zeros((self.problem.m, width), dtype=object)
        if not self.problem.rows[b].empty:
            for i in range(self.problem.m):
                check_deadline("the rows on a face")
                out[i] = self.row(b, i).reshape(-1)
        return out

    def point(self, point: Point) -> Point:
        """Map a point on the nonempty faces to a point of the problem: ``X = V S V'``."""
        parts = iter(point)
        exact = any(part.dtype == object for part in point)
        out = []
        for block, basis, size in zip(self.problem.sets, self.bases, self.sizes, strict=True):
            full = np.full(block.shape, Fraction(0), dtype=object) if exact else np.zeros(block.shape)
            if size:
                part = next(parts)
                if basis is None:
                    full = part
                elif basis.ndim == 1:
                    full[basis] = part
                else:
                    v = basis if exact else basis.astype(np.float64)
                    full = v.dot(part).dot(v.T)
                    full = full if exact else symmetrize(full)
            out.append(full)
        return tuple(out)

    def coordinates(self, point: Point) -> Point:
        """Return the least-squares solution S of ``V S V' = X`` for every nonempty face."""
        out: list[FloatArray] = []
        for x, basis, size in zip(point, self.bases, self.sizes, strict=True):
            if not size:
                continue
            if basis is None:
                out.append(x)
            elif basis.ndim == 1:
                out.append(x[basis])
            else:
                inverse = np.linalg.pinv(basis.astype(np.float64))
                out.append(symmetrize(inverse @ x @ inverse.T))
        return tuple(out)

    @cached_property
    def reduction(self) -> FaceReduction | None:
        """The problem on these faces; None if all faces are zero.

        Raises ``NotReduced`` if the data are not exactly representable as doubles.
        """
        # The last reduction is cached on the rows, because several searches arrive at equal faces.
        known: tuple[Faces, FaceReduction | None] | None = self.rows.last_reduction
        if known is None or not known[0].same(self):
            copies = tuple(None if basis is None else basis.copy() for basis in self.bases)
            known = self.rows.last_reduction = replace(self, bases=copies), reduce_to(self)
        return known[1]

    def same(self, other: Faces) -> bool:
        """Return whether bases and bounds are equal."""
        bases = zip(self.bases, other.bases, strict=True)
        return (
            self.rows is other.rows
            and (self.lower, self.upper) == (other.lower, other.upper)
            and all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in bases)
        )


@dataclass(frozen=True)
class FaceReduction(Reduction):
    """A problem on faces of its sets; equivalent to the original if the faces contain all its points."""

    faces: Faces
    kept: np.ndarray
    _factors: tuple[Fraction, ...]

    def point(self, point: Point) -> Point:
        """Return ``X = V S V'``."""
        return self.faces.point(point)

    def start_point(self, point: Point) -> Point:
        """Return the least-squares solution S of ``V S V' = X``."""
        return self.faces.coordinates(point)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Return multipliers of the original rows; a certificate holds only for points on the face."""
        out = np.zeros(self.original.m)
        out[self.kept] = y * np.array([float(f) for f in self._factors])
        return out

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Return the multipliers of the kept rows."""
        return y[self.kept] / np.array([float(f) for f in self._factors])

    def weights(self, y: np.ndarray) -> np.ndarray:
        """Map rational multipliers to rational multipliers of the original rows."""
        out = np.full(self.original.m, Fraction(0), dtype=object)
        out[self.kept] = [Fraction(v) * f for v, f in zip(y, self._factors, strict=True)]
        return out


def reduce_to(faces: Faces) -> FaceReduction | None:
    """Build the problem on faces; see :attr:`Faces.reduction`."""
    problem = faces.problem
    blocks = [b for b, size in enumerate(faces.sizes) if size]
    if not blocks:
        return None
    tables = [faces.table(b) for b in blocks]
    sides = [faces.sizes[b] if problem.sets[b].matrix else None for b in blocks]
    whole = np.concatenate([filled(table, side) for table, side in zip(tables, sides, strict=True)], axis=1)
    kept = _needed(whole, faces)
    chosen = [table[kept] for table in tables]
    own = np.array([math.gcd(*divisors) for divisors in zip(*map(divisors, chosen), strict=True)], object)
    factors = list[Fraction]()
    ends = [np.full(len(kept), sign * np.inf) for sign in (-1.0, 1.0)]
    for k, i in enumerate(kept):
        bounds = [end[i] for end in (faces.lower, faces.upper)]
        own[k] = math.gcd(own[k], *(v for v in bounds if v is not None)) or 1
        factors.append(faces.rows.scales[i] / own[k])
        for end, bound in zip(ends, bounds, strict=True):
            if bound is not None:
                end[k] = _float(Fraction(bound) / own[k])
    sets = [_face_set(problem.sets[b], faces.sizes[b]) for b in blocks]
    rows = [_stored(divided(part, own), block) for part, block in zip(chosen, sets, strict=True)]
    names = None if problem.row_names is None else [problem.row_names[i] for i in kept]
    block_names = None if problem.block_names is None else [problem.block_names[b] for b in blocks]
    smaller = FeasibilityProblem(sets, rows, ends[0], ends[1], names, block_names)
    return FaceReduction(problem, smaller, faces, np.array(kept, dtype=np.int64), tuple(factors))


def _shape(block: BlockSet, size: int) -> tuple[int, ...]:
    return (size,) * len(block.shape)


def _face_set(block: BlockSet, size: int) -> BlockSet:
    return replace(block, n=size) if isinstance(block, (PSD, Nonneg)) else block


def _stored(table: Any, block: BlockSet) -> Any:
    """Convert a table to an argument for ``FeasibilityProblem``; None if it is zero."""
    count = table.shape[0]
    if not count or (is_sparse(table) and not table.nnz):
        return None
    if not is_sparse(table):
        return _floats(table).reshape(count, *block.shape)
    values = sp.csr_array((_floats(table.data), table.indices, table.indptr), table.shape)
    return (
        values
        if values.nnz <= DENSE_SHARE * math.prod(values.shape)
        else values.toarray().reshape(count, *block.shape)
    )


def _float(value: Fraction) -> float:
    """Convert a fraction to a double; raise ``NotReduced`` if it is not exactly representable."""
    try:
        out = float(value)
    except OverflowError:
        out = math.inf
    if out != value:
        raise NotReduced("bounds on a face are not exactly representable as doubles")
    return out


def _floats(values: np.ndarray) -> FloatArray:
    """Convert integers to doubles; raise ``NotReduced`` if one is not exactly representable."""
    try:
        out = as_floats(values)
    except OverflowError:
        out = np.full(values.shape, np.inf)
    large = np.abs(out) > EXACT_FLOAT
    if large.any() and any(map(operator.ne, out[large].tolist(), values[large].tolist())):
        raise NotReduced("rows on a face hold integers that are not exactly representable as doubles")
    return out


def _needed(table: np.ndarray, faces: Faces) -> list[int]:
    """Return the rows to keep: independent equality rows, and inequalities that are not trivial."""
    equal = _equalities(faces)
    known = table[equal]
    right = np.array([faces.lower[i] for i in equal], dtype=object)
    short = as_int64(right)
    known = np.column_stack([known, right if short is None else short])
    kept = {equal[k] for k in independent_rows(known)} if equal else set()
    for i in set(range(len(table))) - set(equal):
        low, high = faces.lower[i], faces.upper[i]
        empty = not table[i].any()
        if not (empty and (low is None or low <= 0) and (high is None or high >= 0)):
            kept.add(i)
    return sorted(kept)


def _equalities(faces: Faces) -> list[int]:
    ends = zip(faces.lower, faces.upper, strict=True)
    return [i for i, (low, high) in enumerate(ends) if low is not None and low == high]
