"""Blocks and LMIs that fall into parts: the parts are what they were, and evidence finds its way."""

import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.backends.auto import preferred
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.split import MIN_SPLIT_SIDE, SplitComponents, split_components

SIZES = (MIN_SPLIT_SIDE // 2, MIN_SPLIT_SIDE // 3, 1, 1, 1, 2, MIN_SPLIT_SIDE // 2)
SIDE = sum(SIZES)


def matrices(rng: np.random.Generator, count: int, order: np.ndarray) -> np.ndarray:
    """Symmetric matrices with zeros between the parts, their indices shuffled."""
    label = np.repeat(np.arange(len(SIZES)), SIZES)[order]
    out = rng.normal(size=(count, SIDE, SIDE)) * (label[:, None] == label)
    return out + np.swapaxes(out, 1, 2)


def stored(values: np.ndarray) -> sp.csr_array:
    return sp.csr_array(values.reshape(len(values), -1))


def rows_on_parts(seed: int, feasible: bool) -> FeasibilityProblem:
    rng = np.random.default_rng(seed)
    order = rng.permutation(SIDE)
    rows = matrices(rng, 6, order)
    right = np.trace(rows, axis1=1, axis2=2)
    if not feasible:
        rows[0], right[0] = np.eye(SIDE), -1.0
    return FeasibilityProblem([sf.PSD(SIDE)], [stored(rows)], right, right)


def lmi_on_parts(seed: int, feasible: bool) -> FeasibilityProblem:
    rng = np.random.default_rng(seed)
    terms = matrices(rng, 5, rng.permutation(SIDE))
    x = rng.normal(size=4)
    if feasible:
        constant = np.eye(SIDE) - np.tensordot(x, terms[:4], 1)
    else:
        # A definite multiplier sees nothing of the terms, and a negative constant.
        terms -= np.trace(terms, axis1=1, axis2=2)[:, None, None] / SIDE * np.eye(SIDE)
        constant = terms[4] - 0.1 * np.eye(SIDE)
    constant = (constant + constant.T) / 2.0
    lmi = sf.LMI(sf.PSD(SIDE), constant, [stored(terms[:4])])
    return FeasibilityProblem([sf.Free(4)], [None], [], [], lmis=[lmi])


def cut(problem: FeasibilityProblem) -> SplitComponents:
    found = split_components(problem)
    assert found is not None
    return found


@pytest.mark.parametrize("feasible", [True, False])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [rows_on_parts, lmi_on_parts])
def test_evidence_goes_forth_and_back(make, seed: int, feasible: bool) -> None:
    problem = make(seed, feasible)
    parts = cut(problem)
    truth = sf.Verdict.FEASIBLE if feasible else sf.Verdict.INFEASIBLE
    found = sf.solve(parts.problem)
    assert found.verdict is truth
    back = found.claim.back(parts)
    assert sf.verify(problem, back, rigorous=True).verdict is truth
    forth = sf.Claim(
        None if back.point is None else parts.start_point(back.point),
        None if back.certificate is None else parts.start_multipliers(back.certificate),
    )
    assert sf.verify(parts.problem, forth, rigorous=True).verdict is truth
    assert sf.solve(problem, "spectral-ipm").verdict is truth


def test_parts_have_the_numbers_of_the_whole() -> None:
    problem = rows_on_parts(0, True)
    parts = cut(problem)
    kinds = [type(block) for block in parts.problem.sets]
    assert kinds == [sf.PSD] * sum(n > 1 for n in SIZES) + [sf.Nonneg]
    assert sorted(block.n for block in parts.problem.sets) == sorted([*(n for n in SIZES if n > 1), 3])
    rng = np.random.default_rng(1)
    matrix = matrices(rng, 1, np.arange(SIDE))[0]
    # Whatever is between the parts, rows do not see it.
    np.testing.assert_allclose(
        parts.problem.apply(parts.start_point((matrix,))), problem.apply((matrix,)), rtol=1e-12, atol=1e-12
    )
    for i in range(problem.m):
        y = np.eye(problem.m)[i]
        whole = parts.point(parts.problem.adjoint(y))
        np.testing.assert_array_equal(whole[0], problem.adjoint(y)[0])


def test_what_is_connected_stays_whole() -> None:
    chain = np.zeros((1, SIDE, SIDE))
    index = np.arange(SIDE - 1)
    chain[0, index, index + 1] = chain[0, index + 1, index] = 1.0
    assert split_components(FeasibilityProblem([sf.PSD(SIDE)], [stored(chain)], [1.0], [1.0])) is None
    full = np.ones((1, SIDE, SIDE))
    assert split_components(FeasibilityProblem([sf.PSD(SIDE)], [stored(full)], [1.0], [1.0])) is None
    # One entry of the constant is enough.
    terms = stored(np.eye(SIDE)[:, :, None] * np.eye(SIDE)[:, None, :])
    for constant, connected in ((np.zeros((SIDE, SIDE)), False), (chain[0], True)):
        lmi = sf.LMI(sf.PSD(SIDE), constant, [terms])
        problem = FeasibilityProblem([sf.Free(SIDE)], [None], [], [], lmis=[lmi])
        assert (split_components(problem) is None) is connected


def test_a_block_that_an_lmi_uses_stays_whole() -> None:
    rows = stored(np.eye(SIDE)[None])
    terms = sp.csr_array((np.ones(SIDE), (np.arange(SIDE) * (SIDE + 1), np.zeros(SIDE, dtype=int))))
    lmi = sf.LMI(sf.Nonneg(1), [-1.0], [terms, None])
    problem = FeasibilityProblem([sf.PSD(SIDE), sf.PSD(SIDE)], [rows, rows], [1.0], [3.0], lmis=[lmi])
    assert [block.n for block in cut(problem).problem.sets] == [SIDE, SIDE]
    assert [type(block) for block in cut(problem).problem.sets] == [sf.PSD, sf.Nonneg]
    found = sf.solve(problem)
    assert found.verdict is sf.Verdict.FEASIBLE
    assert found.proof is sf.Proof.RIGOROUS


def test_many_parts_are_little_work() -> None:
    """As a whole, the other backends would be asked first, and none of them would be quick."""
    side = 1400
    terms = sp.csr_array((np.ones(side), (np.arange(side), np.arange(side) * (side + 1))), (side, side**2))
    constant = sp.diags_array(-np.ones(side)).toarray()
    lmi = sf.LMI(sf.PSD(side), constant, [terms])
    problem = FeasibilityProblem([sf.Free(side)], [None], [], [], lmis=[lmi])
    assert preferred(problem)[0][0] == "spectral-ipm"


def test_rows_within_a_part_still_count() -> None:
    """The trace allows an entry off the diagonal of 1/2 at most."""
    rows = np.zeros((2, SIDE, SIDE))
    rows[0] = np.eye(SIDE)
    rows[1, 0, 1] = rows[1, 1, 0] = 1.0
    inside = FeasibilityProblem([sf.PSD(SIDE)], [stored(rows)], [1.0, 0.9], [1.0, 0.9])
    outside = FeasibilityProblem([sf.PSD(SIDE)], [stored(rows)], [1.0, 1.1], [1.0, 1.1])
    assert sf.solve(inside).verdict is sf.Verdict.FEASIBLE
    assert sf.solve(outside).verdict is sf.Verdict.INFEASIBLE
