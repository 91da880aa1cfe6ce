"""The auditor on LMIs: what was proved is confirmed, what is wrong is not."""

import numpy as np
import pytest
from auditing import audited, saved

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding, NotProved, audit, prove
from sdpfeas.families.planted import feasible_lmis, infeasible_lmis

MIXES = {
    "free": [sf.Free(3)],
    "free psd": [sf.Free(2), sf.PSD(2)],
    "new": [sf.SecondOrder(3), sf.HermitianPSD(2), sf.Free(1)],
    "all": [sf.PSD(2), sf.Nonneg(2), sf.Free(2), sf.SpectralBox(2, -1.0, 2.0)],
}
TARGETS = [sf.Nonneg(2), sf.SpectralBox(2, -1.0, 2.0), sf.SecondOrder(3), sf.HermitianPSD(2), sf.PSD(3)]


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("storage", ["dense", "sparse", "low-rank", "combined"])
@pytest.mark.parametrize("mix", MIXES)
def test_planted_answers_are_confirmed(mix, storage, truth):
    plant = feasible_lmis if truth else infeasible_lmis
    item = plant(np.random.default_rng(1), MIXES[mix], TARGETS, storage=storage, rows=2)
    check = sf.verify(item.problem, item.claim, rigorous=True)
    assert check.verdict == item.truth
    found = audited(check)
    assert found.finding == Finding.CONFIRMED, found.reason


def test_answers_from_solvers_are_confirmed():
    for seed, plant in enumerate((feasible_lmis, infeasible_lmis)):
        item = plant(np.random.default_rng(seed), MIXES["free psd"], TARGETS[-3:], rows=0)
        found = sf.solve(item.problem, "clarabel")
        assert found.verdict == item.truth
        assert audited(found.check).finding == Finding.CONFIRMED


def test_wrong_evidence_is_not():
    """Multipliers outside the dual cone, or with two sides that do not differ; points outside the LMI."""
    rng = np.random.default_rng(3)
    item = infeasible_lmis(rng, MIXES["free"], [sf.PSD(3)])
    y = item.certificate.reshape(3, 3)
    for wrong in (-y, np.zeros((3, 3)), np.full((3, 3), np.nan), np.eye(2)):
        with pytest.raises(NotProved):
            prove(item.problem, "infeasible", wrong.reshape(-1))
    with pytest.raises(NotProved):
        prove(item.problem, "feasible", [rng.normal(size=3)])
    good = feasible_lmis(rng, MIXES["free"], [sf.PSD(3)])
    with pytest.raises(NotProved, match="LMI 0"):
        prove(good.problem, "feasible", [good.point[0] + 100.0])
    for _ in range(20):
        root = rng.normal(size=(3, 3))
        with pytest.raises(NotProved):
            prove(good.problem, "infeasible", (root @ root.T).reshape(-1))


def test_a_lie_is_refuted():
    item = feasible_lmis(np.random.default_rng(4), MIXES["free"], [sf.PSD(3)])
    check = sf.verify(item.problem, item.claim, rigorous=True)
    lie = saved(check)
    lie = type(lie)(lie.problem_hash, "infeasible", "rigorous", lie.point, np.eye(3).reshape(-1))
    assert audit(item.problem, lie).finding == Finding.REFUTED


def test_exact_answers_are_confirmed():
    """F(x) is singular at the only point there is."""
    lmi = sf.LMI(sf.PSD(2), [[0.0, 1.0], [1.0, 0.0]], [[[[1.0, 0.0], [0.0, 1.0]]]])
    problem = sf.FeasibilityProblem([sf.Free(1)], [[[1.0]]], [-np.inf], [1.0], lmis=[lmi])
    check = sf.verify(problem, sf.Claim(point=([1.0 + 1e-11],)), rigorous=True)
    assert (check.verdict, check.proof) == (sf.Verdict.FEASIBLE, sf.Proof.EXACT)
    assert audited(check).finding == Finding.CONFIRMED
