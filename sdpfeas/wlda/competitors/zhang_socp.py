"""Worst-case discriminant analysis column by column, by second-order cone programs (Zhang, Yeung 2010)."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.wlda.criterion import Criterion
from sdpfeas.wlda.family import geometry
from sdpfeas.wlda.projection import LinearProjection, check_components, principal_axes

__all__ = ["ZhangSOCP"]

#: A ratio above this is as good as infinite.
HUGE = 1e9

#: Shares of a step that are tried.
SHARES = (1.0, 0.5, 0.25, 0.125)


class ZhangSOCP(LinearProjection):
    """The greedy method: one column of the projection at a time, the others fixed.

    With ``delta`` the ratio attained so far, a step maximises ``least - delta·most`` over one column ``w``,
    orthogonal to the others and of norm at most one, where ``least`` is at most every squared distance of two
    projected means, linearised at the present column, and ``most`` at least every projected scatter. The
    column is scaled to norm one, and taken if it raises the ratio. The limit need not be the best projection,
    nor does it come with a bound.

    Parameters
    ----------
    n_components : int, optional
        Number of new features; default: one less than the classes, or the rank of the data if smaller.
    tol : float
        Stop when a sweep over all columns raises the ratio by no more than this, relatively.
    max_iter : int
        Sweeps at most.
    scatter : {"mean", "sum"}
        Divide the scatter of a class by its number of samples, or do not.

    Attributes
    ----------
    components_ : ndarray
        Orthonormal rows, shape (n_components, n_features).
    ratio_ : float
        Ratio of ``components_``.
    ratios_ : list of float
        Ratio at the start, at the leading classical directions, and after every sweep.
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
        """Find the projection.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            One label a sample.
        """
        samples, index = self.checked_samples(X, y)
        criterion = Criterion(geometry.from_data(samples, index, scatter=self.scatter))
        r = check_components(self.n_components, min(self.classes_.size - 1, criterion.k), criterion.k)
        W = criterion.discriminant(r)
        step = _ColumnStep(criterion)
        self.ratio_ = criterion.ratio(W)
        self.ratios_, self.n_iter_ = [self.ratio_], 0
        while self.n_iter_ < self.max_iter:
            before = self.ratio_
            for k in range(r):
                W, self.ratio_ = step.improve(W, k, self.ratio_)
            self.n_iter_ += 1
            self.ratios_.append(self.ratio_)
            if self.ratio_ > HUGE or self.ratio_ - before <= self.tol * self.ratio_:
                break
        else:
            warnings.warn(f"no convergence in {self.max_iter} sweeps", ConvergenceWarning, stacklevel=2)
        self.components_ = principal_axes(criterion.basis @ W, samples - self.mean_).T
        return self


class _ColumnStep:
    """The program of one step, in the variables ``(w, least, most)``."""

    def __init__(self, criterion: Criterion) -> None:
        self._criterion = criterion
        self._differences = criterion.differences()
        k = criterion.k
        self._ball = sp.csc_array(-np.eye(k + 1, k + 2, k=-1))  # 1, then w
        self._within = sp.vstack([_quadratic_cone(f) for f in criterion.factors], format="csc")

    def improve(self, W: FloatArray, column: int, ratio: float) -> tuple[FloatArray, float]:
        """Return better columns and their ratio, or those given."""
        if not np.isfinite(ratio):
            return W, ratio
        found = self._solve(np.delete(W, column, axis=1), W[:, column], ratio)
        best = W
        if found is not None:
            others = np.delete(W, column, axis=1)
            for share in SHARES:
                w = (1.0 - share) * W[:, column] + share * found
                w = w - others @ (others.T @ w)
                size = float(np.linalg.norm(w))
                if not size > 1e-8:
                    continue
                trial = np.array(W)
                trial[:, column] = w / size
                value = self._criterion.ratio(trial)
                if value > ratio:
                    best, ratio = trial, value
        return best, ratio

    def _solve(self, others: FloatArray, w: FloatArray, delta: float) -> FloatArray | None:
        import clarabel

        k, pairs = self._criterion.k, self._differences.shape[0]
        fixed_means, fixed_scatters = self._criterion.values(others)
        along = self._differences @ w
        # least - 2 (d'w0) d'w <= what the other columns give - (d'w0)²
        means = np.hstack(
            [-2.0 * along[:, None] * self._differences, np.ones((pairs, 1)), np.zeros((pairs, 1))]
        )
        orthogonal = np.hstack([others.T, np.zeros((others.shape[1], 2))])
        rhs = [np.zeros(others.shape[1]), fixed_means - along**2, np.eye(k + 1)[0]]
        cones: list[Any] = [clarabel.ZeroConeT(others.shape[1])] if others.shape[1] else []
        cones += [clarabel.NonnegativeConeT(pairs), clarabel.SecondOrderConeT(k + 1)]
        for f, fixed in zip(self._criterion.factors, fixed_scatters, strict=True):
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
