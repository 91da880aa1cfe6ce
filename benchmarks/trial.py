"""The trial of a contest: load the data, warm up, measure the unit, run the contestant, report.

It runs in a process of its own and knows nothing of limits: those are enforced from outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.linalg
from contestants import CONTESTANTS, PROFILE, Found
from products import Clock, hot_spots, install
from wlda_problems import load, size_of, synthetic

#: Contestants run again for so many seconds, ...
RUNS_BUDGET = 3.0
#: ... up to this many times; the fastest run counts. A few are too few for hundredths of a second.
MOST_RUNS = 30

#: Seconds to spend on timing eigendecompositions, and how many there are at least and at most.
UNIT_BUDGET, UNIT_RUNS = 1.0, (3, 50)

#: Seconds after which there are enough, however few.
UNIT_ENOUGH = 10.0

#: A problem on which contestants run once unmeasured, since imports are not what is measured.
REHEARSAL = synthetic(3, 5)

#: A profile of functions takes another run; not of one that takes longer than this.
SLOW = 60.0


def eigh_seconds(dimension: int) -> float:
    """Processor seconds of one ``scipy.linalg.eigh`` with its default driver.

    Parameters
    ----------
    dimension : int
        Of the matrix.
    """
    half = np.random.default_rng(0).standard_normal((dimension, dimension))
    matrix, times = half + half.T, list[float]()
    while (
        sum(times) < (UNIT_ENOUGH if len(times) < UNIT_RUNS[0] else UNIT_BUDGET) and len(times) < UNIT_RUNS[1]
    ):
        begin = time.process_time()
        scipy.linalg.eigh(matrix)
        times.append(time.process_time() - begin)
    return min(times)


def measure(run: Callable[[], Found], most_runs: int = MOST_RUNS) -> dict[str, Any]:
    """Run a contestant and sum up the fastest run.

    Parameters
    ----------
    run : callable
        One run.
    most_runs : int
        Run a quick one up to so many times.
    """
    runs: list[tuple[float, float, Found]] = []
    while not runs or (len(runs) < most_runs and sum(wall for wall, _, _ in runs) < RUNS_BUDGET):
        cpu, begin = time.process_time(), time.perf_counter()
        found = run()
        runs.append((time.perf_counter() - begin, time.process_time() - cpu, found))
    wall, cpu, found = min(runs, key=lambda entry: entry[1])
    return {**asdict(found), "wall": wall, "cpu": cpu, "runs": len(runs)}


def profile(run: Callable[[], Found], clock: Clock) -> dict[str, Any]:
    """Say where a run spends its time.

    Parameters
    ----------
    run : callable
        One run.
    clock : Clock
        The clock that is installed.
    """
    clock.reset()
    found = measure(run, most_runs=1)
    found |= {"eigen": clock.eigen, "products": clock.products}
    found["outside"] = 1.0 - (clock.eigen + clock.products) / found["wall"]
    return found | {"hot_spots": hot_spots(run) if found["wall"] < SLOW else []}


def answer(contest: tuple[str, str], start: Callable[..., None]) -> dict[str, Any]:
    """Run a contestant on a problem: the target of the trial that is a contest.

    Parameters
    ----------
    contest : tuple of str
        Names of the problem and of the contestant.
    start : callable
        Starts the clock.
    """
    problem, contestant = contest
    # Before anything imports the library.
    clock = install() if contestant.startswith(PROFILE) else None
    chosen = CONTESTANTS[contestant.removeprefix(PROFILE)]
    from sdpfeas.datasets import DataError

    try:
        X, y = load(problem)
    except DataError as error:
        return {"missing": str(error)}
    chosen.run(*load(REHEARSAL))
    start(eigh=eigh_seconds(X.shape[1]))
    components = size_of(problem).components
    asked = (X, y) if components is None else (X, y, components)
    return (
        measure(lambda: chosen.run(*asked)) if clock is None else profile(lambda: chosen.run(*asked), clock)
    )
