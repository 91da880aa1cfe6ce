"""The semismooth Newton method on the regularised dual: generalised Jacobian, steps, bisection."""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

import sdpfeas as sf
from sdpfeas.backends.dual import ascent as dual_newton
from sdpfeas.backends.dual import dual_lbfgs
from sdpfeas.backends.dual.ascent import (
    SemismoothNewton,
    generalised_jacobian,
    newton_applies,
    solve_quadratic_model,
)
from sdpfeas.backends.dual.dual_function import DualFunction, Units
from sdpfeas.backends.dual.dual_lbfgs import DualLbfgs
from sdpfeas.drivers.bracket import GAP_PER_MARGIN, BoundListener, Bracket
from sdpfeas.families import WLDA, planted
from sdpfeas.problem.sets import BlockSet

MIXES = planted.set_mixes()

#: Worst-case ratio of iris with two components, from two independent methods.
IRIS_DELTA = 9.6254203


@pytest.fixture(scope="module")
def iris() -> WLDA:
    x, y = load_iris(return_X_y=True)
    return WLDA.from_data(x, y, n_components=2)


def inequalities(kind: str, storage: str = "dense") -> sf.FeasibilityProblem:
    rng = np.random.default_rng([3, list(MIXES).index(kind)])
    return planted.feasible(rng, MIXES[kind], bounds="two-sided", storage=storage).problem


def dual(problem: sf.FeasibilityProblem, weight: float = 5.0) -> DualFunction:
    centres = np.array([0.0 if isinstance(s, sf.Free) else 0.3 for s in problem.sets])
    return DualFunction(problem, Units.guess(problem), centres, weight, np.inf)


# --- Generalised Jacobian


def suits_sets(sets: list[BlockSet]) -> bool:
    """Whether the Newton method has the generalised Jacobian of these sets."""
    return all(block.matrix or block.entrywise for block in sets)


def matches_differences(function: DualFunction, z: np.ndarray) -> None:
    chosen = np.arange(function.size)[::-1]
    hessian = generalised_jacobian(function, function.evaluate(z), chosen)
    step = 1e-6
    for k, direction in enumerate(np.eye(function.size)[chosen]):
        ahead = function.evaluate(z + step * direction).gradient
        behind = function.evaluate(z - step * direction).gradient
        expected = (behind - ahead)[chosen] / (2 * step)
        assert hessian[k] == pytest.approx(expected, rel=1e-4, abs=1e-5 * float(np.max(np.abs(hessian))))


@pytest.mark.parametrize("storage", planted.MATRIX_STORAGE)
def test_generalised_jacobian_matches_differences_of_the_gradient_for_every_storage(storage: str) -> None:
    function = dual(inequalities("all", storage))
    matches_differences(function, np.abs(np.random.default_rng(5).normal(size=function.size)))


@pytest.mark.parametrize("kind", [kind for kind, sets in MIXES.items() if suits_sets(sets)])
def test_generalised_jacobian_matches_differences_of_the_gradient_for_every_set(kind: str) -> None:
    function = dual(inequalities(kind))
    matches_differences(function, np.abs(np.random.default_rng(6).normal(size=function.size)))


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_generalised_jacobian_of_a_box_with_a_trace(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # In strips of one row, and with few eigenvalues inside where the multipliers are large.
    monkeypatch.setattr(dual_newton, "STRIP_NUMBERS", 1)
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(4, 6, 6))
    box = sf.SpectralBox(6, trace=2.5)
    problem = sf.FeasibilityProblem([box], [rows + rows.swapaxes(1, 2)], -np.ones(4), np.full(4, np.inf))
    function = dual(problem)
    matches_differences(function, size * rng.random(function.size))


def test_generalised_jacobian_sees_no_margin_at_its_largest_value() -> None:
    problem = inequalities("box")
    function = DualFunction(problem, Units.guess(problem), np.full(len(problem.sets), 0.3), 1e3)
    z = 0.1 * np.ones(function.size)
    assert not function.margin_moves(function.evaluate(z).margin)
    matches_differences(function, z)


# --- Steps


def test_quadratic_model_meets_the_optimality_conditions() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        root = rng.normal(size=(8, 8))
        hessian, gradient = root @ root.T + 0.1 * np.eye(8), 3.0 * rng.normal(size=8)
        z = np.maximum(rng.normal(size=8), 0.0)
        signless = np.arange(8) < 2
        step = solve_quadratic_model(gradient, hessian, z, signless)
        assert step is not None
        push, at = gradient - hessian @ step, z + step
        assert np.all(at[~signless] >= -1e-12)
        assert np.all(np.abs(push[signless | (at > 1e-9)]) <= 1e-9)
        assert np.all(push[~signless] <= 1e-9)


def test_quadratic_model_refuses_a_model_that_is_not_definite() -> None:
    assert solve_quadratic_model(np.ones(2), -np.eye(2), np.ones(2), np.zeros(2, dtype=bool)) is None


def test_newton_is_for_few_inequality_rows_of_two_terms(iris: WLDA, monkeypatch: pytest.MonkeyPatch) -> None:
    assert newton_applies(iris.at(9.0))
    x, y = load_iris(return_X_y=True)
    assert not newton_applies(WLDA.from_data(x, y, n_components=2, formulation="paper").at(9.0))
    rng = np.random.default_rng(0)
    assert not newton_applies(planted.feasible(rng, MIXES["box"], bounds="equality").problem)
    monkeypatch.setattr(dual_newton, "NEWTON_ROWS", 5)
    assert not newton_applies(iris.at(9.0))
    monkeypatch.setattr(dual_newton, "NEWTON_ROWS", 6)
    monkeypatch.setattr(dual_newton, "NEWTON_ENTRIES", 1)
    assert not newton_applies(iris.at(9.0))


# --- Backend


class Patient:
    """A listener that waits for the largest margin."""

    def __init__(self, least: float) -> None:
        self.least, self.gaps = least, list[float]()

    def __call__(self, progress: sf.Progress) -> bool:
        assert progress.gap is not None
        self.gaps.append(progress.gap)
        return progress.gap < self.least


@pytest.mark.parametrize("share", [0.9, 0.999, 1.001, 1.2])
def test_gap_of_the_margin_closes(iris: WLDA, share: float) -> None:
    watch = Patient(1e-4)
    problem = iris.at(share * IRIS_DELTA)
    claim = DualLbfgs().solve(problem, sf.Inquiry(problem, wanted="margin", listener=watch))
    assert claim.stop is sf.Stop.CALLBACK
    assert watch.gaps[-1] < 1e-4 < watch.gaps[0]
    assert len(watch.gaps) < 40


@pytest.mark.parametrize("share", [0.999, 1.001])
def test_newton_takes_over_from_slow_lbfgs(iris: WLDA, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dual_lbfgs, "NEWTON_AFTER_ITERATIONS", 3)
    steps, maximise = [], SemismoothNewton.maximise

    def counted(*arguments: Any) -> Any:
        steps.append(1)
        return maximise(*arguments)

    monkeypatch.setattr(SemismoothNewton, "maximise", counted)
    result = sf.solve(iris.at(share * IRIS_DELTA), "dual-lbfgs")
    assert result.verdict is (sf.Verdict.FEASIBLE if share < 1.0 else sf.Verdict.INFEASIBLE)
    assert steps
    plain = sf.solve(iris.at(share * IRIS_DELTA), "dual-lbfgs", options={"newton": False})
    assert plain.verdict is result.verdict


def test_lbfgs_takes_over_where_newton_fails(iris: WLDA, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: SemismoothNewton, function: DualFunction, z: np.ndarray, *_: Any) -> Any:
        return self._ascent.evaluate(function, z), False

    monkeypatch.setattr(SemismoothNewton, "maximise", fails)
    found = sf.bisect(iris, "dual-lbfgs", tol=1e-3)
    assert found.converged
    assert found.proven
    assert found.lower <= IRIS_DELTA <= found.upper


def test_failed_step_ends_newton(iris: WLDA, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dual_newton, "solve_quadratic_model", lambda *_: None)
    found = sf.bisect(iris, "dual-lbfgs", tol=1e-3)
    assert found.converged
    assert found.proven


# --- Bisection


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_few_solves_and_steps_close_a_bracket(iris: WLDA, tol: float) -> None:
    found = sf.bisect(iris, "dual-lbfgs", tol=tol)
    assert found.converged
    assert found.proven
    assert found.lower <= IRIS_DELTA * (1.0 + 1e-8)
    assert found.upper >= IRIS_DELTA * (1.0 - 1e-8)
    assert found.solves <= 4
    assert sum(step.iterations or 0 for step in found.history) < 100


def test_bounds_are_proved_when_the_gap_is_worth_it(iris: WLDA) -> None:
    bracket = Bracket(iris, 1e-3, 0.0)
    watch = BoundListener(bracket, 5.0)
    point, y = iris.initial_points()[1], iris.initial_multipliers()[0]
    away = abs(iris.estimate_delta(point) - 5.0) / 5.0
    assert not watch(sf.Progress(1, 0.0, point, y, gap=away))
    assert bracket.lower == -np.inf
    watch(sf.Progress(2, 0.0, point, y, gap=0.1 * away**2 / GAP_PER_MARGIN))
    assert watch.gap_reported
    assert np.isfinite([bracket.lower, bracket.upper]).all()
