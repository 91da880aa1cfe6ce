"""Cut a canonical form ``b - A x`` in cones into blocks, rows and LMIs: :class:`Blocks`.

A cone whose entries are single variables becomes a block of these variables; so do variables with a sign.
Other cones become LMIs. The remaining variables are free. Variables that no row uses are removed, and are
zero when values are mapped back. The conversion is exact: no coefficient is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.cvxpy_models.canonical_form import CanonicalForm, triangle_side
from sdpfeas.numerics.exact_arithmetic import sum_of
from sdpfeas.numerics.linalg import FloatArray, triangle_map
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.objective import Objective, Sense
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Sparse
from sdpfeas.problem.sets import PSD, BlockSet, Free, HermitianPSD, Nonneg, SecondOrder


@dataclass(frozen=True)
class Cone:
    """Rows of a canonical form that are entries of a member ``X`` of a set.

    The rows ``first`` determine ``X``; the others repeat them, possibly with the opposite sign.
    ``view @ vec(X)`` are the first rows, and ``spread`` maps these to ``vec(X)``. ``copies`` distributes the
    multiplier of a first row over its repetitions; None without repetitions.
    """

    block: BlockSet
    rows: np.ndarray
    first: np.ndarray
    view: Any
    spread: Any
    copies: Any = None

    def member(self, entries: FloatArray) -> FloatArray:
        """Return the member with these entries in the first rows."""
        return np.asarray((self.spread @ entries).reshape(self.block.shape))

    def shared(self, multipliers: FloatArray) -> FloatArray:
        """Distribute multipliers of the first rows over all rows."""
        return multipliers if self.copies is None else np.asarray(self.copies @ multipliers)

    def row_multipliers(self, multiplier: FloatArray) -> FloatArray:
        """Return multipliers of all rows, from that of the member."""
        return self.shared(self.spread.T @ multiplier)

    def multiplier(self, z: FloatArray) -> FloatArray:
        """Return the multiplier of the member, from those of all rows."""
        return np.asarray(self.view.T @ (z if self.copies is None else 2.0 * (self.copies.T @ z)))


def second_order(rows: np.ndarray) -> Cone:
    """Return a second-order cone; ``rows`` has the bound, then the vector."""
    same = sp.eye_array(rows.size, format="csr")
    return Cone(SecondOrder(rows.size), rows, rows, same, same)


def semidefinite(rows: np.ndarray) -> Cone:
    """Return a semidefinite cone; ``rows`` has the lower triangle by columns."""
    n = triangle_side(rows.size)
    return Cone(PSD(n), rows, rows, triangle_map(n, 0.5).T, triangle_map(n, 1.0).tocsr())


def hermitian(matrix: Any, b: FloatArray, rows: np.ndarray) -> Cone | None:
    """Return a Hermitian cone if the rows of a semidefinite one are ``[[Re, -Im], [Im, Re]]``.

    None if they are not, or if a number of ``Re + Im`` would be rounded.
    """
    side = triangle_side(rows.size)
    if side % 2 or side == 0:
        return None
    real, imaginary, empty = _halves(side // 2)
    counts = np.diff(matrix.indptr[rows[0] : rows[-1] + 2])
    bounds = b[rows]
    if (
        counts[empty].any()
        or bounds[empty].any()
        or not (counts[imaginary[0]].any() or bounds[imaginary[0]].any())
    ):
        return None
    for (one, other), sign in ((real, 1.0), (imaginary, -1.0)):
        if np.any(counts[one] != counts[other]) or np.any(bounds[one] != sign * bounds[other]):
            return None
        mine, yours = _stored(matrix, rows[one]), _stored(matrix, rows[other])
        if np.any(matrix.indices[mine] != matrix.indices[yours]):
            return None
        if np.any(matrix.data[mine] != sign * matrix.data[yours]):
            return None
    view, spread, copies = _complex(side // 2)
    first = rows[np.concatenate([real[0], imaginary[0]])]
    below = real[0][_below(side // 2)]
    for factor in (1.0, -1.0):
        if np.any(sum_of(bounds[below], factor * bounds[imaginary[0]])[1]):
            return None
    pairs = matrix[rows[below]].multiply(matrix[rows[imaginary[0]]])
    if pairs.nnz:  # a variable in both parts of an entry: their sum may be rounded
        return None
    return Cone(HermitianPSD(side // 2), rows, first, view, spread, copies)


def _stored(matrix: Any, rows: np.ndarray) -> np.ndarray:
    """Return the positions of the stored numbers of some rows, row by row."""
    begin, end = matrix.indptr[rows], matrix.indptr[rows + 1]
    sizes = end - begin
    return np.asarray(np.repeat(begin - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum()))


def _below(n: int) -> np.ndarray:
    """Return the mask of the entries below the diagonal in a lower triangle by columns."""
    j, i = np.triu_indices(n)
    return np.asarray(i != j)


@lru_cache(maxsize=64)
def _halves(n: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return the positions of ``Re`` and ``Im`` (two copies each) and of zeros in the real triangle."""

    def at(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return np.asarray(j * 2 * n - j * (j - 1) // 2 + (i - j))

    j, i = np.triu_indices(n)
    below = i != j
    p, q = i[below], j[below]
    own = np.arange(n)
    return (at(i, j), at(i + n, j + n)), (at(p + n, q), at(q + n, p)), at(own + n, own)


@lru_cache(maxsize=64)
def _complex(n: int) -> tuple[Any, Any, Any]:
    """Return view, spread and copies of a Hermitian cone; members are stored as ``Re + Im``."""
    j, i = np.triu_indices(n)
    below = i != j
    p, q = i[below], j[below]
    k, l = i.size, p.size  # noqa: E741 - real and imaginary parts
    re, im = np.arange(k), k + np.arange(l)
    halves = np.full(k, 0.5)
    view = sp.csr_array(
        (
            np.concatenate([halves, halves, np.full(l, 0.5), np.full(l, -0.5)]),
            (np.concatenate([re, re, im, im]), np.concatenate([i * n + j, j * n + i, p * n + q, q * n + p])),
        ),
        shape=(k + l, n * n),
    )
    spread = sp.csr_array(
        (
            np.concatenate([np.ones(k), np.ones(l), np.ones(l), -np.ones(l)]),
            (
                np.concatenate([i * n + j, q * n + p, p * n + q, q * n + p]),
                np.concatenate([re, re[below], im, im]),
            ),
        ),
        shape=(n * n, k + l),
    )
    real, imaginary, _ = _halves(n)
    copies = sp.csr_array(
        (
            np.concatenate([halves, halves, np.full(l, 0.5), np.full(l, -0.5)]),
            (np.concatenate([*real, *imaginary]), np.concatenate([re, re, im, im])),
        ),
        shape=(n * (2 * n + 1), k + l),
    )
    return view, spread, copies


def _redundant_equalities(matrix: Any, b: FloatArray, equalities: np.ndarray) -> dict[int, tuple[int, float]]:
    """Return equality rows that follow from others, with the row that each repeats, or itself, and a sign.

    Equations between symmetric matrices have every off-diagonal entry twice, and invariance under
    permutations (``S @ X @ S.T == X``) gives cycles of equations. Dependent rows make proofs harder.
    """
    seen: dict[tuple[bytes, bytes, float], tuple[int, float]] = {}
    ties = _TiedVariables(matrix.shape[1])
    again = dict[int, tuple[int, float]]()
    for row in equalities.tolist():
        own = slice(matrix.indptr[row], matrix.indptr[row + 1])
        columns, entries = matrix.indices[own], matrix.data[own]
        sign = float(np.sign(entries[0])) if entries.size else 1.0
        key = (columns.tobytes(), (sign * entries).tobytes(), float(sign * b[row]))
        if key in seen:
            first, factor = seen[key]
            again[row] = first, sign * factor
            continue
        known = not entries.size and b[row] == 0.0
        if not known and _ties_two_variables(entries, b[row]):
            known = not ties.tie(int(columns[0]), int(columns[1]), bool(entries[0] == -entries[1]))
        if known:
            again[row] = row, 1.0
        else:
            seen[key] = row, sign
    return again


def _ties_two_variables(entries: FloatArray, bound: float) -> bool:
    """Whether an equation makes two variables equal or opposite."""
    return entries.size == 2 and bound == 0.0 and abs(entries[0]) == abs(entries[1])


class _TiedVariables:
    """Union-find of variables that are equal, opposite or zero by the equations so far."""

    def __init__(self, size: int) -> None:
        self._leader = np.arange(size)
        self._same, self._zero = np.ones(size, dtype=bool), np.zeros(size, dtype=bool)

    def tie(self, first: int, second: int, same: bool) -> bool:
        """Add an equation; False if it follows from the previous ones."""
        (one, kept), (two, held) = self._find(first), self._find(second)
        zero = bool(self._zero[one]), bool(self._zero[two])
        if all(zero) or (one == two and (kept == held) == same):
            return False
        self._zero[two] = any(zero) or one == two  # equal and opposite
        if one != two:
            self._leader[one], self._same[one] = two, (kept == held) == same
        return True

    def _find(self, variable: int) -> tuple[int, bool]:
        """Return the representative of a variable, and whether it is equal rather than opposite."""
        path, same = [], True
        while self._leader[variable] != variable:
            path.append(variable)
            variable = int(self._leader[variable])
        for step in reversed(path):  # path compression
            same = bool(self._same[step]) == same
            self._leader[step], self._same[step] = variable, same
        return variable, same


class Blocks:
    """The blocks of a canonical form.

    Cones of affine expressions become LMIs. Variables in the objective ``cost`` are not removed. The rows
    ``stated`` become rows and LMIs, never blocks, and no other row replaces them.
    """

    def __init__(
        self, form: CanonicalForm, *, cost: FloatArray | None = None, stated: np.ndarray | None = None
    ) -> None:
        matrix, b = form.matrix, form.b
        self._stated = np.zeros(b.size, dtype=bool)
        if stated is not None:
            self._stated[stated] = True
        self._matrix, self._b = matrix, b
        self._free = np.ones(matrix.shape[1], dtype=bool)
        self._sets: list[BlockSet] = []
        self._back: list[Any] = []
        self._lmis: list[Cone] = []
        self._parts: list[tuple[Cone | None, np.ndarray, FloatArray]] = []
        self._taken: list[Cone] = []
        self._equal = np.zeros(b.size, dtype=bool)
        self._equal[form.zero] = True
        self._kept = np.ones(b.size, dtype=bool)
        # The row whose multiplier a row shares, and its sign: those that are equal or opposite share one.
        self._twin, self._sign = np.arange(b.size), np.ones(b.size)
        redundant = _redundant_equalities(matrix, b, form.zero[~self._stated[form.zero]])
        for row, (first, sign) in redundant.items():
            self._kept[row], self._twin[row], self._sign[row] = False, first, sign
        single = np.diff(matrix.indptr) == 1
        self._only = np.full(b.size, -1)
        self._only[single] = matrix.indices[matrix.indptr[:-1][single]]
        self._factor = np.zeros(b.size)
        self._factor[single] = matrix.data[matrix.indptr[:-1][single]]
        cones = []
        # Matrices of variables come first: an LMI would be most expensive for them.
        for cone in self._cones(form):
            if self._is_variable(cone):
                cones.append(cone)
            else:
                self._lmis.append(cone)
                self._kept[cone.rows] = False
        signs = self._signed_variables(form.nonneg[~self._stated[form.nonneg]])
        (rest,) = np.nonzero(self._free)
        used = np.zeros(matrix.shape[1], dtype=bool)
        used[matrix[self.asked].indices] = True
        if cost is not None:
            used[cost != 0.0] = True
        if not used.any():  # no row uses a variable, but a problem needs a block
            used[:] = True
        for cone in cones:
            columns = self._only[cone.first]
            if used[columns].any():
                self._add(cone.block, columns, -1.0 / self._factor[cone.first], cone)
                self._taken.append(cone)
        signs = self._signs = signs[used[self._only[signs]]]
        if signs.size:
            self._add(Nonneg(signs.size), self._only[signs], -np.sign(self._factor[signs]))
        rest = rest[used[rest]]
        if rest.size:
            self._add(Free(rest.size), rest, np.ones(rest.size))

    @staticmethod
    def _cones(form: CanonicalForm) -> Iterator[Cone]:
        """Yield the cones of a form, matrices first."""
        for rows in form.semidefinite:
            found = hermitian(form.matrix, form.b, rows)
            yield semidefinite(rows) if found is None else found
        yield from map(second_order, form.second_order)

    def _is_variable(self, cone: Cone) -> bool:
        """Whether the entries of a cone are single variables of no other block; claims them if so."""
        rows = cone.first
        columns, factors = self._only[rows], self._factor[rows]
        if np.any(columns < 0) or np.any(self._b[rows]) or not np.all(self._free[columns]):
            return False
        if np.any(self._stated[cone.rows]):
            return False
        parts, exponents = np.frexp(np.abs(factors))
        exact = (parts == 0.5) & (np.abs(exponents) < 16)  # powers of two, so division is exact
        if not np.all(exact) or np.unique(columns).size < columns.size:
            return False
        self._kept[cone.rows] = False
        self._free[columns] = False
        return True

    def _signed_variables(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows that are the sign of one variable each, and claim these variables."""
        taken = []
        for row in rows[(self._only[rows] >= 0) & (self._b[rows] == 0.0)]:
            column = self._only[row]
            if self._free[column]:
                self._free[column] = False
                self._kept[row] = False
                taken.append(row)
        return np.array(taken, dtype=int)

    def _add(
        self, block: BlockSet, columns: np.ndarray, factors: FloatArray, cone: Cone | None = None
    ) -> None:
        """Add a block with ``x[columns] = factors · view``."""
        view = None if cone is None else cone.view
        self._parts.append((cone, columns, factors))
        k = np.arange(columns.size)
        spread = sp.csr_array((factors, (columns, k)), shape=(self._matrix.shape[1], columns.size))
        self._sets.append(block)
        self._back.append(spread if view is None else sp.csr_array(spread @ view))

    @property
    def asked(self) -> np.ndarray:
        """Mask of the rows of the canonical form that have a multiplier of their own."""
        return self.places() >= 0

    def row_places(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of the problem that are rows of the canonical form; cones are left out."""
        place = np.cumsum(self._kept) - 1
        return np.sort(place[rows[self._kept[rows]]])

    @property
    def free_columns(self) -> np.ndarray:
        """Columns of the canonical form that are in no cone."""
        return np.flatnonzero(self._free)

    def problem(self) -> FeasibilityProblem:
        """Return the feasibility problem."""
        kept = self._kept
        matrix, b = self._matrix[kept], self._b[kept]
        rows = [
            Sparse.unchecked(part, block.n, block.matrix)
            for block, part in zip(self._sets, self._in_blocks(matrix), strict=True)
        ]
        lower = np.where(self._equal[kept], b, -np.inf)
        return FeasibilityProblem(self._sets, rows, lower, b, lmis=[self._lmi(cone) for cone in self._lmis])

    def places(self) -> np.ndarray:
        """Return for every row of the form the row of the problem, or its LMI (after the rows); else -1."""
        found = np.where(self._kept, np.cumsum(self._kept) - 1, -1)
        for j, cone in enumerate(self._lmis, int(self._kept.sum())):
            found[cone.rows] = j
        return np.asarray(found)

    def _in_blocks(self, matrix: Any) -> list[Any]:
        """Return rows of the canonical form on every block."""
        if len(self._sets) == 1 and self._sets[0].free and self._sets[0].n == matrix.shape[1]:
            return [matrix]  # all variables as they are
        return [matrix @ back for back in self._back]

    def _lmi(self, cone: Cone) -> LMI:
        """Return a cone of the canonical form as an LMI, without rounding."""
        spread, first = cone.spread, cone.first
        follow = first[-1] - first[0] == first.size - 1 and cone.copies is None
        matrix = self._matrix[first[0] : first[-1] + 1] if follow else self._matrix[first]
        constant = (spread @ self._b[first]).reshape(cone.block.shape)
        parts = [-(spread @ part).T for part in self._in_blocks(matrix)]
        own = [
            Sparse.unchecked(part, cone.block.n, cone.block.matrix) if part.nnz else None for part in parts
        ]
        return LMI(cone.block, constant, own)

    def columns(self, point: Point) -> FloatArray:
        """Map a point to the variables of the canonical form."""
        parts = (back @ np.ravel(part) for back, part in zip(self._back, point, strict=True))
        return sum(parts, np.zeros(self._matrix.shape[1]))

    def forth(self, x: FloatArray) -> Point:
        """Map variables of the canonical form to a point."""
        point = []
        for cone, columns, factors in self._parts:
            entries = x[columns] / factors
            point.append(entries if cone is None else cone.member(entries))
        return tuple(point)

    def objective(self, cost: FloatArray, sense: Sense) -> Objective:
        """Return the objective ``cost' x`` of the canonical form, on the blocks."""
        pairs = zip(self._back, self._sets, strict=True)
        terms = [(back.T @ cost).reshape(block.shape) for back, block in pairs]
        return Objective(tuple(terms), sense)

    def row_multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers of the problem to all rows of the canonical form.

        Rows that became sets get the multipliers for which the weighted rows cancel.
        """
        z = np.zeros(self._b.size)
        m = int(self._kept.sum())
        z[self._kept], at = -y[:m], m
        # Shared evenly, the multipliers of a Hermitian equation are Hermitian.
        z = self._sign * z[self._twin] / np.bincount(self._twin, minlength=z.size)[self._twin]
        for cone in self._lmis:
            z[cone.rows] = cone.row_multipliers(y[at : at + cone.block.entries])
            at += cone.block.entries
        left = -(self._matrix.T @ z)
        for cone in self._taken:
            z[cone.rows] = cone.shared(left[self._only[cone.first]] / self._factor[cone.first])
        z[self._signs] = left[self._only[self._signs]] / self._factor[self._signs]
        return z

    def multipliers(self, z: FloatArray) -> FloatArray:
        """Map multipliers of the canonical form to the problem."""
        own = [cone.multiplier(z[cone.rows]) for cone in self._lmis]
        rows = np.bincount(self._twin, weights=self._sign * z, minlength=z.size)
        return np.concatenate([-rows[self._kept], *own])
