"""Libraries that change the arithmetic of a thread: no verdict may hang on it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.numerics import floating_point_environment
from sdpfeas.study.cells import Settings
from sdpfeas.study.comparison import make_plan
from sdpfeas.study.engines import LocalEngine
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Store

SPOIL = """
import ctypes, sys, threading
from fractions import Fraction
import numpy as np
import sdpfeas as sf
from sdpfeas.certifier.audit import audit
from sdpfeas.io.result_files import SavedResult
from sdpfeas.numerics.floating_point_environment import not_ieee

def spoil():
    if sys.argv[1] == "round":
        ctypes.CDLL(None).fesetround(int(sys.argv[2]))
    else:
        ctypes.CDLL(sys.argv[2])

SMALL = 1.2e-310

def problem():
    rows = [np.array([[1.0], [1.0]])]
    return sf.FeasibilityProblem([sf.Nonneg(1)], rows, [SMALL, -np.inf], [np.inf, 0.0])
"""

QUESTIONS = {
    "solve": "spoil(); print(sf.solve(asked).verdict)",
    "rigorous": "spoil(); print(sf.solve(asked, rigorous=True).verdict)",
    "made after": "spoil(); print(sf.solve(problem(), rigorous=True).verdict)",
    "verify": "spoil(); print(sf.verify(asked, claim, rigorous=True).verdict)",
    "exact": "spoil(); print(sf.verify(asked, claim, exact=True).verdict)",
    "decide": "from sdpfeas.verifier import decide; spoil(); print(decide(asked, claim).verdict)",
    "chain": (
        "from sdpfeas.claims import Chain; spoil(); "
        "print(sf.verify(asked, sf.Claim(chain=Chain(())), exact=True).verdict)"
    ),
    "audit": (
        "answer = SavedResult(problem_hash=asked.content_hash, verdict='feasible', proof='exact', "
        "point=claim.point, certificate=None); spoil(); print(audit(asked, answer).finding)"
    ),
    "optimum": (
        "small = sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[1.0]])], [SMALL], [1.0]); "
        "truth = -Fraction(SMALL); spoil(); found = sf.optimum(small, [np.array([-1.0])], time_limit=5.0); "
        "print(found.lower <= truth <= found.upper)"
    ),
    "thread": (
        "spoil(); found = []; "
        "t = threading.Thread(target=lambda: found.append(sf.verify(asked, claim, rigorous=True).verdict)); "
        "t.start(); t.join(); print(found[0])"
    ),
    "in a thread": (
        "ask = lambda: (spoil(), print(sf.verify(asked, claim, rigorous=True).verdict)); "
        "t = threading.Thread(target=ask); "
        "t.start(); t.join()"
    ),
    "file": (
        "open('p.dat-s', 'w').write('2\\n1\\n-1\\n1.2e-310 0\\n1 1 1 1 1\\n2 1 1 1 1\\n'); spoil(); "
        "print(sf.solve(sf.read_sdpa('p.dat-s'), rigorous=True).verdict)"
    ),
    "again": "spoil(); print(bool(not_ieee())); spoil(); print(sf.verify(asked, claim, exact=True).verdict)",
}


@pytest.fixture(scope="module")
def fast_math(tmp_path_factory) -> str:
    compiler = shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a library that sets flush-to-zero is made by gcc on Linux")
    folder = tmp_path_factory.mktemp("fast_math")
    (folder / "fast.c").write_text("int nothing(void) { return 0; }\n")
    command = [compiler, "-O2", "-ffast-math", "-shared", "-fPIC", "fast.c", "-o", "fast.so"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"gcc makes no library here: {made.stderr[:200]}")
    return str(folder / "fast.so")


def _ask(question: str, *arguments: str, folder: Path | None = None) -> str:
    program = f"{SPOIL}\nasked = problem()\nclaim = sf.Claim(point=(np.zeros(1),))\n{question}\n"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_proof_under_flush_to_zero(name, fast_math, tmp_path: Path):
    said = _ask(QUESTIONS[name], "load", fast_math, folder=tmp_path)
    assert "FEASIBLE" not in said.upper().replace("INFEASIBLE", "")
    assert "CONFIRMED" not in said.upper().replace("NOT CONFIRMED", "")
    assert name != "optimum" or said == "True\n"
    assert name != "again" or said.startswith("False")  # it can be restored here


def test_the_library_does_what_the_tests_are_about(fast_math):
    shown = _ask("spoil(); print(sum([asked.lower[0].item() / 2, 0.0]) == 0.0)", "load", fast_math)
    assert shown.strip() == "True"


@pytest.mark.parametrize("mode", ["1024", "2048", "3072"])  # down, up, to zero on x86-64
def test_rounding_is_restored(mode):
    said = _ask("spoil(); x = [1.0, 2.0**-60]; print(not_ieee() == '', x[0] + x[1] == 1.0 == x[0] - x[1])",
                "round", mode)  # fmt: skip
    assert said.strip() == "True True"


def test_what_cannot_be_restored_is_refused_in_words(monkeypatch):
    problem = sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[1.0]])], [0.5], [1.0])
    claim = sf.Claim(point=(np.array([0.75]),))
    assert sf.verify(problem, claim, rigorous=True).verdict is sf.Verdict.FEASIBLE
    monkeypatch.setattr(floating_point_environment, "_is_ieee", lambda: False)
    check = sf.verify(problem, claim, rigorous=True)
    assert check.verdict is sf.Verdict.UNDECIDED
    assert "nothing can be proved in this thread" in check.reason
    with pytest.raises(sf.SdpfeasError, match="nothing can be proved"):
        sf.solve(problem)


@pytest.mark.parametrize(("row", "word"), [(0, "results"), (2, "operands"), (4, "nearest"), (-1, "added")])
def test_what_is_wrong_is_said(row, word, monkeypatch):
    spoilt = floating_point_environment._EXPECTED.copy()
    spoilt[row] = 3.0
    monkeypatch.setattr(floating_point_environment, "_EXPECTED", spoilt)
    assert word in floating_point_environment._wrong()


def test_threads_of_blas_are_told_apart(monkeypatch):
    assert floating_point_environment.blas_is_ieee()
    monkeypatch.setattr(
        floating_point_environment, "_EXPECTED", np.zeros_like(floating_point_environment._EXPECTED)
    )
    assert not floating_point_environment.blas_is_ieee()


def test_a_study_with_a_drop_in_that_loads_such_a_library(fast_math, tmp_path: Path):
    drop_in = tmp_path / "loads.py"
    drop_in.write_text(
        "import ctypes\nimport numpy as np\nfrom sdpfeas import Claim, FeasibilityBackend, Nonneg\n"
        f"ctypes.CDLL({fast_math!r})\n"
        "class Loads(FeasibilityBackend):\n"
        "    name = 'loads'\n    sets = frozenset({Nonneg})\n"
        "    def solve(self, problem, inquiry):\n        return Claim(point=(np.zeros(1),))\n"
    )
    rows = [np.array([[1.0], [1.0]])]
    sf.FeasibilityProblem([sf.Nonneg(1)], rows, [1.2e-310, -np.inf], [np.inf, 0.0]).save(tmp_path / "p.npz")
    plan = make_plan([str(drop_in)], [str(tmp_path / "p.npz")], 1, Settings(time_limit=5.0))
    with Store(tmp_path / "study.db") as store:
        engine = LocalEngine(1)
        Runner(store, plan, engine).run()
        engine.close()
        (cell,) = store.cells()
    assert (cell["outcome"], cell["verdict"]) == ("done", "undecided")
