"""Whether a small linear problem has a solution: Fourier and Motzkin's elimination in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from strategies import exact

import sdpfeas as sf

#: ``sum_j a_j x_j <= b``, with the weights of the problem's rows behind it.
Inequality = tuple[list[Fraction], Fraction, list[Fraction]]


def entries(problem: sf.FeasibilityProblem) -> list[list[Fraction]]:
    """All rows over all entries of the blocks: vectors, or matrices of side one."""
    out = []
    for i in range(problem.m):
        parts = [rows.exact_row(i).ravel().tolist() for rows in problem.rows]
        out.append([entry for part in parts for entry in part])
    return out


def _inequalities(problem: sf.FeasibilityProblem) -> list[Inequality]:
    table = entries(problem)
    none = [Fraction(0)] * problem.m
    found: list[Inequality] = []
    for i, row in enumerate(table):
        unit = [Fraction(int(k == i)) for k in range(problem.m)]
        if np.isfinite(problem.upper[i]):
            found.append((row, Fraction(float(problem.upper[i])), [-u for u in unit]))
        if np.isfinite(problem.lower[i]):
            found.append(([-v for v in row], -Fraction(float(problem.lower[i])), unit))
    width, j = sum(block.n for block in problem.sets), 0
    for block in problem.sets:
        for k in range(j, j + block.n):
            unit = [Fraction(int(k == i)) for i in range(width)]
            if np.isfinite(block.lower):
                found.append(([-u for u in unit], -Fraction(block.lower), none))
            if np.isfinite(block.upper):
                found.append((unit, Fraction(block.upper), none))
        j += block.n
    return found


def contradiction(problem: sf.FeasibilityProblem) -> list[Fraction] | None:
    """Multipliers that rule out every point, exactly; None if there is one."""
    assert all(not block.matrix or block.n == 1 for block in problem.sets)
    found = _inequalities(problem)
    for j in range(sum(block.n for block in problem.sets)):
        above = [item for item in found if item[0][j] > 0]
        below = [item for item in found if item[0][j] < 0]
        found = [item for item in found if item[0][j] == 0]
        for a, b, u in above:
            for c, d, v in below:
                s, t = -c[j], a[j]
                found.append(
                    (
                        [s * p + t * q for p, q in zip(a, c, strict=True)],
                        s * b + t * d,
                        [s * p + t * q for p, q in zip(u, v, strict=True)],
                    )
                )
    return next((weights for _, bound, weights in found if bound < 0), None)


def values(problem: sf.FeasibilityProblem, x: np.ndarray) -> list[Fraction]:
    """Exact row values at a vector of all entries."""
    point = exact(x).tolist()
    return [sum((a * b for a, b in zip(row, point, strict=True)), Fraction(0)) for row in entries(problem)]
