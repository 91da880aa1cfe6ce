"""Running experiments: caps, failures, resumption, determinism, and the command."""

import json
import os
import pickle
import re
import shlex
import signal
import sqlite3
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import typer
from scipy.io import savemat
from study_tools import marked, new_mark, run_json, start

from benchmarks.paper import protocol
from benchmarks.paper.__main__ import app, main
from benchmarks.paper.methods import METHODS, find_method, gradient_verdict
from benchmarks.paper.protocol import Task
from benchmarks.paper.report import to_markdown, write_figure
from benchmarks.paper.study import Experiment, plan_targets, record_of, run_experiment
from benchmarks.paper.summary import disagreements, summarise
from benchmarks.paper.targets import Column, Target, find_targets
from sdpfeas.claims import Claim, Stop, Verdict
from sdpfeas.errors import OptionError
from sdpfeas.study.cells import Settings
from sdpfeas.study.engines import LocalEngine
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Store
from sdpfeas.trials.trial import End, Interrupted, Run, Trial
from sdpfeas.trials.workers import WorkerPool

#: Databases written by version 0.1.0, as text.
STORED = Path(__file__).parents[1] / "study" / "stored"

#: How a process of its own runs the command: from the root of the clone.
ROOT = Path(__file__).parents[2]
MODULE = {"module": "benchmarks.paper", "cwd": ROOT}

IRIS = Task("iris")
LIMITED = Settings(time_limit=60.0)


@pytest.fixture(scope="module")
def slot():
    made = WorkerPool()
    yield made
    made.close()


def ask(slot, experiment, settings=LIMITED, stop=None):
    limits = replace(settings.limits, time=settings.time_limit)
    return slot.run(Trial("benchmarks.paper.study:answer", pickle.dumps(experiment), limits), stop)


# ---------------------------------------------------------------- methods


@pytest.mark.parametrize("name", METHODS)
def test_methods_work_on_iris_and_say_the_same_twice(name):
    first, second = (run_experiment(Experiment(name, IRIS, 1), IRIS.sample(1)) for _ in range(2))
    assert first.error == second.error <= 0.15
    assert first.bracket == second.bracket
    assert first.finished


def test_ours_is_proven_and_the_others_agree():
    found = {
        name: run_experiment(Experiment(name, IRIS, 0), IRIS.sample(0))
        for name in ("wlda", "sd-wlda", "primal-clarabel", "primal-scs")
    }
    low, high = found["wlda"].bracket
    assert found["wlda"].proven
    assert high - low <= 1e-3 * high
    for name, other in found.items():
        assert other.bracket[0] <= high * 1.002, name
        assert other.bracket[1] >= low * 0.998, name
        assert other.proven is (name == "wlda")


def test_an_infinite_ratio_is_known_for_one():
    # Five samples of each class in 64 dimensions: the class scatters leave room to separate all means.
    task = Task("digits", 0.03, by_class=True)
    assert run_experiment(Experiment("wlda", task, 0), task.sample(0)).infinite


def test_lda_uses_the_null_space_of_a_singular_within_class_scatter():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 4)
    X = rng.normal(size=(3, 20))[y] + rng.normal(size=(12, 20))
    fitted = find_method("lda").fit(X, y, 2)
    assert "singular" in fitted.remark
    Z = fitted.project(X)
    means = np.array([Z[y == k].mean(axis=0) for k in range(3)])
    assert np.abs(Z - means[y]).max() < 1e-10 * np.abs(means[0] - means[1]).max()
    assert not run_experiment(Experiment("lda", IRIS, 0), IRIS.sample(0)).remark


@pytest.mark.parametrize(
    ("stop", "status", "verdict"),
    [
        (Stop.FINISHED, "CONVERGENCE: NORM OF PROJECTED GRADIENT <= PGTOL", Verdict.FEASIBLE),
        (Stop.FINISHED, "CONVERGENCE: NORM_OF_PROJECTED_GRADIENT_<=_PGTOL", Verdict.FEASIBLE),
        (Stop.FINISHED, "infeasibility screen: 0 < 0.001", Verdict.INFEASIBLE),
        # The rows do not hold, and nothing more is to be had.
        (Stop.FINISHED, "CONVERGENCE: RELATIVE REDUCTION OF F <= FACTR*EPSMCH", Verdict.INFEASIBLE),
        (Stop.STALLED, "ABNORMAL: ", Verdict.INFEASIBLE),
        (Stop.ITERATION_LIMIT, "iteration limit", Verdict.INFEASIBLE),
        (Stop.TIME_LIMIT, "time limit", None),
        (Stop.NUMERICAL, "the dual function overflows", None),
    ],
)
def test_only_a_small_gradient_counts_as_feasible(stop, status, verdict):
    claim = Claim(point=(np.eye(2),), certificate=np.ones(1), raw_status=status, stop=stop)
    assert gradient_verdict(claim) is verdict


def test_unknown_methods_are_refused():
    with pytest.raises(OptionError, match="no method is called 'magic'"):
        find_method("magic")


# ---------------------------------------------------------------- processes


def test_a_slot_runs_what_this_process_would(slot):
    got = ask(slot, Experiment("lda", IRIS, 0))
    assert got.end is End.DONE
    assert got.value["error"] == run_experiment(Experiment("lda", IRIS, 0), IRIS.sample(0)).error


def test_a_failing_method_costs_its_own_cell_only(slot):
    got = ask(slot, Experiment("lda", Task("iris", components=9), 0))
    assert got.end is End.ERROR
    assert "n_components" in got.detail
    assert ask(slot, Experiment("lda", IRIS, 0)).end is End.DONE


@pytest.mark.slow
def test_the_cap_is_enforced_from_outside_and_a_new_child_takes_over(slot):
    slow = Experiment("lmnn", Task("digits"), 0)
    begin = time.monotonic()
    got = ask(slot, slow, Settings(time_limit=0.2))
    assert got.end is End.TIMEOUT
    assert got.value is None
    assert 0.2 <= got.wall_time < 5.0
    assert time.monotonic() - begin < 30.0
    little = ask(slot, Experiment("lda", IRIS, 0), Settings(memory_limit=2**26))
    assert little.end is End.MEMORY
    assert "the limit is 64 MiB" in little.detail
    assert ask(slot, Experiment("lda", IRIS, 0)).end is End.DONE


@pytest.mark.slow
def test_a_dying_child_is_a_crash_and_a_stop_is_heard(slot):
    slow = Experiment("lmnn", Task("digits"), 0)
    ask(slot, Experiment("lda", IRIS, 0))
    threading.Timer(1.0, os.kill, (slot._idle[-1][2]._pid, signal.SIGKILL)).start()
    got = ask(slot, slow)
    assert got.end is End.CRASH
    assert "SIGKILL" in got.detail
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Interrupted):
        ask(slot, slow, stop=stop)


# ---------------------------------------------------------------- studies


def little_plan(methods=("lda", "wlda"), splits=2, limit=60.0):
    column = Column("iris", "Iris", IRIS, splits)
    return plan_targets([Target("table1", "little", methods, (column,))], Settings(time_limit=limit))


def compute(path, plan):
    with Store(path) as store:
        return Runner(store, plan, LocalEngine()).run(), store.cells()


@pytest.mark.parametrize("kind", ["error", "picture"])
def test_a_figure_without_any_of_the_methods_is_left_out(kind, tmp_path):
    pytest.importorskip("matplotlib")
    column = Column("iris", "Iris", Task("iris", components=2), 1, panel="Iris", x=1.0)
    plan = plan_targets([Target("fig1", "", (), (column,), kind)], LIMITED)
    with Store(tmp_path / "cells.db") as store:
        assert write_figure(summarise(plan, [])[0], store, tmp_path) == []


@pytest.mark.parametrize("kind", ["error", "time", "picture"])
def test_figures_are_written_and_the_same_twice(kind, tmp_path):
    pytest.importorskip("matplotlib")
    column = Column("iris", "Iris", Task("iris", components=2), 1, panel="Iris", x=1.0)
    plan = plan_targets([Target("fig1", "", ("lda", "pca"), (column,), kind)], LIMITED)
    sample = column.task.sample(0)
    with Store(tmp_path / "cells.db") as store:
        store.begin_run(plan, "", {}, None)
        while (key := store.take()) is not None:
            planned = next(cell for cell in plan.cells if cell.key == key)
            score = run_experiment(planned.experiment, sample)
            store.finish(key, record_of(Run(End.DONE, value=asdict(score))), score.picture)
        summary = summarise(plan, store.cells())[0]
        pages = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            svg, png = write_figure(summary, store, tmp_path / name)
            assert png.read_bytes()[:4] == b"\x89PNG"
            pages.append(svg.read_bytes())
    assert pages[0] == pages[1]
    assert len(pages[0]) > 5000


@pytest.mark.slow
def test_only_what_is_missing_is_computed(tmp_path):
    computed, cells = compute(tmp_path / "cells.db", little_plan())
    assert computed == len(cells) == 4
    again, cells = compute(tmp_path / "cells.db", little_plan())
    assert again == 0
    assert {cell["attempts"] for cell in cells} == {1}
    summary = summarise(little_plan(), cells)[0]
    assert all(entry.errors.keys() == {0, 1} for entry in summary.entries.values())
    ours = summary.entries["wlda", 0]
    assert ours.unproven == 0
    assert disagreements(ours, ours) == ({}, 2)


def test_results_of_before_are_taken_over(tmp_path, monkeypatch):
    """Written by version 0.1.0: nothing of it is computed again."""
    monkeypatch.setattr("benchmarks.paper.study.__version__", "0.1.0")
    path = tmp_path / "cells.db"
    with sqlite3.connect(path) as db:
        db.executescript((STORED / "paper.sql").read_text())
    db.close()
    plan = little_plan()
    with Store(path) as store:
        assert store.finished() == {cell.key for cell in plan.cells}
        ours = summarise(plan, store.cells())[0].entries["wlda", 0]
    assert (ours.errors.keys(), ours.unproven) == ({0, 1}, 0)


def test_cells_are_shared_between_tables_and_keyed_by_what_matters():
    column = Column("iris", "Iris", IRIS, 3)
    two = [Target("table1", "", ("lda",), (column,)), Target("fig1", "", ("lda", "wlda"), (column,))]
    plan = plan_targets(two, LIMITED)
    assert len(plan.cells) == 6
    keys = {cell.key for cell in plan.cells}
    assert keys.isdisjoint(cell.key for cell in plan_targets(two, Settings(time_limit=61.0)).cells)
    other = [Target("table1", "", ("lda",), (Column("iris", "Iris", Task("iris", pca=2), 3),))]
    assert keys.isdisjoint(cell.key for cell in plan_targets(other, LIMITED).cells)


def test_what_is_only_timed_comes_last():
    plan = little_plan(("primal-scs", "lda", "primal-clarabel", "wlda"))
    names = [[cell.solver.name for cell in part.cells] for part in plan.phases()]
    assert names == [["lda", "lda", "wlda", "wlda"], ["primal-scs", "primal-clarabel"]]
    assert len(little_plan(("lda",)).phases()) == 1


class Clock:
    """An engine on which every trial hits the time limit at once."""

    jobs = 1

    def __init__(self):
        self.asked = []

    def run(self, trial, stop):
        self.asked.append(pickle.loads(trial.payload).task.dataset)
        return Run(End.TIMEOUT, wall_time=trial.limits.time)

    def close(self):
        pass


def test_what_is_only_timed_is_skipped_if_a_smaller_problem_hit_the_time_limit(tmp_path):
    columns = tuple(Column(name, name.title(), Task(name), 2) for name in ("digits", "iris"))
    plan = plan_targets([Target("table1", "", ("primal-scs", "lda"), columns)], LIMITED)
    engine = Clock()
    with Store(tmp_path / "cells.db") as store:
        for part in plan.phases():
            Runner(store, part, engine).run()
        summary = summarise(plan, store.cells())[0]
    assert engine.asked == ["digits", "iris"] * 2 + ["iris"]
    entries = [summary.entries["primal-scs", place] for place in (0, 1)]
    assert [entry.timed_out for entry in entries] == [1, 1]
    assert entries[0].not_run == ["not run: timeout on iris (3 classes, 4 dimensions)"]
    assert "primal SDP (SCS) on Digits was not run: timeout on iris" in to_markdown(summary, "", "")


def test_missing_data_are_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("SDPFEAS_DATA", str(tmp_path))
    columns = (Column("umist", "UMist", Task("umist"), 2), Column("iris", "Iris", IRIS, 1))
    plan = plan_targets([Target("table3", "", ("lda",), columns)], LIMITED)
    assert len(plan.cells) == 1
    assert "umist_cropped.mat" in plan.skipped["umist"]
    summary = summarise(plan, [])[0]
    assert "umist_cropped.mat" in summary.skipped["UMist"]
    assert summary.places == [1]


# ---------------------------------------------------------------- the command


def command(capsys, *arguments):
    """Run the command line in this process; return exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    shown = capsys.readouterr()
    return ended.value.code, shown.out, shown.err


@pytest.fixture
def faces(tmp_path, monkeypatch):
    """A folder with a stand-in for Yale: few people and few pixels, the same names."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(1, 5), 9)
    X = rng.normal(size=(4, 6))[y - 1] * 3 + rng.normal(size=(y.size, 6))
    (tmp_path / "data" / "wlda").mkdir(parents=True)
    savemat(tmp_path / "data" / "wlda" / "Yale_32x32.mat", {"fea": X, "gnd": y[:, None]})
    monkeypatch.setenv("SDPFEAS_DATA", str(tmp_path / "data"))
    protocol.data.cache_clear()
    yield tmp_path
    protocol.data.cache_clear()


@pytest.mark.slow
def test_the_command_writes_tables_and_goes_on_where_it_stopped(faces, capsys):
    folder = faces / "results"
    methods = ["--methods", "lda, sd-wlda, wlda"]
    asked = ["table3", "--data", "yale", "--quick", "--splits", "1", "--time-limit", "60", "--json", *methods]
    asked += ["--out", folder]
    code, out, _ = command(capsys, *asked)
    found = json.loads(out)
    assert code == 0
    assert found["cells"] == found["computed"] == 3
    assert all(entry["error"] is not None for entry in found["entries"])
    names = {"table3.md", "table3.csv", "table3-cells.csv"}
    assert {path.rsplit("/", 1)[-1] for path in found["written"]} == names
    page = " ".join((folder / "table3.md").read_text().split())
    assert "/ 18.44 (3.64)" in page
    assert "SD-WLDA agrees with ours | 1 of 1 |" in page
    again = json.loads(command(capsys, *asked)[1])
    assert again["computed"] == 0
    assert again["entries"] == found["entries"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table9"], "no table or figure is called 'table9'"),
        (["table4", "--methods", "lda,magic"], "no method is called 'magic'"),
        (["table4", "--data", "orl"], "no column is about the data set 'orl'; there are: yale"),
        (["table4", "--splits", "0"], "--splits must be at least 1"),
        (["table4", "--jobs", "0"], "--jobs must be at least 1"),
        (["table4", "--time-limit", "-1"], "the time limit must be positive"),
    ],
)
def test_errors_are_one_line(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = command(capsys, *arguments)
    assert code == 2
    assert message in " ".join(err.split())
    assert not list(tmp_path.iterdir())


def test_without_scikit_learn_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    code, _, err = command(capsys, "table1", "--quick", "--out", tmp_path / "results")
    assert code == 2
    assert err.startswith("error: ")
    assert "pip install 'sdpfeas[wlda]'" in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_every_command_on_the_page_and_in_the_help_is_understood():
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    tree = typer.main.get_command(app)
    found = re.findall(r"python -m benchmarks\.paper (.*?)(?= ·|`|$)", f"{page}\n{tree.epilog}", re.MULTILINE)
    assert len(found) >= 6
    for line in found:
        context = tree.make_context("paper", shlex.split(line, comments=True), resilient_parsing=False)
        assert find_targets(context.params["what"])


@pytest.mark.slow
def test_two_runs_give_identical_errors(faces):
    asked = ["table4", "--quick", "--time-limit", "60", "--out"]
    first, second = (run_json([*asked, faces / name], **MODULE)["entries"] for name in ("a", "b"))
    assert [(e["error"], e["deviation"]) for e in first] == [(e["error"], e["deviation"]) for e in second]


@pytest.mark.slow
def test_a_killed_run_loses_nothing_and_leaves_nobody(faces):
    folder, mark = faces / "results", new_mark()
    asked = ["table4", "--time-limit", "60", "--out", folder]
    process = start(asked, mark, **MODULE)
    deadline = time.monotonic() + 120
    finished = []
    while len(finished) < 5:
        assert time.monotonic() < deadline
        time.sleep(0.2)
        if (folder / "cells.db").exists():
            with Store(folder / "cells.db") as store:
                finished = [c["key"] for c in store.cells(texts=False) if c["state"] == "done"]
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not marked(mark)
    found = run_json(asked, **MODULE)
    assert found["computed"] <= found["cells"] - len(finished)
    with Store(folder / "cells.db") as store:
        attempts = {cell["key"]: cell["attempts"] for cell in store.cells(texts=False)}
    assert all(attempts[key] == 1 for key in finished)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sonar", "waveform", "balance"])
def test_the_published_method_agrees_with_ours_on_real_data(data_dir, name):
    for split in range(2):
        sample = Task(name).sample(split)
        ours, theirs = (
            run_experiment(Experiment(method, Task(name), split), sample) for method in ("wlda", "sd-wlda")
        )
        assert theirs.finished
        assert not theirs.proven
        assert theirs.bracket[0] <= 1.002 * ours.bracket[1]
        assert theirs.bracket[1] >= 0.998 * ours.bracket[0]
