"""What an iteration of the interior-point method takes."""

from __future__ import annotations

from sdpfeas.numerics.effort import Work
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Dense, PairwiseDifference, Sparse
from sdpfeas.problem.sets import PSD, Free

__all__ = ["newton_memory", "newton_work", "stored_as_entries", "structured_work"]

#: Products and eigendecompositions of matrices as large as a cone, for every cone.
PRODUCTS, DECOMPOSITIONS = 24.0, 4.0


#: An entry of a sparse row that meets one of another costs as much as so many multiply-adds.
MEETING = 100.0


def stored_as_entries(problem: FeasibilityProblem) -> bool:
    """Whether all blocks are cones, and all rows on matrices are stored as entries."""
    stored = all(
        isinstance(leaf, (Dense, Sparse))
        for rows in problem.rows
        if rows is not None and rows.matrix
        for leaf in rows.leaves()
    )
    return stored and not any(block.bounded for block in problem.sets)


def newton_work(problem: FeasibilityProblem) -> Work:
    """What it takes to set up the Newton system, to factorise it and to move.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    """
    return _sparse_work(problem) if stored_as_entries(problem) else structured_work(problem)


def _sparse_work(problem: FeasibilityProblem) -> Work:
    """Newton system of sparse rows: they meet by their entries, or are multiplied out, whichever is less."""
    m, free = float(problem.m), float(_free(problem))
    total = Work(products=m**3 / 3.0 + m * m * free + free**3 / 3.0, numbers=6.0 * m * m)
    for block, rows in zip(problem.sets, problem.rows, strict=True):
        if not block.matrix or rows is None:
            continue
        n, entries = float(block.n), rows.entries
        touched = min(m, entries)
        schur = min(MEETING * (0.5 * entries) ** 2, touched * (2.0 * n**3 + 10.0 * entries))
        total = total.plus(Work(products=40.0 * n**3 + schur))
    return total


def structured_work(problem: FeasibilityProblem) -> Work:
    """What the structured method takes for the same."""
    m, free = float(problem.m), float(_free(problem))
    total = Work(products=m**3 / 3.0 + m * m * free + free**3 / 3.0, numbers=6.0 * m * m)
    for block, rows in zip(problem.sets, problem.rows, strict=True):
        if not block.matrix:
            continue
        n = float(block.n)
        cones = n**3 * (1.0 if isinstance(block, PSD) else 2.0)
        total = total.plus(Work(products=PRODUCTS * cones, cubes=DECOMPOSITIONS * cones))
        if rows is None:
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
    """Bytes of the Newton system, and of the rows that have to be written out for it.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    """
    m, free = float(problem.m), float(_free(problem))
    full = sum(
        float(leaf.m) * leaf.n**2
        for rows in problem.rows
        if rows is not None and rows.matrix
        for leaf in rows.leaves()
        if isinstance(leaf, (Dense, Sparse))
    )
    return 8.0 * (4.0 * m * m + 4.0 * m * free + 2.0 * full)


def _free(problem: FeasibilityProblem) -> int:
    return sum(block.n for block in problem.sets if isinstance(block, Free))
