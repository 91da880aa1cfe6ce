"""What the readers and writers of problem files share: the two sides of a file, gzip, rotated cones."""

from __future__ import annotations

import gzip
import zlib
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import FileFormatError, OptionError
from sdpfeas.files import read_within, writing
from sdpfeas.numerics.exact_arithmetic import sum_of

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
