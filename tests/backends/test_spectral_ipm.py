"""The structured interior-point method: linear algebra, verdicts, warm starts and degenerate problems."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from iterations import iterate_once

import sdpfeas as sf
from sdpfeas.backends.base import SPECTRAL_SETS
from sdpfeas.backends.ipm.normal_equations import DenseNormalEquations
from sdpfeas.backends.ipm.spectral_ipm import SpectralIpm
from sdpfeas.backends.ipm.structured_cones import NesterovToddCone, central_path_pair, central_path_spectrum
from sdpfeas.backends.ipm.structured_system import StructuredSystem
from sdpfeas.backends.ipm.transformed_rows import pairwise_gram, transform_rows, weighted_gram
from sdpfeas.families import planted
from sdpfeas.families.worst_case_ratio import WorstCaseRatio, balanced_weights
from sdpfeas.numerics.linalg import random_orthogonal
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.reductions.cones_to_psd import cones_to_psd
from sdpfeas.problem.rows import LowRank, PairwiseDifference, Stacked

SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS, storage=st.sampled_from(planted.MATRIX_STORAGE), kernel=st.booleans())
def test_weighted_gram_matches_the_definition(seed, storage, kernel) -> None:
    rng = np.random.default_rng(seed)
    n, m = 4, 5
    rows = planted.random_rows(rng, sf.PSD(n), m, storage)
    t = rng.normal(size=(n, n))
    weights = 1.0 + np.outer(d := rng.uniform(0, 2, n), d) if kernel else None
    dense = np.array([t @ rows.adjoint(unit) @ t.T for unit in np.eye(m)])
    inner = dense if weights is None else dense / weights
    expected = np.einsum("aij,bij->ab", dense, inner)
    image, more = transform_rows(rows, t), np.diag(rng.normal(size=n))
    gram, mixed = weighted_gram(image, weights, [more])
    size = np.abs(expected).max()
    assert np.allclose(gram, expected, atol=1e-9 * size)
    assert np.allclose(mixed[0], np.einsum("aij,ij->a", inner, more), atol=1e-9 * np.sqrt(size))
    assert np.allclose(image.apply(more), np.einsum("aij,ij->a", dense, more), atol=1e-9 * np.sqrt(size))
    y = rng.normal(size=m)
    assert np.allclose(image.adjoint(y), np.einsum("a,aij->ij", y, dense), atol=1e-9 * np.sqrt(size))


def test_weighted_gram_is_independent_of_strip_width(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    rows = planted.random_rows(rng, sf.PSD(7), 6, "stacked")
    t, kernel = rng.normal(size=(7, 7)), 1.0 + rng.uniform(0, 1, (7, 7))
    kernel = 0.5 * (kernel + kernel.T)
    whole, mixed = weighted_gram(transform_rows(rows, t), kernel, [kernel])
    monkeypatch.setattr("sdpfeas.backends.ipm.transformed_rows.STRIP_NUMBERS", 2 * 7 * 7)
    narrow, mixed_too = weighted_gram(transform_rows(rows, t), kernel, [kernel])
    assert np.allclose(narrow, whole)
    assert np.allclose(mixed_too, mixed)


@pytest.mark.parametrize("c", [2, 3, 6])
def test_pairwise_gram_by_table_equals_batches(monkeypatch, c) -> None:
    rng = np.random.default_rng(c)
    means, weight = rng.normal(size=(c, 5)), rng.uniform(0, 1, (5, 5))
    weight = weight + weight.T
    pairs = c * (c - 1) // 2
    table, batches = np.empty((pairs, pairs)), np.empty((pairs, pairs))
    pairwise_gram(means, weight, table)
    monkeypatch.setattr("sdpfeas.backends.ipm.transformed_rows.TABLE_MEANS", 0)
    pairwise_gram(means, weight, batches)
    v = PairwiseDifference(means).differences()
    expected = np.einsum("pa,pb,ab,qa,qb->pq", v, v, weight, v, v)
    assert np.array_equal(table, table.T)
    assert np.allclose(table, expected)
    assert np.allclose(batches, expected)


@given(seed=SEEDS, empty=st.booleans())
def test_quasi_definite_systems_are_solved(seed, empty) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    schur = root @ root.T + np.eye(6)
    if empty:
        schur[0] = schur[:, 0] = 0.0
    columns = rng.normal(size=(6, 2))
    y, b = DenseNormalEquations(schur, columns).solve(r1 := rng.normal(size=6), r2 := rng.normal(size=2))
    assert np.allclose(schur @ y + columns @ b, r1, atol=1e-7)
    assert np.allclose(columns.T @ y, r2, atol=1e-7)


@pytest.mark.parametrize("mix", sorted(planted.set_mixes()))
def test_a_step_shrinks_every_linear_residual_alike(mix) -> None:
    """Newton directions solve the linear equations exactly, so residuals shrink by one common factor."""
    rng = np.random.default_rng(3)
    problem = planted.feasible(rng, planted.set_mixes()[mix], bounds="mixed").problem
    problem = cones_to_psd(problem, SPECTRAL_SETS).problem
    embedding = StructuredSystem(problem, None)

    def residuals() -> np.ndarray:
        parts = [embedding.r_rows, embedding.r_free, embedding.r_outer]
        return np.concatenate([*parts, *(r.ravel() for r in embedding.r_blocks)])

    before = residuals()
    iterate_once(embedding)
    after = residuals()
    big = np.abs(before) > 1e-3 * np.abs(before).max()
    factors = after[big] / before[big]
    assert np.allclose(factors, factors[0], rtol=1e-5, atol=1e-7)
    assert 0.0 <= factors[0] < 1.0


def test_maximise_agrees_with_the_support_function() -> None:
    rng = np.random.default_rng(1)
    box = sf.SpectralBox(6, trace=2.5)
    g = planted.symmetric(rng, 6)
    row = planted.symmetric(rng, 6)
    problem = sf.FeasibilityProblem([box], [row[None]], [-10.0], [10.0])
    program = ConicProgram(problem, (g,))
    claim = SpectralIpm().maximise(program, sf.Inquiry(program.problem))
    assert program.value(claim.point) == pytest.approx(box.support(g), rel=1e-7)


def test_multipliers_bound_the_optimal_value() -> None:
    rng = np.random.default_rng(2)
    box = sf.SpectralBox(5, trace=2.0)
    g, row = planted.symmetric(rng, 5), planted.symmetric(rng, 5)
    level = 0.5 * box.support(row)
    problem = sf.FeasibilityProblem([box], [row[None]], [-np.inf], [level - 0.3])
    program = ConicProgram(problem, (g,))
    claim = SpectralIpm().maximise(program, sf.Inquiry(program.problem))
    y = claim.certificate
    bound = box.support(g + problem.adjoint(y)[0]) - float(np.sum(problem.beta_terms(y)))
    assert bound == pytest.approx(program.value(claim.point), rel=1e-6)


def degenerate() -> dict[str, tuple[sf.FeasibilityProblem, set[str]]]:
    """Degenerate problems (no interior, redundant rows, ...) and the verdicts allowed for them."""
    unit = np.zeros((3, 3))
    unit[0, 0] = 1.0
    eye = np.eye(3)
    face = sf.FeasibilityProblem([sf.PSD(3)], [np.array([unit, eye])], [0, 1], [0, 1])
    twice = sf.FeasibilityProblem([sf.PSD(3)], [np.array([eye, eye, 2 * eye])], [1, 1, 2], [1, 1, 2])
    clash = sf.FeasibilityProblem([sf.PSD(3)], [np.array([eye, eye])], [1, 2], [1, 2])
    free = sf.FeasibilityProblem([sf.Free(3)], [np.array([[1.0, 1, 0], [1, 1, 0]])], [1, 1], [1, 1])
    idle = sf.FeasibilityProblem([sf.Free(2), sf.PSD(2)], [None, np.eye(2)[None]], [1], [1])
    point = sf.FeasibilityProblem([sf.SpectralBox(3, trace=3)], [unit[None]], [0.5], [2])
    outside = sf.FeasibilityProblem([sf.SpectralBox(3, trace=3)], [unit[None]], [1.5], [2])
    zero_row = sf.FeasibilityProblem([sf.PSD(2)], [np.zeros((1, 2, 2))], [-1], [1])
    zero_clash = sf.FeasibilityProblem([sf.PSD(2)], [sp.csr_array((1, 4))], [1], [2])
    no_rows = sf.FeasibilityProblem([sf.PSD(2)], [None], [], [])
    unbounded = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [-np.inf], [np.inf])
    return {
        "a face": (face, {"feasible", "undecided"}),
        "redundant rows": (twice, {"feasible", "undecided"}),
        "contradicting rows": (clash, {"infeasible", "undecided"}),
        "redundant free rows": (free, {"feasible", "undecided"}),
        "a free block no row touches": (idle, {"feasible"}),
        "a box with one member": (point, {"feasible"}),
        "a box whose only member fails": (outside, {"infeasible"}),
        "a row of zeros": (zero_row, {"feasible"}),
        "a row of zeros out of bounds": (zero_clash, {"infeasible"}),
        "no rows": (no_rows, {"feasible"}),
        "no bounds": (unbounded, {"feasible"}),
    }


@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("solver", ["spectral-ipm", "auto"])
def test_degenerate_problems_never_end_wrong_or_in_an_error(name, solver) -> None:
    problem, allowed = degenerate()[name]
    result = sf.solve(problem, solver, time_limit=20)
    assert result.stop is not sf.Stop.ERROR, result.raw_status
    assert str(result.verdict) in allowed


@pytest.mark.slow
def test_nearly_all_mixed_problems_are_decided() -> None:
    undecided = []
    for k in range(300):
        rng = np.random.default_rng([5, k])
        mixes = planted.set_mixes(int(rng.integers(1, 11)))
        item = (planted.feasible, planted.infeasible)[k % 2](
            rng, mixes[sorted(mixes)[k % len(mixes)]], bounds=str(rng.choice(planted.BOUNDS)), margin=1e-2
        )
        verdict = sf.solve(item.problem, "spectral-ipm", time_limit=60).verdict
        assert verdict is not item.wrong_verdict
        if verdict is not item.truth:
            undecided.append(k)
    assert len(undecided) <= 3, undecided


@pytest.mark.parametrize("batch", [1, 200, 10**6])
def test_products_of_means_give_the_gram_matrix_of_pairs(monkeypatch, batch) -> None:
    """Several sets of means beside other rows, in any order, with kernel and without."""
    monkeypatch.setattr("sdpfeas.backends.ipm.transformed_rows.PAIR_BATCH_NUMBERS", batch)
    rng = np.random.default_rng(1)
    n = 6
    first, second = (PairwiseDifference(rng.normal(size=(c, n))) for c in (5, 3))
    other = LowRank(list(rng.normal(size=(2, 3, n))))
    rows = Stacked(
        [first.scaled(rng.uniform(1.0, 2.0, first.m)), other, second, first.select(np.array([4, 1]))]
    )
    dense = np.array([rows.adjoint(unit) for unit in np.eye(rows.m)])
    for kernel in (None, 1.0 + np.outer(d := rng.uniform(0, 2, n), d)):
        gram, mixed = weighted_gram(transform_rows(rows, np.eye(n)), kernel, [np.eye(n)])
        inner = dense if kernel is None else dense / kernel
        assert np.allclose(gram, np.einsum("aij,bij->ab", dense, inner))
        assert np.allclose(mixed[0], np.einsum("aii->a", inner))
        assert np.allclose(gram, gram.T, rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("n", [6, 200])
def test_a_cone_with_common_eigenvectors_needs_no_eigendecomposition(n) -> None:
    rng = np.random.default_rng(2)
    vec, slack, dual = random_orthogonal(rng, n), *rng.uniform(0.5, 2.0, (2, n))
    told = NesterovToddCone.from_spectra(vec, (-1.0, 1.0), slack, dual)
    found = NesterovToddCone.of((-1.0, 1.0), told.slack, told.dual)
    assert np.allclose(np.sort(told.lam), np.sort(found.lam))
    for cone in (told, found):
        assert np.allclose(cone.inverse @ cone.slack @ cone.inverse.T, np.diag(cone.lam))
        assert np.allclose(cone.scaling.T @ cone.dual @ cone.scaling, np.diag(cone.lam))


@pytest.mark.parametrize("corrected", [False, True])
def test_max_step_reaches_the_boundary_of_slack_or_dual(corrected) -> None:
    """By Lanczos' method; for a predictor one run gives both step lengths."""
    rng = np.random.default_rng(3)
    n = 200
    spectra = rng.uniform(0.5, 2.0, (2, n))
    cone = NesterovToddCone.from_spectra(random_orthogonal(rng, n), (1.0, 0.0), *spectra)
    for attempt in range(1 + corrected):
        cone.set_target(0.1 * attempt, corrected=bool(attempt))
        cone.set_direction(planted.symmetric(rng, n), 0.0)
    limit = cone.max_step()
    ds, du = cone._scaled
    lowest = [min(np.linalg.eigvalsh(np.diag(cone.lam) + limit * d)) for d in (ds, du)]
    assert abs(min(lowest)) <= 0.02 * np.max(cone.lam)


@given(seed=SEEDS, exponent=st.integers(-8, 2), traced=st.booleans())
def test_central_path_spectra_solve_their_equation(seed, exponent, traced) -> None:
    rng = np.random.default_rng(seed)
    g, mu, width = np.sort(rng.normal(size=6)), 10.0**exponent, float(rng.uniform(0.5, 3.0))
    total = float(rng.uniform(0.1, 0.9)) * 6 * width if traced else None
    low, high, theta = central_path_spectrum(g, mu, width, total)
    assert np.all(low > 0.0)
    assert np.all(high > 0.0)
    assert np.allclose(low + high, width)
    assert np.allclose(g - theta + mu / low - mu / high, 0.0, atol=1e-8 * (1.0 + abs(theta) + mu))
    assert theta == 0.0 if total is None else np.isclose(low.sum(), total)


@given(seed=SEEDS, exponent=st.integers(-12, 2))
def test_central_path_pairs_multiply_to_mu(seed, exponent) -> None:
    g, mu = np.random.default_rng(seed).normal(size=9), 10.0**exponent
    x, u = central_path_pair(g, mu)
    assert np.all(u > 0.0)
    assert np.allclose(x * u, mu, rtol=1e-12)
    assert np.all(u >= -g)


def blobs(classes: int, features: int) -> sf.families.WLDA:
    rng = np.random.default_rng(0)
    y = np.arange(3 * features) % classes
    scale = np.exp(rng.uniform(-1.0, 1.0, features))
    X = rng.normal(size=(classes, features))[y] + scale * rng.normal(size=(y.size, features))
    return sf.families.WLDA.from_data(X, y, classes - 1)


def test_warm_start_is_centred_and_stationary() -> None:
    program = blobs(5, 12).conic_program()
    assert program.start is not None
    cost = tuple(-c for c in program.objective)
    embedding = StructuredSystem(program.problem, cost, program.scale, program.start)
    (_, block, *_) = embedding.blocks
    assert np.linalg.norm(embedding.r_blocks[1]) <= 1e-9 * np.linalg.norm(block.dual)
    for cone in block.cones:
        assert np.allclose(cone.lam**2, embedding.mu, rtol=1e-3)
    assert np.isclose(np.trace(block.x), 4.0 * embedding.scale)


def test_warm_start_saves_iterations() -> None:
    program = blobs(6, 60).conic_program()
    plain = ConicProgram(program.problem, program.objective, program.scale)
    close = sf.Inquiry(program.problem, listener=lambda at: at.gap <= 1e-6)
    again = sf.Inquiry(program.problem, listener=lambda at: at.gap <= 1e-6)
    warm, cold = SpectralIpm().maximise(program, close), SpectralIpm().maximise(plain, again)
    assert warm.iterations < cold.iterations
    assert np.isclose(program.value(warm.point), program.value(cold.point), rtol=1e-5)


def test_wrong_warm_start_does_no_harm() -> None:
    program = blobs(4, 8).conic_program()
    point, y = program.start
    nonsense = ConicProgram(
        program.problem, program.objective, program.scale, (point, np.full_like(y, np.nan))
    )
    claim, plain = (SpectralIpm().maximise(p, sf.Inquiry(p.problem)) for p in (nonsense, program))
    assert np.isclose(program.value(claim.point), program.value(plain.point), rtol=1e-5)


def test_auto_hands_an_objective_on() -> None:
    family = blobs(3, 6)
    first, second = sf.one_shot(family, "auto", tol=1e-6), sf.one_shot(family, "spectral-ipm", tol=1e-6)
    assert first.converged
    assert (first.lower, first.upper) == (second.lower, second.upper)
    with pytest.raises(sf.BackendError, match="takes no objective"):
        sf.one_shot(family, "admm")


def test_balanced_weights_rule_out_more_than_equal_ones() -> None:
    family = blobs(6, 30)
    u, w, near = balanced_weights(family)
    for weights in (u, w):
        assert weights.min() > 0.0
        assert np.isclose(weights.sum(), 1.0)
    equal = np.full(u.size, 1.0 / u.size), np.full(w.size, 1.0 / w.size)
    best, plain = (family._price(*pair, 0.0)[0] for pair in ((u, w), equal))
    assert best < 0.8 * plain
    assert near == pytest.approx(best, rel=0.2)


def test_balanced_weights_stay_equal_where_nothing_scatters() -> None:
    box, scatters = sf.SpectralBox(3, trace=1.0), LowRank(np.zeros((2, 3)))
    u, w, near = balanced_weights(WorstCaseRatio(box, np.eye(3), scatters, [np.arange(3)]))
    assert np.allclose(u, 1.0 / 3.0)
    assert np.allclose(w, 0.5)
    assert near == 0.0


def test_cold_start_follows_a_failed_warm_start(monkeypatch) -> None:
    made, factorise = StructuredSystem.__init__, StructuredSystem.factorise

    def remember_start(self, problem, cost=None, scale=None, start=None, **named):
        self.fails = start is not None
        made(self, problem, cost, scale, start, **named)

    def stumble(self):
        if self.fails and self.iteration == 2:
            raise np.linalg.LinAlgError("rounding")
        factorise(self)

    monkeypatch.setattr(StructuredSystem, "__init__", remember_start)
    monkeypatch.setattr(StructuredSystem, "factorise", stumble)
    family = blobs(4, 10)
    found = sf.one_shot(family, "spectral-ipm", tol=1e-6)
    assert found.converged
    program = replace(family.conic_program(), start=None)
    inquiry = sf.Inquiry(program.problem, listener=lambda at: at.gap <= 1e-7)
    cold = SpectralIpm().maximise(program, inquiry)
    assert found.history[0].iterations > 2
    assert found.lower <= family.ratio(family.program_point(cold.point)) * (1.0 + 1e-6)
