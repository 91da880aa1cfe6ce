"""Least-norm corrections in the local metric of a point: for graded points and nearly dependent rows.

For a positive definite ``X``, every step ``L S L'`` with ``||S|| < 1`` keeps ``X + L S L'`` positive definite
if ``X - L L'`` is positive semidefinite (a Dikin ellipsoid). With ``L`` a share of the Cholesky factor of
``X``, steps are long where ``X`` is large and short where it is small, and the rows become ``L' A_i L``: the
length of a correction does not depend on the basis. Second-order and Hermitian cones are handled as linear
images of semidefinite matrices, vectors entry by entry. :class:`MetricSystem` has the interface of
:class:`sdpfeas.verifier.equality_correction.CorrectionSystem`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray, cholesky, eigh, symmetrize
from sdpfeas.numerics.rounding import (
    TINY,
    UNIT,
    definite,
    gamma,
    inflate,
    norm_upper,
    norms_upper,
    product_up,
    quotient_up,
    shift_up,
    sum_up,
    symmetric_norm_upper,
)
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Dense, Rows, Sparse, Stacked
from sdpfeas.problem.rows.base import EMPTY, largest_by_row, stored_rows
from sdpfeas.problem.sets import PSD, BlockSet
from sdpfeas.verifier.gram import UNDERFLOW, Gram

#: Rounds of Cholesky QR: the first reduces a condition number of 1e15 to 1e8, the second to about one.
ORTHONORMALISATION_ROUNDS = 4

#: Largest accepted distance of a Gram matrix from the identity. Any value below one is valid.
MAX_GRAM_DEVIATION = 0.5


@dataclass(frozen=True)
class ScaledVectors:
    """Explicit vectors, one per row, each scaled by a power of two.

    ``vectors`` have largest entries of about one, ``slips`` bounds the norm of the error of each,
    ``exponents`` are the powers of two by which they are to be multiplied.
    """

    vectors: FloatArray
    slips: FloatArray
    exponents: np.ndarray

    @property
    def norms(self) -> FloatArray:
        """Upper bounds of the norms of the unscaled vectors."""
        return shift_up(sum_up(norms_upper(self.vectors), self.slips), self.exponents)

    @classmethod
    def beside(cls, parts: list[ScaledVectors]) -> ScaledVectors:
        """Concatenate parts of the same vectors."""
        exponents = np.max([part.exponents for part in parts], axis=0)
        vectors, slips = [], []
        for part in parts:
            power = part.exponents - exponents  # not positive
            vectors.append(np.ldexp(part.vectors, power[:, None]))
            lost = part.vectors.shape[1] * TINY
            slips.append(sum_up(shift_up(part.slips, power), np.where(power < 0, lost, 0.0)))
        return cls(np.hstack(vectors), sum_up(*slips), exponents)

    @classmethod
    def below(cls, parts: list[ScaledVectors]) -> ScaledVectors:
        """Stack several sets of vectors."""
        joined = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("vectors", "slips", "exponents")
        )
        return cls(*joined)


class Orthonormalisation:
    """Vectors with a combination that is provably nearly orthonormal, if one is found.

    A Gram matrix squares the condition number of its vectors ``B``. Here a matrix ``P`` is computed that
    makes ``P B`` orthonormal up to rounding (repeated Cholesky QR). Nothing is assumed about ``P``: the Gram
    matrix of ``P B`` is enclosed, and if it is near the identity, ``B s = r`` has a solution with ``||s|| <=
    || |P| |r| || / sigma_min(P B)``.
    """

    def __init__(self, written: ScaledVectors) -> None:
        self._given = written

    @cached_property
    def _scaled(self) -> tuple[FloatArray, FloatArray, np.ndarray]:
        """The vectors scaled to norm about one, bounds of their errors, and their exponents."""
        vectors, slips = self._given.vectors, self._given.slips
        power = np.clip(np.frexp(norms_upper(vectors))[1], -900, 900)
        vectors = np.ldexp(vectors, -power[:, None])
        lost = np.where(power > 0, vectors.shape[1] * TINY, 0.0)
        return vectors, sum_up(shift_up(slips, -power), lost), self._given.exponents + power

    @cached_property
    def _found(self) -> tuple[FloatArray, FloatArray, float] | None:
        """The matrix ``P``, the vectors ``P B``, and a lower bound of their smallest singular value; None on
        failure.
        """
        vectors, slips, _ = self._scaled
        m, n = vectors.shape
        if m > n or not (np.isfinite(vectors).all() and np.isfinite(slips).all()):
            return None
        work = float(m) ** 2 * n
        memory = 8.0 * (2.0 * m * n + 4.0 * m * m)
        guard("making rows orthonormal", 5.0 * work + 4.0 * float(m) ** 3, memory=memory)
        combination, made = np.eye(m), vectors
        for turn in range(ORTHONORMALISATION_ROUNDS):
            gram = made @ made.T
            near = self._near(gram, made)
            if near < MAX_GRAM_DEVIATION:
                slip = self._slip(combination, vectors, slips) if turn else norm_upper(slips)
                root = math.nextafter(math.sqrt(math.nextafter(1.0 - near, 0.0)), 0.0)
                least = math.nextafter(root - slip, -math.inf)
                return (combination, made, least) if least > 0.0 else None
            factor = _factor(gram, n)
            if factor is None:
                return None
            combination = scipy.linalg.solve_triangular(factor, combination, lower=True, check_finite=False)
            if not np.isfinite(combination).all():
                return None
            made = combination @ vectors
        return None

    @staticmethod
    def _near(gram: FloatArray, made: FloatArray) -> float:
        """Bound the distance of the Gram matrix of these vectors from the identity."""
        m, n = made.shape
        off = np.abs(gram - np.eye(m))
        off = np.maximum(off, off.T)
        sizes = norm_upper(made)
        rounding = product_up(gamma(n + 4), sizes, sizes)
        return float(sum_up(symmetric_norm_upper(inflate(off, 2)), rounding, float(m) * m * n * TINY))

    @staticmethod
    def _slip(combination: FloatArray, vectors: FloatArray, slips: FloatArray) -> float:
        """Bound the norm of the error of the computed combinations."""
        m = vectors.shape[0]
        each = sum_up(product_up(gamma(m + 2), norms_upper(vectors)), slips)
        totals = inflate(np.abs(combination) @ each, m + 2)
        lost = float(m) * m * vectors.shape[1] * TINY * (1.0 + float(np.max(np.abs(combination))))
        return float(sum_up(norm_upper(totals), lost))

    def shortest_upper(self, target: FloatArray) -> float:
        """Bound the norm of the least-norm solution of ``B s = r`` over all ``|r| <= target``; infinity if
        unproved.
        """
        if not target.any():
            return 0.0
        if self._found is None:
            return math.inf
        combination, _, least = self._found
        scaled = shift_up(target, -self._scaled[2])
        if not np.isfinite(scaled).all():
            return math.inf
        size = inflate(np.abs(combination) @ scaled, scaled.size + 2)
        lost = np.where(np.any(scaled != 0.0), scaled.size * TINY, 0.0)
        return float(quotient_up(norm_upper(sum_up(size, lost)), least))

    @property
    def usable(self) -> bool:
        """Whether a nearly orthonormal combination was found."""
        return self._found is not None

    def shortest(self, target: FloatArray) -> FloatArray:
        """Return the least-norm solution of ``B s = target``, up to rounding."""
        assert self._found is not None
        combination, made, _ = self._found
        return np.asarray(made.T @ (combination @ np.ldexp(target, -self._scaled[2])))


def _factor(gram: FloatArray, depth: int) -> FloatArray | None:
    """Return the Cholesky factor of a Gram matrix, shifted if it is singular up to rounding."""
    m = gram.shape[0]
    shift = 0.0
    for _ in range(2):
        factor, info = scipy.linalg.lapack.dpotrf(gram + shift * np.eye(m), lower=1, clean=1)
        if info == 0 and np.isfinite(factor).all():
            return np.asarray(factor)
        shift = 11.0 * UNIT * (m * depth + m * (m + 1.0)) * float(np.max(np.diagonal(gram), initial=0.0))
    return None


#: ``L L'`` as a share of the matrix. A larger share allows longer steps, but the proof that they stay inside
#: fails more often.
STEP_SHARE = 0.5

#: An equation that is missed by at most this multiple of its rounding error counts as met.
MET_RADII = 4.0

#: Largest number of products of a proof in the local metric: some seconds.
MAX_PRODUCTS = 5e10

#: Cost per entry of a row while it is transformed and bounded, mostly in newly allocated memory.
FLOPS_PER_ENTRY = 64.0 * WRITE_FLOPS


@dataclass(frozen=True)
class Movable:
    """A block that may move, with its equality rows and how far it may move.

    For a matrix ``weight`` is a proven distance to the boundary (a correction of smaller Frobenius norm stays
    inside); for a vector it holds one distance per entry.
    """

    block: int
    rows: Rows
    weight: float | FloatArray
    #: Prescribed trace of a SpectralBox; None if there is none.
    trace: float | None = None
    #: Proven bound of the deviation from that trace.
    trace_off: float = 0.0

    def capped(self, limit: float) -> Movable:
        """Return the block with all weights limited to ``limit``."""
        weight = self.weight
        return replace(
            self, weight=np.minimum(weight, limit) if isinstance(weight, np.ndarray) else min(weight, limit)
        )

    @property
    def reach(self) -> float:
        """Bound of the Frobenius norm of a unit correction."""
        return float(np.max(self.weight, initial=0.0))

    def length_upper(self, step: FloatArray) -> float:
        """Bound the length of a step in units of the weight."""
        weight = np.broadcast_to(np.asarray(self.weight, dtype=np.float64), step.shape)
        used = step != 0.0
        if not np.all(weight[used] > 0.0):
            return math.inf
        return norm_upper(quotient_up(np.abs(step[used]), weight[used]))

    def transformed(self, rows: Rows) -> ScaledVectors:
        """Return the rows in the coordinates of the step: times the weights."""
        cells = float(rows.m) * self.size
        # Scaling and bounding them takes most of the time: 80 to 105 ns per number, at side 500.
        guard("columns written out", 120.0 * WRITE_FLOPS * cells, memory=48.0 * cells)
        weight = np.broadcast_to(np.asarray(self.weight, dtype=np.float64), rows.shape).reshape(-1)
        mantissa, power = np.frexp(weight)
        power = np.where(weight == 0.0, EMPTY, power)
        seen = _ScaledRows(rows, power, None)
        values, sizes = (part.toarray() * mantissa for part in (seen.values, seen.sizes))
        slips = product_up(gamma(seen.depth + 4), norms_upper(inflate(sizes, seen.depth + 4)))
        return ScaledVectors(values, sum_up(slips, seen.lost), seen.exponents)

    def step(self, s: FloatArray) -> FloatArray:
        """Return the displacement of a step."""
        return np.asarray(self.weight * s.reshape(self.rows.shape))

    @property
    def size(self) -> int:
        """Number of coordinates of a step."""
        return int(np.prod(self.rows.shape))

    def start(self, x: FloatArray) -> FloatArray | None:
        """Distance of the starting point of steps from ``x``, entry by entry; None if they are equal."""
        return None


class CongruenceBlock:
    """A block of matrices, or of linear images of matrices, that may move by ``L S L'``.

    Row ``p`` of ``L`` is ``2**powers[p]`` times row ``p`` of ``root``; ``matrix`` is the starting point of
    steps, for which ``L`` is proved admissible.
    """

    def __init__(
        self, block: int, rows: Rows, kind: BlockSet, root: FloatArray, powers: np.ndarray, matrix: FloatArray
    ) -> None:
        self.block, self.rows, self._set = block, rows, kind
        self._root, self._powers, self._matrix = root, powers, matrix
        self._map = None if kind.matrix else kind.psd_map()
        self.trace = kind.trace
        self.trace_off = kind.trace_missed(matrix) if kind.matrix else 0.0

    @cached_property
    def reach(self) -> float:
        """Bound of the Frobenius norm of a unit step."""
        length = norm_upper(shift_up(norms_upper(self._root), self._powers))
        longest = 1.0 if self._map is None else _norm_of(self._map)
        return float(product_up(length, length, longest))

    @property
    def weight(self) -> float:
        """Bound of the Frobenius norm of a unit step, under the name that other blocks use."""
        return self.reach

    @property
    def size(self) -> int:
        """Number of coordinates of a step."""
        return int(self._root.size)

    def slope(self, array: FloatArray) -> float:
        """Bound the change of the inner product with ``array`` under a unit step."""
        return float(self.transformed(Dense(array[None])).norms[0])

    def transformed(self, rows: Rows) -> ScaledVectors:
        """Return the rows in the coordinates of the step: ``L' A_i L``."""
        n = self._root.shape[0]
        entries = float(rows.m) * n * n
        flops = entries * (4.0 * n + FLOPS_PER_ENTRY)
        guard("rows in the metric of a point", flops, memory=48.0 * entries)
        seen = _ScaledRows(rows, np.add.outer(self._powers, self._powers).reshape(-1), self._map)
        return self._congruent(seen.values, seen.sizes, seen.depth, seen.lost, seen.exponents)

    def transformed_trace(self) -> ScaledVectors:
        """Return the identity matrix in the coordinates of the step; all powers of two are equal."""
        eye = sp.csr_array(np.eye(self._root.shape[0]).reshape(1, -1))
        return self._congruent(eye, eye, 0, np.zeros(1), np.array([2 * int(self._powers[0])]))

    def _congruent(
        self, values: Any, sizes: Any, depth: int, lost: FloatArray, exponents: np.ndarray
    ) -> ScaledVectors:
        n = self._root.shape[0]
        seen = _congruence(values, self._root)
        size = _congruence(sizes, np.abs(self._root))
        lengths = norms_upper(inflate(size, 2 * n + depth + 8))
        slips = product_up(gamma(2 * n + depth + 8), lengths)
        # Earlier underflow errors are transformed as well.
        through = product_up(lost, float(product_up(norm_upper(self._root), norm_upper(self._root))))
        slips = sum_up(slips, through, np.where(lengths > 0.0, float(n) ** 3 * TINY, 0.0))
        return ScaledVectors(seen, slips, exponents)

    def step(self, s: FloatArray) -> FloatArray:
        """Return the displacement of a step."""
        scaled = np.ldexp(self._root, self._powers[:, None])
        moved = symmetrize(scaled @ s.reshape(scaled.shape) @ scaled.T)
        return moved if self._map is None else np.asarray(self._map.T @ moved.reshape(-1))

    def start(self, x: FloatArray) -> FloatArray | None:
        """Distance of the image of ``matrix`` from ``x``, entry by entry; None for a block of matrices."""
        if self._map is None:
            return None
        flat = self._matrix.reshape(-1)
        image, size = self._map.T @ flat, abs(self._map).T @ np.abs(flat)
        count = self._map.shape[0]
        off = inflate(np.abs(image - x), 2)
        return sum_up(
            off, product_up(gamma(count + 4), inflate(size, count)), np.where(size > 0.0, count * TINY, 0.0)
        )


class _ScaledRows:
    """Rows with a power of two per entry, as sparse matrices: ``values``, and ``sizes`` with absolute terms.

    Every row is scaled by a power of two such that its entries are at most one.
    """

    def __init__(self, rows: Rows, powers: np.ndarray, turn: Any | None) -> None:
        stored = only_stored(rows)
        plain = turn is None and stored
        if plain:
            values, own, self.depth = rows.to_csr(), np.zeros(rows.m, dtype=np.int64), 0
        else:
            units, own = (rows, np.zeros(rows.m, dtype=np.int64)) if stored else rows.units()
            own = np.where(own == EMPTY, 0, own)
            self.depth = sum(rows.depths) + sum(units.depths) + 8
            values, sizes = units.to_csr(), units.to_csr(magnitude=True)
            if turn is not None:
                values, sizes = sp.csr_array(values @ turn.T), sp.csr_array(sizes @ abs(turn).T)
                self.depth += int(np.max(np.diff(sp.csr_array(turn).indptr), initial=0)) + 2
        mantissa, exponent = np.frexp((values if plain else sizes).data)
        table = values if plain else sizes
        total = exponent + powers[table.indices]
        tops = largest_by_row(table, np.where(mantissa == 0.0, EMPTY, total))
        empty = tops <= EMPTY // 2
        tops = np.where(empty, 0, tops)
        self.exponents = np.where(empty, EMPTY, tops + own)
        self.sizes = sp.csr_array(
            (np.ldexp(np.abs(mantissa), total - tops[stored_rows(table)]), table.indices, table.indptr),
            table.shape,
        )
        if plain:
            signs = np.where(mantissa < 0.0, -1.0, 1.0)
            self.values = sp.csr_array((self.sizes.data * signs, table.indices, table.indptr), table.shape)
            self.lost = np.where(empty, 0.0, table.shape[1] * TINY)
            return
        data = np.ldexp(values.data, powers[values.indices] - tops[stored_rows(values)])
        self.values = sp.csr_array((data, values.indices, values.indptr), values.shape)
        before = shift_up(np.full(rows.m, 4.0 * TINY if stored else UNDERFLOW), np.max(powers) - tops)
        self.lost = np.where(
            empty, 0.0, sum_up(product_up(float(table.shape[1]), before), table.shape[1] * TINY)
        )


def only_stored(rows: Rows) -> bool:
    """Whether all entries of the rows are stored explicitly, so that nothing has to be multiplied out."""
    if isinstance(rows, Stacked):
        return all(only_stored(part) for part in rows.parts)
    return isinstance(rows, (Dense, Sparse))


def _congruence(rows: Any, root: FloatArray) -> FloatArray:
    """Return ``L' A_i L`` for all rows, each a flattened matrix."""
    m, n = rows.shape[0], root.shape[0]
    half = sp.csr_array(sp.coo_array(rows).reshape((m * n, n))) @ root
    return np.asarray(np.matmul(root.T, np.asarray(half).reshape(m, n, n)).reshape(m, n * n))


def _norm_of(matrix: Any) -> float:
    """Upper bound of the spectral norm of a sparse matrix."""
    size = abs(matrix)
    rows, columns = float(size.sum(axis=1).max()), float(size.sum(axis=0).max())
    return float(inflate(np.sqrt(rows) * np.sqrt(columns), sum(matrix.shape) + 4))


def _root(kind: BlockSet, x: FloatArray) -> tuple[FloatArray, np.ndarray] | None:
    """Return ``L``, with a power of two per row, such that every slack minus ``L L'`` is definite; None if
    unproved.

    The slacks are ``X`` for a cone, and ``X - lower I`` and ``upper I - X`` for a box. Definiteness is proved
    by Rump's shifted Cholesky test.
    """
    diagonal, slacks = np.diagonal(x), kind.slacks
    n = x.shape[0]
    if kind.cone:
        if not np.all(diagonal > 0.0):
            return None
        powers = np.frexp(diagonal)[1].astype(np.int64) // 2
    else:
        largest = max(float(np.max(np.abs(x))), *(abs(shift) for _, shift in slacks))
        powers = np.full(n, np.frexp(largest)[1] // 2, dtype=np.int64)
    scaled = np.ldexp(x, -np.add.outer(powers, powers))
    shifts = [(sign, float(np.ldexp(shift, -2 * int(powers[0])))) for sign, shift in slacks]
    if kind.cone:
        try:
            root = np.sqrt(STEP_SHARE) * cholesky(scaled)
        except np.linalg.LinAlgError:
            return None
    else:
        lam, vec = eigh(scaled)
        slack = np.min([sign * lam + shift for sign, shift in shifts], axis=0)
        if not np.min(slack) > 0.0:
            return None
        root = vec * np.sqrt(STEP_SHARE * slack)
    square = symmetrize(root @ root.T)
    size = np.abs(root)
    error = product_up(gamma(n + 4), inflate(symmetrize(size @ size.T), n + 4))
    for sign, shift in shifts:
        left = sign * scaled + shift * np.eye(n) - square
        rounding = product_up(4.0 * UNIT, sum_up(np.abs(scaled), abs(shift) * np.eye(n), np.abs(square)))
        spread = symmetric_norm_upper(sum_up(error, rounding, np.full((n, n), 8.0 * n * TINY)))
        if not definite(symmetrize(left), shift=spread):
            return None
    return root, powers


def _side(block: BlockSet) -> int | None:
    """Side of the matrices that are factorised for a block; None if there are none."""
    return block.n if block.matrix else block.psd_side


def metric_block(b: int, block: BlockSet, x: FloatArray, rows: Rows) -> Movable | CongruenceBlock | None:
    """Return a block with a proved set of admissible steps; None if nothing is proved."""
    if block.entrywise:
        weight = block.interior_radius(x, STEP_SHARE)
        return None if weight is None else Movable(b, rows, weight)
    side = _side(block)
    if side is None:
        return None
    matrix = x if block.matrix else symmetrize(block.psd_preimage(x))
    root = _root(block if block.matrix else PSD(side), matrix)
    return None if root is None else CongruenceBlock(b, rows, block, *root, matrix)


Part = TypeVar("Part", bound="Movable | CongruenceBlock")


class CorrectingSystem(ABC, Generic[Part]):
    """The equality rows on the blocks that may move, in units of how far these may move.

    ``m`` is the number of equality rows; one trace equation follows per box with a prescribed trace.
    ``used`` bounds the part of the admissible correction that led to the current point.
    """

    used = 0.0

    def __init__(self, parts: Sequence[Part], m: int) -> None:
        self.parts = list(parts)
        self.m = m
        self.blocks = frozenset(part.block for part in parts)

    @property
    def traced(self) -> list[Part]:
        """The boxes with a prescribed trace."""
        return [part for part in self.parts if part.trace is not None]

    @property
    @abstractmethod
    def solver(self) -> Gram | Orthonormalisation:
        """The weighted equality rows, for least-norm solutions."""

    @property
    def usable(self) -> bool:
        """Whether corrections can be computed."""
        return self.solver.usable

    def starts(self, point: Point) -> dict[int, FloatArray]:
        """Distances of the starting points of steps from the given point, entry by entry, by block."""
        found = {part.block: part.start(point[part.block]) for part in self.parts}
        return {b: off for b, off in found.items() if off is not None}

    def correction_upper(self, residual: FloatArray) -> float:
        """Bound the least-norm correction, in units of the weights, for residuals of absolute value up to
        ``residual``; infinity without a block that can move.
        """
        off = np.array([part.trace_off for part in self.traced], dtype=np.float64)
        return self.solver.shortest_upper(np.concatenate([residual, off])) if self.parts else math.inf

    def _targets(self, point: Point, residual: FloatArray) -> FloatArray:
        """Return the residuals of the rows, then of the traces."""
        off = [(part.trace or 0.0) - float(np.trace(point[part.block])) for part in self.traced]
        return np.concatenate([residual, off])

    @abstractmethod
    def drift_upper(self, problem: FeasibilityProblem) -> FloatArray:
        """Bound the change of every inequality row under a unit correction."""

    @abstractmethod
    def correct(self, point: Point, residual: FloatArray) -> Point:
        """Return the point after the least-norm correction of ``residual = lower - A(X)``, up to rounding."""


class MetricSystem(CorrectingSystem["Movable | CongruenceBlock"]):
    """The equality rows in the local metric of a point."""

    @cached_property
    def solver(self) -> Orthonormalisation:
        written = [part.transformed(part.rows) for part in self.parts]
        own = [ScaledVectors.beside(written)]
        widths = [part.size for part in self.parts]
        for traced in self.traced:
            assert isinstance(traced, CongruenceBlock)
            line = traced.transformed_trace()
            place = self.parts.index(traced)
            before, after = sum(widths[:place]), sum(widths[place + 1 :])
            vectors = np.hstack([np.zeros((1, before)), line.vectors, np.zeros((1, after))])
            own.append(ScaledVectors(vectors, line.slips, line.exponents))
        return Orthonormalisation(ScaledVectors.below(own))

    def drift_upper(self, problem: FeasibilityProblem) -> FloatArray:
        """Bound the change of every inequality row under a unit correction."""
        out, index = np.zeros(problem.m), problem.inequality_rows
        if index.size == 0:
            return out
        for part in self.parts:
            rows = problem.rows[part.block]
            if not rows.empty and np.any(problem.upper_norms[part.block][index] > 0.0):
                out[index] = sum_up(out[index], part.transformed(rows.select(index)).norms)
        return out

    def correct(self, point: Point, residual: FloatArray) -> Point:
        """Return the point after the least-norm correction of the equality rows, up to rounding."""
        s = self.solver.shortest(self._targets(point, residual))
        moved = list(point)
        for part, own in zip(
            self.parts, np.split(s, np.cumsum([p.size for p in self.parts])[:-1]), strict=True
        ):
            moved[part.block] = moved[part.block] + part.step(own)
        return tuple(moved)


def metric_system(problem: FeasibilityProblem, point: Point) -> MetricSystem | None:
    """Return the equality rows in the local metric of a point; None if there are none, too many, or no block
    may move.
    """
    index = problem.equality_rows
    touched = {
        b: rows
        for b, rows in enumerate(problem.rows)
        if not rows.empty and index.size and np.any(problem.block_norms[b][index] > 0.0)
    }
    sides = np.array([_side(problem.sets[b]) or 0 for b in touched], dtype=np.float64)
    width = sum(problem.sets[b].n for b in touched if problem.sets[b].entrywise) + float(np.sum(sides**2))
    work = 4.0 * index.size * float(np.sum(sides**3)) + 5.0 * float(index.size) ** 2 * width
    if not touched or index.size > width or work > MAX_PRODUCTS:
        return None
    found = [metric_block(b, problem.sets[b], point[b], rows.select(index)) for b, rows in touched.items()]
    parts = [part for part in found if part is not None]
    return MetricSystem(parts, index.size) if parts else None
