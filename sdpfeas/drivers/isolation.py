"""Run a backend in a process of its own, so that a hang, a crash or a leak costs one answer."""

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
from sdpfeas.backends.dispatch import ask
from sdpfeas.backends.inquiry import Inquiry, WarmStart
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.cards.loader import dropin_file, load_module
from sdpfeas.claims import Claim, Stop, pack_claim, plain_info, unpack_claim
from sdpfeas.deadline import Deadline
from sdpfeas.errors import BackendError, in_words
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.trials.trial import End, Limits, Trial
from sdpfeas.trials.workers import run_once, run_shared

#: Seconds a child may take to start, to import and to take the problem.
START_LIMIT = 60.0


@dataclass(frozen=True)
class Question:
    """What a child is asked.

    ``source``: where the class of the backend is found again; see :func:`source_of`. ``time_limit``:
    seconds, from when the question was asked. ``rigorous``: whether only a rigorous or exact proof counts.
    ``asked``: when, on the clock that all processes share. ``reading``: which numbers of the problem the
    verdict is about. ``named``: whether ``source`` is what a user calls a solver instead: a path or a name.
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

    ``solver``: the solver, whose class is found again in the child, or what names one that only the child
    may import. ``options``: options besides those of the solver. ``time_limit``: seconds. The start of the
    child counts, but at least half of them are left to the backend. ``rigorous``: whether only a rigorous
    or exact proof counts. ``reading``: which numbers of the problem the verdict is about. ``memory_limit``:
    bytes that the child and all it starts may hold.

    Raises ``BackendError``: if the backend cannot be found or made in the child.
    """
    named = isinstance(solver, str)
    source = solver if isinstance(solver, str) else source_of(solver.kind)
    given = {**({} if isinstance(solver, str) else solver.options), **options}
    now = time.monotonic()
    question = Question(source, given, problem, time_limit, warm_start, rigorous, now, reading, named)
    limits = Limits(memory=memory_limit, threads=None, setup=START_LIMIT)
    trial = Trial("sdpfeas.drivers.isolation:answer", pickle.dumps(question), limits, source)
    # Our own backends leave a process as they found it; what a stranger's does is over with the answer.
    run = run_shared(trial) if source.startswith("sdpfeas.") else run_once(trial)
    if run.log:
        print(run.log, end="", file=sys.stderr)  # standard output is for answers
    if run.end is End.ERROR and run.facts is None:
        raise BackendError(f"backend {source!r} cannot be asked in a child process: {run.detail}")
    about = run.facts or {}
    if run.end is End.DONE:
        return unpack_claim(run.value), about
    if run.end is End.TIMEOUT:
        return Claim(stop=Stop.TIME_LIMIT, raw_status="killed at the time limit"), about
    return Claim(stop=Stop.ERROR, raw_status=f"{run.end}: {run.detail}"), about


def answer(question: Question, start: Callable[..., None]) -> dict[str, Any]:
    """Answer a question: the target of the trial that is an isolated solve."""
    if question.named:
        backend = _available(find_solver(question.source).make(**question.options))
    else:
        backend = find_backend(question.source, question.options)
    about = {
        "backend": in_words(backend.name),
        "version": in_words(backend.version()),
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
    return ask_plainly(backend, question.problem, inquiry)


def _available(backend: FeasibilityBackend) -> FeasibilityBackend:
    fine, why = backend.available()
    if not fine:
        raise BackendError(f"backend {backend.name!r} is not available: {why}")
    return backend


def ask_plainly(backend: FeasibilityBackend, problem: FeasibilityProblem, inquiry: Inquiry) -> dict[str, Any]:
    """Ask a backend; return its claim as plain data, for :func:`unpack_claim`.

    ``inquiry``: what it is asked besides the problem.
    """
    return pack_claim(ask(backend, problem, inquiry))


def source_of(kind: type[FeasibilityBackend]) -> str:
    """Where another process finds a class again: its module, or the file of a drop-in, and its name.

    Raises ``BackendError``: if no other process can find it.
    """
    module = sys.modules.get(kind.__module__)
    try:
        found = attrgetter(kind.__qualname__)(module)
    except AttributeError:
        found = None
    if found is not kind or module is None or kind.__module__ == "__main__":
        raise BackendError(
            f"class {kind.__qualname__} of {kind.__module__} cannot be found again in a child process: "
            "define it at the top of a module that can be imported, or in a drop-in file"
        )
    return f"{dropin_file(kind) or kind.__module__}:{kind.__qualname__}"


def find_backend(source: str, options: Mapping[str, Any]) -> FeasibilityBackend:
    """Find the class of a backend again, import what it needs, and make it."""
    place, _, name = source.rpartition(":")
    module = load_module(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    backend: FeasibilityBackend = attrgetter(name)(module)(**options)
    for required in backend.requires:
        importlib.import_module(required)
    return backend
