"""From the cells of a study to the numbers of the tables, beside those that the paper prints.

:func:`summarise` computes means, deviations and brackets of ``delta*``; :func:`disagreements` compares the
brackets of two methods; :func:`compare_paired` tests whether two methods differ. The published numbers are
in ``published.toml``.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student
from scipy.stats import wilcoxon

import sdpfeas as sf
from benchmarks.paper.methods import EPSILON, TOLERANCE
from benchmarks.paper.study import NOT_RUN, PaperPlan
from benchmarks.paper.targets import Column, Target
from sdpfeas.study.cells import FAILED  # internal: outcomes of cells that failed

__all__ = [
    "Comparison",
    "Entry",
    "PublishedError",
    "PublishedTime",
    "TargetSummary",
    "compare_paired",
    "disagreements",
    "parse_time",
    "published",
    "published_error",
    "published_time",
    "summarise",
]

#: No significance test over fewer splits than this.
MINIMUM_SPLITS = 5

# ---------------------------------------------------------------- published numbers

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}

#: The published row that is shown beside a method which is not in the paper.
STANDS_FOR = {
    "wlda": "sd-wlda",
    "wlda-refined": "sd-wlda",
    "wlda-shrunk": "sd-wlda",
    "primal-clarabel": "sdpt3",
    "primal-scs": "sedumi",
}


@dataclass(frozen=True)
class PublishedError:
    """A test error in per cent: mean and standard deviation over the splits."""

    mean: float
    deviation: float

    def covers(self, mean: float) -> bool:
        """Whether another mean, in per cent, is within one standard deviation."""
        # Published numbers are rounded to two digits.
        return abs(mean - self.mean) <= self.deviation + 0.005


@dataclass(frozen=True)
class PublishedTime:
    """A time: as printed, in seconds, and whether it is only a lower bound."""

    text: str
    seconds: float
    bound: bool


@cache
def published() -> dict[str, Any]:
    """The content of ``published.toml``."""
    return tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))


def published_error(table: str, method: str, column: str) -> PublishedError | None:
    """The printed error of a cell, such as ``("table1", "lda", "heart")``; None if there is none."""
    found = _cell(table, "error", method, column)
    return None if found is None else PublishedError(float(found[0]), float(found[1]))


def published_time(table: str, method: str, column: str) -> PublishedTime | None:
    """The printed time of a cell; None if there is none."""
    found = _cell(table, "time", method, column)
    return None if found is None else parse_time(found)


def _cell(table: str, what: str, method: str, column: str) -> Any:
    rows = published().get(table, {}).get(what, {})
    row = rows.get(method) or rows.get(STANDS_FOR.get(method, ""), {})
    return row.get(column)


def parse_time(text: str) -> PublishedTime:
    """Parse a time such as ``"1h4m"``, ``"9.9s"`` or ``">48h"``."""
    bound = text.startswith(">")
    body = text.removeprefix(">")
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise sf.FileFormatError(f"not a time: {text!r}")
    return PublishedTime(text, sum(float(number) * UNITS[unit] for number, unit in parts), bound)


# ---------------------------------------------------------------- summaries


@dataclass(frozen=True)
class Entry:
    """A method in a column: the finished cells of all its splits, beside the published numbers.

    Attributes
    ----------
    cells : dict
        Finished cells by split.
    planned : int
        Number of splits in the plan.
    limit : float
        Time limit of a cell, in seconds.
    """

    method: str
    column: Column
    cells: Mapping[int, Mapping[str, Any]]
    planned: int
    limit: float
    error_published: PublishedError | None
    time_published: PublishedTime | None

    @property
    def errors(self) -> dict[int, float]:
        """Test errors in per cent, by split."""
        return {
            split: 100.0 * cell["error"] for split, cell in self.cells.items() if cell["outcome"] == "done"
        }

    @property
    def times(self) -> list[float]:
        """Seconds of the splits that finished."""
        return [cell["solve_time"] for cell in self.cells.values() if cell["outcome"] == "done"]

    @property
    def brackets(self) -> dict[int, tuple[float, float]]:
        """Bounds of ``delta*``, by split."""
        return {
            split: (cell["lower"], cell["upper"])
            for split, cell in self.cells.items()
            if cell["outcome"] == "done" and cell["lower"] is not None
        }

    @property
    def closed(self) -> dict[int, tuple[float, float]]:
        """Bounds of ``delta*`` of the splits on which the method converged."""
        return {
            split: bounds
            for split, bounds in self.brackets.items()
            if json.loads(self.cells[split]["info"])["finished"]
        }

    @property
    def mean(self) -> float | None:
        """Mean error in per cent."""
        return statistics.fmean(self.errors.values()) if self.errors else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation of the errors in per cent."""
        return statistics.stdev(self.errors.values()) if len(self.errors) > 1 else None

    @property
    def time(self) -> float | None:
        """Mean time in seconds."""
        return statistics.fmean(self.times) if self.times else None

    @property
    def timed_out(self) -> int:
        """Number of splits that hit the time limit."""
        return sum(cell["outcome"] == "timeout" for cell in self.cells.values())

    @property
    def too_large(self) -> int:
        """Number of splits that hit the memory limit."""
        return sum(cell["outcome"] == "out of memory" for cell in self.cells.values())

    @property
    def not_run(self) -> list[str]:
        """Reasons of the splits that were skipped."""
        return [cell["reason"] for cell in self.cells.values() if cell["reason"].startswith(NOT_RUN)]

    @property
    def failures(self) -> list[str]:
        """Reasons of the splits that failed, other than by the time limit."""
        words = [word for word in FAILED if word != "timeout"]
        return [cell["reason"] for cell in self.cells.values() if cell["outcome"] in words]

    @property
    def unfinished(self) -> list[str]:
        """Messages of the splits on which the method did not converge."""
        return [
            cell["reason"]
            for cell in self.cells.values()
            if cell["outcome"] == "done" and not json.loads(cell["info"])["finished"]
        ]

    @property
    def unproven(self) -> int:
        """Number of splits on which the bounds of ``delta*`` are not proved."""
        return sum(self.cells[split]["proof"] is None for split in self.brackets)

    @property
    def within(self) -> bool | None:
        """Whether the mean is within one published deviation; None if a mean is missing."""
        if self.error_published is None or self.mean is None:
            return None
        return self.error_published.covers(self.mean)


@dataclass(frozen=True)
class Comparison:
    """WLDA against LDA over the same splits.

    Attributes
    ----------
    difference : float
        Mean error of the first less that of the second, in percentage points.
    splits : int
        Number of splits.
    corrected : float, optional
        p-value of the t-test corrected for overlapping training sets (Nadeau and Bengio, 2003).
    signed_rank : float, optional
        p-value of Wilcoxon's signed-rank test, which assumes independent splits.
    """

    difference: float
    splits: int
    corrected: float | None
    signed_rank: float | None


@dataclass(frozen=True)
class TargetSummary:
    """A table or figure with its numbers.

    Attributes
    ----------
    entries : dict
        Entries by method and column index; columns whose data set is missing have none.
    skipped : dict
        Titles of the columns whose data set is missing, with the reason.
    sizes : dict
        Numbers of training and test samples by column index.
    """

    target: Target
    entries: dict[tuple[str, int], Entry]
    skipped: dict[str, str]
    sizes: dict[int, tuple[int, int]]

    @property
    def places(self) -> list[int]:
        """Indices of the columns whose data set is available."""
        return sorted(self.sizes)

    def row(self, method: str) -> list[Entry]:
        """All entries of a method, by column."""
        return [self.entries[method, place] for place in self.places]

    def comparison(self, place: int) -> Comparison | None:
        """Compare WLDA with LDA in a column."""
        ours, theirs = self.entries.get(("wlda", place)), self.entries.get(("lda", place))
        if ours is None or theirs is None:
            return None
        return compare_paired(ours.errors, theirs.errors, *self.sizes[place])


def summarise(plan: PaperPlan, cells: Sequence[Mapping[str, Any]]) -> list[TargetSummary]:
    """Summarise every table and figure of a plan from the cells of the store."""
    done = {cell["key"]: cell for cell in cells if cell["state"] == "done"}
    return [_summary(plan, target, done) for target in plan.targets]


def _summary(plan: PaperPlan, target: Target, done: Mapping[str, Mapping[str, Any]]) -> TargetSummary:
    entries: dict[tuple[str, int], Entry] = {}
    skipped: dict[str, str] = {}
    sizes: dict[int, tuple[int, int]] = {}
    for place, column in enumerate(target.columns):
        task = column.task
        if task not in plan.sizes:
            skipped[column.title] = plan.skipped[task.dataset]
            continue
        sizes[place] = plan.sizes[task]
        for method in target.methods:
            keys = {split: plan.keys[method, task, split] for split in range(column.splits(method))}
            entries[method, place] = Entry(
                method,
                column,
                {split: done[key] for split, key in keys.items() if key in done},
                len(keys),
                plan.settings.time_limit,
                published_error(target.beside or target.name, method, column.key),
                published_time(target.beside or target.name, method, column.key),
            )
    return TargetSummary(target, entries, skipped, sizes)


def disagreements(ours: Entry, theirs: Entry) -> tuple[dict[int, float], int]:
    """Splits on which two brackets of ``delta*`` are further apart than the published method's tolerance.

    Returns the relative distance of the second bracket from the first by split (positive if above), and the
    number of splits on which both methods converged.
    """
    both = sorted(set(ours.closed) & set(theirs.closed))
    distances = {split: _distance(ours.brackets[split], theirs.brackets[split]) for split in both}
    tol = TOLERANCE + EPSILON  # of the paper's bisection and of its infeasibility test
    return {split: distance for split, distance in distances.items() if abs(distance) > tol}, len(both)


def _distance(ours: tuple[float, float], theirs: tuple[float, float]) -> float:
    (low, high), (other_low, other_high) = ours, theirs
    if math.isinf(low) or math.isinf(other_low):
        return 0.0 if low == other_low else math.copysign(math.inf, other_low - low)
    if other_low > high:
        return (other_low - high) / high if high > 0.0 else math.inf
    return min((other_high - low) / high, 0.0) if high > 0.0 else 0.0


def compare_paired(
    first: Mapping[int, float], second: Mapping[int, float], trained: int, tested: int
) -> Comparison | None:
    """Test whether the errors of two methods differ, over the splits that both have."""
    both = sorted(set(first) & set(second))
    if not both:
        return None
    d = np.array([first[split] - second[split] for split in both])
    mean, count = float(d.mean()), d.size
    if count < MINIMUM_SPLITS:
        return Comparison(mean, count, None, None)
    if not np.any(d):
        return Comparison(mean, count, 1.0, 1.0)
    variance = float(d.var(ddof=1))
    # Corrected resampled t-test: training sets overlap, so variance / count is too small.
    deviation = math.sqrt((1.0 / count + tested / trained) * variance)
    corrected = 2.0 * float(student.sf(abs(mean) / deviation, count - 1)) if deviation > 0.0 else None
    return Comparison(mean, count, corrected, float(wilcoxon(d).pvalue))
