"""Drop-ins that attack the study they are in: none of their code runs where verdicts are granted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from study_tools import trace_problem

import sdpfeas as sf
from sdpfeas.backends.registry import find_solver
from sdpfeas.cards.finder import ForeignCode, own_code_only
from sdpfeas.study import cell_verification
from sdpfeas.study.cells import Settings
from sdpfeas.study.comparison import make_plan
from sdpfeas.study.engines import LocalEngine
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Store

#: Replaces whatever grants verdicts, wherever it is imported.
ATTACK = """
import sys
import numpy as np
import sdpfeas.study.cell_verification, sdpfeas.verifier, sdpfeas.verifier.verifier, sdpfeas.study.comparison
from sdpfeas import Claim, FeasibilityBackend, FeasibilityProblem, PSD
from sdpfeas.families import Family, ParametricFamily
from sdpfeas.verifier.results import Check, Proof, Verdict

sys.sdpfeas_was_attacked = True

def lie(problem, claim, **options):
    point = tuple(np.zeros(block.shape) for block in problem.sets)
    return Check(problem, Verdict.FEASIBLE, Proof.EXACT, 1.0, "so there", point=point)

def attack():
    for module in (sdpfeas.study.cell_verification, sdpfeas.verifier, sdpfeas.verifier.verifier):
        module.decide = module.verify = lie
"""

BACKEND = """
class Bad(FeasibilityBackend):
    name = "bad"
    sets = frozenset({PSD})
    def solve(self, problem, inquiry):
        SOLVE
        return Claim(point=tuple(np.zeros(block.shape) for block in problem.sets), raw_status="solved")
"""

#: A reply that runs code wherever it is unpickled, sent instead of any answer.
PICKLE = """
        import builtins, os, pickle
        class Runs:
            def __reduce__(self):
                return builtins.exec, ("import sys; sys.sdpfeas_was_attacked = True",)
        data = pickle.dumps(("done", Runs(), 0.1, 0.1, 1))
        for fd in range(3, 64):
            try:
                os.write(fd, len(data).to_bytes(8, "little") + data)
            except OSError:
                pass
"""

BACKENDS = {
    "at import": ATTACK + "attack()\n" + BACKEND.replace("SOLVE", "pass"),
    "in solve": ATTACK + BACKEND.replace("SOLVE", "attack()"),
    "through the pipe": ATTACK + BACKEND.replace("SOLVE", PICKLE.strip()),
    "in what it returns": ATTACK + BACKEND.replace("SOLVE", "return Claim(info={'x': attack})"),
}

FAMILY = """
attack()
class BadFamily(Family):
    name = "bad-family"
    @classmethod
    def build(cls, options):
        return FeasibilityProblem([PSD(2)], [np.eye(2)[None]], [-2.0], [-1.0])
"""


def _cells(folder: Path, solvers: list[str], problems: list[str]) -> list[dict[str, Any]]:
    plan = make_plan(solvers, problems, 1, Settings(time_limit=5.0))
    engine = LocalEngine(1)
    with Store(folder / "study.db") as store:
        Runner(store, plan, engine, keep_evidence=True).run()
        engine.close()
        return store.cells()


@pytest.fixture(autouse=True)
def unharmed():
    before = cell_verification.decide, sf.verify
    modules = set(sys.modules)
    yield
    assert (cell_verification.decide, sf.verify) == before
    assert not hasattr(sys, "sdpfeas_was_attacked")
    assert not [name for name in set(sys.modules) - modules if name.startswith("_sdpfeas_dropin_")]


@pytest.mark.parametrize("way", BACKENDS)
def test_a_drop_in_backend_grants_itself_nothing(way: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BACKENDS[way])
    (tmp_path / "card.toml").write_text('backend = "bad.py"\n')
    trace_problem(3, feasible=False).save(tmp_path / "no.npz")
    solver = "bad.py" if way == "in solve" else "card.toml"
    cells = _cells(tmp_path, [str(tmp_path / solver), "clarabel"], [str(tmp_path / "no.npz")])
    found = {cell["solver"]: cell["verdict"] for cell in cells}
    assert found == {"bad" if way == "in solve" else "card": "undecided", "clarabel": "infeasible"}


def test_a_drop_in_family_makes_problems_and_no_verdicts(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(ATTACK + FAMILY)
    (tmp_path / "card.toml").write_text('family = "bad.py"\n')
    cells = _cells(tmp_path, ["clarabel"], [str(tmp_path / "bad.py"), str(tmp_path / "card.toml")])
    assert [(cell["problem"], cell["verdict"]) for cell in cells] == [
        ("bad-family", "infeasible"),
        ("card", "infeasible"),
    ]


def test_a_parametric_drop_in_family_is_bracketed_in_workers(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "problems" / "correlation.py"
    (tmp_path / "mine.py").write_text(shipped.read_text(encoding="utf-8") + ATTACK + "attack()\n")
    (cell,) = _cells(tmp_path, ["clarabel"], [str(tmp_path / "mine.py")])
    assert (cell["outcome"], cell["verdict"], cell["proof"]) == ("done", "bracket", "rigorous")
    assert cell["lower"] <= cell["upper"] <= 1.001 * cell["lower"]


def test_foreign_code_is_refused_where_only_ours_may_run(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BACKENDS["at import"])
    with own_code_only():
        assert find_solver("clarabel").name == "clarabel"
        with pytest.raises(ForeignCode):
            find_solver(str(tmp_path / "bad.py"))


@pytest.mark.parametrize("way", BACKENDS)
def test_an_isolated_drop_in_grants_itself_nothing(way: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BACKENDS[way])
    found = sf.solve(trace_problem(3, feasible=False), tmp_path / "bad.py", isolate=True, time_limit=20)
    assert (found.verdict, found.backend) == (sf.Verdict.UNDECIDED, "bad")


def test_an_isolated_drop_in_is_refused_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0\n")
    with pytest.raises(sf.BackendError, match="ZeroDivisionError"):
        sf.solve(trace_problem(3, feasible=True), tmp_path / "bad.py", isolate=True)
