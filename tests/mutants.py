"""Change the code that proves things, one operator or number at a time, and see whether a test notices.

Run by `make mutate`, e.g. with ARGS='verifier --sample 60 --seed 1'. First the tests run once, to learn which
of them reach which line; a mutant is then shown to those that reach it, the quickest first. It is made while
the module is imported, in a process forked from one that has the slow packages; no source is written.
What survives is listed: either a test is missing, or the change makes no difference.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

#: What is changed, and the tests that should notice.
TARGETS: dict[str, tuple[list[str], list[str]]] = {
    "verifier": (
        [
            *("rigorous", "numeric", "equality_correction", "gram", "point_metric"),
            *("verifier", "proof_attempts", "facial_reduction", "exact", "exact_simplex"),
        ],
        ["tests/verifier", "tests/problem/test_redundancy.py", "tests/certifier/test_audit.py"],
    ),
    "numerics": (
        ["rounding", "integer_matrices", "exact_arithmetic"],
        [
            "tests/numerics",
            "tests/verifier/test_verify_range.py",
            "tests/verifier/test_verify_attacks.py",
            "tests/backends/test_multiprecision.py",
            "tests/verifier/test_existence.py",
        ],
    ),
    "sets": (
        ["psd", "free", "nonneg", "second_order", "spectral_box", "hermitian", "base"],
        [
            "tests/problem/test_set_contract.py",
            "tests/problem/test_sets.py",
            "tests/problem/test_new_cones.py",
        ],
    ),
    "brackets": (
        ["drivers/bracket", "families/threshold_bounds"],
        ["tests/drivers/test_bisection.py", "tests/families/test_families.py"],
    ),
}
FOLDERS = {
    "verifier": "sdpfeas/verifier",
    "numerics": "sdpfeas/numerics",
    "sets": "sdpfeas/problem/sets",
    "brackets": "sdpfeas",
}

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
Spot = ast.Compare | ast.BinOp | ast.AugAssign | ast.BoolOp | ast.UnaryOp | ast.Constant | ast.Call
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """One change: of the expression at a place, counted through a file."""

    path: Path
    line: int
    lines: range
    before: str
    after: str
    place: int
    choice: int

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts)

    def tree(self) -> ast.Module:
        """The file with the change."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        _change(list(_spots(tree))[self.place][0], self.choice)
        return ast.fix_missing_locations(tree)

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: `{self.before}` became `{self.after}`"


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of a file; words, types and what is raised are left alone."""
    for place, (node, lines) in enumerate(_spots(ast.parse(path.read_text(encoding="utf-8")))):
        for choice in range(2):
            changed = copy.deepcopy(node)
            if _change(changed, choice):
                yield Mutant(path, node.lineno, lines, ast.unparse(node), ast.unparse(changed), place, choice)


def _spots(node: ast.AST, lines: range = range(0)) -> Iterator[tuple[Spot, range]]:
    """What may be changed, in order, with the lines of its statement, but for words and annotations."""
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)):
        return
    if isinstance(node, ast.stmt):
        first = node.body[0].lineno - 1 if isinstance(getattr(node, "body", None), list) else node.end_lineno
        lines = range(node.lineno, max(first or 0, node.lineno) + 1)
    if isinstance(node, Spot):
        yield node, lines
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _spots(child, lines)


def _change(node: Spot, choice: int) -> bool:
    """Change an expression, or a step of a sum, in place; False if there is no such choice."""
    match node:
        case ast.Compare(ops=[op, *_]) if choice < len(COMPARED[type(op)]):
            node.ops[0] = COMPARED[type(op)][choice]()
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if choice == 0 and type(op) in COMPUTED:
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
        exec(compile(self.mutant.tree(), self.mutant.path, "exec"), module.__dict__)


class Chosen:
    """Pytest runs these tests only, in their order."""

    def __init__(self, tests: Mapping[str, float]) -> None:
        self.tests = tests

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        wanted = {item.nodeid: item for item in items if item.nodeid in self.tests}
        items[:] = [wanted[name] for name in self.tests if name in wanted]


class Timed:
    """Processor seconds of each test."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.seconds[nodeid] = -time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] += time.process_time()


def in_child(run: Callable[[], int], limit: float) -> bool:
    """Whether a pytest run succeeds in a process of its own; one that computes too long does not."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
        os._exit(run())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--benchmark-disable", "-o", "timeout=0"]


@dataclass(frozen=True)
class Reach:
    """Which tests reach which lines, and how long they take."""

    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]

    @classmethod
    def learn(cls, target: str) -> Reach:
        """Run the tests of a target once; they have to pass."""
        import coverage
        import pytest

        with tempfile.TemporaryDirectory() as place:
            os.environ["COVERAGE_FILE"] = f"{place}/reach"

            def run() -> int:
                timed = Timed()
                folders = sorted({f"--cov={path.parent}" for path in sources(target)})
                more = [*folders, "--cov-context=test", "--cov-report=", "-m", "not slow and not deep"]
                code = int(pytest.main([*OPTIONS, *more, *TARGETS[target][1]], [timed]))
                Path(place, "seconds").write_text(json.dumps(timed.seconds), encoding="utf-8")
                return code

            if not in_child(run, resource.RLIM_INFINITY):
                sys.exit(f"{target}: the tests fail without any change")
            found = coverage.CoverageData(f"{place}/reach")
            found.read()
            lines = {
                name: {
                    str(line): sorted({each.rpartition("|")[0] for each in contexts})
                    for line, contexts in found.contexts_by_lineno(name).items()
                }
                for name in found.measured_files()
            }
            return cls(lines, json.loads(Path(place, "seconds").read_text(encoding="utf-8")))

    def of(self, mutant: Mutant, budget: float) -> dict[str, float]:
        """The tests that reach a mutant, the quickest first, as many as fit the budget."""
        there = self.lines.get(str(mutant.path), {})
        names = {name for line in mutant.lines for name in there.get(str(line), [])}
        if "" in names:  # runs at import: every test sees it
            names = set(self.seconds)
        total, chosen = 0.0, {}
        for name in sorted(names, key=lambda name: self.seconds[name]):
            total += self.seconds[name]
            if total > budget:
                break
            chosen[name] = self.seconds[name]
        return chosen


def sources(target: str) -> list[Path]:
    """The files that are changed."""
    return [ROOT / FOLDERS[target] / f"{name}.py" for name in TARGETS[target][0]]


def reach(target: str, kept: Path | None) -> Reach:
    """What was kept of an earlier run, or a new one."""
    if kept is None:
        return Reach.learn(target)
    path = kept / f"{target}.json"
    if not path.exists():
        path.write_text(json.dumps(asdict(Reach.learn(target))), encoding="utf-8")
    return Reach(**json.loads(path.read_text(encoding="utf-8")))


def main() -> int:
    """Sample, test, list what survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=sorted(TARGETS), nargs="*", default=sorted(TARGETS))
    parser.add_argument("--sample", type=int, default=40, help="mutants of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at", default="", help="only mutants whose line of the list contains this")
    parser.add_argument("--budget", type=float, default=60, help="processor seconds of tests, a mutant")
    parser.add_argument("--keep", type=Path, help="folder that keeps which test reaches which line")
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
        known = reach(target, asked.keep)
        found = [m for path in sources(target) for m in mutants(path) if asked.at in str(m)]
        sample = random.Random(asked.seed).sample(found, min(asked.sample, len(found)))
        alive = []
        for mutant in sample:
            tests = known.of(mutant, asked.budget)
            if not tests:
                said = "no test reaches it"
            elif noticed(mutant, tests):
                print(f"killed: {mutant}", flush=True)
                continue
            else:
                said = f"{len(tests)} tests pass"
            alive.append(mutant)
            print(f"survived: {mutant} ({said})", flush=True)
        print(f"{target}: {len(sample)} of {len(found)} mutants, {len(alive)} survived", flush=True)
        survived += len(alive)
    return min(survived, 1)


def noticed(mutant: Mutant, tests: dict[str, float]) -> bool:
    """Whether one of the tests fails, or computes without end."""
    files = sorted({name.partition("::")[0] for name in tests})

    def run() -> int:
        import pytest

        sys.meta_path.insert(0, Changed(mutant))
        return int(pytest.main([*OPTIONS, *files], [Chosen(tests)]))

    return not in_child(run, 60 + 10 * sum(tests.values()))


if __name__ == "__main__":
    sys.exit(main())
