"""Solutions of other programs: read as claims, verified, and certified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.io.matlab import write_matlab
from sdpfeas.io.solution_files import read_solution

ROWS = np.array([np.eye(2), [[0.0, 0.5], [0.5, 0.0]]])


def stated(folder: Path, corner: float) -> Path:
    """A matrix of trace 1 with a given entry off the diagonal, and a slack, as an SDPA file."""
    problem = sf.FeasibilityProblem(
        [sf.PSD(2), sf.Nonneg(1)], [ROWS, np.array([[0.0], [1.0]])], [1.0, corner], [1.0, corner]
    )
    path = folder / "problem.dat-s"
    sf.write_sdpa(problem, path)
    return path


def verdicts(path: Path, problem: sf.FeasibilityProblem, side: str = "primal") -> set[str]:
    found = [sf.verify(problem, claim, rigorous=True) for claim in read_solution(path, problem, side)]  # type: ignore[arg-type]
    for check in found:
        if check.verdict != "undecided":
            assert sf.certify(check).document["kind"] == check.verdict
    return {str(check.verdict) for check in found} - {"undecided"}


CSDP = "0 0\n1 1 1 1 1\n2 1 1 1 0.5\n2 1 1 2 0.1\n2 1 2 2 0.5\n2 2 1 1 0.1500001\n"
SDPA = """phase.value = pdOPT
xVec =
{0.0,0.0}
xMat =
{ { {1.0,0.0 }, {0.0,1.0 } }
{1.0} }
yMat =
{ { {5.0e-01,1.0e-01 }, {1.0e-01,5.0e-01 } }
{+1.5000001e-01} }
    main loop time = 0.001
"""


@pytest.mark.parametrize("text", [CSDP, SDPA], ids=["csdp", "sdpa"])
def test_a_point_is_certified(text: str, tmp_path: Path) -> None:
    problem = sf.read_sdpa(stated(tmp_path, 0.25))
    path = tmp_path / "solution"
    path.write_text(text)
    assert verdicts(path, problem) == {"feasible"}


def test_a_certificate_of_either_sign_is_certified(tmp_path: Path) -> None:
    problem = sf.read_sdpa(stated(tmp_path, -0.75))
    for head in ("1 2", "-1 -2"):
        path = tmp_path / "solution"
        path.write_text(head + CSDP[3:])
        assert verdicts(path, problem) == {"infeasible"}


def test_the_other_side_and_sedumi(tmp_path: Path) -> None:
    lmi = sf.read_sdpa(stated(tmp_path, 0.25), "lmi")
    path = tmp_path / "solution"
    path.write_text("1 0.5" + CSDP[3:])
    assert verdicts(path, lmi, "lmi") == {"feasible"}
    problem = sf.FeasibilityProblem(
        [sf.Nonneg(1), sf.PSD(2)], [np.array([[0.0], [1.0]]), ROWS], [1.0, 0.25], [1.0, 0.25]
    )
    write_matlab(tmp_path / "s.mat", {"x": np.array([[0.15, 0.5, 0.1, 0.1, 0.5]]).T, "y": np.zeros((2, 1))})
    assert verdicts(tmp_path / "s.mat", problem) == {"feasible"}


@pytest.mark.parametrize(
    "text",
    ["", "1 2 3\n" + CSDP[4:], "0 0\n2 9", "0 0\n2 1 9 9 1\n", "0 0\n2 1 0 1 1\n", "xVec = {1}"],
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    problem = sf.read_sdpa(stated(tmp_path, 0.25))
    path = tmp_path / "solution"
    path.write_text(text)
    with pytest.raises(sf.FileFormatError, match="not a solution of this problem"):
        read_solution(path, problem)
