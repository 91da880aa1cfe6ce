"""Flop counts and memory estimates of one iteration of the interior-point methods."""

from __future__ import annotations

import numpy as np

from sdpfeas.numerics.cost_estimate import Work
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Dense, PairwiseDifference, Sparse
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SecondOrder

#: Structured method: matrix products and eigendecompositions per cone and iteration.
PRODUCTS_PER_CONE, DECOMPOSITIONS_PER_CONE = 24.0, 4.0

#: Sparse method: matrix products per cone and iteration.
SPARSE_PRODUCTS_PER_CONE = 40.0

#: Sparse method: multiply-adds that take as long as one pair of entries of two sparse rows.
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


def newton_work(problem: FeasibilityProblem) -> Work:
    """Cost estimate of an iteration: Schur complement, its factorisation, directions and step."""
    if rows_are_entries(problem):
        return min(primal_form_work(problem), dual_form_work(problem), key=lambda work: work.products)
    return structured_work(problem.slack_form.problem)


def primal_form_work(problem: FeasibilityProblem) -> Work:
    """Cost estimate of the sparse method with one equality constraint per row and per entry of every LMI."""
    slacks = [float(lmi.set.dimension) for lmi in problem.lmis]
    m = problem.m + sum(slacks)
    cones = [(lmi.set, float(lmi.set.entries), s) for lmi, s in zip(problem.lmis, slacks, strict=True)]
    for b, block in enumerate(problem.sets):
        if not block.free:
            parts = (problem.rows[b], *(lmi.coefficients[b] for lmi in problem.lmis))
            entries = sum(rows.entries for rows in parts)
            cones.append((block, entries, min(m, entries)))
    return _standard_form_work(m, float(_free(problem)), cones)


def dual_form_work(problem: FeasibilityProblem) -> Work:
    """Cost estimate of the sparse method with one variable per entry of every block."""
    m = float(sum(block.dimension for block in problem.sets))
    cones = [
        (block, float(block.entries), float(block.dimension)) for block in problem.sets if not block.free
    ]
    for lmi in problem.lmis:
        entries = sum(rows.entries for rows in lmi.coefficients)
        cones.append((lmi.set, entries, min(m, entries)))
    equations = float(np.count_nonzero(problem.equality))
    share = 1.0 - equations / max(problem.m, 1)
    bounds = share * sum(rows.entries for rows in problem.rows)
    if bounds:
        cones.append((Nonneg(problem.m), bounds, m))
    return _standard_form_work(m, equations, cones)


def _standard_form_work(m: float, free: float, cones: list[tuple[BlockSet, float, float]]) -> Work:
    """Cost estimate for a standard form; of every cone, its entries in all rows and its non-zero rows.

    A PSD cone takes the cheaper of pairs of entries and matrix products; see
    :mod:`sdpfeas.backends.ipm.schur_complement`.
    """
    total = Work(products=m**3 / 3.0 + m * m * free + free**3 / 3.0, numbers=6.0 * m * m)
    for cone, entries, nonzero_rows in cones:
        n = float(cone.n)
        if cone.matrix:
            schur = min(ENTRY_PAIR_FLOPS * (0.5 * entries) ** 2, nonzero_rows * (2.0 * n**3 + 10.0 * entries))
            total = total.plus(Work(products=SPARSE_PRODUCTS_PER_CONE * n**3 + schur))
        else:
            total = total.plus(Work(products=10.0 * entries * min(m, 1.0 + entries / n)))
    return total


def structured_work(problem: FeasibilityProblem) -> Work:
    """Cost estimate of the structured method."""
    m, free = float(problem.m), float(_free(problem))
    total = Work(products=m**3 / 3.0 + m * m * free + free**3 / 3.0, numbers=6.0 * m * m)
    for _, block, rows in problem.blocks():
        if not block.matrix:
            continue
        n = float(block.n)
        cones = n**3 * (1.0 if isinstance(block, PSD) else 2.0)
        total = total.plus(Work(products=PRODUCTS_PER_CONE * cones, cubes=DECOMPOSITIONS_PER_CONE * cones))
        if rows.empty:
            continue
        leaves = sorted(rows.leaves(), key=lambda leaf: leaf.m if isinstance(leaf, PairwiseDifference) else 0)
        if leaves and isinstance(leaves[-1], PairwiseDifference):
            pairs, c = float(leaves[-1].m), float(leaves[-1].c)
            leaves = leaves[:-1]
            total = total.plus(Work(products=pairs * pairs * n, numbers=6.0 * pairs * pairs))
            total = total.plus(Work(products=sum(leaf.m for leaf in leaves) * c * n * (n + c)))
        others = float(sum(leaf.m for leaf in leaves))
        total = total.plus(Work(products=0.3 * (others * n) ** 2, numbers=1.5 * others * n * n))
        full = float(sum(leaf.m for leaf in leaves if isinstance(leaf, (Dense, Sparse))))
        total = total.plus(Work(products=2.0 * full * n**3))
    return total


def newton_memory(problem: FeasibilityProblem) -> float:
    """Memory estimate of the structured method in bytes: Newton system and dense transformed rows."""
    m, free = float(problem.m), float(_free(problem))
    full = sum(
        float(leaf.m) * leaf.n**2
        for rows in problem.rows
        if not rows.empty and rows.matrix
        for leaf in rows.leaves()
        if isinstance(leaf, (Dense, Sparse))
    )
    return 8.0 * (4.0 * m * m + 4.0 * m * free + 2.0 * full)


def _free(problem: FeasibilityProblem) -> int:
    return sum(block.n for block in problem.sets if isinstance(block, Free))
