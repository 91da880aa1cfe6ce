"""Places where trials run: each with a warm worker, some of them kept for whoever comes next.

The shared seats serve threads that come and go: isolated solves of this process, and cells that somebody
else's scheduler (Dask, joblib) runs in it. They stay warm between trials, and end soon after the last one:
nobody tells when that is.
"""

from __future__ import annotations

import os
import threading
import time

from sdpfeas.trials.process import Worker
from sdpfeas.trials.trial import Run, Trial

#: Seconds a shared seat stays warm without a trial.
LINGER = 20.0


class Seat:
    """A place where one trial runs at a time, with a warm worker for trials like the last one."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._serves: tuple[object, ...] = ()

    def serves(self, trial: Trial) -> bool:
        """Whether a warm worker for such a trial sits here."""
        return self._worker is not None and self._worker.fit and self._serves == _kind(trial)

    def run(self, trial: Trial, stop: threading.Event | None = None) -> Run:
        """Run a trial; see :meth:`Worker.run`."""
        # A worker serves one kind of trial: what a stranger's code does to its process is its own affair.
        if self._worker is None or not self.serves(trial):
            self.close()
            self._worker = Worker(trial.limits.threads)
            self._serves = _kind(trial)
        return self._worker.run(trial, stop)

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


def _kind(trial: Trial) -> tuple[object, ...]:
    return (trial.target, trial.label, trial.limits.threads)


class _Shared:
    """The seats of this process that are free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[tuple[float, Seat]] = []
        self._tidier: threading.Timer | None = None

    def take(self, trial: Trial) -> Seat:
        with self._lock:
            warm = [k for k, (_, seat) in enumerate(self._free) if seat.serves(trial)]
            return self._free.pop(warm[-1] if warm else 0)[1] if self._free else Seat()

    def give_back(self, seat: Seat) -> None:
        with self._lock:
            self._free.append((time.monotonic(), seat))
            self._wake(LINGER)

    def tidy(self) -> None:
        """End the seats that have been free for long."""
        with self._lock:
            self._tidier = None
            now = time.monotonic()
            for since, seat in self._free:
                if now - since >= LINGER:
                    seat.close()
            self._free = [entry for entry in self._free if now - entry[0] < LINGER]
            if self._free:
                self._wake(self._free[0][0] + LINGER - now)

    def _wake(self, seconds: float) -> None:
        if self._tidier is None:
            self._tidier = threading.Timer(seconds + 0.1, self.tidy)
            self._tidier.daemon = True
            self._tidier.start()

    def close(self) -> None:
        with self._lock:
            for _, seat in self._free:
                seat.close()
            self._free.clear()
            if self._tidier is not None:
                self._tidier.cancel()
                self._tidier = None


_shared = _Shared()


def run_once(trial: Trial) -> Run:
    """Run a trial in a process of its own."""
    seat = Seat()
    try:
        return seat.run(trial)
    finally:
        seat.close()


def run_shared(trial: Trial) -> Run:
    """Run a trial in a shared seat of this process."""
    seat = _shared.take(trial)
    try:
        return seat.run(trial)
    finally:
        _shared.give_back(seat)


def leave() -> None:
    """End the shared seats of this process at once."""
    _shared.close()


def _forget() -> None:
    """In a copy of this process: the workers are the original's."""
    global _shared  # noqa: PLW0603 - a lock may have been held when the copy was made
    _shared = _Shared()


if hasattr(os, "register_at_fork"):  # not where processes cannot be copied
    os.register_at_fork(after_in_child=_forget)
