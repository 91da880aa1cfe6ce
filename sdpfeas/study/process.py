"""One worker process with limits that hold: time and memory are watched, and enforced, from outside."""

from __future__ import annotations

import os
import pickle
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import psutil

from sdpfeas.study.reaper import Reaper
from sdpfeas.study.settings import Settings, thread_environment
from sdpfeas.study.worker import HEADER, Answer, Job, write_frame

__all__ = ["End", "Interrupted", "Run", "Worker"]

#: Seconds between two looks at the memory of a worker, and of the worker with its children.
LOOK, LOOK_CHILDREN = 0.025, 0.25

#: Seconds a worker may take to start and to import, and to receive a problem.
START_LIMIT, SETUP_LIMIT = 120.0, 300.0

#: Bytes of a log that are kept, from its beginning and from its end.
LOG_HEAD, LOG_TAIL = 48_000, 16_000

#: Started like this and not with -m, the worker's classes have the same names on both sides.
LAUNCH = "import sys; from sdpfeas.study.worker import main; main(sys.argv[1:])"

#: A worker is replaced after so many cells.
SERVICE_LIFE = 500


class End(StrEnum):
    """How a cell's run ended."""

    DONE = "done"
    TIMEOUT = "timeout"
    MEMORY = "out of memory"
    CRASH = "crash"
    ERROR = "error"


class Interrupted(Exception):
    """The study was told to stop while a cell ran."""


@dataclass(frozen=True)
class Run:
    """What became of one job.

    Attributes
    ----------
    end : End
        How it ended.
    detail : str
        In words, where it did not end well.
    answer : Answer, optional
        What the worker handed back.
    wall_time : float
        Seconds the backend ran, measured from outside.
    peak_memory : int
        Most bytes seen resident.
    log : str
        What the backend printed; the middle of a long log is left out.
    """

    end: End
    detail: str
    answer: Answer | None
    wall_time: float
    peak_memory: int
    log: str


class Log:
    """Collects output in bounded memory: the beginning, the end, and how much was left out between.

    Parameters
    ----------
    mark : bytes
        When this comes by, what came before is forgotten: it was not the cell's own. Where it never comes,
        what the worker said while it started is all there is, and it is kept.
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
            _, found, rest = seen.partition(self._mark)
            self._recent = seen[1 - len(self._mark) :]
            if found:
                self.head.clear()
                self.tail.clear()
                self.dropped = 0
                self._mark, data = b"", rest
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


class Worker:
    """A warm process that runs cells of one solver, one after the other.

    Parameters
    ----------
    threads : int
        Threads its numerical libraries may use.
    reaper : Reaper
        Kills the worker should this process die.
    launch : str
        The program, for workers that do something else than run backends.
    """

    def __init__(self, threads: int, reaper: Reaper, launch: str = LAUNCH) -> None:
        self._reaper = reaper
        self._served = 0
        self._buffer = bytearray()
        self.mark = f"\x1e{secrets.token_hex(16)}\x1e".encode()
        child_in, ours_out = os.pipe()
        ours_in, child_out = os.pipe()
        log_out, log_in = os.pipe()
        environment = {**os.environ, **thread_environment(threads), "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", launch, str(child_in), str(child_out), self.mark.decode()],
            stdin=subprocess.DEVNULL,
            stdout=log_in,
            stderr=log_in,
            pass_fds=(child_in, child_out),
            env=environment,
            start_new_session=True,
        )
        for fd in (child_in, child_out, log_in):
            os.close(fd)
        reaper.watch(self._process.pid)
        self._jobs = os.fdopen(ours_out, "wb")
        self._replies_fd, self._log_fd = ours_in, log_out
        self._ps = psutil.Process(self._process.pid)
        self._up = False
        self._selector = selectors.DefaultSelector()
        for fd in (self._replies_fd, self._log_fd):
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ)

    @property
    def fit(self) -> bool:
        """Whether the worker can take another cell."""
        return self._process.poll() is None and self._served < SERVICE_LIFE

    def run(self, job: Job, settings: Settings, stop: threading.Event) -> Run:
        """Run one job under the limits; whatever goes wrong costs this worker, and this run, only.

        Raises
        ------
        Interrupted
            If ``stop`` is set before the job is done.
        """
        self._served += 1
        watch = _Watch(self, settings, stop)
        try:
            if not self._up:
                watch.wait(START_LIMIT, "to start")
                self._up = True
            self._send(job, watch)
            reply = watch.wait(SETUP_LIMIT, "to set up")
            if reply == "warming":
                watch.start_clock()
                reply = watch.wait(settings.hard_limit, "")
            if isinstance(reply, tuple):
                return watch.ended(End.ERROR, str(reply[1]))
            watch.start_clock()
            answer = watch.wait(settings.hard_limit, "")
        except _Gone as gone:
            self.kill()
            return watch.ended(gone.end, gone.detail)
        except Interrupted:
            self.kill()
            raise
        if not isinstance(answer, Answer):
            self.kill()
            return watch.ended(End.CRASH, "the worker sent garbage")
        watch.drain_log()
        return watch.ended(End.DONE, "", answer)

    def _send(self, job: Job, watch: _Watch) -> None:
        # A worker that does not read would block a plain write for ever, so a thread does it.
        failure: list[BaseException] = []

        def write() -> None:
            try:
                write_frame(self._jobs, job)
            except (OSError, ValueError) as error:
                failure.append(error)

        if len(job.problem) < 32_768:  # fits into a pipe
            write()
        else:
            writer = threading.Thread(target=write, daemon=True)
            writer.start()
            deadline = time.monotonic() + SETUP_LIMIT
            while writer.is_alive():
                writer.join(LOOK)
                if time.monotonic() > deadline or watch.stop.is_set():
                    self.kill()
        if failure:
            raise _Gone(End.CRASH, self.epitaph())

    def kill(self) -> None:
        """Kill the worker and everything it started; safe to call twice."""
        if self._jobs.closed:
            return
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._reaper.release(self._process.pid)
        self._process.wait()
        self._selector.close()
        with suppress(OSError):
            self._jobs.close()
        for fd in (self._replies_fd, self._log_fd):
            os.close(fd)

    def epitaph(self) -> str:
        """In words, how the process ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"the process died of {signal.Signals(-code).name}"
        return "the process closed its pipe" if code is None else f"the process ended with exit code {code}"

    def memory(self, *, children: bool) -> int:
        """Bytes resident now."""
        total = 0
        with suppress(psutil.Error):
            total = self._ps.memory_info().rss
            if children:
                for child in self._ps.children(recursive=True):
                    with suppress(psutil.Error):
                        total += child.memory_info().rss
        return total


class _Gone(Exception):
    def __init__(self, end: End, detail: str) -> None:
        super().__init__(detail)
        self.end = end
        self.detail = detail


class _Watch:
    """The watch over one run: replies, log, clock, memory."""

    def __init__(self, worker: Worker, settings: Settings, stop: threading.Event) -> None:
        self.worker = worker
        self.settings = settings
        self.stop = stop
        self.log = Log(worker.mark)
        self.peak = 0
        self.begin = time.monotonic()
        self._looked = 0.0
        self._looked_at_children = self.begin

    def start_clock(self) -> None:
        """Time counts from here."""
        self.begin = time.monotonic()

    def ended(self, end: End, detail: str, answer: Answer | None = None) -> Run:
        """Sum up."""
        peak = max(self.peak, 0 if answer is None else answer.peak_memory)
        return Run(end, detail, answer, time.monotonic() - self.begin, peak, self.log.text())

    def wait(self, limit: float, doing: str) -> Any:
        """Wait for the next reply, watching everything else meanwhile."""
        worker = self.worker
        deadline = time.monotonic() + limit
        while True:
            reply = self._take_reply()
            if reply is not None:
                return reply
            if self.stop.is_set():
                raise Interrupted
            if time.monotonic() > deadline:
                if doing:
                    raise _Gone(End.ERROR, f"the process took more than {limit:g} s {doing}")
                raise _Gone(
                    End.TIMEOUT, f"killed {limit - self.settings.time_limit:.2g} s past its time limit"
                )
            self._look_at_memory()
            ready = worker._selector.select(LOOK)
            for key, _ in ready:
                if key.fd == worker._log_fd:
                    self._read_log()
                elif self._read_replies():
                    self.drain_log()
                    # Whole replies may have come in with the end.
                    reply = self._take_reply()
                    if reply is not None:
                        return reply
                    raise _Gone(End.CRASH, worker.epitaph())

    def drain_log(self) -> None:
        """Take what is left of the log."""
        while self._read_log():
            pass

    def _read_log(self) -> bool:
        try:
            data = os.read(self.worker._log_fd, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            with suppress(KeyError):
                self.worker._selector.unregister(self.worker._log_fd)
        self.log.feed(data)
        return bool(data)

    def _read_replies(self) -> bool:
        """Read what there is; True at the end of the stream."""
        try:
            data = os.read(self.worker._replies_fd, 1 << 20)
        except BlockingIOError:
            return False
        self.worker._buffer += data
        return not data

    def _take_reply(self) -> Any:
        buffer = self.worker._buffer
        if len(buffer) < HEADER:
            return None
        size = int.from_bytes(buffer[:HEADER], "little")
        if len(buffer) < HEADER + size:
            return None
        data = bytes(buffer[HEADER : HEADER + size])
        del buffer[: HEADER + size]
        try:
            return pickle.loads(data)
        except Exception as error:  # noqa: BLE001 - what a stranger's claim is made of may not load here
            raise _Gone(End.CRASH, f"the worker sent garbage: {error}") from None

    def _look_at_memory(self) -> None:
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        children = now - self._looked_at_children > LOOK_CHILDREN
        if children:
            self._looked_at_children = now
        used = self.worker.memory(children=children)
        self.peak = max(self.peak, used)
        if used > self.settings.memory_limit:
            limit = self.settings.memory_limit / 2**20
            raise _Gone(
                End.MEMORY, f"killed with {used / 2**20:,.0f} MiB in use; the limit is {limit:,.0f} MiB"
            )
