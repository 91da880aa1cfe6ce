"""Every reduction keeps its promise: what it maps back, and forth, is still evidence."""

from collections.abc import Callable

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families.planted import PlantedProblem, feasible, infeasible
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.box_to_psd import lift
from sdpfeas.problem.reductions.cones_to_psd import cones_to_psd
from sdpfeas.problem.reductions.decimal_data import read_as
from sdpfeas.problem.reductions.inequality_pairs import meeting_pairs
from sdpfeas.problem.reductions.margin_form import MARGIN_SHIFT, margin_form
from sdpfeas.problem.reductions.presolve import presolve
from sdpfeas.problem.reductions.redundant_rows import independent_rows
from sdpfeas.problem.reductions.row_scaling import scale_rows
from sdpfeas.problem.reductions.rows_only import rows_only
from sdpfeas.problem.reductions.variable_scaling import scale_variables

BOXED = [sf.SpectralBox(3, trace=1.5), sf.Nonneg(2), sf.SpectralBox(2, -1.0, 2.0)]
CONES = [sf.PSD(3), sf.Nonneg(2), sf.Free(2)]


def lifted_and_scaled(problem: FeasibilityProblem) -> Reduction:
    first = lift(problem)
    return first.then(scale_rows(first.problem))


def presolved_and_scaled(problem: FeasibilityProblem) -> Reduction:
    first = presolve(problem)
    return first.then(scale_rows(first.problem))


#: Every reduction, with blocks it has something to do on.
REDUCTIONS: dict[str, tuple[Callable[[FeasibilityProblem], Reduction], list[sf.problem.sets.BlockSet]]] = {
    "lift": (lift, BOXED),
    "scale": (scale_rows, [*CONES, *BOXED]),
    "presolve": (presolve, [sf.SpectralBox(2, 1.0, 1.0), *CONES]),
    "shadows": (lambda p: cones_to_psd(p, ()), [sf.SecondOrder(4), sf.HermitianPSD(2), *CONES]),
    "rows only": (rows_only, [sf.SecondOrder(4), *CONES]),
    "read as stored": (lambda p: read_as(p, "stored"), [*CONES, *BOXED]),
    "pairs": (meeting_pairs, [*CONES, *BOXED]),
    "scale_variables": (scale_variables, [sf.SecondOrder(3), *CONES, *BOXED]),
    "independent rows": (independent_rows, [*CONES, *BOXED]),
    "a chain of two": (lifted_and_scaled, BOXED),
    "a chain of two others": (presolved_and_scaled, [sf.SpectralBox(2, 0.5, 0.5), *BOXED]),
}


def planted(name: str, truth: bool, seed: int) -> tuple[PlantedProblem, Reduction]:
    apply, sets = REDUCTIONS[name]
    bounds = ["inequality", "two-sided", "mixed"][seed % 3]
    item = (feasible if truth else infeasible)(np.random.default_rng(seed), sets, bounds=bounds)
    return item, apply(item.problem)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", REDUCTIONS)
def test_points_go_forth_and_back(name: str, seed: int) -> None:
    item, reduction = planted(name, True, seed)
    forth = reduction.start_point(item.point)
    assert sf.verify(reduction.problem, sf.Claim(point=forth)).verdict is sf.Verdict.FEASIBLE
    for there, again in zip(item.point, reduction.point(forth), strict=True):
        np.testing.assert_allclose(again, there, rtol=1e-12, atol=1e-12)
    found = sf.solve(reduction.problem)
    assert found.verdict is sf.Verdict.FEASIBLE
    assert sf.verify(item.problem, found.claim.back(reduction)).verdict is sf.Verdict.FEASIBLE


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", REDUCTIONS)
def test_certificates_go_forth_and_back(name: str, seed: int) -> None:
    item, reduction = planted(name, False, seed)
    forth = reduction.start_multipliers(item.certificate)
    assert sf.verify(reduction.problem, sf.Claim(certificate=forth)).verdict is sf.Verdict.INFEASIBLE
    np.testing.assert_allclose(reduction.multipliers(forth), item.certificate, rtol=1e-12, atol=0.0)
    found = sf.solve(reduction.problem)
    assert found.verdict is sf.Verdict.INFEASIBLE
    assert sf.verify(item.problem, found.claim.back(reduction)).verdict is sf.Verdict.INFEASIBLE


def test_a_start_is_mapped_forth_and_offers_are_mapped_back() -> None:
    item, reduction = planted("lift", True, 0)
    inquiry = sf.backends.inquiry.Inquiry(item.problem, start=sf.WarmStart(point=item.point))
    view = inquiry.through(reduction)
    assert len(view.start.point) == len(reduction.problem.sets)
    assert view.offer(view.start.point)
    assert inquiry.granted.verdict is sf.Verdict.FEASIBLE


@pytest.mark.parametrize("seed", range(4))
def test_the_margin_is_that_of_the_rows(seed: int) -> None:
    truth = seed % 2 == 0
    item = (feasible if truth else infeasible)(np.random.default_rng(seed), BOXED, bounds="inequality")
    form = margin_form(item.problem)
    assert form is not None
    point = item.point if truth else tuple(block.interior_point() for block in item.problem.sets)
    forth = form.start_point(point)
    assert form.point(forth) == point
    value = sum(rows.apply(x) for rows, x in zip(item.problem.rows, point, strict=True))
    left = np.minimum(value - item.problem.lower, item.problem.upper - value) / item.problem.norms
    # With the largest margin a point has, every row holds and one of them just so.
    assert forth[-1][0] == pytest.approx(max(left.min() + MARGIN_SHIFT, 0.0))
    if truth:
        assert sf.verify(form.problem, sf.Claim(point=forth)).verdict is sf.Verdict.FEASIBLE


def test_a_start_of_the_margin_weighs_rows_with_one_in_sum() -> None:
    item = feasible(np.random.default_rng(1), BOXED, bounds="inequality")
    form = margin_form(item.problem)
    assert form is not None
    point = form.start_point(item.point)
    right = np.where(np.isfinite(item.problem.lower), 3.0, -3.0)
    wrong = np.arange(item.problem.m) == 0
    start = form.start(point, np.where(wrong, -right, right))
    assert start is not None
    assert start[0] is point
    assert start[1][0] == 0.0
    assert np.all(start[1][1:] * right[1:] > 0.0)
    # The multipliers of the margin's own column, which is -norm or norm.
    assert form.problem.rows[-1].adjoint(start[1]) == pytest.approx([-1.0])
    assert form.start(None, right) is form.start(point, None) is form.start(point, -right) is None


def test_rows_with_two_bounds_have_no_margin_in_common() -> None:
    item = feasible(np.random.default_rng(0), BOXED, bounds="two-sided")
    assert margin_form(item.problem) is None
    assert margin_form(feasible(np.random.default_rng(0), CONES, bounds="inequality").problem) is None


@pytest.mark.parametrize(
    ("bounds", "entry"),
    [((1e8, 1e-8), None), ((1e8, 1e-8), 0.5), ((1e4, 1e-12), 5e-5), ((2.0**24, 2.0**-24), 0.5)],
)
def test_units_that_differ_are_made_alike(bounds: tuple[float, float], entry: float | None) -> None:
    rows = [[[1.0, 0], [0, 0]], [[0, 0], [0, 1.0]], [[0, 0.5], [0.5, 0]]]
    lower, upper = [-np.inf, -np.inf], list(bounds)
    if entry is not None:
        lower, upper = [*lower, entry], [*upper, entry]
    problem = FeasibilityProblem([sf.PSD(2)], [np.array(rows[: len(lower)])], lower, upper)
    units = scale_variables(problem)
    assert units.problem is not problem
    point = (np.array([[2.0, 1.0], [1.0, 3.0]]),)
    np.testing.assert_array_equal(units.start_point(units.point(point))[0], point[0])
    np.testing.assert_array_equal(units.problem.apply(point), problem.apply(units.point(point)))
    found = sf.solve(problem, rigorous=True)
    assert found.verdict is sf.Verdict.FEASIBLE
    assert str(found.reading) == "stored"


@pytest.mark.parametrize(
    ("other", "value", "bound", "fixed"),
    [
        ([0.0, 1.0], 1.5e17, 0.0, True),
        ([1e-20, 1.0], 1.5e17, 0.0, False),  # another entry, too small for the norm of the row
        ([0.0, 1.0], 1.5e17, 1e16, False),  # an inequality
        ([0.0, 1.0], 5e-324, 0.0, False),  # a value that underflows
    ],
)
def test_presolve_fixes_a_scalar_of_one_equation(
    other: list[float], value: float, bound: float, fixed: bool
) -> None:
    rows = [np.array([[3.0], [0.0]]), np.array(other)[:, None]]
    problem = FeasibilityProblem([sf.Free(1), sf.Nonneg(1)], rows, [value - bound, 1.0], [value, 2.0])
    small = presolve(problem)
    assert (len(small.problem.sets) == 1) is fixed
    if fixed:
        assert np.array_equal(small.point((np.ones(1),))[0], [value / 3.0])
        assert np.array_equal(small.multipliers(np.ones(1)), [0.0, 1.0])
