"""Commands about studies: run one, report on it, compare versions, fit scalings, merge and export."""

from __future__ import annotations

import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from typer import Argument, Option

from sdpfeas.cli import library as lib
from sdpfeas.cli.console import (
    AsJson,
    Rigorous,
    complete_listed_problems,
    complete_listed_solvers,
    err,
    marked,
    out,
    print_json,
    print_table,
    say,
    table,
)
from sdpfeas.errors import FileFormatError, OptionError
from sdpfeas.escaping import escape_terminal
from sdpfeas.files import writing
from sdpfeas.study.cells import FAILED, Clock, Retry, Settings


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

Studies = Annotated[
    list[Path], Argument(metavar="STUDY...", help="Studies: databases, or the study files that name them.")
]
Axis = Annotated[
    str | None,
    Option(help="Swept parameter, or size, that times are drawn against; default: the one with most values."),
]

#: Exit codes of ``diff``: something became worse, or verdicts contradict each other.
REGRESSION, CONTRADICTION = 1, 3


def compare(
    study: Annotated[
        Path | None, Argument(metavar="[STUDY.toml]", help="A study file; flags override its keys.")
    ] = None,
    solvers: Annotated[
        list[str] | None,
        Option(
            help="Names, cards or patterns; comma-separated or repeated; 'all' for every backend.",
            autocompletion=complete_listed_solvers,
        ),
    ] = None,
    problems: Annotated[
        list[str] | None,
        Option(
            help="Files, cards or patterns; comma-separated or repeated.",
            autocompletion=complete_listed_problems,
        ),
    ] = None,
    seeds: Annotated[int | None, Option(help="Number of seeds, from 0 (1).")] = None,
    time_limit: Annotated[float | None, Option("--time-limit", "-t", help="Seconds per cell (60).")] = None,
    memory_limit: Annotated[str | None, Option(help="Memory per cell, such as 4G (4G).")] = None,
    threads: Annotated[int | None, Option(help="Threads per cell (1).")] = None,
    rigorous: Annotated[
        bool | None, Option("--rigorous", help="Reject numeric verdicts: proofs only.")
    ] = None,
    tol: Annotated[float | None, Option(help="Relative width of the bracket of a family (0.001).")] = None,
    jobs: Annotated[int | None, Option("--jobs", "-j", help="Cells run in parallel.")] = None,
    out: Annotated[Path | None, Option("--out", "-o", help="Database of the study (study.db).")] = None,
    retry: Annotated[Retry | None, Option(help="Compute these finished cells again.")] = None,
    keep_evidence: Annotated[
        bool | None, Option("--keep-evidence", help="Store points and certificates too.")
    ] = None,
    engine: Annotated[Where | None, Option(help="Engine that runs the cells (local).")] = None,
    scheduler: Annotated[str | None, Option(help="Address of the Dask scheduler.")] = None,
    joblib_backend: Annotated[
        str | None, Option(help="The joblib backend, with --engine joblib (loky).")
    ] = None,
    report: Annotated[Path | None, Option(help="Write an HTML report here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare solvers on problems, given by a study file or by flags.

    Run the same command again to continue: finished cells are kept.

    Examples:
    sdpfeas compare study.toml
    sdpfeas compare --solvers all --problems 'problems/*.toml'
    sdpfeas compare --solvers clarabel,scs --problems a.npz --problems b.dat-s --seeds 5 --report report.html
    """
    given = {name: value for name, value in locals().items() if name not in ("study", "as_json")}
    flags: dict[str, Any] = {k: str(v) if isinstance(v, Path) else v for k, v in given.items()}
    asked = lib.Study((), (), lib.StudyOptions()) if study is None else lib.read_study(study)
    asked = asked.overridden(**flags)
    options, plan = asked.options, asked.plan()
    for name, why in plan.skipped.items():
        err().print(f"[yellow]skipped[/] {escape_terminal(name)}: {escape_terminal(why)}")
    with lib.Store(options.out) as store, closing(asked.open_engine()) as chosen:
        again = None if options.retry is None else Retry(options.retry)
        computed = lib.run_with_progress(store, plan, chosen, again, keep_evidence=options.keep_evidence)
        if options.report is not None:
            _write_report(lib.render_html(store), Path(options.report))
        _print_study(store, plan, options.out, computed, as_json)
    if options.report is not None and not as_json:
        say("report: {}", options.report)


def judge(
    problems: Annotated[
        str,
        Argument(
            metavar="PROBLEMS", help="A problem file or card, a folder, a pattern, or several with commas."
        ),
    ],
    answers: Annotated[
        Path,
        Argument(
            metavar="ANSWERS",
            help="A solution file of CSDP, SDPA, SeDuMi (.mat) or sdpfeas (.npz), or a folder of them.",
        ),
    ],
    solver: Annotated[str, Option(help="Name of the solver.")],
    version: Annotated[str, Option(help="Its version.")] = "",
    output: Annotated[Path, Option("--out", "-o", help="Database of the study.")] = Path("study.db"),
    told: Annotated[
        Path | None,
        Option(
            "--table",
            help="CSV file with the columns name, seconds, status, claim; default: ANSWERS/answers.csv.",
        ),
    ] = None,
    seconds: Annotated[float | None, Option(help="Seconds of every answer whose time is not told.")] = None,
    side: Annotated[str, Option(help="Side of SDPA and SeDuMi files: primal or lmi.")] = "primal",
    time_limit: Annotated[
        float, Option("--time-limit", "-t", help="Seconds that the solver was given.")
    ] = 60.0,
    rigorous: Rigorous = False,
    as_json: AsJson = False,
) -> None:
    """Verify answers of a solver that cannot run here, and store them as its cells of a study.

    Answers belong to problems of the same name. A malformed file is an error of its cell.

    Examples:
    sdpfeas judge sdplib/ answers/ --solver mosek --version 11 --out study.db
    sdpfeas judge p.dat-s p.sol --solver copt --seconds 1.5
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
    data, wanted = lib.StudyData(store), {cell.key for cell in plan.cells}
    summary: dict[str, Counter[str]] = {cell.solver.name: Counter() for cell in plan.cells}
    for cell in data.all_cells:
        if cell["key"] in wanted and cell["solver"] in summary:
            summary[cell["solver"]][cell.get("shown") or "missing"] += 1
    if as_json:
        print_json({"study": path, "cells": len(plan.cells), "computed": computed, "solvers": summary})
        return
    _print_verdicts(data, plan)
    words = ("feasible", "infeasible", "bracket", "undecided", *FAILED, "missing")
    used = [word for word in words if any(word in tally for tally in summary.values())]
    rows = [[name, *(tally.get(word, "") for word in used)] for name, tally in summary.items()]
    print_table(["solver", *used], rows, numbers=True)
    for line in lib.headlines(data, escape_terminal):
        out().print(line)
    say("{} cells computed, {} reused: {}", computed, len(plan.cells) - computed, path)


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


def report(
    studies: Studies,
    output: Annotated[
        Path | None, Option("--output", "-o", help="File to write; - for standard output.")
    ] = None,
    form: Annotated[Format, Option("--format", help="html or md.")] = Format.html,
    figures: Annotated[
        Path | None, Option(help="Write the charts as PNG and SVG into this folder too.")
    ] = None,
    clock: Annotated[Clock, Option(help="Time that is compared.")] = Clock.wall,
    axis: Axis = None,
    history: Annotated[bool, Option("--history", help="Show earlier versions of the solvers, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a report on one or more studies: one file that works offline.

    Examples:
    sdpfeas report study.db -o report.html
    sdpfeas report study.db --format md --clock processor
    sdpfeas report study.db --figures figures/
    """
    with _opened(studies) as store:
        if not store.cells(texts=False):
            raise FileFormatError(f"{studies[0]}: the study has no cells")
        render = lib.render_html if form is Format.html else lib.render_markdown
        text = render(store, clock, axis, history=history)
        if output == Path("-"):
            typer.echo(text)
            return
        written = [output or Path(f"report.{form.value}")]
        _write_report(text, written[0])
        if figures is not None:
            written += lib.write_figures(lib.StudyData(store, clock, axis), figures)
    if as_json:
        print_json({"written": written})
        return
    for path in written:
        say("written: {}", path)


def _write_report(text: str, path: Path) -> None:
    with writing(path):
        path.write_text(text, encoding="utf-8")


def _open(study: Path) -> lib.Store:
    """Open a study for reading, given by its database or by its study file."""
    return lib.Store(_database(study), readonly=True)


def _database(study: Path) -> Path:
    return Path(lib.read_study(study).options.out) if study.suffix == ".toml" else study


@contextmanager
def _opened(studies: list[Path]) -> Iterator[lib.Store]:
    """Open a study, or several merged into a temporary one."""
    if len(studies) == 1:
        with _open(studies[0]) as store:
            yield store
        return
    with tempfile.TemporaryDirectory() as folder, lib.Store(Path(folder) / "merged.db") as store:
        _merge(studies, store)
        yield store


def _merge(studies: list[Path], store: lib.Store) -> None:
    for study in studies:
        with _open(study) as other:
            store.absorb(other)


def scaling(
    results: Annotated[
        list[Path],
        Argument(metavar="RESULTS", help="JSON files of pytest-benchmark, studies or study files."),
    ],
    axis: Axis = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Draw a figure: a .svg, .png or .pdf file.")
    ] = None,
    clock: Annotated[Clock, Option(help="Time that is taken from studies.")] = Clock.wall,
    as_json: AsJson = False,
) -> None:
    """Fit how times grow with a swept parameter, all other parameters fixed.

    The exponent is that of a power law, with its 95 % confidence interval.

    Examples:
    sdpfeas scaling results.json
    sdpfeas scaling results.json --axis n -o scaling.svg
    sdpfeas scaling study.db
    """
    measured = []
    for path in results:
        if path.suffix == ".json":
            measured += lib.read_benchmarks(path)
        else:
            with _open(path) as store:
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
    rows = [
        (r["problems"], r["axis"], r["solver"], f"{r['exponent']:.2f}",
         "{:.2f} to {:.2f}".format(*r["interval"]), r["points"])
        for r in facts
    ]  # fmt: skip
    print_table(["problems", "axis", "solver", "exponent", "95 % interval", "points"], rows)
    if output is not None:
        say("written: {}", output)


def merge(
    studies: Studies,
    output: Annotated[Path, Option("--output", "-o", help="The study to write to.")],
    as_json: AsJson = False,
) -> None:
    """Merge studies into one; every cell is kept once.

    Of two records of a cell the finished one is kept, of two finished ones the earlier.

    Examples:
    sdpfeas merge a.db b.db -o all.db
    """
    if output.exists() and any(output.samefile(_database(study)) for study in studies):
        raise OptionError(f"{output} is one of the studies to merge; write to another file")
    with lib.Store(output) as store:
        _merge(studies, store)
        count = len(store.cells(texts=False))
    if as_json:
        print_json({"written": output, "cells": count})
    else:
        say("{} cells in {}", count, output)


def diff(
    old: Annotated[Path, Argument(metavar="OLD", help="A study, or the only one.")],
    new: Annotated[
        Path | None,
        Argument(metavar="[NEW]", help="Another study; without it, versions within the first are compared."),
    ] = None,
    old_version: Annotated[
        str | None, Option("--old", help="Version, or beginning of its hash; default: the last but one.")
    ] = None,
    new_version: Annotated[
        str | None, Option("--new", help="Version, or beginning of its hash; default: the last.")
    ] = None,
    threshold: Annotated[float, Option(help="Least ratio of times that counts.")] = 1.1,
    clock: Annotated[Clock, Option(help="Time that is compared.")] = Clock.processor,
    as_json: AsJson = False,
) -> None:
    """Compare two studies, or two versions of the solvers in one study.

    Reports per problem what became faster or slower beyond noise, and which verdicts changed.

    Exit codes: 0 nothing became worse, 1 a regression, 2 error, 3 verdicts contradict each other.

    Examples:
    sdpfeas diff study.db
    sdpfeas diff old.db new.db --threshold 1.3
    """
    histories = []
    for study in (old, new or old):
        with _open(study) as store:
            histories.append(store.history())
    before, after = histories
    pairs = _versions_to_compare(before, after, old_version, new_version, within=new is None)
    found = [lib.compare_cells(*pair, threshold=threshold, clock=clock) for pair in pairs]
    differences = [each for part, _ in found for each in part]
    trends = [each for _, part in found for each in part]
    if not differences:
        raise FileFormatError("there is nothing to compare: no solver ran on one problem in two versions")
    changes = [each.change for each in differences] + [each.change for each in trends]
    worse = [change for change in changes if change.worse]
    if as_json:
        print_json({"differences": differences, "solvers": trends})
    else:
        _print_differences(differences, trends)
    if "contradiction" in worse:
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
    rows = []
    for each in sorted(changed, key=lambda each: (each.change.rank, -abs(each.ratio - 1.0))):
        change = marked("[red]{}[/]" if each.change.worse else "[green]{}[/]", each.change)
        ratio = "" if math.isnan(each.ratio) else f"{each.ratio:.2f} ×"
        rows.append((each.solver, each.problem, change, each.old, each.new, ratio, each.pairs))
    if rows:
        print_table(["solver", "problem", "change", "old", "new", "time", "seeds"], rows)
    same = len(differences) - len(changed)
    say(f"{len(changed)} of {len(differences)} pairs of solver and problem changed, {same} did not.")
    for each in trends:
        test = f"p = {each.p_value:.2g}" if each.p_value < 1.0 else "too few for a test"
        times = f"new times are {each.ratio:.2f} × the old ones on {each.pairs} instances ({test})."
        say("{}: {}; {}", each.solver, each.change, times)


def export(
    study: Annotated[
        Path, Argument(metavar="STUDY", help="A study: its database, or the study file that names it.")
    ],
    output: Annotated[Path, Option("--output", "-o", help="A .csv, .json or .parquet file.")],
    history: Annotated[
        bool, Option("--history", help="Include cells of earlier versions of the solvers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the data of a study as a flat table.

    Examples:
    sdpfeas export study.db -o study.csv
    """
    with _open(study) as store:
        count = lib.write_table(store, output, history=history)
    if as_json:
        print_json({"written": output, "cells": count})
    else:
        say("{} cells written to {}", count, output)
