"""Import optional packages on demand; the error for a missing one names the extra that installs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from sdpfeas.errors import MissingExtraError

__all__ = ["cvxpy", "extra", "installed_version"]

#: Extras of the package and the packages that they install.
EXTRAS = {
    "wlda": "scikit-learn 1.6 or later",
    "plot": "matplotlib",
    "parquet": "pyarrow",
    "dask": "dask and distributed",
    "joblib": "joblib",
    "solvers": "CVXOPT or SDPA",
}
#: Modules that backends require, with the extra that installs them.
BROUGHT_BY = {"cvxopt": "solvers", "sdpap": "solvers"}


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Turn an ImportError in the block into a :class:`MissingExtraError`.

    ``what`` is the feature that needs the package, as the beginning of a sentence.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        needs = f"{what} needs {EXTRAS[name]}: pip install 'sdpfeas[{name}]'"
        raise MissingExtraError(f"{needs} ({error})") from error


_import_lock = threading.Lock()


def cvxpy() -> Any:
    """Import cvxpy under a lock.

    Its modules have import cycles, so two threads that import different ones at the same time may see
    partially initialised modules. Call this before importing from a module of cvxpy.
    """
    with _import_lock:
        return import_module("cvxpy")


@cache
def installed_version(name: str) -> str | None:
    """Version of an installed package, or None if it is not installed; cached."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and rarely needed

    if name == "sdpfeas":  # the metadata of an editable installation may be outdated
        return str(import_module(name).__version__)
    try:
        return version(name)
    except PackageNotFoundError:
        return None
