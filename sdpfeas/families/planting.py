"""Problems whose truth is known because it was planted, with evidence for it.

Everything is drawn from a seeded NumPy generator. A :class:`Planted` problem says whether it is feasible and
holds the point or the certificate that shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray, random_orthogonal, spectral_matrix, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Combined, Dense, LowRank, PairwiseDifference, Rows, Sparse, Stacked
from sdpfeas.problem.sets import PSD, BlockSet, Free, HermitianPSD, Nonneg, SecondOrder, SpectralBox
from sdpfeas.verifier.results import Claim, Verdict

__all__ = ["Planted", "feasible", "infeasible", "lmi", "set_mixes"]

Generator = np.random.Generator

#: Storage kinds of rows on matrix blocks and on vector blocks.
MATRIX_STORAGE = ("dense", "sparse", "low-rank", "pairwise", "stacked", "combined")
VECTOR_STORAGE = ("dense", "sparse", "stacked", "combined")
#: What the bounds of the rows may look like.
BOUNDS = ("equality", "inequality", "two-sided", "mixed")


@dataclass(frozen=True)
class Planted:
    """A problem of known truth and the evidence for it."""

    problem: FeasibilityProblem
    feasible: bool
    point: Point | None = None
    certificate: FloatArray | None = None
    name: str = ""

    @property
    def claim(self) -> Claim:
        """The evidence as a claim."""
        return Claim(point=self.point, certificate=self.certificate)

    @property
    def truth(self) -> Verdict:
        """The right verdict."""
        return Verdict.FEASIBLE if self.feasible else Verdict.INFEASIBLE

    @property
    def lie(self) -> Verdict:
        """The wrong verdict."""
        return Verdict.INFEASIBLE if self.feasible else Verdict.FEASIBLE


# ---------------------------------------------------------------- sets and points


def set_mixes(scale: int = 1) -> dict[str, list[BlockSet]]:
    """Every set alone, and mixtures; ``scale`` multiplies the sizes."""
    s = scale
    return {
        "psd": [PSD(3 * s)],
        "nonneg": [Nonneg(4 * s)],
        "free": [Free(3 * s)],
        "box": [SpectralBox(3 * s)],
        "box trace": [SpectralBox(3 * s, trace=1.5 * s)],
        "box wide": [SpectralBox(3 * s, lower=-1.0, upper=2.0)],
        "box wide trace": [SpectralBox(3 * s, lower=-0.5, upper=1.25, trace=1.0 * s)],
        "psd nonneg": [PSD(2 * s), Nonneg(2 * s)],
        "psd free": [PSD(3 * s), Free(2 * s)],
        "box nonneg": [SpectralBox(3 * s, trace=1.0 * s), Nonneg(1)],
        "box free": [SpectralBox(3 * s), Free(2 * s)],
        "two psd": [PSD(2 * s), PSD(3 * s)],
        "second order": [SecondOrder(4 * s), Nonneg(2 * s)],
        "hermitian": [HermitianPSD(2 * s), Free(2 * s)],
        "all": [
            PSD(2 * s),
            Nonneg(2 * s),
            Free(1 * s),
            SpectralBox(2 * s, trace=0.75 * s),
            SpectralBox(2 * s, lower=-1.0),
        ],
    }


def dimension(sets: Sequence[BlockSet]) -> int:
    """Dimension of the space of points, prescribed traces taken off."""
    return sum(block.dimension - (block.trace is not None) for block in sets)


def symmetric(rng: Generator, n: int) -> FloatArray:
    """Return a symmetric matrix with normal entries."""
    return symmetrize(rng.normal(size=(n, n)))


def with_spectrum(rng: Generator, lam: FloatArray) -> FloatArray:
    """Return a symmetric matrix with the given eigenvalues and random eigenvectors."""
    return spectral_matrix(random_orthogonal(rng, lam.size), lam)


def interior(rng: Generator, block: BlockSet) -> FloatArray:
    """Return a point well inside the set."""
    if block.free:
        lam = rng.normal(size=block.degree)
    elif block.cone:
        lam = rng.uniform(0.5, 2.0, block.degree)
    elif block.trace is None:
        lam = block.lower + (block.upper - block.lower) * rng.uniform(0.2, 0.8, block.degree)
    else:
        room = 0.8 * min(block.middle - block.lower, block.upper - block.middle)
        apart = rng.uniform(-1.0, 1.0, block.degree)
        apart -= apart.mean()
        lam = block.middle + room * apart / max(float(np.max(np.abs(apart))), 1.0)
    x = block.compose(block.random_frame(rng), lam)
    return x if block.trace is None else x + block.identity() * (block.trace - block.trace_of(x)) / block.n


def boundary(rng: Generator, block: BlockSet) -> FloatArray:
    """Return a point on the boundary of the set, as projections give it (up to rounding)."""
    if block.entrywise:
        x = interior(rng, block)
        if not block.free:
            x[rng.integers(block.n)] = block.lower
        return x
    spread = 3.0 * (block.upper - block.lower if block.bounded else 1.0)
    return block.project(spread * block.symmetrize(rng.normal(size=block.shape)))


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
        return LowRank(
            [rng.normal(size=(k, n)) for k in ranks], [rng.choice([-1.0, 1.0, 0.5], size=k) for k in ranks]
        )
    if storage == "pairwise":
        classes = 2
        while classes * (classes - 1) // 2 < m:
            classes += 1
        pairs = PairwiseDifference(rng.normal(size=(classes, n)))
        return pairs if pairs.m == m else pairs.select(np.arange(m))
    if storage == "stacked":
        first = max(m // 2, 1)
        parts = [random_rows(rng, block, first, "dense")]
        if m > first:
            parts.append(random_rows(rng, block, m - first, "low-rank"))
        return Stacked(parts)
    assert storage == "combined"
    base = random_rows(rng, block, m + 2, "low-rank")
    return Combined(sp.csr_array(rng.normal(size=(m, m + 2)) * (rng.random((m, m + 2)) < 0.7)), base)


def _vector_rows(rng: Generator, n: int, m: int, storage: str) -> Rows:
    if storage == "sparse":
        full = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.6)
        # One entry each in different places, so that few rows are independent for sure.
        full[np.arange(m), np.resize(rng.permutation(n), m)] += 2.0
        return Sparse(sp.csr_array(full), n, matrix=False)
    if storage == "stacked" and m > 1:
        return Stacked([_vector_rows(rng, n, 1, "dense"), _vector_rows(rng, n, m - 1, "sparse")])
    if storage == "combined":
        return Combined(sp.csr_array(rng.normal(size=(m, m + 1))), _vector_rows(rng, n, m + 1, "dense"))
    return Dense(rng.normal(size=(m, n)))


def storage_for(block: BlockSet, storage: str) -> str:
    """Return the nearest kind a vector block can have."""
    return storage if block.matrix or storage in VECTOR_STORAGE else "sparse"


def values(problem_rows: Sequence[Rows | None], point: Sequence[FloatArray], m: int) -> FloatArray:
    """Row values of a point before there is a problem."""
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
    kind = row_kinds(rng, bounds, m, most_equal=min(max(limit - 1, 1), m))
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
    return Planted(FeasibilityProblem(sets, blocks, lower, upper), True, point=point)


def row_kinds(rng: Generator, bounds: str, m: int, most_equal: int) -> np.ndarray:
    """Draw what bounds the rows have: ``>``, ``<``, ``<>`` or ``=``."""
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
    # More rows than free columns: else rounding alone makes the rows independent, and the problem feasible.
    free = sum(block.entries for block in sets if block.free)
    m = rows if rows is not None else max(3, min(dimension(sets), 12), free + 3)
    kind = row_kinds(rng, bounds, m, most_equal=m)
    y = rng.uniform(0.5, 2.0, m)
    y = np.where(kind == "<", -y, y)
    y = np.where(np.isin(kind, ["=", "<>"]) & (rng.random(m) < 0.5), -y, y)
    blocks, support = [], 0.0
    for block in sets:
        first = random_rows(rng, block, m - 1, storage_for(block, storage))
        goal = polar_member(rng, block)
        last = (goal - first.adjoint(y[:-1])) / y[-1]
        tail = Dense(last[None])
        blocks.append(
            Dense(np.concatenate([first.array, tail.array]))
            if isinstance(first, Dense)
            else Sparse(
                sp.vstack([first.array, sp.csr_array(tail.array.reshape(1, -1))]), block.n, block.matrix
            )
            if isinstance(first, Sparse)
            else Stacked([first, tail])
        )
        if block.bounded:
            support += block.support(blocks[-1].adjoint(y))
    level = rng.normal(size=m)
    # Shift one bound so that beta(y) exceeds the support by the margin.
    size = float(np.sum(np.abs(level * y))) + abs(support)
    level[0] += (support - float(level @ y) + margin * size) / y[0]
    width = rng.uniform(0.5, 1.5, m)
    lower = np.where(y > 0, level, np.where(kind == "=", level, level - width))
    upper = np.where(y < 0, level, np.where(kind == "=", level, level + width))
    lower[kind == "<"], upper[kind == ">"] = -np.inf, np.inf
    return Planted(FeasibilityProblem(sets, blocks, lower, upper), False, certificate=y)


def polar_member(rng: Generator, block: BlockSet) -> FloatArray:
    """Draw an array at which the support function of a set is finite, inside all such."""
    if block.free:
        return np.zeros(block.shape)
    if block.bounded:
        return block.symmetrize(rng.normal(size=block.shape))
    lam = -rng.uniform(0.3, 2.0, block.degree)
    return block.compose(block.random_frame(rng), lam)


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


def lmi_problem(constant: FloatArray, matrices: FloatArray) -> FeasibilityProblem:
    """Rows ``S_ij - sum_k x_k (F_k)_ij = (F_0)_ij`` for i <= j; blocks: x free, S positive semidefinite."""
    n, k = constant.shape[0], matrices.shape[0]
    i, j = np.triu_indices(n)
    m = i.size
    entries = sp.csr_array(
        (np.full(2 * m, 0.5), (np.tile(np.arange(m), 2), np.concatenate([i * n + j, j * n + i]))), (m, n * n)
    )
    right = constant[i, j]
    names = [f"entry {a},{b}" for a, b in zip(i, j, strict=True)]
    return FeasibilityProblem(
        [Free(k), PSD(n)],
        [-matrices[:, i, j].T, entries],
        right,
        right,
        row_names=names,
        block_names=["x", "S"],
    )
