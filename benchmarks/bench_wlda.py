"""Compare WLDA solvers at equal accuracy: ours, certified to 1e-6, against the competitors.

Every cell is a trial in a process of its own, under limits enforced from outside; see ``trial.py``.
``--full`` runs all problems with all contestants; the short set leaves out what is slow and decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from contest import compete, print_at_end
from contestants import CONTESTANTS
from laboratory import Laboratory
from tables import accuracy_tables
from targets import AUTO_RATIO
from wlda_problems import SHORT, WLDA, size_of

# Limits are enforced cell by cell.
pytestmark = pytest.mark.timeout(0)

#: What the short set leaves out as slow and known to be: everywhere, or up to a dimension.
NEVER_SHORT = ("bisect-clarabel", "bisect-cvxpy")
SHORT_UP_TO = {"bisect-admm": 60, "bisect-scs": 60, "paper": 80}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = [(problem, contestant) for problem in WLDA for contestant in CONTESTANTS]
    full = metafunc.config.getoption("--full")
    cells = everything if full else list(filter(_is_short, everything))
    names = [f"{p}-{c}" for p, c in cells]
    if "again" in metafunc.fixturenames:
        # Only a full run has the time.
        metafunc.parametrize("again", cells if full else [], ids=names if full else None)
    else:
        metafunc.parametrize(("problem", "contestant"), cells, ids=names)


def _is_short(cell: tuple[str, str]) -> bool:
    problem, contestant = cell
    if problem not in SHORT or contestant in NEVER_SHORT:
        return False
    return size_of(problem).dimension <= SHORT_UP_TO.get(contestant, math.inf)


@pytest.fixture(scope="module", autouse=True)
def tables_at_end(pytestconfig: pytest.Config, laboratory: Laboratory) -> Iterator[None]:
    yield from print_at_end(pytestconfig, laboratory, accuracy_tables)


def assert_no_dearer(laboratory: Laboratory, problem: str) -> None:
    """Who asks one question gets the one program, at no more than its price."""
    asked, posed = (laboratory.measure(problem, name).cpu for name in ("ours", "one-shot"))
    assert asked is not None
    assert posed is not None
    assert asked <= AUTO_RATIO * posed


def test_wlda(
    benchmark: Any, pytestconfig: pytest.Config, laboratory: Laboratory, problem: str, contestant: str
) -> None:
    cell = compete(benchmark, laboratory, problem, contestant)
    if contestant == "ours":
        assert cell.proven, cell.detail or cell.note
        assert cell.converged, cell.note
    if contestant == "one-shot" and not pytestconfig.getoption("--full"):
        assert_no_dearer(laboratory, problem)


def test_wlda_again(benchmark: Any, laboratory: Laboratory, again: tuple[str, str]) -> None:
    found = benchmark.pedantic(laboratory.measure_again, args=again, rounds=1)
    if again[1] == "one-shot" and laboratory.results.find(*again) is not None:
        assert_no_dearer(laboratory, again[0])
    if found is None:
        pytest.skip("not a quick cell")
