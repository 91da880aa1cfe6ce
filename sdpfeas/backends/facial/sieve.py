"""Single rows that expose a face, or contradict all points: after Zhu, Pataki and Tran-Dinh."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdpfeas.backends.facial.table import Table
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.integers import as_floats
from sdpfeas.numerics.linalg import FloatArray, eigvalsh
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.face_rows import is_sparse
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
    for sign, bounds in ((1.0, problem.lower), (-1.0, problem.upper)):
        for i in np.flatnonzero((bounds == 0.0) & signs[sign]):
            unit = np.zeros(problem.m)
            unit[i] = sign
            if all(map(_exposes, problem.sets, problem.adjoint(unit))):
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
    if not any(fine.any() for fine in able.values()):
        return able
    for block, rows in zip(problem.sets, problem.rows, strict=True):
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
    need("a sieve over rows", numbers=4.0 * (table.lines.nnz if is_sparse(table.lines) else table.lines.size))
    found, betas = list[tuple[int, int]](), table.columns(slice(-1, None))[:, 0]
    for k, sign in _able(table):
        beta = betas[k]
        if sign * beta < 0 or not _in_cone(table, k, sign):
            continue
        if beta:
            return [sign * table.weights[k]]
        found.append((k, sign))
    single = [sign * table.weights[k] for k, sign in found]
    if len(single) < 2:
        return single
    total = [np.sum(single, axis=0)]
    return total if table.faces.rows.simple else total + single


def _able(table: Table) -> list[tuple[int, int]]:
    """Vectors, with a sign, that may be in the cone as far as their rays and diagonals tell."""
    rays = table.columns(table.rays)[:, :-1]
    fine = _filled(table.lines) & ~np.any(table.flat != 0, axis=1)
    able = {sign: fine & np.all(sign * rays >= 0, axis=1) for sign in (1, -1)}
    for part in table.parts:
        diagonal, own = table.columns(part.diagonal), table.lines[:, part.place]
        # Nothing but entries off the diagonal is indefinite.
        fine = ~_filled(own) | np.any(diagonal != 0, axis=1)
        for sign in able:
            able[sign] &= fine & np.all(sign * diagonal >= 0, axis=1)
    return [(k, sign) for k in range(table.lines.shape[0]) for sign in able if able[sign][k]]


def _filled(table: Any) -> np.ndarray:
    """Rows that are not zero."""
    return np.diff(table.indptr) > 0 if is_sparse(table) else np.any(table != 0, axis=1)


def _in_cone(table: Table, k: int, sign: int) -> bool:
    """Whether the matrices of a vector look semidefinite; their diagonals are not negative."""
    line = as_floats(table.line(k)) * sign
    for part in table.parts:
        matrix = part.matrices(line)[0]
        # Thresholds are relative to the row.
        size = float(np.max(np.abs(matrix), initial=0.0))
        own = np.diagonal(matrix) > 0.0
        if np.any(matrix[~own]):
            return False
        if own.any() and eigvalsh(matrix[np.ix_(own, own)])[0] < -SLIP * size:
            return False
    return True
