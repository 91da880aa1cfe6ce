"""Profile a run: eigendecompositions, matrix products, and the rest.

A product written ``a @ b`` is no call, so a profiler cannot see it. While :func:`install` is in force the
modules of sdpfeas are compiled with every ``a @ b`` turned into a call that is timed; NumPy's ``matmul`` and
``dot`` and the BLAS and eigenvalue routines of SciPy are wrapped. What is neither is overhead: element-wise
work, ``einsum``, Cholesky factors, the optimiser, and Python itself.
"""

from __future__ import annotations

import ast
import builtins
import cProfile
import functools
import importlib.abc
import importlib.machinery
import pstats
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

__all__ = ["Clock", "hot_spots", "install"]

#: What the rewritten products call; its name is what a profile shows.
NAME = "timed_matrix_product"

#: Functions that are timed, by module.
EIGEN = {
    "scipy.linalg": ("eigh", "eigvalsh", "eigh_tridiagonal"),
    "scipy.linalg.lapack": ("dsyevd",),
    "numpy.linalg": ("eigh", "eigvalsh"),
}
PRODUCTS = {
    "numpy": ("matmul", "dot"),
    "scipy.linalg.blas": ("dgemm", "dsyrk", "dsymm", "dtrmm", "dgemv", "dsymv"),
}


class Clock:
    """Seconds spent in eigendecompositions and in matrix products.

    Attributes
    ----------
    eigen, products : float
        The seconds.
    """

    def __init__(self) -> None:
        self.eigen = 0.0
        self.products = 0.0
        self._inside = False

    def timed(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same function with its time taken; what it calls itself is not counted twice.

        Parameters
        ----------
        kind : str
            ``"eigen"`` or ``"products"``.
        call : callable
            The function.
        """

        @functools.wraps(call)
        def wrapper(*arguments: Any, **options: Any) -> Any:
            if self._inside:
                return call(*arguments, **options)
            self._inside = True
            begin = time.perf_counter()
            try:
                return call(*arguments, **options)
            finally:
                self._inside = False
                setattr(self, kind, getattr(self, kind) + time.perf_counter() - begin)

        return wrapper

    def reset(self) -> None:
        """Start again from zero."""
        self.eigen = self.products = 0.0


class _Rewriter(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.MatMult):
            return node
        return ast.Call(ast.Name(NAME, ast.Load()), [node.left, node.right], [])


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        # Not from the cache, and not into it.
        tree = _Rewriter().visit(ast.parse(Path(self.path).read_bytes(), self.path))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != "sdpfeas":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def install() -> Clock:
    """Have everything timed from here on; to be called before sdpfeas is imported.

    Raises
    ------
    RuntimeError
        If sdpfeas is there already.
    """
    if "sdpfeas" in sys.modules:
        raise RuntimeError("sdpfeas is imported already: its matrix products cannot be timed any more")
    clock = Clock()
    for kind, modules in (("eigen", EIGEN), ("products", PRODUCTS)):
        for module_name, names in modules.items():
            module = importlib.import_module(module_name)
            for name in names:
                setattr(module, name, clock.timed(kind, getattr(module, name)))

    def timed_matrix_product(left: Any, right: Any) -> Any:
        return left @ right

    setattr(builtins, NAME, clock.timed("products", timed_matrix_product))
    sys.meta_path.insert(0, _Finder())
    return clock


def hot_spots(run: Callable[[], object], count: int = 12) -> list[tuple[str, int, float]]:
    """The functions a run spends most time in, themselves: name, calls, share of the time.

    Parameters
    ----------
    run : callable
        The run.
    count : int
        How many to list.
    """
    profile = cProfile.Profile()
    profile.runcall(run)
    table: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(entry[2] for entry in table.values())
    ranked = sorted(table.items(), key=lambda item: -item[1][2])[:count]
    return [
        (f"{Path(file).name}:{name}" if line else name, int(entry[1]), entry[2] / total)
        for (file, line, name), entry in ranked
    ]
