"""``radius``: an exact solution lies within it of the point that is shown."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.io.result_files import pack_result, unpack_result
from tests.verifier.test_excluded_radius import MIXES


def row(a, b: float) -> sf.FeasibilityProblem:
    """Return ``a'x = b`` on non-negative numbers."""
    return sf.FeasibilityProblem([sf.Nonneg(len(a))], [np.array([a])], [b], [b])


@pytest.mark.parametrize("exponent", [-1000, -300, -30, 0, 30, 300, 1000])
@pytest.mark.parametrize("miss", [0, 1, 7, 1 << 12])
def test_the_radius_is_at_least_the_distance_from_the_row(exponent, miss):
    """``3 x + 4 y = 5 t`` at a point that misses it by some last digits: it is ``|residual| / 5`` away."""
    t = np.ldexp(1.0, exponent)
    x = np.array([0.6, 0.8]) * t * (1.0 + miss * 2.0**-52)
    check = sf.verify(row([3.0, 4.0], 5.0 * t), sf.Claim(point=(x,)), rigorous=True, repair=False)
    missed = abs(3 * Fraction(x[0]) + 4 * Fraction(x[1]) - 5 * Fraction(t)) / 5
    assert check.verdict == "feasible"
    assert check.radius is not None
    assert Fraction(check.radius) >= missed
    if exponent > -1000:  # underflow of squares costs more than the distance there
        assert check.radius <= 1e3 * (float(missed) + 1e-16 * t)


def test_a_clipped_entry_counts():
    """``x >= 0, y = 1`` at ``x = -1e-10``: the exact solution has ``x >= 0``."""
    problem = sf.FeasibilityProblem([sf.Nonneg(2)], [np.array([[0.0, 1.0]])], [1.0], [1.0])
    check = sf.verify(problem, sf.Claim(point=(np.array([-1e-10, 1.0]),)), rigorous=True, repair=False)
    assert check.verdict == "feasible"
    assert check.radius >= 1e-10


def affine_distance(problem: sf.FeasibilityProblem, point) -> float:
    """Return the distance of a point from the affine space of the equality rows."""
    index = problem.equality_rows
    if not index.size:
        return 0.0
    rows = np.hstack([part.select(index).to_csr().toarray() for part in problem.rows])
    flat = np.concatenate([x.reshape(-1) for x in point])
    exact = [sum(Fraction(a) * Fraction(x) for a, x in zip(own, flat, strict=True) if a) for own in rows]
    off = [float(Fraction(b) - v) for b, v in zip(problem.lower[index], exact, strict=True)]
    return float(np.linalg.norm(np.linalg.lstsq(rows, np.array(off))[0]))


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("bounds", planted.BOUNDS)
def test_planted_problems(mix, bounds):
    rng = np.random.default_rng([14, MIXES.index(mix)])
    problem = planted.feasible(rng, planted.set_mixes(1)[mix], bounds=bounds).problem
    result = sf.solve(problem, rigorous=True)
    assert result.verdict == "feasible"
    assert result.radius is not None
    assert result.radius >= 0.999 * affine_distance(problem, result.point)
    assert result.radius <= 1e-6 * (1.0 + max(np.max(np.abs(x)) for x in result.point))
    assert ("distance from the point" in result.explain()) == (result.radius > 0.0)
    assert unpack_result(pack_result(result)).radius == result.radius


def test_exact_points():
    problem = row([1.0, 1.0], 1.0)
    exact = sf.verify(problem, sf.Claim(point=(np.array([0.5, 0.5]),)), exact=True)
    assert (exact.proof, exact.radius) == ("exact", 0.0)
    thirds = (np.array([Fraction(1, 3), Fraction(2, 3)], dtype=object),)
    near = sf.verify(problem, sf.Claim(rational=thirds), exact=True)
    assert near.proof == "exact"
    missed = (
        Fraction(float(near.point[0][0])) - Fraction(1, 3),
        Fraction(float(near.point[0][1])) - Fraction(2, 3),
    )
    assert Fraction(near.radius) ** 2 >= missed[0] ** 2 + missed[1] ** 2
    assert 0.0 < near.radius < 1e-16


def test_no_radius_without_a_proof():
    weak = sf.solve(row([1.0, 1.0], -1.0))
    assert (weak.verdict, weak.radius) == ("infeasible", None)
    numeric = sf.verify(row([0.1, 0.7], 0.8), sf.Claim(point=(np.array([1.0, 1.0]),)))
    assert (numeric.proof, numeric.radius) == ("numeric", None)
