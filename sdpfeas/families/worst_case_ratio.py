"""The worst-case ratio ``min_ij <S_ij, Z> / max_k <S_k, Z>`` over the Fantope, as a family.

``S_ij = (m_i - m_j)(m_i - m_j)'`` is the between-class scatter of a pair of classes and ``S_k`` the
within-class scatter of a class. Weights ``u`` of the pairs and ``w`` of the classes exclude every ratio above
the root in ``delta`` of ``sigma(sum_ij u_ij S_ij - delta·sum_k w_k S_k)``, with ``sigma`` the support
function of the Fantope (a Ky Fan norm for positive semidefinite matrices). At a fixed ratio ``delta`` there
are two formulations as a feasibility problem:

* ``compact``: ``<S_ij, Z> >= delta·t`` and ``<S_k, Z> <= t`` with a scalar ``t >= 0``. Only the coefficient
  of ``t`` depends on ``delta``, so that problems at all ratios share their matrices.
* ``paper``: ``<S_ij - delta·S_k, Z> >= 0`` for every pair and class.

:class:`WorstCaseRatio` is the entry point; :class:`sdpfeas.families.WLDA` makes it of data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.families.active_rows import ActiveRows, RowGroup
from sdpfeas.families.fantope import REFINE_ROUNDS, generate_columns, unit_weights
from sdpfeas.families.parametric_family import column
from sdpfeas.families.subspace_restriction import (
    GUARD_DIRECTIONS,
    FantopeFamily,
    SubspaceRestriction,
    davidson_pairs,
    restrict_rows,
)
from sdpfeas.families.threshold_bounds import EXACT, NO_ROOT, Root, certificate_root
from sdpfeas.numerics.linalg import PARTIAL_SIZE, FloatArray, eigh, leading_pairs, spectral_matrix
from sdpfeas.numerics.rounding import UNIT
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Combined, LowRank, PairwiseDifference, Rows, Stacked
from sdpfeas.problem.rows.pairwise import pair_indices
from sdpfeas.problem.sets import Nonneg, SpectralBox
from sdpfeas.verifier.outcome import Tolerances

Formulation = Literal["compact", "paper"]
Weights = tuple[FloatArray, FloatArray]

#: Accuracy of a root in column generation, as a share of the tolerance.
PRICING_ACCURACY_SHARE = 1e-3

#: Dimension up to which the last root is cached with its two weighted sums; a larger one costs memory.
MAX_CACHED_DIMENSION = 2000

#: Regularisation of the mean within-class scatter before its factorisation, relative to its mean eigenvalue.
REGULARISATION = 1e-8

#: Tolerance of Davidson's method: share of the sum of the leading eigenvalues, or of the ratio times scatter.
EIGENVALUE_SHARE, RATIO_SHARE = 0.1, 1e-8


class WorstCaseRatio(FantopeFamily):
    """Worst-case ratio over a Fantope, indexed by the ratio.

    ``means`` holds one class mean per row and ``scatters`` one row per class. Only classes within the same
    group of ``groups``, arrays of class indices, are compared.
    """

    def __init__(
        self,
        box: SpectralBox,
        means: FloatArray,
        scatters: Rows,
        groups: Sequence[np.ndarray],
        formulation: Formulation = "compact",
        labels: Any = None,
    ) -> None:
        if formulation not in ("compact", "paper"):
            raise ProblemError(f"formulation must be 'compact' or 'paper', got {formulation!r}")
        self.formulation: Formulation = formulation
        self._box, self._means, self._scatters, self._groups = box, means, scatters, groups
        self._pairs = pair_rows(means, groups)
        self._pair_index = np.concatenate([pairs_of(group) for group in groups])
        self._active: ActiveRows | None = None
        #: Cache of the last root: its weights, accuracy, and the weighted sums of the rows.
        self._last_root: tuple[Weights, float, tuple[Root, FloatArray, FloatArray]] | None = None
        #: Cache of the last matrix and the bounds of its terms.
        self._last_enclosure: tuple[FloatArray, tuple[float, float]] | None = None
        #: Initial weights of the program with an estimate of their ratio; balanced weights by default.
        self._start_weights: tuple[FloatArray, FloatArray, float] | None = None
        pairs, base, named = self._pairs.m, self._base, labels is not None
        pair_names = [f"means {labels[i]},{labels[j]}" for i, j in self._pair_index] if named else []
        class_names = [f"scatter {label}" for label in labels] if named else []
        if formulation == "compact":
            m, sets, block_names = base.m, [box, Nonneg(1)], ["Z", "t"]
            minus = scatters.scaled(-np.ones(scatters.m))
            rows: list[Any] = [Stacked([self._pairs, minus]), column(pairs, m, m)]
            slopes: list[Any] = [None, column(0, pairs, m)]
            names = pair_names + class_names
        else:
            m, sets, block_names = pairs * scatters.m, [box], ["Z"]
            rows, slopes = [paper_rows(base, pairs, 1.0, 0.0)], [paper_rows(base, pairs, 0.0, 1.0)]
            names = [f"{p} / {g}" for p in pair_names for g in class_names]
        super().__init__(
            sets,
            rows,
            slopes,
            np.zeros(m),
            np.full(m, np.inf),
            monotone="a point that attains a ratio attains every smaller one",
            bracket=(0.0, math.inf),
            row_names=distinct_names(names) if named else None,
            block_names=block_names,
        )

    # --- problems

    def _combined(self, b: int, delta: float) -> Rows:
        if self.formulation == "compact":
            return super()._combined(b, delta)
        return paper_rows(self._base, self._pairs.m, 1.0, -delta)

    @cached_property
    def _base(self) -> Rows:
        return Stacked([self._pairs, self._scatters])

    def point(self, z: ArrayLike) -> Point:
        """Complete a matrix Z, in the coordinates of the family, to a point.

        Parameters
        ----------
        z : array_like
            Shape (coordinates, coordinates).
        """
        matrix = np.asarray(z, dtype=np.float64)
        if self.formulation == "paper":
            return (matrix,)
        return matrix, np.array([max(float(np.max(self._scatters.apply(matrix))), 0.0)])

    def _complete(self, z: FloatArray) -> Point:
        return self.point(z)

    # --- points

    def ratio(self, point: Point) -> float:
        """Return the ratio of a point, in floating-point arithmetic."""
        least = float(np.min(self._pairs.apply(point[0])))
        most = float(np.max(self._scatters.apply(point[0])))
        if most <= 0.0:
            return math.inf if least > 0.0 else 0.0
        return max(least, 0.0) / most

    def project_point(self, point: Point) -> Point:
        """Project Z onto the box; t is chosen for every ratio by :meth:`point_at`."""
        z, box = point[0], self._box
        traced = abs(float(np.trace(z)) - box.rank) <= 1e-13 * box.n
        inside = traced and box.proves_inside(z, graded=False)
        if not inside and box.distance(z) > 1e-13 * box.n:
            z = box.project(z)
        return self.point(z)

    def estimate_delta(self, point: Point) -> float:
        """Return the ratio of a point, up to rounding."""
        return self.ratio(point)

    def largest_delta(self, point: Point) -> float:
        """Return a proven lower bound of the ratio of a point, up to the rounding of one division."""
        least, most = self._enclosed_terms(point[0])
        if math.isnan(least):
            return -math.inf
        if least <= 0.0:
            return 0.0
        return least / most if most > 0.0 else math.inf

    def point_at(self, point: Point, delta: float) -> Point:
        """Choose t midway between the proven bounds of the scatters and of the distances."""
        if self.formulation == "paper":
            return point
        least, most = self._enclosed_terms(point[0])
        most = max(most, 0.0)
        if delta <= 0.0:
            return point[0], np.array([2.0 * most])
        return point[0], np.array([0.5 * most + 0.5 * max(least / delta, 0.0)])

    def _enclosed_terms(self, z: FloatArray) -> tuple[float, float]:
        """Return a lower bound of ``min <S_ij, Z>`` and an upper bound of ``max <S_k, Z>``.

        They are proved for a member of the box near ``z``, and are NaN if there is none.
        """
        if self._last_enclosure is not None and self._last_enclosure[0] is z:
            return self._last_enclosure[1]
        eta = self._box.snapped_distance(z, Tolerances().snap)
        bounds = math.nan, math.nan
        if math.isfinite(eta):
            value, radius = self._pairs.enclose_apply(z)
            radius = 1.01 * (radius + self._pairs.norms_upper * eta)
            least = float(np.min(value - radius - 8.0 * UNIT * np.abs(value)))
            value, radius = self._scatters.enclose_apply(z)
            radius = 1.01 * (radius + self._scatters.norms_upper * eta)
            bounds = least, float(np.max(value + radius + 8.0 * UNIT * np.abs(value)))
        self._last_enclosure = (z, bounds)
        return bounds

    def _narrowest(self) -> FloatArray:
        """Return the projector onto the directions of least total within-class scatter."""
        lam, vec = eigh(np.asarray(self._scatters.adjoint(np.ones(self._scatters.m))))
        return spectral_matrix(vec, self._box.maximiser_spectrum(lam)[::-1])

    def initial_points(self) -> list[Point]:
        """Return the centre of the box and the projector onto the directions of classical LDA."""
        out = [self.point(self._box.interior_point())]
        try:
            within = self._scatters.adjoint(np.ones(self._scatters.m))
            between = self._pairs.adjoint(np.ones(self._pairs.m))
            floor = 1e-12 * float(np.trace(within + between)) / within.shape[0]
            _, vec = scipy.linalg.eigh(between, within + floor * np.eye(within.shape[0]))
            q, _ = np.linalg.qr(vec[:, -round(self._box.rank) :])
            out.append(self.point(q @ q.T))
        except np.linalg.LinAlgError:
            pass
        return out

    # --- multipliers

    def weights(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights of the pairs and of the classes in multipliers of the rows."""
        if self.formulation == "compact":
            return y[: self._pairs.m], y[self._pairs.m :]
        table = y.reshape(self._pairs.m, self._scatters.m)
        return table.sum(axis=1), table.sum(axis=0)

    def multipliers(self, pairs: FloatArray, groups: FloatArray) -> FloatArray:
        """Return multipliers of the rows from weights of the pairs and of the classes."""
        if self.formulation == "compact":
            return np.concatenate([pairs, groups])
        return np.outer(pairs, groups).ravel()

    def root(self, y: FloatArray, near: float | None = None, accuracy: float = EXACT) -> Root:
        """Return the smallest ratio that multipliers exclude, in floating-point arithmetic."""
        start = 0.0 if near is None or not math.isfinite(near) else max(near, 0.0)
        unit = unit_weights(*self.weights(y))
        return NO_ROOT if unit is None else self._root(unit, start, accuracy)[0]

    def _root(self, unit: Weights, near: float, accuracy: float) -> tuple[Root, FloatArray, FloatArray]:
        """Return the ratio that unit weights exclude and their two weighted sums; the last is cached."""
        if self._last_root is not None:
            known, reached, found = self._last_root
            if reached <= accuracy and all(map(np.array_equal, known, unit)):
                return found
        fixed, slope = self._pairs.adjoint(unit[0]), self._scatters.adjoint(unit[1])
        root = certificate_root((self._box,), (fixed,), (slope,), 0.0, 0.0, near, accuracy=accuracy)
        if self._box.n <= MAX_CACHED_DIMENSION:
            self._last_root = unit, accuracy, (root, fixed, slope)
        return root, fixed, slope

    def _price(
        self, u: FloatArray, w: FloatArray, near: float, accuracy: float = EXACT
    ) -> tuple[float, FloatArray]:
        """Return the smallest ratio that unit weights exclude, and the matrix that comes closest to it."""
        root, fixed, slope = self._root((u, w), max(near, 0.0), accuracy)
        delta = root.delta if math.isfinite(root.delta) else near
        best = self._box.maximiser(fixed - delta * slope)
        return root.delta, self._box.compose(best.frame, best.weights)

    def multipliers_at(self, y: FloatArray, delta: float) -> FloatArray:
        """Scale the weights of the classes so that the coefficient of t is not positive."""
        if self.formulation == "paper":
            return y
        pairs, groups = self.weights(y)
        if not float(groups.sum()) > 0.0:
            return y
        # Slightly less than balance, so that rounding cannot make the coefficient of t positive.
        share = 1.0 - 8.0 * (y.size + 8) * UNIT
        return np.concatenate([pairs, groups * (share * delta * float(pairs.sum()) / float(groups.sum()))])

    def initial_multipliers(self) -> list[FloatArray]:
        """Return balanced weights, equal weights, and unit weight on the worst rows at the centre."""
        pairs, groups = self._pairs.m, self._scatters.m
        middle = self._box.interior_point()
        worst_pair = (np.arange(pairs) == int(np.argmin(self._pairs.apply(middle)))).astype(np.float64)
        worst_group = (np.arange(groups) == int(np.argmax(self._scatters.apply(middle)))).astype(np.float64)
        equal = np.full(pairs, 1.0 / pairs), np.full(groups, 1.0 / groups)
        chosen = [balanced_weights(self)[:2], equal, (worst_pair, worst_group)]
        return [self.multipliers(*weights) for weights in chosen]

    # --- better points from multipliers

    def recovered_points(self, y: FloatArray, near: float | None = None) -> list[Point]:
        """Return the projector that comes closest to the ratio that the weights exclude."""
        unit = unit_weights(*self.weights(y))
        if unit is None:
            return []
        delta, matrix = self._price(*unit, 0.0 if near is None else near)
        return [self.point(matrix)] if math.isfinite(delta) else []

    def refine(
        self, points: list[Point], multipliers: list[FloatArray], tol: float
    ) -> tuple[list[Point], list[FloatArray]]:
        """Improve points and multipliers by column generation."""
        found = generate_columns(
            lambda z: (self._pairs.apply(z), self._scatters.apply(z)),
            partial(self._price, accuracy=PRICING_ACCURACY_SHARE * tol),
            [point[0] for point in points],
            [self.weights(y) for y in multipliers],
            REFINE_ROUNDS,
            0.2 * tol,
        )
        return ([], []) if found is None else ([self.point(found[0])], [self.multipliers(*found[1])])

    # --- one program

    def conic_program(self) -> ConicProgram:
        """Return ``max t`` subject to ``<S_ij, Y> >= t``, ``<S_k, Y> <= s`` and ``Y`` in tau times the box.

        This is the Charnes-Cooper transformation ``Y = tau·Z`` of the ratio. The optimal value is
        ``s·delta*`` with a power of two ``s`` such that tau is near one. With very many pairs only the active
        ones are in the program.
        """
        box, pairs, scatters = self._box, self._pairs, self._scatters
        u, w, near = self._start_weights or balanced_weights(self)
        delta, matrix = self._price(u, w, near, START_ACCURACY)
        apart, wide = pairs.apply(matrix), scatters.apply(matrix)
        least, most = float(np.min(apart)), float(np.max(wide))
        limit = float(2.0 ** np.round(np.log2(most))) if most > 0.0 else 1.0
        if pairs.m <= MAX_PAIRS_ALL_ACTIVE:
            self._active = None
            program = _build_program(box, Stacked([pairs, scatters]), pairs.m, scatters.m, limit)
        else:
            self._active = self._active_rows(apart, wide, limit)
            program = self._active.program
            u, w = (part[group.active] for part, group in zip((u, w), self._active.groups, strict=True))
        usable = math.isfinite(delta) and least > 0.0 and most > 0.0 and u.sum() > 0.0 and w.sum() > 0.0
        if not usable:
            return program
        tau = limit / most
        point = tau * matrix, np.array([0.9 * tau * least]), np.array([tau])
        return replace(program, start=(point, np.concatenate([u / u.sum(), -delta * w / w.sum()])))

    def _active_rows(self, apart: FloatArray, wide: FloatArray, limit: float) -> ActiveRows:
        """Return the rows to begin with: close pairs and wide classes at a matrix with these terms."""

        def build(rows: Sequence[np.ndarray]) -> ConicProgram:
            i, j = self._pair_index[rows[0]].T
            count = rows[0].size
            # Differences of means are rounded here; proofs use the means themselves.
            some = LowRank.from_stacked(
                self._means[i] - self._means[j], np.ones(count), np.arange(count), count
            )
            classes = self._scatters.select(rows[1])
            return _build_program(self._box, Stacked([some, classes]), count, classes.m, limit)

        def pair_slack(point: Point) -> FloatArray:
            level = max(float(point[1][0]), 1e-300)
            return np.asarray(self._pairs.apply(point[0]) / level - 1.0)

        def class_slack(point: Point) -> FloatArray:
            return np.asarray(1.0 - self._scatters.apply(point[0]) / limit)

        near = np.count_nonzero(apart < INITIAL_DISTANCE_RATIO * np.min(apart))
        per_dimension = MIN_PAIRS_PER_DIMENSION * self._box.n, MAX_PAIRS_PER_DIMENSION * self._box.n
        count = int(np.clip(near, *per_dimension))
        closest = np.sort(np.argpartition(apart, min(count, apart.size - 1))[:count])
        widest = np.flatnonzero(wide >= INITIAL_SCATTER_SHARE * np.max(wide))
        parts = [RowGroup(pair_slack, closest, apart.size), RowGroup(class_slack, widest, wide.size)]
        return ActiveRows(parts, build)

    def program_point(self, point: Point) -> Point:
        """Divide by tau."""
        tau = float(point[2][0])
        return self.point(point[0] / tau if tau > 0.0 else point[0])

    def program_multipliers(self, y: FloatArray) -> FloatArray:
        """Return the weights of the pairs, and those of the classes with the opposite sign."""
        y = y if self._active is None else self._active.extend_multipliers(y)
        u, w = np.maximum(y[: self._pairs.m], 0.0), np.maximum(-y[self._pairs.m :], 0.0)
        return self.multipliers(u, w)

    # --- subspaces

    def subspace_restriction(self) -> SubspaceRestriction | None:
        """Return the restriction to subspaces if there are many dimensions and few components."""
        return SubspaceRestriction(self) if SubspaceRestriction.pays(self._box) else None

    def _restricted(self, basis: FloatArray) -> WorstCaseRatio:
        """Return the family on the span of orthonormal columns."""
        box = SpectralBox(basis.shape[1], trace=self._box.trace)
        scatters = restrict_rows(self._scatters, basis)
        small = WorstCaseRatio(box, self._means @ basis, scatters, self._groups, self.formulation)
        small._start_weights = self._start_weights
        return small

    def _initial_directions(self) -> FloatArray:
        """Return the class means and the directions of classical LDA."""
        centred = self._means - self._means.mean(axis=0)
        columns = [scipy.linalg.cho_solve(self._factor, centred.T), centred.T]
        if round(self._box.rank) >= centred.shape[0]:  # the means span too few directions
            columns.append(leading_pairs(-self._mean_scatter, round(self._box.rank) + GUARD_DIRECTIONS)[1])
        return np.hstack(columns)

    @property
    def _mean_scatter(self) -> FloatArray:
        return self._scatters.adjoint(np.full(self._scatters.m, 1.0 / self._scatters.m))

    @cached_property
    def _factor(self) -> tuple[FloatArray, bool]:
        """Cholesky factor of the mean within-class scatter, slightly regularised."""
        within = self._mean_scatter
        within[np.diag_indices(self._box.n)] += REGULARISATION * float(np.trace(within)) / self._box.n
        factor, lower = scipy.linalg.cho_factor(within.T, lower=True, overwrite_a=True, check_finite=False)
        return factor, bool(lower)

    def _expansion(
        self, y: FloatArray, basis: FloatArray, z: FloatArray, attained: float
    ) -> tuple[float, FloatArray]:
        """Return an estimate of the upper bound and the leading eigenvectors at the attained ratio."""
        r = round(self._box.rank)
        u, w = self.weights(np.maximum(y, 0.0))
        u, w = u / u.sum(), w / w.sum()
        self._start_weights = u, w, attained
        within, apart = self._within_operator(w), self._between_operator(u)
        level = float(np.vdot(within(basis), basis @ z))

        def enough(lam: FloatArray) -> float:
            return max(EIGENVALUE_SHARE * float(np.sum(lam[-r:])), RATIO_SHARE * attained * level)

        lam, vec, short = np.zeros(0), basis, np.inf
        if attained > 0.0 and basis.shape[1] >= r + GUARD_DIRECTIONS:
            lam, vec, short = davidson_pairs(
                lambda v: apart(v) - attained * within(v),
                lambda v: np.asarray(scipy.linalg.cho_solve(self._factor, v)) / attained,
                basis,
                r + GUARD_DIRECTIONS,
                enough,
            )
        if not short <= enough(lam):
            pencil = self._pairs.adjoint(u) - attained * self._scatters.adjoint(w)
            (lam, vec), short = leading_pairs(pencil, r + GUARD_DIRECTIONS), 0.0
        best = vec[:, -r:]
        slope = float(np.vdot(best, within(best)))
        # One step of Newton's method from the left, extended by the error of the eigenvalues.
        above = max(float(np.sum(lam[-r:])), 0.0) + short
        return attained + above / slope if slope > 0.0 else np.inf, vec

    def _within_operator(self, w: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the operator ``v -> sum_k w_k S_k v``, applied through low-rank factors where they exist."""
        rows = self._scatters
        if isinstance(rows, LowRank):
            weights = (rows.signs * w[rows.owner])[:, None]
            return lambda v: np.asarray(rows.factors.T @ (weights * (rows.factors @ v)))
        within = rows.adjoint(w)
        return lambda v: np.asarray(within @ v)

    def _between_operator(self, u: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the operator ``v -> sum_ij u_ij S_ij v``."""
        i, j = self._pair_index[u > 0.0].T
        apart, weights = self._means[i] - self._means[j], u[u > 0.0, None]
        return lambda v: np.asarray(apart.T @ (weights * (apart @ v)))

    def describe(self) -> Mapping[str, Any]:
        """Return the sizes and the formulation."""
        return {**super().describe(), "classes": int(self._scatters.m), "formulation": self.formulation}


def pairs_of(group: np.ndarray) -> np.ndarray:
    """Return the pairs of a group of classes in lexicographic order."""
    i, j = pair_indices(group.size)
    return np.stack([group[i], group[j]], axis=1)


def pair_rows(means: FloatArray, groups: Sequence[np.ndarray]) -> Rows:
    """Return one row per pair of classes within each group."""
    parts = [PairwiseDifference(means[group]) for group in groups]
    return parts[0] if len(parts) == 1 else Stacked(parts)


def paper_rows(base: Rows, pairs: int, of_pair: float, of_class: float) -> Combined:
    """Return the rows ``of_pair·S_ij + of_class·S_k`` as one combination of the rows ``base``.

    ``base`` stacks ``pairs`` rows of pairs and the rows of the classes; it is shared by all ratios.
    """
    groups = base.m - pairs
    every = np.arange(pairs * groups)
    data = np.repeat([of_pair, of_class], every.size)
    place = np.concatenate([every // groups, pairs + every % groups])
    return Combined(sp.csr_array((data, (np.tile(every, 2), place)), (every.size, base.m)), base)


def distinct_names(names: list[str]) -> list[str]:
    """Append numbers if two names are equal."""
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({i})" for i, name in enumerate(names)]


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
    box, pairs, scatters = ratio._box, ratio._pairs, ratio._scatters
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
