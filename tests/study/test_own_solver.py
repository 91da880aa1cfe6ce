"""The page about a solver of one's own, followed word by word in an empty folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "own-solver.md"


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def run(line: str, folder: Path) -> tuple[int, str]:
    """Run a command of the page with this interpreter; return its exit code and output."""
    program, *words = shlex.split(line)
    module = {"sdpfeas": "sdpfeas.cli", "pytest": "pytest"}[program]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=280, env=own
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_page_shows_a_planted_regression(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(*blocks("toml"))
    (tmp_path / "bench_mine.py").write_text(*blocks("py"))
    first, second, third, last = [block.splitlines() for block in blocks("sh")]
    for line in (*first, *second, *third):
        code, said = run(line, tmp_path)
        assert code == 0, (line, said)
    assert (tmp_path / "scaling.svg").stat().st_size > 1000
    names = {
        entry["extra_info"]["solver"]
        for entry in json.loads((tmp_path / "results.json").read_text())["benchmarks"]
    }
    assert names == {"mine", "scs"}
    text = (tmp_path / "mine.py").read_text()
    lines = (
        "import time",
        "",
        "end = time.process_time() + 0.3",
        "while time.process_time() < end:",
        "    pass",
    )
    waste = "".join(f"        {line}\n" if line else "\n" for line in lines)
    (tmp_path / "mine.py").write_text(
        text.replace("        import clarabel\n", f"        import clarabel\n{waste}")
    )
    codes = [run(line, tmp_path) for line in last]
    assert [code for code, _ in codes] == [0, 1, 0], codes
    assert "6 cells computed, 6 reused" in codes[0][1]
    assert codes[1][1].count("slower") >= 3
    assert "Versions of the solvers" in (tmp_path / "report.html").read_text("utf-8")
