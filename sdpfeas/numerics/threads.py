"""Limit BLAS to one thread while small matrices are processed.

BLAS libraries split even small products between all processors, and their threads wait by spinning. On two
busy processors an eigendecomposition of side 200, and even of side 1,200, takes ten times as long with two
threads as with one. The limit is removed afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

from sdpfeas.numerics.floating_point_environment import blas_is_ieee

__all__ = ["LARGE", "few_threads"]

#: Side from which on matrices are worth more than one BLAS thread on an idle machine.
LARGE = 1000

#: With more rows than this no Gram matrix is formed, and their number does not count.
MOST_ROWS = 20_000


#: Whether this thread has asked for one BLAS thread already.
_limited: ContextVar[bool] = ContextVar("sdpfeas_few_threads", default=False)


#: Libraries, and the number of threads of each.
Found = list[tuple[Any, int | None]]

#: Thread counts found by each caller inside the limit; the first entry holds the original ones.
_inside: list[Found] = []
_lock = Lock()


@lru_cache(maxsize=1)
def _blas(modules: int) -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _unfaithful() -> bool:
    """Whether threads of BLAS set subnormal numbers to zero, as they do if a thread that did started them."""
    return not _checked(len(sys.modules), tuple(library.num_threads for library in _blas(len(sys.modules))))


@lru_cache(maxsize=1)
def _checked(modules: int, threads: tuple[int | None, ...]) -> bool:
    return blas_is_ieee()


@contextmanager
def few_threads(sides: Iterable[int], rows: int) -> Iterator[None]:
    """Limit BLAS to one thread for a small problem, or for any problem if BLAS threads violate IEEE 754."""
    small = max(max(sides, default=0), rows // 3 if rows <= MOST_ROWS else 0) < LARGE
    if _limited.get() or not (small or _unfaithful()):
        yield
        return
    token, found = _limited.set(True), _enter()
    try:
        yield
    finally:
        _leave(found)
        _limited.reset(token)


def _enter() -> Found:
    """Limit all libraries to one thread; return what to leave them with."""
    with _lock:
        # Modules that were imported since may have brought libraries of their own.
        libraries = _blas(len(sys.modules))
        first = {library.filepath: count for library, count in _inside[0]} if _inside else {}
        found = []
        for library in libraries:
            own = library.num_threads
            # One may be what another thread, that is inside, has set for the whole process.
            found.append((library, first.get(library.filepath, own) if own == 1 else own))
        _inside.append(found)
        _set([(library, 1) for library in libraries])
    return found


def _leave(found: Found) -> None:
    with _lock:
        _inside.pop()  # any but the first, which stays until nobody is inside
        _set(found)


def _set(counts: Found) -> None:
    for library, count in counts:
        if count is not None:
            library.set_num_threads(count)
