"""Kills a runner's workers when the runner itself is gone, however it went.

A worker that hangs in native code notices nothing, and what it started is not its runner's child. So one
small process outside listens on a pipe; the pipe breaks when the runner dies, and it kills the groups left.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress

__all__ = ["Reaper"]

SCRIPT = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    word, group = line.split()
    (groups.add if word == "watch" else groups.discard)(int(group))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Reaper:
    """Watches process groups on behalf of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Its own session: a signal to the runner's group must not take it along.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def watch(self, group: int) -> None:
        """Kill this process group if this process dies."""
        self._say(f"watch {group}\n")

    def release(self, group: int) -> None:
        """Forget a process group; to be called before its leader is waited for."""
        self._say(f"release {group}\n")

    def close(self) -> None:
        """End the watch; whatever is still watched is killed."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with self._lock, suppress(OSError):
            self._process.stdin.write(line)
            self._process.stdin.flush()
