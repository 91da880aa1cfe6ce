"""What an iteration of the interior-point method takes."""

from __future__ import annotations

import numpy as np

from sdpfeas.numerics.cost_estimate import Work
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Dense, PairwiseDifference, Sparse
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SecondOrder

#: Products and eigendecompositions of matrices as large as a cone, for every cone.
PRODUCTS, DECOMPOSITIONS = 24.0, 4.0


#: An entry of a sparse row that meets one of another costs as much as so many multiply-adds.
MEETING = 100.0


def stored_as_entries(problem: FeasibilityProblem) -> bool:
    """Whether all sets are cones, and all rows on matrices are stored as entries."""
    stored = all(
        isinstance(leaf, (Dense, Sparse))
        for rows in problem.rows
        if not rows.empty and rows.matrix
        for leaf in rows.leaves()
    )
    sets = (*problem.sets, *(lmi.set for lmi in problem.lmis))
    return stored and all(isinstance(block, (PSD, SecondOrder, Nonneg, Free)) for block in sets)


def newton_work(problem: FeasibilityProblem) -> Work:
    """What it takes to set up the Newton system, to factorise it and to move."""
    if stored_as_entries(problem):
        return min(rows_work(problem), unknowns_work(problem), key=lambda work: work.products)
    return structured_work(problem.slack_form.problem)


def rows_work(problem: FeasibilityProblem) -> Work:
    """What the sparse method takes with one equation a row, and one an entry of every LMI."""
    slacks = [float(lmi.set.dimension) for lmi in problem.lmis]
    m = problem.m + sum(slacks)
    cones = [(lmi.set, float(lmi.set.entries), s) for lmi, s in zip(problem.lmis, slacks, strict=True)]
    for b, block in enumerate(problem.sets):
        if not block.free:
            parts = (problem.rows[b], *(lmi.coefficients[b] for lmi in problem.lmis))
            entries = sum(rows.entries for rows in parts)
            cones.append((block, entries, min(m, entries)))
    return _pair_work(m, float(_free(problem)), cones)


def unknowns_work(problem: FeasibilityProblem) -> Work:
    """What the sparse method takes with one unknown an entry of every block."""
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
    return _pair_work(m, equations, cones)


def _pair_work(m: float, free: float, cones: list[tuple[BlockSet, float, float]]) -> Work:
    """Newton system of a standard pair; of every cone its entries in all rows, and how many rows touch it.

    Rows meet by their entries, or are multiplied out, whichever is less.
    """
    total = Work(products=m**3 / 3.0 + m * m * free + free**3 / 3.0, numbers=6.0 * m * m)
    for cone, entries, touched in cones:
        n = float(cone.n)
        if cone.matrix:
            schur = min(MEETING * (0.5 * entries) ** 2, touched * (2.0 * n**3 + 10.0 * entries))
            total = total.plus(Work(products=40.0 * n**3 + schur))
        else:
            total = total.plus(Work(products=10.0 * entries * min(m, 1.0 + entries / n)))
    return total


def structured_work(problem: FeasibilityProblem) -> Work:
    """What the structured method takes for the same."""
    m, free = float(problem.m), float(_free(problem))
    total = Work(products=m**3 / 3.0 + m * m * free + free**3 / 3.0, numbers=6.0 * m * m)
    for _, block, rows in problem.blocks():
        if not block.matrix:
            continue
        n = float(block.n)
        cones = n**3 * (1.0 if isinstance(block, PSD) else 2.0)
        total = total.plus(Work(products=PRODUCTS * cones, cubes=DECOMPOSITIONS * cones))
        if rows.empty:
            continue
        leaves = sorted(rows.leaves(), key=lambda leaf: leaf.m if isinstance(leaf, PairwiseDifference) else 0)
        if leaves and isinstance(leaves[-1], PairwiseDifference):
            pairs, c = float(leaves[-1].m), float(leaves[-1].c)
            leaves = leaves[:-1]
            total = total.plus(Work(products=pairs * pairs * n, numbers=6.0 * pairs * pairs))
            total = total.plus(Work(products=sum(leaf.m for leaf in leaves) * c * n * (n + c)))
        strips = float(sum(leaf.m for leaf in leaves))
        total = total.plus(Work(products=0.3 * (strips * n) ** 2, numbers=1.5 * strips * n * n))
        full = float(sum(leaf.m for leaf in leaves if isinstance(leaf, (Dense, Sparse))))
        total = total.plus(Work(products=2.0 * full * n**3))
    return total


def newton_memory(problem: FeasibilityProblem) -> float:
    """Bytes of the Newton system, and of the rows that have to be written out for it."""
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
