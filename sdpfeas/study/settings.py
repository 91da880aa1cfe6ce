"""What a study asks of every cell: limits, threads, and how strict to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sdpfeas.errors import OptionError
from sdpfeas.trials.trial import Limits

# ------------------------------------------------------------
# What can be chosen about a study: which cells are computed again, and which time counts.

#: Outcomes that count as failures of the run, not as answers.
FAILED = ("timeout", "out of memory", "crash", "error")


class Clock(StrEnum):
    """Which time counts: that on the wall, or that of the processor."""

    wall = "wall"
    processor = "processor"

    @property
    def other(self) -> Clock:
        """The one that does not."""
        return Clock.processor if self is Clock.wall else Clock.wall


class Retry(StrEnum):
    """Which finished cells to compute again."""

    failed = "failed"
    undecided = "undecided"
    all = "all"

    def picks(self, cell: Mapping[str, Any]) -> bool:
        """Whether a finished cell, given by its outcome and verdict, is one of them."""
        if self is Retry.failed:
            return cell["outcome"] in FAILED
        return self is Retry.all or cell["verdict"] == "undecided"


@dataclass(frozen=True)
class Settings:
    """Limits and modes every cell of a study runs under; part of a cell's key.

    ``time_limit``: seconds a backend is given. It is killed at 1.1 times that plus half a second.
    ``memory_limit``: bytes of resident memory a cell's process and its children may hold together.
    ``threads``: threads the numerical libraries may use. ``tol``: relative width at which the bracket of a
    family is narrow enough.
    """

    time_limit: float = 60.0
    memory_limit: int = 4 * 2**30
    threads: int = 1
    rigorous: bool = False
    tol: float = 1e-3

    def __post_init__(self) -> None:
        """Refuse limits that make no sense."""
        if not self.time_limit > 0:
            raise OptionError(f"the time limit must be positive, got {self.time_limit:g}")
        if self.memory_limit < 2**26:
            raise OptionError(
                "the memory limit must be at least 64M: an empty Python process needs that much"
            )
        if self.threads < 1:
            raise OptionError(f"threads must be at least 1, got {self.threads}")
        if not 0 < self.tol < 1:
            raise OptionError(f"tol must lie between 0 and 1, got {self.tol:g}")

    @property
    def hard_limit(self) -> float:
        """Seconds after which a cell is killed."""
        return 1.1 * self.time_limit + 0.5

    @property
    def limits(self) -> Limits:
        """What the trial of a cell may use."""
        return Limits(self.hard_limit, self.memory_limit, self.threads)

    def plain(self) -> dict[str, Any]:
        """The settings as plain data."""
        return asdict(self)
