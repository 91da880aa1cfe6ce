"""The bound of the sum of the largest eigenvalues holds, whatever eigenvectors it is made from."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sdpfeas.numerics import rounding
from sdpfeas.numerics.rounding import definite, in_strips, largest_sum_upper


def exact_inner(matrix: np.ndarray, v: list[int], weights: list[Fraction]) -> Fraction:
    """``<matrix, H diag(weights) H>`` with the reflection H along v, in rational arithmetic."""
    n, square = len(v), sum(entry * entry for entry in v)
    h = [[Fraction(int(i == j)) - Fraction(2 * v[i] * v[j], square) for j in range(n)] for i in range(n)]
    total = Fraction(0)
    for i in range(n):
        for j in range(n):
            z = sum((h[i][k] * weights[k] * h[k][j] for k in range(n)), Fraction(0))
            total += Fraction(float(matrix[i, j])) * z
    return total


def planted(seed: int, lam: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """A matrix with about these eigenvalues, whose eigenvectors are rational."""
    v = np.random.default_rng(seed).integers(-3, 4, lam.size)
    v[0] = 1
    h = np.eye(lam.size) - 2.0 * np.outer(v, v) / float(v @ v)
    matrix = (h * lam) @ h
    return 0.5 * (matrix + matrix.T), v.tolist()


@pytest.mark.parametrize(
    ("lam", "count"),
    [
        ([5.0, 3.0, 1.0, -2.0, -7.0], 2.0),
        ([1.0, 1.0, 1.0, 1.0, 0.0], 2.0),
        ([1.0, 1.0 - 1e-14, 1.0 - 2e-14, -1e3, -1e3], 1.0),
        ([4.0, 2.0, -1.0, -1.0, -1e6], 2.5),
        ([-1.0, -2.0, -3.0, -4.0, -5.0], 4.0),
        ([1e-160, 1e-170, -1e-160, 0.0, 0.0], 1.0),
        ([3.0, 2.0, 1.0, 0.0, -1.0], 0.25),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_no_member_of_the_fantope_is_above(lam: list[float], count: float, seed: int) -> None:
    matrix, v = planted(seed, np.array(lam))
    whole = math.floor(count)
    weights = [Fraction(1)] * whole + [Fraction(count) - whole] + [Fraction(0)] * (len(lam) - whole - 1)
    truth = exact_inner(matrix, v, weights)
    bound, size = largest_sum_upper(matrix, count)
    assert Fraction(bound) >= truth
    assert bound - float(truth) <= 1e-11 * max(size, 1e-300) or bound == math.inf
    assert math.isfinite(bound) or max(map(abs, lam)) < 1e-100


@pytest.mark.parametrize("seed", range(40))
def test_wrong_eigenvectors_prove_nothing_false(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    lam = np.sort(rng.standard_normal(6))[::-1]
    matrix, v = planted(seed, lam)
    truth = exact_inner(matrix, v, [Fraction(1)] * 2 + [Fraction(0)] * 4)

    def wrong(given: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(given)
        off = 10.0 ** -rng.integers(0, 17)
        values = values[-count:] + off * rng.standard_normal(count)
        return values, vectors[:, -count:] * (1.0 + off) + off * rng.standard_normal((6, count))

    monkeypatch.setattr(rounding, "leading_pairs", wrong)
    bound = largest_sum_upper(matrix, 2.0)[0]
    assert bound == math.inf or Fraction(bound) >= truth


def test_what_it_refuses() -> None:
    eye = np.eye(3)
    skew = np.array([[1.0, 2.0, 0.0], [2.0 + 1e-15, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert math.isinf(largest_sum_upper(eye, 3.0)[0]), "nothing is left to choose"
    assert math.isinf(largest_sum_upper(skew, 1.0)[0])
    assert math.isinf(largest_sum_upper(np.full((3, 3), np.nan), 1.0)[0])
    assert (
        math.isinf(largest_sum_upper(eye * 1e300, 1.0)[0]) or largest_sum_upper(eye * 1e300, 1.0)[0] >= 1e300
    )


def test_few_large_eigenvalues_are_tested_as_a_whole() -> None:
    """Row by row the test gives away a share of every diagonal entry; as a whole, one of the trace."""
    n = 300
    direction = np.zeros(n)
    direction[:2] = 1.0
    matrix = np.outer(direction, direction) + 1e-12 * np.eye(n)
    assert definite(matrix, graded=False, shift=1e-13)
    assert not definite(matrix, shift=1e-12, graded=False)
    singular = np.outer(direction, direction)
    assert not definite(singular, graded=False)
    assert not definite(singular - 1e-300 * np.eye(n), graded=False)


def test_strips_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((7, 5)), rng.random((7, 5))
    whole = in_strips(rounding.sum_up, a.copy(), b, 0.5)
    monkeypatch.setattr(rounding, "STRIP_ENTRIES", 4)
    assert np.array_equal(in_strips(rounding.sum_up, a.copy(), b, 0.5), whole)
