"""Certificates whose ``A*y`` is negative semidefinite by how the rows are stored."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.problem.rows import Combined, Dense, LowRank, PairwiseDifference, Rows, Stacked


def one_signed(kind: str) -> Rows:
    """Three rows that are sums of squares, on matrices of side 40."""
    rng = np.random.default_rng(0)
    low = LowRank([rng.normal(size=(2, 40)) for _ in range(3)])
    if kind == "low-rank":
        return low
    if kind == "pairwise":
        return PairwiseDifference(rng.normal(size=(3, 40)))
    if kind == "stacked":
        return Stacked([low.select([0]), PairwiseDifference(rng.normal(size=(3, 40))).select([0, 2])])
    return Combined(sp.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.5], [0.0, 0.0, 1.0]]), low)


@pytest.mark.parametrize("kind", ["low-rank", "pairwise", "stacked", "combined"])
def test_squares_are_not_negative(kind: str) -> None:
    """``<vv', X> <= -1`` has no solution, whatever rounding does to ``vv'``."""
    rows = one_signed(kind)
    upper = np.array([np.inf, -1e-9, 5.0])
    problem = sf.FeasibilityProblem([sf.PSD(40)], [rows], np.full(3, -np.inf), upper)
    y = np.array([0.0, -1.0, 0.0])
    check = sf.verify(problem, sf.Claim(certificate=y), rigorous=True, repair=False)
    assert (check.verdict, check.proof) == ("infeasible", "rigorous"), check.reason
    found = sf.solve(problem, "auto", time_limit=30)
    assert (found.verdict, found.proof) == ("infeasible", "rigorous"), found.reason


def test_other_signs_prove_nothing() -> None:
    """A positive weight, a negative coefficient, terms that cancel, and rows stored entry by entry."""
    low = one_signed("low-rank")
    down, up = np.array([0.0, -1.0, 0.0]), np.array([0.0, -1.0, 1.0])
    assert low.is_nonpositive(down)
    assert not low.is_nonpositive(up)
    assert not PairwiseDifference(np.eye(3)).is_nonpositive(up)
    assert not LowRank([np.eye(3)[0]], [[-1.0]]).is_nonpositive(np.array([-1.0]))
    assert LowRank([np.eye(3)[0]], [[-1.0]]).is_nonpositive(np.array([1.0]))
    mixed = Combined(sp.csr_array([[1.0, 0.0, 0.0], [-1.0, 1.0, 0.0]]), low)
    assert not mixed.is_nonpositive(np.array([-1.0, -1.0]))
    assert mixed.is_nonpositive(np.array([-1.0, 0.0]))
    assert not mixed.is_nonpositive(np.array([0.0, -1.0]))
    assert not Stacked([low, low]).is_nonpositive(np.concatenate([down, up]))
    assert not Dense(np.eye(3)[None]).is_nonpositive(np.array([-1.0]))
    assert Dense(np.eye(3)[None]).is_nonpositive(np.zeros(1))


def test_feasible_problems_stay_so() -> None:
    """The same rows with bounds that zero meets are not ruled out by any weights."""
    problem = sf.FeasibilityProblem([sf.PSD(40)], [one_signed("low-rank")], np.full(3, -np.inf), np.zeros(3))
    for y in -np.eye(3):
        check = sf.verify(problem, sf.Claim(certificate=y), rigorous=True)
        assert check.verdict == "undecided"
