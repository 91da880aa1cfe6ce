"""Measure how times grow with the dimension and the number of classes, and their components.

The problems are synthetic. A peer's series ends with its first cell that uses up a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from contest import compete, print_at_end
from contestants import PROFILE
from laboratory import Laboratory
from plan import SERIES, TAKEN_APART, used_up
from tables import profile_tables, scaling_tables
from wlda_problems import BY_CLASSES, BY_DIMENSION, PROFILED, size_of

# Limits are enforced cell by cell.
pytestmark = pytest.mark.timeout(0)

#: The short set: who takes part as the dimension grows, and how far it and the profiles go.
SHORT_CONTESTANTS = (*TAKEN_APART, "clarabel", "scs-1e-4")
SHORT_UP_TO, SHORT_PROFILES = 400, 200


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    full = metafunc.config.getoption("--full")
    by_dimension = [p for p in BY_DIMENSION if full or size_of(p).dimension <= SHORT_UP_TO]
    by_classes = [p for k, p in enumerate(BY_CLASSES) if full or k % 2 == 0]
    profiled = [p for p in PROFILED if full or size_of(p).dimension <= SHORT_PROFILES]
    problems, contestants = {
        "test_dimension": (by_dimension, SERIES if full else SHORT_CONTESTANTS),
        "test_classes": (by_classes, SERIES if full else TAKEN_APART),
        "test_profile": (profiled, [PROFILE + contestant for contestant in TAKEN_APART]),
    }[metafunc.function.__name__]
    cells = [(problem, contestant) for contestant in contestants for problem in problems]
    metafunc.parametrize(("problem", "contestant"), cells, ids=[f"{p}-{c}" for p, c in cells])


@pytest.fixture(scope="module", autouse=True)
def tables_at_end(pytestconfig: pytest.Config, laboratory: Laboratory) -> Iterator[None]:
    def both(results: Any) -> str:
        return f"{scaling_tables(results)}\n\n{profile_tables(results)}"

    yield from print_at_end(pytestconfig, laboratory, both)


def _skip_beyond(laboratory: Laboratory, series: tuple[str, ...], problem: str, contestant: str) -> None:
    smaller = used_up(laboratory.results, series, problem, contestant)
    if smaller is not None:
        pytest.skip(f"{contestant} used up a limit on {smaller}")


def test_dimension(benchmark: Any, laboratory: Laboratory, problem: str, contestant: str) -> None:
    _skip_beyond(laboratory, BY_DIMENSION, problem, contestant)
    compete(benchmark, laboratory, problem, contestant)


def test_classes(benchmark: Any, laboratory: Laboratory, problem: str, contestant: str) -> None:
    _skip_beyond(laboratory, BY_CLASSES, problem, contestant)
    compete(benchmark, laboratory, problem, contestant)


def test_profile(benchmark: Any, laboratory: Laboratory, problem: str, contestant: str) -> None:
    compete(benchmark, laboratory, problem, contestant)
