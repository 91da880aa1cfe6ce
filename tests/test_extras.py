"""Packages that are imported when they are needed."""

from __future__ import annotations

import subprocess
import sys

THREADS = """
import sys, threading, time
import numpy as np
import sdpfeas as sf
from sdpfeas.backends.conic.cvxpy_model import installed_sdp_solvers

assert "cvxpy" not in sys.modules
problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
together, failures = threading.Barrier(6), []

def refused():
    try:
        sf.from_cvxpy(None)
    except sf.ProblemError:
        return
    raise AssertionError("None is no problem")

def solved():
    result = sf.solve(problem, "cvxpy")
    assert result.verdict == "feasible", result.reason

def run(k, ask):
    together.wait()
    time.sleep(0.05 * k)  # some come while cvxpy is half there
    try:
        ask()
    except BaseException as error:
        failures.append(repr(error))

asks = enumerate(2 * [refused, solved, installed_sdp_solvers])
threads = [threading.Thread(target=run, args=ask) for ask in asks]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("\\n".join(failures) or None)
"""


def test_threads_may_ask_for_cvxpy_at_once() -> None:
    found = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 0, found.stderr
