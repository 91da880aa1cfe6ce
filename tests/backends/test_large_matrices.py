"""Matrices so large that an iteration is expensive: the first iterate is tested before the first step."""

import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.backends.auto import CLARABEL_SIDE, preferred
from sdpfeas.backends.ipm import sparse_system


def cut_bound(side: int) -> sf.FeasibilityProblem:
    """``Diag(x) - L`` semidefinite, L the Laplacian of a cycle: connected, feasible for every large x."""
    diagonal = np.arange(side) * (side + 1)
    terms = sp.csr_array((np.ones(side), (np.arange(side), diagonal)), (side, side**2))
    cycle = np.roll(np.eye(side), 1, axis=1)
    lmi = sf.LMI(sf.PSD(side), cycle + cycle.T - 2.0 * np.eye(side), [terms])
    return sf.FeasibilityProblem([sf.Free(side)], [None], [], [], lmis=[lmi])


def test_no_whole_step_has_to_fit_where_the_start_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    side, asked = 60, list[float]()
    plain = sparse_system.guard

    def guard(what, flops=0.0, **named) -> None:
        asked.append(flops)
        plain(what, flops, **named)

    monkeypatch.setattr(sparse_system, "guard", guard)
    result = sf.solve(cut_bound(side), "spectral-ipm")
    assert (result.verdict, result.proof) == (sf.Verdict.FEASIBLE, sf.Proof.RIGOROUS)
    assert result.claim.iterations == 0
    assert max(asked) < 10.0 * side**3


def test_a_step_is_not_begun_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    side = 40
    rng = np.random.default_rng(0)
    half = rng.normal(size=(30, side, side))
    rows = half + np.swapaxes(half, 1, 2)
    right = np.einsum("kij,ij->k", rows, np.diag(rng.uniform(0.01, 1.0, side)))
    problem = sf.FeasibilityProblem([sf.PSD(side)], [rows], right, right)
    plain = sparse_system.guard

    def guard(what, flops=0.0, **named) -> None:
        if flops >= 40.0 * side**3:
            raise sf.errors.OutOfTime("no time for a step")
        plain(what, flops, **named)

    monkeypatch.setattr(sparse_system, "guard", guard)
    result = sf.solve(problem, "spectral-ipm")
    assert result.claim.stop is sf.Stop.TIME_LIMIT or result.claim.iterations == 0


def test_clarabel_is_not_asked_first_about_what_it_cannot_hold() -> None:
    assert preferred(cut_bound(CLARABEL_SIDE + 1))[0][0] == "spectral-ipm"
    # Clarabel is tried first for many rows on a smaller matrix.
    side, count = 120, 6000
    i, j = (index[:count] for index in np.triu_indices(side))
    place = np.concatenate([i * side + j, j * side + i])
    rows = sp.csr_array((np.ones(2 * count), (np.tile(np.arange(count), 2), place)), (count, side**2))
    problem = sf.FeasibilityProblem([sf.PSD(side)], [rows], np.full(count, 0.5), np.ones(count))
    assert preferred(problem)[0][0] == "clarabel"
