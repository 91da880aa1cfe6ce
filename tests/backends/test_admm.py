"""The operator-splitting backend: right answers on every set, and the parts it is made of."""

import time

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.backends import admm
from sdpfeas.backends.admm import (
    Admm,
    AdmmOptions,
    GraphProjection,
    ScaledSpace,
    equality_projection,
    ruiz_scaling,
)
from sdpfeas.deadline import Deadline
from sdpfeas.families import planted
from sdpfeas.verifier.equality_correction import correct_point

MIXES = planted.set_mixes()


def weak() -> sf.FeasibilityProblem:
    """X11 = 0 and X12 = 1: approached by points of ever larger norm, met by none, and no certificate."""
    rows = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.5], [0.5, 0.0]]])
    return sf.FeasibilityProblem([sf.PSD(2)], [rows], [0.0, 1.0], [0.0, 1.0])


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("bounds", ["equality", "inequality", "two-sided", "mixed"])
@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("truth", [True, False])
def test_planted_problems(name: str, bounds: str, truth: bool) -> None:
    plant = planted.feasible if truth else planted.infeasible
    item = plant(np.random.default_rng([2, truth]), MIXES[name], bounds=bounds)
    assert sf.solve(item.problem, "admm").verdict == item.truth


@pytest.mark.parametrize("storage", ["dense", "sparse", "low-rank", "pairwise", "stacked", "combined"])
@pytest.mark.parametrize("truth", [True, False])
def test_every_storage(storage: str, truth: bool) -> None:
    plant = planted.feasible if truth else planted.infeasible
    sets = [sf.PSD(4), sf.SpectralBox(3, trace=1.0)]
    item = plant(np.random.default_rng([3, truth]), sets, storage=storage)
    assert sf.solve(item.problem, "admm").verdict == item.truth


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("n", [2, 5, 12])
def test_linear_matrix_inequalities(n: int, truth: bool) -> None:
    item = planted.lmi(np.random.default_rng(n), n, 2, truth=truth, margin=1e-2)
    assert sf.solve(item.problem, "admm").verdict == item.truth


@pytest.mark.slow
@pytest.mark.parametrize("truth", [True, False])
def test_decides_nearly_all_problems_with_a_small_margin(truth: bool) -> None:
    plant = planted.feasible if truth else planted.infeasible
    total = right = 0
    for seed in range(4):
        for scale in (1, 2, 4):
            for sets in planted.set_mixes(scale).values():
                if max(block.n for block in sets) > 12:
                    continue
                item = plant(np.random.default_rng([4, seed, scale]), sets, margin=1e-3)
                verdict = sf.solve(item.problem, "admm").verdict
                assert verdict != item.wrong_verdict
                total += 1
                right += verdict == item.truth
    assert right >= 0.99 * total


def test_weakly_infeasible_problems_stay_undecided() -> None:
    assert sf.solve(weak(), "admm", options={"max_iterations": 2000}).verdict == sf.Verdict.UNDECIDED


def test_no_rows_and_empty_rows() -> None:
    sets = [sf.PSD(2), sf.Free(1), sf.SpectralBox(2, trace=1.0)]
    assert sf.solve(sf.FeasibilityProblem(sets, [None] * 3, [], []), "admm").verdict == sf.Verdict.FEASIBLE
    empty = sf.FeasibilityProblem(sets, [None] * 3, [1.0], [2.0])
    assert sf.solve(empty, "admm").verdict == sf.Verdict.INFEASIBLE
    free = sf.FeasibilityProblem(sets, [None] * 3, [-np.inf], [np.inf])
    assert sf.solve(free, "admm").verdict == sf.Verdict.FEASIBLE


def test_contradicting_equations() -> None:
    rows = np.array([np.eye(2), np.eye(2)])
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [1.0, 2.0], [1.0, 2.0])
    result = sf.solve(problem, "admm")
    assert result.verdict == sf.Verdict.INFEASIBLE


@pytest.mark.parametrize("factor", [1e-6, 1e6])
@pytest.mark.parametrize("truth", [True, False])
def test_units_do_not_matter(factor: float, truth: bool) -> None:
    plant = planted.feasible if truth else planted.infeasible
    item = plant(np.random.default_rng(5), [sf.PSD(3), sf.Nonneg(2)])
    p = item.problem
    larger = sf.FeasibilityProblem(p.sets, p.rows, factor * p.lower, factor * p.upper)
    assert sf.solve(larger, "admm").verdict == item.truth
    rows = [r.scaled(np.full(p.m, factor)) for r in p.rows]
    assert (
        sf.solve(sf.FeasibilityProblem(p.sets, rows, factor * p.lower, factor * p.upper), "admm").verdict
        == item.truth
    )


# ---------------------------------------------------------------- the contract


def test_options_are_checked() -> None:
    problem = planted.feasible(np.random.default_rng(6), [sf.PSD(2)]).problem
    for options in (
        {"relaxation": 2.0},
        {"margin": 0.0},
        {"min_margin": 0.1},
        {"penalty": -1.0},
        {"screen_every": 0},
        {"adaptive": "yes"},
        {"no_such": 1},
    ):
        with pytest.raises(sf.OptionError):
            sf.solve(problem, "admm", options=options)


@pytest.mark.parametrize("limit", [0.05, 0.5])
def test_time_limit(limit: float) -> None:
    problem = weak()
    begin = time.perf_counter()
    claim = Admm().solve(problem, sf.Inquiry(problem, deadline=Deadline(limit)))
    assert time.perf_counter() - begin < 1.1 * limit + 0.5 + 0.5  # the last for a busy machine
    assert claim.stop == sf.Stop.TIME_LIMIT
    assert claim.point is not None


def test_iteration_limit() -> None:
    claim = Admm(max_iterations=60).solve(weak(), sf.Inquiry(weak()))
    assert claim.stop == sf.Stop.ITERATION_LIMIT
    assert claim.iterations == 60
    assert claim.point is not None
    assert claim.certificate is not None


def test_callback_sees_candidates_and_stops() -> None:
    seen: list[sf.Progress] = []

    def callback(progress: sf.Progress) -> bool:
        seen.append(progress)
        return len(seen) == 3

    claim = Admm().solve(weak(), sf.Inquiry(weak(), listener=callback))
    assert claim.stop == sf.Stop.CALLBACK
    assert [p.iteration for p in seen] == [25, 50, 75]
    assert seen[-1].point is not None
    assert seen[-1].certificate is not None


def test_warm_start_ends_at_once_where_it_still_holds() -> None:
    rng = np.random.default_rng(7)
    for plant in (planted.feasible, planted.infeasible):
        item = plant(rng, MIXES["all"], bounds="inequality")
        cold = sf.solve(item.problem, "admm")
        warm = sf.solve(item.problem, "admm", warm_start=cold)
        assert warm.verdict == cold.verdict == item.truth
        assert warm.iterations == 0


def test_warm_start_from_elsewhere_does_no_harm() -> None:
    rng = np.random.default_rng(8)
    other = sf.solve(planted.feasible(rng, MIXES["psd nonneg"], rows=6).problem, "admm")
    item = planted.infeasible(rng, MIXES["psd nonneg"], rows=6)
    start = sf.WarmStart(point=other.point, certificate=np.linspace(-1.0, 1.0, 6))
    assert sf.solve(item.problem, "admm", warm_start=start).verdict == sf.Verdict.INFEASIBLE


def test_deterministic() -> None:
    item = planted.feasible(np.random.default_rng(9), MIXES["all"])
    a, b = (Admm().solve(item.problem, sf.Inquiry(item.problem)) for _ in range(2))
    assert a.iterations == b.iterations
    for x, y in zip(a.point, b.point, strict=True):
        np.testing.assert_array_equal(x, y)


# ---------------------------------------------------------------- its parts


def spaces(problem: sf.FeasibilityProblem) -> list[ScaledSpace]:
    weights = np.linspace(0.5, 2.0, problem.m)
    scales = 2.0 ** np.arange(len(problem.sets))
    plain = ScaledSpace(problem, weights, scales)
    return [plain, plain.widened(0.1)]


@pytest.mark.parametrize("name", ["all", "psd", "free", "box trace"])
def test_space_is_consistent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(10)
    problem = planted.feasible(rng, MIXES[name]).problem
    for dense in (True, False):
        if not dense:
            monkeypatch.setattr(admm, "DENSE_COEFFICIENTS", 0)
        for space in spaces(problem):
            point = tuple(planted.interior(rng, block) for block in problem.sets)
            flat = space.vector(point)
            for x, y in zip(point, space.point(flat), strict=True):
                np.testing.assert_allclose(x, y, atol=1e-12)
            y = rng.normal(size=problem.m)
            assert (space.matrix is None) is not dense
            np.testing.assert_allclose(space.apply(flat) @ y, space.adjoint(y) @ flat)
            gram = np.array([space.apply(space.adjoint(unit)) for unit in np.eye(problem.m)])
            np.testing.assert_allclose(space.gram(), gram, atol=1e-10)


@pytest.mark.parametrize("rows", [0, 3000], ids=["iterative", "factorised"])
def test_graph_projection(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    problem = planted.lmi(rng, 4, 2, truth=True).problem
    monkeypatch.setattr(admm, "CHOLESKY_ROWS", rows)
    for space in spaces(problem):
        graph = GraphProjection(space, 1.0)
        for penalty in (1.0, 20.0):
            graph.set_penalty(penalty)
            v, u = rng.normal(size=space.size), rng.normal(size=problem.m)
            x, z = graph.project(v, u)
            np.testing.assert_allclose(z, space.apply(x), atol=1e-6)
            # The normal equations of the nearest member.
            np.testing.assert_allclose(x - v + penalty * space.adjoint(space.apply(x) - u), 0.0, atol=1e-5)


def test_equations_hold_after_correction() -> None:
    rng = np.random.default_rng(12)
    problem = planted.feasible(rng, MIXES["all"], bounds="equality", rows=5).problem
    point = tuple(planted.interior(rng, block) for block in problem.sets)
    system = equality_projection(problem, np.ones(len(problem.sets)))
    assert system is not None
    moved = correct_point(problem, system, point)
    np.testing.assert_allclose(problem.apply(moved), problem.lower, atol=1e-10)
    assert np.trace(moved[3]) == pytest.approx(0.75, abs=1e-12)


def test_certificates_of_the_widened_run_are_strict() -> None:
    """A Nonneg block that the plain certificate leaves at exactly zero."""
    rng = np.random.default_rng(13)
    for _ in range(5):
        item = planted.infeasible(rng, MIXES["all"], bounds="inequality")
        result = sf.solve(item.problem, "admm", rigorous=True)
        assert result.verdict == sf.Verdict.INFEASIBLE


def test_equilibration_evens_out_blocks_and_rows() -> None:
    rng = np.random.default_rng(14)
    norms = 10.0 ** rng.uniform(-3, 0, (3, 1)) * 10.0 ** rng.uniform(-3, 3, 8) * rng.uniform(0.5, 1.0, (3, 8))
    rows, blocks = ruiz_scaling(norms)
    scaled = norms * blocks[:, None] * rows
    assert np.all(np.log2(rows) % 1 == 0)
    assert np.all(np.log2(blocks) % 1 == 0)
    assert scaled.max() / scaled.min() < 32.0


def test_default_options_are_documented() -> None:
    for name in AdmmOptions.__dataclass_fields__:
        assert f"{name} :" in AdmmOptions.__doc__
