"""Change the code that proves things, one operator or number at a time, and see whether a test notices.

Run by `make mutate`, e.g. with ARGS='verifier --sample 60 --seed 1'. A mutant is made while the module is
imported, in a process forked from one that has imported the slow packages; nothing is written. What survives
is listed: either a test is missing, or the change makes no difference.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]

#: What is changed, and the tests that should notice.
TARGETS: dict[str, tuple[list[str], list[str]]] = {
    "verifier": (
        [
            *("rigorous", "numeric", "equality", "gram", "judging", "lmis", "cases", "readings"),
            *("exact/multipliers", "exact/points", "exact/rows", "chains/replay", "chains/case"),
        ],
        ["tests/verifier", "tests/problem/test_redundancy.py", "tests/auditor/test_audit.py"],
    ),
    "sets": (
        [*("psd", "vectors", "matrices", "second_order", "spectral_box", "hermitian", "base")],
        [
            "tests/problem/test_set_contract.py",
            "tests/problem/test_sets.py",
            "tests/problem/test_new_cones.py",
        ],
    ),
    "brackets": (["search/bracket", "families/proofs", "families/roots"], ["tests/search/test_bisection.py"]),
}
FOLDERS = {"verifier": "sdpfeas/verifier", "sets": "sdpfeas/problem/sets", "brackets": "sdpfeas"}

COMPARED: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """One change: the k-th of a file."""

    path: Path
    line: int
    before: str
    after: str
    tree: ast.Module

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts)

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: `{self.before}` became `{self.after}`"


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of a file; words, types and what is raised are left alone."""
    source = path.read_text(encoding="utf-8")
    for place in range(len(list(_spots(ast.parse(source))))):
        for choice in range(2):
            tree = ast.parse(source)
            node = list(_spots(tree))[place]
            before = ast.unparse(node)
            if _change(node, choice):
                yield Mutant(path, node.lineno, before, ast.unparse(node), tree)


def _spots(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions in order, but for words, annotations and messages."""
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)):
        return
    if isinstance(node, (ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Constant, ast.Call)):
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _spots(child)


def _change(node: ast.expr, choice: int) -> bool:
    """Change an expression in place; False if there is no such choice."""
    match node:
        case ast.Compare(ops=[op, *_]) if choice < len(COMPARED[type(op)]):
            node.ops[0] = COMPARED[type(op)][choice]()
        case ast.BinOp(op=op) if choice == 0 and type(op) in COMPUTED:
            node.op = COMPUTED[type(op)]()
        case ast.BoolOp() if choice == 0:
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.USub()) if choice == 0:
            node.op = ast.UAdd()
        case ast.UnaryOp(op=ast.Not()) if choice == 0:
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        case ast.Constant(value=bool(value)) if choice == 0:
            node.value = not value
        case ast.Constant(value=int(value)) if choice == 0:
            node.value = value + 1
        case ast.Constant(value=float(value)) if choice == 0:
            node.value = 4.0 * value if value else 1.0
        case ast.Call(func=ast.Name(id=name)) if choice == 0 and name in NAMES:
            node.func = ast.copy_location(ast.Name(NAMES[name], ast.Load()), node.func)
        case ast.Call(func=ast.Attribute(attr=name)) if choice == 0 and name in NAMES:
            node.func.attr = NAMES[name]
        case _:
            return False
    return True


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module as the mutant has it."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != self.mutant.module:
            return None
        return importlib.util.spec_from_file_location(name, self.mutant.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        tree = ast.fix_missing_locations(self.mutant.tree)
        exec(compile(tree, self.mutant.path, "exec"), module.__dict__)


def tested(mutant: Mutant, tests: Sequence[str], limit: float) -> bool:
    """Whether the tests pass, in a process of their own; one that takes too long does not."""
    child = os.fork()
    if child == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.meta_path.insert(0, Changed(mutant))
        import pytest

        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--benchmark-disable"]
        os._exit(int(pytest.main([*options, "-m", "not slow and not deep", *tests])))
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main() -> int:
    """Sample, test, list what survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=sorted(TARGETS), nargs="*", default=sorted(TARGETS))
    parser.add_argument("--sample", type=int, default=40, help="mutants of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=600, help="seconds a mutant")
    asked = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    sys.dont_write_bytecode = True
    for name in (
        "numpy",
        "scipy.linalg",
        "scipy.sparse.linalg",
        "scipy.optimize",
        "hypothesis",
        "pytest",
        "cvxpy",
    ):
        importlib.import_module(name)
    survived = 0
    for target in asked.target:
        files, tests = TARGETS[target]
        found = [m for name in files for m in mutants(ROOT / FOLDERS[target] / f"{name}.py")]
        # Through the same import: a module that fails to load there is no test that noticed.
        path = found[0].path
        same = Mutant(path, 0, "", "", ast.parse(path.read_text(encoding="utf-8")))
        if not tested(same, tests, asked.limit):
            sys.exit(f"{target}: the tests fail without any change")
        sample = random.Random(asked.seed).sample(found, min(asked.sample, len(found)))
        alive = []
        for mutant in sample:
            if tested(mutant, tests, asked.limit):
                alive.append(mutant)
                print(f"survived: {mutant}", flush=True)
        print(f"{target}: {len(sample)} of {len(found)} mutants, {len(alive)} survived", flush=True)
        survived += len(alive)
    return min(survived, 1)


if __name__ == "__main__":
    sys.exit(main())
