"""Study files: every flag of compare is a key, sweeps expand, and mistakes are reported by file and line."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sdpfeas.cli.app import app
from sdpfeas.cli.studies import compare
from sdpfeas.errors import CardError
from sdpfeas.study.store import Store
from sdpfeas.study.study_file import StudyOptions, read_study

BACKEND = '''
from sdpfeas import PSD, Claim, FeasibilityBackend
from dataclasses import dataclass

@dataclass(frozen=True)
class MineOptions:
    power: int = 1

class Mine(FeasibilityBackend):
    """Return the identity."""

    name = "mine"
    sets = frozenset({PSD})
    Options = MineOptions

    def solve(self, problem, inquiry):
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

class Box(Family):
    """Matrices of bounded trace."""

    name = "box"
    Options = BoxOptions

    @classmethod
    def build(cls, options):
        return FeasibilityProblem([PSD(options.n)], [np.eye(options.n)[None]], [1.0], [100.0])
'''


def _write(folder: Path, text: str) -> Path:
    path = folder / "s.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_flag_of_compare_is_a_key_and_the_other_way_round() -> None:
    renamed = {"output": "out", "report_to": "report"}
    flags = {renamed.get(name, name) for name in inspect.signature(compare).parameters}
    keys = {item.name for item in dataclasses.fields(StudyOptions)} | {"solvers", "problems"}
    assert flags - {"study", "as_json"} == keys


def test_drop_ins_and_sweeps_of_both_kinds_run_from_another_folder(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "mine.py").write_text(BACKEND)
    (folder / "box.py").write_text(FAMILY)
    study = _write(
        folder,
        """
        solvers = ["clarabel"]
        time_limit = 20
        [[solver]]
        backend = "./mine.py"
        sweep = { power = [1, 2] }
        [[problem]]
        family = "./box.py"
        [problem.sweep]
        n = [2, 3]
        """,
    )
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["compare", "inner/s.toml", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cells"] == 6
    with Store(study.with_suffix(".db"), readonly=True) as store:
        cells = store.cells(texts=False)
        cards = {row["name"]: row["card"] for row in store.solvers()}
    assert {cell["solver"] for cell in cells} == {"clarabel", "mine[power=1]", "mine[power=2]"}
    assert {cell["problem"] for cell in cells} == {"box[n=2]", "box[n=3]"}
    assert {cell["verdict"] for cell in cells} == {"feasible"}
    assert cards["mine[power=1]"].startswith("        [[solver]]")
    assert "[[problem]]" not in cards["mine[power=1]"]


def test_flags_override_keys_and_report_takes_the_study_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = _write(
        tmp_path,
        'solvers = ["clarabel", "scs"]\nseeds = 3\nout = "kept.db"\n[[problem]]\nfamily = "planted"\n',
    )
    done = CliRunner().invoke(app, ["compare", str(study), "--seeds", "1", "--solvers", "clarabel", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cells"] == 1
    done = CliRunner().invoke(app, ["report", str(study), "--format", "md", "-o", "-"])
    assert done.exit_code == 0, done.output
    assert "clarabel" in done.output
    assert (tmp_path / "kept.db").exists()


MISTAKES = {
    "seed = 3\n": ("s.toml:1:", "'seed'", "seeds"),
    "\n\ntime_limt = 3\n": ("s.toml:3:", "'time_limt'", "time_limit"),
    "time_limit = -1\n": ("s.toml:1:", "time limit"),
    "jobs = true\n": ("s.toml:1:", "jobs"),
    'solvers = "clarabel"\n': ("s.toml:1:", "list of strings"),
    "solver = 3\n": ("s.toml:1:", "[[solver]]"),
    'engine = "dask"\n': ("s.toml:1:", "scheduler"),
    '[[solver]]\nbackend = "scs"\nsweep = { eps = 3 }\n': ("s.toml", "sweep.eps"),
    '[[solver]]\nbackend = "scs"\noptions = { eps = 1e-3 }\nsweep = { eps = [1e-3] }\n': ("s.toml", "'eps'"),
    "not toml": ("s.toml:1:",),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_refused_with_file_line_and_nearest_name(text: str, tmp_path: Path) -> None:
    with pytest.raises(CardError) as caught:
        read_study(_write(tmp_path, text))
    for word in MISTAKES[text]:
        assert word in str(caught.value)


def test_mistakes_in_tables_are_reported_at_their_own_lines_and_all_at_once(tmp_path: Path) -> None:
    study = _write(
        tmp_path,
        '[[solver]]\nbackend = "clarabel"\n\n[[solver]]\nname = "b"\nbackend = "clarabel"\n'
        'options = { tolerence = 1 }\n\n[[problem]]\nfamily = "planted"\n[problem.sweep]\nm = [1]\n',
    )
    with pytest.raises(CardError) as caught:
        read_study(study).plan()
    assert "s.toml:7: " in str(caught.value)
    assert "'tolerance'" in str(caught.value)
    assert "s.toml:12: " in str(caught.value)


def test_the_file_that_new_writes_runs_unchanged_and_names_every_key(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["new", "study", "first"]).exit_code == 0
    study = read_study(Path("first.toml"))
    plan = study.plan()
    assert len(plan.cells) == 2 * 4 * (len({cell.problem.label for cell in plan.cells}))
    text = Path("first.toml").read_text(encoding="utf-8")
    keys = {item.name for item in dataclasses.fields(StudyOptions)} - {"retry"}
    assert all(key in text for key in keys)
