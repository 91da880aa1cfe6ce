"""Convex combinations with a strictly feasible point are provable, and hardly worse than the boundary."""

from __future__ import annotations

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.drivers.perturbed_programs import provable_combination
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.verifier.rigorous import prove_point


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
    assert not prove_point(program.problem, (off,)).proven
    found = provable_combination(program, (off,), deep, 1e-9 * size)
    assert found is not None
    assert prove_point(program.problem, found).proven
    value = float(np.vdot(program.objective[0], found[0]))
    # It costs what was allowed, or a few times the depth that is missing.
    assert -size * (1e-9 + 1e3 * missed) * 1.001 <= value < 0.0


def test_nothing_is_pulled_where_nothing_is_lost_or_known() -> None:
    program, best, deep = corner(1.0)
    assert provable_combination(program, deep, best, 1e-9) is None  # the "deep" one is better
    assert provable_combination(program, (np.full((6, 6), np.nan),), deep, 1e-9) is None
