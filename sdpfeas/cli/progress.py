"""Run a study with a live display: counts of verdicts per solver, running problems and the time left."""

from __future__ import annotations

import shlex
import statistics
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

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
    """The display of a running study, a bar per solver: a listener of the runner and a context manager.

    ``done`` holds the keys of cells that will not be computed. Unless the console is a terminal, only every
    tenth of the progress is printed.
    """

    def __init__(self, plan: Plan[Any], done: Collection[str], console: Console) -> None:
        self._bars = Progress(
            TextColumn("[bold]{task.description}[/]"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[about]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        names = [cell.solver.name for cell in plan.cells if cell.key not in done]
        self._all = self._bars.add_task("study", total=len(names), about="")
        self._rows = {
            name: self._bars.add_task(escape_terminal(name), total=total, about="")
            for name, total in Counter(names).items()
        }
        self._tally: dict[str, Counter[str]] = defaultdict(Counter)
        self._times: dict[str, list[float]] = defaultdict(list)
        self._lock = threading.Lock()

    def __enter__(self) -> StudyProgress:
        """Start the live display."""
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the live display."""
        self._bars.stop()

    def __call__(self, cell: Cell[Any, Any], record: Record | None) -> None:
        """Count a cell that starts (no record) or ends."""
        name = cell.solver.name
        with self._lock:
            tally, times = self._tally[name], self._times[name]
            if record is not None:
                failed = record.outcome in FAILED
                tally["failed" if failed else record.verdict] += 1
                if not failed:
                    times.append(record.solve_time)
                self._bars.advance(self._all)
                self._bars.advance(self._rows[name])
                self._print_tenth()
            about = [f"{count} {word}" for word, count in tally.items()]
            about += [f"median {format_time(statistics.median(times))}"] if times else []
            about += [f"[dim]{escape_terminal(cell.problem.label)}[/]"] if record is None else []
            self._bars.update(self._rows[name], about=", ".join(about))

    def _print_tenth(self) -> None:
        """Print a line for every tenth of the study where there is no live display."""
        study = self._bars.tasks[self._all]
        if self._bars.disable and (study.finished or study.completed % max((study.total or 0) // 10, 1) == 0):
            left = "" if study.finished else f", {timedelta(seconds=int(study.time_remaining or 0))} to go"
            self._bars.console.print(f"{study.completed:.0f}/{study.total:.0f} cells{left}")
