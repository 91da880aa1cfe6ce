"""cvxpy models, asked like problems and answered in their own terms."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.cvxpy_models import convert
from sdpfeas.cvxpy_models.constraints import describe_constraint


def model(least: float) -> tuple[cp.Problem, dict[str, Any]]:
    """tr X <= 1 (the budget) against X11 + t >= least; t <= 1/2, and two functions that do not matter."""
    X = cp.Variable((3, 3), PSD=True, name="X")
    z, t = cp.Variable(2, nonneg=True, name="z"), cp.Variable(name="t")
    level = cp.Parameter(value=least, name="level")
    constraints = [
        (cp.trace(X) <= 1).set_label("budget"),
        X[0, 0] + t >= level,
        cp.norm(z) <= t,
        t <= 0.5,
        X << 5 * np.eye(3),
    ]
    parts = {"X": X, "z": z, "t": t, "level": level, "constraints": constraints}
    return cp.Problem(cp.Minimize(cp.trace(X)), constraints), parts


def test_a_feasible_model_has_its_values_set() -> None:
    problem, parts = model(1.0)
    result = sf.solve(problem)
    assert (result.verdict, result.proof) == ("feasible", "rigorous")
    assert max(float(np.max(c.violation())) for c in problem.constraints) <= 1e-8
    assert result["t"] == pytest.approx(parts["t"].value)
    assert np.array_equal(result[parts["X"]], parts["X"].value)
    assert "objective is ignored (sf.optimum brackets it)" in result.explain()
    with pytest.raises(sf.ClaimError, match="no variable of the model is 'T'"):
        result["T"]
    # Whoever set them, values are verified.
    assert sf.verify(problem, rigorous=True).verdict == "feasible"
    assert "the point was repaired" not in sf.verify(problem).reason
    parts["t"].value = 0.6  # beyond its bound; there is a point, but not this one
    check = sf.verify(problem)
    assert check.verdict == "undecided" or "the point was repaired" in check.reason
    assert sf.verify(problem, repair=False).verdict == "undecided"
    with pytest.raises(sf.ClaimError, match="nothing to verify"):
        sf.verify(model(1.0)[0])


def test_an_infeasible_model_names_its_constraints() -> None:
    problem, parts = model(3.0)
    result = sf.solve(problem)
    assert (result.verdict, result.proof) == ("infeasible", "rigorous")
    entries = result.conflict()
    assert sum(entry.weight for entry in entries) == pytest.approx(1.0)
    assert [e.weight for e in entries] == sorted((e.weight for e in entries), reverse=True)
    small = result.conflict(prune=True)
    names = {entry.name for entry in small}
    assert names == {"budget", "X[0, 0] + t >= level", "t <= 0.5", "X >> 0 (PSD of the variable)"}
    by_name = {entry.name: entry for entry in small}
    assert by_name["budget"].constraint is parts["constraints"][0]
    assert by_name["X >> 0 (PSD of the variable)"].variable is parts["X"]
    text = result.explain(prune=True)
    assert "conflicting constraints (4), heaviest first" in text
    assert all(name in text for name in names)
    assert "budget" in result._repr_html_()


def test_dual_values_hold_the_certificate() -> None:
    problem, parts = model(3.0)
    result = sf.solve(problem)
    budget, least, _, cap, box = (c.dual_value for c in parts["constraints"])
    assert result.multiplier("budget") == budget > 0.0
    assert result.multiplier(parts["constraints"][3]) == cap
    assert box.shape == (3, 3)
    # Weighted, the constraints contradict each other: 3·least > budget + cap/2 + 5·tr(box) says no point.
    assert 3.0 * least > budget + 0.5 * cap + 5.0 * np.trace(box)
    assert np.linalg.eigvalsh(budget * np.eye(3) + box - least * np.diag([1.0, 0, 0]))[0] >= -1e-7
    assert parts["X"].value is None
    assert sf.verify(problem).verdict == "infeasible"
    with pytest.raises(sf.ClaimError, match="no constraint of the model is 'bugdet'; did you mean 'budget'"):
        result.multiplier("bugdet")


def test_loosening() -> None:
    result = sf.solve(model(3.0)[0])
    advice = {each.name: each for each in result.loosen()}
    for name, amount in (("budget", 1.5), ("t <= 0.5", 1.5), ("X >> 0 (PSD of the variable)", 0.75)):
        assert advice[name].lower <= amount <= advice[name].upper
        assert advice[name].upper == pytest.approx(amount, rel=2e-3)
        assert advice[name].upper - advice[name].lower <= 1e-3 * advice[name].upper
    assert str(advice["budget"]) == f"loosen `budget` by {advice['budget'].upper:.4g}"
    assert "does not help" in str(advice["norm(z) <= t"])
    assert result.loosen(time_limit=1e-3) == [] or len(result.loosen(time_limit=1e-3)) <= 5
    assert sf.solve(model(1.0)[0]).loosen() == []


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
def test_what_other_solvers_left_is_verified(solver: str) -> None:
    problem, parts = model(1.0)
    # The least trace lies on the boundary, where it is luck whether what a solver leaves can be proved.
    X, z, t, room = parts["X"], parts["z"], parts["t"], cp.Variable()
    inside = [X >> room * np.eye(3), cp.trace(X) <= 1 - room, X[0, 0] + t >= 1 + room]
    inside += [z >= room, cp.norm(z) <= t - room, t <= 0.5 - room]
    cp.Problem(cp.Maximize(room), inside).solve(solver=solver)
    assert sf.verify(problem).verdict == "feasible"
    parts["level"].value = 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=solver)
    check = sf.verify(problem)
    assert check.verdict == "infeasible"
    assert "budget" in {entry.name for entry in check.conflict()}


def test_hermitian_witness() -> None:
    """The dual value of a violated partial transpose is an entanglement witness."""
    bell = np.zeros((4, 4))
    bell[np.ix_([0, 3], [0, 3])] = 0.5
    rho = cp.Variable((4, 4), hermitian=True, name="rho")
    positive = (cp.partial_transpose(rho, (2, 2), 1) >> 0).set_label("PPT")
    problem = cp.Problem(cp.Minimize(0), [rho == bell, positive])
    result = sf.solve(problem)
    assert result.verdict == "infeasible"
    conflict = result.conflict(prune=True)
    assert {e.name.partition(" == ")[0] for e in conflict} == {"PPT", "rho"}
    witness = positive.dual_value
    assert np.allclose(witness, witness.conj().T)
    assert np.linalg.eigvalsh(witness)[0] >= -1e-7
    moved = bell.reshape(2, 2, 2, 2).transpose(0, 3, 2, 1).reshape(4, 4)
    assert np.real(np.trace(witness @ moved)) < 0.0


def test_dual_values_of_hermitian_equations_are_hermitian() -> None:
    """Equal and opposite rows share the multiplier of the one that is kept."""
    H, S = cp.Variable((2, 2), hermitian=True), cp.Variable((3, 3), symmetric=True)
    B = np.array([[1.0, 1.0 + 1.0j], [1.0 - 1.0j, 0.5]])
    C = np.diag([1.0, 1.0, -1.0]) + 2.0 * (np.ones((3, 3)) - np.eye(3))
    for variable, value in ((H, B), (S, C)):
        equation, cone = variable == value, variable >> 0
        model = cp.Problem(cp.Minimize(0), [equation, cone])
        assert sf.solve(model).verdict == "infeasible"
        dual, witness = equation.dual_value, cone.dual_value
        assert np.allclose(dual, dual.conj().T)
        assert np.allclose(dual, witness, atol=1e-9)  # cancels the multiplier of the cone
        assert np.real(np.trace(witness @ value)) < 0.0
        assert sf.verify(model).verdict == "infeasible"  # with these dual values


def test_models_of_constants_are_decided() -> None:
    level = cp.Parameter(value=3.0, name="level")
    one, x = cp.Constant(1.0), cp.Variable()
    for constraints, verdict in (
        ([], "feasible"),
        ([one <= 2], "feasible"),
        ([one <= 2, (level <= 2).set_label("level")], "infeasible"),
        ([cp.Constant(np.diag([1.0, -1.0])) >> 0], "infeasible"),
        ([cp.Constant([1.0, 2.0]) == np.array([1.0, 2.0])], "feasible"),
        ([cp.norm(cp.Constant([3.0, 4.0])) <= 4.9], "infeasible"),
    ):
        result = sf.solve(cp.Problem(cp.Minimize(x), constraints))
        assert result.verdict == verdict, constraints
        assert result.proof is not None
        assert len(result.conflict(prune=True)) == (verdict == "infeasible")


def test_warnings_point_at_the_line_of_the_user() -> None:
    y, Q = cp.Variable(2), np.array([[2.0, 0.3], [0.3, 1.0]])
    model = cp.Problem(cp.Minimize(0), [cp.quad_form(y, Q) <= 1])
    for ask in (sf.solve, sf.from_cvxpy, lambda asked: asked.solve(solver=sf.cvxpy_solver())):
        with pytest.warns(sf.errors.RoundingWarning) as caught:
            ask(model)
        assert {warning.filename for warning in caught} == {__file__}


def test_several_conflicts() -> None:
    x = cp.Variable(3, name="x")
    pairs = [[(x[i] >= 1).set_label(f"{i} up"), (x[i] <= 0).set_label(f"{i} down")] for i in range(3)]
    both = [each for pair in pairs for each in pair]
    model = cp.Problem(cp.Minimize(0), [*both, cp.sum(x) <= 100])
    result = sf.solve(model)
    found = {frozenset(entry.name for entry in conflict) for conflict in result.conflicts()}
    assert found == {frozenset({f"{i} up", f"{i} down"}) for i in range(3)}
    assert len(result.conflicts(limit=2)) == 2
    assert len(sf.solve(sf.from_cvxpy(model)).conflicts()) == 3
    assert sf.solve(cp.Problem(cp.Minimize(0), pairs[0][:1])).conflicts() == []


def test_parameters_are_bracketed() -> None:
    x, t = cp.Variable(2, name="x"), cp.Parameter(nonneg=True, name="t")
    far = cp.Problem(cp.Minimize(0), [cp.norm(x - np.array([3.0, 4.0])) <= t, cp.sum(x) <= 1, x >= 0])
    found = sf.bisect(far, t)
    assert found.proven
    assert found.converged
    assert found.feasible == "upper"
    assert found.lower <= np.sqrt(18.0) <= found.upper
    assert t.value == found.upper
    assert far.constraints[0].violation() <= 1e-8
    assert repr(found).startswith("ParameterBracket: t = ")
    # Feasible below: the other direction, from given ends.
    s = cp.Parameter(name="s")
    low = sf.bisect(cp.Problem(cp.Minimize(0), [x >= s, cp.sum(x) <= 1]), s, lower=-1.0, upper=3.0, tol=1e-2)
    assert low.feasible == "lower"
    assert low.lower <= 0.5 <= low.upper
    never = sf.bisect(cp.Problem(cp.Minimize(0), [x >= s, x <= s - 1]), s, lower=0.0, upper=1.0)
    assert not never.proven
    assert "infeasible at every value tried" in never.reason


def test_bad_questions() -> None:
    x, t = cp.Variable(name="x"), cp.Parameter(2, name="t", value=[0.0, 0.0])
    problem = cp.Problem(cp.Minimize(0), [x >= t[0]])
    for ask, words in (
        (lambda: sf.bisect(problem), "give one of its parameters"),
        (lambda: sf.bisect(problem, cp.Parameter()), "no such parameter; it has: t"),
        (lambda: sf.bisect(problem, t), "has shape"),
        (
            lambda: sf.solve(cp.Problem(cp.Minimize(0), [cp.exp(x) <= 1])),
            "exp needs an exponential or power cone",
        ),
        (lambda: sf.solve(problem, "clarabel", options={"nonsense": 1}), "nonsense"),
        (lambda: sf.verify(sf.from_cvxpy(problem)), "besides the problem"),
    ):
        with pytest.raises(sf.SdpfeasError, match=words):
            ask()


@pytest.mark.parametrize("seed", range(8))
def test_values_and_duals_go_forth_and_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 4))
    S, X = cp.Variable((n, n), symmetric=True), cp.Variable((n, n), PSD=True)
    u, b = cp.Variable(2, nonpos=True), cp.Variable(3, bounds=[-1.0, 2.0])
    H, d = cp.Variable((n, n), hermitian=True), cp.Variable((n, n), diag=True)
    t, z = cp.Variable(), cp.Variable(2)
    form = convert(
        cp.Problem(
            cp.Minimize(0),
            [
                S + X >> 0,
                cp.sum(u) + cp.sum(b) == 1,
                H >> 0,
                cp.real(cp.trace(H)) + cp.sum(d) <= 3,
                cp.SOC(t, z),
                S[0, 1] + z[0] >= -1,
                cp.imag(H[0, 1]) == 0.25,
                cp.trace(X) + z[1] == 2,
            ],
        )
    )
    roots = [rng.normal(size=(n, n)) for _ in range(4)]
    values = {
        S: roots[0] + roots[0].T,
        X: roots[1] @ roots[1].T,
        u: -rng.uniform(size=2),
        b: rng.uniform(-1, 2, 3),
        H: roots[2] + roots[2].T + 1j * (roots[3] - roots[3].T),
        d: np.diag(rng.normal(size=n)),
        z: rng.normal(size=2),
    }
    values[t] = float(np.linalg.norm(values[z])) + 0.5
    assert not form.auxiliary.any()
    back = form.point(form.start_point(values))
    for variable, value in values.items():
        found = back[variable]
        assert np.allclose(found.toarray() if hasattr(found, "toarray") else found, value)
    y = form.problem.multipliers(rng.normal(size=form.problem.multiplier_count))
    z_rows = form.blocks.row_multipliers(y)
    again, known = form.dual_map.forth({form.number(c): v for c, v in form.duals(y).items()})
    assert np.allclose(again[known], z_rows[known])
    assert (
        known[np.concatenate([part.main for part in form.parts if part.constraint is not None])].mean() > 0.5
    )
    # Weighted rows cancel in every column that is in no block of its own.
    assert np.allclose(
        (form.canonical.matrix.T @ z_rows)[
            np.setdiff1d(np.arange(form.canonical.matrix.shape[1]), form.blocks.free_columns)
        ],
        0.0,
        atol=1e-12,
    )


def test_objectives_are_bracketed() -> None:
    X = cp.Variable((5, 5), PSD=True, name="X")
    edges = [X[i, (i + 1) % 5] == 0 for i in range(5)]
    theta = cp.Problem(cp.Maximize(cp.sum(X)), [cp.trace(X) == 1, *edges])
    found = sf.optimum(theta)
    assert found.converged
    assert found.lower <= np.sqrt(5.0) <= found.upper
    assert cp.sum(X).value == pytest.approx(np.sqrt(5.0), rel=1e-5)
    x = cp.Variable(2)
    middle = cp.Problem(cp.Minimize(cp.max(x)), [cp.sum(x) == 3, x >= 0])
    assert sf.optimum(middle).lower <= 1.5 <= sf.optimum(middle).upper
    with pytest.raises(sf.ProblemError, match="constant"):
        sf.optimum(cp.Problem(cp.Minimize(0), [x >= 0]))


@pytest.mark.parametrize("rows", ["weak", "unstable"])
def test_a_chain_has_a_conflict_too(rows: str) -> None:
    if rows == "weak":
        X = cp.Variable((2, 2), PSD=True, name="X")
        constraints = [(X[0, 0] <= 0).set_label("corner"), (X[0, 1] >= 1).set_label("side"), X[1, 1] <= 9]
        expected = {"corner", "side", "X >> 0 (PSD of the variable)"}
    else:
        P, A = cp.Variable((2, 2), symmetric=True), np.array([[0.1, 1.0], [0.0, -1.0]])
        constraints = [(P >> np.eye(2)).set_label("P"), (A.T @ P + P @ A << 0).set_label("decay")]
        expected = {"P", "decay"}
    result = sf.solve(cp.Problem(cp.Minimize(0), constraints))
    assert (result.verdict, result.certificate) == ("infeasible", None)
    assert {entry.name for entry in result.conflict(prune=True)} == expected
    assert "conflicting constraints" in result.check.explain()


def test_constraints_are_named_as_written() -> None:
    x, X = cp.Variable(3, name="x"), cp.Variable((2, 2), name="X", hermitian=True)
    A = np.arange(6.0).reshape(2, 3) + 0.25
    spoken_of = {
        cp.sum(x) >= 1: "sum(x) >= 1.0",
        cp.sum(cp.reshape(x, (3, 1), order="F"), axis=0) <= 1: "sum(reshape(x, (3, 1), F), axis=0) <= 1.0",
        A @ x == [1, 2]: "[…] @ x == [1. 2.]",
        cp.trace(X) == 1: "trace(X) == 1.0",
        cp.norm(x - 1) <= 2: "norm(x - 1.0) <= 2.0",
        cp.geo_mean(x) >= 1: "geo_mean(x) >= 1.0",
        cp.partial_trace(X, (2, 1), 1) == np.eye(2): "([[1.0 0.0] [0.0 1.0]] @ X @ [[1.0 0.0] [0.0 1.0]]) ==",
    }
    for constraint, words in spoken_of.items():
        assert describe_constraint(constraint).startswith(words), describe_constraint(constraint)


def test_partial_traces_and_transposes_are_named_as_called() -> None:
    """cvxpy expands both to sums of products at once."""
    rho, S = cp.Variable((6, 6), hermitian=True, name="rho"), cp.Variable((8, 8), symmetric=True, name="S")
    G, unit = cp.Variable((4, 4), name="G"), np.diag([1.0, 0.0, 0.0, 0.0])
    flipped = cp.partial_transpose(S, (2, 4), 0)
    spoken_of = {
        cp.partial_transpose(rho, (2, 3), 1) >> 0: "partial_transpose(rho, (2, 3), axis=1) >> 0",
        cp.partial_transpose(rho, (3, 2), 0) << 0: "partial_transpose(rho, (3, 2), axis=0) << 0",
        cp.partial_trace(S, (2, 2, 2), 1) == 0: "partial_trace(S, (2, 2, 2), axis=1) == 0.0",
        cp.partial_trace(S, (2, 2, 2), 2) == 0: "partial_trace(S, (4, 2), axis=1) == 0.0",
        cp.partial_trace(flipped, (4, 2), 0) == 0: (
            "partial_trace(partial_transpose(S, (2, 4), axis=0), (4, 2), axis=0) == 0.0"
        ),
        cp.trace(unit @ G) <= 1: "trace([…] @ G) <= 1.0",
        # Sums that look alike and are neither stay as they are.
        unit @ G @ unit + np.eye(4) @ G @ np.eye(4) == 0: "[…] @ G @ […] + […] @ G @ […] == 0.0",
        2 * unit[:2] @ G @ unit[:2].T + unit[2:] @ G @ unit[2:].T == 0: "[…] @ G @ […] + […] @ G @ […] ==",
        # Only what stands on the other side as a whole is brought there.
        cp.partial_transpose(S, (2, 4), 0) << np.eye(8): "partial_transpose(S, (2, 4), axis=0) << […]",
        G + G.T << np.eye(4): "G + G.T << […]",
        np.eye(4) - (G + G.T) + cp.kron(np.eye(2), G[:2, :2]) >> 0: (
            "[…] - (G + G.T) + kron([[1.00 0.00] [0.00 1.00]], G[0:2, 0:2]) >> 0"
        ),
    }
    for constraint, words in spoken_of.items():
        assert describe_constraint(constraint).startswith(words), describe_constraint(constraint)


def test_refusals_name_what_is_refused() -> None:
    x, whole = cp.Variable(2, name="x"), cp.Variable(boolean=True, name="whole")
    for constraints, words in (
        ([x >= 0, cp.norm(x) >= 1], r": `norm\(x\) >= 1.0`"),
        ([x[0] + whole >= 1], "variables are not supported: whole"),
        ([cp.sum(cp.exp(x)) <= 1], "exp needs an exponential or power cone"),
    ):
        with pytest.raises(sf.ProblemError, match=words):
            sf.solve(cp.Problem(cp.Minimize(0), constraints))
