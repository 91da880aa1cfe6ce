"""Time solvers on problems: one benchmark per pair of cards.

What is timed is the backend alone, as in a study: a solve, or for a family the whole search for a bracket.
The answer is verified outside the timing. ``extra_info`` holds the verdict and the hashes of solver and
problem: times of two commits are about the same thing exactly where these agree.
"""

from __future__ import annotations

import math
import time
from typing import Any

import sdpfeas as sf
from sdpfeas.backends.dispatch import dispatch
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.deadline import Deadline
from sdpfeas.study.comparison import Comparison, ComparisonCell
from sdpfeas.study.dropin_process import ForeignFamily
from sdpfeas.verifier import decide

#: Seconds to spend on the rounds of one benchmark, and how many there may be.
BUDGET, ROUNDS = 1.0, (1, 20)


def test_card(benchmark: Any, plan: Comparison, cell: ComparisonCell) -> None:
    problem = plan.build(cell.problem)
    if isinstance(problem, ForeignFamily):
        problem = problem.load()
    settings = plan.settings
    solver = sf.find_solver(cell.solver.spec)
    backend = solver.make()

    def run() -> Any:
        if isinstance(problem, sf.FeasibilityProblem):
            return dispatch(backend, problem, Inquiry(problem, deadline=Deadline(settings.time_limit)))
        return sf.bisect(problem, solver, tol=settings.tol, time_limit=settings.time_limit)

    begin = time.perf_counter()
    run()  # imports and caches
    rounds = min(max(math.ceil(BUDGET / (time.perf_counter() - begin)), ROUNDS[0]), ROUNDS[1])
    benchmark.group = cell.problem.label
    found = benchmark.pedantic(run, rounds=rounds)
    if isinstance(problem, sf.FeasibilityProblem):
        check = decide(problem, found)
        benchmark.extra_info.update(verdict=check.verdict, proof=check.proof)
    else:
        benchmark.extra_info.update(lower=found.lower, upper=found.upper)
    benchmark.extra_info.update(
        solver=cell.solver.name,
        solver_hash=cell.solver.key,
        solver_version=cell.solver.version,
        problem=cell.problem.label,
        problem_hash=cell.problem.key,
        time_limit=settings.time_limit,
    )
