"""Commands on the pages and in ``--help`` run, links lead to files, and the modules that pages name exist."""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from test_layers import ORDER

import sdpfeas as sf
from sdpfeas.cli.app import app
from sdpfeas.io.tables import read_samples

ROOT = Path(__file__).resolve().parents[1]
PAGE = "\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("studies.md", "cli.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: Files that readers would write themselves.
EXAMPLES = {("backend.md", "solvers/my_solver.py")}

#: What the slow tests only parse: it takes hours, public data or times, or changes with every run.
ELSEWHERE = {"board", "data", "diff", "judge", "merge", "releases", "scaling"}


def fenced(page: str, *languages: str) -> list[str]:
    found = re.findall(r"^```(\S*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for language, text in found if language in languages]


def commands(page: str) -> Iterator[tuple[list[str], int]]:
    """Commands of a page, with the exit code a comment promises."""
    for block in fenced(page, "sh", ""):
        for line in block.splitlines():
            code = re.search(r"# exit code (\d+)", line)
            words = shlex.split(re.sub(r"^[A-Z_]+=\S+ ", "", line), comments=True)
            yield words, int(code[1]) if code else 0


def helped(command: Any) -> Iterator[list[str]]:
    """Examples in the help of a command and of those below it."""
    text = (command.epilog or "").partition("Examples:")[2]
    for example in re.findall(r"sdpfeas (.*)", text):
        yield ["sdpfeas", *shlex.split(example)]
    for below in getattr(command, "commands", {}).values():
        yield from helped(below)


def parse(words: list[str]) -> None:
    """Take a command line apart as the program does, and leave it at that."""
    tree: Any = typer.main.get_command(app)
    command, rest = tree.commands[words[1]], words[2:]
    while hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context(words[1], list(rest), resilient_parsing=False)


def test_every_option_on_the_page_exists() -> None:
    """Quick: words are only parsed here; the slow tests below run them."""
    lines = [words for page in PAGES for words, _ in commands(page.read_text(encoding="utf-8"))]
    lines = [words for words in lines if words[:1] == ["sdpfeas"]]
    assert len(lines) >= 40
    for words in lines:
        parse(words)
    assert {"compare", "report", "export", "solve", "verify", "wlda", "show", "backends"} <= {
        words[1] for words, _ in commands(PAGE)
    }


def test_every_example_of_the_help_is_understood() -> None:
    examples = list(helped(typer.main.get_command(app)))
    assert len(examples) >= 30
    assert {"solve", "audit", "board", "new"} <= {words[1] for words in examples}
    for words in examples:
        parse(words)


def test_commands_within_sentences_exist() -> None:
    """In a sentence arguments may be missing or in capitals; names and options are there all the same."""
    tree: Any = typer.main.get_command(app)
    for page in PAGES:
        for text in re.findall(r"`sdpfeas\s([^`]+)`", page.read_text(encoding="utf-8")):
            words = text.split()
            command = tree.commands.get(words[0])
            assert command or words[0] in ("COMMAND", "--install-completion"), f"{page.name}: {text}"
            known = {flag for each in getattr(command, "params", ()) for flag in each.opts} | {"--help"}
            assert not command or {w for w in words if w.startswith("-")} <= known, f"{page.name}: {text}"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            # The examples' pages are made from the gallery when the site is built.
            made = target.startswith("examples/") and (ROOT / "docs" / "gallery").is_dir()
            assert made or (page.parent / target).exists(), f"{page.name}: {target}"


def test_modules_named_on_the_pages_exist() -> None:
    """Paths such as ``backends/auto.py`` are relative to the package or to the repository."""
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    named = {
        (page.name, path)
        for page in pages
        for path in re.findall(r"`([a-z_]+/[\w/]+\.py)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) >= 50
    absent = {
        each for each in named if not any((base / each[1]).exists() for base in (ROOT, ROOT / "sdpfeas"))
    }
    assert absent <= EXAMPLES, absent - EXAMPLES


def test_the_picture_of_the_packages_shows_their_layers() -> None:
    section = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("## The packages")[1]
    lines = fenced(section, "text")[0].splitlines()
    shown = [set(re.split(r" · ", re.match(r" (\w+(?: · \w+)*)", line)[1])) for line in lines]
    assert shown[::-1] == [set(layer) for layer in ORDER if layer != ["sdpfeas"]]


def trusted() -> list[tuple[str, list[str]]]:
    """Modules with the names that docs/verdicts.md lists as code that must be correct."""
    page = (ROOT / "docs/verdicts.md").read_text(encoding="utf-8")
    section = page.split("## Code that must be correct")[1].split("\n## ")[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    parts = [part for cell in cells for part in cell.split("; ")]
    return [(names[0], names[1:]) for part in parts if (names := re.findall(r"`([^`]+)`", part))]


def test_code_that_must_be_correct_exists() -> None:
    assert len(trusted()) >= 40
    for module, names in trusted():
        text = (ROOT / "sdpfeas" / module).read_text(encoding="utf-8")
        assert names, module
        for name in names:
            assert re.search(rf"^\s*(def|class) {name}\b", text, re.MULTILINE), f"{module}: {name}"


def test_modules_that_prove_are_on_the_list() -> None:
    """Importers of the proofs of the verifier are listed as code that must be correct."""
    proofs = {"prove_point", "prove_certificate", "exact_point", "exact_certificate"}
    proofs |= {"contradiction", "exact_vertex", "check_chain", "judge", "expose_face"}
    proofs |= {"rational_evidence", "rational_lower_bound", "rational_upper_bound"}
    listed = {module for module, _ in trusted()}
    for path in (ROOT / "sdpfeas").rglob("*.py"):
        module = path.relative_to(ROOT / "sdpfeas").as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sdpfeas.verifier"):
                assert module in listed or not proofs & {alias.name for alias in node.names}, module


def test_one_module_grants_verdicts() -> None:
    granting = set()
    for path in (ROOT / "sdpfeas").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in (
                "Check",
                "ModelCheck",
            ):
                verdict = ast.unparse(node)
                if not re.search(r"Verdict\.UNDECIDED", verdict):
                    granting.add(path.relative_to(ROOT / "sdpfeas").as_posix())
    # The second one copies a check of the first, and withdraws it if the model is violated.
    assert granting == {"verifier/verifier.py", "cvxpy_models/models.py"}


def test_the_page_states_the_default_tolerances() -> None:
    section = (ROOT / "docs/verdicts.md").read_text(encoding="utf-8").split("## Tolerances")[1]
    stated = {
        name: float(value) for name, value in re.findall(r"^\| `(\w+)` \| ([\d.e-]+) \|", section, re.M)
    }
    assert stated == asdict(sf.Tolerances())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what the page takes for granted."""
    for name in ("solvers", "problems"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "benchmarks").mkdir()
    for name in ("pyproject.toml", "benchmarks/conftest.py", "benchmarks/bench_cards.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    sf.write_sdpa(
        sf.FeasibilityProblem([sf.PSD(3)], [np.eye(3)[None]], [1.0], [1.0]), tmp_path / "problem.dat-s"
    )
    rng = np.random.default_rng(0)
    lines = ["kind,first,second,third"]
    for k, name in enumerate(("red", "green", "blue")):
        lines += [",".join([name, *map(str, x)]) for x in rng.normal(size=(20, 3)) + 4 * np.eye(3)[k]]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def attempt(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    program = ["sdpfeas.cli", *words[1:]] if words[0] == "sdpfeas" else words
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**own, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", *program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_command_runs(folder: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None
    ) as cluster:
        for words, code in commands(PAGE):
            asked = [word.replace("tcp://scheduler:8786", cluster.scheduler_address) for word in words]
            found = attempt(asked, folder)
            assert found.returncode == code, f"{shlex.join(words)}\n{found.stdout}\n{found.stderr}"
            if "--json" in words:
                json.loads(found.stdout)
    for name in ("report.html", "report.md", "figures/profiles.svg", "study.csv", "study.parquet"):
        assert (folder / name).stat().st_size > 200, name


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_commands_of_other_pages_and_of_the_help_run(folder: Path) -> None:
    """In the order of the pages, with the files they speak of; but see ``ELSEWHERE``."""
    problem = sf.read_sdpa(folder / "problem.dat-s")
    for name in ("p.npz", "problem.npz", "a.npz"):
        problem.save(folder / name)
    for name in ("p.dat-s", "b.dat-s"):
        shutil.copy(folder / "problem.dat-s", folder / name)
    with gzip.open(folder / "large.dat-s.gz", "wb") as file:
        file.write((folder / "problem.dat-s").read_bytes())
    for card in (folder / "problems").glob("*.toml"):
        if card.stem not in ("planted-mixed", "planted-faces"):  # all problems by all solvers take hours
            card.unlink()
    text = (folder / "data.csv").read_text().replace("kind", "species", 1)
    (folder / "iris.csv").write_text(text)
    samples = read_samples(folder / "data.csv", "kind")
    np.savez(folder / "data.npz", X=samples.X, y=samples.y)
    assert attempt(["sdpfeas", "new", "backend", "mine"], folder).returncode == 0
    pages = [
        page.read_text(encoding="utf-8")
        for page in PAGES
        if page.stem not in ("board", "studies", "cli", "own-solver")
    ]
    lines = [each for page in pages for each in commands(page)]
    lines += [(words, 0) for words in helped(typer.main.get_command(app))]
    ran = 0
    for words, code in lines:
        if words[:1] != ["sdpfeas"] or words[1] in ELSEWHERE or "--scheduler" in words:
            continue
        found = attempt(words, folder)
        allowed = (10, 20) if "--exit-code" in words else (code,)
        assert found.returncode in allowed, f"{shlex.join(words)}\n{found.stdout}\n{found.stderr}"
        ran += 1
    assert ran >= 30


@pytest.mark.slow
def test_every_example_runs(folder: Path) -> None:
    for text in fenced(PAGE, "python"):
        (folder / "example.py").write_text(text)
        found = subprocess.run(
            [sys.executable, "example.py"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert found.returncode == 0, found.stderr
        assert "feasible" in found.stdout
