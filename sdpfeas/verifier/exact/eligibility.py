"""Which problems rational arithmetic is for: small ones, and of numbers that somebody meant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.decimals import is_simple, written
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rational import rounded
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Rows

#: Rational operations a proof may take; about a second.
MAX_OPERATIONS = 200_000

#: Floating-point numbers that can be written in the time of one rational operation.
NUMBERS = 2000

#: Numbers with no more bits than this stand for themselves.
SHORT_BITS = 30

#: Significant decimal digits of a number that somebody may have meant.
ROUND_DIGITS = 9


def small_enough(problem: FeasibilityProblem, times: float = 1.0) -> bool:
    """Whether a problem is small enough for exact mode, or so many times larger at the most."""
    return _operations(problem) <= times * MAX_OPERATIONS


def need_rationals(problem: FeasibilityProblem) -> None:
    """Refuse a proof in rational arithmetic for which there is no time."""
    need("a proof in rational arithmetic", numbers=float(NUMBERS) * _operations(problem))


def _operations(problem: FeasibilityProblem) -> int:
    entries = sum(math.prod(block.shape) for block in problem.sets)
    equations = int(problem.equality.sum())
    cubes = sum(3 * block.side**3 for block in problem.sets)
    total = problem.m * entries + equations**2 * (entries + equations) + cubes
    free = sum(block.n for block in problem.sets if block.free)
    for lmi in problem.lmis:
        # Twice its terms, its factorisation, and what makes the multipliers fit the Free blocks.
        total += 2 * entries * lmi.set.entries + 3 * lmi.set.side**3 + free**2 * lmi.set.dimension
    return total + (free**3 if problem.lmis else 0)


def is_round(problem: FeasibilityProblem) -> bool:
    """Whether every number of a problem is a short decimal or a simple fraction, as if somebody meant it.

    Of numbers that were themselves rounded, rational arithmetic can prove what the next bit would disprove:
    a weakly infeasible problem in rotated coordinates is feasible or infeasible by chance.
    """
    found = problem.__dict__.get("_is_round")
    if found is None:
        sizes = np.unique(np.abs(_numbers(problem)))
        found = problem.__dict__["_is_round"] = all(_is_short(v) for v in sizes.tolist())
    return bool(found)


def has_round_rows(problem: FeasibilityProblem) -> bool:
    """Whether every coefficient of the rows and LMIs is such a number, whatever the bounds are."""
    found = problem.__dict__.get("_has_round_rows")
    if found is None:
        parts = [*problem.rows, *(rows for lmi in problem.lmis for rows in lmi.coefficients)]
        numbers = [a.reshape(-1) for rows in parts for a in _stored(rows)]
        sizes = np.unique(np.abs(np.concatenate([np.zeros(0), *numbers])))
        found = problem.__dict__["_has_round_rows"] = all(_is_short(v) for v in sizes.tolist())
    return bool(found)


def read_alike(problem: FeasibilityProblem) -> bool:
    """Whether every number of a small problem is the same as stored and as written."""
    found = problem.__dict__.get("_read_alike")
    if found is None:
        numbers = np.unique(np.abs(_numbers(problem)))
        # Short binaries stand for themselves, and most problems hold little else.
        mantissas = np.ldexp(np.frexp(numbers)[0], SHORT_BITS)
        rest = numbers[mantissas != np.floor(mantissas)].tolist()
        found = problem.__dict__["_read_alike"] = all(written(v) == Fraction(v) for v in rest)
    return bool(found)


def _numbers(problem: FeasibilityProblem) -> FloatArray:
    """All finite numbers that a problem holds."""
    bounds = np.concatenate([problem.lower, problem.upper])
    numbers = [bounds[np.isfinite(bounds)]]
    numbers.append(np.array([v for s in problem.sets for v in s.spec().values() if isinstance(v, float)]))
    parts = list(problem.rows)
    for lmi in problem.lmis:
        numbers.append(lmi.constant)
        numbers.append(np.array([v for v in lmi.set.spec().values() if isinstance(v, float)]))
        parts += lmi.coefficients
    for rows in parts:
        numbers += _stored(rows)
    return np.concatenate([a.reshape(-1) for a in numbers])


def _is_short(value: float) -> bool:
    """Whether a number is a simple fraction, or a short decimal whatever power of two it was scaled by."""
    mantissa, _ = math.frexp(value)
    return is_simple(value) or any(
        float(f"{v:.{ROUND_DIGITS}g}") == v for v in (math.ldexp(mantissa, k) for k in (0, *range(-20, 40)))
    )


def _stored(rows: Rows) -> list[FloatArray]:
    _, arrays, children = rows.state()
    out = [a for a in arrays.values() if a.dtype.kind == "f"]
    for child in children:
        out += _stored(child)
    return out


# ------------------------------------------------------------
# What is tried in place of a claim: rounder numbers, and at last its own.

#: Denominators a claim is rounded to before it is taken as it is.
DENOMINATORS = (1, 12, 1000, 10**6)

#: What is violated by more than this, relative to its size, is not worth rational arithmetic.
SLIP = 1e-9


def candidates(
    flat: FloatArray, as_it_is: np.ndarray, denominators: tuple[int, ...]
) -> Iterator[tuple[np.ndarray, tuple[str, ...]]]:
    """Numbers near the given ones, the roundest first, with what was done to them."""
    for denominator in denominators:
        yield rounded(flat, denominator), (f"rounded to denominators of at most {denominator}",)
    yield as_it_is, ()
