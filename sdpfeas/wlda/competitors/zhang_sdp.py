"""Worst-case discriminant analysis by a sequence of semidefinite programs (Zhang and Yeung, NIPS 2010)."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from sdpfeas.backends.contract import FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry, Progress
from sdpfeas.backends.registry import find_solver
from sdpfeas.errors import BackendError
from sdpfeas.families.lines import column
from sdpfeas.families.roots import certificate_root
from sdpfeas.numerics.linalg import FloatArray, eigh, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.problem.rows import Rows, Sparse, Stacked
from sdpfeas.problem.sets import Nonneg, SpectralBox
from sdpfeas.wlda.criterion import ROUNDING, Criterion
from sdpfeas.wlda.family import geometry
from sdpfeas.wlda.family.geometry import ClassScatter
from sdpfeas.wlda.projection import LinearProjection, check_components, principal_axes

__all__ = ["ZhangSDP"]

#: A largest scatter below this share of the least distance is none: the ratio has no bound.
NO_SCATTER = 1e-9

#: How many of the last iterates of a solve are looked at; the very last may be spoilt by rounding.
LOOK_BACK = 4

#: Weight of tau in the objective of a step. Larger costs accuracy on good data, smaller on badly scaled data.
WHOLE = 10.0

#: Ending further than this below what the multipliers rule out, relatively, is worth a warning.
SHORTFALL = 1e-4


class ZhangSDP(LinearProjection):
    """The relaxation of worst-case discriminant analysis by Dinkelbach's method.

    Every step maximises ``min_ij <S_ij, Z> - delta·max_k <S_k, Z>`` over ``0 <= Z <= I``, ``tr Z = r``, and
    takes the ratio attained as the next ``delta``. Nothing is proved. Where features differ in scale by many
    orders, steps are only as good as the solver: a ``ConvergenceWarning`` says if they were not good enough.
    (With one component the scale of a feature does not matter, and is evened out.)

    Parameters
    ----------
    n_components : int, optional
        Number of new features; default: one less than the classes, or the rank of the data if smaller.
    solver : str, Path, type or Solver
        A backend that maximises.
    tol : float
        Stop when a step raises ``delta`` by no more than this, relatively.
    max_iter : int
        Steps at most.
    scatter : {"mean", "sum"}
        Divide the scatter of a class by its number of samples, or do not.

    Attributes
    ----------
    components_ : ndarray
        Orthonormal rows, shape (n_components, n_features).
    delta_ : float
        Ratio of the last ``Z``.
    ratio_ : float
        Ratio of ``components_``.
    deltas_ : list of float
        ``delta`` before every step, and at last.
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
        """Find the projection.

        Parameters
        ----------
        X : array_like
            Samples, shape (n_samples, n_features).
        y : array_like
            One label a sample.
        """
        samples, index = self.checked_samples(X, y)
        classes = geometry.from_data(samples, index, scatter=self.scatter)
        r = check_components(self.n_components, min(self.classes_.size - 1, classes.k), classes.k)
        backend = find_solver(self.solver).make()
        if not backend.maximises:
            raise BackendError(f"backend {backend.name!r} takes no objective")
        powers = classes.feature_powers() if r == 1 else np.ones(classes.k)
        Z = self._dinkelbach(_Step(classes.stretched(powers), r, backend))
        criterion = Criterion(classes, ROUNDING if math.isinf(self.delta_) else 0.0)
        _, vec = eigh(Z * powers[:, None] * powers)
        A = vec[:, ::-1][:, :r]
        self.ratio_ = criterion.ratio(A)
        self.components_ = principal_axes(classes.basis @ A, samples - self.mean_).T
        return self

    def _dinkelbach(self, step: _Step) -> FloatArray:
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
            # A solver's answer is only accurate to its tolerance; a step back is one too far.
            gain = ratio - delta
            if gain > 0.0:
                Z, delta = found, ratio
            self.deltas_.append(delta)
            if gain <= self.tol * delta:
                reason = "the solver got no further"
                break
        if delta < (1.0 - max(SHORTFALL, self.tol)) * upper and delta > 0.0:
            message = f"{reason}: delta = {delta:.6g}, but only ratios above {upper:.6g} are ruled out"
            warnings.warn(f"{message}; are the features standardised?", ConvergenceWarning, stacklevel=3)
        self.delta_ = delta
        return Z


class _Step:
    """The program of one step."""

    def __init__(self, classes: ClassScatter, r: int, backend: FeasibilityBackend) -> None:
        self._backend = backend
        self._box = SpectralBox(classes.k, trace=r)
        self._pairs: Rows = classes.mean_rows()
        self._scatters = classes.scatter_rows()

    @property
    def single(self) -> bool:
        """Whether there is only one point, the identity: nothing to maximise over."""
        return self._box.trace == self._box.n

    @property
    def middle(self) -> FloatArray:
        """Where to start."""
        return np.asarray(self._box.interior_point())

    def maximise(self, delta: float, Z: FloatArray) -> tuple[FloatArray, float]:
        """Solve ``max least - delta·most``, starting at a point with the ratio ``delta``.

        Returns
        -------
        Z : ndarray
            The best point found.
        upper : float
            A ratio that the multipliers rule out, in plain arithmetic.
        """
        program = self._program(delta, float(np.max(self._scatters.apply(Z))))
        seen: list[FloatArray] = []

        def keep(progress: Progress) -> bool:
            if progress.point is not None and np.isfinite(progress.point[0]).all():
                seen.append(self._member(program, progress.point))
                del seen[:-LOOK_BACK]
            return False

        claim = self._backend.maximise(program, Inquiry(program.problem, listener=keep))
        if claim.point is None:
            raise BackendError(f"backend {self._backend.name!r} found no point: {claim.raw_status}")
        best = max([*seen, self._member(program, claim.point)], key=self.ratio)
        return best, self._ruled_out(claim.certificate, delta)

    def _program(self, delta: float, most: float) -> ConicProgram:
        """The program, with both of its terms measured in what they are at present.

        Points may be smaller by a factor ``tau <= 1``. At the optimum it is one, as the objective is not
        negative there and grows with tau; but on the way small points are the ones with little scatter, and
        without them solvers stall where features differ in scale.
        """
        pairs, groups = self._pairs.m, self._scatters.m
        m, least = pairs + groups, (delta * most or 1.0)
        none = Sparse(sp.csr_array((1, self._box.n**2)), self._box.n, True)
        problem = FeasibilityProblem(
            [self._box, Nonneg(1), Nonneg(1), Nonneg(1)],
            [
                Stacked([self._pairs, self._scatters.scaled(np.full(groups, -1.0)), none]),
                column(0, pairs, m + 1, -least),
                column(pairs, m, m + 1, most),
                column(m, m + 1, m + 1),
            ],
            np.append(np.zeros(m), -np.inf),
            np.append(np.full(m, np.inf), 1.0),
            block_names=["Z", "least", "most", "tau"],
        )
        # The optimal value tends to zero, where a relative gap means nothing: tau adds to it.
        weights = (1.0, -1.0 if delta > 0.0 else 0.0, WHOLE)
        objective = (np.zeros(self._box.shape), *(np.array([w]) for w in weights))
        return ConicProgram(problem, objective, scale=3)

    def _member(self, program: ConicProgram, point: Point) -> FloatArray:
        return np.asarray(self._box.project(symmetrize(program.unit_point(point)[0])))

    def _ruled_out(self, y: FloatArray | None, delta: float) -> float:
        pairs, groups = self._pairs.m, self._scatters.m
        if y is None or not np.isfinite(y).all():
            return math.inf
        u, w = np.maximum(y[:pairs], 0.0), np.maximum(y[pairs : pairs + groups], 0.0)
        if not (u.sum() > 0.0 and w.sum() > 0.0):
            return math.inf
        fixed, slope = self._pairs.adjoint(u / u.sum()), self._scatters.adjoint(w / w.sum())
        return certificate_root((self._box,), (fixed,), (slope,), 0.0, 0.0, delta).delta

    def ratio(self, Z: FloatArray) -> float:
        """Ratio attained by a point of the relaxation."""
        least, most = float(np.min(self._pairs.apply(Z))), float(np.max(self._scatters.apply(Z)))
        if most <= NO_SCATTER * least:
            return math.inf
        return max(least, 0.0) / most if most > 0.0 else 0.0
