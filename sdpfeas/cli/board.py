"""``board``: every solver on every public problem, audited, as a site of plain files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sdpfeas.cli import library as lib
from sdpfeas.cli.console import AsJson, err, out, print_json
from sdpfeas.errors import OptionError
from sdpfeas.escaping import escape_terminal
from sdpfeas.files import parse_size
from sdpfeas.study.board.data_sets import PROBLEM_SETS
from sdpfeas.study.cells import Retry, Settings

__all__ = ["register"]

#: Seconds a solver has for a problem, and the auditor, if nothing else is said; those of the quick board.
LIMITS, QUICK_LIMITS = (60.0, 300.0), (10.0, 30.0)

#: Exit code where proofs contradict each other.
CONFLICT = 3


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "board",
        epilog="Exit codes: 0 it ran, 2 it could not, 3 proofs contradict each other. "
        "Examples: sdpfeas board --quick · sdpfeas board board --time-limit 60 --jobs 2",
    )(board)


def board(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the board is kept.")] = Path(
        "board"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="A few small problems: a minute or two.")] = False,
    solvers: Annotated[
        list[str] | None,
        typer.Option("--solvers", help="A name or a path; repeatable; default: all that are known."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--sets", help=f"One of {', '.join(PROBLEM_SETS)}; repeatable; default: all."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            "-t",
            help=f"Seconds a cell; {LIMITS[0]:g}, with --quick {QUICK_LIMITS[0]:g}.",
        ),
    ] = None,
    audit_limit: Annotated[
        float | None,
        typer.Option(
            "--audit-limit", help=f"Seconds an audit; {LIMITS[1]:g}, with --quick {QUICK_LIMITS[1]:g}."
        ),
    ] = None,
    memory_limit: Annotated[str, typer.Option("--memory-limit", help="Memory a cell, such as 4G.")] = "4G",
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Cells at a time.")] = 1,
    retry: Annotated[Retry | None, typer.Option(help="Compute these finished cells again.")] = None,
    as_json: AsJson = False,
) -> None:
    """Who is right, who lies, who is undecided: solvers on public problems, by what is proved.

    Run it again to continue: only what is missing is computed. The site is in FOLDER/site and opens from
    there. Public files are looked for in SDPFEAS_DATA; sdpfeas data says which are missing.
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
            out().print(escape_terminal(line))
        out().print(f"site: {escape_terminal(written)}")
    for each in data.contradictions:
        err().print(f"[bold red]CONTRADICTION[/] {escape_terminal(each)}")
    raise typer.Exit(CONFLICT if data.contradictions else 0)
