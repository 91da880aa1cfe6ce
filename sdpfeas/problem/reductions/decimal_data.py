"""Reduce the reading ``"written"`` of a problem to the reading ``"stored"`` of another one.

The fraction 1/3 is not a double, but a row multiplied by 3 is the same constraint. Every row and LMI with
rounded data is multiplied by an odd fraction that makes all its decimals and fractions doubles.
Points: unchanged. Multipliers: times the factors. If no such factor exists (1/49 next to e in one row),
:func:`read_as` raises ``ProblemError``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.exact_arithmetic import READERS, Reading
from sdpfeas.numerics.limits import check_deadline
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import changed
from sdpfeas.problem.reductions.integer_rows import rational_entries, read_bounds
from sdpfeas.problem.reductions.row_scaling import RowScaling
from sdpfeas.problem.rows import Dense, Rows
from sdpfeas.problem.rows.base import Read


@dataclass(frozen=True)
class DecimalData(RowScaling):
    """The problem with its data read as decimals or fractions, scaled to doubles.

    ``example``: one number that the reading changes, for messages; empty if there is none.
    """

    example: str


def read_as(problem: FeasibilityProblem, reading: Reading) -> DecimalData:
    """Build the problem whose stored data equal the given reading of ``problem``, up to a factor per row.

    Raises ``ProblemError`` if no factor makes a row or an LMI exactly representable.
    """
    if reading == Reading.STORED:
        return DecimalData(problem, problem, np.ones(problem.multiplier_count), "")
    read = RecordingReader(READERS[reading])
    check_deadline("the numbers as " + reading)
    for block in (*problem.sets, *(lmi.set for lmi in problem.lmis)):
        for name, value in block.spec().items():
            if isinstance(value, float) and math.isfinite(value) and read(value) != Fraction(value):
                where = f"{name} of {block.described()}, {read.example},"
                raise ProblemError(f"{where} is not exactly representable as a double")
    parts = [_Read(rows, read) for rows in problem.rows]
    ends = [read_bounds(values, read) for values in (problem.lower, problem.upper)]
    numbers = [[v for v in bounds if v is not None] for bounds in zip(*ends, strict=True)]
    for part in parts:
        for i, v in zip(part.owners, part.values, strict=True):
            numbers[i].append(v)
    factors = [_whole(own, f"row {problem.row_name(i)}")[0] for i, own in enumerate(numbers)]
    lower, upper = np.array(problem.lower), np.array(problem.upper)
    for i, factor in enumerate(factors):
        for array, end in zip((lower, upper), ends, strict=True):
            if (bound := end[i]) is not None:
                read.note(float(array[i]), bound)
                array[i] = float(bound * factor)
    rows = [part.times(factors) for part in parts]
    lmis, scales = [], [np.array(factors, dtype=np.float64)]
    for j, lmi in enumerate(problem.lmis):
        read_lmi, factor = _lmi(lmi, j, read)
        lmis.append(read_lmi)
        scales.append(np.full(lmi.set.entries, float(factor)))
    if not read.example:
        return DecimalData(problem, problem, np.ones(problem.multiplier_count), "")
    made = changed(problem, rows=rows, lower=lower, upper=upper, lmis=lmis)
    return DecimalData(problem, made, np.concatenate(scales), read.example)


def read_terms(terms: Point, reading: Reading) -> tuple[Point, Fraction, str]:
    """Scale an objective, read as decimals, to doubles; return it with the factor and an example.

    Raises ``ProblemError`` if no factor makes the objective exactly representable.
    """
    if reading == Reading.STORED:
        return terms, Fraction(1), ""
    read = RecordingReader(READERS[reading])
    flat = np.concatenate([part.reshape(-1) for part in terms])
    place = np.flatnonzero(flat)
    factor, whole = _whole([read(v) for v in flat[place].tolist()], "the objective")
    out = np.zeros(flat.size)
    out[place] = whole
    parts = np.split(out, np.cumsum([part.size for part in terms])[:-1])
    made = tuple(new.reshape(part.shape) for new, part in zip(parts, terms, strict=True))
    return made, factor, read.example


class RecordingReader:
    """Convert numbers by a reading and record the first one that the reading changes."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.example = ""

    def __call__(self, value: float) -> Fraction:
        """Convert a number and record it if the reading changes it."""
        found = self._read(value)
        self.note(value, found)
        return found

    def note(self, value: float, found: Fraction) -> None:
        """Record ``value`` as the example if the reading changes it and there is no example yet."""
        if not self.example and found != Fraction(value):
            self.example = f"{value} for {found}"


class _Read:
    """The rows on one block as fractions: nonzero values, their row indices and flat positions."""

    def __init__(self, rows: Rows, read: Read) -> None:
        self.rows = rows
        starts, self.places, self.values = rational_entries(rows, read)
        self.owners = np.repeat(np.arange(rows.m), np.diff(starts)).tolist()

    def times(self, factors: Sequence[Fraction]) -> Any:
        """Return the rows as doubles, each multiplied by its factor."""
        if self.rows.empty:
            return self.rows
        data = [float(v * factors[i]) for i, v in zip(self.owners, self.values, strict=True)]
        shape = (self.rows.m, math.prod(self.rows.shape))
        csr = sp.csr_array((np.array(data, dtype=np.float64), (self.owners, self.places)), shape)
        return csr.toarray().reshape(self.rows.m, *self.rows.shape) if isinstance(self.rows, Dense) else csr


def _whole(values: list[Fraction], where: str) -> tuple[Fraction, list[float]]:
    """Return an odd/odd factor that makes all values exactly representable, and the scaled values."""
    least = math.lcm(*(v.denominator for v in values))
    divisor = _odd(math.gcd(*(v.numerator * (least // v.denominator) for v in values)))
    common = _odd(least)
    # Scaled to coprime integers, the values have their shortest form: no other odd factor helps.
    for factor in (Fraction(common), Fraction(common, divisor)):
        out = [_double(v * factor) for v in values]
        if None not in out:
            return factor, [v for v in out if v is not None]
    long = values[out.index(None)]
    raise ProblemError(
        f"{where} is not exactly representable in doubles for any factor: {long} times {common}"
    )


def _odd(number: int) -> int:
    """Return the odd part of an integer; 1 for zero."""
    return number // (number & -number) if number else 1


def _double(value: Fraction) -> float | None:
    """Convert a fraction to a double; None if it is not exactly representable."""
    try:
        near = float(value)
    except OverflowError:
        return None
    return near if Fraction(near) == value else None


def _lmi(lmi: LMI, j: int, read: Read) -> tuple[LMI, Fraction]:
    """Scale an LMI, read as decimals, to doubles; return it with the factor."""
    constant = [read(v) for v in lmi.constant.reshape(-1).tolist()]
    parts = [_Read(rows, read) for rows in lmi.coefficients]
    values = constant + [v for part in parts for v in part.values]
    factor, whole = _whole(values, f"LMI {j if lmi.name is None else lmi.name}")
    made = [part.times([factor] * part.rows.m) for part in parts]
    fixed = np.array(whole[: len(constant)]).reshape(lmi.set.shape)
    return LMI(lmi.set, fixed, made, lmi.name), factor
