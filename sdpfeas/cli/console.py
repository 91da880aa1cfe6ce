"""Shared parts of the commands: consoles that escape control characters, tables, JSON and completion."""

from __future__ import annotations

import enum
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text
from typer import Option

from sdpfeas.cards.finder import PROBLEMS, SOLVERS
from sdpfeas.cards.toml import parse_toml
from sdpfeas.errors import OptionError
from sdpfeas.escaping import escape_terminal, visible

#: Exit codes with ``--exit-code``, as in the SAT competition.
EXIT_CODES = {"feasible": 10, "infeasible": 20, "undecided": 30}

STYLES = {"feasible": "green", "infeasible": "red", "undecided": "yellow"}

AsJson = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
ExitCode = Annotated[
    bool, Option("--exit-code", help="Exit with 10 if feasible, 20 if infeasible, 30 if undecided.")
]
OptionPairs = Annotated[
    list[str] | None,
    Option("--set", "-s", metavar="NAME=VALUE", help="Set an option of the backend; repeatable."),
]
TimeLimit = Annotated[float | None, Option("--time-limit", "-t", help="Seconds.")]
Rigorous = Annotated[bool, Option("--rigorous", help="Reject numeric verdicts: proofs only.")]


class _EscapingConsole(Console):
    """A console that escapes control characters even where the caller forgot `escape_terminal`."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Render markup after escaping control characters."""
        return super().render_str(visible(text, lines=True), **how)


def out() -> Console:
    """The console for results: standard output."""
    return _EscapingConsole(highlight=False, soft_wrap=True, emoji=False)


def err() -> Console:
    """The console for progress, warnings and errors: standard error."""
    return _EscapingConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def spinner(text: str) -> Status:
    """Show a text with a spinner on a terminal while the block runs."""
    console = err()
    plain = not console.encoding.lower().startswith("utf")
    return console.status(escape_terminal(text), spinner="line" if plain else "dots")


def say(text: str, *values: object) -> None:
    """Print a line of Rich markup to standard output, with escaped values in the places of its braces."""
    out().print(text.format(*map(escape_terminal, values)))


def table(*columns: str) -> Table:
    """A table without borders."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column)
    return made


def print_table(columns: Iterable[str], rows: Iterable[Iterable[object]], *, numbers: bool = False) -> None:
    """Print a table; values are shown as text, and only :class:`Text` may have styles.

    With ``numbers``, all columns but the first are aligned to the right.
    """
    shown = table(*columns)
    for column in shown.columns[1:] if numbers else ():
        column.justify = "right"
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, Text) else Text(visible(str(cell))) for cell in row))
    out().print(shown)


def marked(markup: str, *values: object) -> Text:
    """A cell of a table with Rich markup, and escaped values in the places of its braces."""
    return Text.from_markup(markup.format(*map(escape_terminal, values)))


def verdict_text(verdict: str) -> str:
    """Format a verdict in capitals and colour."""
    style = STYLES.get(verdict, "")
    return f"[{style}]{verdict.upper()}[/{style}]" if style else escape_terminal(verdict)


def print_json(value: Any) -> None:
    """Write one JSON document to standard output."""
    sys.stdout.write(json.dumps(_plain(value), indent=2) + "\n")
    sys.stdout.flush()  # raise a write error here, where it is reported


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy arrays and scalars, without importing NumPy
        return _plain(value.tolist())
    if isinstance(value, (int, str)) or value is None or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)  # also infinity, which JSON does not have


def parse_pairs(pairs: list[str] | None) -> dict[str, Any]:
    """Parse ``NAME=VALUE`` pairs; a value that is not TOML is taken as a string."""
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


# --- shell completion


def _begun(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _last(incomplete: str, names: Iterable[str]) -> list[str]:
    """Complete the last name of a comma-separated list."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _begun(last, names)]


def complete_solvers(incomplete: str) -> list[str]:
    """Complete a backend or a solver card."""
    return _begun(incomplete, SOLVERS.names())


def complete_problems(incomplete: str) -> list[str]:
    """Complete a problem card or a family."""
    return _begun(incomplete, PROBLEMS.names())


def complete_names(incomplete: str) -> list[str]:
    """Complete a solver or a problem."""
    return _begun(incomplete, sorted({*SOLVERS.names(), *PROBLEMS.names()}))


def complete_listed_solvers(incomplete: str) -> list[str]:
    """Complete a list of solvers."""
    return _last(incomplete, ["all", *SOLVERS.names()])


def complete_listed_problems(incomplete: str) -> list[str]:
    """Complete a list of problems."""
    return _last(incomplete, PROBLEMS.names())


Solver = Annotated[
    str,
    Option("--solver", "-b", help="A backend, a card or a drop-in file.", autocompletion=complete_solvers),
]
