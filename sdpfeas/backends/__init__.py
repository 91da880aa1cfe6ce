"""Backends: code that answers feasibility problems, one file or folder per method.

Backends are found by name through :mod:`sdpfeas.backends.registry`. ``sf.backends()`` lists them.
"""

import sys
from types import ModuleType

from sdpfeas.backends.registry import BackendInfo, backends


class _CallablePackage(ModuleType):
    """Package that can be called like the function of the same name, :func:`sdpfeas.backends`."""

    def __call__(self) -> dict[str, BackendInfo]:
        return backends()


sys.modules[__name__].__class__ = _CallablePackage
