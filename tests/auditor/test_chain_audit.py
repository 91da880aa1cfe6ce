"""The auditor walks chains again: it confirms what is true, and nothing else."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpfeas as sf
from sdpfeas.auditor import chains
from sdpfeas.auditor.audit import Finding, audit
from sdpfeas.families.chains import PlantedChainOptions, PlantedFaces
from sdpfeas.io.results import SavedResult
from sdpfeas.numerics.written import written

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
    bounds = [1e-16, 1.0]
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], bounds, bounds)
    for reading, finding in (("meant", Finding.CONFIRMED), ("stored", Finding.NOT_CONFIRMED)):
        chain = sf.Chain(([-1, 0], [0, 1]), reading)
        answer = SavedResult("", "infeasible", "exact", None, None, chain=chain, reading=reading)
        assert audit(problem, answer).finding is finding


def test_bounds_are_moved_to_agree_and_no_further():
    rows = np.array([[[1.0, 0, 0], [0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 1, 0], [0, 0, 1]]])
    rows = np.concatenate([rows, rows[:1] + 3 * rows[1:], rows[1:] - rows[:1]])
    chain, point = sf.Chain(([-1, 0, 0, 0],), "meant"), (np.diag([0, 0.4, np.pi / 4]),)
    for off, finding in (
        (0.0, Finding.CONFIRMED),
        (1e-15, Finding.CONFIRMED),
        (1e-13, Finding.NOT_CONFIRMED),
    ):
        value = 0.4 + np.pi / 4
        bounds = [off / 2, value, 3 * value + off, value]
        problem = sf.FeasibilityProblem([sf.PSD(3)], [rows], bounds, bounds)
        answer = SavedResult("", "feasible", "rigorous", point, None, chain=chain, reading="meant")
        assert audit(problem, answer).finding is finding
        check = sf.verify(problem, sf.Claim(point=point, chain=chain), rigorous=True)
        assert (check.verdict == "feasible") == (finding is Finding.CONFIRMED)


@settings(max_examples=200)
@given(
    st.one_of(
        st.fractions(max_denominator=2000).map(float), st.floats(-1e9, 1e9), st.sampled_from([0.1, 1e-16])
    )
)
def test_numbers_are_read_as_the_library_reads_them(value):
    assert chains.read(value) == written(value)


def test_what_is_read_rounds_to_what_is_stored():
    for value in (1 / 3, 0.3, 2.0**-1060, 1e300, 123456789.123456789):
        assert float(Fraction(chains.read(value))) == value


def test_a_chain_says_nothing_about_numbers_read_otherwise():
    """Feasible as written and not as stored: an answer that is labelled wrongly is not confirmed."""
    rows = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.5], [0.5, 0.1]], [[0.0, 0.0], [0.0, 1.0]]])
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [0.0, 0.3, 3.0], [0.0, 0.3, 3.0])
    check = sf.solve(problem, "facial").check
    assert (check.verdict, check.reading) == ("feasible", "written")
    answer = stored(problem, check)
    assert audit(problem, answer).finding is Finding.CONFIRMED
    assert audit(problem, replace(answer, reading="stored")).finding is not Finding.CONFIRMED
