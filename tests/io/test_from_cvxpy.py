"""cvxpy problems: the same truth, the same points, and clear words about what cannot be stated."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.io.cvxpy import convert


def asked(*constraints: Any) -> cp.Problem:
    return cp.Problem(cp.Minimize(0), list(constraints))


def kinds(problem: sf.FeasibilityProblem) -> list[str]:
    return [f"{block.kind}({block.n})" for block in problem.sets]


def random_problem(rng: np.random.Generator, *, feasible: bool) -> cp.Problem:
    """Constraints of every kind that hold at a drawn point, or two of which contradict each other."""
    n = int(rng.integers(2, 5))
    X, S = cp.Variable((n, n), PSD=True), cp.Variable((n, n), symmetric=True)
    u, z = cp.Variable(2, nonneg=True), cp.Variable(3)
    root = rng.normal(size=(n, n))
    X0, u0, z0 = root @ root.T + np.eye(n), rng.uniform(0.5, 1.0, 2), rng.normal(size=3)
    A, B = (m + m.T for m in rng.normal(size=(2, n, n)))
    weights = np.eye(n) + 0.1 * B @ B
    G = rng.normal(size=(3, 2))
    least = np.trace(weights @ X0) if feasible else -1.0
    return asked(
        cp.trace(A @ X) + 2 * u[0] == np.trace(A @ X0) + 2 * u0[0],
        S - X >> 0,
        cp.trace(weights @ S) + u[1] <= least + feasible * (u0[1] + 1.0),
        z == G @ u + (z0 - G @ u0),
        cp.norm(z) <= u[1] + np.linalg.norm(z0) + 1.0,
        cp.quad_form(z, np.eye(3)) <= z0 @ z0 + 2.0,
        cp.lambda_max(X) <= np.linalg.eigvalsh(X0)[-1] + 1.0,
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("feasible", [True, False])
def test_verdict_is_the_truth(seed: int, feasible: bool) -> None:
    problem = random_problem(np.random.default_rng(seed), feasible=feasible)
    form = convert(problem)
    assert form.problem == sf.from_cvxpy(problem)
    result = sf.solve(form.problem, "clarabel")
    assert result.verdict == ("feasible" if feasible else "infeasible")
    assert result.proof == "rigorous"
    if feasible:
        form.assign(result.point)
        assert max(np.max(c.violation()) for c in problem.constraints) < 1e-6
        for variable in problem.variables():
            assert variable.value.shape == variable.shape
            assert variable.project(variable.value) == pytest.approx(variable.value, abs=1e-7)


def test_variables_become_blocks_of_their_own() -> None:
    X, u, z = cp.Variable((4, 4), PSD=True), cp.Variable(3, nonneg=True), cp.Variable(2)
    problem = sf.from_cvxpy(asked(cp.trace(X) == 1, cp.sum(u) + z[0] <= X[0, 1], z[1] >= -1))
    assert kinds(problem) == ["PSD(4)", "Nonneg(3)", "Free(2)"]
    assert problem.m == 3
    free = cp.Variable((3, 3), symmetric=True)
    assert kinds(sf.from_cvxpy(asked(free >> 0, cp.trace(free) == 1))) == ["PSD(3)"]
    # What no row asks for is left out, and zero on the way back.
    form = convert(asked(cp.Variable(3) >= 0, free >> 0, z[0] == 1))
    assert kinds(form.problem) == ["Free(1)"]
    assert form.values((np.ones(1),))[z].tolist() == [1.0, 0.0]
    # Twice constrained, or moved: a slack holds what the variable itself cannot.
    assert kinds(sf.from_cvxpy(asked(free >> np.eye(3)))) == ["Free(6)", "PSD(3)"]
    assert kinds(sf.from_cvxpy(asked(free >> 0, free << np.eye(3)))) == ["PSD(3)", "PSD(3)"]


def test_nothing_is_rounded() -> None:
    X = cp.Variable((2, 2), PSD=True)
    problem = sf.from_cvxpy(asked(0.1 * X[0, 0] + 0.7 * X[0, 1] == 0.3, X[1, 1] <= 1 / 3))
    (rows,) = problem.rows
    unit = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    assert [rows.apply(x)[0] for x in unit] == [0.1, 0.7]
    assert (problem.lower[0], problem.upper[1]) == (0.3, 1 / 3)


def test_the_objective_is_ignored() -> None:
    x = cp.Variable()
    unbounded = cp.Problem(cp.Minimize(x), [x <= 1])
    assert sf.solve(sf.from_cvxpy(unbounded)).verdict == "feasible"


def test_complex_matrices() -> None:
    H = cp.Variable((2, 2), hermitian=True)
    for angle, verdict in ((0.49, "feasible"), (0.51, "infeasible")):
        problem = asked(H >> 0, cp.real(cp.trace(H)) == 1, cp.imag(H[0, 1]) == angle)
        form = convert(problem)
        result = sf.solve(form.problem, "clarabel")
        assert result.verdict == verdict
        if verdict == "feasible":
            form.assign(result.point)
            assert H.value[0, 1].imag == pytest.approx(0.49)


X, Z = cp.Variable((2, 2), PSD=True), cp.Variable(2)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (asked(cp.exp(Z[0]) <= 3, cp.log(Z[1]) >= 1), "^exp, log needs another cone"),
        (asked(cp.constraints.ExpCone(Z[0], Z[0], Z[1])), "^ExpCone needs another cone"),
        (asked(cp.norm(Z) >= 1), "not convex"),
        (asked(cp.Variable(integer=True) == Z[0]), "integer"),
        (asked(cp.Variable(boolean=True) == Z[0]), "boolean"),
        (asked(X[0, 0] == cp.Parameter()), "unspecified parameters"),
        (asked(), "no variables"),
        ([Z[0] == 1], "takes a cvxpy.Problem, got list"),
    ],
)
def test_what_cannot_be_stated(problem: Any, words: str) -> None:
    with pytest.raises(sf.ProblemError, match=words):
        sf.from_cvxpy(problem)
