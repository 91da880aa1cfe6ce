"""Integer matrices: what is computed is exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdpfeas.numerics import integer_matrices


def matrix(rng, rows, columns, size=9):
    return rng.integers(-size, size + 1, (rows, columns)).astype(object)


def rank(a):
    return int(np.linalg.matrix_rank(a.astype(float))) if a.size else 0


@pytest.mark.parametrize("seed", range(25))
def test_kernels_and_definiteness(seed):
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(1, 7)), int(rng.integers(0, 7))
    b = matrix(rng, n, r)
    g = -b.dot(b.T) if r else np.zeros((n, n), dtype=object)
    found = integer_matrices.negative_kernel(g)
    assert found.shape == (n, n - rank(b)) == (n, rank(found))
    assert not g.dot(found).any()
    signs = rng.choice([-1, 1], r).astype(object)
    h = (b * signs).dot(b.T) if r else g
    lam = np.linalg.eigvalsh(h.astype(float))
    assert (integer_matrices.negative_kernel(h) is not None) == (lam[-1] <= 1e-9 * max(1.0, abs(lam[0])))
    a = matrix(rng, int(rng.integers(0, 5)), n)
    k = integer_matrices.kernel(a)
    assert not a.dot(k).any()
    assert rank(k) == k.shape[1] == n - rank(a)


@pytest.mark.parametrize("seed", range(25))
def test_systems_and_lattices(seed):
    rng = np.random.default_rng(seed)
    rows, columns = (int(v) for v in rng.integers(1, 6, 2))
    a = matrix(rng, rows, columns)
    right = a.dot(matrix(rng, columns, 1)[:, 0])
    assert (a.dot(integer_matrices.solution(a, right)) == right).all()
    assert (integer_matrices.solution(0 * a, right + 1) is None) == bool((right + 1).any())
    basis, weights = integer_matrices.lll_basis(a)
    assert (weights.dot(a) == basis).all()
    assert len(basis) == rank(a) == rank(basis)
    kept = integer_matrices.independent_rows(a)
    assert len(kept) == rank(a) == rank(a[kept])


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 2**26, 2**40, 10**30]))
def test_products_are_exact(seed, size):
    rng = np.random.default_rng(seed)
    a, b = matrix(rng, 3, 4) * size, matrix(rng, 4, 2) * size
    assert (integer_matrices.product(a, b) == a.dot(b)).all()


@pytest.mark.parametrize("scale", [1, 10**9, 10**30])
@pytest.mark.parametrize("shape", [(9, 60), (40, 7), (12, 12)])
def test_planted_ranks_are_found_in_rows_of_any_length(shape: tuple[int, int], scale: int) -> None:
    """Rows of zeros, repeated ones and combinations are told from those that are needed, whatever the way."""
    rng = np.random.default_rng(sum(shape))
    rank = 5
    first = np.concatenate([np.zeros((1, rank), int), np.eye(rank, dtype=int)])
    rest = rng.integers(-4, 5, size=(shape[0] - rank - 1, rank))
    columns = np.concatenate([np.eye(rank, dtype=int), rng.integers(-9, 10, (rank, shape[1] - rank))], axis=1)
    matrix = (np.concatenate([first, rest]) @ columns).astype(object) * scale
    assert integer_matrices.independent_rows(matrix) == [1, 2, 3, 4, 5]
    found = integer_matrices.kernel(matrix)
    assert found.shape == (shape[1], shape[1] - rank)
    assert not integer_matrices.product(matrix, found).any()


def test_rows_that_depend_modulo_the_prime_alone_are_kept() -> None:
    matrix = np.array([[1, 0, 0], [2**61 - 1, 2**61 - 1, 0], [0, 0, 1]], dtype=object)
    assert integer_matrices.independent_rows(matrix) == [0, 1, 2]
    assert not integer_matrices.kernel(matrix).size
    tall = np.concatenate([matrix, matrix])
    assert not integer_matrices.kernel(tall).size


def test_all_rows_are_reduced_if_their_combinations_have_a_smaller_rank(monkeypatch) -> None:
    class Zeros:
        def integers(self, low: int, high: int, size: tuple[int, int]) -> np.ndarray:
            return np.zeros(size, dtype=int)

    rows = matrix(np.random.default_rng(3), 40, 6)
    rows[:, 2] = rows[:, 0] - 2 * rows[:, 1]
    monkeypatch.setattr(np.random, "default_rng", lambda seed: Zeros())
    assert integer_matrices.kernel(rows).tolist() in ([[s], [-2 * s], [-s], [0], [0], [0]] for s in (1, -1))
    assert integer_matrices.independent_rows(rows.T) == [0, 1, 3, 4, 5]


@pytest.mark.parametrize("size", [50, 2**20, 2**50])
def test_combinations_with_long_fractions_are_found(size: int) -> None:
    """Weights too long for one prime to tell, in more rows than columns and in fewer."""
    rng = np.random.default_rng(size % 97)
    own, square = matrix(rng, 30, 6, size), matrix(rng, 6, 6, size)
    # Columns that are combinations of the others only with the inverse of a square of long numbers.
    both = np.concatenate([own.dot(square), own.dot(matrix(rng, 6, 3, size))], axis=1)
    assert integer_matrices.independent_rows(both.T) == [0, 1, 2, 3, 4, 5]
    for part in (both, both[:7]):
        found = integer_matrices.kernel(part)
        assert found.shape == (9, 3)
        assert not part.dot(found).any()


@pytest.mark.parametrize("size", [3, 2**30])
def test_large_matrices_are_definite_or_not(size: int) -> None:
    """Matrices that floating point can prove, and some that only integers tell apart."""
    rng = np.random.default_rng(1)
    n, rank = 30, 24
    b = matrix(rng, n, rank, size)
    b[:rank] = np.tril(b[:rank], -1) + integer_matrices.identity(rank)
    inside = -b.dot(b.T)
    found = integer_matrices.negative_kernel(inside)
    assert found.shape == (n, n - rank)
    assert not inside.dot(found).any()
    # The last pivot is one: less than that, and the matrix is singular or indefinite.
    for less, left in ((1, n - rank + 1), (2, None)):
        shifted = inside.copy()
        ends = np.array([0] * (rank - 1) + [1], dtype=object)
        low = integer_matrices.product(b[rank:], ends[:, None])[:, 0]
        last = np.concatenate([ends, low])
        shifted += less * np.multiply.outer(last, last)
        found = integer_matrices.negative_kernel(shifted)
        assert (found is None) == (left is None)
        assert left is None or found.shape == (n, left)


def test_rows_that_are_short_stay() -> None:
    rows = np.array([[1, 0, -1], [0, 1, 0]], dtype=object)
    assert integer_matrices.short_rows(rows) is rows


def test_short_rows_leave_out_what_vanishes_and_shorten_the_rest():
    assert integer_matrices.short_rows(np.array([[1, 0, 0], [0, 0, 0]], dtype=object)).tolist() == [[1, 0, 0]]
    for long in ([[1, 1, 0], [7, 8, 0]], [[1, 1, 1], [1, 1, 2]], [[9, 1], [8, 1]]):
        found = integer_matrices.short_rows(np.array(long, dtype=object))
        assert max(sum(v * v for v in row) for row in found.tolist()) <= 2


def test_divisors_of_the_least_number_are_positive() -> None:
    assert integer_matrices.row_divisors(np.array([[-(2**63), 0], [0, 0]])) == [2**63, 0]
