"""Existence proofs at their limits: graded points, nearly dependent rows, very many rows, any size.

Every planted problem has a twin next to it whose truth is the opposite: granting that one would be the bug.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from equations import equations, hermitian, symmetric
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, examples, scattered

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.numerics.limits import limited
from sdpfeas.numerics.linalg import random_orthogonal, sparse_factor
from sdpfeas.numerics.rounding import norms_upper
from sdpfeas.verifier.equality_correction import correction_systems
from sdpfeas.verifier.gram import smallest_lower
from sdpfeas.verifier.point_metric import Orthonormalisation, ScaledVectors, metric_system
from sdpfeas.verifier.rigorous import prove_point

RIGOROUS = (sf.Verdict.FEASIBLE, sf.Proof.RIGOROUS)


def graded(rng: np.random.Generator, kind: str, spread: int):
    """A point whose sizes differ by powers of two, and rows that see all of it; with its set."""
    n, m = 5, 6
    powers = np.ldexp(1.0, rng.integers(-spread, spread + 1, n))
    powers[:2] = np.ldexp(1.0, [-spread, spread])
    outer = np.outer(powers, powers)
    if kind == "psd":
        return sf.PSD(n), symmetric(rng, m, n) / outer, planted.interior(rng, sf.PSD(n)) * outer
    if kind == "hermitian":
        block = sf.HermitianPSD(n)
        root = rng.normal(size=(n, n)) + 1j * rng.normal(size=(n, n))
        x = (root @ root.conj().T + np.eye(n)) * outer
        return (
            block,
            block.coordinates(hermitian(rng, m, n) / outer, exact=False),
            block.coordinates(x, exact=False),
        )
    return sf.Nonneg(2 * n), rng.normal(size=(m, 2 * n)) / np.tile(powers, 2), np.tile(powers, 2)


@pytest.mark.parametrize("kind", ["psd", "hermitian", "nonneg"])
@pytest.mark.parametrize("spread", [30, 200])
def test_graded_points_are_proved(kind: str, spread: int) -> None:
    rng = np.random.default_rng(spread)
    block, rows, x = graded(rng, kind, spread)
    problem = equations([block], [rows], (x,))
    check = sf.verify(problem, sf.Claim(point=(x,)), rigorous=True, repair=False)
    assert (check.verdict, check.proof) == RIGOROUS, check.reason
    if spread <= 30:  # a point that misses its rows is moved onto them, in its own metric
        off = x * (1.0 + 1e-10 * (rng.normal() if kind != "nonneg" else rng.normal(size=x.shape)))
        check = sf.verify(problem, sf.Claim(point=(off,)), rigorous=True)
        assert (check.verdict, check.proof) == RIGOROUS, check.reason


@pytest.mark.parametrize("kind", ["psd", "hermitian", "nonneg"])
def test_graded_twins_are_not_granted(kind: str) -> None:
    """One row more fixes the smallest part at less than nothing: by a hair in terms of the point."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        block, rows, x = graded(rng, kind, 30)
        first = np.zeros_like(rows[:1])
        first[(0,) * first.ndim] = 1.0
        rows = np.concatenate([rows[:4], first])
        problem = equations([block], [rows], (x,))
        bounds = np.array(problem.lower)
        bounds[-1] = -(2.0**-70) if seed % 2 else -(2.0**-600)
        twin = sf.FeasibilityProblem([block], [rows], bounds, bounds)
        for point in ((x,), (np.where(first[0] > 0.0, abs(bounds[-1]), x),)):
            for repair in (False, True):
                check = sf.verify(twin, sf.Claim(point=point), rigorous=True, repair=repair)
                assert check.verdict is not sf.Verdict.FEASIBLE


def test_graded_points_in_any_basis_are_proved() -> None:
    rng = np.random.default_rng(0)
    for least in (1e-8, 1e-11, 1e-12):
        lam = np.geomspace(1.0, least, 6)
        turn = random_orthogonal(rng, 6)
        x = sf.PSD(6).symmetrize((turn * lam) @ turn.T)
        inverse = turn / np.sqrt(lam)
        rows = np.array([inverse @ a @ inverse.T for a in symmetric(rng, 8, 6)])
        problem = equations([sf.PSD(6)], [0.5 * (rows + rows.transpose(0, 2, 1))], (x,))
        check = sf.verify(problem, sf.Claim(point=(x,)), rigorous=True)
        assert (check.verdict, check.proof) == RIGOROUS, check.reason


SETS = {
    "psd": sf.PSD(5),
    "hermitian": sf.HermitianPSD(3),
    "second order": sf.SecondOrder(7),
    "box": sf.SpectralBox(5, -1.0, 2.0),
    "fantope": sf.SpectralBox(5, trace=2.0),
    "nonneg": sf.Nonneg(8),
    "free": sf.Free(8),
}


def near_dependence(rng: np.random.Generator, block, gap: float) -> np.ndarray:
    """Rows two pairs of which differ by no more than a gap."""
    rows = np.array([block.symmetrize(rng.normal(size=block.shape)) for _ in range(5)])
    for i in (0, 2):
        rows[i + 1] = rows[i] + gap * rows[i + 1]
    return rows


@pytest.mark.parametrize("gap", [1e-9])
@pytest.mark.parametrize("kind", SETS)
def test_nearly_dependent_rows_are_proved(kind: str, gap: float) -> None:
    rng = np.random.default_rng(3)
    block = SETS[kind]
    x = planted.interior(rng, block)
    problem = equations([block], [near_dependence(rng, block, gap)], (x,))
    check = sf.verify(problem, sf.Claim(point=(x,)), rigorous=True)
    assert (check.verdict, check.proof) == RIGOROUS, check.reason


@pytest.mark.parametrize("kind", SETS)
def test_rows_that_contradict_each_other_by_a_hair_are_not_granted(kind: str) -> None:
    """The same row twice, or a last digit apart, with another bound: no point is granted."""
    contradicting_twins(kind, range(1))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETS)
def test_many_rows_that_contradict_each_other_by_a_hair_are_not_granted(kind: str) -> None:
    contradicting_twins(kind, range(1, 80))


def contradicting_twins(kind: str, seeds: range) -> None:
    block = SETS[kind]
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows = near_dependence(rng, block, 0.0)
        x = planted.interior(rng, block)
        problem = equations([block], [rows], (x,))
        bounds = np.array(problem.lower)
        bounds[1] = bounds[0] + 10.0 ** rng.uniform(-16.0, -9.0) * max(abs(bounds[0]), 1.0)
        bounds[1] = np.nextafter(bounds[0], np.inf) if bounds[1] == bounds[0] else bounds[1]
        bounds[3] = bounds[2]
        twin = sf.FeasibilityProblem([block], [rows], bounds, bounds)
        for repair in (False, True):
            check = sf.verify(twin, sf.Claim(point=(x,)), rigorous=True, repair=repair)
            assert check.verdict is not sf.Verdict.FEASIBLE, check.explain()


def chained_rows(rng: np.random.Generator, m: int, n: int) -> sp.csr_array:
    """Rows of two entries each, every one shared with the next."""
    i, j = np.triu_indices(n, 1)
    pick = rng.permutation(i.size)[: m + 1]
    upper, lower = i[pick] * n + j[pick], j[pick] * n + i[pick]
    columns = np.stack([upper[:-1], lower[:-1], upper[1:], lower[1:]], 1).ravel()
    values = np.tile([1.0, 1.0, -0.5, -0.5], m)
    return sp.csr_array((values, (np.repeat(np.arange(m), 4), columns)), shape=(m, n * n))


@pytest.mark.parametrize("kind", ["psd", "box", "mixed"])
def test_thousands_of_sparse_rows_are_proved(kind: str) -> None:
    rng = np.random.default_rng(5)
    m, n = 4000, 100
    rows = chained_rows(rng, m, n)
    x = planted.interior(rng, sf.PSD(n))
    sets: list = [sf.SpectralBox(n, 0.0, 4.0, trace=float(np.trace(x))) if kind == "box" else sf.PSD(n)]
    parts, point = [rows], [x]
    if kind == "mixed":
        sets.append(sf.Nonneg(50))
        parts.append(scattered(rng, m, 50, 0.001))
        point.append(np.ones(50))
    problem = equations(sets, parts, point)
    for noise in (0.0, 1e-11):
        given_ = (x + noise * planted.symmetric(rng, n), *point[1:])
        check = sf.verify(problem, sf.Claim(point=given_), rigorous=True)
        assert (check.verdict, check.proof) == RIGOROUS, check.reason
    # The first row once more, with another bound.
    again = [sp.vstack([part, part[[0]]], format="csr") for part in parts]
    bounds = np.append(problem.lower, problem.lower[0] + 1e-9)
    twin = sf.FeasibilityProblem(sets, again, bounds, bounds)
    assert sf.verify(twin, sf.Claim(point=point), rigorous=True).verdict is not sf.Verdict.FEASIBLE


@pytest.mark.parametrize("power", [400])
@pytest.mark.parametrize("kind", ["psd", "hermitian", "second order", "nonneg"])
def test_numbers_of_any_size_are_proved(kind: str, power: int) -> None:
    """Rows beyond 1e100 and below 1e-100 in one problem, and two blocks as far apart."""
    rng = np.random.default_rng(1)
    block = SETS[kind]
    x, z = planted.interior(rng, block), planted.interior(rng, block)
    rows = np.array([block.symmetrize(rng.normal(size=block.shape)) for _ in range(4)])
    signs = np.array([1, -1, 1, -1])
    for side in (power, -power):
        own = np.array([np.ldexp(a, s * power // 2) for a, s in zip(rows, signs, strict=True)])
        other = np.array([np.ldexp(a, s * power // 2 + side) for a, s in zip(rows[::-1], signs, strict=True)])
        point = (x, np.ldexp(z, -side))
        problem = equations([block, block], [own, other], point)
        check = sf.verify(problem, sf.Claim(point=point), rigorous=True, repair=False)
        assert (check.verdict, check.proof) == RIGOROUS, check.reason


# ---------------------------------------------------------------- certificates


@pytest.mark.parametrize("gap", [1e-6, 1e-8])
def test_certificates_on_nearly_dependent_free_columns_are_proved(gap: float) -> None:
    rng = np.random.default_rng(2)
    columns = rng.normal(size=(8, 3))
    columns[:, 1] = columns[:, 0] + gap * columns[:, 1]
    y = rng.normal(size=8)
    for _ in range(3):
        y = y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]
    rows = symmetric(rng, 8, 4)
    rows -= (y / (y @ y))[:, None, None] * (np.tensordot(y, rows, 1) + np.eye(4))
    bounds = y / (y @ y)
    sets = [sf.PSD(4), sf.Free(3)]
    check = sf.verify(
        sf.FeasibilityProblem(sets, [rows, columns], bounds, bounds), sf.Claim(certificate=y), rigorous=True
    )
    assert (check.verdict, check.proof) == (sf.Verdict.INFEASIBLE, sf.Proof.RIGOROUS), check.reason
    # A column that the multipliers do not annul makes the problem feasible: nothing is granted.
    twin = np.column_stack([columns, columns[:, 0] + gap * gap * y])
    feasible = sf.FeasibilityProblem([sf.PSD(4), sf.Free(4)], [rows, twin], bounds, bounds)
    for repair in (False, True):
        check = sf.verify(feasible, sf.Claim(certificate=y), rigorous=True, repair=repair)
        assert check.verdict is not sf.Verdict.INFEASIBLE


@pytest.mark.parametrize("spread", [15, 25, 40])
def test_graded_multipliers_of_lmis_are_proved(spread: int) -> None:
    rng = np.random.default_rng(spread)
    y = planted.interior(rng, sf.PSD(5))
    powers = np.ldexp(1.0, rng.integers(-spread, spread + 1, 5))
    outer = np.outer(powers, powers)
    parts = symmetric(rng, 4, 5)
    parts -= (np.tensordot(parts, y, 2) / np.sum(y * y))[:, None, None] * y
    for sign, wanted in ((-1.0, sf.Verdict.INFEASIBLE), (1.0, sf.Verdict.UNDECIDED)):
        lmi = sf.LMI(sf.PSD(5), sign * y / outer, [parts / outer])
        problem = sf.FeasibilityProblem([sf.Free(4)], [None], [], [], lmis=[lmi])
        check = sf.verify(problem, sf.Claim(certificate=(y * outer).reshape(-1)), rigorous=True)
        assert check.verdict is wanted, check.reason


# ---------------------------------------------------------------- the bounds themselves


@examples(0.5)
@given(SEEDS, st.integers(0, 14))
def test_bounds_of_corrections_hold_in_rational_arithmetic(seed: int, gap: int) -> None:
    """What is proved to be the length of a correction is never less than the least one, in fractions."""
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-4, 5, (2, 3)).astype(float)
    vectors[1] = vectors[0] + np.ldexp(vectors[1], -3 * gap)
    target = rng.integers(-3, 4, 2).astype(float)
    bound = Orthonormalisation(
        ScaledVectors(vectors, np.zeros(2), np.zeros(2, dtype=np.int64))
    ).shortest_upper(np.abs(target))
    a, b = ([Fraction(v) for v in row] for row in vectors)
    p, q, r = (sum(x * y for x, y in zip(u, v, strict=True)) for u, v in ((a, a), (a, b), (b, b)))
    determinant = p * r - q * q
    if determinant == 0:
        assert not np.isfinite(bound) or not target.any()
        return
    s, t = (Fraction(v) for v in target)
    square = (r * s * s - 2 * q * s * t + p * t * t) / determinant
    if np.isfinite(bound):
        assert Fraction(bound) ** 2 >= square


@examples(0.3)
@given(SEEDS, st.integers(0, 50))
def test_smallest_eigenvalues_of_sparse_matrices_are_no_larger_than_they_are(seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    n = 12
    table = rng.integers(-2, 3, (n, n - 1)) * (rng.random((n, n - 1)) < 0.3)
    # Singular but for a multiple of the identity, which is then the smallest eigenvalue, exactly.
    matrix = sp.csr_array(table @ table.T + np.ldexp(1.0, -power) * np.eye(n))
    try:
        bound = smallest_lower(matrix, sparse_factor(matrix))
    except np.linalg.LinAlgError:
        return
    assert bound <= 2.0**-power
    if power <= 30:
        assert bound > 0.0


def test_metric_norms_bound_what_steps_do() -> None:
    """Random steps of norm one stay in the set and move rows by no more than is said."""
    for seed, kind in enumerate(["psd", "box", "hermitian", "second order", "nonneg"]):
        rng = np.random.default_rng(seed)
        block = SETS[kind]
        x = planted.interior(rng, block)
        rows = np.array([block.symmetrize(rng.normal(size=block.shape)) for _ in range(3)])
        problem = equations([block], [rows], (x,))
        system = metric_system(problem, (x,))
        assert system is not None
        (part,) = system.parts
        norms = part.transformed(problem.rows[0]).norms
        for _ in range(20):
            s = rng.normal(size=part.size)
            if not isinstance(part.weight, np.ndarray):
                side = round(np.sqrt(part.size))
                s = (s.reshape(side, side) + s.reshape(side, side).T).reshape(-1)
            step = part.step(s / np.linalg.norm(s))
            assert block.depth(x + step) > 0.0
            assert np.linalg.norm(step) <= part.reach
            assert np.all(np.abs(problem.rows[0].apply(step)) <= norms * (1.0 + 1e-12))
        assert norms_upper(rows.reshape(3, -1)).all()


def test_what_takes_too_long_is_left_out() -> None:
    """A deadline is kept by the finer proofs, too."""
    rng = np.random.default_rng(0)
    block, rows, x = graded(rng, "psd", 30)
    problem = equations([block], [rows], (x,))

    class Over:
        left = 0.0

    with limited(Over()):
        check = sf.verify(problem, sf.Claim(point=(x,)), rigorous=True)
    assert check.verdict is sf.Verdict.UNDECIDED
    assert "out of time" in check.reason


# ---------------------------------------------------------------- points that the rows determine, exactly


def determined(rng: np.random.Generator, kind: str):
    """A set, coordinates and rows that leave one point, exactly known; whether it is a member; and the point.

    It is a member, or none, by a hair. Rows are integer combinations of coordinates, badly conditioned at
    will, in a basis that is scaled by powers of two.
    """
    big = int(2 ** rng.integers(2, 20))
    a, b = (int(v) for v in rng.integers(1, big + 1, 2))
    root = math.isqrt(a * b)
    off = int(rng.integers(-1, 2))
    if kind == "psd":
        block, values = sf.PSD(2), [a, b, root + off]
        member = values[2] ** 2 <= a * b
        units = [np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.array([[0.0, 0.5], [0.5, 0.0]])]
        x = np.array([[a, values[2]], [values[2], b]], dtype=float)
    elif kind == "hermitian":
        block, part = sf.HermitianPSD(2), int(rng.integers(0, root + 1))
        rest = math.isqrt(max(a * b - part * part, 0)) + off
        values, member = [a, b, part, rest], part * part + rest * rest <= a * b
        units = [np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.array([[0, 0.5], [0.5, 0]])]
        units = [block.coordinates(u) for u in [*units, np.array([[0, 0.5j], [-0.5j, 0]])]]
        x = block.coordinates(np.array([[a, part + 1j * rest], [part - 1j * rest, b]]))
    else:
        block, t = sf.SecondOrder(3), math.isqrt(a * a + b * b) + off + 1
        values, member, units = [t, a, b], t * t >= a * a + b * b, list(np.eye(3))
        x = np.array([t, a, b], dtype=float)
    mix = np.eye(len(values), dtype=np.int64)
    for _ in range(int(rng.integers(0, 9))):
        i, j = rng.permutation(len(values))[:2]
        mix[i] += int(rng.integers(-9, 10)) * mix[j]
    bounds = (mix @ np.array(values, dtype=object)).astype(float)
    assert np.max(np.abs(mix)) * big < 2**50
    rows = np.tensordot(mix.astype(float), np.array(units), 1)
    if kind == "psd":
        powers = np.ldexp(1.0, rng.integers(-250, 251, 2))
        rows, x = rows / np.outer(powers, powers), x * np.outer(powers, powers)
    scale = np.ldexp(1.0, rng.integers(-100, 101, len(values)))
    rows = rows * scale.reshape(-1, *[1] * (rows.ndim - 1))
    return sf.FeasibilityProblem([block], [rows], bounds * scale, bounds * scale), member, x


def judge_determined(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = ("psd", "hermitian", "second order")[seed % 3]
    problem, member, x = determined(rng, kind)
    noise = 10.0 ** rng.uniform(-17.0, -6.0) * problem.sets[0].symmetrize(rng.normal(size=x.shape))
    for point in (x, x * (1.0 + noise), np.nextafter(x, np.inf), problem.sets[0].project(x)):
        for repair in (False, True):
            check = sf.verify(problem, sf.Claim(point=(point,)), rigorous=True, repair=repair)
            assert member or check.verdict is not sf.Verdict.FEASIBLE, (seed, check.explain())
            assert not member or check.verdict is not sf.Verdict.INFEASIBLE, (seed, check.explain())


@examples(0.3)
@given(SEEDS)
def test_points_that_rows_determine_are_not_judged_wrong(seed: int) -> None:
    judge_determined(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_thousands_of_points_that_rows_determine_are_not_judged_wrong(part: int) -> None:
    for seed in range(1000 * part, 1000 * part + 500):
        judge_determined(seed)


@pytest.mark.parametrize("power", range(-30, -4))
def test_what_other_blocks_are_off_counts_on_top_of_what_rows_are_missed_by(power: int) -> None:
    """``x <= 1``, ``z = 1`` and ``x + 1000 z`` above 1001 have no point, though a z too large may hide it."""
    off = 2.0**power
    sets = [sf.SpectralBox(1, 0.0, 1.0), sf.SpectralBox(1, 1.0, 1.0)]
    rows = [np.full((1, 1, 1), 1.0), np.full((1, 1, 1), 1000.0)]
    for hair in (125.0 * off, 500.0 * off):
        problem = sf.FeasibilityProblem(sets, rows, [1001.0 + hair], [1001.0 + hair])
        for depth in (500.0, 1000.0, 2000.0, 4000.0):
            point = (np.array([[1.0 - depth * off]]), np.array([[1.0 + off]]))
            for repair in (False, True):
                assert not prove_point(problem, point, sf.Tolerances(snap=1.0), repair=repair).proven


@pytest.mark.parametrize(
    "block",
    [sf.Nonneg(3), sf.PSD(2), sf.SecondOrder(3), sf.HermitianPSD(2), sf.SpectralBox(2), sf.Free(2)],
    ids=str,
)
def test_corrections_at_a_corrected_point_stay_inside(block) -> None:
    """The way from the first point and the longest correction that is left end inside the set."""
    rng = np.random.default_rng(5)
    for share in (0.0, 1e-9, 0.3, 0.99, 1.01):
        x = planted.interior(rng, block)
        rows = np.array([block.symmetrize(rng.normal(size=block.shape))])
        rhs = [float(np.vdot(rows[0], x))]
        problem = sf.FeasibilityProblem([block], [rows], rhs, rhs)
        system = list(correction_systems(problem, (x,)))[-1]
        (part,) = system.parts
        unit = block.symmetrize(rng.normal(size=block.shape))
        corrected = x - share * part.weight * unit / np.linalg.norm(unit)
        near = system.at(problem, (x,), (corrected,))
        way = np.linalg.norm((corrected - x) / part.weight)
        assert way * (1.0 - 1e-15) <= near.used <= way * (1.0 + 1e-12)
        left = block.symmetrize(rng.normal(size=block.shape))
        end = corrected - (1.0 - near.used) * part.weight * left / np.linalg.norm(left)
        assert share > 1.0 or block.free or block.depth(end) > 0.0


def test_a_correction_that_uses_up_the_way_to_the_boundary_proves_nothing() -> None:
    """``x1 - x2 = 1`` and ``x1 + x2 = b`` with ``b < 1`` have no solution with ``x2 >= 0``."""
    rows = np.array([[1.0, -1.0], [1.0, 1.0]])
    for b in (1.0 - 1e-3, 1.0 - 1e-9, np.nextafter(1.0, 0.0)):
        problem = sf.FeasibilityProblem([sf.Nonneg(2)], [rows], [1.0, b], [1.0, b])
        for off in (0.5, 1e-3, 1e-8, 1e-15):
            outcome = prove_point(problem, (np.array([1.0, off]),), sf.Tolerances(snap=1.0), repair=True)
            assert not outcome.proven
    outcome = prove_point(
        sf.FeasibilityProblem([sf.Nonneg(2)], [rows], [1.0, 1.1], [1.0, 1.1]),
        (np.array([1.0, 0.06]),),
        repair=True,
    )
    assert outcome.proven
    assert outcome.repairs
    assert np.allclose(outcome.evidence[0], [1.05, 0.05], atol=1e-12)
