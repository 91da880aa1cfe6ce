"""Convex combinations with a strictly feasible point are provable, and hardly worse than the boundary."""

from __future__ import annotations

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.drivers.certified_program import bisect_weights, combined_multipliers, combined_points
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
    least, combined = combined_points(program.problem, (off,), deep)
    values = []

    def proved(t: float) -> bool:
        value = prove_value(program.problem, program.objective, combined(t))
        values.extend([] if value is None else [value])
        return value is not None

    bisect_weights(least, proved)
    assert -size * (1e-6 + 1e3 * missed) <= max(values) < 0.0


def test_multipliers_on_the_boundary_become_provable() -> None:
    """``-(c + y I)`` is singular at the optimal y = 0, and definite below."""
    program, _, _ = corner(1.0)
    best, deep = np.array([1e-9]), np.array([-1.0])
    assert prove_upper_bound(program.problem, program.objective, best) is None
    least, combined = combined_multipliers(program, best, deep)
    bounds = []

    def proved(t: float) -> bool:
        bound = prove_upper_bound(program.problem, program.objective, combined(t))
        bounds.extend([] if bound is None else [bound])
        return bound is not None

    bisect_weights(least, proved)
    assert 0.0 <= min(bounds) <= 1e-5


def test_the_least_weight_that_is_proved_is_found() -> None:
    tried = list[float]()

    def proved(t: float) -> bool:
        tried.append(t)
        return t >= 3e-5

    bisect_weights(0.0, proved)
    assert 3e-5 <= min(t for t in tried if t >= 3e-5) < 6e-5
    assert len(tried) <= 6
    tried.clear()
    bisect_weights(1.0, proved)
    bisect_weights(np.inf, proved)
    assert not tried


def test_nothing_is_combined_where_nothing_is_known() -> None:
    program, best, deep = corner(1.0)

    def least(found: tuple[np.ndarray], interior: tuple[np.ndarray]) -> float:
        return combined_points(program.problem, found, interior)[0]

    assert least(best, (np.full((6, 6), np.nan),)) == np.inf
    # A point without depth makes up for nothing.
    assert least((best[0] - 1e-9 * np.eye(6),), best) > 1.0
    assert least(deep, deep) == 0.0
