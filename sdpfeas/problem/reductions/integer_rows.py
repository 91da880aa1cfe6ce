"""The rows of a problem in integers: each row times its least common denominator, divided by its content.

The reading decides which numbers these are: ``stored``, the binary64 data; ``written``, the decimals and
fractions that round to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.exact_arithmetic import READERS, Reading, is_simple
from sdpfeas.numerics.limits import check_deadline, guard
from sdpfeas.problem.problem import FeasibilityProblem, restricting_rows
from sdpfeas.problem.rows import Dense, Rows, Sparse
from sdpfeas.problem.rows.base import stored_rows
from sdpfeas.problem.sets import BlockSet

#: Integers up to this magnitude are stored as int64; products of two of them do not overflow.
MAX_INT64_FACTOR = 2**31

#: Cost of the conversion of one number to a fraction, in multiply-adds. Measured on SDPLIB: 1.2e5 to 1.6e5.
FRACTION_FLOPS = 1.6e5

T = TypeVar("T")

#: Flat positions in a block and the integers at them.
Entries = tuple[np.ndarray, np.ndarray]


class IntegralRows:
    """All rows of a problem, scaled to coprime integers.

    ``scales``: the factor of every row. ``lower, upper``: scaled bounds, None if infinite. ``firm``: whether
    all numbers of a row are short decimals or simple fractions, or are rounded from those; other numbers were
    computed or measured, and their last digits are noise. ``words``: for every block the rows as a CSR array
    of int64, None if an integer exceeds ``MAX_INT64_FACTOR``.
    """

    firm: list[bool]
    scales: list[Fraction]
    lower: list[int | None]
    upper: list[int | None]
    words: list[Any]

    def __init__(self, problem: FeasibilityProblem, reading: Reading) -> None:
        self.problem, self.reading = problem, reading
        #: Cache of the most recent reduction of these rows to a face, with the face.
        self.last_reduction: Any = None
        check_deadline("the rows in integers")
        #: Whether all numbers are small integers, which no reading changes.
        self.whole = self._take_whole()
        if not self.whole:
            # The conversion to fractions also checks the deadline: short decimals take less time than others.
            stored = sum(rows.entries for rows in problem.rows)
            guard("the rows in integers", FRACTION_FLOPS * (stored + 2.0 * problem.m))
            self._take()

    def _take_whole(self) -> bool:
        """Convert rows and bounds that are small integers to int64; return False if a number is not."""
        problem, blocks = self.problem, list[Any]()
        for rows in problem.rows:
            if not isinstance(rows, (Dense, Sparse)):
                return False
            blocks.append(sp.csr_array(rows.to_csr(), copy=True))
        ends = [np.where(np.isfinite(end), end, 0.0) for end in (problem.lower, problem.upper)]
        for numbers in (*(block.data for block in blocks), *ends):
            if np.any(np.abs(numbers) > MAX_INT64_FACTOR) or np.any(numbers != np.rint(numbers)):
                return False
        divisors = np.zeros(problem.m, dtype=np.int64)
        for block in blocks:
            block.eliminate_zeros()
            np.gcd.at(divisors, stored_rows(block), np.abs(block.data.astype(np.int64)))
        for end in ends:
            divisors = np.gcd(divisors, np.abs(end.astype(np.int64)))
        divisors = np.maximum(divisors, 1)
        self.firm = [True] * problem.m
        self.scales = [Fraction(1, d) for d in divisors.tolist()]
        self.lower, self.upper = (
            [v if known else None for v, known in zip(whole, np.isfinite(end).tolist(), strict=True)]
            for whole, end in zip(
                [(end.astype(np.int64) // divisors).tolist() for end in ends],
                (problem.lower, problem.upper),
                strict=True,
            )
        )
        self.words = []
        for block in blocks:
            values = block.data.astype(np.int64) // divisors[stored_rows(block)]
            self.words.append(sp.csr_array((values, block.indices, block.indptr), block.shape))
        return True

    def _take(self) -> None:
        """Convert rows and bounds to integers by fractions, row by row."""
        problem = self.problem
        read = READERS[self.reading]
        ends = [read_bounds(values, read) for values in (problem.lower, problem.upper)]
        parts = [_fractions(rows, read, problem.m) for rows in problem.rows]
        lines = _timed(zip(*parts, strict=True))
        simple = _rounds_simple if self.reading == Reading.STORED else is_simple
        self.firm = [
            all(simple(v) for _, values in row for v in values)
            and all(v is None or simple(v) for v in bounds)
            for row, bounds in zip(lines, zip(*ends, strict=True), strict=True)
        ]
        self._entries, nothing = [[] for _ in problem.sets], np.empty(0, dtype=object)
        self.scales, self.lower, self.upper = [], [], []
        for i in _timed(range(problem.m)):
            row = [part[i] for part in parts]
            bounds = [end[i] for end in ends]
            numbers = [v for _, values in row for v in values]
            numbers += [v for v in bounds if v is not None]
            common = math.lcm(*(v.denominator for v in numbers))
            divisor = math.gcd(*(v.numerator * (common // v.denominator) for v in numbers)) or 1
            scale = Fraction(common, divisor)
            self.scales.append(scale)
            for out, bound in zip((self.lower, self.upper), bounds, strict=True):
                out.append(None if bound is None else int(bound * scale))
            for b, (place, values) in enumerate(row):
                if not values:
                    self._entries[b].append((place, nothing))
                    continue
                whole = np.empty(len(values), dtype=object)
                whole[:] = [int(v * scale) for v in values]
                self._entries[b].append((place, whole))
        self.words = [
            _words(entries, block) for entries, block in zip(self._entries, problem.sets, strict=True)
        ]

    @cached_property
    def _entries(self) -> list[list[Entries]]:
        """Positions and integers of every row, by block."""
        return [
            [
                (words.indices[a:c].astype(np.int64), words.data[a:c].astype(object))
                for a, c in pairwise(words.indptr)
            ]
            for words in self.words
        ]

    @cached_property
    def simple(self) -> bool:
        """Whether all rows that restrict other variables are ``firm``."""
        needed = restricting_rows(self.problem).tolist()
        return all(firm for firm, own in zip(self.firm, needed, strict=True) if own)

    def row(self, b: int, i: int) -> Entries:
        """Return positions and integers of row ``i`` on block ``b``."""
        return self._entries[b][i]

    def weights(self, y: np.ndarray) -> np.ndarray:
        """Map multipliers of the original rows to integer multipliers, up to a positive factor."""
        scaled = [Fraction(v) / scale for v, scale in zip(y, self.scales, strict=True)]
        common = math.lcm(*(v.denominator for v in scaled))
        out = np.empty(len(scaled), dtype=object)
        out[:] = [int(v * common) for v in scaled]
        return out

    def multipliers(self, weights: np.ndarray) -> np.ndarray:
        """Map multipliers of the integer rows to rational multipliers of the original rows."""
        out = np.empty(len(self.scales), dtype=object)
        out[:] = [int(w) * scale for w, scale in zip(weights, self.scales, strict=True)]
        return out

    def adjoint(self, weights: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the weighted sum of the integer rows on every block."""
        used = np.flatnonzero(weights != 0)
        for block, entries in zip(self.problem.sets, self._entries, strict=True):
            total = np.zeros(math.prod(block.shape), dtype=object)
            for i in used:
                place, values = entries[i]
                total[place] = total[place] + values * weights[i]
            yield total.reshape(block.shape)


def _rounds_simple(value: Fraction) -> bool:
    """Return whether the double ``value`` is the rounding of a short decimal or a simple fraction."""
    try:
        return is_simple(float(value))
    except OverflowError:
        return False


def read_bounds(values: np.ndarray, read: Callable[[float], Fraction]) -> list[Fraction | None]:
    """Convert bounds to fractions; infinite bounds become None."""
    return [read(v) if math.isfinite(v) else None for v in values.tolist()]


def _timed(rows: Iterable[T]) -> Iterator[T]:
    """Yield the rows, checking the deadline before each."""
    for row in rows:
        check_deadline("the rows in integers")
        yield row


def _fractions(
    rows: Rows, read: Callable[[float], Fraction], m: int
) -> list[tuple[np.ndarray, list[Fraction]]]:
    """Return positions and values, as fractions, of every row on one block."""
    # One shared object for all empty parts: with many blocks, a row has entries in few of them.
    nothing: tuple[np.ndarray, list[Fraction]] = (np.zeros(0, dtype=np.int64), [])
    if rows.empty:
        return [nothing] * m
    arrays = rows.state()[1]
    if rows.kind == "sparse":
        place, data, ends = arrays["indices"], arrays["data"].tolist(), arrays["indptr"].tolist()
        cuts = _timed(pairwise(ends))
        return [(np.asarray(place[a:c]), [read(v) for v in data[a:c]]) if a < c else nothing for a, c in cuts]
    if rows.kind == "dense":
        flat = arrays["array"].reshape(m, -1)
        places = [np.flatnonzero(row) for row in flat]
        pairs = _timed(zip(places, flat, strict=True))
        return [(p, [read(v) for v in row[p].tolist()]) for p, row in pairs]
    out = []
    for i in _timed(range(m)):
        row = rows.exact_row(i, read).reshape(-1)
        place = np.flatnonzero(row != 0)
        out.append((place, list(row[place])))
    return out


def _words(entries: list[Entries], block: BlockSet) -> Any | None:
    """Return the rows on one block as a CSR array of int64; None if an integer is too large."""
    shape = (len(entries), math.prod(block.shape))
    if not entries:
        return sp.csr_array(shape, dtype=np.int64)
    values = np.concatenate([values for _, values in entries])
    if any(abs(v) > MAX_INT64_FACTOR for v in values):
        return None
    ends = np.cumsum([0, *(len(own) for own, _ in entries)])
    places = np.concatenate([place for place, _ in entries])
    return sp.csr_array((values.astype(np.int64), places, ends), shape)


def integral_rows(problem: FeasibilityProblem, reading: Reading) -> IntegralRows:
    """Return the rows of a problem in integers; cached on the problem."""
    return problem.cached(IntegralRows, reading)
