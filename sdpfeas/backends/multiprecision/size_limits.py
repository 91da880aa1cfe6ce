"""Which problems multiprecision arithmetic takes. Imports no multiprecision package: ``auto`` always asks."""

from __future__ import annotations

from sdpfeas.numerics.exact_arithmetic import Reading
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.rows_only import has_faces
from sdpfeas.problem.sets import PSD, Free, Nonneg

#: Largest number of products per iteration of a problem that ``auto`` tries: about half a second.
MAX_PRODUCTS = 4e6


def fits(problem: FeasibilityProblem) -> bool:
    """Whether a problem is small enough for multiprecision arithmetic, and its rows are exact."""
    return iteration_products(problem) <= MAX_PRODUCTS and supported(problem)


def iteration_products(problem: FeasibilityProblem) -> float:
    """Estimate the number of products of an iteration."""
    lmis = problem.lmis
    if all(block.free for block in problem.sets):
        count = sum(block.n for block in problem.sets)
        parts = [(lmi.set, sum(rows.entries for rows in lmi.coefficients)) for lmi in lmis]
    else:
        count = problem.m + sum(lmi.set.dimension for lmi in lmis)
        parts = [(block, rows.entries) for _, block, rows in problem.blocks()]
        parts += [(lmi.set, lmi.set.entries) for lmi in lmis]
    products = float(count) ** 3 / 3.0
    for block, entries in parts:
        if block.matrix:
            # A row is multiplied out, or every entry is paired with every other.
            cube = float(block.n) ** 3
            products += cube + min(2.0 * count * cube, 0.5 * float(entries) ** 2)
    return products


def supported(problem: FeasibilityProblem, reading: Reading = Reading.STORED) -> bool:
    """Whether a problem has only PSD, Nonneg and Free blocks, PSD and Nonneg LMIs, and rows as numbers."""
    sets = (*problem.sets, *(lmi.set for lmi in problem.lmis))
    kinds = all(type(block) in (PSD, Nonneg, Free) for block in sets)
    return kinds and not any(lmi.set.free for lmi in problem.lmis) and has_faces(problem, reading)
