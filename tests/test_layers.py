"""The layers of the library, and what keeps its modules apart.

A room looks down only. Nobody imports a module inside a function to get around a circle, and nobody takes a
private name of another room.

`KNOWN` holds what is still wrong. It may only shrink: a violation that is not on it fails the test, and so
does one that is on it and gone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import mutants
import pytest

PACKAGE = Path(__file__).parents[1] / "sdpfeas"

#: Rooms and root modules, the lowest first. Those in one line know nothing of each other.
ORDER = [
    ["errors", "pytest_plugin", "sdpcheck"],
    ["deadline", "escaping", "extras", "files"],
    ["cards", "notebook", "npz", "numerics", "trials"],
    ["problem"],
    ["certifier", "claims"],
    ["verifier"],
    ["io"],
    ["backends", "datasets"],
    ["families"],
    ["drivers", "dropin"],
    ["cvxpy_models", "study", "testing"],
    ["api", "estimators"],
    ["cli"],
    ["sdpfeas"],
]
MOST_ROOT_MODULES = 15

KNOWN: dict[str, set[str]] = {
    # Methods of a check that solve parts of its problem load the driver when called; `sdpfeas.backends`
    # is a function and a package; a worker sets sys.path first.
    "looks up": {"verifier.results -> drivers"},
    "in a circle": set(),
    "imports our own inside a function": {
        "sdpfeas -> backends",
        "trials.worker_main -> errors",
        "verifier.results -> drivers.infeasibility",
    },
    "private name of another room": set(),
}


@dataclass(frozen=True)
class Import:
    """A module of ours that another imports, and how."""

    module: str
    names: tuple[str, ...]
    local: bool
    for_types: bool


@dataclass
class Module:
    """A module of ours: what it imports, and which private names it defines and reads."""

    name: str
    imports: list[Import] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)

    @property
    def room(self) -> str:
        return room_of(self.name)

    def __str__(self) -> str:
        return short(self.name)


def short(module: str) -> str:
    return module.removeprefix("sdpfeas.")


def room_of(module: str) -> str:
    """The room or root module a module is in; the package itself is a room of its own."""
    return [*module.split("."), module][1]


House = dict[str, Module]


@cache
def read_house(package: Path) -> House:
    """All modules of the package by name."""
    house = {}
    sources = {_dotted(path, package): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    for name, source in sources.items():
        house[name] = Module(name)
        _visit(ast.parse(source), house[name], set(sources), local=False, for_types=False)
    for path in package.rglob("*.pyi"):  # names that a module imports when they are first used
        stub = ast.parse(path.read_text(encoding="utf-8"))
        _visit(stub, house[_dotted(path, package)], set(sources), local=False, for_types=True)
    return house


def _dotted(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _visit(tree: ast.AST, module: Module, known: set[str], *, local: bool, for_types: bool) -> None:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module.imports.extend(_imports(node, module.name, known, local=local, for_types=for_types))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            named = {each.value for each in node.args if isinstance(each, ast.Constant)} & known
            # Loaded by name when it is called, so it closes no circle while modules are imported.
            module.imports.extend(Import(name, (), local=True, for_types=True) for name in named)
        elif isinstance(node, ast.Attribute):
            (module.defined if isinstance(node.ctx, ast.Store) else module.read).add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            module.defined.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            module.defined.add(node.name)
        inside = local or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            then, otherwise = ast.Module(node.body, []), ast.Module(node.orelse, [])
            _visit(then, module, known, local=inside, for_types=True)
            _visit(otherwise, module, known, local=inside, for_types=for_types)
        else:
            _visit(node, module, known, local=inside, for_types=for_types)


def _imports(
    node: ast.Import | ast.ImportFrom, package: str, known: set[str], *, local: bool, for_types: bool
) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name in known:
                yield Import(alias.name, (), local, for_types)
        return
    # Relative imports are those of stubs of packages.
    source = ".".join(filter(None, (package if node.level else "", node.module)))
    for alias in node.names:
        inner = f"{source}.{alias.name}"
        if inner in known:
            yield Import(inner, (), local, for_types)
        elif source in known:
            yield Import(source, (alias.name,), local, for_types)


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def looking_up(house: House, order: list[list[str]] = ORDER) -> Iterator[str]:
    level = {room: k for k, rooms in enumerate(order) for room in rooms}
    for module in house.values():
        for each in module.imports:
            above = room_of(each.module)
            if above != module.room and level[above] >= level[module.room] and each.names != ("__version__",):
                yield f"{module} -> {above}"


def circles(house: House) -> Iterator[str]:
    """Modules that import each other, directly or around a corner; for type checkers they may."""
    graph = {name: {i.module for i in m.imports if not i.for_types} - {name} for name, m in house.items()}
    for circle in _strong_components(graph):
        if len(circle) > 1:
            yield " <-> ".join(sorted(map(short, circle)))


def _strong_components(graph: dict[str, set[str]]) -> list[set[str]]:
    reached = {name: _reached(graph, name) for name in graph}
    found: list[set[str]] = []
    for name in graph:
        if not any(name in circle for circle in found):
            found.append({name} | {other for other in reached[name] if name in reached[other]})
    return found


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    stack = list(graph[start])
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack.extend(graph[name])
    return seen


def local_imports(house: House) -> Iterator[str]:
    for module in house.values():
        for each in module.imports:
            if each.local:
                yield f"{module} -> {short(each.module)}"


def private_names(house: House) -> Iterator[str]:
    """Private names of other rooms, imported or read as attributes."""
    owners: dict[str, set[str]] = {}
    for module in house.values():
        for name in filter(private, module.defined):
            owners.setdefault(name, set()).add(module.room)
    for module in house.values():
        for each in module.imports:
            if room_of(each.module) != module.room:
                yield from (f"{module}: {short(each.module)}.{name}" for name in each.names if private(name))
        for name in filter(private, module.read):
            if name in owners and module.room not in owners[name]:
                yield f"{module}: {'/'.join(sorted(owners[name]))}'s {name}"


def rooms_without_a_place(house: House) -> Iterator[str]:
    placed = {room for rooms in ORDER for room in rooms}
    yield from {module.room for module in house.values()} ^ placed


RULES = {
    "looks up": looking_up,
    "in a circle": circles,
    "imports our own inside a function": local_imports,
    "private name of another room": private_names,
    "not in ORDER, or no longer there": rooms_without_a_place,
}


@pytest.mark.parametrize("rule", RULES)
def test_nothing_new_and_nothing_forgotten(rule: str) -> None:
    found, known = set(RULES[rule](read_house(PACKAGE))), KNOWN.get(rule, set())
    assert sorted(found - known) == [], f"new: {rule}"
    assert sorted(known - found) == [], f"gone, so take it off KNOWN: {rule}"


def test_few_modules_at_the_root() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_ROOT_MODULES


def test_known_names_rules() -> None:
    assert set(KNOWN) <= set(RULES)


def test_every_rule_can_be_broken(tmp_path: Path) -> None:
    typed = "if TYPE_CHECKING:\n    import sdpfeas.problem.four"
    sources = {
        "errors": "import sdpfeas.numerics.linalg",
        "numerics/__init__": "",
        "numerics/linalg": "def _secret(): ...",
        "problem/__init__": "from sdpfeas.numerics.linalg import _secret",
        "problem/one": "from sdpfeas.problem import two\nx._secret",
        "problem/two": "def f():\n    from sdpfeas.problem.one import x",
        "problem/three": "from sdpfeas import __version__\n" + typed,
        "problem/four": "from sdpfeas.problem.three import b\nself._own = self._own",
        "problem/five": "importlib.import_module('sdpfeas.attic').x",
        "attic": "",
    }
    stub = "from . import x\nfrom .linalg import y\nimport sdpfeas.problem.one"
    for name, source in sources.items():
        path = tmp_path / "sdpfeas" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    (tmp_path / "sdpfeas/numerics/__init__.pyi").write_text(stub, encoding="utf-8")
    house = read_house(tmp_path / "sdpfeas")
    order = [*ORDER, ["attic"]]
    assert set(looking_up(house, order)) == {
        "errors -> numerics",
        "numerics -> problem",
        "problem.five -> attic",
    }
    assert "sdpfeas.numerics.linalg" in {each.module for each in house["sdpfeas.numerics"].imports}
    assert set(circles(house)) == {"problem.one <-> problem.two"}
    assert set(local_imports(house)) == {"problem.two -> problem.one", "problem.five -> attic"}
    assert set(private_names(house)) == {
        "problem: numerics.linalg._secret",
        "problem.one: numerics's _secret",
    }
    assert "attic" in set(rooms_without_a_place(house))


def test_the_mutation_tool_names_modules_and_tests_that_exist() -> None:
    """`make mutate` changes the code that proves things; a moved module must not drop out of it unnoticed."""
    for room, (modules, tests) in mutants.TARGETS.items():
        for module in modules:
            assert (PACKAGE.parent / mutants.FOLDERS[room] / f"{module}.py").is_file(), module
        for test in tests:
            assert (PACKAGE.parent / test).exists(), test
