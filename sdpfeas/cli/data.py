"""``data``: the public sets that are known, and which of their files are here."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sdpfeas.cli.console import AsJson, out, print_json, table
from sdpfeas.escaping import escape_terminal
from sdpfeas.study.board.data_sets import FOLDER, Held, State, data_folder, known_sets, look

__all__ = ["register"]

#: Files listed by name of those that a set lacks.
NAMED = 6


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "data",
        epilog="Exit codes: 0 all is there, 1 files are missing or are others than those known, 2 it could "
        "not run. Examples: sdpfeas data · sdpfeas data sdplib --json",
    )(data)


def data(
    sets: Annotated[
        list[str] | None, typer.Argument(metavar="SET", help="Sets; all if none is named.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Public sets known by content: what is here, what is missing, and where it goes.

    Nothing is bundled with the library. Files are compared by their SHA-256, in the folder that SDPFEAS_DATA
    names.
    """
    folder = data_folder()
    held = look(folder, sets)
    if as_json:
        print_json({"folder": folder, "files": [_plain(entry) for entry in held]})
    else:
        _print(held)
        if folder is None:
            out().print(f"{FOLDER} names no folder. Set it to the folder with the data.")
    raise typer.Exit(0 if all(entry.state is State.right for entry in held) else 1)


def _plain(entry: Held) -> dict[str, Any]:
    return {
        "set": entry.set.folder,
        "file": entry.name,
        "path": entry.path,
        "sha256": entry.set.hashes[entry.name],
        "state": entry.state,
    }


def _print(held: list[Held]) -> None:
    by_set: dict[str, list[Held]] = {}
    for entry in held:
        by_set.setdefault(entry.set.folder, []).append(entry)
    shown = table("set", "here", "known", "goes into", "what it is")
    for name, entries in by_set.items():
        right = sum(entry.state is State.right for entry in entries)
        style = "green" if right == len(entries) else "yellow" if right else "red"
        where = escape_terminal(entries[0].path.parent)
        about = known_sets()[name].about
        shown.add_row(name, f"[{style}]{right}[/]", str(len(entries)), where, about)
    out().print(shown)
    for state, words in ((State.missing, "missing"), (State.other, "another content than the one known")):
        for name, entries in by_set.items():
            names = [entry.name for entry in entries if entry.state is state]
            if names:
                more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
                out().print(f"[yellow]{name}[/]: {words}: {escape_terminal(', '.join(names[:NAMED]))}{more}")
