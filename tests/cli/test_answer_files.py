"""Answer files: what solve wrote verify reads, and what nobody wrote is refused in words."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sdpfeas as sf
from sdpfeas.cli.app import app
from sdpfeas.errors import FileFormatError
from sdpfeas.io import result_files
from sdpfeas.io.result_files import SavedResult, pack_result, save_result, unpack_result

#: x11 + y = b, y = b, 2 x12 = 0.4: infeasible, and nearly not.
NEAR = sf.FeasibilityProblem(
    [sf.PSD(2), sf.Nonneg(1)],
    [np.array([[[1.0, 0], [0, 0]], [[0, 0], [0, 0]], [[0, 1.0], [1.0, 0]]]), np.array([[1.0], [1.0], [0.0]])],
    [1.2345678912345678e16, 1.2345678912345678e16, 0.4],
    [1.2345678912345678e16, 1.2345678912345678e16, 0.4],
)
EASY = sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[1.0]])], [0.1], [1.0])


@pytest.mark.parametrize("reading", ["stored", "written"])
@pytest.mark.parametrize("problem", [NEAR, EASY], ids=["near", "easy"])
def test_verify_reads_what_solve_wrote(problem, reading: str, tmp_path: Path) -> None:
    asked, answer = str(tmp_path / "p.npz"), str(tmp_path / "a.npz")
    problem.save(asked)
    solve = ["solve", asked, "--reading", reading, "--time-limit", "5", "-o", answer]
    for command in (solve, ["verify", asked, answer]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, (command, done.output)


def test_a_reading_that_is_no_more_is_asked_about_as_stored(tmp_path: Path) -> None:
    EASY.save(tmp_path / "p.npz")
    saved = replace(SavedResult.of(sf.solve(EASY)), reading="meant")
    save_result(saved, tmp_path / "a.npz")
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "p.npz"), str(tmp_path / "a.npz")])
    assert done.exit_code == 0, done.output
    assert "FEASIBLE (rigorous proof)" in done.output


@pytest.mark.parametrize("text", [b"1/0", b"-1/0", b"0/0", b"1/-0"])
def test_a_denominator_of_zero_is_damage(text: bytes, monkeypatch) -> None:
    saved = replace(SavedResult.of(sf.solve(EASY)), rational=(np.array([Fraction(1, 2)], dtype=object),))
    assert unpack_result(pack_result(saved)).rational is not None
    monkeypatch.setattr(result_files, "_fractions_to_text", lambda _: np.frombuffer(text, dtype=np.uint8))
    with pytest.raises(FileFormatError, match="denominator"):
        unpack_result(pack_result(saved))
