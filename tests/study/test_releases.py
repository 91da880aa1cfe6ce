"""Releases of a solver, each in an environment of its own, and which of them became worse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from study_tools import run, write_problems

import sdpfeas as sf
from sdpfeas.study.history import version_table
from sdpfeas.study.releases import list_releases, release_order


def cell(release: str, problem: int, seconds: float, verdict: str = "feasible") -> dict[str, Any]:
    return {
        "solver": "s", "solver_version": release, "solver_hash": release, "problem": f"p{problem}",
        "problem_hash": f"p{problem}", "seed": 0, "outcome": "done", "verdict": verdict, "lower": None,
        "upper": None, "solve_time": seconds, "cpu_time": seconds, "claimed": "feasible", "finished": 1.0,
        "host": "h", "library": "1", "revision": "",
    }  # fmt: skip


def test_the_release_that_became_worse_is_named() -> None:
    history = [cell("0.10", k, 1.0) for k in range(8)] + [cell("0.9", k, 0.5) for k in range(8)]
    history += [cell("0.11", k, 1.0, "undecided" if k == 3 else "feasible") for k in range(8)]
    oldest, middle, newest = version_table(history, order=release_order)
    assert [each["solver_version"] for each in (oldest, middle, newest)] == ["0.9", "0.10", "0.11"]
    assert middle["since"] == pytest.approx(2.0)
    assert len(middle["regressed"]) == 8
    assert newest["regressed"] == ["p3"]
    assert newest["changes"] == {"same": 7, "verdict lost": 1}
    other = [{**each, "claimed": "infeasible"} for each in history if each["problem"] == "p1"]
    assert [each["wrong"] for each in version_table([*history, *other])] == [1, 1, 1]


@pytest.mark.parametrize("text", ["", "==1", "clarabel>=1", "--index-url=x", "a;b", "scs== "])
def test_other_requirements_are_refused(text: str) -> None:
    with pytest.raises(sf.SdpfeasError):
        list_releases([text])


@pytest.mark.slow
def test_another_release_runs_in_its_own_environment(tmp_path: Path) -> None:
    """Needs a package registry."""
    pattern = write_problems(tmp_path, 2)
    asked = ["releases", "scs==3.2.8", f"scs=={installed()}", "scs==99", "--problems", pattern, "--json"]
    code, shown, said = run([*asked, "--time-limit", "20"], tmp_path)
    if "scs==3.2.8" in said:
        pytest.skip("no package registry")
    assert code == 0, said
    found = json.loads(shown)
    assert set(found["left_out"]) == {"scs==99"}
    rows = found["releases"]
    assert [row["solver_version"] for row in rows] == ["3.2.8", installed()]
    assert all(row["cells"] == row["decided"] == 2 for row in rows)


def installed() -> str:
    return sf.find_solver("scs").kind.version()
