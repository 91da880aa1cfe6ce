"""Run a backend in a child process, so that a hang, a crash or a memory leak costs one result only.

:func:`run_isolated` is what ``solve(..., isolate=True)`` calls; :func:`answer` runs in the child.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.dispatch import dispatch
from sdpfeas.backends.inquiry import Inquiry, WarmStart
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.cards.finder import dropin_file, load_module
from sdpfeas.claims import Claim, Stop, pack_claim, plain_info, unpack_claim
from sdpfeas.deadline import Deadline
from sdpfeas.errors import BackendError, safe_text
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.trials.trial import End, Limits, Trial
from sdpfeas.trials.workers import run_once, run_shared

#: Most seconds for a child to start, to import the backend and to unpickle the problem.
START_SECONDS = 60.0


@dataclass(frozen=True)
class Question:
    """A solve for a child process.

    ``source`` locates the class of the backend (:func:`source_of`), or is a name or path as a user writes it
    if ``named``. ``time_limit`` counts from ``asked``, a time on the monotonic clock of all processes.
    """

    source: str
    options: Mapping[str, Any]
    problem: FeasibilityProblem
    time_limit: float | None
    warm_start: WarmStart | None
    rigorous: bool
    asked: float
    reading: str = "stored"
    named: bool = False


def run_isolated(
    solver: Solver | str,
    options: Mapping[str, Any],
    problem: FeasibilityProblem,
    time_limit: float | None,
    warm_start: WarmStart | None,
    *,
    rigorous: bool = False,
    reading: str = "stored",
    memory_limit: int | None = None,
) -> tuple[Claim, dict[str, Any]]:
    """Run a solver in a child process; return its claim, and its name, version and options.

    ``solver`` is a name or path if only the child may import its code. The time limit includes the start of
    the child, but at least half of it is left to the backend. ``memory_limit`` is in bytes. Raises
    ``BackendError`` if the child cannot find or make the backend.
    """
    named = isinstance(solver, str)
    source = solver if isinstance(solver, str) else source_of(solver.kind)
    given = {**({} if isinstance(solver, str) else solver.options), **options}
    now = time.monotonic()
    question = Question(source, given, problem, time_limit, warm_start, rigorous, now, reading, named)
    limits = Limits(memory=memory_limit, threads=None, setup=START_SECONDS)
    trial = Trial("sdpfeas.drivers.isolation:solve_in_worker", pickle.dumps(question), limits, source)
    # The library's own backends leave a process reusable; for others the child ends with the result.
    run = run_shared(trial) if source.startswith("sdpfeas.") else run_once(trial)
    if run.log:
        print(run.log, end="", file=sys.stderr)  # standard output is for results
    if run.end is End.ERROR and run.facts is None:
        raise BackendError(f"backend {source!r} cannot run in a child process: {run.detail}")
    about = run.facts or {}
    if run.end is End.DONE:
        return unpack_claim(run.value), about
    if run.end is End.TIMEOUT:
        return Claim(stop=Stop.TIME_LIMIT, raw_status="killed at the time limit"), about
    return Claim(stop=Stop.ERROR, raw_status=f"{run.end}: {run.detail}"), about


def solve_in_worker(question: Question, start: Callable[..., None]) -> dict[str, Any]:
    """Solve in the child process: the target of the trial."""
    if question.named:
        backend = make_available(find_solver(question.source), question.options)
    else:
        backend = find_backend(question.source, question.options)
    about = {
        "backend": safe_text(backend.name),
        "version": safe_text(backend.version()),
        "options": plain_info(backend.option_values()),
    }
    limit = question.time_limit
    if limit is None:
        start(**about)
    else:
        limit -= min(time.monotonic() - question.asked, 0.5 * limit)
        start(1.05 * limit + 0.25, **about)
    inquiry = Inquiry(
        question.problem,
        deadline=Deadline(limit),
        start=question.warm_start,
        rigorous=question.rigorous,
        reading=question.reading,
    )
    return run_and_pack(backend, question.problem, inquiry)


def make_available(solver: Solver, options: Mapping[str, Any]) -> FeasibilityBackend:
    """Make a backend; raise ``BackendError`` if it cannot run here."""
    backend = solver.make(**options)
    available, reason = backend.available()
    if not available:
        raise BackendError(f"backend {backend.name!r} is not available: {reason}")
    return backend


def run_and_pack(
    backend: FeasibilityBackend, problem: FeasibilityProblem, inquiry: Inquiry
) -> dict[str, Any]:
    """Run a backend; return its claim as plain data, for :func:`unpack_claim`."""
    return pack_claim(dispatch(backend, problem, inquiry))


def source_of(kind: type[FeasibilityBackend]) -> str:
    """Locate a class for another process: its module or drop-in file, and its name.

    Raises ``BackendError`` if no other process can import it.
    """
    module = sys.modules.get(kind.__module__)
    try:
        found = attrgetter(kind.__qualname__)(module)
    except AttributeError:
        found = None
    if found is not kind or module is None or kind.__module__ == "__main__":
        raise BackendError(
            f"class {kind.__qualname__} of {kind.__module__} cannot be imported in a child process: "
            "define it at the top of a module that can be imported, or in a drop-in file"
        )
    return f"{dropin_file(kind) or kind.__module__}:{kind.__qualname__}"


def find_backend(source: str, options: Mapping[str, Any]) -> FeasibilityBackend:
    """Import the class of a backend and the packages it requires, and make it."""
    place, _, name = source.rpartition(":")
    module = load_module(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    backend: FeasibilityBackend = attrgetter(name)(module)(**options)
    for required in backend.requires:
        importlib.import_module(required)
    return backend
