"""Every function of cvxpy we take, real and complex: its value decides, computed here without cvxpy.

A constraint ``f(x) <= level`` (or ``>=``) with ``x`` tied to a drawn point is feasible exactly when ``level``
is on the right side of ``f`` at the point. Verdicts on both sides pin the translation down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.cvxpy_models import convert

Rng = np.random.Generator

P3 = np.array([[4.0, 2.0, 0.0], [2.0, 5.0, 0.0], [0.0, 0.0, 9.0]])
H2 = np.array([[2.0, 1j], [-1j, 2.0]])


def vector(rng: Rng) -> np.ndarray:
    return rng.normal(size=3)


def positive(rng: Rng) -> np.ndarray:
    return rng.uniform(0.5, 2.0, 3)


def complex_vector(rng: Rng) -> np.ndarray:
    return rng.normal(size=2) + 1j * rng.normal(size=2)


def imaginary(rng: Rng) -> np.ndarray:
    return 1j * rng.normal(size=2)


def rectangle(rng: Rng) -> np.ndarray:
    return rng.normal(size=(2, 3))


def symmetric(rng: Rng) -> np.ndarray:
    root = rng.normal(size=(3, 3))
    return root + root.T


def definite(rng: Rng) -> np.ndarray:
    root = rng.normal(size=(3, 3))
    return root @ root.T + np.eye(3)


def hermitian(rng: Rng) -> np.ndarray:
    root = rng.normal(size=(2, 2)) + 1j * rng.normal(size=(2, 2))
    whole = root @ root.conj().T + 0.5 * np.eye(2)
    return (whole + whole.conj().T) / 2  # to the last bit, which a product need not be


def complex_matrix(rng: Rng) -> np.ndarray:
    return rng.normal(size=(2, 2)) + 1j * rng.normal(size=(2, 2))


def eigenvalues(x: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(x)


def singular(x: np.ndarray) -> np.ndarray:
    return np.linalg.svd(x, compute_uv=False)


def huber(x: np.ndarray, m: float) -> np.ndarray:
    size = np.abs(x)
    return np.where(size <= m, x**2, 2 * m * size - m**2)


@dataclass(frozen=True)
class Case:
    """A function, its value, and where to draw a point; a concave one is bounded from below.

    cvxpy does not take every real function into a problem with complex variables.
    """

    name: str
    atom: Callable[[Any], Any]
    value: Callable[[np.ndarray], float]
    draw: Callable[[Rng], np.ndarray]
    concave: bool = False
    real_only: bool = False

    @property
    def side(self) -> int:
        return -1 if self.concave else 1


CASES = [
    Case("abs", lambda x: cp.sum(cp.abs(x)), lambda x: np.abs(x).sum(), vector),
    Case("norm1", cp.norm1, lambda x: np.abs(x).sum(), vector),
    Case("norm2", cp.norm2, np.linalg.norm, vector),
    Case("norm_inf", cp.norm_inf, lambda x: np.abs(x).max(), vector),
    Case("pnorm 3", lambda x: cp.pnorm(x, 3), lambda x: (np.abs(x) ** 3).sum() ** (1 / 3), vector),
    Case("pnorm 1.5", lambda x: cp.pnorm(x, 1.5), lambda x: (np.abs(x) ** 1.5).sum() ** (2 / 3), vector),
    Case("pnorm 4/3", lambda x: cp.pnorm(x, 4 / 3), lambda x: (np.abs(x) ** (4 / 3)).sum() ** 0.75, vector),
    Case(
        "pnorm 1/2",
        lambda x: cp.pnorm(x, 0.5),
        lambda x: np.sqrt(x).sum() ** 2,
        positive,
        concave=True,
        real_only=True,
    ),
    Case(
        "pnorm -1",
        lambda x: cp.pnorm(x, -1),
        lambda x: 1 / (1 / x).sum(),
        positive,
        concave=True,
        real_only=True,
    ),
    Case("max", cp.max, np.max, vector),
    Case("min", cp.min, np.min, vector, concave=True),
    Case("maximum", lambda x: cp.maximum(x[0], 2 * x[1], x[2]), lambda x: max(x[0], 2 * x[1], x[2]), vector),
    Case("minimum", lambda x: cp.minimum(x[0], x[1]), lambda x: min(x[0], x[1]), vector, concave=True),
    Case("ptp", cp.ptp, np.ptp, vector),
    Case("cummax", lambda x: cp.sum(cp.cummax(x)), lambda x: np.maximum.accumulate(x).sum(), vector),
    Case("cumsum", lambda x: cp.max(cp.cumsum(x)), lambda x: np.cumsum(x).max(), vector),
    Case("sum_largest", lambda x: cp.sum_largest(x, 2), lambda x: np.sort(x)[1:].sum(), vector),
    Case(
        "sum_smallest", lambda x: cp.sum_smallest(x, 2), lambda x: np.sort(x)[:2].sum(), vector, concave=True
    ),
    Case("dotsort", lambda x: cp.dotsort(x, [1, 0, 3]), lambda x: np.sort(x) @ [0, 1, 3], vector),
    Case("cvar", lambda x: cp.cvar(x, 0.5), lambda x: (np.sort(x)[2] + np.sort(x)[1] / 2) / 1.5, vector),
    Case("huber", lambda x: cp.sum(cp.huber(x, 0.7)), lambda x: huber(x, 0.7).sum(), vector),
    Case(
        "scalene",
        lambda x: cp.sum(cp.scalene(x, 2, 3)),
        lambda x: np.where(x > 0, 2 * x, -3 * x).sum(),
        vector,
    ),
    Case("tv", cp.tv, lambda x: np.abs(np.diff(x)).sum(), vector),
    Case("square", lambda x: cp.sum(cp.square(x)), lambda x: (x**2).sum(), vector),
    Case("power 2.0", lambda x: cp.sum(cp.power(x, 2.0)), lambda x: (x**2).sum(), vector),
    Case("power 4", lambda x: cp.sum(x**4), lambda x: (x**4).sum(), vector),
    Case("power 3", lambda x: cp.sum(x**3), lambda x: (x**3).sum(), positive),
    Case("power 4/3", lambda x: cp.sum(x ** (4 / 3)), lambda x: (x ** (4 / 3)).sum(), positive),
    Case("power 1.1", lambda x: cp.sum(x**1.1), lambda x: (x**1.1).sum(), positive),
    Case("power of abs", lambda x: cp.sum(cp.abs(x) ** 3), lambda x: (np.abs(x) ** 3).sum(), vector),
    Case("power of pos", lambda x: cp.sum(cp.pos(x) ** 3), lambda x: (np.maximum(x, 0) ** 3).sum(), vector),
    Case("power -1/2", lambda x: cp.sum(x**-0.5), lambda x: (x**-0.5).sum(), positive),
    Case("inv_pos", lambda x: cp.sum(cp.inv_pos(x)), lambda x: (1 / x).sum(), positive),
    Case("inv_prod", cp.inv_prod, lambda x: 1 / np.prod(x), positive),
    Case("sqrt", lambda x: cp.sum(cp.sqrt(x)), lambda x: np.sqrt(x).sum(), positive, concave=True),
    Case("cube root", lambda x: cp.sum(x ** (1 / 3)), lambda x: np.cbrt(x).sum(), positive, concave=True),
    Case(
        "power 2/3",
        lambda x: cp.sum(cp.power(x, Fraction(2, 3))),
        lambda x: (np.cbrt(x) ** 2).sum(),
        positive,
        concave=True,
    ),
    Case("geo_mean", cp.geo_mean, lambda x: np.cbrt(np.prod(x)), positive, concave=True),
    Case(
        "weighted geo_mean",
        lambda x: cp.geo_mean(x, [0.1, 0.2, 0.7]),
        lambda x: np.prod(x ** [0.1, 0.2, 0.7]),
        positive,
        concave=True,
    ),
    Case(
        "partial geo_mean",
        lambda x: cp.geo_mean(x, [1, 0, 2]),
        lambda x: np.cbrt(x[0] * x[2] ** 2),
        lambda rng: rng.uniform(0.5, 2.0, 3) * [1, -1, 1],
        concave=True,
    ),
    Case(
        "harmonic_mean", cp.harmonic_mean, lambda x: 3 / (1 / x).sum(), positive, concave=True, real_only=True
    ),
    Case(
        "quad_over_lin",
        lambda x: cp.quad_over_lin(x[:2], x[2]),
        lambda x: (x[:2] ** 2).sum() / x[2],
        positive,
    ),
    Case("quad_form", lambda x: cp.quad_form(x, P3), lambda x: x @ P3 @ x, vector),
    Case("negative form", lambda x: cp.quad_form(x, -P3), lambda x: -x @ P3 @ x, vector, concave=True),
    Case("sum_squares", cp.sum_squares, lambda x: x @ x, vector),
    Case("std", cp.std, np.std, vector),
    Case("var", cp.var, np.var, vector),
    Case(
        "mixed_norm", lambda x: cp.mixed_norm(x, 2, 1), lambda x: np.linalg.norm(x, axis=1).sum(), rectangle
    ),
    Case(
        "norms of columns",
        lambda x: cp.max(cp.norm(x, axis=0)),
        lambda x: np.linalg.norm(x, axis=0).max(),
        rectangle,
    ),
    Case(
        "norms of rows",
        lambda x: cp.sum(cp.norm(x, axis=1)),
        lambda x: np.linalg.norm(x, axis=1).sum(),
        rectangle,
    ),
    Case("sigma_max", cp.sigma_max, lambda x: singular(x)[0], rectangle),
    Case("normNuc", cp.normNuc, lambda x: singular(x).sum(), rectangle),
    Case("Frobenius", lambda x: cp.norm(x, "fro"), np.linalg.norm, rectangle),
    Case("lambda_max", cp.lambda_max, lambda x: eigenvalues(x)[-1], symmetric),
    Case("lambda_min", cp.lambda_min, lambda x: eigenvalues(x)[0], symmetric, concave=True),
    Case(
        "lambda_sum_largest",
        lambda x: cp.lambda_sum_largest(x, 2),
        lambda x: eigenvalues(x)[1:].sum(),
        symmetric,
    ),
    Case(
        "lambda_sum_smallest",
        lambda x: cp.lambda_sum_smallest(x, 2),
        lambda x: eigenvalues(x)[:2].sum(),
        symmetric,
        concave=True,
    ),
    Case("tr_inv", cp.tr_inv, lambda x: np.trace(np.linalg.inv(x)), definite),
    Case(
        "matrix_frac",
        lambda x: cp.matrix_frac(np.array([1.0, 2.0, 3.0]), x),
        lambda x: np.array([1.0, 2.0, 3.0]) @ np.linalg.solve(x, [1.0, 2.0, 3.0]),
        definite,
    ),
    Case("complex abs", lambda z: cp.sum(cp.abs(z)), lambda z: np.abs(z).sum(), complex_vector),
    Case("complex norm1", cp.norm1, lambda z: np.abs(z).sum(), complex_vector),
    Case("complex norm2", cp.norm2, np.linalg.norm, complex_vector),
    Case("complex norm_inf", cp.norm_inf, lambda z: np.abs(z).max(), complex_vector),
    Case(
        "complex pnorm 3",
        lambda z: cp.pnorm(z, 3),
        lambda z: (np.abs(z) ** 3).sum() ** (1 / 3),
        complex_vector,
    ),
    Case("complex sum_squares", cp.sum_squares, lambda z: np.vdot(z, z).real, complex_vector),
    Case(
        "complex quad_form", lambda z: cp.quad_form(z, H2), lambda z: np.vdot(z, H2 @ z).real, complex_vector
    ),
    Case("real part", lambda z: cp.real(cp.sum(z)), lambda z: z.sum().real, complex_vector),
    Case(
        "imaginary part", lambda z: cp.imag(z[0] * (1 + 2j)), lambda z: (z[0] * (1 + 2j)).imag, complex_vector
    ),
    Case("conjugate", lambda z: cp.imag(cp.conj(z)[1] / 2), lambda z: -z[1].imag / 2, complex_vector),
    Case(
        "convolution",
        lambda z: cp.norm1(cp.convolve([1, 1j], z)),
        lambda z: np.abs(np.convolve([1, 1j], z)).sum(),
        complex_vector,
    ),
    Case("imaginary abs", lambda z: cp.sum(cp.abs(z)), lambda z: np.abs(z).sum(), imaginary),
    Case("imaginary norm", cp.norm2, np.linalg.norm, imaginary),
    Case("imaginary quad_form", lambda z: cp.quad_form(z, H2), lambda z: np.vdot(z, H2 @ z).real, imaginary),
    Case("Hermitian lambda_max", cp.lambda_max, lambda z: eigenvalues(z)[-1], hermitian),
    Case("Hermitian lambda_min", cp.lambda_min, lambda z: eigenvalues(z)[0], hermitian, concave=True),
    Case(
        "Hermitian lambda_sum_largest",
        lambda z: cp.lambda_sum_largest(z, 1),
        lambda z: eigenvalues(z)[-1],
        hermitian,
    ),
    Case(
        "lambda_sum_largest of a real part",
        lambda z: cp.lambda_sum_largest(cp.real(z), 1),
        lambda z: eigenvalues(z.real)[-1],
        hermitian,
    ),
    Case(
        "Hermitian matrix_frac",
        lambda z: cp.matrix_frac(np.array([1.0, 2j]), z),
        lambda z: np.vdot([1, 2j], np.linalg.solve(z, [1, 2j])).real,
        hermitian,
    ),
    Case("Hermitian trace", lambda z: cp.real(cp.trace(H2 @ z)), lambda z: np.trace(H2 @ z).real, hermitian),
    Case("kron", lambda z: cp.lambda_max(cp.kron(np.eye(2), z)), lambda z: eigenvalues(z)[-1], hermitian),
    Case("complex sigma_max", cp.sigma_max, lambda z: singular(z)[0], complex_matrix),
    Case("complex normNuc", cp.normNuc, lambda z: singular(z).sum(), complex_matrix),
    Case("complex Frobenius", lambda z: cp.norm(z, "fro"), np.linalg.norm, complex_matrix),
    Case(
        "complex mixed_norm",
        lambda z: cp.mixed_norm(z, 2, 1),
        lambda z: np.linalg.norm(z, axis=1).sum(),
        complex_matrix,
    ),
]


def variable(point: np.ndarray, name: str) -> cp.Variable:
    """A variable the point is a value of, with an attribute where the function asks for one."""
    attributes: dict[str, bool] = {}
    square = point.ndim == 2 and point.shape[0] == point.shape[1]
    if square and np.allclose(point, point.conj().T):
        attributes["hermitian" if np.iscomplexobj(point) else "symmetric"] = True
    elif np.iscomplexobj(point):
        attributes["complex" if np.any(point.real) else "imag"] = True
    return cp.Variable(point.shape, name=name, **attributes)


def real(expression: Any) -> Any:
    return cp.real(expression) if expression.is_complex() else expression


def value(case: Case, point: np.ndarray) -> float:
    return float(case.value(point))


def gap(level: float) -> float:
    return 0.01 * max(abs(level), 0.1)


def bounded(case: Case, x: Any, level: float) -> Any:
    return case.atom(x) <= level if case.side > 0 else case.atom(x) >= level


def violation(case: Case, point: np.ndarray, level: float) -> float:
    return max(case.side * (value(case, point) - level), 0.0)


#: These share their translation with another case.
SLOW = (
    {"abs", "pnorm 1.5", "pnorm 1/2", "pnorm 3", "ptp", "cumsum", "cummax", "cvar", "scalene", "tv", "square"}
    | {"power 2.0", "power 3", "power of pos", "power -1/2", "inv_prod", "sqrt", "cube root", "harmonic_mean"}
    | {"negative form", "var", "std", "norms of rows", "mixed_norm", "Frobenius", "min", "minimum"}
    | {
        "lambda_min",
        "lambda_sum_smallest",
        "sum_smallest",
        "real part",
        "imaginary part",
        "conjugate",
        "kron",
    }
    | {"complex norm2", "complex sum_squares", "complex Frobenius", "complex mixed_norm", "imaginary norm"}
    | {"Hermitian lambda_min"}
)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name in SLOW else [])
        for case in CASES
    ],
)
@pytest.mark.filterwarnings("ignore::sdpfeas.errors.RoundingWarning")
def test_the_value_decides(case: Case) -> None:
    rng = np.random.default_rng(len(case.name))
    point = case.draw(rng)
    level = value(case, point)
    x = variable(point, "x")
    for inside, verdict in ((True, "feasible"), (False, "infeasible")):
        bound = level + case.side * gap(level) * (1 if inside else -1)
        form = convert(cp.Problem(cp.Minimize(0), [x == point, bounded(case, x, bound)]))
        result = sf.solve(form.problem, "clarabel")
        if result.verdict == "undecided":
            result = sf.solve(form.problem)
        assert result.verdict == verdict
        if inside:
            form.assign(result.point)
            assert np.max(np.abs(x.value - point)) < 1e-6


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(s, marks=pytest.mark.slow) for s in range(4, 100))]
)
@pytest.mark.filterwarnings("ignore::sdpfeas.errors.RoundingWarning")
def test_random_mixtures(seed: int) -> None:
    """Several functions of variables that share rows: points keep every bound, the hopeless have none."""
    rng = np.random.default_rng(seed)
    complex_too = bool(rng.integers(2))
    choice = [case for case in CASES if (not case.real_only if complex_too else np.isrealobj(case.draw(rng)))]
    chosen = [choice[int(k)] for k in rng.choice(len(choice), 3, replace=False)]
    points = [case.draw(rng) for case in chosen]
    levels = [value(case, point) for case, point in zip(chosen, points, strict=True)]
    levels = [level + case.side * gap(level) for level, case in zip(levels, chosen, strict=True)]
    variables = [variable(point, f"x{k}") for k, point in enumerate(points)]
    weights = [rng.normal(size=point.size) for point in points]
    joint = sum(real(w @ cp.vec(x, order="F")) for w, x in zip(weights, variables, strict=True))
    at_points = sum((w @ p.ravel(order="F")).real for w, p in zip(weights, points, strict=True))
    shared = [joint == at_points, *map(bounded, chosen, variables, levels)]
    problem = cp.Problem(cp.Maximize(real(cp.sum(variables[0]))), shared)
    form = convert(problem)
    result = sf.solve(form.problem, "clarabel")
    assert result.verdict == "feasible"
    form.assign(result.point)
    for case, x, level in zip(chosen, variables, levels, strict=True):
        assert violation(case, x.value, level) < 1e-6 * max(1.0, abs(level))
    assert max(np.max(c.violation()) for c in shared) < 1e-6 * max(1.0, abs(at_points))

    broken = int(rng.integers(3))
    levels[broken] -= 2 * chosen[broken].side * gap(levels[broken])
    tied = [x == point for x, point in zip(variables, points, strict=True)]
    hopeless = cp.Problem(cp.Minimize(0), [*tied, *map(bounded, chosen, variables, levels)])
    assert sf.solve(sf.from_cvxpy(hopeless), "clarabel").verdict != "feasible"


@pytest.mark.parametrize(
    ("atom", "point"),
    [
        (lambda x: x**3 <= 9, -1.0),
        (lambda x: x ** (4 / 3) <= 9, -1.0),
        (lambda x: x**1.6 <= 9, -1.0),
        (lambda x: x**6 <= 9, -1.0),
        (lambda x: cp.power(2 * x + 1, 8 / 3) <= 9, -1.0),
        (lambda x: cp.sqrt(x) >= -9, -1.0),
        (lambda x: x**0.25 >= -9, -1.0),
        (lambda x: cp.inv_pos(x) <= 9, -1.0),
        (lambda x: x**-2 <= 9, -1.0),
        (lambda x: cp.quad_over_lin(1, x) <= 9, -1.0),
        (lambda x: cp.geo_mean(cp.hstack([x, 1])) >= -9, -1.0),
        (lambda x: cp.pnorm(cp.hstack([x, 1]), 0.5) >= -9, -1.0),
        (lambda x: cp.harmonic_mean(cp.hstack([x, 1])) >= -9, -1.0),
        (lambda x: cp.tr_inv(cp.diag(cp.hstack([x, 1]))) <= 9, -1.0),
        (lambda x: cp.matrix_frac(np.ones(2), cp.diag(cp.hstack([x, 1]))) <= 9, -1.0),
        (lambda x: cp.lambda_max(cp.bmat([[0, x], [0, 0]])) <= 9, -1.0),
    ],
)
def test_domains_are_kept(atom: Callable[[Any], Any], point: float) -> None:
    x = cp.Variable()
    assert sf.solve(sf.from_cvxpy(cp.Problem(cp.Minimize(0), [x == point, atom(x)]))).verdict == "infeasible"
