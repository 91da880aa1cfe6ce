"""Files to begin with, lists of what there is, and small conveniences of the shell."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sdpfeas as sf
from sdpfeas.cli.app import app
from sdpfeas.testing import check_backend


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == code, found.output
    return found.output


def test_a_new_backend_answers(folder: Path) -> None:
    run("new", "backend", "my-solver")
    path = folder / "solvers/my_solver.py"
    problem = sf.FeasibilityProblem([sf.PSD(2)], [[[[1.0, 0.0], [0.0, 1.0]]]], [1.0], [1.0])
    assert sf.solve(problem, path, rigorous=True).verdict == "feasible"
    with pytest.raises(sf.OptionError, match="exists already"):
        CliRunner().invoke(app, ["new", "backend", "my-solver"], catch_exceptions=False)
    for name in ("My", "2", "a_b", "../x", ""):
        with pytest.raises(sf.OptionError, match="is not a valid name"):
            CliRunner().invoke(app, ["new", "backend", name], catch_exceptions=False)


@pytest.mark.slow
def test_a_new_backend_conforms(folder: Path) -> None:
    run("new", "backend", "mine")
    wrong = [finding for finding in check_backend(folder / "solvers/mine.py") if not finding.passed]
    assert wrong == []


def test_a_new_family_is_solved(folder: Path) -> None:
    run("new", "family", "my-problems")
    answer = json.loads(run("solve", "./problems/my_problems.toml", "--json"))
    assert answer["verdict"] == "feasible"


def test_lists() -> None:
    assert "wlda-iris" in json.loads(run("problems", "--json"))
    families = json.loads(run("families", "--json"))
    assert {"theta", "max-cut", "wlda", "lyapunov"} <= set(families)
    assert "n" in families["lyapunov"]
    os.environ["COLUMNS"] = "200"
    assert "wlda" in run("problems")
    assert "count = 2" in run("families")


def test_the_width_of_a_bracket() -> None:
    wide = json.loads(run("solve", "theta-cycle", "--member", "n=5", "--tol", "0.2", "--json"))
    assert wide["upper"] - wide["lower"] <= 0.2 * wide["upper"]


def test_a_claim_of_the_wrong_shape_is_described() -> None:
    class Odd(sf.FeasibilityBackend):
        """Hands in too few numbers."""

        name = "odd"

        def solve(self, problem: sf.FeasibilityProblem, inquiry: sf.Inquiry) -> sf.Claim:
            return sf.Claim(certificate=[1.0] * (problem.m + 3))

    first = next(f for f in check_backend(Odd) if f.name.startswith("every set"))
    assert not first.passed
    assert "malformed claim" in first.detail
    assert "expected" in first.detail
