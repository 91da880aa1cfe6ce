"""A study on joblib backends: the same limits, verdicts and store as anywhere; lost workers cost nothing."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from study_tools import marked, new_mark, start, write_backend, write_problems

from sdpfeas.errors import OptionError
from sdpfeas.study.cells import Settings
from sdpfeas.study.comparison import make_plan
from sdpfeas.study.engines import JoblibEngine
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Store
from sdpfeas.trials import worker_main

joblib = pytest.importorskip("joblib", reason="joblib is not installed")

SLOW = """
        time.sleep(0.3)
        n = problem.sets[0].n
        return Claim(certificate=np.array([-1.0]), raw_status="infeasible")"""


def workers() -> list[psutil.Process]:
    """Worker processes this process has started."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if worker_main.__file__ in " ".join(child.cmdline()):
                found.append(child)
    return found


def study(
    folder: Path, engine: JoblibEngine, solvers: list[str], problems: int = 2, listener: Any = None
) -> list[dict[str, Any]]:
    pattern = write_problems(folder / "p", problems)
    write_backend(folder / "b", "slow", SLOW)
    paths = [str(folder / "b/slow.py" if s == "slow" else write_backend(folder / "b", s)) for s in solvers]
    plan = make_plan(paths, [str(pattern)], 1, Settings(time_limit=0.5))
    try:
        with Store(folder / "study.db") as store:
            assert Runner(store, plan, engine, listener=listener).run() == len(plan.cells)
            return store.cells()
    finally:
        engine.close()


@pytest.mark.slow
def test_a_registered_backend(tmp_path: Path) -> None:
    from joblib._parallel_backends import ThreadingBackend

    started: list[str] = []

    class Mine(ThreadingBackend):  # type: ignore[misc]
        def __init__(self, *, colour: str, **options: Any) -> None:
            started.append(colour)
            super().__init__(**options)

    joblib.register_parallel_backend("sdpfeas-test", Mine)
    cells = study(tmp_path, JoblibEngine("sdpfeas-test", 2, colour="red"), ["honest", "sleeper"])
    assert len(started) >= len(cells)
    assert set(started) == {"red"}
    assert {(c["solver"], c["outcome"], c["verdict"]) for c in cells} == {
        ("honest", "done", "feasible"),
        ("honest", "done", "infeasible"),
        ("sleeper", "timeout", "undecided"),
    }
    # The engine gave back its workers; the supervisor is kept for the next study of this process.
    assert not workers()


def test_unknown_backends_are_refused() -> None:
    with pytest.raises(OptionError, match="no joblib backend 'nosuch'"):
        JoblibEngine("nosuch")
    with pytest.raises(OptionError, match="at least 1"):
        JoblibEngine("threading", 0)


def is_helper(process: psutil.Process) -> bool:
    try:
        words = " ".join(process.cmdline())
    except psutil.Error:  # it is ending
        return False
    return "loky" in words and "tracker" not in words


@pytest.mark.slow
def test_loky_and_a_lost_worker(tmp_path: Path) -> None:
    killed: list[int] = []

    def listener(_cell: object, record: object) -> None:
        helpers = [child for child in psutil.Process().children(recursive=True) if is_helper(child)]
        if record is not None and not killed and helpers:
            killed.append(helpers[0].pid)
            os.kill(helpers[0].pid, signal.SIGKILL)

    cells = study(tmp_path, JoblibEngine("loky", 2), ["slow", "liar", "crasher"], 8, listener)
    assert killed
    found = {(c["solver"], c["outcome"]) for c in cells}
    assert found == {("slow", "done"), ("liar", "done"), ("crasher", "crash")}
    assert {c["verdict"] for c in cells if c["solver"] == "slow"} == {"infeasible", "undecided"}


@pytest.mark.slow
def test_on_dask_through_joblib(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        cells = study(tmp_path, JoblibEngine("dask", client=client), ["honest", "crasher"], 4)
    assert {(c["solver"], c["outcome"]) for c in cells} == {("honest", "done"), ("crasher", "crash")}


@pytest.mark.slow
def test_an_interrupt_ends_everything_at_once(tmp_path: Path) -> None:
    write_problems(tmp_path / "p", 1)
    backend = write_backend(tmp_path / "b", "sleeper")
    mark = new_mark()
    asked: list[str | Path] = ["compare", "--solvers", backend, "--problems", tmp_path / "p/*.npz"]
    process = start([*asked, "-o", tmp_path / "s.db", "--engine", "joblib", "--jobs", "2"], mark)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(
        worker_main.__file__ in child.cmdline() for child in marked(mark)
    ):
        time.sleep(0.1)
    time.sleep(2.0)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert time.monotonic() - begin < 15
    while (left := marked(mark)) and time.monotonic() < begin + 30:
        time.sleep(0.1)
    assert left == []


def _runs_cell(process: psutil.Process, runner: int) -> bool:
    """Whether a process is the worker of a cell, below a supervisor below a joblib worker."""
    with suppress(psutil.Error, AttributeError):
        return worker_main.__file__ in process.cmdline() and runner not in (
            process.parent().ppid(),  # type: ignore[union-attr]
            process.ppid(),
        )
    return False


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", pytest.param("multiprocessing", marks=pytest.mark.slow)])
def test_workers_of_joblib_end_with_a_killed_runner(tmp_path: Path, backend: str) -> None:
    write_problems(tmp_path / "p", 1)  # so that one of two workers waits for its first cell
    sleeper = write_backend(tmp_path / "b", "sleeper")
    mark = new_mark()
    asked: list[str | Path] = [
        "compare",
        "--solvers",
        sleeper,
        "--problems",
        tmp_path / "p/*.npz",
        "--jobs",
        "2",
    ]
    process = start(
        [*asked, "-o", tmp_path / "s.db", "--engine", "joblib", "--joblib-backend", backend], mark
    )
    deadline = time.monotonic() + 60
    while not any(_runs_cell(child, process.pid) for child in marked(mark)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(2.0)
    process.kill()
    process.communicate(timeout=60)  # until nobody holds its pipes
    deadline = time.monotonic() + 20
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
