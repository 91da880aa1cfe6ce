"""Evidence with a number, a step, a label or an order changed: nothing wrong is confirmed."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from auditing import saved
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, examples
from tiny import tiny

import sdpfeas as sf
from sdpfeas.certifier.audit import audit
from sdpfeas.io.result_files import SavedResult

READINGS = ("stored", "written", "other")


def damaged(rng: np.random.Generator, values: Any) -> np.ndarray:
    """One number changed: its sign, a bit, its size, to what is none; or an array of another shape."""
    array = np.array(values)
    if not array.size:
        return array
    flat, k = array.reshape(-1), int(rng.integers(array.size))
    if array.dtype == object:
        flat[k] = flat[k] + Fraction(int(rng.integers(-3, 4)), int(rng.integers(1, 4)))
        return array
    way = rng.integers(5)
    if way == 0:
        return array[:-1] if array.ndim == 1 else array[:-1, :-1]
    if way == 1:
        flat.view(np.uint64)[k] ^= np.uint64(1) << np.uint64(rng.integers(64))
    else:
        flat[k] = (-flat[k], 1e300 * flat[k], math.nan)[way - 2]
    return array


def corrupted(rng: np.random.Generator, answer: SavedResult) -> SavedResult:
    """An answer with something wrong about it, or by chance still right."""
    way = rng.integers(7)
    opposite = "infeasible" if answer.verdict == "feasible" else "feasible"
    if way == 0:
        return replace(answer, verdict=opposite)
    if way == 1:
        return replace(answer, reading=str(rng.choice(READINGS)))
    if answer.chain is not None and way < 5:
        steps = [np.array(step) for step in answer.chain.steps]
        reading = str(rng.choice(READINGS[:2])) if way == 2 else answer.chain.reading
        if way == 3 and steps:
            steps[rng.integers(len(steps))] = damaged(rng, steps[rng.integers(len(steps))])
        elif way == 4:
            steps = [steps[k] for k in rng.permutation(len(steps))][: max(len(steps) - 1, 1)]
        return replace(answer, chain=sf.Chain(steps, reading))  # type: ignore[arg-type]
    if answer.point is not None:
        point = list(answer.point)
        b = int(rng.integers(len(point)))
        point[b] = damaged(rng, point[b])
        return replace(answer, point=tuple(point[::-1] if way == 6 else point), rational=None)
    if answer.certificate is None:  # a chain is all there is
        return replace(answer, verdict=opposite)
    return replace(answer, certificate=damaged(rng, answer.certificate), rational=None)


def nothing_wrong(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = tiny(rng).build()
    found = sf.solve(problem, str(rng.choice(["facial", "clarabel"])), time_limit=1.0)
    if found.verdict == "undecided" or found.proof == "numeric" or found.reading != "stored":
        return
    answer = saved(found.check)
    for _ in range(4):
        wrong = corrupted(rng, answer)
        if wrong.reading == "stored":
            assert audit(problem, wrong).proved in (None, found.verdict)
        claim = sf.Claim(wrong.point, wrong.certificate, chain=wrong.chain)
        try:
            check = sf.verify(problem, claim, rigorous=True)
        except sf.ClaimError:
            continue
        assert check.verdict in ("undecided", found.verdict) or check.reading != "stored"


@examples(0.2)
@given(SEEDS)
def test_nothing_wrong_is_confirmed(seed: int) -> None:
    nothing_wrong(seed)


@pytest.mark.slow
@examples(4.0)
@given(st.integers(2**32, 2**33))
def test_nothing_wrong_is_confirmed_often(seed: int) -> None:
    nothing_wrong(seed)


@pytest.mark.parametrize("value", [Fraction(10**400), Fraction(-(10**400)), Fraction(1, 10**400)], ids="+-0")
@pytest.mark.parametrize(
    "sets",
    [[sf.PSD(2)], [sf.Nonneg(2)], [sf.Free(2)], [sf.SpectralBox(2)], [sf.Nonneg(1), sf.Free(1)]],
    ids=str,
)
def test_evidence_outside_the_range_of_doubles_is_no_error(sets: list[Any], value: Fraction) -> None:
    rows = [np.eye(2)[None] if block.matrix else np.ones((1, block.n)) for block in sets]
    problem = sf.FeasibilityProblem(sets, rows, [1.0], [1.0])
    point = tuple(np.full(block.shape, value, dtype=object) for block in sets)
    for verdict, rational in (("feasible", point), ("infeasible", np.array([value], dtype=object))):
        answer = SavedResult(problem.content_hash, verdict, "exact", None, None, rational=rational)
        assert audit(problem, answer).proved in (None, "feasible")


def test_a_point_outside_the_range_of_doubles_is_not_confirmed() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    point = (np.array([[Fraction(10**400), Fraction(0)], [Fraction(0), Fraction(1)]]),)
    answer = SavedResult(problem.content_hash, "feasible", "exact", None, None, rational=point)
    assert audit(problem, answer).proved is None
