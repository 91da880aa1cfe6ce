"""Optional packages: where one is missing, the error names the extra that brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sdpfeas.errors import MissingExtraError

__all__ = ["extra"]

#: The extras of the package that something cannot do without, and what they bring.
EXTRAS = {
    "wlda": "scikit-learn 1.6 or later",
    "plot": "matplotlib",
    "parquet": "pyarrow",
    "dask": "dask and distributed",
    "joblib": "joblib",
}


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Import optional packages inside.

    Parameters
    ----------
    name : str
        The extra that brings them.
    what : str
        What needs them, as the beginning of a sentence.

    Raises
    ------
    MissingExtraError
        If they cannot be imported.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        needs = f"{what} needs {EXTRAS[name]}: pip install 'sdpfeas[{name}]'"
        raise MissingExtraError(f"{needs} ({error})") from error
