"""Chains about LMIs, second-order cones and Hermitian matrices: found, proved, told and audited."""

from fractions import Fraction

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding, audit
from sdpfeas.families.planted import PlantedChainOptions, PlantedFaces
from sdpfeas.io.result_files import SavedResult, load_result, save_result
from sdpfeas.problem.reductions.rows_only import rows_only


def cone(rows, bounds, block):
    return sf.FeasibilityProblem([block], [np.array(rows, dtype=float)], bounds, bounds)


def second_order(last):
    """On the ray (5, 3, 4), with one more row."""
    return cone([[5, -3, -4], last[0]], [0, last[1]], sf.SecondOrder(3))


def hermitian(last):
    """H[0, 0] is zero, and another entry is given."""
    first = np.zeros((3, 3))
    first[0, 0] = 1
    return cone([first.reshape(-1), np.array(last[0]).reshape(-1)], [0, last[1]], sf.HermitianPSD(3))


def pencil(end):
    """[[0, x], [x, y]] with x = ``end``: as an LMI."""
    coefficients = np.array([[[0, 1], [1, 0]], [[0, 0], [0, 1]]], dtype=float)
    lmi = sf.LMI(sf.PSD(2), np.zeros((2, 2)), [coefficients], "pencil")
    return sf.FeasibilityProblem([sf.Free(2)], [np.array([[1.0, 0]])], [end], [end], ["x"], lmis=[lmi])


def disk(end):
    """(x, x, y) in the second-order cone, with y given: as an LMI."""
    lmi = sf.LMI(sf.SecondOrder(3), np.zeros(3), [np.array([[1.0, 1, 0], [0, 0, 1]])])
    return sf.FeasibilityProblem([sf.Free(2)], [np.array([[0, 1.0]])], [end], [end], lmis=[lmi])


SKEW = np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 0]])
CASES = [
    ("second-order, feasible", second_order(([1, 0, 0], 5)), "feasible"),
    ("second-order, another point", second_order(([0, 1, -1], 2)), "infeasible"),
    ("second-order, weak", cone([[1, -1, 0], [0, 0, 1]], [0, 1], sf.SecondOrder(3)), "infeasible"),
    ("Hermitian, weak", hermitian((SKEW, 1)), "infeasible"),
    ("Hermitian, feasible", hermitian((np.diag([1, 2, 3]), 4)), "feasible"),
    ("LMI, weak", pencil(1.0), "infeasible"),
    ("LMI, feasible", pencil(0.0), "feasible"),
    ("LMI in a second-order cone, weak", disk(2.0), "infeasible"),
    ("LMI in a second-order cone, feasible", disk(0.0), "feasible"),
]


@pytest.mark.parametrize(("problem", "truth"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_faces_of_other_cones(problem, truth, tmp_path):
    result = sf.solve(problem, "facial", time_limit=30)
    assert result.verdict == truth
    assert result.proof in ("exact", "rigorous")
    if result.check.chain is None:
        return
    assert sf.verify(problem, sf.Claim(chain=result.chain, point=result.point)).verdict == truth
    save_result(result, tmp_path / "answer.npz")
    assert audit(problem, load_result(tmp_path / "answer.npz")).finding is Finding.CONFIRMED
    # Neither the verifier nor the auditor takes a chain whose signs are turned, or that lacks its end.
    steps = result.chain.steps
    for wrong in (tuple(-y for y in steps), steps[:-1]):
        chain = sf.Chain(wrong, result.chain.reading)
        check = sf.verify(problem, sf.Claim(chain=chain, point=result.point), rigorous=True)
        answer = SavedResult("", truth, "exact", result.point, None, chain=chain)
        if truth == "infeasible":
            assert check.verdict is sf.Verdict.UNDECIDED
            assert audit(problem, answer).finding is Finding.NOT_CONFIRMED
        assert check.verdict in ("undecided", truth)


def test_words_and_reduce():
    told = sf.solve(pencil(1.0), "facial", time_limit=30).explain()
    assert "LMI pencil forces the value of LMI pencil[0,0] = 0, hence its row and column" in told
    assert "row x" in told
    found = sf.reduce(pencil(0.0))
    assert found.sizes == ((2, 2), (2, 1))
    point = found.reduction.point((np.array([0.0, 1.0]), np.eye(1)))
    assert (
        sf.verify(pencil(0.0), sf.Claim(point=point, chain=found.chain), rigorous=True).verdict == "feasible"
    )


@pytest.mark.parametrize("disguised", [False, True])
@pytest.mark.parametrize("truth", ["weak", "face", "strong"])
def test_native_lmis(truth, disguised):
    item = PlantedFaces.plant(
        PlantedChainOptions(truth=truth, length=2, n=6, rows=6, disguised=disguised, side="native", seed=3)
    )
    check = sf.verify(item.problem, item.claim, rigorous=True)
    assert check.verdict is item.truth
    found = sf.solve(item.problem, time_limit=30)
    assert found.verdict is item.truth
    assert audit(item.problem, SavedResult.of(found)).finding is Finding.CONFIRMED


def test_multipliers_of_mirrored_entries_belong_together():
    posed = rows_only(pencil(1.0))
    y = np.array([Fraction(1), 2, 3, 5, 7], dtype=object)
    forth = posed.forth(y)
    assert forth.tolist() == [1, 2, 8, 7]
    assert posed.back(forth).tolist() == [1, 2, 4, 4, 7]
    np.testing.assert_allclose(
        posed.start_multipliers(posed.multipliers(forth.astype(float))), forth.astype(float)
    )


def test_numbers_that_would_be_rounded_are_not_taken():
    # Half the sum of these two is no double.
    rows = np.zeros((1, 2, 2))
    rows[0, 0, 1], rows[0, 1, 0] = 1.0 + 2.0**-52, 2.0**-53
    problem = cone(rows.reshape(1, -1), [0], sf.HermitianPSD(2))
    assert "rows that can be written exactly" in sf.verify(problem, sf.Claim(chain=sf.Chain(([1],)))).reason
    with pytest.raises(sf.ProblemError, match="dense or sparse"):
        sf.reduce(problem)
