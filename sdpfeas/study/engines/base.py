"""What an engine is: something that runs trials, several at a time."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Protocol

from sdpfeas.trials.trial import Run, Trial

__all__ = ["Engine", "Place"]


class Place(Protocol):
    """Somewhere one trial runs at a time."""

    def run(self, trial: Trial, stop: threading.Event) -> Run:
        """Run one trial under its limits.

        Raises
        ------
        Interrupted
            If ``stop`` is set before the trial is over.
        """

    def close(self) -> None:
        """Give it up."""


class Engine(ABC):
    """Runs trials, several at a time."""

    #: How many at a time.
    jobs: int

    @abstractmethod
    def seat(self) -> Place:
        """A new place to run trials at, for one thread."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""
