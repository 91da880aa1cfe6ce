"""The standard form of cone solvers says what the problem says, and evidence comes back from it."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.families.planted import feasible_lmis, infeasible_lmis
from sdpfeas.numerics.linalg import svec_map
from sdpfeas.problem.conic_form import ENTRIES, SVEC, Cones, ConicForm, conic_form


def outside(form, s) -> float:
    """How far ``s`` is outside its cones."""
    worst = float(np.max(np.abs(s[: form.zero]), initial=0.0))
    worst = max(worst, float(np.max(-s[form.zero : form.zero + form.nonneg], initial=0.0)))
    at = form.zero + form.nonneg
    for n in form.second_order:
        worst, at = max(worst, float(np.linalg.norm(s[at + 1 : at + n]) - s[at])), at + n
    for n in form.semidefinite:
        size = n * (n + 1) // 2
        matrix = (svec_map(n, form.triangle) @ s[at : at + size]).reshape(n, n)
        worst, at = max(worst, -float(np.linalg.eigvalsh(matrix)[0])), at + size
    assert at == s.size
    return worst


def solved(form, pack=None):
    cones = [clarabel.ZeroConeT(form.zero), clarabel.NonnegativeConeT(form.nonneg)]
    cones += [clarabel.SecondOrderConeT(n) for n in form.second_order]
    cones += [clarabel.PSDTriangleConeT(n) for n in form.semidefinite]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    n = form.matrix.shape[1]
    start = sp.csc_array((n, n)), np.zeros(n)
    pack = sp.eye_array(form.rhs.size, format="csc") if pack is None else pack
    data = sp.csc_array(pack @ form.matrix), pack @ form.rhs
    return clarabel.DefaultSolver(start[0], form.cost, *data, cones, settings).solve()


@pytest.mark.parametrize("mix", sorted(planted.set_mixes()))
def test_solutions_are_points(mix: str) -> None:
    rng = np.random.default_rng(5)
    case = planted.feasible(rng, planted.set_mixes()[mix])
    form = case.problem.to_conic("upper")
    found = solved(form)
    assert "Solved" in str(found.status)
    x = np.array(found.x)
    assert outside(form, form.rhs - form.matrix @ x) <= 1e-5 * max(1.0, float(np.abs(x).max()))
    assert sf.verify(case.problem, sf.Claim(form.point(x))).verdict == "feasible"


def test_the_dual_of_the_dual_is_the_form() -> None:
    form = conic_form(planted.feasible(np.random.default_rng(0), planted.set_mixes()["all"]).problem)
    form = form.with_margin()
    again = form.dual().dual()
    assert abs(again.matrix - form.matrix).max() == 0.0
    assert (again.rows, again.columns, again.weights) == (form.rows, form.columns, form.weights)
    assert np.array_equal(again.rhs, form.rhs)
    assert np.array_equal(again.cost, form.cost)
    assert form.cones_on_rows().columns == Cones(free=form.columns.size)
    assert form.cones_on_columns().rows == Cones(free=form.rows.size)


@pytest.mark.parametrize("weights", [SVEC, ENTRIES])
@pytest.mark.parametrize("shape", ["rows", "dual", "columns", "columns of the dual"])
def test_every_shape_decides_the_problem(shape: str, weights: tuple[float, float]) -> None:
    rng = np.random.default_rng(8)
    sets, targets = (
        [sf.PSD(3), sf.Free(2), sf.SecondOrder(3)],
        [sf.PSD(2), sf.SecondOrder(3), sf.SpectralBox(2)],
    )
    for plant, verdict in ((feasible_lmis, "feasible"), (infeasible_lmis, "infeasible")):
        problem = plant(rng, sets, targets).problem
        form = conic_form(problem, "upper", weights=weights)
        form = {"rows": form, "dual": form.dual(), "columns": form.cones_on_columns()}.get(
            shape, form.dual().cones_on_columns()
        )
        form = form.cones_on_rows()
        pack = sp.block_diag([np.eye(form.rows.before_psd), *(svec(n, form) for n in form.semidefinite)])
        found = solved(form, sp.csc_array(pack))
        claim = sf.Claim(*form.evidence(np.array(found.x), pack.T @ np.array(found.z)))
        assert sf.verify(problem, claim).verdict == verdict


def svec(n: int, form: ConicForm) -> np.ndarray:
    """The factors between the entries of a form and those that Clarabel takes."""
    i, j = np.tril_indices(n)
    return np.diag(np.where(i == j, 1.0, np.sqrt(2.0) * form.weights[0]))


@pytest.mark.parametrize("mix", sorted(planted.set_mixes()))
def test_rays_are_certificates(mix: str) -> None:
    rng = np.random.default_rng(6)
    case = planted.infeasible(rng, planted.set_mixes()[mix])
    form = case.problem.to_conic("upper")
    found = solved(form)
    assert "PrimalInfeasible" in str(found.status)
    check = sf.verify(case.problem, sf.Claim(certificate=form.multipliers(np.array(found.z))))
    assert check.verdict == "infeasible"


@pytest.mark.parametrize("block", [sf.PSD(2), sf.HermitianPSD(2)])
@pytest.mark.parametrize("seed", range(4))
def test_lmis(seed: int, block: sf.BlockSet) -> None:
    rng = np.random.default_rng(seed)
    sets, targets = [sf.Free(3), block], [sf.PSD(3), sf.Nonneg(2), block]
    for plant, verdict in ((feasible_lmis, "feasible"), (infeasible_lmis, "infeasible")):
        problem = plant(rng, sets, targets).problem
        form = problem.to_conic("upper")
        found = solved(form)
        claim = sf.Claim(form.point(np.array(found.x)), form.multipliers(np.array(found.z)))
        assert sf.verify(problem, claim).verdict == verdict


@pytest.mark.parametrize(("row", "verdict"), [(0.5, "feasible"), (1.5, "infeasible"), (-1.5, "infeasible")])
def test_an_lmi_in_a_box_has_one_multiplier(row: float, verdict: str) -> None:
    lmi = sf.LMI(sf.SpectralBox(2), np.eye(2) / 2, [np.eye(2)[None]])
    problem = sf.FeasibilityProblem([sf.Free(1)], [[[2.0]]], [row], [row], lmis=[lmi])
    form = problem.to_conic("upper")
    found = solved(form)
    claim = sf.Claim(form.point(np.array(found.x)), form.multipliers(np.array(found.z)))
    assert sf.verify(problem, claim).verdict == verdict
    for name in ("clarabel", "scs"):
        assert sf.solve(problem, name).verdict == verdict


def test_wrong_shapes() -> None:
    form = sf.FeasibilityProblem([sf.PSD(2)], [None], [], []).to_conic()
    for ask in (form.point, form.multipliers):
        with pytest.raises(sf.ClaimError, match="expected"):
            ask(np.zeros(7))


def test_it_shows_itself_in_a_line() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    assert repr(problem.to_conic()) == (
        "ConicForm: 4 rows, 3 columns, 5 nonzeros; zero 1, nonneg 0, 0 second-order, 1 semidefinite (lower)"
    )
