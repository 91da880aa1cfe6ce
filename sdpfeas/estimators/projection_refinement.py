"""Improve a worst-case criterion of a projection itself, over all r-dimensional subspaces.

A minimum (or a maximum) over classes or groups is smoothed, and raised by L-BFGS, first smooth, then sharp. A
subspace is given by any basis of it, so that there is no constraint: the gradient follows from that of the
projector. Only what is really better, by the definition, is taken.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from sdpfeas.families.class_scatter import RANK_TOLERANCE, ClassScatter
from sdpfeas.families.projection_problems import GroupCovariances
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.problem.rows.pairwise import pair_indices

#: Sharpness of the smoothed minimum and maximum, stage by stage.
SHARPNESS = (10.0, 100.0, 1e3, 1e4, 1e5)

#: Steps of L-BFGS a stage.
STEPS = 200

#: Starts that are nudged at random, and how far.
NUDGES, NUDGE = 3, 0.5


class Objective(Protocol):
    """What is to be large at a projection, given by orthonormal columns."""

    def value(self, A: FloatArray) -> float:
        """What a projection attains, by the definition."""

    def smoothed(self, A: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """A smooth stand-in for minus an increasing function of the value, and its gradient in ``A``."""

    def units(self) -> FloatArray:
        """Upper triangular factor of coordinates in which directions have about the same size."""

    def guess(self, r: int) -> FloatArray:
        """Orthonormal columns of another projection worth starting from."""


def refine_projection(objective: Objective, A: FloatArray, target: float = np.inf) -> FloatArray:
    """Find a projection whose value is at least that of a given one.

    ``A``: orthonormal columns in the coordinates of the objective. ``target``: a value that is good enough.

    Returns: orthonormal columns; ``A`` itself if nothing better was found.
    """
    k, r = A.shape
    best, value = A, objective.value(A)
    if r == k:
        return A
    rng = np.random.default_rng(0)
    starts = [A, objective.guess(r)]
    # Both may be saddle points where the data are symmetric; a nudge gets off.
    starts += [A + NUDGE * rng.standard_normal(A.shape) / np.sqrt(k) for _ in range(NUDGES)]
    for start in starts:
        if value >= target:
            break
        found = _climb(objective, start)
        reached = objective.value(found)
        if reached > value:
            best, value = found, reached
    return best


def _climb(objective: Objective, A: FloatArray) -> FloatArray:
    units = objective.units()
    U = scipy.linalg.solve_triangular(units, A, lower=False)
    best, _ = np.linalg.qr(A)
    value = objective.value(best)
    for sharpness in SHARPNESS:
        U, _ = np.linalg.qr(U)
        answer = minimize(
            _smoothed,
            U.ravel(),
            args=(objective, units, sharpness),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-9},
        )
        if not np.isfinite(answer.x).all():
            break
        U = answer.x.reshape(U.shape)
        W, _ = np.linalg.qr(units @ U)
        reached = objective.value(W)
        if reached > value:
            best, value = W, reached
    return best


def _smoothed(
    flat: FloatArray, objective: Objective, units: FloatArray, sharpness: float
) -> tuple[float, FloatArray]:
    """The smoothed objective at the span of ``units @ U``, and its gradient in U."""
    U = flat.reshape(units.shape[0], -1)
    W, R = np.linalg.qr(units @ U)
    value, G = objective.smoothed(W, sharpness)
    G = G - W @ (W.T @ G)
    corner = np.abs(np.diagonal(R))
    # Where means coincide, or columns do, there is no direction to go in.
    if not np.isfinite(G).all() or not np.min(corner) > 1e-14 * np.max(corner):
        return value, np.zeros(flat.size)
    gradient = units.T @ scipy.linalg.solve_triangular(R, G.T, lower=False).T
    return value, gradient.ravel()


def soft_maximum(values: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
    """Smoothed maximum, and its gradient."""
    top = float(np.max(values))
    shares = np.exp(sharpness * (values - top))
    total = float(shares.sum())
    return top + np.log(total) / sharpness, shares / total


# ------------------------------------------------------------
# The worst-case ratio of a projection, by its definition.

#: Squares below this share of the whole are rounding, where directions without any scatter are looked for:
#: the square of what counts as zero in a null space.
ROUNDING = RANK_TOLERANCE**2


class Criterion:
    """Least squared distance of projected means over largest projected class scatter.

    Directions are given in the coordinates of the range of the data, see :attr:`basis`.

    ``floor``: scatters and squared distances below this share of the whole count as none. ``bounded``:
    whether no ratio is infinite, so that a projection without scatter has none worth naming: zero.

    ``basis``: orthonormal columns that span the range of the data, shape (features, coordinates).
    ``means``: one class mean a row; equal ones are exactly equal. ``factors``: for each class an array F,
    with no more rows than coordinates, such that its scatter is ``F'F``. ``stack, owner``: all of them, one
    below the other, and the class of every row. ``first, second``: the two classes of every pair.
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
        """Differences of class means, one pair a row."""
        return np.asarray(self.means[self.first] - self.means[self.second])

    def values(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Squared distances of the projected means, pair by pair, and projected scatters, class by class."""
        projected = self.means @ A
        distances = np.sum((projected[self.first] - projected[self.second]) ** 2, axis=1)
        rows = np.sum((self.stack @ A) ** 2, axis=1)
        scatters = np.zeros(self.means.shape[0])
        np.add.at(scatters, self.owner, rows)
        return distances, scatters

    def ratio(self, A: FloatArray) -> float:
        """Ratio a projection attains."""
        distances, scatters = self.values(A)
        least, most = float(np.min(distances)), float(np.max(scatters))
        if most <= self._none:
            return math.inf if least > self._none and not self._bounded else 0.0
        return least / most

    def value(self, A: FloatArray) -> float:
        """The ratio, as what refinement raises."""
        return self.ratio(A)

    def guess(self, r: int) -> FloatArray:
        """The classical directions, as where refinement may start."""
        return self.discriminant(r)

    def units(self) -> FloatArray:
        """Upper triangular factor of coordinates in which all classes together have about unit scatter."""
        stack = np.concatenate([self.stack, self.differences()])
        size = np.sqrt(np.sum(stack * stack, axis=0))
        size = np.where(size > 0.0, size, 1.0)
        floor = 1e-5 * np.eye(self.k)
        triangle = scipy.linalg.qr(np.concatenate([stack / size, floor]), mode="economic")[1]
        inverse = scipy.linalg.solve_triangular(triangle, np.eye(self.k), lower=False)
        return np.asarray(inverse / size[:, None])

    def smoothed(self, A: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """Minus the logarithm of the smoothed ratio, and its gradient.

        ``sharpness``: how closely minimum and maximum are followed.
        """
        distances, scatters = self.values(A)
        tiny = 1e-300
        low, u = soft_maximum(-np.log(distances + tiny), sharpness)
        high, w = soft_maximum(np.log(scatters + tiny), sharpness)
        u, w = u / (distances + tiny), w / (scatters + tiny)
        differences = self.differences()
        G = self.stack.T @ (w[self.owner, None] * (self.stack @ A))
        G -= differences.T @ (u[:, None] * (differences @ A))
        return float(low + high), 2.0 * G

    def discriminant(self, r: int) -> FloatArray:
        """Orthonormal columns that span the r leading directions of the classical analysis."""
        centred = self.means - self.means.mean(axis=0)
        within = self.stack.T @ self.stack
        size = float(np.trace(within)) + float(np.sum(centred * centred))
        within = within / size + 1e-12 * np.eye(self.k)
        _, vec = scipy.linalg.eigh(centred.T @ centred / size, within)
        q, _ = np.linalg.qr(vec[:, ::-1][:, :r])
        return np.asarray(q)


class MinVarianceObjective:
    """The least over the groups of the variance that is kept, less an offset: what refinement raises.

    ``offsets``: what is taken off the variance of each.
    """

    def __init__(self, groups: GroupCovariances, offsets: FloatArray) -> None:
        self._groups, self._offsets = groups, offsets

    @cached_property
    def _size(self) -> float:
        return float(np.max(self._groups.most(self._groups.k), initial=0.0)) or 1.0

    def value(self, A: FloatArray) -> float:
        """The least."""
        return float(np.min(self._groups.kept(A) - self._offsets))

    def smoothed(self, A: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """Minus the smoothed least, relative to the whole variance, and its gradient."""
        values, shares = soft_maximum((self._offsets - self._groups.kept(A)) / self._size, sharpness)
        G = np.zeros(A.shape)
        for share, f in zip(shares, self._groups.factors, strict=True):
            G -= (2.0 * share / self._size) * (f.T @ (f @ A))
        return values, G

    def units(self) -> FloatArray:
        """Coordinates as they are."""
        return np.eye(self._groups.k)

    def guess(self, r: int) -> FloatArray:
        """Principal directions of all groups, each counting the same."""
        total = sum(f.T @ f for f in self._groups.factors)
        _, vec = eigh(symmetrize(np.asarray(total)))
        return np.asarray(vec[:, ::-1][:, :r])


def _compressed(factor: FloatArray) -> FloatArray:
    if factor.shape[0] <= factor.shape[1]:
        return factor
    return np.asarray(scipy.linalg.qr(factor, mode="r")[0][: factor.shape[1]])
