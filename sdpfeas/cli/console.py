"""What every command prints with: tables for people, JSON for programs, errors in one line."""

from __future__ import annotations

import enum
import json
import math
import sys
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from sdpfeas.cards.toml import parse_toml
from sdpfeas.errors import OptionError
from sdpfeas.escaping import escape_terminal, visible

__all__ = [
    "EXIT_CODES",
    "AsJson",
    "ExitCode",
    "OptionPairs",
    "busy",
    "err",
    "out",
    "parse_pairs",
    "print_json",
    "table",
]

#: Exit codes with ``--exit-code``, as SAT solvers have them.
EXIT_CODES = {"feasible": 10, "infeasible": 20, "undecided": 30}

STYLES = {"feasible": "green", "infeasible": "red", "undecided": "yellow"}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit with 10 if feasible, 20 if infeasible, 30 if undecided.")
]
OptionPairs = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Set an option of the backend; repeatable."),
]


class _EscapingConsole(Console):
    """A console that escapes control characters even where the caller forgot `escape_terminal`."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Render markup after escaping control characters."""
        return super().render_str(visible(text, lines=True), **how)


def out() -> Console:
    """Console for what was asked for."""
    return _EscapingConsole(highlight=False, soft_wrap=True, emoji=False)


def err() -> Console:
    """Console for everything else."""
    return _EscapingConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def busy(words: str) -> Status:
    """Say what goes on, as long as it does."""
    console = err()
    plain = not console.encoding.lower().startswith("utf")
    return console.status(escape_terminal(words), spinner="line" if plain else "dots")


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column)
    return made


def verdict_text(verdict: str) -> str:
    """A verdict in capitals and colour."""
    style = STYLES.get(verdict, "")
    return f"[{style}]{verdict.upper()}[/{style}]" if style else escape_terminal(verdict)


def print_json(value: Any) -> None:
    """Write one JSON document to standard output."""
    sys.stdout.write(json.dumps(_plain(value), indent=2) + "\n")
    sys.stdout.flush()  # where that fails, now is the time to say so


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy, which need not be there to say no
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, Path):
        return str(value)
    return repr(value)


def parse_pairs(pairs: list[str] | None) -> dict[str, Any]:
    """Turn ``NAME=VALUE`` pairs into options; values are read as TOML, else taken as text."""
    options: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"--set takes NAME=VALUE, got {pair!r}")
        try:
            options[name.strip()] = parse_toml(f"value = {value}")["value"]
        except ValueError:
            options[name.strip()] = value
    return options
