"""Maximise a worst-case objective over all r-dimensional subspaces, from many starts at once.

The objective has many local maxima if the number of new features is small. Starts are the rounded solution
of the relaxation, classical directions, and the best of many randomised roundings of the relaxed matrix Z:
``Z^(1/2) G`` with Gaussian ``G``. The minimum or maximum over classes or groups is smoothed by log-sum-exp
and optimised by L-BFGS with increasing sharpness (homotopy), from all starts at once: this costs little more
than from one, since they share every matrix product. The best go on from stage to stage. Further rounds begin
with perturbations of the best projections and with other roundings. A subspace is represented by any basis,
so that the optimisation is unconstrained. A result is accepted only if it improves the exact objective.
Random numbers are seeded, and effort is counted in operations, so that results do not depend on the machine's
load.
:func:`refine_projection` is the entry point; the objectives are :class:`RatioObjective` (discriminant
analysis) and :class:`MinVarianceObjective` (fair PCA).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import scipy.linalg

from sdpfeas.families.class_scatter import RANK_TOLERANCE, ClassScatter
from sdpfeas.families.projection_problems import GroupCovariances
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.problem.rows.pairwise import pair_indices

#: Sharpness of the smoothed minimum and maximum (log-sum-exp), and share of the starts that go on, stage by
#: stage. Starting at 1 instead of 10 ends up to 20 % higher on digits, r = 2, and lower on the grid of the
#: Balance data, so every other start begins at 10.
STAGES = (
    ((1.0, 10.0), 1.0),
    ((3.0, 10.0), 1.0),
    ((10.0, 30.0), 1.0),
    ((30.0,), 0.5),
    ((100.0,), 0.25),
    ((1e3,), 0.25),
    ((1e4,), 0.25),
)

#: Cap on the evaluations of a stage, with one component and with more.
EVALUATIONS_OF_ONE, EVALUATIONS = 20, 30

#: Least sharpness of the last start of a round, which is never dropped: the directions of classical LDA or
#: PCA, then the best projection found. Other local methods begin there, and more smoothing would leave the
#: local maximum.
NEAR_SHARPNESS = 10.0

#: Cap on the randomised roundings that are drawn, and on their share of the effort.
ROUNDINGS, ROUNDINGS_SHARE = 500, 0.05

#: Starts of a round: as many as cost twice the overhead of a call, within limits; fewer, down to the
#: last number, if the effort is limited.
STARTS, FEWEST_STARTS, OVERHEAD_RATIO = (6, 12), 2, 2.0

#: Rounds, the first one included.
ROUNDS = 10

#: Projections whose values agree to this relative tolerance are taken to be the same.
SAME_VALUE = 1e-5

#: Relative size of the perturbations that start later rounds, and of that of the start if Z is not given.
PERTURBATION = 0.5

#: Steps that L-BFGS remembers; least decrease, as a share of the linear model, and relative, of a step.
MEMORY, ARMIJO, LEAST_DECREASE = 12, 1e-4, 1e-12

#: Overhead of one evaluation, in floating-point operations: about 0.3 ms.
OPERATIONS_PER_CALL = 2e6


class ProjectionObjective(ABC):
    """Function to be maximised over projections, given by orthonormal columns in ``k`` coordinates.

    Many projections are evaluated at once: ``W`` has the shape (k, projections, r).
    """

    k: int
    #: Operations per column and evaluation.
    operations: float

    @abstractmethod
    def exact(self, W: FloatArray) -> FloatArray:
        """Return the value of every projection."""

    @abstractmethod
    def smoothed(self, W: FloatArray, sharpness: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a smoothed decreasing function of every value, and its gradient in ``W``."""

    @abstractmethod
    def preconditioner(self, level: float) -> FloatArray:
        """Return an upper triangular factor of coordinates in which directions have comparable size."""

    @abstractmethod
    def initial_projection(self, r: int) -> FloatArray:
        """Return orthonormal columns of another start."""

    def value(self, A: FloatArray) -> float:
        """Return the value of one projection, given by orthonormal columns."""
        return float(self.exact(A[:, None, :])[0])


def refine_projection(
    objective: ProjectionObjective,
    A: FloatArray,
    target: float = np.inf,
    *,
    relaxed: FloatArray | None = None,
    effort: float = math.inf,
) -> FloatArray:
    """Find a projection whose value is at least that of ``A``, and stop once it reaches ``target``.

    ``A`` has orthonormal columns in the coordinates of the objective, and is returned itself if nothing
    better is found. ``relaxed`` is the matrix Z of the relaxation, in the same coordinates. ``effort`` limits
    the number of floating-point operations.
    """
    k, r = A.shape
    if r == k:
        return A
    search = _Search(objective, A, target, effort)
    rng = np.random.default_rng(0)
    count = search.affordable_starts()
    last = objective.initial_projection(r)
    starts = np.concatenate([A[:, None, :], _roundings(search, relaxed, rng, count - 2)], axis=1)
    for _ in range(ROUNDS):
        found = search.maximise(np.concatenate([starts, last[:, None, :]], axis=1))
        if search.done:
            break
        last, centres = search.best, np.concatenate([search.best[:, None, :], found], axis=1)
        nearby = _perturbed(centres, rng, count - count // 2)
        starts = np.concatenate([nearby, _roundings(search, relaxed, rng, count // 2 - 1)], axis=1)
    return search.best


def _roundings(
    search: _Search, relaxed: FloatArray | None, rng: np.random.Generator, count: int
) -> FloatArray:
    """Return the best of randomised roundings of Z, or of perturbations of the best projection without Z."""
    k, r = search.best.shape
    if relaxed is None:
        # Other starts may be saddle points of symmetric data; perturbations escape.
        root = np.hstack([search.best, PERTURBATION / math.sqrt(k) * np.eye(k)])
    else:
        val, vec = eigh(symmetrize(relaxed))
        root = vec * np.sqrt(np.maximum(val, 0.0))
    many = int(np.clip(ROUNDINGS_SHARE * search.left / search.cost, 2 * count, ROUNDINGS))
    drawn = np.tensordot(root, rng.standard_normal((root.shape[1], many, r)), 1)
    return search.best_of(drawn, count)


def _perturbed(W: FloatArray, rng: np.random.Generator, count: int) -> FloatArray:
    """Return perturbations of projections, each of random size."""
    k, many, r = W.shape
    size = PERTURBATION / math.sqrt(k) * rng.random(count)[:, None]
    return W[:, np.arange(count) % many] + size * rng.standard_normal((k, count, r))


class _Search:
    """The best projection found, and the operations that are left.

    Optimisation runs in the coordinates U of ``factor @ U``, with ``factor`` the preconditioner.
    """

    def __init__(self, objective: ProjectionObjective, A: FloatArray, target: float, left: float) -> None:
        self.objective, self._target, self.left = objective, target, left
        self._factor = objective.preconditioner(target)
        self.best, self._most = A, objective.value(A)
        self._evaluations = EVALUATIONS if A.shape[1] > 1 else EVALUATIONS_OF_ONE
        #: Operations of one evaluation of one projection, in addition to the overhead.
        self.cost = objective.operations * A.shape[1]

    @property
    def done(self) -> bool:
        """Whether the target is reached or no operation is left."""
        return self._most >= self._target or self.left <= 0.0

    def affordable_starts(self) -> int:
        """Return the number of starts of a round."""
        count = int(np.clip(OVERHEAD_RATIO * OPERATIONS_PER_CALL / self.cost, *STARTS))
        while count > FEWEST_STARTS and self._operations(count) > self.left:
            count -= 1
        return count

    def _operations(self, count: int) -> float:
        """Return the operations of a round."""
        each = sum(OPERATIONS_PER_CALL + share * count * self.cost for _, share in STAGES)
        return self._evaluations * each

    def best_of(self, W: FloatArray, count: int) -> FloatArray:
        """Return the projections with the largest exact values, orthonormalised; keep the best of all."""
        W, _ = _orthonormal(W)
        values = self.objective.exact(W)
        self._pay(W)
        order = np.argsort(-values, kind="stable")
        if values[order[0]] > self._most:
            self.best, self._most = np.ascontiguousarray(W[:, order[0]]), float(values[order[0]])
        ranked = values[order]
        new = np.append(True, ranked[1:] < ranked[:-1] - SAME_VALUE * np.abs(ranked[:-1]))
        return W[:, order[new][:count]]

    def maximise(self, W: FloatArray) -> FloatArray:
        """Maximise the objective from all starts, with fewer of them in every stage; return the last ones.

        The sharpness of a stage alternates between the starts. Stages are cut to the effort that is left.
        """
        starts = W.shape[1]
        scale = min(1.0, 0.9 * self.left / self._operations(starts))
        for sharpness, share in STAGES:
            W = self._leaders(W, max(1, round(share * starts) - 1))
            if self.done:
                break
            flat = W.reshape(W.shape[0], -1)
            U = scipy.linalg.solve_triangular(self._factor, flat).reshape(W.shape)
            sharp = np.resize(sharpness, W.shape[1])
            sharp[-1] = max(sharp[-1], NEAR_SHARPNESS)
            U = self._minimise(U, sharp, math.ceil(scale * self._evaluations))
            W = np.tensordot(self._factor, U, 1)
        return self._leaders(W, starts)

    def _leaders(self, W: FloatArray, count: int) -> FloatArray:
        """Return the best projections without the last one, and then the last one, all orthonormalised."""
        return np.concatenate([self.best_of(W[:, :-1], count), self.best_of(W[:, -1:], 1)], axis=1)

    def _smoothed(self, U: FloatArray, sharpness: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the smoothed objective at the spans of ``factor @ U`` and its gradients in U."""
        W, inverse = _orthonormal(np.tensordot(self._factor, U, 1))
        value, G = self.objective.smoothed(W, sharpness)
        self._pay(W)
        G = G - _batched(W, _gram(W, G))
        gradient = np.tensordot(self._factor.T, _batched(G, np.swapaxes(inverse, 1, 2)), 1)
        # If means or columns coincide the gradient is undefined.
        defined = np.isfinite(gradient).all(axis=(0, 2)) & np.isfinite(value)
        return np.where(defined, value, math.inf), np.where(defined[:, None], gradient, 0.0)

    def _minimise(self, U: FloatArray, sharpness: FloatArray, evaluations: int) -> FloatArray:
        """Minimise the smoothed objective by L-BFGS with backtracking, for all starts at once.

        Every start has its own steps: those whose step is accepted take a new direction, the others shorten
        theirs.
        """
        k, B, r = U.shape
        out = np.array(U)
        running = np.arange(B)
        value, G = self._smoothed(U, sharpness)
        x, g = _vectors(U), _vectors(G)
        S, Y = np.zeros((2, B, MEMORY, k * r))
        direction, step = -g, 1.0 / np.maximum(np.linalg.norm(g, axis=1), 1e-300)
        step *= np.linalg.norm(x, axis=1) / 10.0
        for _ in range(evaluations):
            if self.left <= 0.0:
                break
            move = step[:, None] * direction
            slope = np.sum(move * g, axis=1)
            trial = x + move
            trial_value, G = self._smoothed(_matrices(trial, k, r), sharpness)
            trial_g = _vectors(G)
            gain = value - trial_value
            good = gain >= -ARMIJO * slope
            # Minimiser of the parabola through both values with the slope at the first.
            curvature = -gain - slope
            shorter = np.where(curvature > 0.0, -0.5 * slope / np.maximum(curvature, 1e-300), 0.5)
            ended = np.where(good, gain <= LEAST_DECREASE, step * np.abs(slope) <= 1e-16) | ~(slope < 0.0)
            step = np.where(good, 1.0, step * np.clip(shorter, 0.1, 0.5))
            change = trial_g - g
            product = np.sum(change * move, axis=1)
            sizes = np.linalg.norm(change, axis=1) * np.linalg.norm(move, axis=1)
            kept = np.flatnonzero(good & (product > 1e-10 * sizes))
            S[kept, 1:], Y[kept, 1:] = S[kept, :-1], Y[kept, :-1]
            S[kept, 0], Y[kept, 0] = move[kept], change[kept]
            x, g = np.where(good[:, None], trial, x), np.where(good[:, None], trial_g, g)
            value = np.where(good, trial_value, value)
            direction = np.where(good[:, None], -_inverse_hessian(S, Y, g), direction)
            if ended.any():
                out[:, running[ended]] = _matrices(x[ended], k, r)
                go = ~ended
                running, x, g, S, Y = running[go], x[go], g[go], S[go], Y[go]
                value, direction, step, sharpness = value[go], direction[go], step[go], sharpness[go]
                if not running.size:
                    return out
        out[:, running] = _matrices(x, k, r)
        return out

    def _pay(self, W: FloatArray) -> None:
        self.left -= OPERATIONS_PER_CALL + self.cost * W.shape[1]


def _inverse_hessian(S: FloatArray, Y: FloatArray, g: FloatArray) -> FloatArray:
    """Multiply by the inverse Hessian of L-BFGS in compact form (Byrd, Nocedal and Schnabel, 1994).

    ``S`` and ``Y`` hold the steps and changes of the gradient of every start, the latest first; unused ones
    are zero.
    """
    products = S @ np.swapaxes(Y, 1, 2)
    diagonal = np.einsum("bii->bi", products)
    newest = np.sum(Y[:, 0] * Y[:, 0], axis=1)
    gamma = np.where(newest > 0.0, diagonal[:, 0] / np.where(newest > 0.0, newest, 1.0), 1.0)[:, None]
    R = np.tril(products)
    np.einsum("bii->bi", R)[...] += diagonal == 0.0
    column = g[:, :, None]
    p = np.linalg.solve(R, S @ column)
    changed = np.einsum("bmi,bi->bm", Y, gamma * (np.einsum("bmi,bm->bi", Y, p[:, :, 0]) - g))
    q = np.linalg.solve(np.swapaxes(R, 1, 2), (diagonal * p[:, :, 0] + changed)[:, :, None])
    out = gamma * (g - np.einsum("bmi,bm->bi", Y, p[:, :, 0])) + np.einsum("bmi,bm->bi", S, q[:, :, 0])
    return np.asarray(out)


def _vectors(W: FloatArray) -> FloatArray:
    """Return projections as one row each."""
    return np.ascontiguousarray(np.swapaxes(W, 0, 1)).reshape(W.shape[1], -1)


def _matrices(x: FloatArray, k: int, r: int) -> FloatArray:
    """Return projections of one row each in the shape (k, projections, r)."""
    return np.ascontiguousarray(np.swapaxes(x.reshape(-1, k, r), 0, 1))


def _gram(V: FloatArray, W: FloatArray) -> FloatArray:
    """Return ``V'W`` for every projection."""
    return np.asarray(np.matmul(V.transpose(1, 2, 0), W.transpose(1, 0, 2)))


def _batched(W: FloatArray, M: FloatArray) -> FloatArray:
    """Return ``W M`` for every projection."""
    return np.matmul(W.transpose(1, 0, 2), M).transpose(1, 0, 2)


def _orthonormal(W: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return orthonormal columns with the span of those of every projection, and the factors to them."""
    Q, R = np.linalg.qr(W.transpose(1, 0, 2))
    with np.errstate(all="ignore"):
        inverse = np.linalg.inv(R)
    return np.ascontiguousarray(Q.transpose(1, 0, 2)), inverse


def smooth_maximum(values: FloatArray, sharpness: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the log-sum-exp approximation of the maximum of every column, and its gradient."""
    top = np.max(values, axis=0)
    shares = np.exp(sharpness * (values - top))
    total = shares.sum(axis=0)
    return top + np.log(total) / sharpness, shares / total


class _ClassForms:
    """The quadratic forms ``tr(W'S_k W)`` of several scatters ``S_k = F_k'F_k``.

    ``factors`` are the F_k with at most k rows each, ``stack`` holds the rows of all.
    """

    def __init__(self, factors: Sequence[FloatArray], k: int) -> None:
        self.factors = tuple(_compressed(f) for f in factors)
        self.stack = np.concatenate([*self.factors, np.zeros((0, k))])
        sizes = np.array([f.shape[0] for f in self.factors])
        self._owner = np.repeat(np.arange(sizes.size), sizes)
        #: Sums over no rows are not what ``reduceat`` returns.
        self._filled = np.flatnonzero(sizes)
        self._starts = (np.cumsum(sizes) - sizes)[self._filled]

    def values(self, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the forms, shape (classes, projections), and the products ``F_k W``."""
        products = np.tensordot(self.stack, W, 1)
        out = np.zeros((len(self.factors), W.shape[1]))
        if self._filled.size:
            out[self._filled] = np.add.reduceat(np.sum(products * products, axis=2), self._starts, axis=0)
        return out, products

    def gradient(self, products: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient of the weighted sum of the forms, halved."""
        return np.tensordot(self.stack.T, weights[self._owner][:, :, None] * products, 1)


#: Squares below this share of the total count as zero if the data have directions without scatter: the square
#: of the tolerance of a null space.
ZERO_SCATTER_SHARE = RANK_TOLERANCE**2


class RatioObjective(ProjectionObjective):
    """Least squared distance of projected class means over the largest projected within-class scatter.

    Directions are given in the coordinates of ``basis``, orthonormal columns that span the range of the data.
    Scatters and squared distances below the share ``floor`` of the total count as zero. With ``bounded`` a
    projection without scatter has value zero instead of infinity. ``first`` and ``second`` are the classes of
    every pair.
    """

    def __init__(self, scatter: ClassScatter, floor: float = 0.0, bounded: bool = False) -> None:
        self._bounded = bounded
        scatter = scatter.merged_means(scatter.equal_means())
        self.basis, self.means, self.k = scatter.basis, scatter.means, scatter.k
        self.forms = _ClassForms(scatter.factors, scatter.k)
        self.first, self.second = pair_indices(scatter.c)
        self.differences = self.means[self.first] - self.means[self.second]
        self._none = floor * (float(np.sum(self.forms.stack**2)) + float(np.sum(self.differences**2)))
        self.operations = (
            4.0 * self.k * (self.forms.stack.shape[0] + scatter.c + self.k) + 10.0 * self.first.size
        )

    def _terms(self, W: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        projected = np.tensordot(self.means, W, 1)
        distances = np.sum((projected[self.first] - projected[self.second]) ** 2, axis=2)
        return distances, *self.forms.values(W), projected

    def values(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return squared distances of projected means per pair, and projected scatters per class."""
        distances, scatters, _, _ = self._terms(A[:, None, :])
        return distances[:, 0], scatters[:, 0]

    def exact(self, W: FloatArray) -> FloatArray:
        """Return the worst-case ratios."""
        distances, scatters, _, _ = self._terms(W)
        least, most = np.min(distances, axis=0), np.max(scatters, axis=0)
        unscattered = np.where((least > self._none) & (not self._bounded), math.inf, 0.0)
        some = most > self._none
        return np.where(some, least / np.where(some, most, 1.0), unscattered)

    def smoothed(self, W: FloatArray, sharpness: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return minus the logarithms of the smoothed ratios and their gradients."""
        distances, scatters, products, projected = self._terms(W)
        tiny = 1e-300
        low, u = smooth_maximum(-np.log(distances + tiny), sharpness)
        high, w = smooth_maximum(np.log(scatters + tiny), sharpness)
        u, w = u / (distances + tiny), w / (scatters + tiny)
        laplacian = np.zeros((W.shape[1], self.means.shape[0], self.means.shape[0]))
        laplacian[:, self.first, self.second] = laplacian[:, self.second, self.first] = -u.T
        diagonal = np.arange(self.means.shape[0])
        laplacian[:, diagonal, diagonal] = -laplacian.sum(axis=2)
        pulled = np.matmul(laplacian, projected.transpose(1, 0, 2)).transpose(1, 0, 2)
        G = self.forms.gradient(products, w) - np.tensordot(self.means.T, pulled, 1)
        return low + high, 2.0 * G

    def preconditioner(self, level: float) -> FloatArray:
        """Return an upper triangular factor of coordinates with about unit total scatter."""
        # At a ratio ``level`` both parts then have the same size.
        weight = math.sqrt(level) if 0.0 < level < math.inf else 1.0
        stack = np.concatenate([weight * self.forms.stack, self.differences])
        size = np.sqrt(np.sum(stack * stack, axis=0))
        size = np.where(size > 0.0, size, 1.0)
        floor = 1e-5 * np.eye(self.k)
        triangle = scipy.linalg.qr(np.concatenate([stack / size, floor]), mode="economic")[1]
        inverse = scipy.linalg.solve_triangular(triangle, np.eye(self.k), lower=False)
        return np.asarray(inverse / size[:, None])

    def initial_projection(self, r: int) -> FloatArray:
        """Return orthonormal columns that span the r leading directions of classical LDA."""
        centred = self.means - self.means.mean(axis=0)
        within = self.forms.stack.T @ self.forms.stack
        size = float(np.trace(within)) + float(np.sum(centred * centred))
        within = within / size + 1e-12 * np.eye(self.k)
        _, vec = scipy.linalg.eigh(centred.T @ centred / size, within)
        q, _ = np.linalg.qr(vec[:, ::-1][:, :r])
        return np.asarray(q)


class MinVarianceObjective(ProjectionObjective):
    """Least variance over the groups that a projection preserves, minus an offset per group."""

    def __init__(self, groups: GroupCovariances, offsets: FloatArray) -> None:
        self._offsets, self.k = offsets[:, None], groups.k
        self._forms = _ClassForms(groups.factors, groups.k)
        self._size = float(np.max(groups.most(groups.k), initial=0.0)) or 1.0
        self.operations = 4.0 * self.k * (self._forms.stack.shape[0] + self.k)

    def exact(self, W: FloatArray) -> FloatArray:
        """Return the least preserved variances minus offsets."""
        return np.min(self._forms.values(W)[0] - self._offsets, axis=0)

    def smoothed(self, W: FloatArray, sharpness: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return minus the smoothed minima, relative to the total variance, and their gradients."""
        kept, products = self._forms.values(W)
        values, shares = smooth_maximum((self._offsets - kept) / self._size, sharpness)
        return values, (-2.0 / self._size) * self._forms.gradient(products, shares)

    def preconditioner(self, level: float) -> FloatArray:
        """Return the identity."""
        return np.eye(self.k)

    def initial_projection(self, r: int) -> FloatArray:
        """Return the principal directions of the sum of the covariance matrices of all groups."""
        _, vec = eigh(symmetrize(self._forms.stack.T @ self._forms.stack))
        return np.asarray(vec[:, ::-1][:, :r])


def _compressed(factor: FloatArray) -> FloatArray:
    """Return a factor with the same Gram matrix and at most as many rows as columns."""
    if factor.shape[0] <= factor.shape[1]:
        return factor
    return np.asarray(np.linalg.qr(factor, mode="r"))
