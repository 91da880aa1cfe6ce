"""Backend ``multiprecision``: rational evidence, verified exactly, where doubles end."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.backends.multiprecision.multiprecision_backend import Multiprecision
from sdpfeas.backends.multiprecision.size_limits import fits
from sdpfeas.certifier.audit import Finding, audit
from sdpfeas.claims import pack_claim, read_claim, unpack_claim
from sdpfeas.io.result_files import SavedResult, pack_result, unpack_result
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.verifier.exact import rational_lower_bound, rational_upper_bound


def thin(depth: float) -> sf.FeasibilityProblem:
    """Points ``[[1, 1 - depth], [1 - depth, 1]]`` alone: smallest eigenvalue ``depth``."""
    rows = np.array([[[1.0, 0], [0, 0]], [[0, 0], [0, 1.0]], [[0, 0.5], [0.5, 0]]])
    right = np.array([1.0, 1.0, 1.0 - depth])
    return sf.FeasibilityProblem([sf.PSD(2)], [rows], right, right)


def fractions(array: Any) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array, dtype=float))


@pytest.mark.parametrize("depth", [2.0**-20, 2.0**-52])
def test_a_thin_interior_is_proved(depth: float) -> None:
    result = sf.solve(thin(depth), "multiprecision")
    assert (result.verdict, result.proof) == (sf.Verdict.FEASIBLE, sf.Proof.EXACT)
    assert sf.solve(thin(-(2.0**-20)), "multiprecision").verdict is sf.Verdict.INFEASIBLE


def test_points_on_faces_are_found() -> None:
    """``X e = 0`` for ``e = (1, 2, -3)``: the face has no coordinates that vanish."""
    e = np.array([1.0, 2.0, -3.0])
    rows = np.stack([np.outer(e, e), np.eye(3)])
    problem = sf.FeasibilityProblem([sf.PSD(3)], [rows], [0.0, 1.0], [0.0, 1.0])
    result = sf.solve(problem, "multiprecision")
    assert (result.verdict, result.proof) == (sf.Verdict.FEASIBLE, sf.Proof.EXACT)
    assert result.check.rational is not None
    assert not (result.check.rational[0] @ e.astype(int)).any()
    assert audit(problem, SavedResult.of(result)).finding is Finding.CONFIRMED


def test_free_variables_inequalities_and_lmis() -> None:
    builder = sf.ProblemBuilder()
    builder.block("X", sf.PSD(2))
    builder.block("t", sf.Free(1))
    builder.block("s", sf.Nonneg(2))
    builder.row("trace", {"X": np.eye(2), "t": [1.0]}, equal=3.0)
    builder.row("range", {"t": [1.0], "s": [1.0, -1.0]}, lower=1.0, upper=2.0)
    problem = builder.build()
    assert sf.solve(problem, "multiprecision").proof is sf.Proof.EXACT
    builder.row("below", {"t": [1.0], "s": [1.0, -1.0]}, upper=0.5)
    result = sf.solve(builder.build(), "multiprecision")
    assert (result.verdict, result.proof) == (sf.Verdict.INFEASIBLE, sf.Proof.EXACT)


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_lmis_over_free_variables(shift: float) -> None:
    """``[[x, 1], [1, y]]`` semidefinite with ``x + y = 1``: impossible; with ``x + y <= 3``: possible."""
    coefficients = np.array([[[1.0, 0], [0, 0]], [[0, 0], [0, 1.0]]])
    lmi = sf.LMI(sf.PSD(2), np.array([[0.0, 1.0], [1.0, 0.0]]), [coefficients])
    ends = ([1.0], [1.0]) if shift < 0 else ([-np.inf], [3.0])
    problem = sf.FeasibilityProblem([sf.Free(2)], [np.array([[1.0, 1.0]])], *ends, lmis=[lmi])
    result = sf.solve(problem, "multiprecision")
    assert result.proof is sf.Proof.EXACT
    assert result.verdict == ("feasible" if shift > 0 else "infeasible")


# ---------------------------------------------------------------- attacks on rational evidence


def test_wrong_rational_evidence_is_refused() -> None:
    problem = thin(2.0**-20)
    good = sf.solve(problem, "multiprecision").claim
    tiny = Fraction(1, 2**300)

    def refused(rational: Any) -> None:
        claim = sf.Claim(rational=rational)
        for exact in (True, False):
            assert sf.verify(problem, claim, exact=exact).verdict is sf.Verdict.UNDECIDED

    assert sf.verify(problem, sf.Claim(rational=good.rational)).verdict is sf.Verdict.FEASIBLE
    for place in ((0, 0), (1, 1)):
        moved = good.rational[0].copy()
        moved[place] += tiny  # a row is missed by 2**-300
        refused((moved,))
    skew = good.rational[0].copy()
    skew[0, 1] += tiny
    skew[1, 0] -= tiny
    refused((skew,))  # rows hold, since they read both entries
    refused(good.rational[0])  # a matrix is no vector of multipliers
    refused((good.rational[0][:1],))
    refused((good.rational[0].astype(float),))
    refused(())
    refused((good.rational[0], good.rational[0]))
    long = good.rational[0].copy()
    long[0, 0] += Fraction(1, 2**200_000)
    refused((long,))
    # An eigenvalue of -2**-300 is seen.
    just = sf.FeasibilityProblem([sf.PSD(2)], [None], [], [], lmis=[])
    below = fractions(np.ones((2, 2)))
    below[0, 0] -= tiny
    assert sf.verify(just, sf.Claim(rational=(fractions(np.ones((2, 2))),))).verdict is sf.Verdict.FEASIBLE
    assert sf.verify(just, sf.Claim(rational=(below,))).verdict is sf.Verdict.UNDECIDED


def test_multipliers_of_lmis_are_judged_by_their_symmetric_part() -> None:
    """``[[x, 1], [1, -x]]`` is never definite. ``Y`` must be semidefinite, whatever its triangles pretend."""
    lmi = sf.LMI(sf.PSD(2), np.array([[0.0, 1.0], [1.0, 0.0]]), [np.array([[[1.0, 0], [0, -1.0]]])])
    problem = sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[lmi])
    good = fractions([1.0, -1.0, -1.0, 1.0])
    assert sf.verify(problem, sf.Claim(rational=good), exact=True).verdict is sf.Verdict.INFEASIBLE
    for upper, lower in ((-5.0, 0.0), (0.0, -5.0), (-3.0, 0.0), (3.0, 3.0)):
        bad = fractions([1.0, upper, lower, 1.0])
        assert sf.verify(problem, sf.Claim(rational=bad), exact=True).verdict is sf.Verdict.UNDECIDED


def test_rounded_data_prove_no_infeasibility_by_their_last_digits() -> None:
    """Two rows that differ by rounding contradict each other exactly: that is an artefact."""
    row = np.array([0.1 * np.pi, 0.3 * np.e])
    rows = np.stack([row, row * 3.0])
    right = np.array([1.0 / 7.0, 3.0 / 7.0 * (1.0 + 2.0**-50)])
    problem = sf.FeasibilityProblem([sf.Nonneg(2)], [rows], right, right)
    y = fractions([-3.0, 1.0])
    check = sf.verify(problem, sf.Claim(rational=y))
    assert check.verdict is sf.Verdict.UNDECIDED


def test_rational_evidence_travels() -> None:
    problem = thin(2.0**-52)
    result = sf.solve(problem, "multiprecision")
    same = unpack_claim(pack_claim(result.claim))
    assert all(map(np.array_equal, same.rational, result.claim.rational))
    held = unpack_result(pack_result(result))
    assert sf.verify(problem, held.claim, rigorous=True).proof is sf.Proof.EXACT
    assert audit(problem, held).finding is Finding.CONFIRMED
    worse = held.rational[0].copy()
    worse[0, 1] = worse[1, 0] = worse[0, 1] + Fraction(1, 2**90)
    assert audit(problem, replace(held, rational=(worse,), point=None)).finding is not Finding.REFUTED
    assert read_claim(sf.Claim(rational=(np.eye(2),))).stop is sf.Stop.ERROR


# ---------------------------------------------------------------- bounds of optimal values


def proved(problem: sf.FeasibilityProblem, objective: sf.Objective) -> tuple[Fraction, Fraction]:
    terms = objective.to_maximise(problem)
    point, y = Multiprecision().rational_bounds(ConicProgram(problem, terms), 1e-7, 1e-10)
    lower = rational_lower_bound(problem, terms, point)
    upper = rational_upper_bound(problem, terms, y)
    assert lower is not None
    assert upper is not None
    assert lower <= upper
    return lower, upper


def test_wrong_multipliers_prove_no_bound() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    terms = (np.array([[0.0, 0.5], [0.5, 0.0]]),)
    assert rational_upper_bound(problem, terms, fractions([-0.5])) == Fraction(1, 2)
    below = np.array([-Fraction(1, 2) + Fraction(1, 2**200)], dtype=object)
    assert rational_upper_bound(problem, terms, below) is None
    outside = fractions([[0.5, 0.5], [0.5, 0.5]])
    assert rational_lower_bound(problem, terms, (outside,)) == Fraction(1, 2)
    outside[0, 1] = outside[1, 0] = outside[0, 1] + Fraction(1, 2**200)
    assert rational_lower_bound(problem, terms, (outside,)) is None


HINF = {"hinf1": 0.0, "hinf2": 10.9670556, "hinf4": 271.4977261, "hinf7": 154.9047018, "hinf10": 0.0}


@pytest.mark.parametrize("name", HINF)
def test_hinf_is_feasible_and_bracketed(data_dir: Path, name: str) -> None:
    problem = sf.read_problem(data_dir / "sdplib" / f"{name}.dat-s")[0]
    result = sf.solve(problem)
    assert result.verdict is sf.Verdict.FEASIBLE
    assert result.proof is not sf.Proof.NUMERIC
    assert audit(problem, SavedResult.of(result)).finding is Finding.CONFIRMED
    for side in ("primal", "lmi"):
        found = sf.optimum(*sf.read_problem(data_dir / "sdplib" / f"{name}.dat-s", side))
        assert found.converged, found
        assert found.lower - 1e-6 <= HINF[name] <= found.upper + 1e-6


@pytest.mark.parametrize("bits", [25, 45])
def test_a_thin_program_is_bracketed(bits: int) -> None:
    """Two unit vectors nearly agree; a third tells them apart by their distance and no more."""
    apart = 2.0 ** (-(bits - 1) / 2)
    rows = np.zeros((4, 3, 3))
    rows[[0, 1, 2], [0, 1, 2], [0, 1, 2]] = 1.0
    rows[3, 0, 1] = rows[3, 1, 0] = 0.5
    right = [1.0, 1.0, 1.0, 1.0 - 2.0**-bits]
    goal = np.zeros((3, 3))
    goal[0, 2] = goal[2, 0] = 0.5 / apart
    goal[1, 2] = goal[2, 1] = -0.5 / apart
    lower, upper = proved(
        sf.FeasibilityProblem([sf.PSD(3)], [rows], right, right), sf.Objective((goal,), "max")
    )
    assert 1.0 - 1e-6 <= lower <= upper <= 1.0 + 1e-6


def test_large_problems_are_not_taken() -> None:
    assert fits(thin(0.5))
    rows = np.random.default_rng(0).normal(size=(200, 40, 40))
    rows = rows + rows.transpose(0, 2, 1)
    assert not fits(sf.FeasibilityProblem([sf.PSD(40)], [rows], np.ones(200), np.ones(200)))
