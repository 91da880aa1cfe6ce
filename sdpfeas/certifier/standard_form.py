"""Exact points and multipliers of a problem in the standard form of ``sdpcheck.Problem``.

There, blocks are in PSD, Nonneg or Free cones; second-order and Hermitian cones are semidefinite, boxes are
LMIs. FEASIBLE (:meth:`StandardForm.feasible`): the point is moved inside its cones, the equality rows are
corrected in floating point until only rounding is left, and as many entries as there are independent rows are
recomputed exactly. INFEASIBLE (:meth:`StandardForm.infeasible`): the multipliers are corrected likewise where
the adjoint must vanish, and shifted where it must be negative semidefinite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from sdpfeas import sdpcheck
from sdpfeas.certifier.factors import prove_semidefinite
from sdpfeas.certifier.numbers import exponent, floats, fractions, on_grid, solve, texts
from sdpfeas.errors import NotProved
from sdpfeas.numerics.linalg import FloatArray

Vector = list[Fraction]
#: Coefficients by position.
Functional = dict[int, Fraction]

#: Bits kept of a rounded point below its distance to the boundary: few, or more for rows that nearly hold.
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
    """The problem as the checker reads it, in exact and in floating-point numbers."""

    def __init__(self, problem: sdpcheck.Problem, rows: list[Functional] | None = None) -> None:
        self.problem, self.lmis = problem, problem.lmis
        self.sets, self.starts, self.bounds = problem.sets, problem.starts, list(problem.bounds)
        self.size = self.starts[-1]
        self.rows = [self._dict(row) for row in problem.rows] if rows is None else rows
        #: For every box the position of its two LMIs, and of the row of its trace.
        self.boxes: dict[int, tuple[int, int | None]] = {}
        boxes = [b for b, block in enumerate(self.sets) if block.box] if rows is None else []
        first, trace = len(self.lmis) - 2 * len(boxes), len(self.rows)
        trace -= sum(self.sets[b].trace is not None for b in boxes)
        for b in boxes:
            has_trace = self.sets[b].trace is not None
            self.boxes[b] = (first, trace if has_trace else None)
            first, trace = first + 2, trace + has_trace

    @staticmethod
    def _dict(row: Any) -> dict[int, Fraction]:
        out: dict[int, Fraction] = {}
        for scale, where, values in row:
            for k, v in sdpcheck.pairs(where, values):
                if v:
                    out[k] = out.get(k, Fraction(0)) + scale * v
        return out

    @cached_property
    def objective(self) -> dict[int, Fraction]:
        """The functional to minimise."""
        sign = 1 if self.problem.sense == "min" else -1
        return {k: sign * v for k, v in self._dict(self.problem.objective).items()}

    def part(self, x: Sequence[Any], b: int) -> Sequence[Any]:
        """Return the entries of one block."""
        return x[self.starts[b] : self.starts[b] + self.sets[b].size]

    def value(self, lmi: int, x: Sequence[Fraction]) -> Vector:
        """Return ``F(x)``, listed."""
        block, constant, parts = self.lmis[lmi]
        total = [constant.get(k, Fraction(0)) for k in range(block.size)]
        for c, part in parts.items():
            if x[c]:
                for k, v in part.items():
                    total[k] += v * x[c]
        return [v / w for v, w in zip(total, block.weights(), strict=True)]

    def adjoint(self, y: Sequence[Fraction], own: Sequence[Vector], objective: bool = False) -> Vector:
        """Return ``A*y + B*Y``, minus the objective, as a functional."""
        total = [Fraction(0)] * self.size
        for weight, row in zip(y, self.rows, strict=True):
            if weight:
                for k, v in row.items():
                    total[k] += weight * v
        for (_, _, parts), multiplier in zip(self.lmis, own, strict=True):
            if any(multiplier):
                for c, part in parts.items():
                    total[c] += sum((v * multiplier[k] for k, v in part.items()), Fraction(0))
        for k, v in self.objective.items() if objective else ():
            total[k] -= v
        return total

    def functionals(self, y: Sequence[Fraction], own: Sequence[Vector], objective: bool = False) -> list[Any]:
        """Return what must be non-positive on every block and LMI: the adjoint and minus ``Y``."""
        gradient = self.adjoint(y, own, objective)
        out: list[Any] = [self.part(gradient, b) for b in range(len(self.sets))]
        for (block, _, _), multiplier in zip(self.lmis, own, strict=True):
            out.append([-v * w for v, w in zip(multiplier, block.weights(), strict=True)])
        return out

    # --- FEASIBLE

    def primal(self, x: Vector) -> dict[str, Any]:
        """Return the proof that a point is feasible; raises NotProved."""
        for i, (row, (low, high)) in enumerate(zip(self.rows, self.bounds, strict=True)):
            value = sum((v * x[k] for k, v in row.items()), Fraction(0))
            if (low is not None and value < low) or (high is not None and value > high):
                raise NotProved(f"row {i} is violated")
        parts = [self.part(x, b) for b in range(len(self.sets))]
        return {
            "point": [texts(part) for part in parts],
            "sets": [self._member(f"block {b}", block, parts[b]) for b, block in enumerate(self.sets)],
            "lmis": [self._member(f"LMI {j}", lmi[0], self.value(j, x)) for j, lmi in enumerate(self.lmis)],
        }

    def _member(self, name: str, block: sdpcheck.Block, listed: Sequence[Fraction]) -> Any:
        """Return the proof that a vector or matrix is in its cone."""
        sign = 0 if block.cone == "Free" else -1
        try:
            return polar(block, [sign * v * w for v, w in zip(listed, block.weights(), strict=True)], None)[0]
        except NotProved as reason:
            raise NotProved(f"{name} is not proved to be in its set: {reason}") from None

    def feasible(self, x: Vector) -> Vector:
        """Return a point near ``x`` that :meth:`primal` proves; raises NotProved."""
        reason = NotProved("no exact solution was found near the point")
        for candidate in self._candidates(x):
            try:
                self.primal(candidate)
                return candidate
            except NotProved as missing:
                reason = missing
        raise reason

    def _candidates(self, x: Vector) -> Iterator[Vector]:
        yield x
        near, depth, kept = self._inside(x)
        systems = self._equations(x)
        for base, room in [(near, depth)] if np.array_equal(kept, depth) else [(x, kept), (near, depth)]:
            metrics = [room]
            if len(self.sets) > 1:
                metrics += [np.where(self._owner == b, room, 0.0) for b in range(min(len(self.sets), 8))]
            for guard in GUARD_BITS:
                grid = guard - np.frexp(room)[1]
                places = zip(base, grid.tolist(), room.tolist(), strict=True)
                inside = [on_grid(v, bits) if reach else v for v, bits, reach in places]
                yield inside
                for table, right in systems:
                    for weight in metrics:
                        moved = corrected(table, right, inside, weight, grid)
                        if moved is not None:
                            yield moved

    def _equations(self, x: Vector) -> list[tuple[list[Functional], list[Fraction]]]:
        """Return systems of equations to correct a point by: the equality rows; also with all tight rows.

        Rows that are multiples of each other are taken once: equations may be written as two inequalities.
        """
        equal, tight = dict[Any, tuple[Functional, Fraction]](), dict[Any, tuple[Functional, Fraction]]()
        for row, (low, high) in zip(self.rows, self.bounds, strict=True):
            entries = [(k, v) for k, v in sorted(row.items()) if v]
            if not entries:
                continue
            value = sum((v * x[k] for k, v in entries), Fraction(0))
            direction = tuple((k, v / entries[0][1]) for k, v in entries)
            for bound in (low, high):
                if bound is not None and low == high:
                    equal[direction] = row, bound
                elif bound is not None and abs(value - bound) <= TIGHT * max(abs(value), abs(bound)):
                    tight.setdefault(direction, (row, bound))
        systems = [equal] if equal else []
        systems += [tight | equal] if set(tight) - set(equal) else []
        return [([row for row, _ in s.values()], [bound for _, bound in s.values()]) for s in systems]

    @cached_property
    def _owner(self) -> np.ndarray:
        """The block of every entry."""
        return np.repeat(np.arange(len(self.sets)), [block.size for block in self.sets])

    def _inside(self, x: Vector) -> tuple[Vector, FloatArray, FloatArray]:
        """Move blocks inside their cones; return the point, and how far its and the old entries may move."""
        out, depth, kept = list(x), np.zeros(self.size), np.zeros(self.size)
        for b, block in enumerate(self.sets):
            own = slice(self.starts[b], self.starts[b] + block.size)
            near = floats(x[own])
            if block.cone == "Nonneg":
                out[own] = [max(v, Fraction(0)) for v in x[own]]
                depth[own] = kept[own] = np.maximum(near, 0.0)
            elif block.packed:
                square = full(block, near)
                reach = None if block.box else scaled_depth(square)
                if reach is not None:
                    depth[own] = kept[own] = reach
                    continue
                depth[own], shift, middle = _room(block, np.asarray(np.linalg.eigvalsh(square), dtype=float))
                kept[own] = depth[own] * (shift == 0.0)
                if shift > 0.0 and block.box:
                    out[own] = [v * (1 - Fraction(shift)) for v in x[own]]
                for k in diagonal(block):
                    out[own.start + k] += Fraction(shift) * (middle if block.box else 1)
            else:
                depth[own] = kept[own] = max(float(np.max(np.abs(near), initial=0.0)), 1.0)
        return out, depth, kept

    # --- INFEASIBLE

    def dual(
        self, y: Sequence[Fraction], own: Sequence[Vector], faces: Sequence[Any], *, objective: bool = False
    ) -> tuple[dict[str, Any], Fraction, list[Any]]:
        """Return the proof of multipliers, the bound they prove, and the smaller faces; raises NotProved."""
        total = Fraction(0)
        for i, weight in enumerate(y):
            if weight:
                bound = self.bounds[i][weight < 0]
                if bound is None:
                    raise NotProved(f"the multiplier of row {i} has the sign of a missing bound")
                total += weight * bound
        for (_, constant, _), multiplier in zip(self.lmis, own, strict=True):
            total -= sum((v * multiplier[k] for k, v in constant.items()), Fraction(0))
        functionals = self.functionals(y, own, objective)
        after, proofs = list[Any](), list[Any]()
        blocks = [*self.sets, *(lmi[0] for lmi in self.lmis)]
        for block, f, face in zip(blocks, functionals, faces, strict=True):
            proof, smaller = polar(block, f, face)
            proofs.append(proof)
            after.append(smaller)
        count = len(self.sets)
        document = {
            "rows": texts(y),
            "multipliers": [texts(part) for part in own],
            "sets": proofs[:count],
            "lmis": proofs[count:],
        }
        return document, total, after

    def infeasible(
        self, y: Vector, own: list[Vector], *, objective: bool = False
    ) -> tuple[dict[str, Any], Fraction]:
        """Return a proof by multipliers near the given ones, and the bound it proves; raises NotProved."""
        reason = NotProved("no exact multipliers were found")
        faces = [None] * (len(self.sets) + len(self.lmis))
        for first, second in self._multipliers(y, own, objective):
            for lift in LIFTS if self.boxes else (0.0,):
                try:
                    own = self._boxed(first, second, lift, objective)
                    document, bound, _ = self.dual(first, own, faces, objective=objective)
                except NotProved as missing:
                    reason = missing
                    continue
                if objective or bound > 0:
                    return document, bound
                reason = NotProved("the two sides of the certificate are not proved to differ")
        raise reason

    def _multipliers(
        self, y: Vector, own: list[Vector], objective: bool
    ) -> Iterator[tuple[Vector, list[Vector]]]:
        largest = max((abs(v) for v in y), default=Fraction(0))
        if largest and not self._free.size:
            bits = 30 - exponent(float(largest)) if math.isfinite(float(largest)) else 0
            yield [on_grid(v, bits) for v in y], own
        yield y, own
        if self._free.size:
            for weight in (True, False):
                moved = self._on_free(y, own, objective, inside=weight)
                if moved is not None:
                    yield moved
        shift = self._definite_shift
        if shift is not None:
            gradient = self.adjoint(y, own, objective)
            worst = max((self._excess(b, gradient) for b in range(len(self.sets))), default=0.0)
            for times in (2, 64, 2**12):
                if 0 < worst < math.inf:
                    t = Fraction(worst) * times
                    yield [v + t * s for v, s in zip(y, shift, strict=True)], own

    @cached_property
    def _free(self) -> np.ndarray:
        """Entries on which the adjoint must vanish, except those of boxes."""
        free = [block.cone == "Free" and not block.box for block in self.sets]
        return np.flatnonzero(np.array(free, dtype=bool)[self._owner])

    def _excess(self, b: int, gradient: Vector) -> float:
        """Return the largest eigenvalue of a functional on a cone, plus a share for rounding."""
        block = self.sets[b]
        if block.cone == "Free":
            return 0.0
        near = floats(self.part(gradient, b))
        if not np.isfinite(near).all():
            return math.inf
        if block.cone == "Nonneg":
            return float(np.max(near))
        lam = np.linalg.eigvalsh(full(block, near / np.array(block.weights())))
        return float(lam[-1] + 1e-15 * block.side * np.max(np.abs(lam)))

    @cached_property
    def _definite_shift(self) -> Vector | None:
        """Multipliers of equality rows whose adjoint is minus the identity, nearly, on all cones."""
        equal = [i for i, (low, high) in enumerate(self.bounds) if low is not None and low == high]
        if not equal or self.lmis or self._free.size or len(equal) * self.size > MOST_CORRECTED:
            return None
        whole = np.ones(self.size), np.arange(self.size)
        table, powers = scaled([self.rows[i] for i in equal], *whole)
        target = np.zeros(self.size)
        for b, block in enumerate(self.sets):
            target[self.starts[b] + np.array(diagonal(block))] = -1.0
        found = np.linalg.lstsq(table.T, target, rcond=None)[0]
        out = [Fraction(0)] * len(self.rows)
        for i, v, power in zip(equal, found.tolist(), powers.tolist(), strict=True):
            out[i] = Fraction(v) / Fraction(2) ** power if math.isfinite(v) else Fraction(0)
        gradient = self.adjoint(out, [])
        return out if all(self._excess(b, gradient) < -0.1 for b in range(len(self.sets))) else None

    def _on_free(
        self, y: Vector, own: list[Vector], objective: bool, *, inside: bool
    ) -> tuple[Vector, list[Vector]] | None:
        """Correct multipliers so that the adjoint vanishes on Free blocks; None if that fails.

        The unknowns are the multipliers of the rows, and the listed entries of those of the LMIs.
        """
        boxed = {j for first, _ in self.boxes.values() for j in (first, first + 1)}
        places = {int(c): k for k, c in enumerate(self._free)}
        table: list[dict[int, Fraction]] = [{} for _ in places]
        for i, row in enumerate(self.rows):
            for c, v in row.items():
                if c in places:
                    table[places[c]][i] = v
        start, moved, weights = len(self.rows), list(own), [self._row_weights(y)]
        for j, (block, _, parts) in enumerate(self.lmis):
            if j not in boxed:
                moved[j], depth = self._inside_dual(block, own[j], inside=inside)
                weights.append(depth)
                for c, part in parts.items():
                    if c in places:
                        table[places[c]] |= {start + k: v for k, v in part.items()}
            else:
                moved[j] = [Fraction(0)] * block.size
                weights.append(np.zeros(block.size))
            start += block.size
        goal = [self.objective.get(int(c), Fraction(0)) if objective else Fraction(0) for c in self._free]
        flat = [*y, *(v for part in moved for v in part)]
        weight = np.concatenate(weights)
        grid = GUARD_BITS[-1] - np.frexp(weight)[1]
        found = corrected(table, goal, flat, weight, grid)
        if found is None:
            return None
        out, end = list[Vector](), len(self.rows)
        for block, _, _ in self.lmis:
            out.append(found[end : end + block.size])
            end += block.size
        return found[: len(self.rows)], out

    def _row_weights(self, y: Vector) -> FloatArray:
        """How far multipliers may move: those of restricted sign by their size, the others by the largest."""
        near = np.abs(floats(y))
        sizes = np.array([max((abs(float(v)) for v in row.values()), default=1.0) for row in self.rows])
        top = float(np.max(near * sizes, initial=0.0))
        signed = np.array([None in ends for ends in self.bounds], dtype=bool)
        return np.where(signed, near, top / np.where(sizes > 0.0, sizes, 1.0))

    def _inside_dual(self, block: sdpcheck.Block, w: Vector, *, inside: bool) -> tuple[Vector, FloatArray]:
        """Move the multiplier of an LMI inside its cone; return it, and how far its entries may move."""
        near = floats(w)
        if block.cone == "Nonneg":
            return [max(v, Fraction(0)) for v in w], np.maximum(near, 0.0)
        square = full(block, near)
        reach = scaled_depth(square)
        if reach is not None and inside:
            return list(w), reach
        lam, vec = np.linalg.eigh(square)
        top = float(np.max(np.abs(lam), initial=0.0))
        shift = max(-2.0 * float(lam[0]), 1e-15 * top) if inside and lam[0] > -CLOSE * top else 0.0
        out = list(w)
        for k in diagonal(block) if float(lam[0]) <= 1e-14 * top else ():
            out[k] += Fraction(shift)
        if not inside:
            return out, np.full(block.size, top)
        # Entries move in proportion to the matrix itself, so that small eigenvalues stay positive.
        size = np.sqrt(np.abs(lam) @ (vec * vec).T)
        lower = np.tril_indices(block.side)
        return out, np.outer(size, size)[lower]

    def _boxed(self, y: Vector, own: list[Vector], lift: float, objective: bool) -> list[Vector]:
        """Complete multipliers on boxes: ``G + N - P = 0`` with semidefinite ``N`` and ``P``."""
        if not self.boxes:
            return own
        out = list(own)
        for b, (first, trace) in self.boxes.items():
            block = self.sets[b]
            zero = [Fraction(0)] * block.size
            out[first], out[first + 1] = zero, zero
            if trace is not None:
                y[trace] = Fraction(0)
        gradient = self.adjoint(y, out, objective)
        for b, (first, trace) in self.boxes.items():
            block, g = self.sets[b], list(self.part(gradient, b))
            weights = block.weights()
            listed = [v / w for v, w in zip(g, weights, strict=True)]
            theta = Fraction(0) if trace is None else box_threshold(block, listed)
            if trace is not None:
                y[trace] = -theta
            for k in diagonal(block):
                listed[k] -= theta
            out[first + 1] = positive_part(block, listed, lift)
            out[first] = [p - v for v, p in zip(listed, out[first + 1], strict=True)]
        return out


def full(block: sdpcheck.Block, listed: FloatArray) -> FloatArray:
    """Return a listed matrix as a full one; raises NotProved beyond the range of doubles."""
    if not np.isfinite(listed).all():
        raise NotProved("a matrix is outside the range of doubles")
    out = np.zeros((block.side, block.side))
    out[np.tril_indices(block.side)] = listed
    return out + np.tril(out, -1).T


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


def diagonal(block: sdpcheck.Block) -> list[int]:
    """Return the positions of the diagonal of a matrix, or of all entries of a vector."""
    return [i * (i + 3) // 2 for i in range(block.side)] if block.packed else list(range(block.size))


def _room(block: sdpcheck.Block, lam: FloatArray) -> tuple[float, float, Fraction]:
    """Return the distance to the boundary, a shift that moves inside, and the middle of a box."""
    top = float(np.max(np.abs(lam)))
    if not block.box:
        if lam[0] > 1e-14 * top:
            return float(lam[0]), 0.0, Fraction(0)
        if lam[0] < -CLOSE * top:
            return 0.0, 0.0, Fraction(0)
        shift = max(-2.0 * float(lam[0]), 4e-16 * block.side * top, 1e-300)
        return shift, shift, Fraction(0)
    low, high = float(block.lower), float(block.upper)
    middle = (block.lower + block.upper) / 2 if block.trace is None else block.trace / block.n
    depth = min(float(lam[0]) - low, high - float(lam[-1]))
    width = min(float(middle) - low, high - float(middle))
    if width <= NARROW * max(abs(low), abs(high)):
        return 0.0, 1.0, middle
    if depth > 1e-14 * max(abs(low), abs(high)):
        return depth, 0.0, middle
    shift = min(max(-2.0 * depth, 8e-16 * block.side * max(abs(low), abs(high))) / width, 1.0)
    return shift * width, shift, middle


def box_threshold(block: sdpcheck.Block, listed: Vector) -> Fraction:
    """Return the eigenvalue of ``G`` above which those of a maximiser of ``<G, X>`` are at their bound."""
    ends = set(diagonal(block))
    if all(v == (listed[0] if k in ends else 0) for k, v in enumerate(listed)):
        return listed[0]
    lam = np.linalg.eigvalsh(full(block, floats(listed)))
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
    lam, vec = np.linalg.eigh(full(block, floats(listed)))
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
    if not near.size:
        return None
    size = np.linalg.norm(near, axis=1)
    near = near / np.where(size > 0.0, size, 1.0)[:, None]
    units = [Fraction(2) ** power for power in powers.tolist()]
    z, off = list(x), residual(x)
    inverse = None
    for _ in range(REFINEMENTS):
        if not any(off):
            return z
        inverse = np.linalg.pinv(near, rcond=1e-11) if inverse is None else inverse
        gaps = floats(v / unit for v, unit in zip(off, units, strict=True))
        with np.errstate(over="ignore", invalid="ignore"):
            step = (inverse @ (gaps / np.where(size > 0.0, size, 1.0))) * weight[used]
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
