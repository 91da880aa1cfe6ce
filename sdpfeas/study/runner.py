"""Runs what is missing of a study: takes cells, has them run and judged, and stores them."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sdpfeas.errors import SdpfeasError, StudyError
from sdpfeas.io.result_files import package_versions
from sdpfeas.study.cells import Cell, Plan, Record, Retry
from sdpfeas.study.engines import Engine, Slot
from sdpfeas.study.store import Store
from sdpfeas.trials.trial import Interrupted

#: Seconds between two signs of life, and between two looks at whether another runner is done.
HEARTBEAT, PATIENCE = 5.0, 0.3

#: Called with a cell when it starts (no record) and when it is done.
Listener = Callable[[Cell[Any, Any], Record | None], None]


class Runner:
    """One process working on a study.

    ``keep_evidence``: whether to store points and certificates. ``listener``: told about every cell that
    starts and ends.
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
        self._told_to_stop = False
        self._failures: list[BaseException] = []

    def run(self, *, command: str = "", retry: str | None = None) -> int:
        """Compute every cell that is missing, and return how many this run computed.

        On an interrupt the workers are killed, what was under way is given back, and the interrupt goes on.
        Afterwards every cell of the plan is finished, unless :meth:`stop` was called.

        ``command``: what was asked for, for the record. ``retry``: ``"failed"``, ``"undecided"`` or
        ``"all"``: finished cells to compute again.

        Raises ``StudyError``: if the database or the engine was lost, or cells are left for another reason.
        """
        again = None if retry is None else Retry(retry)
        where = {**describe_environment(), "skipped": dict(self.plan.skipped)}
        self.store.begin_run(self.plan, command, where, again)
        done: list[str] = []
        slots = min(self.engine.jobs, max(self.store.open_cells().get("pending", 0), 1))
        serving = [_Activity(self._failing, self._serve, done) for _ in range(slots)]
        pulse = _Activity(self._failing, self._beat)
        try:
            with _terminable():
                for activity in (*serving, pulse):
                    activity.start()
                for activity in serving:
                    activity.wait()
        finally:
            self._stop.set()
            for activity in (*serving, pulse):
                activity.wait()
            with suppress(StudyError):  # seen below
                self.store.end_run()
        for failure in self._failures:
            if not isinstance(failure, StudyError):
                raise failure
        if self._failures or not self._told_to_stop:
            self._require_complete(self._failures[:1])
        return len(done)

    def stop(self) -> None:
        """Stop from another thread: workers are killed, and what was under way is given back."""
        self._told_to_stop = True
        self._stop.set()

    def _require_complete(self, because: list[BaseException]) -> None:
        """Look with fresh eyes: what this process has written may have gone to a file that is no more."""
        try:
            self.store.require_same_file()
            with Store(self.store.path, readonly=True) as seen:
                missing = len(self._cells.keys() - seen.finished())
        except SdpfeasError as error:
            raise (*because, error)[0] from None
        if missing:
            count = f"{missing} of {len(self._cells)} cells are still open"
            reasons = "".join(f"{reason}; " for reason in because)
            raise StudyError(f"{reasons}{count} in {self.store.path}; run the same command to go on")

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT):
            self.store.heartbeat()

    def _failing(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do something on a thread; what ends it ends the run."""
        try:
            work(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self._failures.append(error)
            self._stop.set()

    def _serve(self, done: list[str]) -> None:
        slot = self.engine.open_slot()
        warm_for = ""
        try:
            while not self._stop.is_set():
                key = self.store.take(warm_for)
                if key is None:
                    if not self.store.left():
                        return
                    self._stop.wait(PATIENCE)
                    self.store.release_dead()
                    continue
                warm_for = self._cells[key].solver.key
                try:
                    self._compute(self._cells[key], slot)
                except BaseException as error:
                    with suppress(StudyError):  # the first failure is the one to tell of
                        self.store.give_back(key)
                    if isinstance(error, Interrupted):
                        return
                    raise
                done.append(key)
        finally:
            slot.close()

    def _compute(self, cell: Cell[Any, Any], slot: Slot) -> None:
        self.listener(cell, None)
        record, evidence = self.plan.known_record(cell, self.store), None
        if record is None:
            run = slot.run(self.plan.trial(cell), self._stop)
            record, evidence = self.plan.judge(cell, run, keep_evidence=self.keep_evidence)
        self.store.finish(cell.key, record, evidence)
        self.listener(cell, record)


class _Activity:
    """A thread that can be waited for after an interrupt: a join that was interrupted may not wait again."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self._work = partial(work, *arguments)
        self._over = threading.Event()
        self._over.set()

    def start(self) -> None:
        self._over.clear()
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self) -> None:
        while not self._over.wait(0.2):  # in pieces, so that a signal is heard
            pass

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._over.set()


@contextmanager
def _terminable() -> Any:
    """Treat a termination signal like an interrupt, so that workers and cells are cleaned up."""
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


# ------------------------------------------------------------
# Where a study ran: machine, versions, numerical libraries, revision.


def describe_environment() -> dict[str, Any]:
    """Machine, processor, versions, BLAS and git revision, as plain data."""
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
    """Revision of the checkout the library runs from; empty for an installed one."""
    root = Path(__file__).parent.parent.parent
    if not (root / ".git").exists():
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    return ""
