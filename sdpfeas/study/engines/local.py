"""Cells in worker processes on this machine."""

from __future__ import annotations

from sdpfeas.errors import OptionError
from sdpfeas.study.engines.base import Engine
from sdpfeas.trials.seats import Seat

__all__ = ["LocalEngine"]


class LocalEngine(Engine):
    """Worker processes on this machine.

    Parameters
    ----------
    jobs : int
        How many at a time.
    """

    def __init__(self, jobs: int = 1) -> None:
        if jobs < 1:
            raise OptionError(f"jobs must be at least 1, got {jobs}")
        self.jobs = jobs

    def seat(self) -> Seat:
        """A new seat with a worker of its own."""
        return Seat()

    def close(self) -> None:
        """Nothing to do: seats end with the threads they serve."""
