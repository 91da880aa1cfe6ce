"""Worst-case linear discriminant analysis (Li, Shen, van den Hengel and Shi, IEEE TIP 2015).

Maximise, over ``Z`` in ``SpectralBox(k, 0, 1, trace=r)``, the ratio ``min_ij <S_ij, Z> / max_k <S_k, Z>`` of
the least squared distance of two projected class means and the largest projected class scatter. At a fixed
ratio ``delta`` this is a feasibility problem, in one of two formulations:

* ``compact``: ``<S_ij, Z> >= delta·t`` and ``<S_k, Z> <= t`` with one scalar ``t >= 0``. Only the coefficient
  of ``t`` depends on ``delta``, so that all matrices are shared between problems.
* ``paper``: ``<S_ij - delta·S_k, Z> >= 0`` for every pair and class.

The analysis is defined on the range of the total scatter: directions in which nothing varies would make
every ratio feasible (``0 >= delta·0``). Everything proved is proved about the means and scatters as stored,
that is, as computed from the data in floating point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from sdpfeas.certificates.rigorous import distance_upper
from sdpfeas.errors import ProblemError
from sdpfeas.families import geometry
from sdpfeas.families.base import Known, ParametricFamily
from sdpfeas.families.formulations import column, compact, paper, paper_rows
from sdpfeas.families.geometry import ClassScatter
from sdpfeas.families.nullspace import NullSpace, pair_rows, pairs_of, split
from sdpfeas.families.refine import REFINE_ROUNDS, Oracle, refine
from sdpfeas.families.roots import NO_ROOT, Root, box_maximiser, certificate_root
from sdpfeas.families.separation import Separation
from sdpfeas.linalg import FloatArray, eigh, spectral_matrix, symmetrize
from sdpfeas.operators import Rows, Stacked
from sdpfeas.problem import FeasibilityProblem, Point
from sdpfeas.program import ConicProgram
from sdpfeas.rounding import UNIT, inflate
from sdpfeas.sets import Nonneg, SpectralBox
from sdpfeas.tolerances import Tolerances

__all__ = ["WLDA", "WldaOptions", "Worst"]

Formulation = Literal["compact", "paper"]


@dataclass(frozen=True)
class WldaOptions:
    """Parameters of a WLDA problem on a named data set.

    Attributes
    ----------
    dataset : str
        A data set known to :mod:`sdpfeas.datasets`.
    classes : int, optional
        Use only so many classes, in the order of their labels.
    first_class : int
        Skip so many classes first.
    train : float, optional
        Use only this share of the samples of every class, drawn at random.
    seed : int
        Seed of that draw.
    standardize : bool
        Scale every feature to variance one.
    pca : int, optional
        Keep so many principal components (all there are, if fewer).
    n_components : int, optional
        Final dimension; default: one less than the classes.
    formulation, scatter, shrinkage
        See :meth:`WLDA.from_data`.
    """

    dataset: str = "iris"
    classes: int | None = None
    first_class: int = 0
    train: float | None = None
    seed: int = 0
    standardize: bool = False
    pca: int | None = None
    n_components: int | None = None
    formulation: Literal["compact", "paper"] = "compact"
    scatter: Literal["mean", "sum"] = "mean"
    shrinkage: float | str | None = None


@dataclass(frozen=True)
class Worst:
    """What limits the ratio at a point.

    Attributes
    ----------
    ratio : float
        The ratio attained.
    pair : tuple
        Labels of the two classes whose projected means are closest.
    group : object
        Label of the class with the largest projected scatter.
    """

    ratio: float
    pair: tuple[Any, Any]
    group: Any


class WLDA(ParametricFamily):
    """Worst-case linear discriminant analysis as a family indexed by the ratio.

    Use :meth:`from_data` or :meth:`from_scatter`.

    Parameters
    ----------
    scatter : ClassScatter
        Means and scatters.
    n_components : int, optional
        Final dimension r; default: one less than the classes, or the rank if that is smaller.
    formulation : {"compact", "paper"}
        How the feasibility problem is posed.
    groups : sequence of ndarray, optional
        Compare only classes within these groups of class indices; default: all with all.

    Attributes
    ----------
    basis : ndarray
        Orthonormal columns that span the range, shape (features, coordinates).
    r : int
        Final dimension.
    rank : int
        Dimension of the range of the total scatter.
    null_dim : int
        Dimension of the common null space of the class scatters within that range.
    vacuous : bool
        Whether that null space makes every ratio feasible although no point attains a large one. The
        problems are then posed on the range of the class scatters, where the largest ratio is the same.
    notes : tuple of str
        What was found out about the data, in words.
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
        self.r = _final_dimension(n_components, scatter)
        self.labels = scatter.labels
        self.notes: tuple[str, ...] = ()
        self._groups = [np.arange(scatter.c)] if groups is None else groups
        if self.rank < scatter.basis.shape[0]:
            self.notes += (f"the total scatter has rank {self.rank} of {scatter.basis.shape[0]} features",)
        scatter = self._merge_equal(scatter)
        self.null_dim = scatter.k - scatter.within_rank()
        self.vacuous = False
        self._null: NullSpace | None = None
        core, trace, compared = scatter, self.r, self._groups
        if self.null_dim >= self.r:
            core, trace, compared = self._split_null(scatter)
        self.basis = core.basis
        self._stretch = np.ones(core.k)
        if trace == 1 and formulation == "compact":
            # With trace one the upper end of the box is idle: scaling features only rescales Z.
            self._stretch = core.feature_powers()
            core = core.stretched(self._stretch)
        self._core = core
        self._compared = compared
        self._pairs = pair_rows(core, compared)
        self._pair_index = np.concatenate([pairs_of(group) for group in compared])
        self._scatters = core.scatter_rows()
        box = SpectralBox(core.k, trace=trace)
        self._box = box
        #: The last matrix that was enclosed, and its bounds.
        self._last: tuple[FloatArray, tuple[float, float]] | None = None
        names = [f"means {self.labels[i]},{self.labels[j]}" for i, j in self._pair_index]
        posed = compact if formulation == "compact" else paper
        super().__init__(
            monotone="a point that attains a ratio attains every smaller one",
            bracket=(0.0, math.inf),
            **posed(box, self._pairs, self._scatters, names, [f"scatter {label}" for label in self.labels]),
        )

    @classmethod
    def from_data(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_components: int | None = None,
        *,
        formulation: Formulation = "compact",
        scatter: geometry.Scatter = "mean",
        shrinkage: float | str | None = None,
    ) -> WLDA:
        """Build the family from labelled samples.

        Parameters
        ----------
        X : array_like
            Samples, shape (samples, features).
        y : array_like
            One label a sample.
        n_components : int, optional
            Final dimension r; default: one less than the classes, or the rank if that is smaller.
        formulation : {"compact", "paper"}
            How the feasibility problem is posed.
        scatter : {"mean", "sum"}
            Divide the scatter of a class by its number of samples (as the paper says), or do not (as its
            authors' code does).
        shrinkage : float, "auto" or None
            Shrink every class scatter towards the multiple of the identity (of the range of the total
            scatter) that has its trace: by this share, or by that of Ledoit and Wolf.

        Raises
        ------
        ProblemError
            If the data are malformed, or have no ``n_components`` dimensions.
        """
        if scatter not in ("mean", "sum"):
            raise ProblemError(f"scatter must be 'mean' or 'sum', got {scatter!r}")
        classes = geometry.from_data(X, y, scatter=scatter, shrinkage=shrinkage)
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
        """Build the family from class means and class scatters.

        Parameters
        ----------
        means : array_like
            Shape (classes, features).
        covariances : array_like
            Shape (classes, features, features).
        r : int, optional
            Final dimension.
        formulation : {"compact", "paper"}
            How the feasibility problem is posed.
        labels : sequence, optional
            The class labels.
        """
        return cls(geometry.from_scatter(means, covariances, labels=labels), r, formulation)

    @classmethod
    def build(cls, options: WldaOptions) -> WLDA:
        """Build the family on a named data set."""
        from sdpfeas.datasets import prepared

        X, y = prepared(
            options.dataset,
            classes=options.classes,
            first_class=options.first_class,
            train=options.train,
            seed=options.seed,
            standardize=options.standardize,
            pca=options.pca,
        )
        return cls.from_data(
            X,
            y,
            options.n_components,
            formulation=options.formulation,
            scatter=options.scatter,
            shrinkage=options.shrinkage,
        )

    @classmethod
    def seeded(cls, options: WldaOptions) -> bool:
        """Whether samples are drawn at random."""
        return options.train is not None

    # ------------------------------------------------------------ degenerate data

    def _merge_equal(self, scatter: ClassScatter) -> ClassScatter:
        same = scatter.equal_means()
        self._same = same
        self._coincide = any(np.unique(same[group]).size < group.size for group in self._groups)
        if self._coincide:
            self.notes += ("two classes have the same mean",)
        return scatter.merged_means(same) if np.unique(same).size < scatter.c else scatter

    def _split_null(self, scatter: ClassScatter) -> tuple[ClassScatter, int, list[np.ndarray]]:
        """Rotate the common null space to the end, and leave it out if it only makes ratios vacuous."""
        q, inside = self.null_dim, scatter.within_rank()
        turned = scatter.rotated(scatter.null_basis()).without_last(q)
        alike = turned.equal_means(start=inside)
        stuck = [part for group in self._groups for part in split(group, alike[group]) if part.size > 1]
        if not stuck:
            self.notes += (
                f"the class scatters share a null space of dimension {q}, in which all means differ",
            )
            self._null = NullSpace(turned, inside, [])
            return turned, self.r, self._groups
        if inside == 0:
            return turned, self.r, self._groups
        self.vacuous = True
        note = (
            f"the class scatters share a null space of dimension {q}, on which some means agree: every "
            "ratio is feasible there, as 0 >= delta·0, but none is attained"
        )
        self.notes += (note,)
        self._null = NullSpace(turned, inside, stuck)
        return turned.rotated(np.eye(turned.k)[:, :inside]), 1, stuck

    @cached_property
    def known(self) -> Known | None:
        """Infinity where the class scatters leave room to separate all means, zero where means coincide."""
        if self._coincide:
            return self._known_zero()
        if self._null is not None and not self.vacuous:
            separation = Separation(pair_rows(self._null.part(), self._groups), min(self.r, self.null_dim))
            reason = (
                f"the class scatters share a null space of dimension {self.null_dim} >= r = {self.r} on "
                "which all class means differ: the ratio is unbounded"
            )
            return Known(math.inf, reason, separation)
        return None

    def _known_zero(self) -> Known:
        names = [
            self.labels[group] for group in split(np.arange(self._same.size), self._same) if group.size > 1
        ]
        listed = "; ".join(", ".join(map(str, group)) for group in names)
        reason = f"classes with the same mean: {listed}"
        kept = [np.array([part[0] for part in split(group, self._same[group])]) for group in self._groups]
        kept = [group for group in kept if group.size > 1]
        full = self._null.turned if self._null is not None else self._core
        if kept:
            return Known(0.0, reason, WLDA(full, self.r, self.formulation, groups=kept))
        _, vec = eigh(np.asarray(self._scatters.adjoint(np.ones(self._scatters.m))))
        r = round(self._box.trace or 0.0)
        weights = (np.arange(vec.shape[0]) < r).astype(np.float64)
        return Known(0.0, reason, point=self.point(spectral_matrix(vec, weights)))

    def from_substitute(self, point: Point) -> Point:
        """Map a point of the substitute family back: from the null space, or from fewer pairs."""
        known = self.known
        assert known is not None
        if isinstance(known.substitute, Separation):
            assert self._null is not None
            z = np.zeros((self._core.k, self._core.k))
            z[self._null.inside :, self._null.inside :] = point[0]
            return self.point(self._from_range(z))
        assert isinstance(known.substitute, WLDA)
        return self.restrict(known.substitute.expand(point))

    # ------------------------------------------------------------ problems

    def _combined(self, b: int, delta: float) -> Rows | None:
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
        """Map a point to the matrix Z over the original features; its ratio is that of the point.

        Parameters
        ----------
        point : tuple of ndarray
            A point of the family.
        """
        basis, z = self._in_range(point)
        return np.asarray(basis @ z @ basis.T)

    def components(self, point: Point) -> FloatArray:
        """Round a point to directions: the leading r eigenvectors of Z, as orthonormal columns.

        Parameters
        ----------
        point : tuple of ndarray
            A point of the family.

        Returns
        -------
        ndarray
            Shape (features, r).
        """
        basis, z = self._in_range(point)
        _, vec = eigh(symmetrize(z))
        return np.asarray(basis @ vec[:, ::-1][:, : self.r])

    def _in_range(self, point: Point) -> tuple[FloatArray, FloatArray]:
        """Orthonormal columns over the features, and Z in their coordinates."""
        z = point[0] * self._stretch[:, None] * self._stretch
        trace = float(np.trace(z))
        if trace > 0.0:
            z = z * (float(self._box.trace or 0.0) / trace)
        if not self.vacuous:
            return self.basis, z
        assert self._null is not None
        return self._null.turned.basis, self._null.fill(z, self.r, self.ratio(point))

    def restrict(self, z: ArrayLike) -> Point:
        """Map a matrix Z over the original features to a point of the family.

        Parameters
        ----------
        z : array_like
            Shape (features, features), for instance ``W @ W.T``.
        """
        matrix = self.basis.T @ np.asarray(z, dtype=np.float64) @ self.basis
        return self.settle((self._from_range(symmetrize(matrix)),))

    def _from_range(self, z: FloatArray) -> FloatArray:
        """Undo the scaling of features that :meth:`_in_range` applies."""
        matrix = z / self._stretch[:, None] / self._stretch
        trace = float(np.trace(matrix))
        return matrix / trace if self._box.trace == 1.0 and trace > 0.0 else matrix

    # ------------------------------------------------------------ ratios

    def ratio(self, point: Point) -> float:
        """Return the ratio a point attains, in plain arithmetic."""
        least = float(np.min(self._pairs.apply(point[0])))
        most = float(np.max(self._scatters.apply(point[0])))
        if most <= 0.0:
            return math.inf if least > 0.0 else 0.0
        return max(least, 0.0) / most

    def worst(self, point: Point) -> Worst:
        """Say which pair and which class limit the ratio at a point."""
        i, j = self._pair_index[int(np.argmin(self._pairs.apply(point[0])))]
        k = int(np.argmax(self._scatters.apply(point[0])))
        return Worst(self.ratio(point), (self.labels[i], self.labels[j]), self.labels[k])

    @cached_property
    def _norms(self) -> tuple[FloatArray, FloatArray]:
        """Proven upper bounds of the norms of all rows."""
        parts = (self._pairs, self._scatters)
        both = [np.asarray(inflate(part.magnitude_norms(), part.gram_depth)) for part in parts]
        return both[0], both[1]

    def settle(self, point: Point) -> Point:
        """Move Z into the box; t is chosen anew for every ratio."""
        z = point[0]
        if self._box.distance(z) > 1e-13 * self._box.n:
            z = self._box.project(z)
        return self.point(z)

    def reach(self, point: Point) -> float:
        """Return the ratio a point provably attains, up to the rounding of one division."""
        least, most = self._enclosed(point[0])
        if math.isnan(least):
            return -math.inf
        if least <= 0.0:
            return 0.0
        return least / most if most > 0.0 else math.inf

    def _enclosed(self, z: FloatArray) -> tuple[float, float]:
        """Bounds of the least distance and of the largest scatter at a member of the box next to ``z``."""
        if self._last is not None and self._last[0] is z:
            return self._last[1]
        eta = distance_upper(self._box, z, Tolerances().snap)
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

    def place(self, point: Point, delta: float) -> Point:
        """Choose t in the middle between what the scatters provably need and the means allow."""
        if self.formulation == "paper":
            return point
        least, most = self._enclosed(point[0])
        most = max(most, 0.0)
        if delta <= 0.0:
            return point[0], np.array([2.0 * most])
        return point[0], np.array([0.5 * most + 0.5 * max(least / delta, 0.0)])

    # ------------------------------------------------------------ multipliers

    def weights(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights of the pairs and of the classes in multipliers of the family's rows."""
        if self.formulation == "compact":
            return y[: self._pairs.m], y[self._pairs.m :]
        table = y.reshape(self._pairs.m, self._scatters.m)
        return table.sum(axis=1), table.sum(axis=0)

    def multipliers(self, pairs: FloatArray, groups: FloatArray) -> FloatArray:
        """Multipliers of the family's rows with given weights of the pairs and of the classes."""
        if self.formulation == "compact":
            return np.concatenate([pairs, groups])
        return np.outer(pairs, groups).ravel()

    def root(self, y: FloatArray, near: float | None = None) -> Root:
        """Return the smallest ratio weights rule out: the root of ``sigma(sum u S_ij - delta·sum w S_k)``."""
        u, w = self.weights(y)
        total_u, total_w = float(u.sum()), float(w.sum())
        if not (total_u > 0.0 and total_w > 0.0):
            return NO_ROOT
        fixed, slope = self._pairs.adjoint(u / total_u), self._scatters.adjoint(w / total_w)
        start = 0.0 if near is None or not math.isfinite(near) else max(near, 0.0)
        return certificate_root((self._box,), (fixed,), (slope,), 0.0, 0.0, start)

    def weigh(self, y: FloatArray, delta: float) -> FloatArray:
        """Scale the weights of the classes so that t has no positive coefficient."""
        if self.formulation == "paper":
            return y
        u, w = self.weights(y)
        if not float(w.sum()) > 0.0:
            return y
        room = 1.0 - 8.0 * (self.m + 8) * UNIT
        return np.concatenate([u, w * (room * delta * float(u.sum()) / float(w.sum()))])

    def recovered_points(self, y: FloatArray) -> list[Point]:
        """Return the projector on which the weights come closest to being a point."""
        u, w = (np.maximum(part, 0.0) for part in self.weights(y))
        if not (u.sum() > 0.0 and w.sum() > 0.0):
            return []
        delta, matrix = self._price(u / u.sum(), w / w.sum(), 0.0)
        return [self.point(matrix)] if math.isfinite(delta) else []

    def refine(
        self, points: list[Point], multipliers: list[FloatArray], tol: float
    ) -> tuple[list[Point], list[FloatArray]]:
        """Return a better point and better multipliers, by a few rounds of column generation."""
        weights = [self.weights(y) for y in multipliers]
        oracle = Oracle(self._pairs.apply, self._scatters.apply, self._price)
        found = refine(oracle, [point[0] for point in points], weights, REFINE_ROUNDS, 0.2 * tol)
        if found is None:
            return [], []
        matrix, (u, w) = found
        return [self.point(matrix)], [self.multipliers(u, w)]

    def _price(self, u: FloatArray, w: FloatArray, near: float) -> tuple[float, FloatArray]:
        fixed, slope = self._pairs.adjoint(u), self._scatters.adjoint(w)
        root = certificate_root((self._box,), (fixed,), (slope,), 0.0, 0.0, max(near, 0.0))
        delta = root.delta if math.isfinite(root.delta) else near
        return root.delta, self._projector(fixed - delta * slope)

    def _projector(self, g: FloatArray) -> FloatArray:
        lam, vec = eigh(g)
        return spectral_matrix(vec, box_maximiser(self._box, lam))

    def initial_points(self) -> list[Point]:
        """Return the middle of the box, and the span of the classical discriminant directions."""
        points = [self.point(self._box.interior_point())]
        try:
            within = self._scatters.adjoint(np.ones(self._scatters.m))
            between = self._pairs.adjoint(np.ones(self._pairs.m))
            floor = 1e-12 * float(np.trace(within + between)) / within.shape[0]
            _, vec = scipy.linalg.eigh(between, within + floor * np.eye(within.shape[0]))
            q, _ = np.linalg.qr(vec[:, -round(self._box.rank) :])
            points.append(self.point(q @ q.T))
        except np.linalg.LinAlgError:
            pass
        return points

    def initial_multipliers(self) -> list[FloatArray]:
        """Equal weights, and all weight on what limits the middle of the box."""
        pairs, groups = self._pairs.m, self._scatters.m
        middle = self._box.interior_point()
        worst_pair = np.eye(pairs)[int(np.argmin(self._pairs.apply(middle)))]
        worst_group = np.eye(groups)[int(np.argmax(self._scatters.apply(middle)))]
        return [
            self.multipliers(np.full(pairs, 1.0 / pairs), np.full(groups, 1.0 / groups)),
            self.multipliers(worst_pair, worst_group),
        ]

    # ------------------------------------------------------------ one program

    def homogenized(self) -> ConicProgram:
        """``max t`` subject to ``<S_ij, Z'> >= t``, ``<S_k, Z'> <= s`` and ``Z'`` in tau times the box.

        The optimal value is ``s·delta*``; ``s``, a power of two, is chosen such that tau is near one.
        """
        limit, pairs, groups = self._program_unit, self._pairs.m, self._scatters.m
        level = column(0, pairs, pairs + groups, -1.0)
        problem = FeasibilityProblem(
            [self._box, Nonneg(1), Nonneg(1)],
            [self._base, level, None],
            np.concatenate([np.zeros(pairs), np.full(groups, -np.inf)]),
            np.concatenate([np.full(pairs, np.inf), np.full(groups, limit)]),
            block_names=["Z", "t", "tau"],
        )
        objective = (np.zeros(self._box.shape), np.ones(1), np.zeros(1))
        return ConicProgram(problem, objective, scale=2)

    @cached_property
    def _program_unit(self) -> float:
        best = max(self.initial_points(), key=self.ratio)
        most = float(np.max(self._scatters.apply(best[0])))
        return float(2.0 ** np.round(np.log2(most))) if most > 0.0 else 1.0

    def program_point(self, point: Point) -> Point:
        """Divide by tau."""
        tau = float(point[2][0])
        return self.point(point[0] / tau if tau > 0.0 else point[0])

    def program_multipliers(self, y: FloatArray) -> FloatArray:
        """Weights of the pairs as they are, of the classes with the sign turned."""
        u, w = np.maximum(y[: self._pairs.m], 0.0), np.maximum(-y[self._pairs.m :], 0.0)
        return self.multipliers(u, w)

    def describe(self) -> Mapping[str, Any]:
        """Sizes and what was found out about the data."""
        return {
            **super().describe(),
            "classes": int(self._scatters.m),
            "features": int(self.basis.shape[0]),
            "rank": self.rank,
            "n_components": self.r,
            "formulation": self.formulation,
            "notes": list(self.notes),
        }


def _final_dimension(n_components: Any, scatter: ClassScatter) -> int:
    if n_components is None:
        return min(scatter.c - 1, scatter.k)
    if isinstance(n_components, bool) or not isinstance(n_components, (int, np.integer)) or n_components < 1:
        raise ProblemError(f"n_components must be a positive integer, got {n_components!r}")
    if n_components > scatter.k:
        raise ProblemError(
            f"n_components = {n_components} exceeds {scatter.k}, the rank of the total scatter: "
            "the data have no more dimensions"
        )
    return int(n_components)
