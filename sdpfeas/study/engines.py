"""Where cells run: in worker processes here, or on a Dask cluster. Either way the same limits hold."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from sdpfeas.errors import OptionError
from sdpfeas.study.process import End, Interrupted, Run, Worker
from sdpfeas.study.reaper import Reaper
from sdpfeas.study.settings import Settings
from sdpfeas.study.worker import Job

__all__ = ["DaskEngine", "Engine", "LocalEngine", "Seat"]


class Seat:
    """A place where one cell runs at a time, with a warm worker for the solver at hand."""

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper
        self._worker: Worker | None = None
        self._serves: tuple[str, int] | None = None

    def run(self, job: Job, settings: Settings, stop: threading.Event) -> Run:
        """Run one job; see :meth:`Worker.run`."""
        serves = (job.source, settings.threads)
        worker = self._worker
        # A worker serves one solver: what a stranger's backend does to its process is its own affair.
        if worker is None or serves != self._serves or not worker.fit:
            self.close()
            worker = self._worker = Worker(settings.threads, self._reaper)
            self._serves = serves
        return worker.run(job, settings, stop)

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


class Engine(ABC):
    """Runs jobs, several at a time."""

    #: How many jobs at a time.
    jobs: int

    @abstractmethod
    def seat(self) -> Any:
        """A new place to run jobs at, for one thread: something with ``run`` and ``close``."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""


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


class DaskEngine(Engine):
    """Worker processes next to the workers of an existing Dask cluster.

    Parameters
    ----------
    scheduler : str
        Address of the scheduler.
    jobs : int, optional
        How many cells at a time; as many as the cluster has threads if not given.
    timeout : float
        Seconds to wait for the scheduler.
    """

    def __init__(self, scheduler: str, jobs: int | None = None, timeout: float = 20) -> None:
        try:
            import distributed
        except ImportError:
            raise OptionError("--engine dask needs the extra: pip install 'sdpfeas[dask]'") from None
        try:
            client: Any = distributed.Client  # untyped
            self._client: Any = client(scheduler, timeout=timeout)
        except (OSError, ValueError) as error:
            raise OptionError(f"no Dask scheduler at {scheduler}: {error}") from None
        threads = sum(self._client.nthreads().values())
        self.jobs = jobs or max(threads, 1)

    def seat(self) -> _DaskSeat:
        """A new place on the cluster."""
        return _DaskSeat(self._client)

    def close(self) -> None:
        """Leave the cluster as it was found."""
        self._client.close()


class _DaskSeat:
    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, job: Job, settings: Settings, stop: threading.Event) -> Run:
        from distributed import KilledWorker

        # Impure: the same cell asked for again must run again. A lost worker is no failure of the cell, so
        # the scheduler sends the cell elsewhere.
        future = self._client.submit(run_remotely, job, settings, pure=False, retries=5)
        try:
            while True:
                if stop.is_set():
                    future.cancel()
                    raise Interrupted
                with suppress(TimeoutError):
                    found: Run = future.result(timeout=0.5)
                    return found
        except KilledWorker as error:
            return Run(End.CRASH, f"the Dask worker died each time: {error}", None, 0.0, 0, "")
        except CancelledError:
            raise Interrupted from None

    def close(self) -> None:
        pass


_remote = threading.local()
_remote_reaper: list[Reaper] = []
_remote_lock = threading.Lock()


def run_remotely(job: Job, settings: Settings) -> Run:
    """Run a job next to a Dask worker, in a process of its own."""
    with _remote_lock:
        if not _remote_reaper:
            _remote_reaper.append(Reaper())
    if not hasattr(_remote, "seat"):
        _remote.seat = Seat(_remote_reaper[0])
    found: Run = _remote.seat.run(job, settings, threading.Event())
    return found
