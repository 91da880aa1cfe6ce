"""Command ``releases``: run a study with several releases of a solver, each in an environment of its own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from sdpfeas.cli import library as lib
from sdpfeas.cli.console import AsJson, err, marked, print_json, print_table, say
from sdpfeas.errors import SdpfeasError
from sdpfeas.escaping import escape_terminal


def releases(
    asked: Annotated[
        list[str],
        Argument(metavar="RELEASE...", help="PACKAGE==RELEASE, or PACKAGE for all published releases."),
    ],
    problems: Annotated[
        list[str], Option("--problems", help="As for compare: files, cards or patterns; repeatable.")
    ],
    output: Annotated[Path, Option("--out", "-o", help="Database of all releases.")] = Path("releases.db"),
    environments: Annotated[Path, Option(help="Folder of the environments, which are kept.")] = Path(
        "environments"
    ),
    time_limit: Annotated[float, Option("--time-limit", "-t", help="Seconds per cell.")] = 60.0,
    seeds: Annotated[int, Option(help="Number of seeds, from 0.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Show which release of a solver became slower, or lost verdicts, against the release before.

    Every release is installed with pip into an environment of its own; those without a wheel that can be
    imported here are left out. Clarabel and SCS are called once for any feasible point, other packages by the
    solver of their name.

    Examples:
    sdpfeas releases clarabel==0.10.0 clarabel==0.11.1 --problems planted-mixed
    sdpfeas releases clarabel scs --problems sdplib/truss1.dat-s
    """
    left_out: dict[str, str] = {}
    words = [*(word for each in problems for word in ("--problems", each)), "--out", str(output)]
    words += ["--time-limit", str(time_limit), "--seeds", str(seeds)]
    for package, release in lib.list_releases(asked):
        name = f"{package}=={release}"
        try:
            python = lib.install(package, release, environments)
            lib.run_in(python, package, words)
        except SdpfeasError as error:
            left_out[name] = str(error)
            err().print(f"[yellow]left out[/] {escape_terminal(name)}: {escape_terminal(error)}")
    if not output.is_file():
        raise SdpfeasError("no release could be installed and run")
    with lib.Store(output, readonly=True) as store:
        found = lib.version_table(store.history(), order=lib.release_order)
    if as_json:
        print_json({"study": output, "releases": found, "left_out": left_out})
        return
    columns = ("solver", "solver_version", "cells", "decided", "failed", "wrong")
    rows = []
    for row in found:
        changed = ", ".join(f"{count} {what}" for what, count in row["changes"].items() if what != "same")
        ratio = "" if math.isnan(row["since"]) else f"{row['since']:.2f} ×"
        texts = [*(row[name] for name in columns), ratio, changed or ("no change" if row["changes"] else "")]
        rows.append([marked("[red]{}[/]" if row["regressed"] else "{}", text) for text in texts])
    heads = ["solver", "release", *columns[2:], "time", "since the release before"]
    print_table(heads, rows)
    for row in found:
        if row["regressed"]:
            say("worse in {} {}: {}", row["solver"], row["solver_version"], ", ".join(row["regressed"]))
    say("all releases: {}; the report with --history shows them side by side", output)
