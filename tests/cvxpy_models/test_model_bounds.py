"""``bound=`` for cvxpy models: on all variables, or by name; brackets within a bound."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding, audit
from sdpfeas.errors import ProblemError
from tests.verifier.test_excluded_radius import unstable


def lyapunov(a: np.ndarray, rate: float | cp.Parameter = 0.0) -> tuple[cp.Problem, cp.Variable]:
    """Return ``P >= I, A'P + PA + 2 rate P <= 0``."""
    n = len(a)
    P = cp.Variable((n, n), symmetric=True, name="P")
    rows = [(np.eye(n) << P).set_label("P >= I"), (a.T @ P + P @ a + 2 * rate * P << 0).set_label("decrease")]
    return cp.Problem(cp.Minimize(0), rows), P


@pytest.mark.parametrize("bound", [1e6, {"P": 1e6}])
@pytest.mark.parametrize("n", [2, 4])
def test_an_unstable_system_has_no_lyapunov_matrix_within_a_bound(n, bound):
    model, P = lyapunov(unstable(np.random.default_rng([32, n]), n))
    assert sf.solve(model).verdict == "undecided"
    result = sf.solve(model, bound=bound)
    assert (result.verdict, result.proof, result.bound) == ("infeasible", "rigorous", bound)
    assert "INFEASIBLE within the bound" in result.explain()
    assert {each.name for each in result.conflict()[:2]} == {"P >= I", "decrease"}
    assert P.value is None
    assert model.constraints[1].dual_value is not None
    assert audit(result.problem, result).finding is Finding.CONFIRMED
    assert sf.verify(sf.from_cvxpy(model), sf.Claim(certificate=result.problem.bound.multipliers(
        result.certificate))).verdict == "undecided"  # fmt: skip


def test_a_stable_system_has_one_and_the_model_is_not_changed():
    model, P = lyapunov(np.array([[-1.0, 3.0], [0.0, -2.0]]))
    result = sf.solve(model, bound=1e6, rigorous=True)
    assert (result.verdict, result.bound) == ("feasible", None)
    assert result.problem == sf.from_cvxpy(model)
    assert len(model.constraints) == 2
    assert np.linalg.eigvalsh(P.value).min() >= 1.0 - 1e-9
    assert sf.solve(model, bound=0.5).verdict == "infeasible"


@pytest.mark.parametrize(
    ("make", "constraint"),
    [
        (lambda: cp.Variable((2, 2), PSD=True, name="X"), lambda X: cp.trace(X) >= 5),
        (lambda: cp.Variable((2, 2), NSD=True, name="X"), lambda X: cp.trace(X) <= -5),
        (lambda: cp.Variable((2, 2), hermitian=True, name="X"), lambda X: cp.real(cp.trace(X)) >= 5),
        (lambda: cp.Variable((2, 2), complex=True, name="X"), lambda X: cp.imag(cp.sum(X)) >= 9),
        (lambda: cp.Variable(2, nonneg=True, name="X"), lambda X: cp.sum(X) >= 5),
        (lambda: cp.Variable(2, name="X"), lambda X: cp.norm(X) + 7 <= cp.sum(X)),
    ],
)
def test_every_kind_of_variable_takes_a_bound(make, constraint):
    X = make()
    model = cp.Problem(cp.Minimize(0), [constraint(X)])
    assert sf.solve(model, bound=100).verdict == "feasible"
    assert sf.solve(model, bound=2).bound == 2
    y = cp.Variable(name="y")
    other = cp.Problem(cp.Minimize(0), [constraint(X), y >= 1e3])
    assert sf.solve(other, bound={"X": 100}).verdict == "feasible"
    assert sf.solve(other, bound={X: 100, "y": 10}).bound == {"X": 100, "y": 10}


def test_a_variable_that_only_the_bound_mentions():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = cp.Problem(cp.Minimize(y), [x >= 3])
    assert sf.solve(model, bound=10).verdict == "feasible"
    assert sf.solve(model, bound=1).verdict == "infeasible"


@pytest.mark.parametrize("wrong", [{"Q": 1.0}, {}, {"P": 0.0}, -1.0])
def test_wrong_bounds(wrong):
    with pytest.raises(ProblemError):
        sf.solve(lyapunov(-np.eye(2))[0], bound=wrong)


# ---------------------------------------------------------------- brackets


def decay_rate(a: np.ndarray, bound: float) -> tuple[float, bool]:
    """Return minus the largest real part, and whether a Lyapunov matrix within the bound attains it.

    ``P = W'W`` with the rows of ``W`` the left eigenvectors satisfies ``A'P + PA + 2 rate P <= 0`` exactly at
    that rate, and every larger rate is infeasible without a bound, too.
    """
    values, vectors = np.linalg.eig(a)
    left = np.linalg.inv(vectors)
    P = np.real(left.conj().T @ left)
    P /= np.linalg.eigvalsh(P).min()
    return -float(values.real.max()), bool(np.max(np.abs(P)) <= 0.9 * bound)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(k, marks=pytest.mark.slow) for k in range(2, 20))])
def test_decay_rates_are_bracketed(seed):
    rng = np.random.default_rng([21, seed])
    a = rng.normal(size=(2 + seed % 4,) * 2)
    alpha = cp.Parameter(name="alpha")
    model, P = lyapunov(a, alpha)
    found = sf.bisect(model, alpha, bound=1e4, tol=1e-4)
    rate, attained = decay_rate(a, 1e4)
    assert found.proven
    assert found.converged
    assert found.feasible == "lower"
    assert found.lower <= rate + 1e-9
    assert found.upper >= rate or not attained
    assert "within the bound 10000" in repr(found)
    assert np.max(np.abs(P.value)) <= 1e4 * (1.0 + 1e-9)


def test_families_and_optimal_values_within_a_bound():
    family = sf.families.LevelSet([sf.Nonneg(1)], [[np.array([1.0])]], [[np.array([0.0])]], [-1.0], [1.0])
    found = sf.bisect(family, bound=3.0, tol=1e-6)
    assert found.proven
    assert found.lower <= 3.0 <= found.upper
    assert found.upper - found.lower <= 1e-5
    assert "within the bound 3" in repr(found)
    problem = sf.FeasibilityProblem([sf.Free(1)], [np.array([[1.0]])], [-np.inf], [3.0])
    goal = sf.Objective((np.array([1.0]),), "min")
    assert sf.optimum(problem, goal).unbounded
    within = sf.optimum(problem, goal, bound=10.0)
    assert within.lower <= -10.0 <= within.upper
    assert within.converged
    assert "within the bound 10" in repr(within)
    x = cp.Variable(name="x")
    within = sf.optimum(cp.Problem(cp.Minimize(x), [x <= 3]), bound={"x": 10})
    assert within.lower <= -10.0 <= within.upper
    assert within.bound == {"x": 10}
