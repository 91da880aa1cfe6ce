"""Where cells run: here, on a Dask cluster, or on any joblib backend. Everywhere the same limits hold."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from typing import Any, Protocol

import psutil

from sdpfeas.errors import OptionError, StudyError
from sdpfeas.extras import extra
from sdpfeas.trials.trial import End, Interrupted, Run, Trial
from sdpfeas.trials.workers import WorkerSlot, close_shared_workers, run_shared

# ------------------------------------------------------------
# What an engine is: something that runs trials, several at a time.


class Slot(Protocol):
    """Somewhere one trial runs at a time."""

    def run(self, trial: Trial, stop: threading.Event) -> Run:
        """Run one trial under its limits.

        Raises ``Interrupted``: if ``stop`` is set before the trial is over.
        """

    def close(self) -> None:
        """Give it up."""


class Engine(ABC):
    """Runs trials, several at a time."""

    #: How many at a time.
    jobs: int

    @abstractmethod
    def open_slot(self) -> Slot:
        """A new place to run trials at, for one thread."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""


# ------------------------------------------------------------
# Cells in worker processes on this machine.


class LocalEngine(Engine):
    """Worker processes on this machine."""

    def __init__(self, jobs: int = 1) -> None:
        if jobs < 1:
            raise OptionError(f"jobs must be at least 1, got {jobs}")
        self.jobs = jobs

    def open_slot(self) -> WorkerSlot:
        """A new slot with a worker of its own."""
        return WorkerSlot()

    def close(self) -> None:
        """Nothing to do: slots end with the threads they serve."""


# ------------------------------------------------------------
# Cells on an existing Dask cluster.


class DaskEngine(Engine):
    """Worker processes next to the workers of an existing Dask cluster.

    ``jobs``: how many cells at a time; as many as the cluster has threads if not given. ``timeout``:
    seconds to wait for the scheduler.
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

    def open_slot(self) -> _DaskSlot:
        """A new place on the cluster."""
        return _DaskSlot(self._client)

    def close(self) -> None:
        """Leave the cluster."""
        self._client.close()


class _DaskSlot:
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


# ------------------------------------------------------------
# Cells on any joblib backend: loky, threading, dask, or one that was registered with joblib.

#: How often a cell is sent out again after the process beside it died.
RETRIES = 5

#: Seconds between two looks of a worker at whether its runner is still there.
PATIENCE = 1.0


class JoblibEngine(Engine):
    """Worker processes next to the workers of a joblib backend.

    ``backend``: name of a backend joblib knows, or that was registered with
    ``joblib.register_parallel_backend``. ``jobs``: how many cells at a time; as many as the backend has
    places for if not given. ``**options``: passed to the backend, as ``joblib.parallel_config`` does.

    Raises ``OptionError``: if joblib is missing, knows no such backend, or the backend cannot start.
    """

    def __init__(self, backend: str = "loky", jobs: int | None = None, **options: Any) -> None:
        with extra("joblib", "--engine joblib"):
            import joblib
        if jobs is not None and jobs < 1:
            raise OptionError(f"jobs must be at least 1, got {jobs}")
        self._config: dict[str, Any] = {"backend": backend, "n_jobs": jobs or -1, **options}
        try:
            with joblib.parallel_config(**self._config):
                places = joblib.effective_n_jobs(self._config["n_jobs"])
        except (ValueError, KeyError, TypeError, ImportError, OSError) as error:
            raise OptionError(f"no joblib backend {backend!r}: {_one_line(error)}") from None
        self.jobs = jobs or max(int(places), 1)
        self._config["n_jobs"] = self.jobs
        self._abandoned: list[_Call] = []

    def open_slot(self) -> _JoblibSlot:
        """A new place on the backend."""
        return _JoblibSlot(self._config, self._abandoned)

    def close(self) -> None:
        """End what runs beside this process; the backend's own workers end as joblib sees fit."""
        close_shared_workers()
        if self._config["backend"] == "loky" and any(call.is_alive() for call in self._abandoned):
            from joblib.externals.loky import get_reusable_executor

            # Otherwise this process could not exit before the cells under way have reached their limits.
            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


class _JoblibSlot:
    def __init__(self, config: dict[str, Any], abandoned: list[_Call]) -> None:
        self._config = config
        self._abandoned = abandoned

    def run(self, trial: Trial, stop: threading.Event) -> Run:
        for _ in range(RETRIES):
            call = _Call(self._config, trial)
            call.start()
            while call.is_alive():
                if stop.is_set():
                    self._abandoned.append(call)
                    raise Interrupted
                call.join(0.05)
            if call.found is not None:
                return call.found
            if not _lost_worker(call.error):
                raise call.error
        return Run(End.CRASH, f"the joblib worker died each time: {_one_line(call.error)}")

    def close(self) -> None:
        pass


class _Call(threading.Thread):
    """One cell handed to joblib, on a thread of its own: joblib waits for it and hears nothing meanwhile."""

    def __init__(self, config: dict[str, Any], trial: Trial) -> None:
        super().__init__(daemon=True)
        self._config = config
        self._task = (trial, os.getpid())
        self.found: Run | None = None
        self.error: Exception = RuntimeError("nothing came back")

    def run(self) -> None:
        import joblib

        try:
            # The active backend is a property of the thread, and an instance serves one call at a time.
            with joblib.parallel_config(**self._config):
                (self.found,) = joblib.Parallel()([joblib.delayed(_run_beside)(*self._task)])
        except Exception as error:  # noqa: BLE001 - raised again, or counted, in the thread that waits
            self.error = error


def _run_beside(trial: Trial, runner: int) -> Run:
    """Run a trial next to a worker of joblib, which ends with the runner if that is its parent."""
    if os.getppid() == runner and not any(isinstance(each, _Orphan) for each in threading.enumerate()):
        _Orphan(runner).start()
    return run_shared(trial)


class _Orphan(threading.Thread):
    """Ends this process when its parent is gone, and the workers beside it that wait for a first cell.

    By themselves they would wait on: those of loky for minutes, those of multiprocessing for ever.
    """

    def __init__(self, parent: int) -> None:
        super().__init__(daemon=True)
        self._parent = parent

    def run(self) -> None:
        alike = psutil.Process().cmdline()[:3]
        beside: list[psutil.Process] = []
        while os.getppid() == self._parent:
            with suppress(psutil.Error):
                children = psutil.Process(self._parent).children()
                beside = [child for child in children if child.cmdline()[:3] == alike]
            time.sleep(PATIENCE)
        for process in beside:
            with suppress(psutil.Error):
                if process.pid != os.getpid():
                    process.kill()
        os._exit(1)


def _lost_worker(error: Exception) -> bool:
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
