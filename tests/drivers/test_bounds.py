"""``bound=``: what is infeasible within a bound is proved, named, stored and audited as that, not as more."""

from __future__ import annotations

import contextlib
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding, audit
from sdpfeas.cli.app import app
from sdpfeas.errors import ClaimError, NotProved, ProblemError
from sdpfeas.families import planted
from sdpfeas.io.result_files import SavedResult, load_result, pack_result, save_result, unpack_result
from tests.verifier.test_excluded_radius import MIXES, as_lmis, as_rows, norm, units, unstable

FORMS = [as_rows, as_lmis]


def system(n: int, form=as_lmis) -> sf.FeasibilityProblem:
    """Return an unstable Lyapunov system, infeasible without a robust certificate."""
    return form(unstable(np.random.default_rng([32, n]), n))


def large(size: float) -> sf.FeasibilityProblem:
    """Return ``x >= size``, feasible from ``size`` on."""
    return sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[1.0]])], [size], [np.inf])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_unstable_systems_are_infeasible_within_a_bound(n, form):
    problem = system(n, form)
    result = sf.solve(problem, bound=1e6, rigorous=True)
    assert result.verdict == "infeasible"
    assert result.bound == 1e6
    assert result.problem == problem.bounded(1e6)
    assert audit(result.problem, result).finding is Finding.CONFIRMED
    assert "within the bound 1e+06" in sf.certify(result).statement
    texts = [repr(result), repr(result.check), result.explain(), result._repr_html_()]
    assert all("INFEASIBLE within the bound 1e+06" in text for text in texts)


@pytest.mark.parametrize("mix", MIXES)
def test_a_feasible_problem_is_so_without_the_bound(mix):
    rng = np.random.default_rng([12, MIXES.index(mix)])
    case = planted.feasible(rng, planted.set_mixes(1)[mix], bounds="inequality")
    assert case.point is not None
    result = sf.solve(case.problem, bound=2.0 * norm(case.problem, case.point) + 1.0, rigorous=True)
    assert result.verdict == "feasible"
    assert result.problem is case.problem
    assert result.bound is None
    assert "within" not in repr(result)
    assert sf.verify(case.problem, result, rigorous=True).verdict == "feasible"


@pytest.mark.parametrize("mix", MIXES)
def test_a_certificate_that_needs_no_bound_is_one_without(mix):
    rng = np.random.default_rng([13, MIXES.index(mix)])
    problem = planted.infeasible(rng, planted.set_mixes(1)[mix], margin=0.1).problem
    result = sf.solve(problem, bound=1e9, rigorous=True)
    assert result.verdict == "infeasible"
    assert result.problem is problem
    assert "within" not in result.explain()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e5])
def test_points_beyond_the_bound_do_not_count(size):
    problem = large(size)
    below, above = sf.solve(problem, bound=0.9 * size), sf.solve(problem, bound=1.1 * size)
    assert (below.verdict, above.verdict) == ("infeasible", "feasible")
    assert below.bound == 0.9 * size
    assert sf.solve(problem).verdict == "feasible"


def test_blocks_have_bounds_of_their_own():
    builder = sf.ProblemBuilder()
    builder.block("x", sf.Free(2))
    builder.block("Y", sf.PSD(2))
    builder.block("Z", sf.SpectralBox(2, 0, 1))
    builder.row("sum", {"x": [1.0, 1.0], "Y": np.eye(2)}, lower=10.0)
    problem = builder.build()
    assert sf.solve(problem, bound={"x": 1.0}).verdict == "feasible"
    assert sf.solve(problem, bound={"x": 1.0, "Y": 20.0}).verdict == "feasible"
    both = sf.solve(problem, bound={1: 1.0, "x": 1.0})
    assert both.verdict == "infeasible"
    assert both.bound == {"Y": 1.0, "x": 1.0}
    assert "INFEASIBLE within the bounds Y: 1, x: 1 (" in repr(both)
    saved = unpack_result(pack_result(both))
    assert saved.about(problem) == both.problem
    for wrong in ({"y": 1.0}, {5: 1.0}, {"Z": 1.0}, {}, {"x": -1.0}, 0.0, np.nan, np.inf, "1", True):
        with pytest.raises(ProblemError):
            sf.solve(problem, bound=wrong)


def test_bounded_sets_take_no_bound():
    problem = sf.FeasibilityProblem([sf.SpectralBox(2, 0, 1)], [np.eye(2)[None]], [3.0], [np.inf])
    result = sf.solve(problem, bound=1e6)
    assert result.verdict == "infeasible"
    assert result.bound is None


def test_a_pickled_problem_keeps_its_bound():
    problem = system(3).bounded(1e6)
    again = pickle.loads(pickle.dumps(problem))
    assert again == problem
    assert str(again.bound) == "the bound 1e+06"
    assert again.bound.original == problem.bound.original


@pytest.mark.parametrize("number", [1e6, 123456789.0, 0.1, 1e-300, 1e300])
def test_the_shown_bound_is_not_rounded(number):
    text = str(large(1.0).bounded(number).bound).removeprefix("the bound ")
    assert float(text) == number


def test_an_isolated_backend_and_a_warm_start_know_the_bound():
    problem = system(3)
    first = sf.solve(problem, bound=1e6, isolate=True)
    assert first.verdict == "infeasible"
    again = sf.solve(problem, bound=1e6, warm_start=first)
    assert again.verdict == "infeasible"


# ---------------------------------------------------------------- unstable systems of many kinds


def companion(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw a companion matrix with stable and unstable modes."""
    while True:
        a = np.diag(np.ones(n - 1), 1)
        a[-1] = rng.normal(size=n)
        real = np.linalg.eigvals(a).real
        if real.min() < -0.1 and real.max() > 0.1:
            return a


def nearly_defective(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw a matrix whose eigenvalues are near 1 and -1, in long Jordan blocks."""
    signs = np.r_[1.0, -1.0, rng.choice([-1.0, 1.0], n - 2)]
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    steps = np.diag(rng.uniform(0.5, 3.0, n - 1), 1)
    return q @ (np.diag(signs + 1e-4 * rng.normal(size=n)) + steps) @ q.T


def badly_scaled(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw a system in units that differ by up to 1e4."""
    t = 10.0 ** rng.uniform(-2, 2, n)
    return unstable(rng, n) * t[:, None] / t


KINDS = {
    "random": unstable,
    "companion": companion,
    "nearly defective": nearly_defective,
    "badly scaled": badly_scaled,
    "slow": lambda rng, n: 1e-3 * unstable(rng, n),
    "fast": lambda rng, n: 1e3 * unstable(rng, n),
}


def check_both_ways(problem: sf.FeasibilityProblem) -> None:
    """Require a proof within a bound, confirmed by the audit, and a large excluded radius without."""
    within = sf.solve(problem, bound=1e6, rigorous=True)
    assert within.verdict == "infeasible"
    assert audit(within.problem, within).finding is Finding.CONFIRMED
    without = sf.solve(problem, rigorous=True)
    assert without.verdict == "infeasible" or without.excluded_radius >= 1e6
    assert without.verdict != "feasible"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_unstable_systems(kind, form):
    check_both_ways(form(KINDS[kind](np.random.default_rng(33), 3)))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8])
def test_all_unstable_systems(kind, form, n):
    for seed in range(33 if kind in ("random", "companion") else 4):
        check_both_ways(form(KINDS[kind](np.random.default_rng([34, n, seed]), n)))


@pytest.mark.parametrize("n", [2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_unstable_systems_in_discrete_time(n):
    """``P >= I, P - A'PA >= 0`` with a spectral radius of 1.2."""
    rng = np.random.default_rng([35, n])
    a = rng.normal(size=(n, n))
    a *= 1.2 / np.abs(np.linalg.eigvals(a)).max()
    basis = np.array(units(n))
    images = np.array([e - a.T @ e @ a for e in basis])
    lmis = [
        sf.LMI(sf.PSD(n), -np.eye(n), [basis], "P >= I"),
        sf.LMI(sf.PSD(n), np.zeros((n, n)), [(images + images.transpose(0, 2, 1)) / 2], "Stein"),
    ]
    check_both_ways(sf.FeasibilityProblem([sf.Free(len(basis))], [None], [], [], lmis=lmis))


# ---------------------------------------------------------------- attacks: the bound is forgotten


@pytest.mark.parametrize("form", FORMS)
def test_a_certificate_for_the_bounded_problem_proves_nothing_without_the_bound(form):
    """The multipliers, cut to the rows of the unbounded problem in every way that has its shape."""
    feasible = form(np.array([[-1.0, 3.0], [0.0, -2.0]]))
    near = sf.solve(feasible, bound=1.0, rigorous=True)
    assert near.verdict == "infeasible"
    assert sf.solve(feasible).verdict == "feasible"
    y, count = near.certificate, feasible.multiplier_count
    with pytest.raises(ClaimError):
        sf.verify(feasible, near)
    for cut in (near.problem.bound.multipliers(y), y[:count], y[-count:]):
        for settings in ({"rigorous": True}, {"exact": True}, {}):
            assert sf.verify(feasible, sf.Claim(certificate=cut), **settings).verdict == "undecided"


@pytest.mark.parametrize("form", FORMS)
def test_a_stored_answer_without_its_bound_is_refused(form, tmp_path: Path):
    feasible = form(np.array([[-1.0, 3.0], [0.0, -2.0]]))
    near = sf.solve(feasible, bound=1.0, rigorous=True)
    saved = SavedResult.of(near)
    assert audit(feasible, saved).finding is Finding.CONFIRMED
    assert "within" in sf.certify(saved, feasible).statement
    forged = [
        replace(saved, bound=None),
        replace(saved, bound=1e6),
        replace(saved, bound=None, problem_hash=feasible.content_hash),
        replace(
            saved,
            bound=None,
            problem_hash=feasible.content_hash,
            certificate=near.problem.bound.multipliers(near.certificate),
        ),
        replace(saved, bound=1e6, problem_hash=feasible.bounded(1e6).content_hash),
    ]
    feasible.save(tmp_path / "p.npz")
    for wrong in forged:
        save_result(wrong, tmp_path / "a.npz")
        for command in ("verify", "audit"):
            arguments = [command, str(tmp_path / "p.npz"), str(tmp_path / "a.npz"), "--json"]
            done = CliRunner().invoke(app, arguments)
            assert '"confirmed"' not in done.output
            assert '"verdict": "infeasible"' not in done.output or command == "audit"
        for ask in (lambda a: audit(feasible, a).finding, lambda a: sf.certify(a, feasible).statement):
            with contextlib.suppress(ClaimError, NotProved):
                assert ask(wrong) in (Finding.NOT_CONFIRMED, Finding.REFUTED)


def test_evidence_of_the_bounded_problem_does_not_fit_the_other(tmp_path: Path):
    problem = system(2, as_rows)
    evidence = sf.certify(sf.solve(problem, bound=1e6))
    assert len(evidence.problem["rows"]) == problem.m + 2
    other = sf.certify(sf.solve(problem.bounded(1e6))).problem
    assert evidence.problem == other
    refused = {"format": "sdpfeas evidence 1", **evidence.document}
    rows = evidence.problem["rows"][: problem.m]
    with pytest.raises(sf.sdpcheck.Refused):
        sf.sdpcheck.check({**evidence.problem, "rows": rows}, refused)


# ---------------------------------------------------------------- files, command line, studies


def test_the_command_line_names_the_bound(tmp_path: Path):
    problem, asked, answer = system(3), str(tmp_path / "p.npz"), str(tmp_path / "a.npz")
    problem.save(asked)
    solve = ["solve", asked, "--bound", "1e6"]
    words = "INFEASIBLE within the bound 1e+06 (rigorous proof)"
    assert words in CliRunner().invoke(app, [*solve, "-o", answer]).output
    described = json.loads(CliRunner().invoke(app, [*solve, "--json"]).output)
    assert (described["verdict"], described["within"]) == ("infeasible", "the bound 1e+06")
    assert words in CliRunner().invoke(app, ["verify", asked, answer]).output
    done = CliRunner().invoke(app, ["audit", asked, answer])
    assert done.exit_code == 0
    assert words in done.output
    evidence = str(tmp_path / "e.json")
    assert "the bound 1e+06" in CliRunner().invoke(app, ["certify", asked, answer, "-o", evidence]).output
    assert CliRunner().invoke(app, ["check", evidence]).exit_code == 0
    assert load_result(answer).bound == 1e6


def test_a_card_and_a_study_take_a_bound(tmp_path: Path):
    system(3).save(tmp_path / "p.npz")
    card, study = tmp_path / "within.toml", tmp_path / "s.db"
    card.write_text('file = "p.npz"\nbound = 1e6\n')
    compared = ["compare", "--solvers", "auto", "--problems", str(card), "--out", str(study)]
    done = CliRunner().invoke(app, [*compared, "--keep-evidence", "--time-limit", "20"])
    assert done.exit_code == 0, done.output
    assert "within[bound=1e+06]" in done.output
    done = CliRunner().invoke(app, ["audit", str(card), str(study)])
    assert done.exit_code == 0, done.output
    assert "INFEASIBLE within the bound 1e+06 (rigorous proof)" in done.output
