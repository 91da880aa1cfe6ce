"""cvxpy models against their canonical form: degenerate parameters of every function, pinned to a point.

Each case is a function of variables that are tied to drawn values. A bound on the right side of its numeric
value by a margin is feasible, one on the wrong side in a single entry infeasible. A case may be refused, and
must not be decided wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.cvxpy_models import accepted_atoms, comparison, conversion
from sdpfeas.errors import ProblemError

pytestmark = pytest.mark.filterwarnings("ignore::sdpfeas.errors.RoundingWarning")

Make = Callable[[Any], Any]

SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (1, 1), (2, 3), (3, 1), (2, 3, 2), (0,), (2, 0)]
SQUARES: list[tuple[int, ...]] = [(1, 1), (2, 2), (3, 3)]


def axes(shape: tuple[int, ...]) -> list[Any]:
    return [None, *range(len(shape)), *([(0, 1)] if len(shape) > 1 else [])]


def counts(n: int) -> list[float]:
    return [0, 1, n, n + 1, n + 0.5, 2 * n + 3]


def real_cases() -> Iterator[tuple[str, Make, tuple[int, ...]]]:
    """Name, function and shape of its argument."""
    for shape in SHAPES:
        n = int(np.prod(shape, dtype=int))
        for name in ("max", "min", "sum", "norm1", "norm_inf", "cummax", "cumsum", "mean", "ptp", "prod"):
            for axis in axes(shape):
                yield f"{name} axis={axis}", lambda x, f=name, a=axis: getattr(cp, f)(x, axis=a), shape
        for axis in axes(shape):
            for p in (1, 2, 3, "inf", 0.5, -1):
                yield f"norm {p} axis={axis}", lambda x, p=p, a=axis: cp.pnorm(x, p, axis=a), shape
            for keep in (True, False):
                yield (
                    f"norm 2 axis={axis} {keep}",
                    lambda x, a=axis, k=keep: cp.norm(x, 2, axis=a, keepdims=k),
                    shape,
                )
        for p in (0, 1, 2, 2.0, 3, 0.5, -1, 1.5, 4):
            yield f"power {p}", lambda x, p=p: cp.power(x, p), shape
            yield f"sum power {p}", lambda x, p=p: cp.sum(cp.power(x, p)), shape
            if shape:
                yield f"power {p} [0]", lambda x, p=p: cp.power(x, p)[0], shape
        for k in counts(n):
            yield f"sum_largest {k}", lambda x, k=k: cp.sum_largest(x, k), shape
            yield f"sum_smallest {k}", lambda x, k=k: cp.sum_smallest(x, k), shape
        for m in (0, 0.5, 1):
            yield f"huber {m}", lambda x, m=m: cp.huber(x, m), shape
        yield "abs", cp.abs, shape
        yield "pos", cp.pos, shape
        yield "tv", cp.tv, shape
        yield "sum_squares", cp.sum_squares, shape
        yield "quad_over_lin", lambda x: cp.quad_over_lin(x, 2.0), shape
        yield "geo_mean", cp.geo_mean, shape
        yield "harmonic_mean", cp.harmonic_mean, shape
        yield "maximum", lambda x: cp.maximum(x, 0.25, -x), shape
        yield "minimum", lambda x: cp.minimum(x, 0.25, -x), shape
        yield "dotsort", lambda x: cp.dotsort(x, np.arange(1.0, 3.0)), shape
        yield "constant and not", lambda x: cp.sum(cp.power(x, 0)) + cp.norm1(x), shape
        yield "empty slices", lambda x: cp.sum(cp.vec(x, order="F")[0:0]) + cp.norm1(x), shape
        yield "mixed_norm", lambda x: cp.mixed_norm(x, 2, 1), shape
        yield "scalene", lambda x: cp.scalene(x, 2.0, 3.0), shape
    for shape in SQUARES:
        n = shape[0]
        for k in counts(n):
            yield f"lambda_sum_largest {k}", lambda x, k=k: cp.lambda_sum_largest(x + x.T, k), shape
            yield f"lambda_sum_smallest {k}", lambda x, k=k: cp.lambda_sum_smallest(x + x.T, k), shape
        yield "quad_form", lambda x, n=n: cp.quad_form(x[:, 0], np.diag(np.arange(float(n)))), shape
    for shape in [*SQUARES, (1, 3), (3, 1), (2, 3), (2, 2, 2)]:
        yield "normNuc", cp.normNuc, shape
        yield "sigma_max", cp.sigma_max, shape
        yield "lambda_max", lambda x: cp.lambda_max(x + cp.swapaxes(x, -2, -1)), shape
        yield "lambda_min", lambda x: cp.lambda_min(x + cp.swapaxes(x, -2, -1)), shape


def complex_cases() -> Iterator[tuple[str, Make, tuple[int, ...]]]:
    for shape in SHAPES[:7]:
        for axis in axes(shape):
            for p in (1, 2, 3, "inf"):
                yield f"norm {p} axis={axis}", lambda x, p=p, a=axis: cp.norm(x, p, axis=a), shape
        yield "abs", cp.abs, shape
        yield "sum_squares", cp.sum_squares, shape
    for shape in SQUARES:
        for k in counts(shape[0]):
            yield f"lambda_sum_largest {k}", lambda x, k=k: cp.lambda_sum_largest(x + x.H, k), shape
        yield "lambda_max", lambda x: cp.lambda_max(x + x.H), shape
        yield "normNuc", cp.normNuc, shape
        yield "sigma_max", cp.sigma_max, shape


ALL = [(False, *case) for case in real_cases()] + [(True, *case) for case in complex_cases()]


def wrong(is_complex: bool, make: Make, shape: tuple[int, ...], seed: int) -> tuple[list[str], int]:
    """Verdicts that the numeric value refutes, and how many there were."""
    rng = np.random.default_rng(seed)
    x = cp.Variable(shape, complex=is_complex)
    point = np.asarray(rng.normal(size=shape) + (1j * rng.normal(size=shape) if is_complex else 0.0))
    point = np.abs(point) + 0.1 if seed % 2 and not is_complex else point
    try:
        whole = make(x)
        x.value = point
        value = np.real(np.asarray(whole.value, dtype=complex))
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError, np.linalg.LinAlgError):
        return [], 0  # cvxpy itself takes no such parameters
    if not (np.all(np.isfinite(value)) and whole.shape == value.shape):
        return [], 0
    x.value = None
    found, asked = [], 0
    for side, fits in ((1.0, whole.is_convex()), (-1.0, whole.is_concave())):
        for good in (True, False):
            if not fits or (value.size == 0 and not good):
                continue
            bound = np.array(value + side * 0.25 * (1.0 + np.abs(value)))
            if not good:
                at = np.unravel_index(int(rng.integers(value.size)), value.shape)
                bound[at] = value[at] - side * 0.25 * (1.0 + np.abs(value[at]))
            constraint = whole <= bound if side > 0 else whole >= bound
            try:
                verdict = sf.solve(
                    cp.Problem(cp.Minimize(0), [x == point, constraint]), time_limit=10
                ).verdict
            except ProblemError:
                continue
            asked += 1
            if verdict == ("infeasible" if good else "feasible"):
                found.append(f"{'<=' if side > 0 else '>='} {bound}: {verdict}")
    return found, asked


def test_a_sample_of_all_functions_is_decided_right() -> None:
    asked = 0
    for k in np.random.default_rng(3).choice(len(ALL), 60, replace=False):
        is_complex, name, make, shape = ALL[k]
        if point_outside(name, 0):
            continue
        bad, count = wrong(is_complex, make, shape, 0)
        assert not bad, (name, shape, bad)
        asked += count
    assert asked >= 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_all_functions_are_decided_right(seed: int) -> None:
    failures, asked = [], 0
    for is_complex, name, make, shape in ALL:
        if point_outside(name, seed):
            continue
        bad, count = wrong(is_complex, make, shape, seed)
        failures += [(is_complex, name, shape, each) for each in bad]
        asked += count
    assert not failures
    assert asked >= 800


def point_outside(name: str, seed: int) -> bool:
    """Whether a function asks for positive arguments, outside of which numeric values mean nothing."""
    positive = ("power 3", "power 0.5", "power -1", "power 1.5", "norm 0.5", "norm -1", "mean")
    return seed % 2 == 0 and any(word in name for word in positive)


X3, X, S = cp.Variable((2, 3, 4)), cp.Variable(3), cp.Variable((2, 2), symmetric=True)
REFUSED: list[Any] = [
    *(cp.norm(X3, 2, axis=a) <= 1 for a in (0, 1, 2)),
    cp.SOC(cp.Variable(8), cp.reshape(X3, (3, 2, 4), order="F"), axis=0),
    cp.sum_largest(X, 4) <= 1,
    cp.sum_smallest(X, 3.5) >= 1,
    cp.lambda_sum_largest(S, 3) <= 1,
    cp.lambda_sum_smallest(S, 3) >= 1,
    cp.power(X, 0) <= 2,
    cp.power(X, 0)[0] >= 2,
    cp.sum(cp.power(X, 0)) + cp.norm1(X) <= 2,
    X[0] >= cp.max(cp.power(X, 0)),
]


@pytest.mark.parametrize("constraint", REFUSED, ids=str)
def test_what_cvxpy_changes_is_refused(constraint: Any) -> None:
    problem = cp.Problem(cp.Minimize(0), [constraint])
    with pytest.raises(ProblemError):
        sf.solve(problem)
    with pytest.raises(ProblemError):
        problem.solve(solver=sf.cvxpy_solver())


#: Changed by cvxpy in a way that values at random points show.
SEEN: list[tuple[Any, float]] = [
    (cp.norm(X3, 2, axis=1) <= 1, 2.0),
    (cp.sum_largest(X, 4) <= -3, 1.0),
    (cp.lambda_sum_largest(S, 3) <= -1, 1.0),
    (cp.sum(cp.power(X, 0)) + cp.norm1(X) <= 2, 0.0),
]


@pytest.mark.parametrize(("constraint", "pinned"), SEEN, ids=[str(c) for c, _ in SEEN])
def test_the_comparison_needs_no_list(
    constraint: Any, pinned: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepted_atoms, "_require_exact", lambda atom: None)
    monkeypatch.setattr(accepted_atoms, "_require_data", lambda node: None)
    problem = cp.Problem(cp.Minimize(0), [constraint])
    with pytest.raises(ProblemError):
        sf.solve(problem)


def test_a_point_that_violates_the_model_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted_atoms, "_require_exact", lambda atom: None)
    monkeypatch.setattr(conversion, "require_equivalent", lambda form: None)
    point = np.array([1.0, 2.0, 3.0])
    problem = cp.Problem(cp.Minimize(0), [cp.sum_largest(X, 4) <= 5.0, point == X])
    result = sf.solve(problem)
    assert result.verdict == "undecided"
    assert "sum_largest" in result.reason
    X.value = point
    assert sf.verify(problem).verdict != "feasible"
    with pytest.raises(ProblemError, match="violates"):
        sf.optimum(cp.Problem(cp.Minimize(X[0]), problem.constraints), time_limit=2)


def test_values_are_left_as_they_were() -> None:
    x, y = cp.Variable(2), cp.Variable()
    x.value = [1.0, 2.0]
    sf.from_cvxpy(cp.Problem(cp.Minimize(0), [cp.norm(x) <= y]))
    assert x.value.tolist() == [1.0, 2.0]
    assert y.value is None


def test_constraints_of_one_structure_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(comparison, "_same", set())
    solved: list[int] = []
    least = comparison._least_slacks
    monkeypatch.setattr(comparison, "_least_slacks", lambda *given: solved.append(1) or least(*given))
    x = cp.Variable(4)
    model = cp.Problem(cp.Minimize(0), [cp.norm(rng.uniform(1, 2, (3, 4)) @ x) <= 1 for _ in range(50)])
    sf.from_cvxpy(model)
    first = len(solved)
    sf.from_cvxpy(model)
    assert 1 <= first <= 10
    assert len(solved) == first
