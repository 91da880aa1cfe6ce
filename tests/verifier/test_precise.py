"""Exact points in a thin interior: proved where they are, never elsewhere, values never too good."""

from __future__ import annotations

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.problem.program import ConicProgram
from sdpfeas.verifier.precise import Precise, fits_balls
from sdpfeas.verifier.rigorous import prove_point

pytest.importorskip("flint")

#: Cosine of the angle between two unit vectors that are 2**-26 apart.
NEARLY = 1.0 - 2.0**-53


def entry(i: int, j: int, n: int = 3) -> np.ndarray:
    out = np.zeros((n, n))
    out[i, j] = out[j, i] = 1.0 if i == j else 0.5
    return out


def unit_vectors(cosine: float) -> ConicProgram:
    """Three unit vectors, two of them at a given angle: how well can a third tell them apart?

    At ``NEARLY`` the answer is one exactly, and no point is deeper inside than 2**-53.
    """
    rows = np.stack([entry(0, 0), entry(1, 1), entry(2, 2), entry(0, 1)])
    right = [1.0, 1.0, 1.0, cosine]
    problem = sf.FeasibilityProblem([sf.PSD(3)], [rows], right, right)
    return ConicProgram(problem, (2.0**26 * (entry(0, 2) - entry(1, 2)),))


def root_near(rng: np.random.Generator, slip: float) -> np.ndarray:
    exact = np.array([[1.0, 0.0, 0.0], [NEARLY, 2.0**-26, 0.0], [0.0, 0.0, 1.0]])
    return exact * (1.0 + slip * rng.normal(size=(3, 3)))


def test_a_point_that_no_rounded_matrix_shows() -> None:
    program = unit_vectors(NEARLY)
    assert fits_balls(program.problem)
    root = root_near(np.random.default_rng(0), 0.0)
    found = Precise(program, [root]).prove((np.eye(3),))
    assert found is not None
    assert abs(found.value) <= 1e-9
    assert not prove_point(program.problem, found.point).proven
    side = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -0.99], [0.0, -0.99, 1.0]])
    better = Precise(program, [root]).prove((side,))
    assert better is not None
    assert 0.98 < better.value <= 0.99 * (1.0 + 1e-9)


@pytest.mark.parametrize("cosine", [1.0, 1.0 + 2.0**-52, 2.0])
def test_nothing_is_proved_where_there_is_no_interior(cosine: float) -> None:
    rng = np.random.default_rng(1)
    for slip in (0.0, 1e-12, 1e-3, 0.5):
        for _ in range(10):
            inner = np.eye(3) + slip * np.diag(rng.normal(size=3))
            found = Precise(unit_vectors(cosine), [root_near(rng, slip)]).prove((inner,))
            assert found is None


def test_values_are_never_better_than_the_best() -> None:
    rng = np.random.default_rng(2)
    program, proved = unit_vectors(NEARLY), 0
    for _ in range(60):
        share = 1.0 - 10.0 ** rng.uniform(-9, 0)
        side = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -share], [0.0, -share, 1.0]])
        slip = 10.0 ** rng.uniform(-14, -2)
        found = Precise(program, [root_near(rng, slip)]).prove((side,))
        if found is not None:
            proved += 1
            assert found.value <= 1.0
    assert proved > 10


def test_vectors_free_ones_and_hostile_roots() -> None:
    # x0 + x1 + z = 1, x0 - x1 = 1/2: maximise x1 - z.
    rows = [np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([[1.0], [0.0]])]
    problem = sf.FeasibilityProblem([sf.Nonneg(2), sf.Free(1)], rows, [1.0, 0.5], [1.0, 0.5])
    program = ConicProgram(problem, (np.array([0.0, 1.0]), np.array([-1.0])))
    inner = (np.ones(2), np.zeros(1))
    found = Precise(program, [np.ones(2), np.ones(1)]).prove(inner)
    assert found is not None
    assert prove_point(problem, found.point).proven
    x, z = found.point
    assert found.value == pytest.approx(x[1] - z[0], rel=1e-12)
    assert Precise(program, [np.array([1.0, -1.0]), np.ones(1)]).prove(inner) is None
    assert Precise(program, [np.ones(2), np.ones(1)]).prove((np.array([1.0, -1e-9]), np.zeros(1))) is None
    assert Precise(program, [np.ones(2), np.ones(1)]).prove((np.full(2, np.nan), np.zeros(1))) is None
    with pytest.raises(np.linalg.LinAlgError, match="independent"):
        Precise(program, [np.zeros(2), np.ones(1)])


def test_only_what_can_be_proved_so_is_said_to_fit() -> None:
    eye = [np.eye(2)[None]]
    assert fits_balls(sf.FeasibilityProblem([sf.PSD(2)], eye, [1.0], [1.0]))
    assert not fits_balls(sf.FeasibilityProblem([sf.PSD(2)], eye, [1.0], [2.0]))
    assert not fits_balls(sf.FeasibilityProblem([sf.SpectralBox(2)], eye, [1.0], [1.0]))
    assert not fits_balls(sf.FeasibilityProblem([sf.SecondOrder(2)], [np.ones((1, 2))], [1.0], [1.0]))
