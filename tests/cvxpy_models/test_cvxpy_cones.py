"""Cones of cvxpy's form as sets of ours: the same data, the same members, the same multipliers."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver
from cvxpy_cases import CASES

import sdpfeas as sf
from sdpfeas.cvxpy_models import convert
from sdpfeas.cvxpy_models.blocks import Cone, hermitian, second_order, semidefinite
from sdpfeas.cvxpy_models.canonical_form import capturing_solver

LEVEL = np.array([[0, 1j, 0], [-1j, 0, 0.5], [0, 0.5, 0]])


def asked(*constraints: Any) -> Any:
    return cp.Problem(cp.Minimize(0), list(constraints))


@pytest.mark.parametrize("name", list(CASES)[::9])
def test_the_data_are_those_that_cvxpy_would_hand_over(name: str) -> None:
    problem, taking = asked(*CASES[name]()[0]), capturing_solver()
    chain = problem._construct_chain(solver=taking, ignore_dpp=True)
    for reduction in chain.reductions[:-1]:
        problem, _ = reduction.apply(problem)
    ours, theirs = taking.apply(problem)[0], ConicSolver.apply(taking, problem)[0]
    assert np.array_equal(ours["A"].toarray(), theirs["A"].toarray())
    assert np.array_equal(ours["b"], theirs["b"])


def doubled(side: int) -> Cone:
    """The Hermitian cone of a form in which every entry is a variable of its own."""
    H = cp.Variable((side, side), hermitian=True)
    form = convert(asked(H >> 0, cp.trace(H) == 1)).canonical
    found = hermitian(form.matrix, form.b, form.semidefinite[0])
    assert found is not None
    return found


@pytest.mark.parametrize(
    "cone", [second_order(np.arange(4)), semidefinite(np.arange(10)), doubled(2), doubled(3)]
)
def test_members_and_multipliers_there_and_back(cone: Cone) -> None:
    rng = np.random.default_rng(3)
    member = rng.normal(size=cone.block.shape)
    member = 0.5 * (member + member.T) if cone.block.matrix else member
    entries = cone.view @ np.ravel(member)
    np.testing.assert_allclose(cone.member(entries), member, atol=1e-15)
    multiplier = np.ravel(cone.member(rng.normal(size=entries.size)))
    z = cone.row_multipliers(multiplier)
    np.testing.assert_allclose(cone.multiplier(z), multiplier, atol=1e-15)
    rows = entries if cone.copies is None else 2.0 * (cone.copies @ entries)
    assert z @ rows == pytest.approx(multiplier @ np.ravel(member))


def test_hermitian_variables_and_constraints_are_native() -> None:
    H, K = (cp.Variable((3, 3), hermitian=True) for _ in range(2))
    problem = sf.from_cvxpy(asked(H >> 0, H - K >> LEVEL, cp.trace(H) == 1))
    assert [type(block).__name__ for block in problem.sets] == ["HermitianPSD", "Free"]
    assert [repr(lmi.set) for lmi in problem.lmis] == ["HermitianPSD(3)"]
    # Where real and imaginary part of a number add up to no double, the real matrix says it exactly.
    rounded = sf.from_cvxpy(asked(H >> tilted()))
    assert [repr(lmi.set) for lmi in rounded.lmis] == ["PSD(n=6)"]
    # A real matrix that happens to be there twice is no complex one.
    P = cp.Variable((2, 2), symmetric=True)
    twice = sf.from_cvxpy(asked(cp.bmat([[P, np.zeros((2, 2))], [np.zeros((2, 2)), P]]) >> np.eye(4)))
    assert [repr(lmi.set) for lmi in twice.lmis] == ["PSD(n=4)"]


def tilted() -> np.ndarray:
    """A Hermitian matrix with an entry whose parts add up to no double."""
    out = np.eye(3, dtype=complex)
    out[0, 1], out[1, 0] = 1.0 + 1e-17j, 1.0 - 1e-17j
    return out


def test_the_certificate_of_a_hermitian_model() -> None:
    X = cp.Variable((3, 3), hermitian=True)
    psd, total, level = X >> 0, cp.trace(X) == 1, cp.real(cp.trace(LEVEL @ X)) >= 1.2
    result = sf.solve(asked(psd, total, level), rigorous=True)
    assert (result.verdict, result.proof) == ("infeasible", "rigorous")
    W = psd.dual_value
    assert np.linalg.eigvalsh(W)[0] > 0.0
    np.testing.assert_allclose(W, total.dual_value * np.eye(3) - level.dual_value * LEVEL, atol=1e-9)
    assert sf.verify(asked(psd, total, level), rigorous=True).verdict == "infeasible"


def test_the_point_of_a_hermitian_model() -> None:
    X = cp.Variable((3, 3), hermitian=True, name="X")
    constraints = [X >> 0, cp.trace(X) == 1, cp.real(cp.trace(LEVEL @ X)) >= 1.0]
    result = sf.solve(asked(*constraints), rigorous=True)
    assert result.verdict == "feasible"
    assert np.array_equal(result["X"], X.value)
    assert abs(X.value[0, 1].imag) > 0.1
    assert max(float(np.max(c.violation())) for c in constraints) <= 1e-9
    assert sf.verify(asked(*constraints), rigorous=True).verdict == "feasible"
