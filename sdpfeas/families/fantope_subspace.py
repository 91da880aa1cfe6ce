"""The largest least of linear functions over a large Fantope, subspace by subspace."""

from __future__ import annotations

import numpy as np

from sdpfeas.families.lines import column
from sdpfeas.families.subspaces import SPARE, Subspaces, lifted, spanned
from sdpfeas.numerics.linalg import FloatArray, leading_pairs, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.problem.rows import Dense, LowRank, PairwiseDifference, Rows
from sdpfeas.problem.sets import Free, SpectralBox

__all__ = ["LeastSubspaces", "least_program"]


class LeastSubspaces(Subspaces):
    """``min_i (<A_i, Z> - b_i)`` on subspaces.

    Parameters
    ----------
    box : SpectralBox
        Where Z is from; its trace is an integer.
    terms : Rows
        The matrices.
    offsets : ndarray
        The numbers.
    """

    def __init__(self, box: SpectralBox, terms: Rows, offsets: FloatArray) -> None:
        self._box, self._terms, self._offsets = box, terms, offsets
        self.r = round(box.rank)
        self._small = terms

    def first(self) -> FloatArray:
        """Return the principal directions of the sum of all matrices."""
        return spanned(
            leading_pairs(self._terms.adjoint(np.full(self._terms.m, 1.0 / self._terms.m)), self.r + SPARE)[1]
        )

    def program(self, basis: FloatArray) -> ConicProgram:
        """Return the one program on the span of orthonormal columns."""
        self._small = _restricted(self._terms, basis)
        return least_program(self._small_box(basis.shape[1]), self._small, self._offsets)

    def question(self, basis: FloatArray, delta: float) -> FeasibilityProblem:
        """``<A_i, Z> >= b_i + delta`` on the span of orthonormal columns."""
        self._small = _restricted(self._terms, basis)
        level = self._offsets + delta
        return FeasibilityProblem(
            [self._small_box(basis.shape[1])], [self._small], level, np.full(level.size, np.inf)
        )

    def _small_box(self, side: int) -> SpectralBox:
        return SpectralBox(side, trace=self._box.trace)

    def matrix(self, point: Point) -> FloatArray:
        """Meet the trace: in all dimensions together what is missing would cost much more."""
        return self._small_box(point[0].shape[0]).project(symmetrize(point[0]))

    def point(self, basis: FloatArray, matrix: FloatArray) -> Point:
        """Return the matrix over all coordinates."""
        return (lifted(basis, matrix, self._box.rank),)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Drop what has the wrong sign."""
        return np.maximum(y, 0.0)

    def ahead(self, y: FloatArray, basis: FloatArray, matrix: FloatArray) -> tuple[float, float, FloatArray]:
        """Find the leading eigenvectors of the weighted sum."""
        u = self.multipliers(y)
        u = u / u.sum()
        attained = float(np.min(self._small.apply(matrix) - self._offsets))
        lam, vec = leading_pairs(self._terms.adjoint(u), self.r + SPARE)
        return attained, float(np.sum(lam[-self.r :])) - float(self._offsets @ u), vec


def least_program(box: SpectralBox, terms: Rows, offsets: FloatArray) -> ConicProgram:
    """``max t`` subject to ``<A_i, Z> - t >= b_i``.

    Parameters
    ----------
    box : SpectralBox
        Where Z is from.
    terms : Rows
        The matrices.
    offsets : ndarray
        The numbers.
    """
    m = terms.m
    problem = FeasibilityProblem(
        [box, Free(1)], [terms, column(0, m, m, -1.0)], offsets, np.full(m, np.inf), block_names=["Z", "t"]
    )
    return ConicProgram(problem, (np.zeros(box.shape), np.ones(1)))


def _restricted(rows: Rows, basis: FloatArray) -> Rows:
    """Rows ``V' A_i V``, in the storage that suits them."""
    if isinstance(rows, PairwiseDifference):
        return PairwiseDifference(rows.means @ basis)
    if isinstance(rows, LowRank):
        return LowRank.from_stacked(rows.factors @ basis, rows.signs, rows.owner, rows.m)
    assert isinstance(rows, Dense)
    return Dense(symmetrize(basis.T @ rows.array @ basis))
