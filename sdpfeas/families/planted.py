"""Random problems with a known answer: a point, a certificate or a facial reduction certificate is planted.

:class:`Planted` and :class:`PlantedFaces` are the families; :func:`feasible`, :func:`infeasible`,
:func:`lmi`, :func:`feasible_lmis` and :func:`infeasible_lmis` are the generators behind them, which draw from
a NumPy generator. A :class:`PlantedProblem` holds the problem, its answer and the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy.sparse as sp

from sdpfeas.claims import Chain, Claim, Verdict
from sdpfeas.families.parametric_family import Family
from sdpfeas.numerics.integer_matrices import identity, integral, kernel, solution
from sdpfeas.numerics.linalg import (
    FloatArray,
    random_orthogonal,
    spectral_matrix,
    symmetrize,
    triangle_map,
    unpack_triangle,
)
from sdpfeas.problem.lmi import LMI, mirrored
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Combined, Dense, LowRank, NoRows, PairwiseDifference, Rows, Sparse, Stacked
from sdpfeas.problem.sets import PSD, BlockSet, Free, HermitianPSD, Nonneg, SecondOrder, SpectralBox

Generator = np.random.Generator

#: Storage kinds of rows on matrix blocks and on vector blocks.
MATRIX_STORAGE = ("dense", "sparse", "low-rank", "pairwise", "stacked", "combined")
VECTOR_STORAGE = ("dense", "sparse", "stacked", "combined")
#: Kinds of bounds of the rows.
BOUNDS = ("equality", "inequality", "two-sided", "mixed")


@dataclass(frozen=True)
class PlantedProblem:
    """Problem with a known answer and the evidence for it."""

    problem: FeasibilityProblem
    feasible: bool
    point: Point | None = None
    certificate: FloatArray | None = None
    name: str = ""
    chain: Chain | None = None

    @property
    def claim(self) -> Claim:
        """The evidence as a claim."""
        return Claim(point=self.point, certificate=self.certificate, chain=self.chain)

    @property
    def truth(self) -> Verdict:
        """The correct verdict."""
        return Verdict.FEASIBLE if self.feasible else Verdict.INFEASIBLE

    @property
    def wrong_verdict(self) -> Verdict:
        """The opposite of the correct verdict."""
        return Verdict.INFEASIBLE if self.feasible else Verdict.FEASIBLE


# --- sets and points


def set_mixes(scale: int = 1) -> dict[str, list[BlockSet]]:
    """Return every set alone, and combinations; ``scale`` multiplies the sizes."""
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
    """Return the dimension of the affine hull of the product of the sets."""
    return sum(block.dimension - (block.trace is not None) for block in sets)


def symmetric(rng: Generator, n: int) -> FloatArray:
    """Draw a symmetric matrix with normal entries."""
    return symmetrize(rng.normal(size=(n, n)))


def with_spectrum(rng: Generator, lam: FloatArray) -> FloatArray:
    """Draw a symmetric matrix with given eigenvalues and random eigenvectors."""
    return spectral_matrix(random_orthogonal(rng, lam.size), lam)


def interior(rng: Generator, block: BlockSet) -> FloatArray:
    """Draw a point in the interior of a set."""
    if block.free:
        lam = rng.normal(size=block.degree)
    elif block.cone:
        lam = rng.uniform(0.5, 2.0, block.degree)
    elif block.trace is None:
        lam = block.lower + (block.upper - block.lower) * rng.uniform(0.2, 0.8, block.degree)
    else:
        radius = 0.8 * min(block.middle - block.lower, block.upper - block.middle)
        apart = rng.uniform(-1.0, 1.0, block.degree)
        apart -= apart.mean()
        lam = block.middle + radius * apart / max(float(np.max(np.abs(apart))), 1.0)
    x = block.compose(block.random_frame(rng), lam)
    return x if block.trace is None else x + block.identity() * (block.trace - block.trace_of(x)) / block.n


def boundary(rng: Generator, block: BlockSet) -> FloatArray:
    """Draw a point on the boundary of a set, up to the rounding of a projection."""
    if block.entrywise:
        x = interior(rng, block)
        if not block.free:
            x[rng.integers(block.n)] = block.lower
        return x
    spread = 3.0 * (block.upper - block.lower if block.bounded else 1.0)
    return block.project(spread * block.symmetrize(rng.normal(size=block.shape)))


# --- rows


def random_rows(rng: Generator, block: BlockSet, m: int, storage: str) -> Rows:
    """Draw ``m`` rows on one block in the given storage."""
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
        # One extra entry per row in different columns makes a few rows independent.
        full[np.arange(m), np.resize(rng.permutation(n), m)] += 2.0
        return Sparse(sp.csr_array(full), n, matrix=False)
    if storage == "stacked" and m > 1:
        return Stacked([_vector_rows(rng, n, 1, "dense"), _vector_rows(rng, n, m - 1, "sparse")])
    if storage == "combined":
        return Combined(sp.csr_array(rng.normal(size=(m, m + 1))), _vector_rows(rng, n, m + 1, "dense"))
    return Dense(rng.normal(size=(m, n)))


def storage_for(block: BlockSet, storage: str) -> str:
    """Return the given storage, or "sparse" for a vector block that does not have it."""
    return storage if block.matrix or storage in VECTOR_STORAGE else "sparse"


def values(problem_rows: Sequence[Rows], point: Sequence[FloatArray], m: int) -> FloatArray:
    """Evaluate rows at a point."""
    total = np.zeros(m)
    for rows, x in zip(problem_rows, point, strict=True):
        total += rows.apply(x)
    return total


# --- planted feasible


def feasible(
    rng: Generator,
    sets: Sequence[BlockSet],
    *,
    storage: str = "dense",
    bounds: str = "mixed",
    rows: int | None = None,
    margin: float = 0.1,
    edge: bool = False,
) -> PlantedProblem:
    """Plant an interior point; inequality rows have a slack of at least ``margin`` times the norm of the row.

    With ``edge`` the point is on the boundary of its sets, as projected points are. Equality constraints
    cannot be proved there, so there are none.
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
    return PlantedProblem(FeasibilityProblem(sets, blocks, lower, upper), True, point=point)


def row_kinds(rng: Generator, bounds: str, m: int, most_equal: int) -> np.ndarray:
    """Draw the kinds of the rows, ``>``, ``<``, ``<>`` or ``=``, with at most ``most_equal`` equalities."""
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


# --- planted infeasible


def infeasible(
    rng: Generator,
    sets: Sequence[BlockSet],
    *,
    storage: str = "dense",
    bounds: str = "mixed",
    rows: int | None = None,
    margin: float = 0.1,
) -> PlantedProblem:
    """Plant a Farkas certificate y: the last row completes ``A*y`` to the interior of every polar set."""
    # More rows than free columns; otherwise rounding makes the rows independent and the problem feasible.
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
    return PlantedProblem(FeasibilityProblem(sets, blocks, lower, upper), False, certificate=y)


def polar_member(rng: Generator, block: BlockSet) -> FloatArray:
    """Draw an array in the interior of the domain of the support function of a set."""
    if block.free:
        return np.zeros(block.shape)
    if block.bounded:
        return block.symmetrize(rng.normal(size=block.shape))
    lam = -rng.uniform(0.3, 2.0, block.degree)
    return block.compose(block.random_frame(rng), lam)


# --- linear matrix inequalities


def lmi(rng: Generator, n: int, k: int, *, truth: bool, margin: float = 0.2) -> PlantedProblem:
    """Plant ``F_0 + sum_i x_i F_i`` positive semidefinite, or impossible, with a PSD slack block."""
    if truth:
        matrices = np.array([symmetric(rng, n) for _ in range(k)])
        x = rng.normal(size=k)
        slack = with_spectrum(rng, rng.uniform(margin, 2.0, n))
        constant = slack - np.tensordot(x, matrices, axes=1)
        problem = lmi_problem(constant, matrices)
        return PlantedProblem(problem, True, point=(x, slack), name="lmi")
    # Certificate: a positive definite Y with <F_i, Y> = 0 and <F_0, Y> < 0.
    dual = with_spectrum(rng, rng.uniform(margin, 2.0, n))
    raw = np.array([symmetric(rng, n) for _ in range(k + 1)])
    along = np.tensordot(raw, dual, axes=2) / np.sum(dual * dual)
    matrices = raw - along[:, None, None] * dual
    constant = matrices[0] - margin * dual
    problem = lmi_problem(constant, matrices[1:])
    i, j = np.triu_indices(n)
    return PlantedProblem(problem, False, certificate=-np.where(i == j, 1.0, 2.0) * dual[i, j], name="lmi")


def lmi_problem(constant: FloatArray, matrices: FloatArray) -> FeasibilityProblem:
    """Return ``S_ij - sum_k x_k (F_k)_ij = (F_0)_ij`` for i <= j, x free and S positive semidefinite."""
    n, k = constant.shape[0], matrices.shape[0]
    i, j = np.triu_indices(n)
    entries = triangle_map(n, 0.5).T
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


def _coefficients(rng: Generator, block: BlockSet, target: BlockSet, storage: str) -> Rows:
    """Draw coefficients of a block that are equal for mirrored entries."""
    if not block.matrix:
        return random_rows(rng, target, block.n, storage_for(target, storage))
    above = np.triu_indices(block.n)
    half = random_rows(rng, target, above[0].size, storage_for(target, storage))
    place = np.zeros(block.shape, dtype=np.int64)
    place[above] = place[above[::-1]] = np.arange(above[0].size)
    return half.select(place.reshape(-1))


def _rows(
    rng: Generator, sets: Sequence[BlockSet], m: int, bounds: str, storage: str
) -> tuple[list[Rows], np.ndarray]:
    """Draw rows on all blocks, and their kinds."""
    if m == 0:
        return [NoRows(0, block.n, block.matrix) for block in sets], np.zeros(0, dtype="<U2")
    return [random_rows(rng, b, m, storage_for(b, storage)) for b in sets], row_kinds(rng, bounds, m, m)


def feasible_lmis(
    rng: Generator,
    sets: Sequence[BlockSet],
    targets: Sequence[BlockSet],
    *,
    storage: str = "dense",
    bounds: str = "mixed",
    rows: int = 0,
    margin: float = 0.1,
) -> PlantedProblem:
    """Plant an interior point at which all LMIs are strictly feasible; rows are slack, or equalities."""
    point = tuple(interior(rng, block) for block in sets)
    parts, kind = _rows(rng, sets, rows, bounds, storage)
    value = np.zeros(rows)
    for part, x in zip(parts, point, strict=True):
        value += part.stable_apply(x)
    slack = np.where(kind == "=", 0.0, margin * rng.uniform(1.0, 3.0, rows) * (1.0 + np.abs(value)))
    lower = np.where(kind == "<", -np.inf, value - slack)
    upper = np.where(kind == ">", np.inf, value + slack)
    lmis = []
    for j, target in enumerate(targets):
        coefficients = [_coefficients(rng, block, target, storage) for block in sets]
        away = sum(
            (own.adjoint(x.reshape(-1)) for own, x in zip(coefficients, point, strict=True)),
            np.zeros(target.shape),
        )
        constant = target.symmetrize(interior(rng, target) - away)
        lmis.append(LMI(target, constant, coefficients, f"lmi {j}"))
    problem = FeasibilityProblem(sets, parts, lower, upper, lmis=lmis)
    return PlantedProblem(problem, True, point=point, name="lmis")


def infeasible_lmis(
    rng: Generator,
    sets: Sequence[BlockSet],
    targets: Sequence[BlockSet],
    *,
    storage: str = "dense",
    bounds: str = "mixed",
    rows: int = 0,
    margin: float = 0.1,
) -> PlantedProblem:
    """Plant multipliers in the interior of their cones; the last LMI completes them to a certificate."""
    parts, kind = _rows(rng, sets, rows, bounds, storage)
    y = rng.uniform(0.5, 2.0, rows) * np.where(np.isin(kind, ["=", "<>"]), rng.choice([-1.0, 1.0], rows), 1.0)
    y = np.where(kind == "<", -y, y)
    level, width = rng.normal(size=rows), rng.uniform(0.5, 1.5, rows)
    lower = np.where(kind == "<", -np.inf, np.where((kind == "=") | (y > 0), level, level - width))
    upper = np.where(kind == ">", np.inf, np.where((kind == "=") | (y < 0), level, level + width))
    own = [-polar_member(rng, target) for target in targets]
    goals = [polar_member(rng, block) for block in sets]
    table = [[_coefficients(rng, block, target, storage) for block in sets] for target in targets]
    for b, (block, part) in enumerate(zip(sets, parts, strict=True)):
        missing = goals[b] - part.adjoint(y)
        missing = missing - sum(c[b].apply(w).reshape(block.shape) for c, w in zip(table, own, strict=True))
        table[-1][b] = _shifted(table[-1][b], own[-1], mirrored(missing, block).reshape(-1))
    constants = [target.symmetrize(rng.normal(size=target.shape)) for target in targets]
    certificate = np.concatenate([y, *(part.reshape(-1) for part in own)])

    def problem() -> FeasibilityProblem:
        lmis = [
            LMI(t, f, c, f"lmi {j}")
            for j, (t, f, c) in enumerate(zip(targets, constants, table, strict=True))
        ]
        return FeasibilityProblem(sets, parts, lower, upper, lmis=lmis)

    draft = problem()
    terms = draft.beta_terms(certificate)
    supports = [
        block.support(g) for block, g in zip(sets, draft.adjoint(certificate), strict=True) if block.bounded
    ]
    supports += [t.support(-w) for t, w in zip(targets, own, strict=True) if t.bounded]
    size = float(np.sum(np.abs(terms))) + float(np.sum(np.abs(supports)))
    lacking = float(np.sum(supports)) - float(np.sum(terms)) + margin * size
    constants[-1] = constants[-1] - (lacking / float(np.vdot(own[-1], own[-1]))) * own[-1]
    return PlantedProblem(problem(), False, certificate=certificate, name="lmis")


def _shifted(rows: Rows, along: FloatArray, by: FloatArray) -> Rows:
    """Return rows whose inner products with ``along`` are larger by ``by``; mirrored rows stay equal."""
    share = by / float(np.vdot(along, along))
    if isinstance(rows, Dense):
        return Dense(rows.array + np.multiply.outer(share, along))
    weights = sp.hstack([sp.eye_array(rows.m), sp.csr_array(share[:, None])], format="csr")
    return Combined(weights, Stacked([rows, Dense(along[None])]))


#: Largest entry of the unimodular matrices that disguise a problem.
MAX_UNIMODULAR_ENTRY = 3


@dataclass(frozen=True)
class PlantedChainOptions:
    """Parameters of a problem with a planted facial reduction certificate.

    ``truth`` is weakly infeasible, feasible without interior ("face"), or strongly infeasible. ``length`` is
    the number of facial reduction steps, ``n`` the side of the matrix (at least ``length + 2``) and ``rows``
    the number of rows (at least ``length + 2``). ``side`` chooses rows on a semidefinite matrix, or the set
    of all matrices that satisfy these rows in the form ``F0 + sum_i x_i F_i >= 0``, with a slack block
    ("lmi") or as an LMI of the problem ("native"); both need integer rows. ``disguised`` hides the structure.
    """

    truth: Literal["weak", "face", "strong"] = "weak"
    length: int = 2
    n: int = 8
    rows: int = 8
    numbers: Literal["integer", "float"] = "integer"
    disguised: bool = False
    side: Literal["primal", "lmi", "native"] = "primal"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError("length must be at least 1")
        if self.n < self.length + 2:
            raise ValueError("n must be at least two more than length")
        if self.rows < self.length + 2:
            raise ValueError("rows must be at least two more than length")
        if self.side != "primal" and self.numbers == "float":
            raise ValueError("side 'lmi' and side 'native' need integer rows")
        rest = self.n - self.length
        if self.numbers == "float" and self.rows - self.length > rest * (rest + 1) // 2:
            raise ValueError("too many rows of floats: rounding makes them contradict each other")


class PlantedFaces(Family):
    """Problems without a strictly feasible point, with a planted facial reduction certificate.

    Coordinates are partitioned into ``P_1, ..., P_k`` and a rest. Row j is the identity on ``P_j``, zero on
    all later coordinates and arbitrary on earlier ones, with bound zero. Row 1 forces ``X`` to vanish on
    ``P_1``, then row 2 on ``P_2``, and so on; the rest is the minimal face.

    * ``truth="face"``: all other rows hold at a matrix that is positive definite on the rest: feasible.
    * ``truth="weak"``: row j > 1 has the single earlier term ``2 X[p, s]`` with p in ``P_{j-1}`` and s in the
      rest, and another row is ``2 X[p, s] = 1`` with p in ``P_k``, which is 0 = 1 on the face. For large
      ``X[s, s]`` all rows hold except the first, whose residual is arbitrarily small: there is no Farkas
      certificate.
    * ``truth="strong"``: another row is positive definite, with a negative bound.

    Disguised integer problems are multiplied by unimodular matrices (rows and coordinates). Disguised
    problems with floating-point rows are scaled and permuted.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> problem = sf.families.PlantedFaces.make(truth="weak", length=2, n=4, rows=4)
    >>> result = sf.solve(problem)
    >>> print(result.verdict, result.proof)
    infeasible exact
    """

    name = "planted-faces"
    Options = PlantedChainOptions

    @classmethod
    def build(cls, options: PlantedChainOptions) -> FeasibilityProblem:
        """Return a problem whose answer is ``options.truth``."""
        return cls.plant(options).problem

    @staticmethod
    def plant(options: PlantedChainOptions) -> PlantedProblem:
        """Return a problem with the planted evidence.

        Parameters
        ----------
        options : PlantedChainOptions
            Parameters of the problem.
        """
        rng = np.random.default_rng(options.seed)
        plant = _plain(rng, options)
        if options.disguised:
            plant = (_mixed if options.numbers == "integer" else _shuffled)(rng, plant)
        if options.side != "primal":
            return _as_lmi(rng, plant, native=options.side == "native")
        rows, right = plant.matrices.astype(np.float64), plant.bounds.astype(np.float64)
        if options.numbers == "float":
            # Scaling keeps the zero bounds exact.
            factors = rng.uniform(0.5, 2.0, options.rows)
            rows, right = rows * factors[:, None, None], right * factors
        problem = FeasibilityProblem([PSD(options.n)], [rows], right, right)
        point = (plant.base.astype(np.float64),) if plant.feasible else None
        return PlantedProblem(problem, plant.feasible, point, chain=Chain(tuple(plant.steps)))


@dataclass(frozen=True)
class _Plant:
    """Integer rows, a matrix that satisfies them, and the facial reduction steps."""

    matrices: np.ndarray
    base: np.ndarray
    steps: np.ndarray
    feasible: bool

    @property
    def bounds(self) -> np.ndarray:
        return np.array([int((a * self.base).sum()) for a in self.matrices], dtype=object)


def _plain(rng: Generator, options: PlantedChainOptions) -> _Plant:
    """Build the undisguised problem; the certificate consists of the first rows in their order."""
    n, k, m = options.n, options.length, options.rows
    ends = [0]
    for j in range(k):
        # Keep at least one coordinate for every later group and for the rest.
        most = min(2 if options.numbers == "integer" else 1, n - 1 - (k - 1 - j) - ends[-1])
        ends.append(ends[-1] + int(rng.integers(1, most + 1)))
    groups = [np.arange(a, b) for a, b in pairwise(ends)]
    rest, spot = ends[-1], n - 1
    noise = _integers(rng, (m, n, n), 2)
    matrices = noise + noise.transpose(0, 2, 1)
    for j, group in enumerate(groups):
        matrices[j][ends[j] :, ends[j] :] = 0
        if options.truth == "weak":
            matrices[j] = 0
        matrices[j][group, group] = 1
        if options.truth == "weak" and j:
            _put(matrices[j], int(groups[j - 1][0]), spot, 1)
    base = np.zeros((n, n), dtype=object)
    root = _integers(rng, (n - rest, n - rest), 1)
    base[rest:, rest:] = root.dot(root.T) + identity(n - rest)
    # Sign convention of certificates: A*y is negative semidefinite.
    steps = -identity(m)[: k + (options.truth != "face")]
    if options.truth == "weak":
        base[spot, :] = base[:, spot] = 0
        _put(base, int(groups[-1][0]), spot, Fraction(1, 2))
        for before, group in pairwise(groups):
            base[group, group] = 2
            _put(base, int(before[0]), spot, -len(group))
        matrices[k] = 0
        _put(matrices[k], int(groups[-1][0]), spot, 1)
        matrices[k + 1 :, spot, spot] = 0
        steps[-1] = -steps[-1]
    elif options.truth == "strong":
        root = _integers(rng, (n, n), 1)
        matrices[k] = root.dot(root.T) + identity(n)
        # Make one diagonal entry so negative that the inner product is negative.
        value = int((matrices[k] * base).sum())
        base[spot, spot] -= value // int(matrices[k][spot, spot]) + 1
    return _Plant(matrices, base, steps, options.truth == "face")


def _put(matrix: np.ndarray, i: int, j: int, value: object) -> None:
    matrix[i, j] = matrix[j, i] = value


def _integers(rng: Generator, shape: tuple[int, ...], size: int) -> np.ndarray:
    out = np.empty(shape, dtype=object)
    out[...] = rng.integers(-size, size + 1, shape).tolist()
    return out


def _mixed(rng: Generator, plant: _Plant) -> _Plant:
    """Multiply rows and coordinates by unimodular matrices."""
    m, n = plant.matrices.shape[:2]
    mix, turn = _unimodular(rng, m), _unimodular(rng, n)
    moved = np.array([turn.T.dot(a).dot(turn) for a in plant.matrices], dtype=object)
    combined = mix.dot(moved.reshape(m, -1)).reshape(moved.shape)
    undo = np.stack([_exact(turn, e) for e in identity(n)], axis=1)
    # Multipliers y' of the rows T A satisfy T'y' = y.
    steps = np.stack([_exact(mix.T, y) for y in plant.steps])
    return replace(plant, matrices=combined, base=undo.dot(plant.base).dot(undo.T), steps=steps)


def _exact(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    whole, common = integral(Fraction(v) for v in right)
    found = solution(matrix, whole)
    assert found is not None
    return np.asarray(found / common)


def _unimodular(rng: Generator, n: int) -> np.ndarray:
    """Draw an integer matrix with determinant 1 or -1 and small entries."""
    out = identity(n)
    for _ in range(2 * n):
        i, j = rng.choice(n, size=2, replace=False)
        line = out[i] + int(rng.choice([-1, 1])) * out[j]
        if max(abs(int(v)) for v in line) <= MAX_UNIMODULAR_ENTRY:
            out[i] = line
    return out[rng.permutation(n)]


def _shuffled(rng: Generator, plant: _Plant) -> _Plant:
    """Permute rows and coordinates."""
    rows, places = (rng.permutation(size) for size in plant.matrices.shape[:2])
    moved = plant.matrices[rows][:, places[:, None], places]
    return replace(plant, matrices=moved, base=plant.base[np.ix_(places, places)], steps=plant.steps[:, rows])


def _as_lmi(rng: Generator, plant: _Plant, *, native: bool) -> PlantedProblem:
    """Return the set of matrices that satisfy the rows as ``F0 + sum_i x_i F_i`` positive semidefinite."""
    n = plant.matrices.shape[1]
    i, j = np.triu_indices(n)
    twice = np.where(i == j, 1, 2).astype(object)
    moves = kernel(plant.matrices[:, i, j] * twice)
    x = -_integers(rng, (moves.shape[1],), 1)
    base = plant.base[i, j] - moves.dot(x)
    # The multiplier of the slack matrix is A*y.
    made = np.tensordot(plant.steps, plant.matrices, 1)
    if native:
        lmi = LMI(
            PSD(n), unpack_triangle(base, n), [np.array([unpack_triangle(move, n) for move in moves.T])]
        )
        problem = FeasibilityProblem([Free(moves.shape[1])], [None], [], [], lmis=[lmi])
        point: Point | None = (x.astype(np.float64),) if plant.feasible else None
        chain = Chain(tuple(-step.reshape(-1) for step in made))
        return PlantedProblem(problem, plant.feasible, point, chain=chain)
    # Row (i, j) is X[i, j] - sum_k x_k (F_k)[i, j], scaled such that its bound is an integer.
    scale = np.array([Fraction(v).denominator for v in base], dtype=object)
    rows = np.zeros((i.size, n, n))
    rows[np.arange(i.size), i, j] += 0.5 * scale.astype(np.float64)
    rows[np.arange(i.size), j, i] += 0.5 * scale.astype(np.float64)
    free, right = (-moves * scale[:, None]).astype(np.float64), (base * scale).astype(np.float64)
    problem = FeasibilityProblem([PSD(n), Free(moves.shape[1])], [rows, free], right, right)
    chain = Chain(tuple(y * Fraction(1) / scale for y in made[:, i, j] * twice))
    point = (plant.base.astype(np.float64), x.astype(np.float64)) if plant.feasible else None
    return PlantedProblem(problem, plant.feasible, point, chain=chain)


@dataclass(frozen=True)
class PlantedOptions:
    """Parameters of a planted problem.

    ``sets`` is one PSD block, one SpectralBox, or one block of every kind. ``bounds`` are the kinds of the
    rows; equalities beyond the dimension of a feasible problem become two-sided. ``margin`` is the slack of
    the rows at the planted point, or the gap of the planted certificate, relative to the norm of the rows.
    """

    sets: Literal["psd", "box", "mixed"] = "mixed"
    n: int = 6
    rows: int = 8
    feasible: bool = True
    bounds: Literal["equality", "inequality", "two-sided", "mixed"] = "mixed"
    storage: Literal["dense", "sparse", "low-rank", "pairwise", "stacked", "combined"] = "dense"
    margin: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 2 or self.rows < 2:
            raise ValueError("n and rows must be at least 2")
        if not self.margin > 0.0:
            raise ValueError("margin must be above 0")


class Planted(Family):
    """Random problems with a planted interior point or a planted Farkas certificate.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> print(sf.solve(sf.families.Planted.make(sets="psd", feasible=False)).verdict)
    infeasible
    """

    name = "planted"
    Options = PlantedOptions

    @classmethod
    def build(cls, options: PlantedOptions) -> FeasibilityProblem:
        """Return a problem whose answer is ``options.feasible``."""
        return cls.plant(options).problem

    @staticmethod
    def plant(options: PlantedOptions) -> PlantedProblem:
        """Return a problem with the planted evidence.

        Parameters
        ----------
        options : PlantedOptions
            Parameters of the problem.
        """
        make = feasible if options.feasible else infeasible
        return make(
            np.random.default_rng(options.seed),
            _sets(options),
            storage=options.storage,
            bounds=options.bounds,
            rows=options.rows,
            margin=options.margin,
        )


def _sets(options: PlantedOptions) -> list[BlockSet]:
    box = SpectralBox(options.n, trace=max(1.0, options.n // 2))
    if options.sets == "psd":
        return [PSD(options.n)]
    if options.sets == "box":
        return [box]
    # A*y has to vanish on the Free block: fewer entries than rows.
    return [PSD(options.n), box, Nonneg(3), Free(max(1, min(2, options.rows - 2)))]
