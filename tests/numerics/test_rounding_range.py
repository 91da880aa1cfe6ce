"""Proofs in floating point over the whole range of exponents, against rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from known_answers import exactly_psd, rationals
from strategies import SEEDS, examples, wide, wide_numbers

import sdpfeas as sf
from sdpfeas.numerics import rounding
from sdpfeas.numerics.linalg import cholesky
from sdpfeas.numerics.rounding import (
    definite,
    difference_down,
    eigenvalue_enclosure,
    gamma,
    in_strips,
    norm_upper,
    product_up,
    quotient_up,
    semidefinite,
    shift_up,
    sum_lower,
    sum_up,
    sum_upper,
)

#: Indefinite, with pivots that overflow on the way: some Cholesky factorisations run through with NaN.
OVERFLOWING = 1e-302 * np.eye(4)
OVERFLOWING[0, 1] = OVERFLOWING[1, 0] = 1e-302 * (1.0 - 1e-10)
OVERFLOWING[0, 3] = OVERFLOWING[3, 0] = 1e3

NON_NEGATIVE = wide().map(abs)


def at_most(truth: Fraction, bound: float) -> bool:
    """Whether a bound holds; infinity always does."""
    return bound == math.inf or truth <= Fraction(bound)


# ---------------------------------------------------------------- single operations


@examples(4)
@given(NON_NEGATIVE, NON_NEGATIVE, st.integers(-2200, 2200))
def test_bounds_are_rounded_to_the_safe_side(a, b, exponent):
    x, y = Fraction(a), Fraction(b)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        product, moved, quotient = product_up(a, b), shift_up(a, exponent), quotient_up(a, b)
    assert at_most(x * y, float(product))
    assert (product == 0.0) == (a == 0.0 or b == 0.0)
    assert at_most(x * Fraction(2) ** exponent, float(moved))
    assert (moved == 0.0) == (a == 0.0)
    assert b == 0.0 or at_most(x / y, float(quotient))
    assert at_most(x + y, float(sum_up(a, b)))
    assert Fraction(float(difference_down(a, b))) <= x - y
    assert Fraction(float(difference_down(b, a))) <= y - x


def test_bounds_are_tight_and_keep_zero():
    with np.errstate(invalid="ignore"):
        assert product_up(0.0, np.inf) == product_up(np.inf, 0.0) == 0.0
    assert product_up(0.0, 1.0) == sum_up(0.0, 0.0) == quotient_up(0.0, 3.0) == 0.0
    assert product_up(2.0, 3.0, 4.0) <= 24.0 * (1.0 + 1e-15)
    assert sum_up(1.0, 2.0, 3.0) <= 6.0 * (1.0 + 1e-15)
    assert difference_down(3.0, 3.0) == 0.0
    assert 1.0 - 1e-15 <= difference_down(3.0, 2.0) < 1.0
    assert product_up(np.array([1.0, 0.0]), 5e-324).tolist() == [1e-323, 0.0]


@pytest.mark.parametrize("large", [1.0, 3.0, 2.0**60])
def test_what_is_lost_in_a_sum_is_rounded_up(large):
    small = large * 2.0**-60
    assert float(sum_up(large, small)) > large < float(sum_up(small, large))
    assert sum_up(large, 0.0) == sum_up(0.0, large) == large


def test_large_arrays_are_combined_in_strips_whatever_their_order(monkeypatch):
    monkeypatch.setattr(rounding, "STRIP_ENTRIES", 5)
    first, second = np.arange(12.0).reshape(3, 4), np.arange(12.0, 24.0).reshape(3, 4)
    for turn in (np.copy, lambda a: np.array(a).T, lambda a: np.array(a)[:, ::2], lambda a: np.array(a)[:1]):
        expected = turn(first) + 2.0 * turn(second) + 1.0
        found = in_strips(lambda a, b, c: a + 2.0 * b + c, turn(first), turn(second), 1.0)
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("n", [2, 5])
def test_the_radius_of_eigenvalues_holds_every_rounding(n):
    """Of a diagonal matrix nothing but what its products may have lost is left."""
    lam, vectors, radius = eigenvalue_enclosure(np.diag([8.0, *np.zeros(n - 1)]))
    assert lam[-1] == 8.0
    assert np.array_equal(np.abs(vectors) ** 2, np.abs(vectors))
    assert radius >= 16.0 * (gamma(n + 2) + gamma(n + 4) + gamma(4))


def test_what_is_not_a_number_stays_so():
    with np.errstate(invalid="ignore"):
        assert np.isnan(difference_down(np.inf, np.inf))
        assert not sum_lower(np.array([np.inf, -1.0])) > 0.0
    assert np.isnan(product_up(np.nan, 1.0))
    assert np.isnan(sum_up(np.nan, 1.0))
    assert np.isnan(norm_upper(np.array([1.0, np.nan])))


@given(st.lists(wide(), min_size=1, max_size=5), NON_NEGATIVE)
def test_sums_and_norms_are_bounded(numbers, radius):
    values = np.array(numbers)
    total = sum((Fraction(v) for v in numbers), Fraction(0))
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = sum_lower(values, radius), sum_upper(values, radius)
        norm = norm_upper(values)
    assert math.isnan(low) or low == -math.inf or Fraction(low) <= total - Fraction(radius)
    assert math.isnan(high) or at_most(total + Fraction(radius), high)
    assert norm == math.inf or sum(Fraction(v) ** 2 for v in numbers) <= Fraction(norm) ** 2


def test_the_norm_of_the_largest_numbers():
    largest = float(np.finfo(float).max)
    with np.errstate(over="ignore"):
        assert norm_upper(np.array([largest])) >= largest
        assert norm_upper(np.array([largest, largest])) == math.inf
    assert norm_upper(np.array([largest / 4.0])) <= largest
    assert norm_upper(np.array([5e-324, 5e-324])) == 1e-323


# ---------------------------------------------------------------- definiteness


@st.composite
def symmetric(draw):
    """Up to 3×3, with entries anywhere; often nearly singular, often with a diagonal of one scale."""
    n = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(SEEDS))
    root = wide_numbers(rng, n, n) if draw(st.booleans()) else rng.normal(size=(n, n))
    scale = np.ldexp(1.0, rng.integers(-530, 500, size=n) if draw(st.booleans()) else rng.integers(-530, 500))
    with np.errstate(all="ignore"):
        matrix = (root @ root.T) * np.outer(scale, scale)
        if draw(st.booleans()):  # singular but for rounding
            matrix = np.outer(root[0], root[0]) * np.outer(scale, scale)
    i, j = rng.integers(n, size=2)
    if draw(st.booleans()):
        matrix[i, j] = wide_numbers(rng, 1)[0]
    matrix = np.tril(matrix) + np.tril(matrix, -1).T
    return np.where(np.isfinite(matrix), matrix, 1.0)


@examples(8)
@given(symmetric(), NON_NEGATIVE)
@example(OVERFLOWING, 0.0)
@example(-OVERFLOWING, 0.0)
def test_nothing_indefinite_is_proved_definite(matrix, shift):
    with np.errstate(over="ignore"):
        strictly, weakly, shifted = definite(matrix), semidefinite(matrix), definite(matrix, shift=shift)
    below = rationals(matrix) - Fraction(shift) * rationals(np.eye(matrix.shape[0]))
    assert not shifted or exactly_psd(below)
    assert not (strictly or weakly) or exactly_psd(rationals(matrix))


@examples(4)
@given(symmetric())
def test_eigenvalues_are_enclosed(matrix):
    with np.errstate(all="ignore"):
        lam, _, radius = eigenvalue_enclosure(matrix)
    if math.isfinite(radius):
        eye = rationals(np.eye(matrix.shape[0]))
        low, high = (Fraction(float(v)) for v in (lam[0], lam[-1]))
        assert exactly_psd(rationals(matrix) - (low - Fraction(radius)) * eye)
        assert exactly_psd((high + Fraction(radius)) * eye - rationals(matrix))


@pytest.mark.parametrize("exponent", [-1010, -900, -500, 0, 500, 990])
def test_definite_matrices_of_any_scale_are_proved(exponent):
    matrix = np.ldexp(np.array([[4.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 2.0]]), exponent)
    assert definite(matrix)
    assert definite(matrix, shift=math.ldexp(1.0, exponent))
    assert not definite(matrix, shift=math.ldexp(1.5, exponent))


def test_one_triangle_is_not_enough():
    for low, high in ((0.0, 5.0), (5.0, 0.0), (0.5, 0.5000000000000001)):
        matrix = np.array([[1.0, high], [low, 1.0]])
        assert not definite(matrix)
        assert not semidefinite(matrix)
        assert eigenvalue_enclosure(matrix)[2] == math.inf


def test_a_factor_that_is_not_finite_is_no_factor():
    with pytest.raises(np.linalg.LinAlgError), np.errstate(all="ignore"):
        cholesky(np.ldexp(OVERFLOWING, 1000))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_indefinite_matrix_is_neither_point_nor_certificate(sign):
    """``X03 >= 1`` and ``tr X <= 0.01`` contradict each other; ``<X, M> >= 1`` and ``tr X = 1`` do not."""
    corner = np.zeros((4, 4))
    corner[0, 3] = corner[3, 0] = sign
    problem = sf.FeasibilityProblem(
        [sf.PSD(4)], [np.array([np.eye(4), corner])], [-np.inf, 1.0], [0.01, np.inf]
    )
    check = sf.verify(problem, sf.Claim(point=(sign * OVERFLOWING,)), rigorous=True)
    assert check.verdict is not sf.Verdict.FEASIBLE, check.explain()
    problem = sf.FeasibilityProblem([sf.PSD(4)], [-sign * OVERFLOWING[None]], [1.0], [np.inf])
    check = sf.verify(problem, sf.Claim(certificate=np.ones(1)), rigorous=True)
    assert check.verdict is not sf.Verdict.INFEASIBLE, check.explain()


@pytest.mark.parametrize("n", [2, 3, 10, 60])
def test_definiteness_leaves_room_for_all_roundings_of_a_factorisation(n):
    """Rump's theorem asks for a share of the trace, whatever the factorisation of this very matrix loses."""
    room = gamma(n + 3) * (n - 1)
    assert not definite(np.diag([*np.ones(n - 1), 0.99 * room]), graded=False)
    assert definite(np.diag([*np.ones(n - 1), 1.01 * room]), graded=False)
    assert definite(np.diag([*np.ones(n - 1), 0.01 * room]))
