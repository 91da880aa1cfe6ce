"""Measure the overhead of compiling with cvxpy, of the problem form, and of conversions.

Every line of the table compares two things measured in the same run, in processor time and with one thread,
so the ratios hardly depend on the machine or on what else it does. The compile of a problem is everything up
to the data handed to the solver; the form is what the variables are, the entries of the point (primal) or the
multipliers of the rows (dual).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.backends.cvxpy import model_of
from sdpfeas.cvxpy_models import convert
from sdpfeas.families import planted
from sdpfeas.problem.conic_form import conic_form

ROUNDS = 3


def max_cut(n: int) -> sf.FeasibilityProblem:
    """Return the feasible set of max-cut: a matrix with ones on its diagonal."""
    k = np.arange(n)
    rows = sp.csr_array((np.ones(n), (k, k * n + k)), shape=(n, n * n))
    return sf.FeasibilityProblem([sf.PSD(n)], [rows], np.ones(n), np.ones(n))


def discriminant(c: int, d: int) -> sf.FeasibilityProblem:
    """Return a WLDA-shaped problem of c classes in d dimensions."""
    rng = np.random.default_rng(1)
    scatter = np.array([planted.with_spectrum(rng, rng.uniform(0.5, 2.0, d)) for _ in range(c)])
    pairs = sf.PairwiseDifference(3.0 * rng.normal(size=(c, d)))
    rows = [sf.Stacked([pairs, sf.operators.Dense(-scatter)]), [[-1.0]] * pairs.m + [[1.0]] * c]
    sets = [sf.SpectralBox(d, trace=c - 1), sf.Nonneg(1)]
    return sf.FeasibilityProblem(sets, rows, np.zeros(pairs.m + c), np.full(pairs.m + c, np.inf))


PROBLEMS: dict[str, Callable[[], sf.FeasibilityProblem]] = {
    "dense rows, PSD(6)": lambda: planted.feasible(np.random.default_rng(2), [sf.PSD(6)], rows=10).problem,
    "dense rows, PSD(16)": lambda: planted.feasible(np.random.default_rng(3), [sf.PSD(16)], rows=30).problem,
    "matrix inequality, 12, 8": lambda: planted.lmi(np.random.default_rng(4), 12, 8, truth=True).problem,
    "max-cut, 30": lambda: max_cut(30),
    "WLDA, 5 classes, 12": lambda: discriminant(5, 12),
}


def least(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the least processor time of several runs."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def compile_direct(problem: sf.FeasibilityProblem) -> None:
    conic_form(problem, "upper").cones_on_rows()


def compile_cvxpy(problem: sf.FeasibilityProblem) -> None:
    model = model_of(conic_form(problem, "upper").cones_on_rows())
    model.problem.get_problem_data("CLARABEL", solver_opts={})


def ask(name: str, **options: Any) -> Callable[[sf.FeasibilityProblem], None]:
    """Return a solve without an objective, verification left out."""
    backend = sf.find_solver(name).make(objective="none", **options)

    def run(problem: sf.FeasibilityProblem) -> None:
        backend.solve(problem, sf.Inquiry(problem))

    return run


#: What is compared: by name, what may be dearer, and what it is compared with.
COMPARISONS: dict[
    str, tuple[Callable[[sf.FeasibilityProblem], None], Callable[[sf.FeasibilityProblem], None]]
]
COMPARISONS = {
    "compile: cvxpy / direct": (compile_cvxpy, compile_direct),
    "clarabel: cvxpy / direct": (ask("cvxpy", solver="CLARABEL"), ask("clarabel")),
    "scs: cvxpy / direct": (ask("cvxpy", solver="SCS"), ask("scs")),
    "clarabel: primal / dual": (ask("clarabel", direct_form="primal"), ask("clarabel", direct_form="dual")),
    "scs: primal / dual": (ask("scs", direct_form="primal"), ask("scs", direct_form="dual")),
}


@pytest.fixture(scope="module")
def lines() -> Iterator[list[tuple[str, str, float, float]]]:
    """Lines of the table; printed when all are there."""
    found: list[tuple[str, str, float, float]] = []
    yield found
    print(f"\n\n{'problem':26s} {'compared':26s} {'ms':>9s} {'ms':>9s} {'ratio':>7s}")
    for problem, what, dear, cheap in found:
        print(f"{problem:26s} {what:26s} {1e3 * dear:9.2f} {1e3 * cheap:9.2f} {dear / cheap:7.1f}")


@pytest.mark.parametrize("what", COMPARISONS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_compile_and_form(
    benchmark: Any, lines: list[tuple[str, str, float, float]], name: str, what: str
) -> None:
    problem = PROBLEMS[name]()
    dear, cheap = COMPARISONS[what]
    for run in (dear, cheap):  # imports and caches
        run(problem)
    times: list[float] = []
    benchmark.pedantic(lambda: times.append(least(lambda: cheap(problem), 1)), rounds=ROUNDS)
    lines.append((name, what, least(lambda: dear(problem)), min(times)))
    benchmark.extra_info["ratio"] = lines[-1][2] / lines[-1][3]
    if "compile" in what:
        assert benchmark.extra_info["ratio"] > 1.0


def lyapunov(n: int, systems: int) -> cp.Problem:
    """A Lyapunov function that several systems share."""
    P = cp.Variable((n, n), symmetric=True)
    parts = [
        np.random.default_rng(s).normal(size=(n, n)) - 3.0 * np.sqrt(n) * np.eye(n) for s in range(systems)
    ]
    return cp.Problem(cp.Minimize(0), [P >> np.eye(n), *(A.T @ P + P @ A << -np.eye(n) for A in parts)])


def portfolio(n: int) -> cp.Problem:
    """A budget, a risk, and a constraint for every asset."""
    x, factors = cp.Variable(n, nonneg=True), np.random.default_rng(0).normal(size=(20, n))
    limits = [x[i] <= 0.1 + 0.001 * i for i in range(n)]
    return cp.Problem(cp.Minimize(0), [cp.sum(x) == 1, cp.norm(factors @ x) <= 1, *limits])


def state(n: int) -> cp.Problem:
    """A quantum state and its partial transpose."""
    rho = cp.Variable((n * n, n * n), hermitian=True)
    return cp.Problem(
        cp.Minimize(0), [rho >> 0, cp.trace(rho) == 1, cp.partial_transpose(rho, (n, n), 1) >> 0]
    )


def cut(n: int) -> cp.Problem:
    """The feasible set of max-cut."""
    X = cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Minimize(0), [cp.diag(X) == 1, cp.sum(X) <= n])


MODELS: dict[str, Callable[[], cp.Problem]] = {
    "Lyapunov, 3, 2 systems": lambda: lyapunov(3, 2),
    "Lyapunov, 20, 3 systems": lambda: lyapunov(20, 3),
    "portfolio, 50": lambda: portfolio(50),
    "portfolio, 200": lambda: portfolio(200),
    "partial transpose, 3 x 3": lambda: state(3),
    "max-cut, 50": lambda: cut(50),
}
#: A conversion may cost so much more than cvxpy's own compile.
DEAREST = 1.2


@pytest.mark.parametrize("name", MODELS)
def test_conversion(benchmark: Any, lines: list[tuple[str, str, float, float]], name: str) -> None:
    convert(MODELS[name]())  # imports and caches
    ours: list[float] = []
    theirs: list[float] = []

    def alternate() -> None:  # cvxpy keeps what it compiled, so every run has a model of its own
        for times, run in ((ours, convert), (theirs, lambda model: model.get_problem_data("CLARABEL"))):
            model = MODELS[name]()
            times.append(least(lambda: run(model), 1))  # noqa: B023 - called at once

    benchmark.pedantic(alternate, rounds=2 * ROUNDS)
    lines.append((name, "convert / get_problem_data", min(ours), min(theirs)))
    benchmark.extra_info["ratio"] = min(ours) / min(theirs)
    assert benchmark.extra_info["ratio"] <= DEAREST
