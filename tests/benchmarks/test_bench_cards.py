"""The benchmarks that are parametrised by cards: what they run, and what they save."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from study_tools import write_backend, write_problems

from sdpfeas.study.cells import Settings
from sdpfeas.study.comparison import make_plan

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def bench(folder: Path, *arguments: str | Path) -> tuple[int, str]:
    # By the values of options pytest would guess where its configuration is, and may be wrong.
    quietly = ("-q", "-p", "no:cacheprovider", "-c", BENCHMARKS.parent / "pyproject.toml")
    command = [sys.executable, "-m", "pytest", BENCHMARKS, *quietly, *arguments]
    # A test run in parallel says so in the environment, and pytest-benchmark then measures nothing.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    found = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        env=environment,
        check=False,
    )
    return found.returncode, found.stdout + found.stderr


@pytest.mark.slow
def test_saved_times_can_be_compared(tmp_path: Path) -> None:
    pattern = write_problems(tmp_path / "p", 2)
    backend = write_backend(tmp_path, "honest")
    asked = (
        "--sdpfeas-solver",
        backend,
        "--sdpfeas-problem",
        pattern,
        "-k",
        "test_card",
        "--benchmark-json",
        tmp_path / "times.json",
    )
    code, out = bench(tmp_path, *asked)
    assert code == 0, out
    # Names are the same on every commit; the hashes tell whether they mean the same.
    times = {
        entry["name"]: entry for entry in json.loads((tmp_path / "times.json").read_text())["benchmarks"]
    }
    assert set(times) == {"test_card[honest-p000]", "test_card[honest-p001]"}
    for cell in make_plan([str(backend)], [str(pattern)], 1, Settings()).cells:
        entry = times[f"test_card[honest-{cell.problem.label}]"]
        assert entry["group"] == cell.problem.label
        assert len(entry["extra_info"]["solver_hash"]) == 64
        assert entry["extra_info"]["problem_hash"] == cell.problem.key
        assert entry["extra_info"]["proof"] == "rigorous"
        assert entry["stats"]["rounds"] == 20


@pytest.mark.slow
def test_defaults_and_errors(tmp_path: Path) -> None:
    code, out = bench(tmp_path, "--sdpfeas-solver", "nosuch", "--sdpfeas-problem", "wlda-iris")
    assert code == 4
    assert "no solver named 'nosuch'" in out
    code, out = bench(
        tmp_path, "--sdpfeas-study", BENCHMARKS / "cards.toml", "-k", "test_card", "--benchmark-disable"
    )
    assert code == 0, out
    assert "28 passed" in out
