"""A study on a Dask cluster, with a worker killed in the middle."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from study_tools import start, write_backend, write_problems

from sdpfeas.errors import FileFormatError, OptionError
from sdpfeas.study.cells import Settings
from sdpfeas.study.comparison import make_plan
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Store

distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")

SLOW = """
        time.sleep(0.3)
        n = problem.sets[0].n
        if problem.upper[0] < 0:
            return Claim(certificate=np.array([-1.0]), raw_status="infeasible")
        level = (problem.lower[0] + problem.upper[0]) / 2 / n
        return Claim(point=(np.eye(n) * level,), raw_status="optimal")"""


@pytest.mark.slow
def test_a_lost_worker_costs_nothing(tmp_path: Path) -> None:
    from sdpfeas.study.engines import DaskEngine

    pattern = write_problems(tmp_path / "p", 16)
    backend = write_backend(tmp_path / "b", "slow", SLOW)
    crasher = write_backend(tmp_path / "b", "crasher")
    plan = make_plan([str(backend), str(crasher)], [str(pattern)], 1, Settings(time_limit=20))
    done: list[str] = []
    killed = threading.Event()
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        engine = DaskEngine(cluster.scheduler_address)
        assert engine.jobs == 2
        with distributed.Client(cluster) as client:
            victim = next(iter(client.run(os.getpid).values()))

        def listener(_cell: object, record: object) -> None:
            if record is not None:
                done.append("one")
                if len(done) == 3 and not killed.is_set():
                    killed.set()
                    os.kill(victim, signal.SIGKILL)

        with Store(tmp_path / "study.db") as store:
            assert Runner(store, plan, engine, listener=listener).run() == 32
            cells = store.cells()
        engine.close()
    assert killed.is_set()
    assert {c["state"] for c in cells} == {"done"}
    outcomes = {(c["solver"], c["outcome"], c["verdict"]) for c in cells}
    assert outcomes == {
        ("slow", "done", "feasible"),
        ("slow", "done", "infeasible"),
        ("crasher", "crash", "undecided"),
    }


CLUSTER = """
import sys, time
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None)
    print(cluster.scheduler_address, flush=True)
    time.sleep(120)
"""


@pytest.mark.slow
def test_a_lost_scheduler_is_no_success(tmp_path: Path) -> None:
    write_problems(tmp_path / "p", 26)
    backend = write_backend(tmp_path / "b", "slow", SLOW)
    (tmp_path / "cluster.py").write_text(CLUSTER)
    cluster = subprocess.Popen(
        [sys.executable, tmp_path / "cluster.py"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        study: list[str | Path] = ["compare", "--solvers", backend, "--problems", tmp_path / "p/*.npz"]
        process = start([*study, "--engine", "dask", "--scheduler", address, "-o", tmp_path / "s.db"])
        finished, deadline = 0, time.monotonic() + 90
        while not finished and time.monotonic() < deadline:
            time.sleep(0.2)
            with suppress(FileFormatError), Store(tmp_path / "s.db", readonly=True) as store:
                finished = len(store.finished())
    finally:
        os.killpg(cluster.pid, signal.SIGKILL)
        cluster.communicate()
    _, err = process.communicate(timeout=120)
    assert finished
    assert process.returncode == 2, err
    assert "the Dask scheduler" in err
    assert re.search(r"is gone; \d+ of 26 cells are still open", " ".join(err.split()))


def test_no_scheduler_is_a_clear_error() -> None:
    from sdpfeas.study.engines import DaskEngine

    with pytest.raises(OptionError, match="no Dask scheduler"):
        DaskEngine("tcp://127.0.0.1:1", timeout=1)
