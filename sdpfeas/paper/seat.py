"""A place where experiments run: a warm child process, watched and, at the cap, killed from outside.

The workers of :mod:`sdpfeas.study.process` run backends on problems and nothing else; an experiment is
neither. Seen from a runner it is a place like any other: a job goes in, a run comes out.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import psutil

from sdpfeas.paper.experiment import rehearse, run_experiment
from sdpfeas.study.process import End, Interrupted, Run
from sdpfeas.study.reaper import Reaper
from sdpfeas.study.settings import Settings
from sdpfeas.study.worker import Answer, Job

__all__ = ["ExperimentSeat"]

#: Seconds between two looks at the clock and at whether to stop.
LOOK = 0.05

#: Seconds a child may take to start, to read its data and to rehearse a method.
SETUP_LIMIT = 300.0


class ExperimentSeat:
    """Runs one experiment at a time.

    Parameters
    ----------
    reaper : Reaper
        Kills the child should this process die.
    """

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper
        self._child: BaseProcess | None = None
        self._pipe: Connection | None = None

    def run(self, job: Job, settings: Settings, stop: threading.Event) -> Run:
        """Run an experiment; whatever goes wrong costs this child, and this run, only.

        Parameters
        ----------
        job : Job
            Its problem is the pickled :class:`~sdpfeas.paper.experiment.Experiment`.
        settings : Settings
            The cap, counted from when the data are there.
        stop : Event
            Ends it early.

        Returns
        -------
        Run
            The claim of its answer is the :class:`~sdpfeas.paper.experiment.Outcome`.

        Raises
        ------
        Interrupted
            If ``stop`` is set before it is done.
        """
        begin = time.monotonic()

        def ended(end: End, detail: str, answer: Answer | None = None) -> Run:
            peak = 0 if answer is None else answer.peak_memory
            return Run(end, detail, answer, time.monotonic() - begin, peak, "")

        try:
            pipe = self._started()
            pipe.send_bytes(job.problem)
            reply = self._reply(pipe, SETUP_LIMIT, stop)
            if reply == "ready":
                begin = time.monotonic()
                reply = self._reply(pipe, settings.time_limit, stop)
        except TimeoutError:
            self.close()
            return ended(End.TIMEOUT, "killed at the cap")
        except (EOFError, OSError):
            return ended(End.CRASH, self._epitaph())
        except Interrupted:
            self.close()
            raise
        return ended(End.DONE, "", reply) if isinstance(reply, Answer) else ended(End.ERROR, str(reply))

    def _started(self) -> Connection:
        if self._pipe is None:
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            self._child = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._child.start()
            theirs.close()
            assert self._child.pid is not None
            self._reaper.watch(self._child.pid)
            self._pipe = ours
        return self._pipe

    @staticmethod
    def _reply(pipe: Connection, limit: float, stop: threading.Event) -> Any:
        deadline = time.monotonic() + limit
        while not pipe.poll(LOOK):
            if stop.is_set():
                raise Interrupted
            if time.monotonic() > deadline:
                raise TimeoutError
        return pipe.recv()

    def _epitaph(self) -> str:
        child = self._child
        if child is None:
            return "the process could not be started"
        child.join(1.0)
        code = child.exitcode
        self.close()
        return f"the process ended with exit code {code}"

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            assert self._child.pid is not None
            self._child.kill()
            self._reaper.release(self._child.pid)
            self._child.join()
            self._child = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _serve(pipe: Connection) -> None:
    """Run experiments until the pipe is closed."""
    # A group of its own, for the reaper; and a Ctrl-C meant for the parent does not reach it.
    with suppress(OSError):
        os.setsid()
    rehearsed: set[str] = set()
    while True:
        try:
            experiment = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        try:
            sample = experiment.task.sample(experiment.split)
            if experiment.method not in rehearsed:
                rehearse(experiment.method)
                rehearsed.add(experiment.method)
            pipe.send("ready")
            cpu = time.process_time()
            outcome = run_experiment(experiment, sample)
            peak = psutil.Process().memory_info().rss
            pipe.send(Answer(outcome, outcome.time, time.process_time() - cpu, peak))
        except Exception as error:  # noqa: BLE001 - one method on one split may fail; the table says so
            pipe.send(f"{type(error).__name__}: {error}")
