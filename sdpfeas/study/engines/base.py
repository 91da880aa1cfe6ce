"""What an engine is: something that runs jobs, several at a time."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Protocol

from sdpfeas.study.process import Run
from sdpfeas.study.settings import Settings
from sdpfeas.study.worker import Job

__all__ = ["Engine", "Place"]


class Place(Protocol):
    """Somewhere one job runs at a time."""

    def run(self, job: Job, settings: Settings, stop: threading.Event) -> Run:
        """Run one job under the limits.

        Raises
        ------
        Interrupted
            If ``stop`` is set before the job is done.
        """

    def close(self) -> None:
        """Give it up."""


class Engine(ABC):
    """Runs jobs, several at a time."""

    #: How many jobs at a time.
    jobs: int

    @abstractmethod
    def seat(self) -> Place:
        """A new place to run jobs at, for one thread."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""
