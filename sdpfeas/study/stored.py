"""What the rows of a study database must hold: a damaged file must not pass for a study."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from typing import Any

from sdpfeas.errors import FileFormatError

__all__ = ["DAMAGED", "checked"]

#: What a database that is not whole may raise; its words may be no text either.
DAMAGED = (sqlite3.Error, UnicodeDecodeError)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not math.isnan(value)


def _is_span(value: Any) -> bool:
    return _is_number(value) and 0.0 <= value < math.inf


def _is_table(value: Any) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except (ValueError, TypeError, RecursionError):
        return False


def _is_settings(value: Any) -> bool:
    if not _is_table(value):
        return False
    settings = json.loads(value)
    return all(_is_span(settings.get(name)) for name in ("time_limit", "memory_limit"))


#: What each column holds; those that are always filled, and those that may be empty.
FILLED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("solver", "problem", "card", "kind", "summary", "state"), _is_text),
    **dict.fromkeys(("key", "name", "label", "backend", "version", "source", "command", "host"), _is_text),
    **dict.fromkeys(("rows", "size", "attempts", "id"), _is_count),
    **dict.fromkeys(("parameters", "options", "environment"), _is_table),
    "settings": _is_settings,
    "seed": lambda value: isinstance(value, int),
    "started": _is_span,
}
OPTIONAL: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("outcome", "verdict", "proof", "claimed", "reason", "explanation"), _is_text),
    **dict.fromkeys(("raw_status", "stop", "log"), _is_text),
    **dict.fromkeys(("run", "peak_memory"), _is_count),
    **dict.fromkeys(("solve_time", "cpu_time", "verify_time"), _is_span),
    **dict.fromkeys(("margin", "lower", "upper", "error"), _is_number),
    "iterations": lambda value: isinstance(value, int),
    "info": _is_table,
    "data": lambda value: isinstance(value, bytes),
}

#: What a finished cell has in any case.
FINISHED = ("outcome", "verdict", "solve_time", "verify_time")


def checked(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is.

    Parameters
    ----------
    row : dict
        Values by column.

    Raises
    ------
    FileFormatError
        If a value cannot be one of its column.
    """
    needed = FINISHED if row.get("state") == "done" else ()
    for name, value in row.items():
        if value is None and name in OPTIONAL and name not in needed:
            continue
        fits = FILLED.get(name) or OPTIONAL.get(name)
        if fits is not None and not fits(value):
            raise FileFormatError(f"damaged: {name} is {value!r:.60}")
    return row
