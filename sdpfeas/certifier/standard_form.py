"""Exact points and multipliers of a problem in the cones that ``sdpcheck`` knows.

Blocks are in PSD, Nonneg or Free cones; second-order and Hermitian cones are semidefinite. Every LMI is a
block ``S`` with rows ``F(X) - S = 0``, a box two of them. FEASIBLE (:meth:`StandardForm.feasible`): the point
is moved inside its cones, the equality rows are corrected in floating point until only rounding is left, and
as many entries as there are independent rows are recomputed exactly. INFEASIBLE
(:meth:`StandardForm.infeasible`): the multipliers are corrected likewise where the adjoint must vanish.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import scipy.linalg

from sdpfeas import sdpcheck
from sdpfeas.certifier.factors import prove_semidefinite
from sdpfeas.certifier.numbers import exponent, floats, fractions, on_grid, solve
from sdpfeas.errors import NotProved
from sdpfeas.numerics.linalg import FloatArray

Vector = list[Fraction]
#: Coefficients by position.
Functional = dict[int, Fraction]
#: Lower and upper bound of a row.
Bounds = tuple[Fraction | None, Fraction | None]

#: Bits kept of rounded points and multipliers below their distance to the boundary: few, or more for rows
#: that nearly hold.
GUARD_BITS = (20, 50)
#: A matrix is moved inside its cone if its smallest eigenvalue is above minus this share of the largest.
CLOSE = 1e-6
#: An inequality is tight at a point if it holds or fails by less than this share of its bound.
TIGHT = Fraction(1, 2**30)
#: Width of a box, relative to its bounds, below which its centre replaces a point.
NARROW = 2.0**-40
#: Rounds of correction in floating point before the exact one: each gains about 12 digits.
REFINEMENTS = 3
#: Lifts of both parts of a multiplier of a box against rounding. The end of a bracket leaves no room for a
#: larger one, and parts of few eigenvalues may be exact without.
LIFTS = (2.0**-50, 0.0)
#: Largest numbers of equations, and of equations times unknowns, of an exact correction.
MOST_EQUATIONS, MOST_CORRECTED = 2_000, 30_000_000


class StandardForm:
    """Blocks and rows with bounds, in exact numbers.

    ``slacks`` maps a block ``S`` of an LMI to the first of its rows ``F(X) - S = 0``, one per listed entry.
    """

    def __init__(
        self,
        blocks: Sequence[sdpcheck.Block],
        rows: Sequence[Functional],
        bounds: Sequence[Bounds],
        slacks: dict[int, int],
    ) -> None:
        self.blocks, self.rows, self.bounds, self.slacks = blocks, rows, bounds, slacks
        self.starts = list(accumulate((block.size for block in blocks), initial=0))
        self.size = self.starts[-1]

    @classmethod
    def of(cls, problem: sdpcheck.Problem) -> StandardForm:
        """Convert a problem: its sets and rows come first, then those of its LMIs, in their order."""
        rows, bounds = [functional(row) for row in problem.rows], list[Any](problem.bounds)
        slacks, start = dict[int, int](), problem.starts[-1]
        for number, (block, constant, parts) in enumerate(problem.lmis, len(problem.sets)):
            slacks[number] = len(rows)
            own: list[Functional] = [{} for _ in range(block.size)]
            for c, part in parts.items():
                for k, v in part.items():
                    own[k][c] = v
            for k, weight in enumerate(block.weights()):
                rows.append(own[k] | {start + k: Fraction(-weight)})
                bounds.append((-constant.get(k, Fraction(0)),) * 2)
            start += block.size
        return cls([*problem.sets, *(lmi[0] for lmi in problem.lmis)], rows, bounds, slacks)

    def part(self, x: Sequence[Any], b: int) -> Sequence[Any]:
        """Return the entries of one block."""
        return x[self.starts[b] : self.starts[b + 1]]

    def slack_rows(self, b: int) -> range:
        """Return the rows that define the block of an LMI."""
        return range(self.slacks[b], self.slacks[b] + self.blocks[b].size)

    @cached_property
    def boxes(self) -> dict[int, tuple[int, int | None]]:
        """For every box the first of its two blocks ``S``, and the row of its trace."""
        boxes = [b for b, block in enumerate(self.blocks) if block.box]
        first = len(self.blocks) - 2 * len(boxes)
        row = min(self.slacks.values(), default=0) - sum(self.blocks[b].trace is not None for b in boxes)
        out: dict[int, tuple[int, int | None]] = {}
        for b in boxes:
            has_trace = self.blocks[b].trace is not None
            out[b] = first, row if has_trace else None
            first, row = first + 2, row + has_trace
        return out

    def completed(self, x: Sequence[Fraction]) -> Vector:
        """Return a point with the blocks ``S = F(X)`` of all LMIs."""
        out = [*x, *[Fraction(0)] * (self.size - len(x))]
        for b in self.slacks:
            for k, i in enumerate(self.slack_rows(b), self.starts[b]):
                out[k] = Fraction(0)
                row = self.rows[i]
                out[k] = ((self.bounds[i][0] or 0) - apply(row, out)) / row[k]
        return out

    def adjoint(self, y: Sequence[Fraction], goal: Functional | None = None) -> Vector:
        """Return ``A*y`` minus a functional ``goal``."""
        total = [Fraction(0)] * self.size
        for weight, row in zip(y, self.rows, strict=True):
            if weight:
                for k, v in row.items():
                    total[k] += weight * v
        for k, v in (goal or {}).items():
            total[k] -= v
        return total

    # --- FEASIBLE

    def prove_point(self, x: Vector) -> list[Any]:
        """Return proofs that the blocks of a feasible point are in their cones; raises NotProved."""
        for i, (row, (low, high)) in enumerate(zip(self.rows, self.bounds, strict=True)):
            value = apply(row, x)
            if (low is not None and value < low) or (high is not None and value > high):
                raise NotProved(f"row {i} is violated")
        proofs = []
        for b, block in enumerate(self.blocks):
            sign = 0 if block.cone == "Free" else -1
            listed = zip(self.part(x, b), block.weights(), strict=True)
            try:
                proofs.append(polar(block, [sign * v * w for v, w in listed], None)[0])
            except NotProved as reason:
                name = f"LMI {list(self.slacks).index(b)}" if b in self.slacks else f"block {b}"
                raise NotProved(f"{name} is not proved to be in its set: {reason}") from None
        return proofs

    def feasible(self, x: Vector) -> tuple[Vector, list[Any]]:
        """Return a feasible point near ``x``, and the proofs of its blocks; raises NotProved."""
        reason = NotProved("no exact solution was found near the point")
        for candidate in self._candidates(x):
            try:
                return candidate, self.prove_point(candidate)
            except NotProved as missing:
                reason = missing
        raise reason

    def _candidates(self, x: Vector) -> Iterator[Vector]:
        yield self.completed(x)
        near, depth, kept = self._inside(x)
        defined = {i for b in self.slacks for i in self.slack_rows(b)}
        equal, tight = list[tuple[Functional, Fraction]](), list[tuple[Functional, Fraction]]()
        for i, (row, (low, high)) in enumerate(zip(self.rows, self.bounds, strict=True)):
            if i in defined or not any(row.values()):
                continue
            if low is not None and low == high:
                equal.append((row, low))
            else:
                value = apply(row, x)
                ends = [v for v in (low, high) if v is not None and abs(value - v) <= TIGHT * abs(v)]
                tight += [(row, v) for v in ends]
        # Equations may be written as two inequalities.
        for equations in (equal, equal + tight) if tight else (equal,):
            for candidate in corrections(equations, x, near, depth, kept):
                yield self.completed(candidate)

    def _inside(self, x: Vector) -> tuple[Vector, FloatArray, FloatArray]:
        """Move blocks inside their cones; return the point, and how far its and the old entries may move."""
        out, depth, kept = list(x), np.zeros(self.size), np.zeros(self.size)
        for b, block in enumerate(self.blocks):
            if b not in self.slacks:
                own = slice(self.starts[b], self.starts[b + 1])
                out[own], depth[own], kept[own] = moved_inside(block, x[own])
        return out, depth, kept

    # --- INFEASIBLE

    def prove_multipliers(
        self,
        y: Sequence[Fraction],
        faces: Sequence[Any] | None = None,
        bounds: Sequence[Bounds] | None = None,
        goal: Functional | None = None,
    ) -> tuple[list[Any], Fraction, list[Any]]:
        """Return the proofs of multipliers, the bound they prove, and the smaller faces; raises NotProved."""
        total = Fraction(0)
        for i, (weight, ends) in enumerate(zip(y, bounds or self.bounds, strict=True)):
            if weight:
                bound = ends[weight < 0]
                if bound is None:
                    raise NotProved(f"the multiplier of row {i} has the sign of a missing bound")
                total += weight * bound
        gradient = self.adjoint(y, goal)
        faces = faces or [None] * len(self.blocks)
        found = [polar(block, self.part(gradient, b), faces[b]) for b, block in enumerate(self.blocks)]
        return [proof for proof, _ in found], total, [face for _, face in found]

    def infeasible(self, y: Vector, goal: Functional | None = None) -> tuple[Vector, list[Any], Fraction]:
        """Return multipliers near the given ones, their proofs, and the bound they prove; raises NotProved.

        Without a goal the bound is positive.
        """
        reason = NotProved("no exact multipliers were found")
        for near in self._multipliers(y, goal):
            for lift in LIFTS if self.boxes else (0.0,):
                try:
                    found = self._boxed(near, lift, goal)
                    proofs, bound, _ = self.prove_multipliers(found, goal=goal)
                except NotProved as missing:
                    reason = missing
                    continue
                if goal or bound > 0:
                    return found, proofs, bound
                reason = NotProved("the two sides of the certificate are not proved to differ")
        raise reason

    def _multipliers(self, y: Vector, goal: Functional | None) -> Iterator[Vector]:
        largest = float(np.max(np.abs(floats(y)), initial=0.0))
        if 0.0 < largest < math.inf and not self._free.size:
            yield [on_grid(v, 30 - exponent(largest)) for v in y]
        yield y
        if self._free.size:
            yield from self._on_free(y, goal or {})
        elif self._descent is not None:
            gradient = self.adjoint(y, goal)
            worst = max(
                largest_eigenvalue(block, self.part(gradient, b)) for b, block in enumerate(self.blocks)
            )
            if 0.0 < worst < math.inf:
                yield [v + 2 * Fraction(worst) * s for v, s in zip(y, self._descent, strict=True)]

    @cached_property
    def _free(self) -> np.ndarray:
        """Entries on which the adjoint must vanish, except those of boxes."""
        free = [block.cone == "Free" and not block.box for block in self.blocks]
        return np.flatnonzero(np.repeat(free, [block.size for block in self.blocks]))

    @cached_property
    def _descent(self) -> Vector | None:
        """Multipliers of equality rows whose adjoint is minus the identity, nearly, on all blocks."""
        equal = [i for i, (low, high) in enumerate(self.bounds) if low is not None and low == high]
        if not equal or self.slacks or len(equal) * self.size > MOST_CORRECTED:
            return None
        table, powers = scaled([self.rows[i] for i in equal], np.ones(self.size), np.arange(self.size))
        target = np.zeros(self.size)
        for start, block in zip(self.starts, self.blocks, strict=False):
            target[start + np.array(diagonal(block) if block.packed else range(block.size))] = -1.0
        found = np.linalg.lstsq(table.T, target, rcond=None)[0]
        out = [Fraction(0)] * len(self.rows)
        for i, v, power in zip(equal, found.tolist(), powers.tolist(), strict=True):
            out[i] = Fraction(v) / Fraction(2) ** power if math.isfinite(v) else Fraction(0)
        gradient = self.adjoint(out)
        tops = (largest_eigenvalue(block, self.part(gradient, b)) for b, block in enumerate(self.blocks))
        return out if max(tops) < -0.1 else None

    def _on_free(self, y: Vector, goal: Functional) -> Iterator[Vector]:
        """Correct multipliers so that the adjoint vanishes on Free blocks."""
        table: dict[int, Functional] = {k: {} for k in self._free.tolist()}
        for i, row in enumerate(self.rows):
            for c, v in row.items():
                if c in table:
                    table[c][i] = v
        near, depth = list(y), self._row_weights(y)
        kept = depth.copy()
        boxed = {s for first, _ in self.boxes.values() for s in (first, first + 1)}
        for b, first in self.slacks.items():
            own = slice(first, first + self.blocks[b].size)
            if b in boxed:
                depth[own] = kept[own] = 0.0
            else:
                near[own], depth[own], kept[own] = moved_inside(self.blocks[b], y[own])
        equations = [(row, goal.get(k, Fraction(0))) for k, row in table.items()]
        yield from corrections(equations, y, near, depth, kept)

    def _row_weights(self, y: Vector) -> FloatArray:
        """How far multipliers may move: those of restricted sign by their size, the others by the largest."""
        near = np.abs(floats(y))
        sizes = np.array([max((abs(float(v)) for v in row.values()), default=1.0) for row in self.rows])
        top = float(np.max(near * sizes, initial=0.0))
        signed = np.array([None in ends for ends in self.bounds], dtype=bool)
        return np.where(signed, near, top / np.where(sizes > 0.0, sizes, 1.0))

    def _boxed(self, y: Vector, lift: float, goal: Functional | None) -> Vector:
        """Complete multipliers on boxes: ``G + N - P = 0`` with semidefinite ``N`` and ``P``."""
        out = list(y)
        for first, trace in self.boxes.values():
            for i in (
                *self.slack_rows(first),
                *self.slack_rows(first + 1),
                *([] if trace is None else [trace]),
            ):
                out[i] = Fraction(0)
        gradient = self.adjoint(out, goal) if self.boxes else []
        for b, (first, trace) in self.boxes.items():
            block = self.blocks[b]
            listed = [v / w for v, w in zip(self.part(gradient, b), block.weights(), strict=True)]
            if trace is not None:
                theta = box_threshold(block, listed)
                out[trace] = -theta
                for k in diagonal(block):
                    listed[k] -= theta
            below, above = self.slack_rows(first), self.slack_rows(first + 1)
            for i, j, v, p in zip(below, above, listed, positive_part(block, listed, lift), strict=True):
                out[i], out[j] = p - v, p
        return out


def functional(row: Any) -> Functional:
    """Return a row of ``sdpcheck.Problem`` as coefficients by position."""
    out: Functional = {}
    for scale, where, values in row:
        for k, v in sdpcheck.pairs(where, values):
            if v:
                out[k] = out.get(k, Fraction(0)) + scale * v
    return out


def apply(row: Functional, x: Sequence[Fraction]) -> Fraction:
    """Return the value of a functional at a point."""
    return sum((v * x[k] for k, v in row.items()), Fraction(0))


def full(side: int, listed: FloatArray) -> FloatArray:
    """Return a listed matrix as a full one; raises NotProved beyond the range of doubles."""
    if not np.isfinite(listed).all():
        raise NotProved("a matrix is outside the range of doubles")
    out = np.zeros((side, side))
    out[np.tril_indices(side)] = listed
    return out + np.tril(out, -1).T


def diagonal(block: sdpcheck.Block) -> list[int]:
    """Return the positions of the diagonal of a matrix."""
    return [i * (i + 3) // 2 for i in range(block.side)]


def moved_inside(block: sdpcheck.Block, x: Sequence[Fraction]) -> tuple[Sequence[Fraction], Any, Any]:
    """Move one block inside its cone; return it, and how far its and the old entries may move."""
    near = floats(x)
    if block.cone == "Nonneg":
        near = np.maximum(near, 0.0)
        return [max(v, Fraction(0)) for v in x], near, near
    if not block.packed:
        size = max(float(np.max(np.abs(near), initial=0.0)), 1.0)
        return x, size, size
    square = full(block.side, near)
    reach = None if block.box else scaled_depth(square)
    if reach is not None:
        return x, reach, reach
    lam = np.linalg.eigvalsh(square)
    # Move to a multiple of the identity: the centre of a box, or the largest eigenvalue.
    top = float(np.max(np.abs(lam)))
    low, high, middle = 0.0, math.inf, Fraction(top)
    if block.box:
        low, high, middle = float(block.lower), float(block.upper), (block.lower + block.upper) / 2
        middle = middle if block.trace is None else block.trace / block.n
        top = max(abs(low), abs(high))
    depth = min(float(lam[0]) - low, high - float(lam[-1]))
    width = min(float(middle) - low, high - float(middle))
    if depth > 1e-14 * top:
        return x, depth, depth
    if depth <= -CLOSE * top and not block.box:
        return x, 0.0, 0.0
    narrow = width <= NARROW * top
    share = 1.0 if narrow else min(max(-2.0 * depth, 8e-16 * block.side * top) / width, 1.0)
    out = [v * (1 - Fraction(share)) for v in x]
    for k in diagonal(block):
        out[k] += Fraction(share) * middle
    # Rows that are zero stay so, and other blocks are moved first.
    root = np.sqrt(np.maximum(np.diagonal(square), 0.0))
    kept = 2.0**-60 * np.outer(root, root)[np.tril_indices(block.side)]
    return out, 0.0 if narrow else share * width, 0.0 if block.box else kept


def scaled_depth(square: FloatArray) -> FloatArray | None:
    """Return how far the listed entries of a definite matrix may move, in proportion to its diagonal.

    None if the matrix is not clearly definite, whatever the units of its rows.
    """
    size = np.diagonal(square)
    if not np.all(size > 0.0):
        return None
    units = np.outer(np.sqrt(size), np.sqrt(size))
    least = float(np.linalg.eigvalsh(square / units)[0])
    return least * units[np.tril_indices(len(square))] if least > 1e-13 * len(square) else None


def largest_eigenvalue(block: sdpcheck.Block, f: Sequence[Fraction]) -> float:
    """Return the largest eigenvalue of a functional on a cone, plus a share for rounding."""
    near = floats(f)
    if not np.isfinite(near).all() or not block.packed:
        return float(np.max(near))
    lam = np.linalg.eigvalsh(full(block.side, near / np.array(block.weights())))
    return float(lam[-1] + 1e-15 * block.side * np.max(np.abs(lam)))


def box_threshold(block: sdpcheck.Block, listed: Vector) -> Fraction:
    """Return the eigenvalue of ``G`` above which those of a maximiser of ``<G, X>`` are at their bound."""
    ends = set(diagonal(block))
    if all(v == (listed[0] if k in ends else 0) for k, v in enumerate(listed)):
        return listed[0]
    lam = np.linalg.eigvalsh(full(block.n, floats(listed)))
    width = block.upper - block.lower
    count = float((block.trace - block.n * block.lower) / width) if width and block.trace is not None else 0.0
    place = len(lam) - 1 - math.floor(count)
    return Fraction(float(lam[min(max(place, 0), len(lam) - 1)]))


def positive_part(block: sdpcheck.Block, listed: Vector, lift: float) -> Vector:
    """Return ``P``, with ``P`` and ``P - G`` semidefinite up to rounding; exact if ``G`` is diagonal.

    ``lift`` times the side and the largest eigenvalue is added to all eigenvalues.
    """
    ends = set(diagonal(block))
    if not any(v for k, v in enumerate(listed) if k not in ends):
        return [max(v, Fraction(0)) for v in listed]
    lam, vec = np.linalg.eigh(full(block.n, floats(listed)))
    spread = float(np.max(np.abs(lam)))
    plus = (vec * np.maximum(lam, 0.0)) @ vec.T + spread * lift * block.n * np.eye(block.n)
    return fractions(((plus + plus.T) / 2)[np.tril_indices(block.n)])


#: In place of the largest exponent of a row without entries.
EMPTY = -(2**30)


def scaled(
    table: Sequence[Functional], weight: FloatArray, used: np.ndarray
) -> tuple[FloatArray, np.ndarray]:
    """Return rows times weights in the used columns, without overflow: numbers below 4, and powers of two."""
    at = {k: c for c, k in enumerate(used.tolist())}
    rows, columns, values = list[int](), list[int](), list[Fraction]()
    for i, row in enumerate(table):
        for k, v in row.items():
            if v and k in at:
                rows.append(i)
                columns.append(at[k])
                values.append(v)
    own = np.array([v.numerator.bit_length() - v.denominator.bit_length() for v in values], dtype=np.int64)
    small = floats(v / Fraction(2) ** e for v, e in zip(values, own.tolist(), strict=True))
    share, more = np.frexp(weight[used])
    power = own + more[columns]
    top = np.full(len(table), EMPTY)
    np.maximum.at(top, rows, power)
    out = np.zeros((len(table), len(used)))
    out[rows, columns] = np.ldexp(small * share[columns], power - top[rows])
    return out, np.where(top > EMPTY, top, 0)


def corrections(
    equations: Sequence[tuple[Functional, Fraction]],
    x: Vector,
    near: Vector,
    depth: FloatArray,
    kept: FloatArray,
) -> Iterator[Vector]:
    """Yield ``x`` and ``near``, which is inside the cones, rounded and moved to exact solutions.

    Entries of ``near`` may move by ``depth``, those of ``x`` by ``kept``.
    """
    table, right = [row for row, _ in equations], [v for _, v in equations]
    for base, room in [(near, depth)] if np.array_equal(kept, depth) else [(x, kept), (near, depth)]:
        for guard in GUARD_BITS:
            grid = guard - np.frexp(room)[1]
            places = zip(base, grid.tolist(), room.tolist(), strict=True)
            inside = [on_grid(v, bits) if reach else v for v, bits, reach in places]
            yield inside
            moved = corrected(table, right, inside, room, grid) if table else None
            if moved is not None:
                yield moved


def corrected(
    table: Sequence[dict[int, Fraction]],
    right: Sequence[Fraction],
    x: Vector,
    weight: FloatArray,
    grid: np.ndarray,
) -> Vector | None:
    """Return ``x`` moved to an exact solution of ``table x = right``; None if none is found.

    Least-norm corrections in floating point, weighted by how far entries may go, leave a residual of rounding
    size. Then one entry per independent equation, chosen by pivoted QR factorisation, is recomputed exactly.
    """
    if len(table) > MOST_EQUATIONS or len(table) * len(x) > MOST_CORRECTED:
        raise NotProved("there are too many equations for an exact solution")

    def residual(z: Vector) -> Vector:
        sums = (sum((v * z[k] for k, v in row.items()), Fraction(0)) for row in table)
        return [b - s for b, s in zip(right, sums, strict=True)]

    used = np.flatnonzero(weight > 0.0)
    near, powers = scaled(table, weight, used)
    if not near.size or not np.isfinite(near).all():
        return None
    # Rows of norm one: truss5 loses its point to the cutoff of singular values without.
    size = np.linalg.norm(near, axis=1)
    size = np.where(size > 0.0, size, 1.0)
    near = near / size[:, None]
    units = [Fraction(2) ** power for power in powers.tolist()]
    z, off = list(x), residual(x)
    inverse = np.linalg.pinv(near, rcond=1e-11) if any(off) else near
    for _ in range(REFINEMENTS):
        if not any(off):
            return z
        gaps = floats(v / unit for v, unit in zip(off, units, strict=True))
        with np.errstate(over="ignore", invalid="ignore"):
            step = (inverse @ (gaps / size)) * weight[used]
        if not np.isfinite(step).all():
            return None
        grid = grid + 30
        for k, v, bits in zip(used.tolist(), step.tolist(), grid[used].tolist(), strict=True):
            if v:
                z[k] = z[k] + on_grid(Fraction(v), bits)
        off = residual(z)
    if not any(off):
        return z
    _, triangle, columns = scipy.linalg.qr(near, mode="economic", pivoting=True)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int(np.sum(diagonal > 1e-10 * np.max(diagonal, initial=0.0)))
    columns = columns[:rank]
    rows = scipy.linalg.qr(near[:, columns].T, mode="economic", pivoting=True)[2][:rank]
    places = used[columns].tolist()
    square = [[table[i].get(k, Fraction(0)) for k in places] for i in rows.tolist()]
    part = solve(square, [off[i] for i in rows.tolist()])
    if part is None:
        return None
    for k, v in zip(places, part, strict=True):
        z[k] += v
    return None if any(residual(z)) else z


def polar(block: sdpcheck.Block, f: Sequence[Fraction], face: Any) -> tuple[Any, Any]:
    """Return a proof that a functional is non-positive on a face, and the face where it vanishes."""
    if block.cone == "Free":
        if any(f):
            raise NotProved("the adjoint does not vanish on a free block")
        return None, None
    if block.cone == "Nonneg":
        alive = range(block.size) if face is None else face
        if any(f[k] > 0 for k in alive):
            raise NotProved("the adjoint is positive on a non-negative block")
        return None, [k for k in alive if f[k] == 0]
    m = block.square([-v for v in f])
    if face is not None:
        m = sdpcheck.products(face, sdpcheck.products(face, m))
    proof = prove_semidefinite(m)
    columns = sdpcheck.semidefinite(m, proof)
    return proof, columns if face is None else sdpcheck.products(columns, list(zip(*face, strict=True)))
