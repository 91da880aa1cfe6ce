"""The cells of the full run and their order: those that the documentation needs come first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from contestants import CONTESTANTS, OURS, PROFILE
from results import Results
from targets import SIZES
from wlda_problems import BY_CLASSES, BY_DIMENSION, PROFILED, WLDA, size_of

__all__ = ["SERIES", "TAKEN_APART", "full_cells", "in_turn", "not_measured", "turn", "used_up"]

#: Who takes part in the two series.
SERIES = ("ours", "ours-1e-3", "bisect-dual-lbfgs", "clarabel", "scs-1e-4", "paper")

#: Whose time is taken apart.
TAKEN_APART = ("ours", "bisect-dual-lbfgs")

#: Peers that the figures show; bisections over other backends come last.
SHOWN = ("clarabel", "scs-1e-4", "scs-1e-7", "paper", "bisect-dual-lbfgs", "bisect-spectral-ipm")

#: Sizes beyond these take minutes a cell.
MODERATE_CLASSES, MODERATE_DIMENSION = 200, 2000

#: Turns of what is no contest, or one measured again: the SDPLIB files, quick cells, and everything that is
#: only printed.
FILES_TURN, AGAIN_TURN, LAST_TURN = 1, 4, 7


def full_cells() -> Iterator[tuple[str, str]]:
    """All cells of a full run, by problem and contestant; some of them twice."""
    for problem, tol, _, _ in SIZES:
        yield problem, "ours" if tol == 1e-6 else "ours-1e-3"
    yield from ((problem, contestant) for contestant in SERIES for problem in (*BY_DIMENSION, *BY_CLASSES))
    yield from ((problem, PROFILE + contestant) for contestant in TAKEN_APART for problem in PROFILED)
    yield from ((problem, contestant) for problem in WLDA for contestant in CONTESTANTS)


def turn(problem: str, contestant: str) -> int:
    """When a cell is measured, from 0 on; equal ones in the order in which they are listed.

    Parameters
    ----------
    problem, contestant : str
        The cell.
    """
    size = size_of(problem)
    if size.classes > MODERATE_CLASSES:
        return 5
    if size.dimension > MODERATE_DIMENSION:
        return 2
    if contestant.startswith(PROFILE):
        return 4
    if contestant in OURS:
        return 0
    return 3 if contestant in SHOWN else 6


def in_turn(parameters: dict[str, Any], module: str) -> int:
    """When a benchmark runs.

    Parameters
    ----------
    parameters : dict
        Of the test; those of a contest name a problem and a contestant.
    module : str
        Name of the file.
    """
    if {"problem", "contestant"} <= set(parameters):
        return turn(parameters["problem"], parameters["contestant"])
    if "again" in parameters:
        return AGAIN_TURN
    return FILES_TURN if module == "bench_sdplib" else LAST_TURN


def used_up(results: Results, series: Sequence[str], problem: str, contestant: str) -> str | None:
    """A smaller problem of a series on which a contestant used up a limit, if there is one.

    Parameters
    ----------
    results : Results
        The cells.
    series : sequence of str
        Problems that grow.
    problem, contestant : str
        The cell.
    """
    for smaller in series[: series.index(problem)] if problem in series else ():
        cell = results.find(smaller, contestant)
        if cell is not None and cell.capped:
            return smaller
    return None


def not_measured(results: Results) -> list[tuple[str, str]]:
    """Cells of the full run that are not there, but for those that a smaller problem answers.

    Parameters
    ----------
    results : Results
        The cells.
    """
    return [
        (problem, contestant)
        for problem, contestant in dict.fromkeys(full_cells())
        if results.find(problem, contestant) is None
        and not any(used_up(results, series, problem, contestant) for series in (BY_DIMENSION, BY_CLASSES))
    ]
