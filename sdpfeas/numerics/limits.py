"""Time and memory limits of the work inside a solve.

Two checks raise ``LimitError``. :func:`check_deadline` stands between two steps and costs less than a
microsecond. :func:`guard` stands before native code that runs long and cannot be interrupted, such as an
eigendecomposition: it refuses work whose flop count, at the measured speed of the machine, exceeds the time
left, and work that needs more memory than is free. Both apply to the enclosing :func:`limited` block.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

import numpy as np

from sdpfeas.errors import OutOfMemory, OutOfTime
from sdpfeas.numerics.floating_point_environment import require_ieee

#: Time of an eigendecomposition of an n×n matrix over ``n**3``, and of a number written into new memory, in
#: multiply-adds of a matrix product. Measured: 4 (n = 1200) to 11 (n = 160), and 12 to 18.
EIGEN_FLOPS, WRITE_FLOPS = 10.0, 16.0

#: Multiply-adds per second that every machine reaches; work is not measured if it fits at this rate.
SLOW_RATE = 3e8

#: Share of the measured speed that is relied on: flop counts are rough, and refusing is cheap.
SPEED_SHARE = 0.8

#: Seconds after which the speed is measured again, since the load of the machine changes.
SPEED_LIFETIME_SECONDS = 20.0

#: Bytes below which the free memory is not queried.
UNCHECKED_BYTES = 64 * 2**20

#: Share of the free memory that may be taken.
MEMORY_SHARE = 0.8


class Limit(Protocol):
    """A deadline, as :func:`limited` takes it."""

    @property
    def left(self) -> float:
        """Seconds left."""


_LIMIT: ContextVar[Limit | None] = ContextVar("sdpfeas_limit", default=None)

#: Time and result of the last measurement of the speed.
_measured: list[tuple[float, float]] = []


@contextmanager
def limited(limit: Limit | None) -> Iterator[None]:
    """Apply a limit to all work inside the ``with`` block.

    The limit replaces that of an enclosing block; None keeps the enclosing one. Raises
    ``FloatingPointStateError`` if the arithmetic of this thread violates IEEE 754.
    """
    require_ieee()
    if limit is None:
        yield
        return
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def time_left() -> float:
    """Return the seconds left in the current :func:`limited` block; infinity without a limit."""
    limit = _LIMIT.get()
    return math.inf if limit is None else limit.left


def check_deadline(what: str) -> None:
    """Raise ``OutOfTime`` ("out of time before ``what``") if the time is up."""
    limit = _LIMIT.get()
    if limit is not None and limit.left <= 0.0:
        raise OutOfTime(what)


def guard(what: str, flops: float = 0.0, *, memory: float = 0.0) -> None:
    """Raise ``OutOfTime`` or ``OutOfMemory`` if work exceeds the time left or the free memory.

    ``flops`` counts multiply-adds of dense matrix products; see ``EIGEN_FLOPS`` and ``WRITE_FLOPS`` for other
    work. ``memory`` is in bytes.
    """
    if memory > UNCHECKED_BYTES:
        free = available_memory()
        if memory > MEMORY_SHARE * free:
            raise OutOfMemory(what, memory, free)
    left = time_left()
    if left <= 0.0:
        raise OutOfTime(what)
    if flops > SLOW_RATE * left:
        wanted = estimated_seconds(flops)
        if wanted > left:
            raise OutOfTime(what, wanted, left)


def estimated_seconds(flops: float) -> float:
    """Estimate the time of work, given in multiply-adds of dense matrix products."""
    now = time.monotonic()
    if not _measured or now - _measured[0][0] > SPEED_LIFETIME_SECONDS:
        _measured[:] = [(now, _measure())]
    return flops / _measured[0][1]


def _measure() -> float:
    """Return the multiply-adds per second of matrix products in long work, at the present load."""
    matrix = np.random.default_rng(0).normal(size=(256, 256))
    taken = []
    for _ in range(3):  # the shortest time is least affected by other processes
        begin = time.perf_counter()
        matrix @ matrix
        taken.append(time.perf_counter() - begin)
    return SPEED_SHARE * matrix.shape[0] ** 3 / max(min(taken), 1e-7) / _load_factor()


def _load_factor() -> float:
    """Return the load average per processor, at least 1; long work runs slower by this factor."""
    try:
        return max(os.getloadavg()[0] / _processors(), 1.0)
    except (AttributeError, OSError):
        return 1.0


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> float:
    """Return the bytes this process can still allocate within the free memory and its limits."""
    import psutil  # imported here because it is slow to import and rarely needed

    found = float(psutil.virtual_memory().available)
    return max(min(found, _group_memory(), _address_space()), 0.0)


def _group_memory() -> float:
    """Return the bytes left to the control group; infinity without one."""
    for folder, most, now in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            words = [(Path(folder) / name).read_text().strip() for name in (most, now)]
        except OSError:
            continue
        if all(word.isdigit() for word in words):
            return float(words[0]) - float(words[1])
    return math.inf


def _address_space() -> float:
    """Return the bytes left below the address space limit; infinity without one."""
    try:
        import resource
    except ImportError:
        return math.inf
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return math.inf
    import psutil

    return float(most) - float(psutil.Process().memory_info().vms)
