"""cvxpy models of known truth: each decided right, the conflict in the user's words, and nothing wrong."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from cvxpy_cases import CASES

import sdpfeas as sf

#: Decided on every run; the others are slow tests.
QUICK = {
    "portfolio 0.05",
    "portfolio 0.07",
    "flow 3.1",
    "attribute 5.0",
    "lyapunov 1.5",
    "ppt 0.4",
    "bloch 0.7",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_decided_right(name: str) -> None:
    constraints, feasible, conflict = CASES[name]()
    problem = cp.Problem(cp.Minimize(0), constraints)
    result = sf.solve(problem, time_limit=60)
    assert result.verdict == ("feasible" if feasible else "infeasible"), result.explain()
    if feasible:
        assert max(float(np.max(c.violation())) for c in constraints) <= 1e-6
        return
    found = {entry.name.partition(" (")[0] for entry in result.conflict(prune=True)}
    if conflict is not None:
        assert found == conflict
    assert found


def test_there_are_enough() -> None:
    assert len(CASES) >= 60
    assert set(CASES) >= QUICK
