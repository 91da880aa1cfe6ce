"""Worst-case linear discriminant analysis (Li, Shen, van den Hengel and Shi, IEEE TIP 2015) as a family.

Maximise ``min_ij <S_ij, Z> / max_k <S_k, Z>`` over the Fantope ``{0 <= Z <= I, tr Z = r}``: the least squared
distance of two projected class means over the largest projected within-class scatter. At a fixed ratio
``delta`` this is a feasibility problem, in one of two formulations:

* ``compact``: ``<S_ij, Z> >= delta·t`` and ``<S_k, Z> <= t`` with a scalar ``t >= 0``. Only the coefficient
  of ``t`` depends on ``delta``, so that problems at all ratios share their matrices.
* ``paper``: ``<S_ij - delta·S_k, Z> >= 0`` for every pair and class.

The problem is restricted to the range of the total scatter: in a direction without any scatter every ratio
would be feasible (``0 >= delta·0``). Proofs refer to the means and scatters as computed from the data in
floating point. :class:`WLDA` is the entry point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.datasets import prepared
from sdpfeas.errors import ProblemError
from sdpfeas.families.active_rows import ActiveRows
from sdpfeas.families.class_scatter import (
    TOLERANCE_NOTE,
    ClassScatter,
    Scatter,
    ScatterAnalysis,
    always_scattered,
    analyse,
    pair_rows,
    pairs_of,
    scale_caveat,
    unbounded,
)
from sdpfeas.families.fantope import FantopeMaxMin
from sdpfeas.families.parametric_family import KnownThreshold, ParametricFamily, column
from sdpfeas.families.threshold_bounds import EXACT, Root
from sdpfeas.families.worst_case_ratio import RatioRestriction, WorstCaseRatio, ratio_program
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.numerics.rounding import UNIT
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import Point
from sdpfeas.problem.rows import Combined, Rows, Stacked
from sdpfeas.problem.sets import Nonneg, SpectralBox
from sdpfeas.verifier.outcome import Tolerances

Formulation = Literal["compact", "paper"]


@dataclass(frozen=True)
class NamedData:
    """A named data set and its preprocessing, as a problem card specifies them.

    ``dataset`` is a name known to :mod:`sdpfeas.datasets`. ``classes`` classes are used, in the order of
    their labels, from ``first_class`` on. ``train`` is the share of the samples of every class that is drawn
    at random. ``standardize`` scales every feature to variance one. ``pca`` is the number of principal
    components to keep.
    """

    dataset: str = "iris"
    classes: int | None = None
    first_class: int = 0
    train: float | None = None
    seed: int = 0
    standardize: bool = False
    pca: int | None = None

    @property
    def seeded(self) -> bool:
        """Whether samples are drawn at random."""
        return self.train is not None

    def samples(self) -> tuple[FloatArray, np.ndarray]:
        """Return samples and labels."""
        return prepared(
            self.dataset,
            classes=self.classes,
            first_class=self.first_class,
            train=self.train,
            seed=self.seed,
            standardize=self.standardize,
            pca=self.pca,
        )


@dataclass(frozen=True)
class WldaOptions(NamedData):
    """Parameters of a WLDA problem on a named data set.

    ``n_components`` is the final dimension; by default the number of classes minus one.
    """

    n_components: int | None = None
    formulation: Literal["compact", "paper"] = "compact"
    scatter: Literal["mean", "sum"] = "mean"
    shrinkage: float | str | None = None


@dataclass(frozen=True)
class WorstCase:
    """Pair of classes and class that limit the ratio at a point.

    ``pair`` holds the labels of the two classes with the closest projected means, ``group`` the label of the
    class with the largest projected scatter.
    """

    ratio: float
    pair: tuple[Any, Any]
    group: Any


class WLDA(ParametricFamily):
    """Worst-case linear discriminant analysis as a family indexed by the ratio.

    Constructed by :meth:`from_data` or :meth:`from_scatter`.

    Parameters
    ----------
    scatter : ClassScatter
        Class means and within-class scatters.
    n_components : int, optional
        Final dimension r; by default the number of classes minus one, or the rank if that is smaller.
    formulation : {"compact", "paper"}
        Formulation of the feasibility problem.
    groups : sequence of ndarray, optional
        Groups of class indices; only classes within a group are compared. By default all classes are
        compared.

    Attributes
    ----------
    basis : ndarray
        Orthonormal columns that span the range of the total scatter, shape (features, coordinates).
    r : int
        Final dimension.
    rank : int
        Dimension of the range of the total scatter.
    null_dim : int
        Dimension of the common null space of the within-class scatters in that range.
    vacuous : bool
        Whether that null space makes every ratio feasible although no point attains a large one. The problems
        are then formulated on the range of the within-class scatters, where the largest ratio is the same.
    notes : tuple of str
        Degeneracies of the data, in words.

    Examples
    --------
    Two classes with unit scatter whose means have distance 2, projected to one dimension:

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> means = [[0.0, 0.0], [2.0, 0.0]]
    >>> family = sf.families.WLDA.from_scatter(means, np.array([np.eye(2), np.eye(2)]), r=1)
    >>> found = sf.bisect(family, tol=1e-6)
    >>> found.lower <= 4.0 <= found.upper
    True
    >>> abs(family.components(found.point).round(3))
    array([[1.],
           [0.]])
    """

    name = "wlda"
    Options = WldaOptions

    def __init__(
        self,
        scatter: ClassScatter,
        n_components: int | None = None,
        formulation: Formulation = "compact",
        *,
        groups: list[np.ndarray] | None = None,
    ) -> None:
        if formulation not in ("compact", "paper"):
            raise ProblemError(f"formulation must be 'compact' or 'paper', got {formulation!r}")
        self.formulation: Formulation = formulation
        self.rank = scatter.k
        self.r = scatter.final_dimension(n_components)
        self.labels = scatter.labels
        groups = [np.arange(scatter.c)] if groups is None else groups
        self._analysis = analyse(scatter, self.r, groups)
        self.notes = self._analysis.notes
        self.null_dim, self.vacuous = self._analysis.null_dim, self._analysis.vacuous
        core, trace, compared = self._analysis.core, self._analysis.trace, self._analysis.compared
        self.basis = core.basis
        stretch = np.ones(core.k)
        if trace == 1 and formulation == "compact":
            # With trace one the constraint Z <= I is redundant, so scaling features only rescales Z.
            stretch = core.feature_powers()
            core = core.stretched(stretch)
        self.caveat = scale_caveat(core)
        self._pairs = pair_rows(core, compared)
        self._means = core.means
        self._active: ActiveRows | None = None
        self._pair_index = np.concatenate([pairs_of(group) for group in compared])
        self._scatters = core.scatter_rows()
        box = SpectralBox(core.k, trace=trace)
        self._box = box
        self._coordinates = Coordinates(self.basis, stretch, trace, self.r, self._analysis)
        self._ratio = WorstCaseRatio(box, self._pairs, self._scatters)
        self._enclosure = RatioEnclosure(self._ratio)
        names = [f"means {self.labels[i]},{self.labels[j]}" for i, j in self._pair_index]
        formulate = compact if formulation == "compact" else paper
        super().__init__(
            monotone="a point that attains a ratio attains every smaller one",
            bracket=(0.0, math.inf),
            **formulate(
                box, self._pairs, self._scatters, names, [f"scatter {label}" for label in self.labels]
            ),
        )

    @classmethod
    def from_data(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_components: int | None = None,
        *,
        formulation: Formulation = "compact",
        scatter: Scatter = "mean",
        shrinkage: float | str | None = None,
        weights: FloatArray | None = None,
    ) -> WLDA:
        """Build the family from labelled samples.

        Parameters
        ----------
        X : array_like
            Samples, shape (samples, features).
        y : array_like
            One label per sample.
        n_components : int, optional
            Final dimension r; by default the number of classes minus one, or the rank if that is smaller.
        formulation : {"compact", "paper"}
            Formulation of the feasibility problem.
        scatter : {"mean", "sum"}
            Divide the scatter of a class by its number of samples (as in the paper), or do not (as in the
            code of its authors).
        shrinkage : float, "auto" or None
            Replace every within-class scatter by a convex combination with the multiple of the identity (on
            the range of the total scatter) that has the same trace: with this share, or with that of Ledoit
            and Wolf.
        weights : ndarray, optional
            Positive weights of the samples.

        Raises
        ------
        ProblemError
            If the data are malformed, or their rank is below ``n_components``.
        """
        classes = ClassScatter.from_samples(X, y, scatter=scatter, shrinkage=shrinkage, weights=weights)
        return cls(classes, n_components, formulation)

    @classmethod
    def from_scatter(
        cls,
        means: ArrayLike,
        covariances: ArrayLike,
        r: int | None = None,
        *,
        formulation: Formulation = "compact",
        labels: Any = None,
    ) -> WLDA:
        """Build the family from class means and within-class scatters.

        Parameters
        ----------
        means : array_like
            Shape (classes, features).
        covariances : array_like
            Shape (classes, features, features).
        r : int, optional
            Final dimension.
        formulation : {"compact", "paper"}
            Formulation of the feasibility problem.
        labels : sequence, optional
            Class labels.
        """
        return cls(ClassScatter.from_moments(means, covariances, labels=labels), r, formulation)

    @classmethod
    def build(cls, options: WldaOptions) -> WLDA:
        """Build the family on a named data set."""
        return cls.from_data(
            *options.samples(),
            options.n_components,
            formulation=options.formulation,
            scatter=options.scatter,
            shrinkage=options.shrinkage,
        )

    # --- degenerate data

    @cached_property
    def known(self) -> KnownThreshold | None:
        """Infinity if the null space of the scatters separates all means, zero if means coincide."""
        found = self._analysis
        if found.coincide:
            return self._known_zero()
        if found.null is not None and not found.vacuous:
            pairs = pair_rows(found.null.part(), found.groups)
            separation = FantopeMaxMin(pairs, self.r, bracket=(0.0, math.inf))
            return KnownThreshold(math.inf, unbounded(found, self.r), separation, proven=found.separated)
        return None

    def _known_zero(self) -> KnownThreshold:
        found = self._analysis
        listed = "; ".join(", ".join(map(str, self.labels[group])) for group in found.alike())
        scattered = self.null_dim < self.r and always_scattered(self._box, self._scatters)
        proven = found.coincide_exactly and scattered
        reason = f"classes with the same mean: {listed}{'' if proven else TOLERANCE_NOTE}"
        kept = found.distinct()
        if kept:
            others = WLDA(found.scatter, self.r, self.formulation, groups=kept)
            return KnownThreshold(0.0, reason, others, proven=proven)
        return KnownThreshold(0.0, reason, point=self.point(self._ratio.narrowest()), proven=proven)

    def from_substitute(self, point: Point) -> Point:
        """Map a point of the substitute family back: from the null space, or from fewer pairs."""
        known = self.known
        assert known is not None
        if isinstance(known.substitute, FantopeMaxMin):
            return self.point(self._coordinates.from_null(point[0]))
        assert isinstance(known.substitute, WLDA)
        return self.restrict(known.substitute.expand(point))

    # --- problems

    def _combined(self, b: int, delta: float) -> Rows:
        if self.formulation == "compact":
            return super()._combined(b, delta)
        return paper_rows(self._base, self._pairs.m, delta)

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

    def expand(self, point: Point) -> FloatArray:
        """Map a point to the matrix Z over the original features, which has the same ratio.

        Parameters
        ----------
        point : tuple of ndarray
            A point of the family.
        """
        basis, z = self._coordinates.in_range(point[0], self._ratio.value)
        return np.asarray(basis @ z @ basis.T)

    def components(self, point: Point) -> FloatArray:
        """Round a point to a projection: the r leading eigenvectors of Z, as orthonormal columns.

        Parameters
        ----------
        point : tuple of ndarray
            A point of the family.

        Returns
        -------
        ndarray
            Shape (features, r).
        """
        basis, z = self._coordinates.in_range(point[0], self._ratio.value)
        _, vec = eigh(symmetrize(z))
        return np.asarray(basis @ vec[:, ::-1][:, : self.r])

    def restrict(self, z: ArrayLike) -> Point:
        """Map a matrix Z over the original features to a point of the family.

        Parameters
        ----------
        z : array_like
            Shape (features, features), for instance ``W @ W.T``.
        """
        matrix = self.basis.T @ np.asarray(z, dtype=np.float64) @ self.basis
        return self.project_point((self._coordinates.from_range(symmetrize(matrix)),))

    # --- ratios

    def ratio(self, point: Point) -> float:
        """Return the ratio of a point, in floating-point arithmetic."""
        return self._ratio.value(point[0])

    def worst(self, point: Point) -> WorstCase:
        """Return the pair and the class that limit the ratio at a point."""
        i, j = self._pair_index[int(np.argmin(self._pairs.apply(point[0])))]
        k = int(np.argmax(self._scatters.apply(point[0])))
        return WorstCase(self.ratio(point), (self.labels[i], self.labels[j]), self.labels[k])

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
        least, most = self._enclosure.bounds(point[0])
        if math.isnan(least):
            return -math.inf
        if least <= 0.0:
            return 0.0
        return least / most if most > 0.0 else math.inf

    def point_at(self, point: Point, delta: float) -> Point:
        """Choose t midway between the proven bounds of the scatters and of the distances."""
        if self.formulation == "paper":
            return point
        least, most = self._enclosure.bounds(point[0])
        most = max(most, 0.0)
        if delta <= 0.0:
            return point[0], np.array([2.0 * most])
        return point[0], np.array([0.5 * most + 0.5 * max(least / delta, 0.0)])

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
        return self._ratio.root(self.weights(y), start, accuracy)

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

    # --- first guesses and better ones

    def recovered_points(self, y: FloatArray, near: float | None = None) -> list[Point]:
        """Return the projector that comes closest to the ratio that the weights exclude."""
        matrix = self._ratio.suggested(self.weights(y), 0.0 if near is None else near)
        return [] if matrix is None else [self.point(matrix)]

    def refine(
        self, points: list[Point], multipliers: list[FloatArray], tol: float
    ) -> tuple[list[Point], list[FloatArray]]:
        """Improve points and multipliers by column generation."""
        weights = [self.weights(y) for y in multipliers]
        found = self._ratio.refined([point[0] for point in points], weights, tol)
        return ([], []) if found is None else ([self.point(found[0])], [self.multipliers(*found[1])])

    def initial_points(self) -> list[Point]:
        """Return the centre of the box and the projector onto the directions of classical LDA."""
        return [self.point(matrix) for matrix in self._ratio.initial_matrices()]

    def initial_multipliers(self) -> list[FloatArray]:
        """Return balanced weights, equal weights, and unit weight on the worst rows at the centre."""
        return [self.multipliers(*weights) for weights in self._ratio.initial_weights()]

    # --- one program

    def conic_program(self) -> ConicProgram:
        """Return ``max t`` subject to ``<S_ij, Y> >= t``, ``<S_k, Y> <= s`` and ``Y`` in tau times the box.

        This is the Charnes-Cooper transformation ``Y = tau·Z`` of the ratio. The optimal value is
        ``s·delta*`` with a power of two ``s`` such that tau is near one. The initial weights are balanced
        weights. With very many pairs only the active ones are in the program.
        """
        self._active, program = ratio_program(self._ratio, self._means, self._pair_index)
        return program

    def subspace_restriction(self) -> RatioRestriction | None:
        """Return the restriction to subspaces if there are many dimensions and few components."""
        if not RatioRestriction.pays(self._box):
            return None
        return RatioRestriction(self._ratio, self._means, self._pair_index, self.point, self.multipliers)

    def program_point(self, point: Point) -> Point:
        """Divide by tau."""
        tau = float(point[2][0])
        return self.point(point[0] / tau if tau > 0.0 else point[0])

    def program_multipliers(self, y: FloatArray) -> FloatArray:
        """Return the weights of the pairs, and those of the classes with the opposite sign."""
        y = y if self._active is None else self._active.extend_multipliers(y)
        u, w = np.maximum(y[: self._pairs.m], 0.0), np.maximum(-y[self._pairs.m :], 0.0)
        return self.multipliers(u, w)

    def describe(self) -> Mapping[str, Any]:
        """Return sizes and the degeneracies of the data."""
        facts = super().describe(), {"classes": int(self._scatters.m), "features": int(self.basis.shape[0])}
        found = {"rank": self.rank, "n_components": self.r, "formulation": self.formulation}
        return {**facts[0], **facts[1], **found, "notes": list(self.notes)}


# --- Formulations


def compact(
    box: SpectralBox, pairs: Rows, scatters: Rows, pair_names: list[str], scatter_names: list[str]
) -> dict[str, Any]:
    """Return the arguments of a family with rows ``<S_ij, Z> - delta·t >= 0`` and ``t - <S_k, Z> >= 0``."""
    m = pairs.m + scatters.m
    return {
        "sets": [box, Nonneg(1)],
        "rows": [Stacked([pairs, scatters.scaled(-np.ones(scatters.m))]), column(pairs.m, m, m)],
        "slopes": [None, column(0, pairs.m, m)],
        "lower": np.zeros(m),
        "upper": np.full(m, np.inf),
        "row_names": distinct_names(pair_names + scatter_names),
        "block_names": ["Z", "t"],
    }


def paper(
    box: SpectralBox, pairs: Rows, scatters: Rows, pair_names: list[str], scatter_names: list[str]
) -> dict[str, Any]:
    """Return the arguments of a family with rows ``<S_ij - delta·S_k, Z> >= 0`` for every pair and class."""
    every = np.arange(pairs.m * scatters.m)
    ones = np.ones(every.size)
    first = sp.csr_array((ones, (every, every // scatters.m)), (every.size, pairs.m))
    second = sp.csr_array((ones, (every, every % scatters.m)), (every.size, scatters.m))
    return {
        "sets": [box],
        "rows": [Combined(first, pairs)],
        "slopes": [Combined(second, scatters)],
        "lower": np.zeros(every.size),
        "upper": np.full(every.size, np.inf),
        "row_names": distinct_names([f"{p} / {g}" for p in pair_names for g in scatter_names]),
        "block_names": ["Z"],
    }


def paper_rows(base: Rows, pairs: int, delta: float) -> Combined:
    """Return the rows ``S_ij - delta·S_k`` as one combination of the rows ``base``.

    ``base`` stacks ``pairs`` rows of pairs and the rows of the classes; it is shared by all ratios.
    """
    groups = base.m - pairs
    every = np.arange(pairs * groups)
    data = np.concatenate([np.ones(every.size), np.full(every.size, -delta)])
    place = np.concatenate([every // groups, pairs + every % groups])
    return Combined(sp.csr_array((data, (np.tile(every, 2), place)), (every.size, base.m)), base)


def distinct_names(names: list[str]) -> list[str]:
    """Append numbers if two names are equal."""
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({i})" for i, name in enumerate(names)]


# --- Coordinates and enclosures


@dataclass(frozen=True)
class Coordinates:
    """Map between the coordinates of a family and the features.

    ``stretch`` holds the power of two by which each coordinate was scaled, ``analysis`` the degeneracies of
    the scatters.
    """

    basis: FloatArray
    stretch: FloatArray
    trace: int
    r: int
    analysis: ScatterAnalysis

    def in_range(self, z: FloatArray, ratio: Callable[[FloatArray], float]) -> tuple[FloatArray, FloatArray]:
        """Return orthonormal columns over the features and Z in their coordinates.

        ``ratio`` evaluates the ratio of a matrix.
        """
        scaled = z * self.stretch[:, None] * self.stretch
        trace = float(np.trace(scaled))
        if trace > 0.0:
            scaled = scaled * (self.trace / trace)
        if not self.analysis.vacuous:
            return self.basis, scaled
        null = self.analysis.null
        assert null is not None
        return null.turned.basis, null.fill(scaled, self.r, ratio(z))

    def from_range(self, z: FloatArray) -> FloatArray:
        """Undo the scaling of the coordinates of a matrix."""
        matrix = z / self.stretch[:, None] / self.stretch
        trace = float(np.trace(matrix))
        return matrix / trace if self.trace == 1 and trace > 0.0 else matrix

    def from_null(self, z: FloatArray) -> FloatArray:
        """Complete a matrix on the common null space of the scatters by zeros."""
        null = self.analysis.null
        assert null is not None
        whole = np.zeros((null.turned.k, null.turned.k))
        whole[null.inside :, null.inside :] = z
        return self.from_range(whole)


class RatioEnclosure:
    """Proven bounds of numerator and denominator of the ratio at a matrix near the box."""

    def __init__(self, ratio: WorstCaseRatio) -> None:
        self._box, self._pairs, self._scatters = ratio.box, ratio.pairs, ratio.scatters
        #: Cache of the last matrix and its bounds.
        self._last: tuple[FloatArray, tuple[float, float]] | None = None

    @cached_property
    def _norms(self) -> tuple[FloatArray, FloatArray]:
        """Proven upper bounds of the norms of all rows."""
        return self._pairs.norms_upper, self._scatters.norms_upper

    def bounds(self, z: FloatArray) -> tuple[float, float]:
        """Return a lower bound of ``min <S_ij, Z>`` and an upper bound of ``max <S_k, Z>``.

        They hold at a member of the box near ``z``, and are NaN if there is none.
        """
        if self._last is not None and self._last[0] is z:
            return self._last[1]
        eta = self._box.snapped_distance(z, Tolerances().snap)
        bounds = math.nan, math.nan
        if math.isfinite(eta):
            means, scatters = self._norms
            value, radius = self._pairs.enclose_apply(z)
            least = float(np.min(value - 1.01 * (radius + means * eta) - 8.0 * UNIT * np.abs(value)))
            value, radius = self._scatters.enclose_apply(z)
            most = float(np.max(value + 1.01 * (radius + scatters * eta) + 8.0 * UNIT * np.abs(value)))
            bounds = least, most
        self._last = (z, bounds)
        return bounds
