"""Read files within a memory limit, and write files without leaving partial ones.

A small file can expand to a huge problem: compressed zeros, or a header that announces a matrix of order 10⁹.
So readers estimate the memory of a file's content and refuse estimates above the *read limit* before
allocating. The limit is 1 GiB unless the environment variable ``SDPFEAS_READ_LIMIT`` sets another, such as
``8G``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from os import PathLike
from pathlib import Path

from sdpfeas.errors import FileFormatError, FileWriteError, OptionError

__all__ = [
    "LIMIT_VARIABLE",
    "format_size",
    "parse_size",
    "read_file",
    "read_limit",
    "read_within",
    "require_within_limit",
    "require_writable",
    "writing",
]

#: The environment variable that sets the read limit.
LIMIT_VARIABLE = "SDPFEAS_READ_LIMIT"

#: The default read limit in bytes.
READ_LIMIT = 2**30

#: Bytes per read: a stream allocates as much as is requested.
CHUNK_BYTES = 2**24

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text: str, what: str) -> int:
    """Parse a size in bytes such as ``"4G"``, ``"512M"`` or ``"1000"``; ``what`` names it in the error."""
    match = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise OptionError(f"{what} must be a size such as 4G or 512M, got {text!r}")
    return int(float(match[1]) * UNITS[match[2].upper()])


def format_size(count: int) -> str:
    """Format a number of bytes with a unit."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            # Integer arithmetic: the count may exceed the range of floats.
            whole, rest = divmod(10 * count // unit, 10)
            return f"{whole:,}{f'.{rest}' if rest and whole < 100 else ''} {name}"
    return f"{count} bytes"


def read_limit() -> int:
    """The read limit in bytes. Raises OptionError if the environment variable is not a size."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    return parse_size(text, LIMIT_VARIABLE) if text.strip() else READ_LIMIT


def require_within_limit(count: int, what: str, *, each: int = 1) -> None:
    """Raise FileFormatError if ``count`` items of ``each`` bytes exceed the read limit.

    ``what`` names the items in the plural. ``each`` is the memory of an item, or the bytes that take equally
    long to process.
    """
    limit = read_limit()
    if count * each > limit:
        unit = next((u for u in "MGT" if count * each < 1024 * UNITS[u]), "T")
        enough = f"{-(-count * each // UNITS[unit])}{unit}"
        raise FileFormatError(
            f"too large: {count:,} {what}, which counts as {format_size(count * each)}; the limit is "
            f"{format_size(limit)}, and {LIMIT_VARIABLE}={enough} in the environment raises it"
        )


def read_within(stream: BufferedIOBase, each: int = 1) -> bytes:
    """Read a stream to its end, or raise FileFormatError above the read limit.

    The stream may decompress. ``each`` is the weight of one byte.
    """
    parts, count, most = [], 0, read_limit() // each
    while part := stream.read(min(CHUNK_BYTES, most + 1 - count)):
        parts.append(part)
        count += len(part)
        require_within_limit(count, "bytes or more", each=each)
    return b"".join(parts)


def read_file(path: str | PathLike[str], each: int = 1) -> bytes:
    """Read a file, or raise FileFormatError above the read limit; ``each`` is the weight of one byte."""
    with Path(path).open("rb") as file:
        require_within_limit(os.fstat(file.fileno()).st_size, "bytes", each=each)
        return read_within(file, each)


def require_writable(path: Path) -> None:
    """Raise FileWriteError if a file cannot be written to this path."""
    if path.is_dir():
        raise FileWriteError(f"{path}: cannot be written: it is a folder")
    folder = path.parent
    if not folder.is_dir():
        raise FileWriteError(f"{path}: cannot be written: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise FileWriteError(f"{path}: cannot be written: permission denied")


@contextmanager
def writing(path: str | PathLike[str]) -> Iterator[None]:
    """Turn an OSError of the block that writes this file into FileWriteError; remove a partial file."""
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
    """Modification time and size of a file, which change when it is written; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
