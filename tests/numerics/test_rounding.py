"""Proofs in floating point, against rational arithmetic."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, exact

import sdpfeas as sf
from sdpfeas.numerics.rounding import (
    definite,
    eigenvalue_enclosure,
    gamma,
    inflate,
    norm_upper,
    semidefinite,
    smallest_eigenvalue_lower,
    sum_lower,
    sum_upper,
    symmetric_norm_upper,
)


def pivots(matrix):
    """Pivots of LDL' in rational arithmetic, as far as they are positive."""
    a = [[Fraction(v) for v in row] for row in matrix]
    n, out = len(a), []
    for k in range(n):
        out.append(a[k][k])
        if a[k][k] <= 0:
            return out
        for i in range(k + 1, n):
            ratio = a[i][k] / a[k][k]
            for j in range(k + 1, n):
                a[i][j] -= ratio * a[k][j]
    return out


def positive_definite(matrix, shift=0.0):
    lowered = [[Fraction(v) - (Fraction(shift) if i == j else 0) for j, v in enumerate(row)]
               for i, row in enumerate(np.asarray(matrix).tolist())]  # fmt: skip
    return all(p > 0 for p in pivots(lowered))


def characteristic(matrix):
    """Coefficients of det(t·I - A), constant first, by Faddeev and LeVerrier."""
    n = matrix.shape[0]
    eye = exact(np.eye(n))
    coefficients, power = [Fraction(1)], np.full((n, n), Fraction(0), dtype=object)
    for k in range(1, n + 1):
        power = matrix.dot(power) + coefficients[-1] * eye
        coefficients.append(-np.trace(matrix.dot(power)) / k)
    return coefficients[::-1]


def count_below(matrix, threshold):
    """How many eigenvalues are below and not above a number: exact, since all of them are real."""
    shifted = exact(matrix) - Fraction(threshold) * exact(np.eye(matrix.shape[0]))
    coefficients = characteristic(shifted)
    zero = next(k for k, c in enumerate(coefficients) if c != 0)
    # Descartes: for real roots, sign changes of p(-t) count the negative ones.
    signs = [c * (-1) ** k > 0 for k, c in enumerate(coefficients) if c != 0]
    below = sum(a != b for a, b in pairwise(signs))
    return below, below + zero


def nearly_singular(rng):
    """Small symmetric matrix, close to the boundary of the cone or anywhere."""
    n = int(rng.integers(1, 5))
    root = rng.integers(-3, 4, size=(n, int(rng.integers(1, n + 1)))).astype(float)
    matrix = root @ root.T
    style = rng.integers(5)
    if style == 0:  # singular, then moved by next to nothing
        i, j = rng.integers(n, size=2)
        step = float(rng.integers(-2, 3)) * 2.0 ** -float(rng.integers(1, 60))
        matrix[i, j] += step
        matrix[j, i] = matrix[i, j]
    elif style == 1:  # graded
        scale = 2.0 ** rng.integers(-40, 40, size=n)
        matrix = matrix * np.outer(scale, scale) + np.diag(scale**2) * 2.0 ** -float(rng.integers(0, 60))
    elif style == 2:  # anything
        entries = rng.integers(-2, 6, size=(n, n)).astype(float)
        matrix = np.triu(entries) + np.triu(entries, 1).T
    elif style == 3:  # singular up to rounding
        matrix = matrix / 3.0
    else:  # the same, where Cholesky without a shift runs through now and then
        root = rng.normal(size=(n + 1, n))
        matrix = root @ root.T
        matrix = (matrix + matrix.T) / 2
    return matrix


def test_definite_never_proves_what_is_not():
    rng = np.random.default_rng(0)
    proved = refused = 0
    for _ in range(5000):
        matrix = nearly_singular(rng)
        truth = positive_definite(matrix)
        if definite(matrix):
            assert truth, matrix.tolist()
            proved += 1
        elif not truth:
            refused += 1
    # Neither side of the question was empty.
    assert proved > 1000
    assert refused > 1000


def test_definite_with_a_shift_never_proves_what_is_not():
    rng = np.random.default_rng(1)
    proved = 0
    for _ in range(3000):
        matrix = nearly_singular(rng)
        lam = float(np.linalg.eigvalsh(matrix)[0])
        shift = abs(lam) * float(rng.choice([0.5, 1 - 1e-9, 1 - 1e-15, 1.0, 1 + 1e-15, 1 + 1e-9]))
        if definite(matrix, shift=shift):
            assert positive_definite(matrix, shift), (matrix.tolist(), shift)
            proved += 1
    assert proved > 300


def test_definite_survives_sums_that_lose_small_terms():
    """Arrows: the last pivot is 1 - a'a, where many tiny squares are lost next to a large one."""
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(300):
        n = int(rng.integers(20, 120))
        arrow = 2.0**-27 * rng.uniform(0.5, 1.0, size=n - 1)
        place = int(rng.integers(4))
        arrow[place] = 0.0
        rest = sum(Fraction(v) ** 2 for v in arrow)
        arrow[place] = np.sqrt(float(1 - rest)) + 2.0**-53 * float(rng.integers(3))
        matrix = np.eye(n)
        matrix[-1, :-1] = matrix[:-1, -1] = arrow
        if sum(Fraction(v) ** 2 for v in arrow) >= 1:
            assert not definite(matrix)
            refused += 1
    assert refused > 100


def test_semidefinite_never_proves_what_is_not():
    rng = np.random.default_rng(2)
    proved = 0
    for _ in range(1000):
        matrix = nearly_singular(rng)
        for k in range(matrix.shape[0]):
            if rng.random() < 0.3:
                matrix[k] = matrix[:, k] = 0.0
        if semidefinite(matrix):
            below, _ = count_below(matrix, 0.0)
            assert below == 0, matrix.tolist()
            proved += 1
    assert proved > 250


@given(st.integers(1, 30), SEEDS)
def test_definite_proves_what_clearly_is(n, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    matrix = root @ root.T + np.eye(n)
    matrix = (matrix + matrix.T) / 2
    assert definite(matrix)
    assert definite(matrix, shift=0.5)
    assert definite(np.eye(n), shift=1.0 - 1e-10)
    assert not definite(np.eye(n), shift=1.0)
    # Graded: eigenvalues from 1e-60 to 1e60.
    scale = 10.0 ** rng.uniform(-30, 30, size=n)
    graded = matrix * np.outer(scale, scale)
    assert definite((graded + graded.T) / 2)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-300, 1e-160, 1e150, 1e300])
def test_definite_at_any_scale(size):
    assert not definite(np.full((2, 2), size))
    assert not definite(-size * np.eye(2))
    if size > 1e-307:
        assert definite(size * np.eye(2))
        assert definite(np.array([[2 * size, size], [size, 2 * size]]))
    assert definite(np.diag([1e-300, 1e300]))
    # Far off the diagonal, scaling must not lose what decides: det = 1 - c².
    for c, truth in ((0.5, True), (1.0, False), (1.0 + 1e-12, False)):
        assert definite(np.array([[1e-300, c], [c, 1e300]])) is truth


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nothing_is_proved_about_what_is_not_finite(bad):
    matrix = np.eye(2)
    assert not definite(matrix, shift=bad)
    matrix[0, 0] = bad
    assert not definite(matrix)
    assert not semidefinite(matrix)


def test_empty_and_zero_matrices():
    assert definite(np.zeros((0, 0)))
    assert not definite(np.zeros((2, 2)))
    assert semidefinite(np.zeros((2, 2)))
    assert semidefinite(np.diag([1.0, 0.0]))
    assert not semidefinite(np.diag([1.0, -5e-324]))


# ---------------------------------------------------------------- eigenvalues


def check_enclosure(matrix):
    lam, _, radius = eigenvalue_enclosure(matrix)
    assert np.isfinite(radius)
    for k, value in enumerate(lam):
        below, _ = count_below(matrix, Fraction(value) - Fraction(radius))
        _, up_to = count_below(matrix, Fraction(value) + Fraction(radius))
        assert below <= k < up_to
    lower = smallest_eigenvalue_lower(matrix)
    assert count_below(matrix, lower)[0] == 0
    return radius


def test_eigenvalues_of_small_matrices_are_enclosed():
    rng = np.random.default_rng(3)
    for _ in range(120):
        matrix = nearly_singular(rng)
        radius = check_enclosure(matrix)
        assert radius <= 1e-12 * np.linalg.norm(matrix) + 1e-300


def test_eigenvalues_of_tiny_and_huge_matrices_are_enclosed():
    rng = np.random.default_rng(4)
    for exponent in (-1074, -1070, -1030, -900, -500, 500, 900):
        for _ in range(5):
            entries = rng.integers(-3, 4, size=(3, 3)).astype(float)
            check_enclosure(np.ldexp(entries + entries.T, exponent))


@given(st.sampled_from([2, 4, 8, 16]), SEEDS)
def test_known_spectra_are_enclosed(n, seed):
    """Householder reflections by ±1 vectors are dyadic, so the spectrum is known exactly."""
    rng = np.random.default_rng(seed)
    spectrum = np.sort(rng.integers(-50, 50, size=n)).astype(float)
    matrix = np.diag(rng.permutation(spectrum))
    for _ in range(2):
        v = rng.choice([-1.0, 1.0], size=n)
        reflection = np.eye(n) - 2.0 / n * np.outer(v, v)
        matrix = reflection @ matrix @ reflection
    assert np.array_equal(matrix, matrix.T)
    lam, _, radius = eigenvalue_enclosure(matrix)
    assert radius <= 1e-10
    assert np.all(np.abs(lam - spectrum) <= radius)
    assert smallest_eigenvalue_lower(matrix) <= spectrum[0]


def flat(n):
    """Symmetric matrix with entries of one size and eigenvalues of plus and minus one; n a power of four."""
    out = np.ones((1, 1))
    while out.shape[0] < n:
        out = np.block([[out, out], [out, -out]])
    return out / np.sqrt(n)


@pytest.mark.parametrize("power", [0, 30, -30])
@pytest.mark.parametrize("n", [4, 16, 64])
def test_radii_cover_what_products_may_be_off_at_any_scale(n, power):
    """By the theory each product is off by gamma times that of the magnitudes, whatever it came out as."""
    matrix = np.ldexp(flat(n), power)
    lam, vec, radius = eigenvalue_enclosure(matrix)
    assert np.all(np.abs(np.abs(np.ldexp(lam, -power)) - 1.0) <= np.ldexp(radius, -power))
    sizes = np.abs(vec).T @ np.abs(matrix @ vec), np.abs(matrix) @ np.abs(vec)
    assert radius >= gamma(n) * sum(np.linalg.norm(size, 2) for size in sizes)
    assert radius <= 100.0 * n * gamma(n) * 2.0**power


def test_the_zero_matrix_is_enclosed_exactly():
    lam, _, radius = eigenvalue_enclosure(np.zeros((3, 3)))
    assert radius == 0.0
    assert not lam.any()


def test_the_checks_themselves_can_fail():
    matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert [count_below(matrix, t) for t in (0.5, 1, 2, 3, 4)] == [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)]
    assert positive_definite(matrix)
    assert not positive_definite(matrix, shift=1.0)


# ---------------------------------------------------------------- sums and norms


@given(SEEDS, st.integers(0, 40), st.sampled_from([0.0, 5.0, 100.0]))
def test_sums_are_bounded(seed, size, wild):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=size) * 10.0 ** rng.uniform(-wild, wild, size=size)
    values = np.concatenate([values, -values[: size // 2]])
    truth = sum((Fraction(v) for v in values), Fraction(0))
    radius = 2.0**-20
    assert Fraction(sum_lower(values)) <= truth <= Fraction(sum_upper(values))
    assert Fraction(sum_lower(values, radius)) <= truth - Fraction(radius)
    assert Fraction(sum_upper(values, radius)) >= truth + Fraction(radius)
    assert sum_upper(values) - sum_lower(values) <= 1e-13 * np.abs(values).sum()


@given(SEEDS, st.integers(1, 6), st.sampled_from([0.0, 30.0, 150.0]), st.sampled_from([-170, 0, 150]))
def test_norms_are_bounded(seed, n, wild, exponent):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, n)) * 10.0 ** (exponent + rng.uniform(-wild, wild, size=(n, n)))
    truth = sum((Fraction(v) ** 2 for v in matrix.ravel()), Fraction(0))
    bound = norm_upper(matrix)
    assert Fraction(bound) ** 2 >= truth
    assert Fraction(bound) ** 2 <= truth * Fraction(1 + 1e-12)
    size = np.abs(matrix + matrix.T)
    rows = [sum((Fraction(v) for v in row), Fraction(0)) for row in size]
    assert Fraction(symmetric_norm_upper(size)) >= max(rows)


def test_norms_of_nothing():
    assert norm_upper(np.zeros(3)) == norm_upper(np.zeros(0)) == 0.0
    assert symmetric_norm_upper(np.zeros((0, 0))) == 0.0
    assert norm_upper(np.array([5e-324])) >= 5e-324


@given(st.integers(0, 10**6))
def test_gamma_is_rounded_up(k):
    u = Fraction(1, 2**53)
    assert Fraction(gamma(k)) >= k * u / (1 - k * u)


def test_gamma_ends():
    assert gamma(2.0**52) == np.inf
    assert inflate(0.0, 10) == 0.0
    assert inflate(1.0, 10) > 1.0
    assert inflate(5e-324, 10) > 5e-324


@pytest.mark.parametrize("trace", [None, 2.0])
def test_distance_to_a_box_from_inside(trace) -> None:
    """Strictly inside only the trace can be missed, and by no more than is allowed."""
    box = sf.SpectralBox(5, trace=trace)
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))
    inside = q @ np.diag([0.1, 0.2, 0.3, 0.6, 0.8]) @ q.T
    inside = 0.5 * (inside + inside.T)
    assert box.snapped_distance(inside, 1e-6) <= 1e-14
    off = inside + 1e-7 * np.eye(5)
    missed = 0.0 if trace is None else 1e-7 * np.sqrt(5.0)
    assert missed * (1.0 - 1e-6) <= box.snapped_distance(off, 1e-6) <= missed * (1.0 + 1e-6) + 1e-14
    far = inside + 1e-3 * np.eye(5)
    assert box.snapped_distance(far, 1e-6) == (0.0 if trace is None else np.inf)


def test_a_trace_that_only_a_shift_out_of_the_box_meets_is_not_met_for_free() -> None:
    """An eigenvalue closer to the end of the box than the shift it takes to meet the trace."""
    box = sf.SpectralBox(4, trace=2.0)
    x = np.diag([1e-12, 0.4, 0.7, 0.9])
    x[3, 3] += 1e-8
    assert box.snapped_distance(x, 1e-6) >= 1e-8 / 2.0
