"""Maximise a worst-case objective over all r-dimensional subspaces, from many starts at once.

The objective has many local maxima if the number of new features is small. Starts are the rounded solution
of the relaxation, classical directions, and the best of many randomised roundings of the relaxed matrix Z:
``Z^(1/2) G`` with Gaussian ``G``. The minimum or maximum over classes or groups is smoothed by log-sum-exp
and optimised by L-BFGS with increasing sharpness (homotopy), from all starts at once: this costs little more
than from one, since they share every matrix product. The best go on from stage to stage. Further rounds begin
with other roundings, and with the best projection after two projected means that are close have changed
sides. A subspace is represented by any basis, so that the optimisation is unconstrained. A result is accepted
only if it improves the exact objective. Random numbers are seeded, and effort is counted in operations, so
that results do not depend on the machine's load.
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

Stage = tuple[tuple[float, ...], float]

#: Sharpness of the smoothed minimum and maximum (log-sum-exp), and share of the starts that go on, stage by
#: stage. Starting at 1 instead of 10 ends up to 20 % higher on digits, r = 2, and lower on the grid of the
#: Balance data, so every other start begins at 10.
STAGES: tuple[Stage, ...] = (
    ((1.0, 10.0), 1.0),
    ((3.0, 10.0), 1.0),
    ((10.0, 30.0), 1.0),
    ((30.0,), 0.5),
    ((100.0,), 0.25),
    ((1e3,), 0.25),
    ((1e4,), 0.25),
)

#: First stage of all rounds but the first: more smoothing would undo an exchange of two means.
LATER_STAGE = 2

#: Cap on the evaluations of a stage. With 20, projections to one dimension end below the local maximum.
EVALUATIONS = 45

#: Least sharpness of the last start of a round, which is never dropped: the directions of classical LDA or
#: PCA, then the best projection found. Other local methods begin there, and more smoothing would leave the
#: local maximum.
NEAR_SHARPNESS = 10.0

#: Cap on the randomised roundings that are drawn, and on their share of the effort.
ROUNDINGS, ROUNDINGS_SHARE = 500, 0.05

#: Starts of a round: as many as cost twice the overhead of a call, within limits; fewer, down to the
#: last number, if the effort is limited.
STARTS, FEWEST_STARTS, OVERHEAD_RATIO = (4, 8), 2, 2.0

#: Rounds, and rounds without progress that end the search; least relative progress.
ROUNDS, IDLE_ROUNDS, PROGRESS = 20, 3, 1e-4

#: Pairs of means that are exchanged for a start of a later round: the closest ones, judged at this sharpness.
EXCHANGES, EXCHANGE_SHARPNESS = 60, 10.0

#: Projections whose values agree to this relative tolerance are taken to be the same.
SAME_VALUE = 1e-5

#: Steps that L-BFGS remembers; least decrease, as a share of the linear model, and relative, of a step.
MEMORY, ARMIJO, LEAST_DECREASE = 6, 1e-4, 1e-12

#: Overhead of one evaluation, in floating-point operations: about 0.2 ms.
OPERATIONS_PER_CALL = 1.5e6


class ProjectionObjective(ABC):
    """Function of quadratic forms ``tr(W'S_j W)`` with ``S_j = F_j'F_j``, to be maximised over projections W.

    A projection is given by orthonormal columns. The rows of the F_j are those of :attr:`stack`, mapped by
    :meth:`combine`. ``sizes`` are the numbers of rows of the F_j, at least one.
    """

    def __init__(self, stack: FloatArray, sizes: Sequence[int]) -> None:
        self.stack, self.k = stack, stack.shape[1]
        #: Differences of means, one per row, if the objective is about means.
        self.differences = stack[:0]
        #: The form to which each row belongs, and the first row of each form.
        self.owner: np.ndarray = np.repeat(np.arange(len(sizes)), sizes)
        self.starts: np.ndarray = np.cumsum(sizes) - sizes

    def combine(self, products: FloatArray) -> FloatArray:
        """Map products with the rows of the stack, on the last axis, to products with all rows."""
        return products

    def combine_adjoint(self, weighted: FloatArray) -> FloatArray:
        """Apply the adjoint of :meth:`combine`."""
        return weighted

    @abstractmethod
    def exact(self, forms: FloatArray) -> FloatArray:
        """Return the values of projections with the given forms, one projection per row."""

    @abstractmethod
    def smoothed(self, forms: FloatArray, sharpness: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a smoothed decreasing function of every value, and its gradient in the forms."""

    @abstractmethod
    def preconditioner(self, level: float) -> FloatArray:
        """Return a triangular factor of coordinates in which directions have comparable size."""

    @abstractmethod
    def initial_projection(self, r: int) -> FloatArray:
        """Return orthonormal columns of another start."""

    def forms(self, A: FloatArray) -> FloatArray:
        """Return the forms of one projection, given by orthonormal columns."""
        return np.add.reduceat(np.sum(self.combine(A.T @ self.stack.T) ** 2, axis=0), self.starts)

    def value(self, A: FloatArray) -> float:
        """Return the value of one projection, given by orthonormal columns."""
        return float(self.exact(self.forms(A)[None])[0])


@np.errstate(all="ignore")
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
    count, idle = search.affordable_starts(), 0
    first = search.coordinates(np.stack([A.T, objective.initial_projection(r).T]))
    starts, last, stages = [first[:1], search.roundings(relaxed, rng, count - 2)], first[1:], STAGES
    for _ in range(ROUNDS):
        before = search.value
        search.maximise(np.concatenate([*starts, last]), stages)
        idle = 0 if search.value > before + PROGRESS * abs(before) else idle + 1
        if search.done or idle == IDLE_ROUNDS:
            break
        exchanged = search.exchanges(count // 2)
        starts = [exchanged, search.roundings(relaxed, rng, count - 1 - exchanged.shape[0])]
        last, stages = search.best[None], STAGES[LATER_STAGE:]
    best, _ = np.linalg.qr((search.best @ search.factor.T).T)
    return best if objective.value(best) > objective.value(A) else A


class _Search:
    """The best projection found, and the operations that are left.

    Projections are given by any rows that span them, in the coordinates U of ``U @ factor.T``, with the
    preconditioner as factor: an array of the shape (projections, r, k).
    """

    def __init__(self, objective: ProjectionObjective, A: FloatArray, target: float, left: float) -> None:
        self.objective, self._target, self.left = objective, target, left
        self.factor = objective.preconditioner(target)
        self._stack = objective.stack @ self.factor
        self.best, self.value = self.coordinates(A.T[None])[0], objective.value(A)
        #: Operations of one evaluation of one projection, in addition to the overhead.
        self.cost = A.shape[1] * objective.k * 4.0 * (objective.stack.shape[0] + objective.k)

    @property
    def done(self) -> bool:
        """Whether the target is reached or no operation is left."""
        return self.value >= self._target or self.left <= 0.0

    def coordinates(self, W: FloatArray) -> FloatArray:
        """Return the coordinates of projections, orthonormal there."""
        flat = scipy.linalg.solve_triangular(self.factor, W.reshape(-1, W.shape[2]).T)
        return _orthonormal(flat.T.reshape(W.shape))

    def affordable_starts(self) -> int:
        """Return the number of starts of a round."""
        count = int(np.clip(OVERHEAD_RATIO * OPERATIONS_PER_CALL / self.cost, *STARTS))
        while count > FEWEST_STARTS and self._operations(count, STAGES) > self.left:
            count -= 1
        return count

    def _operations(self, count: int, stages: Sequence[Stage]) -> float:
        """Return the operations of a round."""
        return EVALUATIONS * sum(OPERATIONS_PER_CALL + share * count * self.cost for _, share in stages)

    def roundings(self, relaxed: FloatArray | None, rng: np.random.Generator, count: int) -> FloatArray:
        """Return the best of randomised roundings of Z, or of random subspaces without Z."""
        r, k = self.best.shape
        root = np.eye(k)
        if relaxed is not None:
            val, vec = eigh(symmetrize(relaxed))
            root = vec * np.sqrt(np.maximum(val, 0.0))
        many = int(np.clip(ROUNDINGS_SHARE * self.left / self.cost, 2 * count, ROUNDINGS))
        return self.best_of(self.coordinates(rng.standard_normal((many, r, k)) @ root.T), count)

    def exchanges(self, count: int) -> FloatArray:
        """Return the most promising of projections that differ from the best one by two means.

        The projected difference ``p = U d`` of two close means is reflected: ``U - 2 p d' / d'd``.
        """
        best, d = self.best, self.objective.differences @ self.factor
        p, sizes = d @ best.T, np.sum(d * d, axis=1)
        near = np.argsort(np.sum(p * p, axis=1), kind="stable")
        near = near[sizes[near] > 0.0][:EXCHANGES]
        if not near.size:
            return best[None][:0]
        p = p[near] / sizes[near, None]
        moved = best - 2.0 * p[:, :, None] * d[near, None, :]
        value, _ = self.objective.smoothed(self._forms(moved)[0], np.full(near.size, EXCHANGE_SHARPNESS))
        return moved[np.argsort(value, kind="stable")[:count]]

    def best_of(self, U: FloatArray, count: int) -> FloatArray:
        """Return the projections with the largest values, orthonormalised; keep the best of all."""
        U = _orthonormal(U)
        values = self.objective.exact(self._forms(U)[0])
        values = np.where(np.isfinite(values), values, -math.inf)
        order = np.argsort(-values, kind="stable")
        if values[order[0]] > self.value:
            self.best, self.value = U[order[0]], float(values[order[0]])
        ranked = values[order]
        with np.errstate(invalid="ignore"):
            new = np.append(True, ranked[1:] < ranked[:-1] - SAME_VALUE * np.abs(ranked[:-1]))
        return U[order[new][:count]]

    def maximise(self, U: FloatArray, stages: Sequence[Stage]) -> None:
        """Maximise the objective from all starts, with fewer of them in every stage.

        The sharpness of a stage alternates between the starts. Stages are cut to the effort that is left.
        """
        starts = U.shape[0]
        scale = min(1.0, 0.9 * self.left / self._operations(starts, stages))
        for sharpness, share in stages:
            U = self._leaders(U, max(1, round(share * starts) - 1))
            if self.done:
                return
            sharp = np.resize(sharpness, U.shape[0])
            sharp[-1] = max(sharp[-1], NEAR_SHARPNESS)
            U = self._minimise(U, sharp, math.ceil(scale * EVALUATIONS))
        self.best_of(U, 1)

    def _leaders(self, U: FloatArray, count: int) -> FloatArray:
        """Return the best projections without the last one, and then the last one, all orthonormalised."""
        return np.concatenate([self.best_of(U[:-1], count), self.best_of(U[-1:], 1)])

    def _forms(self, U: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the forms of the spans of ``U``, and two products for the gradient.

        With the Gram matrix ``G = V V'`` of the rows ``V = U factor'`` they are ``sum p' G^-1 p`` over the
        columns p of ``V F'``.
        """
        self.left -= OPERATIONS_PER_CALL + self.cost * U.shape[0]
        count, r, k = U.shape
        flat = U.reshape(-1, k) @ self.factor.T
        products = self.objective.combine((flat @ self.objective.stack.T).reshape(count, r, -1))
        V, turned = flat.reshape(U.shape), (flat @ self.factor).reshape(U.shape)
        G = V @ np.swapaxes(V, 1, 2)
        # Rows may be parallel up to rounding, or underflow.
        ridge = np.maximum(1e-15 * np.trace(G, axis1=1, axis2=2), 1e-300)
        solved = np.linalg.inv(G + ridge[:, None, None] * np.eye(r)) @ products
        forms = np.add.reduceat(np.sum(products * solved, axis=1), self.objective.starts, axis=1)
        return forms, solved, turned

    def _smoothed(self, U: FloatArray, sharpness: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the smoothed objective at the spans of ``U`` and its gradients."""
        forms, solved, turned = self._forms(U)
        value, slopes = self.objective.smoothed(forms, sharpness)
        weighted = slopes[:, None, self.objective.owner] * solved
        collected = self.objective.combine_adjoint(weighted)
        G = (collected.reshape(-1, collected.shape[2]) @ self._stack).reshape(U.shape)
        G -= (weighted @ np.swapaxes(solved, 1, 2)) @ turned
        # If means or columns coincide the gradient is undefined.
        defined = np.isfinite(G).all(axis=(1, 2)) & np.isfinite(value)
        return np.where(defined, value, math.inf), np.where(defined[:, None, None], 2.0 * G, 0.0)

    def _minimise(self, U: FloatArray, sharpness: FloatArray, evaluations: int) -> FloatArray:
        """Minimise the smoothed objective by L-BFGS with backtracking, for all starts at once.

        Every start has its own steps: those whose step is accepted take a new direction, the others shorten
        theirs.
        """
        count, r, k = U.shape
        out = np.array(U)
        running = np.arange(count)
        value, G = self._smoothed(U, sharpness)
        x, g = U.reshape(count, -1), G.reshape(count, -1)
        S, Y = np.zeros((2, count, MEMORY, k * r))
        direction, step = -g, 1.0 / np.maximum(np.linalg.norm(g, axis=1), 1e-300)
        step *= np.linalg.norm(x, axis=1) / 10.0
        for _ in range(evaluations):
            if self.left <= 0.0:
                break
            move = step[:, None] * direction
            slope = np.sum(move * g, axis=1)
            trial = x + move
            trial_value, G = self._smoothed(trial.reshape(-1, r, k), sharpness)
            trial_g = G.reshape(trial.shape)
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
                out[running[ended]] = x[ended].reshape(-1, r, k)
                go = ~ended
                running, x, g, S, Y = running[go], x[go], g[go], S[go], Y[go]
                value, direction, step, sharpness = value[go], direction[go], step[go], sharpness[go]
                if not running.size:
                    return out
        out[running] = x.reshape(-1, r, k)
        return out


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


def _orthonormal(U: FloatArray) -> FloatArray:
    """Return orthonormal rows with the span of those of every projection."""
    return np.ascontiguousarray(np.swapaxes(np.linalg.qr(np.swapaxes(U, 1, 2))[0], 1, 2))


def smooth_maximum(values: FloatArray, sharpness: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the log-sum-exp approximation of the maximum of every row, and its gradient."""
    top = np.max(values, axis=1)
    shares = np.exp(sharpness[:, None] * (values - top[:, None]))
    total = shares.sum(axis=1)
    return top + np.log(total) / sharpness, shares / total[:, None]


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
        self.basis, self.means, self.factors = scatter.basis, scatter.means, scatter.factors
        self.first, self.second = pair_indices(scatter.c)
        factors, classes = filled_factors(scatter.factors, scatter.k), scatter.c
        sizes = [1] * self.first.size + [f.shape[0] for f in factors]
        super().__init__(np.concatenate([self.means, *factors]), sizes)
        self._count, self.differences = classes, self.means[self.first] - self.means[self.second]
        total = float(np.sum(self.stack[classes:] ** 2)) + float(np.sum(self.differences**2))
        self._none = floor * total

    def combine(self, products: FloatArray) -> FloatArray:
        """Replace the products with the means by those with their differences."""
        differences = products[..., self.first] - products[..., self.second]
        return np.concatenate([differences, products[..., self._count :]], axis=-1)

    def combine_adjoint(self, weighted: FloatArray) -> FloatArray:
        """Sum over the pairs of every mean."""
        pairs, c = self.first.size, self._count
        table = np.zeros((*weighted.shape[:-1], c, c))
        table[..., self.first, self.second] = weighted[..., :pairs]
        means = table.sum(axis=-1) - table.sum(axis=-2)
        return np.concatenate([means, weighted[..., pairs:]], axis=-1)

    def values(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return squared distances of projected means per pair, and projected scatters per class."""
        forms = self.forms(A)
        return forms[: self.first.size], forms[self.first.size :]

    def exact(self, forms: FloatArray) -> FloatArray:
        """Return the worst-case ratios."""
        pairs = self.first.size
        least, most = np.min(forms[:, :pairs], axis=1), np.max(forms[:, pairs:], axis=1)
        unscattered = np.where((least > self._none) & (not self._bounded), math.inf, 0.0)
        some = most > self._none
        return np.where(some, least / np.where(some, most, 1.0), unscattered)

    def smoothed(self, forms: FloatArray, sharpness: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return minus the logarithms of the smoothed ratios and their gradients."""
        forms, pairs = np.maximum(forms, 1e-300), self.first.size
        logarithms = np.log(forms)
        low, u = smooth_maximum(-logarithms[:, :pairs], sharpness)
        high, w = smooth_maximum(logarithms[:, pairs:], sharpness)
        return low + high, np.concatenate([-u, w], axis=1) / forms

    def preconditioner(self, level: float) -> FloatArray:
        """Return an upper triangular factor of coordinates with about unit total scatter."""
        # At a ratio ``level`` both parts then have the same size.
        weight = math.sqrt(level) if 0.0 < level < math.inf else 1.0
        stack = np.concatenate([weight * self.stack[self._count :], self.differences])
        size = np.sqrt(np.sum(stack * stack, axis=0))
        size = np.where(size > 0.0, size, 1.0)
        floor = 1e-5 * np.eye(self.k)
        triangle = scipy.linalg.qr(np.concatenate([stack / size, floor]), mode="economic")[1]
        inverse = scipy.linalg.solve_triangular(triangle, np.eye(self.k), lower=False)
        return np.asarray(inverse / size[:, None])

    def initial_projection(self, r: int) -> FloatArray:
        """Return orthonormal columns that span the r leading directions of classical LDA."""
        centred = self.means - self.means.mean(axis=0)
        within = self.stack[self._count :].T @ self.stack[self._count :]
        size = float(np.trace(within)) + float(np.sum(centred * centred))
        within = within / size + 1e-12 * np.eye(self.k)
        _, vec = scipy.linalg.eigh(centred.T @ centred / size, within)
        q, _ = np.linalg.qr(vec[:, ::-1][:, :r])
        return np.asarray(q)


class MinVarianceObjective(ProjectionObjective):
    """Least variance over the groups that a projection preserves, minus an offset per group."""

    def __init__(self, groups: GroupCovariances, offsets: FloatArray) -> None:
        factors = filled_factors(groups.factors, groups.k)
        super().__init__(np.concatenate(factors), [f.shape[0] for f in factors])
        self._offsets = offsets
        self._size = float(np.max(groups.most(groups.k), initial=0.0)) or 1.0

    def exact(self, forms: FloatArray) -> FloatArray:
        """Return the least preserved variances minus offsets."""
        return np.min(forms - self._offsets, axis=1)

    def smoothed(self, forms: FloatArray, sharpness: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return minus the smoothed minima, relative to the total variance, and their gradients."""
        values, shares = smooth_maximum((self._offsets - forms) / self._size, sharpness)
        return values, shares / -self._size

    def preconditioner(self, level: float) -> FloatArray:
        """Return the identity."""
        return np.eye(self.k)

    def initial_projection(self, r: int) -> FloatArray:
        """Return the principal directions of the sum of the covariance matrices of all groups."""
        _, vec = eigh(symmetrize(self.stack.T @ self.stack))
        return np.asarray(vec[:, ::-1][:, :r])


def filled_factors(factors: Sequence[FloatArray], k: int) -> list[FloatArray]:
    """Return factors with the same Gram matrices, of at least one row and at most as many as columns."""
    filled = [f if f.shape[0] else np.zeros((1, k)) for f in factors]
    return [f if f.shape[0] <= k else np.asarray(np.linalg.qr(f, mode="r")) for f in filled]
