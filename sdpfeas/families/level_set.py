"""Level sets: the maximisation of a linear objective as a family of feasibility problems.

:class:`LevelSet` takes any conic program; :class:`Theta` (Lovász, IEEE Trans. Inf. Theory 1979) and
:class:`MaxCut` (Goemans and Williamson, J. ACM 1995) are two semidefinite relaxations of graph problems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.numerics.linalg import FloatArray, eigvalsh
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Dense, LowRank, NoRows, Rows, Sparse, Stacked, as_rows
from sdpfeas.problem.sets import BlockSet, SpectralBox
from sdpfeas.problem.validation import float_array


class LevelSet(ParametricFamily):
    """Points of a problem whose objective is at least ``delta``; the threshold is the maximum.

    Parameters
    ----------
    sets : sequence of BlockSet
        One set per block.
    objective : sequence
        The objective as one row: for every block an entry as in :class:`FeasibilityProblem` with m = 1.
    rows, lower, upper
        The constraints, as in :class:`FeasibilityProblem`.
    bracket : tuple of float
        Bounds of the maximum that are known a priori; the lower one is attained.
    unit : float
        Typical magnitude of the maximum.
    row_names, block_names : sequence of str, optional
        Names of the constraints and of the blocks.

    Examples
    --------
    Maximise ``2·X_01`` over positive semidefinite ``X`` with unit diagonal:

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> diagonal = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])])
    >>> objective = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    >>> family = sf.families.LevelSet([sf.PSD(2)], [objective], [diagonal], [1.0, 1.0], [1.0, 1.0])
    >>> found = sf.bisect(family, tol=1e-6)
    >>> found.lower <= 2.0 <= found.upper
    True
    """

    def __init__(
        self,
        sets: Sequence[BlockSet],
        objective: Sequence[Any],
        rows: Sequence[Any],
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        bracket: tuple[float, float] = (-math.inf, math.inf),
        unit: float = 1.0,
        row_names: Sequence[str] | None = None,
        block_names: Sequence[str] | None = None,
    ) -> None:
        low, high = float_array(lower, "lower"), float_array(upper, "upper")
        m = low.size
        self._objective = [as_rows(entry, block, 1) for entry, block in zip(objective, sets, strict=True)]
        self._constraints = [as_rows(entry, block, m) for entry, block in zip(rows, sets, strict=True)]
        self._bounds = low, high
        self._block_names = block_names
        super().__init__(
            sets,
            [_stacked(goal, part) for goal, part in zip(self._objective, self._constraints, strict=True)],
            [None] * len(sets),
            np.concatenate([[0.0], low]),
            np.concatenate([[np.inf], high]),
            lower_slope=np.concatenate([[1.0], np.zeros(m)]),
            monotone="a point above a level is above every lower one",
            bracket=bracket,
            unit=unit,
            row_names=None if row_names is None else ["objective", *row_names],
            block_names=block_names,
        )

    def conic_program(self) -> ConicProgram:
        """Return the maximisation of the objective."""
        problem = FeasibilityProblem(
            self.sets, self._constraints, *self._bounds, block_names=self._block_names
        )
        objective = tuple(goal.adjoint(np.ones(1)) for goal in self._objective)
        return ConicProgram(problem, objective)

    def program_multipliers(self, y: FloatArray) -> FloatArray:
        """Prepend the multiplier 1 of the objective row."""
        return np.concatenate([[1.0], y])


def _stacked(first: Rows, rest: Rows) -> Rows:
    """Stack the objective row and the constraints of one block."""
    m, n, matrix = first.m + rest.m, first.n, first.matrix
    if first.empty and rest.empty:
        return NoRows(m, n, matrix)
    if not (isinstance(first, Sparse) and isinstance(rest, Sparse)):
        return Stacked([first, rest]) if rest.m else first
    # Concatenated by hand: problems may have thousands of blocks, and sp.vstack is slow.
    a, b = first.array, rest.array
    ends = np.concatenate([a.indptr, a.indptr[-1] + b.indptr[1:]])
    both = (np.concatenate([a.data, b.data]), np.concatenate([a.indices, b.indices]), ends)
    return Sparse.unchecked(sp.csr_array(both, shape=(m, a.shape[1])), n, matrix)


@dataclass(frozen=True)
class GraphOptions:
    """Parameters of a graph.

    ``n`` is the number of vertices (ignored for the Petersen graph, which has 10) and ``p`` the edge
    probability of a random graph.
    """

    graph: Literal["cycle", "petersen", "random"] = "cycle"
    n: int = 5
    p: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 3:
            raise ValueError(f"a graph needs at least 3 vertices, got n = {self.n}")
        if not 0.0 <= self.p <= 1.0:
            raise ValueError(f"p must lie between 0 and 1, got {self.p}")

    @property
    def seeded(self) -> bool:
        """Whether the graph is random."""
        return self.graph == "random"


def named_graph(options: GraphOptions) -> FloatArray:
    """Return the adjacency matrix of a graph."""
    n = 10 if options.graph == "petersen" else options.n
    out = np.zeros((n, n))
    if options.graph == "random":
        rng = np.random.default_rng(options.seed)
        out = np.triu(rng.random((n, n)) < options.p, 1).astype(np.float64)
        return out + out.T
    index = np.arange(n)
    if options.graph == "cycle":
        out[index, (index + 1) % n] = 1.0
    else:
        ring = np.arange(5)
        out[ring, (ring + 1) % 5] = 1.0
        out[ring, ring + 5] = 1.0
        out[ring + 5, (ring + 2) % 5 + 5] = 1.0
    return np.maximum(out, out.T)


def _adjacency(weights: ArrayLike) -> FloatArray:
    matrix = float_array(weights, "an adjacency matrix")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        raise ProblemError(f"an adjacency matrix must be square, of side 2 at least; got {matrix.shape}")
    if not np.isfinite(matrix).all() or np.any(matrix != matrix.T):
        raise ProblemError("an adjacency matrix must be finite and symmetric")
    np.fill_diagonal(matrix, 0.0)
    return matrix


class Theta(LevelSet):
    """Lovász theta number of a graph: maximise ``<J, X>`` subject to ``tr X = 1`` and ``X_ij = 0`` on edges.

    Parameters
    ----------
    adjacency : array_like
        Symmetric matrix; nonzero entries are edges.

    Examples
    --------
    The theta number of the pentagon is the square root of 5:

    >>> import sdpfeas as sf
    >>> found = sf.bisect(sf.families.Theta.make(graph="cycle", n=5), tol=1e-6)
    >>> found.lower <= 5**0.5 <= found.upper
    True
    """

    name = "theta"
    Options = GraphOptions

    def __init__(self, adjacency: ArrayLike) -> None:
        matrix = _adjacency(adjacency)
        n = matrix.shape[0]
        i, j = np.nonzero(np.triu(matrix, 1))
        k = np.arange(i.size)
        place = (np.concatenate([k, k]), np.concatenate([i * n + j, j * n + i]))
        edges = Sparse(sp.csr_array((np.full(2 * i.size, 0.5), place), (i.size, n * n)), n, True)
        super().__init__(
            [SpectralBox(n, trace=1.0)],
            [LowRank(np.ones((1, n)))],
            [edges if i.size else None],
            np.zeros(i.size),
            np.zeros(i.size),
            bracket=(1.0, float(n)),  # a single vertex attains 1, and <J, X> <= n·tr X
            row_names=[f"edge {a},{b}" for a, b in zip(i, j, strict=True)],
            block_names=["X"],
        )

    @classmethod
    def build(cls, options: GraphOptions) -> Theta:
        """Build the family of a named graph."""
        return cls(named_graph(options))


class MaxCut(LevelSet):
    """Semidefinite relaxation of the maximum cut: maximise ``<L/4, X>`` subject to ``X_ii = 1``.

    Parameters
    ----------
    weights : array_like
        Symmetric matrix of edge weights. The diagonal of the Laplacian L is a rounded sum of weights, and
        bounds refer to the rounded L.

    Examples
    --------
    The largest cut of a triangle has 2 edges, and the relaxation attains 9/4:

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> found = sf.bisect(sf.families.MaxCut(np.ones((3, 3))), tol=1e-6)
    >>> found.lower <= 2.25 <= found.upper
    True
    """

    name = "max-cut"
    Options = GraphOptions

    def __init__(self, weights: ArrayLike) -> None:
        matrix = _adjacency(weights)
        n = matrix.shape[0]
        laplacian = np.diag(matrix.sum(axis=1)) - matrix
        self._top = 0.25 * float(eigvalsh(laplacian)[-1])
        k = np.arange(n)
        diagonal = Sparse(sp.csr_array((np.ones(n), (k, k * n + k)), (n, n * n)), n, True)
        super().__init__(
            # X_ii = 1 implies X <= n·I. This makes the set compact, so that certificates tolerate rounding.
            [SpectralBox(n, upper=float(n))],
            [Dense(0.25 * laplacian[None])],
            [diagonal],
            np.ones(n),
            np.ones(n),
            unit=max(0.25 * float(np.abs(laplacian).sum()), 1e-300),
            row_names=[f"X_{i}{i} = 1" if n < 10 else f"X_{i},{i} = 1" for i in range(n)],
            block_names=["X"],
        )

    @classmethod
    def build(cls, options: GraphOptions) -> MaxCut:
        """Build the family of a named graph."""
        return cls(named_graph(options))

    def initial_points(self) -> list[tuple[FloatArray, ...]]:
        """Return the identity, whose value is half of the total edge weight."""
        return [(np.eye(self.sets[0].n),)]

    def initial_multipliers(self) -> list[FloatArray]:
        """Return the eigenvalue bound ``n·lambda_max(L) / 4``."""
        n = self.sets[0].n
        return [np.concatenate([[1.0], np.full(n, -self._top)])]
