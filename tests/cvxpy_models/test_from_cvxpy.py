"""cvxpy problems: the same truth, the same points, and clear words about what cannot be stated."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.cvxpy_models import canonical_form, convert
from sdpfeas.errors import RoundingWarning


def asked(*constraints: Any) -> cp.Problem:
    return cp.Problem(cp.Minimize(0), list(constraints))


def kinds(problem: sf.FeasibilityProblem) -> list[str]:
    lmis = [f"LMI {lmi.set.described()}" for lmi in problem.lmis]
    return [*(f"{block.kind}({block.n})" for block in problem.sets), *lmis]


def random_problem(rng: np.random.Generator, *, feasible: bool) -> cp.Problem:
    """Constraints of every kind that hold at a drawn point, or two of which contradict each other."""
    n = int(rng.integers(2, 5))
    X, S = cp.Variable((n, n), PSD=True), cp.Variable((n, n), symmetric=True)
    u, z = cp.Variable(2, nonneg=True), cp.Variable(3)
    root = rng.normal(size=(n, n))
    X0, u0, z0 = root @ root.T + np.eye(n), rng.uniform(0.5, 1.0, 2), rng.normal(size=3)
    A, B = (m + m.T for m in rng.normal(size=(2, n, n)))
    weights = np.eye(n) + 0.1 * B @ B
    G = rng.normal(size=(3, 2))
    least = np.trace(weights @ X0) if feasible else -1.0
    return asked(
        cp.trace(A @ X) + 2 * u[0] == np.trace(A @ X0) + 2 * u0[0],
        S - X >> 0,
        cp.trace(weights @ S) + u[1] <= least + feasible * (u0[1] + 1.0),
        z == G @ u + (z0 - G @ u0),
        cp.norm(z) <= u[1] + np.linalg.norm(z0) + 1.0,
        cp.quad_form(z, np.eye(3)) <= z0 @ z0 + 2.0,
        cp.lambda_max(X) <= np.linalg.eigvalsh(X0)[-1] + 1.0,
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("feasible", [True, False])
def test_verdict_is_the_truth(seed: int, feasible: bool) -> None:
    problem = random_problem(np.random.default_rng(seed), feasible=feasible)
    form = convert(problem)
    assert form.problem == sf.from_cvxpy(problem)
    result = sf.solve(form.problem, "clarabel")
    assert result.verdict == ("feasible" if feasible else "infeasible")
    assert result.proof == "rigorous"
    if feasible:
        form.assign(result.point)
        assert max(np.max(c.violation()) for c in problem.constraints) < 1e-6
        for variable in problem.variables():
            assert variable.value.shape == variable.shape
            assert variable.project(variable.value) == pytest.approx(variable.value, abs=1e-7)


def test_variables_become_blocks_of_their_own() -> None:
    X, u, z = cp.Variable((4, 4), PSD=True), cp.Variable(3, nonneg=True), cp.Variable(2)
    problem = sf.from_cvxpy(asked(cp.trace(X) == 1, cp.sum(u) + z[0] <= X[0, 1], z[1] >= -1))
    assert kinds(problem) == ["PSD(4)", "Nonneg(3)", "Free(2)"]
    assert problem.m == 3
    free = cp.Variable((3, 3), symmetric=True)
    assert kinds(sf.from_cvxpy(asked(free >> 0, cp.trace(free) == 1))) == ["PSD(3)"]
    # What no row asks for is left out, and zero on the way back.
    form = convert(asked(cp.Variable(3) >= 0, free >> 0, z[0] == 1))
    assert kinds(form.problem) == ["Free(1)"]
    assert form.values((np.ones(1),))[z].tolist() == [1.0, 0.0]
    # Twice constrained, or moved: an LMI says what the block itself does not.
    assert kinds(sf.from_cvxpy(asked(free >> np.eye(3)))) == ["Free(6)", "LMI PSD(3)"]
    assert kinds(sf.from_cvxpy(asked(free >> 0, free << np.eye(3)))) == ["PSD(3)", "LMI PSD(3)"]


def test_nothing_is_rounded() -> None:
    X = cp.Variable((2, 2), PSD=True)
    problem = sf.from_cvxpy(asked(0.1 * X[0, 0] + 0.7 * X[0, 1] == 0.3, X[1, 1] <= 1 / 3))
    (rows,) = problem.rows
    unit = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    assert [rows.apply(x)[0] for x in unit] == [0.1, 0.7]
    assert (problem.lower[0], problem.upper[1]) == (0.3, 1 / 3)


def test_tiny_coefficients_are_not_rounded_away() -> None:
    S = cp.Variable((2, 2), symmetric=True)
    with pytest.raises(sf.ProblemError, match="below 9e-302"):
        sf.from_cvxpy(asked(5e-324 * S[0, 1] >= 1, S >> 0))
    # Multiples become blocks of their own only if what other rows ask for can be divided by the factor.
    assert kinds(sf.from_cvxpy(asked(2 * S >> 0, 2.0**-300 * S[0, 1] >= 1))) == ["PSD(2)"]
    assert kinds(sf.from_cvxpy(asked(2.0**800 * S >> 0, 2.0**-300 * S[0, 1] >= 1))) == [
        "Free(3)",
        "LMI PSD(2)",
    ]


def test_the_objective_is_ignored() -> None:
    x = cp.Variable()
    unbounded = cp.Problem(cp.Minimize(x), [x <= 1])
    assert sf.solve(sf.from_cvxpy(unbounded)).verdict == "feasible"


def test_complex_matrices() -> None:
    H = cp.Variable((2, 2), hermitian=True)
    for angle, verdict in ((0.49, "feasible"), (0.51, "infeasible")):
        problem = asked(H >> 0, cp.real(cp.trace(H)) == 1, cp.imag(H[0, 1]) == angle)
        form = convert(problem)
        result = sf.solve(form.problem, "clarabel")
        assert result.verdict == verdict
        if verdict == "feasible":
            form.assign(result.point)
            assert H.value[0, 1].imag == pytest.approx(0.49)


@pytest.mark.parametrize(
    "bounded",
    [
        cp.abs,
        cp.norm1,
        cp.norm_inf,
        cp.norm2,
        lambda z: cp.pnorm(cp.hstack([z, 0]), 4),
        lambda z: cp.sqrt(1 - cp.abs(z)) * -1 + 1,
    ],
)
def test_second_order_cones_of_complex_numbers(bounded: Any) -> None:
    z = cp.Variable(complex=True)
    for real, verdict in ((5.0, "infeasible"), (-5.0, "infeasible"), (-0.5, "feasible"), (0.5, "feasible")):
        form = convert(asked(bounded(z) <= 1, cp.real(z) == real))
        result = sf.solve(form.problem, "clarabel")
        assert (result.verdict, result.proof) == (verdict, "rigorous")
        if verdict == "feasible":
            form.assign(result.point)
            assert abs(z.value) <= 1 + 1e-8
            assert z.value.real == pytest.approx(real)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_second_order_cones_are_sets(n: int) -> None:
    t, z = cp.Variable(), cp.Variable(n)
    direct = cp.SOC(t, z) if n else t >= 0
    along = np.arange(1.0, n + 1)
    at = [z == along] if n else []
    length = float(np.linalg.norm(along))
    assert sf.solve(sf.from_cvxpy(asked(direct, t == length + 0.01, *at))).verdict == "feasible"
    assert sf.solve(sf.from_cvxpy(asked(direct, t == length - 0.01, *at))).verdict == "infeasible"
    if n == 5:  # variables of their own make up a block, and expressions an LMI
        assert kinds(sf.from_cvxpy(asked(direct, t + z[0] == 1))) == ["SecondOrder(6)"]
        moved = sf.from_cvxpy(asked(cp.SOC(t - 1, z), t + z[0] == 1))
        assert (kinds(moved), moved.m) == (["Free(6)", "LMI SecondOrder(6)"], 1)


def test_repeated_equations_are_taken_once() -> None:
    H = cp.Variable((3, 3), hermitian=True)
    root = np.arange(9.0).reshape(3, 3) + 1j * np.ones((3, 3))
    problem = asked(root @ root.conj().T == H, H >> 0)
    # 6 real and 3 imaginary parts
    assert sf.from_cvxpy(problem).m == 9
    assert kinds(sf.from_cvxpy(problem)) == ["HermitianPSD(9)"]
    x = cp.Variable()
    contradiction = sf.from_cvxpy(asked(x == 1, x == 2, x == 1, -x == -1))
    assert contradiction.m == 2
    assert sf.solve(contradiction).verdict == "infeasible"


ATTRIBUTES: list[tuple[dict[str, Any], Any, Any]] = [
    ({"shape": 2, "nonneg": True}, lambda v: v[0] == -1, lambda v: v[0] == 1),
    ({"shape": 2, "nonpos": True}, lambda v: v[0] == 1, lambda v: v[0] == -1),
    ({"shape": (2, 2), "symmetric": True}, lambda v: v[0, 1] - v[1, 0] == 1, lambda v: v[0, 1] == 1),
    ({"shape": (2, 2), "PSD": True}, lambda v: v[0, 0] == -1, lambda v: v[0, 1] == 1),
    ({"shape": (2, 2), "NSD": True}, lambda v: v[0, 0] == 1, lambda v: v[0, 1] == 1),
    ({"shape": (2, 2), "diag": True}, lambda v: v[0, 1] == 1, lambda v: cp.sum(v) == 1),
    ({"shape": (2, 2), "sparsity": ([0, 1], [1, 1])}, lambda v: v[0, 0] == 1, lambda v: v[0, 1] == 1),
    ({"shape": 2, "bounds": [0.5, 2.0]}, lambda v: v[0] == 3, lambda v: v[0] == 1),
    ({"shape": 2, "bounds": [np.array([-np.inf, 2.0]), np.inf]}, lambda v: v[1] == 1, lambda v: v[0] == -9),
    ({"shape": 2, "bounds": [cp.Parameter(value=1.0), None]}, lambda v: v[1] == 0, lambda v: v[0] == 9),
    ({"shape": (2, 2), "hermitian": True}, lambda v: cp.imag(v[0, 0]) == 1, lambda v: cp.imag(v[0, 1]) == 1),
    ({"shape": 2, "imag": True}, lambda v: cp.real(v[0]) == 1, lambda v: cp.imag(v[0]) == 1),
    ({"shape": (2, 2), "PSD": True, "nonneg": True}, lambda v: v[0, 1] == -1, lambda v: v[0, 1] == 1),
    ({"shape": (2, 2, 2), "PSD": True}, lambda v: v[1, 1, 1] == -1, lambda v: v[1, 0, 1] == 1),
]


@pytest.mark.filterwarnings("ignore:Reading from a sparse CVXPY expression:RuntimeWarning")
@pytest.mark.parametrize(
    ("given", "wrong", "right"), ATTRIBUTES, ids=lambda v: str(v) if isinstance(v, dict) else ""
)
def test_attributes_are_kept(given: dict[str, Any], wrong: Any, right: Any) -> None:
    variable = cp.Variable(**given)
    assert sf.solve(sf.from_cvxpy(asked(wrong(variable)))).verdict == "infeasible"
    problem = asked(right(variable))
    form = convert(problem)
    result = sf.solve(form.problem)
    assert result.verdict == "feasible"
    form.assign(result.point)
    assert variable.value.shape == variable.shape
    assert np.max(problem.constraints[0].violation()) < 1e-6
    assert all(np.max(domain.violation()) < 1e-6 for domain in variable.domain)


def test_values_of_variables_do_not_matter() -> None:
    x = cp.Variable(3)
    problem = asked(cp.sum_largest(x, 2.5) <= 1, cp.sum(x) == 1)
    fresh = sf.from_cvxpy(problem)
    x.value = np.array([1.0, 2.0, 3.0])
    assert sf.from_cvxpy(problem) == fresh
    assert x.value.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("p", [4 / 3, 0.1, Fraction(5, 7), -1.1, np.float64(2.5), np.int64(3)])
def test_exponents_are_what_was_meant(p: Any) -> None:
    x = cp.Variable()
    concave = 0 < p < 1
    truth = 2.0 ** float(p)
    for off, verdict in ((0.001, "feasible"), (-0.001, "infeasible")):
        bound = cp.power(x, p) >= truth - off if concave else cp.power(x, p) <= truth + off
        assert sf.solve(sf.from_cvxpy(asked(x == 2, bound)), "clarabel").verdict == verdict


def test_factors_of_quadratic_forms() -> None:
    x = cp.Variable(2)
    exact = np.array([[4.0, 2.0], [2.0, 17.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RoundingWarning)
        sf.from_cvxpy(asked(cp.quad_form(x, np.eye(2)) <= 1, cp.sum_squares(exact @ x) <= 1))
        sf.from_cvxpy(
            asked(cp.quad_form(x, sp.diags_array([4.0, 9.0])) <= 1, cp.quad_form(x, 0 * exact) <= 1)
        )
    rounded = np.array([[0.1, 0.03], [0.03, 0.7]])
    with pytest.warns(RoundingWarning, match=r"differs by up to \d.\de-16 \(largest entry 0.7"):
        problem = sf.from_cvxpy(asked(cp.quad_form(x, rounded) <= 1))
    assert sf.solve(problem).verdict == "feasible"
    # Nearly singular: cvxpy leaves out what it takes for zero, here a direction the answer hangs on.
    skewed = np.diag([1.0, 1e-11])
    with pytest.raises(sf.ProblemError, match="differs from the given by 1e-11"):
        sf.from_cvxpy(asked(cp.quad_form(x, skewed) <= 1, x[1] == 1e7))
    with pytest.raises(sf.ProblemError, match=r"differs from the given by 1 "):
        sf.from_cvxpy(asked(cp.quad_form(x, np.diag([1.0, -1.0]), assume_PSD=True) <= 1))


def test_rows_that_nobody_accounts_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard itself: a cone that is not counted, or a variable too many."""
    from cvxpy.constraints import SOC
    from cvxpy.reductions.dcp2cone.cone_matrix_stuffing import ParamConeProg

    z = cp.Variable(complex=True)
    problem = asked(cp.abs(z) <= 1, cp.real(z) == 5)
    with monkeypatch.context() as patch:
        patch.setattr(SOC, "cone_sizes", lambda self: [2])
        with pytest.raises(sf.ProblemError, match="account for"):
            sf.from_cvxpy(problem)
    with monkeypatch.context() as patch:
        patch.setattr(canonical_form, "_CONES", ("Zero", "NonNeg", "SvecPSD"))
        with pytest.raises(sf.ProblemError, match="has an unsupported cone: SOC"):
            sf.from_cvxpy(problem)
    with monkeypatch.context() as patch:
        patch.setattr(
            canonical_form, "_EXACT_REDUCTIONS", canonical_form._EXACT_REDUCTIONS - {"Complex2Real"}
        )
        with pytest.raises(sf.ProblemError, match="reductions that are not known to be exact: Complex2Real"):
            sf.from_cvxpy(problem)
    with monkeypatch.context() as patch:
        patch.setattr(ParamConeProg, "is_mixed_integer", lambda self: True)
        with pytest.raises(sf.ProblemError, match="integer"):
            sf.from_cvxpy(problem)


X, Z, W = cp.Variable((2, 2), PSD=True), cp.Variable(2), cp.Variable(complex=True)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (asked(cp.exp(Z[0]) <= 3, cp.log(Z[1]) >= 1), "^exp, log needs an exponential or power cone"),
        (asked(cp.constraints.ExpCone(Z[0], Z[0], Z[1])), "^ExpCone needs an exponential or power cone"),
        (
            asked(cp.constraints.PowCone3D(Z[0], Z[1], Z[0], 0.3)),
            "^PowCone3D needs an exponential or power cone",
        ),
        (asked(cp.log_det(X) >= 1), "^log_det needs an exponential or power cone"),
        (asked(cp.power(Z[0], 3, approx=False) <= 1), "^Power needs an exponential or power cone"),
        (asked(cp.pnorm(Z, 3, approx=False) <= 1), "^Pnorm needs an exponential or power cone"),
        (asked(cp.geo_mean(Z, approx=False) >= 1), "^GeoMean needs an exponential or power cone"),
        (asked(Z[0] <= cp.exp(1)), "^exp of constants: pass the value"),
        (asked(cp.quantum_rel_entr(X, np.eye(2)) <= 1), "^quantum_rel_entr: not among"),
        (asked(cp.von_neumann_entr(X) >= 0.1), "^von_neumann_entr: not among"),
        (asked(cp.constraints.RelEntrConeQuad(Z[0], Z[1], Z[0], 3, 3)), "^RelEntrConeQuad: not among"),
        (asked(cp.perspective(cp.square(Z[0]), cp.Variable(nonneg=True)) <= 1), "^perspective: not among"),
        (asked(cp.transforms.indicator([Z[0] >= 1]) <= 0), "^indicator: not among"),
        (asked(cp.constraints.FiniteSet(Z[0], [1, 2])), "^FiniteSet: not among"),
        (
            asked(cp.power(Z[0], np.pi) <= 1),
            "^Power: cvxpy would use the exponent 355/113 instead of 3.14159",
        ),
        (asked(cp.power(Z[0], 1.0001) <= 1), "^Power: cvxpy would use the exponent 1 instead of"),
        (asked(cp.power(Z[0], cp.Constant(np.e)) <= 1), "^Power: cvxpy would use the exponent .* instead of"),
        (
            asked(cp.power(Z[0], Fraction(3001, 2000)) <= 1),
            "^Power: cvxpy would use the exponent .* instead of 3001/2000",
        ),
        (asked(cp.power(Z[0], 0.123456) >= 1), "^Power: cvxpy would use the exponent .* instead of"),
        (asked(cp.pnorm(Z, np.sqrt(2)) <= 1), "^Pnorm: cvxpy would use the exponent .* instead of"),
        (asked(cp.geo_mean(Z, [np.pi, 1]) >= 1), "^GeoMean: cvxpy would use the exponent .* instead of"),
        (asked(cp.power(cp.norm(Z) - 1, 3) <= 1), "infinite for negative arguments.*cp.pos"),
        (asked(cp.tr_inv(cp.Variable((2, 2))) <= 1), "^tr_inv"),
        (asked(W / (1 + 1j) == 1), "^division by a complex number"),
        (asked(cp.pnorm(Z, 0.5) >= 1, W == 1), "Cannot reduce"),
        (asked(cp.real(Z[0]) == 1), "NotImplementedError"),
        (asked(cp.Variable(pos=True, name="p") >= 0), "variable p: pos=True is a strict inequality"),
        (asked(cp.Variable(neg=True, name="p") >= -1), "variable p: neg=True is a strict inequality"),
        (asked(cp.Variable((2, 2), name="c", complex=True, PSD=True) >> 0), "variable c: cvxpy may lose PSD"),
        (asked(cp.Variable((2, 2), name="c", complex=True, diag=True)[0, 1] == 1), "may lose diag"),
        (asked(cp.Variable((2, 2), name="c", complex=True, symmetric=True)[0, 1] == 1), "may lose symmetric"),
        (asked(cp.norm(Z) >= 1), "not convex"),
        (asked(cp.Variable(pos=True) * cp.Variable(pos=True) == 1), "not convex.*geometric program"),
        (asked(cp.ceil(Z[0]) <= 1), "not convex.*quasiconvex"),
        (asked(cp.Variable(integer=True) == Z[0]), "integer"),
        (asked(cp.Variable(boolean=True) == Z[0]), "boolean"),
        (asked(cp.Variable(2, boolean=[(0,)]) == Z), "boolean"),
        (asked(X[0, 0] == cp.Parameter(name="rho")), "unspecified parameters: rho"),
        ([Z[0] == 1], "takes a cvxpy.Problem, got list"),
    ],
)
def test_what_cannot_be_stated(problem: Any, words: str) -> None:
    with pytest.raises(sf.ProblemError, match=words):
        sf.from_cvxpy(problem)


def test_equations_that_follow_from_others_are_left_out() -> None:
    """Invariance under a group is stated by generators, entry by entry, and most of that follows."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        n = int(rng.integers(2, 7))
        pairs = rng.integers(0, n, (12, 2))
        x, signs = cp.Variable(n), rng.choice([-1.0, 1.0], 12)
        rows = [x[int(i)] - s * x[int(j)] == 0 for (i, j), s in zip(pairs, signs, strict=True) if i != j]
        if not rows:
            continue
        problem = sf.from_cvxpy(asked(*rows))
        dense = np.zeros((len(rows), n))
        for k, ((i, j), s) in enumerate(
            ((pair, s) for pair, s in zip(pairs, signs, strict=True) if pair[0] != pair[1])
        ):
            dense[k, i], dense[k, j] = 1.0, -s
        assert problem.m == np.linalg.matrix_rank(dense)


def test_as_a_solver_of_cvxpy() -> None:
    x = cp.Variable(2)
    far = asked(cp.norm(x) <= 1, cp.sum(x) >= 2, x >= 0)
    assert far.solve(solver=sf.cvxpy_solver(rigorous=True)) == np.inf
    assert far.status == "infeasible"
    assert sf.verify(far).verdict == "infeasible"  # from the dual values it left
    near = asked(cp.norm(x) <= 1, cp.sum(x) >= 1, x >= 0)
    assert near.solve(solver=sf.cvxpy_solver("clarabel", time_limit=30.0)) == 0.0
    assert near.status == "optimal"
    assert max(np.max(c.violation()) for c in near.constraints) <= 1e-8
    result = near.solver_stats.extra_stats
    assert (result.backend, result.verdict) == ("clarabel", "feasible")
    S = cp.Variable((2, 2), symmetric=True)
    lmi = asked(S >> np.eye(2), cp.trace(S) <= 1)
    lmi.solve(solver=sf.cvxpy_solver())
    dual = lmi.constraints[0].dual_value
    assert np.allclose(dual, lmi.constraints[1].dual_value * np.eye(2), atol=1e-6)
    corner = cp.Problem(cp.Minimize(x[0] + 2 * x[1] + 1), [x >= 1, cp.sum(x) <= 5])
    assert corner.solve(solver=sf.cvxpy_solver()) == pytest.approx(4.0, rel=1e-5)
    endless = cp.Problem(cp.Minimize(x[0]), [cp.sum(x) <= 0])
    assert endless.solve(solver=sf.cvxpy_solver()) == -np.inf
    assert (endless.status, x.value) == ("unbounded", None)
    with pytest.raises(sf.OptionError, match="unknown options eps"):
        near.solve(solver=sf.cvxpy_solver(), eps=1e-3)
    with pytest.raises(sf.BackendError):
        sf.cvxpy_solver("nobody")


@pytest.mark.parametrize("goal", [0, 1])
def test_cvxpy_hears_of_weak_infeasibility(goal: int) -> None:
    X = cp.Variable((2, 2), symmetric=True)
    weak = cp.Problem(cp.Minimize(goal * X[0, 0]), [X >> 0, X[1, 1] == 0, X[0, 1] == 1])
    assert weak.solve(solver=sf.cvxpy_solver(rigorous=True)) == np.inf
    assert weak.status == "infeasible"
    # A chain is all there is.
    assert all(constraint.dual_value is None for constraint in weak.constraints)


@pytest.mark.parametrize("divisor", [0.0, cp.Parameter(value=0.0), np.array([1.0, 0.0])])
def test_division_by_zero_is_refused(divisor: Any) -> None:
    """cvxpy takes zero for the quotient, and every verdict would be about that."""
    x = cp.Variable(2)
    with pytest.raises(sf.ProblemError, match="division by zero"):
        sf.from_cvxpy(cp.Problem(cp.Minimize(0), [x / divisor == 1]))


def test_what_no_constraint_asks_for_is_part_of_the_objective() -> None:
    """Unbounded along variables that are in no row, and proved to be."""
    x, y, n = cp.Variable(), cp.Variable(), cp.Variable(nonneg=True)
    X = cp.Variable((2, 2), PSD=True)
    for cost in (x + y, x - n, x - cp.trace(X)):
        for goal, value in ((cp.Minimize(cost), -np.inf), (cp.Maximize(-cost), np.inf)):
            model = cp.Problem(goal, [x >= 1, x <= 3])
            assert model.solve(solver=sf.cvxpy_solver(), rigorous=True) == value
            assert model.status == "unbounded"
    found = cp.Problem(cp.Minimize(x + n), [x >= 1, x <= 3]).solve(solver=sf.cvxpy_solver())
    assert found == pytest.approx(1.0, rel=1e-5)
