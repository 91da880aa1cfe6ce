"""Import names of the library on first use, so that ``--help`` and shell completion start quickly.

A command writes ``lib.solve``. The stub ``library.pyi`` lists the names. `lazy_loader` cannot read it because
they come from other packages.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any


def _read_stub() -> dict[str, str]:
    """The module that defines each name of the stub."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_MODULES = _read_stub()


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_MODULES[name]), name)
    return value
