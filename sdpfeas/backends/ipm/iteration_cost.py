"""Flop counts of an iteration, to choose between formulations and to guard its Schur complement.

They count multiply-adds of the Schur complement, its factorisation and the products of matrices.
"""

from __future__ import annotations

import numpy as np

from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Dense, PairwiseDifference, Sparse
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SecondOrder

#: Matrix products per cone and iteration over structured and over sparse rows.
PRODUCTS_PER_CONE, SPARSE_PRODUCTS_PER_CONE = 24.0, 40.0

#: Sparse rows: multiply-adds that take as long as one pair of entries of two rows.
ENTRY_PAIR_FLOPS = 100.0


def rows_are_entries(problem: FeasibilityProblem) -> bool:
    """Whether all sets are cones, and all rows on matrices are stored by their entries."""
    stored = all(
        isinstance(leaf, (Dense, Sparse))
        for rows in problem.rows
        if not rows.empty and rows.matrix
        for leaf in rows.leaves()
    )
    sets = (*problem.sets, *(lmi.set for lmi in problem.lmis))
    return stored and all(isinstance(block, (PSD, SecondOrder, Nonneg, Free)) for block in sets)


def newton_flops(problem: FeasibilityProblem) -> float:
    """Flop count of an iteration in the formulation that is chosen."""
    if rows_are_entries(problem):
        return min(primal_form_flops(problem), dual_form_flops(problem))
    return structured_flops(problem.slack_form.problem)


def primal_form_flops(problem: FeasibilityProblem) -> float:
    """Flop count over sparse rows with one equality constraint per row and per entry of every LMI."""
    slacks = [float(lmi.set.dimension) for lmi in problem.lmis]
    m = problem.m + sum(slacks)
    cones = [(lmi.set, float(lmi.set.entries), s) for lmi, s in zip(problem.lmis, slacks, strict=True)]
    for b, block in enumerate(problem.sets):
        if not block.free:
            parts = (problem.rows[b], *(lmi.coefficients[b] for lmi in problem.lmis))
            entries = sum(rows.entries for rows in parts)
            cones.append((block, entries, min(m, entries)))
    return _standard_form_flops(m, _free(problem), cones)


def dual_form_flops(problem: FeasibilityProblem) -> float:
    """Flop count over sparse rows with one variable per entry of every block."""
    m = float(sum(block.dimension for block in problem.sets))
    cones = [
        (block, float(block.entries), float(block.dimension)) for block in problem.sets if not block.free
    ]
    for lmi in problem.lmis:
        entries = sum(rows.entries for rows in lmi.coefficients)
        cones.append((lmi.set, entries, min(m, entries)))
    equations = float(np.count_nonzero(problem.equality))
    bounds = (1.0 - equations / max(problem.m, 1)) * sum(rows.entries for rows in problem.rows)
    if bounds:
        cones.append((Nonneg(problem.m), bounds, m))
    return _standard_form_flops(m, equations, cones)


def _standard_form_flops(m: float, free: float, cones: list[tuple[BlockSet, float, float]]) -> float:
    """Flop count for a standard form; of every cone, its entries in all rows and its non-zero rows.

    A PSD cone takes the cheaper of pairs of entries and matrix products; see
    :mod:`sdpfeas.backends.ipm.schur_complement`.
    """
    total = _factorisation_flops(m, free)
    for cone, entries, nonzero_rows in cones:
        n = float(cone.n)
        if cone.matrix:
            pairs, products = ENTRY_PAIR_FLOPS * (0.5 * entries) ** 2, 2.0 * n**3 + 10.0 * entries
            total += SPARSE_PRODUCTS_PER_CONE * n**3 + min(pairs, nonzero_rows * products)
        else:
            total += 10.0 * entries * min(m, 1.0 + entries / n)
    return total


def structured_flops(problem: FeasibilityProblem) -> float:
    """Flop count over structured rows."""
    total = _factorisation_flops(float(problem.m), _free(problem))
    for _, block, rows in problem.blocks():
        if not block.matrix:
            continue
        n = float(block.n)
        total += PRODUCTS_PER_CONE * n**3 * (1.0 if isinstance(block, PSD) else 2.0)
        if rows.empty:
            continue
        leaves = sorted(rows.leaves(), key=lambda leaf: leaf.m if isinstance(leaf, PairwiseDifference) else 0)
        if leaves and isinstance(leaves[-1], PairwiseDifference):
            pairs, c = float(leaves[-1].m), float(leaves[-1].c)
            leaves = leaves[:-1]
            total += pairs * pairs * n + sum(leaf.m for leaf in leaves) * c * n * (n + c)
        total += 0.3 * (float(sum(leaf.m for leaf in leaves)) * n) ** 2
        total += 2.0 * float(sum(leaf.m for leaf in leaves if isinstance(leaf, (Dense, Sparse)))) * n**3
    return total


def _factorisation_flops(m: float, free: float) -> float:
    return m**3 / 3.0 + m * m * free + free**3 / 3.0


def _free(problem: FeasibilityProblem) -> float:
    return float(sum(block.n for block in problem.sets if isinstance(block, Free)))
