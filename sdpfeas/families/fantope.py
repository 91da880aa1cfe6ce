"""The largest least of several linear functions over the Fantope.

Maximise, over ``Z`` in ``SpectralBox(n, 0, 1, trace=r)``, the least of ``<A_i, Z> - b_i``. With covariance
matrices of groups as ``A_i`` this is fair principal component analysis, with products of differences of class
means max-min distance analysis. At a fixed level ``delta`` every row asks for ``<A_i, Z> >= b_i + delta``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.families.base import ParametricFamily
from sdpfeas.families.descent import REFINE_ROUNDS, Oracle, refine
from sdpfeas.families.fantope_subspace import LeastSubspaces, least_program
from sdpfeas.families.roots import EXACT, NO_ROOT, Root
from sdpfeas.families.subspaces import LARGE, MANY
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.numerics.rounding import UNIT
from sdpfeas.problem.problem import Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.problem.rows import Dense, LowRank, PairwiseDifference, Rows, as_rows
from sdpfeas.problem.sets import SpectralBox
from sdpfeas.problem.sets.base import Maximiser
from sdpfeas.problem.validation import finite_number, float_array, require_finite

__all__ = ["FantopeMaxMin", "FantopeOptions"]

#: By so much, relative to the size of the functions, values are lifted to be positive in column generation.
LIFT = 1.0


@dataclass(frozen=True)
class FantopeOptions:
    """Parameters of a random problem: covariance matrices of Gaussian samples, spread unevenly.

    Attributes
    ----------
    n : int
        Side of the matrices.
    groups : int
        How many there are.
    r : int
        Trace of ``Z``.
    seed : int
        Seed.
    """

    n: int = 20
    groups: int = 4
    r: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 1 or self.groups < 1 or not 1 <= self.r <= self.n:
            raise ValueError(f"n = {self.n} and groups = {self.groups} must be positive, "
                             f"and r = {self.r} between 1 and n")  # fmt: skip


class FantopeMaxMin(ParametricFamily):
    """Find ``Z`` in the Fantope with ``<A_i, Z> - b_i >= delta`` for all i: maximise the least.

    Parameters
    ----------
    matrices : array_like or Rows
        The matrices ``A_i``: shape (m, n, n), or rows in any storage.
    r : float
        Trace of ``Z``, between 0 and n.
    offsets : array_like, optional
        The numbers ``b_i``; default: zero.
    names : sequence of str, optional
        Names of the rows.
    bracket : tuple of float
        What is known about the maximum; its lower end is attained.
    """

    name = "fantope-max-min"
    Options = FantopeOptions

    def __init__(
        self,
        matrices: Any,
        r: float,
        offsets: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        bracket: tuple[float, float] = (-math.inf, math.inf),
    ) -> None:
        side = matrices.n if isinstance(matrices, Rows) else _side(matrices)
        trace = finite_number(r, "r")
        if not 0.0 < trace <= side:
            raise ProblemError(f"r must be positive and at most {side}, the side of the matrices; got {r!r}")
        self._box = SpectralBox(side, trace=trace)
        rows = as_rows(matrices, self._box)
        if rows is None or rows.m == 0:
            raise ProblemError("a minimum needs at least one matrix")
        self._terms = rows
        self._last: tuple[FloatArray, Maximiser] | None = None
        self._offsets = np.zeros(rows.m) if offsets is None else float_array(offsets, "offsets")
        if self._offsets.shape != (rows.m,):
            raise ProblemError(f"offsets must have {rows.m} entries, got shape {self._offsets.shape}")
        require_finite(self._offsets, "offsets")
        super().__init__(
            [self._box],
            [rows],
            [None],
            self._offsets,
            np.full(rows.m, np.inf),
            lower_slope=np.ones(rows.m),
            monotone="a lower level asks less of every row",
            bracket=bracket,
            unit=float(np.max(rows.norms(), initial=0.0)) or 1.0,
            row_names=names,
            block_names=["Z"],
        )

    @classmethod
    def build(cls, options: FantopeOptions) -> FantopeMaxMin:
        """Build a random member."""
        rng = np.random.default_rng(options.seed)
        spread = np.exp(rng.uniform(-1.0, 1.0, (options.groups, options.n)))
        samples = rng.standard_normal((options.groups, 2 * options.n, options.n)) * spread[:, None]
        covariances = np.swapaxes(samples, 1, 2) @ samples / (2.0 * options.n)
        return cls(symmetrize(covariances), options.r)

    def values(self, point: Point) -> FloatArray:
        """``<A_i, Z> - b_i``, in plain arithmetic.

        Parameters
        ----------
        point : tuple of ndarray
            A point of the family.
        """
        return np.asarray(self._terms.apply(point[0]) - self._offsets)

    # ------------------------------------------------------------ bounds

    def root(self, y: FloatArray, near: float | None = None, accuracy: float = EXACT) -> Root:
        """Return the smallest level that weights rule out, ``(sigma(A*y) - b'y) / sum y``."""
        total = float(np.sum(y))
        if not total > 0.0:
            return NO_ROOT
        best = self._priced(y)
        delta = (float(best.lam @ best.weights) - float(self._offsets @ y)) / total
        size = self._box.nuclear_radius * best.size + float(np.abs(self._offsets) @ y)
        return Root(delta, 64.0 * self._box.n * UNIT * size / total)

    def _priced(self, y: FloatArray) -> Maximiser:
        """The best Z for the weighted sum; the last is kept."""
        if self._last is None or not np.array_equal(self._last[0], y):
            self._last = np.array(y), self._box.maximiser(self._terms.adjoint(y))
        return self._last[1]

    def initial_multipliers(self) -> list[FloatArray]:
        """Equal weights, and all weight on the row that is least in the middle of the box."""
        least = int(np.argmin(self.values((self._box.interior_point(),))))
        return [np.full(self.m, 1.0 / self.m), (np.arange(self.m) == least).astype(np.float64)]

    def recovered_points(self, y: FloatArray, near: float | None = None) -> list[Point]:
        """Return the projector on the leading eigenvectors of the weighted sum."""
        best = self._priced(np.maximum(y, 0.0))
        return [(self._box.compose(best.frame, best.weights),)]

    def refine(
        self, points: list[Point], multipliers: list[FloatArray], tol: float
    ) -> tuple[list[Point], list[FloatArray]]:
        """Return a better point and better multipliers: column generation, values lifted to be positive."""
        base = min((float(np.min(self.values(point))) for point in points), default=0.0) - LIFT * self.unit

        def price(u: FloatArray, w: FloatArray, near: float) -> tuple[float, FloatArray]:
            best = self._priced(u)
            return self.root(u).delta - base, self._box.compose(best.frame, best.weights)

        oracle = Oracle(lambda z: self.values((z,)) - base, lambda z: np.ones(1), price)
        weights = [(y, np.ones(1)) for y in multipliers]
        found = refine(oracle, [point[0] for point in points], weights, REFINE_ROUNDS, 0.2 * tol)
        return ([], []) if found is None else ([(found[0],)], [found[1][0]])

    # ------------------------------------------------------------ one program

    def homogenized(self) -> ConicProgram:
        """``max t`` subject to ``<A_i, Z> - t >= b_i``."""
        return least_program(self._box, self._terms, self._offsets)

    def subspaces(self) -> LeastSubspaces | None:
        """Return the same on subspaces, where there are many dimensions and few directions."""
        rank = self._box.rank
        kinds = (Dense, LowRank, PairwiseDifference)
        if self._box.n < max(LARGE, MANY * rank) or rank != round(rank) or not isinstance(self._terms, kinds):
            return None
        return LeastSubspaces(self._box, self._terms, self._offsets)

    def program_point(self, point: Point) -> Point:
        """Drop t."""
        return (point[0],)

    def program_multipliers(self, y: FloatArray) -> FloatArray:
        """Drop what has the wrong sign."""
        return np.maximum(y, 0.0)

    def describe(self) -> Mapping[str, Any]:
        """Sizes, and the trace."""
        return {**super().describe(), "r": self._box.trace}


def _side(matrices: Any) -> int:
    shape = np.shape(matrices)
    if len(shape) != 3 or shape[1] != shape[2] or not shape[1]:
        raise ProblemError(f"matrices must have shape (m, n, n), got {shape}")
    return int(shape[1])
