"""Trials: answers come back, limits hold, and nothing outlives its runner."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sdpfeas.trials import workers
from sdpfeas.trials.trial import End, Interrupted, Limits, Trial
from sdpfeas.trials.workers import LOG_HEAD, LOG_TAIL, Log, WorkerPool, close_shared_workers, run_shared

TESTS = Path(__file__).parents[1]


def trial(name: str, payload: Any = None, **limits: Any) -> Trial:
    return Trial(f"trial_targets:{name}", pickle.dumps(payload), Limits(**{"time": 10.0, **limits}))


@pytest.fixture(scope="module")
def slot() -> Iterator[WorkerPool]:
    made = WorkerPool()
    yield made
    made.close()


def alive(pids: list[int]) -> list[int]:
    """Those that are still there."""
    found = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.Error:
            continue
    return found


def eventually(good: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not good() and time.monotonic() < deadline:
        time.sleep(0.05)
    return good()


# ---------------------------------------------------------------- answers


def test_an_answer_comes_back(slot: WorkerPool) -> None:
    big = os.urandom(3_000_000)  # more than fits into a pipe
    run = slot.run(trial("echo", big))
    assert (run.end, run.facts, run.detail) == (End.DONE, {"unit": 0.5}, "")
    assert run.value == big
    assert slot.run(trial("threads")).value == "11"


def test_processor_time_of_programs_counts(slot: WorkerPool) -> None:
    """A solver may be a program of its own; what it computes is not free."""
    run = slot.run(trial("let_work", 4_000_000))
    assert run.cpu_time is not None
    assert run.cpu_time > 0.03


def test_a_worker_serves_trials_of_a_kind(slot: WorkerPool) -> None:
    first = slot.run(trial("whoami")).value
    assert slot.run(trial("whoami")).value == first
    assert slot.run(trial("whoami", threads=2)).value != first


def test_what_is_printed_before_the_clock_starts_is_not_in_the_log(slot: WorkerPool) -> None:
    assert slot.run(trial("talk", ["one", "two"])).log == "the end\n"
    assert slot.run(trial("talk", [])).log == "the end\n"


# ---------------------------------------------------------------- limits


def test_time_and_memory_are_enforced(slot: WorkerPool) -> None:
    run = slot.run(trial("sleep", 60, time=0.3))
    assert (run.end, run.facts, run.detail) == (End.TIMEOUT, {"unit": 0.5}, "killed after 0.3 s")
    assert 0.3 <= run.wall_time < 5.0
    run = slot.run(trial("hoard", 400_000_000, time=30.0, memory=200_000_000))
    assert run.end is End.MEMORY
    assert run.peak_memory > 200_000_000
    assert run.wall_time < 20.0
    run = slot.run(trial("sleep_first", 60, setup=0.5))
    assert (run.end, run.facts) == (End.ERROR, None)
    assert "more than 0.5 s to set up" in run.detail
    assert slot.run(trial("echo", 1)).value == 1


def test_asking_for_too_much_is_out_of_memory(slot: WorkerPool) -> None:
    assert slot.run(trial("refuse", 2**33, memory=2**30)).end is End.MEMORY
    assert slot.run(trial("refuse", 2**20, memory=2**30)).end is End.CRASH


def test_a_crash_says_why(slot: WorkerPool) -> None:
    run = slot.run(trial("die", 3))
    assert (run.end, run.detail) == (End.CRASH, "the process ended with exit code 3")
    for how in (signal.SIGSEGV, signal.SIGKILL):
        run = slot.run(trial("die", -how))
        assert (run.end, run.detail) == (End.CRASH, f"the process died of {how.name}")


def test_an_exception_costs_one_trial(slot: WorkerPool) -> None:
    before = slot.run(trial("fail", "no such luck"))
    assert (before.end, before.detail) == (End.ERROR, "ValueError: no such luck")
    assert "lambda" in slot.run(trial("odd")).detail
    run = slot.run(trial("nosuch"))
    assert (run.end, run.facts) == (End.ERROR, None)
    assert "nosuch" in run.detail
    assert slot.run(trial("echo", 1)).value == 1


def test_a_stop_is_heard(slot: WorkerPool) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Interrupted):
        slot.run(trial("sleep", 60, time=60), stop)


# ---------------------------------------------------------------- nobody escapes


@pytest.mark.parametrize(("then", "end"), [("sleep", End.TIMEOUT), ("die", End.CRASH), ("end", End.DONE)])
def test_no_descendant_outlives_its_worker(tmp_path: Path, then: str, end: End) -> None:
    path = tmp_path / "pids"
    slot = WorkerPool()
    run = slot.run(trial("orphans", (str(path), 3, 0, then), time=3.0))
    assert run.end is end
    pids = [int(word) for word in path.read_text().split()]
    assert len(pids) == 3
    slot.close()
    assert alive(pids) == []


def test_memory_of_orphans_counts(tmp_path: Path) -> None:
    slot = WorkerPool()
    run = slot.run(
        trial("orphans", (str(tmp_path / "pids"), 2, 150_000_000, "sleep"), time=30.0, memory=250_000_000)
    )
    slot.close()
    assert run.end is End.MEMORY
    assert run.wall_time < 20.0


RUNNER = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
from sdpfeas.trials.workers import WorkerPool
from sdpfeas.trials.trial import Limits, Trial
payload = pickle.dumps((sys.argv[2], 2, 0, "sleep"))
WorkerPool().run(Trial("trial_targets:orphans", payload, Limits(time=60)))
"""


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_no_descendant_outlives_its_runner(tmp_path: Path, how: signal.Signals) -> None:
    path = tmp_path / "pids"
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, TESTS, path], stderr=subprocess.DEVNULL)
    assert eventually(lambda: path.exists() and len(path.read_text().split()) == 2, 60)
    everybody = [child.pid for child in psutil.Process(runner.pid).children(recursive=True)]
    everybody += [int(word) for word in path.read_text().split()]
    assert len(set(everybody)) >= 4  # supervisor, worker, and two orphans
    runner.send_signal(how)
    runner.wait()
    assert eventually(lambda: not alive(everybody))


def test_a_killed_supervisor_takes_the_worker_along(slot: WorkerPool) -> None:
    worker = slot.run(trial("whoami")).value
    (supervisor,) = (
        child for child in psutil.Process().children() if worker in [c.pid for c in child.children()]
    )
    supervisor.kill()
    assert eventually(lambda: not alive([worker]))
    assert slot.run(trial("echo", 1)).value == 1


# ---------------------------------------------------------------- where modules come from


def test_the_current_folder_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numpy", "json", "only_here_xyz"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name}')\n")
    monkeypatch.chdir(tmp_path)
    slot = WorkerPool()
    run = slot.run(trial("modules", ["json", "numpy", "sdpfeas"]))
    assert run.end is End.DONE, run.detail
    assert not [path for path in run.value if path.startswith(str(tmp_path))]
    assert not (tmp_path / "ran").exists()
    assert "only_here_xyz" in slot.run(trial("modules", ["only_here_xyz"])).detail
    slot.close()
    # As in a session that imports from there: found, but nothing else is.
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    run = slot.run(trial("modules", ["numpy", "only_here_xyz"]))
    assert [path.startswith(str(tmp_path)) for path in run.value] == [False, True]
    slot.close()


# ---------------------------------------------------------------- shared workers


def test_the_library_can_be_imported_where_processes_cannot_be_copied() -> None:
    code = "import os; del os.register_at_fork, os.fork; import sdpfeas.drivers.solve"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_shared_workers_end_soon_after_the_last_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_SECONDS", 0.5)
    first = run_shared(trial("whoami")).value
    assert run_shared(trial("whoami")).value == first
    assert eventually(lambda: not alive([first]))
    second = run_shared(trial("whoami")).value
    assert second != first
    close_shared_workers()
    assert not alive([second])


def test_a_copy_of_this_process_has_workers_of_its_own() -> None:
    first = run_shared(trial("whoami")).value
    ours, theirs = os.pipe()
    copy = os.fork()
    if copy == 0:
        os.write(theirs, str(run_shared(trial("whoami")).value).encode())
        os._exit(0)
    os.waitpid(copy, 0)
    other = int(os.read(ours, 100))
    assert other != first
    assert run_shared(trial("whoami")).value == first
    assert eventually(lambda: not alive([other]))
    close_shared_workers()


# ---------------------------------------------------------------- logs


def test_log_keeps_both_ends() -> None:
    log = Log()
    log.feed(b"begin\n")
    for _ in range(100):
        log.feed(b"y" * 10_000)
    log.feed(b"\nend")
    text = log.text()
    assert text.startswith("begin")
    assert text.endswith("end")
    assert len(text) < LOG_HEAD + LOG_TAIL + 100


@pytest.mark.parametrize(
    "pieces",
    [
        [b"warm-up <ma", b"rk>own"],
        [b"<mark>own"],
        [b"w" * 99_999, b"<mark>", b"own"],
        [b"a<mark>b<ma", b"rk><mark>ow", b"n"],
    ],
)
def test_log_begins_at_the_mark(pieces: list[bytes]) -> None:
    log = Log(b"<mark>")
    for piece in pieces:
        log.feed(piece)
    assert log.text() == "own"


def test_log_without_its_mark_is_kept() -> None:
    log = Log(b"<mark>")
    log.feed(b"died while <ma")
    assert log.text() == "died while <ma"
