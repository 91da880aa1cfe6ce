"""Engines run trials in parallel: on this machine, on a Dask cluster, or on a joblib backend.

Each trial runs in a worker process (:mod:`sdpfeas.trials`) under the same limits.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import psutil

from sdpfeas.errors import OptionError, StudyError
from sdpfeas.extras import extra
from sdpfeas.trials.trial import End, Interrupted, Run, Trial
from sdpfeas.trials.workers import close_shared_workers, run_shared


class Engine(ABC):
    """Runs trials, several in parallel: one per thread that calls it."""

    #: Number of trials at a time.
    jobs: int

    @abstractmethod
    def run(self, trial: Trial, stop: threading.Event) -> Run:
        """Run a trial under its limits; raise Interrupted if ``stop`` is set before it ends."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""


class LocalEngine(Engine):
    """Worker processes on this machine."""

    def __init__(self, jobs: int = 1) -> None:
        if jobs < 1:
            raise OptionError(f"jobs must be at least 1, got {jobs}")
        self.jobs = jobs

    def run(self, trial: Trial, stop: threading.Event) -> Run:
        """Run a trial in a shared worker of this process."""
        return run_shared(trial, stop)

    def close(self) -> None:
        """End the idle workers."""
        close_shared_workers()


#: Attempts to run a cell whose Dask or joblib worker dies.
ATTEMPTS = 5

#: Seconds between checks whether a run is to stop.
STOP_POLL_SECONDS = 0.1

#: Seconds between checks of a joblib worker that its runner is alive.
RUNNER_POLL_SECONDS = 1.0


class _ClusterEngine(Engine):
    """Passes trials to other processes and waits for their futures."""

    #: What runs the trials, for messages.
    place: str

    @abstractmethod
    def submit(self, trial: Trial) -> Any:
        """Begin a trial; return its future."""

    def run(self, trial: Trial, stop: threading.Event) -> Run:
        """Run a trial, again if its worker is lost."""
        for _ in range(ATTEMPTS):
            future = self.submit(trial)
            try:
                while not stop.is_set():
                    with suppress(TimeoutError):
                        found: Run = future.result(timeout=STOP_POLL_SECONDS)
                        return found
                future.cancel()
                raise Interrupted
            except CancelledError:
                raise StudyError(f"{self.place} is gone") from None
            except Exception as error:
                # KilledWorker of Dask cannot be named without importing distributed.
                if not isinstance(error, BrokenExecutor) and type(error).__name__ != "KilledWorker":
                    raise
                reason = _one_line(error)
        return Run(End.CRASH, f"the worker that ran the cell died each time: {reason}")


class DaskEngine(_ClusterEngine):
    """Worker processes beside the workers of an existing Dask cluster.

    ``jobs`` is the number of trials at a time (default: the threads of the cluster), ``timeout`` the seconds
    to wait for the scheduler.
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
        self.place = f"the Dask scheduler at {self._client.scheduler.address}"

    def submit(self, trial: Trial) -> Any:
        """Begin a trial on the cluster."""
        # Impure: a repeated cell must run again.
        return self._client.submit(run_shared, trial, pure=False, retries=ATTEMPTS)

    def close(self) -> None:
        """Disconnect from the cluster."""
        self._client.close()


class JoblibEngine(_ClusterEngine):
    """Worker processes beside the workers of a joblib backend: loky, threading, dask or a registered one.

    ``jobs`` is the number of trials at a time (default: as many as the backend has); ``options`` are passed
    to the backend. Raises OptionError if joblib is missing or cannot start the backend.
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
        self.place = f"the joblib backend {backend!r}"
        self._calls: WeakSet[Future[Run]] = WeakSet()

    def submit(self, trial: Trial) -> Future[Run]:
        """Pass a trial to joblib on a thread, because the call of joblib cannot be interrupted."""
        future: Future[Run] = Future()

        def call() -> None:
            import joblib

            try:
                # The active backend is thread-local, and an instance serves one call at a time.
                with joblib.parallel_config(**self._config):
                    work = joblib.delayed(_run_in_joblib_worker)(trial, os.getpid())
                    (found,) = joblib.Parallel()([work])
            except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
                future.set_exception(error)
            else:
                future.set_result(found)

        future.set_running_or_notify_cancel()
        self._calls.add(future)
        threading.Thread(target=call, daemon=True).start()
        return future

    def close(self) -> None:
        """End the worker processes of this process; joblib ends its own workers."""
        close_shared_workers()
        if self._config["backend"] == "loky" and not all(call.done() for call in self._calls):
            from joblib.externals.loky import get_reusable_executor

            # Otherwise this process could not exit before the running cells reach their limits.
            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def _run_in_joblib_worker(trial: Trial, runner: int) -> Run:
    """Run a trial in a joblib worker, and end this joblib worker if its parent, the runner, dies."""
    if os.getppid() == runner and not any(isinstance(each, _ParentMonitor) for each in threading.enumerate()):
        _ParentMonitor(runner).start()
    return run_shared(trial)


class _ParentMonitor(threading.Thread):
    """A thread that ends this process, and idle sibling workers, when the parent dies.

    Otherwise the workers of loky would wait for minutes, those of multiprocessing forever.
    """

    def __init__(self, parent: int) -> None:
        super().__init__(daemon=True)
        self._parent = parent

    def run(self) -> None:
        alike = psutil.Process().cmdline()[:3]
        siblings: list[psutil.Process] = []
        while os.getppid() == self._parent:
            with suppress(psutil.Error):
                children = psutil.Process(self._parent).children()
                siblings = [child for child in children if child.cmdline()[:3] == alike]
            time.sleep(RUNNER_POLL_SECONDS)
        for process in siblings:
            with suppress(psutil.Error):
                if process.pid != os.getpid():
                    process.kill()
        os._exit(1)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
