"""Packages that are slow to import: taken when first asked for, by one thread at a time."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

__all__ = ["cvxpy"]

_one_at_a_time = threading.Lock()


def cvxpy() -> Any:
    """All of cvxpy, which is typed in parts only.

    Its modules import each other in circles, so two threads that import different ones at once see half of
    them. Ask for it here before taking anything from one of its modules.
    """
    with _one_at_a_time:
        return import_module("cvxpy")
