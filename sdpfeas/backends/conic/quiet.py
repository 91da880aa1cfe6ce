"""Native code that prints where it was told not to."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet"]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what native code prints out of the standard output, which may be a pipe of ours."""
    sys.stdout.flush()
    native = ctypes.CDLL(None)
    native.fflush(None)
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        native.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
