"""For authors of backends: the conformance suite."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.claims import Claim, Stop, Verdict
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import OptionError
from sdpfeas.families import planted
from sdpfeas.families.planted import PlantedProblem, feasible_lmis, infeasible_lmis
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import PSD, Free, Nonneg
from sdpfeas.verifier.results import Result

# ------------------------------------------------------------
# The conformance suite any backend must pass, ours or a stranger's.
#
# ``check_backend`` asks a backend planted problems of known truth and looks at how it behaves: right
# answers, no wrong ones, limits obeyed, options refused by name, the same answer twice. It takes a minute
# at most.

#: Seconds a backend gets for one small problem of the suite.
PATIENCE = 20.0

#: Share of the small problems a conforming backend must decide.
MUST_DECIDE = 0.9


@dataclass(frozen=True)
class Finding:
    """One check of the suite.

    Attributes
    ----------
    name : str
        What was checked.
    passed : bool
        Whether the backend conforms.
    detail : str
        Numbers behind it, or what went wrong.
    """

    name: str
    passed: bool
    detail: str


def check_backend(
    backend: str | Path | type[FeasibilityBackend] | Solver,
    *,
    seed: int = 0,
    progress: Callable[[Finding], None] | None = None,
) -> list[Finding]:
    """Run the conformance suite.

    Parameters
    ----------
    backend : str, Path, type or Solver
        Whatever :func:`sdpfeas.find_solver` takes.
    seed : int
        Seed of the planted problems.
    progress : callable, optional
        Called with every finding as it comes.

    Returns
    -------
    list of Finding
        One per check; the backend conforms if all passed.
    """
    solver = find_solver(backend)
    findings: list[Finding] = []
    fine, reason = solver.kind.available()
    first = Finding("available", fine, reason or f"version {solver.kind.version()}")
    for finding in itertools.chain([first], _checks(solver, seed) if fine else []):
        findings.append(finding)
        if progress is not None:
            progress(finding)
    return findings


def _checks(solver: Solver, seed: int) -> Iterator[Finding]:
    exam = _Exam(solver)
    yield exam.mark(_truthful("every set, planted point", exam, list(_every_set(seed, truth=True))))
    yield exam.mark(_truthful("every set, planted certificate", exam, list(_every_set(seed, truth=False))))
    yield exam.mark(_truthful("linear matrix inequalities", exam, list(_matrix_inequalities(seed))))
    yield exam.mark(_truthful("badly scaled twins", exam, list(_badly_scaled(seed))))
    yield exam.mark(_truthful("just inside and just outside", exam, list(_neighbours(seed))))
    yield exam.mark(_weakly_infeasible(exam))
    yield exam.mark(_time_limit(exam, seed))
    yield exam.mark(_callback(exam, seed))
    yield _unknown_option(solver)
    yield exam.mark(_warm_start(exam, seed))
    yield exam.mark(_deterministic(exam, seed))


class _Exam:
    """Asks the backend, and remembers what it raised or got wrong in form: no check is passed by that."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self._raised = ""

    def ask(self, problem: FeasibilityProblem, **settings: object) -> Result:
        """Ask one problem."""
        result = solve(problem, self.solver, **{"time_limit": PATIENCE, **settings})  # type: ignore[arg-type]
        if "raised" in result.claim.info and not self._raised:
            words = result.raw_status.partition("\n")[0]
            self._raised = f"raised {words} in {result.claim.info['raised']}"
        malformed = result.claim.info.get("malformed") or result.check.malformed
        if malformed and not self._raised:
            self._raised = f"handed in a malformed claim: {malformed}"
        return result

    def mark(self, finding: Finding) -> Finding:
        """The finding, failed if the backend raised while it was made."""
        raised, self._raised = self._raised, ""
        return replace(finding, passed=False, detail=raised) if raised else finding


def _truthful(name: str, exam: _Exam, problems: list[PlantedProblem]) -> Finding:
    """Ask planted problems: nothing wrong, and nearly all decided."""
    right, open_ones = 0, []
    for item in problems:
        result = exam.ask(item.problem)
        if result.verdict is item.lie:
            return Finding(name, False, f"WRONG verdict on {item.name}: {result.verdict}, {result.reason}")
        if result.verdict is item.truth:
            right += 1
        elif result.stop is Stop.UNSUPPORTED:
            open_ones.append(f"{item.name} (not supported)")
        else:
            open_ones.append(item.name)
    detail = f"{right} of {len(problems)} decided"
    if open_ones:
        detail += "; undecided: " + ", ".join(open_ones[:4]) + (" …" if len(open_ones) > 4 else "")
    return Finding(name, right >= MUST_DECIDE * len(problems), detail)


def _every_set(seed: int, *, truth: bool) -> Iterator[PlantedProblem]:
    rng = np.random.default_rng([seed, truth])
    plant = planted.feasible if truth else planted.infeasible
    for name, sets in planted.set_mixes().items():
        for bounds in ("equality", "inequality", "mixed"):
            yield replace(plant(rng, sets, bounds=bounds), name=f"{name}, {bounds}")


def _matrix_inequalities(seed: int) -> Iterator[PlantedProblem]:
    rng = np.random.default_rng([seed, 2])
    for truth in (True, False):
        for n in (2, 4):
            yield replace(planted.lmi(rng, n, 2, truth=truth), name=f"lmi {n}, {truth}")
        plant = feasible_lmis if truth else infeasible_lmis
        for sets in ([Free(3)], [Free(2), PSD(2)]):
            item = plant(rng, sets, [PSD(3), Nonneg(2)], rows=1, bounds="inequality")
            yield replace(item, name=f"lmis on {len(sets)} block(s), {truth}")


def _badly_scaled(seed: int) -> Iterator[PlantedProblem]:
    rng = np.random.default_rng([seed, 3])
    for name in ("psd", "box trace", "psd nonneg"):
        for plant in (planted.feasible, planted.infeasible):
            item = plant(rng, planted.set_mixes()[name])
            factors = 10.0 ** rng.uniform(-5, 5, item.problem.m)
            yield replace(item, problem=scaled_twin(item.problem, factors), name=f"{name}, {item.truth}")


def scaled_twin(problem: FeasibilityProblem, factors: np.ndarray) -> FeasibilityProblem:
    """Return the problem with every row in other units."""
    return FeasibilityProblem(
        problem.sets,
        [rows.scaled(factors) for rows in problem.rows],
        problem.lower * factors,
        problem.upper * factors,
    )


def _neighbours(seed: int) -> Iterator[PlantedProblem]:
    """Pairs across the boundary: a row that asks for slightly less, or more, than its set can give."""
    rng = np.random.default_rng([seed, 4])
    for name in ("box trace", "box"):
        (box,) = planted.set_mixes()[name]
        g = planted.symmetric(rng, box.n)
        best = box.support(g)
        for share in (1e-3, -1e-3):
            bound = best - share * abs(best)
            problem = FeasibilityProblem([box], [g[None]], [bound], [np.inf])
            yield PlantedProblem(problem, share > 0, name=f"{name}, {'inside' if share > 0 else 'outside'}")


def _weakly_infeasible(exam: _Exam) -> Finding:
    """No verdict is right where no proof exists: X11 = 0 and X12 = 1 on a PSD block."""
    rows = np.zeros((2, 2, 2))
    rows[0, 0, 0] = 1.0
    rows[1, 0, 1] = rows[1, 1, 0] = 0.5
    problem = FeasibilityProblem([PSD(2)], [rows], [0.0, 1.0], [0.0, 1.0])
    result = exam.ask(problem)
    # There is no certificate; a chain of multipliers is the only proof.
    fine = result.verdict is Verdict.UNDECIDED or (
        result.verdict is Verdict.INFEASIBLE and result.check.chain is not None
    )
    return Finding("weakly infeasible", fine, f"{result.verdict}: {result.raw_status}")


def _hard(seed: int) -> FeasibilityProblem:
    """Return a problem that takes more than a moment."""
    rng = np.random.default_rng([seed, 5])
    sets = planted.set_mixes(8)["box trace"]
    return planted.feasible(rng, sets, rows=60, margin=1e-9).problem


def _time_limit(exam: _Exam, seed: int) -> Finding:
    problem = _hard(seed)
    limit = 0.2
    begin = time.perf_counter()
    result = exam.ask(problem, time_limit=limit)
    took = time.perf_counter() - begin
    # Compiling and one native iteration may come on top; a hang may not.
    decided = result.verdict is not Verdict.UNDECIDED
    stopped = result.stop is Stop.TIME_LIMIT or decided or took < limit
    fine = took <= 5.0 and (stopped or result.solve_time <= 1.1 * limit + 0.5)
    return Finding("time limit", fine, f"limit {limit} s, took {result.solve_time:.2f} s: {result.stop}")


def _callback(exam: _Exam, seed: int) -> Finding:
    if not exam.solver.kind.calls_back:
        return Finding("callback", True, "not offered")
    calls: list[int] = []

    def stop_at_once(progress: object) -> bool:
        calls.append(1)
        return True

    result = exam.ask(_hard(seed), callback=stop_at_once)
    stopped = result.stop is Stop.CALLBACK or result.verdict is not Verdict.UNDECIDED
    return Finding(
        "callback", bool(calls) and stopped and len(calls) <= 2, f"{len(calls)} call(s), {result.stop}"
    )


def _unknown_option(solver: Solver) -> Finding:
    try:
        solver.make(no_such_option=1)
    except OptionError as error:
        return Finding("unknown option", "no_such_option" in str(error), str(error))
    except TypeError as error:
        return Finding("unknown option", False, f"TypeError instead of OptionError: {error}")
    return Finding("unknown option", False, "accepted silently")


def _warm_start(exam: _Exam, seed: int) -> Finding:
    rng = np.random.default_rng([seed, 6])
    for plant in (planted.feasible, planted.infeasible):
        item = plant(rng, planted.set_mixes()["box nonneg"])
        cold = exam.ask(item.problem)
        wrong = Claim(
            point=tuple(np.full(s.shape, 3.0) for s in item.problem.sets),
            certificate=np.ones(item.problem.m),
        )
        for start in (cold, wrong):
            if exam.ask(item.problem, warm_start=start).verdict is not cold.verdict:
                return Finding("warm start", False, "a warm start moved the verdict")
    return Finding("warm start", True, "verdicts unmoved" if exam.solver.kind.warm_starts else "ignored")


def _deterministic(exam: _Exam, seed: int) -> Finding:
    rng = np.random.default_rng([seed, 7])
    points = 0
    for name in ("all", "psd", "box trace"):
        item = planted.feasible(rng, planted.set_mixes()[name])
        one, two = exam.ask(item.problem), exam.ask(item.problem)
        if one.verdict is not two.verdict or one.iterations != two.iterations or not _same(one, two):
            return Finding("deterministic", False, "two runs differ")
        points += one.point is not None
    if not points:
        return Finding("deterministic", False, "no point to compare: nothing was handed in")
    return Finding("deterministic", True, "the same point twice")


def _same(one: Result, two: Result) -> bool:
    """Whether two answers hold the same point, or none."""
    if one.point is None or two.point is None:
        return one.point is two.point
    return all(np.array_equal(a, b) for a, b in zip(one.point, two.point, strict=True))


__all__ = ["Finding", "check_backend"]
