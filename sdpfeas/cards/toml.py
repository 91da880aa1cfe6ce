"""Read cards, which are small TOML files, and locate errors in them by file and line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdpfeas.errors import CardError
from sdpfeas.files import read_file

#: Weight of one byte of a card against the read limit: parsing it takes as long as reading so many bytes.
CARD_COST_FACTOR = 2**15

#: Maximum nesting depth of tables and lists.
MAX_DEPTH = 32

__all__ = ["InlineCard", "locate_error", "parse_toml", "raise_all", "read_card"]


@dataclass(frozen=True)
class InlineCard:
    """A card inside another file: a table ``[[solver]]`` or ``[[problem]]`` of a study file.

    Paths in it are relative to the folder of ``path``, the study file. ``line`` is the line of its header,
    ``text`` the part of the file that it was read from.
    """

    path: Path
    table: Mapping[str, Any]
    text: str
    line: int = 1

    def __str__(self) -> str:
        """Show file and line, as error messages do."""
        return f"{self.path}:{self.line}"


def read_card(path: Path) -> tuple[dict[str, Any], str]:
    """Read a card; return its content and its text. Raises CardError if it is unreadable or not TOML."""
    try:
        text = read_file(path, CARD_COST_FACTOR).decode()
        return parse_toml(text), text
    except OSError as error:
        raise CardError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise CardError(f"{path}: not UTF-8 text, from byte {error.start + 1} on") from None
    except ValueError as error:
        raise CardError(f"{path}: {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError for malformed text, deep nesting and integers beyond int64."""
    too_deep = f"nested more than {MAX_DEPTH} deep"
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    level: list[Any] = [found]
    for _ in range(MAX_DEPTH):
        inner = [part for part in level if isinstance(part, (dict, list))]
        level = [item for part in inner for item in (part.values() if isinstance(part, dict) else part)]
        if any(isinstance(item, int) and abs(item) >= 2**63 for item in level):
            raise ValueError("an integer has more than 64 bits")
    if any(isinstance(part, (dict, list)) for part in level):
        raise ValueError(too_deep)
    return found


# --- errors with file and line

LINE_IN_MESSAGE = re.compile(r"\bline (\d+)\b")
ALREADY_LOCATED = re.compile(r"^\S+:\d+")
DOTTED = re.compile(r"\b(?:sweep|data|options)\.(\w+)")
QUOTED = re.compile(r"'([^']+)'")


def locate_error(error: Exception, spec: str | InlineCard) -> str:
    """Put file and line in front of an error message, if ``spec`` is a card or the path of one.

    The line is guessed from the names in the message.
    """
    message = str(error)
    if ALREADY_LOCATED.match(message):
        return message
    own = spec.path if isinstance(spec, InlineCard) else Path(spec)
    path = _named_file(message) or own
    if path.suffix not in (".toml", ".py") or not path.is_file():
        return message if str(spec) in message else f"{spec}: {message}"
    message = message.removeprefix(f"{path}: ")
    first = spec.line if isinstance(spec, InlineCard) and path == own else 1
    return f"{path}:{_line(path, message, first)}: {message}"


def raise_all(errors: list[str]) -> None:
    """Raise a CardError with one line per error, if there are any."""
    if not errors:
        return
    if len(errors) == 1:
        raise CardError(errors[0])
    raise CardError(f"{len(errors)} errors; nothing was run\n" + "\n".join(f"  {e}" for e in errors))


def _named_file(message: str) -> Path | None:
    head, colon, _ = message.partition(": ")
    return Path(head) if colon and head.endswith((".toml", ".py")) else None


def _line(path: Path, message: str, first: int = 1) -> int:
    """Guess the line that a message is about, from the line ``first`` on."""
    told = LINE_IN_MESSAGE.search(message)
    if told:
        return int(told[1])
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[first - 1 :]
    names = [*DOTTED.findall(message), *QUOTED.findall(message)]
    keys = [rf"""(^\s*(\[.*\b)?|[{{,]\s*)["']?{re.escape(name)}["']?\s*[=\].]""" for name in names]
    # Prefer a line with the name as a key to one with the name as a value.
    for pattern in (*keys, *map(re.escape, names)):
        for number, line in enumerate(lines, first):
            if re.search(pattern, line):
                return number
    for word in re.findall(r"[a-z_]{4,}", message):
        for number, line in enumerate(lines, first):
            if re.match(rf"\s*\[?{word}\b", line):
                return number
    return first
