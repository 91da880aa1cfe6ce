"""The files that docs/architecture.md lists for one solve are entered in that order."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import sdpfeas as sf

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sdpfeas"


def documented() -> list[str]:
    """Files listed in the table of the page, in order."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## One solve, step by step")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w/]+\.py)` \|", section, flags=re.MULTILINE)


def entered(corner: float) -> list[str]:
    """The files that a small solve enters, in the order of their first call."""
    rows = np.array([np.eye(2), [[0.0, 0.5], [0.5, 0.0]]])
    files: list[str] = []

    def notice(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            files.append(path.relative_to(PACKAGE).as_posix())

    def problem() -> sf.FeasibilityProblem:
        return sf.FeasibilityProblem([sf.PSD(2)], [rows], [1.0, corner], [1.0, np.inf])

    sf.solve(problem())  # modules that are imported on demand run calls of their own
    asked = problem()
    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        sf.solve(asked)
    finally:
        sys.setprofile(before)
    return list(dict.fromkeys(files))


@pytest.mark.parametrize("corner", [0.3, 0.6])  # feasible, infeasible
def test_a_small_solve_enters_the_stations_of_the_page_in_their_order(corner: float) -> None:
    stations = documented()
    assert 10 <= len(stations) <= 15
    assert [file for file in entered(corner) if file in stations] == stations
