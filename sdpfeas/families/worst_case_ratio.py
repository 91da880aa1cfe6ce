"""The worst-case ratio ``min_ij <S_ij, Z> / max_k <S_k, Z>`` over the Fantope: bounds, program, subspaces.

``S_ij = (m_i - m_j)(m_i - m_j)'`` is the between-class scatter of a pair of classes and ``S_k`` the
within-class scatter of a class. Weights ``u`` of the pairs and ``w`` of the classes exclude every ratio above
the root in ``delta`` of ``sigma(sum_ij u_ij S_ij - delta·sum_k w_k S_k)``, with ``sigma`` the support
function of the Fantope (a Ky Fan norm for positive semidefinite matrices). :class:`WorstCaseRatio` computes
such bounds and the matrices that attain them, :func:`ratio_program` is the Charnes-Cooper transformation of
the fractional program, :class:`RatioRestriction` restricts it to subspaces. Nothing here is proved:
:class:`sdpfeas.families.WLDA` turns points and weights into proven bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import scipy.linalg

from sdpfeas.families.active_rows import ActiveRows, RowGroup
from sdpfeas.families.fantope import REFINE_ROUNDS, PricingOracle, generate_columns, unit_weights
from sdpfeas.families.parametric_family import column
from sdpfeas.families.subspace_restriction import (
    GUARD_DIRECTIONS,
    SubspaceRestriction,
    davidson_pairs,
    lift_to_interior,
    orthonormalise,
    restrict_rows,
)
from sdpfeas.families.threshold_bounds import EXACT, NO_ROOT, Root, certificate_root
from sdpfeas.numerics.linalg import PARTIAL_SIZE, FloatArray, eigh, leading_pairs, spectral_matrix
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import LowRank, Rows, Stacked
from sdpfeas.problem.sets import Nonneg, SpectralBox

Weights = tuple[FloatArray, FloatArray]

#: Accuracy of a root in column generation, as a share of the tolerance.
PRICING_ACCURACY_SHARE = 1e-3

#: Dimension up to which the last root is cached with its two weighted sums; a larger one costs memory.
MAX_CACHED_DIMENSION = 2000


@dataclass(frozen=True)
class _Last:
    """Cached root with its weights and accuracy."""

    unit: Weights
    accuracy: float
    found: tuple[Root, FloatArray, FloatArray]


class WorstCaseRatio:
    """Worst-case ratio over a Fantope, given by one row per pair of classes and one row per class."""

    def __init__(self, box: SpectralBox, pairs: Rows, scatters: Rows) -> None:
        self.box = box
        self.pairs = pairs
        self.scatters = scatters
        self._last: _Last | None = None

    def value(self, z: FloatArray) -> float:
        """Return the ratio of a matrix."""
        least = float(np.min(self.pairs.apply(z)))
        most = float(np.max(self.scatters.apply(z)))
        if most <= 0.0:
            return math.inf if least > 0.0 else 0.0
        return max(least, 0.0) / most

    def root(self, weights: Weights, near: float = 0.0, accuracy: float = EXACT) -> Root:
        """Return the smallest ratio that non-negative weights of pairs and classes exclude.

        It is the root of ``sigma(sum_ij u_ij S_ij - delta·sum_k w_k S_k)``, to a relative ``accuracy``.
        """
        unit = unit_weights(*weights)
        return NO_ROOT if unit is None else self._root(unit, near, accuracy)[0]

    def _root(self, unit: Weights, near: float, accuracy: float) -> tuple[Root, FloatArray, FloatArray]:
        """Return the root of unit weights and the two weighted sums; the last result is cached."""
        known = self._last
        if known is not None and known.accuracy <= accuracy and all(map(np.array_equal, known.unit, unit)):
            return known.found
        fixed, slope = self.pairs.adjoint(unit[0]), self.scatters.adjoint(unit[1])
        root = certificate_root((self.box,), (fixed,), (slope,), 0.0, 0.0, near, accuracy=accuracy)
        if self.box.n <= MAX_CACHED_DIMENSION:
            self._last = _Last(unit, accuracy, (root, fixed, slope))
        return root, fixed, slope

    def price(
        self, u: FloatArray, w: FloatArray, near: float, accuracy: float = EXACT
    ) -> tuple[float, FloatArray]:
        """Return the smallest ratio that unit weights exclude, and the matrix that comes closest to it."""
        root, fixed, slope = self._root((u, w), max(near, 0.0), accuracy)
        delta = root.delta if math.isfinite(root.delta) else near
        best = self.box.maximiser(fixed - delta * slope)
        return root.delta, self.box.compose(best.frame, best.weights)

    def suggested(self, weights: Weights, near: float = 0.0) -> FloatArray | None:
        """Return the matrix that comes closest to the ratio that weights exclude, if they exclude any."""
        unit = unit_weights(*weights)
        if unit is None:
            return None
        delta, matrix = self.price(*unit, near)
        return matrix if math.isfinite(delta) else None

    def refined(
        self, matrices: Sequence[FloatArray], weights: Sequence[Weights], tol: float
    ) -> tuple[FloatArray, Weights] | None:
        """Improve matrices and weights by column generation; ``tol`` is the required width of the bracket."""
        price = partial(self.price, accuracy=PRICING_ACCURACY_SHARE * tol)
        oracle = PricingOracle(self.pairs.apply, self.scatters.apply, price)
        return generate_columns(oracle, matrices, weights, REFINE_ROUNDS, 0.2 * tol)

    def narrowest(self) -> FloatArray:
        """Return the projector onto the directions of least total within-class scatter."""
        lam, vec = eigh(np.asarray(self.scatters.adjoint(np.ones(self.scatters.m))))
        return spectral_matrix(vec, self.box.maximiser_spectrum(lam)[::-1])

    def initial_matrices(self) -> list[FloatArray]:
        """Return the centre of the Fantope and the projector onto the directions of classical LDA."""
        out = [np.asarray(self.box.interior_point())]
        try:
            within = self.scatters.adjoint(np.ones(self.scatters.m))
            between = self.pairs.adjoint(np.ones(self.pairs.m))
            floor = 1e-12 * float(np.trace(within + between)) / within.shape[0]
            _, vec = scipy.linalg.eigh(between, within + floor * np.eye(within.shape[0]))
            q, _ = np.linalg.qr(vec[:, -round(self.box.rank) :])
            out.append(q @ q.T)
        except np.linalg.LinAlgError:
            pass
        return out

    def initial_weights(self) -> list[Weights]:
        """Return balanced weights, equal weights, and unit weight on the worst rows at the centre."""
        pairs, groups = self.pairs.m, self.scatters.m
        middle = self.box.interior_point()
        worst_pair = (np.arange(pairs) == int(np.argmin(self.pairs.apply(middle)))).astype(np.float64)
        worst_group = (np.arange(groups) == int(np.argmax(self.scatters.apply(middle)))).astype(np.float64)
        equal = np.full(pairs, 1.0 / pairs), np.full(groups, 1.0 / groups)
        balanced = balanced_weights(self)[:2]
        return [balanced, equal, (worst_pair, worst_group)]


# --- Initial weights

#: Rounds of multiplicative updates, with partial and with full eigendecompositions (one per round). They save
#: an interior-point method three to five iterations of a dozen eigendecompositions each.
UPDATE_ROUNDS, UPDATE_ROUNDS_FULL = 20, 10

#: Weights are multiplied by a power of the row value relative to the largest. The exponent decays
#: geometrically from round to round, since constant exponents oscillate.
STEP_EXPONENT, STEP_DECAY = 1.3, 0.93
#: Lower limit of relative row values in an update.
MIN_RELATIVE_VALUE = 1e-3


def balanced_weights(ratio: WorstCaseRatio) -> tuple[FloatArray, FloatArray, float]:
    """Compute initial weights of pairs and classes by multiplicative updates, and the ratio they exclude.

    Every round computes the maximiser for the present weights, then increases the weights of pairs with a
    small distance and of classes with a large scatter there.
    """
    box, pairs, scatters = ratio.box, ratio.pairs, ratio.scatters
    u, w = np.full(pairs.m, 1.0 / pairs.m), np.full(scatters.m, 1.0 / scatters.m)
    # The identity gives the magnitude of the ratio; the maximiser at ratio zero would not.
    z = np.eye(box.n)
    delta = _weighted_ratio(u, pairs.apply(z), w, scatters.apply(z))
    top = box.maximiser_spectrum(np.arange(1.0, box.n + 1.0))
    count = int(np.count_nonzero(top))
    for k in range(UPDATE_ROUNDS_FULL if box.n < PARTIAL_SIZE else UPDATE_ROUNDS):
        _, vec = leading_pairs(pairs.adjoint(u) - delta * scatters.adjoint(w), count)
        z = (vec * top[-count:]) @ vec.T
        means, spreads = pairs.apply(z), scatters.apply(z)
        if not (np.max(means) > 0.0 and np.max(spreads) > 0.0):
            break
        delta, power = _weighted_ratio(u, means, w, spreads), STEP_EXPONENT * STEP_DECAY**k
        u = u / np.maximum(means / np.max(means), MIN_RELATIVE_VALUE) ** power
        w = w * np.maximum(spreads / np.max(spreads), MIN_RELATIVE_VALUE) ** power
        u, w = u / u.sum(), w / w.sum()
    return u, w, delta


def _weighted_ratio(u: FloatArray, means: FloatArray, w: FloatArray, spreads: FloatArray) -> float:
    spread = float(w @ spreads)
    ratio = float(u @ means) / spread if spread > 0.0 else 0.0
    return ratio if math.isfinite(ratio) else 0.0


# --- The Charnes-Cooper transformation

#: Relative accuracy of the ratio of the initial weights.
START_ACCURACY = 1e-2

#: Number of pairs up to which all rows are active from the start: pairwise structure makes them cheap.
MAX_PAIRS_ALL_ACTIVE = 800

#: Initially active pairs: those within this multiple of the least distance, but at least and at most these
#: numbers per dimension.
INITIAL_DISTANCE_RATIO, MIN_PAIRS_PER_DIMENSION, MAX_PAIRS_PER_DIMENSION = 2.0, 4, 8
#: Initially active classes: those whose scatter is at least this share of the largest.
INITIAL_SCATTER_SHARE = 0.5


def ratio_program(
    ratio: WorstCaseRatio,
    means: FloatArray,
    pair_index: np.ndarray,
    weights: tuple[FloatArray, FloatArray, float] | None = None,
) -> tuple[ActiveRows | None, ConicProgram]:
    """Return ``max t`` subject to ``<S_ij, Y> >= t``, ``<S_k, Y> <= s`` and ``Y`` in tau times the box.

    This is the Charnes-Cooper transformation ``Y = tau·Z``; its optimal value is ``s·delta*`` with a power of
    two ``s``. ``weights`` are initial weights of pairs and classes with an estimate of the ratio they
    exclude, balanced weights by default. Also returns the active rows, or None if all rows are active.
    """
    box, pairs, scatters = ratio.box, ratio.pairs, ratio.scatters
    u, w, near = balanced_weights(ratio) if weights is None else weights
    delta, matrix = ratio.price(u, w, near, START_ACCURACY)
    apart, wide = pairs.apply(matrix), scatters.apply(matrix)
    least, most = float(np.min(apart)), float(np.max(wide))
    limit = float(2.0 ** np.round(np.log2(most))) if most > 0.0 else 1.0
    active = None
    chosen = [np.arange(pairs.m), np.arange(scatters.m)]
    if pairs.m <= MAX_PAIRS_ALL_ACTIVE:
        program = _build_program(box, Stacked([pairs, scatters]), pairs.m, scatters.m, limit)
    else:

        def build(rows: Sequence[np.ndarray]) -> ConicProgram:
            i, j = pair_index[rows[0]].T
            count = rows[0].size
            # Differences of means are rounded here; proofs use the means themselves.
            some = LowRank.from_stacked(means[i] - means[j], np.ones(count), np.arange(count), count)
            classes = scatters.select(rows[1])
            return _build_program(box, Stacked([some, classes]), count, classes.m, limit)

        def pair_slack(point: Point) -> FloatArray:
            level = max(float(point[1][0]), 1e-300)
            return np.asarray(pairs.apply(point[0]) / level - 1.0)

        def class_slack(point: Point) -> FloatArray:
            return np.asarray(1.0 - scatters.apply(point[0]) / limit)

        limits = MIN_PAIRS_PER_DIMENSION * box.n, MAX_PAIRS_PER_DIMENSION * box.n
        count = int(np.clip(np.count_nonzero(apart < INITIAL_DISTANCE_RATIO * least), *limits))
        closest = np.sort(np.argpartition(apart, min(count, pairs.m - 1))[:count])
        chosen = [closest, np.flatnonzero(wide >= INITIAL_SCATTER_SHARE * most)]
        parts = [RowGroup(pair_slack, chosen[0], pairs.m), RowGroup(class_slack, chosen[1], scatters.m)]
        active = ActiveRows(parts, build)
        program = active.program
    if not (math.isfinite(delta) and least > 0.0 and most > 0.0):
        return active, program
    tau = limit / most
    point = tau * matrix, np.array([0.9 * tau * least]), np.array([tau])
    u, w = u[chosen[0]], w[chosen[1]]
    if not (u.sum() > 0.0 and w.sum() > 0.0):
        return active, program
    start = point, np.concatenate([u / u.sum(), -delta * w / w.sum()])
    return active, replace(program, start=start)


def _build_program(box: SpectralBox, rows: Rows, pairs: int, groups: int, limit: float) -> ConicProgram:
    """Build the transformed program from the rows of some pairs followed by those of some classes."""
    level = column(0, pairs, pairs + groups, -1.0)
    problem = FeasibilityProblem(
        [box, Nonneg(1), Nonneg(1)],
        [rows, level, None],
        np.concatenate([np.zeros(pairs), np.full(groups, -np.inf)]),
        np.concatenate([np.full(pairs, np.inf), np.full(groups, limit)]),
        block_names=["Z", "t", "tau"],
    )
    return ConicProgram(problem, (np.zeros(box.shape), np.ones(1), np.zeros(1)), scale=2)


# --- Restriction to subspaces

#: Regularisation of the mean within-class scatter before its factorisation, relative to its mean eigenvalue.
REGULARISATION = 1e-8

#: Tolerance of Davidson's method: share of the sum of the leading eigenvalues, or of the ratio times scatter.
EIGENVALUE_SHARE, RATIO_SHARE = 0.1, 1e-8


class RatioRestriction(SubspaceRestriction):
    """Restriction of the worst-case ratio to subspaces.

    ``pair_index`` holds the two classes of every pair. ``complete`` maps a matrix to a point of the family,
    ``join`` maps weights of pairs and classes to multipliers.
    """

    def __init__(
        self,
        ratio: WorstCaseRatio,
        means: FloatArray,
        pair_index: np.ndarray,
        complete: Callable[[FloatArray], Point],
        join: Callable[[FloatArray, FloatArray], FloatArray],
    ) -> None:
        super().__init__(ratio.box)
        self._complete, self._join = complete, join
        self._pairs, self._scatters = ratio.pairs, ratio.scatters
        self._means, self._pair_index = means, pair_index
        self._active: ActiveRows | None = None
        self._small = ratio
        #: The last weights and their ratio, as a warm start.
        self._last: tuple[FloatArray, FloatArray, float] | None = None

    @cached_property
    def _centred(self) -> FloatArray:
        return np.asarray(self._means - self._means.mean(axis=0))

    def initial_basis(self) -> FloatArray:
        """Return the span of the class means and of the directions of classical LDA."""
        columns = [scipy.linalg.cho_solve(self._factor, self._centred.T), self._centred.T]
        if self.r >= self._centred.shape[0]:
            within = self._scatters.adjoint(self._equal)
            columns.append(
                leading_pairs(-within, self.r + GUARD_DIRECTIONS)[1]
            )  # the means span too few directions
        return orthonormalise(np.hstack(columns))

    @property
    def _equal(self) -> FloatArray:
        return np.full(self._scatters.m, 1.0 / self._scatters.m)

    @cached_property
    def _factor(self) -> tuple[FloatArray, bool]:
        """Cholesky factor of the mean within-class scatter, slightly regularised."""
        within = self._scatters.adjoint(self._equal)
        within[np.diag_indices(self._box.n)] += REGULARISATION * float(np.trace(within)) / self._box.n
        factor, lower = scipy.linalg.cho_factor(within.T, lower=True, overwrite_a=True, check_finite=False)
        return factor, bool(lower)

    def program(self, basis: FloatArray) -> ConicProgram:
        """Return the transformed program on the span of orthonormal columns."""
        self._small = self._restrict(basis)
        self._active, program = ratio_program(self._small, self._means @ basis, self._pair_index, self._last)
        return program

    def problem_at(self, basis: FloatArray, delta: float) -> FeasibilityProblem:
        """Return ``<S_ij, Z> >= delta·t`` and ``<S_k, Z> <= t`` on the span of orthonormal columns."""
        self._small, self._active = self._restrict(basis), None
        pairs, scatters = self._small.pairs, self._small.scatters
        far, none = np.full(pairs.m, np.inf), np.zeros(scatters.m)
        return FeasibilityProblem(
            [self._small.box, Nonneg(1)],
            [Stacked([pairs, scatters]), np.concatenate([np.full(pairs.m, -delta), none - 1.0])[:, None]],
            np.concatenate([np.zeros(pairs.m), none - np.inf]),
            np.concatenate([far, none]),
        )

    def _restrict(self, basis: FloatArray) -> WorstCaseRatio:
        """Return the worst-case ratio on the span of orthonormal columns."""
        pairs, scatters = restrict_rows(self._pairs, basis), restrict_rows(self._scatters, basis)
        return WorstCaseRatio(self.small_box(basis.shape[1]), pairs, scatters)

    def matrix(self, point: Point) -> FloatArray:
        """Divide by tau, if present, and project onto the small Fantope."""
        tau = float(point[2][0]) if len(point) > 2 else 1.0
        return super().matrix((point[0] / tau if tau > 0.0 else point[0],))

    def point(self, basis: FloatArray, matrix: FloatArray) -> Point:
        """Map a matrix on the subspace to the full space, ``V Z V'``, and complete it to a point."""
        return self._complete(lift_to_interior(basis, matrix, self._box.rank))

    def _weights(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights of pairs and classes in multipliers of the last program."""
        y = y if self._active is None else self._active.extend_multipliers(y)
        return np.maximum(y[: self._pairs.m], 0.0), np.maximum(-y[self._pairs.m :], 0.0)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers of the last program to multipliers of the family."""
        return self._join(*self._weights(y))

    def expansion(
        self, y: FloatArray, basis: FloatArray, matrix: FloatArray
    ) -> tuple[float, float, FloatArray]:
        """Return the ratio, an estimate of the upper bound, and the leading eigenvectors at that ratio."""
        u, w = self._weights(y)
        u, w = u / u.sum(), w / w.sum()
        attained = self._small.value(matrix)
        self._last = u, w, attained
        within, apart = self._scattered(w), self._apart(u)
        level = float(np.vdot(within(basis), basis @ matrix))

        def enough(lam: FloatArray) -> float:
            return max(EIGENVALUE_SHARE * float(np.sum(lam[-self.r :])), RATIO_SHARE * attained * level)

        lam, vec, short = np.zeros(0), basis, np.inf
        if attained > 0.0 and basis.shape[1] >= self.r + GUARD_DIRECTIONS:
            lam, vec, short = davidson_pairs(
                lambda v: apart(v) - attained * within(v),
                lambda v: np.asarray(scipy.linalg.cho_solve(self._factor, v)) / attained,
                basis,
                self.r + GUARD_DIRECTIONS,
                enough,
            )
        if not short <= enough(lam):
            lam, vec = leading_pairs(
                self._pairs.adjoint(u) - attained * self._scatters.adjoint(w), self.r + GUARD_DIRECTIONS
            )
            short = 0.0
        best = vec[:, -self.r :]
        slope = float(np.vdot(best, within(best)))
        # One step of Newton's method from the left, extended by the error of the eigenvalues.
        above = max(float(np.sum(lam[-self.r :])), 0.0) + short
        return attained, attained + above / slope if slope > 0.0 else np.inf, vec

    def _scattered(self, w: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the operator ``v -> sum_k w_k S_k v``, applied through low-rank factors where they exist."""
        rows = self._scatters
        if isinstance(rows, LowRank):
            weights = (rows.signs * w[rows.owner])[:, None]
            return lambda v: np.asarray(rows.factors.T @ (weights * (rows.factors @ v)))
        within = rows.adjoint(w)
        return lambda v: np.asarray(within @ v)

    def _apart(self, u: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the operator ``v -> sum_ij u_ij S_ij v``."""
        i, j = self._pair_index[u > 0.0].T
        apart, weights = self._means[i] - self._means[j], u[u > 0.0, None]
        return lambda v: np.asarray(apart.T @ (weights * (apart @ v)))
