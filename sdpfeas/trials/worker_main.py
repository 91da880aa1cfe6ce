"""The program of a worker process, which runs trials: ``python worker_main.py JOBS REPLIES MARK PATH``.

It reads trials from the pipe JOBS and writes results to the pipe REPLIES. The parent collects standard
output and standard error; MARK in the output separates a trial from the one before. The parent enforces the
limits. Only the standard library is imported here, so a worker starts quickly.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import io
import json
import os
import pickle
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

#: Bytes of the length field in front of a message.
LENGTH_BYTES = 8


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


if __name__ == "__main__":
    pipes = [int(fd) for fd in sys.argv[1:3]]
    for pipe in pipes:  # child processes must not keep the pipes open after this one ended
        os.set_inheritable(pipe, False)
    sys.path[:] = json.loads(sys.argv[4])
    main(os.fdopen(pipes[0], "rb"), os.fdopen(pipes[1], "wb"), sys.argv[3].encode())
