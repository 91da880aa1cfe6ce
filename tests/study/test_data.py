"""The public sets, known by content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sdpfeas.cli.app import app
from sdpfeas.study.board import data_sets
from sdpfeas.study.board.data_sets import DataSet, State, known_sets, look


@pytest.fixture
def one_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a.mat", "b.mat", "c.mat")}
    known = {"made": DataSet("made", "Made", "made up", hashes)}
    monkeypatch.setattr(data_sets, "known_sets", lambda: known)
    monkeypatch.setattr("sdpfeas.cli.board.known_sets", lambda: known)
    monkeypatch.setenv("SDPFEAS_DATA", str(tmp_path))
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a.mat").write_text("a.mat")
    (tmp_path / "made" / "b.mat").write_text("something else")
    return tmp_path


def test_what_is_there_is_known_by_its_content(one_set: Path) -> None:
    found = {entry.name: entry.state for entry in look(one_set)}
    assert found == {"a.mat": State.right, "b.mat": State.other, "c.mat": State.missing}


def test_the_command_says_what_is_missing_and_where_it_goes(one_set: Path) -> None:
    result = CliRunner().invoke(app, ["data"], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert "missing: c.mat" in result.output
    assert "content differs from the known file: b.mat" in result.output
    assert str(one_set / "made") in result.output
    files = json.loads(CliRunner().invoke(app, ["data", "--json"]).stdout)["files"]
    assert [entry["state"] for entry in files] == ["right", "other", "missing"]
    for name in ("b.mat", "c.mat"):
        (one_set / "made" / name).write_text(name)
    assert CliRunner().invoke(app, ["data"]).exit_code == 0


def test_without_a_folder_everything_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SDPFEAS_DATA", raising=False)
    result = CliRunner().invoke(app, ["data", "sdplib"])
    assert result.exit_code == 1
    assert "$SDPFEAS_DATA" in result.output.replace("\n", "")
    wrong = CliRunner().invoke(app, ["data", "no-such-set"])
    assert wrong.exit_code != 0
    assert "no-such-set" in str(wrong.exception)


def test_hashes_are_hashes() -> None:
    sets = known_sets()
    assert list(sets) == ["sdplib", "dimacs", "liu-pataki", "wlda", "fairpca"]
    for entry in sets.values():
        assert entry.hashes
        assert all(len(bytes.fromhex(digest)) == 32 for digest in entry.hashes.values())


def test_the_data_here_are_the_known_ones(data_dir: Path) -> None:
    # All but the large ones: the command itself hashes every file.
    wrong = [
        entry.name for entry in look(data_dir, ["sdplib", "dimacs", "liu-pataki"]) if entry.state == "other"
    ]
    assert wrong == []
