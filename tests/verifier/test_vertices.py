"""The exact simplex method agrees with floating point, and says what it proved."""

import numpy as np
import pytest
from scipy.optimize import linprog

import sdpfeas as sf
from sdpfeas.verifier.exact_simplex import exact_vertex, is_tiny_polyhedron


@pytest.mark.parametrize("seed", range(60))
def test_a_vertex_is_what_floating_point_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k, m = (int(rng.integers(1, 5)) for _ in range(3))
    matrix = rng.integers(-3, 4, (m, n + k)).astype(float)
    lower = np.where(rng.random(m) < 0.5, -np.inf, rng.integers(-4, 3, m))
    upper = np.where(
        rng.random(m) < 0.3, np.inf, np.where(np.isfinite(lower), lower, 0) + rng.integers(0, 4, m)
    )
    goal = rng.integers(-3, 4, n + k).astype(float)
    problem = sf.FeasibilityProblem([sf.Nonneg(n), sf.Free(k)], [matrix[:, :n], matrix[:, n:]], lower, upper)
    assert is_tiny_polyhedron(problem)
    found = exact_vertex(problem, (goal[:n], goal[n:]))
    high, low = np.isfinite(upper), np.isfinite(lower)
    truth = linprog(
        -goal,
        np.vstack([matrix[high], -matrix[low], np.zeros((1, n + k))]),
        np.concatenate([upper[high], -lower[low], [0.0]]),
        bounds=[(0, None)] * n + [(None, None)] * k,
        options={"presolve": False},  # which takes unbounded programs for infeasible ones
    )
    if truth.status == 0:
        assert float(found.value) == pytest.approx(-truth.fun)
    elif truth.status == 2:
        assert found.value is None
        assert sf.verify(problem, sf.Claim(certificate=found.multipliers)).verdict is sf.Verdict.INFEASIBLE
    else:
        assert found.unbounded
    if found.point is not None:
        assert sf.verify(problem, sf.Claim(point=found.point)).verdict is sf.Verdict.FEASIBLE
