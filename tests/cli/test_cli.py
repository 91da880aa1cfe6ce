"""The command line: every command, its JSON, its exit codes, and errors in one line."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from study_tools import run, trace_problem, write_backend

import sdpfeas as sf
from sdpfeas.cli import main, studies
from sdpfeas.errors import FileFormatError
from sdpfeas.families.bracket_file import SavedBracket, pack_bracket, unpack_bracket
from sdpfeas.families.problem_cards import find_problem
from sdpfeas.io.result_files import load_result, save_result, unpack_result
from sdpfeas.study.report.study_data import MatrixCell


@pytest.fixture
def files(tmp_path: Path) -> Path:
    trace_problem(3, feasible=True).save(tmp_path / "yes.npz")
    trace_problem(3, feasible=False).save(tmp_path / "no.npz")
    for name in ("honest", "liar", "nan", "raiser"):
        write_backend(tmp_path, name)
    return tmp_path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    def run_here(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run_here


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(("problem", "verdict", "code"), [("yes", "feasible", 10), ("no", "infeasible", 20)])
def test_solve_and_verify(files: Path, call: Any, problem: str, verdict: str, code: int) -> None:
    answer = files / "answer.npz"
    asked = files / f"{problem}.npz"
    assert call("solve", asked, "--solver", files / "honest.py", "-o", answer)[0] == 0
    found, out, _ = call("verify", asked, answer, "--json", "--exit-code")
    assert found == code
    assert json.loads(out)["verdict"] == verdict


def test_relax(tmp_path: Path, call: Any) -> None:
    rows = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    names = ["first", "second", "day"]
    bounds = [5.0, 4.5, -np.inf], [np.inf, np.inf, 8.0]
    sf.FeasibilityProblem([sf.Nonneg(2)], [rows], *bounds, names).save(tmp_path / "shifts.npz")
    code, out, _ = call("solve", tmp_path / "shifts.npz", "--relax")
    assert code == 0
    assert "least sum of loosenings: 1.5 to 1.5" in out
    assert "loosen `" in out
    found = json.loads(call("solve", tmp_path / "shifts.npz", "--relax", "--json")[1])["relaxation"]
    assert found["lower"] <= 1.5 <= found["upper"]
    assert sum(found["loosenings"].values()) == pytest.approx(1.5)


def test_solve_in_words(files: Path, call: Any) -> None:
    code, out, _ = call("solve", files / "no.npz", "--solver", files / "honest.py")
    assert code == 0
    assert out.startswith("INFEASIBLE")
    assert "row trace" in out


def test_a_lie_is_undecided(files: Path, call: Any) -> None:
    code, out, _ = call("solve", files / "no.npz", "--solver", files / "liar.py", "--exit-code", "--json")
    assert code == 30
    assert json.loads(out)["raw_status"] == "optimal"


def test_isolated_solve(files: Path, call: Any) -> None:
    code, out, _ = call("solve", files / "yes.npz", "--solver", files / "honest.py", "--isolate", "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "feasible")


def test_options_reach_the_backend(files: Path, call: Any) -> None:
    _, out, _ = call("solve", files / "yes.npz", "-b", "spectral-ipm", "--set", "max_iterations=7", "--json")
    assert json.loads(out)["options"]["max_iterations"] == 7


def test_an_answer_to_another_problem_is_refused(files: Path, call: Any) -> None:
    call("solve", files / "yes.npz", "--solver", files / "honest.py", "-o", files / "a.npz")
    code, _, err = call("verify", files / "no.npz", files / "a.npz")
    assert code == 2
    assert "another problem" in err


def test_certify_and_check(files: Path, call: Any) -> None:
    answer, proof, apart, theorem = (
        files / name for name in ("a.npz", "proof.json", "problem.json", "theorem.v")
    )
    for problem, verdict in (("yes", "feasible"), ("no", "infeasible")):
        asked = files / f"{problem}.npz"
        call("solve", asked, "--solver", files / "honest.py", "-o", answer)
        code, out, _ = call("certify", asked, answer, "-o", proof, "--coq", theorem)
        assert (code, verdict in out) == (0, True)
        assert f"Theorem {verdict}_problem" in theorem.read_text()
        code, out, _ = call("check", proof)
        assert (code, out.startswith(f"VALID {verdict}")) == (0, True)
        call("certify", asked, answer, "-o", proof, "--problem-file", apart)
        assert call("check", apart, proof)[0] == 0
        assert call("check", proof)[0] == 1
        changed = apart.read_text().replace('"n":3', '"n":4').replace('"n":2', '"n":5')
        apart.write_text(changed)
        assert call("check", apart, proof)[0] == 1


def test_audit(files: Path, call: Any) -> None:
    answer = files / "answer.npz"
    for problem, verdict in (("yes", "feasible"), ("no", "infeasible")):
        asked = files / f"{problem}.npz"
        call("solve", asked, "--solver", files / "honest.py", "-o", answer)
        code, out, _ = call("audit", asked, answer)
        assert code == 0
        assert out.startswith("CONFIRMED")
        code, out, _ = call("audit", asked, answer, "--json")
        (entry,) = json.loads(out)
        assert (code, entry["finding"], entry["proved"]) == (0, "confirmed", verdict)
        # The same evidence does not prove the opposite.
        saved = load_result(answer)
        (lie,) = {"feasible", "infeasible"} - {verdict}
        both = {"point": (np.eye(3),), "certificate": np.ones(1)}
        evidence = {"point": saved.point, "certificate": saved.certificate}
        held = {name: both[name] if value is None else value for name, value in evidence.items()}
        save_result(replace(saved, verdict=lie, **held, rational=None), answer)
        code, out, _ = call("audit", asked, answer)
        assert code == 3
        assert out.startswith("REFUTED")
        save_result(replace(saved, proof="numeric"), answer)
        code, out, _ = call("audit", asked, answer)
        assert code == 1
        assert out.startswith("NUMERIC")
        assert "claims no proof, and the auditor has one" in out
    code, _, err = call("audit", files / "yes.npz", answer)
    assert code == 2
    assert "the answer is about another problem" in err
    call("solve", files / "yes.npz", "--solver", files / "liar.py", "-o", answer)
    code, out, _ = call("audit", files / "yes.npz", answer)
    assert code == 1
    assert out.startswith("NOT CONFIRMED")


# ---------------------------------------------------------------- what there is


def test_backends(call: Any) -> None:
    code, out, _ = call("backends", "--json")
    assert code == 0
    assert json.loads(out)["spectral-ipm"]["available"]
    assert "spectral-ipm" in call("backends")[1]


def test_lists_fit_a_narrow_terminal(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = call("backends")[1]
    assert "native sets: all but HermitianPSD" in out  # not one set below the other
    assert max(map(len, out.splitlines())) <= 80
    assert len(out.splitlines()) <= 1 + 4 * len(sf.backends())
    out = call("families")[1]
    assert "FantopeMaxMin" in out
    assert "`" not in out  # what is markup to Sphinx is noise here
    assert ":class:" not in out


def test_help_breaks_lines_where_the_terminal_ends(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    lines = [line.rstrip() for line in call("board", "--help")[1].splitlines()]
    assert "sdpfeas board --quick" in map(str.strip, lines)  # an example has a line of its own
    at = next(k for k, line in enumerate(lines) if line.startswith(" Run the same command again"))
    assert len(lines[at + 1]) > 60
    assert "liu-pataki" in "".join(lines)  # which sets there are


def test_show(files: Path, call: Any) -> None:
    assert "PSD(3)" in call("show", files / "yes.npz")[1]
    assert json.loads(call("show", files / "yes.npz", "--json")[1])["rows"] == 1
    assert "max_iterations" in call("show", "spectral-ipm")[1]
    assert json.loads(call("show", files / "honest.py", "--json")[1])["solver"] == "honest"


def test_check_backend_refuses_a_liar(files: Path, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sdpfeas import testing

    findings = [testing.Finding("right", True, "fine"), testing.Finding("honest", False, "no")]
    # The command line keeps what it has imported once.
    monkeypatch.setattr("sdpfeas.cli.library.check_backend", lambda solver, seed=0: findings)
    code, out, _ = call("check-backend", files / "liar.py")
    assert code == 1
    assert "does not conform" in out
    assert json.loads(call("check-backend", files / "liar.py", "--json")[1])["conforms"] is False


def test_help_has_examples(call: Any) -> None:
    for command in ("solve", "verify", "compare", "report", "check-backend", "show", "wlda"):
        code, out, _ = call(command, "--help")
        assert code == 0
        assert "Example" in out
    assert call("--version")[1].startswith("sdpfeas ")


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["solve", "nofile.npz"], "nofile.npz"),
        (["solve", "yes.npz", "-b", "spectral-imp"], "did you mean 'spectral-ipm'?"),
        (
            ["solve", "yes.npz", "-b", "spectral-ipm", "--set", "max_iteration=3"],
            "did you mean 'max_iterations'?",
        ),
        (["solve", "yes.npz", "-b", "spectral-ipm", "--set", "max_iterations=few"], "must be an integer"),
        (["solve", "yes.npz", "-b", "spectral-ipm", "--set", "nothing"], "NAME=VALUE"),
        (["solve", "yes.npz", "--tol", "0.1"], "--tol is the width of a bracket"),
        (["solve", "yes.npz", "-b", "broken.py"], "broken.py:1: could not be loaded: ZeroDivisionError"),
        (["solve", "yes.npz", "-b", "card.toml"], "unknown key 'bakend'"),
        (["solve", "broken.py"], "broken.py"),
        (["verify", "yes.npz", "yes.npz"], "not a result file"),
        (["verify", "yes.npz", "broken.py"], "not a result file"),
        (["report", "yes.npz"], "not a study"),
        (["report", "nothing.db"], "no such study"),
        (["compare", "--solvers", "x", "--problems", "y", "--memory-limit", "lots"], "size such as 4G"),
        (["compare", "--solvers", "x", "--problems", "y", "--engine", "dask"], "go together"),
    ],
)
def test_errors_take_one_line(
    files: Path, call: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(files)
    (files / "broken.py").write_text("1 / 0\n")
    (files / "card.toml").write_text('backend = "auto"\nbakend = 1\n')
    code, out, err = call(*arguments)
    assert code == 2
    assert words in err
    assert err.startswith("error: ")
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in out + err


def test_verbose_shows_where(files: Path, call: Any) -> None:
    assert "Traceback" in call("solve", "nofile.npz", "-v")[2]


def test_the_program_itself(files: Path) -> None:
    code, out, err = run(["solve", files / "no.npz", "-b", files / "raiser.py", "--exit-code"])
    assert code == 30
    assert "no can do" in out
    assert err == ""


# ---------------------------------------------------------------- result files


def test_result_files_hold_no_pickle_and_survive_damage(files: Path, call: Any) -> None:
    call("solve", files / "yes.npz", "--solver", files / "honest.py", "-o", files / "a.npz")
    saved = load_result(files / "a.npz")
    assert (saved.backend, saved.verdict, saved.proof) == ("honest", "feasible", "rigorous")
    assert "numpy" in saved.versions
    data = (files / "a.npz").read_bytes()
    for cut in range(0, len(data), max(len(data) // 40, 1)):
        with pytest.raises(FileFormatError):
            unpack_result(data[:cut])


# ---------------------------------------------------------------- studies


@pytest.mark.slow
def test_compare_report_and_export(files: Path, call: Any) -> None:
    study = files / "study.db"
    asked = [
        *("compare", "--solvers", f"{files}/honest.py,{files}/liar.py", "--problems", files / "*.npz"),
        *("--out", study, "--time-limit", "20", "--keep-evidence"),
    ]
    code, out, _ = call(*asked, "--report", files / "first.html", "--json")
    assert code == 0
    told = json.loads(out)
    assert (told["cells"], told["computed"]) == (4, 4)
    assert told["solvers"]["honest"] == {"feasible": 1, "infeasible": 1}
    assert "<svg" in (files / "first.html").read_text()
    code, out, _ = call(*asked)
    assert code == 0
    assert "0 cells computed, 4 reused" in out
    code, out, _ = call("verify", files / "no.npz", study, "--json")
    assert (code, [entry["verdict"] for entry in json.loads(out)]) == (0, ["infeasible", "undecided"])
    assert call("report", study, "--format", "md", "-o", files / "r.md")[0] == 0
    assert "| honest |  2 of 2 |" in (files / "r.md").read_text()
    assert call("export", study, "-o", files / "t.csv")[0] == 0
    assert len((files / "t.csv").read_text().splitlines()) == 5
    assert len(json.loads(call("export", study, "-o", files / "t.json", "--json")[1])) == 2
    assert call("export", study, "-o", files / "t.xls")[0] == 2
    code, out, _ = call("audit", files / "no.npz", study, "--json")
    assert (code, [entry["finding"] for entry in json.loads(out)]) == (0, ["confirmed"])
    # A verdict that was tampered with does not hold.
    with sqlite3.connect(study) as db:
        db.execute("UPDATE cells SET verdict = 'feasible'")
    db.close()
    assert call("verify", files / "no.npz", study)[0] == 1
    assert call("audit", files / "no.npz", study)[0] == 3


def test_parquet(files: Path, call: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra [parquet] is not installed")
    study = files / "study.db"
    call("compare", "--solvers", files / "honest.py", "--problems", files / "yes.npz", "--out", study)
    assert call("export", study, "-o", files / "t.parquet")[0] == 0
    assert parquet.read_table(files / "t.parquet").column("verdict").to_pylist() == ["feasible"]


def test_the_names_in_a_comparison_are_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    problems = [f"a-rather-long-common-prefix-and-{word}" for word in ("one", "two", "twelve")]
    solvers = [f"solver-with-a-long-name-{k}" for k in range(5)]
    answer = MatrixCell({"feasible": 1}, 1.234, 0, 0, False, 0, ("key",))
    data = SimpleNamespace(matrix={problem: dict.fromkeys(solvers, answer) for problem in problems})
    cells = [
        SimpleNamespace(problem=SimpleNamespace(label=problem), solver=SimpleNamespace(name=solver))
        for problem in problems
        for solver in solvers
    ]
    studies._print_verdicts(data, SimpleNamespace(cells=cells))
    lines = capsys.readouterr().out.partition("milliseconds")[0].splitlines()
    assert max(map(len, lines)) <= 80
    for word in ("one", "two", "twelve"):
        assert any(re.fullmatch(rf"{word}(\s+\S 1234){{5}}\s*", line) for line in lines), lines
    heading = " ".join(lines[:-3])
    assert all(str(k) in heading for k in range(5))


def test_families_are_bisected(tmp_path: Path, call: Any) -> None:
    card = tmp_path / "pentagon.toml"
    card.write_text('family = "theta"\n[options]\ngraph = "cycle"\nn = 5\n')
    study = tmp_path / "study.db"
    asked = ("compare", "--solvers", "spectral-ipm", "--problems", card, "--out", study, "--keep-evidence")
    code, out, err = call(*asked)
    assert code == 0, err
    # Problems by solvers, with verdict and time; then the same in numbers and words.
    assert re.search(r"^problem +spectral-ipm\s*$", out, re.MULTILINE)
    assert re.search(r"^pentagon +\[ \] \d+$", out, re.MULTILINE)
    assert "milliseconds; verified verdicts: " in out
    assert "spectral-ipm decides all 1 instances" in out
    call("export", study, "-o", tmp_path / "t.json")
    (cell,) = json.loads((tmp_path / "t.json").read_text())
    assert (cell["kind"], cell["verdict"], cell["proof"]) == ("family", "bracket", "rigorous")
    assert cell["lower"] <= 5**0.5 <= cell["upper"]
    assert cell["upper"] - cell["lower"] <= 1.001e-3 * cell["upper"]
    code, out, _ = call("verify", card, study, "--json")
    (entry,) = json.loads(out)
    assert (code, entry["holds"]) == (0, True)
    assert entry["lower"] >= (1 - 1e-9) * cell["lower"]
    assert entry["upper"] <= (1 + 1e-9) * cell["upper"]
    code, out, _ = call("audit", card, study, "--json")
    assert (code, [entry["finding"] for entry in json.loads(out)]) == (0, ["confirmed", "confirmed"])
    # A bracket that was tampered with does not hold.
    with sqlite3.connect(study) as db:
        db.execute("UPDATE cells SET lower = upper")
    db.close()
    assert call("verify", card, study)[0] == 1
    assert "the study stores" in call("audit", card, study)[2]
    answer = tmp_path / "bracket.npz"
    code, out, _ = call("solve", card, "-b", "spectral-ipm", "--json", "--exit-code", "-o", answer)
    assert code == 0
    assert json.loads(out)["lower"] <= 5**0.5 <= json.loads(out)["upper"]
    assert call("verify", card, answer)[0] == 0
    assert call("audit", card, answer)[0] == 0
    other = tmp_path / "heptagon.toml"
    other.write_text(card.read_text().replace("5", "7"))
    assert call("verify", other, answer)[0] == 1
    assert call("audit", other, answer)[0] == 2
    answer.write_bytes(answer.read_bytes()[:-40])
    assert "not a bracket file" in call("verify", card, answer)[2]
    assert call("solve", card, "-b", "spectral-ipm", "--delta", "2.2", "--exit-code")[0] == 10
    assert "family theta" in call("show", card)[1]


def test_a_bracket_turned_round_is_not_confirmed(tmp_path: Path, call: Any) -> None:
    """Each end is proved, of the other verdict: what the bracket claims is not."""
    card = tmp_path / "pentagon.toml"
    card.write_text('family = "theta"\n[options]\ngraph = "cycle"\nn = 5\n')
    family = sf.families.Theta(np.roll(np.eye(5), 1, 0) + np.roll(np.eye(5), -1, 0))
    found = sf.bisect(family, "spectral-ipm", tol=1e-3)
    saved = SavedBracket.of(family, (found.lower, found.point), (found.upper, found.certificate))
    answer = tmp_path / "b.npz"
    answer.write_bytes(pack_bracket(saved))
    assert call("audit", card, answer)[0] == 0
    answer.write_bytes(pack_bracket(SavedBracket(saved.upper, saved.lower)))
    assert call("audit", card, answer)[0] in (1, 3)


def test_brackets_of_wlda_are_proved_again() -> None:
    pytest.importorskip("sklearn", reason="the extra [wlda] is not installed")
    family = find_problem("wlda-iris").make()
    found = sf.bisect(family, "spectral-ipm", tol=1e-3)
    saved = SavedBracket.of(family, (found.lower, found.point), (found.upper, found.certificate))
    again = unpack_bracket(pack_bracket(saved))
    low, high = again.verified(family)
    assert (1 - 1e-9) * found.lower <= low <= high <= (1 + 1e-9) * found.upper
    swapped = SavedBracket(again.upper, again.lower)
    assert swapped.verified(family) == family.bracket


# ---------------------------------------------------------------- wlda


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "data.csv"
    lines = ["kind,first,second,third"]
    for k, name in enumerate(("red", "green", "blue")):
        samples = rng.normal(size=(20, 3)) + 4 * np.eye(3)[k]
        lines += [",".join([name, *map(repr, x.tolist())]) for x in samples]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_wlda(table: Path, call: Any) -> None:
    W = table.parent / "W.npz"
    asked = ("wlda", table, "--label", "kind", "-r", "2", "-b", "spectral-ipm", "--write", W)
    code, out, err = call(*asked, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["proven"]
    assert told["converged"]
    assert 0 < told["lower"] <= told["upper"] <= told["lower"] * 1.002
    assert 0 < told["ratio"] <= told["upper"]
    assert set(told["worst_pair"]) <= {"red", "green", "blue"}
    assert told["worst_class"] in {"red", "green", "blue"}
    assert told["notes"] == []
    with np.load(W) as archive:
        assert archive["W"].shape == (3, 2)
        assert archive["features"].tolist() == ["first", "second", "third"]
    assert "<= delta* <=" in call(*asked)[1]


def test_wlda_plot_and_csv(table: Path, call: Any) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    plot, W = table.parent / "plot.png", table.parent / "W.csv"
    code, _, err = call("wlda", table, "--label", "1", "-b", "spectral-ipm", "--plot", plot, "--write", W)
    assert code == 0, err
    assert plot.stat().st_size > 5000
    assert W.read_text().startswith("feature,w1,w2\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3\n", "row 3 has 1 columns"),
        ("a,b\nx,2\ny,3\n", "sample 1, column a: not a number: 'x'"),
        ("a,b\n", "at least two samples"),
        ("a,b\n1,x\n2,x\n", "1 class"),
        ("a,b\nnan,x\n2,y\n", "NaN"),
    ],
)
def test_bad_tables(tmp_path: Path, call: Any, text: str, words: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    code, _, err = call("wlda", tmp_path / "bad.csv")
    assert code == 2
    assert words in err
