"""What a worker does for a cell of a comparison: ask the backend, or bisect the family."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.registry import Solver
from sdpfeas.claims import Claim, Stop, pack_claim
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bisection import bisect
from sdpfeas.drivers.isolation import ask_plainly, find_backend
from sdpfeas.errors import in_words
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import PSD, SpectralBox
from sdpfeas.study.dropin_process import ForeignFamily


@dataclass(frozen=True)
class CellQuestion:
    """What is asked of a backend.

    ``source``: where its class is found again. ``tol``: relative width of the bracket, for a family.
    """

    source: str
    options: Mapping[str, Any]
    problem: FeasibilityProblem | ParametricFamily | ForeignFamily
    time_limit: float
    tol: float


#: Backends that have been warmed up in this process.
_warm: set[str] = set()


def answer(question: CellQuestion, start: Callable[..., None]) -> dict[str, Any]:
    """Answer a question, the backend warm: the target of the trial that is a cell."""
    backend = find_backend(question.source, question.options)
    asked = question.problem
    problem = asked.load() if isinstance(asked, ForeignFamily) else asked
    if question.source not in _warm:
        start()
        _warm_up(backend, question.time_limit)
        _warm.add(question.source)
        # What is loaded by now stays; without this every collection would walk all of it.
        gc.collect()
        gc.freeze()
    start()
    if isinstance(problem, FeasibilityProblem):
        return _ask(backend, problem, question.time_limit)
    try:
        return pack_claim(_bisect(backend, problem, question))
    except Exception as error:  # noqa: BLE001 - as for a single solve
        return pack_claim(Claim(stop=Stop.ERROR, raw_status=in_words(error)))


def _warm_up(backend: FeasibilityBackend, time_limit: float) -> None:
    """Solve two trivial problems: what is imported and compiled on the way is not what a study measures."""
    for block in (PSD(2), SpectralBox(2, trace=1.0)):
        trivial = FeasibilityProblem([block], [np.diag([1.0, 0.5])[None]], [0.5], [1.0])
        _ask(backend, trivial, min(time_limit, 5.0))


def _ask(backend: FeasibilityBackend, problem: FeasibilityProblem, time_limit: float) -> dict[str, Any]:
    return ask_plainly(backend, problem, Inquiry(problem, deadline=Deadline(time_limit)))


def _bisect(backend: FeasibilityBackend, family: ParametricFamily, question: CellQuestion) -> Claim:
    solver = Solver(backend.name, type(backend), question.options)
    found = bisect(family, solver, tol=question.tol, time_limit=question.time_limit)
    return Claim(
        point=found.point,
        certificate=found.certificate,
        raw_status=f"{found.lower:.9g} <= delta* <= {found.upper:.9g}: {found.reason}",
        stop=Stop.FINISHED if found.converged else Stop.STALLED,
        iterations=sum(step.iterations or 0 for step in found.history),
        info={"solves": found.solves},
    )
