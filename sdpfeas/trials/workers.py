"""Places where trials run: each with a warm worker, some of them kept for whoever comes next.

The shared slots serve threads that come and go: isolated solves of this process, and cells that somebody
else's scheduler (Dask, joblib) runs in it. They stay warm between trials, and end soon after the last one:
nobody tells when that is.
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
from sdpfeas.trials import supervisor, worker_main
from sdpfeas.trials.trial import End, Interrupted, Run, Trial, thread_environment
from sdpfeas.trials.worker_main import LENGTH_BYTES, encode_message

# ------------------------------------------------------------
# A worker process seen from outside: time and memory are watched, and enforced.

# ------------------------------------------------------------
# What a trial prints, kept in bounded memory.

#: Bytes of a log that are kept, from its beginning and from its end.
LOG_HEAD, LOG_TAIL = 48_000, 16_000


class Log:
    """Collects output: the beginning, the end, and how much was left out between.

    ``mark``: when this comes by, what came before is forgotten: it was not the trial's own. Where it never
    comes, what the worker said while it started is all there is, and it is kept.
    """

    def __init__(self, mark: bytes = b"") -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.dropped = 0
        self._mark = mark
        self._recent = b""

    def feed(self, data: bytes) -> None:
        """Take some output."""
        if self._mark:
            seen = self._recent + data
            _, found, rest = seen.rpartition(self._mark)
            if found:
                self.head.clear()
                self.tail.clear()
                self.dropped = 0
                seen = data = rest
            self._recent = seen[1 - len(self._mark) :]
        room = LOG_HEAD - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * LOG_TAIL:
            self.dropped += len(self.tail) - LOG_TAIL
            del self.tail[:-LOG_TAIL]

    def text(self) -> str:
        """What was kept."""
        text = self.head.decode("utf-8", "replace")
        if self.dropped or len(self.tail) > LOG_TAIL:
            cut = self.dropped + max(len(self.tail) - LOG_TAIL, 0)
            text += f"\n[… {cut:,} bytes left out …]\n"
        return text + self.tail[-LOG_TAIL:].decode("utf-8", "replace")


#: Seconds between two looks at the memory of a worker, and of the worker with all it started.
MEMORY_POLL_SECONDS, TREE_POLL_SECONDS = 0.025, 0.25

#: A worker is replaced after so many trials.
TRIALS_PER_WORKER = 500

#: How programs in Rust, such as Clarabel, end when the system refuses memory.
ALLOCATION_FAILED = re.compile(r"memory allocation of (\d+) bytes failed")


class Worker:
    """A process that runs trials one after the other; it dies with this one.

    ``threads``: threads its numerical libraries may use.
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
        program = [sys.executable, "-P", worker_main.__file__, str(jobs), str(replies), self._mark]
        guard = [sys.executable, "-I", "-S", supervisor.__file__, str(control), f"{jobs},{replies}"]
        self._process = subprocess.Popen(
            [*guard, *program, json.dumps(_path())],
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
        """Run a trial under its limits; whatever goes wrong costs this worker, and this run, only.

        Raises ``Interrupted``: if ``stop`` is set before the trial is over.
        """
        self._served += 1
        watch = _Watch(self, trial, stop or threading.Event())
        try:
            return watch.follow()
        except _Gone as gone:
            self.kill()
            return watch.ended(gone.end, gone.detail)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the worker and everything it started; safe to call twice."""
        if self._control < 0:
            return
        os.close(self._control)
        self._control = -1
        self._process.wait()
        self._selector.close()
        for fd in (self._jobs, self._replies, self._log):
            os.close(fd)

    def exit_description(self) -> str:
        """In words, how the process ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        code = self._process.returncode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"the process died of {signal.Signals(-code).name}"
        return "the process closed its pipe" if code is None else f"the process ended with exit code {code}"

    def memory(self, *, around: bool) -> int:
        """Bytes resident now; ``around`` the worker is everything that it started."""
        import psutil  # not paid for by those who only import solve

        total = 0
        with suppress(psutil.Error):
            if around:
                found = psutil.Process(self._process.pid).children(recursive=True)
            else:
                found = [] if self._pid is None else [psutil.Process(self._pid)]
            for process in found:
                with suppress(psutil.Error):
                    total += process.memory_info().rss
        return total


def _path() -> list[str]:
    """Where the worker looks for modules: as this process does, but in the current folder last.

    What is found there by accident must not take the place of a library.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        return [folder for folder in sys.path if folder]
    meant = [here / folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    folders = dict.fromkeys(here / folder for folder in sys.path)
    return [str(f) for f in sorted(folders, key=lambda folder: folder == here and folder not in meant)]


class _PlainReader(pickle.Unpickler):
    """Reads numbers, words, containers and arrays; a message that names anything else is garbage.

    A pickle that may name functions runs any code. What runs in a worker must not run here.
    """

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"only plain data may come back from a worker, not {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        import numpy as np  # not paid for by those who only import solve

        kind, shape, data = pid
        dtype = np.dtype(str(kind))
        if dtype.kind not in "biufc":
            raise pickle.UnpicklingError(f"arrays hold numbers, not {kind}")
        return np.frombuffer(bytes(data), dtype=dtype).reshape(tuple(shape)).copy()[()]


class _Gone(Exception):
    def __init__(self, end: End, detail: str) -> None:
        super().__init__(detail)
        self.end = end
        self.detail = detail


class _Watch:
    """The watch over one run: messages, log, clock, memory."""

    def __init__(self, worker_main: Worker, trial: Trial, stop: threading.Event) -> None:
        self._worker = worker_main
        self._limits = trial.limits
        self._stop = stop
        self._log = Log(worker_main._mark.encode())
        self._peak = 0
        self._facts: dict[str, Any] | None = None
        self._begin = time.monotonic()
        self._limit: float | None = trial.limits.setup
        self._looked = self._looked_around = self._begin
        worker_main._outgoing = encode_message((trial.target, trial.payload))
        worker_main._selector.register(worker_main._jobs, selectors.EVENT_WRITE)

    def follow(self) -> Run:
        """Follow the run to its end."""
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
                    raise _Gone(End.CRASH, "the worker sent garbage")

    def ended(self, end: End, detail: str, **more: Any) -> Run:
        """Sum up."""
        log = self._log.text()
        refused = ALLOCATION_FAILED.search(log)
        if end is End.CRASH and refused is not None and int(refused[1]) > (self._limits.memory or 2**63):
            # Who asks the system for more than the limit at once is out of memory without ever holding it.
            end, detail = End.MEMORY, f"{detail}: {refused[0]}"
        seen = {"wall_time": time.monotonic() - self._begin, "peak_memory": self._peak, "log": log}
        return Run(end, detail, facts=self._facts, **{**seen, **more})

    def _next(self) -> Any:
        """The next message, with an eye on everything else meanwhile."""
        worker_main = self._worker
        while True:
            message = self._take()
            if message is not None:
                return message
            if self._stop.is_set():
                raise Interrupted
            if self._limit is not None and time.monotonic() > self._begin + self._limit:
                if self._facts is None:
                    raise _Gone(End.ERROR, f"the process took more than {self._limit:g} s to set up")
                raise _Gone(End.TIMEOUT, f"killed after {self._limit:.4g} s")
            self._look_at_memory()
            for key, _ in worker_main._selector.select(MEMORY_POLL_SECONDS):
                if key.fd == worker_main._log:
                    self._read_log()
                elif key.fd == worker_main._jobs:
                    self._write()
                elif self._read():
                    message = self._take()  # whole messages may have come in with the end
                    if message is None:
                        why = worker_main.exit_description()
                        self._read_log()
                        raise _Gone(End.CRASH, why)
                    return message

    def _write(self) -> None:
        worker_main = self._worker
        try:
            sent = os.write(worker_main._jobs, worker_main._outgoing[: 1 << 20])
        except BlockingIOError:
            return
        except OSError:  # it is gone, as the other pipes will tell
            sent = len(worker_main._outgoing)
        worker_main._outgoing = worker_main._outgoing[sent:]
        if not worker_main._outgoing:
            worker_main._selector.unregister(worker_main._jobs)

    def _read(self) -> bool:
        """Read what there is; True at the end of the stream."""
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
        except Exception as error:  # noqa: BLE001 - what a stranger's code sends may not load here
            raise _Gone(End.CRASH, f"the worker sent garbage: {safe_text(error)}") from None

    def _read_log(self) -> None:
        """Read what there is."""
        data = b"?"
        with suppress(BlockingIOError):
            while data:
                data = os.read(self._worker._log, 1 << 16)
                self._log.feed(data)
            with suppress(KeyError):  # the end of the stream is no news
                self._worker._selector.unregister(self._worker._log)

    def _look_at_memory(self) -> None:
        now = time.monotonic()
        if now - self._looked < MEMORY_POLL_SECONDS:
            return
        self._looked = now
        around = now - self._looked_around > TREE_POLL_SECONDS
        if around:
            self._looked_around = now
        used = self._worker.memory(around=around)
        self._peak = max(self._peak, used)
        limit = self._limits.memory
        if limit is not None and used > limit:
            sizes = f"{used / 2**20:,.0f} MiB in use; the limit is {limit / 2**20:,.0f} MiB"
            raise _Gone(End.MEMORY, f"killed with {sizes}")


#: Seconds a shared slot stays warm without a trial.
IDLE_SECONDS = 20.0


class WorkerSlot:
    """A place where one trial runs at a time, with a warm worker for trials like the last one."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._serves: tuple[object, ...] = ()

    def serves(self, trial: Trial) -> bool:
        """Whether a warm worker for such a trial sits here."""
        return self._worker is not None and self._worker.fit and self._serves == _kind(trial)

    def run(self, trial: Trial, stop: threading.Event | None = None) -> Run:
        """Run a trial; see :meth:`Worker.run`."""
        # A worker serves one kind of trial: what a stranger's code does to its process is its own affair.
        if self._worker is None or not self.serves(trial):
            self.close()
            self._worker = Worker(trial.limits.threads)
            self._serves = _kind(trial)
        return self._worker.run(trial, stop)

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


def _kind(trial: Trial) -> tuple[object, ...]:
    return (trial.target, trial.label, trial.limits.threads)


class _Shared:
    """The slots of this process that are free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[tuple[float, WorkerSlot]] = []
        self._tidier: threading.Timer | None = None

    def take(self, trial: Trial) -> WorkerSlot:
        with self._lock:
            warm = [k for k, (_, slot) in enumerate(self._free) if slot.serves(trial)]
            return self._free.pop(warm[-1] if warm else 0)[1] if self._free else WorkerSlot()

    def give_back(self, slot: WorkerSlot) -> None:
        with self._lock:
            self._free.append((time.monotonic(), slot))
            self._wake(IDLE_SECONDS)

    def tidy(self) -> None:
        """End the slots that have been free for long."""
        with self._lock:
            self._tidier = None
            now = time.monotonic()
            for since, slot in self._free:
                if now - since >= IDLE_SECONDS:
                    slot.close()
            self._free = [entry for entry in self._free if now - entry[0] < IDLE_SECONDS]
            if self._free:
                self._wake(self._free[0][0] + IDLE_SECONDS - now)

    def _wake(self, seconds: float) -> None:
        if self._tidier is None:
            self._tidier = threading.Timer(seconds + 0.1, self.tidy)
            self._tidier.daemon = True
            self._tidier.start()

    def close(self) -> None:
        with self._lock:
            for _, slot in self._free:
                slot.close()
            self._free.clear()
            if self._tidier is not None:
                self._tidier.cancel()
                self._tidier = None


_shared = _Shared()


def run_once(trial: Trial) -> Run:
    """Run a trial in a process of its own."""
    slot = WorkerSlot()
    try:
        return slot.run(trial)
    finally:
        slot.close()


def run_shared(trial: Trial) -> Run:
    """Run a trial in a shared slot of this process."""
    slot = _shared.take(trial)
    try:
        return slot.run(trial)
    finally:
        _shared.give_back(slot)


def close_shared_workers() -> None:
    """End the shared slots of this process at once."""
    _shared.close()


def _forget() -> None:
    """In a copy of this process: the workers are the original's."""
    global _shared  # noqa: PLW0603 - a lock may have been held when the copy was made
    _shared = _Shared()


if hasattr(os, "register_at_fork"):  # not where processes cannot be copied
    os.register_at_fork(after_in_child=_forget)
