"""Large margin nearest neighbours (Weinberger and Saul, JMLR 2009).

Written here because no implementation on PyPI runs with scikit-learn 1.9: metric-learn 0.7 and PyLMNN 1.6
(2020) both fail.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.wlda.projection import LinearProjection, check_components

__all__ = ["LMNN"]

#: Samples whose impostors are looked for at a time.
CHUNK = 512


class LMNN(LinearProjection):
    """Learn a linear map in which samples are closer to neighbours of their class than to all other classes.

    Minimises ``(1 - push)·sum d_ij + push·sum [1 + d_ij - d_il]_+`` over ``L``, with
    ``d_ij = ||L(x_i - x_j)||²``, where j runs over the target neighbours of i, fixed in advance, and l over
    the samples of other classes. L-BFGS on the samples l that come close, the impostors, which are looked for
    anew until there are no more.

    Parameters
    ----------
    n_components : int, optional
        Rows of ``L``; default: as many as features.
    n_neighbors : int
        Target neighbours of a sample; fewer in classes with fewer samples.
    push : float
        Weight of the second sum, between zero and one.
    max_iter : int
        Searches for impostors at most.
    steps : int
        L-BFGS steps after each.
    tol : float
        Stop when a round lowers the objective by no more than this, relatively.
    max_impostors : int
        Use at most so many impostors a round, drawn at random.
    random_state : int, RandomState instance or None
        For that draw.

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
        """Learn the map.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            One label a sample.
        """
        samples, index = self.checked_samples(X, y)
        if not 0.0 < self.push < 1.0:
            raise ValueError(f"push must lie between 0 and 1, got {self.push!r}")
        if self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be a positive integer, got {self.n_neighbors!r}")
        d = samples.shape[1]
        r = check_components(self.n_components, d, d)
        centred = samples - self.mean_
        loss = _Loss(centred, index, _targets(centred, index, self.n_neighbors), self.push)
        L = _principal(centred, r)
        spread = loss.mean_target_distance(L)
        L = L / np.sqrt(spread) if spread > 0.0 else L
        self.components_ = self._descend(loss, L)
        return self

    def _descend(self, loss: _Loss, L: FloatArray) -> FloatArray:
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
            # Too long a step for the impostors known so far: with those met on the way it will be shorter.
            if gain <= self.tol * abs(value) and (gain >= 0.0 or grown.size == known.size):
                break
            known = grown
        else:
            warnings.warn(f"no convergence in {self.max_iter} rounds", ConvergenceWarning, stacklevel=3)
        return L


class _Loss:
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
        """Pairs of a sample and an impostor, each as one number."""
        T = self._X @ L.T
        norms = np.sum(T * T, axis=1)
        reach = np.full(self._n, -np.inf)
        np.maximum.at(reach, self._owner, 1.0 + self._distances(T, self._owner, self._target))
        found = []
        for start in range(0, self._n, CHUNK):
            rows = slice(start, min(start + CHUNK, self._n))
            distances = norms[rows, None] + norms[None, :] - 2.0 * (T[rows] @ T.T)
            close = distances < reach[rows, None]
            close &= self._index[rows, None] != self._index[None, :]
            i, j = np.nonzero(close)
            found.append((i + start) * self._n + j)
        return np.concatenate(found)

    def flat(self, flat: FloatArray, pairs: np.ndarray) -> tuple[float, FloatArray]:
        """Value and gradient for a minimiser of vectors."""
        value, gradient = self(flat.reshape(-1, self._X.shape[1]), pairs)
        return value, gradient.ravel()

    def __call__(self, L: FloatArray, pairs: np.ndarray) -> tuple[float, FloatArray]:
        """Value and gradient with these impostors."""
        T = self._X @ L.T
        owner, impostor = pairs // self._n, pairs % self._n
        near = self._distances(T, self._owner, self._target)
        far = self._distances(T, owner, impostor)
        value = (1.0 - self._push) * float(near.sum())
        pull = np.full(near.size, 1.0 - self._push)
        away = np.zeros(far.size)
        # Targets of one sample are contiguous: where they begin, and how many.
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


def _targets(X: FloatArray, index: np.ndarray, k: int) -> np.ndarray:
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


def _principal(X: FloatArray, r: int) -> FloatArray:
    _, _, right = np.linalg.svd(X, full_matrices=r > min(X.shape))
    rows = right[:r]
    largest = rows[np.arange(r), np.argmax(np.abs(rows), axis=1)]
    return np.asarray(rows * np.where(largest < 0.0, -1.0, 1.0)[:, None])
