"""Read solutions of other programs as claims: CSDP and SDPA (text), SeDuMi (``x`` and ``y`` in a MAT-file).

A solution holds ``X``, one matrix per block, and ``y``. On the primal side ``X`` is a point and ``y`` may be
a certificate of infeasibility; on the LMI side ``y`` is a point and ``X`` may be a certificate, up to sign.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

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


class SdpaSolution(NamedTuple):
    """A solver's answer to both programs of an SDPA pair.

    Attributes
    ----------
    y : ndarray
        One number per matrix ``F_1, ..., F_m``.
    X : sequence of ndarray
        One matrix, or one vector for a diagonal block, per block.

    Examples
    --------
    >>> import numpy as np
    >>> solution = SdpaSolution(y=np.zeros(1), X=[np.eye(2) / 2])
    >>> solution.y.size, len(solution.X)
    (1, 1)
    """

    y: FloatArray
    X: Sequence[FloatArray]


def read_csdp_solution(path: str | PathLike[str], sets: Sequence[BlockSet]) -> SdpaSolution:
    """Read the solution file of CSDP, or of a program that writes the same format.

    The first line holds ``y``; every other line an entry ``matrix block i j value`` of Z (1) or X (2).

    Parameters
    ----------
    path : str or PathLike
        The file; it may be compressed.
    sets : sequence of BlockSet
        The blocks of ``X``, as in :attr:`SdpaPair.sets`.

    Raises
    ------
    sdpfeas.FileFormatError
        If it cannot be read, or does not fit the blocks.

    Examples
    --------
    >>> import tempfile
    >>> import sdpfeas as sf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "solution"
    ...     _ = file.write_text("0.5\\n1 1 1 1 0.1\\n2 1 1 1 1.0\\n2 1 1 2 0.5\\n")
    ...     solution = read_csdp_solution(file, [sf.PSD(2)])
    >>> solution.y, solution.X
    (array([0.5]), [array([[1. , 0.5],
           [0.5, 0. ]])])
    """
    try:
        return _csdp(_text(path), sets)
    except (ValueError, IndexError) as error:
        raise FileFormatError(f"{Path(path).name}: not a solution of CSDP: {error}") from None


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
            text = _text(path)
            y, x = _sdpa(text, sets) if "xVec" in text else _csdp(text, sets)
        if y.shape != (m,):
            raise ValueError(f"{y.size} numbers in y instead of {m}")
    except (ValueError, KeyError, IndexError) as error:
        raise FileFormatError(f"{Path(path).name}: not a solution of this problem: {error}") from None
    flat = np.concatenate([part.reshape(-1) for part in x])
    if side == "primal":
        return [Claim(point=tuple(x)), Claim(certificate=y), Claim(certificate=-y)]
    return [Claim(point=(y,)), Claim(point=(-y,)), Claim(certificate=flat)]


def _text(path: str | PathLike[str]) -> str:
    return read_decompressed(path).decode("utf-8", "replace")


def _csdp(text: str, sets: Sequence[BlockSet]) -> SdpaSolution:
    head, _, body = text.partition("\n")
    table = np.array(body.split(), dtype=np.float64).reshape(-1, 5)
    if np.any((table[:, 1] < 1) | (table[:, 1] > len(sets))):
        raise ValueError(f"an entry of a block other than 1 to {len(sets)}")
    parts = [table[(table[:, 0] == 2) & (table[:, 1] == b)] for b in range(1, len(sets) + 1)]
    X = [_matrix(part, block) for part, block in zip(parts, sets, strict=True)]
    return SdpaSolution(np.array(head.split(), dtype=np.float64), X)


def _matrix(entries: FloatArray, block: BlockSet) -> FloatArray:
    """Fill a block with entries ``. . i j value``, counted from 1."""
    i, j = entries[:, 2].astype(int) - 1, entries[:, 3].astype(int) - 1
    if np.min(i, initial=0) < 0 or np.min(j, initial=0) < 0:
        raise ValueError("an entry has an index below 1")
    x = np.zeros(block.shape)
    if block.matrix:
        x[i, j] = x[j, i] = entries[:, 4]
    else:
        x[i] = entries[:, 4]
    return x


def _sdpa(text: str, sets: Sequence[BlockSet]) -> SdpaSolution:
    """Parse ``xVec = {...}`` and ``yMat = {...}``, which SDPA calls our ``y`` and ``X``."""

    def after(name: str, end: str) -> FloatArray:
        part = text[text.index(name) + len(name) :]
        stop = part.find(end)
        return np.array(NUMBER.findall(part if stop < 0 else part[:stop]), dtype=np.float64)

    return SdpaSolution(after("xVec", "xMat"), _blocks(after("yMat", "main loop time"), sets))


def _sedumi(path: str | PathLike[str], sets: Sequence[BlockSet]) -> SdpaSolution:
    """Read ``x``, stacked by cones, and ``y``."""
    held = read_matlab(path, ("x", "y"))
    x, y = (dense_array(held[name]).astype(np.float64).reshape(-1) for name in "xy")
    return SdpaSolution(y, [b.symmetrize(part) for b, part in zip(sets, _blocks(x, sets), strict=True)])


def _blocks(flat: FloatArray, sets: Sequence[BlockSet]) -> list[FloatArray]:
    """Cut numbers into blocks."""
    ends = np.cumsum([0, *(block.entries for block in sets)])
    return [flat[a:b].reshape(block.shape) for block, a, b in zip(sets, ends, ends[1:], strict=False)]
