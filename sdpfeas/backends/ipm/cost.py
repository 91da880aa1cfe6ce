"""What an iteration of the interior-point method takes."""

from __future__ import annotations

from sdpfeas.numerics.effort import Work
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Dense, PairwiseDifference, Sparse
from sdpfeas.problem.sets import PSD, Free

__all__ = ["newton_memory", "newton_work"]

#: Products and eigendecompositions of matrices as large as a cone, for every cone.
PRODUCTS, DECOMPOSITIONS = 24.0, 4.0


def newton_work(problem: FeasibilityProblem) -> Work:
    """What it takes to set up the Newton system, to factorise it and to move.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    """
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
