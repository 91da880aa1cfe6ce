"""Optional and slow packages, imported when they are needed.

Where an optional package is missing, the error names the extra that installs it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from sdpfeas.errors import MissingExtraError

__all__ = ["cvxpy", "extra", "installed_version"]

#: The extras of the package that something cannot do without, and what they bring.
EXTRAS = {
    "wlda": "scikit-learn 1.6 or later",
    "plot": "matplotlib",
    "parquet": "pyarrow",
    "dask": "dask and distributed",
    "joblib": "joblib",
    "solvers": "CVXOPT or SDPA",
}
#: Modules that backends ask for by name, with the extra that brings them.
BROUGHT_BY = {"cvxopt": "solvers", "sdpap": "solvers"}


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Import optional packages inside.

    ``what``: what needs them, as the beginning of a sentence.

    Raises ``MissingExtraError``: if they cannot be imported.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        needs = f"{what} needs {EXTRAS[name]}: pip install 'sdpfeas[{name}]'"
        raise MissingExtraError(f"{needs} ({error})") from error


_one_at_a_time = threading.Lock()


def cvxpy() -> Any:
    """All of cvxpy, which is typed in parts only.

    Its modules import each other in circles, so two threads that import different ones at once see half of
    them. Ask for it here before taking anything from one of its modules.
    """
    with _one_at_a_time:
        return import_module("cvxpy")


@cache
def installed_version(name: str) -> str | None:
    """Version of an installed package, read once (of this one: of the running code), or None."""
    from importlib.metadata import PackageNotFoundError, version  # slow, and most commands need none

    if name == "sdpfeas":  # what an editable installation wrote down once may be old
        return str(import_module(name).__version__)
    try:
        return version(name)
    except PackageNotFoundError:
        return None
