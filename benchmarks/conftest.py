"""Options of the contests on WLDA, and the ``laboratory`` that measures and keeps their cells.

Solvers and problems of the other benchmarks are chosen by the pytest plugin of the library.
"""

from __future__ import annotations

import os

# Before anything imports NumPy, which reads these once.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from laboratory import Laboratory
    from results import Lines

#: When everything has to be over, on the monotonic clock.
UNTIL = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("contests", "contests on WLDA problems")
    group.addoption("--full", action="store_true", help="all problems; else the short set")
    group.addoption("--cap", type=float, metavar="S", help="seconds a peer may take (60)")
    group.addoption("--results", type=Path, metavar="DIR", help="where cells are kept (benchmarks/results)")
    group.addoption("--minutes", type=float, metavar="M", help="begin nothing after so many minutes, and end")
    group.addoption("--resume", action="store_true", help="measure only what is not there yet")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[UNTIL] = time.monotonic() + 60.0 * (config.getoption("--minutes") or math.inf)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() > item.config.stash[UNTIL]:
        pytest.skip("the time is up; --resume goes on")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        _in_order(items)


def _in_order(items: list[pytest.Item]) -> None:
    """Sort the cells by importance for the documentation: the run may be stopped at any time."""
    from plan import in_turn

    def place(item: pytest.Item) -> int:
        call = getattr(item, "callspec", None)
        return in_turn({} if call is None else call.params, item.path.stem)

    items.sort(key=place)


def _folder(config: pytest.Config) -> Path:
    chosen: Path | None = config.getoption("--results")
    usual = Path(__file__).parent / "results" / ("full" if config.getoption("--full") else "short")
    return usual if chosen is None else chosen


@pytest.fixture(scope="session")
def laboratory(pytestconfig: pytest.Config) -> Laboratory:
    """Measures the cells of the contests."""
    from laboratory import Caps, Laboratory

    preset = Caps() if pytestconfig.getoption("--full") else Caps(own_cap=300.0)
    cap = pytestconfig.getoption("--cap") or preset.cap
    caps = Caps(cap, preset.own_cap, preset.memory, pytestconfig.stash[UNTIL])
    return Laboratory(_folder(pytestconfig), caps, resume=pytestconfig.getoption("--resume"))


@pytest.fixture(scope="session")
def kept(pytestconfig: pytest.Config) -> Lines:
    """Keeps what is measured otherwise, line by line."""
    from laboratory import LINES
    from results import Lines

    return Lines(_folder(pytestconfig) / LINES, resume=pytestconfig.getoption("--resume"))
