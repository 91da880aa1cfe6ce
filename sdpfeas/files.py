"""Files: how much one may ask for, reading within that limit, and writing whole files or none.

A small file can stand for something huge: compressed zeros, a header that promises a matrix of side 10⁹. So
whatever reads a file first adds up what its content will take, and refuses what counts for more than the
*reading limit* before any memory is taken. The limit is 1 GiB; the environment variable
``SDPFEAS_READ_LIMIT`` sets another, such as ``8G``.
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

#: The environment variable that sets the reading limit.
LIMIT_VARIABLE = "SDPFEAS_READ_LIMIT"

#: The reading limit without it, in bytes.
READ_LIMIT = 2**30

#: Bytes asked for at a time: a stream sets memory aside for as much as it is asked for.
CHUNK = 2**24

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text: str, what: str) -> int:
    """Bytes from ``"4G"``, ``"512M"`` or a plain number.

    ``what``: what it is the size of, for the message.

    Raises ``OptionError``: if it is not such a size.
    """
    match = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise OptionError(f"{what} is a size such as 4G or 512M, got {text!r}")
    return int(float(match[1]) * UNITS[match[2].upper()])


def format_size(count: int) -> str:
    """Bytes for people."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            # In whole numbers: the count may be beyond any float.
            whole, rest = divmod(10 * count // unit, 10)
            return f"{whole:,}{f'.{rest}' if rest and whole < 100 else ''} {name}"
    return f"{count} bytes"


def read_limit() -> int:
    """The reading limit in bytes, as the environment has it now.

    Raises ``OptionError``: if the environment names something that is no size.
    """
    text = os.environ.get(LIMIT_VARIABLE, "")
    return parse_size(text, LIMIT_VARIABLE) if text.strip() else READ_LIMIT


def require_within_limit(count: int, what: str, *, each: int = 1) -> None:
    """Refuse what counts for more than the reading limit.

    ``what``: what they are, in the plural. ``each``: bytes that one of them counts for: what it will take
    in memory, or what takes as long to handle.

    Raises ``FileFormatError``: if that is too much.
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
    """All that a stream holds, if that is within the reading limit.

    ``stream``: an open file, maybe unpacked on the way; never more than the limit is taken from it.
    ``each``: bytes that one of its bytes counts for.

    Raises ``FileFormatError``: if it holds more.
    """
    parts, count, most = [], 0, read_limit() // each
    while part := stream.read(min(CHUNK, most + 1 - count)):
        parts.append(part)
        count += len(part)
        require_within_limit(count, "bytes or more", each=each)
    return b"".join(parts)


def read_file(path: str | PathLike[str], each: int = 1) -> bytes:
    """The content of a file, if that is within the reading limit.

    ``each``: bytes that one of its bytes counts for.

    Raises ``FileFormatError``: if it holds more. Raises ``OSError``: if it cannot be read.
    """
    with Path(path).open("rb") as file:
        require_within_limit(os.fstat(file.fileno()).st_size, "bytes", each=each)
        return read_within(file, each)


def require_writable(path: Path) -> None:
    """Refuse a place where no file can be written.

    ``path``: the file that will be written.
    """
    if path.is_dir():
        raise FileWriteError(f"{path}: cannot be written: it is a folder; name a file in it")
    folder = path.parent
    if not folder.is_dir():
        raise FileWriteError(f"{path}: cannot be written: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise FileWriteError(f"{path}: cannot be written: permission denied")


@contextmanager
def writing(path: str | PathLike[str]) -> Iterator[None]:
    """Write a file inside; where that fails no half of it is left, and the error names it.

    Raises ``FileWriteError``: if the disk is full, the folder is missing or not ours to write to, and the
    like.
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
