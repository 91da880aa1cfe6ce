"""Cells on an existing Dask cluster."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from sdpfeas.errors import OptionError, StudyError
from sdpfeas.extras import extra
from sdpfeas.study.engines.base import Engine
from sdpfeas.trials.seats import run_shared
from sdpfeas.trials.trial import End, Interrupted, Run, Trial

__all__ = ["DaskEngine"]


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
        with extra("dask", "--engine dask"):
            import distributed
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
        """Leave the cluster."""
        self._client.close()


class _DaskSeat:
    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, trial: Trial, stop: threading.Event) -> Run:
        from distributed import KilledWorker

        # Impure: the same cell asked for again must run again. A lost worker is no failure of the cell, so
        # the scheduler sends the cell elsewhere.
        future = self._client.submit(run_shared, trial, pure=False, retries=5)
        try:
            while True:
                if stop.is_set():
                    future.cancel()
                    raise Interrupted
                with suppress(TimeoutError):
                    found: Run = future.result(timeout=0.5)
                    return found
        except KilledWorker as error:
            return Run(End.CRASH, f"the Dask worker died each time: {error}")
        except CancelledError:
            raise StudyError(f"the Dask scheduler at {self._client.scheduler.address} is gone") from None

    def close(self) -> None:
        pass
