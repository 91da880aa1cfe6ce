"""Bounds of objectives, next to the truth in fractions: no wrong evidence moves them past it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, exact, examples, total

import sdpfeas as sf
from sdpfeas.numerics.rounding import TINY, two_product
from sdpfeas.verifier.rigorous import EnclosedRows, inner_product_lower, prove_upper_bound, prove_value

#: Powers of two of the numbers: ordinary, near overflow of squares, subnormal.
POWERS = (0, 0, 40, -40, 400, -500, -1050)


def numbers(rng: np.random.Generator, size: int) -> np.ndarray:
    """Numbers of all 53 bits, of very different sizes."""
    return np.ldexp(rng.normal(size=size), rng.choice(POWERS, size))


@examples(0.5)
@given(SEEDS)
def test_products_in_two_parts_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = numbers(rng, 20), numbers(rng, 20)
    for x, y, p, e in zip(a, b, *two_product(a, b), strict=True):
        if np.isfinite(p) and np.isfinite(e):
            assert abs(Fraction(x) * Fraction(y) - Fraction(p) - Fraction(e)) <= 4 * Fraction(TINY)
    huge, small = two_product(np.array([1e308]), np.array([1e308]))
    assert not (np.isfinite(huge) & np.isfinite(small)).any()


@examples(0.5)
@given(SEEDS)
def test_an_inner_product_is_bounded_from_below(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c, x = numbers(rng, 12), numbers(rng, 12)
    x[6:], c[6:] = x[:6], -c[:6] * (1.0 + 2.0**-52)  # all but cancels
    assert inner_product_lower((c,), (x,)) <= total(exact(c) * exact(x))
    assert inner_product_lower((np.array([1e200, -1e200]),), (np.array([1e200, 1e200]),)) == -np.inf
    assert inner_product_lower((np.zeros(1),), (np.ones(1),)) == 0.0


@examples(0.5)
@given(SEEDS)
def test_residuals_rounded_once_bound_the_exact_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, power = 4, int(rng.choice([0, 100, -100, -480]))
    x = np.ldexp(rng.normal(size=(n, n)), power)
    x = x + x.T
    rows = rng.normal(size=(3, n, n)) * (rng.random((3, 1, 1)) < 0.8)
    rows = rows + rows.swapaxes(1, 2)
    free = np.ldexp(rng.normal(size=2), int(rng.choice([0, 60, -60])))
    columns = rng.normal(size=(3, 2))
    right = np.tensordot(rows, x, 2) + columns @ free
    problem = sf.FeasibilityProblem([sf.PSD(n), sf.Free(2)], [rows, columns], right, right)
    missed = EnclosedRows(problem, (x, free)).accurately_missed
    assert missed is not None
    for i in range(3):
        value = total(exact(rows[i]) * exact(x)) + total(exact(columns[i]) * exact(free))
        assert abs(value - Fraction(right[i])) <= Fraction(float(missed[i]))


def largest_eigenvalue(rng: np.random.Generator, n: int = 4) -> tuple[sf.FeasibilityProblem, np.ndarray, int]:
    """Maximise ``<C, X>`` with ``tr X = 1``: C = 2I - v v' has the largest eigenvalue two, of integers."""
    v = rng.integers(-2, 3, n) + 0.0
    v[0] = 1.0
    problem = sf.FeasibilityProblem([sf.PSD(n)], [np.eye(n)[None]], [1.0], [1.0])
    return problem, 2.0 * np.eye(n) - np.outer(v, v), 2


@examples(0.5)
@given(SEEDS, st.sampled_from(["none", "optimal", "random", "huge", "nan", "denormal"]))
def test_no_guide_makes_a_value_too_large(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    problem, c, best = largest_eigenvalue(rng)
    _, vec = np.linalg.eigh(c)
    weights = rng.random(4) * np.array([1.0, 1.0, 1.0, 1e3])
    x = (vec * weights) @ vec.T
    x = 0.5 * (x + x.T)
    x = x / np.trace(x) * (1.0 + rng.choice([0.0, 1e-15, 1e-11, 1e-3]))
    guides = {
        "none": None,
        "optimal": -2.0,
        "random": rng.normal(),
        "huge": 1e300,
        "nan": np.nan,
        "denormal": 5e-324,
    }
    guide = guides[kind]
    value = prove_value(problem, (c,), (x,), None if guide is None else np.array([guide]))
    assert value is None or value <= best
    if value is not None:
        exact_value = total(exact(c) * exact(x))
        assert value <= exact_value + abs(exact_value) * Fraction(1, 10**7)


def test_a_guide_makes_the_bound_sharp_where_blocks_differ() -> None:
    """A large number without cost may move far; the bound without a guide charges that to the objective."""
    rows = [np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]), np.array([[0.0], [1.0]])]
    problem = sf.FeasibilityProblem([sf.PSD(2), sf.Nonneg(1)], rows, [1.0, 1e9], [1.0, 1e9])
    terms = (np.diag([1.0, 0.0]), np.array([1.0]))
    point = (np.diag([1.0 - 1e-9, 1.1e-9]), np.array([1e9]))
    plain, guided = (prove_value(problem, terms, point, y) for y in (None, np.array([-1.0, -1.0])))
    assert plain is not None
    assert guided is not None
    assert plain <= guided <= 1e9 + 1.0
    assert guided >= 1e9 + 1.0 - 1e-6


@examples(0.5)
@given(SEEDS)
def test_an_upper_bound_is_above_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem, c, best = largest_eigenvalue(rng)
    for y in (-2.0, -2.0 - 1e-15, np.nextafter(-2.0, 0.0), -2.5, rng.normal(), 0.0, -1e308, 5e-324, np.nan):
        bound = prove_upper_bound(problem, (c,), np.array([y]))
        assert bound is None or bound >= best


def test_free_blocks_and_signs_are_respected() -> None:
    """Without dual feasible multipliers nothing is proved."""
    rows = [np.array([[1.0]]), np.array([[1.0]])]
    problem = sf.FeasibilityProblem([sf.Nonneg(1), sf.Free(1)], rows, [1.0], [np.inf])
    terms = (np.array([-1.5]), np.array([-1.0]))
    for y in (1.0, 1.0 + 1e-12):
        bound = prove_upper_bound(problem, terms, np.array([y]))
        assert bound is not None
        assert -1.0 <= bound <= -1.0 + 1e-9
    assert prove_upper_bound(problem, terms, np.array([0.5])) is None  # A*y + c does not vanish
    assert prove_upper_bound(problem, (terms[0], -terms[1]), np.array([-1.0])) is None  # the wrong sign
    loose = sf.FeasibilityProblem([sf.Nonneg(1), sf.Free(1)], [rows[0], None], [1.0], [2.0])
    assert prove_upper_bound(loose, terms, np.array([1.0])) is None  # unbounded along the free variable
    assert prove_upper_bound(loose, (terms[0], np.zeros(1)), np.array([1.0])) == pytest.approx(-1.0)


@pytest.mark.parametrize("off", [-1e-3, -1e-12])
def test_a_point_outside_proves_no_value(off: float) -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    c = np.diag([1.0, 0.0])
    value = prove_value(problem, (c,), (np.diag([1.0 - off, off]),))
    assert value is None or value <= 1.0
