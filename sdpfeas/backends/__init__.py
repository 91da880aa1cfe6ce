"""Backends, one file or folder each; they are found through entry points, never imported from here.

Called, the package lists them: ``sf.backends()``.
"""

import sys
from types import ModuleType

from sdpfeas.backends.registry import BackendInfo, backends


class _Room(ModuleType):
    """A package that is also the function of its name, so that neither hides the other."""

    def __call__(self) -> dict[str, BackendInfo]:
        return backends()


sys.modules[__name__].__class__ = _Room
