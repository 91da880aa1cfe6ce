"""Class means and within-class scatters for discriminant analysis, and their degeneracies.

Worst-case discriminant analysis is defined on the range of the total scatter. :class:`ClassScatter`
transforms the data to this range by steps that keep every ratio of scatters: a common shift, a common power
of two, and orthonormal coordinates (the features themselves if they have full rank).

:func:`analyse` finds data that make the ratio trivial before any solve: classes with equal means (the
threshold is zero) and a common null space of the within-class scatters that contains r directions (the
threshold is infinite if it separates all means). Both are decided with tolerances; the functions under
"Proofs" establish which decisions hold exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.extras import extra
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.numerics.rounding import definite, gamma, inflate, norms_upper
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Dense, LowRank, PairwiseDifference, Rows
from sdpfeas.problem.rows.base import sealed
from sdpfeas.problem.sets import SpectralBox
from sdpfeas.problem.validation import require_doubles, require_symmetric

#: Means closer than this, relative to the spread of the data, count as equal.
EQUAL_TOLERANCE = 1e-12

Scatter = Literal["mean", "sum"]


@dataclass(frozen=True)
class ClassScatter:
    """Class means and within-class scatters in the coordinates ``(x @ basis) * scale``, up to a shift.

    ``means`` has one mean per row, centred near zero. ``factors`` holds for each class an array F with
    scatter ``F'F``. ``covariances`` are the scatters themselves where they are not ``F'F`` (given, or
    shrunk). ``basis`` has orthonormal columns, shape (features, rank), and ``scale`` is a power of two.
    ``independent`` states that the samples are provably affinely independent. ``coincident`` holds for every
    class the first class with exactly the same mean, as far as known. ``still`` marks the coordinates in
    which the given data have no scatter; None if unknown.
    """

    means: FloatArray
    factors: tuple[FloatArray, ...]
    covariances: FloatArray | None
    basis: FloatArray
    scale: float
    labels: np.ndarray
    independent: bool = False
    coincident: np.ndarray | None = None
    still: np.ndarray | None = None

    @property
    def c(self) -> int:
        """Number of classes."""
        return int(self.means.shape[0])

    @property
    def k(self) -> int:
        """Number of coordinates."""
        return int(self.means.shape[1])

    def final_dimension(self, n_components: Any) -> int:
        """Validate a final dimension; None stands for the number of classes minus one, at most the rank."""
        if n_components is None:
            return min(self.c - 1, self.k)
        whole = isinstance(n_components, (int, np.integer)) and not isinstance(n_components, bool)
        if not whole or n_components < 1:
            raise ProblemError(f"n_components must be a positive integer, got {n_components!r}")
        if n_components > self.k:
            raise ProblemError(
                f"n_components = {n_components} exceeds {self.k}, the rank of the total scatter: "
                "the data have no more dimensions"
            )
        return int(n_components)

    def rotated(self, q: FloatArray) -> ClassScatter:
        """Return the data in the coordinates ``x @ q``; ``q`` has orthonormal columns."""
        return replace(
            self,
            means=self.means @ q,
            factors=tuple(f @ q for f in self.factors),
            covariances=None if self.covariances is None else symmetrize(q.T @ self.covariances @ q),
            basis=self.basis @ q,
            still=None,
        )

    def feature_powers(self) -> FloatArray:
        """Return powers of two that scale the spread of every coordinate to about one."""
        return power_of_two(self._sizes)

    def stretched(self, powers: FloatArray) -> ClassScatter:
        """Return the data with every coordinate multiplied by a power of two; the basis does not change."""
        covariances = self.covariances
        if covariances is not None:
            covariances = covariances * powers[:, None] * powers
        return replace(
            self,
            means=self.means * powers,
            factors=tuple(f * powers for f in self.factors),
            covariances=covariances,
        )

    def without_last(self, count: int) -> ClassScatter:
        """Return the data with scatters that are exactly zero on the last ``count`` coordinates."""
        keep = np.arange(self.k) < self.k - count
        covariances = self.covariances
        if covariances is not None:
            covariances = covariances * np.outer(keep, keep)
        return replace(self, factors=tuple(f * keep for f in self.factors), covariances=covariances)

    def scatter_rows(self) -> Rows:
        """Return one row per class, in low-rank or dense storage, whichever is smaller."""
        if self.covariances is None and sum(f.shape[0] for f in self.factors) < self.c * self.k:
            counts = [f.shape[0] for f in self.factors]
            if all(counts):
                owner = np.repeat(np.arange(self.c), counts)
                stack = self._stack
                stack = stack if stack.shape[0] == owner.size else stack[: owner.size]
                return LowRank.from_stacked(stack, np.ones(owner.size), owner, self.c)
            return LowRank([f if f.shape[0] else np.zeros((1, self.k)) for f in self.factors])
        return Dense(self.dense())

    def mean_rows(self) -> PairwiseDifference:
        """Return one row per pair of classes."""
        return PairwiseDifference(self.means)

    def dense(self) -> FloatArray:
        """Return all scatters, shape (classes, k, k)."""
        if self.covariances is not None:
            return self.covariances
        return np.array([symmetrize(f.T @ f) for f in self.factors])

    def null_basis(self) -> FloatArray:
        """Return an orthonormal basis adapted to the range of all scatters and their common null space.

        The first :meth:`within_rank` columns span the range, the others the null space.
        """
        span, rank = self._within
        if span is None or rank == 0:
            return np.eye(self.k)
        return np.asarray(scipy.linalg.qr(span)[0])

    def within_rank(self) -> int:
        """Return the dimension of the range of all scatters together."""
        return self._within[1]

    @cached_property
    def _within(self) -> tuple[FloatArray | None, int]:
        """Basis of the range of all scatters (None if it is the whole space) and its dimension."""
        span, rank = row_space(self._stack, self._sizes)
        return (None if rank == self.k else span), rank

    @cached_property
    def _sizes(self) -> FloatArray:
        """Spread of the data in every coordinate."""
        return column_sizes(self._stack, self.means - self.means.mean(axis=0))

    @property
    def _stack(self) -> FloatArray:
        """All factors stacked; a view if they are parts of one array."""
        whole = self.factors[0].base
        rows = sum(f.shape[0] for f in self.factors)
        if whole is not None and whole.shape == (rows, self.k) and all(f.base is whole for f in self.factors):
            return whole
        return np.concatenate([*self.factors, np.zeros((1, self.k))])

    def merged_means(self, groups: np.ndarray) -> ClassScatter:
        """Return the data with one common mean for the classes of each group."""
        means = np.array(self.means)
        for g in np.unique(groups):
            means[groups == g] = means[groups == g].mean(axis=0)
        return replace(self, means=means)

    def equal_means(self, start: int = 0) -> np.ndarray:
        """Return for each class the first with the same mean from coordinate ``start`` on, up to tolerance.

        Means that agree with a common third one agree.
        """
        from scipy.sparse.csgraph import connected_components  # slow to import
        from scipy.spatial.distance import pdist, squareform

        tolerance = EQUAL_TOLERANCE if start == 0 else RANK_TOLERANCE
        scaled = (self.means / self._sizes)[:, start:]
        if not scaled.size:
            return np.zeros(self.c, dtype=np.int64)
        close = squareform(pdist(scaled, "chebyshev") <= tolerance)
        parts = connected_components(sp.csr_array(close), directed=False)[1]
        return np.asarray(np.unique(parts, return_index=True)[1][parts])

    @classmethod
    def from_samples(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        *,
        scatter: Scatter = "mean",
        shrinkage: float | str | None = None,
        weights: FloatArray | None = None,
    ) -> ClassScatter:
        """Compute class means and scatters of labelled samples.

        Constant features (values within ``8·eps`` of the largest) are left out, and so are directions in
        which the samples, every feature scaled to norm one, spread by at most ``RANK_TOLERANCE`` of the
        largest spread. Every bound refers to the remaining subspace. ``scatter`` chooses whether the scatter
        of a class is divided by its number of samples. ``shrinkage`` replaces it by a convex combination
        with a multiple of the identity: with this share, or with that of Ledoit and Wolf.
        """
        if scatter not in ("mean", "sum"):
            raise ProblemError(f"scatter must be 'mean' or 'sum', got {scatter!r}")
        raw, index, labels = _checked_data(X, y)
        weighted = weights is not None
        if weighted and shrinkage == "auto":
            raise ProblemError("shrinkage='auto' does not support weights; give a number")
        weights = np.ones(index.size) if weights is None else _checked_weights(weights, index.size)
        scale = _power(max(float(np.max(raw)), -float(np.min(raw))))
        low, high = raw.min(axis=0) * scale, raw.max(axis=0) * scale
        # Subtracting a rounded mean would turn a constant feature into a tiny one.
        varies = high - low > 8.0 * np.finfo(float).eps * np.maximum(np.abs(low), np.abs(high))
        if not varies.any():
            raise ProblemError("every feature is constant: there is nothing to discriminate by")
        # Samples may fill most of the memory, so they are modified in place from here on.
        data = raw[:, varies]
        data *= scale
        data -= data.mean(axis=0)
        further = _power(max(float(np.max(data)), -float(np.min(data))))
        data *= further
        basis = np.eye(varies.size)[:, varies]
        span, rank = row_space(data, column_sizes(data))
        if rank < data.shape[1]:
            data, basis = data @ span, basis @ span
        del span
        counts = np.bincount(index, weights)
        parts = [(data[index == g], weights[index == g]) for g in range(labels.size)]
        means = np.array([np.average(p, axis=0, weights=w if weighted else None) for p, w in parts])
        del parts
        order = np.argsort(index, kind="stable")
        data = np.ascontiguousarray(data[order])
        data -= means[index[order]]
        if weighted:
            data *= np.sqrt(weights[order])[:, None]
        if shrinkage is None and scatter == "mean":
            data /= np.sqrt(counts)[index[order], None]
        data += 0.0  # no negative zeros
        data = sealed(data)
        factors = tuple(np.split(data, np.cumsum(np.bincount(index))[:-1]))
        factors = tuple(f[:0] if f.shape[0] == 1 else f for f in factors)
        covariances = None
        if shrinkage is not None:
            covariances = _shrunk(factors, counts, shrinkage)
            if scatter == "sum":
                covariances = covariances * counts[:, None, None]
            factors = tuple(_factor(s) for s in covariances)
        out = ClassScatter(means, factors, covariances, basis, scale * further, labels)
        proper = not weighted and shrinkage is None  # of samples with weights nothing exact is known
        independent = proper and rank == index.size - 1 and affinely_independent(raw * scale)
        same = out.equal_means()
        equal = not weighted and np.unique(same).size < same.size
        coincident = equal_exactly(raw, index, same) if equal else None
        still = None
        if shrinkage is None and rank == basis.shape[1] == int(varies.sum()):
            given = (raw[index == g][:, varies] for g in range(labels.size))
            still = np.all([(part == part[0]).all(axis=0) for part in given], axis=0)
        return replace(out, independent=independent, coincident=coincident, still=still)

    @classmethod
    def from_moments(cls, means: ArrayLike, covariances: ArrayLike, *, labels: Any = None) -> ClassScatter:
        """Take class means and scatters as given; ``covariances`` has shape (classes, features, features)."""
        centres = _real(means, "means", 2)
        scatters = _real(covariances, "covariances", 3)
        c, d = centres.shape
        if c < 2:
            raise ProblemError(f"discriminant analysis needs at least two classes, got {c}")
        if scatters.shape != (c, d, d):
            raise ProblemError(
                f"covariances must have shape {(c, d, d)} for these means, got {scatters.shape}"
            )
        still = np.asarray(~scatters.any(axis=(0, 1)))
        mirrored = np.swapaxes(scatters, 1, 2)
        require_symmetric(*(np.abs(m).max(axis=(1, 2)) for m in (scatters - mirrored, scatters)))
        scatters = symmetrize(scatters)
        named = np.arange(c) if labels is None else np.asarray(labels)
        if named.shape != (c,):
            raise ProblemError(f"labels must have {c} entries, got shape {named.shape}")
        coincident = np.array([int(np.argmax((centres == mean).all(axis=1))) for mean in centres])
        centres = centres - centres.mean(axis=0)
        largest = max(float(np.max(np.abs(centres))), float(np.sqrt(np.max(np.abs(scatters)))))
        scale = _power(largest)
        centres, scatters = centres * scale, scatters * scale * scale
        factors = tuple(_factor(s) for s in scatters)
        stack = np.concatenate([*factors, centres])
        if not stack.any():
            raise ProblemError(
                "all means are equal and all scatters zero: there is nothing to discriminate by"
            )
        span, rank = row_space(stack, column_sizes(stack))
        basis = np.eye(d)
        out = ClassScatter(
            centres, factors, scatters, basis, scale, named, coincident=coincident, still=still
        )
        return out if rank == d else out.rotated(span)


def _factor(scatter: FloatArray) -> FloatArray:
    """Return F with ``F'F`` equal to a scatter; eigenvalues at the level of rounding are dropped."""
    # Scaled to unit diagonal first, so that a small feature is not dropped beside a large one.
    size = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))
    unit = np.where(size > 0.0, size, 1.0)
    lam, vec = eigh(symmetrize(scatter / unit[:, None] / unit))
    top = float(np.max(np.abs(lam), initial=0.0))
    rounding = 10.0 * lam.size * np.finfo(float).eps * top
    if lam[0] < -1e4 * rounding:
        raise ProblemError(f"a covariance is not positive semidefinite: it has the eigenvalue {lam[0]:.3g} "
                           f"(the largest is {top:.3g}, features scaled to variance one)")  # fmt: skip
    keep = lam > rounding
    return np.asarray((vec[:, keep] * np.sqrt(lam[keep])).T * unit)


def _shrunk(factors: Sequence[FloatArray], counts: np.ndarray, shrinkage: float | str) -> FloatArray:
    """Return the convex combinations of covariance matrices with multiples of the identity."""
    out = []
    for f, n in zip(factors, counts, strict=True):
        k = f.shape[1]
        covariance = symmetrize(f.T @ f) / n
        share = shrinkage_share(f, shrinkage)
        target = float(np.trace(covariance)) / k * np.eye(k)
        out.append((1.0 - share) * covariance + share * target)
    return np.array(out)


def shrinkage_share(f: FloatArray, shrinkage: float | str) -> float:
    """Return the weight of the identity: the given share, or that of Ledoit and Wolf."""
    if shrinkage == "auto":
        if f.shape[0] < 2:
            return 0.0
        with extra("wlda", "shrinkage='auto'"):
            from sklearn.covariance import ledoit_wolf_shrinkage
        return float(ledoit_wolf_shrinkage(f, assume_centered=True))
    if isinstance(shrinkage, (str, bool)) or not 0.0 <= shrinkage <= 1.0:
        raise ProblemError(f"shrinkage must be 'auto' or a number between 0 and 1, got {shrinkage!r}")
    return float(shrinkage)


def _checked_data(X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, np.ndarray, np.ndarray]:
    data = _real(X, "X", 2)
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.size != data.shape[0]:
        raise ProblemError(f"y must have one label for each of the {data.shape[0]} samples, "
                           f"got shape {labels.shape}")  # fmt: skip
    classes, index = np.unique(labels, return_inverse=True)
    if classes.size < 2:
        raise ProblemError(f"discriminant analysis needs at least two classes, got {classes.size}")
    return data, np.asarray(index), classes


def _checked_weights(values: ArrayLike, count: int) -> FloatArray:
    weights = _real(values, "weights", 1)
    if weights.size != count:
        raise ProblemError(f"weights must be one for each of the {count} samples, got {weights.size}")
    if not np.all(weights > 0.0):
        raise ProblemError("weights must be positive; leave out samples of weight zero")
    return weights


def _real(values: ArrayLike, what: str, ndim: int) -> FloatArray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"dtype {array.dtype}")
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            raise TypeError("entries are masked")
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{what} must be a real array: {error}") from None
    require_doubles(values, what)
    array = np.asarray(array, dtype=np.float64)
    if array.ndim != ndim or array.size == 0:
        raise ProblemError(f"{what} must be a non-empty array of {ndim} dimensions, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ProblemError(f"{what} must be finite: NaN or infinity found")
    return array


def _power(size: float) -> float:
    """Return the power of two that scales a positive size into [1, 2)."""
    if size == 0.0:
        return 1.0
    return float(2.0 ** np.clip(-np.floor(np.log2(size)), -1000, 1000))


# --- Degenerate data: equal means and the common null space

#: Ratio of coordinate sizes above which a warning is given: scatters square it, and proofs have 16 digits.
MAX_SCALE_RATIO = 1e8


@dataclass(frozen=True)
class ScatterAnalysis:
    """Class scatters in the form in which problems are built, and their degeneracies.

    ``scatter`` has exactly equal means where they are equal up to tolerance, and scatters that are exactly
    zero on ``null``. Problems are built from ``core``. Classes within each group of ``compared`` are
    compared; ``groups`` are the groups of the caller. ``same`` holds for every class the first class with its
    mean. ``null_dim`` is the dimension of the common null space of the scatters, and ``null`` that space if
    it contains r directions. ``separated`` states that all means provably differ on it. ``vacuous`` states
    that it makes every ratio feasible although none is attained.
    """

    scatter: ClassScatter
    core: ClassScatter
    trace: int
    compared: list[np.ndarray]
    groups: list[np.ndarray]
    same: np.ndarray
    null_dim: int
    null: NullSpace | None = None
    vacuous: bool = False
    notes: tuple[str, ...] = ()
    separated: bool = False

    @cached_property
    def coincide(self) -> bool:
        """Whether two means that are compared are equal up to tolerance."""
        return any(np.unique(self.same[group]).size < group.size for group in self.groups)

    @cached_property
    def coincide_exactly(self) -> bool:
        """Whether two means that are compared are provably equal."""
        same = self.scatter.coincident
        return same is not None and any(np.unique(same[group]).size < group.size for group in self.groups)

    def alike(self) -> list[np.ndarray]:
        """Return the groups of at least two classes with the same mean."""
        return [group for group in split(np.arange(self.same.size), self.same) if group.size > 1]

    def distinct(self) -> list[np.ndarray]:
        """Return the groups with one class per mean, if at least two classes remain."""
        kept = [np.array([part[0] for part in split(group, self.same[group])]) for group in self.groups]
        return [group for group in kept if group.size > 1]


def analyse(scatter: ClassScatter, r: int, groups: list[np.ndarray]) -> ScatterAnalysis:
    """Find equal means and the common null space of the scatters, and choose the core data."""
    notes: tuple[str, ...] = ()
    if scatter.k < scatter.basis.shape[0]:
        notes += (f"the total scatter has rank {scatter.k} of {scatter.basis.shape[0]} features",)
    same = scatter.equal_means()
    if any(np.unique(same[group]).size < group.size for group in groups):
        notes += ("two classes have the same mean",)
    if np.unique(same).size < scatter.c:
        scatter = scatter.merged_means(same)
    null_dim = scatter.k - scatter.within_rank()
    plain = ScatterAnalysis(scatter, scatter, r, groups, groups, same, null_dim, notes=notes)
    if null_dim < r:
        return plain
    found = _split_null(plain, r)
    # Proved about the data as given, before small entries were set to zero.
    exactly = found.null is not None and separated_exactly(plain.scatter, r, groups, RANK_TOLERANCE)
    return replace(found, separated=exactly)


def _split_null(found: ScatterAnalysis, r: int) -> ScatterAnalysis:
    """Rotate the common null space to the last coordinates, and drop it if it only makes ratios vacuous."""
    q, inside = found.null_dim, found.scatter.within_rank()
    turned = found.scatter.rotated(found.scatter.null_basis()).without_last(q)
    alike = turned.equal_means(start=inside)
    stuck = [part for group in found.groups for part in split(group, alike[group]) if part.size > 1]
    same, groups = found.same, found.groups
    if not stuck:
        note = f"the class scatters share a null space of dimension {q}, in which all means differ"
        null = NullSpace(turned, inside, [])
        return ScatterAnalysis(turned, turned, r, groups, groups, same, q, null, notes=(*found.notes, note))
    if inside == 0:
        return ScatterAnalysis(turned, turned, r, groups, groups, same, q, notes=found.notes)
    note = (
        f"the class scatters share a null space of dimension {q}, on which some means agree: every "
        "ratio is feasible there, as 0 >= delta·0, but none is attained"
    )
    null = NullSpace(turned, inside, stuck)
    core = turned.rotated(np.eye(turned.k)[:, :inside])
    return ScatterAnalysis(turned, core, 1, stuck, groups, same, q, null, True, (*found.notes, note))


def unbounded(found: ScatterAnalysis, r: int) -> str:
    """Return the reason why the ratio is unbounded, and whether that is proved."""
    return (
        f"the class scatters share a null space of dimension {found.null_dim} >= r = {r} on which all class "
        f"means differ: the ratio is unbounded{'' if found.separated else TOLERANCE_NOTE}"
    )


def scale_caveat(scatter: ClassScatter) -> str:
    """Return a warning if coordinates differ in size by more than proofs tolerate; else an empty string."""
    powers = scatter.feature_powers()
    spread = float(np.max(powers) / np.min(powers))
    if spread <= MAX_SCALE_RATIO:
        return ""
    return (
        f"features differ in size by {math.log10(spread):.0f} orders of magnitude, more than proofs allow: "
        "bounds may stay loose, and the upper one infinite; scale the features"
    )


@dataclass(frozen=True)
class NullSpace:
    """Data rotated such that the last coordinates are the common null space of the class scatters.

    ``inside`` is the number of leading coordinates, and ``stuck`` the groups of classes whose means agree on
    the null space.
    """

    turned: ClassScatter
    inside: int
    stuck: list[np.ndarray]

    def part(self) -> ClassScatter:
        """Return the data on the null space."""
        return self.turned.rotated(np.eye(self.turned.k)[:, self.inside :])

    def fill(self, z: FloatArray, r: int, ratio: float) -> FloatArray:
        """Extend a matrix on the range of the scatters to the null space without lowering its ratio."""
        n = self.turned.k - self.inside
        apart = self.part().mean_rows().apply(np.eye(n)) / n
        scatter = float(
            np.max(np.einsum("kij,ij->k", self.turned.dense()[:, : self.inside, : self.inside], z))
        )
        far = apart[apart > 0.0]
        limit = (r - 0.5) * float(np.min(far, initial=math.inf)) / max(2.0 * ratio * scatter, 1e-300)
        share = min(0.5, limit)
        whole = np.zeros((self.turned.k, self.turned.k))
        whole[: self.inside, : self.inside] = share * z
        rest = np.arange(self.inside, self.turned.k)
        whole[rest, rest] = (r - share * float(np.trace(z))) / n
        return whole


def split(group: np.ndarray, keys: np.ndarray) -> list[np.ndarray]:
    """Split a group into parts with equal keys."""
    return [group[keys == key] for key in np.unique(keys)]


# --- Proofs about degenerate data

#: Appended to a reason that rests on a tolerance.
TOLERANCE_NOTE = ", up to rounding (decided with a tolerance, not proven)"

#: Largest number of entries that are summed as fractions.
MAX_EXACT_NUMBERS = 200_000

#: Relative distance of samples below which affine independence is not attempted, since squares may underflow.
MIN_DISTANCE = 1e-100


def affinely_independent(data: FloatArray) -> bool:
    """Prove that no sample lies in the affine hull of the others; entries are of size about one at most.

    Then some linear map sends every sample of a class to one vertex of a simplex. Hence the scatters share a
    null space whose dimension is the number of classes minus one, and all means differ on it.
    """
    apart = data[1:] - data[0]
    sizes = norms_upper(apart)
    if apart.shape[0] > apart.shape[1] or not np.all(sizes > MIN_DISTANCE):
        return False
    apart = np.ldexp(apart, -np.frexp(sizes)[1][:, None])
    n, d = apart.shape
    # Rounding errors of the differences and of their products (norms are at most one), then underflow.
    error = inflate(gamma(d + 8) * n, 4) + n * d * 1e-180
    return definite(symmetrize(apart @ apart.T), shift=float(inflate(error, 4)))


def equal_exactly(data: FloatArray, index: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Group classes whose samples have exactly the same mean, in rational arithmetic.

    ``same`` holds for every class the first class whose mean is the same up to rounding. Large data are not
    checked.
    """
    out = np.arange(same.size)
    wanted = np.flatnonzero(np.bincount(same, minlength=same.size)[same] > 1)
    if int(np.isin(index, wanted).sum()) * data.shape[1] > MAX_EXACT_NUMBERS:
        return out
    means: dict[tuple[Fraction, ...], int] = {}
    for g in wanted:
        rows = data[index == g].tolist()
        sums = (sum(map(Fraction, column), Fraction(0)) for column in zip(*rows, strict=True))
        mean = tuple(total / len(rows) for total in sums)
        out[g] = means.setdefault(mean, int(g))
    return out


def separated_exactly(scatter: ClassScatter, r: int, groups: Sequence[np.ndarray], tolerance: float) -> bool:
    """Prove that the ratio is unbounded: all means differ on coordinates without any scatter.

    Means must differ by ``tolerance`` relative to their size, far above rounding.
    """
    if scatter.independent and r < scatter.c:
        return True
    if scatter.still is None or int(scatter.still.sum()) < r:
        return False
    means = scatter.means[:, scatter.still]
    apart = np.max(np.abs(means[:, None, :] - means[None, :, :]), axis=2)
    far = apart > tolerance * float(np.max(np.abs(scatter.means)))
    return all(far[np.ix_(group, group)][~np.eye(group.size, dtype=bool)].all() for group in groups)


def always_scattered(box: SpectralBox, scatters: Rows) -> bool:
    """Prove that every point has positive scatter, so that equal means exclude every positive ratio."""
    total, error = scatters.enclose_adjoint(-np.ones(scatters.m))
    return box.support_upper(total, error, 0.0, None)[0] < 0.0


# --- Numerical rank

#: Relative singular values below this count as zero, every feature scaled to norm one: far above rounding,
#: far below the accuracy of measurements.
RANK_TOLERANCE = 1e-10

#: Full rank is decided by a Cholesky factorisation if all singular values are above this share of the largest
#: possible one. The Gram matrix squares them, so that the share must exceed the square root of the unit
#: roundoff.
FULL_RANK_SHARE = 1e-5

#: Rows that are scaled at a time, to avoid a copy of the samples.
STRIP_ROWS = 1024


def row_space(stack: FloatArray, size: FloatArray) -> tuple[FloatArray, int]:
    """Return an orthonormal basis of the row space and its dimension, with columns scaled by ``size``."""
    if _has_full_rank(stack, size):
        return np.eye(stack.shape[1]), stack.shape[1]
    scaled = stack / size
    _, singular, right = scipy.linalg.svd(scaled, full_matrices=False, lapack_driver="gesdd")
    # Columns are scaled to norm one, so the limit is absolute if all entries are at the level of rounding.
    rank = int(np.sum(singular > RANK_TOLERANCE * max(float(singular[0]), 1.0))) if singular.size else 0
    if rank == 0:
        return np.zeros((stack.shape[1], 0)), 0
    # The row space of (stack / size)·diag(size) is spanned by the scaled right vectors.
    q, _ = scipy.linalg.qr(size[:, None] * right[:rank].T, mode="economic")
    return np.asarray(q), rank


def _has_full_rank(stack: FloatArray, size: FloatArray) -> bool:
    """Return whether a Cholesky factorisation shows that the scaled columns have full rank."""
    if stack.shape[0] < stack.shape[1]:
        return False
    gram = np.zeros((stack.shape[1], stack.shape[1]))
    for start in range(0, stack.shape[0], STRIP_ROWS):
        part = stack[start : start + STRIP_ROWS] / size
        gram += part.T @ part
    gram[np.diag_indices_from(gram)] -= FULL_RANK_SHARE**2 * stack.shape[1]
    return bool(scipy.linalg.lapack.dpotrf(gram.T, lower=1, overwrite_a=1)[1] == 0)


def column_sizes(*stacks: FloatArray) -> FloatArray:
    """Return the norms of the columns of stacked arrays, one for zero columns, without overflow."""
    width = stacks[0].shape[1]
    ends = [
        part
        for stack in stacks
        for part in (np.max(stack, axis=0, initial=0.0), -np.min(stack, axis=0, initial=0.0))
    ]
    largest = np.max(ends, axis=0)
    largest = np.where(largest > 0.0, largest, 1.0)
    squares = np.zeros(width)  # of what was scaled, so that they neither under- nor overflow
    for stack in stacks:
        for start in range(0, stack.shape[0], STRIP_ROWS):
            squares += np.sum((stack[start : start + STRIP_ROWS] / largest) ** 2, axis=0)
    size = largest * np.sqrt(squares)
    return np.where(size > 0.0, size, 1.0)
