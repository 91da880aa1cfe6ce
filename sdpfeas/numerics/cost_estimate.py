"""Cost estimates of work, and the check that time and memory suffice for it.

Native code cannot be interrupted. Every expensive operation therefore declares its flop count and memory
through :func:`need` first, and is refused with ``LimitError`` if they exceed the deadline of the enclosing
:func:`limited` block or the free memory. Work is counted in three units (matrix products,
eigendecompositions, numbers written), each with a rate measured on first use and again from time to time,
since the load of the machine changes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg

from sdpfeas.errors import OutOfMemory, OutOfTime
from sdpfeas.numerics.floating_point_environment import require_ieee

#: Work is refused if this many times its estimate does not fit: estimates are rough, and refusing is cheap.
ESTIMATE_FACTOR = 1.25

#: Share of the time left below which work, at the rates of a slow machine, is let through unmeasured.
UNMEASURED_TIME_SHARE = 0.3

#: Bytes below which the free memory is not queried.
UNCHECKED_BYTES = 64 * 2**20

#: Share of the free memory that may be taken.
MEMORY_SHARE = 0.8

#: Seconds after which rates are measured again.
RATE_LIFETIME_SECONDS = 20.0


class Limit(Protocol):
    """A deadline, as :func:`limited` takes it."""

    @property
    def left(self) -> float:
        """Seconds left."""


_LIMIT: ContextVar[Limit | None] = ContextVar("sdpfeas_limit", default=None)


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


class Work(NamedTuple):
    """An amount of work, or a rate per second, in three units.

    ``products`` counts multiply-adds in matrix products and factorisations, ``cubes`` is the sum of ``n**3``
    over eigendecompositions of n×n matrices, and ``numbers`` counts numbers written into new memory by array
    operations.
    """

    products: float = 0.0
    cubes: float = 0.0
    numbers: float = 0.0

    def plus(self, other: Work) -> Work:
        """Return the sum of two amounts of work."""
        return Work(self.products + other.products, self.cubes + other.cubes, self.numbers + other.numbers)

    def times(self, count: float) -> Work:
        """Return the work multiplied by ``count``."""
        return Work(*(count * a for a in self))

    def at(self, rates: Work) -> float:
        """Return the seconds that the work takes at the given rates per second."""
        return sum(amount / rate for amount, rate in zip(self, rates, strict=True))


#: Rates per second of a slow or busy machine.
SLOW = Work(1e9, 1e8, 1e8)

_measured: list[tuple[float, Work]] = []


def need(
    what: str, products: float = 0.0, cubes: float = 0.0, numbers: float = 0.0, *, memory: float = 0.0
) -> None:
    """Raise ``OutOfTime`` or ``OutOfMemory`` if work exceeds the remaining time or the free memory.

    ``what`` names the work in the message "out of time before ...". The amounts are those of :class:`Work`;
    ``memory`` is in bytes.
    """
    if memory > UNCHECKED_BYTES:
        free = available_memory()
        if memory > MEMORY_SHARE * free:
            raise OutOfMemory(what, memory, free)
    limit = _LIMIT.get()
    if limit is None:
        return
    left = limit.left
    if left <= 0.0:
        raise OutOfTime(what)
    work = Work(products, cubes, numbers)
    if math.isinf(left):
        return
    wanted = seconds(work, UNMEASURED_TIME_SHARE * left)
    if ESTIMATE_FACTOR * wanted > left:
        raise OutOfTime(what, wanted, left)


def time_left() -> float:
    """Return the seconds left in the current :func:`limited` block; infinity without a limit."""
    limit = _LIMIT.get()
    return math.inf if limit is None else limit.left


def seconds(work: Work, negligible: float = 0.0) -> float:
    """Estimate the time of work at the measured rates of this machine.

    If the rates of a slow machine give at most ``negligible`` seconds, that estimate is returned without a
    measurement.
    """
    slow = work.at(SLOW)
    if slow <= negligible:
        return slow
    now = time.monotonic()
    if not _measured or now - _measured[0][0] > RATE_LIFETIME_SECONDS:
        _measured[:] = [(now, _measure())]
    return work.at(_measured[0][1])


def _measure() -> Work:
    rng = np.random.default_rng(0)
    square, small = rng.normal(size=(256, 256)), rng.normal(size=(160, 160))
    small = small + small.T
    count = 9 * 2**19  # larger than allocators cache, so that the time to clear new pages is included
    load = _load_factor()
    return Work(
        products=square.shape[0] ** 3 / _time(lambda: square @ square) / load,
        cubes=small.shape[0] ** 3 / _time(lambda: scipy.linalg.lapack.dsyevd(small, lower=1)) / load,
        numbers=count / _time(lambda: np.ones(count)) / load,
    )


def _time(work: Callable[[], object]) -> float:
    """Return the best of three timings, which is least affected by other processes."""
    found = []
    for _ in range(3):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return max(min(found), 1e-7)


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
