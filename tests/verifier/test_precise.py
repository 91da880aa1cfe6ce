"""Exact points in a thin interior: proved where they are, never elsewhere, values never too good."""

from __future__ import annotations

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.verifier.multiprecision import CongruenceProgram, fits_balls
from sdpfeas.verifier.rigorous import prove_point

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
    found = CongruenceProgram(program, [root]).prove((np.eye(3),))
    assert found is not None
    assert abs(found.value) <= 1e-9
    assert not prove_point(program.problem, found.point).proven
    side = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -0.99], [0.0, -0.99, 1.0]])
    better = CongruenceProgram(program, [root]).prove((side,))
    assert better is not None
    assert 0.98 < better.value <= 0.99 * (1.0 + 1e-9)


@pytest.mark.parametrize("cosine", [1.0, 1.0 + 2.0**-52, 2.0])
def test_nothing_is_proved_where_there_is_no_interior(cosine: float) -> None:
    rng = np.random.default_rng(1)
    for slip in (0.0, 1e-12, 1e-3, 0.5):
        for _ in range(10):
            inner = np.eye(3) + slip * np.diag(rng.normal(size=3))
            found = CongruenceProgram(unit_vectors(cosine), [root_near(rng, slip)]).prove((inner,))
            assert found is None


def test_values_are_never_better_than_the_best() -> None:
    rng = np.random.default_rng(2)
    program, proved = unit_vectors(NEARLY), 0
    for _ in range(60):
        share = 1.0 - 10.0 ** rng.uniform(-9, 0)
        side = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -share], [0.0, -share, 1.0]])
        slip = 10.0 ** rng.uniform(-14, -2)
        found = CongruenceProgram(program, [root_near(rng, slip)]).prove((side,))
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
    found = CongruenceProgram(program, [np.ones(2), np.ones(1)]).prove(inner)
    assert found is not None
    assert prove_point(problem, found.point).proven
    x, z = found.point
    assert found.value == pytest.approx(x[1] - z[0], rel=1e-12)
    assert CongruenceProgram(program, [np.array([1.0, -1.0]), np.ones(1)]).prove(inner) is None
    assert (
        CongruenceProgram(program, [np.ones(2), np.ones(1)]).prove((np.array([1.0, -1e-9]), np.zeros(1)))
        is None
    )
    assert (
        CongruenceProgram(program, [np.ones(2), np.ones(1)]).prove((np.full(2, np.nan), np.zeros(1))) is None
    )
    with pytest.raises(np.linalg.LinAlgError, match="independent"):
        CongruenceProgram(program, [np.zeros(2), np.ones(1)])


def test_only_what_can_be_proved_so_is_said_to_fit() -> None:
    eye = [np.eye(2)[None]]
    assert fits_balls(sf.FeasibilityProblem([sf.PSD(2)], eye, [1.0], [1.0]))
    assert not fits_balls(sf.FeasibilityProblem([sf.PSD(2)], eye, [1.0], [2.0]))
    assert not fits_balls(sf.FeasibilityProblem([sf.SpectralBox(2)], eye, [1.0], [1.0]))
    assert not fits_balls(sf.FeasibilityProblem([sf.SecondOrder(2)], [np.ones((1, 2))], [1.0], [1.0]))


def line(block, rows, right) -> ConicProgram:
    """One block, rows that have to be met, and the first entry to be as large as it can be."""
    problem = sf.FeasibilityProblem([block], [rows], right, right)
    goal = np.zeros(block.shape)
    goal.flat[0] = 1.0
    return ConicProgram(problem, (goal,))


def test_no_correction_is_longer_than_the_point_is_deep() -> None:
    """``x = -1`` has no point, however deep the one is that is moved there; ``x = 1`` has."""
    for block, one in ((sf.Nonneg(1), np.ones(1)), (sf.PSD(1), np.ones((1, 1)))):
        for depth in (0.25, 1.0, 3.0, 5.0, 100.0):
            wrong = CongruenceProgram(line(block, one[None], [-1.0]), [one])
            assert wrong.prove((depth * one,)) is None
        right = CongruenceProgram(line(block, one[None], [1.0]), [one]).prove((1.25 * one,))
        assert right is not None
        assert right.value <= 1.0 <= right.value * (1.0 + 1e-12)


def test_the_shallowest_part_counts() -> None:
    """Two entries, or blocks, one of them shallow: it may not be moved below zero beside a deep one."""
    rows = np.array([[0.0, 1.0]])
    for inner in (np.array([4.0, 0.5]), np.array([0.5, 4.0])):
        goal = 1.0 if inner[1] == 0.5 else 3.0
        moved = rows if inner[1] == 0.5 else rows[:, ::-1]
        assert CongruenceProgram(line(sf.Nonneg(2), moved, [-0.5]), [np.ones(2)]).prove((inner,)) is None
        found = CongruenceProgram(line(sf.Nonneg(2), rows, [goal]), [np.ones(2)]).prove((inner,))
        assert (found is None) == (abs(inner[1] - goal) >= np.min(inner))
    parts = [(sf.PSD(1), np.ones((1, 1, 1))), (sf.Nonneg(1), np.ones((1, 1))), (sf.PSD(2), np.eye(2)[None])]
    for deep, own in parts:
        for shallow, rows in parts:
            for sets, table, depths in (
                ([deep, shallow], [None, rows], (9.0, 0.5)),
                ([shallow, deep], [rows, None], (0.5, 9.0)),
            ):
                problem = sf.FeasibilityProblem(sets, table, [-0.5], [-0.5])
                program = ConicProgram(problem, tuple(np.zeros(s.shape) for s in sets))
                roots = [np.eye(s.n) if s.matrix else np.ones(s.n) for s in sets]
                inner = tuple(d * r for d, r in zip(depths, roots, strict=True))
                assert CongruenceProgram(program, roots).prove(inner) is None
            assert own.shape[0] == 1


def test_matrices_that_are_not_definite_or_no_matrices_have_no_depth() -> None:
    program = line(sf.PSD(2), np.eye(2)[None], [2.0])
    precise = CongruenceProgram(program, [np.eye(2)])
    assert precise.prove((np.eye(2),)) is not None
    for inner in (
        np.diag([3.0, -1.0]),
        np.array([[1.0, 1.0], [1.0, 1.0]]),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        np.array([[1.0, 0.5], [0.0, 1.0]]),
        np.array([[1.0, np.nan], [np.nan, 1.0]]),
        np.array([[np.inf, 0.0], [0.0, 1.0]]),
        np.ones(4),
    ):
        assert precise.prove((inner,)) is None
    # A negative entry of a root turns what is deep into what is outside: here x = (1, -1) would be met.
    turned = CongruenceProgram(line(sf.Nonneg(2), np.array([[1.0, -1.0]]), [2.0]), [np.array([1.0, -1.0])])
    assert turned.prove((np.ones(2),)) is None


def test_steps_and_values_are_those_of_the_outer_point() -> None:
    """Rows with roots of any size: the point is moved onto them, and its value is no larger than it is."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        matrix, size = rng.normal(size=(2, 2, 2)), rng.uniform(0.5, 2.0, 3)
        rows = [matrix + matrix.transpose(0, 2, 1), rng.normal(size=(2, 3)), rng.normal(size=(2, 1))]
        rows[1][0, 0] = 0.0
        roots = [rng.normal(size=(2, 2)) + 2.0 * np.eye(2), size, np.array([-3.0])]
        inner = (np.eye(2) + 0.1, np.ones(3), np.array([2.0]))
        outer = (roots[0] @ inner[0] @ roots[0].T, size * inner[1], roots[2] * inner[2])
        right = sum(np.tensordot(r, x, x.ndim) for r, x in zip(rows, outer, strict=True)) + 1e-3
        problem = sf.FeasibilityProblem([sf.PSD(2), sf.Nonneg(3), sf.Free(1)], rows, right, right)
        goal = (np.array([[1.0, 0.5], [0.5, -1.0]]), np.array([1.0, 2.0, -1.0]), np.ones(1))
        precise = CongruenceProgram(ConicProgram(problem, goal), roots)
        found = precise.prove(inner)
        assert found is not None
        values = sum(np.tensordot(r, x, x.ndim) for r, x in zip(rows, found.point, strict=True))
        np.testing.assert_allclose(values, right, rtol=1e-12, atol=1e-12)
        value = sum(float(np.sum(c * x)) for c, x in zip(goal, found.point, strict=True))
        assert found.value == pytest.approx(value, rel=1e-12, abs=1e-12)
        assert max(float(np.max(np.abs(x - o))) for x, o in zip(found.point, outer, strict=True)) < 0.1
        # The rounded program has orthonormal rows that hold at S as the others do at the point.
        program = precise.program
        flat = np.hstack(
            [part.reshape(2, -1) for part in (r.to_csr().toarray() for r in program.problem.rows)]
        )
        np.testing.assert_allclose(flat @ flat.T, np.eye(2), atol=1e-5)
        seen = program.problem.apply(inner) - program.problem.lower
        assert np.linalg.norm(seen) < 0.1
        y = rng.normal(size=2)
        np.testing.assert_allclose(
            precise.multipliers(y) @ (np.array(right) - problem.apply(outer)),
            y @ (program.problem.lower - program.problem.apply(inner)),
            rtol=1e-6,
        )
