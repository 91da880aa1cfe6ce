"""The supervisor of a worker process: ``python supervisor.py CONTROL FD,FD COMMAND...``.

It starts COMMAND as the worker and kills it with all its descendants when the pipe CONTROL closes, when the
runner dies, or when the worker ends. A worker that hangs in native code cannot do this itself, and its
descendants may leave its process group or lose their parent. On Linux the supervisor is a child subreaper
(``prctl(2)``), so orphans become its children. It exits with the status of the worker. The standard library
suffices.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path

#: Seconds between checks that the runner is alive: a fork of the runner may keep the pipe CONTROL open.
RUNNER_POLL_SECONDS = 1.0

SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36

#: Whether the system has child subreapers; elsewhere only the process group of the worker is killed.
HAS_SUBREAPER = sys.platform == "linux"


def prctl(option: int, value: int) -> None:
    """Call ``prctl(2)`` on Linux."""
    if HAS_SUBREAPER:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def children() -> list[int]:
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


def kill_descendants(worker: int) -> None:
    """Kill all children until none is left: the children of a killed child become children of this one."""
    if not HAS_SUBREAPER:
        with suppress(OSError):
            os.killpg(worker, signal.SIGKILL)
    while True:
        for child in children():
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def reap(worker: int) -> int | None:
    """Collect the children that have ended; return the exit code of the worker, or None while it runs."""
    ended = None
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if found[0] == worker:
                ended = os.waitstatus_to_exitcode(found[1])
    return ended


def main(control: int, keep: list[int], command: list[str]) -> None:
    """Start the worker and supervise it."""
    runner = os.getppid()
    prctl(SET_CHILD_SUBREAPER, 1)
    news, bell = os.pipe()
    for end in (news, bell):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(bell)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    worker = os.fork()
    if worker == 0:
        os.setpgid(0, 0)
        prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(control)
        os.execv(command[0], command)
    # The runner detects the end of the worker by its pipes, so no other process may keep them open.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    for fd in keep:
        os.close(fd)
    ended = None
    while ended is None and os.getppid() == runner:
        ready = select.select([control, news], [], [], RUNNER_POLL_SECONDS)[0]
        if control in ready:
            break
        with suppress(BlockingIOError):
            os.read(news, 4096)
        ended = reap(worker)
    kill_descendants(worker)
    if ended is not None and ended < 0:
        if -ended != signal.SIGKILL:
            signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    os._exit(ended or 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(fd) for fd in sys.argv[2].split(",")], sys.argv[3:])
