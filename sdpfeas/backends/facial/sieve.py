"""Single rows that expose a face, or contradict all points: after Zhu, Pataki and Tran-Dinh."""

from __future__ import annotations

import numpy as np

from sdpfeas.backends.facial.table import Table
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray, eigvalsh
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Sparse
from sdpfeas.problem.sets import BlockSet

__all__ = ["exposing", "promising"]

#: Eigenvalues of a row above minus this, relative to the largest, may be those of a semidefinite one.
SLIP = 1e-7

#: Numbers that a first look at a problem may write.
FIRST_LOOK = 5e6


def promising(problem: FeasibilityProblem) -> bool:
    """Whether single rows look as if they exposed a face: semidefinite ones with a zero bound."""
    zero = np.flatnonzero((problem.lower == 0.0) | (problem.upper == 0.0))
    entries = sum(block.entries for block in problem.sets)
    if problem.lmis or not 0 < zero.size * entries <= FIRST_LOOK:
        return False
    signs = _signs(problem)
    for i in zero:
        unit = np.zeros(problem.m)
        for sign, bound in ((1.0, problem.lower[i]), (-1.0, problem.upper[i])):
            unit[i] = sign
            possible = bound == 0.0 and signs[sign][i]
            if possible and all(map(_exposes, problem.sets, problem.adjoint(unit))):
                return True
    return False


def _signs(problem: FeasibilityProblem) -> dict[float, np.ndarray]:
    """Rows that may be non-positive with a multiplier of a sign, as far as their diagonals tell."""
    able = {sign: np.ones(problem.m, dtype=bool) for sign in (1.0, -1.0)}
    for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True)):
        if rows is not None and (block.free or not block.cone):
            # Such a block has no face to expose: a row must leave it alone.
            for fine in able.values():
                fine[problem.upper_norms[b] > 0.0] = False
        if not isinstance(rows, Sparse) or not block.cone:
            continue
        coo = rows.array.tocoo()
        row, place = coo.coords
        line = (place % (block.n + 1) == 0) if block.matrix else np.ones(place.size, dtype=bool)
        for sign, fine in able.items():
            fine[row[line & (sign * coo.data > 0.0)]] = False
        # Nothing but entries off the diagonal is indefinite.
        counts = (np.bincount(row[which & (coo.data != 0.0)], minlength=problem.m) for which in (line, ~line))
        on, off = counts
        for fine in able.values():
            fine[(off > 0) & (on == 0)] = False
    return able


def _exposes(block: BlockSet, part: FloatArray) -> bool:
    """Whether a row with a positive multiplier is non-positive on a block."""
    if not part.any():
        return True
    size = float(np.max(np.abs(part)))
    if not block.cone or np.max(np.diagonal(part) if part.ndim == 2 else part) > SLIP * size:
        return False
    return part.ndim == 1 or bool(eigvalsh(part)[-1] <= SLIP * size)


def exposing(table: Table) -> list[np.ndarray]:
    """Multipliers, of the rows in integers, of all vectors of a table that lie in the cone up to their sign.

    They come added up, and one by one where some are no simple numbers, which may not be used everywhere. One
    that has a positive ``beta`` contradicts all points, and is returned alone.

    Parameters
    ----------
    table : Table
        Its vectors are looked at one by one.
    """
    vectors, flat = table.near
    need("a sieve over rows", numbers=4.0 * vectors.size)
    found = list[tuple[int, int]]()
    loose = ~np.any(flat != 0.0, axis=1) & np.any(table.vectors != 0, axis=1)
    for k in np.flatnonzero(loose):
        beta = table.beta(int(k))
        if beta and table.faces.rows.loose:
            continue
        for sign in (1, -1):
            # A row scaled to weigh one: thresholds are relative.
            if sign * beta >= 0 and _in_cone(table, sign * vectors[k]):
                if beta:
                    return [sign * table.weights[k]]
                found.append((int(k), sign))
                break
    single = [sign * table.weights[k] for k, sign in found]
    if len(single) < 2:
        return single
    total = [np.sum(single, axis=0)]
    return total if table.faces.rows.simple else total + single


def _in_cone(table: Table, vector: FloatArray) -> bool:
    size = float(np.max(np.abs(vector), initial=0.0))
    matrices, rays = table.split(vector)
    if np.any(rays[:-1] < 0.0):
        return False
    for matrix in matrices:
        if np.min(np.diagonal(matrix), initial=0.0) < -SLIP * size:
            return False
    return all(not m.any() or eigvalsh(m)[0] >= -SLIP * size for m in matrices)
