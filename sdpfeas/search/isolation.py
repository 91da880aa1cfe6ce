"""Run a backend in a child process, so that a hang, a crash or a leak costs one answer."""

from __future__ import annotations

import importlib
import multiprocessing
import multiprocessing.connection
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.results import Claim, Stop

if TYPE_CHECKING:
    from sdpfeas.backends.inquiry import WarmStart
    from sdpfeas.backends.registry import Solver

__all__ = ["run_isolated"]

#: Seconds a child may take to start and import before its time limit begins to count.
START_LIMIT = 120.0

#: Seconds a child may run past its limit to hand in what it has, before it is killed.
GRACE = 0.25


def run_isolated(
    solver: Solver, problem: FeasibilityProblem, time_limit: float | None, warm_start: WarmStart | None
) -> Claim:
    """Run a solver in a child process and return its claim.

    Parameters
    ----------
    solver : Solver
        The solver; found again in the child by its source.
    problem : FeasibilityProblem
        The problem.
    time_limit : float, optional
        Seconds from the moment the child is ready; then it is killed.
    warm_start : WarmStart, optional
        Where to start from.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    source = solver.source or f"{solver.kind.__module__}:{solver.kind.__qualname__}"
    job = (source, dict(solver.options), problem, time_limit, warm_start)
    child = context.Process(target=_child, args=(theirs, job), daemon=True)
    child.start()
    theirs.close()
    try:
        if not ours.poll(START_LIMIT):
            return Claim(stop=Stop.ERROR, raw_status="the child process did not start")
        ready = ours.recv()
        if isinstance(ready, Claim):
            return ready
        if not ours.poll(None if time_limit is None else time_limit + GRACE):
            return Claim(stop=Stop.TIME_LIMIT, raw_status="killed at the time limit")
        answer = ours.recv()
        return answer if isinstance(answer, Claim) else Claim(stop=Stop.ERROR, raw_status=str(answer))
    except EOFError:
        child.join()
        return Claim(stop=Stop.ERROR, raw_status=_epitaph(child.exitcode))
    finally:
        if child.is_alive():
            child.kill()
        child.join()
        ours.close()


def _epitaph(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return f"the child process died of {signal.Signals(-code).name}"
        except ValueError:
            pass
    return f"the child process ended with exit code {code}"


def _child(pipe: multiprocessing.connection.Connection, job: tuple[Any, ...]) -> None:
    from sdpfeas.backends.asking import ask
    from sdpfeas.backends.inquiry import Inquiry
    from sdpfeas.deadline import Deadline

    # Ctrl-C goes to the whole process group; the parent decides what becomes of the child.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, options, problem, time_limit, warm_start = job
    try:
        backend = _find_again(source)(**options)
    except Exception as error:  # noqa: BLE001 - anything may be wrong with a stranger's backend
        pipe.send(Claim(stop=Stop.ERROR, raw_status=f"{type(error).__name__}: {error}"))
        return
    pipe.send("ready")
    claim = ask(backend, problem, Inquiry(problem, deadline=Deadline(time_limit), start=warm_start))
    try:
        pipe.send(claim)
    except Exception as error:  # noqa: BLE001 - a claim may carry what cannot be pickled
        pipe.send(replace(claim, info={}, raw_status=f"{claim.raw_status} (info dropped: {error})"))


def _find_again(source: str) -> Any:
    from sdpfeas.backends.registry import find_solver

    module, colon, qualname = source.partition(":")
    if colon and not Path(source).is_file():
        found: Any = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
        return found
    return find_solver(source).kind
