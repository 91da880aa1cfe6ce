"""Second-order and Hermitian cones: geometry, exact boundaries, complex edges, attacks, invariance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.numerics.exact_arithmetic import number, to_rationals
from sdpfeas.problem.reductions.cones_to_psd import cones_to_psd
from sdpfeas.problem.sets import BlockSet

SEEDS = st.integers(0, 10_000)
PYTHAGOREAN = [(5, 3, 4), (13, 5, 12), (3, 1, 2, 2), (7, 2, 3, 6), (9, 1, 4, 8)]


def fractions(x: Any) -> np.ndarray:
    return to_rationals(np.ravel(x))


# ---------------------------------------------------------------- second order


@pytest.mark.parametrize("triple", PYTHAGOREAN)
@pytest.mark.parametrize("scale", [1.0, 2.0**-300, 2.0**300, 0.1])
def test_the_boundary_is_met_exactly(triple: tuple[int, ...], scale: float) -> None:
    block, x = sf.SecondOrder(len(triple)), np.array(triple) * 2.0 ** np.floor(np.log2(scale))
    assert block.distance_upper(x) == 0.0
    assert block.support_upper(-x, np.zeros(x.size), 0.0, None)[0] == 0.0
    below = x.copy()
    below[0] = np.nextafter(x[0], 0.0)
    assert block.distance_upper(below) > 0.0
    assert not block.contains_exact(fractions(below), number)
    assert block.support_upper(-below, np.zeros(x.size), 0.0, None)[0] == np.inf
    tiny = np.zeros(x.size)
    tiny[-1] = 5e-324
    assert block.support_upper(-x, tiny, 0.0, None)[0] == np.inf
    assert block.interior_radius(x, 0.5) is None


@given(SEEDS)
def test_proofs_hold_in_rational_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    block = sf.SecondOrder(n)
    x = rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3, size=n) * 2.0 ** float(rng.integers(-500, 500))
    x[0] = np.linalg.norm(x[1:] / 2.0**500) * 2.0**500 * (1.0 + rng.choice([0.0, 1e-16, -1e-16, 0.1, -0.1]))
    exact = fractions(x)
    if block.distance_upper(x) == 0.0:
        assert block.nonnegative_exact(exact)
    room = block.interior_radius(x, 0.9)
    if room is not None:
        step = rng.normal(size=n)
        step[0] = -np.linalg.norm(step[1:])
        step = step / np.linalg.norm(step) * room * (1 - 1e-15)
        assert block.nonnegative_exact(exact + fractions(step))
    error = np.abs(x) * 10.0 ** rng.uniform(-18, -1) * (rng.random(n) < 0.5)
    slip = float(np.max(np.abs(x))) * 10.0 ** rng.uniform(-18, -1)
    if block.support_upper(-x, error, slip, np.ones(n, dtype=bool))[0] == 0.0:
        worst = fractions(x) - np.append(
            fractions(error)[:1], -np.sign(x[1:]).astype(int) * fractions(error)[1:]
        )
        assert block.nonnegative_exact(worst)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("block", [sf.SecondOrder(3), sf.HermitianPSD(2)], ids=repr)
def test_nothing_is_proved_of_what_is_no_number(block: BlockSet, bad: float) -> None:
    zero = np.zeros(block.n)
    for k in range(block.n):
        x = 2.0 * block.identity()
        x[k] = bad
        if not (isinstance(block, sf.SecondOrder) and k == 0 and bad == np.inf):
            assert block.distance_upper(x) != 0.0
        assert block.support_upper(-x, zero, 0.0, None)[0] != 0.0 or bad == np.inf
        error = zero.copy()
        error[k] = bad if bad > 0 or np.isnan(bad) else -bad
        assert block.support_upper(-block.identity(), error, 0.0, None)[0] == np.inf


def test_a_norm_of_forty_numbers_is_decided_without_matrices() -> None:
    """Whether the ball of radius r meets a half-space a'z >= 1: it does, just if r |a| >= 1."""
    rng = np.random.default_rng(1)
    a = rng.normal(size=40)
    for factor, verdict in ((1.01, sf.Verdict.FEASIBLE), (0.99, sf.Verdict.INFEASIBLE)):
        rows = np.array([np.append(0.0, a), np.append(1.0, np.zeros(40))])
        bound = factor / np.linalg.norm(a)
        problem = sf.FeasibilityProblem([sf.SecondOrder(41)], [rows], [1.0, -np.inf], [np.inf, bound])
        for solver in ("auto", "clarabel", "dual-lbfgs"):
            found = sf.solve(problem, solver, rigorous=True)
            assert found.verdict is verdict, (solver, found.explain())


# ---------------------------------------------------------------- Hermitian


def hermitian(rng: np.random.Generator, side: int) -> np.ndarray:
    full = rng.integers(-8, 9, size=(side, side)) + 1j * rng.integers(-8, 9, size=(side, side))
    return full + full.conj().T


@given(SEEDS)
def test_storing_keeps_inner_products_and_eigenvalues(seed: int) -> None:
    rng = np.random.default_rng(seed)
    side = int(rng.integers(1, 6))
    block = sf.HermitianPSD(side)
    a, b = hermitian(rng, side), hermitian(rng, side)
    x, y = block.coordinates(a[None])[0], block.coordinates(b[None])[0]
    np.testing.assert_array_equal(block.to_complex(x), a)
    assert x @ y == np.trace(a @ b).real
    np.testing.assert_allclose(block.spectrum(x), np.linalg.eigvalsh(a), atol=1e-11)
    np.testing.assert_allclose(
        block.spectrum(block.project(x)), np.maximum(np.linalg.eigvalsh(a), 0), atol=1e-11
    )


@given(SEEDS)
def test_hermitian_proofs_hold_in_rational_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    side = int(rng.integers(1, 4))
    block = sf.HermitianPSD(side)
    lam = np.abs(rng.normal(size=side)) * 10.0 ** rng.uniform(-17, 0, size=side)
    x = block.compose(block.random_frame(rng), lam * (1 if rng.random() < 0.7 else -1))
    if block.distance_upper(x) == 0.0:
        assert block.nonnegative_exact(fractions(x))
    room = block.interior_radius(x, 0.9)
    if room is not None:
        lowered = fractions(x) - number(room) / (2 * side) * fractions(block.identity())
        assert block.nonnegative_exact(lowered)
    if block.support_upper(x, np.zeros(block.n), 0.0, None)[0] == 0.0:
        assert block.polar_exact(fractions(x))


def test_rank_one_integers_are_members_exactly() -> None:
    block = sf.HermitianPSD(3)
    v = np.array([1, 1j, 2 - 1j])
    x = block.coordinates(np.outer(v, v.conj())[None])[0]
    assert block.contains_exact(fractions(x), number)
    assert not block.contains_exact(fractions(x - 1e-3 * block.identity()), number)
    flag = block.coordinates(np.diag([1.0, 0.0, 2.0])[None].astype(complex))[0]
    assert block.distance_upper(flag) == 0.0
    assert block.support_upper(-flag, np.zeros(9), 0.0, None)[0] == 0.0


def test_complex_rows_and_points_at_the_edges() -> None:
    sigma = np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]], [[1, 0], [0, 1]]])
    block = sf.HermitianPSD(2)
    state = np.array([[0.5, -0.25j], [0.25j, 0.5]])
    values = [np.trace(s @ state).real for s in sigma]
    problem = sf.FeasibilityProblem([block], [sigma], values, values, block_names=["rho"])
    np.testing.assert_allclose(problem.apply(problem.point([state])), values)
    assert sf.verify(problem, sf.Claim(point=(state,)), rigorous=True).verdict is sf.Verdict.FEASIBLE
    found = sf.solve(problem, rigorous=True)
    np.testing.assert_allclose(block.to_complex(found.point[0]), state, atol=1e-9)
    builder = sf.ProblemBuilder()
    builder.block("rho", block)
    for k, (s, v) in enumerate(zip(sigma, values, strict=True)):
        builder.row(f"row {k}", {"rho": s}, equal=v)
    np.testing.assert_allclose(builder.build().apply(problem.point([state])), values)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (np.array([[[0, 1j], [1j, 0]]]), "not Hermitian"),
        (np.array([[[0, 0.1 + 1e-18j], [0.1 - 1e-18j, 0]]]), "no floating-point number"),
        (np.array([[[0, 2.0**60 + 1j], [2.0**60 - 1j, 0]]]), "no floating-point number"),
        (np.array([[[np.nan, 0j], [0, 1]]]), "Hermitian|NaN"),
        (np.array([[1j, 0, 0, 0]]), "real array"),
        (np.eye(3)[None] + 0j, "real array|shape"),
    ],
)
def test_bad_complex_rows(entry: np.ndarray, words: str) -> None:
    with pytest.raises(sf.ProblemError, match=words):
        sf.FeasibilityProblem([sf.HermitianPSD(2)], [entry], [0.0], [1.0])


@pytest.mark.parametrize("side", [0, -1, 2.5, True, "2", None, 2**20])
def test_bad_sides(side: Any) -> None:
    with pytest.raises(sf.ProblemError, match="side must be"):
        sf.HermitianPSD(side)


@given(SEEDS)
def test_unitary_coordinates_do_not_move_a_verdict(seed: int) -> None:
    rng = np.random.default_rng(seed)
    block, truth = sf.HermitianPSD(3), bool(seed % 2)
    item = (planted.feasible if truth else planted.infeasible)(rng, [block], bounds="inequality", margin=1e-3)
    turn = block.random_frame(rng)

    def turned(x: np.ndarray) -> np.ndarray:
        return block.coordinates(turn @ block.to_complex(x) @ turn.conj().T, exact=False)

    rows = np.array([turned(a) for a in item.problem.rows[0].array])
    problem = sf.FeasibilityProblem([block], [rows], item.problem.lower, item.problem.upper)
    point = None if item.point is None else (turned(item.point[0]),)
    claim = sf.Claim(point=point, certificate=item.certificate)
    assert sf.verify(problem, claim, rigorous=True).verdict is item.truth


# ---------------------------------------------------------------- both


SETS: list[BlockSet] = [sf.SecondOrder(4), sf.SecondOrder(2), sf.HermitianPSD(2), sf.Nonneg(2)]


@pytest.mark.parametrize("solver", ["auto", "clarabel", "scs", "cvxpy", "dual-lbfgs", "admm", "spectral-ipm"])
@pytest.mark.parametrize("truth", [True, False])
def test_backends_agree(solver: str, truth: bool) -> None:
    for seed, bounds in enumerate(["mixed"] if solver == "cvxpy" else ["inequality", "mixed"]):
        rng = np.random.default_rng(seed)
        item = (planted.feasible if truth else planted.infeasible)(rng, SETS, bounds=bounds)
        found = sf.solve(item.problem, solver, time_limit=20, rigorous=True)
        assert found.verdict is item.truth, found.explain()


@settings(max_examples=20)
@given(SEEDS)
def test_corrupted_evidence_is_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    item = planted.infeasible(rng, SETS[:3], bounds="mixed")
    b = int(rng.integers(3))
    point = [planted.interior(rng, block) for block in SETS[:3]]
    for repair in (True, False):
        claim = sf.Claim(point=tuple(point), certificate=-item.certificate)
        assert sf.verify(item.problem, claim, rigorous=True, repair=repair).verdict is not sf.Verdict.FEASIBLE
    good = planted.feasible(rng, SETS[:3], bounds="inequality")
    moved = list(good.point)
    moved[b] = moved[b] - (SETS[b].depth(moved[b]) + 0.1) * SETS[b].identity()
    check = sf.verify(good.problem, sf.Claim(point=tuple(moved)), rigorous=True, repair=False)
    assert check.verdict is sf.Verdict.UNDECIDED
    y = rng.normal(size=good.problem.m)
    assert (
        sf.verify(good.problem, sf.Claim(certificate=y), rigorous=True).verdict is not sf.Verdict.INFEASIBLE
    )


def test_shadows_are_the_sets() -> None:
    """Whatever lies behind a member is semidefinite and casts it; every shadow is a member."""
    rng = np.random.default_rng(3)
    for block in (sf.SecondOrder(1), sf.SecondOrder(5), sf.HermitianPSD(1), sf.HermitianPSD(3)):
        problem = sf.FeasibilityProblem([block], [rng.normal(size=(3, block.n))], -np.ones(3), np.ones(3))
        shadows = cones_to_psd(problem, ())
        (matrices,) = shadows.problem.sets
        assert isinstance(matrices, sf.PSD)
        for _ in range(20):
            x = block.project(rng.normal(size=block.n))
            (behind,) = shadows.start_point((x,))
            assert np.min(np.linalg.eigvalsh(behind)) > -1e-12
            np.testing.assert_allclose(shadows.point((behind,))[0], x, atol=1e-12)
            full = matrices.project(planted.symmetric(rng, matrices.n))
            assert block.distance(shadows.point((full,))[0]) < 1e-12
            np.testing.assert_allclose(shadows.problem.apply((full,)), problem.apply(shadows.point((full,))))
    assert cones_to_psd(problem, (sf.HermitianPSD,)).problem is problem


def test_files_keep_them(tmp_path: Path) -> None:
    item = planted.feasible(np.random.default_rng(4), SETS)
    item.problem.save(tmp_path / "p.npz")
    again = sf.FeasibilityProblem.load(tmp_path / "p.npz")
    assert again == item.problem
    assert again.sets == tuple(SETS)
    assert "HermitianPSD(2)" in repr(again)


def test_the_side_of_a_hermitian_set_is_that_of_its_real_twin() -> None:
    assert [sf.HermitianPSD(n).side for n in (1, 3)] == [2, 6]


def test_one_complex_matrix_is_stored_as_one_of_many() -> None:
    block = sf.HermitianPSD(2)
    h = np.array([[1.0, 2.0 + 3.0j], [2.0 - 3.0j, 4.0]])
    alone = block.coordinates(h)
    assert alone.shape == (4,)
    assert np.array_equal(block.coordinates(np.stack([h, 2 * h])), [alone, 2 * alone])
    assert np.array_equal(block.coordinates(alone), alone)
    assert sf.HermitianPSD(1).coordinates([[2.0]]) == [[2.0]]  # a row of one number
    assert np.shape(sf.HermitianPSD(1).coordinates([[2.0 + 0.0j]])) == (1,)
