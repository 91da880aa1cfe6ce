"""Small planted problems of integers are decided, and rightly, by the default call."""

import numpy as np
import pytest
import small_integers

import sdpfeas as sf

#: Share of the problems that may stay undecided.
UNDECIDED = 0.005


def undecided(seeds: range) -> int:
    """How many problems stay undecided; none may be decided wrongly."""
    count = 0
    for seed in seeds:
        problem, truth = small_integers.planted(np.random.default_rng(seed))
        found = sf.solve(problem, time_limit=10.0)
        if found.verdict is sf.Verdict.UNDECIDED:
            count += 1
        else:
            assert (found.verdict is sf.Verdict.FEASIBLE) == truth, seed
    return count


def test_a_few_small_problems_are_all_decided() -> None:
    assert undecided(range(60)) == 0


@pytest.mark.slow
def test_hardly_any_small_problem_stays_undecided() -> None:
    seeds = range(1000, 5000)
    assert undecided(seeds) <= UNDECIDED * len(seeds)


# ---------------------------------------------------------------- kinds that once stayed undecided

PINNED = {
    "equal bounds": (sf.SpectralBox(3, 2.0, 2.0), 2.0),
    "equal bounds and trace": (sf.SpectralBox(3, 2.0, 2.0, 6.0), 2.0),
    "trace 0": (sf.SpectralBox(3, 0.0, 1.0, 0.0), 0.0),
    "largest trace": (sf.SpectralBox(3, 0.0, 1.0, 3.0), 1.0),
}


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("beside", ["nothing", "psd", "lmi"])
@pytest.mark.parametrize("kind", PINNED)
def test_boxes_with_one_member_are_decided(kind: str, beside: str, truth: bool) -> None:
    box, value = PINNED[kind]
    rows = np.array([np.diag([1.0, 0.0, 0.0]), np.eye(3)[[1, 0, 2]], np.ones((3, 3))])
    values = np.array([value, value + (not truth), 3.0 * value])
    if beside == "psd":
        # Trace 1 and first entry 1 leave one matrix, and a first entry of 2 none.
        others = np.array([np.eye(2), np.diag([1.0, 0.0]), np.zeros((2, 2))])
        values = values + np.array([1.0, 1.0, 0.0])
        problem = sf.FeasibilityProblem([box, sf.PSD(2)], [rows, others], values, values)
    elif beside == "lmi":
        limit = -3.0 * value - (not truth)
        lmi = sf.LMI(sf.PSD(1), [[limit]], [np.eye(3).reshape(-1, 1, 1)])
        problem = sf.FeasibilityProblem([box], [rows[:1]], values[:1], values[:1], lmis=[lmi])
    else:
        problem = sf.FeasibilityProblem([box], [rows], values, values)
    found = sf.solve(problem, time_limit=10.0)
    assert found.verdict is (sf.Verdict.FEASIBLE if truth else sf.Verdict.INFEASIBLE), found.reason
    assert found.proof is not sf.Proof.NUMERIC


def _tight() -> dict[str, sf.FeasibilityProblem]:
    side = sf.HermitianPSD(2)
    constant, slope = (
        np.asarray(side.coordinates(np.array(a, dtype=complex)))
        for a in ([[1, 1j], [-1j, 1]], [[1, 0], [0, -1]])
    )
    lmi = sf.LMI(side, constant, [slope[None]])
    cone = sf.LMI(sf.SecondOrder(3), [5.0, 3.0, 4.0], [np.array([[0.0, 1.0, 0.0]])])
    sign = sf.LMI(sf.Nonneg(1), [0.0], [[[1.0]]])
    units = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])])
    ones = np.ones((2, 2))
    pairs = [np.array([np.eye(2), 0.0 * ones]), np.array([ones, [[1.0, -1.0], [-1.0, 1.0]]])]
    return {
        "Hermitian LMI": sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[lmi]),
        "second-order LMI": sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[cone, sign]),
        "bounds of 1e8 and 1e-8": sf.FeasibilityProblem([sf.PSD(2)], [units], [-np.inf] * 2, [1e8, 1e-8]),
        "boundary of a box beside a matrix": sf.FeasibilityProblem(
            [sf.SpectralBox(2, 0.0, 1.0), sf.PSD(2)], pairs, [2.0, 0.0], [2.0, 0.0]
        ),
    }


@pytest.mark.parametrize("kind", _tight())
def test_tight_problems_are_decided(kind: str) -> None:
    found = sf.solve(_tight()[kind], time_limit=10.0)
    assert found.verdict is sf.Verdict.FEASIBLE, found.reason
    assert found.proof is not sf.Proof.NUMERIC
