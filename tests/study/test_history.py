"""Versions of solvers in a study, differences between them, and studies merged into one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sdpfeas.cli.app import app
from sdpfeas.errors import FileFormatError, OptionError
from sdpfeas.study.history import Change, compare_cells, version_table
from sdpfeas.study.store import Store

BACKEND = '''
import time
from sdpfeas import PSD, Claim, FeasibilityBackend

class Mine(FeasibilityBackend):
    """Return the identity after some time."""

    name = "mine"
    sets = frozenset({PSD})

    def solve(self, problem, inquiry):
        end = time.process_time() + SECONDS
        while time.process_time() < end:
            pass
        return Claim(point=tuple(block.identity() for block in problem.sets), raw_status="guessed")
'''

FAMILY = '''
from dataclasses import dataclass
import numpy as np
from sdpfeas import PSD, FeasibilityProblem
from sdpfeas.dropin import Family

@dataclass(frozen=True)
class BoxOptions:
    n: int = 2
    seed: int = 0

class Box(Family):
    """Matrices of bounded trace."""

    name = "box"
    Options = BoxOptions

    @classmethod
    def build(cls, options):
        trace = 100.0 + options.seed
        return FeasibilityProblem([PSD(options.n)], [np.eye(options.n)[None]], [1.0], [trace])
'''


def call(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("box.py").write_text(FAMILY)
    Path("mine.py").write_text(BACKEND.replace("SECONDS", "0.02"))
    Path("s.toml").write_text(
        'solvers = ["mine.py"]\nseeds = 3\ntime_limit = 20\n'
        '[[problem]]\nfamily = "box.py"\nsweep = { n = [2, 3] }\n'
    )
    return tmp_path


def test_a_planted_regression_is_shown_and_old_results_stay(folder: Path) -> None:
    assert call("compare", "s.toml", "--json").exit_code == 0
    assert isinstance(call("diff", "s.toml").exception, FileFormatError)  # only one version
    shutil.copy("s.db", "old.db")
    Path("mine.py").write_text(BACKEND.replace("SECONDS", "0.1"))
    assert call("compare", "s.toml", "--json").exit_code == 0
    found = call("diff", "s.toml", "--json")
    assert found.exit_code == 1, found.output
    differences = json.loads(found.stdout)["differences"]
    assert [d["change"] for d in differences] == ["slower", "slower"]
    assert all(3.0 < d["ratio"] < 8.0 for d in differences)
    assert call("diff", "old.db", "s.db").exit_code == 1
    assert isinstance(call("diff", "s.db", "old.db", "--new", "nosuch").exception, OptionError)
    with Store("s.db", readonly=True) as store:
        history, cells = store.history(), store.cells(texts=False)
        rows = version_table(history)
    assert (len(history), len(cells)) == (12, 6)
    assert len({cell["solver_hash"] for cell in cells}) == 1
    assert [row["newest"] for row in rows] == [False, True]
    back = call("diff", "s.db", "--old", rows[1]["solver_hash"][:10], "--new", rows[0]["solver_hash"][:10])
    assert back.exit_code == 0
    assert "faster" in back.output
    shown = call("report", "s.toml", "--history", "--format", "md", "-o", "-").output
    assert rows[0]["solver_hash"][:8] in shown
    assert call("report", "s.toml", "--history", "-o", "r.html").exit_code == 0
    assert rows[0]["solver_hash"][:8] in Path("r.html").read_text(encoding="utf-8")
    assert call("export", "s.db", "--history", "-o", "h.json").exit_code == 0
    table = json.loads(Path("h.json").read_text())
    assert len(table) == 12
    assert all(row["host"] and row["solver_hash"] and row["finished"] for row in table)


def test_merging_overlapping_studies_loses_nothing_and_doubles_nothing(folder: Path) -> None:
    assert call("compare", "s.toml", "--seeds", 2, "-o", "a.db", "--keep-evidence", "--json").exit_code == 0
    assert call("compare", "s.toml", "--seeds", 3, "-o", "b.db", "--json").exit_code == 0
    assert call("compare", "s.toml", "--solvers", "clarabel", "-o", "c.db", "--json").exit_code == 0
    assert call("merge", "a.db", "b.db", "c.db", "-o", "all.db").exit_code == 0
    assert call("merge", "c.db", "all.db", "-o", "again.db").exit_code == 0
    assert isinstance(call("merge", "a.db", "all.db", "-o", "all.db").exception, OptionError)
    stores = {name: Store(f"{name}.db", readonly=True) for name in ("a", "b", "c", "all", "again")}
    keys = {name: {cell["key"] for cell in store.cells(texts=False)} for name, store in stores.items()}
    assert keys["all"] == keys["a"] | keys["b"] | keys["c"] == keys["again"]
    assert len(keys["all"]) == len(stores["all"].cells(texts=False)) == 12
    first = {cell["key"]: cell["solve_time"] for cell in stores["a"].cells(texts=False)}
    merged = {cell["key"]: cell for cell in stores["all"].cells(texts=False)}
    assert all(merged[key]["solve_time"] == seconds for key, seconds in first.items())
    assert all(merged[key]["kept"] for key in first)
    assert len(stores["all"].runs()) == 3
    assert all(cell["state"] == "done" and cell["host"] for cell in merged.values())
    done = call("compare", "s.toml", "-o", "all.db", "--json")
    assert json.loads(done.stdout)["computed"] == 0
    assert call("report", "a.db", "c.db", "--format", "md", "-o", "-").exit_code == 0


def test_an_unfinished_cell_never_replaces_a_finished_one(folder: Path) -> None:
    assert call("compare", "s.toml", "--json").exit_code == 0
    shutil.copy("s.db", "open.db")
    with Store("open.db") as store:
        store._db.execute("UPDATE cells SET state = 'running', finished = NULL, outcome = NULL")
    for order in (("s.db", "open.db"), ("open.db", "s.db")):
        with Store(f"{order[0]}-m.db") as merged:
            for name in order:
                with Store(name, readonly=True) as other:
                    merged.absorb(other)
            assert all(cell["state"] == "done" for cell in merged.cells())


def _cells(seconds: list[float], verdict: str = "feasible", outcome: str = "done") -> list[dict[str, Any]]:
    return [
        {
            "solver": "s", "problem": "p", "problem_hash": "h", "seed": k, "outcome": outcome,
            "verdict": verdict, "cpu_time": t, "solve_time": t, "lower": None, "upper": None,
        }
        for k, t in enumerate(seconds)
    ]  # fmt: skip


def test_noise_is_no_change_and_changes_are_no_noise() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        base = rng.uniform(0.5, 1.5, 20)
        noise = [float(t) for t in base * np.exp(rng.normal(0.0, 0.2, 20))]
        (difference,), (trend,) = compare_cells(_cells(base.tolist()), _cells(noise))
        assert difference.change is Change.same or trend.p_value < 0.05
        slow = [1.5 * t for t in noise]
        (difference,), (trend,) = compare_cells(_cells(base.tolist()), _cells(slow))
        assert difference.change is trend.change is Change.slower
    assert compare_cells(_cells([1e-4]), _cells([9e-4]))[0][0].change is Change.same
    with pytest.raises(OptionError):
        compare_cells([], [], threshold=0.9)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (("feasible", "done"), ("infeasible", "done"), Change.contradiction),
        (("feasible", "done"), ("undecided", "done"), Change.lost),
        (("feasible", "done"), ("undecided", "crash"), Change.lost),
        (("undecided", "timeout"), ("infeasible", "done"), Change.gained),
        (("undecided", "timeout"), ("undecided", "crash"), Change.same),
    ],
)
def test_verdicts_are_compared(old: tuple[str, str], new: tuple[str, str], change: Change) -> None:
    found = compare_cells(_cells([1.0], *old), _cells([1.0], *new))[0][0]
    assert found.change is change
