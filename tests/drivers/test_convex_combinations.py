"""Convex combinations with a strictly feasible point are provable, and hardly worse than the boundary."""

from __future__ import annotations

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.drivers.certified_program import combined_multipliers, combined_points
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.verifier.rigorous import prove_upper_bound, prove_value


def corner(size: float) -> tuple[ConicProgram, tuple[np.ndarray], tuple[np.ndarray]]:
    """Trace one, and all directions but one cost something: the value is zero, in a corner."""
    rng = np.random.default_rng(5)
    frame = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    best = np.outer(frame[:, 0], frame[:, 0])
    problem = sf.FeasibilityProblem([sf.PSD(6)], [np.eye(6)[None]], [1.0], [1.0])
    return ConicProgram(problem, (size * (best - np.eye(6)),)), (best,), (np.eye(6) / 6.0,)


@pytest.mark.parametrize("size", [1.0, 1e6])
@pytest.mark.parametrize("missed", [0.0, 1e-9])
def test_a_point_on_the_boundary_becomes_provable(missed: float, size: float) -> None:
    program, (best,), deep = corner(size)
    off = best - missed * np.diag(np.arange(6.0))  # outside, and off its row
    assert prove_value(program.problem, program.objective, (off,)) is None
    values = [
        prove_value(program.problem, program.objective, point)
        for point in combined_points(program.problem, (off,), deep)
    ]
    # The first combination makes up for what is outside, and is not yet provable where nothing is.
    value = next(value for value in values if value is not None)
    assert -size * (1e-6 + 1e3 * missed) <= value < 0.0


def test_multipliers_on_the_boundary_become_provable() -> None:
    """``-(c + y I)`` is singular at the optimal y = 0, and definite below."""
    program, _, _ = corner(1.0)
    best, deep = np.array([1e-9]), np.array([-1.0])
    assert prove_upper_bound(program.problem, program.objective, best) is None
    bounds = [
        prove_upper_bound(program.problem, program.objective, y)
        for y in combined_multipliers(program, best, deep)
    ]
    bound = next(bound for bound in bounds if bound is not None)
    assert 0.0 <= bound <= 1e-5


def test_nothing_is_combined_where_nothing_is_known() -> None:
    program, best, deep = corner(1.0)
    assert not list(combined_points(program.problem, best, (np.full((6, 6), np.nan),)))
    # A point without depth makes up for nothing.
    assert not list(combined_points(program.problem, (best[0] - 1e-9 * np.eye(6),), best))
    assert len(list(combined_points(program.problem, deep, deep))) > 1
