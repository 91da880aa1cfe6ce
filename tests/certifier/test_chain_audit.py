"""The auditor walks chains again: it confirms what is true, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding, audit
from sdpfeas.families.planted import PlantedChainOptions, PlantedFaces
from sdpfeas.io.result_files import SavedResult

KINDS = [("integer", "primal", True), ("integer", "primal", False), ("float", "primal", True)]
KINDS += [("integer", "lmi", True), ("integer", "native", True)]


def planted(truth, kind, seed):
    numbers, side, disguised = kind
    length = seed % 4 + 1
    options = PlantedChainOptions(
        truth=truth,
        length=length,
        n=length + 3,
        rows=length + 3,
        numbers=numbers,
        side=side,
        disguised=disguised,
        seed=seed,
    )
    return PlantedFaces.plant(options)


def stored(problem, check):
    return SavedResult(
        problem.content_hash,
        check.verdict.value,
        None if check.proof is None else check.proof.value,
        check.point,
        check.certificate,
        rational=check.rational,
        chain=check.chain,
        reading=check.reading.value,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("truth", ["weak", "face", "strong"])
def test_accepted_chains_are_confirmed(truth, kind):
    for seed in range(4):
        item = planted(truth, kind, seed)
        check = sf.verify(item.problem, item.claim, rigorous=True)
        found = audit(item.problem, stored(item.problem, check))
        assert (found.finding, found.proved) == (Finding.CONFIRMED, item.truth)


@pytest.mark.parametrize("seed", range(6))
def test_corrupted_chains_are_not(seed):
    item = planted("weak", KINDS[seed % len(KINDS)], seed)
    check = sf.verify(item.problem, item.claim, rigorous=True)
    steps = item.chain.steps
    rng = np.random.default_rng(seed)
    k = int(rng.integers(len(steps)))
    for wrong in (
        (*steps[:k], -steps[k], *steps[k + 1 :]),
        steps[:-1],
        (*steps[: k - 1], *steps[k:]) if k else steps[1:],
        (*steps, steps[-1]),
        tuple(step[:-1] for step in steps),
    ):
        answer = stored(item.problem, check)
        answer = SavedResult(**{**answer.__dict__, "chain": sf.Chain(wrong)})
        assert audit(item.problem, answer).finding is Finding.NOT_CONFIRMED


def test_readings():
    rows = np.array([[[1.0, 0], [0, 0]], [[0, 1], [1, 0]]])
    bounds = [0.0, 1.0]
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], bounds, bounds)
    # The reading belongs to the question, never to the answer.
    for reading in ("stored", "written"):
        chain = sf.Chain(([-1, 0], [0, 1]), reading)
        answer = SavedResult("", "infeasible", "exact", None, None, chain=chain, reading=reading)
        for asked in ("stored", "written"):
            found = audit(problem, answer, asked)
            assert (found.finding is Finding.CONFIRMED) == (reading == asked)
            assert found.reading == asked
            assert ("as written" in found.reason) == ("written" in (reading, asked))
    with pytest.raises(ValueError, match="reading must be"):
        audit(problem, answer, "meant")


def test_a_forged_answer_about_other_numbers_is_not_confirmed():
    """x = 0.4 and x = 0 beside y = 1e16: nothing makes the two meet."""
    rows = [np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])]
    bounds = [0.4, 0.0, 1e16]
    problem = sf.FeasibilityProblem([sf.Free(2)], rows, bounds, bounds)
    for reading in ("stored", "written", "meant"):
        answer = SavedResult("", "feasible", "exact", (np.array([0.4, 1e16]),), None, reading=reading)
        for asked in ("stored", "written"):
            assert audit(problem, answer, asked).finding is not Finding.CONFIRMED


def test_a_chain_says_nothing_about_numbers_read_otherwise():
    """Feasible as written and not as stored: an answer that is labelled wrongly is not confirmed."""
    rows = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.5], [0.5, 0.1]], [[0.0, 0.0], [0.0, 1.0]]])
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [0.0, 0.3, 3.0], [0.0, 0.3, 3.0])
    check = sf.solve(problem, "facial", reading="written").check
    assert (check.verdict, check.reading) == ("feasible", "written")
    answer = stored(problem, check)
    assert audit(problem, answer, "written").finding is Finding.CONFIRMED
    assert audit(problem, answer).finding is Finding.NOT_CONFIRMED
    assert audit(problem, replace(answer, reading="stored")).finding is not Finding.CONFIRMED
