"""Worst-case linear discriminant analysis (Li, Shen, van den Hengel and Shi, IEEE TIP 2015) as a family.

Maximise ``min_ij <S_ij, Z> / max_k <S_k, Z>`` over the Fantope ``{0 <= Z <= I, tr Z = r}``: the least squared
distance of two projected class means over the largest projected within-class scatter
(:mod:`~sdpfeas.families.worst_case_ratio`).

The problem is restricted to the range of the total scatter: in a direction without any scatter every ratio
would be feasible (``0 >= delta·0``). Proofs refer to the means and scatters as computed from the data in
floating point. :class:`WLDA` is the entry point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sdpfeas.datasets import prepared
from sdpfeas.families.class_scatter import (
    TOLERANCE_NOTE,
    ClassScatter,
    Scatter,
    always_scattered,
    analyse,
    scale_caveat,
    unbounded,
)
from sdpfeas.families.fantope import FantopeMaxMin
from sdpfeas.families.parametric_family import KnownThreshold
from sdpfeas.families.worst_case_ratio import Formulation, WorstCaseRatio, pair_rows
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.problem.problem import Point
from sdpfeas.problem.sets import SpectralBox


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


class WLDA(WorstCaseRatio):
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
        self.rank = scatter.k
        self.r = scatter.final_dimension(n_components)
        self.labels = scatter.labels
        groups = [np.arange(scatter.c)] if groups is None else groups
        found = self._analysis = analyse(scatter, self.r, groups)
        self.notes, self.null_dim, self.vacuous = found.notes, found.null_dim, found.vacuous
        core = found.core
        self.basis = core.basis
        #: Power of two by which each coordinate is scaled.
        self._stretch = np.ones(core.k)
        if found.trace == 1 and formulation == "compact":
            # With trace one the constraint Z <= I is redundant, so scaling features only rescales Z.
            self._stretch = core.feature_powers()
            core = core.stretched(self._stretch)
        self.caveat = scale_caveat(core)
        box = SpectralBox(core.k, trace=found.trace)
        super().__init__(box, core.means, core.scatter_rows(), found.compared, formulation, self.labels)

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
            pairs = pair_rows(found.null.part().means, found.groups)
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
        return KnownThreshold(0.0, reason, point=self.point(self._narrowest()), proven=proven)

    def from_substitute(self, point: Point) -> Point:
        """Map a point of the substitute family back: from the null space, or from fewer pairs."""
        known = self.known
        assert known is not None
        if isinstance(known.substitute, FantopeMaxMin):
            null = self._analysis.null
            assert null is not None
            whole = np.zeros((null.turned.k, null.turned.k))
            whole[null.inside :, null.inside :] = point[0]
            return self.point(self._from_range(whole))
        assert isinstance(known.substitute, WLDA)
        return self.restrict(known.substitute.expand(point))

    # --- coordinates of the features

    def expand(self, point: Point) -> FloatArray:
        """Map a point to the matrix Z over the original features, which has the same ratio.

        Parameters
        ----------
        point : tuple of ndarray
            A point of the family.
        """
        basis, z = self._in_range(point)
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
        basis, z = self._in_range(point)
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
        return self.project_point((self._from_range(symmetrize(matrix)),))

    def _in_range(self, point: Point) -> tuple[FloatArray, FloatArray]:
        """Return orthonormal columns over the features and Z in their coordinates."""
        z = point[0]
        scaled = z * self._stretch[:, None] * self._stretch
        trace = float(np.trace(scaled))
        if trace > 0.0:
            scaled = scaled * (self._analysis.trace / trace)
        null = self._analysis.null
        if null is None or not self.vacuous:
            return self.basis, scaled
        return null.turned.basis, null.fill(scaled, self.r, self.ratio(point))

    def _from_range(self, z: FloatArray) -> FloatArray:
        """Undo the scaling of the coordinates of a matrix."""
        matrix = z / self._stretch[:, None] / self._stretch
        trace = float(np.trace(matrix))
        return matrix / trace if self._analysis.trace == 1 and trace > 0.0 else matrix

    def worst(self, point: Point) -> WorstCase:
        """Return the pair and the class that limit the ratio at a point."""
        i, j = self._pair_index[int(np.argmin(self._pairs.apply(point[0])))]
        k = int(np.argmax(self._scatters.apply(point[0])))
        return WorstCase(self.ratio(point), (self.labels[i], self.labels[j]), self.labels[k])

    def describe(self) -> Mapping[str, Any]:
        """Return sizes and the degeneracies of the data."""
        found = {"features": int(self.basis.shape[0]), "rank": self.rank, "n_components": self.r}
        return {**super().describe(), **found, "notes": list(self.notes)}
