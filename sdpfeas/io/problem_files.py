"""What the readers and writers of problem files share: conic programs in two sides, gzip, rotated cones."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import FileFormatError, OptionError, ProblemError
from sdpfeas.files import read_within, require_within_limit, writing
from sdpfeas.numerics.exact_arithmetic import sum_of
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Rows, Sparse
from sdpfeas.problem.sets import BlockSet, Free

#: SDPA and SeDuMi files state a conic program and its dual: ``"primal"`` in standard form, ``"lmi"`` as LMIs.
Side = Literal["primal", "lmi"]

#: Bytes counted against the read limit per byte of a file: text is copied while it is parsed, and a byte
#: of a MATLAB file may stand for a number.
BYTES_PER_BYTE = 8

#: Memory estimates in bytes: per row, per entry, per row of a block with entries, and per block. That of a
#: block includes the time to read it, which is that of some hundred entries.
ROW_BYTES, ENTRY_BYTES, BLOCK_ROW_BYTES, BLOCK_BYTES = 256, 128, 16, 2**15


def require_side(side: str) -> None:
    """Raise an error unless a side is known."""
    if side not in get_args(Side):
        raise OptionError(f"side must be 'primal' or 'lmi', got {side!r}")


def require_equalities(problem: FeasibilityProblem, taker: str) -> None:
    """Raise an error unless all rows are equations; ``taker`` says what takes nothing else."""
    if not problem.equality.all():
        name = problem.row_name(int(np.argmin(problem.equality)))
        raise ProblemError(
            f"row {name} is an inequality; {taker} takes equality rows (sdpfeas.dropin.to_sdpa adds slack "
            "variables)"
        )


def read_decompressed(path: str | PathLike[str]) -> bytes:
    """Return the content of a file, decompressed if it is gzip; raise an error beyond the read limit."""
    with Path(path).open("rb") as file:
        packed = file.peek(2)[:2] == b"\x1f\x8b"
        try:
            with gzip.open(file) if packed else file as stream:
                return read_within(stream, BYTES_PER_BYTE)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FileFormatError(f"{path}: damaged gzip file: {error}") from None
        except FileFormatError as error:
            raise FileFormatError(f"{path}: {error}") from None


def write_compressed(path: str | PathLike[str], content: bytes) -> None:
    """Write a file, compressed if its name ends in ``.gz``."""
    if str(path).endswith(".gz"):
        # Without a time stamp, so that the same problem gives the same file.
        content = gzip.compress(content, mtime=0)
    with writing(path):
        Path(path).write_bytes(content)


def ranks(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return one number per position, for the entries of a matrix; a product of the two could overflow."""
    order = np.lexsort((column, row))
    new = (np.diff(row[order]) != 0) | (np.diff(column[order]) != 0)
    out = np.zeros(order.size, dtype=np.int64)
    out[order[1:]] = np.cumsum(new)
    return out


def unrotate(columns: Any) -> Any:
    """Map coefficients of a rotated cone to a second-order cone, one column per entry.

    ``2 u v >= ||z||²`` -> ``t >= ||(w, z)||`` with ``u = t + w`` and ``v = (t - w) / 2``. Raises
    ``FileFormatError`` for fewer than two columns, or if a number would be rounded.
    """
    if columns.shape[1] < 2:
        raise FileFormatError("a rotated cone has at least two entries")
    columns = sp.csc_array(columns)
    u, v = columns[:, [0]], columns[:, [1]]
    both = [sum_of(u, 0.5 * v), sum_of(u, -0.5 * v)]
    if any(np.any(lost.data) for _, lost in both) or np.any((v - 2.0 * (0.5 * v)).data):
        raise FileFormatError("a number on a rotated cone would be rounded")
    return sp.hstack([total for total, _ in both] + [columns[:, 2:]], format="csr")


@dataclass(frozen=True)
class ConicPair:
    """A conic program ``A x = b``, ``x`` in cones, and its dual, ``sign (c - A'y)`` in the dual cones.

    ``A`` is stored by columns, one per entry of ``x``, block by block. With ``sign`` 1 ``c'x`` is minimised
    and ``b'y`` maximised, with -1 ``c'x`` is maximised and ``b'y`` minimised.
    """

    A: Any
    b: FloatArray
    c: FloatArray
    sets: Sequence[BlockSet]
    names: Sequence[str]
    sign: int = 1
    row_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        used = np.count_nonzero(np.diff(self.A.indptr[self._ends()]))
        require_within_limit(int(used) * (self.b.size + 1), "rows times blocks", each=BLOCK_ROW_BYTES)

    def _ends(self) -> np.ndarray:
        return np.cumsum([0, *(block.entries for block in self.sets)])

    def parts(self) -> list[tuple[BlockSet, Any, FloatArray]]:
        """Return every set with its columns of ``A`` and its part of ``c``."""
        places = zip(self.sets, pairwise(self._ends().tolist()), strict=True)
        return [(s, self.A[:, a:b].tocsr(), self.c[a:b].reshape(s.shape)) for s, (a, b) in places]

    def program(self, side: Side) -> tuple[FeasibilityProblem, Objective]:
        """Return one of the two problems with its objective."""
        senses: Any = ("min", "max")[:: self.sign]
        if side == "primal":
            parts = self.parts()
            rows = [_rows(columns, block) for block, columns, _ in parts]
            problem = FeasibilityProblem(
                self.sets, rows, self.b, self.b, row_names=self.row_names, block_names=self.names
            )
            return problem, Objective(tuple(c for _, _, c in parts), senses[0])
        m = self.b.size
        if m == 0:
            raise FileFormatError("no rows, so there is no y")
        require_within_limit(self.c.size, "entries of matrices", each=ROW_BYTES)
        lmis, equations, right = list[LMI](), [sp.csr_array((0, m))], [np.zeros(0)]
        for block, columns, c in self.parts():
            if block.free:
                equations.append(columns.T)
                right.append(c)
            else:
                rows = [_rows(-self.sign * columns, block)]
                lmis.append(LMI(block, self.sign * c + 0.0, rows, f"X{len(lmis) + 1}"))
        bounds = np.concatenate(right)
        own = Sparse(sp.vstack(equations, format="csr"), m, matrix=False) if bounds.size else None
        problem = FeasibilityProblem([Free(m)], [own], bounds, bounds, block_names=["x"], lmis=lmis)
        return problem, Objective((self.b,), senses[1])


def _rows(columns: Any, block: BlockSet) -> Rows | None:
    return Sparse(columns, block.n, block.matrix) if columns.nnz else None
