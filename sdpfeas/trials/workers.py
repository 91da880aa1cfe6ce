"""Run trials in worker processes, with enforced limits of time and memory.

:class:`Worker` runs one trial at a time, :class:`WorkerPool` keeps workers for similar trials.
:func:`run_once` uses a new process. :func:`run_shared` uses the pool of this process, which isolated solves
and the cells of studies share. Idle workers end after a while, because nothing signals the last trial.

A worker is a child of a supervisor (:mod:`~sdpfeas.trials.worker_main`), which leaves no process behind.
Messages from a worker are unpickled without classes, so foreign code in a worker cannot run code here.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sdpfeas.errors import SdpfeasError, safe_text
from sdpfeas.trials import worker_main
from sdpfeas.trials.trial import End, Interrupted, Run, Trial, thread_environment
from sdpfeas.trials.worker_main import LENGTH_BYTES, encode_message

#: Bytes of a log that are kept at its beginning and at its end.
LOG_HEAD, LOG_TAIL = 48_000, 16_000


class Log:
    """The output of a trial in bounded memory: its beginning, its end, and the size of the part between.

    ``mark`` in the output discards all output before it, which belongs to an earlier trial or to the setup.
    Without a mark everything is kept, such as the messages of a worker that failed to start.
    """

    def __init__(self, mark: bytes = b"") -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.dropped = 0
        self._mark = mark
        self._recent = b""

    def feed(self, data: bytes) -> None:
        """Append output."""
        if self._mark:
            seen = self._recent + data
            _, found, rest = seen.rpartition(self._mark)
            if found:
                self.head.clear()
                self.tail.clear()
                self.dropped = 0
                seen = data = rest
            self._recent = seen[1 - len(self._mark) :]
        free = LOG_HEAD - len(self.head)
        self.head += data[:free]
        self.tail += data[free:]
        if len(self.tail) > 2 * LOG_TAIL:
            self.dropped += len(self.tail) - LOG_TAIL
            del self.tail[:-LOG_TAIL]

    def text(self) -> str:
        """The kept output as text."""
        text = self.head.decode("utf-8", "replace")
        if self.dropped or len(self.tail) > LOG_TAIL:
            cut = self.dropped + max(len(self.tail) - LOG_TAIL, 0)
            text += f"\n[… {cut:,} bytes left out …]\n"
        return text + self.tail[-LOG_TAIL:].decode("utf-8", "replace")


#: Seconds between measurements of the memory of a worker, and of the worker with its descendants.
MEMORY_POLL_SECONDS, TREE_POLL_SECONDS = 0.025, 0.25

#: A worker is replaced after so many trials, which bounds the effect of memory leaks.
TRIALS_PER_WORKER = 500

#: Message of Rust programs, such as Clarabel, whose allocation failed.
ALLOCATION_FAILED = re.compile(r"memory allocation of (\d+) bytes failed")


class Worker:
    """A worker process that runs trials one after the other and ends with this process.

    ``threads`` limits its numerical libraries.
    """

    def __init__(self, threads: int | None) -> None:
        if os.name != "posix":
            raise SdpfeasError("isolated solves, studies and benchmarks need a POSIX system")
        self._served = 0
        self._incoming, self._outgoing = bytearray(), b""
        self._mark = f"\x1e{secrets.token_hex(16)}\x1e"
        self._pid: int | None = None
        control, self._control = os.pipe()
        jobs, self._jobs = os.pipe()
        self._replies, replies = os.pipe()
        self._log, log = os.pipe()
        program = [sys.executable, "-P", worker_main.__file__, str(control), str(jobs), str(replies)]
        self._process = subprocess.Popen(
            [*program, self._mark, json.dumps(_path())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(control, jobs, replies),
            env={**os.environ, **thread_environment(threads), "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        for fd in (control, jobs, replies, log):
            os.close(fd)
        self._selector = selectors.DefaultSelector()
        for fd in (self._jobs, self._replies, self._log):
            os.set_blocking(fd, False)
        for fd in (self._replies, self._log):
            self._selector.register(fd, selectors.EVENT_READ)

    @property
    def fit(self) -> bool:
        """Whether the worker can take another trial."""
        return self._control >= 0 and self._process.poll() is None and self._served < TRIALS_PER_WORKER

    def run(self, trial: Trial, stop: threading.Event | None = None) -> Run:
        """Run a trial under its limits. Failures end this worker and are reported in the run.

        Raises :class:`Interrupted` if ``stop`` is set before the trial ends.
        """
        self._served += 1
        watch = _Monitor(self, trial, stop or threading.Event())
        try:
            return watch.follow()
        except _WorkerLost as lost:
            self.kill()
            return watch.ended(lost.end, lost.detail)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the worker and its descendants; may be called again."""
        if self._control < 0:
            return
        os.close(self._control)
        self._control = -1
        self._process.wait()
        self._selector.close()
        for fd in (self._jobs, self._replies, self._log):
            os.close(fd)

    def exit_description(self) -> str:
        """Describe how the process ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        code = self._process.returncode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"the process died of {signal.Signals(-code).name}"
        return "the process closed its pipe" if code is None else f"the process ended with exit code {code}"

    def memory(self, *, tree: bool) -> int:
        """Resident memory in bytes of the worker, or of the whole process tree."""
        import psutil  # not needed to import solve

        total = 0
        with suppress(psutil.Error):
            if tree:
                found = psutil.Process(self._process.pid).children(recursive=True)
            else:
                found = [] if self._pid is None else [psutil.Process(self._pid)]
            for process in found:
                with suppress(psutil.Error):
                    total += process.memory_info().rss
        return total


def _path() -> list[str]:
    """The module search path of the worker: that of this process, with the current folder last.

    A file in the current folder must not shadow a library, unless PYTHONPATH names the folder.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        return [folder for folder in sys.path if folder]
    explicit = [here / folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    folders = dict.fromkeys(here / folder for folder in sys.path)
    return [str(f) for f in sorted(folders, key=lambda folder: folder == here and folder not in explicit)]


class _PlainReader(pickle.Unpickler):
    """Unpickle numbers, strings, containers and arrays, and refuse all classes and functions.

    A pickle that may name functions can run any code, and foreign code may run in a worker.
    """

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"only plain data may come back from a worker, not {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        import numpy as np  # not needed to import solve

        kind, shape, data = pid
        dtype = np.dtype(str(kind))
        if dtype.kind not in "biufc":
            raise pickle.UnpicklingError(f"arrays hold numbers, not {kind}")
        return np.frombuffer(bytes(data), dtype=dtype).reshape(tuple(shape)).copy()[()]


class _WorkerLost(Exception):
    def __init__(self, end: End, detail: str) -> None:
        super().__init__(detail)
        self.end = end
        self.detail = detail


class _Monitor:
    """Monitors one run: messages, log, time and memory."""

    def __init__(self, worker: Worker, trial: Trial, stop: threading.Event) -> None:
        self._worker = worker
        self._limits = trial.limits
        self._stop = stop
        self._log = Log(worker._mark.encode())
        self._peak = 0
        self._facts: dict[str, Any] | None = None
        self._begin = time.monotonic()
        self._limit: float | None = trial.limits.setup
        self._measured = self._tree_measured = self._begin
        worker._outgoing = encode_message((trial.target, trial.payload))
        worker._selector.register(worker._jobs, selectors.EVENT_WRITE)

    def follow(self) -> Run:
        """Handle messages until the run ends."""
        while True:
            match self._next():
                case ("up", int() as pid):
                    self._worker._pid = pid
                case ("start", float() | int() | None as limit, dict() as facts):
                    self._begin, self._facts = time.monotonic(), facts
                    self._limit = self._limits.time if limit is None else limit
                case ("done" | "error" as kind, value, float() as wall, float() as cpu, int() as peak):
                    self._read_log()
                    self._peak = max(self._peak, peak)
                    if kind == "error":
                        return self.ended(End.ERROR, safe_text(value))
                    return self.ended(End.DONE, "", value=value, wall_time=wall, cpu_time=cpu)
                case _:
                    raise _WorkerLost(End.CRASH, "the worker sent garbage")

    def ended(self, end: End, detail: str, **more: Any) -> Run:
        """Make the run from what was observed."""
        log = self._log.text()
        refused = ALLOCATION_FAILED.search(log)
        if end is End.CRASH and refused is not None and int(refused[1]) > (self._limits.memory or 2**63):
            # One allocation above the limit failed, so memory use stayed low.
            end, detail = End.MEMORY, f"{detail}: {refused[0]}"
        seen = {"wall_time": time.monotonic() - self._begin, "peak_memory": self._peak, "log": log}
        return Run(end, detail, facts=self._facts, **{**seen, **more})

    def _next(self) -> Any:
        """Wait for the next message while enforcing the limits."""
        worker = self._worker
        while True:
            message = self._take()
            if message is not None:
                return message
            if self._stop.is_set():
                raise Interrupted
            if self._limit is not None and time.monotonic() > self._begin + self._limit:
                if self._facts is None:
                    raise _WorkerLost(End.ERROR, f"the process took more than {self._limit:g} s to set up")
                raise _WorkerLost(End.TIMEOUT, f"killed after {self._limit:.4g} s")
            self._check_memory()
            for key, _ in worker._selector.select(MEMORY_POLL_SECONDS):
                if key.fd == worker._log:
                    self._read_log()
                elif key.fd == worker._jobs:
                    self._write()
                elif self._read():
                    message = self._take()  # the last messages may arrive together with the end of the stream
                    if message is None:
                        why = worker.exit_description()
                        self._read_log()
                        raise _WorkerLost(End.CRASH, why)
                    return message

    def _write(self) -> None:
        worker = self._worker
        try:
            sent = os.write(worker._jobs, worker._outgoing[: 1 << 20])
        except BlockingIOError:
            return
        except OSError:  # the worker has ended; the other pipes report it
            sent = len(worker._outgoing)
        worker._outgoing = worker._outgoing[sent:]
        if not worker._outgoing:
            worker._selector.unregister(worker._jobs)

    def _read(self) -> bool:
        """Read the available replies; return True at the end of the stream."""
        try:
            data = os.read(self._worker._replies, 1 << 20)
        except BlockingIOError:
            return False
        self._worker._incoming += data
        return not data

    def _take(self) -> Any:
        buffer = self._worker._incoming
        size = LENGTH_BYTES + int.from_bytes(buffer[:LENGTH_BYTES], "little")
        if len(buffer) < max(size, LENGTH_BYTES + 1):
            return None
        data = bytes(buffer[LENGTH_BYTES:size])
        del buffer[:size]
        try:
            return _PlainReader(io.BytesIO(data)).load()
        except Exception as error:  # noqa: BLE001 - foreign code may send anything
            raise _WorkerLost(End.CRASH, f"the worker sent garbage: {safe_text(error)}") from None

    def _read_log(self) -> None:
        """Read the available output."""
        data = b"?"
        with suppress(BlockingIOError):
            while data:
                data = os.read(self._worker._log, 1 << 16)
                self._log.feed(data)
            with suppress(KeyError):  # unregistered before
                self._worker._selector.unregister(self._worker._log)

    def _check_memory(self) -> None:
        now = time.monotonic()
        if now - self._measured < MEMORY_POLL_SECONDS:
            return
        self._measured = now
        tree = now - self._tree_measured > TREE_POLL_SECONDS
        if tree:
            self._tree_measured = now
        used = self._worker.memory(tree=tree)
        self._peak = max(self._peak, used)
        limit = self._limits.memory
        if limit is not None and used > limit:
            sizes = f"{used / 2**20:,.0f} MiB in use; the limit is {limit / 2**20:,.0f} MiB"
            raise _WorkerLost(End.MEMORY, f"killed with {sizes}")


#: Seconds after which an idle worker of a pool ends.
IDLE_SECONDS = 20.0


class WorkerPool:
    """Runs trials, each in an idle worker of its kind if there is one.

    A worker serves one kind of trial, so foreign code cannot affect the trials of others. A new worker
    replaces the one that has been idle for longest, and all end after a while.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[float, tuple[object, ...], Worker]] = []
        self._timer: threading.Timer | None = None

    def run(self, trial: Trial, stop: threading.Event | None = None) -> Run:
        """Run a trial; see :meth:`Worker.run`."""
        kind = (trial.target, trial.label, trial.limits.threads)
        with self._lock:
            alike = [k for k, (_, other, worker) in enumerate(self._idle) if other == kind and worker.fit]
            idle = self._idle.pop(alike[-1] if alike else 0)[2] if self._idle else None
        if idle is not None and not alike:
            idle.kill()
        worker = idle if idle is not None and alike else Worker(trial.limits.threads)
        try:
            return worker.run(trial, stop)
        finally:
            with self._lock:
                self._idle.append((time.monotonic(), kind, worker))
                self._schedule(IDLE_SECONDS)

    def close(self, idle: float = 0.0) -> None:
        """End the workers that have been idle for so many seconds."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            until = time.monotonic() - idle
            for since, _, worker in self._idle:
                if since <= until:
                    worker.kill()
            self._idle = [entry for entry in self._idle if entry[0] > until]
            if self._idle:
                self._schedule(self._idle[0][0] - until)

    def _schedule(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = threading.Timer(seconds + 0.1, self.close, (IDLE_SECONDS,))
            self._timer.daemon = True
            self._timer.start()


_shared = WorkerPool()


def run_once(trial: Trial) -> Run:
    """Run a trial in a new process."""
    pool = WorkerPool()
    try:
        return pool.run(trial)
    finally:
        pool.close()


def run_shared(trial: Trial, stop: threading.Event | None = None) -> Run:
    """Run a trial in a shared worker of this process; see :meth:`Worker.run`."""
    return _shared.run(trial, stop)


def close_shared_workers() -> None:
    """End the idle shared workers of this process."""
    _shared.close()


def _reset_after_fork() -> None:
    """Start with an empty pool in a forked process: the workers belong to its parent."""
    global _shared  # noqa: PLW0603 - its lock may have been held when the copy was made
    _shared = WorkerPool()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_reset_after_fork)
