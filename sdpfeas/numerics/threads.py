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

__all__ = ["MULTITHREADED_SIDE", "few_threads"]

#: Smallest side of matrices for which several BLAS threads are faster than one on an idle machine.
MULTITHREADED_SIDE = 1000

#: Largest number of rows for which a Gram matrix is formed; more rows do not affect the choice.
GRAM_ROWS = 20_000


#: Whether this context is already inside :func:`few_threads`.
_limited: ContextVar[bool] = ContextVar("sdpfeas_few_threads", default=False)


#: BLAS libraries with their numbers of threads.
Found = list[tuple[Any, int | None]]

#: Thread counts found by each caller inside the limit; the first entry holds the original ones.
_inside: list[Found] = []
_lock = Lock()


@lru_cache(maxsize=1)
def _blas(modules: int) -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _unfaithful() -> bool:
    """Whether BLAS threads violate IEEE 754; they inherit flush-to-zero from the thread that started them."""
    return not _checked(len(sys.modules), tuple(library.num_threads for library in _blas(len(sys.modules))))


@lru_cache(maxsize=1)
def _checked(modules: int, threads: tuple[int | None, ...]) -> bool:
    return blas_is_ieee()


@contextmanager
def few_threads(sides: Iterable[int], rows: int) -> Iterator[None]:
    """Limit BLAS to one thread for a small problem, or for any problem if BLAS threads violate IEEE 754."""
    small = max(max(sides, default=0), rows // 3 if rows <= GRAM_ROWS else 0) < MULTITHREADED_SIDE
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
    """Limit all libraries to one thread; return the thread counts to restore."""
    with _lock:
        # Modules imported in the meantime may have loaded further libraries.
        libraries = _blas(len(sys.modules))
        first = {library.filepath: count for library, count in _inside[0]} if _inside else {}
        found = []
        for library in libraries:
            own = library.num_threads
            # A count of 1 may be the process-wide limit set by another thread inside `few_threads`.
            found.append((library, first.get(library.filepath, own) if own == 1 else own))
        _inside.append(found)
        _set([(library, 1) for library in libraries])
    return found


def _leave(found: Found) -> None:
    with _lock:
        _inside.pop()  # the first entry stays until the last caller has left
        _set(found)


def _set(counts: Found) -> None:
    for library, count in counts:
        if count is not None:
            library.set_num_threads(count)
