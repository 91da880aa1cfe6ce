"""Operator splitting: the sets and bounds on one side, the rows on the other.

A problem asks for a member of ``K × [lower, upper]`` on the graph ``{(X, A(X))}``. Both are easy to project
onto, one block and one row at a time or by one factorised linear system, and over-relaxed ADMM
(Douglas–Rachford splitting) finds a common member. Where there is none its iterates drift by a constant
displacement, and that displacement is a certificate.

What it finds lies on a boundary, where little can be proved. So every problem is asked twice, by a margin:
*tightened*, with sets and bounds a little smaller, so that a solution lies inside the original ones; and
*widened*, with cones a little larger, so that a certificate is strict. Both runs go on side by side until
the verifier's own condition holds for either; when neither has more to give, the margin shrinks.

Warm starts are used (evidence that still holds ends the solve at once), progress is reported at every
screen, and nothing is random.

``space`` holds points as vectors in units of their own, ``graph`` the projection onto the rows,
``splitting`` one run, ``evidence`` what makes claims of its iterates, ``screens`` when these are good
enough, and ``search`` the two runs side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from sdpfeas.backends.base import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry, WarmStart
from sdpfeas.claims import Claim, Stop
from sdpfeas.deadline import Deadline
from sdpfeas.errors import OutOfTime
from sdpfeas.numerics.cost_estimate import Work, need
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import NoRows, Rows, Sparse, Stacked
from sdpfeas.problem.rows.matrix_view import vector_columns
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.equality_correction import FreeColumns

# ------------------------------------------------------------
# Options of the operator splitting.


@dataclass(frozen=True)
class AdmmOptions:
    """Options of :class:`Admm`.

    ``max_iterations``: steps of each of the two runs, over all margins. ``margin``: by how much the problem
    is tightened and widened at first, relative to its size. ``min_margin``: the last margin that is tried.
    ``relaxation``: over-relaxation, between 0 and 2; 1 is plain ADMM. ``penalty``: weight of the rows
    against the sets, to begin with. ``adaptive``: let the penalty follow the residuals.
    """

    max_iterations: int = 20_000
    margin: float = 1e-3
    min_margin: float = 1e-7
    relaxation: float = 1.6
    screen_every: int = 25
    penalty: float = 1.0
    adaptive: bool = True

    def __post_init__(self) -> None:
        for name in ("max_iterations", "screen_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"option {name!r} must be at least 1, got {getattr(self, name)}")
        if not 0.0 < self.relaxation < 2.0:
            raise ValueError(f"option 'relaxation' must lie between 0 and 2, got {self.relaxation}")
        if not 0.0 < self.min_margin <= self.margin < 1.0:
            raise ValueError(
                "options 'margin' and 'min_margin' must lie between 0 and 1, the second not above the "
                f"first; got {self.margin} and {self.min_margin}"
            )
        if not 0.0 < self.penalty < float("inf"):
            raise ValueError(f"option 'penalty' must be positive, got {self.penalty}")


# ------------------------------------------------------------
# Points as long vectors, and the units in which rows and blocks are alike.

#: Rows with up to this many coefficients are kept as one dense matrix, whatever their storage.
DENSE_LIMIT = 250_000


class Space:
    """Points as long vectors, with rows and blocks in units of their own, the cones optionally widened.

    All cones together are widened by the map ``W -> X = W - kappa·tr(W)·I``, so that ``X`` may be a little
    indefinite; everything is computed on ``W``, in units of ``scales``.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        weights: FloatArray,
        scales: FloatArray,
        margin: float = 0.0,
    ) -> None:
        self.problem = problem
        self.weights = weights
        self.scales = scales
        sizes = [block.entries for block in problem.sets]
        self.size = sum(sizes)
        ends = np.cumsum(sizes)
        self._slices = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        self._plain = self
        self._side = sum(block.degree for block in problem.sets if block.cone)
        self._kappa = margin / ((1.0 + margin) * self._side) if self._side else 0.0

    def widened(self, margin: float) -> Space:
        """Return the same space with wider cones."""
        out = Space(self.problem, self.weights, self.scales, margin)
        out._plain = self._plain
        return out

    def blocks(self, flat: FloatArray) -> list[FloatArray]:
        """The vector cut into one array per set, in their units."""
        shapes = (block.shape for block in self.problem.sets)
        return [flat[part].reshape(shape) for part, shape in zip(self._slices, shapes, strict=True)]

    def sets(self, margin: float = 0.0) -> list[BlockSet]:
        """Return the sets in their units, boxes pulled towards their middle by a margin."""
        return [
            block.shrunk(margin).scaled(1.0 / scale)
            for block, scale in zip(self.problem.sets, self.scales, strict=True)
        ]

    def _bend(self, blocks: Sequence[FloatArray], kappa: float) -> list[FloatArray]:
        """Subtract a multiple of the trace of all cones from their diagonals."""
        if kappa == 0.0:
            return list(blocks)
        pairs = list(zip(self.problem.sets, blocks, strict=True))
        shift = kappa * sum(block.trace_of(x) for block, x in pairs if block.cone)
        return [x - shift * block.identity() if block.cone else x for block, x in pairs]

    def _scaled(self, blocks: Sequence[FloatArray], scales: FloatArray) -> Point:
        return tuple(scale * x for scale, x in zip(scales, blocks, strict=True))

    def point(self, flat: FloatArray) -> Point:
        """The point a vector stands for, in the units of the problem."""
        return self._scaled(self._bend(self.blocks(flat), self._kappa), self.scales)

    def flat(self, point: Point) -> FloatArray:
        """Inverse of :meth:`point`."""
        back = -self._kappa / (1.0 - self._kappa * self._side)
        blocks = self._bend(self._scaled(point, 1.0 / self.scales), back)
        return np.concatenate([x.reshape(-1) for x in blocks])

    def apply(self, flat: FloatArray) -> FloatArray:
        """The rows, weighted, of a vector."""
        if self.matrix is not None:
            return self.matrix @ flat
        return self.weights * self.problem.apply(self.point(flat))

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Adjoint of :meth:`apply`."""
        if self.matrix is not None:
            return y @ self.matrix
        return self._adjoint(y)

    def _adjoint(self, y: FloatArray) -> FloatArray:
        gradient = self._scaled(self.problem.adjoint(self.weights * y), self.scales)
        return np.concatenate([g.reshape(-1) for g in self._bend(gradient, self._kappa)])

    @cached_property
    def matrix(self) -> FloatArray | None:
        """The rows as one dense matrix, where it is small."""
        if not 0 < self.size * self.problem.m <= DENSE_LIMIT:
            return None
        return np.array([self._adjoint(unit) for unit in np.eye(self.problem.m)])

    @cached_property
    def _plain_gram(self) -> FloatArray:
        total = np.zeros((self.problem.m, self.problem.m))
        for rows, scale in zip(self.problem.rows, self.scales, strict=True):
            if not rows.empty:
                total += scale**2 * rows.gram()
        return total

    @property
    def gram_work(self) -> Work:
        """What ``gram`` takes."""
        parts = (rows.gram_work for rows in self.problem.rows)
        return reduce(Work.plus, parts, Work(numbers=8.0 * float(self.problem.m) ** 2))

    def _along(self) -> FloatArray:
        """Column with which widening the cones changes ``AA'``: it is subtracted, times itself."""
        total = np.zeros(self.problem.m)
        for (_, block, rows), scale in zip(self.problem.blocks(), self.scales, strict=True):
            if block.cone and not rows.empty:
                total += scale * rows.apply(block.identity())
        return np.sqrt(self._kappa * (2.0 - self._kappa * self._side)) * total

    def gram(self) -> FloatArray:
        """Inner products of the rows."""
        along = self._along()
        total = self._plain._plain_gram - np.outer(along, along)
        return symmetrize(total * self.weights[:, None] * self.weights)

    def diagonal_plus_columns(self) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Return ``AA'`` as a diagonal matrix plus ``U diag(signs) U'``, where ``U`` has few columns.

        Blocks on which no two rows share an entry, such as slack, give the diagonal; all others columns.
        """
        problem = self.problem
        parts = [
            (rows, scale, int(np.prod(rows.shape)))
            for rows, scale in zip(problem.rows, self.scales, strict=True)
            if not rows.empty
        ]
        count = 1 + sum(size for rows, _, size in parts if not _disjoint(rows))
        if 2 * count > problem.m:
            return None
        cells = float(count) * problem.m
        need("the columns of the rows", numbers=4.0 * cells, memory=24.0 * cells)
        diagonal, columns = np.zeros(problem.m), [self._along()]
        for rows, scale, size in parts:
            if _disjoint(rows):
                diagonal += (scale * rows.norms()) ** 2
            else:
                columns += [scale * rows.apply(unit.reshape(rows.shape)) for unit in np.eye(size)]
        signs = np.ones(len(columns))
        signs[0] = -1.0
        return diagonal * self.weights**2, np.stack(columns, axis=1) * self.weights[:, None], signs


def _disjoint(rows: Rows) -> bool:
    """Whether no two rows share an entry."""
    return isinstance(rows, Sparse) and bool(np.max(np.bincount(rows.array.indices), initial=0) <= 1)


def equilibrate(norms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Powers of two for rows and blocks that bring norms (blocks × rows) near one in both directions."""
    rows, blocks = np.ones(norms.shape[1]), np.ones(norms.shape[0])
    for _ in range(10):
        scaled = norms * blocks[:, None] * rows
        rows *= _inverse_root(np.sqrt(np.sum(scaled**2, axis=0)))
        touched = np.maximum(np.sum(norms > 0.0, axis=1), 1)
        blocks *= _inverse_root(np.sqrt(np.sum(scaled**2, axis=1) / touched))
    return power_of_two(1.0 / rows), power_of_two(1.0 / blocks)


def _inverse_root(sizes: FloatArray) -> FloatArray:
    return 1.0 / np.sqrt(np.where(sizes > 0.0, sizes, 1.0))


# ------------------------------------------------------------
# Projection onto the graph of the rows.

#: Systems up to this size are diagonalised once for every penalty, ...
EIGEN_LIMIT = 600

#: ... up to this one factorised anew when the penalty changes, and beyond that solved iteratively.
CHOLESKY_LIMIT = 3000


class Graph:
    """Projection onto the graph ``{(x, A x)}``, its second part weighted by the penalty.

    The member nearest to ``(v, u)`` has ``x = v + A't`` with ``t = (I/penalty + AA')^-1 (u - A v)``. Where
    ``AA'`` is diagonal but for few columns, these are factorised; else it is diagonalised or factorised
    itself, and where it is too large, conjugate gradients do.
    """

    def __init__(self, space: Space, penalty: float) -> None:
        self.space = space
        self._parts = space.diagonal_plus_columns()
        self._matrix: FloatArray | None = None
        self._eigen: tuple[FloatArray, FloatArray] | None = None
        self._factor: Any = None
        self._last = np.zeros(space.problem.m)
        if self._parts is None and space.problem.m <= CHOLESKY_LIMIT:
            m = float(space.problem.m)
            need("the Gram matrix of the rows", *space.gram_work, memory=32.0 * m * m)
            self._matrix = space.gram()
            if space.problem.m <= EIGEN_LIMIT:
                need("an eigendecomposition", cubes=m**3)
                lam, vec = scipy.linalg.eigh(self._matrix, check_finite=False)
                self._eigen = np.maximum(lam, 0.0), vec
        self.set_penalty(penalty)

    def set_penalty(self, penalty: float) -> None:
        """Weigh the second part anew."""
        self.penalty = penalty
        if self._parts is not None:
            diagonal, columns, signs = self._parts
            self._inverse = 1.0 / (diagonal + 1.0 / penalty)
            inner = np.diag(signs) + columns.T @ (self._inverse[:, None] * columns)
            self._factor = scipy.linalg.lu_factor(inner, check_finite=False)
        elif self._matrix is not None and self._eigen is None:
            need("a factor of the Gram matrix", products=0.5 * float(self._matrix.shape[0]) ** 3)
            shifted = self._matrix + np.eye(self._matrix.shape[0]) / penalty
            self._factor = scipy.linalg.cho_factor(shifted, lower=True, check_finite=False)

    def multipliers(self, residual: FloatArray) -> FloatArray:
        """Solve ``(I/penalty + AA') t = residual``."""
        if self._parts is not None:
            columns = self._parts[1]
            t = self._inverse * residual
            inner = scipy.linalg.lu_solve(self._factor, columns.T @ t, check_finite=False)
            return t - self._inverse * (columns @ inner)
        if self._eigen is not None:
            lam, vec = self._eigen
            return vec @ ((vec.T @ residual) / (lam + 1.0 / self.penalty))
        if self._matrix is not None:
            return np.asarray(scipy.linalg.cho_solve(self._factor, residual, check_finite=False))
        return self._iterate(residual)

    def _iterate(self, rhs: FloatArray) -> FloatArray:
        def matvec(t: FloatArray) -> FloatArray:
            return t / self.penalty + self.space.apply(self.space.adjoint(t))

        operator = LinearOperator((rhs.size, rhs.size), matvec=matvec, dtype=np.float64)
        self._last, _ = cg(operator, rhs, x0=self._last, rtol=1e-8, maxiter=100)
        return self._last

    def project(self, v: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The member nearest to ``(v, u)``."""
        t = self.multipliers(u - self.space.apply(v))
        # A x = A v + AA't = u - t/penalty, without applying the rows again.
        return v + self.space.adjoint(t), u - t / self.penalty


# ------------------------------------------------------------
# The iteration itself.

#: A run has settled when it is this close to a solution, relative to its size, ...
SOLVED = 1e-9

#: ... or when its displacement repeats itself to this accuracy.
DRIFTING = 1e-5


class Splitting:
    """One run of the iteration; its sets and bounds may be moved between steps."""

    def __init__(self, space: Space, options: AdmmOptions) -> None:
        self.space = space
        self.relaxation = options.relaxation
        self.graph = Graph(space, options.penalty)
        self.sets = space.sets()
        self.floors = [0.0] * len(self.sets)
        self.lower = space.problem.lower * space.weights
        self.upper = space.problem.upper * space.weights
        self.x, self.z = np.zeros(space.size), np.zeros(space.problem.m)
        self.settled = False
        self._displacement: tuple[FloatArray, FloatArray] | None = None
        self.screens, self._balance_at = 0, 2
        self._project()

    def start(self, point: Point | None, y: FloatArray | None) -> None:
        """Begin at a point, at multipliers, or both."""
        if point is not None:
            self.x = self.space.flat(point)
            self.z = np.clip(self.space.apply(self.x), self.lower, self.upper)
        if y is not None:
            weighted = y / self.space.weights
            self.x = self.x + self.space.adjoint(weighted)
            self.z = self.z - weighted / self.graph.penalty
        self._project()

    def go_on_from(self, other: Splitting) -> None:
        """Begin where another run is."""
        self.x, self.z = other.x, other.z
        self.graph.set_penalty(other.graph.penalty)
        self._project()

    def restart(self) -> None:
        """Forget how far the run has drifted, and go on from its present point."""
        self.x, self.z = self.member, self.value
        self.settled, self._displacement = False, None
        self._project()

    def _project(self) -> None:
        """Find the members of the sets and bounds nearest to where the run is."""
        parts = [
            block.project(x - floor * block.identity()) + floor * block.identity()
            if floor
            else block.project(x)
            for block, x, floor in zip(self.sets, self.space.blocks(self.x), self.floors, strict=True)
        ]
        self.member = np.concatenate([part.reshape(-1) for part in parts])
        self.value = np.clip(self.z, self.lower, self.upper)

    def _step(self) -> None:
        x, z = self.graph.project(2.0 * self.member - self.x, 2.0 * self.value - self.z)
        self._apart = x - self.member, z - self.value
        self.x = self.x + self.relaxation * self._apart[0]
        self.z = self.z + self.relaxation * self._apart[1]
        self._project()

    def advance(self, steps: int, deadline: Deadline) -> None:
        """Take steps, and notice when further ones will bring nothing new."""
        x, z = self.x, self.z
        for _ in range(steps):
            need("a step of the splitting", *self.space.problem.work.times(2.0))
            self._step()
            if deadline.expired:
                break
        last, self._displacement = self._displacement, (self.x - x, self.z - z)
        self.screens += 1
        self.settled = _norm(*self._apart) <= SOLVED * _norm(self.member, self.value)
        if last is not None:
            change = _norm(self._displacement[0] - last[0], self._displacement[1] - last[1])
            self.settled |= change <= DRIFTING * _norm(*self._displacement)

    def balance(self) -> None:
        """Let the penalty follow the residuals, ever more rarely."""
        if self.screens < self._balance_at:
            return
        self._balance_at *= 2
        sets, rows = _norm(self._apart[0]), _norm(self._apart[1])
        if not (sets > 0.0 and rows > 0.0) or 1.0 / 3.0 < rows / sets < 3.0:
            return
        old = self.graph.penalty
        new = float(np.clip(old * np.clip(rows / sets, 0.1, 10.0), 1e-4, 1e4))
        # The multipliers, penalty times distance from the bounds, stay as they are.
        self.z = self.value + (self.z - self.value) * (old / new)
        self.graph.set_penalty(new)
        self._displacement = None

    def candidates(self) -> Iterator[FloatArray]:
        """Multipliers: the part of the last displacement, then of all of them, that no row explains."""
        assert self._displacement is not None
        for dx, dz in (self._displacement, (self.x - self.member, self.z - self.value)):
            yield -self.space.weights * self.graph.multipliers(dz - self.space.apply(dx))


def _norm(*parts: FloatArray) -> float:
    return float(np.sqrt(sum(float(part @ part) for part in parts)))


# ------------------------------------------------------------
# What becomes of iterates: points that meet their equations, multipliers with the right signs.

#: Weight of the equations when a point is moved onto them.
EQUATION_PENALTY = 1e9


class Equations:
    """Least-norm correction onto the equality rows and prescribed traces."""

    def __init__(self, problem: FeasibilityProblem, scales: FloatArray) -> None:
        index = problem.equality_rows
        self._graph: Graph | None = None
        if index.size == 0:
            return
        traces = {b: s.trace for b, s in enumerate(problem.sets) if s.trace is not None}
        right = np.append(problem.lower[index], list(traces.values()))
        rows = [
            _with_traces(
                rows.select(index),
                block,
                list(traces).index(b) if b in traces else None,
                len(traces),
            )
            for b, block, rows in problem.blocks()
        ]
        equations = FeasibilityProblem(problem.sets, rows, right, right)
        # A large penalty makes the equations hold; repeating makes up for its not being infinite.
        self._graph = Graph(Space(equations, np.ones(right.size), scales), EQUATION_PENALTY)

    def correct(self, point: Point) -> Point:
        """Return the nearest point that meets all equations."""
        if self._graph is None:
            return point
        space = self._graph.space
        flat = space.flat(point)
        for _ in range(3):
            flat, _ = self._graph.project(flat, space.problem.lower)
        return tuple(symmetrize(x) if x.ndim == 2 else x for x in space.point(flat))


def _with_traces(rows: Rows, block: BlockSet, own: int | None, traces: int) -> Rows:
    """Rows of one block, followed by a row for every prescribed trace; its own is the ``own``-th of these."""
    if traces == 0:
        return rows
    if rows.empty and own is None:
        return NoRows(rows.m + traces, block.n, block.matrix)
    width = block.entries
    tail = sp.lil_array((traces, width))
    if own is not None:
        tail[own, :] = block.identity().reshape(1, -1)
    return Stacked([rows, Sparse(tail.tocsr(), block.n, block.matrix)])


class Cleaner:
    """Gives multipliers the signs their rows allow, and makes ``A*y`` vanish on the Free blocks."""

    def __init__(self, problem: FeasibilityProblem) -> None:
        self.problem = problem
        parts = [
            sp.csr_array(vector_columns(rows))
            for _, block, rows in problem.blocks()
            if block.free and not rows.empty
        ]
        self._columns = sp.hstack(parts, format="csr") if parts else None
        if self._columns is not None:
            need("the free columns", cubes=1.5 * float(self._columns.shape[1]) ** 3)
            gram = (self._columns.T @ self._columns).toarray()
            self._inverse = scipy.linalg.pinvh(gram, rtol=1e-13, check_finite=False)

    def clean(self, y: FloatArray) -> FloatArray | None:
        """Return multipliers near ``y``, or None if nothing is left of them."""
        largest = float(np.max(np.abs(y), initial=0.0))
        if not 0.0 < largest < np.inf:
            return None
        y = self._signed(y / largest)
        if self._columns is not None:
            for _ in range(2):
                y = y - self._columns @ (self._inverse @ (self._columns.T @ y))
            if sign_violation(self.problem, y).any():
                # Only multipliers that are clear of zero may make up for the others.
                y = self._signed(FreeColumns(self.problem, self._signed(y)).correct())
        return y if y.any() else None

    def _signed(self, y: FloatArray) -> FloatArray:
        return np.where(sign_violation(self.problem, y) > 0.0, 0.0, y)


# ------------------------------------------------------------
# Whether evidence is good enough to offer.

Evidence = TypeVar("Evidence")

#: How often a proof may be refused before a numeric check is enough.
PATIENCE = 4


class Judge(Generic[Evidence]):
    """Decides what of the evidence to offer.

    That is what looks promising, and ever more rarely where it was refused. On small problems what does not
    look so is offered at every power of two as well, for a repair may help; and in the end a numeric verdict
    is enough.
    """

    def __init__(
        self, looks: Callable[[Evidence], bool], offer: Callable[[Evidence, bool], bool], small: bool
    ) -> None:
        self._looks, self._offer, self._small = looks, offer, small
        self._refusals = self._skip = 0

    def accept(self, evidence: Evidence, run: Splitting) -> bool:
        """Offer the evidence if it is worth it; True if it settles the inquiry."""
        if self._looks(evidence) and self._holds(evidence, run.settled):
            return True
        now = run.screens >= 4 and run.screens & (run.screens - 1) == 0
        return self._small and now and self._offer(evidence, False)

    def _holds(self, evidence: Evidence, last: bool) -> bool:
        if self._skip and not last:
            self._skip -= 1
            return False
        if self._offer(evidence, last or self._refusals + 1 >= PATIENCE):
            return True
        self._refusals += 1
        self._skip = 2 ** min(self._refusals, 6)
        return False


def looks_inside(problem: FeasibilityProblem, point: Point) -> bool:
    """Whether a point meets the inequality rows and lies where corrections of equations are allowed."""
    value = problem.apply(point)
    within = (value >= problem.lower) & (value <= problem.upper)
    if not np.all(within | problem.equality):
        return False
    corrected = bool(problem.equality.any())
    return all(
        block.depth(x) > 0.0
        for block, x in zip(problem.sets, point, strict=True)
        if corrected and not block.free
    )


def looks_strict(problem: FeasibilityProblem, y: FloatArray) -> bool:
    """Whether the two sides of a certificate differ in the right direction."""
    gap = float(np.sum(problem.beta_terms(y)))
    for _, block, rows in problem.blocks():
        if rows.empty or block.free:
            continue
        gap -= block.support(rows.adjoint(y))
    return gap > 0.0


def term_sizes(problem: FeasibilityProblem, point: Point) -> FloatArray:
    """Size of what the blocks add to every row."""
    total = np.zeros(problem.m)
    for rows, x in zip(problem.rows, point, strict=True):
        total += np.abs(rows.apply(x))
    return total


# ------------------------------------------------------------
# Two runs side by side, one tightened and one widened.

#: Each margin is this share of the one before.
MARGIN_STEP = 1e-2

#: Rows that are equations weigh this much more than inequalities.
EQUALITY_WEIGHT = 32.0

#: On problems with more rows or entries than this, nothing is offered that does not look right.
REPAIR_ROWS, REPAIR_ENTRIES = 200, 10_000

#: A starting point that misses an equality row by more than this, relative to its terms, is not tried.
NEARLY = 1e-6


class Search:
    """The two runs side by side, until what one of them offers settles the inquiry."""

    def __init__(self, problem: FeasibilityProblem, options: AdmmOptions, inquiry: Inquiry) -> None:
        self.original = problem
        self.options = options
        self.inquiry = inquiry
        self.scaling = problem.scaled()
        self.problem = self.scaling.problem
        rows, self.scales = equilibrate(self.problem.block_norms)
        self.weights = rows * np.where(problem.equality, EQUALITY_WEIGHT, 1.0)
        self.bounds = largest_bound(self.problem)
        self.iterations = 0
        self.point: Point | None = None
        self.certificate: FloatArray | None = None
        entries = sum(block.entries for block in problem.sets)
        small = problem.m <= REPAIR_ROWS and entries <= REPAIR_ENTRIES
        self.points: Judge[Point] = Judge(
            lambda point: looks_inside(problem, point),
            lambda point, final: inquiry.offer(point=point, final=final),
            small,
        )
        self.certificates: Judge[FloatArray] = Judge(
            lambda y: looks_strict(problem, y),
            lambda y, final: inquiry.offer(multipliers=y, final=final),
            small,
        )

    def run(self) -> Claim:
        """Look for evidence from the start on."""
        start = self.inquiry.start
        # A diverging run may overflow; what is not finite is refused where it matters.
        with np.errstate(all="ignore"):
            self.certificate = start.certificate
            if self.certificate is not None and self.inquiry.offer(multipliers=self.certificate):
                return self._claim(Stop.FINISHED, "certificate at the start")
            self.point = start.point
            if self.point is None:
                self.point = tuple(block.interior_point() for block in self.original.sets)
            if self._promises(self.point) and self.inquiry.offer(point=self.point):
                return self._claim(Stop.FINISHED, "point at the start")
            try:
                return self._search(start)
            except np.linalg.LinAlgError as error:
                return self._claim(Stop.NUMERICAL, str(error))
            except OutOfTime as error:
                return self._claim(Stop.TIME_LIMIT, str(error))

    def _promises(self, point: Point) -> bool:
        """Whether a point is worth an offer: a proof may be expensive."""
        problem = self.original
        off = np.abs(problem.apply(point) - problem.lower)[problem.equality]
        size = (largest_bound(problem) + term_sizes(problem, point))[problem.equality]
        return bool(np.all(off <= NEARLY * size)) and looks_inside(problem, point)

    def _search(self, start: WarmStart) -> Claim:
        self.equations = Equations(self.problem, self.scales)
        self.cleaner = Cleaner(self.problem)
        space = Space(self.problem, self.weights, self.scales)
        tightened = Splitting(space, self.options)
        tightened.start(start.point, None)
        widened: Splitting | None = None
        for margin, limit in self._margins():
            wider = Splitting(space.widened(margin), self.options)
            if widened is None:
                y = start.certificate
                wider.start(start.point, None if y is None else self.scaling.start_multipliers(y))
            else:
                wider.go_on_from(widened)
            widened = wider
            claim = self._rounds(tightened, widened, margin, limit)
            if claim is not None:
                return claim
            tightened.restart()
        if self.iterations >= self.options.max_iterations:
            return self._claim(Stop.ITERATION_LIMIT, "iteration limit")
        return self._claim(Stop.STALLED, "settled without a proof at every margin")

    def _margins(self) -> Iterator[tuple[float, int]]:
        """Margins to try, each with the iteration at which to give it up."""
        margin, most = self.options.margin, self.options.max_iterations
        while margin > self.options.min_margin * (1.0 + 1e-9):
            yield margin, self.iterations + (most - self.iterations + 2) // 3
            margin *= MARGIN_STEP
        yield self.options.min_margin, most

    def _rounds(self, tightened: Splitting, widened: Splitting, margin: float, limit: int) -> Claim | None:
        """Step and screen until there is a claim, or nothing more to gain at this margin."""
        runs = ((tightened, self._screen_point), (widened, self._screen_certificate))
        while self.iterations < limit and not (tightened.settled and widened.settled):
            steps = min(self.options.screen_every, limit - self.iterations)
            self.iterations += steps
            self._tighten(tightened, margin)
            for run, screen in runs:
                if run.settled:
                    continue
                run.advance(steps, self.inquiry.deadline)
                if screen(run):
                    return self._claim(Stop.FINISHED, f"proof at margin {margin:g}")
                if self.inquiry.deadline.expired:
                    return self._claim(Stop.TIME_LIMIT, "time limit")
                if self.options.adaptive:
                    run.balance()
            if self.inquiry.report(self.iterations, self.point, self.certificate):
                return self._claim(Stop.CALLBACK, "stopped by the callback")
        return None

    def _tighten(self, run: Splitting, margin: float) -> None:
        """Move sets and bounds inwards, relative to the size of the present point."""
        problem = self.problem
        point = run.space.point(run.member)
        room = margin * (self.bounds + term_sizes(problem, point))
        room = np.minimum(room, 0.25 * (problem.upper - problem.lower))
        run.lower = (problem.lower + room) * self.weights
        run.upper = (problem.upper - room) * self.weights
        if problem.equality.any():
            run.sets = run.space.sets(margin)
            run.floors = [
                margin * float(np.linalg.norm(x)) / block.degree if block.cone else 0.0
                for block, x in zip(problem.sets, run.space.blocks(run.member), strict=True)
            ]

    def _screen_point(self, run: Splitting) -> bool:
        """Whether the point of the tightened run settles the inquiry."""
        self.point = self.equations.correct(run.space.point(run.member))
        return self.points.accept(self.point, run)

    def _screen_certificate(self, run: Splitting) -> bool:
        """Whether multipliers of the widened run settle the inquiry."""
        for candidate in run.candidates():
            y = self.cleaner.clean(candidate)
            if y is None:
                continue
            self.certificate = self.scaling.multipliers(y)
            if self.certificates.accept(self.certificate, run):
                return True
        return False

    def _claim(self, stop: Stop, status: str) -> Claim:
        return Claim(self.point, self.certificate, status, stop, self.iterations)


class Admm(FeasibilityBackend):
    """Operator splitting on all sets, with proofs on the way."""

    name = "admm"
    sets = ALL_SETS
    warm_starts = True
    calls_back = True
    Options = AdmmOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a point or a certificate; see :meth:`FeasibilityBackend.solve`."""
        return Search(problem, self.options, inquiry).run()
