"""Worst-case discriminant analysis in many dimensions, subspace by subspace."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy.linalg

from sdpfeas.families.active_rows import WorkingRows
from sdpfeas.families.subspaces import SPARE, Subspaces, davidson_pairs, lifted, spanned
from sdpfeas.families.wlda.one_shot import one_program
from sdpfeas.families.wlda.pricing import Pricing
from sdpfeas.numerics.linalg import FloatArray, leading_pairs, symmetrize
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Dense, LowRank, PairwiseDifference, Rows, Stacked
from sdpfeas.problem.sets import Nonneg, SpectralBox

#: The scatter of all classes is shifted by this share of its mean eigenvalue before it is inverted.
SHIFT = 1e-8

#: Leading eigenvalues may be short of this share of their sum, or of this share of the ratio, in its terms.
SHORT, SHORTEST = 0.1, 1e-8


class RatioSubspaces(Subspaces):
    """The ratio ``min <S_ij, Z> / max <S_k, Z>`` on subspaces.

    ``pairs, scatters``: one row a pair of classes, and one a class. ``pair_index``: the two classes of
    every pair. ``complete, join``: make a point of the family of a matrix, and multipliers of weights of
    the pairs and of the classes.
    """

    def __init__(
        self,
        box: SpectralBox,
        pairs: Rows,
        scatters: Rows,
        means: FloatArray,
        pair_index: np.ndarray,
        complete: Callable[[FloatArray], Point],
        join: Callable[[FloatArray, FloatArray], FloatArray],
    ) -> None:
        self._complete, self._join = complete, join
        self._box, self._pairs, self._scatters = box, pairs, scatters
        self._means, self._pair_index = means, pair_index
        self.r = round(box.rank)
        self._working: WorkingRows | None = None
        self._small: Pricing | None = None
        #: The last weights, and the ratio they came with.
        self._last: tuple[FloatArray, FloatArray, float] | None = None

    @cached_property
    def _centred(self) -> FloatArray:
        return np.asarray(self._means - self._means.mean(axis=0))

    def first(self) -> FloatArray:
        """Return what the class means span, as they are and as the classical analysis turns them."""
        columns = [scipy.linalg.cho_solve(self._factor, self._centred.T), self._centred.T]
        if self.r >= self._centred.shape[0]:
            within = self._scatters.adjoint(self._equal)
            columns.append(leading_pairs(-within, self.r + SPARE)[1])  # means alone span too little
        return spanned(np.hstack(columns))

    @property
    def _equal(self) -> FloatArray:
        return np.full(self._scatters.m, 1.0 / self._scatters.m)

    @cached_property
    def _factor(self) -> tuple[FloatArray, bool]:
        """Cholesky factor of the scatter of all classes, shifted a little."""
        within = self._scatters.adjoint(self._equal)
        within[np.diag_indices(self._box.n)] += SHIFT * float(np.trace(within)) / self._box.n
        factor, lower = scipy.linalg.cho_factor(within.T, lower=True, overwrite_a=True, check_finite=False)
        return factor, bool(lower)

    def program(self, basis: FloatArray) -> ConicProgram:
        """Return the one program on the span of orthonormal columns."""
        means = self._means @ basis
        box, pairs, scatters = self._posed(basis, means)
        assert self._small is not None
        self._working, program = one_program(
            box, pairs, scatters, self._small, means, self._pair_index, self._last
        )
        return program

    def question(self, basis: FloatArray, delta: float) -> FeasibilityProblem:
        """``<S_ij, Z> >= delta·t`` and ``<S_k, Z> <= t`` on the span of orthonormal columns."""
        box, pairs, scatters = self._posed(basis, self._means @ basis)
        self._working = None
        far, none = np.full(pairs.m, np.inf), np.zeros(scatters.m)
        return FeasibilityProblem(
            [box, Nonneg(1)],
            [Stacked([pairs, scatters]), np.concatenate([np.full(pairs.m, -delta), none - 1.0])[:, None]],
            np.concatenate([np.zeros(pairs.m), none - np.inf]),
            np.concatenate([far, none]),
        )

    def _posed(self, basis: FloatArray, means: FloatArray) -> tuple[SpectralBox, Rows, Rows]:
        """The box and the rows on the span of orthonormal columns, with the means there."""
        box = SpectralBox(basis.shape[1], trace=self._box.trace)
        groups = [np.unique(part) for part in self._pair_parts]
        parts = [PairwiseDifference(means[group]) for group in groups]
        pairs: Rows = parts[0] if len(parts) == 1 else Stacked(parts)
        scatters = self._restricted(basis)
        self._small = Pricing(box, pairs, scatters)
        return box, pairs, scatters

    @cached_property
    def _pair_parts(self) -> list[np.ndarray]:
        """Pairs group by group, as the rows are."""
        parts = self._pairs.parts if isinstance(self._pairs, Stacked) else (self._pairs,)
        return np.split(self._pair_index, np.cumsum([part.m for part in parts])[:-1])

    def _restricted(self, basis: FloatArray) -> Rows:
        rows = self._scatters
        if isinstance(rows, LowRank):
            factors = rows.factors @ basis
            if factors.shape[0] < rows.m * basis.shape[1]:
                return LowRank.from_stacked(factors, rows.signs, rows.owner, rows.m)
            out = np.zeros((rows.m, basis.shape[1], basis.shape[1]))
            for k in range(rows.m):
                own = rows.owner == k
                out[k] = factors[own].T @ (factors[own] * rows.signs[own, None])
            return Dense(symmetrize(out))
        assert isinstance(rows, Dense)
        return Dense(symmetrize(basis.T @ rows.array @ basis))

    def matrix(self, point: Point) -> FloatArray:
        """Divide by tau, if any, and meet the trace: what is missing costs more in all dimensions."""
        tau = float(point[2][0]) if len(point) > 2 else 1.0
        box = SpectralBox(point[0].shape[0], trace=self._box.trace)
        return box.project(symmetrize(point[0] / tau if tau > 0.0 else point[0]))

    def point(self, basis: FloatArray, matrix: FloatArray) -> Point:
        """Return the matrix over all coordinates, as a point."""
        return self._complete(lifted(basis, matrix, self._box.rank))

    def _weights(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        y = y if self._working is None else self._working.everywhere(y)
        return np.maximum(y[: self._pairs.m], 0.0), np.maximum(-y[self._pairs.m :], 0.0)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Join the weights of the pairs and of the classes."""
        return self._join(*self._weights(y))

    def ahead(self, y: FloatArray, basis: FloatArray, matrix: FloatArray) -> tuple[float, float, FloatArray]:
        """Find the leading eigenvectors of what the weights add up to at the ratio attained."""
        assert self._small is not None
        u, w = self._weights(y)
        u, w = u / u.sum(), w / w.sum()
        attained = self._small.ratio(matrix)
        self._last = u, w, attained
        within, apart = self._scattered(w), self._apart(u)
        level = float(np.vdot(within(basis), basis @ matrix))

        def enough(lam: FloatArray) -> float:
            return max(SHORT * float(np.sum(lam[-self.r :])), SHORTEST * attained * level)

        lam, vec, short = np.zeros(0), basis, np.inf
        if attained > 0.0 and basis.shape[1] >= self.r + SPARE:
            lam, vec, short = davidson_pairs(
                lambda v: apart(v) - attained * within(v),
                lambda v: np.asarray(scipy.linalg.cho_solve(self._factor, v)) / attained,
                basis,
                self.r + SPARE,
                enough,
            )
        if not short <= enough(lam):
            lam, vec = leading_pairs(
                self._pairs.adjoint(u) - attained * self._scatters.adjoint(w), self.r + SPARE
            )
            short = 0.0
        best = vec[:, -self.r :]
        slope = float(np.vdot(best, within(best)))
        # A step of Newton's method from the left: short of the root by less than its length.
        above = max(float(np.sum(lam[-self.r :])), 0.0) + short
        return attained, attained + above / slope if slope > 0.0 else np.inf, vec

    def _scattered(self, w: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Multiplication with ``sum_k w_k S_k``, which is not formed where factors do."""
        rows = self._scatters
        if isinstance(rows, LowRank):
            weights = (rows.signs * w[rows.owner])[:, None]
            return lambda v: np.asarray(rows.factors.T @ (weights * (rows.factors @ v)))
        within = rows.adjoint(w)
        return lambda v: np.asarray(within @ v)

    def _apart(self, u: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Multiplication with ``sum_ij u_ij S_ij``."""
        i, j = self._pair_index[u > 0.0].T
        apart, weights = self._means[i] - self._means[j], u[u > 0.0, None]
        return lambda v: np.asarray(apart.T @ (weights * (apart @ v)))
