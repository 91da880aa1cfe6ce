"""Working on the rows that matter: the same brackets as with all rows, and proofs about all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from iterations import iterate_once

import sdpfeas as sf
from sdpfeas.backends.ipm.structured_system import NEW_ROW_MULTIPLIER_SHARE, StructuredSystem
from sdpfeas.claims import Claim, Verdict
from sdpfeas.families import WLDA
from sdpfeas.families import worst_case_ratio as programs
from sdpfeas.families.active_rows import ActiveRows, RowGroup
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.rows import PairwiseDifference, low_rank


def classes(seed: int, c: int, d: int, samples: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(c), samples)
    means = rng.standard_normal((c, d))
    return means[y] + rng.standard_normal((y.size, d)) * np.exp(rng.uniform(-1, 1, d)), y


def assert_proven(family: WLDA, found: sf.BisectionResult) -> None:
    assert found.proven
    assert found.converged
    below = sf.verify(family.at(found.lower), Claim(point=found.point), rigorous=True)
    above = sf.verify(family.at(found.upper), Claim(certificate=found.certificate), rigorous=True)
    assert (below.verdict, above.verdict) == (Verdict.FEASIBLE, Verdict.INFEASIBLE)


@settings(max_examples=3)
@given(st.integers(0, 10**6), st.integers(8, 20), st.integers(3, 8), st.integers(1, 3))
def test_some_rows_give_the_bracket_of_all(seed: int, c: int, d: int, r: int) -> None:
    family = WLDA.from_data(*classes(seed, c, d), min(r, d - 1))
    few = programs.MAX_PAIRS_ALL_ACTIVE
    whole = sf.bisect(family, tol=1e-6)
    try:
        programs.MAX_PAIRS_ALL_ACTIVE = 1
        found = sf.bisect(family, tol=1e-6)
    finally:
        programs.MAX_PAIRS_ALL_ACTIVE = few
    assert_proven(family, found)
    assert found.lower <= whole.upper
    assert found.upper >= whole.lower


def test_rows_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MAX_PAIRS_ALL_ACTIVE", 1)
    sizes, violated = [], []
    extended = ActiveRows.extended

    def watched(self: ActiveRows, point, y, gap):  # type: ignore[no-untyped-def]
        violated.append(float(np.min(self.groups[0].slack(point))))
        found = extended(self, point, y, gap)
        sizes.append(self.groups[0].active.size)
        return found

    monkeypatch.setattr(ActiveRows, "extended", watched)
    family = WLDA.from_data(*classes(0, 40, 12), 4)
    found = sf.bisect(family, tol=1e-6)
    assert_proven(family, found)
    assert found.solves == 1
    assert max(sizes) < 0.7 * 780
    assert len(set(sizes)) > 2
    assert min(violated) < -1e-3  # rows that were missing did matter
    u, _ = family.weights(found.certificate)
    assert np.count_nonzero(u) <= sizes[-1]


def test_backends_that_know_nothing_of_it_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("clarabel")
    monkeypatch.setattr(programs, "MAX_PAIRS_ALL_ACTIVE", 1)
    family = WLDA.from_data(*classes(3, 20, 4), 2)
    found = sf.one_shot(family, "clarabel", tol=1e-3)
    assert_proven(family, found)
    monkeypatch.setattr(programs, "MAX_PAIRS_ALL_ACTIVE", 1000)
    whole = sf.one_shot(family, tol=1e-6)
    assert found.lower <= whole.upper
    assert found.upper >= whole.lower


def test_a_carried_iterate_is_the_same_iterate() -> None:
    family = WLDA.from_data(*classes(1, 8, 5), 2)
    program = family.conic_program()
    cost = tuple(-c for c in program.objective)
    embedding = StructuredSystem(program.problem, cost, program.scale, program.start)
    for _ in range(3):
        iterate_once(embedding)
    kept = np.arange(program.problem.m)
    same = embedding.with_rows(program.problem, kept)
    assert same.mu == pytest.approx(embedding.mu, rel=1e-12)
    for mine, theirs in zip(same.point(), embedding.point(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    np.testing.assert_allclose(same.multipliers(), embedding.multipliers(), rtol=1e-12)
    lengths = iterate_once(same), iterate_once(embedding)
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-6)
    # A row that is new begins with the slack it has, and less than its share of mu.
    fresh = np.where(kept == 3, -1, kept)
    other = embedding.with_rows(program.problem, fresh)
    assert np.all(other.slacks.s > 0.0)
    assert np.all(other.slacks.p > 0.0)
    place = int(np.flatnonzero(other._inequalities[other.slacks.index] == 3)[0])
    room = float(other.row_values[3])
    assert other.slacks.s[place] == pytest.approx(room, rel=1e-9)
    assert other.slacks.s[place] * other.slacks.p[place] == pytest.approx(
        NEW_ROW_MULTIPLIER_SHARE * embedding.mu, rel=1e-9
    )
    # One that is violated, as far inside as it is outside.
    lower = np.where(kept == 3, 3.0 * room / embedding.tau / embedding._factors[3], program.problem.lower)
    raised = sf.FeasibilityProblem(program.problem.sets, program.problem.rows, lower, program.problem.upper)
    outside = embedding.with_rows(raised, fresh)
    assert outside.slacks.s[place] == pytest.approx(2.0 * room, rel=1e-9)
    assert outside.slacks.s[place] * outside.slacks.p[place] == pytest.approx(
        NEW_ROW_MULTIPLIER_SHARE * embedding.mu, rel=1e-9
    )


def test_choosing_rows() -> None:
    """One part with given slacks: what is violated comes, what is far and idle goes."""
    slacks = np.array([0.5, 0.0, -0.1, 0.9, 5.0])

    def pose(chosen):  # type: ignore[no-untyped-def]
        m = chosen[0].size
        problem = sf.FeasibilityProblem([sf.Nonneg(1)], [np.ones((m, 1))], np.zeros(m), np.full(m, np.inf))
        return ConicProgram(problem, (np.ones(1),))

    rows = ActiveRows([RowGroup(lambda point: slacks, np.array([1, 4]), 5)], pose)
    more = rows.extended((np.ones(1),), np.array([1.0, 0.0]), 0.01)
    assert more is not None
    assert more.kept.tolist() == [0, -1]  # row 1 stays, row 2 is new, row 4 is gone
    assert rows.extend_multipliers(np.array([3.0, 4.0])).tolist() == [0.0, 3.0, 4.0, 0.0, 0.0]
    assert rows.program.pricing is rows
    assert rows.extended((np.ones(1),), np.array([1.0, 1.0]), 0.01) is None


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 5), st.integers(1, 40))
def test_batches_of_pairs_are_all_pairs(seed: int, c: int, n: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    rows = PairwiseDifference(rng.standard_normal((c, n)))
    y = rng.standard_normal(rows.m) * (rng.random(rows.m) < 0.5)
    x = rng.standard_normal((n, n))
    x = x + x.T
    d = rows.differences()
    batch = low_rank.STRIP_NUMBERS
    try:
        low_rank.STRIP_NUMBERS = size
        found = rows.stable_apply(x), rows.magnitude_apply(np.abs(x)), rows.norms_upper
        sums = rows.stable_adjoint(y), rows.magnitude_adjoint(np.abs(y))
    finally:
        low_rank.STRIP_NUMBERS = batch
    np.testing.assert_allclose(found[0], np.einsum("ki,ij,kj->k", d, x, d), atol=1e-12)
    np.testing.assert_allclose(found[1], np.einsum("ki,ij,kj->k", abs(d), abs(x), abs(d)), atol=1e-12)
    assert np.all(found[2] >= np.sum(d * d, axis=1) * (1 - 1e-15))
    np.testing.assert_allclose(sums[0], np.einsum("k,ki,kj->ij", y, d, d), atol=1e-12)
    np.testing.assert_allclose(sums[1], np.einsum("k,ki,kj->ij", abs(y), abs(d), abs(d)), atol=1e-12)


def test_no_choice_takes_no_solve_however_many_classes() -> None:
    """As many directions as there are: Z = I. A square of all pairs would take 1.5 GB."""
    family = WLDA.from_data(*classes(0, 170, 6))
    found = sf.bisect(family, tol=1e-9)
    assert found.converged
    assert found.solves == 0
    assert found.gap <= 1e-9
    assert math.isclose(found.lower, family.ratio(family.point(np.eye(6))), rel_tol=1e-9)


@pytest.mark.slow
def test_two_hundred_classes() -> None:
    family = WLDA.from_data(*classes(0, 200, 40), 10)
    assert_proven(family, sf.bisect(family, tol=1e-4))
