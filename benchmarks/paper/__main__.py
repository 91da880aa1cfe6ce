"""The command ``python -m benchmarks.paper``, run from the root of a clone."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdpfeas import OptionError, SdpfeasError, __version__

# Internals: progress, messages and limits as the commands of sdpfeas show them.
from sdpfeas.cli.console import AsJson, err, out, print_json
from sdpfeas.cli.progress import run_with_progress
from sdpfeas.errors import MissingExtraError
from sdpfeas.escaping import escape_terminal
from sdpfeas.extras import extra
from sdpfeas.study.cells import Retry, Settings
from sdpfeas.study.engines import LocalEngine
from sdpfeas.study.runner import describe_environment
from sdpfeas.study.store import Store

if TYPE_CHECKING:
    from benchmarks.paper.summary import TargetSummary
    from benchmarks.paper.targets import Target

PROGRAM = "python -m benchmarks.paper"

#: The study database in the results folder.
DATABASE = "cells.db"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(
    epilog="Data sets are read from the folder that SDPFEAS_DATA names. "
    f"Examples: {PROGRAM} table1 --quick · {PROGRAM} all --jobs 2 --out paper-results",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="table1 … table6, fig1 … fig3, visual, waveform, letters, umist, or all."
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Two splits, 5 seconds per cell: minutes.")] = False,
    splits: Annotated[int | None, typer.Option(help="Most splits per column.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these methods, comma-separated.")] = None,
    datasets: Annotated[
        str | None, typer.Option("--data", help="Only columns of these data sets, comma-separated.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", "-t", help="Seconds per cell; 300, with --quick 5.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Cells to run at the same time.")] = 1,
    output: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path(
        "paper-results"
    ),
    retry: Annotated[
        bool, typer.Option("--retry", help="Compute cells again that failed or hit a limit.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the WLDA paper. Repeat the command to resume: only missing cells are computed."""
    with extra("wlda", PROGRAM):
        import sklearn  # noqa: F401 - checked before anything is written
    from benchmarks.paper.report import plain, to_markdown
    from benchmarks.paper.study import plan_targets
    from benchmarks.paper.summary import summarise
    from benchmarks.paper.targets import LIMIT, QUICK_LIMIT

    if jobs < 1:
        raise OptionError(f"--jobs must be at least 1, got {jobs}")
    targets = _targets(what, quick, splits, methods, datasets)
    default = QUICK_LIMIT if quick else LIMIT
    settings = Settings(time_limit=default if time_limit is None else time_limit)
    plan = plan_targets(targets, settings)
    for name, why in plan.skipped.items():
        err().print(f"[yellow]skipped[/] {escape_terminal(name)}: {escape_terminal(why)}")
    output.mkdir(parents=True, exist_ok=True)
    command = shlex.join([*PROGRAM.split(), *sys.argv[1:]])
    environment = f"sdpfeas {__version__}, {describe_environment()['cpu']}, one thread per cell."
    with Store(output / DATABASE) as store:
        again = Retry.failed if retry else None
        engine = LocalEngine(jobs)
        computed = sum(
            run_with_progress(store, part, engine, again, command=command) for part in plan.phases()
        )
        summaries = summarise(plan, store.cells())
        written = [path for each in summaries for path in _write(each, store, output, command, environment)]
    if as_json:
        print_json(
            {
                "cells": len(plan.cells),
                "computed": computed,
                "skipped": plan.skipped,
                "entries": [entry for summary in summaries for entry in plain(summary)],
                "written": written,
            }
        )
        return
    for summary in summaries:
        out().print(to_markdown(summary, command, environment), markup=False)
    out().print(
        f"{computed} cells computed, {len(plan.cells) - computed} already there: {escape_terminal(output)}"
    )


def _targets(
    what: str, quick: bool, splits: int | None, methods: str | None, datasets: str | None
) -> list[Target]:
    """The requested tables and figures, reduced to the requested rows, columns and splits."""
    from benchmarks.paper.methods import find_method
    from benchmarks.paper.targets import find_targets

    if splits is not None and splits < 1:
        raise OptionError(f"--splits must be at least 1, got {splits}")
    targets = find_targets(what)
    if methods is not None:
        wanted = [find_method(name.strip()).name for name in methods.split(",")]
        targets = [target.only(wanted) for target in targets]
    if datasets is not None:
        names = [name.strip() for name in datasets.split(",")]
        known = {column.task.dataset: None for target in targets for column in target.columns}
        for name in names:
            if name not in known:
                raise OptionError(f"no column is about the data set {name!r}; there are: {', '.join(known)}")
        targets = [chosen for target in targets if (chosen := target.about(names)).columns]
    if quick:
        targets = [target.quick() for target in targets]
    return targets if splits is None else [target.limited(splits) for target in targets]


def _write(summary: TargetSummary, store: Store, folder: Path, command: str, environment: str) -> list[Path]:
    from benchmarks.paper.report import write_figure, write_tables

    written = write_tables(summary, folder, command, environment)
    try:
        written += write_figure(summary, store, folder)
    except MissingExtraError as error:
        err().print(
            f"[yellow]no figure[/] {escape_terminal(summary.target.name)}: {escape_terminal(str(error))}"
        )
    return written


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; errors are one line, with exit code 2."""
    try:
        app(arguments, prog_name=PROGRAM)
    except (SdpfeasError, OSError) as error:
        err().print(f"[bold red]error:[/] {escape_terminal(str(error), lines=True)}")
        sys.exit(2)


if __name__ == "__main__":
    main()
