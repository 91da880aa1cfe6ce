"""Commands about studies: run one, report on it, compare versions, fit scalings, merge and export."""

from __future__ import annotations

import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
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
from sdpfeas.files import writing
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

Study = Annotated[
    Path,
    typer.Argument(metavar="STUDY", help="A study: its database, or the study file that names it."),
]


Studies = Annotated[
    list[Path],
    typer.Argument(metavar="STUDY...", help="Studies: databases, or the study files that name them."),
]

#: Exit codes of ``diff``: something became worse, or verdicts contradict each other.
REGRESSION, CONTRADICTION = 1, 3


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "compare",
        epilog="Examples: sdpfeas compare study.toml · sdpfeas compare --solvers all --problems "
        "'problems/*.toml' · sdpfeas compare --solvers clarabel,scs --problems a.npz --problems b.dat-s "
        "--seeds 5 --jobs 2 --report report.html",
    )(compare)
    app.command(
        "judge",
        epilog="Examples: sdpfeas judge sdplib/ answers/ --solver mosek --version 11 --out study.db · "
        "sdpfeas judge p.dat-s p.sol --solver copt --seconds 1.5",
    )(judge)
    app.command(
        "report",
        epilog="Examples: sdpfeas report study.db -o report.html · sdpfeas report study.db --format md "
        "--clock processor · sdpfeas report study.db --figures figures/",
    )(report)
    app.command(
        "scaling",
        epilog="Examples: sdpfeas scaling results.json · sdpfeas scaling results.json --axis n "
        "-o scaling.svg · sdpfeas scaling study.db",
    )(scaling)
    app.command(
        "diff",
        epilog="Exit codes: 0 nothing became worse, 1 a regression, 2 error, 3 verdicts contradict each "
        "other. Examples: sdpfeas diff study.db · sdpfeas diff old.db new.db --threshold 1.3",
    )(diff)
    app.command("merge", epilog="Example: sdpfeas merge a.db b.db -o all.db")(merge)
    app.command("export", epilog="Example: sdpfeas export study.db -o study.csv")(export)


def compare(
    study: Annotated[
        Path | None, typer.Argument(metavar="[STUDY.toml]", help="A study file; flags override its keys.")
    ] = None,
    solvers: Annotated[
        list[str] | None,
        typer.Option(
            "--solvers",
            help="Names, cards or patterns; comma-separated or repeated; 'all' for every backend.",
            autocompletion=complete_listed_solvers,
        ),
    ] = None,
    problems: Annotated[
        list[str] | None,
        typer.Option(
            "--problems",
            help="Files, cards or patterns; comma-separated or repeated.",
            autocompletion=complete_listed_problems,
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds, from 0 (1).")] = None,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", "-t", help="Seconds per cell (60).")
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option("--memory-limit", help="Memory per cell, such as 4G (4G).")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads per cell (1).")] = None,
    rigorous: Annotated[
        bool | None, typer.Option("--rigorous", help="Reject numeric verdicts: proofs only.")
    ] = None,
    tol: Annotated[
        float | None, typer.Option(help="Relative width of the bracket of a family (0.001).")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Cells run in parallel.")] = None,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="Database of the study (study.db).")
    ] = None,
    retry: Annotated[Retry | None, typer.Option(help="Compute these finished cells again.")] = None,
    keep_evidence: Annotated[
        bool | None, typer.Option("--keep-evidence", help="Store points and certificates too.")
    ] = None,
    engine: Annotated[Where | None, typer.Option(help="Engine that runs the cells (local).")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of the Dask scheduler.")] = None,
    joblib_backend: Annotated[
        str | None, typer.Option("--joblib-backend", help="The joblib backend, with --engine joblib (loky).")
    ] = None,
    report_to: Annotated[Path | None, typer.Option("--report", help="Write an HTML report here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare solvers on problems, given by a study file or by flags.

    Run the same command again to continue: finished cells are kept.
    """
    asked = lib.Study((), (), lib.StudyOptions()) if study is None else lib.read_study(study)
    asked = asked.overridden(
        solvers,
        problems,
        seeds=seeds,
        time_limit=time_limit,
        memory_limit=memory_limit,
        threads=threads,
        rigorous=rigorous,
        tol=tol,
        jobs=jobs,
        out=output and str(output),
        retry=retry and retry.value,
        keep_evidence=keep_evidence,
        engine=engine and engine.value,
        scheduler=scheduler,
        joblib_backend=joblib_backend,
        report=report_to and str(report_to),
    )
    options, plan = asked.options, asked.plan()
    for name, why in plan.skipped.items():
        err().print(f"[yellow]skipped[/] {escape_terminal(name)}: {escape_terminal(why)}")
    with lib.Store(options.out) as store:
        chosen = asked.open_engine()
        try:
            again = None if options.retry is None else Retry(options.retry)
            computed = lib.run_with_progress(store, plan, chosen, again, keep_evidence=options.keep_evidence)
        finally:
            chosen.close()
        if options.report is not None:
            _write_report(store, Path(options.report))
        _print_study(store, plan, options.out, computed, as_json)
    if options.report is not None and not as_json:
        out().print(f"report: {escape_terminal(options.report)}")


def judge(
    problems: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEMS", help="A problem file or card, a folder, a pattern, or several with commas."
        ),
    ],
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            help="A solution file of CSDP, SDPA, SeDuMi (.mat) or sdpfeas (.npz), or a folder of them.",
        ),
    ],
    solver: Annotated[str, typer.Option("--solver", help="Name of the solver.")],
    version: Annotated[str, typer.Option("--version", help="Its version.")] = "",
    output: Annotated[Path, typer.Option("--out", "-o", help="Database of the study.")] = Path("study.db"),
    told: Annotated[
        Path | None,
        typer.Option(
            "--table",
            help="CSV file with the columns name, seconds, status, claim; default: ANSWERS/answers.csv.",
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds of every answer whose time is not told.")
    ] = None,
    side: Annotated[str, typer.Option(help="Side of SDPA and SeDuMi files: primal or lmi.")] = "primal",
    time_limit: Annotated[
        float, typer.Option("--time-limit", "-t", help="Seconds that the solver was given.")
    ] = 60.0,
    rigorous: Annotated[
        bool, typer.Option("--rigorous", help="Reject numeric verdicts: proofs only.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify answers of a solver that cannot run here, and store them as its cells of a study.

    Answers belong to problems of the same name. A malformed file is an error of its cell.
    """
    plan = lib.plan_answers(
        problems.split(","), answers, Settings(time_limit, rigorous=rigorous),
        solver=solver, version=version, table=told, seconds=seconds, side=side,
    )  # fmt: skip
    for name in plan.unmatched:
        err().print(f"[yellow]fits no problem[/] {escape_terminal(name)}")
    if plan.unanswered:
        err().print(f"[yellow]without an answer[/] {escape_terminal(', '.join(plan.unanswered))}")
    with lib.Store(output) as store:
        computed = lib.run_with_progress(store, plan, lib.LocalEngine(), None, keep_evidence=True)
        _print_study(store, plan, str(output), computed, as_json)


def _print_study(store: lib.Store, plan: Any, path: str, computed: int, as_json: bool) -> None:
    """Print the verdicts of the cells of a plan, a line per solver, and the summary of the study."""
    summary = _summary(store, plan)
    if as_json:
        print_json({"study": path, "cells": len(plan.cells), "computed": computed, "solvers": summary})
        return
    data = lib.StudyData(store)
    _print_verdicts(data, plan)
    _print_summary(summary)
    for line in lib.headlines(data, escape_terminal):
        out().print(line)
    out().print(f"{computed} cells computed, {len(plan.cells) - computed} reused: {escape_terminal(path)}")


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
    studies: Studies,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; - for standard output.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="html or md.")] = Format.html,
    figures: Annotated[
        Path | None, typer.Option(help="Write the charts as PNG and SVG into this folder too.")
    ] = None,
    clock: Annotated[Clock, typer.Option(help="Time that is compared.")] = Clock.wall,
    axis: Annotated[
        str | None, typer.Option(help="Swept parameter, or size, that times are drawn against.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show earlier versions of the solvers, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a report on one or more studies: one file that works offline."""
    with _opened(studies) as store:
        if not store.cells(texts=False):
            raise FileFormatError(f"{studies[0]}: the study has no cells")
        if output == Path("-"):
            typer.echo(_rendered(store, form, clock, axis, history))
            return
        target = output or Path(f"report.{form.value}")
        written = [_write_report(store, target, form, clock, axis, history)]
        if figures is not None:
            written += lib.write_figures(lib.StudyData(store, clock, axis), figures)
    if as_json:
        print_json({"written": written})
        return
    for path in written:
        out().print(f"written: {escape_terminal(path)}")


def _database(study: Path) -> Path:
    """The database of a study that is given by its database or by its study file."""
    return Path(lib.read_study(study).options.out) if study.suffix == ".toml" else study


@contextmanager
def _opened(studies: list[Path]) -> Iterator[lib.Store]:
    """Open a study, or several merged into a temporary one."""
    if len(studies) == 1:
        with lib.Store(_database(studies[0]), readonly=True) as store:
            yield store
        return
    with tempfile.TemporaryDirectory() as folder, lib.Store(Path(folder) / "merged.db") as store:
        _merge(studies, store)
        yield store


def _merge(studies: list[Path], store: lib.Store) -> None:
    for study in studies:
        with lib.Store(_database(study), readonly=True) as other:
            store.absorb(other)


def _rendered(store: lib.Store, form: Format, clock: Clock, axis: str | None, history: bool) -> str:
    render = lib.render_html if form is Format.html else lib.render_markdown
    return render(store, clock, axis, history=history)


def _write_report(
    store: lib.Store,
    path: Path,
    form: Format = Format.html,
    clock: Clock = Clock.wall,
    axis: str | None = None,
    history: bool = False,
) -> Path:
    text = _rendered(store, form, clock, axis, history)
    with writing(path):
        path.write_text(text, encoding="utf-8")
    return path


def scaling(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULTS", help="JSON files of pytest-benchmark, studies or study files."),
    ],
    axis: Annotated[
        str | None, typer.Option(help="Swept parameter, or size; default: the one with most values.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw a figure: a .svg, .png or .pdf file.")
    ] = None,
    clock: Annotated[Clock, typer.Option(help="Time that is taken from studies.")] = Clock.wall,
    as_json: AsJson = False,
) -> None:
    """Fit how times grow with a swept parameter, all other parameters fixed.

    The exponent is that of a power law, with its 95 % confidence interval.
    """
    measured = []
    for path in results:
        if path.suffix == ".json":
            measured += lib.read_benchmarks(path)
        else:
            with lib.Store(_database(path), readonly=True) as store:
                measured += lib.StudyData(store, clock).measurements
    found = lib.scalings(measured, axis)
    if not found:
        raise FileFormatError("nothing to fit: this takes at least three values of a swept parameter")
    if output is not None:
        solvers = list(dict.fromkeys(each.solver for each in measured))
        lib.write_figure([lib.scaling_chart(each, solvers, "seconds") for each in found], output)
    facts: list[dict[str, Any]] = [
        {
            "problems": each.name,
            "axis": each.axis,
            "solver": name,
            "exponent": fit.slope,
            "interval": [fit.slope_low, fit.slope_high],
            "points": len(each.points[name]),
        }
        for each in found
        for name, fit in each.fits.items()
    ]
    if as_json:
        print_json({"scalings": facts, "written": output})
        return
    shown = table("problems", "axis", "solver", "exponent", "95 % interval", "points")
    for row in facts:
        low, high = row["interval"]
        texts = (escape_terminal(row[name]) for name in ("problems", "axis", "solver"))
        shown.add_row(*texts, f"{row['exponent']:.2f}", f"{low:.2f} to {high:.2f}", str(row["points"]))
    out().print(shown)
    if output is not None:
        out().print(f"written: {escape_terminal(output)}")


def merge(
    studies: Studies,
    output: Annotated[Path, typer.Option("--output", "-o", help="The study to write to.")],
    as_json: AsJson = False,
) -> None:
    """Merge studies into one; every cell is kept once.

    Of two records of a cell the finished one is kept, of two finished ones the earlier.
    """
    if output.exists() and any(output.samefile(_database(study)) for study in studies):
        raise OptionError(f"{output} is one of the studies to merge; write to another file")
    with lib.Store(output) as store:
        _merge(studies, store)
        count = len(store.cells(texts=False))
    if as_json:
        print_json({"written": output, "cells": count})
    else:
        out().print(f"{count} cells in {escape_terminal(output)}")


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A study, or the only one.")],
    new: Annotated[
        Path | None,
        typer.Argument(
            metavar="[NEW]", help="Another study; without it, versions within the first are compared."
        ),
    ] = None,
    old_version: Annotated[
        str | None,
        typer.Option("--old", help="Version, or beginning of its hash; default: the last but one."),
    ] = None,
    new_version: Annotated[
        str | None, typer.Option("--new", help="Version, or beginning of its hash; default: the last.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="Least ratio of times that counts.")] = 1.1,
    clock: Annotated[Clock, typer.Option(help="Time that is compared.")] = Clock.processor,
    as_json: AsJson = False,
) -> None:
    """Compare two studies, or two versions of the solvers in one study.

    Reports per problem what became faster or slower beyond noise, and which verdicts changed.
    """
    with lib.Store(_database(old), readonly=True) as store:
        before = store.history()
    after = before
    if new is not None:
        with lib.Store(_database(new), readonly=True) as store:
            after = store.history()
    pairs = _versions_to_compare(before, after, old_version, new_version, within=new is None)
    differences, trends = list[Any](), list[Any]()
    for earlier, later in pairs:
        found = lib.compare_cells(earlier, later, threshold=threshold, clock=clock)
        differences += found[0]
        trends += found[1]
    if not differences:
        raise FileFormatError("there is nothing to compare: no solver ran on one problem in two versions")
    worse = [each for each in (*differences, *trends) if each.change.worse]
    if as_json:
        print_json({"differences": [asdict(d) for d in differences], "solvers": [asdict(t) for t in trends]})
    else:
        _print_differences(differences, trends)
    if any(each.change == "contradiction" for each in worse):
        raise typer.Exit(CONTRADICTION)
    raise typer.Exit(REGRESSION if worse else 0)


def _versions_to_compare(
    before: list[Any], after: list[Any], old: str | None, new: str | None, *, within: bool
) -> list[tuple[list[Any], list[Any]]]:
    """Pairs of cells to compare, solver by solver."""
    chosen = lib.select_version(before, old) if old else before
    later = lib.select_version(after, new) if new else after
    pairs = []
    for solver in dict.fromkeys(cell["solver"] for cell in later):
        known, fresh = lib.versions(chosen, solver), lib.versions(later, solver)
        if within and not (old or new):
            known, fresh = known[:-1], fresh[-1:]
        if known and fresh:
            pairs.append((lib.select_version(chosen, known[-1]), lib.select_version(later, fresh[-1])))
    return pairs


def _print_differences(differences: list[Any], trends: list[Any]) -> None:
    """Print what changed, worst first, and a line per solver."""
    changed = [each for each in differences if each.change != "same"]
    if changed:
        shown = table("solver", "problem", "change", "old", "new", "time", "seeds")
        for each in sorted(changed, key=lambda each: (each.change.rank, -abs(each.ratio - 1.0))):
            style = "red" if each.change.worse else "green"
            ratio = "" if math.isnan(each.ratio) else f"{each.ratio:.2f} ×"
            texts = (escape_terminal(text) for text in (each.solver, each.problem))
            verdicts = (escape_terminal(text) for text in (each.old, each.new))
            shown.add_row(*texts, f"[{style}]{each.change}[/]", *verdicts, ratio, str(each.pairs))
        out().print(shown)
    same = len(differences) - len(changed)
    out().print(f"{len(changed)} of {len(differences)} pairs of solver and problem changed, {same} did not.")
    for each in trends:
        test = f"p = {each.p_value:.2g}" if each.p_value < 1.0 else "too few for a test"
        out().print(
            f"{escape_terminal(each.solver)}: {each.change}; new times are {each.ratio:.2f} × the old ones "
            f"on {each.pairs} instances ({test})."
        )


def export(
    study: Study,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .csv, .json or .parquet file.")],
    history: Annotated[
        bool, typer.Option("--history", help="Include cells of earlier versions of the solvers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the data of a study as a flat table."""
    with lib.Store(_database(study), readonly=True) as store:
        count = lib.write_table(store, output, history=history)
    if as_json:
        print_json({"written": output, "cells": count})
    else:
        out().print(f"{count} cells written to {escape_terminal(output)}")
