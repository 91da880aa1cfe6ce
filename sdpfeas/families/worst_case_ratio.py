"""Ratios of scatters: what weights rule out, which points they suggest, and where to begin.

Nothing here is proved. Weights are of the pairs of classes and of the classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import scipy.linalg

from sdpfeas.families.active_rows import ActiveRows, Part
from sdpfeas.families.fantope import REFINE_ROUNDS, Oracle, refine, unit_weights
from sdpfeas.families.parametric_family import column
from sdpfeas.families.subspace_restriction import SPARE, SubspaceRestriction, davidson_pairs, lifted, spanned
from sdpfeas.families.threshold_bounds import EXACT, NO_ROOT, Root, certificate_root
from sdpfeas.numerics.linalg import PARTIAL_SIZE, FloatArray, eigh, leading_pairs, spectral_matrix, symmetrize
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Dense, LowRank, PairwiseDifference, Rows, Stacked
from sdpfeas.problem.sets import Nonneg, SpectralBox

# ------------------------------------------------------------
# Weights to begin with: of the pairs and classes that limit the ratio more than of the others.

#: Rounds. Every one costs a partial eigendecomposition; together they spare an interior-point method three to
#: five steps of a dozen eigendecompositions each. Where it takes a full one, fewer do.
ROUNDS, FEW_ROUNDS = 20, 10

#: Weights are multiplied by a power of how far a row is from limiting the ratio: bold at first, with more
#: care in every round, since what is bold all the time swings, ...
POWER, CALMER = 1.3, 0.93
#: ... and no row is taken to be further than this.
FURTHEST = 1e-3


def balanced_weights(box: SpectralBox, pairs: Rows, scatters: Rows) -> tuple[FloatArray, FloatArray, float]:
    """Weights of the pairs and of the classes, by multiplicative updates from equal ones.

    Every round takes the matrix that is best for the present weights and gives more weight to pairs that are
    close on it and to classes that are wide on it. Nothing is proved, nor has to be.

    ``pairs, scatters``: one row a pair of classes, and one a class.

    Returns: about the smallest ratio that they rule out.
    """
    u, w = np.full(pairs.m, 1.0 / pairs.m), np.full(scatters.m, 1.0 / scatters.m)
    # The best matrix for no ratio at all would say little; all directions alike say about how large one is.
    z = np.eye(box.n)
    delta = _ratio(u, pairs.apply(z), w, scatters.apply(z))
    top = box.maximiser_spectrum(np.arange(1.0, box.n + 1.0))
    count = int(np.count_nonzero(top))
    for k in range(FEW_ROUNDS if box.n < PARTIAL_SIZE else ROUNDS):
        _, vec = leading_pairs(pairs.adjoint(u) - delta * scatters.adjoint(w), count)
        z = (vec * top[-count:]) @ vec.T
        means, spreads = pairs.apply(z), scatters.apply(z)
        if not (np.max(means) > 0.0 and np.max(spreads) > 0.0):
            break
        delta, power = _ratio(u, means, w, spreads), POWER * CALMER**k
        u = u / np.maximum(means / np.max(means), FURTHEST) ** power
        w = w * np.maximum(spreads / np.max(spreads), FURTHEST) ** power
        u, w = u / u.sum(), w / w.sum()
    return u, w, delta


def _ratio(u: FloatArray, means: FloatArray, w: FloatArray, spreads: FloatArray) -> float:
    spread = float(w @ spreads)
    ratio = float(u @ means) / spread if spread > 0.0 else 0.0
    return ratio if math.isfinite(ratio) else 0.0


Weights = tuple[FloatArray, FloatArray]

#: Accuracy of a ratio in column generation, as a share of the tolerance.
PRICED = 1e-3

#: Up to this side the last two matrices are kept, since they are often asked for again.
KEPT = 2000


@dataclass(frozen=True)
class _Last:
    """A root that was asked for: of which weights, how accurate, and what was found."""

    unit: Weights
    accuracy: float
    found: tuple[Root, FloatArray, FloatArray]


class Pricing:
    """The ratio ``min <S_ij, Z> / max <S_k, Z>`` over a spectral box.

    ``pairs, scatters``: one row a pair of classes, and one a class.
    """

    def __init__(self, box: SpectralBox, pairs: Rows, scatters: Rows) -> None:
        self._box = box
        self._pairs = pairs
        self._scatters = scatters
        self._last: _Last | None = None

    def ratio(self, z: FloatArray) -> float:
        """Return the ratio a matrix attains."""
        least = float(np.min(self._pairs.apply(z)))
        most = float(np.max(self._scatters.apply(z)))
        if most <= 0.0:
            return math.inf if least > 0.0 else 0.0
        return max(least, 0.0) / most

    def root(self, weights: Weights, near: float = 0.0, accuracy: float = EXACT) -> Root:
        """Return the smallest ratio that weights rule out: root of ``sigma(sum u S_ij - delta·sum w S_k)``.

        ``weights``: non-negative weights of the pairs and of the classes. ``accuracy``: relative error of
        the ratio that is good enough.
        """
        unit = unit_weights(*weights)
        return NO_ROOT if unit is None else self._root(unit, near, accuracy)[0]

    def _root(self, unit: Weights, near: float, accuracy: float) -> tuple[Root, FloatArray, FloatArray]:
        """Root of unit weights, and the two matrices they add up to; the last one asked for is kept."""
        known = self._last
        if known is not None and known.accuracy <= accuracy and all(map(np.array_equal, known.unit, unit)):
            return known.found
        fixed, slope = self._pairs.adjoint(unit[0]), self._scatters.adjoint(unit[1])
        root = certificate_root((self._box,), (fixed,), (slope,), 0.0, 0.0, near, accuracy=accuracy)
        if self._box.n <= KEPT:
            self._last = _Last(unit, accuracy, (root, fixed, slope))
        return root, fixed, slope

    def price(
        self, u: FloatArray, w: FloatArray, near: float, accuracy: float = EXACT
    ) -> tuple[float, FloatArray]:
        """Return the smallest ratio that weights of sum one rule out, and the matrix that comes closest.

        ``u, w``: weights of the pairs and of the classes. ``accuracy``: relative error of the ratio that is
        good enough.
        """
        root, fixed, slope = self._root((u, w), max(near, 0.0), accuracy)
        delta = root.delta if math.isfinite(root.delta) else near
        best = self._box.maximiser(fixed - delta * slope)
        return root.delta, self._box.compose(best.frame, best.weights)

    def suggested(self, weights: Weights, near: float = 0.0) -> FloatArray | None:
        """Return the matrix on which weights come closest to being attained, if they rule out any ratio.

        ``weights``: weights of the pairs and of the classes.
        """
        unit = unit_weights(*weights)
        if unit is None:
            return None
        delta, matrix = self.price(*unit, near)
        return matrix if math.isfinite(delta) else None

    def refined(
        self, matrices: Sequence[FloatArray], weights: Sequence[Weights], tol: float
    ) -> tuple[FloatArray, Weights] | None:
        """Return a better matrix and better weights, by a few rounds of column generation.

        ``tol``: the width of the bracket that is asked for, relative to its upper end.
        """
        price = partial(self.price, accuracy=PRICED * tol)
        oracle = Oracle(self._pairs.apply, self._scatters.apply, price)
        return refine(oracle, matrices, weights, REFINE_ROUNDS, 0.2 * tol)

    def narrowest(self) -> FloatArray:
        """Return the projector on directions of least scatter, all classes together."""
        lam, vec = eigh(np.asarray(self._scatters.adjoint(np.ones(self._scatters.m))))
        return spectral_matrix(vec, self._box.maximiser_spectrum(lam)[::-1])

    def initial_matrices(self) -> list[FloatArray]:
        """Return the middle of the box, and the span of the classical discriminant directions."""
        out = [np.asarray(self._box.interior_point())]
        try:
            within = self._scatters.adjoint(np.ones(self._scatters.m))
            between = self._pairs.adjoint(np.ones(self._pairs.m))
            floor = 1e-12 * float(np.trace(within + between)) / within.shape[0]
            _, vec = scipy.linalg.eigh(between, within + floor * np.eye(within.shape[0]))
            q, _ = np.linalg.qr(vec[:, -round(self._box.rank) :])
            out.append(q @ q.T)
        except np.linalg.LinAlgError:
            pass
        return out

    def initial_weights(self) -> list[Weights]:
        """Balanced weights, equal ones, and all weight on what limits the middle of the box."""
        pairs, groups = self._pairs.m, self._scatters.m
        middle = self._box.interior_point()
        worst_pair = (np.arange(pairs) == int(np.argmin(self._pairs.apply(middle)))).astype(np.float64)
        worst_group = (np.arange(groups) == int(np.argmax(self._scatters.apply(middle)))).astype(np.float64)
        equal = np.full(pairs, 1.0 / pairs), np.full(groups, 1.0 / groups)
        balanced = balanced_weights(self._box, self._pairs, self._scatters)[:2]
        return [balanced, equal, (worst_pair, worst_group)]


# ------------------------------------------------------------
# The one program of worst-case discriminant analysis, over all pairs and classes or those that matter.

#: Relative error of the ratio that a start is made for.
START_ACCURACY = 1e-2

#: Up to so many pairs all are worked on at once; their structure makes up for their number.
FEW_PAIRS = 800

#: Pairs to begin with: those closer than so many times the closest, but at least and at most so many times
#: the dimension; and classes within this share of the widest.
CLOSE, LEAST, MOST = 2.0, 4, 8
WIDE = 0.5


def one_program(
    box: SpectralBox,
    pairs: Rows,
    scatters: Rows,
    pricing: Pricing,
    means: FloatArray,
    pair_index: np.ndarray,
    weights: tuple[FloatArray, FloatArray, float] | None = None,
) -> tuple[ActiveRows | None, ConicProgram]:
    """Pose ``max t`` subject to ``<S_ij, Z'> >= t``, ``<S_k, Z'> <= s`` and ``Z'`` in tau times the box.

    ``pairs, scatters``: one row a pair of classes, and one a class. ``pair_index``: the two classes of
    every pair. ``weights``: weights of the pairs and of the classes to start from, and a ratio near what
    they rule out; default: balanced ones.

    Returns: the rows that are worked on; None if all are.
    """
    u, w, near = balanced_weights(box, pairs, scatters) if weights is None else weights
    delta, matrix = pricing.price(u, w, near, START_ACCURACY)
    apart, wide = pairs.apply(matrix), scatters.apply(matrix)
    least, most = float(np.min(apart)), float(np.max(wide))
    limit = float(2.0 ** np.round(np.log2(most))) if most > 0.0 else 1.0
    working = None
    chosen = [np.arange(pairs.m), np.arange(scatters.m)]
    if pairs.m <= FEW_PAIRS:
        program = _posed(box, Stacked([pairs, scatters]), pairs.m, scatters.m, limit)
    else:

        def pose(rows: Sequence[np.ndarray]) -> ConicProgram:
            i, j = pair_index[rows[0]].T
            count = rows[0].size
            # Rounded differences: what is computed from them is proved about the means themselves.
            some = LowRank.from_stacked(means[i] - means[j], np.ones(count), np.arange(count), count)
            classes = scatters.select(rows[1])
            return _posed(box, Stacked([some, classes]), count, classes.m, limit)

        def room(point: Point) -> FloatArray:
            level = max(float(point[1][0]), 1e-300)
            return np.asarray(pairs.apply(point[0]) / level - 1.0)

        def spare(point: Point) -> FloatArray:
            return np.asarray(1.0 - scatters.apply(point[0]) / limit)

        count = int(np.clip(np.count_nonzero(apart < CLOSE * least), LEAST * box.n, MOST * box.n))
        closest = np.sort(np.argpartition(apart, min(count, pairs.m - 1))[:count])
        chosen = [closest, np.flatnonzero(wide >= WIDE * most)]
        parts = [Part(room, chosen[0], pairs.m), Part(spare, chosen[1], scatters.m)]
        working = ActiveRows(parts, pose)
        program = working.program
    if not (math.isfinite(delta) and least > 0.0 and most > 0.0):
        return working, program
    tau = limit / most
    point = tau * matrix, np.array([0.9 * tau * least]), np.array([tau])
    u, w = u[chosen[0]], w[chosen[1]]
    if not (u.sum() > 0.0 and w.sum() > 0.0):
        return working, program
    start = point, np.concatenate([u / u.sum(), -delta * w / w.sum()])
    return working, replace(program, start=start)


def _posed(box: SpectralBox, rows: Rows, pairs: int, groups: int, limit: float) -> ConicProgram:
    level = column(0, pairs, pairs + groups, -1.0)
    problem = FeasibilityProblem(
        [box, Nonneg(1), Nonneg(1)],
        [rows, level, None],
        np.concatenate([np.zeros(pairs), np.full(groups, -np.inf)]),
        np.concatenate([np.full(pairs, np.inf), np.full(groups, limit)]),
        block_names=["Z", "t", "tau"],
    )
    return ConicProgram(problem, (np.zeros(box.shape), np.ones(1), np.zeros(1)), scale=2)


# ------------------------------------------------------------
# Worst-case discriminant analysis in many dimensions, subspace by subspace.

#: The scatter of all classes is shifted by this share of its mean eigenvalue before it is inverted.
SHIFT = 1e-8

#: Leading eigenvalues may be short of this share of their sum, or of this share of the ratio, in its terms.
SHORT, SHORTEST = 0.1, 1e-8


class RatioRestriction(SubspaceRestriction):
    """The ratio ``min <S_ij, Z> / max <S_k, Z>`` on subspaces.

    ``pairs, scatters``: one row a pair of classes, and one a class. ``pair_index``: the two classes of
    every pair. ``complete, join``: make a point of the family of a matrix, and multipliers of weights of
    the pairs and of the classes.
    """

    def __init__(
        self,
        box: SpectralBox,
        pairs: Rows,
        scatters: Rows,
        means: FloatArray,
        pair_index: np.ndarray,
        complete: Callable[[FloatArray], Point],
        join: Callable[[FloatArray, FloatArray], FloatArray],
    ) -> None:
        self._complete, self._join = complete, join
        self._box, self._pairs, self._scatters = box, pairs, scatters
        self._means, self._pair_index = means, pair_index
        self.r = round(box.rank)
        self._working: ActiveRows | None = None
        self._small: Pricing | None = None
        #: The last weights, and the ratio they came with.
        self._last: tuple[FloatArray, FloatArray, float] | None = None

    @cached_property
    def _centred(self) -> FloatArray:
        return np.asarray(self._means - self._means.mean(axis=0))

    def first(self) -> FloatArray:
        """Return what the class means span, as they are and as the classical analysis turns them."""
        columns = [scipy.linalg.cho_solve(self._factor, self._centred.T), self._centred.T]
        if self.r >= self._centred.shape[0]:
            within = self._scatters.adjoint(self._equal)
            columns.append(leading_pairs(-within, self.r + SPARE)[1])  # means alone span too little
        return spanned(np.hstack(columns))

    @property
    def _equal(self) -> FloatArray:
        return np.full(self._scatters.m, 1.0 / self._scatters.m)

    @cached_property
    def _factor(self) -> tuple[FloatArray, bool]:
        """Cholesky factor of the scatter of all classes, shifted a little."""
        within = self._scatters.adjoint(self._equal)
        within[np.diag_indices(self._box.n)] += SHIFT * float(np.trace(within)) / self._box.n
        factor, lower = scipy.linalg.cho_factor(within.T, lower=True, overwrite_a=True, check_finite=False)
        return factor, bool(lower)

    def program(self, basis: FloatArray) -> ConicProgram:
        """Return the one program on the span of orthonormal columns."""
        means = self._means @ basis
        box, pairs, scatters = self._posed(basis, means)
        assert self._small is not None
        self._working, program = one_program(
            box, pairs, scatters, self._small, means, self._pair_index, self._last
        )
        return program

    def question(self, basis: FloatArray, delta: float) -> FeasibilityProblem:
        """``<S_ij, Z> >= delta·t`` and ``<S_k, Z> <= t`` on the span of orthonormal columns."""
        box, pairs, scatters = self._posed(basis, self._means @ basis)
        self._working = None
        far, none = np.full(pairs.m, np.inf), np.zeros(scatters.m)
        return FeasibilityProblem(
            [box, Nonneg(1)],
            [Stacked([pairs, scatters]), np.concatenate([np.full(pairs.m, -delta), none - 1.0])[:, None]],
            np.concatenate([np.zeros(pairs.m), none - np.inf]),
            np.concatenate([far, none]),
        )

    def _posed(self, basis: FloatArray, means: FloatArray) -> tuple[SpectralBox, Rows, Rows]:
        """The box and the rows on the span of orthonormal columns, with the means there."""
        box = SpectralBox(basis.shape[1], trace=self._box.trace)
        groups = [np.unique(part) for part in self._pair_parts]
        parts = [PairwiseDifference(means[group]) for group in groups]
        pairs: Rows = parts[0] if len(parts) == 1 else Stacked(parts)
        scatters = self._restricted(basis)
        self._small = Pricing(box, pairs, scatters)
        return box, pairs, scatters

    @cached_property
    def _pair_parts(self) -> list[np.ndarray]:
        """Pairs group by group, as the rows are."""
        parts = self._pairs.parts if isinstance(self._pairs, Stacked) else (self._pairs,)
        return np.split(self._pair_index, np.cumsum([part.m for part in parts])[:-1])

    def _restricted(self, basis: FloatArray) -> Rows:
        rows = self._scatters
        if isinstance(rows, LowRank):
            factors = rows.factors @ basis
            if factors.shape[0] < rows.m * basis.shape[1]:
                return LowRank.from_stacked(factors, rows.signs, rows.owner, rows.m)
            out = np.zeros((rows.m, basis.shape[1], basis.shape[1]))
            for k in range(rows.m):
                own = rows.owner == k
                out[k] = factors[own].T @ (factors[own] * rows.signs[own, None])
            return Dense(symmetrize(out))
        assert isinstance(rows, Dense)
        return Dense(symmetrize(basis.T @ rows.array @ basis))

    def matrix(self, point: Point) -> FloatArray:
        """Divide by tau, if any, and meet the trace: what is missing costs more in all dimensions."""
        tau = float(point[2][0]) if len(point) > 2 else 1.0
        box = SpectralBox(point[0].shape[0], trace=self._box.trace)
        return box.project(symmetrize(point[0] / tau if tau > 0.0 else point[0]))

    def point(self, basis: FloatArray, matrix: FloatArray) -> Point:
        """Return the matrix over all coordinates, as a point."""
        return self._complete(lifted(basis, matrix, self._box.rank))

    def _weights(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        y = y if self._working is None else self._working.everywhere(y)
        return np.maximum(y[: self._pairs.m], 0.0), np.maximum(-y[self._pairs.m :], 0.0)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Join the weights of the pairs and of the classes."""
        return self._join(*self._weights(y))

    def ahead(self, y: FloatArray, basis: FloatArray, matrix: FloatArray) -> tuple[float, float, FloatArray]:
        """Find the leading eigenvectors of what the weights add up to at the ratio attained."""
        assert self._small is not None
        u, w = self._weights(y)
        u, w = u / u.sum(), w / w.sum()
        attained = self._small.ratio(matrix)
        self._last = u, w, attained
        within, apart = self._scattered(w), self._apart(u)
        level = float(np.vdot(within(basis), basis @ matrix))

        def enough(lam: FloatArray) -> float:
            return max(SHORT * float(np.sum(lam[-self.r :])), SHORTEST * attained * level)

        lam, vec, short = np.zeros(0), basis, np.inf
        if attained > 0.0 and basis.shape[1] >= self.r + SPARE:
            lam, vec, short = davidson_pairs(
                lambda v: apart(v) - attained * within(v),
                lambda v: np.asarray(scipy.linalg.cho_solve(self._factor, v)) / attained,
                basis,
                self.r + SPARE,
                enough,
            )
        if not short <= enough(lam):
            lam, vec = leading_pairs(
                self._pairs.adjoint(u) - attained * self._scatters.adjoint(w), self.r + SPARE
            )
            short = 0.0
        best = vec[:, -self.r :]
        slope = float(np.vdot(best, within(best)))
        # A step of Newton's method from the left: short of the root by less than its length.
        above = max(float(np.sum(lam[-self.r :])), 0.0) + short
        return attained, attained + above / slope if slope > 0.0 else np.inf, vec

    def _scattered(self, w: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Multiplication with ``sum_k w_k S_k``, which is not formed where factors do."""
        rows = self._scatters
        if isinstance(rows, LowRank):
            weights = (rows.signs * w[rows.owner])[:, None]
            return lambda v: np.asarray(rows.factors.T @ (weights * (rows.factors @ v)))
        within = rows.adjoint(w)
        return lambda v: np.asarray(within @ v)

    def _apart(self, u: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Multiplication with ``sum_ij u_ij S_ij``."""
        i, j = self._pair_index[u > 0.0].T
        apart, weights = self._means[i] - self._means[j], u[u > 0.0, None]
        return lambda v: np.asarray(apart.T @ (weights * (apart @ v)))
