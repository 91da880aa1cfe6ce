"""A primal and dual pair of small conic programs in rational numbers, and its restriction to a face.

    minimise   <C, X> + c'x   subject to   <A_i, X> + (B x)_i = b_i,   X positive semidefinite, x free
    maximise   b'y            subject to   Z = C - sum_i y_i A_i positive semidefinite,   B'y = c

A problem is the primal program (:class:`PrimalForm`), with slacks for LMIs and inequality rows. If all its
blocks are Free it is the dual program (:class:`DualForm`), which has one row per variable instead of one per
entry of an LMI. Both forms map rational evidence back to the problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import flint
import numpy as np

from sdpfeas.numerics.exact_arithmetic import (
    Reading,
    exact_step,
    number,
    to_floats,
    to_fractions,
    to_rationals,
)
from sdpfeas.problem.exact_rows import exact_rows
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.rows_only import rows_only

#: A sparse symmetric matrix: both entries ``(i, j)`` and ``(j, i)`` are listed.
Entries = dict[tuple[int, int], Any]

#: A block-diagonal matrix: the blocks that are not zero.
Matrix = dict[int, Entries]

#: A prime number; rows that are dependent modulo it are almost surely dependent.
PRIME = 2**61 - 1


@dataclass(frozen=True)
class ConicPair:
    """The data of the pair in rational numbers (``fmpq``).

    ``sides``: the side of every block of X; a Nonneg block is a list of blocks of side 1. ``rows``: the
    matrices ``A_i``. ``free``: the rows of B. ``cost`` and ``free_cost``: C and c.
    """

    sides: list[int]
    rows: list[Matrix]
    right: list[Any]
    free: list[list[Any]]
    cost: Matrix
    free_cost: list[Any]

    @property
    def columns(self) -> list[tuple[int, int, int]]:
        """Block, row and column of every entry on and above the diagonals."""
        return [(k, i, j) for k, n in enumerate(self.sides) for i in range(n) for j in range(i, n)]

    def without(self, *, right: bool = True, cost: bool = True) -> ConicPair:
        """Return the pair with zero right-hand side or zero cost."""
        zero, pair = flint.fmpq(0), self
        if not right:
            pair = replace(pair, right=[zero] * len(pair.right))
        return pair if cost else replace(pair, cost={}, free_cost=[zero] * len(pair.free_cost))

    def table(self) -> np.ndarray:
        """The rows over the entries on and above the diagonals, then over the free variables."""
        place = {column: p for p, column in enumerate(self.columns)}
        out = np.full((len(self.rows), len(place) + len(self.free_cost)), number(0), dtype=object)
        for i, row in enumerate(self.rows):
            for k, entries in row.items():
                for (a, b), value in entries.items():
                    out[i, place[k, min(a, b), max(a, b)]] += value
            out[i, len(place) :] = self.free[i]
        return out

    def independent(self) -> list[int]:
        """Indices of a maximal set of independent rows, up to an unlucky prime."""
        table = self.table()
        if not table.size:
            return []
        whole, _ = flint.fmpq_mat(table.shape[1], table.shape[0], table.T.reshape(-1).tolist()).numer_denom()
        modular = flint.nmod_mat(
            whole.nrows(), whole.ncols(), [int(v) % PRIME for v in whole.entries()], PRIME
        )
        form, rank = modular.rref()
        lines = form.table()[:rank]
        return [next(j for j, v in enumerate(line) if int(v)) for line in lines]

    def restrict(self, bases: Sequence[Any], exposing: Any) -> Face:
        """Restrict the primal program to ``X_k = V_k S_k V_k'``; rows that become dependent are dropped."""

        def on_face(matrix: Matrix) -> Matrix:
            found = ((k, _congruence(entries, bases[k])) for k, entries in matrix.items())
            return {k: entries for k, entries in found if entries}

        sides = [basis.ncols() for basis in bases]
        pair = replace(self, sides=sides, rows=list(map(on_face, self.rows)), cost=on_face(self.cost))
        kept = pair.independent()
        restricted = replace(
            pair,
            rows=[pair.rows[i] for i in kept],
            right=[self.right[i] for i in kept],
            free=[self.free[i] for i in kept],
        )
        return Face(self, restricted, list(bases), kept, exposing)

    def corrected(
        self, blocks: list[Any], free: list[Any], *, zero: bool = False
    ) -> tuple[list[Any], list[Any]] | None:
        """Move a rational point exactly onto the rows, by a short step of few entries; None on failure.

        With ``zero`` the right-hand side is zero.
        """
        columns = self.columns
        sizes = [max((abs(float(v)) for v in block.entries()), default=0.0) for block in blocks]
        weight = [sizes[k] for k, _, _ in columns] + [1.0 + abs(float(v)) for v in free]
        x = _on_equations(
            self.table(),
            [*(blocks[k][i, j] for k, i, j in columns), *free],
            [number(0)] * len(self.right) if zero else self.right,
            weight,
        )
        if x is None:
            return None
        moved = [flint.fmpq_mat(n, n) for n in self.sides]
        for (k, i, j), value in zip(columns, x, strict=False):
            moved[k][i, j] = moved[k][j, i] = value
        return moved, x[len(columns) :]

    def corrected_multipliers(self, y: list[Any], *, zero: bool = False) -> list[Any] | None:
        """Move rational multipliers exactly onto ``B'y = c``, or ``B'y = 0``; None on failure."""
        table = np.array(self.free, dtype=object).reshape(len(y), len(self.free_cost)).T
        right = [number(0)] * len(self.free_cost) if zero else self.free_cost
        return _on_equations(table, y, right, [1.0] * len(y))


def _on_equations(
    table: np.ndarray, values: list[Any], right: list[Any], weight: list[float]
) -> list[Any] | None:
    """Move rational numbers exactly onto equations, by a short step of few entries; None on failure."""
    x = np.array(values, dtype=object)
    off = np.array(right, dtype=object) - (table.dot(x) if x.size else 0)
    if not any(v != 0 for v in off):
        return values
    step = exact_step(table, to_floats(table), np.array(weight), off)
    return None if step is None else (x + step).tolist()


@dataclass(frozen=True)
class Face:
    """A pair restricted to a face of ``whole``: ``X = V S V'``.

    ``kept`` are the rows of ``whole`` that were kept, ``exposing`` the multipliers of the exposing vector.
    """

    whole: ConicPair
    pair: ConicPair
    bases: list[Any]
    kept: list[int]
    exposing: Any

    def point(self, blocks: list[Any]) -> list[Any]:
        """Return ``V S V'``."""
        return [v * s * v.transpose() for v, s in zip(self.bases, blocks, strict=True)]


def _congruence(entries: Entries, basis: Any) -> Entries:
    """Return ``V' A V``."""
    n, r = basis.nrows(), basis.ncols()
    matrix = flint.fmpq_mat(n, n)
    for place, value in entries.items():
        matrix[place] = value
    turned = basis.transpose() * matrix * basis
    return {(i, j): turned[i, j] for i in range(r) for j in range(r) if turned[i, j] != 0}


def _matrix(rows: Iterable[tuple[int, int, np.ndarray]]) -> Matrix:
    """Collect a matrix from the first block, the side (0 for a vector) and the coefficients of each set."""
    out: Matrix = {}
    for first, side, values in rows:
        for p in np.flatnonzero(values != 0).tolist():
            if side:
                i, j = divmod(p, side)
                entries = out.setdefault(first, {})
                for place in ((i, j), (j, i)):
                    entries[place] = entries.get(place, number(0)) + values[p] / 2
            else:
                out[first + p] = {(0, 0): values[p]}
    return out


def _fractions(values: Sequence[Any]) -> np.ndarray:
    return to_fractions(np.array([*values, None], dtype=object)[:-1]) if len(values) else np.zeros(0, object)


class _Cones:
    """The blocks of a pair that belong to a list of PSD and Nonneg sets."""

    def __init__(self, sets: Iterable[Any]) -> None:
        self.sets, self.first, self.sides = list(sets), list[int](), list[int]()
        for block in self.sets:
            self.first.append(len(self.sides))
            self.sides += [block.n] if block.matrix else [1] * block.n

    def matrix(self, parts: Iterable[np.ndarray]) -> Matrix:
        """Return a block-diagonal matrix from one flat array of coefficients per set."""
        sides = (block.n if block.matrix else 0 for block in self.sets)
        return _matrix(zip(self.first, sides, parts, strict=True))

    def arrays(self, blocks: list[Any]) -> list[np.ndarray]:
        """Return one array of fractions per set."""
        out = []
        for block, first in zip(self.sets, self.first, strict=True):
            own = blocks[first : first + (1 if block.matrix else block.n)]
            out.append(_fractions([v for part in own for v in part.entries()]).reshape(block.shape))
        return out


class PrimalForm:
    """A problem as the primal program; ``terms``, an objective to maximise, become ``C = -terms``.

    ``l <= a'X <= u`` → ``a'X - s = l``, ``a'X + t = u``, ``s, t >= 0``. LMIs become slack blocks
    (:func:`rows_only`).
    """

    def __init__(self, problem: FeasibilityProblem, reading: Reading, terms: Point | None = None) -> None:
        self._form = rows_only(problem)
        inner = self._form.problem
        rows = exact_rows(inner, reading)
        self._inner, self._free = inner, [block.free for block in inner.sets]
        self._cones = _Cones(block for block in inner.sets if not block.free)
        sides = list(self._cones.sides)
        matrices, right, free = list[Matrix](), list[Any](), list[list[Any]]()
        self._row: list[int] = []
        for i, (low, high) in enumerate(zip(inner.lower.tolist(), inner.upper.tolist(), strict=True)):
            ends = [(low, 0)] if low == high else [(low, -1), (high, 1)]
            for bound, sign in ends:
                if not np.isfinite(bound):
                    continue
                own, free_part = self._split(rows.blocks(rows.matrix[i]))
                if sign:
                    own = {**own, len(sides): {(0, 0): number(sign)}}
                    sides.append(1)
                matrices.append(own)
                free.append(free_part)
                right.append(rows.number(bound))
                self._row.append(i)
        parts = [np.zeros(block.shape) for block in inner.sets]
        for part, given in zip(parts, terms or (), strict=False):
            part[...] = -given
        cost, free_cost = self._split([to_rationals(part) for part in parts])
        self.pair = ConicPair(sides, matrices, right, free, cost, free_cost)

    def _split(self, parts: Sequence[np.ndarray]) -> tuple[Matrix, list[Any]]:
        """Split coefficients into those of the cones and those of the Free blocks."""
        flat = [part.reshape(-1) for part in parts]
        cones = (part for part, free in zip(flat, self._free, strict=True) if not free)
        return self._cones.matrix(cones), [
            v for part, free in zip(flat, self._free, strict=True) if free for v in part
        ]

    def point(self, blocks: list[Any], free: list[Any]) -> Point:
        """Return the point of the problem in fractions."""
        cones, rest = iter(self._cones.arrays(blocks)), iter(free)
        parts = (
            _fractions([next(rest) for _ in range(block.n)]) if block.free else next(cones)
            for block in self._inner.sets
        )
        found = self._form.rational_point(tuple(parts))
        assert found is not None  # cones other than PSD and Nonneg are not accepted
        return found

    def multipliers(self, y: list[Any]) -> np.ndarray:
        """Return the multipliers of the problem in fractions."""
        total = np.full(self._inner.m, number(0), dtype=object)
        for i, value in zip(self._row, y, strict=True):
            total[i] += value
        return self._form.back(to_fractions(total) if total.size else total)


class DualForm:
    """A problem over Free blocks alone as the dual program: ``y`` is its point.

    LMIs and inequality rows become blocks of ``Z = F(y)``, equality rows become ``B'y = c``.
    """

    def __init__(self, problem: FeasibilityProblem, reading: Reading) -> None:
        rows = exact_rows(problem, reading)
        self._problem = problem
        cones = _Cones(lmi.set for lmi in problem.lmis)
        self._cones, sides = cones, list(cones.sides)
        count = rows.matrix.shape[1]
        matrices = [cones.matrix(-lmi.matrix[i] for lmi in rows.lmis) for i in range(count)]
        cost = cones.matrix(lmi.constant for lmi in rows.lmis)
        #: For every inequality its row and sign; for every equation its row.
        self._inequalities, self._equations = list[tuple[int, int]](), list[int]()
        for i, (low, high) in enumerate(zip(problem.lower.tolist(), problem.upper.tolist(), strict=True)):
            if low == high:
                self._equations.append(i)
                continue
            for bound, sign in ((low, 1), (high, -1)):
                if np.isfinite(bound):
                    for v, matrix in zip(rows.matrix[i], matrices, strict=True):
                        if v != 0:
                            matrix[len(sides)] = {(0, 0): -sign * v}
                    cost[len(sides)] = {(0, 0): -sign * rows.number(bound)}
                    self._inequalities.append((i, sign))
                    sides.append(1)
        free = [[rows.matrix[e, i] for e in self._equations] for i in range(count)]
        free_cost = [rows.number(problem.lower[e]) for e in self._equations]
        right = [number(0)] * count
        self.pair = ConicPair(sides, matrices, right, free, cost, free_cost)

    def point(self, y: list[Any]) -> Point:
        """Return the point of the problem in fractions."""
        cuts = np.cumsum([block.n for block in self._problem.sets])[:-1]
        return tuple(np.split(_fractions(y), cuts))

    def multipliers(self, blocks: list[Any], free: list[Any]) -> np.ndarray:
        """Return the multipliers of the problem in fractions."""
        total = np.full(self._problem.m, number(0), dtype=object)
        slacks = blocks[len(self._cones.sides) :]
        for (i, sign), block in zip(self._inequalities, slacks, strict=True):
            total[i] += sign * block[0, 0]
        for e, value in zip(self._equations, free, strict=True):
            total[e] -= value
        own = [part.reshape(-1) for part in self._cones.arrays(blocks)]
        return np.concatenate([to_fractions(total) if total.size else total, *own])
