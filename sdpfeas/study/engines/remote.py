"""Cells next to a process that somebody else's scheduler started: a Dask worker, a joblib worker.

That process lends seats to whatever thread runs a cell in it. Seats stay warm between cells, and end soon
after the last one: the scheduler tells nobody when a study is over.
"""

from __future__ import annotations

import threading
import time

from sdpfeas.study.engines.local import Seat
from sdpfeas.study.process import Run
from sdpfeas.study.reaper import Reaper
from sdpfeas.study.settings import Settings
from sdpfeas.study.worker import Job

__all__ = ["leave", "run_remotely"]

#: Seconds a seat stays warm without a cell.
LINGER = 20.0


class _Seats:
    """The seats of this process that are free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reaper: Reaper | None = None
        self._free: list[tuple[float, Seat]] = []
        self._tidier: threading.Timer | None = None

    def take(self, job: Job, settings: Settings) -> Seat:
        with self._lock:
            warm = [k for k, (_, seat) in enumerate(self._free) if seat.serves(job, settings)]
            if self._free:
                return self._free.pop(warm[-1] if warm else 0)[1]
            if self._reaper is None:
                self._reaper = Reaper()
            return Seat(self._reaper)

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


_seats = _Seats()


def run_remotely(job: Job, settings: Settings) -> Run:
    """Run a job next to this process, in a process of its own.

    Parameters
    ----------
    job : Job
        The job.
    settings : Settings
        Its limits.
    """
    seat = _seats.take(job, settings)
    try:
        return seat.run(job, settings, threading.Event())
    finally:
        _seats.give_back(seat)


def leave() -> None:
    """End the seats of this process at once."""
    _seats.close()
