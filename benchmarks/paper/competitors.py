"""The methods that the paper compares WLDA with, as scikit-learn estimators.

* :class:`OrthogonalLDA`: Ye, "Characterization of a family of algorithms for generalized discriminant
  analysis on undersampled problems", JMLR 2005.
* :class:`LMNN`: Weinberger and Saul, "Distance metric learning for large margin nearest neighbor
  classification", JMLR 2009. Written here because metric-learn 0.7.0, the latest release, does not run with
  scikit-learn 1.9 (it passes ``force_all_finite``, which was removed), nor does PyLMNN 1.6 of 2020.
* :class:`ZhangSDP` and :class:`ZhangSOCP`: Zhang and Yeung, "Worst-case linear discriminant analysis",
  NIPS 2010.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

import sdpfeas as sf
from sdpfeas.estimators.projection import LinearProjection, check_components, principal_axes
from sdpfeas.estimators.projection_refinement import ZERO_SCATTER_SHARE, RatioObjective
from sdpfeas.families.class_scatter import ClassScatter

# Internals: the base class and class scatters of our own estimator, so that all methods see the same data;
# and the cone program of a Dinkelbach step, which has no public form.
from sdpfeas.families.parametric_family import column
from sdpfeas.families.threshold_bounds import certificate_root
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.rows import Rows, Sparse

__all__ = ["LMNN", "OrthogonalLDA", "ZhangSDP", "ZhangSOCP"]


# ---------------------------------------------------------------- orthogonal LDA


class OrthogonalLDA(LinearProjection):
    """Orthogonal LDA: diagonalise all three scatters simultaneously, then orthonormalise.

    Let ``P`` whiten the centred samples, and let ``U`` hold the left singular vectors of the class means,
    weighted by the roots of the class sizes and whitened. The columns of ``P U`` diagonalise total,
    between-class and within-class scatter. A QR decomposition makes them orthonormal. Scatters may be
    singular.

    Parameters
    ----------
    n_components : int, optional
        Number of new features; default: the rank of the between-class scatter.
    tol : float
        Singular values below this fraction of the largest count as zero.

    Attributes
    ----------
    components_ : ndarray
        Orthonormal rows, shape (n_components, n_features).
    """

    def __init__(self, n_components: int | None = None, tol: float = 1e-10) -> None:
        self.n_components = n_components
        self.tol = tol

    def fit(self, X: ArrayLike, y: ArrayLike) -> OrthogonalLDA:
        """Find the projection."""
        samples, index, _ = self._checked_samples(X, y)
        centred = samples - self.mean_
        _, singular, right = np.linalg.svd(centred, full_matrices=False)
        rank = int(np.sum(singular > self.tol * singular[0]))
        if rank == 0:
            raise ValueError("every feature is constant")
        whiten = right[:rank].T / singular[:rank]
        weights = np.sqrt(np.bincount(index))
        between = whiten.T @ ((self.means_ - self.mean_) * weights[:, None]).T
        left, correlations, _ = np.linalg.svd(between, full_matrices=False)
        # Canonical correlations lie between zero and one, so that the tolerance needs no scale.
        between_rank = int(np.sum(correlations > self.tol)) or 1
        r = check_components(self.n_components, between_rank, between_rank)
        q, triangle = np.linalg.qr(whiten @ left[:, :r])
        self.components_ = (q * np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)).T
        return self


# ---------------------------------------------------------------- large margin nearest neighbours

#: The search for impostors computes the distances of this many samples to all others at a time.
LMNN_CHUNK_SAMPLES = 512


class LMNN(LinearProjection):
    """Learn a linear map in which samples are closer to neighbours of their class than to all other classes.

    Minimises ``(1 - push)·sum d_ij + push·sum [1 + d_ij - d_il]_+`` over ``L``, with
    ``d_ij = ||L(x_i - x_j)||²``, where j runs over the target neighbours of i (the nearest samples of its
    class in the original features) and l over the samples of other classes. An active-set method: each round
    runs L-BFGS on the impostors known so far (samples l with a positive term), then looks for new ones.

    Parameters
    ----------
    n_components : int, optional
        Rows of ``L``; default: as many as features.
    n_neighbors : int
        Target neighbours of a sample; fewer in classes with fewer samples.
    push : float
        Weight of the second sum, between zero and one.
    max_iter : int
        Maximal number of rounds, each with an update of the impostors.
    steps : int
        L-BFGS iterations per round.
    tol : float
        Stop when the relative decrease of the objective in a round is at most this.
    max_impostors : int
        Maximal number of impostors per round; if there are more, a random subset is used.
    random_state : int, RandomState instance or None
        Seed of the random subset.

    Attributes
    ----------
    components_ : ndarray
        ``L``, shape (n_components, n_features); its rows are not orthonormal.
    objectives_ : list of float
        The objective, over all samples l, at the start (the leading principal components, scaled to a mean
        target distance of one) and after every round that lowered it.
    n_iter_ : int
        Number of rounds.
    """

    objectives_: list[float]
    n_iter_: int

    def __init__(
        self,
        n_components: int | None = None,
        n_neighbors: int = 3,
        push: float = 0.5,
        max_iter: int = 20,
        steps: int = 50,
        tol: float = 1e-3,
        max_impostors: int = 500_000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.push = push
        self.max_iter = max_iter
        self.steps = steps
        self.tol = tol
        self.max_impostors = max_impostors
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> LMNN:
        """Learn the map."""
        samples, index, _ = self._checked_samples(X, y)
        if not 0.0 < self.push < 1.0:
            raise ValueError(f"push must lie between 0 and 1, got {self.push!r}")
        if self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be a positive integer, got {self.n_neighbors!r}")
        d = samples.shape[1]
        r = check_components(self.n_components, d, d)
        centred = samples - self.mean_
        loss = _LmnnLoss(centred, index, _target_neighbours(centred, index, self.n_neighbors), self.push)
        L = _principal_directions(centred, r)
        spread = loss.mean_target_distance(L)
        L = L / np.sqrt(spread) if spread > 0.0 else L
        self.components_ = self._descend(loss, L)
        return self

    def _descend(self, loss: _LmnnLoss, L: FloatArray) -> FloatArray:
        rng = check_random_state(self.random_state)
        known = loss.impostors(L)
        value = loss(L, known)[0]
        self.objectives_, self.n_iter_ = [value], 0
        while self.n_iter_ < self.max_iter:
            self.n_iter_ += 1
            active = known
            if active.size > self.max_impostors:
                active = np.sort(rng.choice(active, self.max_impostors, replace=False))
            answer = minimize(
                loss.flat,
                L.ravel(),
                args=(active,),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": self.steps, "ftol": 1e-10},
            )
            trial = answer.x.reshape(L.shape)
            fresh = loss.impostors(trial)
            new = loss(trial, fresh)[0]
            gain = value - new
            if gain > 0.0:
                L, value = trial, new
                self.objectives_.append(value)
            grown = np.union1d(known, fresh)
            # An increase means that impostors were missing: the next round knows them.
            if gain <= self.tol * abs(value) and (gain >= 0.0 or grown.size == known.size):
                break
            known = grown
        else:
            warnings.warn(f"no convergence in {self.max_iter} rounds", ConvergenceWarning, stacklevel=3)
        return L


class _LmnnLoss:
    """The objective and its gradient, with the impostors restricted to given pairs."""

    def __init__(self, X: FloatArray, index: np.ndarray, targets: np.ndarray, push: float) -> None:
        self._X = X
        self._index = index
        self._n = X.shape[0]
        self._owner, self._target = targets
        self._push = push

    def mean_target_distance(self, L: FloatArray) -> float:
        """Mean squared distance to the target neighbours."""
        return float(np.mean(self._distances(self._X @ L.T, self._owner, self._target)))

    def impostors(self, L: FloatArray) -> np.ndarray:
        """Pairs of a sample i and an impostor l, each encoded as ``i·n + l``."""
        T = self._X @ L.T
        norms = np.sum(T * T, axis=1)
        reach = np.full(self._n, -np.inf)
        np.maximum.at(reach, self._owner, 1.0 + self._distances(T, self._owner, self._target))
        found = []
        for start in range(0, self._n, LMNN_CHUNK_SAMPLES):
            rows = slice(start, min(start + LMNN_CHUNK_SAMPLES, self._n))
            distances = norms[rows, None] + norms[None, :] - 2.0 * (T[rows] @ T.T)
            close = distances < reach[rows, None]
            close &= self._index[rows, None] != self._index[None, :]
            i, j = np.nonzero(close)
            found.append((i + start) * self._n + j)
        return np.concatenate(found)

    def flat(self, flat: FloatArray, pairs: np.ndarray) -> tuple[float, FloatArray]:
        """Value and gradient for ``L`` flattened to a vector, as scipy's minimiser needs them."""
        value, gradient = self(flat.reshape(-1, self._X.shape[1]), pairs)
        return value, gradient.ravel()

    def __call__(self, L: FloatArray, pairs: np.ndarray) -> tuple[float, FloatArray]:
        """Value and gradient, given the pairs of samples and impostors."""
        T = self._X @ L.T
        owner, impostor = pairs // self._n, pairs % self._n
        near = self._distances(T, self._owner, self._target)
        far = self._distances(T, owner, impostor)
        value = (1.0 - self._push) * float(near.sum())
        pull = np.full(near.size, 1.0 - self._push)
        away = np.zeros(far.size)
        # Targets are sorted by sample: index of the first target of each owner, and their number.
        begins = np.searchsorted(self._owner, owner)
        counts = np.searchsorted(self._owner, owner, side="right") - begins
        for k in range(int(np.max(counts, initial=0))):
            has = np.flatnonzero(counts > k)
            slot = begins[has] + k
            slack = 1.0 + near[slot] - far[has]
            active = slack > 0.0
            value += self._push * float(slack[active].sum())
            pull += self._push * np.bincount(slot[active], minlength=near.size)
            away[has[active]] += self._push
        weights = sp.coo_array((pull, (self._owner, self._target)), (self._n, self._n)).tocsr()
        weights = weights - sp.coo_array((away, (owner, impostor)), (self._n, self._n)).tocsr()
        weights = weights + weights.T
        # The gradient of sum w_ij ||L(x_i - x_j)||² is 2 L X'(D - W)X, with D the row sums of W + W'.
        laplacian = np.asarray(weights.sum(axis=1))[:, None] * T - weights @ T
        return value, 2.0 * laplacian.T @ self._X

    @staticmethod
    def _distances(T: FloatArray, i: np.ndarray, j: np.ndarray) -> FloatArray:
        difference = T[i] - T[j]
        return np.asarray(np.einsum("ij,ij->i", difference, difference))


def _target_neighbours(X: FloatArray, index: np.ndarray, k: int) -> np.ndarray:
    """Samples and their nearest neighbours of the same class, as two rows, sorted by sample."""
    owners, targets = [], []
    for label in range(int(index.max()) + 1):
        own = np.flatnonzero(index == label)
        count = min(k, own.size - 1)
        if count < 1:
            continue
        near = NearestNeighbors(n_neighbors=count).fit(X[own]).kneighbors(return_distance=False)
        owners.append(np.repeat(own, count))
        targets.append(own[near.ravel()])
    if not owners:
        raise ValueError("LMNN needs a class of at least two samples; all classes have one sample")
    owner, target = np.concatenate(owners), np.concatenate(targets)
    order = np.argsort(owner, kind="stable")
    return np.array([owner[order], target[order]])


def _principal_directions(X: FloatArray, r: int) -> FloatArray:
    """The leading principal directions as rows, the entry of largest magnitude positive."""
    _, _, right = np.linalg.svd(X, full_matrices=r > min(X.shape))
    rows = right[:r]
    largest = rows[np.arange(r), np.argmax(np.abs(rows), axis=1)]
    return np.asarray(rows * np.where(largest < 0.0, -1.0, 1.0)[:, None])


# ---------------------------------------------------------------- worst-case LDA by a sequence of SDPs

#: If the largest scatter is below this fraction of the least distance of means, the ratio counts as infinite.
NO_SCATTER = 1e-9

#: The best of this many last iterates of a solve is used: rounding errors may spoil the very last.
ITERATES_KEPT = 4

#: Weight of tau in the objective of a step. Larger costs accuracy on good data, smaller on badly scaled data.
TAU_WEIGHT = 10.0

#: Warn if delta ends this far, relatively, below the upper bound that the dual multipliers give.
SHORTFALL_WARNING = 1e-4


class ZhangSDP(LinearProjection):
    """Solve the SDP relaxation of worst-case LDA by Dinkelbach's method.

    Every step maximises ``min_ij <S_ij, Z> - delta·max_k <S_k, Z>`` over ``0 <= Z <= I``, ``tr Z = r``; the
    ratio of the maximiser is the next ``delta``. The result is not proved. A ``ConvergenceWarning`` is issued
    if the solver was too inaccurate, as it may be if the scales of features differ by orders of magnitude.
    (With one component the ratio does not depend on the scales, and features are rescaled.)

    Parameters
    ----------
    n_components : int, optional
        Number of new features; default: one less than the classes, or the rank of the data if smaller.
    solver : str, Path, type or Solver
        A backend that takes an objective.
    tol : float
        Stop when the relative increase of ``delta`` in a step is at most this.
    max_iter : int
        Maximal number of steps.
    scatter : {"mean", "sum"}
        Whether the scatter of a class is divided by its number of samples.

    Attributes
    ----------
    components_ : ndarray
        Orthonormal rows, shape (n_components, n_features).
    delta_ : float
        Ratio of the last ``Z``.
    ratio_ : float
        Ratio of ``components_``.
    deltas_ : list of float
        ``delta`` before every step, and at the end.
    n_iter_ : int
        Number of steps.
    """

    delta_: float
    ratio_: float
    deltas_: list[float]
    n_iter_: int

    def __init__(
        self,
        n_components: int | None = None,
        solver: Any = "spectral-ipm",
        tol: float = 1e-6,
        max_iter: int = 50,
        scatter: Literal["mean", "sum"] = "mean",
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.scatter = scatter

    def fit(self, X: ArrayLike, y: ArrayLike) -> ZhangSDP:
        """Find the projection."""
        samples, index, _ = self._checked_samples(X, y)
        classes = ClassScatter.from_samples(samples, index, scatter=self.scatter)
        r = check_components(self.n_components, min(self.classes_.size - 1, classes.k), classes.k)
        backend = sf.find_solver(self.solver).make()
        if not backend.maximises:
            raise sf.BackendError(f"backend {backend.name!r} takes no objective")
        powers = classes.feature_powers() if r == 1 else np.ones(classes.k)
        Z = self._dinkelbach(_DinkelbachStep(classes.stretched(powers), r, backend))
        objective = RatioObjective(classes, ZERO_SCATTER_SHARE if math.isinf(self.delta_) else 0.0)
        _, vec = eigh(Z * powers[:, None] * powers)
        A = vec[:, ::-1][:, :r]
        self.ratio_ = objective.value(A)
        W = classes.basis @ A
        self.components_ = principal_axes(W, self._projected(samples, W)).T
        return self

    def _dinkelbach(self, step: _DinkelbachStep) -> FloatArray:
        Z = step.middle
        delta = step.ratio(Z)
        self.deltas_, self.n_iter_ = [delta], 0
        if step.single:
            self.delta_ = delta
            return Z
        upper, reason = math.inf, f"no convergence in {self.max_iter} steps"
        while self.n_iter_ < self.max_iter and math.isfinite(delta):
            found, bound = step.maximise(delta, Z)
            upper = min(upper, bound)
            self.n_iter_ += 1
            ratio = step.ratio(found)
            # Within the solver's tolerance the ratio may decrease; such a step is rejected.
            gain = ratio - delta
            if gain > 0.0:
                Z, delta = found, ratio
            self.deltas_.append(delta)
            if gain <= self.tol * delta:
                reason = "the solver made no progress"
                break
        if delta < (1.0 - max(SHORTFALL_WARNING, self.tol)) * upper and delta > 0.0:
            message = f"{reason}: delta = {delta:.6g}, but the upper bound is {upper:.6g}"
            warnings.warn(f"{message}; are the features standardised?", ConvergenceWarning, stacklevel=3)
        self.delta_ = delta
        return Z


class _DinkelbachStep:
    """The SDP of one Dinkelbach step."""

    def __init__(self, classes: ClassScatter, r: int, backend: sf.FeasibilityBackend) -> None:
        self._backend = backend
        self._box = sf.SpectralBox(classes.k, trace=r)
        self._pairs: Rows = classes.mean_rows()
        self._scatters = classes.scatter_rows()

    @property
    def single(self) -> bool:
        """Whether the feasible set is a single point, the identity."""
        return self._box.trace == self._box.n

    @property
    def middle(self) -> FloatArray:
        """Interior point at which the iteration starts."""
        return np.asarray(self._box.interior_point())

    def maximise(self, delta: float, Z: FloatArray) -> tuple[FloatArray, float]:
        """Solve ``max least - delta·most``, where ``Z`` has the ratio ``delta``.

        Returns the iterate with the best ratio, and an upper bound of the ratio from the dual multipliers
        (computed in floating-point arithmetic, not proved).
        """
        program = self._program(delta, float(np.max(self._scatters.apply(Z))))
        seen: list[FloatArray] = []

        def keep(progress: sf.Progress) -> bool:
            if progress.point is not None and np.isfinite(progress.point[0]).all():
                seen.append(self._member(program, progress.point))
                del seen[:-ITERATES_KEPT]
            return False

        claim = self._backend.maximise(program, sf.Inquiry(program.problem, listener=keep))
        if claim.point is None:
            raise sf.BackendError(f"backend {self._backend.name!r} found no point: {claim.raw_status}")
        best = max([*seen, self._member(program, claim.point)], key=self.ratio)
        return best, self._upper_bound(claim.certificate, delta)

    def _program(self, delta: float, most: float) -> ConicProgram:
        """The cone program, with ``least`` and ``most`` in units of their current values.

        The box is scaled: ``0 <= Z <= tau·I``, ``tr Z = tau·r``, ``tau <= 1``. At the optimum ``tau = 1``,
        since the objective is nonnegative and increases with tau. The additional points have little scatter;
        without them solvers stall if the scales of features differ.
        """
        pairs, groups = self._pairs.m, self._scatters.m
        m, least = pairs + groups, (delta * most or 1.0)
        none = Sparse(sp.csr_array((1, self._box.n**2)), self._box.n, True)
        problem = sf.FeasibilityProblem(
            [self._box, sf.Nonneg(1), sf.Nonneg(1), sf.Nonneg(1)],
            [
                sf.Stacked([self._pairs, self._scatters.scaled(np.full(groups, -1.0)), none]),
                column(0, pairs, m + 1, -least),
                column(pairs, m, m + 1, most),
                column(m, m + 1, m + 1),
            ],
            np.append(np.zeros(m), -np.inf),
            np.append(np.full(m, np.inf), 1.0),
            block_names=["Z", "least", "most", "tau"],
        )
        # The optimal value tends to zero, which makes the relative gap meaningless; the term in tau keeps
        # it away from zero.
        weights = (1.0, -1.0 if delta > 0.0 else 0.0, TAU_WEIGHT)
        objective = (np.zeros(self._box.shape), *(np.array([w]) for w in weights))
        return ConicProgram(problem, objective, scale=3)

    def _member(self, program: ConicProgram, point: tuple[FloatArray, ...]) -> FloatArray:
        assert program.scale is not None
        return np.asarray(self._box.project(symmetrize(point[0] / point[program.scale])))

    def _upper_bound(self, y: FloatArray | None, delta: float) -> float:
        pairs, groups = self._pairs.m, self._scatters.m
        if y is None or not np.isfinite(y).all():
            return math.inf
        u, w = np.maximum(y[:pairs], 0.0), np.maximum(y[pairs : pairs + groups], 0.0)
        if not (u.sum() > 0.0 and w.sum() > 0.0):
            return math.inf
        fixed, slope = self._pairs.adjoint(u / u.sum()), self._scatters.adjoint(w / w.sum())
        return certificate_root((self._box,), (fixed,), (slope,), 0.0, 0.0, delta).delta

    def ratio(self, Z: FloatArray) -> float:
        """Ratio of a point of the relaxation."""
        least, most = float(np.min(self._pairs.apply(Z))), float(np.max(self._scatters.apply(Z)))
        if most <= NO_SCATTER * least:
            return math.inf
        return max(least, 0.0) / most if most > 0.0 else 0.0


# ---------------------------------------------------------------- worst-case LDA by SOCPs, column by column

#: Ratios above this count as infinite.
INFINITE_RATIO = 1e9

#: Step lengths tried from the current column to the solution of the SOCP.
STEP_LENGTHS = (1.0, 0.5, 0.25, 0.125)


class ZhangSOCP(LinearProjection):
    """The greedy method: optimise one column of the projection at a time, the others fixed.

    With ``delta`` the current ratio, a step maximises ``least - delta·most`` over one column ``w`` with
    ``||w|| <= 1``, orthogonal to the others, where ``least`` is a lower bound of all squared distances of
    projected means, linearised at the current column, and ``most`` an upper bound of all projected scatters.
    The solution is normalised, and accepted if it increases the ratio. The limit need not be optimal, and
    there is no bound of its distance from the optimum.

    Parameters
    ----------
    n_components : int, optional
        Number of new features; default: one less than the classes, or the rank of the data if smaller.
    tol : float
        Stop when the relative increase of the ratio in a sweep over all columns is at most this.
    max_iter : int
        Maximal number of sweeps.
    scatter : {"mean", "sum"}
        Whether the scatter of a class is divided by its number of samples.

    Attributes
    ----------
    components_ : ndarray
        Orthonormal rows, shape (n_components, n_features).
    ratio_ : float
        Ratio of ``components_``.
    ratios_ : list of float
        Ratio at the start (the leading directions of LDA) and after every sweep.
    n_iter_ : int
        Number of sweeps.
    """

    ratio_: float
    ratios_: list[float]
    n_iter_: int

    def __init__(
        self,
        n_components: int | None = None,
        tol: float = 1e-4,
        max_iter: int = 50,
        scatter: Literal["mean", "sum"] = "mean",
    ) -> None:
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.scatter = scatter

    def fit(self, X: ArrayLike, y: ArrayLike) -> ZhangSOCP:
        """Find the projection."""
        samples, index, _ = self._checked_samples(X, y)
        objective = RatioObjective(ClassScatter.from_samples(samples, index, scatter=self.scatter))
        r = check_components(self.n_components, min(self.classes_.size - 1, objective.k), objective.k)
        W = objective.initial_projection(r)
        step = _ColumnStep(objective)
        self.ratio_ = objective.value(W)
        self.ratios_, self.n_iter_ = [self.ratio_], 0
        while self.n_iter_ < self.max_iter:
            before = self.ratio_
            for k in range(r):
                W, self.ratio_ = step.improve(W, k, self.ratio_)
            self.n_iter_ += 1
            self.ratios_.append(self.ratio_)
            if self.ratio_ > INFINITE_RATIO or self.ratio_ - before <= self.tol * self.ratio_:
                break
        else:
            warnings.warn(f"no convergence in {self.max_iter} sweeps", ConvergenceWarning, stacklevel=2)
        W = objective.basis @ W
        self.components_ = principal_axes(W, self._projected(samples, W)).T
        return self


class _ColumnStep:
    """The SOCP of one step, in the variables ``(w, least, most)``."""

    def __init__(self, objective: RatioObjective) -> None:
        self._objective = objective
        self._differences = objective.differences
        k = objective.k
        self._ball = sp.csc_array(-np.eye(k + 1, k + 2, k=-1))  # (1, w) in the second-order cone
        self._within = sp.vstack([_quadratic_cone(f) for f in objective.factors], format="csc")

    def improve(self, W: FloatArray, column: int, ratio: float) -> tuple[FloatArray, float]:
        """Replace a column if that increases the ratio; returns the columns and their ratio."""
        if not np.isfinite(ratio):
            return W, ratio
        found = self._solve(np.delete(W, column, axis=1), W[:, column], ratio)
        best = W
        if found is not None:
            others = np.delete(W, column, axis=1)
            for length in STEP_LENGTHS:
                w = (1.0 - length) * W[:, column] + length * found
                w = w - others @ (others.T @ w)
                size = float(np.linalg.norm(w))
                if not size > 1e-8:
                    continue
                trial = np.array(W)
                trial[:, column] = w / size
                value = self._objective.value(trial)
                if value > ratio:
                    best, ratio = trial, value
        return best, ratio

    def _solve(self, others: FloatArray, w: FloatArray, delta: float) -> FloatArray | None:
        import clarabel

        k, pairs = self._objective.k, self._differences.shape[0]
        fixed_means, fixed_scatters = self._objective.values(others)
        along = self._differences @ w
        # least - 2 (d'w0) d'w <= squared distance in the other columns - (d'w0)²
        means = np.hstack(
            [-2.0 * along[:, None] * self._differences, np.ones((pairs, 1)), np.zeros((pairs, 1))]
        )
        orthogonal = np.hstack([others.T, np.zeros((others.shape[1], 2))])
        rhs = [np.zeros(others.shape[1]), fixed_means - along**2, np.eye(k + 1)[0]]
        cones: list[Any] = [clarabel.ZeroConeT(others.shape[1])] if others.shape[1] else []
        cones += [clarabel.NonnegativeConeT(pairs), clarabel.SecondOrderConeT(k + 1)]
        for f, fixed in zip(self._objective.factors, fixed_scatters, strict=True):
            rhs.append(np.concatenate([[1.0 - fixed, -1.0 - fixed], np.zeros(f.shape[0])]))
            cones.append(clarabel.SecondOrderConeT(f.shape[0] + 2))
        A = sp.vstack([sp.csc_array(orthogonal), sp.csc_array(means), self._ball, self._within], format="csc")
        unit = 1.0 / max(1.0, delta)
        cost = np.concatenate([np.zeros(k), [-unit, delta * unit]])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        solver = clarabel.DefaultSolver(
            sp.csc_array((k + 2, k + 2)), cost, A, np.concatenate(rhs), cones, settings
        )
        x = np.array(solver.solve().x)[:k]
        return x if np.isfinite(x).all() else None


def _quadratic_cone(factor: FloatArray) -> sp.csc_array:
    """Rows of ``||(most - fixed - 1, 2 F w)|| <= most - fixed + 1``, that is ``||F w||² <= most - fixed``."""
    k = factor.shape[1]
    rows = np.zeros((factor.shape[0] + 2, k + 2))
    rows[:2, k + 1] = -1.0
    rows[2:, :k] = -2.0 * factor
    return sp.csc_array(rows)
