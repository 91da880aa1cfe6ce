"""Maximise the minimum of linear functions over the Fantope, and column generation for ratios.

:class:`FantopeMaxMin` maximises ``min_i (<A_i, Z> - b_i)`` over the Fantope ``{0 <= Z <= I, tr Z = r}``.
Covariance matrices of groups as ``A_i`` give fair PCA (Tantipongpipat et al., NeurIPS 2019), ``(m_i -
m_j)(m_i - m_j)'`` for class means ``m_i`` gives max-min distance analysis (Bian and Tao, IEEE TPAMI 2011). At
a fixed level the rows are ``<A_i, Z> >= b_i + delta``.

:func:`generate_columns` is stabilised column generation (Dantzig and Wolfe) for a worst-case ratio. Convex
combinations of points are points, so the best ratio over the hull of a few points is a linear program after
the Charnes-Cooper transformation. Its multipliers are weights, and the maximiser for these weights is a new
column. A few rounds cost less than one solve. Nothing here is proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.families.parametric_family import column
from sdpfeas.families.subspace_restriction import (
    GUARD_DIRECTIONS,
    FantopeFamily,
    SubspaceRestriction,
    restrict_rows,
)
from sdpfeas.families.threshold_bounds import EXACT, NO_ROOT, Root
from sdpfeas.numerics.linalg import FloatArray, leading_pairs, symmetrize
from sdpfeas.numerics.rounding import UNIT
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Dense, LowRank, PairwiseDifference, Rows, as_rows
from sdpfeas.problem.sets import Free, SpectralBox
from sdpfeas.problem.sets.base import Maximiser
from sdpfeas.problem.validation import finite_number, float_array, require_finite

#: Shift that makes values positive in column generation, relative to the norm of the matrices.
POSITIVE_SHIFT = 1.0


@dataclass(frozen=True)
class FantopeOptions:
    """Parameters of a random problem: sample covariance matrices of anisotropic Gaussian groups."""

    n: int = 20
    groups: int = 4
    r: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 1 or self.groups < 1 or not 1 <= self.r <= self.n:
            raise ValueError(f"n = {self.n} and groups = {self.groups} must be positive, "
                             f"and r = {self.r} between 1 and n")  # fmt: skip


class FantopeMaxMin(FantopeFamily):
    """Maximise ``min_i (<A_i, Z> - b_i)`` over the Fantope.

    The problem at ``delta`` is ``<A_i, Z> - b_i >= delta`` for all i.

    Parameters
    ----------
    matrices : array_like or Rows
        The matrices ``A_i``: shape (m, n, n), or rows in any storage.
    r : float
        Trace of ``Z``, positive and at most n.
    offsets : array_like, optional
        The numbers ``b_i``; zero by default.
    names : sequence of str, optional
        Names of the rows.
    bracket : tuple of float
        Bounds of the maximum that are known a priori; the lower one is attained.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> A = np.array([np.diag([2.0, 1.0]), np.diag([1.0, 2.0])])
    >>> found = sf.bisect(sf.families.FantopeMaxMin(A, r=1), tol=1e-6)
    >>> found.lower <= 1.5 <= found.upper
    True
    """

    name = "fantope-max-min"
    Options = FantopeOptions

    def __init__(
        self,
        matrices: Any,
        r: float,
        offsets: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        bracket: tuple[float, float] = (-math.inf, math.inf),
    ) -> None:
        side = matrices.n if isinstance(matrices, Rows) else _side(matrices)
        trace = finite_number(r, "r")
        if not 0.0 < trace <= side:
            raise ProblemError(f"r must be positive and at most {side}, the side of the matrices; got {r!r}")
        self._box = SpectralBox(side, trace=trace)
        rows = as_rows(matrices, self._box, 0)
        if rows.m == 0:
            raise ProblemError("a minimum needs at least one matrix")
        self._terms = rows
        self._last: tuple[FloatArray, Maximiser] | None = None
        self._offsets = np.zeros(rows.m) if offsets is None else float_array(offsets, "offsets")
        if self._offsets.shape != (rows.m,):
            raise ProblemError(f"offsets must have {rows.m} entries, got shape {self._offsets.shape}")
        require_finite(self._offsets, "offsets")
        super().__init__(
            [self._box],
            [rows],
            [None],
            self._offsets,
            np.full(rows.m, np.inf),
            lower_slope=np.ones(rows.m),
            monotone="a lower level asks less of every row",
            bracket=bracket,
            unit=float(np.max(rows.norms(), initial=0.0)) or 1.0,
            row_names=names,
            block_names=["Z"],
        )

    @classmethod
    def build(cls, options: FantopeOptions) -> FantopeMaxMin:
        """Build a random member."""
        rng = np.random.default_rng(options.seed)
        spread = np.exp(rng.uniform(-1.0, 1.0, (options.groups, options.n)))
        samples = rng.standard_normal((options.groups, 2 * options.n, options.n)) * spread[:, None]
        covariances = np.swapaxes(samples, 1, 2) @ samples / (2.0 * options.n)
        return cls(symmetrize(covariances), options.r)

    def values(self, point: Point) -> FloatArray:
        """Return ``<A_i, Z> - b_i``, in floating-point arithmetic.

        Parameters
        ----------
        point : tuple of ndarray
            A point of the family.
        """
        return np.asarray(self._terms.apply(point[0]) - self._offsets)

    # --- bounds

    def root(self, y: FloatArray, near: float | None = None, accuracy: float = EXACT) -> Root:
        """Return the smallest level that weights exclude, ``(sigma(A*y) - b'y) / sum(y)``."""
        total = float(np.sum(y))
        if not total > 0.0:
            return NO_ROOT
        best = self._priced(y)
        delta = (float(best.lam @ best.weights) - float(self._offsets @ y)) / total
        size = self._box.nuclear_radius * best.size + float(np.abs(self._offsets) @ y)
        return Root(delta, 64.0 * self._box.n * UNIT * size / total)

    def _priced(self, y: FloatArray) -> Maximiser:
        """Return the maximiser of ``<A*y, Z>``; the last one is cached."""
        if self._last is None or not np.array_equal(self._last[0], y):
            self._last = np.array(y), self._box.maximiser(self._terms.adjoint(y))
        return self._last[1]

    def initial_multipliers(self) -> list[FloatArray]:
        """Return equal weights, and unit weight on the smallest row at the centre of the Fantope."""
        least = int(np.argmin(self.values((self._box.interior_point(),))))
        return [np.full(self.m, 1.0 / self.m), (np.arange(self.m) == least).astype(np.float64)]

    def recovered_points(self, y: FloatArray, near: float | None = None) -> list[Point]:
        """Return the projector onto the leading eigenvectors of ``A*y``."""
        best = self._priced(np.maximum(y, 0.0))
        return [(self._box.compose(best.frame, best.weights),)]

    def refine(
        self, points: list[Point], multipliers: list[FloatArray], tol: float
    ) -> tuple[list[Point], list[FloatArray]]:
        """Improve points and multipliers by column generation; values are shifted to be positive."""
        least = min((float(np.min(self.values(point))) for point in points), default=0.0)
        base = least - POSITIVE_SHIFT * self.unit

        def price(u: FloatArray, w: FloatArray, near: float) -> tuple[float, FloatArray]:
            best = self._priced(u)
            return self.root(u).delta - base, self._box.compose(best.frame, best.weights)

        found = generate_columns(
            lambda z: (self.values((z,)) - base, np.ones(1)),
            price,
            [point[0] for point in points],
            [(y, np.ones(1)) for y in multipliers],
            REFINE_ROUNDS,
            0.2 * tol,
        )
        return ([], []) if found is None else ([(found[0],)], [found[1][0]])

    # --- the equivalent conic program

    def conic_program(self) -> ConicProgram:
        """Return ``max t`` subject to ``<A_i, Z> - t >= b_i``."""
        box, m = self._box, self.m
        rows, names = [self._terms, column(0, m, m, -1.0)], ["Z", "t"]
        problem = FeasibilityProblem(
            [box, Free(1)], rows, self._offsets, np.full(m, np.inf), block_names=names
        )
        return ConicProgram(problem, (np.zeros(box.shape), np.ones(1)))

    def subspace_restriction(self) -> SubspaceRestriction | None:
        """Return the restriction to subspaces if n is large and r an integer far below n."""
        box, kinds = self._box, (Dense, LowRank, PairwiseDifference)
        small = box.rank == round(box.rank) and isinstance(self._terms, kinds)
        return SubspaceRestriction(self) if small and SubspaceRestriction.pays(box) else None

    def _restricted(self, basis: FloatArray) -> FantopeMaxMin:
        """Return the family on the span of orthonormal columns."""
        return FantopeMaxMin(restrict_rows(self._terms, basis), self._box.rank, self._offsets)

    def _initial_directions(self) -> FloatArray:
        """Return the leading eigenvectors of the mean of all matrices."""
        mean = self._terms.adjoint(np.full(self.m, 1.0 / self.m))
        return leading_pairs(mean, round(self._box.rank) + GUARD_DIRECTIONS)[1]

    def _expansion(
        self, y: FloatArray, basis: FloatArray, z: FloatArray, attained: float
    ) -> tuple[float, FloatArray]:
        """Return the upper bound and the leading eigenvectors of ``A*y``."""
        u, r = np.maximum(y, 0.0), round(self._box.rank)
        u = u / u.sum()
        lam, vec = leading_pairs(self._terms.adjoint(u), r + GUARD_DIRECTIONS)
        return float(np.sum(lam[-r:])) - float(self._offsets @ u), vec

    def program_point(self, point: Point) -> Point:
        """Drop t."""
        return (point[0],)

    def program_multipliers(self, y: FloatArray) -> FloatArray:
        """Set multipliers of the wrong sign to zero."""
        return np.maximum(y, 0.0)

    def describe(self) -> Mapping[str, Any]:
        """Return the sizes and the trace."""
        return {**super().describe(), "r": self._box.trace}


def _side(matrices: Any) -> int:
    shape = np.shape(matrices)
    if len(shape) != 3 or shape[1] != shape[2] or not shape[1]:
        raise ProblemError(f"matrices must have shape (m, n, n), got {shape}")
    return int(shape[1])


# --- Column generation

#: Rounds of column generation after a solve.
REFINE_ROUNDS = 12

#: Stabilisation: share of the best weights in the weights that are priced; 0 oscillates.
MIX = 0.5


def generate_columns(
    terms: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    price: Callable[[FloatArray, FloatArray, float], tuple[float, FloatArray]],
    matrices: Sequence[FloatArray],
    weights: Sequence[tuple[FloatArray, FloatArray]],
    rounds: int,
    tol: float,
) -> tuple[FloatArray, tuple[FloatArray, FloatArray]] | None:
    """Improve points and weights by column generation; None if the weights give no finite bound.

    ``terms`` evaluates the numerator and denominator rows at a matrix. ``price`` takes weights of both, each
    of sum one, and a lower bound of the ratio, and returns the smallest ratio that the weights exclude and
    the matrix that comes closest to it. ``weights`` are pairs of weights of the numerator and denominator
    rows. Iterations stop after ``rounds`` or when both bounds agree to ``tol``, relative to the upper one.
    Returns the best convex combination and the best weights.
    """
    columns = list(matrices)
    values = [terms(z) for z in columns]
    best: tuple[FloatArray, FloatArray] | None = None
    bound = np.inf

    def price_column(unit: tuple[FloatArray, FloatArray], near: float) -> None:
        nonlocal best, bound
        value, matrix = price(*unit, near)
        columns.append(matrix)
        values.append(terms(matrix))
        if value < bound:
            best, bound = unit, value

    attained = max([0.0, *(np.min(a) / np.max(b) for a, b in values if np.max(b) > 0.0)])
    for pair in weights:
        unit = unit_weights(*pair)
        if unit is not None:
            price_column(unit, attained)
    if best is None or not 0.0 < bound < np.inf:
        return None
    mixture = None
    for _ in range(rounds):
        master = _master(values, bound)
        if master is None:
            break
        attained, mixture, unit = master
        if unit is None or bound - attained <= tol * bound:
            break
        u, w = (MIX * old + (1.0 - MIX) * new for old, new in zip(best, unit, strict=True))
        price_column((u, w), attained)
    if mixture is None:
        return None
    total = sum(share * z for share, z in zip(mixture, columns, strict=False))
    return np.asarray(total), best


def unit_weights(u: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Scale both weight vectors, negative entries as zero, to sum one; None if one of them vanishes."""
    u, w = np.maximum(u, 0.0), np.maximum(w, 0.0)
    if not (u.sum() > 0.0 and w.sum() > 0.0):
        return None
    return u / u.sum(), w / w.sum()


def _master(
    values: Sequence[tuple[FloatArray, FloatArray]], scale: float
) -> tuple[float, FloatArray, tuple[FloatArray, FloatArray] | None] | None:
    """Solve the master problem: the best ratio over the hull, the convex combination, and its weights."""
    from scipy.optimize import linprog  # slow to import

    means, scatters = (np.array(part).T for part in zip(*values, strict=True))
    unit = float(np.max(scatters))
    if not unit > 0.0:
        return None
    pairs, count = means.shape
    above = np.hstack([-means / (unit * scale), np.ones((pairs, 1))])
    below = np.hstack([scatters / unit, np.zeros((scatters.shape[0], 1))])
    limit = np.concatenate([np.zeros(pairs), np.ones(scatters.shape[0])])
    cost = np.zeros(count + 1)
    cost[-1] = -1.0
    answer = linprog(cost, np.vstack([above, below]), limit, bounds=(0.0, None), method="highs")
    if answer.x is None or not float(np.sum(answer.x[:-1])) > 0.0:
        return None
    shares = answer.x[:-1] / np.sum(answer.x[:-1])
    multipliers = -np.asarray(answer.ineqlin.marginals)
    return float(answer.x[-1]) * scale, shares, unit_weights(multipliers[:pairs], multipliers[pairs:])
