"""Improvement of a projection with respect to a worst-case objective, over all r-dimensional subspaces.

The objective has many local maxima if the number of new features is small. Starts are the rounded solution
of the relaxation, classical directions, and the best of many randomised roundings of the relaxed matrix Z:
``Z^(1/2) G`` with Gaussian ``G``. The minimum or maximum over classes or groups is smoothed by log-sum-exp
and optimised by L-BFGS with increasing sharpness (homotopy): a few iterations from every start, then until
convergence from the best. A subspace is represented by any basis, so that the optimisation is
unconstrained. A result is accepted only if it improves the exact objective. Random numbers are seeded, and
effort is counted in evaluations, so that results do not depend on the machine's load.
:func:`refine_projection` is the entry point; the objectives are :class:`RatioObjective` (discriminant
analysis) and :class:`MinVarianceObjective` (fair PCA).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from sdpfeas.families.class_scatter import RANK_TOLERANCE, ClassScatter
from sdpfeas.families.projection_problems import GroupCovariances
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.problem.rows.pairwise import pair_indices

#: Sharpness of the smoothed minimum and maximum (log-sum-exp), stage by stage: to compare starts, and to
#: converge. Starting at 1 instead of 10 ends up to 20 % higher on digits, r = 2, and lower on the grid of the
#: Balance data, so every other rounding starts at 10.
SOFT_SHARPNESS, HARD_SHARPNESS = (1.0, 3.0, 10.0, 30.0), (10.0, 30.0)
FINE_SHARPNESS = (30.0, 100.0, 300.0, 1e3, 1e4, 1e5)

#: Cap on L-BFGS iterations per stage.
COARSE_ITERATIONS, FINE_ITERATIONS = 30, 200

#: Numbers of randomised roundings that are drawn, of these that become starts, and of starts that are
#: optimised until convergence.
ROUNDINGS, ROUNDED_STARTS, FINE_STARTS = 500, 12, 4

#: Starts whose values agree to this relative tolerance after the comparison are taken to be the same.
SAME_VALUE = 1e-5

#: Share of the evaluations that drawing and comparing starts may use.
COARSE_SHARE = 0.5

#: Relative size of the perturbation of the start that replaces Z if none is given.
PERTURBATION = 0.5


class ProjectionObjective(Protocol):
    """Function to be maximised over projections, given by orthonormal columns."""

    def value(self, A: FloatArray) -> float:
        """Return the value of a projection."""

    def smoothed(self, A: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """Return a smoothed decreasing function of the value and its gradient in ``A``."""

    def preconditioner(self) -> FloatArray:
        """Return an upper triangular factor of coordinates in which directions have comparable size."""

    def initial_projection(self, r: int) -> FloatArray:
        """Return orthonormal columns of another start."""


def refine_projection(
    objective: ProjectionObjective,
    A: FloatArray,
    target: float = np.inf,
    *,
    relaxed: FloatArray | None = None,
    evaluations: int | None = None,
) -> FloatArray:
    """Find a projection whose value is at least that of ``A``, and stop once it reaches ``target``.

    ``A`` has orthonormal columns in the coordinates of the objective, and is returned itself if nothing
    better is found. ``relaxed`` is the matrix Z of the relaxation, in the same coordinates. ``evaluations``
    limits the number of evaluations of the objective.
    """
    k, r = A.shape
    if r == k:
        return A
    search = _Search(objective, A, target, math.inf if evaluations is None else evaluations)
    reserved = 0.0 if evaluations is None else evaluations * (1.0 - COARSE_SHARE)
    compared: list[tuple[float, FloatArray]] = []
    for start, stages in _starts(objective, A, relaxed, search):
        if search.done or (compared and search.left <= reserved):
            break
        value, U = search.maximise(start, stages, COARSE_ITERATIONS)
        if not any(abs(value - other) <= SAME_VALUE * abs(other) for other, _ in compared):
            compared.append((value, U))
    compared.sort(key=lambda pair: -pair[0])
    for _, U in compared[:FINE_STARTS]:
        if search.done:
            break
        search.maximise(U, FINE_SHARPNESS, FINE_ITERATIONS)
    return search.best


def _starts(
    objective: ProjectionObjective, A: FloatArray, relaxed: FloatArray | None, search: _Search
) -> Iterator[tuple[FloatArray, tuple[float, ...]]]:
    """Yield starts and stages: ``A``, classical directions, and the best of randomised roundings of Z."""
    k, r = A.shape
    yield search.coordinates(A), SOFT_SHARPNESS
    yield search.coordinates(objective.initial_projection(r)), SOFT_SHARPNESS
    rng = np.random.default_rng(0)
    if relaxed is None:
        # Both starts above may be saddle points of symmetric data; perturbations escape.
        root = np.hstack([A, PERTURBATION / math.sqrt(k) * np.eye(k)])
    else:
        val, vec = eigh(symmetrize(relaxed))
        root = vec * np.sqrt(np.maximum(val, 0.0))
    drawn = []
    for _ in range(int(min(ROUNDINGS, search.left / 4))):
        W, _ = np.linalg.qr(root @ rng.standard_normal((root.shape[1], r)))
        drawn.append((search.value(W), W))
    drawn.sort(key=lambda pair: -pair[0])
    for i, (_, W) in enumerate(drawn[:ROUNDED_STARTS]):
        yield search.coordinates(W), SOFT_SHARPNESS if i % 2 else HARD_SHARPNESS


class _Search:
    """The best projection found, and the evaluations that are left.

    Optimisation runs in the coordinates U of ``factor @ U``, with ``factor`` the preconditioner.
    """

    def __init__(self, objective: ProjectionObjective, A: FloatArray, target: float, left: float) -> None:
        self._objective, self._target, self.left = objective, target, left
        self._factor = objective.preconditioner()
        self.best, self._most = A, objective.value(A)

    @property
    def done(self) -> bool:
        """Whether the target is reached or no evaluation is left."""
        return self._most >= self._target or self.left < 1

    def coordinates(self, A: FloatArray) -> FloatArray:
        """Return U with ``factor @ U = A``."""
        return np.asarray(scipy.linalg.solve_triangular(self._factor, A, lower=False))

    def value(self, W: FloatArray) -> float:
        """Return the exact value of orthonormal columns, and keep them if they are the best."""
        self.left -= 1
        value = self._objective.value(W)
        if value > self._most:
            self.best, self._most = W, value
        return value

    def maximise(self, U: FloatArray, stages: tuple[float, ...], iterations: int) -> tuple[float, FloatArray]:
        """Maximise the smoothed objective stage by stage; return the last exact value and its U."""
        value = -math.inf
        for sharpness in stages:
            if self.done:
                break
            U, _ = np.linalg.qr(U)
            answer = minimize(
                _smoothed,
                U.ravel(),
                args=(self._objective, self._factor, sharpness),
                jac=True,
                method="L-BFGS-B",
                options={
                    "maxiter": iterations,
                    "maxfun": int(min(self.left, 10 * iterations)),
                    "maxcor": 20,
                    "ftol": 1e-12,
                    "gtol": 1e-9,
                },
            )
            self.left -= answer.nfev
            if not np.isfinite(answer.x).all():
                break
            U = answer.x.reshape(U.shape)
            W, _ = np.linalg.qr(self._factor @ U)
            value = self.value(W)
        return value, U


def _smoothed(
    flat: FloatArray, objective: ProjectionObjective, factor: FloatArray, sharpness: float
) -> tuple[float, FloatArray]:
    """Return the smoothed objective at the span of ``factor @ U`` and its gradient in U."""
    U = flat.reshape(factor.shape[0], -1)
    W, R = np.linalg.qr(factor @ U)
    value, G = objective.smoothed(W, sharpness)
    G = G - W @ (W.T @ G)
    corner = np.abs(np.diagonal(R))
    # If means or columns coincide the gradient is undefined.
    if not np.isfinite(G).all() or not np.min(corner) > 1e-14 * np.max(corner):
        return value, np.zeros(flat.size)
    gradient = factor.T @ scipy.linalg.solve_triangular(R, G.T, lower=False).T
    return value, gradient.ravel()


def smooth_maximum(values: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
    """Return the log-sum-exp approximation of the maximum and its gradient."""
    top = float(np.max(values))
    shares = np.exp(sharpness * (values - top))
    total = float(shares.sum())
    return top + np.log(total) / sharpness, shares / total


#: Squares below this share of the total count as zero if the data have directions without scatter: the square
#: of the tolerance of a null space.
ZERO_SCATTER_SHARE = RANK_TOLERANCE**2


class RatioObjective:
    """Least squared distance of projected class means over the largest projected within-class scatter.

    Directions are given in the coordinates of ``basis``, orthonormal columns that span the range of the data.
    Scatters and squared distances below the share ``floor`` of the total count as zero. With ``bounded`` a
    projection without scatter has value zero instead of infinity. ``factors`` holds for each class an array F
    with scatter ``F'F``, ``stack`` all of them stacked, and ``owner`` the class of every row; ``first`` and
    ``second`` are the classes of every pair.
    """

    def __init__(self, scatter: ClassScatter, floor: float = 0.0, bounded: bool = False) -> None:
        self._bounded = bounded
        scatter = scatter.merged_means(scatter.equal_means())
        self.basis = scatter.basis
        self.means = scatter.means
        self.factors = tuple(_compressed(f) for f in scatter.factors)
        self.stack = np.concatenate(self.factors)
        self.owner = np.repeat(np.arange(scatter.c), [f.shape[0] for f in self.factors])
        self.first, self.second = pair_indices(scatter.c)
        self._none = floor * (float(np.sum(self.stack**2)) + float(np.sum(self.differences() ** 2)))

    @property
    def k(self) -> int:
        """Number of coordinates."""
        return int(self.means.shape[1])

    def differences(self) -> FloatArray:
        """Return the differences of class means, one pair per row."""
        return np.asarray(self.means[self.first] - self.means[self.second])

    def values(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return squared distances of projected means per pair, and projected scatters per class."""
        projected = self.means @ A
        distances = np.sum((projected[self.first] - projected[self.second]) ** 2, axis=1)
        rows = np.sum((self.stack @ A) ** 2, axis=1)
        return distances, np.bincount(self.owner, rows, self.means.shape[0]).astype(np.float64, copy=False)

    def value(self, A: FloatArray) -> float:
        """Return the worst-case ratio of a projection."""
        distances, scatters = self.values(A)
        least, most = float(np.min(distances)), float(np.max(scatters))
        if most <= self._none:
            return math.inf if least > self._none and not self._bounded else 0.0
        return least / most

    def preconditioner(self) -> FloatArray:
        """Return an upper triangular factor of coordinates with about unit total scatter."""
        stack = np.concatenate([self.stack, self.differences()])
        size = np.sqrt(np.sum(stack * stack, axis=0))
        size = np.where(size > 0.0, size, 1.0)
        floor = 1e-5 * np.eye(self.k)
        triangle = scipy.linalg.qr(np.concatenate([stack / size, floor]), mode="economic")[1]
        inverse = scipy.linalg.solve_triangular(triangle, np.eye(self.k), lower=False)
        return np.asarray(inverse / size[:, None])

    def smoothed(self, A: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """Return minus the logarithm of the smoothed ratio and its gradient."""
        distances, scatters = self.values(A)
        tiny = 1e-300
        low, u = smooth_maximum(-np.log(distances + tiny), sharpness)
        high, w = smooth_maximum(np.log(scatters + tiny), sharpness)
        u, w = u / (distances + tiny), w / (scatters + tiny)
        differences = self.differences()
        G = self.stack.T @ (w[self.owner, None] * (self.stack @ A))
        G -= differences.T @ (u[:, None] * (differences @ A))
        return float(low + high), 2.0 * G

    def initial_projection(self, r: int) -> FloatArray:
        """Return orthonormal columns that span the r leading directions of classical LDA."""
        centred = self.means - self.means.mean(axis=0)
        within = self.stack.T @ self.stack
        size = float(np.trace(within)) + float(np.sum(centred * centred))
        within = within / size + 1e-12 * np.eye(self.k)
        _, vec = scipy.linalg.eigh(centred.T @ centred / size, within)
        q, _ = np.linalg.qr(vec[:, ::-1][:, :r])
        return np.asarray(q)


class MinVarianceObjective:
    """Least variance over the groups that a projection preserves, minus an offset per group."""

    def __init__(self, groups: GroupCovariances, offsets: FloatArray) -> None:
        self._groups, self._offsets = groups, offsets

    @cached_property
    def _size(self) -> float:
        return float(np.max(self._groups.most(self._groups.k), initial=0.0)) or 1.0

    def value(self, A: FloatArray) -> float:
        """Return the least preserved variance minus offset."""
        return float(np.min(self._groups.kept(A) - self._offsets))

    def smoothed(self, A: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """Return minus the smoothed minimum, relative to the total variance, and its gradient."""
        values, shares = smooth_maximum((self._offsets - self._groups.kept(A)) / self._size, sharpness)
        G = np.zeros(A.shape)
        for share, f in zip(shares, self._groups.factors, strict=True):
            G -= (2.0 * share / self._size) * (f.T @ (f @ A))
        return values, G

    def preconditioner(self) -> FloatArray:
        """Return the identity."""
        return np.eye(self._groups.k)

    def initial_projection(self, r: int) -> FloatArray:
        """Return the principal directions of the sum of the covariance matrices of all groups."""
        total = sum(f.T @ f for f in self._groups.factors)
        _, vec = eigh(symmetrize(np.asarray(total)))
        return np.asarray(vec[:, ::-1][:, :r])


def _compressed(factor: FloatArray) -> FloatArray:
    """Return a factor with the same Gram matrix and at most as many rows as columns."""
    if factor.shape[0] <= factor.shape[1]:
        return factor
    return np.asarray(np.linalg.qr(factor, mode="r"))
