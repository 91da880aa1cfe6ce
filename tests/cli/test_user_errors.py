"""What a user, a file or a full disk gets wrong is said in one line, with exit code 2: never "a bug"."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from study_tools import environment, trace_problem, write_backend

import sdpfeas as sf
import sdpfeas.estimators
from sdpfeas.cli import library, main
from sdpfeas.errors import CardError
from sdpfeas.io.result_files import load_result
from sdpfeas.study.cells import Settings
from sdpfeas.study.comparison import make_plan

STORED = Path(__file__).parents[1] / "study" / "stored"


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    def run_here(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run_here


@pytest.fixture
def refuses(call: Any) -> Any:
    """Run a command that must fail as a user's mistake."""

    def check(words: str, *arguments: str | Path) -> None:
        code, _, err = call(*arguments)
        assert code == 2, err
        assert words in err
        assert err.startswith("error: ")
        assert "a bug" not in err
        assert len(err.strip().splitlines()) == 1

    return check


@pytest.fixture
def yes(tmp_path: Path) -> Path:
    trace_problem(3, feasible=True).save(tmp_path / "yes.npz")
    return tmp_path / "yes.npz"


# ---------------------------------------------------------------- cards

DEEP = 3000

BAD_CARDS = {
    "not UTF-8": (b'backend = "auto"  # caf\xe9', "not UTF-8"),
    "deep lists": (b'backend = "auto"\nx = ' + b"[" * DEEP + b"]" * DEEP, "nested more than"),
    "deep tables": (b'backend = "auto"\nx = ' + b"{a=" * DEEP + b"1" + b"}" * DEEP, "nested more than"),
    "a long key": (b'backend = "auto"\n[options]\n' + b".".join([b"a"] * DEEP) + b" = 1", "nested more than"),
    "a long header": (b'backend = "auto"\n[options.' + b".".join([b"a"] * DEEP) + b"]", "nested more than"),
    "many digits": (b'backend = "auto"\n[options]\nx = ' + b"9" * 5000, "integer"),
    "many hexadecimal digits": (b'backend = "auto"\n[options]\nx = 0x' + b"f" * 5000, "64 bits"),
    "large": (b'backend = "auto"\n' + b"#" * 40_000, "SDPFEAS_READ_LIMIT"),
    "NUL": (b'backend = "auto"\x00', "line 1"),
    "not a number": (b'backend = "dual-lbfgs"\n[options]\nepsilon = nan', "must be a number"),
    "a number of another kind": (b"backend = 3", "needs backend"),
}


@pytest.mark.parametrize("which", BAD_CARDS)
def test_cards(tmp_path: Path, yes: Path, refuses: Any, which: str) -> None:
    text, words = BAD_CARDS[which]
    (tmp_path / "card.toml").write_bytes(text)
    refuses(words, "solve", yes, "--solver", tmp_path / "card.toml")
    refuses("card.toml", "solve", tmp_path / "card.toml")
    refuses("card.toml", "compare", "--solvers", tmp_path / "card.toml", "--problems", yes)


def test_a_sweep_without_end(tmp_path: Path, refuses: Any) -> None:
    lists = "\n".join(f"{name} = {list(range(2000))}" for name in ("n", "rows", "seed"))
    (tmp_path / "card.toml").write_text(f'family = "planted"\n[sweep]\n{lists}\n')
    refuses("8,000,000,000 members", "show", tmp_path / "card.toml")


def test_options_of_the_command_line(yes: Path, refuses: Any) -> None:
    for value in ("[" * DEEP + "]" * DEEP, "0x" + "f" * 5000, "9" * 5000, "nan"):
        refuses("must be", "solve", yes, "-b", "dual-lbfgs", "--set", f"epsilon={value}")


def test_files_with_odd_digits_in_their_names(tmp_path: Path, yes: Path, call: Any) -> None:
    for name in ("p².npz", "p10.npz", "p٣.npz"):
        shutil.copy(yes, tmp_path / name)
    code, _, err = call("compare", "--solvers", "nobody", "--problems", tmp_path / "p*.npz")
    assert (code, "nobody" in err) == (2, True)


# ---------------------------------------------------------------- places that cannot be written to


def test_a_full_disk(yes: Path, refuses: Any) -> None:
    refuses("No space left on device", "solve", yes, "-o", "/dev/full")


@pytest.mark.parametrize("where", ["nowhere/answer.npz", "yes.npz/answer.npz", "."])
def test_no_such_folder(tmp_path: Path, yes: Path, refuses: Any, where: str) -> None:
    refuses(str(tmp_path), "solve", yes, "-o", tmp_path / where)
    refuses(str(tmp_path), "compare", "--solvers", "auto", "--problems", yes, "--out", tmp_path / where)


def test_a_place_for_a_study_is_refused_in_words(tmp_path: Path, yes: Path, refuses: Any) -> None:
    asked = ("compare", "--solvers", "auto", "--problems", yes, "--out")
    refuses("it is a folder", *asked, tmp_path)
    refuses(f"there is no folder {tmp_path / 'nowhere'}", *asked, tmp_path / "nowhere" / "x.db")


def test_what_is_wrong_with_a_card_has_a_line(tmp_path: Path, yes: Path, refuses: Any) -> None:
    problem, solver = tmp_path / "p.toml", tmp_path / "s.toml"
    problem.write_text('family = "theta"\n[options]\nn = 5\nq = 7\n')
    solver.write_text('backend = "scs"\n[options]\nqq = 1\n')
    refuses(f"{problem}:4: ", "solve", problem)
    refuses(f"{solver}:3: ", "solve", yes, "--solver", solver)
    # The line of the key, whatever else is named in the message or in the card.
    solver.write_text('name = "options"\ndescription = "options"\nbackend = "scs"\noptions = 3\n')
    refuses(f"{solver}:4: ", "solve", yes, "--solver", solver)
    problem.write_text('description = "line 9 of q"\nfamily = "theta"\n[options]\nn = 5\n[sweep]\nq = [7]\n')
    refuses(f"{problem}:6: ", "solve", problem)


def test_patterns_match_names_that_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where there are no cards
    plan = make_plan(["clarabel-[cd]*"], ["theta-c*"], 1, Settings())
    assert {cell.solver.name for cell in plan.cells} == {"clarabel-cvxpy", "clarabel-direct"}
    assert {cell.problem.name for cell in plan.cells} == {"theta-cycle"}


@pytest.mark.skipif(os.geteuid() == 0, reason="everything can be written to by root")
def test_a_folder_that_is_not_ours(tmp_path: Path, yes: Path, refuses: Any, call: Any) -> None:
    study(tmp_path / "closed" / "study.db")
    (tmp_path / "closed").chmod(0o500)
    try:
        refuses("Permission denied", "solve", yes, "-o", tmp_path / "closed" / "answer.npz")
        refuses(
            "closed", "compare", "--solvers", "auto", "--problems", yes, "--out", tmp_path / "closed/n.db"
        )
        # What is only read may lie there.
        assert call("export", tmp_path / "closed" / "study.db", "-o", tmp_path / "t.csv")[0] == 0
    finally:
        (tmp_path / "closed").chmod(0o700)


def limited(size: int, *arguments: str | Path, cwd: Path) -> tuple[int, str]:
    """Run the command line where no file may grow beyond a size, as on a disk that fills up."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    done = subprocess.run(
        [sys.executable, "-m", "sdpfeas.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=cwd,
        preexec_fn=limit,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_a_disk_that_fills_up(tmp_path: Path, yes: Path) -> None:
    code, err = limited(100, "solve", yes, "-o", "answer.npz", cwd=tmp_path)
    assert (code, "answer.npz: cannot be written: File too large" in err) == (2, True)
    assert not (tmp_path / "answer.npz").exists()
    write_backend(tmp_path, "honest")
    for size in (100, 60_000):
        asked = ("compare", "--solvers", "honest.py", "--problems", yes, "--out", f"study{size}.db")
        code, err = limited(size, *asked, cwd=tmp_path)
        assert code == 2, err
        assert f"study{size}.db" in err


@pytest.mark.slow
def test_output_that_cannot_be_written(yes: Path) -> None:
    for more in ([], ["--json"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "sdpfeas.cli", "show", yes, *more],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(),
                timeout=120,
                check=False,
            )
        assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


def test_not_enough_memory(tmp_path: Path, refuses: Any) -> None:
    (tmp_path / "card.toml").write_text('family = "theta"\n[options]\nn = 10000000\n')
    refuses("", "show", tmp_path / "card.toml")


# ---------------------------------------------------------------- databases


def study(path: Path) -> Path:
    """A small study, as it was stored once."""
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path) as made:
        made.executescript((STORED / "study.sql").read_text())
    made.close()
    return path


def test_a_stored_study_is_read(tmp_path: Path, call: Any) -> None:
    assert call("report", study(tmp_path / "study.db"), "-o", tmp_path / "r.html")[0] == 0


def test_damaged_pages(tmp_path: Path, refuses: Any) -> None:
    path = study(tmp_path / "study.db")
    whole = path.read_bytes()
    for page in range(1, len(whole) // 4096, 3):
        path.write_bytes(whole[: 4096 * page] + b"\x5a" * 4096 + whole[4096 * (page + 1) :])
        refuses("study.db", "report", path, "-o", tmp_path / "r.html")
        refuses("study.db", "compare", "--solvers", "auto", "--problems", "planted-mixed", "--out", path)
    path.write_bytes(whole[: len(whole) // 2])
    refuses("study.db", "export", path, "-o", tmp_path / "t.csv")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE cells SET solve_time = 'soon'",
        "UPDATE cells SET solve_time = -1",
        "UPDATE cells SET solve_time = NULL",
        "UPDATE cells SET verdict = NULL",
        "UPDATE cells SET lower = x'00'",
        "UPDATE cells SET info = '{'",
        "UPDATE problems SET parameters = '[]'",
        "UPDATE problems SET size = 'large'",
        "UPDATE runs SET settings = '{}'",
        'UPDATE runs SET settings = \'{"time_limit": null, "memory_limit": 1}\'',
        "UPDATE runs SET environment = 'none'",
        "UPDATE solvers SET options = 'null'",
        "UPDATE plan SET problem = CAST(x'fffe' AS TEXT) WHERE position = 0",
        "UPDATE solvers SET name = CAST(x'fffe' AS TEXT)",
        "UPDATE meta SET value = 'new'",
        "DELETE FROM cells WHERE key IN (SELECT cell FROM plan WHERE position = 1)",
    ],
)
def test_damaged_cells(tmp_path: Path, refuses: Any, change: str) -> None:
    path = study(tmp_path / "study.db")
    with sqlite3.connect(path) as made:
        made.execute(change)
    made.close()
    refuses("study.db", "report", path, "-o", tmp_path / "r.html")


# ---------------------------------------------------------------- plots, extras


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = [f"{k % 2},{x},{y}" for k, (x, y) in enumerate(rng.standard_normal((20, 2)))]
    (tmp_path / "t.csv").write_text("\n".join(["kind,a,b", *lines]))
    return tmp_path / "t.csv"


def test_what_cannot_be_written_is_refused_first(table: Path, refuses: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("sdpfeas.cli.library.read_samples", lambda *_: pytest.fail("read before refused"))
    refuses("written as .npz or .csv", "wlda", table, "--write", "W.foo")
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    for name in ("x.foo", "plot", "x."):
        refuses(".png", "wlda", table, "--plot", name)


@pytest.mark.parametrize(
    ("module", "named", "arguments"),
    [
        ("sklearn", "sdpfeas[wlda]", ["wlda", "t.csv", "--label", "kind"]),
        ("sklearn", "sdpfeas[wlda]", ["wlda", "t.csv", "--label", "kind", "--shrinkage", "auto"]),
        ("sklearn", "sdpfeas[wlda]", ["solve", "wlda-iris"]),
        ("matplotlib", "sdpfeas[plot]", ["wlda", "t.csv", "--label", "kind", "--plot", "x.png"]),
        ("matplotlib", "sdpfeas[plot]", ["report", "study.db", "--figures", "figures"]),
        ("pyarrow", "sdpfeas[parquet]", ["wlda", "t.parquet"]),
        ("pyarrow", "sdpfeas[parquet]", ["export", "study.db", "-o", "t.parquet"]),
        ("distributed", "sdpfeas[dask]", [*["compare", "--engine", "dask", "--scheduler", "tcp://x:1"]]),
        ("joblib", "sdpfeas[joblib]", [*["compare", "--engine", "joblib"]]),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    table: Path, refuses: Any, monkeypatch: Any, module: str, named: str, arguments: list[str]
) -> None:
    folder = table.parent
    monkeypatch.chdir(folder)
    (folder / "t.parquet").write_bytes(b"")
    study(folder / "study.db")
    if arguments[0] == "compare":
        trace_problem(2, feasible=True).save(folder / "p.npz")
        arguments = [*arguments, "--solvers", "auto", "--problems", "p.npz", "--out", "new.db"]
    ours = [
        name
        for name in sys.modules
        if name.startswith(("sdpfeas.estimators.worst_case_lda", "sdpfeas.estimators.projection"))
    ]
    for name in [name for name in sys.modules if name.partition(".")[0] == module] + ours:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    for lazy in (sdpfeas.estimators, library):  # both keep a name once it was imported
        monkeypatch.delitem(vars(lazy), "WorstCaseLDA", raising=False)
    refuses(f"pip install '{named}'", *arguments)


# ---------------------------------------------------------------- any terminal

PLAIN = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
OLD = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


#: Runs several command lines, one after the other, and tells their exit codes.
MANY = """
import json, os, sys
from sdpfeas.cli import main
codes = []
for arguments in json.loads(sys.argv[1]):
    try:
        main([os.fsdecode(word.encode()) for word in arguments])
    except SystemExit as end:
        codes.append(end.code or 0)
sys.stdout.flush()
sys.stderr.write(f"codes {codes}")
"""


@pytest.mark.parametrize("locale", [PLAIN, OLD], ids=["ascii", "old"])
def test_ascii(tmp_path: Path, locale: dict[str, str]) -> None:
    named = sf.FeasibilityProblem([sf.PSD(1)], [np.ones((1, 1, 1))], [-2], [-1], row_names=["Spur ≤ −1"])
    named.save(tmp_path / "größe.npz")
    write_backend(tmp_path, "honest")
    asked = [
        ["--help"],
        ["solve", "--help"],
        ["solve", "größe.npz", "-o", "é.npz"],
        ["verify", "größe.npz", "é.npz"],
        ["show", "größe.npz"],
        ["report", "ü.db", "--format", "md", "-o", "ü.md"],
        ["check-backend", "nobody-ß"],
        ["backends"],
    ]
    study(tmp_path / "ü.db")
    done = subprocess.run(
        [sys.executable, "-c", MANY, json.dumps(asked)],
        capture_output=True,
        env={**environment(), **locale},
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.stderr.decode("ascii").endswith("codes [0, 0, 0, 0, 0, 0, 2, 0]"), done.stderr
    assert rb"Spur \u2264 \u22121" in done.stdout
    done.stdout.decode("ascii")


def test_a_name_that_is_no_text(tmp_path: Path, yes: Path, call: Any) -> None:
    """Names of files are bytes; a study is named after them all the same."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.npz"))
    shutil.copy(yes, odd)
    write_backend(tmp_path, "honest")
    study_file, report = tmp_path / "s.db", tmp_path / "r.html"
    asked = ("compare", "--solvers", tmp_path / "honest.py", "--problems", odd, "--out", study_file)
    assert call(*asked, "--report", report)[0] == 0
    assert "caf\\udce9" in report.read_text(encoding="utf-8")
    assert call("show", odd)[0] == 0


def test_json_is_ascii(yes: Path, call: Any) -> None:
    code, out, _ = call("solve", yes, "--json")
    assert code == 0
    json.loads(out.encode("ascii"))


# ---------------------------------------------------------------- written and read again


def test_a_backend_that_counts_with_numpy(tmp_path: Path, yes: Path, call: Any) -> None:
    body = "return Claim(point=(np.eye(3),), raw_status='optimal', iterations=np.int64(5))"
    write_backend(tmp_path, "counter", body)
    assert call("solve", yes, "-b", tmp_path / "counter.py", "-o", tmp_path / "a.npz")[0] == 0
    assert load_result(tmp_path / "a.npz").iterations == 5


def test_a_directory_is_no_card(tmp_path: Path) -> None:
    (tmp_path / "card.toml").mkdir()
    with pytest.raises((CardError, sf.BackendError), match=r"card\.toml"):
        sf.find_solver(tmp_path / "card.toml")


def test_limits_are_named_as_the_user_typed_them(tmp_path: Path, yes: Path, refuses: Any) -> None:
    refuses("--time-limit must be positive, got -1", "solve", yes, "--time-limit", "-1")
    refuses("--memory-limit needs --isolate", "solve", yes, "--memory-limit", "4G")


@pytest.mark.parametrize("limit", ["--time-limit", "--audit-limit"])
def test_a_limit_of_zero_is_not_taken_for_the_usual_one(tmp_path: Path, refuses: Any, limit: str) -> None:
    refuses("time limit must be positive", "board", tmp_path / "board", "--quick", limit, "0")
    assert not (tmp_path / "board").exists()
