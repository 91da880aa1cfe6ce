"""Rows and columns that follow from others, up to rounding: a numeric judgement, and nothing else."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import TINY
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.redundancy import screen
from sdpfeas.problem.reductions.scaling import power_of_two
from sdpfeas.problem.rows import Dense, Rows
from sdpfeas.problem.rows.columns import dense_columns, vector_columns
from sdpfeas.problem.sets import BlockSet, Free
from sdpfeas.verifier.equality import MAX_DENSE_ROWS

__all__ = ["without_redundant_columns", "without_redundant_rows"]

#: Rows (or columns) that differ from a combination of others by no more than this share of the terms count
#: as redundant up to rounding.
REDUNDANT = 1e-13


def without_redundant_rows(problem: FeasibilityProblem) -> FeasibilityProblem | None:
    """Return the problem without equality rows that follow from others; None if there are none.

    A numeric judgement, up to rounding: the row, and its bound, must agree with a combination of rows that
    are kept (and of prescribed traces) to within a share of 1e-13 of the terms.
    """
    seen = screen(problem)
    if seen is None:
        return None
    index, kept = seen.index, seen.kept
    bound = np.ldexp(problem.lower[index], -seen.exponents)
    rest = np.setdiff1d(np.arange(index.size), kept)
    dropped = [k for k in rest if _follows(seen.parts, bound, seen.gram, kept, k)]
    if not dropped:
        return None
    return problem.select_rows(np.setdiff1d(np.arange(problem.m), index[dropped]))


def _follows(
    parts: list[tuple[BlockSet, Rows]], bound: FloatArray, gram: FloatArray, kept: np.ndarray, k: int
) -> bool:
    """Whether row ``k`` and its bound are a combination of the kept rows up to rounding."""
    weights = np.zeros(bound.size)
    weights[k] = 1.0
    for _ in range(3):
        # Solving with the Gram matrix squares the condition; refining makes up for it.
        differences, right, moved = [], float(weights @ bound), float(np.abs(weights) @ np.abs(bound))
        for block, rows in parts:
            apart = rows.adjoint(weights)
            if block.trace is not None:
                mean = block.trace_of(apart) / block.degree
                apart = apart - mean * block.identity()
                right -= mean * block.trace
                moved += abs(mean * block.trace)
            differences.append((rows, apart))
        off = sum((rows.apply(apart)[kept] for rows, apart in differences), np.zeros(kept.size))
        need("a look for redundant rows", products=4.0 * float(kept.size) ** 3)
        step = scipy.linalg.lstsq(gram[np.ix_(kept, kept)], off, check_finite=False)[0]
        if not np.isfinite(step).all():
            return False
        largest = max(float(np.max(np.abs(apart))) for _, apart in differences)
        terms = float(np.sum(np.abs(weights)))
        if largest <= REDUNDANT * terms and abs(right) <= REDUNDANT * moved < math.inf:
            return True
        weights[kept] -= step
    return False


def without_redundant_columns(problem: FeasibilityProblem) -> FeasibilityProblem | None:
    """Return the problem without columns of Free blocks that are combinations of others; None if all are needed.

    A numeric judgement, up to rounding, like that on rows.
    """  # noqa: E501
    own_rows = [
        (b, rows)
        for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True))
        if block.free and rows is not None
    ]
    count = sum(problem.sets[b].n for b, _ in own_rows)
    if not 0 < problem.m * count <= MAX_DENSE_ROWS**2:
        return None
    need("a look for redundant columns", products=2.0 * problem.m * count**2)
    free = [(b, dense_columns(vector_columns(rows))) for b, rows in own_rows]
    columns = np.hstack([part for _, part in free]) * power_of_two(problem.norms)[:, None]
    columns = columns * power_of_two(np.linalg.norm(columns, axis=0))
    if not np.isfinite(columns).all():
        return None
    _, triangle, pivots = scipy.linalg.qr(columns, mode="economic", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int(np.sum(diagonal > REDUNDANT * max(float(np.max(diagonal, initial=0.0)), TINY)))
    kept, rest = np.sort(pivots[:rank]), pivots[rank:]
    keep = np.ones(columns.shape[1], dtype=bool)
    for k in rest:
        share = np.linalg.lstsq(columns[:, kept], columns[:, k], rcond=None)[0] if rank else np.zeros(0)
        apart = float(np.max(np.abs(columns[:, k] - columns[:, kept] @ share), initial=0.0))
        keep[k] = not apart <= REDUNDANT * (1.0 + float(np.sum(np.abs(share))))
    if keep.all():
        return None
    sets, rows_out, start = list(problem.sets), list(problem.rows), 0
    for b, part in free:
        own = np.flatnonzero(keep[start : start + part.shape[1]])
        start += part.shape[1]
        sets[b] = Free(max(own.size, 1))
        rows_out[b] = Dense(part[:, own]) if own.size else None
    return FeasibilityProblem(sets, rows_out, problem.lower, problem.upper)
