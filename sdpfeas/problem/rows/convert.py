"""Conversion of user input and file contents to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.problem.rows.base import Rows
from sdpfeas.problem.rows.compose import Combined, Stacked
from sdpfeas.problem.rows.dense import Dense
from sdpfeas.problem.rows.low_rank import LowRank
from sdpfeas.problem.rows.pairwise import PairwiseDifference
from sdpfeas.problem.rows.sparse import NoRows, Sparse
from sdpfeas.problem.sets import BlockSet

__all__ = ["as_rows", "rows_from_state"]

#: Every kind of rows, by its name in files; ``NoRows`` is not stored.
KINDS: dict[str, type[Rows]] = {
    kind.kind: kind for kind in (Combined, Dense, LowRank, PairwiseDifference, Sparse, Stacked)
}


def as_rows(entry: Any, block: BlockSet, m: int) -> Rows:
    """Convert the ``m`` rows that a user passes for a block; None becomes ``NoRows``."""
    if entry is None or isinstance(entry, NoRows):
        return NoRows(m, block.n, block.matrix)
    if isinstance(entry, Rows):
        rows = entry
    elif sp.issparse(entry):
        rows = Sparse(entry, block.n, block.matrix)
    else:
        rows = Dense(block.coordinates(entry))
    if rows.shape != block.shape:
        raise ProblemError(
            f"rows are for a block of shape {rows.shape}, but the set {block.kind}({block.n}) "
            f"has members of shape {block.shape}"
        )
    return rows


def rows_from_state(
    kind: str, numbers: dict[str, Any], arrays: dict[str, np.ndarray], children: list[Rows]
) -> Rows:
    """Build rows of a kind from the output of :meth:`Rows.state`."""
    if kind not in KINDS:
        raise ProblemError(f"unknown kind of rows {kind!r}")
    return KINDS[kind].from_state(numbers, arrays, children)
