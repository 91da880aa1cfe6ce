"""Proofs that rational matrices are positive semidefinite, for ``sdpcheck.semidefinite``.

``M = L L' + R`` on the pivots, with ``R`` strictly diagonally dominant: ``L`` is a Cholesky factor of ``M``
minus a small diagonal, rounded to as few bits as the smallest eigenvalue allows. The kernel of a singular
matrix comes from exact elimination. :func:`prove_semidefinite` is the entry point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas import sdpcheck
from sdpfeas.certifier.numbers import exponent, floats, kernel, texts
from sdpfeas.errors import NotProved

#: Largest side of a matrix whose kernel is computed by exact elimination.
MAX_ELIMINATION_SIDE = 160
#: Relative smallest eigenvalues, as negative powers of two, for which integer Cholesky factors are attempted.
MARGIN_BITS = (60, 130, 260, 520)

#: Relative smallest eigenvalue below which no exact factorisation is attempted.
CLEARLY_NEGATIVE = 1e-8

Matrix = Sequence[Sequence[Fraction]]


def prove_semidefinite(matrix: Matrix) -> dict[str, Any] | None:
    """Return a proof that a symmetric matrix is positive semidefinite; raises NotProved."""
    n = len(matrix)
    alive = [i for i in range(n) if any(matrix[i])]
    if not alive:
        return None
    part = [[matrix[i][j] for j in alive] for i in alive]
    factor, columns, free = _factor(part), list[list[Fraction]](), list[int]()
    if factor is None and len(alive) <= MAX_ELIMINATION_SIDE:
        columns, free = kernel(part, len(alive))
        pivots = [k for k in range(len(alive)) if k not in set(free)]
        part = [[part[i][j] for j in pivots] for i in pivots]
        factor = _factor(part) if free else None
    factor = factor or _long_factor(part)
    if factor is None:
        raise NotProved("a matrix is not positive semidefinite, or too close to its boundary")
    zero = [i for i in range(n) if i not in set(alive)]
    columns = [_spread(column, alive, n) for column in columns] + [
        _spread([Fraction(1)], [i], n) for i in zero
    ]
    proof: dict[str, Any] = {"factor": factor}
    if columns:
        places = [alive[k] for k in free] + zero
        proof |= {"free": places, "kernel": [texts(column) for column in columns]}
    return proof


def _spread(column: Sequence[Fraction], places: Sequence[int], n: int) -> list[Fraction]:
    out = [Fraction(0)] * n
    for place, value in zip(places, column, strict=True):
        out[place] = value
    return out


def _accepted(matrix: Matrix, factor: list[list[Fraction]]) -> list[list[int | str]] | None:
    """Return a factor as it is written, if the checker accepts it."""
    rows = [texts(row) for row in factor]
    try:
        sdpcheck.semidefinite([list(row) for row in matrix], {"factor": rows})
    except sdpcheck.Refused:
        return None
    return rows


def _sizes(matrix: Matrix) -> list[int] | None:
    """Return exponents ``e_i`` with ``M_ii`` near ``4 ** e_i``; None if a diagonal entry is not positive."""
    diagonal = [row[i] for i, row in enumerate(matrix)]
    if any(v <= 0 for v in diagonal):
        return None
    return [(v.numerator.bit_length() - v.denominator.bit_length()) // 2 for v in diagonal]


def _factor(matrix: Matrix) -> list[list[int | str]] | None:
    """Return a short factor by floating-point arithmetic; None if the margin is too small for it."""
    sizes = _sizes(matrix)
    if sizes is None:
        return None
    n = len(matrix)
    scale = [Fraction(2) ** -e for e in sizes]
    near = floats(
        v * a * b for row, a in zip(matrix, scale, strict=True) for v, b in zip(row, scale, strict=True)
    )
    near = near.reshape(n, n)
    least = float(np.linalg.eigvalsh(near)[0]) if np.isfinite(near).all() else 0.0
    if least < -CLEARLY_NEGATIVE:
        raise NotProved("a matrix has a negative eigenvalue")
    if least < 1e-13 * n:
        return None
    lower = np.linalg.cholesky(near - least / 2 * np.eye(n))
    # The errors of a row add up to less than its margin, relative to the smallest row.
    spread = max(sizes) - min(sizes)
    bits = 4 + spread - exponent(least) + exponent(n)
    if bits > 48:
        return None
    whole = np.rint(np.ldexp(lower, bits)).astype(np.int64).tolist()
    factor = [
        [Fraction(v, 2**bits) * Fraction(2) ** e for v in whole[i][: i + 1]] for i, e in enumerate(sizes)
    ]
    return _accepted(matrix, factor)


def _long_factor(matrix: Matrix) -> list[list[int | str]] | None:
    """Return a factor by Cholesky factorisation in long integers; None if no margin is found."""
    sizes = _sizes(matrix)
    if sizes is None:
        return None
    n, spread = len(matrix), max(sizes) - min(sizes)
    for margin in MARGIN_BITS:
        bits = 2 * margin + 2 * spread + 16
        unit = 1 << bits
        rows: list[list[int]] = []
        for i in range(n):
            row: list[int] = []
            for j in range(i + 1):
                entry = matrix[i][j] / Fraction(2) ** (sizes[i] + sizes[j])
                rest = (round(entry * unit) << bits) - sum(map(int.__mul__, row, rows[j] if j < i else row))
                if i == j:
                    rest -= 1 << (2 * bits - margin)
                    if rest <= 0:
                        break
                    row.append(math.isqrt(rest))
                else:
                    row.append(rest // rows[j][j])
            if len(row) <= i:
                break
            rows.append(row)
        if len(rows) == n:
            factor = [
                [Fraction(v, unit) * Fraction(2) ** e for v in row]
                for row, e in zip(rows, sizes, strict=True)
            ]
            if accepted := _accepted(matrix, factor):
                return accepted
    return None
