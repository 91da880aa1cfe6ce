"""The process between a runner and its worker: when either ends, nothing that the worker started is left.

A worker that hangs in native code notices nothing, and what it started may leave its process group, or lose
its parent. So the worker's parent is a small process that adopts such orphans, as far as the system knows of
adoption (Linux). It is run as a program, with the standard library alone:
``python reaper.py CONTROL KEEP,KEEP COMMAND...``. It ends the worker when the pipe CONTROL breaks or its
own parent is gone, and ends as the worker ended.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path

#: Seconds between two looks at whether the parent is still there, should a copy of it hold the pipe open.
PATIENCE = 1.0

SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36

#: Whether the system knows of adoption; elsewhere a process group is all that can be killed.
ADOPTS = sys.platform == "linux"


def ask_kernel(option: int, value: int) -> None:
    """Call ``prctl``, where there is one."""
    if ADOPTS:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def children() -> list[int]:
    """Processes whose parent this is, orphans it adopted included."""
    found, own = [], os.getpid()
    for entry in Path("/proc").iterdir() if ADOPTS else ():
        with suppress(OSError, ValueError, IndexError):
            # The name of a program stands in brackets and may hold anything.
            if (
                entry.name.isdigit()
                and int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1]) == own
            ):
                found.append(int(entry.name))
    return found


def bury(worker: int) -> None:
    """Kill all descendants: those of a dead child become children of this process, until there are none."""
    if not ADOPTS:
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
    """Bury the children that have ended; how the worker ended, if it has."""
    ended = None
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if found[0] == worker:
                ended = os.waitstatus_to_exitcode(found[1])
    return ended


def main(control: int, keep: list[int], command: list[str]) -> None:
    """Start the worker and watch over it."""
    runner = os.getppid()
    ask_kernel(SET_CHILD_SUBREAPER, 1)
    news, bell = os.pipe()
    for end in (news, bell):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(bell)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    worker = os.fork()
    if worker == 0:
        os.setpgid(0, 0)
        ask_kernel(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(control)
        os.execv(command[0], command)
    # The runner learns of the worker's end from its pipes, so nobody else may hold them.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    for fd in keep:
        os.close(fd)
    ended = None
    while ended is None and os.getppid() == runner:
        ready = select.select([control, news], [], [], PATIENCE)[0]
        if control in ready:
            break
        with suppress(BlockingIOError):
            os.read(news, 4096)
        ended = reap(worker)
    bury(worker)
    if ended is not None and ended < 0:
        if -ended != signal.SIGKILL:
            signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    os._exit(ended or 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(fd) for fd in sys.argv[2].split(",")], sys.argv[3:])
