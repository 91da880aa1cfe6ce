"""The rows of a problem in integers: every row times the least number that makes all of it whole.

What a stored number stands for is a *reading*: ``stored``, the double itself; ``written``, the decimal or
fraction it was rounded from; ``meant``, the same where bounds that were computed miss a simple fraction by a
few roundings of the largest of them. Where rows of simple numbers have bounds that are no simple fractions
either, these bounds are *loose*: as meant they may be moved by a few roundings, so that they agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from sdpfeas.numerics.integers import need_integers
from sdpfeas.numerics.written import is_simple, written
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Rows

__all__ = ["READINGS", "IntegralRows", "Number", "Reading", "integral_rows", "readings"]

Reading = Literal["stored", "written", "meant"]
READINGS: tuple[Reading, ...] = ("stored", "written", "meant")

#: Largest denominator of a bound that was computed, ...
COMPUTED_DENOMINATOR = 1000
#: ... and how far it may be off, in units of the last place of the largest bound.
COMPUTED_ULPS = 32.0

#: A bound: an integer, or a fraction if it is loose.
Number = int | Fraction

#: Positions in a block, and the integers there.
Entries = tuple[np.ndarray, np.ndarray]


class IntegralRows:
    """All rows of a problem in integers.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    reading : {"stored", "written", "meant"}
        What its numbers stand for.

    Attributes
    ----------
    scales : list of Fraction
        What every row was multiplied by.
    lower, upper : list of int or Fraction or None
        Bounds of the rows, times that; None where there is none. Fractions only where they are loose.
    firm : list of bool
        For every row, whether each of its numbers is simple enough to have been meant.
    loose : bool
        Whether bounds may be moved: as meant, where the rows are made of simple numbers and not all bounds
        are simple.
    """

    def __init__(self, problem: FeasibilityProblem, reading: Reading) -> None:
        self.problem, self.reading = problem, reading
        stored = sum(rows.entries for rows in problem.rows if rows is not None)
        need_integers("the rows in integers", 40.0 * (stored + problem.m))
        read: Callable[[float], Fraction] = Fraction if reading == "stored" else written
        ends = [self._bounds(values, read) for values in (problem.lower, problem.upper)]
        parts = [_fractions(rows, read, problem.m) for rows in problem.rows]
        lines = zip(*parts, strict=True)
        whole_rows = [all(is_simple(v) for _, values in row for v in values) for row in lines]
        bounded = [all(v is None or is_simple(v) for v in pair) for pair in zip(*ends, strict=True)]
        self.firm = [row and bound for row, bound in zip(whole_rows, bounded, strict=True)]
        self.loose = reading == "meant" and all(whole_rows) and not all(bounded)
        self._entries: list[list[Entries]] = [[] for _ in problem.sets]
        self.scales: list[Fraction] = []
        self.lower: list[Number | None] = []
        self.upper: list[Number | None] = []
        for i in range(problem.m):
            row = [part[i] for part in parts]
            bounds = [end[i] for end in ends]
            numbers = [v for _, values in row for v in values]
            numbers += [] if self.loose else [v for v in bounds if v is not None]
            common = math.lcm(*(v.denominator for v in numbers))
            divisor = math.gcd(*(v.numerator * (common // v.denominator) for v in numbers)) or 1
            scale = Fraction(common, divisor)
            self.scales.append(scale)
            for out, bound in zip((self.lower, self.upper), bounds, strict=True):
                out.append(None if bound is None else bound * scale if self.loose else int(bound * scale))
            for b, (place, values) in enumerate(row):
                whole = np.empty(len(values), dtype=object)
                whole[:] = [int(v * scale) for v in values]
                self._entries[b].append((place, whole))

    @property
    def simple(self) -> bool:
        """Whether every number is simple enough to have been meant."""
        return all(self.firm)

    @cached_property
    def slack(self) -> Fraction:
        """How far a loose bound, of a row as it is, may be moved."""
        return Fraction(max(_roundings(end) for end in (self.problem.lower, self.problem.upper)))

    def vanishes(self, weights: np.ndarray, gap: Number) -> bool:
        """Whether a sum of bounds is zero, or misses it by no more than loose ones may be moved."""
        if not gap or not self.loose:
            return not gap
        used = np.flatnonzero(weights != 0)
        moves = sum((abs(int(weights[i])) * self.scales[i] for i in used), Fraction(0))
        return abs(Fraction(gap)) <= self.slack * moves

    def _bounds(self, values: np.ndarray, read: Callable[[float], Fraction]) -> list[Fraction | None]:
        slack = _roundings(values)

        def one(value: float) -> Fraction | None:
            if not math.isfinite(value):
                return None
            if self.reading == "meant":
                near = Fraction(value).limit_denominator(COMPUTED_DENOMINATOR)
                if abs(near - Fraction(value)) <= slack:
                    return near
            return read(value)

        return [one(v) for v in values.tolist()]

    def row(self, b: int, i: int) -> Entries:
        """Row ``i`` on block ``b``."""
        return self._entries[b][i]

    def weights(self, y: np.ndarray) -> np.ndarray:
        """Multipliers of the rows in integers from those of the rows as they are, up to a positive factor."""
        scaled = [Fraction(v) / scale for v, scale in zip(y, self.scales, strict=True)]
        common = math.lcm(*(v.denominator for v in scaled))
        out = np.empty(len(scaled), dtype=object)
        out[:] = [int(v * common) for v in scaled]
        return out

    def multipliers(self, weights: np.ndarray) -> np.ndarray:
        """Multipliers of the rows as they are from those of the rows in integers."""
        out = np.empty(len(self.scales), dtype=object)
        out[:] = [int(w) * scale for w, scale in zip(weights, self.scales, strict=True)]
        return out

    def adjoint(self, weights: np.ndarray) -> Iterator[np.ndarray]:
        """Weighted sum of the rows, block by block."""
        used = np.flatnonzero(weights != 0)
        for block, entries in zip(self.problem.sets, self._entries, strict=True):
            total = np.zeros(math.prod(block.shape), dtype=object)
            for i in used:
                place, values = entries[i]
                total[place] = total[place] + values * weights[i]
            yield total.reshape(block.shape)


def _roundings(values: np.ndarray) -> float:
    """How far bounds that were computed may be off."""
    finite = values[np.isfinite(values)]
    return COMPUTED_ULPS * math.ulp(float(np.max(np.abs(finite)))) if finite.size else 0.0


def _fractions(
    rows: Rows | None, read: Callable[[float], Fraction], m: int
) -> list[tuple[np.ndarray, list[Fraction]]]:
    """Positions and values of every row on one block."""
    if rows is None:
        return [(np.zeros(0, dtype=np.int64), []) for _ in range(m)]
    arrays = rows.state()[1]
    if rows.kind == "sparse":
        place, data, ends = arrays["indices"], arrays["data"].tolist(), arrays["indptr"].tolist()
        cuts = pairwise(ends)
        return [(np.asarray(place[a:c]), [read(v) for v in data[a:c]]) for a, c in cuts]
    if rows.kind == "dense":
        flat = arrays["array"].reshape(m, -1)
        places = [np.flatnonzero(row) for row in flat]
        return [(p, [read(v) for v in row[p].tolist()]) for p, row in zip(places, flat, strict=True)]
    out = []
    for i in range(m):
        row = rows.exact_row(i).reshape(-1)
        place = np.flatnonzero(row != 0)
        out.append((place, list(row[place])))
    return out


def integral_rows(problem: FeasibilityProblem, reading: Reading) -> IntegralRows:
    """Rows in integers, made once: problems are immutable."""
    key = f"_integral_rows_{reading}"
    found = problem.__dict__.get(key)
    if found is None:
        found = problem.__dict__[key] = IntegralRows(problem, reading)
    return found


def readings(problem: FeasibilityProblem) -> Iterator[IntegralRows]:
    """The readings of a problem that differ, those of simple numbers only.

    If there is none, as stored, and as meant if the bounds alone are no simple numbers.
    """
    seen: list[IntegralRows] = []
    for reading in READINGS:
        rows = integral_rows(problem, reading)
        if rows.simple and not any(_same(rows, other) for other in seen):
            seen.append(rows)
            yield rows
    if not seen:
        yield integral_rows(problem, "stored")
        if (rows := integral_rows(problem, "meant")).loose:
            yield rows


def _same(a: IntegralRows, b: IntegralRows) -> bool:
    if a.scales != b.scales or a.lower != b.lower or a.upper != b.upper:
        return False
    blocks = range(len(a.problem.sets))
    rows = range(a.problem.m)
    return all(np.array_equal(a.row(k, i)[1], b.row(k, i)[1]) for k in blocks for i in rows)
