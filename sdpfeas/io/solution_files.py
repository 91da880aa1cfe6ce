"""Read solutions of other programs as claims: CSDP and SDPA (text), SeDuMi (``x`` and ``y`` in a MAT-file).

A solution holds ``X``, one matrix per block, and ``y``. On the primal side ``X`` is a point and ``y`` may be
a certificate of infeasibility; on the LMI side ``y`` is a point and ``X`` may be a certificate, up to sign.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from sdpfeas.claims import Claim
from sdpfeas.errors import FileFormatError
from sdpfeas.io.matlab import read_matlab
from sdpfeas.io.problem_files import Side, read_decompressed
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows.base import dense_array
from sdpfeas.problem.sets import BlockSet

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def read_solution(
    path: str | PathLike[str], problem: FeasibilityProblem, side: Side = "primal"
) -> list[Claim]:
    """Return what a solution may prove about a problem that was read from an SDPA or SeDuMi file."""
    sets = list(problem.sets) if side == "primal" else [lmi.set for lmi in problem.lmis]
    m = problem.m if side == "primal" else problem.sets[0].n
    try:
        if str(path).endswith(".mat"):
            y, x = _sedumi(path, sets)
        else:
            text = read_decompressed(path).decode("utf-8", "replace")
            y, x = _sdpa(text, sets) if "xVec" in text else _csdp(text, sets)
        if y.shape != (m,):
            raise ValueError(f"{y.size} numbers in y instead of {m}")
    except (ValueError, KeyError, IndexError) as error:
        raise FileFormatError(f"{Path(path).name}: not a solution of this problem: {error}") from None
    flat = np.concatenate([part.reshape(-1) for part in x])
    if side == "primal":
        return [Claim(point=tuple(x)), Claim(certificate=y), Claim(certificate=-y)]
    return [Claim(point=(y,)), Claim(point=(-y,)), Claim(certificate=flat)]


def _csdp(text: str, sets: Sequence[BlockSet]) -> tuple[FloatArray, list[FloatArray]]:
    """Parse ``y`` on one line, then entries ``matrix block i j value`` of Z (1) and X (2)."""
    head, _, body = text.partition("\n")
    table = np.array(body.split(), dtype=np.float64).reshape(-1, 5)
    out = []
    for b, block in enumerate(sets, 1):
        part = table[(table[:, 0] == 2) & (table[:, 1] == b)]
        i, j = part[:, 2].astype(int) - 1, part[:, 3].astype(int) - 1
        x = np.zeros(block.shape)
        if block.matrix:
            x[i, j] = x[j, i] = part[:, 4]
        else:
            x[i] = part[:, 4]
        out.append(x)
    return np.array(head.split(), dtype=np.float64), out


def _sdpa(text: str, sets: Sequence[BlockSet]) -> tuple[FloatArray, list[FloatArray]]:
    """Parse ``xVec = {...}`` and ``yMat = {...}``, which SDPA calls our ``y`` and ``X``."""

    def after(name: str, end: str) -> FloatArray:
        part = text[text.index(name) + len(name) :]
        stop = part.find(end)
        return np.array(NUMBER.findall(part if stop < 0 else part[:stop]), dtype=np.float64)

    y, flat = after("xVec", "xMat"), after("yMat", "main loop time")
    total, out = 0, []
    for block in sets:
        out.append(flat[total : total + block.entries].reshape(block.shape))
        total += block.entries
    return y, out


def _sedumi(path: str | PathLike[str], sets: Sequence[BlockSet]) -> tuple[FloatArray, list[FloatArray]]:
    """Read ``x``, stacked by cones, and ``y``."""
    held = read_matlab(path, ("x", "y"))
    x, y = (dense_array(held[name]).astype(np.float64).reshape(-1) for name in "xy")
    total, out = 0, []
    for block in sets:
        out.append(block.symmetrize(x[total : total + block.entries].reshape(block.shape)))
        total += block.entries
    return y, out
