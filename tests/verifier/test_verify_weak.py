"""Weakly infeasible problems: points and multipliers as nearly right as one likes, and no verdict.

Nothing proves anything about these problems, so anything but UNDECIDED would be wrong, in every mode.
"""

from __future__ import annotations

from collections.abc import Iterator

import cvxpy as cp
import known_answers
import numpy as np
import pytest
from known_answers import Weak

import sdpfeas as sf
from sdpfeas.families import planted

LENGTHS = (1, 2, 3, 4)

MODES = (
    {},
    {"repair": False},
    {"rigorous": True},
    {"rigorous": True, "repair": False},
)


def family(length: int) -> Iterator[Weak]:
    """The chain on one block and as a linear matrix inequality, plain and disguised."""
    rng = np.random.default_rng([7, length])
    for base in (
        known_answers.weak_chain(length),
        known_answers.weak_chain(length, slack=1.0),
        known_answers.weak_chain(length, slack=100.0),
        known_answers.weak_free_chain(length),
    ):
        yield base
        for _ in range(2 if length < 3 else 1):
            yield known_answers.disguised(rng, base)
            yield known_answers.disguised(rng, base, exact=False)


def test_the_construction_is_what_it_says() -> None:
    for length in LENGTHS:
        weak = known_answers.weak_chain(length)
        for epsilon, (x,) in zip(known_answers.EPSILONS, weak.points, strict=True):
            off = weak.problem.apply((x,)) - weak.problem.lower
            assert abs(off[0]) == pytest.approx(epsilon)
            np.testing.assert_allclose(off[1:], 0.0, atol=1e-12)
            assert np.linalg.eigvalsh(x)[0] > 0.0
            # Its norm grows as it should, and slowly in long chains.
            assert np.linalg.norm(x) <= 10.0 * epsilon ** (-1.0 / (2**length - 1))
        for k, y in zip(range(0, 9, 2), weak.multipliers, strict=True):
            assert np.sum(weak.problem.beta_terms(y)) == pytest.approx(2.0)
            assert np.linalg.eigvalsh(weak.problem.adjoint(y)[0])[-1] == pytest.approx(10.0**-k, rel=0.5)


@pytest.mark.parametrize("length", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in LENGTHS[1:])])
def test_nothing_is_decided(length: int) -> None:
    for weak in family(length):
        for claim in weak.claims():
            for mode in MODES:
                check = sf.verify(weak.problem, claim, **mode)
                assert check.verdict is sf.Verdict.UNDECIDED, (weak.name, mode, check.explain())
                assert check.proof is None
                assert check.reason


@pytest.mark.parametrize("length", [*LENGTHS[:2], pytest.param(LENGTHS[2], marks=pytest.mark.slow)])
def test_exact_mode_is_about_the_numbers_as_they_are(length: int) -> None:
    proved = 0
    for weak in family(length):
        for claim in list(weak.claims())[::2]:
            check = sf.verify(weak.problem, claim, exact=True)
            if "rotation" not in weak.name:
                assert check.verdict is sf.Verdict.UNDECIDED, (weak.name, check.explain())
            # Rounding decides what a rotated problem really is. What is said about it must be true.
            elif check.verdict is sf.Verdict.FEASIBLE:
                proved += 1
                assert known_answers.exactly_feasible(weak.problem, check.rational), weak.name
            elif check.verdict is sf.Verdict.INFEASIBLE:
                proved += 1
                assert known_answers.exactly_certified(weak.problem, check.rational), weak.name
    assert proved > 0 or length > 1


@pytest.mark.parametrize("length", LENGTHS[:3])
@pytest.mark.parametrize("tilt", [1e-3, 1e-6, 1e-9, -1e-3, -1e-6, -1e-9])
def test_a_tilt_decides(length: int, tilt: float) -> None:
    """The same points and multipliers on problems that are feasible, or infeasible, after all."""
    case = known_answers.nearly_weak(length, tilt)
    if abs(tilt) >= 1e-6:
        assert sf.verify(case.problem, case.claim, rigorous=True).verdict is case.truth
    for claim in known_answers.weak_chain(length).claims():
        for mode in MODES:
            check = sf.verify(case.problem, claim, **mode)
            assert check.verdict is not case.wrong_verdict, (mode, check.explain())


@pytest.mark.parametrize("share", [1e-3, 1e-5, 1e-7, 1e-9, 1e-11])
def test_rows_that_nearly_repeat_are_not_redundant(share: float) -> None:
    """``X22 = 1`` and ``X22 + share·X11 = 1`` say together that X11 = 0, which X12 = 1 contradicts."""
    rows = np.zeros((3, 2, 2))
    rows[0, 1, 1] = rows[1, 1, 1] = 1.0
    rows[1, 0, 0] = share
    rows[2, 0, 1] = rows[2, 1, 0] = 0.5
    right = np.ones(3)
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], right, right)
    for corner in (2.0, 1.01):
        claim = sf.Claim(point=(np.array([[corner, 1.0], [1.0, 1.0]]),))
        for mode in MODES:
            check = sf.verify(problem, claim, **mode)
            assert check.verdict is sf.Verdict.UNDECIDED, (mode, check.explain())


@pytest.mark.parametrize("share", [1e-3, 1e-6, 1e-9])
def test_columns_that_nearly_repeat_are_not_redundant(share: float) -> None:
    """The mirror image: a free column that differs from another by little makes the problem feasible."""
    # S11 = x1 + (1 + share) x2 + ..., so that S11 can be as large as one likes; without x2 it could not.
    constant = np.array([[0.0, 1.0], [1.0, 1.0]])
    first, second = np.zeros((2, 2)), np.zeros((2, 2))
    first[1, 1], second[1, 1], second[0, 0] = 1.0, 1.0, share
    problem = planted.lmi_problem(constant, np.array([first, second]))
    x = np.array([-2.0 / share, 2.0 / share])
    slack = constant + x[0] * first + x[1] * second
    assert np.linalg.eigvalsh(slack)[0] > 0.0
    for y in ([-1e3, 2.0, 0.0], [-1e9, 2.0, 0.0], [-1.0, 2.0, -1.0], [-1e4, 2.0, -1e-4]):
        for mode in MODES:
            check = sf.verify(problem, sf.Claim(certificate=np.array(y)), **mode)
            assert check.verdict is not sf.Verdict.INFEASIBLE, (mode, check.explain())


def test_rows_that_repeat_are_redundant() -> None:
    """Redundant rows alone do not stop a numeric verdict, whatever they are mixed with."""
    rng = np.random.default_rng(8)
    for _ in range(10):
        case = planted.feasible(rng, [sf.PSD(4), sf.SpectralBox(3, trace=1.5)], bounds="equality", rows=5)
        mix = np.vstack([np.eye(5), rng.normal(size=(3, 5))])
        rows = [np.tensordot(mix, r.array, axes=1) for r in case.problem.rows]
        right = mix @ case.problem.lower
        problem = sf.FeasibilityProblem(case.problem.sets, rows, right, right)
        check = sf.verify(problem, case.claim)
        assert check.verdict is sf.Verdict.FEASIBLE, check.explain()
        assert sf.verify(problem, case.claim, rigorous=True).verdict is sf.Verdict.UNDECIDED
        # With a right-hand side that contradicts the others they are no longer redundant.
        right = right + np.array([0.0] * 7 + [1e-8])
        problem = sf.FeasibilityProblem(case.problem.sets, rows, right, right)
        assert sf.verify(problem, case.claim).verdict is sf.Verdict.UNDECIDED


# ---------------------------------------------------------------- what solvers hand in


def solver_claims(problem: sf.FeasibilityProblem, solver: str) -> Iterator[sf.Claim]:
    """Points and multipliers from a solver, whatever it thinks of them."""
    blocks = [
        cp.Variable(s.shape, symmetric=True) if s.matrix else cp.Variable(s.shape) for s in problem.sets
    ]
    sets = [x >> 0 for x, s in zip(blocks, problem.sets, strict=True) if isinstance(s, sf.PSD)]
    rows = []
    for i, unit in enumerate(np.eye(problem.m)):
        terms = zip(problem.adjoint(unit), blocks, strict=True)
        rows.append(sum(cp.sum(cp.multiply(a, x)) for a, x in terms) == problem.lower[i])
    model = cp.Problem(cp.Minimize(0), [*rows, *sets])
    try:
        model.solve(solver=solver)
    except cp.SolverError:
        return
    if all(x.value is not None and np.isfinite(x.value).all() for x in blocks):
        yield sf.Claim(point=tuple(np.array(x.value) for x in blocks))
    duals = [row.dual_value for row in rows]
    if all(v is not None and np.isfinite(v).all() for v in duals):
        y = np.array([float(np.asarray(v).ravel()[0]) for v in duals])
        yield sf.Claim(certificate=y)
        yield sf.Claim(certificate=-y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
@pytest.mark.parametrize("length", LENGTHS[:3])
def test_solvers_are_not_believed(length: int, solver: str) -> None:
    rng = np.random.default_rng([9, length])
    count = 0
    for base in (known_answers.weak_chain(length), known_answers.weak_free_chain(length)):
        for weak in (
            base,
            known_answers.disguised(rng, base),
            known_answers.disguised(rng, base, exact=False),
        ):
            for claim in solver_claims(weak.problem, solver):
                count += 1
                for mode in MODES:
                    check = sf.verify(weak.problem, claim, **mode)
                    assert check.verdict is sf.Verdict.UNDECIDED, (weak.name, mode, check.explain())
    # Clarabel gives up on the shortest chains without handing in anything.
    assert count > 0 or solver == "CLARABEL"
