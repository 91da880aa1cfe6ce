"""Worst-case discriminant analysis in many dimensions, subspace by subspace."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy.linalg

from sdpfeas.families.subspaces import Subspaces, leading_pairs, lifted, spanned
from sdpfeas.families.working import WorkingRows
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.problem import Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.problem.rows import Dense, LowRank, PairwiseDifference, Rows, Stacked
from sdpfeas.problem.sets import SpectralBox
from sdpfeas.wlda.family.pricing import Pricing
from sdpfeas.wlda.family.program import one_program

__all__ = ["RatioSubspaces"]

#: The scatter of all classes is shifted by this share of its mean eigenvalue before it is inverted.
SHIFT = 1e-8


class RatioSubspaces(Subspaces):
    """The ratio ``min <S_ij, Z> / max <S_k, Z>`` on subspaces.

    Parameters
    ----------
    box : SpectralBox
        Where Z is from.
    pairs, scatters : Rows
        One row a pair of classes, and one a class.
    means : ndarray
        Class means.
    pair_index : ndarray
        The two classes of every pair.
    complete, join : callable
        Make a point of the family of a matrix, and multipliers of weights of the pairs and of the classes.
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
        within = self._within(np.full(self._scatters.m, 1.0 / self._scatters.m))
        shift = SHIFT * float(np.trace(within)) / self._box.n
        factor = scipy.linalg.cho_factor(within + shift * np.eye(self._box.n))
        turned = scipy.linalg.cho_solve(factor, self._centred.T)
        columns = [turned, self._centred.T]
        if self.r >= self._centred.shape[0]:
            columns.append(leading_pairs(-within, self.r)[1])  # means alone span too little
        return spanned(np.hstack(columns))

    def _within(self, w: FloatArray) -> FloatArray:
        """``sum_k w_k S_k``; a product of a matrix with itself takes half the work of one with another."""
        rows = self._scatters
        if isinstance(rows, LowRank) and np.all(rows.signs == 1.0) and np.all(w >= 0.0):
            half = rows.factors * np.sqrt(w)[rows.owner, None]
            return np.asarray(half.T @ half)
        return rows.adjoint(w)

    def program(self, basis: FloatArray) -> ConicProgram:
        """Return the one program on the span of orthonormal columns."""
        box = SpectralBox(basis.shape[1], trace=self._box.trace)
        means = self._means @ basis
        groups = [np.unique(part) for part in self._pair_parts]
        parts = [PairwiseDifference(means[group]) for group in groups]
        pairs: Rows = parts[0] if len(parts) == 1 else Stacked(parts)
        scatters = self._restricted(basis)
        self._small = Pricing(box, pairs, scatters)
        self._working, program = one_program(
            box, pairs, scatters, self._small, means, self._pair_index, self._last
        )
        return program

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
        """Divide by tau, and meet the trace: in all dimensions together what is missing costs much more."""
        tau = float(point[2][0])
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

    def ahead(self, y: FloatArray, matrix: FloatArray) -> tuple[float, float, FloatArray]:
        """Find the leading eigenvectors of what the weights add up to at the ratio attained."""
        assert self._small is not None
        u, w = self._weights(y)
        u, w = u / u.sum(), w / w.sum()
        attained = self._small.ratio(matrix)
        self._last = u, w, attained
        within = self._within(w)
        lam, vec = leading_pairs(self._pairs.adjoint(u) - attained * within, self.r)
        best = vec[:, -self.r :]
        slope = float(np.vdot(best, within @ best))
        # A step of Newton's method from the left: short of the root by less than its length.
        upper = attained + max(float(np.sum(lam[-self.r :])), 0.0) / slope if slope > 0.0 else np.inf
        return attained, upper, vec
