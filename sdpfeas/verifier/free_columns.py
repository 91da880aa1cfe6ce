"""Corrections that make ``A*y`` vanish on Free blocks exactly, as for equality rows of a point."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import LimitError
from sdpfeas.numerics.effort import Work, need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import inflate, norm_upper, product_up
from sdpfeas.problem.problem import FeasibilityProblem, largest_bound
from sdpfeas.problem.reductions.scaling import power_of_two
from sdpfeas.problem.rows import Dense, Rows
from sdpfeas.problem.rows.arrays import EMPTY
from sdpfeas.problem.rows.columns import column_sizes, dense_columns, vector_columns
from sdpfeas.verifier.equality import MAX_DENSE_ROWS
from sdpfeas.verifier.gram import ScaledGram
from sdpfeas.verifier.metric import MET, Entrywise, only_stored
from sdpfeas.verifier.orthonormal import Orthonormal

__all__ = ["FreeColumns"]

#: A correction of multipliers that is shorter than this needs no finer proof.
FINE = 1e-9


class FreeColumns:
    """The columns of all Free blocks, on which ``A*y`` has to vanish exactly.

    Multipliers are corrected in proportion to what they may move by: one that is bound to a sign by its own
    size, so that a correction shorter than one keeps the sign, any other by the largest there is.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    y : ndarray
        The multipliers.
    """

    def __init__(self, problem: FeasibilityProblem, y: FloatArray) -> None:
        self._problem = problem
        self._y = y
        self._parts = [
            rows
            for block, rows in zip(problem.sets, problem.rows, strict=True)
            if block.free and rows is not None
        ]
        enclosed = [rows.enclose_adjoint(y) for rows in self._parts]
        #: Upper bounds of |A*y| on the free entries.
        self.residual = np.concatenate([inflate(np.abs(g) + e, 4) for g, e in enclosed] or [np.zeros(0)])
        #: Whether these vanish as well as floating point can make them.
        self.met = all(bool(np.all(np.abs(g) <= MET * e)) for g, e in enclosed)

    @cached_property
    def weight(self) -> FloatArray:
        """How far each multiplier may move."""
        problem, size = self._problem, np.abs(self._y)
        signed = np.isinf(problem.lower) | np.isinf(problem.upper)
        unit = power_of_two(problem.norms)
        return np.where(signed, size, float(np.max(size / unit, initial=0.0)) * unit)

    @property
    def exact(self) -> bool:
        """Whether ``A*y`` vanishes exactly as it is."""
        return not self.residual.any()

    @cached_property
    def _units(self) -> tuple[list[Rows], list[FloatArray], int]:
        """The parts in units, what each row of them is to be multiplied by (at most one), and an exponent."""
        both = [rows.units() for rows in self._parts]
        mantissa, power = np.frexp(self.weight)
        powers = [np.where(self.weight == 0.0, EMPTY, own + power) for _, own in both]
        largest = max(int(np.max(p)) for p in powers)
        return [rows for rows, _ in both], [np.ldexp(mantissa, p - largest) for p in powers], largest

    def _weighted(self, kind: Callable[[Rows], Any]) -> Any:
        """Side by side, the columns of all parts in units, each row times what its multiplier may move by."""
        rows, scales, _ = self._units
        blocks = [kind(part) for part in rows]
        if all(sp.issparse(block) for block in blocks):
            parts = [sp.diags_array(s) @ block for s, block in zip(scales, blocks, strict=True)]
            return sp.hstack(parts, format="csr")
        return np.hstack([s[:, None] * dense_columns(block) for s, block in zip(scales, blocks, strict=True)])

    @cached_property
    def _columns(self) -> Any:
        return self._weighted(vector_columns)

    @cached_property
    def _gram(self) -> ScaledGram:
        """Gram matrix of the weighted columns."""
        count = float(self._columns.shape[1])
        # Sparse columns seldom meet; what they cost is the matrix that comes out.
        numbers = float(self._columns.size)
        work = (
            Work(numbers=20.0 * numbers)
            if sp.issparse(self._columns)
            else Work(products=2.0 * numbers * count)
        )
        need("the Gram matrix of the free columns", *work, memory=64.0 * count**2)
        rows, _, largest = self._units
        sizes = self._weighted(column_sizes)
        depth = self._problem.m + 8 + max(part.gram_depth for part in rows)
        overlap = inflate(dense_columns(sizes.T @ sizes), depth)
        norms = np.sqrt(inflate(np.diagonal(overlap), 4))
        exponents = np.full(norms.size, largest)
        return ScaledGram.of(dense_columns(self._columns.T @ self._columns), norms, exponents, depth, overlap)

    @cached_property
    def _orthonormal(self) -> Orthonormal | None:
        """The columns made orthonormal, where they are at hand as they are and there is room for it."""
        blocks = [vector_columns(rows) for rows in self._parts if only_stored(rows)]
        count = sum(block.shape[1] for block in blocks)
        if len(blocks) < len(self._parts) or count > min(self._problem.m, MAX_DENSE_ROWS):
            return None
        try:
            need("columns written out", memory=48.0 * count * self._problem.m)
            columns = np.hstack([dense_columns(block) for block in blocks]).T
            return Orthonormal(Entrywise(0, Dense(columns), self.weight).written(Dense(columns)))
        except LimitError:
            return None

    def correction_upper(self) -> float:
        """Bound of the least correction, in units of ``weight``, that makes ``A*y`` vanish exactly."""
        if self.exact:
            return 0.0
        bound = self._gram.shortest_upper(self.residual)
        if bound > FINE and self._orthonormal is not None:
            bound = min(bound, self._orthonormal.shortest_upper(self.residual))
        return bound

    def correct(self) -> FloatArray:
        """Return multipliers corrected so that ``A*y`` vanishes up to rounding."""
        y = np.array(self._y)
        if not self._gram.usable:
            return y
        # Where a Gram matrix is singular up to rounding its columns may not be.
        fine = None if self._gram.smallest_lower > 0.0 else self._orthonormal
        for _ in range(2):
            g = np.concatenate([rows.adjoint(y) for rows in self._parts])
            if fine is not None and fine.usable:
                y = y - self.weight * fine.shortest(g)
            else:
                y = y - self.weight * np.ldexp(self._columns @ self._gram.combination(g), self._units[2])
        return y

    def bound_norm(self) -> float:
        """Bound of how far a unit correction moves ``beta``."""
        return norm_upper(product_up(self.weight, largest_bound(self._problem)))

    def row_norm(self, b: int) -> float:
        """Bound of how far a unit correction moves ``A*y`` on block ``b``."""
        return norm_upper(product_up(self.weight, self._problem.upper_norms[b]))

    def moves(self, b: int) -> np.ndarray:
        """Which entries of ``A*y`` on block ``b`` a correction may move.

        The others provably stay as they are: no row touches them whose multiplier may move.
        """
        rows = self._problem.rows[b]
        assert rows is not None
        # Not ``> 0``: what is not a number proves nothing.
        return rows.magnitude_adjoint_upper(self.weight) != 0.0
