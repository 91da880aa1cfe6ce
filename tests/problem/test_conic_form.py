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


def solved(form):
    cones = [clarabel.ZeroConeT(form.zero), clarabel.NonnegativeConeT(form.nonneg)]
    cones += [clarabel.SecondOrderConeT(n) for n in form.second_order]
    cones += [clarabel.PSDTriangleConeT(n) for n in form.semidefinite]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    n = form.matrix.shape[1]
    start = sp.csc_array((n, n)), np.zeros(n)
    return clarabel.DefaultSolver(*start, form.matrix, form.rhs, cones, settings).solve()


@pytest.mark.parametrize("triangle", ["lower", "upper"])
@pytest.mark.parametrize("mix", sorted(planted.set_mixes()))
def test_points_there_and_back(mix: str, triangle: str) -> None:
    rng = np.random.default_rng(5)
    case = planted.feasible(rng, planted.set_mixes()[mix])
    form = case.problem.to_conic(triangle)
    point = case.problem.point(case.claim.point)
    x = form.start_point(point)
    for mine, back in zip(point, form.point(x), strict=True):
        assert np.allclose(mine, back)
    assert outside(form, form.rhs - form.matrix @ x) <= 1e-7 * max(1.0, float(np.abs(x).max()))


@pytest.mark.parametrize("mix", sorted(planted.set_mixes()))
def test_rays_are_certificates(mix: str) -> None:
    rng = np.random.default_rng(6)
    case = planted.infeasible(rng, planted.set_mixes()[mix])
    form = case.problem.to_conic("upper")
    found = solved(form)
    assert "PrimalInfeasible" in str(found.status)
    check = sf.verify(case.problem, sf.Claim(certificate=form.multipliers(np.array(found.z))))
    assert check.verdict == "infeasible"


@pytest.mark.parametrize("seed", range(4))
def test_lmis(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets, targets = [sf.Free(3), sf.PSD(2)], [sf.PSD(3), sf.Nonneg(2), sf.PSD(2)]
    for plant, verdict in ((feasible_lmis, "feasible"), (infeasible_lmis, "infeasible")):
        problem = plant(rng, sets, targets).problem
        form = problem.to_conic("upper")
        found = solved(form)
        claim = sf.Claim(form.point(np.array(found.x)), form.multipliers(np.array(found.z)))
        assert sf.verify(problem, claim).verdict == verdict


def test_an_lmi_in_a_box_is_refused() -> None:
    lmi = sf.LMI(sf.SpectralBox(2), np.eye(2), [np.eye(2)[None]])
    problem = sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[lmi])
    with pytest.raises(sf.ProblemError, match="two multipliers"):
        problem.to_conic()


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
