"""``paper``: run the experiments of the WLDA paper again, and put the numbers beside the published ones."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sdpfeas import __version__
from sdpfeas.cli import completion
from sdpfeas.cli import library as lib
from sdpfeas.cli.console import AsJson, err, out, print_json
from sdpfeas.errors import MissingExtraError, OptionError
from sdpfeas.extras import extra
from sdpfeas.harmless import in_terminal
from sdpfeas.study.choices import Retry
from sdpfeas.study.settings import Settings

__all__ = ["register"]

#: The database in the results folder.
DATABASE = "cells.db"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "paper",
        epilog="Data sets are read from the folder that SDPFEAS_DATA names. "
        "Examples: sdpfeas paper table1 --quick · sdpfeas paper all --jobs 2 --out paper-results",
    )(paper)


def paper(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="table1 … table6, fig1 … fig3, visual, waveform, letters, umist, or all.",
            autocompletion=completion.targets,
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Few splits and a short cap: minutes.")] = False,
    splits: Annotated[int | None, typer.Option(help="Use at most so many splits.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these methods, comma-separated.")] = None,
    datasets: Annotated[
        str | None, typer.Option("--data", help="Only columns of these data sets, comma-separated.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", "-t", help="Seconds a cell; 300, with --quick 5.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Cells at a time.")] = 1,
    output: Annotated[Path, typer.Option("--out", "-o", help="The folder for the results.")] = Path(
        "paper-results"
    ),
    retry: Annotated[bool, typer.Option("--retry", help="Compute failed and capped cells again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the WLDA paper. Run it again to continue: only what is missing is computed."""
    with extra("wlda", "sdpfeas paper"):
        import sklearn  # noqa: F401 - asked for before anything is written

    if jobs < 1:
        raise OptionError(f"--jobs must be at least 1, got {jobs}")
    targets = _targets(what, quick, splits, methods, datasets)
    usual = lib.QUICK_LIMIT if quick else lib.LIMIT
    settings = Settings(time_limit=usual if time_limit is None else time_limit)
    plan = lib.plan_targets(targets, settings)
    for name, why in plan.skipped.items():
        err().print(f"[yellow]skipped[/] {in_terminal(name)}: {in_terminal(why)}")
    output.mkdir(parents=True, exist_ok=True)
    with lib.Store(output / DATABASE) as store:
        computed = lib.run_shown(store, plan, lib.LocalEngine(jobs), Retry.failed if retry else None)
        summaries = lib.summarise(plan, store.cells())
        written = [path for summary in summaries for path in _write(summary, store, output)]
    if as_json:
        print_json(
            {
                "cells": len(plan.cells),
                "computed": computed,
                "skipped": plan.skipped,
                "entries": [entry for summary in summaries for entry in lib.plain(summary)],
                "written": written,
            }
        )
        return
    for summary in summaries:
        out().print(lib.to_markdown(summary, *_origin()), markup=False)
    out().print(
        f"{computed} cells computed, {len(plan.cells) - computed} already there: {in_terminal(output)}"
    )


def _targets(
    what: str, quick: bool, splits: int | None, methods: str | None, datasets: str | None
) -> list[Any]:

    if splits is not None and splits < 1:
        raise OptionError(f"--splits must be at least 1, got {splits}")
    targets = lib.find_targets(what)
    if methods is not None:
        wanted = [lib.find_method(name.strip()).name for name in methods.split(",")]
        targets = [target.only(wanted) for target in targets]
    if datasets is not None:
        targets = _about(targets, [name.strip() for name in datasets.split(",")])
    if quick:
        targets = [target.quick() for target in targets]
    return targets if splits is None else [target.limited(splits) for target in targets]


def _about(targets: list[Any], datasets: list[str]) -> list[Any]:
    """The targets with columns of these data sets; a name that none of them has is an error."""
    known = {column.task.dataset: None for target in targets for column in target.columns}
    for name in datasets:
        if name not in known:
            raise OptionError(f"no column is about the data set {name!r}; there are: {', '.join(known)}")
    return [chosen for target in targets if (chosen := target.about(datasets)).columns]


def _write(summary: Any, store: Any, folder: Path) -> list[Path]:

    written = lib.write_tables(summary, folder, *_origin())
    try:
        written += lib.write_figure(summary, store, folder)
    except MissingExtraError as error:
        err().print(f"[yellow]no figure[/] {in_terminal(summary.target.name)}: {in_terminal(str(error))}")
    return written


def _origin() -> tuple[str, str]:
    """The command, and where it ran."""
    where = f"sdpfeas {__version__}, {lib.describe_environment()['cpu']}, one thread a cell."
    return shlex.join(["sdpfeas", *sys.argv[1:]]), where
