"""Blocks, rows and LMIs by name."""

from __future__ import annotations

from collections.abc import Sequence

from sdpfeas.errors import ClaimError, hint
from sdpfeas.harmless import visible
from sdpfeas.problem.problem import FeasibilityProblem

__all__ = ["find_block", "find_row"]

#: Names that are looked at, or listed, for a hint.
HINTED = 30


def find_block(problem: FeasibilityProblem, which: str | int) -> int:
    """Index of a block, given by its name or its index."""
    return _place(which, problem.block_names, len(problem.sets), "block")


def find_row(problem: FeasibilityProblem, which: str | int) -> int:
    """Index of a row or an LMI, given by its name or its index; LMIs are numbered after the rows."""
    if not problem.lmis:
        return _place(which, problem.row_names, problem.m, "row")
    rows = problem.row_names or [""] * problem.m
    names = [*rows, *(lmi.name or "" for lmi in problem.lmis)]
    return _place(which, names, len(names), "row or LMI")


def _place(which: str | int, names: Sequence[str] | None, count: int, what: str) -> int:
    if isinstance(which, str):
        if names is None:
            raise ClaimError(f"{what}s of this problem have no names; use an index below {count}")
        if which not in names:
            near = visible(hint(which, names[:HINTED]))
            raise ClaimError(f"no {what} is called {visible(which)!r}; {near}")
        return names.index(which)
    if isinstance(which, bool) or not hasattr(which, "__index__"):
        raise ClaimError(f"a {what} is given by its name or its index, not by {type(which).__name__}")
    place = which.__index__()
    if not -count <= place < count:
        raise ClaimError(f"there is no {what} {place}: the problem has {count}")
    return place % count
