"""Run a study with a live display: counts of verdicts per solver, running cells and the time left."""

from __future__ import annotations

import shlex
import statistics
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sdpfeas.cli.console import err
from sdpfeas.escaping import escape_terminal
from sdpfeas.study.cells import FAILED, Cell, Plan, Record, Retry
from sdpfeas.study.engines import Engine
from sdpfeas.study.report.study_data import format_time
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Store

__all__ = ["StudyProgress", "run_with_progress"]


def run_with_progress(
    store: Store,
    plan: Plan[Any],
    engine: Engine,
    retry: Retry | None,
    *,
    keep_evidence: bool = False,
    command: str | None = None,
) -> int:
    """Run the missing cells of a study and show progress; return how many were computed.

    ``keep_evidence`` stores points and certificates. ``command`` is the command line recorded with the run
    (default: that of this process).
    """
    if again := len(store.crashed() & {cell.key for cell in plan.cells}):
        err().print(f"{again} {'cell' if again == 1 else 'cells'} whose worker died: running again")
    progress = StudyProgress(plan, store.kept(retry), err())
    runner = Runner(store, plan, engine, keep_evidence=keep_evidence, listener=progress)
    try:
        with progress:
            return runner.run(command=command or shlex.join(["sdpfeas", *sys.argv[1:]]), retry=retry)
    except KeyboardInterrupt:
        where = escape_terminal(store.path)
        err().print(f"[yellow]stopped[/]; finished cells are in {where}. Run the same command to continue.")
        raise


class StudyProgress:
    """The display of a running study: a listener of the runner and a context manager.

    ``done`` holds the keys of cells that will not be computed. Unless the console is a terminal, only every
    tenth of the progress is printed.
    """

    def __init__(self, plan: Plan[Any], done: Collection[str], console: Console) -> None:
        todo = {cell.key: cell for cell in plan.cells if cell.key not in done}
        self._lock = threading.Lock()
        self._console = console
        self._todo = max(len(todo), 1)
        self._totals = Counter(cell.solver.name for cell in todo.values())
        self._tally: dict[str, Counter[str]] = defaultdict(Counter)
        self._times: dict[str, list[float]] = defaultdict(list)
        self._running: dict[str, tuple[Cell[Any, Any], float]] = {}
        self._begin = time.monotonic()
        self._done = 0
        self._bar = Progress(
            TextColumn("[bold]study[/]"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[eta]}"),
            console=console,
        )
        self._task = self._bar.add_task("", total=len(todo), eta="")
        self._live: Live | None = None

    def __enter__(self) -> StudyProgress:
        """Start the live display."""
        if self._console.is_terminal:
            self._live = Live(self, console=self._console, refresh_per_second=4)
            self._live.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        """Stop the live display."""
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def __call__(self, cell: Cell[Any, Any], record: Record | None) -> None:
        """Count a cell that starts (no record) or ends."""
        with self._lock:
            if record is None:
                self._running[cell.key] = (cell, time.monotonic())
                return
            self._running.pop(cell.key, None)
            self._done += 1
            failed = record.outcome in FAILED
            self._tally[cell.solver.name]["failed" if failed else record.verdict] += 1
            if not failed:
                self._times[cell.solver.name].append(record.solve_time)
            self._bar.update(self._task, completed=self._done, eta=self._eta())
            tenth = max(self._todo // 10, 1)
            if self._live is None and (self._done % tenth == 0 or self._done == self._todo):
                self._console.print(f"{self._done}/{self._todo} cells, {self._eta()}".rstrip(", "))

    def _eta(self) -> str:
        if not self._done or self._done >= self._todo:
            return ""
        left = (time.monotonic() - self._begin) / self._done * (self._todo - self._done)
        minutes, seconds = divmod(int(left), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02} to go"

    def __rich__(self) -> RenderableType:
        """Render the current state."""
        with self._lock:
            shown = Table(box=None, pad_edge=False, header_style="bold")
            for column in (
                "solver",
                "feasible",
                "infeasible",
                "bracket",
                "undecided",
                "failed",
                "left",
                "median",
            ):
                shown.add_column(column, justify="left" if column == "solver" else "right")
            for name, total in self._totals.items():
                tally = self._tally[name]
                times = self._times[name]
                shown.add_row(
                    escape_terminal(name),
                    *(str(tally[word] or "") for word in ("feasible", "infeasible", "bracket", "undecided")),
                    f"[red]{tally['failed']}[/]" if tally["failed"] else "",
                    str(total - tally.total()),
                    format_time(statistics.median(times)) if times else "",
                )
            now = time.monotonic()
            running = [
                f"[dim]{escape_terminal(f'{cell.solver.name} on {cell.problem.label}')}: "
                f"{now - since:.0f} s[/]"
                for cell, since in list(self._running.values())[:6]
            ]
            return Group(shown, *running, self._bar)
