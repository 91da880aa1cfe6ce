"""Eigenvalues by shortcuts are those of the long way."""

import numpy as np
import pytest

from sdpfeas.numerics.linalg import outer_eigenvalues, symmetrize


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
