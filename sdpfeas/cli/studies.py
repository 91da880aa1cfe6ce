"""Commands ``compare``, ``report`` and ``export``: run a study, report on it, and export its data."""

from __future__ import annotations

import os
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from sdpfeas.cli import library as lib
from sdpfeas.cli.console import (
    AsJson,
    complete_listed_problems,
    complete_listed_solvers,
    err,
    out,
    print_json,
    table,
)
from sdpfeas.errors import FileFormatError, OptionError
from sdpfeas.escaping import escape_terminal
from sdpfeas.files import parse_size, writing
from sdpfeas.study.cells import FAILED, Clock, Retry, Settings

__all__ = ["register"]


class Where(StrEnum):
    """Engines that run the cells of a study."""

    local = "local"
    dask = "dask"
    joblib = "joblib"


class Format(StrEnum):
    """Formats of a report."""

    html = "html"
    md = "md"


#: Verdicts in the table of a comparison: the symbol of the report in Rich markup, one in ASCII, the colour.
MARKS = {
    "feasible": ("✓", "+", "green"),
    "infeasible": ("✕", "-", "blue"),
    "bracket": (r"\[ ]", r"\[ ]", "green"),
    "undecided": ("?", "?", "yellow"),
}

#: Above so many problems the table of verdicts is left out.
MOST_PROBLEMS_SHOWN = 40

Study = Annotated[Path, typer.Argument(metavar="STUDY.db", help="A study written by compare.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "compare",
        epilog="Examples: sdpfeas compare --solvers all --problems 'problems/*.toml' · sdpfeas compare "
        "--solvers clarabel,scs --problems a.npz --problems b.dat-s --seeds 5 --jobs 2 --report report.html",
    )(compare)
    app.command(
        "report",
        epilog="Examples: sdpfeas report study.db -o report.html · sdpfeas report study.db --format md "
        "--clock processor · sdpfeas report study.db --figures figures/",
    )(report)
    app.command("export", epilog="Example: sdpfeas export study.db -o study.csv")(export)


def compare(
    solvers: Annotated[
        list[str],
        typer.Option(
            "--solvers",
            help="Names, cards or patterns; comma-separated or repeated; 'all' for every backend.",
            autocompletion=complete_listed_solvers,
        ),
    ],
    problems: Annotated[
        list[str],
        typer.Option(
            "--problems",
            help="Files, cards or patterns; comma-separated or repeated.",
            autocompletion=complete_listed_problems,
        ),
    ],
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0.")] = 1,
    time_limit: Annotated[float, typer.Option("--time-limit", "-t", help="Seconds per cell.")] = 60.0,
    memory_limit: Annotated[str, typer.Option("--memory-limit", help="Memory per cell, such as 4G.")] = "4G",
    threads: Annotated[int, typer.Option(help="Threads per cell.")] = 1,
    rigorous: Annotated[
        bool, typer.Option("--rigorous", help="Reject numeric verdicts: proofs only.")
    ] = False,
    tol: Annotated[float, typer.Option(help="Relative width of the bracket of a family.")] = 1e-3,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Cells run in parallel.")] = None,
    output: Annotated[Path, typer.Option("--out", "-o", help="Database of the study.")] = Path("study.db"),
    retry: Annotated[Retry | None, typer.Option(help="Compute these finished cells again.")] = None,
    keep_evidence: Annotated[
        bool, typer.Option("--keep-evidence", help="Store points and certificates too.")
    ] = False,
    engine: Annotated[Where, typer.Option(help="Engine that runs the cells.")] = Where.local,
    scheduler: Annotated[str | None, typer.Option(help="Address of the Dask scheduler.")] = None,
    joblib_backend: Annotated[
        str, typer.Option("--joblib-backend", help="The joblib backend, with --engine joblib.")
    ] = "loky",
    report_to: Annotated[Path | None, typer.Option("--report", help="Write an HTML report here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare solvers on problems. Run the same command again to continue: finished cells are kept."""
    settings = Settings(time_limit, parse_size(memory_limit, "--memory-limit"), threads, rigorous, tol)
    if (engine is Where.dask) != (scheduler is not None):
        raise OptionError("--engine dask and --scheduler ADDRESS go together")
    if jobs is not None and jobs < 1:
        raise OptionError(f"--jobs must be at least 1, got {jobs}")
    plan = lib.make_plan(solvers, problems, seeds, settings)
    for name, why in plan.skipped.items():
        err().print(f"[yellow]skipped[/] {escape_terminal(name)}: {escape_terminal(why)}")
    with lib.Store(output) as store:
        chosen: lib.Engine
        if scheduler is not None:
            chosen = lib.DaskEngine(scheduler, jobs)
        elif engine is Where.joblib:
            chosen = lib.JoblibEngine(joblib_backend, jobs)
        else:
            chosen = lib.LocalEngine(jobs or 1)
        try:
            computed = lib.run_with_progress(store, plan, chosen, retry, keep_evidence=keep_evidence)
        finally:
            chosen.close()
        summary = _summary(store, plan)
        data = None if as_json else lib.StudyData(store)
        if report_to is not None:
            _write_report(store, report_to)
    if data is None:
        print_json({"study": output, "cells": len(plan.cells), "computed": computed, "solvers": summary})
        return
    _print_verdicts(data, plan)
    _print_summary(summary)
    for line in lib.headlines(data, escape_terminal):
        out().print(line)
    reused = len(plan.cells) - computed
    out().print(f"{computed} cells computed, {reused} reused: {escape_terminal(output)}")
    if report_to is not None:
        out().print(f"report: {escape_terminal(report_to)}")


def _summary(store: lib.Store, plan: Any) -> dict[str, dict[str, int]]:
    wanted = {cell.key for cell in plan.cells}
    out_: dict[str, Counter[str]] = {cell.solver.name: Counter() for cell in plan.cells}
    for cell in store.cells(texts=False):
        if cell["key"] in wanted and cell["solver"] in out_:
            failed = cell["outcome"] in FAILED
            out_[cell["solver"]][cell["outcome"] if failed else cell["verdict"] or "missing"] += 1
    return {name: dict(tally) for name, tally in out_.items()}


def _print_verdicts(data: lib.StudyData, plan: Any) -> None:
    """Print a table of verdicts and times, one row per problem and one column per solver."""
    solvers = list(dict.fromkeys(cell.solver.name for cell in plan.cells))
    problems = list(dict.fromkeys(cell.problem.label for cell in plan.cells))
    if len(problems) > MOST_PROBLEMS_SHOWN:
        return
    console = out()
    utf = console.encoding.lower().startswith("utf")
    prefix = _common_prefix(problems)
    rows = [[_mark(data.matrix.get(p, {}).get(solver), utf) for solver in solvers] for p in problems]
    # Long names are folded: cut off at the end, rows and columns could not be told apart.
    shown = table()
    shown.add_column(escape_terminal(f"problem {prefix}…" if prefix else "problem"), overflow="fold")
    for solver, column in zip(solvers, zip(*rows, strict=True), strict=True):
        width = max(Text.from_markup(mark).cell_len for mark in column)
        shown.add_column(escape_terminal(solver), justify="right", overflow="fold", min_width=width)
    for problem, row in zip(problems, rows, strict=True):
        shown.add_row(escape_terminal(problem.removeprefix(prefix)), *row)
    words = ", ".join(f"{mark if utf else plain} {word}" for word, (mark, plain, _) in MARKS.items())
    shown.caption = f"milliseconds; verified verdicts: {words}, ! failed"
    shown.caption_justify = "left"
    console.print(shown)
    console.print()


def _common_prefix(names: list[str]) -> str:
    """The common beginning of several names, up to a separator."""
    shared = os.path.commonprefix(names) if len(names) > 1 else ""  # noqa: RUF071 - of names, not paths
    return shared[: 1 + max(map(shared.rfind, "-_/"))]


def _mark(cell: lib.MatrixCell | None, utf: bool) -> str:
    """The verdict and the median time of a solver on a problem, as Rich markup."""
    if cell is None:
        return ""
    mark, plain, style = MARKS.get(next(iter(cell.verdicts)), ("!", "!", "red"))
    wrong = "[red]wrong status[/] " if cell.wrong else ""
    return f"{wrong}[{style}]{mark if utf else plain}[/] {1e3 * (cell.time or 0.0):.0f}"


def _print_summary(summary: dict[str, dict[str, int]]) -> None:
    words = ("feasible", "infeasible", "bracket", "undecided", *FAILED, "missing")
    used = [word for word in words if any(word in tally for tally in summary.values())]
    shown = table("solver", *used)
    for column in shown.columns[1:]:
        column.justify = "right"
    for name, tally in summary.items():
        shown.add_row(escape_terminal(name), *(str(tally.get(word, "")) for word in used))
    out().print(shown)


def report(
    study: Study,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; - for standard output.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="html or md.")] = Format.html,
    figures: Annotated[
        Path | None, typer.Option(help="Write the charts as PNG and SVG into this folder too.")
    ] = None,
    clock: Annotated[Clock, typer.Option(help="Time that is compared.")] = Clock.wall,
    as_json: AsJson = False,
) -> None:
    """Write a report on a study: one file that works offline."""
    with lib.Store(study, readonly=True) as store:
        if not store.cells(texts=False):
            raise FileFormatError(f"{study}: the study has no cells")
        if output == Path("-"):
            typer.echo(_rendered(store, form, clock))
            return
        target = output or Path(f"report.{form.value}")
        written = [_write_report(store, target, form, clock)]
        if figures is not None:
            written += lib.write_figures(store, figures, clock)
    if as_json:
        print_json({"written": written})
        return
    for path in written:
        out().print(f"written: {escape_terminal(path)}")


def _rendered(store: lib.Store, form: Format, clock: Clock) -> str:
    return (lib.render_html if form is Format.html else lib.render_markdown)(store, clock)


def _write_report(
    store: lib.Store, path: Path, form: Format = Format.html, clock: Clock = Clock.wall
) -> Path:
    text = _rendered(store, form, clock)
    with writing(path):
        path.write_text(text, encoding="utf-8")
    return path


def export(
    study: Study,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .csv, .json or .parquet file.")],
    as_json: AsJson = False,
) -> None:
    """Write the data of a study as a flat table."""
    with lib.Store(study, readonly=True) as store:
        count = lib.write_table(store, output)
    if as_json:
        print_json({"written": output, "cells": count})
    else:
        out().print(f"{count} cells written to {escape_terminal(output)}")
