"""Planted least relaxations of problems and models: with a point, and multipliers that prove it.

With weights w, loosenings s and multipliers y, all numbers are binary fractions: rows ``a x <= b + s`` have
``0 <= y <= w``, equations ``|y| <= w``, cones a multiplier of trace (or first entry) at most w. Where s is
positive the bound of y is attained, and ``sum_i y_i a_i = 0``, so that ``sum_i w_i s_i`` is least.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import sdpfeas as sf

N = 4

KINDS = ("lp", "equations", "socp", "sdp", "matrix variable")


@dataclass
class Planted:
    """Constraints in N numbers, or in a semidefinite matrix; ``least`` is the planted value."""

    matrix: bool
    rows: list[tuple[np.ndarray, float, bool]] = field(default_factory=list)
    cones: list[tuple[str, np.ndarray, np.ndarray]] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)
    loosened: set[str] = field(default_factory=set)
    least: float = 0.0

    def problem(self) -> sf.FeasibilityProblem:
        builder = sf.ProblemBuilder()
        builder.block("x", sf.PSD(N) if self.matrix else sf.Free(N))
        for i, (a, b, equal) in enumerate(self.rows):
            builder.row(f"row {i}", {"x": a}, **({"equal": b} if equal else {"upper": b}))
        for i, (kind, constant, parts) in enumerate(self.cones):
            target = sf.SecondOrder(3) if kind == "soc" else sf.PSD(len(constant))
            builder.lmi(f"cone {i}", constant, {"x": parts}, into=target)
        return builder.build()

    def model(self) -> cp.Problem:
        x = cp.Variable((N, N), PSD=True) if self.matrix else cp.Variable(N)
        constraints = []
        for i, (a, b, equal) in enumerate(self.rows):
            value = cp.sum(cp.multiply(a, x))
            constraints.append((value == b if equal else value <= b).set_label(f"row {i}"))
        for i, (kind, constant, parts) in enumerate(self.cones):
            value = constant + sum(x[j] * parts[j] for j in range(N))
            made = cp.norm(value[1:]) <= value[0] if kind == "soc" else value >> 0
            constraints.append(made.set_label(f"cone {i}"))
        return cp.Problem(cp.Minimize(0), constraints)


def planted(kind: str, seed: int) -> Planted:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    out = Planted(kind == "matrix variable")
    v = rng.integers(-1, 2, N).astype(float)
    v[0] = 1.0
    if out.matrix:
        u = np.array([[v[1], -v[0], 0.0, 0.0], [0.0, 0.0, v[3], -v[2]]])
        x = u.T @ u  # v'x = 0
        total, size = -np.outer(v, v) * 0.25, 0
    else:
        x = rng.integers(-3, 4, N).astype(float)
        total, size = np.zeros(N), 2 if kind in ("socp", "sdp") else 0
    shape = x.shape

    def coefficients() -> np.ndarray:
        a = rng.integers(-2, 3, shape).astype(float)
        return a + a.T if out.matrix else a

    def state(a: np.ndarray, y: float, s: float, *, equal: bool = False, room: float = 0.0) -> None:
        """Add a row with multiplier y that the point violates by s, or satisfies with some room."""
        name = f"row {len(out.rows)}"
        out.weights[name] = abs(y) if s else abs(y) + float(rng.integers(1, 3)) / 2.0
        value = float(np.vdot(a, x))
        out.rows.append((a, value - (s if y >= 0.0 else -s) + room, equal))
        if s:
            out.loosened.add(name)
            out.least += out.weights[name] * s

    for k in range(6):
        a, y = coefficients(), float(rng.integers(1, 5)) / 4.0
        equal = kind == "equations" and k % 2 == 0
        if equal and rng.integers(2):
            y = -y
        state(a, y, float(rng.integers(1, 9)) / 8.0 if k < 3 else 0.0, equal=equal)
        total = total + y * a
    for k in range(size):
        parts, s = np.zeros(0), float(rng.integers(0, 3)) / 4.0
        if kind == "socp":
            y = np.array([5.0, -3.0, -4.0]) / 4.0
            value = np.array([5.0, 3.0, 4.0]) * float(rng.integers(1, 3))
            parts = rng.integers(-2, 3, (N, 3)).astype(float)
            moved, bound = value - s * np.array([1.0, 0.0, 0.0]), y[0]
        else:
            w = rng.integers(-1, 2, 3).astype(float)
            w[0] = 1.0
            across = np.array([[w[1], -w[0], 0.0], [w[2], 0.0, -w[0]]])
            y, value = np.outer(w, w) / 4.0, across.T @ across
            half = rng.integers(-2, 3, (N, 3, 3)).astype(float)
            parts = half + half.transpose(0, 2, 1)
            moved, bound = value - s * np.eye(3), float(np.trace(y))
        name = f"cone {k}"
        out.weights[name] = bound if s else bound + 0.5
        constant = moved - np.tensordot(x, parts, 1)
        out.cones.append(("soc" if kind == "socp" else "psd", constant, parts))
        total = total - np.array([float(np.vdot(y, part)) for part in parts])
        if s:
            out.loosened.add(name)
            out.least += bound * s
    state(-total, 1.0, 0.0)  # makes the multipliers cancel
    for _ in range(4):
        a = coefficients()
        state(a, 0.0, 0.0, room=float(rng.integers(1, 5)))
    return out


def require_bracket(found: Any, least: float) -> None:
    assert found.lower <= least <= found.upper, (found, least)
    assert found.upper - found.lower <= 1e-6 * max(1.0, least), found
    assert found.converged


def require_feasible(relaxed: Any, kind: str) -> None:
    # The cones that are not loosened may have no interior, whatever else is loosened.
    assert sf.solve(relaxed).verdict in (("feasible", "undecided") if kind == "sdp" else ("feasible",))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_planted_relaxations_are_bracketed(kind: str, seed: int) -> None:
    case = planted(kind, seed)
    problem = case.problem()
    result = sf.solve(problem)
    assert result.verdict == "infeasible"
    found = result.relax(weights=case.weights)
    require_bracket(found, case.least)
    weighted = sum(case.weights[each.name] * each.amount for each in found.loosenings)
    assert weighted == pytest.approx(case.least, rel=1e-5)
    require_feasible(found.problem, kind)
    assert set(found.names) == set(case.weights)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_planted_relaxations_of_models(kind: str, seed: int) -> None:
    case = planted(kind, seed + 100)
    model = case.model()
    found = sf.solve(model).relax(weights=case.weights)
    require_bracket(found, case.least)
    numbers = {id(constraint) for constraint in model.constraints}
    assert all(id(each.constraint) in numbers for each in found.loosenings)
    require_feasible(found.problem, kind)


def schedule() -> sf.ProblemBuilder:
    """Two shifts of 5 and 4 hours in a day of 8."""
    builder = sf.ProblemBuilder()
    builder.block("hours", sf.Nonneg(2))
    builder.row("first", {"hours": [1, 0]}, lower=5)
    builder.row("second", {"hours": [0, 1]}, lower=4)
    builder.row("day", {"hours": [1, 1]}, upper=8)
    return builder


def test_chosen_constraints_only() -> None:
    result = sf.solve(schedule().build())
    for only in (["day"], [2], [result.conflict()[0]]):
        found = result.relax(only=only)
        assert found.lower <= 1.0 <= found.upper
        assert found.names == tuple(each.name for each in found.loosenings)
    assert str(result.relax({"first": 2, "second": 3, "day": 4})) == "loosen `first` by 1"
    both = result.relax(only=["first", "second"], weights={"first": 2})
    assert [each.name for each in both.loosenings] == ["second"]
    assert both.problem.lower[1] == pytest.approx(3.0, rel=1e-4)
    builder = schedule()
    builder.row("other", {"hours": [1, 1]}, upper=7)
    alone = sf.solve(builder.build()).relax(only=["day"])
    assert alone.lower == alone.upper == np.inf
    assert str(alone) == "loosening `day` alone does not help"
    with pytest.raises(sf.ProblemError, match="no relaxed problem"):
        _ = alone.problem
    for wrong in ({"weights": {"day": 0.0}}, {"weights": {"day": np.inf}}, {"only": []}, {"only": ["dya"]}):
        with pytest.raises(sf.ClaimError):
            result.relax(**wrong)


def test_a_feasible_problem_needs_no_relaxation() -> None:
    builder = schedule()
    builder.row("rest", {"hours": [1, 0]}, upper=9)
    problem = builder.build().select_rows([0, 1, 3])
    found = sf.solve(problem).relax()
    assert found.lower == 0.0
    assert found.upper <= 1e-9
    assert found.loosenings == ()
    assert str(found) == "nothing has to be loosened"


def test_time_limits_are_kept() -> None:
    case = planted("sdp", 0)
    result = sf.solve(case.problem())
    found = result.relax(time_limit=1e-3)
    assert found.lower <= found.upper
    assert found.time < 1.0
    assert result.conflict(prune=True, time_limit=1e-3)


def test_a_loosened_duplicate_leaves_the_other() -> None:
    """Equations that repeat others are removed; a loosened one must not take the other with it."""
    x = cp.Variable(2, name="x")
    one, two = (x == 1).set_label("one"), (x == 1).set_label("two")
    model = cp.Problem(cp.Minimize(0), [one, two, (cp.sum(x) >= 3).set_label("sum")])
    result = sf.solve(model)
    assert result.relax(only=[one]).lower == np.inf
    found = result.relax(only=["one", "two"])
    assert found.lower <= 2.0 <= found.upper
    assert result.relax().upper == pytest.approx(1.0)


def test_attributes_and_domains_are_not_loosened_unless_named() -> None:
    x, X = cp.Variable(nonneg=True, name="x"), cp.Variable((2, 2), PSD=True, name="X")
    model = cp.Problem(cp.Minimize(0), [(x <= -1).set_label("cap"), cp.trace(X) <= 1])
    result = sf.solve(model)
    found = result.relax()
    assert [each.name for each in found.loosenings] == ["cap"]
    assert set(found.names) == {"cap", "trace(X) <= 1.0"}
    named = result.relax(only=[x])
    assert named.lower <= 1.0 <= named.upper
    with pytest.raises(sf.ProblemError, match="state the attribute as a constraint"):
        _ = named.problem
    # x**3 <= 1 implies x >= 0, and its loosening does not change that.
    z, level = cp.Variable(name="z"), cp.Parameter(value=1.0)
    power = (z**3 <= level).set_label("power")
    other = sf.solve(cp.Problem(cp.Minimize(0), [power, (z <= -1).set_label("low"), power]))
    assert other.relax(only=[power]).lower == np.inf
    assert other.relax().upper == pytest.approx(1.0)


def test_every_kind_of_constraint_is_loosened() -> None:
    x, H = cp.Variable(2, name="x"), cp.Variable((2, 2), hermitian=True, name="H")
    cases = [
        ([cp.SOC(x[0], x[1:]), x[0] <= 1, (x[1] >= 2)], 1.0),
        ([H >> 0, (cp.real(cp.trace(H)) <= -1).set_label("trace")], 1.0 / 2.0),
        ([x == [1, 2], cp.sum(x) == 4], 1.0),
        ([np.array([[1, 1j], [-1j, 0]]) == H, H >> 0], None),
        ([cp.constraints.NonNeg(x), cp.sum(x) <= -1], 1.0),
        ([cp.constraints.Zero(x - 1), cp.norm(x, 1) <= 1], 1.0),
        ([cp.quad_over_lin(x, 1) <= 1, x >= 1], None),
        ([cp.lambda_max(cp.bmat([[x[0], 1], [1, x[1]]])) <= 0, x >= 0], 1.0),
    ]
    for constraints, least in cases:
        model = cp.Problem(cp.Minimize(cp.sum(x)), constraints)
        found = sf.solve(model).relax()
        assert found.converged, (constraints, found)
        if least is not None:
            assert found.lower <= least <= found.upper, (constraints, found)
        assert sf.solve(found.problem).verdict == "feasible", constraints
