"""Cells in worker processes on this machine."""

from __future__ import annotations

import threading

from sdpfeas.errors import OptionError
from sdpfeas.study.engines.base import Engine
from sdpfeas.study.process import Run, Worker
from sdpfeas.study.reaper import Reaper
from sdpfeas.study.settings import Settings
from sdpfeas.study.worker import Job

__all__ = ["LocalEngine", "Seat"]


class Seat:
    """A place where one cell runs at a time, with a warm worker for the solver at hand."""

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper
        self._worker: Worker | None = None
        self._serves: tuple[str, int] | None = None

    def serves(self, job: Job, settings: Settings) -> bool:
        """Whether a warm worker for such a job sits here."""
        return self._worker is not None and self._serves == (job.source, settings.threads)

    def run(self, job: Job, settings: Settings, stop: threading.Event) -> Run:
        """Run one job; see :meth:`Worker.run`."""
        worker = self._worker
        # A worker serves one solver: what a stranger's backend does to its process is its own affair.
        if worker is None or not self.serves(job, settings) or not worker.fit:
            self.close()
            worker = self._worker = Worker(settings.threads, self._reaper)
            self._serves = (job.source, settings.threads)
        return worker.run(job, settings, stop)

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


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
        self._reaper = Reaper()

    def seat(self) -> Seat:
        """A new seat with a worker of its own."""
        return Seat(self._reaper)

    def close(self) -> None:
        """End the watch over the workers."""
        self._reaper.close()
