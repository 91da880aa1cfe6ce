"""Problems whose truth is known because it was planted, with evidence for it.

Everything is drawn from a seeded NumPy generator. A :class:`Planted` problem says whether it is feasible and
holds the point or the certificate that shows it; weakly infeasible ones come with points and multipliers
that look as good as one likes and prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.operators import Dense, Rows, Sparse
from sdpfeas.sets import BlockSet

Generator = np.random.Generator

#: Storage kinds of rows on matrix blocks and on vector blocks.
MATRIX_STORAGE = ("dense", "sparse", "low-rank", "pairwise", "stacked", "combined")
VECTOR_STORAGE = ("dense", "sparse", "stacked", "combined")
#: What the bounds of the rows may look like.
BOUNDS = ("equality", "inequality", "two-sided", "mixed")


@dataclass(frozen=True)
class Planted:
    """A problem of known truth and the evidence for it."""

    problem: sf.FeasibilityProblem
    feasible: bool
    point: tuple[np.ndarray, ...] | None = None
    certificate: np.ndarray | None = None
    name: str = ""

    @property
    def claim(self) -> sf.Claim:
        return sf.Claim(point=self.point, certificate=self.certificate)

    @property
    def truth(self) -> sf.Verdict:
        return sf.Verdict.FEASIBLE if self.feasible else sf.Verdict.INFEASIBLE

    @property
    def lie(self) -> sf.Verdict:
        return sf.Verdict.INFEASIBLE if self.feasible else sf.Verdict.FEASIBLE


# ---------------------------------------------------------------- sets and points


def set_mixes(scale: int = 1) -> dict[str, list[BlockSet]]:
    """Every set alone, and mixtures; ``scale`` multiplies the sizes."""
    s = scale
    return {
        "psd": [sf.PSD(3 * s)],
        "nonneg": [sf.Nonneg(4 * s)],
        "free": [sf.Free(3 * s)],
        "box": [sf.SpectralBox(3 * s)],
        "box trace": [sf.SpectralBox(3 * s, trace=1.5 * s)],
        "box wide": [sf.SpectralBox(3 * s, lower=-1.0, upper=2.0)],
        "box wide trace": [sf.SpectralBox(3 * s, lower=-0.5, upper=1.25, trace=1.0 * s)],
        "psd nonneg": [sf.PSD(2 * s), sf.Nonneg(2 * s)],
        "psd free": [sf.PSD(3 * s), sf.Free(2 * s)],
        "box nonneg": [sf.SpectralBox(3 * s, trace=1.0 * s), sf.Nonneg(1)],
        "box free": [sf.SpectralBox(3 * s), sf.Free(2 * s)],
        "two psd": [sf.PSD(2 * s), sf.PSD(3 * s)],
        "all": [
            sf.PSD(2 * s),
            sf.Nonneg(2 * s),
            sf.Free(1 * s),
            sf.SpectralBox(2 * s, trace=0.75 * s),
            sf.SpectralBox(2 * s, lower=-1.0),
        ],
    }


def dimension(sets: Sequence[BlockSet]) -> int:
    """Dimension of the space of points, prescribed traces taken off."""
    total = 0
    for block in sets:
        total += block.n * (block.n + 1) // 2 if block.matrix else block.n
        total -= isinstance(block, sf.SpectralBox) and block.trace is not None
    return total


def orthogonal(rng: Generator, n: int) -> np.ndarray:
    q, r = np.linalg.qr(rng.normal(size=(n, n)))
    return q * np.sign(np.diagonal(r))


def symmetric(rng: Generator, n: int) -> np.ndarray:
    a = rng.normal(size=(n, n))
    return 0.5 * (a + a.T)


def with_spectrum(rng: Generator, lam: np.ndarray) -> np.ndarray:
    q = orthogonal(rng, lam.size)
    x = (q * lam) @ q.T
    return 0.5 * (x + x.T)


def interior(rng: Generator, block: BlockSet) -> np.ndarray:
    """Return a point well inside the set."""
    if isinstance(block, sf.PSD):
        return with_spectrum(rng, rng.uniform(0.5, 2.0, block.n))
    if isinstance(block, sf.Nonneg):
        return rng.uniform(0.5, 2.0, block.n)
    if isinstance(block, sf.Free):
        return rng.normal(size=block.n)
    assert isinstance(block, sf.SpectralBox)
    width = block.upper - block.lower
    if block.trace is None:
        return with_spectrum(rng, block.lower + width * rng.uniform(0.2, 0.8, block.n))
    middle = block.trace / block.n
    room = 0.8 * min(middle - block.lower, block.upper - middle)
    apart = rng.uniform(-1.0, 1.0, block.n)
    apart -= apart.mean()
    x = with_spectrum(rng, middle + room * apart / max(float(np.max(np.abs(apart))), 1.0))
    return x + np.eye(block.n) * (block.trace - np.trace(x)) / block.n


def boundary(rng: Generator, block: BlockSet) -> np.ndarray:
    """Return a point on the boundary of the set, as projections give it (up to rounding)."""
    if isinstance(block, sf.Free):
        return rng.normal(size=block.n)
    if isinstance(block, sf.Nonneg):
        x = rng.uniform(0.5, 2.0, block.n)
        x[rng.integers(block.n)] = 0.0
        return x
    spread = 3.0 * (block.upper - block.lower if isinstance(block, sf.SpectralBox) else 1.0)
    return block.project(spread * symmetric(rng, block.n))


# ---------------------------------------------------------------- rows


def random_rows(rng: Generator, block: BlockSet, m: int, storage: str) -> Rows:
    """``m`` rows on one block, stored as asked."""
    if not block.matrix:
        return _vector_rows(rng, block.n, m, storage)
    n = block.n
    if storage == "dense":
        return Dense(np.array([symmetric(rng, n) for _ in range(m)]))
    if storage == "sparse":
        mask = rng.random((m, n, n)) < max(0.4, 1.5 / n)
        full = np.where(mask, rng.normal(size=(m, n, n)), 0.0)
        full[np.arange(m), rng.integers(n, size=m), rng.integers(n, size=m)] += 1.0
        full = full + full.transpose(0, 2, 1)
        return Sparse(sp.csr_array(full.reshape(m, -1)), n)
    if storage == "low-rank":
        ranks = rng.integers(1, 4, size=m)
        return sf.LowRank(
            [rng.normal(size=(k, n)) for k in ranks], [rng.choice([-1.0, 1.0, 0.5], size=k) for k in ranks]
        )
    if storage == "pairwise":
        classes = 2
        while classes * (classes - 1) // 2 < m:
            classes += 1
        pairs = sf.PairwiseDifference(rng.normal(size=(classes, n)))
        return pairs if pairs.m == m else pairs.select(np.arange(m))
    if storage == "stacked":
        first = max(m // 2, 1)
        parts = [random_rows(rng, block, first, "dense")]
        if m > first:
            parts.append(random_rows(rng, block, m - first, "low-rank"))
        return sf.Stacked(parts)
    assert storage == "combined"
    base = random_rows(rng, block, m + 2, "low-rank")
    return sf.Combined(sp.csr_array(rng.normal(size=(m, m + 2)) * (rng.random((m, m + 2)) < 0.7)), base)


def _vector_rows(rng: Generator, n: int, m: int, storage: str) -> Rows:
    if storage == "sparse":
        full = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.6)
        # One entry each in different places, so that few rows are independent for sure.
        full[np.arange(m), np.resize(rng.permutation(n), m)] += 2.0
        return Sparse(sp.csr_array(full), n, matrix=False)
    if storage == "stacked" and m > 1:
        return sf.Stacked([_vector_rows(rng, n, 1, "dense"), _vector_rows(rng, n, m - 1, "sparse")])
    if storage == "combined":
        return sf.Combined(sp.csr_array(rng.normal(size=(m, m + 1))), _vector_rows(rng, n, m + 1, "dense"))
    return Dense(rng.normal(size=(m, n)))


def storage_for(block: BlockSet, storage: str) -> str:
    """Return the nearest kind a vector block can have."""
    return storage if block.matrix or storage in VECTOR_STORAGE else "sparse"


def values(problem_rows: Sequence[Rows | None], point: Sequence[np.ndarray], m: int) -> np.ndarray:
    total = np.zeros(m)
    for rows, x in zip(problem_rows, point, strict=True):
        if rows is not None:
            total += rows.apply(x)
    return total


# ---------------------------------------------------------------- planted feasible


def feasible(
    rng: Generator,
    sets: Sequence[BlockSet],
    *,
    storage: str = "dense",
    bounds: str = "mixed",
    rows: int | None = None,
    margin: float = 0.1,
    edge: bool = False,
) -> Planted:
    """Plant a point: inside every set by a margin, inequality rows slack by ``margin`` of the row's size.

    With ``edge`` the point sits on the boundary of its sets, as projected points do; equality rows then
    cannot be proved, so there are none.
    """
    point = tuple(boundary(rng, b) if edge else interior(rng, b) for b in sets)
    limit = dimension(sets)
    m = rows if rows is not None else max(2, limit - 1 if bounds != "inequality" else limit + 2)
    kind = _row_kinds(rng, bounds, m, most_equal=min(max(limit - 1, 1), m))
    if edge:
        kind = np.where(kind == "=", "<>", kind)
    blocks = [random_rows(rng, b, m, storage_for(b, storage)) for b in sets]
    value = values(blocks, point, m)
    size = margin * np.sqrt(sum(r.norms() ** 2 for r in blocks))
    lower, upper = np.full(m, -np.inf), np.full(m, np.inf)
    below, above = np.isin(kind, ["=", ">", "<>"]), np.isin(kind, ["=", "<", "<>"])
    slack = np.where(kind == "=", 0.0, size * rng.uniform(1.0, 3.0, m))
    lower[below] = (value - slack)[below]
    upper[above] = (value + slack)[above]
    return Planted(sf.FeasibilityProblem(sets, blocks, lower, upper), True, point=point)


def _row_kinds(rng: Generator, bounds: str, m: int, most_equal: int) -> np.ndarray:
    if bounds == "equality":
        kind = np.full(m, "=", dtype="<U2")
    elif bounds == "two-sided":
        kind = np.full(m, "<>", dtype="<U2")
    else:
        choices = [">", "<"] if bounds == "inequality" else [">", "<", "<>", "="]
        kind = rng.choice(np.array(choices, dtype="<U2"), m)
    equal = np.flatnonzero(kind == "=")
    kind[equal[most_equal:]] = "<>"
    return kind


# ---------------------------------------------------------------- planted infeasible


def infeasible(
    rng: Generator,
    sets: Sequence[BlockSet],
    *,
    storage: str = "dense",
    bounds: str = "mixed",
    rows: int | None = None,
    margin: float = 0.1,
) -> Planted:
    """Plant a certificate: the last row completes ``A*y`` to the inside of every polar set."""
    # More rows than free numbers, or A*y = 0 there would leave nothing to choose.
    free = sum(block.n for block in sets if isinstance(block, sf.Free))
    m = rows if rows is not None else max(3, min(dimension(sets), 12), free + 3)
    kind = _row_kinds(rng, bounds, m, most_equal=m)
    y = rng.uniform(0.5, 2.0, m)
    y = np.where(kind == "<", -y, y)
    y = np.where(np.isin(kind, ["=", "<>"]) & (rng.random(m) < 0.5), -y, y)
    blocks, support = [], 0.0
    for block in sets:
        first = random_rows(rng, block, m - 1, storage_for(block, storage))
        goal = _polar_member(rng, block)
        last = (goal - first.adjoint(y[:-1])) / y[-1]
        tail = Dense(last[None])
        blocks.append(
            Dense(np.concatenate([first.array, tail.array]))
            if isinstance(first, Dense)
            else Sparse(
                sp.vstack([first.array, sp.csr_array(tail.array.reshape(1, -1))]), block.n, block.matrix
            )
            if isinstance(first, Sparse)
            else sf.Stacked([first, tail])
        )
        if isinstance(block, sf.SpectralBox):
            support += block.support(blocks[-1].adjoint(y))
    level = rng.normal(size=m)
    # Shift one bound so that beta(y) exceeds the support by the margin.
    size = float(np.sum(np.abs(level * y))) + abs(support)
    level[0] += (support - float(level @ y) + margin * size) / y[0]
    width = rng.uniform(0.5, 1.5, m)
    lower = np.where(y > 0, level, np.where(kind == "=", level, level - width))
    upper = np.where(y < 0, level, np.where(kind == "=", level, level + width))
    lower[kind == "<"], upper[kind == ">"] = -np.inf, np.inf
    return Planted(sf.FeasibilityProblem(sets, blocks, lower, upper), False, certificate=y)


def _polar_member(rng: Generator, block: BlockSet) -> np.ndarray:
    if isinstance(block, sf.PSD):
        return -with_spectrum(rng, rng.uniform(0.3, 2.0, block.n))
    if isinstance(block, sf.Nonneg):
        return -rng.uniform(0.3, 2.0, block.n)
    if isinstance(block, sf.Free):
        return np.zeros(block.n)
    return symmetric(rng, block.n)


# ---------------------------------------------------------------- small integers


def integer_problem(
    rng: Generator, sets: Sequence[BlockSet], *, truth: bool, degenerate: bool = False
) -> Planted:
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


def _integer_feasible(rng: Generator, sets: Sequence[BlockSet], degenerate: bool) -> Planted:
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
    return Planted(sf.FeasibilityProblem(sets, blocks, lower, upper), True, point=point)


def _integer_infeasible(rng: Generator, sets: Sequence[BlockSet], degenerate: bool) -> Planted:
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
    return Planted(sf.FeasibilityProblem(sets, blocks, lower, upper), False, certificate=y)


def _integer_polar(rng: Generator, block: BlockSet, degenerate: bool) -> np.ndarray:
    n = block.n
    if isinstance(block, sf.PSD):
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


# ---------------------------------------------------------------- rational truth, written independently


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
            if rows is not None:
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
        if rows is None:
            continue
        g = sum((w * rows.exact_row(i) for i, w in enumerate(weights)), Fraction(0) * rows.exact_row(0))
        if isinstance(block, sf.PSD) and not exactly_psd(-g):
            return False
        if isinstance(block, sf.Nonneg) and max(g) > 0:
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


# ---------------------------------------------------------------- linear matrix inequalities


def lmi(rng: Generator, n: int, k: int, *, truth: bool, margin: float = 0.2) -> Planted:
    """``F_0 + sum_i x_i F_i`` positive semidefinite, as a free block, a PSD slack and one row an entry."""
    if truth:
        matrices = np.array([symmetric(rng, n) for _ in range(k)])
        x = rng.normal(size=k)
        slack = with_spectrum(rng, rng.uniform(margin, 2.0, n))
        constant = slack - np.tensordot(x, matrices, axes=1)
        problem = lmi_problem(constant, matrices)
        return Planted(problem, True, point=(x, slack), name="lmi")
    # A definite Y with <F_i, Y> = 0 and <F_0, Y> < 0 rules every x out.
    dual = with_spectrum(rng, rng.uniform(margin, 2.0, n))
    raw = np.array([symmetric(rng, n) for _ in range(k + 1)])
    along = np.tensordot(raw, dual, axes=2) / np.sum(dual * dual)
    matrices = raw - along[:, None, None] * dual
    constant = matrices[0] - margin * dual
    problem = lmi_problem(constant, matrices[1:])
    i, j = np.triu_indices(n)
    return Planted(problem, False, certificate=-np.where(i == j, 1.0, 2.0) * dual[i, j], name="lmi")


def lmi_problem(constant: np.ndarray, matrices: np.ndarray) -> sf.FeasibilityProblem:
    """Rows ``S_ij - sum_k x_k (F_k)_ij = (F_0)_ij`` for i <= j; blocks: x free, S positive semidefinite."""
    n, k = constant.shape[0], matrices.shape[0]
    i, j = np.triu_indices(n)
    m = i.size
    entries = sp.csr_array(
        (np.full(2 * m, 0.5), (np.tile(np.arange(m), 2), np.concatenate([i * n + j, j * n + i]))), (m, n * n)
    )
    right = constant[i, j]
    names = [f"entry {a},{b}" for a, b in zip(i, j, strict=True)]
    return sf.FeasibilityProblem(
        [sf.Free(k), sf.PSD(n)],
        [-matrices[:, i, j].T, entries],
        right,
        right,
        row_names=names,
        block_names=["x", "S"],
    )


# ---------------------------------------------------------------- worst-case discriminant analysis


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


# ---------------------------------------------------------------- weak infeasibility


@dataclass(frozen=True)
class Weak:
    """A weakly infeasible problem: no point, no certificate, and both as nearly as one likes."""

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
        turn = orthogonal(rng, n)
        back = turn.T
        mix = orthogonal(rng, m)
        unmix = mix.T
    # <R' A R, X'> = <A, R X' R'>, so X' = R^-1 X R^-T; mixed multipliers are T^-T y.
    blocks: list[Any] = []
    for b, part in enumerate(weak.problem.rows):
        assert part is not None
        full = np.array([part.adjoint(unit) for unit in np.eye(m)])
        if b == position:
            full = turn.T @ full @ turn
            full = 0.5 * (full + full.transpose(0, 2, 1))
        blocks.append(np.tensordot(mix, full, axes=1))
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


def nearly_weak(length: int, tilt: float) -> Planted:
    """Return the chain with ``X11 = tilt``: feasible with a huge point if positive, infeasible if negative.

    Residuals of size |tilt| tell nothing about either.
    """
    rows, right = chain_rows(length)
    right[0] = tilt
    problem = sf.FeasibilityProblem([sf.PSD(2 * length)], [rows], right, right)
    if tilt > 0.0:
        return Planted(problem, True, point=(chain_point(length, tilt),))
    y = np.zeros(length + 1)
    y[0] = -1.0
    return Planted(problem, False, certificate=y)


# ---------------------------------------------------------------- the same problem in other words


def rescaled_rows(problem: sf.FeasibilityProblem, factors: np.ndarray) -> sf.FeasibilityProblem:
    """Every row and its bounds times a positive factor."""
    return sf.FeasibilityProblem(
        problem.sets,
        [None if r is None else r.scaled(factors) for r in problem.rows],
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
        if rows is None or turn is None:
            blocks.append(rows)
            continue
        full = np.array([rows.adjoint(unit) for unit in np.eye(problem.m)])
        full = turn @ full @ turn.T
        blocks.append(0.5 * (full + full.transpose(0, 2, 1)))
    return sf.FeasibilityProblem(problem.sets, blocks, problem.lower, problem.upper)
