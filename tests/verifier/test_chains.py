"""Chains are evidence: planted ones are granted, corrupted ones refused, and none is taken on trust."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpfeas as sf
from sdpfeas.families.planted import PlantedChainOptions, PlantedFaces, PlantedProblem
from sdpfeas.problem.reductions.integer_rows import integral_rows
from sdpfeas.verifier.verifier import decide

TRUTHS = ("weak", "face", "strong")


@st.composite
def planted(draw: st.DrawFn, truths: tuple[str, ...] = TRUTHS) -> PlantedProblem:
    """A problem with a planted chain, of every kind there is."""
    length = draw(st.integers(1, 5))
    n = length + draw(st.integers(2, 5))
    side = draw(st.sampled_from(["primal", "lmi", "native"]))
    numbers = "integer" if side != "primal" else draw(st.sampled_from(["integer", "float"]))
    options = PlantedChainOptions(
        truth=draw(st.sampled_from(truths)),
        length=length,
        n=n,
        rows=length + draw(st.integers(2, 3)),
        numbers=numbers,
        disguised=draw(st.booleans()),
        side=side,
        seed=draw(st.integers(0, 2**32 - 1)),
    )
    return PlantedFaces.plant(options)


def flipped(chain: sf.Chain, k: int) -> sf.Chain:
    steps = list(chain.steps)
    steps[k] = -steps[k]
    return sf.Chain(tuple(steps), chain.reading)


@settings(max_examples=30)
@given(planted())
def test_planted_chains_are_granted(item):
    check = sf.verify(item.problem, item.claim, rigorous=True)
    assert check.verdict is item.truth
    assert check.chain is item.chain
    assert sf.verify(item.problem, check, rigorous=True).verdict is item.truth
    assert decide(item.problem, item.claim, rigorous=True).verdict is item.truth


@given(planted(("weak", "strong")), st.data())
def test_corrupted_chains_are_refused(item, data):
    k = data.draw(st.integers(0, len(item.chain) - 1))
    how = data.draw(st.sampled_from(["flip", "drop the end", "nothing", "too long", "another problem"]))
    problem, steps = item.problem, list(item.chain.steps)
    if how == "flip":
        chain = flipped(item.chain, k)
    elif how == "drop the end":
        chain = sf.Chain(tuple(steps[:-1]))
    elif how == "nothing":
        steps.insert(k, 0 * steps[k])
        chain = sf.Chain(tuple(steps))
    elif how == "too long":
        chain = sf.Chain((*steps, steps[-1]))
    else:
        # The bound that makes the contradiction, or the constant, is another.
        chain = item.chain
        bounds = np.array(problem.lower)
        bounds[steps[-1][: problem.m] != 0] = 0.0
        lmis = [sf.LMI(lmi.set, 0.0 * lmi.constant, lmi.coefficients) for lmi in problem.lmis]
        problem = sf.FeasibilityProblem(problem.sets, problem.rows, bounds, bounds, lmis=lmis)
    assert sf.verify(problem, sf.Claim(chain=chain), rigorous=True).verdict is sf.Verdict.UNDECIDED


@settings(max_examples=20)
@given(planted(("weak",)), st.data())
def test_every_step_of_a_weak_chain_is_needed(item, data):
    k = data.draw(st.integers(0, len(item.chain) - 2))
    steps = item.chain.steps
    for chain in (sf.Chain(steps[:k] + steps[k + 1 :]), sf.Chain(steps[::-1])):
        assert sf.verify(item.problem, sf.Claim(chain=chain)).verdict is sf.Verdict.UNDECIDED


@settings(max_examples=25)
@given(planted(("face",)), st.data())
def test_no_chain_makes_a_feasible_problem_infeasible(item, data):
    m = item.problem.multiplier_count
    numbers = st.sampled_from([-2, -1, 0, 0, 0, 1, Fraction(1, 3)])
    extra = data.draw(st.lists(st.lists(numbers, min_size=m, max_size=m), max_size=3))
    place = data.draw(st.integers(0, len(item.chain)))
    steps = (*item.chain.steps[:place], *(np.array(v, dtype=object) for v in extra))
    for reading in ("stored", "written"):
        claim = sf.Claim(chain=sf.Chain(steps, reading), point=item.point)
        assert sf.verify(item.problem, claim, reading=reading).verdict is not sf.Verdict.INFEASIBLE


def pinned(bound: float, rows: np.ndarray | None = None) -> sf.FeasibilityProblem:
    """X[0, 0] is zero, and 2 X[0, 1] is ``bound``."""
    if rows is None:
        rows = np.array([[[1, 0], [0, 0]], [[0, 1], [1, 0]]], dtype=float)
    return sf.FeasibilityProblem([sf.PSD(2)], [rows], [0, bound], [0, bound])


def test_the_smallest_weak_problem():
    check = sf.verify(pinned(1.0), sf.Claim(chain=sf.Chain(([-1, 0], [0, 1]))), rigorous=True)
    assert (check.verdict, check.proof) == (sf.Verdict.INFEASIBLE, sf.Proof.EXACT)
    assert sf.verify(pinned(1.0), sf.Claim(chain=sf.Chain(([0, 1],)))).verdict is sf.Verdict.UNDECIDED
    point = (np.diag([0.0, 1.0]),)
    found = sf.verify(pinned(0.0), sf.Claim(chain=sf.Chain(([-1, 0],)), point=point), rigorous=True)
    assert found.verdict is sf.Verdict.FEASIBLE


def test_readings():
    # A third, and a sum of tenths that misses its value by a rounding.
    rows = np.array([[[1, 1 / 3], [1 / 3, 1 / 9]], [[0, 0], [0, 1]]])
    chain = ([-1, 0], [0, 1])
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [0, 0.3], [0, 0.3])
    point = (np.array([[1 / 30, -0.1], [-0.1, 0.3]]),)
    for reading, verdict in (("stored", "undecided"), ("written", "feasible")):
        claim = sf.Claim(chain=sf.Chain(chain[:1], reading), point=point)
        check = sf.verify(problem, claim, rigorous=True, reading=reading)
        assert (check.verdict, check.reading) == (verdict, reading)
        assert reading == "stored" or reading in check.reason
    # A chain of another reading than the one asked for proves nothing.
    assert (
        sf.verify(problem, sf.Claim(chain=sf.Chain(chain[:1], "written"), point=point), rigorous=True).verdict
        == "undecided"
    )
    bounds = [1e-16, 1.0]
    off = sf.FeasibilityProblem([sf.PSD(2)], pinned(1.0).rows, bounds, bounds)
    for reading in ("stored", "written"):
        claim = sf.Claim(chain=sf.Chain(chain, reading))
        assert sf.verify(off, claim, reading=reading).verdict == "undecided"


def test_numbers_that_were_rounded_may_use_zeros_only():
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    turned = np.array([q @ a @ q.T for a in pinned(1.0).rows[0].array])
    turned = (turned + turned.transpose(0, 2, 1)) / 2
    chain = sf.Chain(([-1, 0], [0, 1]))
    assert sf.verify(pinned(1.0, turned), sf.Claim(chain=chain)).verdict is sf.Verdict.UNDECIDED
    # Entries that cancel by chance.
    rows = np.array([[[0.1 + 1e-17, 0.3], [0.3, 0]], [[0, -0.3], [-0.3, 0]], [[0, np.pi], [np.pi, 0]]])
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [0, 0, 1], [0, 0, 1])
    check = sf.verify(problem, sf.Claim(chain=sf.Chain(([-1, -1, 0], [0, 0, 1]))))
    assert "artefact of rounding" in check.reason


def test_signs_bounds_and_other_sets():
    rows = [np.array([[1.0, 0.0], [1.0, -1.0]]), np.array([[0.0], [1.0]])]
    problem = sf.FeasibilityProblem([sf.Nonneg(2), sf.Free(1)], rows, [-np.inf, 1], [0, np.inf])
    ask = lambda *steps: sf.verify(problem, sf.Claim(chain=sf.Chain(steps)))  # noqa: E731
    assert "forbidden sign" in ask([1, 0]).reason
    assert "does not vanish" in ask([-1, 0], [0, 1]).reason
    # The first row says x0 <= 0; then it is an equality, and both signs will do.
    assert "it ends at a face, and the claim holds no point on it" in ask([-1, 0]).reason
    box = sf.FeasibilityProblem([sf.SpectralBox(2)], [np.eye(2)[None]], [0], [0])
    assert "does not vanish" in sf.verify(box, sf.Claim(chain=sf.Chain(([-1],)))).reason


@pytest.mark.parametrize("steps", ["no", 3, [[np.nan, 1]], [[np.inf, 1]], [["x", 1]], [3], [np.ones((1, 2))]])
def test_malformed_chains_raise(steps):
    with pytest.raises(sf.ClaimError):
        sf.Chain(steps)


def test_chains_of_the_wrong_shape_or_reading():
    problem = pinned(1.0)
    with pytest.raises(sf.ClaimError, match="3 multipliers for 2 rows"):
        sf.verify(problem, sf.Claim(chain=sf.Chain(([1, 2, 3],))))
    assert "malformed" in decide(problem, sf.Claim(chain=sf.Chain(([1, 2, 3],)))).reason
    with pytest.raises(sf.ClaimError, match="stored, written"):
        sf.Chain((), "guessed")
    with pytest.raises(sf.ClaimError, match="must be a Chain"):
        sf.verify(problem, sf.Claim(chain=[[1, 0]]))


def test_hostile_numbers_prove_nothing():
    huge = [Fraction(10) ** 400_000, 0]
    assert "too long" in sf.verify(pinned(1.0), sf.Claim(chain=sf.Chain((huge,)))).reason
    tiny = pinned(5e-324)
    assert sf.verify(tiny, sf.Claim(chain=sf.Chain(([-1, 0], [0, 1])))).verdict is sf.Verdict.INFEASIBLE


def test_disguised_chains_are_replayed():
    for seed in range(4):
        for truth in TRUTHS:
            options = PlantedChainOptions(truth=truth, length=2, n=5, rows=5, disguised=True, seed=seed)
            item = PlantedFaces.plant(options)
            assert sf.verify(item.problem, item.claim, rigorous=True).verdict is item.truth


@pytest.mark.slow
@settings(max_examples=10_000)
@given(planted())
def test_ten_thousand_planted_chains(item):
    check = sf.verify(item.problem, item.claim, rigorous=True)
    if check.verdict is sf.Verdict.UNDECIDED:
        # On a small face rows of floats may be dependent but for rounding; nothing else is left open.
        assert item.truth is sf.Verdict.FEASIBLE
        assert not item.problem.lmis
        assert not integral_rows(item.problem, "stored").simple
    else:
        assert check.verdict is item.truth


@pytest.mark.slow
@settings(max_examples=5_000)
@given(planted(("weak", "strong")), st.data())
def test_five_thousand_corrupted_chains(item, data):
    test_corrupted_chains_are_refused.hypothesis.inner_test(item, data)


@pytest.mark.parametrize(
    ("lower", "upper", "met"),
    [
        (-np.inf, 1.0, True),
        (-1.0, np.inf, True),
        (0.0, 0.0, True),
        (-np.inf, -1.0, False),
        (1.0, np.inf, False),
    ],
)
def test_where_nothing_but_zero_is_left_it_has_to_meet_every_row(
    lower: float, upper: float, met: bool
) -> None:
    """A trace of at most zero leaves one matrix."""
    rows = np.stack([np.eye(2), np.diag([1.0, 0.0])])
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [-np.inf, lower], [0.0, upper])
    check = sf.verify(problem, sf.Claim(chain=sf.Chain(([-1, 0],)), point=(np.eye(2),)), rigorous=True)
    assert check.verdict == ("feasible" if met else "undecided")
    if met:
        assert check.proof == "exact"
        assert not np.any(check.point[0])


def test_a_step_of_measured_numbers_proves_nothing_whatever_the_other_rows_are_made_of() -> None:
    """That four measured numbers agree to the last digit is chance, also beside a row of integers."""
    rows = np.stack([np.full((2, 2), 0.12345678912345678), np.eye(2)])
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [0.0, 1.0], [0.0, 1.0])
    point = (np.array([[0.5, -0.5], [-0.5, 0.5]]),)
    for reading in ("stored", "written"):
        claim = sf.Claim(chain=sf.Chain(([-1, 0],), reading), point=point)
        check = sf.verify(problem, claim, rigorous=True, reading=reading)
        assert check.verdict == "undecided"
        assert "depends on the last digits" in check.reason


def test_sides_of_measured_bounds_that_differ_by_their_last_digit_prove_nothing() -> None:
    """The first row alone has no point; next to the second one its bound counts for its last digit only."""
    first = 0.12345678912345678
    second = float(np.nextafter(first, 1.0))
    for sets, rows in (
        (sf.Nonneg(2), np.diag([-1.0, 1.0])),
        (sf.PSD(2), np.stack([np.diag([-1.0, 0.0]), np.diag([0.0, 1.0])])),
    ):
        problem = sf.FeasibilityProblem([sets], [rows], [second, -np.inf], [np.inf, first])
        for weights, verdict in (([1, -1], "undecided"), ([1, 0], "infeasible")):
            claim = sf.Claim(chain=sf.Chain((weights,), "stored"))
            assert sf.verify(problem, claim, rigorous=True, exact=False).verdict == verdict
