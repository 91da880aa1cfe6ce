"""Clarabel, SCS and whatever else cvxpy finds: right claims in every mode and form, limits, raw statuses."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

import sdpfeas as sf
from sdpfeas.backends import clarabel as clarabel_backend
from sdpfeas.backends import cvxpy as cvxpy_backend
from sdpfeas.backends import scs as scs_backend
from sdpfeas.backends.clarabel import CLARABEL_STOPS, Clarabel, set_up
from sdpfeas.backends.conic.conic_cost import SETUP_NUMBERS, interior_point_cost
from sdpfeas.backends.cvxpy import Cvxpy
from sdpfeas.backends.scs import Scs, read_scs
from sdpfeas.families import planted
from sdpfeas.numerics.limits import WRITE_FLOPS
from sdpfeas.numerics.linalg import svec_map
from sdpfeas.problem.conic_form import Cones, ConicForm
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import sign_violation
from sdpfeas.problem.rows import Dense

MIXES = planted.set_mixes()
FORMS = [(name, {"direct_form": form}) for name in ("clarabel", "scs") for form in ("primal", "dual")]
THROUGH_CVXPY = [("cvxpy", {"solver": "CLARABEL"}), ("cvxpy", {"solver": "SCS"})]
EVERY_WAY = [pytest.param(*way, id="-".join([way[0], *way[1].values()])) for way in FORMS + THROUGH_CVXPY]


def plant(truth: bool, mix: str, seed: int = 0, **how: Any) -> planted.Planted:
    how = {"margin": 1e-2, **how}
    make = planted.feasible if truth else planted.infeasible
    return make(np.random.default_rng([seed, truth]), MIXES[mix], **how)


# ---------------------------------------------------------------- right verdicts


@pytest.mark.parametrize(("name", "way"), EVERY_WAY)
@pytest.mark.parametrize("truth", [True, False], ids=["feasible", "infeasible"])
def test_every_set_in_every_way(name: str, way: dict[str, str], truth: bool) -> None:
    for seed, mix in enumerate(MIXES):
        item = plant(truth, mix, seed)
        result = sf.solve(item.problem, name, options=way)
        assert result.verdict is item.truth, (mix, result.raw_status, result.reason)
        assert result.raw_status
        assert result.iterations


@pytest.mark.parametrize("objective", ["none", "margin"])
@pytest.mark.parametrize("name", ["clarabel", "scs"])
def test_either_objective_decides_alone(name: str, objective: str) -> None:
    for truth in (True, False):
        for mix in ("psd", "box trace", "all"):
            item = plant(truth, mix, margin=0.1)
            assert sf.solve(item.problem, name, options={"objective": objective}).verdict is item.truth, (
                mix,
                truth,
            )


@pytest.mark.parametrize("storage", planted.MATRIX_STORAGE)
def test_every_storage_kind_is_handed_over_right(storage: str) -> None:
    rng = np.random.default_rng(5)
    rows = planted.random_rows(rng, sf.PSD(4), 6, storage)
    x = planted.symmetric(rng, 4)
    assert np.allclose(rows.to_csr() @ x.reshape(-1), rows.apply(x))
    for truth in (True, False):
        item = plant(truth, "psd nonneg", storage=storage)
        for name in ("clarabel", "scs"):
            assert sf.solve(item.problem, name).verdict is item.truth, name


@pytest.mark.parametrize(("name", "way"), EVERY_WAY)
@pytest.mark.parametrize(
    ("row", "lower", "upper", "sign"),
    [
        (1.0, -np.inf, -1.0, -1),
        (-1.0, 1.0, np.inf, 1),
        (1.0, -1.0, -1.0, -1),
        (-1.0, 1.0, 1.0, 1),
        (1.0, -3.0, -1.0, -1),
        (-1.0, 1.0, 3.0, 1),
    ],
)
def test_multipliers_have_our_signs(
    name: str, way: dict[str, str], row: float, lower: float, upper: float, sign: int
) -> None:
    """A positive multiplier uses the lower bound of its row, a negative one the upper."""
    eye = np.eye(2)[None]
    problem = sf.FeasibilityProblem([sf.PSD(2)], [row * eye], [lower], [upper])
    result = sf.solve(problem, name, options=way)
    assert result.verdict is sf.Verdict.INFEASIBLE
    assert np.sign(result.certificate[0]) == sign


@pytest.mark.parametrize("bounds", planted.BOUNDS)
def test_no_multiplier_uses_a_bound_that_is_not_there(bounds: str) -> None:
    for name in ("clarabel", "scs"):
        item = plant(False, "all", bounds=bounds)
        claim = sf.find_solver(name).make().solve(item.problem, sf.Inquiry(item.problem))
        assert claim.certificate is not None
        assert not sign_violation(item.problem, claim.certificate).any()


@pytest.mark.parametrize("name", ["clarabel", "scs"])
def test_all_ways_hand_in_claims_of_the_same_kind(name: str) -> None:
    for truth in (True, False):
        item = plant(truth, "psd free", margin=0.1)
        ways = [
            way for kind, way in FORMS + THROUGH_CVXPY if name == kind or way.get("solver") == name.upper()
        ]
        kinds = [name, name, "cvxpy"]
        backends = [
            sf.find_solver(kind).make(objective="margin", **way)
            for kind, way in zip(kinds, ways, strict=True)
        ]
        claims = [backend.solve(item.problem, sf.Inquiry(item.problem)) for backend in backends]
        assert {claim.certificate is None for claim in claims} == {truth}
        assert {claim.stop for claim in claims} == {sf.Stop.FINISHED}
        assert {claim.raw_status.split(";")[0].lower() for claim in claims} == {"solved"}
        assert np.ptp([claim.info["margin"] for claim in claims]) < 1e-4


# ---------------------------------------------------------------- WLDA


def iris() -> tuple[np.ndarray, np.ndarray]:
    data, target = load_iris(return_X_y=True)
    parts = [data[target == k] for k in range(3)]
    return np.array([p.mean(axis=0) for p in parts]), np.array([np.cov(p.T, bias=True) for p in parts])


def iris_problem(delta: float) -> sf.FeasibilityProblem:
    means, scatters = iris()
    rows = [sf.Stacked([sf.PairwiseDifference(means), Dense(-delta * scatters)]), [[-1.0]] * 3 + [[1.0]] * 3]
    sets = [sf.SpectralBox(4, trace=2), sf.Nonneg(1)]
    return sf.FeasibilityProblem(sets, rows, np.zeros(6), np.full(6, np.inf))


DELTA = 9.6254203


@pytest.mark.parametrize(("name", "way"), EVERY_WAY)
@pytest.mark.parametrize("apart", [1e-3, 1e-4])
def test_iris_on_both_sides_of_the_optimum(name: str, way: dict[str, str], apart: float) -> None:
    inside = sf.solve(iris_problem((1 - apart) * DELTA), name, options=way)
    outside = sf.solve(iris_problem((1 + apart) * DELTA), name, options=way)
    assert (inside.verdict, inside.proof) == (sf.Verdict.FEASIBLE, sf.Proof.RIGOROUS)
    assert (outside.verdict, outside.proof) == (sf.Verdict.INFEASIBLE, sf.Proof.RIGOROUS)


@pytest.mark.parametrize(
    ("backend", "accuracy"),
    [(Clarabel(), 1e-6), (Scs(), 1e-3), (Cvxpy(), 1e-6), (Cvxpy(solver="SCS", settings={"eps": 1e-6}), 1e-3)],
)
def test_iris_in_one_shot(backend: sf.FeasibilityBackend, accuracy: float) -> None:
    """Maximise t with the box scaled by tau: the value is the optimal ratio, and the multipliers bound it."""
    means, scatters = iris()
    rows = [
        sf.Stacked([sf.PairwiseDifference(means), Dense(scatters)]),
        [[-1.0]] * 3 + [[0.0]] * 3,
        None,
    ]
    problem = sf.FeasibilityProblem(
        [sf.SpectralBox(4, trace=2), sf.Nonneg(1), sf.Nonneg(1)],
        rows,
        [0, 0, 0, -np.inf, -np.inf, -np.inf],
        [np.inf, np.inf, np.inf, 1, 1, 1],
    )
    program = ConicProgram(problem, (np.zeros((4, 4)), np.ones(1), np.zeros(1)), scale=2)
    claim = backend.maximise(program, sf.Inquiry(program.problem))
    assert program.value(claim.point) == pytest.approx(DELTA, rel=accuracy)
    unit = claim.point[0] / claim.point[2]
    assert np.trace(unit) == pytest.approx(2, abs=1e-3)
    assert np.linalg.eigvalsh(unit)[-1] < 1 + 1e-3
    y = claim.certificate
    assert not sign_violation(problem, y).any()
    assert -problem.beta_terms(y).sum() == pytest.approx(DELTA, rel=max(accuracy, 1e-5))


# ---------------------------------------------------------------- posing


@pytest.mark.parametrize("triangle", ["lower", "upper"])
def test_svec_keeps_inner_products_and_the_order_of_the_solvers(triangle: str) -> None:
    t = svec_map(3, triangle)
    assert np.allclose((t.T @ t).toarray(), np.eye(6))
    a = np.arange(9.0).reshape(3, 3)
    a = a + a.T
    lower = [0, 1, 2, 1, 2, 2], [0, 0, 0, 1, 1, 2]
    upper = [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]
    i, j = lower if triangle == "lower" else upper
    scale = np.where(np.equal(i, j), 1.0, np.sqrt(2.0))
    assert np.allclose(t.T @ a.reshape(-1), scale * a[i, j])


def test_matrix_inequalities_with_and_without_slack_blocks() -> None:
    for truth in (True, False):
        item = planted.lmi(np.random.default_rng(3), 5, 2, truth=truth)
        for name, way in FORMS + THROUGH_CVXPY:
            assert sf.solve(item.problem, name, options=way).verdict is item.truth, (name, way)


def test_problems_that_need_no_solver() -> None:
    for name in ("clarabel", "scs", "cvxpy"):
        no_rows = sf.FeasibilityProblem([sf.PSD(2), sf.Free(1)], [None, None], [], [])
        assert sf.solve(no_rows, name).verdict is sf.Verdict.FEASIBLE
        against = sf.FeasibilityProblem([sf.PSD(2)], [np.zeros((1, 2, 2))], [1.0], [2.0])
        assert sf.solve(against, name).verdict is sf.Verdict.INFEASIBLE
        fixed = sf.FeasibilityProblem([sf.SpectralBox(2, trace=2)], [np.eye(2)[None]], [1.0], [3.0])
        assert sf.solve(fixed, name).verdict is sf.Verdict.FEASIBLE


def test_a_size_far_from_one_does_no_harm() -> None:
    """Blocks have units of their own, so a point of size 1e-5 or 1e5 is as good as any."""
    for factor in (1e-5, 1e5):
        for truth in (True, False):
            base = plant(truth, "psd nonneg").problem
            problem = sf.FeasibilityProblem(base.sets, base.rows, base.lower * factor, base.upper * factor)
            for name in ("clarabel", "scs"):
                verdict = sf.solve(problem, name).verdict
                assert verdict is (sf.Verdict.FEASIBLE if truth else sf.Verdict.INFEASIBLE), (name, factor)


# ---------------------------------------------------------------- limits


def hard() -> sf.FeasibilityProblem:
    rng = np.random.default_rng(5)
    return planted.feasible(rng, planted.set_mixes(14)["box trace"], rows=60, margin=1e-9).problem


LONG_CLARABEL = {
    "solver": "CLARABEL",
    "settings": {"tol_gap_abs": 1e-15, "tol_gap_rel": 1e-15, "tol_feas": 1e-15},
}
LONG_SCS = {"solver": "SCS", "settings": {"eps": 1e-15, "max_iters": 10**7}, "objective": "none"}


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("clarabel", {"tolerance": 1e-15}, "MaxTime"),
        ("scs", {"eps": 1e-15, "max_iterations": 10**7, "objective": "none"}, "time_limit_secs"),
        ("cvxpy", LONG_CLARABEL, "MaxTime"),
        ("cvxpy", LONG_SCS, "time_limit_secs"),
    ],
)
def test_time_limits_are_obeyed_and_named(
    name: str, options: dict[str, Any], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sf.solve(plant(True, "psd").problem, name)  # the first call pays for the imports
    result = sf.solve(hard(), name, time_limit=0.2, options=options)
    assert result.stop is sf.Stop.TIME_LIMIT
    # On a busy machine compiling alone may use up the limit; an iteration that does not fit is not begun.
    words = (word, "compiled", "out of time before")
    assert any(w in result.raw_status for w in words)
    assert result.wall_time < 1.1 * 0.2 + 0.5
    # The solver's own limit, for what was begun in spite of that.
    for module in (clarabel_backend, scs_backend, cvxpy_backend):
        monkeypatch.setattr(module, "solver_deadline", lambda cost, name, deadline: deadline)
    monkeypatch.setattr(cvxpy_backend, "guard", lambda *_, **__: None)
    result = sf.solve(hard(), name, time_limit=0.2, options=options)
    assert result.stop is sf.Stop.TIME_LIMIT
    assert any(w in result.raw_status for w in (word, "compiled", "compiler"))


@pytest.mark.parametrize(("name", "word"), [("clarabel", "MaxIterations"), ("scs", "max_iters")])
def test_iteration_limits_are_named(name: str, word: str) -> None:
    problem = iris_problem(DELTA)
    backend = sf.find_solver(name).make(max_iterations=1, objective="none")
    claim = backend.solve(problem, sf.Inquiry(problem))
    assert claim.stop is sf.Stop.ITERATION_LIMIT
    assert word in claim.raw_status
    assert claim.point is not None


def test_an_expired_deadline_leaves_no_time_to_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdpfeas.deadline.Deadline.expired", True)
    problem = plant(True, "psd").problem
    claim = Cvxpy().solve(problem, sf.Inquiry(problem))
    assert claim.stop is sf.Stop.TIME_LIMIT
    assert claim.point is None


# ---------------------------------------------------------------- raw statuses and failures


@pytest.mark.parametrize(("solver", "word"), [("CLARABEL", "Solved"), ("SCS", "solved")])
def test_the_raw_status_survives_a_solver_error(
    solver: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cvxpy as cp

    def fail(*_: Any) -> None:
        raise cp.error.SolverError("planted failure")

    monkeypatch.setattr(cp.Problem, "unpack_results", fail)
    result = sf.solve(plant(True, "psd").problem, "cvxpy", options={"solver": solver, "objective": "none"})
    assert result.verdict is sf.Verdict.UNDECIDED
    assert word in result.raw_status
    assert "planted failure" in result.raw_status


def test_a_panic_in_rust_costs_one_answer_only(monkeypatch: pytest.MonkeyPatch) -> None:
    import clarabel

    class PanicException(BaseException):
        pass

    def panic(*_: Any) -> None:
        raise PanicException("eigenvalues")

    monkeypatch.setattr(clarabel, "DefaultSolver", panic)
    for name in ("clarabel", "cvxpy"):
        result = sf.solve(plant(True, "psd").problem, name)
        assert result.verdict is sf.Verdict.UNDECIDED
        assert result.stop is sf.Stop.NUMERICAL
        assert "panic: eigenvalues" in result.raw_status


def test_numerical_trouble_in_one_form_brings_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    solve, calls = Clarabel.solve_cones_on_rows, []

    def trouble_first(self: Clarabel, form: Any, deadline: Any) -> Any:
        answer = solve(self, form, deadline)
        calls.append(form)
        if len(calls) == 1:
            return replace(answer, x=None, z=None, raw_status="NumericalError", stop=sf.Stop.NUMERICAL)
        return answer

    monkeypatch.setattr(Clarabel, "solve_cones_on_rows", trouble_first)
    item = plant(True, "psd")
    result = sf.solve(item.problem, "clarabel", options={"objective": "none"})
    assert result.verdict is sf.Verdict.FEASIBLE
    assert len(calls) == 2
    assert "NumericalError (dual form), then Solved" in result.raw_status


@pytest.mark.parametrize("name", ["clarabel", "cvxpy"])
def test_an_interrupt_passes_through(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import clarabel

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(clarabel, "DefaultSolver", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sf.solve(plant(True, "psd").problem, name)


def test_scs_owns_up_to_an_interrupt() -> None:
    solution = {"info": {"status_val": -5, "status": "interrupted", "iter": 3}, "x": [], "y": []}
    with pytest.raises(KeyboardInterrupt):
        read_scs(solution)


def test_every_status_of_clarabel_is_known() -> None:
    import clarabel

    kind = clarabel.SolverStatus
    words = {str(getattr(kind, name)) for name in dir(kind) if name[0].isupper()}
    assert words - set(CLARABEL_STOPS) <= {"Unsolved", "CallbackTerminated"}


# ---------------------------------------------------------------- cvxpy with any solver


def through_cvxpy(solver: str) -> sf.Solver:
    """As a card would say it."""
    return replace(sf.find_solver("cvxpy"), options={"solver": solver})


@pytest.mark.parametrize(("solver", "setting"), [("CLARABEL", "max_iter"), ("scs", "max_iters")])
def test_cvxpy_takes_its_solver_by_name(solver: str, setting: str) -> None:
    for truth in (True, False):
        item = plant(truth, "all")
        result = sf.solve(item.problem, through_cvxpy(solver), options={"settings": {setting: 5000}})
        assert result.verdict is item.truth, result.raw_status


@pytest.mark.parametrize("solver", ["NO_SUCH_SOLVER", "MOSEK_BY_ANOTHER_NAME", "OSQP"])
def test_a_missing_solver_is_named_with_those_there_are(solver: str) -> None:
    result = sf.solve(plant(True, "psd").problem, through_cvxpy(solver))
    assert result.stop is sf.Stop.ERROR
    assert solver in result.raw_status
    assert "CLARABEL" in result.raw_status
    assert "SCS" in result.raw_status


# ---------------------------------------------------------------- options and imports


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("clarabel", {"direct_form": "any"}, "direct_form"),
        ("clarabel", {"tolerance": 0.0}, "tolerance"),
        ("clarabel", {"max_iterations": 0}, "max_iterations"),
        ("clarabel", {"tolerence": 1e-8}, "tolerance"),
        ("scs", {"eps": -1.0}, "eps"),
        ("scs", {"direct_form": "both"}, "direct_form"),
        ("scs", {"max_iterations": 1.5}, "max_iterations"),
        ("cvxpy", {"solver": 3}, "solver"),
        ("cvxpy", {"settings": "fast"}, "settings"),
    ],
)
def test_bad_options_are_refused_by_name(name: str, options: dict[str, Any], word: str) -> None:
    with pytest.raises(sf.OptionError, match=word):
        sf.find_solver(name).make(**options)


@pytest.mark.parametrize("card", ["clarabel-direct", "clarabel-cvxpy", "scs-direct", "scs-accurate"])
def test_the_cards_work(card: str) -> None:
    for truth in (True, False):
        item = plant(truth, "box nonneg", margin=0.1)
        assert sf.solve(item.problem, card).verdict is item.truth


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, sdpfeas as sf; sf.backends(); "
        "bad = {'cvxpy', 'clarabel', 'scs'} & set(sys.modules); assert not bad, bad"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("edges", [38, 90, 400, 741])
def test_the_cliques_of_sparse_matrices_are_counted(edges: int) -> None:
    """Clarabel splits a matrix into the cliques of its entries; its set-up takes time per pair of those."""
    n, rng = 38, np.random.default_rng(5)
    filled = rng.permutation(n * (n + 1) // 2)[:edges]
    matrix = sp.csc_array((np.ones(edges), (filled, np.arange(edges))), (n * (n + 1) // 2, edges))
    rhs = np.zeros(matrix.shape[0])
    form = ConicForm.free_variables(np.zeros(edges), matrix, rhs, Cones(semidefinite=(n,)))
    counted = interior_point_cost(form).setup / (WRITE_FLOPS * SETUP_NUMBERS)
    assert 0.25 < counted / set_up(form, max_threads=1).get_info().linsolver.nnzL < 2.0
