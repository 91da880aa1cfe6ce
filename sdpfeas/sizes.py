"""Sizes: how they are written, and how much a file may ask for.

A small file can stand for something huge: compressed zeros, a header that promises a matrix of side 10⁹. So
whatever reads a file first adds up what its content will take, and refuses what counts for more than the
*reading limit* before any memory is taken. The limit is 1 GiB; the environment variable
``SDPFEAS_READ_LIMIT`` sets another, such as ``8G``.
"""

from __future__ import annotations

import os
import re

from sdpfeas.errors import FileFormatError, OptionError

__all__ = ["LIMIT_VARIABLE", "parse_size", "read_limit", "require_room", "show_size"]

#: The environment variable that sets the reading limit.
LIMIT_VARIABLE = "SDPFEAS_READ_LIMIT"

#: The reading limit without it, in bytes.
READ_LIMIT = 2**30

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text: str, what: str) -> int:
    """Bytes from ``"4G"``, ``"512M"`` or a plain number.

    Parameters
    ----------
    text : str
        The size.
    what : str
        What it is the size of, for the message.

    Raises
    ------
    OptionError
        If it is not such a size.
    """
    match = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise OptionError(f"{what} is a size such as 4G or 512M, got {text!r}")
    return int(float(match[1]) * UNITS[match[2].upper()])


def show_size(count: int) -> str:
    """Bytes for people.

    Parameters
    ----------
    count : int
        How many.
    """
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            # In whole numbers: the count may be beyond any float.
            whole, rest = divmod(10 * count // unit, 10)
            return f"{whole:,}{f'.{rest}' if rest and whole < 100 else ''} {name}"
    return f"{count} bytes"


def read_limit() -> int:
    """The reading limit in bytes, as the environment has it now.

    Raises
    ------
    OptionError
        If the environment names something that is no size.
    """
    text = os.environ.get(LIMIT_VARIABLE, "")
    return parse_size(text, LIMIT_VARIABLE) if text.strip() else READ_LIMIT


def require_room(count: int, what: str, *, each: int = 1) -> None:
    """Refuse what counts for more than the reading limit.

    Parameters
    ----------
    count : int
        How many things there are.
    what : str
        What they are, in the plural.
    each : int
        Bytes that one of them counts for: what it will take in memory, or what takes as long to handle.

    Raises
    ------
    FileFormatError
        If that is too much.
    """
    limit = read_limit()
    if count * each > limit:
        unit = next((u for u in "MGT" if count * each < 1024 * UNITS[u]), "T")
        enough = f"{-(-count * each // UNITS[unit])}{unit}"
        raise FileFormatError(
            f"too large: {count:,} {what}, which counts as {show_size(count * each)}; the limit is "
            f"{show_size(limit)}, and {LIMIT_VARIABLE}={enough} in the environment raises it"
        )
