"""Lifting: the same problem without a SpectralBox, and the maps between the two."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import (
    SEEDS,
    examples,
    problems,
    random_array,
    random_member,
    rows_for,
    spectral_boxes,
)

import sdpfeas as sf

FEASIBLE, INFEASIBLE = sf.Verdict.FEASIBLE, sf.Verdict.INFEASIBLE


def certified(problem, y):
    check = sf.verify(problem, sf.Claim(certificate=y), rigorous=True, repair=False)
    return check.verdict == INFEASIBLE and check.proof == sf.Proof.RIGOROUS


def confirmed(problem, point):
    return sf.verify(problem, sf.Claim(point=point), rigorous=True).verdict == FEASIBLE


@st.composite
def planted(draw, feasible):
    """A problem over boxes (and a Nonneg block) with a planted point inside, or a planted certificate."""
    boxes = draw(st.lists(spectral_boxes(3), min_size=1, max_size=2))
    blocks = [*boxes, sf.Nonneg(2)] if draw(st.booleans()) else boxes
    m = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(SEEDS))
    rows = [rows_for(block, m, rng) for block in blocks]
    probe = sf.FeasibilityProblem(blocks, rows, np.zeros(m), np.zeros(m))
    assume(np.all(probe.norms > 1e-3))
    if feasible:
        point = tuple(0.5 * (block.interior_point() + random_member(block, rng)) for block in blocks)
        value = probe.apply(point)
        slack = 0.1 * (1.0 + probe.norms)
        return sf.FeasibilityProblem(blocks, rows, value - slack, value + slack), point
    y = rng.normal(size=m)
    if blocks is not boxes:
        # The last row pulls A*y below zero on the vector block.
        columns = np.array([rows[-1].apply(unit) for unit in np.eye(2)]).T
        columns[-1] = -(1.0 + np.abs(y[:-1]) @ np.abs(columns[:-1]))
        rows[-1], y[-1] = columns, 1.0
        probe = sf.FeasibilityProblem(blocks, rows, np.zeros(m), np.zeros(m))
    sigma = sum(
        block.support(g)
        for block, g in zip(blocks, probe.adjoint(y), strict=True)
        if isinstance(block, sf.SpectralBox)
    )
    # Bounds with beta(y) = sigma + a clear margin, all on one row.
    k = int(np.argmax(np.abs(y)))
    bound = np.zeros(m)
    bound[k] = (sigma + 0.1 * (1.0 + abs(sigma) + np.abs(y) @ probe.norms)) / y[k]
    lower = np.where(y > 0, bound, -np.inf)
    upper = np.where(y > 0, np.inf, bound)
    return sf.FeasibilityProblem(blocks, rows, lower, upper), y


@given(problems(), SEEDS)
def test_points_round_trip(problem, seed):
    rng = np.random.default_rng(seed)
    lift = problem.lift()
    point = tuple(random_array(block, rng) for block in problem.sets)
    back = lift.point(lift.start_point(point))
    for a, b in zip(point, back, strict=True):
        assert np.allclose(a, b, rtol=1e-15, atol=1e-15)


@given(problems(), SEEDS)
def test_certificates_round_trip(problem, seed):
    lift = problem.lift()
    y = np.random.default_rng(seed).normal(size=problem.m)
    lifted = lift.start_multipliers(y)
    assert lifted.shape == (lift.problem.m,)
    assert np.array_equal(lift.multipliers(lifted), y)


@given(problems(), SEEDS)
def test_members_lift_to_members_and_rows_keep_their_slack(problem, seed):
    rng = np.random.default_rng(seed)
    lift = problem.lift()
    assert not any(isinstance(block, sf.SpectralBox) for block in lift.problem.sets)
    point = tuple(random_member(block, rng) for block in problem.sets)
    lifted = lift.start_point(point)
    for block, x in zip(lift.problem.sets, lifted, strict=True):
        assert block.distance(x) <= 1e-13 * (1 + np.linalg.norm(x))
    value, bounds = lift.problem.apply(lifted), (lift.problem.lower, lift.problem.upper)
    size = 1e-12 * (1.0 + problem.norms * sum(np.linalg.norm(x) + 4 for x in point))
    for old, new in zip((problem.lower, problem.upper), bounds, strict=True):
        finite = np.isfinite(old)
        assert np.array_equal(finite, np.isfinite(new[: problem.m]))
        gap = (value[: problem.m] - new[: problem.m])[finite] - (problem.apply(point) - old)[finite]
        assert np.all(np.abs(gap) <= size[finite])
    # The rows that lifting adds are equalities, and hold.
    assert np.allclose(value[problem.m :], lift.problem.lower[problem.m :], atol=1e-12)
    assert np.array_equal(lift.problem.lower[problem.m :], lift.problem.upper[problem.m :])


@given(spectral_boxes(4), SEEDS)
def test_lifted_points_come_back_as_members(box, seed):
    """Whatever meets the added rows is a member of the box once it is mapped back."""
    problem = sf.FeasibilityProblem([box], [None], [], [])
    lift = problem.lift()
    z = random_member(box, np.random.default_rng(seed))
    eye = np.eye(box.n)
    (back,) = lift.point((z - box.lower * eye, box.upper * eye - z))
    assert box.distance(back) <= 1e-13
    assert lift.problem.m == box.n * (box.n + 1) // 2 + (box.trace is not None)


@examples(0.8)
@given(planted(feasible=True))
def test_feasible_both_ways(case):
    problem, point = case
    lift = problem.lift()
    assert confirmed(problem, point)
    # A box with one member only has no interior: there a proof of the lifted problem cannot be had.
    if all(block.depth(block.interior_point()) > 1e-6 for block in problem.sets):
        lifted = lift.start_point(point)
        assert confirmed(lift.problem, lifted)
        assert confirmed(problem, lift.point(lifted))


@examples(0.8)
@given(planted(feasible=False))
def test_infeasible_both_ways(case):
    problem, y = case
    lift = problem.lift()
    assert certified(problem, y)
    lifted = lift.start_multipliers(y)
    assert certified(lift.problem, lifted)
    assert certified(problem, lift.multipliers(lifted))


@given(spectral_boxes(4), SEEDS)
def test_the_lifted_certificate_is_the_best_one(box, seed):
    """Its gap is that of the original: the added rows cost exactly the support function."""
    rng = np.random.default_rng(seed)
    g = random_array(box, rng)
    problem = sf.FeasibilityProblem([box], [g[None]], [0.0], [0.0])
    lift = problem.lift()
    lifted = lift.start_multipliers(np.ones(1))
    for block, part in zip(lift.problem.sets, lift.problem.adjoint(lifted), strict=True):
        assert block.spectrum(part).max() <= 1e-13 * (1 + np.linalg.norm(g))
    beta = float(np.sum(lift.problem.beta_terms(lifted)))
    size = 1.0 + np.linalg.norm(g) * (1 + abs(box.lower) + abs(box.upper))
    assert -beta == pytest.approx(box.support(g), abs=1e-12 * size)


def test_certificates_of_other_multipliers_do_not_pass():
    """The tests above must be able to fail: a feasible problem has no certificate, lifted or not."""
    problem = sf.FeasibilityProblem([sf.SpectralBox(2, trace=1)], [[np.diag([1.0, 0.0])]], [0.5], [np.inf])
    lift = problem.lift()
    assert not certified(lift.problem, lift.start_multipliers(np.ones(1)))
    assert not certified(problem, np.ones(1))


def test_the_trace_row_is_exact_where_rounding_would_empty_the_set():
    """Neither n·lower nor the width is a floating-point number: the blocks must be able to have the trace."""
    for n, lower, upper in [(3, 0.7, 2.0), (5, 0.1, 0.1 + 0.2), (3, 0.1, 0.1 + 1.3), (49, 0.0, 1 / 49)]:
        for trace in (n * lower, n * upper):
            problem = sf.FeasibilityProblem([sf.SpectralBox(n, lower, upper, trace)], [None], [], [])
            lifted = problem.lift().problem
            assert 0.0 <= lifted.lower[-1] <= n * Fraction(lifted.lower[0])


def test_a_problem_without_boxes_is_its_own_lift():
    problem = sf.FeasibilityProblem([sf.PSD(2)], [[np.eye(2)]], [1.0], [1.0])
    lift = problem.lift()
    assert lift.problem is problem
    assert np.array_equal(lift.start_multipliers(np.ones(1)), np.ones(1))
    assert np.array_equal(lift.point((np.eye(2),))[0], np.eye(2))


def test_nonsense_is_carried_over_as_nonsense():
    lift = sf.FeasibilityProblem([sf.SpectralBox(2)], [[np.eye(2)]], [0.0], [1.0]).lift()
    assert np.isnan(lift.start_multipliers(np.array([np.nan]))).any()
    assert not certified(lift.problem, lift.start_multipliers(np.array([np.nan])))


@pytest.mark.parametrize("what", ["start_point", "point", "start_multipliers", "multipliers"])
def test_the_maps_check_what_they_are_given(what):
    lift = sf.FeasibilityProblem([sf.SpectralBox(2)], [[np.eye(2)]], [0.0], [1.0]).lift()
    for wrong in (None, 5, (np.eye(3),) * 2, np.ones(77), "text", (None, None)):
        with pytest.raises(sf.ClaimError):
            getattr(lift, what)(wrong)
