"""A study on a Dask cluster, with a worker killed in the middle."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from study_tools import write_backend, write_problems

from sdpfeas.errors import OptionError
from sdpfeas.study.plan import make_plan
from sdpfeas.study.runner import Runner
from sdpfeas.study.settings import Settings
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


def test_no_scheduler_is_a_clear_error() -> None:
    from sdpfeas.study.engines import DaskEngine

    with pytest.raises(OptionError, match="no Dask scheduler"):
        DaskEngine("tcp://127.0.0.1:1", timeout=1)
