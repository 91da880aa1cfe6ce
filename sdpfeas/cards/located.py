"""Bad cards, all at once, each with its file and line."""

from __future__ import annotations

import re
from pathlib import Path

from sdpfeas.errors import CardError

__all__ = ["located", "raise_all"]

LINE_IN_MESSAGE = re.compile(r"\bline (\d+)\b")
ALREADY_LOCATED = re.compile(r"^\S+:\d+")
DOTTED = re.compile(r"\b(?:sweep|data|options)\.(\w+)")
QUOTED = re.compile(r"'([^']+)'")


def located(error: Exception, spec: str) -> str:
    """The message of an error with file and line in front, as far as the line can be told.

    Parameters
    ----------
    error : Exception
        What reading a card raised.
    spec : str
        The path or name that was asked for.
    """
    message = str(error)
    if ALREADY_LOCATED.match(message):
        return message
    path = _named_file(message) or Path(spec)
    if path.suffix not in (".toml", ".py") or not path.is_file():
        return message if spec in message else f"{spec}: {message}"
    message = message.removeprefix(f"{path}: ")
    return f"{path}:{_line(path, message)}: {message}"


def raise_all(errors: list[str]) -> None:
    """Raise one error for all of them, if there are any.

    Raises
    ------
    CardError
        With one line per error.
    """
    if not errors:
        return
    if len(errors) == 1:
        raise CardError(errors[0])
    raise CardError(
        f"{len(errors)} things are wrong; nothing was run\n" + "\n".join(f"  {e}" for e in errors)
    )


def _named_file(message: str) -> Path | None:
    head, colon, _ = message.partition(": ")
    return Path(head) if colon and head.endswith((".toml", ".py")) else None


def _line(path: Path, message: str) -> int:
    told = LINE_IN_MESSAGE.search(message)
    if told:
        return int(told[1])
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    names = [*DOTTED.findall(message), *QUOTED.findall(message)]
    keys = [rf"""^\s*(\[.*\b)?["']?{re.escape(name)}["']?\s*[=\].]""" for name in names]
    # As a key anywhere, before as a value anywhere.
    for pattern in (*keys, *map(re.escape, names)):
        for number, line in enumerate(lines, 1):
            if re.search(pattern, line):
                return number
    for word in re.findall(r"[a-z_]{4,}", message):
        for number, line in enumerate(lines, 1):
            if re.match(rf"\s*\[?{word}\b", line):
                return number
    return 1
