"""Packages that are imported when they are needed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from sdpfeas.extras import EXTRAS

ROOT = Path(__file__).resolve().parents[1]

THREADS = """
import sys, threading, time
import numpy as np
import sdpfeas as sf
from sdpfeas.backends.cvxpy import installed_sdp_solvers

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


#: Without any extra; what the command line says is tested in tests/cli/test_user_errors.py.
WITHOUT = """
import json, sys
for module in "sklearn matplotlib pyarrow dask distributed joblib cvxopt sdpap".split():
    sys.modules[module] = None  # as if it were not installed, for `import` and for `find_spec`
from pathlib import Path
import numpy as np
import sdpfeas as sf

builder = sf.ProblemBuilder()
builder.block("X", sf.PSD(2))
builder.row("trace", {"X": np.eye(2)}, equal=1.0)
builder.row("corner", {"X": [[0, 0.5], [0.5, 0]]}, lower=0.75)
problem = builder.build()
check = sf.verify(problem, sf.solve(problem), exact=True)
assert (check.verdict, check.proof) == ("infeasible", "exact"), check

def projections():
    from sdpfeas.estimators import FairPCA

def solver(name):
    return lambda: sf.solve(problem, Path(sys.argv[1]) / "solvers" / name)

said = []
for ask in (projections, solver("cvxopt.py"), solver("sdpa.py")):
    try:
        ask()
    except sf.SdpfeasError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def test_without_extras_proofs_are_exact_and_what_is_missing_is_named() -> None:
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT, ROOT], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 0, found.stderr
    named = [re.findall(r"pip install 'sdpfeas\[(\w+)\]'", words) for words in json.loads(found.stdout)]
    assert named == [["wlda"], ["solvers"], ["solvers"]]


def test_every_extra_has_words_for_its_absence() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(EXTRAS) == set(declared["optional-dependencies"]) - {"all", "test", "docs", "dev"}
