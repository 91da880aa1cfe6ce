"""Run the missing cells of a study: take cells from the store, run and verify them, store the records.

Several runners, on any number of machines, may work on the same store. The entry point is :meth:`Runner.run`.
"""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sdpfeas.errors import SdpfeasError, StudyError
from sdpfeas.io.result_files import package_versions
from sdpfeas.study.cells import Cell, Plan, Record, Retry
from sdpfeas.study.engines import Engine
from sdpfeas.study.store import Store
from sdpfeas.trials.trial import Interrupted

#: Seconds between heartbeats, and between checks whether other runners have finished their cells.
HEARTBEAT_SECONDS, POLL_SECONDS = 5.0, 0.3

#: Called with a cell when it starts (record None) and when it ends.
Listener = Callable[[Cell[Any, Any], Record | None], None]


class Runner:
    """Runs the missing cells of a study from this process.

    ``keep_evidence`` stores points and certificates. ``listener`` is called for every cell that starts or
    ends.
    """

    def __init__(
        self,
        store: Store,
        plan: Plan[Any],
        engine: Engine,
        *,
        keep_evidence: bool = False,
        listener: Listener | None = None,
    ) -> None:
        self.store = store
        self.plan = plan
        self.engine = engine
        self.keep_evidence = keep_evidence
        self.listener = listener or (lambda _cell, _record: None)
        self._cells = {cell.key: cell for cell in plan.cells}
        self._stop = threading.Event()
        self._stop_requested = False

    def run(self, *, command: str = "", retry: str | None = None) -> int:
        """Compute all missing cells of the plan; return how many this run computed.

        As many threads as the engine has jobs take cells until none is left. On an interrupt the workers are
        killed, unfinished cells are returned to the store, and the interrupt is raised again.
        ``command`` is recorded. ``retry`` (``"failed"``, ``"undecided"`` or ``"all"``) selects finished cells
        to compute again. Raises StudyError if the database or the engine is lost, or cells remain.
        """
        again = None if retry is None else Retry(retry)
        where = {**describe_environment(), "skipped": dict(self.plan.skipped)}
        self.store.begin_run(self.plan, command, where, again)
        done: list[str] = []
        jobs = min(self.engine.jobs, max(self.store.left(), 1))
        with ThreadPoolExecutor(jobs + 1) as threads:
            serving = [threads.submit(self._serve, done) for _ in range(jobs)]
            tasks = [*serving, threads.submit(self._send_heartbeats)]
            for task in tasks:
                task.add_done_callback(self._stop_on_failure)
            try:
                with _terminable():
                    wait(serving)
            finally:
                self._stop.set()
                wait(tasks)
                with suppress(StudyError):  # seen below
                    self.store.end_run()
        failures = [failure for task in tasks if (failure := task.exception()) is not None]
        for failure in failures:
            if not isinstance(failure, StudyError):
                raise failure
        if failures or not self._stop_requested:
            self._require_complete(failures[:1])
        return len(done)

    def _stop_on_failure(self, task: Future[None]) -> None:
        if task.exception() is not None:
            self._stop.set()

    def stop(self) -> None:
        """Stop the run from another thread: kill the workers and return unfinished cells to the store."""
        self._stop_requested = True
        self._stop.set()

    def _require_complete(self, because: list[BaseException]) -> None:
        """Check with a new connection that all cells are stored: the database file may have been replaced."""
        try:
            self.store.require_same_file()
            with Store(self.store.path, readonly=True) as seen:
                missing = len(self._cells.keys() - seen.finished())
        except SdpfeasError as error:
            raise (*because, error)[0] from None
        if missing:
            count = f"{missing} of {len(self._cells)} cells are still open"
            reasons = "".join(f"{reason}; " for reason in because)
            raise StudyError(f"{reasons}{count} in {self.store.path}; run the same command to continue")

    def _send_heartbeats(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            self.store.heartbeat()

    def _serve(self, done: list[str]) -> None:
        warm_for = ""
        while not self._stop.is_set():
            key = self.store.take(warm_for)
            if key is None:
                if not self.store.left():
                    return
                self._stop.wait(POLL_SECONDS)
                self.store.release_dead()
                continue
            cell = self._cells[key]
            warm_for = cell.solver.key
            try:
                self._compute(cell)
            except BaseException as error:
                with suppress(StudyError):  # report the first failure
                    self.store.give_back(key)
                if isinstance(error, Interrupted):
                    return
                raise
            done.append(key)

    def _compute(self, cell: Cell[Any, Any]) -> None:
        self.listener(cell, None)
        known = self.plan.known(cell, self.store)
        if known is None:
            run = self.engine.run(self.plan.trial(cell), self._stop)
            known = self.plan.judge(cell, run, keep_evidence=self.keep_evidence)
        record, evidence = known
        self.store.finish(cell.key, record, evidence)
        self.listener(cell, record)


@contextmanager
def _terminable() -> Any:
    """Handle SIGTERM as an interrupt, so that workers are killed and cells returned."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# --- environment of a run


def describe_environment() -> dict[str, Any]:
    """Describe the machine, package versions, BLAS and git revision as plain data."""
    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "versions": package_versions(),
        "blas": _blas(),
        "revision": _revision(),
    }


def _cpu() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _blas() -> str:
    with suppress(Exception):
        found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{found['name']} {found['version']}"
    return "unknown"


def _revision() -> str:
    """Git revision of the checkout that the library runs from; empty if it is installed."""
    root = Path(__file__).parent.parent.parent
    if not (root / ".git").exists():
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    return ""
