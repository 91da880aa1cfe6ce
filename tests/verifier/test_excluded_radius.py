"""No feasible point is inside an excluded radius; unstable systems get a large one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.verifier.repair import admissible_multipliers
from sdpfeas.verifier.results import with_excluded_radius
from sdpfeas.verifier.rigorous import excluded_radius

# ---------------------------------------------------------------- problems without a point of moderate norm


def unstable(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw a matrix with stable and unstable modes."""
    while True:
        a = rng.normal(size=(n, n))
        real = np.linalg.eigvals(a).real
        if real.min() < -0.1 and real.max() > 0.1:
            return a


def units(n: int) -> list[np.ndarray]:
    """Basis of the symmetric matrices, of entries zero and one."""
    out = []
    for i in range(n):
        for j in range(i + 1):
            e = np.zeros((n, n))
            e[i, j] = e[j, i] = 1.0
            out.append(e)
    return out


def as_rows(a: np.ndarray) -> sf.FeasibilityProblem:
    """``Q = P - I >= 0`` and ``S = -(A'P + PA) >= 0``."""
    n = len(a)
    builder = sf.ProblemBuilder()
    builder.block("Q", sf.PSD(n))
    builder.block("S", sf.PSD(n))
    for k, e in enumerate(units(n)):
        g = a @ e + e @ a.T
        builder.row(f"entry {k}", {"Q": (g + g.T) / 2, "S": e}, equal=-float(np.sum(e * (a + a.T))))
    return builder.build()


def as_lmis(a: np.ndarray) -> sf.FeasibilityProblem:
    """``P - I >= 0`` and ``-(A'P + PA) >= 0`` with the triangle of P as free variables."""
    n, basis = len(a), np.array(units(len(a)))
    images = np.array([-(a.T @ e + (a.T @ e).T) for e in basis])
    lmis = [
        sf.LMI(sf.PSD(n), -np.eye(n), [basis], "P >= I"),
        sf.LMI(sf.PSD(n), np.zeros((n, n)), [images], "Lyapunov"),
    ]
    return sf.FeasibilityProblem([sf.Free(len(basis))], [None], [], [], lmis=lmis)


@pytest.mark.parametrize("form", [as_rows, as_lmis])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_unstable_systems_have_no_lyapunov_matrix_of_moderate_norm(n, form):
    result = sf.solve(form(unstable(np.random.default_rng([32, n]), n)))
    assert result.verdict == "infeasible" or result.excluded_radius >= 1e6
    if result.verdict == "undecided":
        assert "no feasible point with norm up to" in result.reason
        assert "(rigorous); beyond that nothing is proved" in result.reason
        assert result.proof is None


# ---------------------------------------------------------------- feasible points at the radius itself


def member(block, rng):
    """Return an integer vector of the cone, and integers orthogonal to it in the polar cone."""
    x, away = np.zeros(block.shape), np.zeros(block.shape)
    flat, other = (np.diagonal(x), np.diagonal(away)) if block.matrix else (x, away)
    for part in (flat, other):
        part.setflags(write=True)
    if isinstance(block, sf.SecondOrder):
        x[:3], away[:3] = (5.0, 3.0, 4.0), (-5.0, 3.0, 4.0)
    else:
        flat[:2] = (3.0, 4.0)
        if not block.free:
            other[2:] = -rng.integers(0, 9, other[2:].size)
    return x, away


@pytest.mark.parametrize("block", [sf.PSD(4), sf.Nonneg(4), sf.Free(4), sf.SecondOrder(4)])
@pytest.mark.parametrize("exponent", [-400, -60, 0, 60, 400])
@pytest.mark.parametrize("small", [-60, -20, 0, 30])
def test_the_radius_ends_at_the_nearest_feasible_point(block, exponent, small):
    """``<2^small x + away, X> >= <2^small x, t x>`` holds at ``t x``, and at no point of smaller norm."""
    rng = np.random.default_rng([abs(exponent), abs(small)])
    x, away = member(block, rng)
    t = math.ldexp(1.0, exponent)
    least = math.ldexp(float(np.vdot(x, x)), small) * t
    row = math.ldexp(1.0, small) * x + away
    problem = sf.FeasibilityProblem([block], [row[None]], [least], [math.inf])
    square = sum(Fraction(float(v)) ** 2 for v in (t * x).ravel())
    for y in (1.0, 3.0, 1e-200, 1e200):
        radius = excluded_radius(problem, np.array([y]))
        assert Fraction(radius) ** 2 < square
        # The bound of the distance of a matrix from the cone is coarser, and small parts are lost beside
        # large ones; a vector loses nothing.
        if small >= -20:
            share = 0.2 if block.matrix or isinstance(block, sf.SecondOrder) else 1.0 - 1e-9
            assert radius >= share * math.sqrt(square)


def test_every_block_takes_its_part():
    """``sum_b <1, X_b> + tr Z >= 7`` with two free numbers and ``0 <= Z <= 1`` of side one: the nearest point
    is ``(3, 3)`` with ``Z = 1``.
    """
    sets = [sf.Free(1), sf.SpectralBox(1, 0, 1), sf.Nonneg(1)]
    rows = [np.array([[1.0]]), np.array([[[1.0]]]), np.array([[1.0]])]
    problem = sf.FeasibilityProblem(sets, rows, [7.0], [math.inf])
    assert 3.0 - 1e-9 < excluded_radius(problem, np.array([1.0])) < 3.0


def norm(problem: sf.FeasibilityProblem, point) -> float:
    """Norm of a point, as the docstring of ``excluded_radius`` defines it."""
    blocks = zip(problem.sets, point, strict=True)
    return max((float(np.linalg.norm(x)) for block, x in blocks if not block.bounded), default=0.0)


def nearly_certificates(rng: np.random.Generator, problem: sf.FeasibilityProblem):
    """Yield multipliers with right signs: random ones, and those that a random search for a large radius
    finds.
    """
    best, radius = None, 0.0
    for k in range(24):
        y = rng.normal(size=problem.multiplier_count)
        if best is not None and k % 4:
            y = best + 10.0 ** rng.uniform(-6, 0) * np.max(np.abs(best)) * y
        y = admissible_multipliers(problem, y)
        yield y
        found = excluded_radius(problem, y)
        if found > radius:
            best, radius = y, found


MIXES = list(planted.set_mixes())


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("bounds", planted.BOUNDS)
@pytest.mark.parametrize("scale", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_planted_points_are_outside(mix, bounds, scale):
    rng = np.random.default_rng([7, MIXES.index(mix), planted.BOUNDS.index(bounds), scale])
    storage = planted.MATRIX_STORAGE[MIXES.index(mix) % len(planted.MATRIX_STORAGE)]
    sets = planted.set_mixes(scale)[mix]
    case = planted.feasible(rng, sets, storage=storage, bounds=bounds, margin=1e-3)
    assert case.point is not None
    largest = norm(case.problem, case.point)
    for y in nearly_certificates(rng, case.problem):
        assert excluded_radius(case.problem, y) <= (1.0 + 1e-9) * largest
        assert excluded_radius(case.problem, np.ldexp(y, 300)) <= (1.0 + 1e-9) * largest


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("target", [sf.PSD(3), sf.SecondOrder(3), sf.Nonneg(2), sf.SpectralBox(3, -1, 2)])
def test_planted_points_of_lmis_are_outside(mix, target):
    rng = np.random.default_rng([8, MIXES.index(mix), target.n])
    case = planted.feasible_lmis(rng, planted.set_mixes(1)[mix], [target, sf.PSD(2)], rows=2, margin=1e-3)
    assert case.point is not None
    largest = norm(case.problem, case.point)
    for y in nearly_certificates(rng, case.problem):
        assert excluded_radius(case.problem, y) <= (1.0 + 1e-9) * largest


def test_random_searches_find_large_radii():
    """The attacks above reach a good share of the norm of the planted point."""
    rng, reached = np.random.default_rng(9), []
    for _ in range(20):
        case = planted.feasible(rng, [sf.Nonneg(4)], bounds="inequality", rows=3, margin=1e-3)
        found = [excluded_radius(case.problem, y) for y in nearly_certificates(rng, case.problem)]
        reached.append(max(found) / norm(case.problem, case.point))
    assert max(reached) > 0.5


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e9])
def test_stopped_solves_exclude_no_feasible_point(size):
    """``P >= size I`` and a stable system: a Lyapunov matrix exists, but the backend is stopped early."""
    rng = np.random.default_rng(10)
    for _ in range(5):
        a = unstable(rng, 3)
        a -= (np.linalg.eigvals(a).real.max() + 1e-3) * np.eye(3)
        basis = np.array(units(3))
        images = np.array([-(a.T @ e + (a.T @ e).T) for e in basis])
        lmis = [
            sf.LMI(sf.PSD(3), -size * np.eye(3), [basis]),
            sf.LMI(sf.PSD(3), np.zeros((3, 3)), [images]),
        ]
        problem = sf.FeasibilityProblem([sf.Free(6)], [None], [], [], lmis=lmis)
        decided = sf.solve(problem)
        assert decided.verdict == "feasible"
        for steps in (1, 3, 6):
            stopped = sf.solve(problem, callback=lambda progress, steps=steps: progress.iteration >= steps)
            if stopped.verdict == "undecided":
                assert stopped.excluded_radius <= norm(problem, decided.point)


# ---------------------------------------------------------------- what proves nothing, and what is shown


def test_wrong_multipliers_prove_nothing():
    problem = sf.FeasibilityProblem([sf.Nonneg(2)], [np.array([[1.0, -1.0]])], [1.0], [math.inf])
    for y in (0.0, -1.0, math.nan, math.inf):
        assert excluded_radius(problem, np.array([y])) == 0.0
    assert 0.999 < excluded_radius(problem, np.array([1.0])) < 1.0
    certain = sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[-1.0]])], [1.0], [math.inf])
    assert excluded_radius(certain, np.array([1.0])) == math.inf
    overflowing = sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[1e308], [1e308]])], [1, 1], [9, 9])
    assert excluded_radius(overflowing, np.array([1e308, 1e308])) <= 9e-308


def test_lmi_multipliers_outside_the_dual_cone_prove_nothing():
    lmi = sf.LMI(sf.PSD(2), np.zeros((2, 2)), [np.array([np.diag([1.0, 0.0])])])
    problem = sf.FeasibilityProblem([sf.Free(1)], [np.array([[1.0]])], [2.0], [math.inf], lmis=[lmi])
    assert 1.999 < excluded_radius(problem, np.array([1.0, 0, 0, 0, 0])) < 2.0
    assert excluded_radius(problem, np.array([1.0, -1, 0, 0, 0])) == 0.0


def test_the_reason_rounds_the_radius_down():
    problem = sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[1.0]])], [1.0], [2.0])
    check = sf.verify(problem, sf.Claim(point=(np.array([9.0]),)))
    assert "up to 2.9e+09 exists" in with_excluded_radius(check, 2.999e9).reason
    assert with_excluded_radius(check, 5.0).reason == check.reason
    assert with_excluded_radius(check, 5.0).excluded_radius == 5.0


# ---------------------------------------------------------------- a bound of the norm as rows


@pytest.mark.parametrize("form", [as_rows, as_lmis])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_unstable_systems_are_infeasible_within_a_bound(n, form):
    problem = form(unstable(np.random.default_rng([32, n]), n)).bounded(1e6)
    result = sf.solve(problem, rigorous=True)
    assert result.verdict == "infeasible"


@pytest.mark.parametrize("mix", MIXES)
def test_the_bound_admits_every_point_of_that_norm(mix):
    rng = np.random.default_rng([11, MIXES.index(mix)])
    case = planted.feasible(rng, planted.set_mixes(1)[mix], bounds="inequality")
    assert case.point is not None
    within = case.problem.bounded(norm(case.problem, case.point) * (1.0 + 1e-12) or 1.0)
    values = within.apply(case.point)
    assert np.all(within.lower <= values)
    assert np.all(values <= within.upper)
    assert np.array_equal(within.apply(case.point)[: case.problem.m], case.problem.apply(case.point))
    assert within.lmis == case.problem.lmis
    assert (within is case.problem) == all(block.bounded for block in within.sets)


def test_the_bound_is_tight_up_to_the_degree_and_rows_are_named():
    builder = sf.ProblemBuilder()
    builder.block("X", sf.PSD(4))
    builder.block("x", sf.Free(2))
    builder.row("bound of X", {"X": np.eye(4)}, lower=3.0)
    within = builder.build().bounded(1.0)
    assert within.row_names == ("bound of X", "bound of X'", "bound of x[0]", "bound of x[1]")
    assert within.upper[1] == pytest.approx(2.0)
    assert sf.solve(within, rigorous=True).verdict == "infeasible"
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(sf.ProblemError):
            builder.build().bounded(wrong)
