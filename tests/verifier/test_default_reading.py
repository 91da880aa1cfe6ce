"""Default verdicts are about the binary64 data: cases in which other numbers gave another answer."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from auditing import saved

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding, audit

LARGE = 1.2345678912345678e16


def entries(
    sets: list[Any], rows: list[list[dict[Any, float]]], low: Any, high: Any
) -> sf.FeasibilityProblem:
    """A problem whose rows are given as entries per block."""
    parts = []
    for b, block in enumerate(sets):
        part = np.zeros((len(rows), *block.shape))
        for i, row in enumerate(rows):
            for place, value in row[b].items():
                part[(i, *np.atleast_1d(place))] = value
        parts.append(part)
    return sf.FeasibilityProblem(sets, parts, low, high)


def scaled(large: float, off: float) -> sf.FeasibilityProblem:
    """``X11 <= large, X22 <= 1/large², X12 = off``."""
    rows = [[{(0, 0): 1.0}], [{(1, 1): 1.0}], [{(0, 1): 0.5, (1, 0): 0.5}]]
    return entries([sf.PSD(2)], rows, [-np.inf, -np.inf, off], [large, off**2 * 4 / large, off])


def beside(large: float, off: float) -> sf.FeasibilityProblem:
    """``X11 + y = y = large`` leaves ``X11 = 0``, and ``2 X12 = off`` contradicts it."""
    rows = [[{(0, 0): 1.0}, {0: 1.0}], [{}, {0: 1.0}], [{(0, 1): 1.0, (1, 0): 1.0}, {}]]
    bounds = [large, large, off]
    return entries([sf.PSD(2), sf.Nonneg(1)], rows, bounds, bounds)


def pair(a: float, b: float) -> sf.FeasibilityProblem:
    return sf.FeasibilityProblem([sf.Free(1)], [np.ones((2, 1))], [a, b], [a, b])


FEASIBLE = {
    "X11 <= 1e4, X22 <= 1e-12": scaled(1e4, 5e-5),
    "powers of two": scaled(2.0**24, 0.25),
    "constant LMI": sf.FeasibilityProblem(
        [sf.Free(1)],
        [np.zeros((1, 1))],
        [0.0],
        [0.0],
        lmis=[sf.LMI(sf.PSD(2), np.array([[2.0**24, 0.5], [0.5, 2.0**-24]]), [None])],
    ),
}
INFEASIBLE = {
    "beside 1e16": beside(LARGE, 0.4),
    "beside 1e5": beside(123456.78912345678, 1e-10),
    "a rounding apart": pair(3.0, 3.0 + 2.0**-46),
    "0.4 and 0 beside 1e16": sf.FeasibilityProblem(
        [sf.Free(2)], [np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])], [0.4, 0.0, 1e16], [0.4, 0.0, 1e16]
    ),
}
CASES = [(name, problem, "feasible") for name, problem in FEASIBLE.items()]
CASES += [(name, problem, "infeasible") for name, problem in INFEASIBLE.items()]


@pytest.mark.parametrize("options", [{}, {"rigorous": True}, {"reading": "written"}], ids=str)
@pytest.mark.parametrize(("problem", "truth"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_no_verdict_is_about_other_numbers(
    problem: sf.FeasibilityProblem, truth: str, options: dict[str, Any]
) -> None:
    found = sf.solve(problem, time_limit=10, **options)
    # Residuals within the tolerances are no proof, and are said to be none.
    assert found.verdict in (truth, "undecided") or found.proof == "numeric", found.reason
    reading = options.get("reading", "stored")
    assert found.reading == reading
    if found.verdict == truth and found.proof != "numeric":
        assert audit(problem, saved(found.check), reading).finding is Finding.CONFIRMED


@pytest.mark.parametrize("problem", FEASIBLE.values(), ids=FEASIBLE)
def test_points_of_badly_scaled_problems_are_found(problem: sf.FeasibilityProblem) -> None:
    found = sf.solve(problem, time_limit=10)
    assert (found.verdict, found.proof) in (("feasible", "rigorous"), ("feasible", "exact")), found.reason


@pytest.mark.parametrize("seed", range(5))
def test_equations_written_as_pairs_are_audited(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root, rows = rng.integers(-3, 4, (3, 3)), rng.integers(-2, 3, (2, 3, 3))
    rows = (rows + rows.transpose(0, 2, 1)).astype(float)
    value, none = np.tensordot(rows, root @ root.T, 2), np.full(2, np.inf)
    low, high = np.concatenate([value, -none]), np.concatenate([none, 3.0 * value])
    problem = sf.FeasibilityProblem([sf.PSD(3)], [np.concatenate([rows, 3.0 * rows])], low, high)
    found = sf.solve(problem, time_limit=10, rigorous=True)
    assert found.verdict == "feasible", found.reason
    assert audit(problem, saved(found.check)).finding is Finding.CONFIRMED


def test_chains_do_not_move_bounds() -> None:
    """``a = b = 0.0004, c = 0.0008, a + b = c`` beside ``y = 1e12`` is feasible in both readings."""
    rows = [np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, 1, -1, 0], [0, 0, 0, 1]])]
    bounds = [0.0004, 0.0004, 0.0008, 0.0, 1e12]
    problem = sf.FeasibilityProblem([sf.Nonneg(4)], rows, bounds, bounds)
    steps = ([-1, 0, 0, 0, 0], [0, -1, 0, 0, 0], [0, 0, 1, 0, 0])
    for reading in ("stored", "written"):
        for count in range(len(steps) + 1):
            claim = sf.Claim(chain=sf.Chain(steps[:count], reading))  # type: ignore[arg-type]
            for asked in ("stored", "written"):
                assert sf.verify(problem, claim, reading=asked).verdict != "infeasible"
        assert sf.solve(problem, reading=reading).verdict == "feasible"


def test_a_box_is_read_as_written_or_not_at_all() -> None:
    """``tr X = 0.3`` over a box of trace ``0.1 + 0.2``: chains read all numbers in one way."""
    rows = np.stack([np.eye(2), np.diag([1.0, 0.0])])
    verdicts = set()
    for reading in ("stored", "written"):
        box = sf.SpectralBox(2, 0.0, 1.0, trace=0.3)
        problem = sf.FeasibilityProblem([box], [rows], [0.1 + 0.2, 0.1], [0.1 + 0.2, 0.1])
        found = sf.solve(problem, "facial", reading=reading, time_limit=10)
        verdicts.add((found.verdict, found.proof))
        chain = sf.Chain(([1, 0],), reading)  # type: ignore[arg-type]
        check = sf.verify(problem, sf.Claim(chain=chain, point=(np.diag([0.1, 0.2]),)), reading=reading)
        assert check.verdict != "feasible" or check.proof == "numeric"
    assert not {("feasible", "rigorous"), ("feasible", "exact")} & verdicts


def test_cvxpy_statuses_are_about_the_stored_numbers() -> None:
    x = cp.Variable((2, 2), PSD=True)
    y = cp.Variable(nonneg=True)
    model = cp.Problem(cp.Minimize(0), [x[0, 0] + y == LARGE, y == LARGE, 2 * x[0, 1] == 0.4])
    assert sf.solve(model, time_limit=10).verdict != "feasible"
    x = cp.Variable((2, 2), PSD=True)
    model = cp.Problem(cp.Minimize(0), [x[0, 0] <= 1e4, x[1, 1] <= 1e-12, x[0, 1] == 5e-5])
    assert sf.solve(model, time_limit=10).verdict != "infeasible"


def test_every_printed_form_names_a_reading_other_than_stored() -> None:
    problem = sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[0.1]])], [0.3], [0.3])
    for claim in (sf.Claim(point=(np.array([3.0]),)), sf.Claim(point=(np.array([5.0]),))):
        written = sf.verify(problem, claim, reading="written", exact=True, repair=False)
        stored = sf.verify(problem, claim, exact=True, repair=False)
        for show in (repr, sf.Check.explain, sf.Check._repr_html_):
            assert "as written" in show(written)
            assert "numbers as" not in show(stored)
    found = sf.solve(problem, reading="written")
    for text in (repr(found), found.explain(), found._repr_html_()):
        assert "as written" in text
