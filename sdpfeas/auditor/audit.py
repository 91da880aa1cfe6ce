"""Audit: an independent second proof of a stored answer, from the stored numbers alone.

The auditor shares no proof code with the verifier, only the file readers, and proves differently: in rational
arithmetic instead of floating point with error bounds. Only factorisations that would grow too long use balls
(python-flint's ``arb``). Floating point is used for guesses (bases, weights, distances) and decides nothing.
Of the library it reads only what files hold: the parameters of sets, the arrays of rows, bounds and evidence.
:func:`audit` is the entry point.

FEASIBLE: blocks outside their sets are moved inside; the least-norm step that satisfies the equality rows, in
units of the distance to the boundary, is computed exactly; then sets are checked by ``L D L'``
factorisations, rows and LMIs by their values. INFEASIBLE (Farkas' lemma): multipliers near the given ones
with ``A*y + B*Y = 0`` on Free blocks are computed in the same way; ``beta(y) - <Y, F(0)>`` must exceed upper
bounds of the support functions of all sets at ``A*y + B*Y``, and of the sets of LMIs at ``-Y``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpfeas.auditor import arithmetic
from sdpfeas.auditor.arithmetic import (
    NotProved,
    RationalRows,
    Row,
    approximate_eigensystem,
    approximate_eigenvalues,
    each,
    identity,
    least_norm_step,
    metric_images,
    nearby_power_of_two,
    product,
    rational,
    rational_evidence,
    row_echelon_form,
    semidefinite,
    zeros,
)
from sdpfeas.auditor.facial_reduction import FacialReplay, read

if TYPE_CHECKING:
    from sdpfeas.io.result_files import SavedResult
    from sdpfeas.problem.problem import FeasibilityProblem

__all__ = ["Audit", "Finding", "NotProved", "audit", "prove"]

#: Size limits of an audit: numbers in rows, equality rows, side of a matrix.
LARGEST = (6_000_000, 1_500, 1_000)
#: Width of a box, relative to its bounds, below which its centre replaces a point outside.
NARROW = Fraction(1, 2**40)
#: Distance from the boundary, relative to the width of a set, to which a block outside is moved.
INSIDE = Fraction(1, 2**80)
#: The rational number that a stored number stands for.
Read = Callable[[float], Any]
READINGS: dict[str, Read] = {"stored": rational, "written": lambda value: rational(read(value))}


class Finding(StrEnum):
    """Outcome of an audit: proved again; no proof was claimed; not proved; the opposite is proved."""

    CONFIRMED = "confirmed"
    NUMERIC = "numeric"
    NOT_CONFIRMED = "not confirmed"
    REFUTED = "refuted"


@dataclass(frozen=True)
class Audit:
    """An audited answer: finding, the verdict that the auditor proves, the reason and the reading."""

    finding: Finding
    proved: str | None
    reason: str
    reading: str


def audit(problem: FeasibilityProblem, answer: SavedResult, reading: str = "stored") -> Audit:
    """Prove a stored answer, or its opposite, for the given reading of the data.

    The reading is part of the question: an answer about other numbers is not confirmed.
    """
    if reading not in READINGS:
        raise ValueError(f"reading must be 'stored' or 'written', got {reading!r}")
    try:
        arithmetic.require_ieee()
        found = _audit(problem, answer, reading)
    except NotProved as wrong:
        found = Finding.NOT_CONFIRMED, None, str(wrong)
    about = "" if reading == "stored" else f", about the numbers as {reading}"
    return Audit(found[0], found[1], found[2] + about, reading)


def _audit(problem: FeasibilityProblem, answer: SavedResult, reading: str) -> tuple[Finding, str | None, str]:
    evidence: dict[str, Any] = {"feasible": answer.point, "infeasible": answer.certificate}
    if answer.verdict not in evidence:
        return Finding.NOT_CONFIRMED, None, "the answer claims neither feasible nor infeasible"
    if answer.reading != reading:
        note = f"the answer is about the numbers as {answer.reading}, and was asked about those as {reading}"
        return Finding.NOT_CONFIRMED, None, note
    if answer.chain is not None and answer.chain.reading == reading:
        with suppress(NotProved):
            replay = FacialReplay(RationalProblem(problem, reading))
            why = replay.prove(answer.verdict, answer.chain.steps, answer.point)
            return Finding.CONFIRMED, answer.verdict, why
    own = evidence[answer.verdict] if answer.rational is None else answer.rational
    claimed = answer.proof in ("rigorous", "exact")
    try:
        why = prove(problem, answer.verdict, () if own is None else own, reading)
        return Finding.CONFIRMED if claimed else Finding.NUMERIC, answer.verdict, why
    except NotProved as missing:
        why = str(missing)
    (opposite,) = {"feasible", "infeasible"} - {answer.verdict}
    for other in (evidence[opposite], None):
        with suppress(NotProved):
            return Finding.REFUTED, opposite, prove(problem, opposite, other, reading)
    return Finding.NOT_CONFIRMED if claimed else Finding.NUMERIC, None, why


def prove(problem: FeasibilityProblem, verdict: str, evidence: Any, reading: str = "stored") -> str:
    """Prove a verdict and return how, or raise NotProved.

    Without evidence, FEASIBLE is attempted at the centres of the sets and INFEASIBLE by inconsistent equality
    rows.
    """
    arithmetic.require_ieee()
    question = RationalProblem(problem, reading)
    if verdict == "feasible":
        middle = [np.eye(block.n) if block.matrix else np.ones(block.n) for block in problem.sets]
        return question.feasible(middle if evidence is None else evidence)
    return question.contradiction() if evidence is None else question.infeasible(evidence)


class Block:
    """A set: ``low <= X <= high`` with a trace, by eigenvalues or entries; None for a missing bound."""

    def __init__(self, kind: str, n: int = 0, side: int = 0, read: Read = rational, **ends: Any) -> None:
        if kind not in ("PSD", "Nonneg", "Free", "SpectralBox", "SecondOrder", "HermitianPSD"):
            raise NotProved(f"the set {kind!r} is unknown to the auditor")
        low = None if kind == "Free" else ends.get("lower", 0.0)
        known: Any = (None if v is None else read(v) for v in (low, ends.get("upper"), ends.get("trace")))
        self.low, self.high, self.trace = known
        self.kind, self.n, self.matrix = kind, n or side**2, kind in ("PSD", "SpectralBox")
        self.cone = kind in ("SecondOrder", "HermitianPSD")
        self.side = 2 * side or n * (self.matrix or self.cone)
        self.shape = (n, n) if self.matrix else (self.n,)

    def image(self, x: np.ndarray) -> np.ndarray:
        """Return a symmetric matrix that is semidefinite exactly if ``x`` is a member of a vector cone."""
        if self.kind == "SecondOrder":
            out = identity(self.n, x[0])
            out[0, 1:] = out[1:, 0] = x[1:]
            return out
        stored = x.reshape(self.side // 2, -1)
        real, imaginary = (stored + stored.T) / 2, (stored - stored.T) / 2
        return np.vstack([np.hstack([real, -imaginary]), np.hstack([imaginary, real])])

    def holds(self, x: np.ndarray) -> bool:
        """Prove that ``x`` is within the bounds; a prescribed trace is a row of its own."""
        if self.cone:
            return semidefinite(self.image(x))
        if not self.matrix:
            return self.low is None or all(v >= 0 for v in x)
        below = self.high is None or semidefinite(identity(self.n, self.high) - x)
        return below and semidefinite(x - identity(self.n, self.low))

    def nearby_member(self, x: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return a member near ``x``, and an estimate of how far it may move."""
        if self.low is None:
            return x, max(abs(x)) or rational(1)
        if self.cone:
            lam = approximate_eigenvalues(self.image(x))
            if self.holds(x):
                return x, max(lam[0], 0 * lam[0])
            unit = zeros(self.n)
            unit[:: 1 + (self.side // 2 if self.kind == "HermitianPSD" else self.n)] = rational(1)
            return x + unit * (max(map(abs, lam)) * rational(INSIDE) - min(lam[0], 0 * lam[0])), rational(0)
        if not self.matrix:
            return (inside := np.maximum(x, rational(0))), inside
        x = self.with_trace(x)
        lam = approximate_eigenvalues(x)
        high = 2 * max(map(abs, lam)) if self.high is None else self.high
        if self.holds(x):
            return x, max(0 * high, min(lam[0] - self.low, high - lam[-1]))
        middle = (self.low + high) / 2 if self.trace is None else self.trace / self.n
        width = min(middle - self.low, high - middle)
        if width <= rational(NARROW) * max(abs(self.low), abs(high)):
            return identity(self.n, middle), rational(0)  # the only member, or close to all others
        low, high = self.low + width * rational(INSIDE), high - width * rational(INSIDE)
        lam, q = approximate_eigensystem(x)
        moved = each(lambda v: min(max(v, low), high), lam)
        if self.trace is not None and moved.sum() != self.trace:
            # Distribute the missing trace in proportion to the distance to the bounds.
            left = (high if moved.sum() < self.trace else low) - moved
            moved = moved + left * ((self.trace - moved.sum()) / left.sum())
        return self.with_trace(product(q * moved, q.T)), rational(0)

    def with_trace(self, x: np.ndarray) -> np.ndarray:
        """Add a multiple of the identity such that the trace is the prescribed one."""
        return x if self.trace is None else x + identity(self.n, (self.trace - x.trace()) / self.n)

    def support(self, g: np.ndarray) -> Any:
        """Return an upper bound of ``<g, X>`` over the set.

        In a box ``X = low I + (high - low) W`` with ``0 <= W <= I``: the bound is ``low tr g`` plus the width
        times the eigenvalues selected by ``W``, the ``k`` largest if its trace ``k`` is prescribed, else the
        positive ones. Eigenvalues of ``B = Q'gQ`` differ from its diagonal by at most its off-diagonal part
        (Weyl), those of ``g`` from these by a factor as close to one as ``Q'Q`` is to the identity
        (Ostrowski).
        """
        if self.high is None:
            if (g != 0).any() if self.low is None else not self.holds(-g):
                raise NotProved("A*y is not proved to be non-positive on an unbounded block")
            return rational(0)
        _, q = approximate_eigensystem(g)
        b, skew = product(q.T, product(g, q)), product(q.T, q) - identity(self.n)
        diagonal = np.array(sorted(b.diagonal(), reverse=True))
        off, loss = (max(abs(row).sum() for row in part) for part in (b - np.diag(b.diagonal()), skew))
        if 2 * loss > 1:
            raise NotProved("no basis was found for the support function of a box")
        diagonal = diagonal + off + 2 * loss * (max(abs(diagonal)) + off)
        width, picked = self.high - self.low, (rational(int(v > 0)) for v in diagonal)
        if self.trace is not None and width != 0:
            count = (self.trace - self.n * self.low) / width
            picked = (min(max(count - k, rational(0)), rational(1)) for k in range(self.n))
        return self.low * g.trace() + width * sum(map(lambda v, share: v * share, diagonal, picked))


#: A row that is zero on a block: no positions, no values.
NO_ENTRIES = (np.zeros(0, dtype=int), zeros(0))


def expand_rows(rows: Any, width: int, read: Read = rational) -> Iterator[Row]:
    """Yield every row on one block, from the arrays of its storage kind."""
    _, arrays, children = rows.state()

    def collect(terms: Iterable[Row]) -> Row:
        total = zeros(width)
        for place, values in terms:
            total[place] = total[place] + values
        return np.arange(width), total

    def outer(factor: np.ndarray, weight: Any) -> Row:
        own = np.flatnonzero(factor != 0)
        place = (own[:, None] * factor.size + own).reshape(-1)
        return place, np.outer(factor[own], factor[own]).reshape(-1) * weight

    def sparse() -> Iterator[Row]:
        for a, b in pairwise(arrays["indptr"].tolist()):
            yield arrays["indices"][a:b], each(read, arrays["data"][a:b])

    if rows.kind == "none":
        yield from [NO_ENTRIES] * rows.m
    elif rows.kind == "dense":
        yield from ((np.flatnonzero(row), each(read, row[row != 0.0])) for row in arrays["array"])
    elif rows.kind == "sparse":
        yield from sparse()
    elif rows.kind == "low-rank":
        factors, weights = each(read, arrays["factors"]), each(read, arrays["signs"])
        for i in range(rows.m):
            yield collect(outer(factors[k], weights[k]) for k in np.flatnonzero(arrays["owner"] == i))
    elif rows.kind == "pairwise-difference":
        means = each(read, arrays["means"])
        yield from (outer(a - b, 1) for i, a in enumerate(means) for b in means[i + 1 :])
    elif rows.kind == "stacked":
        yield from (row for child in children for row in expand_rows(child, width, read))
    elif rows.kind == "combined":
        parts = list(expand_rows(children[0], width, read))
        for place, weights in sparse():
            yield collect((parts[k][0], parts[k][1] * w) for k, w in zip(place, weights, strict=True))
    else:
        raise NotProved(f"rows of kind {rows.kind!r} are unknown to the auditor")


def listed_rows(rows: Any, count: int, width: int, read: Read) -> list[Row]:
    """Return the rows on one block as a list of length ``count``; empty rows if nothing is stored."""
    lines = list(expand_rows(rows, width, read))
    if len(lines) != count:
        raise NotProved("there is another number of rows stored than there should be")
    return lines


def stored_count(rows: Any, width: int) -> int:
    """Return the number of entries of the rows on one block."""
    if rows.kind == "none":
        return 0
    return rows.state()[1]["data"].size if rows.kind == "sparse" else rows.m * width


class RationalLmi:
    """An LMI in rational numbers: its set, its constant, and one row of coefficients per entry of a point."""

    def __init__(self, lmi: Any, blocks: list[Block], read: Read) -> None:
        self.block = Block(**lmi.set.spec(), read=read)
        self.constant = each(read, lmi.constant.reshape(-1))
        lines = list[Row]()
        for rows, block in zip(lmi.coefficients, blocks, strict=True):
            lines += listed_rows(rows, math.prod(block.shape), self.constant.size, read)
        self.lines = RationalRows(lines, self.constant.size)
        if self.block.matrix and not self.lines.mirrored(self.block.n):
            raise NotProved("the coefficients of an LMI are not symmetric")
        start = 0
        for block in blocks:
            own = self.lines.lines[start : start + math.prod(block.shape)]
            for k, (place, values) in zip(np.arange(len(own)).reshape(block.shape).T.flat, own, strict=True):
                if not np.array_equal(place, own[k][0]) or (values != own[k][1]).any():
                    raise NotProved("the coefficients of an LMI differ at mirrored entries")
            start += len(own)

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return ``F(X)``."""
        return (self.constant + self.lines.transposed().times(x)).reshape(self.block.shape)


class RationalProblem:
    """A stored problem in rational numbers, with prescribed traces as rows, and the proofs about it."""

    def __init__(self, problem: FeasibilityProblem, reading: str = "stored") -> None:
        read = READINGS[reading]
        self.m, self.sets = problem.m, [Block(**block.spec(), read=read) for block in problem.sets]
        self.cuts = [0, *np.cumsum([math.prod(block.shape) for block in self.sets]).tolist()]
        traces = sum(block.trace is not None for block in self.sets)
        side, equal = (
            max(block.side for block in self.sets),
            np.sum(problem.lower == problem.upper),
        )
        side = max([side, *(Block(**lmi.set.spec()).side for lmi in problem.lmis)])
        widths = np.diff(self.cuts).tolist()
        stored = traces * self.cuts[-1] + sum(map(stored_count, problem.rows, widths))
        for lmi in problem.lmis:
            size = math.prod(lmi.set.shape)
            stored += size + sum(stored_count(rows, size) for rows in lmi.coefficients)
        if np.any(np.array((stored, equal, side)) > LARGEST):
            raise NotProved("too large for an audit")
        ends = zip(problem.lower.tolist(), problem.upper.tolist(), strict=True)
        self.bounds = [tuple(read(v) if math.isfinite(v) else None for v in pair) for pair in ends]
        parts = list[RationalRows]()
        for block, rows, width in zip(self.sets, problem.rows, widths, strict=True):
            lines = listed_rows(rows, self.m, width, read) + [NO_ENTRIES] * traces
            if block.trace is not None:
                lines[len(self.bounds)] = (np.arange(0, width, block.n + 1), zeros(block.n) + 1)
                self.bounds.append((block.trace, block.trace))
            parts.append(RationalRows(lines, width))
            if block.matrix and not parts[-1].mirrored(block.n):
                raise NotProved("the rows are not symmetric")
        self.matrix = RationalRows.beside(parts)
        self.lmis = [RationalLmi(lmi, self.sets, read) for lmi in problem.lmis]
        self._join_opposite_rows()
        self.equal = np.array([None not in pair and pair[0] == pair[1] for pair in self.bounds], dtype=bool)

    def _join_opposite_rows(self) -> None:
        """Turn parallel rows into equations if the lower bound of one is the upper bound of another."""
        parallel: dict[Any, list[tuple[int, Any]]] = {}
        for i, (place, values) in enumerate(self.matrix.lines):
            if len(values):
                key = place.tobytes(), tuple(str(v / values[0]) for v in values)
                parallel.setdefault(key, []).append((i, values[0]))
        for rows in (rows for rows in parallel.values() if len(rows) > 1):
            ends: list[list[Any]] = [[], []]
            for i, unit in rows:
                for k, bound in enumerate(self.bounds[i]):
                    if bound is not None:
                        ends[k if unit > 0 else 1 - k].append(bound / unit)
            if all(ends) and max(ends[0]) == min(ends[1]):
                for i, unit in rows:
                    self.bounds[i] = (max(ends[0]) * unit,) * 2

    def blocks(self, x: np.ndarray) -> Iterator[tuple[Block, np.ndarray]]:
        """Yield every set with its part of ``x``."""
        parts = zip(self.sets, np.split(x, self.cuts[1:-1]), strict=True)
        return ((block, part.reshape(block.shape)) for block, part in parts)

    def off(self, x: np.ndarray) -> np.ndarray:
        """Return the residuals of the equality rows at ``x``."""
        right = zeros(self.equal.sum()) + [self.bounds[i][0] for i in np.flatnonzero(self.equal)]
        return right - self.matrix.pick(self.equal).times(x)

    def contradiction(self) -> str:
        """Prove by elimination that the equality rows and prescribed traces have no solution at all."""
        if not self.equal.any() or self.equal.sum() * self.cuts[-1] > LARGEST[0]:
            raise NotProved("there are no equality rows, or too many to be eliminated")
        table = np.column_stack([self.matrix.pick(self.equal).dense(), self.off(zeros(self.cuts[-1]))])
        if self.cuts[-1] not in row_echelon_form(table)[1]:
            raise NotProved("the equality rows do not contradict each other")
        return "the equality rows and prescribed traces contradict each other"

    def feasible(self, point: Any) -> str:
        """Prove that an exact solution exists at or near a point."""
        if len(point) != len(self.sets):
            raise NotProved("there is no point with one array per set")
        exact = [rational_evidence(x, block.shape) for block, x in zip(self.sets, point, strict=True)]
        members = [block.nearby_member(x) for block, x in zip(self.sets, exact, strict=True)]
        x = np.concatenate([inside.reshape(-1) for inside, _ in members])
        off, missing = self.off(x), self.missing(x)
        depth = [zeros(inside.size) + np.reshape(reach, -1) for inside, reach in members]
        # Move all blocks in proportion to their distance to the boundary, or one of them, or in the local
        # metric.
        lines = self.matrix.pick(self.equal)
        for alone in (None, *range(len(depth)), "metric") if missing and (off != 0).any() else ():
            weight = np.concatenate([part * (alone in (None, b, "metric")) for b, part in enumerate(depth)])
            moved = lines.scaled(each(nearby_power_of_two, weight * weight))
            if alone == "metric":
                moved = metric_images(moved, lines, pairwise(self.cuts), self.blocks(x))
            step = least_norm_step(lines, moved, off)
            if step is not None:
                missing = self.missing(x + step)
            if not missing:
                break
        if missing:
            raise NotProved(missing)
        return "an exact solution lies at the point, or next to it"

    def missing(self, x: np.ndarray) -> str:
        """Name a set or row that is not proved to hold at ``x``; empty if all are."""
        values = self.matrix.times(x)
        for i, (value, (low, high)) in enumerate(zip(values, self.bounds, strict=True)):
            if (low is not None and value < low) or (high is not None and value > high):
                return f"row {i} is outside its bounds"
        outside = (b for b, (block, part) in enumerate(self.blocks(x)) if not block.holds(part))
        wrong = (j for j, lmi in enumerate(self.lmis) if not lmi.block.holds(lmi.value(x)))
        missing = (f"LMI {j} is not proved to hold" for j in wrong)
        return next((f"block {b} is not proved to be in its set" for b in outside), next(missing, ""))

    def gradient(self, y: np.ndarray, own: list[np.ndarray]) -> np.ndarray:
        """Return ``A*y + B*Y`` over all blocks."""
        parts = (lmi.lines.times(part) for lmi, part in zip(self.lmis, own, strict=True))
        return sum(parts, self.matrix.transposed().times(y))

    def infeasible(self, given: Any) -> str:
        """Prove by Farkas' lemma that multipliers, or exact ones near them, rule out every point."""
        if self.lmis:
            with suppress(NotProved):
                return self._infeasible_with(given, metric=False)
        return self._infeasible_with(given, metric=bool(self.lmis))

    def _infeasible_with(self, given: Any, metric: bool) -> str:
        """Prove infeasibility, with multipliers of LMIs corrected by their size or, with ``metric``, in their
        local metric.
        """
        counts = [lmi.constant.size for lmi in self.lmis]
        first, *own = np.split(
            rational_evidence(given, (self.m + sum(counts),)), np.cumsum([self.m, *counts])[:-1]
        )
        y = np.append(first, zeros(len(self.bounds) - self.m))
        free = np.repeat([block.low is None for block in self.sets], np.diff(self.cuts))
        # Symmetrise the multipliers of LMIs.
        mirrors = [np.arange(lmi.constant.size).reshape(lmi.block.shape).T.reshape(-1) for lmi in self.lmis]
        own = [(part + part[mirror]) / 2 for part, mirror in zip(own, mirrors, strict=True)]
        off = -self.gradient(y, own)[free]
        if (off != 0).any():
            largest = [max(abs(values), default=0) or rational(1) for _, values in self.matrix.lines]
            # Multipliers with a restricted sign may move by their own size, the others by the largest size.
            signed = [None in ends for ends in self.bounds]
            sizes = np.array([*largest, None], dtype=object)[:-1]
            reach = np.where(signed, abs(y), max(abs(y) * sizes, default=0) / sizes)
            lines = RationalRows.beside(
                [self.matrix.transposed().pick(free), *(lmi.lines.pick(free) for lmi in self.lmis)]
            )
            reach = np.concatenate([reach, *(zeros(part.size) + max(abs(part)) for part in own)])
            moved = lines.scaled(each(nearby_power_of_two, reach * reach))
            if metric:
                parts = (
                    (lmi.block, part.reshape(lmi.block.shape))
                    for lmi, part in zip(self.lmis, own, strict=True)
                )
                moved = metric_images(moved, lines, pairwise(np.cumsum([y.size, *counts])), parts)
            step = least_norm_step(lines, moved, off)
            if step is None:
                raise NotProved("no multipliers near the given ones have A*y = 0 on the Free blocks")
            step, *moves = np.split(step, np.cumsum([y.size, *counts])[:-1])
            y, own = y + step, [part + move for part, move in zip(own, moves, strict=True)]
        sides = zip(y, self.bounds, strict=True)
        bounds = [rational(0) if w == 0 else low if w > 0 else high for w, (low, high) in sides]
        if None in bounds:
            raise NotProved(f"the multiplier of row {bounds.index(None)} has the sign of a missing bound")
        supports = [block.support(part) for block, part in self.blocks(self.gradient(y, own))]
        supports += [
            lmi.block.support(-w.reshape(lmi.block.shape)) for lmi, w in zip(self.lmis, own, strict=True)
        ]
        constants = sum((w * lmi.constant).sum() for lmi, w in zip(self.lmis, own, strict=True))
        if not (y * bounds).sum() - constants > sum(supports):
            raise NotProved("the two sides of the certificate are not proved to differ")
        return "the multipliers, or exact ones next to them, rule out every point"
