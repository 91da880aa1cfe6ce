"""Run a program under limits of time and memory that are enforced from outside.

The workers of :mod:`sdpfeas.study.process` run backends on problems, with a time limit that backends know of;
a contestant here may be a user's whole program. It is handed a pipe: its first line of JSON starts the clock,
its second is the answer.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from sdpfeas.study.process import End
from sdpfeas.study.reaper import Reaper
from sdpfeas.study.settings import thread_environment

__all__ = ["Outcome", "run_capped"]

#: Seconds between two looks at the memory.
LOOK = 0.02

#: Seconds a program that closed its pipe may take to say why.
LAST_WORDS = 5.0

#: Seconds a program may take before it starts the clock.
SETUP_LIMIT = 600.0


#: How programs in Rust, such as Clarabel, end when the system refuses memory.
REFUSED = re.compile(r"memory allocation of (\d+) bytes failed")


@dataclass(frozen=True)
class Outcome:
    """What became of a program.

    Attributes
    ----------
    end : End
        How it ended.
    detail : str
        In words, where it did not end well.
    setup, answer : dict
        Its two lines; empty where it did not get so far.
    wall : float
        Seconds from the first line on, seen from outside.
    peak_memory : int
        Most bytes seen resident.
    """

    end: End
    detail: str
    setup: dict[str, Any]
    answer: dict[str, Any]
    wall: float
    peak_memory: int


def run_capped(command: Sequence[str], cap: float, memory: int, reaper: Reaper) -> Outcome:
    """Run a program in a fresh process with one thread; the number of its pipe is appended to the command.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments.
    cap : float
        Seconds from the program's first line on; then it is killed.
    memory : int
        Bytes resident; then it is killed.
    reaper : Reaper
        Kills the program should this process die.
    """
    ours, theirs = os.pipe()
    with tempfile.TemporaryFile() as log, os.fdopen(ours, "rb", buffering=0) as pipe:
        process = subprocess.Popen(
            [*command, str(theirs)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(theirs,),
            env={**os.environ, **thread_environment(1)},
            start_new_session=True,
        )
        os.close(theirs)
        reaper.watch(process.pid)
        try:
            outcome = _Watch(process, pipe, cap, memory).follow()
            if outcome.end is End.CRASH:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(LAST_WORDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            reaper.release(process.pid)
            process.wait()
        if outcome.end is not End.CRASH:
            return outcome
        log.seek(0)
        text = log.read().decode("utf-8", "replace").strip()
        detail = f"exit code {process.returncode}: {text.splitlines()[-1] if text else 'nothing said'}"
        # Who asks the system for more than the limit at once is out of memory without ever holding it.
        refused = REFUSED.search(text)
        end = End.MEMORY if refused is not None and int(refused[1]) > memory else End.CRASH
        return Outcome(end, detail, outcome.setup, {}, outcome.wall, outcome.peak_memory)


class _Watch:
    """The watch over one program: its lines, the clock, the memory."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: Any, cap: float, memory: int) -> None:
        self._pipe, self._cap, self._memory = pipe, cap, memory
        self._process = psutil.Process(process.pid)
        self._buffer = b""
        self._peak = 0
        self._setup: dict[str, Any] = {}
        self._begin = time.monotonic()

    def follow(self) -> Outcome:
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            limit = SETUP_LIMIT
            while True:
                if time.monotonic() - self._begin > limit:
                    if not self._setup:
                        return self._ended(End.ERROR, f"more than {limit:g} s to set up")
                    return self._ended(End.TIMEOUT, f"killed after {limit:g} s")
                if self._look() > self._memory:
                    return self._ended(End.MEMORY, f"killed with {self._peak / 2**30:.2f} GiB resident")
                if not selector.select(LOOK):
                    continue
                data = os.read(self._pipe.fileno(), 1 << 16)
                if not data:
                    return self._ended(End.CRASH, "")
                self._buffer += data
                while b"\n" in self._buffer:
                    line, _, self._buffer = self._buffer.partition(b"\n")
                    message = json.loads(line)
                    if "missing" in message or "error" in message:
                        return self._ended(End.ERROR, message.get("missing") or message["error"], message)
                    if self._setup:
                        return self._ended(End.DONE, "", message)
                    self._setup, self._begin, limit = message, time.monotonic(), self._cap

    def _look(self) -> int:
        used = 0
        with suppress(psutil.Error):
            used = self._process.memory_info().rss
            for child in self._process.children(recursive=True):
                with suppress(psutil.Error):
                    used += child.memory_info().rss
        self._peak = max(self._peak, used)
        return used

    def _ended(self, end: End, detail: str, answer: dict[str, Any] | None = None) -> Outcome:
        return Outcome(end, detail, self._setup, answer or {}, time.monotonic() - self._begin, self._peak)
