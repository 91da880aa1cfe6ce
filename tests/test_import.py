"""What `import sdpfeas` costs, and what it offers."""

from __future__ import annotations

import ast
import resource
import statistics
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import sdpfeas as sf
import sdpfeas.estimators
from sdpfeas.cli import console, library


def in_a_fresh_process(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def loaded(code: str) -> set[str]:
    return set(in_a_fresh_process(f"import sys\n{code}\nprint(*sys.modules)").split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not loaded("import sdpfeas") & {"numpy", "scipy", "dataclasses"}
    # It must not only be put off: what few need is not imported with every name either.
    every_name = loaded("from sdpfeas import *")
    assert {"numpy", "scipy.sparse", "sdpfeas.drivers.solve"} <= every_name
    heavy = {
        "cvxpy",
        "clarabel",
        "scs",
        "scipy.optimize",
        "scipy.spatial",
        "scipy.stats",
        "sklearn",
        "matplotlib",
    }
    for_the_command_line = {"typer", "rich", "psutil", "asyncio"}
    assert not every_name & (heavy | for_the_command_line)


def test_every_public_name_is_there() -> None:
    assert set(sf.__all__) <= set(dir(sf))
    assert all(getattr(sf, name) is not None for name in sf.__all__)
    assert sf.families.__name__ == "sdpfeas.families"
    assert "clarabel" in sf.backends()
    with pytest.raises(AttributeError, match="No sdpfeas attribute solv"):
        sf.solv  # type: ignore[attr-defined]


def stub_of(module: ModuleType) -> dict[str, str]:
    """The names that the stub of a module imports, and from where."""
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    found = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            place = ".".join(filter(None, (module.__name__ if node.level else "", node.module)))
            found |= {alias.name: place for alias in node.names if alias.name == alias.asname}
    return found


@pytest.mark.parametrize("module", [sf, library, sdpfeas.estimators])
def test_names_are_imported_from_where_their_stub_says(module: ModuleType) -> None:
    stub = stub_of(module)
    for name, place in stub.items():
        assert getattr(module, name) is getattr(import_module(place), name), name
    if module is not library:  # which is no package: its names are for the commands
        assert set(module.__all__) == {*stub, *(("__version__", "backends") if module is sf else ())}


def test_backends_are_a_package_and_a_function() -> None:
    assert sf.backends.registry.find_solver is sf.find_solver  # type: ignore[attr-defined]
    assert sf.backends() == sf.backends.registry.backends()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_importing_costs_little_beside_cvxpy() -> None:
    def seconds(code: str) -> float:
        clock = f"import time; start = time.process_time(); {code}; print(time.process_time() - start)"
        return statistics.median(float(in_a_fresh_process(clock)) for _ in range(5))

    cvxpy = seconds("import cvxpy")
    assert seconds("import sdpfeas") <= 0.3 * cvxpy


QUICK = [["--help"], ["solve", "--help"], ["wlda", "--help"], ["--version"]]


def completed(words: str) -> list[str]:
    """What bash is told to offer for the last word."""
    asked = {"_SDPFEAS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = (
        f"import os, sys, atexit; os.environ.update({asked!r}); from sdpfeas.cli import main\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main([])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert not set(done.stderr.split()) & {"numpy", "scipy"}
    return done.stdout.split()


def test_help_and_completion_import_nothing_heavy() -> None:
    code = f"""
from sdpfeas.cli.app import app
for words in {QUICK!r}:
    try:
        app(words, prog_name="sdpfeas")
    except SystemExit as end:
        assert not end.code
"""
    assert not loaded(code) & {"numpy", "scipy", "cvxpy", "sklearn", "sdpfeas.backends", "sdpfeas.problem"}


def test_completion_knows_solvers_and_cards() -> None:
    assert completed("sdpfeas solve --solver cla") == [
        "clarabel",
        "clarabel-cvxpy",
        "clarabel-direct",
        "clarabel-plain",
    ]
    assert console.complete_problems("wlda-ir") == ["wlda-iris"]
    assert console.complete_names("theta-") == ["theta-cycle"]
    assert console.complete_listed_solvers("scs,dual-l") == ["scs,dual-lbfgs"]
    assert console.complete_listed_problems("max-cut,the")[0] == "max-cut,theta"


@pytest.mark.slow
def test_help_costs_little_beside_a_bare_typer_application(tmp_path: Path) -> None:
    bare = tmp_path / "bare.py"
    bare.write_text(
        'import typer\napp = typer.Typer(rich_markup_mode="rich")\n'
        'app.command("a")(lambda: None)\napp.command("b")(lambda: None)\napp()\n'
    )

    def seconds(*command: str) -> float:
        times = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *command], capture_output=True, timeout=120, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    for words in (["--help"], ["solve", "--help"]):
        ours, least = (
            seconds("-m", "sdpfeas.cli", *words),
            seconds(str(bare), *["a", "--help"][-len(words) :]),
        )
        assert ours <= 2.0 * least, words
