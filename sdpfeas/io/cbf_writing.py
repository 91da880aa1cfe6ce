"""Problems written to the Conic Benchmark Format; :mod:`sdpfeas.io.cbf` reads it."""

from __future__ import annotations

import gzip
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.files import writing
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import as_sparse
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SecondOrder

__all__ = ["write_cbf"]


def write_cbf(
    problem: FeasibilityProblem, path: str | PathLike[str], objective: Objective | None = None
) -> None:
    """Write a problem as a CBF file.

    Parameters
    ----------
    problem : FeasibilityProblem
        Free, Nonneg, SecondOrder and PSD blocks, and no LMIs (``problem.slack_form`` takes them out). Vector
        blocks come first; a row with two bounds that differ becomes two, one after the other. Names are not
        kept. Rows stored as products are multiplied out, in floating point.
    path : path
        Compressed by gzip if it ends in ``.gz``.
    objective : Objective, optional
        What is maximised or minimised.

    Raises
    ------
    ProblemError
        If the problem does not have that form; the message says where.
    """
    if problem.lmis:
        raise ProblemError("LMIs are not written to CBF files; problem.slack_form takes them out")
    cones: dict[type[BlockSet], str] = {Free: "F", Nonneg: "L+", SecondOrder: "Q"}
    for b, block in enumerate(problem.sets):
        if type(block) not in (*cones, PSD):
            raise ProblemError(f"block {problem.block_name(b)} is a {block.kind}, which no CBF file holds")
    vectors = [b for b, block in enumerate(problem.sets) if not block.matrix]
    matrices = [b for b, block in enumerate(problem.sets) if block.matrix]
    sides = [problem.sets[b].n for b in matrices]
    source, kinds, bounds = _lines(problem)
    goal = objective or Objective(tuple(np.zeros(block.shape) for block in problem.sets), "min")
    terms = problem.point(goal.terms)
    out = ["# written by sdpfeas", "", "VER", "1", "", "OBJSENSE", goal.sense.upper(), ""]
    if sides:
        out += ["PSDVAR", str(len(sides)), *map(str, sides), ""]
    chunks = [f"{cones[type(problem.sets[b])]} {problem.sets[b].n}" for b in vectors]
    if chunks:
        out += ["VAR", f"{sum(problem.sets[b].n for b in vectors)} {len(chunks)}", *chunks, ""]
    if source.size:
        starts = np.flatnonzero(np.append(True, kinds[1:] != kinds[:-1]))
        lengths = np.diff(np.append(starts, kinds.size))
        runs = [f"{kinds[s]} {n}" for s, n in zip(starts, lengths, strict=True)]
        out += ["CON", f"{source.size} {len(runs)}", *runs, ""]
    out += _section(
        "OBJFCOORD", [_lower(terms[b].reshape(1, -1), j, sides[j])[:, 1:] for j, b in enumerate(matrices)]
    )
    flat = np.concatenate([np.zeros(0), *(terms[b] for b in vectors)])
    out += _section("OBJACOORD", [np.column_stack([np.flatnonzero(flat), flat[flat != 0.0]])])
    if goal.offset:
        out += ["OBJBCOORD", repr(float(goal.offset)), ""]
    parts = {b: as_sparse(problem.rows[b], problem.sets[b], problem.m)[source] for b in (*vectors, *matrices)}
    out += _section("FCOORD", [_lower(parts[b], j, sides[j]) for j, b in enumerate(matrices)])
    if vectors:
        whole = sp.coo_array(sp.hstack([parts[b] for b in vectors]))
        order = np.lexsort(whole.coords[::-1])
        out += _section("ACOORD", [np.column_stack([*whole.coords, whole.data])[order]])
    out += _section("BCOORD", [np.column_stack([np.flatnonzero(bounds), -bounds[bounds != 0.0]])])
    text = "\n".join(out).encode()
    with writing(path):
        # No time stamp: the same problem gives the same file.
        Path(path).write_bytes(gzip.compress(text, mtime=0) if str(path).endswith(".gz") else text)


def _lines(problem: FeasibilityProblem) -> tuple[np.ndarray, np.ndarray, FloatArray]:
    """The constraints of the file: which row each comes from, its cone, and its bound."""
    source, kinds, bounds = [], [], []
    for i, (low, high) in enumerate(zip(problem.lower.tolist(), problem.upper.tolist(), strict=True)):
        sides = [("L=", low)] if low == high else [("L+", low), ("L-", high)]
        finite = [(kind, bound) for kind, bound in sides if np.isfinite(bound)] or [("F", 0.0)]
        for kind, bound in finite:
            source.append(i)
            kinds.append(kind)
            bounds.append(bound)
    return np.array(source, dtype=np.int64), np.array(kinds, dtype="<U2"), np.array(bounds)


def _lower(rows: Any, j: int, n: int) -> np.ndarray:
    """Entries on and below the diagonal: row, matrix, their place, their value."""
    coo = sp.coo_array(rows)
    which, place = coo.coords
    i, k = np.divmod(place, n)
    keep = i >= k
    table = np.column_stack([which, np.full(which.size, j), i, k, coo.data])[keep]
    return table[np.lexsort(table.T[[3, 2, 0]])]


def _section(name: str, tables: list[np.ndarray]) -> list[str]:
    """The lines of a list of coordinates; none where it is empty."""
    lines = [
        " ".join([*(str(int(v)) for v in row[:-1]), repr(row[-1])])
        for table in tables
        for row in table.tolist()
    ]
    return [name, str(len(lines)), *lines, ""] if lines else []
