"""Small problems with numbers of any exponent, in every set and every storage, whose truth is known exactly.

Where products underflow or overflow is where a bound that is only relative fails. Truth comes from the
construction, in rational arithmetic: a member of the sets whose row values lie between the bounds, or rows
that contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from strategies import exact, total, wide_numbers

import sdpfeas as sf
from sdpfeas.problem.rows import Combined, Dense, LowRank, PairwiseDifference, Rows, Sparse, Stacked

__all__ = ["Posed", "claims", "draw"]

Rng = np.random.Generator


@dataclass(frozen=True)
class Posed:
    """A problem with its truth (None: not known) and evidence that would be right but for rounding."""

    problem: sf.FeasibilityProblem
    feasible: bool | None
    point: tuple[np.ndarray, ...]
    certificate: np.ndarray


def draw(rng: Rng) -> Posed | None:
    """A problem; None where a row would be too large for floating point."""
    try:
        with np.errstate(all="ignore"):
            return _draw(rng)
    except sf.ProblemError:
        return None


def _draw(rng: Rng) -> Posed:
    low, high = _window(rng)
    members = [_member(rng, low, high) for _ in range(rng.integers(1, 4))]
    sets, point = [block for block, _ in members], tuple(x for _, x in members)
    m = int(rng.integers(1, 4))
    rows: list[Rows | None] = [_rows(rng, block, m, low, high) for block in sets]
    if rng.random() < 0.5:
        return _feasible(rng, sets, rows, point, m)
    return _contradictory(rng, sets, rows, point, m)


def _window(rng: Rng) -> tuple[int, int]:
    middle = int(rng.integers(-1000, 900))
    return ((-1074, 1000), (-40, 40), (max(middle - 40, -1074), min(middle + 40, 1000)))[rng.integers(3)]


def _member(rng: Rng, low: int, high: int) -> tuple[Any, np.ndarray]:
    """A set of up to three numbers or a matrix of up to three rows, and one of its members, exactly."""
    n, unit = int(rng.integers(1, 4)), int(rng.integers(max(low, -1000), min(high, 900)))
    kind = rng.integers(7)
    if kind == 0:
        return sf.Free(n), wide_numbers(rng, n, low=low, high=high)
    if kind == 1:
        return sf.Nonneg(n), np.abs(wide_numbers(rng, n, low=low, high=high))
    if kind == 2:
        root = rng.integers(-3, 4, size=(n, n)).astype(float)
        return sf.PSD(n), np.ldexp(root @ root.T, unit)
    if kind == 5:
        tail = rng.integers(-3, 4, size=n)
        head = int(np.abs(tail).sum())  # at least the norm
        return sf.SecondOrder(n + 1), np.ldexp(np.append(head, tail).astype(float), unit)
    if kind == 6:
        side = int(rng.integers(1, 3))
        root = rng.integers(-3, 4, size=(side, side)) + 1j * rng.integers(-3, 4, size=(side, side))
        square = root @ root.conj().T
        return sf.HermitianPSD(side), np.ldexp((square.real + square.imag).reshape(-1), unit)
    # Eighths between the bounds, on the diagonal: sums of a few of them are exact.
    steps = rng.integers(0, 9, size=n) if rng.random() < 0.7 else rng.choice([0, 8], size=n)
    base, width = int(rng.integers(-8, 9)), int(rng.integers(1, 9))
    lower, upper = np.ldexp(8.0 * base, unit), np.ldexp(8.0 * (base + width), unit)
    diagonal = np.ldexp((8 * base + width * steps).astype(float), unit)
    trace = float(np.sum(diagonal)) if kind == 4 else None
    return sf.SpectralBox(n, float(lower), float(upper), trace), np.diag(diagonal)


def _rows(rng: Rng, block: Any, m: int, low: int, high: int, depth: int = 0) -> Rows:
    """Rows of any storage; where stored numbers are multiplied their exponents are shared out."""
    kinds = (
        ["dense", "sparse"] + ["combined", "stacked"] * (depth < 2) + ["low-rank", "pairwise"] * block.matrix
    )
    kind = str(rng.choice(kinds))
    if kind == "combined":
        few = int(rng.integers(1, 4))
        base = _rows(rng, block, few, low // 2, high // 2, depth + 1)
        return Combined(sp.csr_array(wide_numbers(rng, m, few, low=low // 2, high=high // 2)), base)
    if kind == "stacked" and m > 1:
        return Stacked([_rows(rng, block, k, low, high, depth + 1) for k in (1, m - 1)])
    if kind == "low-rank":
        factors = [
            wide_numbers(rng, int(rng.integers(1, 3)), block.n, low=low // 3, high=high // 3)
            for _ in range(m)
        ]
        return LowRank(factors, [wide_numbers(rng, len(f), low=low // 3, high=high // 3) for f in factors])
    if kind == "pairwise":
        pairs = PairwiseDifference(wide_numbers(rng, 3, block.n, low=low // 2, high=high // 2))
        return pairs.select(rng.integers(3, size=m))
    array = wide_numbers(rng, m, *block.shape, low=low, high=high)
    if block.matrix:
        array = np.tril(array) + np.swapaxes(np.tril(array, -1), 1, 2)
    return (
        Sparse(sp.csr_array(array.reshape(m, -1)), block.n, block.matrix)
        if kind == "sparse"
        else Dense(array)
    )


def _values(rows: list[Rows | None], point: tuple[np.ndarray, ...], m: int) -> list[Fraction]:
    parts = [(r, exact(x)) for r, x in zip(rows, point, strict=True) if r is not None]
    return [sum((total(r.exact_row(i) * x) for r, x in parts), Fraction(0)) for i in range(m)]


def _rounded(value: Fraction) -> float:
    most = Fraction(float(np.finfo(float).max)) / 2
    return float(max(min(value, most), -most))


def _feasible(
    rng: Rng, sets: list[Any], rows: list[Rows | None], point: tuple[np.ndarray, ...], m: int
) -> Posed:
    """Bounds that the member meets, by nothing to spare where doubles allow it; or just misses."""
    truth = _values(rows, point, m)
    near = np.array([_rounded(v) for v in truth])
    lower, upper = np.array(near), np.array(near)
    for i, value in enumerate(truth):
        if Fraction(lower[i]) > value:
            lower[i] = np.nextafter(lower[i], -np.inf)
        if Fraction(upper[i]) < value:
            upper[i] = np.nextafter(upper[i], np.inf)
    slack = np.where(rng.random(m) < 0.3, np.abs(near) * rng.choice([1e-15, 1e-9, 0.5], m), 0.0)
    kind = rng.integers(4, size=m)
    lower = np.where(kind == 1, -np.inf, lower - slack)
    upper = np.where(kind == 2, np.inf, upper + slack)
    meets = all(Fraction(a) <= v if np.isfinite(a) else True for a, v in zip(lower, truth, strict=True))
    meets &= all(Fraction(b) >= v if np.isfinite(b) else True for b, v in zip(upper, truth, strict=True))
    feasible: bool | None = True if meets else None
    if rng.random() < 0.3:
        # A hair off: nobody knows without a proof.
        i, feasible = int(rng.integers(m)), None
        up = float(np.nextafter(near[i], np.inf))
        lower[i], upper[i] = up, max(up, float(upper[i]))
    y = wide_numbers(rng, m, low=-30, high=30)
    return Posed(sf.FeasibilityProblem(sets, rows, lower, upper), feasible, point, y)


def _contradictory(
    rng: Rng, sets: list[Any], rows: list[Rows | None], point: tuple[np.ndarray, ...], m: int
) -> Posed:
    """Every row again, times a power of two, with bounds that only one of the two can meet."""
    power = int(rng.integers(-60, 61))
    weights = np.concatenate([np.eye(m), np.ldexp(np.eye(m), power)])
    twice: list[Rows | None] = [None if r is None else Combined(sp.csr_array(weights), r) for r in rows]
    near = np.array([_rounded(v) for v in _values(rows, point, m)])
    above = np.ldexp(near, power)
    off = np.where(rng.random(m) < 0.5, 0.0, np.abs(above) * 1e-12)
    above = np.nextafter(above + off, np.inf)
    if not np.isfinite(above).all():
        raise sf.ProblemError("beyond the numbers there are")
    if not all(Fraction(b) > Fraction(a) * Fraction(2) ** power for a, b in zip(near, above, strict=True)):
        raise sf.ProblemError("beyond the numbers there are")
    i, none = int(rng.integers(m)), np.full(m, np.inf)
    equal = rng.random() < 0.5
    lower = np.concatenate([near if equal else -none, np.where(np.arange(m) == i, above, -none)])
    upper = np.concatenate([near, above if equal else none])
    lower[m:] = np.where(np.arange(m) == i, lower[m:], -np.inf)
    upper[m:] = np.where(np.arange(m) == i, upper[m:], np.inf)
    y = np.zeros(2 * m)
    y[i], y[m + i] = -1.0, np.ldexp(1.0, -power)
    return Posed(sf.FeasibilityProblem(sets, twice, lower, upper), False, point, y)


def claims(rng: Rng, posed: Posed) -> Iterator[sf.Claim]:
    """The evidence, the same with errors, and evidence that means nothing."""
    point, y = posed.point, posed.certificate
    yield sf.Claim(point=point)
    yield sf.Claim(certificate=y)
    yield sf.Claim(point=tuple(x * (1.0 + 1e-9 * float(rng.normal())) for x in point))
    yield sf.Claim(certificate=y * (1.0 + 1e-9 * rng.normal(size=y.size)))
    wild = tuple(wide_numbers(rng, *x.shape, low=-1074, high=1020) for x in point)
    yield sf.Claim(point=tuple(np.tril(x) + np.tril(x, -1).T if x.ndim == 2 else x for x in wild))
    yield sf.Claim(certificate=wide_numbers(rng, y.size, low=-1074, high=1020))
    inner = tuple(block.interior_point() for block in posed.problem.sets)
    yield sf.Claim(point=tuple(a + b for a, b in zip(point, inner, strict=True)), certificate=-y)
