"""The regularised dual: dual function, spectral and lifted form, claims."""

import itertools
import time
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

import sdpfeas as sf
from sdpfeas.backends.dual.dual_function import DualFunction, Units
from sdpfeas.backends.dual.dual_lbfgs import DualLbfgs, refit_scalars
from sdpfeas.deadline import Deadline
from sdpfeas.families import planted
from sdpfeas.problem.rows import Dense

MIXES = planted.set_mixes()
BOUNDS = ("equality", "inequality", "two-sided", "mixed")

#: Worst-case ratio of iris with two components, from two independent methods.
IRIS_DELTA = 9.6254203


def plant(kind: str, truth: bool, bounds: str = "mixed", seed: int = 0, **settings: Any) -> planted.Planted:
    rng = np.random.default_rng([seed, list(MIXES).index(kind), truth])
    make = planted.feasible if truth else planted.infeasible
    return make(rng, MIXES[kind], bounds=bounds, **settings)


def wlda(delta: float) -> sf.FeasibilityProblem:
    """Iris in the compact formulation: <S_ij, Z> >= t >= delta <S_k, Z>."""
    x, y = load_iris(return_X_y=True)
    groups = [x[y == k] for k in np.unique(y)]
    pairs = sf.PairwiseDifference([g.mean(axis=0) for g in groups])
    within = np.array([np.cov(g.T, bias=True) for g in groups])
    m = pairs.m + len(groups)
    t = np.concatenate([-np.ones(pairs.m), np.ones(len(groups))])[:, None]
    return sf.FeasibilityProblem(
        [sf.SpectralBox(4, trace=2), sf.Nonneg(1)],
        [sf.Stacked([pairs, Dense(-delta * within)]), t],
        np.zeros(m),
        np.full(m, np.inf),
    )


def weakly_infeasible() -> sf.FeasibilityProblem:
    """X11 = 0 and X12 = 1: no point, and no certificate either."""
    rows = np.zeros((2, 2, 2))
    rows[0, 0, 0] = 1.0
    rows[1, 0, 1] = rows[1, 1, 0] = 0.5
    return sf.FeasibilityProblem([sf.PSD(2)], [rows], [0.0, 1.0], [0.0, 1.0])


# --- The dual function


@pytest.mark.parametrize("weight", [None, 5.0])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("kind", list(MIXES))
def test_gradient_matches_finite_differences(kind: str, bounds: str, weight: float | None) -> None:
    problem = plant(kind, True, bounds).problem
    rng = np.random.default_rng(5)
    centres = np.array([0.0 if isinstance(s, sf.Free) else 0.3 for s in problem.sets])
    function = DualFunction(problem, Units.guess(problem), centres, weight)
    z = rng.normal(size=function.size)
    z = np.where(function.signless, z, np.abs(z))
    gradient = function.evaluate(z).gradient
    step = 1e-6
    for k, direction in enumerate(np.eye(function.size)):
        ahead = function.evaluate(z + step * direction).value
        behind = function.evaluate(z - step * direction).value
        assert (ahead - behind) / (2 * step) == pytest.approx(gradient[k], rel=1e-4, abs=1e-6)


def test_units_do_not_change_the_map_between_multipliers_and_variables() -> None:
    problem = plant("all", True, "mixed").problem
    function = DualFunction(problem, Units.guess(problem), np.zeros(len(problem.sets)))
    y = np.random.default_rng(1).normal(size=problem.m)
    y = np.where(np.isneginf(problem.lower), -np.abs(y), y)
    y = np.where(np.isposinf(problem.upper), np.abs(y), y)
    np.testing.assert_array_equal(function.multipliers(function.variables(y)), y)


def test_value_never_exceeds_the_objective_of_a_feasible_point() -> None:
    item = plant("box trace", True, "mixed", seed=3)
    units = Units.guess(item.problem)
    function = DualFunction(item.problem, units, np.zeros(1))
    assert item.point is not None
    objective = 0.5 * float(np.sum((item.point[0] / units.blocks[0]) ** 2))
    for y in np.random.default_rng(2).normal(size=(20, item.problem.m)):
        assert function.evaluate(function.variables(y)).value <= objective + 1e-9


def test_gap_closes_at_the_minimiser() -> None:
    box = sf.SpectralBox(5, trace=2)
    rng = np.random.default_rng(4)
    rows = np.array([planted.symmetric(rng, 5) for _ in range(3)])
    level = rows.reshape(3, -1) @ box.project(2.0 * planted.symmetric(rng, 5)).reshape(-1)
    problem = sf.FeasibilityProblem([box], [rows], level, [np.inf, level[1] + 1.0, level[2]])
    function = DualFunction(problem, Units.plain(problem), np.zeros(1))
    point, y = converged(problem, function)
    value = function.evaluate(function.variables(y)).value
    assert value == pytest.approx(0.5 * float(np.sum(point[0] ** 2)), rel=1e-6)
    assert np.all(problem.apply(point) >= problem.lower - 1e-5)
    assert np.all(problem.apply(point) <= problem.upper + 1e-5)


def converged(problem: sf.FeasibilityProblem, function: DualFunction) -> tuple[Any, np.ndarray]:
    from scipy.optimize import minimize

    def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
        found = function.evaluate(z)
        return -found.value, -found.gradient

    settings = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 5000, "maxcor": 30}
    start = np.zeros(function.size)
    answer = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=function.bounds, options=settings)
    found = function.evaluate(answer.x)
    return found.point, found.multipliers


@pytest.mark.parametrize("trace", [None, 2.0])
def test_lifted_and_spectral_have_the_same_minimiser(trace: float | None) -> None:
    """``||Z - lower||^2 + ||upper - Z||^2`` is ``2 ||Z - middle||^2`` and a constant."""
    box = sf.SpectralBox(4, lower=-0.5, upper=1.0, trace=trace)
    rng = np.random.default_rng(6)
    rows = np.array([planted.symmetric(rng, 4) for _ in range(3)])
    level = rows.reshape(3, -1) @ box.project(2.0 * planted.symmetric(rng, 4)).reshape(-1)
    problem = sf.FeasibilityProblem([box], [rows], level, [np.inf, level[1] + 0.5, level[2]])
    middle = 0.0 if trace is not None else 0.25
    spectral, _ = converged(problem, DualFunction(problem, Units.plain(problem), np.array([middle])))
    lift = problem.lift()
    blocks = np.zeros(len(lift.problem.sets))
    above, _ = converged(lift.problem, DualFunction(lift.problem, Units.plain(lift.problem), blocks))
    np.testing.assert_allclose(lift.point(above)[0], spectral[0], atol=1e-4)


# --- Verdicts


@pytest.mark.parametrize(("truth", "bounds"), list(itertools.product([True, False], BOUNDS)))
@pytest.mark.parametrize("kind", list(MIXES))
def test_planted_problems_are_decided_with_proof(kind: str, truth: bool, bounds: str) -> None:
    item = plant(kind, truth, bounds, seed=1)
    result = sf.solve(item.problem, DualLbfgs, rigorous=True)
    assert result.verdict is item.truth, result.explain()


@pytest.mark.parametrize("kind", ["psd", "box trace", "psd free", "all"])
@pytest.mark.parametrize("truth", [True, False])
def test_narrow_margins_are_decided(kind: str, truth: bool) -> None:
    item = plant(kind, truth, seed=2, margin=1e-3)
    assert sf.solve(item.problem, DualLbfgs).verdict is item.truth


@pytest.mark.parametrize(("share", "truth"), [(0.999, "feasible"), (1.001, "infeasible")])
def test_iris_next_to_its_optimal_ratio(share: float, truth: str) -> None:
    result = sf.solve(wlda(share * IRIS_DELTA), DualLbfgs, rigorous=True)
    assert result.verdict == truth
    assert result.proof is sf.Proof.RIGOROUS
    assert result.claim.point is not None
    assert result.claim.certificate is not None


def test_badly_scaled_rows_are_decided() -> None:
    problem = wlda(0.99 * IRIS_DELTA)
    factors = 10.0 ** np.linspace(-4, 4, problem.m)
    rows = [r.scaled(factors) for r in problem.rows]
    twin = sf.FeasibilityProblem(problem.sets, rows, problem.lower * factors, problem.upper)
    assert sf.solve(twin, DualLbfgs).verdict is sf.Verdict.FEASIBLE


# --- The screen


def test_published_form_ends_on_its_screen() -> None:
    result = sf.solve(wlda(1.1 * IRIS_DELTA), DualLbfgs, options={"form": "lifted"})
    assert "infeasibility screen" in result.raw_status
    assert result.stop is sf.Stop.FINISHED
    assert result.verdict is sf.Verdict.INFEASIBLE


def test_smaller_epsilon_makes_the_screen_fire_later() -> None:
    problem = wlda(1.1 * IRIS_DELTA)
    early, late = (
        DualLbfgs(form="lifted", epsilon=epsilon).solve(problem, sf.Inquiry(problem))
        for epsilon in (1e-2, 1e-4)
    )
    assert early.iterations < late.iterations


@pytest.mark.parametrize("options", [{}, {"form": "lifted"}])
def test_weakly_infeasible_problems_stay_undecided(options: dict[str, Any]) -> None:
    result = sf.solve(weakly_infeasible(), DualLbfgs, options=options)
    assert result.verdict is sf.Verdict.UNDECIDED
    if options.get("form") == "lifted":
        assert "infeasibility screen" in result.raw_status


# --- Warm start, limits, callback


def test_warm_start_saves_work_and_moves_no_verdict() -> None:
    for share, truth in ((0.999, "feasible"), (1.001, "infeasible")):
        cold = sf.solve(wlda(share * IRIS_DELTA), DualLbfgs)
        near = sf.solve(wlda((2 * share - 1) * IRIS_DELTA), DualLbfgs)
        warm = sf.solve(wlda(share * IRIS_DELTA), DualLbfgs, warm_start=near)
        assert cold.verdict == warm.verdict == truth
        assert warm.claim.info["evaluations"] < cold.claim.info["evaluations"]


@pytest.mark.parametrize("form", ["spectral", "lifted"])
def test_wrong_warm_starts_do_no_harm(form: str) -> None:
    problem = wlda(1.01 * IRIS_DELTA)
    cold = sf.solve(problem, DualLbfgs, options={"form": form}).verdict
    for y in (np.ones(problem.m), np.zeros(problem.m), np.full(problem.m, np.nan), 1e30 * np.ones(problem.m)):
        start = sf.WarmStart(certificate=y)
        assert sf.solve(problem, DualLbfgs, options={"form": form}, warm_start=start).verdict is cold


def slow() -> sf.FeasibilityProblem:
    rng = np.random.default_rng(7)
    return planted.feasible(rng, [sf.SpectralBox(40, trace=20)], rows=80, margin=1e-10).problem


@pytest.mark.parametrize("form", ["spectral", "lifted"])
def test_time_limit_is_obeyed(form: str) -> None:
    problem = slow()
    begin = time.perf_counter()
    inquiry = sf.Inquiry(problem, deadline=Deadline(0.3))
    claim = DualLbfgs(form=form, gtol=0.0, ftol=0.0).solve(problem, inquiry)
    took = time.perf_counter() - begin
    assert took <= 1.1 * 0.3 + 0.5
    # A fast machine may finish L-BFGS-B before the limit.
    assert claim.stop is sf.Stop.TIME_LIMIT or took < 0.3
    assert claim.point is not None


def test_iteration_limit() -> None:
    claim = DualLbfgs(max_iterations=3).solve(slow(), sf.Inquiry(slow()))
    assert claim.stop is sf.Stop.ITERATION_LIMIT
    assert claim.iterations == 3


@pytest.mark.parametrize("form", ["spectral", "lifted"])
def test_callback_sees_the_users_units_and_stops(form: str) -> None:
    problem, seen = wlda(1.0001 * IRIS_DELTA), []

    def callback(progress: sf.Progress) -> bool:
        seen.append(progress)
        return len(seen) == 3

    claim = DualLbfgs(form=form).solve(problem, sf.Inquiry(problem, listener=callback))
    assert claim.stop is sf.Stop.CALLBACK
    assert len(seen) == 3
    assert seen[0].iteration < seen[1].iteration < seen[2].iteration
    for progress in seen:
        assert [x.shape for x in progress.point] == [(4, 4), (1,)]
        assert progress.certificate.shape == (problem.m,)


def test_a_callback_that_raises_is_not_swallowed() -> None:
    def callback(progress: sf.Progress) -> bool:
        raise KeyboardInterrupt

    problem = wlda(IRIS_DELTA)
    with pytest.raises(KeyboardInterrupt):
        DualLbfgs().solve(problem, sf.Inquiry(problem, listener=callback))


def test_same_problem_same_claim() -> None:
    problem = wlda(1.001 * IRIS_DELTA)
    one, two = (DualLbfgs().solve(problem, sf.Inquiry(problem)) for _ in range(2))
    np.testing.assert_array_equal(one.certificate, two.certificate)
    assert (one.iterations, one.info) == (two.iterations, two.info)


# --- Odds and ends


def test_problems_without_rows_or_bounds() -> None:
    for rows, bounds in ((None, ([], [])), (np.ones((1, 2, 2)), ([-np.inf], [np.inf]))):
        problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], *bounds)
        for form in ("spectral", "lifted"):
            assert sf.solve(problem, DualLbfgs, options={"form": form}).verdict is sf.Verdict.FEASIBLE


def test_zero_row_with_an_infeasible_bound() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.zeros((1, 2, 2))], [1.0], [np.inf])
    assert sf.solve(problem, DualLbfgs).verdict is sf.Verdict.INFEASIBLE


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales_end_without_error(scale: float) -> None:
    item = plant("psd nonneg", True)
    rows = [r.scaled(np.full(item.problem.m, scale)) for r in item.problem.rows]
    problem = sf.FeasibilityProblem(
        item.problem.sets, rows, item.problem.lower * scale, item.problem.upper * scale
    )
    assert sf.solve(problem, DualLbfgs, time_limit=5).verdict is not sf.Verdict.INFEASIBLE


def test_scalars_are_refitted_between_the_rows() -> None:
    rows = [np.array([[[1.0]], [[1.0]]]), np.array([[-1.0], [1.0]])]
    problem = sf.FeasibilityProblem([sf.PSD(1), sf.Nonneg(1)], rows, [0.0, 5.0], [np.inf, np.inf])
    point = (np.array([[4.0]]), np.array([9.0]))
    fitted, value = refit_scalars(problem, point, problem.apply(point))
    np.testing.assert_allclose(fitted[1], [2.5])
    np.testing.assert_allclose(value, problem.apply(fitted))


@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", 0.0), ("growth", 1.0), ("memory", 0), ("centre", -1.0), ("form", "other"), ("newton", 1)],
)
def test_options_out_of_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(sf.OptionError, match=name):
        DualLbfgs(**{name: value})


@pytest.mark.parametrize(("card", "form"), [("paper", "lifted"), ("dual-spectral", "spectral")])
def test_cards(card: str, form: str) -> None:
    assert sf.find_solver(card).make().options.form == form
