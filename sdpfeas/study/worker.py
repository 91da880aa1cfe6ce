"""The child process that runs cells.

It reads jobs and writes replies on two pipes of its own; standard output and standard error belong to the
backend and are collected by the parent. A mark in that output says where a cell's own begins. The worker
knows nothing of limits: those are enforced from outside.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pickle
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from sdpfeas.errors import in_words

__all__ = ["Answer", "Job", "main", "read_frame", "write_frame"]

HEADER = 8


@dataclass(frozen=True)
class Job:
    """What a worker is asked to do.

    Attributes
    ----------
    source : str
        Where the backend class is found again.
    options : dict
        Its options.
    problem : bytes
        The pickled problem, or family.
    time_limit : float
        Seconds for the backend.
    tol : float
        Relative width of the bracket, for a family.
    """

    source: str
    options: dict[str, Any]
    problem: bytes
    time_limit: float
    tol: float


@dataclass(frozen=True)
class Answer:
    """What a worker hands back.

    Attributes
    ----------
    claim : Claim
        The backend's claim. For a family, the evidence of both ends of the bracket.
    wall_time, cpu_time : float
        Seconds the backend took.
    peak_memory : int
        Most bytes resident, as far as the system tells.
    bracket : tuple of float, optional
        For a family, the bracket found.
    """

    claim: Any
    wall_time: float
    cpu_time: float
    peak_memory: int
    bracket: tuple[float, float] | None = None


def write_frame(stream: BinaryIO, value: object) -> None:
    """Write one pickled message with its length in front."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(HEADER, "little"))
    stream.write(data)
    stream.flush()


def read_frame(stream: BinaryIO) -> Any:
    """Read one message; raises EOFError at the end."""
    head = stream.read(HEADER)
    if len(head) < HEADER:
        raise EOFError
    return pickle.loads(stream.read(int.from_bytes(head, "little")))


def main(arguments: list[str]) -> None:
    """Serve jobs until the pipe is closed."""
    mark = arguments[2].encode()
    jobs = os.fdopen(int(arguments[0]), "rb")
    replies = os.fdopen(int(arguments[1]), "wb")
    # Children of the backend must not hold the pipes open once this process is gone.
    os.set_inheritable(jobs.fileno(), False)
    os.set_inheritable(replies.fileno(), False)
    # Paid for before the first job.
    import scipy.optimize
    import scipy.spatial.distance  # noqa: F401

    import sdpfeas.search.solving  # noqa: F401

    write_frame(replies, "up")
    warm = False
    while True:
        try:
            job = read_frame(jobs)
        except EOFError:
            return
        try:
            ready = _prepare(job)
        except Exception as error:  # noqa: BLE001 - anything may be wrong with a stranger's backend
            write_frame(replies, ("error", in_words(error)))
            continue
        if not warm:
            write_frame(replies, "warming")
            _warm_up(ready[0], job.time_limit)
            warm = True
            # What is loaded by now stays; without this every collection would walk all of it.
            gc.collect()
            gc.freeze()
        reset_peak_memory()
        _flush()
        with suppress(OSError):  # a backend may have closed it
            os.write(1, mark)
        write_frame(replies, "ready")
        answer = _run(*ready, job)
        _flush()
        write_frame(replies, answer)
        del answer, ready
        gc.collect()


@cache
def _backend_class(source: str) -> Any:
    from sdpfeas.search.isolation import _find_again

    return _find_again(source)


def _prepare(job: Job) -> tuple[Any, Any]:
    backend = _backend_class(job.source)(**job.options)
    # The backend's own imports are not what a study measures.
    for module in backend.requires:
        importlib.import_module(module)
    return backend, pickle.loads(job.problem)


def _warm_up(backend: Any, time_limit: float) -> None:
    """Solve two trivial problems: what is imported and compiled on the way is not what a study measures."""
    import numpy as np

    import sdpfeas.search.bisection  # noqa: F401 - as above
    from sdpfeas.backends.asking import ask
    from sdpfeas.backends.inquiry import Inquiry
    from sdpfeas.deadline import Deadline
    from sdpfeas.problem.problem import FeasibilityProblem
    from sdpfeas.problem.sets import PSD, SpectralBox

    for block in (PSD(2), SpectralBox(2, trace=1.0)):
        trivial = FeasibilityProblem([block], [np.diag([1.0, 0.5])[None]], [0.5], [1.0])
        ask(backend, trivial, Inquiry(trivial, deadline=Deadline(min(time_limit, 5.0))))


def _run(backend: Any, problem: Any, job: Job) -> Answer:
    from sdpfeas.backends.asking import ask
    from sdpfeas.backends.claimed import plain_info
    from sdpfeas.backends.inquiry import Inquiry
    from sdpfeas.deadline import Deadline
    from sdpfeas.problem.problem import FeasibilityProblem
    from sdpfeas.verifier.results import Claim, Stop

    bracket = None
    cpu, begin = time.process_time(), time.perf_counter()
    if isinstance(problem, FeasibilityProblem):
        claim = ask(backend, problem, Inquiry(problem, deadline=Deadline(job.time_limit)))
    else:
        try:
            claim, bracket = _bisect(backend, problem, job)
        except Exception as error:  # noqa: BLE001 - as ask does for a single solve
            claim = Claim(stop=Stop.ERROR, raw_status=in_words(error))
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    claim = replace(claim, info=plain_info(claim.info))
    return Answer(claim, wall, cpu, peak_memory(), bracket)


def _bisect(backend: Any, family: Any, job: Job) -> tuple[Any, tuple[float, float]]:
    from sdpfeas.backends.registry import Solver
    from sdpfeas.search.bisection import bisect
    from sdpfeas.verifier.results import Claim, Stop

    solver = Solver(backend.name, type(backend), job.options, job.source)
    found = bisect(family, solver, tol=job.tol, time_limit=job.time_limit)
    claim = Claim(
        point=found.point,
        certificate=found.certificate,
        raw_status=f"{found.lower:.9g} <= delta* <= {found.upper:.9g}: {found.reason}",
        stop=Stop.FINISHED if found.converged else Stop.STALLED,
        iterations=sum(step.iterations or 0 for step in found.history),
        info={"solves": found.solves},
    )
    return claim, (float(found.lower), float(found.upper))


def reset_peak_memory() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    with suppress(OSError, StopIteration, ValueError):
        status = Path("/proc/self/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _flush() -> None:
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    with suppress(Exception):
        ctypes.CDLL(None).fflush(None)  # what native solvers printed
