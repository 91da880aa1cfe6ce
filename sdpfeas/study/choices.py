"""What can be chosen about a study: which cells are computed again, and which time counts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

__all__ = ["FAILED", "Clock", "Retry"]

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
