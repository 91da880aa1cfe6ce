"""Exact mode: proofs in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import known_answers
import numpy as np
import pytest
from auditing import audited

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.numerics.exact_arithmetic import number, semidefinite_exact, to_fractions, to_rationals
from sdpfeas.problem.exact_rows import ExactRows
from sdpfeas.verifier.exact import _box_support, certificate_holds, is_round

MIXES = planted.set_mixes()


def accepted(problem: sf.FeasibilityProblem, claim: sf.Claim, **options: bool) -> sf.Check:
    check = sf.verify(problem, claim, exact=True, **options)
    assert check.proof is sf.Proof.EXACT, check.explain()
    assert "exact proof" in check.explain()
    if check.verdict is sf.Verdict.FEASIBLE:
        assert known_answers.exactly_feasible(problem, check.rational)
        assert check.point is not None
        for x, r in zip(check.point, check.rational, strict=True):
            np.testing.assert_array_equal(x, r.astype(float))
    else:
        assert known_answers.exactly_certified(problem, check.rational) is not False
        np.testing.assert_array_equal(check.certificate, check.rational.astype(float))
    return check


def refused(problem: sf.FeasibilityProblem, claim: sf.Claim, **options: bool) -> None:
    assert sf.verify(problem, claim, exact=True, **options).verdict is sf.Verdict.UNDECIDED


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("truth", [True, False])
def test_integer_problems(mix: str, truth: bool) -> None:
    rng = np.random.default_rng([21, list(MIXES).index(mix), truth])
    for degenerate in (False, True) * 4:
        case = known_answers.integer_problem(rng, MIXES[mix], truth=truth, degenerate=degenerate)
        check = accepted(case.problem, case.claim, repair=False)
        assert check.verdict is case.truth
        assert check.repairs == ()
        # A little noise is rounded away, and that is said.
        if truth:
            assert case.point is not None
            noisy = sf.Claim(point=tuple(x + 1e-7 * np.ones(x.shape) for x in case.point))
        else:
            assert case.certificate is not None
            noisy = sf.Claim(
                certificate=np.pi * case.certificate * (1.0 + 1e-9 * rng.normal(size=case.problem.m))
            )
        check = sf.verify(case.problem, noisy, exact=True)
        assert check.verdict is case.truth, check.explain()


def test_a_point_on_the_boundary() -> None:
    """X = diag(0, 1) is all there is: X11 = 0 and X22 = 1 leave no interior."""
    rows = np.zeros((2, 2, 2))
    rows[0, 0, 0] = rows[1, 1, 1] = 1.0
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [0.0, 1.0], [0.0, 1.0])
    point = sf.Claim(point=(np.diag([0.0, 1.0]),))
    assert accepted(problem, point, repair=False).verdict is sf.Verdict.FEASIBLE
    assert sf.verify(problem, point, rigorous=True, repair=False).proof in (sf.Proof.EXACT, sf.Proof.RIGOROUS)
    for nearly in (np.array([[1e-9, 1e-8], [1e-8, 1.0]]), np.array([[-1e-9, 0.0], [0.0, 1.0 + 1e-9]])):
        refused(problem, sf.Claim(point=(nearly,)), repair=False)
        check = accepted(problem, sf.Claim(point=(nearly,)))
        np.testing.assert_array_equal(check.point[0], np.diag([0.0, 1.0]))
        assert any("rounded" in repair for repair in check.repairs)


def test_thirds_are_exact_in_rational_arithmetic() -> None:
    problem = sf.FeasibilityProblem(
        [sf.Nonneg(3)], [np.array([[1.0, 1.0, 1.0], [3.0, 0.0, 0.0]])], [1.0, 1.0], [1.0, 1.0]
    )
    claim = sf.Claim(point=(np.full(3, 1.0 / 3.0),))
    refused(problem, claim, repair=False)
    check = accepted(problem, claim)
    assert check.rational[0][0] == Fraction(1, 3)


def test_redundant_equality_rows() -> None:
    rng = np.random.default_rng(22)
    row = planted.symmetric(rng, 3).round(1)
    rows = np.array([row, 2.0 * row, row, np.eye(3)])
    x = np.diag([0.5, 0.25, 0.25])
    right = np.array([np.sum(r * x) for r in rows])
    right[1], right[2] = 2.0 * right[0], right[0]
    problem = sf.FeasibilityProblem([sf.PSD(3)], [rows], right, right)
    check = accepted(problem, sf.Claim(point=(x + 1e-8 * np.eye(3),)))
    assert check.verdict is sf.Verdict.FEASIBLE
    # The same rows with another right-hand side contradict each other, and that is a certificate.
    right[2] += 1.0
    problem = sf.FeasibilityProblem([sf.PSD(3)], [rows], right, right)
    refused(problem, sf.Claim(point=(x,)))
    y = np.array([-1.0, 0.0, 1.0, 0.0])
    assert accepted(problem, sf.Claim(certificate=y), repair=False).verdict is sf.Verdict.INFEASIBLE


def test_free_blocks_must_vanish_exactly() -> None:
    # With s = x1 + x2: 3 s + X11 = 7 and s = 2 give X11 = 1, so no multipliers may pass.
    columns = np.array([[3.0, 3.0], [1.0, 1.0]])
    rows = np.zeros((2, 2, 2))
    rows[0, 0, 0] = 1.0
    problem = sf.FeasibilityProblem([sf.Free(2), sf.PSD(2)], [columns, rows], [7.0, 2.0], [7.0, 2.0])
    for y in ([-1.0, 3.0], [1.0, -3.0], [-1.0, 3.0 + 1e-12]):
        refused(problem, sf.Claim(certificate=np.array(y)))
    accepted(problem, sf.Claim(point=(np.array([1.0, 1.0]), np.diag([1.0, 0.0]))), repair=False)
    # With 5 on the right X11 would be -1.
    problem = sf.FeasibilityProblem([sf.Free(2), sf.PSD(2)], [columns, rows], [5.0, 2.0], [5.0, 2.0])
    accepted(problem, sf.Claim(certificate=np.array([-1.0, 3.0])), repair=False)
    refused(problem, sf.Claim(certificate=np.array([-1.0, 3.0 + 1e-9])), repair=False)
    check = accepted(problem, sf.Claim(certificate=np.array([-1.0, 3.0 + 1e-9])))
    assert check.repairs


@pytest.mark.parametrize(
    "box",
    [
        sf.SpectralBox(3),
        sf.SpectralBox(3, trace=1.0),
        sf.SpectralBox(3, trace=1.5),
        sf.SpectralBox(3, lower=-1.0, upper=2.0),
        sf.SpectralBox(3, lower=-0.5, upper=1.25, trace=0.25),
    ],
)
def test_box_certificates(box: sf.SpectralBox) -> None:
    rng = np.random.default_rng(23)
    for diagonal in (True, False):
        row = np.diag([2.0, -1.0, 1.0]) if diagonal else planted.symmetric(rng, 3).round(2)
        top = box.support(row)
        for slack, truth in ((1e-6, False), (-1e-6, True)):
            problem = sf.FeasibilityProblem([box], [row[None]], [top + slack], [np.inf])
            claim = sf.Claim(certificate=np.ones(1))
            if truth:
                refused(problem, claim)
            else:
                assert accepted(problem, claim, repair=False).verdict is sf.Verdict.INFEASIBLE
    # Touching is not ruling out: the support itself can be met.
    problem = sf.FeasibilityProblem(
        [box], [np.diag([2.0, -1.0, 1.0])[None]], [box.support(np.diag([2.0, -1.0, 1.0]))], [np.inf]
    )
    refused(problem, sf.Claim(certificate=np.ones(1)))


def test_box_points_on_the_boundary() -> None:
    box = sf.SpectralBox(3, trace=2.0)
    row = np.diag([1.0, 1.0, 0.0])
    problem = sf.FeasibilityProblem([box], [row[None]], [2.0], [np.inf])
    check = accepted(problem, sf.Claim(point=(np.diag([1.0, 1.0, 0.0]),)), repair=False)
    assert check.verdict is sf.Verdict.FEASIBLE
    refused(problem, sf.Claim(point=(np.diag([1.0, 1.0 + 1e-12, 0.0]),)), repair=False)
    accepted(problem, sf.Claim(point=(np.diag([1.0, 1.0 + 1e-12, 0.0]),)))


@pytest.mark.parametrize("edge", ["lower", "upper"])
def test_both_bounds_of_a_box_count(edge: str) -> None:
    box = sf.SpectralBox(2, lower=-0.5, upper=1.5)
    problem = sf.FeasibilityProblem([box], [np.eye(2)[None]], [-9.0], [9.0])
    bound, outward = (-0.5, -1.0) if edge == "lower" else (1.5, 1.0)
    accepted(problem, sf.Claim(point=(np.diag([bound, 0.0]),)), repair=False)
    refused(problem, sf.Claim(point=(np.diag([bound + outward * 2.0**-40, 0.0]),)), repair=False)


def test_semidefinite_as_elimination_says() -> None:
    rng = np.random.default_rng(24)
    for n in range(1, 6):
        for _ in range(40):
            f = rng.integers(-2, 3, size=(n, int(rng.integers(1, n + 1)))).astype(float)
            a = f @ f.T
            shift = float(rng.integers(-1, 2)) * 2.0 ** -float(rng.integers(0, 60))
            a[0, 0] += shift
            matrix = known_answers.rationals(a)
            truth = known_answers.exactly_psd(matrix)
            assert semidefinite_exact(np.vectorize(number, otypes=[object])(matrix)) == truth


def test_too_large_is_said() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(80)], [np.eye(80)[None]], [1.0], [2.0])
    check = sf.verify(problem, sf.Claim(point=(np.eye(80) / 60.0,)), exact=True)
    assert check.verdict is sf.Verdict.UNDECIDED
    assert "too large" in check.reason


def test_rigorous_mode_goes_exact_only_for_round_numbers() -> None:
    """Rational arithmetic about rounded numbers proves what the next bit would disprove."""
    rows = np.zeros((3, 2, 2))
    rows[0, 0, 0] = rows[1, 1, 1] = 1.0
    rows[2, 0, 1] = rows[2, 1, 0] = 0.5
    exact = sf.Proof.EXACT
    for value, proof in ((0.1, exact), (12345.678, exact), (1.0 / 3.0, exact), (np.pi, None)):
        right = np.full(3, value)
        problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], right, right)
        claim = sf.Claim(point=(np.full((2, 2), value),))
        assert sf.verify(problem, claim, exact=True, repair=False).proof is sf.Proof.EXACT
        assert sf.verify(problem, claim, rigorous=True, repair=False).proof is proof


def transport(room: float) -> sf.FeasibilityProblem:
    """A weighted sum of sorted numbers, at most ``room`` less than it is: integer rows, computed bounds."""
    weights, point = np.array([0.0, 1.0, 3.0]), np.array([0.00123015335748257, 0.2987455375084699, -0.27413])
    count, plan = np.ones((3, 1)), np.eye(3)
    nonneg = np.vstack([np.zeros((3, 3)), *[-plan] * 3, np.ones((1, 3))])
    x = np.vstack([plan, *(w * plan for w in weights), np.zeros((1, 3))])
    u = np.vstack([np.zeros((3, 3)), -np.kron(plan, count), np.ones((1, 3))])
    upper = np.concatenate([point, np.zeros(9), [weights @ np.sort(point) - room]])
    lower = np.concatenate([point, np.full(10, -np.inf)])
    return sf.FeasibilityProblem([sf.Nonneg(3), sf.Free(6)], [nonneg, np.hstack([x, u])], lower, upper)


def test_multipliers_that_must_vanish_on_nonneg_blocks_are_proved_where_rows_are_round() -> None:
    # The entries of A*y on the Nonneg block add up to what vanishes on the Free one: all have to be zero, and
    # multipliers of a plan that moves nothing are only near that.
    rng = np.random.default_rng(6)
    plan = 0.997 * np.eye(3)[[2, 0, 1]] + 0.001
    noise = 1e-12 * rng.normal(size=(3, 3))
    y = np.concatenate([[0.0, 1.0, 3.0] @ (plan + noise), -(plan + noise).reshape(-1), [-1.0]])
    check = sf.verify(transport(room=1e-2), sf.Claim(certificate=y), rigorous=True)
    assert (check.verdict, check.proof) == ("infeasible", "rigorous")
    assert audited(check).finding == "confirmed"
    # Bounds that were computed may disagree by rounding: no proof is taken from that.
    for room in (0.0, 1e-15, -1e-2):
        assert sf.verify(transport(room), sf.Claim(certificate=y), rigorous=True).verdict == "undecided"


@pytest.mark.parametrize("box", [sf.SpectralBox(2, -1.0, 1.0), sf.SpectralBox(2, 0.5, 1.0)])
def test_what_a_bounded_set_of_an_lmi_allows_is_taken_off(box: sf.SpectralBox) -> None:
    """``diag(c + x, 3/4)`` in the box with x at least zero: c may be the upper bound and no hair more."""
    up, down = np.array([[-1.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 0.0]])
    for bound, sign, y in ((box.upper, 1.0, up), (box.lower, -1.0, down)):
        for hair, truth in ((2.0**-40, False), (0.0, True), (-(2.0**-40), True)):
            lmi = sf.LMI(box, np.diag([bound + sign * hair, 0.75]), [sign * np.array([down])])
            problem = sf.FeasibilityProblem([sf.Nonneg(1)], [None], [], [], lmis=[lmi])
            claim = sf.Claim(certificate=y.reshape(-1))
            if truth:
                refused(problem, claim)
                accepted(problem, sf.Claim(point=(np.zeros(1),)), repair=False)
            else:
                check = sf.verify(problem, claim, exact=True, repair=False)
                assert (check.verdict, check.proof) == (sf.Verdict.INFEASIBLE, sf.Proof.EXACT), check.reason


@pytest.mark.parametrize(("lower", "upper", "trace"), [(0.0, 1.0, None), (-1.0, 2.0, None), (0.0, 1.0, 1.0)])
def test_bounds_of_what_boxes_allow_are_never_below_irrational_ones(
    lower: float, upper: float, trace: float | None
) -> None:
    """Eigenvalues are plus and minus a root: so many times that root is allowed, and never less."""
    box = sf.SpectralBox(2, lower, upper, trace)
    rows = ExactRows(sf.FeasibilityProblem([box], [np.eye(2)[None]], [0.0], [0.0]))
    times = Fraction(1) if trace is not None else Fraction(upper) - Fraction(lower)
    for a in range(1, 6):
        for b in range(1, 6):
            found = _box_support(rows, box, to_rationals(np.array([[a, b], [b, -a]], dtype=float)))
            bound = to_fractions(np.array([found], dtype=object))[0] / times
            assert bound > 0
            assert a * a + b * b <= bound**2 <= (a * a + b * b) * Fraction(1 + 1e-9)


@pytest.mark.parametrize("trace", [0.5, 2.0])
@pytest.mark.parametrize("weight", [-3.0, 1.0])
def test_multiples_of_the_identity_are_worth_the_trace(trace: float, weight: float) -> None:
    """Rows that ask for the trace itself rule nothing out, and for a hair more do, with no screen before."""
    box = sf.SpectralBox(3, 0.0, 1.0, trace)
    for hair in (-trace, -(2.0**-40), 0.0, 2.0**-40):
        asked = trace + hair * np.sign(weight)
        problem = sf.FeasibilityProblem([box], [np.eye(3)[None]], [asked], [asked])
        y = to_rationals(np.array([weight]))
        assert certificate_holds(ExactRows(problem), y).proven is (hair > 0.0)


def test_a_row_that_restricts_others_keeps_its_rounded_number() -> None:
    """``is_round`` leaves out rows that alone use a Free entry; one more use, and the number counts."""
    noise = 0.12345678901234567
    for more, expected in (([0.0], True), ([1.0], False)):
        rows = [np.array([[1.0], [0.0]]), np.array([[1.0], more])]
        problem = sf.FeasibilityProblem([sf.Nonneg(1), sf.Free(1)], rows, [noise, 1.0], [noise, 1.0])
        assert is_round(problem) is expected
    row = sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[1.0]])], [noise], [noise])
    assert not is_round(row)
