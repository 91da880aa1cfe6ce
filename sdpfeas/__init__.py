"""Semidefinite feasibility problems, and answers that can be trusted.

Any backend may answer; one shared verifier decides. See :func:`verify` and :class:`FeasibilityProblem`.
"""

import importlib

import lazy_loader

# __init__.pyi lists the public names. NumPy, SciPy and our own modules are imported with the first name used.
_import_name, _, _names = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.2.0"

__all__ = sorted([*_names, "__version__", "backends"])  # noqa: PLE0605


def __getattr__(name):
    """Import a public name."""
    # The package `backends` lists the backends when it is called; type checkers see that function only.
    return importlib.import_module("sdpfeas.backends") if name == "backends" else _import_name(name)


def __dir__():
    return __all__
