"""Problems with a known answer that only tests need, and exact checks of points and certificates.

Small integer problems, problems in the form of discriminant analysis, weakly infeasible problems with points
and multipliers whose residuals are arbitrarily small although they prove nothing, and equivalent formulations
of a problem. General generators are in :mod:`sdpfeas.families.planted`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import sdpfeas as sf
from sdpfeas.families.planted import (
    PlantedProblem,
    dimension,
    lmi_problem,
    with_spectrum,
)
from sdpfeas.numerics.linalg import random_orthogonal
from sdpfeas.problem.rows import Dense
from sdpfeas.problem.sets import BlockSet

Generator = np.random.Generator


# --- small integers


def integer_problem(
    rng: Generator, sets: Sequence[BlockSet], *, truth: bool, degenerate: bool = False
) -> PlantedProblem:
    """Small integer data, truth exact: a planted point, or a planted certificate, without any rounding.

    A degenerate problem has its point on the boundary (or its certificate on that of the polar set) and may
    repeat rows.
    """
    if truth:
        return _integer_feasible(rng, sets, degenerate)
    return _integer_infeasible(rng, sets, degenerate)


def _integers(rng: Generator, shape: tuple[int, ...], most: int = 3) -> np.ndarray:
    return rng.integers(-most, most + 1, size=shape).astype(float)


def _integer_symmetric(rng: Generator, m: int, n: int, most: int = 3) -> np.ndarray:
    a = np.triu(_integers(rng, (m, n, n), most))
    return a + np.triu(a, 1).transpose(0, 2, 1)


def _integer_member(rng: Generator, block: BlockSet, degenerate: bool) -> np.ndarray:
    n = block.n
    if isinstance(block, sf.PSD):
        f = _integers(rng, (n, n), 2)
        if degenerate:
            f[:, -1] = 0.0
        return f @ f.T + (0.0 if degenerate else 1.0) * np.eye(n)
    if isinstance(block, sf.Nonneg):
        return rng.integers(0 if degenerate else 1, 4, size=n).astype(float)
    if isinstance(block, sf.Free):
        return _integers(rng, (n,))
    if isinstance(block, sf.SecondOrder):
        z = _integers(rng, (n - 1,))
        if degenerate:
            z[1:] = 0.0
        return np.concatenate([[math.ceil(np.linalg.norm(z)) + (not degenerate)], z])
    if isinstance(block, sf.HermitianPSD):
        f = _integers(rng, (block.degree, block.degree), 2) + 1j * _integers(rng, (block.degree,) * 2, 2)
        if degenerate:
            f[:, -1] = 0.0
        full = f @ f.conj().T + (0.0 if degenerate else 1.0) * np.eye(block.degree)
        return (full.real + full.imag).reshape(-1)
    assert isinstance(block, sf.SpectralBox)
    if block.trace is None:
        if degenerate:
            return np.diag(rng.choice([block.lower, block.upper], size=n))
        return np.eye(n) * (0.5 * (block.lower + block.upper))
    # Eighths, so that the sum is exact.
    diagonal = np.full(n, math.floor(8.0 * block.trace / n) / 8.0)
    diagonal[-1] = block.trace - diagonal[:-1].sum()
    assert block.lower <= diagonal.min() <= diagonal.max() <= block.upper
    return np.diag(diagonal)


def _integer_rows(rng: Generator, block: BlockSet, m: int) -> np.ndarray:
    return _integer_symmetric(rng, m, block.n) if block.matrix else _integers(rng, (m, block.n))


def _integer_feasible(rng: Generator, sets: Sequence[BlockSet], degenerate: bool) -> PlantedProblem:
    m = int(rng.integers(1, dimension(sets) + (2 if degenerate else 0)))
    point = tuple(_integer_member(rng, b, degenerate) for b in sets)
    blocks: list[Any] = [_integer_rows(rng, b, m) for b in sets]
    if degenerate and m > 1:
        for rows in blocks:
            rows[-1] = rows[0] + (rows[1] if m > 2 else 0.0)
    value = sum(rows.reshape(m, -1) @ x.reshape(-1) for rows, x in zip(blocks, point, strict=True))
    kind = rng.integers(0, 4, size=m)
    gap = rng.integers(0 if degenerate else 1, 3, size=m).astype(float)
    lower = np.where(kind == 0, value, np.where(kind == 1, -np.inf, value - gap))
    upper = np.where(kind == 0, value, np.where(kind == 2, np.inf, value + gap))
    return PlantedProblem(sf.FeasibilityProblem(sets, blocks, lower, upper), True, point=point)


def _integer_infeasible(rng: Generator, sets: Sequence[BlockSet], degenerate: bool) -> PlantedProblem:
    m = int(rng.integers(2, 6))
    y = rng.integers(1, 4, size=m).astype(float) * rng.choice([-1.0, 1.0], size=m)
    y[-1] = math.copysign(1.0, y[-1])
    blocks, support = [], Fraction(0)
    for block in sets:
        rows = _integer_rows(rng, block, m)
        goal = _integer_polar(rng, block, degenerate)
        rows[-1] = (goal - np.tensordot(y[:-1], rows[:-1], axes=1)) / y[-1]
        blocks.append(rows)
        if isinstance(block, sf.SpectralBox):
            # The goal is diagonal there.
            support += exact_diagonal_support(block, np.diagonal(goal))
    level = _integers(rng, (m,))
    need = (
        Fraction(1, 1)
        + support
        - sum((Fraction(float(a * b)) for a, b in zip(level, y, strict=True)), Fraction(0))
    )
    if need > 0:
        level[0] += math.copysign(math.ceil(need / Fraction(abs(float(y[0])))), y[0])
    kind = rng.integers(0, 3, size=m)
    lower = np.where(y > 0, level, np.where(kind == 0, level, np.where(kind == 1, -np.inf, level - 2.0)))
    upper = np.where(y < 0, level, np.where(kind == 0, level, np.where(kind == 1, np.inf, level + 2.0)))
    return PlantedProblem(sf.FeasibilityProblem(sets, blocks, lower, upper), False, certificate=y)


def _integer_polar(rng: Generator, block: BlockSet, degenerate: bool) -> np.ndarray:
    n = block.n
    if isinstance(block, (sf.PSD, sf.SecondOrder, sf.HermitianPSD)):
        return -_integer_member(rng, block, degenerate)
    if isinstance(block, sf.Nonneg):
        return -rng.integers(0 if degenerate else 1, 4, size=n).astype(float)
    if isinstance(block, sf.Free):
        return np.zeros(n)
    return np.diag(_integers(rng, (n,)))


def exact_diagonal_support(box: sf.SpectralBox, diagonal: np.ndarray) -> Fraction:
    """Support function of a box at a diagonal matrix, in rational arithmetic."""
    lam = sorted((Fraction(v) for v in diagonal), reverse=True)
    low, high = Fraction(box.lower), Fraction(box.upper)
    if box.trace is None:
        return sum((max(low * v, high * v) for v in lam), Fraction(0))
    left = Fraction(box.trace) - low * box.n
    total = low * sum(lam, Fraction(0))
    for v in lam:
        part = min(left, high - low)
        total += part * v
        left -= part
    return total


# --- exact checks in rational arithmetic, independent of the library


def rationals(array: np.ndarray) -> np.ndarray:
    if array.dtype == object:
        return array
    return np.vectorize(lambda v: Fraction(float(v)), otypes=[object])(array)


def exactly_psd(matrix: np.ndarray) -> bool:
    """Positive semidefinite? By symmetric elimination with the largest diagonal entry as pivot."""
    a = np.array(matrix, dtype=object)
    while a.shape[0]:
        diagonal = [a[k, k] for k in range(a.shape[0])]
        if min(diagonal) < 0:
            return False
        k = max(range(len(diagonal)), key=lambda i: diagonal[i])
        if diagonal[k] == 0:
            return all(v == 0 for v in a.ravel())
        rest = [i for i in range(a.shape[0]) if i != k]
        column = a[rest, k]
        a = a[np.ix_(rest, rest)] - np.outer(column, column) / diagonal[k]
    return True


def _matrix_of(block: BlockSet, x: np.ndarray) -> np.ndarray:
    """A real matrix that is semidefinite just where ``x`` is a member."""
    if isinstance(block, sf.SecondOrder):
        arrow = np.full((block.n, block.n), Fraction(0), dtype=object)
        arrow[0, :] = arrow[:, 0] = x
        arrow[np.diag_indices(block.n)] = x[0]
        return arrow
    r = x.reshape(block.degree, block.degree)
    return np.block([[r + r.T, r.T - r], [r - r.T, r + r.T]])


def exactly_feasible(problem: sf.FeasibilityProblem, point: Sequence[np.ndarray]) -> bool:
    """Whether a point, taken as rational numbers, meets every set and row exactly."""
    if not all(x.dtype == object or np.isfinite(x).all() for x in point):
        return False
    parts = [rationals(x) for x in point]
    for block, x in zip(problem.sets, parts, strict=True):
        if block.matrix and any(a != b for a, b in zip(x.ravel(), x.T.ravel(), strict=True)):
            return False
        if isinstance(block, sf.PSD) and not exactly_psd(x):
            return False
        if isinstance(block, sf.Nonneg) and min(x) < 0:
            return False
        if isinstance(block, (sf.SecondOrder, sf.HermitianPSD)) and not exactly_psd(_matrix_of(block, x)):
            return False
        if isinstance(block, sf.SpectralBox):
            eye = rationals(np.eye(block.n))
            if not exactly_psd(x - Fraction(block.lower) * eye):
                return False
            if not exactly_psd(Fraction(block.upper) * eye - x):
                return False
            if block.trace is not None and sum(np.diagonal(x)) != Fraction(block.trace):
                return False
    for i in range(problem.m):
        value = Fraction(0)
        for rows, x in zip(problem.rows, parts, strict=True):
            if not rows.empty:
                value += sum((rows.exact_row(i) * x).ravel(), Fraction(0))
        low, high = float(problem.lower[i]), float(problem.upper[i])
        if np.isfinite(low) and value < Fraction(low):
            return False
        if np.isfinite(high) and value > Fraction(high):
            return False
    return True


def exactly_certified(problem: sf.FeasibilityProblem, y: np.ndarray) -> bool | None:
    """Whether multipliers, taken as rational numbers, rule out every point; None where that needs more
    than rational arithmetic (a box whose ``A*y`` is not diagonal).
    """
    if y.dtype != object and not np.isfinite(y).all():
        return False
    weights = rationals(y)
    beta = Fraction(0)
    for i, w in enumerate(weights):
        bound = float(problem.lower[i] if w > 0 else problem.upper[i])
        if w != 0:
            if not np.isfinite(bound):
                return False
            beta += w * Fraction(bound)
    for block, rows in zip(problem.sets, problem.rows, strict=True):
        if rows.empty:
            continue
        g = sum((w * rows.exact_row(i) for i, w in enumerate(weights)), Fraction(0) * rows.exact_row(0))
        if isinstance(block, sf.PSD) and not exactly_psd(-g):
            return False
        if isinstance(block, sf.Nonneg) and max(g) > 0:
            return False
        if isinstance(block, (sf.SecondOrder, sf.HermitianPSD)) and not exactly_psd(_matrix_of(block, -g)):
            return False
        if isinstance(block, sf.Free) and any(v != 0 for v in g):
            return False
        if isinstance(block, sf.SpectralBox):
            off = g.copy()
            off[np.diag_indices(block.n)] = Fraction(0)
            if any(v != 0 for v in off.ravel()):
                return None
            beta -= exact_diagonal_support(block, np.diagonal(g))
    return beta > 0


# --- worst-case discriminant analysis


@dataclass(frozen=True)
class Discriminant:
    """Means and class scatters, and the problem they give at a threshold."""

    means: np.ndarray
    scatters: np.ndarray
    components: int

    def at(self, delta: float) -> sf.FeasibilityProblem:
        """``<S_ij, Z> >= t`` for all pairs and ``t >= delta <S_k, Z>`` for all classes."""
        classes, d = self.means.shape
        pairs = sf.PairwiseDifference(self.means)
        rows = sf.Stacked([pairs, Dense(-delta * self.scatters)])
        column = np.concatenate([-np.ones(pairs.m), np.ones(classes)])[:, None]
        m = pairs.m + classes
        return sf.FeasibilityProblem(
            [sf.SpectralBox(d, trace=self.components), sf.Nonneg(1)],
            [rows, column],
            np.zeros(m),
            np.full(m, np.inf),
            row_names=[f"between {i},{j}" for i, j in zip(*pairs.pairs, strict=True)]
            + [f"within {k}" for k in range(classes)],
            block_names=["Z", "t"],
        )

    def between(self, z: np.ndarray) -> np.ndarray:
        return sf.PairwiseDifference(self.means).apply(z)

    def within(self, z: np.ndarray) -> np.ndarray:
        return np.tensordot(self.scatters, z, axes=2)

    def ratio(self, z: np.ndarray) -> float:
        """Threshold up to which ``z`` is feasible."""
        return float(np.min(self.between(z)) / np.max(self.within(z)))

    def point(self, z: np.ndarray, delta: float) -> tuple[np.ndarray, np.ndarray]:
        """``z`` with the scalar in the middle of where it may lie."""
        low, high = delta * float(np.max(self.within(z))), float(np.min(self.between(z)))
        return z, np.array([0.5 * (low + high)])

    def ruled_out_from(self, u: np.ndarray, w: np.ndarray) -> float:
        """Threshold from which the weights (``u`` on pairs, ``w`` on classes, same sum) are a certificate."""
        box = sf.SpectralBox(self.means.shape[1], trace=self.components)
        between = sf.PairwiseDifference(self.means).adjoint(u)
        within = np.tensordot(w, self.scatters, axes=1)
        low, high = 0.0, 1.0
        while box.support(between - high * within) > 0.0:
            high *= 2.0
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if box.support(between - middle * within) > 0.0 else (low, middle)
        return high


def discriminant(rng: Generator, d: int, classes: int, components: int | None = None) -> Discriminant:
    """Random means and covariances."""
    means = rng.normal(size=(classes, d))
    factors = rng.normal(size=(classes, 2 * d, d)) / math.sqrt(2 * d)
    scatters = np.einsum("kni,knj->kij", factors, factors)
    scatters = 0.5 * (scatters + scatters.transpose(0, 2, 1))
    return Discriminant(means, scatters, classes - 1 if components is None else components)


def two_classes(rng: Generator, d: int, columns: np.ndarray) -> tuple[Discriminant, float, np.ndarray]:
    """Two classes with the same scatter, one component, columns in wild units.

    The best threshold is ``m' S^-1 m`` whatever the units; it comes with the best direction.
    """
    m = rng.normal(size=d)
    s = with_spectrum(rng, rng.uniform(0.5, 2.0, d))
    best = float(m @ np.linalg.solve(s, m))
    direction = np.linalg.solve(s, m) / columns
    mean, scatter = m * columns, s * columns[:, None] * columns[None, :]
    scatter = 0.5 * (scatter + scatter.T)
    data = Discriminant(np.array([np.zeros(d), mean]), np.array([scatter, scatter]), 1)
    return data, best, direction / np.linalg.norm(direction)


# --- weak infeasibility


@dataclass(frozen=True)
class Weak:
    """Weakly infeasible problem with nearly feasible points and near-certificates."""

    problem: sf.FeasibilityProblem
    points: tuple[tuple[np.ndarray, ...], ...]
    multipliers: tuple[np.ndarray, ...]
    name: str

    def claims(self) -> Iterator[sf.Claim]:
        for point in self.points:
            yield sf.Claim(point=point)
        for y in self.multipliers:
            yield sf.Claim(certificate=y)
        for point, y in zip(self.points, self.multipliers, strict=False):
            yield sf.Claim(point=point, certificate=y)


#: How small the residuals of the near-feasible points are.
EPSILONS = (1e-3, 1e-6, 1e-9, 1e-12, 1e-15)


def chain_rows(length: int) -> tuple[np.ndarray, np.ndarray]:
    """``X11 = 0, X12 = X33, X34 = X55, ..., last off-diagonal = 1``; integer matrices on 2·length."""
    n = 2 * length
    rows, right = [], []
    first = np.zeros((n, n))
    first[0, 0] = 1.0
    rows.append(first)
    right.append(0.0)
    for k in range(length):
        a = np.zeros((n, n))
        a[2 * k, 2 * k + 1] = a[2 * k + 1, 2 * k] = 1.0
        if k + 1 < length:
            a[2 * k + 2, 2 * k + 2] = -2.0
        rows.append(a)
        right.append(0.0 if k + 1 < length else 2.0)
    return np.array(rows), np.array(right)


def chain_point(length: int, epsilon: float, slack: float = 1.01) -> np.ndarray:
    """Positive definite, misses only the first row, by epsilon; its norm is epsilon^(-1/(2^length - 1))."""
    big = epsilon ** (-1.0 / (2**length - 1))
    x = np.zeros((2 * length, 2 * length))
    head = epsilon
    for k in range(length):
        off = 1.0 if k == length - 1 else math.sqrt(head * big)
        x[2 * k, 2 * k] = head
        x[2 * k, 2 * k + 1] = x[2 * k + 1, 2 * k] = off
        x[2 * k + 1, 2 * k + 1] = slack * off * off / head
        head = off
    return x


def chain_multipliers(length: int, big: float) -> np.ndarray:
    """``A*y`` negative semidefinite but for eigenvalues of about 1/big, while ``beta(y) = 2``."""
    y = [1.0]
    for _ in range(length):
        # Going up the chain each multiplier is the square of the next one, times big.
        y.append(y[-1] ** 2 * big)
    y = y[::-1]
    y[0] = -y[0]
    return np.array(y)


def weak_chain(length: int, slack: float = 1.01) -> Weak:
    """Return the plain chain on one PSD block."""
    rows, right = chain_rows(length)
    problem = sf.FeasibilityProblem([sf.PSD(2 * length)], [rows], right, right)
    points = tuple((chain_point(length, e, slack),) for e in EPSILONS)
    multipliers = tuple(chain_multipliers(length, 10.0**k) for k in range(0, 9, 2))
    return Weak(problem, points, multipliers, f"chain {length}")


def weak_free_chain(length: int) -> Weak:
    """Return the chain as a linear matrix inequality: a free number for every entry that may vary."""
    n = 2 * length
    rows, _ = chain_rows(length)
    i, j = np.triu_indices(n)
    value = {(0, 0): 0.0, (n - 2, n - 1): 1.0}
    links = {(2 * k, 2 * k + 1): (2 * k + 2, 2 * k + 2) for k in range(length - 1)}
    place = {}
    for pair in zip(i.tolist(), j.tolist(), strict=True):
        if pair not in value and pair not in links:
            place[pair] = len(place)
    for pair, same in links.items():
        place[pair] = place[same]
    count = max(place.values()) + 1
    matrices, constant = np.zeros((count, n, n)), np.zeros((n, n))
    for pair in zip(i.tolist(), j.tolist(), strict=True):
        a, b = pair
        if pair in value:
            constant[a, b] = constant[b, a] = value[pair]
        else:
            matrices[place[pair], a, b] = matrices[place[pair], b, a] = 1.0
    problem = lmi_problem(constant, matrices)
    points = []
    for e in EPSILONS:
        x = chain_point(length, e)
        free = np.zeros(count)
        for (a, b), k in place.items():
            free[k] = x[a, b]
        points.append((free, x))
    multipliers = []
    for k in range(0, 9, 2):
        y = chain_multipliers(length, 10.0**k)
        whole = np.tensordot(y, rows, axes=1)
        multipliers.append(np.where(i == j, 1.0, 2.0) * whole[i, j])
    return Weak(problem, tuple(points), tuple(multipliers), f"free chain {length}")


def unimodular(rng: Generator, n: int, steps: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return a small integer matrix with determinant one, and its inverse, both exact."""
    a, inverse = np.eye(n), np.eye(n)
    for _ in range(steps if n > 1 else 0):
        i, j = rng.choice(n, size=2, replace=False)
        s = float(rng.choice([-1.0, 1.0]))
        a[i] += s * a[j]
        inverse[:, j] -= s * inverse[:, i]
    return a, inverse


def disguised(rng: Generator, weak: Weak, *, exact: bool = True) -> Weak:
    """Congruence of the matrix space and mixing of rows.

    With ``exact`` both are small unimodular integer matrices, so the problem stays weakly infeasible to the
    last bit. Otherwise they are orthogonal, and it does so up to rounding.
    """
    position = [b.matrix for b in weak.problem.sets].index(True)
    n, m = weak.problem.sets[position].n, weak.problem.m
    if exact:
        turn, back = unimodular(rng, n)
        mix, unmix = unimodular(rng, m)
    else:
        turn = random_orthogonal(rng, n)
        back = turn.T
        mix = random_orthogonal(rng, m)
        unmix = mix.T
    # <R' A R, X'> = <A, R X' R'>, so X' = R^-1 X R^-T; mixed multipliers are T^-T y.
    blocks: list[Any] = []
    for b, part in enumerate(weak.problem.rows):
        assert part is not None
        full = np.array([part.adjoint(unit) for unit in np.eye(m)])
        if b == position:
            full = turn.T @ full @ turn
        full = np.tensordot(mix, full, axes=1)
        # Not every processor sums mirrored entries in the same order.
        blocks.append(0.5 * (full + full.transpose(0, 2, 1)) if b == position else full)
    right = mix @ weak.problem.lower
    problem = sf.FeasibilityProblem(weak.problem.sets, blocks, right, right)
    points = []
    for point in weak.points:
        moved = list(point)
        x = back @ point[position] @ back.T
        moved[position] = 0.5 * (x + x.T)
        points.append(tuple(moved))
    multipliers = tuple(unmix.T @ y for y in weak.multipliers)
    kind = "exactly" if exact else "by rotation"
    return Weak(problem, tuple(points), multipliers, f"{weak.name} disguised {kind}")


def nearly_weak(length: int, tilt: float) -> PlantedProblem:
    """Return the chain with ``X11 = tilt``: feasible with a huge point if positive, infeasible if negative.

    Residuals of size |tilt| tell nothing about either.
    """
    rows, right = chain_rows(length)
    right[0] = tilt
    problem = sf.FeasibilityProblem([sf.PSD(2 * length)], [rows], right, right)
    if tilt > 0.0:
        return PlantedProblem(problem, True, point=(chain_point(length, tilt),))
    y = np.zeros(length + 1)
    y[0] = -1.0
    return PlantedProblem(problem, False, certificate=y)


# --- equivalent problems


def rescaled_rows(problem: sf.FeasibilityProblem, factors: np.ndarray) -> sf.FeasibilityProblem:
    """Every row and its bounds times a positive factor."""
    return sf.FeasibilityProblem(
        problem.sets,
        [r.scaled(factors) for r in problem.rows],
        problem.lower * factors,
        problem.upper * factors,
        problem.row_names,
        problem.block_names,
    )


def permuted_rows(problem: sf.FeasibilityProblem, order: np.ndarray) -> sf.FeasibilityProblem:
    return problem.select_rows(order)


def permuted_blocks(problem: sf.FeasibilityProblem, order: Sequence[int]) -> sf.FeasibilityProblem:
    return sf.FeasibilityProblem(
        [problem.sets[b] for b in order], [problem.rows[b] for b in order], problem.lower, problem.upper
    )


def rotated(problem: sf.FeasibilityProblem, turns: Sequence[np.ndarray | None]) -> sf.FeasibilityProblem:
    """Every matrix block in the coordinates of an orthogonal matrix (None: as it is); dense rows."""
    blocks: list[Any] = []
    for rows, turn in zip(problem.rows, turns, strict=True):
        if rows.empty or turn is None:
            blocks.append(rows)
            continue
        full = np.array([rows.adjoint(unit) for unit in np.eye(problem.m)])
        full = turn @ full @ turn.T
        blocks.append(0.5 * (full + full.transpose(0, 2, 1)))
    return sf.FeasibilityProblem(problem.sets, blocks, problem.lower, problem.upper)
