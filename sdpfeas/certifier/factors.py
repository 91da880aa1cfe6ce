"""Proofs that rational matrices are positive semidefinite, for ``sdpcheck.semidefinite``.

``M = L L' + R`` on the pivots, with ``R`` strictly diagonally dominant: ``L`` is a Cholesky factor of ``M``
minus a small diagonal, in integers, rounded to as few bits as the smallest eigenvalue allows. The kernel of a
singular matrix comes from exact elimination. :func:`prove_semidefinite` is the entry point.
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
#: Relative smallest eigenvalues, as negative powers of two, that are tried where floating point shows none.
MARGIN_BITS = (60, 130, 260, 520)
#: Relative smallest eigenvalue below which a matrix counts as indefinite.
CLEARLY_NEGATIVE = 1e-8

Matrix = Sequence[Sequence[Fraction]]


def prove_semidefinite(matrix: Matrix) -> dict[str, Any] | None:
    """Return a proof that a symmetric matrix is positive semidefinite; raises NotProved."""
    n = len(matrix)
    alive = [i for i in range(n) if any(matrix[i])]
    if not alive:
        return None
    part = [[matrix[i][j] for j in alive] for i in alive]
    margins, columns, free = _margins(part), list[list[Fraction]](), list[int]()
    if len(margins) > 1 and len(alive) <= MAX_ELIMINATION_SIDE:
        columns, free = kernel(part, len(alive))
        pivots = [k for k in range(len(alive)) if k not in set(free)]
        part = [[part[i][j] for j in pivots] for i in pivots]
        margins = _margins(part)
    found = (_factor(part, margin) for margin in margins)
    factor = next((each for each in found if each is not None), None)
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


def _sizes(matrix: Matrix) -> list[int]:
    """Return exponents ``e_i`` with ``M_ii`` near ``4 ** e_i``."""
    diagonal = [row[i] for i, row in enumerate(matrix)]
    if any(v <= 0 for v in diagonal):
        raise NotProved("a matrix has a diagonal entry that is not positive")
    return [(v.numerator.bit_length() - v.denominator.bit_length()) // 2 for v in diagonal]


def _margins(matrix: Matrix) -> Sequence[int]:
    """Return relative smallest eigenvalues to try, as negative powers of two: one if it is clear."""
    n, sizes = len(matrix), _sizes(matrix)
    near = floats(
        v / Fraction(2) ** (e + f)
        for row, e in zip(matrix, sizes, strict=True)
        for v, f in zip(row, sizes, strict=True)
    ).reshape(n, n)
    least = float(np.min(np.linalg.eigvalsh(near), initial=1.0)) if np.isfinite(near).all() else 0.0
    if least < -CLEARLY_NEGATIVE:
        raise NotProved("a matrix has a negative eigenvalue")
    return [2 - exponent(least)] if least > 1e-13 * n else MARGIN_BITS


def _factor(matrix: Matrix, margin: int) -> list[list[int | str]] | None:
    """Return a Cholesky factor of a matrix with a margin, as texts; None if the checker refuses it."""
    sizes, n = _sizes(matrix), len(matrix)
    # The errors of a row add up to less than its margin, relative to the smallest row.
    spread = max(sizes, default=0) - min(sizes, default=0)
    kept = 4 + margin + spread + exponent(n)
    bits = kept + margin + spread + 16
    unit, rows = 1 << bits, list[list[int]]()
    for i in range(n):
        row: list[int] = []
        for j in range(i + 1):
            entry = matrix[i][j] / Fraction(2) ** (sizes[i] + sizes[j])
            rest = (round(entry * unit) << bits) - sum(map(int.__mul__, row, rows[j] if j < i else row))
            if j < i:
                row.append(rest // rows[j][j])
                continue
            rest -= 1 << (2 * bits - margin)
            if rest <= 0:
                return None
            row.append(math.isqrt(rest))
        rows.append(row)
    factor = [
        texts(Fraction(v >> (bits - kept), 2**kept) * Fraction(2) ** e for v in row)
        for row, e in zip(rows, sizes, strict=True)
    ]
    try:
        sdpcheck.semidefinite([list(row) for row in matrix], {"factor": factor})
    except sdpcheck.Refused:
        return None
    return factor
