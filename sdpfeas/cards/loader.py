"""Loading of code that is found by name: drop-in files and entry points.

:func:`load_class` imports either and returns the class in it. Within :func:`own_code_only` it imports code of
this package only, and raises :class:`ForeignCode` for any other: processes that grant verdicts run no code of
strangers.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from sdpfeas.errors import BackendError, CardError

__all__ = ["ForeignCode", "dropin_file", "load_class", "load_module", "own_code_only"]

Base = TypeVar("Base")

#: Names of the modules that drop-in files become begin with this.
PREFIX = "_sdpfeas_dropin_"


class ForeignCode(Exception):
    """Code outside this package was about to be imported where that is not allowed."""


_OWN_CODE_ONLY: ContextVar[bool] = ContextVar("sdpfeas_own_code_only", default=False)


@contextmanager
def own_code_only() -> Iterator[None]:
    """Raise ForeignCode instead of importing a drop-in file or an entry point of another package."""
    token = _OWN_CODE_ONLY.set(True)
    try:
        yield
    finally:
        _OWN_CODE_ONLY.reset(token)


def _require_allowed(module: str) -> None:
    if _OWN_CODE_ONLY.get() and module.split(".", maxsplit=1)[0] != "sdpfeas":
        raise ForeignCode(module)


def load_class(
    found: Path | EntryPoint, base: type[Base], noun: str, error: type[BackendError | CardError]
) -> type[Base]:
    """Load the subclass of ``base`` that an entry point names, or the one that a drop-in file defines.

    ``noun`` and ``error`` are what messages call it and the exception that carries them.
    """
    if isinstance(found, Path):
        return _load_from_file(found, base, noun, error)
    _require_allowed(found.module)
    try:
        loaded = found.load()
    except Exception as problem:  # foreign code may raise anything
        raise error(f"{noun} {found.name!r} could not be loaded: {_brief(problem)}") from problem
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise error(f"{noun} {found.name!r} is not a {base.__name__} subclass")
    return loaded


def _load_from_file(
    path: Path, base: type[Base], noun: str, error: type[BackendError | CardError]
) -> type[Base]:
    if not path.is_file():
        raise error(f"{path}: no such file")
    module = load_module(path.resolve(), error)
    classes = [
        item
        for item in vars(module).values()
        if isinstance(item, type)
        and issubclass(item, base)
        and item.__module__ == module.__name__
        and not getattr(item, "__abstractmethods__", None)
    ]
    # Helper classes without a name of their own do not count, unless there is nothing else.
    classes = [kind for kind in classes if vars(kind).get("name")] or classes
    if len(classes) != 1:
        names = ", ".join(kind.__name__ for kind in classes) or "none"
        raise error(f"{path}: a drop-in file defines exactly one {noun} class with a name; found: {names}")
    name = getattr(classes[0], "name", None)
    if not (isinstance(name, str) and name):
        raise error(f"{path}: {noun} class {classes[0].__name__} has no name")
    return classes[0]


def load_module(path: Path, error: type[BackendError | CardError] = BackendError) -> ModuleType:
    """Import a Python file by its absolute path; a file that was edited since is imported again."""
    _require_allowed(str(path))
    # The content is part of the module's name, so that an edited file is another module.
    digest = hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()[:12]
    name = f"{PREFIX}{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise error(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as problem:  # foreign code may raise anything
        del sys.modules[name]
        raise error(f"{path}: could not be loaded: {_brief(problem)}") from problem
    return module


def dropin_file(kind: type) -> str | None:
    """The drop-in file that defines a class, or None if other processes can import its module by name."""
    if not kind.__module__.startswith(PREFIX):
        return None
    return getattr(sys.modules.get(kind.__module__), "__file__", None)


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
