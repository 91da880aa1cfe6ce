"""Hostile claims: of the right shape they are judged, of the wrong shape refused. Nothing else happens."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import known_answers
import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.verifier.repair import repaired_points

MIXES = planted.set_mixes()

NUMBERS = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-310, 2.3e-308, 1e-200, 1e-160, 1e-20,
    1.0, -1.0, 1e20, 1e154, 1e160, 1e200, 1e300, 1.7e308, -1.7e308,
)  # fmt: skip

MODES: tuple[dict[str, Any], ...] = (
    {},
    {"repair": False},
    {"rigorous": True},
    {"rigorous": True, "repair": False},
    {"exact": True},
    {"exact": True, "repair": False},
)


#: The fast suite asks every hostile claim in half of the ways, in other ways on the next problem.
HALVES = pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])

SIZES = (1e-300, 1e-200, 1e-150, 1e150, 1e200, 1e300)


def hostile_points(rng: np.random.Generator, problem: sf.FeasibilityProblem) -> Iterator[sf.Claim]:
    for number in NUMBERS:
        yield sf.Claim(point=tuple(np.full(s.shape, number) for s in problem.sets))
        eyes = tuple(
            np.diag(np.full(s.n, number)) if s.matrix else np.full(s.n, number) for s in problem.sets
        )
        yield sf.Claim(point=eyes)
    for _ in range(6):
        point = []
        for s in problem.sets:
            x = rng.choice(NUMBERS, size=s.shape)
            point.append(x if rng.random() < 0.5 or not s.matrix else np.triu(x) + np.triu(x, 1).T)
        yield sf.Claim(point=tuple(point))


def hostile_certificates(rng: np.random.Generator, problem: sf.FeasibilityProblem) -> Iterator[sf.Claim]:
    for number in NUMBERS:
        yield sf.Claim(certificate=np.full(problem.m, number))
    for _ in range(6):
        yield sf.Claim(certificate=rng.choice(NUMBERS, size=problem.m))


@HALVES
@pytest.mark.parametrize("mix", MIXES)
def test_nothing_is_raised_and_no_warning_escapes(mix: str, half: int) -> None:
    rng = np.random.default_rng([41, list(MIXES).index(mix)])
    cases = [
        known_answers.integer_problem(rng, MIXES[mix], truth=True),
        known_answers.integer_problem(rng, MIXES[mix], truth=False),
        planted.feasible(rng, MIXES[mix], storage=str(rng.choice(planted.MATRIX_STORAGE))),
        planted.infeasible(rng, MIXES[mix], storage=str(rng.choice(planted.MATRIX_STORAGE))),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, case in enumerate(cases):
            claims = (*hostile_points(rng, case.problem), *hostile_certificates(rng, case.problem))
            for k, claim in enumerate(claims, start=number):
                mode = MODES[(k + 3 * half) % 6]
                check = sf.verify(case.problem, claim, **mode)
                assert check.verdict is not case.wrong_verdict, (mode, check.explain())
                assert check.reason
                assert check.explain()


@HALVES
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mix", ["psd", "box", "box trace", "psd free", "box nonneg", "nonneg"])
def test_problems_of_wild_scale(mix: str, size: float, half: int) -> None:
    """Rows and bounds near the ends of floating point: nothing is raised, and nothing false is said."""
    rng = np.random.default_rng([42, list(MIXES).index(mix)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in (planted.feasible, planted.infeasible):
            case = make(rng, MIXES[mix])
            other = known_answers.rescaled_rows(case.problem, np.full(case.problem.m, size))
            claims = [case.claim, *hostile_points(rng, other), *hostile_certificates(rng, other)]
            for k, claim in enumerate(claims, start=SIZES.index(size)):
                mode = MODES[(k + 2 * half) % 4]
                check = sf.verify(other, claim, **mode)
                assert check.verdict is not case.wrong_verdict, (mode, check.explain())


def test_the_claim_and_the_problem_are_left_alone() -> None:
    rng = np.random.default_rng(43)
    case = planted.feasible(rng, MIXES["all"])
    assert case.point is not None
    point = tuple(x + 1e-6 for x in case.point)
    copies = tuple(np.array(x) for x in point)
    y = rng.normal(size=case.problem.m)
    kept, before = np.array(y), case.problem.content_hash
    for mode in MODES:
        sf.verify(case.problem, sf.Claim(point=point, certificate=y), **mode)
    for x, copy in zip(point, copies, strict=True):
        np.testing.assert_array_equal(x, copy)
    np.testing.assert_array_equal(y, kept)
    fresh = sf.FeasibilityProblem(
        case.problem.sets, case.problem.rows, case.problem.lower, case.problem.upper
    )
    assert fresh.content_hash == before


def test_the_same_claim_gets_the_same_answer() -> None:
    rng = np.random.default_rng(44)
    for make in (planted.feasible, planted.infeasible):
        case = make(rng, MIXES["all"])
        for mode in MODES[:4]:
            first = sf.verify(case.problem, case.claim, **mode)
            again = sf.verify(case.problem, case.claim, **mode)
            assert (first.verdict, first.proof, first.margin) == (again.verdict, again.proof, again.margin)


def test_reading_a_claim_does_not_need_arrays() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2), sf.Nonneg(1)], [np.eye(2)[None], [[1.0]]], [1.0], [9.0])
    claim = sf.Claim(point=[[[1, 0], [0, 1]], [1]])  # type: ignore[arg-type]
    assert sf.verify(problem, claim, rigorous=True).verdict is sf.Verdict.FEASIBLE
    half = sf.Claim(point=(np.eye(2, dtype=np.float32), np.ones(1, dtype=np.int8)))
    assert sf.verify(problem, half, rigorous=True).verdict is sf.Verdict.FEASIBLE


PROBLEM = sf.FeasibilityProblem(
    [sf.PSD(2), sf.Nonneg(1)], [np.eye(2)[None], [[1.0]]], [1.0], [9.0], block_names=["X", "t"]
)

MALFORMED: dict[str, sf.Claim] = {
    "too few blocks": sf.Claim(point=(np.eye(2),)),
    "too many blocks": sf.Claim(point=(np.eye(2), np.ones(1), np.ones(1))),
    "wrong side": sf.Claim(point=(np.eye(3), np.ones(1))),
    "vector for a matrix": sf.Claim(point=(np.ones(4), np.ones(1))),
    "matrix for a vector": sf.Claim(point=(np.eye(2), np.eye(1))),
    "a bare matrix": sf.Claim(point=np.eye(2)),  # type: ignore[arg-type]
    "a number": sf.Claim(point=3.0),  # type: ignore[arg-type]
    "text": sf.Claim(point="feasible"),  # type: ignore[arg-type]
    "text in a block": sf.Claim(point=("X", np.ones(1))),  # type: ignore[arg-type]
    "none in a block": sf.Claim(point=(None, np.ones(1))),  # type: ignore[arg-type]
    "complex": sf.Claim(point=(np.eye(2) * 1j, np.ones(1))),
    "objects": sf.Claim(point=(np.array([[1, 0], [0, None]], dtype=object), np.ones(1))),
    "ragged": sf.Claim(point=([[1.0], [1.0, 2.0]], np.ones(1))),  # type: ignore[arg-type]
    "short certificate": sf.Claim(certificate=np.zeros(0)),
    "long certificate": sf.Claim(certificate=np.ones(2)),
    "matrix certificate": sf.Claim(certificate=np.ones((1, 1))),
    "text certificate": sf.Claim(certificate="y"),  # type: ignore[arg-type]
    "complex certificate": sf.Claim(certificate=np.ones(1) * 1j),
    "good point, bad certificate": sf.Claim(point=(np.eye(2), np.ones(1)), certificate=np.ones(3)),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("mode", MODES)
def test_wrong_shapes_are_refused(name: str, mode: dict[str, Any]) -> None:
    with pytest.raises(sf.ClaimError) as caught:
        sf.verify(PROBLEM, MALFORMED[name], **mode)
    assert str(caught.value)


def test_the_place_is_named() -> None:
    with pytest.raises(sf.ClaimError, match="block X"):
        sf.verify(PROBLEM, MALFORMED["wrong side"])
    with pytest.raises(sf.ClaimError, match="block t"):
        sf.verify(PROBLEM, MALFORMED["matrix for a vector"])
    with pytest.raises(sf.ClaimError, match="certificate"):
        sf.verify(PROBLEM, MALFORMED["long certificate"])


@pytest.mark.parametrize("wrong", [None, "claim", (np.eye(2),), {"point": 1}])
def test_only_claims_are_verified(wrong: Any) -> None:
    with pytest.raises(sf.ClaimError):
        sf.verify(PROBLEM, wrong)


def test_only_problems_are_verified_against() -> None:
    with pytest.raises(sf.ClaimError):
        sf.verify("problem", sf.Claim())  # type: ignore[arg-type]
    with pytest.raises(sf.ClaimError):
        sf.verify(PROBLEM, sf.Claim(), tolerances=1e-6)  # type: ignore[arg-type]


def test_an_empty_claim_is_undecided() -> None:
    check = sf.verify(PROBLEM, sf.Claim())
    assert check.verdict is sf.Verdict.UNDECIDED
    assert "neither" in check.reason


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "1", None])
def test_tolerances_are_checked(value: Any) -> None:
    with pytest.raises(sf.ClaimError):
        sf.Tolerances(residual=value)


def test_tolerances_of_zero_are_allowed() -> None:
    zero = sf.Tolerances(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    rng = np.random.default_rng(45)
    for mix in MIXES:
        for make in (planted.feasible, planted.infeasible):
            case = make(rng, MIXES[mix], bounds="inequality")
            for mode in MODES[:4]:
                assert (
                    sf.verify(case.problem, case.claim, tolerances=zero, **mode).verdict
                    is not case.wrong_verdict
                )


def test_no_rows_at_all() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [None], [], [])
    assert sf.verify(problem, sf.Claim(point=(np.eye(2),)), rigorous=True).verdict is sf.Verdict.FEASIBLE
    for mode in MODES:
        check = sf.verify(problem, sf.Claim(certificate=np.zeros(0)), **mode)
        assert check.verdict is sf.Verdict.UNDECIDED


def test_repairs_of_points_beyond_their_reach_leave_no_warning() -> None:
    """The square of what a block may move by overflows; nothing that is not finite is offered."""
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        offered = list(repaired_points(problem, (np.array([[4e299, 1.0], [1.0, 4e299]]),)))
    assert all(np.isfinite(x).all() for point, _ in offered for x in point)
