"""Read cards, which are small TOML files, and locate errors in them by file and line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdpfeas.errors import CardError, SdpfeasError
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

#: The line in the message of a syntax error.
SYNTAX_ERROR_LINE = re.compile(r"\(at line (\d+), column \d+\)$")

#: A message that begins with a file and a line.
LOCATED = re.compile(r"^\S+:\d+")


def locate_error(error: SdpfeasError, spec: str | InlineCard) -> str:
    """Put file and line in front of an error message, if ``spec`` is a card or the path of one."""
    message = str(error)
    if LOCATED.match(message):
        return message
    own = spec.path if isinstance(spec, InlineCard) else Path(spec)
    path = _named_file(message) or own
    if path.suffix not in (".toml", ".py") or not path.is_file():
        return message if str(spec) in message else f"{spec}: {message}"
    message = message.removeprefix(f"{path}: ")
    first = spec.line if isinstance(spec, InlineCard) and path == own else 1
    told = SYNTAX_ERROR_LINE.search(message)
    line = int(told[1]) if told else _line_of(path, error.key, first)
    return f"{path}:{line}: {message}"


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


def _line_of(path: Path, key: str, first: int = 1) -> int:
    """The line of a card that gives a key a value or begins its table, from ``first`` on; else ``first``."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[first - 1 :]
    given = re.compile(rf"""(^\s*(\[.*\b)?|[{{,]\s*)["']?{re.escape(key)}["']?\s*[=\].]""")
    return next((k for k, line in enumerate(lines, first) if key and given.search(line)), first)
