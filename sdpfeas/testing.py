"""Conformance suite and benchmarks for authors of backends.

:func:`check_backend` runs a backend on planted problems with known answers and checks its behaviour: no wrong
verdict, nearly all problems decided, time limit and callback respected, unknown options rejected by name,
warm starts without effect on verdicts, deterministic results. It takes at most a minute for most backends.
:func:`benchmark_solve` times a solver with pytest-benchmark.
"""

from __future__ import annotations

import itertools
import math
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas import __version__
from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.dispatch import dispatch
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.claims import Claim, Stop, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bisection import bisect
from sdpfeas.drivers.bracket import BisectionResult
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import OptionError, hint
from sdpfeas.families import planted
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.families.planted import PlantedProblem, feasible_lmis, infeasible_lmis
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import PSD, Free, Nonneg
from sdpfeas.verifier.results import Check, Result
from sdpfeas.verifier.verifier import decide

__all__ = ["Finding", "benchmark_solve", "check_backend", "conformance_problem"]

#: Seconds to spend on the rounds of one benchmark, and least and largest number of rounds.
BENCHMARK_SECONDS, BENCHMARK_ROUNDS = 1.0, (1, 20)

#: Default limits of a benchmark: seconds per solve, and relative width of the bracket of a family.
BENCHMARK_LIMIT, BENCHMARK_TOL = 60.0, 1e-3

#: Time limit of one small problem, in seconds.
SOLVE_SECONDS = 20.0

#: Seconds after which a solve with a short time limit counts as a hang.
MAX_OVERRUN_SECONDS = 5.0

#: Remark on a problem that the backend does not accept.
UNSUPPORTED = " (not supported)"

#: Share of the small problems that a conforming backend must decide.
MIN_DECIDED_SHARE = 0.9


@dataclass(frozen=True)
class Finding:
    """Result of one check of the conformance suite.

    Attributes
    ----------
    name : str
        Name of the check.
    passed : bool
        Whether the backend conforms.
    detail : str
        Numbers behind the result, or what went wrong.

    Examples
    --------
    >>> from sdpfeas.testing import Finding
    >>> Finding("time limit", True, "limit 0.2 s, took 0.11 s").passed
    True
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
    """Run the conformance suite on a backend.

    Parameters
    ----------
    backend : str, Path, type or Solver
        Anything that :func:`sdpfeas.find_solver` accepts.
    seed : int
        Seed of the planted problems.
    progress : callable, optional
        Called with every finding as soon as it is available.

    Returns
    -------
    list of Finding
        One per check; the backend conforms if all passed.

    Examples
    --------
    A backend whose package is missing fails the first check, and no other is run:

    >>> import sdpfeas as sf
    >>> from sdpfeas.testing import check_backend
    >>> class Missing(sf.FeasibilityBackend):
    ...     name = "missing"
    ...
    ...     @classmethod
    ...     def available(cls):
    ...         return False, "package not installed"
    ...
    ...     def solve(self, problem, inquiry):
    ...         return sf.Claim()
    >>> [(finding.name, finding.passed) for finding in check_backend(Missing)]
    [('available', False)]
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


def conformance_problem(name: str, seed: int = 0) -> FeasibilityProblem:
    """Rebuild a problem of the conformance suite by the name that a finding gives it.

    Parameters
    ----------
    name : str
        ``CHECK/PROBLEM``, such as ``every set, planted point/psd, equality``.
    seed : int
        Seed of the suite.

    Raises
    ------
    OptionError
        If there is no such problem.

    Examples
    --------
    >>> from sdpfeas.testing import conformance_problem
    >>> conformance_problem("just inside and just outside/box, inside").m
    1
    """
    check, _, rest = name.partition("/")
    found = {item.name: item.problem for item in _planted_problems(seed).get(check, ())}
    if rest not in found:
        known = found or _planted_problems(seed)
        raise OptionError(f"the conformance suite has no problem {name!r}; {hint(rest or check, known)}")
    return found[rest]


def _planted_problems(seed: int) -> dict[str, Iterator[PlantedProblem]]:
    """Return the problems with known answers, by check."""
    return {
        "every set, planted point": _every_set(seed, truth=True),
        "every set, planted certificate": _every_set(seed, truth=False),
        "linear matrix inequalities": _matrix_inequalities(seed),
        "badly scaled rows": _badly_scaled(seed),
        "just inside and just outside": _neighbours(seed),
    }


def _checks(solver: Solver, seed: int) -> Iterator[Finding]:
    session = _Session(solver)
    for name, problems in _planted_problems(seed).items():
        yield session.finish(_check_answers(name, session, list(problems)))
    yield session.finish(_weakly_infeasible(session))
    yield session.finish(_time_limit(session, seed))
    yield session.finish(_callback(session, seed))
    yield _unknown_option(solver)
    yield session.finish(_warm_start(session, seed))
    yield session.finish(_deterministic(session, seed))


class _Session:
    """Runs the backend and records exceptions and malformed claims, which fail the current check."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self._raised = ""

    def solve(self, problem: FeasibilityProblem, **settings: object) -> Result:
        """Solve one problem."""
        result = solve(problem, self.solver, **{"time_limit": SOLVE_SECONDS, **settings})  # type: ignore[arg-type]
        if "raised" in result.claim.info and not self._raised:
            words = result.raw_status.partition("\n")[0]
            self._raised = f"raised {words} in {result.claim.info['raised']}"
        malformed = result.claim.info.get("malformed") or result.check.malformed
        if malformed and not self._raised:
            self._raised = f"handed in a malformed claim: {malformed}"
        return result

    def finish(self, finding: Finding) -> Finding:
        """Return the finding, failed if the backend raised or returned a malformed claim meanwhile."""
        raised, self._raised = self._raised, ""
        return replace(finding, passed=False, detail=raised) if raised else finding


def _check_answers(name: str, session: _Session, problems: list[PlantedProblem]) -> Finding:
    """Solve planted problems: no verdict may be wrong, and nearly all problems must be decided."""
    right, undecided = 0, []
    for item in problems:
        result = session.solve(item.problem)
        if result.verdict is item.wrong_verdict:
            wrong = f"WRONG verdict on {name}/{item.name}: {result.verdict}, {result.reason}"
            return Finding(name, False, wrong)
        if result.verdict is item.truth:
            right += 1
        elif result.stop is Stop.UNSUPPORTED:
            undecided.append(item.name + UNSUPPORTED)
        else:
            undecided.append(item.name)
    needed = math.ceil(MIN_DECIDED_SHARE * len(problems))
    detail = f"{right} of {len(problems)} decided, {needed} needed, {SOLVE_SECONDS:g} s each"
    if undecided:
        detail += "; undecided: " + ", ".join(undecided[:4]) + (" …" if len(undecided) > 4 else "")
    if right < needed:
        detail += f"; to rebuild one: --problem '{name}/{undecided[0].removesuffix(UNSUPPORTED)}' -o p.npz"
    return Finding(name, right >= needed, detail)


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
            yield replace(item, problem=scaled_rows(item.problem, factors), name=f"{name}, {item.truth}")


def scaled_rows(problem: FeasibilityProblem, factors: np.ndarray) -> FeasibilityProblem:
    """Return the problem with every row multiplied by a factor."""
    return FeasibilityProblem(
        problem.sets,
        [rows.scaled(factors) for rows in problem.rows],
        problem.lower * factors,
        problem.upper * factors,
    )


def _neighbours(seed: int) -> Iterator[PlantedProblem]:
    """Yield pairs of problems just inside and just outside of what the support function of a set allows."""
    rng = np.random.default_rng([seed, 4])
    for name in ("box trace", "box"):
        (box,) = planted.set_mixes()[name]
        g = planted.symmetric(rng, box.n)
        best = box.support(g)
        for share in (1e-3, -1e-3):
            bound = best - share * abs(best)
            problem = FeasibilityProblem([box], [g[None]], [bound], [np.inf])
            yield PlantedProblem(problem, share > 0, name=f"{name}, {'inside' if share > 0 else 'outside'}")


def _weakly_infeasible(session: _Session) -> Finding:
    """Check a weakly infeasible problem, X11 = 0 and X12 = 1 on a PSD block."""
    rows = np.zeros((2, 2, 2))
    rows[0, 0, 0] = 1.0
    rows[1, 0, 1] = rows[1, 1, 0] = 0.5
    problem = FeasibilityProblem([PSD(2)], [rows], [0.0, 1.0], [0.0, 1.0])
    result = session.solve(problem)
    # There is no Farkas certificate; only facial reduction proves infeasibility.
    fine = result.verdict is Verdict.UNDECIDED or (
        result.verdict is Verdict.INFEASIBLE and result.check.chain is not None
    )
    return Finding("weakly infeasible", fine, f"{result.verdict}: {result.raw_status}")


def _slow_problem(seed: int) -> FeasibilityProblem:
    """Return a problem that takes more than a fraction of a second."""
    rng = np.random.default_rng([seed, 5])
    sets = planted.set_mixes(8)["box trace"]
    return planted.feasible(rng, sets, rows=60, margin=1e-9).problem


def _time_limit(session: _Session, seed: int) -> Finding:
    problem = _slow_problem(seed)
    limit = 0.2
    begin = time.perf_counter()
    result = session.solve(problem, time_limit=limit)
    took = time.perf_counter() - begin
    # Tolerate compilation and one native iteration beyond the limit, but no hang.
    decided = result.verdict is not Verdict.UNDECIDED
    stopped = result.stop is Stop.TIME_LIMIT or decided or took < limit
    allowed = 1.1 * limit + 0.5
    fine = took <= MAX_OVERRUN_SECONDS and (stopped or result.solve_time <= allowed)
    facts = f"limit {limit} s, took {result.solve_time:.2f} s: {result.stop}"
    limits = f"allowed {allowed:.2f} s, or {MAX_OVERRUN_SECONDS:g} s if it stops by itself"
    return Finding("time limit", fine, f"{facts}; {limits}")


def _callback(session: _Session, seed: int) -> Finding:
    if not session.solver.kind.calls_back:
        return Finding("callback", True, "not offered")
    calls: list[int] = []

    def stop_at_once(progress: object) -> bool:
        calls.append(1)
        return True

    result = session.solve(_slow_problem(seed), callback=stop_at_once)
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


def _warm_start(session: _Session, seed: int) -> Finding:
    rng = np.random.default_rng([seed, 6])
    for plant in (planted.feasible, planted.infeasible):
        item = plant(rng, planted.set_mixes()["box nonneg"])
        cold = session.solve(item.problem)
        wrong = Claim(
            point=tuple(np.full(s.shape, 3.0) for s in item.problem.sets),
            certificate=np.ones(item.problem.m),
        )
        for start in (cold, wrong):
            if session.solve(item.problem, warm_start=start).verdict is not cold.verdict:
                return Finding("warm start", False, "a warm start changed the verdict")
    return Finding("warm start", True, "verdicts unchanged" if session.solver.kind.warm_starts else "ignored")


def _deterministic(session: _Session, seed: int) -> Finding:
    rng = np.random.default_rng([seed, 7])
    points = 0
    for name in ("all", "psd", "box trace"):
        item = planted.feasible(rng, planted.set_mixes()[name])
        one, two = session.solve(item.problem), session.solve(item.problem)
        if one.verdict is not two.verdict or one.iterations != two.iterations or not _same(one, two):
            return Finding("deterministic", False, "two runs differ")
        points += one.point is not None
    if not points:
        return Finding("deterministic", False, "no point was returned, so nothing can be compared")
    return Finding("deterministic", True, "the same point twice")


def _same(one: Result, two: Result) -> bool:
    """Return whether two results hold the same point, or both none."""
    if one.point is None or two.point is None:
        return one.point is two.point
    return all(np.array_equal(a, b) for a, b in zip(one.point, two.point, strict=True))


def benchmark_solve(
    benchmark: Any, solver: str | Path | Solver, problem: FeasibilityProblem | ParametricFamily
) -> Check | BisectionResult:
    """Time a solver on a problem with pytest-benchmark, and verify its answer outside the timed part.

    What is timed is what a study times: the backend with the proofs it asks for while it runs, or for a
    family the bisection. Every round gets a fresh copy of the problem, without cached values. Verdict, proof,
    iterations, sizes and versions are stored in ``extra_info``, so that ``pytest-benchmark compare`` and
    ``sdpfeas scaling`` can show them. The fixtures of the pytest plugin set time limit and tolerance.

    Parameters
    ----------
    benchmark : pytest_benchmark.fixture.BenchmarkFixture
        The fixture ``benchmark``.
    solver : str, Path or Solver
        The solver, such as the fixture ``solver``.
    problem : FeasibilityProblem or ParametricFamily
        The problem, such as the fixtures ``problem``, ``family`` or ``instance.problem``.

    Returns
    -------
    Check or BisectionResult
        The verdict of the last round, or for a family its bracket.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> from sdpfeas.testing import benchmark_solve
    >>> def test_trace(benchmark):
    ...     trace = sf.FeasibilityProblem([sf.PSD(3)], [np.eye(3)[None]], [1.0], [1.0])
    ...     assert benchmark_solve(benchmark, "clarabel", trace).verdict == "feasible"
    """
    chosen, facts = find_solver(solver), benchmark.extra_info
    limit, tol = facts.get("time_limit", BENCHMARK_LIMIT), facts.get("tol", BENCHMARK_TOL)
    backend, packed = chosen.make(), pickle.dumps(problem)

    def copied() -> tuple[tuple[Any], dict[str, Any]]:
        return (pickle.loads(packed),), {}

    def run(fresh: FeasibilityProblem | ParametricFamily) -> Claim | BisectionResult:
        if isinstance(fresh, ParametricFamily):
            return bisect(fresh, chosen, tol=tol, time_limit=limit)
        return dispatch(backend, fresh, Inquiry(fresh, deadline=Deadline(limit)))

    begin = time.perf_counter()
    run(*copied()[0])  # imports and compilation
    fitting = math.ceil(BENCHMARK_SECONDS / max(time.perf_counter() - begin, 1e-9))
    rounds = min(max(fitting, BENCHMARK_ROUNDS[0]), BENCHMARK_ROUNDS[1])
    found = benchmark.pedantic(run, setup=copied, rounds=rounds)
    facts.update(solver=chosen.name, solver_version=backend.version(), sdpfeas_version=__version__)
    if isinstance(found, BisectionResult):
        verdict = "bracket" if found.converged and found.proven else "undecided"
        iterations = sum(step.iterations or 0 for step in found.history)
        facts.update(verdict=verdict, lower=found.lower, upper=found.upper, iterations=iterations)
        return found
    assert isinstance(problem, FeasibilityProblem)
    check = decide(problem, found)
    sides = [block.n for block in (*problem.sets, *(lmi.set for lmi in problem.lmis))]
    facts.update(verdict=str(check.verdict), proof=check.proof and str(check.proof))
    facts.update(iterations=found.iterations, rows=problem.m, size=facts.get("size", max(sides)))
    return check
