"""Cone programs, their duals, and the standard form that conic solvers accept.

A :class:`ConeProgram` is ``min c'x`` subject to ``A x + s = b`` with cones on ``x`` and on ``s``. Its dual
has the same shape, so either can be passed to a solver (:func:`solve_direct`): in *primal form* the variables
are the entries of the point, in *dual form* the multipliers of the rows. Programs with a margin variable ask
for the point deepest inside the cones. :class:`SlackElimination` removes slack columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from sdpfeas.claims import Stop
from sdpfeas.numerics.linalg import FloatArray, Triangle, triangle_size

#: Which of a cone program and its dual is passed to a solver.
Form = Literal["auto", "primal", "dual"]

#: Share of the gap of a certificate that a deeper certificate must keep.
KEPT_GAP_SHARE = 0.5


@dataclass(frozen=True)
class Cones:
    """Product of cones, in the order of the entries.

    ``free`` counts free entries (of ``x``) or zero entries (of ``s``), which are dual to each other.
    ``second`` holds the lengths of second-order cones, ``psd`` the sides of matrices, stored as triangles.
    """

    free: int = 0
    nonneg: int = 0
    second: tuple[int, ...] = ()
    psd: tuple[int, ...] = ()

    @property
    def entrywise(self) -> int:
        """Number of free and non-negative entries."""
        return self.free + self.nonneg

    @property
    def before_psd(self) -> int:
        """Number of entries before the first matrix."""
        return self.entrywise + sum(self.second)

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.before_psd + sum(triangle_size(n) for n in self.psd)

    @property
    def second_slices(self) -> list[tuple[int, slice]]:
        """Length and slice of every second-order cone."""
        return _slices(self.second, self.second, self.entrywise)

    @property
    def psd_slices(self) -> list[tuple[int, slice]]:
        """Side and slice of every matrix."""
        return _slices(self.psd, tuple(map(triangle_size, self.psd)), self.before_psd)


def _slices(orders: tuple[int, ...], sizes: tuple[int, ...], start: int) -> list[tuple[int, slice]]:
    ends = start + np.cumsum(sizes, dtype=np.int64)
    return [(n, slice(int(e) - k, int(e))) for n, k, e in zip(orders, sizes, ends, strict=True)]


@dataclass(frozen=True)
class StandardForm:
    """``min q'v`` subject to ``M v + s = h``, ``s`` in the cones.

    ``cost``, ``matrix`` (CSC) and ``rhs`` are q, M and h. ``program_rows`` are the positions of the rows of
    the cone program among those of the form; the others hold the cones of ``x``.
    """

    cost: FloatArray
    matrix: Any
    rhs: FloatArray
    cones: Cones
    program_rows: np.ndarray


@dataclass(frozen=True)
class ConeSolution:
    """Solution, or infeasibility certificate, of a cone program.

    ``x`` are the variables, ``z`` the multipliers of the rows. If the solver reports primal infeasibility,
    ``z`` is a ray and ``x`` is None; if dual infeasibility, ``x`` is a ray and ``z`` is None.
    """

    x: FloatArray | None = None
    z: FloatArray | None = None
    raw_status: str = ""
    stop: Stop = Stop.FINISHED
    iterations: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_panic(cls, error: BaseException) -> ConeSolution:
        """Convert a Rust panic, which is no ``Exception``, into an empty solution; re-raise anything else."""
        if type(error).__name__ != "PanicException":
            raise error
        return cls(raw_status=f"panic: {error}", stop=Stop.NUMERICAL)


@dataclass(frozen=True)
class ConeProgram:
    """``min c'x`` subject to ``A x + s = b``, ``x`` in the cones ``columns``, ``s`` in the cones ``rows``.

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
    triangle: Triangle

    def dual(self) -> ConeProgram:
        """Return the dual program, whose solution is the multipliers of this one and vice versa."""
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
        )

    def standard_form(self) -> StandardForm:
        """Write the cones of ``x`` as additional rows ``-x + s = 0``."""
        rows, columns = self.rows, self.columns
        signs = sp.eye_array(columns.size, format="csr")[columns.free :]
        own = np.arange(rows.size)
        more = rows.size + np.arange(columns.size - columns.free)
        # Solvers want cones of one kind next to each other.
        ends = [(max(a - columns.free, 0), b - columns.free) for a, b in _kinds(columns)]
        order = np.concatenate(
            [
                part
                for (a, b), (c, d) in zip(_kinds(rows), ends, strict=True)
                for part in (own[a:b], more[c:d])
            ]
        )
        position = np.empty_like(order)
        position[order] = np.arange(order.size)
        return StandardForm(
            cost=self.cost,
            matrix=sp.csc_array(sp.vstack([self.matrix, -signs], format="csr")[order]),
            rhs=np.concatenate([self.rhs, np.zeros(more.size)])[order],
            cones=Cones(
                rows.free, rows.nonneg + columns.nonneg, rows.second + columns.second, rows.psd + columns.psd
            ),
            program_rows=position[: rows.size],
        )

    @property
    def _margin_column(self) -> FloatArray:
        """Column of the margin variable."""
        return np.asarray(self.matrix @ self.column_interior + self.row_interior)

    def with_margin(self) -> ConeProgram:
        """Return the program that maximises the margin.

        Maximise ``t <= 1`` such that ``x - t·column_interior`` and ``s - t·row_interior`` are in the cones.
        The margin ``t`` is the last free column, its bound the last non-negative row.
        """
        at, below = self.columns.free, self.rows.entrywise
        matrix = sp.csc_array(self.matrix)
        column = sp.csc_array(self._margin_column[:, None])
        matrix = sp.csr_array(sp.hstack([matrix[:, :at], column, matrix[:, at:]], format="csr"))
        bound = sp.csr_array(([1.0], ([0], [at])), shape=(1, matrix.shape[1]))
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
        )

    def without_margin(self, solution: ConeSolution) -> ConeSolution:
        """Map a solution of :meth:`with_margin` back; the margin is stored in ``info``."""
        x, z, info = solution.x, solution.z, dict(solution.info)
        if x is not None:
            at = self.columns.free
            info["margin"] = float(x[at])
            x = np.delete(x, at) + x[at] * self.column_interior
        if z is not None:
            z = np.delete(z, self.rows.entrywise)
        return replace(solution, x=x, z=z, info=info)

    def deeper_certificates(self, z: FloatArray) -> ConeProgram | None:
        """Return the program of all certificates that are no longer than ``z`` and keep half of its gap.

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
        )


def _kinds(cones: Cones) -> list[tuple[int, int]]:
    """Return begin and end of the entrywise part, the second-order cones and the matrices."""
    return [(0, cones.entrywise), (cones.entrywise, cones.before_psd), (cones.before_psd, cones.size)]


def _insert_rows(matrix: Any, at: int, rows: Any) -> Any:
    return sp.csr_array(sp.vstack([matrix[:at], rows, matrix[at:]], format="csr"))


def solve_direct(
    program: ConeProgram, form: Form, solve: Callable[[StandardForm], ConeSolution]
) -> ConeSolution:
    """Solve a cone program in primal or dual form.

    With "auto" the form with fewer variables is solved, and the other one after numerical failure.
    """
    first = ("dual" if program.rows.size < program.columns.size else "primal") if form == "auto" else form
    solution = _solve_form(program, first, solve)
    if form == "auto" and solution.stop is Stop.NUMERICAL:
        second = _solve_form(program, "primal" if first == "dual" else "dual", solve)
        status = f"{solution.raw_status} ({first} form), then {second.raw_status}"
        return replace(second, raw_status=status, iterations=solution.iterations + second.iterations)
    return solution


def _solve_form(
    program: ConeProgram, form: str, solve: Callable[[StandardForm], ConeSolution]
) -> ConeSolution:
    standard = (program if form == "primal" else program.dual()).standard_form()
    solution = solve(standard)
    x, z = solution.x, None if solution.z is None else solution.z[standard.program_rows]
    if form == "dual":
        x, z = z, x
    return replace(solution, x=x, z=z, info={**solution.info, "form": form})


class SlackElimination:
    """Removes columns that are slacks of equality rows, and maps solutions back.

    ``a·x_j + B x' = b`` with ``x_j >= 0`` in no other row -> ``B x' / a <= b / a``; likewise for second-order
    and PSD cones whose entries have one row each. An LMI with a slack block becomes a cone on rows again.
    """

    def __init__(self, original: ConeProgram) -> None:
        columns, rows = original.columns, original.rows
        single, whole, row_of = _slack_columns(original)
        second = [each for each in columns.second_slices if each in whole]
        psd = [each for each in columns.psd_slices if each in whole]
        self._original = original
        self._removed = np.concatenate([single, *(np.arange(p.start, p.stop) for _, p in second + psd)])
        self._kept = np.setdiff1d(np.arange(columns.size), self._removed)
        removed_rows = row_of[self._removed]
        equalities = np.setdiff1d(np.arange(rows.free), removed_rows)
        end = single.size + sum(n for n, _ in second)
        # New order of the rows: those of each kind of cone, then the rows whose slack was of that kind.
        self._order = np.concatenate(
            [
                equalities,
                np.arange(rows.free, rows.entrywise),
                removed_rows[: single.size],
                np.arange(rows.entrywise, rows.before_psd),
                removed_rows[single.size : end],
                np.arange(rows.before_psd, rows.size),
                removed_rows[end:],
            ]
        )
        # Positions of the removed columns among the new rows; both are in the same order.
        self._slots = np.flatnonzero(np.isin(self._order, removed_rows))
        self._scale = np.ones(rows.size)
        weights = original.matrix[removed_rows][:, self._removed].diagonal()
        self._scale[self._slots] = 1.0 / weights
        row_interior, row_strict = original.row_interior[self._order], original.row_strict[self._order]
        row_interior[self._slots] = original.column_interior[self._removed]
        row_strict[self._slots] = original.column_strict[self._removed]
        kinds = (columns.second_slices, columns.psd_slices)
        left = [tuple(n for n, p in kind if (n, p) not in whole) for kind in kinds]
        self.program = replace(
            original,
            matrix=sp.csr_array(sp.diags_array(self._scale) @ original.matrix[self._order][:, self._kept]),
            rhs=self._scale * original.rhs[self._order],
            cost=original.cost[self._kept],
            rows=Cones(
                equalities.size,
                rows.nonneg + single.size,
                rows.second + tuple(n for n, _ in second),
                rows.psd + tuple(n for n, _ in psd),
            ),
            columns=Cones(columns.free, columns.nonneg - single.size, *left),
            row_interior=row_interior,
            column_interior=original.column_interior[self._kept],
            row_strict=row_strict,
            column_strict=original.column_strict[self._kept],
        )

    def variables(self, x: FloatArray) -> FloatArray:
        """Map variables of the reduced program to those of the original."""
        out = np.zeros(self._original.columns.size)
        out[self._kept] = x
        out[self._removed] = (self.program.rhs - self.program.matrix @ x)[self._slots]
        return out

    def multipliers(self, z: FloatArray) -> FloatArray:
        """Map multipliers of the reduced program to those of the original."""
        out = np.zeros(self._original.rows.size)
        out[self._order] = self._scale * z
        return out


def _slack_columns(program: ConeProgram) -> tuple[np.ndarray, list[tuple[int, slice]], np.ndarray]:
    """Return non-negative columns and cones that are slacks, and per column the row it is alone in, or -1."""
    matrix = sp.csc_array(program.matrix)
    alone = np.diff(matrix.indptr) == 1
    row_of = np.full(program.columns.size, -1)
    row_of[alone] = matrix.indices[matrix.indptr[:-1][alone]]
    row_of[(row_of >= program.rows.free) | (program.cost != 0.0)] = -1
    taken: set[int] = set()
    whole, single = [], []
    for n, place in program.columns.second_slices + program.columns.psd_slices:
        rows = set(row_of[place].tolist())
        if len(rows) == place.stop - place.start and -1 not in rows and not rows & taken:
            taken |= rows
            whole.append((n, place))
    for j in range(program.columns.free, program.columns.entrywise):
        if row_of[j] >= 0 and row_of[j] not in taken:
            taken.add(int(row_of[j]))
            single.append(j)
    if len(taken) == program.columns.size:  # keep at least one column
        return np.zeros(0, dtype=np.int64), [], row_of
    return np.array(single, dtype=np.int64), whole, row_of
