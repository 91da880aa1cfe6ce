"""Every command and example on the pages about studies is tried as it stands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import sdpfeas as sf
from sdpfeas.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/studies.md").read_text(encoding="utf-8")


def fenced(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def commands(page: str) -> Iterator[tuple[list[str], int]]:
    """Commands of a page, with the exit code a comment promises."""
    for block in fenced(page, "sh"):
        for line in block.splitlines():
            code = re.search(r"# exit code (\d+)", line)
            yield shlex.split(line, comments=True), int(code[1]) if code else 0


def test_every_option_on_the_page_exists() -> None:
    """Quick: words are only parsed here; the slow test below runs them."""
    tree: Any = typer.main.get_command(app)
    tried = 0
    for words, _ in commands(PAGE):
        if words[0] == "sdpfeas":
            command = tree.commands[words[1]]
            command.make_context(words[1], words[2:], resilient_parsing=False)
            tried += 1
    assert tried >= 20
    assert {"compare", "report", "export", "solve", "verify", "wlda", "show", "backends"} <= {
        words[1] for words, _ in commands(PAGE)
    }


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            # The examples' pages are made from the gallery when the site is built.
            made = target.startswith("examples/") and (ROOT / "docs" / "gallery").is_dir()
            assert made or (page.parent / target).exists(), f"{page.name}: {target}"


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
