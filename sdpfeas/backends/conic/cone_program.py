"""Cone programs and their duals, in the forms conic solvers take.

A :class:`ConePair` is ``min c'x`` subject to ``A x + s = b`` with cones on ``x`` and on ``s``. Posed so, a
program and its dual have the same shape, and either can be handed to a solver: in *primal form* the
variables are the entries of the point, in *dual form* the multipliers of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from sdpfeas.claims import Stop
from sdpfeas.numerics.linalg import FloatArray, Triangle, triangle_size

#: Which side of a pair is handed to a solver.
Form = Literal["auto", "primal", "dual"]

#: Share of the gap a deeper certificate must keep.
KEPT_GAP = 0.5


@dataclass(frozen=True)
class Cones:
    """A product of cones, in the order solvers want them.

    ``flat``: entries that are zero (of ``s``) or free (of ``x``): the two are dual to each other.
    ``second``: lengths of vectors whose first entry is at least the norm of the others.
    """

    flat: int = 0
    nonneg: int = 0
    second: tuple[int, ...] = ()
    psd: tuple[int, ...] = ()

    @property
    def head(self) -> int:
        """Number of entries that are taken one by one."""
        return self.flat + self.nonneg

    @property
    def body(self) -> int:
        """Number of entries before the first matrix."""
        return self.head + sum(self.second)

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.body + sum(triangle_size(n) for n in self.psd)

    @property
    def vectors(self) -> list[tuple[int, slice]]:
        """Length and place of every second-order cone."""
        out, start = [], self.head
        for n in self.second:
            out.append((n, slice(start, start + n)))
            start += n
        return out

    @property
    def matrices(self) -> list[tuple[int, slice]]:
        """Side and place of every matrix."""
        out, start = [], self.body
        for n in self.psd:
            out.append((n, slice(start, start + triangle_size(n))))
            start = out[-1][1].stop
        return out


@dataclass(frozen=True)
class StandardForm:
    """``min q'v`` subject to ``M v + s = h``, ``s`` in the cones: what solvers take.

    ``cost, matrix, rhs``: q, M (compressed by columns) and h. ``cones``: zero, non-negative, second-order
    and PSD parts of ``s``. ``kept``: where the rows of the pair are among those of the form.
    """

    cost: FloatArray
    matrix: Any
    rhs: FloatArray
    cones: Cones
    kept: np.ndarray


@dataclass(frozen=True)
class Answer:
    """What a solver said about a cone program.

    ``x, z``: the variables and the multipliers of the rows; a ray where the program is infeasible (then
    there is no ``x``) or unbounded (then there is no ``z``).
    """

    x: FloatArray | None = None
    z: FloatArray | None = None
    raw_status: str = ""
    stop: Stop = Stop.FINISHED
    iterations: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ConePair:
    """``min c'x`` subject to ``A x + s = b``, ``x`` in the cones of the columns, ``s`` in those of the rows.

    ``rows, columns``: the cones of ``s`` and of ``x``. ``row_unit, column_unit``: directions into the
    interior of either, as long as it is deep. ``row_strict, column_strict``: masks of the entries whose
    multipliers have to be strictly inside for a proof.
    """

    matrix: Any
    rhs: FloatArray
    cost: FloatArray
    rows: Cones
    columns: Cones
    row_unit: FloatArray
    column_unit: FloatArray
    row_strict: np.ndarray
    column_strict: np.ndarray
    triangle: Triangle

    def dual(self) -> ConePair:
        """Return the dual; its solution is the multipliers of this one, and the other way round."""
        return replace(
            self,
            matrix=sp.csr_array(-self.matrix.T),
            rhs=self.cost,
            cost=self.rhs,
            rows=self.columns,
            columns=self.rows,
            row_unit=self.column_unit,
            column_unit=self.row_unit,
            row_strict=self.column_strict,
            column_strict=self.row_strict,
        )

    def standard_form(self) -> StandardForm:
        """Write the cones of ``x`` as rows of their own."""
        rows, columns = self.rows, self.columns
        signs = sp.eye_array(columns.size, format="csr")[columns.flat :]
        own = np.arange(rows.size)
        more = rows.size + np.arange(columns.size - columns.flat)
        # Cones of one kind next to each other, those of the rows first.
        ends = [(max(a - columns.flat, 0), b - columns.flat) for a, b in _cuts(columns)]
        order = np.concatenate(
            [part for (a, b), (c, d) in zip(_cuts(rows), ends, strict=True) for part in (own[a:b], more[c:d])]
        )
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        return StandardForm(
            cost=self.cost,
            matrix=sp.csc_array(sp.vstack([self.matrix, -signs], format="csr")[order]),
            rhs=np.concatenate([self.rhs, np.zeros(more.size)])[order],
            cones=Cones(
                rows.flat, rows.nonneg + columns.nonneg, rows.second + columns.second, rows.psd + columns.psd
            ),
            kept=place[: rows.size],
        )

    @property
    def _slope(self) -> FloatArray:
        """What a unit of margin takes from the right-hand side."""
        return np.asarray(self.matrix @ self.column_unit + self.row_unit)

    def with_margin(self) -> ConePair:
        """Ask for the point deepest inside.

        That is ``x - t·unit`` and ``s - t·unit`` in their cones, with the largest t <= 1. The margin t is the
        last of the flat columns, its bound the last of the non-negative rows.
        """
        at, below = self.columns.flat, self.rows.head
        matrix = sp.csc_array(self.matrix)
        slope = sp.csc_array(self._slope[:, None])
        matrix = sp.csr_array(sp.hstack([matrix[:, :at], slope, matrix[:, at:]], format="csr"))
        bound = sp.csr_array(([1.0], ([0], [at])), shape=(1, matrix.shape[1]))
        return replace(
            self,
            matrix=_inserted(matrix, below, bound),
            rhs=np.insert(self.rhs, below, 1.0),
            cost=np.insert(np.zeros_like(self.cost), at, -1.0),
            rows=replace(self.rows, nonneg=self.rows.nonneg + 1),
            columns=replace(self.columns, flat=at + 1),
            row_unit=np.insert(self.row_unit, below, 1.0),
            column_unit=np.insert(self.column_unit, at, 0.0),
            row_strict=np.insert(self.row_strict, below, False),
            column_strict=np.insert(self.column_strict, at, False),
        )

    def without_margin(self, answer: Answer) -> Answer:
        """Map an answer to :meth:`with_margin` of this pair back."""
        x, z, info = answer.x, answer.z, dict(answer.info)
        if x is not None:
            at = self.columns.flat
            info["margin"] = float(x[at])
            x = np.delete(x, at) + x[at] * self.column_unit
        if z is not None:
            z = np.delete(z, self.rows.head)
        return replace(answer, x=x, z=z, info=info)

    def rays_like(self, z: FloatArray) -> ConePair | None:
        """Pose the search for a ray deeper inside its cones than ``z``; None if there is no room for one.

        Its variables are the rays of this pair that are no longer than ``z`` and keep half of what it gains;
        with a margin it asks for the deepest of them.

        ``z``: a ray: ``A'z`` and ``z`` in the dual cones and ``b'z < 0``, up to the solver's tolerance.
        """
        slope = self._slope
        length, gain = float(slope @ z), -float(self.rhs @ z)
        inside = self.column_unit * self.column_strict, self.row_unit * self.row_strict
        if not (gain > 0.0 and length > 0.0 and (inside[0].any() or inside[1].any())):
            return None
        dual = self.dual()
        at = dual.rows.head
        limits = sp.csr_array(np.stack([self.rhs * (length / gain), slope]))
        return replace(
            dual,
            matrix=_inserted(dual.matrix, at, limits),
            rhs=np.insert(np.zeros(dual.rows.size), at, [-KEPT_GAP, 1.0]),
            cost=np.zeros(dual.columns.size),
            rows=replace(dual.rows, nonneg=dual.rows.nonneg + 2),
            row_unit=np.insert(inside[0], at, [0.0, 0.0]),
            column_unit=inside[1],
            row_strict=np.insert(dual.row_strict, at, [False, False]),
        )


def _cuts(cones: Cones) -> list[tuple[int, int]]:
    """Where entries that are taken one by one, second-order cones and matrices begin and end."""
    return [(0, cones.head), (cones.head, cones.body), (cones.body, cones.size)]


def _inserted(matrix: Any, at: int, rows: Any) -> Any:
    """Return the matrix with further rows in the middle."""
    return sp.csr_array(sp.vstack([matrix[:at], rows, matrix[at:]], format="csr"))


def ask_direct(pair: ConePair, form: Form, solve: Callable[[StandardForm], Answer]) -> Answer:
    """Hand a pair to a solver in one of its forms; in the other one if the first meets numerical trouble.

    ``form``: which form; "auto" is the one with fewer variables, and the only one that tries the other.
    ``solve``: answers a standard form, with the multipliers of all its rows.
    """
    first = ("dual" if pair.rows.size < pair.columns.size else "primal") if form == "auto" else form
    answer = _ask_form(pair, first, solve)
    if form == "auto" and answer.stop is Stop.NUMERICAL:
        second = _ask_form(pair, "primal" if first == "dual" else "dual", solve)
        status = f"{answer.raw_status} ({first} form), then {second.raw_status}"
        return replace(second, raw_status=status, iterations=answer.iterations + second.iterations)
    return answer


def _ask_form(pair: ConePair, form: str, solve: Callable[[StandardForm], Answer]) -> Answer:
    standard = (pair if form == "primal" else pair.dual()).standard_form()
    answer = solve(standard)
    x, z = answer.x, None if answer.z is None else answer.z[standard.kept]
    if form == "dual":
        x, z = z, x
    return replace(answer, x=x, z=z, info={**answer.info, "form": form})


# ------------------------------------------------------------
# Cone programs without columns that are mere slacks.


class Condensed:
    """A pair without the columns that are mere slacks of equality rows, and the way back.

    A linear matrix inequality posed with a slack and one equality a row for each of its entries becomes what
    it was: a cone on rows.

    ``original``: the pair to take them out of.
    """

    def __init__(self, original: ConePair) -> None:
        columns, rows = original.columns, original.rows
        single, whole, home = _slack_columns(original)
        second, psd = (
            [(n, p) for n, p in whole if (n, p) in kind] for kind in (columns.vectors, columns.matrices)
        )
        gone = [single, *([_range(p) for _, p in second]), *([_range(p) for _, p in psd])]
        self._original = original
        self._out = np.concatenate(gone)
        self._stay = np.setdiff1d(np.arange(columns.size), self._out)
        flat = np.setdiff1d(np.arange(rows.flat), home[self._out])
        middle, last = sum(n for n, _ in second), single.size + sum(n for n, _ in second)
        self._order = np.concatenate(
            [
                flat,
                np.arange(rows.flat, rows.head),
                home[single],
                np.arange(rows.head, rows.body),
                home[self._out[single.size : last]],
                np.arange(rows.body, rows.size),
                home[self._out[last:]],
            ]
        )
        ones = flat.size + rows.nonneg
        twos = ones + single.size + sum(rows.second)
        threes = twos + middle + rows.size - rows.body
        self._slots = np.concatenate(
            [
                ones + np.arange(single.size),
                twos + np.arange(middle),
                threes + np.arange(self._out.size - last),
            ]
        )
        self._scale = np.ones(rows.size)
        weights = original.matrix[home[self._out]][:, self._out].diagonal()
        self._scale[self._slots] = 1.0 / weights
        row_unit, row_strict = original.row_unit[self._order], original.row_strict[self._order]
        row_unit[self._slots] = original.column_unit[self._out]
        row_strict[self._slots] = original.column_strict[self._out]
        left = [
            tuple(n for n, p in kind if (n, p) not in whole) for kind in (columns.vectors, columns.matrices)
        ]
        self.pair = replace(
            original,
            matrix=sp.csr_array(sp.diags_array(self._scale) @ original.matrix[self._order][:, self._stay]),
            rhs=self._scale * original.rhs[self._order],
            cost=original.cost[self._stay],
            rows=Cones(
                flat.size,
                rows.nonneg + single.size,
                rows.second + tuple(n for n, _ in second),
                rows.psd + tuple(n for n, _ in psd),
            ),
            columns=Cones(columns.flat, columns.nonneg - single.size, *left),
            row_unit=row_unit,
            column_unit=original.column_unit[self._stay],
            row_strict=row_strict,
            column_strict=original.column_strict[self._stay],
        )

    def variables(self, x: FloatArray) -> FloatArray:
        """Map the variables of the condensed pair to those of the original."""
        out = np.zeros(self._original.columns.size)
        out[self._stay] = x
        out[self._out] = (self.pair.rhs - self.pair.matrix @ x)[self._slots]
        return out

    def multipliers(self, z: FloatArray) -> FloatArray:
        """Map the multipliers of the condensed pair to those of the original."""
        out = np.zeros(self._original.rows.size)
        out[self._order] = self._scale * z
        return out


def _slack_columns(pair: ConePair) -> tuple[np.ndarray, list[tuple[int, slice]], np.ndarray]:
    """Non-negative columns and cones that are slacks, and the row every single entry is alone in."""
    matrix = sp.csc_array(pair.matrix)
    alone = np.diff(matrix.indptr) == 1
    home = np.full(pair.columns.size, -1)
    home[alone] = matrix.indices[matrix.indptr[:-1][alone]]
    home[(home >= pair.rows.flat) | (pair.cost != 0.0)] = -1
    taken: set[int] = set()
    whole, single = [], []
    for n, place in pair.columns.vectors + pair.columns.matrices:
        rows = set(home[place].tolist())
        if len(rows) == place.stop - place.start and -1 not in rows and not rows & taken:
            taken |= rows
            whole.append((n, place))
    for j in range(pair.columns.flat, pair.columns.head):
        if home[j] >= 0 and home[j] not in taken:
            taken.add(int(home[j]))
            single.append(j)
    if len(taken) == pair.columns.size:  # somebody has to stay
        return np.zeros(0, dtype=np.int64), [], home
    return np.array(single, dtype=np.int64), whole, home


def _range(place: slice) -> np.ndarray:
    return np.arange(place.start, place.stop)
