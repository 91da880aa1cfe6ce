"""Compare two versions of a solver, or two studies: what became faster, slower, or got another verdict.

:func:`compare_cells` pairs cells of the same solver, problem and seed. A time counts as changed only if the
change is larger than the noise: beyond a ratio on every seed, and with many seeds by the signed-rank test of
Wilcoxon (Biometrics Bulletin 1945).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sdpfeas.errors import OptionError
from sdpfeas.study.cells import FAILED, Clock

__all__ = ["Change", "Difference", "Trend", "compare_cells", "select_version", "version_table", "versions"]

#: Times that differ by less than this many seconds are equal: they measure the system more than the solver.
LEAST_SECONDS = 5e-3

#: Pairs from which the signed-rank test can reject, and its level.
TEST_PAIRS, TEST_LEVEL = 6, 0.05

Cells = Sequence[Mapping[str, Any]]


class Change(StrEnum):
    """What became of a solver on a problem."""

    contradiction = "contradiction"
    lost = "verdict lost"
    slower = "slower"
    gained = "verdict gained"
    faster = "faster"
    same = "same"

    @property
    def rank(self) -> int:
        """Position from the worst to the best."""
        return list(Change).index(self)

    @property
    def worse(self) -> bool:
        """Whether it is a regression."""
        return self in (Change.contradiction, Change.lost, Change.slower)


@dataclass(frozen=True)
class Difference:
    """The change of a solver on a problem, over ``pairs`` seeds.

    ``ratio`` is the geometric mean of new over old times on seeds that both decided; NaN without any.
    """

    solver: str
    problem: str
    change: Change
    old: str
    new: str
    ratio: float
    pairs: int


@dataclass(frozen=True)
class Trend:
    """The change of a solver over all its problems, with the p-value of the signed-rank test."""

    solver: str
    ratio: float
    p_value: float
    pairs: int
    change: Change


def versions(history: Cells, solver: str) -> list[str]:
    """Return the hashes of the versions of a solver in a history, in the order of their last cells."""
    seen = dict.fromkeys(cell["solver_hash"] for cell in reversed(history) if cell["solver"] == solver)
    return list(seen)[::-1]


def select_version(history: Cells, wanted: str) -> list[Mapping[str, Any]]:
    """Select the cells of a version, given by its version string or the beginning of its hash."""
    found = [c for c in history if wanted == c["solver_version"] or c["solver_hash"].startswith(wanted)]
    if not found:
        known = sorted({f"{c['solver']} {c['solver_version']} ({c['solver_hash'][:8]})" for c in history})
        raise OptionError(f"no cell was computed by version {wanted!r}; there are {', '.join(known)}")
    return found


def compare_cells(
    old: Cells, new: Cells, *, threshold: float = 1.1, clock: Clock = Clock.processor
) -> tuple[list[Difference], list[Trend]]:
    """Compare finished cells: a difference per solver and problem, and a trend per solver.

    ``threshold`` is the least ratio of times that counts.
    """
    if not threshold > 1.0:
        raise OptionError(f"the threshold is a ratio above 1, got {threshold:g}")
    before = {_place(cell): cell for cell in old}
    pairs: dict[tuple[str, str], list[tuple[Any, Any]]] = defaultdict(list)
    for cell in new:
        if _place(cell) in before:
            pairs[cell["solver"], cell["problem"]].append((before[_place(cell)], cell))
    differences, by_solver = [], defaultdict[str, list[tuple[float, float]]](list)
    for (solver, problem), found in pairs.items():
        times = [(_time(a, clock), _time(b, clock)) for a, b in found if _decided(a) and _decided(b)]
        by_solver[solver] += times
        change, ratio, _ = _time_change(times, threshold)
        worst = min((_verdict_change(a, b) for a, b in found), key=lambda each: each.rank)
        old_verdicts, new_verdicts = (
            ", ".join(sorted({_shown(c) for c in cells})) for cells in zip(*found, strict=True)
        )
        change = change if worst is Change.same else worst
        differences.append(Difference(solver, problem, change, old_verdicts, new_verdicts, ratio, len(found)))
    trends = []
    for solver, times in by_solver.items():
        if times:
            change, ratio, p_value = _time_change(times, threshold)
            trends.append(Trend(solver, ratio, p_value, len(times), change))
    return differences, trends


def _place(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    return cell["solver"], cell["problem_hash"], cell["seed"]


def _decided(cell: Mapping[str, Any]) -> bool:
    return cell["outcome"] not in FAILED and cell["verdict"] != "undecided"


def _shown(cell: Mapping[str, Any]) -> str:
    return str(cell["outcome"] if cell["outcome"] in FAILED else cell["verdict"])


def _time(cell: Mapping[str, Any], clock: Clock) -> float:
    seconds = cell["cpu_time"] if clock is Clock.processor else cell["solve_time"]
    return max(cell["solve_time"] if seconds is None else seconds, 1e-9)


def _verdict_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    if _decided(old) and _decided(new):
        apart = old["verdict"] != new["verdict"]
        if old["lower"] is not None and new["upper"] is not None:
            apart |= old["lower"] > new["upper"] or new["lower"] > old["upper"]
        return Change.contradiction if apart else Change.same
    if _decided(old) != _decided(new):
        return Change.lost if _decided(old) else Change.gained
    return Change.same


def _time_change(times: Sequence[tuple[float, float]], threshold: float) -> tuple[Change, float, float]:
    """Whether times changed by more than the threshold and the noise; the mean ratio and the p-value.

    With few pairs all of them must have changed.
    """
    logs = [math.log(after / earlier) for earlier, after in times]
    ratio, p_value, limit = _mean(logs), _p_value(logs), math.log(threshold)
    longest = max(map(max, times), default=0.0)
    if not logs or longest * (1.0 - min(ratio, 1.0 / ratio)) < LEAST_SECONDS:
        return Change.same, ratio, p_value
    if len(logs) >= TEST_PAIRS:
        shown = [math.log(ratio)] if p_value < TEST_LEVEL else [0.0]
    else:
        shown = logs
    if min(shown) > limit:
        return Change.slower, ratio, p_value
    return (Change.faster if max(shown) < -limit else Change.same), ratio, p_value


def _p_value(logs: Iterable[float]) -> float:
    from scipy.stats import wilcoxon

    moved = [each for each in logs if each != 0.0]
    return float(wilcoxon(moved).pvalue) if len(moved) >= TEST_PAIRS else 1.0


def _mean(logs: Sequence[float]) -> float:
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def version_table(
    history: Cells, clock: Clock = Clock.processor, order: Callable[[str], Any] | None = None
) -> list[dict[str, Any]]:
    """Describe every version of every solver, and what changed since the one before.

    ``ratio`` is the geometric mean of its times over those of the newest version, ``since`` over those of the
    version before, on instances that both decided; NaN without any. ``wrong`` counts raw statuses that
    evidence of any version contradicts. Versions are sorted by their last cell, or by ``order`` of their
    version strings.
    """
    proved: dict[str, set[str]] = defaultdict(set)
    for cell in history:
        if cell["verdict"] in ("feasible", "infeasible"):
            proved[cell["problem_hash"]].add(cell["verdict"])
    out = []
    for solver in dict.fromkeys(cell["solver"] for cell in history):
        found = [select_version(history, version) for version in versions(history, solver)]
        if order is not None:
            found.sort(key=lambda cells: order(cells[0]["solver_version"]))
        before: Cells = []
        for cells in found:
            differences, since = compare_cells(before, cells, clock=clock)
            trend = compare_cells(found[-1], cells, clock=clock)[1]
            last = max(cells, key=lambda cell: cell["finished"] or 0.0)
            names = ("solver_version", "solver_hash", "finished", "host", "library", "revision")
            out.append(
                {
                    "solver": solver,
                    **{name: last[name] for name in names},
                    "cells": len(cells),
                    "decided": sum(map(_decided, cells)),
                    "failed": sum(cell["outcome"] in FAILED for cell in cells),
                    "wrong": sum(_is_wrong(cell, proved[cell["problem_hash"]]) for cell in cells),
                    "ratio": trend[0].ratio if trend else math.nan,
                    "since": since[0].ratio if since else math.nan,
                    "changes": dict(Counter(str(each.change) for each in differences)),
                    "newest": cells is found[-1],
                    "regressed": [each.problem for each in differences if each.change.worse],
                }
            )
            before = cells
    return out


def _is_wrong(cell: Mapping[str, Any], proved: set[str]) -> bool:
    return (
        len(proved) == 1 and cell["claimed"] in ("feasible", "infeasible") and cell["claimed"] not in proved
    )
