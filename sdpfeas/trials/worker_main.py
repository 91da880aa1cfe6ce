"""The program of a worker process: ``python worker_main.py CONTROL JOBS REPLIES MARK PATH``.

It forks (:func:`supervise`). The child is the worker, which reads trials from the pipe JOBS and writes
results to the pipe REPLIES. The runner collects standard output and standard error, where MARK separates a
trial from the one before, and enforces the limits.

The other process is the supervisor. It kills the worker with all its descendants when the pipe CONTROL
closes, when the runner dies, or when the worker ends. A worker that hangs in native code cannot do this
itself, and its descendants may leave its process group or lose their parent. On Linux the supervisor is a
child subreaper (``prctl(2)``), so orphans become its children. It exits with the status of the worker.

Only the standard library is imported here, so a worker starts quickly.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import io
import json
import os
import pickle
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

#: Bytes of the length field in front of a message.
LENGTH_BYTES = 8


#: Seconds between checks that the runner is alive: a fork of the runner may keep the pipe CONTROL open.
RUNNER_POLL_SECONDS = 1.0

SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36

#: Whether the system has child subreapers; elsewhere only the process group of the worker is killed.
HAS_SUBREAPER = sys.platform == "linux"


class _PlainPickler(pickle.Pickler):
    """Write arrays as dtype, shape and bytes, so that the reader can refuse every class."""

    def persistent_id(self, obj: Any) -> Any:
        if type(obj).__module__ == "numpy" and hasattr(obj, "dtype") and obj.dtype.kind in "biufc":
            return obj.dtype.str, obj.shape, obj.tobytes()
        return None


def encode_message(message: object) -> bytes:
    """Pickle a message, with its length in front."""
    stream = io.BytesIO()
    _PlainPickler(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(message)
    data = stream.getvalue()
    return len(data).to_bytes(LENGTH_BYTES, "little") + data


def _processor_time() -> float:
    """Processor seconds of this process and of the child processes it has waited for."""
    import resource  # POSIX only; this module is also imported where no worker can run

    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class _Clock:
    """The function ``start`` of a trial: starts the clock and reports this to the parent."""

    def __init__(self, replies: BinaryIO, mark: bytes) -> None:
        self._replies, self._mark = replies, mark
        self._wall, self._cpu = time.perf_counter(), _processor_time()

    def __call__(self, limit: float | None = None, **facts: Any) -> None:
        _flush()
        reset_peak_memory()
        with suppress(OSError):  # foreign code may have closed it
            os.write(1, self._mark)
        self._replies.write(encode_message(("start", limit, facts)))
        self._replies.flush()
        self._wall, self._cpu = time.perf_counter(), _processor_time()

    def spent(self) -> tuple[float, float, int]:
        """Wall seconds, processor seconds and peak memory since the clock started."""
        return time.perf_counter() - self._wall, _processor_time() - self._cpu, peak_memory()


def main(jobs: BinaryIO, replies: BinaryIO, mark: bytes) -> None:
    """Run trials until the pipe JOBS is closed."""
    replies.write(encode_message(("up", os.getpid())))
    replies.flush()
    while head := jobs.read(LENGTH_BYTES):
        target, payload = pickle.loads(jobs.read(int.from_bytes(head, "little")))
        clock = _Clock(replies, mark)
        try:
            module, _, name = target.partition(":")
            function = getattr(importlib.import_module(module), name)
            value = function(pickle.loads(payload), clock)
            reply = encode_message(("done", value, *clock.spent()))
        except Exception as error:  # noqa: BLE001 - any exception is the result of the trial
            errors = importlib.import_module("sdpfeas.errors")  # sys.path is set only at run time
            reply = encode_message(("error", errors.safe_text(error), *clock.spent()))
        _flush()
        replies.write(reply)
        replies.flush()
        function = value = reply = payload = clock = None  # type: ignore[assignment]
        gc.collect()


def reset_peak_memory() -> None:
    """Reset the peak of resident memory (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Peak of resident memory in bytes."""
    with suppress(OSError, StopIteration, ValueError):
        status = Path("/proc/self/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource

    # In bytes on macOS, in kibibytes elsewhere.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _flush() -> None:
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    with suppress(Exception):
        ctypes.CDLL(None).fflush(None)  # buffered output of native solvers


# --- the supervisor


def supervise(control: int, pipes: list[int]) -> None:
    """Fork; return in the child, which is the worker, and supervise it in the parent until it ends."""
    runner = os.getppid()
    _prctl(SET_CHILD_SUBREAPER, 1)
    news, bell = os.pipe()
    for end in (news, bell):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(bell)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    worker = os.fork()
    if worker == 0:
        os.setpgid(0, 0)
        _prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in (control, news, bell):
            os.close(fd)
        return
    # The runner detects the end of the worker by its pipes, so no other process may keep them open.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    for fd in pipes:
        os.close(fd)
    ended = None
    while ended is None and os.getppid() == runner:
        ready = select.select([control, news], [], [], RUNNER_POLL_SECONDS)[0]
        if control in ready:
            break
        with suppress(BlockingIOError):
            os.read(news, 4096)
        ended = _reap(worker)
    _kill_descendants(worker)
    if ended is not None and ended < 0:
        if -ended != signal.SIGKILL:
            signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    os._exit(ended or 0)


def _prctl(option: int, value: int) -> None:
    """Call ``prctl(2)`` on Linux."""
    if HAS_SUBREAPER:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _children() -> list[int]:
    """Child processes, including adopted orphans."""
    found, own = [], os.getpid()
    for entry in Path("/proc").iterdir() if HAS_SUBREAPER else ():
        with suppress(OSError, ValueError, IndexError):
            # The program name in parentheses may contain any character.
            if (
                entry.name.isdigit()
                and int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1]) == own
            ):
                found.append(int(entry.name))
    return found


def _kill_descendants(worker: int) -> None:
    """Kill all children until none is left: the children of a killed child become children of this one."""
    if not HAS_SUBREAPER:
        with suppress(OSError):
            os.killpg(worker, signal.SIGKILL)
    while True:
        for child in _children():
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _reap(worker: int) -> int | None:
    """Collect the children that have ended; return the exit code of the worker, or None while it runs."""
    ended = None
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if found[0] == worker:
                ended = os.waitstatus_to_exitcode(found[1])
    return ended


if __name__ == "__main__":
    _control, *_pipes = map(int, sys.argv[1:4])
    supervise(_control, _pipes)
    for _pipe in _pipes:  # child processes must not keep the pipes open after this one ended
        os.set_inheritable(_pipe, False)
    sys.path[:] = json.loads(sys.argv[5])
    main(os.fdopen(_pipes[0], "rb"), os.fdopen(_pipes[1], "wb"), sys.argv[4].encode())
