"""Eigenvalues by shortcuts are those of the long way."""

import numpy as np
import pytest

from sdpfeas.numerics.linalg import asymmetry, outer_eigenvalues, pseudoinverse, smallest, symmetrize


@pytest.mark.parametrize("n", [1, 2, 3, 12, 70])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e3])
def test_outer_eigenvalues_lie_a_little_beyond(n, scale) -> None:
    matrix = scale * symmetrize(np.random.default_rng(n).standard_normal((n, n)))
    values, error = np.linalg.eigvalsh(matrix), 1e-4
    low, high = outer_eigenvalues(matrix, error)
    rounding = 1e-12 * scale * n
    assert values[0] - 2.0 * error - rounding <= low <= values[0] + rounding
    assert values[-1] - rounding <= high <= values[-1] + 2.0 * error + rounding
    assert outer_eigenvalues(matrix, error, both=False)[0] == low


def test_outer_eigenvalues_of_no_numbers_are_refused() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="NaN"):
        outer_eigenvalues(np.full((3, 3), np.nan), 1e-4)


@pytest.mark.parametrize("n", [1, 2, 127, 1024, 1025, 1200])
def test_matrices_are_symmetrised_the_same_by_tiles(n: int) -> None:
    matrix = np.random.default_rng(n).normal(size=(n, n))
    given = matrix.copy()
    assert np.array_equal(symmetrize(matrix), 0.5 * given + 0.5 * given.T)
    assert np.array_equal(matrix, given)
    assert asymmetry(matrix) == np.max(np.abs(given - given.T))
    assert asymmetry(symmetrize(matrix)) == 0.0
    matrix[0, -1] = np.nan
    assert np.isnan(asymmetry(matrix))


def test_the_pseudoinverse_ignores_the_kernel() -> None:
    factor = np.random.default_rng(0).normal(size=(6, 4))
    matrix = factor @ factor.T
    inverse = pseudoinverse(matrix)
    assert np.allclose(matrix @ inverse @ matrix, matrix)
    assert np.linalg.matrix_rank(inverse, tol=1e-9) == 4


@pytest.mark.parametrize("n", [30, 150])
@pytest.mark.parametrize("least", [1e-300, 1e-16, 1.0])
def test_the_smallest_eigenvalue_is_estimated(n: int, least: float) -> None:
    assert smallest(np.diag(np.geomspace(least, 1.0, n))) == pytest.approx(least, rel=0.1, abs=1e-16 * n)


def test_matrices_whose_inverse_overflows_have_no_smallest_eigenvalue() -> None:
    assert smallest(1e-320 * np.eye(150)) == 0.0
