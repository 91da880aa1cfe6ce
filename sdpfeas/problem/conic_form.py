"""The cone form of a problem: minimise ``c'x`` subject to ``A x + s = b``, with cones on ``x`` and on ``s``.

Every conversion for a solver or a file of cone programs starts here: :func:`conic_form` writes a problem as a
:class:`ConicForm`, whose methods change its shape. :meth:`ConicForm.dual` exchanges rows and columns,
:meth:`ConicForm.cones_on_rows` makes the variables free (Clarabel, SCS, CVXOPT, the LMI side of SDPA),
:meth:`ConicForm.cones_on_columns` makes all rows equations (SeDuMi, the primal side of SDPA), and
:meth:`ConicForm.with_margin` asks for the point deepest inside the cones. Every form maps solutions back:
:meth:`ConicForm.point`, :meth:`ConicForm.multipliers`, :meth:`ConicForm.evidence`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ClaimError
from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray, Triangle, symmetrize, triangle_map, triangle_size
from sdpfeas.problem.reductions.cones_to_psd import cones_to_psd
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SecondOrder, SpectralBox
from sdpfeas.problem.validation import counted

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem, Point

#: Cost of building the form, in floating-point numbers written per entry of a block; measured at side 7000.
NUMBERS_PER_ENTRY = 150.0

#: Share of the gap of a certificate that a deeper certificate must keep.
KEPT_GAP_SHARE = 0.5

#: A packed matrix times these weights off the diagonal is the matrix: for points, and for multipliers.
Weights = tuple[float, float]

#: Both scaled by the root of two, as solvers want it; and entries as they are, without rounding.
SVEC, ENTRIES = (math.sqrt(0.5), math.sqrt(0.5)), (1.0, 0.5)

#: Maps a solution (x, z) of a form to one of the form that it was made from; either may be None.
Back = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Cones:
    """Product of cones, in the order of the entries.

    ``free`` counts free entries (of ``x``) or zero entries (of ``s``), which are dual to each other.
    ``second_order`` has the lengths of vectors, ``semidefinite`` the sides of matrices stored as triangles.
    """

    free: int = 0
    nonneg: int = 0
    second_order: tuple[int, ...] = ()
    semidefinite: tuple[int, ...] = ()

    @classmethod
    def of(cls, parts: Iterable[tuple[int, int]]) -> Cones:
        """Return the product of cones given by kinds (indices of ``kinds``) and lengths or sides."""
        by_kind: list[list[int]] = [[], [], [], []]
        for kind, n in parts:
            by_kind[kind].append(n)
        return cls(sum(by_kind[0]), sum(by_kind[1]), tuple(by_kind[2]), tuple(by_kind[3]))

    @property
    def entrywise(self) -> int:
        """Number of free and non-negative entries."""
        return self.free + self.nonneg

    @property
    def before_psd(self) -> int:
        """Number of entries before the first matrix."""
        return self.entrywise + sum(self.second_order)

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.before_psd + sum(map(triangle_size, self.semidefinite))

    @property
    def second_order_slices(self) -> list[tuple[int, slice]]:
        """Length and slice of every second-order cone."""
        return _slices(self.second_order, self.second_order, self.entrywise)

    @property
    def semidefinite_slices(self) -> list[tuple[int, slice]]:
        """Side and slice of every matrix."""
        return _slices(self.semidefinite, tuple(map(triangle_size, self.semidefinite)), self.before_psd)

    @property
    def kinds(self) -> list[slice]:
        """Slices of the free, non-negative, second-order and semidefinite entries."""
        ends = [0, self.free, self.entrywise, self.before_psd, self.size]
        return [slice(a, b) for a, b in pairwise(ends)]

    def plus(self, other: Cones) -> Cones:
        """Return the product of both, by kinds."""
        return Cones(
            self.free + other.free,
            self.nonneg + other.nonneg,
            self.second_order + other.second_order,
            self.semidefinite + other.semidefinite,
        )


def _slices(orders: tuple[int, ...], sizes: tuple[int, ...], start: int) -> list[tuple[int, slice]]:
    ends = start + np.cumsum(sizes, dtype=np.int64)
    return [(n, slice(int(e) - k, int(e))) for n, k, e in zip(orders, sizes, ends, strict=True)]


@dataclass(frozen=True, repr=False)
class ConicForm:
    """``min cost @ x`` subject to ``matrix @ x + s = rhs``, ``x`` in ``columns`` and ``s`` in ``rows``.

    In ``x`` and ``s`` a symmetric matrix is its triangle, column by column, with off-diagonal entries
    multiplied by sqrt(2) unless ``weights`` differ. A vector ``z`` in the dual cones of ``rows`` with
    ``matrix.T @ z`` in those of ``columns`` and ``rhs @ z < 0`` is a Farkas certificate.

    ``row_interior`` and ``column_interior`` are interior directions of the cones, scaled to the inner radius
    of bounded sets. ``row_strict`` and ``column_strict`` mark the entries at which a certificate must be
    strictly interior to survive rounding.
    """

    matrix: Any
    rhs: FloatArray
    cost: FloatArray
    rows: Cones
    columns: Cones
    row_interior: FloatArray
    column_interior: FloatArray
    row_strict: np.ndarray
    column_strict: np.ndarray
    triangle: Triangle = "lower"
    weights: Weights = SVEC
    _source: ConicForm | None = None
    _back: Back | None = None

    @classmethod
    def free_variables(cls, cost: FloatArray, matrix: Any, rhs: FloatArray, rows: Cones) -> ConicForm:
        """Make a form with free variables from its data; the matrices are upper triangles."""
        m, n = matrix.shape
        marks = np.zeros(m, dtype=bool), np.zeros(n, dtype=bool)
        return cls(matrix, rhs, cost, rows, Cones(n), np.zeros(m), np.zeros(n), *marks, "upper")

    def __repr__(self) -> str:
        """Return shape and cones in one line."""
        rows, columns = self.matrix.shape
        return (
            f"ConicForm: {counted(rows, 'row')}, {counted(columns, 'column')}, "
            f"{counted(self.matrix.nnz, 'nonzero')}; zero {self.zero}, "
            f"nonneg {self.nonneg}, {len(self.second_order)} second-order, "
            f"{len(self.semidefinite)} semidefinite ({self.triangle})"
        )

    @property
    def zero(self) -> int:
        """Number of equations, which are the first rows."""
        return self.rows.free

    @property
    def nonneg(self) -> int:
        """Number of inequalities, which are the next rows."""
        return self.rows.nonneg

    @property
    def second_order(self) -> tuple[int, ...]:
        """Lengths of the second-order cones of the next rows."""
        return self.rows.second_order

    @property
    def semidefinite(self) -> tuple[int, ...]:
        """Sides of the matrices of the last rows."""
        return self.rows.semidefinite

    # --- the way back

    def back(self, x: Any, z: Any) -> tuple[Any, Any]:
        """Map a solution to the form that this one was made from, or to the problem; either may be None."""
        for values, size, name in ((x, self.columns.size, "x"), (z, self.rows.size, "z")):
            if values is not None and np.shape(values) != (size,):
                raise ClaimError(f"{name} has shape {np.shape(values)}, expected {(size,)}")
        return (x, z) if self._back is None else self._back(x, z)

    def evidence(self, x: Any, z: Any) -> tuple[Point | None, FloatArray | None]:
        """Map a solution to a point and to multipliers of the problem; either may be None.

        ``z`` are the multipliers of the rows. A Farkas certificate is mapped to one.
        """
        x, z = self.back(x, z)
        return (x, z) if self._source is None else self._source.evidence(x, z)

    def point(self, x: Any) -> Point:
        """Map the variables ``x`` to a point of the problem."""
        point = self.evidence(np.asarray(x, dtype=float), None)[0]
        assert point is not None
        return point

    def multipliers(self, z: Any) -> FloatArray:
        """Map the multipliers ``z`` of the rows to those of the problem; a certificate is mapped to one."""
        y = self.evidence(None, np.asarray(z, dtype=float))[1]
        assert y is not None
        return y

    def whole(self, cones: Cones) -> Any:
        """Return the map from a packed vector to one with whole matrices, entry by entry."""
        maps = (triangle_map(n, self.weights[0], self.triangle) for n in cones.semidefinite)
        return sp.block_diag([sp.eye_array(cones.before_psd), *maps], format="csr")

    def packing(self, cones: Cones) -> Any:
        """Return the map from a vector with whole symmetric matrices to the packed one."""
        maps = (triangle_map(n, self.weights[1], self.triangle).T for n in cones.semidefinite)
        return sp.block_diag([sp.eye_array(cones.before_psd), *maps], format="csr")

    # --- other shapes

    def dual(self) -> ConicForm:
        """Return the dual form: its variables are the multipliers of this one, and vice versa."""
        return replace(
            self,
            matrix=sp.csr_array(-self.matrix.T),
            rhs=self.cost,
            cost=self.rhs,
            rows=self.columns,
            columns=self.rows,
            row_interior=self.column_interior,
            column_interior=self.row_interior,
            row_strict=self.column_strict,
            column_strict=self.row_strict,
            weights=self.weights[::-1],
            _source=self,
            _back=lambda x, z: (z, x),
        )

    def cones_on_rows(self) -> ConicForm:
        """Return the form with free variables: rows ``-x + s = 0`` for ``x`` in a cone."""
        proper = replace(self.columns, free=0)
        own, size = np.arange(self.rows.size), self.rows.size
        added = [slice(part.start + size, part.stop + size) for part in proper.kinds]
        every = np.arange(size + proper.size)
        parts = zip(self.rows.kinds, added, strict=True)
        order = np.concatenate([part for a, b in parts for part in (own[a], every[b])])
        place = np.argsort(order)[:size]
        identity = sp.eye_array(self.columns.size, format="csr")[self.columns.free :]
        free = self.columns.free

        def ordered(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return np.concatenate([rows, columns[free:]])[order]

        return replace(
            self,
            matrix=sp.csc_array(sp.vstack([self.matrix, -identity], format="csr")[order]),
            rhs=ordered(self.rhs, np.zeros(self.columns.size)),
            rows=self.rows.plus(proper),
            columns=Cones(self.columns.size),
            row_interior=ordered(self.row_interior, self.column_interior),
            column_interior=np.zeros(self.columns.size),
            row_strict=ordered(self.row_strict, self.column_strict),
            column_strict=np.zeros(self.columns.size, dtype=bool),
            _source=self,
            _back=lambda x, z: (x, None if z is None else z[place]),
        )

    def cones_on_columns(self) -> ConicForm:
        """Return the form with equations only: a variable for every slack ``s`` in a cone."""
        return self.dual().cones_on_rows().dual()

    def without_free_columns(self) -> ConicForm:
        """Return the form with free variables split: ``x = x_1 - x_2`` with ``x_1, x_2 >= 0``."""
        free = self.columns.free
        split = np.concatenate([np.arange(free), np.arange(self.columns.size)])
        sign = np.ones(split.size)
        sign[free : 2 * free] = -1.0

        def back(x: Any, z: Any) -> tuple[Any, Any]:
            return None if x is None else np.append(x[:free] - x[free : 2 * free], x[2 * free :]), z

        return replace(
            self,
            matrix=sp.csr_array(sp.csr_array(self.matrix)[:, split] @ sp.diags_array(sign)),
            cost=sign * self.cost[split],
            columns=replace(self.columns, free=0, nonneg=self.columns.nonneg + 2 * free),
            column_interior=np.append(np.ones(2 * free), self.column_interior[free:]),
            column_strict=np.append(np.ones(2 * free, dtype=bool), self.column_strict[free:]),
            _source=self,
            _back=back,
        )

    def with_margin(self) -> ConicForm:
        """Return the form that maximises the margin.

        Maximise ``t <= 1`` such that ``x - t·column_interior`` and ``s - t·row_interior`` are in the cones.
        The margin ``t`` is the last free column, its bound the last non-negative row.
        """
        at, below = self.columns.free, self.rows.entrywise
        matrix = sp.csc_array(self.matrix)
        column = sp.csc_array(self._margin_column[:, None])
        matrix = sp.csr_array(sp.hstack([matrix[:, :at], column, matrix[:, at:]], format="csr"))
        bound = sp.csr_array(([1.0], ([0], [at])), shape=(1, matrix.shape[1]))

        def back(x: Any, z: Any) -> tuple[Any, Any]:
            point = None if x is None else np.delete(x, at) + x[at] * self.column_interior
            return point, None if z is None else np.delete(z, below)

        return replace(
            self,
            matrix=_insert_rows(matrix, below, bound),
            rhs=np.insert(self.rhs, below, 1.0),
            cost=np.insert(np.zeros_like(self.cost), at, -1.0),
            rows=replace(self.rows, nonneg=self.rows.nonneg + 1),
            columns=replace(self.columns, free=at + 1),
            row_interior=np.insert(self.row_interior, below, 1.0),
            column_interior=np.insert(self.column_interior, at, 0.0),
            row_strict=np.insert(self.row_strict, below, False),
            column_strict=np.insert(self.column_strict, at, False),
            _source=self,
            _back=back,
        )

    @property
    def _margin_column(self) -> FloatArray:
        return np.asarray(self.matrix @ self.column_interior + self.row_interior)

    def deeper_certificates(self, z: FloatArray) -> ConicForm | None:
        """Return the form of all certificates that are no longer than ``z`` and keep half of its gap.

        With a margin it asks for the deepest of them. ``z`` is a certificate up to the tolerance of the
        solver: ``A'z`` and ``z`` in the dual cones and ``b'z < 0``. Returns None if no entry must be strict,
        or if ``z`` is no certificate.
        """
        column = self._margin_column
        length, gain = float(column @ z), -float(self.rhs @ z)
        inside = self.column_interior * self.column_strict, self.row_interior * self.row_strict
        if not (gain > 0.0 and length > 0.0 and (inside[0].any() or inside[1].any())):
            return None
        dual = self.dual()
        at = dual.rows.entrywise
        limits = sp.csr_array(np.stack([self.rhs * (length / gain), column]))
        return replace(
            dual,
            matrix=_insert_rows(dual.matrix, at, limits),
            rhs=np.insert(np.zeros(dual.rows.size), at, [-KEPT_GAP_SHARE, 1.0]),
            cost=np.zeros(dual.columns.size),
            rows=replace(dual.rows, nonneg=dual.rows.nonneg + 2),
            row_interior=np.insert(inside[0], at, [0.0, 0.0]),
            column_interior=inside[1],
            row_strict=np.insert(dual.row_strict, at, [False, False]),
            _back=lambda x, _: (None, x),
        )


def _insert_rows(matrix: Any, at: int, rows: Any) -> Any:
    return sp.csr_array(sp.vstack([matrix[:at], rows, matrix[at:]], format="csr"))


# --- from a problem to its form

_TAKEN = (Free, Nonneg, PSD, SecondOrder, SpectralBox)


def conic_form(
    problem: FeasibilityProblem,
    triangle: Triangle = "lower",
    *,
    objective: Point | None = None,
    scale: int | None = None,
    scaled: bool = True,
    weights: Weights = SVEC,
) -> ConicForm:
    """Write a problem as a cone form.

    Blocks are the columns, rows and LMIs the rows: equations, then one inequality per bound, LMIs, and the
    upper bounds of boxes. ``Z in SpectralBox(lower, upper, trace)`` → ``P = Z - lower·I`` in a PSD cone,
    ``(upper - lower)·I - P`` in another one as rows, and one equation for the trace. A Hermitian matrix
    becomes a real one of twice the side. If ``scaled``, blocks are divided by their size, then rows scaled to
    norm about one, both by powers of two.

    ``objective`` is to be maximised, one array per block (none of them Hermitian). ``scale`` is the index of
    a ``Nonneg(1)`` block by
    which every box is multiplied.
    """
    coefficients = (*problem.rows, *(rows for lmi in problem.lmis for rows in lmi.coefficients))
    sets = (*problem.sets, *(lmi.set for lmi in problem.lmis))
    entries = float(sum(rows.entries for rows in coefficients) + sum(s.entries for s in sets))
    guard("the cone form", NUMBERS_PER_ENTRY * WRITE_FLOPS * entries, memory=90.0 * entries)
    foreign = [s for s in sets if type(s) not in _TAKEN]
    if foreign and problem.lmis:
        slacks = problem.slack_form
        reduction = slacks.then(cones_to_psd(slacks.problem, _TAKEN))
    else:
        reduction = cones_to_psd(problem, _TAKEN)
    layout = _Layout(reduction.problem, triangle, weights, scale, scaled)

    def back(x: Any, z: Any) -> tuple[Any, Any]:
        point = None if x is None else reduction.point(layout.point(x))
        return point, None if z is None else reduction.multipliers(layout.multipliers(z))

    return replace(layout.form(objective), _back=back)


class _Rows(NamedTuple):
    """Rows in one cone or in several of one kind (an index of ``Cones.kinds``), and the way of multipliers.

    ``at`` and ``factor`` say where their multipliers belong: ``y[at] += factor * z``, with ``z`` unpacked.
    """

    kind: int
    matrix: Any
    rhs: FloatArray
    interior: FloatArray
    strict: bool = False
    side: int = 0
    at: Any = None
    factor: Any = 0.0


class _Layout:
    """Where the entries of a problem are in its cone form, and how they are scaled."""

    def __init__(
        self,
        problem: FeasibilityProblem,
        triangle: Triangle,
        weights: Weights,
        scale: int | None,
        scaled: bool,
    ) -> None:
        self.problem = problem
        self._triangle: Triangle = triangle
        self._weights = weights
        self._scale_block = scale
        kinds = [0 if block.free else _kind(block) for block in problem.sets]
        self._blocks: dict[int, slice] = {}
        start = 0
        for b in sorted(range(len(kinds)), key=kinds.__getitem__):
            self._blocks[b] = slice(start, start + problem.sets[b].dimension)
            start = self._blocks[b].stop
        self.columns = Cones.of((kinds[b], problem.sets[b].n) for b in self._blocks)
        self._flat = self._hstack([rows.to_csr() for rows in problem.rows])
        self._values = [
            self._pack(lmi.set).T @ self._hstack([part.to_csr().T for part in lmi.coefficients])
            for lmi in problem.lmis
        ]
        self._units = np.ones(len(problem.sets))
        self._factors = np.ones(problem.m)
        self._lmi_factors = np.ones(len(problem.lmis))
        if scaled:
            self._choose_scales()

    def _unpack(self, block: BlockSet) -> Any:
        """Return the map from the packed entries of a block to all its entries."""
        return self._map(block, self._weights[0])

    def _pack(self, block: BlockSet) -> Any:
        """Return the transposed map from all entries of a block to the packed ones; unpacks multipliers."""
        return self._map(block, self._weights[1])

    def _map(self, block: BlockSet, weight: float) -> Any:
        return triangle_map(block.n, weight, self._triangle) if block.matrix else sp.eye_array(block.n)

    def _hstack(self, parts: list[Any]) -> Any:
        """Put the coefficients on all blocks next to each other, in the order of the columns."""
        packed = [parts[b] @ self._unpack(self.problem.sets[b]) for b in self._blocks]
        return sp.csr_array(sp.hstack(packed, format="csr"))

    def _identity(self, block: BlockSet) -> FloatArray:
        return np.asarray(self._pack(block).T @ block.identity().reshape(-1))

    def _choose_scales(self) -> None:
        """Choose powers of two: the width of a box, the median size that the rows imply for other blocks."""
        problem = self.problem
        blocks = np.repeat(list(self._blocks), [part.stop - part.start for part in self._blocks.values()])
        constants = [np.abs(self._pack(lmi.set).T @ lmi.constant.reshape(-1)) for lmi in problem.lmis]
        bounds = [np.where(np.isfinite(each), np.abs(each), 0.0) for each in (problem.lower, problem.upper)]
        known = np.concatenate([np.maximum(*bounds), *constants])
        own = [_block_norms(value, blocks, len(problem.sets)) for value in self._values]
        norms = np.concatenate([problem.block_norms, *own], axis=1)
        sizes = np.ones(len(problem.sets))
        for b, block in enumerate(problem.sets):
            if block.bounded:
                sizes[b] = block.upper - block.lower
                known = known + norms[b] * block.spectral_radius
        for b, block in enumerate(problem.sets):
            if not block.bounded:
                sizes[b] = _median_size(known, norms[b])
        self._units = 1.0 / power_of_two(sizes, 100)
        self._factors = power_of_two(np.hypot.reduce(self._units[:, None] * problem.block_norms, axis=0))
        ends = np.cumsum([problem.m, *(len(part) for part in constants)])
        medians = [_median_size(known[a:b], np.ones(b - a)) for a, b in pairwise(ends)]
        self._lmi_factors = power_of_two(np.array(medians), 100)

    # --- forth

    def form(self, objective: Point | None) -> ConicForm:
        """Return the form."""
        n = self.columns.size
        interior, strict, units, cost = np.zeros(n), np.zeros(n, dtype=bool), np.ones(n), np.zeros(n)
        for b, part in self._blocks.items():
            block = self.problem.sets[b]
            units[part] = self._units[b]
            strict[part] = block.cone
            if not block.free:
                interior[part] = _inner_radius(block) / (self._units[b] if block.bounded else 1.0)
                interior[part] *= self._identity(block)
            if objective is not None:
                cost[part] = -self._units[b] * (self._unpack(block).T @ objective[b].reshape(-1))
        rows = sorted(self._row_parts(units), key=lambda part: part.kind)
        self._parts = rows
        return ConicForm(
            matrix=sp.csr_array(sp.vstack([part.matrix for part in rows], format="csr")),
            rhs=np.concatenate([part.rhs for part in rows]),
            cost=cost,
            rows=Cones.of((part.kind, part.side or part.rhs.size) for part in rows),
            columns=self.columns,
            row_interior=np.concatenate([part.interior for part in rows]),
            column_interior=interior,
            row_strict=np.concatenate([np.full(part.rhs.size, part.strict) for part in rows]),
            column_strict=strict,
            triangle=self._triangle,
            weights=self._weights,
        )

    def _row_parts(self, units: FloatArray) -> Iterator[_Rows]:
        problem, n = self.problem, self.columns.size
        scaling = sp.diags_array(units)
        matrix = sp.csr_array(sp.diags_array(self._factors) @ self._flat @ scaling)
        shift = np.zeros(problem.m)
        for _, block, rows in problem.blocks():
            if block.bounded and block.lower != 0.0 and not rows.empty:
                shift += rows.apply(block.lower * block.identity())
        matrix, offset = self._times_scale(matrix, -self._factors * shift)
        lower, upper = (bound * self._factors + offset for bound in (problem.lower, problem.upper))
        equal, low, high = problem.equality_rows, problem.lower_rows, problem.upper_rows
        depth = np.minimum(0.5 * (upper - lower), 1.0)
        for kind, index, sign in ((0, equal, -1.0), (1, low, 1.0), (1, high, -1.0)):
            rhs = -sign * (upper if index is high else lower)[index]
            margin = np.zeros(index.size) if kind == 0 else depth[index]
            factor = sign * self._factors[index]
            yield _Rows(kind, -sign * matrix[index], rhs, margin, at=index, factor=factor)
        for b, part in self._blocks.items():
            block = problem.sets[b]
            if not block.bounded:
                continue
            size, eye = part.stop - part.start, self._identity(block)
            own = sp.csr_array(sp.eye_array(size, n, k=part.start))
            if block.trace is not None:
                trace = np.array([(block.trace - block.n * block.lower) / self._units[b]])
                yield _Rows(0, *self._times_scale(sp.csr_array(eye[None] @ own), trace), np.zeros(1))
            width = (block.upper - block.lower) / self._units[b]
            margin = _inner_radius(block) / self._units[b] * eye
            yield _Rows(3, *self._times_scale(own, width * eye), margin, side=block.n)
        at = problem.m
        for lmi, value, factor in zip(problem.lmis, self._values, self._lmi_factors, strict=True):
            block, place = lmi.set, np.arange(at, at + lmi.set.entries)
            eye = factor * self._identity(block)
            constant = factor * (self._pack(block).T @ lmi.constant.reshape(-1))
            for sign, upto in block.slacks:  # sign·F(X) + upto·I is in the cone
                shifted, rhs = self._times_scale(-sign * factor * (value @ scaling), upto * eye)
                margin = _inner_radius(block) * eye if block.bounded else self._identity(block)
                rhs = sign * constant + rhs
                entries = place, self._pack(block)
                yield _Rows(_kind(block), shifted, rhs, margin, block.cone, block.n, entries, sign * factor)
            at += block.entries

    def _times_scale(self, matrix: Any, rhs: FloatArray) -> tuple[Any, FloatArray]:
        """Return rows whose right-hand side is constant or, with a scale block, a multiple of that."""
        if self._scale_block is None:
            return matrix, rhs
        b = self._scale_block
        at = np.full(rhs.size, self._blocks[b].start), self._units[b] * rhs
        column = sp.csr_array((at[1], (np.arange(rhs.size), at[0])), shape=matrix.shape)
        return sp.csr_array(matrix - column), np.zeros_like(rhs)

    # --- back

    def point(self, x: FloatArray) -> Point:
        """Map the variables of the form to a point."""
        tau = 1.0
        if self._scale_block is not None:
            tau = self._units[self._scale_block] * x[self._blocks[self._scale_block].start]
        out = []
        for b, block in enumerate(self.problem.sets):
            value = self._units[b] * x[self._blocks[b]]
            if block.matrix:
                value = symmetrize((self._unpack(block) @ value).reshape(block.shape))
            out.append(value + tau * block.lower * block.identity() if block.bounded else value)
        return tuple(out)

    def multipliers(self, z: FloatArray) -> FloatArray:
        """Map the multipliers of the form to those of rows and LMIs, with the signs of a certificate."""
        y = np.zeros(self.problem.multiplier_count)
        start = 0
        for part in self._parts:
            own = z[start : start + part.rhs.size]
            start += part.rhs.size
            if part.at is None:  # bounds of a box, which have no multiplier
                continue
            if isinstance(part.at, tuple):
                place, unpack = part.at
                y[place] += part.factor * (unpack @ own)
            else:
                y[part.at] += part.factor * (own if part.kind == 0 else np.maximum(own, 0.0))
        return y


def _kind(block: BlockSet) -> int:
    """Return the place of a proper cone in ``Cones.kinds``."""
    return 3 if block.matrix else 2 if isinstance(block, SecondOrder) and block.n > 1 else 1


def _inner_radius(block: BlockSet) -> float:
    """Return the inner radius of a bounded set, and one for a cone."""
    return block.depth(block.interior_point()) if block.bounded else 1.0


def _block_norms(matrix: Any, blocks: np.ndarray, count: int) -> FloatArray:
    """Return the norm of every row on every block, of shape (blocks, rows)."""
    largest = float(np.max(np.abs(matrix.data), initial=0.0)) or 1.0
    k = np.arange(blocks.size)
    member = sp.csr_array((np.ones(k.size), (k, blocks)), shape=(k.size, count))
    return largest * np.sqrt((sp.csr_array(matrix / largest).power(2) @ member).toarray().T)


def _median_size(known: FloatArray, norms: FloatArray) -> float:
    """Return the median of ``known / norms`` where both are positive, and one without any."""
    usable = (norms > 0.0) & (known > 0.0)
    if not usable.any():
        return 1.0
    return float(np.exp(np.median(np.log(known[usable]) - np.log(norms[usable]))))
