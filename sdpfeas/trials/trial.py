"""Trials, their limits, and the runs they become."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["End", "Interrupted", "Limits", "Run", "Trial", "thread_environment"]

#: Environment variables that set the number of threads of common numerical libraries.
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


class End(StrEnum):
    """How a run ended."""

    DONE = "done"
    TIMEOUT = "timeout"
    MEMORY = "out of memory"
    CRASH = "crash"
    ERROR = "error"


class Interrupted(Exception):
    """A run was stopped before it ended."""


@dataclass(frozen=True)
class Limits:
    """Limits of a trial; a process that exceeds one is killed.

    ``time``: seconds after the clock starts. ``memory``: bytes of resident memory of the worker and its
    descendants together. ``threads``: threads of the numerical libraries; None leaves the environment as it
    is. ``setup``: seconds before the clock starts, for process start, imports and the payload.
    """

    time: float | None = None
    memory: int | None = None
    threads: int | None = 1
    setup: float = 300.0


@dataclass(frozen=True)
class Trial:
    """A function to run in a worker process.

    ``target`` is ``"module:function"``, imported in the worker. The function is called with the unpickled
    payload and with ``start``, which starts the clock when the setup is over, and restarts it when called
    again; ``start(limit, **facts)`` may set another time limit and report facts. The function returns
    numbers, strings, containers and arrays: nothing else is unpickled from a worker. A worker is reused for
    trials with the same target, ``label`` and number of threads.
    """

    target: str
    payload: bytes
    limits: Limits
    label: str = ""


@dataclass(frozen=True)
class Run:
    """The outcome of a trial.

    ``detail`` explains an ``end`` other than DONE. ``facts`` are those reported by ``start``; None if the
    clock was never started. ``wall_time`` is in seconds, measured by the parent if the trial did not end
    normally. ``log`` is the output since the clock started; the middle of a long log is left out.
    """

    end: End
    detail: str = ""
    value: Any = None
    facts: dict[str, Any] | None = field(default_factory=dict)
    wall_time: float = 0.0
    cpu_time: float | None = None
    peak_memory: int = 0
    log: str = ""


def thread_environment(threads: int | None) -> dict[str, str]:
    """Environment variables that limit the numerical libraries to so many threads; none without a limit."""
    return {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))
