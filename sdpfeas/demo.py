"""A short tour: every backend available here on six small problems, and a report about it.

Run it as ``python -m sdpfeas.demo``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sdpfeas.backends.registry import backends
from sdpfeas.errors import SdpfeasError
from sdpfeas.escaping import in_terminal
from sdpfeas.study.engines import LocalEngine
from sdpfeas.study.plan import make_plan
from sdpfeas.study.report import render_html
from sdpfeas.study.report.study_data import MatrixCell, StudyData, headlines
from sdpfeas.study.runner import Runner
from sdpfeas.study.settings import Settings
from sdpfeas.study.store import Store

__all__ = ["main"]

#: Three problems of worst-case discriminant analysis on bundled data, at a ratio just below or above the
#: best one, and three generic ones: a sweep of sizes, an infeasible one, and a graph.
CARDS = {
    "wlda-iris": 'family = "wlda"\ndelta = 9.5\n[data]\ndataset = "iris"\n',
    "wlda-wine": 'family = "wlda"\ndelta = 16.6\n[data]\ndataset = "wine"\nstandardize = true\n',
    "wlda-cancer": 'family = "wlda"\ndelta = 13.0\n[data]\ndataset = "breast_cancer"\nstandardize = true\n',
    "feasible": 'family = "planted"\n[options]\nsets = "psd"\nseed = 1\n'
    "[sweep]\nn = [8, 12, 16, 24, 32, 48]\n",
    "infeasible": 'family = "planted"\n[options]\nsets = "box"\nfeasible = false\nn = 12\nseed = 1\n',
    "pentagon": 'family = "theta"\ndelta = 2.2\n[options]\ngraph = "cycle"\nn = 5\n',
}

#: Seconds a cell; with two jobs this keeps the whole tour below a minute.
TIME_LIMIT = 3.0

REPORT = Path("demo-report.html")

MARKS = {"feasible": ("✓", "green"), "infeasible": ("✕", "blue"), "undecided": ("?", "yellow")}


def main() -> None:
    """Run the tour, print a table and write the report."""
    console = Console()
    begin = time.monotonic()
    solvers = [name for name, info in backends().items() if info.available]
    console.print(f"[bold]sdpfeas demo[/]: {', '.join(solvers)} on {len(CARDS)} problem cards")
    with tempfile.TemporaryDirectory() as folder:
        cards = []
        for name, text in CARDS.items():
            cards.append(Path(folder) / f"{name}.toml")
            cards[-1].write_text(text, encoding="utf-8")
        plan = make_plan(solvers, [str(card) for card in cards], 1, Settings(time_limit=TIME_LIMIT))
        engine = LocalEngine(2)
        try:
            with Store(Path(folder) / "demo.db") as store:
                Runner(store, plan, engine).run(command="python -m sdpfeas.demo")
                REPORT.write_text(render_html(store), encoding="utf-8")
                data = StudyData(store)
        finally:
            engine.close()
    console.print(_table(data))
    for line in headlines(data, in_terminal):
        console.print(line, highlight=False)
    console.print(f"{time.monotonic() - begin:.0f} s; the report: {REPORT}")


def _table(data: StudyData) -> Table:
    shown = Table(
        box=None,
        pad_edge=False,
        collapse_padding=True,
        header_style="bold",
        caption="milliseconds; verified: ✓ feasible, ✕ infeasible, ? undecided, ! failed",
        caption_justify="left",
    )
    shown.add_column("problem", no_wrap=True)
    for solver in data.solvers:
        shown.add_column(solver, justify="right", no_wrap=True)
    for problem in data.problems:
        cells = [data.matrix[problem].get(solver) for solver in data.solvers]
        shown.add_row(in_terminal(problem), *("" if cell is None else _mark(cell) for cell in cells))
    return shown


def _mark(cell: MatrixCell) -> str:
    verdict = next(iter(cell.verdicts))
    symbol, style = MARKS.get(verdict, ("!", "red"))
    lie = "[red]lie[/] " if cell.lies else ""
    return f"{lie}[{style}]{symbol}[/] {1e3 * (cell.time or 0.0):.0f}"


if __name__ == "__main__":
    try:
        main()
    except SdpfeasError as error:
        sys.exit(f"error: {error}")
