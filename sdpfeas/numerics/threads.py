"""One thread for small matrices.

BLAS libraries split even small products between all processors, and their threads wait for each other by
spinning. On a machine with other work to do that costs far more than it gains: on two busy processors an
eigendecomposition of side 200 takes ten times as long with two threads as with one, and one of side 1,200
still does. So while small problems are worked on, BLAS is limited to one thread, and gets its own back after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["LARGE", "few_threads"]

#: Matrices of this side are worth more threads, if nobody else needs the processors.
LARGE = 1000

#: Rows whose Gram matrix nobody forms, because there are too many, do not count.
MOST_ROWS = 20_000


#: Whether this thread has asked for one BLAS thread already.
_limited: ContextVar[bool] = ContextVar("sdpfeas_few_threads", default=False)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def few_threads(sides: Iterable[int], rows: int) -> Iterator[None]:
    """Limit BLAS to one thread while a small problem is worked on.

    With some libraries the setting is one of the whole process. Then the first thread that asks decides for
    all others, until it is done.

    Parameters
    ----------
    sides : iterable of int
        Sides of the matrices.
    rows : int
        Number of rows; their Gram matrix counts, but is needed by some methods only.
    """
    small = max(max(sides, default=0), rows // 3 if rows <= MOST_ROWS else 0) < LARGE
    if not small or _limited.get():
        yield
        return
    token = _limited.set(True)
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.reset(token)
