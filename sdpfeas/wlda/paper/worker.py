"""The child process that runs experiments, on the pipes of a worker of studies."""

from __future__ import annotations

import os
import pickle
import time
from typing import Any

from sdpfeas.study.worker import Answer, peak_memory, read_frame, reset_peak_memory, write_frame
from sdpfeas.wlda.paper.experiment import rehearse, run_experiment

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Serve jobs until the pipe is closed.

    Parameters
    ----------
    arguments : list of str
        Descriptors of the two pipes, and the mark where the output of a cell begins.
    """
    jobs = os.fdopen(int(arguments[0]), "rb")
    replies = os.fdopen(int(arguments[1]), "wb")
    mark = arguments[2].encode()
    for pipe in (jobs, replies):
        os.set_inheritable(pipe.fileno(), False)
    write_frame(replies, "up")
    rehearsed: set[str] = set()
    while True:
        try:
            experiment = pickle.loads(read_frame(jobs).problem)
        except EOFError:
            return
        try:
            sample = experiment.task.sample(experiment.split)
            if experiment.method not in rehearsed:
                rehearse(experiment.method)
                rehearsed.add(experiment.method)
        except Exception as error:  # noqa: BLE001 - one method on one split may fail; the table says so
            write_frame(replies, ("error", _words(error)))
            continue
        reset_peak_memory()
        os.write(1, mark)
        write_frame(replies, "ready")
        cpu, begin = time.process_time(), time.perf_counter()
        outcome: Any
        try:
            outcome = run_experiment(experiment, sample)
        except Exception as error:  # noqa: BLE001 - as above
            outcome = _words(error)
        spent = time.perf_counter() - begin
        write_frame(replies, Answer(outcome, spent, time.process_time() - cpu, peak_memory()))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
