"""From cells to what the tables say: means, deviations, flags, agreement, significance."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdpfeas.study.choices import FAILED
from sdpfeas.wlda.paper.cells import NOT_RUN, PaperPlan
from sdpfeas.wlda.paper.methods import EPSILON, TOLERANCE
from sdpfeas.wlda.paper.published import PublishedError, PublishedTime, published_error, published_time
from sdpfeas.wlda.paper.targets import Column, Target

__all__ = ["Comparison", "Entry", "TargetSummary", "compare_paired", "disagreements", "summarise"]

#: A test over fewer splits than this says nothing.
FEWEST = 5


@dataclass(frozen=True)
class Entry:
    """A method in a column: all its splits.

    Attributes
    ----------
    method : str
        The method.
    column : Column
        The column.
    cells : dict
        Finished cells by split.
    planned : int
        How many splits there are to be.
    limit : float
        The cap, in seconds.
    error_published : PublishedError, optional
        What the paper prints.
    time_published : PublishedTime, optional
        What the paper prints.
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
        """The same where the method got as far as it wanted to."""
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
        """Standard deviation of the errors, with one less than the splits in the denominator."""
        return statistics.stdev(self.errors.values()) if len(self.errors) > 1 else None

    @property
    def time(self) -> float | None:
        """Mean time."""
        return statistics.fmean(self.times) if self.times else None

    @property
    def capped(self) -> int:
        """How many splits were killed at the cap."""
        return sum(cell["outcome"] == "timeout" for cell in self.cells.values())

    @property
    def too_large(self) -> int:
        """How many splits were killed at the memory limit."""
        return sum(cell["outcome"] == "out of memory" for cell in self.cells.values())

    @property
    def not_run(self) -> list[str]:
        """Why splits were given up without being run."""
        return [cell["reason"] for cell in self.cells.values() if cell["reason"].startswith(NOT_RUN)]

    @property
    def failures(self) -> list[str]:
        """Why splits failed otherwise."""
        words = [word for word in FAILED if word != "timeout"]
        return [cell["reason"] for cell in self.cells.values() if cell["outcome"] in words]

    @property
    def unfinished(self) -> list[str]:
        """What methods said that ended early by themselves."""
        return [
            cell["reason"]
            for cell in self.cells.values()
            if cell["outcome"] == "done" and not json.loads(cell["info"])["finished"]
        ]

    @property
    def unproven(self) -> int:
        """On how many splits the bounds of ``delta*`` are not proved."""
        return sum(self.cells[split]["proof"] is None for split in self.brackets)

    @property
    def within(self) -> bool | None:
        """Whether the mean is within one published deviation; None if there is nothing to compare."""
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
        Over how many splits.
    corrected : float, optional
        p-value of the t-test corrected for overlapping training sets (Nadeau and Bengio, 2003).
    signed_rank : float, optional
        p-value of Wilcoxon's signed-rank test, which takes splits for independent.
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
    target : Target
        What was asked for.
    entries : dict
        By method and by the column's place; columns whose data are not here have none.
    skipped : dict
        Titles of those columns, with the reason.
    sizes : dict
        Numbers of training and test samples, by the column's place.
    """

    target: Target
    entries: dict[tuple[str, int], Entry]
    skipped: dict[str, str]
    sizes: dict[int, tuple[int, int]]

    @property
    def places(self) -> list[int]:
        """Places of the columns that could run."""
        return sorted(self.sizes)

    def row(self, method: str) -> list[Entry]:
        """All entries of a method."""
        return [self.entries[method, place] for place in self.places]

    def comparison(self, place: int) -> Comparison | None:
        """WLDA against LDA in a column."""
        ours, theirs = self.entries.get(("wlda", place)), self.entries.get(("lda", place))
        if ours is None or theirs is None:
            return None
        return compare_paired(ours.errors, theirs.errors, *self.sizes[place])


def summarise(plan: PaperPlan, cells: Sequence[Mapping[str, Any]]) -> list[TargetSummary]:
    """Sum up every table and figure of a plan.

    Parameters
    ----------
    plan : PaperPlan
        What was asked for.
    cells : sequence of mapping
        The cells of the store.
    """
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
    """Splits on which two brackets of ``delta*`` are further apart than the published method is accurate.

    Parameters
    ----------
    ours, theirs : Entry
        Two methods in the same column.

    Returns
    -------
    tuple
        By split, how far theirs is from ours, relative to our upper end (positive if above); and how many
        splits both finished.
    """
    both = sorted(set(ours.closed) & set(theirs.closed))
    apart = {split: _distance(ours.brackets[split], theirs.brackets[split]) for split in both}
    tol = TOLERANCE + EPSILON  # of its bisection and of its screen
    return {split: distance for split, distance in apart.items() if abs(distance) > tol}, len(both)


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
    """Test whether two methods differ, over the splits both have.

    Parameters
    ----------
    first, second : mapping
        Errors by split.
    trained, tested : int
        Sizes of a split.
    """
    from scipy.stats import t as student
    from scipy.stats import wilcoxon

    both = sorted(set(first) & set(second))
    if not both:
        return None
    d = np.array([first[split] - second[split] for split in both])
    mean, count = float(d.mean()), d.size
    if count < FEWEST:
        return Comparison(mean, count, None, None)
    if not np.any(d):
        return Comparison(mean, count, 1.0, 1.0)
    variance = float(d.var(ddof=1))
    # Training sets overlap, so the plain variance of the mean is too small.
    spread = math.sqrt((1.0 / count + tested / trained) * variance)
    corrected = 2.0 * float(student.sf(abs(mean) / spread, count - 1)) if spread > 0.0 else None
    return Comparison(mean, count, corrected, float(wilcoxon(d).pvalue))
