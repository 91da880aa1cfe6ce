"""What ships comes first, and code from a folder is run only when its path is given."""

from __future__ import annotations

import shutil
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import sdpfeas as sf
from sdpfeas.cards.finder import PROBLEMS as PROBLEM_FINDER
from sdpfeas.cards.finder import SOLVERS as SOLVER_FINDER
from sdpfeas.cards.finder import shipped_cards
from sdpfeas.errors import BackendError, CardError
from sdpfeas.families.parametric_family import find_family
from sdpfeas.families.problem_cards import find_problem

#: Leaves a mark when it is run.
EVIL = "from pathlib import Path\nPath('ran').touch()\nraise SystemExit('evil')\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    for name in ("solvers", "problems"):
        (tmp_path / name).mkdir()
    return tmp_path


def plant(name: str) -> None:
    """Put hostile files of a name wherever one could look."""
    for folder in (Path(), Path("solvers"), Path("problems")):
        (folder / f"{name}.py").write_text(EVIL)
        (folder / f"{name}.toml").write_text('backend = "evil.py"\nfamily = "evil.py"\n')
    for path in ("evil.py", "solvers/evil.py", "problems/evil.py"):
        Path(path).write_text(EVIL)


SHIPPED = {p.stem for p in shipped_cards("solvers").iterdir() if p.suffix in (".toml", ".py")}
SOLVERS = sorted({*SOLVER_FINDER.built_in, *SHIPPED})
PROBLEMS = sorted({*PROBLEM_FINDER.built_in, "correlation", "lyapunov", "theta-cycle", "planted-mixed"})


@pytest.mark.parametrize("name", SOLVERS)
def test_shipped_solvers_come_first(name: str) -> None:
    before = sf.find_solver(name)
    plant(name)
    after = sf.find_solver(name)
    assert (after.name, after.source, after.text) == (before.name, before.source, before.text)
    assert not Path("ran").exists()


@pytest.mark.parametrize("name", PROBLEMS)
def test_shipped_problems_come_first(name: str) -> None:
    before = find_problem(name)
    plant(name)
    assert find_problem(name) == before
    if name in PROBLEM_FINDER.built_in:
        assert find_family(name) is before.family
    assert not Path("ran").exists()


def test_code_is_not_run_for_its_name() -> None:
    plant("mine")
    for path in Path().rglob("mine.toml"):
        path.unlink()
    with pytest.raises(BackendError, match=r"use \./solvers/mine\.py"):
        sf.find_solver("mine")
    with pytest.raises(CardError, match=r"use \./problems/mine\.py"):
        find_problem("mine")
    with pytest.raises(CardError, match=r"use \./problems/mine\.py"):
        find_family("mine")
    assert not Path("ran").exists()


@pytest.mark.parametrize("named", ["evil", "evil.py", "./evil.py", "solvers/evil.py", "../evil.py"])
def test_a_card_found_by_name_runs_no_code(named: str) -> None:
    plant("mine")
    Path("solvers/mine.toml").write_text(f'backend = "{named}"\n')
    Path("problems/mine.toml").write_text(f'family = "{named}"\n')
    with pytest.raises((CardError, BackendError), match=r"given by its path: use \./solvers/mine\.toml"):
        sf.find_solver("mine")
    with pytest.raises(CardError, match=r"given by its path: use \./problems/mine\.toml"):
        find_problem("mine")
    assert not Path("ran").exists()


def test_a_card_named_by_its_path_may() -> None:
    shutil.copy(shipped_cards("solvers") / "dykstra.py", "solvers/own.py")
    shutil.copy(shipped_cards("problems") / "correlation.py", "problems/own.py")
    for named in ("own", "own.py"):
        Path("solvers/card.toml").write_text(f'backend = "{named}"\n')
        Path("problems/card.toml").write_text(f'family = "{named}"\n[options]\nn = 4\n')
        assert sf.find_solver("./solvers/card.toml").source == str(Path("solvers/own.py").resolve())
        assert find_problem(Path("problems/card.toml")).make()
    assert sf.find_solver("solvers/own.py").kind.name == "dykstra"


def test_cards_in_the_folder_are_found_last() -> None:
    Path("solvers/mine.toml").write_text('backend = "paper"\n')
    assert sf.find_solver("mine").kind.name == "dual-lbfgs"
    Path("problems/mine.toml").write_text('family = "planted"\n')
    assert find_problem("mine").family is find_family("planted")


def test_entry_points_come_before_cards_and_after_what_ships(monkeypatch: Any) -> None:
    group, names = "sdpfeas.backends", ("mine", "clarabel", "paper")
    points = [EntryPoint(name, "sdpfeas.backends.scs:Scs", group) for name in names]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points)
    Path("solvers/mine.toml").write_text('backend = "admm"\n')
    assert [sf.find_solver(n).kind.name for n in ("mine", "clarabel", "paper")] == [
        "scs",
        "clarabel",
        "dual-lbfgs",
    ]


def test_cards_that_go_round() -> None:
    Path("solvers/a.toml").write_text('backend = "b"\n')
    Path("solvers/b.toml").write_text('backend = "a"\n')
    with pytest.raises((CardError, BackendError), match="refers to itself"):
        sf.find_solver("a")
