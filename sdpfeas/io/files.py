"""Files: read within the limit, and written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from os import PathLike
from pathlib import Path

from sdpfeas.errors import FileWriteError
from sdpfeas.sizes import read_limit, require_room

__all__ = ["read_file", "read_within", "writing"]

#: Bytes asked for at a time: a stream sets memory aside for as much as it is asked for.
CHUNK = 2**24


def read_within(stream: BufferedIOBase, each: int = 1) -> bytes:
    """All that a stream holds, if that is within the reading limit.

    Parameters
    ----------
    stream : binary stream
        An open file, maybe unpacked on the way; never more than the limit is taken from it.
    each : int
        Bytes that one of its bytes counts for.

    Raises
    ------
    FileFormatError
        If it holds more.
    """
    parts, count, most = [], 0, read_limit() // each
    while part := stream.read(min(CHUNK, most + 1 - count)):
        parts.append(part)
        count += len(part)
        require_room(count, "bytes or more", each=each)
    return b"".join(parts)


def read_file(path: str | PathLike[str], each: int = 1) -> bytes:
    """The content of a file, if that is within the reading limit.

    Parameters
    ----------
    path : path
        The file.
    each : int
        Bytes that one of its bytes counts for.

    Raises
    ------
    FileFormatError
        If it holds more.
    OSError
        If it cannot be read.
    """
    with Path(path).open("rb") as file:
        require_room(os.fstat(file.fileno()).st_size, "bytes", each=each)
        return read_within(file, each)


@contextmanager
def writing(path: str | PathLike[str]) -> Iterator[None]:
    """Write a file inside; where that fails no half of it is left, and the error names it.

    Parameters
    ----------
    path : path
        The file that is written.

    Raises
    ------
    FileWriteError
        If the disk is full, the folder is missing or not ours to write to, and the like.
    """
    target = Path(path)
    before = _stamp(target)
    try:
        yield
    except FileWriteError:
        raise
    except OSError as error:
        if _stamp(target) != before and target.is_file():
            with suppress(OSError):
                target.unlink()
        raise FileWriteError(f"{target}: cannot be written: {error.strerror or error}") from error


def _stamp(path: Path) -> tuple[int, int] | None:
    """What tells whether a file was written to."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
