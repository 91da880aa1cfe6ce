"""Studies: isolation, limits, resuming, several runners."""

from __future__ import annotations

import importlib
import random
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from study_tools import marked, new_mark, run_json, start, trace_problem, write_backend, write_problems

from sdpfeas.backends.registry import find_solver
from sdpfeas.claims import Claim
from sdpfeas.errors import CardError, FileFormatError, OptionError, SdpfeasError, StudyError
from sdpfeas.families.problem_cards import find_problem
from sdpfeas.io.result_files import unpack_result
from sdpfeas.study.cells import Settings
from sdpfeas.study.comparison import Comparison, _plan_solver, make_plan
from sdpfeas.study.dropin_process import solver_facts
from sdpfeas.study.engines import Engine, LocalEngine
from sdpfeas.study.report import render_html, render_markdown
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Store
from sdpfeas.trials.trial import End, Interrupted, Run
from sdpfeas.trials.workers import LOG_HEAD, LOG_TAIL
from sdpfeas.verifier import verify

#: Databases written by version 0.1.0, as text.
STORED = Path(__file__).parent / "stored"


def compute(plan: Comparison, path: Path, jobs: int = 1, **options: Any) -> list[dict[str, Any]]:
    keep = options.pop("keep_evidence", False)
    engine = LocalEngine(jobs)
    try:
        with Store(path) as store:
            Runner(store, plan, engine, keep_evidence=keep).run(**options)
            return store.cells()
    finally:
        engine.close()


def verdicts(path: Path) -> dict[tuple[str, str, int], tuple[str, str]]:
    with Store(path, readonly=True) as store:
        return {
            (c["solver"], c["problem"], c["seed"]): (c["outcome"], c["verdict"])
            for c in store.cells(texts=False)
            if c["state"] == "done"
        }


# ---------------------------------------------------------------- faults

FAULTS = (
    "honest",
    "sleeper",
    "hog",
    "crasher",
    "leaver",
    "raiser",
    "printer",
    "nan",
    "liar",
    "nonsense",
    "parent",
)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """One study with every fault in it, on an infeasible problem; by solver."""
    folder = tmp_path_factory.mktemp("faulty")
    trace_problem(3, feasible=False).save(folder / "no.npz")
    solvers = [str(write_backend(folder / "b", name)) for name in FAULTS]
    # A generous memory limit for starting up, and little enough for the hog to reach it in time.
    settings = Settings(time_limit=1.5, memory_limit=160 << 20)
    plan = make_plan(solvers, [str(folder / "no.npz")], 1, settings)
    cells = compute(plan, folder / "study.db", jobs=2)
    assert [c["state"] for c in cells] == ["done"] * len(FAULTS)
    return {cell["solver"]: cell for cell in cells}


@pytest.mark.parametrize(
    ("name", "outcome", "words"),
    [
        ("sleeper", "timeout", "past its time limit"),
        ("parent", "timeout", "past its time limit"),
        ("crasher", "crash", "SIGSEGV"),
        ("leaver", "crash", "exit code 3"),
        ("raiser", "error", "no can do"),
        ("nonsense", "error", "not a Claim"),
        ("printer", "done", "neither a point nor a certificate"),
        ("nan", "done", "NaN"),
        ("liar", "done", "row trace"),
    ],
)
def test_a_fault_costs_its_cell_only(
    faulty: dict[str, dict[str, Any]], name: str, outcome: str, words: str
) -> None:
    cell = faulty[name]
    assert (cell["outcome"], cell["verdict"]) == (outcome, "undecided")
    assert words in cell["reason"]


def test_memory_is_limited_from_outside(faulty: dict[str, dict[str, Any]]) -> None:
    cell = faulty["hog"]
    # On a crowded machine the clock may run out first; both ends are kills from outside.
    assert cell["outcome"] in ("out of memory", "timeout")
    assert cell["peak_memory"] < 400 << 20


def test_the_honest_backend_is_not_disturbed(faulty: dict[str, dict[str, Any]]) -> None:
    cell = faulty["honest"]
    assert (cell["outcome"], cell["verdict"], cell["proof"]) == ("done", "infeasible", "rigorous")
    assert cell["claimed"] == "infeasible"
    assert "trace" in cell["explanation"]


def test_limits_hold(faulty: dict[str, dict[str, Any]]) -> None:
    assert faulty["sleeper"]["solve_time"] < 1.1 * 1.5 + 0.5 + 2.0


def test_a_lie_is_recorded_as_a_claim(faulty: dict[str, dict[str, Any]]) -> None:
    assert faulty["liar"]["claimed"] == "feasible"
    assert faulty["liar"]["verdict"] == "undecided"


def test_megabytes_of_output_are_cut(faulty: dict[str, dict[str, Any]]) -> None:
    log = faulty["printer"]["log"]
    assert len(log) < LOG_HEAD + LOG_TAIL + 200
    assert "left out" in log
    assert log.rstrip().endswith("the end")


@pytest.mark.slow
def test_memory_limit_kills_within_a_long_time_limit(tmp_path: Path) -> None:
    trace_problem(3, feasible=False).save(tmp_path / "no.npz")
    settings = Settings(time_limit=60, memory_limit=200 << 20)
    plan = make_plan([str(write_backend(tmp_path, "hog"))], [str(tmp_path / "no.npz")], 1, settings)
    (cell,) = compute(plan, tmp_path / "study.db")
    assert cell["outcome"] == "out of memory"
    assert cell["peak_memory"] < 300 << 20


# ---------------------------------------------------------------- resuming


def small_plan(
    folder: Path, solvers: list[str], problems: int = 4, seeds: int = 1, **settings: Any
) -> Comparison:
    pattern = write_problems(folder / "p", problems)
    paths = [str(write_backend(folder / "b", name)) for name in solvers]
    return make_plan(paths, [str(pattern)], seeds, Settings(**{"time_limit": 10, **settings}))


def test_only_what_is_missing_or_changed_is_computed(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    compute(small_plan(tmp_path, ["honest"]), path)
    cells = compute(small_plan(tmp_path, ["honest", "raiser"]), path)
    assert [c["attempts"] for c in cells] == [1] * 8
    # The same file with other content is another solver, and its cells are computed again.
    write_backend(tmp_path / "b", "honest", "return Claim(raw_status='changed')")
    plan = make_plan([str(tmp_path / "b/honest.py")], [str(tmp_path / "p/*.npz")], 1, Settings(time_limit=10))
    cells = [c for c in compute(plan, path) if c["solver"] == "honest"]
    assert {c["raw_status"] for c in cells} == {"changed"}


def test_every_file_of_a_backend_in_a_package_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "packed_backend"
    write_backend(package, "honest").rename(package / "__init__.py")
    (package / "parts.py").write_text("STEPS = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    solver = find_solver(importlib.import_module("packed_backend").Made)
    before = _plan_solver(solver_facts(solver)).key
    assert _plan_solver(solver_facts(solver)).key == before
    (package / "parts.py").write_text("STEPS = 2\n")
    assert _plan_solver(solver_facts(solver)).key != before


@pytest.mark.slow
def test_failed_cells_are_retried_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    plan = small_plan(tmp_path, ["honest", "raiser"], problems=2)
    compute(plan, path)
    attempts = {(c["solver"], c["attempts"]) for c in compute(plan, path, retry="failed")}
    assert attempts == {("honest", 1), ("raiser", 2)}


def test_kept_evidence_can_be_verified_again(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, ["honest"])
    cells = compute(plan, tmp_path / "study.db", keep_evidence=True)
    # A worker warms up on other problems; what it prints then is in nobody's log.
    assert [c["log"] for c in cells] == ["iteration 1: found it\n", ""] * 2
    with Store(tmp_path / "study.db", readonly=True) as store:
        for cell, planned in zip(cells, plan.cells, strict=True):
            data = store.evidence(cell["key"])
            assert data is not None
            saved = unpack_result(data)
            problem = plan.build(planned.problem)
            assert saved.problem_hash == problem.content_hash
            assert verify(problem, saved.claim, rigorous=True).verdict == cell["verdict"]


def test_an_interrupted_study_gives_back_its_cells(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, ["sleeper"], problems=2, time_limit=60)
    engine = LocalEngine(2)
    with Store(tmp_path / "study.db") as store:
        runner = Runner(store, plan, engine)
        timer = threading.Timer(3.0, runner.stop)
        timer.start()
        assert runner.run() == 0
        assert {c["state"] for c in store.cells()} == {"pending"}
        assert {c["attempts"] for c in store.cells()} == {0}
    engine.close()


# ---------------------------------------------------------------- open cells


class Instant(Engine):
    """An engine without processes: every backend claims nothing. After so many cells it gives up silently."""

    jobs = 1

    def __init__(self, cells: int = 1000) -> None:
        self.cells = cells

    def run(self, *_: Any) -> Run:
        self.cells -= 1
        if self.cells < 0:
            raise Interrupted
        return Run(End.DONE, value=Claim())

    def close(self) -> None:
        pass


def test_a_study_with_open_cells_is_no_success(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, ["honest"])
    with Store(tmp_path / "study.db") as store:
        with pytest.raises(StudyError, match="3 of 4 cells are still open"):
            Runner(store, plan, Instant(1)).run()
        assert Counter(c["state"] for c in store.cells()) == {"done": 1, "pending": 3}


def take_away(path: Path) -> None:
    path.unlink()


def replace_by_older(path: Path) -> None:
    (path.parent / "older.db").rename(path)


def empty(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE cells")
    db.close()


def forget(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("UPDATE cells SET state = 'pending' WHERE state = 'done'")
    db.close()


def test_a_cell_that_is_given_back_late_is_computed(tmp_path: Path) -> None:
    """By another runner, or another program, when nothing was left to take."""
    plan, path = small_plan(tmp_path, ["honest"], problems=2), tmp_path / "study.db"
    seen: list[str] = []

    def listener(cell: Any, record: Any) -> None:
        if record is not None and (seen.append(cell.key) or len(seen) == 2):  # type: ignore[func-returns-value]
            forget(path)

    with Store(path) as store:
        assert Runner(store, plan, Instant(), listener=listener).run() == 4
    assert len(verdicts(path)) == 2


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (take_away, "removed or replaced"),
        (replace_by_older, "removed or replaced"),
        (empty, "database error: no such table: cells"),
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_a_lost_store_is_no_success(tmp_path: Path, harm: Any, words: str, last: bool) -> None:
    plan, path = small_plan(tmp_path, ["honest"]), tmp_path / "study.db"
    with Store(tmp_path / "older.db") as older:
        older.begin_run(plan, "", {}, None)
    seen: list[str] = []

    def listener(cell: Any, record: Any) -> None:
        if record is not None:
            seen.append(cell.key)
            if len(seen) == (4 if last else 1):
                harm(path)

    with Store(path) as store, pytest.raises(SdpfeasError) as caught:
        Runner(store, plan, Instant(), listener=listener).run()
    assert words in str(caught.value)


def test_studies_of_before_can_be_read(tmp_path: Path) -> None:
    """Written by version 0.2.0."""
    path = tmp_path / "study.db"
    with sqlite3.connect(path) as db:
        db.executescript((STORED / "study.sql").read_text())
    db.close()
    with Store(path) as store:
        cells = store.cells()
        found = {
            (c["solver"], c["problem"].partition("[")[2]): (c["verdict"], c["iterations"]) for c in cells
        }
        assert found == {
            ("spectral-ipm", "feasible=True]"): ("feasible", 5),
            ("spectral-ipm", "feasible=False]"): ("infeasible", 7),
            ("spectral-ipm", ""): ("bracket", 0),
            ("scs", "feasible=True]"): ("feasible", 50),
            ("scs", "feasible=False]"): ("infeasible", 525),
            ("scs", ""): ("bracket", 0),
        }
        assert "planted-mixed" in render_html(store)
        assert "wlda-iris" in render_markdown(store)
        again = {member.label: member.build(0) for member in find_problem("planted-mixed").members()}
        for cell in cells[:2]:
            data = store.evidence(cell["key"])
            assert data is not None
            # The planted problem may be another in its last bits (another numpy); margins are far larger.
            claim = unpack_result(data).claim
            assert verify(again[cell["problem"]], claim, rigorous=True).verdict == cell["verdict"]


# ---------------------------------------------------------------- kill -9

QUICK = """
        time.sleep(0.05)
        n = problem.sets[0].n
        if problem.row_names:  # not the trivial problem a worker warms up on
            with open({log!r}, "a") as file:
                file.write(f"{{n}}\\n")
        if problem.upper[0] < 0:
            return Claim(certificate=np.array([-1.0]), raw_status="infeasible")
        level = (problem.lower[0] + problem.upper[0]) / 2 / n
        return Claim(point=(np.eye(n) * level,), raw_status="optimal")"""


def quick_study(folder: Path, problems: int, seeds: int) -> list[str | Path]:
    write_problems(folder / "p", problems)
    backend = write_backend(folder / "b", "quick", QUICK.format(log=str(folder / "solved.txt")))
    return [
        *("compare", "--solvers", backend),
        *("--problems", folder / "p/*.npz", "--seeds", str(seeds), "--time-limit", "10"),
    ]


def kill_some(process: subprocess.Popen[str], mark: str, chance: random.Random) -> None:
    """Kill the runner, or all its processes, or a worker and soon after the runner."""
    how = chance.choice(["runner", "all", "worker"])
    workers = [each for each in marked(mark) if each.pid != process.pid]
    if how == "worker" and workers:
        workers = [chance.choice(workers)]
    for victim in workers if how != "runner" else []:
        with suppress(psutil.NoSuchProcess):
            victim.kill()
    if how == "worker":
        time.sleep(chance.uniform(0.0, 1.0))
    process.kill()


def kill_at_random_and_resume(folder: Path, kills: int, problems: int, seeds: int) -> None:
    arguments = quick_study(folder, problems, seeds)
    run_json([*arguments, "--out", folder / "whole.db"])
    whole = verdicts(folder / "whole.db")
    chance = random.Random(0)
    mark, broken = new_mark(), folder / "broken.db"
    finished_before = 0
    for _ in range(kills):
        process = start([*arguments, "--out", broken], mark)
        time.sleep(chance.uniform(0.5, 4.0))
        kill_some(process, mark, chance)
        process.communicate()
        # What was finished stays finished, and nothing else counts as finished.
        if broken.exists():
            with sqlite3.connect(broken) as db:
                assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            db.close()
            try:
                # A cell whose worker was killed is computed again.
                finished = sum(outcome == "done" for outcome, _ in verdicts(broken).values())
            except FileFormatError:
                finished = 0  # killed before there was a table
            assert finished >= finished_before
            finished_before = finished
    deadline = time.monotonic() + 20
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    before = (folder / "solved.txt").read_text().count("\n")
    # A cell whose worker was killed twice is not tried again unasked.
    found = run_json([*arguments, "--out", broken, "--retry", "failed"])
    assert verdicts(broken) == whole
    # No cell is computed that was finished, and none twice.
    assert found["computed"] == len(whole) - finished_before
    assert (folder / "solved.txt").read_text().count("\n") == before + found["computed"]


def test_killed_runner_loses_nothing(tmp_path: Path) -> None:
    kill_at_random_and_resume(tmp_path, kills=2, problems=12, seeds=1)


@pytest.mark.slow
def test_killed_thirty_times(tmp_path: Path) -> None:
    kill_at_random_and_resume(tmp_path, kills=30, problems=50, seeds=4)


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_hanging_worker_dies_with_its_runner(tmp_path: Path, how: signal.Signals) -> None:
    write_problems(tmp_path / "p", 1)
    backend = write_backend(tmp_path / "b", "parent")
    mark = new_mark()
    process = start(
        ["compare", "--solvers", backend, "--problems", tmp_path / "p/*.npz", "-o", tmp_path / "s.db"], mark
    )
    deadline = time.monotonic() + 60
    # The runner, its supervisor, the worker, and what the backend started.
    while len(marked(mark)) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(marked(mark)) >= 4
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    if how is signal.SIGINT:
        assert process.returncode == 130
        assert "Run the same command to continue" in err
    deadline = time.monotonic() + 20
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


# ---------------------------------------------------------------- two runners


@pytest.mark.slow
def test_two_runners_share_the_work(tmp_path: Path) -> None:
    arguments = [*quick_study(tmp_path, 24, 1), "--out", tmp_path / "study.db", "--json"]
    both = [start(arguments), start(arguments)]
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    with Store(tmp_path / "study.db", readonly=True) as store:
        cells = store.cells(texts=False)
    assert {c["state"] for c in cells} == {"done"}
    assert [c["attempts"] for c in cells] == [1] * 24
    assert len((tmp_path / "solved.txt").read_text().splitlines()) == 24


# ---------------------------------------------------------------- planning


def test_bad_cards_are_reported_all_at_once(tmp_path: Path) -> None:
    (tmp_path / "syntax.toml").write_text('backend = "auto"\n[options\n')
    (tmp_path / "key.toml").write_text('backend = "auto"\n\nbakend = 3\n')
    (tmp_path / "option.toml").write_text('backend = "spectral-ipm"\n[options]\nmax_iterations = "many"\n')
    (tmp_path / "raises.py").write_text("raise ValueError('on import')\n")
    solvers = [str(tmp_path / n) for n in ("syntax.toml", "key.toml", "option.toml", "raises.py")]
    (tmp_path / "damaged.npz").write_bytes(b"nothing")
    (tmp_path / "empty.toml").write_text('family = "wlda"\n[sweep]\nclasses = []\n')
    (tmp_path / "family.toml").write_text("# about nothing\nfamily = 7\n")
    problems = [str(tmp_path / n) for n in ("damaged.npz", "empty.toml", "family.toml")]
    with pytest.raises(CardError) as caught:
        make_plan([*solvers, "nosuch"], [*problems, "nofile.npz"], 1, Settings())
    message = str(caught.value)
    assert "syntax.toml:2:" in message
    assert "key.toml:3:" in message
    assert "option.toml:3:" in message
    assert "raises.py:1:" in message
    assert "'nosuch'" in message
    assert "damaged.npz" in message
    assert "empty.toml:3:" in message
    assert "family.toml:2:" in message
    assert "nofile.npz" in message


def test_two_solvers_of_one_name_are_refused(tmp_path: Path) -> None:
    write_problems(tmp_path / "p", 1)
    first = write_backend(tmp_path / "a", "same", "return Claim()")
    second = write_backend(tmp_path / "b", "same", "return Claim(raw_status='other')")
    with pytest.raises(CardError, match="called 'same' too"):
        make_plan([str(first), str(second)], [str(tmp_path / "p/*.npz")], 1, Settings())


@pytest.mark.parametrize("settings", [{"time_limit": 0}, {"memory_limit": 1}, {"threads": 0}, {"tol": 0}])
def test_bad_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Settings(**settings)


def test_something_else_is_no_study(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database at all, but long enough to look at")
    with pytest.raises(FileFormatError, match="not a study"):
        Store(tmp_path / "x.db", readonly=True)
    with pytest.raises(FileFormatError, match="no such study"):
        Store(tmp_path / "y.db", readonly=True)


# ---------------------------------------------------------------- cost


@pytest.mark.slow
def test_overhead_per_cell(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, ["honest"], problems=20, seeds=50)
    assert len(plan.cells) == 1000
    begin = time.monotonic()
    cells = compute(plan, tmp_path / "study.db", jobs=2)
    spent = time.monotonic() - begin
    useful = sum(c["solve_time"] + c["verify_time"] for c in cells)
    overhead = (2 * spent - useful) / len(cells)
    print(f"{spent:.1f} s for 1000 cells, overhead {1000 * overhead:.1f} ms a cell")
    assert {c["outcome"] for c in cells} == {"done"}
    assert overhead < 0.05


def test_a_crash_is_tried_once_more_when_the_study_is_resumed(tmp_path: Path) -> None:
    """Somebody else may have killed the worker."""
    plan = small_plan(tmp_path, ["honest", "crasher"], problems=1)
    seen = []
    for _ in range(3):
        cells = compute(plan, tmp_path / "study.db")
        seen.append({cell["solver"]: (cell["outcome"], cell["attempts"]) for cell in cells})
    assert [found["crasher"] for found in seen] == [("crash", 1), ("crash", 2), ("crash", 2)]
    assert {found["honest"] for found in seen} == {("done", 1)}
