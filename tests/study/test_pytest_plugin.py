"""The pytest plugin: fixtures from flags, configuration and study files, and fits of the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sdpfeas.cli.app import app
from sdpfeas.errors import FileFormatError, OptionError
from sdpfeas.study.scaling import Measurement, read_benchmarks, scalings

BENCH = """
from sdpfeas.testing import benchmark_solve

def test_scaling(benchmark, solver, problem):
    assert benchmark_solve(benchmark, solver, problem).verdict == "feasible"
"""


def run_pytest(folder: Path, *options: str) -> tuple[int, str]:
    """Run pytest in a folder, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    # A test run in parallel says so in the environment, and pytest-benchmark then measures nothing.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, timeout=250, env=environment
    )
    return done.returncode, done.stdout + done.stderr


def test_a_sweep_from_the_command_line_is_timed_and_fitted(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(BENCH)
    chosen = ["--sdpfeas-solver", "spectral-ipm", "--sdpfeas-problem", "planted"]
    sweeps = ["--sdpfeas-sweep", "n=4,8,16", "--sdpfeas-sweep", "rows=4,6"]
    code, said = run_pytest(tmp_path, *chosen, *sweeps, "--benchmark-json", "r.json")
    assert code == 0, said
    entries = json.loads((tmp_path / "r.json").read_text())["benchmarks"]
    assert len(entries) == 6
    facts = entries[0]["extra_info"]
    assert facts["parameters"] == {"n": 4, "rows": 4}
    assert {"verdict", "proof", "iterations", "rows", "size", "solver_version", "problem_hash"} <= set(facts)
    done = CliRunner().invoke(app, ["scaling", str(tmp_path / "r.json"), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["scalings"]
    assert [(row["problems"], row["axis"], row["points"]) for row in found] == [
        ("planted[rows=4]", "n", 3),
        ("planted[rows=6]", "n", 3),
    ]


def test_configuration_and_study_files_choose_as_flags_do(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "def test_names(solver, instance):\n    assert solver.name and instance.parameters['n'] in (3, 5)\n"
        "def test_family(family):\n    assert family.at(1.0).m > 0\n"
    )
    (tmp_path / "s.toml").write_text(
        'solvers = ["clarabel"]\nseeds = 2\n[[problem]]\nfamily = "planted"\nsweep = { n = [3, 5] }\n'
    )
    code, said = run_pytest(tmp_path, "--sdpfeas-study", "s.toml", "-v")
    assert code == 0, said
    assert "test_names[clarabel-planted[n=5]-seed1] PASSED" in said
    assert "4 passed, 4 skipped" in said
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nsdpfeas_solvers =\n  clarabel\n  scs\nsdpfeas_problems = planted\nsdpfeas_sweep = n=3,5\n"
    )
    code, said = run_pytest(tmp_path, "-q", "-k", "names")
    assert code == 0, said
    assert "4 passed" in said


def test_names_of_a_suite_that_does_not_use_the_plugin_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\n@pytest.fixture(params=[1, 2])\ndef solver(request):\n    return request.param\n"
    )
    (tmp_path / "test_own.py").write_text(
        "import pytest\n"
        "def test_fixture(solver):\n    assert solver in (1, 2)\n"
        "@pytest.mark.parametrize('problem', [3, 4])\ndef test_mark(problem):\n    assert problem in (3, 4)\n"
    )
    for options in ((), ("--sdpfeas-solver", "scs", "--sdpfeas-problem", "planted")):
        code, said = run_pytest(tmp_path, "-q", *options)
        assert code == 0, said
        assert "4 passed" in said


def test_nothing_chosen_skips_and_mistakes_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(BENCH)
    code, said = run_pytest(tmp_path, "-rs")
    assert (code, "pass --sdpfeas-" in said) == (0, True), said
    mistakes: list[tuple[tuple[str, ...], str]] = [
        (("--sdpfeas-solver", "clarabell"), "clarabel"),
        (("--sdpfeas-problem", "planted", "--sdpfeas-sweep", "m=3,4"), "sweep.m"),
        (("--sdpfeas-problem", "planted", "--sdpfeas-sweep", "n"), "KEY=A,B,C"),
        (("--sdpfeas-problem", "planted", "--sdpfeas-seeds", "many"), "--sdpfeas-seeds must be a number"),
        (("--sdpfeas-study", "missing.toml"), "missing.toml"),
    ]
    for options, words in mistakes:
        code, said = run_pytest(tmp_path, *options)
        assert code == pytest.ExitCode.USAGE_ERROR, (options, said)
        assert words in said
        assert "Traceback" not in said


def test_the_plugin_imports_nothing_until_it_is_used() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import sdpfeas.pytest_plugin; "
        "print([m for m in set(sys.modules) - before if m.startswith(('numpy', 'scipy', 'sdpfeas.'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['sdpfeas.pytest_plugin']"


@pytest.mark.slow
def test_the_plugin_costs_a_run_that_does_not_use_it_less_than_50_ms(tmp_path: Path) -> None:
    """In processor time, the quickest of twenty runs with it and without it in turn."""
    (tmp_path / "test_empty.py").write_text("def test_empty():\n    pass\n")
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    spent: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(20):
        for used, words in ((True, []), (False, ["-p", "no:sdpfeas"])):
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                *words,
                "test_empty.py",
            ]
            before = os.times()
            subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, check=True)
            after = os.times()
            spent[used].append(sum(after[2:4]) - sum(before[2:4]))
    extra = min(spent[True]) - min(spent[False])
    print(f"{1e3 * extra:.1f} ms of {1e3 * min(spent[False]):.0f} ms")
    assert extra < 0.05


def _measured(solver: str, seconds: float, **parameters: Any) -> Measurement:
    return Measurement(solver, "card", parameters, float(parameters.get("n", 1)), seconds)


def test_a_planted_power_law_is_found_along_the_axis_asked_for_and_no_rows_are_mixed() -> None:
    rows = [_measured("a", 1e-3 * n**3 * m**2, n=n, m=m) for n in (10, 20, 40, 80) for m in (1, 10, 100)]
    by_n = scalings(rows)
    assert [(each.name, each.axis) for each in by_n] == [(f"card[m={m}]", "n") for m in (1, 10, 100)]
    assert all(abs(each.fits["a"].slope - 3.0) < 1e-9 for each in by_n)
    by_m = scalings(rows, "m")
    assert len(by_m) == 4
    assert all(abs(each.fits["a"].slope - 2.0) < 1e-9 for each in by_m)
    with pytest.raises(OptionError, match="'k'"):
        scalings(rows, "k")


@pytest.mark.parametrize("text", ["", "[]", '{"benchmarks": 3}', '{"benchmarks": [{"stats": {}}]}'])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=r"x\.json"):
        read_benchmarks(path)
