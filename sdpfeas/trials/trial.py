"""What is run, under which limits, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["End", "Interrupted", "Limits", "Run", "Trial", "thread_environment"]

#: What the common numerical libraries read to learn how many threads they may start.
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
    """A run was told to stop before it was over."""


@dataclass(frozen=True)
class Limits:
    """What a trial may use.

    ``time``: seconds from when the clock starts; then it is killed. ``memory``: bytes that its process and
    all it started may hold together; then it is killed. ``threads``: threads of the numerical libraries; as
    the environment says if not given. ``setup``: seconds until the clock starts: for the process to start,
    to import, and to take the payload.
    """

    time: float | None = None
    memory: int | None = None
    threads: int | None = 1
    setup: float = 300.0


@dataclass(frozen=True)
class Trial:
    """Something to run in a worker.

    ``target``: ``"module:function"``, found again in the worker. The function is called with the payload
    and with ``start``, which it calls when it is set up: the clock runs from there on, and anew each time
    it is called. ``start(limit, **facts)`` may set another limit and report facts. What the function
    returns must be made of numbers, words, containers and arrays: nothing else is read from a worker.
    ``label``: one worker runs trials of one target, label and number of threads, one after the other.
    """

    target: str
    payload: bytes
    limits: Limits
    label: str = ""


@dataclass(frozen=True)
class Run:
    """What became of a trial.

    ``detail``: in words, where it did not end well. ``facts``: what the function said when it started the
    clock; None if it did not get so far. ``wall_time``: seconds it ran; seen from outside where it did not
    end well. ``log``: what it printed since the clock started; the middle of a long log is left out.
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
    """Environment variables that pin the numerical libraries to so many threads, if any are asked for."""
    return {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))
