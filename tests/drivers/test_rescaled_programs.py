"""Programs with an interior too thin for binary64 are solved in rescaled coordinates."""

from __future__ import annotations

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.backends.registry import find_solver
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.certified_program import rescale_program
from sdpfeas.problem.objective import ConicProgram


@pytest.mark.parametrize("bits", [25, 45])
def test_a_thin_program_has_its_best_point_proved(bits: int) -> None:
    """Two unit vectors nearly agree; a third tells them apart by their distance and no more."""
    apart = 2.0 ** (-(bits - 1) / 2)
    rows = np.zeros((4, 3, 3))
    rows[[0, 1, 2], [0, 1, 2], [0, 1, 2]] = 1.0
    rows[3, 0, 1] = rows[3, 1, 0] = 0.5
    right = [1.0, 1.0, 1.0, 1.0 - 2.0**-bits]
    goal = np.zeros((3, 3))
    goal[0, 2] = goal[2, 0] = 0.5 / apart
    goal[1, 2] = goal[2, 1] = -0.5 / apart
    program = ConicProgram(sf.FeasibilityProblem([sf.PSD(3)], [rows], right, right), (goal,))
    seen = rescale_program(program, iter([(np.eye(3),)]), find_solver("auto"), Deadline(60.0))
    assert seen is not None
    claim = seen.solve(find_solver("spectral-ipm").make(), Deadline(60.0))
    assert claim.point is not None
    found = seen.prove(claim.point, 1e-8)
    assert found is not None
    assert 1.0 - 1e-6 <= found.value <= 1.0
    assert seen.trace(claim.point) > 0.0


def test_where_there_is_no_interior_nothing_is_seen() -> None:
    rows = np.stack([np.eye(2), np.diag([1.0, 0.0])])
    program = ConicProgram(sf.FeasibilityProblem([sf.PSD(2)], [rows], [1.0, 1.0], [1.0, 1.0]), (np.eye(2),))
    assert rescale_program(program, iter([(np.eye(2),)]), find_solver("spectral-ipm"), Deadline(10.0)) is None
