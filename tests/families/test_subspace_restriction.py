"""Many dimensions: subspaces give the bracket of the whole, proved about the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.spectral_ipm import SpectralIpm
from sdpfeas.claims import Claim, Verdict
from sdpfeas.families import WLDA, FantopeMaxMin
from sdpfeas.families import subspace_restriction as subspaces
from sdpfeas.families.subspace_restriction import davidson_pairs, lift_to_interior
from sdpfeas.problem.rows import LowRank, PairwiseDifference, low_rank


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take subspaces where they would not pay yet."""
    monkeypatch.setattr(subspaces, "MIN_DIMENSION", 10)


def samples(seed: int, classes: int, d: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(count) % classes
    means = rng.standard_normal((classes, d))
    return (means[y] + rng.standard_normal((count, d))) * np.exp(rng.uniform(-1, 1, d)), y


def assert_proven(family: sf.families.ParametricFamily, found: sf.BisectionResult) -> None:
    assert found.proven
    assert found.converged
    below = sf.verify(family.at(found.lower), Claim(point=found.point), rigorous=True)
    above = sf.verify(family.at(found.upper), Claim(certificate=found.certificate), rigorous=True)
    assert (below.verdict, above.verdict) == (Verdict.FEASIBLE, Verdict.INFEASIBLE)


def both(family: sf.families.ParametricFamily, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bracket with subspaces and without: one program each, and the same threshold."""
    programs: list[int] = []
    program = type(family).conic_program

    def counted(self: sf.families.ParametricFamily) -> Any:
        if self is family:  # a restriction may be a family of the same class
            programs.append(1)
        return program(self)

    monkeypatch.setattr(type(family), "conic_program", counted)
    assert family.subspace_restriction() is not None
    found = sf.bisect(family, tol=1e-6)
    assert not programs, "the program of the whole was not needed"
    assert_proven(family, found)
    assert found.solves == 1
    monkeypatch.setattr(type(family), "subspace_restriction", lambda self: None)
    other = sf.bisect(family, tol=1e-6)
    assert programs
    assert found.lower <= other.upper
    assert found.upper >= other.lower


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("seed", "formulation"), [(0, "compact"), (2, "paper")])
def test_ratios(seed: int, formulation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = samples(seed, 4, 40, 100)
    both(WLDA.from_data(X, y, 2, formulation=formulation), monkeypatch)


@pytest.mark.usefixtures("small")
def test_ratios_of_shrunk_scatters(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = samples(3, 5, 36, 80)
    both(WLDA.from_data(X, y, 3, shrinkage=0.3), monkeypatch)


@pytest.mark.usefixtures("small")
def test_more_directions_than_means_span(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = samples(4, 3, 40, 100)
    both(WLDA.from_data(X, y, 5), monkeypatch)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["dense", "low-rank", "pairs"])
def test_least_of_linear_functions(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    factors = rng.standard_normal((6, 8, 40))
    rows = {
        "dense": np.einsum("kai,kaj->kij", factors, factors),
        "low-rank": LowRank(list(factors)),
        "pairs": PairwiseDifference(rng.standard_normal((7, 40))),
    }[kind]
    both(FantopeMaxMin(rows, 2, None if kind == "pairs" else rng.standard_normal(6)), monkeypatch)


def asked_sides(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sides of the matrices that the interior-point method is asked about from now on."""
    sides: list[int] = []
    solve = SpectralIpm.solve

    def heard(self: SpectralIpm, problem: sf.FeasibilityProblem, inquiry: Inquiry) -> Claim:
        sides.append(problem.sets[0].n)
        return solve(self, problem, inquiry)

    monkeypatch.setattr(SpectralIpm, "solve", heard)
    return sides


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("formulation", ["compact", "paper"])
def test_questions_about_ratios(formulation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = samples(0, 4, 60, 200)
    family, sides = WLDA.from_data(X, y, 2, formulation=formulation), asked_sides(monkeypatch)
    found = sf.bisect(family, "spectral-ipm", tol=1e-3)
    assert_proven(family, found)
    assert not sides, "no question was needed"
    other = sf.bisect(family, tol=1e-6)
    assert found.lower <= other.upper
    assert found.upper >= other.lower


@pytest.mark.usefixtures("small")
def test_questions_about_the_least_of_linear_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    rows = LowRank(list(rng.standard_normal((6, 8, 40))))
    family, sides = FantopeMaxMin(rows, 2, rng.standard_normal(6)), asked_sides(monkeypatch)
    found = sf.bisect(family, "spectral-ipm", tol=1e-3)
    assert_proven(family, found)
    assert not sides, "no question was needed"
    other = sf.bisect(family, tol=1e-6)
    assert found.lower <= other.upper
    assert found.upper >= other.lower


@pytest.mark.usefixtures("small")
def test_where_questions_on_subspaces_do_not_do_the_whole_does(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = samples(0, 4, 30, 100)
    family, sides = WLDA.from_data(X, y, 2), asked_sides(monkeypatch)
    monkeypatch.setattr("sdpfeas.drivers.bisection.MAX_ROUNDS", 1)
    assert_proven(family, sf.bisect(family, "spectral-ipm", tol=1e-4))
    assert set(sides) == {30}
    late = sf.bisect(family, "spectral-ipm", tol=1e-6, time_limit=1e-3)
    assert late.lower <= late.upper


@pytest.mark.usefixtures("small")
def test_where_subspaces_do_not_do_the_whole_does(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = samples(0, 4, 30, 100)
    family = WLDA.from_data(X, y, 2)
    monkeypatch.setattr("sdpfeas.drivers.bisection.MAX_ROUNDS", 1)
    assert_proven(family, sf.bisect(family, tol=1e-6))
    assert_proven(family, sf.one_shot(family, tol=1e-6))
    late = sf.bisect(family, tol=1e-6, time_limit=1e-3)
    assert late.lower <= late.upper


def test_a_lifted_matrix_is_inside() -> None:
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.standard_normal((50, 6)))
    z = lift_to_interior(basis, sf.SpectralBox(6, trace=2.0).project(np.diag(rng.random(6))), 2.0)
    box = sf.SpectralBox(50, trace=2.0)
    assert box.proves_inside(z)
    assert np.trace(z) == pytest.approx(2.0, abs=1e-13)


def test_few_dimensions_and_many_directions_stay_whole() -> None:
    X, y = samples(0, 4, 30, 100)
    assert WLDA.from_data(X, y).subspace_restriction() is None
    assert FantopeMaxMin(np.eye(300)[None], 200).subspace_restriction() is None
    assert FantopeMaxMin(np.eye(300)[None], 2.5).subspace_restriction() is None


@pytest.mark.slow
def test_five_hundred_dimensions() -> None:
    X, y = samples(0, 10, 500, 1000)
    family = WLDA.from_data(X, y)
    assert_proven(family, sf.bisect(family, tol=1e-6))


def test_davidson_finds_leading_eigenvectors() -> None:
    rng = np.random.default_rng(0)
    n, lam = 60, np.concatenate([[3.0, 2.0, 1.0], -np.geomspace(0.5, 1e3, 57)])
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    matrix = (q * lam) @ q.T
    near = np.linalg.inv((q * np.maximum(-lam, 0.5)) @ q.T + 0.05 * np.eye(n))
    start = np.linalg.qr(rng.standard_normal((n, 8)))[0]
    values, vectors, short = davidson_pairs(
        lambda v: matrix @ v, lambda v: near @ v, start, 4, lambda found: 1e-10
    )
    assert short <= 1e-10
    assert np.allclose(values[-3:], [1.0, 2.0, 3.0], rtol=1e-6)
    assert np.allclose(matrix @ vectors[:, -3:], vectors[:, -3:] * values[-3:], atol=1e-3)


def test_factors_in_strips_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    rows = LowRank([rng.standard_normal((k, 6)) for k in (3, 1, 4)], [[1, -1, 2], [-3], [1, 1, 1, 1]])
    dense = np.array([rows.adjoint(unit) for unit in np.eye(3)])
    x, y = rng.standard_normal((6, 6)), np.array([1.0, -2.0, 0.5])
    x = x + x.T
    for factors in (100, 3):
        monkeypatch.setattr(low_rank, "STRIP_NUMBERS", 6 * factors)
        assert np.allclose(rows.apply(x), np.einsum("kij,ij->k", dense, x))
        for w in (y, np.abs(y), -np.abs(y)):
            total = rows.adjoint(w)
            assert np.allclose(total, np.einsum("k,kij->ij", w, dense))
            assert np.array_equal(total, total.T)
        assert np.all(rows.magnitude_adjoint(np.abs(y)) >= np.abs(rows.adjoint(y)) - 1e-12)
        assert np.all(rows.magnitude_apply(np.abs(x)) >= np.abs(rows.apply(x)) - 1e-12)
