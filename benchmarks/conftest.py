"""Options of the benchmarks: ``--full`` and ``--minutes``.

Solvers and problems are chosen by the pytest plugin of the library; contests are run by ``contest.py``.
"""

from __future__ import annotations

import os

# Before anything imports NumPy, which reads these once.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import math
import time

import pytest

#: When everything has to be over, on the monotonic clock.
UNTIL = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("benchmarks", "benchmarks of sdpfeas")
    group.addoption("--full", action="store_true", help="all problems; else the short set")
    group.addoption("--minutes", type=float, metavar="M", help="begin nothing after so many minutes")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[UNTIL] = time.monotonic() + 60.0 * (config.getoption("--minutes") or math.inf)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() > item.config.stash[UNTIL]:
        pytest.skip("the time is up")
