"""The rows of a problem in integers: each row times its least common denominator, divided by its content.

The reading decides which numbers these are: ``stored``, the binary64 data; ``written``, the decimals and
fractions that round to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.exact_arithmetic import READERS, Reading, is_simple
from sdpfeas.numerics.limits import check_deadline, guard
from sdpfeas.problem.problem import FeasibilityProblem, restricting_rows
from sdpfeas.problem.rows import Dense, Rows, Sparse
from sdpfeas.problem.rows.base import Read, stored_rows

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
    computed or measured, and their last digits are noise.
    """

    firm: list[bool]
    scales: list[Fraction]
    lower: list[int | None]
    upper: list[int | None]
    #: For every block row pointers, flat positions and integers, as in a CSR array.
    _tables: list[tuple[np.ndarray, np.ndarray, np.ndarray]]

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
            blocks.append(rows.to_csr())
        ends = [np.where(np.isfinite(end), end, 0.0) for end in (problem.lower, problem.upper)]
        for numbers in (*(block.data for block in blocks), *ends):
            if np.any(np.abs(numbers) > MAX_INT64_FACTOR) or np.any(numbers != np.rint(numbers)):
                return False
        whole = [end.astype(np.int64) for end in ends]
        divisors = np.gcd(*whole)
        for block in blocks:
            np.gcd.at(divisors, stored_rows(block), np.abs(block.data.astype(np.int64)))
        divisors = np.maximum(divisors, 1)
        self.firm = [True] * problem.m
        self.scales = [Fraction(1, d) for d in divisors.tolist()]
        self.lower, self.upper = (
            [v if math.isfinite(bound) else None for v, bound in zip(values, end.tolist(), strict=True)]
            for values, end in zip(
                [(end // divisors).tolist() for end in whole], (problem.lower, problem.upper), strict=True
            )
        )
        self._tables = [
            (block.indptr, block.indices, block.data.astype(np.int64) // divisors[stored_rows(block)])
            for block in blocks
        ]
        return True

    def _take(self) -> None:
        """Convert rows and bounds to integers by fractions, row by row."""
        problem, read = self.problem, READERS[self.reading]
        ends = [read_bounds(values, read) for values in (problem.lower, problem.upper)]
        tables = [rational_entries(rows, read) for rows in problem.rows]
        filled = [table for table in tables if table[2]]
        simple = _rounds_simple if self.reading == Reading.STORED else is_simple
        self.firm, self.scales = [], []
        for i in _timed(range(problem.m)):
            numbers = [v for starts, _, values in filled for v in values[starts[i] : starts[i + 1]]]
            numbers += [bound for end in ends if (bound := end[i]) is not None]
            common = math.lcm(*(v.denominator for v in numbers))
            divisor = math.gcd(*(v.numerator * (common // v.denominator) for v in numbers)) or 1
            self.firm.append(all(map(simple, numbers)))
            self.scales.append(Fraction(common, divisor))
        self.lower, self.upper = (
            [None if v is None else int(v * scale) for v, scale in zip(end, self.scales, strict=True)]
            for end in ends
        )
        self._tables = []
        for starts, places, values in tables:
            check_deadline("the rows in integers")
            owners = np.repeat(np.arange(problem.m), np.diff(starts)).tolist()
            whole = np.empty(len(values), dtype=object)
            whole[:] = [int(v * self.scales[i]) for i, v in zip(owners, values, strict=True)]
            self._tables.append((starts, places, whole))

    @cached_property
    def words(self) -> list[Any]:
        """The rows on every block as a CSR array of int64; None if an integer is too large."""
        out = list[Any]()
        for block, (starts, places, values) in zip(self.problem.sets, self._tables, strict=True):
            short = values.dtype != object or all(abs(v) <= MAX_INT64_FACTOR for v in values)
            parts = (values.astype(np.int64), places, starts) if short else None
            out.append(sp.csr_array(parts, (self.problem.m, block.entries)) if short else None)
        return out

    @cached_property
    def simple(self) -> bool:
        """Whether all rows that restrict other variables are ``firm``."""
        needed = restricting_rows(self.problem).tolist()
        return all(firm for firm, own in zip(self.firm, needed, strict=True) if own)

    def row(self, b: int, i: int) -> Entries:
        """Return positions and integers of row ``i`` on block ``b``."""
        starts, places, values = self._tables[b]
        part = slice(starts[i], starts[i + 1])
        return places[part], values[part].astype(object)

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
        used = np.flatnonzero(weights != 0).tolist()
        for b, block in enumerate(self.problem.sets):
            total = np.zeros(block.entries, dtype=object)
            for i in used:
                place, values = self.row(b, i)
                total[place] = total[place] + values * weights[i]
            yield total.reshape(block.shape)


def _rounds_simple(value: Fraction) -> bool:
    """Return whether the double ``value`` is the rounding of a short decimal or a simple fraction."""
    try:
        return is_simple(float(value))
    except OverflowError:
        return False


def read_bounds(values: np.ndarray, read: Read) -> list[Fraction | None]:
    """Convert bounds to fractions; infinite bounds become None."""
    return [read(v) if math.isfinite(v) else None for v in values.tolist()]


def _timed(rows: Iterable[T]) -> Iterator[T]:
    """Yield the rows, checking the deadline before each."""
    for row in rows:
        check_deadline("the rows in integers")
        yield row


def rational_entries(rows: Rows, read: Read) -> tuple[np.ndarray, np.ndarray, list[Fraction]]:
    """Return row pointers, flat positions and values of the rows on one block, as in a CSR array."""
    if isinstance(rows, (Dense, Sparse)):
        csr = rows.to_csr()
        return csr.indptr, csr.indices, [read(v) for v in _timed(csr.data.tolist())]
    starts, places, values = [0], [np.zeros(0, dtype=np.int64)], list[Fraction]()
    for i in _timed(range(rows.m)):
        row = rows.exact_row(i, read).reshape(-1)
        places.append(np.flatnonzero(row != 0))
        values += row[places[-1]].tolist()
        starts.append(len(values))
    return np.array(starts), np.concatenate(places), values


def integral_rows(problem: FeasibilityProblem, reading: Reading) -> IntegralRows:
    """Return the rows of a problem in integers; cached on the problem."""
    return problem.cached(IntegralRows, reading)
