"""Answers of solvers that cannot run here: matched by name, verified, and stored as cells of a study."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from study_tools import run

import sdpfeas as sf
from sdpfeas.io.result_files import save_result
from sdpfeas.study.answers import plan_answers
from sdpfeas.study.cells import Settings
from sdpfeas.study.engines import LocalEngine
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Store

FEASIBLE, INFEASIBLE, UNDECIDED = "feasible", "infeasible", "undecided"

#: An entry off the diagonal of 0.3, and the slack of the second row, in the format of CSDP.
X = "2 1 1 1 0.5\n2 1 1 2 0.3\n2 1 2 2 0.5\n2 2 1 1 0.1\n"


def write_problem(path: Path, corner: float) -> sf.FeasibilityProblem:
    """A 2 × 2 matrix of trace 1 whose entry off the diagonal is at least ``corner``."""
    builder = sf.ProblemBuilder()
    builder.block("X", sf.PSD(2))
    builder.row("trace", {"X": [[1, 0], [0, 1]]}, equal=1)
    builder.block("slack", sf.Nonneg(1))
    builder.row("beside", {"X": [[0, 1], [1, 0]], "slack": [-1]}, equal=2 * corner)
    sf.write_sdpa(builder.build(), path)
    return sf.read_sdpa(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("problems", "answers"):
        (tmp_path / part).mkdir()
    write_problem(tmp_path / "problems" / "easy.dat-s", 0.25)
    write_problem(tmp_path / "problems" / "hard.dat-s", 0.75)
    return tmp_path


def judge(folder: Path, out: str = "study.db", **told: Any) -> dict[str, dict[str, Any]]:
    """Judge the answers of the folder; return the cells by problem."""
    told = {"solver": "mosek", "version": "11", "settings": Settings()} | told
    plan = plan_answers([str(folder / "problems")], folder / "answers", **told)
    with Store(folder / out) as store:
        Runner(store, plan, LocalEngine(), keep_evidence=True).run()
        return {cell["problem"]: cell for cell in store.cells()}


def test_statuses_times_and_verdicts(folder: Path) -> None:
    (folder / "answers" / "easy.sol").write_text("0 0\n" + X)
    (folder / "answers" / "hard.sol").write_text("-1 1\n" + X)
    (folder / "answers" / "answers.csv").write_text(
        "name,seconds,status,claim\neasy,0.5,OPTIMAL,feasible\nhard,,OPTIMAL,feasible\n"
    )
    cells = judge(folder, settings=Settings(7.0))
    easy, hard = cells["easy"], cells["hard"]
    assert (easy["verdict"], easy["proof"], easy["claimed"]) == (FEASIBLE, "rigorous", FEASIBLE)
    assert (easy["solve_time"], easy["raw_status"], easy["solver_version"]) == (0.5, "OPTIMAL", "11")
    # The multipliers prove the opposite of the status; without a time the limit is charged.
    assert (hard["verdict"], hard["claimed"], hard["solve_time"]) == (INFEASIBLE, FEASIBLE, 7.0)
    assert easy["kept"]


def test_a_malformed_file_costs_one_cell(folder: Path) -> None:
    (folder / "answers" / "easy.sol").write_text("0 0\n" + X)
    for number, junk in enumerate((b"", b"\x00\xff" * 99, b"0 0\n2 9 9 9 1\n", b"xVec = {1}\n")):
        (folder / "answers" / "hard.sol").write_bytes(junk)
        cells = judge(folder, out=f"{number}.db")
        assert (cells["easy"]["verdict"], cells["hard"]["outcome"]) == (FEASIBLE, "error"), junk
        assert "not a solution of this problem" in cells["hard"]["reason"]


def test_other_formats_and_changed_answers(folder: Path) -> None:
    problem = sf.read_sdpa(folder / "problems" / "easy.dat-s")
    save_result(sf.solve(problem), folder / "answers" / "easy.npz")
    (folder / "answers" / "answers.csv").write_text("name,status,claim\nhard,UNKNOWN,\n")
    cells = judge(folder)
    assert (cells["easy"]["verdict"], cells["hard"]["verdict"]) == (FEASIBLE, UNDECIDED)
    (folder / "answers" / "answers.csv").unlink()
    shutil.copy(folder / "answers" / "easy.npz", folder / "answers" / "hard.npz")
    cells = judge(folder)
    assert cells["hard"]["outcome"] == "error"
    assert "another problem" in cells["hard"]["reason"]


def test_mistakes_are_named(folder: Path) -> None:
    def planned(**told: object) -> None:
        plan_answers(
            [str(folder / "problems")], folder / "answers", Settings(), solver="m", version="", **told
        )  # type: ignore[arg-type]

    with pytest.raises(sf.OptionError, match="no answer is named like"):
        judge(folder)
    (folder / "answers" / "easy.sol").write_text("0 0\n" + X)
    (folder / "answers" / "easy.txt").write_text("0 0\n" + X)
    with pytest.raises(sf.OptionError, match=r"several answers: easy\.sol, easy\.txt"):
        judge(folder)
    table = folder / "answers" / "answers.csv"
    for text, words in (
        ("nam,seconds\n", "unknown column 'nam'"),
        ("name,seconds\neasy,soon\n", r"answers\.csv:2: seconds must be a number"),
        ("name,claim\neasy,optimal\n", "claim must be feasible, infeasible or empty"),
        ("name,seconds\n,3\n", "a line without a name"),
    ):
        table.write_text(text)
        with pytest.raises(sf.FileFormatError, match=words):
            judge(folder)


def test_the_sides_of_a_file_are_different_problems(folder: Path) -> None:
    (folder / "answers" / "easy.sol").write_text("0 0\n" + X)
    assert set(judge(folder)) == {"easy"}
    assert set(judge(folder, side="lmi")) == {"easy", "easy-lmi"}


@pytest.mark.parametrize("program", ["csdp", "sdpa"])
def test_files_written_by_the_solvers(program: str, folder: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    for name in ("easy", "hard"):
        given, made = f"problems/{name}.dat-s", f"answers/{name}.sol"
        command = ["csdp", given, made] if program == "csdp" else ["sdpa", "-ds", given, "-o", made]
        subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=60)
    cells = judge(folder, settings=Settings(rigorous=True))
    assert {name: cell["verdict"] for name, cell in cells.items()} == {"easy": FEASIBLE, "hard": INFEASIBLE}
    if program == "sdpa":
        assert cells["easy"]["raw_status"] in ("pdOPT", "pdFEAS")
        assert cells["easy"]["solve_time"] < 5.0
    else:
        assert json.loads(cells["easy"]["info"])["seconds"].startswith("not told")


def test_the_command_names_what_does_not_fit(folder: Path) -> None:
    (folder / "answers" / "easy.sol").write_text("0 0\n" + X)
    (folder / "answers" / "stranger.sol").write_text("0 0\n")
    code, shown, said = run(["judge", "problems", "answers", "--solver", "mosek", "--seconds", "2"], folder)
    assert code == 0, said
    assert "stranger.sol" in said
    assert "without an answer hard" in said
    assert "1 cells computed, 0 reused" in shown
