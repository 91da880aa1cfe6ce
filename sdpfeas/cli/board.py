"""Commands ``board`` and ``data``: all solvers on public problems as a static site, and its data files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from sdpfeas.cli import library as lib
from sdpfeas.cli.console import AsJson, err, marked, print_json, print_table, say
from sdpfeas.errors import OptionError
from sdpfeas.escaping import escape_terminal
from sdpfeas.files import parse_size
from sdpfeas.study.board.data_sets import FOLDER, PROBLEM_SETS, Held, State, data_folder, known_sets, look
from sdpfeas.study.cells import Retry, Settings

#: Default time limits of a cell and of an audit in seconds, without and with ``--quick``.
LIMITS, QUICK_LIMITS = (60.0, 300.0), (10.0, 30.0)

#: Exit code where proofs contradict each other.
CONFLICT = 3

#: At most so many missing files of a data set are listed by name.
LISTED_FILES = 6


def board(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Folder of the board.")] = Path("board"),
    quick: Annotated[bool, Option("--quick", help="A few small problems; takes a minute or two.")] = False,
    solvers: Annotated[
        list[str] | None, Option(help="A name or a path; repeatable; default: all that are known.")
    ] = None,
    sets: Annotated[
        list[str] | None, Option(help=f"One of {', '.join(PROBLEM_SETS)}; repeatable; default: all.")
    ] = None,
    time_limit: Annotated[
        float | None,
        Option(
            "--time-limit", "-t", help=f"Seconds per cell; {LIMITS[0]:g}, with --quick {QUICK_LIMITS[0]:g}."
        ),
    ] = None,
    audit_limit: Annotated[
        float | None, Option(help=f"Seconds per audit; {LIMITS[1]:g}, with --quick {QUICK_LIMITS[1]:g}.")
    ] = None,
    memory_limit: Annotated[str, Option(help="Memory per cell, such as 4G.")] = "4G",
    jobs: Annotated[int, Option("--jobs", "-j", help="Cells run in parallel.")] = 1,
    retry: Annotated[Retry | None, Option(help="Compute these finished cells again.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the raw statuses of solvers with what is proved about public problems.

    Run the same command again to continue: finished cells are kept. The site in FOLDER/site opens from disk.
    Problem files are read from the folder SDPFEAS_DATA; the command data lists the missing ones.

    Exit codes: 0 success, 2 error, 3 proofs contradict each other.

    Examples:
    sdpfeas board --quick
    sdpfeas board board --time-limit 60 --jobs 2
    """
    if jobs < 1:
        raise OptionError(f"--jobs must be at least 1, got {jobs}")
    usual = QUICK_LIMITS if quick else LIMITS
    memory = parse_size(memory_limit, "--memory-limit")
    settings = Settings(usual[0] if time_limit is None else time_limit, memory, rigorous=True)
    auditing = Settings(usual[1] if audit_limit is None else audit_limit, memory, rigorous=True)
    plan = lib.plan_board(folder, settings, solvers=solvers, sets=sets, quick=quick)
    for name, why in plan.skipped.items():
        err().print(f"[yellow]not installed[/] {escape_terminal(name)}: {escape_terminal(why)}")
    engine = lib.LocalEngine(jobs)
    with lib.Store(folder / "study.db") as study, lib.Store(folder / "audits.db") as audits:
        try:
            computed = lib.run_with_progress(study, plan, engine, retry, keep_evidence=True)
            for part in lib.audit_rounds(study, audits, folder / lib.CARDS, auditing):
                lib.run_with_progress(audits, part, engine, None)
        finally:
            engine.close()
        data = lib.BoardData(study, audits)
        written = lib.write_site(data, study, folder / "site")
    if as_json:
        print_json({"site": written, "cells": len(plan.cells), "computed": computed, **data.plain()})
    else:
        for line in data.headlines():
            say("{}", line)
        say("site: {}", written)
    for problem, why in data.contradictions.items():
        err().print(f"[bold red]CONTRADICTION[/] {escape_terminal(f'{problem}: {why}')}")
    raise typer.Exit(CONFLICT if data.contradictions else 0)


def data(
    sets: Annotated[list[str] | None, Argument(metavar="SET", help="Data sets; default: all.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the public data sets, their files that are present or missing, and where each belongs.

    No data is bundled with the library. Files in the folder SDPFEAS_DATA are compared by SHA-256.

    Exit codes: 0 all files are there, 1 files are missing or differ, 2 the command could not run.

    Examples:
    sdpfeas data
    sdpfeas data sdplib --json
    """
    folder = data_folder()
    held = look(folder, sets)
    if as_json:
        facts = [
            {
                "set": e.set.folder,
                "file": e.name,
                "path": e.path,
                "sha256": e.set.hashes[e.name],
                "state": e.state,
            }
            for e in held
        ]
        print_json({"folder": folder, "files": facts})
    else:
        _print_files(held)
        if folder is None:
            say(f"{FOLDER} is not set, or is not a folder. Set it to the folder with the data.")
    raise typer.Exit(0 if all(entry.state is State.right for entry in held) else 1)


def _print_files(held: list[Held]) -> None:
    by_set: dict[str, list[Held]] = {}
    for entry in held:
        by_set.setdefault(entry.set.folder, []).append(entry)
    rows = []
    for name, entries in by_set.items():
        right = sum(entry.state is State.right for entry in entries)
        style = "green" if right == len(entries) else "yellow" if right else "red"
        present = marked(f"[{style}]{right}[/]")
        rows.append([name, present, len(entries), entries[0].path.parent, known_sets()[name].about])
    print_table(["set", "present", "files", "folder", "about"], rows)
    for state, words in ((State.missing, "missing"), (State.other, "content differs from the known file")):
        for name, entries in by_set.items():
            names = [entry.name for entry in entries if entry.state is state]
            more = f" and {len(names) - LISTED_FILES} more" if len(names) > LISTED_FILES else ""
            if names:
                say("[yellow]{}[/]: {}: {}{}", name, words, ", ".join(names[:LISTED_FILES]), more)
